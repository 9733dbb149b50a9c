//! Copies between two files: blocks are shared where the design can ([`FileSystem::clone_range`]), other bytes read and written.
//!
//! | part of the range | becomes |
//! |---|---|
//! | whole blocks, where both offsets lie alike within theirs | shared |
//! | a last block in part, where the source ends with it and the target does not go on behind it | shared |
//! | anything else, and what the design has no space to share | copied |
//!
//! A copy is no single change: a crash or a lack of space may leave a part of it.

use std::ops::Range;

use crate::attr::Ino;
use crate::errno::{Errno, Result};
use crate::file_system::FileSystem;
use crate::flags::IoFlags;

/// Bytes that are read and written at a time.
const PIECE: u64 = 1 << 20;
/// Bytes that one change shares.
const CLONE: u64 = 64 << 20;

/// Whether two ranges of so many bytes have one in common.
pub fn overlap(one: u64, other: u64, len: u64) -> bool {
    one.abs_diff(other) < len
}

/// Copies `len` bytes from an offset of one regular file to an offset of another, or of the same where the ranges do not overlap.
/// Returns how many bytes: fewer at the end of the source, or when an error came on the way.
pub fn copy_range(
    fs: &dyn FileSystem,
    (from, from_offset): (Ino, u64),
    (to, to_offset): (Ino, u64),
    len: u64,
    flags: IoFlags,
) -> Result<u64> {
    let end = len.min(fs.getattr(from)?.size.saturating_sub(from_offset));
    let mut shared = sharable(fs, (from, from_offset), (to, to_offset), end)?;
    let mut buffer = Vec::new();
    let mut done = 0;
    while done < end {
        let (source, target) = ((from, from_offset + done), (to, to_offset + done));
        if shared.contains(&done) {
            let piece = CLONE.min(shared.end - done);
            match fs.clone_range(source, target, piece) {
                Ok(()) => done += piece,
                // A part of the file may have changed, or have too many pieces: its bytes are copied.
                Err(_) => shared.end = done,
            }
            continue;
        }
        let until = if done < shared.start { shared.start } else { end };
        let piece = PIECE.min(until - done);
        buffer.resize(PIECE.min(end) as usize, 0);
        let piece = &mut buffer[..piece as usize];
        match copy_piece(fs, source, target, piece, flags) {
            Ok(0) => break,
            Ok(bytes) => done += bytes as u64,
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn copy_piece(
    fs: &dyn FileSystem,
    (from, at): (Ino, u64),
    (to, target): (Ino, u64),
    piece: &mut [u8],
    flags: IoFlags,
) -> Result<usize> {
    match fs.read(from, at, piece, flags)? {
        0 => Ok(0),
        read => fs.write(to, target, &piece[..read], flags - IoFlags::APPEND).map(|written| written.bytes),
    }
}

/// The part of a range of `len` bytes that files can share; offsets from the beginning of the range.
fn sharable(fs: &dyn FileSystem, from: (Ino, u64), to: (Ino, u64), len: u64) -> Result<Range<u64>> {
    let Some(unit) = fs.clone_unit().filter(|unit| from.1 % unit == to.1 % unit) else { return Ok(0..0) };
    let start = from.1.next_multiple_of(unit) - from.1;
    let is_end = from.1 + len == fs.getattr(from.0)?.size && to.1 + len >= fs.getattr(to.0)?.size;
    let whole = (from.1 + len) / unit * unit;
    let end = if is_end { len } else { whole.saturating_sub(from.1) };
    Ok(if start < end { start..end } else { 0..0 })
}

/// `EINVAL` unless [`FileSystem::clone_range`] may be asked for this: the rules that hold in every design with clones. `sizes` are
/// those of the source and of the target.
pub fn check_clone(unit: u64, (from, to): (u64, u64), len: u64, sizes: (u64, u64), same: bool) -> Result<()> {
    let aligned = from.is_multiple_of(unit) && to.is_multiple_of(unit);
    let end = from.checked_add(len).filter(|end| *end <= sizes.0);
    let ends = end == Some(sizes.0) && to.saturating_add(len) >= sizes.1;
    let whole = len.is_multiple_of(unit) || ends;
    if aligned && end.is_some() && whole && !(same && overlap(from, to, len)) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}
