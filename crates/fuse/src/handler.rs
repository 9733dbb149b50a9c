//! The kernel's requests as calls of a [`FileSystem`].

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use fuser::{FileAttr, FopenFlags, INodeNo, InitFlags, KernelConfig, ReplyEntry, Request};
use rustix::mount::MountFlags;
use sim::ledger::OpGuard;
use sim::{Attached, Handle, Op, TaskSpec};
use vfs::credentials::Subject;
use vfs::{
    AccessTimes, Attr, Credentials, Errno, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, Owner,
    Result, SeekTo, SetAttr,
};

use crate::convert::{self, Numbers, generation};
use crate::invalidate::{Invalidator, PLACES};
use crate::nodes::Nodes;
use crate::options::{Backing, Cache, Options};
use crate::times::{Times, is_stale};

mod requests;

/// How long the kernel may believe what it was told of names and attributes: nothing changes but through it.
const FOR_LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// Largest read or write of one request.
const REQUEST_BYTES: u32 = 1 << 20;

/// Longest name.
const NAME_MAX: usize = 255;

const SETGID: u32 = 0o2000;
const SET_ID: u32 = 0o6000;

/// What is asked of the kernel, as far as it has it.
const WISHES: [InitFlags; 8] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // In `Cache::Pages` only beside `invalidate.rs`.
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    // Without it the kernel asks for the capabilities of a file before each write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
];

/// A file system as the kernel sees it.
pub(crate) struct Handler {
    fs: Arc<dyn FileSystem>,
    numbers: Numbers,
    nodes: Nodes,
    cache: Cache,
    times: Times,
    run: Option<Handle>,
    /// Flags of every write.
    always: IoFlags,
    /// A change of names waits for the medium.
    names_wait: bool,
    result_so_far: Arc<dyn Fn() -> Vec<u8> + Send + Sync>,
    backing: Arc<dyn Backing>,
    invalidator: Invalidator,
}

