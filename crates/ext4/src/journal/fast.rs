//! Fast commits: what the kernel writes for an fsync instead of a transaction (the feature `fast_commit`). They are only read.
//!
//! ```text
//! area behind the log: block | block | …       block: tag, tag, … PAD        tag: kind u16 | length u16 | value, little-endian
//! HEAD (features, transaction) … TAIL (transaction, checksum) | … TAIL | …
//! ```
//!
//! The area belongs to the first transaction that is not in the log. Each commit ends with a `TAIL`; the next one begins
//! in a new block; its checksum covers all tags since the one before. What has no `TAIL` did not happen.
//!
//! Source: the kernel's documentation, "ext4 Data Structures and Algorithms", Fast commits; `fs/ext4/fast_commit.h`.

use super::recovery::Log;
use crate::layout::{OLD_INODE_BYTES, crc32c, le16, le32};
use crate::runs::Extent;
use base::error::{Error, Result};

/// Kinds of tags.
const ADD_RANGE: u16 = 1;
const DEL_RANGE: u16 = 2;
const CREATE: u16 = 3;
const LINK: u16 = 4;
const UNLINK: u16 = 5;
const INODE: u16 = 6;
const PAD: u16 = 7;
const TAIL: u16 = 8;
const HEAD: u16 = 9;
/// Length of the kind and the length.
const TAG_BYTES: usize = 4;

/// A change of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) parent: u64,
    pub(crate) ino: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An inode has these blocks.
    Add(u64, Extent),
    /// An inode has no blocks here: from a block of the file on, how many.
    Remove(u64, u64, u64),
    /// An inode was made, with this name.
    Create(Name),
    Link(Name),
    Unlink(Name),
    /// The first bytes of an inode in the table.
    Inode(u64, Vec<u8>),
}

/// What the area has.
#[derive(Debug, Default)]
pub(crate) struct FastCommits {
    pub(crate) changes: Vec<Change>,
    pub(crate) commits: u32,
    /// What is wrong with the commit after them.
    pub(crate) damaged: Option<String>,
}

/// What a tag means to a scan.
enum Tag {
    Change(Change),
    Head { features: u32, transaction: u32 },
    Tail { transaction: u32, checksum: u32 },
    Pad,
}

impl Log<'_> {
    /// Reads the fast commits of a transaction.
    pub(crate) fn fast_commits(&self, transaction: u32) -> Result<FastCommits> {
        let mut found = FastCommits::default();
        let Some((first, end)) = self.format.fast else { return Ok(found) };
        let mut scan = Scan { transaction, open: Vec::new(), checksum: 0, begun: false };
        for block in first..end {
            if !scan.block(&self.read(block)?, &mut found)? {
                break;
            }
        }
        Ok(found)
    }
}

struct Scan {
    transaction: u32,
    /// Changes since the last tail, and the checksum of their tags.
    open: Vec<Change>,
    checksum: u32,
    /// The head has been read.
    begun: bool,
}

impl Scan {
    /// Reads the tags of a block; false at the end.
    fn block(&mut self, block: &[u8], found: &mut FastCommits) -> Result<bool> {
        let mut at = 0;
        while at + TAG_BYTES <= block.len() {
            let (kind, len) = (le16(block, at), usize::from(le16(block, at + 2)));
            let bytes = at..at + TAG_BYTES + len;
            let value = block.get(at + TAG_BYTES..bytes.end);
            let Some(tag) = value.and_then(|value| read_tag(kind, value)) else { return Ok(false) };
            if !self.begun && !matches!(tag, Tag::Head { .. }) {
                return Ok(false);
            }
            match tag {
                Tag::Tail { transaction, checksum } => {
                    // The checksum is behind the number that it covers.
                    let covered = crc32c(self.checksum, &block[at..at + TAG_BYTES + 4]);
                    self.checksum = 0;
                    if transaction != self.transaction {
                        return Ok(false);
                    }
                    if checksum != covered {
                        let number = found.commits + 1;
                        let what = "has a wrong checksum";
                        found.damaged =
                            Some(format!("fast commit {number} of transaction {transaction} {what}"));
                        return Ok(false);
                    }
                    found.changes.append(&mut self.open);
                    found.commits += 1;
                }
                Tag::Head { features, .. } if features != 0 => {
                    return Err(Error::NotSupported(
                        "a journal with fast commits of a newer format: e2fsck replays it",
                    ));
                }
                Tag::Head { transaction, .. } if transaction != self.transaction => return Ok(false),
                Tag::Head { .. } => {
                    self.begun = true;
                    self.checksum = crc32c(self.checksum, &block[bytes.clone()]);
                }
                Tag::Change(change) => {
                    self.open.push(change);
                    self.checksum = crc32c(self.checksum, &block[bytes.clone()]);
                }
                Tag::Pad => self.checksum = crc32c(self.checksum, &block[bytes.clone()]),
            }
            at = bytes.end;
        }
        Ok(true)
    }
}

/// What a tag says; none if there is no such tag.
fn read_tag(kind: u16, value: &[u8]) -> Option<Tag> {
    let number = |at: usize| u64::from(le32(value, at));
    let name = || {
        let is_name = (9..=8 + 255).contains(&value.len());
        is_name.then(|| Name { parent: number(0), ino: number(4), bytes: value[8..].to_vec() })
    };
    Some(match (kind, value.len()) {
        (ADD_RANGE, 16) => Tag::Change(Change::Add(number(0), Extent::read(&value[4..]))),
        (DEL_RANGE, 12) => Tag::Change(Change::Remove(number(0), number(4), number(8))),
        (CREATE, _) => Tag::Change(Change::Create(name()?)),
        (LINK, _) => Tag::Change(Change::Link(name()?)),
        (UNLINK, _) => Tag::Change(Change::Unlink(name()?)),
        (INODE, len) if len >= 4 + OLD_INODE_BYTES => {
            Tag::Change(Change::Inode(number(0), value[4..].to_vec()))
        }
        (PAD, _) => Tag::Pad,
        (TAIL, 8..) => Tag::Tail { transaction: le32(value, 0), checksum: le32(value, 4) },
        (HEAD, 8) => Tag::Head { features: le32(value, 0), transaction: le32(value, 4) },
        _ => return None,
    })
}
