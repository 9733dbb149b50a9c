//! Plans: what an experiment varies, keeps and expects.
//!
//! ```toml
//! [plan]                     # name, why, seed, repeats, stop, clock, machine, prices, order, region, churn, counters,
//!                            # note
//! name = "quick"
//! stop = "2s"                # or "1M ops"
//! [[axis]]                   # one key names the axis, its list holds the values
//! fs = ["pmfs", { name = "hinfs", buffer = "64MiB" }]   # or scheme, or mutant: see [`matrix::Subject`]
//! [[axis]]
//! iosize = ["64", "4KiB"]    # or { value = "1MiB", label = "large", vars = { nfiles = 10 } }
//! sets = ["var.iosize"]      # what an axis of your own changes: var.NAME, fs.OPTION, medium.KEY, processor.KEY, machine
//! [[workload]]               # one of a suite, or a file of yours
//! name = "fxmark/DWOL"
//! vars = { file = "4KiB" }
//! switches = { }             # where the suite's original is repeated, and where it is mended
//! [fs]                       # options for every design that has them
//! [processor]                # keys of the simulated processor, where an axis is "scheme" or "mutant"
//! [standing]                 # whose place among the designs of its class of promise is counted
//! of = "hinfs"
//! [quick]                    # what `--quick` changes
//! [[figure]]                 # drawn by the report
//! [expect]                   # hypotheses, judged with their intervals
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `read` | from TOML |
//! | [`churn`] | the number of a churn |
//! | [`matrix`] | from a plan to cells, with every check that can be made before anything runs |
//! | `identity` | what determines a cell's sample |
//! | [`standing`] | whose place among the designs is counted, and their classes of promise |
//! | `simulated` | the cells of simulators |
//! | [`free`] | the locks and cache lines that cells make free |
//! | [`expect`] | hypotheses |
//! | [`scale`] | how large |
//! | [`usual`] | the medium where none is named |

pub mod churn;
pub mod expect;
pub mod free;
mod identity;
pub mod matrix;
pub(crate) mod read;
pub mod scale;
mod simulated;
pub mod standing;
pub mod usual;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sim::{Bytes, Clock, Nanos};

use crate::counters::Counters;
use crate::error::{Error, read_to_string};
use crate::presets::PLANS;
use crate::prices::Prices;
use document::Problem;
use document::{nearest, nearest_or_toml};
pub use expect::Hypothesis;
pub use matrix::CellSpec;
pub use scale::Scale;
pub use standing::Standing;
use usual::UsualMedium;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Its name, also that of its results.
    pub name: String,
    /// The question it asks, in one sentence.
    pub why: String,
    /// Where its randomness starts.
    pub seed: u64,
    /// How often each cell runs.
    pub repeats: u32,
    /// How long a cell runs before it is measured.
    #[serde(default, skip_serializing_if = "WarmUp::is_none")]
    pub warm_up: WarmUp,
    /// When a cell has run enough.
    pub stop: Stop,
    /// Which clock.
    pub clock: Clock,
    /// The machine that prices CPU work under the virtual clock.
    pub machine: String,
    /// The medium of cells to which no axis gives one; none where an axis does, and in results of before: then `hinfs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<UsualMedium>,
    /// The sets of prices under which it runs; empty: those that price its designs alike ([`Plan::price_sets`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<Prices>,
    /// Whether each design is priced as if it had no original: by how much the prices of designs without one are wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_new: bool,
    /// In which order cells run under the real clock.
    pub order: Order,
    /// Whether `--quick` made it smaller.
    pub quick: bool,
    /// Which events of processors are counted.
    #[serde(default, skip_serializing_if = "Counters::is_none")]
    pub counters: Counters,
    /// What a reader of its numbers must know, in a sentence: by how much it is smaller than what it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Size of the region of each cell; by default worked out from the workload's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Bytes>,
    /// Each cell stores this many times the size of its region before its workload, with files that come and go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<u32>,
    /// What varies.
    pub axis: Vec<Axis>,
    /// What is done.
    pub workload: Vec<Workload>,
    /// Options for every design that has them.
    pub fs: BTreeMap<String, String>,
    /// Keys of the simulated processor, where an axis says a scheme or a mutant; `machine` then names a processor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processor: BTreeMap<String, String>,
    /// Figures, as the report reads them.
    pub figure: Vec<FigureText>,
    /// What the author expects.
    pub expect: Vec<Hypothesis>,
    /// Whose place among the designs is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

