//! Force write-back: scans over the caches, and how far they let the log's head go.
//!
//! | fwb, dirty | at a scan | when it leaves or is cleaned | at a store |
//! |---|---|---|---|
//! | 0, 0 | stays | – | 0, 1 |
//! | 0, 1 | 1, 1 | 0, 0 | stays |
//! | 1, 1 | written back, 0, 0 | 0, 0 | stays |
//!
//! A line that was dirty when scan k began is written back by the end of scan k+1, if its bit moved with it. So when all writes
//! that were under way at that end are durable, the log is needed only from where its tail was at the start of scan k; and from
//! the first record of the oldest transaction whose commit is not durable, because only its undo records can take stolen data
//! back. Scans go over all L1s at once and then over the last level, a set a cycle and bank.

use std::collections::VecDeque;

use crate::machine::{Machine, Ps};

/// Cycles of scanning done in one event.
const CHUNK: u64 = 64;

/// Where a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// None is under way.
    Idle,
    /// At this set of the L1s.
    Upper(usize),
    /// At this set of the last level.
    Lower(usize),
}

/// Counts of the scans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanStats {
    /// Scans that ended.
    pub scans: u64,
    /// Lines that got their bit.
    pub flagged: u64,
    /// Lines that were written back.
    pub forced: u64,
    /// Advances of the head.
    pub advances: u64,
    /// Scans that the fill of the log started.
    pub by_watermark: u64,
}

/// The scanner.
#[derive(Clone, Debug)]
pub struct Scanner {
    /// Where it is.
    pub phase: Phase,
    /// When it acts next.
    pub next: Ps,
    /// Lines that wait for the write queue.
    pub force: Vec<u64>,
    period: Ps,
    cycle: Ps,
    banks: usize,
    started: Ps,
    timer: bool,
    watermark: bool,
    lag: usize,
    /// Tail of the log when the last three scans began, newest first; `None` before there was one.
    tails: [Option<u64>; 3],
    /// Heads that wait until all writes below a number are durable.
    pending: VecDeque<(u64, u64)>,
    /// Counts.
    pub stats: ScanStats,
}

impl Scanner {
    /// Of a machine.
    pub fn new(machine: &Machine) -> Self {
        let cycle = machine.cycle();
        let period = machine.fwb_period * cycle;
        let timer = machine.fwb_trigger != 2;
        Self {
            phase: Phase::Idle,
            next: if timer { period } else { Ps::MAX },
            force: Vec::new(),
            period,
            cycle,
            banks: machine.l2_banks as usize,
            started: 0,
            timer,
            watermark: machine.fwb_trigger != 1,
            lag: machine.fwb_lag as usize,
            tails: [None; 3],
            pending: VecDeque::new(),
            stats: ScanStats::default(),
        }
    }

    /// The log is filling up: a scan begins at once, if none is under way.
    pub(crate) fn alarm(&mut self, now: Ps) {
        if self.watermark && self.phase == Phase::Idle && self.next > now {
            self.next = now;
            self.stats.by_watermark += 1;
        }
    }

    /// A scan begins.
    pub fn begin(&mut self, now: Ps, tail: u64) {
        self.started = now;
        self.tails = [Some(tail), self.tails[0], self.tails[1]];
        self.phase = Phase::Upper(0);
    }

    /// The sets to visit now, and whether they are the L1s'; moves on to the next.
    pub fn visit(&mut self, now: Ps, sets: (usize, usize)) -> (bool, std::ops::Range<usize>) {
        let (upper, from, all, step) = match self.phase {
            Phase::Upper(set) => (true, set, sets.0, CHUNK as usize),
            Phase::Lower(set) => (false, set, sets.1, CHUNK as usize * self.banks),
            Phase::Idle => (false, 0, 0, 0),
        };
        let to = (from + step).min(all);
        let parallel = if upper { 1 } else { self.banks };
        self.next = now + (to - from).div_ceil(parallel) as u64 * self.cycle;
        self.phase = match (upper, to == all) {
            (true, false) => Phase::Upper(to),
            (true, true) => Phase::Lower(0),
            (false, _) => Phase::Lower(to),
        };
        (upper, from..to)
    }

    /// Whether all sets were visited.
    pub(crate) fn is_at_end(&self, sets: (usize, usize)) -> bool {
        self.phase == Phase::Lower(sets.1)
    }

    /// A scan ends; writes below `marker` are under way. `full`: the next one begins at once.
    pub fn end(&mut self, now: Ps, marker: u64, full: bool) {
        self.phase = Phase::Idle;
        self.stats.scans += 1;
        if let Some(candidate) = self.tails[self.lag] {
            self.pending.push_back((candidate, marker));
        }
        self.next = match (full && self.watermark, self.timer) {
            (true, _) => now + self.cycle,
            (false, true) => (self.started + self.period).max(now + self.cycle),
            (false, false) => Ps::MAX,
        };
    }

    /// How far the scans let the head go, now that all writes below `durable` are durable.
    pub fn released(&mut self, durable: u64) -> Option<u64> {
        let mut head = None;
        while self.pending.front().is_some_and(|(_, marker)| *marker <= durable) {
            head = self.pending.pop_front().map(|(candidate, _)| candidate);
        }
        head
    }

    /// Whether a head waits for writes.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }
}
