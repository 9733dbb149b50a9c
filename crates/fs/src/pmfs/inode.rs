//! Inodes: the table on the medium, and a lock for each in DRAM.
//!
//! An inode number is the byte offset of its slot in the inode table, which is a file. Attributes are read from the medium, which
//! is memory. DRAM holds the lock, the number of opens, and a directory's name index: 152 bytes for each slot of the table, in use
//! or not. While a task has the right to change an inode there is a copy of it beside, for readers that do not lock it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use media::nvmm::Region;
use sim::{ByteRun, LockClass, Mutex, Recency, Run, RwLock, RwLockWriteGuard, Work};
use vfs::{Attr, FileKind, Ino, NewInode, Owner, Timestamp};
use zerocopy::IntoBytes;

use super::Volume;
use super::dir::DirIndex;
use super::journal::Transaction;
use super::layout::{BLOCK, BLOCK_SHIFT, FIRST_INO, INODE_SLOT, RawInode, TABLE_INODE, TruncateItem, ino};
use super::map::{Freed, Tree, fill_entries};
use super::times::seconds;
use super::xattr::attribute_pointer;
use base::error::{Error, Result};
use base::opens::Opens;
use base::persist::attributes::blocks_of;
use base::persist::free_map::FreeMap;
use base::persist::slot_table::SlotTable;

pub(crate) static INODE: LockClass = LockClass::new("pmfs.inode").under(&[&super::RENAME]).several();
pub(super) static INODE_TABLE: LockClass =
    LockClass::new("pmfs.inode_table").under(&[&super::truncate::TRUNCATE]);

/// An inode slot in DRAM.
pub(crate) struct Inode {
    /// Its number.
    pub(crate) ino: u64,
    /// Where it lies in the image.
    pub(crate) offset: u64,
    /// Guards the inode on the medium, its data and what is below.
    pub(crate) state: RwLock<InodeState>,
    /// For readers without the inode's lock, such as `stat` and a seek to the end. A lock of the host guards it, held for one copy.
    seen: parking_lot::Mutex<Seen>,
    /// How often it is open, and who frees it.
    pub(crate) opens: Opens,
    recency: Recency,
}

const _: () = assert!(size_of::<Inode>() <= 152);

/// The blocks of an inode.
#[derive(Default)]
pub(crate) struct Contents {
    tree: Vec<Freed>,
    attributes: Vec<u64>,
}

/// What readers see that do not have the lock of an inode.
#[derive(Default)]
enum Seen {
    /// Nothing: they wait for the lock.
    #[default]
    Nothing,
    /// The inode as it is on the medium, which no task changes.
    Medium,
    /// The inode as it was when a task got the right to change it.
    Copy(Box<RawInode>),
}

/// Cache lines that a lookup by number touches: the slot in DRAM, and the inode on the medium.
const INODE_LINES: u64 = 2;

/// The state of an inode that is only in DRAM.
#[derive(Default)]
pub(crate) struct InodeState {
    /// It was made without a name, and may get one.
    pub(crate) nameless: bool,
    /// Index of the names, of a directory that was searched.
    pub(crate) names: Option<Box<DirIndex>>,
}

/// The right to change an inode. When it ends, the copy for readers without the lock is updated.
pub(crate) struct Locked<'a> {
    state: RwLockWriteGuard<'a, InodeState>,
    inode: &'a Inode,
    volume: &'a Volume,
}

impl Deref for Locked<'_> {
    type Target = InodeState;
    fn deref(&self) -> &InodeState {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut InodeState {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.inode.show(self.volume.raw(self.inode).ok().as_ref());
    }
}

impl Inode {
    /// Its first half, which the journal logs.
    pub(crate) fn half(&self) -> ByteRun {
        ByteRun::new(self.offset, ino::HALF)
    }

    /// Publishes the inode on the medium, which is `raw`, for readers without the lock, and lets it be opened. An inode without a
    /// name is not published, because it may be freed. The caller has the lock.
    fn show(&self, raw: Option<&RawInode>) {
        let named = raw.is_some_and(|raw| raw.links > 0);
        if named {
            self.opens.admit();
        }
        *self.seen.lock() = if named { Seen::Medium } else { Seen::Nothing };
    }

