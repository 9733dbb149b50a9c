//! Where new inodes lie: block groups of ext4, allocation groups of XFS, as `mkfs` makes them on 32 GiB, the study's RAM disk.

/// Groups of a flex group: the default of mke2fs.
const FLEX: u64 = 16;
/// Groups of 128 MiB in 32 GiB, the size of the study's RAM disk.
const GROUPS: u64 = 256;
/// Allocation groups that `mkfs.xfs` makes of 32 GiB.
const ALLOCATION_GROUPS: u64 = 4;
/// Inodes of 256 bytes in a block of the inode table.
const INODES_IN_BLOCK: u64 = 16;

/// Where an inode lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Its block group.
    pub(super) group: u64,
    /// Its number in the group.
    slot: u64,
    /// Its allocation group.
    pub(super) allocation_group: u64,
}

impl Place {
    /// The block of the inode table.
    pub(super) fn table(self) -> u64 {
        self.group << 32 | self.slot / INODES_IN_BLOCK
    }

    /// The block of group descriptors of 32 bytes.
    pub(super) fn descriptors(self) -> u64 {
        self.group / 128
    }

    /// The lock of its group.
    pub(super) fn lock(self) -> u64 {
        self.group & 127
    }
}

/// The choice of places, of 4.2: `find_group_orlov` and `find_group_other` of fs/ext4/ialloc.c; `xfs_ialloc_ag_select` of
/// fs/xfs/libxfs/xfs_ialloc.c.
#[derive(Debug)]
pub(super) struct Places {
    directories: Vec<u64>,
    inodes: Vec<u64>,
    /// The allocation group of the next directory, `m_agirotor`.
    next_directory: u64,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            directories: vec![0; (GROUPS / FLEX) as usize],
            inodes: vec![0; GROUPS as usize],
            next_directory: 0,
        }
    }
}

impl Places {
    /// A place for a new inode below a directory at `parent`: a directory that is to be spread goes to the flex group with the
    /// fewest directories; anything else to the first group of its directory's flex group. In allocation groups directories go
    /// round, and anything else follows its directory.
    pub(super) fn choose(&mut self, parent: Place, is_dir: bool, spread: bool) -> Place {
        let own = parent.group / FLEX;
        let fewest = || self.directories.iter().enumerate().min_by_key(|(_, count)| **count);
        let flex = if is_dir && spread { fewest().map_or(own, |(flex, _)| flex as u64) } else { own };
        if is_dir && let Some(count) = self.directories.get_mut(flex as usize) {
            *count += 1;
        }
        let group = flex * FLEX;
        let slot = self.inodes.get_mut(group as usize).map_or(0, |count| {
            *count += 1;
            *count - 1
        });
        let allocation_group = if is_dir { self.next_directory } else { parent.allocation_group };
        if is_dir {
            self.next_directory = (self.next_directory + 1) % ALLOCATION_GROUPS;
        }
        Place { group, slot, allocation_group }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eighty_directories_of_the_root_share_sixteen_flex_groups_evenly_and_files_follow_them() {
        let mut places = Places::default();
        let root = Place::default();
        let dirs: Vec<Place> = (0..80).map(|_| places.choose(root, true, true)).collect();
        for flex in 0..16 {
            assert_eq!(dirs.iter().filter(|dir| dir.group == flex * FLEX).count(), 5);
        }
        let file = places.choose(dirs[17], false, false);
        assert_eq!(file.group, dirs[17].group);
        assert_eq!(places.choose(dirs[17], true, false).group, dirs[17].group, "a directory further below");
        // The first groups of the flex groups share 8 of the 128 locks, and two blocks of descriptors.
        let locks: std::collections::BTreeSet<u64> = dirs.iter().map(|dir| dir.lock()).collect();
        let descriptors: std::collections::BTreeSet<u64> = dirs.iter().map(|dir| dir.descriptors()).collect();
        assert_eq!((locks.len(), descriptors.len()), (8, 2));
    }

    #[test]
    fn sixteen_inodes_share_a_block_of_the_table() {
        let mut places = Places::default();
        let tables: Vec<u64> =
            (0..33).map(|_| places.choose(Place::default(), false, false).table()).collect();
        assert!(tables[..16].iter().all(|table| *table == tables[0]) && tables[16] != tables[0]);
        assert_ne!(tables[32], tables[16]);
    }

    #[test]
    fn eighty_directories_go_round_four_allocation_groups_and_files_follow_them() {
        let mut places = Places::default();
        let dirs: Vec<Place> = (0..80).map(|_| places.choose(Place::default(), true, true)).collect();
        for group in 0..ALLOCATION_GROUPS {
            assert_eq!(dirs.iter().filter(|dir| dir.allocation_group == group).count(), 20);
        }
        assert_eq!(places.choose(dirs[17], false, false).allocation_group, dirs[17].allocation_group);
    }
}
