//! Processor time, for the benches that compare this process with the kernel's file systems.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process so far, in nanoseconds.
pub(crate) fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Processor time of one of `count` calls, in nanoseconds.
pub(crate) fn each(count: u64, mut call: impl FnMut(u64)) -> f64 {
    let began = cpu_ns();
    (0..count).for_each(&mut call);
    (cpu_ns() - began) / count as f64
}
