//! Inodes in DRAM: a copy of the fields on the medium, the pages of a file, the names of a directory.
//!
//! The published code keeps these in the kernel's inode while that is in memory, and in three global trees while it is not. Here a
//! slot of a table has them from the mount on.
//!
//! Locks of an inode: `squirrelfs.inode`, then `squirrelfs.page_list`, which a read takes for each page, as published: readers of
//! one file meet there.

use std::sync::Arc;

use media::nvmm::Region;
use sim::map::TreeMap;
use sim::sync::AtomicU64;
use sim::{LockClass, Mutex, Recency, RwLock, ran};
use vfs::{Attr, FileKind, Ino, NewInode, Timestamp};

use crate::dir::DirIndex;
use crate::layout::{DIRECTORY, FILE, Layout, PAGE, RawInode, SYMLINK, owner_word, time_of, time_word};
use crate::object::{self, Durable, Live};
use crate::{RENAME, Volume, parts};
use base::error::{Error, Result};
use base::opens::Opens;
use base::persist::slot_table::SlotTable;

pub(crate) static INODE: LockClass = LockClass::new("squirrelfs.inode").under(&[&RENAME]).several();
pub(crate) static PAGE_LIST: LockClass = LockClass::new("squirrelfs.page_list").under(&[&INODE]);

/// Cache lines that a use of an inode touches: those on the medium.
const INODE_LINES: u64 = 2;
/// Slots that are made at once.
const CHUNK: u64 = 256;

/// An inode slot in DRAM.
pub(crate) struct Inode {
    pub(crate) ino: u64,
    /// Where it lies in the image.
    pub(crate) at: u64,
    /// Guards the inode on the medium and what is in DRAM of it.
    pub(crate) state: RwLock<State>,
    /// The page of the medium for each page of a file or symbolic link: 0 up to the size, without a hole.
    pub(crate) pages: Mutex<TreeMap<u64, u64>>,
    pub(crate) opens: Opens,
    /// The directory above, of a directory: the format does not say it. Changed with its names locked; renames between directories
    /// read it on their way up.
    pub(crate) parent: AtomicU64,
    recency: Recency,
}

/// The fields and names of an inode.
#[derive(Default)]
pub(crate) struct State {
    /// The fields as they are on the medium; all zero: it is free.
    pub(crate) raw: RawInode,
    /// Counts the uses of the number in this mount.
    pub(crate) generation: u32,
    /// The names, of a directory.
    pub(crate) names: Option<Box<DirIndex>>,
}

impl State {
    /// The names of a directory that has a name itself.
    pub(crate) fn dir(&self) -> Result<&DirIndex> {
        match &self.names {
            _ if self.raw.is_free() => Err(Error::NoEntry),
            Some(names) => Ok(names),
            None => Err(Error::NotDirectory),
        }
    }

    /// The same, to be changed.
    pub(crate) fn dir_mut(&mut self) -> Result<&mut DirIndex> {
        match &mut self.names {
            _ if self.raw.is_free() => Err(Error::NoEntry),
            Some(names) => Ok(names),
            None => Err(Error::NotDirectory),
        }
    }
}

/// All inodes.
pub(crate) struct InodeTable {
    region: Arc<Region>,
    layout: Layout,
    slots: SlotTable<Inode>,
}

impl InodeTable {
    pub(crate) fn new(region: &Arc<Region>, layout: Layout) -> Self {
        let slots = SlotTable::new(layout.inodes.div_ceil(CHUNK), CHUNK);
        Self { region: Arc::clone(region), layout, slots }
    }

    /// The inode with this number, in use or not.
    pub(crate) fn get(&self, number: u64) -> Result<&Inode> {
        let inode = self.slots.get(number).filter(|_| number < self.layout.inodes).ok_or(Error::NoEntry)?;
        self.region.touch(&inode.recency, inode.at, INODE_LINES);
        Ok(inode)
    }

