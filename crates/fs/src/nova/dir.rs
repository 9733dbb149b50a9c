//! The names of a directory, in DRAM: a hash table over the name entries of its log.
//!
//! Names themselves stay on the medium. A name keeps its slot as long as it is there, and the slot is what a reader of the
//! directory continues from: whatever else comes and goes, it meets each name that stays exactly once.

use std::ops::{Deref, DerefMut};

use hashbrown::HashTable;
use media::nvmm::Region;
use sim::{Work, ran};

use super::layout::{NAME_HEADER, NameEntry};
use base::error::Result;
use base::persist::hash_of;

/// A name that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    hash: u64,
    /// Where its entry lies.
    pub(crate) at: u64,
    pub(crate) ino: u64,
}

/// All names of a directory but `.` and `..`; nothing for any other inode.
#[derive(Default)]
pub(crate) struct Names(Option<Box<NameTable>>);

/// What a directory knows of its names.
pub(crate) struct NameTable {
    table: HashTable<u32>,
    /// A slot whose name lies nowhere (`at` is 0) is free.
    slots: Vec<Known>,
    free: Vec<u32>,
    /// What `..` leads to.
    pub(crate) parent: u64,
    /// Where the entry of `..` lies.
    pub(crate) parent_at: u64,
}

static EMPTY: NameTable =
    NameTable { table: HashTable::new(), slots: Vec::new(), free: Vec::new(), parent: 0, parent_at: 0 };

impl Deref for Names {
    type Target = NameTable;
    fn deref(&self) -> &NameTable {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for Names {
    fn deref_mut(&mut self) -> &mut NameTable {
        self.0.get_or_insert_with(|| {
            let (table, slots, free) = (HashTable::new(), Vec::new(), Vec::new());
            ran::boxed(NameTable { table, slots, free, parent: 0, parent_at: 0 })
        })
    }
}

impl Known {
    const FREE: Self = Self { hash: 0, at: 0, ino: 0 };

    fn is_free(&self) -> bool {
        self.at == 0
    }
}

impl NameTable {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The name, if it is there: its slot, and what is known.
    pub(crate) fn find(&self, region: &Region, name: &[u8]) -> Result<Option<(u32, Known)>> {
        sim::work(Work::MISS, 1);
        let hash = hash_of(name);
        ran::did(Work::NODE, 1);
        ran::node(1);
        for slot in self.table.iter_hash(hash) {
            let known = self.slots[*slot as usize];
            if known.hash == hash && entry_is(region, known.at, name)? {
                return Ok(Some((*slot, known)));
            }
        }
        Ok(None)
    }

    /// Adds a name that is not there.
    pub(crate) fn insert(&mut self, name: &[u8], at: u64, ino: u64) {
        let known = Known { hash: hash_of(name), at, ino };
        let slot = self.free.pop().unwrap_or_else(|| {
            ran::push(&mut self.slots, Known::FREE);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = known;
        let slots = &self.slots;
        let rehash = |slot: &u32| slots[*slot as usize].hash;
        ran::did(Work::NODE, 1);
        ran::node(1);
        let _own = ran::aside();
        self.table.insert_unique(known.hash, slot, rehash);
    }

    /// Takes the name in a slot out; answers where its entry lies now.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<u64> {
        let slot_in_use = self.slots.get_mut(slot as usize).filter(|known| !known.is_free())?;
        let known = std::mem::replace(slot_in_use, Known::FREE);
        ran::did(Work::NODE, 1);
        ran::node(1);
        if let Ok(found) = self.table.find_entry(known.hash, |other| *other == slot) {
            found.remove();
        }
        ran::push(&mut self.free, slot);
        Some(known.at)
    }

    /// The entry of a name has moved from `from` to `to`.
    pub(crate) fn moved(&mut self, from: &Known, to: u64) {
        let found = self.table.iter_hash(from.hash).find(|slot| self.slots[**slot as usize].at == from.at);
        if let Some(slot) = found {
            self.slots[*slot as usize].at = to;
        }
    }

    /// The first name in a slot from `slot` on.
    pub(crate) fn next_from(&self, slot: u64) -> Option<(u64, Known)> {
        let rest = self.slots.get(slot as usize..)?;
        let found = rest.iter().position(|known| !known.is_free())?;
        Some((slot + found as u64, rest[found]))
    }
}

fn entry_is(region: &Region, at: u64, name: &[u8]) -> Result<bool> {
    let header: NameEntry = region.read(at)?;
    if usize::from(header.name_len) != name.len() {
        return Ok(false);
    }
    let mut bytes = [0; 256];
    region.peek(at + NAME_HEADER as u64, &mut bytes[..name.len()])?;
    Ok(&bytes[..name.len()] == name)
}

/// Copies the name of the entry at `at` into `bytes`; answers its length.
pub(crate) fn read_name(region: &Region, at: u64, bytes: &mut [u8; 256]) -> Result<usize> {
    let header: NameEntry = region.read(at)?;
    let len = usize::from(header.name_len);
    region.peek(at + NAME_HEADER as u64, &mut bytes[..len])?;
    Ok(len)
}
