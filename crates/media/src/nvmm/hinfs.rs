//! `hinfs`: the emulator of the HiNFS paper (EuroSys 2016, section 5.1; `docs/models/nvmm.md`).
//!
//! Every flushed line costs an extra latency `L`; loads cost nothing extra. The bandwidth `B` is imposed by
//! admitting at most `N_w` writers at once, and one writer delivers a line in each `L`:
//!
//! ```text
//! N_w = B · L / 64 B         1 GB/s, 200 ns: 3.125
//! ```
//!
//! | `round` | writers | cap at 1 GB/s, 200 ns |
//! |---|---|---|
//! | `floor` (at least 1) | 3 | 960 MB/s |
//! | `ceil` | 4 | 1280 MB/s |
//! | `frac` | any number; a token bucket drips at `B` | 1000 MB/s |
//!
//! The paper does not say how it rounds, nor how long a writer keeps its slot; here it keeps it for one call
//! of at most a page. The unit of accounting is the line of a flush, not the store; a line stored past the
//! cache counts as flushed.

use sim::{Activity, LINE_BYTES, Nanos, PAGE_BYTES, Rate};

use crate::charges::{JOURNAL, METADATA};
use crate::cost::{Bucket, Channel, CostModel, Figure, clock_runs};
use crate::medium::{MediumError, MediumType, ParamKind, ParamSpec, Params};

/// Most lines that one writer writes in its slot.
const SLOT_LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// How `N_w` is made a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Down, to 1 at least.
    Floor,
    /// Up.
    Ceil,
    /// Not at all: a token bucket at exactly the bandwidth.
    Frac,
}

/// The model.
#[derive(Debug)]
pub struct Hinfs {
    latency: Nanos,
    limit: Limit,
    /// Lines of metadata and of the journal cost nothing.
    data_only: bool,
}

/// What keeps the bandwidth.
#[derive(Debug)]
enum Limit {
    Writers { slots: Channel, count: u64 },
    Bucket { bucket: Bucket, bandwidth: Rate },
}

impl Hinfs {
    /// `latency` a line, `bandwidth` for all writers together.
    pub fn new(latency: Nanos, bandwidth: Rate, round: Round) -> Self {
        let writers = |count: u64| Limit::Writers { slots: Channel::new(count as usize), count };
        let product = u128::from(bandwidth.0) * u128::from(latency.0);
        let line_seconds = LINE_BYTES as u128 * 1_000_000_000;
        let limit = match round {
            Round::Floor => writers((product / line_seconds).max(1) as u64),
            Round::Ceil => writers(product.div_ceil(line_seconds).max(1) as u64),
            Round::Frac => Limit::Bucket { bucket: Bucket::new(bandwidth, PAGE_BYTES as u64), bandwidth },
        };
        Self { latency, limit, data_only: false }
    }

    /// The same, but lines of metadata and of the journal cost nothing.
    #[must_use]
    pub(crate) fn of_data_only(self) -> Self {
        Self { data_only: true, ..self }
    }

    /// Writers that are admitted at once, where that is what limits them.
    pub fn writers(&self) -> Option<u64> {
        match self.limit {
            Limit::Writers { count, .. } => Some(count),
            Limit::Bucket { .. } => None,
        }
    }

    /// The bandwidth of one writer.
    pub(crate) fn writer_bandwidth(&self) -> Rate {
        Rate((LINE_BYTES as u64 * 1_000_000_000).checked_div(self.latency.0).unwrap_or(0))
    }

    /// The bandwidth that all writers together get: what rounding made of the one that was asked for.
    pub fn effective_bandwidth(&self) -> Rate {
        match self.limit {
            Limit::Writers { count, .. } => Rate(self.writer_bandwidth().0 * count),
            Limit::Bucket { bandwidth, .. } => bandwidth,
        }
    }

    fn write_slot(&self, lines: u64) {
        let service = self.latency * lines;
        match &self.limit {
            Limit::Writers { slots, .. } => slots.reserve(service.0 * 1_000).pass(Nanos::ZERO),
            Limit::Bucket { bucket, .. } => {
                let admitted = bucket.take(lines * LINE_BYTES as u64);
                let start = sim::now(); // after the interaction of `take`, which may have cost the core
                sim::medium_until(sim::ledger::current_scope(), start + service);
                sim::medium_until(Activity::MEDIUM_WAIT, admitted);
            }
        }
    }
}

impl CostModel for Hinfs {
    fn name(&self) -> &'static str {
        "hinfs"
    }

    fn load(&self, _: u64, _: u64) {}

    fn line_time(&self) -> Nanos {
        self.latency
    }

    #[inline]
    fn write(&self, _: u64, lines: u64) {
        let is_free = || [METADATA, JOURNAL].contains(&sim::ledger::current_scope());
        if !clock_runs() || (self.data_only && is_free()) {
            return;
        }
        let mut left = lines;
        while left > 0 {
            let now = left.min(SLOT_LINES);
            self.write_slot(now);
            left -= now;
        }
    }

    fn fence(&self) {}

    fn reset(&self) {
        match &self.limit {
            Limit::Writers { slots, .. } => slots.reset(),
            Limit::Bucket { bucket, .. } => bucket.reset(),
        }
    }

    fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![
            ("one_writer_bytes_per_s", self.writer_bandwidth().0 as f64),
            ("write_bytes_per_s", self.effective_bandwidth().0 as f64),
        ];
        figures.extend(self.writers().map(|count| ("writers_max", count as f64)));
        figures
    }
}

/// The line of `hinfs` in the table of media.
pub(crate) struct HinfsType;

impl MediumType for HinfsType {
    fn name(&self) -> &'static str {
        "hinfs"
    }

    fn summary(&self) -> &'static str {
        "the HiNFS paper's emulator: latency for each flushed line, a limit of concurrent writers"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const PAPER: &str = "EuroSys 2016, section 5.1";
        &[
            ParamSpec {
                name: "latency",
                kind: ParamKind::Time,
                default: "200ns",
                help: "extra time of each flushed line; the paper sweeps 50 to 800 ns",
                source: PAPER,
            },
            ParamSpec {
                name: "bandwidth",
                kind: ParamKind::Rate,
                default: "1GB/s",
                help: "write bandwidth of all writers, before rounding to whole writers",
                source: PAPER,
            },
            ParamSpec {
                name: "round",
                kind: ParamKind::Choice(&["floor", "ceil", "frac"]),
                default: "floor",
                help: "how the number of writers is rounded; frac: a token bucket at exactly the bandwidth",
                source: "not printed; docs/models/nvmm.md",
            },
            ParamSpec {
                name: "metadata",
                kind: ParamKind::Choice(&["charged", "free"]),
                default: "charged",
                help: "whether lines of metadata and of the journal cost as those of data do",
                source: "not printed; docs/models/nvmm.md",
            },
        ]
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let round = match params.choice("round") {
            "ceil" => Round::Ceil,
            "frac" => Round::Frac,
            _ => Round::Floor,
        };
        let model = Hinfs::new(params.time("latency"), params.rate("bandwidth"), round);
        let free = params.choice("metadata") == "free";
        Ok(Box::new(if free { model.of_data_only() } else { model }))
    }
}
