//! Opening, creating, closing, deleting, looking at files.
//!
//! A file is busy from its pick to the end of the calls on its name, also while it is closed; others pass
//! over it.

use std::sync::Arc;

use vfs::{Errno, OpenFlags, Syscalls};

use crate::filebench::fileset::pick::{Becomes, State};
use crate::filebench::run::error::EngineError;
use crate::filebench::run::files::Choice;
use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Halt, Slot, Worker};

const FILE_MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o755;

/// Picks an existing file and opens it.
pub(super) fn open(worker: &mut Worker, task: &Task) -> Flow {
    let number = worker.slot_number(&task.operation);
    open_into(worker, task, number)
}

/// Opens an existing file into slot `number`.
pub(super) fn open_into(worker: &mut Worker, task: &Task, number: usize) -> Flow {
    let fileset = worker.fileset_of(task)?;
    must_be_closed(worker, task, number)?;
    let file = worker.pick(task, fileset, State::Existing)?;
    worker.timed(task, |worker| {
        let flags = worker.open_flags(&task.operation, fileset);
        open_file(worker, task, number, (fileset, file), flags)
    })
}

/// Picks an absent file and creates it.
pub(super) fn create(worker: &mut Worker, task: &Task) -> Flow {
    let fileset = worker.fileset_of(task)?;
    let number = worker.slot_number(&task.operation);
    must_be_closed(worker, task, number)?;
    let file = worker.pick(task, fileset, State::Absent)?;
    worker.timed(task, |worker| {
        let flags = worker.open_flags(&task.operation, fileset) | OpenFlags::CREATE;
        make_parents(worker, task, (fileset, file))?;
        worker.files(fileset).emptied(file);
        open_file(worker, task, number, (fileset, file), flags)
    })
}

/// Filebench looks at the directory before each create, and makes it when it is missing.
fn make_parents(worker: &mut Worker, task: &Task, (fileset, file): (usize, u32)) -> Result<(), EngineError> {
    let run = Arc::clone(&worker.run);
    run.engine.sets[fileset].file_path(file, &mut worker.path);
    let directory = worker.path.rsplit_once('/').map_or("/", |(directory, _)| directory);
    match worker.calls.stat(directory.as_bytes()) {
        Ok(_) => Ok(()),
        Err(Errno::ENOENT) => make_path(&*worker.calls, directory),
        Err(errno) => Err(errno),
    }
    .map_err(|errno| worker.failed_at(task, "mkdir", errno))
}

