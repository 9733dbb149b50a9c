//! The log in memory: units of records, each unit the changes of one transaction.
//!
//! A position in the log (LSN) is the number of bytes before it. A unit is `length u32, CRC-32C u32, LSN u64, epoch u64`, and
//! records: `kind u8, 0 u8, length u16, file u16, page u32`, what the kind takes, and zeros up to the length that the layer gives
//! such a record at least. A unit is there as a whole or not at all, so that it is also the note that its transaction is committed.
//! Each opening after a crash begins an epoch: what a log holds behind the last whole unit can then not be taken for a later one.

use super::page;

/// Bytes before the records of a unit.
pub(super) const UNIT: usize = 24;
/// Bytes before what a record's kind takes.
const RECORD: usize = 10;

const INSERT: u8 = 1;
const REMOVE: u8 = 2;
const UPDATE: u8 = 3;
const TRUNCATE: u8 = 4;
const IMAGE: u8 = 5;

/// A change of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// An entry is put in at a place.
    Insert(usize, u64, &'a [u8]),
    /// The entry at a place is removed.
    Remove(usize),
    /// Bytes of the row at a place change, from an offset on.
    Update(usize, usize, &'a [u8]),
    /// So many entries stay.
    Truncate(usize),
    /// The page begins with these bytes; the rest is zero.
    Image(&'a [u8]),
}

impl<'a> Change<'a> {
    /// Makes the change.
    pub(super) fn apply(&self, bytes: &mut [u8]) {
        match *self {
            Self::Insert(at, key, row) => page::insert(bytes, at, key, row),
            Self::Remove(at) => page::remove(bytes, at),
            Self::Update(at, offset, with) => page::update(bytes, at, offset, with),
            Self::Truncate(count) => page::truncate(bytes, count),
            Self::Image(image) => {
                bytes[..image.len()].copy_from_slice(image);
                bytes[image.len()..].fill(0);
            }
        }
    }

    /// Whether it fits a page as it is: asked of changes that come from a log.
    pub(super) fn fits(&self, bytes: &[u8]) -> bool {
        let count = page::count(bytes);
        match *self {
            Self::Insert(at, _, row) => {
                at <= count && !page::is_full(bytes) && row.len() == page::row_len(bytes)
            }
            Self::Remove(at) => at < count,
            Self::Update(at, offset, with) => at < count && offset + with.len() <= page::row_len(bytes),
            Self::Truncate(left) => left <= count,
            Self::Image(image) => image.len() >= page::HEADER && image.len() <= bytes.len(),
        }
    }

    fn read(kind: u8, bytes: &'a [u8]) -> Option<Self> {
        let number =
            |at: usize| Some(usize::from(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])));
        let some = |from: usize, len: usize| bytes.get(from..from + len);
        Some(match kind {
            INSERT => Self::Insert(number(0)?, page::u64_at(some(4, 8)?, 0), some(12, number(2)?)?),
            REMOVE => Self::Remove(number(0)?),
            UPDATE => Self::Update(number(0)?, number(2)?, some(6, number(4)?)?),
            TRUNCATE => Self::Truncate(number(0)?),
            IMAGE => Self::Image(some(2, number(0)?)?),
            _ => return None,
        })
    }
}

/// How long records are at least.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    /// An update.
    pub(super) update: usize,
    /// An insertion, without its row.
    pub(super) insert: usize,
}

/// What is not yet in files.
#[derive(Debug)]
pub(super) struct Buffer {
    /// The position of the first byte.
    start: u64,
    bytes: Vec<u8>,
    /// Where the unit that is being written begins, in `bytes`.
    unit: usize,
    epoch: u64,
    lengths: Lengths,
}

impl Buffer {
    pub(super) fn new(start: u64, epoch: u64, lengths: Lengths) -> Self {
        Self { start, bytes: Vec::new(), unit: 0, epoch, lengths }
    }

    /// The end of the log.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The position of the unit that is being written.
    pub(super) fn unit_start(&self) -> u64 {
        self.start + self.unit as u64
    }

