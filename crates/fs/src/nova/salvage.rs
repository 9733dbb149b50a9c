//! What is left of a damaged image that only its own bytes can tell: entries of a log that cannot be read as a whole, the fixed
//! part of an inode with a wrong checksum, chunks of an inode table to which nothing leads any more.
//!
//! A log is read on behind an entry that is damaged: from the next place in its page that holds an entry with the right checksum.
//! What is between becomes entries that change nothing. Where the pointer to the next page is damaged, the page of the tail is
//! next: those between are lost. A log whose tail is damaged ends before the first entry that is older than the one before it,
//! because what lies behind a tail is what the page held in an earlier use.

use std::collections::BTreeSet;
use std::ops::Range;

use media::nvmm::Region;
use vfs::FileKind;
use zerocopy::IntoBytes;

use super::inode::{check_write, write_raw};
use super::layout::{
    BLOCK, ENTRY_CHECKSUM, ENTRY_MIN, FILE_BLOCKS_MAX, Geometry, INODE_BYTES, LinksEntry, NAME_HEADER,
    NO_TIME, NameEntry, ROOT_INO, RawInode, SHARD_INODES, entry_checksum, ino, kind, name_entry_bytes,
};
use super::log::{Entry, Reader};
use base::error::Result;

/// Chunks of a shard behind a missing one that are looked for.
const FOLLOWING: u64 = 8;
/// The longest name.
const NAME_MAX: u64 = 255;

/// The readable rest of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Where it begins; 0: nothing is left.
    pub(crate) head: u64,
    /// The position behind the last entry.
    pub(crate) tail: u64,
    /// Bytes of which no entry could be read.
    gaps: Vec<Range<u64>>,
    /// Positions at which a page ends though it said something else.
    ends: Vec<u64>,
    /// Pages are passed over that lead to one of the log.
    passes: bool,
    /// A page, and the one that follows it now.
    links: Vec<(u64, u64)>,
    /// All pages.
    pub(crate) pages: BTreeSet<u64>,
    /// Entries that could be read.
    entries: u64,
    is_dir: bool,
    /// Links and time of the last change, as the entries say.
    links_and_time: (u32, u64),
}

/// Reads what is left of a log.
struct Walk<'a> {
    region: &'a Region,
    geometry: &'a Geometry,
    reader: Reader<'a>,
    taken: &'a dyn Fn(u64) -> bool,
    rest: Rest,
    /// The page of the tail, if that can be one.
    last: Option<u64>,
}

impl Rest {
    /// That of the log of an inode. No page is used whose number is `taken`.
    pub(crate) fn of(
        (region, geometry): (&Region, &Geometry),
        (number, raw): (u64, &RawInode),
        taken: &dyn Fn(u64) -> bool,
    ) -> Result<Self> {
        let is_dir = FileKind::from_mode(raw.mode) == Some(FileKind::Directory);
        let reader = Reader::new(region, geometry, number, (0, 0))?;
        let rest = Self { is_dir, links_and_time: (1, raw.created), ..Self::default() };
        let mut walk = Walk { region, geometry, reader, taken, rest, last: None };
        let page = raw.tail.saturating_sub(1) / BLOCK * BLOCK;
        let is_in_room = raw.tail.is_multiple_of(8) && raw.tail - page <= geometry.log_room;
        walk.last = Some(page).filter(|page| raw.tail != 0 && is_in_room && walk.can_be(*page));
        walk.run(raw)?;
        Ok(walk.rest)
    }

    /// Whether the log has lost pages that may still be read.
    pub(crate) fn passes_pages(&self) -> bool {
        self.passes
    }

    /// Stores it, all but head and tail.
    pub(crate) fn store(&self, region: &Region, geometry: &Geometry) -> Result<()> {
        for gap in &self.gaps {
            self.fill(region, gap.start, gap.end)?;
        }
        for at in &self.ends {
            region.store_u64(*at, kind::NEXT_PAGE.into())?;
            region.flush(*at, 8);
        }
        for (page, next) in &self.links {
            let at = geometry.next_at(*page);
            region.store_u64(at, *next)?;
            region.flush(at, 8);
        }
        region.fence();
        Ok(())
    }

