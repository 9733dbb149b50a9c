//! By what two results are compared: their throughput, or a quantile of the latency of their calls.

use std::fmt;
use std::str::FromStr;

use results::{FailureKind, ResultFile, SampleFailure};

use crate::units::Unit;

/// Calls that must be slower than a quantile of a sample: of fewer it is one call's luck.
const BEYOND: f64 = 10.0;
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Measure {
    /// Operations a second.
    #[default]
    Throughput,
    /// A quantile of the latency of all calls; the lower, the faster.
    Latency(&'static str, f64),
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "throughput" {
            return Ok(Self::Throughput);
        }
        let found = QUANTILES.iter().find(|(name, _)| *name == text);
        let known = || QUANTILES.map(|(name, _)| name).join(", ");
        found
            .map(|(name, quantile)| Self::Latency(name, *quantile))
            .ok_or_else(|| format!("expected throughput or one of {}", known()))
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput => f.write_str("throughput"),
            Self::Latency(name, _) => f.write_str(name),
        }
    }
}

impl Measure {
    /// Gives each sample of `result` the value that is compared, as a rate: of a latency, how many calls one after the other would
    /// be made in a second. A sample with too few calls for the quantile has none, and says so.
    pub fn prepare(self, result: &mut ResultFile) {
        let Self::Latency(name, quantile) = self else { return };
        for sample in result.samples.iter_mut().filter(|sample| sample.is_measured()) {
            let latency = sample.latency_ns();
            let beyond = latency.count() as f64 * (1.0 - quantile);
            if beyond < BEYOND {
                let needs = (BEYOND / (1.0 - quantile)).round();
                let what = format!(
                    "{name} needs {needs} calls and {} were counted: take a longer run",
                    latency.count()
                );
                sample.failure = Some(SampleFailure { kind: FailureKind::Run, what });
            } else {
                sample.throughput_ops_per_s = 1e9 / latency.quantile_ns(quantile).max(1) as f64;
            }
        }
    }

    /// A value as people read it.
    pub(crate) fn human(self, rate: f64) -> String {
        match self {
            Self::Throughput => Unit::OpsPerSecond.human(rate),
            Self::Latency(..) => Unit::Nanos.human(1e9 / rate),
        }
    }

    /// What a ratio of two rates is one of: `the throughput`, `the speed by p99`.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Throughput => "the throughput".to_owned(),
            Self::Latency(name, _) => format!("the speed by {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Clock, OperationRecord, Sample};

    fn result(calls: u64) -> ResultFile {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        let mut sample = Sample::new([("fs".to_owned(), "a".to_owned())].into(), 0, 1);
        let mut read = OperationRecord::new("read");
        read.latency_ns.record_n(1_000, calls * 9 / 10);
        read.latency_ns.record_n(50_000, calls / 10);
        read.count = calls;
        sample.operations = vec![read];
        sample.throughput_ops_per_s = 7.0;
        file.samples.push(sample);
        file
    }

    #[test]
    fn a_quantile_becomes_a_rate_and_too_few_calls_a_reason() {
        let mut file = result(10_000);
        "p99".parse::<Measure>().unwrap().prepare(&mut file);
        assert!(
            (file.samples[0].throughput_ops_per_s / 20_000.0 - 1.0).abs() < 0.01,
            "50 us are 20 k a second"
        );
        let mut few = result(500);
        "p99".parse::<Measure>().unwrap().prepare(&mut few);
        assert!(
            few.samples[0].failure.as_ref().unwrap().what.starts_with("p99 needs 1000 calls and 500 were")
        );
        let mut whole = result(500);
        "throughput".parse::<Measure>().unwrap().prepare(&mut whole);
        assert_eq!(whole, result(500));
        assert!("p98".parse::<Measure>().unwrap_err().contains("p99.9"));
    }
}
