//! The medium of cells to which no axis gives one: it belongs to the machine, and a plan keeps the one that it had when it was
//! read, so that its result runs again on the same one.

use serde::{Deserialize, Serialize};
use sim::Clock;

use super::{Plan, Target};
use crate::machine::MachinePreset;

/// The medium of a machine that names none, and of results that are older than machines that name one: that of HiNFS's emulator.
pub const DEFAULT_MEDIUM: &str = "hinfs";

/// The medium of a plan in which none is named.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::PLANS;

    const NO_MEDIUM: &str = "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"1ms\"\n[[axis]]\nfs = [\"pmfs\", \"linux/ext4\"]\n\
                             [[workload]]\nname = \"filebench/varmail\"\n";

    fn media(plan: &Plan) -> Vec<String> {
        let cells = plan.cells().expect("the plan is sound");
        cells.iter().filter_map(|cell| cell.axes.get("medium").cloned()).collect()
    }

    fn on(machine: &str) -> Plan {
        let text = NO_MEDIUM.replace("stop", &format!("machine = \"{machine}\"\nstop"));
        Plan::parse("t.toml", &text, false).expect("a sound plan")
    }

    /// Models of a kernel's file systems are in its page cache, whatever the machine.
    #[test]
    fn a_plan_that_names_no_medium_has_that_of_its_machine_and_keeps_it() {
        let today = Plan::parse("t.toml", NO_MEDIUM, false).expect("a sound plan");
        assert_eq!(media(&today), ["cxl.asic", "dram"]);
        assert_eq!(media(&on("hinfs-server")), ["hinfs", "dram"]);
        assert_eq!(media(&on("rcache-server,kernel=none"))[0], "optane.100x6");
        let mut again = Plan::from_json(&on("fxmark-server").to_json()).expect("it comes back");
        again.machine = "spr-server".to_owned();
        assert_eq!(media(&again)[0], "dram", "a result runs again on the medium that it had");
    }

    #[test]
    fn a_result_of_before_and_a_machine_without_a_medium_have_that_of_the_emulator() {
        let mut before = Plan::parse("t.toml", NO_MEDIUM, false).expect("a sound plan").to_json();
        before.as_object_mut().expect("a plan is an object").remove("medium");
        assert_eq!(media(&Plan::from_json(&before).expect("it comes back"))[0], "hinfs");
        let none = UsualMedium::of("fast24-server", Clock::Virtual);
        assert_eq!((none.name.as_str(), none.machine), ("hinfs", None));
        assert_eq!(UsualMedium::of("spr-server", Clock::Real).machine, None, "it is this host");
    }

    #[test]
    fn every_plan_that_comes_with_weir_names_its_medium() {
        for preset in PLANS {
            let plan = Plan::load(preset.name, false).expect("a plan of the program");
            assert_eq!(plan.medium, None, "{}", preset.name);
        }
    }
}
