//! One method for each request of the kernel.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use vfs::{Errno, FallocateMode, FileKind, Result, SeekTo, SetAttr, XattrMode, ops, xattr};

use super::{BUFFER, Handler, name};
use crate::convert::{self, errno, generation, io_flags, open_flags};
use crate::options::{Cache, REMOUNT_XATTR, RESULT_XATTR, SYNC_XATTR};

/// Open files need no number of their own: what a request depends on comes with it.
const NO_HANDLE: FileHandle = FileHandle(0);

/// A reply that can be an error.
trait Refuse {
    fn refuse(self, error: fuser::Errno);
}

macro_rules! can_refuse {
    ($($reply:ty),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, error: fuser::Errno) {
                self.error(error);
            }
        })*
    };
}

can_refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

/// Gives what came of a request, or its error.
fn answer<T, R: Refuse>(result: Result<T>, reply: R, give: impl FnOnce(R, T)) {
    match result {
        Ok(value) => give(reply, value),
        Err(error) => reply.refuse(errno(error)),
    }
}

fn finish(result: Result<()>, reply: ReplyEmpty) {
    answer(result, reply, |reply, ()| reply.ok());
}

/// The name of an extended attribute. The kernel has checked who may use it, but not that there is such a namespace.
fn attribute(text: &OsStr) -> Result<&[u8]> {
    let name = text.as_bytes();
    xattr::namespace(name).map(|_| name)
}

/// Gives bytes, or how many they are when `size` is 0.
fn answer_sized(result: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    answer(result, reply, |reply, bytes| match bytes.len() as u32 {
        len if size == 0 => reply.size(len),
        len if len > size => reply.error(fuser::Errno::ERANGE),
        _ => reply.data(&bytes),
    });
}

/// Whether a read or write is a program's own, past the page cache. The kernel names the owner of its locks only for those:
/// `fuse_direct_io` does, reading and writing pages does not.
fn is_direct(owner: Option<LockOwner>) -> bool {
    owner.is_some()
}

