//! What a preloaded library has recorded, as a trace.
//!
//! `weir record --how preload` starts the program with [`LIBRARY`] in `LD_PRELOAD`. The library is C (`crates/trace/preload`),
//! because it has to define libc's symbols, variadic ones and `vfork` among them; the build script of this crate compiles it with
//! the C compiler that SQLite's source needs anyway, and the command carries it: a user has one file, and nothing to install. It is
//! linked with no library, so that it suits whichever libc the program has; a command that is linked with musl carries it, too.
//!
//! ```text
//!   thread ──► ring (a mapped file) ──┐
//!   thread ──► ring ──────────────────┼─► rings: by number ──► text: strace's lines ──► strace::Importer ──► trace
//!   child  ──► ring ──────────────────┘
//! ```
//!
//! Every record has a number that all processes count together, so the order is that in which calls ended, and one that is missing
//! is noticed. `close` and `munmap` take theirs when they begin: what they free may be given to another thread before they have
//! ended. The calls become lines as strace would write them: one place decides what of a call is stored, and two recorders of one
//! program agree. What lines do not say (descriptors and directory of a new program, whose child a process is) goes beside them.
//!
//! # What is not seen
//!
//! | what | how it is noticed | what is done |
//! |---|---|---|
//! | static programs, Go, set-user-ID | no image shows itself after `exec`; the file says why ([`hidden`]) | named, lost |
//! | streams of stdio below the roots | `fopen` and the like are wrapped | what the kernel counts besides is lost |
//! | walks and the like inside libc | wrapped | named; lost if they begin below a root |
//! | calls by number | `syscall` is wrapped | those of files are lost; of `io_submit` the control blocks are stored |
//! | other calls without libc | the kernel's counts (`/proc/self/io`) at end and exec | counted; lost with such streams |
//! | rings of io_uring | the setup by libc or liburing, or a ring that is open at the end | named, lost |

mod program;
mod rings;
mod text;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::Sums;
use super::strace::{Importer, Told};
use crate::record::Loss;
use crate::words::CLOEXEC;
pub use program::hidden;
pub use rings::Rings;
use text::{Record, seconds};

/// The library.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// The variable that tells the library the folder of its rings.
pub const FOLDER: &str = "WEIR_RECORD";

/// The kinds of `making` (`crates/trace/preload/processes.c`).
const FORK: i64 = 0;
const VFORK: i64 = 1;
const THREAD: i64 = 2;
const INSIDE: i64 = 3;

/// A process as far as the records tell.
#[derive(Debug, Default)]
struct Process {
    /// The name of its program.
    name: Box<[u8]>,
    /// Calls that read and write as the kernel counts them, recorded so far.
    reads: u64,
    writes: u64,
    /// Of those that the kernel has counted, told already as not recorded.
    missed_reads: u64,
    missed_writes: u64,
    /// Streams on files below the roots.
    streams: u64,
    /// A standard stream has led below the roots: to read, to write.
    reads_standard: bool,
    writes_standard: bool,
    /// The kernel's counts at its end have come.
    has_counts: bool,
    /// The path that was given to exec, until an image shows itself.
    exec: Option<Box<[u8]>>,
    /// Whether an image has shown itself: not in a child of fork.
    has_image: bool,
    /// What it has as it begins.
    told: Vec<Told>,
    /// The time of its last record.
    last_ns: u64,
    threads: Vec<u32>,
}

/// Takes records and writes a trace.
#[derive(Debug)]
pub struct Importing<W: Write> {
    importer: Importer<W>,
    processes: FxHashMap<u32, Process>,
    /// Paths that threads have given to posix_spawn, by the thread.
    spawning: FxHashMap<u32, Box<[u8]>>,
    /// Threads that make a process of which the call does not say the number.
    making: FxHashMap<u32, i64>,
    unseen: Vec<String>,
    any: bool,
}

impl<W: Write> Importing<W> {
    /// Writes to an importer of strace's lines.
    pub fn new(mut importer: Importer<W>) -> Self {
        importer.has_one_clock();
        Self {
            importer,
            processes: FxHashMap::default(),
            spawning: FxHashMap::default(),
            making: FxHashMap::default(),
            unseen: Vec::new(),
            any: false,
        }
    }

