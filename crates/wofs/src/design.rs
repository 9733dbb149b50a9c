//! WOFS in the table of designs.

use std::sync::Arc;

use ::vfs::{FileSystem, LeftOut, Promises};
use design::{Checking, Design, Format, FsError, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use sim::{Bytes, LockClass};

use crate::format::{WofsFormat, load_sound};
use crate::layout::NAME_MAX;
use crate::mutant::{self, Rules};
use crate::traffic::Regulation;
use crate::vfs::Ways;
use crate::{inode, recovery};

/// WOFS.
pub struct WofsDesign;

pub(crate) const NAME: &str = "wofs";

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "extend",
        kind: OptionKind::Count,
        default: "512",
        when: Phase::Mount,
        help: "blocks that an append takes at once; later appends within them store one word of metadata (the published 512)",
    },
    OptionSpec {
        name: "buckets",
        kind: OptionKind::Choice(&["published", "grow"]),
        default: "published",
        when: Phase::Mount,
        help: "tables of names and inodes: 128 buckets with chains, as published, or as many as there are entries",
    },
    OptionSpec {
        name: "regulate",
        kind: OptionKind::Choice(&["off", "fio", "filebench"]),
        default: "off",
        when: Phase::Mount,
        help: "a writer whose copy of one block was slow while others write sleeps: 11 ms beside one other (fio), 6 ms beside four",
    },
];

impl Design for WofsDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "each call is one checksummed package, written once (WOFS, OSDI 2025)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &WofsFormat
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        inode::CLASSES.to_vec()
    }

    fn promises(&self, _: &Options) -> Promises {
        // An overwrite takes new blocks: nothing can be reserved.
        Promises {
            reservations: false,
            left_out: LeftOut::all().difference(LeftOut::NODES | LeftOut::HOLES),
            name_max: NAME_MAX as u32,
            ..Promises::STRICT
        }
    }

    fn checking(&self) -> Checking {
        Checking {
            small: &[("extend", "4")],
            tiny: &[("extend", "4")],
            mount_reads_all: true,
            ..Checking::default()
        }
    }

    fn dram(&self, _: &Options, _: Bytes) -> Bytes {
        Bytes(0)
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        if !WofsFormat.recognises(storage) {
            let found = "the magic number is another".to_owned();
            return Err(FsError::WrongFormat { design: NAME, found });
        }
        let rules = Rules::but(options.mutant());
        let loaded = load_sound(storage, rules)?;
        let ways = Ways {
            extend: options.number("extend"),
            grows: options.choice("buckets") == "grow",
            regulation: Regulation::named(options.choice("regulate")),
        };
        let mounted =
            recovery::mount(storage.memory()?, &loaded, ways, rules).map_err(crate::format::damaged)?;
        Ok(Arc::new(mounted))
    }

    fn mutants(&self) -> &'static [Mutant] {
        mutant::ALL
    }
}
