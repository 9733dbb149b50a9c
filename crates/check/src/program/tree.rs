//! A state as a tree. Trees are compared by a hash of all that a checker can see of them: names, kinds, modes, owners, targets,
//! extended attributes, which names are links of one file, sizes and contents. Times, inode numbers and devices are not in it: they
//! are set to one value. What is known of parts is kept by which of their micro-operations a state has: a state costs the number of
//! inodes that the program changes, not that of all files, and not that of their bytes.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use trace::contents::ContentsError;
use trace::record::Kind;

use super::Bits;
use super::operations::{BLOCK, Change, Operations};
use super::states::{State, Torn};
use super::story::{Attr, Entry, Inode, OUTSIDE, ROOT, Slice, Story};

/// A byte of old contents of the disk, where a model shows them.
pub(super) const STALE: u8 = 0xA5;

/// Which names lead where: paths in the order of their folders, with their inodes.
#[derive(Debug)]
pub struct Names {
    /// Paths as components, each after its folder.
    pub paths: Vec<(Vec<u32>, Inode)>,
    hashes: Vec<u64>,
    /// Places of paths in `paths` whose inodes the program changes.
    changed: Vec<u32>,
    /// The sum of all others, and of which names are links of one file, once it was asked for.
    fixed: OnceLock<u64>,
}

/// Paths of names that are kept at once.
const NAMES_MAX: usize = 1 << 20;

/// Words of a set, by their places, with the bits that are looked at.
type Mask = Box<[(u32, u64)]>;

/// A file's bytes as they are put together.
#[derive(Clone, Debug, Default)]
struct File {
    size: u64,
    /// So many bytes of what the file had before are still its own.
    kept: u64,
    blocks: BTreeMap<u64, Vec<Part>>,
}

/// What was put into a block.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// These bytes, from here in the block; only units of a torn piece.
    Bytes(u64, Slice, Option<(Torn, u64)>),
    /// Zeros from here to there.
    Zeros(u64, u64),
    /// Old bytes of the disk in the whole block.
    Stale,
}

