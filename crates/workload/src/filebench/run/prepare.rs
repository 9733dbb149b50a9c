//! Building the filesets before a run. Nothing here is counted.
//!
//! As Filebench does it: the old tree goes, unless it is reused; all directories are made; then files are
//! visited in random order, and each is written with the probability of `prealloc`, in pieces of 1 MiB.
//! With `paralloc` up to 32 tasks do that side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rand::RngExt;
use sim::{Nanos, TaskSpec};
use vfs::{Errno, OpenFlags, Syscalls};

use crate::filebench::fileset::pick::{Becomes, Pick, Picker, State};
use crate::filebench::fileset::tree::Entry;
use crate::filebench::flowop::make_path;
use crate::filebench::program::Fileset;
use crate::tree::{self, CallFailed};

use super::Engine;
use super::error::EngineError;
use super::files::Files;

/// Filebench's `FILE_ALLOC_BLOCK`.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;
const PARALLEL: usize = 32;
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// What a preparation has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Files that exist now.
    pub files: u64,
    /// Directories that exist now, empty ones included.
    pub directories: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Time that it took.
    pub elapsed: Nanos,
}

impl Engine {
    /// Builds all filesets through `calls`. Must be called once before the first run.
    pub fn prepare(self: &Arc<Self>, calls: &Arc<dyn Syscalls>) -> Result<Prepared, EngineError> {
        let start = sim::now();
        let mut prepared = Prepared::default();
        for set in 0..self.sets.len() {
            self.prepare_set(set, calls, &mut prepared)?;
        }
        prepared.elapsed = sim::now().since(start);
        Ok(prepared)
    }

    fn prepare_set(
        self: &Arc<Self>,
        set: usize,
        calls: &Arc<dyn Syscalls>,
        prepared: &mut Prepared,
    ) -> Result<(), EngineError> {
        let (spec, files) = (&self.program.filesets[set], &self.sets[set]);
        let reusing = make_tree(spec, files, &**calls)?;
        let (mut chosen, leafdirs) = self.choose(set);
        if self.options.ordered {
            chosen.sort_unstable();
        }
        prepared.directories += u64::from(files.tree.directories()) + leafdirs.len() as u64;
        for leafdir in leafdirs {
            make_directory(&**calls, files, Entry::LeafDirectory(leafdir))?;
        }
        prepared.files += chosen.len() as u64;
        prepared.written_bytes += self.allocate(set, chosen, reusing, calls)?;
        Ok(())
    }

    /// Decides in random order which files and empty directories exist at the start.
    fn choose(&self, set: usize) -> (Vec<u32>, Vec<u32>) {
        let percent = u32::from(self.program.filesets[set].prealloc_percent);
        let mut rng = self.options.seed.derive("filebench.prealloc", set as u64).rng();
        self.sets[set].settle(|pickers| {
            let files = visit(&mut pickers.files, percent, &mut rng);
            (files, visit(&mut pickers.leafdirs, percent, &mut rng))
        })
    }

    /// Writes the chosen files; returns the bytes written.
    fn allocate(
        self: &Arc<Self>,
        set: usize,
        chosen: Vec<u32>,
        reusing: bool,
        calls: &Arc<dyn Syscalls>,
    ) -> Result<u64, EngineError> {
        if !self.program.filesets[set].paralloc || sim::task::current_id().is_none() {
            return chosen.iter().map(|file| self.allocate_file(set, *file, reusing, &**calls)).sum();
        }
        let (chosen, next) = (Arc::new(chosen), Arc::new(AtomicUsize::new(0)));
        let task = |number: usize| {
            let (engine, calls) = (Arc::clone(self), Arc::clone(calls));
            let (chosen, next) = (Arc::clone(&chosen), Arc::clone(&next));
            let core = (self.options.core)(number);
            sim::spawn(TaskSpec::named(format!("prepare-{number}")).on_core(core), move || {
                let mut bytes = 0;
                loop {
                    sim::interact();
                    let Some(file) = chosen.get(next.fetch_add(1, Relaxed)) else { return Ok(bytes) };
                    bytes += engine.allocate_file(set, *file, reusing, &*calls)?;
                }
            })
        };
        let tasks: Vec<_> = (0..PARALLEL.min(chosen.len())).map(task).collect();
        tasks.into_iter().map(sim::JoinHandle::join).sum()
    }

