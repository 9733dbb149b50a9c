//! Requests as records.

use std::io;

use trace::call::{Call, NOW, OMIT, Op};
use trace::record::{Entry, Kind, Loss, Record};
use trace::words::{APPEND, CREAT, DIRECTORY, EXCHANGE, EXCL, TMPFILE};

use super::{Known, Trace};
use crate::wire::abi::{self, opcode};
use crate::wire::{Reply, Request};

/// A request that was served, as much of it as a record needs.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    opcode: u32,
    tid: u32,
    node: u64,
    start_ns: u64,
    duration_ns: u64,
    /// 0 or more, or −errno.
    result: i64,
    name: Box<[u8]>,
    /// A second name, what a symbolic link contains, or what it was found to contain.
    name2: Box<[u8]>,
    /// A second directory or inode.
    node2: u64,
    handle: Option<u64>,
    handle2: u64,
    offset: u64,
    offset2: u64,
    len: u64,
    flags: u32,
    mode: u32,
    /// What an answer says of an inode.
    found: Option<Found>,
    /// Of `SETATTR`: what is set, owner, group, times.
    set: Option<Box<abi::SetattrIn>>,
}

/// What an answer says of an inode.
#[derive(Clone, Copy, Debug)]
struct Found {
    node: u64,
    mode: u32,
    size: u64,
    links: u32,
}

/// `FATTR_FH`: a `SETATTR` comes through an open file.
const BY_HANDLE: u32 = 1 << 6;

impl Seen {
    /// What a request asks. None of those that no trace has: forgetting, interrupts, what the server does not know.
    pub(crate) fn of(mut request: Request<'_>, start_ns: u64) -> Option<Self> {
        let header = request.header;
        let (opcode, tid, node) = (header.opcode, header.pid, header.nodeid);
        let mut seen = Self { opcode, tid, node, start_ns, ..Self::default() };
        seen.take(&mut request).ok()?.then_some(seen)
    }

    /// Takes the arguments. False where the request is not recorded.
    fn take(&mut self, ask: &mut Request<'_>) -> vfs::Result<bool> {
        match self.opcode {
            opcode::LOOKUP | opcode::UNLINK | opcode::RMDIR | opcode::REMOVEXATTR => {
                self.name = ask.name()?.into();
            }
            opcode::READLINK | opcode::STATFS => {}
            opcode::GETATTR => self.take_getattr(ask)?,
            opcode::SETATTR => {
                let given: abi::SetattrIn = ask.take()?;
                self.handle = (given.valid & BY_HANDLE != 0).then_some(given.fh);
                self.set = Some(Box::new(given));
            }
            opcode::SYMLINK => {
                self.name = ask.name()?.into();
                self.name2 = ask.name()?.into();
            }
            opcode::MKNOD => {
                let given: abi::MknodIn = ask.take()?;
                (self.mode, self.len, self.name) = (given.mode, u64::from(given.rdev), ask.name()?.into());
            }
            opcode::MKDIR => {
                self.mode = ask.take::<abi::MkdirIn>()?.mode;
                self.name = ask.name()?.into();
            }
            opcode::RENAME | opcode::RENAME2 => {
                if self.opcode == opcode::RENAME2 {
                    let given: abi::Rename2In = ask.take()?;
                    (self.node2, self.flags) = (given.new_parent, given.flags);
                } else {
                    self.node2 = ask.take::<abi::RenameIn>()?.new_parent;
                }
                self.name = ask.name()?.into();
                self.name2 = ask.name()?.into();
            }
            opcode::LINK => {
                self.node2 = ask.take::<abi::LinkIn>()?.nodeid;
                self.name = ask.name()?.into();
            }
            opcode::OPEN | opcode::OPENDIR => self.flags = ask.take::<abi::OpenIn>()?.flags.cast_unsigned(),
            opcode::CREATE | opcode::TMPFILE => {
                let given: abi::CreateIn = ask.take()?;
                (self.flags, self.mode) = (given.flags.cast_unsigned(), given.mode);
                self.name = ask.name().map(Into::into).unwrap_or_default();
            }
            _ => return self.take_of_handle(ask),
        }
        Ok(true)
    }