    /// A task is about to change the inode: readers without the lock go on seeing it as it is now.
    fn keep_copy(&self, volume: &Volume) {
        let mut seen = self.seen.lock();
        if matches!(*seen, Seen::Medium) {
            *seen = volume.raw(self).map_or(Seen::Nothing, |raw| Seen::Copy(Box::new(raw)));
            drop(seen);
            sim::ran::allocate(1);
            sim::ran::bytes(size_of::<RawInode>() as u64);
        }
    }

    /// Stores a new access time, which needs no right to change the inode. The published copy is locked meanwhile, so that no
    /// reader stores the old time into it afterwards.
    pub(crate) fn store_accessed(&self, atime: Timestamp, store: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut seen = self.seen.lock();
        store()?;
        if let Seen::Copy(raw) = &mut *seen {
            raw.set_atime(atime);
        }
        Ok(())
    }

    /// Attributes for programs.
    pub(crate) fn attr(&self, raw: &RawInode) -> Result<Attr> {
        let kind = FileKind::from_mode(u32::from(raw.mode)).ok_or_else(|| {
            Error::Corrupt(format!("inode {}: mode {:o} is of no kind", self.ino, raw.mode))
        })?;
        Ok(Attr {
            ino: Ino(self.ino),
            kind,
            perm: u32::from(raw.mode) & 0o7777,
            nlink: u32::from(raw.links),
            owner: Owner { uid: raw.uid, gid: raw.gid },
            rdev: u64::from(raw.rdev),
            size: raw.size,
            blocks: u64::from(raw.blocks) * (BLOCK / 512),
            blksize: BLOCK as u32,
            atime: raw.atime(),
            mtime: raw.mtime(),
            ctime: raw.ctime(),
            generation: raw.generation,
        })
    }
}

/// All inodes.
pub(crate) struct InodeTable {
    /// Where the inodes lie: the first use of one is priced by its medium.
    region: Arc<Region>,
    slots: SlotTable<Inode>,
    free: Mutex<FreeSlots>,
    slots_per_block: u64,
}

struct FreeSlots {
    /// Bit set: the slot may be given out.
    map: FreeMap,
    /// Blocks of the table.
    blocks: u64,
}

impl InodeTable {
    /// An empty table for an image of `size` bytes in `region` whose table has blocks of `1 << shift` bytes.
    pub(crate) fn new(region: &Arc<Region>, size: u64, shift: u32) -> Self {
        let max_blocks = (size >> shift).max(1);
        let slots_per_block = (1 << shift) / INODE_SLOT;
        Self {
            region: Arc::clone(region),
            slots: SlotTable::new(max_blocks, slots_per_block),
            free: Mutex::new(
                &INODE_TABLE,
                FreeSlots { map: FreeMap::new(max_blocks * slots_per_block), blocks: 0 },
            ),
            slots_per_block,
        }
    }

    /// The inode `ino`, in use or not.
    #[inline]
    pub(crate) fn get(&self, ino: u64) -> Result<&Inode> {
        let slot =
            if ino.is_multiple_of(INODE_SLOT) && ino > 0 { self.slots.get(ino / INODE_SLOT) } else { None };
        let inode = slot.ok_or(Error::NoEntry)?;
        self.region.touch(&inode.recency, inode.offset, INODE_LINES);
        Ok(inode)
    }

    fn add_block(&self, free: &mut FreeSlots, block: u64, offset: u64) {
        let make = |slot: u64| Inode {
            ino: slot * INODE_SLOT,
            offset: offset + (slot % self.slots_per_block) * INODE_SLOT,
            state: RwLock::new(&INODE, InodeState::default()),
            seen: parking_lot::Mutex::default(),
            opens: Opens::new(),
            recency: Recency::new(),
        };
        self.slots.add_chunk(block, make);
        free.blocks = free.blocks.max(block + 1);
    }

    /// Slots of the table, and how many of them are free.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let free = self.free.lock();
        (free.blocks * self.slots_per_block, free.map.free())
    }

    /// Gives a slot back.
    pub(crate) fn put(&self, ino: u64) {
        sim::ran::node(1);
        self.free.lock().map.put(ino / INODE_SLOT);
    }
}

/// Whether the slot at `at` may be given out. Only these fields are read: a crash may have left any bytes in the others.
pub(crate) fn is_free_slot(region: &Region, at: u64) -> Result<bool> {
    let (mode, links) = (region.load_u16(at + ino::MODE)?, region.load_u16(at + ino::LINKS)?);
    Ok(RawInode { mode, links, ..RawInode::default() }.is_free())
}