thread_local! {
    /// The run to which this thread of fuser belongs.
    static TASK: RefCell<Option<Attached>> = const { RefCell::new(None) };
    /// What is read on its way to the kernel.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Handler {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, options: &Options, invalidator: Invalidator) -> Self {
        let numbers = Numbers::new(fs.root());
        Self {
            fs,
            numbers,
            nodes: Nodes::new(),
            cache: options.cache,
            times: Times::new(options),
            run: Handle::current(),
            always: if options.synchronous { IoFlags::SYNC } else { IoFlags::empty() },
            names_wait: options.synchronous || options.flags.contains(MountFlags::DIRSYNC),
            result_so_far: Arc::clone(&options.result_so_far),
            backing: Arc::clone(&options.backing),
            invalidator,
        }
    }

    /// The design, for a thread that has joined the run: each request begins with [`Self::begin`] or [`Self::join_run`].
    fn fs(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// Makes this thread a task of the run, if it is none yet.
    fn join_run(&self) {
        if let Some(run) = &self.run {
            TASK.with_borrow_mut(|task| {
                task.get_or_insert_with(|| run.attach(TaskSpec::named("fuse").background()));
            });
        }
    }

    /// Begins a request, which the ledger books as `op`.
    fn begin(&self, op: Op) -> OpGuard {
        self.join_run();
        sim::op(op)
    }

    /// What the file system has done so far.
    fn result(&self) -> Vec<u8> {
        self.join_run();
        (self.result_so_far)()
    }

    /// Asks for what the kernel offers.
    fn negotiate(config: &mut KernelConfig) {
        for wish in WISHES {
            // What it lacks it does without.
            let _ = config.add_capabilities(wish);
        }
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_readahead(REQUEST_BYTES);
        let _ = config.set_max_background(PLACES);
    }

    fn attr(&self, attr: &Attr) -> FileAttr {
        self.numbers.attr(attr)
    }

    /// How long the kernel may believe attributes. It does not hear of set-id bits that a direct write clears.
    fn valid_for(&self, attr: &Attr) -> Duration {
        let may_be_cleared = self.cache == Cache::Direct && attr.perm & SET_ID != 0;
        if may_be_cleared { Duration::ZERO } else { FOR_LONG }
    }

    /// Tells the kernel of an inode that a name leads to.
    fn tell(&self, found: Result<Attr>, reply: ReplyEntry) {
        let known = found.and_then(|attr| self.nodes.learn(self.fs(), attr.ino).map(|()| attr));
        match known {
            Ok(attr) => reply.entry(&self.valid_for(&attr), &self.attr(&attr), generation(&attr)),
            Err(errno) => reply.error(convert::errno(errno)),
        }
    }

    /// What a new inode starts with: in a set-group-id directory the directory's group, and a directory the bit as well. The kernel
    /// has applied the umask, and taken the bit from files whose maker is not in the group.
    fn new_inode(&self, request: &Request, parent: Ino, kind: FileKind, mode: u32) -> Result<NewInode> {
        let directory = self.fs().getattr(parent)?;
        let mut new =
            NewInode { perm: mode & 0o7777, owner: Owner { uid: request.uid(), gid: request.gid() } };
        if directory.perm & SETGID != 0 {
            new.owner.gid = directory.owner.gid;
            if kind == FileKind::Directory {
                new.perm |= SETGID;
            }
        }
        Ok(new)
    }

    /// A file was opened: how the kernel is to treat it.
    fn opened(&self, ino: Ino, flags: OpenFlags) -> FopenFlags {
        self.nodes.opened(ino, flags);
        match self.cache {
            Cache::Direct => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            // The first read after a change must be seen, for it moves the access time.
            Cache::Pages if flags.contains(OpenFlags::READ) && self.wants_reads(ino) => FopenFlags::empty(),
            Cache::Pages => FopenFlags::FOPEN_KEEP_CACHE,
        }
    }

    /// A directory was opened. The kernel keeps what it lists until a name in it changes, which it sees itself; the first
    /// listing after a change must be seen, for it moves the access time.
    fn opened_directory(&self, ino: Ino) -> FopenFlags {
        match self.cache {
            Cache::Direct => FopenFlags::empty(),
            Cache::Pages if self.wants(self.times.policy(true), ino) => FopenFlags::FOPEN_CACHE_DIR,
            Cache::Pages => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
        }
    }

    fn wants_reads(&self, ino: Ino) -> bool {
        self.wants(self.times.policy(false), ino)
    }

    /// Whether reading again would move the access time.
    fn wants(&self, policy: AccessTimes, ino: Ino) -> bool {
        match policy {
            AccessTimes::Never => false,
            AccessTimes::Strict => true,
            AccessTimes::Relative => !self.nodes.is_accessed(ino),
        }
    }

    /// Contents of a file or a link were read.
    fn accessed(&self, ino: Ino) {
        self.accessed_by(self.times.policy(false), ino);
    }

    /// A directory was read.
    fn listed(&self, ino: Ino) {
        self.accessed_by(self.times.policy(true), ino);
    }

    fn accessed_by(&self, policy: AccessTimes, ino: Ino) {
        let fs = self.fs();
        match policy {
            AccessTimes::Never => return,
            AccessTimes::Strict => {}
            AccessTimes::Relative => {
                let first = !self.nodes.set_accessed(ino);
                if !first || !fs.getattr(ino).is_ok_and(|attr| is_stale(&attr)) {
                    return;
                }
            }
        }
        // It need not be exact: a read does not fail because its time could not be kept.
        let _ = fs.accessed(ino);
    }

    /// The entries of a directory after `cursor`, at most `limit`; with their attributes, if they are asked for or the directory
    /// does not know a kind.
    fn entries(&self, ino: Ino, cursor: u64, limit: usize, with_attr: bool) -> Result<Vec<Entry>> {
        let fs = self.fs();
        let mut found = Vec::new();
        fs.readdir(ino, cursor, &mut |entry| {
            let name = entry.name.to_vec();
            found.push(Entry { ino: entry.ino, kind: entry.kind, attr: None, next: entry.next, name });
            found.len() < limit
        })?;
        for entry in found.iter_mut().filter(|entry| with_attr || entry.kind.is_none()) {
            match fs.getattr(entry.ino) {
                Ok(attr) => (entry.kind, entry.attr) = (Some(attr.kind), Some(attr)),
                Err(Errno::ENOENT) => entry.kind = None,
                Err(errno) => return Err(errno),
            }
        }
        Ok(found)
    }

    /// Gives `add` the entries after `cursor` until it says that the reply is full. An error that comes after some were given
    /// is left for the next request: the kernel is to hear of what it was given.
    fn list(
        &self,
        ino: INodeNo,
        cursor: u64,
        with_attr: bool,
        mut add: impl FnMut(&Entry, FileKind) -> bool,
    ) -> Result<()> {
        /// What a reply of 4 KiB holds, about.
        const AT_ONCE: usize = 64;
        let ino = self.numbers.ino(ino);
        let mut at = cursor;
        loop {
            let entries = match self.entries(ino, at, AT_ONCE, with_attr) {
                Ok(entries) => entries,
                Err(errno) if at == cursor => return Err(errno),
                Err(_) => return Ok(()),
            };
            for entry in &entries {
                if let Some(kind) = entry.kind
                    && add(entry, kind)
                {
                    self.listed(ino);
                    return Ok(());
                }
                at = entry.next;
            }
            if entries.len() < AT_ONCE {
                self.listed(ino);
                return Ok(());
            }
        }
    }

    /// Adds to a change of attributes that a new owner clears set-id bits, as new contents do unless root writes them. A change of
    /// nothing stands for contents that are about to change: the kernel sends one to hear what is left of the mode.
    fn clearing_set_id(&self, request: &Request, ino: Ino, set: SetAttr) -> Result<SetAttr> {
        let chown = set.uid.is_some() || set.gid.is_some();
        let contents = set.size.is_some() || set == SetAttr::default();
        if set.perm.is_some() || !chown && (!contents || request.uid() == 0) {
            return Ok(set);
        }
        let attr = self.fs().getattr(ino)?;
        let subject = Subject { kind: attr.kind, perm: attr.perm, owner: attr.owner };
        let who = Credentials::new(request.uid(), request.gid(), &[]);
        let perm = if chown { who.perm_after_chown(&subject) } else { who.perm_after_write(&subject) };
        Ok(SetAttr { perm: (perm != attr.perm).then_some(perm), ..set })
    }

    /// Clears the set-id bits of a file whose contents a user other than root is about to change.
    fn clear_set_id(&self, request: &Request, ino: Ino) -> Result<()> {
        match self.clearing_set_id(request, ino, SetAttr::default())? {
            SetAttr { perm: None, .. } => Ok(()),
            set => self.fs().setattr(ino, &set).map(drop),
        }
    }

    /// Takes the capabilities of a program that is about to be written. Of writes through its cache the kernel sees to that.
    fn drop_capabilities(&self, ino: Ino) -> Result<()> {
        const NAME: &[u8] = b"security.capability";
        if self.cache == Cache::Pages || self.fs().getxattr(ino, NAME).is_err() {
            return Ok(());
        }
        self.fs().removexattr(ino, NAME)
    }

    /// Copies between two files, in pieces; returns the bytes copied.
    fn copy(&self, (from, from_offset): (Ino, u64), (to, to_offset): (Ino, u64), len: u64) -> Result<u64> {
        let fs = self.fs();
        let mut buffer = vec![0; len.min(u64::from(REQUEST_BYTES)) as usize];
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(buffer.len() as u64) as usize;
            let read = fs.read(from, from_offset + done, &mut buffer[..piece], IoFlags::empty());
            let copied = read.and_then(|read| match read {
                0 => Ok(0),
                read => self.put(to, to_offset + done, &buffer[..read], IoFlags::empty()),
            });
            match copied {
                Ok(0) => break,
                Ok(bytes) => done += bytes as u64,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        self.accessed(from);
        self.nodes.changed(to);
        Ok(done)
    }

    /// Writes; a synchronous write waits for the medium as a sync does.
    fn put(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<usize> {
        let flags = flags | self.always;
        let written = self.fs().write(ino, offset, data, flags)?;
        self.backing.fence();
        if flags.intersects(IoFlags::SYNC | IoFlags::DSYNC) {
            self.backing.sync()?;
        }
        Ok(written.bytes)
    }

    /// Finds data or a hole. The kernel does not write before it asks, so the design may not know what a program has stored through
    /// a shared map: where there may be such a map, nothing is a hole, as POSIX allows.
    fn seek(&self, ino: Ino, offset: u64, to: SeekTo) -> Result<u64> {
        if !self.nodes.may_be_mapped(ino) {
            return self.fs().seek(ino, offset, to);
        }
        to.without_holes(self.fs().getattr(ino)?.size, offset)
    }

    /// Makes an inode durable, and the medium with it.
    fn sync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.fs().fsync(ino, data_only)?;
        self.backing.sync()
    }

    /// Names have changed: with `dirsync` or `sync` that waits for the medium.
    fn settled<T>(&self, changed: Result<T>) -> Result<T> {
        let changed = changed?;
        if self.names_wait {
            self.backing.sync()?;
        }
        Ok(changed)
    }

    /// Makes everything durable, and the medium with it.
    fn sync_all(&self) -> Result<()> {
        self.fs().sync()?;
        self.backing.sync()
    }

    /// The kernel has gone.
    fn end(&self) {
        self.nodes.forget_all(&*self.fs);
    }
}

/// An entry of a directory.
struct Entry {
    ino: Ino,
    /// None when it has gone since it was listed.
    kind: Option<FileKind>,
    attr: Option<Attr>,
    next: u64,
    name: Vec<u8>,
}

impl Entry {
    /// `.` and `..` are not lookups.
    fn is_dots(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// A name that a design accepts.
fn name(name: &OsStr) -> Result<&[u8]> {
    match name.as_bytes() {
        [] => Err(Errno::ENOENT),
        long if long.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        name => Ok(name),
    }
}
