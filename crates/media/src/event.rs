//! The event tap: everything that reaches a region or a block device, as one stream.
//!
//! The crash explorer, the statistics and the hardware simulator read the same events. The tap is always
//! compiled: what is tested is what ships. While nothing listens it costs one predictable branch for each
//! store, flush and fence, and none for a load (the bounds check leads to it). Loads are the most frequent
//! and the least wanted: only a tap that asks for them is told.
//!
//! | event | told | carries |
//! |---|---|---|
//! | [`Event::Load`] | before the bytes are read, to taps that hear loads | the range |
//! | [`Event::Store`], [`Event::NtStore`] | after the bytes are in place | the range and the new bytes |
//! | [`Event::Flush`], [`Event::Fence`] | after the instruction | the range |
//! | [`Event::Block`] | a request was submitted to a block device, or its completion waited for | the request |
//! | [`Event::Mark`] | where the design says so | what the design is doing |
//!
//! Events of one task come in its program order; events of several tasks interleave as they happen. An access
//! that fails tells nothing.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use sim::ByteRun;

use crate::block::WriteFlags;
use crate::fault::Target;

/// The line of a source file that asks for a flush or a fence.
pub type Site = &'static Location<'static>;

/// Which task did it: numbers are unique among the tasks that are alive.
pub type TaskId = u32;

/// What a store through the cache is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// Bytes: becomes visible in pieces of at most 8 aligned bytes, in the order of addresses.
    Bytes,
    /// One aligned word of up to 8 bytes: one piece.
    Word,
    /// Two words in 16 aligned bytes, stored at once (`cmpxchg16b`): one piece.
    Pair,
}

/// Something that happened to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Bytes are read.
    Load {
        /// First byte.
        off: u64,
        /// Length.
        len: u64,
    },
    /// Bytes were stored through the cache.
    Store {
        /// First byte.
        off: u64,
        /// The new bytes.
        data: &'a [u8],
        /// How.
        kind: StoreKind,
    },
    /// Whole aligned 8-byte words were stored past the cache.
    NtStore {
        /// First byte, a multiple of 8.
        off: u64,
        /// The new bytes, a multiple of 8.
        data: &'a [u8],
    },
    /// The lines that hold these bytes are being written back.
    Flush {
        /// First byte.
        off: u64,
        /// Length.
        len: u64,
    },
    /// The task's earlier flushes and non-temporal stores are complete.
    Fence,
    /// Something happened to a block device.
    Block(BlockEvent<'a>),
    /// What the design says about itself.
    Mark(Mark<'a>),
}

/// Something that happened to a block device. Reads are told as [`Event::Load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockEvent<'a> {
    /// A write was submitted.
    Write {
        /// Number of the request, unique on its device and rising.
        id: u64,
        /// First byte.
        off: u64,
        /// The new bytes.
        data: &'a [u8],
        /// FUA, and what the device was told beside.
        flags: WriteFlags,
    },
    /// A discard was submitted.
    Discard {
        /// Number of the request.
        id: u64,
        /// First byte.
        off: u64,
        /// Length.
        len: u64,
    },
    /// A flush was submitted.
    Flush {
        /// Number of the request.
        id: u64,
    },
    /// The submitter knows that a request is complete, without error.
    Complete {
        /// Number of the request.
        id: u64,
    },
}

/// What a design, or the program that drives it, says about the stream of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// A call begins.
    OpBegin(&'static str),
    /// The call returns and promises this much.
    OpEnd(&'static str, Promise),
    /// The next store of this task to `at` commits: what it makes reachable must be guaranteed by now.
    Commit {
        /// Where the commit store goes: log tail, journal tail or head, valid word.
        at: u64,
        /// Bytes that become reachable. What lies in the commit store's own line counts as
        /// guaranteed when it went through the cache before: a line persists in order.
        needs: &'a [ByteRun],
    },
    /// The same of a block with a checksum, which tells a store that was torn from one that is whole.
    CommitBlock {
        /// Where the block goes.
        at: u64,
        /// As in [`Mark::Commit`].
        needs: &'a [ByteRun],
    },
    /// Bytes are handed back to the allocator; the word that pointed to them must be guaranteed to do so no
    /// more.
    Free {
        /// First byte.
        off: u64,
        /// Length.
        len: u64,
        /// Offset of the 8-byte word that pointed there.
        pointer: u64,
    },
    /// Recovery after a crash begins.
    RecoveryBegin,
    /// Recovery has ended.
    RecoveryEnd,
}

impl Mark<'_> {
    /// Tells the same of bytes that lie `origin` further on.
    pub(crate) fn moved(self, origin: u64, tell: impl FnOnce(Mark<'_>)) {
        let moved = |needs: &[ByteRun]| -> Vec<_> {
            needs.iter().map(|run| ByteRun::new(origin + run.at, run.len)).collect()
        };
        match self {
            _ if origin == 0 => tell(self),
            Self::Commit { at, needs } => tell(Mark::Commit { at: origin + at, needs: &moved(needs) }),
            Self::CommitBlock { at, needs } => {
                tell(Mark::CommitBlock { at: origin + at, needs: &moved(needs) });
            }
            Self::Free { off, len, pointer } => {
                tell(Mark::Free { off: origin + off, len, pointer: origin + pointer });
            }
            _ => tell(self),
        }
    }
}

/// What a call promises when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Promise {
    /// Nothing is durable yet: a buffered call.
    Nothing,
    /// Metadata is durable, data may be pending.
    Metadata,
    /// All is durable.
    All,
}