    /// Makes one file what it should be at the start; returns the bytes written.
    fn allocate_file(
        &self,
        set: usize,
        file: u32,
        reusing: bool,
        calls: &dyn Syscalls,
    ) -> Result<u64, EngineError> {
        let (spec, files) = (&self.program.filesets[set], &self.sets[set]);
        let size = files.tree.size_of(file);
        files.wrote(file, size);
        if spec.trusttree {
            return Ok(0);
        }
        let mut path = String::new();
        files.file_path(file, &mut path);
        let found = if reusing { calls.stat(path.as_bytes()).ok().map(|attr| attr.size) } else { None };
        match found {
            Some(found) if found == size => Ok(0),
            Some(found) if found > size => {
                calls.truncate(path.as_bytes(), size).map_err(|errno| failed("truncate", &path, errno))?;
                Ok(0)
            }
            _ => self.write_file(&path, size, calls),
        }
    }

    fn write_file(&self, path: &str, size: u64, calls: &dyn Syscalls) -> Result<u64, EngineError> {
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
        let fd =
            calls.open(path.as_bytes(), flags, FILE_MODE).map_err(|errno| failed("open", path, errno))?;
        let (phase, mut scratch) = (self.pattern.phase(path.as_bytes()), Vec::new());
        let mut done = 0;
        while done < size {
            let len = CHUNK_BYTES.min(size - done);
            let data = self.pattern.bytes(phase, done, len as usize, &mut scratch);
            let written = calls.write(fd, data).map_err(|errno| failed("write", path, errno))? as u64;
            if written != len {
                let (what, path) = ("prepare".to_owned(), path.to_owned());
                return Err(EngineError::Short { what, path, written, wanted: len });
            }
            done += len;
        }
        calls.close(fd).map_err(|errno| failed("close", path, errno))?;
        Ok(size)
    }
}

/// Removes what is there and makes the directories; true when the old tree is kept.
fn make_tree(spec: &Fileset, files: &Files, calls: &dyn Syscalls) -> Result<bool, EngineError> {
    let mut root = String::new();
    files.tree.path_of(Entry::Directory(0), &mut root);
    if spec.trusttree {
        return Ok(true);
    }
    let exists = calls.stat(root.as_bytes()).is_ok();
    let reusing = exists && spec.reuse;
    if exists && !reusing {
        let told = |CallFailed { call, path, errno }| failed(call, &path, errno);
        tree::remove(calls, &root).map_err(told)?;
    }
    make_path(calls, &root).map_err(|errno| failed("mkdir", &root, errno))?;
    for directory in 1..files.tree.directories() {
        make_directory(calls, files, Entry::Directory(directory))?;
    }
    Ok(reusing)
}

fn failed(call: &'static str, path: &str, errno: Errno) -> EngineError {
    EngineError::Call { what: "prepare".to_owned(), call, path: path.to_owned(), errno }
}

fn make_directory(calls: &dyn Syscalls, files: &Files, entry: Entry) -> Result<(), EngineError> {
    let mut path = String::new();
    files.tree.path_of(entry, &mut path);
    match calls.mkdir(path.as_bytes(), DIRECTORY_MODE) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(failed("mkdir", &path, errno)),
    }
}

/// Takes every free entry once, in random order, and makes it existing with the given probability.
fn visit(picker: &mut Picker, percent: u32, rng: &mut sim::Rng) -> Vec<u32> {
    let entries = picker.count(State::Free) as u32;
    let mut chosen = Vec::new();
    while picker.count(State::Free) > 0 {
        let Pick::Entry(entry) = picker.pick_by_index(State::Free, rng.random_range(0..entries)) else {
            break;
        };
        let exists = rng.random_range(0..100) < percent;
        picker.release(entry, if exists { Becomes::Existing } else { Becomes::Absent });
        if exists {
            chosen.push(entry);
        }
    }
    chosen
}
