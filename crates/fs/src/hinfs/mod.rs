//! HiNFS: a DRAM write buffer for persistent memory, on PMFS (EuroSys 2016).
//!
//! Persistent memory reads about as fast as DRAM and writes much slower. HiNFS buffers only the writes that gain from it:
//!
//! * *lazy* writes go to DRAM pages and are written back later, by line, least recently written first;
//! * *eager* writes, those that a sync would flush soon anyway, go straight to the medium;
//! * reads take each line from where it is newest, and never fill the buffer;
//! * a benefit model decides at each sync of a block whether its writes are lazy or eager.
//!
//! Metadata is PMFS's: changed in place under the undo journal. A write that grows a file leaves its transaction open until
//! its data has been written back, so a crash shows the old size rather than bytes that were never written.
//!
//! | file | holds |
//! |---|---|
//! | `benefit.rs` | the model |
//! | `pool.rs` | the pages, lists by last write, thresholds, waiting for a page |
//! | `file_buffer.rs` | what is buffered of one file; lines; the open transaction |
//! | `file.rs` | read and write |
//! | `in_flight.rs` | blocks on their way to the medium |
//! | `sync.rs` | fsync, settling, dropping: everything that ends buffering |
//! | `writeback.rs` | the background tasks |
//! | `mutant.rs` | seeded bugs |
//! | `vfs.rs` `design.rs` | what the adapter of PMFS calls; the variants |
//!
//! Lock order: PMFS's (`pmfs/namei.rs`), with `hinfs.file` after `pmfs.inode` and `hinfs.pool` after that; the journal's and
//! the block map's locks are leaves.
//!
//! A file that is mapped is not buffered: `map` settles it, and its writes take PMFS's way until the last mapping ends.
//!
//! On the medium this is PMFS: the same format, recovery and fsck. `docs/designs/hinfs.md` describes the mechanism, what is
//! durable when, and what differs from the paper. Choices where the paper leaves them open: space is allocated when a block is
//! first written; a new block inherits the state of the file's last judged block (`new_blocks`); a file has one open
//! transaction, which later growth and the removal of its last name join, so that undoing it never undoes something newer.

mod benefit;
pub(crate) mod design;
mod file;
mod file_buffer;
mod in_flight;
mod mutant;
mod pool;
mod sync;
mod vfs;
mod writeback;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{JoinHandle, LockClass, Mutex, Nanos};

use crate::pmfs::Volume;
use crate::pmfs::inode::Inode;
use crate::pmfs::layout::INODE_SLOT;
use base::error::Result;
use base::persist::slot_table::SlotTable;
use benefit::Benefit;
use file_buffer::FileSlot;
use in_flight::WritebackWait;
use pool::Pool;

static TASKS: LockClass = LockClass::new("hinfs.tasks").under(&[]);

/// The classes of locks and cache lines for which its calls and tasks may wait, besides PMFS's.
pub(crate) static CLASSES: &[&LockClass] = &[
    &TASKS,
    &file_buffer::FILE,
    &in_flight::IN_FLIGHT,
    &pool::NO_FREE_PAGE,
    &pool::POOL,
    &pool::WRITEBACK_IDLE,
];

/// How a HiNFS is mounted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Fetch and write back by line; otherwise whole blocks (HiNFS-NCLFW).
    pub(crate) by_line: bool,
    /// Predict eager writes; otherwise everything is buffered first (HiNFS-WB).
    pub(crate) checker: bool,
    /// New blocks inherit the state of the file's last judged block.
    pub(crate) inherit: bool,
    /// Mounted `sync`: every write is eager.
    pub(crate) sync: bool,
    pub(crate) benefit: Benefit,
    /// Write-back wakes at least this often.
    pub(crate) wake: Nanos,
    /// Blocks that were not written for this long are written back.
    pub(crate) dirty_age: Nanos,
    /// An eager block of a file that was not synced for this long becomes lazy.
    pub(crate) eager_timeout: Nanos,
    pub(crate) tasks: u64,
    /// Each write moves its block to the end of the list, also one among the newest.
    pub(crate) every_move: bool,
}

/// A mounted HiNFS.
pub(crate) struct HiNfs {
    pub(crate) volume: Volume,
    pub(crate) settings: Settings,
    files: SlotTable<FileSlot>,
    pub(crate) pool: Pool,
    writeback_wait: WritebackWait,
    pub(crate) counters: Counters,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// File buffers are made in chunks of this many inode slots.
const FILES_PER_CHUNK: u64 = 256;

impl HiNfs {
    pub(crate) fn new(volume: Volume, settings: Settings, pool: Pool) -> Arc<Self> {
        let max_slots = volume.region.len() / INODE_SLOT;
        let design = Arc::new(Self {
            volume,
            settings,
            files: SlotTable::new(max_slots.div_ceil(FILES_PER_CHUNK), FILES_PER_CHUNK),
            pool,
            writeback_wait: WritebackWait::new(),
            counters: Counters::default(),
            tasks: Mutex::new(&TASKS, Vec::new()),
        });
        writeback::start(&design);
        design
    }

    /// The buffer of an inode.
    pub(crate) fn file(&self, inode: &Inode) -> Result<&FileSlot> {
        self.file_of_slot(inode.ino / INODE_SLOT)
    }

    pub(crate) fn file_of_slot(&self, slot: u64) -> Result<&FileSlot> {
        if self.files.get(slot).is_none() {
            self.files.add_chunk(slot / FILES_PER_CHUNK, |_| FileSlot::new());
        }
        self.files.get(slot).ok_or(base::error::Error::NoEntry)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What HiNFS counts about itself.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            /// Every count by name.
            pub(crate) fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Lazy writes, in pieces of a block, to a block that was buffered.
    lazy_hits,
    /// Lazy writes to a block that was not.
    lazy_misses,
    /// Eager writes, in pieces of a block.
    eager_writes,
    /// Lines fetched for partial writes.
    lines_fetched,
    /// Lines written back in the background.
    lines_written_back,
    /// Lines flushed by syncs.
    lines_synced,
    /// Dirty lines dropped because their file went away first.
    lines_dropped,
    /// Times a writer waited for a free page.
    stalls,
    /// Transactions that write-back completed because the journal was short of space.
    journal_evictions,
    /// Open transactions that write-back moved to the tail of the journal for the same reason.
    journal_moves,
    /// Open transactions that it could not move or complete, because they had ended or a writer had taken them.
    transactions_gone,
    /// Blocks that a sync judged the way they were.
    predictions_right,
    /// Blocks that a sync judged the other way.
    predictions_wrong,
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}
