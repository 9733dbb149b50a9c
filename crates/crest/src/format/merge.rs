//! What a set of records means: the tree of names, inodes and places of blocks.
//!
//! | object | rule |
//! |---|---|
//! | name | the add that no removal names |
//! | inode | lives while a name leads to it, or a call has it open |
//! | mode and owner; an attribute; the place of a block; the size | the records that set it are applied in the order of their ids |
//! | bytes of a block | those at its place, then those of each `Inline` above the record that gave it the place, in that order |
//! | a time | the value with the latest stamp |
//! | links | the names, counted |
//!
//! So the result depends neither on the order in which records are read nor on how often: only on which are there. `clean.rs`
//! decides which must be.

use std::borrow::Borrow;
use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::inline::{Inline, covers};
use super::layout::{ROOT_INO, item, times};
use super::mutant::{self, Rules};
use super::record::{AddId, Body, Create, Id, Item, Names, Record, Times, Write, Xattr, removals};
use super::tree::{Held, Inode, Inodes, Name, Stamped, Tree};
use super::zone::Found;

/// The order in which records are applied: by id and place in the group; of copies of one record the newest comes last.
fn in_order(found: &[&Found]) -> Vec<usize> {
    let key = |(index, found): (usize, &&Found)| {
        (found.record.id, found.record.part, found.opening, found.line, index as u32)
    };
    let mut keys: Vec<_> = found.iter().enumerate().map(key).collect();
    // Those of a shard are in order: runs, which this sort merges.
    keys.sort();
    keys.into_iter().map(|key| key.4 as usize).collect()
}

/// The tree that records lead to. `open`: inodes that live without a name, because a call has them open.
pub fn merge(found: &[impl Borrow<Found>], open: &BTreeSet<u64>, rules: Rules) -> Tree {
    let found: Vec<&Found> = found.iter().map(Borrow::borrow).collect();
    let found = &*found;
    let voided = voided(found);
    let mut order = in_order(found);
    if !voided.is_empty() {
        order.retain(|index| {
            let Found { zone, opening, record, .. } = found[*index];
            !voided.contains(&(*zone, *opening, record.id))
        });
    }
    let names = names(found, &order);
    let mut alive: Vec<u64> = names.iter().map(|name| name.ino).chain(open.iter().copied()).collect();
    alive.push(ROOT_INO);
    alive.sort_unstable();
    alive.dedup();
    let (mut inodes, unborn) = births(found, &order, &alive);
    let mut replay = Replay { inodes: &mut inodes, rules };
    for index in order {
        replay.apply(index, &found[index].record.body);
    }
    for name in &names {
        if let Some(inode) = inodes.inode_mut(name.ino) {
            inode.links += 1;
        }
    }
    Tree { names, inodes, unborn }
}

/// The inodes that live, as they were born, and those of which no record says how. `alive`: in order.
fn births(found: &[&Found], order: &[usize], alive: &[u64]) -> (Inodes, BTreeSet<u64>) {
    let at: FxHashMap<u64, u32> = alive.iter().copied().zip(0..).collect();
    let mut births: Vec<Option<(usize, usize)>> = vec![None; alive.len()];
    for index in order {
        let Body::Create(create) = &found[*index].record.body else { continue };
        if let Some(at) = at.get(&create.ino) {
            let birth = &mut births[*at as usize];
            *birth = Some((birth.map_or(*index, |(first, _)| first), *index));
        }
    }
    let all = || alive.iter().copied().zip(&births);
    let unborn = all().filter(|(_, birth)| birth.is_none()).map(|(ino, _)| ino).collect();
    let born = all().filter_map(|(ino, birth)| {
        let (first, last) = (*birth)?;
        let Body::Create(create) = &found[first].record.body else { return None };
        let mut inode = Inode::new(create, first);
        inode.birth.by = last;
        Some((ino, inode))
    });
    (born.collect(), unborn)
}

/// Operations that failed, by zone and opening.
fn voided(found: &[&Found]) -> BTreeSet<(u32, u64, Id)> {
    let voids = found.iter().filter_map(|found| match &found.record.body {
        Body::Void(void) => Some((void.zone, void.opening, void.failed)),
        _ => None,
    });
    voids.collect()
}

/// The adds of a record, with directory, name and inode.
pub fn adds(record: &Record) -> impl Iterator<Item = (AddId, u64, &[u8], u64)> {
    let (create, names): (_, &[Item]) = match &record.body {
        Body::Create(create) if !create.name.is_empty() => (Some(create), &[]),
        Body::Names(names) => (None, &names.items),
        _ => (None, &[]),
    };
    let create = create.into_iter().map(|it| ((record.id, 0), it.dir, &*it.name, it.ino));
    let names = names.iter().filter(|item| item.adds());
    create.chain(names.map(|it| ((record.id, it.index), it.dir, &*it.name, it.ino)))
}

/// The names, in the order of their adds.
fn names(found: &[&Found], order: &[usize]) -> Vec<Name> {
    let removed: FxHashSet<_> = order.iter().flat_map(|index| removals(&found[*index].record)).collect();
    let mut names = Vec::new();
    for by in order {
        for (add, dir, name, ino) in adds(&found[*by].record) {
            if removed.is_empty() || !removed.contains(&(add, ino)) {
                names.push(Name { add, dir, ino, by: *by, name: name.to_vec() });
            }
        }
    }
    names.sort_by_key(|name| name.add);
    // Of copies the newest, which is the last, holds the name.
    names.dedup_by(|later, earlier| {
        let is_copy = later.add == earlier.add;
        if is_copy {
            std::mem::swap(later, earlier);
        }
        is_copy
    });
    names
}

