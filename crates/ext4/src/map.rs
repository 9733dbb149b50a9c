//! Which block of the device holds a block of a file: one interface over extents and block maps.

use std::ops::Range;

use sim::Run;

use super::inode::{Inode, InodeState};
use super::journal::{DataMode, Handle, JournalMap};
use super::layout::{RawInode, flag, put32};
use super::runs::{Extent, MOST_BLOCKS, Mapped, Visited};
use super::{JOURNAL_INODE, Volume, block_map, extent};
use base::error::{Error, Result};

/// Walks the map of an inode: its own blocks, and those of the file in order.
pub(crate) fn visit(
    volume: &Volume,
    inode: &Inode,
    state: &InodeState,
    seen: &mut dyn FnMut(Visited) -> Result<()>,
) -> Result<()> {
    match state.raw.has(flag::EXTENTS) {
        true => extent::visit(volume, inode, state, seen),
        false => block_map::visit(volume, state, seen),
    }
}

/// The blocks of the device that a part of a map is.
pub(crate) fn run_of(visited: Visited) -> Run {
    match visited {
        Visited::Map(table) => Run::new(table, 1),
        Visited::Data(_, run, _) => run,
    }
}

impl Volume {
    /// The largest file: what the maps can hold.
    pub(crate) fn max_file_bytes(&self, state: &InodeState) -> u64 {
        let block_bytes = u64::from(self.geo.block_bytes);
        if state.raw.has(flag::EXTENTS) {
            // Without `huge_file` an inode counts its space in 32 bits, in units of 512 bytes (Linux: `ext4_max_size`).
            let sectors = block_bytes / 512;
            let most = if self.geo.huge_file { u32::MAX } else { u32::MAX / sectors as u32 };
            return u64::from(most) * block_bytes;
        }
        let per_block = block_bytes / 4;
        // i_blocks counts 512-byte units in 32 bits.
        let by_blocks =
            (u64::from(u32::MAX) / (block_bytes / 512)).saturating_sub(per_block * per_block / 64);
        (12 + per_block + per_block * per_block + per_block * per_block * per_block).min(by_blocks)
            * block_bytes
    }

    /// What a file has from block `index` on; at most `most` blocks.
    pub(crate) fn map(&self, inode: &Inode, state: &InodeState, index: u64, most: u64) -> Result<Mapped> {
        let mapped = if state.raw.has(flag::EXTENTS) {
            extent::lookup(self, inode, state, index)?
        } else {
            block_map::lookup(self, inode, state, index)?
        };
        Ok(match mapped {
            Mapped::Hole(len) => Mapped::Hole(len.min(most)),
            Mapped::Blocks { start, len, unwritten } => {
                Mapped::Blocks { start, len: len.min(most), unwritten }
            }
        })
    }

    /// Where the next blocks of a file should go: after its last ones, else in the group of its inode.
    pub(crate) fn goal(&self, inode: &Inode, state: &InodeState, index: u64) -> u64 {
        if let Some((last, block)) = state.last
            && index > last
        {
            return block + (index - last).min(u64::from(self.geo.blocks_per_group));
        }
        if index > 0
            && let Ok(Mapped::Blocks { start, .. }) = self.map(inode, state, index - 1, 1)
        {
            return start + 1;
        }
        let group = (inode.ino - 1) / u64::from(self.geo.inodes_per_group);
        // Files of a group begin in one of sixteen parts of it, by the task that makes them.
        let part = sim::task::current_id().map_or(0, u64::from) % 16;
        let start = self.geo.group_start(group as u32);
        start + part * u64::from(self.geo.group_blocks(group as u32)) / 16
    }

    /// Gives blocks to a hole of a file from block `index` on, at most `most`; returns those blocks. The caller writes the inode.
    pub(crate) fn map_new(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        Run { first: index, count: most }: Run,
        unwritten: bool,
    ) -> Result<Run> {
        let _part = sim::part(&super::parts::ALLOC_BLOCKS);
        let goal = self.goal(inode, state, index);
        // As many as one extent can have.
        let most = most.min(u64::from(MOST_BLOCKS) - u64::from(unwritten)) as u32;
        let (start, len) = if state.raw.has(flag::EXTENTS) {
            let (start, len) = self.allocate_data(handle, (inode, state), (index, most), goal)?;
            let new = Extent { index: index as u32, len, start, unwritten };
            if let Err(error) = extent::insert(self, handle, inode, state, new) {
                self.free_blocks(handle, start, len, false)?;
                return Err(error);
            }
            (start, len)
        } else {
            block_map::allocate(self, handle, inode, state, (index, most), goal)?
        };
        state.add_blocks(self, i64::from(len));
        state.last = Some((index + u64::from(len) - 1, start + u64::from(len) - 1));
        Ok(Run::new(start, u64::from(len)))
    }

