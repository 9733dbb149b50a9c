//! A mounted file system: the design, its dentry cache, and the names that are being changed.
//!
//! All processes share a [`Mount`] by reference count. Names must change through it alone; a direct call of
//! the design would make the cache wrong. It adds no lock to the design's own: a call that changes names
//! holds claims on exactly these names (`dentry.rs`), so calls on different names contend only in the design.
//! Two claims (rename) are taken in the order of their keys.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use sim::Work;

use crate::attr::{Attr, FileKind, Ino, NewInode, SetAttr, Timestamp};
use crate::charges;
use crate::credentials::{Access, Credentials, Subject};
use crate::dentry::{Binding, Dentries, Seen, Ticket};
use crate::directory::{Directory, Listed, Place};
use crate::errno::{Errno, Result};
use crate::file_system::{FileSystem, Renaming};
use crate::flags::RenameFlags;
use crate::kernel::{DirectoryGuard, KernelLocks, KernelWays, Linux};
use crate::locks::Locks;
use crate::paths::{Names, Paths};
use crate::vnode::{DeferredReleases, Vnode};
use crate::watch::{Watch, Watcher};

/// When reading sets the access time of a file or directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// When it is not later than the last change, or a day old: Linux's default. Checked once after each
    /// change.
    #[default]
    Relative,
    /// Always.
    Strict,
    /// Never.
    Never,
}

/// How to mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Refuse every change with `EROFS`.
    pub read_only: bool,
    /// When reading sets access times.
    pub access_times: AccessTimes,
    /// Limit of the dentry cache, in names; dentries in use do not count.
    pub dentries: usize,
    /// Take the locks that this kernel keeps beside the file system (`kernel.rs`): for runs that stand for a kernel.
    pub kernel: Option<Linux>,
    /// Let a design that resolves paths itself do it, where no kernel stands beside it. Measurements that compare designs turn this
    /// off: the walk in front of them is then the same.
    pub own_paths: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        let access_times = AccessTimes::default();
        Self { read_only: false, access_times, dentries: 1 << 20, kernel: None, own_paths: true }
    }
}

/// A file system with its dentry cache.
pub struct Mount {
    fs: Arc<dyn FileSystem>,
    options: MountOptions,
    root: Arc<Vnode>,
    dentries: Dentries,
    /// Vnodes of files that have, or had, several names.
    linked: Mutex<FxHashMap<Ino, Weak<Vnode>>>,
    deferred: Arc<DeferredReleases>,
    listed: Listed,
    moves: AtomicU64,
    pub(crate) locks: Locks,
    pub(crate) watch: Watch,
    kernel: Option<Box<KernelLocks>>,
}

impl Mount {
    /// Mounts `fs`, which the design has already mounted on its side.
    pub fn new(fs: Arc<dyn FileSystem>, options: MountOptions) -> Result<Arc<Self>> {
        let deferred = Arc::default();
        let ways = if options.kernel.is_some() { fs.kernel_ways() } else { KernelWays::default() };
        let root = Vnode::new(&fs.getattr(fs.root())?, None, ways);
        let dentries = Dentries::new(options.dentries);
        let kernel = options.kernel.map(|version| Box::new(KernelLocks::new(version, ways)));
        Ok(Arc::new(Self {
            fs,
            options,
            root,
            dentries,
            linked: Mutex::default(),
            deferred,
            listed: Listed::default(),
            moves: AtomicU64::new(0),
            locks: Locks::new(),
            watch: Watch::default(),
            kernel,
        }))
    }

    /// The design.
    #[inline]
    pub fn file_system(&self) -> &dyn FileSystem {
        &*self.fs
    }

    /// How it was mounted.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// Number of names in the dentry cache.
    pub fn cached_names(&self) -> usize {
        self.dentries.len()
    }

    /// Forgets all names that nothing refers to, as `echo 2 > /proc/sys/vm/drop_caches` does.
    pub fn drop_cached_names(&self) {
        self.dentries.forget_unused();
        self.reap();
    }

    /// Tells `watcher` of what processes do from now on; none: the watching ends.
    pub fn watch(&self, watcher: Option<Arc<dyn Watcher>>) {
        self.watch.set(watcher);
    }

    /// Ends the file system. No process may use the mount afterwards.
    pub fn unmount(&self) -> Result<()> {
        self.reap();
        self.fs.unmount()
    }

    #[inline]
    pub(crate) fn root(&self) -> &Arc<Vnode> {
        &self.root
    }

