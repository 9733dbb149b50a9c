//! Saved indexes: what an unmount writes of the state in DRAM, so that the next mount need not read the logs.
//!
//! ```text
//! saved word ──opening──► zones of the use saved, with that opening
//! zone: header of a line, with a seal over it and what follows │ the next bytes of the stream
//! stream: entries of inodes │ index: number and place of each │ free bits of zones │ cloned blocks │ ends of logs │ checksums │
//!         Head
//! ```
//!
//! The saved word names a saved index that is durable. It is stored as the last, and made void before a mount answers its first
//! call: from then on its zones are free. A saved index counts only while superblock and log zones are what they were at the
//! unmount, of which it has checksums; so one that other code has left behind, or beside damaged logs, is not used.
//!
//! What a later cleaning needs is not in a saved index: what waits is a function of the records and of the table of zones
//! (`clean.rs`), both of which the cleaner reads where they are.

use twox_hash::XxHash3_64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::layout::{BITS_40, LINE, SUPERBLOCKS};

/// The version of saved indexes that this code writes and reads.
pub(crate) const VERSION: u32 = 1;
/// "WEIRSAVE".
const MAGIC: u64 = u64::from_le_bytes(*b"WEIRSAVE");
/// Where the saved word lies: on a line of its own, behind the second superblock.
pub(crate) const SAVED_WORD: u64 = SUPERBLOCKS[1] + 4 * LINE as u64;
/// Bytes of the header of a piece.
pub(crate) const HEADER: usize = size_of::<Piece>();

/// The header of the part of a saved index that lies in one zone.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Piece {
    /// XXH3-64 of the rest of the header and of what follows, seeded with the secret and the opening.
    seal: u64,
    magic: u64,
    pub(crate) version: u32,
    /// Which piece of the saved index it is.
    pub(crate) index: u32,
    opening: u64,
    /// Bytes that follow.
    pub(crate) len: u64,
    /// Whether it is the last piece: 1 or 0.
    pub(crate) last: u32,
    zero: [u32; 5],
}

/// The end of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Head {
    /// The checksum of the superblock.
    pub(crate) superblock: u64,
    /// The checksum of all log zones.
    pub(crate) logs: u64,
    /// The last logical time.
    pub(crate) clock: u64,
    /// Lines that the metadata of all files may take.
    pub(crate) lines: u64,
    /// Lines of records with bytes of blocks.
    pub(crate) inlines: u64,
    /// Inodes.
    pub(crate) inodes: u64,
    /// Blocks that several files have.
    pub(crate) cloned: u64,
    /// Where the index begins, which bits of zones, cloned blocks and ends of logs follow.
    pub(crate) index: u64,
}

const _: () = assert!(HEADER == LINE && size_of::<Head>() == 64);

/// The saved word of a saved index.
pub(crate) fn saved_word(secret: u64, opening: u64) -> u64 {
    let opening = opening & BITS_40;
    opening | XxHash3_64::oneshot_with_seed(secret, &opening.to_le_bytes()) << 40
}

/// Seals a piece: `bytes` begin with room for its header.
pub(crate) fn seal(secret: u64, opening: u64, (index, last): (u32, bool), bytes: &mut [u8]) {
    let len = bytes.len().saturating_sub(HEADER) as u64;
    let last = u32::from(last);
    let piece = Piece { seal: 0, magic: MAGIC, version: VERSION, index, opening, len, last, zero: [0; 5] };
    bytes[..HEADER].copy_from_slice(piece.as_bytes());
    let seal = sum(secret, opening, bytes);
    bytes[..size_of::<u64>()].copy_from_slice(&seal.to_le_bytes());
}

fn sum(secret: u64, opening: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(secret ^ opening, bytes.get(size_of::<u64>()..).unwrap_or_default())
}

impl Piece {
    /// Whether these are the bytes of this piece.
    pub(crate) fn is_sealed(&self, secret: u64, opening: u64, bytes: &[u8]) -> bool {
        (self.magic, self.opening) == (MAGIC, opening) && self.seal == sum(secret, opening, bytes)
    }
}
