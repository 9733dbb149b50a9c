//! The list of what is buffered by last write: least recently written first. HiNFS lists blocks, Crest files.
//!
//! A doubly linked list in an arena. Reads never move an entry; a write moves it to the end (HiNFS, section 3.2).

use sim::map::TreeSet;
use sim::{Nanos, Recency, ran};

const NONE: u32 = u32::MAX;

/// Name of an entry.
pub type EntryId = u32;

/// A line of memory, nearly.
struct Entry<O> {
    owner: O,
    written: Nanos,
    before: u32,
    after: u32,
    linked: bool,
    recency: Recency,
}

impl<O: Default> Entry<O> {
    fn unused() -> Self {
        let recency = Recency::now(1);
        Self { owner: O::default(), written: Nanos::ZERO, before: NONE, after: NONE, linked: false, recency }
    }
}

/// The list; `O` says what an entry stands for.
pub struct Lrw<O> {
    entries: Vec<Entry<O>>,
    unused: Vec<EntryId>,
    oldest: u32,
    newest: u32,
    len: u64,
}

impl<O: Copy + Default> Default for Lrw<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Copy + Default> Lrw<O> {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self { entries: Vec::new(), unused: Vec::new(), oldest: NONE, newest: NONE, len: 0 }
    }

    /// Whether no entry is linked.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Linked entries.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// A new entry, written at `now`.
    pub fn add(&mut self, owner: O, now: Nanos) -> EntryId {
        let id = self.reserve(owner, now);
        self.link(id);
        id
    }

    /// A new entry that the first touch puts on the list.
    pub fn reserve(&mut self, owner: O, now: Nanos) -> EntryId {
        let id = self.unused.pop().unwrap_or_else(|| {
            ran::push(&mut self.entries, Entry::unused());
            self.entries.len() as u32 - 1
        });
        let entry = self.visit(id);
        (entry.owner, entry.written) = (owner, now);
        id
    }

    /// Adds to a set what all entries stand for that were not removed, on the list or not.
    pub fn add_owners<K: Ord>(&self, owners: &mut TreeSet<K>, key: impl Fn(&O) -> K) {
        let mut gone = TreeSet::new();
        for id in &self.unused {
            gone.insert(*id);
        }
        for (_, entry) in (0..).zip(&self.entries).filter(|(id, _): &(EntryId, _)| !gone.contains(id)) {
            owners.insert(key(&entry.owner));
        }
    }

    /// The block was written at `now`.
    pub fn touch(&mut self, id: EntryId, now: Nanos) {
        self.unlink(id);
        self.entries[id as usize].written = now;
        self.link(id);
    }

    /// Removes an entry for good.
    pub fn remove(&mut self, id: EntryId) {
        self.unlink(id);
        ran::push(&mut self.unused, id);
    }

    /// The least recently written entry.
    pub fn oldest(&self) -> Option<(EntryId, O, Nanos)> {
        let entry = self.entries.get(self.oldest as usize)?;
        Some((self.oldest, entry.owner, entry.written))
    }

    /// Takes the least recently written entry off the list; it keeps its name until [`Lrw::remove`], and a touch links it
    /// again.
    pub fn take_oldest(&mut self) -> Option<(EntryId, O)> {
        let (id, owner, _) = self.oldest()?;
        self.unlink(id);
        Some((id, owner))
    }

    /// Whether an entry is on the list.
    pub fn is_linked(&self, id: EntryId) -> bool {
        self.entries[id as usize].linked
    }

    fn link(&mut self, id: EntryId) {
        let newest = self.newest;
        let entry = self.visit(id);
        (entry.before, entry.after, entry.linked) = (newest, NONE, true);
        match newest {
            NONE => self.oldest = id,
            newest => self.visit(newest).after = id,
        }
        self.newest = id;
        self.len += 1;
    }

    /// An entry, for which the processor waits if it has not been used for long.
    fn visit(&mut self, id: EntryId) -> &mut Entry<O> {
        let entry = &mut self.entries[id as usize];
        entry.recency.touch(1);
        entry
    }

    fn unlink(&mut self, id: EntryId) {
        let Entry { before, after, linked, .. } = *self.visit(id);
        if !linked {
            return;
        }
        match before {
            NONE => self.oldest = after,
            before => self.visit(before).after = after,
        }
        match after {
            NONE => self.newest = before,
            after => self.visit(after).before = before,
        }
        self.entries[id as usize].linked = false;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_written_goes_first() {
        let mut list = Lrw::new();
        let ids: Vec<_> = (0..4).map(|block| list.add(block, Nanos(block))).collect();
        list.touch(ids[0], Nanos(10));
        list.remove(ids[2]);
        let mut order = Vec::new();
        while let Some((_, owner)) = list.take_oldest() {
            order.push(owner);
        }
        assert_eq!(order, [1, 3, 0]);
        assert!(list.is_empty());
    }

    #[test]
    fn a_write_links_an_entry_that_was_taken() {
        let mut list = Lrw::new();
        let id = list.add(7, Nanos(1));
        list.take_oldest();
        assert!(!list.is_linked(id));
        list.touch(id, Nanos(2));
        assert_eq!(list.oldest(), Some((id, 7, Nanos(2))));
    }
}
