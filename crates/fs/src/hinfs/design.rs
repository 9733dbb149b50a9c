//! HiNFS and its variants in the table of designs.

use std::sync::Arc;

use design::{Checking, Design, Format, FsError, Given, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, LockClass, Nanos, PAGE_BYTES};
use vfs::{Durability, FileSystem, Promises, SyncScope};

use super::benefit::Benefit;
use super::pool::Pool;
use super::{HiNfs, Settings, mutant};
use crate::pmfs::design::{OPTIONS as PMFS_OPTIONS, PROMISES as PMFS_PROMISES};
use crate::pmfs::format::{JOURNAL_USUAL, PmfsFormat};
use crate::pmfs::vfs::Mounted;
use crate::pmfs::{self, Volume};

/// HiNFS, or one of the variants that its authors compare it with.
pub(crate) struct HinfsDesign {
    format: PmfsFormat,
    summary: &'static str,
    /// Cacheline-level fetch and write-back.
    by_line: bool,
    /// The eager-persistent write checker.
    checker: bool,
}

/// HiNFS, complete.
pub(crate) static HINFS: HinfsDesign = HinfsDesign {
    format: PmfsFormat { design: "hinfs", usual_journal },
    summary: "PMFS with a DRAM write buffer for lazy writes (EuroSys 2016)",
    by_line: true,
    checker: true,
};

/// Without cacheline-level fetch and write-back.
pub(crate) static HINFS_NCLFW: HinfsDesign = HinfsDesign {
    format: PmfsFormat { design: "hinfs-nclfw", usual_journal },
    summary: "HiNFS, but fetches and writes back whole blocks",
    by_line: false,
    checker: true,
};

/// Without the eager-persistent write checker.
pub(crate) static HINFS_WB: HinfsDesign = HinfsDesign {
    format: PmfsFormat { design: "hinfs-wb", usual_journal },
    summary: "HiNFS, but buffers every write, synced or not",
    by_line: true,
    checker: false,
};

const OWN_OPTIONS: [OptionSpec; 12] = [
    OptionSpec {
        name: "buffer",
        kind: OptionKind::Cache,
        default: "2GiB",
        when: Phase::Mount,
        help: "DRAM for the write buffer (paper: 2 GB)",
    },
    OptionSpec {
        name: "low",
        kind: OptionKind::Fraction,
        default: "5%",
        when: Phase::Mount,
        help: "free pages below this start write-back",
    },
    OptionSpec {
        name: "high",
        kind: OptionKind::Fraction,
        default: "20%",
        when: Phase::Mount,
        help: "free pages above this stop write-back",
    },
    OptionSpec {
        name: "wake",
        kind: OptionKind::Time,
        default: "5s",
        when: Phase::Mount,
        help: "interval at which write-back looks for old blocks",
    },
    OptionSpec {
        name: "dirty_age",
        kind: OptionKind::Time,
        default: "30s",
        when: Phase::Mount,
        help: "blocks not written for this long are written back",
    },
    OptionSpec {
        name: "eager_timeout",
        kind: OptionKind::Time,
        default: "5s",
        when: Phase::Mount,
        help: "eager blocks become lazy after this long without a sync",
    },
    OptionSpec {
        name: "writeback_tasks",
        kind: OptionKind::Count,
        default: "4",
        when: Phase::Mount,
        help: "number of write-back tasks (the paper does not say)",
    },
    OptionSpec {
        name: "dram_write",
        kind: OptionKind::Time,
        default: "50ns",
        when: Phase::Mount,
        help: "L_dram of the benefit model, per line (the paper does not say)",
    },
    OptionSpec {
        name: "medium_write",
        kind: OptionKind::Time,
        default: "0ns",
        when: Phase::Mount,
        help: "L_nvmm of the benefit model, per line; 0: that of the medium",
    },
    OptionSpec {
        name: "new_blocks",
        kind: OptionKind::Choice(&["inherit", "lazy"]),
        default: "inherit",
        when: Phase::Mount,
        help: "initial state of new blocks: that of the file's block that was judged last, or lazy",
    },
    OptionSpec {
        name: "sync",
        kind: OptionKind::Flag,
        default: "false",
        when: Phase::Mount,
        help: "every write is durable when it returns",
    },
    OptionSpec {
        name: "list_moves",
        kind: OptionKind::Choice(&["unless_recent", "every_write"]),
        default: "unless_recent",
        when: Phase::Mount,
        help: "which writes move a block to the end of the write-back list: all, or all but those to the newest 64th",
    },
];

