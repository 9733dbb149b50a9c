//! Events of processors while a sample is measured: the host's own counters, and those of a simulated processor.
//!
//! | module | holds |
//! |---|---|
//! | [`events`] | the host's events by name, in groups that are counted together |
//! | [`probe`] | which of them this host counts: each is opened, and counts something known |
//! | `counting` | counts while a workload runs |
//! | `refusal` | why the kernel refuses to count, and what helps |
//! | [`simulated`] | the same cell under qemu's user mode, with a plugin that simulates caches and TLBs |
//!
//! The two sources never meet in one number: counters of the host are called `event.NAME`, those of the simulation `sim_NAME`.

pub(crate) mod counting;
pub mod events;
pub mod probe;
pub(crate) mod refusal;
pub mod simulated;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which events are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Counters {
    /// None.
    #[default]
    None,
    /// Those of the host's processor and kernel.
    Real,
    /// Those of a simulated processor.
    Simulated,
    /// Both.
    Both,
}

impl Counters {
    /// The words for them, as plans and commands have them.
    pub const WORDS: [(&'static str, Self); 3] =
        [("real", Self::Real), ("simulated", Self::Simulated), ("both", Self::Both)];

    /// Whether none are.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Whether those of the host are.
    pub fn real(self) -> bool {
        matches!(self, Self::Real | Self::Both)
    }

    /// Whether those of a simulated processor are.
    pub fn simulated(self) -> bool {
        matches!(self, Self::Simulated | Self::Both)
    }
}

impl FromStr for Counters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::WORDS.into_iter().find(|(word, _)| *word == text);
        known.map(|(_, counters)| counters).ok_or_else(|| "expected real, simulated or both".to_owned())
    }
}