    /// Entries that change nothing, in place of what cannot be read.
    fn fill(&self, region: &Region, mut at: u64, end: u64) -> Result<()> {
        let longest = name_entry_bytes(NAME_MAX as usize);
        while at < end {
            let left = end - at;
            let len = match self.is_dir {
                false => size_of::<LinksEntry>() as u64,
                true if left <= longest => left,
                true => longest.min(left - ENTRY_MIN) / 8 * 8,
            };
            let mut entry = vec![0; len as usize];
            let (links, ctime) = self.links_and_time;
            if self.is_dir {
                // The removal of a name that no call can have made.
                let name_len = (len - NAME_HEADER as u64).min(NAME_MAX);
                let header = NameEntry {
                    kind: kind::NAME,
                    name_len: name_len as u8,
                    links: links as u16,
                    time: NO_TIME,
                    ..NameEntry::default()
                };
                entry[..NAME_HEADER].copy_from_slice(header.as_bytes());
                entry[NAME_HEADER..][..name_len as usize].fill(0x7f);
            } else {
                let links = LinksEntry { kind: kind::LINKS, links, ctime, ..LinksEntry::default() };
                entry.copy_from_slice(links.as_bytes());
            }
            let sum = entry_checksum(&entry);
            entry[ENTRY_CHECKSUM].copy_from_slice(&sum.to_le_bytes());
            region.store(at, &entry)?;
            region.flush(at, len);
            at += len;
        }
        Ok(())
    }
}

