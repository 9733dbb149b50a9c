//! ext2, ext4 and ext4-dax in the table of designs.

use std::sync::Arc;

use ::vfs::{Atomicity, Durability, FileSystem, Promises, SyncScope};
use design::{
    Checking, Design, Format, FsError, Given, MountWord, Mutant, OptionError, OptionKind, OptionSpec,
    Options, Phase,
};
use media::Storage;
use media::block::{BlockDevice, MemoryDevice};
use sim::{Bytes, Count, LockClass};

use super::journal::DataMode;
use super::vfs::Mounted;
use super::{Settings, Volume, mutant, words};

/// A line of the table: what mkfs makes under the name.
pub struct ExtDesign {
    pub(super) name: &'static str,
    summary: &'static str,
    options: &'static [OptionSpec],
    /// ext4: extents, a journal, checksums.
    pub(super) modern: bool,
    /// Data goes to memory by loads and stores.
    pub(super) dax: bool,
}

const BLOCK_SIZE: OptionSpec = OptionSpec {
    name: "block_size",
    kind: OptionKind::Choice(&["1k", "2k", "4k"]),
    default: "4k",
    when: Phase::Mkfs,
    help: "size of a block",
};
const DIR_INDEX: OptionSpec = OptionSpec {
    name: "dir_index",
    kind: OptionKind::Flag,
    default: "true",
    when: Phase::Mkfs,
    help: "index directories of more than one block by hashes",
};
const LOST_FOUND: OptionSpec = OptionSpec {
    name: "lost_found",
    kind: OptionKind::Flag,
    default: "true",
    when: Phase::Mkfs,
    help: "create lost+found; without it a repair creates it when needed",
};
const CACHE: OptionSpec = OptionSpec {
    name: "cache",
    kind: OptionKind::Cache,
    default: "64MiB",
    when: Phase::Mount,
    help: "size of the page cache",
};

const RESERVED: OptionSpec = OptionSpec {
    name: "reserved",
    kind: OptionKind::Fraction,
    default: "5%",
    when: Phase::Mkfs,
    help: "part of the blocks that only root may take, at most half (mke2fs: -m)",
};
const JOURNAL: OptionSpec = OptionSpec {
    name: "journal",
    kind: OptionKind::SizeOrAuto,
    default: "auto",
    when: Phase::Mkfs,
    help: "size of the journal, at least 1024 blocks; 0: none; auto: the size that mke2fs chooses",
};
const COMMIT: OptionSpec = OptionSpec {
    name: "commit",
    kind: OptionKind::Time,
    default: "5s",
    when: Phase::Mount,
    help: "time between commits of the journal (Linux: commit=5)",
};
const STREAM_REQUEST: OptionSpec = OptionSpec {
    name: "stream_request",
    kind: OptionKind::Size,
    default: "64KiB",
    when: Phase::Mount,
    help: "files up to this size share preallocated blocks (Linux: mb_stream_req, 16 blocks)",
};

const MINIXDF: OptionSpec = OptionSpec {
    name: "minixdf",
    kind: OptionKind::Flag,
    default: "false",
    when: Phase::Mount,
    help: "the size that df(1) shows includes inode tables, bitmaps and the journal (Linux: minixdf)",
};

/// ext2's options.
const EXT2_OPTIONS: &[OptionSpec] = &[BLOCK_SIZE, DIR_INDEX, LOST_FOUND, RESERVED, CACHE, MINIXDF];

/// ext4's options.
const EXT4_OPTIONS: &[OptionSpec] = &[
    BLOCK_SIZE,
    DIR_INDEX,
    LOST_FOUND,
    RESERVED,
    CACHE,
    JOURNAL,
    OptionSpec {
        name: "metadata_csum",
        kind: OptionKind::Flag,
        default: "true",
        when: Phase::Mkfs,
        help: "checksums of all metadata",
    },
    OptionSpec {
        name: "data",
        kind: OptionKind::Choice(&["ordered", "writeback", "journal"]),
        default: "ordered",
        when: Phase::Mount,
        help: "data is written before its transaction commits, at any time, or to the journal",
    },
    COMMIT,
    OptionSpec {
        name: "external_journal",
        kind: OptionKind::Flag,
        default: "false",
        when: Phase::Mkfs,
        help: "put the journal in the memory beside the block device, or in the file of --journal (mke2fs: -J device=)",
    },
    OptionSpec {
        name: "lazy_itable",
        kind: OptionKind::Flag,
        default: "false",
        when: Phase::Mkfs,
        help: "zero inode tables when they are first used (mke2fs: lazy_itable_init)",
    },
    STREAM_REQUEST,
    OptionSpec {
        name: "delalloc",
        kind: OptionKind::Flag,
        default: "true",
        when: Phase::Mount,
        help: "allocate blocks at write-back, not at write (Linux: delalloc); no effect with data=journal",
    },
    OptionSpec {
        name: "writeback",
        kind: OptionKind::Flag,
        default: "true",
        when: Phase::Mount,
        help: "write back old dirty pages periodically (Linux: dirty_writeback_centisecs above 0)",
    },
    MINIXDF,
    OptionSpec {
        name: "noload",
        kind: OptionKind::Flag,
        default: "false",
        when: Phase::Mount,
        help: "with -o ro, show the image without what its journal has (Linux: noload)",
    },
];

