//! `weir explain`: where the time of a result went, what the extents of a file cost, or what a word, an error or an exit code
//! means.

mod classes;
mod fragmentation;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use clap::Args;
use lab::contention;
use results::{ResultFile, Sample};
use sim::LockClass;
use vfs::Errno;

use super::show;
use crate::failure::Failure;
use crate::output::Output;
use crate::partition::Part;
use crate::{experiment, store, topics};

/// Show where the time of a result went or what a file's extents cost, or explain a term or an error.
#[derive(Args, Debug)]
#[command(after_help = "Examples: weir explain result.json --only fs=hinfs · weir explain result.json \
                  --by fs=pmfs,hinfs · weir explain ENOSPC · weir explain p99 · \
                  weir explain fragmentation FILE · weir explain fragmentation POOL:/PATH --medium nvme-a")]
pub(crate) struct Explain {
    /// A result, the directory of a mount, an errno, an exit code, a metric, or the word that an error message names; or
    /// `fragmentation`, with a file
    what: String,
    /// With `fragmentation`: a file of this host, or a file in a pool (POOL:/PATH)
    file: Option<String>,
    /// With `fragmentation`: the SSD on which the file is assumed to lie
    #[arg(long, default_value = "fast24", value_name = "NAME[,KEY=VALUE]", hide_short_help = true)]
    medium: String,
    /// With `fragmentation`: the machine on which the host's part of a read is modelled
    #[arg(long, default_value = "fast24-server", value_name = "NAME", hide_short_help = true)]
    machine: String,
    #[command(flatten)]
    part: Part,
    /// Show only the cells with this value of an axis; repeatable, for several axes
    #[arg(long, value_name = "AXIS=VALUE")]
    only: Vec<String>,
    /// Set two values of an axis side by side, such as two designs: where an operation takes longer
    #[arg(long, value_name = "AXIS=A,B")]
    by: Option<String>,
}

/// What words in results mean.
const WORDS: [(&str, &str); 38] = [
    ("throughput", "operations of the workload divided by the measured time; preparation does not count"),
    ("latency", "the time from call to return of one operation; its parts are named by activity"),
    ("p50", "half of the operations were at least as fast; from a histogram with three significant digits"),
    ("p90", "9 of 10 operations were at least as fast; from a histogram with three significant digits"),
    ("p95", "19 of 20 operations were at least as fast; from a histogram with three significant digits"),
    ("p99", "99 of 100 operations were at least as fast; from a histogram with three significant digits"),
    ("p99.9", "999 of 1000 operations were at least as fast; from a histogram with three significant digits"),
    (
        "p99.99",
        "9999 of 10000 operations were at least as fast; from a histogram with three significant digits",
    ),
    ("cell", "a point of a plan: one value of each axis; its runs differ in their seeds only"),
    ("region", "the part of the medium on which the file system of a cell lies; --region gives its size"),
    ("software", "CPU work other than copying"),
    ("copy", "copying bytes between memory and the caller's buffer"),
    ("data", "the medium serving file data"),
    ("metadata", "the medium serving metadata in place: inodes, directories, block trees"),
    ("journal", "journal or log work: its CPU time and its medium time"),
    ("medium_wait", "waiting for the medium's limited bandwidth"),
    (
        "memory_latency",
        "what lines from a memory under load take beyond its idle latency, since others use it; of the machine's memory, too",
    ),
    ("memory_turn", "waiting for a turn at the greatest traffic that a memory under load has"),
    ("lock_wait", "waiting for a lock; results also have the name of the lock"),
    (
        "cache_lines",
        "waiting, in the course of CPU work, for cache lines that other cores have changed: lines by their names, and the words \
         of locks",
    ),
    ("stall", "waiting for background work to make room: a free buffer, journal space"),
    ("sleep", "sleeping for a time that the task chooses, such as a pause between operations"),
    ("core_wait", "waiting for a core that another task uses"),
    ("generator", "what the load generator does between calls"),
    (
        "program",
        "of a replay: what the recorded program does between its calls; it computes, and its threads wait for each other",
    ),
    (
        "trace_order",
        "of a replay: a thread waiting for another thread of its program, because a file, a descriptor or a name passes from one \
         to the other",
    ),
    ("nvmm_written_bytes", "cache lines that reached the medium by flush or non-temporal store, times 64"),
    ("lines_written", "cache lines that reached the medium by flush or non-temporal store"),
    ("bytes_loaded", "bytes read from the medium"),
    ("flushes", "calls that write cache lines back"),
    ("fences", "calls that wait until earlier write-backs are done"),
    ("virtual", "the clock that models time: deterministic from the seed, on any host"),
    (
        "media",
        "what file systems lie on: memory or block devices, each with a model of what an access takes. `weir list media`, \
         `weir show NAME` (every constant with its source), `weir sim medium NAME` (what accesses take)",
    ),
    (
        "machines",
        "what CPU work, copies, locks and lines that cores share take under the virtual clock. `weir list machines`, `weir show \
         NAME`; `weir calibrate` measures this host (docs/my-machine.md)",
    ),
    (
        "kernel",
        "of a machine: what Linux does above every file system, its path and its locks (NAME,kernel=none leaves them out). \
         --kernel-fs measures file systems of this host's kernel, --kernel-locks says what tasks wait for in it",
    ),
    (
        "robust",
        "of a winner: it also wins in the settings that --robust tries, other seeds, a shorter run, other prices, media and \
         machines. Of a claim: it holds under every reading of the paper (`weir reproduce PAPER --readings`)",
    ),
    (
        "accuracy",
        "how far a modelled ratio of two designs may be wrong, from pairs that others have measured; no difference smaller than \
         that is called one. `weir validate` prints it, docs/validation.md explains it",
    ),
    (
        "prices",
        "what designs do beside loads and stores, one set for all: --prices originals, ran, port:least, port:most",
    ),
];

