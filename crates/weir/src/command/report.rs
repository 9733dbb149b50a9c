//! `weir report`: results in any format.

use std::path::PathBuf;

use clap::Args;

use crate::failure::Failure;
use crate::output::Output;
use crate::{bundle, experiment, store};

/// Show results as tables, JSON, CSV, Markdown or one HTML page.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir report result.json -o report.html -o table.csv · weir report latest --bundle result.tar.gz"
)]
pub(crate) struct Report {
    /// Results: files, folders of runs, or names of runs in the data folder
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<String>,
    /// Write a file instead, in the format of its ending: .html .json[.gz] .csv .parquet .md .txt
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
    /// Write each chart as SVG and PDF, and the numbers of each figure as CSV, into this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Write an archive with results, page, plan, scripts, machine and media; `weir run --like FILE` runs its plan again
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

impl Report {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let results = self.results.iter().map(|name| store::read(name)).collect::<Result<Vec<_>, _>>()?;
        let report = ::report::Report::new(results.concat())?;
        for path in &self.outputs {
            store::write_report(&report, path)?;
            output.note(&format!("report   {}", path.display()));
        }
        if let Some(folder) = &self.figures {
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::io("make the folder", folder, &error))?;
            let exported = ::report::export::figures(&report)?;
            for file in &exported.files {
                results::file::write_atomic(&folder.join(&file.name), &file.bytes)?;
            }
            output.note(&format!("figures  {} files in {}", exported.files.len(), folder.display()));
            if let Some(why) = exported.without_pdf {
                output.note(&format!("no PDF: {why}"));
            }
        }
        if let Some(path) = &self.bundle {
            store::check_file(path)?;
            bundle::write(&report, path)?;
            output.note(&format!("bundle   {}", path.display()));
        }
        if self.outputs.is_empty() && self.figures.is_none() && self.bundle.is_none() {
            experiment::print(&report, output)
        } else {
            Ok(())
        }
    }
}
