//! The state of every line in flight (`docs/models/crash.md`).
//!
//! A line in flight is a list of entries in program order: what a store wrote into it, as bytes under a mask.
//! An entry consists of pieces of 8 aligned bytes; `whole` entries (words, pairs) are one piece. Lines that
//! hold nothing but guaranteed bytes are not listed.
//!
//! ```text
//!   base (guaranteed)   entry 1    entry 2    entry 3
//!                       │◄── a flush by task T covers these ──►│   T's fence moves them into the base
//! ```
//!
//! When an entry becomes guaranteed, older entries lose the bytes that it covers: they can no longer be what
//! a crash leaves there.

use std::collections::BTreeMap;

use super::crash_point::CrashPoint;
use super::sectors::Sectors;
use super::snapshot::{LINE, LineBytes, Snapshot};
use crate::event::{BlockEvent, Event, Mark, StoreKind, TaskId};

/// Which parts of the machine survive a power loss; the tables in the header of [`super`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Memory controllers persist, caches do not.
    #[default]
    Adr,
    /// Caches persist too (also: a global persistent flush that completes), those of block devices included.
    Eadr,
    /// As `Adr`; a line in flight may be unreadable afterwards.
    Poison,
}

/// What one store wrote into one line.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) seq: u64,
    pub(super) task: TaskId,
    /// Past the cache; entries of one contiguous copy have the same number.
    pub(super) run: Option<u64>,
    /// One piece, whatever it covers.
    pub(super) whole: bool,
    pub(super) commit: bool,
    /// A later commit store in its line makes it count: where that persists, this does too.
    pub(super) vouched: bool,
    /// A bit for each byte that is written.
    pub(super) mask: u64,
    pub(super) data: LineBytes,
}

impl Entry {
    /// Of `task`, and nothing else yet.
    fn by(task: TaskId) -> Self {
        Self {
            seq: 0,
            task,
            run: None,
            whole: false,
            commit: false,
            vouched: false,
            mask: 0,
            data: [0; LINE as usize],
        }
    }

    /// Masks of its pieces, in the order of addresses.
    pub(super) fn pieces(&self) -> impl Iterator<Item = u64> {
        let (mask, whole) = (self.mask, self.whole);
        let piece = move |word| match (whole, word) {
            (false, word) => mask & 0xff << (8 * word),
            (true, 0) => mask,
            (true, _) => 0,
        };
        (0..8).map(piece).filter(|piece| *piece != 0)
    }

    pub(super) fn apply(&self, mask: u64, line: &mut LineBytes) {
        for (index, byte) in line.iter_mut().enumerate() {
            if mask >> index & 1 == 1 {
                *byte = self.data[index];
            }
        }
    }
}

/// A line in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) entries: Vec<Entry>,
    /// Tasks that have flushed the line, and the last entry that the flush covered.
    pub(super) flushes: Vec<(TaskId, u64)>,
}

impl Line {
    /// Whether bytes of the range are in flight in this line, which is line `number`.
    fn covers(&self, number: u64, off: u64, len: u64) -> bool {
        let covered = self.entries.iter().fold(0, |mask, entry| mask | entry.mask);
        covered & mask_of(number, off, len) != 0
    }

    /// While a non-temporal entry is pending, pieces do not persist in order.
    pub(super) fn is_unordered(&self) -> bool {
        self.entries.iter().any(|entry| entry.run.is_some())
    }

    /// The newest entry that came through the cache.
    pub(super) fn newest_cached(&self) -> Option<u64> {
        self.entries.iter().rev().find(|entry| entry.run.is_none()).map(|entry| entry.seq)
    }

    /// The last entry that a pending flush of `task` covers.
    pub(super) fn flushed_by(&self, task: TaskId) -> Option<u64> {
        self.flushes.iter().find(|(other, _)| *other == task).map(|(_, upto)| *upto)
    }

    /// The last entry that any pending flush covers.
    pub(super) fn flushed(&self) -> Option<u64> {
        self.flushes.iter().map(|(_, upto)| *upto).max()
    }

    fn flush(&mut self, task: TaskId, upto: u64) {
        self.flushes.retain(|(other, _)| *other != task);
        self.flushes.push((task, upto));
    }

    /// Moves the entries that `is_durable` into `base`, and takes the bytes that they cover out of older
    /// entries.
    fn settle(&mut self, base: &mut LineBytes, is_durable: impl Fn(&Entry) -> bool) {
        let mut kept: Vec<Entry> = Vec::new();
        for entry in self.entries.drain(..) {
            if is_durable(&entry) {
                entry.apply(entry.mask, base);
                for older in &mut kept {
                    older.mask &= !entry.mask;
                }
                kept.retain(|older| older.mask != 0);
            } else {
                kept.push(entry);
            }
        }
        self.entries = kept;
        let oldest =
            self.entries.iter().find(|entry| entry.run.is_none()).map_or(u64::MAX, |entry| entry.seq);
        self.flushes.retain(|(_, upto)| *upto >= oldest);
    }
}

