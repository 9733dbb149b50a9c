//! Calls: which are stored, and under which paths and descriptors.

use std::io::{self, Write};

use super::args::{self, FdRef};
use super::calls::{self, Seen};
use super::line::Outcome;
use super::process::makes_thread;
use super::{Importer, Known, Mapping, Slot};
use crate::call::{Call, Field, Op};
use crate::record::{Entry, Inherited, Kind, Record};
use crate::scope::{join, normal};
use crate::words::{CLOEXEC, CREAT, MAP_SHARED, TMPFILE, TRUNC, Table, error_number};

/// What calls on files elsewhere are counted as.
pub(super) const OUTSIDE: &str = "calls on files outside the roots";

/// What `-y` shows beside a descriptor that leads to no file of a disk.
pub(super) fn class_of(path: &[u8]) -> Option<&'static str> {
    const CLASSES: [(&[u8], &str); 9] = [
        (b"pipe:", "calls on pipes"),
        (b"socket:", "calls on sockets"),
        (b"TCP", "calls on sockets"),
        (b"UDP", "calls on sockets"),
        (b"UNIX", "calls on sockets"),
        (b"NETLINK", "calls on sockets"),
        (b"anon_inode:", "calls on epoll, eventfd, timerfd and the like"),
        (b"/dev/", "calls on devices"),
        (b"/proc/", "calls on /proc"),
    ];
    // A file system for memory that processes share: its files are files.
    if path.starts_with(b"/dev/shm/") {
        return None;
    }
    CLASSES.iter().find(|(start, _)| path.starts_with(start)).map(|(_, class)| *class)
}

/// What a call is counted as that no trace stores.
fn class_of_call(name: &[u8]) -> String {
    match name {
        b"futex" | b"nanosleep" | b"clock_nanosleep" | b"pause" | b"poll" | b"ppoll" | b"select"
        | b"pselect6" | b"epoll_wait" | b"epoll_pwait" | b"epoll_pwait2" => "waits".to_owned(),
        b"io_uring_setup" => {
            "io_uring_setup: what is read and written through io_uring cannot be seen".to_owned()
        }
        b"mremap" => "mremap: mappings that move".to_owned(),
        other => format!("{}: not a call of files that a trace stores", String::from_utf8_lossy(other)),
    }
}

/// The result: a number, or −errno; none where the call has not returned to the program.
pub(super) fn result_of(text: &[u8]) -> Option<i64> {
    if let Some(error) = text.strip_prefix(b"-1 ") {
        let name = error.split(|byte| *byte == b' ').next().unwrap_or_default();
        return error_number(name).map(|errno| -i64::from(errno));
    }
    args::number(text)
}

/// A call on its way into the trace.
struct Stored {
    seen: Seen,
    times: (u64, u64),
    result: i64,
    /// Absolute paths.
    full: [Option<Vec<u8>>; 2],
}

/// A path as the trace has it, whether it is below a root, and as the host has it.
struct Named {
    path: Box<[u8]>,
    inside: bool,
    real: Vec<u8>,
}

impl<W: Write> Importer<W> {
    /// A whole call, contents aside.
    pub(super) fn store_line(
        &mut self,
        tid: u32,
        name: &[u8],
        text: &[u8],
        outcome: Outcome<'_>,
        at_ns: u64,
        child: Option<u32>,
    ) -> io::Result<()> {
        let times = (at_ns, outcome.duration_ns.unwrap_or(0));
        match name {
            name if makes_thread(name) => return self.forked(tid, (name, text), outcome, times, child),
            b"wait4" | b"waitpid" => return self.waited(tid, args::number(outcome.text), times),
            b"waitid" => {
                let about = args::split(text).get(2).and_then(|about| args::member(about, "si_pid"));
                return self.waited(tid, about.and_then(args::number), times);
            }
            b"exit" | b"exit_group" => return Ok(()),
            _ => {}
        }
        let number = self.runner(tid).number;
        let Some(result) = result_of(outcome.text) else {
            self.out.skip(number, times.1, "calls that a signal interrupted or that did not return");
            return Ok(());
        };
        match name {
            b"mmap" | b"mmap2" => self.mmap(tid, text, result, times),
            b"munmap" | b"msync" => self.mapping(tid, name, text, result, times),
            b"pipe" | b"pipe2" | b"socketpair" => self.pair(tid, text, times, result),
            b"close_range" => self.close_range(tid, text, times, result),
            _ => match calls::parse(name, text) {
                Some(seen) => self.seen(tid, seen, times, result),
                None => {
                    self.out.skip(number, times.1, &class_of_call(name));
                    self.other_descriptor(tid, name, outcome.text, result);
                    Ok(())
                }
            },
        }
    }

