//! Inodes: the tables on the medium, a lock for each in DRAM, and what replaying a log leads to.
//!
//! Inode numbers are striped over the shards: number `n` is slot `n / shards` of shard `n % shards`. A shard's table is a list of
//! chunks; a new one is zeroed before it is linked. Which numbers are in use is known in DRAM only; each shard gives out its lowest
//! free slot, under a lock of its own.
//!
//! An inode's log is replayed when the inode is first used ([`Volume::changing`]). What is kept then: attributes, the log's pages,
//! and the index of blocks or names. Of files that are not open that is forgotten when many others were used since.
//!
//! Lock order: `nova.inode` (see `namei.rs`), then `nova.inode_table`, then `nova.blocks`.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::{OnceLock, atomic};

use media::event::Mark;
use media::nvmm::Region;
use sim::sync::{AtomicU64, Ordering::Relaxed};
use sim::{ByteRun, Clock, LockClass, Mutex, Recency, RwLock, RwLockReadGuard, RwLockWriteGuard, Work};
use vfs::{Attr, FileKind, Ino, NewInode, Owner, Timestamp};
use zerocopy::IntoBytes;

use super::alloc::home;
use super::dir::Names;
use super::layout::{
    BLOCK, FILE_BLOCKS_MAX, Geometry, INODE_BYTES, NO_TIME, NameEntry, RawInode, SHARD_INODES, SetEntry,
    WriteEntry, ino, pack, set, state, state_word, unpack,
};
use super::log::{Entry, Log, Reader};
use super::map::{BlockIndex, Place};
use super::parts;
use super::unlocked_attr::UnlockedAttr;
use super::{CachedFile, Volume};
use base::error::{Error, Result};
use base::opens::Opens;
use base::persist::attributes::{block_of, blocks_of};
use base::persist::free_map::FreeMap;
use base::persist::slot_table::SlotTable;

pub(crate) static INODE: LockClass = LockClass::new("nova.inode").under(&[&super::RENAME]).several();
pub(super) static INODE_TABLE: LockClass = LockClass::new("nova.inode_table").under(&[&INODE]);

/// Attributes; times are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) generation: u32,
    pub(crate) size: u64,
    pub(crate) atime: u64,
    pub(crate) mtime: u64,
    pub(crate) ctime: u64,
    pub(crate) rdev: u64,
    pub(crate) xattr: u64,
}

impl Facts {
    pub(crate) fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode)
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }
}

/// What an inode's log leads to.
#[derive(Default)]
pub(crate) struct Loaded {
    pub(crate) facts: Facts,
    pub(crate) log: Log,
    pub(crate) blocks: BlockIndex,
    pub(crate) names: Names,
    /// The blocks that hold its extended attributes, by their offsets.
    pub(crate) attributes: Box<[u64]>,
    /// Of a file that was read through a cache.
    pub(crate) cached: OnceLock<CachedFile>,
}

/// An inode slot in DRAM.
pub(crate) struct Inode {
    pub(crate) ino: u64,
    pub(crate) offset: u64,
    pub(crate) state: RwLock<InodeState>,
    /// Attributes as the last writer left them, for those who ask without locking, as the kernel's `stat` does. It has a lock of
    /// the host's, held for one copy. Nothing of an inode that is not loaded.
    seen: parking_lot::Mutex<Option<Box<UnlockedAttr>>>,
    /// Of a directory that is loaded: what `..` leads to, for those who walk up without locking. 0: not known.
    pub(crate) parent: AtomicU64,
    /// The last access that was noted in place; 0: none since the time was set. Used under the lock of `seen`, in which no task may
    /// switch: not one of `sim::sync`.
    accessed: atomic::AtomicU64,
    /// How often it is open, and who frees it.
    pub(crate) opens: Opens,
    recency: Recency,
}

const _: () = assert!(size_of::<Inode>() <= 160);

/// Lines that a task waits for that finds an inode by its number: its slot in DRAM, and what is loaded.
const INODE_LINES: u64 = 2;

/// What the lock of an inode guards.
#[derive(Default)]
pub(crate) struct InodeState {
    /// It was made without a name and may get one.
    pub(crate) nameless: bool,
    pub(crate) loaded: Option<Box<Loaded>>,
}

