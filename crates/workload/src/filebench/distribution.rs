//! Random variables: what `randvar(…)` and `cvar(…)` draw from.
//!
//! Every draw takes the caller's generator, so a run repeats from its seed. A sample is made in three
//! steps: the raw value of the [`Kind`], rounded to the nearest multiple of `round`, then clamped to `min`
//! and `max`.
//!
//! | kind | parameters | mean | variance |
//! |---|---|---|---|
//! | gamma | shape a, mean m, offset o | m | (m-o)²/a |
//! | uniform | low, high | (low+high)/2 | (high-low)²/12 |
//! | tabular | rows {percent, low, high}, mean | of the rows, or the given one | of the scaled rows |
//! | triangular | lower, upper, mode | (lower+upper+mode)/3 | |
//! | lognormal | shape σ, scale μ of the logarithm | exp(μ+σ²/2) | (exp σ²-1)·exp(2μ+σ²) |
//! | exponential | mean | mean | mean² |
//! | weibull | shape k, scale λ | λ·Γ(1+1/k) | |
//! | erlang | shape k, "rate" | rate | rate²/k |
//! | normal | mean, sigma | mean | sigma² |
//!
//! The offset of a gamma is the `min` of a `randvar`: the distribution starts there, keeps the mean, and is
//! not cut. Filebench hands the `rate` of an Erlang variable to a routine that takes a mean; scripts are
//! tuned to that, and Weir does the same.

use sim::math;
use std::fmt;

use rand::{Rng, RngExt};
use rand_distr::{Distribution as _, Exp, Gamma, LogNormal, Normal, Weibull};
use thiserror::Error;

/// The shape of a random variable. Values have the unit of what they are used for, mostly bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Gamma, moved to start at `offset`.
    Gamma {
        /// The shape a, > 0; variance falls with it. Filebench's default is 1.5.
        shape: f64,
        /// The mean, offset included.
        mean: f64,
        /// The lowest value.
        offset: f64,
    },
    /// Uniform between two values.
    Uniform {
        /// Lowest value.
        low: f64,
        /// Highest value, itself excluded.
        high: f64,
    },
    /// Uniform within rows that are drawn by weight.
    Tabular {
        /// The rows; their percentages sum to 100.
        rows: Vec<TableRow>,
        /// The mean that the whole table is scaled to, or none to take it as it is.
        mean: Option<f64>,
    },
    /// Triangular.
    Triangular {
        /// Lowest value.
        lower: f64,
        /// Highest value.
        upper: f64,
        /// Most likely value.
        mode: f64,
    },
    /// Normal in the logarithm.
    LogNormal {
        /// Standard deviation of the logarithm.
        shape: f64,
        /// Mean of the logarithm.
        scale: f64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// Weibull.
    Weibull {
        /// Shape k.
        shape: f64,
        /// Scale λ.
        scale: f64,
    },
    /// Erlang: the sum of `shape` exponentials.
    Erlang {
        /// How many exponentials.
        shape: u32,
        /// The parameter that Filebench calls rate and uses as the mean.
        rate: f64,
    },
    /// Normal.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        sigma: f64,
    },
}

/// A row of a table of probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TableRow {
    /// Percent of the draws.
    pub percent: f64,
    /// Lowest value.
    pub low: f64,
    /// Highest value.
    pub high: f64,
}

/// Parameters that make no distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DistributionError {
    /// A parameter that must be positive is not.
    #[error("{0} must be greater than 0")]
    NotPositive(&'static str),
    /// Limits in the wrong order.
    #[error("{0} must not be below {1}")]
    Order(&'static str, &'static str),
    /// A parameter that is not a finite number.
    #[error("{0} is not a finite number")]
    NotFinite(&'static str),
    /// A table whose percentages do not sum to 100.
    #[error("the percentages of the table must sum to 100")]
    Percentages,
}

/// A random variable, ready to be drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    kind: Kind,
    sampler: Sampler,
    min: Option<f64>,
    max: Option<f64>,
    round: f64,
}

