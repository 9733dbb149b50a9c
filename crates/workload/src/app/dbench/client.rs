//! A client: the calls that dbench's `fileio` makes of a line. They were read from the program (dbench 4.00, `strace`).
//!
//! | operation | calls |
//! |---|---|
//! | *resolve* a name | stat; where that fails *search*: open of the directory, fstat, getdents until a name fits but for case |
//! | NTCreateX | *resolve*; mkdir where the options want a directory; open for reading and writing, or of the directory; fstat |
//! | QUERY_PATH_INFORMATION | *resolve* |
//! | FIND_FIRST | *resolve*; where the name has a wildcard, the calls of *search* as far as names are wanted |
//! | Unlink, Rmdir, Mkdir | *resolve*; the call |
//! | Rename | *resolve* both names; rename |
//! | SET_FILE_INFORMATION | fstat; utimes of the name, 10 and 12 seconds earlier |
//! | QUERY_FILE_INFORMATION, QUERY_FS_INFORMATION | fstat; statfs |
//! | ReadX, WriteX, Flush, Close | pread, pwrite, fsync, close |
//! | LockX, UnlockX | fcntl for the range, waiting |
//! | Deltree | the calls of *search* for all names; of each stat, then unlink, or the same below a directory. Directories stay |
//!
//! Between two lines dbench asks whether its parent lives (`kill`), which is no call of a file system.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use sim::Nanos;
use vfs::{
    Errno, Fd, FileKind, LockAction, LockKind, LockOwner, OpenFlags, RenameFlags, SetAttr, SetTime, Syscalls,
    Timestamp,
};

use super::load::{CREATE, Line, Load, OVERWRITE, Op};
use crate::app::control::{Control, Failure, Tally};
use crate::app::listing::Listing;
use crate::app::run;
use crate::charges::GENERATOR;

/// A name of this client.
struct Path {
    text: Box<[u8]>,
    /// Where the last component begins; 0 in the root.
    last: usize,
    /// Whether it is a pattern.
    is_wild: bool,
}

impl Path {
    fn of_client(text: &str, client: u64) -> Self {
        let text = text.replace("client1", &format!("client{client}"));
        let last = text.rfind('/').map_or(0, |slash| slash + 1);
        let is_wild = text.contains(['<', '>', '*', '?', '"']);
        Self { text: text.into_bytes().into(), last, is_wild }
    }

    fn parent(&self) -> &[u8] {
        if self.last == 0 { b"." } else { &self.text[..self.last - 1] }
    }

    fn name(&self) -> &[u8] {
        &self.text[self.last..]
    }
}

/// A client.
pub(super) struct Client {
    load: Arc<Load>,
    calls: Arc<dyn Syscalls>,
    number: u64,
    paths: Vec<Path>,
    open: FxHashMap<u32, (Fd, u32)>,
    buffer: Vec<u8>,
    listing: Listing,
    at: usize,
    /// Passes that are left; none: no end.
    left: Option<u64>,
    unexpected: u64,
    short_reads: u64,
}

/// How an operation ended that dbench looks at.
enum Wrong {
    /// Another way than the file says: with an error, or with a success.
    Status(Option<Errno>),
    /// So many bytes were written.
    Short(usize),
    /// A call that has no reason to fail.
    Call(&'static str, Errno),
}

type Done = Result<u64, Wrong>;

fn call(name: &'static str) -> impl FnOnce(Errno) -> Wrong {
    move |errno| Wrong::Call(name, errno)
}

impl Client {
    pub(super) fn new(load: &Arc<Load>, number: u64, passes: u64, calls: Arc<dyn Syscalls>) -> Self {
        Self {
            paths: load.paths.iter().map(|text| Path::of_client(text, number)).collect(),
            buffer: vec![0; load.longest],
            load: Arc::clone(load),
            calls,
            number,
            open: FxHashMap::default(),
            listing: Listing::default(),
            at: 0,
            left: (passes > 0).then_some(passes),
            unexpected: 0,
            short_reads: 0,
        }
    }

