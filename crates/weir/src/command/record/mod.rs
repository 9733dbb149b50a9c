//! `weir record`: a program's calls of files as a trace. `strace` and `preload` start the program and hand its calls to the
//! importer; this module has what both need: the scope, the trace's place and head, the report.

mod contents;
mod preload;
mod stack;
mod strace;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufWriter, IsTerminal, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::json;
use sim::Bytes;
use trace::import::strace::{Importer, Start, Told};
use trace::import::{Emitter, Sums};
use trace::record::{Head, Loss};
use trace::remains::{self, Before};
use trace::scope::Scope;
use trace::snapshot::Snapshot;
use trace::{Reader, Writer};
use workload::app::{found, is_program};

use super::trace::{losses_document, notes_of_counts, unkept, unkept_note};
use crate::failure::{Exit, Failure};
use crate::output::{self, Output};

/// Run a program and record its calls of files.
#[derive(Args, Debug)]
#[command(after_help = "\
Contents of files are stored only with --contents, beside the trace. A call \
takes 30 to 120 us more by strace, 0.3 us by preload, which does not see what stays \
inside libc (streams of stdio), says so, and refuses static programs and those of Go. The exit code is the program's.
Example: weir record -o cp.wtrace -- cp -a src dst")]
pub(crate) struct Record {
    /// The trace [default: PROGRAM.wtrace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What records: strace sees every call of every process; preload is a library, and hardly slows the program
    #[arg(long, value_enum, default_value_t = How::Strace, hide_possible_values = true, value_name = "strace|preload")]
    how: How,
    /// Store calls below it; repeatable [default: working directory]
    ///
    /// Calls on files below this directory are stored, those on others are counted.
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    /// Files of before that the trace describes: those that are touched, all below the roots, or none
    #[arg(long, value_enum, default_value_t = Existed::Touched, hide_possible_values = true, value_name = "touched|all|none")]
    snapshot: Existed,
    /// Keep what is written as well, in TRACE.data, for `weir check crash trace:FILE` [LIMIT: 1GiB]
    ///
    /// What files contained before and what the program tells is kept, too.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "1GiB", value_name = "LIMIT")]
    contents: Option<Bytes>,
    /// Keep the stack of each call as well, with --contents
    ///
    /// A finding then says where in the program its calls are. Recording takes about ten times as long. Lines of source need
    /// debug information, and binutils' addr2line.
    #[arg(long, requires = "contents")]
    stack: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Strace,
    Preload,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Existed {
    Touched,
    All,
    None,
}

/// How often what was recorded is handed to the file, so that whatever happens little is lost.
const FLUSH_EVERY: Duration = Duration::from_secs(2);
/// A clock tick of the CPU times in `/proc` (`USER_HZ`; proc(5)).
const TICK_NS: u64 = 10_000_000;

type Out = BufWriter<File>;

impl Record {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let recorder = match self.how {
            How::Strace => strace::version()?,
            How::Preload => "preload".to_owned(),
        };
        let program = find(&self.program[0])?;
        self.refuse_contents()?;
        if self.stack {
            strace::refuse_stacks()?;
        }
        if self.how == How::Preload {
            preload::refuse(&program)?;
        }
        let (scope, roots) = self.scope()?;
        let place = Place::new(&self.file(), &roots)?;
        let mut snapshot = self.take_snapshot(&scope, output)?;
        let before = snapshot.as_mut().map(Snapshot::before);
        let mut head = self.head(&scope, &recorder, snapshot.as_ref());
        let kept = self.contents.map(|limit| {
            let id = contents::identity();
            head.set(trace::contents::KEY, id.as_bytes());
            contents::begin(&place, &scope, &roots, &id, limit.0)
        });
        let kept = kept.transpose()?;
        let (file, out) = place.create()?;
        let mut emitter = Writer::new(out, &head, true).map(Emitter::new).map_err(place.unwritten())?;
        let start = self.start(snapshot, &mut emitter).map_err(place.unwritten())?;
        let directory = std::env::current_dir().unwrap_or_default();
        let directory = directory.as_os_str().as_bytes();
        let mut importer = Importer::new(emitter, scope.clone(), start, directory);
        if let Some(writer) = kept {
            importer.keep_contents(writer);
        }
        // The preloaded library tells of descriptors itself.
        let inherited = if self.how == How::Strace { inherited(output.is_json()) } else { Vec::new() };
        importer.begins_with(inherited);
        place.tell(output);
        let remains = Remains { file: &file, written: &place.written, scope, before };
        let recorded = match self.how {
            How::Strace => strace::record(&self, importer, &program, output, (&place, &remains)),
            How::Preload => preload::record(&self, importer, &program, output, (&place, &remains)),
        }?;
        let path = place.settle(&file)?;
        let mut lost = Vec::new();
        if self.contents.is_some() {
            let data = contents::settle(&place, &path)?;
            output.note(&format!(
                "{} has what was written: give it away with the trace only if all may read it",
                data.display()
            ));
            lost = unkept(&path, Reader::open(&path)?.head().get(trace::contents::KEY));
        }
        self.report(&recorded, &lost, &path, output);
        // The caller asked for this program, and hears of it as if Weir were not there.
        let code = recorded.status.code().unwrap_or_else(|| 128 + recorded.status.signal().unwrap_or(0));
        if code == 0 { Ok(()) } else { std::process::exit(code) }
    }

