//! A design as the rest of Weir sees it: name, needs, options, and how to make, mount and check it.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use media::block::MemoryDevice;
use media::{Region, Storage};
use sim::{Bytes, Count, LockClass, PAGE_BYTES};
use vfs::{FileSystem, Promises};

use crate::mutant::Mutant;
use crate::options::{OptionError, OptionSpec, Options};

/// A file-system design. One static value each, listed in [`crate::FILE_SYSTEMS`].
pub trait FsType: Sync {
    /// The name on the command line.
    fn name(&self) -> &'static str;

    /// One line: what it is and where it was published.
    fn summary(&self) -> &'static str;

    /// Its options for mkfs and mount.
    fn options(&self) -> &'static [OptionSpec];

    /// What a word after `-o` asks for that is none of its options: of a design with a driver in the kernel, the options of that
    /// driver.
    fn mount_word(&self, _key: &str, _value: Option<&str>) -> MountWord {
        MountWord::Unknown
    }

    /// What it is made on with these options.
    fn needs(&self, _options: &Options) -> Needs {
        Needs::Memory
    }

    /// The classes of locks and cache lines for which calls and tasks of a mounted file system may wait.
    fn classes(&self) -> Vec<&'static LockClass>;

    /// What it promises of a crash when it is mounted with these options.
    fn promises(&self, options: &Options) -> Promises;

    /// How checks make and mount it, so that its limits are near.
    fn checking(&self) -> Checking {
        Checking::default()
    }

    /// The smallest storage that mkfs accepts with these options.
    fn min_size(&self, options: &Options) -> Bytes;

    /// Bytes of the storage for each inode, where making the file system fixes their number; 0: inodes come from free space.
    fn bytes_per_inode(&self, _options: &Options) -> u64 {
        0
    }

    /// The storage that files and their metadata of so many bytes fill with these options: more where each byte has a second
    /// place.
    fn size_for(&self, files: Bytes, _options: &Options) -> Bytes {
        files
    }

    /// Host memory that a mounted file system takes with these options, beside its storage of `size`: its buffers and caches of
    /// data, at most.
    fn dram(&self, _options: &Options, _size: Bytes) -> Bytes {
        Bytes(0)
    }

    /// The UUID of the journal that an image keeps on another device, which then is the memory beside the block device.
    fn outside_journal(&self, _: &Storage) -> Option<[u8; 16]> {
        None
    }

    /// The size of such a journal for an image of `size` bytes; none where the design makes none.
    fn outside_journal_size(&self, _options: &Options, _size: Bytes) -> Option<Bytes> {
        None
    }

    /// Makes an empty file system.
    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError>;

    /// Mounts, after recovery where it is needed. Background tasks start in the current run.
    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError>;

    /// Whether the storage holds this design's format.
    fn recognises(&self, storage: &Storage) -> bool;

    /// Brings an image that was not unmounted to the state in which mounting would use it; says what was done. Give it a
    /// private mapping when the image itself must not change.
    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError>;

    /// The part of the recovery that repairs nothing: what a check does before it looks, so that it reports what is wrong with the
    /// image itself.
    fn replay(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        self.recover(storage)
    }

    /// Checks every invariant of the format without changing anything. An image that was not unmounted must have been
    /// recovered; one that was not is reported as such, and not checked further.
    fn fsck(&self, storage: &Storage) -> FsckReport;

    /// Repairs what [`FsType::fsck`] found in an image that was recovered, or could not be, as far as that can be done without
    /// giving up what can still be read; says what was done. Call it in a run: files are given names.
    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError>;

    /// Grows an unmounted file system to the size of its storage, which was made larger; returns the size before. Nothing changes
    /// where it has that size already. A crash leaves it with one size or the other. Call it in a run, as a mount.
    fn grow(&self, storage: &Storage) -> Result<Bytes, FsError>;

    /// Whether it asks for the host's space before it stores to a block ([`Region::back`]), so that its pool may have holes.
    fn may_have_holes(&self) -> bool;

    /// The bytes of an image that only serve to undo or redo other stores after a crash.
    ///
    /// # Errors
    /// [`FsError::NoJournal`] where no such bytes can be told apart.
    fn journal(&self, storage: &Storage) -> Result<Vec<Range<u64>>, FsError>;

    /// What it counts in results, beside what its medium counts.
    fn counts(&self) -> &'static [&'static Count] {
        &[]
    }

    /// The bugs that can be seeded in it ([`Options::with_mutant`]), for checks that must find them.
    fn mutants(&self) -> &'static [Mutant] {
        &[]
    }

    /// Describes a part of the image for people: `superblock`, `journal`, `inode N`, `dir N`; see [`FsType::dump_parts`].
    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn io::Write) -> Result<(), FsError>;

    /// The parts that [`FsType::dump`] knows, with what they show.
    fn dump_parts(&self) -> &'static [(&'static str, &'static str)];
}

/// What a design is made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A region of byte-addressable memory.
    Memory,
    /// A block device.
    Block,
    /// Both: data in memory, metadata or a journal on a block device, or the other way round.
    Both,
}

impl Needs {
    /// Whether storage will do that has a block device with memory beside it, or memory alone. A design for block devices takes
    /// memory as well, through a RAM disk (NVMMBD, EuroSys 2016, section 5.1).
    pub fn fit(self, has_block: bool) -> bool {
        match self {
            Self::Memory => !has_block,
            Self::Block => true,
            Self::Both => has_block,
        }
    }

