//! Which repeats of two cells belong together: those that ran the same seed.

use std::collections::BTreeMap;

use crate::Sample;
use crate::statistics::{Comparison, compare, compare_pairs};

/// The throughputs of `base` and `new` by seed; none where one of them ran a seed that the other did not, one seed twice, or under
/// the real clock, where a seed says little of the time.
pub fn by_seed<'a>(
    base: impl IntoIterator<Item = &'a Sample>,
    new: impl IntoIterator<Item = &'a Sample>,
) -> Option<Vec<(f64, f64)>> {
    let (base, new) = (rates(base)?, rates(new)?);
    if !base.keys().eq(new.keys()) {
        return None;
    }
    Some(base.into_values().zip(new.into_values()).collect())
}

/// By seed; none where a seed ran twice, or under the real clock.
fn rates<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<BTreeMap<u64, f64>> {
    let mut rates = BTreeMap::new();
    for sample in samples {
        let twice = rates.insert(sample.seed, sample.throughput_ops_per_s).is_some();
        if twice || sample.host.is_some() {
            return None;
        }
    }
    Some(rates)
}

/// Judges `new` against `base`, in pairs where they are some. Differences below `threshold` are none; `seed` is that of the
/// bootstrap of medians.
pub fn against(base: &[&Sample], new: &[&Sample], threshold: f64, seed: u64) -> Option<Comparison> {
    let pairs = by_seed(base.iter().copied(), new.iter().copied());
    let apart = || {
        let of = |samples: &[&Sample]| {
            samples.iter().map(|sample| sample.throughput_ops_per_s).collect::<Vec<_>>()
        };
        compare(&of(base), &of(new), threshold, seed)
    };
    pairs.and_then(|pairs| compare_pairs(&pairs, threshold)).or_else(apart)
}
