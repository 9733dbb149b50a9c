//! One method for each request of the kernel.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use vfs::{
    Errno, FallocateMode, FileKind, NewInode, RenameFlags, Renaming, Result, SeekTo, SetAttr, XattrMode, ops,
    xattr,
};

use super::{Answer, Handler, WISHES, name};
use crate::acl;
use crate::convert::{self, io_flags, open_flags};
use crate::invalidate::Written;
use crate::options::{Cache, END_XATTR, REMOUNT_XATTR, RESULT_XATTR, SYNC_XATTR, TRIM_XATTR};
use crate::threads;
use crate::wire::abi::{self, opcode};
use crate::wire::{Reply, Request};

/// What ls(1) and others ask of each file. A kernel with SELinux answers it by itself.
const SELINUX: &[u8] = b"security.selinux";

/// The name of an extended attribute. The kernel has checked who may use it, but not that there is such a namespace.
fn attribute(name: &[u8], lists: bool) -> Result<&[u8]> {
    if lists && acl::is_list(name) { Ok(name) } else { xattr::namespace(name).map(|_| name) }
}

/// Gives bytes, or how many they are when `size` is 0.
fn sized(bytes: &[u8], size: u32, reply: &mut Reply) -> Result<()> {
    match bytes.len() as u32 {
        len if size == 0 => reply.put(&abi::GetxattrOut { size: len, unused: 0 }),
        len if len > size => return Err(Errno::ERANGE),
        _ => reply.put_bytes(bytes),
    }
    Ok(())
}

impl Handler {
    /// Does what a request asks for, and puts the answer into `reply`.
    pub(super) fn dispatch(&self, request: Request<'_>, reply: &mut Reply) -> Result<Answer> {
        let mut ask = request;
        let ask = &mut ask;
        self.join_run();
        sim::work_for(ask.header.uid, ask.header.gid);
        match ask.header.opcode {
            opcode::LOOKUP => self.lookup(ask, reply),
            opcode::FORGET => return self.forget(ask),
            opcode::BATCH_FORGET => return self.batch_forget(ask),
            opcode::GETATTR => self.getattr(ask, reply),
            opcode::STATX => self.statx(ask, reply),
            opcode::IOCTL => self.ioctl(ask, reply),
            opcode::SETATTR => self.setattr(ask, reply),
            opcode::READLINK => self.readlink(ask, reply),
            opcode::SYMLINK => self.symlink(ask, reply),
            opcode::MKNOD => self.mknod(ask, reply),
            opcode::MKDIR => self.mkdir(ask, reply),
            opcode::UNLINK => self.unlink(ask),
            opcode::RMDIR => self.rmdir(ask),
            opcode::RENAME => self.rename(ask, false),
            opcode::RENAME2 => self.rename(ask, true),
            opcode::LINK => self.link(ask, reply),
            opcode::OPEN => self.open(ask, reply),
            opcode::CREATE => self.create(ask, reply),
            opcode::TMPFILE => self.tmpfile(ask, reply),
            opcode::RELEASE => self.release(ask),
            opcode::READ => self.read(ask, reply),
            opcode::WRITE => return self.write(ask, reply),
            opcode::FSYNC | opcode::FSYNCDIR => self.fsync(ask),
            opcode::OPENDIR => self.opendir(ask, reply),
            opcode::READDIR => self.readdir(ask, reply, false),
            opcode::READDIRPLUS => self.readdir(ask, reply, true),
            opcode::RELEASEDIR => {
                self.releasedir(ask);
                Ok(())
            }
            opcode::STATFS => self.statfs(reply),
            opcode::SETXATTR => self.setxattr(ask),
            opcode::GETXATTR => self.getxattr(ask, reply),
            opcode::LISTXATTR => self.listxattr(ask, reply),
            opcode::REMOVEXATTR => self.removexattr(ask),
            opcode::FALLOCATE => self.fallocate(ask),
            opcode::LSEEK => self.lseek(ask, reply),
            opcode::COPY_FILE_RANGE => self.copy_file_range(ask, reply),
            opcode::DESTROY => return Ok(Answer::End),
            // A close has nothing to do here, nothing is interrupted, and the rest the kernel does by itself.
            _ => Err(Errno::ENOSYS),
        }
        .map(|()| Answer::Now)
    }