    /// The region from which [`Needs::on`] makes storage whose parts have this size at least.
    pub fn least(self, each: Bytes) -> Bytes {
        match self {
            Self::Memory | Self::Block => each,
            Self::Both => Bytes(each.0.next_multiple_of(PAGE_BYTES as u64) * 2),
        }
    }

    /// Storage on a region, whose taps hear the requests of the block device and whose faults strike them: what checks make a
    /// design on. Where both are needed, the first half of the region is the block device, the second one the memory.
    pub fn on(self, region: &Arc<Region>) -> Storage {
        match self {
            Self::Memory => Storage::from(region),
            Self::Block => Storage::of_block(MemoryDevice::exposed(Arc::clone(region))),
            Self::Both => {
                let half = region.len() / 2 / PAGE_BYTES as u64 * PAGE_BYTES as u64;
                let device = MemoryDevice::exposed_start(Arc::clone(region), Bytes(half));
                let memory = Region::part(region, half..half * 2);
                // A region of less than two pages has no halves: the design says that it is too small.
                let storage =
                    memory.map_or_else(|_| Storage::from(region), |memory| Storage::of_memory(memory.into()));
                storage.with_block(device)
            }
        }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Block => "a block device",
            Self::Both => "memory and a block device",
        })
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
}

impl Default for Checking {
    fn default() -> Self {
        Self { small: &[], tiny: &[], variants: &[], formats: &[], crash_every: 1, fail_every: 1 }
    }
}

impl fmt::Debug for dyn FsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a word after `-o` asks for ([`FsType::mount_word`]).
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

/// Why a file system could not be made, mounted or dumped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// The region cannot hold the format.
    #[error("{design} needs at least {needed}; the region has {size}: give --size {needed} or more")]
    TooSmall {
        /// The design.
        design: &'static str,
        /// Smallest size.
        needed: Bytes,
        /// Size of the region.
        size: Bytes,
    },
    /// The format cannot fill the region.
    #[error("{design} images have at most {most}; the region has {size}: give a smaller size")]
    TooLarge {
        /// The design.
        design: &'static str,
        /// Largest size.
        most: Bytes,
        /// Size of the region.
        size: Bytes,
    },
    /// The image was made by later code.
    #[error(
        "{design} image of format version {found}: this weir reads versions up to {known}; the image was not changed"
    )]
    NewerFormat {
        /// The design.
        design: &'static str,
        /// The version of the image.
        found: u32,
        /// The latest version that can be read.
        known: u32,
    },
    /// The image is not of this design.
    #[error("not a {design} image: {found}")]
    WrongFormat {
        /// The design asked for.
        design: &'static str,
        /// What was found instead, and what to do.
        found: String,
    },
    /// The image is sound, and uses something that the design does not have.
    #[error("{what}")]
    Unsupported {
        /// What the image uses, and what to do.
        what: String,
    },
    /// The design cannot make a file system larger.
    #[error("{design} cannot be resized: {advice}")]
    NoGrowth {
        /// The design.
        design: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// The design has no bytes that only serve to undo or redo stores.
    #[error("{design} has no journal that could be left out: {why}")]
    NoJournal {
        /// The design.
        design: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// The image is damaged beyond what mounting may repair.
    #[error("{design} image is damaged: {what}; look with `weir fsck`")]
    Damaged {
        /// The design.
        design: &'static str,
        /// What is wrong and where.
        what: String,
    },
    /// There is no device for a journal of its own.
    #[error(
        "external_journal=true needs memory beside a block device: name it in a plan, or `weir mkfs ext4 IMAGE --journal FILE`"
    )]
    NoJournalDevice,
    /// An option is wrong.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The medium failed.
    #[error(transparent)]
    Media(#[from] media::MediaError),
    /// A dump was asked for a part that does not exist.
    #[error("there is no {part} to dump: {why}")]
    NoSuchPart {
        /// What was asked for.
        part: String,
        /// What there is.
        why: String,
    },
    /// Writing a dump failed.
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl FsError {
    /// The same, told of a design that is built on the one that found it.
    #[must_use]
    pub(crate) fn of(self, design: &'static str) -> Self {
        match self {
            Self::WrongFormat { found, .. } => Self::WrongFormat { design, found },
            Self::Damaged { what, .. } => Self::Damaged { design, what },
            Self::NewerFormat { found, known, .. } => Self::NewerFormat { design, found, known },
            other => other,
        }
    }
}

/// What fsck found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsckReport {
    /// Violations; empty: the image is clean.
    pub violations: Vec<Violation>,
    /// Facts worth telling that are no violations: "primary superblock bad, copy used", "unclean: journal has 3 transactions".
    pub notes: Vec<String>,
    /// How many objects of each kind were checked.
    pub checked: Vec<(&'static str, u64)>,
}

impl FsckReport {
    /// Notes that an invariant does not hold.
    pub(crate) fn violate(&mut self, predicate: &'static str, what: impl Into<String>) {
        self.violations.push(Violation { predicate, what: what.into() });
    }

    /// Nothing could be checked, for this reason.
    pub(crate) fn unchecked(why: String) -> Self {
        Self { notes: vec![why], ..Self::default() }
    }
}

/// One violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the predicate, as in `size_covers_blocks`.
    pub predicate: &'static str,
    /// What is wrong and where.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (predicate {})", self.what, self.predicate)
    }
}
