//! Inodes: the table on the device and the ones in memory.
//!
//! The inodes in memory are found by their numbers in shards. A lookup takes a lock of the host for one look, which is no lock of
//! the modelled machine: there an open file or a cached name leads to its inode by a pointer. A task that reads an inode from the
//! table, makes one or forgets one takes `ext4.inodes` of its shard (Linux: `inode_hash_lock`, one for all), so that no task puts
//! an inode into memory as it was before another task freed it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use sim::{LockClass, Mutex, MutexGuard, Recency, RwLock, RwLockWriteGuard, Work, ran};
use vfs::{Attr, Ino, Owner, Timestamp};
use zerocopy::{FromBytes, IntoBytes};

use super::Volume;
use super::delayed::Delayed;
use super::journal::Handle;
use super::layout::{
    BAD_INO, EXTRA_ISIZE, OLD_INODE_BYTES, RAW_INODE_BYTES, ROOT_INO, RawInode, crc32c, flag, put16,
};
use super::superblock::Geo;
use super::windows::Readahead;
use base::cache::Mapping;
use base::error::{Error, Result};
use base::opens::Opens;

pub(super) static INODES: LockClass = LockClass::new("ext4.inodes").under(&[&super::INODE]).several();

/// Times of inodes are those of the last tick of the timer (Linux: `current_time`, with 250 ticks a second).
const TICK_NS: u32 = 4_000_000;
/// Inodes without users are forgotten when there are about this many in memory.
const KEPT_INODES: usize = 50_000;
/// Parts of the inodes in memory; neighbours in the table of a directory's files fall into different ones.
const SHARDS: usize = 64;

/// The size of what a read without the inode's lock cannot read: it is no file, or it is gone.
const UNREADABLE: u64 = u64::MAX;

/// What an inode's lock protects.
pub(crate) struct InodeState {
    pub(crate) raw: RawInode,
    /// What follows [`RawInode`] in the table: attributes.
    pub(crate) extra: Box<[u8]>,
    /// It was open when it lost its last name, or was made without one, and is not being freed yet.
    pub(crate) kept_open: bool,
    /// It was made without a name, and may get one while it is open.
    pub(crate) nameless: bool,
    /// It has no links and is not open: it is being freed, or has been.
    pub(crate) gone: bool,
    /// After this block of the file was that block of the device: where an append looks first.
    pub(crate) last: Option<(u64, u64)>,
    /// The transaction that changed it last, and the one that changed what its data needs.
    pub(crate) tid: u32,
    /// It is on the list of orphans.
    pub(crate) orphan: bool,
    /// Blocks that were written to and are not allocated.
    pub(crate) delayed: Delayed,
}

/// An inode in memory.
pub(crate) struct Inode {
    pub(crate) ino: u64,
    pub(crate) state: RwLock<InodeState>,
    /// How often a [`Change`] has begun and ended: odd while there is one.
    changes: AtomicU64,
    /// The size that the last of them left, or [`UNREADABLE`].
    shown_size: AtomicU64,
    /// Its cached pages. There is none before the first use of one.
    mapping: OnceLock<Arc<Mapping>>,
    /// The count of its opens, which says who frees it. While it is open it must stay in memory.
    pub(crate) opens: Opens,
    /// A close allocates what was not allocated yet: the file was cut to nothing (Linux: `EXT4_STATE_DA_ALLOC_CLOSE`).
    pub(crate) allocates_on_close: AtomicBool,
    /// Attributes as the last change left them, for those who ask without the lock; none: none has asked. A lock of the host guards
    /// it, held for one copy.
    seen: parking_lot::Mutex<Option<Attr>>,
    /// Bytes of a block of the file system; 0 of one that is in no shard.
    block_bytes: u32,
    /// What was read ahead.
    pub(crate) readahead: Mutex<Readahead>,
    /// The block that was read last.
    pub(crate) last_read: AtomicU64,
    /// Free blocks may be set aside for it.
    pub(crate) has_window: AtomicBool,
    /// When it was used last.
    recency: Recency,
}

/// Lines that a task waits for that finds an inode by its number.
const INODE_LINES: u64 = 2;

/// The right to change an inode. Reads that began without the lock notice it.
pub(crate) struct Change<'a> {
    inode: &'a Inode,
    state: RwLockWriteGuard<'a, InodeState>,
    /// Reads without the lock look at what changes.
    is_counted: bool,
}

