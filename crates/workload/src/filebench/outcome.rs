//! What a run has measured, and Filebench's two forms of printing it.
//!
//! Latency is the time between the marks around the system calls of one operation: choosing a file and
//! taking the fileset's lock are outside. Only operations of the classes IO and AIO count in "ops"; a whole
//! file read or written is one operation. MB are 2^20 bytes.

use std::fmt::Write as _;

use results::{Histogram, StepRecord};
use sim::Nanos;

use super::run::EndReason;
use super::vocabulary::{Class, Direction};

const MIB: f64 = 1_048_576.0;
const NANOS_PER_MILLISECOND: f64 = 1e6;

/// A run that came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Measured time: from the end of the warm-up to the end of the run.
    pub elapsed: Nanos,
    /// Why it ended.
    pub end: EndReason,
    /// The flowops, in the order of the script; those of one name together.
    pub flowops: Vec<FlowopOutcome>,
    /// The periodic snapshots of `psrun`.
    pub snapshots: Vec<SnapshotOutcome>,
    /// What `print` has said, in the order of time.
    pub messages: Vec<String>,
    /// What `testrandvar` has found.
    pub random_variables: Vec<RandomVariable>,
}

/// A snapshot of `psrun`.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotOutcome {
    /// Measured time that it covers: from the start, or from the last snapshot when each starts anew.
    pub elapsed: Nanos,
    /// The flowops, as in [`Outcome`].
    pub flowops: Vec<FlowopOutcome>,
}

/// All operations of the flowops of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowopOutcome {
    /// The name in the script; `composite.step` inside composites.
    pub name: String,
    /// How its operations count.
    pub class: Class,
    /// Which bytes it moves.
    pub direction: Direction,
    /// The numbers.
    pub counts: Counts,
}

/// Count, bytes and latencies of some operations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Operations.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Time of all of them together.
    pub total: Nanos,
    /// The shortest.
    pub min: Nanos,
    /// The longest.
    pub max: Nanos,
    /// All of them; none before the first.
    pub latency: Option<Histogram>,
}

/// Mean and deviation of a random variable, as drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomVariable {
    /// The flowop.
    pub name: String,
    /// Number of draws.
    pub draws: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
}

impl Counts {
    /// Adds one operation.
    #[inline]
    pub(crate) fn record(&mut self, latency: Nanos, bytes: u64) {
        self.min = if self.count == 0 { latency } else { self.min.min(latency) };
        self.max = self.max.max(latency);
        self.count += 1;
        self.bytes += bytes;
        self.total += latency;
        self.latency.get_or_insert_default().record(latency.0);
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        let Some(latency) = &other.latency else { return };
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.bytes += other.bytes;
        self.total += other.total;
        self.latency.get_or_insert_default().merge(latency);
    }
}

impl FlowopOutcome {
    /// Whether its operations count in the summary.
    pub fn is_counted(&self) -> bool {
        matches!(self.class, Class::Io | Class::Aio)
    }

    fn line(&self, elapsed: Nanos, histogram: bool) -> String {
        let (seconds, counts) = (elapsed.as_secs_f64(), &self.counts);
        let mut line = format!(
            "{:<20} {}ops {:8.0}ops/s {:5.1}mb/s {:8.3}ms/op [{:.3}ms - {:5.3}ms]",
            self.name,
            counts.count,
            per(counts.count as f64, seconds),
            per(counts.bytes as f64 / MIB, seconds),
            per(milliseconds(counts.total), counts.count as f64),
            milliseconds(counts.min),
            milliseconds(counts.max),
        );
        if histogram {
            let _ = write!(line, "\t[ {}]", self.log2_buckets());
        }
        line
    }

    /// Filebench's histogram: how many latencies lie in each power of two, in nanoseconds.
    fn log2_buckets(&self) -> String {
        let mut buckets = [0u64; 64];
        for (latency_ns, count) in self.counts.latency.iter().flat_map(Histogram::values) {
            buckets[latency_ns.max(1).ilog2() as usize] += count;
        }
        buckets.iter().fold(String::new(), |mut text, count| {
            let _ = write!(text, "{count} ");
            text
        })
    }
}

impl Outcome {
    /// Operations, as Filebench counts them.
    pub fn ops(&self) -> u64 {
        self.sum(|flowop| flowop.counts.count)
    }

    /// Operations of read type.
    pub fn read_ops(&self) -> u64 {
        self.sum(|flowop| if flowop.direction == Direction::Read { flowop.counts.count } else { 0 })
    }

    /// Operations of write type.
    pub fn write_ops(&self) -> u64 {
        self.sum(|flowop| if flowop.direction == Direction::Write { flowop.counts.count } else { 0 })
    }

    /// Bytes read.
    pub fn read_bytes(&self) -> u64 {
        self.sum(|flowop| if flowop.direction == Direction::Read { flowop.counts.bytes } else { 0 })
    }

    /// Bytes written.
    pub fn written_bytes(&self) -> u64 {
        self.sum(|flowop| if flowop.direction == Direction::Write { flowop.counts.bytes } else { 0 })
    }

