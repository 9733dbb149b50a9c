//! Inodes in DRAM: their table, their locks, their numbers.
//!
//! The table has 128 buckets, as published, each with a lock; a bucket of `n / 128` inodes is searched from its beginning, unless
//! the option `buckets` is `grow`.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use ::vfs::{Attr, FileKind, Ino, Owner, Timestamp};
use sim::map::TreeSet;
use sim::sync::{AtomicU32, Ordering::SeqCst};
use sim::{LockClass, Mutex, Recency, RwLock, RwLockReadGuard, RwLockWriteGuard, Work};

use crate::dir::Dir;
use crate::layout::{BLOCK, INODES_MAX, ROOT};
use crate::map::Map;
use crate::package::{Attributes, Key, Time};
use crate::traffic::{READERS, WRITERS};
use base::error::{Error, Result};
use base::opens::Opens;
use base::persist::slot_table::SlotTable;

/// Of renames.
pub(crate) static RENAMES: LockClass = LockClass::new("wofs.renames").under(&[]);
/// Of an inode.
pub(crate) static INODE: LockClass = LockClass::new("wofs.inode").under(&[&RENAMES]).several();
/// Of a bucket of the table of inodes.
pub(crate) static TABLE: LockClass = LockClass::new("wofs.table").under(&[&INODE]);
/// Of the free inode numbers.
pub(crate) static NUMBERS: LockClass = LockClass::new("wofs.numbers").under(&[&INODE]);
/// Of free blocks, containers and the places in them.
pub(crate) static SPACE: LockClass = LockClass::new("wofs.space").under(&[&INODE]);

/// The classes for which its calls may wait.
pub(crate) static CLASSES: &[&LockClass] = &[&RENAMES, &INODE, &TABLE, &NUMBERS, &SPACE, &READERS, &WRITERS];

/// Lines that a task waits for that finds an inode by its number: its place, and what is loaded of it.
const INODE_LINES: u64 = 2;
/// Places of inodes that are made at once.
const PLACES: u64 = 1024;
/// Buckets of every table, as published.
pub(crate) const BUCKETS: u64 = 128;

/// The DATA that set the size of a file last, to which appends go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setter {
    pub(crate) vtail: u64,
    pub(crate) place: u64,
    pub(crate) first: u64,
    pub(crate) block: u64,
    pub(crate) blocks: u64,
}

/// The contents of a regular file or symbolic link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) size: u64,
    pub(crate) map: Map,
    pub(crate) setter: Option<Setter>,
    /// The bytes of the last block behind the size are known to be zeros.
    pub(crate) tail_is_zero: bool,
    /// Where the last write since the mount ended that was not an append in place.
    pub(crate) written_to: u64,
}

/// The part of an inode that depends on its kind.
#[derive(Debug)]
pub(crate) enum Body {
    File(Contents),
    Dir(Dir),
    Node,
}

/// All that the lock of an inode protects.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) attributes: Attributes,
    pub(crate) rdev: u64,
    pub(crate) links: u32,
    /// False once the last name is gone: nothing is stored of it any more.
    pub(crate) named: bool,
    /// It is freed: a call that found it before must not use it.
    pub(crate) is_free: bool,
    /// Its times of changes are stored in no package, or in packages of others that may be stored over.
    pub(crate) times_at_risk: bool,
    /// Its time of access is stored in no package. A DATA does not say it.
    pub(crate) access_at_risk: bool,
    pub(crate) body: Body,
}

/// An inode.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) key: Key,
    pub(crate) kind: FileKind,
    pub(crate) opens: Opens,
    /// Of a directory: the number of that in which its name is. Changed under [`RENAMES`].
    pub(crate) parent: AtomicU32,
    state: RwLock<State>,
}

/// The present.
pub(crate) fn now() -> Time {
    pack(Timestamp::now())
}

