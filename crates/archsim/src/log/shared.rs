//! A software log that all threads of a process share (`sw_log = process`).
//!
//! | variable, volatile, in a line of its own | who writes it |
//! |---|---|
//! | tail: position of the next record | a thread that appends, by one atomic addition |
//! | head: position up to which space may be used again | a thread that has moved the head |
//! | for each thread, the first record that it still needs | that thread |
//!
//! A thread that appends compares head and tail, adds the length of its record to the tail, and stores the record, past the caches,
//! into the space that is then its own. So records of several threads lie between each other, and a record may be durable while one
//! before it is not: recovery looks behind such a *hole*, which the checksum of each record allows.
//!
//! The head moves when a quarter of the log is used, at the end of a transaction, or where a thread finds no space. It moves to the
//! oldest record that some thread needs: undo logging needs those of its open transaction, redo logging those of transactions whose
//! data a fence has not covered yet, too. The superblock that says so is durable before the space is used again. One thread at a
//! time moves the head.

use super::record::{Format, MOST_WORDS};
use crate::machine::{LINE, Ps};
use crate::scheme::software::VOLATILE;

/// Byte addresses from here on are offsets into the record for which their thread has taken space last.
pub(crate) const TAKEN: u64 = 1 << 45;
/// Byte address of the tail.
pub const TAIL: u64 = VOLATILE + (1 << 30);
/// Byte address of the head.
pub const HEAD: u64 = TAIL + LINE;

/// Byte address of the first record that a thread needs.
pub(crate) fn needed_by(thread: usize) -> u64 {
    HEAD + LINE * (1 + thread as u64)
}

/// What a thread has in the log.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// First record that it needs.
    oldest: Option<u64>,
    /// First record of its open transaction.
    open: Option<u64>,
    /// Where its last record begins, and the words of it.
    position: u64,
    words: [u64; MOST_WORDS],
}

/// A move of the head under way.
#[derive(Clone, Copy, Debug)]
struct Move {
    thread: usize,
    head: u64,
    /// The layout afterwards; another one if the log grows.
    format: Format,
}

/// Counts of what threads execute to move the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedStats {
    /// Fences.
    pub fences: u64,
    /// Words of superblocks stored.
    pub stores: u64,
    /// Growths.
    pub growths: u64,
}

/// The log; see the module.
#[derive(Clone, Debug)]
pub struct SharedLog {
    format: Format,
    tail: u64,
    /// Space before it may be used again.
    head: u64,
    parts: Vec<Part>,
    moving: Option<Move>,
    /// When the last atomic addition to the tail ends.
    pub tail_free: Ps,
    /// Counts.
    pub stats: SharedStats,
}

impl SharedLog {
    /// An empty log.
    pub fn new(format: Format, threads: usize) -> Self {
        let parts = vec![Part::default(); threads];
        Self { format, tail: 0, head: 0, parts, moving: None, tail_free: 0, stats: SharedStats::default() }
    }

    /// Whether a record of so many words fits. None does while the log grows: the next one lies in the new area.
    pub fn fits(&self, words: u16) -> bool {
        let area = self.format.area();
        let grows = self.moving.is_some_and(|moving| moving.format != self.format);
        !grows && self.tail + self.step(words) <= self.head.max(area.start) + area.size
    }

    /// Bytes from the start of a record of so many words to the next.
    fn step(&self, words: u16) -> u64 {
        8 * self.format.stride(usize::from(words)) as u64
    }

    /// Takes space for a record; `words` is what it holds besides torn bit and checksum, which depend on the place.
    pub fn take(&mut self, thread: usize, first: bool, length: u16, words: [u64; MOST_WORDS]) {
        let (position, step) = (self.tail, self.step(length));
        let part = &mut self.parts[thread];
        if first {
            part.open = Some(position);
        }
        part.oldest = part.oldest.or(Some(position));
        (part.position, part.words) = (position, words);
        self.format.seal(&mut part.words[..usize::from(length)], position);
        self.tail += step;
    }

    /// Where a byte of the thread's last record lies; other addresses stay as they are.
    #[inline]
    pub fn place(&self, thread: usize, addr: u64) -> u64 {
        if addr < TAKEN { addr } else { self.format.place(self.parts[thread].position + addr - TAKEN) }
    }

    /// The word there.
    pub fn word(&self, thread: usize, addr: u64) -> u64 {
        self.parts[thread].words[((addr - TAKEN) / 8) as usize]
    }

    /// A thread needs its records no more, but for those of its open transaction if `keep`.
    pub fn release(&mut self, thread: usize, keep: bool) {
        let part = &mut self.parts[thread];
        if !keep {
            part.open = None;
        }
        part.oldest = part.open;
    }

    /// Whether a quarter is used and no thread moves the head.
    pub fn is_due(&self) -> bool {
        let area = self.format.area();
        self.moving.is_none() && (self.tail - self.head.max(area.start)) * 4 >= area.size
    }

    /// How far the head may move.
    pub fn needed(&self) -> u64 {
        self.parts.iter().filter_map(|part| part.oldest).min().unwrap_or(self.tail)
    }

    /// Whether the head stands at a record that this thread needs.
    pub(crate) fn is_held_by(&self, thread: usize) -> bool {
        self.parts[thread].oldest == Some(self.head)
    }

    /// Position after the last record.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Where the head is.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The line of the superblock.
    pub(crate) fn superblock_line(&self) -> u64 {
        self.format.base / LINE
    }

    /// Begins to move the head; answers with the superblock.
    pub(crate) fn begin_move(&mut self, thread: usize, head: u64) -> [u64; 8] {
        self.moving = Some(Move { thread, head, format: self.format });
        self.superblock()
    }

    /// Begins to grow; answers as `begin_move`, or not if there is no further area.
    pub fn begin_growth(&mut self, thread: usize) -> Option<[u64; 8]> {
        let (mut format, head) = (self.format, self.head);
        let grown = format.grow(self.tail);
        grown.then(|| {
            self.moving = Some(Move { thread, head, format });
            self.stats.growths += 1;
            self.superblock()
        })
    }

    fn superblock(&mut self) -> [u64; 8] {
        let Move { head, format, .. } = self.moving.expect("a move has begun");
        self.stats.stores += 8;
        format.superblock(head)
    }

    /// The thread that moves the head.
    pub(crate) fn mover(&self) -> Option<usize> {
        self.moving.map(|moving| moving.thread)
    }

    /// The superblock is durable.
    pub(crate) fn end_move(&mut self) {
        if let Some(Move { head, format, .. }) = self.moving.take() {
            (self.head, self.format) = (head, format);
        }
    }
}