/// How long a cell runs before it is measured. What a run does at its start, with empty buffers and caches, is no part of what it
/// does later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WarmUp {
    /// All of a run is measured.
    #[default]
    None,
    /// A tenth of the measured time where the run ends by a time and the suite says that its workloads warm up; none otherwise.
    /// `results::steady` says how much longer a run must be whose start takes more.
    Auto,
    /// So long.
    For(Nanos),
}

impl WarmUp {
    fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// The time before a run that ends by `stop`.
    pub(crate) fn before(self, stop: Stop) -> Nanos {
        match (self, stop) {
            (Self::For(time), _) => time,
            (Self::Auto, Stop::After(time)) if time != Nanos::MAX => Nanos(time.0 / 10),
            (Self::Auto | Self::None, _) => Nanos::ZERO,
        }
    }
}

/// When a cell has run enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After a time of the clock in force.
    After(Nanos),
    /// After that many operations.
    Operations(u64),
}

/// The machine of a plan that names none: a server of today. Plans of papers name theirs.
pub const DEFAULT_MACHINE: &str = "spr-server";

/// The order of cells under the real clock. Under the virtual clock order changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// First repeat of all cells, then the second, so that drift meets all alike.
    Interleaved,
    /// All repeats of a cell, then the next cell.
    Sequential,
}

/// What varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name in results.
    pub name: String,
    /// Its values.
    pub values: Vec<AxisValue>,
    /// What a value changes.
    pub sets: Vec<Target>,
    /// Designs that it does not change: they are measured once for all its values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unaffected: Vec<String>,
    /// Where it is written, for messages.
    #[serde(skip)]
    pub at: Place,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisValue {
    /// The value in results.
    pub label: String,
    /// What the targets are set to.
    pub value: String,
    /// Further options, for a design.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Variables that this value sets besides, and that win over what the axis sets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vars: BTreeMap<String, String>,
}

/// Something that an axis changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The design.
    Design,
    /// The medium.
    Medium,
    /// A parameter of the medium.
    MediumKey(String),
    /// The number of threads or workers, as the suite counts them.
    Threads,
    /// A class of locks or cache lines that takes no time; `nothing` for none.
    Free,
    /// A variable of the workload.
    Variable(String),
    /// An option of the design.
    Option(String),
    /// The logging scheme of a simulated processor.
    Scheme,
    /// A bug that is seeded in a logging scheme, which it names.
    Mutant,
    /// A key of the simulated processor.
    Processor(String),
    /// The simulated processor.
    Machine,
}

/// What is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// `SUITE/NAME`, or a file of a suite that has files.
    pub name: String,
    /// What results call it, when not by its name: where a plan has it twice, with other variables or switches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Variables that win over the workload's own.
    pub vars: BTreeMap<String, String>,
    /// Switches of the suite that are turned on or off.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub switches: BTreeMap<String, bool>,
    /// Stops it otherwise than the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// A region of another size than the plan says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Bytes>,
    /// Where it is written, for messages.
    #[serde(skip)]
    pub at: Place,
}

/// A figure, in the words of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FigureText {
    /// What the report reads.
    pub text: serde_json::Value,
    /// Where it is written, for messages.
    #[serde(skip)]
    pub at: Place,
}

/// A place in the plan's file. Two places are always equal: they do not make two plans differ.
#[derive(Clone, Debug, Default)]
pub struct Place(Option<Problem>);

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Place {
    /// The head of a table.
    pub(crate) fn of(table: &document::Table<'_>) -> Self {
        Self(Some(table.problem("")))
    }

    /// A value.
    pub(crate) fn at(item: &document::Item<'_>) -> Self {
        Self(Some(item.problem("")))
    }

    /// A problem at this place, or without one for a plan made from flags.
    pub fn problem(&self, message: impl Into<String>) -> Error {
        let message = message.into();
        match &self.0 {
            Some(place) => Error::Problem(Problem { message, ..place.clone() }),
            None => Error::Setting(message),
        }
    }
}

