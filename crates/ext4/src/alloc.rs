//! The choice of free blocks and inodes, and the bitmaps on the device that say which are free (in memory: `groups.rs`).
//!
//! Blocks that a transaction frees stay *busy* until it has committed: after a crash before that they belong to their old owner.
//! The search for room looks at neither them nor what is set aside (`free_map.rs`).

use std::ops::Range;

use sim::{Work, ran};

use super::Volume;
use super::groups::{Groups, Space, bit, clear_bit, next_free, set_bit, set_padding};
use super::journal::Handle;
use super::layout::{GroupDescriptor, crc32c, group_flag};
use super::mutant;
use base::error::{Error, Result};

impl Volume {
    /// Blocks of a bitmap that hold bits of the group.
    fn block_bitmap_bytes(&self) -> usize {
        self.geo.blocks_per_group as usize / 8
    }

    /// Writes a descriptor to its block.
    pub(crate) fn store_group(
        &self,
        handle: &Handle<'_>,
        group: u32,
        descriptor: &GroupDescriptor,
    ) -> Result<()> {
        let (block, at) = self.geo.descriptor_at(group);
        self.change(handle, block, |bytes| self.geo.store_descriptor(group, descriptor, &mut bytes[at..]))
    }

    /// Looks at the block bitmap of a group, which must have been made.
    fn init_block_bitmap(
        &self,
        handle: &Handle<'_>,
        group: u32,
        descriptor: &mut GroupDescriptor,
    ) -> Result<()> {
        if !descriptor.has(group_flag::BLOCK_UNINIT) {
            return Ok(());
        }
        let base = self.geo.base_blocks(group);
        let own = ran::collected(self.geo.own_metadata(group, descriptor));
        // As the kernel judges it: blocks of files would be given out again.
        if u64::from(base) + own.len() as u64 + u64::from(descriptor.free_blocks())
            != u64::from(self.geo.group_blocks(group))
        {
            return Err(
                self.corrupt(format!("group {group} says that it was never used, and has blocks in use"))
            );
        }
        self.change_new(handle, descriptor.block_bitmap(), |bitmap| {
            (0..base).chain(own).for_each(|at| set_bit(bitmap, at));
            set_padding(bitmap, self.geo.group_blocks(group));
        })?;
        descriptor.clear(group_flag::BLOCK_UNINIT);
        Ok(())
    }

    /// Changes the block bitmap of a group and seals it.
    fn change_block_bitmap(
        &self,
        handle: &Handle<'_>,
        group: u32,
        descriptor: &mut GroupDescriptor,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let len = self.block_bitmap_bytes();
        let checksum = self.change(handle, descriptor.block_bitmap(), |bitmap| {
            change(bitmap);
            crc32c(self.geo.checksum_seed, &bitmap[..len])
        })?;
        if self.geo.metadata_csum {
            descriptor.set_block_bitmap_csum(checksum);
        }
        self.store_group(handle, group, descriptor)
    }

    /// Allocates up to `want` blocks in a row, at `goal` if they are free there; returns the first and how many.
    pub(crate) fn allocate_blocks(&self, handle: &Handle<'_>, goal: u64, want: u32) -> Result<(u64, u32)> {
        if !handle.is_promised() && !self.grants_space() {
            return Err(Error::NoSpace);
        }
        let mut groups = self.groups.lock();
        let want = groups.allowance(handle, want)?;
        let mut found = self.find_place(handle, &mut groups, goal, want)?;
        if found.is_none() && self.give_up_set_aside(&mut groups) {
            found = self.find_place(handle, &mut groups, goal, want)?;
        }
        let (group, at, len) = found.ok_or(Error::NoSpace)?;
        self.take_run(handle, &mut groups, group, (at, len))?;
        Ok((self.geo.group_start(group) + u64::from(at), len))
    }

    /// Whether a fault leaves space.
    pub(super) fn grants_space(&self) -> bool {
        self.device.port().grants_space()
    }

    /// Makes the block bitmap of a group that was never used.
    pub(super) fn make_block_bitmap(
        &self,
        handle: &Handle<'_>,
        groups: &mut Groups,
        group: u32,
    ) -> Result<()> {
        let mut descriptor = groups.descriptors[group as usize].clone();
        self.init_block_bitmap(handle, group, &mut descriptor)?;
        groups.descriptors[group as usize] = descriptor;
        Ok(())
    }

