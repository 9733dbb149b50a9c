//! Which block of the medium holds which block of a file, in DRAM.
//!
//! Leaves of 64 slots, 256 KiB of a file each: the first, which is all that most files have, and an ordered map of the others. A
//! slot is a word: bit 0 unwritten, the number of the block above it; 0: a hole. A leaf of which only the first eight blocks have
//! places has eight slots, as most files of a pool are small.
//!
//! Bytes of blocks that lie in records (`inline.rs`) are kept beside the slots of a leaf. A block that gets a place, or none, has
//! no such bytes any more, as in the merge.
//!
//! A task that has the file alone may change anything. Those that share it (`sharing.rs`) only give another place to blocks that
//! have one, so the leaves stay as they are. Each leaf has a lock for each of its granules of 64 KiB, made when it is first wanted:
//! held alone by a task that replaces places of the granule, shared by one that reads from them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use sim::map::TreeMap;
use sim::sync::{AtomicI64, AtomicU64, Ordering::Relaxed};
use sim::{RwLock, RwLockWriteGuard, ran};

use crate::format::inline::{self, Patches};
use crate::locks;

const SLOTS: u64 = 64;
/// Slots of a leaf of which no block behind them has a place.
const FEW: usize = 8;
/// Blocks of a granule: 64 KiB.
const GRANULE_BLOCKS: u64 = 16;
const GRANULES: usize = (SLOTS / GRANULE_BLOCKS) as usize;

/// A granule's lock, with the logical time of the last record that replaced a place in it while the file was shared.
pub(crate) type Granule = RwLock<u64>;

const _: () = assert!(size_of::<Granule>() <= 96, "what a granule takes, by the page of the design");

/// Granules that a task has locked.
#[derive(Debug)]
pub(crate) struct Held<G> {
    first: Option<G>,
    rest: Vec<G>,
}

impl<G> Default for Held<G> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl Held<RwLockWriteGuard<'_, u64>> {
    /// Logical time of the last record that replaced a place in one of them.
    pub(crate) fn last(&self) -> u64 {
        self.first.iter().chain(&self.rest).map(|last| **last).max().unwrap_or(0)
    }

    /// A record has replaced places.
    pub(crate) fn note(&mut self, time: u64) {
        self.first.iter_mut().chain(&mut self.rest).for_each(|last| **last = time);
    }
}

/// Bytes of blocks of a leaf that lie in records, by slot: behind a lock of the host, held for one look.
type LeafPatches = parking_lot::RwLock<BTreeMap<u64, Patches>>;

#[derive(Debug)]
struct Leaf<S: ?Sized = [AtomicU64]> {
    granules: OnceLock<Box<[Granule; GRANULES]>>,
    patches: OnceLock<Box<LeafPatches>>,
    slots: S,
}

impl<const N: usize> Leaf<[AtomicU64; N]> {
    fn new() -> Self {
        let slots = [const { AtomicU64::new(0) }; N];
        Self { granules: OnceLock::new(), patches: OnceLock::new(), slots }
    }
}

impl Leaf {
    /// A leaf with a slot for this block, at least.
    fn with(slot: usize) -> Box<Self> {
        if slot < FEW {
            ran::boxed(Leaf::<[_; FEW]>::new())
        } else {
            ran::boxed(Leaf::<[_; SLOTS as usize]>::new())
        }
    }

    /// All of this leaf, with all slots.
    fn grown(&mut self) -> Box<Self> {
        let mut leaf = ran::boxed(Leaf::<[_; SLOTS as usize]>::new());
        leaf.granules = std::mem::take(&mut self.granules);
        leaf.patches = std::mem::take(&mut self.patches);
        for (to, from) in leaf.slots.iter_mut().zip(&mut self.slots) {
            *to.get_mut() = *from.get_mut();
        }
        leaf
    }

    fn word(&self, slot: u64) -> u64 {
        self.slots.get(slot as usize).map_or(0, |word| word.load(Relaxed))
    }

    fn words(&self) -> impl Iterator<Item = u64> {
        self.slots.iter().map(|word| word.load(Relaxed))
    }

    /// The bytes of a block that lie in records go; answers the lines of these.
    fn forget(&self, slot: u64) -> u64 {
        let gone = self.patches.get().and_then(|patches| patches.write().remove(&slot));
        gone.map_or(0, |patches| patches.lines())
    }

    fn granules(&self) -> &[Granule; GRANULES] {
        self.granules.get_or_init(|| ran::boxed([const { RwLock::new(&locks::GRANULE, 0) }; GRANULES]))
    }
}

/// Where a block of a file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its number on the medium.
    pub(crate) block: u64,
    /// Whether it reads as zeros.
    pub(crate) unwritten: bool,
}

