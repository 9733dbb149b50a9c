//! Logs: a chain of pages for each inode, written at the end only.
//!
//! ```text
//! inode: head ──► page ──next──► page ──next──► page ◄── tail (the byte behind the last entry that counts)
//! ```
//!
//! What lies behind the tail is nothing, and so is the page pointer of the tail's page: the writer sets it before the tail moves
//! on, and recovery never follows it. So a log grows without a fence of its own (the published code fences before it links,
//! because its recovery follows the pointer). A log grows by one page at a time; the published code doubles it up to 256 pages,
//! which saves trips to its allocator.
//!
//! The order of entries is their order in the chain: the published `trans_id` says nothing more here, since nothing is ever
//! rewritten in place. The published hints on the medium (`invalid`, `invalid_pages`, `num_entries`) live in DRAM
//! ([`PageUse`]) and are found again by replay.

use media::event::Mark;
use media::nvmm::Region;
use sim::map::HashMap;
use sim::{ByteRun, ran};
use zerocopy::{FromBytes, IntoBytes};

use super::Volume;
use super::alloc::{Extent, Need};
use super::layout::{
    BLOCK, ENTRY_CHECKSUM, ENTRY_MIN, Geometry, LinksEntry, NAME_HEADER, NameEntry, SetEntry, WriteEntry,
    entry_checksum, ino, kind, name_entry_bytes,
};
use super::parts;
use base::error::{Error, Result};

/// Longest name.
const NAME_MAX: usize = 255;

/// An entry as it was read.
#[allow(clippy::large_enum_variant)] // it lives on the stack of one loop
pub(crate) enum Entry {
    Write(WriteEntry),
    Set(SetEntry),
    Links(LinksEntry),
    Name(NameEntry, Name),
}

/// A name of up to 255 bytes.
pub(crate) struct Name {
    bytes: [u8; 256],
    len: usize,
}

impl Name {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// What DRAM knows of a page of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageUse {
    /// Block number.
    pub(crate) page: u64,
    /// Mapped pages of the file, or names of the directory, that entries in it account for.
    pub(crate) live: u64,
    /// Entries that only the thorough cleaner drops: cuts, holes, removals, attributes.
    pub(crate) pinned: u64,
}

/// A log as DRAM knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Position behind the last entry; 0: there is no log.
    pub(crate) tail: u64,
    /// In the order of the chain.
    pub(crate) pages: Vec<PageUse>,
    /// Of a long log: where in `pages` a page is.
    places: Option<Box<HashMap<u64, usize>>>,
}

/// Pages that are looked for one by one, from the end.
const FEW_PAGES: usize = 16;

impl Log {
    pub(crate) fn head(&self) -> u64 {
        self.pages.first().map_or(0, |first| first.page * BLOCK)
    }

    /// The page with this number. Most changes are to the last ones.
    fn page_mut(&mut self, page: u64) -> Option<&mut PageUse> {
        if self.pages.len() <= FEW_PAGES {
            return self.pages.iter_mut().rev().find(|known| known.page == page);
        }
        let places = self.places.get_or_insert_with(|| ran::boxed(HashMap::default()));
        for place in places.len()..self.pages.len() {
            places.insert(self.pages[place].page, place);
        }
        self.pages.get_mut(*places.get(&page)?)
    }

    /// Replaces the pages: some were cleaned away.
    pub(crate) fn set_pages(&mut self, pages: Vec<PageUse>) {
        self.pages = pages;
        self.places = None;
    }

    /// One more page or name whose entry is in log page `page`.
    pub(crate) fn add_live(&mut self, page: u64, count: u64) {
        if let Some(known) = self.page_mut(page) {
            known.live += count;
        }
    }

    /// One less.
    pub(crate) fn drop_live(&mut self, page: u64) {
        if let Some(known) = self.page_mut(page) {
            known.live = known.live.saturating_sub(1);
        }
    }