/// Other names of these words.
const SAME: [(&str, &str); 5] = [
    ("medium", "media"),
    ("machine", "machines"),
    ("trust", "accuracy"),
    ("error", "accuracy"),
    ("price", "prices"),
];

const EXIT_CODES: [(&str, &str); 9] = [
    ("0", "success"),
    ("1", "a check or a threshold failed; of `weir fsck --repair`: the pool was repaired"),
    ("2", "usage, or a plan with an error: the message has file, line and column"),
    ("3", "this host cannot do it; `weir doctor` says why"),
    ("4", "the run failed: an I/O error, no space; of `weir fsck --repair`: violations are left"),
    ("5", "corruption: a pool or a file's content is not what it must be"),
    ("8", "`weir fsck --repair` could not read or write the pool"),
    ("70", "internal error; please report it"),
    ("130", "interrupted; the results so far are written and marked partial"),
];

impl Explain {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match (&*self.what, &self.file) {
            ("fragmentation", Some(file)) => {
                return fragmentation::explain((file, self.part), &self.medium, &self.machine, output);
            }
            ("fragmentation", None) => {
                let advice =
                    "name a file: weir explain fragmentation FILE, or POOL:/PATH for a file in a pool";
                return Err(Failure::usage(advice));
            }
            (what, Some(file)) => {
                return Err(Failure::usage(format!(
                    "\"{what}\" takes no file; `weir explain fragmentation {file}` prints what the file's extents cost"
                )));
            }
            (_, None) => {}
        }
        let text = match self.word() {
            Some(meaning) => format!("{}: {meaning}\n", self.what),
            None => self.result()?,
        };
        if output.is_json() {
            output.document(
                &serde_json::json!({ "schema": "weir.explain/1", "what": self.what, "text": text }),
            );
        } else {
            output.data(&text);
        }
        Ok(())
    }

    /// The meaning of a word.
    fn word(&self) -> Option<String> {
        let pairs = WORDS.iter().chain(&EXIT_CODES);
        // As tables print it: lock wait.
        let asked = self.what.to_lowercase().replace(' ', "_");
        let asked =
            SAME.iter().find(|(other, _)| *other == asked).map_or(asked, |(_, word)| (*word).to_owned());
        if let Some((_, meaning)) = pairs.into_iter().find(|(word, _)| *word == asked) {
            return Some((*meaning).to_owned());
        }
        if let Some(topic) = topics::all().find(|topic| topic.word == self.what) {
            return Some(format!("errors with \"{}\"\n\n{}", topic.part.trim_end_matches(": "), topic.text));
        }
        let class = contention::all().into_iter().find(|class| class.name() == self.what);
        let here = lab::kernel_locks::meaning_of(&self.what).map(|what| {
            format!("{what}\n\n`weir bench … --kernel-locks` records how long tasks wait for it in this host's kernel.")
        });
        if class.is_some() || here.is_some() {
            return Some(here.into_iter().chain(class.map(about)).collect::<Vec<_>>().join("\n\n"));
        }
        let upper = self.what.to_uppercase();
        let (errno, _) = Errno::ALL.iter().find(|(_, name)| *name == upper)?;
        Some(format!("{errno} (errno {})", errno.number()))
    }

    /// Where the time of a result went.
    fn result(&self) -> Result<String, Failure> {
        let only = experiment::only(&self.only)?;
        let results = store::read(&self.what).map_err(|failure| {
            // A directory that the user cannot look into exists.
            if !matches!(Path::new(&self.what).try_exists(), Ok(false)) {
                return failure;
            }
            if show::knows(&self.what) {
                let what = &self.what;
                return Failure::usage(format!(
                    "{what} is no result and no word; `weir show {what}` says all about it"
                ));
            }
            let words: Vec<_> = WORDS.iter().map(|(word, _)| *word).collect();
            Failure {
                message: format!("{}; or name a term: {}", failure.message, words.join(", ")),
                ..failure
            }
        })?;
        let mut samples = results.iter().flat_map(|result| &result.samples);
        let chosen = |sample: &Sample| only.iter().all(|(axis, value)| sample.axis(axis) == Some(value));
        if !only.is_empty() && !samples.any(chosen) {
            return Err(Failure::usage(format!(
                "--only {}: no cell of {} has it",
                self.only.join(" "),
                self.what
            )));
        }
        match &self.by {
            Some(by) => self.contrast(&results, &only, by),
            None => Ok(report::explain(&results, &only) + &classes::told(&results, &only)),
        }
    }

    /// Two values of an axis side by side.
    fn contrast(
        &self,
        results: &[ResultFile],
        only: &BTreeMap<String, String>,
        by: &str,
    ) -> Result<String, Failure> {
        let pair = by.split_once('=').and_then(|(axis, values)| Some((axis, values.split_once(',')?)));
        let Some((axis, (first, second))) = pair.filter(|(_, (_, second))| !second.contains(',')) else {
            return Err(Failure::usage(format!(
                "--by {by}: give an axis and two of its values, as in --by fs=pmfs,hinfs"
            )));
        };
        let values: BTreeSet<&str> = results.iter().flat_map(|result| result.axis_values(axis)).collect();
        for value in [first, second] {
            if !values.contains(value) {
                let there = values.iter().copied().collect::<Vec<_>>().join(", ");
                let there =
                    if there.is_empty() { "no such axis".to_owned() } else { format!("{axis} is {there}") };
                return Err(Failure::usage(format!(
                    "--by {by}: no cell of {} has {axis}={value}: {there}",
                    self.what
                )));
            }
        }
        let text = report::why::contrast(results, only, axis, (first, second));
        if text.is_empty() {
            return Err(Failure::usage(format!(
                "--by {by}: {} has no two cells that differ in {axis} only and recorded the times of calls",
                self.what
            )));
        }
        Ok(text)
    }
}

/// What a class of locks or cache lines is.
fn about(class: &LockClass) -> String {
    let name = class.name();
    let place = name.split_once('.').map_or(name, |(place, _)| place);
    let what =
        class.line().map_or_else(|| format!("locks of {place}"), |what| format!("a cache line: {what}"));
    format!(
        "{what}\n\n`weir bench … --free {name}` measures how fast a workload would be if it cost no time."
    )
}