    /// A call that is not stored may have opened a descriptor: a socket, an eventfd.
    fn other_descriptor(&mut self, tid: u32, name: &[u8], text: &[u8], result: i64) {
        let opens = [
            &b"socket"[..],
            b"accept",
            b"accept4",
            b"eventfd2",
            b"epoll_create1",
            b"memfd_create",
            b"timerfd_create",
        ];
        if let (true, Ok(fd)) = (result >= 0 && opens.contains(&name), i32::try_from(result)) {
            let beside = args::fd(text).and_then(|fd| fd.beside).unwrap_or_default();
            let class = class_of(&beside).unwrap_or("calls on sockets");
            let table = self.runner(tid).table;
            self.tables[table].insert(fd, Slot { stored: false, path: None, class, cloexec: false });
        }
    }

    /// A call that a trace can have.
    fn seen(&mut self, tid: u32, mut seen: Seen, times: (u64, u64), result: i64) -> io::Result<()> {
        if seen.cut {
            seen.call.len = result.max(0).cast_unsigned();
        }
        let (full, inside) = self.paths(tid, &mut seen);
        let stored = Stored { seen, times, result, full };
        match stored.seen.call.op {
            Op::Open => self.open(tid, stored, inside),
            Op::Dup => self.dup(tid, stored),
            Op::Copy | Op::Clone => self.copy(tid, stored),
            Op::Exec => self.exec(tid, stored),
            Op::Chdir | Op::Fchdir => self.chdir(tid, stored, inside),
            Op::Umask | Op::Sync => self.store(tid, stored),
            _ if stored.seen.call.path.is_some()
                || stored.seen.call.path2.is_some() && stored.seen.call.fd.is_none() =>
            {
                self.store_by_path(tid, stored, inside)
            }
            _ => self.store_by_fd(tid, stored),
        }
    }

    /// Makes the paths of a call those of the trace. Says what they are on the host, and whether one of them is below a root.
    fn paths(&mut self, tid: u32, seen: &mut Seen) -> ([Option<Vec<u8>>; 2], bool) {
        let first = seen.call.path.take().filter(|_| seen.call.op.fields().contains(&Field::Path));
        let first = first.map(|path| self.name(tid, seen.dirs[0].as_ref(), &path));
        let is_path = seen.call.op.fields().contains(&Field::Path2);
        let second = seen.call.path2.take_if(|_| is_path);
        let second = second.map(|path| self.name(tid, seen.dirs[1].as_ref(), &path));
        let inside = first.iter().chain(&second).any(|name| name.inside);
        let mut full = [None, None];
        if let Some(Named { path, real, .. }) = first {
            (seen.call.path, full[0]) = (Some(path), Some(real));
        }
        if let Some(Named { path, real, .. }) = second {
            (seen.call.path2, full[1]) = (Some(path), Some(real));
        }
        (full, inside)
    }

    /// A path of a call, in a directory or the working directory.
    fn name(&mut self, tid: u32, directory: Option<&FdRef>, path: &[u8]) -> Named {
        let real = join(&self.directory(tid, directory), path);
        // An empty path is an error of its own, which joining would hide.
        let (path, inside) = if path.is_empty() { (Box::default(), false) } else { self.scope.name(&real) };
        Named { path, inside, real }
    }

    /// The directory that a path is relative to.
    pub(super) fn directory(&mut self, tid: u32, of: Option<&FdRef>) -> Vec<u8> {
        let (table, cwd) = (self.runner(tid).table, self.runner(tid).cwd);
        match of {
            Some(FdRef { number: None, beside: Some(beside) }) => {
                self.directories[cwd] = Some(beside.clone());
                beside.to_vec()
            }
            Some(FdRef { number: Some(_), beside: Some(beside) }) => beside.to_vec(),
            Some(FdRef { number: Some(fd), beside: None }) => {
                let path = self.tables[table].get(fd).and_then(|slot| slot.path.clone());
                path.map_or_else(|| b"/".to_vec(), Vec::from)
            }
            _ => self.directories[cwd].clone().map_or_else(|| b"/".to_vec(), Vec::from),
        }
    }

