//! A job with the values of all its options. [`super::read`] makes it from the settings of a section.

use std::sync::Arc;

use sim::Nanos;

use super::distribution::Distribution;
use super::limits::{Limits, Target};
use super::log::Log;
use super::steady::Steady;
use super::value::{Amount, Piece};
use super::verify::Verify;

/// The directions of I/O, as arrays of three are indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Read,
    Write,
    Trim,
}

impl Direction {
    pub(super) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Trim];
}

/// `rw`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) random: bool,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) trims: bool,
    /// Random: I/Os for each random offset. Sequential: bytes that are skipped after each, backwards if negative.
    pub(super) modifier: i64,
}

/// `zonemode=strided`: `size` bytes of I/O in each `range`, behind which `skip` bytes are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zones {
    pub(super) size: u64,
    pub(super) range: u64,
    pub(super) skip: u64,
}

/// What an engine of fio is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// `lseek` and `read` or `write`.
    Sync,
    /// Loads, stores and `msync` of a mapping of the whole file.
    Mapped,
    /// `pread` and `pwrite`; its name at fio, where that does more.
    Positioned(&'static str),
    /// As many tasks as `iodepth`, each with `pread` and `pwrite`. With `spread`, each on a core of its own.
    Tasks { name: &'static str, spread: bool },
}

impl Default for Engine {
    fn default() -> Self {
        Self::Positioned("psync")
    }
}

/// Sizes of the I/Os of one direction.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sizes {
    Fixed(u64),
    /// Multiples of the first up to the second.
    Range(u64, u64),
    /// With percentages.
    Split(Vec<(u64, f64)>),
}

impl Default for Sizes {
    fn default() -> Self {
        Self::Fixed(4096)
    }
}

impl Sizes {
    pub(super) fn min(&self) -> u64 {
        match self {
            Self::Fixed(size) | Self::Range(size, _) => *size,
            Self::Split(sizes) => sizes.iter().map(|(size, _)| *size).min().unwrap_or(1),
        }
    }

    pub(super) fn max(&self) -> u64 {
        match self {
            Self::Fixed(size) | Self::Range(_, size) => *size,
            Self::Split(sizes) => sizes.iter().map(|(size, _)| *size).max().unwrap_or(1),
        }
    }
}

/// How space is reserved before writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fallocate {
    #[default]
    None,
    /// Where the design can.
    Native,
    Posix,
    Keep,
    Truncate,
}

/// How writes become durable by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sync {
    #[default]
    None,
    All,
    Data,
}

/// Which file is next, and after how many I/Os another is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    RoundRobin(u64),
    Random(u64),
    Sequential(u64),
}

impl Default for Service {
    fn default() -> Self {
        Self::RoundRobin(1)
    }
}

/// What a write writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Fill {
    #[default]
    Zero,
    Random {
        refill: bool,
        scramble: bool,
    },
    Pattern(Vec<Piece>),
}

/// A limit on the rate of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rate {
    Bytes(u64),
    Ios(u64),
}

/// `rate`, `rate_iops`, `rate_process`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pace {
    pub(super) rates: [Option<Rate>; 3],
    pub(super) poisson: bool,
    /// Whether the schedule stands still while the job thinks.
    pub(super) ignores_thinking: bool,
}

/// `thinktime` and its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thinking {
    pub(super) time: Nanos,
    pub(super) blocks: u64,
    pub(super) after: Option<Nanos>,
}

/// How the results of reads and writes are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Unified {
    #[default]
    None,
    Mixed,
    Both,
}