impl Volume {
    /// The inode as it is on the medium.
    #[inline]
    pub(crate) fn raw(&self, inode: &Inode) -> Result<RawInode> {
        Ok(self.region.read(inode.offset)?)
    }

    /// Locks an inode to change it.
    pub(crate) fn lock<'a>(&'a self, inode: &'a Inode) -> Locked<'a> {
        let state = inode.state.write();
        inode.keep_copy(self);
        Locked { state, inode, volume: self }
    }

    /// The inode, if it has a name or is open. Waits for a task that changes it only when no copy is published.
    pub(crate) fn read_shared(&self, inode: &Inode) -> Result<RawInode> {
        sim::interact();
        match &*inode.seen.lock() {
            Seen::Nothing => {}
            Seen::Medium => return self.raw(inode),
            Seen::Copy(raw) => return Ok(**raw),
        }
        let state = inode.state.read();
        let raw = self.live_or_open(inode, &state)?;
        inode.show(Some(&raw));
        Ok(raw)
    }

    /// The inode as it is on the medium, which must be in use.
    #[inline]
    pub(crate) fn live(&self, inode: &Inode) -> Result<RawInode> {
        let raw = self.raw(inode)?;
        if raw.is_free() { Err(Error::NoEntry) } else { Ok(raw) }
    }

    /// Stores the part of an inode that is logged as one entry: everything but attributes, owner, generation, access time and
    /// device.
    pub(crate) fn store_half(&self, inode: &Inode, raw: &RawInode) -> Result<()> {
        let half = raw.as_bytes().first_chunk::<{ ino::HALF as usize }>();
        Ok(self.region.write(inode.offset, half.expect("an inode is longer than its half"))?)
    }

    /// Puts the slots of table block `block`, at `offset`, into DRAM; free ones may be given out.
    pub(crate) fn load_table_block(&self, block: u64, offset: u64) -> Result<()> {
        let mut free = self.inodes.free.lock();
        self.inodes.add_block(&mut free, block, offset);
        let first = block * self.inodes.slots_per_block;
        for slot in first.max(FIRST_INO / INODE_SLOT)..first + self.inodes.slots_per_block {
            if is_free_slot(&self.region, offset + (slot - first) * INODE_SLOT)? {
                free.map.put(slot);
            }
        }
        Ok(())
    }

    /// Takes the lowest free slot; the table grows when there is none. The slot is not live before it has a link.
    pub(crate) fn claim_inode(&self) -> Result<&Inode> {
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let mut free = self.inodes.free.lock();
        sim::work(Work::STEP, free.map.depth());
        let slot = match free.map.take_first() {
            Some(slot) => slot,
            None => {
                self.grow_table(&mut free)?;
                free.map.take_first().ok_or(Error::NoSpace)?
            }
        };
        drop(free);
        self.inodes.get(slot * INODE_SLOT)
    }

    /// Grows the table until it has `count` slots.
    pub(crate) fn ensure_inodes(&self, count: u64) -> Result<()> {
        let mut free = self.inodes.free.lock();
        while free.blocks * self.inodes.slots_per_block < count {
            self.grow_table(&mut free)?;
        }
        Ok(())
    }

    /// Adds one zeroed block to the inode table.
    fn grow_table(&self, free: &mut FreeSlots) -> Result<()> {
        let block = free.blocks;
        let mut tx = self.journal.begin(1 + fill_entries(1))?;
        let grown = self.grow_table_in(&mut tx, block);
        let offset = self.end(tx, grown)?;
        self.inodes.add_block(free, block, offset);
        let first = block * self.inodes.slots_per_block;
        sim::ran::node(self.inodes.slots_per_block);
        (first..first + self.inodes.slots_per_block).for_each(|slot| {
            free.map.put(slot);
        });
        Ok(())
    }

