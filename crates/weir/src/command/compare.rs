//! `weir compare`: results cell by cell, or the cells of one result across an axis; and whether anything became slower.
//!
//! | exit code | means |
//! |---:|---|
//! | 0 | compared; with `--fail-over`, no cell is slower by more than that, beyond its noise, none failed, none is gone |
//! | 1 | nothing in common; with `--fail-over`, a cell is slower, has failed or is gone |
//! | 2 | usage: no such result, no such axis, results of two clocks without `--by clock` |
//! | 4 | the comparison could not be written |

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::report::compare::ComparedResult;
use ::report::{ComparedResults, Gate, Measure};
use clap::Args;
use results::{Clock, ResultFile};

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::store;

const EXAMPLES: &str =
    "Examples: weir compare main new.json --fail-over 5% · weir compare result.json --by medium";

const EXIT_CODES: &str = "

Exit codes:
  0  compared; with --fail-over, no cell is slower by more than PERCENT, none failed, none is gone
  1  no cell in common; with --fail-over, a cell is slower by more than PERCENT, more of its runs
     failed than in the baseline, or NEW does not have it
  2  a usage error: no such result, no such axis, results of two clocks without --by clock
  4  the comparison could not be written";

/// The word for `--by` that compares the clocks.
const CLOCK: &str = "clock";

/// Compare results cell by cell; several results, plan by plan.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}{EXIT_CODES}"))]
pub(crate) struct Compare {
    /// The baseline: a file, a folder of a run, or the name of a baseline or run
    baseline: String,
    /// The result to compare with the baseline; not given with --by AXIS
    #[arg(required_unless_present = "by")]
    new: Option<String>,
    /// Compare those cells of BASELINE that differ in this axis only; `clock`: results of the two clocks
    #[arg(long, value_name = "AXIS")]
    by: Option<String>,
    /// Compare by throughput, or by a quantile of the calls' latency: p50, p90, p95, p99, p99.9, p99.99
    #[arg(long, value_name = "METRIC", default_value = "throughput", hide_default_value = true)]
    metric: Measure,
    /// Report smaller differences as no difference; a smaller --fail-over replaces this limit
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "2%")]
    threshold: f64,
    /// Fail (exit code 1) when a cell is slower by more than this, fails more often, or is gone
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
    number
        .map(|number| number / 100.0)
        .ok_or_else(|| "expected a percentage from 0% to 100%, such as 5%".to_owned())
}

impl Compare {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        self.outputs.iter().try_for_each(|path| ending(path).map(drop))?;
        let compared = self.compare()?.by(self.metric);
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
        let Some(limit) = self.fail_over else { return Ok(()) };
        let gate = compared.gate(limit);
        // What only one value of an axis has is the plan's choice.
        let gate = if self.by.is_some() { Gate { gone: 0, gone_results: 0, ..gate } } else { gate };
        judge(gate, limit, output)
    }

    /// The results of a name, with what is compared.
    fn read(&self, name: &str) -> Result<Vec<ResultFile>, Failure> {
        let mut results = store::read(name)?;
        for result in &mut results {
            self.metric.prepare(result);
        }
        Ok(results)
    }

    fn compare(&self) -> Result<ComparedResults, Failure> {
        let baseline = self.read(&self.baseline)?;
        // A difference as large as the limit must not be called none.
        let threshold = Some(self.fail_over.map_or(self.threshold, |limit| limit.min(self.threshold)));
        if self.by.as_deref() == Some(CLOCK) {
            return self.by_clock(baseline, threshold);
        }
        if let Some(axis) = &self.by {
            if let Some(new) = &self.new {
                let message =
                    format!("--by {axis} compares cells of {} alone: leave {new} out", self.baseline);
                return Err(Failure::usage(message));
            }
            let [only] = &baseline[..] else {
                let names: Vec<_> = baseline.iter().map(|result| result.name.as_str()).collect();
                let (file, names) = (&self.baseline, names.join(", "));
                return Err(Failure::usage(format!(
                    "{file} holds several results ({names}): give the file of one"
                )));
            };
            return ::report::compare_by(only, axis, threshold).map_err(Failure::usage);
        }
        let name = self.new.as_deref().expect("it is required without --by");
        let new = self.read(name)?;
        if let Some(why) = ::report::prices::apart((&self.baseline, &baseline), (name, &new)) {
            return Err(Failure::usage(why));
        }
        let compared = ::report::compare_all((&self.baseline, &baseline), (name, &new), threshold);
        let differ = |result: &&ComparedResult| result.compared.clocks[0] != result.compared.clocks[1];
        match compared.results.iter().find(differ) {
            None => Ok(compared),
            Some(result) => {
                let [old, new] = result.compared.clocks;
                Err(Failure::usage(format!(
                    "{} ran under the {old} clock and {name} under the {new} clock: give --by {CLOCK} to compare the two clocks",
                    self.baseline
                )))
            }
        }
    }

    /// The results of the virtual clock against those of the real one, by the names that `--clock both` gave them.
    fn by_clock(
        &self,
        baseline: Vec<ResultFile>,
        threshold: Option<f64>,
    ) -> Result<ComparedResults, Failure> {
        let new = self.new.as_ref().map_or(Ok(Vec::new()), |name| self.read(name))?;
        let mut sides = [Clock::Virtual, Clock::Real].map(|clock| (clock, Vec::new()));
        for mut result in baseline.into_iter().chain(new) {
            without_medium(&mut result);
            if let Some(len) = result.name.strip_suffix(&format!("-{}", result.clock)).map(str::len) {
                result.name.truncate(len);
            }
            let side = sides.iter_mut().find(|(clock, _)| *clock == result.clock);
            side.expect("there are two clocks").1.push(result);
        }
        if let Some((clock, _)) = sides.iter().find(|(_, results)| results.is_empty()) {
            return Err(Failure::usage(format!(
                "no result is of the {clock} clock: give a run of `weir bench --clock both`, or one result of each clock"
            )));
        }
        let [virtually, really] = &sides;
        Ok(::report::compare_all(("virtual", &virtually.1), ("real", &really.1), threshold))
    }
}

/// Leaves the medium out of cells of models of the kernel's file systems: the real ones, which have the same names, have none of
/// Weir's media. Cells of several media stay apart.
fn without_medium(result: &mut results::ResultFile) {
    let is_model = |sample: &results::Sample| sample.axis("fs").is_some_and(|fs| fs.starts_with("linux/"));
    let models = || result.samples.iter().filter(|sample| is_model(sample));
    let media: BTreeSet<_> = models().map(|sample| sample.axis("medium")).collect();
    if media.len() == 1 {
        for sample in result.samples.iter_mut().filter(|sample| is_model(sample)) {
            sample.axes.remove("medium");
        }
    }
}

/// Fails when a cell is slower, failed more often or is gone; says when noise would hide it.
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
    for (gone, one, several) in [(gate.gone, "cell", "cells"), (gate.gone_results, "result", "results")] {
        if gone > 0 {
            let (what, is) = if gone == 1 { (one, "is") } else { (several, "are") };
            faults.push(format!("{gone} {what} of the baseline {is} not in the new result"));
        }
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
