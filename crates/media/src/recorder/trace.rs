//! Events kept: a trace to be replayed step by step, and the set of what was read.
//!
//! A test records once and looks afterwards: [`Replay::next_point`] moves a [`Persistency`] from crash point
//! to crash point (`docs/models/crash.md`): before and after every fence, after every call, after every
//! commit store. The completion of a flush, or of a write with FUA, is the fence of a block device.

use std::sync::Arc;

use parking_lot::Mutex;
use sim::ByteRun;

use super::lint::{Class, Describe, Lint, Rule};
use super::snapshot::{LINE, Snapshot};
use super::state::{Mode, Persistency, mask_of, overlaps};
use crate::block::WriteFlags;
use crate::event::{BlockEvent, Event, Mark, Promise, StoreKind, Tap, TaskId};
use crate::{MediaError, Region};

/// A [`Mark`] that owns what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedMark {
    /// See [`Mark::OpBegin`].
    OpBegin(&'static str),
    /// See [`Mark::OpEnd`].
    OpEnd(&'static str, Promise),
    /// See [`Mark::Commit`].
    Commit(u64, Vec<ByteRun>),
    /// See [`Mark::CommitBlock`].
    CommitBlock(u64, Vec<ByteRun>),
    /// See [`Mark::Free`]: offset, length, pointer.
    Free(u64, u64, u64),
    /// See [`Mark::RecoveryBegin`].
    RecoveryBegin,
    /// See [`Mark::RecoveryEnd`].
    RecoveryEnd,
}

/// A [`BlockEvent`] that owns what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBlockEvent {
    /// See [`BlockEvent::Write`]: request, offset, bytes, flags.
    Write(u64, u64, Box<[u8]>, WriteFlags),
    /// See [`BlockEvent::Discard`]: request, offset, length.
    Discard(u64, u64, u64),
    /// See [`BlockEvent::Flush`].
    Flush(u64),
    /// See [`BlockEvent::Complete`].
    Complete(u64),
}

impl OwnedBlockEvent {
    fn keep(event: BlockEvent<'_>) -> Self {
        match event {
            BlockEvent::Write { id, off, data, flags } => Self::Write(id, off, data.into(), flags),
            BlockEvent::Discard { id, off, len } => Self::Discard(id, off, len),
            BlockEvent::Flush { id } => Self::Flush(id),
            BlockEvent::Complete { id } => Self::Complete(id),
        }
    }

    fn as_event(&self) -> BlockEvent<'_> {
        match self {
            Self::Write(id, off, data, flags) => {
                BlockEvent::Write { id: *id, off: *off, data, flags: *flags }
            }
            Self::Discard(id, off, len) => BlockEvent::Discard { id: *id, off: *off, len: *len },
            Self::Flush(id) => BlockEvent::Flush { id: *id },
            Self::Complete(id) => BlockEvent::Complete { id: *id },
        }
    }
}

/// An [`Event`] that owns what it holds. Loads are not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedEvent {
    /// See [`Event::Store`].
    Store(u64, Box<[u8]>, StoreKind),
    /// See [`Event::NtStore`].
    NtStore(u64, Box<[u8]>),
    /// See [`Event::Flush`].
    Flush(u64, u64),
    /// See [`Event::Fence`].
    Fence,
    /// See [`Event::Block`].
    Block(OwnedBlockEvent),
    /// See [`Event::Mark`].
    Mark(OwnedMark),
}

impl OwnedEvent {
    fn keep(event: Event<'_>) -> Option<Self> {
        Some(match event {
            Event::Load { .. } => return None,
            Event::Store { off, data, kind } => Self::Store(off, data.into(), kind),
            Event::NtStore { off, data } => Self::NtStore(off, data.into()),
            Event::Flush { off, len } => Self::Flush(off, len),
            Event::Fence => Self::Fence,
            Event::Block(event) => Self::Block(OwnedBlockEvent::keep(event)),
            Event::Mark(mark) => Self::Mark(match mark {
                Mark::OpBegin(op) => OwnedMark::OpBegin(op),
                Mark::OpEnd(op, promise) => OwnedMark::OpEnd(op, promise),
                Mark::Commit { at, needs } => OwnedMark::Commit(at, needs.to_vec()),
                Mark::CommitBlock { at, needs } => OwnedMark::CommitBlock(at, needs.to_vec()),
                Mark::Free { off, len, pointer } => OwnedMark::Free(off, len, pointer),
                Mark::RecoveryBegin => OwnedMark::RecoveryBegin,
                Mark::RecoveryEnd => OwnedMark::RecoveryEnd,
            }),
        })
    }