    /// Takes the blocks from `from` to before `to` away from a file and frees them, or as many, from the end, as fit into a
    /// transaction; true when none are left. The caller writes the inode.
    pub(crate) fn unmap(
        &self,
        handle: &Handle<'_>,
        inode: &Inode,
        state: &mut InodeState,
        Range { start: from, end: to }: Range<u64>,
    ) -> Result<bool> {
        state.last = None;
        self.discard_windows(inode);
        if from >= to {
            return Ok(true);
        }
        // What went through the journal must not be replayed over what its blocks become.
        let metadata = !state.raw.is_regular() || self.data_mode() == Some(DataMode::Journal);
        let (freed, done) = if state.raw.has(flag::EXTENTS) {
            extent::remove(self, handle, inode, state, from..to, metadata)?
        } else {
            block_map::remove(self, handle, inode, state, from..to, metadata)?
        };
        state.add_blocks(self, -freed.cast_signed());
        Ok(done)
    }

    /// Complains about a block that a map leads to and that cannot be a file's.
    pub(crate) fn check_data_blocks(&self, inode: &Inode, start: u64, len: u64) -> Result<()> {
        if start > self.geo.first_data_block && start.saturating_add(len) <= self.geo.blocks {
            return Ok(());
        }
        Err(self.corrupt(format!("inode {} leads to blocks {start}+{len}, beyond the end", inode.ino)))
    }

    /// The extents of a file for people and tools: the first block of the file, the blocks of the device, whether unwritten.
    pub(crate) fn extents(&self, inode: &Inode, state: &InodeState) -> Result<Vec<(u64, Run, bool)>> {
        let end = state.raw.size().div_ceil(u64::from(self.geo.block_bytes));
        let (mut at, mut extents) = (0, Vec::<(u64, Run, bool)>::new());
        while at < end {
            match self.map(inode, state, at, end - at)? {
                Mapped::Hole(len) => at += len.max(1),
                Mapped::Blocks { start, len, unwritten } => {
                    match extents.last_mut() {
                        Some((index, run, other))
                            if *index + run.count == at && run.end() == start && *other == unwritten =>
                        {
                            run.count += len;
                        }
                        _ => extents.push((at, Run::new(start, len), unwritten)),
                    }
                    at += len.max(1);
                }
            }
        }
        Ok(extents)
    }

    /// The inode of the journal and its map by its copy in the superblock, if it has one (`s_jnl_blocks`): for a journal that alone
    /// knows what its inode should be.
    pub(crate) fn journal_inode_by_copy(&self) -> Option<(RawInode, JournalMap)> {
        let superblock = self.superblock.lock().clone();
        let words = superblock.jnl_blocks.map(zerocopy::little_endian::U32::get);
        if superblock.jnl_backup_type != 1 || words[..15] == [0; 15] {
            return None;
        }
        let mut raw = RawInode::zero();
        raw.mode = ((::vfs::FileKind::Regular.mode_bits() | 0o600) as u16).into();
        raw.links = 1.into();
        (raw.size_hi, raw.size_lo) = (words[15].into(), words[16].into());
        (0..15).for_each(|slot| put32(&mut raw.block, slot * 4, words[slot]));
        if words[0] & 0xffff == 0xf30a {
            raw.flags = flag::EXTENTS.into();
        }
        let number = u64::from(superblock.journal_inum.get());
        let state = InodeState::of(raw.clone(), Box::default());
        let map = self.whole_map(number, state, "the journal").ok().filter(|map| !map.is_empty())?;
        Some((raw, JournalMap(map)))
    }

