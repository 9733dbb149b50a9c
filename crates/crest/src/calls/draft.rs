//! Changes of the blocks of a file that do not count yet, and their records.

use sim::{ByteRun, ran};
use smallvec::{SmallVec, smallvec};

use crate::format::layout::{BLOCK, EXTENT_BLOCKS_MAX, EXTENT_BYTES, RECORD_LINES_MAX};
use crate::format::mutant;
use crate::format::record::{Body, Cut, Extent, Extents, Hole, Record, Write, group};
use crate::format::zone::Want;
use crate::index::Index;
use crate::index::inode::{Changing, State, now};
use crate::index::map::{BlockMap, Place};
use crate::index::sums;
use crate::parts;
use crate::store::alloc::{Blocks, Taken, push};
use crate::store::log::{Call, Ticket};
use base::error::{Error, Result};

/// Blocks that a record has made free.
#[derive(Default)]
pub(crate) struct Freed(pub(crate) SmallVec<[Blocks; 2]>);

impl Freed {
    pub(crate) fn add(&mut self, block: u64) {
        match self.0.last_mut() {
            Some(run) if run.first + run.count == block => run.count += 1,
            _ => push(&mut self.0, Blocks { first: block, count: 1 }),
        }
    }
}

/// A change of the blocks of one file that does not count yet.
pub(crate) struct Draft<'v> {
    pub(crate) index: &'v Index,
    pub(crate) taken: Taken<'v>,
    pub(crate) extents: Extents,
    /// Data that was stored, on the medium.
    pub(crate) stored: SmallVec<[ByteRun; 2]>,
    /// Whether all that was stored is fenced.
    pub(crate) fenced: bool,
    /// The size that the records say before.
    pub(crate) durable: u64,
    /// Blocks that get places.
    pub(crate) blocks: u64,
    /// Size of the file at the end; of data that was stored ahead, where that ends.
    pub(crate) size: u64,
    pub(crate) time: u64,
    /// Whether it makes durable what the file has in frames, so that size and times are those of the file already.
    pub(crate) settles: bool,
    /// Whether only places change, and neither bytes nor times.
    pub(crate) moves: bool,
    /// Blocks of the file that it replaces, which did not count as one with those that replace them.
    pub(crate) beside: Vec<u64>,
}

/// The records of a call: mostly one.
pub(crate) type Records = SmallVec<[Record; 1]>;

/// The records of a change of a file: a cut stands for the write if there is no more to say.
pub(crate) fn records(ticket: &Ticket, write: &Write, more: &[Body], cuts: bool) -> Records {
    if more.is_empty() && !cuts && write.extents.len() <= 1 {
        let checked = write.extents.iter().filter(|extent| !extent.checksums.is_empty()).count();
        ran::allocate(checked as u64);
        return smallvec![Record::alone(ticket.id, Body::Write(write.clone()))];
    }
    let mut bodies = Vec::with_capacity(1 + more.len());
    ran::allocate(3 + u64::from(!write.extents.is_empty()));
    let says_nothing = write.extents.is_empty() && write.size.is_none();
    let has_time = more.iter().any(|body| matches!(body, Body::Hole(_) | Body::Cut(_)));
    if !(says_nothing && (cuts || has_time)) {
        let records = write.clone().split(ticket.id, RECORD_LINES_MAX);
        ran::allocate(records.len() as u64 * 2);
        bodies.extend(records.into_iter().map(|record| record.body));
    }
    let before = ticket.before;
    bodies.extend(more.iter().map(|body| match body {
        Body::Hole(hole) => Body::Hole(Hole { before, ..hole.clone() }),
        Body::Cut(cut) => Body::Cut(Cut { before, ..cut.clone() }),
        other => other.clone(),
    }));
    group(ticket.id, bodies).into()
}

/// The changes of blocks that the extents of a record have made.
#[derive(Default)]
pub(crate) struct Published {
    /// Blocks that the file had before.
    pub(crate) freed: Freed,
    /// Blocks that another file has, too.
    cloned: Freed,
    /// Blocks of the file that have kept their places.
    kept: u64,
}

/// Takes the places of blocks in holes and behind cuts; each is given to `gone`.
fn unmap(blocks: &mut BlockMap, records: &[Body], mut gone: impl FnMut(Place)) {
    for body in records {
        match body {
            Body::Hole(hole) => {
                let (mut at, end) = (hole.from, hole.from + hole.count);
                while at < end {
                    match blocks.set(at, None) {
                        Some(place) => {
                            gone(place);
                            at += 1;
                        }
                        // The space between runs, which may be large.
                        None => at = blocks.next_mapped(at).unwrap_or(end),
                    }
                }
            }
            Body::Cut(cut) => blocks.cut(cut.size.div_ceil(BLOCK), &mut gone),
            _ => {}
        }
    }
}

impl Index {
    /// Gives the blocks of extents, whose record of this logical time counts, their places by `set`, which answers the places
    /// that they had.
    pub(crate) fn publish(
        &self,
        extents: &[Extent],
        time: u64,
        mut set: impl FnMut(u64, Place) -> Option<Place>,
    ) -> Published {
        let mut done = Published::default();
        for extent in extents {
            for at in 0..u64::from(extent.count) {
                let place = Place { block: extent.place + at, unwritten: extent.unwritten };
                self.zones.place(place.block, (!extent.cloned).then_some(time));
                let old = set(extent.file + at, place);
                if old.is_some_and(|old| old.block == place.block) {
                    done.kept += 1;
                    continue;
                }
                if let Some(old) = old {
                    self.moved(old.block, place.block);
                    done.freed.add(old.block);
                }
                if extent.cloned {
                    done.cloned.add(place.block);
                }
            }
        }
        done
    }

