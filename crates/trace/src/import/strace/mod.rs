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
//! Text whose constants are numbers alone (`-X raw`) is refused: its flags and commands would be taken for none.
//!
//! # What happens to a line
//!
//! `line` splits it, `args` reads arguments, `calls` says which call it is, `process` follows threads, `store` decides whether the
//! call is about a file below a root and writes it. Two halves of a call (`<unfinished ...>`, `<... resumed>`) are joined when the
//! second comes; records so stand in the order in which calls end. A thread may show itself before the call that makes it has
//! returned; where several threads are being made at that moment, its lines are held until it is known whose child it is. `clock`
//! makes one clock of the times. `passed` follows descriptors through sockets, `asynchronous` reads the control blocks of
//! `io_submit`, `place` knows roots, mounts and symbolic links, `mapped` looks at files that are mapped for writing. `stacks` takes
//! the lines that `-k` puts behind a call.
//!
//! # What is not known is lost
//!
//! A call on a descriptor that nothing has opened, relative to a directory that is not known, or after the names of a process
//! have come to lead elsewhere, may be of a file below a root. It is never counted as outside: it is a loss ([`crate::losses`])
//! under its name.
//!
//! # Calls that overlap
//!
//! A descriptor's number is free as soon as `close` has begun, and another thread may be given it before `close` returns. So when a
//! call gives a number that is still open here, and a `close` of it has begun and not returned, that `close` stands before. Without
//! such a `close` the trace has missed one. A call that returns after another thread has closed its descriptor is lost.

mod args;
mod asynchronous;
mod calls;
mod clock;
mod contents;
mod line;
mod mapped;
mod passed;
mod place;
mod process;
mod stacks;
mod store;
mod told;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, Write};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Emitter, ImportError, Sums};
use crate::record::{Entry, Loss, Record, Status};
use crate::scope::Scope;
use crate::snapshot::Snapshot;
use asynchronous::Pending;
use clock::Clock;
pub use contents::flags_with_contents;
use line::{Event, Outcome};
use passed::Flying;
use place::{Links, Place};
pub(crate) use store::MOVED_OUTSIDE;
use store::OUTSIDE;
pub use told::Told;

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
     sendmsg,recvmsg,sendmmsg,recvmmsg,unshare,setns,io_submit,io_getevents,?io_pgetevents,?io_uring_setup,?io_uring_enter",
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
    /// What calls on it are, if they are not stored.
    class: Class,
    cloexec: bool,
}

/// What a call is that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// One that no trace has: under what it is counted.
    Counted(&'static str),
    /// One that the trace should have: why it has not.
    Lost(&'static str),
}

/// What a lost call is, and why it is lost.
#[derive(Clone, Copy, Debug)]
struct Lost<'a> {
    name: &'a [u8],
    why: &'static str,
}

/// A thread.
#[derive(Debug)]
struct Runner {
    number: u32,
    pid: u32,
    table: usize,
    place: usize,
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
    /// What it does has been written already, because other calls have shown it.
    is_done: bool,
    /// Its descriptor was closed meanwhile.
    is_orphan: bool,
}

/// A mapping of a file.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    number: u32,
    len: u64,
    /// The file, if it is looked at.
    file: Option<mapped::Id>,
}

/// A line that waits until its thread is known, with its time.
type HeldLine = (Box<[u8]>, u64);