impl Deref for Change<'_> {
    type Target = InodeState;
    fn deref(&self) -> &InodeState {
        &self.state
    }
}

impl DerefMut for Change<'_> {
    fn deref_mut(&mut self) -> &mut InodeState {
        &mut self.state
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.inode.show(&self.state);
        if self.is_counted {
            self.inode.shown_size.store(self.state.shown_size(), SeqCst);
            self.inode.changes.fetch_add(1, SeqCst);
        }
    }
}

/// The time that a change of an inode gets now.
pub(crate) fn change_time() -> Timestamp {
    let now = Timestamp::now();
    Timestamp { nanos: now.nanos - now.nanos % TICK_NS, ..now }
}

/// The inodes in memory, by number.
pub(crate) struct Inodes([Shard; SHARDS]);

struct Shard {
    /// A task that reads an inode in, makes one or forgets one has it.
    changes: Mutex<()>,
    known: parking_lot::RwLock<FxHashMap<u64, Arc<Inode>>>,
}

/// The right to put an inode into its shard or to take it out.
struct ShardChange<'a> {
    shard: &'a Shard,
    _changes: MutexGuard<'a, ()>,
}

/// A look into a table of inodes, or a change of it.
fn charge_for_known() {
    ran::did(Work::HASH, 1);
    ran::did(Work::NODE, 1);
    ran::hash(size_of::<u64>() as u64);
    ran::node(1);
}

impl Inodes {
    /// None.
    pub(crate) fn new() -> Self {
        let shard = || Shard { changes: Mutex::new(&INODES, ()), known: parking_lot::RwLock::default() };
        Self(std::array::from_fn(|_| shard()))
    }

    fn shard(&self, ino: u64) -> &Shard {
        &self.0[ino as usize % SHARDS]
    }

    /// The inode of a number, if it is in memory.
    #[inline]
    pub(crate) fn get(&self, ino: u64) -> Option<Arc<Inode>> {
        charge_for_known();
        let inode = self.shard(ino).known.read().get(&ino).map(Arc::clone)?;
        inode.recency.touch(INODE_LINES);
        Some(inode)
    }

    fn change(&self, ino: u64) -> ShardChange<'_> {
        let shard = self.shard(ino);
        ShardChange { shard, _changes: shard.changes.lock() }
    }

    /// Forgets those that `unused` says are not needed.
    pub(crate) fn forget_unused(&self, unused: impl Fn(&Arc<Inode>) -> bool) {
        for shard in &self.0 {
            let _changes = shard.changes.lock();
            shard.known.write().retain(|_, inode| !unused(inode));
        }
    }
}

impl ShardChange<'_> {
    fn insert(&self, inode: &Arc<Inode>) {
        let mut known = self.shard.known.write();
        if known.len() >= KEPT_INODES / SHARDS && known.len() == known.capacity() {
            known.retain(|_, inode| !inode.is_unused());
        }
        // Its growth is in the price of a node.
        let own = ran::aside();
        known.insert(inode.ino, Arc::clone(inode));
        drop((own, known));
        charge_for_known();
        inode.recency.touch(INODE_LINES);
    }
}

impl Inode {
    /// An inode that is in no shard.
    pub(crate) fn alone(ino: u64, class: &'static LockClass, state: InodeState) -> Self {
        let opens = Opens::new();
        if state.admits_all() {
            opens.admit();
        }
        Self {
            ino,
            opens,
            allocates_on_close: AtomicBool::new(false),
            seen: parking_lot::Mutex::new(None),
            block_bytes: 0,
            changes: AtomicU64::new(0),
            shown_size: AtomicU64::new(state.shown_size()),
            state: RwLock::new(class, state),
            mapping: OnceLock::new(),
            readahead: Readahead::none(),
            last_read: AtomicU64::new(u64::MAX),
            has_window: AtomicBool::new(false),
            recency: Recency::new(),
        }
    }

    /// `tid`: a transaction that may have changed it.
    fn new(ino: u64, raw: RawInode, extra: Box<[u8]>, tid: u32, block_bytes: u32) -> Arc<Self> {
        let state = InodeState { tid, ..InodeState::of(raw, extra) };
        ran::shared(Self { block_bytes, ..Self::alone(ino, &super::INODE, state) })
    }

