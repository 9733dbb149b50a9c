//! Directories: the linear format on the medium, an index of the names in DRAM.
//!
//! ```text
//! block   | ino 8 | rec_len 2 | name_len 1 | type 1 | name … | slack |  next record …          | to byte 4096
//! ```
//!
//! Records of a block follow one another by `rec_len` and cover it; a record never crosses a block. A new name goes into the
//! slack of a record, or into an unused one (ino 0), or into a new block. A removed name becomes slack of the record before
//! it; the first of a block becomes unused. Records never move, so a cursor of `readdir` is a byte position.
//!
//! PMFS searches linearly. That makes a directory of 300,000 names unusable, so unless the mount says `dir_index=false`, the
//! first search builds a [`DirIndex`]: hash to record position, and where each block has room. It costs about 10 bytes a name
//! and is never written. The linear mode exists to measure the paper's design.
//!
//! The index is updated only after the commit ([`Inserted`], [`Removal`]), so a change that is rolled back never reaches it.

use std::hash::Hasher;
use std::ops::ControlFlow;

use hashbrown::HashTable;
use sim::{ByteRun, Run, Work, ran};
use vfs::{Ino, Timestamp};
use zerocopy::{FromBytes, IntoBytes};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::journal::Transaction;
use super::layout::{BLOCK, RECORD_HEADER, RawInode, RecordHeader, record_len};
use super::map::Tree;
use base::error::{Error, Result};

/// A block as it was read.
type BlockBytes = [u8; BLOCK as usize];

/// The smallest gap that a name fits in.
const MIN_GAP: u16 = RECORD_HEADER as u16 + 4;

/// Names of a directory by hash, and room by block.
pub(crate) struct DirIndex {
    /// Upper half: hash; lower half: position of the record in the directory, in units of 4 bytes.
    names: HashTable<u64>,
    room: Vec<Room>,
    /// By sixteenths of bytes: no block before this one has a gap of at least 16 times the index.
    first: [usize; GAP_CLASSES],
}

/// Classes of gaps: the record of the longest name is in the last.
const GAP_CLASSES: usize = record_len(255) / 16 + 1;

/// Where a block has room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    /// Its largest gap; 0 when no name fits.
    gap: u16,
    /// Start of the record with that gap.
    start: u16,
    /// Other records may have gaps, too.
    more: bool,
}

impl Room {
    fn of(gap: u16, start: u16) -> Self {
        Self { gap: if gap < MIN_GAP { 0 } else { gap }, start, more: false }
    }

    /// The room of a block in which another gap was found.
    fn with(self, other: Self) -> Self {
        let larger = if other.gap > self.gap { other } else { self };
        Self { more: self.gap > 0 && other.gap > 0 || self.more, ..larger }
    }
}

/// A record that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The inode it names.
    pub(crate) ino: u64,
    /// Position in the directory.
    position: u64,
}

/// Where a new record goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// Into the gap of the record at `position`, which keeps `kept` bytes.
    Gap { position: u64, at: u64, kept: u16, gap: u16 },
    /// Over the unused record at `position`.
    Unused { position: u64, at: u64, rec_len: u16 },
    /// Into a new block at the end.
    NewBlock,
}

impl Place {
    /// The range to be logged before the record is written.
    pub(crate) fn logged(&self) -> Option<ByteRun> {
        match *self {
            Self::Gap { at, .. } => Some(ByteRun::new(at + 8, 2)),
            Self::Unused { at, .. } => Some(ByteRun::new(at, 8)),
            Self::NewBlock => None,
        }
    }
}

/// A record that was written: what the index has to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inserted {
    position: u64,
    room: Room,
}

/// What removing a record changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    found: Found,
    /// Where the removed record is.
    at: u64,
    rec_len: u16,
    /// The record before it in its block: where it is, its `rec_len`, its own need.
    before: Option<(u64, u16, u16)>,
}

impl Removal {
    /// The range to be logged before.
    pub(crate) fn logged(&self) -> ByteRun {
        match self.before {
            Some((at, ..)) => ByteRun::new(at + 8, 2),
            None => ByteRun::new(self.at, 8),
        }
    }
}

fn hash_of(name: &[u8]) -> u32 {
    ran::did(Work::HASH, name.len().div_ceil(16) as u64);
    ran::hash(name.len() as u64);
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(name);
    (hasher.finish() >> 32) as u32
}

/// The hash as the table wants it: varied in its upper bits, too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn pack(hash: u32, position: u64) -> u64 {
    u64::from(hash) << 32 | position / 4
}

