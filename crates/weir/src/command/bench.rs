//! `weir bench`: a plan made from flags.

mod clocks;
mod kernel;
mod until;

use std::collections::BTreeMap;

use ::report::characterize;
use clap::{Args, ValueEnum};
use design::{Design, Options};
use lab::counters::Counters;
use lab::kernel_fs::KernelFs;
use lab::plan::{Axis, AxisValue, Stop, WarmUp, Workload};
use lab::presets;
use lab::{MachinePreset, Plan, Prices};
use media::block::BlockModel;
use sim::{Bytes, Clock, Nanos};

use crate::beside::Beside;
use crate::command::validate::With;
use crate::experiment::{self, How};
use crate::failure::Failure;
use crate::output::Output;
use kernel::{Chosen, Kernel};

/// Run workloads on designs.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir bench fileserver varmail --fs pmfs,hinfs --threads 1,2,4,8")]
pub(crate) struct Bench {
    /// Workloads: filebench/varmail, a suite, or a .f or .fio file (`weir list workloads`)
    #[arg(required = true, value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Designs (`weir list fs`), all (that fit), device, or host:DIR
    #[arg(long, value_delimiter = ',', required_unless_present = "kernel_fs", value_name = "A,B")]
    fs: Vec<String>,
    #[command(flatten)]
    kernel: Kernel,
    /// Medium or its file: hinfs,latency=1us [default: the machine's]
    #[arg(long, value_name = "MEDIUM")]
    medium: Vec<String>,
    /// Thread counts: 1,2,4 [default: the workload's]
    #[arg(long, value_delimiter = ',', value_parser = threads, value_name = "N,M")]
    threads: Vec<u64>,
    /// Also run each cell with this class of locks or cache lines costing no time; `weir explain RESULT` names classes;
    /// repeatable
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    free: Vec<String>,
    /// The clock: virtual, real, or both
    #[arg(long, value_enum, default_value_t = Clocks::Virtual, hide_possible_values = true)]
    clock: Clocks,
    /// The machine, or its file, that sets the costs of CPU work under the virtual clock (`weir list machines`)
    /// [default: spr-server, or one that has as many cores as --threads asks for]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    machine: Option<String>,
    /// The prices of what designs do beside loads and stores: originals, ran, port:least, port:most [default: originals, or the
    /// three others where a design has no original]
    #[arg(long, value_delimiter = ',', value_name = "SET", hide_short_help = true)]
    prices: Vec<Prices>,
    /// Count events of processors: real, simulated or both (`weir doctor`)
    ///
    /// real: those that this host counts, dTLB, iTLB and LLC misses, page faults. simulated: caches and TLBs of a processor that
    /// qemu's user mode simulates, for designs on --medium dram. Under the virtual clock the same operations are counted in a run
    /// of their own under the real one, of designs on --medium dram.
    #[arg(long, value_name = "SOURCE", hide_short_help = true)]
    counters: Option<Counters>,
    /// How long to measure: 10s, or "1M ops" [default: the suite's]
    #[arg(long, value_name = "TIME")]
    runtime: Option<Stop>,
    /// How long to run before measuring: 100ms, auto (a tenth of the time), or none [default: auto]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    warm_up: Option<WarmUp>,
    /// Run ten times as long, again and again, until the rate of every cell is steady
    #[arg(long, value_enum, value_name = "STATE", hide_short_help = true)]
    until: Option<Until>,
    /// With --until: do not run longer than this [default: a hundred times the first length]
    #[arg(long, value_name = "TIME", requires = "until", hide_short_help = true)]
    at_most: Option<Nanos>,
    /// Set a variable of the workloads; repeatable
    #[arg(short = 'D', value_name = "VAR=VALUE")]
    vars: Vec<String>,
    /// Run the real program of app/dbench, exim, postmark, rocksdb or tpcc in directories of the host (--fs host:DIR --clock real)
    #[arg(long, hide_short_help = true)]
    program: bool,
    /// On host:DIR: leave the files of each run, and say where
    #[arg(long, hide_short_help = true, conflicts_with = "kernel_fs")]
    keep_files: bool,
    /// Turn a switch of the suite on, or off with NAME=false (`weir show SUITE`); repeatable
    #[arg(long = "switch", value_name = "NAME", hide_short_help = true)]
    switches: Vec<String>,
    /// Set an option of a design: hinfs.buffer=1GiB; repeatable
    #[arg(short = 'O', long = "option", value_name = "[FS.]KEY=VALUE")]
    options: Vec<String>,
    /// Size of the region [default: from the files and their growth]
    #[arg(long, value_name = "SIZE")]
    region: Option<Bytes>,
    /// Before each workload, store N times the size of the region with files that come and go; needs --region [default: none]
    ///
    /// The workload then meets a file system that has been used, in which these files fill a quarter of the region. What is stored
    /// is counted at the medium, outside the measured time. The tables have the longest call; a design's counts say whether it
    /// cleans.
    #[arg(long, value_parser = lab::plan::churn::times, value_name = "N", hide_short_help = true)]
    churn: Option<u32>,
    /// Runs of each cell, each with a seed of its own [default: 1]
    ///
    /// With --kernel-fs the default is 3.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    repeats: Option<u32>,
    #[command(flatten)]
    beside: Beside,
    #[command(flatten)]
    how: How,
}

