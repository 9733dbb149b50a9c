//! A run: a workload under a scheme on a machine, measured between two acknowledgements.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use results::{OperationRecord, Sample};
use serde_json::{Value, json};
use sim::rng::{Rng, Seed};

use crate::core::Spent;
use crate::engine::{Engine, Feed, Flaws};
use crate::error::Error;
use crate::log::buffer::LogBuffer;
use crate::machine::{LINE, Machine, Ps};
use crate::memory::Cause;
use crate::op::Op;
use crate::scheme::software::{Executed, Program};
use crate::scheme::{self, Scheme};
use crate::trace::{Replay, Trace};
use crate::workload::{self, Workload};

/// The scheme that is the faster of the two unsafe ones.
pub const UNSAFE_BASE: &str = "unsafe-base";

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The machine.
    pub machine: Machine,
    /// Name of the scheme; [`UNSAFE_BASE`] runs both unsafe ones.
    pub scheme: String,
    /// Name of the workload.
    pub workload: String,
    /// Hardware threads.
    pub threads: u64,
    /// Where randomness starts.
    pub seed: u64,
    /// Transactions measured, all threads together.
    pub ops: u64,
    /// What is replayed instead of the workload, which then is only a name.
    pub trace: Option<Arc<Trace>>,
}

impl Default for Config {
    /// `fwb` under `hash` on `hpca18`.
    fn default() -> Self {
        Self {
            machine: Machine::load("hpca18").expect("it is in the program"),
            scheme: "fwb".to_owned(),
            workload: "hash".to_owned(),
            threads: 1,
            seed: 1,
            ops: 20_000,
            trace: None,
        }
    }
}

/// What came out of a run. Times in picoseconds, energies in hundredths of a picojoule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The scheme that ran.
    pub scheme: String,
    /// Transactions measured.
    pub transactions: u64,
    /// Their time.
    pub time: Ps,
    /// Instructions of the program, and of logging.
    pub instructions: [u64; 2],
    /// Time of threads by [`Spent`].
    pub spent: [Ps; Spent::COUNT],
    /// Lines moved to and from NVRAM, by [`Cause`].
    pub lines: [u64; 5],
    /// Energy by cause.
    pub energy: [u64; 5],
    /// Further counters by name.
    pub counters: Vec<(&'static str, u64)>,
    /// What the program executed.
    pub executed: Executed,
    /// Simulated accesses, warm-up included.
    pub accesses: u64,
    /// Hash of everything that the result depends on.
    pub config_hash: u64,
}

/// A workload's threads, as the engine wants them.
#[derive(Debug)]
pub struct ProgramFeed {
    /// Memory and scheme.
    pub program: Program,
    threads: Vec<Runner>,
    /// Transactions that each thread still runs.
    left: Vec<u64>,
}

struct Runner {
    workload: Box<dyn Workload>,
    rng: Rng,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runner")
    }
}

impl ProgramFeed {
    /// Builds the structures of all threads. `each`: transactions that a thread runs.
    ///
    /// # Errors
    /// [`Error`] for a workload that is not there.
    pub fn new(config: &Config, scheme: &Scheme, each: u64, track: bool) -> Result<Self, Error> {
        let count = config.threads as usize;
        let mut program = Program::new(scheme, &config.machine, count, track);
        let mut threads = Vec::new();
        for thread in 0..count {
            program.switch(thread);
            let mut rng = workload::stream(Seed(config.seed), thread);
            let mut workload: Box<dyn Workload> = match &config.trace {
                Some(trace) => Box::new(Replay::new(Arc::clone(trace), thread)),
                None => workload::by_name(&config.workload)?.program(&config.machine, config.threads),
            };
            workload.setup(&mut program, &mut rng);
            threads.push(Runner { workload, rng });
        }
        program.start();
        let recorded =
            |thread: usize| config.trace.as_ref().map_or(u64::MAX, |trace| trace.threads[thread].operations);
        Ok(Self { program, threads, left: (0..count).map(|thread| each.min(recorded(thread))).collect() })
    }

