//! `weir report`: results in any format.

use std::path::{Path, PathBuf};

use ::report::grains;
use clap::Args;

use crate::failure::Failure;
use crate::output::Output;
use crate::{bundle, experiment, store};

/// Show results as tables, JSON, CSV, Markdown or one HTML page.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir report result.json -o report.html -o samples.csv · weir report latest --tables DIR · \
                  weir report latest --bundle result.tar.gz"
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
    /// Write a tidy table for each grain into this folder: samples, operations, calls, times, counters, workers, jobs, series,
    /// histograms, settings; columns says what each column is
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// Format of --tables
    #[arg(long = "as", value_name = "FORMAT", default_value = "csv", requires = "tables",
        value_parser = ["csv", "parquet"])]
    tables_as: String,
    /// With -o FILE.csv or FILE.parquet: the wide table of earlier versions, in which rows of calls stand below those of samples
    #[arg(long)]
    wide: bool,
    /// Write an archive with results, page, plan, scripts, machine and media; `weir run --like FILE` runs its plan again
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

impl Report {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let results = self.results.iter().map(|name| store::read(name)).collect::<Result<Vec<_>, _>>()?;
        let report = ::report::Report::new(results.concat())?;
        if self.wide && self.outputs.iter().all(|path| store::table_format(path).is_none()) {
            return Err(Failure::usage("--wide needs -o FILE.csv or -o FILE.parquet".to_owned()));
        }
        for path in &self.outputs {
            match store::table_format(path).filter(|_| self.wide) {
                Some(format) => store::write_table(&grains::wide(&report), format, path)?,
                None => store::write_report(&report, path)?,
            }
            output.note(&format!("report   {}", path.display()));
        }
        if let Some(folder) = &self.figures {
            make(folder)?;
            let exported = ::report::export::figures(&report)?;
            for file in &exported.files {
                results::file::write_atomic(&folder.join(&file.name), &file.bytes)?;
            }
            output.note(&format!("figures  {} files in {}", exported.files.len(), folder.display()));
            if let Some(why) = exported.without_pdf {
                output.note(&format!("no PDF: {why}"));
            }
        }
        if let Some(folder) = &self.tables {
            make(folder)?;
            let tables = grains::of(&report);
            for table in &tables {
                let path = folder.join(format!("{}.{}", table.name, self.tables_as));
                store::write_table(table, &self.tables_as, &path)?;
            }
            output.note(&format!("tables   {} files in {}", tables.len(), folder.display()));
        }
        if let Some(path) = &self.bundle {
            store::check_file(path)?;
            bundle::write(&report, path)?;
            output.note(&format!("bundle   {}", path.display()));
        }
        let written = [&self.figures, &self.tables, &self.bundle].iter().any(|path| path.is_some());
        if self.outputs.is_empty() && !written { experiment::print(&report, output) } else { Ok(()) }
    }
}

fn make(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::io("make the folder", folder, &error))
}
