//! The extended attributes of an inode, as Weir's own formats store them.
//!
//! A set of attributes is a sequence of records without gaps, in the order in which they were set. Names are whole
//! (`user.mime_type`), no two alike.
//!
//! ```text
//! record  | name_len 1 | apart 1 | len 2 | name … | the value                             apart is 0
//!         | name_len 1 | apart 1 | len 2 | name … | bytes 4 | checksum 4 | block 8 …      apart is 1: where the value lies
//! index   | magic 4 | used 4 | checksum 4 | zero 4 | block 8 …
//! ```
//!
//! A set that fits one block is *plain*: the inode points to a block of records, whose beginning the design defines. Any other set
//! is *indexed*: bit 0 of the inode's pointer is set, and the pointer leads to an index of blocks that hold `used` bytes of
//! records. A value that does not fit a plain set and has more than 192 bytes lies apart from the records, in blocks of its own.
//! Checksums are CRC-32C: that of an index covers its block pointers and the records, that of a record the value.
//!
//! No block in use is ever changed. A change writes the records into new blocks, and a new value; then one transaction of the
//! design changes the pointer; then the old blocks of records are free, and those of a value that was replaced.
//!
//! The limits are Linux's: 64 KiB for a value, which the caller checks, and 64 KiB for all names of an inode, each with a zero byte
//! (`XATTR_LIST_MAX`). One index has room for every such set.

use std::ops::Range;

use media::nvmm::Region;
use vfs::XattrMode;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};
use crate::persist::checksum::{crc32c, crc32c_append};
use sim::ran;

const BLOCK: usize = 4096;
const MAGIC: u32 = u32::from_le_bytes(*b"XATL");
/// The bit of a pointer that says that the set is indexed.
const INDEXED: u64 = 1;
/// Most bytes of all names, each with a zero byte.
const LIST_MAX: usize = 1 << 16;
/// Most bytes of a value.
const VALUE_MAX: usize = 1 << 16;
/// Values of up to so many bytes lie among the records.
const AMONG_MAX: usize = 192;
/// Block pointers that an index has room for.
const POINTERS: usize = (BLOCK - size_of::<IndexHeader>()) / size_of::<u64>();

const _: () = {
    let shortest_name = b"user.a".len();
    let most_names = LIST_MAX / (shortest_name + 1);
    assert!(size_of::<ApartHeader>() + VALUE_MAX / BLOCK * size_of::<u64>() <= AMONG_MAX);
    // One plain set may be among them, whose values may be longer.
    let records = most_names * (size_of::<RecordHeader>() + shortest_name + AMONG_MAX) + BLOCK;
    assert!(records <= POINTERS * BLOCK);
};

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct RecordHeader {
    name_len: u8,
    apart: u8,
    /// Bytes behind the name.
    len: u16,
}

/// What stands in a record for a value that lies apart; block pointers follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ApartHeader {
    bytes: u32,
    checksum: u32,
}

/// The beginning of an index; block pointers follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct IndexHeader {
    magic: u32,
    /// Bytes of the records.
    used: u32,
    checksum: u32,
    zero: u32,
}

/// Whether a set is indexed, by the pointer of its inode.
pub fn is_indexed(pointer: u64) -> bool {
    pointer & INDEXED != 0
}

/// The block to which the pointer of an inode leads.
pub fn block_of(pointer: u64) -> u64 {
    pointer & !INDEXED
}

fn pointers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes
        .chunks_exact(size_of::<u64>())
        .map(|word| u64::from_le_bytes(word.try_into().expect("chunks of eight")))
}

/// Whether a block may be at this offset.
fn lies_in(region: &Region, at: u64) -> bool {
    let block = BLOCK as u64;
    at.is_multiple_of(block) && at.checked_add(block).is_some_and(|end| end <= region.len())
}

/// A value among the records, or where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// The value itself.
    Here(&'a [u8]),
    /// A value that lies in a block of its own.
    Apart {
        /// The length of the value in bytes.
        bytes: usize,
        /// The CRC-32C of the value.
        checksum: u32,
        /// Its block pointers.
        blocks: &'a [u8],
    },
}

