//! Single reads and writes, and what all writes share: data from the pattern.

use std::sync::Arc;

use rand::RngExt;
use vfs::{Fd, Whence};

use crate::filebench::run::error::EngineError;
use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Worker, use_memory};

use super::names::open_into;

/// The slot of an operation, open: one that is empty gets a file of the fileset first.
pub(super) fn open_slot(worker: &mut Worker, task: &Task) -> Flow<(usize, Fd)> {
    let number = worker.slot_number(&task.operation);
    if worker.slots[number].fd.is_none() {
        open_into(worker, task, number)?;
    }
    Ok((number, worker.open_fd(task, number)?))
}

/// Bytes within which random offsets fall: the working set, or the nominal size of the file.
pub(super) fn working_set(worker: &mut Worker, task: &Task, slot: usize) -> u64 {
    match task.operation.workingset.draw(&mut worker.rng) {
        0 => worker.nominal_size(slot).unwrap_or(0),
        bytes => bytes,
    }
}

/// An offset within the working set that is a multiple of `iosize`.
pub(super) fn random_offset(worker: &mut Worker, task: &Task, slot: usize, iosize: u64) -> Flow<u64> {
    let range = working_set(worker, task, slot);
    let Some(last) = range.checked_sub(iosize) else {
        let flowop = worker.name(task).to_owned();
        return Err(EngineError::TooLarge { flowop, iosize, range }.into());
    };
    sim::work(crate::charges::RANDOM, 1);
    let offset = worker.rng.random_range(0..=last);
    Ok(offset - offset % iosize)
}

/// Bytes of one I/O, at least one.
pub(super) fn io_size(worker: &mut Worker, task: &Task) -> Flow<u64> {
    match task.operation.iosize.draw(&mut worker.rng) {
        0 => Err(EngineError::ZeroSize { flowop: worker.name(task).to_owned() }.into()),
        iosize => Ok(iosize),
    }
}

/// One read.
pub(super) fn read(worker: &mut Worker, task: &Task) -> Flow {
    let iosize = io_size(worker, task)?;
    let (slot, fd) = open_slot(worker, task)?;
    if task.operation.random {
        let offset = random_offset(worker, task, slot, iosize)?;
        return worker.timed(task, |worker| {
            use_memory(worker, iosize);
            let buffer = worker.buffer.get(iosize as usize);
            let read = worker.calls.pread(fd, buffer, offset);
            let read = read.map_err(|errno| worker.failed_on(task, slot, "pread", errno))?;
            check(worker, task, slot, offset, read)?;
            Ok(read as u64)
        });
    }
    let mut at_end = false;
    worker.timed(task, |worker| {
        let read = read_next(worker, task, slot, iosize as usize)?;
        at_end = read == 0;
        Ok(read as u64)
    })?;
    if at_end {
        worker.seek(task, slot, 0, Whence::Set)?;
    }
    Ok(())
}

/// Reads at the offset of the slot's descriptor and moves it.
pub(super) fn read_next(
    worker: &mut Worker,
    task: &Task,
    slot: usize,
    len: usize,
) -> Result<usize, EngineError> {
    let fd = worker.open_fd(task, slot)?;
    use_memory(worker, len as u64);
    let read = worker.calls.read(fd, worker.buffer.get(len));
    let read = read.map_err(|errno| worker.failed_on(task, slot, "read", errno))?;
    let offset = worker.slots[slot].position;
    worker.slots[slot].position += read as u64;
    check(worker, task, slot, offset, read)?;
    Ok(read)
}

/// In check mode: compares what was read with what must have been written.
fn check(worker: &mut Worker, task: &Task, slot: usize, offset: u64, len: usize) -> Result<(), EngineError> {
    let engine = &worker.run.engine;
    if !engine.options.check {
        return Ok(());
    }
    let phase = worker.slots[slot].phase;
    let data = worker.buffer.get(len);
    engine.pattern.check(phase, offset, data, engine.holes).map_err(|mismatch| {
        let what = format!("flowop \"{}\"", worker.name(task));
        EngineError::Mismatch { what, path: worker.slot_path(slot), mismatch }
    })
}

/// One write.
pub(super) fn write(worker: &mut Worker, task: &Task) -> Flow {
    let iosize = io_size(worker, task)?;
    let (slot, _) = open_slot(worker, task)?;
    if task.operation.random {
        let offset = random_offset(worker, task, slot, iosize)?;
        return worker.timed(task, |worker| {
            use_memory(worker, iosize);
            write_at(worker, task, slot, Some(offset), iosize)
        });
    }
    worker.timed(task, |worker| {
        use_memory(worker, iosize);
        write_at(worker, task, slot, None, iosize)
    })
}

/// Writes `len` bytes of the file's pattern at `offset`, or at the descriptor's offset, which moves. A
/// write that takes less is an error.
pub(super) fn write_at(
    worker: &mut Worker,
    task: &Task,
    slot: usize,
    offset: Option<u64>,
    len: u64,
) -> Result<u64, EngineError> {
    let fd = worker.open_fd(task, slot)?;
    let run = Arc::clone(&worker.run);
    let held = worker.slots[slot];
    let at = offset.unwrap_or(held.position);
    let mut data = run.engine.pattern.bytes(held.phase, at, len as usize, &mut worker.scratch);
    if task.operation.directio {
        let aligned = worker.buffer.get(data.len());
        aligned.copy_from_slice(data);
        data = aligned;
    }
    let written = match offset {
        Some(offset) => worker.calls.pwrite(fd, data, offset),
        None => worker.calls.write(fd, data),
    };
    let call = if offset.is_some() { "pwrite" } else { "write" };
    let written = written.map_err(|errno| worker.failed_on(task, slot, call, errno))? as u64;
    if written != len {
        let what = format!("flowop \"{}\"", worker.name(task));
        return Err(EngineError::Short { what, path: worker.slot_path(slot), written, wanted: len });
    }
    if offset.is_none() {
        worker.slots[slot].position += len;
    }
    if let Some((fileset, file)) = held.file {
        run.engine.sets[fileset].wrote(file, at + len);
    }
    Ok(len)
}
