//! Bytes of blocks that lie in records: a small overwrite is one record that holds them (`Inline`), under one fence.
//!
//! The block keeps its place, and its bytes there do not change. What it holds is what lies there, then the bytes of each such
//! record that is above the one that gave it the place, in the order of ids; a record that gives it another place replaces all of
//! them, because it has all bytes of the block. So what a byte is, is what the record with the largest id says that sets it, as of
//! all else that records set.
//!
//! A block with such bytes takes no stores in place (R8, `place.rs`), not even behind the end. So a cut within it leaves them: when
//! the file grows again over that end, the block gets a new place, with zeros. Records with bytes of one block have [`LINES_MAX`]
//! lines at most: then a write gives it a new place, too.

use std::ops::Range;

use super::layout::{BLOCK, LINE, RawInline, U40, U48, kind, sets};
use super::raw::{Raw, Refused, body, take};

/// Most bytes of a record: half of those with which the record, and the copy of the block that ends such records, cost as many
/// lines as a copy at once (2 KiB).
pub const BYTES_MAX: usize = 1024;

/// Most lines of the records that have bytes of one block: as many as 64 records of a line each take. So aligned overwrites of
/// lines never copy the block, and the log takes twice the data at most.
pub const LINES_MAX: u64 = 2 * BLOCK / LINE as u64;

/// Bytes of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Patch {
    /// The first, within the block.
    pub from: u16,
    /// All of them.
    pub bytes: Vec<u8>,
}

/// Bytes of a block of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Inline {
    /// The file.
    pub ino: u64,
    /// The block of the file, which has a written place.
    pub block: u64,
    /// The bytes, all of which lie within the file.
    pub patch: Patch,
    /// When.
    pub time: Option<u64>,
}

impl Patch {
    /// Which bytes of the block.
    pub fn range(&self) -> Range<usize> {
        let from = usize::from(self.from);
        from..from + self.bytes.len()
    }
}

/// Whether one range has all of another.
pub fn covers(all: &Range<usize>, part: &Range<usize>) -> bool {
    all.start <= part.start && part.end <= all.end
}

/// Lines of a record with so many bytes.
pub fn lines(bytes: usize) -> u64 {
    1 + bytes.div_ceil(LINE) as u64
}

impl Inline {
    /// Its first line; what follows is added to `tail`.
    pub(crate) fn raw(&self, tail: &mut Vec<u8>) -> Raw {
        let raw = RawInline {
            ino: U48::new(self.ino),
            file: U40::new(self.block),
            from: self.patch.from.to_le_bytes(),
            len: (self.patch.bytes.len() as u16).to_le_bytes(),
            time: self.time.unwrap_or_default().to_le_bytes(),
            ..RawInline::default()
        };
        let sets = if self.time.is_some() { sets::TIMES } else { 0 };
        tail.extend_from_slice(&self.patch.bytes);
        (kind::INLINE, sets, 0, body(&raw))
    }

    pub(crate) fn from_raw(raw: &RawInline, sets: u8, mut tail: &[u8]) -> Result<Self, Refused> {
        let (from, len) = (u16::from_le_bytes(raw.from), u16::from_le_bytes(raw.len));
        let end = u64::from(from) + u64::from(len);
        if len == 0 || usize::from(len) > BYTES_MAX || end > BLOCK {
            return Err(Refused::Malformed);
        }
        let bytes = take(&mut tail, usize::from(len))?.to_vec();
        let time = (sets & sets::TIMES != 0).then(|| u64::from_le_bytes(raw.time));
        Ok(Self { ino: raw.ino.get(), block: raw.file.get(), patch: Patch { from, bytes }, time })
    }
}

/// The bytes of a block that lie in records, in DRAM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patches {
    /// First byte and bytes of each run, ascending, with bytes of the place between them.
    runs: Vec<(usize, Vec<u8>)>,
    /// Which bytes each record has, in the order of ids.
    records: Vec<Range<usize>>,
}

