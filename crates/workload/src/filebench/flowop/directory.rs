//! Making and removing leaf directories, listing the directories of the tree.

use std::sync::Arc;

use vfs::{DirEntry, OpenFlags};

use crate::filebench::fileset::pick::{Becomes, State};
use crate::filebench::fileset::tree::Entry;
use crate::filebench::run::error::EngineError;
use crate::filebench::run::plan::Task;
use crate::filebench::run::worker::{Flow, Halt, Worker};

const MODE: u32 = 0o755;

/// Bytes of a directory entry in memory besides its name, as Filebench counts them: the size of `struct
/// dirent` on 64-bit Linux, less one.
const DIRENT_BYTES: u64 = 279;

/// Makes an absent leaf directory.
pub(super) fn make(worker: &mut Worker, task: &Task) -> Flow {
    on_leaf(worker, task, State::Absent, |worker| {
        let made = worker.calls.mkdir(worker.path.as_bytes(), MODE);
        made.map_err(|errno| worker.failed_at(task, "mkdir", errno))
    })
}

/// Removes an existing leaf directory.
pub(super) fn remove(worker: &mut Worker, task: &Task) -> Flow {
    on_leaf(worker, task, State::Existing, |worker| {
        let removed = worker.calls.rmdir(worker.path.as_bytes());
        removed.map_err(|errno| worker.failed_at(task, "rmdir", errno))
    })
}

fn on_leaf(
    worker: &mut Worker,
    task: &Task,
    state: State,
    call: impl FnOnce(&mut Worker) -> Result<(), EngineError>,
) -> Flow {
    let fileset = worker.fileset_of(task)?;
    let run = Arc::clone(&worker.run);
    let files = &run.engine.sets[fileset];
    let index = match &task.operation.indexed {
        None => None,
        Some(_) => Some(
            worker
                .index(&task.operation, files.tree.leaf_directories())
                .ok_or(Halt::Exhausted { fileset, state })?,
        ),
    };
    let taken = files.take(&run.control, |pickers| match (index, state) {
        (Some(index), state) => pickers.leafdirs.pick_by_index(state, index),
        (None, State::Absent) => pickers.leafdirs.pick_absent(),
        (None, _) => pickers.leafdirs.pick_existing(),
    });
    let directory = taken.entry(fileset, state)?;
    worker.timed(task, |worker| {
        files.tree.path_of(Entry::LeafDirectory(directory), &mut worker.path);
        let result = call(worker);
        let becomes = match (&result, state) {
            (Err(_), _) => Becomes::Same,
            (Ok(()), State::Absent) => Becomes::Existing,
            (Ok(()), _) => Becomes::Absent,
        };
        files.settle(|pickers| pickers.leafdirs.release(directory, becomes));
        result.map(|()| 0)
    })
}

/// Reads all entries of a directory of the tree.
pub(super) fn list(worker: &mut Worker, task: &Task) -> Flow {
    let fileset = worker.fileset_of(task)?;
    let run = Arc::clone(&worker.run);
    let files = &run.engine.sets[fileset];
    let taken = files.take(&run.control, |pickers| pickers.directories.pick_existing());
    let directory = taken.entry(fileset, State::Existing)?;
    worker.timed(task, |worker| {
        files.tree.path_of(Entry::Directory(directory), &mut worker.path);
        let bytes = read_entries(worker);
        files.settle(|pickers| pickers.directories.release(directory, Becomes::Same));
        bytes.map_err(|errno| worker.failed_at(task, "readdir", errno))
    })
}

fn read_entries(worker: &Worker) -> vfs::Result<u64> {
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let fd = worker.calls.open(worker.path.as_bytes(), flags, 0)?;
    let mut bytes = 0;
    let read = worker.calls.getdents(fd, &mut |entry: DirEntry<'_>| {
        bytes += entry.name.len() as u64 + DIRENT_BYTES;
        true
    });
    worker.calls.close(fd)?;
    read.map(|()| bytes)
}
