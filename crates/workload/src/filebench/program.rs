//! A script after all checks: every name resolved, every variable read, every number in range.
//!
//! Filebench reads variables when they are used, which is at the run. A [`Program`] is therefore what the
//! script means at its first `run` (for filesets: at `create files`, when that comes first), with the
//! caller's overrides in place. Random variables stay what they are: an [`Amount`] is drawn each time it is
//! used.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rand::Rng;

use super::ast::{Operand, SetValue, Statement};
use super::distribution::Distribution;
use super::parse::parse;
use super::print::Number;
use super::problem::Report;
use super::span::Span;
use super::vocabulary::Op;
use crate::suite::Growth;

/// A checked script, ready to be run.
#[derive(Clone, Debug)]
pub struct Program {
    /// What the script is called in messages.
    pub name: String,
    /// Its filesets, single files included, in order of definition.
    pub filesets: Vec<Fileset>,
    /// Its processes, in order of definition.
    pub processes: Vec<Process>,
    /// What happens before the run, in order.
    pub steps: Vec<Step>,
    /// When the run ends.
    pub end: EndPolicy,
    /// The run; none for a script that only defines.
    pub run: Option<Run>,
    /// Events per second that limiters may consume; 0 or none means that limiters never wait.
    pub event_rate: Option<Amount>,
    /// Whether the script asks for latency histograms (`enable lathist`). Weir always keeps them.
    pub latency_histograms: bool,
    /// Whether the use of processors is measured.
    pub cpu_statistics: bool,
    /// The values of all variables at the run, for the record of the result.
    pub variables: Vec<(String, Value)>,
    /// What the author should know.
    pub warnings: Report,
}

/// A value of a variable.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(u64),
    /// True or false.
    Bool(bool),
    /// A string.
    Text(String),
    /// A random variable.
    Random(Arc<Distribution>),
}

/// A number that is fixed, or drawn at every use.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// Always the same.
    Fixed(u64),
    /// Drawn from a distribution.
    Drawn(Arc<Distribution>),
}

/// A step before the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Print a text.
    Echo(String),
    /// Wait, in seconds.
    Sleep(u64),
    /// Build the filesets now instead of at the run.
    CreateFiles,
    /// Print the filesets.
    ListFilesets,
    /// Print the flowops.
    ListFlowops,
    /// Print the version.
    Version,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndPolicy {
    /// After the time; running out of files is an error.
    #[default]
    Timeout,
    /// When every thread has nothing left to do.
    AllDone,
    /// When one thread has nothing left to do.
    FirstDone,
}

/// `run` or `psrun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Seconds to run; none means until the end policy ends it. In timeout mode the default is 60.
    pub seconds: Option<u64>,
    /// Periodic snapshots.
    pub snapshots: Option<Snapshots>,
}

/// The snapshots of `psrun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshots {
    /// Seconds between two.
    pub period_s: u64,
    /// Whether each starts the statistics anew.
    pub reset: bool,
}

/// A tree of files.
#[derive(Clone, Debug, PartialEq)]
pub struct Fileset {
    /// Its name, which is also the name of its root directory.
    pub name: String,
    /// The directory that holds the root.
    pub path: String,
    /// Number of files.
    pub entries: Amount,
    /// Number of empty directories that can be made and removed.
    pub leafdirs: Amount,
    /// Mean number of entries in a directory.
    pub dirwidth: Amount,
    /// Depth of each branch; none to compute it from entries and width.
    pub dirdepth: Option<Amount>,
    /// Shape of the gamma distributions of width and depth; 0 means exactly the means. Default 1.5.
    pub dirgamma: f64,
    /// Nominal size of each file in bytes, drawn once for each. Default 1024.
    pub size: Amount,
    /// Percent of the files that exist when the run starts. Default 0.
    pub prealloc_percent: u8,
    /// Whether files are preallocated in parallel (up to 32 at once).
    pub paralloc: bool,
    /// Whether a tree that exists is kept, its files resized where needed.
    pub reuse: bool,
    /// Whether a tree that exists is trusted unseen.
    pub trusttree: bool,
    /// Files are opened for reading only.
    pub readonly: bool,
    /// Files are opened for writing only.
    pub writeonly: bool,
    /// Where it is defined.
    pub span: Span,
}

/// A process and its threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Process {
    /// Its name.
    pub name: String,
    /// How many run. Default 1.
    pub instances: u32,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Where it is defined.
    pub span: Span,
}

/// A thread and its loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// How many run in each instance of the process. Default 1.
    pub instances: u32,
    /// Bytes of memory that I/O is done from and to; 0 gives each flowop its own buffer. Default 0.
    pub memsize: u64,
    /// Whether the instances share their memory.
    pub useism: bool,
    /// The loop.
    pub flowops: Vec<Flowop>,
    /// Where it is defined.
    pub span: Span,
}

