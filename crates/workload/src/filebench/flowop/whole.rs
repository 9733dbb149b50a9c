//! Whole files: reading to the end, writing the nominal size, appending.

use std::sync::Arc;

use rand::RngExt;
use vfs::Whence;

use crate::filebench::run::error::EngineError;
use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Worker, use_memory};

use super::io::{io_size, open_slot, read_next, working_set, write_at};

/// Reads a file from its start to its end in pieces of `iosize`, or in one of its nominal size.
pub(super) fn read(worker: &mut Worker, task: &Task) -> Flow {
    let (slot, _) = open_slot(worker, task)?;
    let piece = match task.operation.iosize.draw(&mut worker.rng) {
        0 => working_set(worker, task, slot),
        iosize => iosize,
    };
    worker.timed(task, |worker| {
        worker.seek(task, slot, 0, Whence::Set)?;
        let mut bytes = 0;
        loop {
            match read_next(worker, task, slot, piece as usize)? {
                0 => return Ok(bytes),
                read => bytes += read as u64,
            }
        }
    })
}

/// Writes as many bytes as the nominal size of the source's file says, from the present offset on.
pub(super) fn write(worker: &mut Worker, task: &Task) -> Flow {
    let (slot, _) = open_slot(worker, task)?;
    let source = usize::from(task.operation.srcfd);
    let size = match worker.nominal_size(source) {
        Some(size) => size,
        None if source == 0 => working_set(worker, task, slot),
        None => {
            let flowop = worker.name(task).to_owned();
            let advice = "open a file there first, because its size is needed";
            return Err(EngineError::Slot { flowop, slot: source, state: "empty", advice }.into());
        }
    };
    let iosize = match task.operation.iosize.draw(&mut worker.rng) {
        0 => size.max(1),
        iosize => iosize,
    };
    let round_up = worker.run.engine.options.quirks.write_whole_round_up;
    worker.timed(task, |worker| {
        let mut done = 0;
        while done < size {
            let left = size - done;
            // the last piece of a file that is larger than iosize is written in full
            let piece = if round_up && done > 0 { iosize } else { iosize.min(left) };
            use_memory(worker, iosize);
            done += write_at(worker, task, slot, None, piece)?;
        }
        Ok(done)
    })
}

/// Appends `iosize` bytes.
pub(super) fn append(worker: &mut Worker, task: &Task) -> Flow {
    let iosize = io_size(worker, task)?;
    append_bytes(worker, task, iosize)
}

/// Appends a random number of bytes. Of none it counts the operation and does nothing.
pub(super) fn append_random(worker: &mut Worker, task: &Task) -> Flow {
    let iosize = io_size(worker, task)?;
    let range = match worker.run.engine.options.quirks.half_mean_append {
        true => 0..=iosize - 1,
        false => 1..=2 * iosize - 1,
    };
    sim::work(crate::charges::RANDOM, 1);
    match worker.rng.random_range(range) {
        0 => worker.timed(task, |_| Ok(0)),
        len => append_bytes(worker, task, len),
    }
}

fn append_bytes(worker: &mut Worker, task: &Task, len: u64) -> Flow {
    let (slot, _) = open_slot(worker, task)?;
    let run = Arc::clone(&worker.run);
    let held = worker.slots[slot].file.filter(|_| !run.engine.options.quirks.racy_append);
    let _one_step = held.map(|(fileset, _)| run.engine.sets[fileset].append.lock());
    worker.timed(task, |worker| {
        worker.seek(task, slot, 0, Whence::End)?;
        use_memory(worker, len);
        write_at(worker, task, slot, None, len)
    })
}