/// Receives the events of a region or a block device.
///
/// It is called on the task's own stack, while the design may hold locks. It must not access the region that
/// it listens to.
pub trait Tap: Send + Sync {
    /// `task` has done `event`.
    fn event(&self, task: TaskId, event: Event<'_>);

    /// `site` asks for a flush or a fence ([`Target::Flush`], [`Target::Fence`]), which a fault may still leave out. That of a
    /// block device is a line of this crate.
    fn asked(&self, _target: Target, _site: Site) {}

    /// Whether loads are told, too. The answer never changes.
    fn hears_loads(&self) -> bool {
        false
    }
}

/// Kinds of events that [`Counting`] tells apart.
const KINDS: usize = 9;
/// Tasks that count without locked instructions.
const ROWS: usize = 64;

/// Counts events, loads excepted: the smallest tap.
///
/// A task takes the row that its number leads to and changes it by plain stores: a locked instruction would
/// wait until all that was just stored has left the processor. A task that finds its row taken counts in a
/// shared one.
#[derive(Debug)]
pub struct Counting {
    rows: Box<[Row; ROWS]>,
    shared: [AtomicU64; KINDS],
}

/// What one task has counted; a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Row {
    /// The number of the task, plus one; 0 is none.
    owner: AtomicU32,
    counts: [AtomicU64; KINDS],
}

impl Row {
    #[inline]
    fn is_of(&self, task: TaskId) -> bool {
        self.owner.load(Relaxed) == task.wrapping_add(1) || self.claim(task)
    }

    #[cold]
    fn claim(&self, task: TaskId) -> bool {
        self.owner.compare_exchange(0, task.wrapping_add(1), Relaxed, Relaxed).is_ok()
    }
}

impl Default for Counting {
    fn default() -> Self {
        Self { rows: Box::new(std::array::from_fn(|_| Row::default())), shared: Default::default() }
    }
}

impl Counting {
    /// All zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events of the kind of `event` there were; none of loads.
    pub fn of(&self, event: Event<'_>) -> u64 {
        let Some(kind) = kind_of(event) else { return 0 };
        let rows = self.rows.iter().map(|row| &row.counts);
        rows.chain([&self.shared]).map(|counts| counts[kind].load(Relaxed)).sum()
    }
}

#[inline]
fn kind_of(event: Event<'_>) -> Option<usize> {
    Some(match event {
        Event::Load { .. } => return None,
        Event::Store { .. } => 0,
        Event::NtStore { .. } => 1,
        Event::Flush { .. } => 2,
        Event::Fence => 3,
        Event::Mark(_) => 4,
        Event::Block(BlockEvent::Write { .. }) => 5,
        Event::Block(BlockEvent::Discard { .. }) => 6,
        Event::Block(BlockEvent::Flush { .. }) => 7,
        Event::Block(BlockEvent::Complete { .. }) => 8,
    })
}

impl Tap for Counting {
    fn event(&self, task: TaskId, event: Event<'_>) {
        let Some(kind) = kind_of(event) else { return };
        // The upper bits tell threads outside runs from the first tasks of a run.
        let row = &self.rows[(task ^ task >> 26) as usize % ROWS];
        if row.is_of(task) {
            let count = &row.counts[kind];
            count.store(count.load(Relaxed).wrapping_add(1), Relaxed);
        } else {
            self.shared[kind].fetch_add(1, Relaxed);
        }
    }
}

/// The listeners of a region at one moment.
#[derive(Clone, Default)]
pub(crate) struct Taps(pub(crate) Vec<Arc<dyn Tap>>);

impl fmt::Debug for Taps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} taps", self.0.len())
    }
}

/// Threads outside any run get numbers from here up.
const OUTSIDE_RUNS: TaskId = 1 << 31;

/// The task that runs now: its number in the run, or one for this host thread outside a run.
#[inline]
pub(crate) fn current_task() -> TaskId {
    sim::task::current_id().unwrap_or_else(host_thread)
}

fn host_thread() -> TaskId {
    static NEXT: AtomicU32 = AtomicU32::new(OUTSIDE_RUNS);
    thread_local! {
        static MINE: Cell<TaskId> = const { Cell::new(0) };
    }
    MINE.with(|mine| {
        if mine.get() == 0 {
            mine.set(NEXT.fetch_add(1, Relaxed));
        }
        mine.get()
    })
}