/// The machine where none is given.
const MACHINE: &str = lab::plan::DEFAULT_MACHINE;

/// Runs of each cell on a file system of the host's kernel, whose times vary.
const KERNEL_REPEATS: u32 = 3;

/// The word for every design.
const ALL: &str = "all";

/// The name of plans made from flags, and of their results.
const NAME: &str = "bench";

/// What a run goes on to.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    Steady,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Clocks {
    Virtual,
    Real,
    Both,
}

impl Bench {
    pub(crate) fn run(mut self, output: &Output) -> Result<(), Failure> {
        self.how.kernel_locks = self.kernel.kernel_locks;
        self.how.keep_files = self.keep_files;
        self.name_all()?;
        for (flag, values) in [("--fs", &self.fs), ("--medium", &self.medium)] {
            once(flag, values)?;
        }
        self.medium.iter().try_for_each(|text| one_medium(text))?;
        self.check_kernel()?;
        once("--threads", &self.threads.iter().map(u64::to_string).collect::<Vec<_>>())?;
        self.check_program()?;
        self.check_counters(output);
        let clocks: &[Clock] = match self.clock {
            Clocks::Virtual => &[Clock::Virtual],
            Clocks::Real => &[Clock::Real],
            Clocks::Both => &[Clock::Virtual, Clock::Real],
        };
        let chosen = self.kernel.choose(&self.medium, &self.threads)?;
        if let Some(chosen) = &chosen {
            chosen.tell(output);
        }
        let plan = |clock: &Clock| self.plan(*clock, chosen.as_ref());
        let mut plans = clocks.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        // Both clocks measure the same: the medium is the machine's, of which the real clock knows nothing.
        let medium = plans[0].medium.clone();
        for plan in &mut plans {
            plan.medium.clone_from(&medium);
        }
        let mut results = match self.until {
            None => self.how.run(&plans, output)?,
            Some(Until::Steady) => until::steady(&self.how, plans, self.at_most, output)?,
        };
        self.beside.note(&self.how, &mut results, output);
        let kept = self.how.keep(NAME, results, output)?;
        experiment::print(&kept.report, output)?;
        tell_causes(&kept.report, output);
        if self.clock == Clocks::Both && !output.is_json() {
            match self.calibrated()? {
                Ok(()) => output.data(&clocks::tables(&kept.report)),
                Err(why) => output.note(&format!(
                    "the two clocks are not compared: {why}; run `weir calibrate`, then give --machine this-host"
                )),
            }
        }
        experiment::end(&kept)?;
        chosen.map_or(Ok(()), |chosen| chosen.end())
    }

    /// Puts the names of all designs in the place of `all`: those with an image that the media are right for. Models of the
    /// kernel's file systems are asked for by their names.
    fn name_all(&mut self) -> Result<(), Failure> {
        if !self.fs.iter().any(|name| name == ALL) {
            return Ok(());
        }
        if self.fs.len() > 1 {
            return Err(Failure::usage("--fs all: it has every design already; give it alone"));
        }
        let blocks: Vec<bool> = self.medium.iter().map(|name| BlockModel::parse(name).is_ok()).collect();
        let blocks = if blocks.is_empty() { vec![false] } else { blocks };
        let fits = |design: &&&dyn Design| {
            let needs = design.format().needs(&Options::defaults(design.options()));
            blocks.iter().all(|is_block| needs.fit(*is_block))
        };
        self.fs = fs::FILE_SYSTEMS.iter().filter(fits).map(|design| design.name().to_owned()).collect();
        match self.fs.is_empty() {
            true => Err(Failure::usage(
                "--fs all: no design is made on memory and on a block device: run the media one by one",
            )),
            false => Ok(()),
        }
    }

    /// What is said of the host's kernel must be for it.
    fn check_kernel(&self) -> Result<(), Failure> {
        let systems = self.kernel.kernel_fs.iter().map(ToString::to_string).collect::<Vec<_>>();
        once("--kernel-fs", &systems)?;
        if !systems.is_empty() && self.clock != Clocks::Real {
            return Err(Failure::usage(
                "--kernel-fs is the real kernel, which takes real time: use --clock real",
            ));
        }
        let hosts = self.fs.iter().any(|fs| fs.starts_with("host:") || fs.starts_with(KernelFs::PREFIX));
        if self.kernel.kernel_locks && ((systems.is_empty() && !hosts) || self.clock == Clocks::Virtual) {
            return Err(Failure::usage(
                "--kernel-locks looks into the host's kernel: use it with --clock real, and --fs host:DIR or --kernel-fs",
            ));
        }
        if self.keep_files && !hosts {
            return Err(Failure::usage(
                "--keep-files is for a directory of the host: use it with --fs host:DIR; --save-image keeps what is on a design",
            ));
        }
        Ok(())
    }

