//! Runs the tasks of rows side by side: loops on a medium, cells of plans, claims of papers, and calls of this host's kernel.
//!
//! Under the virtual clock tasks do not meet, so as many run at once as the host has cores. The calls of the kernel are measured
//! first, while nothing else runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use media::Medium;
use media::block::BlockModel;
use media::medium::{MEDIA, MediumType};
use results::Sample;
use results::validation::{Compared, LeftOut, Row};

use super::kernel::{self, Kind};
use super::{Task, Work, reason};
use crate::cell;
use crate::claims::{Measured, Paper};
use crate::environment;
use crate::error::Error;
use crate::machine::{MachinePreset, THIS_HOST};
use crate::medium;
use crate::medium_load::Probed;
use crate::plan::Plan;
use crate::presets::MACHINES;
use crate::runner::{self, Progress, Runner};

/// How to measure.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How cells run.
    pub runner: runner::Settings,
    /// A directory on ext4, for rows of the kernel's ext4; none: one is looked for.
    pub ext4: Option<PathBuf>,
    /// A directory on tmpfs; none: one is looked for.
    pub tmpfs: Option<PathBuf>,
}

/// Rounds of the kernel's calls, of which the least counts.
const ROUNDS: u32 = 14;
/// A host with a higher load, in hundredths of a process, is not quiet.
const QUIET_PERCENT: u64 = 30;

/// What each call of a script is in the ledger.
const CALLS: [(&str, &str); 8] = [
    ("creat.f", "create"),
    ("append1k.f", "write"),
    ("append16k.f", "write"),
    ("read1k.f", "read"),
    ("read16k.f", "read"),
    ("mkdir.f", "mkdir"),
    ("unlink.f", "unlink"),
    ("fxmark/MWRM", "rename"),
];

/// Runs what the rows want, and puts what was measured, or why nothing was, into them.
pub fn measure(work: Vec<Work>, settings: &Settings, progress: &dyn Progress) -> Result<Vec<Row>, Error> {
    let (mut rows, mut tasks) = (Vec::new(), Vec::new());
    for (row, task) in work {
        let task = match (&row.left_out, task) {
            (Some(why), _) => Err(why.clone()),
            (None, task) => task.and_then(|task| checked(&row, task)),
        };
        rows.push(row);
        tasks.push(task);
    }
    live(&mut rows, &mut tasks, settings);
    mark_fitted(&mut rows);
    let mut values = loops(&rows, &tasks, settings);
    values.extend(probes(&tasks, settings));
    let (plans, papers) = plans(&tasks)?;
    let results = run(&plans, settings, progress)?;
    values.extend(cells(&rows, &tasks, &results));
    values.extend(claims(&tasks, &papers, &results));
    for (at, (row, task)) in rows.iter_mut().zip(&tasks).enumerate() {
        match (task, values.remove(&at)) {
            (Err(why), _) => row.left_out = Some(why.clone()),
            (Ok(_), Some(Ok(value))) if value > 0.0 && value.is_finite() => row.measure(value),
            (Ok(_), Some(Ok(value))) => {
                row.left_out = Some(LeftOut::new("failed", format!("it measured {value}")));
            }
            (Ok(_), Some(Err(why))) => row.left_out = Some(why),
            (Ok(Task::Kernel), None) => {
                let why = "measured on this host's kernel, and nothing is modelled beside it";
                row.left_out = Some(LeftOut::new("kernel", why));
            }
            (Ok(_), None) => row.left_out = Some(LeftOut::new("interrupted", "the run ended before it")),
        }
    }
    Ok(rows)
}

/// Values of rows, by their places.
type Values = BTreeMap<usize, Result<f64, LeftOut>>;

