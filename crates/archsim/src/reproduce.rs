//! The published claims, measured: ratios over the ten micro-benchmarks, counts, and the crash campaign.
//!
//! Each claim is a function of a *matrix* of runs, workload x threads x scheme. What the publication leaves open is a
//! [`Reading`]: a name, alternatives, and a default chosen by the text alone. An alternative changes the machine, or the
//! arithmetic ([`Arithmetic`]).

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::crash::mutant::Mutant;
use crate::crash::{Verdict, campaign};
use crate::error::Error;
use crate::machine::Machine;
use crate::run::{Config, Outcome, run};
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
    /// Transactions of a thread before.
    pub warmup: u64,
    /// Crashes, all promising schemes together.
    pub crashes: u64,
}

impl Scale {
    /// For an answer in a minute or two.
    pub const QUICK: Self = Self { ops: 4_000, warmup: 500, crashes: 100_000 };
    /// For the record.
    pub const FULL: Self = Self { ops: 16_000, warmup: 2_000, crashes: 1_000_000 };
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

/// What is computed from the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// The baseline of throughput, traffic, energy and memcached.
    pub baseline: Baseline,
    /// Arithmetic instead of geometric mean over benchmarks.
    pub arithmetic: bool,
    /// Only the integer variants.
    pub int_only: bool,
    /// Writes only, instead of reads and writes.
    pub writes_only: bool,
}

impl Default for Arithmetic {
    fn default() -> Self {
        Self { baseline: Baseline::Faster, arithmetic: false, int_only: false, writes_only: false }
    }
}

/// One way to read what the publication leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Alternative {
    /// Its name.
    pub name: &'static str,
    /// Keys of the machine that it changes.
    pub sets: &'static [(&'static str, &'static str)],
    /// Another machine.
    pub machine: Option<&'static str>,
    /// Another arithmetic.
    pub arithmetic: Option<Arithmetic>,
}

/// A choice that the publication leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Its name.
    pub name: &'static str,
    /// What the default is.
    pub default: &'static str,
    /// Why.
    pub why: &'static str,
    /// The others.
    pub others: &'static [Alternative],
}

const fn sets(name: &'static str, sets: &'static [(&'static str, &'static str)]) -> Alternative {
    Alternative { name, sets, machine: None, arithmetic: None }
}

const DEFAULT: Arithmetic =
    Arithmetic { baseline: Baseline::Faster, arithmetic: false, int_only: false, writes_only: false };

const fn sums(name: &'static str, arithmetic: Arithmetic) -> Alternative {
    Alternative { name, sets: &[], machine: None, arithmetic: Some(arithmetic) }
}

const fn against(name: &'static str) -> Alternative {
    sums(name, Arithmetic { baseline: Baseline::One(name), ..DEFAULT })
}

