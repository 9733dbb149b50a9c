//! The blocks that the medium cannot use, as `mke2fs -l`, `mke2fs -c` and `e2fsck -l` list them: the block map of inode 1, whose
//! other fields are zero. They are in use, so nothing is ever put there; no call reads them.

use ::vfs::FileKind;
use sim::Run;

use super::fsck::INODE;
use super::inode::{Inode, InodeState};
use super::layout::{BAD_INO, BOOT_INO, RESIZE_INO, flag, le16, le32};
use super::runs::Visited;
use super::{Volume, map};
use base::error::{Error, Result};

impl Volume {
    /// The blocks that the medium cannot use, and those of their map, as runs; none where inode 1 has no map.
    pub(crate) fn bad_blocks(&self) -> Result<Vec<Run>> {
        let (raw, extra) = match self.read_inode(BAD_INO) {
            Err(Error::NoEntry) => return Ok(Vec::new()),
            read => read?,
        };
        let inode = Inode::alone(BAD_INO, &INODE, InodeState::of(raw, extra));
        let state = inode.state.read();
        let mut runs = Vec::new();
        let mut seen = |visited: Visited| {
            let run = match visited {
                Visited::Map(block) => Run::new(block, 1),
                Visited::Data(_, run, _) => run,
            };
            self.check_data_blocks(&inode, run.first, run.count)?;
            if runs.len() as u64 > self.geo.blocks {
                return Err(Error::Corrupt("the list of bad blocks does not end".to_owned()));
            }
            runs.push(run);
            Ok(())
        };
        map::visit(self, &inode, &state, &mut seen)?;
        Ok(runs)
    }

    /// Whether a block belongs to a copy of the superblock and the descriptors.
    pub(crate) fn is_copy_of_metadata(&self, block: u64) -> bool {
        if block < self.geo.first_data_block {
            return false;
        }
        let (group, at) = self.geo.group_of(block);
        group > 0 && at < self.geo.base_blocks(group)
    }

    /// Whether a reserved inode holds what it cannot: that of bad blocks anything but pointers, that of a boot loader a directory,
    /// one that the file system does not use a mode, links, attributes, flags, blocks or a size; or its checksum is wrong.
    pub(crate) fn is_foreign(&self, ino: u64) -> Result<bool> {
        let (block, at) = self.inode_at(ino)?;
        let journal = u64::from(self.superblock.lock().journal_inum.get());
        self.look(block, |bytes| {
            let raw = &bytes[at..at + self.geo.inode_bytes];
            let (mode, links, flags) = (le16(raw, 0), le16(raw, 0x1a), le32(raw, 0x20));
            let kind = FileKind::from_mode(u32::from(mode));
            let is_of_no_kind = kind.is_none() && (mode != 0 || links != 0);
            // A time of deletion that is a number of an inode would be a place in the list of orphans.
            let listed = (1..=self.geo.inodes()).contains(&u64::from(le32(raw, 0x14)));
            match ino {
                BAD_INO => {
                    let extents = if self.geo.extents { flag::EXTENTS } else { 0 };
                    let owned = le16(raw, 2) != 0 || le16(raw, 0x18) != 0;
                    let has_more = mode != 0 || links != 0 || owned || le32(raw, 0x68) != 0 || listed;
                    has_more || flags & !extents != 0 || !self.is_sealed_or_empty(ino, raw)
                }
                RESIZE_INO if self.geo.resize_inode => is_of_no_kind,
                _ if ino == journal || self.geo.orphan_file == Some(ino) => is_of_no_kind,
                BOOT_INO if mode != 0 => is_of_no_kind || kind == Some(FileKind::Directory),
                _ => {
                    let sizes = [0x4, 0x1c, 0x20, 0x6c].into_iter().any(|at| le32(raw, at) != 0);
                    let has_blocks = raw[0x28..0x64].iter().any(|byte| *byte != 0) || le16(raw, 0x74) != 0;
                    let has_more = mode != 0 || links != 0 || le32(raw, 0x68) != 0 || listed;
                    has_more || sizes || has_blocks || !self.is_sealed_or_empty(ino, raw)
                }
            }
        })
    }

    /// Whether the checksum in the bytes of an inode is right. One that was never used has none.
    fn is_sealed_or_empty(&self, ino: u64, raw: &[u8]) -> bool {
        if !self.geo.metadata_csum || raw.iter().all(|byte| *byte == 0) {
            return true;
        }
        let (checksum, wide) = self.geo.inode_checksum(ino, raw);
        let upper = if wide { u32::from(le16(raw, 0x82)) << 16 } else { 0 };
        (u32::from(le16(raw, 0x7c)) | upper) == checksum
    }
}