    /// Whether any record has come.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Takes what the rings have. `all`: no more will come.
    pub fn take(&mut self, rings: &mut Rings, all: bool) -> io::Result<()> {
        rings.read()?;
        while let Some(record) = rings.next(all) {
            self.any = true;
            self.record(&record, rings)?;
        }
        Ok(())
    }

    /// The importer to which the records go.
    pub fn importer(&mut self) -> &mut Importer<W> {
        &mut self.importer
    }

    /// Hands what was written to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.importer.flush()
    }

    /// Ends the trace. `status`: how the program itself ended, its process and wait(2)'s number. Gives what was not seen, too, each
    /// once.
    pub fn finish(
        mut self,
        rings: &Rings,
        (main, status): (u32, i64),
        user_ns: Option<u64>,
    ) -> io::Result<(W, Sums, Vec<String>)> {
        let mut left: Vec<u32> = self.processes.keys().copied().collect();
        left.sort_unstable();
        for pid in left {
            self.process_ends(pid, if pid == main { status } else { 0 })?;
        }
        let lost = rings.lost()?;
        if lost > 0 {
            self.importer.lost(&Loss::calls(lost, "record", "records that could not be written"));
        }
        if rings.unfinished() > 0 {
            self.importer.count("calls that had not returned at the end", rings.unfinished());
        }
        let (out, sums) = self.importer.finish(user_ns)?;
        Ok((out, sums, self.unseen))
    }

    fn line(&mut self, tid: u32, at_ns: u64, text: &str) -> io::Result<()> {
        self.importer.line(format!("{tid} {} {text}", seconds(at_ns)).as_bytes())
    }

    fn process(&mut self, pid: u32) -> &mut Process {
        self.processes.entry(pid).or_default()
    }

    /// Names something that was not seen, of which `calls` are known to be of files below the roots.
    fn tell(&mut self, pid: u32, call: &str, what: &str, calls: u64) {
        let program = self.process(pid).name.clone();
        let named = format!("{}: {what}", String::from_utf8_lossy(&program));
        if !self.unseen.contains(&named) {
            self.unseen.push(named);
        }
        match calls {
            0 => self.importer.count(what, 1),
            _ => self.importer.lost(&Loss { program, ..Loss::calls(calls, call, what) }),
        }
    }

    /// Whether standard streams of a thread's process lead below the roots now. What libc writes to them is asked for only at the
    /// end, when the program may have closed or replaced them.
    fn standard(&mut self, tid: u32, pid: u32) {
        let [input, output, errors] = [0, 1, 2].map(|fd| self.importer.stores(tid, fd));
        let process = self.process(pid);
        process.reads_standard |= input;
        process.writes_standard |= output || errors;
    }

    fn record(&mut self, record: &Record, rings: &mut Rings) -> io::Result<()> {
        let (tid, pid) = (record.tid, record.pid);
        let process = self.process(pid);
        process.last_ns = process.last_ns.max(record.end_ns());
        if !process.threads.contains(&tid) {
            process.threads.push(tid);
        }
        match record.name() {
            b"image" => self.image(record, rings),
            b"process" | b"fd" | b"ready" => self.begins(record),
            b"level" => {
                self.importer.costs(record.number_at(0).max(0).cast_unsigned());
                Ok(())
            }
            b"nothing" => Ok(()),
            b"thread" => self.importer.real_tid(tid, record.number_at(0) as u32),
            b"gone" => self.gone(record),
            b"making" => self.makes(record),
            b"made" => self.made(record),
            b"exec" => {
                let path = record.text_at(0).into();
                if self.making.get(&tid) == Some(&VFORK) {
                    self.spawning.insert(tid, path);
                } else {
                    self.process(pid).exec = Some(path);
                }
                Ok(())
            }
            b"wait4" if record.result > 0 => {
                self.process_ends(record.result as u32, record.number_at(1))?;
                rings.retire(record.result as u32, record.number);
                self.call(record)
            }
            b"stream" | b"unseen" | b"raw" | b"ring" => {
                self.inside_libc(record);
                Ok(())
            }
            b"end" | b"counts" => {
                self.counts(record);
                self.process(pid).has_counts |= record.name() == b"end";
                Ok(())
            }
            name => {
                // After these a standard stream may be another.
                let opens = matches!(name, b"open" | b"openat" | b"openat2" | b"creat" | b"recvmsg");
                let moves = opens || matches!(name, b"dup" | b"dup2" | b"dup3" | b"fcntl");
                self.call(record)?;
                if moves && record.result >= 0 {
                    self.standard(tid, pid);
                }
                Ok(())
            }
        }
    }

    /// What a process has as it begins.
    fn begins(&mut self, record: &Record) -> io::Result<()> {
        let (tid, pid) = (record.tid, record.pid);
        match record.name() {
            b"process" => self.importer.adopt(record.number_at(0) as u32, tid, record.begin_ns)?,
            b"fd" => {
                let (fd, path) = (record.number_at(0) as i32, record.text_at(4).into());
                let cloexec = if record.number_at(2) & 1 != 0 { CLOEXEC } else { 0 };
                let flags = record.number_at(1) as u32 & !CLOEXEC | cloexec;
                let position = record.number_at(3).max(0).cast_unsigned();
                self.process(pid).told.push(Told { fd, path, flags, position });
                return Ok(());
            }
            _ => {
                let told = std::mem::take(&mut self.process(pid).told);
                self.importer.descriptors(tid, record.begin_ns, &told)?;
            }
        }
        self.standard(tid, pid);
        Ok(())
    }

    /// A program has begun.
    fn image(&mut self, record: &Record, rings: &mut Rings) -> io::Result<()> {
        let (tid, pid, path) = (record.tid, record.pid, record.text_at(1));
        rings.retire(pid, record.number);
        self.importer.adopt(record.number_at(0) as u32, tid, record.begin_ns)?;
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let old = std::mem::take(self.process(pid));
        for other in old.threads.into_iter().filter(|other| *other != tid) {
            self.line(other, record.begin_ns, "+++ exited with 0 +++")?;
        }
        *self.process(pid) =
            Process { name: name.into(), has_image: true, threads: vec![tid], ..Process::default() };
        let mut quoted = String::new();
        text::quote(path, &mut quoted);
        self.line(tid, record.begin_ns, &format!("execve({quoted}) = 0"))?;
        self.importer.stands_in(tid, record.text_at(2));
        if let Some(why) = hidden(Path::new(&format!("/proc/{pid}/exe"))) {
            self.tell(pid, "execve", why, 1);
        }
        Ok(())
    }

    fn makes(&mut self, record: &Record) -> io::Result<()> {
        let kind = record.number_at(0);
        self.making.insert(record.tid, kind);
        let text = match kind {
            FORK => "fork( <unfinished ...>",
            THREAD => "clone(CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD <unfinished ...>",
            _ => "vfork( <unfinished ...>",
        };
        self.line(record.tid, record.begin_ns, text)
    }

    fn made(&mut self, record: &Record) -> io::Result<()> {
        let kind = record.number_at(0);
        self.making.remove(&record.tid);
        let name = match kind {
            FORK => "fork",
            THREAD => "clone",
            _ => "vfork",
        };
        let spawned = self.spawning.remove(&record.tid);
        if let (Some(path), Ok(child @ 1..)) = (spawned, u32::try_from(record.result)) {
            let child = self.process(child);
            child.exec = Some(path).filter(|_| !child.has_image);
        }
        let outcome = if kind == INSIDE && record.result == 0 { "?".to_owned() } else { record.outcome() };
        self.line(record.tid, record.end_ns(), &format!("<... {name} resumed>) = {outcome}"))
    }

    fn gone(&mut self, record: &Record) -> io::Result<()> {
        let tid = record.tid;
        self.process(record.pid).threads.retain(|other| *other != tid);
        self.line(tid, record.begin_ns, "+++ exited with 0 +++")
    }

    /// A process has ended, with wait(2)'s status.
    fn process_ends(&mut self, pid: u32, status: i64) -> io::Result<()> {
        let Some(process) = self.processes.remove(&pid) else { return Ok(()) };
        if let Some(path) = &process.exec {
            let path = Path::new(OsStr::from_bytes(path));
            let why = hidden(path).unwrap_or("it did not load the library");
            self.processes.insert(pid, Process { name: name_of(path), ..Process::default() });
            self.tell(pid, "execve", &format!("not seen: {why}"), 1);
            self.processes.remove(&pid);
        } else if !process.has_counts
            && (process.streams > 0 || process.reads_standard || process.writes_standard)
        {
            self.processes.insert(pid, Process { name: process.name.clone(), ..Process::default() });
            let what = "its end was not seen, so that what it moved through streams is not known";
            self.tell(pid, "write", what, 1);
            self.processes.remove(&pid);
        }
        let end = match status & 0x7f {
            0 => format!("+++ exited with {} +++", status >> 8 & 0xff),
            signal => format!("+++ killed by {} +++", super::strace::signal_name(signal as u32)),
        };
        for tid in process.threads {
            if self.importer.knows(tid) {
                self.line(tid, process.last_ns, &end)?;
            }
        }
        Ok(())
    }

    /// What libc does by itself.
    fn inside_libc(&mut self, record: &Record) {
        let (tid, pid) = (record.tid, record.pid);
        match record.name() {
            b"stream" if self.importer.stores(tid, record.number_at(0) as i32) => {
                self.process(pid).streams += 1;
                self.tell(pid, "fopen", "streams of stdio (fopen and the like) on files below the roots", 0);
            }
            b"stream" => {}
            b"ring" => {
                self.tell(
                    pid,
                    "io_uring_setup",
                    "what is read and written through io_uring cannot be seen",
                    1,
                );
            }
            b"raw" => {
                let call = String::from_utf8_lossy(record.text_at(0)).into_owned();
                self.tell(pid, &call, "calls of files by their number (syscall)", 1);
            }
            _ => {
                let what = String::from_utf8_lossy(record.text_at(0)).into_owned();
                let lost = what.starts_with("aio") || what == "lio_listio" || what == "clone";
                let inside = self.importer.is_inside(tid, record.text_at(1));
                if inside || lost {
                    self.tell(pid, &what, &format!("what {what} does inside libc"), 1);
                } else {
                    self.importer
                        .count("functions whose calls are inside libc, on files outside the roots", 1);
                }
            }
        }
    }

    /// The kernel's counts beside ours, of a process that is about to end or to call exec.
    fn counts(&mut self, record: &Record) {
        let pid = record.pid;
        self.standard(record.tid, pid);
        let process = self.process(pid);
        let [is_counted, reads, writes] = [1, 2, 3].map(|at| record.number_at(at).max(0).cast_unsigned());
        let unseen_reads = reads.saturating_sub(process.reads + process.missed_reads);
        let unseen_writes = writes.saturating_sub(process.writes + process.missed_writes);
        process.missed_reads += unseen_reads;
        process.missed_writes += unseen_writes;
        let streams = process.streams;
        let may_read = streams > 0 || process.reads_standard;
        let may_write = streams > 0 || process.writes_standard;
        if is_counted == 0 && (may_read || may_write) {
            let what = "reads and writes of streams, which this kernel does not count";
            return self.tell(pid, "write", what, streams.max(1));
        }
        for (calls, may, call, what) in [
            (unseen_reads, may_read, "read", "calls that read inside libc or without it"),
            (unseen_writes, may_write, "write", "calls that write inside libc or without it"),
        ] {
            match (calls, may) {
                (0, _) => {}
                (calls, true) => self.tell(pid, call, what, calls),
                (calls, false) => self.importer.count(&format!("{what}, on files outside the roots"), calls),
            }
        }
    }

    fn call(&mut self, record: &Record) -> io::Result<()> {
        let name = record.name();
        let process = self.process(record.pid);
        // As the kernel counts (fs/read_write.c).
        match name {
            b"read" | b"readv" | b"pread64" | b"preadv" | b"preadv2" => process.reads += 1,
            b"write" | b"writev" | b"pwrite64" | b"pwritev" | b"pwritev2" => process.writes += 1,
            b"copy_file_range" | b"sendfile" => {
                process.reads += 1;
                process.writes += 1;
            }
            b"execve" => process.exec = None,
            _ => {}
        }
        if record.other_ns > 0 {
            let text = format!("futex() = 0 <{}>", seconds(record.other_ns));
            self.line(record.tid, record.begin_ns.saturating_sub(record.other_ns), &text)?;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let text = format!("{name}({}) = {}", record.arguments(), record.outcome());
        self.line(record.tid, record.begin_ns, &text)
    }
}

fn name_of(path: &Path) -> Box<[u8]> {
    path.file_name().unwrap_or_default().as_bytes().into()
}
