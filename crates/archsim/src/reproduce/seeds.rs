//! Claims over several seeds: each is computed for each seed by itself, then averaged.

/// Student's t for a two-sided interval of 95 %, from one degree of freedom on (any table of it).
const T: [f64; 9] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

/// A claim over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The claim.
    pub id: &'static str,
    /// Mean over the seeds.
    pub mean: f64,
    /// Half of the 95 % interval around it; `None`: one seed, or more than ten.
    pub half: Option<f64>,
}

/// What each seed's claims are together; they come in the same order for each.
pub fn spread(seeds: &[Vec<(&'static str, f64)>]) -> Vec<Spread> {
    let of = |at: usize| {
        let values: Vec<f64> = seeds.iter().map(|claims| claims[at].1).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let t = values.len().checked_sub(2).and_then(|at| T.get(at));
        let half = t.map(|t| t * (squares / (count - 1.0) / count).sqrt());
        Spread { id: seeds[0][at].0, mean, half }
    };
    (0..seeds.first().map_or(0, Vec::len)).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let of = |values: &[f64]| spread(&values.iter().map(|value| vec![("a", *value)]).collect::<Vec<_>>());
        let five = of(&[1.0, 2.0, 3.0, 4.0, 5.0])[0];
        assert!((five.mean - 3.0).abs() < 1e-12);
        // Standard deviation 1.5811, by the root of five 0.7071, times 2.776.
        assert!((five.half.unwrap() - 1.963).abs() < 1e-3, "{five:?}");
        assert_eq!(of(&[2.0])[0], Spread { id: "a", mean: 2.0, half: None });
    }
}
