//! ext2, ext4 and ext4-dax in the table of designs.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use ::vfs::{Atomicity, Durability, FileSystem, Promises, SyncScope};
use media::block::{BlockDevice, MemoryDevice};
use media::{Region, Storage};
use sim::{Bytes, LockClass};

use super::journal::DataMode;
use super::layout::compat;
use super::mkfs::{LEAST_JOURNAL, Plan, usual_journal};
use super::vfs::Mounted;
use super::{Settings, Volume, damaged, fsck, mutant, repair, superblock, words};
use crate::fs_type::{Checking, FsError, FsType, FsckReport, Given, MountWord, Needs};
use crate::mutant::Mutant;
use crate::options::{OptionError, OptionKind, OptionSpec, Options};

/// Page cache of a recovery and a check, which see only metadata.
pub(super) const CHECK_CACHE: Bytes = Bytes::mib(16);

/// A line of the table: what mkfs makes under the name.
pub(crate) struct ExtType {
    name: &'static str,
    summary: &'static str,
    options: &'static [OptionSpec],
    /// ext4: extents, a journal, checksums.
    modern: bool,
    /// Data goes to memory by loads and stores.
    dax: bool,
}

const BLOCK_SIZE: OptionSpec = OptionSpec {
    name: "block_size",
    kind: OptionKind::Choice(&["1k", "2k", "4k"]),
    default: "4k",
    help: "mkfs: size of a block",
};
const DIR_INDEX: OptionSpec = OptionSpec {
    name: "dir_index",
    kind: OptionKind::Flag,
    default: "true",
    help: "mkfs: index directories of more than one block by hashes",
};
const LOST_FOUND: OptionSpec = OptionSpec {
    name: "lost_found",
    kind: OptionKind::Flag,
    default: "true",
    help: "mkfs: create lost+found; without it a repair creates it when needed",
};
const CACHE: OptionSpec = OptionSpec {
    name: "cache",
    kind: OptionKind::Cache,
    default: "64MiB",
    help: "mount: size of the page cache",
};

const RESERVED: OptionSpec = OptionSpec {
    name: "reserved",
    kind: OptionKind::Fraction,
    default: "5%",
    help: "mkfs: part of the blocks that only root may take, at most half (mke2fs: -m)",
};
const JOURNAL: OptionSpec = OptionSpec {
    name: "journal",
    kind: OptionKind::SizeOrAuto,
    default: "auto",
    help: "mkfs: size of the journal, at least 1024 blocks; 0: none; auto: the size that mke2fs chooses",
};
const COMMIT: OptionSpec = OptionSpec {
    name: "commit",
    kind: OptionKind::Time,
    default: "5s",
    help: "mount: time between commits of the journal (Linux: commit=5)",
};
const STREAM_REQUEST: OptionSpec = OptionSpec {
    name: "stream_request",
    kind: OptionKind::Size,
    default: "64KiB",
    help: "mount: files up to this size share preallocated blocks (Linux: mb_stream_req, 16 blocks)",
};

const MINIXDF: OptionSpec = OptionSpec {
    name: "minixdf",
    kind: OptionKind::Flag,
    default: "false",
    help: "mount: the size that df(1) shows includes inode tables, bitmaps and the journal (Linux: minixdf)",
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
        help: "mkfs: checksums of all metadata",
    },
    OptionSpec {
        name: "data",
        kind: OptionKind::Choice(&["ordered", "writeback", "journal"]),
        default: "ordered",
        help: "mount: data is written before its transaction commits, at any time, or to the journal",
    },
    COMMIT,
    OptionSpec {
        name: "external_journal",
        kind: OptionKind::Flag,
        default: "false",
        help: "mkfs: put the journal in the memory beside the block device, or in the file of --journal (mke2fs: -J device=)",
    },
    OptionSpec {
        name: "lazy_itable",
        kind: OptionKind::Flag,
        default: "false",
        help: "mkfs: zero inode tables when they are first used (mke2fs: lazy_itable_init)",
    },
    STREAM_REQUEST,
    OptionSpec {
        name: "delalloc",
        kind: OptionKind::Flag,
        default: "true",
        help: "mount: allocate blocks at write-back, not at write (Linux: delalloc); no effect with data=journal",
    },
    OptionSpec {
        name: "writeback",
        kind: OptionKind::Flag,
        default: "true",
        help: "mount: write back old dirty pages periodically (Linux: dirty_writeback_centisecs above 0)",
    },
    MINIXDF,
    OptionSpec {
        name: "noload",
        kind: OptionKind::Flag,
        default: "false",
        help: "mount: with -o ro, show the image without what its journal has (Linux: noload)",
    },
];

