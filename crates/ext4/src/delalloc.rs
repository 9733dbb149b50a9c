//! Delayed allocation: a buffered write to a hole takes no block of the device, it only sets one aside in the count of free blocks.
//! Blocks are allocated when the data is written back, for whole stretches at once.
//!
//! | state of a block of a file | its page | counted as |
//! |---|---|---|
//! | hole | none, or clean zeros | – |
//! | delayed | dirty, no block | reserved, with what the map may need for it |
//! | mapped | as without delayed allocation | used |
//!
//! **Who allocates**: write-back of what is old or too much, fsync and sync, and every call that looks at the map of the file or
//! changes it otherwise (truncate, fallocate, direct I/O, the list of extents). A commit does not: in ordered mode it forces what
//! has blocks, so after a crash a file may be as short as it was when its blocks were last allocated. Two habits of programs are
//! kept from that (`auto_da_alloc`): a file that is renamed over another gets its blocks before the rename, and one that was
//! cut to nothing and written again when it is closed.
//!
//! **The size on the device** (`i_disksize`) follows allocation: it stays where it was while blocks before the end are delayed,
//! so no crash shows zeros that were never written.
//!
//! **Space.** No other allocation takes blocks that are [`reserved`](super::groups::Space::reserved), so write-back finds what
//! the write was promised. For the map it counts as if each block became an extent of its own. When less than half as
//! many blocks as are reserved would be left, a write allocates at once and gives an exact answer (`ext4_nonda_switch`).
//!
//! Source: Linux 5.15, `fs/ext4/inode.c`: `ext4_da_write_begin`, `ext4_nonda_switch`, `mpage_map_and_submit_extent`,
//! `ext4_alloc_da_blocks`; A. Mathur et al., "The new ext4 filesystem" (Linux Symposium 2007), section 3.2.

use std::ops::Range;
use std::sync::Arc;

use sim::{Run, RwLockReadGuard, Work};

use super::inode::{Inode, InodeState};
use super::journal::DataMode;
use super::journal::credits::WRITE_CREDITS;
use super::layout::{flag, le16};
use super::runs::Mapped;
use super::{Volume, mutant};
use base::cache::{Growth, Mapping, NO_BLOCK};
use base::error::Result;

/// Blocks that are allocated for one stretch at most (`MAX_WRITEPAGES_EXTENT_LEN`).
const STRETCH_BLOCKS: u64 = 2048;
/// Stretches of one handle: each may touch a bitmap, a descriptor and a node of the map.
const HANDLE_STRETCHES: usize = 8;

impl InodeState {
    /// Blocks that the map may need when `blocks` are added to it, each as an extent of its own.
    fn map_need(&self, volume: &Volume, blocks: u64) -> u64 {
        let (entries, depth) = (u64::from(le16(&self.raw.block, 2)), u64::from(le16(&self.raw.block, 6)));
        if blocks == 0 || depth == 0 && entries + blocks <= 4 {
            return 0;
        }
        // A split leaves a node at least half full.
        let half = u64::from(volume.geo.block_bytes) / 12 / 2;
        blocks / half + depth + 2
    }
}

impl Volume {
    /// Whether a hole of a file is written to without allocating.
    pub(super) fn delays(&self, state: &InodeState) -> bool {
        self.settings.delays && state.raw.has(flag::EXTENTS) && self.data_mode() != Some(DataMode::Journal)
    }

    /// Before a write to a range of blocks: whether its holes may be delayed. If not, what is delayed has been allocated, so
    /// that the write can be allocated at once: where space is short, and where blocks are there beyond the size on the device,
    /// which the write could not show before those that are delayed.
    pub(super) fn may_delay(
        &self,
        inode: &Arc<Inode>,
        state: &mut InodeState,
        Range { start: first, end: last }: Range<u64>,
    ) -> Result<bool> {
        if !self.delays(state) {
            return Ok(false);
        }
        let short = 2 * self.space.unused() < 3 * (self.space.reserved() + (last - first));
        let on_device = state.delayed.disk_size.unwrap_or(state.raw.size()).div_ceil(self.block_bytes());
        if !short && !self.has_blocks(inode, state, first.max(on_device)..last)? {
            return Ok(true);
        }
        self.allocate_delayed(inode, state)?;
        Ok(false)
    }

    /// Whether a range of a file has a block on the device.
    fn has_blocks(&self, inode: &Inode, state: &InodeState, blocks: Range<u64>) -> Result<bool> {
        let Range { start: mut index, end: last } = blocks;
        while index < last {
            match self.map(inode, state, index, last - index)? {
                Mapped::Blocks { .. } => return Ok(true),
                Mapped::Hole(len) => index += len.max(1),
            }
        }
        Ok(false)
    }

    /// Sets blocks aside for a hole of a file; how many, from the first on.
    pub(super) fn reserve_delayed(&self, state: &mut InodeState, hole: Run) -> u64 {
        if !self.grants_space() {
            return 0;
        }
        sim::work(Work::STEP, 2);
        let groups = self.groups.lock();
        let Run { first: index, count: mut got } = hole;
        loop {
            let map = state.map_need(self, state.delayed.len() + got).max(state.delayed.map);
            let need = got + (map - state.delayed.map);
            if need <= self.space.available() {
                groups.reserve(need);
                state.delayed.map = map;
                break;
            }
            got = self.space.available().min(got - 1);
            if got == 0 {
                return 0;
            }
        }
        (index..index + got).for_each(|index| {
            state.delayed.blocks.insert(index);
        });
        got
    }

