//! Inodes in DRAM: what the records about them lead to, a lock for each, and the table that finds them by number.
//!
//! The lock spreads its readers over lines of their own cores while an inode is read and not changed (`sim::SpreadRwLock`). A
//! `stat` takes no lock if one before has left what it saw:
//!
//! | `seen` | becomes | when |
//! |---|---|---|
//! | nothing | the attributes | a `stat` has read them, while it has the lock for reading |
//! | the attributes | nothing | a task has the lock for writing, before it changes anything |
//!
//! So what is seen is what a reader would find that comes before the next writer. Under the lock for reading only `opens` changes,
//! which no `stat` shows.
//!
//! While tasks share an inode (`sharing.rs`), nothing is seen.
//!
//! Numbers are never used again, so the table is a map; it is behind locks of the host, each held for one look.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use sim::map::TreeMap;
use sim::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use sim::{LockClass, Recency, SpreadReadGuard, SpreadRwLock, SpreadWriteGuard, Work, ran};
use vfs::credentials::Subject;
use vfs::{Attr, FileKind, Ino, Owner, SetTime, Timestamp};

use super::buffered::Buffer;
use super::dir::Dir;
use super::image_load::Cold;
use super::layout::BLOCK;
use super::map::BlockMap;
use super::mapped_atomic::Pages;
use super::sharing::{Shares, Sharing};
use super::tree::Stamped;
use base::error::{Error, Result};

pub(super) static INODE: LockClass = LockClass::new("crest.inode")
    .under(&[&super::RENAMES, &super::map::GRANULE, &super::sharing::BUCKET])
    .several();

/// Links of an inode, at most.
pub(super) const LINKS_MAX: u32 = 65_000;
/// Lines that a task waits for that finds an inode by its number.
const INODE_LINES: u64 = 2;
/// The same of a name: its slot.
const NAME_LINES: u64 = 1;
/// Parts of the table.
const PARTS: usize = 64;
/// Numbers that follow each other and are in one part: those that a shard takes at a time.
pub(super) const NEIGHBOURS: u64 = 64;
/// Seconds before and after 1970 of which a word of nanoseconds can tell.
const SECS_MAX: i64 = i64::MAX / NANOS;
const NANOS: i64 = 1_000_000_000;

/// A time as records have it: nanoseconds since 1970, as a signed number.
pub(super) fn pack(time: Timestamp) -> u64 {
    let (secs, nanos) = (time.secs.clamp(1 - SECS_MAX, SECS_MAX - 1), i64::from(time.nanos));
    (secs * NANOS + nanos).cast_unsigned()
}

/// The time of a word.
pub(super) fn unpack(word: u64) -> Timestamp {
    let nanos = word.cast_signed();
    Timestamp { secs: nanos.div_euclid(NANOS), nanos: nanos.rem_euclid(NANOS) as u32 }
}

/// The present; a clock before 1970 counts as 1970.
pub(super) fn now() -> u64 {
    pack(Timestamp::now().max(Timestamp::default()))
}

/// What an inode holds.
#[derive(Debug)]
pub(super) enum Body {
    File(BlockMap),
    Dir(Arc<Dir>),
    Symlink(Box<[u8]>),
    Node,
}

/// What the lock of an inode guards.
#[derive(Debug)]
pub(super) struct State {
    pub(super) ino: u64,
    /// Kind and permission bits.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u32,
    /// Names; of a directory that has one 2 + subdirectories.
    pub(super) links: u32,
    pub(super) size: u64,
    /// When it was made.
    pub(super) birth: u64,
    pub(super) atime: Stamped,
    pub(super) mtime: Stamped,
    pub(super) ctime: Stamped,
    /// Whether the time of the last access is in DRAM only.
    pub(super) accessed: bool,
    /// Logical time of the last record about it.
    pub(super) last: u64,
    /// How often it is open: changes under the lock for reading, too.
    pub(super) opens: AtomicU32,
    /// It was made without a name and may get one.
    pub(super) nameless: bool,
    /// Whether tasks that change it hold the lock for reading (`sharing.rs`).
    pub(super) shared: bool,
    /// Changes that could be made so, each from another core than the one before, and the core of the last.
    pub(super) changes: u32,
    pub(super) changer: u32,
    pub(super) xattrs: TreeMap<Vec<u8>, Vec<u8>>,
    pub(super) body: Body,
    /// What of a file is in DRAM only, and how it is written.
    pub(super) buffer: Option<Box<Buffer>>,
    /// Its pages that are in frames because of mappings with `mmap=atomic`.
    pub(super) pages: Option<Box<Pages>>,
}