/// Trees of a program.
pub struct Trees<'a> {
    story: &'a Story,
    operations: &'a Operations,
    /// Whether blocks that were never written show old bytes, and the unit of a torn piece.
    stale: bool,
    tear: u64,
    names: FxHashMap<Box<[u64]>, Arc<Names>>,
    /// How many paths those have.
    paths: usize,
    /// The key of the names that are asked for.
    key: Vec<u64>,
    /// By inode: where its operations are in a set.
    masks: Vec<Mask>,
    inodes: FxHashMap<(Inode, u64), u64>,
    /// Of each file that was there before: hashes of its blocks.
    initial: FxHashMap<Inode, Arc<Vec<u64>>>,
    blocks: FxHashMap<(u64, Vec<Slice>), u64>,
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A number that depends on both and on their order (the finisher of SplitMix64).
fn mixed(one: u64, two: u64) -> u64 {
    let mut sum = (one.rotate_left(23) ^ two).wrapping_add(0x9E37_79B9_7F4A_7C15);
    sum = (sum ^ (sum >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    sum = (sum ^ (sum >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    sum ^ (sum >> 31)
}

fn mask(numbers: &[u32]) -> Mask {
    let mut words: Vec<(u32, u64)> = Vec::new();
    for number in numbers {
        let (word, bit) = (number / 64, 1 << (number % 64));
        match words.last_mut() {
            Some((last, bits)) if *last == word => *bits |= bit,
            _ => words.push((word, bit)),
        }
    }
    words.into()
}

/// Zeros have the hash 0, so that a hole and a block of zeros are alike.
fn hash_of_block(bytes: &[u8]) -> u64 {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    if end == 0 { 0 } else { hash(&&bytes[..end]) | 1 }
}

impl<'a> Trees<'a> {
    /// Trees as a model has them that shows stale blocks or not, and tears by `tear`.
    pub fn new(story: &'a Story, operations: &'a Operations, stale: bool, tear: u64) -> Self {
        let of = |inode: usize| operations.of_inode.get(&(inode as Inode)).map_or(&[][..], Vec::as_slice);
        Self {
            story,
            operations,
            stale,
            tear,
            names: FxHashMap::default(),
            paths: 0,
            key: Vec::new(),
            masks: (0..story.inodes.len()).map(|inode| mask(of(inode))).collect(),
            inodes: FxHashMap::default(),
            initial: FxHashMap::default(),
            blocks: FxHashMap::default(),
        }
    }

    /// The program.
    pub fn story(&self) -> &'a Story {
        self.story
    }

    /// The names of a state; those that were asked for last are kept.
    pub fn names(&mut self, set: &Bits) -> Arc<Names> {
        set.masked(&self.operations.names, &mut self.key);
        if let Some(known) = self.names.get(&self.key[..]) {
            return Arc::clone(known);
        }
        let names = Arc::new(self.names_of(set));
        if self.paths > NAMES_MAX {
            self.names.clear();
            self.paths = 0;
        }
        self.paths += names.paths.len();
        self.names.insert(self.key[..].into(), Arc::clone(&names));
        names
    }

    /// The names of a state, which are not kept.
    pub fn names_of(&self, set: &Bits) -> Names {
        let mut bound: BTreeMap<Entry, Inode> = self.story.before.iter().copied().collect();
        let mut put = |entry: Entry, leads: Option<Inode>| match leads {
            Some(inode) => drop(bound.insert(entry, inode)),
            None => drop(bound.remove(&entry)),
        };
        for number in self.operations.names.numbers() {
            if let Change::Names { entry, leads, other, .. } = &self.operations.all[number as usize].change
                && set.has(number)
            {
                if let Some((other, leads)) = other {
                    put(*other, *leads);
                }
                put(*entry, *leads);
            }
        }
        self.walk(&bound)
    }

    /// What the root reaches.
    fn walk(&self, bound: &BTreeMap<Entry, Inode>) -> Names {
        let (paths, hashes) = (vec![(Vec::new(), ROOT)], vec![hash(&0_u8)]);
        let mut names = Names { paths, hashes, changed: Vec::new(), fixed: OnceLock::new() };
        let mut at = 0;
        while let Some((path, inode)) = names.paths.get(at).cloned() {
            let own = names.hashes[at];
            at += 1;
            let is_folder = self.story.inodes[inode as usize].kind == Kind::Directory && inode != OUTSIDE;
            // A folder that is moved into itself is reached by no path; a depth ends all others.
            if !is_folder || path.len() > 200 {
                continue;
            }
            let below = bound.range((inode, 0)..=(inode, u32::MAX));
            let mut below: Vec<(&[u8], u32, Inode)> =
                below.map(|((_, name), inode)| (&*self.story.names[*name as usize], *name, *inode)).collect();
            below.sort_unstable();
            for (text, name, inode) in below {
                let mut path = path.clone();
                path.push(name);
                names.hashes.push(hash(&(own, text)));
                names.paths.push((path, inode));
            }
        }
        let paths = names.paths.iter().enumerate();
        let changed = paths.filter(|(_, (_, inode))| !self.masks[*inode as usize].is_empty());
        names.changed = changed.map(|(at, _)| at as u32).collect();
        names
    }

    /// The hash of a state's tree.
    pub fn hash(&mut self, state: &State) -> Result<u64, ContentsError> {
        let names = self.names(&state.set);
        let mut sum = match names.fixed.get().copied() {
            Some(known) => known,
            None => {
                let sum = self.fixed(&names, state)?;
                *names.fixed.get_or_init(|| sum)
            }
        };
        for at in &names.changed {
            let own = self.inode(names.paths[*at as usize].1, state)?;
            sum = sum.wrapping_add(mixed(names.hashes[*at as usize], own));
        }
        Ok(sum)
    }

    /// The sum of what no operation changes while the names are these: inodes without operations, and links of one file.
    fn fixed(&mut self, names: &Names, state: &State) -> Result<u64, ContentsError> {
        let (mut sum, mut groups): (u64, FxHashMap<Inode, u64>) = (0, FxHashMap::default());
        let mut shared = false;
        for ((_, inode), path) in names.paths.iter().zip(&names.hashes) {
            if self.masks[*inode as usize].is_empty() {
                sum = sum.wrapping_add(mixed(*path, self.inode(*inode, state)?));
            }
            let group = groups.entry(*inode).or_default();
            shared |= *group != 0;
            *group = group.wrapping_add(mixed(*path, 1));
        }
        if shared {
            sum = groups.values().map(|group| mixed(*group, 2)).fold(sum, u64::wrapping_add);
        }
        Ok(sum)
    }

    /// The operations of an inode in a state, as a key.
    fn key(&self, inode: Inode, set: &Bits) -> u64 {
        let words = self.masks[inode as usize].iter();
        words.fold(0, |key, (word, bits)| mixed(key, set.word(*word) & bits))
    }

    fn inode(&mut self, inode: Inode, state: &State) -> Result<u64, ContentsError> {
        let torn = state.torn.filter(|torn| self.operations.all[torn.number as usize].inode == inode);
        let key = (inode, self.key(inode, &state.set));
        if let Some(known) = self.inodes.get(&key).filter(|_| torn.is_none()) {
            return Ok(*known);
        }
        let about = self.about(inode, &state.set);
        let file = self.file(inode, state);
        let mut hasher = DefaultHasher::new();
        about.hash(&mut hasher);
        if self.story.inodes[inode as usize].kind == Kind::File {
            file.size.hash(&mut hasher);
            self.sum(inode, &file)?.hash(&mut hasher);
        }
        let found = hasher.finish();
        if torn.is_none() {
            self.inodes.insert(key, found);
        }
        Ok(found)
    }

    /// The sum of the hashes of a file's blocks, each with its place.
    fn sum(&mut self, inode: Inode, file: &File) -> Result<u64, ContentsError> {
        let before = self.initial(inode)?;
        let mut sum = 0_u64;
        let mut add = |block: u64, own: u64| {
            if own != 0 {
                sum = sum.wrapping_add(hash(&(block, own)));
            }
        };
        let whole = file.kept.min(file.size);
        for (block, own) in before.iter().enumerate().take((whole / BLOCK) as usize) {
            if !file.blocks.contains_key(&(block as u64)) {
                add(block as u64, *own);
            }
        }
        let rest = (!whole.is_multiple_of(BLOCK))
            .then_some(whole / BLOCK)
            .filter(|block| !file.blocks.contains_key(block));
        for block in file.blocks.keys().copied().chain(rest).filter(|block| block * BLOCK < file.size) {
            let own = match simple(inode, file, block) {
                Some(key) => match self.blocks.get(&key) {
                    Some(known) => *known,
                    None => {
                        let own = hash_of_block(&self.block(inode, file, block)?);
                        self.blocks.insert(key, own);
                        own
                    }
                },
                None => hash_of_block(&self.block(inode, file, block)?),
            };
            add(block, own);
        }
        Ok(sum)
    }

    /// The hashes of the blocks that a file had before.
    fn initial(&mut self, inode: Inode) -> Result<Arc<Vec<u64>>, ContentsError> {
        if let Some(known) = self.initial.get(&inode) {
            return Ok(Arc::clone(known));
        }
        let bytes = self.before(inode)?;
        let hashes = Arc::new(bytes.chunks(BLOCK as usize).map(hash_of_block).collect::<Vec<_>>());
        self.initial.insert(inode, Arc::clone(&hashes));
        Ok(hashes)
    }

    /// What a file had before.
    fn before(&self, inode: Inode) -> Result<Arc<Vec<u8>>, ContentsError> {
        let slice = self.story.inodes[inode as usize].bytes;
        slice.map_or(Ok(Arc::default()), |slice| self.story.blobs.get(slice.blob))
    }

    /// A file as a state puts it together.
    fn file(&self, inode: Inode, state: &State) -> File {
        let node = &self.story.inodes[inode as usize];
        let mut file = File { size: node.size, kept: node.size, blocks: BTreeMap::new() };
        let own = self.operations.of_inode.get(&inode).map_or(&[][..], Vec::as_slice);
        for number in own.iter().copied() {
            let has = state.set.has(number);
            let torn = state.torn.filter(|torn| torn.number == number);
            match &self.operations.all[number as usize].change {
                Change::Cut { to, .. } if has => file.cut(*to),
                Change::Zero { from, to } if has => file.zero(*from, *to),
                Change::Extend { to, .. } if has => file.size = file.size.max(*to),
                Change::Data { offset, bytes, fresh, .. } if has || torn.is_some() => {
                    let part = Part::Bytes(offset % BLOCK, *bytes, torn.map(|torn| (torn, self.tear)));
                    let parts = file.blocks.entry(offset / BLOCK).or_default();
                    if torn.is_some() && *fresh && self.stale {
                        parts.push(Part::Stale);
                    }
                    parts.push(part);
                }
                Change::Data { offset, fresh: true, .. } if self.stale => {
                    file.blocks.entry(offset / BLOCK).or_default().push(Part::Stale);
                }
                _ => {}
            }
        }
        file
    }

    /// The bytes of a block, zeros beyond the size.
    fn block(&self, inode: Inode, file: &File, block: u64) -> Result<Vec<u8>, ContentsError> {
        let mut bytes = vec![0; BLOCK as usize];
        let before = self.before(inode)?;
        let (start, kept) = ((block * BLOCK) as usize, file.kept.min((block + 1) * BLOCK) as usize);
        if let Some(part) = before.get(start..kept.min(before.len())) {
            bytes[..part.len()].copy_from_slice(part);
        }
        for part in file.blocks.get(&block).into_iter().flatten() {
            match part {
                Part::Zeros(from, to) => bytes[*from as usize..*to as usize].fill(0),
                Part::Stale => bytes.fill(STALE),
                Part::Bytes(from, slice, None) => {
                    let to = &mut bytes[*from as usize..(from + slice.len) as usize];
                    self.story.blobs.copy(*slice, to)?;
                }
                Part::Bytes(from, slice, Some((torn, unit))) => {
                    let mut whole = vec![0; slice.len as usize];
                    self.story.blobs.copy(*slice, &mut whole)?;
                    tear((*from, &whole), *torn, *unit, &mut bytes);
                }
            }
        }
        let end = file.size.saturating_sub(block * BLOCK).min(BLOCK) as usize;
        bytes[end..].fill(0);
        Ok(bytes)
    }

    /// What is known of an inode besides its contents.
    fn about(&self, inode: Inode, set: &Bits) -> About {
        let node = &self.story.inodes[inode as usize];
        let attributes = node.attributes.clone();
        let mut about = About {
            kind: node.kind,
            mode: node.mode,
            owner: (-1, -1),
            target: node.target.clone(),
            attributes,
        };
        for number in
            self.operations.of_inode.get(&inode).into_iter().flatten().filter(|number| set.has(**number))
        {
            if let Change::Set(attr) = &self.operations.all[*number as usize].change {
                match attr {
                    Attr::Mode(mode) => about.mode = *mode,
                    Attr::Owner(user, group) => {
                        about.owner.0 = if *user < 0 { about.owner.0 } else { *user };
                        about.owner.1 = if *group < 0 { about.owner.1 } else { *group };
                    }
                    Attr::Extended(name, Some(value)) => drop(about.attributes.insert(name.clone(), *value)),
                    Attr::Extended(name, None) => drop(about.attributes.remove(name)),
                }
            }
        }
        about
    }

    /// An inode of a state, as it is put into a folder.
    pub fn found(&self, inode: Inode, state: &State) -> Found<'_> {
        let about = self.about(inode, &state.set);
        Found { about, file: self.file(inode, state), inode, trees: self }
    }
}

/// What is known of an inode besides its contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct About {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// User and group, as far as the program has set them; −1: not.
    pub owner: (i64, i64),
    /// The target of a symbolic link.
    pub target: Option<Box<[u8]>>,
    /// Extended attributes.
    pub attributes: BTreeMap<Box<[u8]>, Slice>,
}

/// An inode of a state.
pub struct Found<'a> {
    /// What is known of it besides its contents.
    pub about: About,
    file: File,
    inode: Inode,
    trees: &'a Trees<'a>,
}

