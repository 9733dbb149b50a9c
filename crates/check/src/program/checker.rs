//! The user's command in the folder of a recovered tree: exit code 0 is sound, 1 broken (the last line that it prints says how), 77
//! says nothing of this state. Anything else is a fault of the checker and never a finding: another code, a signal, more time or
//! output than it may take.
//!
//! It runs as a process group of its own, which is ended with it. Its environment: `WEIR_ACKED` names a file with what was
//! acknowledged before the crash; `HOME` and `TMPDIR` are within the scratch folder. [`super::world`] says what else it sees.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The exit code that says nothing.
const SAYS_NOTHING: i32 = 77;
/// Of its output, so many bytes are kept, and more than the second number end it.
const KEPT_BYTES: usize = 64 << 10;
const OUTPUT_MAX: u64 = 16 << 20;
/// A file that it makes may have so many bytes more than the largest of the tree.
const FILE_MORE: u64 = 256 << 20;
/// The signal of a file that grows beyond its limit (signal(7)); a shell's exit code is 128 more.
const SIGXFSZ: i32 = 25;
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What a checker says of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is sound.
    Sound,
    /// It is broken, and how.
    Broken(String),
    /// Nothing.
    Nothing,
    /// The checker is at fault, and how.
    Fault(String),
}

/// A checker.
#[derive(Clone, Debug)]
pub struct Checker {
    /// The command, for a shell.
    pub command: String,
    /// How long one run may take.
    pub timeout: Duration,
    /// The size of the largest file of any tree.
    pub largest: u64,
}

/// A folder for one run: `tree`, `home`, `acked`. The tree may be elsewhere.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
    tree: PathBuf,
}

impl Place {
    /// Makes the folder, and that of the tree, which is within it if nothing else is said. None of them may be there.
    pub fn new(folder: PathBuf, tree: Option<&Path>) -> io::Result<Self> {
        let tree = tree.map_or_else(|| folder.join("tree"), Path::to_owned);
        let place = Self { folder, tree };
        for part in [&place.folder, &place.home(), &place.tree] {
            DirBuilder::new().mode(0o700).create(part)?;
        }
        Ok(place)
    }

    /// Where the tree goes.
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    fn acked(&self) -> PathBuf {
        self.folder.join("acked")
    }

    /// Removes everything.
    pub fn remove(&self) {
        super::folder::remove(&self.tree);
        super::folder::remove(&self.folder);
    }
}

impl Checker {
    /// Runs it in a place that has a tree, which it sees `at` a path.
    pub fn run(&self, place: &Place, at: &Path, told: &[u8]) -> io::Result<Verdict> {
        fs::write(place.acked(), told)?;
        let output = place.folder.join("output");
        let written = File::create(&output)?;
        let blocks = self.file_max().div_ceil(512);
        let limited = format!("ulimit -f {blocks} 2>/dev/null\n{}", self.command);
        let mut command = Command::new("sh");
        command.arg("-c").arg(limited).current_dir(at);
        command.env("WEIR_ACKED", place.acked()).env("HOME", place.home()).env("TMPDIR", place.home());
        command.stdin(Stdio::null()).stdout(written.try_clone()?).stderr(written).process_group(0);
        let mut child = command.spawn()?;
        let ended = self.wait(&mut child, &output);
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
        let status = child.wait()?;
        if let Err(what) = ended? {
            return Ok(Verdict::Fault(what));
        }
        let said = last_line(&output)?;
        Ok(match status.code() {
            Some(0) => Verdict::Sound,
            Some(1) => Verdict::Broken(said),
            Some(SAYS_NOTHING) => Verdict::Nothing,
            Some(code @ (126 | 127)) => Verdict::Fault(format!(
                "it cannot be run (exit code {code}): {said}; give --check as a shell would run it"
            )),
            Some(code) if code == 128 + SIGXFSZ => Verdict::Fault(self.too_large()),
            Some(code) => Verdict::Fault(format!(
                "it ended with exit code {code}, and only 0, 1 and 77 mean something: {said}"
            )),
            None if status.signal() == Some(SIGXFSZ) => Verdict::Fault(self.too_large()),
            None => Verdict::Fault(format!("signal {} ended it: {said}", status.signal().unwrap_or(0))),
        })
    }

    /// The largest file that it may make, in bytes.
    fn file_max(&self) -> u64 {
        FILE_MORE + self.largest
    }

    fn too_large(&self) -> String {
        format!("a file that it wrote grew beyond {} MiB; let it write less", self.file_max() >> 20)
    }

    /// Waits until it has ended, or must be.
    fn wait(&self, child: &mut Child, output: &Path) -> io::Result<Result<(), String>> {
        let began = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            if child.try_wait()?.is_some() {
                return Ok(Ok(()));
            }
            if began.elapsed() > self.timeout {
                let seconds = self.timeout.as_secs_f64();
                return Ok(Err(format!("it had not ended after {seconds} s; give it more by --timeout")));
            }
            if fs::metadata(output)?.len() > OUTPUT_MAX {
                return Ok(Err(format!("it has printed more than {} MiB", OUTPUT_MAX >> 20)));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK_EVERY);
        }
    }
}

/// The last line with words that it has printed.
fn last_line(output: &Path) -> io::Result<String> {
    let mut file = File::open(output)?;
    let len = file.metadata()?.len();
    io::Seek::seek(&mut file, io::SeekFrom::Start(len.saturating_sub(KEPT_BYTES as u64)))?;
    let mut text = Vec::new();
    file.take(KEPT_BYTES as u64).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(no message)");
    Ok(line.trim().chars().take(400).collect())
}
