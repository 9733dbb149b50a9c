//! The formats, one file each; a new one is a file and a line in [`FORMATS`].

mod csv;
mod difference;
mod exchange;
mod fio_json;
mod folded;
mod html;
mod json;
mod kept;
mod markdown;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "parquet_left_out.rs"]
mod parquet;
mod prometheus;
mod terminal;

use crate::Report;
use crate::grains::Grain;

pub use difference::html as difference_html;
pub(crate) use html::{PageFigure, page_figure};

/// A way to write a report down.
pub trait Format: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// The extension of its files.
    fn extension(&self) -> &'static str;
    /// What it is for, in one line.
    fn summary(&self) -> &'static str;
    /// The whole document.
    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError>;

    /// Why this build cannot write it, and how to get one that can.
    fn left_out(&self) -> Option<String> {
        None
    }

    /// What of the report is not in the document, in a sentence.
    fn skips(&self, report: &Report) -> Option<String> {
        let _ = report;
        None
    }

    /// The document as text, for the formats that are text.
    fn render(&self, report: &Report) -> Result<String, RenderError> {
        Ok(String::from_utf8_lossy(&self.bytes(report)?).into_owned())
    }
}

/// Why a report could not be written down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The compressor refused.
    #[error("cannot compress: {0}")]
    Compress(#[from] std::io::Error),
    /// The CSV writer refused.
    #[error("cannot write CSV: {0}")]
    Csv(#[from] ::csv::Error),
    /// The Parquet writer refused.
    #[error("cannot write Parquet: {0}")]
    #[cfg(feature = "parquet")]
    Parquet(#[from] ::parquet::errors::ParquetError),
    /// This command was built without the format's feature.
    #[error("{0}")]
    LeftOut(String),
    /// The results have nothing that the format holds.
    #[error("{0}")]
    Nothing(String),
    /// The page's template refused.
    #[error("cannot write the page: {0}")]
    Page(#[from] askama::Error),
}

/// Says that `what` was left out of this build, and how to get it with `feature`.
#[cfg(not(all(feature = "pdf", feature = "parquet")))]
pub(crate) fn left_out(what: &str, feature: &str) -> String {
    format!(
        "this command was built without {what}; packages have it, and so has \
         `cargo build --release -p weir --features {feature}`"
    )
}

/// Every format. Where the ending of one is the end of another's, the longer one comes first.
pub const FORMATS: &[&dyn Format] = &[
    &terminal::Terminal,
    &fio_json::FioJson,
    &folded::Folded,
    &prometheus::Prometheus,
    &json::Json,
    &kept::Kept,
    &csv::Csv,
    &parquet::Parquet,
    &markdown::Markdown,
    &html::Html,
];

/// What stands in the place of a format that was removed, by its name or by the end of a file's name; none where there was none.
pub fn replacement(name: &str) -> Option<&'static str> {
    let gone = ["github-benchmark", "github-latency", "bencher", "gha.json", "gha-latency.json", "bmf.json"];
    gone.iter().any(|known| name.ends_with(known)).then_some(
        "formats of trackers were removed: `weir compare main latest --fail-over 5%` is the gate, `--tables DIR` has the numbers",
    )
}

/// A tidy table as a file of the format called `csv` or `parquet`; none for another format.
pub fn table(grain: &Grain, name: &str) -> Option<Result<Vec<u8>, RenderError>> {
    match name {
        "csv" => Some(Ok(grain.csv())),
        "parquet" => Some(parquet::table(grain)),
        _ => None,
    }
}

/// The format called `name`.
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().find(|format| format.name() == name).copied()
}
