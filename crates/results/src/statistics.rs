//! Statistics of repeats: robust, seeded, and shy of naming a winner without evidence.
//!
//! Repeats are few and not normal, so the centre is the median and intervals come from the percentile
//! bootstrap (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13). The resampling is
//! seeded: the same data give the same interval.
//!
//! Fewer than [`LEAST_REPEATS`] repeats have no 95 % interval: even the whole range, from the least to the largest value, covers
//! the median with probability 1 - 2^(1-n) only, which is 93.75 % for five (David and Nagaraja, *Order Statistics*, 2003, section
//! 7.1). They give that range, and it is called so. Two such sides differ when their ranges are apart and as many values of equal
//! distribution would be apart in at most 5 % of cases: in 2 of all ways to choose the values of one side (the exact test of Mann
//! and Whitney, 1947). Three against three are never enough.

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

/// Confidence of every interval here.
pub const CONFIDENCE: f64 = 0.95;
const RESAMPLES: usize = 4_000;

/// With fewer repeats there is a range and no interval.
pub const LEAST_REPEATS: usize = 6;

/// What an interval is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// A 95 % confidence interval.
    #[default]
    Confidence,
    /// From the least to the largest: there are fewer than [`LEAST_REPEATS`] repeats.
    Range,
}

/// How far an estimate may be off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What lies between them.
    pub coverage: Coverage,
}

impl Interval {
    /// Whether it is a range of few repeats.
    pub fn is_range(&self) -> bool {
        self.coverage == Coverage::Range
    }

    /// Whether `value` lies in it.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Half its width relative to `centre`; 0 when the centre is 0.
    pub fn relative_half_width(&self, centre: f64) -> f64 {
        if centre == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / centre.abs() }
    }
}

/// What a comparison comes to. "Faster" means the larger value: give throughputs, or swap the sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
#[non_exhaustive]
pub enum Verdict {
    /// The new side is larger, beyond interval and threshold.
    Faster,
    /// The new side is smaller, beyond interval and threshold.
    Slower,
    /// No difference of `at_percent` or more was detected.
    NoDifference {
        /// The difference that would have been detected.
        at_percent: f64,
    },
    /// At least one side ran only once: there is a ratio and no evidence.
    RanOnce,
    /// A run of the baseline counted nothing: there is a ratio, and its interval has no end.
    Unbounded,
    /// The sides are apart, and have so few repeats that this happens by chance in `chance_percent` of cases.
    TooFew {
        /// How often equal sides would be as far apart.
        chance_percent: f64,
    },
}

/// A new set of repeats against a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Median of the new side by median of the baseline.
    pub ratio: f64,
    /// The ratio's interval; `None` when a side ran only once, or when a run of the baseline counted nothing.
    pub interval: Option<Interval>,
    /// What it comes to.
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Comparison {
    /// The relative change: +0.4 for a ratio of 1.4.
    pub fn change(&self) -> f64 {
        self.ratio - 1.0
    }

    /// The relative change's interval.
    pub fn change_interval(&self) -> Option<Interval> {
        self.interval.map(|i| Interval { low: i.low - 1.0, high: i.high - 1.0, ..i })
    }
}

/// The middle value, or the mean of the two middle ones; `None` for no data.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (upper, lower) = (sorted.get(sorted.len() / 2)?, sorted.get((sorted.len() - 1) / 2)?);
    Some(f64::midpoint(*lower, *upper))
}

/// The arithmetic mean; `None` for no data.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The geometric mean of positive values; `None` for no data or a value that is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if !values.iter().all(|&value| value > 0.0) {
        return None;
    }
    mean(&values.iter().map(|value| sim::math::ln(*value)).collect::<Vec<_>>()).map(sim::math::exp)
}

/// The sample standard deviation by the mean; `None` for fewer than two values or a mean of 0.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt() / mean.abs())
}

/// The bootstrap interval of the median, or the range of few values; `None` for fewer than two.
pub fn median_interval(values: &[f64], seed: u64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    if values.len() < LEAST_REPEATS {
        let (low, high) = ends(values);
        return Some(Interval { low, high, coverage: Coverage::Range });
    }
    let mut resampler = Resampler::new(seed);
    percentile_interval((0..RESAMPLES).filter_map(|_| resampler.median(values)).collect())
}