/// The right to read an inode that is loaded.
pub(crate) struct Reading<'a>(RwLockReadGuard<'a, InodeState>);

impl Deref for Reading<'_> {
    type Target = Loaded;
    #[inline]
    fn deref(&self) -> &Loaded {
        self.0.loaded.as_ref().expect("made of a state that is loaded")
    }
}

/// The right to change an inode that is loaded. When it ends, those who do not lock see what has become of it.
pub(crate) struct Changing<'a> {
    pub(crate) inode: &'a Inode,
    state: RwLockWriteGuard<'a, InodeState>,
}

impl Changing<'_> {
    /// Whether it was made without a name, and whether it is loaded.
    pub(crate) fn state(&mut self) -> &mut InodeState {
        &mut self.state
    }

    /// The inode is gone; answers what it held.
    pub(crate) fn unload(&mut self) -> Box<Loaded> {
        self.inode.parent.store(0, Relaxed);
        let gone = std::mem::take(&mut *self.state);
        gone.loaded.unwrap_or_default()
    }
}

impl Changing<'_> {
    /// The inode, which was claimed, has become live.
    pub(crate) fn become_live(&mut self, loaded: Loaded) -> Result<Attr> {
        self.inode.accessed.store(0, Relaxed);
        self.inode.parent.store(loaded.names.parent, Relaxed);
        let attr = self.inode.attr(&loaded);
        *self.state = InodeState { loaded: Some(sim::ran::boxed(loaded)), ..InodeState::default() };
        attr
    }
}

impl Deref for Changing<'_> {
    type Target = Loaded;
    #[inline]
    fn deref(&self) -> &Loaded {
        self.state.loaded.as_ref().expect("made of a state that is loaded")
    }
}

impl DerefMut for Changing<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Loaded {
        self.state.loaded.as_mut().expect("made of a state that is loaded")
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let attr = self.state.loaded.as_ref().filter(|loaded| loaded.facts.links > 0);
        let attr = attr.and_then(|loaded| self.inode.attr(loaded).ok());
        self.inode.show(attr.as_ref());
    }
}

impl Inode {
    fn new(ino: u64, offset: u64) -> Self {
        Self {
            ino,
            offset,
            state: RwLock::new(&INODE, InodeState::default()),
            seen: parking_lot::Mutex::new(None),
            parent: AtomicU64::new(0),
            accessed: atomic::AtomicU64::new(0),
            opens: Opens::new(),
            recency: Recency::new(),
        }
    }

    /// Lets those who do not lock see these attributes from now on, and open the inode. The caller has the lock.
    fn show(&self, attr: Option<&Attr>) {
        if attr.is_some() {
            self.opens.admit();
        }
        let new = attr.and_then(UnlockedAttr::of);
        let mut seen = self.seen.lock();
        let is_first = seen.is_none() && new.is_some();
        match (&mut *seen, new) {
            (Some(old), Some(new)) => **old = new,
            (seen, new) => *seen = new.map(Box::new),
        }
        drop(seen);
        sim::ran::allocate(is_first.into());
    }

    /// Attributes for programs.
    pub(crate) fn attr(&self, loaded: &Loaded) -> Result<Attr> {
        let facts = &loaded.facts;
        let kind = facts.kind().ok_or_else(|| {
            Error::Corrupt(format!("inode {}: mode {:o} is of no kind", self.ino, facts.mode))
        })?;
        let is_dir = kind == FileKind::Directory;
        let pages = if is_dir { loaded.log.pages.len() as u64 } else { loaded.blocks.mapped() };
        let accessed = self.accessed.load(Relaxed);
        Ok(Attr {
            ino: Ino(self.ino),
            kind,
            perm: facts.mode & 0o7777,
            nlink: facts.links,
            owner: Owner { uid: facts.uid, gid: facts.gid },
            rdev: facts.rdev,
            size: if is_dir { pages * BLOCK } else { facts.size },
            blocks: (pages + loaded.attributes.len() as u64) * (BLOCK / 512),
            blksize: BLOCK as u32,
            atime: unpack(if accessed == 0 { facts.atime } else { accessed }),
            mtime: unpack(facts.mtime),
            ctime: unpack(facts.ctime),
            generation: facts.generation,
        })
    }