    /// The calls of a line; the bytes that it moved.
    fn line(&mut self, line: &Line) -> Done {
        let calls = Arc::clone(&self.calls);
        match line.op {
            Op::Create { path, directory, disposition, handle } => {
                self.create(path, (directory, disposition), handle, line.succeeds)
            }
            Op::Close(handle) => {
                let opened = self.open.remove(&handle);
                opened.map_or(Ok(0), |(fd, _)| calls.close(fd).map(|()| 0).map_err(call("close")))
            }
            Op::Read { handle, offset, size, done } => self.read(handle, offset, (size, done)),
            Op::Write { handle, offset, size, done } => {
                let data = &self.buffer[..size as usize];
                let wrote = calls.pwrite(self.fd(handle)?, data, offset).map_err(call("pwrite"))?;
                if wrote == done as usize { Ok(size.into()) } else { Err(Wrong::Short(wrote)) }
            }
            Op::Flush(handle) => calls.fsync(self.fd(handle)?).map(|()| 0).map_err(call("fsync")),
            Op::Lock { handle, offset, size } => {
                self.lock(LockAction::Wait(LockKind::Exclusive), handle, offset, size)
            }
            Op::Unlock { handle, offset, size } => self.lock(LockAction::Release, handle, offset, size),
            Op::QueryPath(path) => {
                let found = self.resolve(path);
                self.unexpected += u64::from(found != line.succeeds);
                Ok(0)
            }
            Op::QueryFile(handle) => calls.fstat(self.fd(handle)?).map(|_| 0).map_err(call("fstat")),
            Op::SetFile(handle) => self.set_times(handle),
            Op::QueryFs => calls.statfs(b".").map(|_| 0).map_err(call("statfs")),
            Op::Find { path, most } => {
                self.resolve(path);
                if self.paths[path as usize].is_wild { self.find(path, most) } else { Ok(0) }
            }
            Op::Unlink(path) => self.by_name(line, path, |name| calls.unlink(name)),
            Op::Rmdir(path) => self.by_name(line, path, |name| calls.rmdir(name)),
            Op::Mkdir(path) => {
                self.resolve(path);
                // Whether another client was faster is not looked at.
                let _ = calls.mkdir(&self.paths[path as usize].text, 0o777);
                Ok(0)
            }
            Op::Deltree(path) => {
                let root = self.paths[path as usize].text.to_vec();
                self.remove_files(&root)
            }
            Op::Rename { from, to } => {
                self.resolve(from);
                self.resolve(to);
                let (from, to) = (&self.paths[from as usize].text, &self.paths[to as usize].text);
                expected(line, calls.rename(from, to, RenameFlags::empty()))
            }
            Op::Sleep { us } => {
                sim::sleep(Nanos::from_micros(us.into()));
                Ok(0)
            }
        }
    }

    /// The descriptor of a handle. The file opens each before it uses it, and a client stops where that failed.
    fn fd(&self, handle: u32) -> Result<Fd, Wrong> {
        self.open.get(&handle).map(|(fd, _)| *fd).ok_or(Wrong::Call("a handle", Errno::EBADF))
    }

    /// Looks a name up as a server does whose clients do not care for case. Says whether it is there as it is spelt.
    fn resolve(&mut self, path: u32) -> bool {
        let (calls, path) = (&*self.calls, &self.paths[path as usize]);
        if calls.stat(&path.text).is_ok() {
            return true;
        }
        let Ok(fd) = Listing::open(calls, path.parent()) else { return false };
        while let Ok(true) = self.listing.fill(calls, fd) {
            if self.listing.names().any(|name| name.eq_ignore_ascii_case(path.name())) {
                break;
            }
        }
        // It was opened for reading.
        let _ = calls.close(fd);
        false
    }

    /// Reads names until there are as many as are wanted.
    fn find(&mut self, path: u32, most: u32) -> Done {
        let (calls, path) = (&*self.calls, &self.paths[path as usize]);
        let Ok(fd) = Listing::open(calls, path.parent()) else { return Ok(0) };
        let mut left = most as usize;
        while left > 0 && self.listing.fill(calls, fd).map_err(call("getdents"))? {
            left = left.saturating_sub(self.listing.names().count());
        }
        calls.close(fd).map(|()| 0).map_err(call("close"))
    }

    fn create(
        &mut self,
        path: u32,
        (directory, disposition): (bool, u32),
        handle: u32,
        succeeds: bool,
    ) -> Done {
        self.resolve(path);
        let (calls, name) = (&*self.calls, &*self.paths[path as usize].text);
        let mut flags = OpenFlags::READ | OpenFlags::WRITE;
        if disposition == CREATE {
            flags |= OpenFlags::CREATE;
        }
        if OVERWRITE.contains(&disposition) {
            flags |= OpenFlags::CREATE | OpenFlags::TRUNCATE;
        }
        if directory {
            // It may be there.
            let _ = calls.mkdir(name, 0o700);
            flags = OpenFlags::READ | OpenFlags::DIRECTORY;
        }
        match (calls.open(name, flags, 0o600), succeeds) {
            (Ok(fd), true) => {
                self.open.insert(handle, (fd, path));
                calls.fstat(fd).map(|_| 0).map_err(call("fstat"))
            }
            (Ok(fd), false) => {
                let _ = calls.close(fd);
                Err(Wrong::Status(None))
            }
            (Err(errno), true) => Err(Wrong::Status(Some(errno))),
            (Err(errno), false) if errno == Errno::ENOSPC => Err(Wrong::Call("open", errno)),
            (Err(_), false) => Ok(0),
        }
    }

    fn read(&mut self, handle: u32, offset: u64, (size, done): (u32, u32)) -> Done {
        let (fd, calls) = (self.fd(handle)?, Arc::clone(&self.calls));
        let read = calls.pread(fd, &mut self.buffer[..size as usize], offset).map_err(call("pread"))?;
        self.short_reads += u64::from(read != done as usize);
        Ok(size.into())
    }