impl<'a> Value<'a> {
    /// What stands behind the name of a record; none when that is no value.
    fn of(apart: u8, held: &'a [u8]) -> Option<Self> {
        if apart == 0 {
            return Some(Self::Here(held));
        }
        let (header, blocks) = ApartHeader::read_from_prefix(held).ok()?;
        let bytes = header.bytes as usize;
        let is_possible = apart == 1 && (1..=VALUE_MAX).contains(&bytes);
        let is_whole = blocks.len() == bytes.div_ceil(BLOCK) * size_of::<u64>();
        (is_possible && is_whole).then_some(Self::Apart { bytes, checksum: header.checksum, blocks })
    }

    /// Whether it has no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Here(value) => value.len(),
            Self::Apart { bytes, .. } => *bytes,
        }
    }

    /// The blocks that hold nothing else.
    fn blocks(&self) -> impl Iterator<Item = u64> {
        pointers(if let Self::Apart { blocks, .. } = self { blocks } else { &[] })
    }

    /// The value itself.
    pub fn read(&self, region: &Region) -> Result<Vec<u8>> {
        let (bytes, sum) = match self {
            Self::Here(value) => return Ok(ran::copied(value)),
            Self::Apart { bytes, checksum, .. } => (*bytes, *checksum),
        };
        let mut value = ran::zeroed(bytes);
        for (piece, at) in value.chunks_mut(BLOCK).zip(self.blocks()) {
            region.load(at, piece)?;
        }
        if crc32c(&value) == sum {
            return Ok(value);
        }
        let first = self.blocks().next().unwrap_or(0);
        Err(Error::Corrupt(format!("attribute value of {bytes} bytes at {first}: its checksum is wrong")))
    }
}

/// An attribute among the records of its inode.
pub struct Record<'a> {
    /// The full name, with its prefix.
    pub name: &'a [u8],
    /// The value, or where it is.
    pub value: Value<'a>,
    /// Its bytes among those of all records.
    place: Range<usize>,
}

/// The record at byte `start`; none when it is not one.
fn record_at(records: &[u8], start: usize) -> Option<Record<'_>> {
    let (header, rest) = RecordHeader::read_from_prefix(records.get(start..)?).ok()?;
    let (name, rest) = rest.split_at_checked(header.name_len.into())?;
    let held = rest.get(..header.len.into())?;
    let value = Value::of(header.apart, held)?;
    let sound = !name.is_empty() && !name.contains(&0);
    let end = start + size_of::<RecordHeader>() + name.len() + held.len();
    sound.then_some(Record { name, value, place: start..end })
}

/// What the change of a set leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Blocks of a value that is gone.
    pub gone: Vec<u64>,
    /// The new value lies apart: the last record waits for its block pointers.
    lies_apart: bool,
}

/// The attributes of one inode.
#[derive(Debug, Default)]
pub struct Attributes {
    /// The records, each of them sound.
    records: Vec<u8>,
    /// The blocks that hold them, the one first to which the inode points.
    pub frame: Vec<u64>,
}

impl Attributes {
    /// Those that have these records, which a plain block at `block` holds.
    pub fn plain(block: u64, records: Vec<u8>) -> Result<Self> {
        ran::allocate(1);
        let all = Self { records, frame: vec![block] };
        let fault = |what: String| Err(Error::Corrupt(format!("attribute block at {block}: {what}")));
        let apart = all
            .iter()
            .find(|record| !matches!(record.value, Value::Here(_)))
            .map(|record| record.place.start);
        match (apart, all.end(), all.records.len()) {
            (Some(at), ..) => fault(format!("the value of the record at byte {at} is not in it")),
            (None, end, used) if end != used => fault(format!("no record at byte {end} of {used}")),
            _ => Ok(all),
        }
    }

