//! `optane`: a buffer of 256-byte lines in front of the medium (Yang et al., FAST 2020; VANS, MICRO 2020;
//! `docs/models/nvmm.md`).
//!
//! ```text
//!            64 B lines                   64 x 256 B, LRU                256 B
//!  core ─────────────► write pending ─────► buffer of a DIMM ─────────► media: one read, one write at a time
//!         accepted      queue (ADR)         4-bit mask, dirty            read 38.8 ns, write 111.3 ns
//! ```
//!
//! | access | buffer | media |
//! |---|---|---|
//! | read, hit | – | – |
//! | read, miss | line enters clean | read 256 B |
//! | write, hit | quarter merges | – |
//! | write, miss | line enters with its quarter | – |
//! | fourth quarter written (`drain = full`) | line becomes clean | write 256 B |
//! | a dirty line must go | – | write 256 B, after a read of 256 B when a quarter is missing |
//!
//! A write is durable when the write pending queue has accepted it; it waits only while the media is more
//! than `queue` accesses behind. Bandwidth therefore follows from what reaches the media:
//!
//! ```text
//! effective write ratio (EWR) = bytes written by the CPU / bytes written to the media
//! random 64 B 0.25 · random 128 B 0.5 · aligned 256 B 1 · sequential 1 while at most 64 lines are open
//! ```
//!
//! Results within a tenth of 64 open lines depend on the policy of replacement more than on the media.
//!
//! # Mechanisms that a setting turns on
//!
//! Off, a store waits until its lines are accepted, a load call waits for its longest access, or for all of them `parallel` at
//! once, and reads and writes of the media overlap.
//!
//! * `store_line`: stores are posted. *n* lines take *n* times this from when their copy began, and a fence waits until
//!   `write_accept` after the last of them.
//! * `fetch`: a store into the cache loads its lines first, in the background: they take the load's share of the core and of the
//!   media.
//! * `window`: the first load of a copy takes its latency, that of a miss unless the task goes through the region in order, and
//!   `parallel` are in flight after it; a load that follows another without a step or fence between overlaps with it.
//! * `loads`: the first use of metadata takes the load alone, without a miss of DRAM beside it, since the latency that was measured
//!   is the whole.
//! * `timeline`: reads and writes of the media take turns; only the reads of partial lines that leave the buffer do not count.
//!   `turn` is what the media take to go from reads to writes of other lines, or back.
//! * `write_streams`: of a line whose quarters come beside those of *w* tasks, `(w / write_streams)^power` parts are written one by
//!   one. `read_streams`: the same of lines that are read.
//!
//! ```text
//! factor(w) = 1                        w <= streams        a full line takes `factor` media accesses,
//!             (w / streams)^power      else                one with q quarters at most q
//! ```
//!
//! The law stands for quarters of many tasks that reach a DIMM in turns: a line leaves the buffer before the rest of it has come.
//! *w* counts the tasks that have an access in a DIMM when a line comes, on the mean of an interleaved set. Lines that the model
//! brings in one event cannot interleave by themselves, so this is the law of the effective write ratio, and nothing is counted
//! twice.

use parking_lot::{Mutex, MutexGuard};
use rand::RngExt;
use rustc_hash::FxHashMap;
use sim::{Activity, Nanos, PAGE_BYTES, Rate, Rng, Seed};

use crate::cost::{CostModel, Figure, clock_runs, service_ps};
use crate::medium::{MediumError, MediumType, ParamKind, ParamSpec, Params};

/// A line of the buffer and of the media.
const WIDE: u64 = 256;
const QUARTER: u64 = 64;
const FULL: u8 = 0b1111;
const PAGE: u64 = PAGE_BYTES as u64;