impl Walk<'_> {
    fn can_be(&self, page: u64) -> bool {
        self.geometry.holds(page, 1)
            && !(self.taken)(page / BLOCK)
            && !self.rest.pages.contains(&(page / BLOCK))
    }

    fn run(&mut self, raw: &RawInode) -> Result<()> {
        let Some(mut page) = Some(raw.head).filter(|head| self.can_be(*head)).or(self.last) else {
            return Ok(());
        };
        self.rest.passes = page != raw.head && self.has_others_before(page, None);
        let mut before = None;
        loop {
            let is_last = Some(page) == self.last;
            let limit = if is_last { raw.tail } else { page + self.geometry.log_room };
            match self.read_page(page, limit, is_last)? {
                Some(end) => {
                    self.rest.pages.insert(page / BLOCK);
                    if let Some(before) = before
                        && self.region.load_u64(self.geometry.next_at(before))? != page
                    {
                        self.rest.passes |= self.has_others_before(page, Some(before));
                        self.rest.links.push((before, page));
                    }
                    self.rest.head = if before.is_none() { page } else { self.rest.head };
                    self.rest.tail = end;
                    before = Some(page);
                }
                // None of its entries: it is no page of this log, unless all of them are damaged.
                None if !is_last && self.last.is_some() => {}
                None => break,
            }
            if is_last {
                break;
            }
            let next = self.region.load_u64(self.geometry.next_at(page))?;
            let follows = before == Some(page) && self.can_be(next);
            let Some(other) = Some(next).filter(|_| follows).or(self.last.filter(|last| self.can_be(*last)))
            else {
                break;
            };
            page = other;
        }
        // A page that nothing follows does not say that it ends.
        let (last, tail) = (self.rest.tail.saturating_sub(1) / BLOCK, self.rest.tail);
        self.rest.ends.retain(|end| *end / BLOCK != last || *end < tail);
        Ok(())
    }

    /// Whether another block than `known` leads to a page, as a page of the log before it would.
    fn has_others_before(&self, page: u64, known: Option<u64>) -> bool {
        let mut places = (self.geometry.first_block()..self.geometry.blocks).map(|block| block * BLOCK);
        let leads_there =
            |at: u64| self.region.load_u64(self.geometry.next_at(at)).is_ok_and(|next| next == page);
        places.any(|at| at != page && Some(at) != known && self.can_be(at) && leads_there(at))
    }

    /// Where the entries of a page end; none where there is none. With the tail in it, the last may reach beyond the tail.
    fn read_page(&mut self, page: u64, limit: u64, is_last: bool) -> Result<Option<u64>> {
        let (mut at, mut found) = (page, false);
        let end = page + self.geometry.log_room;
        let step = if self.rest.is_dir { 8 } else { size_of::<LinksEntry>() };
        let mut kind_of = [0];
        while at < limit && end - at >= ENTRY_MIN {
            self.region.peek(at, &mut kind_of)?;
            if !is_last && kind_of[0] == kind::NEXT_PAGE {
                return Ok(found.then_some(at));
            }
            if let Some(len) = self.sound(at, end - at) {
                (at, found) = (at + len, true);
                continue;
            }
            let others = (at + ENTRY_MIN.next_multiple_of(step as u64)..limit).step_by(step);
            let Some(next) = others.into_iter().find(|next| self.sound(*next, end - next).is_some()) else {
                break;
            };
            self.rest.gaps.push(at..next);
            at = next;
        }
        if found && !is_last && end - at >= ENTRY_MIN {
            self.rest.ends.push(at);
        }
        Ok(found.then_some(at))
    }

    /// The length of the entry at `at`, if there is one that can be of this log.
    fn sound(&mut self, at: u64, left: u64) -> Option<u64> {
        let (entry, len) = self.reader.entry_at(at, left).ok()?;
        let (_, last) = self.rest.links_and_time;
        let is_dir = self.rest.is_dir;
        let (fits, links, time) = match entry {
            Entry::Write(write) => (!is_dir && check_write(self.geometry, &write).is_ok(), None, write.time),
            Entry::Set(entry) => (entry.size <= FILE_BLOCKS_MAX * BLOCK, None, entry.ctime),
            Entry::Links(entry) => (true, Some(entry.links), entry.ctime),
            Entry::Name(entry, _) => (is_dir, Some(entry.links.into()), entry.time),
        };
        let is_late = self.last.is_some() || time == NO_TIME || time >= last;
        if !fits || !is_late {
            return None;
        }
        let (known, last) = &mut self.rest.links_and_time;
        self.rest.entries += 1;
        *known = links.unwrap_or(*known);
        *last = if time == NO_TIME { *last } else { time };
        Some(len)
    }
}

/// Whether a slot has never held an inode, as far as its fixed part says.
pub(crate) fn is_blank(number: u64, raw: &RawInode) -> bool {
    raw.ino != number && raw.head == 0 && raw.mode == 0
}

/// Whether the fixed part of an inode is as it was made.
pub(crate) fn is_sealed(number: u64, raw: &RawInode) -> bool {
    raw.ino == number && raw.checksum == raw.compute_checksum()
}

/// An inode with its number, a kind, and the checksum of these. The kind is that of the entries of its log: what it says itself may
/// be what is damaged.
pub(crate) fn sealed(region: &Region, geometry: &Geometry, number: u64, raw: &RawInode) -> RawInode {
    let entries_as = |kind: FileKind| {
        let raw = RawInode { mode: kind.mode_bits(), ..*raw };
        Rest::of((region, geometry), (number, &raw), &|_| false).map_or(0, |rest| rest.entries)
    };
    let (dir, file) = (entries_as(FileKind::Directory), entries_as(FileKind::Regular));
    let kind = match FileKind::from_mode(raw.mode) {
        _ if number == ROOT_INO || dir > file => FileKind::Directory,
        Some(said) if said != FileKind::Directory || dir == file => said,
        _ => FileKind::Regular,
    };
    with_kind(number, raw, kind)
}

/// An inode with its number, this kind, and the checksum of these.
pub(crate) fn with_kind(number: u64, raw: &RawInode, kind: FileKind) -> RawInode {
    let raw = RawInode { ino: number, mode: kind.mode_bits() | raw.mode & 0o7777, ..*raw };
    RawInode { checksum: raw.compute_checksum(), ..raw }
}