    /// Attributes as the last change left them, if they were asked for before; no lock is taken.
    pub(crate) fn seen(&self) -> Option<Attr> {
        sim::interact();
        *self.seen.lock()
    }

    /// Attributes. Waits for a task that changes it only when none was seen before.
    pub(crate) fn attr(&self) -> Result<Attr> {
        if let Some(attr) = self.seen() {
            return Ok(attr);
        }
        let state = self.state.read();
        state.check_live()?;
        let attr = state.attr(self.block_bytes, self.ino)?;
        if state.raw.links.get() > 0 {
            *self.seen.lock() = Some(attr);
        }
        Ok(attr)
    }

    /// A change has ended: those who do not lock see what it left, and open the inode if there is nothing to look at. The caller
    /// has the lock.
    pub(crate) fn show(&self, state: &InodeState) {
        match state.admits_all() {
            true => self.opens.admit(),
            false => self.opens.lock(),
        }
        let mut seen = self.seen.lock();
        if seen.is_some() {
            let named = state.raw.links.get() > 0 && !state.gone;
            *seen = named.then(|| state.attr(self.block_bytes, self.ino).ok()).flatten();
        }
    }

    /// Locks it for a change of what it holds, of its size, or of whether it may be used.
    pub(crate) fn change(&self) -> Change<'_> {
        let state = self.state.write();
        self.changes.fetch_add(1, SeqCst);
        Change { inode: self, state, is_counted: true }
    }

    /// Locks it for a change of attributes, or of where its blocks are, that no read without the lock looks at.
    pub(crate) fn change_beside(&self) -> Change<'_> {
        Change { inode: self, state: self.state.write(), is_counted: false }
    }

    /// How often it was changed; odd during a change. What was read without the lock counts if it is the same afterwards.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(SeqCst)
    }

    /// The size of a file that may be used, without the lock.
    pub(crate) fn shown_size(&self) -> Option<u64> {
        Some(self.shown_size.load(SeqCst)).filter(|size| *size != UNREADABLE)
    }

    /// The error of a block, tree or record of this inode that cannot be.
    pub(crate) fn damaged(&self, volume: &Volume, what: &str) -> Error {
        volume.corrupt(format!("inode {}: {what}", self.ino))
    }

    /// Its cached pages.
    #[inline]
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        self.mapping.get_or_init(|| Mapping::new(self.ino))
    }

    /// Whether no page of it is cached.
    pub(crate) fn has_no_page(&self) -> bool {
        self.mapping.get().is_none_or(|mapping| mapping.is_empty())
    }

    /// Whether it may leave memory, by what its shard sees: only the shard has it, it is not open, and nothing of it is cached.
    pub(crate) fn is_unused(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && !self.opens.is_open() && self.has_no_page()
    }
}

impl InodeState {
    pub(crate) fn of(raw: RawInode, extra: Box<[u8]>) -> Self {
        let (kept_open, nameless, gone, last, tid, orphan) = (false, false, false, None, 0, false);
        Self { raw, extra, kept_open, nameless, gone, last, tid, orphan, delayed: Delayed::default() }
    }

    /// Complains unless the inode may be used: it has links, or it is open.
    pub(crate) fn check_live(&self) -> Result<()> {
        if self.gone || self.raw.links.get() == 0 && !self.kept_open { Err(Error::NoEntry) } else { Ok(()) }
    }

    /// Whether every user with its permission may open it, in every way.
    fn admits_all(&self) -> bool {
        !self.gone && self.raw.links.get() > 0 && !self.raw.has(flag::IMMUTABLE | flag::APPEND)
    }

    /// The size that a read without the lock sees.
    fn shown_size(&self) -> u64 {
        if self.raw.is_regular() && self.check_live().is_ok() { self.raw.size() } else { UNREADABLE }
    }

    /// The checksum seed of the inode's own blocks.
    pub(crate) fn seed(&self, volume: &Volume, ino: u64) -> u32 {
        volume.inode_seed(ino, self.raw.generation.get())
    }

