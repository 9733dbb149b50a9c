//! Protocols with one deliberate error each. A campaign that does not notice them proves nothing.

use super::recovery;
use crate::engine::Flaws;
use crate::error::{Error, unknown};
use crate::machine::Machine;

/// An error in the protocol of `fwb`, or in that of a software log that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A log buffer of 256 lines, and data that do not wait for it.
    BufferByTime,
    /// The fwb bit does not move with its line, and the head does not wait a scan longer.
    NoPropagation,
    /// The head passes the first record of an active transaction.
    HeadIgnoresActive,
    /// The head becomes durable after the records that reuse the space before it.
    LateSuperblock,
    /// Recovery takes records of any pass.
    NoTornBit,
    /// A torn bit in the first word, and no checksum.
    BareTornBit,
    /// A record is made before its line arrives.
    EarlyRecord,
    /// A commit is acknowledged before its record is durable.
    EarlyAcknowledge,
    /// Recovery redoes from the newest record to the oldest.
    ReverseRedo,
    /// Recovery takes a number that is used again for one transaction.
    NoInstance,
    /// The head of a shared software log passes what other threads need.
    HeadIgnoresThreads,
    /// Space of a shared software log is used again before the superblock that frees it is durable.
    EarlyReuse,
    /// Recovery of a shared software log stops at the first record that is not whole.
    StopAtHole,
    /// Recovery of a shared software log leaves what an earlier pass left in its holes.
    KeepHoles,
}

impl Mutant {
    /// All.
    pub const ALL: [Self; 14] = [
        Self::BufferByTime,
        Self::NoPropagation,
        Self::HeadIgnoresActive,
        Self::LateSuperblock,
        Self::NoTornBit,
        Self::BareTornBit,
        Self::EarlyRecord,
        Self::EarlyAcknowledge,
        Self::ReverseRedo,
        Self::NoInstance,
        Self::HeadIgnoresThreads,
        Self::EarlyReuse,
        Self::StopAtHole,
        Self::KeepHoles,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::BufferByTime => "buffer-by-time",
            Self::NoPropagation => "no-propagation",
            Self::HeadIgnoresActive => "head-ignores-active",
            Self::LateSuperblock => "late-superblock",
            Self::NoTornBit => "no-torn-bit",
            Self::BareTornBit => "bare-torn-bit",
            Self::EarlyRecord => "early-record",
            Self::EarlyAcknowledge => "early-acknowledge",
            Self::ReverseRedo => "reverse-redo",
            Self::NoInstance => "no-instance",
            Self::HeadIgnoresThreads => "head-ignores-threads",
            Self::EarlyReuse => "early-reuse",
            Self::StopAtHole => "stop-at-hole",
            Self::KeepHoles => "keep-holes",
        }
    }

    /// The scheme whose protocol it breaks.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::HeadIgnoresThreads => "undo-clwb",
            Self::EarlyReuse | Self::StopAtHole | Self::KeepHoles => "redo-clwb",
            _ => "fwb",
        }
    }

    /// The mutant called `name`.
    ///
    /// # Errors
    /// [`Error::Unknown`] names the nearest one.
    pub fn by_name(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|mutant| mutant.name() == name);
        found.ok_or_else(|| unknown("mutant", name, Self::ALL.iter().map(|mutant| mutant.name())))
    }

    /// What it changes in the machine.
    ///
    /// # Errors
    /// Never, as long as the keys stand.
    pub fn change(self, machine: &mut Machine) -> Result<(), Error> {
        let changes: &[(&str, &str)] = match self {
            Self::BufferByTime => &[("log_buffer", "256"), ("log_bound", "timing")],
            Self::NoPropagation => &[("fwb_propagate", "no"), ("fwb_lag", "1")],
            Self::HeadIgnoresThreads | Self::StopAtHole | Self::KeepHoles => &[("sw_log", "process")],
            // A log so small that the space which a move of the head frees is used at once.
            Self::EarlyReuse => &[("sw_log", "process"), ("log_size", "1KiB")],
            _ => &[],
        };
        changes.iter().try_for_each(|(key, value)| machine.set(key, value))
    }

    /// What it changes in the engine.
    pub(crate) fn flaws(self) -> Flaws {
        Flaws {
            head_ignores_active: self == Self::HeadIgnoresActive,
            late_superblock: self == Self::LateSuperblock,
            early_record: self == Self::EarlyRecord,
            early_acknowledge: self == Self::EarlyAcknowledge,
            bare_torn_bit: self == Self::BareTornBit,
            head_ignores_threads: self == Self::HeadIgnoresThreads,
            early_reuse: self == Self::EarlyReuse,
        }
    }

    /// What it changes in recovery.
    pub fn recovery(self) -> recovery::Flaws {
        recovery::Flaws {
            any_pass: self == Self::NoTornBit,
            reverse_redo: self == Self::ReverseRedo,
            no_instance: self == Self::NoInstance,
            stop_at_hole: self == Self::StopAtHole,
            keep_holes: self == Self::KeepHoles,
        }
    }
}