    fn refuse_contents(&self) -> Result<(), Failure> {
        match (self.contents, self.how, self.snapshot) {
            (Some(_), How::Preload, _) => {
                Err(Failure::usage("--contents needs --how strace: preload keeps no bytes"))
            }
            (Some(_), _, Existed::None) => {
                Err(Failure::usage("--contents keeps the tree before: leave --snapshot out"))
            }
            _ => Ok(()),
        }
    }

    /// What the trace says of the files before.
    fn existed(&self) -> Existed {
        if self.contents.is_some() { Existed::All } else { self.snapshot }
    }

    fn file(&self) -> PathBuf {
        self.output.clone().unwrap_or_else(|| {
            let mut name =
                Path::new(&self.program[0]).file_name().unwrap_or(OsStr::new("program")).to_owned();
            name.push(".wtrace");
            name.into()
        })
    }

    /// The roots, and what the program may call them.
    fn scope(&self) -> Result<(Scope, Vec<PathBuf>), Failure> {
        let here = [PathBuf::from(".")];
        let given = if self.root.is_empty() { &here[..] } else { &self.root };
        let absolute = |root: &PathBuf| {
            let real = fs::canonicalize(root).map_err(|error| Failure::io("use the root", root, &error))?;
            if real.is_dir() {
                Ok(real)
            } else {
                Err(Failure::usage(format!("{}: a root is a directory", root.display())))
            }
        };
        let roots = given.iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        let bytes: Vec<&[u8]> = roots.iter().map(|root| root.as_os_str().as_bytes()).collect();
        let mut scope = Scope::new(&bytes);
        for (given, real) in given.iter().zip(&roots) {
            if let Ok(alias) = std::path::absolute(given) {
                scope.alias(alias.as_os_str().as_bytes(), real.as_os_str().as_bytes());
            }
        }
        // The name by which the user came here, as shells keep it, where that leads through a symbolic link.
        let here = fs::canonicalize(".").ok();
        let came_by = std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
        if let (Some(here), Some(name)) = (here, came_by)
            && fs::canonicalize(&name).is_ok_and(|real| real == here)
        {
            scope.alias(name.as_os_str().as_bytes(), here.as_os_str().as_bytes());
        }
        Ok((scope, roots))
    }

    fn take_snapshot(&self, scope: &Scope, output: &Output) -> Result<Option<Snapshot>, Failure> {
        if self.snapshot == Existed::None {
            return Ok(None);
        }
        let snapshot = Snapshot::take(scope)
            .map_err(|error| Failure::new(Exit::Run, format!("cannot look at the roots: {error}")))?;
        if snapshot.unread() > 0 {
            output
                .note(&format!("note: {} directories below the roots could not be read", snapshot.unread()));
        }
        Ok(Some(snapshot))
    }

    fn head(&self, scope: &Scope, recorder: &str, snapshot: Option<&Snapshot>) -> Head {
        let mut head =
            Head::new(&format!("weir record {}, {recorder}", env!("CARGO_PKG_VERSION")), scope.base());
        let release = rustix::system::uname();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let host = format!("Linux {}, {cpus} cpus", release.release().to_string_lossy());
        head.set("host", host.as_bytes());
        // By strace, gaps and durations contain what tracing costs.
        head.set("clock", if self.how == How::Strace { b"traced" } else { b"wall" });
        let words: Vec<&[u8]> = self.program.iter().map(|word| word.as_bytes()).collect();
        head.set("command", &words.join(&b' '));
        let known = match (snapshot, self.existed()) {
            (None, _) => "none",
            (Some(_), Existed::All) => "all",
            (Some(_), _) => "touched",
        };
        head.set("snapshot", known.as_bytes());
        head
    }

