//! Block maps: twelve pointers in the inode, then trees of pointers one, two and three blocks deep (ext2).

use std::ops::Range;

use sim::{Run, ran};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::layout::{le32, put32};
use super::runs::Mapped;
use super::runs::Visited;
use base::error::{Error, Result};

/// Pointers of an inode that lead to data.
const DIRECT: u64 = 12;

/// The way to a block: the slot in the inode, then the slot in each block of pointers.
struct Path {
    slots: [u64; 4],
    depth: usize,
    /// How many slots follow in the last table, this one counted.
    run: u64,
}

fn path(index: u64, per_block: u64) -> Result<Path> {
    if index < DIRECT {
        return Ok(Path { slots: [index, 0, 0, 0], depth: 1, run: DIRECT - index });
    }
    let mut rest = index - DIRECT;
    for levels in 1..=3_u32 {
        let span = per_block.pow(levels);
        if rest < span {
            let mut slots = [DIRECT + u64::from(levels) - 1, 0, 0, 0];
            for level in 0..levels {
                slots[1 + level as usize] = rest / per_block.pow(levels - 1 - level) % per_block;
            }
            return Ok(Path { slots, depth: 1 + levels as usize, run: per_block - rest % per_block });
        }
        rest -= span;
    }
    Err(Error::TooLarge)
}

fn per_block(volume: &Volume) -> u64 {
    u64::from(volume.geo.block_bytes) / 4
}

/// What a file has at block `index`.
pub(crate) fn lookup(volume: &Volume, inode: &Inode, state: &InodeState, index: u64) -> Result<Mapped> {
    let Ok(path) = path(index, per_block(volume)) else { return Ok(Mapped::Hole(u64::MAX - index)) };
    let mut pointer = u64::from(le32(&state.raw.block, path.slots[0] as usize * 4));
    let count = |table: &[u8], slot: u64| {
        let pointer = |slot: u64| u64::from(le32(table, slot as usize * 4));
        let first = pointer(slot);
        let same = |step: &u64| pointer(slot + step) == if first == 0 { 0 } else { first + step };
        (1..path.run).take_while(same).count() as u64 + 1
    };
    if path.depth == 1 {
        let len = count(&state.raw.block, path.slots[0]);
        return finish(volume, inode, pointer, len);
    }
    for level in 1..path.depth {
        if pointer == 0 {
            let missing = per_block(volume).pow((path.depth - level) as u32);
            let inside =
                path.slots[level..path.depth].iter().fold(0, |at, slot| at * per_block(volume) + slot);
            return Ok(Mapped::Hole(missing - inside));
        }
        volume.check_data_blocks(inode, pointer, 1)?;
        let slot = path.slots[level];
        if level + 1 == path.depth {
            let (first, len) =
                volume.look(pointer, |table| (le32(table, slot as usize * 4), count(table, slot)))?;
            return finish(volume, inode, u64::from(first), len);
        }
        pointer = u64::from(volume.look(pointer, |table| le32(table, slot as usize * 4))?);
    }
    Err(inode.damaged(volume, "a path of pointers has no end"))
}

fn finish(volume: &Volume, inode: &Inode, start: u64, len: u64) -> Result<Mapped> {
    if start == 0 {
        return Ok(Mapped::Hole(len));
    }
    volume.check_data_blocks(inode, start, len)?;
    Ok(Mapped::Blocks { start, len, unwritten: false })
}

/// Gives blocks to a hole at block `index`, at most `most` and as far as one table of pointers reaches.
pub(crate) fn allocate(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    (index, most): (u64, u32),
    goal: u64,
) -> Result<(u64, u32)> {
    let path = path(index, per_block(volume))?;
    let hole = match lookup(volume, inode, state, index)? {
        Mapped::Hole(len) => len.min(path.run).min(u64::from(most)) as u32,
        Mapped::Blocks { .. } => return Err(Error::Invalid("the block is mapped")),
    };
    let mut slot_at: Option<u64> = None;
    let mut pointer = u64::from(le32(&state.raw.block, path.slots[0] as usize * 4));
    let mut goal = goal;
    for level in 1..path.depth {
        if pointer == 0 {
            (pointer, _) = volume.allocate_blocks(handle, goal, 1)?;
            goal = pointer + 1;
            volume.change_new(handle, pointer, |_| ())?;
            state.add_blocks(volume, 1);
            set_slot(volume, handle, state, slot_at, (path.slots[level - 1], pointer))?;
        }
        volume.check_data_blocks(inode, pointer, 1)?;
        slot_at = Some(pointer);
        if level + 1 < path.depth {
            pointer = u64::from(volume.look(pointer, |table| le32(table, path.slots[level] as usize * 4))?);
        }
    }
    let (start, len) = volume.allocate_blocks(handle, goal, hole)?;
    let first = path.slots[path.depth - 1];
    match slot_at {
        None => (0..len).for_each(|step| {
            put32(&mut state.raw.block, (first + u64::from(step)) as usize * 4, start as u32 + step);
        }),
        Some(table) => volume.change(handle, table, |table| {
            (0..len)
                .for_each(|step| put32(table, (first + u64::from(step)) as usize * 4, start as u32 + step));
        })?,
    }
    Ok((start, len))
}