    /// Frees blocks to which nothing durable leads any more.
    pub(crate) fn free(&self, freed: &Freed) {
        freed.0.iter().for_each(|run| {
            self.freed(*run);
            self.zones.put(*run);
        });
    }
}

impl<'v> Draft<'v> {
    /// Of nothing yet; the records say this size.
    pub(crate) fn new(index: &'v Index, durable: u64) -> Self {
        let (extents, stored, size) = (Extents::new(), SmallVec::new(), durable);
        Self {
            index,
            taken: Taken::new(&index.zones),
            extents,
            stored,
            fenced: true,
            durable,
            blocks: 0,
            size,
            time: 0,
            settles: false,
            moves: false,
            beside: Vec::new(),
        }
    }

    /// Of a file that is locked, at a time of now.
    pub(crate) fn of(index: &'v Index, file: &State) -> Self {
        let draft = Self::new(index, file.durable_size());
        Self { size: file.size, time: file.stamp(now()), ..draft }
    }

    /// Blocks of the file get places.
    pub(crate) fn map(&mut self, file: u64, place: u64, count: u64, unwritten: bool) {
        self.place(file, place, count, &Extent { unwritten, ..Extent::default() });
    }

    /// Blocks of the file get those that another file has, or another part of this one.
    pub(crate) fn map_cloned(&mut self, file: u64, place: u64, count: u64) {
        self.place(file, place, count, &Extent { cloned: true, ..Extent::default() });
    }

    /// Blocks of the file get places, as an extent of this kind.
    fn place(&mut self, file: u64, place: u64, count: u64, like: &Extent) {
        let mut done = 0;
        self.blocks += count;
        if let Some(last) = self.extents.last_mut()
            && (last.unwritten, last.cloned) == (like.unwritten, like.cloned)
            && last.file + u64::from(last.count) == file
            && last.place + u64::from(last.count) == place
        {
            done = count.min(u64::from(EXTENT_BLOCKS_MAX - last.count));
            last.count += done as u16;
        }
        while done < count {
            let part = (count - done).min(u64::from(EXTENT_BLOCKS_MAX));
            let (file, place) = (file + done, place + done);
            let extent = Extent { file, place, count: part as u16, ..like.clone() };
            push(&mut self.extents, extent);
            done += part;
        }
    }
    /// Takes at most `most` neighbouring blocks.
    pub(crate) fn take(&mut self, most: u64) -> Result<Blocks> {
        let extents_max = self.index.extents_max();
        if self.extents.len() >= extents_max {
            return Err(Error::NoSpace);
        }
        // Checksums take their part of the records of a call.
        let room = ((extents_max - self.extents.len()) * EXTENT_BYTES) as u64 / sums::BYTES;
        let most = if self.index.sums.are_on() { most.min(room.saturating_sub(self.blocks)) } else { most };
        if most == 0 {
            return Err(Error::NoSpace);
        }
        let blocks = self.index.take_blocks(most)?;
        self.taken.add(blocks);
        Ok(blocks)
    }

    /// Stores data past the cache; fenced with the rest.
    pub(crate) fn store(&mut self, at: u64, data: &[u8]) -> Result<()> {
        let _part = sim::part(&parts::DATA);
        if self.index.losses.is_read_only() {
            return Err(Error::ReadOnly);
        }
        if !data.is_empty() {
            self.index.region.nt_store(at, data)?;
            self.index.stored(at, data);
            push(&mut self.stored, ByteRun::new(at, data.len() as u64));
            self.fenced = false;
        }
        Ok(())
    }

    /// Stores whole blocks; fenced with the rest.
    pub(crate) fn store_whole(&mut self, first: u64, data: &[u8]) -> Result<()> {
        self.index.filled(first, data);
        self.store(first * BLOCK, data)
    }

    /// Fences what was stored (R3).
    pub(crate) fn fence_data(&mut self) {
        if !self.fenced && !self.index.rules.lacks(mutant::DATA_UNFENCED) {
            let _part = sim::part(&parts::DATA);
            self.index.region.fence();
        }
        self.fenced = true;
    }

    /// Makes it count, whole, with further records beside its extents; nothing of it does when this fails.
    pub(crate) fn commit(mut self, file: &mut Changing<'_>, want: Want, more: &[Body]) -> Result<()> {
        self.fence_data();
        let Self { index, taken, extents, stored, durable, size, time, settles, moves, beside, .. } = self;
        let extents = index.sums.with_sums(extents);
        let cuts = size < file.size && !settles;
        let (grown, changed) = ((size > durable).then_some(size), (!moves).then_some(time));
        let write = Write { ino: file.ino, extents, size: grown, time: changed };
        let call = Call { want, after: file.last, makes: false, needs: &stored };
        let done = index.commit(call, |ticket| records(ticket, &write, more, cuts))?;
        taken.keep();
        let _part = sim::part(&parts::PUBLISH);
        file.last = done.time();
        let blocks = file.blocks_mut()?;
        let mut published =
            index.publish(&write.extents, done.time(), |at, place| blocks.set(at, Some(place)));
        unmap(blocks, more, |old| published.freed.add(old.block));
        index.zones.change_inlines(blocks.take_change());
        if published.kept > 0 {
            index.zones.note_gone(published.kept);
        }
        if !settles && !moves {
            file.size = size;
            file.data_changed(time);
        }
        for body in more {
            file.apply(body);
        }
        // First, so that a block that goes and comes at once stays in use.
        published.cloned.0.iter().for_each(|run| index.zones.add_clones(*run));
        match settles {
            true => published.freed.0.iter().for_each(|run| {
                index.freed(*run);
                index.zones.put_replaced(*run, &beside);
            }),
            false => index.free(&published.freed),
        }
        Ok(())
    }
}
