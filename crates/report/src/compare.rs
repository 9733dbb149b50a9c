//! Results of the same cells against each other.

use crate::answer::THRESHOLD;
use crate::axis;
use crate::cell::{self, BOOTSTRAP_SEED, Cell};
use crate::units::{Unit, ratio};
use results::ResultFile;
use results::statistics::{self, Comparison, Verdict};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The schema name of [`Compared`] in JSON.
pub const COMPARE_SCHEMA: &str = "weir.compare/1";

/// The outcome of comparing two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// [`COMPARE_SCHEMA`].
    pub schema: &'static str,
    /// What the user calls the baseline.
    pub baseline: String,
    /// What the user calls the other.
    pub new: String,
    /// Relative differences below this are none.
    pub threshold: f64,
    /// The cells that both have, in the order of the baseline.
    pub cells: Vec<ComparedCell>,
    /// Cells that only the baseline has.
    pub only_in_baseline: u64,
    /// Cells that only the other has.
    pub only_in_new: u64,
}

/// One cell in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedCell {
    /// The cell.
    pub axes: BTreeMap<String, String>,
    /// Median throughput of the baseline.
    pub baseline_ops_per_s: f64,
    /// Median throughput of the other.
    pub new_ops_per_s: f64,
    /// The ratio and what it comes to.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// The schema name of [`ComparedResults`] in JSON.
pub const COMPARISONS_SCHEMA: &str = "weir.comparisons/1";

/// The outcome of comparing several results with several, plan by plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedResults {
    /// [`COMPARISONS_SCHEMA`].
    pub schema: &'static str,
    /// The results of plans that both have, in the order of the baseline.
    pub results: Vec<ComparedResult>,
    /// Names of plans that only the baseline has.
    pub only_in_baseline: Vec<String>,
    /// Names of plans that only the other has.
    pub only_in_new: Vec<String>,
}

/// The results of one plan against each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedResult {
    /// Name of the plan.
    pub name: String,
    /// What became of its cells.
    #[serde(flatten)]
    pub compared: Compared,
}

/// Compares the results of equal names. A single result on each side is compared regardless of names.
pub fn compare_all(
    (baseline_name, baseline): (&str, &[ResultFile]),
    (new_name, new): (&str, &[ResultFile]),
    threshold: Option<f64>,
) -> ComparedResults {
    let alone = baseline.len() == 1 && new.len() == 1;
    let same = |a: &ResultFile, b: &ResultFile| alone || a.name == b.name;
    let missing = |from: &[ResultFile], among: &[ResultFile]| {
        let missing = from.iter().filter(|result| !among.iter().any(|other| same(result, other)));
        missing.map(|result| result.name.clone()).collect()
    };
    let compared = |old: &ResultFile| {
        let twin = new.iter().find(|other| same(old, other))?;
        let compared = compare((baseline_name, old), (new_name, twin), threshold);
        Some(ComparedResult { name: old.name.clone(), compared })
    };
    ComparedResults {
        schema: COMPARISONS_SCHEMA,
        results: baseline.iter().filter_map(compared).collect(),
        only_in_baseline: missing(baseline, new),
        only_in_new: missing(new, baseline),
    }
}

/// Compares the throughput of every cell that both results have. Differences of less than `threshold`
/// (`None` is 2 %) are none.
pub fn compare(
    (baseline_name, baseline): (&str, &ResultFile),
    (new_name, new): (&str, &ResultFile),
    threshold: Option<f64>,
) -> Compared {
    let threshold = threshold.unwrap_or(THRESHOLD);
    let (old_cells, new_cells) = (cell::cells(baseline), cell::cells(new));
    let twin = |cell: &Cell<'_>| new_cells.iter().find(|other| other.axes == cell.axes);
    let pairs = old_cells.iter().filter_map(|old| Some((old, twin(old)?)));
    let both = pairs.clone().count();
    Compared {
        schema: COMPARE_SCHEMA,
        baseline: baseline_name.to_owned(),
        new: new_name.to_owned(),
        threshold,
        cells: pairs.filter_map(|(old, new)| compare_cell(old, new, threshold)).collect(),
        only_in_baseline: (old_cells.len() - both) as u64,
        only_in_new: (new_cells.len() - both) as u64,
    }
}

