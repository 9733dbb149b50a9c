//! Writes a page of invented data, for looking at the page and for the browser test. Nothing in it was
//! measured, and the page says so.
//!
//! `cargo run -p weir-report --example sample_page -- FILE.html [FORMAT]`

#[path = "../tests/it/sample/mod.rs"]
mod sample;

use report::{Report, by_name};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: sample_page FILE [FORMAT]")?;
    let format = arguments.next().unwrap_or_else(|| "html".to_owned());
    let mut results = vec![sample::bars()];
    results.extend(sample::lines());
    results.push(sample::program());
    let format = by_name(&format).ok_or("no such format")?;
    results::file::write_atomic(path.as_ref(), &format.render(&Report::new(results)?)?)?;
    Ok(())
}