impl Plan {
    /// Whether a cell takes little time and another seed gives another number: scripts of Filebench and jobs of fio draw what
    /// they do.
    pub fn is_random_and_short(&self) -> bool {
        const SHORT: Nanos = Nanos::from_millis(100);
        let draws = |name: &str| ["filebench/", "fio/"].iter().any(|suite| name.starts_with(suite));
        let random = |workload: &Workload| {
            let stop = workload.stop.unwrap_or(self.stop);
            draws(&workload.name) && matches!(stop, Stop::After(time) if time <= SHORT)
        };
        self.clock == Clock::Virtual && self.workload.iter().any(random)
    }

    /// Parses a plan; `origin` names the file in messages. With `quick`, its `[quick]` is applied.
    pub fn parse(origin: &str, text: &str, quick: bool) -> Result<Self, Error> {
        Ok(read::partly(origin, text, quick).1?)
    }

    /// The plan called `name` among the presets, or the one in a file.
    pub fn load(name: &str, quick: bool) -> Result<Self, Error> {
        let (origin, text) = Self::text(name)?;
        Self::parse(&origin, &text, quick)
    }

    /// The same, with what can be read of a plan that is wrong, for checks of its parts.
    pub fn load_partly(name: &str, quick: bool) -> (Option<Self>, Result<Self, Error>) {
        match Self::text(name) {
            Err(error) => (None, Err(error)),
            Ok((origin, text)) => {
                let (partly, whole) = read::partly(&origin, &text, quick);
                (partly, whole.map_err(Error::from))
            }
        }
    }

    /// The name of the file of a plan, and its text.
    fn text(name: &str) -> Result<(String, String), Error> {
        if let Some(preset) = PLANS.iter().find(|preset| preset.name == name) {
            return Ok((format!("presets/plans/{name}.toml"), preset.text.to_owned()));
        }
        if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
            let advice = nearest_or_toml(name, PLANS.iter().map(|preset| preset.name));
            return Err(Error::Unknown { what: "plan", name: name.to_owned(), advice });
        }
        let text =
            read_to_string(Path::new(name), "plan file", "`weir list plans` shows those that are built in")?;
        Ok((name.to_owned(), text))
    }

    /// A plan without axes and workloads, for a command that adds them.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            why: String::new(),
            seed: 1,
            repeats: 1,
            warm_up: WarmUp::None,
            stop: Stop::After(Nanos::from_secs(10)),
            clock: Clock::Virtual,
            machine: DEFAULT_MACHINE.to_owned(),
            medium: None,
            prices: Vec::new(),
            as_new: false,
            order: Order::Interleaved,
            quick: false,
            counters: Counters::None,
            note: None,
            region: None,
            churn: None,
            axis: Vec::new(),
            workload: Vec::new(),
            fs: BTreeMap::new(),
            processor: BTreeMap::new(),
            figure: Vec::new(),
            expect: Vec::new(),
            standing: None,
        }
    }

    /// The plan of a result, to run it again.
    pub fn from_json(plan: &serde_json::Value) -> Result<Self, Error> {
        Self::deserialize(plan).map_err(|error| {
            Error::Setting(format!(
                "the plan of this result cannot be run again: {error}; it comes from another version"
            ))
        })
    }

    /// The part of the plan in which the axis `name` has this value only. `workload` and, where no axis sets it, `medium` are
    /// axes as well.
    pub fn only(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let unknown = |known: Vec<&str>| {
            let advice = nearest(value, known);
            Error::Setting(format!("--only {name}={value}: no cell of the plan has it; {advice}"))
        };
        if name == "workload" {
            let called =
                |workload: &Workload| workload.label.clone().unwrap_or_else(|| workload.name.clone());
            let names: Vec<String> = self.workload.iter().map(called).collect();
            self.workload.retain(|workload| called(workload) == value);
            return if self.workload.is_empty() {
                Err(unknown(names.iter().map(String::as_str).collect()))
            } else {
                Ok(())
            };
        }
        let names: Vec<String> = self.axis.iter().map(|axis| axis.name.clone()).collect();
        let Some(axis) = self.axis.iter_mut().find(|axis| axis.name == name) else {
            let advice = nearest(name, names.iter().map(String::as_str).chain(["workload"]));
            return Err(Error::Setting(format!(
                "--only {name}={value}: the plan has no axis \"{name}\"; {advice}"
            )));
        };
        let all = axis.values.clone();
        axis.values.retain(|other| other.label == value);
        if axis.values.is_empty() {
            return Err(unknown(all.iter().map(|value| value.label.as_str()).collect()));
        }
        if axis.sets.contains(&Target::Design) {
            let left = axis.values.clone();
            self.keep_settings_of(&left);
        }
        Ok(())
    }

    /// The resolved plan as it stands in a result.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a plan has string keys only")
    }
}

