//! Student's distribution of t (*The probable error of a mean*, 1908), by the continued fraction of the incomplete beta function
//! (Abramowitz and Stegun, *Handbook of Mathematical Functions*, 1964, 26.5.8 and 26.7.1).

use std::f64::consts::PI;

use sim::math::{exp, ln};

/// With so many degrees of freedom t is normal to three places.
pub(crate) const AS_NORMAL: u32 = 10_000;

/// How often |t| with so many degrees of freedom is as large by chance.
pub(crate) fn two_sided(t: f64, freedom: u32) -> f64 {
    let nu = f64::from(freedom);
    incomplete_beta((freedom, 1), nu / (nu + t * t)).clamp(0.0, 1.0)
}

/// The t that chance exceeds, on both sides together, with this probability.
pub(crate) fn quantile(chance: f64, freedom: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if two_sided(middle, freedom) > chance { low = middle } else { high = middle }
    }
    high
}

/// ln Γ(twice / 2).
fn ln_gamma(twice: u32) -> f64 {
    let (first, start) = if twice.is_multiple_of(2) { (2, 0.0) } else { (1, ln(PI) / 2.0) };
    (first..twice).step_by(2).map(|step| ln(f64::from(step) / 2.0)).sum::<f64>() + start
}

/// I_x(a, b), of which the halves are given.
fn incomplete_beta((a, b): (u32, u32), x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let (half_a, half_b) = (f64::from(a) / 2.0, f64::from(b) / 2.0);
    if x > (half_a + 1.0) / (half_a + half_b + 2.0) {
        return 1.0 - incomplete_beta((b, a), 1.0 - x);
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + half_a * ln(x) + half_b * ln(1.0 - x);
    exp(front) / half_a / fraction(half_a, half_b, x)
}

/// The continued fraction of the incomplete beta function, from its end to its beginning.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    (1..=200_u32).rev().fold(1.0, |rest, step| {
        let m = f64::from(step / 2);
        let top = match step % 2 {
            0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        1.0 + top / rest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points that every table of t has (Fisher, 1925; here to four places).
    #[test]
    fn the_tables_of_t_are_met() {
        for (freedom, chance, t) in [
            (1, 0.05, 12.7062),
            (2, 0.05, 4.3027),
            (5, 0.05, 2.5706),
            (5, 0.01, 4.0321),
            (9, 0.05, 2.2622),
            (30, 0.05, 2.0423),
            (199, 0.05, 1.9720),
        ] {
            assert!(
                (quantile(chance, freedom) - t).abs() < 1e-4,
                "{freedom} {chance}: {}",
                quantile(chance, freedom)
            );
            assert!((two_sided(t, freedom) - chance).abs() < 1e-5, "{freedom} {t}");
        }
        assert!((two_sided(0.0, 7) - 1.0).abs() < 1e-12);
    }
}