/// What can be seen before anything runs: a plan that makes no cell, a unit that the task does not give.
fn checked(row: &Row, task: Task) -> Result<Task, LeftOut> {
    let unit = |known: &[&str]| match known.contains(&&*row.unit) {
        true => Ok(()),
        false => {
            let why = format!("\"{}\" is no unit of this command's numbers: {}", row.unit, known.join(", "));
            Err(LeftOut::new("unit", why))
        }
    };
    match &task {
        Task::Loop { work, .. } => {
            unit(&["ns", "ns over local", "ns total", "GiB/s", "GB/s", "MiB/s", "MB/s"])?;
            work.check().map_err(|error| LeftOut::new("command", error.to_string()))?;
        }
        Task::Probe(probe) => {
            let known = probe.unit();
            unit(if known == "ns" { &["ns", "ns total"] } else { std::slice::from_ref(&known) })?;
            probe.check().map_err(|error| LeftOut::new("command", error.to_string()))?;
        }
        Task::Cell(plan) => {
            unit(RATES)?;
            let cells = plan.cells().map_err(|error| reason(&error))?;
            let [spec] = &cells[..] else {
                let why = format!("its command has {} cells: a row has one", cells.len());
                return Err(LeftOut::new("command", why));
            };
            if TIMES.contains(&&*row.unit) && call_of(plan).is_none() {
                let why = format!("\"{}\" has no one call that the row could mean", plan.workload[0].name);
                return Err(LeftOut::new("unit", why));
            }
            let needed = cell::memory(spec).map_err(|error| reason(&error))?;
            let free = sim::Bytes(environment::available_bytes());
            if needed > free && free.0 > 0 {
                return Err(LeftOut::new(
                    "host",
                    format!("it needs {needed} of memory, and {free} are free"),
                ));
            }
        }
        Task::Claim { .. } | Task::Kernel => {}
    }
    Ok(task)
}

/// Units of a cell's numbers.
const RATES: &[&str] = &[
    "MiB/s",
    "MB/s",
    "GiB/s",
    "GB/s",
    "ops/s",
    "Mops/s",
    "Mops/s (upper bound)",
    "us",
    "ns",
    "ns/call",
    "ns CPU/call",
];
/// Those that are times of a call.
const TIMES: &[&str] = &["us", "ns", "ns/call", "ns CPU/call"];

/// The call whose time a script's row means.
fn call_of(plan: &Plan) -> Option<&'static str> {
    let name = plan.workload.first()?.name.as_str();
    let name = name.strip_prefix("validation/").unwrap_or(name);
    CALLS.iter().find(|(script, _)| *script == name).map(|(_, call)| *call)
}

// ---- calls of the kernel ----

/// Measures the calls of this host's kernel that rows name. They replace the published values, which are of another host.
fn live(rows: &mut [Row], tasks: &mut [Result<Task, LeftOut>], settings: &Settings) {
    let kind = |row: &Row| row.design.as_deref().and_then(Kind::of).filter(|_| row.unit == "ns CPU/call");
    let wanted: BTreeSet<Kind> = rows.iter().filter_map(kind).collect();
    if wanted.is_empty() {
        return;
    }
    let busy = environment::load_percent().filter(|load| *load > QUIET_PERCENT);
    let found: BTreeMap<Kind, Result<kernel::Calls, LeftOut>> =
        wanted.into_iter().map(|kind| (kind, calls(kind, settings))).collect();
    for (row, task) in rows.iter_mut().zip(tasks) {
        let Some(calls) = kind(row).and_then(|kind| found.get(&kind)) else { continue };
        let time = calls.as_ref().map_err(Clone::clone).and_then(|calls| {
            let why = || LeftOut::new("command", format!("no call of the kernel is called \"{}\"", row.what));
            calls.get(&*row.what).copied().ok_or_else(why)
        });
        match time {
            Err(why) => *task = Err(why),
            Ok(ns) => {
                (row.published, row.live) = (ns, true);
                if let Some(load) = busy.filter(|_| row.compared == Compared::Yes) {
                    row.compared = Compared::No;
                    row.compare = format!("no: the host was busy, load {:.1}", load as f64 / 100.0);
                }
            }
        }
    }
}

/// The calls on a file system of this kind, if the machine of this host is known.
fn calls(kind: Kind, settings: &Settings) -> Result<kernel::Calls, LeftOut> {
    if let Err(error) = MachinePreset::load(THIS_HOST) {
        return Err(LeftOut::new("host", format!("the machine of this host is not measured: {error}")));
    }
    let (given, name, flag) = match kind {
        Kind::Tmpfs => (&settings.tmpfs, "tmpfs", "--tmpfs"),
        Kind::Ext4 => (&settings.ext4, "ext4", "--ext4"),
    };
    if let Some(path) = given.as_ref().filter(|path| Kind::at(path) != Some(kind)) {
        return Err(LeftOut::new("host", format!("{flag} {}: it is not on {name}", path.display())));
    }
    let place = given.clone().or_else(|| kind.directory());
    let none = || LeftOut::new("host", format!("no directory on {name} was found: give one with {flag}"));
    kernel::measure(&place.ok_or_else(none)?, ROUNDS).map_err(|error| LeftOut::new("host", error.to_string()))
}

