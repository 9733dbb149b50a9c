//! Figures of the report: which runs each needs, and how it is drawn.
//!
//! | figure | shows | runs |
//! |---|---|---|
//! | F1 to F4 | throughput, logging instructions, energy, traffic of the micro-benchmarks | those of the claims |
//! | F5 | applications | four threads |
//! | F6 to F9, F11, F14 | log buffer, time between scans, threads, write latency, machines, log size | sweeps, a key at a time |
//! | F12 | where a transaction's time goes | those of the claims |
//! | F13 | one transaction, span by span | a timeline each |
//! | F10 | crashes that broke a promise, by scheme and mutant | the campaign |
//!
//! A run's axes name its figure; the runs of the claims carry `figure = micro`.

use results::{OperationRecord, Sample};
use serde_json::{Value, json};

use super::{Crashes, Matrix, Scale, machine};
use crate::error::Error;
use crate::run::{Config, Outcome, UNSAFE_BASE};
use crate::timeline::timeline;

/// Schemes of a sweep.
const SWEPT: [&str; 5] = ["undo-clwb", "redo-clwb", "hwl", "fwb", "non-pers"];
const APPLICATIONS: [&str; 7] = [
    "ctree",
    "hashmap",
    "vacation-like",
    "nstore-ycsb-like",
    "nstore-tpcc-like",
    "echo-like",
    super::MEMCACHED,
];
/// The figure that the runs of the claims belong to.
const MICRO: &str = "micro";