/// Makes every directory on `path` that is missing.
pub(crate) fn make_path(calls: &dyn Syscalls, path: &str) -> vfs::Result<()> {
    let inner = path.match_indices('/').map(|(end, _)| end);
    for end in inner.chain([path.len()]).filter(|end| *end > 0) {
        match calls.mkdir(&path.as_bytes()[..end], DIRECTORY_MODE) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn must_be_closed(worker: &Worker, task: &Task, number: usize) -> Result<(), EngineError> {
    if worker.slots[number].fd.is_none() {
        return Ok(());
    }
    let flowop = worker.name(task).to_owned();
    let advice = "close it first, or use another fd=";
    Err(EngineError::Slot { flowop, slot: number, state: "still open", advice })
}

/// Opens a picked file and puts it into a slot.
fn open_file(
    worker: &mut Worker,
    task: &Task,
    number: usize,
    (fileset, file): (usize, u32),
    flags: OpenFlags,
) -> Result<u64, EngineError> {
    let run = Arc::clone(&worker.run);
    let files = &run.engine.sets[fileset];
    files.file_path(file, &mut worker.path);
    let opened = worker.calls.open(worker.path.as_bytes(), flags, FILE_MODE);
    let created = flags.contains(OpenFlags::CREATE) && opened.is_ok();
    files.settle(|pickers| {
        pickers.files.release(file, if created { Becomes::Existing } else { Becomes::Same });
        if opened.is_ok() {
            pickers.files.opened(file);
        }
    });
    let fd = opened.map_err(|errno| worker.failed_at(task, "open", errno))?;
    let phase = run.engine.pattern.phase(worker.path.as_bytes());
    worker.slots[number] = Slot { fd: Some(fd), file: Some((fileset, file)), phase, position: 0 };
    Ok(0)
}

/// Closes a slot.
pub(super) fn close(worker: &mut Worker, task: &Task) -> Flow {
    let number = worker.slot_number(&task.operation);
    let fd = worker.open_fd(task, number)?;
    let run = Arc::clone(&worker.run);
    let held = worker.slots[number].file;
    if let Some((fileset, file)) = held
        && !run.engine.sets[fileset].claim(&run.control, file)
    {
        return Err(Halt::Stop);
    }
    worker.timed(task, |worker| {
        let closed = worker.calls.close(fd);
        worker.slots[number].fd = None;
        if let Some((fileset, file)) = held {
            run.engine.sets[fileset].settle(|pickers| {
                pickers.files.release(file, Becomes::Same);
                pickers.files.closed(file);
            });
        }
        closed.map_err(|errno| worker.failed_on(task, number, "close", errno))?;
        Ok(0)
    })
}

/// A file to delete, busy already.
struct Victim {
    fileset: usize,
    file: u32,
    /// How many slots of this very flowop hold it open.
    own_opens: u32,
}

/// Deletes the file of the slot, or a picked one; does nothing while another slot has it open.
pub(super) fn delete(worker: &mut Worker, task: &Task) -> Flow {
    let Victim { fileset, file, own_opens } = victim(worker, task)?;
    let run = Arc::clone(&worker.run);
    let files = &run.engine.sets[fileset];
    if files.lock().files.open_count(file) > own_opens {
        files.release(file, Becomes::Same);
        return Ok(());
    }
    worker.timed(task, |worker| {
        files.file_path(file, &mut worker.path);
        let unlinked = worker.calls.unlink(worker.path.as_bytes());
        files.settle(|pickers| {
            pickers.files.release(file, if unlinked.is_ok() { Becomes::Absent } else { Becomes::Same });
            if own_opens > 0 {
                pickers.files.closed(file);
            }
        });
        unlinked.map_err(|errno| worker.failed_at(task, "unlink", errno))?;
        Ok(0)
    })
}

fn victim(worker: &mut Worker, task: &Task) -> Flow<Victim> {
    let run = Arc::clone(&worker.run);
    let slot = &mut worker.slots[usize::from(task.operation.fd)];
    if task.operation.fd > 0
        && let Some((fileset, file)) = slot.file.take()
    {
        let own_opens = u32::from(slot.fd.is_some());
        let claimed = run.engine.sets[fileset].claim(&run.control, file);
        return if claimed { Ok(Victim { fileset, file, own_opens }) } else { Err(Halt::Stop) };
    }
    let fileset = worker.fileset_of(task)?;
    let pass_over_open = !run.engine.options.quirks.skip_open_deletes && task.operation.indexed.is_none();
    let file = if pass_over_open {
        let taken = run.engine.sets[fileset].pick(&run.control, Choice::NotOpen);
        taken.entry(fileset, State::Existing)?
    } else {
        worker.pick(task, fileset, State::Existing)?
    };
    Ok(Victim { fileset, file, own_opens: 0 })
}

/// Looks at the attributes of an open slot, or of a picked file.
pub(super) fn stat(worker: &mut Worker, task: &Task) -> Flow {
    let number = usize::from(task.operation.fd);
    if number > 0
        && let Some(fd) = worker.slots[number].fd
    {
        return worker.timed(task, |worker| {
            worker.calls.fstat(fd).map_err(|errno| worker.failed_on(task, number, "fstat", errno))?;
            Ok(0)
        });
    }
    let fileset = worker.fileset_of(task)?;
    let file = worker.pick(task, fileset, State::Existing)?;
    let run = Arc::clone(&worker.run);
    let files = &run.engine.sets[fileset];
    worker.timed(task, |worker| {
        files.file_path(file, &mut worker.path);
        let found = worker.calls.stat(worker.path.as_bytes());
        files.release(file, Becomes::Same);
        found.map_err(|errno| worker.failed_at(task, "stat", errno))?;
        Ok(0)
    })
}
