//! Changes of one inode by several tasks at once: overwrites of a file, names of a directory.
//!
//! An inode is locked alone by what changes it, until that comes from several cores: then those changes that need not meet hold its
//! lock shared, and one of a finer kind alone.
//!
//! | | `State::shared` is false | it is true |
//! |---|---|---|
//! | overwrite | inode alone | inode shared, its granules alone |
//! | read of contents | inode shared | inode and granules shared |
//! | `stat` and access of a file | inode shared; for an access alone | inode shared |
//! | change of names | inode alone | inode shared, the buckets of the names alone |
//! | lookup | inode shared | inode shared, the bucket of the name alone |
//! | listing, `stat` of a directory | inode shared | inode alone; others of them then share it |
//! | any other change | inode alone | inode alone |
//!
//! | from | to | who | when |
//! |---|---|---|---|
//! | false | true | a task that has made such a change alone | so many of them came from another core than the one before |
//! | true | false | a task that takes the inode alone | always, before it looks or changes anything |
//!
//! A task that waits to make such a change alone, and then finds the inode shared, makes it beside the others. `Inode::shared` is a
//! hint; what counts is the state, under the lock.
//!
//! So one task, and readers without a writer, pay for nothing, and what takes the inode alone finds it as if no task had shared it.
//!
//! What an *overwrite* is: of blocks that have places, within the size, in a file of which no block was ever reserved and that was
//! never mapped. So size, holes and the shape of the map are fixed while a file is shared. Changes of names that share a directory
//! are those of other files than directories; so its links are fixed, and a directory is found empty only by a task that has it
//! alone.
//!
//! Each change has an id behind those of its granules and of the inode, and a time; both are noted on a line of the task's shard,
//! as is the time of an access. A task that takes the inode alone collects them, and a `stat` of a file reads them: the latest is
//! that of one moment, because times only become later. Names need no order by ids. Times of two shards may be equal.
//!
//! Lock order: of an inode its lock, then its granules or buckets in ascending order, then the next inode (`mod.rs`).

use std::ops::Deref;

use sim::sync::{AtomicU64, Contended, Ordering::Relaxed};
use sim::{LockClass, Mutex, MutexGuard, ran};
use vfs::Attr;

use super::dir::BUCKETS_MAX;
use super::inode::{Body, Changing, Inode, Reading, State, now, unpack};
use base::error::Result;

pub(crate) static BUCKET: LockClass = LockClass::new("crest.bucket").under(&[&super::inode::INODE]).several();
pub(crate) static STAMPS: LockClass = LockClass::of_lines(
    "crest.stamps",
    "the last id and time of a shard's changes of an inode that tasks share",
);

/// Buckets of a directory for each shard: two of 80 tasks that change names meet in one of sixteen calls.
const BUCKETS_A_SHARD: usize = 16;

/// Names for each bucket with which a directory is split though no tasks share it: a listing, which passes the buckets, then takes
/// less than a hundredth longer.
const NAMES_A_BUCKET: usize = 32;

/// Which inodes are shared, and when; by default none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sharing {
    /// Files, by granules.
    pub(crate) granules: bool,
    /// Directories, by buckets.
    pub(crate) buckets: bool,
    /// Changes from another core than the one before, after which an inode is shared; 0: from the beginning.
    pub(crate) after: u32,
    pub(crate) shards: u16,
}

impl Sharing {
    fn buckets_of_dir(self) -> usize {
        (BUCKETS_A_SHARD * usize::from(self.shards)).next_power_of_two().min(BUCKETS_MAX)
    }

    /// Splits a directory that has become large, before there is much to distribute. The caller has it alone.
    fn split_large(self, state: &mut State) {
        let buckets = self.buckets_of_dir();
        if self.buckets
            && let Body::Dir(dir) = &state.body
            && dir.is_large(NAMES_A_BUCKET * buckets)
        {
            dir.split(buckets);
        }
    }

    /// Prepares an inode that comes into the table; whether tasks share it at once.
    pub(crate) fn begin(self, state: &mut State, is_special: bool) -> bool {
        self.split_large(state);
        state.shared = self.after == 0
            && match &state.body {
                Body::Dir(dir) => self.buckets && dir.split(self.buckets_of_dir()),
                Body::File(_) => self.granules && !is_special,
                _ => false,
            };
        state.shared
    }
}