    /// The plan of a row of measurements that this command repeats, under the virtual clock. Its names may be those of files in
    /// `presets/validation`, and `with` adds settings to its medium and machine.
    pub(crate) fn plan_of_row(mut self, with: &With) -> Result<Plan, Failure> {
        if self.clock != Clocks::Virtual {
            return Err(Failure::usage("rows are measured under the virtual clock"));
        }
        self.workloads.iter_mut().for_each(presets::embedded);
        let mut machine = self.machine.take().unwrap_or_else(|| MACHINE.to_owned());
        presets::embedded(&mut machine);
        // What was published was measured from the start on.
        self.warm_up.get_or_insert(WarmUp::None);
        self.medium.iter_mut().for_each(|medium| *medium += &with.medium);
        self.machine = Some(machine + &with.machine);
        self.plan(Clock::Virtual, None)
    }

    fn plan(&self, clock: Clock, chosen: Option<&Chosen>) -> Result<Plan, Failure> {
        let mut plan = Plan::new(NAME);
        if self.clock == Clocks::Both {
            plan.name = format!("{NAME}-{clock}");
        }
        let repeats = self.repeats.unwrap_or(if chosen.is_some() { KERNEL_REPEATS } else { 1 });
        (plan.clock, plan.repeats, plan.region) = (clock, repeats, self.region);
        plan.churn = self.churn;
        plan.counters = self.counters.unwrap_or_default();
        plan.stop = self.runtime.unwrap_or(plan.stop);
        plan.machine = self.machine()?;
        plan.prices.clone_from(&self.prices);
        let (shared, own) = self.options()?;
        plan.fs = shared;
        let design = |name: &String| AxisValue {
            options: own.get(name).cloned().unwrap_or_default(),
            ..AxisValue::plain(name)
        };
        plan.axis.extend(match chosen {
            Some(chosen) => Axis::known("fs", chosen.values()),
            None => Axis::known("fs", self.fs.iter().map(design)),
        });
        if !self.medium.is_empty() && chosen.is_none() {
            plan.axis.extend(Axis::known("medium", self.medium.iter().map(AxisValue::plain)));
        }
        let threads = chosen.map_or(&self.threads, |chosen| &chosen.threads);
        if !threads.is_empty() {
            let threads = threads.iter().map(|threads| AxisValue::plain(threads.to_string()));
            plan.axis.extend(Axis::known("threads", threads));
        }
        if !self.free.is_empty() {
            let names = [lab::plan::free::NOTHING].into_iter().chain(self.free.iter().map(String::as_str));
            plan.axis.extend(Axis::known("free", names.map(AxisValue::plain)));
        }
        let mut vars = assignments(&self.vars, "-D")?;
        if self.program {
            vars.insert(workload::app::PROGRAM.to_owned(), String::new());
        }
        let names = self.workloads.iter().flat_map(|name| lab::named::full_names(name));
        let switches = self.switches()?;
        let workload = |name: String| Workload {
            vars: vars.clone(),
            switches: switches.clone(),
            stop: match self.runtime {
                Some(_) => None,
                None if self.program && workload::app::ends_by_itself(&name) => {
                    Some(Stop::After(sim::Nanos::MAX))
                }
                None => lab::named::usual_time(&name, clock).map(Stop::After),
            },
            ..Workload::named(&name)
        };
        plan.workload = names.map(workload).collect();
        let warms_up = plan.workload.iter().any(|workload| lab::named::warms_up(&workload.name));
        let usual = if warms_up && !self.program { WarmUp::Auto } else { WarmUp::None };
        plan.warm_up = self.warm_up.unwrap_or(usual);
        plan.settle_medium();
        Ok(plan)
    }

    /// A program makes its calls itself, and by the clock of the host.
    fn check_program(&self) -> Result<(), Failure> {
        let is_on_host = self.clock == Clocks::Real && self.fs.iter().all(|fs| fs.starts_with("host:"));
        if self.program && !is_on_host {
            return Err(Failure::usage(
                "--program runs in directories of the host, such as a mount: give --fs host:DIR --clock real",
            ));
        }
        if self.program && self.warm_up.is_some_and(|warm_up| warm_up != WarmUp::None) {
            return Err(Failure::usage("--program has no warm-up: a program is measured from its start on"));
        }
        Ok(())
    }

