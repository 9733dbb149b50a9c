//! Random numbers and texts of the TPC-C standard, revision 5.11 (clauses 2.1.5, 2.1.6, 4.3.2).

use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use sim::{Rng, Seed};

/// Syllables of last names (4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Last names.
pub(super) const NAMES: u64 = 1000;
/// Cards of a deck: New-Order, Payment, Order-Status, Delivery, Stock-Level.
pub(super) const DECK: [usize; 5] = [45, 43, 4, 4, 4];

/// The constants C of non-uniform numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constants {
    /// Of last names at load.
    load: u64,
    /// Of last names in a run: 65 to 119 away from that, and neither 96 nor 112 (2.1.6.1).
    name: u64,
    customer: u64,
    item: u64,
}

impl Constants {
    pub(super) fn new(seed: Seed) -> Self {
        let mut rng = seed.derive("app.tpcc.constants", 0).rng();
        let load: u64 = rng.random_range(0..=255);
        let may_be = |name: &u64| {
            let delta = load.abs_diff(*name);
            (65..=119).contains(&delta) && delta != 96 && delta != 112
        };
        let names: Vec<u64> = (0..=255).filter(may_be).collect();
        let name = names[rng.random_range(0..names.len())];
        Self { load, name, customer: rng.random_range(0..=1023), item: rng.random_range(0..=8191) }
    }

    /// A customer, from 1 on.
    pub(super) fn customer(&self, rng: &mut Rng, customers: u64) -> u64 {
        within(non_uniform(rng, 1023, self.customer, 1, 3000), customers)
    }

    /// An item, from 1 on.
    pub(super) fn item(&self, rng: &mut Rng, items: u64) -> u64 {
        within(non_uniform(rng, 8191, self.item, 1, 100_000), items)
    }

    /// The number of a last name that some customer has.
    pub(super) fn name(&self, rng: &mut Rng, customers: u64) -> u64 {
        non_uniform(rng, 255, self.name, 0, NAMES - 1) % customers.min(NAMES)
    }

    /// The number of the last name of a customer beyond the first thousand, at load.
    pub(super) fn load_name(&self, rng: &mut Rng) -> u64 {
        non_uniform(rng, 255, self.load, 0, NAMES - 1)
    }
}

/// A number from 1 to `most`, where the standard has more of them: only tests make smaller databases.
fn within(number: u64, most: u64) -> u64 {
    (number - 1) % most + 1
}

/// `NURand(A, x, y)` with the constant `c` (2.1.6).
pub(super) fn non_uniform(rng: &mut Rng, a: u64, c: u64, from: u64, to: u64) -> u64 {
    let (one, two) = (rng.random_range(0..=a), rng.random_range(from..=to));
    ((one | two) + c) % (to - from + 1) + from
}

/// A last name.
pub(super) fn last_name(number: u64) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// Fills a text with random letters and digits; what is left of the field is spaces.
pub(super) fn text(rng: &mut Rng, into: &mut [u8], least: usize) {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789ab";
    let len = rng.random_range(least..=into.len());
    let (text, rest) = into.split_at_mut(len);
    for signs in text.chunks_mut(8) {
        let bits: u64 = rng.random();
        signs
            .iter_mut()
            .zip(bits.to_le_bytes())
            .for_each(|(sign, byte)| *sign = SIGNS[usize::from(byte & 63)]);
    }
    rest.fill(b' ');
}

/// Fills a text with random digits.
pub(super) fn digits(rng: &mut Rng, into: &mut [u8]) {
    for digit in into {
        *digit = b'0' + rng.random_range(0..10_u8);
    }
}

/// The same, with "ORIGINAL" somewhere in one of ten (4.3.3.1).
pub(super) fn data(rng: &mut Rng, into: &mut [u8], least: usize) {
    const ORIGINAL: &[u8] = b"ORIGINAL";
    text(rng, into, least);
    if rng.random_range(0..10) == 0 {
        let at = rng.random_range(0..=least - ORIGINAL.len());
        into[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

/// Numbers from 1 to `count` in random order.
pub(super) fn permutation(rng: &mut Rng, count: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (1..=count).collect();
    numbers.shuffle(rng);
    numbers
}

/// A deck of cards, shuffled when it is used up: the mix without its chance (5.2.4.2).
#[derive(Debug, Default)]
pub(super) struct Deck(Vec<usize>);

impl Deck {
    /// The next transaction's kind.
    pub(super) fn draw(&mut self, rng: &mut Rng) -> usize {
        if self.0.is_empty() {
            let cards = DECK.iter().enumerate().flat_map(|(kind, count)| std::iter::repeat_n(kind, *count));
            self.0 = cards.collect();
            self.0.shuffle(rng);
        }
        self.0.pop().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_holds_the_mix_of_the_standard() {
        let (mut rng, mut deck, mut drawn) = (Seed(3).rng(), Deck::default(), [0; 5]);
        (0..300).for_each(|_| drawn[deck.draw(&mut rng)] += 1);
        assert_eq!(drawn, DECK.map(|cards| 3 * cards));
    }

    #[test]
    fn constants_keep_the_distance_that_the_standard_wants() {
        for seed in 0..200 {
            let found = Constants::new(Seed(seed));
            let delta = found.load.abs_diff(found.name);
            assert!((65..=119).contains(&delta) && ![96, 112].contains(&delta), "seed {seed}: {found:?}");
        }
    }

    #[test]
    fn non_uniform_numbers_stay_within_bounds_and_are_not_uniform() {
        let (mut rng, constants) = (Seed(11).rng(), Constants::new(Seed(11)));
        let mut counts = vec![0_u32; 3001];
        (0..300_000).for_each(|_| counts[constants.customer(&mut rng, 3000) as usize] += 1);
        assert_eq!(counts[0], 0);
        counts.sort_unstable();
        // The tenth of the customers that are chosen most often have far more than a tenth of the choices.
        let top: u32 = counts.iter().rev().take(300).sum();
        assert!(top > 75_000, "{top} of 300000");
    }

    #[test]
    fn names_are_three_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }
}
