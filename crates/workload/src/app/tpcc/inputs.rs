//! What a terminal draws for its transactions (TPC-C 5.11, clauses 2.4.1 to 2.8.1).

use rand::RngExt as _;
use sim::Rng;

use super::random::Constants;
use super::schema::{DISTRICTS, Scale};

/// A terminal's random numbers, and what they are drawn from.
pub(super) struct Inputs {
    pub(super) scale: Scale,
    pub(super) constants: Constants,
    pub(super) rng: Rng,
    /// Its warehouse, and its district for Stock-Level.
    pub(super) home: (u64, u64),
}

/// What a new order takes of an item.
pub(super) struct Line {
    pub(super) item: u64,
    pub(super) supply: u64,
    pub(super) quantity: u64,
}

/// A customer of a district: by number, or by the number of a last name.
pub(super) enum Chosen {
    Number(u64),
    Name(u64),
}

impl Inputs {
    /// A district of its warehouse.
    pub(super) fn any_district(&mut self) -> u64 {
        self.rng.random_range(1..=DISTRICTS)
    }

    /// Another warehouse in so many of a hundred cases.
    pub(super) fn warehouse(&mut self, percent: u64) -> u64 {
        let (home, all) = (self.home.0, self.scale.warehouses);
        if all == 1 || self.rng.random_range(0..100) >= percent {
            return home;
        }
        let other = self.rng.random_range(1..all);
        if other < home { other } else { other + 1 }
    }

    /// The customer of a Payment or an Order-Status: in six of ten cases by last name.
    pub(super) fn customer(&mut self) -> Chosen {
        let (constants, customers) = (&self.constants, self.scale.customers);
        match self.rng.random_range(0..10) {
            0..6 => Chosen::Name(constants.name(&mut self.rng, customers)),
            _ => Chosen::Number(constants.customer(&mut self.rng, customers)),
        }
    }

    /// District, customer and lines of a New-Order; one of a hundred has a last item that does not exist.
    pub(super) fn new_order(&mut self) -> (u64, u64, Vec<Line>) {
        let d = self.any_district();
        let c = self.constants.customer(&mut self.rng, self.scale.customers);
        let count = self.rng.random_range(5..=15_usize);
        let is_wrong = self.rng.random_range(0..100) == 0;
        let mut lines: Vec<Line> = (0..count)
            .map(|_| Line {
                item: self.constants.item(&mut self.rng, self.scale.items),
                supply: self.warehouse(1),
                quantity: self.rng.random_range(1..=10),
            })
            .collect();
        if is_wrong {
            lines[count - 1].item = self.scale.items + 1;
        }
        (d, c, lines)
    }
}
