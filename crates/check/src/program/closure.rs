//! Which sets of micro-operations are legal in a model.
//!
//! Two passes over what is free, in the order of the program: [`Closure::trim`] takes out what needs something that is missing, and
//! [`Closure::fill`] adds what is needed. Both are linear: that metadata persists in one order is one number for each file system
//! (the earliest end of what is missing; the latest begin of what is kept), and that a size needs data is a mark for each file.
//!
//! In one order means: what had ended before something else began. Calls of threads that overlap have no order, and those on
//! different file systems (mounts below the root) have none.

use super::Bits;
use super::model::{Model, Order, SizeAfter};
use super::operations::{Change, Micro, Operations};
use super::points::some;

/// Marks of a file within a pass.
const DATA: u8 = 1;
const FRESH: u8 = 2;
const SIZE: u8 = 4;

/// The rules of a model on what is free at a point.
pub(super) struct Closure<'a> {
    operations: &'a Operations,
    model: &'a Model,
    loose: &'a Bits,
    free: &'a [u32],
    /// By inode: the marks of the pass, and which pass has set them.
    marks: Vec<(u32, u8)>,
    pass: u32,
    /// By file system: the earliest end of what is missing in the pass.
    missing_end: Vec<u64>,
}

impl<'a> Closure<'a> {
    pub(super) fn new(
        operations: &'a Operations,
        model: &'a Model,
        loose: &'a Bits,
        free: &'a [u32],
    ) -> Self {
        let (marks, missing_end) = (vec![(0, 0); operations.inodes], vec![u64::MAX; operations.devices]);
        Self { operations, model, loose, free, marks, pass: 0, missing_end }
    }