    /// Whether the time of the last access is that of the log.
    pub(crate) fn access_is_logged(&self) -> bool {
        self.accessed.load(Relaxed) == 0
    }

    /// The time of the last access is set, and what was noted in place counts no more.
    pub(crate) fn forget_access(&self) {
        self.accessed.store(0, Relaxed);
    }
}

/// The inode table of one shard.
struct InodeShard {
    slots: SlotTable<Inode>,
    free: Mutex<FreeSlots>,
}

#[derive(Default)]
struct FreeSlots {
    /// A map for each chunk.
    chunks: Vec<FreeMap>,
    /// Where each chunk lies.
    offsets: Vec<u64>,
    /// No chunk before this one has a free slot.
    hint: usize,
}

impl FreeSlots {
    /// The lowest free slot: its chunk, and its place there.
    fn take(&mut self) -> Option<(u64, u64)> {
        while let Some(chunk) = self.chunks.get_mut(self.hint) {
            if let Some(slot) = chunk.take_first() {
                sim::work(Work::STEP, chunk.depth());
                return Some((self.hint as u64, slot));
            }
            self.hint += 1;
        }
        None
    }
}

/// All inodes.
pub(crate) struct Inodes {
    shards: Vec<InodeShard>,
    slots_per_chunk: u64,
    chunks_max: u64,
    /// The inodes that are loaded, the first of them longest; some may have been unloaded since.
    loaded: parking_lot::Mutex<VecDeque<u64>>,
}

/// The largest number of inodes that stay loaded though no file of them is open.
const KEPT_LOADED: usize = 1 << 16;

impl Inodes {
    /// With the chunks that each shard has, whose slots are all in use, or may be.
    pub(crate) fn new(geometry: &Geometry, chunks: &[Vec<u64>]) -> Self {
        // A shard may grow to four times its share of the image. One that has more keeps it.
        let chunks_max = (4 * geometry.blocks / geometry.chunk_blocks() / geometry.shards).max(16);
        let slots_per_chunk = geometry.slots_per_chunk();
        let shard = |own: &Vec<u64>| InodeShard {
            slots: SlotTable::new(chunks_max.max(own.len() as u64), slots_per_chunk),
            free: Mutex::new(&INODE_TABLE, FreeSlots::default()),
        };
        let (shards, loaded) = (chunks.iter().map(shard).collect(), parking_lot::Mutex::default());
        let inodes = Self { shards, slots_per_chunk, chunks_max, loaded };
        for ((shard, table), own) in (0..).zip(&inodes.shards).zip(chunks) {
            let mut free = table.free.lock();
            for offset in own {
                inodes.add_to(table, &mut free, shard, *offset);
            }
        }
        inodes
    }

    /// The inode `number`, in use or not.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Result<&Inode> {
        let shards = self.shards.len() as u64;
        let slot = self.shards[(number % shards) as usize].slots.get(number / shards);
        let inode = slot.filter(|_| number >= super::layout::ROOT_INO).ok_or(Error::NoEntry)?;
        inode.recency.touch(INODE_LINES);
        Ok(inode)
    }

    /// Puts a chunk into DRAM whose slots are all in use, or may be.
    fn add_to(&self, table: &InodeShard, free: &mut FreeSlots, shard: u64, offset: u64) -> u64 {
        let chunk = free.chunks.len() as u64;
        let shards = self.shards.len() as u64;
        let make =
            |slot: u64| Inode::new(slot * shards + shard, offset + slot % self.slots_per_chunk * INODE_BYTES);
        table.slots.add_chunk(chunk, make);
        free.chunks.push(FreeMap::new(self.slots_per_chunk));
        free.offsets.push(offset);
        chunk
    }

    /// An inode was loaded. Under the virtual clock none is unloaded: that saves memory of the host, and must take no time of the
    /// simulated machine.
    pub(crate) fn note_loaded(&self, number: u64) {
        if sim::clock() == Clock::Real {
            self.loaded.lock().push_back(number);
        }
    }

    /// The inode that was loaded longest ago, when too many are.
    fn next_to_unload(&self) -> Option<u64> {
        let mut loaded = self.loaded.lock();
        if loaded.len() > KEPT_LOADED { loaded.pop_front() } else { None }
    }

    /// Says that a number is not in use.
    pub(crate) fn put(&self, number: u64) {
        let shards = self.shards.len() as u64;
        let slot = number / shards;
        let mut free = self.shards[(number % shards) as usize].free.lock();
        let chunk = (slot / self.slots_per_chunk) as usize;
        if number >= super::layout::ROOT_INO
            && let Some(map) = free.chunks.get_mut(chunk)
        {
            sim::ran::node(1);
            map.put(slot % self.slots_per_chunk);
            free.hint = free.hint.min(chunk);
        }
    }

    /// Slots, and how many of them are free.
    pub(crate) fn counts(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |(all, free), shard| {
            let slots = shard.free.lock();
            let own: u64 = slots.chunks.iter().map(FreeMap::free).sum();
            (all + slots.chunks.len() as u64 * self.slots_per_chunk, free + own)
        })
    }

    /// The numbers in use of a shard, as ranges of slots.
    pub(crate) fn used_slots(&self, shard: u64) -> Vec<RangeInclusive<u64>> {
        let free = self.shards[shard as usize].free.lock();
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for (chunk, map) in (0u64..).zip(&free.chunks) {
            let base = chunk * self.slots_per_chunk;
            for (first, last) in map.used_runs().into_iter().map(RangeInclusive::into_inner) {
                match ranges.last_mut() {
                    Some(range) if range.end() + 1 == base + first => *range = *range.start()..=base + last,
                    _ => ranges.push(base + first..=base + last),
                }
            }
        }
        ranges
    }
}