    /// One more entry that stays until a thorough cleaning.
    pub(crate) fn pin(&mut self, page: u64) {
        if let Some(known) = self.page_mut(page) {
            known.pinned += 1;
        }
    }
}

/// Reads the entries of a log in their order.
pub(crate) struct Reader<'a> {
    region: &'a Region,
    geometry: &'a Geometry,
    number: u64,
    at: u64,
    tail: u64,
    /// Pages met so far, the present one last.
    pub(crate) pages: Vec<PageUse>,
}

impl<'a> Reader<'a> {
    /// Of the log of inode `number`; without a head or a tail there is none.
    pub(crate) fn new(
        region: &'a Region,
        geometry: &'a Geometry,
        number: u64,
        (head, tail): (u64, u64),
    ) -> Result<Self> {
        let mut reader = Self { region, geometry, number, at: head, tail, pages: Vec::new() };
        if head == 0 {
            (reader.at, reader.tail) = (0, 0);
            return Ok(reader);
        }
        if tail == 0 {
            return Err(reader.fault("has a head and no tail"));
        }
        reader.enter(head)?;
        Ok(reader)
    }

    fn fault(&self, what: &str) -> Error {
        Error::Corrupt(format!("inode {}: log at {}: {what}", self.number, self.at))
    }

    fn enter(&mut self, page: u64) -> Result<()> {
        if !self.geometry.holds(page, 1) {
            return Err(self.fault(&format!("leads to a page at {page}, where none can be")));
        }
        if self.pages.len() as u64 > self.geometry.blocks {
            return Err(self.fault("leads back into itself"));
        }
        self.at = page;
        ran::push(&mut self.pages, PageUse { page: page / BLOCK, ..PageUse::default() });
        Ok(())
    }

    /// The next entry and where it lies.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Entry)>> {
        while self.at != self.tail {
            let (page, within) = (self.at / BLOCK * BLOCK, self.at % BLOCK);
            let holds_tail = self.tail > self.at && self.tail <= page + self.geometry.log_room;
            let left = self.geometry.log_room.saturating_sub(within);
            let ends = left < ENTRY_MIN || self.kind_at(self.at)? == kind::NEXT_PAGE;
            if ends && holds_tail {
                return Err(self.fault("ends before its tail"));
            }
            if ends {
                let next = self.region.load_u64(self.geometry.next_at(page))?;
                self.enter(next)?;
                continue;
            }
            let at = self.at;
            let (entry, len) = self.entry_at(at, left)?;
            self.at += len;
            if holds_tail && self.at > self.tail {
                return Err(self.fault("has an entry across its tail"));
            }
            return Ok(Some((at, entry)));
        }
        Ok(None)
    }

    fn kind_at(&self, at: u64) -> Result<u8> {
        let mut byte = [0];
        self.region.peek(at, &mut byte)?;
        Ok(byte[0])
    }

    /// The entry at a place of a page of which `left` bytes are left, and its length.
    pub(crate) fn entry_at(&self, at: u64, left: u64) -> Result<(Entry, u64)> {
        let mut bytes = [0; NAME_HEADER + 256];
        let kind = self.kind_at(at)?;
        let len = match kind {
            kind::WRITE | kind::SET | kind::LINKS => 64,
            kind::NAME => {
                let header: NameEntry = self.region.read(at)?;
                name_entry_bytes(header.name_len.into())
            }
            other => return Err(self.fault(&format!("has an entry of kind {other}, which is none"))),
        };
        if len > left {
            return Err(self.fault("has an entry that leaves its page"));
        }
        let bytes = &mut bytes[..len as usize];
        self.region.peek(at, bytes)?;
        let sum = u32::from_le_bytes(bytes[ENTRY_CHECKSUM].try_into().expect("four bytes"));
        if sum != entry_checksum(bytes) {
            return Err(self.fault("has an entry with a wrong checksum"));
        }
        parse(kind, bytes).map(|entry| (entry, len)).ok_or_else(|| self.fault("has an impossible entry"))
    }

    /// After an entry that could not be read: where it lies, if it is the last of the log and nothing sound is behind it; where the
    /// last entry ends, if the tail is in the midst of it.
    pub(crate) fn torn_at(&self) -> Option<u64> {
        if self.tail < self.at && self.tail / BLOCK == (self.at - 1) / BLOCK {
            return Some(self.at);
        }
        let (page, len) = (self.at / BLOCK * BLOCK, self.tail.checked_sub(self.at)?);
        let is_last = self.tail <= page + self.geometry.log_room && len <= name_entry_bytes(NAME_MAX);
        if len == 0 || !is_last {
            return None;
        }
        let is_sound = |start: u64| self.entry_at(start, self.tail - start).is_ok();
        let nothing_sound = !(self.at + 8..self.tail).step_by(8).any(is_sound);
        nothing_sound.then_some(self.at)
    }

    /// Where the log ends and which pages it has, after its last entry was read.
    pub(crate) fn into_log(self) -> Log {
        Log { tail: self.tail, pages: self.pages, places: None }
    }
}

