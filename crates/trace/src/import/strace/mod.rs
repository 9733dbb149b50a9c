//! The output of strace(1) as a trace.
//!
//! Best input: `strace -f -y -s 255 --absolute-timestamps=unix,ns --syscall-times=ns -o FILE` ([`FLAGS`]); other forms
//! (`-ttt`, `-tt`, `-T`, `-xx`, `[pid N]` before a line, one thread only) are read as well, with what they lack left out:
//!
//! | without | is missing |
//! |---|---|
//! | `-f` | other processes and threads |
//! | `-y` | what descriptors lead to that were opened before: calls on them are counted, not stored |
//! | times | gaps and durations, which are 0 |
//! | `-s 255` | the ends of long attribute names |
//!
//! # What happens to a line
//!
//! `line` splits it, `args` reads arguments, `calls` says which call it is, `process` follows threads, `store` decides whether the
//! call is about a file below a root and writes it. Two halves of a call (`<unfinished ...>`, `<... resumed>`) are joined when the
//! second comes; records so stand in the order in which calls end. A thread may show itself before the call that makes it has
//! returned; where several threads are being made at that moment, its lines are held until it is known whose child it is.

mod args;
mod calls;
mod contents;
mod line;
mod process;
mod store;
mod told;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Emitter, ImportError, Sums};
use crate::record::{Entry, Record, Status};
use crate::scope::Scope;
use crate::snapshot::Snapshot;
pub use contents::flags_with_contents;
use line::{Event, Outcome};
pub(super) use told::Told;

/// The arguments with which strace writes what this module wants to read.
pub const FLAGS: &[&str] = &[
    "-f",
    "-y",
    "-s",
    "255",
    "--absolute-timestamps=format:unix,precision:ns",
    "--syscall-times=ns",
    "--seccomp-bpf",
    "-e",
    "signal=none",
    "-e",
    "trace=%file,%desc,%process,clone3,futex,nanosleep,clock_nanosleep,pause,umask,sync,syncfs,msync,munmap,?close_range,\
     ?io_uring_setup",
];

/// Lines of threads whose parent is not known yet, at most.
const HELD_MAX: usize = 100_000;

/// What is known of the files before the first line.
#[derive(Debug)]
pub enum Start {
    /// A snapshot of the roots, taken before; the trace gets what its calls touch.
    Snapshot(Snapshot),
    /// Nothing: sizes and kinds are those that the first stat of a file shows.
    Unknown,
}

/// What the importer knows of files.
#[derive(Debug)]
enum Known {
    Snapshot(Snapshot),
    /// Paths of which nothing needs to be said any more.
    Seen(FxHashSet<Box<[u8]>>),
}

/// What a descriptor leads to.
#[derive(Clone, Debug)]
struct Slot {
    /// The trace has its opening: calls on it are stored.
    stored: bool,
    /// The absolute path, as far as it is known.
    path: Option<Box<[u8]>>,
    /// What it is counted as, if it is not stored.
    class: &'static str,
    cloexec: bool,
}

/// A thread.
#[derive(Debug)]
struct Runner {
    number: u32,
    pid: u32,
    table: usize,
    cwd: usize,
    /// The first half of a call.
    half: Option<Half>,
}

/// The first half of a call.
#[derive(Clone, Debug)]
struct Half {
    name: Box<[u8]>,
    args: Box<[u8]>,
    at_ns: u64,
    /// Of a call that makes a thread: the child, if it has shown itself already.
    child: Option<u32>,
}

/// A mapping of a file.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    number: u32,
    len: u64,
}

/// Reads strace's lines and writes a trace.
#[derive(Debug)]
pub struct Importer<W: Write> {
    out: Emitter<W>,
    scope: Scope,
    known: Known,
    threads: FxHashMap<u32, Runner>,
    tables: Vec<FxHashMap<i32, Slot>>,
    directories: Vec<Option<Box<[u8]>>>,
    /// Where the program was started.
    start_directory: Box<[u8]>,
    /// Lines of threads whose parent is not known yet.
    held: BTreeMap<u32, VecDeque<Box<[u8]>>>,
    held_lines: usize,
    /// The numbers of the main threads of processes, for those who wait for them.
    mains: FxHashMap<u32, u32>,
    mappings: FxHashMap<usize, BTreeMap<u64, Mapping>>,
    next_mapping: u32,
    now_ns: u64,
    lines: u64,
    /// Lines that were not understood, and the first of them.
    strange: u64,
    first_strange: Option<(u64, &'static str)>,
    /// Calls of which the recorder knows that it has not seen them.
    lost: u64,
    /// Keeps what is written, where that is asked for.
    kept: Option<contents::Kept>,
}

impl<W: Write> Importer<W> {
    /// Writes to `out`. `directory`: where the program was started, for paths that are relative to it in output without `-y`.
    pub fn new(out: Emitter<W>, scope: Scope, start: Start, directory: &[u8]) -> Self {
        let known = match start {
            Start::Snapshot(snapshot) => Known::Snapshot(snapshot),
            Start::Unknown => Known::Seen(FxHashSet::default()),
        };
        Self {
            out,
            scope,
            known,
            threads: FxHashMap::default(),
            tables: Vec::new(),
            directories: Vec::new(),
            start_directory: directory.into(),
            held: BTreeMap::new(),
            held_lines: 0,
            mains: FxHashMap::default(),
            mappings: FxHashMap::default(),
            next_mapping: 0,
            now_ns: 0,
            lines: 0,
            strange: 0,
            first_strange: None,
            lost: 0,
            kept: None,
        }
    }

