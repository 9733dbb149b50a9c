//! The program with a library before libc, which writes its calls into rings (`trace::import::preload`).

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::{getpid, set_child_subreaper};
use trace::import::preload::{FOLDER, Importing, LIBRARY, Rings, hidden};
use trace::import::strace::Importer;

use super::{FLUSH_EVERY, Out, Place, Record, Recorded, Remains, ended, has_ended, leave_signals_to, unused};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How often the rings are read: a thread of a million calls a second is then 5,000 ahead, of the 70,000 that its ring holds.
const READ_EVERY: Duration = Duration::from_millis(5);
/// Where the rings are best: in memory, never written to a disk.
const MEMORY: &str = "/dev/shm";

/// Says no to a program that the library cannot see.
pub(super) fn refuse(program: &Path) -> Result<(), Failure> {
    match hidden(program) {
        None => Ok(()),
        Some(why) => Err(Failure::usage(format!(
            "--how preload cannot see what {} does: {why}. --how strace, the default, records it",
            program.display()
        ))),
    }
}

/// Runs the program with the library.
pub(super) fn record(
    asked: &Record,
    importer: Importer<Out>,
    program: &Path,
    output: &Output,
    (place, remains): (&Place, &Remains<'_>),
) -> Result<Recorded, Failure> {
    let folders = Folders::new()?;
    let mut rings =
        Rings::new(&folders.rings).map_err(|error| Failure::io("make rings in", &folders.rings, &error))?;
    let mut importing = Importing::new(importer);
    let (began, mut flushed) = (Instant::now(), Instant::now());
    let child_pid = Arc::new(AtomicU32::new(0));
    let asked_to_end = leave_signals_to(&child_pid);
    // Processes whose parents have ended become our children: a daemon that has made no call yet is found, too.
    let _ = set_child_subreaper(Some(getpid()));
    let mut child = spawn(asked, &folders, program, output)?;
    child_pid.store(child.id(), Relaxed);
    let mut left = Left::default();
    loop {
        let main_has_ended = has_ended(&child);
        if main_has_ended {
            child_pid.store(0, Relaxed);
        }
        let is_over = main_has_ended && (asked_to_end.load(Relaxed) || !left.any(child.id(), output));
        // Read after looking, so that what the program wrote at its end is read.
        importing.take(&mut rings, false).map_err(place.unwritten())?;
        if flushed.elapsed() > FLUSH_EVERY {
            importing.flush().map_err(place.unwritten())?;
            flushed = Instant::now();
        }
        if is_over {
            break;
        }
        std::thread::sleep(READ_EVERY);
    }
    importing.take(&mut rings, true).map_err(place.unwritten())?;
    let (pid, (status, user_ns)) = (child.id(), ended(&mut child)?);
    if !importing.any() {
        let why = format!(
            "the program did not load {}: what the loader says stands above (TMPDIR can name a folder from which libraries \
             may be loaded; a C library older than glibc 2.34 is not supported)",
            folders.library.display()
        );
        return Err(Failure::new(Exit::Host, why));
    }
    importing.importer().settle().map_err(place.unwritten())?;
    let missing = remains.missing()?;
    importing.importer().lacks(&missing);
    let finished = importing.finish(&rings, (pid, i64::from(status.into_raw())), user_ns);
    let (out, sums, unseen) = finished.map_err(place.unwritten())?;
    out.into_inner().map_err(|error| place.unwritten()(error.into_error()))?;
    Ok(Recorded { status, sums, user_ns, took: began.elapsed(), strange: None, unseen })
}

fn spawn(asked: &Record, folders: &Folders, program: &Path, output: &Output) -> Result<Child, Failure> {
    let mut command = Command::new(program);
    command.args(&asked.program[1..]).env(FOLDER, &folders.rings);
    let mut preload = OsString::from(&folders.library);
    // What the user loads before libc is loaded after it.
    if let Some(theirs) = std::env::var_os("LD_PRELOAD").filter(|theirs| !theirs.is_empty()) {
        preload.push(":");
        preload.push(theirs);
    }
    command.env("LD_PRELOAD", preload);
    if output.is_json() {
        // The one document of the standard output is ours.
        command.stdout(Stdio::from(std::io::stderr()));
    }
    command.spawn().map_err(|error| Failure::usage(format!("cannot run {}: {error}", program.display())))
}

/// The processes that the program has left running.
#[derive(Default)]
struct Left {
    /// When the program was first seen to have ended, and whether the user has been told.
    since: Option<Instant>,
    is_told: bool,
    looked: Option<Instant>,
    /// The processes when none was running. `/proc` is no snapshot: one that is made while it is read may be missing. But a process
    /// that is there twice and has ended the first time has made none in between.
    ended: Option<Vec<u32>>,
}

/// How often `/proc` is searched, and when the user is told of the waiting.
const LOOK_EVERY: Duration = Duration::from_millis(25);
const TELL_AFTER: Duration = Duration::from_secs(2);

impl Left {
    /// Whether any process of the program is there besides the first, which has ended.
    fn any(&mut self, first: u32, output: &Output) -> bool {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return true;
        }
        self.looked = Some(Instant::now());
        let all = descendants(std::process::id());
        let count = all.iter().filter(|(pid, is_running)| *is_running && *pid != first).count();
        let since = *self.since.get_or_insert_with(Instant::now);
        if count > 0 && !self.is_told && since.elapsed() > TELL_AFTER {
            self.is_told = true;
            output.note(&format!(
                "note: the program has ended and has left {count} processes running, which are recorded until they end (Ctrl-C \
                 ends the waiting)"
            ));
        }
        if count > 0 {
            self.ended = None;
            return true;
        }
        let mut ended: Vec<u32> = all.into_iter().map(|(pid, _)| pid).collect();
        ended.sort_unstable();
        let is_same = self.ended.as_ref() == Some(&ended);
        self.ended = Some(ended);
        !is_same
    }
}

