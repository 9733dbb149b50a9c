//! The sieve: drops records that are dead for certain as zones are read.
//!
//! Where files come and go, most of the log is dead. A mount and the cleaner need not have all of it in memory: zones are read one
//! by one, in any order and by several tasks, and of each only what may count goes on.
//!
//! ```text
//! a zone's records ──Facts::sift_zone──► candidates ──Facts::settle──► Sieve ──Sieve::keeps──► what merge and Survey see
//! ```
//!
//! * Within a zone: an inode that was born and lost its only name in this zone is *gone*, and so are the records of the zone
//!   that are about nothing else. Its number is noted.
//! * A mount takes the zones that it has read for one, whenever their records have doubled ([`Facts::sift_again`]): all that
//!   it asks is the tree, to which a removal whose add is dropped with it says nothing, wherever both lie.
//! * When all zones are read, it is known which inodes live, by names of all zones. Records about others are dropped. If one
//!   lives of which records were dropped (it was removed under its first name, and has another one), the sieve is of no use:
//!   [`Facts::settle`] answers such inodes. The cleaner then reads everything again as it is, and a mount all records of
//!   these. So it is with a `Void`, of which no medium here makes one, and with an add that names two inodes, but that a
//!   mount keeps all then.
//! * A removal is kept while another zone has a copy of the add that it names, unless a record of that zone removes it: such
//!   a zone hides its copy itself, and both go with the zone.
//! * Of the records that set the times of a directory only those are kept that have the latest time.
//!
//! Memory: what may count; of each inode that is gone 8 bytes, where its records took three lines or more.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::layout::{ROOT_INO, item};
use super::merge::adds;
use super::mutant::{self, Rules};
use super::record::{AddId, Body, Item, removals};
use super::zone::Found;

/// Where copies of an add lie.
#[derive(Clone, Copy, Debug)]
struct Add {
    zone: u32,
    /// Whether other zones have one, too.
    more: bool,
    ino: u64,
}

/// What is known of the zones that were read.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    rules: Rules,
    /// Inodes that live without a name.
    open: BTreeSet<u64>,
    /// Adds, but for those that a record of their own zone removes.
    adds: FxHashMap<AddId, Add>,
    /// Inodes of which a zone has dropped records.
    gone: Vec<u64>,
    /// The latest change of the names of each directory.
    latest: FxHashMap<u64, u64>,
    /// Whether one add names two inodes, which no call has written.
    forged: bool,
}

/// What is known of all zones.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    rules: Rules,
    adds: FxHashMap<AddId, Add>,
    alive: FxHashSet<u64>,
    latest: FxHashMap<u64, u64>,
}

impl Facts {
    /// Of no zone yet. `open`: inodes that live without a name, because a call has them open.
    pub fn new(open: &BTreeSet<u64>, rules: Rules) -> Self {
        Self { rules, open: open.clone(), ..Self::default() }
    }

    /// Notes what the records of a zone say that count, and drops those about inodes that are gone.
    pub fn sift_zone<F: Borrow<Found>>(&mut self, records: &mut Vec<F>) {
        let all = || records.iter().map(Borrow::borrow);
        let removed: FxHashSet<_> = all().flat_map(|found| removals(&found.record)).collect();
        let mut named = FxHashSet::default();
        for found in all() {
            self.note_times(&found.record.body);
            for (add, _, _, ino) in adds(&found.record).filter(|add| !removed.contains(&(add.0, add.3))) {
                named.insert(ino);
                let at = self.adds.entry(add).or_insert(Add { zone: found.zone, more: false, ino });
                at.more |= at.zone != found.zone;
                self.forged |= at.ino != ino;
            }
        }
        let mut gone = FxHashMap::default();
        for Found { record, .. } in all() {
            let Body::Create(create) = &record.body else { continue };
            let is_removed = !create.name.is_empty() && removed.contains(&((record.id, 0), create.ino));
            let lives = named.contains(&create.ino) || self.open.contains(&create.ino);
            if is_removed && !lives && !self.is_latest(create.dir, create.time) {
                gone.insert(create.ino, (record.id, 0));
            }
        }
        records.retain(|found| !self.is_about(&found.borrow().record.body, &gone));
        self.gone.extend(gone.into_keys());
    }

    /// Drops of the records of all zones that were read, each of which was sifted, those about inodes that are gone by all of them.
    /// For a mount, which does not ask in which zone an add lies.
    pub fn sift_again<F: Borrow<Found>>(&mut self, records: &mut Vec<F>) {
        self.adds.clear();
        self.sift_zone(records);
    }

    /// Adds what is known of other zones.
    pub fn add(&mut self, other: Self) {
        for (add, at) in other.adds {
            let known = self.adds.entry(add).or_insert(at);
            known.more |= at.more || known.zone != at.zone;
            self.forged |= known.ino != at.ino;
        }
        self.forged |= other.forged;
        for (dir, time) in other.latest {
            note_latest(&mut self.latest, dir, time);
        }
        self.gone.extend(other.gone);
    }