    /// As it was told.
    pub(crate) fn as_event(&self) -> Event<'_> {
        match self {
            Self::Store(off, data, kind) => Event::Store { off: *off, data, kind: *kind },
            Self::NtStore(off, data) => Event::NtStore { off: *off, data },
            Self::Flush(off, len) => Event::Flush { off: *off, len: *len },
            Self::Fence => Event::Fence,
            Self::Block(event) => Event::Block(event.as_event()),
            Self::Mark(mark) => Event::Mark(match mark {
                OwnedMark::OpBegin(op) => Mark::OpBegin(op),
                OwnedMark::OpEnd(op, promise) => Mark::OpEnd(op, *promise),
                OwnedMark::Commit(at, needs) => Mark::Commit { at: *at, needs },
                OwnedMark::CommitBlock(at, needs) => Mark::CommitBlock { at: *at, needs },
                OwnedMark::Free(off, len, pointer) => Mark::Free { off: *off, len: *len, pointer: *pointer },
                OwnedMark::RecoveryBegin => Mark::RecoveryBegin,
                OwnedMark::RecoveryEnd => Mark::RecoveryEnd,
            }),
        }
    }
}

/// A tap that keeps every event but loads.
#[derive(Debug)]
pub struct Trace {
    base: Snapshot,
    events: Mutex<Vec<(TaskId, OwnedEvent)>>,
}

impl Trace {
    /// Begins a trace of a region whose present content counts as guaranteed.
    pub fn attach(region: &Region) -> Result<Arc<Self>, MediaError> {
        Ok(Self::attach_at(region, Snapshot::of(region)?))
    }

    /// The same where the present content is known: a region need not be copied to be traced.
    pub fn attach_at(region: &Region, content: Snapshot) -> Arc<Self> {
        let trace = Arc::new(Self { base: content, events: Mutex::default() });
        region.attach(Arc::clone(&trace) as Arc<dyn Tap>);
        trace
    }

    /// Everything so far, to be replayed from the start.
    pub fn replay(&self, mode: Mode) -> Replay {
        let state = Persistency::new(self.base.clone(), mode);
        Replay {
            state,
            events: self.events.lock().clone(),
            next: 0,
            before_fence: false,
            committing: Vec::new(),
            ended: false,
        }
    }
}

impl Tap for Trace {
    fn event(&self, task: TaskId, event: Event<'_>) {
        if let Some(event) = OwnedEvent::keep(event) {
            self.events.lock().push((task, event));
        }
    }
}

/// Where a replay has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A fence comes next: everything that it would order is in flight.
    BeforeFence,
    /// A fence has just completed.
    AfterFence,
    /// A call has returned.
    OpEnd,
    /// A commit store was made.
    AfterCommit,
    /// The trace ends, and a block device has not guaranteed all that was written.
    End,
}

/// A trace being replayed.
#[derive(Debug)]
pub struct Replay {
    state: Persistency,
    events: Vec<(TaskId, OwnedEvent)>,
    next: usize,
    /// The next event is a fence that has been announced.
    before_fence: bool,
    /// Commit stores that are to come.
    committing: Vec<(TaskId, u64)>,
    /// The end was told.
    ended: bool,
}

impl Replay {
    /// The state where the replay has stopped.
    pub fn state(&self) -> &Persistency {
        &self.state
    }

    /// How many events have been replayed: the name of a crash point.
    pub fn position(&self) -> usize {
        self.next
    }