/// Options of ext4-dax. Blocks are pages, and metadata has checksums.
const DAX_OPTIONS: &[OptionSpec] = &[
    DIR_INDEX,
    LOST_FOUND,
    RESERVED,
    OptionSpec { when: Phase::Mount, help: "size of the page cache, which holds metadata only", ..CACHE },
    OptionSpec {
        when: Phase::Mkfs,
        help: "size of the journal, at least 1024 blocks; auto: the size that mke2fs chooses",
        ..JOURNAL
    },
    COMMIT,
    STREAM_REQUEST,
    OptionSpec {
        name: "new_extents",
        kind: OptionKind::Choice(&["kernel", "unwritten", "zeroed"]),
        default: "kernel",
        when: Phase::Mount,
        help: "new blocks are unwritten until their data is stored (Linux 4.0 to 4.6), or zeroed and written at once (from 4.7); \
               kernel: as the kernel of the machine has it, unwritten where there is none",
    },
    OptionSpec {
        name: "staged",
        kind: OptionKind::Flag,
        default: "false",
        when: Phase::Mount,
        help: "data is copied twice, by way of a page of DRAM: a reading of the characterization slides of 2016, no Linux",
    },
];

/// The first Linux that zeroes new blocks of files on memory: commit 12735f881952, "ext4: Pre-zero allocated blocks for DAX IO".
const ZEROES_FROM: (u16, u16) = (4, 7);

/// ext2.
/// ext2.
pub static EXT2: ExtDesign = ExtDesign {
    name: "ext2",
    summary: "block maps and no journal, in Linux's real format; through the page cache to a block device",
    options: EXT2_OPTIONS,
    modern: false,
    dax: false,
};

/// ext4.
/// ext4 on a block device.
pub static EXT4: ExtDesign = ExtDesign {
    name: "ext4",
    summary: "extents and a jbd2 journal, in Linux's real format; through the page cache to a block device",
    options: EXT4_OPTIONS,
    modern: true,
    dax: false,
};

/// ext4 with `-o dax`.
/// ext4 on memory, with direct access.
pub static EXT4_DAX: ExtDesign = ExtDesign {
    name: "ext4-dax",
    summary: "ext4 on memory: data by loads and stores, metadata through the page cache and a jbd2 journal",
    options: DAX_OPTIONS,
    modern: true,
    dax: true,
};

/// The memory beside a block device, as a device: an external journal may be there.
pub(super) fn beside(storage: &Storage) -> Result<Option<Arc<dyn BlockDevice>>, FsError> {
    let (true, Ok(region)) = (storage.has_block(), storage.memory()) else { return Ok(None) };
    Ok(Some(MemoryDevice::whole(Arc::clone(region))?))
}

impl ExtDesign {
    fn settings(&self, storage: &Storage, options: &Options) -> Result<Settings, FsError> {
        let (cache, mutant) = (options.size("cache"), options.mutant());
        let mut settings = Settings { cache, mutant, discards: options.discards(), ..Settings::default() };
        if self.modern {
            settings.preallocates = true;
            settings.stream_request = options.size("stream_request");
            settings.commit = options.time("commit");
        }
        settings.counts_overhead = !self.dax && options.flag("minixdf");
        if self.dax {
            settings.memory = Some(Arc::clone(storage.memory()?));
            settings.staged = options.flag("staged");
            settings.zeroes_new = match options.choice("new_extents") {
                "kernel" => sim::linux().is_some_and(|version| version >= ZEROES_FROM),
                new_extents => new_extents == "zeroed",
            };
        } else if self.modern {
            settings.skips_log = options.flag("noload");
            if settings.skips_log && !settings.discards {
                let (name, value) = ("noload".to_owned(), "true".to_owned());
                let expected =
                    "-o ro beside it: what is written to a file system with an old journal would be lost"
                        .to_owned();
                return Err(OptionError::Value { name, value, expected }.into());
            }
            settings.writes_back = options.flag("writeback");
            settings.journal_device = beside(storage)?;
            settings.delays = options.flag("delalloc");
            settings.data = match options.choice("data") {
                "writeback" => DataMode::Writeback,
                "journal" => DataMode::Journal,
                _ => DataMode::Ordered,
            };
        }
        Ok(settings)
    }
}

