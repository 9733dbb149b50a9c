//! Crest in the table of designs.

use std::sync::Arc;

use ::vfs::{Atomicity, Durability, FileSystem, Promises, SyncScope};
use design::{Checking, Design, Format, FsError, Given, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use sim::{Bytes, Count, LockClass};

use crate::ablation::Without;
use crate::calls::writeback;
use crate::format::layout::BLOCK;
use crate::format::mutant::{self, Rules};
use crate::index::cache::{Admit, EVICTED, FILLED, HITS};
use crate::index::sharing::Sharing;
use crate::parts::{CLEANED, COPIED, EMPTIED};
use crate::pool::format::CrestFormat;
use crate::pool::{Settings, recovery, resize};
use crate::store::frames;
use crate::vfs::{Mounted, PROMISES};
use crate::{NAME, locks};

/// Crest.
pub struct CrestDesign;

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
        name: "checksum",
        kind: OptionKind::Choice(&["none", "data"]),
        default: "none",
        when: Phase::Mkfs,
        help: "data: CRC-32C of each block, compared at its first read after a mount and by `weir scrub`; appends store blocks",
    },
    OptionSpec {
        name: "parity",
        kind: OptionKind::Flag,
        default: "false",
        when: Phase::Mkfs,
        help: "whether a 16th of each log zone is parity, written when the zone is full, from which damaged lines are computed",
    },
    OptionSpec {
        name: "without",
        kind: OptionKind::Choice(Without::WORDS),
        default: "nothing",
        when: Phase::Mount,
        help: "leave a part out, to measure it: appends in place, overwrites in records, seals, paths, saved indexes, clean frames",
    },
    OptionSpec {
        name: "grow",
        kind: OptionKind::Flag,
        default: "false",
        when: Phase::Mount,
        help: "whether a pool is made as large as its file, which has grown; `weir resize` does so with an unmounted pool",
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
    OptionSpec {
        name: "sync",
        kind: OptionKind::Choice(&["strict", "fsync"]),
        default: "strict",
        when: Phase::Mount,
        help: "when data is durable: when a write returns, or after a sync; until then it is in frames of DRAM",
    },
    OptionSpec {
        name: "atomic",
        kind: OptionKind::Choice(&["whole", "words"]),
        default: "whole",
        when: Phase::Mount,
        help: "what a crash inside a write that is durable on return leaves old or new: all, or each word of an overwrite in place",
    },
    OptionSpec {
        name: "mmap",
        kind: OptionKind::Choice(&["direct", "atomic"]),
        default: "direct",
        when: Phase::Mount,
        help: "where stores of a mapping go: to words of the medium, or to DRAM until an msync makes all durable or none",
    },
    OptionSpec {
        name: "buffer",
        kind: OptionKind::Cache,
        default: "2GiB",
        when: Phase::Mount,
        help: "DRAM for frames: of what is read often and, with sync=fsync or mmap=atomic, of what is not durable yet; 0: none",
    },
    OptionSpec {
        name: "admit",
        kind: OptionKind::Count,
        default: "0",
        when: Phase::Mount,
        help: "how often the medium serves a block until it has a frame; 0: as the modelled medium says, and in real time never",
    },
    OptionSpec {
        name: "wake",
        kind: OptionKind::Time,
        default: "5s",
        when: Phase::Mount,
        help: "with sync=fsync: interval at which write-back looks for old files",
    },
    OptionSpec {
        name: "dirty_age",
        kind: OptionKind::Time,
        default: "30s",
        when: Phase::Mount,
        help: "with sync=fsync: files not written for this long are written back",
    },
    OptionSpec {
        name: "writeback_tasks",
        kind: OptionKind::Count,
        default: "4",
        when: Phase::Mount,
        help: "with sync=fsync: number of write-back tasks",
    },
];

/// The formats with checksums of data, and with parity of the log.
const FORMATS: &[Given] = &[&[("checksum", "data")], &[("parity", "true")]];

/// Two shards, so that zones fill up and are left in short programs; one frame, which each read wants. Files and directories are
/// shared from the beginning.
const SMALL: Given =
    &[("shards", "2"), ("shared-after", "0"), ("buffer", "4k"), ("admit", "1"), ("writeback_tasks", "2")];

