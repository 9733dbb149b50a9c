//! What a power loss can leave: the persistence recorder (`docs/models/crash.md`).
//!
//! A [`Recorder`] listens to a region or a block device and knows at every moment which bytes are guaranteed and which are not.
//! From that it builds crash images: the guaranteed content and, for everything in flight, a choice of what
//! got through.
//!
//! | module | holds |
//! |---|---|
//! | `state` | [`Persistency`]: the state of every line in flight, moved on by events |
//! | `sectors` | the same of every sector of a block device |
//! | `crash_point` | [`CrashPoint`]: what may have happened at one moment, the [`Choice`]s worth trying |
//! | `snapshot` | [`Snapshot`]: content by shared pages; [`Image`]; [`Scratch`] takes on one after another |
//! | `lint` | [`Lint`]: what is wrong without any crash: unflushed, unfenced, redundant, torn |
//! | `trace` | [`Trace`]: events kept, to be replayed later; [`ReadSet`]: what was read |
//!
//! # The model (x86 with asynchronous DRAM refresh)
//!
//! | event | effect on a line |
//! |---|---|
//! | store | appends pieces of 8 aligned bytes, in the order of addresses; a word or a pair is one piece |
//! | flush | the pieces so far will be guaranteed by this task's next fence |
//! | non-temporal store | appends pieces that are independent of each other until this task's next fence |
//! | fence | this task's flushed lines and non-temporal pieces become guaranteed |
//!
//! A crash leaves of each line the guaranteed content and a prefix of its pieces, with or without a flush:
//! the cache may evict a line at any time. While a non-temporal piece is pending in a line, any subset of the
//! line's pieces, applied in order. Lines are independent. So a forgotten flush shows as an ordinary crash
//! image.
//!
//! # Block devices
//!
//! | event | effect on a sector of 512 bytes |
//! |---|---|
//! | a write is submitted | a crash may leave the sector as it was, or as this or any write under way leaves it |
//! | it completes | the same; with FUA it is guaranteed |
//! | a flush completes | what had completed before the flush was submitted is guaranteed |
//!
//! Sectors are independent. A device that lies on a region ([`MemoryDevice::exposed`](crate::block::MemoryDevice::exposed))
//! tells the taps of the region, so that one recorder follows a design that uses both.
//!
//! | [`Mode`] | difference |
//! |---|---|
//! | `Adr` | – |
//! | `Eadr` | caches persist: a prefix of all stores in their order; non-temporal pieces as above |
//! | `Poison` | as `Adr`, and a line in flight may become unreadable |

mod crash_point;
mod lint;
mod sectors;
mod snapshot;
mod state;
mod trace;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::block::BlockDevice;
use crate::event::{Event, Tap, TaskId};
use crate::{MediaError, Region};
pub use crash_point::{Choice, CrashPoint, Plan, Unit, UnitKind};
use lint::Linter;
pub use lint::{Class, Describe, Lint, OpCounts, Rule, Structure};
pub use sectors::SECTOR;
pub use snapshot::{Image, Scratch, Snapshot};
pub use state::{Durability, LineReport, Mode, Persistency};
pub use trace::{OwnedBlockEvent, OwnedEvent, OwnedMark, Point, ReadSet, Replay, Trace};

/// A tap that follows what is durable, and checks as it goes.
pub struct Recorder {
    inner: Mutex<Inner>,
}

struct Inner {
    state: Persistency,
    linter: Linter,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder")
    }
}

impl Recorder {
    /// Attaches a recorder to a region whose present content counts as guaranteed. `describe` names the
    /// structures of the format in lints.
    pub fn attach(region: &Region, mode: Mode, describe: Option<Describe>) -> Result<Arc<Self>, MediaError> {
        let state = Persistency::new(Snapshot::of(region)?, mode);
        let recorder = Arc::new(Self { inner: Mutex::new(Inner { state, linter: Linter::new(describe) }) });
        region.attach(Arc::clone(&recorder) as Arc<dyn Tap>);
        Ok(recorder)
    }

    /// The same for a block device. The cache of a device without a volatile one persists, whatever `mode` says.
    pub fn attach_block(
        device: &dyn BlockDevice,
        mode: Mode,
        describe: Option<Describe>,
    ) -> Result<Arc<Self>, MediaError> {
        let mode = if device.geometry().volatile_cache { mode } else { Mode::Eadr };
        let state = Persistency::new(Snapshot::of_block(device)?, mode);
        let recorder = Arc::new(Self { inner: Mutex::new(Inner { state, linter: Linter::new(describe) }) });
        device.attach(Arc::clone(&recorder) as Arc<dyn Tap>);
        Ok(recorder)
    }

    /// Looks at the state.
    pub fn with<R>(&self, look: impl FnOnce(&Persistency) -> R) -> R {
        look(&self.inner.lock().state)
    }

    /// What a crash now may leave.
    pub fn crash_point(&self) -> CrashPoint {
        self.with(Persistency::crash_point)
    }

    /// What was found wrong so far, in the order of first occurrence.
    pub fn lints(&self) -> Vec<Lint> {
        self.inner.lock().linter.lints()
    }

    /// Fences and flushed lines by operation.
    pub fn op_counts(&self) -> Vec<(&'static str, OpCounts)> {
        self.inner.lock().linter.op_counts()
    }
}

impl Tap for Recorder {
    fn event(&self, task: TaskId, event: Event<'_>) {
        let Inner { state, linter } = &mut *self.inner.lock();
        linter.check(state, task, event);
        state.apply(task, event);
    }
}