/// How far a line in flight has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// Stored, not flushed.
    Dirty,
    /// Flushed or stored past the cache, not fenced.
    Unfenced,
}

/// A line in flight, as reports and lints see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineReport {
    /// Its first byte.
    pub offset: u64,
    /// The least durable of its entries.
    pub durability: Durability,
    /// Pieces that a crash may or may not leave.
    pub pieces: usize,
}

/// What a task has under way.
#[derive(Clone, Debug, Default)]
struct TaskState {
    /// Lines that it has flushed since its last fence.
    flushed: Vec<u64>,
    /// Lines that it has stored to past the cache since its last fence.
    streamed: Vec<u64>,
    /// The copy past the cache that it is in: its number and the offset where it would go on.
    run: Option<(u64, u64)>,
    commit: Option<Announced>,
}

/// A commit store to come.
#[derive(Clone, Copy, Debug)]
struct Announced {
    at: u64,
    /// Bytes of its line that it needs.
    own: u64,
}

/// What is guaranteed, what is not: moved on by events.
#[derive(Clone, Debug)]
pub struct Persistency {
    pub(super) base: Snapshot,
    pub(super) lines: BTreeMap<u64, Line>,
    /// Of the block device on the same storage.
    pub(super) sectors: Sectors,
    tasks: BTreeMap<TaskId, TaskState>,
    pub(super) mode: Mode,
    seq: u64,
}

impl Persistency {
    /// All of `base` is guaranteed.
    pub fn new(base: Snapshot, mode: Mode) -> Self {
        let (lines, sectors) = Default::default();
        Self { base, lines, sectors, tasks: BTreeMap::new(), mode, seq: 0 }
    }

    /// Lines in flight, in the order of offsets.
    pub fn in_flight(&self) -> impl Iterator<Item = LineReport> {
        self.lines.iter().map(|(number, line)| {
            let flushed = line.flushed();
            let dirty = line.entries.iter().any(|entry| entry.run.is_none() && Some(entry.seq) > flushed);
            LineReport {
                offset: number * LINE,
                durability: if dirty { Durability::Dirty } else { Durability::Unfenced },
                pieces: line.entries.iter().map(|entry| entry.pieces().count()).sum(),
            }
        })
    }

    /// Sectors of a block device that are not guaranteed: first byte, and the versions that a crash may leave
    /// beside the guaranteed one.
    pub fn sectors_in_flight(&self) -> impl Iterator<Item = (u64, usize)> {
        self.sectors.in_flight()
    }

    /// Whether the completion of a request of a block device guarantees anything: a flush, a write with FUA.
    pub(super) fn is_barrier(&self, request: u64) -> bool {
        self.sectors.is_barrier(request, self.mode == Mode::Eadr)
    }

    /// Whether every byte of the range is guaranteed.
    pub fn is_guaranteed(&self, off: u64, len: u64) -> bool {
        !self.sectors.covers(off, len) && !self.has_lines_in_flight(off, len)
    }

    fn has_lines_in_flight(&self, off: u64, len: u64) -> bool {
        self.lines_of(off, len).any(|(number, line)| line.covers(number, off, len))
    }

    /// Whether a commit store to `at` may make the range reachable: it is guaranteed, or persists before the
    /// commit store does.
    pub(super) fn is_ready_for_commit(&self, at: u64, off: u64, len: u64) -> bool {
        let in_order = |number, line: &Line| number == at / LINE && !line.is_unordered();
        let late = |number, line: &Line| line.covers(number, off, len) && !in_order(number, line);
        !self.sectors.covers(off, len) && !self.lines_of(off, len).any(|(number, line)| late(number, line))
    }

    fn lines_of(&self, off: u64, len: u64) -> impl Iterator<Item = (u64, &Line)> {
        let end = if len == 0 { off / LINE } else { (off + len).div_ceil(LINE) };
        self.lines.range(off / LINE..end).map(|(number, line)| (*number, line))
    }

    /// What a crash now may leave.
    pub fn crash_point(&self) -> CrashPoint {
        CrashPoint::new(self)
    }

    /// Whether `task` has anything that its next fence would complete.
    pub(super) fn has_pending(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(|state| !state.flushed.is_empty() || !state.streamed.is_empty())
    }

    /// Where the commit store that `task` has announced will go.
    pub(super) fn announced_commit(&self, task: TaskId) -> Option<u64> {
        self.tasks.get(&task).and_then(|state| state.commit).map(|commit| commit.at)
    }

