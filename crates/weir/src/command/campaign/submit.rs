//! `weir campaign submit`: shards to an engine. What is run is told before.

use std::path::PathBuf;
use std::process::Command;

use clap::{Args, ValueEnum};
use lab::campaign::{Campaign, State, engine, folder};
use lab::cells::Writer;

use super::jobs::{self, Job};
use super::{duration, whole_path};
use crate::failure::{Exit, Failure};
use crate::output::{Output, several};

/// More processor time than this is confirmed by `--yes`.
const ASKED_ABOVE_NS: u64 = 100 * 3_600 * 1_000_000_000;

/// Give the shards that are not done to an engine.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir campaign submit DIR --engine parallel --sshlogin n1,n2 -- --jobs 4")]
pub(super) struct Submit {
    /// The folder of the campaign
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The engine; plain prints a command for each shard, as a job of any other scheduler
    #[arg(long, value_enum)]
    engine: Engine,
    /// Submit again what has failed or is missing, and is neither running nor queued
    #[arg(long)]
    missing: bool,
    /// With parallel: the hosts, as ssh knows them; without, this one
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    sshlogin: Vec<String>,
    /// Print the commands and run nothing
    #[arg(long = "dry-run")]
    dry: bool,
    /// Submit more than 100 hours of processor time
    #[arg(long)]
    yes: bool,
    /// Options for the engine, which win over those that are given here
    #[arg(last = true, value_name = "OPTIONS")]
    more: Vec<String>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Slurm,
    Parallel,
    Plain,
    #[value(hide = true)]
    Kubernetes,
    #[value(hide = true)]
    Htcondor,
}

impl Submit {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        let campaign = Campaign::open(&whole_path(&self.folder)?)?;
        if !self.sshlogin.is_empty() && self.engine != Engine::Parallel {
            return Err(Failure::usage("--sshlogin goes with --engine parallel"));
        }
        let shards = self.shards(&campaign)?;
        if shards.is_empty() {
            output.note("nothing is to be submitted: every shard is done, running or queued");
            return Ok(());
        }
        let expected = shards.iter().map(|shard| campaign.manifest.shards[*shard].cpu_ns).sum::<u64>();
        if expected > ASKED_ABOVE_NS && !self.yes && !self.dry {
            return Err(Failure::usage(format!(
                "these {} take about {} of processor time: give --yes to submit them",
                several(shards.len(), "shard"),
                duration(expected)
            )));
        }
        output.note(&format!(
            "{}, about {} of processor time",
            several(shards.len(), "shard"),
            duration(expected)
        ));
        let attempt = folder::new_attempt();
        match self.engine {
            Engine::Slurm => self.slurm(&campaign, &shards, output),
            Engine::Parallel => self.parallel(&campaign, &shards, &attempt, output),
            Engine::Plain => {
                output.data(&engine::plain(&campaign, &shards));
                Ok(())
            }
            Engine::Kubernetes | Engine::Htcondor => Err(Failure::usage(
                "no description is printed any more: --engine plain prints a command for each shard, for a job of yours",
            )),
        }
    }

    /// What is to be submitted: all that is not done; what was submitted before only if that is said.
    fn shards(&self, campaign: &Campaign) -> Result<Vec<usize>, Failure> {
        let states = campaign.states()?;
        let before = !jobs::all(campaign).is_empty();
        if before && !self.missing && !self.dry {
            return Err(Failure::usage(
                "the campaign was submitted before: give --missing to submit what has failed or is missing",
            ));
        }
        let queued = if self.engine == Engine::Slurm && before { jobs::queued(campaign) } else { Vec::new() };
        let open = states.iter().enumerate().filter(|(shard, state)| match state {
            State::Done => false,
            State::Running => !self.missing,
            State::Missing | State::Failed => !queued.contains(shard),
        });
        Ok(open.map(|(shard, _)| shard).collect())
    }

    fn slurm(&self, campaign: &Campaign, shards: &[usize], output: &Output) -> Result<(), Failure> {
        let config = jobs::asked("scontrol", &["show", "config"]);
        let largest = config.as_deref().and_then(engine::max_array_size).unwrap_or(engine::SLURM_ARRAY);
        let script = campaign.folder.join("submit/slurm.sh");
        let commands = engine::slurm(campaign, &script, shards, largest, &self.more);
        let text = engine::slurm_script(&campaign.folder);
        output.note(&format!("{}:\n{text}", script.display()));
        for command in &commands {
            output.note(&engine::shown(command));
        }
        if self.dry {
            return Ok(());
        }
        needs("sbatch", "slurm-client")?;
        results::file::write_atomic(&script, &text)?;
        for command in commands {
            let answer = called(&command)?;
            // `ID` or `ID;CLUSTER`.
            let id = answer.trim().split(';').next().unwrap_or_default().to_owned();
            let offset = command.last().and_then(|offset| offset.parse().ok()).unwrap_or_default();
            let array = command.iter().find_map(|word| word.strip_prefix("--array=")).unwrap_or_default();
            jobs::add(campaign, &Job::Slurm { id: id.clone(), offset, shards: array.to_owned() })?;
            output.note(&format!("job {id}; `weir campaign status` says how it goes"));
        }
        Ok(())
    }

    /// GNU parallel in the foreground: its end is that of all shards.
    fn parallel(
        &self,
        campaign: &Campaign,
        shards: &[usize],
        attempt: &str,
        output: &Output,
    ) -> Result<(), Failure> {
        let command = engine::parallel(&self.sshlogin, shards, attempt, &self.more);
        output.note(&format!("in {}: {}", campaign.folder.display(), engine::shown(&command)));
        if self.dry {
            return Ok(());
        }
        needs("parallel", "parallel")?;
        let mut child =
            Command::new(&command[0])
                .args(&command[1..])
                .current_dir(&campaign.folder)
                .spawn()
                .map_err(|error| Failure::new(Exit::Host, format!("cannot run {}: {error}", command[0])))?;
        if let Some(process) = Writer::of(child.id()) {
            jobs::add(campaign, &Job::Parallel { process, shards: lab::campaign::ranges(shards) })?;
        }
        let ended =
            child.wait().map_err(|error| Failure::new(Exit::Run, format!("{}: {error}", command[0])))?;
        let states = campaign.states()?;
        let open = shards.iter().filter(|shard| states[**shard] != State::Done).count();
        match open {
            0 => {
                output.note("every shard is done: `weir campaign merge` writes the result");
                Ok(())
            }
            _ => Err(Failure::new(
                Exit::Run,
                format!(
                    "{open} of {} are not done ({ended}): see log/parallel-{attempt}.txt, and submit again with --missing",
                    several(shards.len(), "shard")
                ),
            )),
        }
    }
}

/// Refuses an engine whose program is not there.
fn needs(program: &str, package: &str) -> Result<(), Failure> {
    if jobs::has(program) {
        return Ok(());
    }
    let message = format!(
        "there is no program {program}: run this where the engine is, or install it (on Debian: apt-get install {package}); \
         --dry-run prints what would run"
    );
    Err(Failure::new(Exit::Host, message))
}

/// What a command prints; its complaint if it fails.
fn called(command: &[String]) -> Result<String, Failure> {
    let failed = |why: String| Failure::new(Exit::Run, format!("{}: {why}", engine::shown(command)));
    let output =
        Command::new(&command[0]).args(&command[1..]).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}