impl Filesystem for Handler {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        Self::negotiate(config);
        Ok(())
    }

    fn destroy(&mut self) {
        self.end();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, text: &OsStr, reply: ReplyEntry) {
        let _op = self.begin(ops::STAT);
        let found = name(text).and_then(|name| self.fs().lookup(self.numbers.ino(parent), name));
        self.tell(found, reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        self.join_run();
        self.nodes.forget(self.fs(), self.numbers.ino(ino), count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _op = self.begin(ops::STAT);
        answer(self.fs().getattr(self.numbers.ino(ino)), reply, |reply, attr| {
            reply.attr(&self.valid_for(&attr), &self.attr(&attr));
        });
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _op = self.begin(ops::SETATTR);
        let ino = self.numbers.ino(ino);
        let (atime, mtime) = (atime.map(convert::set_time), mtime.map(convert::set_time));
        let set = SetAttr { perm: mode.map(|mode| mode & 0o7777), uid, gid, size, atime, mtime };
        let set = self.clearing_set_id(request, ino, set);
        let done = set.and_then(|set| self.fs().setattr(ino, &set));
        self.nodes.changed(ino);
        answer(done, reply, |reply, attr| {
            reply.attr(&self.valid_for(&attr), &self.attr(&attr));
        });
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let _op = self.begin(ops::READLINK);
        let ino = self.numbers.ino(ino);
        answer(self.fs().readlink(ino), reply, |reply, target| {
            self.accessed(ino);
            reply.data(&target);
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _op = self.begin(ops::MKNOD);
        let parent = self.numbers.ino(parent);
        let made = FileKind::from_mode(mode).ok_or(Errno::EINVAL).and_then(|kind| {
            let new = self.new_inode(request, parent, kind, mode)?;
            self.fs().mknod(parent, name(text)?, kind, u64::from(rdev), &new)
        });
        self.nodes.changed(parent);
        self.tell(self.settled(made), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let _op = self.begin(ops::MKDIR);
        let parent = self.numbers.ino(parent);
        let new = self.new_inode(request, parent, FileKind::Directory, mode);
        let made = new.and_then(|new| self.fs().mkdir(parent, name(text)?, &new));
        self.nodes.changed(parent);
        self.tell(self.settled(made), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, text: &OsStr, reply: ReplyEmpty) {
        let _op = self.begin(ops::UNLINK);
        let parent = self.numbers.ino(parent);
        let done = name(text).and_then(|name| self.fs().unlink(parent, name));
        self.nodes.changed(parent);
        finish(self.settled(done), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, text: &OsStr, reply: ReplyEmpty) {
        let _op = self.begin(ops::RMDIR);
        let parent = self.numbers.ino(parent);
        let done = name(text).and_then(|name| self.fs().rmdir(parent, name));
        self.nodes.changed(parent);
        finish(self.settled(done), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, text: &OsStr, target: &Path, reply: ReplyEntry) {
        let _op = self.begin(ops::SYMLINK);
        let parent = self.numbers.ino(parent);
        let new = self.new_inode(request, parent, FileKind::Symlink, 0o777);
        let target = target.as_os_str().as_bytes();
        let made = new.and_then(|new| self.fs().symlink(parent, name(text)?, target, &new));
        self.nodes.changed(parent);
        self.tell(self.settled(made), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        text: &OsStr,
        new_parent: INodeNo,
        new_text: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _op = self.begin(ops::RENAME);
        let (from, to) = (self.numbers.ino(parent), self.numbers.ino(new_parent));
        let flags = vfs::RenameFlags::from_bits(flags.bits()).ok_or(Errno::EINVAL);
        let done =
            flags.and_then(|flags| self.fs().rename((from, name(text)?), (to, name(new_text)?), flags));
        self.nodes.changed(from);
        self.nodes.changed(to);
        finish(self.settled(done), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, text: &OsStr, reply: ReplyEntry) {
        let _op = self.begin(ops::LINK);
        let (ino, parent) = (self.numbers.ino(ino), self.numbers.ino(parent));
        let made = name(text).and_then(|name| self.fs().link(ino, parent, name));
        self.nodes.changed(ino);
        self.nodes.changed(parent);
        self.tell(self.settled(made), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _op = self.begin(ops::OPEN);
        let (ino, flags) = (self.numbers.ino(ino), open_flags(flags.0));
        answer(self.fs().open(ino, flags), reply, |reply, ()| {
            reply.opened(NO_HANDLE, self.opened(ino, flags));
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        text: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _op = self.begin(ops::CREATE);
        let (fs, parent, flags) = (self.fs(), self.numbers.ino(parent), open_flags(flags));
        let made = self.new_inode(request, parent, FileKind::Regular, mode).and_then(|new| {
            let attr = self.settled(fs.create(parent, name(text)?, &new))?;
            self.nodes.learn(fs, attr.ino)?;
            // The kernel does not hear of it when this fails, and will not forget it.
            fs.open(attr.ino, flags).inspect_err(|_| self.nodes.forget(fs, attr.ino, 1))?;
            Ok(attr)
        });
        self.nodes.changed(parent);
        answer(made, reply, |reply, attr| {
            let open = self.opened(attr.ino, flags);
            reply.created(&self.valid_for(&attr), &self.attr(&attr), generation(&attr), NO_HANDLE, open);
        });
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        flags: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let _op = self.begin(ops::CLOSE);
        let ino = self.numbers.ino(ino);
        self.nodes.closed(ino, open_flags(flags.0));
        self.fs().release(ino);
        reply.ok();
    }

    /// A close has nothing to do here, and the kernel need not tell of another.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let _op = self.begin(ops::READ);
        let (fs, ino) = (self.fs(), self.numbers.ino(ino));
        if !is_direct(owner) {
            self.nodes.set_cached(ino);
        }
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            answer(
                fs.read(ino, offset, &mut buffer[..size as usize], io_flags(flags)),
                reply,
                |reply, bytes| {
                    if !open_flags(flags.0).contains(vfs::OpenFlags::NOATIME) {
                        self.accessed(ino);
                    }
                    reply.data(&buffer[..bytes]);
                },
            );
        });
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _op = self.begin(ops::WRITE);
        let (node, ino) = (ino, self.numbers.ino(ino));
        if !is_direct(owner) {
            self.nodes.set_cached(ino);
        }
        let clears = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let allowed = if clears { self.clear_set_id(request, ino) } else { Ok(()) };
        let allowed = allowed.and_then(|()| self.drop_capabilities(ino));
        let written = allowed.and_then(|()| self.put(ino, offset, data, io_flags(flags)));
        self.nodes.changed(ino);
        let stale = self.cache == Cache::Pages && is_direct(owner) && self.nodes.may_be_cached(ino);
        answer(written, reply, |reply, bytes| match stale && bytes > 0 {
            true => self.invalidator.answer(node, offset, bytes, reply),
            false => reply.written(bytes as u32),
        });
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _op = self.begin(ops::FSYNC);
        finish(self.sync(self.numbers.ino(ino), data_only), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _op = self.begin(ops::FSYNC);
        finish(self.sync(self.numbers.ino(ino), data_only), reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _op = self.begin(ops::OPEN);
        answer(self.fs().open(self.numbers.ino(ino), open_flags(flags.0)), reply, |reply, ()| {
            reply.opened(NO_HANDLE, self.opened_directory(self.numbers.ino(ino)));
        });
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let _op = self.begin(ops::READDIR);
        let listed = self.list(ino, offset, false, |entry, kind| {
            let (node, kind) = (self.numbers.node(entry.ino), convert::file_type(kind));
            reply.add(node, entry.next, kind, OsStr::from_bytes(&entry.name))
        });
        answer(listed, reply, |reply, ()| reply.ok());
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _op = self.begin(ops::READDIR);
        let fs = self.fs();
        let listed = self.list(ino, offset, true, |entry, _| {
            let Some(attr) = &entry.attr else { return false };
            let counts = !entry.is_dots();
            if counts && self.nodes.learn(fs, attr.ino).is_err() {
                return false; // it has gone since it was listed
            }
            let (node, name) = (self.numbers.node(attr.ino), OsStr::from_bytes(&entry.name));
            let valid_for = self.valid_for(attr);
            let full = reply.add(node, entry.next, name, &valid_for, &self.attr(attr), generation(attr));
            if full && counts {
                self.nodes.forget(fs, attr.ino, 1);
            }
            full
        });
        answer(listed, reply, |reply, ()| reply.ok());
    }

    fn releasedir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let _op = self.begin(ops::CLOSE);
        self.fs().release(self.numbers.ino(ino));
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _op = self.begin(ops::STATFS);
        answer(self.fs().statfs(), reply, |reply, space| {
            reply.statfs(
                space.blocks,
                space.blocks_free,
                self.fs().blocks_available(&space),
                space.files,
                space.files_free,
                space.block_size,
                space.name_max,
                space.block_size,
            );
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        text: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _op = self.begin(ops::XATTR);
        let mode = match flags {
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        let ino = self.numbers.ino(ino);
        let done = attribute(text).and_then(|name| self.fs().setxattr(ino, name, value, mode));
        self.nodes.changed(ino);
        finish(done, reply);
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, text: &OsStr, size: u32, reply: ReplyXattr) {
        if ino == INodeNo::ROOT && text == RESULT_XATTR {
            return answer_sized(Ok(self.result()), size, reply);
        }
        if ino == INodeNo::ROOT && text == SYNC_XATTR {
            let _op = self.begin(ops::SYNC);
            return answer_sized(self.sync_all().map(|()| Vec::new()), size, reply);
        }
        let remount = text.to_str().and_then(|name| name.strip_prefix(REMOUNT_XATTR));
        if let Some(words) = remount.filter(|_| ino == INodeNo::ROOT) {
            let told = if request.uid() == 0 { Ok(self.times.remounted(words)) } else { Err(Errno::EPERM) };
            let told = told.and_then(|known| if known { Ok(Vec::new()) } else { Err(Errno::EINVAL) });
            return answer_sized(told, size, reply);
        }
        let _op = self.begin(ops::XATTR);
        let value = attribute(text).and_then(|name| self.fs().getxattr(self.numbers.ino(ino), name));
        answer_sized(value, size, reply);
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _op = self.begin(ops::XATTR);
        let names = self.fs().listxattr(self.numbers.ino(ino));
        answer_sized(names.map(|names| xattr::shown(&names, request.uid() == 0)), size, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, text: &OsStr, reply: ReplyEmpty) {
        let _op = self.begin(ops::XATTR);
        let ino = self.numbers.ino(ino);
        let done = attribute(text).and_then(|name| self.fs().removexattr(ino, name));
        self.nodes.changed(ino);
        finish(done, reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _op = self.begin(ops::FALLOCATE);
        let ino = self.numbers.ino(ino);
        let mode = FallocateMode::from_bits(mode.cast_unsigned()).ok_or(Errno::EOPNOTSUPP);
        let done = mode.and_then(|mode| {
            self.clear_set_id(request, ino)?;
            self.fs().fallocate(ino, mode, offset, len)
        });
        self.nodes.changed(ino);
        finish(done, reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let _op = self.begin(ops::SEEK);
        let to = match whence {
            3 => Ok(SeekTo::Data),
            4 => Ok(SeekTo::Hole),
            _ => Err(Errno::EINVAL),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO);
        let found = to.and_then(|to| self.seek(self.numbers.ino(ino), offset?, to));
        answer(found, reply, |reply, offset| reply.offset(offset.cast_signed()));
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _op = self.begin(ops::WRITE);
        /// More than the reply can say is not copied at once.
        const MOST: u64 = 1 << 30;
        let (from, to) = (self.numbers.ino(from), self.numbers.ino(to));
        let copied = self
            .clear_set_id(request, to)
            .and_then(|()| self.copy((from, from_offset), (to, to_offset), len.min(MOST)));
        answer(copied, reply, |reply, bytes| reply.written(bytes as u32));
    }
}
