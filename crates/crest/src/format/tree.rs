//! What a set of records leads to: names, inodes, and where blocks lie (`merge.rs` has the rules).
//!
//! A pool has millions of each, and a mount makes them all at once: names and inodes are vectors in order, with a hash table of
//! the positions of inodes, and a file of few blocks has a vector of them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::inline::Patch;
use super::layout::BLOCK;
use super::mutant::{self, Rules};
use super::record::{AddId, Create, Extent};

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
        cloned: bool,
        /// Whether it reads as zeros.
        unwritten: bool,
        /// CRC-32C, if it has one.
        checksum: Option<u32>,
    },
}

/// The blocks of a file, by their numbers in it: a vector in order while they are few, else a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// At most sixteen.
    Few(Vec<(u64, Held<Slot>)>),
    /// More, or there were.
    Many(BTreeMap<u64, Held<Slot>>),
}

impl Default for Blocks {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Blocks {
    /// A vector in which a block is inserted in the middle moves a few lines, at most.
    const FEW: usize = 16;

    fn insert(&mut self, block: u64, slot: Held<Slot>) {
        match self {
            Self::Few(few) => match few.binary_search_by_key(&block, |(block, _)| *block) {
                Ok(at) => few[at].1 = slot,
                Err(at) if few.len() < Self::FEW => {
                    if few.is_empty() {
                        few.reserve_exact(1);
                    }
                    few.insert(at, (block, slot));
                }
                Err(_) => {
                    let mut many: BTreeMap<_, _> = few.drain(..).collect();
                    many.insert(block, slot);
                    *self = Self::Many(many);
                }
            },
            Self::Many(many) => _ = many.insert(block, slot),
        }
    }

    /// The block of a file at this place.
    pub fn get(&self, block: u64) -> Option<&Held<Slot>> {
        match self {
            Self::Few(few) => few.binary_search_by_key(&block, |(block, _)| *block).ok().map(|at| &few[at].1),
            Self::Many(many) => many.get(&block),
        }
    }

    /// All of them, in order.
    pub fn in_order(&self) -> impl Iterator<Item = (u64, &Held<Slot>)> {
        let (few, many): (&[_], _) = match self {
            Self::Few(few) => (few, None),
            Self::Many(many) => (&[], Some(many)),
        };
        let few = few.iter().map(|(block, slot)| (*block, slot));
        few.chain(many.into_iter().flatten().map(|(block, slot)| (*block, slot)))
    }

    /// The numbers of those in a range.
    fn numbers(&self, range: Range<u64>) -> Vec<u64> {
        match self {
            Self::Few(few) => {
                few.iter().map(|(block, _)| *block).filter(|block| range.contains(block)).collect()
            }
            Self::Many(many) => many.range(range).map(|(block, _)| *block).collect(),
        }
    }

    /// Drops those from a block on.
    fn cut(&mut self, block: u64) {
        match self {
            Self::Few(few) => few.truncate(few.partition_point(|(at, _)| *at < block)),
            Self::Many(many) => _ = many.split_off(&block),
        }
    }
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
    pub blocks: Blocks,
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

impl Inode {
    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.size.map_or(0, |size| size.value)
    }

    pub(crate) fn new(create: &Create, by: usize) -> Self {
        let Create { mode, rdev, time, .. } = *create;
        let stamped = Held { value: Stamped { stamp: time, explicit: false, value: time }, by };
        Self {
            birth: Held { value: Birth { mode, rdev, time, target: create.target.clone() }, by },
            owner: Held { value: (mode, create.uid, create.gid), by },
            size: None,
            atime: stamped,
            mtime: stamped,
            ctime: stamped,
            blocks: Blocks::default(),
            patches: BTreeMap::new(),
            xattrs: BTreeMap::new(),
            links: 0,
            cuts: Vec::new(),
        }
    }

    pub(crate) fn map(&mut self, extent: &Extent, by: usize, rules: Rules) {
        for index in 0..u64::from(extent.count) {
            if !self.patches.is_empty() && !rules.lacks(mutant::INLINE_OVER_WRITE) {
                self.patches.remove(&(extent.file + index));
            }
            let value = Slot::Block {
                place: extent.place + index,
                cloned: extent.cloned,
                unwritten: extent.unwritten,
                checksum: extent.checksums.get(index as usize).copied(),
            };
            self.blocks.insert(extent.file + index, Held { value, by });
        }
    }

    /// Makes holes of the blocks of a range that records have spoken of; a block of which none has is one.
    pub(crate) fn punch(&mut self, range: Range<u64>, by: usize) {
        for block in self.blocks.numbers(range.clone()) {
            self.blocks.insert(block, Held { value: Slot::Hole, by });
        }
        let patched: Vec<_> = self.patches.range(range).map(|(block, _)| *block).collect();
        for block in patched {
            self.patches.remove(&block);
        }
    }

