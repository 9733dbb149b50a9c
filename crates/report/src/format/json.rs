//! JSON: the result itself, or several as one document.

use super::{Format, RenderError};
use crate::Report;
use results::ResultFile;
use serde::Serialize;

pub(super) struct Json;

/// Several results in one document.
#[derive(Serialize)]
struct Results<'a> {
    schema: &'static str,
    results: Vec<&'a ResultFile>,
}

impl Format for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "everything that was recorded, for scripts and for rerunning"
    }

    fn render(&self, report: &Report) -> Result<String, RenderError> {
        if let [section] = &report.sections[..] {
            return Ok(section.results.to_json());
        }
        let results = report.sections.iter().map(|section| &section.results).collect();
        let document = Results { schema: "weir.results/1", results };
        let text = serde_json::to_string_pretty(&document).expect("our documents have string keys only");
        Ok(text + "\n")
    }
}
