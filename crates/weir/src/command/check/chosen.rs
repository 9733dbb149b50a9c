//! Which small programs `crash` and `faults` take, and how long for.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use check::Limits;
use check::crash::{Family, Subject};
use clap::Args;
use sim::{Bytes, Nanos, Seed};

use super::{Shared, no_program, written};
use crate::failure::{Exit, Failure};
use crate::interrupt;

/// The region where the user does not say otherwise, if the format and programs fit into it.
pub(super) const REGION: Bytes = Bytes::mib(1);

#[derive(Args, Debug)]
pub(super) struct Chosen {
    /// Run only the programs whose names contain these words
    #[arg(long, value_name = "WORDS")]
    programs: Option<String>,
    /// Run only this many of the programs, drawn at random
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    sample: Option<usize>,
    /// Run only the programs A to B-1 of those that are chosen, from 0: shares of one check for several hosts
    #[arg(long, value_name = "A..B", value_parser = range, hide_short_help = true, conflicts_with = "time")]
    range: Option<Share>,
    /// Run this many random programs of up to five operations instead
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) random: Option<usize>,
    /// Start no program after this time: 60s
    #[arg(long, value_name = "TIME")]
    pub(super) time: Option<Nanos>,
    /// Size of the region; raised for a format that needs more than the default
    #[arg(long, default_value = "1MiB", value_name = "SIZE")]
    pub(super) size: Bytes,
}

/// A check of nothing would pass.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "give a number from 1 on".to_owned())
}

/// `A..B`, not empty.
pub(super) fn range(text: &str) -> Result<Share, String> {
    let ends =
        text.split_once("..").and_then(|(a, b)| Some(Share { start: a.parse().ok()?, end: b.parse().ok()? }));
    ends.filter(|share| share.start < share.end)
        .ok_or_else(|| "expected two numbers, the first one less, as in 0..100".to_owned())
}

/// Things by number: the share of one host in a check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A share of so many things, or all of them; refuses a share with things that there are not.
pub(super) fn within(share: Option<Share>, all: u64, what: &str) -> Result<Range<u64>, Failure> {
    match share {
        Some(Share { end, .. }) if end > all => Err(Failure::usage(format!(
            "--range ends at {end}, and there are {all} {what}: end at {all} or before"
        ))),
        Some(Share { start, end }) => Ok(start..end),
        None => Ok(0..all),
    }
}

impl Chosen {
    /// The programs to choose from: random ones, or those of a depth.
    pub(super) fn family(&self, shared: &Shared, depth: u32) -> Family {
        match self.random {
            Some(count) => Family::Random { seed: shared.seed, count },
            None => Family::of_depth(depth),
        }
    }

    /// Those of a family that are wanted, by number. When the time may not suffice for all, their order is random.
    pub(super) fn numbers(&self, family: &Family, shared: &Shared) -> Result<Vec<usize>, Failure> {
        let mut numbers: Vec<usize> = (0..family.count()).collect();
        if let Some(words) = &self.programs {
            numbers.retain(|number| family.name(*number).contains(words));
            if numbers.is_empty() {
                return Err(no_program(words));
            }
        }
        if self.sample.is_some() || self.time.is_some() {
            let mut rng = Seed(shared.seed).derive("check.sample", 0).rng();
            let count = self.sample.unwrap_or(numbers.len());
            check::generate::draw(&mut numbers, count, &mut rng);
        }
        let Range { start, end } = within(self.range, numbers.len() as u64, "programs")?;
        Ok(numbers[start as usize..end as usize].to_vec())
    }

    /// Whether a whole family is wanted, and no random one.
    pub(super) fn is_all(&self) -> bool {
        let chosen = self.programs.is_some() || self.random.is_some();
        !chosen && self.sample.is_none() && self.time.is_none() && self.range.is_none()
    }

    pub(super) fn limits(&self, shared: &Shared, began: Instant) -> Limits {
        let end = self.time.map(|time| began + Duration::from_nanos(time.0));
        Limits { end, ..shared.limits() }
    }

    /// Fails where the time was over before the first program of a design.
    pub(super) fn ran<'s>(&self, mut ran: impl Iterator<Item = (&'s Subject, usize)>) -> Result<(), Failure> {
        match (self.time, ran.find(|(_, programs)| *programs == 0)) {
            (Some(time), Some((subject, _))) if !interrupt::happened() => {
                let name = subject.design.name();
                let message = format!("no program ran on {name} in {time}: give more --time");
                Err(Failure::new(Exit::Check, message))
            }
            _ => Ok(()),
        }
    }

    /// What was asked for, as the ledger has it.
    pub(super) fn asked(&self) -> String {
        let mut asked = vec![format!("--size {}", written(self.size))];
        asked.extend(self.programs.as_ref().map(|words| format!("--programs '{words}'")));
        asked.extend(self.sample.map(|count| format!("--sample {count}")));
        asked.extend(self.random.map(|count| format!("--random {count}")));
        asked.extend(self.range.map(|share| format!("--range {share}")));
        asked.extend(self.time.map(|time| format!("--time {time}")));
        asked.join(" ")
    }

    /// The options with which one of the programs is run again.
    pub(super) fn again(&self, shared: &Shared, program: &str) -> String {
        let random = self.random.map_or(String::new(), |count| format!(" --random {count}"));
        format!("--seed {}{random} --size {} --programs '{program}'", shared.seed, written(self.size))
    }
}