    fn start(&self, snapshot: Option<Snapshot>, emitter: &mut Emitter<Out>) -> std::io::Result<Start> {
        let Some(mut snapshot) = snapshot else { return Ok(Start::Unknown) };
        if self.existed() == Existed::All {
            snapshot.rest(&mut |entry| emitter.record(&trace::record::Record::Entry(entry)))?;
        }
        Ok(Start::Snapshot(snapshot))
    }

    fn document(recorded: &Recorded, unkept: &[String], path: &Path) -> serde_json::Value {
        let Recorded { status, sums, user_ns, unseen, .. } = recorded;
        json!({
            "schema": "weir.record/1",
            "file": path,
            "exit_code": status.code(),
            "signal": status.signal(),
            "calls": sums.calls,
            "threads": sums.threads,
            "span_ns": sums.span_ns,
            "user_ns": user_ns,
            "level_ns": sums.level_ns,
            "tells_computing": sums.tells_computing,
            "not_stored": sums.counts,
            "lost": sums.losses.calls(),
            "losses": losses_document(&sums.losses),
            "unseen": unseen,
            "unkept": unkept,
        })
    }

    fn report(&self, recorded: &Recorded, unkept: &[String], path: &Path, output: &Output) {
        let Recorded { status, sums, user_ns, took, strange, unseen } = recorded;
        if output.is_json() {
            output.document(&Self::document(recorded, unkept, path));
        }
        let (took, level) = (took.as_secs_f64(), sums.level_ns as f64 / 1e3);
        let (by, digits) = if self.how == How::Strace { ("strace", 0) } else { ("preload", 2) };
        output.note(&format!(
            "{}: {} calls of {} threads in {took:.2} s, recorded by {by} ({level:.digits$} us of each gap between calls are \
             its own)",
            path.display(),
            sums.calls,
            sums.threads
        ));
        for what in unseen {
            output.note(&format!("note: not seen: {what}"));
        }
        for line in notes_of_counts(&sums.counts) {
            output.detail(&format!("  not stored: {line}"));
        }
        if let Some((lines, first, why)) = strange {
            output.note(&format!(
                "note: {lines} lines of strace were not understood, the first is line {first} ({why})"
            ));
        }
        if let Some(signal) = status.signal() {
            output.note(&format!(
                "note: the program was killed by signal {signal}; the trace has what it did before"
            ));
        }
        if self.how == How::Strace && !sums.tells_computing {
            let user =
                user_ns.map_or_else(|| "not known".to_owned(), |ns| format!("{:.0} ms", ns as f64 / 1e6));
            output.note(&format!(
                "note: the time between calls cannot be told from what recording costs, which varies by more than the program's \
                 own computing ({user}): `weir bench` says nothing of computing. Record on an idle host, or by --how preload"
            ));
        }
        for line in sums.losses.lines() {
            output.detail(&format!("  missing: {line}"));
        }
        for line in lacking(sums, self.how).into_iter().chain(unkept_note(unkept)) {
            output.note(&line);
        }
    }
}

/// The last lines: what the trace lacks.
fn lacking(sums: &Sums, how: How) -> Vec<String> {
    let silent = sums.losses.silent_names().map(|names| {
        format!("note: bytes have moved without a recorded call ({names}): a replay moves less; `weir trace stat` says why")
    });
    let lost = sums.losses.names().map(|names| {
        let other = if how == How::Preload { ". --how strace sees more" } else { "" };
        format!(
            "note: {} calls or more are missing ({names}), so that a replay would differ: `weir trace stat` says why; `weir \
             trace compile` takes the trace with --allow-drops, `weir bench` with --switch allow_drops{other}",
            sums.losses.calls()
        )
    });
    silent.into_iter().chain(lost).collect()
}