/// The prepared generators of the kinds that need one.
#[derive(Clone, Debug, PartialEq)]
enum Sampler {
    Constant(f64),
    Gamma { unit: Gamma<f64>, offset: f64 },
    Uniform { low: f64, width: f64 },
    Table { rows: Vec<TableRow>, factor: f64 },
    Triangular { lower: f64, width: f64, mode: f64 },
    LogNormal(LogNormal<f64>),
    Exponential(Exp<f64>),
    Weibull(Weibull<f64>),
    Normal(Normal<f64>),
}

impl Distribution {
    /// A variable of this kind, neither rounded nor clamped.
    pub fn new(kind: Kind) -> Result<Self, DistributionError> {
        let sampler = sampler(&kind)?;
        Ok(Self { kind, sampler, min: None, max: None, round: 0.0 })
    }

    /// Clamps every sample to at least `min` and at most `max`.
    pub(crate) fn clamped(mut self, min: Option<f64>, max: Option<f64>) -> Result<Self, DistributionError> {
        match (min, max) {
            (Some(low), Some(high)) if high < low => Err(DistributionError::Order("max", "min")),
            _ => {
                (self.min, self.max) = (min, max);
                Ok(self)
            }
        }
    }

    /// Rounds every sample to the nearest multiple of `multiple`; 0 turns rounding off.
    #[must_use]
    pub fn rounded(mut self, multiple: f64) -> Self {
        self.round = multiple;
        self
    }

    /// What it was made from.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Draws one value.
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let raw = self.sampler.sample(rng);
        let rounded = if self.round > 0.0 { (raw / self.round + 0.5).floor() * self.round } else { raw };
        let floored = self.min.map_or(rounded, |min| rounded.max(min));
        self.max.map_or(floored, |max| floored.min(max))
    }

    /// Draws one value for a place that takes whole numbers: fractions are cut, negative values become 0.
    pub(crate) fn sample_u64<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        self.sample(rng) as u64
    }

    /// The mean of the kind, before rounding and clamping.
    pub fn mean(&self) -> f64 {
        match &self.kind {
            Kind::Gamma { mean, .. } | Kind::Exponential { mean } | Kind::Normal { mean, .. } => *mean,
            Kind::Uniform { low, high } => f64::midpoint(*low, *high),
            Kind::Tabular { rows, mean } => mean.unwrap_or_else(|| table_mean(rows)),
            Kind::Triangular { lower, upper, mode } => (lower + upper + mode) / 3.0,
            Kind::LogNormal { shape, scale } => math::exp(scale + shape * shape / 2.0),
            Kind::Weibull { shape, scale } => scale * gamma_function(1.0 + 1.0 / shape),
            Kind::Erlang { rate, .. } => *rate,
        }
    }
}

impl Sampler {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match self {
            Self::Constant(value) => *value,
            Self::Gamma { unit, offset } => unit.sample(rng) + offset,
            Self::Uniform { low, width } => low + rng.random::<f64>() * width,
            Self::Table { rows, factor } => sample_table(rows, rng) * factor,
            Self::Triangular { lower, width, mode } => lower + width * unit_triangle(*mode, rng.random()),
            Self::LogNormal(inner) => inner.sample(rng),
            Self::Exponential(inner) => inner.sample(rng),
            Self::Weibull(inner) => inner.sample(rng),
            Self::Normal(inner) => inner.sample(rng),
        }
    }
}