    /// Those to which the pointer of an indexed set leads.
    pub fn indexed(region: &Region, pointer: u64) -> Result<Self> {
        let index = block_of(pointer);
        let fault = |what: &str| Error::Corrupt(format!("attribute index at {index}: {what}"));
        if !lies_in(region, index) {
            return Err(fault("there is no such block"));
        }
        let header: IndexHeader = region.read(index)?;
        let used = header.used as usize;
        let count = used.div_ceil(BLOCK);
        if header.magic != MAGIC || count > POINTERS {
            return Err(fault("it does not begin as one"));
        }
        let mut leads = ran::zeroed(count * size_of::<u64>());
        region.peek(index + size_of::<IndexHeader>() as u64, &mut leads)?;
        if let Some(at) = pointers(&leads).find(|at| !lies_in(region, *at)) {
            return Err(fault(&format!("it leads to {at}, where no block is")));
        }
        let frame = ran::collected(std::iter::once(index).chain(pointers(&leads)));
        let mut all = Self { records: ran::zeroed(used), frame };
        for (piece, at) in all.records.chunks_mut(BLOCK).zip(pointers(&leads)) {
            region.peek(at, piece)?;
        }
        if header.checksum != crc32c_append(crc32c(&leads), &all.records) {
            return Err(fault("its checksum is wrong"));
        }
        match all.end() {
            end if end == used => Ok(all),
            end => Err(fault(&format!("no record at byte {end} of {used}"))),
        }
    }

    /// In the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let record = record_at(&self.records, at)?;
            at = record.place.end;
            Some(record)
        })
    }

    /// Where the last sound record ends.
    fn end(&self) -> usize {
        self.iter().last().map_or(0, |last| last.place.end)
    }

    /// Returns the record of this name.
    pub fn find(&self, name: &[u8]) -> Option<Record<'_>> {
        self.iter().find(|record| record.name == name)
    }

    /// The first name that is there twice.
    pub fn name_twice(&self) -> Option<&[u8]> {
        let mut names = std::collections::BTreeSet::new();
        self.iter().map(|record| record.name).find(|name| !names.insert(*name))
    }

    /// All names, each ended by a zero byte.
    pub fn names(&self) -> Vec<u8> {
        ran::collected(self.iter().flat_map(|record| record.name.iter().copied().chain([0])))
    }

    /// All blocks of the set: those of the records, and those of values that lie apart.
    pub fn blocks(&self) -> Vec<u64> {
        let apart = self.iter().flat_map(|record| ran::collected(record.value.blocks()));
        ran::collected(self.frame.iter().copied().chain(apart))
    }

    /// The records, if no value lies apart and they have at most `room` bytes.
    pub fn as_plain(&self, room: usize) -> Option<&[u8]> {
        let all_here = self.iter().all(|record| matches!(record.value, Value::Here(_)));
        (all_here && self.records.len() <= room).then_some(&self.records)
    }

    /// Adds or replaces one, where `room` bytes of records fit a plain set.
    pub fn set(&mut self, name: &[u8], value: &[u8], mode: XattrMode, room: usize) -> Result<Change> {
        let old = self.find(name).map(|record| (record.place, ran::collected(record.value.blocks())));
        match (mode, &old) {
            (XattrMode::Create, Some(_)) => return Err(Error::Exists),
            (XattrMode::Replace, None) => return Err(Error::NoAttribute),
            _ => {}
        }
        let (place, gone) = old.unwrap_or_default();
        self.records.drain(place);
        let names: usize = self.iter().map(|record| record.name.len() + 1).sum();
        if names + name.len() + 1 > LIST_MAX || value.len() > VALUE_MAX {
            return Err(Error::NoSpace);
        }
        let name_len = u8::try_from(name.len()).map_err(|_| Error::Invalid("a name of over 255 bytes"))?;
        let need = size_of::<RecordHeader>() + name.len() + value.len();
        let lies_apart = value.len() > AMONG_MAX && self.records.len() + need > room;
        let apart = lies_apart.then(|| {
            let header = ApartHeader { bytes: value.len() as u32, checksum: crc32c(value) };
            let mut held =
                ran::zeroed(size_of::<ApartHeader>() + value.len().div_ceil(BLOCK) * size_of::<u64>());
            held[..size_of::<ApartHeader>()].copy_from_slice(header.as_bytes());
            held
        });
        let held = apart.as_deref().unwrap_or(value);
        let header = RecordHeader { name_len, apart: lies_apart.into(), len: held.len() as u16 };
        let more = size_of::<RecordHeader>() + name.len() + held.len();
        ran::bytes(more as u64);
        if self.records.capacity() - self.records.len() < more {
            ran::allocate(1);
            self.records.reserve(more);
        }
        for part in [header.as_bytes(), name, held] {
            self.records.extend_from_slice(part);
        }
        Ok(Change { gone, lies_apart })
    }

    /// Removes the record of this name.
    pub fn remove(&mut self, name: &[u8]) -> Result<Change> {
        let record = self.find(name).ok_or(Error::NoAttribute)?;
        let (place, gone) = (record.place.clone(), ran::collected(record.value.blocks()));
        self.records.drain(place);
        Ok(Change { gone, lies_apart: false })
    }

    /// Writes a changed set that is not plain into new blocks, each of which `put` takes and fills; returns the pointer to it.
    /// `value` is the one that was set.
    pub fn write_indexed(
        mut self,
        (change, value): (&Change, &[u8]),
        put: &mut dyn FnMut(&[u8]) -> Result<u64>,
    ) -> Result<u64> {
        if self.records.len() > POINTERS * BLOCK {
            return Err(Error::NoSpace);
        }
        if change.lies_apart {
            let leads = leads_to(value, put)?;
            let place = self.records.len().saturating_sub(leads.len());
            self.records.splice(place.., leads);
        }
        let leads = leads_to(&self.records, put)?;
        let checksum = crc32c_append(crc32c(&leads), &self.records);
        let header = IndexHeader { magic: MAGIC, used: self.records.len() as u32, checksum, zero: 0 };
        ran::allocate(1);
        ran::bytes(leads.len() as u64);
        Ok(put(&[header.as_bytes(), &leads].concat())? | INDEXED)
    }
}

