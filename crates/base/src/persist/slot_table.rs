//! A table of DRAM objects indexed by inode slot, which grows in chunks and never moves them.
//!
//! A reference to an entry stays valid as long as the table. Getting from an inode number to its lock therefore takes arithmetic
//! and one load, without a map or a reference count.

use std::sync::OnceLock;

/// Objects by slot, made a chunk at a time.
pub struct SlotTable<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
    slots_per_chunk: u64,
}

impl<T> SlotTable<T> {
    /// An empty table of at most `max_chunks` chunks of `slots_per_chunk` entries.
    pub fn new(max_chunks: u64, slots_per_chunk: u64) -> Self {
        Self { chunks: (0..max_chunks).map(|_| OnceLock::new()).collect(), slots_per_chunk }
    }

    /// Fills chunk `chunk` with `make(slot)`, unless it is there already.
    pub fn add_chunk(&self, chunk: u64, make: impl Fn(u64) -> T) {
        if let Some(place) = self.chunks.get(chunk as usize) {
            sim::ran::allocate(u64::from(place.get().is_none()));
            let first = chunk * self.slots_per_chunk;
            place.get_or_init(|| (first..first + self.slots_per_chunk).map(make).collect());
        }
    }

    /// The entry of `slot`, when its chunk is there.
    #[inline]
    pub fn get(&self, slot: u64) -> Option<&T> {
        let chunk = self.chunks.get((slot / self.slots_per_chunk) as usize)?.get()?;
        chunk.get((slot % self.slots_per_chunk) as usize)
    }
}