fn sampler(kind: &Kind) -> Result<Sampler, DistributionError> {
    match *kind {
        Kind::Gamma { shape, mean, offset } => gamma(shape, mean, offset),
        Kind::Uniform { low, high } => {
            let (low, width) = (finite("lower", low)?, finite("upper", high)? - low);
            if width < 0.0 {
                return Err(DistributionError::Order("upper", "lower"));
            }
            Ok(Sampler::Uniform { low, width })
        }
        Kind::Tabular { ref rows, mean } => table(rows, mean),
        Kind::Triangular { lower, upper, mode } => triangular(lower, upper, mode),
        Kind::LogNormal { shape, scale } => LogNormal::new(finite("scale", scale)?, finite("shape", shape)?)
            .map(Sampler::LogNormal)
            .map_err(|_| DistributionError::NotPositive("shape")),
        Kind::Exponential { mean } => Ok(Sampler::Exponential(
            Exp::new(1.0 / positive("mean", mean)?).map_err(|_| DistributionError::NotPositive("mean"))?,
        )),
        Kind::Weibull { shape, scale } => Weibull::new(positive("scale", scale)?, positive("shape", shape)?)
            .map(Sampler::Weibull)
            .map_err(|_| DistributionError::NotPositive("shape")),
        Kind::Erlang { shape, rate } => gamma(f64::from(shape.max(1)), positive("rate", rate)?, 0.0),
        Kind::Normal { mean, sigma } => Normal::new(finite("mean", mean)?, finite("sigma", sigma)?)
            .map(Sampler::Normal)
            .map_err(|_| DistributionError::NotFinite("sigma")),
    }
}

fn gamma(shape: f64, mean: f64, offset: f64) -> Result<Sampler, DistributionError> {
    let (shape, mean) = (positive("gamma", shape)?, finite("mean", mean)?);
    if mean < offset {
        return Err(DistributionError::Order("mean", "min"));
    }
    let scale = (mean - offset) / shape;
    match Gamma::new(shape, scale) {
        Ok(unit) => Ok(Sampler::Gamma { unit, offset }),
        Err(_) => Ok(Sampler::Constant(mean)),
    }
}

fn table(rows: &[TableRow], mean: Option<f64>) -> Result<Sampler, DistributionError> {
    let total: f64 = rows.iter().map(|row| row.percent).sum();
    if (total - 100.0).abs() > 1e-9 {
        return Err(DistributionError::Percentages);
    }
    if rows.iter().any(|row| row.high < row.low) {
        return Err(DistributionError::Order("the high end of a row", "its low end"));
    }
    let own = table_mean(rows);
    let factor = match mean {
        Some(mean) if own > 0.0 => mean / own,
        _ => 1.0,
    };
    Ok(Sampler::Table { rows: rows.to_vec(), factor })
}

fn table_mean(rows: &[TableRow]) -> f64 {
    rows.iter().map(|row| row.percent / 100.0 * f64::midpoint(row.low, row.high)).sum()
}

fn sample_table<R: Rng + ?Sized>(rows: &[TableRow], rng: &mut R) -> f64 {
    let mut left = rng.random::<f64>() * 100.0;
    let within = rng.random::<f64>();
    for row in rows {
        if left < row.percent {
            return row.low + within * (row.high - row.low);
        }
        left -= row.percent;
    }
    rows.last().map_or(0.0, |row| row.high)
}

fn triangular(lower: f64, upper: f64, mode: f64) -> Result<Sampler, DistributionError> {
    let width = finite("upper", upper)? - finite("lower", lower)?;
    if width <= 0.0 {
        return Err(DistributionError::Order("upper", "lower"));
    }
    if mode < lower {
        return Err(DistributionError::Order("mode", "lower"));
    }
    if mode > upper {
        return Err(DistributionError::Order("upper", "mode"));
    }
    Ok(Sampler::Triangular { lower, width, mode: (mode - lower) / width })
}

/// The inverse distribution function of the triangle on \[0, 1\] with its top at `mode`.
fn unit_triangle(mode: f64, uniform: f64) -> f64 {
    if uniform <= mode { (mode * uniform).sqrt() } else { 1.0 - ((1.0 - mode) * (1.0 - uniform)).sqrt() }
}

fn positive(name: &'static str, value: f64) -> Result<f64, DistributionError> {
    if value > 0.0 { finite(name, value) } else { Err(DistributionError::NotPositive(name)) }
}

fn finite(name: &'static str, value: f64) -> Result<f64, DistributionError> {
    if value.is_finite() { Ok(value) } else { Err(DistributionError::NotFinite(name)) }
}

