//! The record of an experiment: one [`ResultFile`] a run, one [`Sample`] for each cell and repeat.
//!
//! A *cell* is one point of the plan's matrix; its [`axes`](Sample::axes) name it completely. Two samples of
//! the same cell differ in `repeat` and `seed` only. What the workload did is kept by kind of operation
//! ([`OperationRecord`]), with the ledger of where its time went, and by step of the workload
//! ([`StepRecord`]), by worker ([`WorkerRecord`]) and by job ([`JobRecord`]).
//!
//! | axis | values look like |
//! |---|---|
//! | `workload` | `fxmark/DWOL` |
//! | `fs` | `pmfs`, `hinfs`, `host:/mnt` |
//! | `medium` | `nvmm`, `ssd` |
//! | `threads`, `iosize`, `buffer`, `latency`, … | `8`, `4KiB`, `0.4`, `200ns` |

use crate::{ClaimOutcome, Environment, EventCounts, Histogram, KernelLocks, PricesRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The schema name of [`ResultFile`].
pub const RESULT_SCHEMA: &str = "weir.result/1";

/// The schema name of [`ResultsFile`].
pub const RESULTS_SCHEMA: &str = "weir.results/1";

const NANOS_PER_SECOND: f64 = 1e9;

/// Everything one run of a plan left behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// [`RESULT_SCHEMA`].
    pub schema: String,
    /// Name of the plan.
    pub name: String,
    /// The question that the plan asks, in one sentence; may be empty.
    #[serde(default)]
    pub why: String,
    /// The resolved plan: every value in force, so that the run can be repeated from this file.
    pub plan: serde_json::Value,
    /// The command that repeats the run, free of this host's paths; may be empty.
    #[serde(default)]
    pub command: String,
    /// Seed of the whole run; each sample has its own, drawn from it.
    pub seed: u64,
    /// Clock under which it ran.
    pub clock: Clock,
    /// Name of the machine preset that priced CPU work (`host` under the real clock).
    pub machine: String,
    /// By which prices its designs ran; under the real clock, none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<PricesRecord>,
    /// Facts about the host.
    #[serde(default)]
    pub environment: Environment,
    /// Whether the run was interrupted: the samples are good, but some are missing.
    #[serde(default)]
    pub partial: bool,
    /// What a reader of any of its numbers must know: that the run was scaled down, that a cell runs on no medium.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Sentences about its memories under load: figures, their sources, how far they were off what was published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<String>,
    /// The texts that the plan names and does not hold, so that it can be repeated where they are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<InputRecord>,
    /// The cache lines that samples name as waited for and that are no lock's, with what is on them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<String, String>,
    /// One record for each cell and repeat, in the order in which they ran.
    pub samples: Vec<Sample>,
    /// What settings beside those of the plan show, where they were tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<NeighbourRecord>,
    /// What became of the plan's expectations.
    #[serde(default)]
    pub hypotheses: Vec<HypothesisOutcome>,
    /// What became of the published claims that the plan measures.
    #[serde(default)]
    pub claims: Vec<ClaimOutcome>,
    /// The hosts that measured the samples, where several may have: a campaign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostFacts>,
    /// What each sample took, in the order of `samples`, where that was kept: a campaign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostRecord>,
}

/// A host of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// What tells it from the other hosts of the campaign; it says nothing outside of it.
    pub id: String,
    /// What it is.
    pub environment: Environment,
}

/// What a sample took on its host. It is no part of the sample, which is the same on every host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostRecord {
    /// Which of the result's `hosts`.
    pub host: usize,
    /// Processor time of the thread that ran the cell.
    pub cpu_ns: u64,
    /// Wall time from its beginning to its end.
    pub wall_ns: u64,
}

/// The plan in another setting: another seed, length, machine or medium.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NeighbourRecord {
    /// What is different.
    pub what: String,
    /// Places at which designs were compared in it; none where all of its cells failed, or it did not run.
    pub places: u32,
    /// Those at which the design that is ahead in the run is not ahead, each with the ratio.
    pub differs: Vec<String>,
    /// By how much it is ahead at the others, at least and at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<f64>,
    /// See `least`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
    /// Designs behind the first whose order is another, in the order that they have here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reordered: Vec<String>,
    /// Whether each cell ran once, so that no difference was tested.
    #[serde(default)]
    pub once: bool,
    /// Whether it did not run, because all settings would have cost too much.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

/// A text that a plan names: a script, a machine, a medium.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    /// What it is.
    pub kind: InputKind,
    /// The name that the plan has for it.
    pub name: String,
    /// Its text when the plan ran.
    pub text: String,
}

