//! Calls: which are stored, and under which paths and descriptors.

use std::io::{self, Write};

use super::args::{self, FdRef};
use super::calls::{self, Seen};
use super::line::Outcome;
use super::mapped::Id;
use super::passed::sends;
use super::place::Leads;
use super::process::makes_thread;
use super::told::Told;
use super::{Class, Importer, Known, Lost, Mapping, Slot};
use crate::call::{Call, Field, Op};
use crate::record::{Entry, Inherited, Kind, Loss, Record};
use crate::scope::normal;
use crate::words::{CLOEXEC, CREAT, MAP_SHARED, NOFOLLOW, TMPFILE, TRUNC, Table, error_number};

/// What calls on files elsewhere are counted as.
pub(super) const OUTSIDE: Class = Class::Counted("calls on files outside the roots");
/// What those that read and write are counted as.
pub(crate) const MOVED_OUTSIDE: &str = "reads and writes of files outside the roots";
/// Why calls on a descriptor are lost that nothing has opened.
pub(super) const UNKNOWN: &str = "on descriptors that no call in the trace has opened";
/// Why calls by a path are lost whose directory is not known.
const NOWHERE: &str = "by paths that are relative to a directory which is not known";
/// Why a descriptor is a loss that leads below a root and came without a call that was seen.
const CAME: &str =
    "descriptors that came without a call that was seen: their positions and flags are not known";
/// Why stores to mappings are a loss.
const MAPPED: &str = "files are written through shared mappings, whose stores no recorder sees";
const URING: &str = "what is read and written through io_uring cannot be seen";

/// What `-y` shows beside a descriptor that leads to no file of a disk.
pub(super) fn class_of(path: &[u8]) -> Option<&'static str> {
    const CLASSES: [(&[u8], &str); 10] = [
        (b"pipe:", "calls on pipes"),
        (b"socket:", "calls on sockets"),
        (b"TCP", "calls on sockets"),
        (b"UDP", "calls on sockets"),
        (b"UNIX", "calls on sockets"),
        (b"NETLINK", "calls on sockets"),
        (b"anon_inode:", "calls on epoll, eventfd, timerfd and the like"),
        (b"/dev/", "calls on devices"),
        (b"/proc/", "calls on /proc"),
        (b"/memfd:", "calls on files in memory"),
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

/// Whether a call may let a symbolic link lead elsewhere: directories that come or go are no links.
fn moves_links(op: Op) -> bool {
    matches!(op, Op::Rename | Op::Symlink)
}

/// A call on its way into the trace.
struct Stored {
    seen: Seen,
    times: (u64, u64),
    result: i64,
    /// Absolute paths.
    full: [Option<Vec<u8>>; 2],
    /// Where an opened path has led, as `-y` says.
    led: Option<Box<[u8]>>,
    /// The kernel has chosen the number of the descriptor.
    lowest: bool,
}

/// Where the paths of a call lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    /// All to files that no trace has.
    Outside,
    /// One of them to a place that is not known.
    Unknown,
    /// One of them below a root.
    Inside,
}

/// A path as the trace has it, where it leads, and as the host has it.
struct Named {
    path: Box<[u8]>,
    side: Side,
    real: Vec<u8>,
}

