//! What accesses cost: models compute, the clock charges.
//!
//! A region calls its [`CostModel`] once for each load, write-back or fence, with the number of bytes or lines. The model lets
//! the time pass through `sim`: it advances a task of the virtual clock and spins under the real one. What a model charges is
//! *extra*: the CPU's own part of a copy (`sim::copy`) and of an instruction (`sim::work`) is charged by the region.

use std::fmt::Debug;

/// The cost of a memory medium.
pub trait CostModel: Send + Sync + Debug {
    /// Its name, as in the table of media.
    fn name(&self) -> &str;

    /// `bytes` at `off` are loaded by one copy.
    fn load(&self, off: u64, bytes: u64);

    /// `lines` cache lines from `off` on are written back or stored past the cache, by one instruction sequence of at most a
    /// page.
    fn write(&self, off: u64, lines: u64);

    /// The task waits for its earlier writes.
    fn fence(&self);

    /// A new run begins: queues are empty, buffers are cold. A model that outlives a run must be told, because times start
    /// from zero again.
    fn reset(&self) {}
}
