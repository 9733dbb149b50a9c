//! Files in memory behind the system calls: the least that a workload needs, each call at a price.
//!
//! Names are whole paths in a sorted map, so the entries of a directory are a range of it. A file that is
//! unlinked while it is open lives on until its last descriptor is closed. Calls that no workload makes
//! answer `ENOSYS`.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::{LockClass, Mutex, MutexGuard, Work};
use vfs::{
    Attr, DirEntry, Errno, FallocateMode, Fd, FileKind, Ino, OpenFlags, RenameFlags, Result, SetAttr, StatFs,
    Syscalls, Whence, XattrMode,
};

static STATE: LockClass = LockClass::new("memory.state");

/// The files, shared by all processes.
pub(crate) struct Memory(Mutex<State>);

/// The calls of one process.
pub(crate) struct Calls {
    memory: Arc<Memory>,
    open: Mutex<Vec<Option<Open>>>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<Vec<u8>, u64>,
    nodes: BTreeMap<u64, Node>,
    next: u64,
}

struct Node {
    directory: bool,
    data: Vec<u8>,
    holders: u32,
}

#[derive(Clone, Copy)]
struct Open {
    node: u64,
    offset: u64,
    flags: OpenFlags,
}

impl Memory {
    /// An empty root directory.
    pub(crate) fn new() -> Arc<Self> {
        let mut state = State::default();
        state.make(Vec::new(), true);
        Arc::new(Self(Mutex::new(&STATE, state)))
    }

    /// The calls of a new process.
    pub(crate) fn process(self: &Arc<Self>) -> Arc<dyn Syscalls> {
        Arc::new(Calls { memory: Arc::clone(self), open: Mutex::new(&STATE, Vec::new()) })
    }
}

impl State {
    fn make(&mut self, path: Vec<u8>, directory: bool) -> u64 {
        let node = self.next;
        self.next += 1;
        self.nodes.insert(node, Node { directory, data: Vec::new(), holders: 1 });
        self.names.insert(path, node);
        node
    }

    fn find(&self, path: &[u8]) -> Result<u64> {
        self.names.get(trim(path)).copied().ok_or(Errno::ENOENT)
    }

    /// The parent of a path must be a directory.
    fn has_parent(&self, path: &[u8]) -> Result<()> {
        let slash = path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::EINVAL)?;
        let parent = self.find(&path[..slash])?;
        if self.node(parent)?.directory { Ok(()) } else { Err(Errno::ENOTDIR) }
    }

    fn node(&self, node: u64) -> Result<&Node> {
        self.nodes.get(&node).ok_or(Errno::EBADF)
    }

    fn release(&mut self, node: u64) {
        if let Some(found) = self.nodes.get_mut(&node) {
            found.holders -= 1;
            if found.holders == 0 {
                self.nodes.remove(&node);
            }
        }
    }

    /// The names in the directory `path`, in order.
    fn entries(&self, path: &[u8]) -> Vec<(Vec<u8>, u64)> {
        let mut prefix = trim(path).to_vec();
        prefix.push(b'/');
        let inside = self.names.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        let own = inside.map(|(name, node)| (name[prefix.len()..].to_vec(), *node));
        own.filter(|(name, _)| !name.is_empty() && !name.contains(&b'/')).collect()
    }

    fn attr(&self, node: u64) -> Result<Attr> {
        let found = self.node(node)?;
        let kind = if found.directory { FileKind::Directory } else { FileKind::Regular };
        Ok(super::attr(Ino(node), kind, found.data.len() as u64))
    }
}

