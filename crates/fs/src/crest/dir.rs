//! The names of one directory, in DRAM.
//!
//! Names stand in slots of a cache line each, in which a listing goes by; a table finds the slot of a name. A name of up to 30
//! bytes lies in its slot, a longer one apart.

use hashbrown::HashTable;
use sim::{Work, ran};

use super::record::AddId;
use crate::persist::{hash_of, plain_hash};

/// Bytes of a name that lie in its slot, at most.
const INLINE: usize = 30;

/// The bytes of a name.
#[derive(Debug)]
pub(super) enum Bytes {
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

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Here { len, bytes } => &bytes[..usize::from(*len)],
            Self::Apart(bytes) => bytes,
        }
    }

    /// Whether a task that has the slot has to fetch another line for them.
    pub(super) fn is_apart(&self) -> bool {
        matches!(self, Self::Apart(_))
    }
}

/// A name that is there.
#[derive(Debug)]
pub(super) struct Name {
    hash: u64,
    pub(super) text: Bytes,
    pub(super) ino: u64,
    /// The add: what a removal names.
    pub(super) add: AddId,
}

/// All names of a directory but `.` and `..`.
#[derive(Debug, Default)]
pub(super) struct Dir {
    table: HashTable<u32>,
    slots: Vec<Option<Name>>,
    free: Vec<u32>,
}

fn visit() {
    ran::did(Work::NODE, 1);
    ran::node(1);
}

impl Dir {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The slot of a name, if it is there.
    fn slot(&self, hash: u64, name: &[u8]) -> Option<u32> {
        visit();
        self.place(hash, name)
    }

    fn place(&self, hash: u64, name: &[u8]) -> Option<u32> {
        let is_it = |slot: &u32| {
            let known = self.slots.get(*slot as usize).and_then(Option::as_ref);
            known.is_some_and(|known| known.hash == hash && known.text.bytes() == name)
        };
        self.table.find(hash, is_it).copied()
    }

    /// The name, if it is there.
    pub(super) fn find(&self, name: &[u8]) -> Option<&Name> {
        sim::work(Work::MISS, 1);
        let slot = self.slot(hash_of(name), name)?;
        self.slots.get(slot as usize)?.as_ref()
    }

    /// The same as a step of a path, whose price the caller pays.
    pub(super) fn find_at_hand(&self, name: &[u8]) -> Option<&Name> {
        self.slots.get(self.place(plain_hash(name), name)? as usize)?.as_ref()
    }

    /// Adds a name that is not there.
    pub(super) fn insert(&mut self, name: &[u8], ino: u64, add: AddId) {
        let hash = hash_of(name);
        let known = Name { hash, text: Bytes::new(name), ino, add };
        let slot = self.free.pop().unwrap_or_else(|| {
            ran::push(&mut self.slots, None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(known);
        visit();
        let slots = &self.slots;
        let rehash = |slot: &u32| slots[*slot as usize].as_ref().map_or(0, |known| known.hash);
        let _own = ran::aside();
        self.table.insert_unique(hash, slot, rehash);
    }

    /// Takes a name out.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Name> {
        let hash = hash_of(name);
        let slot = self.slot(hash, name)?;
        visit();
        if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        ran::push(&mut self.free, slot);
        self.slots[slot as usize].take()
    }

    /// The first name in a slot from `slot` on.
    pub(super) fn next_from(&self, slot: u64) -> Option<(u64, &Name)> {
        let rest = self.slots.get(slot as usize..)?;
        let (found, known) = rest.iter().enumerate().find_map(|(at, known)| Some((at, known.as_ref()?)))?;
        Some((slot + found as u64, known))
    }
}