/// What the model is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// DIMMs; pages alternate between them.
    pub dimms: u64,
    /// Buffered lines of 256 B in each DIMM.
    pub buffer_lines: usize,
    /// A read that the buffer serves.
    pub read_hit: Nanos,
    /// A read that goes to the media.
    pub read_miss: Nanos,
    /// Until a write is accepted.
    pub write_accept: Nanos,
    /// Media read bandwidth of a DIMM.
    pub read_bandwidth: Rate,
    /// Media write bandwidth of a DIMM.
    pub write_bandwidth: Rate,
    /// Media accesses that a DIMM may be behind before writes wait.
    pub queue: u64,
    /// Line accesses of one copy that are in flight together.
    pub parallel: u64,
    /// Evict a line at random instead of the least recently used one.
    pub random_replacement: bool,
    /// Write a line back as soon as its four quarters are dirty.
    pub drain_full: bool,
    /// Posted stores: what a line takes the core. Zero: a store waits until it is accepted.
    pub store_line: Nanos,
    /// Stores into the cache load their lines first.
    pub fetches: bool,
    /// Loads that follow each other at once overlap, and the first of a copy does not.
    pub window: bool,
    /// The time of a load is all that an access takes, not what it takes longer than DRAM.
    pub loads_whole: bool,
    /// Reads and writes of the media take turns.
    pub one_timeline: bool,
    /// Going from reads to writes, or back.
    pub turn: Nanos,
    /// Tasks that write, or read, at once without loss. Zero: any number.
    pub streams: Streams,
}

/// From how many tasks on the quarters of a line come apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    /// Of writes.
    pub write: u64,
    /// Of reads.
    pub read: u64,
    /// The power of the law, in thousandths.
    pub power_per_mille: u64,
}

/// What the media do for an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

/// For what lines are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The task waits for them.
    Use,
    /// They are about to be stored to.
    Store,
}

/// A task that has an access in a DIMM.
#[derive(Clone, Copy, Debug)]
struct Stream {
    task: u32,
    until_ps: u64,
}

/// What a task has under way: times in nanoseconds of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// When all that it has posted is accepted.
    accepted: u64,
    /// When its last load ended, if nothing but time has come since; 0: none.
    loaded: u64,
    /// The line of the media that follows the last one that it has loaded.
    next_line: u64,
}

/// Of a run: by the number of the task.
#[derive(Debug, Default)]
struct Posted {
    run: u32,
    tasks: Vec<Pending>,
    /// Tasks that have an access in the DIMMs, and some that had one.
    streams: Vec<Stream>,
}

impl Posted {
    /// This, and empty if it is that of another run.
    fn of_run(&mut self) -> &mut Self {
        let run = sim::task::run_number().unwrap_or(0);
        if self.run != run {
            *self = Self { run, ..Self::default() };
        }
        self
    }
}

/// A line in the buffer, and its neighbours in the order of use.
#[derive(Clone, Copy, Debug)]
struct Buffered {
    tag: u64,
    /// Quarters that can be read here.
    valid: u8,
    /// Quarters that the media does not have yet.
    dirty: u8,
    newer: usize,
    older: usize,
}

/// No neighbour.
const END: usize = usize::MAX;

/// What a DIMM has done.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    issued_lines: u64,
    media_reads: u64,
    media_writes: u64,
    read_hits: u64,
    read_misses: u64,
}

#[derive(Debug)]
struct Dimm {
    /// Its number, from which its random numbers are drawn.
    number: u64,
    /// The run in which its times mean something; 0: none.
    run: u32,
    lines: Vec<Buffered>,
    slots: FxHashMap<u64, usize>,
    newest: usize,
    oldest: usize,
    /// When the media has done the reads, and the writes, that it was given. The two overlap: otherwise the
    /// reads of partial lines would take bandwidth from the writes, which measurements do not show (Yang et
    /// al., FAST 2020: bandwidth is EWR times that of the media).
    read_free_ps: u64,
    write_free_ps: u64,
    /// What the media did last: what comes next may have to wait for the turn.
    way: Way,
    /// Tasks that have an access in a DIMM of the set, on the mean, when the present one came.
    beside: usize,
    rng: Rng,
    traffic: Traffic,
}

/// The model.
#[derive(Debug)]
pub struct Optane {
    shape: Shape,
    media_read_ps: u64,
    media_write_ps: u64,
    /// Media accesses for a full line beside so many tasks, in thousandths: `factor(w)`.
    write_factors: Box<[u64]>,
    read_factors: Box<[u64]>,
    dimms: Vec<Mutex<Dimm>>,
    posted: Mutex<Posted>,
}

/// Tasks beyond this many cost no more: a full line has four quarters.
const MOST_STREAMS: usize = 256;