    /// Lets the design free inodes whose vnode has ended.
    #[inline]
    pub(crate) fn reap(&self) {
        self.deferred.release_all(&*self.fs);
    }

    /// `EROFS` when nothing may change.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.options.read_only { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// The vnode called `name` in `dir`, from the cache or from the design.
    #[inline]
    pub(crate) fn lookup(&self, dir: &Arc<Vnode>, name: &[u8]) -> Result<Arc<Vnode>> {
        match self.dentries.look(dir.ino, name, false) {
            Seen::Present(vnode) => {
                vnode.found();
                Ok(vnode)
            }
            Seen::Absent => Err(Errno::ENOENT),
            Seen::Claimed(ticket, binding) => {
                let place = Place { dir: Directory::Held(dir), name, has_slash: false };
                Claim::new(self, place, (ticket, binding)).resolve()
            }
        }
    }

    /// The vnode that has a name, or else a claim on the name.
    #[inline]
    pub(crate) fn lookup_or_claim<'a>(&'a self, place: Place<'a>) -> Result<LookupOrClaim<'a>> {
        self.reap();
        sim::interact();
        match self.dentries.look(place.dir.ino(), place.name, true) {
            Seen::Present(vnode) => {
                vnode.found();
                Ok(LookupOrClaim::There(vnode))
            }
            Seen::Absent => Err(Errno::ENOENT),
            Seen::Claimed(ticket, binding) => {
                let mut claim = Claim::new(self, place, (ticket, binding));
                claim.find()?;
                Ok(claim.vnode().cloned().map_or(LookupOrClaim::Free(claim), LookupOrClaim::There))
            }
        }
    }

    /// Calls `see` with the vnode called `name` in the directory `parent`, if it is cached. The number of the
    /// directory may have been reused meanwhile; the caller detects this with [`Mount::moves`].
    #[inline]
    pub(crate) fn with_cached<T>(
        &self,
        parent: Ino,
        name: &[u8],
        see: impl FnOnce(&Arc<Vnode>) -> Option<T>,
    ) -> Option<T> {
        self.dentries.with_cached(parent, name, see)
    }

    /// Counts renames and removals of directories. Each is counted before it happens, while its name is
    /// claimed.
    #[inline]
    pub(crate) fn moves(&self) -> u64 {
        self.moves.load(SeqCst)
    }

    /// The design as one that resolves paths itself, unless the caches have to be walked.
    #[inline]
    fn paths(&self) -> Option<&dyn Paths> {
        self.fs.paths().filter(|_| self.kernel.is_none() && self.options.own_paths)
    }

    /// What the design answers of a path that it resolves itself, from `dir`; none where the caches have to be walked.
    #[inline]
    pub(crate) fn stat_by_design(
        &self,
        who: &Credentials,
        dir: impl FnOnce() -> Ino,
        path: &[u8],
    ) -> Option<Attr> {
        let paths = self.paths()?;
        let names = Names::of(path)?;
        sim::interact();
        let from = if path.starts_with(b"/") { self.root.ino } else { dir() };
        paths.stat(from, names, &|subject| may_search(who, subject))
    }

