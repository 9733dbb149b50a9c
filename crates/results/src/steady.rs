//! Whether the rate of a run is steady: a winner that a longer run would reverse is no winner.
//!
//! Published rules look at the counts of a series, five parts of it taken together:
//!
//! * MSER-5 (White, *An effective truncation heuristic for bias reduction in simulation output*, 1997) finds the end of the
//!   start-up transient: the point behind which the standard error of the mean is least. A late point says that the start is not
//!   over (Hoad, Robinson and Davies, *Automating warm-up length estimation*, 2010).
//! * Mann's test of trend (*Nonparametric tests against trend*, 1945) with Sen's slope (1968) judges what comes after it, and so do
//!   the means of its halves (Geweke, *Evaluating the accuracy of sampling-based approaches*, 1992), which see a step.
//!
//! All need a change of [`LEAST_CHANGE`] of the rate as well, so that what is too small to matter does not count.

use crate::statistics::median;

/// Changes of the rate below this part of it are none.
pub const LEAST_CHANGE: f64 = 0.02;
/// How many times as long a run is worth taking whose rate is not steady: a start that fills it is then at most a tenth.
pub const LONGER: u64 = 10;
/// Parts of a series that are taken together, as MSER-5 does.
const TOGETHER: usize = 5;
/// Fewer groups than this say nothing.
const LEAST_GROUPS: usize = 10;
/// Fewer calls than this on average in a group are noise.
const LEAST_CALLS: f64 = 20.0;
/// A normal deviate that chance exceeds in 1 % of cases, two-sided.
const DEVIATE: f64 = 2.576;

/// What a series shows of its run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Steadiness {
    /// The rate is steady after the start, which takes this part of the run.
    Steady {
        /// From 0 to a third.
        start: f64,
    },
    /// The start takes more than a third of the run: the rate behind it differs by `change` from that of the whole.
    Starting {
        /// As a part of the whole's rate, with its sign.
        change: f64,
    },
    /// The rate rises or falls to the end, by this part of it over the run.
    Drifting {
        /// With its sign.
        change: f64,
    },
    /// There are too few calls to tell.
    Unknown,
}

impl Steadiness {
    /// Whether what a longer run would show can be told from this one.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Steady { .. } | Self::Unknown)
    }
}