/// The bootstrap interval of `median(new) / median(baseline)`, or the range of the ratios where a side has few values; `None` when
/// a side has fewer than two or the baseline can be 0.
pub fn ratio_interval(baseline: &[f64], new: &[f64], seed: u64) -> Option<Interval> {
    if baseline.len() < 2 || new.len() < 2 {
        return None;
    }
    if baseline.len().min(new.len()) < LEAST_REPEATS {
        let ((least, most), (low, high)) = (ends(baseline), ends(new));
        let range = Interval { low: low / most, high: high / least, coverage: Coverage::Range };
        return (range.low.is_finite() && range.high.is_finite()).then_some(range);
    }
    let mut resampler = Resampler::new(seed);
    let ratio = |_| Some(resampler.median(new)? / resampler.median(baseline)?);
    let ratios: Vec<f64> = (0..RESAMPLES).filter_map(ratio).collect();
    if ratios.iter().all(|ratio| ratio.is_finite()) { percentile_interval(ratios) } else { None }
}

/// Judges `new` against `baseline`. Differences below `threshold` (0.02 for 2 %) count as none.
/// `None` when a side is empty or the baseline's median is 0.
pub fn compare(baseline: &[f64], new: &[f64], threshold: f64, seed: u64) -> Option<Comparison> {
    let base = median(baseline)?;
    if base == 0.0 {
        return None;
    }
    let ratio = median(new)? / base;
    let interval = ratio_interval(baseline, new, seed);
    let chance = chance_of_being_apart(baseline.len(), new.len());
    let once = baseline.len().min(new.len()) < 2;
    let verdict = match interval {
        Some(interval) => judge(ratio, interval, threshold, chance),
        None if once => Verdict::RanOnce,
        None => Verdict::Unbounded,
    };
    Some(Comparison { ratio, interval, verdict })
}

fn judge(ratio: f64, interval: Interval, threshold: f64, chance: f64) -> Verdict {
    let (faster, slower) = (interval.low > 1.0, interval.high < 1.0);
    let beyond = (faster && ratio >= 1.0 + threshold) || (slower && ratio <= 1.0 - threshold);
    if beyond && interval.is_range() && chance > 1.0 - CONFIDENCE {
        Verdict::TooFew { chance_percent: chance * 100.0 }
    } else if beyond {
        if faster { Verdict::Faster } else { Verdict::Slower }
    } else {
        let widest = (interval.high - 1.0).abs().max((interval.low - 1.0).abs());
        Verdict::NoDifference { at_percent: widest.max(threshold) * 100.0 }
    }
}

/// How often all of `n` values lie on one side of all of `m` others of the same distribution.
fn chance_of_being_apart(n: usize, m: usize) -> f64 {
    // 2 of (n + m choose n) ways.
    let ways = (1..=n).map(|k| (m + k) as f64 / k as f64).product::<f64>();
    2.0 / ways
}

