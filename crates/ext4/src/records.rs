//! The records of a block of a directory (their form: `dir.rs`), and the room between them.

use vfs::FileKind;

use super::layout::{le16, le32, put16, put32};

/// The shortest record: one with a name of up to four bytes.
pub(crate) const LEAST_RECORD: usize = 12;

/// A record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) at: usize,
    pub(crate) ino: u32,
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) name: &'a [u8],
}

/// The bytes that a record for a name takes at least.
pub(crate) fn record_bytes(name: &[u8]) -> usize {
    (8 + name.len()).next_multiple_of(4)
}

/// The records of a block up to `end`; an error in words ends them.
#[inline]
pub(crate) fn records(block: &[u8], end: usize) -> impl Iterator<Item = Result<Record<'_>, &'static str>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let record = record_at(block, at, end);
        at = record.as_ref().map_or(end, |record| at + record.len);
        Some(record)
    })
}

#[inline]
fn record_at(block: &[u8], at: usize, end: usize) -> Result<Record<'_>, &'static str> {
    if at + 8 > end {
        return Err("a directory record does not fit into its block");
    }
    let (ino, len, name_len) =
        (le32(block, at), usize::from(le16(block, at + 4)), usize::from(block[at + 6]));
    // In the index a record covers the checksum, too.
    if len < LEAST_RECORD || len % 4 != 0 || at + len > block.len() || 8 + name_len > len {
        return Err("a directory record has an impossible length");
    }
    if ino != 0 && name_len == 0 {
        return Err("a directory record has no name");
    }
    Ok(Record { at, ino, len, kind: block[at + 7], name: &block[at + 8..at + 8 + name_len] })
}

/// Where a name was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The block on the device.
    pub(crate) block: u64,
    pub(crate) at: usize,
    pub(crate) ino: u64,
    pub(crate) kind: Option<FileKind>,
}

/// What a new record leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) ino: u64,
    pub(crate) kind: FileKind,
}

/// Writes a record at `at`.
pub(super) fn put_record(block: &mut [u8], at: usize, len: usize, name: &[u8], (ino, kind): (u32, u8)) {
    put32(block, at, ino);
    put16(block, at + 4, len as u16);
    block[at + 6] = name.len() as u8;
    block[at + 7] = kind;
    block[at + 8..at + 8 + name.len()].copy_from_slice(name);
}

/// Puts a record into a block where there is room; false if there is none.
pub(crate) fn put_into(
    block: &mut [u8],
    end: usize,
    name: &[u8],
    (ino, kind): (u32, u8),
) -> Result<bool, &'static str> {
    let Some(room) = room_in(block, end, name)? else { return Ok(false) };
    put_at(block, room, name, (ino, kind));
    Ok(true)
}

/// A record with room behind its name: where it is, its length, and how much of that it uses.
type Room = (usize, usize, usize);

/// The first room for a name in a block.
pub(super) fn room_in(block: &[u8], end: usize, name: &[u8]) -> Result<Option<Room>, &'static str> {
    let needed = record_bytes(name);
    for record in records(block, end) {
        let record = record?;
        let used = if record.ino == 0 { 0 } else { record_bytes(record.name) };
        if record.len >= used + needed {
            return Ok(Some((record.at, record.len, used)));
        }
    }
    Ok(None)
}

/// Puts a record where there is room.
pub(super) fn put_at(block: &mut [u8], (at, len, used): Room, name: &[u8], entry: (u32, u8)) {
    if used > 0 {
        put16(block, at + 4, used as u16);
    }
    put_record(block, at + used, len - used, name, entry);
}
