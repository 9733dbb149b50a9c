//! What a design promises, as clauses that a checker judges by: about a crash (`docs/models/crash.md`), and about space.
//!
//! Recovery must leave a state that the clauses allow. A design states them for the options that it is mounted with, so
//! that no checker knows a design by name, or guesses its guarantee from an option.
//!
//! | clause | says |
//! |---|---|
//! | [`Promises::metadata`] | when a change of names, links or attributes is durable |
//! | [`Promises::data`] | when written bytes, and a size that a write has changed, are durable |
//! | [`Promises::write`] | what a crash inside a write leaves of its range |
//! | [`Promises::size_is_durable_with_names`] | whether a rename or a new link makes the size of its file durable |
//! | [`Promises::truncate_syncs`] | whether a change of the size makes all of the file durable |
//! | [`Promises::sync`] | what an fsync covers |
//! | [`Promises::msync_is_atomic`] | whether what mappings have stored is durable by a sync only, all of a sync or none |
//! | [`Promises::stale_data`] | whether a crash may show bytes that were never written to the file |
//! | [`Promises::repaired`] | whether a crash may leave an image that contradicts itself, which a repair then makes sound |
//! | [`Promises::names_may_tear`] | whether such an image may show a file under a name of which a part is another's |
//! | [`Promises::times_may_tear`] | whether an interrupted write may leave the seconds of one time with the fraction of another |
//! | [`Promises::reservations`] | whether a write to a range that was reserved finds space |
//! | [`Promises::left_out`] | what the format has no room for |
//! | [`Promises::name_max`] | how long a name may be |
//!
//! All designs promise that a change of names is atomic, that a call that failed has changed nothing, and that `sync` makes
//! everything durable. Metadata that is durable at a sync becomes durable in the order of its calls. [`Promises::repaired`] takes
//! all but the durability of a sync back.

use std::fmt;

use bitflags::bitflags;

use crate::errno::{Errno, Result};
use crate::flags::FallocateMode;

/// When a change is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the call that makes it returns.
    OnReturn,
    /// When a later fsync or sync that covers it returns; it may be durable earlier.
    OnSync,
}

/// What a crash inside a write leaves of the bytes that it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// Each aligned 8-byte word is old or new.
    Words,
    /// Each aligned block of so many bytes is old or new.
    Blocks(u64),
    /// All of it is old, or all of it is new.
    Whole,
}

/// What an fsync of a file makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncScope {
    /// That file.
    File,
    /// That file, and all changes of metadata that came before (a journal commits as a whole).
    FileAndMetadata,
}

bitflags! {
    /// The things that a format has no room for. A call that asks for it is always refused, with the given error.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LeftOut: u8 {
        /// Extended attributes: `EOPNOTSUPP`.
        const ATTRIBUTES = 1;
        /// Renames that exchange two names or leave a whiteout: `EINVAL`.
        const EXCHANGES = 1 << 1;
        /// Ranges that are reserved, zeroed or punched by fallocate(2): `EOPNOTSUPP`.
        const RANGES = 1 << 2;
        /// Devices, FIFOs and sockets: `EOPNOTSUPP`.
        const NODES = 1 << 3;
        /// Files without a name: `EOPNOTSUPP`.
        const NAMELESS = 1 << 4;
        /// Holes: a file has a block for each part up to its size. No call is refused for it; one that grows a file takes the
        /// blocks of all that lies between, and fills them with zeros.
        const HOLES = 1 << 5;
    }
}

/// The clauses of a mounted design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promises {
    /// When a change of names, links or attributes is durable.
    pub metadata: Durability,
    /// When written bytes, and a size that a write has changed, are durable.
    pub data: Durability,
    /// What a crash inside a write leaves of its range.
    pub write: Atomicity,
    /// Whether a rename or a new link makes the size of its file durable, where data is durable on a sync.
    pub size_is_durable_with_names: bool,
    /// Whether a change of the size by truncation makes all of the file durable, where data is durable on a sync.
    pub truncate_syncs: bool,
    /// What an fsync covers.
    pub sync: SyncScope,
    /// Whether what mappings that do not choose a kind have stored becomes durable by an msync, fsync, sync or unmount alone, for
    /// each file all that the call covers or nothing.
    pub msync_is_atomic: bool,
    /// Whether a crash may show bytes in a file that were never written to it.
    pub stale_data: bool,
    /// Whether a crash inside a write or a truncation may leave a time of modification with the seconds of the old time and the
    /// fraction of the new one.
    pub times_may_tear: bool,
    /// Whether a crash may leave an image that contradicts itself. The mount repairs it; then every invariant holds, everything can
    /// be used, and of what was durable at the last sync, each file that no call has named since is there with its attributes and
    /// contents: at its path, or, if names in a directory on that path were changed since, at least in `lost+found`. A count of
    /// links may have become another. Nothing is promised of the rest, nor that a change of names is atomic.
    pub repaired: bool,
    /// With `repaired`: whether a file whose directory was changed may have a name there that is half its own and half another's.
    /// It may where a change of one name moves the records of others, so that a sector boundary lies in them.
    pub names_may_tear: bool,
    /// Whether no write fails for lack of space in a range that fallocate(2) has reserved, however often it is written. A design
    /// that gives a block a new place with each write cannot promise that: it reserves nothing ([`Promises::check_reserving`]).
    pub reservations: bool,
    /// The things that the format has no room for.
    pub left_out: LeftOut,
    /// Longest name in bytes, 255 at most; a call with a longer one answers `ENAMETOOLONG`.
    pub name_max: u32,
}

