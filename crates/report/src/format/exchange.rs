//! What the formats of other tools share: which samples they take, and how they name cells.
//!
//! A sample that failed or was cut short has no number in any of them, and a name says which clock its number is of: other tools
//! would not know that the two do not compare.

use std::collections::BTreeMap;

use results::{Clock, ResultFile, Sample};
use serde_json::Value;

use crate::Report;
use crate::cell::{self, Cell};

/// Whether a sample has the numbers of a run that came to its end.
fn is_whole(sample: &Sample) -> bool {
    sample.is_measured() && !sample.partial
}

/// The samples that came to their end, with their results.
pub(super) fn whole_samples(report: &Report) -> impl Iterator<Item = (&ResultFile, &Sample)> {
    let results = report.sections.iter().map(|section| &section.results);
    results
        .flat_map(|result| result.samples.iter().map(move |sample| (result, sample)))
        .filter(|(_, s)| is_whole(s))
}

/// The cells all of whose runs came to their end, each with a name that stays the same from run to run.
pub(super) fn whole_cells(report: &Report) -> Vec<(String, Cell<'_>)> {
    let several = report.sections.len() > 1;
    let mut found = Vec::new();
    for result in report.sections.iter().map(|section| &section.results) {
        let clock = match result.clock {
            Clock::Virtual => "virtual clock",
            Clock::Real => "real clock",
        };
        for cell in cell::cells(result) {
            if cell.samples.iter().all(|sample| is_whole(sample)) {
                let plan = if several { format!("{}: ", result.name) } else { String::new() };
                found.push((format!("{plan}{} ({clock})", self::cell(cell.axes)), cell));
            }
        }
    }
    found
}

/// The words for a cell: its workload, its design, then each other axis with its name.
pub(super) fn cell(axes: &BTreeMap<String, String>) -> String {
    let design = crate::axis::design_axis(axes.keys().map(String::as_str));
    let first = ["workload", design].into_iter().filter_map(|axis| axes.get(axis).cloned());
    let others = axes.iter().filter(|(name, _)| *name != "workload" && *name != design);
    let words: Vec<String> = first.chain(others.map(|(name, value)| format!("{name} {value}"))).collect();
    words.join(" ")
}

/// How many samples are not in a document, in a sentence; none where all are.
pub(super) fn skipped(report: &Report) -> Option<String> {
    let samples = || report.sections.iter().flat_map(|section| &section.results.samples);
    let left_out = samples().filter(|sample| !is_whole(sample)).count();
    let of_all = samples().count();
    (left_out > 0)
        .then(|| format!("{left_out} of {of_all} samples failed or were cut short, and give no number"))
}

/// A document as the bytes of a file.
pub(super) fn text(document: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(document).expect("our documents have string keys only");
    text.push(b'\n');
    text
}
