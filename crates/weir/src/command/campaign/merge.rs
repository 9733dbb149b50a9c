//! `weir campaign merge`: the result of all shards, verified.

use std::path::PathBuf;

use clap::Args;
use lab::campaign::{Campaign, gather, manifest};
use lab::{Plan, Runner, Settings};
use report::Report;
use sim::Bytes;

use super::duration;
use crate::experiment::{self, jobs, memory};
use crate::failure::Failure;
use crate::output::{Output, several};
use crate::progress::Bar;
use crate::{interrupt, store};

/// Verify the shards, and write the result that one machine would have given.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 1 a shard is missing, 3 a file of another build or campaign, 5 a damaged file or \
                        samples of one cell that differ; else as `weir run`"
)]
pub(super) struct Merge {
    /// The folder of the campaign
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write the result to a .json[.gz] .html .csv .parquet .md .txt file
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
        let plans = super::plans(&campaign)?;
        let cells = manifest::cells(&campaign.manifest, &plans)?;
        let gathered = gather::gather(&campaign, &cells, self.partial)?;
        if let Some(count) = self.verify {
            let bar = Bar::new(output.shows_progress(), output.tells_progress());
            let settings = Settings {
                jobs: self.jobs.unwrap_or(0),
                memory: self.memory,
                interrupt: interrupt::flag(),
                ..Settings::default()
            };
            let mut runner = Runner::new(settings, &bar);
            let titles = gathered.verify((&campaign, &plans), &cells, count, &mut runner)?;
            output.note(&format!("the same bytes here: {}", titles.join(", ")));
        }
        let mut results = gathered.results(&plans)?;
        for (result, record) in results.iter_mut().zip(&campaign.manifest.plans) {
            // Where a text was replaced by a file of the folder, the plan goes on by the name that it had.
            result.plan = Plan::from_json(&record.plan)?.to_json();
            result.inputs.clone_from(&record.inputs);
            result.command = experiment::command();
        }
        output.note(&format!(
            "{} of {} cells, {} of processor time on {}; {} came again with the same bytes",
            gathered.found.len(),
            cells.len(),
            duration(gathered.cpu_ns()),
            several(gathered.hosts.len(), "host"),
            several(gathered.repeated, "sample"),
        ));
        let report = Report::new(results)?;
        for path in &self.outputs {
            store::write_report(&report, path, output)?;
            output.note(&format!("result   {}", path.display()));
        }
        experiment::print(&report, output)?;
        match experiment::end_of(&report) {
            // It was asked for.
            Err(failure) if self.partial && failure.exit == crate::failure::Exit::Interrupted => {
                output.note("the result is partial: cells are missing");
                Ok(())
            }
            ended => ended,
        }
    }
}
