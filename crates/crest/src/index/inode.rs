//! Inodes in DRAM: what the records about them lead to, and a lock for each.
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

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use sim::map::TreeMap;
use sim::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use sim::{Recency, SpreadReadGuard, SpreadRwLock, SpreadWriteGuard, ran};
use vfs::credentials::Subject;
use vfs::{Attr, FileKind, Ino, Owner, SetTime, Timestamp};

use super::buffer::Buffer;
use super::dir::Dir;
use super::map::BlockMap;
use super::pages::Pages;
use super::sharing::{Shares, Sharing};
use crate::format::layout::{BLOCK, times};
use crate::format::record;
use crate::format::tree::Stamped;
use crate::locks;
use base::error::{Error, Result};

/// Links of an inode, at most.
pub(crate) const LINKS_MAX: u32 = 65_000;
/// Lines that a task waits for that finds an inode by its number: the slot of the number in the table of inodes, and two of it.
pub(crate) const INODE_LINES: u64 = 3;
/// The same of a name: its slot.
const NAME_LINES: u64 = 1;
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

/// Logical times of the last records that set attributes after the birth: of mode and owner, and of a cut; 0: none, or it is not
/// known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) owner: u64,
    pub(crate) cut: u64,
}

/// The value of an extended attribute.
#[derive(Clone, Debug)]
pub(crate) struct Attribute {
    pub(crate) value: Vec<u8>,
    /// Logical time of the record that has set it; 0: it is not known.
    pub(crate) since: u64,
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
    pub(crate) xattrs: TreeMap<Vec<u8>, Attribute>,
    /// Made with the first change of an attribute.
    pub(crate) attributes: Option<Box<Changes>>,
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
    pub(crate) recency: Recency,
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
            attributes: None,
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

    /// The last changes of attributes that are known.
    pub(crate) fn changes_of_attributes(&self) -> Changes {
        self.attributes.as_deref().copied().unwrap_or_default()
    }

    fn attributes_mut(&mut self) -> &mut Changes {
        self.attributes.get_or_insert_with(|| ran::boxed(Changes::default()))
    }

    /// A record of attributes counts, whose logical time is that of the inode: what it means in DRAM.
    pub(crate) fn apply(&mut self, body: &record::Body) {
        match body {
            record::Body::Owner(owner) => {
                self.mode = self.mode & 0o170_000 | u32::from(owner.mode) & 0o7777;
                (self.uid, self.gid) = (owner.uid, owner.gid);
                self.ctime = implicit(owner.time);
                self.attributes_mut().owner = self.last;
            }
            record::Body::Cut(_) => self.attributes_mut().cut = self.last,
            record::Body::Times(set) => {
                let stamped = |value| Stamped { stamp: set.stamp, explicit: true, value };
                if set.mask & times::ATIME != 0 {
                    (self.atime, self.accessed) = (stamped(set.atime), false);
                }
                if set.mask & times::MTIME != 0 {
                    self.mtime = stamped(set.mtime);
                }
                if set.mask & times::CTIME != 0 {
                    self.ctime = stamped(set.stamp);
                }
            }
            _ => {}
        }
    }

    // ---- what of a file is in frames

    /// The smaller stamp of its times of change, where records have set them.
    pub(crate) fn kept_stamp(&self) -> u64 {
        self.mtime.stamp.min(self.ctime.stamp)
    }

    /// The smallest stamp of a record of the times of change that may count, while DRAM is ahead of it.
    pub(crate) fn stamp_ahead_of(&self) -> Option<u64> {
        let buffer = self.buffer.as_ref().filter(|buffer| !buffer.frames.is_empty()).map(|it| it.kept);
        let pages = self.pages.as_ref().filter(|pages| pages.dirty > 0).map(|it| it.kept);
        buffer.into_iter().chain(pages).min()
    }

    /// Whether it has dirty frames.
    pub(crate) fn is_dirty(&self) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| !buffer.frames.is_empty())
    }

    /// The size that the records say.
    pub(crate) fn durable_size(&self) -> u64 {
        self.buffer
            .as_ref()
            .filter(|buffer| !buffer.frames.is_empty())
            .map_or(self.size, |buffer| buffer.durable)
    }

    /// Blocks of the file, those among them for which frames have taken blocks.
    fn blocks_held(&self, blocks: &BlockMap) -> u64 {
        blocks.mapped() + self.buffer.as_ref().map_or(0, |buffer| buffer.over_holes)
    }

    /// Whether stores of mappings go to frames.
    pub(crate) fn is_mapped_atomically(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.are_mapped())
    }

    /// Whether pages are dirty.
    pub(crate) fn has_dirty_pages(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.dirty > 0)
    }

    /// The first dirty page from one on.
    pub(crate) fn next_dirty_page(&self, first: u64) -> Option<u64> {
        self.pages.as_ref()?.next_dirty(first)
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
        if let Body::Dir(dir) = &state.body {
            sharing.split_large(dir);
        }
        let shared = sharing.after == 0
            && match &state.body {
                Body::Dir(dir) => sharing.buckets && dir.split(sharing.buckets_of_dir()),
                Body::File(_) => sharing.granules && !is_special,
                _ => false,
            };
        state.shared = shared;
        Self {
            ino: state.ino,
            is_dir: state.is_dir(),
            is_file: matches!(state.body, Body::File(_)),
            is_special: AtomicBool::new(is_special),
            names: if let Body::Dir(dir) = &state.body { Some(Arc::clone(dir)) } else { None },
            rights: [state.mode, state.uid, state.gid].map(AtomicU32::new),
            state: SpreadRwLock::new(&locks::INODE, state),
            sharing,
            shared: AtomicBool::new(shared),
            shares: OnceLock::new(),
            seen: parking_lot::Mutex::new(None),
            parent: AtomicU64::new(parent),
            recency: Recency::new(),
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
            self.end_sharing(&mut state);
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
        if self.shared.load(Relaxed) {
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

    // ---- while tasks share it

    /// The state of the tasks that share it.
    pub(crate) fn shares(&self) -> &Shares {
        self.shares.get_or_init(|| Box::new(Shares::new(self.sharing, self.is_dir)))
    }

    /// Takes what those have left who shared it. The caller has it alone.
    #[cold]
    pub(crate) fn end_sharing(&self, state: &mut State) {
        if let Some(shares) = self.shares.get() {
            let (id, time, access) = shares.take_last();
            state.last = state.last.max(id);
            if time > 0 {
                state.data_changed(time);
            }
            if access > 0 {
                state.accessed_at(access);
            }
        }
        state.changes = 0;
        state.shared = self.sharing.after == 0 && self.may_be_shared();
        self.shared.store(state.shared, Relaxed);
    }

    /// What `stat` shows of an inode that tasks share.
    pub(crate) fn attr_beside(&self, state: &State) -> Attr {
        let (_, time, access) = self.shares().last();
        let attr = state.attr();
        let later = |old, time| if time > 0 { unpack(time) } else { old };
        Attr {
            atime: later(attr.atime, access),
            mtime: later(attr.mtime, time),
            ctime: later(attr.ctime, time),
            ..attr
        }
    }

    /// Whether tasks may share it.
    pub(crate) fn may_be_shared(&self) -> bool {
        if self.is_dir { self.sharing.buckets } else { self.sharing.granules && self.takes_data_ahead() }
    }

    // ---- users

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
        let [mode, uid, gid] = &self.rights;
        let (mode, uid, gid) = (mode.load(Relaxed), uid.load(Relaxed), gid.load(Relaxed));
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