/// One record within the bytes of a block.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) start: u16,
    pub(crate) header: RecordHeader,
    pub(crate) name: &'a [u8],
}

impl RecordHeader {
    /// Bytes that the record needs for itself.
    fn need(&self) -> u16 {
        if self.ino == 0 { 0 } else { record_len(usize::from(self.name_len)) as u16 }
    }

    /// Bytes that another record could have.
    fn gap(&self) -> u16 {
        self.rec_len - self.need()
    }

    /// Whether a record can be like this at byte `start` of its block.
    pub(crate) fn is_sound(&self, start: u16) -> bool {
        let rec_len = usize::from(self.rec_len);
        rec_len >= RECORD_HEADER
            && rec_len.is_multiple_of(4)
            && usize::from(start) + rec_len <= BLOCK as usize
            && usize::from(self.need()) <= rec_len
    }
}

fn impossible(start: u16) -> Error {
    Error::Corrupt(format!("directory record at byte {start} of its block"))
}

/// Calls `visit` for each record of a block until it breaks. An impossible record is an error.
pub(crate) fn records<'a, B>(
    bytes: &'a BlockBytes,
    mut visit: impl FnMut(Record<'a>) -> ControlFlow<B>,
) -> Result<Option<B>> {
    let mut start = 0;
    while u64::from(start) < BLOCK {
        let rest = &bytes[usize::from(start)..];
        let (header, rest) = RecordHeader::read_from_prefix(rest).map_err(|_| impossible(start))?;
        if !header.is_sound(start) {
            return Err(impossible(start));
        }
        let name = if header.ino == 0 { &[] } else { &rest[..usize::from(header.name_len)] };
        if let ControlFlow::Break(value) = visit(Record { start, header, name }) {
            return Ok(Some(value));
        }
        start += header.rec_len;
    }
    Ok(None)
}

impl Volume {
    /// The bytes of block `block` of a directory, and where it lies.
    fn dir_block(&self, raw: &RawInode, block: u64) -> Result<(u64, BlockBytes)> {
        let at = self.dir_block_at(raw, block)?;
        let mut bytes = [0; BLOCK as usize];
        self.region.peek(at, &mut bytes)?;
        Ok((at, bytes))
    }

    /// Calls `visit` for the header of each record of the block at `at`, where it lies, until it breaks.
    fn walk<B>(
        &self,
        at: u64,
        mut visit: impl FnMut(u16, RecordHeader) -> ControlFlow<B>,
    ) -> Result<Option<B>> {
        let (mut start, mut steps) = (0u16, 0);
        let mut found = None;
        while u64::from(start) < BLOCK && found.is_none() {
            let header = self.record_header(at + u64::from(start))?;
            if !header.is_sound(start) {
                return Err(impossible(start));
            }
            found = visit(start, header).break_value();
            start += header.rec_len;
            steps += 1;
        }
        sim::work(Work::STEP, steps);
        Ok(found)
    }

    /// Where the block at `at` has room.
    fn room_of(&self, at: u64) -> Result<Room> {
        let mut room = Room::default();
        self.walk(at, |start, header| {
            room = room.with(Room::of(header.gap(), start));
            ControlFlow::<()>::Continue(())
        })?;
        Ok(room)
    }

    fn dir_block_at(&self, raw: &RawInode, block: u64) -> Result<u64> {
        if block >= self.region.len() / BLOCK {
            // Its tree leads back into itself, or the walk over its blocks would have met a hole.
            return Err(Error::Corrupt(format!("directory block {block}: the image has not so many")));
        }
        let at = Tree::of(raw).lookup(&self.region, block)?;
        at.ok_or_else(|| Error::Corrupt(format!("directory block {block} is a hole")))
    }

    /// Looks for `name`, with the index if the volume uses one. The caller holds the directory's lock for writing, or knows
    /// that the index exists.
    pub(crate) fn find_name(&self, raw: &RawInode, state: &InodeState, name: &[u8]) -> Result<Option<Found>> {
        match &state.names {
            Some(index) => self.find_indexed(raw, index, name),
            None => self.find_linear(raw, name),
        }
    }