/// A step of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Flowop {
    /// Its name; steps of a composite are called `composite.step`.
    pub name: String,
    /// How often it is done before the next. Default 1.
    pub iterations: Amount,
    /// What it does.
    pub action: Action,
    /// Where it is written.
    pub span: Span,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// One operation.
    Operation(Box<Operation>),
    /// The steps of a composite flowop, with its parameters put in.
    Composite(Vec<Flowop>),
}

/// An operation with its attributes.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The type.
    pub op: Op,
    /// The fileset, as an index into [`Program::filesets`].
    pub fileset: Option<usize>,
    /// The descriptor slot, 0 to 127. Default 0.
    pub fd: u8,
    /// The slot whose file gives `writewholefile` its size. Default 0.
    pub srcfd: u8,
    /// Bytes of one I/O. Default 0.
    pub iosize: Amount,
    /// Bytes within which random offsets fall; 0 means the nominal size of the file. Default 0.
    pub workingset: Amount,
    /// Which file to pick, instead of the next in turn.
    pub indexed: Option<Amount>,
    /// The number of `hog`, `delay`, semaphores and `finishon…`. Default 0.
    pub value: Amount,
    /// The text of `print`.
    pub text: String,
    /// The name of the flowops that are woken, posted to or counted.
    pub target: Option<String>,
    /// Initial credit of a semaphore. Default 1.
    pub highwater: u64,
    /// Random offsets, multiples of `iosize`.
    pub random: bool,
    /// Open with `O_SYNC`.
    pub dsync: bool,
    /// Open with `O_DIRECT`.
    pub directio: bool,
    /// A semaphore post that waits for credit.
    pub blocking: bool,
    /// A slot for each file of the set, taken in turn; with it files are picked by a rotor of the thread's
    /// own.
    pub opennext: bool,
    /// Tell the file system not to read ahead.
    pub noreadahead: bool,
}

impl Program {
    /// The fileset of this name and its index.
    pub fn fileset(&self, name: &str) -> Option<(usize, &Fileset)> {
        self.filesets.iter().enumerate().find(|(_, fileset)| fileset.name == name)
    }

    /// All threads with their processes.
    pub fn threads(&self) -> impl Iterator<Item = (&Process, &Thread)> {
        self.processes.iter().flat_map(|process| process.threads.iter().map(move |thread| (process, thread)))
    }

    /// By how much files grow: what a count or a number of bytes ends the run at, or appends to files that are never removed.
    pub fn growth(&self) -> Growth {
        let (mut until, mut each) = (None::<u64>, 0);
        for (process, thread) in self.threads() {
            let instances = u64::from(process.instances) * u64::from(thread.instances);
            let operations = thread.operations();
            let largest = operations.iter().map(|(_, operation)| most(&operation.iosize)).max().unwrap_or(0);
            for (_, operation) in &operations {
                let bytes = match operation.op {
                    Op::FinishOnBytes => Some(most(&operation.value)),
                    Op::FinishOnCount => Some(most(&operation.value).saturating_mul(largest)),
                    _ => None,
                };
                let bytes = bytes.map(|bytes| bytes.saturating_mul(instances));
                until = until.into_iter().chain(bytes).reduce(u64::saturating_add);
                if matches!(operation.op, Op::AppendFile | Op::AppendFileRand)
                    && !thread.set_of(operation).is_some_and(|set| self.removes_from(set))
                {
                    each = each.max(most(&operation.iosize));
                }
            }
        }
        match until {
            Some(bytes) => Growth::ToBytes(bytes),
            None if each > 0 => Growth::PerOperation(each),
            None => Growth::None,
        }
    }

    /// Whether a thread removes files of this fileset.
    fn removes_from(&self, set: usize) -> bool {
        self.threads().any(|(_, thread)| {
            let mut operations = thread.operations().into_iter();
            operations
                .any(|(_, operation)| operation.op == Op::DeleteFile && thread.set_of(operation) == Some(set))
        })
    }

    /// How many threads run at once.
    pub(crate) fn thread_instances(&self) -> u64 {
        self.threads()
            .map(|(process, thread)| u64::from(process.instances) * u64::from(thread.instances))
            .sum()
    }
}

/// The most that an amount is likely to be.
fn most(amount: &Amount) -> u64 {
    amount.fixed().unwrap_or_else(|| (amount.mean() * 2.0) as u64)
}

impl Thread {
    /// The fileset of an operation: its own, or that of the file which its slot holds.
    fn set_of(&self, operation: &Operation) -> Option<usize> {
        let opens = |(_, other): &(&Flowop, &Operation)| {
            matches!(other.op, Op::OpenFile | Op::CreateFile) && other.fd == operation.fd
        };
        operation.fileset.or_else(|| self.operations().into_iter().find(opens)?.1.fileset)
    }

    /// All operations of its loop, those inside composites included, in order.
    pub fn operations(&self) -> Vec<(&Flowop, &Operation)> {
        let mut operations = Vec::new();
        collect(&self.flowops, &mut operations);
        operations
    }
}

