//! Ends that depend on what was done: by one flowop of the thread, or by all threads together.

use std::sync::atomic::Ordering::Relaxed;

use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Halt, Worker};

/// Ends at `value` operations.
pub(super) fn on_count(worker: &mut Worker, task: &Task) -> Flow {
    let done = match task.counts {
        Some(step) => worker.counter(step).ops,
        None => worker.run.control.totals.ops.load(Relaxed),
    };
    let wanted = task.operation.value.draw(&mut worker.rng);
    worker.timed(task, |_| Ok(0))?;
    if done >= wanted { Err(Halt::Finished) } else { Ok(()) }
}

/// Ends at more than `value` bytes.
pub(super) fn on_bytes(worker: &mut Worker, task: &Task) -> Flow {
    let done = match task.counts {
        Some(step) => worker.counter(step).bytes,
        None => worker.run.control.totals.bytes.load(Relaxed),
    };
    let wanted = task.operation.value.draw(&mut worker.rng);
    worker.timed(task, |_| Ok(0))?;
    if done > wanted { Err(Halt::Finished) } else { Ok(()) }
}
