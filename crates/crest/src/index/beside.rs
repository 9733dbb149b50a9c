//! Changes that tasks make beside each other of an inode that they share (`sharing.rs`).

use std::ops::Deref;

use sim::MutexGuard;
use sim::sync::Ordering::Relaxed;

use super::inode::{Body, Changing, Inode, Reading, State, now};
use base::error::Result;

impl Inode {
    /// Notes an access of a file that tasks share; false where it must be locked alone.
    pub(crate) fn accessed_beside(&self) -> Result<bool> {
        if self.is_dir || !self.shared.load(Relaxed) {
            return Ok(false);
        }
        let state = self.reading()?;
        if state.shared {
            let shard = usize::from(sim::core()) % usize::from(self.sharing.shards);
            self.shares().access(shard).fetch_max(now(), Relaxed);
        }
        Ok(state.shared)
    }

    /// A change was made alone that tasks make beside each other where they share the inode.
    pub(crate) fn count_change(&self, state: &mut State) {
        if let Body::Dir(dir) = &state.body {
            self.sharing.split_large(dir);
        }
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
        Ok(Some(self.shares().lock_bucket(bucket)))
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
        let lock = |bucket: usize| self.shares().lock_bucket(bucket);
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