    /// Where up to `want` blocks in a row are free: at `goal`, or the first run that is long enough, or the longest. Group, first
    /// block within it, how many.
    pub(super) fn find_place(
        &self,
        handle: &Handle<'_>,
        groups: &mut Groups,
        goal: u64,
        want: u32,
    ) -> Result<Option<(u32, u32, u32)>> {
        let goal = if goal > self.geo.first_data_block && goal < self.geo.blocks {
            goal
        } else {
            self.geo.first_data_block
        };
        let (first, offset) = self.geo.group_of(goal);
        let mut best: Option<(u32, u32, u32)> = None;
        for step in 0..=self.geo.groups {
            let group = (first + step) % self.geo.groups;
            if groups.descriptors[group as usize].free_blocks() == 0 {
                continue;
            }
            // The longest run wins, so one that has none longer is not searched.
            if groups.longest_run(group) <= best.map_or(0, |(_, _, len)| len) {
                continue;
            }
            self.make_block_bitmap(handle, groups, group)?;
            let from = if step == 0 { offset } else { 0 };
            let found = self.find_run(groups, group, (from, want), step == 0)?;
            if let Some((at, len)) = found
                && best.is_none_or(|(_, _, most)| len > most)
            {
                best = Some((group, at, len));
            }
            let at_goal = step == 0 && found.is_some_and(|(at, _)| at == offset);
            if at_goal || best.is_some_and(|(_, _, len)| len >= want) {
                break;
            }
        }
        Ok(best)
    }

    /// The first free run of `want` blocks in a group from bit `from` on, or the longest; at the goal, what is free there.
    pub(super) fn find_run(
        &self,
        groups: &mut Groups,
        group: u32,
        (from, want): (u32, u32),
        at_goal: bool,
    ) -> Result<Option<(u32, u32)>> {
        if groups.maps[group as usize].is_none() {
            let bitmap = groups.descriptors[group as usize].block_bitmap();
            self.look(bitmap, |bitmap| groups.make_map(&self.geo, group, bitmap))?;
        }
        // A page of the cache, as the buddy bitmap is (`ext4_mb_load_buddy`).
        sim::work(Work::STEP, 2);
        Ok(groups.map(group).and_then(|map| map.find(from, want, at_goal)))
    }

    pub(super) fn take_run(
        &self,
        handle: &Handle<'_>,
        groups: &mut Groups,
        group: u32,
        (at, len): (u32, u32),
    ) -> Result<()> {
        let mut descriptor = groups.descriptors[group as usize].clone();
        descriptor.set_free_blocks(descriptor.free_blocks().saturating_sub(len));
        self.change_block_bitmap(handle, group, &mut descriptor, |bitmap| {
            (at..at + len).for_each(|at| set_bit(bitmap, at));
        })?;
        groups.descriptors[group as usize] = descriptor;
        groups.withhold(group, (at, len));
        Space::add(&groups.space.blocks, -i64::from(len));
        Ok(())
    }

    /// Frees blocks: at once without a journal, when the transaction has committed with one.
    pub(crate) fn free_blocks(
        &self,
        handle: &Handle<'_>,
        start: u64,
        count: u32,
        metadata: bool,
    ) -> Result<()> {
        if start <= self.geo.first_data_block || start + u64::from(count) > self.geo.blocks {
            return Err(
                self.corrupt(format!("blocks {start}+{count} to be freed are not of the file system"))
            );
        }
        let mut groups = self.groups.lock();
        let (mut at, mut left) = (start, count);
        while left > 0 {
            let (group, offset) = self.geo.group_of(at);
            let len = left.min(self.geo.group_blocks(group) - offset);
            let mut descriptor = groups.descriptors[group as usize].clone();
            self.init_block_bitmap(handle, group, &mut descriptor)?;
            let mut was_free = false;
            descriptor.set_free_blocks(descriptor.free_blocks() + len);
            self.change_block_bitmap(handle, group, &mut descriptor, |bitmap| {
                for at in offset..offset + len {
                    was_free |= !bit(bitmap, at);
                    clear_bit(bitmap, at);
                }
            })?;
            if was_free {
                return Err(self.corrupt(format!("blocks {at}+{len} were freed twice")));
            }
            groups.descriptors[group as usize] = descriptor;
            Space::add(&groups.space.blocks, i64::from(len));
            if let Some(journal) = handle.journal().filter(|_| !self.has(mutant::REUSED_BEFORE_COMMIT)) {
                groups.busy.insert(at, len);
                Space::add(&groups.space.busy, i64::from(len));
                journal.free_later(at, len);
            } else {
                groups.release(group, (offset, len));
            }
            at += u64::from(len);
            left -= len;
        }
        drop(groups);
        if metadata {
            (start..start + u64::from(count)).for_each(|block| self.forget_block(handle, block));
        }
        Ok(())
    }