/// Takes bytes, each time with their place.
type ByPlace<'a, E> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), E>;

impl Found<'_> {
    /// The size of a file.
    pub fn size(&self) -> u64 {
        self.file.size
    }

    /// Hands the parts of a file that are not zeros to `write`, each with its place.
    pub fn contents<E: From<ContentsError>>(&self, write: ByPlace<'_, E>) -> Result<(), E> {
        let before = self.trees.before(self.inode)?;
        let kept = self.file.kept.min(self.file.size).min(before.len() as u64) as usize;
        if kept > 0 {
            write(0, &before[..kept])?;
        }
        for block in self.file.blocks.keys().filter(|block| **block * BLOCK < self.file.size) {
            let bytes = self.trees.block(self.inode, &self.file, *block)?;
            let end = (self.file.size - block * BLOCK).min(BLOCK) as usize;
            write(block * BLOCK, &bytes[..end])?;
        }
        Ok(())
    }
}

/// A key of a block that is a sequence of whole pieces.
fn simple(inode: Inode, file: &File, block: u64) -> Option<(u64, Vec<Slice>)> {
    let parts = file.blocks.get(&block)?;
    let mut slices = Vec::with_capacity(parts.len());
    let mut places =
        vec![u64::from(inode), block, file.kept.min((block + 1) * BLOCK), file.size.min((block + 1) * BLOCK)];
    for part in parts {
        let Part::Bytes(from, slice, None) = part else { return None };
        slices.push(*slice);
        places.push(*from);
    }
    Some((hash(&places), slices))
}

