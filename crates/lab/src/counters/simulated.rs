//! Caches and TLBs of a simulated processor: the cell runs once more under qemu's user mode, with a plugin that counts.
//!
//! ```text
//! sample (native) ◀── counts ── plugin in qemu-ARCH ── weir counted-cell: the same plan, cell and seed, under the real clock
//! ```
//!
//! The plugin (`counters/plugin.c`) sees each instruction and each access of the program, and nothing of the kernel. The measured
//! time is between two marks; a mark sets the position of `/dev/null` to a reserved one. A cell that stops by a time makes a part
//! of its operations there, whatever time that takes: the counts are of `sim_ops` operations, and rates are what can be compared.
//! The simulated run has the real clock also where the sample has the virtual one, whose own work would be counted otherwise.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use media::fresh::Fresh;
use results::events::SIMULATED;
use results::{EventRecord, Sample};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::{Clock, Nanos};

use crate::error::Error;
use crate::plan::matrix::Subject;
use crate::plan::{CellSpec, Plan, Stop};

/// The plugin, as the build has compiled it.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/counters.so"));
/// Positions that no file has, at which the measured time begins and ends.
const BEGINS: u64 = 0x5745_4952_0000_0001;
const ENDS: u64 = 0x5745_4952_0000_0002;
/// lseek(2) in the tables of system calls: `asm/unistd_64.h` of x86-64, `asm-generic/unistd.h`.
const SEEK: u32 = if cfg!(target_arch = "x86_64") { 8 } else { 62 };

/// The simulated processor: name of each cache, lines or pages, ways. It is the processor of the study of 2016, an Intel Xeon
/// E5-2620 v3: the last cache by Intel ARK, the others and the TLBs by the tables of Haswell in Intel's 64 and IA-32
/// Architectures Optimization Reference Manual.
const CACHES: [(&str, u32, u32); 9] = [
    ("l1d", 512, 8),
    ("l1i", 512, 8),
    ("l2", 4096, 8),
    ("llc", 245_760, 20),
    ("dtlb", 64, 4),
    ("itlb", 128, 4),
    ("stlb", 1024, 8),
    ("dtlb_2m", 32, 4),
    ("itlb_2m", 8, 8),
];

/// The processor in words.
pub const PROCESSOR: &str = "Xeon E5-2620 v3: L1 32 KiB/8 each, L2 256 KiB/8, LLC 15 MiB/20, dTLB 64/4, iTLB 128/4, \
     second TLB 1024/8; pages of 4 KiB, and as *_2m of 2 MiB; user mode";

/// What a process counts whose parent watches it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// A cell of a plan.
    Cell {
        /// The plan, as results have it.
        plan: Value,
        /// The cell.
        axes: BTreeMap<String, String>,
        /// Which repeat.
        repeat: u32,
        /// Operations after which it ends, where the plan ends it by a time.
        ops: Option<u64>,
    },
    /// Loads from every line of 64 MiB, so many bytes further each time: what the plugin counts is known.
    Walk {
        /// The distance.
        stride: usize,
    },
}

/// What that process says at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Operations in the measured time.
    pub ops: u64,
}

/// The part of the native operations that is simulated: a simulated instruction takes some fifty times as long.
const PART: u64 = 10;
/// Fewer operations say nothing of what each does.
const LEAST_OPS: u64 = 100;

/// Counts by name.
pub type Counts = BTreeMap<String, u64>;

/// The version of qemu that simulates; in words, why there is none, and what to install.
pub fn able() -> &'static Result<String, String> {
    static ABLE: OnceLock<Result<String, String>> = OnceLock::new();
    ABLE.get_or_init(|| {
        let name = program();
        let told = |argument: &str| {
            let output = Command::new(&name).arg(argument).stdin(Stdio::null()).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let version = told("--version").map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!("no program {name}: install it (package qemu-user)"),
            _ => format!("{name}: {error}"),
        })?;
        if !told("-help").is_ok_and(|help| help.contains("-plugin")) {
            return Err(format!(
                "{name} was built without plugins: take the package qemu-user of the distribution"
            ));
        }
        Ok(version.lines().next().unwrap_or_default().split(" (").next().unwrap_or_default().to_owned())
    })
}

fn program() -> String {
    format!("qemu-{}", std::env::consts::ARCH)
}

/// Why a cell cannot be simulated; none if it can.
pub(crate) fn impossible(spec: &CellSpec) -> Option<String> {
    let is_plain = spec.block.is_none() && spec.medium.name() == "dram";
    match &spec.subject {
        Subject::Design { .. } if !is_plain => {
            Some("waiting for a modelled medium would be counted: use the medium dram".to_owned())
        }
        Subject::Design { .. } => None,
        _ => Some("only designs in this process can be simulated; the kernel's work is not seen".to_owned()),
    }
}

/// Runs the cell of a sample once more, simulated by `command`, and puts the counts into the sample; or why there are none.
pub(crate) fn join(sample: &mut Sample, plan: &Plan, spec: &CellSpec, command: &[OsString]) {
    let ops = ends_by_time(spec).then(|| (sample.ops / PART).max(LEAST_OPS));
    let plan = Plan { clock: Clock::Real, ..plan.clone() }.to_json();
    let task = Task::Cell { plan, axes: spec.axes.clone(), repeat: sample.repeat, ops };
    let counted = match impossible(spec) {
        Some(why) => Err(why),
        None => count(&task, command),
    };
    let events = sample.events.get_or_insert_default();
    match counted {
        Ok(counts) => {
            PROCESSOR.clone_into(&mut events.simulated);
            for (name, count) in counts {
                let name = format!("{SIMULATED}{name}");
                events.events.push(EventRecord { name: name.clone(), ..EventRecord::default() });
                sample.counters.insert(name, count);
            }
        }
        Err(why) => {
            let name = format!("{SIMULATED}instructions");
            events.events.push(EventRecord { name, missing: Some(why), ..EventRecord::default() });
        }
    }
}

