//! `weir campaign cancel`: what the engine has not run yet, and what it runs, is taken back.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use lab::campaign::Campaign;
use lab::cells::Writer;
use rustix::process::{Pid, Signal, kill_process};

use super::jobs::{self, Job};
use crate::failure::{Exit, Failure};
use crate::output::{Output, several};

/// Take the shards back from the engine; what is done stays.
#[derive(Args, Debug)]
pub(super) struct Cancel {
    /// The folder of the campaign
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Cancel {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        let campaign = Campaign::open(&self.folder)?;
        let mut cancelled = 0;
        for job in jobs::all(&campaign) {
            cancelled += usize::from(match job {
                Job::Slurm { id, .. } => cancel_array(&id)?,
                Job::Parallel { process, .. } => end(&process),
            });
        }
        match cancelled {
            0 => output.note("no job of the campaign is left"),
            count => output.note(&format!("{} cancelled; shards that are done stay", several(count, "job"))),
        }
        Ok(())
    }
}

/// Cancels an array of Slurm, if it is queued or runs.
fn cancel_array(id: &str) -> Result<bool, Failure> {
    if jobs::asked("squeue", &["-h", "-j", id]).is_none_or(|queue| queue.trim().is_empty()) {
        return Ok(false);
    }
    let ended = Command::new("scancel").arg(id).status();
    match ended {
        Ok(status) if status.success() => Ok(true),
        Ok(status) => Err(Failure::new(Exit::Run, format!("scancel {id}: {status}"))),
        Err(error) => Err(Failure::new(Exit::Host, format!("cannot run scancel {id}: {error}"))),
    }
}

/// Ends GNU parallel on this host: at the first signal it starts no more jobs, at the second it ends those that run.
fn end(process: &Writer) -> bool {
    let is_it = || Writer::here().boot == process.boot && Writer::alive(process);
    let Some(pid) = i32::try_from(process.process).ok().and_then(Pid::from_raw).filter(|_| is_it()) else {
        return false;
    };
    let sent = kill_process(pid, Signal::TERM).is_ok();
    std::thread::sleep(std::time::Duration::from_millis(200));
    if is_it() {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::TERM);
    }
    sent
}
