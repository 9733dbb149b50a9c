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

use super::dir::Dir;
use super::map::BlockMap;
use super::sharing::{Shares, Sharing};
use crate::calls::buffered::Buffer;
use crate::calls::mapped_atomic::Pages;
use crate::format::layout::BLOCK;
use crate::format::tree::Stamped;
use crate::pool::image_load::Cold;
use base::error::{Error, Result};

pub(crate) static INODE: LockClass = LockClass::new("crest.inode")
    .under(&[&crate::RENAMES, &super::map::GRANULE, &super::sharing::BUCKET])
    .several();

/// Links of an inode, at most.
pub(crate) const LINKS_MAX: u32 = 65_000;
/// Lines that a task waits for that finds an inode by its number.
const INODE_LINES: u64 = 2;
/// The same of a name: its slot.
const NAME_LINES: u64 = 1;
/// Parts of the table.
const PARTS: usize = 64;
/// Numbers that follow each other and are in one part: those that a shard takes at a time.
pub(crate) const NEIGHBOURS: u64 = 64;
/// Seconds before and after 1970 of which a word of nanoseconds can tell.
const SECS_MAX: i64 = i64::MAX / NANOS;
const NANOS: i64 = 1_000_000_000;

/// A time as records have it: nanoseconds since 1970, as a signed number.
pub(crate) fn pack(time: Timestamp) -> u64 {
    let (secs, nanos) = (time.secs.clamp(1 - SECS_MAX, SECS_MAX - 1), i64::from(time.nanos));
    (secs * NANOS + nanos).cast_unsigned()
}

/// The time of a word.
pub(crate) fn unpack(word: u64) -> Timestamp {
    let nanos = word.cast_signed();
    Timestamp { secs: nanos.div_euclid(NANOS), nanos: nanos.rem_euclid(NANOS) as u32 }
}

/// The present; a clock before 1970 counts as 1970.
pub(crate) fn now() -> u64 {
    pack(Timestamp::now().max(Timestamp::default()))
}

/// What an inode holds.
#[derive(Debug)]
pub(crate) enum Body {
    File(BlockMap),
    Dir(Arc<Dir>),
    Symlink(Box<[u8]>),
    Node,
}

/// What the lock of an inode guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ino: u64,
    /// Kind and permission bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u32,
    /// Names; of a directory that has one 2 + subdirectories.
    pub(crate) links: u32,
    pub(crate) size: u64,
    /// When it was made.
    pub(crate) birth: u64,
    pub(crate) atime: Stamped,
    pub(crate) mtime: Stamped,
    pub(crate) ctime: Stamped,
    /// Whether the time of the last access is in DRAM only.
    pub(crate) accessed: bool,
    /// Logical time of the last record about it.
    pub(crate) last: u64,
    /// How often it is open: changes under the lock for reading, too.
    pub(crate) opens: AtomicU32,
    /// It was made without a name and may get one.
    pub(crate) nameless: bool,
    /// Whether tasks that change it hold the lock for reading (`sharing.rs`).
    pub(crate) shared: bool,
    /// Changes that could be made so, each from another core than the one before, and the core of the last.
    pub(crate) changes: u32,
    pub(crate) changer: u32,
    pub(crate) xattrs: TreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) body: Body,
    /// What of a file is in DRAM only, and how it is written.
    pub(crate) buffer: Option<Box<Buffer>>,
    /// Its pages that are in frames because of mappings with `mmap=atomic`.
    pub(crate) pages: Option<Box<Pages>>,
}

/// An inode in DRAM.
pub(crate) struct Inode {
    pub(crate) ino: u64,
    pub(crate) is_dir: bool,
    is_file: bool,
    /// Whether blocks of it may have been reserved, which a write uses, or mapped, which have to stay where they are.
    pub(crate) is_special: AtomicBool,
    state: SpreadRwLock<State>,
    /// The names of a directory, for a look without the lock.
    pub(crate) names: Option<Arc<Dir>>,
    /// Mode, user and group, for the same.
    rights: [AtomicU32; 3],
    pub(crate) sharing: Sharing,
    /// As `State::shared`, for a look without the lock.
    pub(crate) shared: AtomicBool,
    /// Made when it is first shared.
    pub(crate) shares: OnceLock<Box<Shares>>,
    /// What a `stat` saw since the last change.
    seen: parking_lot::Mutex<Option<Box<Attr>>>,
    /// Of a directory: the one above it, for those who walk up without locking.
    pub(crate) parent: AtomicU64,
    recency: Recency,
}