/// Which files and directories tasks share.
fn sharing(options: &Options) -> Sharing {
    Sharing {
        granules: options.flag("granules"),
        buckets: options.flag("buckets"),
        after: options.number("shared-after").try_into().unwrap_or(u32::MAX),
        ..Sharing::default()
    }
}

/// Three frames, and write-back that finds every file old.
const TINY: Given = &[
    ("shards", "2"),
    ("buffer", "12k"),
    ("admit", "1"),
    ("wake", "1us"),
    ("dirty_age", "1us"),
    ("writeback_tasks", "2"),
];

/// How a pool is mounted with these options.
fn settings(options: &Options) -> Settings {
    let limit = (options.size("buffer").0 / BLOCK).min(frames::MOST);
    let (lazy, without) = (buffers(options), Without::of(options.choice("without")));
    let (sharing, words) = (sharing(options), options.choice("atomic") == "words");
    Settings {
        rules: options.mutant().map_or(Rules::ALL, Rules::without),
        // Frames and overwrites in place have the file alone.
        sharing: Sharing { granules: sharing.granules && !(lazy && limit > 0) && !words, ..sharing },
        without,
        frames: frames::Settings {
            limit,
            lazy,
            dirty_age: options.time("dirty_age"),
            wake: options.time("wake"),
        },
        admit: match options.number("admit") {
            _ if without == Without::Reads => Admit::Never,
            0 => Admit::Measured,
            misses => Admit::After(misses.try_into().unwrap_or(u32::MAX)),
        },
        words,
        maps_atomically: maps_atomically(options),
    }
}

/// Whether data is in frames until it is synced.
fn buffers(options: &Options) -> bool {
    options.choice("sync") == "fsync"
}

/// Whether stores of mappings are durable by a sync, all of them or none.
fn maps_atomically(options: &Options) -> bool {
    options.choice("mmap") == "atomic"
}

/// All that is counted.
static COUNTS: [&Count; 6] = [&HITS, &FILLED, &EVICTED, &EMPTIED, &CLEANED, &COPIED];

impl Design for CrestDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "one self-certifying record for each call, one fence for a change of names; indexes in DRAM"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &FORMAT
    }

    fn dram(&self, options: &Options, size: Bytes) -> Bytes {
        // Each frame has a block of the pool.
        if options.choice("without") == "reads" && !buffers(options) && !maps_atomically(options) {
            Bytes(0)
        } else {
            options.size("buffer").min(size)
        }
    }

    fn counts(&self) -> &'static [&'static Count] {
        &COUNTS
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        locks::CLASSES.to_vec()
    }

    fn promises(&self, options: &Options) -> Promises {
        let whole = Promises { msync_is_atomic: maps_atomically(options), ..PROMISES };
        let write = if options.choice("atomic") == "words" { Atomicity::Words } else { whole.write };
        match buffers(options) {
            true => Promises { data: Durability::OnSync, sync: SyncScope::File, write, ..whole },
            false => Promises { write, ..whole },
        }
    }

    fn checking(&self) -> Checking {
        Checking {
            small: SMALL,
            tiny: TINY,
            // Four frames, so that write-back is at work; and what the mappings of a check take.
            variants: &[
                &[("sync", "fsync"), ("buffer", "16k")],
                &[("atomic", "words"), ("mmap", "atomic"), ("buffer", "32m")],
            ],
            crash_every: 4,
            fail_every: 2,
            mount_reads_all: true,
            clones: true,
            formats: FORMATS,
        }
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutant::MOUNTED
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let settings = settings(options);
        let region = storage.memory()?;
        let volume = match options.discards() {
            // As much of a damaged pool as there is.
            true => recovery::mount_for_reading(region, &settings)?,
            false => {
                if options.flag("grow") {
                    resize::grow(region)?;
                }
                recovery::mount(region, &settings)?
            }
        };
        if volume.frames.are_used() {
            writeback::start(&volume, options.number("writeback_tasks").max(1));
        }
        Ok(Arc::new(Mounted(volume)))
    }
}