/// What a text is that a plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputKind {
    /// A script or job file.
    Workload,
    /// What CPU work costs, as TOML.
    Machine,
    /// The settings of a medium, as TOML.
    Medium,
}

/// The results of several plans in one document: owned when it was read, borrowed to be written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultsFile<R = ResultFile> {
    /// [`RESULTS_SCHEMA`].
    pub schema: String,
    /// The results in the order in which the plans ran.
    pub results: Vec<R>,
}

impl<R> ResultsFile<R> {
    /// The document of `results`.
    pub fn new(results: Vec<R>) -> Self {
        Self { schema: RESULTS_SCHEMA.to_owned(), results }
    }
}

/// How time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Modelled: deterministic from the seed.
    Virtual,
    /// The host's own.
    Real,
}

/// One cell of the plan, run once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// The cell: axis name to value.
    pub axes: BTreeMap<String, String>,
    /// Which repeat of the cell, from 0.
    pub repeat: u32,
    /// Seed of this sample.
    pub seed: u64,
    /// Measured time, preparation excluded.
    pub elapsed_ns: u64,
    /// Operations as the workload counts them.
    pub ops: u64,
    /// `ops` by `elapsed_ns`; see [`throughput`].
    pub throughput_ops_per_s: f64,
    /// Operations that read data.
    pub read_ops: u64,
    /// Operations that wrote data.
    pub write_ops: u64,
    /// Bytes that the workload read.
    pub read_bytes: u64,
    /// Bytes that the workload wrote.
    pub written_bytes: u64,
    /// Operations that failed, without those that are how the workload ends: FxMark's DWAL goes on until the file system is full.
    pub errors: u64,
    /// By kind of operation.
    pub operations: Vec<OperationRecord>,
    /// What the server of a mount did meanwhile, by kind of operation, where the workload ran on a mount of Weir. The calls of
    /// `operations` are the programs'; of these the kernel makes its own requests, fewer or more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub served: Vec<OperationRecord>,
    /// By step of the workload; empty when it has none. Called `flowops` by older versions.
    #[serde(alias = "flowops", skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
    /// By worker; empty when the workload does not tell its workers apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerRecord>,
    /// By job and direction, where the workload has jobs (fio); empty otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobRecord>,
    /// Further counters, units in the names: `nvmm_written_bytes`, `lines_flushed.journal`. A counter that
    /// was never wired is absent.
    pub counters: BTreeMap<String, u64>,
    /// What a reader must know: warnings, interference, unusual settings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Whether it was cut short.
    pub partial: bool,
    /// Why it has no numbers: the run of this cell failed. All others are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<SampleFailure>,
    /// What else the host did meanwhile; under the real clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRecord>,
    /// What tasks waited for in the host's kernel, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_locks: Option<KernelLocks>,
    /// Which events of processors were counted, where that was asked for; the counts are among `counters`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<EventCounts>,
    /// Calls that ended in each of equal parts of the measured time; none where they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<SeriesRecord>,
    /// Where the workload's file lies on a device that is made of dies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRecord>,
    /// What happened when: in one operation of a simulator, or in a replayed program.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spans: Vec<SpanRecord>,
}

/// Why a cell has no numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleFailure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// What went wrong, where, and what to do.
    pub what: String,
}

/// The kinds of failure that a cell may end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FailureKind {
    /// It did not run to its end: no space, a call that failed.
    Run,
    /// Its image or the content of a file is not what it must be.
    Corrupt,
}

/// What else the host did while a cell ran under the real clock, from the making of its files to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRecord {
    /// Wall time of the whole cell.
    pub wall_ns: u64,
    /// Processor time that this process took.
    pub cpu_ns: u64,
    /// Processor time that other processes of the host took.
    pub others_ns: u64,
    /// Time for which the host of a virtual machine withheld processors from it.
    pub steal_ns: u64,
    /// Load average of one minute when the cell began, in hundredths of a process.
    pub load_percent: u64,
    /// Lowest frequency of a core that was seen, idle ones included, where the host tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_mhz: Option<u64>,
    /// Highest frequency of a core that was seen, where the host tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_mhz: Option<u64>,
    /// By how many per cent a loop of fixed work took longer after the cell than before it; negative where it took less.
    pub drift_percent: i64,
    /// How often it ran: 1, and once more for each run that was discarded because the host was busy.
    pub attempts: u32,
    /// Why its time cannot be relied on; empty when the host was quiet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub noise: Vec<String>,
}