    /// The same structures under another configuration with the same [`Config::data`].
    fn again(&self, config: &Config, scheme: &Scheme) -> Self {
        let mut program = Program::new(scheme, &config.machine, self.threads.len(), false);
        program.adopt(&self.program);
        program.start();
        let copy = |runner: &Runner| Runner { workload: runner.workload.copied(), rng: runner.rng.clone() };
        Self { program, threads: self.threads.iter().map(copy).collect(), left: self.left.clone() }
    }

    /// What is wrong with the structures, read from memory by `read`.
    ///
    /// # Errors
    /// The broken invariant in words.
    pub fn check(&self, read: &dyn Fn(u64) -> u64) -> Result<(), String> {
        self.threads.iter().try_for_each(|runner| runner.workload.check(read))
    }
}

impl Feed for ProgramFeed {
    fn next(&mut self, thread: usize, ops: &mut Vec<Op>) -> bool {
        std::mem::swap(ops, &mut self.program.ops);
        self.program.switch(thread);
        let runner = &mut self.threads[thread];
        while self.program.ops.is_empty() && self.left[thread] > 0 {
            self.left[thread] -= 1;
            runner.workload.step(&mut self.program, &mut runner.rng);
        }
        if self.program.ops.is_empty() {
            self.program.end();
        }
        std::mem::swap(ops, &mut self.program.ops);
        !ops.is_empty()
    }

    fn payload(&self, place: u64, word: usize) -> u64 {
        self.program.payload.as_ref().map_or(0, |payload| payload[place as usize + word])
    }
}

impl Config {
    /// Everything that the result depends on, as text.
    pub fn text(&self) -> String {
        let Self { machine, scheme, workload, threads, seed, ops, trace } = self;
        let trace =
            trace.as_ref().map_or_else(String::new, |trace| format!("trace = {:016x}\n", trace.hash()));
        let head = format!(
            "{trace}scheme = {scheme}\nworkload = {workload}\nthreads = {threads}\nseed = {seed}\nops = {ops}\n"
        );
        head + &machine.text()
    }

    /// What the structures depend on that a workload builds before it runs.
    pub fn data(&self) -> String {
        let Machine { log_size, footprint, value, gets, .. } = self.machine;
        let Self { workload, threads, seed, .. } = self;
        format!("{workload} {threads} {seed} {log_size} {footprint} {value} {gets}")
    }

    /// FNV-1a of [`Config::text`].
    pub fn hash(&self) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        self.text().bytes().fold(0xcbf2_9ce4_8422_2325, step)
    }

    /// Whether it can run at all.
    ///
    /// # Errors
    /// What does not fit, with the legal range.
    pub fn check(&self) -> Result<&'static Scheme, Error> {
        self.machine.check()?;
        let most = self.machine.cores * self.machine.threads_per_core;
        let range = |key: &str, value: u64, low: u64, high: u64| {
            let told = || Error::Value {
                key: key.to_owned(),
                value: value.to_string(),
                range: format!("from {low} to {high}"),
            };
            if (low..=high).contains(&value) { Ok(()) } else { Err(told()) }
        };
        range("threads", self.threads, 1, most)?;
        range("ops", self.ops, 1, 1 << 32)?;
        match &self.trace {
            Some(trace) => self.check_trace(trace)?,
            None => drop(workload::by_name(&self.workload)?),
        }
        // Both unsafe ones have the same log.
        let name = if self.scheme == UNSAFE_BASE { "unsafe-undo" } else { &self.scheme };
        let scheme = scheme::by_name(name)?;
        let needed = scheme::software::Layout::new(&self.machine, scheme, self.threads).bytes();
        if needed > self.machine.memory {
            return Err(Error::Misfit(format!(
                "footprint and log need {needed} bytes; memory has {}: set footprint or memory",
                self.machine.memory
            )));
        }
        Ok(scheme)
    }
}