/// The right to change an inode.
pub(crate) type Changing<'a> = SpreadWriteGuard<'a, State>;
/// The right to read an inode.
pub(crate) type Reading<'a> = SpreadReadGuard<'a, State>;

/// The right to read all of an inode.
pub(crate) enum Settled<'a> {
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
pub(crate) fn set_time(time: SetTime, now: u64) -> u64 {
    match time {
        SetTime::Now => now,
        SetTime::To(time) => pack(time),
    }
}

/// A time that a call has set by being made.
pub(crate) fn implicit(time: u64) -> Stamped {
    Stamped { stamp: time, explicit: false, value: time }
}

impl State {
    /// Of an inode that no call has used yet, without attributes.
    pub(crate) fn new(ino: u64, body: Body) -> Self {
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

    pub(crate) fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode)
    }

    pub(crate) fn is_dir(&self) -> bool {
        matches!(self.body, Body::Dir(_))
    }

    /// Whether it has neither a name nor a user.
    pub(crate) fn is_gone(&self) -> bool {
        self.links == 0 && self.opens.load(Relaxed) == 0
    }

    /// The names of a directory that has a name.
    pub(crate) fn dir(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(_) if self.links == 0 => Err(Error::NoEntry),
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The names of a directory, also of one that has lost its own.
    pub(crate) fn names(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The blocks of a regular file.
    pub(crate) fn blocks(&self) -> Result<&BlockMap> {
        match &self.body {
            Body::File(blocks) => Ok(blocks),
            Body::Dir(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    pub(crate) fn blocks_mut(&mut self) -> Result<&mut BlockMap> {
        match &mut self.body {
            Body::File(blocks) => Ok(blocks),
            Body::Dir(_) => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("not a regular file")),
        }
    }

    /// The time of a change that is made now: later than all that were set before.
    pub(crate) fn stamp(&self, now: u64) -> u64 {
        let last = self.atime.stamp.max(self.mtime.stamp).max(self.ctime.stamp);
        now.max(last + 1)
    }

    /// It was accessed, which is in DRAM only.
    pub(crate) fn accessed_at(&mut self, now: u64) {
        self.atime = Stamped { stamp: self.stamp(now), explicit: true, value: now };
        self.accessed = true;
    }

    /// Whether its last change was one of its data, in the tick of `now`.
    pub(crate) fn was_written_in(&self, tick: u64, now: u64) -> bool {
        let Stamped { stamp, explicit, value } = self.mtime;
        !explicit && self.ctime.stamp == stamp && now >= value && now / tick == value / tick
    }

    /// The data has changed.
    pub(crate) fn data_changed(&mut self, time: u64) {
        (self.mtime, self.ctime) = (implicit(time), implicit(time));
    }

    /// What `stat` shows.
    pub(crate) fn attr(&self) -> Attr {
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
    pub(crate) fn new(mut state: State, parent: u64, sharing: Sharing) -> Self {
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
    pub(crate) fn reading(&self) -> Result<Reading<'_>> {
        let state = self.state.read();
        if state.is_gone() { Err(Error::NoEntry) } else { Ok(state) }
    }

    /// Locks it to change it, whether it is in use or not.
    pub(crate) fn write(&self) -> Changing<'_> {
        let mut state = self.state.write();
        *self.seen.lock() = None;
        if state.shared {
            self.collect(&mut state);
        }
        state
    }

    /// Locks it to change it, if it is in use; none if tasks share it, which one that had it alone may just have begun.
    pub(crate) fn changing_unshared(&self) -> Result<Option<Changing<'_>>> {
        let state = self.state.write();
        if state.shared {
            return Ok(None);
        }
        *self.seen.lock() = None;
        if state.is_gone() { Err(Error::NoEntry) } else { Ok(Some(state)) }
    }

    /// Locks it to change it, if it is in use.
    pub(crate) fn changing(&self) -> Result<Changing<'_>> {
        let state = self.write();
        if state.is_gone() { Err(Error::NoEntry) } else { Ok(state) }
    }

    /// Locks it to read all of it, if it is in use. Where tasks share it, ends that, so that many readers can come; alone if they
    /// share it again at once.
    pub(crate) fn settled(&self) -> Result<Settled<'_>> {
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
    pub(crate) fn attr(&self) -> Result<Attr> {
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
    pub(crate) fn takes_data_ahead(&self) -> bool {
        self.is_file && !self.is_special.load(Relaxed)
    }

    /// Opens it once more.
    pub(crate) fn open(&self) -> Result<()> {
        let state = self.reading()?;
        Reading::touch(&state);
        state.opens.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Closes it once; whether it has neither a name nor a user now.
    pub(crate) fn close(&self) -> bool {
        let state = self.state.read();
        Reading::touch(&state);
        let closed = state.opens.fetch_update(Relaxed, Relaxed, |opens| opens.checked_sub(1));
        closed == Ok(1) && state.links == 0
    }

    /// What permission depends on.
    pub(crate) fn subject(&self) -> Option<Subject> {
        let [mode, uid, gid] = [0, 1, 2].map(|part| self.rights[part].load(Relaxed));
        let owner = Owner { uid, gid };
        Some(Subject { kind: FileKind::from_mode(mode)?, perm: mode & 0o7777, owner })
    }

    /// Notes that mode or owner have changed. The caller has it alone.
    pub(crate) fn note_rights(&self, state: &State) {
        for (part, value) in self.rights.iter().zip([state.mode, state.uid, state.gid]) {
            part.store(value, Relaxed);
        }
    }

    /// A path has led to it: what a task waits for that has neither its name nor it in its cache.
    pub(crate) fn found(&self) {
        self.recency.touch(NAME_LINES + INODE_LINES);
    }

    /// The directory above it.
    pub(crate) fn parent(&self) -> u64 {
        self.parent.load(Relaxed)
    }
}

type Part = RwLock<FxHashMap<u64, Arc<Inode>>>;

/// All inodes in use, by number: in DRAM, or in the image from which the pool was mounted until a call uses them.
pub(crate) struct Inodes {
    parts: Box<[Part]>,
    cold: RwLock<Option<Arc<Cold>>>,
}

impl Inodes {
    pub(crate) fn new(cold: Option<Cold>) -> Self {
        let parts = (0..PARTS).map(|_| Part::default()).collect();
        Self { parts, cold: RwLock::new(cold.map(Arc::new)) }
    }

    fn part(&self, ino: u64) -> &Part {
        &self.parts[(ino / NEIGHBOURS) as usize % PARTS]
    }

    /// What is in an image still.
    pub(crate) fn cold(&self) -> Option<Arc<Cold>> {
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
    pub(crate) fn get(&self, ino: u64) -> Result<Arc<Inode>> {
        let found = self.part(ino).read().get(&ino).cloned();
        ran::did(Work::NODE, 1);
        ran::node(1);
        let inode = found.or_else(|| self.thaw(ino)).ok_or(Error::NoEntry)?;
        inode.recency.touch(INODE_LINES);
        Ok(inode)
    }

    /// The inode of a number, as a step of a path, which `PATH_COMPONENT` prices; see [`Inode::found`].
    pub(crate) fn at_hand(&self, ino: u64) -> Option<Arc<Inode>> {
        let found = self.part(ino).read().get(&ino).cloned();
        found.or_else(|| self.thaw(ino))
    }

    pub(crate) fn insert(&self, inode: Arc<Inode>) {
        ran::did(Work::NODE, 1);
        ran::node(1);
        let _own = ran::aside();
        self.part(inode.ino).write().insert(inode.ino, inode);
    }

    pub(crate) fn remove(&self, ino: u64) {
        ran::did(Work::NODE, 1);
        ran::node(1);
        let gone = self.part(ino).write().remove(&ino);
        drop(gone);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        let used: u64 = self.parts.iter().map(|part| part.read().len() as u64).sum();
        used + self.cold().map_or(0, |cold| cold.len())
    }

    /// The numbers of those in DRAM, in order.
    pub(crate) fn numbers(&self) -> Vec<u64> {
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