/// `factor(w)` in thousandths, for each number of tasks.
fn factors(streams: u64, power_per_mille: u64) -> Box<[u64]> {
    let power = power_per_mille as f64 / 1e3;
    let factor = |tasks: usize| match streams {
        0 => 1_000,
        streams => {
            let ratio = (tasks as f64 / streams as f64).max(1.0);
            (sim::math::powf(ratio, power).min(4.0) * 1e3).round() as u64
        }
    };
    (0..=MOST_STREAMS).map(factor).collect()
}

impl Optane {
    /// Cold buffers.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            media_read_ps: service_ps(WIDE, shape.read_bandwidth),
            media_write_ps: service_ps(WIDE, shape.write_bandwidth),
            write_factors: factors(shape.streams.write, shape.streams.power_per_mille),
            read_factors: factors(shape.streams.read, shape.streams.power_per_mille),
            posted: Mutex::default(),
            dimms: (0..shape.dimms.max(1)).map(|n| Mutex::new(Dimm::new(n, Seed(0)))).collect(),
        }
    }

    /// The DIMM that has the page at `off`; cold in a run that it has not been used in.
    fn dimm(&self, off: u64) -> MutexGuard<'_, Dimm> {
        let mut dimm = self.dimms[(off / PAGE % self.dimms.len() as u64) as usize].lock();
        let run = sim::task::run_number().unwrap_or(0);
        if dimm.run != run {
            *dimm = Dimm { run, ..Dimm::new(dimm.number, sim::seed()) };
        }
        dimm
    }

    fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for dimm in &self.dimms {
            let traffic = dimm.lock().traffic;
            sum.issued_lines += traffic.issued_lines;
            sum.media_reads += traffic.media_reads;
            sum.media_writes += traffic.media_writes;
            sum.read_hits += traffic.read_hits;
            sum.read_misses += traffic.read_misses;
        }
        sum
    }

    /// The effective write ratio so far; 0 before anything reached the media.
    pub fn effective_write_ratio(&self) -> f64 {
        let traffic = self.traffic();
        ratio(traffic.issued_lines * QUARTER, traffic.media_writes * WIDE)
    }

    /// What a media access for a line with so many quarters takes beside the streams of the DIMM.
    #[inline]
    fn service_ps(dimm: &Dimm, factors: &[u64], alone_ps: u64, quarters: u8) -> u64 {
        let factor = factors[dimm.beside.min(MOST_STREAMS)];
        alone_ps * factor.min(u64::from(quarters.count_ones().max(1)) * 1_000) / 1_000
    }

    /// Counts the tasks that have an access in a DIMM, this one among them: pages alternate between the DIMMs of a set, so its
    /// tasks are taken for spread over them.
    fn join_streams(&self, dimm: &mut Dimm) {
        if self.shape.streams.write == 0 && self.shape.streams.read == 0 {
            return;
        }
        let (now_ps, task) = (sim::now().0 * 1_000, sim::task::current_id().unwrap_or_default());
        let mut posted = self.posted.lock();
        let streams = &mut posted.of_run().streams;
        streams.retain(|stream| stream.until_ps > now_ps && stream.task != task);
        streams.push(Stream { task, until_ps: now_ps });
        dimm.beside = streams.len().div_ceil(self.dimms.len());
    }

    /// Until when the access of this task keeps a DIMM, after [`Optane::join_streams`].
    fn leave_streams(&self, until_ps: u64) {
        if let Some(stream) = self.posted.lock().streams.last_mut() {
            stream.until_ps = until_ps;
        }
    }

    /// Changes what the current task has under way.
    fn pending<T>(&self, change: impl FnOnce(&mut Pending) -> T) -> T {
        let task = sim::task::current_id().unwrap_or_default() as usize;
        let mut posted = self.posted.lock();
        let posted = posted.of_run();
        if posted.tasks.len() <= task {
            posted.tasks.resize(task + 1, Pending::default());
        }
        change(&mut posted.tasks[task])
    }

    /// Whether anything is kept of a task between its calls.
    fn keeps_pending(&self) -> bool {
        self.shape.window || self.posts_stores()
    }

    /// Loads a run of quarters of one wide line; returns its latency.
    fn load_wide(&self, dimm: &mut Dimm, tag: u64, quarters: u8, purpose: Purpose) -> Nanos {
        let count = u64::from(quarters.count_ones());
        let slot = dimm.find(tag);
        if slot.is_some_and(|slot| dimm.lines[slot].valid & quarters == quarters) {
            dimm.traffic.read_hits += count;
            return self.shape.read_hit * count;
        }
        let slot = slot.unwrap_or_else(|| self.enter(dimm, tag));
        dimm.lines[slot].valid = FULL;
        match purpose {
            Purpose::Use => {
                let service_ps = Self::service_ps(dimm, &self.read_factors, self.media_read_ps, quarters);
                self.use_media(dimm, Way::Read, true, service_ps);
            }
            // Quarters of one task come together, and the media do not turn for them.
            Purpose::Store => self.use_media(dimm, Way::Read, false, self.media_read_ps),
        }
        dimm.traffic.read_misses += 1;
        dimm.traffic.read_hits += count - 1;
        self.shape.read_miss + self.shape.read_hit * (count - 1)
    }

    /// Stores a run of quarters of one wide line.
    fn store_wide(&self, dimm: &mut Dimm, tag: u64, quarters: u8) {
        let slot = dimm.find(tag).unwrap_or_else(|| self.enter(dimm, tag));
        let line = &mut dimm.lines[slot];
        line.valid |= quarters;
        line.dirty |= quarters;
        if self.shape.drain_full && line.dirty == FULL {
            line.dirty = 0;
            self.write_line(dimm, FULL);
        }
        dimm.traffic.issued_lines += u64::from(quarters.count_ones());
    }

    /// Makes room for a line and puts it in, empty.
    fn enter(&self, dimm: &mut Dimm, tag: u64) -> usize {
        let (slot, gone) = dimm.enter(tag, self.shape.buffer_lines.max(1), self.shape.random_replacement);
        if let Some(gone) = gone.filter(|gone| gone.dirty != 0) {
            if gone.valid != FULL {
                // Takes no bandwidth from the writes: Yang et al., FAST 2020, random stores of 64 bytes.
                dimm.read_beside(self.media_read_ps, self.shape.one_timeline);
            }
            self.write_line(dimm, gone.dirty);
        }
        slot
    }

    fn write_line(&self, dimm: &mut Dimm, dirty: u8) {
        let service_ps = Self::service_ps(dimm, &self.write_factors, self.media_write_ps, dirty);
        self.use_media(dimm, Way::Write, true, service_ps);
    }

    /// An access of the media; `turns`: they may have to go from reads to writes for it, or back.
    fn use_media(&self, dimm: &mut Dimm, way: Way, turns: bool, service_ps: u64) {
        if !self.shape.one_timeline {
            return match way {
                Way::Read => dimm.read_media(service_ps),
                Way::Write => dimm.write_media(service_ps),
            };
        }
        let turns = turns && std::mem::replace(&mut dimm.way, way) != way;
        let turn_ps = if turns { self.shape.turn.0 * 1_000 } else { 0 };
        let free_ps = dimm.write_free_ps.max(sim::now().0 * 1_000) + turn_ps + service_ps;
        (dimm.read_free_ps, dimm.write_free_ps) = (free_ps, free_ps);
        match way {
            Way::Read => dimm.traffic.media_reads += 1,
            Way::Write => dimm.traffic.media_writes += 1,
        }
    }

    /// Loads lines; `goes_on`: as a part of a copy that has begun.
    fn load_lines(&self, off: u64, bytes: u64, goes_on: bool) {
        if !clock_runs() || bytes == 0 {
            return;
        }
        sim::interact();
        let start = sim::now();
        let lines = (off + bytes - 1) / QUARTER - off / QUARTER + 1;
        let mut dimm = self.dimm(off);
        self.join_streams(&mut dimm);
        let (mut sum, mut longest) = (Nanos::ZERO, Nanos::ZERO);
        let misses = dimm.traffic.read_misses;
        for (tag, quarters) in wide_runs(off, lines) {
            let latency = self.load_wide(&mut dimm, tag, quarters, Purpose::Use);
            sum += latency;
            longest = longest.max(latency / u64::from(quarters.count_ones()));
        }
        let missed = dimm.traffic.read_misses > misses;
        let media_done = if missed { Nanos(dimm.read_free_ps.div_ceil(1_000)) } else { start };
        self.leave_streams(media_done.0 * 1_000);
        drop(dimm);
        sim::medium(self.time_of_loads((off / WIDE, lines), (sum, longest, missed), goes_on));
        sim::medium_until(Activity::MEDIUM_WAIT, media_done);
        if self.shape.window {
            let (end, next_line) = (sim::now().0, (off + bytes).div_ceil(WIDE));
            self.pending(|pending| (pending.loaded, pending.next_line) = (end, next_line));
        }
    }

    /// What loads of so many lines take the core whose latencies come to `sum`. With a window `parallel` of them are in flight;
    /// where none is before them, the first takes all of its latency: the longest mean of a line where the processor has seen the
    /// addresses come, that of a miss elsewhere.
    fn time_of_loads(
        &self,
        (first, lines): (u64, u64),
        (sum, longest, missed): (Nanos, Nanos, bool),
        goes_on: bool,
    ) -> Nanos {
        let parallel = self.shape.parallel.max(1);
        if !self.shape.window {
            return (sum / lines.min(parallel).max(1)).max(longest);
        }
        let before = self.pending(|pending| *pending);
        if goes_on || before.loaded > 0 && before.loaded == sim::now().0 {
            return sum / parallel;
        }
        let expected = before.next_line.abs_diff(first) <= 1 && before.next_line > 0;
        let alone = if missed && !expected { longest.max(self.shape.read_miss) } else { longest };
        alone + Nanos(sum.0.saturating_sub(alone.0)) / parallel
    }

    /// A store that waits until its lines are accepted.
    fn write_accepted(&self, lines: u64, accepted: Nanos) {
        sim::medium(self.shape.write_accept * lines.div_ceil(self.shape.parallel.max(1)));
        sim::medium_until(Activity::MEDIUM_WAIT, accepted);
    }

    /// A posted store, whose copy began at `started`.
    fn write_posted(&self, lines: u64, started: Nanos, accepted: Nanos) {
        let issued = started + self.shape.store_line * lines;
        sim::medium_until(sim::ledger::current_scope(), issued);
        sim::medium_until(Activity::MEDIUM_WAIT, accepted);
        let until = sim::now() + self.shape.write_accept;
        self.pending(|pending| (pending.accepted, pending.loaded) = (until.0, 0));
    }
}