fn parse(kind: u8, bytes: &[u8]) -> Option<Entry> {
    Some(match kind {
        kind::WRITE => Entry::Write(WriteEntry::read_from_bytes(bytes).ok()?),
        kind::SET => Entry::Set(SetEntry::read_from_bytes(bytes).ok()?),
        kind::LINKS => Entry::Links(LinksEntry::read_from_bytes(bytes).ok()?),
        _ => {
            let (header, rest) = NameEntry::read_from_prefix(bytes).ok()?;
            let text = rest.get(..header.name_len.into())?;
            if text.is_empty() || text.iter().any(|byte| matches!(byte, 0 | b'/')) {
                return None;
            }
            let mut name = Name { bytes: [0; 256], len: text.len() };
            name.bytes[..text.len()].copy_from_slice(text);
            Entry::Name(header, name)
        }
    })
}

/// Entries that were written behind the tail of a log and do not count yet. Dropped, it gives back the pages that it took.
pub(crate) struct Append<'v> {
    volume: &'v Volume,
    /// Where the next one goes; 0: nowhere yet.
    at: u64,
    /// New pages.
    pages: Vec<u64>,
    need: Need,
    /// What the commit store makes reachable, while a tap listens.
    needs: Vec<ByteRun>,
}

impl Append<'_> {
    /// The words of the inode at `inode_at` that make the entries count, with their new values.
    pub(crate) fn words(&self, inode_at: u64, log: &Log) -> impl Iterator<Item = (u64, u64)> {
        let first = self.pages.first().copied().filter(|_| log.tail == 0);
        [Some((inode_at + ino::TAIL, self.at)), first.map(|page| (inode_at + ino::HEAD, page))]
            .into_iter()
            .flatten()
    }

    /// Position behind the last of them.
    pub(crate) fn end(&self) -> u64 {
        self.at
    }

    /// The first new page.
    pub(crate) fn first(&self) -> u64 {
        self.pages.first().copied().unwrap_or(0)
    }

    /// What must be durable before they do; gathered only while a tap listens.
    pub(crate) fn needs(&self) -> &[ByteRun] {
        &self.needs
    }

    /// Adds a range of data to that.
    pub(crate) fn needs_data(&mut self, region: &Region, at: u64, len: u64) {
        if region.is_watched() {
            self.needs.push(ByteRun::new(at, len));
        }
    }

    /// Lets the log follow: the entries count.
    pub(crate) fn apply(mut self, log: &mut Log) {
        log.tail = self.at;
        let pages = std::mem::take(&mut self.pages);
        // Most logs have one page, and no more memory than for one.
        ran::allocate(u64::from(log.pages.len() + pages.len() > log.pages.capacity()));
        if log.pages.is_empty() {
            log.pages.reserve_exact(pages.len());
        }
        log.pages.extend(pages.iter().map(|page| PageUse { page: page / BLOCK, ..PageUse::default() }));
    }
}

