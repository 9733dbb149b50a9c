//! GitHub's Markdown, for issues and papers in progress.

use super::{Format, RenderError};
use crate::{Report, Section, answer, claims, jobs, prices, readings, standing, summary};

pub(super) struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn extension(&self) -> &'static str {
        "md"
    }

    fn summary(&self) -> &'static str {
        "tables to paste into an issue"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        Ok(report.sections.iter().map(section).collect::<Vec<_>>().join("\n").into_bytes())
    }
}

fn section(section: &Section) -> String {
    let results = &section.results;
    let mut text = format!("# {}\n\n", results.name);
    if !results.why.is_empty() {
        text += &format!("*{}*\n\n", results.why);
    }
    text += &format!("{}\n\n", answer::sentences(results).join(" "));
    for note in summary::notes(results) {
        text += &format!("> {note}\n\n");
    }
    let fixed = summary::fixed_axes(results);
    if !fixed.is_empty() {
        text += &format!("{}\n\n", fixed.join(" "));
    }
    let tables = summary::tables(results).into_iter().chain(jobs::tables(results));
    for table in tables.chain(prices::table(results)).chain(standing::tables(results)) {
        text += &table.to_markdown();
    }
    if !results.hypotheses.is_empty() {
        text += &summary::hypotheses(&results.hypotheses).to_markdown();
    }
    if !results.claims.is_empty() {
        text += &claims::table(&results.claims).to_markdown();
    }
    for table in readings::tables(&results.claims) {
        text += &table.to_markdown();
    }
    for (id, reason) in summary::reasons(&results.claims) {
        text += &format!("- `{id}`: {reason}\n");
    }
    let facts = summary::environment(results);
    let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    text + &format!("\n{}\n", facts.join(" · "))
}
