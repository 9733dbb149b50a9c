//! Which units of containers may be written over: what hides a package must outlive it.
//!
//! Nothing is erased. A package counts until another one is stored over it and that is fenced; then it is *gone*. So a dead
//! package is *free*, for others to be stored over it, only when nothing that it hides would come back:
//!
//! | dead package | is free |
//! |---|---|
//! | CREATE | at once; of a rename, when what its UNLINKs hide is gone |
//! | UNLINK | when the CREATE that it hides is gone |
//! | DATA, with all of its write | at once: what it hid is hidden by what hides it |
//! | ATTR that is not the newest | when each block that it hides of a DATA that is not gone is hidden by one that stays |
//! | DATA and ATTR of a file without a name | at once: what hides the file's CREATE outlives that |
//!
//! A free package hides nothing any more, for it may be stored over at any time: so no two of them excuse each other.

use std::collections::BTreeMap;

use sim::Run;
use sim::map::{HashMap, TreeMap, TreeSet};

use crate::layout::{BLOCK, Kind};
use crate::map::Piece;
use crate::merge::{Merged, is_hider, key_of, mapped_blocks};
use crate::mutant::{self, Rules};
use crate::package::{Attr, Data, Key, Package, Place};

/// A package that is not gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// It waits for so many CREATEs to be gone before it is free; whether it is hidden.
    Create {
        waits: u32,
        dead: bool,
    },
    /// The same; it is dead from the beginning.
    Unlink {
        waits: u32,
    },
    /// Of this file, with this number.
    Data(Key, u64),
    Attr(Key, u64),
    /// Nothing depends on it.
    Spent(Kind),
}

/// A DATA that is not gone.
#[derive(Clone, Copy, Debug)]
struct Extent {
    place: Place,
    first: u64,
    blocks: u64,
    size: u64,
    /// Blocks of it that the file has.
    live: u64,
    /// The numbers of the DATA of its write.
    write: Run,
    free: bool,
}

/// The packages of a file that are not gone.
#[derive(Clone, Debug, Default)]
struct Log {
    extents: TreeMap<u64, Extent>,
    /// ATTRs that are not free, by number: place and size.
    attrs: TreeMap<u64, (Place, u64)>,
    setter: Option<u64>,
}

/// Places of one kind that can be taken.
#[derive(Clone, Debug, Default)]
struct Free {
    /// With a dead package.
    dead: TreeSet<Place>,
    /// Without a package.
    blank: TreeSet<Place>,
}

/// All packages that are not gone, and the places that can be taken.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    rules: Rules,
    units: HashMap<Place, Unit>,
    /// The packages that wait until a CREATE is gone.
    waiting: HashMap<Place, Vec<Place>>,
    logs: HashMap<Key, Log>,
    free: [Free; 4],
    /// The number of packages of a container that are not dead, by block.
    alive: HashMap<u64, u32>,
}