// ---- rows by which constants were chosen ----

/// Notes the presets that name a row in `fitted_on`.
fn mark_fitted(rows: &mut [Row]) {
    let mut fitted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |preset: &str, ids: &[String]| {
        for id in ids {
            fitted.entry(id.clone()).or_default().push(preset.to_owned());
        }
    };
    for preset in MACHINES {
        if let Ok(machine) = MachinePreset::load(preset.name) {
            add(preset.name, &machine.fitted_on);
        }
    }
    for name in media::medium::names() {
        if let Ok(medium) = Medium::named(name) {
            add(name, medium.fitted_on());
        }
    }
    for name in BlockModel::names() {
        if let Ok(model) = BlockModel::parse(name) {
            add(name, model.fitted_on());
        }
    }
    for row in rows {
        let of_type =
            |kind: &&&dyn MediumType| kind.fitted_on().iter().any(|start| row.id.starts_with(start));
        let types = MEDIA.iter().filter(of_type).map(|kind| kind.name().to_owned());
        row.fitted_by = fitted.get(&row.id).cloned().unwrap_or_default().into_iter().chain(types).collect();
    }
}

// ---- loops ----

fn loops(rows: &[Row], tasks: &[Result<Task, LeftOut>], settings: &Settings) -> Values {
    let wanted = tasks.iter().enumerate().filter_map(|(at, task)| match task {
        Ok(Task::Loop { work, plus_ns }) => Some((at, &**work, *plus_ns)),
        _ => None,
    });
    let wanted: Vec<_> = wanted.collect();
    let all: Vec<_> = wanted.iter().map(|(_, work, _)| *work).collect();
    let goes_on = || !settings.runner.interrupt.load(Relaxed);
    let found = medium::side_by_side(&all, settings.runner.jobs, &goes_on, &|| {});
    let value = |((at, _, plus_ns), found): (&(usize, &medium::Loop, f64), Option<Result<_, _>>)| {
        let value = found?.map(|found| in_unit_of_loop(&rows[*at], found, *plus_ns));
        Some((*at, value.map_err(|error| reason(&error))))
    };
    wanted.iter().zip(found).filter_map(value).collect()
}

fn probes(tasks: &[Result<Task, LeftOut>], settings: &Settings) -> Values {
    let wanted = tasks.iter().enumerate().filter_map(|(at, task)| match task {
        Ok(Task::Probe(probe)) => Some((at, &**probe)),
        _ => None,
    });
    let wanted: Vec<_> = wanted.collect();
    let goes_on = || !settings.runner.interrupt.load(Relaxed);
    let found = medium::each(&wanted, settings.runner.jobs, &goes_on, &|| {}, &|(_, probe)| probe.run());
    let value = |((at, _), found): (&(usize, _), Option<Result<Probed, Error>>)| {
        Some((*at, found?.map(|found| found.value).map_err(|error| reason(&error))))
    };
    wanted.iter().zip(found).filter_map(value).collect()
}

fn in_unit_of_loop(row: &Row, found: medium::Measured, plus_ns: f64) -> f64 {
    match scale(&row.unit) {
        Some(bytes) => found.bytes_per_s / bytes,
        None if row.unit == "ns total" => found.access_ns.unwrap_or(f64::NAN) + plus_ns,
        None => found.access_ns.unwrap_or(f64::NAN),
    }
}

/// Bytes a second of a unit of bandwidth.
fn scale(unit: &str) -> Option<f64> {
    match unit {
        "GiB/s" => Some(1_073_741_824.0),
        "GB/s" => Some(1e9),
        "MiB/s" => Some(1_048_576.0),
        "MB/s" => Some(1e6),
        _ => None,
    }
}

// ---- cells and claims ----

/// Papers by name, with the plans that their claims need.
type Papers = BTreeMap<String, Paper>;