/// What this process has open and hands to the program, with positions and flags (proc(5): fdinfo). `errors_only`: the program's
/// standard output is the standard error.
fn inherited(errors_only: bool) -> Vec<Told> {
    let mut told = Vec::new();
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let (Some(fd), Ok(path)) = (number, fs::read_link(entry.path())) else { continue };
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).unwrap_or_default();
        let value = |key: &str| {
            let line = about.lines().find_map(|line| line.strip_prefix(key));
            line.map(str::trim).unwrap_or_default()
        };
        let flags = u32::from_str_radix(value("flags:"), 8).unwrap_or(0);
        let position = value("pos:").parse().unwrap_or(0);
        if flags & trace::words::CLOEXEC == 0 {
            told.push(Told { fd, path: path.as_os_str().as_bytes().into(), flags, position });
        }
    }
    if errors_only {
        let errors = told.iter().find(|told| told.fd == 2).cloned();
        told.retain(|told| told.fd != 1);
        told.extend(errors.map(|errors| Told { fd: 1, ..errors }));
    }
    told.sort_by_key(|told| told.fd);
    told
}

/// What is needed to compare the trace with the files when the program has ended.
struct Remains<'a> {
    file: &'a File,
    written: &'a Path,
    scope: Scope,
    before: Option<Before>,
}

impl Remains<'_> {
    /// What the trace, of which all records are written, does not explain of the files.
    fn missing(&self) -> Result<Vec<Loss>, Failure> {
        let failed = |error: std::io::Error| Failure::io("read the trace at", self.written, &error);
        let mut copy = self.file.try_clone().map_err(failed)?;
        copy.seek(SeekFrom::Start(0)).map_err(failed)?;
        let own = own_names();
        let is_own = |path: &Path| {
            path == self.written
                || path.file_name().is_some_and(|name| name.as_bytes().starts_with(own.as_bytes()))
        };
        let missing = Reader::new(copy, &self.written.display().to_string())
            .and_then(|reader| remains::missing(reader, &self.scope, self.before.as_ref(), &is_own));
        // The place is the writer's, too.
        let mut file = self.file;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        Ok(missing?)
    }
}

/// How the names of this recorder's own temporary files begin.
fn own_names() -> String {
    format!("weir-record-{}-", std::process::id())
}

/// A path in `folder` that nothing has: a recorder that was killed leaves its files, and its process id comes again.
fn unused(folder: &Path, ending: &str) -> PathBuf {
    let mut number = 0_u32;
    loop {
        let path = folder.join(format!("{}{number}{ending}", own_names()));
        if path.symlink_metadata().is_err() {
            return path;
        }
        number += 1;
    }
}

/// What came of a recording.
struct Recorded {
    status: ExitStatus,
    sums: Sums,
    user_ns: Option<u64>,
    took: Duration,
    strange: Option<(u64, u64, &'static str)>,
    /// What preload has not seen.
    unseen: Vec<String>,
}

/// Signals that ask to end are the program's: the trace ends when it does. From a terminal the program hears them itself, and again
/// from us when they come a second time.
/// When it has ended, they end the waiting for what it left running: the flag that is given says so.
fn leave_signals_to(child: &Arc<AtomicU32>) -> Arc<AtomicBool> {
    let (child, first) = (Arc::clone(child), AtomicBool::new(std::io::stdin().is_terminal()));
    let asked = Arc::new(AtomicBool::new(false));
    let to_end = Arc::clone(&asked);
    // Where no handler can be set, a signal ends the recording, which leaves the trace up to there.
    let _ = ctrlc::set_handler(move || {
        if first.swap(false, Relaxed) {
            return;
        }
        match Pid::from_raw(child.load(Relaxed).cast_signed()) {
            Some(pid) => drop(kill_process(pid, Signal::TERM)),
            None => to_end.store(true, Relaxed),
        }
    });
    asked
}

/// The program's file, as a shell finds it.
fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(program);
    let shown = path.display();
    if program.as_bytes().contains(&b'/') {
        return match fs::metadata(path) {
            Err(error) => Err(Failure::usage(format!("cannot run {shown}: {error}"))),
            Ok(_) if is_program(path) => Ok(path.to_owned()),
            Ok(_) => Err(Failure::usage(format!("cannot run {shown}: it is not a program (chmod +x?)"))),
        };
    }
    found(program).ok_or_else(|| Failure::usage(format!("cannot run {shown}: no folder of PATH has it")))
}

fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().cast_signed())
}

/// Whether a child has ended; it is not reaped, so that its CPU time can still be read.
fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    pid_of(child).is_some_and(|pid| waitid(WaitId::Pid(pid), options).is_ok_and(|status| status.is_some()))
}

