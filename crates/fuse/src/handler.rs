//! The kernel's requests as calls of a [`FileSystem`].

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::mount::MountFlags;
use sim::ledger::OpGuard;
use sim::{Attached, Handle, Op, TaskSpec};
use vfs::credentials::Subject;
use vfs::{
    AccessTimes, Attr, Credentials, Errno, FileKind, FileSystem, Ino, IoFlags, NewInode, OpenFlags, Owner,
    Result, SeekTo, SetAttr,
};

use crate::acl::{self, Acl};
use crate::convert::{Numbers, UNKNOWN_KIND, io_flags, kind_bits, open_flags};
use crate::invalidate::Invalidator;
use crate::nodes::Nodes;
use crate::options::{Backing, Cache, Moved, NAMES_WAIT, Options};
use crate::panics::{self, Panics};
use crate::record::{Recorder, Seen};
use crate::threads;
use crate::times::{Times, is_stale};
use crate::wire::abi::{self, InHeader, init, opcode};
use crate::wire::{Device, Reply, Request};

mod flags;
mod requests;

/// How long the kernel may cache names and attributes: nothing changes but through it.
const FOR_LONG_SECS: u64 = 24 * 60 * 60;

/// Largest read or write of one request.
pub(crate) const REQUEST_BYTES: u32 = 1 << 20;

/// Longest name.
const NAME_MAX: usize = 255;

const SETGID: u32 = 0o2000;
const SET_ID: u32 = 0o6000;

/// What is asked of the kernel, as far as it has it.
const WISHES: u64 = init::ASYNC_READ
    | init::BIG_WRITES
    | init::MAX_PAGES
    | init::INIT_EXT
    | init::SETXATTR_EXT
    // Handles of files that it has forgotten (name_to_handle_at, NFS) lead back to us.
    | init::EXPORT_SUPPORT
    | init::PARALLEL_DIROPS
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::CACHE_SYMLINKS
    // In `Cache::Pages` only beside `invalidate.rs`.
    | init::ASYNC_DIO
    | init::DIRECT_IO_ALLOW_MMAP
    | init::EXPLICIT_INVAL_DATA
    // Without it the kernel asks for the capabilities of a file before each write.
    | init::HANDLE_KILLPRIV_V2;

/// What becomes of the answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// It is sent.
    Now,
    /// Another thread sends it: so many bytes were written.
    Later(u32),
    /// The kernel expects none.
    Never,
    /// It is sent, and no request follows.
    End,
}

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
    /// A change of names is durable when it returns. A remount changes it.
    names_wait: AtomicBool,
    result_so_far: Arc<dyn Fn(Moved) -> Vec<u8> + Send + Sync>,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    backing: Arc<dyn Backing>,
    invalidator: Invalidator,
    /// Access-control lists are kept, and the kernel checks them.
    lists: bool,
    /// The kernel sends the long form of `SETXATTR`.
    long_setxattr: AtomicBool,
    panics: Panics,
    recorder: Option<Arc<Recorder>>,
}

/// What the kernel may have of the contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    /// Pages as they were when it read them.
    Pages,
    /// Pages to which programs may have stored what it has not written yet.
    PagesAndStores,
}

/// What a new inode is to be.
struct Creation {
    new: NewInode,
    /// The lists that it inherits: of accesses, and of what is made in it.
    access: Option<Acl>,
    default: Option<Acl>,
}

impl Creation {
    /// Until a list is in its place, the group has no access: the list may give it less than the mode says.
    fn begin(&self) -> NewInode {
        let hidden = if self.access.is_some() { 0o077 } else { 0 };
        NewInode { perm: self.new.perm & !hidden, ..self.new }
    }
}

thread_local! {
    /// The run to which this thread belongs.
    static TASK: RefCell<Option<Attached>> = const { RefCell::new(None) };
}

