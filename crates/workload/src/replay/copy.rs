//! What a copy of the program has: its processes, descriptors and mappings, and where its paths lead.
//!
//! A process of the program is a process here, because what threads of one process share, processes do not; on a directory of the
//! host, where a process of ours has the descriptors of all, the copy is one. A descriptor that a process has from its parent is
//! used in the process that has opened it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use vfs::{Errno, Fd, Mapping, Syscalls};

use super::load::Loaded;
use super::order::Threads;
use super::variables::Root;
use crate::suite::Processes;

/// What the reads of a directory through a handle have given so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Listing {
    /// Reads that gave something in the recording.
    pub(super) pieces: u32,
    pub(super) recorded: u64,
    pub(super) made: u64,
}

/// A copy.
pub(super) struct Copy {
    pub(super) number: u32,
    pub(super) threads: Threads,
    /// The process of each of the program's, or one for all.
    processes: Vec<Arc<dyn Syscalls>>,
    /// The directory to which paths are relative, and that in which all is that was outside of it.
    pub(super) root: String,
    pub(super) outside: String,
    /// What its own files in a shared tree have behind their names.
    pub(super) suffix: Vec<u8>,
    /// Of each handle, the process and the descriptor, by [`packed`].
    handles: Box<[AtomicU64]>,
    mappings: Mutex<FxHashMap<u32, Arc<dyn Mapping>>>,
    listings: Mutex<FxHashMap<u32, Listing>>,
}

/// A process and a descriptor in a word; 0 is none.
fn packed(process: usize, fd: Fd) -> u64 {
    ((process as u64) << 32 | u64::from(fd.0)) + 1
}

impl Copy {
    pub(super) fn new(loaded: &Loaded, number: u32, root: Root, source: &dyn Processes) -> Self {
        let processes = if source.program().is_some() { 1 } else { loaded.plan.processes };
        let (tree, suffix) = match root {
            Root::Private => (number, Vec::new()),
            Root::Shared if number == 0 => (0, Vec::new()),
            Root::Shared => (0, format!(".{number}").into_bytes()),
        };
        Self {
            number,
            threads: Threads::new(loaded.program.threads.len()),
            processes: (0..processes).map(|_| source.start()).collect(),
            root: format!("/{tree}"),
            outside: format!("/{tree}.outside"),
            suffix,
            handles: (0..loaded.program.summary.handles).map(|_| AtomicU64::new(0)).collect(),
            mappings: Mutex::default(),
            listings: Mutex::default(),
        }
    }

    /// Every process begins in the root.
    pub(super) fn enter(&self) -> Result<(), Errno> {
        self.processes.iter().try_for_each(|process| process.chdir(self.root.as_bytes()))
    }

    /// The process of the program's process number `process`.
    pub(super) fn process(&self, process: usize) -> (usize, &dyn Syscalls) {
        let process = process.min(self.processes.len() - 1);
        (process, &*self.processes[process])
    }

    /// Whether one process here is all of the program's.
    pub(super) fn is_one_process(&self) -> bool {
        self.processes.len() == 1
    }

    /// The process and descriptor of a handle; none while it is closed.
    pub(super) fn handle(&self, handle: u32) -> Option<(usize, &dyn Syscalls, Fd)> {
        let word = self.handles.get(handle as usize)?.load(Relaxed).checked_sub(1)?;
        let process = (word >> 32) as usize;
        Some((process, &**self.processes.get(process)?, Fd(word as u32)))
    }

    pub(super) fn opened(&self, handle: u32, process: usize, fd: Fd) {
        if let Some(slot) = self.handles.get(handle as usize) {
            slot.store(packed(process, fd), Relaxed);
        }
    }

    /// Takes a handle out of the table.
    pub(super) fn closed(&self, handle: u32) -> Option<(&dyn Syscalls, Fd)> {
        let (_, calls, fd) = self.handle(handle)?;
        self.handles.get(handle as usize)?.store(0, Relaxed);
        Some((calls, fd))
    }

    /// Where a path of the trace leads in this copy. `cut` is where a suffix goes; 0: nowhere.
    pub(super) fn path<'p>(&self, path: &'p [u8], cut: u32, buffer: &'p mut Vec<u8>) -> &'p [u8] {
        let is_outside = path.first() == Some(&b'/');
        let has_suffix = cut > 0 && !self.suffix.is_empty();
        if path.is_empty() {
            return b".";
        }
        if !is_outside && !has_suffix {
            return path;
        }
        buffer.clear();
        if is_outside {
            buffer.extend_from_slice(self.outside.as_bytes());
        }
        let (before, after) = path.split_at(if has_suffix { cut as usize } else { path.len() });
        buffer.extend_from_slice(before);
        if has_suffix {
            buffer.extend_from_slice(&self.suffix);
        }
        buffer.extend_from_slice(after);
        buffer
    }

    /// The same from the root of the file system.
    pub(super) fn absolute(&self, path: &[u8], cut: u32) -> Vec<u8> {
        let mut buffer = Vec::new();
        let path = Cow::Borrowed(self.path(path, cut, &mut buffer));
        match &*path {
            b"." => self.root.clone().into_bytes(),
            path if path.first() == Some(&b'/') => path.to_vec(),
            path => [self.root.as_bytes(), b"/", path].concat(),
        }
    }

    pub(super) fn map(&self, number: u32, mapping: Box<dyn Mapping>) {
        let mapping = Arc::from(mapping);
        let old = self.mappings.lock().unwrap_or_else(PoisonError::into_inner).insert(number, mapping);
        drop(old);
    }

    /// Ends a mapping; false if there is none of that number.
    pub(super) fn unmap(&self, number: u32) -> bool {
        let mapping = self.mappings.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        mapping.is_some()
    }

    /// A mapping.
    pub(super) fn mapping(&self, number: u32) -> Option<Arc<dyn Mapping>> {
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner).get(&number).map(Arc::clone)
    }

    /// Changes what is known of the reads of a directory.
    pub(super) fn listing<T>(&self, handle: u32, change: impl FnOnce(&mut Listing) -> T) -> T {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        change(listings.entry(handle).or_default())
    }

    /// Closes and unmaps what the program has left open.
    pub(super) fn close_all(&self) {
        let mappings = std::mem::take(&mut *self.mappings.lock().unwrap_or_else(PoisonError::into_inner));
        drop(mappings);
        for handle in 0..self.handles.len() as u32 {
            if let Some((calls, fd)) = self.closed(handle) {
                // It was open; what the end of a process does with an error of close, this does.
                let _ = calls.close(fd);
            }
        }
    }
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copy({})", self.number)
    }
}
