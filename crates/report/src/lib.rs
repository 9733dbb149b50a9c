//! Results made readable: terminal tables, JSON, CSV, Parquet, Markdown, one self-contained HTML page, and formats of other tools.
//!
//! | module | holds |
//! |---|---|
//! | [`format`](mod@format) | [`FORMATS`]: one file each, one line to add one |
//! | [`figure`] | [`FigureSpec`], what a plan says about a figure, and [`Figure`], its data |
//! | `chart` | figures as SVG: bars, lines, breakdowns, heat maps |
//! | [`cell`] | repeats of one cell aggregated |
//! | [`robust`] | whether the winner is one in the settings beside those of the run, too |
//! | [`standing`] | the place of one design among those that promise the same |
//! | [`why`] | why the winner is faster than the runner-up |
//! | [`summary`], [`claims`], [`answer`] | the tables and sentences that every format shows |
//! | [`explain`](mod@explain), [`compare`](mod@compare) | text for the commands of these names |
//! | `replay` | how much of a replay is the program, and where it runs best |
//! | [`readings`] | claims under the readings of their paper |
//! | [`export`] | figures as files for papers |
//! | [`grains`] | tidy tables for data frames, one for each grain |
//! | [`validation`] | tables of `weir validate` |
//! | [`power_loss`] | the page of `weir check crash trace:FILE` |
//! | `spread` | latencies, rates over time and samples of every cell |
//! | [`jobs`] | what fio's users look for: rates and latencies by job and direction |
//! | `dies` | which page of a file lies on which die |
//! | `scaling` | curves over the number of threads: what holds them back |
//! | [`characterize`] | which events of processors go with throughput |
//! | [`kernel`] | what tasks waited for in the kernel of the host |
//! | [`trust`] | how far to believe modelled times, and the sources of their constants |
//! | [`table`], [`units`], [`axis`] | tables, human numbers, values of axes |
//!
//! Nothing here measures. Repeats are aggregated to medians with intervals, and histograms are merged; every
//! other number is printed as it was recorded. People read `KiB`, `k` and picked time units; exports carry
//! bytes and nanoseconds. The same results give the same bytes.

#![forbid(unsafe_code)]
#![allow(clippy::format_push_string, reason = "documents are written once; plain appending reads best")]

pub mod answer;
pub mod axis;
pub mod cell;
pub mod characterize;
mod chart;
pub mod claims;
pub mod compare;
mod dies;
pub mod explain;
pub mod export;
pub mod figure;
pub mod format;
pub mod grains;
pub mod jobs;
pub mod kernel;
#[cfg(feature = "pdf")]
mod pdf;
#[cfg(not(feature = "pdf"))]
#[path = "pdf_left_out.rs"]
mod pdf;
pub mod power_loss;
pub mod prices;
pub mod readings;
mod replay;
pub mod robust;
mod scaling;
mod spread;
pub mod standing;
pub mod summary;
pub mod table;
pub mod trust;
pub mod units;
pub mod validation;
pub mod why;

pub use compare::{Compared, ComparedResults, Gate, Measure, compare, compare_all, compare_by};
pub use explain::explain;
pub use figure::{Figure, FigureError, FigureSpec, Kind, Metric};
pub use format::{FORMATS, Format, by_name};

use results::ResultFile;

/// What a report is made of: the results of one plan or of several, and the figures of each.
#[derive(Clone, Debug)]
pub struct Report {
    /// One section for each result, in the order of the page.
    pub sections: Vec<Section>,
    /// The name of the page without its ending, where its results lie beside it under that name; else as a run leaves them.
    pub page: Option<String>,
}

/// One result and its figures.
#[derive(Clone, Debug)]
pub struct Section {
    /// The result.
    pub results: ResultFile,
    /// Its figures as the plan describes them, or the default ones.
    pub figures: Vec<FigureSpec>,
}

impl Report {
    /// A report of `results`, with the figures that each plan lists under `figure` or else the default ones.
    pub fn new(results: Vec<ResultFile>) -> Result<Self, FigureError> {
        let sections = results.into_iter().map(Section::new).collect::<Result<_, _>>()?;
        Ok(Self { sections, page: None })
    }

    /// The name of the file with a result that lies beside the page.
    pub fn file_of(&self, result: &ResultFile) -> String {
        match (&self.page, self.sections.len()) {
            (None, 1) => "result.json".to_owned(),
            (None, _) => format!("{}.json", result.name),
            (Some(page), 1) => format!("{page}.json"),
            (Some(page), _) => format!("{page}.{}.json", result.name),
        }
    }
}

impl Section {
    /// A section with the plan's own figures, or the default ones if it lists none.
    pub fn new(results: ResultFile) -> Result<Self, FigureError> {
        let listed = FigureSpec::list(&results.plan)?;
        let figures = if listed.is_empty() { FigureSpec::defaults(&results) } else { listed };
        Ok(Self { results, figures })
    }
}