/// An inode in DRAM.
pub(super) struct Inode {
    pub(super) ino: u64,
    pub(super) is_dir: bool,
    is_file: bool,
    /// Whether blocks of it may have been reserved, which a write uses, or mapped, which have to stay where they are.
    pub(super) is_special: AtomicBool,
    state: SpreadRwLock<State>,
    /// The names of a directory, for a look without the lock.
    pub(super) names: Option<Arc<Dir>>,
    /// Mode, user and group, for the same.
    rights: [AtomicU32; 3],
    pub(super) sharing: Sharing,
    /// As `State::shared`, for a look without the lock.
    pub(super) shared: AtomicBool,
    /// Made when it is first shared.
    pub(super) shares: OnceLock<Box<Shares>>,
    /// What a `stat` saw since the last change.
    seen: parking_lot::Mutex<Option<Box<Attr>>>,
    /// Of a directory: the one above it, for those who walk up without locking.
    pub(super) parent: AtomicU64,
    recency: Recency,
}

/// The right to change an inode.
pub(super) type Changing<'a> = SpreadWriteGuard<'a, State>;
/// The right to read an inode.
pub(super) type Reading<'a> = SpreadReadGuard<'a, State>;

/// The right to read all of an inode.
pub(super) enum Settled<'a> {
    Reading(Reading<'a>),
    Alone(Changing<'a>),
}

impl Deref for Settled<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        match self {
            Self::Reading(state) => state,
            Self::Alone(state) => state,
        }
    }
}

/// A new value for a time.
pub(super) fn set_time(time: SetTime, now: u64) -> u64 {
    match time {
        SetTime::Now => now,
        SetTime::To(time) => pack(time),
    }
}

/// A time that a call has set by being made.
pub(super) fn implicit(time: u64) -> Stamped {
    Stamped { stamp: time, explicit: false, value: time }
}

impl State {
    /// Of an inode that no call has used yet, without attributes.
    pub(super) fn new(ino: u64, body: Body) -> Self {
        Self {
            ino,
            mode: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            links: 0,
            size: 0,
            birth: 0,
            atime: Stamped::default(),
            mtime: Stamped::default(),
            ctime: Stamped::default(),
            accessed: false,
            last: 0,
            opens: AtomicU32::new(0),
            nameless: false,
            shared: false,
            changes: 0,
            changer: u32::MAX,
            xattrs: TreeMap::new(),
            body,
            buffer: None,
            pages: None,
        }
    }

