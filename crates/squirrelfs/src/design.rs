//! SquirrelFS in the table of designs.

use std::sync::Arc;

use ::vfs::{Atomicity, FileSystem, LeftOut, Promises};
use design::{Checking, Design, Format, FsError, Given, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use sim::{Bytes, LockClass};

use crate::format::SquirrelFormat;
use crate::layout::NAME_MAX;
use crate::vfs::Mounted;
use crate::{CLASSES, NAME, Settings, Volume, damaged, mutant};

/// SquirrelFS.
#[derive(Debug)]
pub struct SquirrelDesign;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "bytes_per_inode",
        kind: OptionKind::Size,
        default: "32k",
        when: Phase::Mkfs,
        help: "bytes of the pool for each inode, of which none is added later; a pool below 128 MiB has up to 4096 in any case",
    },
    OptionSpec {
        name: "cores",
        kind: OptionKind::Count,
        default: "0",
        when: Phase::Mount,
        help: "lists of free pages, one for each processor: 1 to 256; 0: one per 32 MiB, from 2 to 128",
    },
    OptionSpec {
        name: "free_dentry",
        kind: OptionKind::Choice(&["scan", "hint"]),
        default: "scan",
        when: Phase::Mount,
        help: "look for a free dentry from the first page of the directory on, as published, or where one was free last",
    },
    OptionSpec {
        name: "copy_fence",
        kind: OptionKind::Choice(&["page", "none"]),
        default: "page",
        when: Phase::Mount,
        help: "end the copy of each page past the cache with a fence, as Linux 6.3 does, or not",
    },
];

/// Two lists of free pages, and no fence for each page of the zeros that a format without holes writes.
const SMALL: Given = &[("cores", "2"), ("copy_fence", "none")];

impl Settings {
    fn from_options(options: &Options) -> Self {
        Self {
            fence_each_page: options.choice("copy_fence") == "page",
            hint: options.choice("free_dentry") == "hint",
            cores: options.number("cores").min(256),
            mutant: options.mutant(),
        }
    }
}

impl Design for SquirrelDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "synchronous soft updates without a log, whose order the compiler holds (OSDI 2024)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &SquirrelFormat
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        CLASSES.to_vec()
    }

    fn promises(&self, _: &Options) -> Promises {
        Promises {
            write: Atomicity::Words,
            reservations: false,
            left_out: LeftOut::all(),
            name_max: NAME_MAX as u32,
            ..Promises::STRICT
        }
    }

    fn checking(&self) -> Checking {
        const OTHERS: &[Given] = &[&[("free_dentry", "hint"), ("copy_fence", "page")]];
        // A mount reads whole tables, of which each line fails in turn, and far writes fill all between with zeros.
        Checking {
            small: SMALL,
            tiny: SMALL,
            formats: OTHERS,
            crash_every: 3,
            fail_every: 12,
            ..Checking::default()
        }
    }

    fn dram(&self, _: &Options, _: Bytes) -> Bytes {
        Bytes(0)
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        if !SquirrelFormat.recognises(storage) {
            let found = "the magic number or the size of pages is another".to_owned();
            return Err(FsError::WrongFormat { design: NAME, found });
        }
        let volume = Volume::mount(storage.memory()?, Settings::from_options(options)).map_err(damaged)?;
        Ok(Arc::new(Mounted(Arc::new(volume))))
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutant::ALL
    }
}
