//! Latency histograms: HdrHistogram with three significant digits, in nanoseconds.
//!
//! In JSON a histogram is its readable [`Summary`] and `hdr_v2_base64`, the HdrHistogram V2 encoding (not
//! deflated) that other HdrHistogram tools read too. Equal contents give equal text, however they came
//! together, because the encoding is always made from a fresh histogram that just covers the maximum.
//!
//! | constructor | memory | recording allocates |
//! |---|---|---|
//! | [`Histogram::new`] | 16 KiB, 88 KiB from 1 ms, 168 KiB from 1 s | when the maximum doubles |
//! | [`Histogram::for_an_hour`] | 264 KiB | never below one hour |

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

const SIGNIFICANT_DIGITS: u8 = 3;
const HOUR_NS: u64 = 3_600_000_000_000;

/// Latencies of many operations, each kept to three significant digits.
#[derive(Clone, Debug)]
pub struct Histogram {
    inner: Hdr<u64>,
}

/// The numbers that people read out of a histogram. All are 0 when it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of recorded values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Smallest value.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// 99.99th percentile.
    pub p99_99_ns: u64,
    /// Largest value.
    pub max_ns: u64,
}

/// Why the text of a histogram could not be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The text is not base64.
    #[error("histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are not a histogram.
    #[error("histogram is not in HdrHistogram V2 form: {0:?}")]
    Hdr(hdrhistogram::serialization::DeserializeError),
    /// The readable count and the encoded histogram disagree: the file was edited or damaged.
    #[error("histogram holds {encoded} values but its count says {stated}")]
    Count {
        /// Values in the encoded histogram.
        encoded: u64,
        /// The readable count beside it.
        stated: u64,
    },
}

impl Histogram {
    /// An empty histogram that grows with its largest value.
    pub fn new() -> Self {
        let inner = Hdr::new(SIGNIFICANT_DIGITS).expect("three digits are within the library's 0..=5");
        Self { inner }
    }

    /// An empty histogram that has its whole memory already: recording a value below one hour allocates
    /// nothing. For hot paths under the real clock.
    pub fn for_an_hour() -> Self {
        let mut histogram = Self::covering(HOUR_NS);
        histogram.inner.auto(true);
        histogram
    }

    fn covering(max_ns: u64) -> Self {
        let inner = Hdr::new_with_max(max_ns.max(2), SIGNIFICANT_DIGITS)
            .expect("2 is the least maximum that the library accepts");
        Self { inner }
    }

    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.record_n(latency_ns, 1);
    }

    /// Adds the same latency `count` times.
    #[inline]
    pub fn record_n(&mut self, latency_ns: u64, count: u64) {
        self.inner.record_n(latency_ns, count).expect("a growing histogram takes every value");
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.inner.add(&other.inner).expect("a growing histogram takes every value of another");
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Arithmetic mean; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        self.inner.mean()
    }

    /// The value that `quantile` (0 to 1) of all values do not exceed; 0 when empty.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.inner.value_at_quantile(quantile)
    }

    /// The recorded values in ascending order, each with how often it occurred.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.inner.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()))
    }

    /// The ranges in which values were recorded, in ascending order: least and greatest value of the range, and how many. The
    /// greatest value of the last one is that of the histogram, so that it is the 100th percentile.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let inner = &self.inner;
        inner.iter_recorded().map(|v| {
            let value = v.value_iterated_to();
            (inner.lowest_equivalent(value), inner.highest_equivalent(value), v.count_at_value())
        })
    }

    /// The numbers that people read.
    pub fn summary(&self) -> Summary {
        Summary {
            count: self.count(),
            mean_ns: self.mean_ns(),
            stddev_ns: self.inner.stdev(),
            min_ns: self.inner.min(),
            p50_ns: self.quantile_ns(0.50),
            p90_ns: self.quantile_ns(0.90),
            p95_ns: self.quantile_ns(0.95),
            p99_ns: self.quantile_ns(0.99),
            p99_9_ns: self.quantile_ns(0.999),
            p99_99_ns: self.quantile_ns(0.9999),
            max_ns: self.inner.max(),
        }
    }

    /// The HdrHistogram V2 encoding as base64, the same for the same contents.
    pub(crate) fn to_base64(&self) -> String {
        let mut canonical = Self::covering(self.inner.max());
        canonical.inner.add(&self.inner).expect("it covers the maximum");
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&canonical.inner, &mut bytes)
            .expect("a vector takes every byte and counts stay below 2^63");
        BASE64.encode(bytes)
    }

    /// Reads what [`Histogram::to_base64`] wrote.
    pub(crate) fn from_base64(text: &str) -> Result<Self, DecodeError> {
        let bytes = BASE64.decode(text)?;
        let inner = Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(DecodeError::Hdr)?;
        let mut histogram = Self { inner };
        histogram.inner.auto(true);
        Ok(histogram)
    }
}

