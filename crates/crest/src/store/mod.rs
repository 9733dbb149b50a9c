//! The store: a region with its zones and logs, in which records become durable and blocks are taken and given back.
//!
//! | file | holds |
//! |---|---|
//! | `superblock.rs` `zone_table.rs` | the superblock and its copy; the table of zones, and the word that names a saved index |
//! | `alloc.rs` `sum.rs` | free zones and blocks; counts that every call changes |
//! | `log.rs` `cleaner.rs` `commit.rs` | the logs; freeing log zones; making the records of a call durable |
//! | `steps.rs` `origins.rs` | emptying log zones step by step; in which zones copies of adds may lie |
//! | `parity.rs` `end.rs` | parity of log zones that are full, and lines that are computed from it; parity of all at an unmount |
//! | `frames.rs` | frames of DRAM |
//! | `damage.rs` | damage, and who is told of it |
//!
//! It uses `format/` only: it knows blocks, records and frames by their numbers, and no file.

use std::collections::BTreeSet;
use std::sync::Arc;

use media::nvmm::Region;
use sim::Mutex;
use sim::sync::AtomicBool;

use crate::ablation::Without;
use crate::format::layout::Geometry;
use crate::format::mutant::Rules;

pub(crate) mod alloc;
pub(crate) mod cleaner;
pub(crate) mod commit;
pub(crate) mod damage;
pub(crate) mod end;
pub(crate) mod frames;
pub(crate) mod log;
pub(crate) mod origins;
pub(crate) mod parity;
pub(crate) mod steps;
mod sum;
pub(crate) mod superblock;
pub(crate) mod zone_table;

/// A pool as blocks and records. Every call becomes durable by [`Store::commit`].
pub(crate) struct Store {
    pub(crate) region: Arc<Region>,
    pub(crate) geometry: Geometry,
    pub(crate) secret: u64,
    /// What the nonces of this mount come from: drawn at the mount.
    pub(crate) salt: u64,
    pub(crate) rules: Rules,
    /// The part that is left out.
    pub(crate) without: Without,
    /// The first opening of this mount.
    pub(crate) mounted: u64,
    /// Whether it was mounted from a saved index.
    pub(crate) from_saved: bool,
    /// Whether an unmount has saved the index, which a change makes void.
    pub(crate) saved: AtomicBool,
    pub(crate) zones: alloc::Zones,
    pub(crate) logs: log::Logs,
    /// Inodes without a name that are open: their records are kept.
    pub(crate) orphans: Mutex<BTreeSet<u64>>,
    /// DRAM for what is dirty, under `sync=fsync`, and for what is read often.
    pub(crate) frames: frames::Frames,
    pub(crate) losses: damage::Losses,
    /// Zones that are being emptied in steps.
    pub(crate) steps: steps::Steps,
}
