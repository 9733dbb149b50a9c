//! What a repair would lose: names that lead to something before it, and to nothing after it.
//!
//! e2fsck drops names that lead to free inodes, to none, a second time to a directory, and those of blocks whose records make no
//! sense. All other names are kept, or what they lead to gets one in `lost+found`. A repair that would drop more is not carried out
//! unless the person who asks for it says so.

use std::collections::BTreeMap;

use ::vfs::FileKind;

use super::INODE;
use crate::Volume;
use crate::inode::{Inode, InodeState};
use crate::layout::{ROOT_INO, RawInode};
use crate::records::records;
use base::error::Result;

/// The names of an image, read as far as they can be.
#[derive(Debug, Default)]
pub(super) struct Census {
    /// How many names lead to each inode in use.
    names: BTreeMap<u64, u64>,
    /// Files and directories among them.
    files: BTreeMap<u64, FileKind>,
    /// Names that lead to inodes whose table was not found.
    without_table: u64,
}

/// What one image has and another, the repaired one, has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    pub(super) names: u64,
    /// Files and directories that were whole, and have no name any more.
    pub(super) files: u64,
    /// Names that lead into inode tables that were not found.
    pub(super) without_table: u64,
}

impl Losses {
    /// Whether e2fsck's rules have no place for it.
    pub(super) fn is_more_than_rules_allow(self) -> bool {
        self.files > 0 || self.without_table > 0
    }

    /// Why a repair that would do this was not carried out.
    pub(super) fn refusal(self, done: &[String]) -> String {
        let Self { names, files, without_table } = self;
        let of = match without_table {
            0 => format!("{files} files and directories that can be read"),
            _ => format!("{without_table} of them lead into inode tables that were not found"),
        };
        format!(
            "a repair would lose {names} names ({of}), so nothing was changed; it would do: {}; copy what can be read first, then \
             `weir fsck --repair --force-loss`",
            done.join("; ")
        )
    }
}

impl Census {
    /// Reads all names. The volume was opened to be repaired.
    pub(super) fn of(volume: &Volume) -> Self {
        let mut census = Self::default();
        for ino in 1..=volume.geo.inodes() {
            if ino < volume.geo.first_ino && ino != ROOT_INO {
                continue;
            }
            let Ok((raw, extra)) = volume.read_inode(ino) else { continue };
            if raw.links.get() > 0 && raw.is_dir() {
                let inode = Inode::alone(ino, &INODE, InodeState::of(raw, extra));
                // A map that leads nowhere ends the look at this directory.
                let _ = census.add_directory(volume, &inode);
            }
        }
        census
    }

    fn add_directory(&mut self, volume: &Volume, inode: &Inode) -> Result<()> {
        let state = inode.state.read();
        for index in 0..volume.dir_blocks(&state) {
            let block = volume.dir_block(inode, &state, index)?;
            let bytes = volume.look(block, <[u8]>::to_vec)?;
            for record in records(&bytes, volume.records_end()).map_while(Result::ok) {
                let ino = u64::from(record.ino);
                // No call gives the root or a directory itself a name in it: that is a damaged `.` or `..`.
                let is_own = ino == ROOT_INO || ino == inode.ino;
                let is_name = !is_own && !matches!(record.name, b"" | b"." | b"..");
                // One that leads to a reserved inode names no file.
                if ino >= volume.geo.first_ino && ino <= volume.geo.inodes() && is_name {
                    self.add_name(volume, ino);
                }
            }
        }
        Ok(())
    }

    fn add_name(&mut self, volume: &Volume, ino: u64) {
        let per_group = u64::from(volume.geo.inodes_per_group);
        let table = volume.groups.lock().descriptors[((ino - 1) / per_group) as usize].inode_table();
        if table == 0 {
            self.without_table += 1;
            return;
        }
        let Ok((raw, extra)) = volume.read_inode(ino) else { return };
        let Some(kind) = raw.kind().filter(|_| Self::is_in_use(volume, ino, (&raw, extra))) else { return };
        *self.names.entry(ino).or_default() += 1;
        if matches!(kind, FileKind::Regular | FileKind::Directory) {
            self.files.insert(ino, kind);
        }
    }

    /// Whether a repair takes an inode for one in use.
    fn is_in_use(volume: &Volume, ino: u64, (raw, extra): (&RawInode, Box<[u8]>)) -> bool {
        let sealed = || volume.inode_is_stored(ino, &InodeState::of(raw.clone(), extra)).unwrap_or(false);
        raw.links.get() > 0 && (volume.inode_in_use(ino).unwrap_or(false) || sealed())
    }

    /// What this one has and the other, that of the repaired image, has not.
    pub(super) fn lost_in(&self, after: &Self) -> Losses {
        let has = |ino: &u64| after.names.get(ino).copied().unwrap_or(0);
        Losses {
            names: self.names.iter().map(|(ino, names)| names.saturating_sub(has(ino))).sum::<u64>()
                + self.without_table,
            files: self.files.keys().filter(|ino| has(ino) == 0).count() as u64,
            without_table: self.without_table,
        }
    }
}
