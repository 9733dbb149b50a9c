//! The published claims, measured: ratios over the ten micro-benchmarks, counts, and the crash campaign.
//!
//! Each claim is a function of a *matrix* of runs, workload x threads x scheme. What the publication leaves open is a
//! [`Reading`](readings::Reading): a name, alternatives, and a default chosen by the text alone. An alternative changes the
//! machine, or the arithmetic ([`Arithmetic`]).
//!
//! | module | holds |
//! |---|---|
//! | [`readings`] | the readings, and changes of one mechanism at a time that no text suggests |
//! | [`seeds`] | means over seeds, and how sure they are |
//! | [`figures`] | the report's figures and the runs that they need beyond the claims' |
//! | [`variants`] | all claims under each of these, and what class a claim is of |

pub mod figures;
pub mod readings;
pub mod seeds;
pub mod variants;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::crash::mutant::Mutant;
use crate::crash::{Verdict, campaign, crash_config};
use crate::error::Error;
use crate::machine::Machine;
use crate::run::{Config, Outcome, run_prepared};
use crate::scheme::{self, SCHEMES};
use crate::workload::WORKLOADS;

/// Schemes of the matrix.
const MATRIX: [&str; 10] = [
    "non-pers",
    "unsafe-undo",
    "unsafe-redo",
    "undo-clwb",
    "redo-clwb",
    "undoredo-clwb",
    "hw-rlog",
    "hw-ulog",
    "hwl",
    "fwb",
];
/// Ends of the range of threads.
const ENDS: [u64; 2] = [1, 8];
const MEMCACHED: &str = "memcached-like";
const MEMCACHED_THREADS: u64 = 4;
/// What "at most" and "below" allow (claim hwlog.order).
const TOLERANCE: f64 = 0.02;

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Transactions of a run, after warming up.
    pub ops: u64,
    /// Transactions before, all threads together.
    pub warmup: u64,
    /// Seeds whose mean is a claim's value.
    pub seeds: u64,
    /// Crashes, all promising schemes together.
    pub crashes: u64,
    /// Keys of the claims' machine that make it smaller; none where a result counts.
    pub sets: &'static [(&'static str, &'static str)],
}

impl Scale {
    /// For an answer in a minute or two.
    pub const QUICK: Self = Self { ops: 4_000, warmup: 4_000, seeds: 1, crashes: 100_000, sets: &[] };
    /// For the record: 100,000 transactions a point, of five seeds.
    pub const FULL: Self = Self { ops: 20_000, warmup: 10_000, seeds: 5, crashes: 1_000_000, sets: &[] };
    /// For each of many variants.
    pub const VARIANT: Self = Self { ops: 2_000, warmup: 2_000, seeds: 1, crashes: 8_000, sets: &[] };
}

/// Which scheme is the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The faster of undo-clwb and redo-clwb at each point.
    Faster,
    /// One scheme at every point.
    One(&'static str),
    /// The faster of the two unsafe ones.
    Unsafe,
}

/// How values over benchmarks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Average {
    /// Geometric mean of the ratios.
    Geometric,
    /// Arithmetic mean of the ratios.
    Arithmetic,
    /// Ratio of the sums.
    Sums,
}

/// What the two ends of a published range are; a claim takes the mean of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// One thread and eight.
    Threads,
    /// Integer and string variants.
    Values,
    /// undo-clwb and redo-clwb as the baseline.
    Baselines,
    /// The worst benchmark and the best.
    Benchmarks,
}

/// What counts as memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Reads and writes of NVRAM.
    All,
    /// Writes of NVRAM.
    Writes,
    /// Reads and writes of NVRAM and of DRAM.
    WithDram,
}

/// What is computed from the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// The baseline of throughput, traffic, energy and memcached.
    pub baseline: Baseline,
    /// Over benchmarks.
    pub average: Average,
    /// Over the ends of a range.
    pub range: Range,
    /// Only the integer variants.
    pub int_only: bool,
    /// Of the claim `hwlog.traffic`.
    pub traffic: Traffic,
    /// A published factor is the gain: one less than new by old.
    pub gain: bool,
    /// Registers are counted for each core.
    pub per_core: bool,
}

impl Arithmetic {
    /// The default readings.
    pub const DEFAULT: Self = Self {
        baseline: Baseline::Faster,
        average: Average::Geometric,
        range: Range::Threads,
        int_only: false,
        traffic: Traffic::All,
        gain: false,
        per_core: false,
    };
}