/// Applies records to the inodes that live.
struct Replay<'a> {
    inodes: &'a mut Inodes,
    rules: Rules,
}

impl Replay<'_> {
    fn apply(&mut self, by: usize, body: &Body) {
        let rules = self.rules;
        match body {
            Body::Create(create) => self.create(create, by),
            Body::Names(names) => self.names(names, by),
            Body::Write(write) => self.on(write.ino, |inode| apply_write(inode, write, by, rules)),
            Body::Inline(inline) => self.on(inline.ino, |inode| apply_inline(inode, inline, by, rules)),
            Body::Cut(cut) => self.on(cut.ino, |inode| {
                inode.cut(cut.size, by);
                data_changed(inode, cut.time, by, rules);
            }),
            Body::Hole(hole) => self.on(hole.ino, |inode| {
                inode.punch(hole.from..hole.from.saturating_add(hole.count), by);
                data_changed(inode, hole.time, by, rules);
            }),
            Body::Owner(owner) => self.on(owner.ino, |inode| {
                inode.owner = Held { value: (owner.mode, owner.uid, owner.gid), by };
                changed(inode, owner.time, by, rules);
            }),
            Body::Times(times) => self.on(times.ino, |inode| apply_times(inode, times, by, rules)),
            Body::Xattr(xattr) => self.on(xattr.ino, |inode| apply_xattr(inode, xattr, by, rules)),
            Body::Open(_) | Body::Void(_) => {}
        }
    }

    /// Changes an inode, if it lives.
    fn on(&mut self, ino: u64, change: impl FnOnce(&mut Inode)) {
        if let Some(inode) = self.inodes.inode_mut(ino) {
            change(inode);
        }
    }

    fn create(&mut self, create: &Create, by: usize) {
        let rules = self.rules;
        self.on(create.ino, |inode| {
            inode.owner = Held { value: (create.mode, create.uid, create.gid), by };
            for time in [times::ATIME, times::MTIME, times::CTIME] {
                stamp(inode, time, implicit(create.time), (by, rules));
            }
        });
        self.on(create.dir, |dir| data_changed(dir, create.time, by, rules));
    }

    fn names(&mut self, names: &Names, by: usize) {
        let rules = self.rules;
        for Item { what, dir, ino, .. } in &names.items {
            if what & item::DIR != 0 {
                self.on(*dir, |dir| data_changed(dir, names.time, by, rules));
            }
            if what & item::INODE != 0 {
                self.on(*ino, |inode| changed(inode, names.time, by, rules));
            }
        }
    }
}

fn apply_write(inode: &mut Inode, write: &Write, by: usize, rules: Rules) {
    write.extents.iter().for_each(|extent| inode.map(extent, by, rules));
    if let Some(size) = write.size
        && inode.bytes() <= size
    {
        inode.size = Some(Held { value: size, by });
    }
    if let Some(time) = write.time {
        data_changed(inode, time, by, rules);
    }
}

fn apply_inline(inode: &mut Inode, inline: &Inline, by: usize, rules: Rules) {
    let patches = inode.patches.entry(inline.block).or_default();
    let range = inline.patch.range();
    patches.retain(|earlier| !covers(&range, &earlier.value.range()));
    patches.push(Held { value: inline.patch.clone(), by });
    if let Some(time) = inline.time {
        data_changed(inode, time, by, rules);
    }
}

fn apply_times(inode: &mut Inode, set: &Times, by: usize, rules: Rules) {
    let values = [(times::ATIME, set.atime), (times::MTIME, set.mtime), (times::CTIME, set.stamp)];
    for (time, value) in values.into_iter().filter(|(time, _)| set.mask & time != 0) {
        stamp(inode, time, Stamped { stamp: set.stamp, explicit: true, value }, (by, rules));
    }
}

fn apply_xattr(inode: &mut Inode, xattr: &Xattr, by: usize, rules: Rules) {
    let value = (!xattr.removed).then(|| xattr.value.clone());
    inode.xattrs.insert(xattr.name.clone(), Held { value, by });
    changed(inode, xattr.time, by, rules);
}

fn data_changed(inode: &mut Inode, time: u64, by: usize, rules: Rules) {
    stamp(inode, times::MTIME, implicit(time), (by, rules));
    changed(inode, time, by, rules);
}

fn changed(inode: &mut Inode, time: u64, by: usize, rules: Rules) {
    stamp(inode, times::CTIME, implicit(time), (by, rules));
}

fn stamp(inode: &mut Inode, time: u8, set: Stamped, (by, rules): (usize, Rules)) {
    let held = match time {
        times::ATIME => &mut inode.atime,
        times::MTIME => &mut inode.mtime,
        _ => &mut inode.ctime,
    };
    let is_later = (set.stamp, set.explicit) >= (held.value.stamp, held.value.explicit);
    if is_later || rules.lacks(mutant::TIMES_BY_ID) {
        *held = Held { value: set, by };
    }
}

fn implicit(time: u64) -> Stamped {
    Stamped { stamp: time, explicit: false, value: time }
}
