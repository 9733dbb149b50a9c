//! The legal states of a point: all of them where they are few, else those that show most first.

use rand::RngExt;
use sim::Seed;

use super::Bits;
use super::closure::{Closure, spread};
use super::model::{Model, Null};
use super::operations::{Change, Operations};
use super::points::Point;

/// A point with at most so many legal sets is enumerated.
pub(crate) const ALL_MAX: usize = 512;

/// A piece of data of which a part has persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Torn {
    /// Which.
    pub number: u32,
    /// Which of its units.
    pub part: Part,
}

/// Which units of a torn piece have persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The first one.
    First,
    /// The last one.
    Last,
    /// The first half.
    Begin,
    /// The second half.
    End,
    /// Every other one.
    Even,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Begin, Self::End, Self::First, Self::Last, Self::Even];

    /// Whether a unit of so many has persisted.
    pub fn has(self, unit: u64, count: u64) -> bool {
        match self {
            Self::First => unit == 0,
            Self::Last => unit + 1 == count,
            Self::Begin => unit < count / 2,
            Self::End => unit >= count / 2,
            Self::Even => unit.is_multiple_of(2),
        }
    }
}

/// A legal state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// What has persisted.
    pub set: Bits,
    /// What has in part.
    pub torn: Option<Torn>,
}

/// The states of one point, one after the other.
pub struct States<'a> {
    operations: &'a Operations,
    model: &'a Model,
    point: &'a Point,
    closure: Closure<'a>,
    /// All legal sets as places of what is free, where they are few.
    all: Option<Vec<Bits>>,
    /// What has begun.
    everything: Bits,
    stage: Stage,
    at: usize,
    seed: u64,
    /// Where the pairs are.
    pair: (usize, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Whole,
    All,
    Commits,
    Missing,
    Alone,
    Prefixes,
    Torn,
    Pairs,
    Drawn,
    End,
}

/// There are no more.
struct Ended;

/// Seeded draws of a point.
const DRAWS: usize = 256;

impl<'a> States<'a> {
    /// The states of a point in a model.
    pub fn new(operations: &'a Operations, model: &'a Model, point: &'a Point, seed: u64) -> Self {
        let mut closure = Closure::new(operations, model, &point.loose, &point.free);
        let all = if model.null == Null::No { closure.all(&point.covered, ALL_MAX) } else { None };
        let mut everything = point.covered.clone();
        point.free.iter().for_each(|number| everything.add(*number));
        Self {
            operations,
            model,
            point,
            closure,
            all,
            everything,
            stage: Stage::Whole,
            at: 0,
            seed,
            pair: (0, 1),
        }
    }

    /// How many legal sets there are; none: more than are enumerated.
    pub fn legal(&self) -> Option<usize> {
        self.all.as_ref().map(Vec::len)
    }

    fn without(&mut self, lost: &[u32]) -> Bits {
        let mut set = self.everything.clone();
        for number in lost {
            set.remove(*number);
        }
        self.closure.trim(&mut set);
        set
    }

    fn with(&mut self, kept: u32) -> Bits {
        let mut set = self.point.covered.clone();
        set.add(kept);
        self.closure.fill(&mut set);
        set
    }

    /// Whether a micro-operation often decides: a name, or the first of a call after a sync.
    fn is_commit(&self, number: u32) -> bool {
        matches!(self.operations.all[number as usize].change, Change::Names { .. })
    }

