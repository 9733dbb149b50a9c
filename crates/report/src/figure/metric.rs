//! What may stand on the y axis, and how to get it from a sample.

use crate::units::Unit;
use results::{Histogram, Sample};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of a sample, written in plans as the text in each variant's description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Metric {
    /// `throughput`: operations a second.
    #[default]
    Throughput,
    /// `data_rate`: bytes read and written a second.
    DataRate,
    /// `elapsed`: how long the run took; of programs that end.
    Elapsed,
    /// `latency_mean`: of all operations together.
    LatencyMean,
    /// `latency_p50`, `latency_p99_9`, …: a percentile of all operations together, by its digits.
    Latency(Percentile),
    /// `counter.NAME`: a counter of the sample.
    Counter(String),
    /// `per_op.NAME`: a counter of the sample for each operation of the workload.
    CounterPerOp(String),
}

/// A percentile that reports offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentile {
    text: &'static str,
    /// In hundredths of a per cent, to stay comparable.
    basis_points: u32,
}

const PERCENTILES: [Percentile; 6] = [
    Percentile { text: "p50", basis_points: 5_000 },
    Percentile { text: "p90", basis_points: 9_000 },
    Percentile { text: "p95", basis_points: 9_500 },
    Percentile { text: "p99", basis_points: 9_900 },
    Percentile { text: "p99_9", basis_points: 9_990 },
    Percentile { text: "p99_99", basis_points: 9_999 },
];

impl Percentile {
    fn of(self, histogram: &Histogram) -> f64 {
        histogram.quantile_ns(f64::from(self.basis_points) / 10_000.0) as f64
    }
}

impl Metric {
    /// Its value in `sample`; `None` when the sample does not carry it.
    pub fn of(&self, sample: &Sample) -> Option<f64> {
        match self {
            Self::Throughput => Some(sample.throughput_ops_per_s),
            Self::DataRate => {
                Some(results::record::throughput(sample.read_bytes + sample.written_bytes, sample.elapsed_ns))
            }
            Self::Elapsed => Some(sample.elapsed_ns as f64),
            Self::LatencyMean => latencies(sample).map(|all| all.mean_ns()),
            Self::Latency(percentile) => latencies(sample).map(|all| percentile.of(&all)),
            Self::Counter(name) => sample.counters.get(name).map(|&count| count as f64),
            Self::CounterPerOp(name) => {
                let count = *sample.counters.get(name)?;
                (sample.ops > 0).then(|| count as f64 / sample.ops as f64)
            }
        }
    }

    /// What it counts.
    pub fn unit(&self) -> Unit {
        match self {
            Self::Throughput => Unit::OpsPerSecond,
            Self::DataRate => Unit::BytesPerSecond,
            Self::Elapsed | Self::LatencyMean | Self::Latency(_) => Unit::Nanos,
            Self::Counter(name) | Self::CounterPerOp(name) => Unit::of_counter(name),
        }
    }

    /// Its name on an axis.
    pub fn title(&self) -> String {
        match self {
            Self::Throughput => "throughput".to_owned(),
            Self::DataRate => "bytes read and written".to_owned(),
            Self::Elapsed => "time of a run".to_owned(),
            Self::LatencyMean => "mean latency".to_owned(),
            Self::Latency(percentile) => format!("{} latency", percentile.text.replace('_', ".")),
            Self::Counter(name) => words(name),
            Self::CounterPerOp(name) => format!("{} per operation", words(name)),
        }
    }
}

fn latencies(sample: &Sample) -> Option<Histogram> {
    Some(sample.latency_ns()).filter(|all| !all.is_empty())
}

/// A counter's name as words, times without their unit: `nvmm_written_bytes` is
/// "NVMM written bytes".
fn words(counter: &str) -> String {
    let (base, part) = counter.split_once('.').unwrap_or((counter, ""));
    let base = base.strip_suffix("_ns").unwrap_or(base).replace('_', " ").replace("nvmm", "NVMM");
    if part.is_empty() { base } else { format!("{base} ({})", part.replace('_', " ")) }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percentile =
            text.strip_prefix("latency_").and_then(|p| PERCENTILES.into_iter().find(|q| q.text == p));
        Ok(match (text, text.split_once('.')) {
            ("throughput", _) => Self::Throughput,
            ("data_rate", _) => Self::DataRate,
            ("elapsed", _) => Self::Elapsed,
            ("latency_mean", _) => Self::LatencyMean,
            (_, Some(("counter", name))) => Self::Counter(name.to_owned()),
            (_, Some(("per_op", name))) => Self::CounterPerOp(name.to_owned()),
            _ => Self::Latency(percentile.ok_or_else(|| unknown(text))?),
        })
    }
}

fn unknown(text: &str) -> String {
    let percentiles = PERCENTILES.map(|percentile| format!("latency_{}", percentile.text)).join(", ");
    format!(
        "unknown metric \"{text}\"; known are throughput, data_rate, elapsed, latency_mean, {percentiles}, \
         counter.NAME and per_op.NAME"
    )
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> Self {
        metric.to_string()
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput => f.write_str("throughput"),
            Self::DataRate => f.write_str("data_rate"),
            Self::Elapsed => f.write_str("elapsed"),
            Self::LatencyMean => f.write_str("latency_mean"),
            Self::Latency(percentile) => write!(f, "latency_{}", percentile.text),
            Self::Counter(name) => write!(f, "counter.{name}"),
            Self::CounterPerOp(name) => write!(f, "per_op.{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_written_as_it_is_read() {
        for text in [
            "throughput",
            "data_rate",
            "elapsed",
            "latency_mean",
            "latency_p99_9",
            "counter.fences",
            "per_op.lines.a",
        ] {
            assert_eq!(text.parse::<Metric>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_unknown_metric_is_told_what_there_is() {
        let error = "speed".parse::<Metric>().unwrap_err();
        assert!(error.contains("\"speed\"") && error.contains("latency_p99_9"), "{error}");
    }

    #[test]
    fn a_counter_that_was_never_wired_has_no_value() {
        let sample = Sample { ops: 4, ..Sample::default() };
        assert_eq!(Metric::Counter("fences".into()).of(&sample), None);
        assert_eq!(Metric::LatencyMean.of(&sample), None);
    }
}