    pub(crate) fn attr(&self, block_bytes: u32, ino: u64) -> Result<Attr> {
        let raw = &self.raw;
        let kind = raw.kind().ok_or_else(|| Error::Corrupt(format!("inode {ino} is of no kind")))?;
        Ok(Attr {
            ino: Ino(ino),
            kind,
            perm: u32::from(raw.mode.get()) & 0o7777,
            nlink: u32::from(raw.links.get()),
            owner: Owner { uid: raw.uid(), gid: raw.gid() },
            rdev: self.rdev(),
            size: raw.size(),
            blocks: self.sectors(block_bytes) + self.delayed.len() * u64::from(block_bytes / 512),
            blksize: block_bytes,
            atime: raw.atime(),
            mtime: raw.mtime(),
            ctime: raw.ctime(),
            generation: raw.generation.get(),
        })
    }

    /// Space taken, in units of 512 bytes.
    pub(crate) fn sectors(&self, block_bytes: u32) -> u64 {
        let count = u64::from(self.raw.blocks_lo.get()) | u64::from(self.raw.blocks_hi.get()) << 32;
        if self.raw.has(flag::HUGE_FILE) { count * u64::from(block_bytes / 512) } else { count }
    }

    /// Adds blocks to the space taken, or takes them away.
    pub(crate) fn add_blocks(&mut self, volume: &Volume, blocks: i64) {
        let per_block = i64::from(volume.geo.block_bytes / 512);
        let sectors =
            (self.sectors(volume.geo.block_bytes).cast_signed() + blocks * per_block).max(0).cast_unsigned();
        let huge = sectors >= 1 << 48 && volume.geo.huge_file;
        let count = if huge { sectors / per_block.cast_unsigned() } else { sectors };
        let flags = self.raw.flags.get() & !flag::HUGE_FILE;
        self.raw.flags = (if huge { flags | flag::HUGE_FILE } else { flags }).into();
        self.raw.blocks_lo = (count as u32).into();
        self.raw.blocks_hi = ((count >> 32) as u16).into();
    }

    fn rdev(&self) -> u64 {
        use vfs::FileKind::{BlockDevice, CharDevice, Fifo, Socket};
        if !matches!(self.raw.kind(), Some(BlockDevice | CharDevice | Fifo | Socket)) {
            return 0;
        }
        let word = |at: usize| super::layout::le32(&self.raw.block, at);
        let (major, minor) = match (word(0), word(4)) {
            (0, new) => (new >> 8 & 0xfff, new & 0xff | new >> 12 & 0xf_ff00),
            (old, _) => (old >> 8 & 0xff, old & 0xff),
        };
        join_rdev(major, minor)
    }

    pub(crate) fn set_rdev(&mut self, rdev: u64) {
        let (major, minor) = split_rdev(rdev);
        let (old, new) = if major < 256 && minor < 256 {
            (major << 8 | minor, 0)
        } else {
            (0, minor & 0xff | major << 8 | (minor & !0xff) << 12)
        };
        super::layout::put32(&mut self.raw.block, 0, old);
        super::layout::put32(&mut self.raw.block, 4, new);
    }
}

/// `dev_t` as the C library composes it.
fn join_rdev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

fn split_rdev(rdev: u64) -> (u32, u32) {
    let major = rdev >> 32 & 0xffff_f000 | rdev >> 8 & 0xfff;
    let minor = rdev >> 12 & 0xffff_ff00 | rdev & 0xff;
    (major as u32, minor as u32)
}

impl Geo {
    fn inode_seed(&self, ino: u64, generation: u32) -> u32 {
        let seed = crc32c(self.checksum_seed, &(ino as u32).to_le_bytes());
        crc32c(seed, &generation.to_le_bytes())
    }

    /// The checksum of an inode's bytes in the table, and whether its upper half has a place there.
    pub(crate) fn inode_checksum(&self, ino: u64, bytes: &[u8]) -> (u32, bool) {
        let generation = super::layout::le32(bytes, 0x64);
        let wide = has_wide_checksum(bytes);
        let seed = crc32c(self.inode_seed(ino, generation), &bytes[..0x7c]);
        // The fields of the checksum itself count as zero.
        let checksum = if wide {
            let upper = crc32c(crc32c(seed, &[0; 2]), &bytes[0x7e..0x82]);
            crc32c(crc32c(upper, &[0; 2]), &bytes[0x84..])
        } else {
            crc32c(crc32c(seed, &[0; 2]), &bytes[0x7e..])
        };
        if wide { (checksum, true) } else { (checksum & 0xffff, false) }
    }
}