    /// The next state; none at the end. Some come twice: their trees are compared.
    pub(crate) fn next_state(&mut self) -> Option<State> {
        if self.model.null != Null::No {
            return self.next_of_null();
        }
        loop {
            let at = self.at;
            self.at += 1;
            let free = self.point.free.get(at).copied();
            let set = match self.stage {
                Stage::Whole if at == 0 => Some(self.everything.clone()),
                Stage::Whole if at == 1 => Some(self.point.covered.clone()),
                Stage::All => {
                    let places = self.all.as_ref().and_then(|all| all.get(at));
                    places.map(|places| spread(&self.point.covered, &self.point.free, places))
                }
                Stage::Commits => match free {
                    Some(number) if !self.is_commit(number) => continue,
                    free => free.map(|number| self.with(number)),
                },
                Stage::Missing => free.map(|number| self.without(&[number])),
                Stage::Alone => free.map(|number| self.with(number)),
                Stage::Prefixes => free.map(|_| {
                    let mut set = self.point.covered.clone();
                    self.point.free[..=at].iter().for_each(|number| set.add(*number));
                    self.closure.trim(&mut set);
                    set
                }),
                Stage::Torn => match self.torn(at) {
                    Ok(Some(state)) => return Some(state),
                    Ok(None) => continue,
                    Err(Ended) => None,
                },
                Stage::Pairs => self.pairs(),
                Stage::Drawn => (at < DRAWS).then(|| self.drawn(at)),
                Stage::Whole => None,
                Stage::End => return None,
            };
            if let Some(set) = set {
                return Some(State { set, torn: None });
            }
            self.advance();
        }
    }

    fn next_of_null(&mut self) -> Option<State> {
        let at = self.at;
        self.at += 1;
        let set = match self.model.null {
            Null::Unsynced if at == 0 => {
                let mut set = self.point.covered.clone();
                let names = self.point.free.iter().filter(|number| self.is_commit(**number));
                names.for_each(|number| set.add(*number));
                set
            }
            Null::Random if at < DRAWS => {
                let mut rng = Seed(self.seed ^ self.point.at_ns).derive("null", at as u64).rng();
                let mut set = Bits::new(self.operations.all.len());
                for (number, micro) in self.operations.all.iter().enumerate() {
                    if micro.begin_ns < self.point.at_ns && rng.random_range(0..2) == 0 {
                        set.add(number as u32);
                    }
                }
                set
            }
            _ => return None,
        };
        Some(State { set, torn: None })
    }

    fn advance(&mut self) {
        self.at = 0;
        let few = self.all.is_some();
        self.stage = match self.stage {
            Stage::Whole if few => Stage::All,
            Stage::Whole => Stage::Commits,
            Stage::Commits => Stage::Missing,
            Stage::Missing => Stage::Alone,
            Stage::Alone => Stage::Prefixes,
            Stage::All | Stage::Prefixes => Stage::Torn,
            Stage::Torn if few => Stage::End,
            Stage::Torn => Stage::Pairs,
            Stage::Pairs => Stage::Drawn,
            Stage::Drawn | Stage::End => Stage::End,
        };
    }

    /// A piece of data in part, with as much as possible of the rest.
    fn torn(&mut self, at: usize) -> Result<Option<State>, Ended> {
        let parts = Part::ALL.len() * 2;
        let number = self.point.free.get(at / parts).copied().ok_or(Ended)?;
        if !self.operations.all[number as usize].tears(self.model) {
            return Ok(None);
        }
        let part = Part::ALL[at % parts / 2];
        let set = if at.is_multiple_of(2) {
            self.without(&[number])
        } else {
            let mut set = self.with(number);
            set.remove(number);
            self.closure.trim(&mut set);
            set
        };
        // What a torn piece needs must be there, as if it were whole.
        let mut whole = set.clone();
        whole.add(number);
        let torn = Some(Torn { number, part });
        Ok(self.closure.is_legal(&whole).then_some(State { set, torn }))
    }

    /// Two of different files missing.
    fn pairs(&mut self) -> Option<Bits> {
        loop {
            let (first, second) = self.pair;
            let one = self.point.free.get(first).copied()?;
            let Some(two) = self.point.free.get(second).copied() else {
                self.pair = (first + 1, first + 2);
                continue;
            };
            self.pair.1 += 1;
            let inode = |number: u32| self.operations.all[number as usize].inode;
            if inode(one) != inode(two) {
                return Some(self.without(&[one, two]));
            }
        }
    }

    fn drawn(&mut self, at: usize) -> Bits {
        let mut rng = Seed(self.seed ^ self.point.at_ns).derive("states", at as u64).rng();
        let mut set = self.point.covered.clone();
        let share = rng.random_range(1..8);
        for number in &self.point.free {
            if rng.random_range(0..8) < share {
                set.add(*number);
            }
        }
        self.closure.trim(&mut set);
        set
    }
}