    fn find_indexed(&self, raw: &RawInode, index: &DirIndex, name: &[u8]) -> Result<Option<Found>> {
        sim::work(Work::MISS, 1);
        let hash = hash_of(name);
        ran::did(Work::NODE, 1);
        ran::node(1);
        let mut fault = None;
        let entry = index.names.find(spread(hash), |entry| {
            (entry >> 32) as u32 == hash
                && self.record_is(raw, (entry & 0xffff_ffff) * 4, name).unwrap_or_else(|error| {
                    fault = Some(error);
                    false
                })
        });
        match (entry, fault) {
            (Some(entry), _) => {
                let position = (entry & 0xffff_ffff) * 4;
                let at = self.dir_block_at(raw, position / BLOCK)? + position % BLOCK;
                Ok(Some(Found { ino: self.record_header(at)?.ino, position }))
            }
            (None, Some(fault)) => Err(fault),
            (None, None) => Ok(None),
        }
    }

    fn record_header(&self, at: u64) -> Result<RecordHeader> {
        Ok(self.region.read(at)?)
    }

    fn record_is(&self, raw: &RawInode, position: u64, name: &[u8]) -> Result<bool> {
        let at = self.dir_block_at(raw, position / BLOCK)? + position % BLOCK;
        if usize::from(self.record_header(at)?.name_len) != name.len() {
            return Ok(false);
        }
        let mut bytes = [0; 256];
        self.region.peek(at + RECORD_HEADER as u64, &mut bytes[..name.len()])?;
        Ok(&bytes[..name.len()] == name)
    }

    fn find_linear(&self, raw: &RawInode, name: &[u8]) -> Result<Option<Found>> {
        for block in 0..raw.size / BLOCK {
            let (_, bytes) = self.dir_block(raw, block)?;
            let mut steps = 0;
            let found = records(&bytes, |record| {
                steps += 1;
                match record.header.ino != 0 && record.name == name {
                    true => ControlFlow::Break((record.start, record.header.ino)),
                    false => ControlFlow::Continue(()),
                }
            })?;
            sim::work(Work::STEP, steps);
            if let Some((start, ino)) = found {
                return Ok(Some(Found { ino, position: block * BLOCK + u64::from(start) }));
            }
        }
        Ok(None)
    }

    /// Builds the index of a directory, unless it is there or the volume goes without.
    pub(crate) fn index_names(&self, raw: &RawInode, state: &mut InodeState) -> Result<()> {
        if state.names.is_some() || !self.settings.dir_index {
            return Ok(());
        }
        let mut index = DirIndex { names: HashTable::new(), room: Vec::new(), first: [0; GAP_CLASSES] };
        for block in 0..raw.size / BLOCK {
            let (_, bytes) = self.dir_block(raw, block)?;
            let mut room = Room::default();
            records(&bytes, |record| {
                if record.header.ino != 0 {
                    index.add_name(record.name, block * BLOCK + u64::from(record.start));
                }
                room = room.with(Room::of(record.header.gap(), record.start));
                ControlFlow::<()>::Continue(())
            })?;
            ran::push(&mut index.room, room);
        }
        sim::work(Work::STEP, index.names.len() as u64);
        state.names = Some(ran::boxed(index));
        Ok(())
    }

    /// Where a record for a name of `name_len` bytes can go.
    pub(crate) fn find_place(
        &self,
        raw: &RawInode,
        state: &mut InodeState,
        name_len: usize,
    ) -> Result<Place> {
        let need = record_len(name_len) as u16;
        if let Some(index) = &mut state.names {
            return match index.block_with_gap(need) {
                Some((block, room)) => {
                    let at = self.dir_block_at(raw, block)?;
                    let header = self.record_header(at + u64::from(room.start))?;
                    Ok(place_in(header, (block, at), room.start))
                }
                None => Ok(Place::NewBlock),
            };
        }
        for block in 0..raw.size / BLOCK {
            let at = self.dir_block_at(raw, block)?;
            let place = self.walk(at, |start, header| match header.gap() >= need {
                true => ControlFlow::Break(place_in(header, (block, at), start)),
                false => ControlFlow::Continue(()),
            })?;
            if let Some(place) = place {
                return Ok(place);
            }
        }
        Ok(Place::NewBlock)
    }