/// A number that was taken for an inode that is not live yet. Dropped, it gives the number back.
pub(crate) struct Claim<'v> {
    volume: &'v Volume,
    pub(crate) inode: &'v Inode,
    kept: bool,
}

impl Claim<'_> {
    /// The inode is live.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.volume.inodes.put(self.inode.ino);
        }
    }
}

impl Volume {
    /// Takes a number that is not in use; the table grows when there is none.
    pub(crate) fn claim_inode(&self) -> Result<Claim<'_>> {
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let shards = self.inodes.shards.len();
        let home = home(shards);
        let others = (0..shards).map(|distance| (home + distance) % shards);
        let mut refused = Error::NoSpace;
        for shard in others {
            match self.claim_from(shard) {
                Ok((slot, shards)) => {
                    let inode = self.inodes.get(slot * shards + shard as u64)?;
                    return Ok(Claim { volume: self, inode, kept: false });
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn claim_from(&self, shard: usize) -> Result<(u64, u64)> {
        let table = &self.inodes.shards[shard];
        let mut free = table.free.lock();
        let (chunk, slot) = match free.take() {
            Some(found) => found,
            None => {
                self.grow_table(table, &mut free, shard as u64)?;
                free.take().ok_or(Error::NoSpace)?
            }
        };
        Ok((chunk * self.inodes.slots_per_chunk + slot, self.inodes.shards.len() as u64))
    }

    /// Adds a zeroed chunk to the table of a shard, unless that has all that it may have.
    fn grow_table(&self, table: &InodeShard, free: &mut FreeSlots, shard: u64) -> Result<()> {
        if free.chunks.len() as u64 >= self.inodes.chunks_max {
            return Err(Error::NoSpace);
        }
        let geometry = &self.geometry;
        let offset = self.blocks.take_run(geometry.chunk_blocks())?;
        let link = match free.offsets.last() {
            Some(last) => last + geometry.chunk_bytes - INODE_BYTES + ino::NEXT_CHUNK,
            None => Geometry::shard_at(shard) + SHARD_INODES,
        };
        if let Err(error) = link_chunk(&self.region, (link, offset), geometry.chunk_bytes) {
            // Whether the link was stored cannot be known: the next mount will see.
            self.blocks.doubt();
            return Err(error);
        }
        let chunk = self.inodes.add_to(table, free, shard, offset) as usize;
        let map = &mut free.chunks[chunk];
        (0..geometry.slots_per_chunk()).for_each(|slot| {
            map.put(slot);
        });
        free.hint = free.hint.min(chunk);
        Ok(())
    }

    /// Locks an inode for reading; replays its log unless that was done.
    pub(crate) fn reading<'a>(&self, inode: &'a Inode) -> Result<Reading<'a>> {
        loop {
            let state = inode.state.read();
            if state.loaded.is_some() {
                return Ok(Reading(state));
            }
            drop(state);
            self.changing(inode)?;
        }
    }

    /// Locks an inode for changing; replays its log unless that was done. `ENOENT` for one that is not in use.
    pub(crate) fn changing<'a>(&self, inode: &'a Inode) -> Result<Changing<'a>> {
        let mut state = inode.state.write();
        if state.loaded.is_none() {
            state.loaded = Some(Box::new(self.load(inode)?));
            self.inodes.note_loaded(inode.ino);
        }
        Ok(Changing { inode, state })
    }

    fn load(&self, inode: &Inode) -> Result<Loaded> {
        if self.region.load_u64(inode.offset)? as u32 != state::LIVE {
            return Err(Error::NoEntry);
        }
        let raw: RawInode = self.region.read(inode.offset)?;
        let loaded = replay(&self.region, &self.geometry, inode.ino, &raw)?;
        if loaded.facts.is_dir() && loaded.names.parent == 0 {
            // A walk up would take it for one that is not loaded, and lock what its caller has locked.
            return Err(Error::Corrupt(format!("directory {} has no parent", inode.ino)));
        }
        inode.accessed.store(0, Relaxed);
        inode.parent.store(loaded.names.parent, Relaxed);
        Ok(loaded)
    }

    /// Unloads files that were loaded long ago and are not open, when too many are. The caller holds no lock.
    pub(crate) fn unload_old(&self) {
        const AT_ONCE: usize = 2;
        for _ in 0..AT_ONCE {
            let Some(number) = self.inodes.next_to_unload() else { return };
            let Ok(inode) = self.inodes.get(number) else { continue };
            let mut state = inode.state.write();
            let Some(loaded) = &state.loaded else { continue };
            if inode.opens.is_open()
                || loaded.facts.links == 0
                || loaded.facts.is_dir()
                || self.check_sound().is_err()
            {
                self.inodes.note_loaded(number);
            } else {
                state.loaded = None;
                inode.show(None);
            }
        }
    }

    /// Locks an inode that the caller has just claimed. It can be used as any other once it has become live.
    pub(crate) fn lock_new(inode: &Inode) -> Changing<'_> {
        Changing { inode, state: inode.state.write() }
    }

    /// Attributes. Waits for a writer only when none has left anything to see.
    pub(crate) fn get_attr(&self, number: u64) -> Result<Attr> {
        let inode = self.inodes.get(number)?;
        sim::interact();
        let seen = inode.seen.lock().as_deref().copied();
        if let Some(attr) = seen.and_then(|seen| seen.attr(number)) {
            return Ok(attr);
        }
        self.unload_old();
        let loaded = self.reading(inode)?;
        // Locked before the time of access is read, which `note_access` may store meanwhile.
        let mut seen = inode.seen.lock();
        let attr = inode.attr(&loaded)?;
        if loaded.facts.links > 0 {
            *seen = UnlockedAttr::of(&attr).map(Box::new);
        }
        Ok(attr)
    }

    /// Notes an access in place: one store, durable when its line is next written back.
    pub(crate) fn note_access(&self, inode: &Inode) -> Result<()> {
        let _loaded = self.reading(inode)?;
        let now = Timestamp::now();
        // What others see is locked meanwhile, so that no task that has read the old time shows it afterwards.
        let mut seen = inode.seen.lock();
        let at = inode.offset + ino::ACCESSED;
        self.region.mark(Mark::Commit { at, needs: &[] });
        self.region.store_u64(at, pack(now))?;
        inode.accessed.store(pack(now), Relaxed);
        if let Some(seen) = seen.as_mut() {
            seen.atime = pack(now);
        }
        Ok(())
    }

    /// Writes a new inode into its claimed slot, all but its state. Nothing of it counts before that is stored.
    pub(crate) fn write_inode(
        &self,
        inode: &Inode,
        new: &NewInode,
        (kind, rdev): (FileKind, u64),
        (head, tail): (u64, u64),
        now: u64,
    ) -> Result<(Facts, u64)> {
        let _part = sim::part(&parts::NEW_INODE);
        let old = self.region.load_u64(inode.offset)?;
        let generation = ((old >> 32) as u32).wrapping_add(1);
        let raw = write_raw(
            &self.region,
            inode.offset,
            &RawInode {
                state: state_word(generation, state::LIVE),
                mode: kind.mode_bits() | new.perm & 0o7777,
                uid: new.owner.uid,
                gid: new.owner.gid,
                rdev,
                created: now,
                head,
                tail,
                ino: inode.ino,
                ..RawInode::default()
            },
        )?;
        Ok((first_facts(&raw), raw.state))
    }
}

