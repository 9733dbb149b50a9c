//! What the host does around direct reads, priced by a machine preset and fitted to nothing.
//!
//! A read(2) with O_DIRECT pins the pages of the buffer, builds requests, hands them to the queue, sleeps, and is woken by the
//! last completion. In terms of what a machine prices:
//!
//! | what | charged | because |
//! |---|---|---|
//! | a call | a system call, the VFS's part, a wake-up | enter, sleep, be woken |
//! | a page | two atomic updates, a miss, four steps | a reference taken and dropped, its descriptor, four levels of table |
//! | a request | two atomic updates, two misses | a tag taken and given back; command written, completion read |
//!
//! References: Linux 5.15, `block/fops.c`, `mm/gup.c`, `block/blk-mq.c`.

use sim::{Machine, Nanos, Work};

use media::flash::PAGE;

/// Costs of a direct read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCost {
    /// Each call.
    pub call: Nanos,
    /// Each page of the buffer.
    pub page: Nanos,
    /// Each request.
    pub request: Nanos,
}

impl HostCost {
    /// Nothing: the time of the device alone.
    pub const NONE: Self = Self { call: Nanos(0), page: Nanos(0), request: Nanos(0) };

    /// What a machine says.
    pub fn of(machine: &Machine) -> Self {
        let cost = |work, count| machine.cost(work, count);
        Self {
            call: cost(Work::SYSCALL, 1) + cost(Work::CALL, 1) + cost(Work::WAKEUP, 1),
            page: cost(Work::LOCK, 2) + cost(Work::MISS, 1) + cost(Work::STEP, 4),
            request: cost(Work::LOCK, 2) + cost(Work::MISS, 2),
        }
    }

    /// Before the first request of a call that moves `bytes` can be submitted.
    pub fn before(&self, bytes: u64) -> Nanos {
        self.call + self.page * bytes.div_ceil(PAGE)
    }
}