impl Dimm {
    fn new(number: u64, seed: Seed) -> Self {
        Self {
            number,
            run: 0,
            lines: Vec::new(),
            slots: FxHashMap::default(),
            newest: END,
            oldest: END,
            read_free_ps: 0,
            write_free_ps: 0,
            way: Way::Read,
            beside: 1,
            rng: seed.derive("media.optane", number).rng(),
            traffic: Traffic::default(),
        }
    }

    /// The slot of a line that is in the buffer; it becomes the newest.
    #[inline]
    fn find(&mut self, tag: u64) -> Option<usize> {
        let slot = *self.slots.get(&tag)?;
        if slot != self.newest {
            self.unlink(slot);
            self.link_newest(slot);
        }
        Some(slot)
    }

    /// Puts a line in, in a new slot or in that of a line that has to go.
    fn enter(&mut self, tag: u64, capacity: usize, random: bool) -> (usize, Option<Buffered>) {
        let line = Buffered { tag, valid: 0, dirty: 0, newer: END, older: END };
        let (slot, gone) = if self.lines.len() < capacity {
            self.lines.push(line);
            (self.lines.len() - 1, None)
        } else {
            let slot = if random { self.rng.random_range(0..self.lines.len()) } else { self.oldest };
            self.unlink(slot);
            (slot, Some(std::mem::replace(&mut self.lines[slot], line)))
        };
        if let Some(gone) = gone {
            self.slots.remove(&gone.tag);
        }
        self.slots.insert(tag, slot);
        self.link_newest(slot);
        (slot, gone)
    }

