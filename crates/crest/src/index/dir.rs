//! The names of one directory, in DRAM.
//!
//! Names stand in slots of a cache line each, in which a listing goes by; a table finds the slot of a name. A name of up to 30
//! bytes lies in its slot, a longer one apart.
//!
//! A directory that tasks share has many buckets, each with slots and a table of its own, and a name lies in the bucket of its
//! hash. The lock of the inode or that of the bucket (`sharing.rs`) says who may change what; the locks here are of the host, never
//! waited for, and make the bytes safe to share.
//!
//! # Cursors
//!
//! | cursor | a listing goes on |
//! |---|---|
//! | slot | with the names that are there, or were there before the split, in this slot or behind it |
//! | `SPLIT` + slot, bucket, place | in this bucket at this place; of names from before the split, with those from that slot on |
//!
//! A name stays where it is for as long as it is there, but for the one split, which it brings its slot through. So a listing that
//! began before gives each name once.

use std::sync::OnceLock;

use hashbrown::HashTable;
use parking_lot::RwLock;
use sim::sync::{AtomicI64, Contended, Ordering::Relaxed};
use sim::{Work, ran};

use crate::format::record::{AddId, Id};
use crate::locks;
use base::persist::{hash_of, plain_hash};

/// Bytes of a name that lie in its slot, at most.
const INLINE: usize = 30;
/// Marks a cursor of a directory that is split: below it 26 bits of a slot before the split, 10 of a bucket, 26 of a place there.
const SPLIT: u64 = 1 << 62;
const PLACE_BITS: u32 = 26;
const BUCKET_BITS: u32 = 10;
/// Buckets of a directory for each shard: two of 80 tasks that change names meet in one of sixteen calls.
pub(crate) const BUCKETS_A_SHARD: usize = 16;
/// Most buckets of a directory.
pub(crate) const BUCKETS_MAX: usize = 1 << BUCKET_BITS;
/// Of a name that was added after the split.
const LATER: u32 = u32::MAX;

/// The bytes of a name.
#[derive(Debug)]
pub(crate) enum Bytes {
    Here { len: u8, bytes: [u8; INLINE] },
    Apart(Box<[u8]>),
}

const _: () = assert!(size_of::<Option<Name>>() == sim::LINE_BYTES, "a slot is a line");

impl Bytes {
    fn new(name: &[u8]) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..name.len()) {
            Some(here) => {
                ran::bytes(name.len() as u64);
                here.copy_from_slice(name);
                Self::Here { len: name.len() as u8, bytes }
            }
            None => Self::Apart(ran::copied(name).into()),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Here { len, bytes } => &bytes[..usize::from(*len)],
            Self::Apart(bytes) => bytes,
        }
    }

    /// Whether a task that has the slot has to fetch another line for them.
    fn is_apart(&self) -> bool {
        matches!(self, Self::Apart(_))
    }
}

/// A name that is there.
#[derive(Debug)]
struct Name {
    hash: u64,
    text: Bytes,
    ino: u64,
    /// The add: what a removal names.
    id: Id,
    index: u8,
    /// Its slot before the split.
    slot: u32,
}

/// What a name leads to, and its add.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) ino: u64,
    pub(crate) add: AddId,
}

/// Names with the slots and the table that they share.
#[derive(Debug, Default)]
struct Bucket {
    table: HashTable<u32>,
    slots: Vec<Option<Name>>,
    free: Vec<u32>,
}

/// All names of a directory but `.` and `..`.
#[derive(Debug, Default)]
pub(crate) struct Dir {
    /// All names, until they are split.
    first: RwLock<Bucket>,
    /// All names from then on; as many as a power of two.
    buckets: OnceLock<Box<[RwLock<Bucket>]>>,
    /// The number of names then: the sum of parts, of which the cores change different ones.
    counts: OnceLock<Box<[Contended<AtomicI64>]>>,
}

fn visit() {
    ran::did(Work::NODE, 1);
    ran::node(1);
}

impl Bucket {
    /// The slot of a name, if it is there.
    fn slot(&self, hash: u64, name: &[u8]) -> Option<u32> {
        let is_it = |slot: &u32| {
            let known = self.slots.get(*slot as usize).and_then(Option::as_ref);
            known.is_some_and(|known| known.hash == hash && known.text.bytes() == name)
        };
        self.table.find(hash, is_it).copied()
    }

    /// Adds a name; whether the slots had to grow, for which the caller charges when the lock is free.
    fn insert(&mut self, known: Name) -> bool {
        let _own = ran::aside();
        let (hash, grows) = (known.hash, self.free.is_empty() && self.slots.len() == self.slots.capacity());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(known);
        let slots = &self.slots;
        let rehash = |slot: &u32| slots[*slot as usize].as_ref().map_or(0, |known| known.hash);
        self.table.insert_unique(hash, slot, rehash);
        grows
    }