/// Which page of a file lies on which die.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRecord {
    /// Dies of the device.
    pub dies: u32,
    /// Pages that a stripe holds, one granule on each die.
    pub stripe_pages: u32,
    /// Runs of pages of 4 KiB in the order of the file: the die, and how many pages.
    pub runs: Vec<(u32, u32)>,
}

impl PlacementRecord {
    /// The die of each page.
    pub fn pages(&self) -> Vec<u32> {
        self.runs.iter().flat_map(|(die, pages)| std::iter::repeat_n(*die, *pages as usize)).collect()
    }

    /// Pages of a stretch that a die has when the stretch goes round the dies, as well as its length allows.
    pub fn share(&self, stretch: usize) -> usize {
        let granule = (self.stripe_pages / self.dies.max(1)).max(1) as usize;
        stretch.clamp(1, granule)
    }

    /// For each stretch of the file as long as a stripe: pages on the die that has most of them, by those that it would have if
    /// the stretch went round the dies. 1 is the best; as many as there are dies is the worst.
    pub fn collisions(&self) -> Vec<f64> {
        let worst = |stretch: &[u32]| {
            let mut counts = vec![0_usize; self.dies.max(1) as usize];
            for die in stretch {
                if let Some(count) = counts.get_mut(*die as usize) {
                    *count += 1;
                }
            }
            counts.iter().max().map_or(0.0, |most| *most as f64 / self.share(stretch.len()) as f64)
        };
        self.pages().chunks(self.stripe_pages.max(1) as usize).map(worst).collect()
    }
}

/// Something that took time, in one operation of a simulated machine or in a replayed program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpanRecord {
    /// The part of the machine; of a program, the class of its calls.
    pub lane: String,
    /// What kind of thing it did.
    pub kind: String,
    /// What exactly.
    pub what: String,
    /// From the start of the operation, or of the program, to the beginning.
    pub start_ps: u64,
    /// From the same start to the end.
    pub end_ps: u64,
}

/// System calls over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesRecord {
    /// Length of a part.
    pub step_ns: u64,
    /// Calls that ended in each part, from the beginning of the measured time.
    pub ops: Vec<u64>,
}

/// All operations of one kind (`open`, `read`, `write`, `fsync` …) in one sample.
///
/// Latency is from call to return of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperationRecord {
    /// The kind.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// How many of them failed.
    pub errors: u64,
    /// Bytes that they moved; 0 for kinds that move none.
    pub bytes: u64,
    /// Time of all of them together.
    pub total_ns: u64,
    /// Their latencies.
    pub latency_ns: Histogram,
    /// Where `total_ns` went, by activity: `software`, `copy`, `data`, `metadata`, `journal`, `lock_wait`,
    /// `medium_wait`, `stall` … The parts sum to `total_ns`. Empty where no ledger was kept.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub time_ns: BTreeMap<String, u64>,
    /// The part `lock_wait` by name of the lock.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lock_wait_ns: BTreeMap<String, u64>,
    /// Of the parts that are CPU work, what was waited for cache lines of other cores, by the name of the line, or of the lock
    /// whose word it is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub line_wait_ns: BTreeMap<String, u64>,
    /// How much of each part of `time_ns` is in `lock_wait_ns` or `line_wait_ns`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub named_ns: BTreeMap<String, u64>,
    /// Of what the CPU work is the price, by kind of work as in a machine's preset; with `copied_bytes` and `socket_lines`, which
    /// have prices by level and not one. Under the virtual clock.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub work: BTreeMap<String, WorkRecord>,
    /// Named parts of the operations, as functions of a design; a part has the time of those inside of it. Under the virtual clock.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<String, PartRecord>,
}

/// The kinds of operations in the background: no call of a worker waits for them by itself. A test of `lab` holds them to
/// those that `vfs::ops` declares.
pub const BACKGROUND: [&str; 2] = ["writeback", "clean"];

/// Units of a kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkRecord {
    /// How many.
    pub units: u64,
    /// Their price on a core of their own; 0 where they have no single price.
    pub ns: u64,
}

/// A named part of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// How often it ran.
    pub count: u64,
    /// How long, in all.
    pub ns: u64,
}

/// One step of a workload in one sample: a line of its script, or a part of its loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepRecord {
    /// Its name in the workload.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// Its latencies.
    pub latency_ns: Histogram,
}