impl Axis {
    /// An axis whose name says what it sets.
    pub fn known(name: &str, values: impl IntoIterator<Item = AxisValue>) -> Option<Self> {
        let target = match name {
            "fs" => Target::Design,
            "medium" => Target::Medium,
            "threads" => Target::Threads,
            "free" => Target::Free,
            "scheme" => Target::Scheme,
            "mutant" => Target::Mutant,
            _ => return None,
        };
        let values = values.into_iter().collect();
        let sets = vec![target];
        Some(Self { name: name.to_owned(), values, sets, unaffected: Vec::new(), at: Place::default() })
    }
}

impl Workload {
    /// A workload with its own variables, stopped as the plan says.
    pub fn named(name: &str) -> Self {
        let (vars, switches, at) = (BTreeMap::new(), BTreeMap::new(), Place::default());
        Self { name: name.to_owned(), label: None, vars, switches, stop: None, region: None, at }
    }
}

impl AxisValue {
    /// A value that is its own label.
    pub fn plain(value: impl Into<String>) -> Self {
        let value = value.into();
        Self { label: value.clone(), value, options: BTreeMap::new(), vars: BTreeMap::new() }
    }
}

impl From<Stop> for workload::suite::Stop {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::After(time) => Self::After(time),
            Stop::Operations(count) => Self::Operations(count),
        }
    }
}

impl FromStr for Stop {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!("\"{text}\" is neither a time such as 60s, nor a count such as \"1M ops\", nor \"end\"")
        };
        if let Some(count) = text.strip_suffix("ops") {
            return operations(count.trim()).map(Self::Operations).ok_or_else(expected);
        }
        if text == "end" {
            return Ok(Self::After(Nanos::MAX));
        }
        let time: Nanos = text.parse().map_err(|_| expected())?;
        if time == Nanos::ZERO {
            Err("a run of no time measures nothing".to_owned())
        } else {
            Ok(Self::After(time))
        }
    }
}

/// `10k`, `1M`: counts step by 1000.
fn operations(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let factor = match text[end..].trim() {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        _ => return None,
    };
    text[..end].parse::<u64>().ok()?.checked_mul(factor).filter(|count| *count > 0)
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(Nanos::MAX) => f.write_str("end"),
            Self::After(time) => match (time.0 % 1_000_000_000, time.0 % 1_000_000) {
                (0, _) => write!(f, "{}s", time.0 / 1_000_000_000),
                (_, 0) => write!(f, "{}ms", time.0 / 1_000_000),
                _ => write!(f, "{}ns", time.0),
            },
            Self::Operations(count) => write!(f, "{count} ops"),
        }
    }
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "auto" => Ok(Self::Auto),
            _ => match text.parse() {
                Ok(Nanos::ZERO) => Ok(Self::None),
                Ok(time) => Ok(Self::For(time)),
                Err(_) => {
                    Err(format!("\"{text}\" is neither a time such as 100ms, nor \"auto\", nor \"none\""))
                }
            },
        }
    }
}

impl fmt::Display for WarmUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Auto => f.write_str("auto"),
            Self::For(time) => Stop::After(*time).fmt(f),
        }
    }
}

impl Serialize for WarmUp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Stop {
    /// A part of it, one of `parts`, at least 1 ns or one operation; the same where it has no end of its own.
    #[must_use]
    pub fn shorter(self, parts: u64) -> Self {
        match self {
            Self::After(Nanos::MAX) => self,
            Self::After(time) => Self::After(Nanos((time.0 / parts).max(1))),
            Self::Operations(count) => Self::Operations((count / parts).max(1)),
        }
    }

    /// The same `times` as long, or with as many operations; none where it has no end of its own.
    pub fn longer(self, times: u64) -> Option<Self> {
        match self {
            Self::After(Nanos::MAX) => None,
            Self::After(time) => time.0.checked_mul(times).map(|time| Self::After(Nanos(time))),
            Self::Operations(count) => count.checked_mul(times).map(Self::Operations),
        }
    }
}

