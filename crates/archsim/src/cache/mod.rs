//! The cache hierarchy: an L1 for each core under one inclusive last level that knows which L1s hold a line.
//!
//! States are MESI's: an L1 line is `exclusive` and dirty (M), exclusive and clean (E) or shared (S); what is not there is
//! invalid. The last level keeps a bit for each sharer. A line that it loses leaves every L1, and takes their dirt along.
//! A dirty line moves between L1s, and from L1 to the last level, with its fwb bit and its log positions.
//!
//! Latencies: L1 hit `l1_latency`; last level `l2_latency` more; a dirty copy in another L1 costs `l1_latency + l2_latency`
//! on top of that. Each bank of the last level takes a request every two cycles.

pub mod level;

use crate::machine::{Machine, Ps};
use level::{Entry, Level, Victim};

/// What became of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Served by the caches at this time.
    Done(Ps),
    /// Not in the caches; the request reaches the memory at this time.
    Memory(Ps),
}

/// Counts of the hierarchy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Accesses of L1.
    pub l1_accesses: u64,
    /// Those that missed it.
    pub l1_misses: u64,
    /// Those that missed the last level, too.
    pub l2_misses: u64,
    /// Dirty lines fetched from another L1.
    pub transfers: u64,
    /// Flagged dirty lines that left by themselves.
    pub flagged_evictions: u64,
}

/// All caches.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    l1: Vec<Level>,
    l2: Level,
    l1_time: Ps,
    l2_time: Ps,
    bank_time: Ps,
    banks: Vec<Ps>,
    propagate: bool,
    /// Counts.
    pub stats: CacheStats,
}

impl Hierarchy {
    /// Empty caches.
    pub fn new(machine: &Machine) -> Self {
        let cycle = machine.cycle();
        let random = machine.replacement == 1;
        Self {
            l1: vec![Level::new(machine.l1_size, machine.l1_ways, random); machine.cores as usize],
            l2: Level::new(machine.l2_size, machine.l2_ways, random),
            l1_time: machine.l1_latency * cycle,
            l2_time: machine.l2_latency * cycle,
            bank_time: 2 * cycle,
            banks: vec![0; machine.l2_banks as usize],
            propagate: machine.fwb_propagate == 0,
            stats: CacheStats::default(),
        }
    }

    /// A load by `core` at `now`.
    #[inline]
    pub fn load(&mut self, core: usize, line: u64, now: Ps) -> Access {
        self.stats.l1_accesses += 1;
        if let Some(at) = self.l1[core].find(line) {
            self.l1[core].touch(at);
            return Access::Done(now + self.l1_time);
        }
        self.load_beyond(core, line, now)
    }

    fn load_beyond(&mut self, core: usize, line: u64, now: Ps) -> Access {
        self.stats.l1_misses += 1;
        let start = self.bank(line, now + self.l1_time);
        let Some(at) = self.l2.find(line) else {
            self.stats.l2_misses += 1;
            return Access::Memory(start + self.l2_time);
        };
        self.l2.touch(at);
        let mut done = start + self.l2_time;
        let sharers = self.l2.entry(at).sharers;
        for other in (0..self.l1.len()).filter(|other| sharers & 1 << other != 0) {
            let Some(there) = self.l1[other].find(line) else { continue };
            let entry = self.l1[other].entry(there);
            if entry.dirty {
                let dirt = *entry;
                entry.clean();
                self.l2.entry(at).absorb(&dirt, self.propagate);
                done += self.l1_time + self.l2_time;
                self.stats.transfers += 1;
            }
            self.l1[other].entry(there).exclusive = false;
        }
        self.l2.entry(at).sharers |= 1 << core;
        self.place(core, line, sharers == 0);
        Access::Done(done)
    }

    /// Whether `core` may write `line` at once.
    #[inline]
    pub fn writable(&self, core: usize, line: u64) -> bool {
        self.place_to_write(core, line).is_some()
    }

    /// Where `line` lies in `core`'s L1, if it may be written there at once.
    #[inline]
    pub(crate) fn place_to_write(&self, core: usize, line: u64) -> Option<usize> {
        self.l1[core].find(line).filter(|at| self.l1[core].peek(*at).exclusive)
    }