impl Drop for Append<'_> {
    fn drop(&mut self) {
        self.pages.iter().for_each(|page| self.volume.blocks.give_back(Extent { offset: *page, blocks: 1 }));
    }
}

impl Volume {
    /// Begins to append to a log.
    pub(crate) fn begin_append(&self, log: &Log, need: Need) -> Append<'_> {
        Append { volume: self, at: log.tail, pages: Vec::new(), need, needs: Vec::new() }
    }

    /// Writes an entry of a file; answers where it lies.
    pub(crate) fn append<T: IntoBytes + zerocopy::Immutable>(
        &self,
        append: &mut Append<'_>,
        entry: &T,
    ) -> Result<u64> {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(entry.as_bytes());
        self.append_bytes(append, &mut bytes)
    }

    /// Writes the entry of a name; answers where it lies.
    pub(crate) fn append_name(&self, append: &mut Append<'_>, header: NameEntry, name: &[u8]) -> Result<u64> {
        let mut bytes = [0; NAME_HEADER + 256];
        bytes[..NAME_HEADER].copy_from_slice(header.as_bytes());
        bytes[NAME_HEADER..NAME_HEADER + name.len()].copy_from_slice(name);
        self.append_bytes(append, &mut bytes[..name_entry_bytes(name.len()) as usize])
    }

    fn append_bytes(&self, append: &mut Append<'_>, entry: &mut [u8]) -> Result<u64> {
        let _part = sim::part(&parts::APPEND);
        let len = entry.len() as u64;
        ran::bytes(len);
        let sum = entry_checksum(entry);
        entry[ENTRY_CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        self.make_room(append, len)?;
        let at = append.at;
        self.region.store(at, entry)?;
        self.region.flush(at, len);
        self.count_entry(at);
        append.needs_data(&self.region, at, len);
        append.at += len;
        Ok(at)
    }

    /// Goes on in a new page when the present one has not `len` bytes left.
    fn make_room(&self, append: &mut Append<'_>, len: u64) -> Result<()> {
        let room = self.geometry.log_room;
        let (page, within) = (append.at / BLOCK * BLOCK, append.at % BLOCK);
        // A full page ends where the next block begins only if nothing is kept at its end, which there always is.
        if append.at != 0 && within + len <= room {
            return Ok(());
        }
        let _part = (append.at == 0).then(|| sim::part(&parts::NEW_LOG));
        let next = self.blocks.take_one(append.need)?;
        ran::push(&mut append.pages, next);
        if append.at != 0 {
            self.end_page(append.at)?;
            append.needs_data(&self.region, append.at, if room - within >= ENTRY_MIN { 8 } else { 0 });
            let link = self.geometry.next_at(page);
            self.region.store_u64(link, next)?;
            self.region.flush(link, 8);
            append.needs_data(&self.region, link, 8);
        }
        append.at = next;
        Ok(())
    }

    /// Says at `at`, where there is room for an entry, that the log goes on in the next page.
    pub(crate) fn end_page(&self, at: u64) -> Result<()> {
        if self.geometry.log_room - at % BLOCK >= ENTRY_MIN {
            self.region.store_u64(at, kind::NEXT_PAGE.into())?;
            self.region.flush(at, 8);
        }
        Ok(())
    }

    /// Makes the entries of one log count: a fence, one word, a fence. Nothing has changed when it fails.
    pub(crate) fn commit_append(&self, inode_at: u64, log: &mut Log, append: Append<'_>) -> Result<()> {
        let _part = sim::part(&parts::UPDATE_TAIL);
        self.region.fence();
        // Tail, then head: the two share a line, and a log without a head is none.
        for (at, new) in append.words(inode_at, log) {
            // A tail without a head is read and means nothing.
            let needs = if at == inode_at + ino::TAIL && log.tail == 0 { &[][..] } else { append.needs() };
            self.region.mark(Mark::Commit { at, needs });
            self.region.store_u64(at, new)?;
        }
        self.region.flush(inode_at + ino::HEAD, 16);
        self.region.fence();
        append.apply(log);
        Ok(())
    }
}