/// The plans of cells, named by the places of their rows, and those of papers.
fn plans(tasks: &[Result<Task, LeftOut>]) -> Result<(Vec<Plan>, Papers), Error> {
    let (mut plans, mut papers) = (Vec::new(), Papers::new());
    let mut of_papers: BTreeSet<String> = BTreeSet::new();
    for (at, task) in tasks.iter().enumerate() {
        match task {
            Ok(Task::Cell(plan)) => plans.push(Plan { name: name(at), ..(**plan).clone() }),
            Ok(Task::Claim { paper, claim }) => {
                if !papers.contains_key(paper) {
                    papers.insert(paper.clone(), Paper::load(paper)?);
                }
                let claims = papers[paper].claims.iter().filter(|known| known.claim.id == *claim);
                of_papers.extend(claims.map(|known| known.measure.plan.clone()));
            }
            _ => {}
        }
    }
    for plan in of_papers {
        plans.push(Plan::load(&plan, false)?);
    }
    Ok((plans, papers))
}

/// The name of the plan of the row at this place.
fn name(at: usize) -> String {
    format!("row-{at}")
}

fn run(plans: &[Plan], settings: &Settings, progress: &dyn Progress) -> Result<Measured, Error> {
    if plans.is_empty() {
        return Ok(Measured::new());
    }
    match Runner::new(settings.runner.clone(), progress).run_all(plans) {
        Ok(results) => Ok(results.into_iter().map(|result| (result.name.clone(), result)).collect()),
        // No cell was measured; the first says why.
        Err(error @ Error::Cell { .. }) => Err(Error::Setting(format!("no row was measured: {error}"))),
        Err(error) => Err(error),
    }
}

fn cells(rows: &[Row], tasks: &[Result<Task, LeftOut>], results: &Measured) -> Values {
    let mut values = Values::new();
    for (at, (row, task)) in rows.iter().zip(tasks).enumerate() {
        if let (Ok(Task::Cell(plan)), Some(result)) = (task, results.get(&name(at)))
            && let [sample] = &result.samples[..]
        {
            values.insert(at, value(row, plan, sample));
        }
    }
    values
}

/// The number of a row in the row's unit.
fn value(row: &Row, plan: &Plan, sample: &Sample) -> Result<f64, LeftOut> {
    if let Some(failure) = &sample.failure {
        return Err(LeftOut::new("failed", failure.what.clone()));
    }
    if sample.errors > 0 {
        return Err(LeftOut::new("failed", format!("{} operations failed", sample.errors)));
    }
    if sample.partial {
        return Err(LeftOut::new("interrupted", "the run ended before it was over"));
    }
    let seconds = sample.elapsed_ns as f64 / 1e9;
    if let Some(bytes) = scale(&row.unit) {
        return Ok((sample.read_bytes + sample.written_bytes) as f64 / seconds / bytes);
    }
    let time = || {
        let call = call_of(plan).expect("it was checked before the run");
        let mean = |kind| {
            let operation = sample.operation(kind).filter(|operation| operation.count > 0)?;
            Some(operation.latency_ns.mean_ns())
        };
        let closed = if row.what.ends_with("_close") { mean("close") } else { Some(0.0) };
        let why = || LeftOut::new("failed", format!("no {call} was timed"));
        Ok(mean(call).ok_or_else(why)? + closed.ok_or_else(why)?)
    };
    match &*row.unit {
        "ops/s" => Ok(sample.throughput_ops_per_s),
        "us" => Ok(time()? / 1e3),
        unit if TIMES.contains(&unit) => time(),
        _ => Ok(sample.throughput_ops_per_s / 1e6),
    }
}

fn claims(tasks: &[Result<Task, LeftOut>], papers: &Papers, results: &Measured) -> Values {
    let mut outcomes = Vec::new();
    for paper in papers.values() {
        outcomes.extend(paper.judge(results));
    }
    let mut values = Values::new();
    for (at, task) in tasks.iter().enumerate() {
        let Ok(Task::Claim { paper, claim }) = task else { continue };
        let outcome = outcomes.iter().find(|outcome| outcome.id == *claim);
        let value = match outcome {
            None if !papers[paper].claims.iter().any(|known| known.claim.id == *claim) => {
                Err(LeftOut::new("command", format!("{paper} has no claim \"{claim}\"")))
            }
            None => continue,
            Some(outcome) => outcome.value.ok_or_else(|| {
                LeftOut::new("failed", outcome.reason.clone().unwrap_or_else(|| "not measured".to_owned()))
            }),
        };
        values.insert(at, value);
    }
    values
}
