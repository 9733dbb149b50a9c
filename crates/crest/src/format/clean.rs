//! What of each record must be kept.
//!
//! A zone may be freed when nothing in it is live. A part of a record is live if
//!
//! * it *holds* something: the tree would have another value without it; or
//! * it *hides* something that is present elsewhere: a removal hides adds, a cut and a hole hide extents and sizes, the removal of
//!   an attribute hides values, a void hides the records of a failed operation.
//!
//! Both are functions of the records and zones that are present, so that a mount finds exactly what the last one knew. A zone that
//! was freed is present until the word that freed it is durable. The hider in a zone does not wait for what lies in the same zone:
//! both go together.
//!
//! What a cut, a hole or the removal of an attribute may hide is not searched for: it can lie only in zones that were opened before
//! the record was written, because a copy made later carries live parts only. The record has the number of the next opening at its
//! time (`before`), and waits for all zones with smaller ones.

use std::borrow::Borrow;

use rustc_hash::{FxHashMap, FxHashSet};

use super::inline::Inline;
use super::layout::item;
use super::merge::adds;
use super::mutant::{self, Rules};
use super::record::{AddId, Body, Create, Extent, Extents, Id, Item, Names, Record, Write, removals};
use super::sieve::Sieve;
use super::tree::{Held, Inode, Slot, Tree};
use super::zone::Found;

/// A log zone that is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Present {
    /// The zone.
    pub zone: u32,
    /// Its opening.
    pub opening: u64,
    /// Whether its word says that it is free, but not yet durably.
    pub freed: bool,
}

/// The records of a pool, and what they lead to.
pub struct Survey<'a, F> {
    found: &'a [F],
    tree: &'a Tree,
    zones: Vec<Present>,
    /// Of each add that a record removes: a zone with a copy of it, live or dead, and whether there are others.
    adds: FxHashMap<AddId, (u32, bool)>,
    /// The newest copy of each record that hides something.
    newest: FxHashMap<(Id, u16), usize>,
    /// What the sieve knows of adds, if one has dropped records.
    sieve: Option<&'a Sieve>,
    /// The first opening of this mount.
    mounted: u64,
    rules: Rules,
}

impl<'a, F: Borrow<Found>> Survey<'a, F> {
    /// Surveys the records of all zones that are present, freed ones included.
    pub fn new(found: &'a [F], tree: &'a Tree, zones: &[Present], mounted: u64, rules: Rules) -> Self {
        Self::sieved(found, tree, zones, None, (mounted, rules))
    }

    /// The same of records that a sieve has kept.
    pub fn sieved(
        found: &'a [F],
        tree: &'a Tree,
        zones: &[Present],
        sieve: Option<&'a Sieve>,
        (mounted, rules): (u64, Rules),
    ) -> Self {
        let forget_freed = rules.lacks(mutant::WAITER_BEFORE_FENCE);
        let zones: Vec<_> = zones.iter().copied().filter(|zone| !(zone.freed && forget_freed)).collect();
        let present: FxHashSet<u32> = zones.iter().map(|zone| zone.zone).collect();
        let (adds, newest) = Default::default();
        let mut survey = Self { found, tree, zones, adds, newest, sieve, mounted, rules };
        let records = || {
            let all = found.iter().map(Borrow::borrow).enumerate();
            all.filter(|(_, found): &(usize, &Found)| present.contains(&found.zone))
        };
        let removed = records().flat_map(|(_, found)| removals(&found.record));
        let removed: FxHashSet<AddId> = removed.map(|(add, _)| add).collect();
        for (index, found) in records() {
            if !removed.is_empty() && sieve.is_none() {
                survey.note_adds(found, &removed);
            }
            if hides(&found.record.body) || rules.lacks(mutant::HOLDER_BY_ID) {
                survey.note_newest(index, found);
            }
        }
        survey
    }

