//! Parquet in a build without it: the format is known, and writing it says what is missing.

use super::{Format, RenderError};
use crate::Report;
use crate::grains::Grain;

pub(super) struct Parquet;

impl Format for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn extension(&self) -> &'static str {
        "parquet"
    }

    fn summary(&self) -> &'static str {
        "the rows of the CSV with types, for data frames (not in this build)"
    }

    fn left_out(&self) -> Option<String> {
        Some(super::left_out("Parquet", "parquet"))
    }

    fn bytes(&self, _: &Report) -> Result<Vec<u8>, RenderError> {
        Err(RenderError::LeftOut(super::left_out("Parquet", "parquet")))
    }
}

/// Says that it cannot.
pub(super) fn table(_: &Grain) -> Result<Vec<u8>, RenderError> {
    Err(RenderError::LeftOut(super::left_out("Parquet", "parquet")))
}