    fn micro(&self, number: u32) -> &'a Micro {
        &self.operations.all[number as usize]
    }

    /// Begins a pass.
    fn begin(&mut self) {
        self.pass += 1;
        self.missing_end.fill(u64::MAX);
    }

    fn marks(&self, inode: u32) -> u8 {
        let (pass, marks) = self.marks[inode as usize];
        if pass == self.pass { marks } else { 0 }
    }

    fn mark(&mut self, inode: u32, mark: u8) {
        let marks = self.marks(inode) | mark;
        self.marks[inode as usize] = (self.pass, marks);
    }

    /// Whether it can persist only with what is older: names, and what becomes visible by the journal.
    fn is_ordered(&self, number: u32, micro: &Micro) -> bool {
        self.model.names == Order::One
            && !self.loose.has(number)
            && match micro.change {
                Change::Data { fresh, .. } => fresh || self.is_shared(micro),
                // Within its block, the size is moved at once.
                _ => true,
            }
    }

    /// Whether it maps blocks of another file instead of writing: one change of the journal for each extent, in file order.
    fn is_shared(&self, micro: &Micro) -> bool {
        self.model.shares && micro.shared.is_some()
    }

    fn is_page_bound(&self, micro: &Micro) -> bool {
        self.model.pages && !matches!(micro.change, Change::Data { direct: true, .. })
    }

    /// Whether an operation is missing what it needs.
    fn is_lacking(&self, number: u32, set: &Bits) -> bool {
        let micro = self.micro(number);
        let lost = |needed: u32| some(needed).is_some_and(|needed| !set.has(needed));
        if micro.needs.iter().any(|needed| lost(*needed)) || self.is_page_bound(micro) && lost(micro.page) {
            return true;
        }
        if self.is_shared(micro) && micro.shared.is_some_and(lost) {
            return true;
        }
        if micro.begin_ns > self.missing_end[micro.device as usize] && self.is_ordered(number, micro) {
            return true;
        }
        match &micro.change {
            Change::Extend { inside, .. } => match self.model.size_after {
                SizeAfter::Nothing => false,
                SizeAfter::Last => !set.has(number - 1),
                SizeAfter::Allocated => {
                    self.marks(micro.inode) & FRESH != 0 || !*inside && !set.has(number - 1)
                }
                SizeAfter::All => self.marks(micro.inode) & DATA != 0,
            },
            Change::Names { replaced: true, subject, .. } => {
                self.model.replace_waits && self.marks(*subject) & (DATA | SIZE) != 0
            }
            Change::Cut { grows: true, .. } => self.model.grow_waits && self.marks(micro.inode) & SIZE != 0,
            _ => false,
        }
    }

    fn miss(&mut self, number: u32) {
        let micro = self.micro(number);
        if self.is_shared(micro) {
            let end_ns = &mut self.missing_end[micro.device as usize];
            *end_ns = (*end_ns).min(micro.end_ns);
        }
        match micro.change {
            Change::Data { fresh, .. } => self.mark(micro.inode, if fresh { DATA | FRESH } else { DATA }),
            Change::Extend { .. } => self.mark(micro.inode, SIZE),
            _ => {
                let end_ns = &mut self.missing_end[micro.device as usize];
                *end_ns = (*end_ns).min(micro.end_ns);
            }
        }
    }

    /// Takes out what needs something that is missing.
    pub(super) fn trim(&mut self, set: &mut Bits) {
        self.begin();
        for number in self.free {
            if set.has(*number) && self.is_lacking(*number, set) {
                set.remove(*number);
            }
            if !set.has(*number) {
                self.miss(*number);
            }
        }
    }

    /// Whether a set is legal.
    pub(super) fn is_legal(&mut self, set: &Bits) -> bool {
        let mut trimmed = set.clone();
        self.trim(&mut trimmed);
        trimmed == *set
    }

    /// Adds what is needed.
    pub(super) fn fill(&mut self, set: &mut Bits) {
        self.pass += 1;
        let mut kept_begin = vec![0_u64; self.operations.devices];
        for number in self.free.iter().rev().copied() {
            let micro = self.micro(number);
            let wanted = match micro.change {
                Change::Data { fresh, .. } => {
                    let marks = self.marks(micro.inode);
                    marks & DATA != 0 || fresh && marks & FRESH != 0
                }
                Change::Extend { .. } => self.marks(micro.inode) & SIZE != 0,
                _ => false,
            };
            let is_change = micro.is_metadata() || self.is_shared(micro);
            let is_older = self.model.names == Order::One && micro.end_ns < kept_begin[micro.device as usize];
            if wanted || is_change && is_older {
                set.add(number);
            }
            if !set.has(number) {
                continue;
            }
            for needed in micro.needs.iter().filter_map(|needed| some(*needed)) {
                set.add(needed);
            }
            if self.is_page_bound(micro)
                && let Some(page) = some(micro.page)
            {
                set.add(page);
            }
            if self.is_shared(micro)
                && let Some(before) = micro.shared.and_then(some)
            {
                set.add(before);
            }
            if self.is_ordered(number, micro) {
                let begin_ns = &mut kept_begin[micro.device as usize];
                *begin_ns = (*begin_ns).max(micro.begin_ns);
            }
            match &micro.change {
                Change::Extend { inside, .. } => match self.model.size_after {
                    SizeAfter::Nothing => {}
                    SizeAfter::Last => set.add(number - 1),
                    SizeAfter::Allocated => {
                        if !*inside {
                            set.add(number - 1);
                        }
                        self.mark(micro.inode, FRESH);
                    }
                    SizeAfter::All => self.mark(micro.inode, DATA),
                },
                Change::Names { replaced: true, subject, .. } if self.model.replace_waits => {
                    self.mark(*subject, DATA | SIZE);
                }
                Change::Cut { grows: true, .. } if self.model.grow_waits => self.mark(micro.inode, SIZE),
                _ => {}
            }
        }
    }

    /// Every legal set that contains `base`, if there are at most `limit`: each as the places in `free` of what it has besides.
    pub(super) fn all(&mut self, base: &Bits, limit: usize) -> Option<Vec<Bits>> {
        // An order of n elements has more than n sets that are closed under it.
        if self.free.len() >= limit {
            return None;
        }
        let mut found = Vec::new();
        self.begin();
        let places = Bits::new(self.free.len());
        let mut search = Search { set: base.clone(), places, found: &mut found, limit };
        self.descend(0, &mut search).then_some(found)
    }

    fn descend(&mut self, at: usize, search: &mut Search<'_>) -> bool {
        let Some(number) = self.free.get(at).copied() else {
            search.found.push(search.places.clone());
            return search.found.len() <= search.limit;
        };
        if !self.is_lacking(number, &search.set) {
            search.set.add(number);
            search.places.add(at as u32);
            let goes_on = self.descend(at + 1, search);
            search.set.remove(number);
            search.places.remove(at as u32);
            if !goes_on {
                return false;
            }
        }
        let Micro { inode, device, .. } = *self.micro(number);
        let before = (self.marks[inode as usize], self.missing_end[device as usize]);
        self.miss(number);
        let goes_on = self.descend(at + 1, search);
        (self.marks[inode as usize], self.missing_end[device as usize]) = before;
        goes_on
    }
}

/// A set that contains `base`, and what is free at some places.
pub(super) fn spread(base: &Bits, free: &[u32], places: &Bits) -> Bits {
    let mut set = base.clone();
    places.numbers().for_each(|place| set.add(free[place as usize]));
    set
}

struct Search<'a> {
    set: Bits,
    places: Bits,
    found: &'a mut Vec<Bits>,
    limit: usize,
}
