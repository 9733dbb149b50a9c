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
use std::collections::{BTreeMap, BTreeSet};

use super::inline::{Inline, Patch, covers};
use super::layout::{BLOCK, ROOT_INO, item, times};
use super::mutant::{self, Rules};
use super::record::{AddId, Body, Create, Extent, Id, Item, Names, Times, Write, Xattr};
use super::zone::Found;

/// A value, and the record that holds it: the value goes if that record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// The value.
    pub value: T,
    /// Index of the record.
    pub by: usize,
}

/// A time, and when it was set: of two the one with the later stamp counts, of two with one stamp the explicit one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamped {
    /// When the call that set it was made; of an implicit change the time itself.
    pub stamp: u64,
    /// Whether a call set the time itself. A write in flight meanwhile may have the same stamp: it counts as earlier.
    pub explicit: bool,
    /// The time.
    pub value: u64,
}

/// What never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// Type and first permissions.
    pub mode: u16,
    /// Device number.
    pub rdev: u32,
    /// When.
    pub time: u64,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
}

/// Where a block of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Nowhere, because a record says so.
    Hole,
    /// On the medium.
    Block {
        /// Its number.
        place: u64,
        /// Whether another file may have it.
        shared: bool,
        /// Whether it reads as zeros.
        unwritten: bool,
        /// CRC-32C, if it has one.
        checksum: Option<u32>,
    },
}

/// An inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode {
    /// What never changes.
    pub birth: Held<Birth>,
    /// Mode, user, group.
    pub owner: Held<(u16, u32, u32)>,
    /// Bytes of the file, if it ever had any.
    pub size: Option<Held<u64>>,
    /// Time of the last access.
    pub atime: Held<Stamped>,
    /// Time of the last change of data.
    pub mtime: Held<Stamped>,
    /// Time of the last change.
    pub ctime: Held<Stamped>,
    /// Places of the blocks.
    pub blocks: BTreeMap<u64, Held<Slot>>,
    /// Of blocks: bytes that lie in records, in the order in which they are applied: all that recovery knows of an
    /// `Inline`. Those of a block without a written place, of which the record is lost, mean nothing.
    pub patches: BTreeMap<u64, Vec<Held<Patch>>>,
    /// Extended attributes; none: removed.
    pub xattrs: BTreeMap<Vec<u8>, Held<Option<Vec<u8>>>>,
    /// Names.
    pub links: u32,
    /// Cuts of the file that no later cut replaces, with their sizes: ascending in both.
    pub cuts: Vec<(usize, u64)>,
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The inode.
    pub ino: u64,
    /// The add.
    pub add: AddId,
}

/// The tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Directory and name.
    pub names: BTreeMap<(u64, Vec<u8>), Held<Entry>>,
    /// Inodes that live.
    pub inodes: BTreeMap<u64, Inode>,
    /// Inodes that live by a name without the record of their birth.
    pub unborn: BTreeSet<u64>,
}

impl Inode {
    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.size.map_or(0, |size| size.value)
    }

    fn new(create: &Create, by: usize) -> Self {
        let Create { mode, rdev, time, .. } = *create;
        let stamped = Held { value: Stamped { stamp: time, explicit: false, value: time }, by };
        Self {
            birth: Held { value: Birth { mode, rdev, time, target: create.target.clone() }, by },
            owner: Held { value: (mode, create.uid, create.gid), by },
            size: None,
            atime: stamped,
            mtime: stamped,
            ctime: stamped,
            blocks: BTreeMap::new(),
            patches: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            links: 0,
            cuts: Vec::new(),
        }
    }
}

/// The order in which records are applied: by id and place in the group; of copies of one record the newest comes last.
fn in_order(found: &[&Found]) -> Vec<usize> {
    let mut order: Vec<_> = (0..found.len()).collect();
    let key = |index: &usize| {
        let Found { opening, line, record, .. } = found[*index];
        (record.id, record.part, *opening, *line)
    };
    order.sort_unstable_by_key(key);
    order
}

