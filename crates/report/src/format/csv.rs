//! CSV: the tidy table of samples, a row for each cell that ran once.

use super::{Format, RenderError};
use crate::{Report, grains};

pub(super) struct Csv;

impl Format for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn extension(&self) -> &'static str {
        "csv"
    }

    fn summary(&self) -> &'static str {
        "a row for each sample, for spreadsheets; `weir report --tables` has the other tables"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        Ok(grains::samples(report).csv())
    }
}