impl Place {
    fn word(self) -> u64 {
        self.block << 1 | u64::from(self.unwritten)
    }

    fn of(word: u64) -> Option<Self> {
        (word != 0).then_some(Self { block: word >> 1, unwritten: word & 1 != 0 })
    }
}

/// Neighbouring blocks of a file that lie side by side and are all written or all not; or a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First block of the file.
    pub(crate) file: u64,
    /// How many.
    pub(crate) count: u64,
    /// Where the first lies; none: a hole.
    pub(crate) place: Option<Place>,
}

/// The blocks of one file.
#[derive(Debug, Default)]
pub(crate) struct BlockMap {
    /// The leaf of the first blocks.
    first: Option<Box<Leaf>>,
    /// The others, from 1 on.
    others: TreeMap<u64, Box<Leaf>>,
    mapped: u64,
    /// Lines of records with bytes of its blocks.
    lines: AtomicI64,
    /// What of a change of these is not counted for the pool yet.
    change: AtomicI64,
}

impl BlockMap {
    fn leaf(&self, key: u64) -> Option<&Leaf> {
        let leaf = if key == 0 { self.first.as_ref() } else { self.others.get(&key) };
        leaf.map(|leaf| &**leaf)
    }

    fn remove_leaf(&mut self, key: u64) {
        if key == 0 {
            self.first = None;
        } else {
            self.others.remove(&key);
        }
    }

    /// The leaves of a range of keys, in order.
    fn leaves(&self, keys: Range<u64>) -> impl Iterator<Item = (u64, &Leaf)> {
        let first = self.first.as_ref().filter(|_| keys.contains(&0)).map(|leaf| (0, &**leaf));
        let others = self.others.range(keys.start.max(1)..keys.end.max(1));
        first.into_iter().chain(others.map(|(key, leaf)| (*key, &**leaf)))
    }

    /// Blocks that have a place.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Whether a block of it is reserved only.
    pub(crate) fn has_reserved(&self) -> bool {
        self.mapped > 0 && self.leaves(0..u64::MAX).any(|(_, leaf)| leaf.words().any(|word| word & 1 != 0))
    }

    pub(crate) fn get(&self, file: u64) -> Option<Place> {
        let leaf = self.leaf(file / SLOTS)?;
        Place::of(leaf.word(file % SLOTS))
    }

    /// Sets the place of a block of the file; answers the one that it had.
    pub(crate) fn set(&mut self, file: u64, place: Option<Place>) -> Option<Place> {
        let (key, slot) = (file / SLOTS, (file % SLOTS) as usize);
        let word = place.map_or(0, Place::word);
        let leaf = if key == 0 { self.first.as_mut() } else { self.others.get_mut(&key) };
        let Some(leaf) = leaf else {
            if place.is_some() {
                let mut leaf = Leaf::with(slot);
                *leaf.slots[slot].get_mut() = word;
                if key == 0 {
                    self.first = Some(leaf);
                } else {
                    self.others.insert(key, leaf);
                }
                self.mapped += 1;
            }
            return None;
        };
        if slot >= leaf.slots.len() {
            place?;
            *leaf = leaf.grown();
        }
        let old = Place::of(std::mem::replace(leaf.slots[slot].get_mut(), word));
        self.mapped = self.mapped + u64::from(place.is_some()) - u64::from(old.is_some());
        let gone = leaf.forget(slot as u64);
        if place.is_none() && leaf.words().all(|word| word == 0) {
            self.remove_leaf(key);
        }
        self.count_lines(gone, 0);
        old
    }

    /// Gives a block that has a place another one, in a file that tasks share: the caller has its granule alone. Answers the one
    /// that it had.
    pub(crate) fn replace(&self, file: u64, place: Place) -> Option<Place> {
        let leaf = self.leaf(file / SLOTS)?;
        let old = Place::of(leaf.slots.get((file % SLOTS) as usize)?.swap(place.word(), Relaxed));
        self.count_lines(leaf.forget(file % SLOTS), 0);
        old
    }

    // ---- bytes that lie in records

    fn count_lines(&self, old: u64, new: u64) {
        let change = new.cast_signed() - old.cast_signed();
        if change != 0 {
            self.lines.fetch_add(change, Relaxed);
            self.change.fetch_add(change, Relaxed);
        }
    }

    /// Whether records have bytes of its blocks.
    pub(crate) fn has_patches(&self) -> bool {
        self.lines.load(Relaxed) != 0
    }

    /// The change of the lines of such records since this was asked last.
    pub(crate) fn take_change(&self) -> i64 {
        if self.change.load(Relaxed) == 0 { 0 } else { self.change.swap(0, Relaxed) }
    }