/// The processes below one, and whether each does more than wait to be waited for (proc(5): state and parent are the words behind
/// the name, whose bracket is the last).
fn descendants(of: u32) -> Vec<(u32, bool)> {
    let mut all: Vec<(u32, u32, bool)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let mut words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let (state, parent) = (words.next().unwrap_or("X"), words.next().and_then(|word| word.parse().ok()));
        all.extend(parent.map(|parent| (pid, parent, state != "Z" && state != "X")));
    }
    let (mut found, mut waiting) = (Vec::new(), vec![of]);
    while let Some(parent) = waiting.pop() {
        for (pid, _, is_running) in all.iter().filter(|(_, of, _)| *of == parent) {
            waiting.push(*pid);
            found.push((*pid, *is_running));
        }
    }
    found
}

/// The folder of the rings, and that of the library: memory may forbid to run what is in it.
struct Folders {
    rings: PathBuf,
    library_folder: PathBuf,
    library: PathBuf,
}

impl Folders {
    fn new() -> Result<Self, Failure> {
        let library_folder = unused(&std::env::temp_dir(), "");
        make(&library_folder)?;
        let in_memory = unused(Path::new(MEMORY), "-rings");
        let rings = match make(&in_memory) {
            Ok(()) => in_memory,
            Err(_) => library_folder.join("rings"),
        };
        let folders = Self { library: library_folder.join("preload.so"), library_folder, rings };
        if folders.rings.starts_with(&folders.library_folder) {
            make(&folders.rings)?;
        }
        let written = fs::File::create_new(&folders.library).and_then(|mut file| file.write_all(LIBRARY));
        written.map_err(|error| Failure::io("write", &folders.library, &error))?;
        Ok(folders)
    }
}

/// Makes a folder for its owner alone.
fn make(folder: &Path) -> Result<(), Failure> {
    let made = DirBuilder::new().mode(0o700).create(folder);
    made.map_err(|error| Failure::io("make a folder", folder, &error))
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.rings);
        let _ = fs::remove_dir_all(&self.library_folder);
    }
}