impl Config {
    fn check_trace(&self, trace: &Trace) -> Result<(), Error> {
        let (threads, share) = (trace.threads.len() as u64, self.machine.footprint / self.threads);
        if threads != self.threads {
            return Err(Error::Trace(format!("it has {threads} threads, not {}", self.threads)));
        }
        if share < trace.share {
            let bytes = trace.share * threads;
            return Err(Error::Trace(format!("its data take {bytes} bytes: set footprint to that or more")));
        }
        let warm = self.machine.warmup;
        if trace.operations() <= warm {
            let told = "operations, which the warm-up takes: set warmup lower";
            return Err(Error::Trace(format!("it has {} {told}", trace.operations())));
        }
        Ok(())
    }
}

/// Runs a configuration.
///
/// # Errors
/// [`Error`] for what does not fit; nothing half-run is a result.
pub fn run(config: &Config) -> Result<Outcome, Error> {
    run_prepared(config, &mut None)
}

/// Structures that a workload has built, and of which configurations.
#[derive(Debug)]
pub struct Prepared {
    data: String,
    feed: ProgramFeed,
}

/// Runs a configuration on the structures of an earlier one, if these are the same, and leaves its own else.
///
/// # Errors
/// As [`run`].
pub fn run_prepared(config: &Config, prepared: &mut Option<Prepared>) -> Result<Outcome, Error> {
    if config.scheme == UNSAFE_BASE {
        let of = |scheme: &str| run(&Config { scheme: scheme.to_owned(), ..config.clone() });
        let (undo, redo) = (of("unsafe-undo")?, of("unsafe-redo")?);
        let faster = if undo.throughput() >= redo.throughput() { undo } else { redo };
        return Ok(Outcome { config_hash: config.hash(), ..faster });
    }
    let scheme = config.check()?;
    let data = config.data();
    if config.trace.is_some() || prepared.as_ref().is_none_or(|prepared| prepared.data != data) {
        let feed = ProgramFeed::new(config, scheme, u64::MAX, false)?;
        *prepared = Some(Prepared { data, feed });
    }
    let feed = prepared.as_ref().expect("just prepared").feed.again(config, scheme);
    let mut engine = Engine::new(&config.machine, scheme, config.threads as usize, Flaws::default(), feed);
    let warm = config.machine.warmup;
    engine.run(warm)?;
    let before = snapshot(&engine);
    engine.run(warm + config.ops)?;
    let after = snapshot(&engine);
    if let Some(bytes) = engine.feed.program.overflow {
        return Err(Error::Misfit(format!(
            "a transaction needs {bytes} bytes of its thread's software log: set log_size higher"
        )));
    }
    Ok(after.since(&before, config, scheme))
}

/// Simulates configurations, `jobs` side by side; answers in their order. `done` is told of each.
pub fn run_all(configs: &[Config], jobs: usize, done: &(dyn Fn() + Sync)) -> Vec<Result<Outcome, Error>> {
    // Those that begin with the same structures one after the other, so that these are built once.
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, config) in configs.iter().enumerate() {
        groups.entry(config.data()).or_default().push(at);
    }
    let groups: Vec<Vec<usize>> = groups.into_values().collect();
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Result<Outcome, Error>>>> = Mutex::new(vec![None; configs.len()]);
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut prepared = None;
                    for at in group {
                        let outcome = run_prepared(&configs[*at], &mut prepared);
                        outcomes.lock().expect("no run panics")[*at] = Some(outcome);
                        done();
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("no run panics");
    outcomes.into_iter().map(|outcome| outcome.expect("every group was run")).collect()
}

