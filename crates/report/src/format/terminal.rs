//! Plain tables for a terminal. No colour: nothing in them depends on it.

use super::{Format, RenderError};
use crate::table::wrapped;
use crate::{Report, Section, answer, claims, jobs, prices, readings, replay, standing, summary};
use std::collections::BTreeMap;

pub(super) struct Terminal;

impl Format for Terminal {
    fn name(&self) -> &'static str {
        "terminal"
    }

    fn extension(&self) -> &'static str {
        "txt"
    }

    fn summary(&self) -> &'static str {
        "aligned tables to read in a terminal"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        Ok(report.sections.iter().map(section).collect::<Vec<_>>().join("\n").into_bytes())
    }
}

fn section(section: &Section) -> String {
    let results = &section.results;
    let mut text = summary::heading(results);
    text.push('\n');
    for fixed in summary::fixed_axes(results) {
        text += &format!("{fixed}\n");
    }
    for note in summary::notes(results) {
        text += &format!("note: {note}\n");
    }
    if !results.claims.is_empty() {
        text += &format!("\n{}", claims::to_text(&results.claims));
    }
    for table in summary::tables(results) {
        text += &format!("\n{}", table.to_text());
    }
    for table in
        jobs::tables(results).into_iter().chain(prices::table(results)).chain(standing::tables(results))
    {
        text += &format!("\n{}", table.to_text());
    }
    let winners = answer::winners(results);
    if !winners.is_empty() {
        text += "\n";
    }
    for sentence in winners {
        text += &wrapped(&sentence);
    }
    for why in answer::whys(results) {
        text += &format!("\n{}", wrapped(&why.sentence()));
    }
    for sentences in replay::best(results, &BTreeMap::new()) {
        text += &format!("\n{}", wrapped(&sentences));
    }
    if !results.hypotheses.is_empty() {
        text += &format!("\n{}", summary::hypotheses(&results.hypotheses).to_text());
    }
    for table in readings::tables(&results.claims) {
        text += &format!("\n{}", table.to_text());
    }
    let sentence = readings::sentence(&results.claims);
    if !sentence.is_empty() {
        text += &format!("\n{sentence}\n");
    }
    text
}
