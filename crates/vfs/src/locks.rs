//! Advisory locks: of whole files (flock(2)) and of ranges (fcntl(2)), as a table of the mount.
//!
//! | lock | belongs to | ends with |
//! |---|---|---|
//! | of a whole file | the open file | its last descriptor |
//! | of a range | the process | the process's first close of any descriptor of the file |
//! | of a range, `LockOwner::File` | the open file (`F_OFD_SETLK`) | its last descriptor |
//!
//! Locks of whole files and of ranges do not see each other, as on Linux. One of a range replaces what its owner has there. Waiters
//! are not served in turn: each looks again whenever a lock goes. A deadlock of waiters is not found (`EDEADLK`).
//!
//! A mount on which no lock is held pays one load at each close.
//!
//! Lock order: `vfs.locks`, then nothing.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use sim::map::HashMap;
use sim::{Condvar, LockClass, Mutex, ran};

use crate::attr::Ino;
use crate::charges;
use crate::errno::{Errno, Result};

pub(crate) static LOCKS: LockClass = LockClass::new("vfs.locks").under(&[]);

/// What a lock lets others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared locks.
    Shared,
    /// Nothing.
    Exclusive,
}

/// To whom a lock of a range belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// The process: `F_SETLK`, `F_SETLKW`.
    Process,
    /// The open file: `F_OFD_SETLK`, `F_OFD_SETLKW`.
    File,
}

/// A lock is taken, given back, or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockAction {
    /// Takes it; with another lock in its way, waits.
    Wait(LockKind),
    /// Takes it; with another lock in its way, `EAGAIN`.
    Try(LockKind),
    /// `EAGAIN` if another lock is in the way; takes none.
    Test(LockKind),
    /// Gives back what the owner has.
    Release,
}

impl LockAction {
    /// The lock that is wanted.
    pub fn kind(self) -> Option<LockKind> {
        match self {
            Self::Wait(kind) | Self::Try(kind) | Self::Test(kind) => Some(kind),
            Self::Release => None,
        }
    }
}

/// Who has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Of a whole file: an open file.
    Whole(u64),
    /// Of a range: a process.
    Process(u64),
    /// Of a range: an open file.
    File(u64),
}

impl Holder {
    fn sees(self, other: Self) -> bool {
        matches!(self, Self::Whole(_)) == matches!(other, Self::Whole(_))
    }
}

#[derive(Clone, Debug)]
struct Held {
    holder: Holder,
    kind: LockKind,
    range: Range<u64>,
}

impl Held {
    fn is_in_the_way(&self, holder: Holder, kind: LockKind, range: &Range<u64>) -> bool {
        let apart = self.range.end <= range.start || range.end <= self.range.start;
        let exclusive = self.kind == LockKind::Exclusive || kind == LockKind::Exclusive;
        !apart && exclusive && self.holder != holder && self.holder.sees(holder)
    }
}

/// The locks of a mount.
pub(crate) struct Locks {
    table: Mutex<HashMap<Ino, Vec<Held>>>,
    gone: Condvar,
    /// Locks in the table.
    count: AtomicUsize,
}

/// Numbers of processes and open files that have had a lock.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The number of a process or open file: given out when it is first needed.
pub(crate) fn number(of: &AtomicU64) -> u64 {
    let known = of.load(Relaxed);
    if known != 0 {
        return known;
    }
    let new = NEXT.fetch_add(1, Relaxed);
    of.compare_exchange(0, new, Relaxed, Relaxed).map_or_else(|known| known, |_| new)
}

impl Locks {
    pub(crate) fn new() -> Self {
        Self {
            table: Mutex::new(&LOCKS, HashMap::default()),
            gone: Condvar::of_class(&LOCKS),
            count: AtomicUsize::new(0),
        }
    }

    /// Takes, gives back or asks for a lock.
    pub(crate) fn act(&self, ino: Ino, holder: Holder, action: LockAction, range: Range<u64>) -> Result<()> {
        let _covered = charges::of_front();
        let mut table = self.table.lock();
        let Some(kind) = action.kind() else {
            self.give_back(&mut table, ino, |held| held == holder, &range);
            drop(table);
            self.gone.notify_all();
            return Ok(());
        };
        while table
            .get(&ino)
            .is_some_and(|all| all.iter().any(|held| held.is_in_the_way(holder, kind, &range)))
        {
            if !matches!(action, LockAction::Wait(_)) {
                return Err(Errno::EAGAIN);
            }
            table = self.gone.wait(table);
        }
        if matches!(action, LockAction::Test(_)) {
            return Ok(());
        }
        let had = self.give_back(&mut table, ino, |held| held == holder, &range);
        ran::push(table.get_or_default(ino), Held { holder, kind, range });
        self.count.fetch_add(1, Relaxed);
        drop(table);
        if had {
            self.gone.notify_all(); // an exclusive lock may have become a shared one
        }
        Ok(())
    }

    /// Takes a range away from the locks of a holder. Says whether there was any.
    fn give_back(
        &self,
        table: &mut HashMap<Ino, Vec<Held>>,
        ino: Ino,
        is_holder: impl Fn(Holder) -> bool,
        range: &Range<u64>,
    ) -> bool {
        let _covered = charges::of_front();
        let Some(all) = table.get_mut(&ino) else { return false };
        let before = all.len();
        ran::allocate(u64::from(before > 0));
        let mut kept = Vec::with_capacity(before);
        let mut had = false;
        for held in all.drain(..) {
            let apart = held.range.end <= range.start || range.end <= held.range.start;
            if apart || !is_holder(held.holder) {
                kept.push(held);
                continue;
            }
            had = true;
            let parts = [held.range.start..range.start, range.end..held.range.end];
            let parts = parts.into_iter().filter(|part| part.start < part.end);
            ran::extend(&mut kept, parts.map(|part| Held { range: part, ..held }));
        }
        // Both parts of a lock that was cut in two count.
        self.count.fetch_add(kept.len(), Relaxed);
        self.count.fetch_sub(before, Relaxed);
        *all = kept;
        if all.is_empty() {
            table.remove(&ino);
        }
        had
    }

    /// What a close or the end of an open file gives back.
    #[cold]
    fn end(&self, ino: Ino, is_holder: impl Fn(Holder) -> bool) {
        let mut table = self.table.lock();
        let had = self.give_back(&mut table, ino, is_holder, &(0..u64::MAX));
        drop(table);
        if had {
            self.gone.notify_all();
        }
    }

    /// A process closes a descriptor.
    #[inline]
    pub(crate) fn closed(&self, ino: Ino, process: &AtomicU64) {
        if self.count.load(Relaxed) > 0 {
            let process = process.load(Relaxed);
            self.end(ino, |holder| holder == Holder::Process(process));
        }
    }

    /// An open file has no descriptor any more.
    #[inline]
    pub(crate) fn released(&self, ino: Ino, file: &AtomicU64) {
        let file = file.load(Relaxed);
        if file != 0 && self.count.load(Relaxed) > 0 {
            self.end(ino, |holder| holder == Holder::Whole(file) || holder == Holder::File(file));
        }
    }
}

/// The range of a call of fcntl(2): `len` 0 reaches to the end, however far that is. `EINVAL` beyond what offsets reach.
pub(crate) fn range_of(offset: u64, len: u64) -> Result<Range<u64>> {
    match len {
        0 => Ok(offset..u64::MAX),
        _ => offset.checked_add(len).map(|end| offset..end).ok_or(Errno::EINVAL),
    }
}