/// Whether a time ends the cell: a run that is to make the same operations is told how many.
pub(crate) fn ends_by_time(spec: &CellSpec) -> bool {
    matches!(spec.stop, Stop::After(time) if time != Nanos::MAX)
}

/// The counts of a task that `command` works on, simulated.
pub fn count(task: &Task, command: &[OsString]) -> Result<Counts, String> {
    able().as_ref().map_err(Clone::clone)?;
    let (worker, arguments) = command.split_first().ok_or("this program cannot start itself simulated")?;
    let scratch = Scratch::new().map_err(|error| format!("a folder for the plugin: {error}"))?;
    let (plugin, out) = (scratch.0.join("plugin.so"), scratch.0.join("counts"));
    fs::write(&plugin, PLUGIN).map_err(|error| format!("{}: {error}", plugin.display()))?;
    let mut child = Command::new(program())
        .args(["-cpu", "max", "-plugin"])
        .arg(plugin_with_arguments(&plugin, &out))
        .arg(worker)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", program()))?;
    let text = serde_json::to_string(task).expect("a task has string keys only");
    // A child that does not read says why at its end.
    let _ = child.stdin.take().map(|mut input| input.write_all(text.as_bytes()));
    let ended = child.wait_with_output().map_err(|error| format!("{}: {error}", program()))?;
    let last = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().last().unwrap_or_default().to_owned();
    if !ended.status.success() {
        return Err(format!("the simulated run failed ({}): {}", ended.status, last(&ended.stderr)));
    }
    let done: Done = serde_json::from_str(&last(&ended.stdout))
        .map_err(|error| format!("the simulated run did not say what it did: {error}"))?;
    let text = fs::read_to_string(&out).map_err(|error| format!("the plugin left no counts: {error}"))?;
    let mut counts = parse(&text).ok_or("the plugin left counts that cannot be read")?;
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    counts.insert("data_accesses".to_owned(), of("loads") + of("stores"));
    counts.insert("ops".to_owned(), done.ops);
    if counts["instructions"] == 0 {
        return Err("the plugin saw no measured time".to_owned());
    }
    Ok(counts)
}

/// `NAME COUNT` in each line.
fn parse(text: &str) -> Option<Counts> {
    let line = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    let counts: Counts = text.lines().map(line).collect::<Option<_>>()?;
    counts.contains_key("instructions").then_some(counts)
}

fn plugin_with_arguments(plugin: &Path, out: &Path) -> OsString {
    let caches = CACHES.map(|(name, entries, ways)| format!(",{name}={entries}/{ways}")).concat();
    let mut text = OsString::from("file=");
    text.push(plugin);
    text.push(",out=");
    text.push(out);
    text.push(format!(",seek={SEEK},begins={BEGINS},ends={ENDS}{caches}"));
    text
}

/// Tells the plugin, if this process runs under it, that the measured time begins.
pub(crate) fn begins() {
    mark(BEGINS);
}

/// Tells it that the measured time has ended.
pub(crate) fn ends() {
    mark(ENDS);
}

fn mark(position: u64) {
    // The device takes any position; where it is missing nothing is counted, which the parent tells.
    let _ = File::open("/dev/null").and_then(|mut null| null.seek(SeekFrom::Start(position)));
}

/// What a process does whose parent watches it: `task` as it was told, and what it came to, both as JSON.
pub(crate) fn work(
    task: &str,
    run_cell: impl FnOnce(&Plan, &BTreeMap<String, String>, u32) -> Result<Sample, Error>,
) -> Result<String, Error> {
    let task: Task = serde_json::from_str(task)
        .map_err(|error| Error::Setting(format!("this command is started by weir only: {error}")))?;
    let done = match task {
        Task::Cell { plan, axes, repeat, ops } => {
            let mut plan = Plan::from_json(&plan)?;
            if let Some(ops) = ops {
                plan.stop = Stop::Operations(ops);
                plan.workload.iter_mut().for_each(|workload| workload.stop = None);
            }
            let sample = run_cell(&plan, &axes, repeat)?;
            Done { ops: sample.ops }
        }
        Task::Walk { stride } => walk(stride)?,
    };
    Ok(serde_json::to_string(&done).expect("it has a string key only"))
}

/// Pages of the walk: 64 MiB.
const WALKED: usize = 16_384;

fn walk(stride: usize) -> Result<Done, Error> {
    let mut fresh =
        Fresh::new(WALKED).map_err(|error| Error::Setting(format!("64 MiB of memory: {error}")))?;
    fresh.touch();
    begins();
    let ops = fresh.walk(stride) as u64;
    ends();
    Ok(Done { ops })
}

/// A folder of this process that goes away.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("weir-counters-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = Self(std::env::temp_dir().join(name));
        fs::DirBuilder::new().mode(0o700).create(&folder.0)?;
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left where its name says whose it is.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_processor_is_the_one_of_the_study() {
        let kib = |name: &str| CACHES.iter().find(|cache| cache.0 == name).unwrap().1 * 64 / 1024;
        assert_eq!((kib("l1d"), kib("l1i"), kib("l2"), kib("llc")), (32, 32, 256, 15 * 1024));
        assert!(CACHES.iter().all(|(_, entries, ways)| entries.is_multiple_of(*ways)));
    }

    #[test]
    fn counts_that_are_cut_off_are_no_counts() {
        assert_eq!(parse("instructions 5\nloads 2\n").unwrap()["loads"], 2);
        assert!(parse("instructions 5\nloads \n").is_none() && parse("").is_none());
    }
}
