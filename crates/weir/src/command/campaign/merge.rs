//! `weir campaign merge`: the result of all shards, verified.

use std::path::PathBuf;

use clap::Args;
use lab::Settings;
use lab::campaign::Campaign;
use sim::Bytes;

use super::work::{Merging, Work};
use crate::experiment::{jobs, memory};
use crate::failure::Failure;
use crate::output::Output;
use crate::{interrupt, store};

/// Verify the shards, and write the result that one machine would have given.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 1 a shard is missing, 3 a file of another build or campaign, 5 a damaged file or \
                        samples of one cell that differ; else those of the command that one machine would have run"
)]
pub(super) struct Merge {
    /// The folder of the campaign
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write the result to a .json[.gz] .html .csv .parquet .md .txt file; of a check, .json
    #[arg(short = 'o', long = "output", value_name = "FILE", required = true)]
    outputs: Vec<PathBuf>,
    /// Merge what is there, and mark the result partial
    #[arg(long)]
    partial: bool,
    /// Run so many drawn cells again here, and compare their bytes
    #[arg(long, value_name = "N")]
    verify: Option<usize>,
    /// With --verify: runs in parallel [default: one for each core]
    #[arg(long, value_name = "N", value_parser = jobs, hide_short_help = true)]
    jobs: Option<usize>,
    /// With --verify: memory that parallel runs may use together [default: nine tenths of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = memory, hide_short_help = true)]
    memory: Option<Bytes>,
}

impl Merge {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        self.outputs.iter().try_for_each(|path| store::check_report(path))?;
        let campaign = Campaign::open(&self.folder)?;
        let settings = Settings {
            jobs: self.jobs.unwrap_or(0),
            memory: self.memory,
            interrupt: interrupt::flag(),
            ..Settings::default()
        };
        let (outputs, partial, verify) = (&self.outputs[..], self.partial, self.verify);
        let how = Merging { outputs, partial, verify, settings };
        Work::of(&campaign, output)?.merge(&campaign, &how, output)
    }
}
