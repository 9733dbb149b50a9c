//! Inodes and their blocks.

use std::collections::{BTreeMap, BTreeSet};

use ::vfs::{FileKind, Timestamp};

use super::journal::{exceeds_its_size, has_extents};
use super::{METADATA, Repair};
use crate::extent::{self, Salvaged};
use crate::fields::{self, Needed};
use crate::inode::{Inode, InodeState};
use crate::journal::Handle;
use crate::layout::{BAD_INO, JOURNAL_INO, RESIZE_INO, ROOT_INO, flag, le32, put32};
use crate::runs::{Extent, Visited};
use crate::{block_map, map, mutant};
use base::error::{Error, Result};

/// What is said of lists of access control that were converted or dropped.
const LISTS_MENDED: &str = "access-control lists converted to the kernel's form, or dropped";
/// Pointers of an inode that lead to data.
const DIRECT: u64 = 12;

/// What a walk over a map does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Drops pointers that lead nowhere.
    Check,
    /// Counts its blocks, and drops pointers that lead nowhere or beyond the end.
    Count,
    /// Copies blocks that others have, too.
    Copy,
    /// Drops what lies beyond the end.
    Cut,
}

struct Walk {
    step: Step,
    /// Blocks of the file; what lies beyond is dropped, or makes the file longer.
    end: u64,
    /// What lies beyond makes the file longer.
    grows: bool,
    /// The block behind the last one that is mapped.
    mapped_end: u64,
    /// Blocks in use, tables included.
    blocks: u64,
    /// The first block of the file that has none.
    first_hole: u64,
    dropped: u64,
}

