//! `weir check record`: what a suite outside of this command found, into the ledger. For scripts; hidden from the help.

use clap::Args;

use super::ledger::{Entry, Ledger};
use crate::failure::Failure;

/// Record what a suite found as evidence.
#[derive(Args, Debug)]
pub(super) struct Record {
    /// The check: `posix/mounted`
    check: String,
    /// What was checked
    #[arg(long)]
    subject: String,
    /// What is counted
    #[arg(long)]
    unit: String,
    /// How many
    #[arg(long)]
    count: u64,
    /// Of how many
    #[arg(long)]
    of: Option<u64>,
    /// How many of them were not as promised
    #[arg(long)]
    failures: u64,
    /// Where randomness started
    #[arg(long)]
    seed: Option<u64>,
    /// What was tested: commit and profile [default: this command's]
    #[arg(long)]
    build: Option<String>,
}

impl Record {
    pub(super) fn run(self, ledger: &Ledger<'_>) -> Result<(), Failure> {
        let Self { check, subject, unit, count, of, failures, seed, build } = self;
        if !super::evidence::CLAIMS.iter().any(|(known, _)| *known == check) {
            return Err(Failure::usage(format!("no claim names the check \"{check}\"")));
        }
        let seeds = seed.map(|seed| (seed, seed));
        let entries = [Entry { check, subject, unit, count, of, failures, seeds, asked: String::new() }];
        match build {
            Some(build) => ledger.record_build(&entries, &build),
            None => ledger.record(&entries),
        }
        Ok(())
    }
}
