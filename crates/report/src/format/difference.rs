//! A comparison as one self-contained HTML page: what came of it, the ratio of each cell with its interval, all numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::RenderError;
use crate::chart;
use crate::compare::{Compared, ComparedResults, Measure, name};
use crate::table::Table;
use crate::units::ratio;
use askama::Template;
use results::statistics::Verdict;

#[derive(Template)]
#[template(path = "difference.html")]
struct Page {
    title: String,
    answer: String,
    sections: Vec<Part>,
    missing: Vec<String>,
}

struct Part {
    id: String,
    name: String,
    drawings: Vec<String>,
    table: Table,
}

/// The page.
pub fn html(compared: &ComparedResults) -> Result<String, RenderError> {
    let title = compared.results.first().map_or("nothing".to_owned(), |result| {
        format!("{} against {}", result.compared.new, result.compared.baseline)
    });
    let sections = compared.results.iter().enumerate().map(|(at, result)| Part {
        id: format!("c{}", at + 1),
        name: format!("{}: {} against {}", result.name, result.compared.new, result.compared.baseline),
        drawings: chart::ratios(&result.compared),
        table: table(&result.compared),
    });
    let page =
        Page { title, answer: answer(compared), sections: sections.collect(), missing: missing(compared) };
    Ok(page.render()?)
}

/// What the comparison comes to, in one sentence.
pub(crate) fn answer(compared: &ComparedResults) -> String {
    if compared.is_empty() {
        return "Nothing could be compared: the two have no cell in common.".to_owned();
    }
    let (mut faster, mut slower, mut same, mut open) = (0, 0, 0, 0);
    for cell in compared.cells() {
        match cell.comparison.verdict {
            Verdict::Faster => faster += 1,
            Verdict::Slower => slower += 1,
            Verdict::NoDifference { .. } => same += 1,
            _ => open += 1,
        }
    }
    let counted = [
        (faster, "faster"),
        (slower, "slower"),
        (same, "without a detectable difference"),
        (open, "not judged, because too few runs were made"),
    ];
    let parts: Vec<String> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let all = faster + slower + same + open;
    format!("{all} {} compared: {}.", if all == 1 { "cell" } else { "cells" }, parts.join(", "))
}

fn table(compared: &Compared) -> Table {
    let axes: Vec<_> = compared
        .cells
        .iter()
        .map(|cell| &cell.axes)
        .chain(compared.failed.iter().map(|cell| &cell.axes))
        .collect();
    let (varied, common) = split(&axes);
    let all = if common.is_empty() { String::new() } else { format!("; in all {}", name(&common)) };
    let own = |axes: &Axes| name(&only(axes, &varied));
    let what = match compared.measure {
        Measure::Throughput => "Throughput".to_owned(),
        Measure::Latency(name, _) => name.to_owned(),
    };
    let mut table = Table::new(format!("{what} of each cell{all}"));
    table.words("cell");
    for head in [&compared.baseline, &compared.new] {
        table.numbers(head);
    }
    table.numbers("ratio");
    table.words("interval");
    table.numbers("runs");
    table.words("verdict");
    for cell in &compared.cells {
        let comparison = &cell.comparison;
        let rate = |rate| compared.measure.human(rate);
        table.rows.push(vec![
            own(&cell.axes),
            rate(cell.baseline_ops_per_s),
            rate(cell.new_ops_per_s),
            ratio(comparison.ratio),
            crate::answer::interval(comparison),
            format!("{} / {}", cell.runs[0], cell.runs[1]),
            verdict(comparison.verdict).to_owned(),
        ]);
    }
    for cell in &compared.failed {
        let dash = || "–".to_owned();
        table.rows.push(vec![own(&cell.axes), dash(), dash(), dash(), dash(), dash(), cell.sentence()]);
    }
    table
}

type Axes = BTreeMap<String, String>;

/// The axes whose values differ between cells, all of them for one cell; and the others, with their values.
fn split(cells: &[&Axes]) -> (Vec<String>, Axes) {
    let Some((first, others)) = cells.split_first().filter(|(_, others)| !others.is_empty()) else {
        return (cells.iter().flat_map(|axes| axes.keys().cloned()).collect(), Axes::new());
    };
    let is_common = |name: &String| others.iter().all(|axes| axes.get(name) == first.get(name));
    let names: BTreeSet<&String> = cells.iter().flat_map(|axes| axes.keys()).collect();
    let varied = names.into_iter().filter(|name| !is_common(name)).cloned().collect();
    (
        varied,
        first
            .iter()
            .filter(|(name, _)| is_common(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

fn only(axes: &Axes, names: &[String]) -> Axes {
    axes.iter()
        .filter(|(name, _)| names.contains(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference { .. } => "no difference detectable",
        Verdict::TooFew { .. } => "too few runs to judge",
        Verdict::Unbounded => "a run of the baseline counted nothing: not judged",
        _ => "one run of each: not judged",
    }
}

fn missing(compared: &ComparedResults) -> Vec<String> {
    let mut missing = Vec::new();
    for result in &compared.results {
        let Compared { only_in_baseline, only_in_new, baseline, new, notes, .. } = &result.compared;
        missing.extend(notes.iter().map(|note| format!("{}: {note}.", result.name)));
        for (count, side) in [(only_in_baseline, baseline), (only_in_new, new)] {
            if *count > 0 {
                missing.push(format!(
                    "{count} {} of {} only in {side}: not compared.",
                    if *count == 1 { "cell" } else { "cells" },
                    result.name
                ));
            }
        }
    }
    for (names, side) in [(&compared.only_in_baseline, "the baseline"), (&compared.only_in_new, "the other")]
    {
        if !names.is_empty() {
            missing.push(format!("Only in {side}, and not compared: {}.", names.join(", ")));
        }
    }
    missing
}