/// The tree that records lead to. `open`: inodes that live without a name, because a call has them open.
pub fn merge(found: &[impl Borrow<Found>], open: &BTreeSet<u64>, rules: Rules) -> Tree {
    let found: Vec<&Found> = found.iter().map(Borrow::borrow).collect();
    let found = &*found;
    let voided = voided(found);
    let counts = |index: &usize| {
        let Found { zone, opening, record, .. } = found[*index];
        voided.is_empty() || !voided.contains(&(*zone, *opening, record.id))
    };
    let order: Vec<_> = in_order(found).into_iter().filter(counts).collect();
    let mut tree = Tree { names: names(found, &order), ..Tree::default() };
    let alive: BTreeSet<u64> = tree
        .names
        .values()
        .map(|name| name.value.ino)
        .chain(open.iter().copied())
        .chain([ROOT_INO])
        .collect();
    for index in &order {
        if let Body::Create(create) = &found[*index].record.body
            && alive.contains(&create.ino)
        {
            let inode = Inode::new(create, *index);
            tree.inodes.entry(create.ino).and_modify(|known| known.birth.by = *index).or_insert(inode);
        }
    }
    tree.unborn = alive.iter().copied().filter(|ino| !tree.inodes.contains_key(ino)).collect();
    let mut replay = Replay { inodes: &mut tree.inodes, rules };
    for index in &order {
        replay.apply(*index, &found[*index].record.body);
    }
    for name in tree.names.values() {
        if let Some(inode) = tree.inodes.get_mut(&name.value.ino) {
            inode.links += 1;
        }
    }
    tree
}

/// Operations that failed, by zone and opening.
fn voided(found: &[&Found]) -> BTreeSet<(u32, u64, Id)> {
    let voids = found.iter().filter_map(|found| match &found.record.body {
        Body::Void(void) => Some((void.zone, void.opening, void.failed)),
        _ => None,
    });
    voids.collect()
}

/// The adds of a record, with their names.
pub fn adds(record: &super::record::Record) -> Vec<(AddId, u64, &[u8], u64)> {
    match &record.body {
        Body::Create(create) if !create.name.is_empty() => {
            vec![((record.id, 0), create.dir, &create.name, create.ino)]
        }
        Body::Names(names) => {
            let adds = names.items.iter().filter(|item| item.adds());
            adds.map(|item| ((record.id, item.index), item.dir, &*item.name, item.ino)).collect()
        }
        _ => Vec::new(),
    }
}

/// The adds that a record removes.
pub fn removals(record: &super::record::Record) -> Vec<AddId> {
    match &record.body {
        Body::Names(names) => {
            let removes = names.items.iter().filter(|item| item.removes());
            removes.map(|item| (item.added, item.index)).collect()
        }
        _ => Vec::new(),
    }
}

fn names(found: &[&Found], order: &[usize]) -> BTreeMap<(u64, Vec<u8>), Held<Entry>> {
    let removed: BTreeSet<AddId> = order.iter().flat_map(|index| removals(&found[*index].record)).collect();
    let mut names = BTreeMap::new();
    for by in order {
        for (add, dir, name, ino) in adds(&found[*by].record) {
            if !removed.contains(&add) {
                names.insert((dir, name.to_vec()), Held { value: Entry { ino, add }, by: *by });
            }
        }
    }
    names
}

/// Applies records to the inodes that live.
struct Replay<'a> {
    inodes: &'a mut BTreeMap<u64, Inode>,
    rules: Rules,
}