    /// The flowop of this name.
    pub fn flowop(&self, name: &str) -> Option<&FlowopOutcome> {
        self.flowops.iter().find(|flowop| flowop.name == name)
    }

    /// The flowops as they go into a result file.
    pub fn records(&self) -> Vec<StepRecord> {
        let record = |flowop: &FlowopOutcome| StepRecord {
            name: flowop.name.clone(),
            count: flowop.counts.count,
            bytes: flowop.counts.bytes,
            latency_ns: flowop.counts.latency.clone().unwrap_or_default(),
        };
        self.flowops.iter().map(record).collect()
    }

    /// Filebench's breakdown, a line for each flowop, the last of the script first. With `histogram` each
    /// line ends in the counts of 64 powers of two (`enable lathist`).
    pub fn breakdown(&self, histogram: bool) -> String {
        let lines: Vec<String> =
            self.flowops.iter().rev().map(|flowop| flowop.line(self.elapsed, histogram)).collect();
        format!("Per-Operation Breakdown\n{}", lines.join("\n"))
    }

    /// Filebench's summary line.
    pub fn summary(&self) -> String {
        let (seconds, ops) = (self.elapsed.as_secs_f64(), self.ops());
        let bytes = self.sum(|flowop| flowop.counts.bytes);
        let total = Nanos(self.sum(|flowop| flowop.counts.total.0));
        format!(
            "IO Summary: {:5} ops {:5.3} ops/s {:.0}/{:.0} rd/wr {:5.1}mb/s {:5.3}ms/op",
            ops,
            per(ops as f64, seconds),
            per(self.read_ops() as f64, seconds),
            per(self.write_ops() as f64, seconds),
            per(bytes as f64 / MIB, seconds),
            per(milliseconds(total), ops as f64),
        )
    }

    fn sum(&self, value: impl Fn(&FlowopOutcome) -> u64) -> u64 {
        self.flowops.iter().filter(|flowop| flowop.is_counted()).map(value).sum()
    }
}

fn per(value: f64, unit: f64) -> f64 {
    if unit > 0.0 { value / unit } else { 0.0 }
}

fn milliseconds(span: Nanos) -> f64 {
    span.0 as f64 / NANOS_PER_MILLISECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flowop(name: &str, class: Class, direction: Direction, latencies_us: &[u64]) -> FlowopOutcome {
        let mut counts = Counts::default();
        for latency in latencies_us {
            counts.record(Nanos::from_micros(*latency), 524_288);
        }
        FlowopOutcome { name: name.into(), class, direction, counts }
    }

    fn outcome() -> Outcome {
        Outcome {
            elapsed: Nanos::from_secs(2),
            end: EndReason::Time,
            flowops: vec![
                flowop("readfile1", Class::Io, Direction::Read, &[100, 300]),
                flowop("wrtfile1", Class::Aio, Direction::Write, &[1000, 2000]),
                flowop("limit", Class::Other, Direction::None, &[5]),
            ],
            snapshots: Vec::new(),
            messages: Vec::new(),
            random_variables: Vec::new(),
        }
    }

    #[test]
    fn lines_have_the_form_of_filebench_to_the_letter() {
        let outcome = outcome();
        let breakdown = outcome.breakdown(false);
        let lines: Vec<&str> = breakdown.lines().collect();
        assert_eq!(lines[0], "Per-Operation Breakdown");
        assert_eq!(
            lines[1],
            "limit                1ops        0ops/s   0.2mb/s    0.005ms/op [0.005ms - 0.005ms]"
        );
        assert_eq!(
            lines[3],
            "readfile1            2ops        1ops/s   0.5mb/s    0.200ms/op [0.100ms - 0.300ms]"
        );
        assert_eq!(outcome.summary(), "IO Summary:     4 ops 2.000 ops/s 1/1 rd/wr   1.0mb/s 0.850ms/op");
    }

    #[test]
    fn only_io_and_aio_count() {
        let outcome = outcome();
        assert_eq!((outcome.ops(), outcome.read_ops(), outcome.write_ops()), (4, 2, 2));
        assert_eq!((outcome.read_bytes(), outcome.written_bytes()), (1 << 20, 1 << 20));
    }

    #[test]
    fn the_histogram_of_a_line_has_a_bucket_for_each_power_of_two() {
        let line = outcome().breakdown(true).lines().last().unwrap().to_owned();
        let (_, buckets) = line.split_once("\t[ ").unwrap();
        let counts: Vec<u64> =
            buckets.trim_end_matches(']').split_whitespace().map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts.len(), 64);
        assert_eq!(counts.iter().sum::<u64>(), 2);
        assert_eq!(counts[16], 1, "100 us lie between 2^16 and 2^17 ns");
    }

    #[test]
    fn merging_keeps_extremes_and_sums() {
        let mut left = flowop("a", Class::Io, Direction::None, &[5, 9]).counts;
        left.merge(&Counts::default());
        left.merge(&flowop("a", Class::Io, Direction::None, &[1, 7]).counts);
        assert_eq!((left.count, left.min, left.max), (4, Nanos::from_micros(1), Nanos::from_micros(9)));
        assert_eq!(left.total, Nanos::from_micros(22));
        assert_eq!(left.latency.unwrap().count(), 4);
    }
}