    /// The last name of a path, in the directory to which the design resolves the others, from `dir`; none where the caches have to
    /// be walked.
    #[inline]
    pub(crate) fn place_by_design<'a>(
        &self,
        who: &Credentials,
        dir: impl FnOnce() -> Ino,
        path: &'a [u8],
    ) -> Option<Place<'a>> {
        let paths = self.paths()?;
        let (names, name) = Names::before_last(path)?;
        sim::interact();
        let from = if path.starts_with(b"/") { self.root.ino } else { dir() };
        let moves = self.moves();
        let parent = paths.parent(from, names, &|subject| may_search(who, subject))?;
        if self.moves() != moves {
            return None;
        }
        sim::work(charges::PATH_COMPONENT, 1);
        Some(Place { dir: Directory::Numbered(parent), name, has_slash: false })
    }

    /// Names of a directory have changed: its time of access is older again.
    #[inline]
    fn directory_changed(&self, dir: Directory<'_>) {
        match dir {
            Directory::Held(vnode) => vnode.changed(),
            Directory::Numbered(parent) => self.listed.changed(parent.ino),
        }
    }

    /// Claims a name and finds out what it leads to. `EISDIR` for a directory of which there is no vnode, where the directory above
    /// it is known by its number.
    pub(crate) fn claim<'a>(&'a self, place: Place<'a>) -> Result<Claim<'a>> {
        self.reap();
        sim::interact();
        let mut claim = Claim::new(self, place, self.dentries.claim(place.dir.ino(), place.name));
        claim.find()?;
        Ok(claim)
    }

    /// Claims two names in a fixed order, so that two callers cannot wait for each other.
    pub(crate) fn claim_two<'a>(
        &'a self,
        first: Place<'a>,
        second: Place<'a>,
    ) -> Result<(Claim<'a>, Claim<'a>)> {
        // The kernel's locks of the directories are taken behind both claims.
        let claim = |place: Place<'a>| -> Result<Claim<'a>> {
            let mut claim = self.claim(place)?;
            claim.held = None;
            Ok(claim)
        };
        if (first.dir.ino(), first.name) <= (second.dir.ino(), second.name) {
            let a = claim(first)?;
            Ok((a, claim(second)?))
        } else {
            let b = claim(second)?;
            Ok((claim(first)?, b))
        }
    }

    /// What the kernel's objects do, where the mount stands for one.
    pub(crate) fn ways(&self) -> KernelWays {
        self.kernel.as_ref().map_or_else(KernelWays::default, |kernel| kernel.ways)
    }

    /// The kernel's lock of a directory that changes, where the mount stands for a kernel.
    #[inline]
    pub(crate) fn lock_directory<'a>(&self, dir: &'a Vnode) -> Option<DirectoryGuard<'a>> {
        self.kernel.as_ref().map(|_| dir.directory.lock(false))
    }

    /// The same of a directory that is read: other readers may share it.
    #[inline]
    pub(crate) fn share_directory<'a>(&self, dir: &'a Vnode) -> Option<DirectoryGuard<'a>> {
        self.kernel.as_ref().map(|kernel| dir.directory.lock(kernel.shares_directories()))
    }

    /// The same for a listing.
    #[inline]
    pub(crate) fn list_directory<'a>(&self, dir: &'a Vnode) -> Option<DirectoryGuard<'a>> {
        self.share_directory(dir).inspect(|held| held.touch(self.ways().directory_listing))
    }

    /// An inode comes into memory (`comes`), or leaves it.
    #[inline]
    fn inode_moves(&self, comes: bool) {
        if let Some(kernel) = &self.kernel {
            kernel.link_inode(comes);
        }
    }

    /// The kernel searches its cache for a name behind the lock of the directory.
    #[inline]
    fn search_dentries(&self, missed: bool) {
        if let Some(kernel) = &self.kernel {
            kernel.search_dentries(missed);
        }
    }

    /// The end of a call that has removed a name, behind the kernel's lock of the directory: `gone` leaves memory, and is freed if
    /// nothing else holds it.
    fn end_removal(&self, gone: Option<Ino>) {
        let Some(ino) = gone.filter(|_| self.kernel.is_some()) else { return };
        // Before any other task can go on: each call frees what it has removed.
        let unused = self.deferred.take(ino);
        self.inode_moves(false);
        sim::priced(charges::EVICT_INODE, 1);
        if unused {
            self.fs.release(ino);
        }
    }

    /// The vnode of an inode that a name has led to. The name is claimed.
    fn vnode(&self, dir: Directory<'_>, attr: &Attr) -> Result<Arc<Vnode>> {
        if attr.kind == FileKind::Directory {
            let above = dir.vnode().ok_or(Errno::EISDIR)?;
            return Ok(Vnode::new(attr, Some(above), self.ways()));
        }
        sim::ran::did(Work::HASH, 1);
        sim::ran::did(Work::NODE, 1);
        let mut linked = self.linked.lock();
        if let Some(vnode) = linked.get(&attr.ino).and_then(Weak::upgrade) {
            return Ok(vnode);
        }
        let vnode = Vnode::new(attr, None, self.ways());
        if attr.nlink > 1 {
            insert_linked(&mut linked, &vnode);
        }
        Ok(vnode)
    }

    /// Notes that `vnode` is about to have several names.
    fn note_linked(&self, vnode: &Arc<Vnode>) {
        insert_linked(&mut self.linked.lock(), vnode);
        charge_for_linked(1);
    }

    /// Changes attributes and keeps the vnode's copy. `wanted` says what is to change, by the owner and permission that the inode
    /// has: where it changes these, it is asked again when no other call can.
    pub(crate) fn setattr(&self, vnode: &Vnode, wanted: impl Fn(&Subject) -> Result<SetAttr>) -> Result<()> {
        let mut set = wanted(&vnode.subject())?;
        let copied = set.perm.is_some() || set.uid.is_some() || set.gid.is_some();
        let _order = copied.then(|| vnode.changes.lock());
        if copied {
            set = wanted(&vnode.subject())?;
        }
        sim::priced(charges::SET_ATTR, 1);
        let attr = self.fs.setattr(vnode.ino, &set)?;
        if copied {
            vnode.note(&attr);
        }
        vnode.changed();
        Ok(())
    }

    /// Sets the access time after a read, by the mount's policy. A failure is not reported to the reader.
    #[inline]
    pub(crate) fn accessed(&self, vnode: &Arc<Vnode>) {
        match self.options.access_times {
            AccessTimes::Relative if !vnode.is_accessed() => self.access_after_change(vnode),
            AccessTimes::Strict if !self.options.read_only => {
                let _ = self.fs.accessed(vnode.ino);
            }
            _ => {}
        }
    }

    #[cold]
    fn access_after_change(&self, vnode: &Arc<Vnode>) {
        const DAY_SECS: i64 = 24 * 60 * 60;
        vnode.set_accessed();
        if vnode.is_dir() && self.paths().is_some() {
            self.listed.note(vnode);
        }
        let Ok(attr) = self.fs.getattr(vnode.ino) else { return };
        let stale =
            attr.atime <= attr.mtime.max(attr.ctime) || Timestamp::now().secs - attr.atime.secs >= DAY_SECS;
        if stale && !self.options.read_only {
            let _ = self.fs.accessed(vnode.ino);
        }
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Whether the caller may search a directory.
fn may_search(who: &Credentials, dir: &Subject) -> bool {
    who.is_root() || who.check(dir, Access::EXECUTE).is_ok()
}

/// Looks into the table of files with several names, and changes of it: charged when its lock is released.
fn charge_for_linked(times: u64) {
    let _covered = charges::of_front();
    sim::ran::hash(16 * times);
    sim::ran::node(times);
}

/// Adds to the table of files with several names, and removes unused entries before the table grows.
fn insert_linked(linked: &mut FxHashMap<Ino, Weak<Vnode>>, vnode: &Arc<Vnode>) {
    if linked.len() == linked.capacity() {
        linked.retain(|_, vnode| vnode.strong_count() > 0);
    }
    vnode.set_linked();
    sim::ran::did(Work::HASH, 1);
    sim::ran::did(Work::NODE, 1);
    let _own = sim::ran::aside();
    linked.insert(vnode.ino, Arc::downgrade(vnode));
}

/// The right to ask the design about one name, and to change it. Dropped without a change, it leaves the name
/// as it was.
///
/// The dentry's reference to the vnode moves into the claim, so that the vnode's count tells whether it is
/// held elsewhere.
pub(crate) struct Claim<'a> {
    mount: &'a Mount,
    dir: Directory<'a>,
    name: &'a [u8],
    ticket: Ticket,
    /// What the name leads to; none when the claim has been settled.
    binding: Option<Binding>,
    /// The kernel's lock of the directory, from the first question to the design on.
    held: Option<DirectoryGuard<'a>>,
}