    /// Writes the record at its place, whose range and the directory's first half the caller has logged, and updates the
    /// directory's times and size in `raw` and on the medium.
    pub(crate) fn insert_name(
        &self,
        tx: &mut Transaction,
        (dir, raw, state): (&Inode, &mut RawInode, &InodeState),
        place: Place,
        (name, ino): (&[u8], u64),
    ) -> Result<Inserted> {
        let _scope = sim::scope(media::charges::METADATA);
        let header = |rec_len| RecordHeader { ino, rec_len, name_len: name.len() as u8, file_type: 0 };
        let (position, at, rec_len) = match place {
            Place::Gap { position, at, kept, gap } => {
                self.write_record(at + u64::from(kept), header(gap), name)?;
                self.region.store_u16(at + 8, kept)?;
                (position + u64::from(kept), at + u64::from(kept), gap)
            }
            Place::Unused { position, at, rec_len } => {
                self.write_record(at, header(rec_len), name)?;
                (position, at, rec_len)
            }
            Place::NewBlock => {
                let at = self.append_dir_block(tx, raw)?;
                self.write_record(at, header(BLOCK as u16), name)?;
                (raw.size - BLOCK, at, BLOCK as u16)
            }
        };
        self.touch_dir(dir, raw)?;
        let (block, start) = (position / BLOCK, position % BLOCK);
        let room = match &state.names {
            Some(index) if index.has_more(block) => self.room_of(at - start)?,
            _ => Room::of(header(rec_len).gap(), start as u16),
        };
        Ok(Inserted { position, room })
    }

    fn write_record(&self, at: u64, header: RecordHeader, name: &[u8]) -> Result<()> {
        let mut bytes = [0; RECORD_HEADER + 256];
        bytes[..RECORD_HEADER].copy_from_slice(header.as_bytes());
        bytes[RECORD_HEADER..RECORD_HEADER + name.len()].copy_from_slice(name);
        let len = RECORD_HEADER + name.len();
        self.region.store(at, &bytes[..len])?;
        self.region.flush(at, len as u64);
        Ok(())
    }

    fn append_dir_block(&self, tx: &mut Transaction, raw: &mut RawInode) -> Result<u64> {
        let mut tree = Tree::of(raw);
        let mut at = 0;
        let filled = tree.fill(self, tx, Run::new(raw.size / BLOCK, 1), &mut |_, block| {
            at = block;
            Ok(())
        })?;
        if filled.mapped == 0 {
            return Err(Error::NoSpace);
        }
        raw.root = tree.root;
        raw.height = tree.height;
        raw.size += BLOCK;
        raw.blocks = raw.blocks.saturating_add(filled.added as u32);
        Ok(at)
    }

    /// Stores a directory's first half after a change of its names.
    pub(crate) fn touch_dir(&self, dir: &Inode, raw: &mut RawInode) -> Result<()> {
        raw.touch(Timestamp::now());
        self.store_half(dir, raw)
    }

    /// What removing `found` changes.
    pub(crate) fn plan_removal(&self, raw: &RawInode, found: Found) -> Result<Removal> {
        let at = self.dir_block_at(raw, found.position / BLOCK)?;
        let wanted = (found.position % BLOCK) as u16;
        let mut before = None;
        let rec_len = self.walk(at, |start, header| {
            if start == wanted {
                return ControlFlow::Break(header.rec_len);
            }
            before = Some((at + u64::from(start), header.rec_len, header.need()));
            ControlFlow::Continue(())
        })?;
        let rec_len = rec_len
            .ok_or_else(|| Error::Corrupt(format!("no directory record at byte {}", found.position)))?;
        Ok(Removal { found, at: at + u64::from(wanted), rec_len, before })
    }

