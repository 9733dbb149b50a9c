//! SquirrelFS under the harnesses of `check`, with its fences and lines counted.

mod counts;
mod crash;
mod harness;
mod mapped;
mod model;
mod recall;
mod space;
