//! The format. All numbers are little endian.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "WEIRREDO".
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"WEIRREDO");
/// The version that this code writes and reads.
pub(super) const VERSION: u64 = 1;
/// Where the first half begins.
pub(super) const HALVES: u64 = 4096;
/// Bytes of a half's header.
pub(super) const HEADER: u64 = size_of::<Header>() as u64;
/// Bytes before the payload of a record: its length and its checksum, 4 bytes each.
pub(super) const RECORD_HEAD: u64 = 8;

/// At offset 0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Superblock {
    pub(super) magic: u64,
    pub(super) version: u64,
    /// Bytes of the region.
    pub(super) size: u64,
    /// Which half is active: 0 or 1. Changed by one store.
    pub(super) active: u64,
}

/// Offset of [`Superblock::active`].
pub(super) const ACTIVE: u64 = 24;

/// At the beginning of a half.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Header {
    /// Bytes of the checkpoint, which follows.
    pub(super) checkpoint: u64,
    /// CRC-64 (XZ) of the checkpoint.
    pub(super) checksum: u64,
    /// Where the next record goes, from the beginning of the half. Changed by one store.
    pub(super) tail: u64,
    pub(super) zero: u64,
}

/// Offset of [`Header::tail`] in its half.
pub(super) const TAIL: u64 = 16;

const _: () = assert!(size_of::<Superblock>() == 32 && size_of::<Header>() == 32);

/// Bytes of a half of a region.
pub(super) fn half_bytes(size: u64) -> u64 {
    size.saturating_sub(HALVES) / 2 / 64 * 64
}

/// Where a half begins.
pub(super) fn half_start(size: u64, half: u64) -> u64 {
    HALVES + half * half_bytes(size)
}
