//! Records of the log and how recovery tells a whole one.
//!
//! ```text
//! word 0   torn 1 | kind 2 | undo 1 | redo 1 | 3 unused | thread 8 | TxID 16 | CRC-32
//! word 1   unused 16 | address 48
//! then     word grain:  undo word, redo word (zero where there is none): 32 bytes
//!          line grain:  undo line, redo line, those that there are:  80 or 144 bytes, packed
//! commit   word grain: 32 bytes;  otherwise the two header words
//! ```
//!
//! The torn bit flips with each pass over the circular area (HPCA 2018). Words of a line may become durable out of order, which
//! a bit in the first word cannot tell; so the CRC covers the whole record. Bare torn bits are a mutant.
//!
//! ```text
//! superblock   magic | head | bytes of the first area | positions at which the log grew, five words
//! ```
//!
//! A log that is full while its head cannot move, because the oldest open transaction alone fills it, grows: from its tail on it
//! lies in a further area, twice as large. The superblock that says so is durable before any record in that area.

use crate::machine::LINE;

/// First word of a superblock.
pub const MAGIC: u64 = 0x5745_4952_4c4f_4731;
/// Longest record, in words.
pub(crate) const MOST_WORDS: usize = 18;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A change.
    Update,
    /// The transaction is committed.
    Commit,
}

/// A record before it is encoded, or after it was decoded.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// What it is.
    pub kind: Kind,
    /// Hardware thread.
    pub thread: u8,
    /// Physical number of the transaction; used again after its records are truncated.
    pub tx: u16,
    /// Byte address of the logged word, block or line.
    pub addr: u64,
    /// Old words.
    pub undo: [u64; 8],
    /// New words.
    pub redo: [u64; 8],
}

/// How often a log can grow: as many positions as a superblock has room for.
pub(crate) const MOST_GROWTHS: usize = 5;

/// How a log has grown. Each time it went over to an area twice as large as the one before, which it does not share with others;
/// those before are not used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Byte address of the further areas, which lie one after the other.
    pub base: u64,
    /// How often it may grow.
    pub most: usize,
    /// Positions at which it went over; 0: it has not.
    pub starts: [u64; MOST_GROWTHS],
}

/// A part of a log: positions from `start` on lie in `size` bytes at `base`, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First position.
    pub start: u64,
    /// Byte address.
    pub base: u64,
    /// Bytes.
    pub size: u64,
}

/// How a log is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Byte address of the superblock; the area follows it.
    pub base: u64,
    /// Bytes of the first area.
    pub size: u64,
    /// Words that a record covers: 1, 4 or 8.
    pub words: usize,
    /// Whether a record holds old words.
    pub undo: bool,
    /// Whether it holds new words.
    pub redo: bool,
    /// Whether records are checked by CRC; else by the torn bit alone.
    pub crc: bool,
    /// Whether each record begins a line.
    pub padded: bool,
    /// Whether records become durable in any order, so that there may be whole ones behind one that is not.
    pub holes: bool,
    /// Its further areas.
    pub growth: Growth,
}

impl Growth {
    /// Bytes that `times` growths of a log of `size` bytes take.
    pub fn bytes(size: u64, times: usize) -> u64 {
        size * ((2 << times) - 2)
    }

    /// How often it has grown.
    pub fn times(&self) -> usize {
        self.starts.iter().take_while(|start| **start != 0).count()
    }
}

impl Format {
    /// Bytes that `bytes` of log area take, with the superblock.
    pub const SUPERBLOCK: u64 = 64;

    /// Length of a record in words.
    pub fn length(&self, kind: Kind) -> usize {
        match (self.words, kind) {
            (1, _) => 4,
            (_, Kind::Commit) => 2,
            (words, Kind::Update) => 2 + words * (usize::from(self.undo) + usize::from(self.redo)),
        }
    }

    /// From the start of a record to that of the next, in words.
    pub fn step(&self, kind: Kind) -> usize {
        self.stride(self.length(kind))
    }

    /// The same of a record of so many words.
    pub fn stride(&self, length: usize) -> usize {
        if self.padded { length.next_multiple_of(LINE as usize / 8) } else { length }
    }

    /// Behind the last position that records can take before the head moves from `head`.
    pub(crate) fn end_after(&self, head: u64) -> u64 {
        let area = self.area();
        head.max(area.start) + area.size
    }