impl Handler {
    pub(crate) fn new(fs: Arc<dyn FileSystem>, options: &Options, invalidator: Invalidator) -> Self {
        let numbers = Numbers::new(fs.root());
        let synchronous = options.flags.contains(MountFlags::SYNCHRONOUS);
        Self {
            fs,
            numbers,
            nodes: Nodes::new(),
            cache: options.cache,
            times: Times::new(options),
            run: Handle::current(),
            always: if synchronous { IoFlags::SYNC } else { IoFlags::empty() },
            names_wait: AtomicBool::new(synchronous || options.flags.contains(MountFlags::DIRSYNC)),
            result_so_far: Arc::clone(&options.result_so_far),
            read_bytes: AtomicU64::new(0),
            written_bytes: AtomicU64::new(0),
            backing: Arc::clone(&options.backing),
            invalidator,
            lists: options.lists,
            long_setxattr: AtomicBool::new(false),
            panics: Panics::default(),
            recorder: options.recorder.clone(),
        }
    }

    /// Answers the first request. False when this is none that we understand.
    pub(crate) fn negotiate(
        &self,
        bytes: &[u8],
        reply: &mut Reply,
        device: &Device,
    ) -> std::io::Result<bool> {
        let Some(mut request) = Request::parse(bytes) else { return Ok(false) };
        let unique = request.header.unique;
        reply.clear();
        match self.init(&mut request, reply) {
            Ok(()) => reply.send(device, unique, 0).map(|()| true),
            Err(errno) => reply.send(device, unique, -errno.number()).map(|()| false),
        }
    }

    /// Serves a request. False when no other follows.
    pub(crate) fn serve(&self, bytes: &[u8], reply: &mut Reply, device: &Device) -> bool {
        let Some(request) = Request::parse(bytes) else { return false };
        reply.clear();
        let (unique, number) = (request.header.unique, request.header.opcode);
        if panics::is_change(number) && self.backing.discards() {
            return Self::answer(Err(Errno::EROFS), unique, reply, device);
        }
        if let Some(done) = panics::caught(|| self.recorded(request, reply)) {
            return Self::answer(done, unique, reply, device);
        }
        let unanswered = [opcode::FORGET, opcode::BATCH_FORGET].contains(&number);
        let done = if unanswered { Ok(Answer::Never) } else { Err(Errno::EIO) };
        Self::answer(done, unique, reply, device);
        let number = if Self::is_command(request) { opcode::FSYNC } else { number };
        self.panics.tell(number, &*self.backing);
        true
    }

    /// Does what a request asks for, and records it if there is a recorder.
    fn recorded(&self, request: Request<'_>, reply: &mut Reply) -> Result<Answer> {
        let Some(recorder) = &self.recorder else { return self.dispatch(request, reply) };
        let seen = Seen::of(request, recorder.now_ns()).filter(|_| !Self::is_command(request));
        let done = self.dispatch(request, reply);
        if let Some(mut seen) = seen {
            let (error, later) = match done {
                Err(errno) => (-errno.number(), None),
                Ok(Answer::Later(bytes)) => (0, Some(bytes)),
                Ok(_) => (0, None),
            };
            seen.done(error, later, reply, recorder.now_ns());
            if let Some(target) =
                seen.is_found_link().and_then(|node| self.fs().readlink(self.numbers.ino(node)).ok())
            {
                seen.set_target(&target);
            }
            recorder.seen(seen);
        }
        done
    }

    /// The handle of a file that is opened. It needs none of its own, because what a request depends on comes with it; a recorder
    /// gives it one to tell descriptors apart.
    fn handle(&self) -> u64 {
        self.recorder.as_ref().map_or(0, |recorder| recorder.handle())
    }

    /// Sends what has come of a request. False when no other follows.
    fn answer(done: Result<Answer>, unique: u64, reply: &mut Reply, device: &Device) -> bool {
        let error = match done {
            Ok(Answer::Later(_) | Answer::Never) => return true,
            Ok(_) => 0,
            Err(errno) => -errno.number(),
        };
        // The program that made the request may have gone meanwhile.
        let _ = reply.send(device, unique, error);
        done != Ok(Answer::End)
    }

    fn long_setxattr(&self) -> bool {
        self.long_setxattr.load(Relaxed)
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
        (self.result_so_far)(Moved {
            read: self.read_bytes.load(Relaxed),
            written: self.written_bytes.load(Relaxed),
        })
    }

    /// Whether names and attributes change beside the kernel.
    fn is_shared(&self) -> bool {
        self.cache == Cache::Shared
    }

