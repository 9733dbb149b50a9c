//! `weir campaign status`: the files of the folder are the truth; what the engine says adds words.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lab::campaign::folder::{Campaign, Kind};
use lab::campaign::{State, engine, ranges};
use lab::cells;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::duration;
use super::jobs::{self, Job};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;

/// Between two lines of `--watch`.
const PAUSE: Duration = Duration::from_secs(10);

/// Count shards that are done, failed, missing and running.
#[derive(Args, Debug)]
pub(super) struct Status {
    /// The folder of the campaign
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print a line every ten seconds until every shard is done
    #[arg(long)]
    watch: bool,
}

/// How far a campaign is.
struct Counted {
    states: Vec<State>,
    /// Cells of shards that are done.
    cells: usize,
    /// Processor time of the cells that whole shards hold, and what they were expected to take.
    cpu_ns: (u64, u64),
}

impl Status {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        let campaign = Campaign::open(&self.folder)?;
        if self.watch && !output.is_json() {
            let _ = interrupt::flag();
            loop {
                let counted = count(&campaign)?;
                output.data(&format!("{}\n", line(&campaign, &counted)));
                if counted.of(State::Done).len() == counted.states.len() || interrupt::happened() {
                    return Ok(());
                }
                std::thread::sleep(PAUSE);
            }
        }
        let counted = count(&campaign)?;
        if output.is_json() {
            output.document(&document(&campaign, &counted));
        } else {
            output.data(&text(&campaign, &counted));
        }
        Ok(())
    }
}

impl Counted {
    /// The shards in a state.
    fn of(&self, state: State) -> Vec<usize> {
        let numbered = self.states.iter().enumerate();
        numbered.filter(|(_, other)| **other == state).map(|(shard, _)| shard).collect()
    }
}

fn count(campaign: &Campaign) -> Result<Counted, Failure> {
    let shards = &campaign.manifest.shards;
    let (mut cells, mut cpu_ns, mut seen) = (0, (0, 0), vec![false; shards.len()]);
    let states = campaign.states()?;
    for attempt in campaign.attempts()?.0 {
        let counts = attempt.kind == Kind::Whole && !seen[attempt.shard] && campaign.is_whole(&attempt)?;
        if !counts {
            continue;
        }
        seen[attempt.shard] = true;
        cells += shards[attempt.shard].cells.len();
        cpu_ns.1 += shards[attempt.shard].cpu_ns;
        let contents = cells::read_file_of::<IgnoredAny>(&attempt.path)?;
        cpu_ns.0 +=
            contents.iter().flat_map(|contents| &contents.cells).map(|cell| cell.cost.cpu_ns).sum::<u64>();
    }
    Ok(Counted { states, cells, cpu_ns })
}

/// Processor time that the rest takes, at the rate of what is done.
fn left_ns(campaign: &Campaign, counted: &Counted) -> u64 {
    let all: u64 = campaign.manifest.shards.iter().map(|shard| shard.cpu_ns).sum();
    let (used, expected) = counted.cpu_ns;
    let rate = if expected == 0 { 1.0 } else { used as f64 / expected as f64 };
    (all.saturating_sub(expected) as f64 * rate) as u64
}

fn line(campaign: &Campaign, counted: &Counted) -> String {
    let count = |state| counted.of(state).len();
    format!(
        "{} of {} shards done, {} running, {} failed, {} missing; {} of processor time used, about {} left",
        count(State::Done),
        counted.states.len(),
        count(State::Running),
        count(State::Failed),
        count(State::Missing),
        duration(counted.cpu_ns.0),
        duration(left_ns(campaign, counted)),
    )
}

fn text(campaign: &Campaign, counted: &Counted) -> String {
    let cells = format!("cells: {} of {} in shards that are done", counted.cells, campaign.manifest.cells());
    let mut lines = vec![line(campaign, counted), cells];
    for (state, word) in [(State::Running, "running"), (State::Failed, "failed"), (State::Missing, "missing")]
    {
        let shards = counted.of(state);
        if !shards.is_empty() {
            lines.push(format!("{word}: {}", ranges(&shards)));
        }
    }
    lines.extend(queues(campaign));
    if counted.of(State::Done).len() == counted.states.len() {
        let folder = engine::quoted(&campaign.folder.display().to_string());
        lines.push(format!("next: weir campaign merge {folder} -o result.json"));
    } else if !counted.of(State::Failed).is_empty() {
        let folder = engine::quoted(&campaign.folder.display().to_string());
        lines.push(format!(
            "next: weir campaign run {folder} --missing, or submit again with --missing; cells that have run do not run again"
        ));
    }
    lines.join("\n") + "\n"
}

fn document(campaign: &Campaign, counted: &Counted) -> Value {
    let lists: serde_json::Map<String, Value> =
        [(State::Running, "running"), (State::Failed, "failed"), (State::Missing, "missing")]
            .map(|(state, word)| (word.to_owned(), json!(counted.of(state))))
            .into_iter()
            .collect();
    json!({
        "schema": "weir.campaign.status/1",
        "name": campaign.manifest.name,
        "shards": counted.states.len(),
        "done": counted.of(State::Done).len(),
        "failed": counted.of(State::Failed).len(),
        "missing": counted.of(State::Missing).len(),
        "running": counted.of(State::Running).len(),
        "cells": campaign.manifest.cells(),
        "cells_done": counted.cells,
        "cpu_ns": counted.cpu_ns.0,
        "cpu_left_ns": left_ns(campaign, counted),
        "lists": lists,
        "engine": queues(campaign),
    })
}

/// What the engine says of its jobs, with the remedy where it waits for a person.
fn queues(campaign: &Campaign) -> Vec<String> {
    let ids: Vec<String> = jobs::all(campaign)
        .into_iter()
        .filter_map(|job| if let Job::Slurm { id, .. } = job { Some(id) } else { None })
        .collect();
    if ids.is_empty() || !jobs::has("squeue") {
        return Vec::new();
    }
    let mut told = Vec::new();
    for id in ids {
        let Some(queue) = jobs::asked("squeue", &["-h", "-j", &id, "-o", "%i %T %r"]) else { continue };
        told.extend(queue.lines().map(|line| format!("slurm: {line}")));
        if queue.contains("JobHeld") {
            told.push(format!("slurm holds job {id}, as after a loss of its state: scontrol release {id}"));
        }
    }
    let drained = jobs::asked("sinfo", &["-h", "-N", "-t", "drain", "-o", "%N"]).unwrap_or_default();
    let nodes: Vec<&str> = drained.split_whitespace().collect();
    if !nodes.is_empty() && !told.is_empty() {
        let nodes = nodes.join(",");
        told.push(format!("slurm has drained {nodes}: scontrol update nodename={nodes} state=resume"));
    }
    told
}
