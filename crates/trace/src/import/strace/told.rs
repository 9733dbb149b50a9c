//! What a recorder knows that lines of strace do not say: the descriptors and the directory of a program as it begins, whose
//! child a process is. The preloaded recorder writes its calls as strace's lines, and these beside them.

use std::io::{self, Write};

use super::place::Leads;
use super::store::{OUTSIDE, class_of};
use super::{Class, Importer, Slot};
use crate::call::{Call, Op};
use crate::record::{Loss, Received, Record, Sent};
use crate::words::CLOEXEC;

/// A descriptor as a program has it when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The number.
    pub fd: i32,
    /// What it leads to, as `/proc/self/fd` says.
    pub path: Box<[u8]>,
    /// As of `open`, with `O_CLOEXEC` if exec closes it.
    pub flags: u32,
    /// The position.
    pub position: u64,
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
            self.places[runner.place].cwd = Some(directory.into());
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
        for (at, one) in told.iter().enumerate() {
            let Told { fd, path, flags, position } = one;
            let inside = class_of(path).is_none() && self.scope.inside(path).is_some();
            match self.tables[table].get_mut(fd) {
                // The file may have been renamed; one that was removed keeps its last name.
                Some(slot) if slot.stored && inside => slot.path = Some(path.clone()),
                Some(slot) if slot.stored && path.ends_with(b" (deleted)") => {}
                Some(slot) if !slot.stored && !inside => {}
                _ => {
                    self.forget(number, table, *fd, at_ns)?;
                    let class = class_of(path).map_or(OUTSIDE, Class::Counted);
                    let cloexec = flags & CLOEXEC != 0;
                    let slot = Slot { stored: false, path: Some(path.clone()), class, cloexec };
                    self.tables[table].insert(*fd, slot);
                    // Two that are alike are one open file under two numbers, as `>log 2>&1` makes them.
                    let alike = |other: &&Told| {
                        other.path == *path
                            && (other.flags ^ flags) & !CLOEXEC == 0
                            && other.position == *position
                    };
                    match told[..at].iter().find(alike).filter(|_| inside) {
                        Some(other) => self.share(tid, other.fd, one)?,
                        None => self.inherit(tid, one)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// A descriptor is the same open file as another of the thread.
    fn share(&mut self, tid: u32, with: i32, told: &Told) -> io::Result<()> {
        let (table, thread) = (self.runner(tid).table, self.runner(tid).number);
        self.next_sent += 1;
        let (number, fd, cloexec) = (self.next_sent, told.fd, told.flags & CLOEXEC != 0);
        self.out.record(&Record::Sent(Sent { thread, fd: with, number }))?;
        self.out.record(&Record::Received(Received { thread, number, fd, cloexec }))?;
        let slot = Slot { stored: true, path: Some(told.path.clone()), class: OUTSIDE, cloexec };
        self.tables[table].insert(fd, slot);
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
        self.places.iter_mut().filter_map(|place| place.cwd.as_mut()).for_each(new);
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
        let Leads { real, is_unknown } = self.leads(tid, None, path);
        is_unknown || self.scope.inside(&real).is_some() || self.inside_by_links(&real, true).is_some()
    }

    /// Counts something.
    pub(in crate::import) fn count(&mut self, what: &str, count: u64) {
        self.out.count(what, count);
    }

    /// What a recorded call costs of the gap before it, if the recorder knows it.
    pub(in crate::import) fn costs(&mut self, level_ns: u64) {
        self.out.costs(level_ns);
    }

    /// Something is missing.
    pub(in crate::import) fn lost(&mut self, loss: &Loss) {
        self.out.lose(loss);
    }

    /// The times of lines are those of one clock, in the order in which calls ended.
    pub(in crate::import) fn has_one_clock(&mut self) {
        self.clock = None;
    }
}
