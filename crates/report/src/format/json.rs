//! JSON: the result itself, or several as one document.

use super::{Format, RenderError};
use crate::Report;
use results::ResultsFile;

pub(super) struct Json;

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

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        if let [section] = &report.sections[..] {
            return Ok(section.results.to_json().into_bytes());
        }
        let results = report.sections.iter().map(|section| &section.results).collect();
        Ok(ResultsFile::new(results).to_json().into_bytes())
    }
}
