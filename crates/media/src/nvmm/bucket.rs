//! `bucket`: DRAM with its bandwidth capped by token buckets, one for each direction (`docs/models/nvmm.md`).
//!
//! Nothing but bandwidth: no latency is added. What a task waits for tokens is booked as `MediumWait`.

use sim::{LINE_BYTES, Nanos, Rate};

use crate::cost::{Bucket, CostModel, Figure, clock_runs, line_ps};
use crate::medium::{MediumError, MediumType, ParamKind, ParamSpec, Params};

/// The model.
#[derive(Debug)]
pub struct TokenBucket {
    read: Bucket,
    write: Bucket,
    rates: (Rate, Rate),
}

impl TokenBucket {
    /// Caps at `read` and `write` (zero: none) with bursts of `burst` bytes.
    pub fn new(read: Rate, write: Rate, burst: u64) -> Self {
        Self { read: Bucket::new(read, burst), write: Bucket::new(write, burst), rates: (read, write) }
    }
}

impl CostModel for TokenBucket {
    fn name(&self) -> &'static str {
        "bucket"
    }

    fn load(&self, _: u64, bytes: u64) {
        if clock_runs() {
            self.read.wait_for(bytes);
        }
    }

    fn write(&self, _: u64, lines: u64) {
        if clock_runs() {
            self.write.wait_for(lines * LINE_BYTES as u64);
        }
    }

    fn fence(&self) {}

    fn line_time(&self) -> Nanos {
        Nanos(line_ps(self.rates.1) / 1_000)
    }

    fn reset(&self) {
        self.read.reset();
        self.write.reset();
    }

    fn figures(&self) -> Vec<Figure> {
        vec![("read_bytes_per_s", self.rates.0.0 as f64), ("write_bytes_per_s", self.rates.1.0 as f64)]
    }
}

/// The line of `bucket` in the table of media.
pub(crate) struct BucketType;

impl MediumType for BucketType {
    fn name(&self) -> &'static str {
        "bucket"
    }

    fn summary(&self) -> &'static str {
        "DRAM with a bandwidth cap for each direction, no extra latency"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const OURS: &str = "our choice (docs/models/nvmm.md)";
        &[
            ParamSpec {
                name: "read_bandwidth",
                kind: ParamKind::Rate,
                default: "0B/s",
                help: "cap of loads; zero: none",
                source: OURS,
            },
            ParamSpec {
                name: "write_bandwidth",
                kind: ParamKind::Rate,
                default: "1GB/s",
                help: "cap of flushes and non-temporal stores; zero: none",
                source: "EuroSys 2016, section 5.1",
            },
            ParamSpec {
                name: "burst",
                kind: ParamKind::Size,
                default: "4KiB",
                help: "what may pass at once after a pause",
                source: OURS,
            },
        ]
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let burst = params.size("burst").0.max(LINE_BYTES as u64);
        Ok(Box::new(TokenBucket::new(params.rate("read_bandwidth"), params.rate("write_bandwidth"), burst)))
    }
}