impl Repair<'_> {
    /// Judges all inodes and their maps.
    pub(super) fn mend_blocks(&mut self) -> Result<()> {
        // Those of the file system itself come first: nothing else may have their blocks.
        let journal = u64::from(self.volume.superblock.lock().journal_inum.get());
        if let Some(inode) = self.inode(journal).ok().filter(|_| journal != 0 && self.lost_journal.is_none())
        {
            self.trim_journal(&inode)?;
            // A fault of its map is found later.
            let _ = self.count_special(&inode, &inode.state.read());
        }
        self.count_bad_blocks()?;
        self.lost_resize_inode = self.volume.resize_fault().map_or(true, |fault| fault.is_some());
        let first = self.volume.geo.first_ino;
        let special: Vec<u64> = (2..first).filter(|ino| *ino != ROOT_INO).chain(self.orphan_file).collect();
        let others = (first..=self.volume.geo.inodes()).filter(|ino| self.orphan_file != Some(*ino));
        let others: Vec<u64> = [ROOT_INO].into_iter().chain(others).collect();
        for ino in special.into_iter().chain(others) {
            if self.may_be_in_use(ino) {
                self.mend_inode(ino)?;
            }
        }
        self.count_attributes()?;
        // From here on it is known what is free.
        let shared = self.over_metadata || self.counts.iter().any(|count| (2..METADATA).contains(count));
        if !self.broken.is_empty() || shared {
            self.copy_shared(journal)?;
        }
        self.close_directories()?;
        self.fill_directories()?;
        self.mend_resize_inode()
    }

    /// Makes inode 7 anew, as e2fsck does, or clears it where there is no feature that uses it.
    fn mend_resize_inode(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.lost_resize_inode) {
            return Ok(());
        }
        self.note("inodes of blocks for more descriptors made anew");
        let (block, at) = self.volume.inode_at(RESIZE_INO)?;
        let len = self.volume.geo.inode_bytes;
        self.volume.change(&self.handle, block, |bytes| bytes[at..at + len].fill(0))?;
        if !self.volume.geo.resize_inode {
            return Ok(());
        }
        let table = self.take_free().ok_or(Error::NoSpace)?;
        self.counts[table as usize] = METADATA;
        self.volume.make_resize_inode(&self.handle, table)
    }

    /// A block is used once more. One of metadata stays that: what else has it gets a copy.
    fn count_block(&mut self, block: u64) {
        let count = &mut self.counts[block as usize];
        self.over_metadata |= *count == METADATA;
        if *count < METADATA - 1 {
            *count += 1;
        }
    }

    /// A block is used once less.
    fn discount(&mut self, block: u64) {
        let count = &mut self.counts[block as usize];
        if *count != METADATA {
            *count = count.saturating_sub(1);
        }
    }

    fn mend_inode(&mut self, ino: u64) -> Result<()> {
        let special = self.is_special(ino);
        if ino < self.volume.geo.first_ino && ino != ROOT_INO && self.volume.is_foreign(ino)? {
            return self.blank(ino);
        }
        if ino == JOURNAL_INO && self.lost_journal.is_some() {
            return self.drop_journal();
        }
        let inode = match self.inode(ino) {
            Ok(inode) => inode,
            Err(Error::Corrupt(_)) if !special => return self.blank(ino),
            Err(Error::NoEntry | Error::NotSupported(_) | Error::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut state = inode.state.write();
        let sealed = self.volume.inode_is_stored(ino, &state)?;
        let unused = state.raw.links.get() == 0 || !self.volume.inode_in_use(ino).unwrap_or(true);
        if !sealed && unused && !special {
            return self.blank(ino);
        }
        if special {
            self.needed.add(Needed::by(&state.raw));
        }
        if ino == RESIZE_INO {
            if self.lost_resize_inode {
                return Ok(());
            }
            let table = le32(&state.raw.block, 13 * 4) as usize;
            if let Some(count) = self.counts.get_mut(table).filter(|_| table != 0) {
                *count = METADATA;
            }
            if !sealed {
                self.note("inodes corrected");
                self.volume.store_inode(&self.handle, &inode, &mut state)?;
            }
            return Ok(());
        }
        if state.raw.links.get() == 0 && !self.is_linked_directory(&inode, &mut state) {
            return self.forget(&inode, &mut state);
        }
        let kind = state.raw.kind();
        if special {
            return self.mend_special(&inode, &mut state, sealed);
        }
        let kind = self.true_kind(&inode, &mut state, kind);
        let possible = kind.filter(|kind| ino != ROOT_INO || *kind == FileKind::Directory);
        let Some(kind) = possible else { return self.clear(&inode, &mut state) };
        (0..fields::correct(self.volume, &mut state.raw).len())
            .for_each(|_| self.note("fields of inodes corrected"));
        let links = state.raw.links.get();
        if state.raw.dtime.get() != 0 {
            self.note("times of deletion dropped");
            state.raw.dtime = 0.into();
            self.volume.store_inode(&self.handle, &inode, &mut state)?;
        }
        if self.mend_map(&inode, &mut state, kind)? {
            self.tree.insert(ino, kind, u32::from(links), None);
            self.needed.add(Needed::by(&state.raw));
        }
        Ok(())
    }

    /// The journal, the file of orphans or a boot loader: its map is not changed, and goes as a whole where it cannot be read.
    fn mend_special(&mut self, inode: &Inode, state: &mut InodeState, sealed: bool) -> Result<()> {
        let of = |state: &InodeState| {
            (state.raw.file_acl(), state.sectors(self.volume.geo.block_bytes), state.raw.dtime.get())
        };
        let before = of(state);
        state.raw.set_file_acl(0);
        state.raw.dtime = 0.into();
        let corrected = fields::drop_casefold(&mut state.raw).is_some();
        if state.raw.kind().is_some() {
            match self.count_special(inode, state) {
                Ok(blocks) => self.set_blocks(state, blocks),
                Err(Error::Corrupt(_)) => return self.blank(inode.ino),
                Err(error) => return Err(error),
            }
        }
        if !sealed || corrected || of(state) != before {
            self.note("inodes corrected");
            self.volume.store_inode(&self.handle, inode, state)?;
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

    /// An inode without links says when it went; a time as small as a number of an inode would be a place in the list of orphans.
    fn forget(&mut self, inode: &Inode, state: &mut InodeState) -> Result<()> {
        let low = state.raw.dtime.get() != 0 && self.volume.is_orphan_number(state.raw.dtime.get());
        if low || state.raw.dtime.get() == 0 && state.raw.mode.get() != 0 {
            self.note("times of deletion set");
            state.raw.dtime = (Timestamp::now().secs as u32).into();
            self.volume.store_inode(&self.handle, inode, state)?;
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, inode: &Inode, state: &mut InodeState) -> Result<()> {
        self.note("damaged inodes cleared");
        state.raw.links = 0.into();
        state.raw.dtime = (Timestamp::now().secs as u32).into();
        self.volume.store_inode(&self.handle, inode, state)
    }

    /// What is in the list of bad blocks is in use; what leads nowhere leaves it.
    fn count_bad_blocks(&mut self) -> Result<()> {
        if matches!(self.volume.inode_at(BAD_INO), Err(Error::NoEntry)) {
            return Ok(()); // the table is lost
        }
        if self.volume.is_foreign(BAD_INO)? {
            return self.blank(BAD_INO);
        }
        let inode = match self.inode(BAD_INO) {
            Ok(inode) => inode,
            Err(Error::NoEntry) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut state = inode.state.write();
        if state.raw.has(flag::EXTENTS) {
            return self.count_special(&inode, &state).map(drop);
        }
        if !self.volume.inode_is_stored(BAD_INO, &state)? {
            return self.blank(BAD_INO);
        }
        let dropped = self.walk(&mut state, Step::Check, u64::MAX, false)?.dropped;
        (0..dropped)
            .for_each(|_| self.note("bad blocks that lie nowhere or in metadata taken from their list"));
        let (mut data, mut tables) = (BTreeSet::new(), BTreeSet::new());
        block_map::visit(self.volume, &state, &mut |visited| {
            match visited {
                Visited::Map(table) => tables.insert(table),
                Visited::Data(_, blocks, _) => data.insert(blocks.first),
            };
            Ok(())
        })?;
        if tables.iter().any(|table| data.contains(table)) {
            return self.blank(BAD_INO); // the list lies in a bad block itself
        }
        if !self.volume.inode_is_stored(BAD_INO, &state)? {
            self.note("inodes corrected");
            self.volume.store_inode(&self.handle, &inode, &mut state)?;
        }
        self.count_special(&inode, &state).map(drop)
    }

    /// Whether a block belongs to metadata other than a copy of the superblock and the descriptors.
    fn is_metadata_in_use(&self, block: u64) -> bool {
        self.counts.get(block as usize) == Some(&METADATA) && !self.volume.is_copy_of_metadata(block)
    }

    /// Takes the blocks of an inode of the file system itself; says how many these are.
    fn count_special(&mut self, inode: &Inode, state: &InodeState) -> Result<u64> {
        let mut blocks = Vec::new();
        let mut seen = |visited: Visited| {
            match visited {
                Visited::Map(block) => blocks.push(sim::Run::new(block, 1)),
                Visited::Data(_, run, _) => blocks.push(run),
            }
            Ok(())
        };
        map::visit(self.volume, inode, state, &mut seen)?;
        for run in &blocks {
            let end = run.first.saturating_add(run.count).min(self.volume.geo.blocks);
            (run.first..end).for_each(|block| self.counts[block as usize] = METADATA);
        }
        Ok(blocks.iter().map(|run| run.count).sum())
    }

    /// Mends the map of an inode, its size and its count of blocks; false if the inode had to be cleared.
    fn mend_map(&mut self, inode: &Inode, state: &mut InodeState, kind: FileKind) -> Result<bool> {
        let mut blocks = 0;
        if kind == FileKind::Symlink && !self.volume.target_is_sound(inode, state) {
            return self.clear(inode, state).map(|()| false);
        }
        if state.has_map(self.volume) {
            blocks = if state.raw.has(flag::EXTENTS) {
                self.mend_extents(inode, state, kind)
            } else {
                self.mend_pointers(inode.ino, state, kind)?
            };
            if kind == FileKind::Directory && blocks == 0 && self.asked {
                self.empty.insert(inode.ino);
            } else if kind != FileKind::Regular && state.raw.size() == 0 {
                return self.clear(inode, state).map(|()| false);
            }
        }
        if self.volume.drop_damaged_attributes(state) {
            self.note("attributes of inodes dropped");
        }
        if self.asked && self.volume.mend_lists(state) {
            self.note(LISTS_MENDED);
        }
        let attributes = state.raw.file_acl();
        if attributes != 0 {
            if self.has_attributes(attributes) {
                *self.attributes.entry(attributes).or_default() += 1;
                blocks += 1;
                if self.asked && self.volume.mend_lists_of_block(&self.handle, attributes)? {
                    self.note(LISTS_MENDED);
                }
            } else {
                self.note("blocks of attributes dropped");
                state.raw.set_file_acl(0);
            }
        }
        self.set_blocks(state, blocks);
        if !self.volume.inode_is_stored(inode.ino, state)? {
            self.note("inodes corrected");
            self.volume.store_inode(&self.handle, inode, state)?;
        }
        Ok(true)
    }

    pub(super) fn set_blocks(&self, state: &mut InodeState, blocks: u64) {
        let sectors = blocks * u64::from(self.volume.geo.block_bytes / 512);
        if state.sectors(self.volume.geo.block_bytes) != sectors {
            (state.raw.blocks_lo, state.raw.blocks_hi) = (0.into(), 0.into());
            state.raw.flags = (state.raw.flags.get() & !flag::HUGE_FILE).into();
            state.add_blocks(self.volume, blocks.cast_signed());
        }
    }

    /// Whether a block holds attributes; those that are not sound are dropped.
    fn has_attributes(&mut self, block: u64) -> bool {
        let inside = block > self.volume.geo.first_data_block && block < self.volume.geo.blocks;
        if !inside || self.counts[block as usize] == METADATA {
            return false;
        }
        let is_own = self.asked && self.counts[block as usize] == 0;
        match self.volume.look_at_attributes(block) {
            Ok((true, _)) => true,
            Ok(_) if is_own && self.volume.salvage_attributes(&self.handle, block).unwrap_or(false) => {
                self.note("attributes of inodes dropped");
                true
            }
            _ => false,
        }
    }

    /// Counts the blocks of attributes, and corrects the references that each counts itself.
    fn count_attributes(&mut self) -> Result<()> {
        for (block, references) in std::mem::take(&mut self.attributes) {
            self.count_block(block);
            if self.volume.look_at_attributes(block)?.1 != Some(references) {
                self.note("references to attributes corrected");
                self.volume.set_attribute_references(&self.handle, block, references)?;
            }
        }
        Ok(())
    }

    /// How many blocks the size of a file takes.
    fn end_of(&self, state: &InodeState) -> u64 {
        let size = u64::from(self.volume.geo.block_bytes);
        state.raw.size().div_ceil(size)
    }

    /// Makes a file end with block `end`, if it ends before that.
    fn cover(&mut self, state: &mut InodeState, kind: FileKind, end: u64) {
        let bytes = u64::from(self.volume.geo.block_bytes);
        if kind == FileKind::Regular && fields::is_too_large(self.volume, &state.raw) {
            self.note("sizes corrected");
            state.raw.set_size(end * bytes);
        }
        // As for e2fsck, a file may have one block behind its end.
        let slack = u64::from(kind == FileKind::Regular);
        if self.end_of(state) < end && state.raw.size() < (end - slack) * bytes {
            self.note("sizes corrected");
            state.raw.set_size(end * bytes);
        }
    }

    /// What is kept of a tree of extents.
    fn kept(&self, inode: &Inode, state: &InodeState, kind: FileKind) -> Salvaged {
        let mut kept = extent::salvage(self.volume, inode, state);
        let before = kept.extents.clone();
        let grows = self.asked && kind != FileKind::Symlink;
        let end = if grows { u64::MAX } else { self.end_of(state) };
        let is_dir = kind == FileKind::Directory;
        let of_file = |extent: &Extent, at: u32| {
            let block = (extent.start + u64::from(at)) as usize;
            (extent.unwritten && !is_dir || u64::from(extent.index + at) < end).then_some(block)
        };
        let mut extents = Vec::new();
        for extent in &before {
            (0..extent.len).for_each(|at| push(&mut extents, extent, at, of_file(extent, at)));
        }
        if is_dir {
            close_holes(&mut extents);
        }
        kept.extents = extents;
        kept.sound &= kept.extents == before;
        // A tree that lies over metadata is not to be written to.
        kept.sound &= kept.nodes.iter().all(|block| self.counts[*block as usize] != METADATA);
        kept
    }

    /// Counts what an inode's tree of extents keeps, and corrects the size. Returns how many blocks the file has.
    fn mend_extents(&mut self, inode: &Inode, state: &mut InodeState, kind: FileKind) -> u64 {
        let kept = self.kept(inode, state, kind);
        let written = kept.extents.iter().rev().find(|extent| !extent.unwritten);
        let end = written.map_or(0, Extent::end);
        if self.asked && kind != FileKind::Symlink {
            self.cover(state, kind, end);
        }
        if kind == FileKind::Directory && state.raw.size() != end * u64::from(self.volume.geo.block_bytes) {
            self.note("sizes of directories corrected");
            state.raw.set_size(end * u64::from(self.volume.geo.block_bytes));
        }
        let runs = kept.extents.iter().map(|extent| (extent.start, u64::from(extent.len)));
        let mut blocks = 0;
        for (start, len) in runs.chain(kept.nodes.iter().map(|block| (*block, 1))) {
            blocks += len;
            (start..start + len).for_each(|block| self.count_block(block));
        }
        if !kept.sound {
            self.note("damaged maps of extents mended");
            self.broken.insert(inode.ino);
        }
        blocks
    }

    /// Gives a file of extents its own copy of what it shares, and a new tree where the old one was damaged.
    fn renew_extents(&mut self, inode: &Inode, state: &mut InodeState, kind: FileKind) -> Result<()> {
        let kept = self.kept(inode, state, kind);
        let shared = |block: u64| self.counts[block as usize] > 1;
        let runs = kept.extents.iter().flat_map(|extent| extent.start..extent.start + u64::from(extent.len));
        if !self.broken.contains(&inode.ino) && !runs.chain(kept.nodes.iter().copied()).any(shared) {
            return Ok(());
        }
        kept.nodes.iter().for_each(|block| self.discount(*block));
        self.first_free = 0;
        let mut extents = Vec::new();
        for extent in &kept.extents {
            for at in 0..extent.len {
                let mut block = extent.start as usize + at as usize;
                if self.counts[block] > 1 {
                    self.discount(block as u64);
                    block = self.copy(block as u32, 0)? as usize;
                }
                push(&mut extents, extent, at, (block != 0).then_some(block));
            }
        }
        let volume = self.volume;
        let mut take = || self.take_free().ok_or(Error::NoSpace);
        let nodes = extent::rebuild(volume, &Handle::none(), inode, state, &extents, &mut take)?;
        let data: u64 = extents.iter().map(|extent| u64::from(extent.len)).sum();
        self.set_blocks(state, data + nodes + u64::from(state.raw.file_acl() != 0));
        volume.store_inode(&self.handle, inode, state)
    }

    /// Drops what is wrong of a map of blocks; a directory ends where its first block is missing. Returns how many blocks it has.
    fn mend_pointers(&mut self, ino: u64, state: &mut InodeState, kind: FileKind) -> Result<u64> {
        let end = self.end_of(state);
        let walk = self.walk(state, Step::Count, end, self.asked && kind != FileKind::Symlink)?;
        if walk.grows {
            self.cover(state, kind, walk.mapped_end);
        }
        let end = self.end_of(state);
        if kind == FileKind::Directory && walk.first_hole == walk.mapped_end {
            let size = walk.mapped_end * u64::from(self.volume.geo.block_bytes);
            if state.raw.size() != size {
                self.note("sizes of directories corrected");
                state.raw.set_size(size);
            }
            return Ok(walk.blocks);
        }
        if kind == FileKind::Regular || walk.first_hole >= end {
            return Ok(walk.blocks);
        }
        if kind == FileKind::Directory && walk.mapped_end > walk.first_hole {
            self.holed.insert(ino);
            return Ok(walk.blocks);
        }
        self.note("directories cut short");
        let end = walk.first_hole;
        state.raw.set_size(end * u64::from(self.volume.geo.block_bytes));
        Ok(self.walk(state, Step::Cut, end, false)?.blocks)
    }

    /// Takes the blocks behind the end of a journal with pointers from it: they may be those of others.
    fn trim_journal(&mut self, inode: &Inode) -> Result<()> {
        if !exceeds_its_size(self.volume) || has_extents(self.volume) {
            return Ok(());
        }
        let mut state = inode.state.write();
        let end = state.raw.size() / u64::from(self.volume.geo.block_bytes);
        let blocks = self.walk(&mut state, Step::Cut, end, false)?.blocks;
        self.set_blocks(&mut state, blocks);
        self.note("journals with blocks behind their end cut");
        self.volume.store_inode(&self.handle, inode, &mut state)
    }

    /// Directories with pointers whose blocks have holes between them, as for e2fsck, lose the holes and no block.
    fn close_directories(&mut self) -> Result<()> {
        for ino in std::mem::take(&mut self.holed) {
            let inode = self.inode(ino)?;
            let mut state = inode.state.write();
            let (mut data, mut tables) = (BTreeMap::new(), Vec::new());
            block_map::visit(self.volume, &state, &mut |visited| {
                match visited {
                    Visited::Map(table) => tables.push(table),
                    Visited::Data(index, blocks, _) => drop(data.insert(index, blocks.first as u32)),
                }
                Ok(())
            })?;
            self.note("holes of directories closed");
            let blocks: Vec<u32> = data.into_values().collect();
            let used = block_map::lay_out(self.volume, &self.handle, &mut state, &blocks, &tables)?;
            tables[used..].iter().for_each(|table| self.discount(*table));
            state.raw.set_size(blocks.len() as u64 * u64::from(self.volume.geo.block_bytes));
            let attributes = u64::from(state.raw.file_acl() != 0);
            self.set_blocks(&mut state, (blocks.len() + used) as u64 + attributes);
            self.volume.store_inode(&self.handle, &inode, &mut state)?;
        }
        Ok(())
    }

    fn walk(&mut self, state: &mut InodeState, step: Step, end: u64, grows: bool) -> Result<Walk> {
        let mut walk = Walk { step, end, grows, mapped_end: 0, blocks: 0, first_hole: 0, dropped: 0 };
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
        // The superblock's own block, too, may be what else lies over it.
        let inside = block >= self.volume.geo.first_data_block.max(1) && block < self.volume.geo.blocks;
        let lost = walk.step == Step::Check && self.is_metadata_in_use(block);
        let usable = inside && !lost && walk.blocks < self.volume.geo.blocks;
        let beyond = start >= walk.end;
        if !usable || beyond && !(walk.grows && self.is_plausible(pointer, levels)?) {
            walk.dropped += 1;
            if walk.step == Step::Cut && usable {
                self.release(pointer, levels)?;
            }
            return Ok(0);
        }
        let mut block = pointer;
        match walk.step {
            Step::Count => self.count_block(u64::from(block)),
            Step::Copy if self.counts[block as usize] > 1 => {
                self.discount(u64::from(block));
                block = self.copy(block, levels)?;
                walk.dropped += u64::from(block == 0);
            }
            Step::Check | Step::Copy | Step::Cut => {}
        }
        if block == 0 {
            return Ok(0);
        }
        walk.blocks += 1;
        if levels == 0 {
            walk.first_hole += u64::from(walk.first_hole == start);
            walk.mapped_end = start + 1;
            return Ok(block);
        }
        let kept = self.mend_table(block, levels, start, walk)?;
        if !kept && walk.step != Step::Copy {
            if walk.step != Step::Check {
                self.discount(u64::from(block));
            }
            walk.blocks -= 1;
            return Ok(0);
        }
        Ok(block)
    }

    /// Whether a table looks like one: all its pointers lead to blocks of the file system.
    fn is_plausible(&self, table: u32, levels: u32) -> Result<bool> {
        let blocks = self.volume.geo.blocks;
        Ok(levels == 0 || self.pointers(table)?.iter().all(|pointer| u64::from(*pointer) < blocks))
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
        // What lies over metadata gets a copy first, and is mended there.
        let may_write = self.counts[table as usize] != METADATA;
        if new != old && left && may_write {
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

    /// Gives every file its own copy of the blocks that it shares with others, and a new tree of extents if it needs one.
    fn copy_shared(&mut self, journal: u64) -> Result<()> {
        if self.volume.has(mutant::REPAIR_SHARES_BLOCKS) {
            return Ok(());
        }
        let mapped: Vec<_> = self.tree.nodes.iter().map(|(ino, node)| (*ino, node.kind)).collect();
        for (ino, kind) in mapped {
            let inode = self.inode(ino)?;
            let mut state = inode.state.write();
            if !state.has_map(self.volume) || ino == journal && self.lost_journal.is_none() {
                continue; // a journal in a file with a name keeps its blocks
            }
            if state.raw.has(flag::EXTENTS) {
                self.renew_extents(&inode, &mut state, kind)?;
                continue;
            }
            let before = (state.raw.block, state.sectors(self.volume.geo.block_bytes));
            let blocks = self.walk(&mut state, Step::Copy, u64::MAX, false)?.blocks;
            // Without space for a copy there is a block less.
            let attributes = u64::from(state.raw.file_acl() != 0);
            self.set_blocks(&mut state, blocks + attributes);
            if (state.raw.block, state.sectors(self.volume.geo.block_bytes)) != before {
                self.volume.store_inode(&self.handle, &inode, &mut state)?;
            }
        }
        Ok(())
    }

    /// A copy of a block that has an owner already; 0 when no block is free. Data goes past the cache of metadata.
    fn copy(&mut self, block: u32, levels: u32) -> Result<u32> {
        self.note("blocks of two files copied");
        let Some(free) = self.take_free() else { return Ok(0) };
        let size = u64::from(self.volume.geo.block_bytes);
        if levels > 0 {
            let bytes = self.volume.look(u64::from(block), <[u8]>::to_vec)?;
            self.volume.change_new(&self.handle, free, |new| new.copy_from_slice(&bytes))?;
            return Ok(free as u32);
        }
        let queue = self.volume.cache.queue();
        let mut bytes = vec![0; size as usize];
        queue.read(&mut [(u64::from(block) * size, &mut bytes)])?;
        // The blocks of a directory are looked at through the cache.
        self.volume.cache.forget(&self.volume.meta, free, free + 1);
        let piece = media::block::Piece { off: free * size, data: &bytes, hint: media::block::Hint::None };
        queue.write(&[piece], false)?;
        Ok(free as u32)
    }

    /// A block that was free.
    pub(super) fn take_free(&mut self) -> Option<u64> {
        let free = self.counts[self.first_free..].iter().position(|count| *count == 0)? + self.first_free;
        self.first_free = free + 1;
        self.counts[free] = 1;
        Some(free as u64)
    }
}

/// Renumbers the blocks of a directory, which has no holes, and nothing that is not written.
fn close_holes(extents: &mut [Extent]) {
    let mut next = 0;
    for extent in extents {
        (extent.index, extent.unwritten) = (next, false);
        next += extent.len;
    }
}

/// Adds block `at` of an extent, which lies at `block` now, to a list of extents; none: it has become a hole.
fn push(to: &mut Vec<Extent>, of: &Extent, at: u32, block: Option<usize>) {
    let Some(block) = block else { return };
    let one = Extent { index: of.index + at, len: 1, start: block as u64, unwritten: of.unwritten };
    match to.last_mut().and_then(|last| Some((last.joined(&one)?, last))) {
        // Extents that were two stay two.
        Some((joined, last)) if at > 0 => *last = joined,
        _ => to.push(one),
    }
}
