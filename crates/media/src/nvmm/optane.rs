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
    rng: Rng,
    traffic: Traffic,
}

/// The model.
#[derive(Debug)]
pub struct Optane {
    shape: Shape,
    media_read_ps: u64,
    media_write_ps: u64,
    dimms: Vec<Mutex<Dimm>>,
}

impl Optane {
    /// Cold buffers.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            media_read_ps: service_ps(WIDE, shape.read_bandwidth),
            media_write_ps: service_ps(WIDE, shape.write_bandwidth),
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

    /// Loads a run of quarters of one wide line; returns its latency.
    fn load_wide(&self, dimm: &mut Dimm, tag: u64, quarters: u8) -> Nanos {
        let count = u64::from(quarters.count_ones());
        let slot = dimm.find(tag);
        if slot.is_some_and(|slot| dimm.lines[slot].valid & quarters == quarters) {
            dimm.traffic.read_hits += count;
            return self.shape.read_hit * count;
        }
        let slot = slot.unwrap_or_else(|| self.enter(dimm, tag));
        dimm.lines[slot].valid = FULL;
        dimm.read_media(self.media_read_ps);
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
            dimm.write_media(self.media_write_ps);
        }
        dimm.traffic.issued_lines += u64::from(quarters.count_ones());
    }

    /// Makes room for a line and puts it in, empty.
    fn enter(&self, dimm: &mut Dimm, tag: u64) -> usize {
        let (slot, gone) = dimm.enter(tag, self.shape.buffer_lines.max(1), self.shape.random_replacement);
        if let Some(gone) = gone.filter(|gone| gone.dirty != 0) {
            if gone.valid != FULL {
                dimm.read_media(self.media_read_ps);
            }
            dimm.write_media(self.media_write_ps);
        }
        slot
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
        if !clock_runs() || bytes == 0 {
            return;
        }
        sim::interact();
        let start = sim::now();
        let lines = (off + bytes - 1) / QUARTER - off / QUARTER + 1;
        let mut dimm = self.dimm(off);
        let (mut sum, mut longest) = (Nanos::ZERO, Nanos::ZERO);
        let misses = dimm.traffic.read_misses;
        for (tag, quarters) in wide_runs(off, lines) {
            let latency = self.load_wide(&mut dimm, tag, quarters);
            sum += latency;
            longest = longest.max(latency / u64::from(quarters.count_ones()));
        }
        let missed = dimm.traffic.read_misses > misses;
        let media_done = if missed { Nanos(dimm.read_free_ps.div_ceil(1_000)) } else { start };
        drop(dimm);
        let own = (sum / lines.min(self.shape.parallel).max(1)).max(longest);
        sim::medium(own);
        sim::medium_until(Activity::MEDIUM_WAIT, media_done);
    }

    fn write(&self, off: u64, lines: u64) {
        if !clock_runs() || lines == 0 {
            return;
        }
        sim::interact();
        let mut dimm = self.dimm(off);
        for (tag, quarters) in wide_runs(off, lines) {
            self.store_wide(&mut dimm, tag, quarters);
        }
        let slack_ps = self.shape.queue * self.media_write_ps;
        let accepted = Nanos(dimm.write_free_ps.saturating_sub(slack_ps).div_ceil(1_000));
        drop(dimm);
        sim::medium(self.shape.write_accept * lines.div_ceil(self.shape.parallel.max(1)));
        sim::medium_until(Activity::MEDIUM_WAIT, accepted);
    }

    fn fence(&self) {}

    /// Of a full media line.
    fn line_time(&self) -> Nanos {
        let accept = self.shape.write_accept / self.shape.parallel.max(1);
        accept.max(Nanos(self.media_write_ps / 4_000))
    }

    fn reset(&self) {
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
        const {
            &[
                param("dimms", Count, "1", "DIMMs that 4 KiB pages alternate between"),
                param("buffer_lines", Count, "64", "lines of 256 B in the buffer of a DIMM"),
                param(
                    "read_hit",
                    Time,
                    "124ns",
                    "a read that the buffer serves; chosen to meet the sequential mean",
                ),
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
        })))
    }
}
