//! Limiters: they take events of the event generator, and wait for them.
//!
//! Without a generator they return at once and are not counted. The counting limiters pay for what was done
//! since their last call, by their own target (a flowop of the same thread) or by all threads together;
//! their first call is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::filebench::run::control::Totals;
use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Counter, Flow, Halt, Worker};

const MIB: i64 = 1 << 20;

/// One event for each call.
pub(super) fn events(worker: &mut Worker, task: &Task) -> Flow {
    if worker.run.events.is_none() {
        return Ok(());
    }
    take(worker, task, 1)
}

/// One event for each operation of read or write type.
pub(super) fn io_operations(worker: &mut Worker, task: &Task) -> Flow {
    pay(worker, task, |counter| counter.ops, |totals| &totals.io_ops, 1)
}

/// One event for each operation.
pub(super) fn operations(worker: &mut Worker, task: &Task) -> Flow {
    pay(worker, task, |counter| counter.ops, |totals| &totals.all_ops, 1)
}

/// One event for each MiB.
pub(super) fn bandwidth(worker: &mut Worker, task: &Task) -> Flow {
    pay(worker, task, |counter| counter.bytes, |totals| &totals.bytes, MIB)
}

/// Takes the events for what was done since the last call, `unit` of it for one event.
fn pay(
    worker: &mut Worker,
    task: &Task,
    own: fn(Counter) -> u64,
    all: fn(&Totals) -> &AtomicU64,
    unit: i64,
) -> Flow {
    if worker.run.events.is_none() {
        return Ok(());
    }
    let done = match task.counts {
        Some(step) => own(worker.counter(step)),
        None => all(&worker.run.control.totals).load(Relaxed),
    };
    let limiter = worker.limiter(task.id);
    if limiter.last == 0 {
        limiter.last = done;
        return Ok(());
    }
    limiter.credit = limiter.credit.saturating_sub_unsigned(done - limiter.last);
    limiter.last = done;
    if limiter.credit >= 0 {
        return worker.timed(task, |_| Ok(0));
    }
    let owed = -limiter.credit;
    let wanted = if unit == 1 { owed } else { owed / unit + 1 };
    limiter.credit += wanted * unit;
    take(worker, task, wanted as u64)
}

fn take(worker: &mut Worker, task: &Task, wanted: u64) -> Flow {
    let run = Arc::clone(&worker.run);
    let start = sim::now();
    if run.events.as_ref().is_some_and(|events| !events.take(&run.control, wanted)) {
        return Err(Halt::Stop);
    }
    worker.account(task, start, 0)
}