    fn patches(&self, file: u64) -> Option<&LeafPatches> {
        let leaf = if self.has_patches() { self.leaf(file / SLOTS)? } else { return None };
        leaf.patches.get().map(|patches| &**patches)
    }

    /// Whether records have bytes of a block.
    pub(crate) fn is_patched(&self, file: u64) -> bool {
        self.patches(file).is_some_and(|patches| patches.read().contains_key(&(file % SLOTS)))
    }

    /// The blocks of a range of which records have bytes.
    pub(crate) fn patched(&self, range: Range<u64>) -> Vec<u64> {
        if !self.has_patches() {
            return Vec::new();
        }
        let leaves = self.leaves(range.start / SLOTS..range.end.div_ceil(SLOTS));
        let blocks = leaves.flat_map(|(key, leaf)| {
            let slots = leaf.patches.get().map_or_else(Vec::new, |it| it.read().keys().copied().collect());
            slots.into_iter().map(move |slot| key * SLOTS + slot)
        });
        ran::collected(blocks.filter(|block| range.contains(block)))
    }

    /// Lines of the records with bytes of a block when there is one more, with these.
    pub(crate) fn lines_with(&self, file: u64, bytes: &Range<usize>) -> u64 {
        let lines = |patches: &LeafPatches| {
            patches.read().get(&(file % SLOTS)).map(|patches| patches.lines_with(bytes))
        };
        self.patches(file).and_then(lines).unwrap_or_else(|| inline::lines(bytes.len()))
    }

    /// All bytes of blocks that lie in records, by block.
    pub(crate) fn all_patches(&self) -> Vec<(u64, Patches)> {
        let each = |block| Some((block, self.patches(block)?.read().get(&(block % SLOTS))?.clone()));
        self.patched(0..u64::MAX / SLOTS).into_iter().filter_map(each).collect()
    }

    /// A block that has a place gets the bytes that lie in records.
    pub(crate) fn set_patches(&self, file: u64, new: Patches) {
        let Some(leaf) = self.leaf(file / SLOTS) else { return };
        self.count_lines(0, new.lines());
        leaf.patches.get_or_init(Box::default).write().insert(file % SLOTS, new);
    }

    /// One more record has bytes of a block that has a place; the caller has the block's granule alone.
    pub(crate) fn patch(&self, file: u64, from: usize, bytes: &[u8]) {
        let Some(leaf) = self.leaf(file / SLOTS) else { return };
        let mut patches = leaf.patches.get_or_init(Box::default).write();
        let patches = patches.entry(file % SLOTS).or_default();
        let old = patches.lines();
        patches.add(from, bytes);
        self.count_lines(old, patches.lines());
    }

    /// Copies the bytes of a block from `from` on that lie in records; answers which of `out` do not.
    pub(crate) fn read_patches(&self, file: u64, from: usize, out: &mut [u8]) -> Vec<Range<usize>> {
        let read = |patches: &LeafPatches, out: &mut [u8]| {
            patches.read().get(&(file % SLOTS)).map(|patches| patches.read(from, out))
        };
        let gaps = self.patches(file).and_then(|patches| read(patches, out));
        gaps.unwrap_or_else(|| std::iter::once(0..out.len()).collect())
    }

    /// Locks the granules of a range in which blocks may have places, in their order.
    pub(crate) fn hold<'a, G>(&'a self, range: Range<u64>, lock: impl Fn(&'a Granule) -> G) -> Held<G> {
        let mut granules = self.granules(range);
        let first = granules.next().map(&lock);
        Held { first, rest: ran::collected(granules.map(lock)) }
    }

    fn granules(&self, range: Range<u64>) -> impl Iterator<Item = &Granule> {
        let Range { start, end } = range;
        self.leaves(start / SLOTS..end.div_ceil(SLOTS)).flat_map(move |(key, leaf)| {
            let first = start.saturating_sub(key * SLOTS) / GRANULE_BLOCKS;
            let behind = (end - key * SLOTS).min(SLOTS).div_ceil(GRANULE_BLOCKS);
            &leaf.granules()[first as usize..behind as usize]
        })
    }

