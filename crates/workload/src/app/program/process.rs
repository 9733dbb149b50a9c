//! Processes of a program. They end with this one, however it ends: a shell waits for the end of a pipe that this process holds.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use sim::Nanos;

use crate::suite::How;

/// How often a program is looked at while it runs.
pub(super) const LOOK: Nanos = Nanos::from_millis(20);

/// What the shell does: it reads what it has to end, waits for the end of its input, and sends the signal.
const WATCH: &str = "read -r target; while read -r rest; do :; done; kill -s \"$0\" -- \"$target\"";

/// A process that sends a signal to others when this process is gone.
pub(super) struct Watcher(Child);

impl Watcher {
    /// `target`: the number of a process; 0 for the watcher's own process group.
    pub(super) fn new(signal: &str, target: u32) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", WATCH, signal]).process_group(0).stdin(Stdio::piped());
        let mut shell = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        if let Some(stdin) = &mut shell.stdin {
            stdin.write_all(format!("{target}\n").as_bytes())?;
        }
        Ok(Self(shell))
    }
}

impl Drop for Watcher {
    /// It must not see the end of its input, since the number of its target may be another process's by now.
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process group, whose processes end with it.
pub(super) struct Group(Watcher);

impl Group {
    pub(super) fn new() -> io::Result<Self> {
        Watcher::new("KILL", 0).map(Self)
    }

    /// Lets the process of a command begin in this group.
    pub(super) fn holds<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.process_group(self.0.0.id().cast_signed())
    }

    /// Ends all of its processes.
    pub(super) fn end(&self) {
        // It fails if none is left.
        let _ = kill_process_group(Pid::from_child(&self.0.0), Signal::KILL);
    }

    /// Runs a command to its end; none if an interrupt has ended it, with the processes that it has started.
    pub(super) fn run(&self, command: &mut Command, input: &str, how: &How) -> io::Result<Option<Ended>> {
        let mut output = in_memory()?;
        self.holds(command).stdin(Stdio::piped()).stdout(output.try_clone()?).stderr(output.try_clone()?);
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // A program that reads nothing may have closed it.
            let _ = stdin.write_all(input.as_bytes());
        }
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if how.is_interrupted() {
                self.end();
                child.wait()?;
                return Ok(None);
            }
            sim::sleep(LOOK);
        };
        Ok(Some(Ended { status, printed: all_of(&mut output)? }))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a command has ended by itself, and what it has printed.
pub(super) struct Ended {
    status: ExitStatus,
    printed: String,
}

impl Ended {
    /// What it has printed, if it has succeeded.
    pub(super) fn success(self) -> Result<String, String> {
        let Self { status, printed } = self;
        if status.success() { Ok(printed) } else { Err(format!("{status}: {}", last_lines(&printed))) }
    }
}

/// A file in memory for what a program prints, so that it is never blocked by its reader and leaves nothing behind.
pub(super) fn in_memory() -> io::Result<File> {
    Ok(memfd_create("weir-program", MemfdFlags::CLOEXEC)?.into())
}

/// What a program has printed; a line that it has written over is a line, too.
pub(super) fn all_of(output: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', "\n"))
}

/// The end of what a program has printed, in a line.
pub(super) fn last_lines(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" · ")
}

/// Where a program of a Debian package is: in `PATH`, or where programs of root are.
pub(super) fn located(binary: &str, package: &str) -> Result<PathBuf, String> {
    let of_root = Path::new("/usr/sbin").join(binary);
    super::found(binary)
        .or_else(|| super::is_program(&of_root).then_some(of_root))
        .ok_or_else(|| format!("{binary} is not installed: install the Debian package {package}"))
}

/// The numbers of a user and of its group, by the text of `/etc/passwd`.
pub(super) fn numbers(passwd: &str, user: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (*fields.first()? == user).then_some(())?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        command
    }

    #[test]
    fn a_command_that_fails_is_told_with_its_last_lines() {
        let group = Group::new().unwrap();
        let ended =
            group.run(&mut shell("read a; echo $a; echo two >&2; exit 3"), "one\n", &How::default()).unwrap();
        let told = ended.unwrap().success().unwrap_err();
        assert!(told.contains('3') && told.ends_with("one · two"), "{told}");
    }

    #[test]
    fn what_a_command_leaves_running_ends_with_its_group() {
        let group = Group::new().unwrap();
        let ended = group
            .run(&mut shell("sleep 1000 >/dev/null 2>&1 & echo $!"), "", &How::default())
            .unwrap()
            .unwrap();
        let pid: i32 = ended.success().unwrap().trim().parse().unwrap();
        // A process that has ended and is not waited for yet is a zombie.
        let runs = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
        };
        assert!(runs(), "{pid}");
        drop(group);
        while runs() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let passwd = "postgres2:x:7:8::/:/bin/sh\npostgres:x:101:104:a:/var:/bin/sh\nbroken\n";
        assert_eq!(numbers(passwd, "postgres"), Some((101, 104)));
        assert_eq!((numbers(passwd, "broken"), numbers(passwd, "post")), (None, None));
    }
}
