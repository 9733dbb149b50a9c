//! Campaigns: the cells of plans, run on many hosts by an engine that is there already, and merged to the bytes of one machine.
//!
//! The contract is a folder and an index; `docs/designs/campaign.md` has the files, the states of a shard, and what each killed
//! process leaves. Nothing here starts a process or reaches another host.
//!
//! | module | holds |
//! |---|---|
//! | [`manifest`] | [`Manifest`]: what is run, cut into shards |
//! | [`folder`] | [`Campaign`]: the folder, the states of its shards, a shard that is run |
//! | [`gather`] | what the shards have come to: verified, each cell once |
//! | [`estimate`] | how long the cells will take, from runs of the smallest ones |
//! | [`engine`] | what Slurm, GNU parallel and other schedulers are given |

pub mod engine;
pub mod estimate;
pub mod folder;
pub mod gather;
pub mod manifest;

use std::fmt;

pub use folder::{Campaign, State};
pub use manifest::{Manifest, Shard};

/// What is wrong with a campaign or a file of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How bad it is.
    pub kind: FaultKind,
    /// Where it is, what, and what to do.
    pub what: String,
}

/// The kinds of faults, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Something is not there yet.
    Missing,
    /// It is of another build, another campaign or another host.
    Foreign,
    /// It is not what it must be.
    Damaged,
}

impl Fault {
    /// Something is not there yet.
    pub fn missing(what: impl Into<String>) -> Self {
        Self { kind: FaultKind::Missing, what: what.into() }
    }

    /// Something is of another build, campaign or host.
    pub fn foreign(what: impl Into<String>) -> Self {
        Self { kind: FaultKind::Foreign, what: what.into() }
    }

    /// Something is not what it must be.
    pub fn damaged(what: impl Into<String>) -> Self {
        Self { kind: FaultKind::Damaged, what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// Why a campaign cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It, or files of it, are refused: at least one fault.
    #[error("{}", told(.0))]
    Refused(Vec<Fault>),
    /// A plan, a cell or a file.
    #[error(transparent)]
    Lab(#[from] crate::Error),
    /// The manifest or a result.
    #[error(transparent)]
    File(#[from] results::FileError),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Refused(vec![fault])
    }
}

/// More faults than this are not told one by one.
const MOST_TOLD: usize = 20;

fn told(faults: &[Fault]) -> String {
    let mut lines: Vec<String> = faults.iter().take(MOST_TOLD).map(Fault::to_string).collect();
    if faults.len() > MOST_TOLD {
        lines.push(format!("and {} more", faults.len() - MOST_TOLD));
    }
    lines.join("\n")
}

/// Numbers in the shortest form that engines read: `0-3,7`.
pub fn ranges(numbers: &[usize]) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => spans.push((*number, *number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    spans.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_in_ranges() {
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[4]), "4");
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
