//! Protocols with one deliberate error each. A campaign that does not notice them proves nothing.

use super::recovery;
use crate::engine::Flaws;
use crate::error::{Error, unknown};
use crate::machine::Machine;

/// An error in the protocol of `fwb`.
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
}

impl Mutant {
    /// All.
    pub const ALL: [Self; 10] = [
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
            _ => &[],
        };
        changes.iter().try_for_each(|(key, value)| machine.set(key, value))
    }

    /// What it changes in the engine.
    pub fn flaws(self) -> Flaws {
        Flaws {
            head_ignores_active: self == Self::HeadIgnoresActive,
            late_superblock: self == Self::LateSuperblock,
            early_record: self == Self::EarlyRecord,
            early_acknowledge: self == Self::EarlyAcknowledge,
            bare_torn_bit: self == Self::BareTornBit,
        }
    }

    /// What it changes in recovery.
    pub fn recovery(self) -> recovery::Flaws {
        recovery::Flaws {
            any_pass: self == Self::NoTornBit,
            reverse_redo: self == Self::ReverseRedo,
            no_instance: self == Self::NoInstance,
        }
    }
}