/// Zeroes a chunk and lets `link` lead to it.
pub(crate) fn link_chunk(region: &Region, (link, offset): (u64, u64), bytes: u64) -> Result<()> {
    region.nt_zero(offset, bytes)?;
    region.fence();
    region.mark(Mark::Commit { at: link, needs: &[ByteRun::new(offset, bytes)] });
    region.store_u64(link, offset)?;
    region.flush(link, 8);
    region.fence();
    Ok(())
}

/// Writes the body of an inode, with its checksum; flushed, not fenced.
pub(crate) fn write_raw(region: &Region, at: u64, raw: &RawInode) -> Result<RawInode> {
    let raw = RawInode { checksum: raw.compute_checksum(), ..*raw };
    region.store(at + ino::BODY.start as u64, &raw.as_bytes()[ino::BODY])?;
    region.flush(at, INODE_BYTES);
    Ok(raw)
}

/// What an inode begins with, before its log.
fn first_facts(raw: &RawInode) -> Facts {
    let is_dir = FileKind::from_mode(raw.mode) == Some(FileKind::Directory);
    Facts {
        mode: raw.mode,
        links: if is_dir { 2 } else { 1 },
        uid: raw.uid,
        gid: raw.gid,
        generation: raw.generation(),
        size: 0,
        atime: raw.created,
        mtime: raw.created,
        ctime: raw.created,
        rdev: raw.rdev,
        xattr: raw.xattr,
    }
}

