//! The calls of one message, as `strace` showed them of Exim 4.96 (Debian 12), by process. C serves the connection, D delivers, T
//! appends to the mailbox.
//!
//! | by | calls | on |
//! |---|---|---|
//! | C | open (new), fchown, fchmod, lock of 19 bytes, fstat, write 28, fsync, fstat, lseek | `input/c/ID-D` |
//! | C | open (new), fchown, fchmod, fstat, write 358, fstat, write 263, fsync, fstat, close | `input/c/hdr.ID` |
//! | C | rename to `ID-H`; open, fsync, close of the directory | `input/c` |
//! | C | fstat of `-D`; open (append), fstat, write 100, close | `msglog/c/ID` |
//! | C | stat, write 106 | `log/mainlog` |
//! | C | close of `-D`; fork of D; statfs of the spool and of its log | |
//! | D | open, lock, fstat of `-D`; open, fstat, read, read (end), close of `-H` | |
//! | D | open of `-J` (none); open (append), fchown, fchmod of `msglog/c/ID` | |
//! | D | open, read lock of `db/retry.lockfile`; open of `db/DB_CONFIG` (none), stat of `db/retry` (none), close | |
//! | D | open (new, append), fchown, fchmod of `ID-J`; the calls for `db/retry` again; fork of T | |
//! | T | lstat, open, fstat, lock, fstat, write 52; lseek, read, read (end) of `-D` | `mail/USER` |
//! | T | write 370, write 1, fsync, utimes, close | `mail/USER` |
//! | D | write 15, fsync of `-J`; fstat, write 71 of the message's log; stat, write 91 of the main log | |
//! | D | unlink of the message's log, `-D`, `-H`; stat, write 47 of the main log | |
//! | D | close of the message's log and `-J`; unlink of `-J`; close of `-D` | |
//!
//! Sizes depend on names of hosts and users; these are of a server and clients on one host.

use std::sync::Arc;

use sim::Nanos;
use vfs::{
    Errno, Fd, LockAction, LockKind, LockOwner, OpenFlags, RenameFlags, Result, SetAttr, SetTime, Syscalls,
    Whence,
};

use super::{Connection, EPOCH, Exim, LOG, base62};
use crate::app::control::{Control, Failure};
use crate::tree::CallFailed;

pub(super) const RETRY_LOCK: &str = "spool/db/retry.lockfile";

const DATA: u64 = 28;
const ENVELOPE: u64 = 358;
const HEADERS: u64 = 263;
const OF_MAIL: [u64; 3] = [52, 370, 1];
const JOURNAL: u64 = 15;
/// What C and D write to the message's own log, and C, D and D at the end to that of all.
const OF_LOG: [u64; 2] = [100, 71];
const OF_MAIN_LOG: [u64; 3] = [106, 91, 47];
/// Bytes at the beginning of `-D` that are locked: its name.
const LOCKED: u64 = 19;

/// What a message writes.
pub(super) const WRITTEN: u64 = DATA
    + ENVELOPE
    + HEADERS
    + OF_MAIL[0]
    + OF_MAIL[1]
    + OF_MAIL[2]
    + JOURNAL
    + OF_LOG[0]
    + OF_LOG[1]
    + OF_MAIN_LOG[0]
    + OF_MAIN_LOG[1]
    + OF_MAIN_LOG[2];

/// A message in the spool.
pub(super) struct Message {
    pub(super) connection: Arc<Connection>,
    data: String,
    header: String,
    journal: String,
    log: String,
    mailbox: Arc<str>,
}

/// Calls of one process, whose errors name call and path.
struct Of<'a> {
    exim: &'a Exim,
    calls: &'a dyn Syscalls,
    connection: &'a Connection,
}

type Done<T = ()> = std::result::Result<T, Failure>;

/// The error of a call on a path.
fn of<T>(call: &'static str, path: &str, result: Result<T>) -> Done<T> {
    result.map_err(|errno| CallFailed::of(call, path)(errno).into())
}

/// A call that must find nothing.
fn absent(call: &'static str, path: &str, result: Result<()>) -> Done {
    match result {
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => of(call, path, Err(errno)),
        Ok(()) => Err(Failure::new(format!("{call} of {path} succeeded, and nothing should be there"), None)),
    }
}