impl Default for Arithmetic {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Runs by workload, threads and scheme.
#[derive(Debug, Default)]
pub struct Matrix {
    runs: BTreeMap<(String, u64, &'static str), (Config, Outcome)>,
}

/// The machine of the claims: a preset with other values.
///
/// # Errors
/// [`Error`] for what is no machine.
pub fn machine(scale: Scale, preset: Option<&str>, sets: &[(&str, &str)]) -> Result<Machine, Error> {
    let mut machine = Machine::load(preset.unwrap_or("hpca18"))?;
    machine.warmup = scale.warmup;
    for (key, value) in scale.sets.iter().chain(sets) {
        machine.set(key, value)?;
    }
    machine.check()?;
    Ok(machine)
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

impl Matrix {
    /// Simulates all points, `jobs` side by side. `done` is told of each.
    ///
    /// # Errors
    /// The first [`Error`] of a point; nothing of the matrix is then a result.
    pub fn measure(
        machine: &Machine,
        scale: Scale,
        seed: u64,
        jobs: usize,
        done: &(dyn Fn() + Sync),
    ) -> Result<Self, Error> {
        let points = Self::points(machine, scale, seed, &MATRIX);
        let configs: Vec<Config> = points.iter().map(|(_, config)| config.clone()).collect();
        let outcomes = run_all(&configs, jobs, done).into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Self::collect(points.into_iter().zip(outcomes)))
    }

    fn collect(runs: impl Iterator<Item = ((&'static str, Config), Outcome)>) -> Self {
        let key = |scheme, config: &Config| (config.workload.clone(), config.threads, scheme);
        let runs = runs.map(|((scheme, config), outcome)| (key(scheme, &config), (config, outcome)));
        Self { runs: runs.collect() }
    }

    /// Every point of some schemes.
    fn points(
        machine: &Machine,
        scale: Scale,
        seed: u64,
        schemes: &[&'static str],
    ) -> Vec<(&'static str, Config)> {
        let micro = WORKLOADS.iter().filter(|known| known.micro);
        let micro = micro.flat_map(|known| ENDS.map(|threads| (known.name, threads)));
        let all = micro.chain([(MEMCACHED, MEMCACHED_THREADS)]);
        let config = |workload: &str, threads: u64, scheme: &str| Config {
            machine: machine.clone(),
            scheme: scheme.to_owned(),
            workload: workload.to_owned(),
            threads,
            seed,
            ops: scale.ops,
            trace: None,
        };
        all.flat_map(|(workload, threads)| schemes.iter().map(move |scheme| (*scheme, workload, threads)))
            .map(|(scheme, workload, threads)| (scheme, config(workload, threads, scheme)))
            .collect()
    }

    /// How many runs a matrix has.
    pub fn size() -> u64 {
        ((WORKLOADS.iter().filter(|known| known.micro).count() * ENDS.len() + 1) * MATRIX.len()) as u64
    }

    /// Every run, in a fixed order.
    pub fn runs(&self) -> impl Iterator<Item = &(Config, Outcome)> {
        self.runs.values()
    }

    fn at(&self, workload: &str, threads: u64, scheme: &'static str) -> &Outcome {
        &self.runs[&(workload.to_owned(), threads, scheme)].1
    }

    fn faster(&self, workload: &str, threads: u64, schemes: [&'static str; 2]) -> &Outcome {
        let [one, other] = schemes.map(|scheme| self.at(workload, threads, scheme));
        if one.throughput() >= other.throughput() { one } else { other }
    }

    fn baseline(&self, workload: &str, threads: u64, baseline: Baseline) -> &Outcome {
        match baseline {
            Baseline::Faster => self.faster(workload, threads, ["undo-clwb", "redo-clwb"]),
            Baseline::One(scheme) => self.at(workload, threads, scheme),
            Baseline::Unsafe => self.faster(workload, threads, ["unsafe-undo", "unsafe-redo"]),
        }
    }

    /// A ratio over the micro-benchmarks, averaged at each end of the range, and the mean of both ends. `value` answers with
    /// numerator and denominator.
    fn over(how: Arithmetic, value: impl Fn(Baseline, &str, u64) -> (f64, f64)) -> f64 {
        let names = names(how);
        let is_string = |name: &&str| name.ends_with("-str");
        let of = |baseline, names: &[&str], threads: &[u64]| {
            let pairs = names.iter().flat_map(|name| threads.iter().map(|t| value(baseline, name, *t)));
            average(how.average, &pairs.collect::<Vec<_>>())
        };
        let ends: Vec<f64> = match how.range {
            Range::Threads => ENDS.iter().map(|threads| of(how.baseline, &names, &[*threads])).collect(),
            Range::Values => {
                let (string, int): (Vec<&str>, Vec<&str>) = names.iter().partition(|name| is_string(name));
                [int, string].iter().map(|names| of(how.baseline, names, &ENDS)).collect()
            }
            Range::Baselines => {
                let baselines = ["undo-clwb", "redo-clwb"].map(Baseline::One);
                baselines.iter().map(|baseline| of(*baseline, &names, &ENDS)).collect()
            }
            Range::Benchmarks => {
                let each = names.iter().map(|name| of(how.baseline, &[*name], &ENDS)).collect::<Vec<_>>();
                let (low, high) =
                    (each.iter().copied().reduce(f64::min), each.iter().copied().reduce(f64::max));
                low.into_iter().chain(high).collect()
            }
        };
        ends.iter().sum::<f64>() / ends.len() as f64
    }

    /// The claims that are ratios of fwb to the baseline, by id.
    fn ratios(&self, how: Arithmetic) -> Vec<(&'static str, f64)> {
        let fwb = |workload: &str, threads| self.at(workload, threads, "fwb");
        let base = |baseline, workload: &str, threads| self.baseline(workload, threads, baseline);
        let traffic = |outcome: &Outcome| match how.traffic {
            Traffic::All => outcome.traffic(),
            Traffic::Writes => outcome.written(),
            Traffic::WithDram => outcome.traffic() + outcome.dram_traffic(),
        };
        let gain = |b, w: &str, t| (time(base(b, w, t)), time(fwb(w, t)));
        let energy = |b, w: &str, t| (base(b, w, t).energy_nj(), fwb(w, t).energy_nj());
        let memcached = gain(how.baseline, MEMCACHED, MEMCACHED_THREADS);
        let less = if how.gain { 1.0 } else { 0.0 };
        vec![
            ("hwlog.throughput", Self::over(how, gain) - less),
            ("hwlog.memcached", memcached.0 / memcached.1 - less),
            ("hwlog.traffic", Self::over(how, |b, w, t| (traffic(base(b, w, t)), traffic(fwb(w, t)))) - less),
            ("hwlog.energy", Self::over(how, energy) - less),
        ]
    }

    /// Every claim that the matrix gives, by id.
    pub fn claims(&self, how: Arithmetic) -> Vec<(&'static str, f64)> {
        let slow = |_, w: &str, t| {
            (time(self.at(w, t, "non-pers")), time(self.faster(w, t, ["undo-clwb", "redo-clwb"])))
        };
        let both = |_, w: &str, t| {
            let slower = ["undo-clwb", "redo-clwb"].map(|scheme| time(self.at(w, t, scheme)));
            (slower[0].max(slower[1]), time(self.at(w, t, "undoredo-clwb")))
        };
        let scheme = scheme::by_name("fwb").expect("it is in the table");
        let cores = self.runs.values().map(|(config, _)| config.machine.cores).max().unwrap_or(1);
        let registers = scheme.register_bytes() * if how.per_core { cores } else { 1 };
        let sum = |count: &dyn Fn(&Outcome) -> u64| {
            let runs = self.runs.iter().filter(|((_, _, scheme), _)| *scheme == "fwb");
            runs.map(|(_, (_, outcome))| count(outcome)).sum::<u64>() as f64
        };
        let calls = |outcome: &Outcome| {
            outcome.executed.fences + outcome.executed.write_backs + outcome.executed.log_stores
        };
        let reads = sum(&|outcome| outcome.counter("hw_log_reads")) / sum(&|outcome| outcome.executed.stores);
        let mut claims = self.ratios(how);
        claims.extend([
            ("hwlog.registers", registers as f64),
            ("hwlog.tag_bit", scheme.tag_bits() as f64),
            ("hwlog.software.slow", Self::over(how, slow)),
            ("hwlog.software.both_slowest", Self::over(how, both)),
            ("hwlog.no_extra_reads", reads),
            ("hwlog.interface", sum(&calls) / sum(&|outcome| outcome.executed.transactions)),
            ("hwlog.order", self.order(how)),
        ]);
        claims
    }

    /// Share of the benchmarks in which the schemes stand in the published order, by their mean over the ends of the threads.
    fn order(&self, how: Arithmetic) -> f64 {
        let names = names(how);
        let holds = |workload: &&&str| {
            let mean = |scheme| {
                let logs = ENDS.map(|threads| sim::math::ln(self.at(workload, threads, scheme).throughput()));
                sim::math::exp(logs.iter().sum::<f64>() / ENDS.len() as f64)
            };
            let unsafe_base = mean("unsafe-undo").max(mean("unsafe-redo"));
            let at_most = |low: f64, high: f64| low <= high * (1.0 + TOLERANCE);
            let software = ["undo-clwb", "redo-clwb"].map(mean);
            software.iter().all(|slow| at_most(*slow, unsafe_base) && at_most(*slow, mean("fwb")))
                && at_most(mean("hwl"), mean("fwb"))
                && at_most(mean("fwb"), mean("non-pers"))
        };
        names.iter().filter(holds).count() as f64 / names.len() as f64
    }
}

/// Time of a transaction.
fn time(outcome: &Outcome) -> f64 {
    1.0 / outcome.throughput()
}

/// The micro-benchmarks that count.
fn names(how: Arithmetic) -> Vec<&'static str> {
    let names = WORKLOADS.iter().filter(|known| known.micro).map(|known| known.name);
    names.filter(|name| !how.int_only || !name.ends_with("-str")).collect()
}

/// The average of ratios, given as numerators and denominators.
fn average(how: Average, pairs: &[(f64, f64)]) -> f64 {
    let ratios = pairs.iter().map(|(top, bottom)| top / bottom);
    let count = pairs.len() as f64;
    match how {
        Average::Geometric => sim::math::exp(ratios.map(sim::math::ln).sum::<f64>() / count),
        Average::Arithmetic => ratios.sum::<f64>() / count,
        Average::Sums => {
            let sum = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>();
            sum(|pair| pair.0) / sum(|pair| pair.1)
        }
    }
}

/// What the crash campaigns found.
#[derive(Clone, Debug)]
pub struct Crashes {
    /// Of each scheme that promises something.
    pub schemes: Vec<(&'static str, Verdict)>,
    /// Of each mutant.
    pub mutants: Vec<(Mutant, Verdict)>,
}

/// A configuration for crashing `scheme`, with some keys of the machine changed.
fn crash_config_with(scheme: &str, seed: u64, sets: &[(&str, &str)]) -> Result<Config, Error> {
    let mut config = crash_config(scheme, seed)?;
    sets.iter().try_for_each(|(key, value)| config.machine.set(key, value))?;
    config.machine.check()?;
    Ok(config)
}

impl Crashes {
    /// Crashes every scheme that promises something, `points` times all together, and every mutant until it is caught or `patience`
    /// crashes were in vain. `sets` changes keys of the small machine.
    ///
    /// # Errors
    /// [`Error`] for a configuration that does not fit.
    pub fn explore(points: u64, patience: u64, seed: u64, sets: &[(&str, &str)]) -> Result<Self, Error> {
        let promising: Vec<_> = SCHEMES.iter().filter(|scheme| scheme.promises).collect();
        let each = points.div_ceil(promising.len() as u64);
        let config = |scheme: &str| crash_config_with(scheme, seed, sets);
        let schemes =
            promising.iter().map(|scheme| Ok((scheme.name, campaign(&config(scheme.name)?, None, each)?)));
        let schemes = schemes.collect::<Result<_, Error>>()?;
        let mutants = Mutant::ALL.iter().map(|mutant| {
            Ok((*mutant, campaign(&config(mutant.scheme())?, Some(*mutant), points.max(patience))?))
        });
        Ok(Self { schemes, mutants: mutants.collect::<Result<_, Error>>()? })
    }

    /// The claims that rest on crashes, by id.
    pub fn claims(&self) -> Vec<(&'static str, f64)> {
        let failures: u64 = self.schemes.iter().map(|(_, verdict)| verdict.failures).sum();
        let caught = self.mutants.iter().filter(|(_, verdict)| verdict.failures > 0).count();
        vec![
            ("hwlog.crash", failures as f64),
            ("hwlog.mutants", caught as f64 / self.mutants.len().max(1) as f64),
        ]
    }
}
