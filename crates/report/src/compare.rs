//! Results of the same cells against each other, and in what besides their cells they differ.

mod measure;
mod setup;

pub use measure::Measure;

use crate::answer::THRESHOLD;
use crate::axis;
use crate::cell::{self, Cell};
use crate::prices;
use crate::units::ratio;
use results::statistics::{self, Comparison, Verdict};
use results::{Clock, ResultFile};
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
    /// The clocks of the baseline and of the other.
    pub clocks: [Clock; 2],
    /// In what the two differ besides their code, and on which side the host was busy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// By what they are compared, where that is not the throughput: rates are then those of calls that take so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    #[serde(skip)]
    pub(crate) measure: Measure,
    /// The cells that both have, in the order of the baseline.
    pub cells: Vec<ComparedCell>,
    /// Cells of which one side has failed runs, with or without others that have numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedCell>,
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
    /// The values of axes that are numbers, sizes in bytes or times in ns.
    pub quantities: BTreeMap<String, f64>,
    /// Median throughput of the baseline.
    pub baseline_ops_per_s: f64,
    /// Median throughput of the other.
    pub new_ops_per_s: f64,
    /// Runs of the baseline and of the other.
    pub runs: [usize; 2],
    /// The ratio and what it comes to.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// A cell of which runs failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedCell {
    /// The cell.
    pub axes: BTreeMap<String, String>,
    /// The side on which it failed.
    pub side: String,
    /// Whether that is the new one.
    pub in_new: bool,
    /// How many of its runs there failed, and how many there are.
    pub runs: [usize; 2],
    /// Why.
    pub what: String,
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
    (new_name, new_result): (&str, &ResultFile),
    threshold: Option<f64>,
) -> Compared {
    let (old, new) = (cell::cells(baseline), cell::cells(new_result));
    let (old, new): (Vec<&Cell<'_>>, Vec<&Cell<'_>>) = (old.iter().collect(), new.iter().collect());
    let threshold = threshold.unwrap_or(THRESHOLD);
    let mut compared = pair(&old, &new, (baseline_name, new_name), threshold, &|cell| cell.axes.clone());
    compared.clocks = [baseline.clock, new_result.clock];
    compared.notes.splice(..0, setup::differences((baseline_name, baseline), (new_name, new_result)));
    compared
}

/// Compares, within a result, the cells that differ in `axis` only: each of its values with the first.
pub fn compare_by(
    result: &ResultFile,
    axis: &str,
    threshold: Option<f64>,
) -> Result<ComparedResults, String> {
    let threshold = threshold.unwrap_or(THRESHOLD);
    let cells = cell::cells(result);
    let all = cell::all_axes(&cells);
    if axis == results::prices::AXIS {
        return Err("results of different prices are not compared".to_owned());
    }
    if let Some(why) =
        prices::unranked(result).filter(|_| axis == crate::axis::design_axis(all.keys().copied()))
    {
        return Err(why);
    }
    let values = match all.get(axis).map(Vec::as_slice) {
        Some([first, rest @ ..]) if !rest.is_empty() => (*first, rest.to_vec()),
        Some(_) => {
            return Err(format!(
                "every cell of {} has the same {axis}: there is nothing to compare",
                result.name
            ));
        }
        None => {
            let known = all.into_keys().collect::<Vec<_>>().join(", ");
            return Err(format!("the cells of {} have no axis \"{axis}\"; they have {known}", result.name));
        }
    };
    let of = |value: &str| -> Vec<&Cell<'_>> {
        cells.iter().filter(|cell| cell.axis(axis) == Some(value)).collect()
    };
    let base = of(values.0);
    let against = |value: &str| {
        let new = of(value);
        let rest = |cell: &Cell<'_>| {
            let mut axes = cell.axes.clone();
            axes.remove(axis);
            axes
        };
        let mut compared = pair(&base, &new, (values.0, value), threshold, &rest);
        compared.clocks = [result.clock; 2];
        ComparedResult { name: format!("{} by {}", result.name, axis::title(axis)), compared }
    };
    Ok(ComparedResults {
        schema: COMPARISONS_SCHEMA,
        results: values.1.iter().map(|value| against(value)).collect(),
        only_in_baseline: Vec::new(),
        only_in_new: Vec::new(),
    })
}

