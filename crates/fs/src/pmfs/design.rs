//! PMFS in the table of designs.

use std::sync::Arc;

use design::{Checking, Design, Format, FsError, Given, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use sim::{Bytes, LockClass};
use vfs::{Atomicity, FileSystem, Promises};

use super::file::Clears;
use super::format::{JOURNAL_USUAL, PmfsFormat};
use super::vfs::Mounted;
use super::{Settings, Volume, mutant};

/// PMFS.
pub(crate) struct PmfsDesign;

const NAME: &str = "pmfs";

static FORMAT: PmfsFormat = PmfsFormat { design: NAME, usual_journal: |_, _| JOURNAL_USUAL };

/// Options of mkfs and mount, shared with the designs that use this format.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "jsize",
        kind: OptionKind::Size,
        default: "0",
        when: Phase::Mkfs,
        help: "size of the journal, a power of two of at least 64 KiB; 0: 4 MiB, or more for a write buffer",
    },
    OptionSpec {
        name: "num_inodes",
        kind: OptionKind::Count,
        default: "0",
        when: Phase::Mkfs,
        help: "initial size of the inode table in inodes; the table grows as needed",
    },
    OptionSpec {
        name: "dir_index",
        kind: OptionKind::Flag,
        default: "true",
        when: Phase::Mount,
        help: "index directories in DRAM; false searches them linearly, as the paper's PMFS does",
    },
    OptionSpec {
        name: "block_size",
        kind: OptionKind::Choice(&["4k", "2M", "1G"]),
        default: "4k",
        when: Phase::Mount,
        help: "data block size of new files",
    },
    OptionSpec {
        name: "clear_blocks",
        kind: OptionKind::Choice(&["whole", "uncovered"]),
        default: "whole",
        when: Phase::Mount,
        help: "of a new block that a write fills in part, clear the whole, or only what the write does not cover",
    },
];

/// Metadata is atomic by the journal; data is written in place and durable on return, as is the time of modification, whose
/// fraction lies in another word than its seconds (section 3.2 of the paper).
pub(crate) const PROMISES: Promises =
    Promises { write: Atomicity::Words, times_may_tear: true, ..Promises::STRICT };

/// A small journal, which small programs fill.
const SMALL: Given = &[("jsize", "64k")];

impl Settings {
    pub(crate) fn from_options(options: &Options) -> Self {
        let block_type = match options.choice("block_size") {
            "1G" => 2,
            "2M" => 1,
            _ => 0,
        };
        let clears =
            if options.choice("clear_blocks") == "whole" { Clears::Whole } else { Clears::Uncovered };
        Self { dir_index: options.flag("dir_index"), block_type, clears, mutant: options.mutant() }
    }
}

impl Design for PmfsDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "direct access to persistent memory, undo journal (EuroSys 2014)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &FORMAT
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let volume = Volume::mount(storage.memory()?, Settings::from_options(options))?;
        Ok(Arc::new(Mounted(Arc::new(volume))))
    }

    fn dram(&self, _: &Options, _: Bytes) -> Bytes {
        Bytes(0)
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        super::CLASSES.to_vec()
    }

    fn promises(&self, _: &Options) -> Promises {
        PROMISES
    }

    fn checking(&self) -> Checking {
        const OTHERS: &[Given] = &[&[("dir_index", "false")], &[("block_size", "2M")]];
        Checking { small: SMALL, tiny: SMALL, formats: OTHERS, ..Checking::default() }
    }

    fn mutants(&self) -> &'static [Mutant] {
        &mutant::ALL
    }
}