/// All counters at one time.
struct Snapshot {
    time: Ps,
    transactions: u64,
    instructions: [u64; 2],
    spent: [Ps; Spent::COUNT],
    lines: [u64; 5],
    energy: [u64; 5],
    counters: Vec<(&'static str, u64)>,
    executed: Executed,
    accesses: u64,
}

fn snapshot(engine: &Engine<ProgramFeed>) -> Snapshot {
    let (transactions, time) = engine.acknowledged;
    let mut instructions = [0; 2];
    let mut spent = [0; Spent::COUNT];
    for thread in &engine.threads {
        instructions.iter_mut().zip(thread.instructions).for_each(|(sum, own)| *sum += own);
        spent.iter_mut().zip(thread.spent).for_each(|(sum, own)| *sum += own);
    }
    let memory = &engine.controller.stats;
    let caches = &engine.caches.stats;
    let stuck = engine.stats.stuck;
    let mut counters = vec![
        ("l1_accesses", caches.l1_accesses),
        ("l1_misses", caches.l1_misses),
        ("l2_misses", caches.l2_misses),
        ("cache_transfers", caches.transfers),
        ("row_hits", memory.row_hits),
        ("reads_forwarded", memory.forwarded),
        ("writes_joined", memory.joined),
        ("r3_waits", memory.held),
        ("r3_violations", memory.violations),
        ("write_queue_sum", memory.queue_sum),
        ("fetch_stall_ns", stuck[0] / 1000),
        ("log_buffer_stall_ns", stuck[1] / 1000),
        ("log_space_stall_ns", stuck[2] / 1000),
        ("write_queue_stall_ns", stuck[3] / 1000),
        ("persist_stall_ns", stuck[4] / 1000),
        ("dram_lines", engine.stats.dram_lines),
        ("hw_records", engine.stats.records),
        ("hw_log_reads", engine.stats.log_reads),
        ("flagged_evictions", caches.flagged_evictions),
    ];
    if let Some(log) = &engine.log {
        counters.extend([("hw_log_bytes", log.bytes), ("superblocks", log.superblocks)]);
    }
    let shared = engine.shared.as_ref().map(|log| log.stats).unwrap_or_default();
    let growths = engine.log.as_ref().map_or(engine.feed.program.growths() as u64, LogBuffer::growths);
    counters.push(("log_growths", growths + shared.growths));
    if let Some(scanner) = &engine.scanner {
        let stats = scanner.stats;
        counters.extend([
            ("scans", stats.scans),
            ("scans_by_watermark", stats.by_watermark),
            ("lines_flagged", stats.flagged),
            ("lines_forced", stats.forced),
            ("head_advances", stats.advances),
        ]);
    }
    let mut executed = engine.feed.program.executed;
    executed.fences += shared.fences;
    executed.log_stores += shared.stores;
    executed.log_growths += shared.growths;
    let accesses = engine.stats.accesses;
    let (lines, energy) = (memory.lines, memory.energy);
    Snapshot { time, transactions, instructions, spent, lines, energy, counters, executed, accesses }
}

impl Snapshot {
    fn since(self, before: &Self, config: &Config, scheme: &Scheme) -> Outcome {
        let less = |now: u64, then: u64| now - then;
        let pair = |at: usize| less(self.instructions[at], before.instructions[at]);
        let executed = Executed {
            stores: less(self.executed.stores, before.executed.stores),
            fences: less(self.executed.fences, before.executed.fences),
            write_backs: less(self.executed.write_backs, before.executed.write_backs),
            log_stores: less(self.executed.log_stores, before.executed.log_stores),
            log_loads: less(self.executed.log_loads, before.executed.log_loads),
            transactions: less(self.executed.transactions, before.executed.transactions),
            log_growths: less(self.executed.log_growths, before.executed.log_growths),
        };
        let then =
            |name: &str| before.counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, n)| *n);
        Outcome {
            scheme: scheme.name.to_owned(),
            transactions: less(self.transactions, before.transactions),
            time: less(self.time, before.time),
            instructions: [pair(0), pair(1)],
            spent: std::array::from_fn(|at| less(self.spent[at], before.spent[at])),
            lines: std::array::from_fn(|at| less(self.lines[at], before.lines[at])),
            energy: std::array::from_fn(|at| less(self.energy[at], before.energy[at])),
            counters: self.counters.iter().map(|(name, n)| (*name, less(*n, then(name)))).collect(),
            executed,
            accesses: self.accesses,
            config_hash: config.hash(),
        }
    }
}