fn trim(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

impl Calls {
    fn state(&self) -> MutexGuard<'_, State> {
        sim::work(Work::SYSCALL, 1);
        self.memory.0.lock()
    }

    fn opened(&self, fd: Fd) -> Result<Open> {
        self.open.lock().get(fd.0 as usize).copied().flatten().ok_or(Errno::EBADF)
    }

    fn move_to(&self, fd: Fd, offset: u64) {
        if let Some(Some(open)) = self.open.lock().get_mut(fd.0 as usize) {
            open.offset = offset;
        }
    }

    fn read_at(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let open = self.opened(fd)?;
        if !open.flags.contains(OpenFlags::READ) {
            return Err(Errno::EBADF);
        }
        let read = {
            let state = self.state();
            let data = state.node(open.node)?.data.get(offset as usize..).unwrap_or_default();
            let len = data.len().min(buffer.len());
            buffer[..len].copy_from_slice(&data[..len]);
            len
        };
        sim::copy(read as u64);
        Ok(read)
    }

    fn write_at(&self, fd: Fd, data: &[u8], offset: u64) -> Result<usize> {
        let open = self.opened(fd)?;
        if !open.flags.contains(OpenFlags::WRITE) {
            return Err(Errno::EBADF);
        }
        {
            let mut state = self.state();
            let (start, end) = (offset as usize, offset as usize + data.len());
            let file = &mut state.nodes.get_mut(&open.node).ok_or(Errno::EBADF)?.data;
            if file.len() < end {
                file.resize(end, 0);
            }
            file[start..end].copy_from_slice(data);
        }
        sim::copy(data.len() as u64);
        Ok(data.len())
    }

    fn remove(&self, path: &[u8], directory: bool) -> Result<()> {
        let mut state = self.state();
        let node = state.find(path)?;
        match (state.node(node)?.directory, directory) {
            (true, false) => return Err(Errno::EISDIR),
            (false, true) => return Err(Errno::ENOTDIR),
            (true, true) if !state.entries(path).is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        state.names.remove(trim(path));
        state.release(node);
        Ok(())
    }

    fn resize(&self, node: u64, size: u64) -> Result<()> {
        let mut state = self.state();
        state.nodes.get_mut(&node).ok_or(Errno::EBADF)?.data.resize(size as usize, 0);
        Ok(())
    }
}

impl Syscalls for Calls {
    fn open(&self, path: &[u8], flags: OpenFlags, _mode: u32) -> Result<Fd> {
        let node = {
            let mut state = self.state();
            let node = match state.find(path) {
                Ok(node) => node,
                Err(Errno::ENOENT) if flags.contains(OpenFlags::CREATE) => {
                    state.has_parent(path)?;
                    state.make(path.to_vec(), false)
                }
                Err(errno) => return Err(errno),
            };
            let found = state.nodes.get_mut(&node).ok_or(Errno::EBADF)?;
            if found.directory != flags.contains(OpenFlags::DIRECTORY) {
                return Err(if found.directory { Errno::EISDIR } else { Errno::ENOTDIR });
            }
            found.holders += 1;
            node
        };
        let mut open = self.open.lock();
        let fd = open.iter().position(Option::is_none).unwrap_or(open.len());
        if fd == open.len() {
            open.push(None);
        }
        open[fd] = Some(Open { node, offset: 0, flags });
        Ok(Fd(fd as u32))
    }

    fn close(&self, fd: Fd) -> Result<()> {
        let open = self.open.lock().get_mut(fd.0 as usize).and_then(Option::take).ok_or(Errno::EBADF)?;
        self.state().release(open.node);
        Ok(())
    }

    fn read(&self, fd: Fd, buffer: &mut [u8]) -> Result<usize> {
        let offset = self.opened(fd)?.offset;
        let read = self.read_at(fd, buffer, offset)?;
        self.move_to(fd, offset + read as u64);
        Ok(read)
    }

    fn write(&self, fd: Fd, data: &[u8]) -> Result<usize> {
        let offset = self.opened(fd)?.offset;
        let written = self.write_at(fd, data, offset)?;
        self.move_to(fd, offset + written as u64);
        Ok(written)
    }

    fn pread(&self, fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read_at(fd, buffer, offset)
    }

    fn pwrite(&self, fd: Fd, data: &[u8], offset: u64) -> Result<usize> {
        self.write_at(fd, data, offset)
    }

    fn lseek(&self, fd: Fd, offset: i64, whence: Whence) -> Result<u64> {
        let open = self.opened(fd)?;
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => open.offset,
            Whence::End => self.state().node(open.node)?.data.len() as u64,
            Whence::Find(_) => return Err(Errno::ENXIO),
        };
        let offset = base.checked_add_signed(offset).ok_or(Errno::EINVAL)?;
        self.move_to(fd, offset);
        Ok(offset)
    }

    fn fsync(&self, fd: Fd) -> Result<()> {
        sim::work(Work::SYSCALL, 1);
        self.opened(fd).map(|_| ())
    }

    fn fdatasync(&self, fd: Fd) -> Result<()> {
        self.fsync(fd)
    }

    fn fstat(&self, fd: Fd) -> Result<Attr> {
        let open = self.opened(fd)?;
        self.state().attr(open.node)
    }

    fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        let open = self.opened(fd)?;
        self.resize(open.node, size)
    }

    fn getdents(&self, fd: Fd, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let open = self.opened(fd)?;
        let state = self.state();
        let path = state.names.iter().find(|(_, node)| **node == open.node).map(|(name, _)| name.clone());
        for (next, (name, node)) in state.entries(&path.ok_or(Errno::ENOENT)?).iter().enumerate() {
            let kind = if state.node(*node)?.directory { FileKind::Directory } else { FileKind::Regular };
            if !sink(DirEntry { ino: Ino(*node), kind: Some(kind), name, next: next as u64 + 1 }) {
                break;
            }
        }
        Ok(())
    }

    fn stat(&self, path: &[u8]) -> Result<Attr> {
        let state = self.state();
        state.attr(state.find(path)?)
    }

    fn lstat(&self, path: &[u8]) -> Result<Attr> {
        self.stat(path)
    }

    fn mkdir(&self, path: &[u8], _mode: u32) -> Result<()> {
        let mut state = self.state();
        if state.find(path).is_ok() {
            return Err(Errno::EEXIST);
        }
        state.has_parent(path)?;
        state.make(path.to_vec(), true);
        Ok(())
    }

    fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.remove(path, true)
    }

    fn unlink(&self, path: &[u8]) -> Result<()> {
        self.remove(path, false)
    }

    fn truncate(&self, path: &[u8], size: u64) -> Result<()> {
        let node = self.state().find(path)?;
        self.resize(node, size)
    }

    fn umask(&self, _mask: u32) -> u32 {
        0o022
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn dup(&self, _fd: Fd) -> Result<Fd> {
        Err(Errno::ENOSYS)
    }

    fn fallocate(&self, _fd: Fd, _mode: FallocateMode, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn mknod(&self, _path: &[u8], _kind: FileKind, _mode: u32, _rdev: u64) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn rename(&self, _from: &[u8], _to: &[u8], _flags: RenameFlags) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn link(&self, _from: &[u8], _to: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn symlink(&self, _target: &[u8], _path: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn readlink(&self, _path: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }

    fn setattr(&self, _path: &[u8], _set: &SetAttr) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn getxattr(&self, _path: &[u8], _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }

    fn setxattr(&self, _path: &[u8], _name: &[u8], _value: &[u8], _mode: XattrMode) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn listxattr(&self, _path: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::ENOSYS)
    }

    fn removexattr(&self, _path: &[u8], _name: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn chdir(&self, _path: &[u8]) -> Result<()> {
        Err(Errno::ENOSYS)
    }

    fn statfs(&self, _path: &[u8]) -> Result<StatFs> {
        Err(Errno::ENOSYS)
    }
}