/// The least and the largest.
fn ends(values: &[f64]) -> (f64, f64) {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn percentile_interval(mut estimates: Vec<f64>) -> Option<Interval> {
    estimates.sort_by(f64::total_cmp);
    let last = estimates.len().checked_sub(1)?;
    let at = |quantile: f64| estimates[(quantile * last as f64).round() as usize];
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Some(Interval { low: at(tail), high: at(1.0 - tail), coverage: Coverage::Confidence })
}

/// Draws with replacement, keeping its buffer between draws.
struct Resampler {
    rng: Xoshiro256StarStar,
    drawn: Vec<f64>,
}

impl Resampler {
    fn new(seed: u64) -> Self {
        Self { rng: Xoshiro256StarStar::seed_from_u64(seed), drawn: Vec::new() }
    }

    fn median(&mut self, values: &[f64]) -> Option<f64> {
        self.drawn.clear();
        for _ in values {
            let value = values[self.below(values.len())];
            self.drawn.push(value);
        }
        median(&self.drawn)
    }

    /// A number below `bound`; the bias of the multiply-shift is below 2^-32 for our handfuls of repeats.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.rng.next_u64()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: u64 = 7;

    fn close(got: Option<f64>, want: f64) {
        assert!((got.unwrap() - want).abs() < 1e-9, "{got:?} for {want}");
    }

    #[test]
    fn centres_and_spread_of_known_data() {
        close(median(&[3.0, 1.0, 2.0]), 2.0);
        close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        close(mean(&[1.0, 2.0, 6.0]), 3.0);
        close(geometric_mean(&[1.0, 4.0]), 2.0);
        close(coefficient_of_variation(&[9.0, 11.0]), 2.0_f64.sqrt() / 10.0);
    }

    #[test]
    fn no_data_gives_no_number() {
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(coefficient_of_variation(&[5.0]), None);
        assert_eq!(median_interval(&[5.0], SEED), None);
        assert_eq!(compare(&[0.0, 0.0], &[1.0, 1.0], 0.02, SEED), None);
    }

    #[test]
    fn a_clear_difference_is_named_in_the_right_direction() {
        let (slow, fast) = ([100.0, 101.0, 99.0, 100.5, 99.5], [140.0, 141.0, 139.0, 140.5, 139.5]);
        let faster = compare(&slow, &fast, 0.02, SEED).unwrap();
        assert_eq!(faster.verdict, Verdict::Faster);
        assert!(faster.interval.unwrap().contains(1.4));
        assert_eq!(compare(&fast, &slow, 0.02, SEED).unwrap().verdict, Verdict::Slower);
    }

    #[test]
    fn noise_is_not_a_difference_and_says_how_coarse_it_is() {
        let (a, b) = ([90.0, 110.0, 95.0, 105.0, 100.0], [92.0, 112.0, 96.0, 104.0, 101.0]);
        let Verdict::NoDifference { at_percent } = compare(&a, &b, 0.02, SEED).unwrap().verdict else {
            panic!("noise was called a difference");
        };
        assert!((2.0..40.0).contains(&at_percent), "{at_percent}");
    }

    #[test]
    fn a_difference_below_the_threshold_is_none() {
        let comparison = compare(&[100.0, 100.0], &[101.0, 101.0], 0.02, SEED).unwrap();
        assert_eq!(comparison.verdict, Verdict::NoDifference { at_percent: 2.0 });
    }

    #[test]
    fn fewer_than_six_repeats_give_a_range_and_no_interval() {
        let values = [3.0, 1.0, 9.0, 2.0, 4.0, 5.0];
        for count in 2..LEAST_REPEATS {
            let range = median_interval(&values[..count], SEED).unwrap();
            let (low, high) = ends(&values[..count]);
            assert!(range.is_range() && (range.low, range.high) == (low, high), "{range:?}");
        }
        assert!(!median_interval(&values, SEED).unwrap().is_range());
        assert!(ratio_interval(&values, &values[..5], SEED).unwrap().is_range());
    }

    #[test]
    fn a_few_repeats_that_are_apart_name_a_winner_only_where_chance_would_not_do_it() {
        let verdict = |n: usize| {
            let slow: Vec<f64> = (0..n).map(|i| 100.0 + i as f64).collect();
            let fast: Vec<f64> = slow.iter().map(|value| value * 2.0).collect();
            compare(&slow, &fast, 0.02, SEED).unwrap().verdict
        };
        assert!(
            matches!(verdict(2), Verdict::TooFew { chance_percent } if (33.0..34.0).contains(&chance_percent))
        );
        assert!(
            matches!(verdict(3), Verdict::TooFew { chance_percent } if (9.9..10.1).contains(&chance_percent))
        );
        assert_eq!((verdict(4), verdict(9)), (Verdict::Faster, Verdict::Faster));
    }

    #[test]
    fn one_run_gives_a_ratio_and_no_verdict() {
        let comparison = compare(&[100.0], &[200.0], 0.02, SEED).unwrap();
        assert_eq!((comparison.verdict, comparison.interval), (Verdict::RanOnce, None));
        close(Some(comparison.change()), 1.0);
    }

    #[test]
    fn a_run_of_the_baseline_that_counted_nothing_is_not_one_run() {
        let comparison = compare(&[0.0, 100.0, 100.0], &[200.0, 200.0, 200.0], 0.02, SEED).unwrap();
        assert_eq!((comparison.verdict, comparison.interval), (Verdict::Unbounded, None));
    }

    #[test]
    fn the_interval_covers_the_true_median_about_as_often_as_it_says() {
        let mut rng = Xoshiro256StarStar::seed_from_u64(SEED);
        let mut uniform = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let covered = (0..200)
            .filter(|&trial| {
                let values: Vec<f64> = (0..15).map(|_| uniform()).collect();
                median_interval(&values, trial).unwrap().contains(0.5)
            })
            .count();
        assert!((170..=200).contains(&covered), "{covered} of 200 with seed {SEED}");
    }

    proptest! {
        #[test]
        fn the_same_seed_gives_the_same_interval_and_it_lies_in_the_data(
            values in prop::collection::vec(1.0..1e9, 2..12),
            seed: u64,
        ) {
            let interval = median_interval(&values, seed).unwrap();
            prop_assert_eq!(median_interval(&values, seed).unwrap(), interval);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            prop_assert!(least <= interval.low && interval.low <= interval.high && interval.high <= most);
        }
    }
}
