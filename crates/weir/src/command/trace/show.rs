//! `weir trace show`: a trace as text.

use std::path::PathBuf;

use clap::Args;
use trace::{Ending, Reader, Writer};

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Print a trace as text
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The trace
    #[arg(value_name = "TRACE")]
    file: PathBuf,
    /// Print so many records at most
    #[arg(long, value_name = "N")]
    records: Option<u64>,
}

/// Lines that are printed at once.
const LINES: u64 = 1000;

impl Show {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if output.is_json() {
            return Err(Failure::usage("a trace has no JSON form; `weir trace stat --json` has its sums"));
        }
        let mut reader = Reader::open(&self.file)?;
        let mut text = Vec::new();
        let unwritten = |error: std::io::Error| Failure::new(Exit::Internal, error.to_string());
        let mut writer = Writer::new(&mut text, reader.head(), false).map_err(unwritten)?;
        let mut left = self.records.unwrap_or(u64::MAX);
        while left > 0 {
            let Some(record) = reader.next()? else { break };
            writer.write(&record).map_err(unwritten)?;
            left -= 1;
            if left.is_multiple_of(LINES) {
                writer.flush().map_err(unwritten)?;
                output.data(&String::from_utf8_lossy(writer.get_ref()));
                writer.get_mut().clear();
            }
        }
        writer.flush().map_err(unwritten)?;
        output.data(&String::from_utf8_lossy(writer.get_ref()));
        if let Ending::Cut(line) = reader.ending() {
            output.note(&super::stat::cut_note(&self.file, line));
        }
        Ok(())
    }
}