/// Writes bytes into blocks; returns the pointers to these.
fn leads_to(bytes: &[u8], put: &mut dyn FnMut(&[u8]) -> Result<u64>) -> Result<Vec<u8>> {
    ran::allocate(1);
    let mut leads = Vec::with_capacity(bytes.len().div_ceil(BLOCK) * size_of::<u64>());
    for piece in bytes.chunks(BLOCK) {
        leads.extend_from_slice(&put(piece)?.to_le_bytes());
    }
    Ok(leads)
}

/// The blocks that hold the attributes of an inode, by its pointer. Of an indexed set that is damaged it is the index alone: what
/// else the set had leads to no value any more.
pub fn blocks_of(region: &Region, pointer: u64) -> Result<Vec<u64>> {
    let alone = || ran::collected(Some(block_of(pointer)).filter(|block| *block != 0));
    if !is_indexed(pointer) {
        return Ok(alone());
    }
    match Attributes::indexed(region, pointer) {
        Ok(all) => Ok(all.blocks()),
        Err(Error::Corrupt(_)) => Ok(alone()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use media::nvmm::null::Null;
    use sim::Bytes;

    use super::*;

    const ROOM: usize = BLOCK - 8;

    fn names(attributes: &Attributes) -> Vec<&[u8]> {
        attributes.iter().map(|record| record.name).collect()
    }

    fn set(attributes: &mut Attributes, name: &[u8], value: &[u8], mode: XattrMode) -> Result<Change> {
        attributes.set(name, value, mode, ROOM)
    }

    #[test]
    fn a_value_is_replaced_whole_and_comes_last() {
        let mut attributes = Attributes::default();
        set(&mut attributes, b"user.a", b"one", XattrMode::Create).expect("there is none");
        set(&mut attributes, b"user.b", b"", XattrMode::Set).expect("an empty value is one");
        set(&mut attributes, b"user.a", b"a longer one", XattrMode::Replace).expect("there is one");
        assert_eq!(names(&attributes), [&b"user.b"[..], b"user.a"]);
        let found = attributes.find(b"user.a").expect("it is there");
        assert!(matches!(found.value, Value::Here(b"a longer one")));
        assert_eq!(set(&mut attributes, b"user.a", b"", XattrMode::Create), Err(Error::Exists));
        assert_eq!(set(&mut attributes, b"user.c", b"", XattrMode::Replace), Err(Error::NoAttribute));
        assert_eq!(attributes.remove(b"user.c"), Err(Error::NoAttribute));
        attributes.remove(b"user.b").expect("it is there");
        assert_eq!(names(&attributes), [b"user.a"]);
        assert_eq!(attributes.names(), b"user.a\0");
    }

    #[test]
    fn a_plain_set_uses_the_last_byte_of_its_block() {
        let room = ROOM - size_of::<RecordHeader>() - 6;
        let mut attributes = Attributes::default();
        set(&mut attributes, b"user.a", &vec![1; room], XattrMode::Set).expect("it fits");
        assert_eq!(attributes.as_plain(ROOM).map(<[u8]>::len), Some(ROOM));
        set(&mut attributes, b"user.a", &vec![2; room], XattrMode::Set).expect("in place of the first");
        assert!(attributes.as_plain(ROOM).is_some());
        set(&mut attributes, b"user.b", b"", XattrMode::Set).expect("more than a block");
        assert!(attributes.as_plain(ROOM).is_none());
    }

    #[test]
    fn names_have_64_kib_at_most() {
        let mut attributes = Attributes::default();
        let name = |number: usize| format!("user.{number:0>250}").into_bytes();
        for number in 0..LIST_MAX / 256 {
            set(&mut attributes, &name(number), b"", XattrMode::Create).expect("there is room");
        }
        assert_eq!(attributes.names().len(), LIST_MAX);
        assert_eq!(set(&mut attributes, b"a", b"", XattrMode::Create), Err(Error::NoSpace));
    }

    #[test]
    fn no_record_reaches_beyond_the_last_byte() {
        let mut attributes = Attributes::default();
        set(&mut attributes, b"user.a", b"value", XattrMode::Set).expect("it fits");
        for end in 0..attributes.records.len() {
            assert!(record_at(&attributes.records[..end], 0).is_none(), "{end}");
        }
        for (at, byte) in [(0, 0), (0, 200), (1, 1), (1, 2), (3, 255), (6, 0)] {
            let mut records = attributes.records.clone();
            records[at] = byte;
            assert!(record_at(&records, 0).is_none(), "byte {at} is {byte}");
        }
    }

    /// Writes two attributes, one of them apart from the records, from block 1 on.
    fn written(region: &Region) -> u64 {
        let mut attributes = Attributes::default();
        set(&mut attributes, b"user.short", &[3; 4000], XattrMode::Set).expect("set");
        let value = vec![7; 10_000];
        let change = set(&mut attributes, b"user.long", &value, XattrMode::Set).expect("set");
        let mut next = BLOCK as u64;
        let mut put = |bytes: &[u8]| {
            region.store(next, bytes)?;
            next += BLOCK as u64;
            Ok(next - BLOCK as u64)
        };
        attributes.write_indexed((&change, &value), &mut put).expect("room")
    }

    #[test]
    fn an_indexed_set_is_read_as_it_was_written_and_no_damaged_byte_is_taken_for_a_value() {
        let region = Region::anonymous(Bytes::kib(64), Box::new(Null)).expect("memory");
        let pointer = written(&region);
        let read = |region: &Region| {
            let all = Attributes::indexed(region, pointer)?;
            all.iter().map(|record| record.value.read(region)).collect::<Result<Vec<_>>>()
        };
        assert_eq!(read(&region), Ok(vec![vec![3; 4000], vec![7; 10_000]]));
        let index = block_of(pointer);
        let blocks = blocks_of(&region, pointer).expect("it can be read");
        assert_eq!(blocks.len(), 1 + 1 + 3, "index, records, three of the value: {blocks:?}");
        for at in [index, index + 4, index + 8, index + 16, blocks[1], blocks[1] + 4000, blocks[4]] {
            let byte = region.load_u16(at).expect("a load");
            region.store_u16(at, byte ^ 1).expect("a store");
            assert!(matches!(read(&region), Err(Error::Corrupt(_) | Error::Media(_))), "byte {at}");
            region.store_u16(at, byte).expect("a store");
        }
        assert!(read(&region).is_ok());
    }
}