/// What one worker did in one sample. Each stops by itself, so that the sum of their rates is not always the sample's
/// throughput.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerRecord {
    /// The core on which it ran; none when it was not placed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u16>,
    /// The number of the host's process that it was; none when it was a task of Weir's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Whether it worked beside those that are measured.
    pub background: bool,
    /// Its operations in the measured window.
    pub ops: u64,
    /// How many operations failed.
    pub errors: u64,
    /// From the start of the window to its last operation's end.
    pub elapsed_ns: u64,
    /// Processor time of its loop, from its first operation on, warm-up included; none under the virtual clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
}

/// The I/O of one direction of a job in one sample, in fio's terms. A job runs for a time of its own, so its rate is `count` by
/// `elapsed_ns`, not by the sample's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct JobRecord {
    /// Its name in the job file; `group 0` and so on for all jobs of a group.
    pub name: String,
    /// Its group.
    pub group: u32,
    /// How many jobs are put together here: clones that are reported as one, or all of the group.
    pub jobs: u32,
    /// `read`, `write`, `trim`, `sync`, `verify`, or `mixed`: reads, writes and trims together.
    pub direction: String,
    /// I/Os.
    pub count: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Measured time of the job; of the longest where there are several.
    pub elapsed_ns: u64,
    /// From the start that the rate intends to the call. Empty without a rate.
    pub slat_ns: Histogram,
    /// From the call to its return.
    pub clat_ns: Histogram,
    /// From the intended start, or else the call, to the return.
    pub lat_ns: Histogram,
    /// Percentiles that the job file asks for, 0 to 100; empty: the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<f64>,
}

/// An expectation of the plan, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HypothesisOutcome {
    /// The expectation as the plan writes it: `nova/DWOL > pmfs/DWOL`.
    pub says: String,
    /// Whether the measurement bears it out.
    pub holds: bool,
    /// The ratio of its left side to its right side.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % interval.
    pub low: Option<f64>,
    /// Upper end of the ratio's 95 % interval.
    pub high: Option<f64>,
    /// Whether `low` and `high` are the range of few repeats and no 95 % interval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub range: bool,
    /// Why it could not be judged, or what decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Operations a second; 0 when no time passed.
pub fn throughput(ops: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { ops as f64 * NANOS_PER_SECOND / elapsed_ns as f64 }
}

impl ResultFile {
    /// A file without samples yet.
    pub fn new(name: impl Into<String>, plan: serde_json::Value, seed: u64, clock: Clock) -> Self {
        Self {
            schema: RESULT_SCHEMA.to_owned(),
            name: name.into(),
            why: String::new(),
            plan,
            command: String::new(),
            seed,
            clock,
            machine: String::new(),
            prices: (clock == Clock::Virtual).then(PricesRecord::default),
            environment: Environment::default(),
            partial: false,
            notes: Vec::new(),
            memory: Vec::new(),
            inputs: Vec::new(),
            lines: BTreeMap::new(),
            samples: Vec::new(),
            neighbours: Vec::new(),
            hypotheses: Vec::new(),
            claims: Vec::new(),
            hosts: Vec::new(),
            costs: Vec::new(),
        }
    }