impl Outcome {
    /// Transactions a second.
    pub fn throughput(&self) -> f64 {
        self.transactions as f64 * 1e12 / self.time.max(1) as f64
    }

    /// Bytes read from and written to NVRAM, log included, a transaction.
    pub fn traffic(&self) -> f64 {
        (self.lines.iter().sum::<u64>() * LINE) as f64 / self.transactions.max(1) as f64
    }

    /// Bytes written to NVRAM a transaction.
    pub fn written(&self) -> f64 {
        let lines: u64 = self.lines[..Cause::Fetch as usize].iter().sum();
        (lines * LINE) as f64 / self.transactions.max(1) as f64
    }

    /// Bytes of volatile memory fetched and written, a transaction.
    pub fn dram_traffic(&self) -> f64 {
        (self.counter("dram_lines") * LINE) as f64 / self.transactions.max(1) as f64
    }

    /// Dynamic memory energy a transaction, in nanojoules.
    pub fn energy_nj(&self) -> f64 {
        self.energy.iter().sum::<u64>() as f64 / 1e5 / self.transactions.max(1) as f64
    }

    /// Instructions a cycle of one core.
    pub fn ipc(&self, machine: &Machine) -> f64 {
        let cycles = self.time as f64 / machine.cycle() as f64;
        self.instructions.iter().sum::<u64>() as f64 / cycles.max(1.0)
    }

    /// A counter by name; zero if it was not wired.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }

    /// As a record of the project.
    pub fn sample(&self, config: &Config) -> Sample {
        let threads = config.threads.to_string();
        let axes = [
            ("workload", format!("archsim/{}", config.workload)),
            ("scheme", config.scheme.clone()),
            ("machine", config.machine.name.clone()),
            ("threads", threads),
        ];
        let mut sample = Sample {
            axes: axes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            seed: config.seed,
            elapsed_ns: self.time / 1000,
            ops: self.transactions,
            throughput_ops_per_s: self.throughput(),
            ..Sample::default()
        };
        let mut operation = OperationRecord::new("transaction");
        operation.count = self.transactions;
        operation.total_ns = self.spent.iter().map(|part| part / 1000).sum();
        operation.time_ns =
            Spent::NAMES.iter().zip(self.spent).map(|(name, ps)| ((*name).to_owned(), ps / 1000)).collect();
        sample.operations.push(operation);
        let mut add = |name: String, count: u64| sample.counters.insert(name, count);
        for cause in Cause::ALL {
            add(format!("nvram_lines.{}", cause.name()), self.lines[cause as usize]);
            add(format!("energy_pj.{}", cause.name()), self.energy[cause as usize] / 100);
        }
        for (name, count) in &self.counters {
            add((*name).to_owned(), *count);
        }
        add("fences".to_owned(), self.executed.fences);
        add("flushes".to_owned(), self.executed.write_backs);
        add("nvram_bytes".to_owned(), self.lines.iter().sum::<u64>() * LINE);
        add("energy_pj".to_owned(), self.energy.iter().sum::<u64>() / 100);
        add("instructions".to_owned(), self.instructions.iter().sum());
        if let Some(period) = (self.time / 1000).checked_div(self.counter("scans")) {
            add("scan_period_ns".to_owned(), period);
        }
        add("instructions.program".to_owned(), self.instructions[0]);
        add("instructions.logging".to_owned(), self.instructions[1]);
        add("config_hash".to_owned(), self.config_hash);
        sample
    }

    /// What the command prints with `--json`.
    pub fn document(&self, config: &Config) -> Value {
        let machine: serde_json::Map<_, _> =
            config.machine.entries().into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        json!({
            "schema": "weir.sim.logging/1",
            "config_hash": format!("{:016x}", self.config_hash),
            "ran": self.scheme,
            "transactions_per_s": self.throughput(),
            "traffic_bytes_per_transaction": self.traffic(),
            "written_bytes_per_transaction": self.written(),
            "energy_nj_per_transaction": self.energy_nj(),
            "ipc": self.ipc(&config.machine),
            "sample": self.sample(config),
            "machine": machine,
        })
    }
}