/// Equal contents, regardless of allocated memory.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.values().eq(other.values())
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// The form of a histogram in JSON.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(flatten)]
    summary: Summary,
    hdr_v2_base64: String,
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Stored { summary: self.summary(), hdr_v2_base64: self.to_base64() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        from_stored(&stored).map_err(serde::de::Error::custom)
    }
}

fn from_stored(stored: &Stored) -> Result<Histogram, DecodeError> {
    let histogram = Histogram::from_base64(&stored.hdr_v2_base64)?;
    let (encoded, stated) = (histogram.count(), stored.summary.count);
    if encoded == stated { Ok(histogram) } else { Err(DecodeError::Count { encoded, stated }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        for &value in values {
            histogram.record(value);
        }
        histogram
    }

    #[test]
    fn an_empty_histogram_has_a_finite_summary_and_comes_back() {
        let empty = Histogram::new();
        assert_eq!(empty.summary(), Summary::default());
        assert_eq!(Histogram::from_base64(&empty.to_base64()).unwrap(), empty);
    }

    #[test]
    fn percentiles_are_right_to_three_digits() {
        let histogram = of(&(1..=100_000).collect::<Vec<_>>());
        let summary = histogram.summary();
        let near = |got: u64, want: f64| assert!((got as f64 / want - 1.0).abs() < 0.002, "{got} for {want}");
        near(summary.p50_ns, 50_000.0);
        near(summary.p99_ns, 99_000.0);
        near(summary.p99_99_ns, 99_990.0);
        near(summary.max_ns, 100_000.0);
    }

    #[test]
    fn an_edited_count_is_refused() {
        let text = serde_json::to_string(&of(&[5, 6])).unwrap().replace("\"count\":2", "\"count\":3");
        let error = serde_json::from_str::<Histogram>(&text).unwrap_err().to_string();
        assert!(error.contains("holds 2 values but its count says 3"), "{error}");
    }

    #[test]
    fn an_hour_fits_without_growing() {
        let mut histogram = Histogram::for_an_hour();
        let before = histogram.inner.distinct_values();
        histogram.record(HOUR_NS);
        assert_eq!(histogram.inner.distinct_values(), before);
        assert!(before * 8 <= 264 * 1024, "the documented memory");
    }

    #[test]
    fn the_documented_memory_of_a_growing_histogram_holds() {
        for (max_ns, kib) in [(1, 16), (1_000_000, 88), (1_000_000_000, 168)] {
            assert!(of(&[max_ns]).inner.distinct_values() * 8 <= kib * 1024, "{max_ns}");
        }
    }

    #[test]
    fn values_beyond_an_hour_are_kept() {
        let mut histogram = Histogram::for_an_hour();
        histogram.record(10 * HOUR_NS);
        assert!(histogram.summary().max_ns >= 10 * HOUR_NS);
    }

    proptest! {
        #[test]
        fn text_comes_back_as_the_same_histogram(values in prop::collection::vec(0..u64::MAX / 4, 0..50)) {
            let histogram = of(&values);
            let json = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&json).unwrap(), histogram);
        }

        #[test]
        fn merging_equals_recording_together_to_the_byte(
            left in prop::collection::vec(0..HOUR_NS, 0..50),
            right in prop::collection::vec(0..HOUR_NS, 0..50),
        ) {
            let mut merged = Histogram::for_an_hour();
            merged.merge(&of(&left));
            merged.merge(&of(&right));
            let together = of(&[left, right].concat());
            prop_assert_eq!(merged.to_base64(), together.to_base64());
            prop_assert_eq!(merged.summary(), together.summary());
        }
    }
}
