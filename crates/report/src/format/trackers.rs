//! Numbers for services that keep them over time: github-action-benchmark, and Bencher's metric format.
//!
//! A number is the median of a cell's repeats, with the interval of the page. A cell of which a run failed or was cut short is left
//! out, so that it never looks like a fast or slow one.

use results::ResultFile;
use results::statistics::Coverage;
use serde_json::{Map, Value, json};

use super::{Format, RenderError, exchange};
use crate::Report;
use crate::cell::{Cell, Estimate};
use crate::figure::Metric;

/// Rates: `customBiggerIsBetter`.
pub(super) struct GithubBenchmark;
/// Latencies: `customSmallerIsBetter`.
pub(super) struct GithubLatency;
/// Both, in Bencher's format.
pub(super) struct Bencher;

impl Format for GithubBenchmark {
    fn name(&self) -> &'static str {
        "github-benchmark"
    }

    fn extension(&self) -> &'static str {
        "gha.json"
    }

    fn summary(&self) -> &'static str {
        "throughput of each cell for github-action-benchmark (customBiggerIsBetter)"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        Ok(github(report, &["throughput"]))
    }

    fn skips(&self, report: &Report) -> Option<String> {
        exchange::skipped(report)
    }
}

impl Format for GithubLatency {
    fn name(&self) -> &'static str {
        "github-latency"
    }

    fn extension(&self) -> &'static str {
        "gha-latency.json"
    }

    fn summary(&self) -> &'static str {
        "p50 and p99 of each cell for github-action-benchmark (customSmallerIsBetter)"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        Ok(github(report, &["latency_p50", "latency_p99"]))
    }

    fn skips(&self, report: &Report) -> Option<String> {
        exchange::skipped(report)
    }
}

impl Format for Bencher {
    fn name(&self) -> &'static str {
        "bencher"
    }

    fn extension(&self) -> &'static str {
        "bmf.json"
    }

    fn summary(&self) -> &'static str {
        "throughput and latency of each cell in Bencher's metric format"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        let measures =
            [("throughput", "throughput"), ("latency", "latency_mean"), ("latency-p99", "latency_p99")];
        let mut document = Map::new();
        for (name, _, cell) in exchange::whole_cells(report) {
            let own = measures.iter().filter_map(|(slug, name)| {
                let estimate = estimate(&cell, name)?.1;
                Some(((*slug).to_owned(), bencher(&estimate)))
            });
            document.insert(name, own.collect::<Map<_, _>>().into());
        }
        Ok(exchange::text(&document.into()))
    }

    fn skips(&self, report: &Report) -> Option<String> {
        exchange::skipped(report)
    }
}

/// The metric called `name` and its median over the repeats of a cell; none where the samples do not carry it.
fn estimate(cell: &Cell<'_>, name: &str) -> Option<(Metric, Estimate)> {
    let metric: Metric = name.parse().expect("a metric that reports know");
    let values: Vec<f64> = cell.measured().filter_map(|sample| metric.of(sample)).collect();
    let estimate = Estimate::of(&values)?;
    Some((metric, estimate))
}

fn bencher(estimate: &Estimate) -> Value {
    let mut fields = json!({"value": estimate.value});
    if let Some(interval) = estimate.interval {
        fields["lower_value"] = interval.low.into();
        fields["upper_value"] = interval.high.into();
    }
    fields
}

fn github(report: &Report, metrics: &[&str]) -> Vec<u8> {
    let mut entries = Vec::new();
    for (name, result, cell) in exchange::whole_cells(report) {
        for metric in metrics {
            entries.extend(estimate(&cell, metric).map(|found| entry(&name, result, &found)));
        }
    }
    exchange::text(&entries.into())
}

fn entry(name: &str, result: &ResultFile, (metric, estimate): &(Metric, Estimate)) -> Value {
    let unit = if *metric == Metric::Throughput { "operations/s" } else { "ns" };
    let environment = &result.environment;
    let commit = environment.commit.as_ref().map_or_else(String::new, |commit| format!(" {commit}"));
    let mut extra =
        format!("{} runs, seed {}, Weir {}{commit}", estimate.repeats, result.seed, environment.weir_version);
    let mut fields =
        json!({"name": format!("{name} {}", metric.title()), "unit": unit, "value": estimate.value});
    if let Some(interval) = estimate.interval {
        let kind = match interval.coverage {
            Coverage::Confidence | Coverage::Pairs => "95 % interval",
            Coverage::Range => "range of the runs",
            Coverage::Exact => "one value",
        };
        fields["range"] = format!("± {}", (interval.high - interval.low) / 2.0).into();
        extra = format!("{kind} {} to {}; {extra}", interval.low, interval.high);
    }
    fields["extra"] = extra.into();
    fields
}