    /// Takes out all bytes, and where they begin.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) -> u64 {
        let start = self.start;
        into.extend_from_slice(&self.bytes);
        self.start = self.end();
        self.bytes.clear();
        start
    }

    pub(super) fn begin(&mut self) {
        self.unit = self.bytes.len();
        self.bytes.resize(self.unit + UNIT, 0);
    }

    /// Adds a record.
    pub(super) fn add(&mut self, file: u16, block: u32, change: &Change<'_>) {
        let (from, bytes) = (self.bytes.len(), &mut self.bytes);
        let mut head = |kind: u8, numbers: &[usize]| {
            bytes.extend_from_slice(&[kind, 0, 0, 0]);
            bytes.extend_from_slice(&file.to_le_bytes());
            bytes.extend_from_slice(&block.to_le_bytes());
            for number in numbers {
                bytes.extend_from_slice(&(*number as u16).to_le_bytes());
            }
        };
        let least = match *change {
            Change::Insert(at, key, row) => {
                head(INSERT, &[at, row.len()]);
                bytes.extend_from_slice(&key.to_le_bytes());
                bytes.extend_from_slice(row);
                self.lengths.insert + row.len()
            }
            Change::Remove(at) => {
                head(REMOVE, &[at]);
                0
            }
            Change::Update(at, offset, with) => {
                head(UPDATE, &[at, offset, with.len()]);
                bytes.extend_from_slice(with);
                self.lengths.update
            }
            Change::Truncate(count) => {
                head(TRUNCATE, &[count]);
                0
            }
            Change::Image(image) => {
                head(IMAGE, &[image.len()]);
                bytes.extend_from_slice(image);
                0
            }
        };
        let len = (bytes.len() - from).max(least);
        bytes.resize(from + len, 0);
        bytes[from + 2..from + 4].copy_from_slice(&(len as u16).to_le_bytes());
    }

    /// Ends the unit; the end of the log.
    pub(super) fn finish(&mut self) -> u64 {
        let (start, epoch) = (self.unit_start(), self.epoch);
        let unit = &mut self.bytes[self.unit..];
        let len = unit.len() as u32;
        unit[..4].copy_from_slice(&len.to_le_bytes());
        unit[8..16].copy_from_slice(&start.to_le_bytes());
        unit[16..24].copy_from_slice(&epoch.to_le_bytes());
        let sum = crc32c::crc32c(&unit[8..]);
        unit[4..8].copy_from_slice(&sum.to_le_bytes());
        self.end()
    }
}

/// The length of the unit with which `bytes` begins, if it is one of an epoch at a position.
pub(super) fn unit(bytes: &[u8], start: u64, epoch: u64) -> Option<usize> {
    let len = page::u32_at(bytes.get(..UNIT)?, 0) as usize;
    let unit = bytes.get(..len).filter(|unit| unit.len() >= UNIT)?;
    let is_one = page::u64_at(unit, 8) == start
        && page::u64_at(unit, 16) == epoch
        && page::u32_at(unit, 4) == crc32c::crc32c(&unit[8..]);
    is_one.then_some(len)
}

/// A record: the position of its end, file and page, and the change.
pub(super) struct Record<'a> {
    pub(super) lsn: u64,
    pub(super) file: u16,
    pub(super) block: u32,
    pub(super) change: Change<'a>,
}

/// The records of a unit at a position; none where they make no sense.
pub(super) fn records(unit: &[u8], start: u64) -> Option<Vec<Record<'_>>> {
    let (mut found, mut at) = (Vec::new(), UNIT);
    while at < unit.len() {
        let head = unit.get(at..at + RECORD)?;
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (file, block) = (u16::from_le_bytes([head[4], head[5]]), page::u32_at(head, 6));
        let change = Change::read(head[0], unit.get(at + RECORD..at + len)?)?;
        at += len;
        found.push(Record { lsn: start + at as u64, file, block, change });
    }
    Some(found)
}