impl Patches {
    /// Of these records, which have the bytes of these runs; none if some bytes are not of the block.
    pub fn of(records: Vec<Range<usize>>, runs: Vec<(usize, Vec<u8>)>) -> Option<Self> {
        let of_block = |range: &Range<usize>| range.start < range.end && range.end <= BLOCK as usize;
        let ranges = || runs.iter().map(|(from, bytes)| *from..from + bytes.len());
        (records.iter().all(of_block) && ranges().all(|range| of_block(&range)))
            .then_some(Self { runs, records })
    }

    /// Adds their bytes to those of a saved index.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut half = |half: usize| out.extend_from_slice(&(half as u32).to_le_bytes());
        half(self.records.len());
        self.records.iter().flat_map(|range| [range.start, range.end]).for_each(&mut half);
        half(self.runs.len());
        for (from, bytes) in &self.runs {
            for value in [*from, bytes.len()] {
                out.extend_from_slice(&(value as u32).to_le_bytes());
            }
            out.extend_from_slice(bytes);
        }
    }

    /// Lines of the records.
    pub fn lines(&self) -> u64 {
        self.records.iter().map(|range| lines(range.len())).sum()
    }

    /// The same with one more, which replaces those whose bytes it has.
    pub(crate) fn lines_with(&self, new: &Range<usize>) -> u64 {
        let others = self.records.iter().filter(|range| !covers(new, range));
        lines(new.len()) + others.map(|range| lines(range.len())).sum::<u64>()
    }

    /// One more record has these bytes.
    pub fn add(&mut self, from: usize, bytes: &[u8]) {
        let new = from..from + bytes.len();
        self.records.retain(|range| !covers(&new, range));
        self.records.push(new.clone());
        let first = self.runs.partition_point(|(start, run)| start + run.len() < new.start);
        let behind = self.runs.partition_point(|(start, _)| *start <= new.end);
        let start = self.runs.get(first).filter(|_| first < behind).map_or(new.start, |run| run.0.min(from));
        let mut joined = Vec::new();
        for (at, run) in self.runs.drain(first..behind) {
            joined.resize(at - start, 0);
            joined.extend_from_slice(&run);
        }
        let end = joined.len().max(new.end - start);
        joined.resize(end, 0);
        joined[new.start - start..new.end - start].copy_from_slice(bytes);
        self.runs.insert(first, (start, joined));
    }

    /// Copies what it has of the bytes from `from` on; answers which of `out` it does not have.
    pub fn read(&self, from: usize, out: &mut [u8]) -> Vec<Range<usize>> {
        let (mut gaps, mut at, end) = (Vec::new(), from, from + out.len());
        for (first, run) in &self.runs {
            let (start, stop) = ((*first).max(from), (first + run.len()).min(end));
            if start >= stop {
                continue;
            }
            if at < start {
                gaps.push(at - from..start - from);
            }
            out[start - from..stop - from].copy_from_slice(&run[start - first..stop - first]);
            at = stop;
        }
        if at < end {
            gaps.push(at - from..end - from);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    /// Ranges of all kinds of overlap, against an array.
    #[test]
    fn bytes_of_records_are_those_of_the_last_that_has_them() {
        for seed in 0..500 {
            let mut rng = sim::Seed(seed).rng();
            let (mut patches, mut want) = (Patches::default(), [None; 64]);
            for value in 1..=12_u8 {
                let (a, b): (usize, usize) = (rng.random_range(0..64), rng.random_range(0..64));
                let range = a.min(b)..a.max(b) + 1;
                let lines = patches.lines_with(&range);
                patches.add(range.start, &vec![value; range.len()]);
                want[range.clone()].fill(Some(value));
                assert_eq!(patches.lines(), lines, "seed {seed}");
                let (from, mut out) = (range.start / 2, vec![0; 40.min(64 - range.start / 2)]);
                let gaps = patches.read(from, &mut out);
                for (at, byte) in out.iter().enumerate() {
                    let is_gap = gaps.iter().any(|gap| gap.contains(&at));
                    assert_eq!(
                        (!is_gap).then_some(*byte),
                        want[from + at],
                        "seed {seed}, byte {}",
                        from + at
                    );
                }
            }
        }
    }
}