impl Of<'_> {
    fn open(&self, path: &str, flags: OpenFlags) -> Done<Fd> {
        of("open", path, self.calls.open(path.as_bytes(), flags, 0o640))
    }

    /// What Exim does with each file that it makes, or may have made.
    fn owned(&self, path: &str, flags: OpenFlags) -> Done<Fd> {
        let fd = self.open(path, flags)?;
        let owner = self.connection.owner;
        let of_exim = SetAttr { uid: Some(owner.uid), gid: Some(owner.gid), ..SetAttr::default() };
        of("fchown", path, self.calls.fsetattr(fd, &of_exim))?;
        of("fchmod", path, self.calls.fsetattr(fd, &SetAttr { perm: Some(0o640), ..SetAttr::default() }))?;
        Ok(fd)
    }

    fn fstat(&self, path: &str, fd: Fd) -> Done {
        of("fstat", path, self.calls.fstat(fd).map(drop))
    }

    fn lock(&self, path: &str, fd: Fd, kind: LockKind, len: u64) -> Done {
        of("lock", path, self.calls.lock(fd, LockAction::Wait(kind), LockOwner::Process, 0, len))
    }

    fn write(&self, path: &str, fd: Fd, len: u64) -> Done {
        const TEXT: [u8; 512] = [b'x'; 512];
        let wrote = of("write", path, self.calls.write(fd, &TEXT[..len as usize]))?;
        if wrote as u64 == len {
            return Ok(());
        }
        Err(Failure::new(format!("write of {path}: {wrote} of {len} bytes were written"), None))
    }

    /// To the text of a message, behind its name.
    fn seek(&self, path: &str, fd: Fd) -> Done {
        of("lseek", path, self.calls.lseek(fd, LOCKED.cast_signed(), Whence::Set).map(drop))
    }

    fn fsync(&self, path: &str, fd: Fd) -> Done {
        if self.exim.fsync { of("fsync", path, self.calls.fsync(fd)) } else { Ok(()) }
    }

    fn close(&self, path: &str, fd: Fd) -> Done {
        of("close", path, self.calls.close(fd))
    }

    /// A line of the main log: through the open file of the connection, as a child has it from its parent.
    fn main_log(&self, len: u64) -> Done {
        let Some(fd) = self.connection.log else { return Ok(()) };
        of("stat", LOG, self.calls.stat(LOG.as_bytes()))?;
        Of { calls: &*self.connection.calls, ..*self }.write(LOG, fd, len)
    }
}

const NEW: OpenFlags =
    OpenFlags::READ.union(OpenFlags::WRITE).union(OpenFlags::CREATE).union(OpenFlags::EXCLUSIVE);
const APPEND: OpenFlags = OpenFlags::WRITE.union(OpenFlags::APPEND);

impl Message {
    /// Process C takes message number `number` of its connection.
    pub(super) fn receive(
        exim: &Exim,
        connection: &Arc<Connection>,
        number: u64,
        mailbox: &Arc<str>,
    ) -> Done<Self> {
        let second = EPOCH + sim::now().0 / exim.period.0;
        let (pid, directory) = (connection.pid, exim.directory(second, connection.pid));
        let id = format!("{}-{}-{}", base62(second, 6), base62(pid.into(), 6), base62(number, 2));
        let input = format!("spool/input{directory}");
        let message = Self {
            connection: Arc::clone(connection),
            data: format!("{input}/{id}-D"),
            header: format!("{input}/{id}-H"),
            journal: format!("{input}/{id}-J"),
            log: format!("spool/msglog{directory}/{id}"),
            mailbox: Arc::clone(mailbox),
        };
        let of = Of { exim, calls: &*connection.calls, connection };
        let compute = || sim::compute_for(Nanos(exim.receive.0 / 6));
        compute();
        let data = message.spool_data(&of)?;
        compute();
        message.spool_header(&of, &format!("{input}/hdr.{id}"), &input, compute)?;
        compute();
        message.log_arrival(&of, data)?;
        compute();
        of.main_log(OF_MAIN_LOG[0])?;
        of.close(&message.data, data)?;
        compute();
        Ok(message)
    }

    fn spool_data(&self, of: &Of<'_>) -> Done<Fd> {
        let fd = of.owned(&self.data, NEW)?;
        of.lock(&self.data, fd, LockKind::Exclusive, LOCKED)?;
        of.fstat(&self.data, fd)?;
        of.write(&self.data, fd, DATA)?;
        of.fsync(&self.data, fd)?;
        of.fstat(&self.data, fd)?;
        of.seek(&self.data, fd)?;
        Ok(fd)
    }

    fn spool_header(&self, calls: &Of<'_>, temporary: &str, input: &str, compute: impl Fn()) -> Done {
        let fd = calls.owned(temporary, NEW)?;
        for len in [ENVELOPE, HEADERS] {
            calls.fstat(temporary, fd)?;
            calls.write(temporary, fd, len)?;
        }
        calls.fsync(temporary, fd)?;
        calls.fstat(temporary, fd)?;
        calls.close(temporary, fd)?;
        compute();
        let renamed = calls.calls.rename(temporary.as_bytes(), self.header.as_bytes(), RenameFlags::empty());
        of("rename", temporary, renamed)?;
        let directory = calls.open(input, OpenFlags::READ)?;
        calls.fsync(input, directory)?;
        calls.close(input, directory)
    }

    fn log_arrival(&self, of: &Of<'_>, data: Fd) -> Done {
        of.fstat(&self.data, data)?;
        let fd = of.open(&self.log, APPEND | OpenFlags::CREATE)?;
        of.fstat(&self.log, fd)?;
        of.write(&self.log, fd, OF_LOG[0])?;
        of.close(&self.log, fd)
    }