/// # Places
impl Ledger {
    /// An empty one.
    pub fn new(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Adds a place without a package.
    pub fn add_blank(&mut self, kind: Kind, place: Place) {
        self.free[kind.index()].blank.insert(place);
    }

    /// Takes a place, one with a dead package first; `pick` chooses among all.
    pub fn take(&mut self, kind: Kind, pick: usize) -> Option<Place> {
        let free = &mut self.free[kind.index()];
        let (dead, blank) = (free.dead.len(), free.blank.len());
        let pick = pick.checked_rem(dead + blank)?;
        let (set, nth) = if pick < dead { (&mut free.dead, pick) } else { (&mut free.blank, pick - dead) };
        let place = *set.iter().nth(nth)?;
        set.remove(&place);
        Some(place)
    }

    /// Gives a place back on which nothing was stored that counts.
    pub fn give_back(&mut self, kind: Kind, place: Place) {
        let is_dead = self.units.contains_key(&place);
        let free = &mut self.free[kind.index()];
        if is_dead {
            free.dead.insert(place)
        } else {
            free.blank.insert(place)
        };
    }

    /// Counts the places that can be taken.
    pub fn count(&self, kind: Kind) -> usize {
        let free = &self.free[kind.index()];
        free.dead.len() + free.blank.len()
    }

    /// The places that can be taken: those with a dead package, those without one.
    pub fn free_places(&self, kind: Kind) -> (Vec<Place>, Vec<Place>) {
        let free = &self.free[kind.index()];
        (free.dead.iter().copied().collect(), free.blank.iter().copied().collect())
    }

    /// Takes all free places with a dead package, to be stored over with zeros; then [`Ledger::blanked`].
    pub fn take_dead(&mut self) -> Vec<(Kind, Place)> {
        let mut all = Vec::new();
        for kind in Kind::ALL {
            let dead = std::mem::take(&mut self.free[kind.index()].dead);
            sim::ran::extend(&mut all, dead.iter().map(|place| (kind, *place)));
        }
        all
    }

    /// The place was stored over with zeros, which are fenced.
    pub fn blanked(&mut self, kind: Kind, place: Place) {
        self.gone(place);
        self.add_blank(kind, place);
    }

    /// Takes a container of which every place is free; false: it is not so. After the fence of its bit, [`Ledger::released`].
    pub fn take_container(&mut self, kind: Kind, places: &[Place]) -> bool {
        let free = &mut self.free[kind.index()];
        if !places.iter().all(|place| free.dead.contains(place) || free.blank.contains(place)) {
            return false;
        }
        for place in places {
            free.dead.remove(place);
            free.blank.remove(place);
        }
        true
    }

    /// The block of these places is no container any more.
    pub fn released(&mut self, places: &[Place]) {
        for place in places {
            self.gone(*place);
        }
    }

    /// Counts the packages of the container in a block that are not dead.
    pub fn alive(&self, block: u64) -> u32 {
        self.alive.get(&block).copied().unwrap_or(0)
    }

    fn add_alive(&mut self, place: Place, by: i32) {
        let alive = self.alive.get_or_default(place / BLOCK);
        *alive = alive.saturating_add_signed(by);
    }

    fn set_free(&mut self, kind: Kind, place: Place) {
        self.free[kind.index()].dead.insert(place);
    }

    /// Forgets the package at a place: another one is stored over it, and fenced.
    fn gone(&mut self, place: Place) {
        match self.units.remove(&place) {
            Some(Unit::Create { .. }) => {
                for waiter in self.waiting.remove(&place).unwrap_or_default() {
                    self.wait_less(waiter);
                }
            }
            Some(Unit::Data(key, vtail)) => {
                if let Some(log) = self.logs.get_mut(&key) {
                    log.extents.remove(&vtail);
                    self.settle(key);
                }
            }
            _ => {}
        }
    }

    fn wait_less(&mut self, place: Place) {
        match self.units.get_mut(&place) {
            Some(Unit::Create { waits, dead }) => {
                *waits = waits.saturating_sub(1);
                if *waits == 0 && *dead {
                    self.set_free(Kind::Create, place);
                }
            }
            Some(Unit::Unlink { waits }) if *waits > 0 => {
                *waits -= 1;
                if *waits == 0 {
                    self.set_free(Kind::Unlink, place);
                }
            }
            _ => {}
        }
    }
}

/// # Names
impl Ledger {
    /// A CREATE is stored and fenced. `hidden`: the CREATEs that its UNLINKs hide.
    pub fn created(&mut self, place: Place, hidden: &[Place]) {
        self.gone(place);
        let hidden = if self.rules.lacks(mutant::RENAME_CREATE_FREED) { &[] } else { hidden };
        let mut waits = 0;
        for one in hidden {
            if matches!(self.units.get(one), Some(Unit::Create { .. })) {
                sim::ran::push(self.waiting.get_or_default(*one), place);
                waits += 1;
            }
        }
        self.units.insert(place, Unit::Create { waits, dead: false });
        self.add_alive(place, 1);
    }

