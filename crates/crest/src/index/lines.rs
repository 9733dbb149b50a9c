//! Lines that the records of names and inodes may take in the log, at most.

use super::inode::{Body, State};
use crate::format::layout::LINE;

/// Lines that the records of an inode may take: its birth, owner, times twice, size, and the time of a name.
const INODE_LINES: u64 = 6;

/// Lines that the record of a name may take.
pub(crate) fn name_lines(name: &[u8]) -> u64 {
    1 + name.len().div_ceil(LINE) as u64
}

/// Lines that the record of an attribute may take.
pub(crate) fn xattr_lines(name: &[u8], value: &[u8]) -> u64 {
    1 + (name.len() + value.len()).div_ceil(LINE) as u64
}

/// Lines that the records of an inode may take, without those of names and blocks: with a target of so many bytes, and attributes.
pub(crate) fn inode_lines<'a>(target: usize, xattrs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> u64 {
    let xattrs = xattrs.map(|(name, value)| xattr_lines(name, value)).sum::<u64>();
    INODE_LINES + target.div_ceil(LINE) as u64 + xattrs
}

/// The same of an inode in DRAM.
pub(crate) fn lines_of(state: &State) -> u64 {
    let target = if let Body::Symlink(target) = &state.body { target.len() } else { 0 };
    inode_lines(target, state.xattrs.iter().map(|(name, attribute)| (&**name, &*attribute.value)))
}