    /// How long the kernel may cache attributes. It does not hear of set-id bits that a direct write clears.
    fn valid_secs(&self, attr: &Attr) -> u64 {
        let may_be_cleared = self.cache == Cache::Direct && attr.perm & SET_ID != 0;
        if may_be_cleared || self.is_shared() { 0 } else { FOR_LONG_SECS }
    }

    fn put_attr(&self, attr: &Attr, reply: &mut Reply) {
        let valid = self.valid_secs(attr);
        reply.put(&abi::AttrOut { valid, valid_nanos: 0, unused: 0, attr: self.numbers.attr(attr) });
    }

    fn entry(&self, attr: &Attr) -> abi::EntryOut {
        let valid = self.valid_secs(attr);
        abi::EntryOut {
            nodeid: self.numbers.node(attr.ino),
            generation: u64::from(attr.generation),
            entry_valid: valid,
            attr_valid: valid,
            attr: self.numbers.attr(attr),
            ..abi::EntryOut::default()
        }
    }

    /// Tells the kernel of an inode that a name leads to.
    fn tell(&self, found: Result<Attr>, reply: &mut Reply) -> Result<()> {
        let attr = found?;
        self.learn(attr.ino);
        reply.put(&self.entry(&attr));
        Ok(())
    }

    /// The kernel is about to learn of an inode to which the design has been asked for a name.
    fn learn(&self, ino: Ino) {
        if self.is_shared() { self.nodes.learn_opened(self.fs(), ino) } else { self.nodes.learn(ino) }
    }

    /// Tells it of an inode of which it has the number: from a handle, which may be old.
    fn tell_number(&self, ino: Ino, reply: &mut Reply) -> Result<()> {
        self.nodes.learn_pinned(self.fs(), ino)?;
        let attr = self.fs().getattr(ino).inspect_err(|_| self.nodes.forget(self.fs(), ino, 1))?;
        reply.put(&self.entry(&attr));
        Ok(())
    }