    fn unlink(&mut self, slot: usize) {
        let Buffered { newer, older, .. } = self.lines[slot];
        match self.lines.get_mut(newer) {
            Some(line) => line.older = older,
            None => self.newest = older,
        }
        match self.lines.get_mut(older) {
            Some(line) => line.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, slot: usize) {
        let older = std::mem::replace(&mut self.newest, slot);
        self.lines[slot].newer = END;
        self.lines[slot].older = older;
        match self.lines.get_mut(older) {
            Some(line) => line.newer = slot,
            None => self.oldest = slot,
        }
    }

    fn read_media(&mut self, service_ps: u64) {
        self.read_free_ps = self.read_free_ps.max(sim::now().0 * 1_000) + service_ps;
        self.traffic.media_reads += 1;
    }

    /// A read of the media that no task waits for. On one timeline it comes between other accesses.
    fn read_beside(&mut self, service_ps: u64, one_timeline: bool) {
        if one_timeline {
            self.traffic.media_reads += 1;
        } else {
            self.read_media(service_ps);
        }
    }

    fn write_media(&mut self, service_ps: u64) {
        self.write_free_ps = self.write_free_ps.max(sim::now().0 * 1_000) + service_ps;
        self.traffic.media_writes += 1;
    }
}

/// Cuts lines into runs of quarters of one wide line: (wide line, mask).
fn wide_runs(off: u64, lines: u64) -> impl Iterator<Item = (u64, u8)> {
    let (first, end) = (off / QUARTER, off / QUARTER + lines);
    (first / 4..end.div_ceil(4)).map(move |wide| {
        let (from, to) = (first.max(wide * 4) - wide * 4, end.min(wide * 4 + 4) - wide * 4);
        (wide, ((1_u32 << to) - (1_u32 << from)) as u8)
    })
}

impl CostModel for Optane {
    fn name(&self) -> &'static str {
        "optane"
    }

