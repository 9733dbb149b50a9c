//! Changes of one inode by several tasks at once: overwrites of a file, names of a directory.
//!
//! An inode is locked alone by what changes it, until that comes from several cores: then those changes that need not meet hold its
//! lock shared, and one of a finer kind alone.
//!
//! | | `State::shared` is false | it is true |
//! |---|---|---|
//! | overwrite | inode alone | inode shared, its granules alone |
//! | read of contents | inode shared | inode and granules shared |
//! | `stat`; access of a file | inode shared; for an access alone | inode shared |
//! | change of names | inode alone | inode shared, the buckets of the names alone |
//! | lookup | inode shared | inode shared, the bucket of the name alone |
//! | listing | inode shared | inode alone; others of them then share it |
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
//! as is the time of an access. A task that takes the inode alone collects them, and a `stat` reads them: the latest is
//! that of one moment, because times only become later. The number of names that a `stat` of a directory shows is no such: of a
//! rename that goes on it may have one half. Names need no order by ids. Times of two shards may be equal.
//!
//! Lock order: of an inode its lock, then its granules or buckets in ascending order, then the next inode (`locks.rs`).

use sim::sync::{AtomicU64, Contended, Ordering::Relaxed};
use sim::{Mutex, MutexGuard, ran};

use super::dir::{BUCKETS_A_SHARD, BUCKETS_MAX, Dir};
use crate::locks;

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
    /// Buckets of a directory that tasks share.
    pub(crate) fn buckets_of_dir(self) -> usize {
        (BUCKETS_A_SHARD * usize::from(self.shards)).next_power_of_two().min(BUCKETS_MAX)
    }

    /// Splits a directory that has become large, before there is much to distribute. The caller has it alone.
    pub(crate) fn split_large(self, dir: &Dir) {
        let buckets = self.buckets_of_dir();
        if self.buckets && dir.is_large(NAMES_A_BUCKET * buckets) {
            dir.split(buckets);
        }
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

/// The state of the tasks that share an inode.
#[derive(Debug)]
pub(crate) struct Shares {
    stamps: Box<[Contended<Stamps>]>,
    /// Of a directory: a lock for each bucket of names.
    buckets: Box<[Mutex<()>]>,
}

impl Shares {
    pub(crate) fn new(sharing: Sharing, is_dir: bool) -> Self {
        ran::allocate(2 + u64::from(is_dir));
        let buckets = if is_dir { sharing.buckets_of_dir() } else { 0 };
        Self {
            stamps: (0..sharing.shards).map(|_| Contended::new(&locks::STAMPS, Stamps::default())).collect(),
            buckets: (0..buckets).map(|_| Mutex::new(&locks::BUCKET, ())).collect(),
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

    /// The time of a shard's last access.
    pub(crate) fn access(&self, shard: usize) -> &AtomicU64 {
        &self.stamps[shard].touch().access
    }

    /// Locks a bucket.
    pub(crate) fn lock_bucket(&self, bucket: usize) -> MutexGuard<'_, ()> {
        self.buckets[bucket].lock()
    }

    /// The last id, time and access of all shards.
    pub(crate) fn last(&self) -> (u64, u64, u64) {
        self.collected(|_| ())
    }

    /// The same, which the shards then forget.
    pub(crate) fn take_last(&self) -> (u64, u64, u64) {
        self.collected(|stamps| {
            for word in [&stamps.id, &stamps.time, &stamps.access] {
                word.store(0, Relaxed);
            }
        })
    }

    /// The last id, time and access of all shards; each shard's is given to `each` besides.
    fn collected(&self, each: impl Fn(&Stamps)) -> (u64, u64, u64) {
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