    /// Takes a line without its end. One that is not understood is counted, and makes the trace a lossy one.
    pub fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.lines += 1;
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        match line::parse(text) {
            Ok(line) => self.take(text, line),
            Err(what) => {
                self.strange += 1;
                self.first_strange.get_or_insert((self.lines, what));
                Ok(())
            }
        }
    }

    /// Takes all lines of a file.
    pub fn read(&mut self, mut source: impl BufRead, file: &str) -> Result<(), ImportError> {
        let mut text = Vec::new();
        loop {
            text.clear();
            if source.read_until(b'\n', &mut text)? == 0 {
                return Ok(());
            }
            let whole = text.last() == Some(&b'\n');
            let before = self.strange;
            self.line(text.trim_ascii_end())?;
            if self.strange > before && !whole {
                // strace was killed while it wrote.
                self.strange = before;
                self.out.count("last line, which was cut", 1);
            } else if self.strange > before && self.out.calls() == 0 && self.lines <= 3 {
                let what = format!(
                    "{}; this is no output of strace",
                    self.first_strange.map_or("", |(_, what)| what)
                );
                return Err(ImportError::Line { file: file.to_owned(), line: self.lines, what });
            }
        }
    }

    /// Lines that were not understood: how many, and which was the first and why.
    pub fn strange(&self) -> Option<(u64, u64, &'static str)> {
        self.first_strange.filter(|_| self.strange > 0).map(|(line, what)| (self.strange, line, what))
    }

    /// Calls stored so far.
    pub fn calls(&self) -> u64 {
        self.out.calls()
    }

    /// Hands what was written to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flush_contents()?;
        self.out.flush()
    }

    /// Ends the trace; `user_ns`: the program's own user CPU time, if it is known.
    pub fn finish(mut self, user_ns: Option<u64>) -> io::Result<(W, Sums)> {
        while let Some(tid) = self.held.keys().next().copied() {
            self.begin_alone(tid, self.now_ns)?;
        }
        self.finish_contents()?;
        let halves = self.threads.values().filter(|runner| runner.half.is_some()).count();
        if halves > 0 {
            self.out.count("calls that had not returned at the end", halves as u64);
        }
        if self.strange > 0 {
            self.out.count("lines that were not understood", self.strange);
        }
        self.out.finish(user_ns, self.strange + self.lost)
    }

    fn take(&mut self, text: &[u8], line: line::Line<'_>) -> io::Result<()> {
        // Without `-f`, all lines are of one thread.
        let tid = line.tid.unwrap_or(1);
        let at_ns = line.at_ns.unwrap_or(self.now_ns);
        self.now_ns = self.now_ns.max(at_ns);
        if line.event == Event::Nothing {
            return Ok(());
        }
        if !self.threads.contains_key(&tid) && !self.begin(tid, at_ns)? {
            return self.hold(tid, text);
        }
        match line.event {
            Event::Call(name, args, outcome) => self.call(tid, name, args, outcome, at_ns, None),
            Event::Unfinished(name, args) => {
                let half = Half { name: name.into(), args: args.into(), at_ns, child: None };
                self.runner(tid).half = Some(half);
                Ok(())
            }
            Event::Resumed(name, rest, outcome) => self.resumed(tid, name, rest, outcome),
            Event::Exited(code) => self.ended(tid, at_ns, Status::Exited(code)),
            Event::Killed(signal) => self.ended(tid, at_ns, Status::Killed(signal_number(signal))),
            Event::Superseded(by) => self.superseded(tid, by, at_ns),
            Event::Nothing => Ok(()),
        }
    }

    fn runner(&mut self, tid: u32) -> &mut Runner {
        self.threads.get_mut(&tid).expect("a line is taken when its thread has begun")
    }

    fn resumed(&mut self, tid: u32, name: &[u8], rest: &[u8], outcome: Outcome<'_>) -> io::Result<()> {
        let Some(half) = self.runner(tid).half.take() else {
            // It began before strace did.
            self.out.count("calls that had begun before the trace", 1);
            return Ok(());
        };
        if *half.name != *name {
            self.strange += 1;
            self.first_strange.get_or_insert((self.lines, "another call is resumed than was unfinished"));
            return Ok(());
        }
        let mut args = half.args.to_vec();
        args.extend_from_slice(rest);
        self.call(tid, name, &args, outcome, half.at_ns, half.child)
    }

    /// Writes what existed before.
    fn give(out: &mut Emitter<W>, entry: Entry) -> io::Result<()> {
        out.record(&Record::Entry(entry))
    }
}

/// Signals by number (signal(7), x86 and Arm), from 1.
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// The name of a signal.
pub(super) fn signal_name(number: u32) -> &'static str {
    SIGNALS.get((number as usize).wrapping_sub(1)).unwrap_or(&"SIGRT")
}

fn signal_number(name: &[u8]) -> u32 {
    SIGNALS.iter().position(|known| known.as_bytes() == name).map_or(0, |at| at as u32 + 1)
}
