//! What `run`, `bench` and `reproduce` share: running plans with progress and Ctrl-C, and writing results.

use std::path::PathBuf;

use clap::Args;
use lab::{Plan, Runner, Settings};
use report::Report;
use results::ResultFile;
use sim::Bytes;

use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Bar;
use crate::store;

/// How to run, and where results go.
#[derive(Args, Debug, Clone)]
pub(crate) struct How {
    /// Write a report; its ending is the format: .html .json .csv .md .txt
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(crate) outputs: Vec<PathBuf>,
    /// Where all randomness starts [default: the plan's]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Runs side by side under the virtual clock [default: all cores]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, hide_short_help = true)]
    pub(crate) jobs: usize,
    /// Memory that runs side by side may take together [default: nine tenths of what is free]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub(crate) memory: Option<Bytes>,
    /// Keep the unmounted image of each cell in this folder
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) save_image: Option<PathBuf>,
    /// Check each image, and every file's content, after its run
    #[arg(long)]
    pub(crate) check: bool,
}

impl How {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            jobs: self.jobs,
            memory: self.memory,
            save_image: self.save_image.clone(),
            check: self.check,
            interrupt: interrupt::flag(),
        }
    }

    /// Runs the plans together. After an interrupt the results so far are marked partial.
    pub(crate) fn run(&self, plans: &[Plan], output: &Output) -> Result<Vec<ResultFile>, Failure> {
        let plans: Vec<Plan> =
            plans.iter().cloned().map(|plan| Plan { seed: self.seed.unwrap_or(plan.seed), ..plan }).collect();
        for plan in &plans {
            check_figures(plan)?;
            plan.cells()?;
        }
        self.outputs.iter().try_for_each(|path| store::format_of(path).map(drop))?;
        store::prepare()?;
        let settings = self.settings();
        let bar = Bar::new(output.shows_progress());
        let mut runner = Runner::new(settings, &bar);
        for plan in &plans {
            output.detail(&format!("plan {}: {}", plan.name, plan.why));
        }
        let mut results = runner.run_all(&plans)?;
        for result in &mut results {
            result.command = command();
        }
        Ok(results)
    }

    /// Keeps the results in the data folder, writes the reports that were asked for, and says where they are.
    pub(crate) fn keep(
        &self,
        name: &str,
        results: Vec<ResultFile>,
        output: &Output,
    ) -> Result<Report, Failure> {
        let seed = results.first().map_or(0, |result| result.seed);
        let folder = store::new_folder(name, seed)?;
        for result in &results {
            let file =
                if results.len() == 1 { "result.json".to_owned() } else { format!("{}.json", result.name) };
            result.write(folder.join(file))?;
        }
        let report = Report::new(results)?;
        store::write_report(&report, &folder.join("report.html"))?;
        for path in &self.outputs {
            store::write_report(&report, path)?;
        }
        output.note(&format!("results  {}", folder.display()));
        let page = self.outputs.iter().find(|path| path.extension().is_some_and(|e| e == "html"));
        let page = page.cloned().unwrap_or_else(|| folder.join("report.html"));
        output.note(&format!("report   {}", page.display()));
        Ok(report)
    }
}

/// Ends with the code of an interrupt when results are partial.
pub(crate) fn end(results: &Report) -> Result<(), Failure> {
    if results.sections.iter().any(|section| section.results.partial) {
        return Err(Failure::new(
            Exit::Interrupted,
            "interrupted; the results so far are written, marked partial",
        ));
    }
    Ok(())
}

/// Figures are checked before anything runs, as everything else in a plan.
pub(crate) fn check_figures(plan: &Plan) -> Result<(), Failure> {
    let figures = report::FigureSpec::list(&plan.to_json());
    figures.map(drop).map_err(|error| Failure::usage(format!("plan {}: {error}", plan.name)))
}

/// The command as it was given, without this host's paths.
pub(crate) fn command() -> String {
    let plain = |argument: String| match std::path::Path::new(&argument) {
        path if path.is_absolute() => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        _ => argument,
    };
    let arguments: Vec<String> = std::env::args().skip(1).map(plain).collect();
    format!("weir {}", arguments.join(" "))
}

/// Prints the report: tables for people, or the results as JSON.
pub(crate) fn print(report: &Report, output: &Output) -> Result<(), Failure> {
    let name = if output.is_json() { "json" } else { "terminal" };
    let format = report::by_name(name).expect("both formats are built in");
    output.data(&format.render(report)?);
    Ok(())
}
