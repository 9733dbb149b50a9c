//! Changes of the blocks of a file that do not count yet, and their records.

use sim::ran;

use crate::format::layout::{EXTENT_BLOCKS_MAX, RECORD_LINES_MAX};
use crate::format::record::{Body, Cut, Extent, Hole, Record, Write, group};
use crate::store::alloc::{Blocks, Taken};
use crate::store::log::Ticket;

/// Blocks that a record has made free.
#[derive(Default)]
pub(crate) struct Freed(pub(crate) Vec<Blocks>);

impl Freed {
    pub(crate) fn add(&mut self, block: u64) {
        match self.0.last_mut() {
            Some(run) if run.first + run.count == block => run.count += 1,
            _ => ran::push(&mut self.0, Blocks { first: block, count: 1 }),
        }
    }
}

/// A change of the blocks of one file that does not count yet.
pub(crate) struct Draft<'v> {
    pub(crate) taken: Taken<'v>,
    pub(crate) extents: Vec<Extent>,
    /// Data that was stored: offset and length on the medium.
    pub(crate) stored: Vec<(u64, u64)>,
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

/// The records of a change of a file: a cut stands for the write if there is no more to say.
pub(crate) fn records(ticket: &Ticket, write: &Write, more: &[Body], cuts: bool) -> Vec<Record> {
    if more.is_empty() && !cuts && write.extents.len() <= 1 {
        let checked = write.extents.iter().filter(|extent| !extent.checksums.is_empty()).count();
        ran::allocate((1 + write.extents.len() + checked) as u64);
        return vec![Record::alone(ticket.id, Body::Write(write.clone()))];
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
    group(ticket.id, bodies)
}

impl<'v> Draft<'v> {
    /// Of nothing yet; the records say this size.
    pub(crate) fn new(taken: Taken<'v>, durable: u64) -> Self {
        let (extents, stored, size) = (Vec::new(), Vec::new(), durable);
        Self {
            taken,
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

    /// Blocks of the file get places.
    pub(crate) fn map(&mut self, file: u64, place: u64, count: u64, unwritten: bool) {
        self.place(file, place, count, &Extent { unwritten, ..Extent::default() });
    }

    /// Blocks of the file get those that another file has, or another part of this one.
    pub(crate) fn share(&mut self, file: u64, place: u64, count: u64) {
        self.place(file, place, count, &Extent { shared: true, ..Extent::default() });
    }

    /// Blocks of the file get places, as an extent of this kind.
    fn place(&mut self, file: u64, place: u64, count: u64, like: &Extent) {
        let mut done = 0;
        self.blocks += count;
        if let Some(last) = self.extents.last_mut()
            && (last.unwritten, last.shared) == (like.unwritten, like.shared)
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
            ran::push(&mut self.extents, extent);
            done += part;
        }
    }
}
