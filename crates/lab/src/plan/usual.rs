//! The medium of cells to which no axis gives one: it belongs to the machine, and a plan keeps the one that it had when it was read, so
//! that its result runs again on the same one.

use serde::{Deserialize, Serialize};
use sim::Clock;

use super::{Plan, Target};
use crate::machine::MachinePreset;

/// The medium of a machine that names none, and of results that are older than machines that name one: that of HiNFS's emulator.
pub const DEFAULT_MEDIUM: &str = "hinfs";

/// A medium that nobody has chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsualMedium {
    /// Its name.
    pub name: String,
    /// The machine that names it; none where the machine names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

impl UsualMedium {
    /// That of a machine, which under the real clock is this host and names none. A machine that does not exist is told elsewhere.
    pub fn of(machine: &str, clock: Clock) -> Self {
        let preset = (clock == Clock::Virtual).then(|| MachinePreset::load(machine)).and_then(Result::ok);
        match preset.and_then(|preset| Some((preset.medium?.value, preset.machine.name))) {
            Some((name, machine)) => Self { name, machine: Some(machine) },
            None => Self { name: DEFAULT_MEDIUM.to_owned(), machine: None },
        }
    }
}

impl Plan {
    /// Gives a plan whose axes name no medium that of its machine. A plan without designs has none.
    pub fn settle_medium(&mut self) {
        let has = |target| self.axis.iter().any(|axis| axis.sets.contains(&target));
        let is_open = has(Target::Design) && !has(Target::Medium);
        self.medium = is_open.then(|| UsualMedium::of(&self.machine, self.clock));
    }

    /// The medium of cells to which no axis gives one.
    pub fn usual_medium(&self) -> &str {
        self.medium.as_ref().map_or(DEFAULT_MEDIUM, |medium| &medium.name)
    }
}