/// What the log of inode `number` leads to.
pub(crate) fn replay(region: &Region, geometry: &Geometry, number: u64, raw: &RawInode) -> Result<Loaded> {
    if raw.ino != number || raw.checksum != raw.compute_checksum() {
        return Err(Error::Corrupt(format!("inode {number}: its checksum or its number is wrong")));
    }
    if raw.xattr != 0 && !geometry.holds(block_of(raw.xattr), 1) {
        return Err(Error::Corrupt(format!("inode {number}: attributes at {}", raw.xattr)));
    }
    let mut loaded = Loaded { facts: first_facts(raw), ..Loaded::default() };
    loaded.attributes = blocks_of(region, raw.xattr)?.into();
    let is_dir = loaded.facts.is_dir();
    let mut access_set = 0;
    let mut reader = Reader::new(region, geometry, number, (raw.head, raw.tail))?;
    while let Some((at, entry)) = reader.next()? {
        for page in &reader.pages[loaded.log.pages.len()..] {
            loaded.log.pages.push(*page);
        }
        let fault = |what: &str| Error::Corrupt(format!("inode {number}: log entry at {at}: {what}"));
        match entry {
            Entry::Write(write) if !is_dir => {
                check_write(geometry, &write).map_err(fault)?;
                apply_write(&mut loaded, &write, at, |_, _| ());
            }
            Entry::Set(entry) => {
                if entry.size > FILE_BLOCKS_MAX * BLOCK {
                    return Err(fault("an impossible size"));
                }
                access_set = if entry.mask & set::ATIME == 0 { access_set } else { entry.ctime };
                apply_set(&mut loaded, &entry, at, |_, _| ());
            }
            Entry::Links(entry) => {
                loaded.facts.links = entry.links;
                loaded.facts.ctime = entry.ctime;
                loaded.log.pin(at / BLOCK);
            }
            Entry::Name(entry, name) if is_dir => {
                replay_name(region, &mut loaded, (at, &entry), name.as_bytes())?;
            }
            Entry::Write(_) | Entry::Name(..) => return Err(fault("is not for an inode of this kind")),
        }
    }
    let mut pages = std::mem::take(&mut loaded.log.pages);
    pages.extend_from_slice(&reader.pages[pages.len()..]);
    loaded.log = reader.into_log();
    loaded.log.set_pages(pages);
    let facts = &mut loaded.facts;
    facts.ctime = later(facts.ctime, raw.ctime);
    if raw.accessed != 0 && later(raw.accessed, access_set) == raw.accessed && raw.accessed != access_set {
        facts.atime = raw.accessed;
    }
    Ok(loaded)
}