    /// An UNLINK is stored and counts, and all of that is fenced.
    pub fn unlinked(&mut self, place: Place, hidden: Place) {
        self.gone(place);
        let is_there = matches!(self.units.get(&hidden), Some(Unit::Create { .. }));
        if is_there && !self.rules.lacks(mutant::UNLINK_FREED_EARLY) {
            sim::ran::push(self.waiting.get_or_default(hidden), place);
            self.units.insert(place, Unit::Unlink { waits: 1 });
        } else {
            self.units.insert(place, Unit::Unlink { waits: 0 });
            self.set_free(Kind::Unlink, place);
        }
        self.hide(hidden);
    }

    /// A CREATE does not count any more.
    pub fn hide(&mut self, place: Place) {
        let Some(Unit::Create { waits, dead }) = self.units.get_mut(&place) else { return };
        if std::mem::replace(dead, true) {
            return;
        }
        if *waits == 0 {
            self.set_free(Kind::Create, place);
        }
        self.add_alive(place, -1);
    }
}

/// # Files
impl Ledger {
    /// DATA is stored and fenced; so many of its blocks are the file's.
    pub fn written(&mut self, key: Key, place: Place, data: &Data, live: u64) {
        self.gone(place);
        self.units.insert(place, Unit::Data(key, data.vtail));
        self.add_alive(place, 1);
        let write = Run::new(data.vtail - u64::from(data.index), u64::from(data.count.max(1)));
        let extent = Extent {
            place,
            first: data.first,
            blocks: data.blocks,
            size: data.size,
            live,
            write,
            free: false,
        };
        self.logs.get_or_default(key).extents.insert(data.vtail, extent);
    }

    /// The size of a DATA was patched; so many more of its blocks are the file's.
    pub fn patched(&mut self, key: Key, vtail: u64, size: u64, more: u64) {
        let log = self.logs.get_or_default(key);
        if let Some(extent) = log.extents.get_mut(&vtail) {
            (extent.size, extent.live) = (size, extent.live + more);
        }
    }

    /// A file has lost blocks of its DATA, by what is stored and fenced.
    pub fn lost(&mut self, key: Key, pieces: &[Piece]) {
        for piece in pieces {
            let Some(log) = self.logs.get_mut(&key) else { return };
            if let Some(extent) = log.extents.get_mut(&piece.from) {
                extent.live = extent.live.saturating_sub(piece.blocks);
                if self.rules.lacks(mutant::SPLIT_FREED) {
                    extent.live = 0;
                }
            }
            self.let_go(key, piece.from);
        }
        self.settle(key);
    }

    /// The package with this number is now the newest that sets the size of a file.
    pub fn set_size(&mut self, key: Key, vtail: u64) {
        if let Some(before) = self.logs.get_or_default(key).setter.replace(vtail) {
            self.let_go(key, before);
        }
        self.settle(key);
    }

    /// An ATTR is stored and fenced; it is the newest of the file.
    pub fn changed(&mut self, key: Key, place: Place, attr: &Attr) {
        self.gone(place);
        self.units.insert(place, Unit::Attr(key, attr.vtail));
        self.add_alive(place, 1);
        let log = self.logs.get_or_default(key);
        let before = log.attrs.last_key_value().map(|(_, (place, _))| *place);
        log.attrs.insert(attr.vtail, (place, attr.size));
        if let Some(before) = before {
            self.add_alive(before, -1);
        }
        self.set_size(key, attr.vtail);
    }

    /// The last name of a file is gone, and that is fenced.
    pub fn ended(&mut self, key: Key) {
        let Some(log) = self.logs.remove(&key) else { return };
        for extent in log.extents.values().filter(|extent| !extent.free) {
            self.spend(Kind::Data, extent.place, true);
        }
        let newest = log.attrs.last_key_value().map(|(vtail, _)| *vtail);
        for (vtail, (place, _)) in &log.attrs {
            self.spend(Kind::Attr, *place, Some(*vtail) == newest);
        }
    }

