//! Inodes in DRAM.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use sim::Recency;
use sim::map::TreeMap;

use super::dir::{Dir, NAME_COST};
use super::state::{BLOCK, Time};
use base::error::{Error, Result};

/// What an inode and a block take in a checkpoint, at most, beside its own bytes.
const INODE_COST: u64 = 160;
pub(super) const BLOCK_COST: u64 = BLOCK + 24;

/// Lines that a task waits for that finds an inode by its number: the last node of the tree of inodes, and one of it.
pub(super) const INODE_LINES: u64 = 2;

/// An inode.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Inode {
    /// Kind and permission bits.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u64,
    pub(super) links: u32,
    pub(super) atime: Time,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
    pub(super) xattrs: TreeMap<Vec<u8>, Vec<u8>>,
    pub(super) body: Body,
    /// Descriptors; a crash closes them all.
    #[serde(skip)]
    pub(super) opens: u32,
    /// It was made without a name, and may get one while it is open.
    #[serde(skip)]
    pub(super) nameless: bool,
    /// When it was used last.
    #[serde(skip)]
    pub(super) recency: Recency,
}

/// What an inode holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Body {
    /// Blocks by number; those that are missing are holes.
    File {
        size: u64,
        blocks: TreeMap<u64, Block>,
    },
    Dir(Dir),
    Symlink(Vec<u8>),
    Node,
}

/// The bytes of a block; where they are fewer than [`BLOCK`], zeros follow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Block {
    #[serde(with = "super::bytes")]
    bytes: Vec<u8>,
    /// When it was used last.
    #[serde(skip)]
    recency: Recency,
}

impl Block {
    /// Charges for a copy of so many of its bytes to a buffer.
    pub(super) fn copied_out(&self, bytes: u64) {
        sim::copy_from(&self.recency, bytes);
    }

    /// Charges for a copy of so many bytes to it.
    pub(super) fn copied_in(&self, bytes: u64) {
        sim::copy_to(&self.recency, bytes);
    }
}

impl Deref for Block {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl From<Vec<u8>> for Block {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, recency: Recency::new() }
    }
}

impl Inode {
    pub(super) fn is_dir(&self) -> bool {
        matches!(self.body, Body::Dir(_))
    }

    pub(super) fn cost(&self) -> u64 {
        let bytes = |(name, value): (&Vec<u8>, &Vec<u8>)| NAME_COST + (name.len() + value.len()) as u64;
        let body = match &self.body {
            Body::File { blocks, .. } => blocks.len() as u64 * BLOCK_COST,
            Body::Dir(dir) => dir.cost,
            Body::Symlink(target) => target.len() as u64,
            Body::Node => 0,
        };
        INODE_COST + body + self.xattrs.iter().map(bytes).sum::<u64>()
    }

    /// Refuses a directory that has names.
    pub(super) fn check_empty(&self) -> Result<()> {
        match &self.body {
            Body::Dir(dir) if !dir.names.is_empty() => Err(Error::NotEmpty),
            _ => Ok(()),
        }
    }
}