    /// Takes a name out, if it is there; whether the list of free slots had to grow, for which the caller charges.
    fn remove(&mut self, hash: u64, name: &[u8]) -> Option<bool> {
        let _own = ran::aside();
        let slot = self.slot(hash, name)?;
        if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        let grows = self.free.len() == self.free.capacity();
        self.free.push(slot);
        self.slots[slot as usize] = None;
        Some(grows)
    }
}

/// Parts of the count of so many names, for a directory of so many buckets.
fn counts_of(buckets: usize, names: usize) -> Box<[Contended<AtomicI64>]> {
    let parts = buckets.div_ceil(BUCKETS_A_SHARD).max(1);
    let first = |part| if part == 0 { (names as u64).cast_signed() } else { 0 };
    (0..parts).map(|part| Contended::new(&locks::NAMES, AtomicI64::new(first(part)))).collect()
}

impl Dir {
    /// How many names there are; while others change names, of some moments.
    pub(crate) fn len(&self) -> usize {
        let Some(counts) = self.counts.get() else { return self.first.read().table.len() };
        let used = counts.iter().filter(|part| part.peek().load(Relaxed) != 0);
        let sum: i64 = used.map(|part| part.touch().load(Relaxed)).sum();
        usize::try_from(sum).unwrap_or(0)
    }

    /// A name has come (1) or gone (-1).
    fn note_change(&self, change: i64) {
        if let Some(counts) = self.counts.get() {
            counts[usize::from(sim::core()) % counts.len()].touch().fetch_add(change, Relaxed);
        }
    }

    /// Whether it is not split yet and has at least so many names.
    pub(crate) fn is_large(&self, names: usize) -> bool {
        self.buckets().is_empty() && self.first.read().table.len() >= names
    }

    fn buckets(&self) -> &[RwLock<Bucket>] {
        self.buckets.get().map_or(&[], |buckets| buckets)
    }

    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.buckets().len() - 1)
    }

    /// The number of the bucket of a name, in a directory that is split.
    pub(crate) fn bucket_of(&self, name: &[u8]) -> usize {
        self.place(hash_of(name))
    }

    fn bucket(&self, hash: u64) -> &RwLock<Bucket> {
        if self.buckets().is_empty() { &self.first } else { &self.buckets()[self.place(hash)] }
    }

    /// What a name leads to, if it is there.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Known> {
        sim::work(Work::MISS, 1);
        let hash = hash_of(name);
        visit();
        let bucket = self.bucket(hash).read();
        let known = bucket.slots.get(bucket.slot(hash, name)? as usize)?.as_ref()?;
        Some(Known { ino: known.ino, add: (known.id, known.index) })
    }

    /// The same as a step of a path, whose price the caller pays; also beside a split, which may hide names that are there. The
    /// second is whether the name lies apart.
    pub(crate) fn find_at_hand(&self, name: &[u8]) -> Option<(u64, bool)> {
        let hash = plain_hash(name);
        let bucket = self.bucket(hash).read();
        let known = bucket.slots.get(bucket.slot(hash, name)? as usize)?.as_ref()?;
        Some((known.ino, known.text.is_apart()))
    }

    /// Adds a name that is not there.
    pub(crate) fn insert(&self, name: &[u8], ino: u64, (id, index): AddId) {
        let hash = hash_of(name);
        let known = Name { hash, text: Bytes::new(name), ino, id, index, slot: LATER };
        visit();
        let grows = self.bucket(hash).write().insert(known);
        self.note_change(1);
        ran::allocate(u64::from(grows));
    }

    /// Takes a name out; whether it was there.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        let hash = hash_of(name);
        visit();
        visit();
        let removed = self.bucket(hash).write().remove(hash, name);
        if removed.is_some() {
            self.note_change(-1);
        }
        ran::allocate(u64::from(removed == Some(true)));
        removed.is_some()
    }

    /// Gives each name with what it leads to.
    pub(crate) fn each(&self, mut give: impl FnMut(&[u8], Known)) {
        let mut pass = |bucket: &RwLock<Bucket>| {
            for known in bucket.read().slots.iter().flatten() {
                give(known.text.bytes(), Known { ino: known.ino, add: (known.id, known.index) });
            }
        };
        pass(&self.first);
        self.buckets().iter().for_each(pass);
    }

    /// Distributes the names over so many buckets, a power of two, if they are not yet; false if they have more slots than cursors
    /// can name. The caller has the directory alone, but for looks of paths.
    pub(crate) fn split(&self, buckets: usize) -> bool {
        let mut first = self.first.write();
        if !self.buckets().is_empty() {
            return true;
        }
        if first.slots.len() >= 1 << PLACE_BITS {
            return false;
        }
        let Bucket { slots, table, .. } = std::mem::take(&mut *first);
        let _ = self.counts.set(counts_of(buckets, table.len()));
        let _ = self.buckets.set((0..buckets.min(BUCKETS_MAX)).map(|_| RwLock::default()).collect());
        drop(first);
        ran::allocate(2);
        for (known, slot) in slots.into_iter().zip(0..) {
            if let Some(known) = known {
                visit();
                let grows = self.bucket(known.hash).write().insert(Name { slot, ..known });
                ran::allocate(u64::from(grows));
            }
        }
        true
    }

    /// Gives the names from a cursor on, each with its inode and the cursor behind it, until `give` answers false. The result is
    /// the work: slots and buckets that it has passed, and names that lie apart.
    pub(crate) fn list(&self, cursor: u64, mut give: impl FnMut(&[u8], u64, u64) -> bool) -> u64 {
        let bits = |at: u32, width: u32| cursor >> at & ((1 << width) - 1);
        let (before, bucket, place) = match cursor & SPLIT {
            0 => (cursor, 0, 0),
            _ => (
                bits(PLACE_BITS + BUCKET_BITS, PLACE_BITS),
                bits(PLACE_BITS, BUCKET_BITS),
                bits(0, PLACE_BITS),
            ),
        };
        if self.buckets().is_empty() {
            return self.first.read().list(before, |_| true, |name, ino, next| give(name, ino, next)).0;
        }
        let mut steps = 0;
        for number in bucket..self.buckets().len() as u64 {
            let from = if number == bucket { place } else { 0 };
            let at = SPLIT | before << (PLACE_BITS + BUCKET_BITS) | number << PLACE_BITS;
            let is_new = |known: &Name| known.slot == LATER || u64::from(known.slot) >= before;
            let listed = self.buckets()[number as usize]
                .read()
                .list(from, is_new, |name, ino, next| give(name, ino, at + next));
            steps += listed.0 + 1;
            if !listed.1 {
                break;
            }
        }
        steps
    }
}

