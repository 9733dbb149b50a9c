//! `steadystate`: a job ends when its rate, or its latency, has been steady for a while.
//!
//! The rules are those of fio 3.36: what is measured is taken over equal intervals (`steadystate_check_interval`), from the end of
//! `steadystate_ramp_time` on. The last `steadystate_duration` of them are judged at the end of each: all are within the limit of
//! their mean, or the slope of the least-squares line through them is. A limit with `%` is a part of the mean. The jobs of a group
//! with `group_reporting` are judged together. fio judges when its timer wakes, late by up to some milliseconds; here an interval
//! has its exact length.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sim::{LockClass, Mutex, Nanos};

use super::value::{self, Base, Parsed};

pub(super) static STEADY: LockClass = LockClass::new("fio.steady");

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// I/Os a second.
    Ios,
    /// Bytes a second.
    Bytes,
    /// The mean latency of the I/Os that ended in an interval, in ns.
    Latency,
}

/// When a job counts as steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Criterion {
    pub(super) measure: Measure,
    /// Whether the slope is judged, or the largest deviation from the mean.
    pub(super) slope: bool,
    pub(super) limit: f64,
    /// Whether the limit is percent of the mean.
    pub(super) percent: bool,
}

/// `steadystate` with its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Steady {
    pub(super) criterion: Criterion,
    /// Intervals that are judged together: two at least.
    pub(super) intervals: usize,
    pub(super) interval: Nanos,
    /// From the start of the job to the first interval that counts.
    pub(super) ramp: Nanos,
}

/// Reads `iops:2%` and its kin.
pub(super) fn criterion(text: &str) -> Parsed<Criterion> {
    let wrong = || {
        format!("\"{text}\" is not iops, bw, lat or one of them with _slope, a colon and a limit: iops:2%")
    };
    let (name, limit) = text.trim().split_once(':').ok_or_else(wrong)?;
    let (measure, slope) = match name.trim() {
        "iops" => (Measure::Ios, false),
        "iops_slope" => (Measure::Ios, true),
        "bw" => (Measure::Bytes, false),
        "bw_slope" => (Measure::Bytes, true),
        "lat" => (Measure::Latency, false),
        "lat_slope" => (Measure::Latency, true),
        _ => return Err(wrong()),
    };
    let limit = limit.trim();
    let (number, percent) = match limit.strip_suffix('%') {
        Some(number) => (number.trim().parse().map_err(|_| wrong())?, true),
        None => (absolute(measure, limit).ok_or_else(wrong)?, false),
    };
    if !f64::is_finite(number) || number < 0.0 {
        return Err(wrong());
    }
    Ok(Criterion { measure, slope, limit: number, percent })
}

/// A limit in the unit of what is measured.
fn absolute(measure: Measure, text: &str) -> Option<f64> {
    match measure {
        Measure::Ios => text.parse().ok(),
        Measure::Bytes => value::int(text, Base::Old).ok().map(|bytes| bytes as f64),
        Measure::Latency => value::time(text, Nanos(1)).ok().map(|time| time.0 as f64),
    }
}

/// The intervals of a job, or of the jobs of a group.
#[derive(Debug)]
pub(super) struct Gauge {
    attained: AtomicBool,
    series: Mutex<Series>,
}

impl Gauge {
    pub(super) fn new(steady: Steady) -> Self {
        Self { attained: AtomicBool::new(false), series: Mutex::new(&STEADY, Series::new(steady)) }
    }

    /// Whether the jobs are steady, and end.
    pub(super) fn is_attained(&self) -> bool {
        self.attained.load(Relaxed)
    }

    /// Notes an I/O of `bytes` that took from `start` to `end`, of a job that began at `begun`.
    pub(super) fn note(&self, bytes: u64, times: (Nanos, Nanos), begun: Nanos) {
        if !self.is_attained() && self.series.lock().note(bytes, times, begun) {
            self.attained.store(true, Relaxed);
        }
    }

    /// How it ended, in words.
    pub(super) fn told(&self) -> String {
        self.series.lock().told()
    }
}

/// What ended in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    ios: u64,
    bytes: u64,
    latency_ns: u64,
}

#[derive(Debug)]
struct Series {
    steady: Steady,
    /// When the first job began.
    begun: Option<Nanos>,
    /// Intervals that have ended.
    ended: u64,
    now: Sums,
    /// The last values, at most as many as are judged together.
    values: VecDeque<f64>,
    /// By how much they differ, in the unit of the limit, when they are judged.
    differ: Option<f64>,
    /// From the start to the interval at whose end the jobs were steady.
    attained: Option<Nanos>,
}

impl Series {
    fn new(steady: Steady) -> Self {
        let values = VecDeque::with_capacity(steady.intervals);
        Self { steady, begun: None, ended: 0, now: Sums::default(), values, differ: None, attained: None }
    }

    /// Whether the jobs are steady at the end of an interval that this I/O ends.
    fn note(&mut self, bytes: u64, (start, end): (Nanos, Nanos), begun: Nanos) -> bool {
        let begun = *self.begun.get_or_insert(begun);
        while self.attained.is_none() && end.since(begun) >= self.steady.interval * (self.ended + 1) {
            self.end_interval();
        }
        self.now.ios += 1;
        self.now.bytes += bytes;
        self.now.latency_ns += end.since(start).0;
        self.attained.is_some()
    }