    fn lock(&self, action: LockAction, handle: u32, offset: u64, size: u32) -> Done {
        let locked = self.calls.lock(self.fd(handle)?, action, LockOwner::Process, offset, size.into());
        locked.map(|()| 0).map_err(call("lock"))
    }

    fn set_times(&mut self, handle: u32) -> Done {
        let (fd, path) = *self.open.get(&handle).ok_or(Wrong::Call("a handle", Errno::EBADF))?;
        let attr = self.calls.fstat(fd).map_err(call("fstat"))?;
        let earlier =
            |time: Timestamp, secs| Some(SetTime::To(Timestamp { secs: time.secs - secs, nanos: 0 }));
        let set =
            SetAttr { atime: earlier(attr.atime, 10), mtime: earlier(attr.mtime, 12), ..SetAttr::default() };
        match self.calls.setattr(&self.paths[path as usize].text, &set) {
            Ok(()) => Ok(0),
            // The file has another name now; dbench does not look.
            Err(Errno::ENOENT) => {
                self.unexpected += 1;
                Ok(0)
            }
            Err(errno) => Err(Wrong::Call("utimes", errno)),
        }
    }

    fn by_name(&mut self, line: &Line, path: u32, act: impl FnOnce(&[u8]) -> vfs::Result<()>) -> Done {
        self.resolve(path);
        expected(line, act(&self.paths[path as usize].text))
    }

    /// Removes all files below a directory; the directories stay, as dbench leaves them.
    fn remove_files(&self, root: &[u8]) -> Done {
        let calls = &*self.calls;
        let Ok(fd) = Listing::open(calls, root) else { return Ok(0) };
        let mut listing = Listing::default();
        while listing.fill(calls, fd).map_err(call("getdents"))? {
            for name in listing.names().filter(|name| !matches!(*name, b"." | b"..")) {
                let inner = [root, b"/", name].concat();
                let attr = calls.stat(&inner).map_err(call("stat"))?;
                if attr.kind == FileKind::Directory {
                    self.remove_files(&inner)?;
                } else {
                    calls.unlink(&inner).map_err(call("unlink"))?;
                }
            }
        }
        calls.close(fd).map(|()| 0).map_err(call("close"))
    }

    fn close_all(&mut self) {
        for (_, (fd, _)) in self.open.drain() {
            // What the file has left open was only read or written.
            let _ = self.calls.close(fd);
        }
    }

    /// `client.txt:12: client 3: Unlink clients/client3/x = ENOENT, expected success`.
    fn told(&self, line: &Line, wrong: &Wrong) -> Failure {
        let name = super::load::KINDS[line.op.kind()].name;
        let path = match line.op {
            Op::Create { path, .. }
            | Op::QueryPath(path)
            | Op::Find { path, .. }
            | Op::Unlink(path)
            | Op::Mkdir(path)
            | Op::Rmdir(path)
            | Op::Deltree(path)
            | Op::Rename { from: path, .. } => format!(" {}", self.paths[path as usize].text.escape_ascii()),
            _ => String::new(),
        };
        let wanted = if line.succeeds { "success" } else { "an error" };
        let (what, errno) = match wrong {
            Wrong::Status(Some(errno)) => (format!("= {}, expected {wanted}", errno.name()), Some(*errno)),
            Wrong::Status(None) => (format!("succeeded, expected {wanted}"), None),
            Wrong::Short(bytes) => (format!("wrote {bytes} bytes"), None),
            Wrong::Call(call, errno) => (format!("{call} = {}", errno.name()), Some(*errno)),
        };
        let place = format!("{}:{}: client {}", self.load.file, line.number, self.number);
        Failure::new(format!("{place}: {name}{path}: {what}"), errno)
    }
}

/// Whether a call ended as the file says.
fn expected(line: &Line, done: vfs::Result<()>) -> Done {
    match done {
        Ok(()) if !line.succeeds => Err(Wrong::Status(None)),
        Err(errno) if line.succeeds || errno == Errno::ENOSPC => Err(Wrong::Status(Some(errno))),
        _ => Ok(0),
    }
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        sim::work(GENERATOR, 1);
        let (line, started) = (self.load.lines[self.at], sim::now());
        let bytes = self.line(&line).map_err(|wrong| self.told(&line, &wrong))?;
        control.note(tally, line.op.kind(), bytes, started);
        self.at += 1;
        if self.at < self.load.lines.len() {
            return Ok(true);
        }
        self.at = 0;
        self.close_all();
        tally.add("dbench.passes", 1);
        self.left = self.left.map(|left| left - 1);
        Ok(self.left != Some(0))
    }

    fn finish(&mut self, tally: &mut Tally) {
        self.close_all();
        tally.add("dbench.unexpected", self.unexpected);
        tally.add("dbench.short_reads", self.short_reads);
    }
}