/// A run of a figure.
#[derive(Clone, Debug)]
pub struct FigureRun {
    figure: &'static str,
    /// The axis that the figure varies, and its value.
    axis: Option<(&'static str, String)>,
    /// What runs.
    pub config: Config,
}

/// How the figures are drawn, as plans say it.
pub fn specs() -> Value {
    let lists = [micro_specs(), application_specs(), sweep_specs(), other_specs()];
    lists.into_iter().flatten().collect()
}

/// Of the micro-benchmarks.
fn micro_specs() -> Vec<Value> {
    let micro = |id: &str, title: &str, metric: &str, caption: &str| {
        json!({
            "id": id, "title": title, "kind": "heat", "x": "workload", "series": "scheme", "panel": "threads",
            "metric": metric, "relative_to": UNSAFE_BASE, "only": { "figure": MICRO }, "caption": caption,
        })
    };
    vec![
        micro(
            "F1",
            "Throughput",
            "throughput",
            "Relative to the faster of the two schemes that log and promise nothing.",
        ),
        micro(
            "F2",
            "Instructions",
            "per_op.instructions",
            "Instructions a transaction, logging included; fewer is less work.",
        ),
        micro(
            "F3",
            "Dynamic memory energy",
            "per_op.energy_pj",
            "Energy of NVRAM a transaction; less is better.",
        ),
        micro(
            "F4",
            "Memory traffic",
            "per_op.nvram_bytes",
            "Bytes read and written a transaction, log included; less is better.",
        ),
    ]
}

/// Of the applications.
fn application_specs() -> Vec<Value> {
    vec![json!({
        "id": "F5", "title": "Applications", "kind": "heat", "x": "workload", "series": "scheme",
        "relative_to": UNSAFE_BASE, "only": { "figure": "F5" }, "caption": "Four threads.",
    })]
}

/// Of the sweeps.
fn sweep_specs() -> Vec<Value> {
    let sweep = |id: &str, title: &str, x: &str, series: &str, metric: &str, caption: &str| {
        json!({
            "id": id, "title": title, "kind": "lines", "x": x, "series": series, "metric": metric,
            "only": { "figure": id }, "caption": caption,
        })
    };
    vec![
        sweep(
            "F6",
            "Size of the log buffer",
            "log_buffer",
            "workload",
            "throughput",
            "Scheme fwb, four threads; records that the buffer holds.",
        ),
        sweep(
            "F7",
            "Time between scans",
            "log_size",
            "workload",
            "counter.scan_period_ns",
            "Scheme fwb, one thread, scans started by the fill of the log alone.",
        ),
        sweep(
            "F14",
            "Log size",
            "log_size",
            "workload",
            "throughput",
            "Scheme fwb, four threads, scans by timer and by the fill of the log.",
        ),
        sweep(
            "F8",
            "Threads",
            "threads",
            "scheme",
            "throughput",
            "Workload hash; beyond four, two threads share a core.",
        ),
        sweep(
            "F9",
            "Write latency",
            "write_conflict",
            "scheme",
            "throughput",
            "Workload hash, four threads.",
        ),
    ]
}

/// Of crashes, times and machines.
fn other_specs() -> Vec<Value> {
    vec![
        json!({
            "id": "F10", "title": "Crashes that broke a promise", "kind": "heat", "x": "mutant", "series": "scheme",
            "metric": "counter.crash_failures", "only": { "figure": "F10" },
            "caption": "Schemes must have none without a mutant, and each mutant at least one.",
        }),
        json!({
            "id": "F12", "title": "Where the time of a transaction goes", "kind": "breakdown", "series": "scheme",
            "only": { "figure": MICRO, "workload": "archsim/hash", "threads": "1" },
            "caption": "Workload hash, one thread: what retirement waits for.",
        }),
        json!({
            "id": "F13", "title": "One transaction", "kind": "timeline", "series": "scheme",
            "only": { "figure": "F13" }, "caption": "A late transaction of hash, one thread, from the acknowledgement of \
             the one before to its own: stores, log entries, buffers, the controller's queues, banks.",
        }),
        json!({
            "id": "F11", "title": "Machines", "kind": "bars", "x": "machine", "series": "scheme",
            "only": { "figure": "F11" }, "caption": "Workload hash, four threads: the claims' machine, with a queue that \
             persists, behind a CXL link, and McSimA+'s sample.",
        }),
    ]
}

/// The runs that the figures need beyond those of the claims.
///
/// # Errors
/// [`Error`] for a value that is not legal.
pub fn runs(scale: Scale, seed: u64) -> Result<Vec<FigureRun>, Error> {
    let run = |figure, axis, sets: &[(&str, &str)], workload: &str, scheme: &str, threads| {
        let machine = machine(scale, None, sets)?;
        let (workload, scheme) = (workload.to_owned(), scheme.to_owned());
        let config = Config { machine, scheme, workload, threads, seed, ops: scale.ops / 2, trace: None };
        Ok(FigureRun { figure, axis, config })
    };
    let mut runs: Vec<Result<FigureRun, Error>> = Vec::new();
    for workload in APPLICATIONS {
        let schemes = ["unsafe-undo", "unsafe-redo"].into_iter().chain(SWEPT);
        runs.extend(schemes.map(|scheme| run("F5", None, &[], workload, scheme, 4)));
    }
    for workload in ["hash", "sps", "hash-str"] {
        for lines in ["0", "8", "15", "32", "64", "128", "256"] {
            let axis = Some(("log_buffer", lines.to_owned()));
            runs.push(run("F6", axis, &[("log_buffer", lines)], workload, "fwb", 4));
        }
        for size in ["64KiB", "128KiB", "256KiB", "512KiB", "1MiB"] {
            let axis = Some(("log_size", size.to_owned()));
            let sets = [("log_size", size), ("fwb_trigger", "watermark")];
            runs.push(run("F7", axis, &sets, workload, "fwb", 1));
        }
    }
    for workload in ["hash", "sps", "hash-str"] {
        for size in ["64KiB", "128KiB", "256KiB", "512KiB", "1MiB", "4MiB"] {
            let axis = Some(("log_size", size.to_owned()));
            runs.push(run("F14", axis, &[("log_size", size)], workload, "fwb", 4));
        }
    }
    for scheme in SWEPT {
        runs.extend([1, 2, 4, 8].map(|threads| run("F8", None, &[], "hash", scheme, threads)));
        for latency in ["100ns", "200ns", "300ns", "500ns", "1000ns"] {
            let axis = Some(("write_conflict", latency.to_owned()));
            runs.push(run("F9", axis, &[("write_conflict", latency)], "hash", scheme, 4));
        }
        for (name, preset, sets) in [
            ("hpca18", "hpca18", &[][..]),
            ("hpca18, adr", "hpca18", &[("domain", "adr")][..]),
            ("cxl", "cxl", &[][..]),
            ("mcsima", "mcsima", &[][..]),
        ] {
            let mut run = run("F11", Some(("machine", name.to_owned())), &[], "hash", scheme, 4)?;
            run.config.machine = machine(scale, Some(preset), sets)?;
            runs.push(Ok(run));
        }
    }
    runs.into_iter().collect()
}

impl FigureRun {
    /// The record of the run, with the figure among its axes.
    pub fn sample(&self, outcome: &Outcome) -> Sample {
        let mut sample = outcome.sample(&self.config);
        sample.axes.insert("figure".to_owned(), self.figure.to_owned());
        if let Some((axis, value)) = &self.axis {
            sample.axes.insert((*axis).to_owned(), value.clone());
        }
        sample
    }
}

/// The records of the claims' runs and of a figure's, and for each point the faster of the two unsafe schemes once more under its
/// own name.
pub fn samples(matrix: &Matrix, figures: &[(FigureRun, Outcome)]) -> Vec<Sample> {
    let micro = |(config, outcome): &(Config, Outcome)| {
        let mut sample = outcome.sample(config);
        sample.axes.insert("figure".to_owned(), MICRO.to_owned());
        sample
    };
    let mut samples: Vec<Sample> = matrix.runs().map(micro).collect();
    samples.extend(figures.iter().map(|(run, outcome)| run.sample(outcome)));
    let unsafe_base: Vec<Sample> = samples.iter().filter_map(|sample| base(sample, &samples)).collect();
    samples.extend(unsafe_base);
    samples
}

/// The record of `unsafe-base` at the point of `undo`, if that is a record of unsafe-undo.
fn base(undo: &Sample, samples: &[Sample]) -> Option<Sample> {
    if undo.axes.get("scheme")? != "unsafe-undo" {
        return None;
    }
    let mut axes = undo.axes.clone();
    axes.insert("scheme".to_owned(), "unsafe-redo".to_owned());
    let redo = samples.iter().find(|sample| sample.axes == axes)?;
    let faster = if undo.throughput_ops_per_s >= redo.throughput_ops_per_s { undo } else { redo };
    axes.insert("scheme".to_owned(), UNSAFE_BASE.to_owned());
    Some(Sample { axes, ..faster.clone() })
}

/// A transaction of hash under each of the swept schemes, as records.
///
/// # Errors
/// [`Error`] for a value that is not legal.
pub fn timelines(scale: Scale, seed: u64) -> Result<Vec<Sample>, Error> {
    let of = |scheme: &&str| {
        let (machine, scheme, workload) =
            (machine(scale, None, &[])?, (*scheme).to_owned(), "hash".to_owned());
        let config = Config { machine, scheme, workload, threads: 1, seed, ops: scale.ops, trace: None };
        let mut sample = timeline(&config, scale.ops / 2)?.sample(&config);
        sample.axes.insert("figure".to_owned(), "F13".to_owned());
        Ok(sample)
    };
    SWEPT.iter().map(of).collect()
}

/// The records of the crash campaign.
pub fn crash_samples(crashes: &Crashes, seed: u64) -> Vec<Sample> {
    let schemes = crashes.schemes.iter().map(|(scheme, verdict)| (*scheme, "none", verdict));
    let mutants = crashes.mutants.iter().map(|(mutant, verdict)| (mutant.scheme(), mutant.name(), verdict));
    let sample = |(scheme, mutant, verdict): (&str, &str, &crate::crash::Verdict)| {
        let axes = [("figure", "F10"), ("workload", "archsim/crash"), ("scheme", scheme), ("mutant", mutant)];
        let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned())).into();
        let mut sample = Sample { axes, seed, ops: verdict.points, ..Sample::default() };
        sample.counters.insert("crash_failures".to_owned(), verdict.failures);
        sample.counters.insert("recoveries_crashed".to_owned(), verdict.nested);
        sample.operations.push(OperationRecord::new("crash"));
        sample
    };
    schemes.chain(mutants).map(sample).collect()
}
