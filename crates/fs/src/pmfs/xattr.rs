//! Extended attributes: one block for each inode that has any.
//!
//! ```text
//! block   | magic 4 | used 4 | name_len 1 | zero 1 | value_len 2 | name … | value … |  next record …     to byte 8 + used
//! ```
//!
//! `used` counts the bytes of the records, which follow one another without gaps, in the order in which they were set. Names are
//! whole (`user.mime_type`), no two alike. All attributes of an inode fit its block: setting one that does not is `ENOSPC`, as in
//! ext4 with blocks of this size.
//!
//! A change never touches the block in use: the new records go into a new block, then one transaction lets the inode point there
//! and sets its ctime and block count, then the old block is freed. The caller holds the inode's lock throughout.

use std::ops::Range;

use media::nvmm::Region;
use vfs::{Timestamp, XattrMode};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Volume;
use super::inode::Inode;
use super::journal::Transaction;
use super::layout::{BLOCK, BLOCK_SHIFT, RawInode, ino};
use super::tree::Freed;
use crate::error::{Error, Result};

const MAGIC: u32 = u32::from_le_bytes(*b"XATR");

/// The beginning of an attribute block.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct BlockHeader {
    magic: u32,
    used: u32,
}

/// The fixed part of an attribute.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct AttributeHeader {
    name_len: u8,
    zero: u8,
    value_len: u16,
}

/// Bytes of the pointer to an attribute block.
const POINTER: u64 = 8;
/// Bytes that the records of an inode may have.
const ROOM: usize = BLOCK as usize - size_of::<BlockHeader>();

/// An attribute among the records of its inode.
pub(crate) struct Record<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Its bytes among those of all records.
    place: Range<usize>,
}

/// The record at byte `start`; none when it is not one.
fn record_at(records: &[u8], start: usize) -> Option<Record<'_>> {
    let (header, rest) = AttributeHeader::read_from_prefix(records.get(start..)?).ok()?;
    let (name, rest) = rest.split_at_checked(header.name_len.into())?;
    let value = rest.get(..header.value_len.into())?;
    let sound = !name.is_empty() && !name.contains(&0) && header.zero == 0;
    let end = start + size_of::<AttributeHeader>() + name.len() + value.len();
    sound.then_some(Record { name, value, place: start..end })
}

/// The attributes of one inode.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// The records of an attribute block, each of them sound.
    records: Vec<u8>,
}

impl Attributes {
    /// Those that an inode has.
    pub(crate) fn of(region: &Region, raw: &RawInode) -> Result<Self> {
        if raw.xattr == 0 {
            return Ok(Self::default());
        }
        let fault = |what| Error::Corrupt(format!("attribute block at {}: {what}", raw.xattr));
        let header: BlockHeader = region.read(raw.xattr)?;
        let used = header.used as usize;
        if header.magic != MAGIC || used > ROOM {
            return Err(fault("it does not begin as one".to_owned()));
        }
        let mut records = vec![0; used];
        region.peek(raw.xattr + size_of::<BlockHeader>() as u64, &mut records)?;
        let attributes = Self { records };
        match attributes.iter().last().map_or(0, |last| last.place.end) {
            end if end == used => Ok(attributes),
            end => Err(fault(format!("no record at byte {end} of {used}"))),
        }
    }

    /// In the order in which they were set.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let record = record_at(&self.records, at)?;
            at = record.place.end;
            Some(record)
        })
    }

    fn find(&self, name: &[u8]) -> Option<Record<'_>> {
        self.iter().find(|record| record.name == name)
    }

    /// Adds or replaces one.
    fn set(&mut self, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        let old = self.find(name).map(|record| record.place);
        match (mode, &old) {
            (XattrMode::Create, Some(_)) => return Err(Error::Exists),
            (XattrMode::Replace, None) => return Err(Error::NoAttribute),
            _ => {}
        }
        self.records.drain(old.unwrap_or(0..0));
        let need = size_of::<AttributeHeader>() + name.len() + value.len();
        if self.records.len() + need > ROOM {
            return Err(Error::NoSpace);
        }
        let name_len = u8::try_from(name.len()).map_err(|_| Error::Invalid("a name of over 255 bytes"))?;
        let header = AttributeHeader { name_len, zero: 0, value_len: value.len() as u16 };
        for part in [header.as_bytes(), name, value] {
            self.records.extend_from_slice(part);
        }
        Ok(())
    }

    fn remove(&mut self, name: &[u8]) -> Result<()> {
        let place = self.find(name).map(|record| record.place).ok_or(Error::NoAttribute)?;
        self.records.drain(place);
        Ok(())
    }
}

impl Volume {
    /// The attributes of an inode, without its lock when it has none.
    fn attributes(&self, number: u64) -> Result<Attributes> {
        let inode = self.inodes.get(number)?;
        if self.read_shared(inode)?.xattr == 0 {
            return Ok(Attributes::default());
        }
        let state = inode.state.read();
        Attributes::of(&self.region, &self.live_or_open(inode, &state)?)
    }

    pub(crate) fn get_attribute(&self, number: u64, name: &[u8]) -> Result<Vec<u8>> {
        let attributes = self.attributes(number)?;
        attributes.find(name).map(|record| record.value.to_vec()).ok_or(Error::NoAttribute)
    }