    fn take_getattr(&mut self, ask: &mut Request<'_>) -> vfs::Result<()> {
        // Flag 1 (FUSE_GETATTR_FH): the handle counts.
        let given: abi::GetattrIn = ask.take()?;
        self.handle = (given.flags & 1 != 0).then_some(given.fh);
        Ok(())
    }

    fn take_of_handle(&mut self, ask: &mut Request<'_>) -> vfs::Result<bool> {
        let mut by = |handle: u64| self.handle = Some(handle);
        match self.opcode {
            opcode::RELEASE | opcode::RELEASEDIR => by(ask.take::<abi::ReleaseIn>()?.fh),
            opcode::READ | opcode::READDIR => {
                let given: abi::ReadIn = ask.take()?;
                by(given.fh);
                (self.offset, self.len) = (given.offset, u64::from(given.size));
            }
            opcode::WRITE => {
                let given: abi::WriteIn = ask.take()?;
                by(given.fh);
                (self.offset, self.len) = (given.offset, u64::from(given.size));
            }
            opcode::FSYNC | opcode::FSYNCDIR => {
                let given: abi::FsyncIn = ask.take()?;
                by(given.fh);
                self.flags = given.flags;
            }
            opcode::FALLOCATE => {
                let given: abi::FallocateIn = ask.take()?;
                by(given.fh);
                (self.offset, self.len, self.flags) = (given.offset, given.len, given.mode);
            }
            opcode::LSEEK => {
                let given: abi::LseekIn = ask.take()?;
                by(given.fh);
                (self.offset, self.flags) = (given.offset.cast_unsigned(), given.whence);
            }
            opcode::COPY_FILE_RANGE => {
                let given: abi::CopyFileRangeIn = ask.take()?;
                by(given.fh);
                (self.handle2, self.len) = (given.to_fh, given.len);
                (self.offset, self.offset2) = (given.offset, given.to_offset);
            }
            opcode::SETXATTR | opcode::GETXATTR | opcode::LISTXATTR => return self.take_xattr(ask),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_xattr(&mut self, ask: &mut Request<'_>) -> vfs::Result<bool> {
        let given: abi::GetxattrIn = ask.take()?;
        self.len = u64::from(given.size);
        if self.opcode == opcode::SETXATTR {
            self.flags = given.unused;
        }
        if self.opcode != opcode::LISTXATTR {
            // The long form of SETXATTR has two words more; a name begins with a letter.
            let rest = ask.data();
            let start = rest.iter().take(8).take_while(|byte| !byte.is_ascii_alphabetic()).count();
            let name = rest[start..].split(|byte| *byte == 0).next().unwrap_or_default();
            self.name = name.into();
        }
        Ok(true)
    }

    /// Whether the answer names an inode: where, in its bytes.
    fn has_entry(&self) -> bool {
        matches!(
            self.opcode,
            opcode::LOOKUP
                | opcode::SYMLINK
                | opcode::MKNOD
                | opcode::MKDIR
                | opcode::LINK
                | opcode::CREATE
                | opcode::TMPFILE
        )
    }

    /// Adds what came of it. `later`: bytes that were written, of which another thread tells the kernel.
    pub(crate) fn done(&mut self, error: i32, later: Option<u32>, reply: &Reply, end_ns: u64) {
        self.duration_ns = end_ns.saturating_sub(self.start_ns);
        if error < 0 {
            self.result = i64::from(error);
            return;
        }
        let bytes = reply.bytes();
        let word = |at: usize| {
            bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        let half = |at: usize| {
            bytes.get(at..at + 4).and_then(|half| half.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        if self.has_entry() {
            // struct fuse_entry_out: the number first; of the attributes, which begin at byte 40, the size at 8, the mode at 60,
            // the
            // number of names at 64.
            let found =
                Found { node: word(0), mode: half(40 + 60), size: word(40 + 8), links: half(40 + 64) };
            self.found = Some(found).filter(|found| found.node != 0);
        }
        match self.opcode {
            opcode::LOOKUP if self.found.is_none() => self.result = trace::words::ENOENT,
            opcode::READ | opcode::READDIR => self.result = i64::from(bytes.len() as u32),
            opcode::READLINK => {
                self.result = i64::from(bytes.len() as u32);
                self.name2 = bytes.into();
            }
            opcode::WRITE | opcode::COPY_FILE_RANGE => {
                self.result = i64::from(later.unwrap_or_else(|| half(0)));
            }
            opcode::GETXATTR | opcode::LISTXATTR => {
                self.result = if self.len == 0 { i64::from(half(0)) } else { i64::from(bytes.len() as u32) };
            }
            opcode::LSEEK => self.result = word(0).cast_signed(),
            opcode::OPEN | opcode::OPENDIR => self.handle = Some(word(0)),
            opcode::CREATE | opcode::TMPFILE => self.handle = Some(word(size_of::<abi::EntryOut>())),
            _ => {}
        }
    }

    /// The kind of what a lookup has found, where its contents are needed besides: a symbolic link.
    pub(crate) fn is_found_link(&self) -> Option<u64> {
        let Found { node, mode, .. } = self.found.filter(|_| self.opcode == opcode::LOOKUP)?;
        (Kind::of_mode(mode) == Some(Kind::Symlink)).then_some(node)
    }

    /// What the symbolic link contains that was found.
    pub(crate) fn set_target(&mut self, target: &[u8]) {
        self.name2 = target.into();
    }
}

/// What a request is called in the account of what is missing.
fn name_of(code: u32) -> &'static str {
    match code {
        opcode::OPEN | opcode::OPENDIR | opcode::CREATE | opcode::TMPFILE => "open",
        opcode::RELEASE | opcode::RELEASEDIR => "close",
        opcode::READ => "read",
        opcode::WRITE => "write",
        opcode::FSYNC | opcode::FSYNCDIR => "fsync",
        opcode::SETATTR => "setattr",
        opcode::LOOKUP | opcode::GETATTR => "stat",
        _ => "request",
    }
}

fn opens(code: u32) -> bool {
    matches!(code, opcode::OPEN | opcode::OPENDIR | opcode::CREATE | opcode::TMPFILE)
}

/// The handle as the descriptor of a trace.
fn descriptor(handle: u64) -> i32 {
    i32::try_from(handle).unwrap_or(i32::MAX)
}

impl Trace {
    /// Writes a request.
    pub(super) fn request(&mut self, seen: &Seen) -> io::Result<()> {
        let thread = self.thread(seen.tid, seen.start_ns)?;
        match seen.opcode {
            opcode::LOOKUP => self.lookup(thread, seen),
            opcode::SETATTR => self.setattr(thread, seen),
            opcode::RENAME | opcode::RENAME2 => self.rename(thread, seen),
            opcode::UNLINK | opcode::RMDIR => self.unlink(thread, seen),
            opcode::SYMLINK
            | opcode::MKNOD
            | opcode::MKDIR
            | opcode::LINK
            | opcode::CREATE
            | opcode::TMPFILE => self.make(thread, seen),
            opcode::OPEN | opcode::OPENDIR => self.open(thread, seen),
            _ if seen.handle.is_some() => self.by_handle(thread, seen),
            _ => self.by_node(thread, seen),
        }
    }

    fn call(&mut self, thread: u32, seen: &Seen, call: Call, result: i64) -> io::Result<()> {
        self.out.call(thread, (seen.start_ns, seen.duration_ns), call, result)
    }

    /// A request on an inode whose name is not known any more.
    #[allow(clippy::unnecessary_wraps, reason = "callers end with it")]
    fn nameless(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        self.out.pass(thread, seen.duration_ns);
        self.out.lose(&Loss::calls(1, name_of(seen.opcode), "requests on files of which no name is known"));
        if let Some(handle) = seen.handle.filter(|_| opens(seen.opcode) && seen.result >= 0) {
            self.nameless.insert(handle);
        }
        Ok(())
    }

    /// The descriptor of a file that is open, for requests on an inode that has no name, or none any more.
    fn open_descriptor(&self, node: u64) -> Option<i32> {
        self.opened.get(&node)?.last().copied().map(descriptor)
    }

    fn is_open(&mut self, node: u64, handle: u64) {
        self.opened.entry(node).or_default().push(handle);
    }

    fn is_closed(&mut self, node: u64, handle: u64) {
        if let Some(handles) = self.opened.get_mut(&node) {
            handles.retain(|open| *open != handle);
            if handles.is_empty() {
                self.opened.remove(&node);
            }
        }
    }

    /// Remembers where an inode is. Says whether the name is new.
    fn learn(&mut self, directory: u64, name: &[u8], node: u64) -> bool {
        let known = Known { parent: directory, name: name.into() };
        let names = self.nodes.entry(node).or_default();
        names.retain(|name| *name != known);
        names.push(known);
        self.names.insert((directory, name.into()), node).is_none()
    }

    /// A name leads nowhere any more; gives the inode to which it led.
    fn forget(&mut self, directory: u64, name: &[u8]) -> Option<u64> {
        let node = self.names.remove(&(directory, name.into()))?;
        if let Some(names) = self.nodes.get_mut(&node) {
            names.retain(|known| known.parent != directory || *known.name != *name);
        }
        Some(node)
    }

    fn lookup(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        if matches!(&*seen.name, b"." | b"..") {
            return Ok(());
        }
        let Some(path) = self.path_in(seen.node, &seen.name) else { return self.nameless(thread, seen) };
        let mut op = Op::Stat;
        if let Some(Found { node, mode, size, links }) = seen.found {
            let kind = Kind::of_mode(mode).unwrap_or(Kind::File);
            if kind == Kind::Symlink {
                op = Op::Lstat;
            }
            if self.learn(seen.node, &seen.name, node) && !self.made.contains(&node) {
                let size = if kind == Kind::File { size } else { 0 };
                let target = (kind == Kind::Symlink).then(|| seen.name2.clone());
                let group = if links > 1 && kind != Kind::Directory { node } else { 0 };
                let entry = Entry { kind, mode: mode & 0o7777, size, group, path: path.clone(), target };
                self.out.record(&Record::Entry(entry))?;
            }
        }
        let mut call = Call::new(op);
        call.path = Some(path);
        self.call(thread, seen, call, seen.result)
    }

    fn make(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        let path = if seen.opcode == opcode::TMPFILE {
            self.path(seen.node).map(Into::into)
        } else {
            self.path_in(seen.node, &seen.name)
        };
        let Some(path) = path else { return self.nameless(thread, seen) };
        let mut call = Call::new(match seen.opcode {
            opcode::SYMLINK => Op::Symlink,
            opcode::MKNOD => Op::Mknod,
            opcode::MKDIR => Op::Mkdir,
            opcode::LINK => Op::Link,
            _ => Op::Open,
        });
        (call.path, call.mode) = (Some(path), seen.mode & 0o7777);
        let mut result = seen.result;
        match seen.opcode {
            opcode::SYMLINK => call.path2 = Some(seen.name2.clone()),
            opcode::MKNOD => (call.mode, call.offset) = (seen.mode, seen.len.cast_signed()),
            opcode::LINK => {
                match (self.path(seen.node2), self.open_descriptor(seen.node2)) {
                    (Some(old), _) => call.path2 = call.path.replace(old.into()),
                    // One that was made without a name.
                    (None, Some(fd)) => {
                        (call.op, call.fd, call.path2) = (Op::LinkFd, Some(fd), call.path.take());
                    }
                    (None, None) => return self.nameless(thread, seen),
                }
            }
            opcode::CREATE => call.flags = seen.flags & !APPEND | CREAT | EXCL,
            opcode::TMPFILE => call.flags = seen.flags & !APPEND | TMPFILE,
            _ => {}
        }
        if call.op == Op::Open && result >= 0 {
            result = i64::from(descriptor(seen.handle.unwrap_or(0)));
        }
        if let Some(Found { node, .. }) = seen.found {
            if seen.opcode != opcode::TMPFILE {
                self.learn(seen.node, &seen.name, node);
            }
            // A link of one that existed before is none that was made.
            if seen.opcode != opcode::LINK {
                self.made.insert(node);
            }
            if let Some(handle) = seen.handle {
                self.is_open(node, handle);
            }
        }
        self.call(thread, seen, call, result)
    }

    fn open(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        let Some(path) = self.path(seen.node) else { return self.nameless(thread, seen) };
        let mut call = Call::new(Op::Open);
        call.path = Some(path.into());
        // Each write comes with its offset, also where the program appends.
        call.flags = seen.flags & !(APPEND | CREAT | EXCL);
        if seen.opcode == opcode::OPENDIR {
            call.flags |= DIRECTORY;
        }
        let mut result = seen.result;
        if let Some(handle) = seen.handle.filter(|_| result >= 0) {
            self.is_open(seen.node, handle);
            result = i64::from(descriptor(handle));
        }
        self.call(thread, seen, call, result)
    }

    fn unlink(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        let Some(path) = self.path_in(seen.node, &seen.name) else { return self.nameless(thread, seen) };
        if seen.result >= 0 {
            self.forget(seen.node, &seen.name);
        }
        let mut call = Call::new(if seen.opcode == opcode::RMDIR { Op::Rmdir } else { Op::Unlink });
        call.path = Some(path);
        self.call(thread, seen, call, seen.result)
    }

    fn rename(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        let paths = self.path_in(seen.node, &seen.name).zip(self.path_in(seen.node2, &seen.name2));
        let Some((from, to)) = paths else { return self.nameless(thread, seen) };
        let mut call = Call::new(Op::Rename);
        (call.path, call.path2, call.flags) = (Some(from), Some(to), seen.flags);
        if seen.result >= 0 {
            self.moved(seen);
        }
        self.call(thread, seen, call, seen.result)
    }

    fn moved(&mut self, seen: &Seen) {
        let old = self.forget(seen.node, &seen.name);
        let new = self.forget(seen.node2, &seen.name2);
        if let Some(node) = old {
            self.learn(seen.node2, &seen.name2, node);
        }
        if let Some(node) = new.filter(|_| seen.flags & EXCHANGE != 0) {
            self.learn(seen.node, &seen.name, node);
        }
    }

    /// A request through an open file.
    fn by_handle(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        let copies = seen.opcode == opcode::COPY_FILE_RANGE && self.nameless.contains(&seen.handle2);
        if copies || seen.handle.is_some_and(|handle| self.nameless.contains(&handle)) {
            return self.nameless(thread, seen);
        }
        let mut call = Call::new(match seen.opcode {
            opcode::RELEASE | opcode::RELEASEDIR => Op::Close,
            opcode::READ => Op::Pread,
            opcode::READDIR => Op::Getdents,
            opcode::WRITE => Op::Pwrite,
            opcode::FSYNC | opcode::FSYNCDIR if seen.flags & abi::FSYNC_DATA != 0 => Op::Fdatasync,
            opcode::FSYNC | opcode::FSYNCDIR => Op::Fsync,
            opcode::FALLOCATE => Op::Fallocate,
            opcode::LSEEK => Op::Lseek,
            opcode::COPY_FILE_RANGE => Op::Copy,
            _ => Op::Fstat,
        });
        if let Some(handle) = seen.handle.filter(|_| call.op == Op::Close) {
            self.is_closed(seen.node, handle);
        }
        call.fd = seen.handle.map(descriptor);
        (call.len, call.offset) = (seen.len, seen.offset.cast_signed());
        match call.op {
            Op::Fallocate => call.flags = seen.flags,
            // SEEK_DATA is 3, SEEK_HOLE 4; the words of a trace are bits.
            Op::Lseek => call.flags = 1 << seen.flags.min(4),
            Op::Copy => {
                (call.fd2, call.offset2) = (Some(descriptor(seen.handle2)), seen.offset2.cast_signed());
            }
            _ => {}
        }
        self.call(thread, seen, call, seen.result)
    }

    /// A request on an inode by its number: of a symbolic link, on the link itself.
    fn by_node(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        let path = self.path(seen.node);
        let fd = self.open_descriptor(seen.node).filter(|_| path.is_none());
        if path.is_none() && (fd.is_none() || seen.opcode == opcode::READLINK) {
            return self.nameless(thread, seen);
        }
        let ops = |by_path: Op, by_handle: Op| if fd.is_some() { by_handle } else { by_path };
        let mut call = Call::new(match seen.opcode {
            opcode::STATFS => ops(Op::Statfs, Op::Fstatfs),
            opcode::READLINK => Op::Readlink,
            opcode::SETXATTR => ops(Op::Lsetxattr, Op::Fsetxattr),
            opcode::GETXATTR => ops(Op::Lgetxattr, Op::Fgetxattr),
            opcode::LISTXATTR => ops(Op::Llistxattr, Op::Flistxattr),
            opcode::REMOVEXATTR => ops(Op::Lremovexattr, Op::Fremovexattr),
            _ => ops(Op::Lstat, Op::Fstat),
        });
        (call.path, call.fd) = (path.map(Into::into), fd);
        (call.len, call.flags) = (seen.len, seen.flags);
        if !seen.name.is_empty() {
            call.path2 = Some(seen.name.clone());
        }
        if call.op == Op::Readlink {
            // The kernel asks with a page.
            call.len = 4096;
        }
        self.call(thread, seen, call, seen.result)
    }

    /// One request may stand for several calls; they share its time, which the first has.
    fn setattr(&mut self, thread: u32, seen: &Seen) -> io::Result<()> {
        let Some(set) = &seen.set else { return Ok(()) };
        if seen.handle.is_some_and(|handle| self.nameless.contains(&handle)) {
            return self.nameless(thread, seen);
        }
        let path = self.path(seen.node);
        let unnamed = || self.open_descriptor(seen.node).filter(|_| path.is_none());
        let fd = seen.handle.map(descriptor).or_else(unnamed);
        let has = |bit: u32| set.valid & bit != 0;
        let mut calls = Vec::new();
        let ops = |by_path: Op, by_handle: Op| if fd.is_some() { by_handle } else { by_path };
        if has(abi::set::MODE) {
            let mut call = Call::new(ops(Op::Chmod, Op::Fchmod));
            call.mode = set.mode & 0o7777;
            calls.push(call);
        }
        if has(abi::set::UID) || has(abi::set::GID) {
            let mut call = Call::new(ops(Op::Lchown, Op::Fchown));
            let id = |bit, id: u32| if has(bit) { i64::from(id) } else { -1 };
            (call.offset, call.offset2) = (id(abi::set::UID, set.uid), id(abi::set::GID, set.gid));
            calls.push(call);
        }
        if has(abi::set::SIZE) {
            let mut call = Call::new(ops(Op::Truncate, Op::Ftruncate));
            call.len = set.size;
            calls.push(call);
        }
        if has(abi::set::ATIME) || has(abi::set::MTIME) {
            let mut call = Call::new(ops(Op::Lutimes, Op::Futimes));
            let time = |bit, now, secs: i64, nanos: u32| match (has(bit), has(now)) {
                (false, _) => OMIT,
                (true, true) => NOW,
                _ => secs.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)),
            };
            call.offset = time(abi::set::ATIME, abi::set::ATIME_NOW, set.atime, set.atime_nanos);
            call.offset2 = time(abi::set::MTIME, abi::set::MTIME_NOW, set.mtime, set.mtime_nanos);
            calls.push(call);
        }
        let mut times = (seen.start_ns, seen.duration_ns);
        for mut call in calls {
            match (fd, &path) {
                (Some(_), _) => call.fd = fd,
                (None, Some(path)) => call.path = Some(path.clone().into()),
                (None, None) => return self.nameless(thread, seen),
            }
            self.out.call(thread, times, call, seen.result)?;
            times = (seen.start_ns + seen.duration_ns, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use trace::Writer;
    use trace::import::Emitter;
    use trace::record::Head;
    use zerocopy::FromZeros as _;

    use super::*;
    use crate::convert::KERNEL_ROOT;

    #[test]
    fn an_inode_has_the_newest_of_the_names_that_are_still_there() {
        let buffer: Vec<u8> = Vec::with_capacity(4096);
        let out: super::super::Out = Box::new(buffer);
        let mut trace = Trace::new(Emitter::new(Writer::new(out, &Head::default(), false).unwrap()));
        let at = |trace: &Trace| trace.path(9).map(|path| String::from_utf8(path).unwrap());
        trace.learn(KERNEL_ROOT, b"dir", 5);
        trace.learn(5, b"a", 9);
        trace.learn(KERNEL_ROOT, b"b", 9);
        trace.learn(5, b"c", 9);
        assert_eq!(at(&trace).as_deref(), Some("dir/c"));
        trace.forget(5, b"c");
        trace.forget(5, b"a");
        assert_eq!(at(&trace).as_deref(), Some("b"));
        trace.learn(KERNEL_ROOT, b"b", 9);
        trace.forget(KERNEL_ROOT, b"b");
        assert_eq!(at(&trace), None);
    }

    /// A temporary file that is removed while it is open, and one that gets its first name when it is whole.
    #[test]
    fn requests_on_an_open_file_without_a_name_are_calls_on_its_descriptor() {
        let buffer: Vec<u8> = Vec::with_capacity(4096);
        let out: super::super::Out = Box::new(buffer);
        let mut trace = Trace::new(Emitter::new(Writer::new(out, &Head::default(), false).unwrap()));
        let found = |node| Some(Found { node, mode: 0o10_0644, size: 0, links: 1 });
        let seen = |opcode, node, name: &[u8]| Seen { opcode, node, name: name.into(), ..Seen::default() };
        let create = Seen { handle: Some(3), found: found(9), ..seen(opcode::CREATE, KERNEL_ROOT, b"gone") };
        let tmpfile = Seen { handle: Some(4), found: found(8), ..seen(opcode::TMPFILE, KERNEL_ROOT, b"") };
        let zeros = abi::SetattrIn::new_zeroed();
        let set = abi::SetattrIn { valid: abi::set::MODE, mode: 0o600, ..zeros };
        let link = Seen { node2: 8, found: found(8), ..seen(opcode::LINK, KERNEL_ROOT, b"named") };
        for one in [
            create,
            seen(opcode::UNLINK, KERNEL_ROOT, b"gone"),
            seen(opcode::GETXATTR, 9, b"security.capability"),
            Seen { set: Some(Box::new(set)), ..seen(opcode::SETATTR, 9, b"") },
            seen(opcode::GETATTR, 9, b""),
            tmpfile,
            link,
            seen(opcode::GETATTR, 8, b""),
        ] {
            trace.request(&one).unwrap();
        }
        assert!(trace.out.losses().is_empty(), "{:?}", trace.out.losses());
        assert_eq!((trace.path(9), trace.path(8)), (None, Some(b"named".to_vec())));
        // Closed, it cannot be named.
        trace.request(&Seen { handle: Some(3), ..seen(opcode::RELEASE, 9, b"") }).unwrap();
        trace.request(&seen(opcode::GETXATTR, 9, b"user.a")).unwrap();
        assert_eq!(trace.out.losses().names().as_deref(), Some("1 request"));
    }
}
