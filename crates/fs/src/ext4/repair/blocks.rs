//! Inodes and their blocks.

use ::vfs::{FileKind, Timestamp};

use super::{Known, METADATA, Repair};
use crate::error::{Error, Result};
use crate::ext4::extent::{self, Visited};
use crate::ext4::inode::{Inode, InodeState};
use crate::ext4::layout::{RESIZE_INO, ROOT_INO, flag, group_flag, le32, put32};
use crate::ext4::mutant;
use crate::ext4::xattr;

/// Pointers of an inode that lead to data.
const DIRECT: u64 = 12;

/// What a walk over a map does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Counts its blocks, and drops pointers that lead nowhere or beyond the end.
    Count,
    /// Copies blocks that others have, too.
    Copy,
    /// Drops what lies beyond the end.
    Cut,
}

struct Walk {
    step: Step,
    /// Blocks of the file; what lies beyond is dropped.
    end: u64,
    /// Blocks in use, tables included.
    blocks: u64,
    /// The first block of the file that has none.
    first_hole: u64,
    dropped: u64,
}

impl Repair<'_> {
    /// Judges all inodes and their maps.
    pub(super) fn mend_blocks(&mut self) -> Result<()> {
        for ino in 1..=self.volume.geo.inodes() {
            if self.may_be_in_use(ino) {
                self.mend_inode(ino)?;
            }
        }
        if self.counts.iter().any(|count| (2..METADATA).contains(count)) {
            self.copy_shared()?;
        }
        self.count_attributes()
    }

    /// Whether the table was ever written there.
    fn may_be_in_use(&self, ino: u64) -> bool {
        let geo = &self.volume.geo;
        let (group, index) = (
            (ino - 1) / u64::from(geo.inodes_per_group),
            ((ino - 1) % u64::from(geo.inodes_per_group)) as u32,
        );
        let groups = self.volume.groups.lock();
        let descriptor = &groups.descriptors[group as usize];
        !geo.gdt_csum
            || !descriptor.has(group_flag::INODE_UNINIT)
                && index < geo.inodes_per_group.saturating_sub(descriptor.itable_unused())
    }

    fn mend_inode(&mut self, ino: u64) -> Result<()> {
        let special = ino < self.volume.geo.first_ino && ino != ROOT_INO;
        let inode = match self.inode(ino) {
            Ok(inode) => inode,
            Err(Error::Corrupt(_)) if !special => return self.blank(ino),
            Err(Error::NoEntry | Error::NotSupported(_) | Error::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut state = inode.state.write();
        if ino == RESIZE_INO {
            let table = le32(&state.raw.block, 13 * 4) as usize;
            if let Some(count) = self.counts.get_mut(table).filter(|_| table != 0) {
                *count = METADATA;
            }
            return Ok(());
        }
        if state.raw.links.get() == 0 {
            return self.forget(&inode, &mut state);
        }
        let kind = state.raw.kind();
        if special {
            return if kind.is_some() { self.count_special(&inode, &state) } else { Ok(()) };
        }
        let Some(kind) = kind else { return self.clear(&inode, &mut state) };
        let links = state.raw.links.get();
        if state.raw.dtime.get() != 0 {
            state.raw.dtime = 0.into();
            self.volume.store_inode(&self.handle, &inode, &mut state)?;
        }
        if self.mend_map(&inode, &mut state, kind)? {
            let known = Known { kind, links, names: 0, parent: None, dotdot: 0, children: 0 };
            self.inodes.insert(ino, known);
        }
        Ok(())
    }

    /// An inode of which not even the fields can be trusted is free.
    fn blank(&mut self, ino: u64) -> Result<()> {
        let (block, at) = self.volume.inode_at(ino)?;
        let len = self.volume.geo.inode_bytes;
        self.note("damaged inodes cleared");
        self.volume.change(&self.handle, block, |bytes| bytes[at..at + len].fill(0))
    }

    /// An inode without links says when it went.
    fn forget(&mut self, inode: &Inode, state: &mut InodeState) -> Result<()> {
        if state.raw.dtime.get() == 0 && state.raw.mode.get() != 0 {
            state.raw.dtime = (Timestamp::now().secs as u32).into();
            self.volume.store_inode(&self.handle, inode, state)?;
        }
        Ok(())
    }

    fn clear(&mut self, inode: &Inode, state: &mut InodeState) -> Result<()> {
        self.note("damaged inodes cleared");
        state.raw.links = 0.into();
        state.raw.dtime = 0.into();
        self.forget(inode, state)
    }

    fn count_special(&mut self, inode: &Inode, state: &InodeState) -> Result<()> {
        let mut blocks = Vec::new();
        let mut seen = |visited: Visited| {
            match visited {
                Visited::Map(block) => blocks.push((block, 1)),
                Visited::Data(_, start, len, _) => blocks.push((start, len)),
            }
            Ok(())
        };
        if state.raw.has(flag::EXTENTS) {
            extent::visit(self.volume, inode, state, &mut seen)?;
        } else {
            crate::ext4::block_map::visit(self.volume, state, &mut seen)?;
        }
        for (start, len) in blocks {
            let end = start.saturating_add(len).min(self.volume.geo.blocks);
            (start..end).for_each(|block| self.counts[block as usize] = METADATA);
        }
        Ok(())
    }

    /// Mends the map of an inode, its size and its count of blocks; false if the inode had to be cleared.
    fn mend_map(&mut self, inode: &Inode, state: &mut InodeState, kind: FileKind) -> Result<bool> {
        let size = u64::from(self.volume.geo.block_bytes);
        let before = state.raw.clone();
        let mut blocks = 0;
        if state.has_map(self.volume) {
            let end = match kind {
                FileKind::Symlink if state.raw.size() == 0 || state.raw.size() > size => {
                    return self.clear(inode, state).map(|()| false);
                }
                FileKind::Directory => state.raw.size() / size,
                _ => state.raw.size().div_ceil(size),
            };
            blocks = if state.raw.has(flag::EXTENTS) {
                self.mend_extents(inode, state, end)
            } else {
                self.mend_pointers(state, end, kind)?
            };
            if kind != FileKind::Regular && state.raw.size() == 0 {
                return self.clear(inode, state).map(|()| false);
            }
        }
        let attributes = state.raw.file_acl();
        if attributes != 0 {
            if self.has_attributes(attributes) {
                *self.attributes.entry(attributes).or_default() += 1;
                blocks += 1;
            } else {
                self.note("blocks of attributes dropped");
                state.raw.set_file_acl(0);
            }
        }
        let has = state.sectors(self.volume) / (size / 512);
        state.add_blocks(self.volume, blocks.cast_signed() - has.cast_signed());
        if state.sectors(self.volume) != blocks * (size / 512) {
            // The old count was no multiple of a block.
            (state.raw.blocks_lo, state.raw.blocks_hi) = (0.into(), 0.into());
            state.add_blocks(self.volume, blocks.cast_signed());
        }
        if zerocopy::IntoBytes::as_bytes(&before) != zerocopy::IntoBytes::as_bytes(&state.raw) {
            self.note("inodes corrected");
            self.volume.store_inode(&self.handle, inode, state)?;
        }
        Ok(true)
    }

    fn has_attributes(&self, block: u64) -> bool {
        let inside = block > self.volume.geo.first_data_block && block < self.volume.geo.blocks;
        inside
            && self.counts[block as usize] != METADATA
            && self.volume.look(block, |bytes| le32(bytes, 0) == xattr::MAGIC).unwrap_or(false)
    }

    /// Counts the blocks of attributes, and corrects the references that each counts itself.
    fn count_attributes(&mut self) -> Result<()> {
        for (block, references) in std::mem::take(&mut self.attributes) {
            let count = &mut self.counts[block as usize];
            *count = count.saturating_add(1).min(METADATA - 1);
            if self.volume.look(block, |bytes| le32(bytes, 4))? != references {
                self.note("references to attributes corrected");
                self.volume.set_attribute_references(&self.handle, block, references)?;
            }
        }
        Ok(())
    }

    /// Extents that are damaged, or lead to blocks that are in use, go as a whole. Returns how many blocks the file has.
    fn mend_extents(&mut self, inode: &Inode, state: &mut InodeState, end: u64) -> u64 {
        let mut found = Vec::new();
        let most = self.volume.geo.blocks;
        let mut seen = |visited: Visited| {
            found.push(visited);
            if found.len() as u64 > most { Err(Error::NoSpace) } else { Ok(()) }
        };
        let visited = extent::visit(self.volume, inode, state, &mut seen);
        let mut runs = Vec::new();
        let mut sound = visited.is_ok();
        for visited in found {
            let (start, len) = match visited {
                Visited::Map(block) => (block, 1),
                Visited::Data(index, start, len, unwritten) => {
                    sound &= unwritten || index + len <= end;
                    (start, len)
                }
            };
            let inside = start > self.volume.geo.first_data_block && start.saturating_add(len) <= most;
            sound &= inside && (start..start + len).all(|block| self.counts[block as usize] == 0);
            runs.push((start, len));
        }
        if !sound {
            self.note("damaged maps of extents dropped");
            extent::init(&mut state.raw.block);
            state.raw.set_size(0);
            return 0;
        }
        let mut blocks = 0;
        for (start, len) in runs {
            (start..start + len).for_each(|block| self.counts[block as usize] = 1);
            blocks += len;
        }
        blocks
    }

    /// Drops what is wrong of a map of blocks; a directory ends where its first block is missing. Returns how many blocks it has.
    fn mend_pointers(&mut self, state: &mut InodeState, end: u64, kind: FileKind) -> Result<u64> {
        let walk = self.walk(state, Step::Count, end)?;
        if kind == FileKind::Regular || walk.first_hole >= end {
            return Ok(walk.blocks);
        }
        self.note("directories cut short");
        let end = walk.first_hole;
        state.raw.set_size(end * u64::from(self.volume.geo.block_bytes));
        Ok(self.walk(state, Step::Cut, end)?.blocks)
    }

    fn walk(&mut self, state: &mut InodeState, step: Step, end: u64) -> Result<Walk> {
        let mut walk = Walk { step, end, blocks: 0, first_hole: 0, dropped: 0 };
        let per_block = u64::from(self.volume.geo.block_bytes) / 4;
        let mut start = 0;
        for slot in 0..15 {
            let levels = (slot as u64).saturating_sub(DIRECT - 1) as u32;
            let pointer = le32(&state.raw.block, slot * 4);
            let mended = self.mend_pointer(pointer, levels, start, &mut walk)?;
            put32(&mut state.raw.block, slot * 4, mended);
            start += per_block.pow(levels);
        }
        if walk.dropped > 0 {
            self.note("maps of blocks corrected");
        }
        Ok(walk)
    }

    /// What a pointer becomes that maps the file from block `start` on; 0: it is dropped.
    fn mend_pointer(&mut self, pointer: u32, levels: u32, start: u64, walk: &mut Walk) -> Result<u32> {
        let block = u64::from(pointer);
        if pointer == 0 {
            return Ok(0);
        }
        let inside = block > self.volume.geo.first_data_block && block < self.volume.geo.blocks;
        let usable =
            inside && self.counts[pointer as usize] != METADATA && walk.blocks < self.volume.geo.blocks;
        if !usable || start >= walk.end {
            walk.dropped += 1;
            if walk.step == Step::Cut && usable {
                self.release(pointer, levels)?;
            }
            return Ok(0);
        }
        let mut block = pointer;
        match walk.step {
            Step::Count => {
                self.counts[block as usize] = self.counts[block as usize].saturating_add(1).min(METADATA - 1);
            }
            Step::Copy if self.counts[block as usize] > 1 => {
                self.counts[block as usize] -= 1;
                block = self.copy(block, levels)?;
                walk.dropped += u64::from(block == 0);
            }
            Step::Copy | Step::Cut => {}
        }
        if block == 0 {
            return Ok(0);
        }
        walk.blocks += 1;
        if levels == 0 {
            walk.first_hole += u64::from(walk.first_hole == start);
            return Ok(block);
        }
        let kept = self.mend_table(block, levels, start, walk)?;
        if !kept && walk.step != Step::Copy {
            self.counts[block as usize] -= 1;
            walk.blocks -= 1;
            return Ok(0);
        }
        Ok(block)
    }

    /// The same for all pointers of a table; whether any is left.
    fn mend_table(&mut self, table: u32, levels: u32, start: u64, walk: &mut Walk) -> Result<bool> {
        let old = self.pointers(table)?;
        let span = (old.len() as u64).pow(levels - 1);
        let mut new = old.clone();
        for (slot, pointer) in new.iter_mut().enumerate().filter(|(_, pointer)| **pointer != 0) {
            *pointer = self.mend_pointer(*pointer, levels - 1, start + slot as u64 * span, walk)?;
        }
        let left = new.iter().any(|pointer| *pointer != 0);
        if new != old && left {
            self.volume.change(&self.handle, u64::from(table), |bytes| {
                new.iter().enumerate().for_each(|(slot, pointer)| put32(bytes, slot * 4, *pointer));
            })?;
        }
        Ok(left)
    }

    fn pointers(&self, table: u32) -> Result<Vec<u32>> {
        let slots = self.volume.geo.block_bytes as usize / 4;
        self.volume.look(u64::from(table), |bytes| (0..slots).map(|slot| le32(bytes, slot * 4)).collect())
    }

    /// Counts the blocks of a subtree down that were counted before.
    fn release(&mut self, block: u32, levels: u32) -> Result<()> {
        let Some(count) = self.counts.get_mut(block as usize).filter(|count| (1..METADATA).contains(*count))
        else {
            return Ok(());
        };
        *count -= 1;
        if levels > 0 {
            for pointer in self.pointers(block)?.into_iter().filter(|pointer| *pointer != 0) {
                self.release(pointer, levels - 1)?;
            }
        }
        Ok(())
    }

    /// Gives every file its own copy of the blocks that it shares with others.
    fn copy_shared(&mut self) -> Result<()> {
        if self.volume.has(mutant::REPAIR_SHARES_BLOCKS) {
            return Ok(());
        }
        let mapped: Vec<u64> = self.inodes.keys().copied().collect();
        for ino in mapped {
            let inode = self.inode(ino)?;
            let mut state = inode.state.write();
            if !state.has_map(self.volume) || state.raw.has(flag::EXTENTS) {
                continue;
            }
            let before = state.raw.block;
            self.walk(&mut state, Step::Copy, u64::MAX)?;
            if state.raw.block != before {
                self.volume.store_inode(&self.handle, &inode, &mut state)?;
            }
        }
        Ok(())
    }

    /// A copy of a block that has an owner already; 0 when no block is free. Data goes past the cache of metadata.
    fn copy(&mut self, block: u32, levels: u32) -> Result<u32> {
        self.note("blocks of two files copied");
        let Some(free) = self.counts.iter().position(|count| *count == 0) else { return Ok(0) };
        self.counts[free] = 1;
        let size = u64::from(self.volume.geo.block_bytes);
        if levels > 0 {
            let bytes = self.volume.look(u64::from(block), <[u8]>::to_vec)?;
            self.volume.change_new(&self.handle, free as u64, |new| new.copy_from_slice(&bytes))?;
            return Ok(free as u32);
        }
        let queue = self.volume.cache.queue();
        let mut bytes = vec![0; size as usize];
        queue.read(&mut [(u64::from(block) * size, &mut bytes)])?;
        // The blocks of a directory are looked at through the cache.
        self.volume.cache.forget(&self.volume.meta, free as u64, free as u64 + 1);
        let piece =
            media::block::Piece { off: free as u64 * size, data: &bytes, hint: media::block::Hint::None };
        queue.write(&[piece], false)?;
        Ok(free as u32)
    }
}
