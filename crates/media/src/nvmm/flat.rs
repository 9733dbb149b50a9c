//! `flat`: a fixed latency and a bandwidth for each direction (`docs/models/nvmm.md`).
//!
//! ```text
//! load of n bytes      turn on the read channel (n / B_r), then the read latency
//! write of k lines     turn on the write channel (64 k / B_w), then the write latency and k line latencies
//! fence                the fence latency
//! ```
//!
//! A closed loop of N tasks, one access each at a time, therefore gets `min(N / (L + s), 1 / s)` accesses a
//! second, `s` being the time on the channel. With `duplex = half` both directions share one channel, as on a
//! DIMM; with `full` they do not, as on a link. A flat delay shows neither 256-byte granularity nor buffer
//! hits: see `optane`.

use sim::{LINE_BYTES, Nanos, PAGE_BYTES, Rate};

use crate::cost::{Channel, CostModel, Figure, clock_runs, line_ps, service_ps};
use crate::medium::{MediumError, MediumType, ParamKind, ParamSpec, Params};

/// One direction.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    /// From the end of the turn to the end of the access.
    pub latency: Nanos,
    /// What the channel carries; zero: unlimited.
    pub bandwidth: Rate,
}

/// The model.
#[derive(Debug)]
pub struct Flat {
    read: Direction,
    write: Direction,
    line_latency: Nanos,
    fence_latency: Nanos,
    channel: Channel,
    /// The other direction's own channel, when the medium is full duplex.
    write_channel: Option<Channel>,
}

impl Flat {
    /// Separate channels for the directions (`full_duplex`) or one for both; each write adds `line_latency` a
    /// line.
    pub fn new(
        read: Direction,
        write: Direction,
        full_duplex: bool,
        line_latency: Nanos,
        fence_latency: Nanos,
    ) -> Self {
        let write_channel = full_duplex.then(|| Channel::new(1));
        Self { read, write, line_latency, fence_latency, channel: Channel::new(1), write_channel }
    }
}

impl Direction {
    fn access(self, channel: &Channel, bytes: u64, extra: Nanos) {
        match self.bandwidth {
            Rate(0) => sim::medium(self.latency + extra),
            rate => channel.reserve(service_ps(bytes, rate)).pass(self.latency + extra),
        }
    }
}

impl CostModel for Flat {
    fn name(&self) -> &'static str {
        "flat"
    }

    fn load(&self, _: u64, bytes: u64) {
        if clock_runs() {
            self.read.access(&self.channel, bytes, Nanos::ZERO);
        }
    }

    fn write(&self, _: u64, lines: u64) {
        if clock_runs() {
            let channel = self.write_channel.as_ref().unwrap_or(&self.channel);
            self.write.access(channel, lines * LINE_BYTES as u64, self.line_latency * lines);
        }
    }

    fn fence(&self) {
        if self.fence_latency > Nanos::ZERO {
            sim::medium(self.fence_latency);
        }
    }

    fn reset(&self) {
        self.channel.reset();
        self.write_channel.iter().for_each(Channel::reset);
    }

    fn line_time(&self) -> Nanos {
        let page_lines = (PAGE_BYTES / LINE_BYTES) as u64;
        self.line_latency + self.write.latency / page_lines + Nanos(line_ps(self.write.bandwidth) / 1_000)
    }

    fn figures(&self) -> Vec<Figure> {
        vec![
            ("read_bytes_per_s", self.read.bandwidth.0 as f64),
            ("write_bytes_per_s", self.write.bandwidth.0 as f64),
        ]
    }
}

/// The line of `flat` in the table of media.
pub(crate) struct FlatType;

const OURS: &str = "neutral; presets set it (docs/models/nvmm.md)";

const fn time(name: &'static str, default: &'static str, help: &'static str) -> ParamSpec {
    ParamSpec { name, kind: ParamKind::Time, default, help, source: OURS }
}

const fn rate(name: &'static str, default: &'static str, help: &'static str) -> ParamSpec {
    ParamSpec { name, kind: ParamKind::Rate, default, help, source: OURS }
}

impl MediumType for FlatType {
    fn name(&self) -> &'static str {
        "flat"
    }

    fn summary(&self) -> &'static str {
        "a fixed latency and a bandwidth for each direction"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const {
            &[
                time("read_latency", "0ns", "extra time of a load, once a page"),
                rate("read_bandwidth", "0B/s", "bandwidth of loads; zero: unlimited"),
                time("write_latency", "0ns", "extra time of a flush or non-temporal store, once a page"),
                rate("write_bandwidth", "0B/s", "bandwidth of writes; zero: unlimited"),
                time("line_latency", "0ns", "extra time of each written line"),
                time("fence_latency", "0ns", "extra time of a fence"),
                ParamSpec {
                    name: "duplex",
                    kind: ParamKind::Choice(&["half", "full"]),
                    default: "half",
                    help: "half: both directions share one channel of their bandwidths; full: they do not",
                    source: OURS,
                },
            ]
        }
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let read =
            Direction { latency: params.time("read_latency"), bandwidth: params.rate("read_bandwidth") };
        let write =
            Direction { latency: params.time("write_latency"), bandwidth: params.rate("write_bandwidth") };
        let full_duplex = params.choice("duplex") == "full";
        let (line, fence) = (params.time("line_latency"), params.time("fence_latency"));
        Ok(Box::new(Flat::new(read, write, full_duplex, line, fence)))
    }
}