    /// Says why no processor is simulated that was to count.
    fn check_counters(&self, output: &Output) {
        if self.counters.is_some_and(Counters::simulated)
            && let Err(why) = lab::counters::simulated::able()
        {
            output.note(&format!("nothing is simulated: {why}"));
        }
    }

    /// The machine that was given; else the usual one, or the smallest of the others that has the cores for all threads.
    fn machine(&self) -> Result<String, Failure> {
        if let Some(machine) = &self.machine {
            return Ok(machine.clone());
        }
        let most = self.threads.iter().copied().max().unwrap_or(0);
        let processors =
            |name: &str| MachinePreset::load(name).map(|preset| u64::from(preset.machine.processors()));
        if processors(MACHINE)? >= most {
            return Ok(MACHINE.to_owned());
        }
        let mut others = MachinePreset::embedded()?;
        others.retain(|preset| u64::from(preset.machine.processors()) >= most);
        others.sort_by_key(|preset| preset.machine.processors());
        Ok(others.into_iter().next().map_or_else(|| MACHINE.to_owned(), |preset| preset.machine.name))
    }

    /// Whether the model was measured on this host; if not, why.
    fn calibrated(&self) -> Result<Result<(), String>, Failure> {
        let machine = self.machine()?;
        let preset = MachinePreset::load(&machine)?;
        let here = lab::environment::capture().cpu_model.unwrap_or_default();
        Ok(if !preset.is_measured() {
            Err(format!("--machine {machine} was not measured on this host"))
        } else if !preset.summary.contains(&here) {
            Err(format!("--machine {machine} was measured on another processor than this {here}"))
        } else {
            Ok(())
        })
    }

    /// `--switch NAME` or `--switch NAME=false`.
    fn switches(&self) -> Result<BTreeMap<String, bool>, Failure> {
        let parse = |text: &String| {
            let (name, on) = text.split_once('=').unwrap_or((text, "true"));
            let on = on
                .parse()
                .map_err(|_| Failure::usage(format!("--switch {text}: write NAME or NAME=false")))?;
            Ok((name.to_owned(), on))
        };
        self.switches.iter().map(parse).collect()
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

/// For people: what tasks waited for in the host's kernel, where that was recorded, or why nothing is known of it.
fn tell_causes(report: &report::Report, output: &Output) {
    if output.is_json() {
        return;
    }
    for results in report.sections.iter().map(|section| &section.results) {
        if let Some(why) = ::report::kernel::untold(results) {
            output.note(&format!("this host does not tell what tasks wait for in its kernel: {why}"));
        }
        if let Some(why) = characterize::uncounted(results) {
            output.note(&why);
        }
        if let Some(table) = ::report::kernel::causes(results) {
            output.data(&format!("\n{}", table.to_text()));
        }
    }
}

/// More threads than this are a mistake.
const MOST_THREADS: u64 = 10_000;

fn threads(text: &str) -> Result<u64, String> {
    let threads = text.trim().parse().ok().filter(|threads| (1..=MOST_THREADS).contains(threads));
    threads.ok_or_else(|| format!("expected numbers from 1 to {MOST_THREADS}, as in 1,2,4"))
}

/// A value that is given twice would be measured twice and compared with itself.
fn once(flag: &str, values: &[String]) -> Result<(), Failure> {
    let twice = values.iter().enumerate().find(|(at, value)| values[..*at].contains(value));
    match twice {
        None => Ok(()),
        Some((_, value)) => {
            Err(Failure::usage(format!("{flag}: {value} is given twice; give each value once")))
        }
    }
}

/// Refuses a list of media, which `--fs` takes and `--medium`, whose commas separate parameters, does not, and a setting that is
/// given twice.
fn one_medium(text: &str) -> Result<(), Failure> {
    let names: Vec<&str> = text.split(',').collect();
    let keys: Vec<&str> = names.iter().filter_map(|part| Some(part.split_once('=')?.0.trim())).collect();
    if let Some((_, key)) = keys.iter().enumerate().find(|(at, key)| keys[..*at].contains(key)) {
        return Err(Failure::usage(format!("--medium {text}: {key} is given twice; give each setting once")));
    }
    if names.len() == 1 || names.iter().any(|name| name.contains('=')) {
        return Ok(());
    }
    let flags: Vec<String> = names.iter().map(|name| format!("--medium {name}")).collect();
    Err(Failure::usage(format!("--medium {text}: give several media as {}", flags.join(" "))))
}

/// Options by design.
type Own = BTreeMap<String, BTreeMap<String, String>>;

fn assignments(texts: &[String], flag: &str) -> Result<BTreeMap<String, String>, Failure> {
    let parse = |text: &String| {
        let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
        let (key, value) = pair.ok_or_else(|| Failure::usage(format!("{flag} {text}: write KEY=VALUE")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(parse).collect()
}