    pub(super) fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode)
    }

    pub(super) fn is_dir(&self) -> bool {
        matches!(self.body, Body::Dir(_))
    }

    /// Whether it has neither a name nor a user.
    pub(super) fn is_gone(&self) -> bool {
        self.links == 0 && self.opens.load(Relaxed) == 0
    }

    /// The names of a directory that has a name.
    pub(super) fn dir(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(_) if self.links == 0 => Err(Error::NoEntry),
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The names of a directory, also of one that has lost its own.
    pub(super) fn names(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The blocks of a regular file.
    pub(super) fn blocks(&self) -> Result<&BlockMap> {
        match &self.body {
            Body::File(blocks) => Ok(blocks),
            Body::Dir(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    pub(super) fn blocks_mut(&mut self) -> Result<&mut BlockMap> {
        match &mut self.body {
            Body::File(blocks) => Ok(blocks),
            Body::Dir(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    /// The time of a change that is made now: later than all that were set before.
    pub(super) fn stamp(&self, now: u64) -> u64 {
        let last = self.atime.stamp.max(self.mtime.stamp).max(self.ctime.stamp);
        now.max(last + 1)
    }

    /// It was accessed, which is in DRAM only.
    pub(super) fn accessed_at(&mut self, now: u64) {
        self.atime = Stamped { stamp: self.stamp(now), explicit: true, value: now };
        self.accessed = true;
    }

    /// Whether its last change was one of its data, in the tick of `now`.
    pub(super) fn was_written_in(&self, tick: u64, now: u64) -> bool {
        let Stamped { stamp, explicit, value } = self.mtime;
        !explicit && self.ctime.stamp == stamp && now >= value && now / tick == value / tick
    }

    /// The data has changed.
    pub(super) fn data_changed(&mut self, time: u64) {
        (self.mtime, self.ctime) = (implicit(time), implicit(time));
    }

    /// What `stat` shows.
    pub(super) fn attr(&self) -> Attr {
        let (size, blocks) = match &self.body {
            Body::File(blocks) => (self.size, self.blocks_held(blocks)),
            Body::Dir(dir) => (dir.len() as u64, 0),
            Body::Symlink(target) => (target.len() as u64, 0),
            Body::Node => (0, 0),
        };
        Attr {
            ino: Ino(self.ino),
            kind: self.kind().unwrap_or(FileKind::Regular),
            perm: self.mode & 0o7777,
            nlink: self.links,
            owner: Owner { uid: self.uid, gid: self.gid },
            rdev: u64::from(self.rdev),
            size,
            blocks: blocks * (BLOCK / 512),
            blksize: BLOCK as u32,
            atime: unpack(self.atime.value),
            mtime: unpack(self.mtime.value),
            ctime: unpack(self.ctime.value),
            // Numbers are given once.
            generation: 0,
        }
    }
}

impl Inode {
    pub(super) fn new(mut state: State, parent: u64, sharing: Sharing) -> Self {
        let is_special = matches!(&state.body, Body::File(blocks) if blocks.has_reserved());
        let shared = sharing.begin(&mut state, is_special);
        Self {
            ino: state.ino,
            is_dir: state.is_dir(),
            is_file: matches!(state.body, Body::File(_)),
            is_special: AtomicBool::new(is_special),
            names: if let Body::Dir(dir) = &state.body { Some(Arc::clone(dir)) } else { None },
            rights: [state.mode, state.uid, state.gid].map(AtomicU32::new),
            state: SpreadRwLock::new(&INODE, state),
            sharing,
            shared: AtomicBool::new(shared),
            shares: OnceLock::new(),
            seen: parking_lot::Mutex::new(None),
            parent: AtomicU64::new(parent),
            recency: Recency::now(),
        }
    }

    /// Locks it to read it, if it is in use.
    pub(super) fn reading(&self) -> Result<Reading<'_>> {
        let state = self.state.read();
        if state.is_gone() { Err(Error::NoEntry) } else { Ok(state) }
    }

    /// Locks it to change it, whether it is in use or not.
    pub(super) fn write(&self) -> Changing<'_> {
        let mut state = self.state.write();
        *self.seen.lock() = None;
        if state.shared {
            self.collect(&mut state);
        }
        state
    }

    /// Locks it to change it, if it is in use; none if tasks share it, which one that had it alone may just have begun.
    pub(super) fn changing_unshared(&self) -> Result<Option<Changing<'_>>> {
        let state = self.state.write();
        if state.shared {
            return Ok(None);
        }
        *self.seen.lock() = None;
        if state.is_gone() { Err(Error::NoEntry) } else { Ok(Some(state)) }
    }

    /// Locks it to change it, if it is in use.
    pub(super) fn changing(&self) -> Result<Changing<'_>> {
        let state = self.write();
        if state.is_gone() { Err(Error::NoEntry) } else { Ok(state) }
    }

    /// Locks it to read all of it, if it is in use. Where tasks share it, ends that, so that many readers can come; alone if they
    /// share it again at once.
    pub(super) fn settled(&self) -> Result<Settled<'_>> {
        for _ in 0..2 {
            let state = self.reading()?;
            if !state.shared {
                return Ok(Settled::Reading(state));
            }
            drop(state);
            let state = self.changing()?;
            if state.shared {
                return Ok(Settled::Alone(state));
            }
        }
        self.changing().map(Settled::Alone)
    }

    /// What `stat` shows. Takes the lock only where nothing was seen since the last change.
    pub(super) fn attr(&self) -> Result<Attr> {
        sim::interact();
        if let Some(attr) = self.seen.lock().as_deref() {
            return Ok(*attr);
        }
        if !self.is_dir && self.shared.load(Relaxed) {
            let state = self.reading()?;
            if state.shared {
                return Ok(self.attr_beside(&state));
            }
        }
        let state = self.settled()?;
        let attr = state.attr();
        if state.links > 0 && !state.shared {
            // Locked until it is noted: a writer that comes now forgets it.
            let seen = ran::boxed(attr);
            *self.seen.lock() = Some(seen);
        }
        Ok(attr)
    }

    /// Whether a write of whole blocks may store its data before it locks it.
    pub(super) fn takes_data_ahead(&self) -> bool {
        self.is_file && !self.is_special.load(Relaxed)
    }

    /// Opens it once more.
    pub(super) fn open(&self) -> Result<()> {
        let state = self.reading()?;
        Reading::touch(&state);
        state.opens.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Closes it once; whether it has neither a name nor a user now.
    pub(super) fn close(&self) -> bool {
        let state = self.state.read();
        Reading::touch(&state);
        let closed = state.opens.fetch_update(Relaxed, Relaxed, |opens| opens.checked_sub(1));
        closed == Ok(1) && state.links == 0
    }

    /// What permission depends on.
    pub(super) fn subject(&self) -> Option<Subject> {
        let [mode, uid, gid] = [0, 1, 2].map(|part| self.rights[part].load(Relaxed));
        let owner = Owner { uid, gid };
        Some(Subject { kind: FileKind::from_mode(mode)?, perm: mode & 0o7777, owner })
    }

    /// Notes that mode or owner have changed. The caller has it alone.
    pub(super) fn note_rights(&self, state: &State) {
        for (part, value) in self.rights.iter().zip([state.mode, state.uid, state.gid]) {
            part.store(value, Relaxed);
        }
    }

    /// A path has led to it: what a task waits for that has neither its name nor it in its cache.
    pub(super) fn found(&self) {
        self.recency.touch(NAME_LINES + INODE_LINES);
    }

    /// The directory above it.
    pub(super) fn parent(&self) -> u64 {
        self.parent.load(Relaxed)
    }
}

type Part = RwLock<FxHashMap<u64, Arc<Inode>>>;

/// All inodes in use, by number: in DRAM, or in the image from which the pool was mounted until a call uses them.
pub(super) struct Inodes {
    parts: Box<[Part]>,
    cold: RwLock<Option<Arc<Cold>>>,
}

impl Inodes {
    pub(super) fn new(cold: Option<Cold>) -> Self {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Self { parts, cold: RwLock::new(cold.map(Arc::new)) }
    }

    fn part(&self, ino: u64) -> &Part {
        &self.parts[(ino / NEIGHBOURS) as usize % PARTS]
    }

    /// What is in an image still.
    pub(super) fn cold(&self) -> Option<Arc<Cold>> {
        self.cold.read().clone()
    }

    /// Takes an inode out of the image, if it is there.
    #[cold]
    fn thaw(&self, ino: u64) -> Option<Arc<Inode>> {
        let cold = self.cold()?;
        let (place, inode) = cold.inode(ino)?;
        let own = ran::aside();
        let mut part = self.part(ino).write();
        // Another task may have come first, and then even removed it.
        let thawed = part
            .get(&ino)
            .cloned()
            .or_else(|| cold.take(place).then(|| Arc::clone(part.entry(ino).or_insert(inode))));
        drop(part);
        if cold.is_empty() {
            *self.cold.write() = None;
        }
        drop(own);
        thawed
    }

    /// The inode of a number.
    pub(super) fn get(&self, ino: u64) -> Result<Arc<Inode>> {
        let found = self.part(ino).read().get(&ino).cloned();
        ran::did(Work::NODE, 1);
        ran::node(1);
        let inode = found.or_else(|| self.thaw(ino)).ok_or(Error::NoEntry)?;
        inode.recency.touch(INODE_LINES);
        Ok(inode)
    }

    /// The inode of a number, as a step of a path, which `PATH_COMPONENT` prices; see [`Inode::found`].
    pub(super) fn at_hand(&self, ino: u64) -> Option<Arc<Inode>> {
        let found = self.part(ino).read().get(&ino).cloned();
        found.or_else(|| self.thaw(ino))
    }

    pub(super) fn insert(&self, inode: Arc<Inode>) {
        ran::did(Work::NODE, 1);
        ran::node(1);
        let _own = ran::aside();
        self.part(inode.ino).write().insert(inode.ino, inode);
    }

    pub(super) fn remove(&self, ino: u64) {
        ran::did(Work::NODE, 1);
        ran::node(1);
        let gone = self.part(ino).write().remove(&ino);
        drop(gone);
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        let used: u64 = self.parts.iter().map(|part| part.read().len() as u64).sum();
        used + self.cold().map_or(0, |cold| cold.len())
    }

    /// The numbers of those in DRAM, in order.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut all: Vec<u64> =
            self.parts.iter().flat_map(|part| part.read().keys().copied().collect::<Vec<_>>()).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_keep_their_nanoseconds() {
        for (secs, nanos) in [(0, 0), (-1, 999_999_999), (1 << 33, 1), (-(1 << 31), 7)] {
            let time = Timestamp { secs, nanos };
            assert_eq!(unpack(pack(time)), time);
        }
        assert!(unpack(pack(Timestamp { secs: i64::MAX, nanos: 0 })).secs > 1 << 32);
    }
}