    /// A name is about to be removed or replaced: what it leads to stays usable as long as the kernel knows it.
    fn pin(&self, parent: Ino, name: &[u8]) -> Result<()> {
        if self.is_shared() {
            return Ok(()); // all that the kernel knows is
        }
        match self.fs().lookup(parent, name) {
            Ok(attr) => self.nodes.pin(self.fs(), attr.ino),
            // The call says so itself, or there is nothing to replace.
            Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// The directory that a directory is in.
    fn parent(&self, ino: Ino) -> Result<Ino> {
        let mut parent = Err(Errno::ENOENT);
        self.fs().readdir(ino, 0, &mut |entry| {
            if entry.name == b".." {
                parent = Ok(entry.ino);
            }
            parent.is_err()
        })?;
        parent
    }

    /// What a new inode starts with: in a set-group-id directory the directory's group, and a directory the bit as well. The kernel
    /// has taken the bit from files whose maker is not in the group. It has applied the umask, unless there are access-control
    /// lists: a default list of the directory stands in its place.
    fn new_inode(
        &self,
        from: &InHeader,
        parent: Ino,
        kind: FileKind,
        (mode, umask): (u32, u32),
    ) -> Result<Creation> {
        let directory = self.fs().getattr(parent)?;
        let mut new = NewInode { perm: mode & 0o7777, owner: Owner { uid: from.uid, gid: from.gid } };
        if directory.perm & SETGID != 0 {
            new.owner.gid = directory.owner.gid;
            if kind == FileKind::Directory {
                new.perm |= SETGID;
            }
        }
        if !self.lists || kind == FileKind::Symlink {
            return Ok(Creation { new, access: None, default: None });
        }
        let Some(default) = self.list_of(parent, acl::DEFAULT)? else {
            new.perm &= !umask;
            return Ok(Creation { new, access: None, default: None });
        };
        let access = default.clone().inherited(new.perm);
        new.perm = new.perm & !0o777 | access.perm();
        let access = Some(access).filter(|access| !access.is_minimal());
        Ok(Creation { new, access, default: Some(default).filter(|_| kind == FileKind::Directory) })
    }

    /// Gives a new inode its lists, and then its mode.
    fn inherit(&self, creation: &Creation, attr: Attr) -> Result<Attr> {
        let fs = self.fs();
        if let Some(default) = &creation.default {
            fs.setxattr(attr.ino, acl::DEFAULT, &default.bytes(), vfs::XattrMode::Set)?;
        }
        let Some(access) = &creation.access else { return Ok(attr) };
        fs.setxattr(attr.ino, acl::ACCESS, &access.bytes(), vfs::XattrMode::Set)?;
        fs.setattr(attr.ino, &SetAttr { perm: Some(creation.new.perm), ..SetAttr::default() })
    }

    /// Takes back a name whose inode could not have what it inherits: the call fails, and has changed nothing.
    fn unmake(&self, parent: Ino, name: &[u8], kind: FileKind) {
        // What is refused here is left to be seen.
        let _ = match kind {
            FileKind::Directory => self.fs().rmdir(parent, name),
            _ => self.fs().unlink(parent, name),
        };
    }

    /// A list of an inode.
    fn list_of(&self, ino: Ino, name: &[u8]) -> Result<Option<Acl>> {
        match self.fs().getxattr(ino, name) {
            Ok(bytes) => Acl::parse(&bytes).map(Some).map_err(|_| Errno::EUCLEAN),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The mode has changed to `perm`, and the list with it.
    fn list_follows(&self, ino: Ino, perm: u32) -> Result<()> {
        if !self.lists {
            return Ok(());
        }
        let Some(list) = self.list_of(ino, acl::ACCESS)? else { return Ok(()) };
        self.fs().setxattr(ino, acl::ACCESS, &list.with_perm(perm).bytes(), vfs::XattrMode::Set)
    }

    /// Sets the list of accesses, and the mode with it. One that says no more than the mode is not kept.
    fn set_list(&self, ino: Ino, value: &[u8], kill_setgid: bool) -> Result<()> {
        let (fs, list) = (self.fs(), Acl::parse(value)?);
        if list.is_minimal() {
            match fs.removexattr(ino, acl::ACCESS) {
                Ok(()) | Err(Errno::ENODATA) => {}
                Err(errno) => return Err(errno),
            }
        } else {
            fs.setxattr(ino, acl::ACCESS, &list.bytes(), vfs::XattrMode::Set)?;
        }
        let taken = if kill_setgid { 0o777 | SETGID } else { 0o777 };
        let perm = fs.getattr(ino)?.perm & !taken | list.perm();
        fs.setattr(ino, &SetAttr { perm: Some(perm), ..SetAttr::default() }).map(drop)
    }

    /// A file was opened: how the kernel is to treat it.
    fn opened(&self, ino: Ino, flags: OpenFlags) -> u32 {
        self.nodes.opened(ino, flags);
        match self.cache {
            Cache::Direct | Cache::Shared => abi::open::DIRECT_IO | abi::open::PARALLEL_DIRECT_WRITES,
            // The first read after a change must be seen, for it moves the access time.
            Cache::Pages if flags.contains(OpenFlags::READ) && self.wants_reads(ino) => 0,
            Cache::Pages => abi::open::KEEP_CACHE,
        }
    }

    /// A directory was opened. The kernel keeps what it lists until a name in it changes, which it sees itself; the first
    /// listing after a change must be seen, for it moves the access time.
    fn opened_directory(&self, ino: Ino) -> u32 {
        match self.cache {
            Cache::Direct | Cache::Shared => 0,
            Cache::Pages if self.wants(self.times.policy(true), ino) => abi::open::CACHE_DIR,
            Cache::Pages => abi::open::CACHE_DIR | abi::open::KEEP_CACHE,
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

    /// Fills `entries` with those of a directory after `cursor`, at most `limit`; with their attributes, if they are asked for or
    /// the directory does not know a kind.
    fn entries(
        &self,
        ino: Ino,
        cursor: u64,
        limit: usize,
        with_attr: bool,
        entries: &mut Entries,
    ) -> Result<()> {
        let fs = self.fs();
        entries.clear();
        fs.readdir(ino, cursor, &mut |entry| {
            entries.add(entry.ino, entry.kind, entry.next, entry.name);
            entries.all.len() < limit
        })?;
        for entry in entries.all.iter_mut().filter(|entry| with_attr || entry.kind.is_none()) {
            match fs.getattr(entry.ino) {
                Ok(attr) => (entry.kind, entry.attr) = (Some(attr.kind), Some(attr)),
                Err(Errno::ENOENT) => entry.has_gone = true,
                // A damaged inode is told of when it is used, and does not hide the names beside it.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Lists a directory after `cursor`, as much as goes into a reply of `limit` bytes. An error that comes after some entries
    /// were given is left for the next request: the kernel is to hear of what it was given.
    fn list(
        &self,
        ino: Ino,
        cursor: u64,
        (limit, with_attr): (usize, bool),
        reply: &mut Reply,
    ) -> Result<()> {
        /// Bytes of an entry with a name of middle length.
        const MIDDLE: usize = 40;
        let one = if with_attr { MIDDLE + size_of::<abi::EntryOut>() } else { MIDDLE };
        let mut entries = Entries::default();
        let mut at = cursor;
        loop {
            let at_once = (limit.saturating_sub(reply.len()) / one).max(1);
            match self.entries(ino, at, at_once, with_attr, &mut entries) {
                Err(errno) if at == cursor => return Err(errno),
                Err(_) => return Ok(()),
                Ok(()) => {}
            }
            for entry in &entries.all {
                if !self.list_one(entry, entries.name(entry), (limit, with_attr), reply) {
                    self.listed(ino);
                    return Ok(());
                }
                at = entry.next;
            }
            if entries.all.len() < at_once {
                self.listed(ino);
                return Ok(());
            }
        }
    }

    /// Adds an entry to a reply, unless it is full. One that has gone since it was listed is left out.
    fn list_one(
        &self,
        entry: &Entry,
        name: &[u8],
        (limit, with_attr): (usize, bool),
        reply: &mut Reply,
    ) -> bool {
        if entry.has_gone {
            return true;
        }
        let dirent = (self.numbers.node(entry.ino), entry.next, entry.kind.map_or(UNKNOWN_KIND, kind_bits));
        if !with_attr {
            return reply.put_entry(limit, None, dirent, name);
        }
        let Some(attr) = &entry.attr else {
            // Without a number the kernel takes the name alone, and looks it up when it is used (`fuse_direntplus_link`).
            return reply.put_entry(limit, Some(&abi::EntryOut::default()), dirent, name);
        };
        let fits = reply.put_entry(limit, Some(&self.entry(attr)), dirent, name);
        // `.` and `..` are not lookups.
        if fits && name != b"." && name != b".." {
            self.nodes.learn(attr.ino);
        }
        fits
    }

    /// Adds to a change of attributes that a new owner clears set-id bits, as new contents do unless root writes them. A change of
    /// nothing stands for contents that are about to change: the kernel sends one to hear what is left of the mode.
    fn clearing_set_id(&self, uid: u32, gid: u32, ino: Ino, set: SetAttr) -> Result<SetAttr> {
        let chown = set.uid.is_some() || set.gid.is_some();
        let contents = set.size.is_some() || set == SetAttr::default();
        if set.perm.is_some() || !chown && (!contents || uid == 0) {
            return Ok(set);
        }
        let attr = self.fs().getattr(ino)?;
        let subject = Subject { kind: attr.kind, perm: attr.perm, owner: attr.owner };
        let who = Credentials::new(uid, gid, &[]);
        let perm = if chown { who.perm_after_chown(&subject) } else { who.perm_after_write(&subject) };
        Ok(SetAttr { perm: (perm != attr.perm).then_some(perm), ..set })
    }

    /// Clears the set-id bits of a file whose contents a user other than root is about to change.
    fn clear_set_id(&self, from: &InHeader, ino: Ino) -> Result<()> {
        match self.clearing_set_id(from.uid, from.gid, ino, SetAttr::default())? {
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

    /// Copies between two files, which share blocks where the design can; returns the bytes copied.
    fn copy(&self, from: (Ino, u64), to: (Ino, u64), len: u64) -> Result<u64> {
        let copied = vfs::copy::copy_range(self.fs(), from, to, len, self.always);
        self.accessed(from.0);
        self.nodes.changed(to.0);
        self.harden(self.always)?;
        copied
    }

    /// What the kernel has read and keeps: pages that it maps. For the calls beside it (`beside.rs`).
    pub(crate) fn kept(&self, ino: Ino) -> Kept {
        if !self.nodes.may_be_cached(ino) {
            return Kept::Nothing;
        }
        if self.nodes.may_be_mapped(ino) { Kept::PagesAndStores } else { Kept::Pages }
    }

    /// Whether the kernel knows an inode.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.nodes.knows(ino)
    }

    /// A name has gone beside the kernel, which is to forget it.
    pub(crate) fn forget_name(&self, parent: Ino, name: &[u8]) {
        self.invalidator.forget_name(self.numbers.node(parent), name);
    }

    pub(crate) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Writes; a synchronous write waits for the medium as a sync does.
    fn put(&self, ino: Ino, offset: u64, data: &[u8], flags: IoFlags) -> Result<usize> {
        let flags = flags | self.always;
        let written = self.fs().write(ino, offset, data, flags)?;
        self.harden(flags)?;
        Ok(written.bytes)
    }

    /// The same where the kernel may not know by now where the file ends: an append goes to the end, and of pages that it has
    /// `kept`, to which programs have stored, what lies beyond the end is dropped.
    pub(crate) fn put_beside(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        (flags, kept): (i32, bool),
    ) -> Result<usize> {
        if !kept {
            return self.put(ino, offset, data, open_flags(flags).io());
        }
        let within = self.fs().getattr(ino)?.size.saturating_sub(offset).min(data.len() as u64) as usize;
        if within == 0 {
            return Ok(data.len());
        }
        match self.put(ino, offset, &data[..within], io_flags(flags))? {
            written if written < within => Ok(written),
            _ => Ok(data.len()),
        }
    }

    /// Data has changed: a synchronous change waits for the medium.
    fn harden(&self, flags: IoFlags) -> Result<()> {
        self.backing.fence();
        if flags.intersects(IoFlags::SYNC | IoFlags::DSYNC) {
            threads::about_to_wait();
            self.backing.sync()?;
        }
        Ok(())
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

    /// Names have changed, of which these inodes know: with `dirsync` or `sync` that is made durable. What a name leads to comes
    /// before its directory.
    fn settle(&self, touched: &[Ino]) -> Result<()> {
        if !self.names_wait.load(Relaxed) {
            return Ok(());
        }
        threads::about_to_wait();
        touched.iter().try_for_each(|ino| self.fs().fsync(*ino, false))?;
        self.backing.sync()
    }

    /// An inode with a new name in a directory.
    fn settled(&self, made: Result<Attr>, parent: Ino) -> Result<Attr> {
        let attr = made?;
        self.settle(&[attr.ino, parent])?;
        Ok(attr)
    }

    /// The mount has been remounted with these words. Says whether they are known.
    fn remounted(&self, words: &str) -> bool {
        let (names, times): (Vec<_>, Vec<_>) = words.split(',').partition(|word| *word == NAMES_WAIT);
        let known = self.times.remounted(&times);
        if known {
            self.names_wait.store(!names.is_empty() || self.always.contains(IoFlags::SYNC), Relaxed);
        }
        known
    }

    /// Makes everything durable, and the medium with it.
    fn sync_all(&self) -> Result<()> {
        self.fs().sync()?;
        self.backing.sync()
    }

    /// The kernel has gone.
    pub(crate) fn end(&self) {
        self.nodes.forget_all(&*self.fs);
    }
}

/// An entry of a directory.
struct Entry {
    ino: Ino,
    /// None where neither the directory nor the inode says it.
    kind: Option<FileKind>,
    /// None where they were not asked for, or cannot be read.
    attr: Option<Attr>,
    /// It has gone since it was listed.
    has_gone: bool,
    next: u64,
    /// Where its name lies.
    name: std::ops::Range<usize>,
}

/// Entries of a directory.
#[derive(Default)]
struct Entries {
    all: Vec<Entry>,
    names: Vec<u8>,
}

impl Entries {
    fn clear(&mut self) {
        self.all.clear();
        self.names.clear();
    }

    fn add(&mut self, ino: Ino, kind: Option<FileKind>, next: u64, name: &[u8]) {
        let start = self.names.len();
        self.names.extend_from_slice(name);
        let name = start..self.names.len();
        self.all.push(Entry { ino, kind, attr: None, has_gone: false, next, name });
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        &self.names[entry.name.clone()]
    }
}

/// A name that a design accepts.
fn name(name: &[u8]) -> Result<&[u8]> {
    match name {
        [] => Err(Errno::ENOENT),
        long if long.len() > NAME_MAX => Err(Errno::ENAMETOOLONG),
        name => Ok(name),
    }
}
