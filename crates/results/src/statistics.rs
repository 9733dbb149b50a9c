//! Statistics of repeats: robust, seeded, and shy of naming a winner without evidence.
//!
//! Designs that ran the same seeds are compared seed by seed ([`compare_pairs`]): what a seed does to both is no difference between
//! them. The ratio is the geometric mean of the pairs' ratios, and its interval that of Student's t of their logarithms (Law and
//! Kelton, *Simulation Modeling and Analysis*, 2000, section 10.2: paired-t confidence interval). Fewer than [`LEAST_PAIRS`] pairs
//! give the range of their ratios and name nothing. Pairs without any spread are a workload without randomness: one value.
//!
//! Without pairs, repeats are few and not normal, so the centre is the median and intervals come from the percentile
//! bootstrap (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13). The resampling is
//! seeded: the same data give the same interval.
//!
//! Fewer than [`LEAST_REPEATS`] repeats have no 95 % interval: even the whole range, from the least to the largest value, covers
//! the median with probability 1 - 2^(1-n) only, which is 93.75 % for five (David and Nagaraja, *Order Statistics*, 2003, section
//! 7.1). They give that range, and it is called so. Two such sides differ when their ranges are apart and as many values of equal
//! distribution would be apart in at most 5 % of cases: in 2 of all ways to choose the values of one side (the exact test of Mann
//! and Whitney, 1947). Three against three are never enough.
//!
//! Several comparisons that are read together find more by chance than one: [`together`] corrects their chances (Holm, *A simple
//! sequentially rejective multiple test procedure*, 1979).

use std::cmp::Ordering;

use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use crate::student;

/// Confidence of every interval here.
pub const CONFIDENCE: f64 = 0.95;
const RESAMPLES: usize = 4_000;

/// With fewer repeats there is a range and no interval.
pub const LEAST_REPEATS: usize = 6;

/// With fewer pairs there is a range and no interval.
pub const LEAST_PAIRS: usize = 4;

/// What an interval is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// A 95 % confidence interval.
    #[default]
    Confidence,
    /// From the least to the largest: there are fewer than [`LEAST_REPEATS`] repeats, or [`LEAST_PAIRS`] pairs.
    Range,
    /// A 95 % confidence interval of the ratios of pairs with one seed each.
    Pairs,
    /// Every pair has this ratio, or every repeat this value: nothing is random.
    Exact,
}

impl Coverage {
    /// What the ends of an interval are called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confidence | Self::Pairs => "95 % interval",
            Self::Range => "range of the runs",
            Self::Exact => "deterministic: one value",
        }
    }
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
    /// Median of the new side by median of the baseline; of pairs, the geometric mean of their ratios.
    pub ratio: f64,
    /// The ratio's interval; `None` when a side ran only once, or when a run of the baseline counted nothing.
    pub interval: Option<Interval>,
    /// What it comes to.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How often equal sides would be as far apart; `None` where a side ran only once, or the interval has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

impl Comparison {
    /// The relative change: +0.4 for a ratio of 1.4.
    pub fn change(&self) -> f64 {
        self.ratio - 1.0
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

/// The mean, and half of Student's 95 % interval around it; `None` for fewer than two values.
pub fn mean_interval(values: &[f64]) -> Option<(f64, f64)> {
    let (mean, freedom) =
        (mean(values)?, u32::try_from(values.len()).ok()?.checked_sub(1).filter(|left| *left > 0)?);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / f64::from(freedom) / values.len() as f64).sqrt();
    Some((mean, student::quantile(1.0 - CONFIDENCE, freedom) * error))
}

/// The geometric mean of positive values; `None` for no data or a value that is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if !values.iter().all(|&value| value > 0.0) {
        return None;
    }
    mean(&values.iter().map(|value| sim::math::ln(*value)).collect::<Vec<_>>()).map(sim::math::exp)
}