    /// Goes on to the next crash point, and shows every event on the way before it takes effect. None at the
    /// end.
    pub fn next_point(&mut self, mut seen: impl FnMut(TaskId, Event<'_>)) -> Option<Point> {
        while let Some((task, event)) = self.events.get(self.next) {
            let (task, event) = (*task, event.as_event());
            let fence = self.is_fence(event);
            if fence && !self.before_fence {
                self.before_fence = true;
                return Some(Point::BeforeFence);
            }
            self.before_fence = false;
            seen(task, event);
            self.state.apply(task, event);
            let point =
                if fence { Some(Point::AfterFence) } else { point_after(&mut self.committing, task, event) };
            self.next += 1;
            if point.is_some() {
                return point;
            }
        }
        let in_flight = self.state.sectors_in_flight().next().is_some();
        (in_flight && !std::mem::replace(&mut self.ended, true)).then_some(Point::End)
    }

    /// Whether an event that comes next makes something guaranteed.
    fn is_fence(&self, event: Event<'_>) -> bool {
        match event {
            Event::Fence => true,
            Event::Block(BlockEvent::Complete { id }) => self.state.is_barrier(id),
            _ => false,
        }
    }
}

fn point_after(committing: &mut Vec<(TaskId, u64)>, task: TaskId, event: Event<'_>) -> Option<Point> {
    match event {
        Event::Mark(Mark::OpEnd(..)) => Some(Point::OpEnd),
        Event::Mark(Mark::Commit { at, .. } | Mark::CommitBlock { at, .. }) => {
            committing.retain(|(other, _)| *other != task);
            committing.push((task, at));
            None
        }
        Event::Store { off, data, .. }
        | Event::NtStore { off, data }
        | Event::Block(BlockEvent::Write { off, data, .. }) => {
            let before = committing.len();
            committing.retain(|(other, at)| *other != task || !overlaps(*at, 8, off, data.len() as u64));
            (committing.len() < before).then_some(Point::AfterCommit)
        }
        _ => None,
    }
}

/// A tap that knows which bytes a recovery read before it had written them itself: those that it found. A
/// recovery is what happens between its marks.
#[derive(Debug)]
pub struct ReadSet {
    found: Mutex<Found>,
}

#[derive(Debug)]
struct Found {
    recovering: bool,
    /// For each line, a bit for each byte: read as the crash left it; written since.
    lines: Vec<(u64, u64)>,
}

impl ReadSet {
    /// Nothing read yet of a region of `len` bytes.
    pub fn new(len: u64) -> Self {
        let lines = vec![(0, 0); len.div_ceil(LINE) as usize];
        Self { found: Mutex::new(Found { recovering: false, lines }) }
    }

    /// Forgets what was read and written.
    pub fn clear(&self) {
        let found = &mut *self.found.lock();
        found.recovering = false;
        found.lines.fill((0, 0));
    }

    /// Whether any byte of the range was read.
    pub fn touches(&self, off: u64, len: u64) -> bool {
        let found = self.found.lock();
        let mut masks = masks(off, len);
        masks.any(|(line, mask)| found.lines.get(line).is_some_and(|(read, _)| read & mask != 0))
    }

    /// L8: of the bytes that a crash did not guarantee, those that were read. Data is not judged.
    pub fn lints(&self, unguaranteed: &[ByteRun], describe: Option<&Describe>) -> Vec<Lint> {
        let read = unguaranteed.iter().filter(|run| self.touches(run.at, run.len));
        let lints = read.filter_map(|run| {
            let structure = describe.map(|describe| describe(run.at)).unwrap_or_default();
            (structure.class == Class::Metadata).then_some(Lint {
                rule: Rule::ReadOfLuck,
                op: "recovery",
                task: 0,
                offset: run.at,
                len: run.len,
                structure: structure.name,
                count: 1,
            })
        });
        lints.collect()
    }
}

impl Tap for ReadSet {
    fn event(&self, _: TaskId, event: Event<'_>) {
        let found = &mut *self.found.lock();
        match event {
            Event::Mark(Mark::RecoveryBegin) => found.recovering = true,
            Event::Mark(Mark::RecoveryEnd) => found.recovering = false,
            Event::Load { off, len } if found.recovering => {
                found.note(off, len, |read, written, mask| (read | mask & !written, written));
            }
            Event::Store { off, data, .. }
            | Event::NtStore { off, data }
            | Event::Block(BlockEvent::Write { off, data, .. })
                if found.recovering =>
            {
                found.note(off, data.len() as u64, |read, written, mask| (read, written | mask));
            }
            _ => {}
        }
    }

    fn hears_loads(&self) -> bool {
        true
    }
}

impl Found {
    fn note(&mut self, off: u64, len: u64, change: impl Fn(u64, u64, u64) -> (u64, u64)) {
        for (line, mask) in masks(off, len) {
            if let Some((read, written)) = self.lines.get_mut(line) {
                (*read, *written) = change(*read, *written, mask);
            }
        }
    }
}

/// The lines that hold bytes of the range, each with a bit for each of these bytes.
fn masks(off: u64, len: u64) -> impl Iterator<Item = (usize, u64)> {
    let lines = off / LINE..if len == 0 { off / LINE } else { (off + len).div_ceil(LINE) };
    lines.map(move |line| (line as usize, mask_of(line, off, len)))
}

/// Number of lines that hold a byte of the range.
pub(super) fn lines_of(off: u64, len: u64) -> u64 {
    (off + len).div_ceil(LINE) - off / LINE
}