/// Calls that change a file and that no trace has.
const CHANGES: [&[u8]; 3] = [b"setxattrat", b"removexattrat", b"file_setattr"];

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
        if self.moves_names(tid, name, text, (times, result)) {
            return Ok(());
        }
        match name {
            b"io_submit" => self.submitted(tid, text, times, result),
            b"io_getevents" | b"io_pgetevents" => {
                self.completed(tid, text, times, result);
                Ok(())
            }
            b"io_uring_setup" | b"io_uring_enter" => {
                self.uring(tid, name, times.1, result);
                self.other_descriptor(tid, name, outcome.text, result);
                Ok(())
            }
            name if sends(name) || matches!(name, b"recvmsg" | b"recvmmsg") => {
                self.out.skip(number, times.1, "messages");
                match (result >= 0, sends(name)) {
                    (false, _) => Ok(()),
                    (_, true) => self.sent(tid, text),
                    (_, false) => self.received(tid, text, times.0 + times.1),
                }
            }
            b"mmap" | b"mmap2" => self.mmap(tid, text, result, times),
            b"munmap" | b"msync" => self.mapping(tid, name, text, result, times),
            b"pipe" | b"pipe2" | b"socketpair" => self.pair(tid, text, times, result),
            b"close_range" => self.close_range(tid, text, times, result),
            _ => match calls::parse(name, text) {
                Some(seen) => {
                    let led = args::fd(outcome.text).and_then(|fd| fd.beside);
                    self.seen(tid, seen, times, (result, led, !name.starts_with(b"dup2") && name != b"dup3"))
                }
                None if CHANGES.contains(&name) && result >= 0 => {
                    self.lose(number, times.1, 1, Lost { name, why: "a call that no trace has" });
                    Ok(())
                }
                None => {
                    self.out.skip(number, times.1, &class_of_call(name));
                    self.terminal(tid, name, text, result);
                    self.other_descriptor(tid, name, outcome.text, result);
                    Ok(())
                }
            },
        }
    }

    /// Requests through a ring are in memory: each call that hands some over has lost so many.
    fn uring(&mut self, tid: u32, name: &[u8], duration_ns: u64, result: i64) {
        let number = self.runner(tid).number;
        let count = if name == b"io_uring_setup" { i64::from(result >= 0) } else { result };
        match u64::try_from(count) {
            Ok(count @ 1..) => self.lose(number, duration_ns, count, Lost { name, why: URING }),
            _ => self.out.pass(number, duration_ns),
        }
    }

    /// What answers as a terminal does is none of the files below the roots.
    fn terminal(&mut self, tid: u32, name: &[u8], text: &[u8], result: i64) {
        let all = args::split(text);
        let is_one =
            name == b"ioctl" && result == 0 && all.get(1).is_some_and(|request| request.starts_with(b"TC"));
        if let Some(fd) = all.first().filter(|_| is_one).and_then(|fd| args::fd(fd)?.number) {
            self.is_known(tid, fd, "calls on devices");
        }
    }

    /// A descriptor that nothing in the trace has opened has shown what it is.
    fn is_known(&mut self, tid: u32, fd: i32, class: &'static str) {
        let table = self.runner(tid).table;
        let slot = Slot { stored: false, path: None, class: Class::Counted(class), cloexec: false };
        self.tables[table].entry(fd).or_insert(slot);
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
            b"io_uring_setup",
            b"signalfd",
            b"signalfd4",
            b"inotify_init",
            b"inotify_init1",
            b"fanotify_init",
            b"perf_event_open",
            b"pidfd_open",
            b"eventfd",
            b"epoll_create",
            b"memfd_secret",
            b"userfaultfd",
        ];
        if let (true, Ok(fd)) = (result >= 0 && opens.contains(&name), i32::try_from(result)) {
            let beside = args::fd(text).and_then(|fd| fd.beside).unwrap_or_default();
            let class = Class::Counted(class_of(&beside).unwrap_or("calls on sockets"));
            let table = self.runner(tid).table;
            self.tables[table].insert(fd, Slot { stored: false, path: None, class, cloexec: false });
        }
    }

    /// A call that a trace can have.
    fn seen(
        &mut self,
        tid: u32,
        mut seen: Seen,
        times: (u64, u64),
        (result, led, lowest): (i64, Option<Box<[u8]>>, bool),
    ) -> io::Result<()> {
        if seen.cut {
            seen.call.len = result.max(0).cast_unsigned();
        }
        let (full, side) = self.paths(tid, &mut seen);
        let stored = Stored { seen, times, result, full, led, lowest };
        match stored.seen.call.op {
            Op::Open => self.open(tid, stored, side),
            Op::Dup => self.dup(tid, stored),
            Op::Copy | Op::Clone => self.copy(tid, stored),
            Op::Exec => self.exec(tid, stored),
            Op::Chdir | Op::Fchdir => self.chdir(tid, stored, side),
            Op::Umask | Op::Sync => self.store(tid, stored),
            _ if stored.seen.call.path.is_some()
                || stored.seen.call.path2.is_some() && stored.seen.call.fd.is_none() =>
            {
                self.store_by_path(tid, stored, side)
            }
            _ => self.store_by_fd(tid, stored),
        }
    }

    /// Makes the paths of a call those of the trace. Says what they are on the host, and where they lead.
    fn paths(&mut self, tid: u32, seen: &mut Seen) -> ([Option<Vec<u8>>; 2], Side) {
        let op = seen.call.op;
        let follows = op.follows() && !(op == Op::Open && seen.call.has(NOFOLLOW));
        let first = seen.call.path.take().filter(|_| op.fields().contains(&Field::Path));
        let first = first.map(|path| self.name(tid, seen.dirs[0].as_ref(), &path, follows));
        let is_path = op.fields().contains(&Field::Path2);
        let second = seen.call.path2.take_if(|_| is_path);
        let second = second.map(|path| self.name(tid, seen.dirs[1].as_ref(), &path, false));
        let side = first.iter().chain(&second).map(|name| name.side).max().unwrap_or(Side::Outside);
        let mut full = [None, None];
        if let Some(Named { path, real, .. }) = first {
            (seen.call.path, full[0]) = (Some(path), Some(real));
        }
        if let Some(Named { path, real, .. }) = second {
            (seen.call.path2, full[1]) = (Some(path), Some(real));
        }
        (full, side)
    }

    /// A path of a call, in a directory or the working directory.
    fn name(&mut self, tid: u32, directory: Option<&FdRef>, path: &[u8], follows: bool) -> Named {
        let Leads { real, is_unknown } = self.leads(tid, directory, path);
        // An empty path is an error of its own, which joining would hide.
        if path.is_empty() {
            return Named { path: Box::default(), side: Side::Outside, real };
        }
        let (path, inside) = self.scope.name(&real);
        match inside {
            true if !is_unknown => Named { path, side: Side::Inside, real },
            _ if is_unknown => Named { path, side: Side::Unknown, real },
            _ => match self.inside_by_links(&real, follows) {
                Some((real, path)) => Named { path, side: Side::Inside, real },
                None => Named { path, side: Side::Outside, real },
            },
        }
    }

    /// Whether calls on a descriptor are stored; what they are otherwise. A descriptor that leads to a file below a root and whose
    /// opening was not seen gets a `D` record first, and is a loss: where it stands is not known.
    pub(super) fn is_stored(&mut self, tid: u32, fd: &FdRef) -> io::Result<Result<(), Class>> {
        let Some(number) = fd.number else { return Ok(Err(OUTSIDE)) };
        let (table, thread) = (self.runner(tid).table, self.runner(tid).number);
        if let Some(class) = fd.beside.as_deref().and_then(class_of) {
            return Ok(Err(Class::Counted(class)));
        }
        let slot = self.tables[table].get(&number);
        if slot.is_some_and(|slot| slot.stored) {
            return Ok(Ok(()));
        }
        let Some(beside) = &fd.beside else {
            return Ok(Err(slot.map_or(Class::Lost(UNKNOWN), |slot| slot.class)));
        };
        let path = beside.strip_suffix(b" (deleted)").unwrap_or(beside);
        if self.scope.inside(path).is_none() {
            return Ok(Err(OUTSIDE));
        }
        self.inherit(tid, &Told { fd: number, path: path.into(), flags: 2, position: 0 })?;
        self.lose(thread, 0, 1, Lost { name: b"open", why: CAME });
        Ok(Ok(()))
    }

    /// A descriptor that leads below a root is open: the trace is told.
    pub(super) fn inherit(&mut self, tid: u32, told: &Told) -> io::Result<()> {
        let (table, thread) = (self.runner(tid).table, self.runner(tid).number);
        let Some(name) = self.scope.inside(&told.path) else { return Ok(()) };
        self.touch(&name)?;
        let cloexec = told.flags & CLOEXEC != 0;
        let slot = Slot { stored: true, path: Some(told.path.clone()), class: OUTSIDE, cloexec };
        self.tables[table].insert(told.fd, slot);
        let Told { fd, flags, position, .. } = *told;
        self.out.record(&Record::Inherited(Inherited { thread, fd, path: name, flags, position }))
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

    /// A call is not stored. One that the kernel has refused because the descriptor is not open is none that the trace lacks.
    fn skip(&mut self, tid: u32, stored: &Stored, class: Class) {
        const EBADF: i64 = -9;
        let number = self.runner(tid).number;
        let op = stored.seen.call.op;
        let class = match class {
            _ if stored.result == EBADF => Class::Counted("calls on descriptors that were not open"),
            OUTSIDE if op.reads() || op.writes() => Class::Counted(MOVED_OUTSIDE),
            class => class,
        };
        self.leave(number, stored.times.1, op.name(), class);
    }

    fn store_by_path(&mut self, tid: u32, stored: Stored, side: Side) -> io::Result<()> {
        match side {
            Side::Inside => return self.store(tid, stored),
            Side::Unknown => self.skip(tid, &stored, Class::Lost(NOWHERE)),
            Side::Outside => self.skip(tid, &stored, OUTSIDE),
        }
        if stored.result >= 0 && moves_links(stored.seen.call.op) {
            self.forget_links();
        }
        Ok(())
    }

    /// What the answer to a call shows of a descriptor that nothing has opened: a pipe has no position, a terminal is a device.
    fn learn_kind(&mut self, tid: u32, stored: &Stored) {
        const ESPIPE: i64 = -29;
        let Some(fd) = stored.seen.call.fd else { return };
        let kind = stored.seen.attributes.and_then(|(mode, _)| Kind::of_mode(mode));
        let class = match (stored.seen.call.op, kind) {
            (Op::Fstat, Some(Kind::Fifo)) => "calls on pipes",
            (Op::Fstat, Some(Kind::Socket)) => "calls on sockets",
            (Op::Fstat, Some(Kind::Character | Kind::Block)) => "calls on devices",
            _ if stored.result == ESPIPE => "calls on pipes",
            _ => return,
        };
        self.is_known(tid, fd, class);
    }

    fn store_by_fd(&mut self, tid: u32, stored: Stored) -> io::Result<()> {
        let fd = stored.seen.fds[0].clone();
        let fd = FdRef { number: fd.number.or(stored.seen.call.fd), beside: fd.beside };
        self.learn_kind(tid, &stored);
        let kept = self.is_stored(tid, &fd)?;
        let table = self.runner(tid).table;
        let slot = fd.number.and_then(|fd| self.tables[table].get_mut(&fd));
        let path = slot.as_ref().and_then(|slot| slot.path.clone());
        match (stored.seen.call.op, slot) {
            (Op::SetFd, Some(slot)) if stored.result >= 0 => slot.cloexec = stored.seen.call.has(CLOEXEC),
            (Op::Close, Some(_)) if stored.result >= 0 => {
                let closed = fd.number.unwrap_or(-1);
                self.tables[table].remove(&closed);
                self.orphan(tid, table, closed);
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

    /// Calls of other threads on a descriptor that is closed, which have not returned.
    fn orphan(&mut self, tid: u32, table: usize, closed: i32) {
        for (other, runner) in &mut self.threads {
            let Some(half) = runner.half.as_mut().filter(|_| *other != tid && runner.table == table) else {
                continue;
            };
            let is_path = args::split(&half.args).first().is_some_and(|arg| arg.first() == Some(&b'"'));
            let first = args::split(&half.args).first().and_then(|arg| args::fd(arg)?.number);
            let is_on_it = first == Some(closed) && !is_path && *half.name != *b"close";
            half.is_orphan |= is_on_it && calls::is_by_descriptor(&half.name);
        }
    }

    /// A call has given a number that is open here: a `close` that has begun and not returned stands before, or one was missed.
    fn given_again(&mut self, tid: u32, fd: i32, at_ns: u64) -> io::Result<()> {
        let table = self.runner(tid).table;
        if !self.tables[table].get(&fd).is_some_and(|slot| slot.stored) {
            return Ok(());
        }
        let closes = |half: &super::Half| {
            let first = args::split(&half.args).first().and_then(|arg| args::fd(arg)?.number);
            *half.name == *b"close" && first == Some(fd) && !half.is_done
        };
        let mut closing = self.threads.values_mut().filter(|runner| runner.table == table);
        let closing = closing.find(|runner| runner.half.as_ref().is_some_and(closes));
        let (thread, begin_ns) = match closing {
            Some(runner) => {
                let half = runner.half.as_mut().expect("it has one that closes");
                half.is_done = true;
                (runner.number, half.at_ns)
            }
            None => {
                let number = self.runner(tid).number;
                self.lose(
                    number,
                    0,
                    1,
                    Lost { name: b"close", why: "a number was given again that no seen call had closed" },
                );
                (number, at_ns)
            }
        };
        self.tables[table].remove(&fd);
        let mut close = Call::new(Op::Close);
        close.fd = Some(fd);
        self.out.call(thread, (begin_ns, 0), close, 0)
    }

    /// Puts a descriptor into the table. One that the trace has open under this number, and that is replaced by one that it does
    /// not
    /// have, is closed in the trace.
    pub(super) fn put(&mut self, tid: u32, fd: i32, slot: Slot, at_ns: u64) -> io::Result<()> {
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

    fn open(&mut self, tid: u32, mut stored: Stored, side: Side) -> io::Result<()> {
        let (result, times) = (stored.result, stored.times);
        let full = stored.full[0].clone().unwrap_or_default();
        let led = stored.led.take().filter(|_| result >= 0);
        let by_led = led.as_ref().filter(|_| side != Side::Inside).and_then(|led| self.scope.inside(led));
        let mut inside = side == Side::Inside;
        if let (Some(led), Some(name)) = (&led, by_led) {
            self.learn_alias(tid, &full, led);
            (stored.seen.call.path, stored.full[0], inside) = (Some(name), Some(led.to_vec()), true);
        }
        let full = stored.full[0].clone().unwrap_or(full);
        let call = &stored.seen.call;
        let path = if call.flags & TMPFILE == TMPFILE { None } else { Some(normal(&full).into()) };
        let class = match (side, &led) {
            (Side::Unknown, None) => Class::Lost(NOWHERE),
            _ => class_of(&full).map_or(OUTSIDE, Class::Counted),
        };
        let slot = Slot { stored: inside, path, class, cloexec: call.has(CLOEXEC) };
        if let Ok(fd @ 0..) = i32::try_from(result) {
            self.given_again(tid, fd, times.0 + times.1)?;
        }
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
        if let Ok(fd @ 0..) = i32::try_from(result)
            && stored.lowest
        {
            self.given_again(tid, fd, times.0 + times.1)?;
        }
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
            self.skip(tid, &stored, Class::Counted("failed exec"));
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

    fn chdir(&mut self, tid: u32, stored: Stored, side: Side) -> io::Result<()> {
        let (table, place) = (self.runner(tid).table, self.runner(tid).place);
        let of_fd = stored.seen.fds[0].beside.clone();
        let of_fd =
            of_fd.or_else(|| stored.seen.call.fd.and_then(|fd| self.tables[table].get(&fd)?.path.clone()));
        let to = stored.full[0].as_ref().map(|path| normal(path).into()).or(of_fd);
        if stored.result >= 0 {
            self.places[place].cwd =
                to.filter(|_| side != Side::Unknown || stored.seen.call.op == Op::Fchdir);
        }
        if stored.seen.call.op == Op::Fchdir {
            return self.store_by_fd(tid, stored);
        }
        self.store_by_path(tid, stored, side)
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
                class: Class::Counted("calls on pipes"),
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
            self.leave(number, times.1, "mmap", class);
            return Ok(());
        }
        let mut call = Call::new(Op::Mmap);
        let number_of = |at: usize| args::number(arg(at)).unwrap_or(0).max(0);
        (call.fd, call.len, call.offset) = (fd.number, number_of(1).cast_unsigned(), number_of(5));
        let (protection, kind) =
            (args::flags(arg(2), "PROT_", Table::Map), args::flags(arg(3), "MAP_", Table::Map));
        call.flags = protection & 7 | kind & 0xf0;
        let is_written = call.has(MAP_SHARED) && call.has(2) && result != -1;
        let table = self.runner(tid).table;
        let slot = fd.number.and_then(|fd| self.tables[table].get(&fd));
        // What `-y` shows is where the path has led.
        let path =
            fd.beside.clone().or_else(|| slot?.path.clone()).filter(|_| is_written && self.kept.is_some());
        let file = path.and_then(|path| self.watched.watch(&path, self.scope.inside(&path)?));
        let range = (result.cast_unsigned(), call.len);
        let result = if result == -1 { result } else { self.map(tid, range, file) };
        if is_written {
            self.out.lose(&Loss::bytes(1, "mmap", MAPPED));
        }
        self.out.call(number, times, call, result)
    }

    /// The number of a new mapping.
    fn map(&mut self, tid: u32, (address, len): (u64, u64), file: Option<Id>) -> i64 {
        let table = self.runner(tid).table;
        let number = self.next_mapping;
        self.next_mapping += 1;
        self.mappings.entry(table).or_default().insert(address, Mapping { number, len, file });
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
            if let Some(file) = mapping.file.filter(|_| result >= 0) {
                let pid = self.runner(tid).pid;
                let threads = self.threads.values().filter(|runner| runner.pid == pid).count();
                let writer = self.kept.as_mut().map(|kept| &mut kept.writer);
                self.watched.msynced(file, (self.out.calls(), threads), times, writer)?;
            }
        }
        self.out.call(number, times, call, result)
    }
}