    /// Brings `line` into `core`'s L1 for writing.
    pub fn own(&mut self, core: usize, line: u64, now: Ps) -> Access {
        self.stats.l1_accesses += 1;
        let here = self.l1[core].find(line);
        if let Some(at) = here
            && self.l1[core].entry(at).exclusive
        {
            return Access::Done(now + self.l1_time);
        }
        self.stats.l1_misses += 1;
        let start = self.bank(line, now + self.l1_time);
        let Some(at) = self.l2.find(line) else {
            self.stats.l2_misses += 1;
            return Access::Memory(start + self.l2_time);
        };
        self.l2.touch(at);
        let mut done = start + self.l2_time;
        let mut dirt = Entry::EMPTY;
        let sharers = self.l2.entry(at).sharers & !(1 << core);
        for other in (0..self.l1.len()).filter(|other| sharers & 1 << other != 0) {
            let Some(entry) = self.l1[other].remove(line) else { continue };
            if entry.dirty {
                done += self.l1_time + self.l2_time;
                self.stats.transfers += 1;
            }
            dirt.absorb(&entry, self.propagate);
        }
        self.l2.entry(at).sharers = 1 << core;
        let at = here.unwrap_or_else(|| self.place(core, line, true));
        let entry = self.l1[core].entry(at);
        entry.exclusive = true;
        entry.absorb(&dirt, self.propagate);
        Access::Done(done)
    }

    /// A store hits the line, which [`Hierarchy::own`] has brought in. `record`: start and end of its log record.
    #[inline]
    pub fn write(&mut self, core: usize, line: u64, record: Option<(u64, u64)>) {
        let at = self.l1[core].find(line).expect("the line is owned");
        self.write_at(core, at, record);
    }

    /// The same where the line was found at `place`; looks again if it is there no more.
    #[inline]
    pub(crate) fn write_found(
        &mut self,
        core: usize,
        line: u64,
        place: Option<usize>,
        record: Option<(u64, u64)>,
    ) {
        match place.filter(|at| self.l1[core].line(*at) == line) {
            Some(at) => self.write_at(core, at, record),
            None => self.write(core, line, record),
        }
    }

    fn write_at(&mut self, core: usize, at: usize, record: Option<(u64, u64)>) {
        self.l1[core].touch(at);
        let entry = self.l1[core].entry(at);
        entry.dirty = true;
        if let Some((start, end)) = record {
            entry.born = entry.born.min(start);
            entry.last = entry.last.max(end);
        }
    }

    /// A line arrives from memory. Answers with the dirty line that had to leave the last level.
    pub fn fill(&mut self, core: usize, line: u64) -> Option<Victim> {
        if let Some(at) = self.l2.find(line) {
            // Another core's request brought it in first.
            let alone = self.l2.entry(at).sharers & !(1 << core) == 0;
            if self.l1[core].find(line).is_none() && alone {
                self.l2.entry(at).sharers |= 1 << core;
                self.place(core, line, true);
            }
            return None;
        }
        let (at, victim) = self.l2.insert(line);
        self.l2.entry(at).sharers = 1 << core;
        let out = victim.and_then(|victim| self.evict(victim));
        self.place(core, line, true);
        out
    }

    /// Takes a line that left the last level out of every L1.
    fn evict(&mut self, mut victim: Victim) -> Option<Victim> {
        let sharers = victim.entry.sharers;
        for core in (0..self.l1.len()).filter(|core| sharers & 1 << core != 0) {
            if let Some(entry) = self.l1[core].remove(victim.line) {
                victim.entry.absorb(&entry, self.propagate);
            }
        }
        self.stats.flagged_evictions += u64::from(victim.entry.fwb);
        victim.entry.dirty.then_some(victim)
    }