/// A small journal and a buffer of four pages, so that write-back is at work while programs run, with a medium slow enough that
/// the benefit model buffers.
const SMALL: Given =
    &[("jsize", "64k"), ("buffer", "16k"), ("medium_write", "200ns"), ("writeback_tasks", "2")];

/// A buffer of three pages, and write-back that finds every block old.
const TINY: Given = &[
    ("jsize", "64k"),
    ("buffer", "12k"),
    ("medium_write", "200ns"),
    ("wake", "1us"),
    ("dirty_age", "1us"),
    ("writeback_tasks", "2"),
];

const ALL_OPTIONS: [OptionSpec; 17] = join(PMFS_OPTIONS, &OWN_OPTIONS);

/// PMFS's options and our own.
const fn join(format: &[OptionSpec], own: &[OptionSpec; 12]) -> [OptionSpec; 17] {
    let mut all = [own[0]; 17];
    let mut index = 0;
    while index < 17 {
        all[index] = if index < format.len() { format[index] } else { own[index - format.len()] };
        index += 1;
    }
    all
}

static OPTIONS: [OptionSpec; 17] = ALL_OPTIONS;

impl HinfsDesign {
    fn settings(&self, region: &Region, options: &Options) -> Settings {
        let medium = match options.time("medium_write") {
            Nanos::ZERO => region.model().line_time(),
            given => given,
        };
        Settings {
            by_line: self.by_line,
            checker: self.checker,
            inherit: options.choice("new_blocks") == "inherit",
            sync: options.flag("sync"),
            benefit: Benefit { dram: options.time("dram_write"), medium },
            wake: options.time("wake"),
            dirty_age: options.time("dirty_age"),
            eager_timeout: options.time("eager_timeout"),
            tasks: options.number("writeback_tasks").max(1),
            every_move: options.choice("list_moves") == "every_write",
        }
    }
}

/// Four log entries for each page of the buffer: every page may belong to a file of its own, and a small file's transaction
/// takes four entries while it waits for the page. No more than a 32nd of the region.
fn usual_journal(region: &Region, options: &Options) -> u64 {
    let wanted = (options.size("buffer").0 / 16).next_power_of_two();
    let affordable = 1 << (region.len() / 32).max(1).ilog2();
    wanted.min(affordable).max(JOURNAL_USUAL)
}

impl Design for HinfsDesign {
    fn name(&self) -> &'static str {
        self.format.design
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &self.format
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        [pmfs::CLASSES, super::CLASSES].concat()
    }

    fn promises(&self, options: &Options) -> Promises {
        let metadata = PMFS_PROMISES;
        match options.flag("sync") {
            true => metadata,
            false => Promises { data: Durability::OnSync, sync: SyncScope::File, ..metadata },
        }
    }

    fn checking(&self) -> Checking {
        // What the two others do in another way is written back and synced by the same code.
        let every = if self.by_line && self.checker { 1 } else { 4 };
        Checking {
            small: SMALL,
            tiny: TINY,
            variants: &[&[("sync", "true")]],
            crash_every: every,
            fail_every: every,
            ..Checking::default()
        }
    }

    fn dram(&self, options: &Options, _: Bytes) -> Bytes {
        options.size("buffer")
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let region = storage.memory()?;
        let volume = Volume::mount(region, pmfs::Settings::from_options(options));
        let volume = volume.map_err(|error| error.of(self.format.design))?;
        let pages = options.size("buffer").0 / PAGE_BYTES as u64;
        let pool = Pool::new(pages, options.fraction("low"), options.fraction("high"));
        Ok(Arc::new(Mounted(HiNfs::new(volume, self.settings(region, options), pool))))
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutant::ALL
    }
}