fn set_slot(
    volume: &Volume,
    handle: &Handle<'_>,
    state: &mut InodeState,
    table: Option<u64>,
    (slot, block): (u64, u64),
) -> Result<()> {
    match table {
        None => {
            put32(&mut state.raw.block, slot as usize * 4, block as u32);
            Ok(())
        }
        Some(table) => volume.change(handle, table, |table| put32(table, slot as usize * 4, block as u32)),
    }
}

/// Blocks that are freed in one transaction at most.
const STEP_BLOCKS: u64 = 4096;
/// Times that a transaction which frees blocks goes on to another group, at most: each touches a bitmap and a descriptor.
const STEP_GROUPS: u32 = 24;

/// Takes blocks away. Returns how many were freed, tables included, and whether all are gone.
pub(crate) fn remove(
    volume: &Volume,
    handle: &Handle<'_>,
    inode: &Inode,
    state: &mut InodeState,
    Range { start: from, end: to }: Range<u64>,
    metadata: bool,
) -> Result<(u64, bool)> {
    let mut work =
        Removal { volume, handle, inode, metadata, from, to, freed: 0, groups: 0, runs: Vec::new() };
    let mut root = state.raw.block;
    let per_block = per_block(volume);
    let mut start = DIRECT + per_block + per_block * per_block;
    for (slot, levels) in [(14_usize, 3_u32), (13, 2), (12, 1)] {
        let pointer = u64::from(le32(&root, slot * 4));
        if pointer != 0 && work.subtree(pointer, levels, start)? {
            put32(&mut root, slot * 4, 0);
            work.free(pointer, true)?;
        }
        if levels > 1 {
            start -= per_block.pow(levels - 1);
        }
    }
    for slot in (0..DIRECT).rev().filter(|slot| (from..to).contains(slot)) {
        let pointer = u64::from(le32(&root, slot as usize * 4));
        if pointer != 0 {
            put32(&mut root, slot as usize * 4, 0);
            work.free(pointer, metadata)?;
        }
    }
    work.flush()?;
    let (freed, done) = (work.freed, !work.is_full());
    state.raw.block = root;
    Ok((freed, done))
}

struct Removal<'a> {
    volume: &'a Volume,
    handle: &'a Handle<'a>,
    inode: &'a Inode,
    metadata: bool,
    from: u64,
    to: u64,
    freed: u64,
    /// Times that the blocks lay in another group than those before.
    groups: u32,
    /// Runs to be freed, each downwards from its end.
    runs: Vec<(u64, u32, bool)>,
}

