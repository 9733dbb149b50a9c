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
use trace::call::Op;
use trace::compile::Step;
use trace::contents::Sample;

use super::story::{CallInfo, Done, Inode, Slice, StoryError, When};
use super::walk::Walk;

/// A page, in which stores are found.
const PAGE: u64 = 4096;

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

impl Mapped {
    pub(super) fn new(samples: &[Sample]) -> Self {
        Self { samples: samples.iter().cloned().collect(), ..Self::default() }
    }

    /// A file is mapped.
    pub(super) fn add(&mut self, path: &str, inode: Inode) {
        self.files.insert(path.as_bytes().into(), inode);
    }

    /// A call of a thread begins: what it syncs of mapped files.
    pub(super) fn syncs(&mut self, step: &Step, of_fd: Option<Inode>) {
        let after = self.just.remove(&step.thread);
        let all = match step.call.op {
            Op::Fsync | Op::Fdatasync | Op::Msync => of_fd.into_iter().collect::<Vec<_>>(),
            Op::Sync | Op::Syncfs => self.files.values().copied().collect(),
            _ => return,
        };
        let is_mapped = |inode: &Inode| self.files.values().any(|known| known == inode);
        let new: Vec<Inode> =
            all.into_iter().filter(is_mapped).filter(|inode| after != Some(*inode)).collect();
        self.synced.extend(new);
        if let (Op::Msync, Some(inode)) = (step.call.op, of_fd) {
            self.just.insert(step.thread, inode);
        }
    }
}

impl Walk<'_> {
    /// Takes the samples of a moment, before which so many calls had ended, as deeds just before `at_ns`.
    pub(super) fn samples(&mut self, step: Option<&Step>, calls: u64, at_ns: u64) -> Result<(), StoryError> {
        while let Some(sample) = self.mapped.samples.pop_front() {
            if sample.calls > calls {
                self.mapped.samples.push_front(sample);
                return Ok(());
            }
            let Some(inode) = self.mapped.files.get(&sample.path).copied() else { continue };
            let stored = self.stored(inode, &sample)?;
            let was_synced = self.mapped.synced.remove(&inode);
            if was_synced && !stored.is_empty() && self.mapped.lost.insert(inode) {
                let path = self.shown(inode);
                self.story.notes.push(format!(
                    "{path} was synced while it was mapped, and no look is of that moment: what was stored in it is not known"
                ));
            }
            if !self.mapped.lost.contains(&inode) {
                self.stores(inode, &stored, (step, at_ns));
            }
        }
        Ok(())
    }

    /// The parts of a sample that no call has written, to whole pages.
    fn stored(&self, inode: Inode, sample: &Sample) -> Result<Vec<(u64, Slice)>, StoryError> {
        let mut all: Vec<(u64, Slice)> = Vec::new();
        for (offset, blob) in &sample.parts {
            let bytes = self.contents.read(*blob)?;
            let known = self.bytes_of(inode, *offset, bytes.len() as u64)?;
            for start in (0..bytes.len() as u64).step_by(PAGE as usize) {
                let end = (start + PAGE).min(bytes.len() as u64);
                let range = start as usize..end as usize;
                if bytes[range.clone()] == known[range] {
                    continue;
                }
                match all.last_mut() {
                    Some((at, last)) if *at + last.len == offset + start => last.len += end - start,
                    _ => all.push((offset + start, Slice { blob: *blob, start, len: end - start })),
                }
            }
        }
        Ok(all)
    }

    fn stores(&mut self, inode: Inode, stored: &[(u64, Slice)], (step, at_ns): (Option<&Step>, u64)) {
        for (offset, bytes) in stored {
            let mut deeds = Vec::new();
            self.write(inode, *offset, *bytes, false, &mut deeds);
            let path = self.shown(inode);
            self.story.calls.push(CallInfo {
                name: "store",
                paths: [Some(path), None],
                range: Some((*offset, offset + bytes.len)),
                thread: step.map_or(1, |step| step.thread),
                line: step.map_or(0, |step| step.line),
                begin_ns: at_ns,
                end_ns: at_ns,
                stack: Vec::new(),
            });
            let call = self.story.calls.len() as u32 - 1;
            self.story.deeds.extend(deeds.into_iter().map(|deed| Done { call, deed }));
        }
    }

    /// Before a call that has returned: what it shows of mappings.
    pub(super) fn before_call(&mut self, step: &Step, when: Option<When>) -> Result<(), StoryError> {
        let of_fd = match step.call.op {
            Op::Msync => self.mappings.get(&i64::from(step.call.mode)).map(|(inode, _)| *inode),
            _ => self.file(step.call.fd).map(|(_, open)| open.inode),
        };
        if let (Op::Msync, Some(when)) = (step.call.op, when) {
            let is_next = |sample: &Sample| sample.calls + 1 == when.number;
            let is_sampled = self.mapped.samples.front().is_some_and(is_next);
            self.samples(Some(step), when.number - 1, when.begin_ns.saturating_sub(1))?;
            if is_sampled {
                self.mapped.just.extend(of_fd.map(|inode| (step.thread, inode)));
            }
        }
        self.mapped.syncs(step, of_fd);
        Ok(())
    }
}