impl Volume {
    pub(crate) fn inode_seed(&self, ino: u64, generation: u32) -> u32 {
        self.geo.inode_seed(ino, generation)
    }

    /// Whether a time of deletion may be the next inode of the list of orphans: it is a number of one, and the file system was made
    /// when the time was larger than that (e2fsck: `low_dtime_check`).
    pub(crate) fn is_orphan_number(&self, dtime: u32) -> bool {
        let inodes = self.geo.inodes();
        let superblock = self.superblock.lock();
        let made = [superblock.wtime.get(), superblock.mkfs_time.get()];
        u64::from(dtime) < inodes && !made.iter().any(|time| *time != 0 && u64::from(*time) < inodes)
    }

    /// Block and offset of an inode in the table.
    pub(crate) fn inode_at(&self, ino: u64) -> Result<(u64, usize)> {
        if ino == 0 || ino > self.geo.inodes() {
            return Err(Error::Corrupt(format!("there is no inode {ino}")));
        }
        let per_group = u64::from(self.geo.inodes_per_group);
        let (group, index) = ((ino - 1) / per_group, (ino - 1) % per_group);
        let table = self.inode_tables[group as usize];
        if table == 0 {
            return Err(Error::NoEntry); // lost, and a repair looks for a place
        }
        let offset = index * self.geo.inode_bytes as u64;
        let block_bytes = u64::from(self.geo.block_bytes);
        Ok((table + offset / block_bytes, (offset % block_bytes) as usize))
    }

    /// Reads an inode from the table.
    pub(crate) fn read_inode(&self, ino: u64) -> Result<(RawInode, Box<[u8]>)> {
        let (block, at) = self.inode_at(ino)?;
        let bytes = self.look(block, |bytes| ran::copied(&bytes[at..at + self.geo.inode_bytes]))?;
        let mut whole = [0; RAW_INODE_BYTES];
        let len = bytes.len().min(RAW_INODE_BYTES);
        whole[..len].copy_from_slice(&bytes[..len]);
        let mut raw = RawInode::read_from_bytes(&whole).expect("the size is right");
        let is_none = match ino {
            // It has pointers and nothing else, whether or not its checksum was ever made.
            BAD_INO => raw.block == [0; 60],
            _ => raw.links.get() == 0 && raw.mode.get() == 0,
        };
        if is_none {
            return Err(Error::NoEntry);
        }
        if self.geo.inode_bytes == OLD_INODE_BYTES {
            raw.extra_isize = 0.into();
        } else if usize::from(raw.extra_isize.get()) > self.geo.inode_bytes - OLD_INODE_BYTES
            || raw.extra_isize.get() % 4 != 0
        {
            if !self.settings.repairs {
                return Err(self.corrupt(format!("inode {ino}: i_extra_isize of {}", raw.extra_isize.get())));
            }
            raw.extra_isize = EXTRA_ISIZE.min((self.geo.inode_bytes - OLD_INODE_BYTES) as u16).into();
        }
        if self.settings.repairs {
            // No feature of the image goes with these; what is wrong with the rest, the repair sees.
            let foreign = flag::UNREADABLE | if raw.is_dir() { 0 } else { flag::INDEX };
            raw.flags = (raw.flags.get() & !foreign).into();
        } else if self.geo.metadata_csum {
            let has = u32::from(raw.checksum_lo.get())
                | if has_wide_checksum(&bytes) { u32::from(raw.checksum_hi.get()) << 16 } else { 0 };
            if has != self.geo.inode_checksum(ino, &bytes).0 {
                return Err(self.corrupt(format!("inode {ino}: wrong checksum")));
            }
        }
        if raw.has(flag::UNREADABLE) {
            return Err(Error::NotSupported(
                "an inode that is compressed, encrypted, inline or keeps a value",
            ));
        }
        Ok((raw, ran::copied(bytes.get(RAW_INODE_BYTES..).unwrap_or_default()).into()))
    }

