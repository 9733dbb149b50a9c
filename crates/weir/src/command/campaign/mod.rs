//! `weir campaign`: plans, readings and checks whose cells are run on many hosts by an engine that is there already.
//!
//! `lab::campaign` has the folder, the shards and the merge; here are the command line, and the engines' programs that are called:
//! `sbatch`, `squeue`, `scontrol`, `scancel`, `parallel`.

mod cancel;
mod jobs;
mod merge;
mod new;
mod run;
mod status;
mod submit;
mod work;

use std::path::Path;

use clap::{Args, Subcommand};
use lab::campaign::{self, FaultKind};

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Run plans, readings and checks on many hosts: Slurm, GNU parallel over ssh, or any other scheduler
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir campaign new DIR plan.toml; weir campaign submit DIR --engine slurm;\n         \
                  weir campaign status DIR; weir campaign merge DIR -o result.json"
)]
pub(crate) struct CampaignCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Freeze plans or a command, with their texts and this program, in a folder, cut into shards
    New(new::New),
    /// Run a shard; what is there already does not run again
    Run(run::Run),
    /// Give the shards that are not done to an engine
    Submit(submit::Submit),
    /// Count shards that are done, failed, missing and running
    Status(status::Status),
    /// Verify the shards, and write the result that one machine would have given
    Merge(merge::Merge),
    /// Take the shards back from the engine; what is done stays
    Cancel(cancel::Cancel),
}

impl CampaignCommand {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.what {
            What::New(command) => command.run(output),
            What::Run(command) => command.run(output),
            What::Submit(command) => command.run(output),
            What::Status(command) => command.run(output),
            What::Merge(command) => command.run(output),
            What::Cancel(command) => command.run(output),
        }
    }
}

impl From<campaign::Error> for Failure {
    fn from(error: campaign::Error) -> Self {
        let exit = match &error {
            campaign::Error::Refused(faults) => match faults.iter().map(|fault| fault.kind).max() {
                Some(FaultKind::Missing) => Exit::Check,
                Some(FaultKind::Foreign) => Exit::Host,
                _ => Exit::Corrupt,
            },
            campaign::Error::Lab(_) | campaign::Error::File(_) => Exit::Run,
            _ => Exit::Internal,
        };
        match error {
            campaign::Error::Lab(error) => error.into(),
            campaign::Error::File(error) => error.into(),
            error => Self::new(exit, error.to_string()),
        }
    }
}

/// The folder from the root, so that engines find it from wherever they start.
fn whole_path(folder: &Path) -> Result<std::path::PathBuf, Failure> {
    std::fs::canonicalize(folder).map_err(|error| Failure::io("open the folder", folder, &error))
}

/// `3.2 h`, `41 min`, `12 s`.
pub(crate) fn duration(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match seconds {
        s if s >= 5400.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.0} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.0} s"),
        s => format!("{s:.2} s"),
    }
}
