//! The table that finds inodes by number.
//!
//! Numbers are never used again, so the table is a map; it is behind locks of the host, each held for one look.

use std::sync::Arc;

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use sim::{Work, ran};

use super::cold::Cold;
use super::inode::{INODE_LINES, Inode};
use super::saved_inode::Entry;
use crate::store::log::NEIGHBOURS;
use base::error::{Error, Result};

/// Parts of the table.
const PARTS: usize = 64;

type Part = RwLock<FxHashMap<u64, Arc<Inode>>>;

/// All inodes in use, by number: in DRAM, or in the saved index from which the pool was mounted until a call uses them.
pub(crate) struct Inodes {
    parts: Box<[Part]>,
    cold: RwLock<Option<Arc<Cold>>>,
}

impl Inodes {
    pub(crate) fn new(cold: Option<Cold>) -> Self {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Self { parts, cold: RwLock::new(cold.map(Arc::new)) }
    }

    fn part(&self, ino: u64) -> &Part {
        &self.parts[(ino / NEIGHBOURS) as usize % PARTS]
    }

    /// The inodes that are in a saved index still.
    pub(crate) fn cold(&self) -> Option<Arc<Cold>> {
        self.cold.read().clone()
    }

    /// Takes an inode out of the saved index, if it is there.
    #[cold]
    fn thaw(&self, ino: u64) -> Option<Arc<Inode>> {
        let cold = self.cold()?;
        let (place, inode) = cold.inode(ino)?;
        let own = ran::aside();
        let mut part = self.part(ino).write();
        // Another task may have come first, and then even removed it.
        let thawed = part
            .get(&ino)
            .cloned()
            .or_else(|| cold.take(place).then(|| Arc::clone(part.entry(ino).or_insert(inode))));
        drop(part);
        if cold.is_empty() {
            *self.cold.write() = None;
        }
        drop(own);
        thawed
    }

    /// The inode of a number.
    pub(crate) fn get(&self, ino: u64) -> Result<Arc<Inode>> {
        let found = self.part(ino).read().get(&ino).cloned();
        ran::did(Work::NODE, 1);
        ran::node(1);
        let inode = found.or_else(|| self.thaw(ino)).ok_or(Error::NoEntry)?;
        inode.recency.touch(INODE_LINES);
        Ok(inode)
    }

    /// The inode of a number, as a step of a path, which `PATH_COMPONENT` prices; see [`Inode::found`].
    pub(crate) fn at_hand(&self, ino: u64) -> Option<Arc<Inode>> {
        let found = self.part(ino).read().get(&ino).cloned();
        found.or_else(|| self.thaw(ino))
    }

    pub(crate) fn insert(&self, inode: Arc<Inode>) {
        ran::did(Work::NODE, 1);
        ran::node(1);
        let _own = ran::aside();
        self.part(inode.ino).write().insert(inode.ino, inode);
    }

    pub(crate) fn remove(&self, ino: u64) {
        ran::did(Work::NODE, 1);
        ran::node(1);
        let gone = self.part(ino).write().remove(&ino);
        drop(gone);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        let used: u64 = self.parts.iter().map(|part| part.read().len() as u64).sum();
        used + self.cold().map_or(0, |cold| cold.len())
    }

    /// The numbers of all inodes, in order.
    pub(crate) fn all_numbers(&self) -> Vec<u64> {
        let mut all = self.numbers();
        all.extend(self.cold().map(|cold| cold.numbers()).unwrap_or_default());
        all.sort_unstable();
        all
    }

    /// The entry of an inode for a saved index, or in one.
    pub(crate) fn entry(&self, ino: u64) -> Option<Entry> {
        if let Some(entry) = self.cold().and_then(|cold| cold.entry(ino)) {
            return Some(entry);
        }
        let inode = self.get(ino).ok()?;
        let state = inode.write();
        Some(Entry::of(&state, inode.parent()))
    }

    /// The numbers of those in DRAM, in order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.parts.iter().flat_map(|part| part.read().keys().copied().collect::<Vec<_>>()).collect();
        all.sort_unstable();
        all
    }
}
