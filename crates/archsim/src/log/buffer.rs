//! The log buffer: a FIFO of lines between the caches and the write queue, and the registers `head` and `tail`.
//!
//! Records are packed into lines, which leave when they are full, or as they are when a commit or a data line waits for them
//! (the rest of such a line follows as a line of its own). With `log_coalesce = first` and redo records, lines stay until they are
//! waited for or the next record needs their room, so that later stores of a transaction change the record that is there.
//! The superblock, which mirrors `head`, goes the same way, so that it
//! is durable before any record that reuses the space that it frees.

use std::collections::VecDeque;

use super::record::{Area, Format, Kind, MOST_WORDS, Record};
use crate::machine::{LINE, Machine, Ps};
use crate::memory::Cause;
use crate::memory::controller::{Controller, Done, Write};
use crate::op::Op;

/// A line of the buffer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    line: u64,
    mask: u8,
    data: [u64; 8],
    /// Position up to which records are complete with this line; 0 if none ends in it.
    end: u64,
    /// Position of its first word; `u64::MAX` for the superblock, which leaves in its turn.
    start: u64,
    entered: Ps,
}

/// A log under way.
#[derive(Clone, Debug)]
pub struct LogBuffer {
    /// Layout.
    pub format: Format,
    /// Where the log goes on.
    area: Area,
    lines: VecDeque<Entry>,
    /// Ends of the records that have not left whole.
    ends: VecDeque<u64>,
    /// Records that it holds.
    capacity: usize,
    cycle: Ps,
    last_pop: Ps,
    demand: u64,
    /// Position after the newest record.
    pub tail: u64,
    /// Position before which nothing is needed any more.
    pub head: u64,
    head_mirrored: u64,
    /// Records that may be amended; kept for schemes that do.
    recent: Vec<(u64, Record)>,
    /// Records from which on the first one leaves: with more than that the next has no room.
    hold: Option<usize>,
    /// Records after a reuse until the superblock follows; zero but in a mutant.
    late: u32,
    owed: Option<u32>,
    /// Whether the words of records are kept, which only crashes need.
    pub values: bool,
    /// Lines that have left, with the times of entering and leaving; kept for a timeline.
    pub left: Option<Vec<(u64, Ps, Ps)>>,
    /// Bytes appended while measuring.
    pub bytes: u64,
    /// Superblocks written.
    pub superblocks: u64,
}

impl LogBuffer {
    /// An empty log.
    pub fn new(format: Format, machine: &Machine, late_superblock: bool) -> Self {
        let capacity = machine.log_buffer as usize;
        Self {
            hold: (machine.log_coalesce == 1 && format.redo && capacity > 1).then(|| capacity - 1),
            area: format.area(),
            format,
            lines: VecDeque::with_capacity(3 * capacity + 8),
            ends: VecDeque::with_capacity(capacity + 1),
            capacity,
            cycle: machine.cycle(),
            last_pop: 0,
            demand: 0,
            tail: 0,
            head: 0,
            head_mirrored: 0,
            late: if late_superblock { 12 } else { 0 },
            owed: None,
            recent: Vec::new(),
            values: false,
            left: None,
            bytes: 0,
            superblocks: 0,
        }
    }

    /// Bytes between head and tail in the area where the log goes on.
    pub fn used(&self) -> u64 {
        self.tail - self.head.max(self.area.start)
    }

    /// Whether more than `percent` of the area is used.
    pub(crate) fn is_fuller_than(&self, percent: u64) -> bool {
        self.used() * 100 > self.area.size * percent
    }

    /// Whether a record fits into the area, with `percent` of it as the limit.
    pub(crate) fn has_space(&self, kind: Kind, percent: u64) -> bool {
        let bytes = 8 * self.format.length(kind) as u64;
        (self.used() + bytes) * 100 <= self.area.size * percent
    }

    /// Goes on in a further area, if there is one; the next record is behind a superblock that says so.
    pub fn grow(&mut self) -> bool {
        if !self.format.grow(self.tail) {
            return false;
        }
        self.area = self.format.area();
        self.head_mirrored = self.head;
        self.owed = Some(self.late);
        true
    }

    /// Whether a record fits into the buffer. Without a buffer a record waits until the one before it has left.
    pub fn has_room(&self) -> bool {
        if self.capacity == 0 { self.lines.is_empty() } else { self.ends.len() < self.capacity }
    }

    /// Appends a record at `now`; answers with its start and end.
    pub fn append(&mut self, record: &Record, now: Ps) -> (u64, u64) {
        let length = self.format.length(record.kind);
        let (start, end) = (self.tail, self.tail + 8 * length as u64);
        if end > self.head_mirrored.max(self.area.start) + self.area.size {
            self.head_mirrored = self.head;
            self.owed = Some(self.late);
        }
        if let Some(wait) = self.owed {
            if wait == 0 {
                self.mirror(now);
            } else {
                self.owed = Some(wait - 1);
            }
        }
        let words = if self.values { self.format.encode(record, start) } else { [0; MOST_WORDS] };
        self.put(start, &words[..length], now);
        self.lines.back_mut().expect("a word was put").end = end;
        self.ends.push_back(end);
        self.tail = end;
        self.bytes += end - start;
        (start, end)
    }

