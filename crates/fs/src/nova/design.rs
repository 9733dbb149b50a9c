//! NOVA in the table of designs.

use std::sync::Arc;

use design::{Checking, Design, Format, FsError, Given, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use sim::{Bytes, Count, LockClass};
use vfs::{FileSystem, Promises};

use super::format::NovaFormat;
use super::vfs::{Mounted, PROMISES};
use super::{Settings, Volume, mutant};

/// NOVA.
pub(crate) struct NovaDesign;

const NAME: &str = "nova";

static FORMAT: NovaFormat = NovaFormat { design: NAME };

/// Options of mkfs and mount, shared with the designs that use this format.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "shards",
        kind: OptionKind::Count,
        default: "0",
        when: Phase::Mkfs,
        help: "shards, each with a journal, an inode table and a block allocator: 1 to 256; 0: one per 32 MiB, from 2 to 128",
    },
    OptionSpec {
        name: "log_page",
        kind: OptionKind::Size,
        default: "4k",
        when: Phase::Mkfs,
        help: "size of a log page, 512 to 4k; with small pages logs grow and are cleaned sooner",
    },
    OptionSpec {
        name: "inode_chunk",
        kind: OptionKind::Size,
        default: "0",
        when: Phase::Mkfs,
        help: "step by which an inode table grows, 4k to 2M; 0: a 1024th of a shard",
    },
    OptionSpec {
        name: "cleaning",
        kind: OptionKind::Flag,
        default: "true",
        when: Phase::Mount,
        help: "clean logs before they grow (section 3.6 of the paper)",
    },
];

/// How to mount.
pub(crate) fn settings(options: &Options) -> Settings {
    Settings { cleaning: options.flag("cleaning"), mutant: options.mutant() }
}

/// Two shards, and log pages in which few entries fit: logs grow and are cleaned in short programs.
pub(crate) const SMALL: Given = &[("shards", "2"), ("log_page", "512")];

impl Design for NovaDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "a log for each inode, new data in new blocks (FAST 2016)"
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
        PROMISES
    }

    fn checking(&self) -> Checking {
        const OTHERS: &[Given] = &[&[("log_page", "4k")]];
        Checking {
            small: SMALL,
            tiny: SMALL,
            formats: OTHERS,
            crash_every: 4,
            fail_every: 2,
            ..Checking::default()
        }
    }

    fn counts(&self) -> &'static [&'static Count] {
        &super::COUNTS
    }

    fn mutants(&self) -> &'static [Mutant] {
        &mutant::ALL
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let (volume, _) = Volume::mount(storage.memory()?, settings(options), None)?;
        Ok(Arc::new(Mounted(volume)))
    }
}