/// Judges the calls that ended in each of the equal parts of a run.
pub fn of_series(calls: &[u64]) -> Steadiness {
    let groups: Vec<f64> =
        calls.chunks_exact(TOGETHER).map(|group| group.iter().sum::<u64>() as f64).collect();
    let all = mean(&groups);
    if groups.len() < LEAST_GROUPS || all < LEAST_CALLS {
        return Steadiness::Unknown;
    }
    let half = groups.len() / 2;
    let start = (0..=half).min_by(|a, b| error(&groups[*a..]).total_cmp(&error(&groups[*b..]))).unwrap_or(0);
    let rest = &groups[start..];
    let change = mean(rest) / all - 1.0;
    if start * 3 > groups.len()
        && change.abs() >= LEAST_CHANGE / 2.0
        && apart(&groups[..start], rest) > DEVIATE
    {
        return Steadiness::Starting { change };
    }
    let drift = slope(rest) * (rest.len() - 1) as f64 / mean(rest);
    if trend(rest).abs() > DEVIATE && drift.abs() >= LEAST_CHANGE {
        return Steadiness::Drifting { change: drift };
    }
    let (before, after) = rest.split_at(rest.len() / 2);
    let change_of_halves = mean(after) / mean(before) - 1.0;
    if apart(before, after) > DEVIATE && change_of_halves.abs() >= LEAST_CHANGE {
        return Steadiness::Drifting { change: change_of_halves };
    }
    // A start that changes nothing is none.
    let start = if change.abs() < LEAST_CHANGE / 2.0 { 0 } else { start };
    Steadiness::Steady { start: start as f64 / groups.len() as f64 }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The statistic of MSER: the squared standard error of the mean of what is left.
fn error(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    squares / (values.len() * values.len()) as f64
}

/// The difference of two means as a normal deviate.
fn apart(before: &[f64], after: &[f64]) -> f64 {
    (mean(after) - mean(before)).abs() / (error(before) + error(after)).sqrt()
}

/// Mann's statistic as a normal deviate: how many pairs rise, less those that fall.
fn trend(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let score: i64 = pairs(values).map(|(a, b)| (b > a) as i64 - (b < a) as i64).sum();
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    (score - score.signum()) as f64 / deviation
}

/// Sen's slope: the median of the slopes of all pairs.
fn slope(values: &[f64]) -> f64 {
    let slopes: Vec<f64> = (0..values.len())
        .flat_map(|a| (a + 1..values.len()).map(move |b| (a, b)))
        .map(|(a, b)| (values[b] - values[a]) / (b - a) as f64)
        .collect();
    median(&slopes).unwrap_or(0.0)
}

/// Every value with each later one.
fn pairs(values: &[f64]) -> impl Iterator<Item = (f64, f64)> + '_ {
    values.iter().enumerate().flat_map(|(at, a)| values[at + 1..].iter().map(move |b| (*a, *b)))
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::Xoshiro256StarStar;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    use super::*;

    /// 100 parts of a run: `rate` of the part's number, with noise of `spread` of it.
    fn run(seed: u64, spread: f64, rate: impl Fn(f64) -> f64) -> Vec<u64> {
        let mut rng = Xoshiro256StarStar::seed_from_u64(seed);
        let mut noise = || {
            let uniform = |rng: &mut Xoshiro256StarStar| (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            // Twelve uniform numbers are nearly normal.
            (0..12).map(|_| uniform(&mut rng)).sum::<f64>() - 6.0
        };
        (0..100).map(|part| (rate(f64::from(part)) * (1.0 + spread * noise())).max(0.0) as u64).collect()
    }

    #[test]
    fn noise_about_one_rate_is_steady_in_at_least_95_of_100_runs() {
        for spread in [0.02, 0.1, 0.3] {
            let steady = (0..400).filter(|seed| of_series(&run(*seed, spread, |_| 1000.0)).is_settled());
            let steady = steady.count();
            assert!(steady >= 380, "{steady} of 400 with noise of {spread}");
        }
    }

    #[test]
    fn a_start_that_takes_half_of_the_run_is_found() {
        for seed in 0..50 {
            let found = of_series(&run(seed, 0.1, |part| if part < 55.0 { 950.0 } else { 1350.0 }));
            assert!(!found.is_settled(), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn a_rate_that_falls_by_a_fifth_to_the_end_is_found() {
        for seed in 0..50 {
            let found = of_series(&run(seed, 0.05, |part| 1000.0 - 2.0 * part));
            let (Steadiness::Drifting { change } | Steadiness::Starting { change }) = found else {
                panic!("seed {seed}: {found:?}")
            };
            assert!(change < -0.03, "seed {seed}: {change}");
        }
    }

    #[test]
    fn a_short_start_is_told_with_its_length_and_does_no_harm() {
        let found = of_series(&run(1, 0.02, |part| if part < 15.0 { 600.0 } else { 1000.0 }));
        let Steadiness::Steady { start } = found else { panic!("{found:?}") };
        assert!((0.10..=0.25).contains(&start), "{start}");
        // Six of a hundred parts that are slower by a hundredth change nothing.
        let none = of_series(&run(1, 0.005, |part| if part < 6.0 { 990.0 } else { 1000.0 }));
        assert_eq!(none, Steadiness::Steady { start: 0.0 });
    }

    #[test]
    fn few_calls_say_nothing() {
        assert_eq!(of_series(&[1; 100]), Steadiness::Unknown);
        assert_eq!(of_series(&[1000; 20]), Steadiness::Unknown);
        assert_eq!(of_series(&[]), Steadiness::Unknown);
    }
}
