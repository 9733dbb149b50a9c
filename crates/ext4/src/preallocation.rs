//! Preallocation of the multi-block allocator: free blocks that are set aside in memory for a file, or for small files.
//!
//! | what | for | how large |
//! |---|---|---|
//! | chunk of a locality group | files up to `stream_request`, by the core that writes | 512 blocks, aligned |
//! | window of an inode | larger files | up to the next power of two of the file's size, 8 MiB at most |
//!
//! A chunk is handed out from its beginning, whatever the file: with a `stream_request` that no file reaches, blocks are a log of
//! what a core writes. A window covers blocks of the file that come after the one that was asked for.
//!
//! On the device these blocks are free: a crash loses nothing, and an unmount has nothing to do. Other allocations leave them
//! alone until nothing else is free; then all are given up.
//!
//! Everything here is under the lock `ext4.groups`.
//!
//! Source: Linux 5.15, `fs/ext4/mballoc.c`: `ext4_mb_group_or_file`, `ext4_mb_normalize_request`, `ext4_mb_use_preallocated`.

use std::sync::atomic::Ordering::Relaxed;

use super::Volume;
use super::groups::Groups;
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::set_aside::{Run, Window};
use base::error::{Error, Result};

/// Blocks of a chunk (`MB_DEFAULT_GROUP_PREALLOC`).
const CHUNK_BLOCKS: u32 = 512;

impl Volume {
    /// Allocates up to `want` blocks in a row for block `index` of a file, out of what is set aside for it or its like.
    pub(crate) fn allocate_data(
        &self,
        handle: &Handle<'_>,
        (inode, state): (&Inode, &InodeState),
        (index, want): (u64, u32),
        goal: u64,
    ) -> Result<(u64, u32)> {
        if !self.settings.preallocates {
            return self.allocate_blocks(handle, goal, want);
        }
        if !handle.is_promised() && !self.grants_space() {
            return Err(Error::NoSpace);
        }
        let block_bytes = u64::from(self.geo.block_bytes);
        let blocks = state.raw.size().div_ceil(block_bytes).max(index + u64::from(want));
        let mut groups = self.groups.lock();
        let want = groups.allowance(handle, want)?;
        let run = if blocks * block_bytes > self.settings.stream_request.0 {
            self.window_run(handle, &mut groups, inode, (index, want, blocks), goal)?
        } else {
            self.chunk_run(handle, &mut groups, want, goal)?
        };
        let Some(run) = run else {
            drop(groups);
            return self.allocate_blocks(handle, goal, want);
        };
        let (group, at) = self.geo.group_of(run.start);
        let taken = self.take_run(handle, &mut groups, group, (at, run.len));
        taken.inspect_err(|_| groups.release(group, (at, run.len)))?;
        Ok((run.start, run.len))
    }

    /// Blocks of a chunk of this core, a new one if need be.
    fn chunk_run(
        &self,
        handle: &Handle<'_>,
        groups: &mut Groups,
        want: u32,
        goal: u64,
    ) -> Result<Option<Run>> {
        // Without delayed allocation the kernel asks block by block, so that nothing of a chunk is left.
        let (core, parts) = (sim::task::core(), !self.settings.delays);
        if let Some(run) = groups.set_aside.take_chunk(core, want, parts) {
            return Ok(Some(run));
        }
        if want > CHUNK_BLOCKS {
            return Ok(None);
        }
        let Some((group, at)) = self.find_chunk(handle, groups, goal)? else { return Ok(None) };
        let run = Run { start: self.geo.group_start(group) + u64::from(at), len: CHUNK_BLOCKS };
        groups.withhold(group, (at, CHUNK_BLOCKS));
        sim::ran::push(groups.set_aside.chunks.get_or_default(core), run);
        Ok(groups.set_aside.take_chunk(core, want, parts))
    }

