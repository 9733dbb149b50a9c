//! What claims are judged by, as compressed JSON: small enough to lie in a source tree.
//!
//! Each sample keeps its cell, its seed, its rates and its counters. Histograms, ledgers, steps and timelines are left out; a run
//! of the same command writes them again. The same results make the same bytes.

use std::collections::BTreeMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use results::{ResultFile, ResultsFile, Sample};

use super::{Format, RenderError};
use crate::Report;

pub(super) struct Kept;

impl Format for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn extension(&self) -> &'static str {
        "json.gz"
    }

    fn summary(&self) -> &'static str {
        "rates and counters as compressed JSON, to keep in a source tree"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        let results: Vec<ResultFile> =
            report.sections.iter().map(|section| small(&section.results)).collect();
        let text = match &results[..] {
            [only] => only.to_json(),
            several => ResultsFile::new(several.iter().collect()).to_json(),
        };
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(text.as_bytes())?;
        Ok(packed.finish()?)
    }
}

fn small(result: &ResultFile) -> ResultFile {
    let samples = result.samples.iter().map(numbers).collect();
    ResultFile { samples, lines: BTreeMap::new(), ..result.clone() }
}

/// A sample without what takes most of its space.
fn numbers(sample: &Sample) -> Sample {
    Sample {
        operations: Vec::new(),
        served: Vec::new(),
        steps: Vec::new(),
        workers: Vec::new(),
        jobs: Vec::new(),
        series: None,
        placement: None,
        spans: Vec::new(),
        ..sample.clone()
    }
}