    /// How many bytes behind a position that is no record's start the next can begin: records are of an even number of words.
    pub(crate) fn hole_step(&self) -> u64 {
        if self.padded { LINE } else { 16 }
    }

    /// The first address of what a record for `addr` covers.
    pub fn aligned(&self, addr: u64) -> u64 {
        addr & !(self.words as u64 * 8 - 1)
    }

    /// The area after so many growths.
    fn area_after(&self, times: usize) -> Area {
        match times {
            0 => Area { start: 0, base: self.base + Self::SUPERBLOCK, size: self.size },
            _ => Area {
                start: self.growth.starts[times - 1],
                base: self.growth.base + Growth::bytes(self.size, times - 1),
                size: self.size << times,
            },
        }
    }

    /// The area in which a position lies.
    pub(crate) fn area_of(&self, position: u64) -> Area {
        let passed = self.growth.starts.iter().take_while(|start| **start != 0 && **start <= position);
        self.area_after(passed.count())
    }

    /// The area in which the log goes on.
    pub fn area(&self) -> Area {
        self.area_after(self.growth.times())
    }

    /// Goes over to the next area at `tail`, which is a record's start; whether there was one.
    pub fn grow(&mut self, tail: u64) -> bool {
        let times = self.growth.times();
        if times == self.growth.most || tail == 0 {
            return false;
        }
        self.growth.starts[times] = tail;
        true
    }

    /// The words of a superblock.
    pub fn superblock(&self, head: u64) -> [u64; 8] {
        let mut words = [MAGIC, head, self.size, 0, 0, 0, 0, 0];
        words[3..].copy_from_slice(&self.growth.starts);
        words
    }

    /// The layout with the growths that the superblock in an image tells, and the head.
    pub(crate) fn of_image(mut self, read: &impl Fn(u64) -> u64) -> (Self, u64) {
        if read(self.base) != MAGIC {
            return (self, 0);
        }
        for (at, start) in self.growth.starts.iter_mut().enumerate().take(self.growth.most) {
            *start = read(self.base + 8 * (3 + at as u64));
        }
        (self, read(self.base + 8))
    }

    /// Where a position lies.
    pub fn place(&self, position: u64) -> u64 {
        let Area { start, base, size } = self.area_of(position);
        base + (position - start) % size
    }

    /// Parity of the pass of a position.
    fn parity(&self, position: u64) -> u64 {
        let Area { start, size, .. } = self.area_of(position);
        ((position - start) / size) & 1
    }

    /// The words of a record at `position`.
    pub fn encode(&self, record: &Record, position: u64) -> [u64; MOST_WORDS] {
        let mut out = [0; MOST_WORDS];
        let kind = if record.kind == Kind::Update { 1 } else { 2 };
        let sides = u64::from(self.undo) << 1 | u64::from(self.redo);
        out[0] = kind << 61 | sides << 59 | u64::from(record.thread) << 48 | u64::from(record.tx) << 32;
        out[1] = record.addr;
        if record.kind == Kind::Update {
            self.payload(record, &mut out);
        }
        self.seal(&mut out[..self.length(record.kind)], position);
        out
    }

    /// Sets what depends on the position of a record of these words: torn bit and checksum.
    pub fn seal(&self, words: &mut [u64], position: u64) {
        // Parity 1 in the first pass: zeroes are no record.
        let torn = 1 - self.parity(position);
        words[0] = words[0] << 1 >> 33 << 32 | torn << 63;
        words[0] |= u64::from(checksum(words));
    }

    fn payload(&self, record: &Record, out: &mut [u64; MOST_WORDS]) {
        let words = self.words;
        if words == 1 {
            out[2] = if self.undo { record.undo[0] } else { 0 };
            out[3] = if self.redo { record.redo[0] } else { 0 };
            return;
        }
        let mut at = 2;
        for (side, present) in [(&record.undo, self.undo), (&record.redo, self.redo)] {
            if present {
                out[at..at + words].copy_from_slice(&side[..words]);
                at += words;
            }
        }
    }

