//! `weir report`: results in any format.

use std::path::{Path, PathBuf};

use ::report::{FORMATS, Format, grains};
use clap::Args;

use crate::failure::Failure;
use crate::output::Output;
use crate::{bundle, experiment, store};

/// Show results as tables, JSON, CSV, Markdown or one HTML page.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir report result.json -o report.html -o samples.csv · weir report latest --tables DIR · \
                  weir report latest --as folded > x.folded · weir report latest --bundle result.tar.gz"
)]
pub(crate) struct Report {
    /// Results: files, folders of runs, or names of runs in the data folder
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<String>,
    /// Write a file instead, in the format of its ending (`weir list formats`) or of --as: .html .json[.gz] .csv .parquet .md …
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
    /// Write each chart as SVG and PDF, and the numbers of each figure as CSV, into this folder
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
    /// Write a tidy table for each grain into this folder: samples, operations, calls, times, counters, events, workers, jobs,
    /// series, histograms, settings; columns says what each column is
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
    /// Print the results in this format, or write the files of -o in it; with --tables: csv (the default) or parquet
    #[arg(long = "as", value_name = "FORMAT", hide_short_help = true, value_parser = format_name)]
    format: Option<String>,
    /// Was removed; --tables has the numbers.
    #[arg(long, hide = true)]
    wide: bool,
    /// Write an archive with results, page, plan, scripts, machine and media; `weir run --like FILE` runs its plan again
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

impl Report {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let results = self.results.iter().map(|name| store::read(name)).collect::<Result<Vec<_>, _>>()?;
        let report = ::report::Report::new(results.concat())?;
        if self.wide {
            return Err(Failure::usage(
                "the wide table was removed: --tables DIR has its numbers, a file for each grain",
            ));
        }
        self.write_files(&report, output)?;
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
            self.write_tables(&report, folder, output)?;
        }
        if let Some(path) = &self.bundle {
            store::check_file(path)?;
            bundle::write(&report, path)?;
            output.note(&format!("bundle   {}", path.display()));
        }
        let written = [&self.figures, &self.tables, &self.bundle].iter().any(|path| path.is_some());
        if self.outputs.is_empty() && !written { self.print(&report, output) } else { Ok(()) }
    }

    /// Writes the files of `-o`.
    fn write_files(&self, report: &::report::Report, output: &Output) -> Result<(), Failure> {
        for path in &self.outputs {
            match self.format()? {
                Some(format) => store::write_as(report, format, path, output)?,
                None => store::write_report(report, path, output)?,
            }
            output.note(&format!("report   {}", path.display()));
        }
        Ok(())
    }

    /// The format of `--as`, in builds that can write it.
    fn format(&self) -> Result<Option<&'static dyn Format>, Failure> {
        let Some(format) = self.format.as_deref().and_then(::report::by_name) else { return Ok(None) };
        format.left_out().map_or(Ok(Some(format)), |why| Err(Failure::usage(why)))
    }

    fn write_tables(&self, report: &::report::Report, folder: &Path, output: &Output) -> Result<(), Failure> {
        let format = self.format.as_deref().unwrap_or("csv");
        if !["csv", "parquet"].contains(&format) {
            return Err(Failure::usage(format!(
                "tables are csv or parquet, not {format}: leave --tables or --as out"
            )));
        }
        if let Some(why) = ::report::by_name(format).and_then(::report::Format::left_out) {
            return Err(Failure::usage(why));
        }
        make(folder)?;
        let tables = grains::of(report);
        for table in &tables {
            store::write_table(table, format, &folder.join(format!("{}.{format}", table.name)))?;
        }
        output.note(&format!("tables   {} files in {}", tables.len(), folder.display()));
        Ok(())
    }

    /// Prints the results in the format of `--as`, or as a command that measures does.
    fn print(&self, report: &::report::Report, output: &Output) -> Result<(), Failure> {
        let Some(format) = self.format()? else { return experiment::print(report, output) };
        let name = format.name();
        if output.is_json() {
            return Err(Failure::usage(format!(
                "--json and --as {name} are two formats of one output: leave one out"
            )));
        }
        let text = String::from_utf8(format.bytes(report)?)
            .map_err(|_| Failure::usage(format!("{name} is not text: name a file with -o FILE")))?;
        if let Some(skipped) = format.skips(report) {
            output.note(&skipped);
        }
        output.data(&text);
        Ok(())
    }
}

/// A name that `--as` takes.
fn format_name(text: &str) -> Result<String, String> {
    let names = || FORMATS.iter().map(|format| format.name());
    if names().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let known = || format!("expected one of {}", names().collect::<Vec<_>>().join(", "));
    Err(::report::format::replacement(text).map_or_else(known, str::to_owned))
}

fn make(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::io("make the folder", folder, &error))
}