    /// A transaction has committed: what it freed may be given out.
    pub(crate) fn release_freed(&self, freed: &[(u64, u32)]) {
        let mut groups = self.groups.lock();
        for (start, _) in freed {
            let len = groups.busy.remove(start).unwrap_or_default();
            let (group, at) = self.geo.group_of(*start);
            groups.release(group, (at, len));
            Space::add(&groups.space.busy, -i64::from(len));
        }
    }

    /// Carries out `work`; if there is no space but a commit would give some, commits and tries again. The caller has no handle.
    pub(crate) fn with_space<R>(&self, work: impl Fn() -> Result<R>) -> Result<R> {
        match work() {
            Err(Error::NoSpace) if self.space.has_busy() => {
                self.commit_all(false)?;
                work()
            }
            done => done,
        }
    }

    /// Makes the bits of blocks say that they are in use, or free, whatever they say now; returns those that said otherwise.
    /// Nothing waits for a commit: the caller gives none of them out before that.
    pub(crate) fn mark_blocks(
        &self,
        handle: &Handle<'_>,
        blocks: Range<u64>,
        used: bool,
    ) -> Result<Vec<u64>> {
        let mut groups = self.groups.lock();
        let (mut at, mut all) = (blocks.start, Vec::new());
        while at < blocks.end {
            let (group, offset) = self.geo.group_of(at);
            let len = (blocks.end - at).min(u64::from(self.geo.group_blocks(group) - offset)) as u32;
            let mut descriptor = groups.descriptors[group as usize].clone();
            self.init_block_bitmap(handle, group, &mut descriptor)?;
            let range = offset..offset + len;
            let other = |bitmap: &[u8]| ran::collected(range.clone().filter(|at| bit(bitmap, *at) != used));
            let other: Vec<u32> = self.look(descriptor.block_bitmap(), other)?;
            let changes = other.len() as u32;
            let found = other.iter().map(|other| self.geo.group_start(group) + u64::from(*other));
            ran::extend(&mut all, found);
            let free = descriptor.free_blocks();
            descriptor.set_free_blocks(if used { free.saturating_sub(changes) } else { free + changes });
            self.change_block_bitmap(handle, group, &mut descriptor, |bitmap| {
                range.clone().for_each(|at| if used { set_bit(bitmap, at) } else { clear_bit(bitmap, at) });
            })?;
            groups.descriptors[group as usize] = descriptor;
            // It is made anew when it is needed.
            groups.maps[group as usize] = None;
            Space::add(&groups.space.blocks, i64::from(changes) * if used { -1 } else { 1 });
            at += u64::from(len);
        }
        Ok(all)
    }

    /// Takes an inode number that a replay names.
    pub(crate) fn claim_inode(&self, handle: &Handle<'_>, ino: u64, directory: bool) -> Result<()> {
        if self.inode_in_use(ino)? {
            return Ok(());
        }
        let per_group = u64::from(self.geo.inodes_per_group);
        let (group, index) = (((ino - 1) / per_group) as u32, ((ino - 1) % per_group) as u32);
        self.take_number(handle, &mut self.groups.lock(), group, index, directory)
    }

    /// Allocates an inode number near `parent`.
    pub(crate) fn allocate_inode(&self, handle: &Handle<'_>, parent: u64, directory: bool) -> Result<u64> {
        if !self.grants_space() {
            return Err(Error::NoSpace);
        }
        let _part = sim::part(&super::parts::NEW_INODE);
        let mut groups = self.groups.lock();
        let near = ((parent - 1) / u64::from(self.geo.inodes_per_group)) as u32;
        let first = if directory { groups.directory_group(near) } else { near };
        for step in 0..self.geo.groups {
            let group = (first + step) % self.geo.groups;
            if groups.descriptors[group as usize].free_inodes() == 0 {
                continue;
            }
            if let Some(index) = self.take_inode(handle, &mut groups, group, directory)? {
                return Ok(u64::from(group) * u64::from(self.geo.inodes_per_group) + u64::from(index) + 1);
            }
        }
        Err(Error::NoSpace)
    }

    fn take_inode(
        &self,
        handle: &Handle<'_>,
        groups: &mut Groups,
        group: u32,
        directory: bool,
    ) -> Result<Option<u32>> {
        let per_group = self.geo.inodes_per_group;
        let reserved = if group == 0 { (self.geo.first_ino - 1) as u32 } else { 0 };
        let descriptor = &groups.descriptors[group as usize];
        let found = if descriptor.has(group_flag::INODE_UNINIT) {
            Some(reserved)
        } else {
            self.look(descriptor.inode_bitmap(), |bitmap| next_free(bitmap, reserved, per_group))?
        };
        let Some(index) = found else { return Ok(None) };
        self.take_number(handle, groups, group, index, directory)?;
        Ok(Some(index))
    }