/// Waits for the program: how it ended, and its user CPU time with that of the children that it has waited for (proc(5): fields 14
/// and 16 of `stat`, in ticks).
fn ended(child: &mut Child) -> Result<(ExitStatus, Option<u64>), Failure> {
    if let Some(pid) = pid_of(child) {
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // The name in the second field may contain anything; its bracket is the last.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|word| word.parse::<u64>().ok());
    // The third field is the first behind the bracket.
    // What is less than a tick is not shown: half of one is as likely as any.
    let user_ns = ticks(11).zip(ticks(13)).map(|(own, children)| (own + children) * TICK_NS + TICK_NS / 2);
    let status = child.wait().map_err(|error| Failure::new(Exit::Run, format!("the program: {error}")))?;
    Ok((status, user_ns))
}

/// Where the trace is written, and where it is to be.
struct Place {
    wanted: PathBuf,
    /// Outside the roots, so that a program which lists, copies or removes its tree does not meet the trace.
    written: PathBuf,
}

impl Place {
    fn new(wanted: &Path, roots: &[PathBuf]) -> Result<Self, Failure> {
        let data = trace::contents::beside(wanted);
        if data.exists() {
            return Err(Failure::usage(format!(
                "{} exists: name another file with -o, or remove it",
                data.display()
            )));
        }
        if wanted.exists() {
            let what = format!("{} exists: name another file with -o, or remove it", wanted.display());
            return Err(Failure::usage(what));
        }
        let absolute = std::path::absolute(wanted).map_err(|error| Failure::io("use", wanted, &error))?;
        let folder = absolute.parent().unwrap_or(Path::new("/"));
        let real = fs::canonicalize(folder).map_err(|error| Failure::io("write to", folder, &error))?;
        let is_inside = roots.iter().any(|root| real.starts_with(root));
        let written = if is_inside { unused(&std::env::temp_dir(), ".wtrace") } else { absolute.clone() };
        Ok(Self { wanted: absolute, written })
    }

    fn create(&self) -> Result<(File, Out), Failure> {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&self.written);
        let file = file.map_err(|error| Failure::io("create", &self.written, &error))?;
        let copy = file.try_clone().map_err(|error| Failure::io("create", &self.written, &error))?;
        Ok((file, BufWriter::new(copy)))
    }

    fn unwritten(&self) -> impl Fn(std::io::Error) -> Failure + '_ {
        |error| Failure::io("write", &self.written, &error)
    }

    fn tell(&self, output: &Output) {
        if self.written != self.wanted {
            output.detail(&format!("recording to {} until the program ends", self.written.display()));
        }
    }

    /// Puts the trace where it is wanted. Where that is gone, or has been taken meanwhile, it stays where it is, of which is told.
    fn settle(&self, file: &File) -> Result<PathBuf, Failure> {
        let failed = |error: std::io::Error| Failure::io("write", &self.wanted, &error);
        let own = file.metadata().map_err(failed)?;
        let is_own = fs::symlink_metadata(&self.written)
            .is_ok_and(|about| (about.dev(), about.ino()) == (own.dev(), own.ino()));
        if !is_own {
            return Self::rescue(file);
        }
        if self.written == self.wanted {
            return Ok(self.wanted.clone());
        }
        if !self.wanted.exists() && fs::rename(&self.written, &self.wanted).is_ok() {
            return Ok(self.wanted.clone());
        }
        let copied = File::create_new(&self.wanted)
            .and_then(|mut new| std::io::copy(&mut File::open(&self.written)?, &mut new));
        match copied {
            Ok(_) => {
                let _ = fs::remove_file(&self.written);
                Ok(self.wanted.clone())
            }
            Err(error) => {
                let (wanted, written) = (self.wanted.display(), self.written.display());
                output::say(&format!("note: the trace cannot be put at {wanted} ({error}); it is {written}"));
                Ok(self.written.clone())
            }
        }
    }

    /// The program has removed the trace: its contents are still there as long as it is open.
    fn rescue(mut file: &File) -> Result<PathBuf, Failure> {
        let place = unused(&std::env::temp_dir(), "-removed.wtrace");
        let failed = |error: std::io::Error| Failure::io("save the trace at", &place, &error);
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut new = File::create_new(&place).map_err(failed)?;
        std::io::copy(&mut file, &mut new).map_err(failed)?;
        output::say(&format!("note: the program has removed the trace; it was saved at {}", place.display()));
        Ok(place)
    }
}