fn later(a: u64, b: u64) -> u64 {
    if b != 0 && unpack(b) > unpack(a) { b } else { a }
}

pub(crate) fn check_write(geometry: &Geometry, write: &WriteEntry) -> Result<(), &'static str> {
    let end = write.first.checked_add(write.pages);
    match () {
        () if write.pages == 0 || end.is_none_or(|end| end > FILE_BLOCKS_MAX) => Err("impossible pages"),
        () if write.size > FILE_BLOCKS_MAX * BLOCK => Err("an impossible size"),
        () if write.block != 0 && !geometry.holds(write.block, write.pages) => {
            Err("blocks where none can be")
        }
        () => Ok(()),
    }
}

/// Lets a file follow a write entry; gives the pages that it replaces to `gone`.
pub(crate) fn apply_write(
    loaded: &mut Loaded,
    write: &WriteEntry,
    at: u64,
    mut gone: impl FnMut(u64, Place),
) {
    let Loaded { facts, log, blocks, .. } = loaded;
    let (first, pages, page) = (write.first, write.pages, at / BLOCK);
    if write.block == 0 {
        log.pin(page);
        blocks.cut(first, first + pages, |page, old| {
            log.drop_live(old.log_page());
            gone(page, old);
        });
    } else {
        for number in 0..pages {
            let old = blocks.set(first + number, Place::new(write.block / BLOCK + number, page));
            if !old.is_hole() {
                log.drop_live(old.log_page());
                gone(first + number, old);
            }
        }
        log.add_live(page, pages);
    }
    facts.size = write.size;
    if write.time != NO_TIME {
        (facts.mtime, facts.ctime) = (write.time, write.time);
    }
}

/// Lets an inode follow an entry of attributes; gives the pages that it cuts off to `gone`.
pub(crate) fn apply_set(loaded: &mut Loaded, entry: &SetEntry, at: u64, mut gone: impl FnMut(u64, Place)) {
    let Loaded { facts, log, blocks, .. } = loaded;
    log.pin(at / BLOCK);
    if entry.mask & set::SIZE != 0 {
        blocks.cut(entry.size.div_ceil(BLOCK), FILE_BLOCKS_MAX, |page, old| {
            log.drop_live(old.log_page());
            gone(page, old);
        });
    }
    *facts = Facts {
        mode: facts.mode & 0o170_000 | u32::from(entry.mode) & 0o7777,
        uid: entry.uid,
        gid: entry.gid,
        size: entry.size,
        atime: entry.atime,
        mtime: entry.mtime,
        ctime: entry.ctime,
        ..*facts
    };
}

fn replay_name(
    region: &Region,
    loaded: &mut Loaded,
    (at, entry): (u64, &NameEntry),
    name: &[u8],
) -> Result<()> {
    let known = if name == b".." { None } else { loaded.names.find(region, name)? };
    if let Some((slot, _)) = known
        && let Some(at) = loaded.names.remove(slot)
    {
        loaded.log.drop_live(at / BLOCK);
    }
    apply_name(loaded, (at, entry), name);
    Ok(())
}

/// Lets a directory follow the entry of a name, of which the old entry is gone from the index.
pub(crate) fn apply_name(loaded: &mut Loaded, (at, entry): (u64, &NameEntry), name: &[u8]) {
    let Loaded { facts, log, names, .. } = loaded;
    if entry.ino == 0 {
        log.pin(at / BLOCK);
    } else {
        log.add_live(at / BLOCK, 1);
    }
    if name == b".." {
        if names.parent_at != 0 {
            log.drop_live(names.parent_at / BLOCK);
        }
        (names.parent, names.parent_at) = (entry.ino, at);
    } else if entry.ino != 0 {
        names.insert(name, at, entry.ino);
    }
    facts.links = entry.links.into();
    if entry.time != NO_TIME {
        // Another parent is no change of the directory's contents.
        if name != b".." {
            facts.mtime = entry.time;
        }
        facts.ctime = entry.time;
    }
}