    /// A free chunk, aligned to its size within its group: the first from the goal's group on.
    fn find_chunk(&self, handle: &Handle<'_>, groups: &mut Groups, goal: u64) -> Result<Option<(u32, u32)>> {
        let (first, _) = self.geo.group_of(goal.clamp(self.geo.first_data_block, self.geo.blocks - 1));
        for step in 0..self.geo.groups {
            let group = (first + step) % self.geo.groups;
            let free = groups.descriptors[group as usize].free_blocks();
            if free < CHUNK_BLOCKS || groups.longest_run(group) < CHUNK_BLOCKS {
                continue;
            }
            self.make_block_bitmap(handle, groups, group)?;
            let mut from = 0;
            while let Some((at, len)) = self.find_run(groups, group, (from, CHUNK_BLOCKS), false)? {
                if at < from || len < CHUNK_BLOCKS {
                    break;
                }
                let aligned = at.next_multiple_of(CHUNK_BLOCKS);
                if at == aligned {
                    return Ok(Some((group, at)));
                }
                from = aligned;
            }
        }
        Ok(None)
    }

    /// Blocks of a window of this inode, a new one if need be.
    fn window_run(
        &self,
        handle: &Handle<'_>,
        groups: &mut Groups,
        inode: &Inode,
        (index, want, blocks): (u64, u32, u64),
        goal: u64,
    ) -> Result<Option<Run>> {
        let ino = inode.ino;
        if let Some(run) = groups.set_aside.take_window(ino, index, want) {
            return Ok(Some(run));
        }
        let end = self.window_end(index, want, blocks);
        let len = (end - index).min(u64::from(self.geo.blocks_per_group)) as u32;
        let len = groups.set_aside.uncovered(ino, index, len).max(1);
        let Some((group, at, found)) = self.find_place(handle, groups, goal, len)? else { return Ok(None) };
        let run = Run { start: self.geo.group_start(group) + u64::from(at), len: found };
        groups.withhold(group, (at, found));
        inode.has_window.store(true, Relaxed);
        sim::ran::push(groups.set_aside.windows.get_or_default(ino), Window { index, run });
        Ok(groups.set_aside.take_window(ino, index, want))
    }

    /// The end of the window for a request, by the size that the file will have.
    fn window_end(&self, index: u64, want: u32, blocks: u64) -> u64 {
        let block_bytes = u64::from(self.geo.block_bytes);
        let bytes = blocks * block_bytes;
        let around = |unit: u64| {
            let unit = unit / block_bytes;
            (index / unit + 1) * unit
        };
        let end = match bytes {
            0..=0x10_0000 => bytes.next_power_of_two().max(0x4000) / block_bytes,
            0x10_0001..=0x40_0000 => around(0x20_0000),
            0x40_0001..=0x80_0000 => around(0x40_0000),
            _ if u64::from(want) * block_bytes <= 0x80_0000 => around(0x80_0000),
            _ => index + u64::from(want),
        };
        end.max(index + u64::from(want))
    }

    /// Gives up what is set aside for a file: it was closed, cut or removed.
    pub(crate) fn discard_windows(&self, inode: &Inode) {
        if inode.has_window.swap(false, Relaxed) {
            let mut groups = self.groups.lock();
            let windows = groups.set_aside.windows.remove(&inode.ino).unwrap_or_default();
            for window in windows {
                self.give_up_run(&mut groups, window.run);
            }
        }
    }

    /// Gives up all that is set aside; whether there was anything.
    pub(super) fn give_up_set_aside(&self, groups: &mut Groups) -> bool {
        let set_aside = std::mem::take(&mut groups.set_aside);
        let mut any = false;
        for run in set_aside.runs() {
            any = true;
            self.give_up_run(groups, run);
        }
        any
    }

    /// A run that was set aside can be given out.
    fn give_up_run(&self, groups: &mut Groups, run: Run) {
        let (group, at) = self.geo.group_of(run.start);
        groups.release(group, (at, run.len));
    }
}