    /// The first request: the kernel says what it has, and is told what is wanted of it.
    pub(crate) fn init(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        if request.header.opcode != opcode::INIT {
            return Err(Errno::EIO);
        }
        let kernel: abi::InitIn = request.take()?;
        if kernel.major != abi::MAJOR || kernel.minor < abi::OLDEST_MINOR {
            return Err(Errno::EOPNOTSUPP);
        }
        let has = u64::from(kernel.flags) | u64::from(kernel.flags2) << 32;
        let lists = if self.lists { abi::init::POSIX_ACL | abi::init::DONT_MASK } else { 0 };
        // A recorder is to see every inode by its name.
        let plus = abi::init::DO_READDIRPLUS | abi::init::READDIRPLUS_AUTO;
        let wishes = if self.recorder.is_some() { WISHES & !plus } else { WISHES };
        // Nor may it learn of one that no name of a reference leads to, where names change beside it.
        let wishes = if self.is_shared() { wishes & !plus & !abi::init::EXPORT_SUPPORT } else { wishes };
        let wants = has & (wishes | lists);
        self.long_setxattr.store(wants & abi::init::SETXATTR_EXT != 0, Relaxed);
        reply.put(&abi::InitOut {
            major: abi::MAJOR,
            minor: abi::MINOR,
            max_readahead: kernel.max_readahead.min(super::REQUEST_BYTES),
            flags: wants as u32,
            max_background: crate::invalidate::PLACES,
            congestion: crate::invalidate::PLACES / 4 * 3,
            max_write: super::REQUEST_BYTES,
            time_gran: 1,
            max_pages: (super::REQUEST_BYTES >> 12) as u16,
            flags2: (wants >> 32) as u32,
            ..abi::InitOut::default()
        });
        Ok(())
    }

