//! `weir compare`: results cell by cell, or the cells of one result across an axis; and whether anything became slower.
//!
//! | exit code | means |
//! |---:|---|
//! | 0 | compared; with `--fail-over`, no cell is slower by more than that, beyond its noise |
//! | 1 | nothing in common; with `--fail-over`, a cell is slower or has failed |
//! | 2 | usage: no such result, no such axis |

use std::path::{Path, PathBuf};

use ::report::{ComparedResults, Gate};
use clap::Args;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store;

/// Compare results cell by cell; several results, plan by plan.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir compare main new.json --fail-over 5% · weir compare result.json --by medium"
)]
pub(crate) struct Compare {
    /// The baseline: a file, a folder of a run, or the name of a baseline or run
    baseline: String,
    /// The result to compare with the baseline; not given with --by
    #[arg(required_unless_present = "by", conflicts_with = "by")]
    new: Option<String>,
    /// Compare those cells of BASELINE that differ in this axis only
    #[arg(long, value_name = "AXIS")]
    by: Option<String>,
    /// Report smaller differences as no difference
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "2%")]
    threshold: f64,
    /// Fail (exit code 1) when a cell is slower by more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_over: Option<f64>,
    /// Write the comparison in the format of the file's ending: .html .json .txt
    #[arg(short, long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
}

/// The endings of files that a comparison is written into.
const ENDINGS: [&str; 3] = ["html", "json", "txt"];

/// `5%` or `5` is 0.05.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim().parse::<f64>().ok().filter(|n| (0.0..=100.0).contains(n));
    number.map(|number| number / 100.0).ok_or_else(|| "expected a percentage such as 5%".to_owned())
}

impl Compare {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        self.outputs.iter().try_for_each(|path| ending(path).map(drop))?;
        let compared = self.compare()?;
        match (output.is_json(), compared.single()) {
            (false, _) => output.data(&compared.to_text()),
            (true, Some(one)) => output.document(one),
            (true, None) => output.document(&compared),
        }
        for path in &self.outputs {
            write(&compared, path)?;
            output.note(&format!("comparison  {}", path.display()));
        }
        if compared.is_empty() && compared.gate(0.0).failed == 0 {
            let message =
                "nothing was compared: the two have no cell in common; compare runs of the same plan";
            return Err(Failure::new(Exit::Check, message));
        }
        self.fail_over.map_or(Ok(()), |limit| judge(compared.gate(limit), limit, output))
    }

    fn compare(&self) -> Result<ComparedResults, Failure> {
        let baseline = store::read(&self.baseline)?;
        if let Some(axis) = &self.by {
            let [only] = &baseline[..] else {
                let names: Vec<_> = baseline.iter().map(|result| result.name.as_str()).collect();
                let (file, names) = (&self.baseline, names.join(", "));
                return Err(Failure::usage(format!(
                    "{file} holds several results ({names}): give the file of one"
                )));
            };
            return ::report::compare_by(only, axis, Some(self.threshold)).map_err(Failure::usage);
        }
        let name = self.new.as_deref().expect("it is required without --by");
        let new = store::read(name)?;
        Ok(::report::compare_all((&self.baseline, &baseline), (name, &new), Some(self.threshold)))
    }
}

/// Fails when a cell is slower or has none of its numbers; says when noise would hide it.
fn judge(gate: Gate, limit: f64, output: &Output) -> Result<(), Failure> {
    let percent = limit * 100.0;
    if gate.blind > 0 {
        output.note(&format!(
            "{} {} too noisy to show a change of {percent:.1} %: take more repeats",
            gate.blind,
            if gate.blind == 1 { "cell is" } else { "cells are" }
        ));
    }
    let mut faults = Vec::new();
    if gate.slower > 0 {
        let (slower, is) = (gate.slower, if gate.slower == 1 { "cell is" } else { "cells are" });
        faults.push(format!("{slower} {is} slower by more than {percent:.1} %"));
    }
    if gate.failed > 0 {
        let (failed, cells) = (gate.failed, if gate.failed == 1 { "cell" } else { "cells" });
        faults.push(format!("{failed} {cells} failed in the new result"));
    }
    if faults.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Check, faults.join("; "))) }
}

fn ending(path: &Path) -> Result<&'static str, Failure> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    let known = ENDINGS.into_iter().find(|ending| *ending == extension);
    known.ok_or_else(|| {
        Failure::usage(format!("{}: the name must end in .html, .json or .txt", path.display()))
    })
}

fn write(compared: &ComparedResults, path: &Path) -> Result<(), Failure> {
    let text = match ending(path)? {
        "html" => ::report::format::difference_html(compared)?,
        "json" => serde_json::to_string_pretty(compared).expect("our documents have string keys only") + "\n",
        _ => compared.to_text(),
    };
    results::file::write_atomic(path, &text).map_err(Failure::from)
}