/// A time in one word: 34 bits of seconds and 30 of nanoseconds. Seconds beyond the years 1697 to 2242 become the nearest that fit.
pub(crate) fn pack(time: Timestamp) -> Time {
    let secs = time.secs.clamp(-(1 << 33), (1 << 33) - 1);
    secs.cast_unsigned() << 30 | u64::from(time.nanos.min(999_999_999))
}

fn unpack(time: Time) -> Timestamp {
    Timestamp { secs: time.cast_signed() >> 30, nanos: ((time & ((1 << 30) - 1)) as u32).min(999_999_999) }
}

impl Inode {
    pub(crate) fn new(key: Key, kind: FileKind, parent: u32, state: State) -> Self {
        let (opens, parent) = (Opens::new(), AtomicU32::new(parent));
        Self { key, kind, opens, parent, state: RwLock::new(&INODE, state) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        sim::work(Work::STEP, 1);
        self.state.read()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        sim::work(Work::STEP, 1);
        self.state.write()
    }

    /// Locks it for reading. [`Error::NoEntry`] if it was freed before.
    pub(crate) fn read_used(&self) -> Result<RwLockReadGuard<'_, State>> {
        let state = self.read();
        if state.is_free { Err(Error::NoEntry) } else { Ok(state) }
    }

    /// The same for writing.
    pub(crate) fn write_used(&self) -> Result<RwLockWriteGuard<'_, State>> {
        let state = self.write();
        if state.is_free { Err(Error::NoEntry) } else { Ok(state) }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// The number of the directory that has its name.
    pub(crate) fn parent(&self) -> u32 {
        self.parent.load(SeqCst)
    }

    pub(crate) fn attr(&self, state: &State) -> Attr {
        let (size, blocks) = match &state.body {
            Body::File(contents) => (contents.size, contents.map.blocks()),
            Body::Dir(dir) => (dir.len() as u64, 0),
            Body::Node => (0, 0),
        };
        let Attributes { mode, uid, gid, atime, mtime, ctime } = state.attributes;
        Attr {
            ino: Ino(u64::from(self.key.0)),
            kind: self.kind,
            perm: mode & 0o7777,
            nlink: state.links,
            owner: Owner { uid, gid },
            rdev: state.rdev,
            size,
            blocks: blocks * (BLOCK / 512),
            blksize: BLOCK as u32,
            atime: unpack(atime),
            mtime: unpack(mtime),
            ctime: unpack(ctime),
            generation: self.key.1,
        }
    }
}

