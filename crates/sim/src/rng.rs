//! Seeded randomness: one seed a run, an independent stream for each user of it.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use crate::context;

/// The generator of the project. Fixed by name: a seed means the same for ever.
pub type Rng = Xoshiro256PlusPlus;

/// A seed, from which streams are derived by label and number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of stream number `index` of the user `label`. Different labels or numbers give unrelated
    /// streams.
    #[must_use]
    pub fn derive(self, label: &str, index: u64) -> Self {
        let folded = label.bytes().fold(self.0 ^ 0x9e37_79b9_7f4a_7c15, |h, byte| mix(h ^ u64::from(byte)));
        Self(mix(folded ^ mix(index)))
    }

    /// The generator that starts at this seed.
    pub fn rng(self) -> Rng {
        Rng::seed_from_u64(self.0)
    }
}

/// The finalizer of SplitMix64: a bijection in which every input bit moves every output bit.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The seed of the current run; zero outside a run.
pub fn seed() -> Seed {
    context::current().map_or(Seed(0), |cx| cx.run.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_label_and_by_number() {
        let root = Seed(7);
        let seeds =
            [root, root.derive("a", 0), root.derive("a", 1), root.derive("b", 0), Seed(8).derive("a", 0)];
        for (i, x) in seeds.iter().enumerate() {
            assert!(seeds[..i].iter().all(|y| x != y), "stream {i} repeats");
        }
        assert_eq!(root.derive("a", 1), Seed(7).derive("a", 1));
    }
}