fn compare_cell(old: &Cell<'_>, new: &Cell<'_>, threshold: f64) -> Option<ComparedCell> {
    let (old_values, new_values) = (old.throughputs(), new.throughputs());
    Some(ComparedCell {
        axes: old.axes.clone(),
        baseline_ops_per_s: statistics::median(&old_values)?,
        new_ops_per_s: statistics::median(&new_values)?,
        comparison: statistics::compare(&old_values, &new_values, threshold, BOOTSTRAP_SEED)?,
    })
}

impl ComparedResults {
    /// All cells that were compared.
    pub fn cells(&self) -> impl Iterator<Item = &ComparedCell> {
        self.results.iter().flat_map(|result| &result.compared.cells)
    }

    /// The only comparison, when each side has one result.
    pub fn single(&self) -> Option<&Compared> {
        match (&self.results[..], &self.only_in_baseline[..], &self.only_in_new[..]) {
            ([one], [], []) => Some(&one.compared),
            _ => None,
        }
    }

    /// Each plan with its name over it, unless there is only one, and what only one side has.
    pub fn to_text(&self) -> String {
        if let Some(one) = self.single() {
            return one.to_text();
        }
        let mut texts: Vec<String> = self
            .results
            .iter()
            .map(|result| format!("{}\n{}", result.name, result.compared.to_text()))
            .collect();
        if self.results.is_empty() {
            texts.push("The two have no plan in common: compare runs of the same plans.\n".to_owned());
        }
        for (names, side) in [(&self.only_in_baseline, "the baseline"), (&self.only_in_new, "the other")] {
            if !names.is_empty() {
                texts.push(format!("Only in {side}, and not compared: {}.\n", names.join(", ")));
            }
        }
        texts.join("\n")
    }
}

impl Compared {
    /// Whether some cell became slower by more than `fraction` (0.05 for 5 %), beyond doubt where there are
    /// repeats. For `--fail-over`.
    pub fn slower_than(&self, fraction: f64) -> bool {
        let over = |cell: &ComparedCell| {
            let change = cell.comparison.change();
            let sure = cell.comparison.verdict != Verdict::Faster
                && !matches!(cell.comparison.verdict, Verdict::NoDifference { .. });
            sure && change < -fraction
        };
        self.cells.iter().any(over)
    }

    /// One sentence for each cell and one for what only one side has.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for cell in &self.cells {
            writeln!(text, "{}\n  {}", name(&cell.axes), self.sentence(&cell.comparison))
                .expect("a string takes every byte");
        }
        if self.cells.is_empty() {
            text += "The two results have no cell in common: compare runs of the same plan.\n";
        }
        for (count, side) in [(self.only_in_baseline, &self.baseline), (self.only_in_new, &self.new)] {
            if count > 0 {
                text += &format!("{count} cells are only in {side} and were not compared.\n");
            }
        }
        text
    }

    fn sentence(&self, comparison: &Comparison) -> String {
        let (old, new) = (&self.baseline, &self.new);
        match comparison.verdict {
            Verdict::Faster => format!("{new} is {} faster than {old}", times(comparison, false)),
            Verdict::Slower => format!("{new} is {} slower than {old}", times(comparison, true)),
            Verdict::NoDifference { at_percent } => format!("no difference detectable at {at_percent:.0} %"),
            _ => single(comparison, old, new),
        }
    }

    /// The document for `--json`.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("our documents have string keys only");
        text + "\n"
    }
}

fn single(comparison: &Comparison, old: &str, new: &str) -> String {
    if comparison.change() == 0.0 {
        return "exactly the same throughput in one run of each".to_owned();
    }
    format!(
        "{new} has {} the throughput of {old} in one run of each; repeat both to judge",
        ratio(comparison.ratio)
    )
}

/// `1.40x (1.35 to 1.45)`; upside down for slower, so that the number is above 1.
fn times(comparison: &Comparison, slower: bool) -> String {
    let turn = |value: f64| if slower { 1.0 / value } else { value };
    let centre = turn(comparison.ratio);
    comparison.interval.map_or_else(
        || ratio(centre),
        |interval| {
            let (a, b) = (turn(interval.low), turn(interval.high));
            Unit::Ratio.human_interval(centre, a.min(b), a.max(b))
        },
    )
}

fn name(axes: &BTreeMap<String, String>) -> String {
    let parts: Vec<String> = axes
        .iter()
        .map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[])))
        .collect();
    parts.join(", ")
}