/// Stores the fixed part of an inode; durable on return.
pub(crate) fn store_sealed(region: &Region, at: u64, raw: &RawInode) -> Result<()> {
    write_raw(region, at, raw)?;
    region.fence();
    Ok(())
}

/// Counts those of the first slots of a chunk that hold an inode which belongs there.
fn votes(region: &Region, geometry: &Geometry, (shard, index): (u64, u64), chunk: u64) -> u64 {
    // The lowest free slot is taken first.
    let slots = 0..geometry.slots_per_chunk().min(BLOCK / INODE_BYTES);
    let belongs = |slot: &u64| {
        let number = (index * geometry.slots_per_chunk() + slot) * geometry.shards + shard;
        region.read::<RawInode>(chunk + slot * INODE_BYTES).is_ok_and(|raw| is_sealed(number, &raw))
    };
    slots.filter(belongs).count() as u64
}

/// Whether a chunk can be this one: most of its slots hold nothing, or an inode of the right number.
fn is_possible(region: &Region, geometry: &Geometry, (shard, index): (u64, u64), chunk: u64) -> bool {
    let slots = geometry.slots_per_chunk();
    let belongs = |slot: &u64| {
        let number = (index * slots + slot) * geometry.shards + shard;
        let raw = region.read::<RawInode>(chunk + slot * INODE_BYTES);
        raw.is_ok_and(|raw| raw.ino == number || RawInode { next_chunk: 0, ..raw } == RawInode::default())
    };
    (0..slots).filter(belongs).count() as u64 * 2 > slots
}

/// A change of a list of chunks.
pub(crate) struct Mended {
    pub(crate) what: String,
    /// The list ends there, and chunks that can be read followed.
    pub(crate) loses: bool,
}

/// Makes the lists of chunks right: what leads to no chunk leads to the one that belongs there, if it is found, and ends the list
/// otherwise. Says what was done.
pub(crate) fn mend_tables(region: &Region, geometry: &Geometry) -> Result<Vec<Mended>> {
    let (mut done, mut known) = (Vec::new(), BTreeSet::new());
    let every_place = || (geometry.first_block()..geometry.blocks).map(|block| block * BLOCK);
    for shard in 0..geometry.shards {
        let mut link = Geometry::shard_at(shard) + SHARD_INODES;
        for index in 0.. {
            let at = region.load_u64(link)?;
            let can_be = |at: u64| geometry.holds(at, geometry.chunk_blocks()) && !known.contains(&at);
            let count = |at: u64| votes(region, geometry, (shard, index), at);
            let is_good = at == 0 && index > 0
                || can_be(at) && (count(at) > 0 || is_possible(region, geometry, (shard, index), at));
            let mut chunk = at;
            if !is_good {
                let found = every_place().filter(|at| can_be(*at)).map(|at| (count(at), at)).max();
                chunk = found.filter(|(votes, _)| *votes > 0).map_or(0, |(_, at)| at);
            }
            if chunk != at {
                region.store_u64(link, chunk)?;
                region.flush(link, 8);
                region.fence();
                let what = match chunk {
                    0 => format!(
                        "inode table of shard {shard}: ends before chunk {index}, which {at} cannot be"
                    ),
                    _ => format!("inode table of shard {shard}: chunk {index} was found at {chunk}"),
                };
                let follows = |at: &u64| {
                    (1..=FOLLOWING).any(|more| votes(region, geometry, (shard, index + more), *at) > 0)
                };
                let loses = chunk == 0 && every_place().any(|at| can_be(at) && follows(&at));
                done.push(Mended { what, loses });
            }
            if chunk == 0 {
                break;
            }
            known.insert(chunk);
            link = chunk + geometry.chunk_bytes - INODE_BYTES + ino::NEXT_CHUNK;
        }
    }
    Ok(done)
}