/// What a call that may make a name finds.
pub(crate) enum LookupOrClaim<'a> {
    /// The name is taken.
    There(Arc<Vnode>),
    /// It is free, and claimed.
    Free(Claim<'a>),
}

impl<'a> Claim<'a> {
    fn new(mount: &'a Mount, place: Place<'a>, (ticket, binding): (Ticket, Binding)) -> Self {
        let Place { dir, name, .. } = place;
        Self { mount, dir, name, ticket, binding: Some(binding), held: None }
    }

    /// Takes the kernel's lock of the directory, if there is one and the claim does not have it.
    fn lock_directory(&mut self) {
        if self.held.is_none() {
            self.held = self.dir.vnode().and_then(|dir| self.mount.lock_directory(dir));
        }
    }

    /// The same for a change, for which what the directory's lock guards moves here.
    fn lock_for_change(&mut self) {
        self.lock_directory();
        if let Some(held) = &self.held {
            held.touch(self.mount.ways().directory_change);
        }
    }

    /// What the name leads to.
    #[inline]
    pub(crate) fn vnode(&self) -> Option<&Arc<Vnode>> {
        match &self.binding {
            Some(Binding::Present(vnode)) => Some(vnode),
            _ => None,
        }
    }

    /// The vnode that the name leads to; the claim ends. `ENOENT`.
    fn resolve(mut self) -> Result<Arc<Vnode>> {
        if self.is_unknown() {
            self.held = self.dir.vnode().and_then(|dir| self.mount.share_directory(dir));
        }
        self.find()?;
        self.vnode().cloned().ok_or(Errno::ENOENT)
    }

