//! `weir bench`: a plan made from flags.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use lab::Plan;
use lab::plan::{Axis, AxisValue, Stop, Workload};
use report::Report;
use report::table::Table;
use report::units::{Unit, ratio};
use results::ResultFile;
use sim::{Bytes, Clock};

use crate::experiment::{self, How};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Run a workload on any designs.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir bench fileserver varmail --fs pmfs,hinfs --threads 1,2,4,8")]
pub(crate) struct Bench {
    /// Workloads: filebench/varmail, a suite, or a file ending in .f (`weir list workloads`)
    #[arg(required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Designs, or host:DIR for a directory of this host (`weir list fs`)
    #[arg(long, value_delimiter = ',', required = true, value_name = "A,B")]
    fs: Vec<String>,
    /// A medium with its parameters: hinfs,latency=400ns; repeatable
    #[arg(long, value_name = "MEDIUM")]
    medium: Vec<String>,
    /// Thread counts: 1,2,4 [default: the workload's]
    #[arg(long, value_delimiter = ',', value_name = "N,M")]
    threads: Vec<u64>,
    /// Which clock: virtual, real, or both
    #[arg(long, value_enum, default_value_t = Clocks::Virtual, hide_possible_values = true)]
    clock: Clocks,
    /// The machine that prices CPU work (`weir list machines`), or a file
    #[arg(long, default_value = "hinfs-server", value_name = "NAME", hide_short_help = true)]
    machine: String,
    /// How long to measure: 10s, or "1M ops"
    #[arg(long, default_value = "10s", value_name = "TIME")]
    runtime: Stop,
    /// Set a variable of the workloads; repeatable
    #[arg(short = 'D', value_name = "VAR=VALUE")]
    vars: Vec<String>,
    /// Set an option; hinfs.buffer=1GiB: of one design; repeatable
    #[arg(short = 'O', long = "option", value_name = "[FS.]KEY=VALUE")]
    options: Vec<String>,
    /// Size of the region [default: half as much again as the files]
    #[arg(long, value_name = "SIZE")]
    region: Option<Bytes>,
    /// How often each cell runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    repeats: u32,
    #[command(flatten)]
    how: How,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Clocks {
    Virtual,
    Real,
    Both,
}

impl Bench {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let plan = self.plan()?;
        let clocks: &[Clock] = match self.clock {
            Clocks::Virtual => &[Clock::Virtual],
            Clocks::Real => &[Clock::Real],
            Clocks::Both => &[Clock::Virtual, Clock::Real],
        };
        let named = |clock: Clock| match self.clock {
            Clocks::Both => format!("{}-{clock}", plan.name),
            _ => plan.name.clone(),
        };
        let plans: Vec<Plan> =
            clocks.iter().map(|clock| Plan { clock: *clock, name: named(*clock), ..plan.clone() }).collect();
        let results = self.how.run(&plans, output)?;
        let report = self.how.keep(&plan.name, results, output)?;
        experiment::print(&report, output)?;
        if !output.is_json() {
            output.data(&both_clocks(&report));
        }
        experiment::end(&report)?;
        errors(&report)
    }

    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = Plan::new("bench");
        (plan.stop, plan.repeats, plan.region) = (self.runtime, self.repeats, self.region);
        plan.machine.clone_from(&self.machine);
        let (shared, own) = self.options()?;
        plan.fs = shared;
        let design = |name: &String| AxisValue {
            options: own.get(name).cloned().unwrap_or_default(),
            ..AxisValue::plain(name)
        };
        plan.axis.extend(Axis::known("fs", self.fs.iter().map(design)));
        if !self.medium.is_empty() {
            plan.axis.extend(Axis::known("medium", self.medium.iter().map(AxisValue::plain)));
        }
        if !self.threads.is_empty() {
            let threads = self.threads.iter().map(|threads| AxisValue::plain(threads.to_string()));
            plan.axis.extend(Axis::known("threads", threads));
        }
        let vars = assignments(&self.vars, "-D")?;
        let names = self.workloads.iter().flat_map(|name| lab::named::full_names(name));
        plan.workload = names.map(|name| workload(&name, &vars)).collect();
        Ok(plan)
    }

    /// Options for all designs, and those for one each.
    fn options(&self) -> Result<(BTreeMap<String, String>, Own), Failure> {
        let (mut shared, mut own) = (BTreeMap::new(), Own::new());
        for (key, value) in assignments(&self.options, "--option")? {
            match key.split_once('.') {
                None => drop(shared.insert(key, value)),
                Some((design, option)) => {
                    if !self.fs.iter().any(|fs| fs == design) {
                        return Err(Failure::usage(format!("--option {key}: {design} is not in --fs")));
                    }
                    own.entry(design.to_owned()).or_default().insert(option.to_owned(), value);
                }
            }
        }
        Ok((shared, own))
    }
}

/// Options by design.
type Own = BTreeMap<String, BTreeMap<String, String>>;

fn workload(name: &str, vars: &BTreeMap<String, String>) -> Workload {
    Workload { vars: vars.clone(), ..Workload::named(name) }
}

fn assignments(texts: &[String], flag: &str) -> Result<BTreeMap<String, String>, Failure> {
    let parse = |text: &String| {
        let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) =
            pair.ok_or_else(|| Failure::usage(format!("{flag} {text}: write it as name=value")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(parse).collect()
}

/// Virtual by real throughput of each cell, when both clocks ran.
fn both_clocks(report: &Report) -> String {
    let [modelled, real] = report.sections.as_slice() else { return String::new() };
    let mut table = Table::new("virtual clock by real clock: 1.00x is a model that tells the truth");
    table.words("cell");
    for name in ["virtual", "real", "virtual/real"] {
        table.numbers(name);
    }
    let (modelled, real) = (rates(&modelled.results), rates(&real.results));
    for (cell, virtual_rate) in &modelled {
        let Some(real_rate) = real.get(cell) else { continue };
        let rate = |rate: f64| Unit::OpsPerSecond.human(rate);
        let by = if *real_rate > 0.0 { ratio(virtual_rate / real_rate) } else { "–".to_owned() };
        table.rows.push(vec![cell.clone(), rate(*virtual_rate), rate(*real_rate), by]);
    }
    format!("\n{}", table.to_text())
}

/// Median throughput by cell.
fn rates(results: &ResultFile) -> BTreeMap<String, f64> {
    let cells = report::cell::cells(results);
    let name = |cell: &report::cell::Cell<'_>| {
        cell.axes.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join("  ")
    };
    let median =
        |cell: &report::cell::Cell<'_>| results::statistics::median(&cell.throughputs()).unwrap_or(0.0);
    cells.iter().map(|cell| (name(cell), median(cell))).collect()
}

/// Operations of the workload that failed are a failed run.
fn errors(report: &Report) -> Result<(), Failure> {
    let samples = report.sections.iter().flat_map(|section| &section.results.samples);
    match samples.map(|sample| sample.errors).sum() {
        0_u64 => Ok(()),
        count => Err(Failure::new(Exit::Run, format!("{count} operations failed; the report says which"))),
    }
}