/// The last id and time of a shard's changes, and the time of its last access: a line of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Stamps {
    id: AtomicU64,
    time: AtomicU64,
    access: AtomicU64,
}

impl Stamps {
    fn is_used(&self) -> bool {
        self.time.load(Relaxed) > 0 || self.access.load(Relaxed) > 0
    }
}

/// What tasks have that share an inode.
#[derive(Debug)]
pub(crate) struct Shares {
    stamps: Box<[Contended<Stamps>]>,
    /// Of a directory: a lock for each bucket of names.
    buckets: Box<[Mutex<()>]>,
}

impl Shares {
    fn new(sharing: Sharing, is_dir: bool) -> Self {
        ran::allocate(2 + u64::from(is_dir));
        let buckets = if is_dir { sharing.buckets_of_dir() } else { 0 };
        Self {
            stamps: (0..sharing.shards).map(|_| Contended::new(&STAMPS, Stamps::default())).collect(),
            buckets: (0..buckets).map(|_| Mutex::new(&BUCKET, ())).collect(),
        }
    }

    /// The last time of a shard's changes.
    pub(crate) fn time(&self, shard: usize) -> u64 {
        self.stamps[shard].peek().time.load(Relaxed)
    }

    /// A shard has made a change.
    pub(crate) fn note(&self, shard: usize, id: u64, time: u64) {
        let stamps = self.stamps[shard].touch();
        stamps.id.fetch_max(id, Relaxed);
        stamps.time.fetch_max(time, Relaxed);
    }

    /// The last id, time and access of all shards; each shard's is given to `each` besides.
    fn last(&self, each: impl Fn(&Stamps)) -> (u64, u64, u64) {
        let mut last = (0, 0, 0);
        for stamps in self.stamps.iter().filter(|stamps| stamps.peek().is_used()) {
            let stamps = stamps.touch();
            last.0 = last.0.max(stamps.id.load(Relaxed));
            last.1 = last.1.max(stamps.time.load(Relaxed));
            last.2 = last.2.max(stamps.access.load(Relaxed));
            each(stamps);
        }
        last
    }
}

impl Inode {
    /// What tasks have that share it.
    pub(crate) fn shares(&self) -> &Shares {
        self.shares.get_or_init(|| Box::new(Shares::new(self.sharing, self.is_dir)))
    }

    /// Takes what those have left who shared it. The caller has it alone.
    #[cold]
    pub(crate) fn collect(&self, state: &mut State) {
        if let Some(shares) = self.shares.get() {
            let (id, time, access) = shares.last(|stamps| {
                for word in [&stamps.id, &stamps.time, &stamps.access] {
                    word.store(0, Relaxed);
                }
            });
            state.last = state.last.max(id);
            if time > 0 {
                state.data_changed(time);
            }
            if access > 0 {
                state.accessed_at(access);
            }
        }
        state.changes = 0;
        state.shared = self.sharing.after == 0 && self.may_be_shared();
        self.shared.store(state.shared, Relaxed);
    }

    /// What `stat` shows of a file that tasks share.
    pub(crate) fn attr_beside(&self, state: &State) -> Attr {
        let (_, time, access) = self.shares().last(|_| ());
        let attr = state.attr();
        let later = |old, time| if time > 0 { unpack(time) } else { old };
        Attr {
            atime: later(attr.atime, access),
            mtime: later(attr.mtime, time),
            ctime: later(attr.ctime, time),
            ..attr
        }
    }

    /// Notes an access of a file that tasks share; false where it must be locked alone.
    pub(crate) fn accessed_beside(&self) -> Result<bool> {
        if self.is_dir || !self.shared.load(Relaxed) {
            return Ok(false);
        }
        let state = self.reading()?;
        if state.shared {
            let shard = usize::from(sim::core()) % usize::from(self.sharing.shards);
            self.shares().stamps[shard].touch().access.fetch_max(now(), Relaxed);
        }
        Ok(state.shared)
    }

    /// A change was made alone that tasks make beside each other where they share the inode.
    pub(crate) fn count_change(&self, state: &mut State) {
        self.sharing.split_large(state);
        let core = u32::from(sim::core());
        if state.changer == core {
            return;
        }
        state.changer = core;
        state.changes += 1;
        if state.changes > self.sharing.after && !state.shared && self.may_be_shared() {
            self.share(state);
        }
    }