    /// Gives up what was reserved for delayed blocks, and for the map when none are left.
    fn unreserve(&self, state: &mut InodeState, mut blocks: u64) {
        if state.delayed.is_empty() {
            blocks += std::mem::take(&mut state.delayed.map);
        }
        self.groups.lock().unreserve(blocks);
    }

    /// Delayed blocks of a range are none any more: their pages were forgotten.
    pub(super) fn drop_delayed(&self, state: &mut InodeState, blocks: Range<u64>) {
        let gone = sim::ran::collected(state.delayed.blocks.range(blocks).copied());
        if gone.is_empty() {
            return;
        }
        for index in &gone {
            state.delayed.blocks.remove(index);
        }
        self.unreserve(state, gone.len() as u64);
    }

    /// After a failed write: blocks that it has reserved and not filled are holes again.
    pub(super) fn drop_unfilled(&self, inode: &Inode, state: &mut InodeState, blocks: Range<u64>) {
        let filled = |index| inode.mapping().get(index).is_some_and(|page| page.is_dirty());
        for index in blocks {
            if state.delayed.holds(index) && !filled(index) {
                self.drop_delayed(state, index..index + 1);
            }
        }
    }

    /// A write has reached `end`: the file has that size, and shows it on the device once nothing is delayed.
    pub(super) fn grow(&self, state: &mut InodeState, end: u64) {
        let old = state.raw.size();
        state.raw.set_size(end.max(old));
        let waits = !state.delayed.is_empty() && !self.has(mutant::SIZE_BEFORE_BLOCKS);
        let on_device = state.delayed.disk_size.unwrap_or(old);
        state.delayed.disk_size = Some(on_device).filter(|shown| waits && *shown != state.raw.size());
    }

    /// Gives every delayed block of a file its place on the device.
    pub(super) fn allocate_delayed(&self, inode: &Arc<Inode>, state: &mut InodeState) -> Result<()> {
        while !state.delayed.is_empty() {
            let _scope = sim::scope(media::charges::METADATA);
            let handle = self.begin(WRITE_CREDITS)?.reserved();
            for _ in 0..HANDLE_STRETCHES {
                let Some(index) = state.delayed.next(0) else { break };
                let len = state.delayed.run(index).min(STRETCH_BLOCKS);
                let Run { first: start, count: len } =
                    self.map_new(&handle, inode, state, Run::new(index, len), false)?;
                self.place_pages(inode, state, (index, start, len));
                for index in index..index + len {
                    state.delayed.blocks.remove(&index);
                }
                self.unreserve(state, len);
            }
            if let Some(journal) = handle.journal().filter(|journal| journal.mode == DataMode::Ordered)
                && !self.has(mutant::DELAYED_NOT_ORDERED)
            {
                journal.order(inode.mapping());
            }
            if let (Some(first), Some(on_device)) = (state.delayed.next(0), &mut state.delayed.disk_size) {
                // Blocks of a transaction are not beyond the size that it shows.
                *on_device = (first * self.block_bytes()).min(state.raw.size()).max(*on_device);
            }
            self.grow(state, 0);
            self.store_inode(&handle, inode, state)?;
        }
        Ok(())
    }

    /// The pages of blocks that were just allocated learn their places, and how the file grew by them.
    fn place_pages(&self, inode: &Arc<Inode>, state: &InodeState, (index, start, len): (u64, u64, u64)) {
        let old_end = state.delayed.disk_size.unwrap_or(state.raw.size()).div_ceil(self.block_bytes());
        let before = index.checked_sub(1).and_then(|before| inode.mapping().get(before));
        let before = before.map(|page| page.state.read().block).filter(|block| *block != NO_BLOCK);
        let mut previous = before.map_or(Growth::First, Growth::After);
        for step in 0..len {
            if let Some(page) = inode.mapping().get(index + step) {
                let mut page = page.state.write();
                page.block = start + step;
                page.growth = if index + step >= old_end { previous } else { Growth::None };
            }
            previous = Growth::After(start + step);
        }
    }

    /// Gives the delayed blocks of the inode that a mapping belongs to their places. The caller holds no inode and no handle.
    pub(super) fn allocate_mapping(&self, mapping: &Arc<Mapping>) -> Result<()> {
        if !self.settings.delays {
            return Ok(());
        }
        let inode = self.inodes.get(mapping.number());
        let Some(inode) = inode.filter(|inode| Arc::ptr_eq(inode.mapping(), mapping)) else { return Ok(()) };
        let mut state = inode.change_beside();
        self.allocate_delayed(&inode, &mut state)
    }

    /// The same for an inode that is not locked.
    pub(super) fn settle_delayed(&self, inode: &Arc<Inode>) -> Result<()> {
        if !self.settings.delays {
            return Ok(());
        }
        let mut state = inode.change_beside();
        self.allocate_delayed(inode, &mut state)
    }

    /// Locks an inode for a look at where its data is on the device, beside other readers: alone only to place delayed blocks.
    pub(super) fn read_settled<'a>(&self, inode: &'a Arc<Inode>) -> Result<RwLockReadGuard<'a, InodeState>> {
        loop {
            let state = inode.state.read();
            if state.delayed.is_empty() {
                return Ok(state);
            }
            drop(state);
            // Another task may write before the next look.
            self.settle_delayed(inode)?;
        }
    }
}
