//! Failures everywhere: lets each access of an operation fail in turn, until a run has no such access left. Judges the answer of
//! the operation, the tree after it, and whether the file system can still be used.
//!
//! | [`Kind`] | fails |
//! |---|---|
//! | `load`, `store` | the nth access of the medium, once |
//! | `loads`, `stores` | that one and all after it, until the operation has answered |
//! | `flush` | the nth flush of a block device, once |
//! | `flushes` | that one and all after it, until the operation has answered |
//! | `space` | the nth block or inode that an allocator is about to give out |
//! | `spaces` | that one and all after it |
//! | `torn` | the nth write to a block device, after its first logical block |
//! | `poison` | the loads of one line, of those that the operation reads, until it is written as a whole |
//!
//! Allocation of DRAM never fails here: a Rust program aborts when it does.
//!
//! | module | holds |
//! |---|---|
//! | `attempt` | an operation with one failure in it: run, judged, used, mounted again |
//! | `operations` | [`fail_operations`]: all failures of the last operation of a program, or of the minute after it |
//! | `recovery` | failures of the mount after a crash |
//! | `reading` | poisoned lines under programs that only read |
//! | `many` | [`fail_many`]: programs side by side; [`fail_range`]: a part of them |
//!
//! # What is allowed
//!
//! An operation succeeds and has done everything; or it answers `EIO` (`ENOSPC` where space was refused) and has done nothing, or
//! the part that the design's promises allow after a crash inside it. A write that finds too little space has written what it
//! reports.
//!
//! Afterwards the file system works: the tree stays the same over sync, unmount, fsck and mount; no block is lost; everything can
//! be used and removed. Or it has *stopped*, because it cannot undo what failed: it refuses every change and every sync (`EIO` or
//! `EROFS`) until the next mount, still shows the files that the operation did not touch, and leaves an image from which the next
//! mount shows an allowed tree.
//!
//! A design that buffers data reports data that it cannot write at the next sync. After that failure the file holds what its
//! promises allow after a crash, and a later sync that succeeds has made the file durable.

mod attempt;
mod many;
mod operations;
mod reading;
mod recovery;

use std::collections::BTreeMap;

use media::fault::{Fault, Target};

use crate::crash::Violation;
pub use many::{fail_many, fail_range};
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
    Flush,
    Flushes,
    Space,
    Spaces,
    Torn,
    Poison,
}

impl Kind {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Load,
        Self::Loads,
        Self::Store,
        Self::Stores,
        Self::Flush,
        Self::Flushes,
        Self::Space,
        Self::Spaces,
        Self::Torn,
        Self::Poison,
    ];

    /// All that are counted from the first access on: every kind but a line that is unreadable.
    fn counted() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| *kind != Self::Poison)
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Loads => "loads",
            Self::Store => "store",
            Self::Stores => "stores",
            Self::Flush => "flush",
            Self::Flushes => "flushes",
            Self::Space => "space",
            Self::Spaces => "spaces",
            Self::Torn => "torn",
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
            Kind::Flush => Fault::FailNth { target: Target::DeviceFlush, nth },
            Kind::Flushes => Fault::FailFrom { target: Target::DeviceFlush, nth },
            Kind::Space => Fault::FailNth { target: Target::Space, nth },
            Kind::Spaces => Fault::FailFrom { target: Target::Space, nth },
            Kind::Torn => Fault::TearNth { nth, blocks: 1 },
            Kind::Poison => Fault::Poison { offset: self.at },
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.at)
    }
}

/// The outcome of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The operation succeeded and did everything.
    Absorbed,
    /// A write succeeded in part, for lack of space.
    Short,
    /// It failed and did nothing.
    Undone,
    /// It failed and did a part, or everything.
    Partly,
    /// It succeeded; the next sync reported that data was lost.
    Reported,
    /// The design refuses changes until it is mounted again.
    Stopped,
    /// A mount failed, and the next one succeeded.
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
    /// Their outcomes.
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