    /// Whether calls on a descriptor are stored; what they are counted as otherwise. A descriptor that leads to a file below a root
    /// and whose opening was not seen gets a `D` record first.
    pub(super) fn is_stored(&mut self, tid: u32, fd: &FdRef) -> io::Result<Result<(), &'static str>> {
        let Some(number) = fd.number else { return Ok(Err(OUTSIDE)) };
        let (table, thread) = (self.runner(tid).table, self.runner(tid).number);
        if let Some(class) = fd.beside.as_deref().and_then(class_of) {
            return Ok(Err(class));
        }
        let slot = self.tables[table].get(&number);
        if slot.is_some_and(|slot| slot.stored) {
            return Ok(Ok(()));
        }
        let Some(beside) = &fd.beside else {
            let unknown = "calls on descriptors that were open before the trace";
            return Ok(Err(slot.map_or(unknown, |slot| slot.class)));
        };
        let path = beside.strip_suffix(b" (deleted)").unwrap_or(beside);
        let Some(name) = self.scope.inside(path) else { return Ok(Err(OUTSIDE)) };
        self.touch(&name)?;
        let slot = Slot { stored: true, path: Some(path.into()), class: OUTSIDE, cloexec: false };
        self.tables[table].insert(number, slot);
        let open = Inherited { thread, fd: number, path: name, flags: 2, position: 0 };
        self.out.record(&Record::Inherited(open))?;
        Ok(Ok(()))
    }

    /// What existed of a path is written before the first call that uses it.
    fn touch(&mut self, name: &[u8]) -> io::Result<()> {
        match &mut self.known {
            Known::Snapshot(snapshot) => snapshot.touch(name, &mut |entry| Self::give(&mut self.out, entry)),
            Known::Seen(_) => Ok(()),
        }
    }

    fn touch_all(&mut self, name: &[u8], deep: bool) -> io::Result<()> {
        match &mut self.known {
            Known::Snapshot(snapshot) => {
                snapshot.touch_all(name, deep, &mut |entry| Self::give(&mut self.out, entry))
            }
            Known::Seen(_) => Ok(()),
        }
    }

    /// Writes a call.
    fn store(&mut self, tid: u32, stored: Stored) -> io::Result<()> {
        let number = self.runner(tid).number;
        let call = &stored.seen.call;
        let two_paths = matches!(call.op, Op::Rename | Op::Link);
        for (at, path) in [&call.path, &call.path2].into_iter().enumerate() {
            let is_name = at == 0 || two_paths || call.op == Op::LinkFd;
            let Some(path) = path.as_ref().filter(|path| is_name && path.first() != Some(&b'/')).cloned()
            else {
                continue;
            };
            if call.op == Op::Rename && stored.result >= 0 {
                self.touch_all(&path, true)?;
            } else {
                self.touch(&path)?;
            }
        }
        self.learn(tid, &stored)?;
        if let (Op::Rename, 0.., [Some(from), Some(to)]) = (stored.seen.call.op, stored.result, &stored.full)
        {
            let (from, to) = (normal(from), normal(to));
            self.moved(&from, &to);
        }
        self.out.call(number, stored.times, stored.seen.call, stored.result)
    }

    /// Without a snapshot: what the first stat of a file shows is what it was, unless the trace has changed it.
    fn learn(&mut self, tid: u32, stored: &Stored) -> io::Result<()> {
        let table = self.runner(tid).table;
        let (call, done) = (&stored.seen.call, stored.result >= 0);
        let Known::Seen(seen) = &mut self.known else { return Ok(()) };
        let of_fd = call.fd.and_then(|fd| self.tables[table].get(&fd)?.path.clone());
        let of_fd = of_fd.and_then(|path| self.scope.inside(&path));
        let Some(path) = call.path.clone().or(of_fd).filter(|_| done) else { return Ok(()) };
        let makes = call.op.writes()
            || matches!(
                call.op,
                Op::Mkdir | Op::Mknod | Op::Symlink | Op::Ftruncate | Op::Truncate | Op::Fallocate
            )
            || call.op == Op::Open && call.has(CREAT | TRUNC);
        match stored.seen.attributes {
            Some((mode, size)) if matches!(call.op, Op::Stat | Op::Lstat | Op::Fstat) => {
                let kind = Kind::of_mode(mode).filter(|kind| *kind != Kind::Symlink);
                if let (Some(kind), true) = (kind, seen.insert(path.clone())) {
                    let size = if kind == Kind::File { size } else { 0 };
                    let entry = Entry { kind, mode: mode & 0o7777, size, group: 0, path, target: None };
                    Self::give(&mut self.out, entry)?;
                }
            }
            _ if makes => drop(seen.insert(path)),
            _ => {}
        }
        if matches!(call.op, Op::Rename | Op::Link | Op::LinkFd) {
            seen.extend(call.path2.clone());
        }
        Ok(())
    }

    fn skip(&mut self, tid: u32, stored: &Stored, class: &str) {
        let number = self.runner(tid).number;
        self.out.skip(number, stored.times.1, class);
    }

    fn store_by_path(&mut self, tid: u32, stored: Stored, inside: bool) -> io::Result<()> {
        if inside {
            return self.store(tid, stored);
        }
        self.skip(tid, &stored, OUTSIDE);
        Ok(())
    }

    fn store_by_fd(&mut self, tid: u32, stored: Stored) -> io::Result<()> {
        let fd = stored.seen.fds[0].clone();
        let fd = FdRef { number: fd.number.or(stored.seen.call.fd), beside: fd.beside };
        let kept = self.is_stored(tid, &fd)?;
        let table = self.runner(tid).table;
        let slot = fd.number.and_then(|fd| self.tables[table].get_mut(&fd));
        let path = slot.as_ref().and_then(|slot| slot.path.clone());
        match (stored.seen.call.op, slot) {
            (Op::SetFd, Some(slot)) if stored.result >= 0 => slot.cloexec = stored.seen.call.has(CLOEXEC),
            (Op::Close, Some(_)) if stored.result >= 0 => {
                self.tables[table].remove(&fd.number.unwrap_or(-1));
            }
            _ => {}
        }
        if let Err(class) = kept {
            self.skip(tid, &stored, class);
            return Ok(());
        }
        if stored.seen.call.op == Op::Getdents {
            let name = path.and_then(|path| self.scope.inside(&path));
            name.map_or(Ok(()), |name| self.touch_all(&name, false))?;
        }
        self.store(tid, stored)
    }

    /// Puts a descriptor into the table. One that the trace has open under this number, and that is replaced by one that it does
    /// not
    /// have, is closed in the trace.
    fn put(&mut self, tid: u32, fd: i32, slot: Slot, at_ns: u64) -> io::Result<()> {
        let (table, number) = (self.runner(tid).table, self.runner(tid).number);
        let stored = slot.stored;
        let old = self.tables[table].insert(fd, slot);
        if !stored && old.is_some_and(|old| old.stored) {
            let mut close = Call::new(Op::Close);
            close.fd = Some(fd);
            return self.out.call(number, (at_ns, 0), close, 0);
        }
        Ok(())
    }

    fn open(&mut self, tid: u32, stored: Stored, inside: bool) -> io::Result<()> {
        let (call, result, times) = (&stored.seen.call, stored.result, stored.times);
        let full = stored.full[0].clone().unwrap_or_default();
        let is_unnamed = call.flags & TMPFILE == TMPFILE;
        let path = if is_unnamed { None } else { Some(normal(&full).into()) };
        let class = class_of(&full).unwrap_or(OUTSIDE);
        let slot = Slot { stored: inside, path, class, cloexec: call.has(CLOEXEC) };
        if inside {
            self.store(tid, stored)?;
        } else {
            self.skip(tid, &stored, class);
        }
        match i32::try_from(result) {
            Ok(fd) if fd >= 0 => self.put(tid, fd, slot, times.0 + times.1),
            _ => Ok(()),
        }
    }

    fn dup(&mut self, tid: u32, stored: Stored) -> io::Result<()> {
        let (result, times) = (stored.result, stored.times);
        let kept = self.is_stored(tid, &stored.seen.fds[0])?;
        let table = self.runner(tid).table;
        let old = stored.seen.call.fd;
        let slot = old.and_then(|fd| self.tables[table].get(&fd).cloned());
        let class = kept.err().unwrap_or(OUTSIDE);
        let slot = slot.unwrap_or(Slot { stored: false, path: None, class, cloexec: false });
        let cloexec = stored.seen.call.has(CLOEXEC);
        match kept {
            Ok(()) => self.store(tid, stored)?,
            Err(class) => self.skip(tid, &stored, class),
        }
        match i32::try_from(result) {
            Ok(fd) if fd >= 0 && old != Some(fd) => {
                self.put(tid, fd, Slot { stored: kept.is_ok(), class, cloexec, ..slot }, times.0 + times.1)
            }
            _ => Ok(()),
        }
    }

    /// Between two files of the trace it is a copy; otherwise the trace's file sends or receives.
    fn copy(&mut self, tid: u32, mut stored: Stored) -> io::Result<()> {
        let [from, to] = stored.seen.fds.clone();
        let (from, to) = (self.is_stored(tid, &from)?, self.is_stored(tid, &to)?);
        let call = &mut stored.seen.call;
        let is_copy = call.op == Op::Copy;
        match (from, to) {
            (Ok(()), Ok(())) => {
                return self.store(tid, stored);
            }
            (Ok(()), Err(_)) if is_copy => (call.op, call.fd2) = (Op::SendFile, None),
            (Err(_), Ok(())) if is_copy => {
                (call.op, call.fd, call.fd2, call.offset) = (Op::ReceiveFile, call.fd2, None, call.offset2);
                stored.seen.fds.swap(0, 1);
            }
            (Err(class), _) | (_, Err(class)) => {
                self.skip(tid, &stored, class);
                return Ok(());
            }
        }
        self.store(tid, stored)
    }

    fn exec(&mut self, tid: u32, stored: Stored) -> io::Result<()> {
        if stored.result < 0 {
            self.skip(tid, &stored, "failed exec");
            return Ok(());
        }
        let full = stored.full[0].clone().unwrap_or_default();
        self.store(tid, stored)?;
        let (table, number, pid) = (self.runner(tid).table, self.runner(tid).number, self.runner(tid).pid);
        // After exec a process shares its table with none.
        let mut slots = self.tables[table].clone();
        slots.retain(|_, slot| !slot.cloexec);
        if self.threads.values().filter(|runner| runner.table == table).count() > 1 {
            self.tables.push(slots);
            let new = self.tables.len() - 1;
            self.copy_channels(table, new);
            self.runner(tid).table = new;
        } else {
            self.tables[table] = slots;
            self.mappings.remove(&table);
        }
        self.exec_channels(tid);
        let name = full.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        self.out.rename(number, (pid, tid), name)
    }

    fn chdir(&mut self, tid: u32, stored: Stored, inside: bool) -> io::Result<()> {
        let (table, cwd) = (self.runner(tid).table, self.runner(tid).cwd);
        let of_fd = stored.seen.fds[0].beside.clone();
        let of_fd =
            of_fd.or_else(|| stored.seen.call.fd.and_then(|fd| self.tables[table].get(&fd)?.path.clone()));
        let to = stored.full[0].as_ref().map(|path| normal(path).into()).or(of_fd);
        if stored.result >= 0 && to.is_some() {
            self.directories[cwd] = to;
        }
        if stored.seen.call.op == Op::Fchdir {
            return self.store_by_fd(tid, stored);
        }
        self.store_by_path(tid, stored, inside)
    }

    fn pair(&mut self, tid: u32, text: &[u8], times: (u64, u64), result: i64) -> io::Result<()> {
        let number = self.runner(tid).number;
        self.out.skip(number, times.1, "pipes and socket pairs made");
        let list = args::split(text).into_iter().find_map(|arg| arg.strip_prefix(b"[")?.strip_suffix(b"]"));
        let fds = list.map(args::split).unwrap_or_default();
        for fd in fds.iter().filter_map(|text| args::fd(text)?.number).filter(|_| result >= 0) {
            let slot = Slot {
                stored: false,
                path: None,
                class: "calls on pipes",
                cloexec: args::has(text, "O_CLOEXEC"),
            };
            self.put(tid, fd, slot, times.0 + times.1)?;
        }
        Ok(())
    }

    /// Closes each descriptor of the range that the trace has.
    fn close_range(&mut self, tid: u32, text: &[u8], times: (u64, u64), result: i64) -> io::Result<()> {
        let (table, number) = (self.runner(tid).table, self.runner(tid).number);
        let all = args::split(text);
        let bound = |at: usize| all.get(at).and_then(|text| args::number(text)).unwrap_or(0);
        let range = bound(0)..=bound(1);
        let in_range = self.tables[table].iter().filter(|(fd, _)| range.contains(&i64::from(**fd)));
        let mut going: Vec<(i32, bool)> = in_range.map(|(fd, slot)| (*fd, slot.stored)).collect();
        going.sort_unstable();
        let only_flags = args::has(text, "CLOSE_RANGE_CLOEXEC");
        for (fd, stored) in going.into_iter().filter(|_| result >= 0) {
            let op = if only_flags { Op::SetFd } else { Op::Close };
            let mut call = Call::new(op);
            (call.fd, call.flags) = (Some(fd), if only_flags { CLOEXEC } else { 0 });
            if stored {
                self.out.call(number, (times.0, 0), call, 0)?;
            }
            match self.tables[table].get_mut(&fd).filter(|_| only_flags) {
                Some(slot) => slot.cloexec = true,
                None => drop(self.tables[table].remove(&fd)),
            }
        }
        Ok(())
    }

    fn mmap(&mut self, tid: u32, text: &[u8], result: i64, times: (u64, u64)) -> io::Result<()> {
        let all = args::split(text);
        let arg = |at: usize| all.get(at).copied().unwrap_or_default();
        let fd = args::fd(arg(4)).unwrap_or_default();
        let number = self.runner(tid).number;
        if fd.number.is_none_or(|fd| fd < 0) {
            self.out.skip(number, times.1, "mappings of memory");
            return Ok(());
        }
        if let Err(class) = self.is_stored(tid, &fd)? {
            self.out.skip(number, times.1, class);
            return Ok(());
        }
        let mut call = Call::new(Op::Mmap);
        let number_of = |at: usize| args::number(arg(at)).unwrap_or(0).max(0);
        (call.fd, call.len, call.offset) = (fd.number, number_of(1).cast_unsigned(), number_of(5));
        let (protection, kind) =
            (args::flags(arg(2), "PROT_", Table::Map), args::flags(arg(3), "MAP_", Table::Map));
        call.flags = protection & 7 | kind & 0xf0;
        let result = if result == -1 { result } else { self.map(tid, result.cast_unsigned(), call.len) };
        if call.has(MAP_SHARED) && call.has(2) {
            self.out.count("mappings through which files are written, which is not recorded", 1);
        }
        self.out.call(number, times, call, result)
    }

    /// The number of a new mapping.
    fn map(&mut self, tid: u32, address: u64, len: u64) -> i64 {
        let table = self.runner(tid).table;
        let number = self.next_mapping;
        self.next_mapping += 1;
        self.mappings.entry(table).or_default().insert(address, Mapping { number, len });
        i64::from(number)
    }

    fn mapping(
        &mut self,
        tid: u32,
        name: &[u8],
        text: &[u8],
        result: i64,
        times: (u64, u64),
    ) -> io::Result<()> {
        let (table, number) = (self.runner(tid).table, self.runner(tid).number);
        let all = args::split(text);
        let at = |at: usize| all.get(at).and_then(|text| args::number(text)).unwrap_or(0).cast_unsigned();
        let maps = self.mappings.entry(table).or_default();
        let found = maps.range(..=at(0)).next_back().map(|(start, mapping)| (*start, *mapping));
        let found = found.filter(|(start, mapping)| at(0) < start + mapping.len.max(1));
        let Some((start, mapping)) = found else {
            self.out.skip(number, times.1, "mappings of memory");
            return Ok(());
        };
        let is_unmap = name == b"munmap";
        let mut call = Call::new(if is_unmap { Op::Munmap } else { Op::Msync });
        call.mode = mapping.number;
        if is_unmap {
            if start != at(0) || at(1) < mapping.len {
                self.out.skip(number, times.1, "mappings unmapped in part");
                return Ok(());
            }
            maps.remove(&start);
        } else {
            (call.len, call.offset) = (at(1), (at(0) - start).cast_signed());
            call.flags = args::flags(all.get(2).copied().unwrap_or_default(), "MS_", Table::Msync);
        }
        self.out.call(number, times, call, result)
    }
}