impl Design for ExtDesign {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn options(&self) -> &'static [OptionSpec] {
        self.options
    }

    fn format(&self) -> &dyn Format {
        self
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        [super::CLASSES, base::cache::CLASSES].concat()
    }

    fn promises(&self, options: &Options) -> Promises {
        let repaired = !self.modern || !self.dax && options.size_or_auto("journal") == Some(Bytes(0));
        let ordered = self.dax || self.modern && options.choice("data") != "writeback";
        Promises {
            metadata: Durability::OnSync,
            data: Durability::OnSync,
            write: Atomicity::Words,
            size_is_durable_with_names: false,
            truncate_syncs: false,
            sync: if repaired { SyncScope::File } else { SyncScope::FileAndMetadata },
            msync_is_atomic: false,
            stale_data: !ordered,
            times_may_tear: false,
            repaired,
            // Records move when the leaf of an index is split, or when the index is made.
            names_may_tear: repaired && options.flag("dir_index"),
            // As in Linux: without extents nothing says of blocks that they are reserved.
            reservations: self.modern,
            ..Promises::STRICT
        }
    }

    fn checking(&self) -> Checking {
        // A check begins with an empty root.
        const EXT4_SMALL: Given =
            &[("cache", "256k"), ("block_size", "1k"), ("journal", "1MiB"), ("lost_found", "false")];
        const EXT2_SMALL: Given = &[("cache", "256k"), ("block_size", "1k"), ("lost_found", "false")];
        // An attribute of the actions that tasks carry out at once needs a block of 4 KiB.
        const EXT4_TINY: Given = &[
            ("cache", "256k"),
            ("block_size", "4k"),
            ("journal", "4MiB"),
            ("lost_found", "false"),
            ("commit", "1us"),
        ];
        const EXT2_TINY: Given = &[("cache", "256k"), ("block_size", "4k"), ("lost_found", "false")];
        const OTHER_MODES: &[Given] =
            &[&[("data", "writeback")], &[("data", "journal")], &[("delalloc", "false")]];
        // A block is a page, and a journal has 1,024 of them.
        const DAX_SMALL: Given = &[("cache", "256k"), ("journal", "4MiB"), ("lost_found", "false")];
        const DAX_TINY: Given =
            &[("cache", "256k"), ("journal", "4MiB"), ("lost_found", "false"), ("commit", "1us")];
        if self.dax {
            // A mount looks at each line of the log.
            Checking {
                small: DAX_SMALL,
                tiny: DAX_TINY,
                variants: &[&[("new_extents", "zeroed")], &[("staged", "true")]],
                crash_every: 9,
                fail_every: 8,
                ..Checking::default()
            }
        } else if self.modern {
            // Sectors give many more images than lines.
            Checking {
                small: EXT4_SMALL,
                tiny: EXT4_TINY,
                variants: OTHER_MODES,
                crash_every: 9,
                fail_every: 6,
                ..Checking::default()
            }
        } else {
            Checking {
                small: EXT2_SMALL,
                tiny: EXT2_TINY,
                variants: &[&[("dir_index", "false")]],
                crash_every: 9,
                fail_every: 2,
                ..Checking::default()
            }
        }
    }

    fn counts(&self) -> &'static [&'static Count] {
        &super::COUNTS
    }

    fn dram(&self, options: &Options, _: Bytes) -> Bytes {
        options.size("cache")
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let device = self.device(storage)?;
        Ok(Arc::new(Mounted(Volume::mount(&device, self.settings(storage, options)?)?)))
    }

    fn mount_word(&self, key: &str, value: Option<&str>) -> MountWord {
        words::word((self.modern, self.dax), key, value)
    }

    fn mutants(&self) -> &'static [Mutant] {
        match (self.dax, self.modern) {
            (true, _) => &mutant::IN_MEMORY,
            (_, true) => &mutant::JOURNALED,
            _ => &mutant::UNJOURNALED,
        }
    }
}