/// Compares the cells of two sides whose axes, as `place` sees them, are equal.
fn pair(
    old: &[&Cell<'_>],
    new: &[&Cell<'_>],
    (baseline, other): (&str, &str),
    threshold: f64,
    place: &dyn Fn(&Cell<'_>) -> BTreeMap<String, String>,
) -> Compared {
    let twin = |cell: &Cell<'_>| new.iter().copied().find(|other| place(other) == place(cell));
    let pairs: Vec<(&Cell<'_>, &Cell<'_>)> = old.iter().filter_map(|old| Some((*old, twin(old)?))).collect();
    let mut compared = Compared {
        schema: COMPARE_SCHEMA,
        baseline: baseline.to_owned(),
        new: other.to_owned(),
        threshold,
        clocks: [Clock::Virtual; 2],
        notes: Vec::new(),
        metric: None,
        measure: Measure::Throughput,
        cells: Vec::new(),
        failed: Vec::new(),
        only_in_baseline: (old.len() - pairs.len()) as u64,
        only_in_new: (new.len() - pairs.len()) as u64,
    };
    for (cells, side) in [(old, baseline), (new, other)] {
        compared.notes.extend(setup::busy(cells, side));
    }
    for (old, new) in pairs {
        let cell = compare_cell(old, new, threshold, place(old));
        if cell.is_none() || old.failure().is_some() || new.failure().is_some() {
            compared.failed.push(failed_cell(old, new, place(old), &compared));
        }
        compared.cells.extend(cell);
    }
    compared
}

fn compare_cell(
    old: &Cell<'_>,
    new: &Cell<'_>,
    threshold: f64,
    axes: BTreeMap<String, String>,
) -> Option<ComparedCell> {
    let (old_values, new_values) = (old.throughputs(), new.throughputs());
    let quantities = axes.iter().filter_map(|(name, value)| Some((name.clone(), axis::quantity(value)?)));
    Some(ComparedCell {
        quantities: quantities.collect(),
        axes,
        baseline_ops_per_s: statistics::median(&old_values)?,
        new_ops_per_s: statistics::median(&new_values)?,
        runs: [old_values.len(), new_values.len()],
        comparison: new.against(old, threshold)?,
    })
}

/// A cell of which runs failed, or in which one side counted nothing. The new side has failed where more of its runs did.
fn failed_cell(
    old: &Cell<'_>,
    new: &Cell<'_>,
    axes: BTreeMap<String, String>,
    compared: &Compared,
) -> FailedCell {
    let failed = |cell: &Cell<'_>| cell.samples.len() - cell.throughputs().len();
    let in_new = match (failed(old), failed(new)) {
        (0, 0) => statistics::median(&old.throughputs()).is_some_and(|median| median > 0.0),
        // By their share: a side may have run more often.
        (in_old, in_new) => in_new * old.samples.len() > in_old * new.samples.len(),
    };
    let (cell, side) = if in_new { (new, &compared.new) } else { (old, &compared.baseline) };
    let what = cell.failure().unwrap_or("no operation was counted").to_owned();
    FailedCell { axes, side: side.clone(), in_new, runs: [failed(cell), cell.samples.len()], what }
}

/// What a limit for regressions comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Cells that are slower by more than the limit. Where a side ran too few times for an interval, the ratio decides.
    pub slower: usize,
    /// Cells of which more runs failed in the new result than in the baseline.
    pub failed: usize,
    /// Cells of the baseline that the new result does not have.
    pub gone: usize,
    /// Results of the baseline of which the new one has none.
    pub gone_results: usize,
    /// Cells in which noise would hide a regression of the limit.
    pub blind: usize,
}

impl ComparedResults {
    /// The same, of results that [`Measure::prepare`] has prepared.
    #[must_use]
    pub fn by(mut self, measure: Measure) -> Self {
        for result in &mut self.results {
            result.compared.measure = measure;
            result.compared.metric = (measure != Measure::Throughput).then(|| measure.to_string());
        }
        self
    }

    /// All cells that were compared.
    pub fn cells(&self) -> impl Iterator<Item = &ComparedCell> {
        self.results.iter().flat_map(|result| &result.compared.cells)
    }

    /// Whether no cell was compared.
    pub fn is_empty(&self) -> bool {
        self.cells().next().is_none()
    }

    /// Counts the cells that are slower by more than `limit` (0.05 for 5 %), that failed or are gone, and whose spread
    /// hides a change of that size.
    pub fn gate(&self, limit: f64) -> Gate {
        let mut gate = Gate::default();
        for cell in self.cells() {
            let comparison = &cell.comparison;
            let tie = matches!(comparison.verdict, Verdict::NoDifference { .. });
            if !tie && comparison.ratio < 1.0 - limit {
                gate.slower += 1;
            } else if tie && comparison.interval.is_some_and(|interval| interval.low < 1.0 - limit) {
                gate.blind += 1;
            }
        }
        let failed = self.results.iter().flat_map(|result| &result.compared.failed);
        gate.failed = failed.filter(|cell| cell.in_new).count();
        let gone = self.results.iter().map(|result| result.compared.only_in_baseline as usize);
        (gate.gone, gate.gone_results) = (gone.sum(), self.only_in_baseline.len());
        gate
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
            texts
                .push("The two results have no plan in common: compare runs of the same plans.\n".to_owned());
        }
        for (names, side) in [(&self.only_in_baseline, "the baseline"), (&self.only_in_new, "the other")] {
            if !names.is_empty() {
                texts.push(format!("Only in {side}, and not compared: {}.\n", names.join(", ")));
            }
        }
        texts.join("\n")
    }
}

impl FailedCell {
    pub(crate) fn sentence(&self) -> String {
        let Self { side, what, .. } = self;
        match self.runs {
            [0, _] => format!("nothing to compare in {side}: {what}"),
            [failed, all] if failed < all => format!("{failed} of {all} runs failed in {side}: {what}"),
            _ => format!("failed in {side}: {what}"),
        }
    }
}

impl Compared {
    /// One sentence for each cell and one for what only one side has.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for cell in &self.cells {
            writeln!(text, "{}\n  {}", name(&cell.axes), self.sentence(&cell.comparison))
                .expect("a string takes every byte");
        }
        for cell in &self.failed {
            writeln!(text, "{}\n  {}", name(&cell.axes), cell.sentence()).expect("a string takes every byte");
        }
        if self.cells.is_empty() && self.failed.is_empty() {
            text += "The two results have no cell in common: compare runs of the same plan.\n";
        }
        for (count, side) in [(self.only_in_baseline, &self.baseline), (self.only_in_new, &self.new)] {
            if count > 0 {
                let is = if count == 1 { "cell is only in" } else { "cells are only in" };
                text += &format!("{count} {is} {side}: not compared.\n");
            }
        }
        self.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
        text
    }

    pub(crate) fn sentence(&self, comparison: &Comparison) -> String {
        let (old, new) = (&self.baseline, &self.new);
        let interval = crate::answer::interval(comparison);
        let (centre, change) = (ratio(comparison.ratio), comparison.change());
        let by = match self.measure {
            Measure::Throughput => String::new(),
            Measure::Latency(name, _) => format!(" by {name}"),
        };
        let what = self.measure.words();
        match comparison.verdict {
            Verdict::Faster => format!("{new} is faster than {old}{by}: {centre} ({interval})"),
            Verdict::Slower => format!("{new} is slower than {old}{by}: {centre} ({interval})"),
            Verdict::NoDifference { at_percent } => {
                let none = crate::answer::percent(at_percent);
                format!("no difference of {none} or more is detectable: {centre} ({interval})")
            }
            Verdict::TooFew { chance_percent } => format!(
                "{new} has {centre} {what} of {old} ({interval}); equal sides are as far apart in {chance_percent:.0} % of \
                 cases with so few runs: repeat both to judge"
            ),
            Verdict::Unbounded => format!(
                "{new} has {centre} {what} of {old}, of which a run counted nothing: that names no winner"
            ),
            _ if change == 0.0 => format!("exactly the same {} in one run of each", self.measure),
            _ => {
                format!("{new} has {centre} {what} of {old} in one run of each; repeat both to judge")
            }
        }
    }

    /// The document for `--json`.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("our documents have string keys only");
        text + "\n"
    }
}

/// The cell in words.
pub(crate) fn name(axes: &BTreeMap<String, String>) -> String {
    if axes.is_empty() {
        return "all".to_owned();
    }
    let parts: Vec<String> = axes
        .iter()
        .map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[])))
        .collect();
    parts.join(", ")
}
