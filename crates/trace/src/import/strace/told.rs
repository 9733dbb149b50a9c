//! What a recorder knows that lines of strace do not say: the descriptors and the directory of a program as it begins, whose
//! child a process is. The preloaded recorder writes its calls as strace's lines, and these beside them.

use std::io::{self, Write};

use super::args::FdRef;
use super::store::{OUTSIDE, class_of};
use super::{Importer, Slot};
use crate::call::{Call, Op};
use crate::scope::join;

/// A descriptor as a program has it when it begins.
#[derive(Clone, Debug)]
pub(in crate::import) struct Told {
    pub(in crate::import) fd: i32,
    pub(in crate::import) path: Box<[u8]>,
    pub(in crate::import) cloexec: bool,
}

impl<W: Write> Importer<W> {
    /// A process shows itself that no seen call has made: it is a child of the main thread of `parent`, if that is known.
    pub(in crate::import) fn adopt(&mut self, parent: u32, tid: u32, at_ns: u64) -> io::Result<()> {
        if self.threads.contains_key(&tid) {
            return Ok(());
        }
        // A call that has not returned yet is likelier to be the one.
        if self.threads.contains_key(&parent) && !self.is_making() {
            return self.child(parent, tid, (b"fork", b""), at_ns);
        }
        if self.begin(tid, at_ns)? { Ok(()) } else { self.begin_alone(tid, at_ns) }
    }

    /// Whether a thread is known.
    pub(in crate::import) fn knows(&self, tid: u32) -> bool {
        self.threads.contains_key(&tid)
    }

    /// The thread that is known as `tid` has another number on the host.
    pub(in crate::import) fn real_tid(&mut self, tid: u32, real: u32) -> io::Result<()> {
        match self.threads.get(&tid).map(|runner| (runner.number, runner.pid)) {
            Some((number, pid)) => self.out.rename(number, (pid, real), b""),
            None => Ok(()),
        }
    }

    /// The working directory of a thread's process.
    pub(in crate::import) fn stands_in(&mut self, tid: u32, directory: &[u8]) {
        if let Some(runner) = self.threads.get(&tid).filter(|_| directory.first() == Some(&b'/')) {
            self.directories[runner.cwd] = Some(directory.into());
        }
    }

    /// All descriptors that a program has as it begins. What was closed or opened without a call that was seen is mended: one that
    /// leads to a file below a root gets a `D` record, one that is gone is closed in the trace.
    pub(in crate::import) fn descriptors(&mut self, tid: u32, at_ns: u64, told: &[Told]) -> io::Result<()> {
        let Some(runner) = self.threads.get(&tid) else { return Ok(()) };
        let (table, number) = (runner.table, runner.number);
        let mut old: Vec<i32> = self.tables[table].keys().copied().collect();
        old.sort_unstable();
        for fd in old.into_iter().filter(|fd| told.iter().all(|told| told.fd != *fd)) {
            self.forget(number, table, fd, at_ns)?;
        }
        for Told { fd, path, cloexec } in told {
            let inside = class_of(path).is_none() && self.scope.inside(path).is_some();
            match self.tables[table].get_mut(fd) {
                // The file may have been renamed; one that was removed keeps its last name.
                Some(slot) if slot.stored && inside => slot.path = Some(path.clone()),
                Some(slot) if slot.stored && path.ends_with(b" (deleted)") => {}
                Some(slot) if !slot.stored && !inside => {}
                _ => {
                    self.forget(number, table, *fd, at_ns)?;
                    let class = class_of(path).unwrap_or(OUTSIDE);
                    let slot = Slot { stored: false, path: Some(path.clone()), class, cloexec: *cloexec };
                    self.tables[table].insert(*fd, slot);
                    let beside = FdRef { number: Some(*fd), beside: Some(path.clone()) };
                    let _ = self.is_stored(tid, &beside)?;
                }
            }
        }
        Ok(())
    }

    /// A name has become another: descriptors and working directories at it or below it have moved with it. Where `-y` tells paths,
    /// they are newer than this.
    pub(super) fn moved(&mut self, from: &[u8], to: &[u8]) {
        let new = |path: &mut Box<[u8]>| {
            let rest = path.strip_prefix(from).filter(|rest| rest.is_empty() || rest[0] == b'/');
            let moved = rest.map(|rest| [to, rest].concat().into());
            if let Some(moved) = moved {
                *path = moved;
            }
        };
        let slots = self.tables.iter_mut().flat_map(|table| table.values_mut());
        slots.filter_map(|slot| slot.path.as_mut()).for_each(new);
        self.directories.iter_mut().flatten().for_each(new);
    }

    /// A descriptor was closed without a call that was seen.
    fn forget(&mut self, number: u32, table: usize, fd: i32, at_ns: u64) -> io::Result<()> {
        if self.tables[table].remove(&fd).is_some_and(|slot| slot.stored) {
            let mut close = Call::new(Op::Close);
            close.fd = Some(fd);
            return self.out.call(number, (at_ns, 0), close, 0);
        }
        Ok(())
    }

    /// Whether a descriptor of a thread leads to a file below a root.
    pub(in crate::import) fn stores(&self, tid: u32, fd: i32) -> bool {
        let table = self.threads.get(&tid).map(|runner| runner.table);
        table.is_some_and(|table| self.tables[table].get(&fd).is_some_and(|slot| slot.stored))
    }

    /// Whether a path of a thread is below a root.
    pub(in crate::import) fn is_inside(&mut self, tid: u32, path: &[u8]) -> bool {
        if path.is_empty() || !self.threads.contains_key(&tid) {
            return false;
        }
        let real = join(&self.directory(tid, None), path);
        self.scope.inside(&real).is_some()
    }

    /// Counts something.
    pub(in crate::import) fn count(&mut self, what: &str, count: u64) {
        self.out.count(what, count);
    }

    /// What a recorded call costs of the gap before it, if the recorder knows it.
    pub(in crate::import) fn costs(&mut self, level_ns: u64) {
        self.out.costs(level_ns);
    }

    /// Calls are lost: the trace is not whole.
    pub(in crate::import) fn lose(&mut self, calls: u64) {
        self.lost += calls;
    }
}