    fn end_interval(&mut self) {
        let sums = std::mem::take(&mut self.now);
        let begins = self.steady.interval * self.ended;
        self.ended += 1;
        if begins < self.steady.ramp {
            return;
        }
        let seconds = self.steady.interval.0 as f64 / 1e9;
        let value = match self.steady.criterion.measure {
            Measure::Ios => sums.ios as f64 / seconds,
            Measure::Bytes => sums.bytes as f64 / seconds,
            Measure::Latency => sums.latency_ns as f64 / sums.ios as f64,
        };
        if self.values.len() == self.steady.intervals {
            self.values.pop_front();
        }
        self.values.push_back(value);
        if self.values.len() == self.steady.intervals {
            let differ = self.differ();
            self.differ = Some(differ);
            if differ < self.steady.criterion.limit {
                self.attained = Some(self.steady.interval * self.ended);
            }
        }
    }

    /// The criterion of the values: not a number where they have no mean, which is within no limit.
    fn differ(&self) -> f64 {
        let count = self.values.len() as f64;
        let mean = self.values.iter().sum::<f64>() / count;
        let differ = if self.steady.criterion.slope {
            slope(self.values.iter().copied(), mean).abs()
        } else {
            self.values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max)
        };
        if self.steady.criterion.percent { differ * 100.0 / mean } else { differ }
    }

    fn told(&self) -> String {
        let unit = if self.steady.criterion.percent { " %" } else { "" };
        let limit = self.steady.criterion.limit;
        match (self.attained, self.differ) {
            (Some(at), Some(differ)) => {
                format!(
                    "steadystate: attained after {at}: {differ:.3}{unit}, below the limit of {limit}{unit}"
                )
            }
            (_, Some(differ)) => {
                format!("steadystate: not attained: {differ:.3}{unit}, and the limit is {limit}{unit}")
            }
            _ => {
                let needs = self.steady.ramp + self.steady.interval * self.steady.intervals as u64;
                format!("steadystate: not attained: the job ended before {needs}, when it is first judged")
            }
        }
    }
}

/// The slope of the least-squares line through values at 0, 1, 2 …
fn slope(values: impl ExactSizeIterator<Item = f64>, mean: f64) -> f64 {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (at, value) in values.enumerate() {
        let distance = at as f64 - middle;
        products += distance * (value - mean);
        squares += distance * distance;
    }
    products / squares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady(text: &str, intervals: usize, ramp_ms: u64) -> Steady {
        let interval = Nanos::from_millis(100);
        Steady { criterion: criterion(text).unwrap(), intervals, interval, ramp: Nanos::from_millis(ramp_ms) }
    }

    /// Runs I/Os of 1000 bytes, `rate(interval)` in each of 40 intervals; says after which one it was steady.
    fn attained(steady: Steady, rate: impl Fn(u64) -> u64) -> Option<u64> {
        let mut series = Series::new(steady);
        let origin = Nanos::from_secs(3);
        for at in 0..40 {
            let ios = rate(at);
            for io in 0..ios {
                let end = origin + steady.interval * at + Nanos(steady.interval.0 / ios * io);
                if series.note(1_000, (Nanos(end.0 - 10 * ios), end), origin) {
                    return Some(series.attained.unwrap().0 / steady.interval.0);
                }
            }
        }
        None
    }

    #[test]
    fn a_rate_within_the_limit_of_its_mean_for_the_duration_ends_the_job() {
        // 100, 90 … 50, then 50 for ever: the window of five holds only the last after the tenth interval.
        let falling = |at: u64| 100 - 10 * at.min(5);
        for text in ["iops:1%", "bw:1%", "bw:1k", "iops:4", "lat:1%", "lat:4"] {
            assert_eq!(attained(steady(text, 5, 0), falling), Some(10), "{text}");
        }
        // 20 % of the mean of 70, 60, 50, 50, 50 are 11.2, and 70 is 14 above it; 60 is 8 above that of the next window.
        assert_eq!(attained(steady("iops:20%", 5, 0), falling), Some(9));
    }

    #[test]
    fn the_slope_of_the_least_squares_line_is_judged_not_the_noise() {
        let alternating = |at: u64| if at.is_multiple_of(2) { 90 } else { 110 };
        assert_eq!(attained(steady("iops:5%", 6, 0), alternating), None);
        assert_eq!(attained(steady("iops_slope:5%", 6, 0), alternating), Some(6));
        assert_eq!(attained(steady("bw_slope:1k", 6, 0), |at| 20 * (at + 1)), None);
        assert!((slope([1.0, 3.0, 5.0, 7.0].into_iter(), 4.0) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn intervals_of_the_ramp_do_not_count_and_an_idle_one_does() {
        assert_eq!(attained(steady("iops:1%", 5, 1_000), |_| 100), Some(15));
        // Nothing in the seventh interval: the window that holds it is not steady.
        assert_eq!(attained(steady("iops:1%", 5, 300), |at| if at == 6 { 0 } else { 100 }), Some(12));
    }

    #[test]
    fn limits_that_are_none_are_told() {
        for text in ["iops", "ios:2%", "iops:two", "iops:-1", "bw:1q", "iops:nan", "lat:"] {
            assert!(criterion(text).is_err(), "{text}");
        }
    }
}
