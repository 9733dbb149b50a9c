//! What a program stores through writable shared mappings, as far as samples show it: the recorder has looked at the file when an
//! msync of it had returned, and when everything had ended.
//!
//! What differs from what the calls have written was stored at some moment since the last sample. It is taken as one deed just
//! before the msync: later than any store of it, so that no state here has a store which the program had not made. States that have
//! it earlier are missing, and so are values which write-back saw between two samples; that is why a file so mapped stays "not
//! judged".
//!
//! Another sync of such a file (fsync, fdatasync, sync, an msync without a sample) covers stores which no sample tells from later
//! ones. Where it does not follow an msync at once, and the next sample differs, what was stored is not known from there on, and
//! the file has no deeds of stores.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};
use trace::contents::Sample;

/// A page, in which stores are found.
const PAGE: u64 = 4096;

/// The number of an inode.
type Inode = u32;

/// Keeps what is known of mapped files.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    samples: VecDeque<Sample>,
    /// Files with writable shared mappings, by their path at the time.
    files: FxHashMap<Box<[u8]>, Inode>,
    /// Those that were synced since their last sample.
    synced: FxHashSet<Inode>,
    /// Those whose stores are not known any more.
    lost: FxHashSet<Inode>,
    /// The file of the last msync of each thread, until its next call.
    just: FxHashMap<u32, Inode>,
}

/// Whether the stores that a sample shows are known to be later than the sync before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stores {
    /// They are.
    Known,
    /// They are not, from this sample on.
    LostNow,
    /// Nor were they before.
    Lost,
}

impl Mapped {
    pub(super) fn new(samples: &[Sample]) -> Self {
        Self { samples: samples.iter().cloned().collect(), ..Self::default() }
    }

    /// A file is mapped for writing.
    pub(super) fn maps(&mut self, path: &str, inode: Inode) {
        self.files.insert(path.as_bytes().into(), inode);
    }

    /// The next sample that was taken when so many calls had ended, and its file.
    pub(super) fn next_until(&mut self, calls: u64) -> Option<(Inode, Sample)> {
        while self.samples.front().is_some_and(|sample| sample.calls <= calls) {
            let sample = self.samples.pop_front()?;
            if let Some(inode) = self.files.get(&sample.path) {
                return Some((*inode, sample));
            }
        }
        None
    }

    /// A sample of a file was taken; whether it shows stores.
    pub(super) fn sampled(&mut self, inode: Inode, shows: bool) -> Stores {
        let was_synced = self.synced.remove(&inode);
        match self.lost.contains(&inode) {
            true => Stores::Lost,
            false if was_synced && shows => {
                self.lost.insert(inode);
                Stores::LostNow
            }
            false => Stores::Known,
        }
    }

    /// A thread makes a call; `syncs`: files that it syncs (none: all of them), without a sample.
    pub(super) fn calls(&mut self, thread: u32, syncs: Option<&[Inode]>) {
        let after = self.just.remove(&thread);
        let is_covered = |inode: &Inode| syncs.is_none_or(|own| own.contains(inode));
        let files = self.files.values().filter(|inode| is_covered(inode) && after != Some(**inode));
        self.synced.extend(files);
    }

    /// A thread has made an msync of a file that was sampled then: another sync at once has no more to cover.
    pub(super) fn msynced(&mut self, thread: u32, inode: Inode) {
        self.just.insert(thread, inode);
    }
}

/// The parts of `now`, which is at an offset of a file, that differ from what was `known`, to whole pages: their offsets in the
/// file, and where they are in `now`.
pub(super) fn differing(offset: u64, now: &[u8], known: &[u8]) -> Vec<(u64, std::ops::Range<u64>)> {
    let mut all: Vec<(u64, std::ops::Range<u64>)> = Vec::new();
    for start in (0..now.len() as u64).step_by(PAGE as usize) {
        let end = (start + PAGE).min(now.len() as u64);
        let range = start as usize..end as usize;
        if now[range.clone()] == known[range] {
            continue;
        }
        match all.last_mut() {
            Some((_, last)) if last.end == start => last.end = end,
            _ => all.push((offset + start, start..end)),
        }
    }
    all
}