/// Options of ext4-dax. Blocks are pages, and metadata has checksums.
const DAX_OPTIONS: &[OptionSpec] = &[
    DIR_INDEX,
    LOST_FOUND,
    RESERVED,
    OptionSpec { help: "mount: size of the page cache, which holds metadata only", ..CACHE },
    OptionSpec {
        help: "mkfs: size of the journal, at least 1024 blocks; auto: the size that mke2fs chooses",
        ..JOURNAL
    },
    COMMIT,
    STREAM_REQUEST,
];

/// ext2.
pub(crate) static EXT2: ExtType = ExtType {
    name: "ext2",
    summary: "block maps and no journal, in Linux's real format; through the page cache to a block device",
    options: EXT2_OPTIONS,
    modern: false,
    dax: false,
};

/// ext4.
pub(crate) static EXT4: ExtType = ExtType {
    name: "ext4",
    summary: "extents and a jbd2 journal, in Linux's real format; through the page cache to a block device",
    options: EXT4_OPTIONS,
    modern: true,
    dax: false,
};

/// ext4 with `-o dax`.
pub(crate) static EXT4_DAX: ExtType = ExtType {
    name: "ext4-dax",
    summary: "ext4 on memory: data by loads and stores, metadata through the page cache and a jbd2 journal",
    options: DAX_OPTIONS,
    modern: true,
    dax: true,
};

impl ExtType {
    /// Refuses a journal that is too small to be one, and more blocks for root than the kernel takes.
    fn check_sizes(&self, options: &Options) -> Result<(), OptionError> {
        let kept = options.fraction("reserved");
        if kept > 0.5 {
            let expected = "at most 50%".to_owned();
            return Err(OptionError::Value {
                name: "reserved".to_owned(),
                value: kept.to_string(),
                expected,
            });
        }
        if !self.modern {
            return Ok(());
        }
        let Some(size) = options.size_or_auto("journal") else { return Ok(()) };
        let least = Bytes(u64::from(LEAST_JOURNAL) * u64::from(self.block_bytes(options)));
        if size >= least || size == Bytes(0) && !self.dax {
            return Ok(());
        }
        let none = if self.dax { "" } else { "0, " };
        let expected = format!("{none}auto, or at least {least} ({LEAST_JOURNAL} blocks)");
        Err(OptionError::Value { name: "journal".to_owned(), value: size.to_string(), expected })
    }

    fn block_bytes(&self, options: &Options) -> u32 {
        match () {
            () if self.dax => 4096,
            () => match options.choice("block_size") {
                "1k" => 1024,
                "2k" => 2048,
                _ => 4096,
            },
        }
    }

    fn plan(&self, options: &Options) -> Plan {
        let block_bytes = self.block_bytes(options);
        let journal_blocks = if self.modern {
            let blocks = |size: Bytes| (size.0 / u64::from(block_bytes)).min(u64::from(u32::MAX)) as u32;
            options.size_or_auto("journal").map(blocks)
        } else {
            Some(0)
        };
        Plan {
            design: self.name,
            block_bytes,
            inode_bytes: 256,
            inode_ratio: 16_384,
            journal_blocks,
            extents: self.modern,
            checksums: self.dax || self.modern && options.flag("metadata_csum"),
            dir_index: options.flag("dir_index"),
            wide: self.modern,
            lost_found: options.flag("lost_found"),
            kept: options.fraction("reserved"),
            lazy_tables: self.modern && !self.dax && options.flag("lazy_itable"),
        }
    }

