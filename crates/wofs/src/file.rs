//! Reading and changing the contents of files.
//!
//! | change | stores | fences |
//! |---|---|---|
//! | append within blocks that the newest DATA has | bytes in their place; the patched size, one word | 2 |
//! | any other write | bytes in new blocks, with what the first and last block had besides; a DATA for each piece | 2 |
//! | size | an ATTR | 1 |
//!
//! Before a size grows by more than a patch, zeros are stored from it to the end of its block, unless they are known to be there.
//! A crash may have left bytes of an append there, and a cut leaves what it has cut off.

use ::vfs::IoFlags;
use media::event::Mark;
use sim::{ByteRun, Run, ran};

use crate::alloc::Slot;
use crate::inode::{Body, Contents, Inode, Setter, State, now};
use crate::layout::{BLOCK, FILE_MAX, Kind, PATCH, PIECES_MAX, UNIT};
use crate::map::Piece;
use crate::mutant;
use crate::package::{Attr, Data, Package, patch_of};
use crate::parts;
use crate::vfs::Wofs;
use base::error::{Error, Result};

/// Where bytes go, in the file and on the device.
struct Plan {
    first: u64,
    /// Blocks of the device.
    pieces: Vec<Run>,
    /// Blocks behind the last piece, for appends to come.
    more: u64,
}