/// Writes the units of a torn piece that have persisted; units are those of the medium, by their place.
fn tear((from, whole): (u64, &[u8]), torn: Torn, unit: u64, bytes: &mut [u8]) {
    let first = from / unit;
    let count = (from + whole.len() as u64 - 1) / unit + 1 - first;
    for number in 0..count {
        let start = ((first + number) * unit).max(from);
        let end = ((first + number + 1) * unit).min(from + whole.len() as u64);
        if torn.part.has(number, count) {
            let part = &whole[(start - from) as usize..(end - from) as usize];
            bytes[start as usize..end as usize].copy_from_slice(part);
        }
    }
}

impl File {
    fn cut(&mut self, to: u64) {
        if to < self.size.max(self.end()) {
            self.zero(to, (to / BLOCK + 1) * BLOCK);
            drop(self.blocks.split_off(&to.div_ceil(BLOCK)));
            if to.is_multiple_of(BLOCK) {
                self.blocks.remove(&(to / BLOCK));
            }
            self.kept = self.kept.min(to);
        }
        self.size = to;
    }

    fn end(&self) -> u64 {
        self.blocks.last_key_value().map_or(0, |(block, _)| (block + 1) * BLOCK)
    }

    fn zero(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let (block, stop) = (at / BLOCK, to.min((at / BLOCK + 1) * BLOCK));
            if self.blocks.contains_key(&block) || at < self.kept {
                let part = Part::Zeros(at % BLOCK, stop - block * BLOCK);
                self.blocks.entry(block).or_default().push(part);
            }
            at = stop;
        }
    }
}