/// Γ(x) for x ≥ 1 by Lanczos' approximation (g = 7, nine terms; error below 1e-13).
fn gamma_function(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = TERMS
        .iter()
        .zip(1u8..)
        .fold(0.999_999_999_999_809_9, |sum, (term, index)| sum + term / (x + f64::from(index)));
    (2.0 * std::f64::consts::PI).sqrt() * math::powf(t, x + 0.5) * math::exp(-t) * sum
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Gamma { shape, mean, offset } if *offset > 0.0 => {
                write!(f, "gamma(mean {mean}, shape {shape}, from {offset})")
            }
            Kind::Gamma { shape, mean, .. } => write!(f, "gamma(mean {mean}, shape {shape})"),
            Kind::Uniform { low, high } => write!(f, "uniform({low} to {high})"),
            Kind::Tabular { rows, .. } => write!(f, "table({} rows, mean {})", rows.len(), self.mean()),
            Kind::Triangular { lower, upper, mode } => {
                write!(f, "triangular({lower} to {upper}, mode {mode})")
            }
            Kind::LogNormal { shape, scale } => write!(f, "lognormal(shape {shape}, scale {scale})"),
            Kind::Exponential { mean } => write!(f, "exponential(mean {mean})"),
            Kind::Weibull { shape, scale } => write!(f, "weibull(shape {shape}, scale {scale})"),
            Kind::Erlang { shape, rate } => write!(f, "erlang(shape {shape}, rate {rate})"),
            Kind::Normal { mean, sigma } => write!(f, "normal(mean {mean}, sigma {sigma})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const DRAWS: usize = 200_000;

    fn moments(distribution: &Distribution) -> (f64, f64) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0x5eed);
        let samples: Vec<f64> = (0..DRAWS).map(|_| distribution.sample(&mut rng)).collect();
        let mean = samples.iter().sum::<f64>() / DRAWS as f64;
        let variance = samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / (DRAWS - 1) as f64;
        (mean, variance)
    }

    #[track_caller]
    fn assert_moments(kind: Kind, mean: f64, variance: f64) {
        let distribution = Distribution::new(kind).unwrap();
        let (measured_mean, measured_variance) = moments(&distribution);
        let close = |measured: f64, wanted: f64, part: f64| (measured - wanted).abs() <= part * wanted.abs();
        assert!(close(measured_mean, mean, 0.01), "{distribution}: mean {measured_mean}, wanted {mean}");
        assert!(close(distribution.mean(), mean, 1e-9), "{distribution}: mean() {}", distribution.mean());
        assert!(
            close(measured_variance, variance, 0.05),
            "{distribution}: variance {measured_variance}, wanted {variance}"
        );
    }

    #[test]
    fn gamma_has_the_given_mean_and_variance_mean_squared_over_shape() {
        assert_moments(
            Kind::Gamma { shape: 1.5, mean: 16384.0, offset: 0.0 },
            16384.0,
            16384.0f64.powi(2) / 1.5,
        );
        assert_moments(Kind::Gamma { shape: 0.1, mean: 100.0, offset: 0.0 }, 100.0, 100_000.0);
        assert_moments(Kind::Gamma { shape: 1.0, mean: 5.0, offset: 0.0 }, 5.0, 25.0);
    }

    #[test]
    fn gamma_offset_moves_the_start_and_keeps_the_mean() {
        let kind = Kind::Gamma { shape: 1.5, mean: 5632.0, offset: 1024.0 };
        assert_moments(kind.clone(), 5632.0, 4608.0f64.powi(2) / 1.5);
        let distribution = Distribution::new(kind).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        assert!((0..10_000).all(|_| distribution.sample(&mut rng) >= 1024.0));
    }

    #[test]
    fn uniform_covers_its_interval_evenly() {
        assert_moments(Kind::Uniform { low: 4096.0, high: 8192.0 }, 6144.0, 4096.0f64.powi(2) / 12.0);
    }

    #[test]
    fn table_rows_are_drawn_by_percent_and_scaled_to_a_given_mean() {
        let rows = vec![
            TableRow { percent: 85.0, low: 8192.0, high: 8192.0 },
            TableRow { percent: 15.0, low: 16384.0, high: 24576.0 },
        ];
        let plain = Distribution::new(Kind::Tabular { rows: rows.clone(), mean: None }).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let exact = (0..DRAWS).filter(|_| plain.sample(&mut rng) < 8193.0).count() as f64 / DRAWS as f64;
        assert!((exact - 0.85).abs() < 0.005, "{exact}");
        assert!((plain.mean() - (0.85 * 8192.0 + 0.15 * 20480.0)).abs() < 1e-9);
        let scaled = Distribution::new(Kind::Tabular { rows, mean: Some(1000.0) }).unwrap();
        assert!((moments(&scaled).0 - 1000.0).abs() < 5.0);
    }

    #[test]
    fn custom_kinds_have_their_textbook_moments() {
        assert_moments(
            Kind::Triangular { lower: 0.0, upper: 1.0, mode: 0.25 },
            1.25 / 3.0,
            (0.0f64 + 1.0 + 0.0625 - 0.25) / 18.0,
        );
        assert_moments(Kind::Exponential { mean: 7.0 }, 7.0, 49.0);
        assert_moments(Kind::Normal { mean: 10.0, sigma: 2.0 }, 10.0, 4.0);
        assert_moments(Kind::Erlang { shape: 4, rate: 8.0 }, 8.0, 16.0);
        assert_moments(
            Kind::Weibull { shape: 2.0, scale: 3.0 },
            3.0 * 0.886_226_925_452_758,
            9.0 * 0.214_601_836_6,
        );
        let (mu, var) = (1.0f64, 0.25f64);
        assert_moments(
            Kind::LogNormal { shape: 0.5, scale: mu },
            math::exp(mu + var / 2.0),
            (math::exp(var) - 1.0) * math::exp(2.0 * mu + var),
        );
    }

    #[test]
    fn samples_are_rounded_to_multiples_and_then_clamped() {
        let uniform = Distribution::new(Kind::Uniform { low: 0.0, high: 100.0 }).unwrap();
        let distribution = uniform.rounded(8.0).clamped(Some(20.0), Some(64.0)).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        for _ in 0..10_000 {
            let sample = distribution.sample(&mut rng);
            assert!((20.0..=64.0).contains(&sample));
            assert!(sample % 8.0 == 0.0 || (sample - 20.0).abs() < 1e-9, "{sample}");
        }
    }

    #[test]
    fn whole_number_draws_cut_fractions_and_never_wrap_below_zero() {
        let distribution = Distribution::new(Kind::Normal { mean: 0.0, sigma: 5.0 }).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(4);
        assert!((0..10_000).all(|_| distribution.sample_u64(&mut rng) < 100));
    }

    #[test]
    fn same_seed_draws_the_same_values() {
        let distribution = Distribution::new(Kind::Gamma { shape: 1.5, mean: 4096.0, offset: 0.0 }).unwrap();
        let draw = || {
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(9);
            (0..100).map(|_| distribution.sample_u64(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
    }

    #[test]
    fn impossible_parameters_are_named() {
        let error = |kind| Distribution::new(kind).unwrap_err().to_string();
        assert_eq!(error(Kind::Gamma { shape: 0.0, mean: 1.0, offset: 0.0 }), "gamma must be greater than 0");
        assert_eq!(error(Kind::Gamma { shape: 1.0, mean: 1.0, offset: 2.0 }), "mean must not be below min");
        assert_eq!(error(Kind::Uniform { low: 2.0, high: 1.0 }), "upper must not be below lower");
        let rows = vec![TableRow { percent: 50.0, low: 0.0, high: 1.0 }];
        assert!(error(Kind::Tabular { rows, mean: None }).contains("sum to 100"));
    }

    #[test]
    fn gamma_function_matches_factorials_and_halves() {
        assert!((gamma_function(5.0) - 24.0).abs() < 1e-9);
        assert!((gamma_function(1.5) - 0.886_226_925_452_758).abs() < 1e-12);
    }
}