    /// Sends the superblock.
    fn mirror(&mut self, now: Ps) {
        self.owed = None;
        self.superblocks += 1;
        let data = self.format.superblock(self.head_mirrored);
        let line = self.format.base / LINE;
        self.lines.push_back(Entry { line, mask: 0xff, data, end: 0, start: u64::MAX, entered: now });
    }

    /// Puts the words of a record into the open line and those behind it.
    fn put(&mut self, mut position: u64, mut words: &[u64], now: Ps) {
        while !words.is_empty() {
            let place = self.format.place(position);
            let (line, at) = (place / LINE, (place % LINE / 8) as usize);
            let open = self.lines.back().is_some_and(|back| back.line == line && back.start != u64::MAX);
            if !open {
                let start = position;
                self.lines.push_back(Entry { line, mask: 0, data: [0; 8], end: 0, start, entered: now });
            }
            let back = self.lines.back_mut().expect("just pushed");
            let (own, rest) = words.split_at(words.len().min(8 - at));
            back.data[at..at + own.len()].copy_from_slice(own);
            back.mask |= ((1_u16 << own.len()) - 1 << at) as u8;
            position += 8 * own.len() as u64;
            words = rest;
        }
    }

    /// Keeps a record that later stores may change; those that have begun to leave are forgotten.
    pub fn remember(&mut self, start: u64, record: Record) {
        if let Some(front) = self.lines.front().filter(|front| front.start != u64::MAX) {
            self.recent.retain(|(begun, _)| *begun >= front.start);
        }
        self.recent.push((start, record));
    }

    /// Changes the redo side of the record at `start`, if all of it is still in the buffer; whether it was.
    pub(crate) fn amend(&mut self, start: u64, op: &Op, base: u64) -> bool {
        let Some(at) = self.recent.iter().position(|(begun, _)| *begun == start) else { return false };
        if self.lines.front().is_none_or(|front| front.start > start) {
            self.recent.clear();
            return false;
        }
        let record = &mut self.recent[at].1;
        record.redo[((op.addr - base) / 8) as usize] = op.value;
        if !self.values {
            return true;
        }
        let words = self.format.encode(record, start);
        for (index, word) in words[..self.format.length(Kind::Update)].iter().enumerate() {
            let place = self.format.place(start + 8 * index as u64);
            let (line, at) = (place / LINE, (place % LINE / 8) as usize);
            let mut open = self.lines.iter_mut().rev();
            let held =
                open.find(|held| held.line == line && held.mask & 1 << at != 0 && held.start != u64::MAX);
            held.expect("it has not left").data[at] = *word;
        }
        true
    }

    /// Records up to `position` are waited for.
    pub(crate) fn demand(&mut self, position: u64) {
        self.demand = self.demand.max(position);
    }

    /// Whether it has something to send at all.
    pub fn wants(&self) -> bool {
        self.lines.front().is_some_and(|front| self.leaves(front))
    }

    fn leaves(&self, line: &Entry) -> bool {
        // A line's last word is its eighth, and words come in order.
        if line.start < self.demand || line.start == u64::MAX {
            return true;
        }
        match self.hold {
            Some(most) => self.ends.len() > most,
            // Nothing stays where there is no buffer.
            None => line.mask & 0x80 != 0 || self.lines.len() > 1 || self.capacity == 0,
        }
    }

    /// Moves lines into the write queue, one a cycle, as long as it has room.
    pub fn drain(&mut self, now: Ps, controller: &mut Controller, done: &mut Vec<Done>) -> bool {
        let mut moved = false;
        while let Some(front) = self.lines.front().copied() {
            if !self.leaves(&front) || !controller.has_room_for_log() {
                break;
            }
            self.lines.pop_front();
            while self.ends.front().is_some_and(|end| *end <= front.end) {
                self.ends.pop_front();
            }
            let arrive = now.max(self.last_pop + self.cycle).max(front.entered);
            self.last_pop = arrive;
            if let Some(left) = &mut self.left {
                left.push((front.line, front.entered, arrive));
            }
            let mut write = Write::new(front.line, Cause::Log, arrive);
            (write.mask, write.data, write.log_end) = (front.mask, front.data, front.end);
            write.fifo = true;
            write.barrier = front.start == u64::MAX;
            controller.write(write, done);
            moved = true;
        }
        moved
    }

    /// How often it has grown.
    pub fn growths(&self) -> u64 {
        self.format.growth.times() as u64
    }
}