/// Reads strace's lines and writes a trace.
#[derive(Debug)]
pub struct Importer<W: Write> {
    out: Emitter<W>,
    scope: Scope,
    known: Known,
    threads: FxHashMap<u32, Runner>,
    tables: Vec<FxHashMap<i32, Slot>>,
    places: Vec<Place>,
    /// Where the program was started.
    start_directory: Box<[u8]>,
    /// The descriptors with which it was started.
    inherited: Vec<Told>,
    /// Where symbolic links lead, while a program is being recorded.
    links: Option<Links>,
    /// Lines of threads whose parent is not known yet, with their times.
    held: BTreeMap<u32, VecDeque<HeldLine>>,
    held_lines: usize,
    /// There is a thread whose lines have no number.
    is_unnumbered: bool,
    /// Threads that strace has told of before their first line.
    attached: FxHashSet<u32>,
    /// Every thread is in the text: those that are made and never show themselves are lost.
    silent: FxHashSet<u32>,
    /// A line that strace has broken to tell of a thread.
    broken: Option<Box<[u8]>>,
    is_table: bool,
    /// Reads the times of lines; none where they need no reading.
    clock: Option<Clock>,
    flying: Vec<Flying>,
    next_sent: u32,
    pending: Pending,
    /// The numbers of the main threads of processes, for those who wait for them, and of other threads that have ended.
    mains: FxHashMap<u32, u32>,
    mappings: FxHashMap<usize, BTreeMap<u64, Mapping>>,
    next_mapping: u32,
    watched: mapped::Watched,
    now_ns: u64,
    lines: u64,
    /// Lines that were not understood, and the first of them.
    strange: u64,
    first_strange: Option<(u64, &'static str)>,
    /// Keeps what is written, where that is asked for.
    kept: Option<contents::Kept>,
    stack: stacks::Stack,
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
            places: Vec::new(),
            start_directory: directory.into(),
            inherited: Vec::new(),
            links: None,
            held: BTreeMap::new(),
            held_lines: 0,
            is_unnumbered: false,
            attached: FxHashSet::default(),
            silent: FxHashSet::default(),
            broken: None,
            is_table: false,
            clock: Some(Clock::default()),
            flying: Vec::new(),
            next_sent: 0,
            pending: Pending::default(),
            mains: FxHashMap::default(),
            mappings: FxHashMap::default(),
            next_mapping: 0,
            watched: mapped::Watched::default(),
            now_ns: 0,
            lines: 0,
            strange: 0,
            first_strange: None,
            kept: None,
            stack: stacks::Stack::default(),
        }
    }

    /// The program is being recorded on this host: what it has open as it begins, and its names may be asked for.
    pub fn begins_with(&mut self, inherited: Vec<Told>) {
        self.inherited = inherited;
        self.links = Some(Links::default());
    }

    /// Takes a line without its end. One that is not understood is counted, and makes the trace a lossy one.
    pub fn line(&mut self, text: &[u8]) -> io::Result<()> {
        self.lines += 1;
        let joined = self.broken.take().map(|head| [&*head, text].concat());
        let text = joined.as_deref().unwrap_or(text);
        if text.starts_with(stacks::MARK) {
            self.frame(text);
            return Ok(());
        }
        self.end_stack()?;
        if self.is_other(text) {
            return Ok(());
        }
        let spelled = args::spelled(text);
        let text = spelled.as_deref().unwrap_or(text);
        let before = self.marks();
        let taken = match line::parse(text) {
            Ok(line) => {
                let at_ns = line.at.map(|stamp| match &mut self.clock {
                    Some(clock) => clock.at(stamp),
                    None => stamp.ns,
                });
                self.take(text, line, at_ns)
            }
            Err(what) => {
                self.strange += 1;
                self.first_strange.get_or_insert((self.lines, what));
                Ok(())
            }
        };
        self.begin_stack(before);
        taken
    }

    /// What strace says besides calls: of threads that it follows, also in the midst of a line, and the table of `-C` at the end.
    fn is_other(&mut self, text: &[u8]) -> bool {
        const TELLS: &[u8] = b"strace: Process ";
        if let Some(at) = text.ends_with(b" attached").then(|| find(text, TELLS)).flatten() {
            let word = &text[at + TELLS.len()..text.len() - b" attached".len()];
            let tid = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u32>().ok());
            self.attached.extend(tid);
            self.broken = (at > 0).then(|| text[..at].into());
            return true;
        }
        if text.starts_with(b"% time ") {
            self.is_table = true;
            self.out.count("tables of sums (strace -C)", 1);
        }
        self.is_table || text.trim_ascii().is_empty()
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
            refuse_raw(&text, file, self.lines)?;
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

    /// Takes the files of `strace -ff`, one for each process or thread, whose number is behind the last dot of its name. Their
    /// lines are put into the order in which calls ended; without times there is none.
    pub fn read_each<R: BufRead>(&mut self, files: Vec<(R, String)>) -> Result<(), ImportError> {
        let mut sources = Vec::new();
        for (source, file) in files {
            let number = file.rsplit('.').next().and_then(|word| word.parse().ok());
            let Some(tid) = number else {
                let what = "the name of a file of strace -ff ends with a dot and the number of the process"
                    .to_owned();
                return Err(ImportError::Line { file, line: 1, what });
            };
            sources.push(Each { source, file, tid, line: 0, next: None });
            if let Some(each) = sources.last_mut() {
                each.advance()?;
            }
        }
        // A process begins after the call that has made it.
        while let Some(at) = (0..sources.len())
            .filter(|at| sources[*at].next.is_some())
            .min_by_key(|at| sources[*at].next.as_ref().map(|(end_ns, ..)| (*end_ns, sources[*at].tid)))
        {
            let Some((_, at_ns, text)) = sources[at].next.take() else { break };
            self.lines += 1;
            let tid = sources[at].tid;
            let is_later = self.threads.keys().next().is_some() && !self.threads.contains_key(&tid);
            self.now_ns = self.now_ns.max(at_ns);
            match line::parse(&text) {
                Ok(_) if is_later => self.hold(tid, &text, at_ns)?,
                Ok(mut line) => {
                    line.tid = Some(tid);
                    self.take(&text, line, Some(at_ns))?;
                }
                Err(what) => {
                    self.strange += 1;
                    self.first_strange.get_or_insert((self.lines, what));
                }
            }
            sources[at].advance()?;
        }
        Ok(())
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

    /// What the recorder knows to be missing besides.
    pub fn lacks(&mut self, losses: &[Loss]) {
        for loss in losses {
            self.out.lose(loss);
        }
    }

    /// Ends what lines have begun, and hands all of it to the output: what is left is the end of the trace.
    pub fn settle(&mut self) -> io::Result<()> {
        self.end_stack()?;
        while let Some(tid) = self.held.keys().next().copied() {
            self.begin_alone(tid, self.now_ns)?;
        }
        self.out.flush()
    }

    /// Ends the trace; `user_ns`: the program's own user CPU time, if it is known.
    pub fn finish(mut self, user_ns: Option<u64>) -> io::Result<(W, Sums)> {
        self.settle()?;
        let halves = self.threads.values().filter(|runner| runner.half.is_some()).count();
        self.finish_contents()?;
        if halves > 0 {
            self.out.count("calls that had not returned at the end", halves as u64);
        }
        let steps_back = self.clock.as_ref().map_or(0, Clock::steps_back);
        if steps_back > 0 {
            self.out.count("steps back of the clock, at which the gap is taken for none", steps_back);
        }
        if self.strange > 0 {
            self.out.lose(&Loss::calls(self.strange, "line", "lines that were not understood"));
        }
        if !self.silent.is_empty() {
            let count = self.silent.len() as u64;
            self.out.lose(&Loss::calls(
                count,
                "clone",
                "processes and threads of which the text has no line (strace -f)",
            ));
        }
        self.out.finish(user_ns)
    }

    fn take(&mut self, text: &[u8], line: line::Line<'_>, at_ns: Option<u64>) -> io::Result<()> {
        let at_ns = at_ns.unwrap_or(self.now_ns);
        self.now_ns = self.now_ns.max(at_ns);
        if line.event == Event::Nothing {
            return Ok(());
        }
        let tid = self.tid_of(line.tid)?;
        if !self.threads.contains_key(&tid) && !self.begin(tid, at_ns)? {
            return self.hold(tid, text, at_ns);
        }
        self.silent.remove(&tid);
        match line.event {
            Event::Call(name, args, outcome) => self.call(tid, name, args, outcome, at_ns, None),
            Event::Unfinished(name, args) => {
                let (name, args) = (name.into(), args.into());
                let half = Half { name, args, at_ns, child: None, is_done: false, is_orphan: false };
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
        if half.is_orphan {
            let number = self.runner(tid).number;
            let why = "a call that returned after another thread had closed its descriptor";
            self.lose(number, outcome.duration_ns.unwrap_or(0), 1, Lost { name, why });
            return Ok(());
        }
        if half.is_done && name == b"close" {
            return Ok(());
        }
        let mut args = half.args.to_vec();
        args.extend_from_slice(rest);
        if half.is_done {
            let number = self.runner(tid).number;
            self.out.skip(number, outcome.duration_ns.unwrap_or(0), "messages");
            return Ok(());
        }
        self.call(tid, name, &args, outcome, half.at_ns, half.child)
    }

    /// Calls are lost that took so long.
    fn lose(&mut self, thread: u32, duration_ns: u64, count: u64, lost: Lost<'_>) {
        self.out.pass(thread, duration_ns);
        self.out.lose(&Loss::calls(count, &String::from_utf8_lossy(lost.name), lost.why));
    }

    /// A call is not stored.
    fn leave(&mut self, thread: u32, duration_ns: u64, name: &str, class: Class) {
        match class {
            Class::Counted(what) => self.out.skip(thread, duration_ns, what),
            Class::Lost(why) => self.lose(thread, duration_ns, 1, Lost { name: name.as_bytes(), why }),
        }
    }

    /// Writes what existed before.
    fn give(out: &mut Emitter<W>, entry: Entry) -> io::Result<()> {
        out.record(&Record::Entry(entry))
    }
}

/// By how much less than when it did a call may seem to have ended, of which the beginning and the length are cut.
const WAIT_CUT_NS: u64 = 2_000;

/// A file of `strace -ff`.
struct Each<R> {
    source: R,
    file: String,
    tid: u32,
    line: u64,
    /// The next line: when its call ended, when it began, its text with the number of its thread.
    next: Option<(u64, u64, Vec<u8>)>,
}

impl<R: BufRead> Each<R> {
    fn advance(&mut self) -> Result<(), ImportError> {
        let mut text = Vec::new();
        while self.next.is_none() && self.source.read_until(b'\n', &mut text)? > 0 {
            self.line += 1;
            refuse_raw(&text, &self.file, self.line)?;
            let whole = text.trim_ascii_end();
            let whole = args::spelled(whole).unwrap_or_else(|| whole.to_vec());
            if !whole.is_empty() {
                let numbered = [format!("{} ", self.tid).as_bytes(), &whole].concat();
                let parsed = line::parse(&numbered);
                let stamp = parsed.as_ref().ok().and_then(|line| line.at).filter(|stamp| !stamp.of_day);
                let Some(stamp) = stamp else {
                    let what =
                        "strace -ff: only lines with absolute times (-ttt) have an order between files"
                            .to_owned();
                    return Err(ImportError::Line { file: self.file.clone(), line: self.line, what });
                };
                let end_ns = match parsed.map(|line| line.event) {
                    Ok(Event::Call(_, _, outcome)) => stamp.ns + outcome.duration_ns.unwrap_or(0),
                    // Before the wait for it, which ends after it: both its times are cut to a microsecond.
                    Ok(Event::Exited(_) | Event::Killed(_)) => stamp.ns.saturating_sub(WAIT_CUT_NS),
                    _ => stamp.ns,
                };
                self.next = Some((end_ns, stamp.ns, numbered));
            }
            text.clear();
        }
        Ok(())
    }
}

/// A line of `strace -X raw` is refused: it would be read as another call.
fn refuse_raw(text: &[u8], file: &str, line: u64) -> Result<(), ImportError> {
    if !args::is_raw(text) {
        return Ok(());
    }
    let what = "strace -X raw has numbers in place of words, which are not read: record with words (-X abbrev, which is usual, or \
                -X verbose)";
    Err(ImportError::Line { file: file.to_owned(), line, what: what.to_owned() })
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
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