    fn spend(&mut self, kind: Kind, place: Place, is_alive: bool) {
        if is_alive {
            self.add_alive(place, -1);
        }
        self.units.insert(place, Unit::Spent(kind));
        self.set_free(kind, place);
    }

    /// Frees a DATA if it, and all of its write, has neither a live block nor sets the size.
    fn let_go(&mut self, key: Key, vtail: u64) {
        let Some(log) = self.logs.get_mut(&key) else { return };
        let Some(extent) = log.extents.get(&vtail).copied() else { return };
        let Run { first, count } = extent.write;
        let members = if self.rules.lacks(mutant::MEMBER_FREED_ALONE) {
            vtail..vtail.saturating_add(1)
        } else {
            first..first.saturating_add(count)
        };
        let is_live = |(vtail, extent): (&u64, &Extent)| extent.live > 0 || log.setter == Some(*vtail);
        if log.extents.range(members.clone()).any(is_live) {
            return;
        }
        let mut freed = Vec::new();
        for (_, extent) in log.extents.range_mut(members).filter(|(_, extent)| !extent.free) {
            extent.free = true;
            sim::ran::push(&mut freed, extent.place);
        }
        for place in freed {
            self.set_free(Kind::Data, place);
            self.add_alive(place, -1);
        }
    }

    /// Frees each ATTR that has become old and hides nothing alone.
    fn settle(&mut self, key: Key) {
        let Some(log) = self.logs.get_mut(&key) else { return };
        if log.attrs.len() < 2 {
            return;
        }
        let all: Vec<u64> = sim::ran::collected(log.attrs.keys().rev().skip(1).copied());
        let in_pair = self.rules.lacks(mutant::FREED_IN_PAIR).then(|| log.attrs.clone());
        for vtail in all {
            let attrs = in_pair.as_ref().unwrap_or(&log.attrs);
            if !self.rules.lacks(mutant::DATA_HIDER_FREED) && is_needed(&log.extents, attrs, vtail) {
                continue;
            }
            if let Some((place, _)) = log.attrs.remove(&vtail) {
                self.free[Kind::Attr.index()].dead.insert(place);
                self.units.insert(place, Unit::Spent(Kind::Attr));
            }
        }
    }
}

/// Whether an ATTR alone hides a block of an older DATA that is not gone.
fn is_needed(extents: &TreeMap<u64, Extent>, attrs: &TreeMap<u64, (Place, u64)>, vtail: u64) -> bool {
    let Some((_, size)) = attrs.get(&vtail) else { return false };
    let end = |extent: &Extent| (extent.first + extent.blocks).min(extent.size.div_ceil(BLOCK));
    for (number, extent) in extents.range(..vtail) {
        let (mut at, end_of_old) = (extent.first.max(size.div_ceil(BLOCK)), end(extent));
        let cut = attrs
            .range(number..)
            .filter(|(other, _)| **other != vtail)
            .map(|(_, (_, size))| size.div_ceil(BLOCK));
        let end_of_old = cut.fold(end_of_old, u64::min);
        let hiders = extents.range(number.saturating_add(1)..).filter(|(_, hider)| !hider.free);
        let mut ranges = sim::ran::collected(hiders.map(|(_, hider)| (hider.first, end(hider))));
        ranges.sort_unstable();
        for (from, to) in ranges {
            if from > at {
                break;
            }
            at = at.max(to);
        }
        if at < end_of_old {
            return true;
        }
    }
    false
}

/// # After a mount
impl Ledger {
    /// Computes it from the packages on a device: all that waits follows from them. Places without a package are to be added.
    pub fn of(found: &BTreeMap<Place, Package>, merged: &Merged, rules: Rules) -> Self {
        let mut ledger = Self::new(rules);
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, piece) in merged.files.values().flat_map(|file| file.map.pieces()) {
            *live.entry(piece.from).or_default() += piece.blocks;
        }
        for (place, package) in found {
            match package {
                Package::Create(_) => {
                    ledger.units.insert(*place, Unit::Create { waits: 0, dead: false });
                    ledger.add_alive(*place, 1);
                }
                Package::Unlink(_) => drop(ledger.units.insert(*place, Unit::Unlink { waits: 0 })),
                Package::Data(_) => drop(ledger.units.insert(*place, Unit::Spent(Kind::Data))),
                Package::Attr(_) => drop(ledger.units.insert(*place, Unit::Spent(Kind::Attr))),
            }
        }
        for (place, package) in found {
            let Package::Unlink(unlink) = package else { continue };
            let holds = merged.counting.contains(place) && is_hider(found, unlink);
            if holds && !rules.lacks(mutant::WAITS_NOT_REBUILT) {
                if !rules.lacks(mutant::UNLINK_FREED_EARLY) {
                    ledger.wait(*place, unlink.hides);
                }
                if let Some((mate, _)) = unlink.mate.filter(|_| !rules.lacks(mutant::RENAME_CREATE_FREED)) {
                    ledger.wait(mate, unlink.hides);
                }
            }
        }
        let unlinks = found.iter().filter(|(_, package)| package.kind() == Kind::Unlink);
        for (place, _) in unlinks {
            if ledger.units.get(place) == Some(&Unit::Unlink { waits: 0 }) {
                ledger.set_free(Kind::Unlink, *place);
            }
        }
        merged.hidden.iter().for_each(|place| ledger.hide(*place));
        for (key, file) in &merged.files {
            ledger.add_log(found, *key, (&file.log, file.setter, file.attr), &live);
        }
        for (place, package) in found {
            if let Some(Unit::Spent(kind)) = ledger.units.get(place).copied() {
                debug_assert_eq!(kind, package.kind());
                ledger.set_free(kind, *place);
            }
        }
        ledger
    }

