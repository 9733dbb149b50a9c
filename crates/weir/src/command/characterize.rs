//! `weir characterize`: which events of processors go with throughput, in results whose samples have counted them.

use std::path::PathBuf;

use ::report::{Report, characterize};
use clap::Args;

use crate::failure::Failure;
use crate::output::Output;
use crate::store;

/// Show which events of processors go with throughput, in results of `weir bench --counters`.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir bench varmail --fs pmfs,nova --medium dram --counters both --threads 1,2 \
                  --repeats 15; weir characterize latest -o events.html"
)]
pub(crate) struct Characterize {
    /// Results with counters, of any suite, design or mount: files, folders of runs, or names of runs in the data folder
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<String>,
    /// Write a page with the coefficients, and the points behind each, or a file of another format (`weir list formats`)
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

impl Characterize {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let results = self.results.iter().map(|name| store::read(name)).collect::<Result<Vec<_>, _>>()?;
        let report = Report::new(results.concat())?;
        let counted = || {
            report.sections.iter().map(|section| &section.results).filter(|one| characterize::has_events(one))
        };
        if counted().next().is_none() {
            return Err(Failure::usage(
                "no sample of these results has counted events: measure with `weir bench … --counters both`",
            ));
        }
        for path in &self.outputs {
            store::write_report(&report, path, output)?;
            output.note(&format!("report   {}", path.display()));
        }
        if output.is_json() {
            let results: Vec<_> = counted().map(characterize::document).collect();
            output.document(&serde_json::json!({ "schema": "weir.characterize/1", "results": results }));
            return Ok(());
        }
        for result in counted() {
            for table in characterize::tables(result) {
                output.data(&format!("{}\n", table.to_text()));
            }
            output.data(&format!("{}\n", characterize::sentences(result).join("\n")));
        }
        Ok(())
    }
}
