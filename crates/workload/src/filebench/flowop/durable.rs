//! Making files durable.

use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Worker};

/// Makes the file of the slot durable.
pub(super) fn fsync(worker: &mut Worker, task: &Task) -> Flow {
    let slot = worker.slot_number(&task.operation);
    sync_slot(worker, task, slot)
}

/// Makes every file of the fileset that is open in a slot durable, one operation each.
pub(super) fn fsync_set(worker: &mut Worker, task: &Task) -> Flow {
    let fileset = worker.fileset_of(task)?;
    for slot in 0..worker.slots.len() {
        let held = &worker.slots[slot];
        if held.fd.is_some() && held.file.is_some_and(|(of, _)| of == fileset) {
            sync_slot(worker, task, slot)?;
        }
    }
    Ok(())
}

fn sync_slot(worker: &mut Worker, task: &Task, slot: usize) -> Flow {
    let fd = worker.open_fd(task, slot)?;
    worker.timed(task, |worker| {
        worker.calls.fsync(fd).map_err(|errno| worker.failed_on(task, slot, "fsync", errno))?;
        Ok(0)
    })
}