impl Serialize for Stop {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Read as they are written: as text.
macro_rules! deserialize_as_text {
    ($($type:ty),*) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}

deserialize_as_text!(Stop, WarmUp, Target, Hypothesis);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text.split_once('.') {
            None if text == "fs" => Self::Design,
            None if text == "medium" => Self::Medium,
            None if text == "threads" => Self::Threads,
            None if text == "free" => Self::Free,
            None if text == "scheme" => Self::Scheme,
            None if text == "mutant" => Self::Mutant,
            None if text == "machine" => Self::Machine,
            Some(("var", name)) => Self::Variable(name.to_owned()),
            Some(("fs", name)) => Self::Option(name.to_owned()),
            Some(("medium", name)) => Self::MediumKey(name.to_owned()),
            Some(("processor", name)) => Self::Processor(name.to_owned()),
            _ => {
                return Err(format!(
                    "\"{text}\" is none of var.NAME, fs.OPTION, medium.KEY, processor.KEY, fs, medium, threads, free, \
                     scheme, mutant, machine"
                ));
            }
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Design => f.write_str("fs"),
            Self::Medium => f.write_str("medium"),
            Self::Threads => f.write_str("threads"),
            Self::Free => f.write_str("free"),
            Self::Variable(name) => write!(f, "var.{name}"),
            Self::Option(name) => write!(f, "fs.{name}"),
            Self::MediumKey(name) => write!(f, "medium.{name}"),
            Self::Scheme => f.write_str("scheme"),
            Self::Mutant => f.write_str("mutant"),
            Self::Machine => f.write_str("machine"),
            Self::Processor(name) => write!(f, "processor.{name}"),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_stops_by_time_or_by_operations() {
        assert_eq!("60s".parse(), Ok(Stop::After(Nanos::from_secs(60))));
        assert_eq!("1M ops".parse(), Ok(Stop::Operations(1_000_000)));
        assert!("0s".parse::<Stop>().is_err() && "ops".parse::<Stop>().is_err());
        for text in ["60s", "1500ms", "500000 ops"] {
            assert_eq!(text.parse::<Stop>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn every_preset_comes_back_from_the_plan_of_its_result() {
        for preset in PLANS {
            for quick in [false, true] {
                let plan = Plan::load(preset.name, quick).unwrap();
                assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan, "{}", preset.name);
            }
        }
    }

    #[test]
    fn a_part_of_a_plan_is_named_by_its_axes() {
        let mut plan = Plan::load("quick", false).unwrap();
        plan.only("fs", "hinfs").unwrap();
        let last = plan.workload.last().unwrap().name.clone();
        plan.only("workload", &last).unwrap();
        assert_eq!(plan.cells().unwrap().len(), 1);
        assert!(plan.only("fs", "nova").unwrap_err().to_string().contains("hinfs"));
        assert!(plan.only("treads", "4").unwrap_err().to_string().contains("did you mean \"threads\"?"));
        let mut plan = Plan::load("quick", false).unwrap();
        plan.only("fs", "pmfs").unwrap();
        assert_eq!(plan.cells().unwrap().len(), 4, "an option of the other design is left out");
        let text = "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"1ms\"\n\
                    [[axis]]\nfs = [\"pmfs\", { name = \"hinfs\", label = \"small\" }]\n\
                    [[workload]]\nname = \"filebench/varmail\"\n[fs]\nbuffer = \"1MiB\"\n";
        let whole = Plan::parse("t.toml", text, false).unwrap();
        let mut part = whole.clone();
        part.only("fs", "small").unwrap();
        let alone = part.cells().unwrap()[0].identity();
        assert_eq!(alone, whole.cells().unwrap()[1].identity(), "a design with a label keeps its options");
        let mut plan = Plan::load("hinfs-7", true).unwrap();
        let names = ["pmfs", "hinfs", "hinfs-nclfw"].map(str::to_owned);
        plan.keep_designs(&names).unwrap();
        assert_eq!(plan.cells().unwrap().len(), 8, "an option of the designs left out goes with them");
        assert!(
            plan.keep_designs(&["nova".to_owned()]).unwrap_err().to_string().contains("compares pmfs, hinfs")
        );
    }

    #[test]
    fn a_target_is_written_as_it_is_read() {
        let own = ["var.iosize", "fs.buffer", "medium.latency", "processor.log_size"];
        for text in ["fs", "medium", "threads", "free", "scheme", "mutant", "machine"].into_iter().chain(own)
        {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert!("iosize".parse::<Target>().is_err());
    }
}