    /// The same, which is made where it never was in use.
    pub(crate) fn made(&self, number: u64) -> Result<&Inode> {
        let make = |ino: u64| Inode {
            ino,
            at: Layout::inode(ino),
            state: RwLock::new(&INODE, State::default()),
            pages: Mutex::new(&PAGE_LIST, TreeMap::new()),
            opens: Opens::new(),
            parent: AtomicU64::new(0),
            recency: Recency::new(),
        };
        self.slots.add_chunk(number / CHUNK, make);
        self.get(number)
    }
}

impl Inode {
    /// The inode on the medium, of whose state the caller knows by its lock.
    pub(crate) fn object<'v, S>(&self, volume: &'v Volume) -> object::Inode<'v, Durable, S> {
        object::Inode::found(&volume.region, self.at)
    }

    /// The page on the medium of page `number` of the file.
    pub(crate) fn page(&self, number: u64) -> Result<u64> {
        let _part = sim::part(&parts::PAGE_LIST);
        let found = self.pages.lock().get(&number).copied();
        found.ok_or_else(|| Error::Corrupt(format!("page {number} of inode {} is missing", self.ino)))
    }

    /// Attributes for programs.
    pub(crate) fn attr(&self, state: &State) -> Result<Attr> {
        let raw = &state.raw;
        let kind = raw.file_kind().ok_or(Error::NoEntry)?;
        let (size, pages) = match &state.names {
            Some(names) => (PAGE, names.page_count()),
            None => (raw.size, raw.pages()),
        };
        Ok(Attr {
            ino: Ino(self.ino),
            kind,
            perm: u32::from(raw.mode),
            nlink: u32::from(raw.links),
            owner: raw.user(),
            rdev: 0,
            size,
            blocks: pages * (PAGE / 512),
            blksize: PAGE as u32,
            atime: time_of(raw.atime),
            mtime: time_of(raw.mtime),
            ctime: time_of(raw.ctime),
            generation: state.generation,
        })
    }

    /// Opens it once more.
    pub(crate) fn open(&self) -> Result<()> {
        if self.opens.add() {
            return Ok(());
        }
        let state = self.state.write();
        self.check_usable(&state)?;
        self.opens.add_locked();
        if state.raw.links > 0 {
            self.opens.admit();
        }
        Ok(())
    }

    /// Refuses an inode that has no name and is not open, and one that is free.
    pub(crate) fn check_usable(&self, state: &State) -> Result<()> {
        match state.raw.links {
            _ if state.raw.is_free() => Err(Error::NoEntry),
            0 if !self.opens.is_open() => Err(Error::NoEntry),
            _ => Ok(()),
        }
    }
}

/// The fields of a new inode.
pub(crate) fn new_fields(number: u64, kind: FileKind, new: &NewInode) -> RawInode {
    let now = time_word(Timestamp::now());
    let (kind, links) = match kind {
        FileKind::Directory => (DIRECTORY, 2),
        FileKind::Symlink => (SYMLINK, 1),
        _ => (FILE, 1),
    };
    RawInode {
        kind,
        links,
        mode: (new.perm & 0o7777) as u16,
        owner: owner_word(new.owner),
        ctime: now,
        atime: now,
        mtime: now,
        ino: number,
        ..RawInode::default()
    }
}

impl Volume {
    /// Stores new times of an inode that is locked for a change, durably: contents and attributes changed, or attributes alone.
    #[track_caller]
    pub(crate) fn touch(&self, inode: &Inode, state: &mut State, contents: bool) -> Result<()> {
        let now = time_word(Timestamp::now());
        let raw = &mut state.raw;
        raw.ctime = now;
        if contents {
            raw.mtime = now;
        }
        let changed = inode.object::<Live>(self).set_times(raw.ctime, [raw.atime, raw.mtime])?;
        let _ = self.fence(changed.flush());
        Ok(())
    }

    /// Takes a number and its slot for a new inode.
    pub(crate) fn claim(&self) -> Result<&Inode> {
        let number = self.numbers.take()?;
        let _part = sim::part(&parts::VFS_INODE);
        let inode = self.inodes.made(number)?;
        ran::allocate(1);
        Ok(inode)
    }
}
