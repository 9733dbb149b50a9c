//! `weir campaign run`: one shard, or what is missing, on this host.

use std::path::PathBuf;

use clap::Args;
use lab::Settings;
use lab::campaign::{Campaign, State, engine, folder};
use serde_json::{Value, json};
use sim::Bytes;

use super::work::Work;
use crate::experiment::{jobs, memory};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::{Output, several};
use crate::progress::Bar;

/// Run a shard; what is there already does not run again.
#[derive(Args, Debug)]
#[command(
    after_help = "Without --index, the engine's variable says which: SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX, \
                  HQ_TASK_ID, PBS_ARRAY_INDEX (from 0), LSB_JOBINDEX, SGE_TASK_ID, PARALLEL_SEQ (from 1)"
)]
pub(super) struct Run {
    /// The folder of the campaign
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The number of the shard, from 0
    #[arg(long, value_name = "N", conflicts_with = "missing")]
    index: Option<usize>,
    /// Run every shard that is neither done nor running
    #[arg(long)]
    missing: bool,
    /// Runs in parallel [default: 1; with --missing, one for each core]
    #[arg(long, value_name = "N", value_parser = jobs)]
    jobs: Option<usize>,
    /// Memory that parallel runs may use together [default: nine tenths of the free memory]
    #[arg(long, value_name = "SIZE", value_parser = memory, hide_short_help = true)]
    memory: Option<Bytes>,
    /// What the shard's file is called: DIR/out/SHARD.NAME.jsonl [default: drawn at random]
    #[arg(long, value_name = "NAME", value_parser = attempt, hide_short_help = true)]
    attempt: Option<String>,
}

fn attempt(text: &str) -> Result<String, String> {
    let legal = folder::is_attempt(text);
    legal.then(|| text.to_owned()).ok_or_else(|| "expected up to 64 letters, digits and dashes".to_owned())
}

impl Run {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        let campaign = Campaign::open(&self.folder)?;
        let shards = self.shards(&campaign)?;
        let work = Work::of(&campaign, output)?;
        work.cells(&campaign)?;
        let interrupt = interrupt::flag();
        let bar = Bar::new(output.shows_progress(), output.tells_progress());
        let settings = Settings {
            jobs: self.jobs.unwrap_or(usize::from(!self.missing)),
            memory: self.memory,
            interrupt,
            ..Settings::default()
        };
        let mut ran = Vec::new();
        for shard in shards {
            if interrupt::happened() {
                break;
            }
            ran.push(self.shard((&campaign, &work), shard, &settings, (&bar, output))?);
        }
        drop(bar);
        if output.is_json() {
            output.document(&json!({ "schema": "weir.campaign.run/1", "shards": ran }));
        }
        if interrupt::happened() {
            let message = "interrupted; the cells that have run are kept: run the shard again for the others";
            return Err(Failure::new(Exit::Interrupted, message));
        }
        Ok(())
    }

    /// Which shards are run.
    fn shards(&self, campaign: &Campaign) -> Result<Vec<usize>, Failure> {
        if self.missing {
            let states = campaign.states()?.into_iter().enumerate();
            let open = states.filter(|(_, state)| matches!(state, State::Missing | State::Failed));
            return Ok(open.map(|(shard, _)| shard).collect());
        }
        let said = || engine::index(|name| std::env::var(name).ok());
        let shard = match self.index.map_or_else(said, |index| Some(Ok(index))) {
            Some(shard) => shard.map_err(Failure::usage)?,
            None => {
                let message = "which shard? give --index 0, or --missing for all that are not done";
                return Err(Failure::usage(message));
            }
        };
        match campaign.manifest.shards.len() {
            count if shard < count => Ok(vec![shard]),
            count => {
                Err(Failure::usage(format!("there is no shard {shard}: the campaign has 0 to {}", count - 1)))
            }
        }
    }

    fn shard(
        &self,
        (campaign, work): (&Campaign, &Work),
        shard: usize,
        settings: &Settings,
        (bar, output): (&Bar, &Output),
    ) -> Result<Value, Failure> {
        if campaign.state(shard)? == State::Done {
            output.note(&format!("shard {shard} is done"));
            return Ok(
                json!({ "shard": shard, "cells": 0, "known": campaign.manifest.shards[shard].cells.len(), "done": true }),
            );
        }
        let attempt = self.attempt.clone().unwrap_or_else(folder::new_attempt);
        let ran = work.run(campaign, (shard, &attempt), settings, (bar, output))?;
        let known = if ran.known == 0 {
            String::new()
        } else {
            format!(", {} were known", several(ran.known, "cell"))
        };
        let how = if ran.whole { "is done" } else { "was interrupted" };
        output.note(&format!("shard {shard} {how}: {} to run{known}", several(ran.cells, "cell")));
        Ok(json!({ "shard": shard, "cells": ran.cells, "known": ran.known, "done": ran.whole }))
    }
}
