//! Which numbers go together: the coefficients of Pearson and Spearman, with what is known of their error.
//!
//! ```text
//! error      sqrt((1 - r²) / (n - 2))                    interval   tanh(atanh r ± 1.96 / sqrt(n - 3))
//! chance     Student's t of r sqrt((n - 2) / (1 - r²))   in time    n (1 - ρxρy) / (1 + ρxρy) in the place of n
//! ```
//!
//! Pearson, *Regression, heredity and panmixia*, 1896; the interval by Fisher, *On the "probable error" of a coefficient of
//! correlation*, 1921; ranks by Spearman, *The proof and measurement of association between two things*, 1904, ties with the mean
//! of their ranks. Parts of one run that follow each other are not independent: their number is that of Bartlett, *Some aspects of
//! the time-correlation problem*, 1935, from the correlations ρ of each series with itself one step later.
//!
//! A column that never changes has no coefficient, which is not a coefficient of 0. Coefficients over several systems together can
//! have a sign that none of the systems has (Simpson, *The interpretation of interaction in contingency tables*, 1951):
//! [`disagreement`] says so.

use sim::math::{exp, ln};

use crate::student;

/// With fewer points there is no coefficient: three always lie near some line.
pub const LEAST: usize = 4;

/// A standard error of at most this is "within 8 %".
pub const SMALL_ERROR: f64 = 0.08;
/// A coefficient is high from here on ...
const HIGH: f64 = 0.8;
/// ... if its interval stays above this.
const HIGH_AT_LEAST: f64 = 0.5;

/// How two columns go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// Points.
    pub points: usize,
    /// Independent points that tell as much; fewer than `points` only where they follow each other in time.
    pub independent: f64,
    /// Pearson's coefficient.
    pub r: f64,
    /// Its standard error.
    pub error: f64,
    /// Its 95 % interval by Fisher; none with three independent points or fewer.
    pub interval: Option<(f64, f64)>,
    /// Spearman's coefficient, of the ranks.
    pub ranks: f64,
    /// How often columns that have nothing to do with each other would have as large a coefficient.
    pub chance: f64,
}

impl Correlation {
    /// Whether it is known which sign the coefficient has.
    pub(crate) fn has_sign(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }

    /// Whether the coefficient is high, its error small, and its interval far from 0.
    pub fn is_high(&self) -> bool {
        let far = |(low, high): (f64, f64)| low.abs().min(high.abs()) > HIGH_AT_LEAST && low * high > 0.0;
        self.r.abs() >= HIGH && self.error <= SMALL_ERROR && self.interval.is_some_and(far)
    }
}

/// The correlation of independent points; none of fewer than [`LEAST`], or where a column never changes.
pub(crate) fn correlate(points: &[(f64, f64)]) -> Option<Correlation> {
    of(points, points.len() as f64)
}

/// The correlation of points that follow each other in time, in equal steps.
pub fn correlate_in_time(points: &[(f64, f64)]) -> Option<Correlation> {
    of(points, independent(points))
}

/// Independent points that tell as much as these, which follow each other in time; never more than there are.
pub fn independent(points: &[(f64, f64)]) -> f64 {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let next = |values: &[f64]| {
        let pairs: Vec<_> = values.iter().copied().zip(values.iter().skip(1).copied()).collect();
        pearson(&pairs).unwrap_or(0.0)
    };
    let both = (next(&x) * next(&y)).clamp(0.0, 1.0);
    points.len() as f64 * (1.0 - both) / (1.0 + both)
}

fn of(points: &[(f64, f64)], independent: f64) -> Option<Correlation> {
    if points.len() < LEAST {
        return None;
    }
    let r = pearson(points)?;
    let rest = 1.0 - r * r;
    let freedom = (independent - 2.0).max(0.0);
    let error = if freedom > 0.0 { (rest / freedom).sqrt() } else { 1.0 };
    let chance = match freedom as u32 {
        0 => 1.0,
        _ if rest <= 0.0 => 0.0,
        whole => student::two_sided(r * (f64::from(whole) / rest).sqrt(), whole.min(student::AS_NORMAL)),
    };
    let ranks = pearson(&ranked(points)).unwrap_or(0.0);
    Some(Correlation {
        points: points.len(),
        independent,
        r,
        error,
        interval: interval(r, independent),
        ranks,
        chance,
    })
}

/// The normal deviate that 5 % exceed on both sides together.
const NORMAL: f64 = 1.959_963_984_540_054;

fn interval(r: f64, independent: f64) -> Option<(f64, f64)> {
    if independent <= 3.0 {
        return None;
    }
    if r.abs() >= 1.0 {
        return Some((r, r));
    }
    let centre = ln((1.0 + r) / (1.0 - r)) / 2.0;
    let reach = NORMAL / (independent - 3.0).sqrt();
    let tanh = |z: f64| 1.0 - 2.0 / (exp(2.0 * z) + 1.0);
    Some((tanh(centre - reach), tanh(centre + reach)))
}

/// Pearson's coefficient; none where a column never changes.
fn pearson(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let constant = |column: fn(&(f64, f64)) -> f64| {
        points.iter().all(|point| column(point).total_cmp(&column(&points[0])).is_eq())
    };
    if points.is_empty() || constant(|point| point.0) || constant(|point| point.1) {
        return None;
    }
    let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let sums = points.iter().fold((0.0, 0.0, 0.0), |(xx, yy, xy), point| {
        let (dx, dy) = (point.0 - mx, point.1 - my);
        (xx + dx * dx, yy + dy * dy, xy + dx * dy)
    });
    let r = sums.2 / (sums.0.sqrt() * sums.1.sqrt());
    r.is_finite().then(|| r.clamp(-1.0, 1.0))
}

fn ranked(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    ranks(&x).into_iter().zip(ranks(&y)).collect()
}

/// The rank of each value from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 1;
    for equal in order.chunk_by(|a, b| values[*a].total_cmp(&values[*b]).is_eq()) {
        let mean = first as f64 + (equal.len() - 1) as f64 / 2.0;
        for at in equal {
            ranks[*at] = mean;
        }
        first += equal.len();
    }
    ranks
}

/// How a coefficient over all systems together differs from those of each system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// These systems have the other sign.
    Reversed(Vec<String>),
    /// No system has the sign: it comes from differences between systems.
    Between,
    /// These systems have a sign, and all together have none.
    Hidden(Vec<String>),
}

/// Compares the coefficient of all systems together with those of each; none where they agree, or where a system is alone.
pub fn disagreement(pooled: &Correlation, each: &[(String, Option<Correlation>)]) -> Option<Disagreement> {
    let known = || each.iter().filter_map(|(name, one)| Some((name, (*one)?)));
    if known().count() < 2 {
        return None;
    }
    let signed = known().filter(|(_, one)| one.has_sign());
    let (same, other): (Vec<_>, Vec<_>) = signed.partition(|(_, one)| one.r * pooled.r > 0.0);
    let names = |of: &[(&String, Correlation)]| of.iter().map(|(name, _)| (*name).clone()).collect();
    match (pooled.has_sign(), same.is_empty(), other.is_empty()) {
        (true, _, false) => Some(Disagreement::Reversed(names(&other))),
        (true, true, true) => Some(Disagreement::Between),
        (false, false, _) | (false, _, false) => Some(Disagreement::Hidden(names(&[same, other].concat()))),
        (true, false, true) | (false, true, true) => None,
    }
}

#[cfg(test)]
mod tests;
