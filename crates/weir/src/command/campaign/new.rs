//! `weir campaign new`: a folder with everything that hosts need.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use lab::campaign::manifest::{self, CommandRecord, Manifest, PlanRecord};
use lab::campaign::{Campaign, folder};
use lab::{Plan, Settings, environment};
use results::{InputKind, InputRecord};
use serde_json::json;
use sim::{Bytes, Nanos};

use super::duration;
use super::work::{Estimated, Work};
use crate::cli::Global;
use crate::command::run;
use crate::failure::{Exit, Failure};
use crate::output::{Output, several};
use crate::{inputs, interrupt};

/// Time for estimates.
const ESTIMATES: Duration = Duration::from_secs(10);
/// Cores for which the time of the whole is told.
const CORES: [u64; 3] = [2, 32, 256];

/// Freeze plans or a command, with their texts and this program, in a folder, cut into shards.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir campaign new DIR plan.toml · weir campaign new DIR -- reproduce hinfs --readings --quick · \
                  weir campaign new DIR -- check crash --fs pmfs --depth 3"
)]
pub(super) struct New {
    /// The folder; on a cluster, one that all nodes share
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Plans: names (`weir list plans`) or files
    #[arg(required_unless_present = "command", value_name = "PLAN")]
    plans: Vec<String>,
    /// Time that a shard should take, 60 at least
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(60..=86_400))]
    shard_seconds: u64,
    /// Cut into so many shards instead, whatever they take
    #[arg(long, value_name = "N", conflicts_with = "shard_seconds", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    shards: Option<u64>,
    /// Run the plans' scaled-down variants
    #[arg(long)]
    quick: bool,
    /// Seed of all random numbers [default: each plan's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run this instead of plans: `reproduce PAPER --readings`, `check crash` or `check faults`, with their options
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "plans")]
    command: Vec<String>,
}

impl New {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        check_folder(&self.folder)?;
        let (work, plans) = self.work(output)?;
        let settings = Settings { interrupt: interrupt::flag(), ..Settings::default() };
        let count = |all: u64, cells: usize| match self.shards {
            Some(count) => count as usize,
            None => manifest::shards_of(all, Nanos::from_secs(self.shard_seconds), cells),
        };
        let Estimated { cells, times, estimate, programs_each } =
            work.estimate(ESTIMATES, &settings, output, count)?;
        if interrupt::happened() {
            return Err(Failure::new(Exit::Interrupted, "interrupted; there is no campaign"));
        }
        let all = times.values().fold(0, |sum: u64, time| sum.saturating_add(*time));
        let program =
            std::env::current_exe().map_err(|error| Failure::io("find", Path::new("weir"), &error))?;
        let arguments = self.command.clone();
        let manifest = Manifest {
            schema: manifest::SCHEMA.to_owned(),
            name: work.name(),
            weir_version: env!("CARGO_PKG_VERSION").to_owned(),
            build: environment::build().unwrap_or_default(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            plans,
            command: (!arguments.is_empty()).then_some(CommandRecord { arguments, programs_each }),
            estimate,
            shards: manifest::pack(&cells, &times, count(all, cells.len())),
        };
        std::fs::create_dir_all(&self.folder)
            .map_err(|error| Failure::io("make the folder", &self.folder, &error))?;
        inputs::unpack_all(manifest.plans.iter().flat_map(|plan| &plan.inputs), &self.folder.join("texts"))?;
        let campaign = Campaign::create(&self.folder, manifest, &program)?;
        // The texts that go along must give the cells that the plans give here.
        Work::of(&campaign, &Output::new(&Global { quiet: true, ..Global::default() }))?.cells(&campaign)?;
        tell(&campaign, output);
        Ok(())
    }

    /// What is to run, and the records of its plans.
    fn work(&self, output: &Output) -> Result<(Work, Vec<PlanRecord>), Failure> {
        if !self.command.is_empty() {
            if self.quick || self.seed.is_some() {
                return Err(Failure::usage("give --quick and --seed behind --, to the command that is run"));
            }
            return Ok((Work::by(&self.command, output)?, Vec::new()));
        }
        let plans = self.plans.iter().map(|name| self.plan(name)).collect::<Result<Vec<_>, _>>()?;
        if let Some(twice) =
            (1..plans.len()).find(|at| plans[..*at].iter().any(|one| one.name == plans[*at].name))
        {
            let name = &plans[twice].name;
            return Err(Failure::usage(format!("plan {name} is given twice: give each plan once")));
        }
        manifest::admit(&plans)?;
        let records = plans.iter().map(record).collect::<Result<Vec<_>, _>>()?;
        Ok((Work::Plans(plans), records))
    }

    fn plan(&self, name: &str) -> Result<Plan, Failure> {
        let (plan, _) = run::load_and_check(name, self.quick)?;
        Ok(Plan { seed: self.seed.unwrap_or(plan.seed), ..plan })
    }
}

/// A folder that is not there, is empty, or was left by a `new` that did not end.
fn check_folder(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    if path.join(folder::MANIFEST).exists() {
        return Err(Failure::usage(format!("{shown} is a campaign already: name another folder")));
    }
    let ours = [folder::OUT, "bin", "log", "submit", "texts"];
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let others = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    match others.into_iter().find(|name| !ours.contains(&name.as_str()) && !name.starts_with('.')) {
        None => Ok(()),
        Some(other) => {
            Err(Failure::usage(format!("{shown} is not empty (it has {other}): name another folder")))
        }
    }
}

/// A plan with the texts that it names. What is no text cannot go along.
fn record(plan: &Plan) -> Result<PlanRecord, Failure> {
    let inputs: Vec<InputRecord> = inputs::of(plan);
    let is_there =
        |name: &str| inputs.iter().any(|input| input.kind == InputKind::Workload && input.name == name);
    let lacks =
        |name: &&str| workload::suite::find(name).is_none() && Path::new(name).exists() && !is_there(name);
    if let Some(name) = plan.workload.iter().map(|workload| workload.name.as_str()).find(lacks) {
        return Err(Failure::usage(format!(
            "plan {}: {name} is no text, and a campaign takes texts along only: run it by `weir run` on one host",
            plan.name
        )));
    }
    Ok(PlanRecord { plan: plan.to_json(), inputs })
}

fn tell(campaign: &Campaign, output: &Output) {
    let Manifest { estimate, shards, .. } = &campaign.manifest;
    let memory = shards.iter().map(|shard| shard.memory_bytes).max().unwrap_or_default();
    let middle = |cores: u64| {
        let longest = shards.iter().map(|shard| shard.cpu_ns).max().unwrap_or_default();
        (shards.iter().map(|shard| shard.cpu_ns).sum::<u64>() / cores).max(longest)
    };
    if output.is_json() {
        return output.document(&json!({
            "schema": "weir.campaign.new/1",
            "folder": campaign.folder,
            "digest": campaign.digest,
            "build": campaign.manifest.build,
            "cells": campaign.manifest.cells(),
            "shards": shards.len(),
            "memory_bytes": memory,
            "estimate": estimate,
        }));
    }
    let times: Vec<String> =
        CORES.iter().map(|cores| format!("{} on {cores} cores", duration(middle(*cores)))).collect();
    output.data(&format!(
        "campaign   {}\ncells      {} in {}\nprocessor  {} to {} ({})\nwall time  about {}\nmemory     {} for each shard\n",
        campaign.folder.display(),
        campaign.manifest.cells(),
        several(shards.len(), "shard"),
        duration(estimate.low_ns),
        duration(estimate.high_ns),
        estimate.basis,
        times.join(", "),
        Bytes(memory.next_multiple_of(1 << 20)),
    ));
}