/// Every reading, with its alternatives to the default.
pub static READINGS: &[Reading] = &[
    Reading {
        name: "baseline",
        default: "the faster of undo-clwb and redo-clwb at each point",
        why: "slides name either undo or redo logging as costly; the weakest claim to make for the hardware",
        others: &[
            against("undo-clwb"),
            against("redo-clwb"),
            against("undoredo-clwb"),
            sums("unsafe-base", Arithmetic { baseline: Baseline::Unsafe, ..DEFAULT }),
        ],
    },
    Reading {
        name: "average",
        default: "geometric",
        why: "usual for ratios",
        others: &[sums("arithmetic", Arithmetic { arithmetic: true, ..DEFAULT })],
    },
    Reading {
        name: "micro set",
        default: "five benchmarks, int and string",
        why: "as HPCA 2018",
        others: &[sums("int only", Arithmetic { int_only: true, ..DEFAULT })],
    },
    Reading {
        name: "traffic",
        default: "reads and writes of NVRAM, log included",
        why: "slides say memory traffic",
        others: &[sums("writes only", Arithmetic { writes_only: true, ..DEFAULT })],
    },
    Reading {
        name: "grain",
        default: "a record holds cache lines",
        why: "slides: undo cache line value and redo cache line value",
        others: &[sets("word", &[("log_grain", "word")])],
    },
    Reading {
        name: "per store",
        default: "a record for each store",
        why: "slides: writes to persistent memory automatically trigger a write to the log",
        others: &[sets("first", &[("log_coalesce", "first")])],
    },
    Reading {
        name: "software cost",
        default: "a fence after each undo record, instructions as documented",
        why: "slides draw a barrier between log and data",
        others: &[
            sets("a fence a transaction", &[("sw_fence", "once")]),
            sets("half the instructions", &[("sw_cost", "50%")]),
            sets("twice the instructions", &[("sw_cost", "200%")]),
        ],
    },
    Reading {
        name: "domain",
        default: "media",
        why: "slides draw nothing between the volatile processor and NVRAM",
        others: &[sets("adr", &[("domain", "adr")])],
    },
    Reading {
        name: "commit",
        default: "waits for the log",
        why: "a commit that may be lost is no commit",
        others: &[sets("async", &[("commit", "async")])],
    },
    Reading {
        name: "energy",
        default: "a line in the array",
        why: "partial writes of dirty columns",
        others: &[sets("row", &[("energy_bits", "row")])],
    },
    Reading {
        name: "conflict",
        default: "at request",
        why: "the simplest",
        others: &[sets("at evict", &[("conflict", "at_evict")])],
    },
    Reading {
        name: "machine",
        default: "hpca18",
        why: "the later paper's, as far as it is recalled",
        others: &[Alternative { name: "mcsima", sets: &[], machine: Some("mcsima"), arithmetic: None }],
    },
    Reading {
        name: "core",
        default: "window",
        why: "HPCA 2018: out of order",
        others: &[sets("in order", &[("core", "inorder")])],
    },
    Reading {
        name: "log buffer",
        default: "15 lines, enforced",
        why: "HPCA 2018; time alone is no guarantee when the domain is the medium",
        others: &[
            sets("15 by timing", &[("log_bound", "timing")]),
            sets("8", &[("log_buffer", "8")]),
            sets("64", &[("log_buffer", "64")]),
            sets("none", &[("log_buffer", "0")]),
        ],
    },
    Reading {
        name: "fwb trigger",
        default: "timer and watermark",
        why: "HPCA 2018: periodic; slides: when a log entry is almost overwritten",
        others: &[
            sets("timer", &[("fwb_trigger", "timer")]),
            sets("watermark", &[("fwb_trigger", "watermark")]),
        ],
    },
    Reading {
        name: "memcached",
        default: "half gets, 256 B",
        why: "the middle of each list",
        others: &[
            sets("95 % gets", &[("gets", "95%")]),
            sets("10 % gets", &[("gets", "10%")]),
            sets("values of 64 B", &[("value", "64B")]),
            sets("values of 1 KiB", &[("value", "1KiB")]),
        ],
    },
];

