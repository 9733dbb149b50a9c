//! RCache: a read cache in DRAM on top of NOVA (ZTE Communications 2023).
//!
//! A read of a cached page comes from DRAM, any other from the medium. A miss copies nothing: once a page is hot, the reader
//! publishes a small entry that says where the page lies, and a background task, the copier, fills it. A change of the page makes
//! its entry invalid; data always goes to the medium, through NOVA, unchanged. The cache has no part in what a crash leaves.
//!
//! | file | holds |
//! |---|---|
//! | `word.rs` | the state of an entry in one word, and every way in which it changes |
//! | `design.rs` | an entry, its transitions, and the frame with its copy |
//! | `table.rs` | sets of entries |
//! | `ring.rs` | the queue of requests, in which no task waits for another |
//! | `cache.rs` | reads, invalidation |
//! | `copier.rs` | the copier, frames, a removed file's end |
//! | `design.rs` | the entry in the table of designs |
//! | `mutant.rs` | a bug that the checks must find |
//!
//! # States
//!
//! ```text
//! bits 0..3 state   3 doomed   4..16 readers   16..64 version, one more each time the entry is given up or stolen
//! ```
//!
//! | # | from | to | who | when |
//! |---|---|---|---|---|
//! | 1 | Invalid(v) | In-use(v, 0) | reader | claims a free entry for a hot page that was missed |
//! | 2 | In-use(v, 0) | Prep(v) | the same | page and block are written |
//! | 3 | In-use(v, 0) | Invalid(v+1) | the same | gives it up |
//! | 4 | Prep(v) | Copy(v) | copier | has a frame |
//! | 5 | Copy(v) | Ready(v) | copier | has copied, and the entry is not doomed |
//! | 6 | Copy(v) | Invalid(v+1) | copier | the entry is doomed, or the medium failed |
//! | 7 | Ready(v) | In-use(v, 1) | reader | hit; checks page and block again afterwards |
//! | 8 | In-use(v, k) | In-use(v, k+1) | another reader | hit, k > 0, not doomed, fewer readers than fit |
//! | 9 | In-use(v, k) | In-use(v, k-1) | reader | done, k > 1 |
//! | 10 | In-use(v, 1) | Ready(v) | last reader | done, not doomed |
//! | 11 | In-use(v, 1) doomed | Invalid(v+1) | last reader | done |
//! | 12 | Prep(v) | Invalid(v+1) | writer | the page changes before the copy |
//! | 13 | Copy(v) | Copy(v) doomed | writer | ... during the copy: the frame and the old block stay with the copier |
//! | 14 | Ready(v) | Invalid(v+1) | writer | ... afterwards |
//! | 15 | In-use(v, k) | doomed | writer | ... while it is read |
//! | 16 | Ready(v) | In-use(v+1, 0) | reader or copier | steals the entry for another page, or its frame |
//!
//! In-use without readers has an owner, which alone changes it; only the copier ends Copy. The paper has a writer
//! switch an entry to Invalid whatever it is; number 13 differs, because the entry and its frame could otherwise be used again
//! while the copier still writes to the frame.
//!
//! # Why no read is stale
//!
//! Readers hold the inode's lock for reading from the lookup of the block until the entry is published, and writers hold it for
//! writing from their commit until all entries of the changed pages are doomed. So no insertion straddles a write. The old block
//! of a doomed copy is given back by the copier when it has stopped reading it ([`crate::nova::PageCache::invalidate`]).
//!
//! A page that is mapped for stores is forgotten when the mapping begins, which waits for a copy that is under way, and is not
//! asked for until the mapping ends ([`crate::nova::PageCache::forget`]).
//!
//! # What a reader waits for
//!
//! Nothing but lines that other cores have. It publishes an entry by two compare-and-swaps of its word (1, 2), takes a place in the
//! queue by a third, and does not wake the copier, which looks from time to time. An entry whose request finds the queue full stays
//! in Prep, for the copier's sweep. So the copier may find an entry twice, in the queue and by a sweep: the second time number 4
//! fails.
//!
//! # What a removed file leaves
//!
//! Nothing: its table goes with its last reader's handle, and its frames are free again ([`crate::nova::PageCache::remove`]).
//!
//! Lock order: `rcache.files`, `rcache.frames` and `rcache.asleep` are leaves, under `nova.inode`.

mod cache;
mod copier;
pub(crate) mod design;
mod entry;
mod frame;
mod mutant;
mod ring;
mod table;
mod word;

use sim::LockClass;

/// The classes of locks and cache lines for which its calls and tasks may wait, besides NOVA's.
pub(crate) static CLASSES: &[&LockClass] =
    &[&cache::ASLEEP, &cache::COPIER, &cache::FILES, &cache::FRAMES, &cache::REQUESTS, &table::ENTRY];

/// The atomics of an entry and of the queue, at which an explored schedule may switch tasks. A copy of a page is one step: what may
/// meet in it is decided by the word of the entry.
mod atomics {
    pub(super) use sim::sync::{AtomicU32, AtomicU64, Ordering};
}

/// The memory of the frames: one range for all, of which each has a page.
mod memory {
    use std::sync::Arc;

    use media::Memory;
    use sim::PAGE_BYTES;

    /// The page of a frame.
    pub(super) struct Piece {
        whole: Arc<Memory>,
        at: u64,
    }

    impl Piece {
        /// The page of frame `number`.
        pub(super) fn of(whole: &Arc<Memory>, number: u64) -> Self {
            Self { whole: Arc::clone(whole), at: number * PAGE_BYTES as u64 }
        }

        pub(super) fn fill(&self, bytes: &[u8]) -> bool {
            self.whole.write(self.at, bytes).is_ok()
        }

        pub(super) fn copy(&self, within: usize, buffer: &mut [u8]) -> bool {
            self.whole.read(self.at + within as u64, buffer).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use media::Memory;
    use sim::Bytes;

    use super::frame::Frame;
    use super::memory::Piece;
    use super::ring::Ring;

    #[test]
    fn a_frame_gives_back_any_bytes_of_what_it_was_filled_with_and_its_neighbour_none() {
        let memory = Arc::new(Memory::new(Bytes(8192)).expect("memory"));
        let [first, second] = [0, 1].map(|number| Frame::new(Piece::of(&memory, number)));
        let bytes: [u8; 4096] = std::array::from_fn(|at| (at * 7 % 251) as u8);
        assert!(second.fill(&bytes));
        for (within, len) in [(0, 4096), (0, 1), (5, 2), (7, 20), (4090, 6), (8, 16), (3, 4093)] {
            let mut part = vec![1; len];
            assert!(second.copy(within, &mut part));
            assert_eq!(part, bytes[within..within + len]);
            assert!(first.copy(within, &mut part) && part.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn requests_come_out_in_order_and_a_full_queue_takes_none() {
        for size in [1, 2, 3] {
            let ring = Ring::new(size);
            for round in 0..5 {
                let request = |n: usize| [round, n as u64, 7];
                assert!((0..size).all(|n| ring.push(request(n))), "round {round} of {size}");
                assert!(!ring.push(request(99)));
                assert!((0..size).all(|n| ring.pop() == Some(request(n))));
                assert_eq!(ring.pop(), None);
            }
        }
    }
}