    /// The record at `position`, if there is a whole one of that pass. `read` gives the word at an address; `any_pass` takes
    /// records of other passes too, which is wrong (a mutant).
    pub fn decode(&self, position: u64, read: &impl Fn(u64) -> u64, any_pass: bool) -> Option<(Record, u64)> {
        let word = |index: usize| read(self.place(position + 8 * index as u64));
        let head = word(0);
        let kind = match head >> 61 & 3 {
            1 => Kind::Update,
            2 => Kind::Commit,
            _ => return None,
        };
        if !any_pass && head >> 63 == self.parity(position) {
            return None;
        }
        let length = self.length(kind);
        let mut words = [0; MOST_WORDS];
        for (index, out) in words.iter_mut().enumerate().take(length) {
            *out = word(index);
        }
        words[0] &= !0xffff_ffff;
        if self.crc && u64::from(checksum(&words[..length])) != head & 0xffff_ffff {
            return None;
        }
        let mut record = Record {
            kind,
            thread: (head >> 48) as u8,
            tx: (head >> 32) as u16,
            addr: words[1],
            undo: [0; 8],
            redo: [0; 8],
        };
        if self.words == 1 {
            (record.undo[0], record.redo[0]) = (words[2], words[3]);
        } else if kind == Kind::Update {
            let redo = if self.undo { 2 + self.words } else { 2 };
            record.undo[..self.words].copy_from_slice(&words[2..2 + self.words]);
            if self.redo {
                record.redo[..self.words].copy_from_slice(&words[redo..redo + self.words]);
            }
        }
        Some((record, 8 * self.step(kind) as u64))
    }
}

fn checksum(words: &[u64]) -> u32 {
    words.iter().fold(0, |sum, word| crc32c::crc32c_append(sum, &word.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(words: usize, undo: bool, redo: bool) -> Format {
        Format {
            base: 0,
            size: 1024,
            words,
            undo,
            redo,
            crc: true,
            padded: false,
            holes: false,
            growth: Growth::default(),
        }
    }

    #[test]
    fn lengths_are_those_of_the_documentation() {
        assert_eq!(format(1, true, true).length(Kind::Update) * 8, 32);
        assert_eq!(format(8, true, true).length(Kind::Update) * 8, 144);
        assert_eq!(format(8, true, false).length(Kind::Update) * 8, 80);
        assert_eq!(format(8, true, true).length(Kind::Commit) * 8, 16);
    }

    #[test]
    fn a_grown_log_keeps_its_records_apart() {
        let growth = Growth { base: 4096, most: 2, ..Growth::default() };
        let mut format = Format { growth, ..format(8, true, true) };
        let old = format.place(1000);
        assert!(format.grow(1040) && format.grow(3000) && !format.grow(9000));
        assert_eq!(
            (format.place(1000), format.place(1040), format.place(1040 + 2048)),
            (old, 4096, 4096 + 2048 + 88)
        );
        assert_eq!(format.area(), Area { start: 3000, base: 4096 + 2048, size: 4096 });
        let words = format.superblock(7);
        let read = |addr: u64| words[(addr / 8) as usize];
        let plain = Format { growth, ..format };
        assert_eq!(plain.of_image(&read), (format, 7));
    }

    #[test]
    fn a_record_comes_back_and_no_torn_one_does() {
        for format in
            [format(1, true, true), format(8, true, true), format(8, false, true), format(4, true, false)]
        {
            let (mut undo, mut redo) = ([0; 8], [0; 8]);
            (0..8).for_each(|at| (undo[at], redo[at]) = (at as u64 + 1, at as u64 + 100));
            let record = Record { kind: Kind::Update, thread: 3, tx: 77, addr: 4096, undo, redo };
            let position = 1024 - 32; // across the end of the area
            let words = format.encode(&record, position);
            let length = format.length(Kind::Update);
            let mut area = vec![0_u64; 64 + 1024];
            for (index, word) in words[..length].iter().enumerate() {
                area[format.place(position + 8 * index as u64) as usize / 8] = *word;
            }
            let read = |area: &[u64]| {
                let area = area.to_vec();
                format.decode(position, &move |addr| area[addr as usize / 8], false)
            };
            let (back, bytes) = read(&area).unwrap();
            assert_eq!((back.thread, back.tx, back.addr, bytes), (3, 77, 4096, 8 * length as u64));
            assert!(!format.redo || back.redo[0] == 100);
            for index in 0..length {
                let mut torn = area.clone();
                let word = &mut torn[format.place(position + 8 * index as u64) as usize / 8];
                if *word != 0 {
                    *word = 0;
                    assert!(read(&torn).is_none(), "word {index} lost");
                }
            }
            let later = format.decode(position + 1024, &|addr| area[addr as usize / 8], false);
            assert!(later.is_none(), "a record of another pass");
        }
    }
}