    /// Whether mkfs puts the journal in the memory beside the block device.
    fn has_external_journal(&self, options: &Options) -> bool {
        self.modern && !self.dax && options.flag("external_journal")
    }

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

/// The memory beside a block device, as a device: an external journal may be there.
fn beside(storage: &Storage) -> Result<Option<Arc<dyn BlockDevice>>, FsError> {
    let (true, Ok(region)) = (storage.has_block(), storage.memory()) else { return Ok(None) };
    Ok(Some(MemoryDevice::whole(Arc::clone(region))?))
}

impl ExtType {
    /// The block device; where there is memory only, or data goes there, a RAM disk over it (NVMMBD, EuroSys 2016, section 5.1).
    fn device(&self, storage: &Storage) -> Result<Arc<dyn BlockDevice>, FsError> {
        match storage.block() {
            Ok(device) if !self.dax => Ok(Arc::clone(device)),
            _ => over_memory(storage),
        }
    }

    /// Whether the journal of an image is one that no mount takes.
    fn journal_is_lost(device: &Arc<dyn BlockDevice>) -> bool {
        let volume = Volume::open(device, Settings { read_only: true, ..Settings::default() });
        volume.is_ok_and(|volume| volume.check_journal().is_err())
    }

    /// The memory that data goes to.
    fn memory(&self, storage: &Storage) -> Option<Arc<Region>> {
        storage.memory().ok().filter(|_| self.dax).map(Arc::clone)
    }
}

fn over_memory(storage: &Storage) -> Result<Arc<dyn BlockDevice>, FsError> {
    Ok(MemoryDevice::whole(Arc::clone(storage.memory()?))?)
}

impl FsType for ExtType {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn options(&self) -> &'static [OptionSpec] {
        self.options
    }