    /// The sieve, when all zones are read; or the inodes of which records were dropped that may count, because they have another
    /// name: none where the sieve is of no use at all.
    pub fn settle(self, candidates: &[impl Borrow<Found>]) -> Result<Sieve, BTreeSet<u64>> {
        let records = || candidates.iter().map(|found| &found.borrow().record);
        if self.forged || records().any(|record| matches!(record.body, Body::Void(_))) {
            return Err(BTreeSet::new());
        }
        let removed: FxHashSet<_> = records().flat_map(removals).collect();
        let named = self.adds.iter().filter(|(add, at)| !removed.contains(&(**add, at.ino)));
        let named = named.map(|(_, at)| at.ino);
        let alive: FxHashSet<u64> = named.chain(self.open.iter().copied()).chain([ROOT_INO]).collect();
        let missed: BTreeSet<u64> = self.gone.iter().copied().filter(|ino| alive.contains(ino)).collect();
        if !missed.is_empty() && !self.rules.lacks(mutant::SIEVED_THOUGH_LINKED) {
            return Err(missed);
        }
        Ok(Sieve { rules: self.rules, adds: self.adds, alive, latest: self.latest })
    }

    fn note_times(&mut self, body: &Body) {
        match body {
            Body::Create(create) => note_latest(&mut self.latest, create.dir, create.time),
            Body::Names(names) => {
                for item in names.items.iter().filter(|item| item.what & item::DIR != 0) {
                    note_latest(&mut self.latest, item.dir, names.time);
                }
            }
            _ => {}
        }
    }

    fn is_latest(&self, dir: u64, time: u64) -> bool {
        is_latest(&self.latest, dir, time) && !self.rules.lacks(mutant::SIEVED_TIMES)
    }

    /// Whether a record is about nothing but inodes that are gone. `gone`: these, with the add that was their name.
    fn is_about(&self, body: &Body, gone: &FxHashMap<u64, AddId>) -> bool {
        let says_nothing = |item: &Item, time: u64| {
            let adds = item.what & item::ADD != 0;
            let removes = item.removes() && gone.get(&item.ino) != Some(&(item.added, item.index));
            let inode = item.what & item::INODE != 0 && !gone.contains_key(&item.ino);
            let dir = item.what & item::DIR != 0 && self.is_latest(item.dir, time);
            !(adds || removes || inode || dir)
        };
        match body {
            Body::Names(names) => names.items.iter().all(|item| says_nothing(item, names.time)),
            body => ino_of(body).is_some_and(|ino| gone.contains_key(&ino)),
        }
    }
}

impl Sieve {
    /// Whether a candidate may count; of one about an inode that does not live, only what it says of a directory stays.
    pub fn keeps(&self, found: &mut Found) -> bool {
        let own = found.zone;
        match &mut found.record.body {
            Body::Create(create) if !self.alive.contains(&create.ino) => {
                create.name.clear();
                self.sets_times_of(create.dir, create.time)
            }
            Body::Names(names) => {
                let time = names.time;
                for item in names.items.iter_mut().filter(|item| !self.alive.contains(&item.ino)) {
                    item.what &= !item::ADD;
                    item.name.clear();
                }
                names.items.iter().any(|item| self.keeps_item(item, own, time))
            }
            body => ino_of(body).is_none_or(|ino| self.alive.contains(&ino)),
        }
    }

    fn keeps_item(&self, item: &Item, own: u32, time: u64) -> bool {
        let alive = self.alive.contains(&item.ino);
        let waits = item.removes()
            && !self.rules.lacks(mutant::SIEVED_REMOVALS)
            && self.adds.get(&(item.added, item.index)).is_some_and(|at| at.more || at.zone != own);
        let sets = item.what & item::DIR != 0 && self.sets_times_of(item.dir, time);
        waits || sets || alive && item.what & (item::ADD | item::REMOVE | item::INODE) != 0
    }

    fn sets_times_of(&self, dir: u64, time: u64) -> bool {
        self.alive.contains(&dir) && is_latest(&self.latest, dir, time)
    }

    /// A zone that has a copy of an add that no record of the zone removes, and whether there are others.
    pub(crate) fn zones_of(&self, add: AddId) -> Option<(u32, bool)> {
        self.adds.get(&add).map(|at| (at.zone, at.more))
    }
}

fn note_latest(latest: &mut FxHashMap<u64, u64>, dir: u64, time: u64) {
    let known = latest.entry(dir).or_insert(time);
    *known = time.max(*known);
}

fn is_latest(latest: &FxHashMap<u64, u64>, dir: u64, time: u64) -> bool {
    latest.get(&dir).is_none_or(|latest| time >= *latest)
}

/// The inode that a record is about; none: it is about names, zones or operations.
fn ino_of(body: &Body) -> Option<u64> {
    match body {
        Body::Create(create) => Some(create.ino),
        Body::Write(write) => Some(write.ino),
        Body::Inline(inline) => Some(inline.ino),
        Body::Cut(cut) => Some(cut.ino),
        Body::Hole(hole) => Some(hole.ino),
        Body::Owner(owner) => Some(owner.ino),
        Body::Times(times) => Some(times.ino),
        Body::Xattr(xattr) => Some(xattr.ino),
        Body::Open(_) | Body::Names(_) | Body::Void(_) => None,
    }
}
