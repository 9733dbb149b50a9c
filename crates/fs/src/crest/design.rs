//! Crest in the table of designs.

use std::sync::Arc;

use ::vfs::{FileSystem, Promises};
use design::{Checking, Design, Format, FsError, Given, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use sim::{Bytes, LockClass};

use super::ablation::Without;
use super::format::CrestFormat;
use super::mutant::{self, Rules};
use super::recovery;
use super::sharing::Sharing;
use super::vfs::Mounted;

/// Crest.
pub(crate) struct CrestDesign;

pub(super) const NAME: &str = "crest";

static FORMAT: CrestFormat = CrestFormat;

/// Options of mkfs and mount.
const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "shards",
        kind: OptionKind::Count,
        default: "0",
        when: Phase::Mkfs,
        help: "shards, each with a log and a data zone of its own: 1 to a sixteenth of the zones; 0: as many, and 64 at most",
    },
    OptionSpec {
        name: "without",
        kind: OptionKind::Choice(Without::WORDS),
        default: "nothing",
        when: Phase::Mount,
        help: "leave a part out, to measure what it is worth: appends in place, the seal as the only end of the log, paths",
    },
    OptionSpec {
        name: "granules",
        kind: OptionKind::Flag,
        default: "true",
        when: Phase::Mount,
        help: "whether tasks that overwrite parts of one file lock granules of 64 KiB of it; false: one lock for a file",
    },
    OptionSpec {
        name: "buckets",
        kind: OptionKind::Flag,
        default: "true",
        when: Phase::Mount,
        help: "whether tasks that change names of one directory lock buckets of names; false: one lock for a directory",
    },
    OptionSpec {
        name: "shared-after",
        kind: OptionKind::Count,
        default: "8",
        when: Phase::Mount,
        help: "changes that came from another core than the one before, until granules or buckets are locked; 0: always",
    },
];

/// Two shards: zones fill up and are left in short programs. Files and directories are shared from the beginning.
const SMALL: Given = &[("shards", "2"), ("shared-after", "0")];

/// Which files and directories tasks share.
fn sharing(options: &Options) -> Sharing {
    Sharing {
        granules: options.flag("granules"),
        buckets: options.flag("buckets"),
        after: options.number("shared-after").try_into().unwrap_or(u32::MAX),
        ..Sharing::NONE
    }
}

/// The rules that an instance with these options keeps.
fn rules(options: &Options) -> Rules {
    options.mutant().map_or(Rules::ALL, Rules::without)
}

impl Design for CrestDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "one self-certifying record and one fence for each call; indexes in DRAM"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &FORMAT
    }

    fn dram(&self, _: &Options, _: Bytes) -> Bytes {
        Bytes(0)
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        super::CLASSES.to_vec()
    }

    fn promises(&self, _: &Options) -> Promises {
        Promises::STRICT
    }

    fn checking(&self) -> Checking {
        Checking {
            small: SMALL,
            tiny: SMALL,
            crash_every: 4,
            fail_every: 2,
            mount_reads_all: true,
            ..Checking::default()
        }
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutant::MOUNTED
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let without = Without::of(options.choice("without"));
        let (volume, _) = recovery::mount(storage.memory()?, rules(options), sharing(options), without)?;
        Ok(Arc::new(Mounted(volume)))
    }
}