/// The bootstrap interval of the median, the range of few values, or the one value that all have; `None` for fewer than two.
pub fn median_interval(values: &[f64], seed: u64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let (low, high) = ends(values);
    if low.total_cmp(&high).is_eq() {
        return Some(Interval { low, high, coverage: Coverage::Exact });
    }
    if values.len() < LEAST_REPEATS {
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
    let least = chance_of_being_apart(baseline.len(), new.len());
    let once = baseline.len().min(new.len()) < 2;
    let verdict = match interval {
        Some(interval) => judge(ratio, interval, threshold, least),
        None if once => Verdict::RanOnce,
        None => Verdict::Unbounded,
    };
    let chance = interval.map(|_| chance_of_ranks(baseline, new));
    Some(Comparison { ratio, interval, verdict, chance })
}

/// Judges the second values of pairs against the first ones, which ran the same seed each. `None` where there is no pair, or a
/// value is not positive: [`compare`] takes those.
pub fn compare_pairs(pairs: &[(f64, f64)], threshold: f64) -> Option<Comparison> {
    if pairs.is_empty() || pairs.iter().any(|(base, new)| *base <= 0.0 || *new <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = pairs.iter().map(|(base, new)| sim::math::ln(new / base)).collect();
    let ratio = sim::math::exp(mean(&logs)?);
    let count = logs.len();
    if count == 1 {
        return Some(Comparison { ratio, interval: None, verdict: Verdict::RanOnce, chance: None });
    }
    let same = |side: fn(&(f64, f64)) -> f64| {
        pairs.iter().all(|pair| side(pair).total_cmp(&side(&pairs[0])).is_eq())
    };
    if same(|pair| pair.0) && same(|pair| pair.1) {
        let ratio = pairs[0].1 / pairs[0].0;
        let exact = Interval { low: ratio, high: ratio, coverage: Coverage::Exact };
        let chance = if pairs[0].0.total_cmp(&pairs[0].1).is_eq() { 1.0 } else { 0.0 };
        let verdict = judge(ratio, exact, threshold, 0.0);
        return Some(Comparison { ratio, interval: Some(exact), verdict, chance: Some(chance) });
    }
    let (low, high) = ends(&logs);
    let (interval, chance) = if count < LEAST_PAIRS {
        let range = (sim::math::exp(low), sim::math::exp(high));
        // All of the signs alike: 2 of 2^n ways.
        (
            Interval { low: range.0, high: range.1, coverage: Coverage::Range },
            (1..count).fold(1.0, |chance, _| chance / 2.0),
        )
    } else {
        interval_of_logs(&logs)?
    };
    let verdict = judge(ratio, interval, threshold, if interval.is_range() { chance } else { 0.0 });
    Some(Comparison { ratio, interval: Some(interval), verdict, chance: Some(chance) })
}

/// Student's interval of the geometric mean of ratios, and how often chance alone puts it as far from 1.
fn interval_of_logs(logs: &[f64]) -> Option<(Interval, f64)> {
    let (centre, freedom) = (mean(logs)?, logs.len() as u32 - 1);
    let squares: f64 = logs.iter().map(|log| (log - centre) * (log - centre)).sum();
    let error = (squares / f64::from(freedom) / logs.len() as f64).sqrt();
    if error == 0.0 {
        let ratio = sim::math::exp(centre);
        return Some((Interval { low: ratio, high: ratio, coverage: Coverage::Exact }, 0.0));
    }
    let reach = student::quantile(1.0 - CONFIDENCE, freedom) * error;
    let (low, high) = (sim::math::exp(centre - reach), sim::math::exp(centre + reach));
    Some((Interval { low, high, coverage: Coverage::Pairs }, student::two_sided(centre / error, freedom)))
}

/// The chances of several comparisons that are read together, each as large as it must be so that one of them is below 5 % by
/// chance in at most 5 % of cases.
pub fn together(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut corrected = vec![0.0; chances.len()];
    let mut largest = 0.0_f64;
    for (place, index) in order.into_iter().enumerate() {
        largest = largest.max(((chances.len() - place) as f64 * chances[index]).min(1.0));
        corrected[index] = largest;
    }
    corrected
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

/// From so many values of each side on, Mann and Whitney's statistic is normal to three places, and counting ways takes long.
const NORMAL: usize = 25;

/// How often values of one distribution rank as far apart as these, on either side: the exact test of Mann and Whitney, of whose
/// ties each counts a half.
fn chance_of_ranks(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    let wins = |x: &f64| {
        let twice = b.iter().map(|y| match x.total_cmp(y) {
            Ordering::Greater => 2,
            Ordering::Equal => 1,
            Ordering::Less => 0,
        });
        twice.sum::<u64>()
    };
    let twice: u64 = a.iter().map(wins).sum();
    // The smaller of both statistics, rounded away from the end.
    let least = twice.min(2 * (n * m) as u64 - twice).div_ceil(2) as usize;
    if n.min(m) >= NORMAL { normal_chance(least, n, m) } else { exact_chance(least, n, m) }
}

/// Twice the part of a normal distribution that lies at or below `least`, with the mean and the variance of the statistic.
fn normal_chance(least: usize, n: usize, m: usize) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let below = (n * m / 2.0 - least as f64 - 0.5).max(0.0);
    student::two_sided(below / (n * m * (n + m + 1.0) / 12.0).sqrt(), student::AS_NORMAL)
}

/// Twice the part of all orders of `n` and `m` values whose statistic is at most `least`.
fn exact_chance(least: usize, n: usize, m: usize) -> f64 {
    // Ways in which `count` of the values rank so that the statistic is `sum`, as shares of all ways.
    let mut ways = vec![vec![0.0; n * m + 1]; n + 1];
    ways[0][0] = 1.0;
    for value in 1..=n + m {
        for count in (1..=n.min(value)).rev() {
            // The value is the `count`-th of its side: it stands over `value - count` of the other.
            let over = value - count;
            if over > m {
                continue;
            }
            for sum in (over..=n * m).rev() {
                ways[count][sum] += ways[count - 1][sum - over];
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    (2.0 * ways[n][..=least].iter().sum::<f64>() / all).min(1.0)
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
    fn the_interval_of_a_mean_is_students() {
        // Standard deviation 1.5811, by the root of five 0.7071, times 2.776.
        let (mean, half) = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((mean - 3.0).abs() < 1e-12 && (half - 1.963).abs() < 1e-3, "{mean} {half}");
        assert_eq!(mean_interval(&[2.0]), None);
    }

    #[test]
    fn centres_and_spread_of_known_data() {
        close(median(&[3.0, 1.0, 2.0]), 2.0);
        close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        close(mean(&[1.0, 2.0, 6.0]), 3.0);
        close(geometric_mean(&[1.0, 4.0]), 2.0);
    }

    #[test]
    fn no_data_gives_no_number() {
        assert_eq!(median(&[]), None);
        assert_eq!(mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
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
    fn many_values_have_the_chance_of_the_exact_test() {
        for (n, m, least) in [(25, 25, 200), (25, 40, 350), (30, 30, 310), (25, 25, 300)] {
            let (normal, exact) = (normal_chance(least, n, m), exact_chance(least, n, m));
            assert!((normal - exact).abs() < 0.002, "{n} {m} {least}: {normal} for {exact}");
        }
        let side = |from: f64| (0..400).map(|n| from + f64::from(n)).collect::<Vec<_>>();
        assert!(chance_of_ranks(&side(0.0), &side(1000.0)) < 1e-6);
        assert!(chance_of_ranks(&side(0.0), &side(0.0)) > 0.99);
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

    /// Numbers that are nearly normal: twelve uniform ones.
    fn normal(rng: &mut Xoshiro256StarStar) -> f64 {
        (0..12).map(|_| (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64).sum::<f64>() - 6.0
    }

    /// Pairs whose seeds spread by 10 %, both sides by 1 % more, the second one larger by `by`.
    fn pairs(rng: &mut Xoshiro256StarStar, count: usize, by: f64) -> Vec<(f64, f64)> {
        let pair = |_| {
            let seed = 1000.0 * (1.0 + 0.1 * normal(rng));
            (seed * (1.0 + 0.01 * normal(rng)), seed * (1.0 + by) * (1.0 + 0.01 * normal(rng)))
        };
        (0..count).map(pair).collect()
    }

    #[test]
    fn the_interval_of_pairs_covers_the_true_ratio_in_95_of_100_cases() {
        let mut rng = Xoshiro256StarStar::seed_from_u64(SEED);
        for count in [4, 6, 12] {
            let covers = |_: &u32| {
                let found = compare_pairs(&pairs(&mut rng, count, 0.05), 0.0).unwrap();
                found.interval.unwrap().contains(1.05)
            };
            let covered = (0..4000).filter(covers).count();
            // Five standard deviations of the count: a 90 % interval covers 3,600.
            assert!((3730..=3870).contains(&covered), "{covered} of 4000 with {count} pairs");
        }
    }

    #[test]
    fn equal_sides_have_a_winner_in_at_most_5_of_100_cases_and_5_percent_are_found_in_80() {
        let mut rng = Xoshiro256StarStar::seed_from_u64(SEED);
        let named = |rng: &mut Xoshiro256StarStar, by: f64| {
            let verdict = |_: &u32| {
                let found = compare_pairs(&pairs(rng, 6, by), 0.0).unwrap().verdict;
                matches!(found, Verdict::Faster | Verdict::Slower)
            };
            (0..4000).filter(verdict).count()
        };
        let by_chance = named(&mut rng, 0.0);
        assert!(by_chance <= 270, "{by_chance} of 4000 by chance");
        let found = named(&mut rng, 0.05);
        assert!(found >= 3200, "{found} of 4000 differences of 5 %");
    }

    #[test]
    fn equal_sides_without_pairs_have_a_winner_in_at_most_5_of_100_cases() {
        let mut rng = Xoshiro256StarStar::seed_from_u64(SEED);
        for count in [4, 5] {
            let verdict = |_: &u32| {
                let [a, b] =
                    [(); 2].map(|()| (0..count).map(|_| 100.0 + normal(&mut rng)).collect::<Vec<_>>());
                matches!(compare(&a, &b, 0.0, SEED).unwrap().verdict, Verdict::Faster | Verdict::Slower)
            };
            let by_chance = (0..2000).filter(verdict).count();
            assert!(by_chance <= 145, "{by_chance} of 2000 with {count} repeats");
        }
    }

    #[test]
    fn the_spread_of_the_baseline_counts() {
        let steady = [100.0, 100.1, 99.9, 100.0, 100.05, 99.95];
        let spread = [60.0, 150.0, 100.0, 80.0, 120.0, 101.0];
        let found = compare(&spread, &steady, 0.0, SEED).unwrap();
        assert!(found.interval.unwrap().relative_half_width(1.0) > 0.1, "{found:?}");
        let zipped: Vec<_> = spread.into_iter().zip(steady).collect();
        assert!(compare_pairs(&zipped, 0.0).unwrap().interval.unwrap().relative_half_width(1.0) > 0.1);
    }

    #[test]
    fn what_a_seed_does_to_both_sides_is_no_difference() {
        let mut rng = Xoshiro256StarStar::seed_from_u64(SEED);
        let pairs = pairs(&mut rng, 8, 0.05);
        let (base, new): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
        let width = |found: Comparison| found.interval.unwrap().relative_half_width(found.ratio);
        let apart = width(compare(&base, &new, 0.0, SEED).unwrap());
        let paired = width(compare_pairs(&pairs, 0.0).unwrap());
        assert!(paired * 3.0 < apart, "{paired} of {apart}");
    }

    #[test]
    fn pairs_without_spread_are_one_value_and_few_pairs_name_nothing() {
        let exact = compare_pairs(&[(100.0, 105.0); 3], 0.02).unwrap();
        assert_eq!((exact.verdict, exact.interval.unwrap().coverage), (Verdict::Faster, Coverage::Exact));
        let same = compare_pairs(&[(100.0, 100.0); 6], 0.02).unwrap();
        assert_eq!(same.verdict, Verdict::NoDifference { at_percent: 2.0 });
        let few = compare_pairs(&[(100.0, 105.0), (101.0, 107.0), (99.0, 106.0)], 0.02).unwrap();
        assert!(matches!(few.verdict, Verdict::TooFew { .. }), "{few:?}");
        assert_eq!(compare_pairs(&[(0.0, 1.0)], 0.02), None);
    }

    #[test]
    fn comparisons_that_are_read_together_are_corrected_as_holm_does() {
        let corrected = together(&[0.01, 0.04, 0.03, 0.005]);
        for (got, want) in corrected.into_iter().zip([0.03, 0.06, 0.06, 0.02]) {
            close(Some(got), want);
        }
    }

    #[test]
    fn ranks_have_the_chances_of_the_tables() {
        // Mann and Whitney, 1947, table I: U = 0 of 4 and 4, and of 6 and 6.
        close(Some(chance_of_ranks(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0])), 2.0 / 70.0);
        let (low, high): (Vec<f64>, Vec<f64>) =
            ((0..6).map(f64::from).collect(), (6..12).map(f64::from).collect());
        close(Some(chance_of_ranks(&high, &low)), 2.0 / 924.0);
        // U = 1 of 3 and 3 has two ways on each side.
        close(Some(chance_of_ranks(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0])), 0.2);
        close(Some(chance_of_ranks(&[1.0, 2.0], &[1.0, 2.0])), 1.0);
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