    fn is_unknown(&self) -> bool {
        matches!(self.binding, Some(Binding::Unknown))
    }

    /// Asks the design, unless the answer is known.
    fn find(&mut self) -> Result<()> {
        match &self.binding {
            Some(Binding::Unknown) => {}
            Some(Binding::Present(vnode)) => {
                vnode.found();
                self.mount.search_dentries(false);
                return Ok(());
            }
            Some(Binding::Absent) => {
                self.mount.search_dentries(false);
                return Ok(());
            }
            None => return Ok(()),
        }
        self.lock_directory();
        self.mount.search_dentries(true);
        sim::priced(charges::NEW_DENTRY, 1);
        self.binding = Some(match self.mount.fs.lookup(self.dir.ino(), self.name) {
            Ok(attr) => {
                self.mount.inode_moves(true);
                sim::priced(charges::NEW_INODE, 1);
                charges::allocate(1);
                charge_for_linked(1 + u64::from(attr.nlink > 1));
                Binding::Present(self.mount.vnode(self.dir, &attr)?)
            }
            Err(Errno::ENOENT) => Binding::Absent,
            Err(other) => return Err(other),
        });
        Ok(())
    }

    /// A new regular file.
    pub(crate) fn create(mut self, new: &NewInode) -> Result<Arc<Vnode>> {
        self.lock_for_change();
        let attr = self.mount.fs.create(self.dir.ino(), self.name, new)?;
        Ok(self.made(&attr))
    }

    /// A new directory.
    pub(crate) fn mkdir(mut self, new: &NewInode) -> Result<Arc<Vnode>> {
        self.lock_for_change();
        let attr = self.mount.fs.mkdir(self.dir.ino(), self.name, new)?;
        Ok(self.made(&attr))
    }

    /// A new node.
    pub(crate) fn mknod(mut self, kind: FileKind, rdev: u64, new: &NewInode) -> Result<Arc<Vnode>> {
        self.lock_for_change();
        let attr = self.mount.fs.mknod(self.dir.ino(), self.name, kind, rdev, new)?;
        Ok(self.made(&attr))
    }

    /// A new symbolic link.
    pub(crate) fn symlink(mut self, target: &[u8], new: &NewInode) -> Result<Arc<Vnode>> {
        self.lock_for_change();
        let attr = self.mount.fs.symlink(self.dir.ino(), self.name, target, new)?;
        Ok(self.made(&attr))
    }

    /// Another name for `source`.
    pub(crate) fn link(mut self, source: &Arc<Vnode>) -> Result<()> {
        self.lock_for_change();
        self.mount.note_linked(source);
        self.mount.fs.link(source.ino, self.dir.ino(), self.name)?;
        source.changed();
        sim::priced(charges::CREATE, 1);
        self.leads_to(Some(Arc::clone(source)));
        Ok(())
    }