    /// Removes a name, whose range and the directory's first half the caller has logged.
    pub(crate) fn remove_name(&self, (dir, raw): (&Inode, &mut RawInode), removal: &Removal) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        match removal.before {
            Some((at, rec_len, _)) => self.region.store_u16(at + 8, rec_len + removal.rec_len)?,
            None => self.region.store(removal.at, &0u64.to_le_bytes())?,
        }
        self.touch_dir(dir, raw)
    }

    /// Makes a record point to another inode: the range to be logged is its first 8 bytes.
    pub(crate) fn redirect_name(&self, raw: &RawInode, found: Found, ino: u64) -> Result<()> {
        let at = self.record_at(raw, found)?;
        Ok(self.region.store(at, &ino.to_le_bytes())?)
    }

    /// Where a record lies.
    pub(crate) fn record_at(&self, raw: &RawInode, found: Found) -> Result<u64> {
        Ok(self.dir_block_at(raw, found.position / BLOCK)? + found.position % BLOCK)
    }

    /// Gives the names from `cursor` on, with their inodes and the cursor after them.
    pub(crate) fn list_names(
        &self,
        raw: &RawInode,
        cursor: u64,
        sink: &mut dyn FnMut(&[u8], Ino, u64) -> bool,
    ) -> Result<()> {
        for block in cursor / BLOCK..raw.size / BLOCK {
            let (_, bytes) = self.dir_block(raw, block)?;
            let mut steps = 0;
            let stopped = records(&bytes, |record| {
                steps += 1;
                let position = block * BLOCK + u64::from(record.start);
                if record.header.ino == 0
                    || position < cursor
                    || sink(record.name, Ino(record.header.ino), position + 1)
                {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            sim::work(Work::STEP, steps);
            if stopped.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Whether a directory has names besides `.` and `..`.
    pub(crate) fn is_empty_dir(&self, raw: &RawInode) -> Result<bool> {
        let mut empty = true;
        self.list_names(raw, 0, &mut |name, _, _| {
            empty = name == b"." || name == b"..";
            empty
        })?;
        Ok(empty)
    }

    /// The first block of a new directory: `.` and `..`.
    pub(crate) fn write_dot_records(&self, at: u64, own: u64, parent: u64) -> Result<()> {
        let first = record_len(1) as u16;
        let header = |ino, rec_len, name_len| RecordHeader { ino, rec_len, name_len, file_type: 0 };
        self.write_record(at, header(own, first, 1), b".")?;
        self.write_record(at + u64::from(first), header(parent, BLOCK as u16 - first, 2), b"..")
    }
}

/// The place that the record at byte `start` of a block offers.
fn place_in(header: RecordHeader, (block, at): (u64, u64), start: u16) -> Place {
    let (position, at) = (block * BLOCK + u64::from(start), at + u64::from(start));
    match header.ino {
        0 => Place::Unused { position, at, rec_len: header.rec_len },
        _ => Place::Gap { position, at, kept: header.need(), gap: header.gap() },
    }
}

impl DirIndex {
    fn add_name(&mut self, name: &[u8], position: u64) {
        let hash = hash_of(name);
        ran::did(Work::NODE, 1);
        ran::node(1);
        let _own = ran::aside();
        self.names.insert_unique(spread(hash), pack(hash, position), |entry| spread((entry >> 32) as u32));
    }

    /// Whether the known gap of `block` may not be its only one.
    fn has_more(&self, block: u64) -> bool {
        self.room.get(block as usize).is_some_and(|room| room.more)
    }

    fn set_room(&mut self, block: usize, room: Room) {
        match self.room.get_mut(block) {
            Some(known) => *known = room,
            None => ran::push(&mut self.room, room),
        }
        for first in self.first.iter_mut().take(usize::from(room.gap) / 16 + 1) {
            *first = block.min(*first);
        }
    }

    /// The first block with a gap of at least `need` bytes.
    fn block_with_gap(&mut self, need: u16) -> Option<(u64, Room)> {
        let class = usize::from(need) / 16;
        let first = self.first.get_mut(class)?;
        while self.room.get(*first).is_some_and(|room| usize::from(room.gap) < 16 * class) {
            *first += 1;
        }
        let from = (*first).min(self.room.len());
        let found = self.room[from..].iter().position(|room| room.gap >= need)?;
        Some(((from + found) as u64, self.room[from + found]))
    }

    /// Follows an insertion that was committed.
    pub(crate) fn inserted(&mut self, name: &[u8], inserted: &Inserted) {
        self.add_name(name, inserted.position);
        self.set_room((inserted.position / BLOCK) as usize, inserted.room);
    }

    /// Follows a removal that was committed: forgets the name and notes the gap that it left.
    pub(crate) fn removed(&mut self, name: &[u8], removal: &Removal) {
        let hash = hash_of(name);
        let packed = pack(hash, removal.found.position);
        ran::did(Work::NODE, 1);
        ran::node(1);
        if let Ok(entry) = self.names.find_entry(spread(hash), |entry| *entry == packed) {
            entry.remove();
        }
        let own = (removal.found.position % BLOCK) as u16;
        let (gap, start) = match removal.before {
            Some((at, rec_len, need)) => (rec_len + removal.rec_len - need, own - (removal.at - at) as u16),
            None => (removal.rec_len, own),
        };
        let block = (removal.found.position / BLOCK) as usize;
        let known = self.room.get(block).copied().unwrap_or_default();
        let left = Room::of(gap, start);
        // The gap that was known may be part of the one that is new.
        let merged = known.start == own || known.start == start;
        self.set_room(block, if merged { Room { more: known.more, ..left } } else { known.with(left) });
    }
}
