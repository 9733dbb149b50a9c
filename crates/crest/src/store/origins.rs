//! In which zones copies of adds may lie: what a removal waits for.
//!
//! | an add that was made | lies in | known by |
//! |---|---|---|
//! | in this mount | the zone that its shard wrote then | its id: those of a shard grow, and each zone has the first of its ids |
//! | in an earlier one | any zone of an earlier mount | their openings |
//! | and was copied in this mount | the zone with the copy | a filter for each zone with copies: two bits of each add |
//!
//! An answer may be that a zone has a copy though it has none, which only keeps a removal. The filters of all zones take at most
//! eight bytes for each block of the pool, and exist where there are copies.
//!
//! The lock is one of the host, held for one look.

use parking_lot::Mutex;
use rustc_hash::FxHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use crate::format::merge::adds;
use crate::format::record::{AddId, Record};

/// A zone that a shard has opened in this mount.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// Logical time of the first id that it may have.
    first: u64,
    zone: u32,
    opening: u64,
    /// Lines with records when the shard has left it.
    end: u32,
}

/// The adds of which a zone has copies.
#[derive(Debug)]
struct Copied {
    opening: u64,
    bits: Box<[u64]>,
}

#[derive(Debug)]
struct Known {
    /// Of each shard: its zones, in order.
    begins: Vec<Vec<Begin>>,
    /// By zone.
    copied: BTreeMap<u32, Copied>,
}

/// Where adds lie.
#[derive(Debug)]
pub(crate) struct Origins {
    /// Logical time of the last id of earlier mounts.
    clock: u64,
    /// Bits of a filter: as many as a zone has lines.
    bits: u64,
    known: Mutex<Known>,
}

/// Where the record of an add was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Earlier,
    /// Zone and opening.
    Here(u32, u64),
}

impl Origins {
    /// Of a mount whose ids follow `clock`.
    pub(crate) fn new(clock: u64, shards: usize, zone_lines: u32) -> Self {
        let known = Known { begins: vec![Vec::new(); shards], copied: BTreeMap::new() };
        Self { clock, bits: u64::from(zone_lines).next_multiple_of(64), known: Mutex::new(known) }
    }

    /// A shard has opened a zone, whose records have ids from `first` on, but for copies.
    pub(crate) fn opened(&self, shard: usize, first: u64, (zone, opening): (u32, u64)) {
        let mut known = self.known.lock();
        known.copied.remove(&zone);
        known.begins[shard].push(Begin { first, zone, opening, end: 0 });
    }

    /// A shard has left a zone with so many lines that hold records.
    pub(crate) fn left(&self, (zone, opening): (u32, u64), end: u32) {
        let mut known = self.known.lock();
        let mut begins = known.begins.iter_mut().flatten();
        if let Some(begin) = begins.find(|begin| (begin.zone, begin.opening) == (zone, opening)) {
            begin.end = end;
        }
    }

    /// Lines with records of a zone that a shard has opened and left in this mount.
    pub(crate) fn end_of(&self, zone: u32, opening: u64) -> Option<u32> {
        let known = self.known.lock();
        let mut begins = known.begins.iter().flatten();
        begins.find(|begin| (begin.zone, begin.opening) == (zone, opening)).map(|begin| begin.end)
    }

    /// The zones of which something is known.
    pub(crate) fn zones(&self) -> BTreeSet<(u32, u64)> {
        let known = self.known.lock();
        let begins = known.begins.iter().flatten().map(|begin| (begin.zone, begin.opening));
        begins.chain(known.copied.iter().map(|(zone, copied)| (*zone, copied.opening))).collect()
    }

    /// Forgets the first zones of each shard that are not there any more.
    pub(crate) fn forget(&self, is_there: impl Fn(u32, u64) -> bool) {
        let mut known = self.known.lock();
        for begins in &mut known.begins {
            // The last one that is gone stays: it says from which id on the next one is meant.
            let gone = begins.iter().take_while(|begin| !is_there(begin.zone, begin.opening)).count();
            begins.drain(..gone.saturating_sub(1));
        }
        known.copied.retain(|zone, copied| is_there(*zone, copied.opening));
    }

    /// Where the record of an add was made.
    pub(crate) fn of(&self, (id, _): AddId) -> Origin {
        let known = self.known.lock();
        let begins = known.begins.get(id.shard()).filter(|_| id.time() > self.clock);
        let begin = begins.and_then(|begins| {
            let behind = begins.partition_point(|begin| begin.first <= id.time());
            begins.get(behind.checked_sub(1)?)
        });
        begin.map_or(Origin::Earlier, |begin| Origin::Here(begin.zone, begin.opening))
    }

    fn places(&self, add: AddId) -> [u64; 2] {
        let mut hasher = FxHasher::default();
        add.hash(&mut hasher);
        let hash = hasher.finish();
        [hash % self.bits, hash.rotate_left(32) % self.bits]
    }

    /// A zone gets a copy of a record.
    pub(crate) fn note_copy(&self, zone: u32, opening: u64, record: &Record) {
        for (add, ..) in adds(record) {
            let mut known = self.known.lock();
            let words = (self.bits / 64) as usize;
            let new = || Copied { opening, bits: vec![0; words].into() };
            let copied = known.copied.entry(zone).or_insert_with(new);
            for place in self.places(add) {
                copied.bits[(place / 64) as usize] |= 1 << (place % 64);
            }
        }
    }

    /// Whether a zone other than `but` may have a copy of an add that was made by the cleaner of this mount.
    pub(crate) fn has_copy(&self, add: AddId, but: u32) -> bool {
        let places = self.places(add);
        let has = |copied: &Copied| {
            places.iter().all(|place| copied.bits[(place / 64) as usize] >> (place % 64) & 1 == 1)
        };
        self.known.lock().copied.iter().any(|(zone, copied)| *zone != but && has(copied))
    }
}
