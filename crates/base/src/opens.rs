//! How often an inode is open, counted beside its lock: an open or a close takes no lock of the inode, as in Linux, where the open
//! file holds a reference of the inode.
//!
//! The count is one word with two marks. `LOCKED`: a task that opens the inode must lock it first and see whether it may be opened;
//! so it is before the inode is known, while it cannot be opened by everyone, and once it is being freed. `UNNAMED`: it has no name
//! any more, so the last close frees it. A task that takes its last name away holds its lock and marks it in one step with the
//! question whether it is open ([`Opens::lose_name`]): either that task frees it, and no later open goes past the lock, or the last
//! close does.

use std::mem;

use sim::sync::{AtomicU32, Ordering::SeqCst};

/// An open must take the inode's lock.
const LOCKED: u32 = 1 << 31;
/// The last close frees the inode.
const UNNAMED: u32 = 1 << 30;
const COUNT: u32 = UNNAMED - 1;

/// The opens of an inode.
#[derive(Debug)]
pub struct Opens(AtomicU32);

/// The state after a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Nothing has the inode open now.
    pub last: bool,
    /// And it has no name: it must be freed.
    pub frees: bool,
}

impl Default for Opens {
    /// Of an inode that is not known yet.
    fn default() -> Self {
        Self::new()
    }
}

impl Opens {
    /// Of an inode that is not known yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(LOCKED))
    }

    /// Whether anything has it open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.0.load(SeqCst) & COUNT > 0
    }

    /// Opens it once more; false if the caller must lock the inode for that, and then use [`Opens::add_locked`].
    #[inline]
    pub fn add(&self) -> bool {
        sim::interact();
        let more = |word: u32| (word & LOCKED == 0).then_some(word + 1);
        self.0.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    /// Opens it once more. The caller has its lock, and knows that it may be opened.
    pub fn add_locked(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// Closes it once.
    #[inline]
    pub fn remove(&self) -> Closed {
        sim::interact();
        let less = |word: u32| (word & COUNT > 0).then(|| word - 1);
        let before = self.0.fetch_update(SeqCst, SeqCst, less).unwrap_or_else(|word| word);
        let last = before & COUNT <= 1;
        Closed { last, frees: last && before & UNNAMED != 0 }
    }

    /// It has a name and may be opened by everyone, without the lock, which the caller has.
    #[inline]
    pub fn admit(&self) {
        if self.0.load(SeqCst) & !COUNT != 0 {
            self.0.fetch_and(COUNT, SeqCst);
        }
    }

    /// Opens must take the lock from now on, which the caller has.
    #[inline]
    pub fn lock(&self) {
        if self.0.load(SeqCst) & LOCKED == 0 {
            self.0.fetch_or(LOCKED, SeqCst);
        }
    }

    /// It was made without a name and is open once.
    pub fn begin_nameless(&self) {
        self.0.store(UNNAMED | LOCKED | 1, SeqCst);
    }

    /// Its last name goes; the caller has its lock. If it is not open, it is the caller's to free; otherwise the last close frees
    /// it.
    pub fn lose_name(&self) -> bool {
        let lose = |word: u32| Some(if word & COUNT == 0 { word | LOCKED } else { word | UNNAMED });
        self.0.fetch_update(SeqCst, SeqCst, lose).is_ok_and(|before| before & COUNT == 0)
    }

    /// It has a name, again or still; the caller has its lock.
    pub fn keep_name(&self) {
        self.0.fetch_and(!UNNAMED, SeqCst);
    }

    /// As [`Opens::lose_name`], for a change that may fail: then the name stays.
    pub fn losing_name(&self) -> LosingName<'_> {
        LosingName { opens: self, frees: self.lose_name() }
    }
}

/// The last name of an inode is going. Dropped before [`LosingName::done`], the name has stayed.
#[must_use]
#[derive(Debug)]
pub struct LosingName<'a> {
    opens: &'a Opens,
    /// Nothing has the inode open: the task that takes the name away frees it.
    pub frees: bool,
}

impl LosingName<'_> {
    /// The name is gone.
    pub fn done(self) -> bool {
        let frees = self.frees;
        mem::forget(self);
        frees
    }
}

impl Drop for LosingName<'_> {
    fn drop(&mut self) {
        self.opens.keep_name();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_close_frees_what_lost_its_name_while_it_was_open_and_nothing_else_does() {
        let opens = Opens::new();
        assert!(!opens.add(), "it is not known whether it may be opened");
        opens.add_locked();
        opens.admit();
        assert!(opens.add() && opens.is_open());
        assert!(!opens.lose_name(), "it is open: its closer frees it");
        assert_eq!(opens.remove(), Closed { last: false, frees: false });
        assert_eq!(opens.remove(), Closed { last: true, frees: true });
        assert!(opens.lose_name(), "it is not open now");
        assert!(!opens.add(), "what is being freed is not opened past the lock");
    }

    #[test]
    fn a_name_that_stays_leaves_the_file_as_it_was() {
        let opens = Opens::new();
        opens.admit();
        assert!(opens.add());
        drop(opens.losing_name());
        assert_eq!(opens.remove(), Closed { last: true, frees: false });
        opens.begin_nameless();
        opens.keep_name();
        assert_eq!(opens.remove(), Closed { last: true, frees: false }, "it got a name");
    }
}