    fn wait(&mut self, place: Place, hidden: Place) {
        match self.units.get_mut(&place) {
            Some(Unit::Create { waits, .. } | Unit::Unlink { waits }) => *waits += 1,
            _ => return,
        }
        sim::ran::push(self.waiting.get_or_default(hidden), place);
    }

    fn add_log(
        &mut self,
        found: &BTreeMap<Place, Package>,
        key: Key,
        (places, setter, newest): (&[Place], Option<u64>, Option<u64>),
        live: &BTreeMap<u64, u64>,
    ) {
        let key = key_of(key, self.rules);
        for place in places {
            match &found[place] {
                Package::Data(data) => {
                    let live = live.get(&data.vtail).copied().unwrap_or(0);
                    self.units.remove(place);
                    self.written(key, *place, data, live.min(mapped_blocks(data, self.rules)));
                }
                Package::Attr(attr) => {
                    self.units.insert(*place, Unit::Attr(key, attr.vtail));
                    if Some(attr.vtail) == newest {
                        self.add_alive(*place, 1);
                    }
                    let log = self.logs.get_or_default(key);
                    log.attrs.insert(attr.vtail, (*place, attr.size));
                }
                _ => {}
            }
        }
        let Some(log) = self.logs.get_mut(&key) else { return };
        log.setter = setter;
        let numbers = sim::ran::collected(log.extents.keys().copied());
        for vtail in numbers {
            self.let_go(key, vtail);
        }
        if self.rules.lacks(mutant::WAITS_NOT_REBUILT)
            && let Some(log) = self.logs.get_mut(&key)
        {
            let newest = log.attrs.pop_last();
            let old = std::mem::take(&mut log.attrs);
            log.attrs.extend(newest);
            for (place, _) in old.values() {
                self.units.insert(*place, Unit::Spent(Kind::Attr));
            }
        }
        self.settle(key);
    }
}