    /// Checks the inode of the journal as e2fsck does, and beyond what a mount needs; the block behind its last one.
    pub(crate) fn check_journal_inode(&self, number: u64) -> Result<u64> {
        let (raw, extra) = self.read_inode(number)?;
        let inode = Inode::alone(number, &JOURNAL_INODE, InodeState::of(raw, extra));
        let state = inode.state.read();
        if !state.raw.size().is_multiple_of(u64::from(self.geo.block_bytes)) {
            return Err(Error::Corrupt("the journal has a part of a block".to_owned()));
        }
        // A repair reads more than there should be.
        if state.raw.has(flag::EXTENTS) && !extent::salvage(self, &inode, &state).sound {
            return Err(Error::Corrupt("the tree of the journal's extents is damaged".to_owned()));
        }
        let (mut end, mut runs) = (0, Vec::new());
        visit(self, &inode, &state, &mut |visited| {
            if let Visited::Data(index, run, _) = visited {
                end = end.max(index + run.count);
            }
            runs.push(run_of(visited));
            Ok(())
        })?;
        runs.sort_unstable_by_key(|run| run.first);
        match runs.windows(2).find(|pair| pair[1].first < pair[0].end()) {
            Some(pair) => Err(Error::Corrupt(format!("the journal has block {} twice", pair[1].first))),
            None => Ok(end),
        }
    }

    /// Where the blocks are of an inode of the file system itself, which has no holes.
    pub(crate) fn special_map(&self, number: u64, what: &str) -> Result<Vec<u64>> {
        let (raw, extra) = self.read_inode(number)?;
        self.whole_map(number, InodeState::of(raw, extra), what)
    }

    fn whole_map(&self, number: u64, state: InodeState, what: &str) -> Result<Vec<u64>> {
        let inode = Inode::alone(number, &JOURNAL_INODE, state);
        let state = inode.state.read();
        let end = state.raw.size() / u64::from(self.geo.block_bytes);
        if end > self.geo.blocks {
            return Err(Error::Corrupt(format!("{what} is larger than the file system")));
        }
        let mut map = Vec::with_capacity(end as usize);
        while (map.len() as u64) < end {
            match self.map(&inode, &state, map.len() as u64, end - map.len() as u64)? {
                Mapped::Blocks { start, len, .. } => map.extend(start..start + len),
                Mapped::Hole(_) => return Err(Error::Corrupt(format!("{what} has a hole"))),
            }
        }
        let mut sorted = map.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::Corrupt(format!("{what} has block {} twice", pair[0]))),
            None => Ok(map),
        }
    }
}

/// A block of the journal, or of its map, that lies in a superblock, among the descriptors, in a bitmap or in an inode table:
/// the log would be written over that.
pub(crate) fn journal_over_metadata(volume: &Volume) -> Option<u64> {
    let number = u64::from(volume.superblock.lock().journal_inum.get());
    let (raw, extra) = volume.read_inode(number).ok().filter(|_| number != 0)?;
    let inode = Inode::alone(number, &JOURNAL_INODE, InodeState::of(raw, extra));
    let mut taken = metadata_runs(volume);
    let state = inode.state.read();
    let end = state.raw.size() / u64::from(volume.geo.block_bytes);
    let mut runs = Vec::new();
    let mut seen = |visited: Visited| {
        runs.push(match visited {
            Visited::Map(table) => Run::new(table, 1),
            // The log ends with the file.
            Visited::Data(index, run, _) => Run::new(run.first, run.count.min(end.saturating_sub(index))),
        });
        Ok(())
    };
    // What cannot be read of the map is another fault.
    if state.raw.has(flag::EXTENTS) {
        extent::salvage(volume, &inode, &state).visited().try_for_each(&mut seen).ok()?;
    } else {
        let _ = block_map::visit(volume, &state, &mut seen);
    }
    taken.sort_unstable_by_key(|run| run.first);
    let longest = taken.iter().map(|run| run.count).max().unwrap_or(0);
    runs.iter().filter(|run| run.count > 0).find_map(|run| {
        let near = taken.partition_point(|other| other.first.saturating_add(longest) <= run.first);
        let mut near =
            taken[near..].iter().take_while(|other| other.first < run.first.saturating_add(run.count));
        near.find(|other| run.first < other.end()).map(|other| run.first.max(other.first))
    })
}

/// The superblocks, descriptors, bitmaps and inode tables.
fn metadata_runs(volume: &Volume) -> Vec<Run> {
    let geo = &volume.geo;
    let groups = volume.groups.lock();
    let mut runs = vec![Run::new(0, geo.first_data_block + 1)];
    for (group, descriptor) in (0..).zip(&groups.descriptors) {
        let base = u64::from(geo.base_blocks(group));
        runs.push(Run::new(geo.group_start(group), base));
        runs.push(Run::new(descriptor.block_bitmap(), 1));
        runs.push(Run::new(descriptor.inode_bitmap(), 1));
        runs.push(Run::new(descriptor.inode_table(), u64::from(geo.table_blocks())));
    }
    runs.retain(|run| run.count > 0);
    runs
}