/// Runs by workload, threads and scheme.
#[derive(Debug, Default)]
pub struct Matrix {
    runs: BTreeMap<(String, u64, &'static str), (Config, Outcome)>,
}

/// The machine of the claims: a preset with other values.
///
/// # Errors
/// [`Error`] for what is no machine.
pub fn machine(scale: Scale, alternative: Option<&Alternative>) -> Result<Machine, Error> {
    let mut machine = Machine::load(alternative.and_then(|other| other.machine).unwrap_or("hpca18"))?;
    machine.warmup = scale.warmup;
    for (key, value) in alternative.map_or(&[][..], |other| other.sets) {
        machine.set(key, value)?;
    }
    machine.check()?;
    Ok(machine)
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
        let points = Self::points(machine, scale, seed);
        let next = AtomicUsize::new(0);
        let runs = Mutex::new(BTreeMap::new());
        let failure = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..jobs.max(1) {
                scope.spawn(|| {
                    while let Some((scheme, config)) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match run(config) {
                            Ok(outcome) => {
                                let key = (config.workload.clone(), config.threads, *scheme);
                                let pair = (config.clone(), outcome);
                                runs.lock().expect("no run panics").insert(key, pair);
                            }
                            Err(error) => *failure.lock().expect("no run panics") = Some(error),
                        }
                        done();
                    }
                });
            }
        });
        match failure.into_inner().expect("no run panics") {
            Some(error) => Err(error),
            None => Ok(Self { runs: runs.into_inner().expect("no run panics") }),
        }
    }

    fn points(machine: &Machine, scale: Scale, seed: u64) -> Vec<(&'static str, Config)> {
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
        };
        all.flat_map(|(workload, threads)| MATRIX.map(|scheme| (scheme, config(workload, threads, scheme))))
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

    /// A number over the micro-benchmarks, averaged at each end of the threads, and the mean of both.
    fn over(&self, how: Arithmetic, value: impl Fn(&str, u64) -> f64) -> f64 {
        let names = WORKLOADS.iter().filter(|known| known.micro).map(|known| known.name);
        let names: Vec<_> = names.filter(|name| !how.int_only || !name.ends_with("-str")).collect();
        let end = |threads: u64| {
            let values = names.iter().map(|name| value(name, threads));
            if how.arithmetic {
                values.sum::<f64>() / names.len() as f64
            } else {
                (values.map(f64::ln).sum::<f64>() / names.len() as f64).exp()
            }
        };
        ENDS.iter().map(|threads| end(*threads)).sum::<f64>() / ENDS.len() as f64
    }

    /// Every claim that the matrix gives, by id.
    pub fn claims(&self, how: Arithmetic) -> Vec<(&'static str, f64)> {
        let fwb = |workload: &str, threads| self.at(workload, threads, "fwb");
        let base = |workload: &str, threads| self.baseline(workload, threads, how.baseline);
        let traffic = |outcome: &Outcome| if how.writes_only { outcome.written() } else { outcome.traffic() };
        let gain = |w: &str, t| fwb(w, t).throughput() / base(w, t).throughput();
        let slow = |w: &str, t| {
            self.faster(w, t, ["undo-clwb", "redo-clwb"]).throughput()
                / self.at(w, t, "non-pers").throughput()
        };
        let both = |w: &str, t| {
            let slower = ["undo-clwb", "redo-clwb"].map(|scheme| self.at(w, t, scheme).throughput());
            self.at(w, t, "undoredo-clwb").throughput() / slower[0].min(slower[1])
        };
        let scheme = scheme::by_name("fwb").expect("it is in the table");
        let sum = |count: &dyn Fn(&Outcome) -> u64| {
            let runs = self.runs.iter().filter(|((_, _, scheme), _)| *scheme == "fwb");
            runs.map(|(_, (_, outcome))| count(outcome)).sum::<u64>() as f64
        };
        let calls = |outcome: &Outcome| {
            outcome.executed.fences + outcome.executed.write_backs + outcome.executed.log_stores
        };
        vec![
            ("hwlog.throughput", self.over(how, gain)),
            ("hwlog.memcached", gain(MEMCACHED, MEMCACHED_THREADS)),
            ("hwlog.traffic", self.over(how, |w, t| traffic(base(w, t)) / traffic(fwb(w, t)))),
            ("hwlog.energy", self.over(how, |w, t| base(w, t).energy_nj() / fwb(w, t).energy_nj())),
            ("hwlog.registers", scheme.register_bytes() as f64),
            ("hwlog.tag_bit", scheme.tag_bits() as f64),
            ("hwlog.software.slow", self.over(how, slow)),
            ("hwlog.software.both_slowest", self.over(how, both)),
            (
                "hwlog.no_extra_reads",
                sum(&|outcome| outcome.counter("hw_log_reads")) / sum(&|outcome| outcome.executed.stores),
            ),
            ("hwlog.interface", sum(&calls) / sum(&|outcome| outcome.executed.transactions)),
            ("hwlog.order", self.order(how)),
        ]
    }

    /// Share of the benchmarks in which the schemes stand in the published order, by their mean over the ends of the threads.
    fn order(&self, how: Arithmetic) -> f64 {
        let names = WORKLOADS.iter().filter(|known| known.micro).map(|known| known.name);
        let names: Vec<_> = names.filter(|name| !how.int_only || !name.ends_with("-str")).collect();
        let holds = |workload: &&&str| {
            let mean = |scheme| {
                let logs = ENDS.map(|threads| self.at(workload, threads, scheme).throughput().ln());
                (logs.iter().sum::<f64>() / ENDS.len() as f64).exp()
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

/// What the crash campaigns found.
#[derive(Clone, Debug)]
pub struct Crashes {
    /// Of each scheme that promises something.
    pub schemes: Vec<(&'static str, Verdict)>,
    /// Of each mutant of `fwb`.
    pub mutants: Vec<(Mutant, Verdict)>,
}

/// A configuration for crashing `scheme`.
///
/// # Errors
/// Never, as long as the preset stands.
pub fn crash_config(scheme: &str, seed: u64) -> Result<Config, Error> {
    let machine = Machine::load("tiny")?;
    let (scheme, workload) = (scheme.to_owned(), "hash".to_owned());
    Ok(Config { machine, scheme, workload, threads: 1, seed, ops: 200 })
}

impl Crashes {
    /// Crashes every scheme that promises something, `points` times all together, and every mutant until it is caught.
    ///
    /// # Errors
    /// [`Error`] for a configuration that does not fit.
    pub fn explore(points: u64, seed: u64) -> Result<Self, Error> {
        let promising: Vec<_> = SCHEMES.iter().filter(|scheme| scheme.promises).collect();
        let each = points.div_ceil(promising.len() as u64);
        let schemes = promising
            .iter()
            .map(|scheme| Ok((scheme.name, campaign(&crash_config(scheme.name, seed)?, None, each)?)));
        let schemes = schemes.collect::<Result<_, Error>>()?;
        let mutants = Mutant::ALL.iter().map(|mutant| {
            Ok((*mutant, campaign(&crash_config("fwb", seed)?, Some(*mutant), points.max(100_000))?))
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