    fn at(&self, index: usize) -> &'a Found {
        self.found[index].borrow()
    }

    fn note_adds(&mut self, found: &Found, removed: &FxHashSet<AddId>) {
        for (add, ..) in adds(&found.record).filter(|(add, ..)| removed.contains(add)) {
            let zones = self.adds.entry(add).or_insert((found.zone, false));
            zones.1 |= zones.0 != found.zone;
        }
    }

    fn note_newest(&mut self, index: usize, record: &Found) {
        let key = (record.record.id, record.record.part);
        let age = |index: usize| (self.at(index).opening, self.at(index).line);
        if self.newest.get(&key).is_none_or(|newest| age(*newest) < age(index)) {
            self.newest.insert(key, index);
        }
    }

    /// Whether nothing in a zone is live.
    pub fn is_empty(&self, zone: u32) -> bool {
        (0..self.found.len()).all(|index| self.at(index).zone != zone || self.live(index).is_none())
    }

    /// Lines of a zone that are live.
    pub fn live_lines(&self, zone: u32) -> u32 {
        let in_zone = (0..self.found.len()).filter(|index| self.at(*index).zone == zone);
        in_zone.map(|index| self.lines(index)).sum()
    }

    /// Lines of a copy of a record; 0: nothing of it is live.
    pub fn lines(&self, index: usize) -> u32 {
        let found = self.at(index);
        let is_whole = match &found.record.body {
            Body::Create(create) => !create.name.is_empty() && self.holds_name((found.record.id, 0), index),
            Body::Write(write) => !write.extents.is_empty() && self.holds_extents(write, index),
            _ => false,
        };
        if is_whole { found.lines } else { self.live(index).map_or(0, |copy| copy.lines() as u32) }
    }

    /// Whether a file has all blocks of a record by this one.
    fn holds_extents(&self, write: &Write, index: usize) -> bool {
        let Some(inode) = self.tree.inodes.get(write.ino) else { return false };
        write.extents.iter().all(|extent| {
            let mut blocks = extent.file..extent.file + u64::from(extent.count);
            blocks.all(|block| inode.blocks.get(block).is_some_and(|slot| slot.by == index))
        })
    }

    fn holds_name(&self, add: AddId, index: usize) -> bool {
        self.tree.name(add).is_some_and(|name| name.by == index)
    }

    /// What a copy of a record carries: its live parts, under its id. None: it has none.
    pub fn live(&self, index: usize) -> Option<Record> {
        let found: &Found = self.found.get(index)?.borrow();
        let Record { id, part, .. } = found.record;
        let body = match &found.record.body {
            Body::Open(_) => None,
            Body::Create(create) => self.create(create, index).map(Body::Create),
            Body::Names(names) => self.names(names, index).map(Body::Names),
            Body::Write(write) => self.write(write, index).map(Body::Write),
            Body::Inline(inline) => self.inline(inline, index),
            body => self.whole(body, index).then(|| body.clone()),
        };
        body.map(|body| Record { id, part, group: 0, batch: 0, body })
    }

    fn lacks(&self, rule: design::Mutant) -> bool {
        self.rules.lacks(rule)
    }

    /// Whether a record must be kept of which nothing can be left out.
    fn whole(&self, body: &Body, index: usize) -> bool {
        let inode = |ino: &u64| self.tree.inodes.get(*ino);
        let hides_here = |before| self.is_newest(index) && self.awaits(before, index);
        match body {
            Body::Cut(cut) => inode(&cut.ino).is_some_and(|inode| {
                let replaced = !inode.cuts.iter().any(|(by, _)| *by == index);
                let kept = !replaced || self.lacks(mutant::CUTS_NEVER_DIE);
                let hides = kept && hides_here(cut.before) && !self.lacks(mutant::CUT_DIES_AT_ONCE);
                hides || holds_size(inode, index) || self.holds_times(inode, index)
            }),
            Body::Hole(hole) => inode(&hole.ino).is_some_and(|inode| {
                let mut slots = inode.blocks.in_order();
                let on_top = slots.any(|(_, slot)| *slot == Held { value: Slot::Hole, by: index });
                let hides = on_top && hides_here(hole.before) && !self.lacks(mutant::HOLE_DIES_AT_ONCE);
                hides || self.holds_times(inode, index)
            }),
            Body::Owner(owner) => inode(&owner.ino)
                .is_some_and(|inode| inode.owner.by == index || self.holds_times(inode, index)),
            Body::Times(times) => inode(&times.ino).is_some_and(|inode| self.holds_times(inode, index)),
            Body::Xattr(xattr) => inode(&xattr.ino).is_some_and(|inode| {
                let on_top = inode.xattrs.get(&xattr.name).filter(|held| held.by == index);
                let dies = self.lacks(mutant::XATTR_REMOVAL_DIES_AT_ONCE);
                let kept =
                    on_top.is_some_and(|held| held.value.is_some() || hides_here(xattr.before) && !dies);
                kept || self.holds_times(inode, index)
            }),
            Body::Void(void) => {
                let failed = (void.zone, void.opening);
                let own = self.at(index).zone;
                let zone =
                    self.zones.iter().any(|zone| (zone.zone, zone.opening) == failed && zone.zone != own);
                zone && self.is_newest(index)
            }
            _ => false,
        }
    }

    fn create(&self, create: &Create, index: usize) -> Option<Create> {
        let mut copy = create.clone();
        let named = !create.name.is_empty() && self.holds_name((self.at(index).record.id, 0), index);
        if !named {
            copy.name.clear();
        }
        let inode = self.tree.inodes.get(create.ino);
        let births = inode.is_some_and(|inode| {
            let birth = inode.birth.by == index && !self.lacks(mutant::BIRTH_NOT_HELD);
            birth || inode.owner.by == index || self.holds_times(inode, index)
        });
        (named || births || self.holds_directory_times(create.dir, index)).then_some(copy)
    }

    fn names(&self, names: &Names, index: usize) -> Option<Names> {
        let items: Vec<_> = names.items.iter().filter_map(|item| self.item(item, index)).collect();
        (!items.is_empty()).then_some(Names { time: names.time, items })
    }

    fn item(&self, item: &Item, index: usize) -> Option<Item> {
        let mut copy = item.clone();
        if item.adds() && !self.holds_name((self.at(index).record.id, item.index), index) {
            copy.what &= !item::ADD;
            copy.name.clear();
        }
        if item.removes() && !self.removal_waits((item.added, item.index), index) {
            copy.what &= !item::REMOVE;
        }
        let inode = self.tree.inodes.get(item.ino);
        let link_time = item.what & item::INODE != 0
            && !self.lacks(mutant::LINK_TIME_NOT_HELD)
            && inode.is_some_and(|inode| self.holds_times(inode, index));
        let dir_time = item.what & item::DIR != 0 && self.holds_directory_times(item.dir, index);
        (copy.what & (item::ADD | item::REMOVE) != 0 || link_time || dir_time).then_some(copy)
    }

    fn write(&self, write: &Write, index: usize) -> Option<Write> {
        let inode = self.tree.inodes.get(write.ino)?;
        let mut copy = write.clone();
        let size = holds_size(inode, index) && !self.lacks(mutant::SIZE_NOT_HELD);
        let time = self.holds_times(inode, index);
        copy.extents = write.extents.iter().flat_map(|extent| live_extents(extent, inode, index)).collect();
        let live = size || time || !copy.extents.is_empty();
        if self.lacks(mutant::COPY_OF_DEAD_PARTS) {
            copy.extents.clone_from(&write.extents);
        } else {
            copy.size = write.size.filter(|_| size);
            copy.time = write.time.filter(|_| time);
        }
        live.then_some(copy)
    }

    /// A record with bytes of a block keeps all of them if it holds some, or else its time.
    fn inline(&self, inline: &Inline, index: usize) -> Option<Body> {
        let inode = self.tree.inodes.get(inline.ino)?;
        let mut patches = inode.patches.get(&inline.block).into_iter().flatten();
        if patches.any(|patch| patch.by == index) && !self.lacks(mutant::INLINE_NOT_HELD) {
            return Some(Body::Inline(inline.clone()));
        }
        let Inline { ino, time, .. } = *inline;
        let times = Write { ino, extents: Extents::new(), size: None, time };
        self.holds_times(inode, index).then_some(Body::Write(times))
    }

    fn holds_times(&self, inode: &Inode, index: usize) -> bool {
        let by = [inode.atime.by, inode.mtime.by, inode.ctime.by];
        if !self.lacks(mutant::HOLDER_BY_ID) {
            return by.contains(&index);
        }
        let here = |by: usize| self.at(by).zone == self.at(index).zone;
        let ids = (0..self.found.len()).filter(|other| here(*other) && self.sets_times_of(*other, inode));
        let largest = ids.max_by_key(|other| self.at(*other).record.id) == Some(index);
        by.into_iter().any(here) && largest && self.is_newest(index)
    }

    /// Whether a record sets times of the inode that was born in the same record as this one.
    fn sets_times_of(&self, index: usize, inode: &Inode) -> bool {
        let Body::Create(birth) = &self.at(inode.birth.by).record.body else { return false };
        match &self.at(index).record.body {
            Body::Create(create) => create.ino == birth.ino,
            Body::Write(write) => write.ino == birth.ino,
            Body::Inline(inline) => inline.ino == birth.ino,
            Body::Times(times) => times.ino == birth.ino,
            _ => false,
        }
    }

    fn holds_directory_times(&self, dir: u64, index: usize) -> bool {
        let inode = self.tree.inodes.get(dir);
        let holds = inode.is_some_and(|inode| self.holds_times(inode, index));
        holds && !self.lacks(mutant::DIRECTORY_TIME_NOT_HELD)
    }

    fn is_newest(&self, index: usize) -> bool {
        let Record { id, part, .. } = self.at(index).record;
        self.newest.get(&(id, part)) == Some(&index)
    }

    fn removal_waits(&self, add: AddId, index: usize) -> bool {
        let own = self.at(index).zone;
        let at = match self.sieve {
            Some(sieve) => sieve.zones_of(add).filter(|_| !self.zones.is_empty()),
            None => self.adds.get(&add).copied(),
        };
        let elsewhere = at.is_some_and(|(zone, more)| more || zone != own);
        elsewhere && self.is_newest(index) && self.waits(index) && !self.lacks(mutant::REMOVAL_DIES_AT_ONCE)
    }

    fn waits(&self, index: usize) -> bool {
        self.at(index).opening >= self.mounted || !self.lacks(mutant::WAITS_FORGOTTEN)
    }

    /// Whether another zone is present that was opened before `before`.
    fn awaits(&self, before: u64, index: usize) -> bool {
        let own = self.at(index);
        let before = if self.lacks(mutant::CUT_AWAITS_OLDER_OPENINGS) { own.opening } else { before };
        let mut others = self.zones.iter().filter(|zone| zone.zone != own.zone);
        others.any(|zone| zone.opening < before) && self.waits(index)
    }
}

/// Whether what a record hides can keep it.
fn hides(body: &Body) -> bool {
    match body {
        Body::Cut(_) | Body::Hole(_) | Body::Xattr(_) | Body::Void(_) => true,
        Body::Names(names) => names.items.iter().any(Item::removes),
        _ => false,
    }
}

fn holds_size(inode: &Inode, index: usize) -> bool {
    inode.size.is_some_and(|size| size.by == index)
}

/// The parts of an extent whose blocks the file still has by this record.
fn live_extents(extent: &Extent, inode: &Inode, index: usize) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for at in 0..extent.count {
        let file = extent.file + u64::from(at);
        if inode.blocks.get(file).is_none_or(|slot| slot.by != index) {
            continue;
        }
        let sum = extent.checksums.get(usize::from(at)).copied();
        match runs.last_mut() {
            Some(run) if run.file + u64::from(run.count) == file => {
                run.count += 1;
                run.checksums.extend(sum);
            }
            _ => {
                let place = extent.place + u64::from(at);
                runs.push(Extent { file, place, count: 1, checksums: sum.into_iter().collect(), ..*extent });
            }
        }
    }
    runs
}