    fn load(&self, off: u64, bytes: u64) {
        self.load_lines(off, bytes, false);
    }

    fn load_on(&self, off: u64, bytes: u64) {
        self.load_lines(off, bytes, self.shape.window);
    }

    fn loads_whole(&self) -> bool {
        self.shape.loads_whole
    }

    fn write(&self, off: u64, lines: u64) {
        self.write_since(off, lines, sim::now());
    }

    fn posts_stores(&self) -> bool {
        self.shape.store_line > Nanos::ZERO
    }

    fn write_since(&self, off: u64, lines: u64, started: Nanos) {
        if !clock_runs() || lines == 0 {
            return;
        }
        sim::interact();
        let mut dimm = self.dimm(off);
        self.join_streams(&mut dimm);
        for (tag, quarters) in wide_runs(off, lines) {
            self.store_wide(&mut dimm, tag, quarters);
        }
        let slack_ps = self.shape.queue * self.media_write_ps;
        let accepted_ps = dimm.write_free_ps.saturating_sub(slack_ps);
        let until_ps = dimm.write_free_ps;
        self.leave_streams(until_ps);
        drop(dimm);
        let accepted = Nanos(accepted_ps.div_ceil(1_000));
        if self.posts_stores() {
            self.write_posted(lines, started, accepted);
        } else {
            self.write_accepted(lines, accepted);
        }
    }

    /// In the background: the core's share of the loads, and the media's time, which what is written next waits for.
    fn fetch(&self, off: u64, bytes: u64) {
        if !clock_runs() || bytes == 0 || !self.shape.fetches {
            return;
        }
        sim::interact();
        let lines = (off + bytes - 1) / QUARTER - off / QUARTER + 1;
        let mut dimm = self.dimm(off);
        let mut sum = Nanos::ZERO;
        for (tag, quarters) in wide_runs(off, lines) {
            sum += self.load_wide(&mut dimm, tag, quarters, Purpose::Store);
        }
        drop(dimm);
        sim::medium(sum / self.shape.parallel.max(1));
    }

    fn fence(&self) {
        if !clock_runs() || !self.keeps_pending() {
            return;
        }
        let accepted = self.pending(|pending| {
            pending.loaded = 0;
            pending.accepted
        });
        sim::medium_until(Activity::MEDIUM_WAIT, Nanos(accepted));
    }

    /// Of a full media line.
    fn line_time(&self) -> Nanos {
        let accept = self.shape.write_accept / self.shape.parallel.max(1);
        accept.max(Nanos(self.media_write_ps / 4_000))
    }

