//! A design: a name, options, and a way to mount a format.

use std::fmt;
use std::sync::Arc;

use media::Storage;
use sim::{Bytes, Count, LockClass};
use vfs::{FileSystem, Promises};

use crate::error::FsError;
use crate::format::Format;
use crate::mutant::Mutant;
use crate::options::{OptionSpec, Options};

/// A file-system design: one static value each, in the table of the crate that has the designs.
pub trait Design: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One line: what it is and where it was published.
    fn summary(&self) -> &'static str;

    /// Its options for mkfs and mount, those of its format among them.
    fn options(&self) -> &'static [OptionSpec];

    /// The format that it mounts.
    fn format(&self) -> &dyn Format;

    /// Why it has no image that could be made, mounted again, checked or crashed, in a sentence; none where it has one, as all
    /// designs with a format do.
    fn without_image(&self) -> Option<&'static str> {
        None
    }

    /// By which part the private work of an operation varies in measurements with these options
    /// ([`sim::Setup::work_jitter_per_mille`]).
    fn work_jitter(&self, _options: &Options) -> f64 {
        0.0
    }

    /// What a word after `-o` asks for that is none of its options: of a design with a driver in the kernel, the options of that
    /// driver.
    fn mount_word(&self, _key: &str, _value: Option<&str>) -> MountWord {
        MountWord::Unknown
    }

    /// Mounts, after recovery where it is needed. Background tasks start in the current run.
    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError>;

    /// Host memory that a mounted file system takes with these options, beside its storage of `size`: its buffers and caches of
    /// data, at most.
    fn dram(&self, options: &Options, size: Bytes) -> Bytes;

    /// The classes of locks and cache lines for which calls and tasks of a mounted file system may wait.
    fn classes(&self) -> Vec<&'static LockClass>;

    /// What it promises of a crash when it is mounted with these options.
    fn promises(&self, options: &Options) -> Promises;

    /// How checks make and mount it, so that its limits are near.
    fn checking(&self) -> Checking;

    /// The bugs that can be seeded in it ([`Options::with_mutant`]), for checks that must find them.
    fn mutants(&self) -> &'static [Mutant];

    /// What it counts in results, beside what its medium counts.
    fn counts(&self) -> &'static [&'static Count] {
        &[]
    }
}

impl fmt::Debug for dyn Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Options by name and value.
pub type Given = &'static [(&'static str, &'static str)];

/// How checks make and mount a design. Options that the user of a check gives come before these.
#[derive(Clone, Copy, Debug)]
pub struct Checking {
    /// Options that make it small, so that small programs reach its limits.
    pub small: Given,
    /// The same for tasks that work at once: smaller still, and background work at every moment.
    pub tiny: Given,
    /// Beside the usual mount, the options of mounts that promise something else.
    pub variants: &'static [Given],
    /// Options of mkfs that make another format, whose answers are compared as well.
    pub formats: &'static [Given],
    /// `weir check crash` takes every program; the tests of this repository take one of so many. More than 1 where a program
    /// takes long, or where a similar design's tests cover most of it.
    pub crash_every: usize,
    /// The same for `weir check faults`.
    pub fail_every: usize,
    /// Whether a mount reads the whole image and refuses what is damaged, so that fsck finds nothing in what a mount takes.
    pub mount_reads_all: bool,
    /// Whether files can share blocks: random operations then share some.
    pub clones: bool,
}

impl Default for Checking {
    fn default() -> Self {
        Self {
            small: &[],
            tiny: &[],
            variants: &[],
            formats: &[],
            crash_every: 1,
            fail_every: 1,
            mount_reads_all: false,
            clones: false,
        }
    }
}

/// What a word after `-o` asks for ([`Design::mount_word`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountWord {
    /// An option of the design with this value.
    Own(&'static str, String),
    /// What is so anyway, or has no effect.
    Ignored,
    /// What the design does not do, and what to do instead.
    Refused(&'static str),
    /// No word of the kernel's driver.
    Unknown,
}