    /// The values of `axis` in the order in which they first ran.
    pub fn axis_values(&self, axis: &str) -> Vec<&str> {
        let mut values: Vec<&str> = Vec::new();
        for value in self.samples.iter().filter_map(|sample| sample.axis(axis)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}

impl Sample {
    /// A sample of the cell `axes` in which nothing has happened yet.
    pub fn new(axes: BTreeMap<String, String>, repeat: u32, seed: u64) -> Self {
        Self { axes, repeat, seed, ..Self::default() }
    }

    /// States how long it took and what was done, and works out the throughput.
    pub fn finish(&mut self, ops: u64, elapsed_ns: u64) {
        self.ops = ops;
        self.elapsed_ns = elapsed_ns;
        self.throughput_ops_per_s = throughput(ops, elapsed_ns);
    }

    /// A sample of the cell `axes` that has no numbers.
    pub fn failed(axes: BTreeMap<String, String>, repeat: u32, seed: u64, failure: SampleFailure) -> Self {
        Self { failure: Some(failure), ..Self::new(axes, repeat, seed) }
    }

    /// Whether it has numbers.
    pub fn is_measured(&self) -> bool {
        self.failure.is_none()
    }

    /// The value of `axis` in this cell.
    pub fn axis(&self, axis: &str) -> Option<&str> {
        self.axes.get(axis).map(String::as_str)
    }

    /// The record of operation `kind`.
    pub fn operation(&self, kind: &str) -> Option<&OperationRecord> {
        self.operations.iter().find(|operation| operation.kind == kind)
    }

    /// The latencies of all operations together: of the workload's own operations where it tells its workers apart, of all
    /// calls otherwise.
    pub fn latency_ns(&self) -> Histogram {
        if let (false, Some(step)) = (self.workers.is_empty(), self.steps.first()) {
            return step.latency_ns.clone();
        }
        let mut all = Histogram::new();
        self.operations.iter().for_each(|operation| all.merge(&operation.latency_ns));
        all
    }
}

impl OperationRecord {
    /// A record of `kind` that counts nothing yet.
    pub fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    /// Adds another record of the same kind: another thread, another repeat.
    pub fn merge(&mut self, other: &Self) {
        debug_assert_eq!(self.kind, other.kind);
        self.count += other.count;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.total_ns += other.total_ns;
        self.latency_ns.merge(&other.latency_ns);
        add_all(&mut self.time_ns, &other.time_ns);
        add_all(&mut self.lock_wait_ns, &other.lock_wait_ns);
        add_all(&mut self.line_wait_ns, &other.line_wait_ns);
        add_all(&mut self.named_ns, &other.named_ns);
        for (name, work) in &other.work {
            let sum = self.work.entry(name.clone()).or_default();
            (sum.units, sum.ns) = (sum.units + work.units, sum.ns + work.ns);
        }
        for (name, part) in &other.parts {
            let sum = self.parts.entry(name.clone()).or_default();
            (sum.count, sum.ns) = (sum.count + part.count, sum.ns + part.ns);
        }
    }

    /// What has come since `earlier`, a state of this record; without latencies, which are no sums, and without what only the
    /// virtual
    /// clock counts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        debug_assert_eq!(self.kind, earlier.kind);
        Self {
            kind: self.kind.clone(),
            count: self.count.saturating_sub(earlier.count),
            errors: self.errors.saturating_sub(earlier.errors),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            latency_ns: Histogram::new(),
            time_ns: difference(&self.time_ns, &earlier.time_ns),
            lock_wait_ns: difference(&self.lock_wait_ns, &earlier.lock_wait_ns),
            line_wait_ns: difference(&self.line_wait_ns, &earlier.line_wait_ns),
            named_ns: difference(&self.named_ns, &earlier.named_ns),
            work: BTreeMap::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Says that other tasks did it than those of the workload: its time is in no call.
    pub fn is_background(&self) -> bool {
        BACKGROUND.contains(&self.kind.as_str())
    }

    /// The sum of the ledger's parts; equals `total_ns` where a ledger was kept.
    pub fn parts_ns(&self) -> u64 {
        self.time_ns.values().sum()
    }
}

fn add_all(into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (name, value) in from {
        *into.entry(name.clone()).or_default() += value;
    }
}

/// What each of `now` has more than `earlier`; without those that have nothing more.
fn difference(now: &BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = |(name, value): (&String, &u64)| {
        let more = value.saturating_sub(earlier.get(name).copied().unwrap_or(0));
        (more > 0).then(|| (name.clone(), more))
    };
    now.iter().filter_map(more).collect()
}

impl fmt::Display for InputKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Workload => "workload",
            Self::Machine => "machine",
            Self::Medium => "medium",
        })
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => "virtual",
            Self::Real => "real",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(total_ns: u64, journal_ns: u64) -> OperationRecord {
        let mut record = OperationRecord::new("write");
        record.count = 1;
        record.total_ns = total_ns;
        record.latency_ns.record(total_ns);
        record.time_ns = BTreeMap::from([
            ("journal".to_owned(), journal_ns),
            ("software".to_owned(), total_ns - journal_ns),
        ]);
        record
    }

    #[test]
    fn throughput_is_finite_even_when_no_time_passed() {
        assert!((throughput(500, 1_000_000_000) - 500.0).abs() < 1e-9);
        assert_eq!(throughput(500, 0).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn merging_keeps_the_ledger_equal_to_the_total() {
        let mut merged = operation(100, 30);
        merged.merge(&operation(50, 20));
        assert_eq!((merged.total_ns, merged.parts_ns()), (150, 150));
        assert_eq!(merged.time_ns["journal"], 50);
        assert_eq!(merged.latency_ns.count(), merged.count);
    }

    #[test]
    fn axis_values_come_in_the_order_in_which_they_ran() {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        for fs in ["pmfs", "hinfs", "pmfs"] {
            let axes = BTreeMap::from([("fs".to_owned(), fs.to_owned())]);
            file.samples.push(Sample::new(axes, 0, 1));
        }
        assert_eq!(file.axis_values("fs"), ["pmfs", "hinfs"]);
        assert!(file.axis_values("threads").is_empty());
    }
}