impl Removal<'_> {
    fn is_full(&self) -> bool {
        self.freed >= STEP_BLOCKS || self.groups >= STEP_GROUPS
    }

    /// Takes away what the table at `table` maps, which begins at block `start` of the file; true if the table is empty then.
    fn subtree(&mut self, table: u64, levels: u32, start: u64) -> Result<bool> {
        self.volume.check_data_blocks(self.inode, table, 1)?;
        let per_block = per_block(self.volume);
        let span = per_block.pow(levels - 1);
        if start >= self.to || start + per_block * span <= self.from {
            return Ok(false);
        }
        let mut pointers: Vec<u32> = self
            .volume
            .look(table, |table| ran::collected((0..per_block as usize).map(|slot| le32(table, slot * 4))))?;
        let mut changed = false;
        for slot in (0..pointers.len()).rev() {
            let (pointer, first) = (u64::from(pointers[slot]), start + slot as u64 * span);
            if pointer == 0 || first >= self.to || first + span <= self.from || self.is_full() {
                continue;
            }
            let gone = levels == 1 || self.subtree(pointer, levels - 1, first)?;
            if gone {
                pointers[slot] = 0;
                changed = true;
                self.free(pointer, levels > 1 || self.metadata)?;
            }
        }
        let empty = pointers.iter().all(|pointer| *pointer == 0);
        if changed && !empty {
            self.volume.change(self.handle, table, |table| {
                pointers.iter().enumerate().for_each(|(slot, pointer)| put32(table, slot * 4, *pointer));
            })?;
        }
        Ok(empty)
    }

    fn free(&mut self, block: u64, metadata: bool) -> Result<()> {
        self.volume.check_data_blocks(self.inode, block, 1)?;
        self.freed += 1;
        let group = |block| self.volume.geo.group_of(block).0;
        if self.runs.last().is_none_or(|(start, ..)| group(*start) != group(block)) {
            self.groups += 1;
        }
        match self.runs.last_mut() {
            Some((start, len, kind)) if *start == block + 1 && *kind == metadata => {
                (*start, *len) = (block, *len + 1);
            }
            _ => ran::push(&mut self.runs, (block, 1, metadata)),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        for (start, len, metadata) in std::mem::take(&mut self.runs) {
            self.volume.free_blocks(self.handle, start, len, metadata)?;
        }
        Ok(())
    }
}

/// Makes a map of these blocks without holes, with tables at these places, of which it takes as many as it needs from the first on;
/// returns how many. The caller writes the inode.
pub(crate) fn lay_out(
    volume: &Volume,
    handle: &Handle<'_>,
    state: &mut InodeState,
    blocks: &[u32],
    tables: &[u64],
) -> Result<usize> {
    let (per_block, mut used) = (per_block(volume) as usize, 0);
    state.raw.block.fill(0);
    let (direct, mut rest) = blocks.split_at(blocks.len().min(DIRECT as usize));
    direct.iter().enumerate().for_each(|(slot, block)| put32(&mut state.raw.block, slot * 4, *block));
    for levels in 1..=3_u32 {
        let (here, behind) = rest.split_at(rest.len().min(per_block.pow(levels)));
        rest = behind;
        let mut below = ran::collected(here.iter().copied());
        for _ in 0..levels {
            let mut above = Vec::new();
            for some in below.chunks(per_block) {
                let table = *tables.get(used).ok_or(Error::NoSpace)?;
                used += 1;
                volume.change_new(handle, table, |bytes| {
                    some.iter().enumerate().for_each(|(slot, block)| put32(bytes, slot * 4, *block));
                })?;
                ran::push(&mut above, table as u32);
            }
            below = above;
        }
        if let Some(table) = below.first() {
            put32(&mut state.raw.block, (DIRECT as usize + levels as usize - 1) * 4, *table);
        }
    }
    Ok(used)
}

/// Shows everything that a file's map leads to.
pub(crate) fn visit(
    volume: &Volume,
    state: &InodeState,
    seen: &mut dyn FnMut(Visited) -> Result<()>,
) -> Result<()> {
    let per_block = per_block(volume);
    let pointer = |slot: usize| u64::from(le32(&state.raw.block, slot * 4));
    for slot in (0..DIRECT).filter(|slot| pointer(*slot as usize) != 0) {
        seen(Visited::Data(slot, Run::new(pointer(slot as usize), 1), false))?;
    }
    let mut open = Vec::new();
    let mut start = DIRECT;
    for levels in 1..=3_u32 {
        let table = pointer(DIRECT as usize + levels as usize - 1);
        if table != 0 {
            open.push((table, levels, start));
        }
        start += per_block.pow(levels);
    }
    while let Some((table, levels, start)) = open.pop() {
        seen(Visited::Map(table))?;
        let pointers: Vec<u32> = volume
            .look(table, |table| ran::collected((0..per_block as usize).map(|slot| le32(table, slot * 4))))?;
        let span = per_block.pow(levels - 1);
        for (slot, pointer) in pointers.into_iter().enumerate().filter(|(_, pointer)| *pointer != 0) {
            let (pointer, first) = (u64::from(pointer), start + slot as u64 * span);
            match levels {
                1 => seen(Visited::Data(first, Run::new(pointer, 1), false))?,
                _ => open.push((pointer, levels - 1, first)),
            }
        }
    }
    Ok(())
}