    pub(crate) fn cut(&mut self, size: u64, by: usize) {
        self.blocks.cut(size.div_ceil(BLOCK));
        _ = self.patches.split_off(&size.div_ceil(BLOCK));
        self.size = Some(Held { value: size, by });
        self.cuts.retain(|(_, earlier)| *earlier < size);
        self.cuts.push((by, size));
    }
}

/// A name: an add that no removal names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The add.
    pub add: AddId,
    /// The directory.
    pub dir: u64,
    /// The inode.
    pub ino: u64,
    /// Index of the record that holds it.
    pub by: usize,
    /// Its bytes.
    pub name: Vec<u8>,
}

/// The inodes that live, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Inodes {
    list: Vec<(u64, Inode)>,
    at: FxHashMap<u64, u32>,
    /// The last two that were looked up to be changed: a file and its directory.
    last: [Option<(u64, u32)>; 2],
}

impl PartialEq for Inodes {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Eq for Inodes {}

impl FromIterator<(u64, Inode)> for Inodes {
    /// In ascending order of their numbers.
    fn from_iter<T: IntoIterator<Item = (u64, Inode)>>(inodes: T) -> Self {
        let list: Vec<_> = inodes.into_iter().collect();
        let at = list.iter().zip(0..).map(|((ino, _), at)| (*ino, at)).collect();
        Self { list, at, last: [None; 2] }
    }
}

impl Inodes {
    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The place of an inode in the order of the numbers.
    pub fn position(&self, ino: u64) -> Option<usize> {
        self.at.get(&ino).map(|at| *at as usize)
    }

    /// An inode.
    pub fn get(&self, ino: u64) -> Option<&Inode> {
        self.list.get(self.position(ino)?).map(|(_, inode)| inode)
    }

    pub(crate) fn inode_mut(&mut self, ino: u64) -> Option<&mut Inode> {
        let known = self.last.into_iter().flatten().find(|(number, _)| *number == ino);
        let at = if let Some((_, at)) = known {
            at
        } else {
            let at = *self.at.get(&ino)?;
            self.last = [Some((ino, at)), self.last[0]];
            at
        };
        self.list.get_mut(at as usize).map(|(_, inode)| inode)
    }

    /// All of them, in the order of their numbers.
    pub fn in_order(&self) -> impl Iterator<Item = (u64, &Inode)> {
        self.list.iter().map(|(ino, inode)| (*ino, inode))
    }

    /// Their numbers, ascending.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = u64> {
        self.list.iter().map(|(ino, _)| *ino)
    }
}

/// The tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Names, in the order of their adds.
    pub names: Vec<Name>,
    /// Inodes that live.
    pub inodes: Inodes,
    /// Inodes that live by a name without the record of their birth.
    pub unborn: BTreeSet<u64>,
}

impl Tree {
    /// The name of an add, if no removal names that.
    pub fn name(&self, add: AddId) -> Option<&Name> {
        let at = self.names.binary_search_by_key(&add, |name| name.add).ok()?;
        self.names.get(at)
    }

    /// The name in a directory, by its bytes.
    pub fn look_up(&self, dir: u64, name: &[u8]) -> Option<&Name> {
        self.names.iter().rfind(|known| known.dir == dir && known.name == name)
    }

    /// Names that two adds give: of each pair the earlier add. Damage: a call removes the add that it replaces.
    pub(crate) fn names_twice(&self) -> Vec<&Name> {
        let hash = |name: &Name| rustc_hash::FxBuildHasher.hash_one((name.dir, &*name.name));
        let mut keys: Vec<(u64, u32)> = self.names.iter().map(hash).zip(0..).collect();
        keys.sort_unstable();
        let mut twice = Vec::new();
        for run in keys.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
            let names: Vec<&Name> = run.iter().map(|(_, at)| &self.names[*at as usize]).collect();
            let again = |at: usize, name: &Name| {
                names[at + 1..].iter().any(|other| (other.dir, &other.name) == (name.dir, &name.name))
            };
            twice.extend(
                names.iter().enumerate().filter(|(at, name)| again(*at, name)).map(|(_, name)| *name),
            );
        }
        twice
    }

    fn places(&self) -> impl Iterator<Item = (u64, bool)> {
        self.inodes.in_order().flat_map(|(_, inode)| inode.blocks.in_order()).filter_map(|(_, slot)| {
            match slot.value {
                Slot::Block { place, cloned, .. } => Some((place, cloned)),
                Slot::Hole => None,
            }
        })
    }

    /// How many files have each block, the blocks of dead records not counted.
    pub fn references(&self, rules: Rules) -> BTreeMap<u64, u32> {
        let mut references = BTreeMap::new();
        let forgets = rules.lacks(mutant::CLONES_NOT_COUNTED);
        for (place, _) in self.places().filter(|(_, cloned)| !(*cloned && forgets)) {
            *references.entry(place).or_insert(0) += 1;
        }
        references
    }

    /// Blocks that two files have although at most one of them says that it shares them: damage.
    pub fn blocks_twice(&self) -> BTreeSet<u64> {
        let mut owned: Vec<u64> =
            self.places().filter(|(_, cloned)| !cloned).map(|(place, _)| place).collect();
        owned.sort_unstable();
        owned.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
    }
}
