//! Failures everywhere: each access of an operation is made to fail, one after the other, until a run passes untouched. What the
//! operation answers, what is there then, and how the file system goes on is judged.
//!
//! | [`Kind`] | fails |
//! |---|---|
//! | `load`, `store` | the nth access of the medium, once |
//! | `loads`, `stores` | that one and all after it, until the operation has answered |
//! | `space` | the nth block or inode that an allocator is about to give out |
//! | `spaces` | that one and all after it |
//! | `poison` | the loads of one line, of those that the operation reads, until it is written as a whole |
//!
//! DRAM for buffers is not among them: no design survives its refusal, as no Rust program does.
//!
//! | module | holds |
//! |---|---|
//! | `attempt` | an operation with one failure in it: run, judged, used, mounted again |
//! | `operations` | [`fail_operations`]: all failures of the last operation of a program, or of the minute after it |
//! | `recovery` | failures of the mount after a crash |
//! | `reading` | poisoned lines under what only reads |
//! | `many` | [`fail_many`]: programs side by side |
//!
//! # What is allowed
//!
//! An operation answers as if nothing had happened, and has done all it should; or `EIO` (`ENOSPC` where space was refused), and
//! has done nothing, or, of what may be cut short, a part: what the design promises of a crash inside it. A write
//! that found too little space has written what it says.
//!
//! Then the file system goes on: what is seen stays the same over sync, unmount, fsck and mount; no block is lost; everything can
//! be used and removed. Or it has *stopped*: it cannot undo what failed, so it refuses every change and every sync (`EIO` or
//! `EROFS`) until it is mounted again, still shows what the operation was not about, and leaves an image on which the next mount
//! shows what is allowed.
//!
//! Data that a buffering design has accepted and cannot write is reported by the next sync. After that sync has failed once the
//! file holds what the guarantee allows of a crash, and a sync that succeeds means what it says.

mod attempt;
mod many;
mod operations;
mod reading;
mod recovery;

use std::collections::BTreeMap;

use media::fault::{Fault, Target};

use crate::crash::Violation;
pub use many::fail_many;
pub use operations::fail_operations;
pub use reading::poison_reading;
pub use recovery::fail_recovery;

/// What is made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the table above
pub enum Kind {
    Load,
    Loads,
    Store,
    Stores,
    Space,
    Spaces,
    Poison,
}

impl Kind {
    /// All that are counted from the first access on.
    const COUNTED: [Self; 6] =
        [Self::Load, Self::Loads, Self::Store, Self::Stores, Self::Space, Self::Spaces];

    /// All of them, in the order of the table.
    pub const ALL: [Self; 7] =
        [Self::Load, Self::Loads, Self::Store, Self::Stores, Self::Space, Self::Spaces, Self::Poison];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Loads => "loads",
            Self::Store => "store",
            Self::Stores => "stores",
            Self::Space => "space",
            Self::Spaces => "spaces",
            Self::Poison => "poison",
        }
    }

    fn is_space(self) -> bool {
        matches!(self, Self::Space | Self::Spaces)
    }
}

/// One failure: the nth of its kind, or the line that holds this byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    kind: Kind,
    at: u64,
}

impl Failure {
    fn fault(self) -> Fault {
        let nth = self.at;
        match self.kind {
            Kind::Load => Fault::FailNth { target: Target::Load, nth },
            Kind::Loads => Fault::FailFrom { target: Target::Load, nth },
            Kind::Store => Fault::FailNth { target: Target::Store, nth },
            Kind::Stores => Fault::FailFrom { target: Target::Store, nth },
            Kind::Space => Fault::FailNth { target: Target::Space, nth },
            Kind::Spaces => Fault::FailFrom { target: Target::Space, nth },
            Kind::Poison => Fault::Poison { offset: self.at },
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.at)
    }
}

/// What came of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The operation did all it should, and said so.
    Absorbed,
    /// It said how much of a write it had space for.
    Short,
    /// It failed and has done nothing.
    Undone,
    /// It failed, and all or a part of what it should is done.
    Partly,
    /// It succeeded; the next sync said that data was lost.
    Reported,
    /// The design refuses changes until it is mounted again.
    Stopped,
    /// A mount failed, and the next one did not.
    MountedLater,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Absorbed,
        Self::Short,
        Self::Undone,
        Self::Partly,
        Self::Reported,
        Self::Stopped,
        Self::MountedLater,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Absorbed => "absorbed",
            Self::Short => "short",
            Self::Undone => "undone",
            Self::Partly => "partly",
            Self::Reported => "reported",
            Self::Stopped => "stopped",
            Self::MountedLater => "mounted later",
        }
    }
}

/// What was done and found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Programs whose operations were made to fail.
    pub programs: usize,
    /// Programs that need more space than the region has.
    pub without_space: usize,
    /// Failures that happened.
    pub injected: BTreeMap<Kind, usize>,
    /// What came of them.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// What was wrong.
    pub violations: Vec<Violation>,
}

impl Tally {
    /// All failures together.
    pub fn failures(&self) -> usize {
        self.injected.values().sum()
    }

    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.programs += other.programs;
        self.without_space += other.without_space;
        for (kind, count) in other.injected {
            *self.injected.entry(kind).or_default() += count;
        }
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.violations.extend(other.violations);
    }

    fn note(&mut self, program: &str, failure: Failure, came: Result<Outcome, String>) {
        *self.injected.entry(failure.kind).or_default() += 1;
        match came {
            Ok(outcome) => *self.outcomes.entry(outcome).or_default() += 1,
            Err(what) => self.violations.push(violation(program, format!("{failure}: {what}"))),
        }
    }
}

fn violation(program: &str, what: String) -> Violation {
    Violation { program: program.to_owned(), what }
}