impl State {
    /// The names of a directory that has a name itself.
    pub(crate) fn dir(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(_) if !self.named => Err(Error::NoEntry),
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    pub(crate) fn dir_mut(&mut self) -> Result<&mut Dir> {
        match &mut self.body {
            Body::Dir(_) if !self.named => Err(Error::NoEntry),
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    pub(crate) fn contents(&self) -> Result<&Contents> {
        match &self.body {
            Body::File(contents) => Ok(contents),
            Body::Dir(_) => Err(Error::IsDirectory),
            Body::Node => Err(Error::Invalid("not a regular file")),
        }
    }

    pub(crate) fn contents_mut(&mut self) -> Result<&mut Contents> {
        match &mut self.body {
            Body::File(contents) => Ok(contents),
            Body::Dir(_) => Err(Error::IsDirectory),
            Body::Node => Err(Error::Invalid("not a regular file")),
        }
    }

    /// The names of a directory changed now.
    pub(crate) fn names_changed(&mut self, now: Time) {
        (self.attributes.mtime, self.attributes.ctime, self.times_at_risk) = (now, now, true);
    }

    /// The size that an ATTR carries.
    pub(crate) fn size(&self) -> u64 {
        self.contents().map_or(0, |contents| contents.size)
    }
}

/// Numbers that no inode has.
#[derive(Debug)]
struct Numbers {
    next: u32,
    freed: TreeSet<u32>,
}

/// The inode that has a number, if one has.
///
/// The kernel keeps the inodes that calls use and finds them by a pointer, so a call finds one without a search here, too. The lock
/// guards a pointer for the time of a copy; it is none of the published ones, and no task waits for it in virtual time.
#[derive(Default)]
struct Place {
    inode: std::sync::RwLock<Option<Arc<Inode>>>,
    recency: Recency,
}

impl Place {
    fn put(&self, inode: Option<Arc<Inode>>) {
        *self.inode.write().unwrap_or_else(PoisonError::into_inner) = inode;
    }
}

/// All inodes that have a name or are open.
pub(crate) struct Inodes {
    places: SlotTable<Place>,
    /// The number of inodes in each bucket of the published table, whose chains a look-up of a name searches.
    table: Vec<Mutex<u64>>,
    numbers: Mutex<Numbers>,
    grows: bool,
}

impl Inodes {
    /// A table of these inodes.
    pub(crate) fn new(inodes: impl Iterator<Item = Inode>, grows: bool) -> Self {
        let table = (0..BUCKETS).map(|_| Mutex::new(&TABLE, 0)).collect();
        let numbers = Mutex::new(&NUMBERS, Numbers { next: ROOT + 1, freed: TreeSet::new() });
        let places = SlotTable::new(u64::from(INODES_MAX).div_ceil(PLACES), PLACES);
        let mut all = Self { places, table, numbers, grows };
        let mut used = BTreeSet::new();
        for inode in inodes {
            used.insert(inode.key.0);
            *all.table[bucket(inode.key.0)].get_mut() += 1;
            all.place(inode.key.0).put(Some(Arc::new(inode)));
        }
        let numbers = all.numbers.get_mut();
        numbers.next = used.last().map_or(ROOT, |last| *last) + 1;
        for number in (ROOT..numbers.next).filter(|number| !used.contains(number)) {
            numbers.freed.insert(number);
        }
        all
    }

    fn place(&self, number: u32) -> &Place {
        let number = u64::from(number);
        self.places.add_chunk(number / PLACES, |_| Place::default());
        self.places.get(number).expect("its chunk was made")
    }

    /// The inode with a number.
    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Inode>> {
        let place = self.places.get(ino.0).ok_or(Error::NoEntry)?;
        place.recency.touch(INODE_LINES);
        let inode = place.inode.read().unwrap_or_else(PoisonError::into_inner);
        inode.as_ref().map(Arc::clone).ok_or(Error::NoEntry)
    }

    /// The same, of which the kernel knows the number only: a chain of the published table is searched.
    pub(crate) fn search(&self, number: u32) -> Result<Arc<Inode>> {
        let chain = *self.table[bucket(number)].lock();
        if !self.grows {
            sim::work(Work::MISS, chain / 2);
        }
        self.get(Ino(u64::from(number)))
    }

    pub(crate) fn add(&self, inode: Arc<Inode>) {
        *self.table[bucket(inode.key.0)].lock() += 1;
        self.place(inode.key.0).put(Some(inode));
    }

    /// Forgets an inode, whose number is free from now on.
    pub(crate) fn remove(&self, number: u32) {
        *self.table[bucket(number)].lock() -= 1;
        self.place(number).put(None);
        self.give_number(number);
    }

    /// A free number.
    pub(crate) fn take_number(&self) -> Result<u32> {
        let mut numbers = self.numbers.lock();
        if let Some(number) = numbers.freed.first().copied() {
            numbers.freed.remove(&number);
            return Ok(number);
        }
        if numbers.next >= INODES_MAX {
            return Err(Error::NoSpace);
        }
        numbers.next += 1;
        Ok(numbers.next - 1)
    }

    pub(crate) fn give_number(&self, number: u32) {
        self.numbers.lock().freed.insert(number);
    }

    /// Inodes there are.
    pub(crate) fn len(&self) -> u64 {
        let numbers = self.numbers.lock();
        u64::from(numbers.next) - u64::from(ROOT) - numbers.freed.len() as u64
    }

    /// All inodes, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let end = self.numbers.lock().next;
        sim::ran::collected((ROOT..end).filter_map(|number| self.get(Ino(u64::from(number))).ok()))
    }
}

fn bucket(number: u32) -> usize {
    (u64::from(number) % BUCKETS) as usize
}
