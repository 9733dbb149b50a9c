//! An NVMe SSD: when each command completes, down to the die, and where each page lies.
//!
//! A deterministic model without threads or a clock of its own: [`Ssd::submit`] takes a command and the time at which it
//! arrives, and answers with the time at which it completes. The answer is a function of the state and the command alone, so
//! that one model serves traces, experiments under the virtual clock, and a block device under the real one.
//!
//! ```text
//!  host ──► Queues ──► Ssd ──► Conventional: firmware, write buffer ──► Ftl: map, lines, hints, collection ──► Array: dies,
//!            (depth,            Zoned, Units                                                                     channels, PCIe
//!             order)
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`config`] | what a device is made of, and what is impossible |
//! | [`model`] | devices by name: `nvmevirt.970pro,capacity=8GiB` |
//! | [`command`] | [`Command`], [`Hint`], [`Outcome`], [`FlashError`] |
//! | [`queues`] | submission queues in front of a device, for drivers of traces and experiments |
//! | `link` | credit buckets: channels and PCIe |
//! | `array` | dies and planes |
//! | `map` | the page map, which costs nothing for pages that were never written |
//! | `ftl`, `gc`, `victims` | lines, allocation by arrival or by hints, collection |
//! | `buffer`, `volatile` | the write buffer, and what a power loss undoes |
//! | `conventional`, `zoned`, `units` | the three kinds of device |
//! | `store` | the bytes, if they are kept |
//!
//! Nothing here locks: a device belongs to one owner. Shared ones stand behind a lock of `sim::sync`.
//!
//! References: "NVMeVirt: A Versatile Software-defined Virtual NVMe Device" (FAST 2023), its public source, and that of its
//! variant for "We Ain't Afraid of No File Fragmentation" (FAST 2024). What differs from them on purpose is in [`Defects`].

mod array;
mod buffer;
pub mod command;
pub mod config;
mod conventional;
mod ftl;
mod gc;
mod link;
mod map;
pub mod model;
pub mod queues;
mod ssd;
mod store;
mod units;
mod victims;
mod volatile;
mod zoned;

pub use command::{Command, FlashError, Hint, Op, Outcome};
pub use config::{Config, Defects, PAGE, SECTOR};
pub use ftl::Counters;
pub use model::SsdModel;
pub use queues::Queues;
pub use ssd::{Layout, Ssd, Statistics};
pub use store::Data;

/// It completes at `at` nanoseconds.
fn done(at: u64) -> Outcome {
    Outcome::Done { at: sim::Nanos(at) }
}