    /// Writes an inode to the table.
    pub(crate) fn store_inode(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
    ) -> Result<()> {
        state.tid = handle.tid;
        if state.orphan {
            self.orphans.pass();
        }
        if state.raw.is_regular() {
            self.use_size(handle, state.delayed.disk_size.unwrap_or(state.raw.size()))?;
        }
        let (block, at) = self.inode_at(inode.ino)?;
        let len = self.geo.inode_bytes;
        ran::bytes(len as u64);
        self.change(handle, block, |bytes| {
            self.link_orphan(inode.ino, state);
            self.lay_out_inode(inode.ino, state, &mut bytes[at..at + len]);
        })
    }

    /// Writes the bytes of an inode with their checksum.
    fn lay_out_inode(&self, ino: u64, state: &InodeState, to: &mut [u8]) {
        let mut raw = state.raw.clone();
        if let Some(size) = state.delayed.disk_size {
            raw.set_size(size);
        }
        let fixed = to.len().min(RAW_INODE_BYTES);
        to[..fixed].copy_from_slice(&raw.as_bytes()[..fixed]);
        if to.len() > fixed {
            to[fixed..].copy_from_slice(&state.extra);
        }
        if self.geo.metadata_csum {
            let (checksum, wide) = self.geo.inode_checksum(ino, to);
            put16(to, 0x7c, checksum as u16);
            if wide {
                put16(to, 0x82, (checksum >> 16) as u16);
            }
        }
    }

    /// Whether the table has an inode as it is in memory, with the right checksum.
    pub(crate) fn inode_is_stored(&self, ino: u64, state: &InodeState) -> Result<bool> {
        let (block, at) = self.inode_at(ino)?;
        self.look(block, |bytes| {
            let stored = &bytes[at..at + self.geo.inode_bytes];
            // The fields of a checksum that is not used keep what they have.
            let mut right = stored.to_vec();
            self.lay_out_inode(ino, state, &mut right);
            stored == right
        })
    }

    /// The inode of a number, read if it must be.
    pub(crate) fn inode(&self, ino: u64) -> Result<Arc<Inode>> {
        if let Some(inode) = self.inodes.get(ino) {
            return Ok(inode);
        }
        let is_special = ino != ROOT_INO && ino < self.geo.first_ino || self.geo.orphan_file == Some(ino);
        if is_special || ino == 0 || ino > self.geo.inodes() {
            return Err(Error::NoEntry);
        }
        let change = self.inodes.change(ino);
        if let Some(inode) = self.inodes.get(ino) {
            return Ok(inode);
        }
        let (raw, extra) = self.read_inode(ino)?;
        let tid = self.journal.as_ref().map_or(0, super::journal::Journal::last_tid);
        let inode = Inode::new(ino, raw, extra, tid, self.geo.block_bytes);
        change.insert(&inode);
        Ok(inode)
    }

    /// A new inode in memory, for a number that was just allocated. It is not in the table yet.
    pub(crate) fn new_inode(&self, ino: u64, mode: u16) -> Arc<Inode> {
        let mut raw = RawInode::zero();
        raw.mode = mode.into();
        raw.generation = self.next_generation().into();
        if self.geo.inode_bytes > OLD_INODE_BYTES {
            raw.extra_isize = EXTRA_ISIZE.min((self.geo.inode_bytes - OLD_INODE_BYTES) as u16).into();
        }
        let now = change_time();
        raw.set_atime(now);
        raw.set_mtime(now);
        raw.set_ctime(now);
        raw.set_crtime(now);
        let extra = ran::zeroed(self.geo.inode_bytes.saturating_sub(RAW_INODE_BYTES)).into_boxed_slice();
        let inode = Inode::new(ino, raw, extra, 0, self.geo.block_bytes);
        self.inodes.change(ino).insert(&inode);
        inode
    }

    /// Forgets an inode that is gone from the device. Another may have got its number since that was freed, and stays.
    pub(crate) fn forget_inode(&self, inode: &Arc<Inode>) {
        let change = self.inodes.change(inode.ino);
        let mut known = change.shard.known.write();
        if known.get(&inode.ino).is_some_and(|known| Arc::ptr_eq(known, inode)) {
            known.remove(&inode.ino);
        }
    }
}

/// Whether the upper half of the checksum has a place in the inode.
fn has_wide_checksum(bytes: &[u8]) -> bool {
    bytes.len() > OLD_INODE_BYTES && super::layout::le16(bytes, 0x80) >= 4
}