    fn lookup(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::STAT);
        let parent = self.numbers.ino(ask.header.nodeid);
        match name(ask.name()?)? {
            b"." => self.tell_number(parent, reply),
            b".." => self.tell_number(self.parent(parent)?, reply),
            // The kernel may cache for long that there is no such name, too.
            name => match self.fs().lookup(parent, name) {
                Err(Errno::ENOENT) if self.cache == Cache::Pages => {
                    let entry_valid = super::FOR_LONG_SECS;
                    reply.put(&abi::EntryOut { entry_valid, ..abi::EntryOut::default() });
                    Ok(())
                }
                found => self.tell(found, reply),
            },
        }
    }

    fn forget(&self, ask: &mut Request<'_>) -> Result<Answer> {
        self.join_run();
        let forget: abi::ForgetIn = ask.take()?;
        self.nodes.forget(self.fs(), self.numbers.ino(ask.header.nodeid), forget.lookups);
        Ok(Answer::Never)
    }

    fn batch_forget(&self, ask: &mut Request<'_>) -> Result<Answer> {
        self.join_run();
        let batch: abi::BatchForgetIn = ask.take()?;
        for _ in 0..batch.count {
            let one: abi::ForgetOne = ask.take()?;
            self.nodes.forget(self.fs(), self.numbers.ino(one.nodeid), one.lookups);
        }
        Ok(Answer::Never)
    }

    fn getattr(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::STAT);
        let attr = self.fs().getattr(self.numbers.ino(ask.header.nodeid))?;
        self.put_attr(&attr, reply);
        Ok(())
    }

    fn setattr(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::SETATTR);
        let ino = self.numbers.ino(ask.header.nodeid);
        let given: abi::SetattrIn = ask.take()?;
        let has = |bit| given.valid & bit != 0;
        let set = SetAttr {
            perm: has(abi::set::MODE).then_some(given.mode & 0o7777),
            uid: has(abi::set::UID).then_some(given.uid),
            gid: has(abi::set::GID).then_some(given.gid),
            size: has(abi::set::SIZE).then_some(given.size),
            atime: has(abi::set::ATIME)
                .then(|| convert::set_time(has(abi::set::ATIME_NOW), given.atime, given.atime_nanos)),
            mtime: has(abi::set::MTIME)
                .then(|| convert::set_time(has(abi::set::MTIME_NOW), given.mtime, given.mtime_nanos)),
        };
        let done = self.clearing_set_id(ask.header.uid, ask.header.gid, ino, set).and_then(|set| {
            let attr = self.fs().setattr(ino, &set)?;
            set.perm.map_or(Ok(()), |perm| self.list_follows(ino, perm))?;
            Ok(attr)
        });
        self.nodes.changed(ino);
        self.put_attr(&done?, reply);
        Ok(())
    }

    fn readlink(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::READLINK);
        let ino = self.numbers.ino(ask.header.nodeid);
        let target = self.fs().readlink(ino)?;
        self.accessed(ino);
        reply.put_bytes(&target);
        Ok(())
    }

    fn mknod(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::MKNOD);
        let given: abi::MknodIn = ask.take()?;
        let kind = FileKind::from_mode(given.mode).ok_or(Errno::EINVAL)?;
        self.make(ask, kind, (given.mode, given.umask), reply, |name, parent, new| {
            self.fs().mknod(parent, name, kind, u64::from(given.rdev), new)
        })
    }

    fn mkdir(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::MKDIR);
        let given: abi::MkdirIn = ask.take()?;
        let mode = (given.mode, given.umask);
        self.make(ask, FileKind::Directory, mode, reply, |name, parent, new| {
            self.fs().mkdir(parent, name, new)
        })
    }

    fn symlink(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::SYMLINK);
        let mut after = *ask;
        after.name()?;
        let target = after.name()?;
        self.make(ask, FileKind::Symlink, (0o777, 0), reply, |name, parent, new| {
            self.fs().symlink(parent, name, target, new)
        })
    }

    /// Makes an inode with a name, and tells the kernel of it.
    fn make(
        &self,
        ask: &mut Request<'_>,
        kind: FileKind,
        (mode, umask): (u32, u32),
        reply: &mut Reply,
        make: impl Fn(&[u8], vfs::Ino, &NewInode) -> Result<vfs::Attr>,
    ) -> Result<()> {
        let parent = self.numbers.ino(ask.header.nodeid);
        let name = name(ask.name()?)?;
        let new = self.new_inode(&ask.header, parent, kind, (mode, umask))?;
        let made = make(name, parent, &new.begin())
            .and_then(|attr| self.inherit(&new, attr).inspect_err(|_| self.unmake(parent, name, kind)));
        self.nodes.changed(parent);
        self.tell(self.settled(made, parent), reply)
    }

    fn unlink(&self, ask: &mut Request<'_>) -> Result<()> {
        let _op = self.begin(ops::UNLINK);
        let parent = self.numbers.ino(ask.header.nodeid);
        let name = name(ask.name()?)?;
        let done = self.pin(parent, name).and_then(|()| self.fs().unlink(parent, name));
        self.nodes.changed(parent);
        done.and_then(|()| self.settle(&[parent]))
    }

    fn rmdir(&self, ask: &mut Request<'_>) -> Result<()> {
        let _op = self.begin(ops::RMDIR);
        let parent = self.numbers.ino(ask.header.nodeid);
        let name = name(ask.name()?)?;
        let done = self.pin(parent, name).and_then(|()| self.fs().rmdir(parent, name));
        self.nodes.changed(parent);
        done.and_then(|()| self.settle(&[parent]))
    }

    fn rename(&self, ask: &mut Request<'_>, has_flags: bool) -> Result<()> {
        let _op = self.begin(ops::RENAME);
        let (to, flags) = if has_flags {
            let given: abi::Rename2In = ask.take()?;
            (given.new_parent, given.flags)
        } else {
            (ask.take::<abi::RenameIn>()?.new_parent, 0)
        };
        let (from, to) = (self.numbers.ino(ask.header.nodeid), self.numbers.ino(to));
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        let (old, new) = (name(ask.name()?)?, name(ask.name()?)?);
        let replaces = !flags.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
        if replaces {
            self.pin(to, new)?;
        }
        let leaves = flags.contains(RenameFlags::WHITEOUT);
        let made =
            leaves.then(|| self.new_inode(&ask.header, from, FileKind::CharDevice, (0, 0))).transpose()?;
        // No access-control list is inherited: a whiteout gives access to no user.
        let whiteout = made.map(|made| NewInode { perm: 0, ..made.new });
        let how = Renaming { flags: flags - RenameFlags::WHITEOUT, whiteout: whiteout.as_ref() };
        let done = self.fs().rename((from, old), (to, new), how);
        self.nodes.changed(from);
        self.nodes.changed(to);
        done.and_then(|()| self.settle(&[to, from]))
    }

    fn link(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::LINK);
        let given: abi::LinkIn = ask.take()?;
        let (ino, parent) = (self.numbers.ino(given.nodeid), self.numbers.ino(ask.header.nodeid));
        let made = self.fs().link(ino, parent, name(ask.name()?)?);
        self.nodes.changed(ino);
        self.nodes.changed(parent);
        self.tell(self.settled(made, parent), reply)
    }

    fn open(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::OPEN);
        let given: abi::OpenIn = ask.take()?;
        let (ino, flags) = (self.numbers.ino(ask.header.nodeid), open_flags(given.flags));
        self.fs().open(ino, flags)?;
        let open_flags = self.opened(ino, flags);
        reply.put(&abi::OpenOut { fh: self.handle(), open_flags, backing_id: 0 });
        Ok(())
    }

    fn create(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::CREATE);
        let given: abi::CreateIn = ask.take()?;
        let (fs, parent) = (self.fs(), self.numbers.ino(ask.header.nodeid));
        let name = name(ask.name()?)?;
        let new = self.new_inode(&ask.header, parent, FileKind::Regular, (given.mode, given.umask))?;
        let flags = open_flags(given.flags);
        let made = fs.create(parent, name, &new.begin()).and_then(|attr| {
            self.inherit(&new, attr).inspect_err(|_| self.unmake(parent, name, FileKind::Regular))
        });
        let made = self.settled(made, parent).and_then(|attr| {
            fs.open(attr.ino, flags)?;
            self.learn(attr.ino);
            Ok(attr)
        });
        self.nodes.changed(parent);
        self.put_opened(&made?, flags, reply);
        Ok(())
    }

    fn tmpfile(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::CREATE);
        let given: abi::CreateIn = ask.take()?;
        let (fs, parent) = (self.fs(), self.numbers.ino(ask.header.nodeid));
        let new = self.new_inode(&ask.header, parent, FileKind::Regular, (given.mode, given.umask))?;
        // The design opens it for its maker.
        let attr = fs.tmpfile(&new.begin())?;
        let ready = self.inherit(&new, attr).and_then(|attr| {
            self.nodes.learn_pinned(fs, attr.ino)?;
            Ok(attr)
        });
        let attr = ready.inspect_err(|_| fs.release(attr.ino))?;
        self.put_opened(&attr, open_flags(given.flags), reply);
        Ok(())
    }

    fn put_opened(&self, attr: &vfs::Attr, flags: vfs::OpenFlags, reply: &mut Reply) {
        let open_flags = self.opened(attr.ino, flags);
        reply.put(&self.entry(attr));
        reply.put(&abi::OpenOut { fh: self.handle(), open_flags, backing_id: 0 });
    }

    fn release(&self, ask: &mut Request<'_>) -> Result<()> {
        let _op = self.begin(ops::CLOSE);
        let given: abi::ReleaseIn = ask.take()?;
        let ino = self.numbers.ino(ask.header.nodeid);
        self.nodes.closed(ino, open_flags(given.flags));
        self.fs().release(ino);
        Ok(())
    }

    fn read(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::READ);
        let given: abi::ReadIn = ask.take()?;
        let ino = self.numbers.ino(ask.header.nodeid);
        // The kernel names the owner of its locks only for a read past its page cache (`fuse_direct_io`).
        if given.read_flags & abi::READ_LOCKOWNER == 0 {
            self.nodes.set_cached(ino);
        }
        let size = given.size.min(super::REQUEST_BYTES) as usize;
        let bytes = self.fs().read(ino, given.offset, reply.room(size), io_flags(given.flags))?;
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
        reply.shorten(bytes);
        if !open_flags(given.flags).contains(vfs::OpenFlags::NOATIME) {
            self.accessed(ino);
        }
        Ok(())
    }

    fn write(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<Answer> {
        let _op = self.begin(ops::WRITE);
        let given: abi::WriteIn = ask.take()?;
        let data = ask.data().get(..given.size as usize).ok_or(Errno::EIO)?;
        let (node, ino) = (ask.header.nodeid, self.numbers.ino(ask.header.nodeid));
        // As for a read.
        let is_direct = given.write_flags & abi::WRITE_LOCKOWNER != 0;
        if !is_direct {
            self.nodes.set_cached(ino);
        }
        if given.write_flags & abi::WRITE_KILL_SUIDGID != 0 {
            self.clear_set_id(&ask.header, ino)?;
        }
        self.drop_capabilities(ino)?;
        let written = match given.write_flags & abi::WRITE_CACHE != 0 {
            kept if self.is_shared() => self.put_beside(ino, given.offset, data, (given.flags, kept)),
            _ => self.put(ino, given.offset, data, io_flags(given.flags)),
        };
        self.nodes.changed(ino);
        let bytes = written?;
        self.written_bytes.fetch_add(bytes as u64, Relaxed);
        if self.cache == Cache::Pages && is_direct && bytes > 0 && self.nodes.may_be_cached(ino) {
            self.invalidator.answer(Written::new(node, given.offset, bytes, ask.header.unique));
            return Ok(Answer::Later(bytes as u32));
        }
        reply.put(&abi::WriteOut { size: bytes as u32, unused: 0 });
        Ok(Answer::Now)
    }

    /// Also of directories.
    fn fsync(&self, ask: &mut Request<'_>) -> Result<()> {
        let _op = self.begin(ops::FSYNC);
        let given: abi::FsyncIn = ask.take()?;
        threads::about_to_wait();
        self.sync(self.numbers.ino(ask.header.nodeid), given.flags & abi::FSYNC_DATA != 0)
    }

    fn opendir(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::OPEN);
        let given: abi::OpenIn = ask.take()?;
        let ino = self.numbers.ino(ask.header.nodeid);
        self.fs().open(ino, open_flags(given.flags))?;
        let open_flags = self.opened_directory(ino);
        reply.put(&abi::OpenOut { fh: self.handle(), open_flags, backing_id: 0 });
        Ok(())
    }

    fn readdir(&self, ask: &mut Request<'_>, reply: &mut Reply, with_attr: bool) -> Result<()> {
        let _op = self.begin(ops::READDIR);
        let given: abi::ReadIn = ask.take()?;
        let limit = given.size.min(super::REQUEST_BYTES) as usize;
        self.list(self.numbers.ino(ask.header.nodeid), given.offset, (limit, with_attr), reply)
    }

    fn releasedir(&self, ask: &Request<'_>) {
        let _op = self.begin(ops::CLOSE);
        self.fs().release(self.numbers.ino(ask.header.nodeid));
    }

    fn statfs(&self, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::STATFS);
        let space = self.fs().statfs()?;
        reply.put(&abi::StatfsOut {
            blocks: space.blocks,
            blocks_free: space.blocks_free,
            blocks_available: self.fs().blocks_available(&space),
            files: space.files,
            files_free: space.files_free,
            block_size: space.frsize,
            name_max: space.name_max,
            fragment_size: space.frsize,
            ..abi::StatfsOut::default()
        });
        Ok(())
    }

    fn setxattr(&self, ask: &mut Request<'_>) -> Result<()> {
        let _op = self.begin(ops::XATTR);
        let (size, flags, kill) = if self.long_setxattr() {
            let given: abi::SetxattrIn = ask.take()?;
            (given.size, given.flags, given.setxattr_flags & abi::SETXATTR_ACL_KILL_SGID != 0)
        } else {
            let given: abi::SetxattrShort = ask.take()?;
            (given.size, given.flags, false)
        };
        let mode = match flags {
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        let ino = self.numbers.ino(ask.header.nodeid);
        let name = attribute(ask.name()?, self.lists)?;
        let value = ask.data().get(..size as usize).ok_or(Errno::EIO)?;
        let done = match name == acl::ACCESS {
            true => self.set_list(ino, value, kill),
            false => self.fs().setxattr(ino, name, value, mode),
        };
        self.nodes.changed(ino);
        done
    }

    fn getxattr(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let given: abi::GetxattrIn = ask.take()?;
        let asked = ask.name()?;
        if ask.header.nodeid == convert::KERNEL_ROOT
            && let Some(value) = self.command(asked, ask.header.uid)
        {
            return sized(&value?, given.size, reply);
        }
        let _op = self.begin(ops::XATTR);
        let name = attribute(asked, self.lists)?;
        match self.fs().getxattr(self.numbers.ino(ask.header.nodeid), name) {
            // Otherwise ls(1) would ask for it again for every file.
            Err(Errno::ENODATA) if name == SELINUX => Err(Errno::EOPNOTSUPP),
            value => sized(&value?, given.size, reply),
        }
    }

    /// Whether a request asks for an attribute of the root that has the design do something.
    pub(super) fn is_command(mut ask: Request<'_>) -> bool {
        (ask.header.opcode, ask.header.nodeid) == (opcode::GETXATTR, convert::KERNEL_ROOT)
            && ask
                .take::<abi::GetxattrIn>()
                .and_then(|_| ask.name())
                .is_ok_and(|name| [SYNC_XATTR, TRIM_XATTR].iter().any(|command| command.as_bytes() == name))
    }

    /// What an attribute of the root stands for that is in no list; none for any other attribute.
    fn command(&self, name: &[u8], uid: u32) -> Option<Result<Vec<u8>>> {
        let name = std::str::from_utf8(name).ok()?;
        let may_command = uid == 0 || uid == rustix::process::geteuid().as_raw();
        match name {
            RESULT_XATTR => Some(Ok(self.result())),
            SYNC_XATTR => {
                let _op = self.begin(ops::SYNC);
                threads::about_to_wait();
                Some(self.sync_all().map(|()| Vec::new()))
            }
            TRIM_XATTR if may_command => {
                let _op = self.begin(ops::SYNC);
                threads::about_to_wait();
                Some(self.fs().trim().map(|bytes| bytes.to_string().into_bytes()))
            }
            name if may_command && name.starts_with(END_XATTR) => {
                threads::about_to_wait();
                let socket = Path::new(&name[END_XATTR.len()..]);
                Some(self.backing.tell_end(socket).map(|()| Vec::new()))
            }
            name if name == TRIM_XATTR || name.starts_with(END_XATTR) => Some(Err(Errno::EPERM)),
            name => name.strip_prefix(REMOUNT_XATTR).map(|words| match uid {
                0 if words.starts_with("rw") && self.backing.discards() => Err(Errno::EROFS),
                0 if self.remounted(words) => Ok(Vec::new()),
                0 => Err(Errno::EINVAL),
                _ => Err(Errno::EPERM),
            }),
        }
    }

    fn listxattr(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::XATTR);
        let given: abi::GetxattrIn = ask.take()?;
        let names = self.fs().listxattr(self.numbers.ino(ask.header.nodeid))?;
        let names = xattr::shown(&names, ask.header.uid == 0);
        let shown = names.split_inclusive(|byte| *byte == 0);
        let shown = shown.filter(|name| self.lists || !acl::is_list(&name[..name.len() - 1]));
        let shown: Vec<u8> = shown.flatten().copied().collect();
        sized(&shown, given.size, reply)
    }

    fn removexattr(&self, ask: &mut Request<'_>) -> Result<()> {
        let _op = self.begin(ops::XATTR);
        let ino = self.numbers.ino(ask.header.nodeid);
        let name = attribute(ask.name()?, self.lists)?;
        let done = self.fs().removexattr(ino, name);
        self.nodes.changed(ino);
        done
    }

    fn fallocate(&self, ask: &mut Request<'_>) -> Result<()> {
        let _op = self.begin(ops::FALLOCATE);
        let given: abi::FallocateIn = ask.take()?;
        let ino = self.numbers.ino(ask.header.nodeid);
        let mode = FallocateMode::from_bits(given.mode).ok_or(Errno::EOPNOTSUPP)?;
        self.clear_set_id(&ask.header, ino)?;
        let done = self.fs().fallocate(ino, mode, given.offset, given.len);
        self.nodes.changed(ino);
        done
    }

    fn lseek(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::SEEK);
        let given: abi::LseekIn = ask.take()?;
        let to = match given.whence {
            3 => SeekTo::Data,
            4 => SeekTo::Hole,
            _ => return Err(Errno::EINVAL),
        };
        let offset = u64::try_from(given.offset).map_err(|_| Errno::ENXIO)?;
        let offset = self.seek(self.numbers.ino(ask.header.nodeid), offset, to)?;
        reply.put(&abi::LseekOut { offset });
        Ok(())
    }

    fn copy_file_range(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::WRITE);
        /// More than the reply can say is not copied at once.
        const MOST: u64 = 1 << 30;
        let given: abi::CopyFileRangeIn = ask.take()?;
        let (from, to) = (self.numbers.ino(ask.header.nodeid), self.numbers.ino(given.to));
        self.clear_set_id(&ask.header, to)?;
        let bytes = self.copy((from, given.offset), (to, given.to_offset), given.len.min(MOST))?;
        reply.put(&abi::WriteOut { size: bytes as u32, unused: 0 });
        Ok(())
    }
}
