//! An entry: its word, what it is for, its copy; and each transition of the table in `mod.rs` as one attempt or one loop.
//!
//! The atomics are those of the parent module: in the cache those of [`sim::sync`], at which an explored schedule may switch, and
//! `loom`'s in the test that tries the orders in which memory may show them.

use super::atomics::{AtomicU32, AtomicU64, Ordering};
use super::word::{State, Word};

/// An entry: where a page lies, and perhaps a copy of it.
pub(crate) struct Entry {
    word: AtomicU64,
    /// The page and its block. Only the owner changes them, while others may look.
    page: AtomicU64,
    source: AtomicU64,
    /// The frame that it keeps, plus one. It stays when the entry becomes invalid, for its next page.
    pub(crate) frame: AtomicU32,
    /// When it was used last, by the coarse clock.
    pub(crate) stamp: AtomicU32,
}

/// What an invalidation found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doomed {
    /// Nothing to invalidate.
    Nothing,
    /// The entry gives nothing any more.
    Done,
    /// The same, and the copier still reads the block.
    WhileCopied,
}

impl Entry {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU64::new(Word::NEW.0),
            page: AtomicU64::new(0),
            source: AtomicU64::new(0),
            frame: AtomicU32::new(0),
            stamp: AtomicU32::new(0),
        }
    }

    pub(crate) fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Changes the word from what was seen, where that may be; false when it may not, or something came between.
    fn change(&self, from: Word, to: Option<Word>) -> bool {
        let swap =
            |to: Word| self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        to.is_some_and(swap)
    }

    pub(crate) fn is_for(&self, page: u64) -> bool {
        self.page() == page
    }

    pub(crate) fn page(&self) -> u64 {
        self.page.load(Ordering::Relaxed)
    }

    pub(crate) fn source(&self) -> u64 {
        self.source.load(Ordering::Relaxed)
    }

    /// 7, 8: one attempt. The page and the block are to be looked at again under the pin.
    pub(crate) fn pin(&self) -> Option<Pin<'_>> {
        let word = self.word();
        self.change(word, word.pinned()).then_some(Pin(self))
    }

    /// 1, 16: one attempt from what was seen; the word of the new owner.
    pub(crate) fn claim(&self, seen: Word) -> Option<Word> {
        let owned = if seen.state() == State::Invalid { seen.claimed() } else { seen.stolen() }?;
        self.change(seen, Some(owned)).then_some(owned)
    }

    /// Says what an owned entry is for.
    pub(crate) fn set(&self, page: u64, source: u64) {
        self.page.store(page, Ordering::Relaxed);
        self.source.store(source, Ordering::Relaxed);
    }

    /// 2: by the owner.
    pub(crate) fn publish(&self, owned: Word) -> bool {
        self.change(owned, owned.published())
    }

    /// 3: by the owner.
    pub(crate) fn retract(&self, owned: Word) {
        self.change(owned, owned.retracted());
    }

    /// 4: one attempt, at an entry that has not been given up since its request was made.
    pub(crate) fn begin_copy(&self, version: u64) -> bool {
        let word = self.word();
        self.change(word, word.copying().filter(|_| word.version() == version))
    }

    /// 5: one attempt; it fails when the entry is doomed, and [`Self::give_up`] is next.
    pub(crate) fn end_copy(&self) -> bool {
        let word = self.word();
        self.change(word, word.ready())
    }

    /// A seeded bug: 5 whatever came since the word was looked at.
    pub(crate) fn end_copy_in_two_steps(&self) -> bool {
        let ready = self.word().ready();
        if let Some(ready) = ready {
            self.word.store(ready.0, Ordering::Release);
        }
        ready.is_some()
    }

    /// 6: whether the entry was doomed, and its block was left to the copier.
    pub(crate) fn give_up(&self) -> bool {
        loop {
            let word = self.word();
            let ended = word.not_copied();
            if self.change(word, ended) {
                return word.is_doomed();
            }
            if ended.is_none() {
                return false;
            }
        }
    }

    /// 12 to 15. `keep(1)` comes before the entry is doomed while it is copied, and `keep(-1)` after an attempt at that which
    /// failed.
    pub(crate) fn doom(&self, mut keep: impl FnMut(i64)) -> Doomed {
        loop {
            let word = self.word();
            let Some(doomed) = word.doomed() else { return Doomed::Nothing };
            let copied = word.state() == State::Copy;
            if copied {
                keep(1);
            }
            if self.change(word, Some(doomed)) {
                return if copied { Doomed::WhileCopied } else { Doomed::Done };
            }
            if copied {
                keep(-1);
            }
        }
    }
}

impl Entry {
    /// 12, 14, 15. None: it is being copied.
    pub(crate) fn doom_unless_copied(&self) -> Option<Doomed> {
        loop {
            let word = self.word();
            if word.state() == State::Copy {
                return None;
            }
            let Some(doomed) = word.doomed() else { return Some(Doomed::Nothing) };
            if self.change(word, Some(doomed)) {
                return Some(Doomed::Done);
            }
        }
    }
}

/// A pin on an entry, given up when dropped: 9, 10, 11.
pub(crate) struct Pin<'a>(&'a Entry);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        loop {
            let word = self.0.word();
            let unpinned = word.unpinned();
            if self.0.change(word, unpinned) || unpinned.is_none() {
                return;
            }
        }
    }
}