    /// All names, each ended by a zero byte.
    pub(crate) fn list_attributes(&self, number: u64) -> Result<Vec<u8>> {
        let attributes = self.attributes(number)?;
        Ok(attributes.iter().flat_map(|record| [record.name, &[0]].concat()).collect())
    }

    /// Sets an attribute of an inode whose lock the caller holds for writing; durable on return.
    pub(crate) fn set_attribute(
        &self,
        inode: &Inode,
        raw: &RawInode,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<()> {
        let mut attributes = Attributes::of(&self.region, raw)?;
        attributes.set(name, value, mode)?;
        self.replace_attributes(inode, raw, &attributes)
    }

    /// Removes an attribute of an inode whose lock the caller holds for writing; durable on return.
    pub(crate) fn remove_attribute(&self, inode: &Inode, raw: &RawInode, name: &[u8]) -> Result<()> {
        let mut attributes = Attributes::of(&self.region, raw)?;
        attributes.remove(name)?;
        self.replace_attributes(inode, raw, &attributes)
    }

    fn replace_attributes(&self, inode: &Inode, raw: &RawInode, attributes: &Attributes) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut tx = self.journal.begin(2)?;
        let ranges = [(inode.offset, ino::HALF), (inode.offset + ino::XATTR, POINTER)];
        let work = self.journal.log(&mut tx, &ranges);
        let work = work.and_then(|()| {
            let block = self.write_attributes(&mut tx, attributes)?;
            let count = |block: u64| u32::from(block != 0);
            let blocks = raw.blocks.saturating_add(count(block)).saturating_sub(count(raw.xattr));
            let mut new = RawInode { blocks, ..*raw };
            new.set_ctime(Timestamp::now());
            self.store_half(inode, &new)?;
            Ok(self.region.store_u64(inode.offset + ino::XATTR, block)?)
        });
        self.end(tx, work)?;
        self.free_attributes(inode, raw)
    }

    /// Writes attributes into a new block; 0 when there are none. They are durable when the transaction is.
    fn write_attributes(&self, tx: &mut Transaction, attributes: &Attributes) -> Result<u64> {
        if attributes.records.is_empty() {
            return Ok(0);
        }
        let block = self.blocks.take()?;
        tx.taken.push((block, BLOCK_SHIFT));
        let header = BlockHeader { magic: MAGIC, used: attributes.records.len() as u32 };
        self.region.nt_store(block, &[header.as_bytes(), &attributes.records].concat())?;
        Ok(block)
    }

    /// Gives back the attribute block to which `raw` pointed; nothing durable points there any more.
    pub(crate) fn free_attributes(&self, inode: &Inode, raw: &RawInode) -> Result<()> {
        let block = Some(raw.xattr).filter(|block| *block != 0);
        let pointer = inode.offset + ino::XATTR;
        self.free_blocks(block.map(|offset| Freed { offset, shift: BLOCK_SHIFT, pointer }))
    }
}

/// What an inode that is erased has to log beside its first half: the pointer to its attributes, if it has any.
pub(crate) fn attribute_pointer(inode: &Inode, raw: &RawInode) -> Option<(u64, u64)> {
    (raw.xattr != 0).then_some((inode.offset + ino::XATTR, POINTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(attributes: &Attributes) -> Vec<&[u8]> {
        attributes.iter().map(|record| record.name).collect()
    }

    #[test]
    fn a_value_is_replaced_whole_and_comes_last() {
        let mut attributes = Attributes::default();
        attributes.set(b"user.a", b"one", XattrMode::Create).expect("there is none");
        attributes.set(b"user.b", b"", XattrMode::Set).expect("an empty value is one");
        attributes.set(b"user.a", b"a longer one", XattrMode::Replace).expect("there is one");
        assert_eq!(names(&attributes), [&b"user.b"[..], b"user.a"]);
        assert_eq!(attributes.find(b"user.a").map(|record| record.value), Some(&b"a longer one"[..]));
        assert_eq!(attributes.set(b"user.a", b"", XattrMode::Create), Err(Error::Exists));
        assert_eq!(attributes.set(b"user.c", b"", XattrMode::Replace), Err(Error::NoAttribute));
        assert_eq!(attributes.remove(b"user.c"), Err(Error::NoAttribute));
        attributes.remove(b"user.b").expect("it is there");
        assert_eq!(names(&attributes), [b"user.a"]);
    }

    #[test]
    fn the_last_byte_of_a_block_can_be_used_and_no_more() {
        let room = ROOM - size_of::<AttributeHeader>() - 6;
        let mut attributes = Attributes::default();
        attributes.set(b"user.a", &vec![1; room], XattrMode::Set).expect("it fits");
        assert_eq!(attributes.set(b"user.b", b"", XattrMode::Set), Err(Error::NoSpace));
        attributes
            .set(b"user.a", &vec![2; room], XattrMode::Set)
            .expect("a replacement needs no room beside");
    }

    #[test]
    fn no_record_reaches_beyond_the_last_byte() {
        let mut attributes = Attributes::default();
        attributes.set(b"user.a", b"value", XattrMode::Set).expect("it fits");
        for end in 0..attributes.records.len() {
            assert!(record_at(&attributes.records[..end], 0).is_none(), "{end}");
        }
        for (at, byte) in [(0, 0), (0, 200), (1, 1), (3, 255), (6, 0)] {
            let mut records = attributes.records.clone();
            records[at] = byte;
            assert!(record_at(&records, 0).is_none(), "byte {at} is {byte}");
        }
    }
}
