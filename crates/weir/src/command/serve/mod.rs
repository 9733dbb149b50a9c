//! `weir serve`: modelled devices for other programs.

mod block;
mod disk;

use clap::{Args, Subcommand};

use crate::failure::Failure;
use crate::output::Output;

/// Serve a modelled device to other programs.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    #[command(subcommand)]
    what: What,
}

/// Everything that can be served.
#[derive(Subcommand, Debug)]
enum What {
    /// Serve a block device: over NBD (network block device) on a Unix socket, or as a file for a loop device
    Block(block::Block),
}

impl Serve {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.what {
            What::Block(block) => block.run(output),
        }
    }
}