    /// Takes a number of a group that is free.
    fn take_number(
        &self,
        handle: &Handle<'_>,
        groups: &mut Groups,
        group: u32,
        index: u32,
        directory: bool,
    ) -> Result<()> {
        let per_group = self.geo.inodes_per_group;
        let mut descriptor = groups.descriptors[group as usize].clone();
        if descriptor.has(group_flag::INODE_UNINIT) {
            self.change_new(handle, descriptor.inode_bitmap(), |bitmap| set_padding(bitmap, per_group))?;
            descriptor.clear(group_flag::INODE_UNINIT);
        }
        self.init_table(handle, &mut descriptor, index)?;
        descriptor.set_free_inodes(descriptor.free_inodes() - 1);
        if directory {
            descriptor.set_used_dirs(descriptor.used_dirs() + 1);
        }
        self.change_inode_bitmap(handle, group, &mut descriptor, |bitmap| set_bit(bitmap, index))?;
        groups.descriptors[group as usize] = descriptor;
        Space::add(&groups.space.inodes, -1);
        Ok(())
    }

    /// Raises the part of the inode table that is in use to hold `index`; blocks that were never used become zero. What the
    /// descriptor says is a hint: a block with an inode that the bitmap has in use was used.
    fn init_table(&self, handle: &Handle<'_>, descriptor: &mut GroupDescriptor, index: u32) -> Result<()> {
        if !self.geo.gdt_csum {
            return Ok(());
        }
        let used = self.geo.inodes_per_group - descriptor.itable_unused();
        if index < used {
            return Ok(());
        }
        let per_block = self.geo.block_bytes / self.geo.inode_bytes as u32;
        if !descriptor.has(group_flag::INODE_ZEROED) {
            let first = used.div_ceil(per_block);
            for block in first..=index / per_block {
                let inodes = block * per_block..((block + 1) * per_block).min(self.geo.inodes_per_group);
                let is_used = self
                    .look(descriptor.inode_bitmap(), |bitmap| inodes.into_iter().any(|at| bit(bitmap, at)))?;
                if !is_used {
                    self.change_new(handle, descriptor.inode_table() + u64::from(block), |_| ())?;
                }
            }
        }
        descriptor.set_itable_unused(self.geo.inodes_per_group - index - 1);
        Ok(())
    }

    fn change_inode_bitmap(
        &self,
        handle: &Handle<'_>,
        group: u32,
        descriptor: &mut GroupDescriptor,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let len = self.geo.inodes_per_group as usize / 8;
        let checksum = self.change(handle, descriptor.inode_bitmap(), |bitmap| {
            change(bitmap);
            crc32c(self.geo.checksum_seed, &bitmap[..len])
        })?;
        if self.geo.metadata_csum {
            descriptor.set_inode_bitmap_csum(checksum);
        }
        self.store_group(handle, group, descriptor)
    }

    /// Frees an inode number.
    pub(crate) fn free_inode(&self, handle: &Handle<'_>, ino: u64, directory: bool) -> Result<()> {
        let _part = sim::part(&super::parts::FREE_INODE);
        let per_group = u64::from(self.geo.inodes_per_group);
        let (group, index) = (((ino - 1) / per_group) as u32, ((ino - 1) % per_group) as u32);
        let mut groups = self.groups.lock();
        let mut descriptor = groups.descriptors[group as usize].clone();
        let mut was_free = false;
        descriptor.set_free_inodes(descriptor.free_inodes() + 1);
        if directory {
            descriptor.set_used_dirs(descriptor.used_dirs().saturating_sub(1));
        }
        self.change_inode_bitmap(handle, group, &mut descriptor, |bitmap| {
            was_free = !bit(bitmap, index);
            clear_bit(bitmap, index);
        })?;
        if was_free {
            return Err(self.corrupt(format!("inode {ino} was freed twice")));
        }
        groups.descriptors[group as usize] = descriptor;
        Space::add(&groups.space.inodes, 1);
        Ok(())
    }

    /// Whether the bitmap has an inode in use.
    pub(crate) fn inode_in_use(&self, ino: u64) -> Result<bool> {
        let per_group = u64::from(self.geo.inodes_per_group);
        let (group, index) = ((ino - 1) / per_group, ((ino - 1) % per_group) as u32);
        let bitmap = {
            let groups = self.groups.lock();
            let descriptor = &groups.descriptors[group as usize];
            if descriptor.has(group_flag::INODE_UNINIT) {
                return Ok(false);
            }
            descriptor.inode_bitmap()
        };
        self.look(bitmap, |bitmap| bit(bitmap, index))
    }
}