    /// Whether all blocks of a range have places, and are written.
    pub(crate) fn has_all(&self, range: Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let run = self.run_at(at, range.end - at);
            if run.place.is_none_or(|place| place.unwritten) {
                return false;
            }
            at += run.count;
        }
        true
    }

    /// The run that begins at `file`, of at most `most` blocks; a hole is alone.
    fn run_at(&self, file: u64, most: u64) -> Run {
        let mut leaf = self.leaf(file / SLOTS);
        let word = |leaf: Option<&Leaf>, at: u64| leaf.map_or(0, |leaf| leaf.word(at % SLOTS));
        let first = word(leaf, file);
        let mut count = 1;
        while count < most {
            let at = file + count;
            if at.is_multiple_of(SLOTS) {
                leaf = self.leaf(at / SLOTS);
            }
            if word(leaf, at) != first + 2 * count {
                break;
            }
            count += 1;
        }
        Run { file, count, place: Place::of(first) }
    }

    /// The runs of a range, holes among them.
    pub(crate) fn runs(&self, range: Range<u64>) -> impl Iterator<Item = Run> + Clone {
        let Range { start: mut at, end } = range;
        std::iter::from_fn(move || {
            let most = end.checked_sub(at).filter(|most| *most > 0)?;
            let mut run = self.run_at(at, most);
            if run.place.is_none() {
                run.count = self.next_mapped(at).map_or(end, |next| next.min(end)) - at;
            }
            at += run.count;
            Some(run)
        })
    }

    /// The first block with a place from `file` on.
    pub(crate) fn next_mapped(&self, file: u64) -> Option<u64> {
        for (key, leaf) in self.leaves(file / SLOTS..u64::MAX) {
            let from = if key == file / SLOTS { file % SLOTS } else { 0 };
            let found = (from..leaf.slots.len() as u64).find(|slot| leaf.word(*slot) != 0);
            if let Some(slot) = found {
                return Some(key * SLOTS + slot);
            }
        }
        None
    }

    /// Takes all places from `file` on; each is given to `gone`.
    pub(crate) fn cut(&mut self, file: u64, mut gone: impl FnMut(Place)) {
        while let Some(at) = self.next_mapped(file) {
            let key = at / SLOTS;
            let leaf = if key == 0 { self.first.as_mut() } else { self.others.get_mut(&key) };
            let Some(leaf) = leaf else { return };
            let from = if key == file / SLOTS { file % SLOTS } else { 0 };
            let (mut taken, mut lines) = (0, 0);
            for slot in from..leaf.slots.len() as u64 {
                if let Some(place) = Place::of(std::mem::take(leaf.slots[slot as usize].get_mut())) {
                    lines += leaf.forget(slot);
                    gone(place);
                    taken += 1;
                }
            }
            self.mapped -= taken;
            if from == 0 {
                self.remove_leaf(key);
            }
            self.count_lines(lines, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn place(block: u64) -> Place {
        Place { block, unwritten: false }
    }

    #[test]
    fn runs_cover_a_range_and_end_where_places_are_not_side_by_side() {
        let mut map = BlockMap::default();
        for at in 60..70 {
            assert_eq!(map.set(at, Some(place(1000 + at))), None);
        }
        assert_eq!(map.set(70, Some(place(5))), None);
        assert_eq!(map.set(71, Some(Place { block: 6, unwritten: true })), None);
        let runs: Vec<_> =
            map.runs(0..1000).map(|run| (run.file, run.count, run.place.map(|it| it.block))).collect();
        let expected =
            [(0, 60, None), (60, 10, Some(1060)), (70, 1, Some(5)), (71, 1, Some(6)), (72, 928, None)];
        assert_eq!(runs, expected);
        assert_eq!((map.mapped(), map.next_mapped(0), map.next_mapped(72)), (12, Some(60), None));
        let mut gone = Vec::new();
        map.cut(65, |place| gone.push(place.block));
        assert_eq!((gone.len(), map.mapped(), map.get(64)), (7, 5, Some(place(1064))));
        assert_eq!(map.set(64, None), Some(place(1064)));
        assert_eq!(map.mapped(), 4);
    }

    #[test]
    fn a_leaf_that_grows_keeps_places_and_bytes_in_records() {
        let mut map = BlockMap::default();
        map.set(FEW as u64 - 1, Some(place(7)));
        map.patch(FEW as u64 - 1, 100, &[9; 8]);
        let lines = map.take_change();
        assert!(lines > 0 && map.get(FEW as u64).is_none() && map.replace(FEW as u64, place(8)).is_none());
        assert_eq!((map.set(FEW as u64, None), map.set(FEW as u64, Some(place(8)))), (None, None));
        assert_eq!((map.get(FEW as u64 - 1), map.get(FEW as u64)), (Some(place(7)), Some(place(8))));
        let mut read = [0; 8];
        assert!(map.read_patches(FEW as u64 - 1, 100, &mut read).is_empty() && read == [9; 8]);
        assert_eq!((map.mapped(), map.take_change(), map.has_patches()), (2, 0, true));
    }
}