    /// Whether tasks may share it.
    fn may_be_shared(&self) -> bool {
        if self.is_dir { self.sharing.buckets } else { self.sharing.granules && self.takes_data_ahead() }
    }

    /// Lets tasks share it from now on. The caller has it alone.
    #[cold]
    fn share(&self, state: &mut State) {
        state.shared = match &state.body {
            Body::Dir(dir) => dir.split(self.sharing.buckets_of_dir()),
            _ => true,
        };
        self.shared.store(state.shared, Relaxed);
    }

    /// The time of a change that is made now beside others: later than all that were made alone, and than the shard's last.
    pub(crate) fn stamp_beside(&self, state: &State, shard: usize, now: u64) -> u64 {
        state.stamp(now).max(self.shares().time(shard) + 1)
    }

    /// Locks the bucket of a name, if tasks share the directory: another one may be changing it.
    pub(crate) fn bucket(&self, state: &State, name: &[u8]) -> Result<Option<MutexGuard<'_, ()>>> {
        if !state.shared {
            return Ok(None);
        }
        let bucket = state.dir()?.bucket_of(name);
        Ok(Some(self.shares().buckets[bucket].lock()))
    }

    /// Locks the directory for changes of one or two names: it alone, or it shared and the buckets of these.
    pub(crate) fn naming(&self, name: &[u8], other: Option<&[u8]>) -> Result<Naming<'_>> {
        let mut shared = self.shared.load(Relaxed);
        loop {
            if shared {
                let state = self.reading()?;
                if state.shared {
                    return self.naming_beside(state, name, other);
                }
            }
            if let Some(state) = self.changing_unshared()? {
                state.dir().map(drop)?;
                return Ok(Naming::Alone { inode: self, state });
            }
            shared = true;
        }
    }

    fn naming_beside<'a>(
        &'a self,
        state: Reading<'a>,
        name: &[u8],
        other: Option<&[u8]>,
    ) -> Result<Naming<'a>> {
        let dir = state.dir()?;
        let one = dir.bucket_of(name);
        let other = other.map(|name| dir.bucket_of(name)).filter(|other| *other != one);
        let (low, high) = match other {
            Some(other) if other < one => (other, Some(one)),
            other => (one, other),
        };
        let lock = |bucket: usize| self.shares().buckets[bucket].lock();
        let low = lock(low);
        let held = (low, high.map(lock));
        Ok(Naming::Beside { inode: self, _held: held, state })
    }

    /// Locks the directory alone, for changes of names that lead to directories.
    pub(crate) fn naming_alone(&self) -> Result<Naming<'_>> {
        let state = self.changing()?;
        state.dir().map(drop)?;
        Ok(Naming::Alone { inode: self, state })
    }
}

/// The right to change names of a directory.
pub(crate) enum Naming<'a> {
    /// All of them.
    Alone { inode: &'a Inode, state: Changing<'a> },
    /// Those whose buckets are locked: at most two.
    Beside { inode: &'a Inode, _held: (MutexGuard<'a, ()>, Option<MutexGuard<'a, ()>>), state: Reading<'a> },
}

impl Deref for Naming<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        match self {
            Self::Alone { state, .. } => state,
            Self::Beside { state, .. } => state,
        }
    }
}

impl Naming<'_> {
    pub(crate) fn is_beside(&self) -> bool {
        matches!(self, Self::Beside { .. })
    }

    /// The time of a change that is made now.
    pub(crate) fn stamp(&self, shard: usize, now: u64) -> u64 {
        match self {
            Self::Alone { state, .. } => state.stamp(now),
            Self::Beside { inode, state, .. } => inode.stamp_beside(state, shard, now),
        }
    }

    /// Names have changed, and so many more of them lead to directories; only a task that has all names changes these.
    pub(crate) fn changed(&mut self, shard: usize, time: u64, directories: i32) {
        match self {
            Self::Alone { inode, state } => {
                state.links = state.links.saturating_add_signed(directories);
                state.data_changed(time);
                if directories == 0 {
                    inode.count_change(state);
                }
            }
            Self::Beside { inode, .. } => inode.shares().note(shard, 0, time),
        }
    }
}