fn collect<'a>(flowops: &'a [Flowop], into: &mut Vec<(&'a Flowop, &'a Operation)>) {
    for flowop in flowops {
        match &flowop.action {
            Action::Operation(operation) => into.push((flowop, operation)),
            Action::Composite(body) => collect(body, into),
        }
    }
}

impl Amount {
    /// The number to use now.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> u64 {
        match self {
            Self::Fixed(value) => *value,
            Self::Drawn(distribution) => distribution.sample_u64(rng),
        }
    }

    /// The number to use now, with its fraction.
    pub(crate) fn draw_f64<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match self {
            Self::Fixed(value) => *value as f64,
            Self::Drawn(distribution) => distribution.sample(rng),
        }
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed(value) => *value as f64,
            Self::Drawn(distribution) => distribution.mean(),
        }
    }

    /// The number, when it is fixed.
    pub fn fixed(&self) -> Option<u64> {
        match self {
            Self::Fixed(value) => Some(*value),
            Self::Drawn(_) => None,
        }
    }

    /// Whether it is always 0.
    pub fn is_zero(&self) -> bool {
        *self == Self::Fixed(0)
    }
}

impl Value {
    /// Its type in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Int(_) => "a number",
            Self::Bool(_) => "true or false",
            Self::Text(_) => "a string",
            Self::Random(_) => "a random variable",
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => Number(*value).fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Random(distribution) => distribution.fmt(f),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(value) => Number(*value).fmt(f),
            Self::Drawn(distribution) => distribution.fmt(f),
        }
    }
}

/// A value from the command line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a value: {why}")]
pub struct ValueError {
    text: String,
    why: String,
}

impl FromStr for Value {
    type Err = ValueError;

    /// Reads a value as it stands after `-D name=`.
    ///
    /// Takes what `set` takes, and the usual spellings of sizes: `16k`, `16K`, `16Ki` and `16KiB` are 16384.
    /// Anything that is no number, truth value or `cvar(…)`/`randvar(…)` is a string.
    fn from_str(text: &str) -> Result<Self, ValueError> {
        let error = |why: &str| ValueError { text: text.to_owned(), why: why.to_owned() };
        if let Some(size) = size_of(text) {
            let size = i64::try_from(size).map_err(|_| error("it does not fit into 63 bits"))?;
            return Ok(Self::Int(size as u64));
        }
        match text {
            "true" => return Ok(Self::Bool(true)),
            "false" => return Ok(Self::Bool(false)),
            _ if text.starts_with("cvar(") || text.starts_with("randvar(") => {}
            _ => return Ok(Self::Text(text.to_owned())),
        }
        let (script, problems) = parse(&format!("set $value={text}"));
        if let Some(problem) = problems.first() {
            return Err(error(&problem.to_string()));
        }
        let value = script.statements.first().map(|statement| &statement.node);
        let Some(Statement::Set { value, .. }) = value else { return Err(error("it is not complete")) };
        match value {
            SetValue::Plain(operand) if matches!(operand.node, Operand::Int(_)) => {
                Err(error("it is not complete"))
            }
            value => super::check::random::constant(value).map_err(|problem| error(&problem.to_string())),
        }
    }
}

/// Digits with an optional size suffix.
fn size_of(text: &str) -> Option<u128> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if number.is_empty() {
        return None;
    }
    let shift = match suffix.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" | "ki" | "kib" => 10,
        "m" | "mi" | "mib" => 20,
        "g" | "gi" | "gib" => 30,
        "t" | "ti" | "tib" => 40,
        _ => return None,
    };
    Some(number.parse::<u128>().ok().and_then(|value| value.checked_mul(1 << shift)).unwrap_or(u128::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_take_every_usual_spelling_of_a_size() {
        for text in ["16k", "16K", "16Ki", "16KiB", "16384"] {
            assert_eq!(text.parse::<Value>().unwrap(), Value::Int(16384), "{text}");
        }
        assert_eq!("5g".parse::<Value>().unwrap(), Value::Int(5 << 30));
    }

    #[test]
    fn overrides_take_truth_values_strings_and_random_variables() {
        assert_eq!("true".parse::<Value>().unwrap(), Value::Bool(true));
        assert_eq!("/mnt/x".parse::<Value>().unwrap(), Value::Text("/mnt/x".into()));
        let value = "cvar(type=cvar-gamma,parameters=mean:4096;gamma:2)".parse::<Value>().unwrap();
        let Value::Random(distribution) = value else { panic!("{value:?}") };
        assert!((distribution.mean() - 4096.0).abs() < 1e-9);
    }

    #[test]
    fn unreadable_overrides_say_what_is_wrong() {
        let error = "cvar(type=cvar-gama)".parse::<Value>().unwrap_err().to_string();
        assert!(error.contains("cvar-gama"), "{error}");
        let error = "99999999999g".parse::<Value>().unwrap_err().to_string();
        assert!(error.contains("63 bits"), "{error}");
    }
}
