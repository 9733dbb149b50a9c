//! Asynchronous writes; how they are carried out is in `run/aio.rs`.

use std::sync::Arc;

use crate::filebench::run::aio::{Aio, Request};
use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Worker};

use super::io::{io_size, open_slot, random_offset};

/// Starts a write at a random offset. Its latency is that of starting it.
pub(super) fn write(worker: &mut Worker, task: &Task) -> Flow {
    let iosize = io_size(worker, task)?;
    let (slot, fd) = open_slot(worker, task)?;
    let offset = random_offset(worker, task, slot, iosize)?;
    let held = worker.slots[slot];
    worker.timed(task, |worker| {
        let request = Request { fd, phase: held.phase, offset, len: iosize as usize };
        writers(worker).submit(slot, request);
        if let Some((fileset, file)) = held.file {
            worker.files(fileset).wrote(file, offset + iosize);
        }
        Ok(iosize)
    })
}

/// Waits for about half of the writes that are under way.
pub(super) fn wait(worker: &mut Worker, task: &Task) -> Flow {
    worker.timed(task, |worker| {
        let waited = writers(worker).wait_for_half();
        waited.map_err(|errno| worker.failed_at(task, "aio_write", errno))?;
        Ok(0)
    })
}

/// The writers of this thread, started when they are first needed.
fn writers(worker: &mut Worker) -> &mut Aio {
    let engine = Arc::clone(&worker.run.engine);
    let plan = &engine.plan.threads[worker.kind];
    let (number, calls) = (worker.number, &worker.calls);
    worker.aio.get_or_insert_with(|| {
        let name = format!("{}/{}-{}", plan.process_name, plan.name, number);
        Aio::start(plan.aio_workers.max(1), &name, (engine.options.core)(number), &engine.pattern, calls)
    })
}
