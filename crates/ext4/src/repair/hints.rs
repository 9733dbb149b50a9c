//! Which inodes the table may hold: a group's descriptor says that the last ones were never used, which is a hint that may be
//! wrong (`bg_itable_unused`, `INODE_UNINIT`). Those that the bitmap has in use were used, and in a group where a name leads to
//! another of them any may have been, as for e2fsck. The part of a table that was truly never used may hold anything.

use std::collections::BTreeSet;

use ::vfs::FileKind;

use super::Repair;
use crate::Volume;
use crate::inode::Inode;
use crate::layout::{GroupDescriptor, ROOT_INO, group_flag};
use crate::records::records;
use base::error::Result;

/// Whether a descriptor has more inodes that were never used than free ones.
fn is_impossible(volume: &Volume, descriptor: &GroupDescriptor) -> bool {
    volume.geo.gdt_csum
        && descriptor.inode_table() != 0
        && descriptor.itable_unused() > descriptor.free_inodes()
}

/// How many inodes of a group its descriptor says were used.
fn used(volume: &Volume, descriptor: &GroupDescriptor) -> u32 {
    let all = volume.geo.inodes_per_group;
    match () {
        () if descriptor.inode_table() == 0 => 0,
        () if !volume.geo.gdt_csum => all,
        // As for e2fsck, one that cannot be true counts for nothing.
        () if is_impossible(volume, descriptor) => all,
        () if descriptor.has(group_flag::INODE_UNINIT) => 0,
        () => all.saturating_sub(descriptor.itable_unused()),
    }
}

/// What is said of a count that was wrong.
const CORRECTED: &str = "counts of unused inodes corrected";

impl Repair<'_> {
    /// Group of an inode, and its place there.
    fn place_of(&self, ino: u64) -> (usize, u32) {
        let per_group = u64::from(self.volume.geo.inodes_per_group);
        (((ino - 1) / per_group) as usize, ((ino - 1) % per_group) as u32)
    }

    /// Whether the table was ever written there.
    pub(super) fn may_be_in_use(&self, ino: u64) -> bool {
        let (group, index) = self.place_of(ino);
        index < self.used_inodes[group]
    }

    /// Finds out how much of each table was used: follows the names from the directories that are there to those in parts that
    /// were believed unused, until no name leads to more.
    pub(super) fn judge_hints(&mut self) {
        let volume = self.volume;
        let descriptors = volume.groups.lock().descriptors.clone();
        self.used_inodes = descriptors.iter().map(|descriptor| used(volume, descriptor)).collect();
        let all = volume.geo.inodes_per_group;
        let mut open: BTreeSet<usize> = BTreeSet::new();
        for (group, descriptor) in descriptors.iter().enumerate() {
            if is_impossible(volume, descriptor) {
                self.note(CORRECTED);
            }
            let end = self.end_by_bitmap(group, descriptor);
            if end > self.used_inodes[group] {
                self.raise(group, end);
            }
            open.insert(group);
        }
        if self.used_inodes.iter().all(|used| *used == all) {
            return;
        }
        while let Some(group) = open.pop_first() {
            for ino in self.named_from(group) {
                let (group, index) = self.place_of(ino);
                if index >= self.used_inodes[group] && descriptors[group].inode_table() > 0 {
                    self.raise(group, all);
                    open.insert(group);
                }
            }
        }
    }

    fn raise(&mut self, group: usize, end: u32) {
        self.note(CORRECTED);
        self.used_inodes[group] = end;
    }

    /// Where those end that the bitmap has in use and the table has.
    fn end_by_bitmap(&self, group: usize, descriptor: &GroupDescriptor) -> u32 {
        if descriptor.has(group_flag::INODE_UNINIT) || descriptor.inode_table() == 0 {
            return 0;
        }
        let all = self.volume.geo.inodes_per_group;
        let first = group as u64 * u64::from(all) + 1;
        let is_in_use = |index: &u32| {
            let ino = first + u64::from(*index);
            self.volume.inode_in_use(ino).unwrap_or(false)
                && self.inode(ino).is_ok_and(|inode| {
                    let state = inode.state.read();
                    state.raw.links.get() > 0 && state.raw.kind().is_some()
                })
        };
        (self.used_inodes[group]..all).rev().find(is_in_use).map_or(0, |last| last + 1)
    }

    /// Where the names in the directories of a group lead.
    fn named_from(&self, group: usize) -> BTreeSet<u64> {
        let first = group as u64 * u64::from(self.volume.geo.inodes_per_group) + 1;
        let mut found = BTreeSet::new();
        for ino in (0..u64::from(self.used_inodes[group])).map(|index| first + index) {
            if ino < self.volume.geo.first_ino && ino != ROOT_INO {
                continue;
            }
            let Ok(inode) = self.inode(ino) else { continue };
            // A map that leads nowhere ends the look at this directory.
            let _ = self.names_of(&inode, &mut found);
        }
        found
    }

    fn names_of(&self, inode: &Inode, found: &mut BTreeSet<u64>) -> Result<()> {
        let state = inode.state.read();
        if state.raw.links.get() == 0 || state.raw.kind() != Some(FileKind::Directory) {
            return Ok(());
        }
        for index in 0..self.volume.dir_blocks(&state) {
            let block = self.volume.dir_block(inode, &state, index)?;
            self.volume.look(block, |bytes| {
                for record in records(bytes, self.volume.records_end()).map_while(Result::ok) {
                    let (ino, name) = (u64::from(record.ino), record.name);
                    if ino != 0 && ino <= self.volume.geo.inodes() && !name.is_empty() {
                        found.insert(ino);
                    }
                }
            })?;
        }
        Ok(())
    }
}