impl Promises {
    /// Every call is durable and atomic when it returns.
    pub const STRICT: Self = Self {
        metadata: Durability::OnReturn,
        data: Durability::OnReturn,
        write: Atomicity::Whole,
        size_is_durable_with_names: true,
        truncate_syncs: true,
        sync: SyncScope::FileAndMetadata,
        msync_is_atomic: false,
        stale_data: false,
        times_may_tear: false,
        repaired: false,
        names_may_tear: false,
        reservations: true,
        left_out: LeftOut::empty(),
        name_max: 255,
    };

    /// The class of the promise, by which designs are compared: `fsync` where a call is durable after a sync only, else what a
    /// crash inside a write leaves: `whole`, `blocks`, `words`.
    pub fn class(&self) -> &'static str {
        match (self.metadata, self.data, self.write) {
            (Durability::OnReturn, Durability::OnReturn, Atomicity::Whole) => "whole",
            (Durability::OnReturn, Durability::OnReturn, Atomicity::Blocks(_)) => "blocks",
            (Durability::OnReturn, Durability::OnReturn, Atomicity::Words) => "words",
            _ => "fsync",
        }
    }

    /// Checks that a call of fallocate(2) asks for nothing that is not kept: `EOPNOTSUPP` for a mode that only reserves, without
    /// [`Promises::reservations`]. `posix_fallocate` of the C library then writes the range.
    pub fn check_reserving(&self, mode: FallocateMode) -> Result<()> {
        let frees = FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE;
        if self.reservations || mode.intersects(frees) { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
    }

    /// Whether written data may be lost until it is synced.
    pub fn buffers_data(&self) -> bool {
        self.data == Durability::OnSync
    }
}

impl fmt::Display for Promises {
    /// One line: the clauses in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = |durability| match durability {
            Durability::OnReturn => "on return",
            Durability::OnSync => "after a sync",
        };
        match (self.metadata, self.data) {
            (Durability::OnReturn, Durability::OnReturn) => f.write_str("a call is durable on return")?,
            (Durability::OnSync, Durability::OnSync) => f.write_str("a call is durable after a sync")?,
            (metadata, data) => {
                write!(f, "metadata is durable {}, data {}", when(metadata), when(data))?;
            }
        }
        match self.write {
            Atomicity::Words => f.write_str("; a write is atomic in each word of 8 bytes")?,
            Atomicity::Blocks(bytes) => write!(f, "; a write is atomic in each block of {bytes} bytes")?,
            Atomicity::Whole => f.write_str("; a write is atomic")?,
        }
        f.write_str(match self.sync {
            SyncScope::File => "; fsync makes its file durable",
            SyncScope::FileAndMetadata => {
                "; fsync makes its file durable, and all earlier changes of metadata"
            }
        })?;
        let clauses = [
            (
                self.buffers_data() && self.size_is_durable_with_names,
                "a new name makes the file's size durable",
            ),
            (self.buffers_data() && self.truncate_syncs, "a truncation makes the file durable"),
            (self.msync_is_atomic, "an msync makes all that it covers durable, or nothing"),
            (self.stale_data, "a crash may show stale data"),
            (
                self.times_may_tear,
                "a crash may leave a time with the seconds of one change and the nanoseconds of another",
            ),
            (self.repaired, "a crash may leave damage that the next mount repairs"),
            (self.names_may_tear, "a crash may leave a name made of an old one and a new one"),
            (
                !self.reservations && !self.left_out.contains(LeftOut::RANGES),
                "no space can be reserved, as an overwrite needs new blocks",
            ),
        ];
        clauses.iter().filter(|(holds, _)| *holds).try_for_each(|(_, words)| write!(f, "; {words}"))?;
        let left_out = [
            (LeftOut::ATTRIBUTES, "extended attributes"),
            (LeftOut::EXCHANGES, "exchanges of names and whiteouts"),
            (LeftOut::RANGES, "fallocate"),
            (LeftOut::NODES, "devices, FIFOs and sockets"),
            (LeftOut::NAMELESS, "files without a name"),
            (LeftOut::HOLES, "holes"),
        ];
        let words: Vec<_> = left_out
            .iter()
            .filter(|(what, _)| self.left_out.contains(*what))
            .map(|(_, words)| *words)
            .collect();
        if !words.is_empty() {
            write!(f, "; left out: {}", words.join(", "))?;
        }
        if self.name_max < Self::STRICT.name_max {
            write!(f, "; names of at most {} bytes", self.name_max)?;
        }
        Ok(())
    }
}