    /// Puts a line into an L1; the line that leaves gives its dirt to the last level.
    fn place(&mut self, core: usize, line: u64, exclusive: bool) -> usize {
        let (at, victim) = self.l1[core].insert(line);
        self.l1[core].entry(at).exclusive = exclusive;
        if let Some(victim) = victim {
            let below = self.l2.find(victim.line).expect("the last level is inclusive");
            let entry = self.l2.entry(below);
            entry.sharers &= !(1 << core);
            entry.absorb(&victim.entry, self.propagate);
        }
        at
    }

    /// Cleans a line everywhere, keeping it valid. Answers with its dirt, if it was dirty.
    pub fn write_back(&mut self, line: u64) -> Option<Entry> {
        let at = self.l2.find(line)?;
        let mut dirt = *self.l2.entry(at);
        let sharers = dirt.sharers;
        for core in (0..self.l1.len()).filter(|core| sharers & 1 << core != 0) {
            let Some(there) = self.l1[core].find(line) else { continue };
            let entry = self.l1[core].entry(there);
            dirt.absorb(entry, self.propagate);
            entry.clean();
        }
        self.l2.entry(at).clean();
        dirt.dirty.then_some(dirt)
    }

    /// Takes a line out of all caches, as a store past them does. Answers with its dirt, if it was dirty.
    pub(crate) fn take_out(&mut self, line: u64) -> Option<Entry> {
        self.l2.find(line)?;
        let dirt = self.write_back(line);
        self.l2.remove(line);
        for level in &mut self.l1 {
            level.remove(line);
        }
        dirt
    }

    /// Whether a copy is dirty.
    pub fn is_dirty(&self, line: u64) -> bool {
        let dirty = |level: &Level| level.find(line).is_some_and(|at| level.peek(at).dirty);
        dirty(&self.l2) || self.l1.iter().any(dirty)
    }

    /// Visits one set of all L1s (`upper`) or of the last level, as a scan does: flags dirty lines, and gives those that were
    /// flagged before to `force`, which answers whether it took them.
    pub fn scan(&mut self, upper: bool, set: usize, force: &mut Vec<u64>) -> u64 {
        let mut flagged = 0;
        let cores = if upper { self.l1.len() } else { 1 };
        for core in 0..cores {
            let level = if upper { &mut self.l1[core] } else { &mut self.l2 };
            for at in level.set(set) {
                if level.line(at) == level::INVALID || !level.entry(at).dirty {
                    continue;
                }
                if level.entry(at).fwb {
                    force.push(level.line(at));
                } else {
                    level.entry(at).fwb = true;
                    flagged += 1;
                }
            }
        }
        flagged
    }

    /// Sets of an L1 and of the last level.
    pub fn sets(&self) -> (usize, usize) {
        (self.l1[0].sets(), self.l2.sets())
    }

    /// The oldest log position that is in no NVRAM yet, of all dirty lines. Walks everything: for oracles.
    pub fn oldest(&self) -> u64 {
        let all = self.l1.iter().chain([&self.l2]).flat_map(Level::lines);
        all.filter(|(_, entry)| entry.dirty).map(|(_, entry)| entry.born).min().unwrap_or(u64::MAX)
    }

    /// Inclusion and single ownership, for tests.
    ///
    /// # Panics
    /// If a line of an L1 is missing below, or written by two.
    pub fn check(&self) {
        for (core, level) in self.l1.iter().enumerate() {
            for (line, entry) in level.lines() {
                let at = self.l2.find(line).expect("inclusive");
                let others = self.l1.iter().enumerate().filter(|(other, _)| *other != core);
                let elsewhere = others.filter(|(_, level)| level.find(line).is_some()).count();
                assert!(!entry.exclusive || elsewhere == 0, "line {line} is exclusive and shared");
                assert!(!entry.dirty || entry.exclusive, "line {line} is dirty and shared");
                assert!(
                    self.l2.peek(at).sharers & 1 << core != 0,
                    "line {line}: the directory has lost a sharer"
                );
            }
        }
    }

    fn bank(&mut self, line: u64, now: Ps) -> Ps {
        let bank = line as usize & (self.banks.len() - 1);
        let start = now.max(self.banks[bank]);
        self.banks[bank] = start + self.bank_time;
        start
    }
}
