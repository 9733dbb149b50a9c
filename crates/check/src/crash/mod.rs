//! Crashes everywhere: records a program, visits its crash points, recovers images of what may have persisted, and judges the
//! result by the design's promises. `docs/models/crash.md` describes the model.
//!
//! | module | holds |
//! |---|---|
//! | `record` | a program and what happened while it ran; what the model says after each operation |
//! | `history` | earlier contents of files, for designs that buffer data |
//! | `allowed` | which states a crash may leave at one point, by the design's [`Promises`] |
//! | `repaired` | the same where a crash may leave an image that has to be repaired |
//! | `explore` | [`explore`]: all crash points of one program, their images, their verdicts |
//! | `together` | two operations at once, each by a task of its own |
//! | `afterwards` | what a recovered file system must still be able to do |
//! | `recovery` | [`crash_recovery`]: crashes of a recovery; recovering twice |
//! | `lints` | [`lints`]: what is wrong without any crash |
//! | [`programs`] | one program for each operation and shape; random ones |
//! | `family` | [`Family`]: programs by number, each alone, several one after the other, random ones |
//! | `many` | [`explore_many`]: programs in parallel, within limits |
//!
//! An image passes when it mounts without reading bytes that no fence guaranteed, shows an allowed tree, unmounts, passes fsck,
//! and shows the same tree when it is mounted again; and when every object can be used and removed, all blocks are free then, and
//! fsck passes once more.

pub(crate) mod afterwards;
pub(crate) mod allowed;
mod explore;
mod family;
mod history;
mod lints;
pub(crate) mod many;
pub mod programs;
pub(crate) mod record;
mod recovery;
mod repaired;
mod together;

use std::sync::Arc;
use std::time::Duration;

use media::recorder::{Mode, Plan};
use sim::{Bytes, Seed};
use vfs::{Durability, Promises};

use crate::configured::Configured;
pub use explore::explore;
pub use family::Family;
pub use lints::lints;
pub use many::{Watch, explore_many};
pub use programs::Program;
pub use recovery::crash_recovery;
pub(crate) use recovery::crash_recovery_with;

/// A design under test, and what to expect of it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The design.
    pub design: Arc<Configured>,
    /// Size of the region.
    pub size: Bytes,
    /// What it promises.
    pub promises: Promises,
    /// What survives a crash.
    pub mode: Mode,
}

impl Subject {
    /// The same as a program may expect it that stores by mappings: until they are synced, a crash may leave any mix of old and new
    /// words, whatever the design promises of writes; unless it promises that a sync of theirs is atomic.
    fn with_stores_of(&self, program: &Program) -> Self {
        let mut subject = self.clone();
        if program.stores() && !self.promises.buffers_data() {
            subject.promises.data = Durability::OnSync;
            subject.promises.truncate_syncs = false;
        }
        subject
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} on {}, {:?}", self.design.name(), self.design.arguments(), self.size, self.mode)
    }
}

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Choices of what persists.
    pub plan: Plan,
    /// Images of each program whose recovery is crashed, too.
    pub nested: usize,
    /// Crashes right after each commit store, too. A crash before the next fence can leave the same images; where that point has
    /// too many choices to try all, this one tries more of them.
    pub after_commits: bool,
    /// The exploration of a program ends after this many violations.
    pub violations_max: usize,
}

impl Effort {
    /// All choices of up to 512; beyond, the single units, pairs and draws of `docs/models/crash.md`.
    pub fn usual(seed: u64, nested: usize) -> Self {
        Self {
            plan: Plan { seed: Seed(seed), ..Plan::default() },
            nested,
            after_commits: false,
            violations_max: 5,
        }
    }
}

/// What was done and found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Programs explored.
    pub programs: usize,
    /// Programs that need more space than the region has, and were not explored.
    pub without_space: usize,
    /// Moments at which a crash was tried.
    pub points: usize,
    /// Choices of what persisted.
    pub images: usize,
    /// Images that differ in their bytes or in what is allowed: those that were recovered and judged.
    pub distinct_images: usize,
    /// Trees that recovery led to, counted for each program.
    pub distinct_states: usize,
    /// Images of crashes of a recovery.
    pub nested_images: usize,
    /// All choices that there are.
    pub combinations: u128,
    /// CPU time, of all threads together.
    pub cpu: Duration,
    /// What was wrong.
    pub violations: Vec<Violation>,
}

/// What was wrong with a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The program's name.
    pub program: String,
    /// Where it was crashed, what was wrong then, and which lines had persisted.
    pub what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.program, self.what)
    }
}

impl Tally {
    /// The tally of a program that could not be explored.
    fn failed(program: &str, what: String) -> Self {
        let violations = vec![Violation { program: program.to_owned(), what }];
        Self { programs: 1, violations, ..Self::default() }
    }

    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.programs += other.programs;
        self.without_space += other.without_space;
        self.points += other.points;
        self.images += other.images;
        self.distinct_images += other.distinct_images;
        self.distinct_states += other.distinct_states;
        self.nested_images += other.nested_images;
        self.combinations = self.combinations.saturating_add(other.combinations);
        self.cpu += other.cpu;
        self.violations.extend(other.violations);
    }

    /// Distinct images, those of recoveries included, that were recovered and judged in a second of one core.
    pub fn images_per_core_second(&self) -> f64 {
        let seconds = self.cpu.as_secs_f64();
        if seconds > 0.0 { (self.distinct_images + self.nested_images) as f64 / seconds } else { 0.0 }
    }
}