    /// Moves on by one event.
    pub fn apply(&mut self, task: TaskId, event: Event<'_>) {
        match event {
            Event::Store { off, data, kind } => self.store(task, off, data, kind),
            Event::NtStore { off, data } => self.stream(task, off, data),
            Event::Flush { off, len } => self.flush(task, off, len),
            Event::Fence => self.fence(task),
            Event::Mark(Mark::Commit { at, needs }) => {
                let own = needs.iter().fold(0, |mask, run| mask | mask_of(at / LINE, run.at, run.len));
                self.tasks.entry(task).or_default().commit = Some(Announced { at, own });
            }
            Event::Block(event) => {
                if let BlockEvent::Write { off, data, .. } = event
                    && let Some(state) = self.tasks.get_mut(&task)
                {
                    state.commit.take_if(|commit| overlaps(commit.at, 8, off, data.len() as u64));
                }
                self.sectors.apply(&mut self.base, event, self.mode == Mode::Eadr);
            }
            Event::Load { .. } | Event::Mark(_) => {}
        }
    }

    fn store(&mut self, task: TaskId, off: u64, data: &[u8], kind: StoreKind) {
        let state = self.tasks.entry(task).or_default();
        state.run = None;
        let commit = state.commit.take_if(|commit| overlaps(commit.at, 8, off, data.len() as u64));
        if let Some(line) = commit.and_then(|commit| self.lines.get_mut(&(commit.at / LINE))) {
            let own = commit.map_or(0, |commit| commit.own);
            let older = line.entries.iter_mut().filter(|entry| entry.run.is_none() && entry.mask & !own == 0);
            older.for_each(|entry| entry.vouched = true);
        }
        let (whole, commit) = (kind != StoreKind::Bytes, commit.is_some());
        self.append(off, data, &Entry { whole, commit, ..Entry::by(task) });
    }

    fn stream(&mut self, task: TaskId, off: u64, data: &[u8]) {
        let state = self.tasks.entry(task).or_default();
        let run = match state.run {
            Some((run, end)) if end == off => run,
            _ => self.seq,
        };
        state.run = Some((run, off + data.len() as u64));
        state.streamed.extend(off / LINE..(off + data.len() as u64).div_ceil(LINE));
        let commit = state.commit.take_if(|commit| overlaps(commit.at, 8, off, data.len() as u64)).is_some();
        self.append(off, data, &Entry { run: Some(run), commit, ..Entry::by(task) });
    }

    /// Appends an entry like `like` to every line of the range.
    fn append(&mut self, off: u64, data: &[u8], like: &Entry) {
        let end = off + data.len() as u64;
        for number in off / LINE..end.div_ceil(LINE) {
            let (from, to) = (off.max(number * LINE), end.min(number * LINE + LINE));
            let at = (from - number * LINE) as usize;
            let bytes = &data[(from - off) as usize..(to - off) as usize];
            let mut entry = Entry { seq: self.seq, mask: mask_of(number, from, to - from), ..like.clone() };
            entry.data[at..at + bytes.len()].copy_from_slice(bytes);
            self.lines.entry(number).or_default().entries.push(entry);
            self.seq += 1;
        }
    }

    fn flush(&mut self, task: TaskId, off: u64, len: u64) {
        let state = self.tasks.entry(task).or_default();
        state.run = None;
        for (number, line) in self.lines.range_mut(off / LINE..(off + len).div_ceil(LINE)) {
            if let Some(newest) = line.newest_cached() {
                line.flush(task, newest);
                state.flushed.push(*number);
            }
        }
    }

    fn fence(&mut self, task: TaskId) {
        let Some(state) = self.tasks.get_mut(&task) else { return };
        state.run = None;
        let mut numbers = std::mem::take(&mut state.flushed);
        numbers.append(&mut state.streamed);
        let all_cached = self.mode == Mode::Eadr;
        if all_cached {
            numbers = self.lines.keys().copied().collect();
        }
        for number in numbers {
            self.settle(number, task, all_cached);
        }
    }

    fn settle(&mut self, number: u64, task: TaskId, all_cached: bool) {
        let Some(line) = self.lines.get_mut(&number) else { return };
        let upto = if all_cached { Some(u64::MAX) } else { line.flushed_by(task) };
        let mut base = self.base.line(number);
        line.settle(&mut base, |entry| match entry.run {
            Some(_) => entry.task == task,
            None => Some(entry.seq) <= upto,
        });
        if line.entries.is_empty() {
            self.lines.remove(&number);
        }
        self.base.set_line(number, &base);
    }
}

/// The bytes of line `number` that lie in the range, as a mask.
pub(super) fn mask_of(number: u64, off: u64, len: u64) -> u64 {
    let (from, to) = (off.max(number * LINE), (off + len).min(number * LINE + LINE));
    if from >= to {
        return 0;
    }
    let (from, to) = (from - number * LINE, to - number * LINE);
    (u64::MAX >> (64 - (to - from))) << from
}

pub(super) fn overlaps(a: u64, a_len: u64, b: u64, b_len: u64) -> bool {
    a < b + b_len && b < a + a_len
}