/// A job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobSpec {
    pub(super) name: String,
    pub(super) line: usize,
    // what
    pub(super) mode: Mode,
    pub(super) identical: bool,
    pub(super) reads_percent: u32,
    pub(super) sizes: [Sizes; 3],
    pub(super) unaligned: bool,
    pub(super) sequential_or_random: bool,
    pub(super) align: [u64; 3],
    pub(super) distribution: [Distribution; 3],
    pub(super) random_percent: [u32; 3],
    pub(super) map: bool,
    pub(super) zones: Option<Zones>,
    pub(super) engine: Engine,
    pub(super) depth: u64,
    pub(super) serialize: bool,
    pub(super) direct: bool,
    pub(super) sync: Sync,
    pub(super) fsync: u64,
    pub(super) fdatasync: u64,
    pub(super) end_fsync: bool,
    pub(super) fsync_on_close: bool,
    pub(super) pace: Pace,
    pub(super) limits: Limits,
    /// What is replayed, instead of what the options above say.
    pub(super) log: Option<Arc<Log>>,
    pub(super) target: Option<Target>,
    pub(super) steady: Option<Steady>,
    pub(super) thinking: Option<Thinking>,
    // files
    pub(super) directory: String,
    pub(super) names: Vec<String>,
    pub(super) format: String,
    pub(super) files: u64,
    pub(super) service: Service,
    pub(super) size: Option<Amount>,
    pub(super) io_size: Option<Amount>,
    pub(super) file_size: Option<(u64, u64)>,
    pub(super) offset: Amount,
    pub(super) offset_increment: Amount,
    pub(super) offset_align: u64,
    pub(super) fallocate: Fallocate,
    pub(super) create_on_open: bool,
    pub(super) create_fsync: bool,
    pub(super) pre_read: bool,
    pub(super) unlink: bool,
    pub(super) unlink_each_loop: bool,
    pub(super) overwrite: bool,
    // how long, and beside whom
    pub(super) loops: u64,
    pub(super) jobs: u64,
    pub(super) runtime: Option<Nanos>,
    pub(super) time_based: bool,
    pub(super) delay: (Nanos, Nanos),
    pub(super) ramp: Nanos,
    pub(super) number_ios: Option<u64>,
    pub(super) stonewall: bool,
    pub(super) wait_for: Option<String>,
    pub(super) grouped: bool,
    pub(super) new_group: bool,
    pub(super) exit_all: bool,
    pub(super) shares_process: bool,
    pub(super) cores: Vec<u16>,
    // randomness
    pub(super) rand_repeat: bool,
    pub(super) all_rand_repeat: bool,
    pub(super) rand_seed: Option<u64>,
    // contents
    pub(super) fill: Fill,
    pub(super) verify: Option<Verify>,
    // output
    pub(super) unified: Unified,
    pub(super) percentiles: Vec<f64>,
    /// Whether reads may find what the page cache has.
    pub(super) keeps_cache: bool,
}

impl JobSpec {
    /// Whether I/Os of that direction are part of it.
    pub(super) fn does(&self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.mode.reads,
            Direction::Write => self.mode.writes,
            Direction::Trim => self.mode.trims,
        }
    }

    /// Tasks of each clone.
    pub(super) fn tasks(&self) -> u64 {
        if let Engine::Tasks { .. } = self.engine { self.depth } else { 1 }
    }

    /// The sizes of an I/O of that direction, at a random offset or at the next one. With `bs_is_seq_rand` those of reads are
    /// for sequential I/O and those of writes for random I/O, whatever the direction.
    pub(super) fn sizes_of(&self, direction: Direction, random: bool) -> &Sizes {
        let at = if self.sequential_or_random { usize::from(random) } else { direction as usize };
        &self.sizes[at]
    }

    /// The sizes that its I/Os may have.
    pub(super) fn used_sizes(&self) -> impl Iterator<Item = &Sizes> {
        let directions = Direction::ALL.into_iter().filter(|direction| self.does(*direction));
        let random: &[bool] = if self.mode.random { &[false, true] } else { &[false] };
        directions
            .flat_map(move |direction| random.iter().map(move |random| self.sizes_of(direction, *random)))
    }

    /// The smallest block of any direction, also of those that it does not do: fio rounds percentages to it.
    pub(super) fn smallest(&self) -> u64 {
        self.sizes.iter().map(Sizes::min).min().unwrap_or(1)
    }

    /// The least size of an I/O.
    pub(super) fn min_size(&self) -> u64 {
        self.used_sizes().map(Sizes::min).min().unwrap_or(1)
    }

    /// The greatest size of an I/O.
    pub(super) fn max_size(&self) -> u64 {
        self.used_sizes().map(Sizes::max).max().unwrap_or(1)
    }
}
