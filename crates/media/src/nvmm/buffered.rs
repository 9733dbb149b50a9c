//! `buffered`: banks of cells, each behind a small buffer (`docs/models/nvmm.md`).
//!
//! ```text
//! bank of a line       (offset / size) mod banks
//! hit, rate = 0        the line is in the block of `size` bytes that its bank served last
//! hit, rate > 0        the line comes when `rate` per cent were added up once more: no chance, no variance
//! a hit                as DRAM: nothing besides the copy
//! a miss               its bank is busy by `read` or `write` less `hit`
//! an access            until the last of its banks is done; banks work at once, and one miss after the other
//! ```
//!
//! Single lines therefore take `h · hit + (1 - h) · read` in the mean, in which `hit` is part of DRAM's own time. With rows as
//! large as DRAM's this is the classic model of NVM; with a small buffer, or a given rate, the revised one.

use parking_lot::Mutex;
use sim::{Activity, Bytes, LINE_BYTES, Nanos};

use crate::cost::{CostModel, Figure, clock_runs};
use crate::medium::{MediumError, MediumType, ParamKind, ParamSpec, Params};

/// What the model is set to.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of a bank's buffer, a power of two, at least a line.
    pub size: u64,
    /// Of a hundred accesses so many hit; 0: those whose block the buffer holds.
    pub rate: u64,
    /// Banks.
    pub banks: u64,
    /// An access that hits.
    pub hit: Nanos,
    /// A load that misses.
    pub read: Nanos,
    /// A write that misses.
    pub write: Nanos,
}

/// The model.
#[derive(Debug)]
pub struct Buffered {
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    banks: Vec<Bank>,
    /// What was added up of the rate, for loads and for writes.
    sums: [u64; 2],
    accesses: u64,
    hits: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    free: Nanos,
    block: Option<u64>,
    /// What the access at hand keeps it busy.
    busy: Nanos,
}

impl State {
    fn new(settings: &Settings) -> Self {
        Self { banks: vec![Bank::default(); settings.banks as usize], sums: [0; 2], accesses: 0, hits: 0 }
    }
}

impl Buffered {
    /// A cold medium.
    pub fn new(settings: Settings) -> Self {
        Self { settings, state: Mutex::new(State::new(&settings)) }
    }

    /// `lines` lines from offset `off` on are loaded, or written.
    fn access(&self, off: u64, lines: u64, writes: bool) {
        if !clock_runs() || lines == 0 {
            return;
        }
        sim::interact();
        let start = sim::now();
        let (alone, done) = self.serve(start, off, lines, writes);
        sim::medium_until(sim::ledger::current_scope(), start + alone);
        sim::medium_until(Activity::MEDIUM_WAIT, done);
    }

    /// What the access takes if all banks are free, and when it is done.
    fn serve(&self, start: Nanos, off: u64, lines: u64, writes: bool) -> (Nanos, Nanos) {
        let Settings { size, rate, hit, read, write, .. } = self.settings;
        let miss = if writes { write } else { read }.since(hit);
        let mut state = self.state.lock();
        let state = &mut *state;
        let (mut alone, mut done) = (Nanos::ZERO, start);
        state.banks.iter_mut().for_each(|bank| bank.busy = Nanos::ZERO);
        let first = off / LINE_BYTES as u64;
        for line in first..first + lines {
            let block = line * LINE_BYTES as u64 / size;
            let count = state.banks.len() as u64;
            let bank = &mut state.banks[(block % count) as usize];
            let held = bank.block.replace(block) == Some(block);
            let sum = &mut state.sums[usize::from(writes)];
            *sum += rate;
            let hits = if rate == 0 { held } else { *sum >= 100 };
            *sum %= 100;
            state.accesses += 1;
            state.hits += u64::from(hits);
            if !hits {
                bank.busy += miss;
                bank.free = bank.free.max(start) + miss;
                alone = alone.max(bank.busy);
                done = done.max(bank.free);
            }
        }
        (alone, done)
    }

    /// The share of accesses that hit, since the last reset.
    pub(crate) fn hit_ratio(&self) -> f64 {
        let state = self.state.lock();
        state.hits as f64 / state.accesses.max(1) as f64
    }
}

impl CostModel for Buffered {
    fn name(&self) -> &'static str {
        "buffered"
    }

    fn load(&self, off: u64, bytes: u64) {
        let lines = (off + bytes).div_ceil(LINE_BYTES as u64) - off / LINE_BYTES as u64;
        self.access(off, lines, false);
    }

    fn write(&self, off: u64, lines: u64) {
        self.access(off, lines, true);
    }

    fn fence(&self) {}

    /// Of one line of many in sequence.
    fn line_time(&self) -> Nanos {
        let Settings { size, rate, hit, write, .. } = self.settings;
        let miss = write.since(hit);
        if rate == 0 { miss / (size / LINE_BYTES as u64) } else { miss * (100 - rate) / 100 }
    }

    fn reset(&self) {
        *self.state.lock() = State::new(&self.settings);
    }

    fn figures(&self) -> Vec<Figure> {
        vec![("hit_ratio", self.hit_ratio())]
    }
}

/// The line of `buffered` in the table of media.
pub(crate) struct BufferedType;

const ROWS: &str =
    "row hits and conflicts of the simulation in HPCA 2018 (Ogleari et al.), table of parameters";
const OURS: &str = "presets set it (docs/models/nvmm.md)";

impl MediumType for BufferedType {
    fn name(&self) -> &'static str {
        "buffered"
    }

    fn summary(&self) -> &'static str {
        "banks behind a buffer each: hits as DRAM, misses that keep the bank busy"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const fn time(name: &'static str, default: &'static str, help: &'static str) -> ParamSpec {
            ParamSpec { name, kind: ParamKind::Time, default, help, source: ROWS }
        }
        const {
            &[
                ParamSpec {
                    name: "size",
                    kind: ParamKind::Size,
                    default: "2KiB",
                    help: "bytes of each bank's buffer: a power of two from 64 B to 64 KiB",
                    source: OURS,
                },
                ParamSpec {
                    name: "rate",
                    kind: ParamKind::Count,
                    default: "0",
                    help: "of a hundred accesses so many hit; 0: those whose block the buffer holds",
                    source: OURS,
                },
                ParamSpec {
                    name: "banks",
                    kind: ParamKind::Count,
                    default: "8",
                    help: "banks",
                    source: ROWS,
                },
                time("hit", "36ns", "an access that hits, which DRAM takes as well"),
                time("read", "100ns", "a load that misses"),
                time("write", "300ns", "a write that misses"),
            ]
        }
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let wrong = |name: &str, value: String, expected: &str| MediumError::BadValue {
            medium: self.name().to_owned(),
            name: name.to_owned(),
            value,
            expected: expected.to_owned(),
        };
        let settings = Settings {
            size: params.size("size").0,
            rate: params.count("rate"),
            banks: params.count("banks"),
            hit: params.time("hit"),
            read: params.time("read"),
            write: params.time("write"),
        };
        if !settings.size.is_power_of_two() || !(64..=64 << 10).contains(&settings.size) {
            return Err(wrong("size", Bytes(settings.size).to_string(), "a power of two from 64B to 64KiB"));
        }
        if settings.rate > 100 {
            return Err(wrong("rate", settings.rate.to_string(), "0 to 100"));
        }
        if !(1..=1024).contains(&settings.banks) {
            return Err(wrong("banks", settings.banks.to_string(), "1 to 1024"));
        }
        Ok(Box::new(Buffered::new(settings)))
    }
}