    fn needs(&self, options: &Options) -> Needs {
        match self.dax {
            true => Needs::Memory,
            false if self.has_external_journal(options) => Needs::Both,
            false => Needs::Block,
        }
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        [super::CLASSES, crate::cache::CLASSES].concat()
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
            stale_data: !ordered,
            times_may_tear: false,
            repaired,
            // Records move when the leaf of an index is split, or when the index is made.
            names_may_tear: repaired && options.flag("dir_index"),
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
                fail_every: 3,
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

    fn min_size(&self, options: &Options) -> Bytes {
        self.plan(options).min_size()
    }

    fn bytes_per_inode(&self, options: &Options) -> u64 {
        self.plan(options).inode_ratio
    }

    fn dram(&self, options: &Options, _: Bytes) -> Bytes {
        options.size("cache")
    }

    fn outside_journal(&self, storage: &Storage) -> Option<[u8; 16]> {
        let device = self.device(storage).ok().filter(|_| self.modern && !self.dax)?;
        let superblock = superblock::load(&device).ok()?.superblock;
        let is_outside = superblock.has_compat(compat::HAS_JOURNAL) && superblock.journal_inum.get() == 0;
        is_outside.then_some(superblock.journal_uuid)
    }

    fn outside_journal_size(&self, options: &Options, size: Bytes) -> Option<Bytes> {
        if !self.modern || self.dax {
            return None;
        }
        let block_bytes = u64::from(self.block_bytes(options));
        let usual = Bytes(u64::from(usual_journal(size.0 / block_bytes).max(LEAST_JOURNAL)) * block_bytes);
        Some(options.size_or_auto("journal").filter(|size| size.0 > 0).unwrap_or(usual))
    }

    fn mkfs(&self, storage: &Storage, options: &Options) -> Result<(), FsError> {
        self.check_sizes(options)?;
        let journal = if self.has_external_journal(options) {
            Some(beside(storage)?.ok_or(FsError::NoJournalDevice)?)
        } else {
            None
        };
        super::mkfs::mkfs(&self.device(storage)?, journal.as_ref(), &self.plan(options))
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let device = self.device(storage)?;
        Ok(Arc::new(Mounted(Volume::mount(&device, self.settings(storage, options)?)?)))
    }

    fn mount_word(&self, key: &str, value: Option<&str>) -> MountWord {
        words::word((self.modern, self.dax), key, value)
    }

    fn recognises(&self, storage: &Storage) -> bool {
        let Ok(device) = self.device(storage) else { return false };
        let modern = match superblock::load(&device) {
            Ok(found) => Some(found.geo.extents),
            // What it uses is told by a mount and a check.
            Err(FsError::Unsupported { .. }) => superblock::is_modern(&*device),
            Err(_) => None,
        };
        modern == Some(self.modern)
    }

    fn recover(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let device = self.device(storage)?;
        let settings = Settings {
            journal_device: beside(storage)?,
            memory: self.memory(storage),
            cache: CHECK_CACHE,
            ..Settings::default()
        };
        let found = superblock::load_to_replay(&device, &settings)?;
        superblock::check_mountable(&found.superblock, false)?;
        // Where only a copy is left, a person is to say that it is to be used.
        if found.note.is_some() || !(found.torn || found.superblock.needs_recovery()) {
            return Ok(Vec::new());
        }
        let volume = match Volume::mount(&device, settings) {
            // Only a list of orphans was to be worked off, and something else is wrong, too, or the journal itself cannot be
            // read: the check tells.
            Err(FsError::Damaged { what, .. })
                if found.superblock.has_nothing_to_replay() || Self::journal_is_lost(&device) =>
            {
                return Ok(vec![format!("not recovered: {what}")]);
            }
            mounted => mounted?,
        };
        volume.unmount().map_err(damaged)?;
        Ok(volume.notes.clone())
    }

    fn replay(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let device = self.device(storage)?;
        let settings = Settings { memory: self.memory(storage), ..Settings::default() };
        let superblock = superblock::load_to_replay(&device, &settings)?.superblock;
        superblock::check_mountable(&superblock, false)?;
        if superblock.has_compat(compat::HAS_JOURNAL) || !superblock.needs_recovery() {
            return self.recover(storage);
        }
        Ok(vec!["it was not unmounted, and has no journal".to_owned()])
    }

    fn repair(&self, storage: &Storage) -> Result<Vec<String>, FsError> {
        let settings = Settings { journal_device: beside(storage)?, ..Settings::default() };
        repair::ask(&self.device(storage)?, &settings)
    }

    fn grow(&self, _: &Storage) -> Result<Bytes, FsError> {
        let advice =
            "its format is Linux's, whose tools grow it: `truncate -s SIZE POOL`, then `resize2fs POOL`";
        Err(FsError::NoGrowth { design: self.name(), advice })
    }

    fn may_have_holes(&self) -> bool {
        false
    }

    fn journal(&self, _: &Storage) -> Result<Vec<Range<u64>>, FsError> {
        let why = "its transactions change a cache of blocks in DRAM, whose stores a processor need not log";
        Err(FsError::NoJournal { design: self.name, why })
    }

    fn fsck(&self, storage: &Storage) -> FsckReport {
        match self.device(storage) {
            Ok(device) => {
                let journal = beside(storage).ok().flatten();
                fsck::check(&device, self.memory(storage), journal.is_some())
            }
            Err(error) => FsckReport::unchecked(error.to_string()),
        }
    }

    fn mutants(&self) -> &'static [Mutant] {
        match (self.dax, self.modern) {
            (true, _) => &mutant::IN_MEMORY,
            (_, true) => &mutant::JOURNALED,
            _ => &mutant::UNJOURNALED,
        }
    }

    fn dump(&self, storage: &Storage, part: &str, out: &mut dyn io::Write) -> Result<(), FsError> {
        super::dump::dump(&self.device(storage)?, part, out)
    }

    fn dump_parts(&self) -> &'static [(&'static str, &'static str)] {
        super::dump::PARTS
    }
}
