//! Making an empty file system.

use std::sync::Arc;

use media::MediaError;
use media::nvmm::Region;
use vfs::{FileKind, Timestamp};
use zerocopy::IntoBytes;

use super::layout::{
    BLOCK, BLOCK_MAP_INO, FANOUT_SHIFT, INODE_SLOT, JOURNAL_DESCRIPTOR, JOURNAL_START, JournalDescriptor,
    LARGE_DEVICE, ROOT_INO, RawInode, RecordHeader, Superblock, TABLE_INODE,
};
use super::{Settings, Volume, mutant, superblock};
use base::error::{Error, Result};
use base::persist::free_map::FreeMap;
use design::Mutant;

/// Makes an empty file system for `design`, which its superblock names, with a journal of `journal_bytes` and room for `inodes`
/// inodes from the start.
pub(crate) fn mkfs(
    (region, design): (&Arc<Region>, &str),
    journal_bytes: u64,
    inodes: u64,
    mutant: Option<Mutant>,
) -> Result<()> {
    let size = region.len() / BLOCK * BLOCK;
    let first = JOURNAL_START + journal_bytes;
    let mut map = FreeMap::new(size / BLOCK);
    (first / BLOCK..size / BLOCK).for_each(|block| {
        map.put(block);
    });
    let large = size >= LARGE_DEVICE;
    let units = if large { 1 << FANOUT_SHIFT } else { 1 };
    let table = map.take_run(units, units).ok_or(Error::NoSpace)? * BLOCK;
    let root_block = map.take_first().ok_or(Error::NoSpace)? * BLOCK;
    if ![(0, first), (table, units * BLOCK), (root_block, BLOCK)]
        .iter()
        .all(|(at, len)| region.back(*at, *len))
    {
        return Err(MediaError::HostFull.into());
    }
    region.nt_zero(0, first)?;
    region.nt_zero(table, units * BLOCK)?;

    let descriptor = JournalDescriptor {
        base: JOURNAL_START,
        size: journal_bytes as u32,
        head: 0,
        tail: 0,
        generation: 1,
        pad: 0,
        redo: 0,
        reserved: [0; 6],
    };
    region.write(JOURNAL_DESCRIPTOR, &descriptor)?;
    let inode = |kind: FileKind, perm: u32| {
        let mut raw = RawInode { mode: (kind.mode_bits() | perm) as u16, links: 1, ..RawInode::default() };
        raw.touch(Timestamp::now());
        raw.set_atime(raw.mtime());
        raw
    };
    let table_inode = RawInode {
        block_type: u8::from(large),
        root: table,
        size: units * BLOCK,
        blocks: units as u32,
        ..inode(FileKind::Regular, 0o600)
    };
    region.write(TABLE_INODE, &table_inode)?;
    let root =
        RawInode { links: 2, root: root_block, size: BLOCK, blocks: 1, ..inode(FileKind::Directory, 0o755) };
    region.write(table + ROOT_INO, &root)?;
    region.write(table + BLOCK_MAP_INO, &inode(FileKind::Regular, 0o600))?;
    region.flush(table, FIRST_SLOTS);
    write_root_dir(region, root_block)?;
    region.fence();
    region.write(0, &Superblock::new(size, design))?;
    region.flush(0, BLOCK);
    region.fence();
    if mutant != Some(mutant::COPY_NOT_WRITTEN) {
        superblock::refresh_copy(region)?;
    }
    presize(region, inodes)
}

/// The slots that a new image fills.
const FIRST_SLOTS: u64 = 3 * INODE_SLOT;

fn write_root_dir(region: &Region, block: u64) -> Result<()> {
    let dots = [(1u8, 12 + 4u16), (2, BLOCK as u16 - 16)];
    let mut at = block;
    for (name_len, rec_len) in dots {
        let header = RecordHeader { ino: ROOT_INO, rec_len, name_len, file_type: 0 };
        region.store(at, header.as_bytes())?;
        region.store(at + 12, &b".."[..usize::from(name_len)])?;
        at += u64::from(rec_len);
    }
    region.flush(block, 64);
    Ok(())
}

/// Grows the inode table of a new image to `inodes` slots.
fn presize(region: &Arc<Region>, inodes: u64) -> Result<()> {
    let table: RawInode = region.read(TABLE_INODE)?;
    if inodes <= table.size / INODE_SLOT {
        return Ok(());
    }
    let superblock: Superblock = region.read(0)?;
    let settings = Settings::for_recovery(false);
    let volume = Volume::load(region, &superblock, settings)?;
    volume.ensure_inodes(inodes)?;
    volume.journal.stop()
}