impl Replay<'_> {
    fn apply(&mut self, by: usize, body: &Body) {
        match body {
            Body::Create(create) => self.create(create, by),
            Body::Names(names) => self.names(names, by),
            Body::Write(write) => self.write(write, by),
            Body::Inline(inline) => self.inline(inline, by),
            Body::Cut(cut) => {
                if let Some(inode) = self.inodes.get_mut(&cut.ino) {
                    inode.cut(cut.size, by);
                }
                self.data_changed(cut.ino, cut.time, by);
            }
            Body::Hole(hole) => {
                if let Some(inode) = self.inodes.get_mut(&hole.ino) {
                    let range = hole.from..hole.from.saturating_add(hole.count);
                    for block in range {
                        inode.blocks.insert(block, Held { value: Slot::Hole, by });
                        inode.patches.remove(&block);
                    }
                }
                self.data_changed(hole.ino, hole.time, by);
            }
            Body::Owner(owner) => {
                if let Some(inode) = self.inodes.get_mut(&owner.ino) {
                    inode.owner = Held { value: (owner.mode, owner.uid, owner.gid), by };
                }
                self.changed(owner.ino, owner.time, by);
            }
            Body::Times(times) => self.times(times, by),
            Body::Xattr(xattr) => self.xattr(xattr, by),
            Body::Open(_) | Body::Void(_) => {}
        }
    }

    fn create(&mut self, create: &Create, by: usize) {
        if let Some(inode) = self.inodes.get_mut(&create.ino) {
            inode.owner = Held { value: (create.mode, create.uid, create.gid), by };
            for time in [times::ATIME, times::MTIME, times::CTIME] {
                self.stamp(create.ino, time, implicit(create.time), by);
            }
        }
        self.data_changed(create.dir, create.time, by);
    }

    fn names(&mut self, names: &Names, by: usize) {
        for Item { what, dir, ino, .. } in &names.items {
            if what & item::DIR != 0 {
                self.data_changed(*dir, names.time, by);
            }
            if what & item::INODE != 0 {
                self.changed(*ino, names.time, by);
            }
        }
    }

    fn write(&mut self, write: &Write, by: usize) {
        let Some(inode) = self.inodes.get_mut(&write.ino) else { return };
        write.extents.iter().for_each(|extent| inode.map(extent, by, self.rules));
        if let Some(size) = write.size
            && inode.bytes() <= size
        {
            inode.size = Some(Held { value: size, by });
        }
        if let Some(time) = write.time {
            self.data_changed(write.ino, time, by);
        }
    }

    fn inline(&mut self, inline: &Inline, by: usize) {
        let Some(inode) = self.inodes.get_mut(&inline.ino) else { return };
        let patches = inode.patches.entry(inline.block).or_default();
        let range = inline.patch.range();
        patches.retain(|earlier| !covers(&range, &earlier.value.range()));
        patches.push(Held { value: inline.patch.clone(), by });
        if let Some(time) = inline.time {
            self.data_changed(inline.ino, time, by);
        }
    }

    fn times(&mut self, set: &Times, by: usize) {
        let values = [(times::ATIME, set.atime), (times::MTIME, set.mtime), (times::CTIME, set.stamp)];
        for (time, value) in values.into_iter().filter(|(time, _)| set.mask & time != 0) {
            self.stamp(set.ino, time, Stamped { stamp: set.stamp, explicit: true, value }, by);
        }
    }

    fn xattr(&mut self, xattr: &Xattr, by: usize) {
        if let Some(inode) = self.inodes.get_mut(&xattr.ino) {
            let value = (!xattr.removed).then(|| xattr.value.clone());
            inode.xattrs.insert(xattr.name.clone(), Held { value, by });
        }
        self.changed(xattr.ino, xattr.time, by);
    }

    fn data_changed(&mut self, ino: u64, time: u64, by: usize) {
        self.stamp(ino, times::MTIME, implicit(time), by);
        self.changed(ino, time, by);
    }

    fn changed(&mut self, ino: u64, time: u64, by: usize) {
        self.stamp(ino, times::CTIME, implicit(time), by);
    }

    fn stamp(&mut self, ino: u64, time: u8, set: Stamped, by: usize) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let held = match time {
            times::ATIME => &mut inode.atime,
            times::MTIME => &mut inode.mtime,
            _ => &mut inode.ctime,
        };
        let is_later = (set.stamp, set.explicit) >= (held.value.stamp, held.value.explicit);
        if is_later || self.rules.lacks(mutant::TIMES_BY_ID) {
            *held = Held { value: set, by };
        }
    }
}

fn implicit(time: u64) -> Stamped {
    Stamped { stamp: time, explicit: false, value: time }
}

impl Inode {
    fn map(&mut self, extent: &Extent, by: usize, rules: Rules) {
        for index in 0..u64::from(extent.count) {
            if !rules.lacks(mutant::INLINE_OVER_WRITE) {
                self.patches.remove(&(extent.file + index));
            }
            let value = Slot::Block {
                place: extent.place + index,
                shared: extent.shared,
                unwritten: extent.unwritten,
                checksum: extent.checksums.get(index as usize).copied(),
            };
            self.blocks.insert(extent.file + index, Held { value, by });
        }
    }

    fn cut(&mut self, size: u64, by: usize) {
        _ = self.blocks.split_off(&size.div_ceil(BLOCK));
        _ = self.patches.split_off(&size.div_ceil(BLOCK));
        self.size = Some(Held { value: size, by });
        self.cuts.retain(|(_, earlier)| *earlier < size);
        self.cuts.push((by, size));
    }
}

impl Tree {
    /// How many files have each block, the blocks of dead records not counted.
    pub fn references(&self, rules: Rules) -> BTreeMap<u64, u32> {
        let mut references = BTreeMap::new();
        for slot in self.inodes.values().flat_map(|inode| inode.blocks.values()) {
            if let Slot::Block { place, shared, .. } = slot.value
                && !(shared && rules.lacks(mutant::CLONES_NOT_COUNTED))
            {
                *references.entry(place).or_insert(0) += 1;
            }
        }
        references
    }

    /// Blocks that two files have although at most one of them says that it shares them: damage.
    pub fn blocks_twice(&self) -> BTreeSet<u64> {
        let (mut owned, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for slot in self.inodes.values().flat_map(|inode| inode.blocks.values()) {
            if let Slot::Block { place, shared: false, .. } = slot.value
                && !owned.insert(place)
            {
                twice.insert(place);
            }
        }
        twice
    }
}
