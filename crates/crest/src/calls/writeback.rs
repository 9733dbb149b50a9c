//! The background tasks that settle files with frames (`frames.rs`).
//!
//! | they work | until | on |
//! |---|---|---|
//! | fewer frames than `low` (5 %) are free | more than `high` (20 %) are | files of a shard's list, least recently written first |
//! | every `wake` (5 s) | no file is older than `dirty_age` (30 s) | the same |
//!
//! A file is chosen with its shard's list locked, and settled with its inode locked. In between a task may settle, write or drop
//! it: the file's buffer says whether it still is the one that was chosen. A file that was written since it was listed is listed
//! again, once where frames are short, and always where old files are looked for.
//!
//! No task waits for write-back: a writer that finds no frame settles its file itself. So a task that writes back may wait for any
//! lock of an inode.

use std::sync::Arc;

use sim::{Nanos, TaskSpec};

use super::Volume;
use crate::store::frames::Listed;

/// A file to look at.
struct Job {
    listed: Listed,
    ino: u64,
    /// When it was listed.
    since: Nanos,
    /// Files that were written before this are wanted; all of them where frames are short.
    before: Nanos,
}

/// Starts the tasks of a mount.
pub(crate) fn start(volume: &Arc<Volume>, tasks: u64) {
    let started = (0..tasks).map(|number| {
        let volume = Arc::clone(volume);
        let first = (number * volume.frames.shards() as u64 / tasks) as usize;
        // As a kernel thread without an affinity: it begins on a core, and wakes on a free one.
        let spec = TaskSpec::named(format!("crest writeback {number}")).on_core(number as u16);
        sim::spawn(spec.background().movable(), move || {
            while let Some(job) = volume.next_job(first) {
                let _op = sim::op(vfs::ops::WRITEBACK);
                volume.do_job(&job);
            }
        })
    });
    let started = started.collect();
    *volume.frames.tasks.lock() = started;
}

impl Volume {
    /// Waits for something to do; none when the pool is being unmounted. Lists are looked at from that of one shard on.
    fn next_job(&self, first: usize) -> Option<Job> {
        let mut pool = self.frames.pool();
        while !pool.stop {
            let now = sim::now();
            if now >= pool.next_round {
                pool.next_round = now + self.frames.settings.wake;
                pool.ages = true;
            }
            let before = match (pool.reclaims, pool.ages) {
                (true, _) => Nanos::MAX,
                (_, true) => Nanos(now.since(self.frames.settings.dirty_age).0),
                _ => Nanos::ZERO,
            };
            if before > Nanos::ZERO {
                drop(pool);
                if let Some(job) = self.choose(first, before) {
                    return Some(job);
                }
                pool = self.frames.pool();
            }
            (pool.reclaims, pool.ages) = (false, false);
            pool = self.frames.wait_for_work(pool);
        }
        None
    }

    fn choose(&self, first: usize, before: Nanos) -> Option<Job> {
        let shards = self.frames.shards();
        let found = (first..first + shards).find_map(|shard| self.frames.choose(shard % shards, before));
        let (listed, ino, since, more) = found?;
        if more {
            self.frames.pass_on();
        }
        Some(Job { listed, ino, since, before })
    }

    /// Settles a chosen file, unless it has been settled, dropped or written since it was listed.
    fn do_job(&self, job: &Job) {
        let Ok(inode) = self.inodes.get(job.ino) else { return };
        let mut file = inode.write();
        let Some(buffer) = file.buffer.as_deref_mut().filter(|buffer| buffer.listed == Some(job.listed))
        else {
            return;
        };
        let (written, is_wanted) = (buffer.written, job.before == Nanos::MAX);
        let was_written =
            if is_wanted { written > job.since && !buffer.spared } else { written >= job.before };
        if was_written {
            buffer.spared |= is_wanted;
            self.frames.list_again(job.listed, written);
        } else if self.write_back(&mut file).is_err() {
            // A medium that fails here fails under the next sync of the file, which reports it. Not at once again.
            self.frames.list_again(job.listed, sim::now());
            self.frames.pool().reclaims = false;
        }
    }
}
