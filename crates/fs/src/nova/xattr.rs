//! Extended attributes.
//!
//! ```text
//! plain block   | magic 4 | used 4 | checksum 4 | zero 4 | records …     to byte 16 + used
//! ```
//!
//! `persist/attributes.rs` defines the records, and what is beyond one block. A change never touches the blocks in use: the new
//! ones are written, then one transaction lets the inode point there and sets its ctime, then the old ones are freed. The caller
//! holds the inode's lock throughout.

use media::event::Mark;
use media::nvmm::Region;
use vfs::{Timestamp, XattrMode};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Volume;
use super::alloc::{Extent, Need, Taken};
use super::inode::{Changing, Facts};
use super::journal::Words;
use sim::{ByteRun, ran};

use super::layout::{BLOCK, checksum, ino, pack};
use base::error::{Error, Result};
use base::persist::attributes::{Attributes, Change, is_indexed};

const MAGIC: u32 = u32::from_le_bytes(*b"XATR");

/// The beginning of a plain block.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct BlockHeader {
    magic: u32,
    used: u32,
    /// CRC-32C of the records.
    checksum: u32,
    zero: u32,
}

/// Bytes that the records of a plain block may have.
const ROOM: usize = BLOCK as usize - size_of::<BlockHeader>();

/// The attributes that an inode has.
pub(crate) fn attributes_of(region: &Region, facts: &Facts) -> Result<Attributes> {
    if facts.xattr == 0 {
        return Ok(Attributes::default());
    }
    if is_indexed(facts.xattr) {
        return Attributes::indexed(region, facts.xattr);
    }
    let fault = |what| Error::Corrupt(format!("attribute block at {}: {what}", facts.xattr));
    let header: BlockHeader = region.read(facts.xattr)?;
    let used = header.used as usize;
    if header.magic != MAGIC || used > ROOM {
        return Err(fault("it does not begin as one"));
    }
    let mut records = ran::zeroed(used);
    region.peek(facts.xattr + size_of::<BlockHeader>() as u64, &mut records)?;
    if header.checksum != checksum(&[&records]) {
        return Err(fault("its checksum is wrong"));
    }
    Attributes::plain(facts.xattr, records)
}

impl Volume {
    fn attributes(&self, number: u64) -> Result<Attributes> {
        let loaded = self.reading(self.inodes.get(number)?)?;
        attributes_of(&self.region, &loaded.facts)
    }

    pub(crate) fn get_attribute(&self, number: u64, name: &[u8]) -> Result<Vec<u8>> {
        let loaded = self.reading(self.inodes.get(number)?)?;
        let attributes = attributes_of(&self.region, &loaded.facts)?;
        attributes.find(name).ok_or(Error::NoAttribute)?.value.read(&self.region)
    }

    /// All names, each ended by a zero byte.
    pub(crate) fn list_attributes(&self, number: u64) -> Result<Vec<u8>> {
        Ok(self.attributes(number)?.names())
    }

    /// Sets an attribute; durable on return.
    pub(crate) fn set_attribute(
        &self,
        inode: &mut Changing<'_>,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<()> {
        let mut attributes = attributes_of(&self.region, &inode.facts)?;
        let change = attributes.set(name, value, mode, ROOM)?;
        self.replace_attributes(inode, attributes, (&change, value), Need::Growth)
    }

    /// Removes an attribute; durable on return.
    pub(crate) fn remove_attribute(&self, inode: &mut Changing<'_>, name: &[u8]) -> Result<()> {
        let mut attributes = attributes_of(&self.region, &inode.facts)?;
        let change = attributes.remove(name)?;
        self.replace_attributes(inode, attributes, (&change, &[]), Need::Removal)
    }

    fn replace_attributes(
        &self,
        inode: &mut Changing<'_>,
        attributes: Attributes,
        (change, value): (&Change, &[u8]),
        need: Need,
    ) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let old = ran::collected(attributes.frame.iter().chain(&change.gone).copied());
        let kept = inode.attributes.iter().copied().filter(|block| !old.contains(block));
        let kept = ran::collected(kept);
        let (mut taken, mut needs) = (Taken::new(&self.blocks), Vec::new());
        let mut put = |bytes: &[u8]| {
            let block = taken.take(1, need)?.offset;
            self.region.nt_store(block, bytes)?;
            ran::push(&mut needs, ByteRun::new(block, bytes.len() as u64));
            Ok(block)
        };
        let xattr = match attributes.as_plain(ROOM) {
            Some([]) => 0,
            Some(records) => {
                let used = records.len() as u32;
                let header = BlockHeader { magic: MAGIC, used, checksum: checksum(&[records]), zero: 0 };
                ran::allocate(1);
                ran::bytes(records.len() as u64);
                put(&[header.as_bytes(), records].concat())?
            }
            None => attributes.write_indexed((change, value), &mut put)?,
        };
        let now = pack(Timestamp::now());
        let mut words = Words::default();
        let pointer = inode.inode.offset + ino::XATTR;
        words.add(pointer, xattr);
        words.add(inode.inode.offset + ino::CTIME, now);
        self.transact(&words, &needs)?;
        taken.keep();
        inode.facts = Facts { xattr, ctime: now, ..inode.facts };
        let now_there = kept.into_iter().chain(needs.iter().map(|run| run.at));
        inode.attributes = ran::collected(now_there).into();
        old.into_iter().try_for_each(|offset| {
            self.region.mark(Mark::Free { off: offset, len: BLOCK, pointer });
            self.blocks.put(Extent { offset, blocks: 1 })
        })
    }
}