    /// Removes the name of a file.
    pub(crate) fn unlink(self) -> Result<()> {
        self.remove(|fs, dir, name| fs.unlink(dir, name))
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(self) -> Result<()> {
        self.remove(|fs, dir, name| fs.rmdir(dir, name))
    }

    fn remove(mut self, call: impl FnOnce(&dyn FileSystem, Ino, &[u8]) -> Result<()>) -> Result<()> {
        self.lock_for_change();
        let mount = self.mount;
        sim::priced(charges::REMOVE, 1);
        let gone = self.removing(call)?;
        sim::priced(charges::DROP_DENTRY, 1);
        self.mark_removed();
        self.leads_to(None);
        mount.end_removal(gone);
        Ok(())
    }

    /// Renames what this claim names to what `to` names.
    pub(crate) fn rename(mut self, mut to: Claim<'_>, how: Renaming<'_>) -> Result<()> {
        let from = (self.dir.ino(), self.name);
        let kernel = self.mount.kernel.as_ref();
        let turn = kernel.and_then(|kernel| kernel.begin_rename(self.dir.ino() != to.dir.ino()));
        let directories = self.lock_directories(&to);
        let (mount, mut gone) = (self.mount, None);
        sim::priced(charges::RENAME, 1);
        self.count_move();
        if how.flags.contains(RenameFlags::EXCHANGE) {
            to.count_move();
            self.mount.fs.rename(from, (to.dir.ino(), to.name), how)?;
            let other = to.take_vnode();
            to.leads_to(self.take_vnode());
            self.leads_to(other);
        } else {
            gone = to.removing(|fs, dir, name| fs.rename(from, (dir, name), how))?;
            to.mark_removed();
            let moved = self.take_vnode();
            match how.whiteout {
                Some(_) => self.becomes_unknown(),
                None => self.leads_to(None),
            }
            to.leads_to(moved);
        }
        kernel.inspect(|kernel| kernel.move_dentry());
        drop((directories, turn));
        mount.end_removal(gone);
        Ok(())
    }

    /// The kernel's locks of the directories of a rename.
    fn lock_directories(&self, to: &Self) -> [Option<DirectoryGuard<'a>>; 2] {
        let (first, second) =
            if self.dir.ino() <= to.dir.ino() { (self.dir, to.dir) } else { (to.dir, self.dir) };
        let lines = self.mount.ways().directory_change;
        let lock = |dir: Directory<'a>| {
            let held = dir.vnode().and_then(|dir| self.mount.lock_directory(dir));
            held.inspect(|held| held.touch(lines))
        };
        let held = lock(first);
        [held, if first.ino() == second.ino() { None } else { lock(second) }]
    }

    /// Runs a call that may free the inode that the name leads to; see the invariant in `vnode.rs`. Returns the inode that has
    /// lost its last name.
    ///
    /// A mount that stands for a kernel pins the inode, too: the kernel frees it after it has released the directory's lock.
    fn removing(&self, call: impl FnOnce(&dyn FileSystem, Ino, &[u8]) -> Result<()>) -> Result<Option<Ino>> {
        let fs = &*self.mount.fs;
        self.count_move();
        let pins = |vnode: &&Arc<Vnode>| self.mount.kernel.is_some() || Arc::strong_count(vnode) > 1;
        let held = self.vnode().filter(pins);
        let pinned = held.map(|vnode| vnode.pin(fs, &self.mount.deferred)).transpose()?.unwrap_or(false);
        let result = call(fs, self.dir.ino(), self.name);
        if let Some(vnode) = held {
            if result.is_err() && pinned {
                vnode.unpin(fs);
            }
            vnode.changed();
        }
        result.map(|()| self.vnode().filter(|vnode| !vnode.is_linked()).map(|vnode| vnode.ino))
    }

    /// The name of a directory is about to go.
    fn count_move(&self) {
        if self.vnode().is_some_and(|vnode| vnode.is_dir()) {
            self.mount.moves.fetch_add(1, SeqCst);
        }
    }

    fn mark_removed(&self) {
        if let Some(vnode) = self.vnode().filter(|vnode| vnode.is_dir()) {
            vnode.set_removed();
        }
    }

    fn take_vnode(&mut self) -> Option<Arc<Vnode>> {
        match self.binding.replace(Binding::Absent) {
            Some(Binding::Present(vnode)) => Some(vnode),
            _ => None,
        }
    }

    fn made(self, attr: &Attr) -> Arc<Vnode> {
        self.mount.inode_moves(true);
        sim::priced(charges::NEW_INODE, 1);
        sim::priced(charges::CREATE, 1);
        charges::allocate(1);
        let vnode = Vnode::new(attr, self.dir.vnode(), self.mount.ways());
        self.leads_to(Some(Arc::clone(&vnode)));
        vnode
    }

    /// Ends the claim: the name has changed, and the design is to be asked what it leads to.
    fn becomes_unknown(mut self) {
        self.mount.directory_changed(self.dir);
        self.mount.inode_moves(true);
        self.binding = Some(Binding::Unknown);
    }

    /// Ends the claim: the name has changed and leads to `vnode` now.
    fn leads_to(mut self, vnode: Option<Arc<Vnode>>) {
        self.mount.directory_changed(self.dir);
        self.binding = Some(vnode.map_or(Binding::Absent, |vnode| {
            vnode.changed();
            if vnode.is_dir()
                && let Some(above) = self.dir.vnode()
            {
                vnode.set_parent(above);
            }
            Binding::Present(vnode)
        }));
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let binding = self.binding.take().unwrap_or(Binding::Unknown);
        self.mount.dentries.settle(self.ticket, binding);
    }
}
