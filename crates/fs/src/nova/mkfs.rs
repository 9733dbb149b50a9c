//! Making an empty file system.

use std::sync::Arc;

use media::MediaError;
use media::nvmm::Region;
use vfs::{FileKind, Timestamp};
use zerocopy::IntoBytes;

use super::inode::{link_chunk, write_raw};
use super::layout::{
    BLOCK, CLEAN, COPY, ENTRY_CHECKSUM, Geometry, INODE_BYTES, NAME_HEADER, NEVER_MOUNTED, NameEntry,
    ROOT_INO, RawInode, SHARD_INODES, Superblock, entry_checksum, ino, kind, name_entry_bytes, pack, state,
    state_word,
};
use super::{mutant, superblock};
use base::error::Result;
use design::Mutant;

/// Makes an empty file system; its superblocks are written last.
pub(crate) fn mkfs(region: &Arc<Region>, superblock: &Superblock, mutant: Option<Mutant>) -> Result<()> {
    let geometry = Geometry::of(superblock);
    let mut next = geometry.first_block();
    // The head, a chunk of inodes for each shard and the first page of the root's log.
    if !region.back(0, (next + geometry.shards * geometry.chunk_blocks() + 1) * BLOCK) {
        return Err(MediaError::HostFull.into());
    }
    region.nt_zero(0, next * BLOCK)?;
    region.store_u64(CLEAN, NEVER_MOUNTED)?;
    region.flush(CLEAN, 8);
    for shard in 0..geometry.shards {
        link_chunk(region, (Geometry::shard_at(shard) + SHARD_INODES, next * BLOCK), geometry.chunk_bytes)?;
        next += geometry.chunk_blocks();
    }
    let log = next * BLOCK;
    let now = pack(Timestamp::now());
    let header = NameEntry { kind: kind::NAME, name_len: 2, links: 2, checksum: 0, ino: ROOT_INO, time: now };
    let mut entry = [0; NAME_HEADER + 256];
    let entry = &mut entry[..name_entry_bytes(2) as usize];
    entry[..NAME_HEADER].copy_from_slice(header.as_bytes());
    entry[NAME_HEADER..NAME_HEADER + 2].copy_from_slice(b"..");
    let sum = entry_checksum(entry);
    entry[ENTRY_CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    region.store(log, entry)?;
    region.flush(log, entry.len() as u64);
    let (shard, slot) = (ROOT_INO % geometry.shards, ROOT_INO / geometry.shards);
    let chunk = region.load_u64(Geometry::shard_at(shard) + SHARD_INODES)?;
    let at = chunk + slot * INODE_BYTES;
    let root = RawInode {
        state: state_word(1, state::LIVE),
        mode: FileKind::Directory.mode_bits() | 0o755,
        created: now,
        head: log,
        tail: log + entry.len() as u64,
        ino: ROOT_INO,
        ..RawInode::default()
    };
    write_raw(region, at, &root)?;
    region.store_u64(at + ino::STATE, root.state)?;
    region.flush(at, INODE_BYTES);
    region.fence();
    if mutant != Some(mutant::COPY_NOT_WRITTEN) {
        superblock::store(region, COPY, superblock)?;
    }
    superblock::store(region, 0, superblock)
}
