//! What was given to engines: `DIR/jobs.jsonl`, a line for each job.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::process::Command;

use lab::campaign::Campaign;
use lab::campaign::engine::queued_tasks;
use lab::cells::Writer;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The file.
const JOBS: &str = "jobs.jsonl";

/// A job of an engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "engine", rename_all = "lowercase")]
pub(super) enum Job {
    /// A job array of Slurm, whose task 0 is the shard `offset`.
    Slurm { id: String, offset: usize, shards: String },
    /// A process of GNU parallel on the host that submitted.
    Parallel { process: Writer, shards: String },
}

/// Every job that was submitted.
pub(super) fn all(campaign: &Campaign) -> Vec<Job> {
    let text = std::fs::read_to_string(campaign.folder.join(JOBS)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Notes a job.
pub(super) fn add(campaign: &Campaign, job: &Job) -> Result<(), Failure> {
    let path = campaign.folder.join(JOBS);
    let line = serde_json::to_string(job).expect("our records have string keys only") + "\n";
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| Failure::io("write", &path, &error))
}

/// What a program of an engine prints; none where it is not there or fails.
pub(super) fn asked(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is there.
pub(super) fn has(program: &str) -> bool {
    workload::app::found(program).is_some()
}

/// The shards that wait or run in Slurm's queue.
pub(super) fn queued(campaign: &Campaign) -> Vec<usize> {
    let mut queued = Vec::new();
    for job in all(campaign) {
        if let Job::Slurm { id, offset, .. } = job {
            // Of a job that has ended Slurm knows nothing any more, which is an error of squeue.
            let text = asked("squeue", &["-h", "-r", "-j", &id, "-o", "%K"]).unwrap_or_default();
            queued.extend(queued_tasks(&text).into_iter().map(|task| task + offset));
        }
    }
    queued
}