    /// Process D delivers the message. False: the run was over before it was done.
    pub(super) fn deliver(&self, exim: &Exim, calls: &dyn Syscalls, control: &Control) -> Done<bool> {
        let of = Of { exim, calls, connection: &self.connection };
        // Seven parts, each before some of the calls.
        let compute = || {
            sim::compute_for(Nanos(exim.deliver.0 / 7));
            !control.is_over()
        };
        if !compute() {
            return Ok(false);
        }
        let data = self.look(&of)?;
        if !compute() {
            return Ok(false);
        }
        let log = self.open_log(&of)?;
        if !compute() {
            return Ok(false);
        }
        look_for_retries(&of)?;
        if !compute() {
            return Ok(false);
        }
        let journal = of.owned(&self.journal, NEW | OpenFlags::APPEND)?;
        look_for_retries(&of)?;
        exim.kernel.fork(exim.fork);
        sim::compute_for(exim.transport);
        self.append(&of, data)?;
        exim.kernel.exit();
        if !compute() {
            return Ok(false);
        }
        of.write(&self.journal, journal, JOURNAL)?;
        of.fsync(&self.journal, journal)?;
        if !compute() {
            return Ok(false);
        }
        of.fstat(&self.log, log)?;
        of.write(&self.log, log, OF_LOG[1])?;
        of.main_log(OF_MAIN_LOG[1])?;
        if !compute() {
            return Ok(false);
        }
        self.remove(&of, (log, data, journal)).map(|()| true)
    }

    fn look(&self, calls: &Of<'_>) -> Done<Fd> {
        let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::APPEND | OpenFlags::NOFOLLOW;
        let data = calls.open(&self.data, flags)?;
        calls.lock(&self.data, data, LockKind::Exclusive, LOCKED)?;
        calls.fstat(&self.data, data)?;
        let header = calls.open(&self.header, OpenFlags::READ)?;
        calls.fstat(&self.header, header)?;
        let mut buffer = [0; 4096];
        for expected in [ENVELOPE + HEADERS, 0] {
            let read = of("read", &self.header, calls.calls.read(header, &mut buffer))?;
            if read as u64 != expected {
                let told = format!("read of {}: {read} bytes, and {expected} are expected", self.header);
                return Err(Failure::new(told, None));
            }
        }
        calls.close(&self.header, header)?;
        Ok(data)
    }

    fn open_log(&self, of: &Of<'_>) -> Done<Fd> {
        absent("open", &self.journal, of.calls.open(self.journal.as_bytes(), APPEND, 0).map(drop))?;
        of.owned(&self.log, APPEND | OpenFlags::CREATE)
    }

    /// Process T appends the message to its mailbox.
    fn append(&self, calls: &Of<'_>, data: Fd) -> Done {
        let path = &*self.mailbox;
        of("lstat", path, calls.calls.lstat(path.as_bytes()))?;
        let fd = calls.open(path, OpenFlags::READ | OpenFlags::WRITE | OpenFlags::APPEND)?;
        calls.fstat(path, fd)?;
        calls.lock(path, fd, LockKind::Exclusive, 0)?;
        calls.fstat(path, fd)?;
        calls.write(path, fd, OF_MAIL[0])?;
        calls.seek(&self.data, data)?;
        let mut buffer = [0; 4096];
        for _ in 0..2 {
            of("read", &self.data, calls.calls.read(data, &mut buffer))?;
        }
        calls.write(path, fd, OF_MAIL[1])?;
        calls.write(path, fd, OF_MAIL[2])?;
        calls.fsync(path, fd)?;
        let now = SetAttr { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..SetAttr::default() };
        of("utimes", path, calls.calls.setattr(path.as_bytes(), &now))?;
        calls.close(path, fd)
    }

    fn remove(&self, calls: &Of<'_>, (log, data, journal): (Fd, Fd, Fd)) -> Done {
        for path in [&self.log, &self.data, &self.header] {
            of("unlink", path, calls.calls.unlink(path.as_bytes()))?;
        }
        calls.main_log(OF_MAIN_LOG[2])?;
        calls.close(&self.log, log)?;
        calls.close(&self.journal, journal)?;
        of("unlink", &self.journal, calls.calls.unlink(self.journal.as_bytes()))?;
        calls.close(&self.data, data)
    }
}

/// D asks whether addresses have failed before.
fn look_for_retries(calls: &Of<'_>) -> Done {
    let fd = calls.open(RETRY_LOCK, OpenFlags::READ | OpenFlags::WRITE)?;
    calls.lock(RETRY_LOCK, fd, LockKind::Shared, 0)?;
    absent(
        "open",
        "spool/db/DB_CONFIG",
        calls.calls.open(b"spool/db/DB_CONFIG", OpenFlags::READ, 0).map(drop),
    )?;
    absent("stat", "spool/db/retry", calls.calls.stat(b"spool/db/retry").map(drop))?;
    calls.close(RETRY_LOCK, fd)
}

/// What C asks for before it takes the next message: whether there is space.
pub(super) fn look_for_space(calls: &dyn Syscalls) -> Done {
    for path in ["spool", "spool/log"] {
        of("statfs", path, calls.statfs(path.as_bytes()))?;
    }
    Ok(())
}
