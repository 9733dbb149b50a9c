//! Extended attributes.
//!
//! ```text
//! plain block   | magic 4 | used 4 | records …     to byte 8 + used
//! ```
//!
//! `persist/attributes.rs` defines the records, and what is beyond one block. A change never touches the blocks in use: the new
//! ones are written, then one transaction lets the inode point there and sets its ctime and block count, then the old ones are
//! freed. The caller holds the inode's lock throughout.

use media::nvmm::Region;
use vfs::{Timestamp, XattrMode};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Volume;
use super::inode::Inode;
use super::journal::Transaction;
use sim::{ByteRun, ran};

use super::layout::{BLOCK, BLOCK_SHIFT, RawInode, ino};
use super::map::Freed;
use base::error::{Error, Result};
use base::persist::attributes::{Attributes, Change, is_indexed};

const MAGIC: u32 = u32::from_le_bytes(*b"XATR");

/// The beginning of a plain block.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct BlockHeader {
    magic: u32,
    used: u32,
}

/// Bytes of the pointer to the attributes.
const POINTER: u64 = 8;
/// Bytes that the records of a plain block may have.
const ROOM: usize = BLOCK as usize - size_of::<BlockHeader>();

/// The attributes that an inode has.
pub(crate) fn attributes_of(region: &Region, raw: &RawInode) -> Result<Attributes> {
    if raw.xattr == 0 {
        return Ok(Attributes::default());
    }
    if is_indexed(raw.xattr) {
        return Attributes::indexed(region, raw.xattr);
    }
    let header: BlockHeader = region.read(raw.xattr)?;
    let used = header.used as usize;
    if header.magic != MAGIC || used > ROOM {
        return Err(Error::Corrupt(format!("attribute block at {}: it does not begin as one", raw.xattr)));
    }
    let mut records = ran::zeroed(used);
    region.peek(raw.xattr + size_of::<BlockHeader>() as u64, &mut records)?;
    Attributes::plain(raw.xattr, records)
}

impl Volume {
    /// What `read` finds among the attributes of an inode, whose lock is not taken when it has none.
    fn with_attributes<T>(&self, number: u64, read: impl FnOnce(&Attributes) -> Result<T>) -> Result<T> {
        let inode = self.inodes.get(number)?;
        if self.read_shared(inode)?.xattr == 0 {
            return read(&Attributes::default());
        }
        let state = inode.state.read();
        read(&attributes_of(&self.region, &self.live_or_open(inode, &state)?)?)
    }

    pub(crate) fn get_attribute(&self, number: u64, name: &[u8]) -> Result<Vec<u8>> {
        self.with_attributes(number, |attributes| {
            attributes.find(name).ok_or(Error::NoAttribute)?.value.read(&self.region)
        })
    }

    /// All names, each ended by a zero byte.
    pub(crate) fn list_attributes(&self, number: u64) -> Result<Vec<u8>> {
        self.with_attributes(number, |attributes| Ok(attributes.names()))
    }

    /// Sets an attribute of an inode whose lock the caller holds for writing; durable on return.
    pub(crate) fn set_attribute(
        &self,
        inode: &Inode,
        raw: &RawInode,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<()> {
        let mut attributes = attributes_of(&self.region, raw)?;
        let change = attributes.set(name, value, mode, ROOM)?;
        self.replace_attributes(inode, raw, attributes, (&change, value))
    }

    /// Removes an attribute of an inode whose lock the caller holds for writing; durable on return.
    pub(crate) fn remove_attribute(&self, inode: &Inode, raw: &RawInode, name: &[u8]) -> Result<()> {
        let mut attributes = attributes_of(&self.region, raw)?;
        let change = attributes.remove(name)?;
        self.replace_attributes(inode, raw, attributes, (&change, &[]))
    }

    fn replace_attributes(
        &self,
        inode: &Inode,
        raw: &RawInode,
        attributes: Attributes,
        (change, value): (&Change, &[u8]),
    ) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let old = ran::collected(attributes.frame.iter().chain(&change.gone).copied());
        let mut tx = self.journal.begin(2)?;
        let ranges = [inode.half(), ByteRun::new(inode.offset + ino::XATTR, POINTER)];
        let work = self.journal.log(&mut tx, &ranges);
        let work = work.and_then(|()| {
            let pointer = self.write_attributes(&mut tx, attributes, (change, value))?;
            let blocks = raw.blocks.saturating_add(tx.taken.len() as u32).saturating_sub(old.len() as u32);
            let mut new = RawInode { blocks, ..*raw };
            new.set_ctime(Timestamp::now());
            self.store_half(inode, &new)?;
            Ok(self.region.store_u64(inode.offset + ino::XATTR, pointer)?)
        });
        self.end(tx, work)?;
        self.free_attributes(inode, old)
    }

    /// Writes attributes into new blocks; returns the pointer to them, 0 when there are none. They are durable when the transaction
    /// is.
    fn write_attributes(
        &self,
        tx: &mut Transaction,
        attributes: Attributes,
        changed: (&Change, &[u8]),
    ) -> Result<u64> {
        let mut put = |bytes: &[u8]| {
            let block = self.blocks.take()?;
            ran::push(&mut tx.taken, (block, BLOCK_SHIFT));
            self.region.nt_store(block, bytes)?;
            Ok(block)
        };
        match attributes.as_plain(ROOM) {
            Some([]) => Ok(0),
            Some(records) => {
                let header = BlockHeader { magic: MAGIC, used: records.len() as u32 };
                ran::allocate(1);
                ran::bytes(records.len() as u64);
                put(&[header.as_bytes(), records].concat())
            }
            None => attributes.write_indexed(changed, &mut put),
        }
    }

    /// Gives back blocks of attributes to which nothing durable points any more.
    pub(crate) fn free_attributes(&self, inode: &Inode, blocks: Vec<u64>) -> Result<()> {
        let pointer = inode.offset + ino::XATTR;
        self.free_blocks(blocks.into_iter().map(|offset| Freed { offset, shift: BLOCK_SHIFT, pointer }))
    }
}

/// What an inode that is erased has to log beside its first half: the pointer to its attributes, if it has any.
pub(crate) fn attribute_pointer(inode: &Inode, raw: &RawInode) -> Option<ByteRun> {
    (raw.xattr != 0).then_some(ByteRun::new(inode.offset + ino::XATTR, POINTER))
}
