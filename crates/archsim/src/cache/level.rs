//! One cache array: tags, states and the order of use of a set-associative cache.
//!
//! Tags stand apart from the rest, so that a look-up reads one host cache line; the way that hit last in a set is tried first.

use crate::machine::LINE;

/// No line.
pub const INVALID: u64 = u64::MAX;
/// A clean line was born nowhere.
pub const CLEAN: u64 = u64::MAX;

/// What is known of a line besides its tag.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Oldest log position whose effect is in this line and not in NVRAM; the oracle of head advance. Hardware has it not.
    pub born: u64,
    /// End of the newest record for this line: what must be durable before the line may be.
    pub last: u64,
    /// Time of last use, in look-ups.
    pub used: u32,
    /// Differs from NVRAM.
    pub dirty: bool,
    /// Was dirty at the last scan.
    pub fwb: bool,
    /// L1: may be written without asking (M or E).
    pub exclusive: bool,
    /// Last level: cores whose L1 holds it, a bit each.
    pub sharers: u8,
}

impl Entry {
    /// A clean line.
    pub const EMPTY: Self =
        Self { born: CLEAN, last: 0, used: 0, dirty: false, fwb: false, exclusive: false, sharers: 0 };

    /// Takes over the dirt of another copy of the same line. The fwb bit comes along if `propagate`.
    pub fn absorb(&mut self, other: &Self, propagate: bool) {
        if other.dirty {
            self.dirty = true;
            self.fwb |= other.fwb && propagate;
            self.born = self.born.min(other.born);
            self.last = self.last.max(other.last);
        }
    }

    /// The line was written back.
    pub fn clean(&mut self) {
        (self.dirty, self.fwb, self.born, self.last) = (false, false, CLEAN, 0);
    }
}

/// A line that left a level.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// Its number: address by 64.
    pub line: u64,
    /// What was known of it.
    pub entry: Entry,
}

/// A set-associative array.
#[derive(Clone, Debug)]
pub struct Level {
    tags: Vec<u64>,
    entries: Vec<Entry>,
    recent: Vec<u8>,
    ways: usize,
    /// Ways are a power of two.
    way_bits: u32,
    mask: u64,
    clock: u32,
    /// State of the generator of random replacement; zero: least recently used.
    random: u64,
}

impl Level {
    /// An empty array of `bytes` in sets of `ways`.
    pub fn new(bytes: u64, ways: u64, random: bool) -> Self {
        let lines = (bytes / LINE) as usize;
        let sets = lines / ways as usize;
        Self {
            tags: vec![INVALID; lines],
            entries: vec![Entry::EMPTY; lines],
            recent: vec![0; sets],
            ways: ways as usize,
            way_bits: ways.trailing_zeros(),
            mask: sets as u64 - 1,
            clock: 0,
            random: if random { 0x9e37_79b9_7f4a_7c15 } else { 0 },
        }
    }

    /// Sets.
    pub fn sets(&self) -> usize {
        self.recent.len()
    }

    /// Where `line` is, if it is here.
    #[inline]
    pub fn find(&self, line: u64) -> Option<usize> {
        let set = (line & self.mask) as usize;
        let base = set * self.ways;
        let recent = base + self.recent[set] as usize;
        if self.tags[recent] == line {
            return Some(recent);
        }
        let way = self.tags[base..base + self.ways].iter().position(|tag| *tag == line)?;
        Some(base + way)
    }

    /// Counts a use of the entry at `at`.
    #[inline]
    pub fn touch(&mut self, at: usize) {
        self.clock = self.clock.wrapping_add(1);
        self.entries[at].used = self.clock;
        self.recent[at >> self.way_bits] = (at & (self.ways - 1)) as u8;
    }

    /// The entry at `at`.
    #[inline]
    pub fn entry(&mut self, at: usize) -> &mut Entry {
        &mut self.entries[at]
    }

    /// The entry at `at`, to look at.
    #[inline]
    pub fn peek(&self, at: usize) -> &Entry {
        &self.entries[at]
    }

    /// The line at `at`; [`INVALID`] if there is none.
    pub fn line(&self, at: usize) -> u64 {
        self.tags[at]
    }

    /// Puts a clean `line` in, and answers with the line that had to leave.
    pub fn insert(&mut self, line: u64) -> (usize, Option<Victim>) {
        let set = (line & self.mask) as usize;
        let base = set * self.ways;
        let free = self.tags[base..base + self.ways].iter().position(|tag| *tag == INVALID);
        let at = base + free.unwrap_or_else(|| self.victim(base));
        let victim =
            (self.tags[at] != INVALID).then(|| Victim { line: self.tags[at], entry: self.entries[at] });
        self.tags[at] = line;
        self.entries[at] = Entry::EMPTY;
        self.touch(at);
        (at, victim)
    }

    fn victim(&mut self, base: usize) -> usize {
        if self.random != 0 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            return (self.random % self.ways as u64) as usize;
        }
        let clock = self.clock;
        let age = |way: &usize| clock.wrapping_sub(self.entries[base + way].used);
        (0..self.ways).max_by_key(age).expect("a set has ways")
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: u64) -> Option<Entry> {
        let at = self.find(line)?;
        self.tags[at] = INVALID;
        Some(self.entries[at])
    }

    /// The places of a set.
    pub fn set(&self, set: usize) -> std::ops::Range<usize> {
        set * self.ways..(set + 1) * self.ways
    }

    /// Every line that is here, with its entry.
    pub fn lines(&self) -> impl Iterator<Item = (u64, &Entry)> {
        let all = self.tags.iter().copied().zip(&self.entries);
        all.filter(|(line, _)| *line != INVALID)
    }
}