    /// Maps and zeroes block `block` of the inode table; returns where it is.
    fn grow_table_in(&self, tx: &mut Transaction, block: u64) -> Result<u64> {
        self.journal.log(tx, &[ByteRun::new(TABLE_INODE, ino::HALF)])?;
        let mut raw: RawInode = self.region.read(TABLE_INODE)?;
        let mut tree = Tree::of(&raw);
        let (shift, mut offset) = (tree.shift, 0);
        let filled = tree.fill(self, tx, Run::new(block, 1), &mut |_, at| {
            offset = at;
            Ok(self.region.nt_zero(at, 1 << shift)?)
        })?;
        if filled.mapped == 0 {
            return Err(Error::NoSpace);
        }
        (raw.root, raw.height) = (tree.root, tree.height);
        raw.size = (block + 1) << tree.shift;
        raw.blocks = raw.blocks.saturating_add(1 << (tree.shift - BLOCK_SHIFT));
        let half = raw.as_bytes().first_chunk::<{ ino::HALF as usize }>();
        self.region.write(TABLE_INODE, half.expect("an inode is longer than its half"))?;
        Ok(offset)
    }

    /// Writes a new inode into its claimed slot, whose first half the caller has logged. `body` is its only block, or 0.
    pub(crate) fn init_inode(
        &self,
        inode: &Inode,
        new: &NewInode,
        (kind, rdev): (FileKind, u64),
        (body, size): (u64, u64),
    ) -> Result<RawInode> {
        let _scope = sim::scope(media::charges::METADATA);
        inode.show(None);
        let before = self.raw(inode)?;
        let block_type = if kind == FileKind::Regular { self.settings.block_type } else { 0 };
        let mut raw = RawInode {
            block_type,
            root: body,
            size,
            blocks: u32::from(body != 0),
            mode: (kind.mode_bits() | new.perm & 0o7777) as u16,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            uid: new.owner.uid,
            gid: new.owner.gid,
            generation: before.generation.wrapping_add(1),
            rdev: rdev as u32,
            ..RawInode::default()
        };
        raw.touch(Timestamp::now());
        raw.set_atime(raw.mtime());
        self.region.write(inode.offset, &raw)?;
        self.region.write(inode.offset + size_of::<RawInode>() as u64, &TruncateItem::default())?;
        self.region.flush(inode.offset, INODE_SLOT);
        Ok(raw)
    }

    /// Frees an inode that has no name and is not open: its slot first, durably, then its blocks. What a failure leaves can be
    /// freed by another call.
    pub(crate) fn free_inode(&self, inode: &Inode) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        self.check_sound()?;
        let raw = self.raw(inode)?;
        let contents = self.contents(inode, &raw)?;
        if !raw.is_free() || raw.root != 0 {
            let half = Some(inode.half());
            let ranges = sim::ran::collected(half.into_iter().chain(attribute_pointer(inode, &raw)));
            let mut tx = self.journal.begin(ranges.len() as u32)?;
            let logged = self.journal.log(&mut tx, &ranges);
            self.end(tx, logged.and_then(|()| self.erase(inode, &raw)))?;
        }
        self.free_contents(inode, contents)?;
        self.truncate_remove(inode)?;
        self.inodes.put(inode.ino);
        Ok(())
    }

    /// Frees the slot of an inode. The caller has logged its first half, and the pointer to its attributes if it has any.
    pub(crate) fn erase(&self, inode: &Inode, raw: &RawInode) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        if raw.xattr != 0 {
            self.region.store_u64(inode.offset + ino::XATTR, 0)?;
        }
        self.store_half(inode, &RawInode { ctime_extra: seconds(), ..RawInode::default() })
    }

    /// All blocks of an inode.
    pub(crate) fn contents(&self, inode: &Inode, raw: &RawInode) -> Result<Contents> {
        let (mut tree, pointer) = (Vec::new(), inode.offset + ino::ROOT);
        Tree::of(raw).visit(&self.region, &mut |visited| {
            sim::ran::push(&mut tree, Freed { offset: visited.offset, shift: visited.shift, pointer });
            Ok(())
        })?;
        Ok(Contents { tree, attributes: blocks_of(&self.region, raw.xattr)? })
    }

    /// Frees the blocks of an inode whose slot is free, durably.
    pub(crate) fn free_contents(&self, inode: &Inode, contents: Contents) -> Result<()> {
        let _part = sim::part(&super::parts::FREE_CONTENTS);
        self.maps.forget(inode.ino);
        sim::work(Work::STEP, contents.tree.len() as u64);
        self.free_blocks(contents.tree)?;
        self.free_attributes(inode, contents.attributes)
    }
}