impl Bucket {
    /// Gives the names from a slot on that `takes` wants; the work, and whether all were given.
    fn list(
        &self,
        from: u64,
        takes: impl Fn(&Name) -> bool,
        mut give: impl FnMut(&[u8], u64, u64) -> bool,
    ) -> (u64, bool) {
        let (mut steps, mut passed) = (0, 0);
        for (known, slot) in self.slots.iter().zip(0_u64..).skip(from as usize) {
            passed += 1;
            let Some(known) = known.as_ref().filter(|known| takes(known)) else { continue };
            // The slots up to this one, and its name where that lies apart.
            steps += passed + u64::from(known.text.is_apart());
            passed = 0;
            if !give(known.text.bytes(), known.ino, slot + 1) {
                return (steps, false);
            }
        }
        (steps, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Dir, mut cursor: u64, most: usize) -> (Vec<String>, u64) {
        let mut names = Vec::new();
        dir.list(cursor, |name, _, next| {
            names.push(String::from_utf8_lossy(name).into_owned());
            cursor = next;
            names.len() < most
        });
        (names, cursor)
    }

    /// A listing in parts, with a split and other changes between two of them.
    #[test]
    fn a_listing_gives_each_name_once_though_the_directory_is_split_meanwhile() {
        for most in [1, 3, 40, 99] {
            let dir = Dir::default();
            let name = |number: u64| format!("{number:03}");
            for number in 0..100 {
                dir.insert(name(number).as_bytes(), number, (Id(number), 0));
            }
            let (mut listed, mut cursor) = names(&dir, 0, most);
            dir.split(32);
            for number in 0..50 {
                // Gone, and another one in its slot.
                assert!(dir.remove(name(2 * number).as_bytes()));
                dir.insert(name(500 + number).as_bytes(), number, (Id(500 + number), 1));
            }
            assert_eq!((dir.len(), dir.find(b"003").map(|known| known.add)), (100, Some((Id(3), 0))));
            loop {
                let (more, next) = names(&dir, cursor, 7);
                listed.extend(more);
                if next == cursor {
                    break;
                }
                cursor = next;
            }
            let mut once = listed.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), listed.len(), "after {most}: a name is given twice");
            for number in 0..50 {
                assert!(once.contains(&name(2 * number + 1)), "after {most}: {}", 2 * number + 1);
                assert!(once.contains(&name(500 + number)), "after {most}: {}", 500 + number);
            }
        }
    }
}
