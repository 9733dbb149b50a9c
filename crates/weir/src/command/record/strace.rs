//! The program under strace(1), whose output is imported as it comes.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat};
use trace::import::strace::{FLAGS, Importer, flags_with_contents};

use super::{
    FLUSH_EVERY, Out, Place, Record, Recorded, Remains, ended, has_ended, leave_signals_to, stack, unused,
};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How long to wait before looking again whether strace has begun.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Runs the program under strace.
pub(super) fn record(
    asked: &Record,
    mut importer: Importer<Out>,
    program: &Path,
    output: &Output,
    (place, remains): (&Place, &Remains<'_>),
) -> Result<Recorded, Failure> {
    let pipe = Pipe::new()?;
    let began = Instant::now();
    let child_pid = Arc::new(AtomicU32::new(0));
    let _ = leave_signals_to(&child_pid);
    let mut child = spawn(asked, &pipe, program, output)?;
    child_pid.store(child.id(), Relaxed);
    let lines = pipe.lines(&mut child)?;
    let mut flushed = Instant::now();
    let mut any = false;
    if let Some(mut lines) = lines {
        let mut text = Vec::new();
        loop {
            text.clear();
            let bytes = lines.read_until(b'\n', &mut text);
            if bytes.map_err(|error| Failure::new(Exit::Run, format!("strace: {error}")))? == 0 {
                break;
            }
            any = true;
            importer.line(text.trim_ascii_end()).map_err(place.unwritten())?;
            if flushed.elapsed() > FLUSH_EVERY {
                importer.flush().map_err(place.unwritten())?;
                flushed = Instant::now();
            }
        }
    }
    let (status, user_ns) = ended(&mut child)?;
    child_pid.store(0, Relaxed);
    if !any {
        let why = "strace has recorded nothing; what it says stands above. It needs ptrace(2), which containers may forbid";
        return Err(Failure::new(Exit::Host, why));
    }
    importer.settle().map_err(place.unwritten())?;
    if asked.stack {
        for (frame, source) in stack::sources(&importer.frames(), output) {
            importer.source(frame, &source).map_err(place.unwritten())?;
        }
    }
    importer.lacks(&remains.missing()?);
    let strange = importer.strange();
    let (out, sums) = importer.finish(user_ns).map_err(place.unwritten())?;
    out.into_inner().map_err(|error| place.unwritten()(error.into_error()))?;
    Ok(Recorded { status, sums, user_ns, took: began.elapsed(), strange, unseen: Vec::new() })
}

fn spawn(asked: &Record, pipe: &Pipe, program: &Path, output: &Output) -> Result<Child, Failure> {
    let mut strace = Command::new("strace");
    // With -D the program stays our child, so that its exit code and CPU time are its own.
    let flags = match asked.contents {
        Some(_) => flags_with_contents(),
        None => FLAGS.iter().map(|flag| (*flag).to_owned()).collect(),
    };
    if asked.stack {
        strace.arg("-k");
    }
    strace.arg("-D").args(flags).arg("-o").arg(&pipe.path).arg("--").arg(program).args(&asked.program[1..]);
    if output.is_json() {
        // The one document of the standard output is ours.
        strace.stdout(Stdio::from(std::io::stderr()));
    }
    strace.spawn().map_err(|error| Failure::new(Exit::Host, format!("cannot start strace: {error}")))
}

/// Which strace there is.
pub(super) fn version() -> Result<String, Failure> {
    let text = about()?;
    Ok(text.lines().next().unwrap_or("strace").to_owned())
}

/// An strace that was built without it shows no stacks.
pub(super) fn refuse_stacks() -> Result<(), Failure> {
    if about()?.contains("stack-trace=") {
        return Ok(());
    }
    let why = "this strace shows no stacks (`strace -V` names no stack-trace): leave --stack out, or install one that was built \
               with libunwind or libdw, as Debian's is";
    Err(Failure::new(Exit::Host, why))
}

/// The text in which strace tells its version and what it can do.
fn about() -> Result<String, Failure> {
    let missing = "strace is not installed: install Debian's package strace (`apt install strace`), or the one of your system";
    let told = Command::new("strace").arg("-V").output().map_err(|_| Failure::new(Exit::Host, missing))?;
    Ok(String::from_utf8_lossy(&told.stdout).into_owned())
}

/// The pipe to which strace writes: a FIFO in a folder of its own, because strace opens its output by name.
struct Pipe {
    folder: PathBuf,
    path: PathBuf,
    reader: File,
}

impl Pipe {
    fn new() -> Result<Self, Failure> {
        let folder = unused(&std::env::temp_dir(), "");
        let failed = |error: std::io::Error| Failure::io("make a pipe in", &folder, &error);
        fs::create_dir(&folder).map_err(failed)?;
        let path = folder.join("strace");
        let made = mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
        made.map_err(|errno| failed(errno.into()))?;
        // Not to wait here for a strace that may never come.
        let mut options = File::options();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let reader = options.open(&path).map_err(failed)?;
        Ok(Self { folder, path, reader })
    }

    /// What strace writes; none when it has ended without a word.
    fn lines(&self, child: &mut Child) -> Result<Option<BufReader<File>>, Failure> {
        let failed = |error: std::io::Error| Failure::io("read", &self.path, &error);
        loop {
            let mut ready = [PollFd::new(&self.reader, PollFlags::IN)];
            match poll(&mut ready, Some(&LOOK_EVERY)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => break,
                Err(errno) => return Err(failed(errno.into())),
            }
            if has_ended(child) {
                // It may have written and ended between the two looks.
                let mut last = [PollFd::new(&self.reader, PollFlags::IN)];
                if poll(&mut last, Some(&LOOK_EVERY)).map_err(|errno| failed(errno.into()))? == 0 {
                    return Ok(None);
                }
                break;
            }
        }
        let flags = fcntl_getfl(&self.reader).map_err(|errno| failed(errno.into()))?;
        fcntl_setfl(&self.reader, flags - OFlags::NONBLOCK).map_err(|errno| failed(errno.into()))?;
        let reader = self.reader.try_clone().map_err(failed)?;
        Ok(Some(BufReader::with_capacity(1 << 20, reader)))
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
