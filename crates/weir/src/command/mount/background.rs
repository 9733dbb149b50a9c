//! The process that stays: this program again, in a session of its own, which says when it is ready.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::json;

use super::by_type;
use super::serve::{Job, READY};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Starts the process, and returns when its mount is ready. What it has to say before, it says on this process's standard
/// error.
pub(super) fn start(job: &Job, output: &Output) -> Result<(), Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Exit::Internal, format!("this program's own path: {error}")))?;
    let mut arguments = by_type::arguments(std::env::args_os());
    // After `--` it would be a name.
    let end = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.insert(end, "--tell-ready".into());
    let mut child = Command::new(program)
        .args(arguments.into_iter().skip(1))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::new(Exit::Run, format!("cannot start the server: {error}")))?;
    let mut line = String::new();
    let mut stdout = child.stdout.take().map(BufReader::new);
    if let Some(stdout) = &mut stdout {
        let _ = stdout.read_line(&mut line);
    }
    if line.trim_end() == READY {
        output.detail(&format!("{} is mounted; process {} serves it", job.dir.display(), child.id()));
        if output.is_json() {
            let (fs, dir) = (job.design.name(), &job.dir);
            output.document(&json!({ "schema": "weir.mount/1", "fs": fs, "dir": dir, "server": child.id() }));
        }
        return Ok(());
    }
    // It has said why: on the standard error, and with --json in a document.
    if let Some(stdout) = &mut stdout {
        let _ = stdout.read_to_string(&mut line);
    }
    output.data(&line);
    let code = child.wait().ok().and_then(|status| status.code());
    Err(Failure::new(exit_of(code), ""))
}

/// The exit code of the other process, as our own.
fn exit_of(code: Option<i32>) -> Exit {
    let known = [Exit::Check, Exit::Usage, Exit::Host, Exit::Run, Exit::Corrupt, Exit::Interrupted];
    known.into_iter().find(|exit| code == Some(*exit as i32)).unwrap_or(Exit::Internal)
}

/// Leaves terminal, session and working directory of the process that started this one.
pub(super) fn let_go() {
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