impl Wofs {
    /// Reads bytes of a file; returns how many.
    pub(crate) fn read_bytes(&self, contents: &Contents, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let len = contents.size.saturating_sub(offset).min(buffer.len() as u64);
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let (block, within) = (at / BLOCK, at % BLOCK);
            let (piece, run) = match contents.map.find(block) {
                Some(piece) => (Some(piece), piece.blocks * BLOCK),
                None => (
                    None,
                    contents
                        .map
                        .next_from(block)
                        .unwrap_or(u64::MAX / BLOCK)
                        .saturating_sub(block)
                        .saturating_mul(BLOCK),
                ),
            };
            let take = (run - within).min(len - done);
            let part = &mut buffer[done as usize..(done + take) as usize];
            match piece {
                Some(piece) => {
                    self.traffic.read(|| self.region.load(piece.block * BLOCK + within, part))?;
                }
                None => {
                    part.fill(0);
                    sim::copy(take);
                }
            }
            done += take;
        }
        Ok(len as usize)
    }

    /// Writes bytes; returns where they begin.
    pub(crate) fn write_bytes(&self, inode: &Inode, offset: u64, data: &[u8], flags: IoFlags) -> Result<u64> {
        let mut state = inode.write_used()?;
        let contents = state.contents()?;
        let offset = if flags.contains(IoFlags::APPEND) { contents.size } else { offset };
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > FILE_MAX) {
            return Err(Error::TooLarge);
        }
        if data.is_empty() {
            return Ok(offset);
        }
        if state.named && self.append_in_place(inode, &mut state, offset, data)? {
            return Ok(offset);
        }
        self.write_anew(inode, &mut state, offset, data)?;
        state.contents_mut()?.written_to = offset + data.len() as u64;
        Ok(offset)
    }

    /// Appends to blocks that the newest DATA has, if it has them: nothing but its size changes.
    fn append_in_place(&self, inode: &Inode, state: &mut State, offset: u64, data: &[u8]) -> Result<bool> {
        let contents = state.contents()?;
        let (size, end) = (contents.size, offset + data.len() as u64);
        let Some(setter) = contents.setter.filter(|_| offset == size) else { return Ok(false) };
        let (first, last) = (size / BLOCK, (end - 1) / BLOCK);
        let begun = contents.map.find(first).map(|piece| piece.from);
        let is_own = (setter.first..setter.first + setter.blocks).contains(&first)
            && begun.is_none_or(|from| from == setter.vtail);
        if !is_own || last >= setter.first + setter.blocks {
            return Ok(false);
        }
        let fresh = size.div_ceil(BLOCK)..last + 1;
        let on_device = |block: u64| setter.block + (block - setter.first);
        let claimed = on_device(fresh.start)..on_device(fresh.end.max(fresh.start));
        if !self.space.lock().claim(inode.key, setter.vtail, claimed.clone()) {
            return Ok(false);
        }
        let to = setter.block * BLOCK + (size - setter.first * BLOCK);
        let stored = self.store_append((to, data), (setter, end));
        if let Err(error) = stored {
            state.contents_mut()?.tail_is_zero = false;
            self.space.lock().unclaim(inode.key, &claimed);
            return Err(error);
        }
        let more = claimed.end - claimed.start;
        let now = now();
        // The patch has no room for the time: an unmount stores it.
        (state.attributes.mtime, state.attributes.ctime, state.times_at_risk) = (now, now, true);
        let contents = state.contents_mut()?;
        contents.tail_is_zero = end % BLOCK == 0 || fresh.is_empty() && contents.tail_is_zero;
        contents.size = end;
        contents.map.put(fresh.start, Piece { block: claimed.start, blocks: more, from: setter.vtail });
        Self::index(more);
        self.space.lock().patched(inode.key, setter.vtail, end, more);
        Ok(true)
    }

    fn store_append(&self, (to, data): (u64, &[u8]), (setter, size): (Setter, u64)) -> Result<()> {
        let copied = self.traffic.write(data.len() as u64, true, || {
            let _part = sim::part(&parts::COPY);
            self.region.nt_store(to, data).map(|()| self.region.fence())
        });
        copied?;
        let _part = sim::part(&parts::PATCHED);
        let word = setter.place + PATCH;
        self.region.mark(Mark::Commit { at: word, needs: &[ByteRun::new(to, data.len() as u64)] });
        self.region.store_u64(word, patch_of(setter.vtail, size))?;
        self.region.flush(word, 8);
        self.region.fence();
        Ok(())
    }

    /// Writes to new blocks.
    fn write_anew(&self, inode: &Inode, state: &mut State, offset: u64, data: &[u8]) -> Result<()> {
        let contents = state.contents()?;
        let (size, end) = (contents.size, offset + data.len() as u64);
        let (first, last) = (offset / BLOCK, (end - 1) / BLOCK);
        let more =
            if offset == size && state.named { self.extend.saturating_sub(last + 1 - first) } else { 0 };
        let (pieces, more) = self.take_blocks(last + 1 - first, more)?;
        let plan = Plan { first, pieces, more };
        let slots = match self.store_plan(inode, state, &plan, (offset, data)) {
            Ok(slots) => slots,
            Err(error) => {
                let mut space = self.space.lock();
                for Run { first: block, count: blocks } in &plan.pieces {
                    space.put(*block, *blocks);
                }
                if let Some(Run { first: block, count: blocks }) = plan.pieces.last() {
                    space.put(block + blocks, plan.more);
                }
                return Err(error);
            }
        };
        self.publish(inode, state, &plan, (end.max(size), slots))
    }

    /// Stores the data of a plan, and the packages; returns these.
    fn store_plan(
        &self,
        inode: &Inode,
        state: &State,
        plan: &Plan,
        (offset, data): (u64, &[u8]),
    ) -> Result<Vec<(Slot, Data)>> {
        let contents = state.contents()?;
        let in_turn = offset == contents.written_to;
        let stored = self.traffic.write(data.len() as u64, in_turn, || {
            let mut stored = self.store_data(contents, plan, (offset, data))?;
            self.store_tail(contents, offset, plan.first, &mut stored)?;
            if !self.rules.lacks(mutant::DATA_PACKAGE_FIRST) {
                self.region.fence();
            }
            Ok::<_, Error>(stored)
        })?;
        if !state.named {
            return Ok(Vec::new());
        }
        if plan.pieces.len() > PIECES_MAX {
            return Err(Error::NoSpace);
        }
        let _part = sim::part(&parts::PACKAGE);
        let mut slots = Vec::new();
        let taken = plan
            .pieces
            .iter()
            .try_for_each(|_| self.take(Kind::Data).map(|slot| ran::push(&mut slots, slot)));
        let size = contents.size.max(offset + data.len() as u64);
        let all = self.packages(inode, plan, (size, &slots));
        let done = taken.and_then(|()| self.store_packages(&all, &stored));
        if let Err(error) = done {
            let mut space = self.space.lock();
            for slot in slots {
                space.give_back(slot);
            }
            return Err(error);
        }
        Ok(all)
    }

    fn packages(&self, inode: &Inode, plan: &Plan, (size, slots): (u64, &[Slot])) -> Vec<(Slot, Data)> {
        let count = slots.len() as u64;
        let vtail = self.numbers(count.max(1));
        let (mut first, time) = (plan.first, now());
        let one = |(index, (slot, Run { first: block, count: blocks })): (u64, (&Slot, &Run))| {
            let more = if index + 1 == count { plan.more } else { 0 };
            let data = Data {
                vtail: vtail + index,
                key: inode.key,
                first,
                block: *block,
                blocks: blocks + more,
                size,
                time,
                index: index as u16,
                count: count as u16,
            };
            first += blocks;
            (*slot, data)
        };
        ran::collected((0..).zip(slots.iter().zip(&plan.pieces)).map(one))
    }

    fn store_packages(&self, all: &[(Slot, Data)], needs: &[ByteRun]) -> Result<()> {
        for (slot, data) in all {
            let bytes = Package::Data(*data).encode(self.rules);
            self.region.mark(Mark::CommitBlock { at: slot.place, needs });
            self.region.store(slot.place, &bytes)?;
            self.region.flush(slot.place, UNIT);
        }
        self.region.fence();
        Ok(())
    }

    /// Stores the bytes of a write and what its first and last block had besides; returns where.
    fn store_data(
        &self,
        contents: &Contents,
        plan: &Plan,
        (offset, data): (u64, &[u8]),
    ) -> Result<Vec<ByteRun>> {
        let _part = sim::part(&parts::COPY);
        let end = offset + data.len() as u64;
        let mut stored = Vec::new();
        let mut at = plan.first;
        for Run { first: block, count: blocks } in &plan.pieces {
            let (from, to) = (at * BLOCK, (at + blocks) * BLOCK);
            let whole = (from.max(offset.next_multiple_of(BLOCK)), to.min(end / BLOCK * BLOCK));
            let edges = [(from, whole.0.min(to)), (whole.1.max(whole.0.min(to)), to)];
            for (start, stop) in edges.into_iter().filter(|(start, stop)| start < stop) {
                for edge in (start..stop).step_by(BLOCK as usize) {
                    let bytes = self.edge(contents, edge, (offset, data))?;
                    self.region.nt_store(block * BLOCK + (edge - from), &bytes)?;
                }
            }
            if whole.0 < whole.1 {
                let part = &data[(whole.0 - offset) as usize..(whole.1 - offset) as usize];
                self.region.nt_store(block * BLOCK + (whole.0 - from), part)?;
            }
            ran::push(&mut stored, ByteRun::new(block * BLOCK, blocks * BLOCK));
            at += blocks;
        }
        Ok(stored)
    }

    /// A block of which a write changes a part. Only the rest is read, so that a write heals a line that cannot be read.
    fn edge(&self, contents: &Contents, start: u64, (offset, data): (u64, &[u8])) -> Result<Vec<u8>> {
        let mut bytes = ran::zeroed(BLOCK as usize);
        let old = contents.size.saturating_sub(start).min(BLOCK);
        let (from, to) = (offset.max(start), (offset + data.len() as u64).min(start + BLOCK));
        let changed = if from < to { (from - start, to - start) } else { (old, old) };
        for (first, end) in [(0, changed.0.min(old)), (changed.1, old)] {
            if first < end {
                self.read_bytes(contents, start + first, &mut bytes[first as usize..end as usize])?;
            }
        }
        if from < to {
            bytes[changed.0 as usize..changed.1 as usize]
                .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
            sim::copy(to - from);
        }
        Ok(bytes)
    }

    /// Stores zeros behind the size of a file that is about to grow beyond the block of its end, and not by that block anew.
    fn store_tail(
        &self,
        contents: &Contents,
        offset: u64,
        first: u64,
        stored: &mut Vec<ByteRun>,
    ) -> Result<()> {
        if offset > contents.size && first > contents.size / BLOCK {
            ran::extend(stored, self.zero_tail(contents)?);
        }
        Ok(())
    }

    /// Stores zeros from the size of a file to the end of its block, unless they are there; durable after a fence.
    fn zero_tail(&self, contents: &Contents) -> Result<Option<ByteRun>> {
        let within = contents.size % BLOCK;
        if within == 0 || contents.tail_is_zero || self.rules.lacks(mutant::TAIL_NOT_ZEROED) {
            return Ok(None);
        }
        let Some(piece) = contents.map.find(contents.size / BLOCK) else { return Ok(None) };
        let tail = ByteRun::new(piece.block * BLOCK + within, BLOCK - within);
        self.region.nt_zero(tail.at, tail.len)?;
        Ok(Some(tail))
    }

    /// Takes the time in which the published code sets so many blocks of a file's index, which it does one by one.
    fn index(blocks: u64) {
        (0..blocks).for_each(|_| drop(sim::part(&parts::INDEX)));
    }

    /// Takes the time in which the published code frees so many blocks of a file.
    pub(crate) fn free_blocks(blocks: u64) {
        (0..blocks).for_each(|_| drop(sim::part(&parts::FREE_BLOCK)));
    }

    /// Changes what DRAM has of a file by a write that is durable.
    fn publish(
        &self,
        inode: &Inode,
        state: &mut State,
        plan: &Plan,
        (size, all): (u64, Vec<(Slot, Data)>),
    ) -> Result<()> {
        let _part = sim::part(&parts::CLAIM);
        plan.pieces.iter().for_each(|run| Self::index(run.count));
        let now = all.first().map_or_else(now, |(_, data)| data.time);
        (state.attributes.mtime, state.attributes.ctime, state.times_at_risk) = (now, now, false);
        let contents = state.contents_mut()?;
        let (mut replaced, mut first) = (Vec::new(), plan.first);
        for (at, Run { first: block, count: blocks }) in plan.pieces.iter().enumerate() {
            let from = all.get(at).map_or(0, |(_, data)| data.vtail);
            ran::extend(
                &mut replaced,
                contents.map.put(first, Piece { block: *block, blocks: *blocks, from }),
            );
            first += blocks;
        }
        // The block of the end was written whole, with zeros behind it.
        contents.tail_is_zero |= (plan.first..first).contains(&(size / BLOCK));
        contents.size = size;
        let setter = |(slot, data): &(Slot, Data)| {
            let Data { vtail, first, block, blocks, .. } = *data;
            Setter { vtail, place: slot.place, first, block, blocks }
        };
        contents.setter = all.last().map(setter);
        let live =
            |data: &Data, at: usize| if at + 1 == all.len() { data.blocks - plan.more } else { data.blocks };
        let with_live =
            ran::collected(all.iter().enumerate().map(|(at, (slot, data))| (*slot, *data, live(data, at))));
        let mut space = self.space.lock();
        if state.named {
            space.written(inode.key, &with_live, &replaced);
        } else {
            space.lost(inode.key, &replaced);
        }
        Ok(())
    }

    /// Stores the attributes of an inode with a new size, or the old one.
    pub(crate) fn store_attributes(&self, inode: &Inode, state: &mut State, size: Option<u64>) -> Result<()> {
        let old = state.size();
        let new = size.unwrap_or(old);
        if new > FILE_MAX {
            return Err(Error::TooLarge);
        }
        if new > old && self.zero_tail(state.contents()?)?.is_some() {
            self.region.fence();
        }
        let stored = if state.named { Some(self.store_attr(inode, state, new)?) } else { None };
        let mut cut = Vec::new();
        if size.is_some() {
            let contents = state.contents_mut()?;
            cut = contents.map.take(new.div_ceil(BLOCK)..u64::MAX);
            let blocks = cut.iter().map(|piece| piece.blocks).sum();
            let _part = (blocks > 0).then(|| sim::part(&parts::CLAIM));
            Self::index(blocks);
            Self::free_blocks(blocks);
            // A block behind the old end is a hole.
            contents.tail_is_zero =
                new > old || new.is_multiple_of(BLOCK) || new == old && contents.tail_is_zero;
            contents.size = new;
        }
        if let Body::File(contents) = &mut state.body
            && stored.is_some()
            && !self.rules.lacks(mutant::PATCHED_AFTER_TRUNCATE)
        {
            contents.setter = None;
        }
        let mut space = self.space.lock();
        match stored {
            Some((slot, attr)) => space.changed(inode.key, slot, &attr, &cut),
            None => space.lost(inode.key, &cut),
        }
        Ok(())
    }

    fn store_attr(&self, inode: &Inode, state: &State, size: u64) -> Result<(Slot, Attr)> {
        let slot = self.take(Kind::Attr)?;
        let attr = Attr { vtail: self.numbers(1), key: inode.key, attributes: state.attributes, size };
        let _part = sim::part(&parts::PATCHED);
        let bytes = Package::Attr(attr).encode(self.rules);
        self.region.mark(Mark::CommitBlock { at: slot.place, needs: &[] });
        if let Err(error) = self.region.store(slot.place, &bytes) {
            self.space.lock().give_back(slot);
            return Err(error.into());
        }
        self.region.flush(slot.place, UNIT);
        self.region.fence();
        Ok((slot, attr))
    }
}