    fn reset(&self) {
        *self.posted.lock() = Posted::default();
        for (number, dimm) in self.dimms.iter().enumerate() {
            *dimm.lock() = Dimm::new(number as u64, Seed(0));
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let traffic = self.traffic();
        let reads = traffic.read_hits + traffic.read_misses;
        vec![
            ("read_bytes_per_s", (self.shape.read_bandwidth.0 * self.shape.dimms) as f64),
            ("write_bytes_per_s", (self.shape.write_bandwidth.0 * self.shape.dimms) as f64),
            ("effective_write_ratio", self.effective_write_ratio()),
            ("read_hit_ratio", ratio(traffic.read_hits, reads)),
            ("media_read_bytes", (traffic.media_reads * WIDE) as f64),
            ("media_written_bytes", (traffic.media_writes * WIDE) as f64),
        ]
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The line of `optane` in the table of media.
pub(crate) struct OptaneType;

const SPEC: &str = "docs/models/nvmm.md, optane";

const fn param(name: &'static str, kind: ParamKind, default: &'static str, help: &'static str) -> ParamSpec {
    ParamSpec { name, kind, default, help, source: SPEC }
}

impl MediumType for OptaneType {
    fn name(&self) -> &'static str {
        "optane"
    }

    fn summary(&self) -> &'static str {
        "256-byte media lines behind a small buffer: effective write ratio, read-modify-write"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        use ParamKind::{Choice, Count, Rate, Time};
        const YES: ParamKind = Choice(&["no", "yes"]);
        const {
            &[
                param("dimms", Count, "1", "DIMMs that 4 KiB pages alternate between"),
                param("buffer_lines", Count, "64", "lines of 256 B in the buffer of a DIMM"),
                param("read_hit", Time, "124ns", "a read that the buffer serves, for the sequential mean"),
                param("read_miss", Time, "305ns", "a read that goes to the media"),
                param("write_accept", Time, "90ns", "until a written line is accepted"),
                param("read_bandwidth", Rate, "6.6GB/s", "media reads of a DIMM"),
                param("write_bandwidth", Rate, "2.3GB/s", "media writes of a DIMM"),
                param("queue", Count, "4", "media writes that a DIMM may be behind before writes wait"),
                param(
                    "parallel",
                    Count,
                    "10",
                    "line accesses of one copy in flight together: line fill buffers",
                ),
                param("replace", Choice(&["lru", "random"]), "lru", "which buffered line goes"),
                param(
                    "drain",
                    Choice(&["full", "lazy"]),
                    "full",
                    "full: a line with four dirty quarters is written at once",
                ),
                param(
                    "store_line",
                    Time,
                    "0ns",
                    "posted stores: what a line takes the core; zero: none is posted",
                ),
                param("fetch", YES, "no", "yes: a store into the cache loads its lines first"),
                param("window", YES, "no", "yes: loads that follow each other at once overlap"),
                param(
                    "loads",
                    Choice(&["extra", "whole"]),
                    "extra",
                    "whole: a load's time is all of it; extra: what it takes longer than DRAM",
                ),
                param(
                    "timeline",
                    Choice(&["two", "one"]),
                    "two",
                    "one: reads and writes of the media take turns",
                ),
                param("turn", Time, "0ns", "one timeline: from reads to writes of other lines, or back"),
                param("write_streams", Count, "0", "tasks that write at once without loss; zero: any number"),
                param("read_streams", Count, "0", "tasks that read at once without loss; zero: any number"),
                param(
                    "streams_power",
                    Count,
                    "540",
                    "power of the loss beyond so many tasks, in thousandths",
                ),
            ]
        }
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        Ok(Box::new(Optane::new(Shape {
            dimms: params.count("dimms").max(1),
            buffer_lines: params.count("buffer_lines") as usize,
            read_hit: params.time("read_hit"),
            read_miss: params.time("read_miss"),
            write_accept: params.time("write_accept"),
            read_bandwidth: params.rate("read_bandwidth"),
            write_bandwidth: params.rate("write_bandwidth"),
            queue: params.count("queue"),
            parallel: params.count("parallel"),
            random_replacement: params.choice("replace") == "random",
            drain_full: params.choice("drain") == "full",
            store_line: params.time("store_line"),
            fetches: params.choice("fetch") == "yes",
            window: params.choice("window") == "yes",
            loads_whole: params.choice("loads") == "whole",
            one_timeline: params.choice("timeline") == "one",
            turn: params.time("turn"),
            streams: Streams {
                write: params.count("write_streams"),
                read: params.count("read_streams"),
                power_per_mille: params.count("streams_power"),
            },
        })))
    }
}
