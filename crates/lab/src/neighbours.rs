//! The settings beside those of a plan: other seeds, another length, other machines, other media of the same class, and the machine
//! without the prices of its kernel's path. A winner that is one in all of them does not rest on one choice of the model.
//!
//! A neighbour is the plan in a quick form: one repeat of half its length, which costs as much as half a repeat. Axes that the plan
//! varies by itself are left as they are.

use sim::Clock;

use crate::machine::MachinePreset;
use crate::plan::{Axis, AxisValue, Plan};
use crate::presets::MACHINES;

/// A setting beside that of a plan.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// What is different: `seed 102`, `medium cxl.fpga`.
    pub what: String,
    /// The plan with it.
    pub plan: Plan,
}

/// Classes of media: those that stand for one another, by name.
const CLASSES: [&[&str]; 5] = [
    &["hinfs", "pmep", "nova.pcm", "nova.sttram"],
    &["optane.100", "optane.100x6", "optane.flat"],
    &["cxl.fast", "cxl.asic", "cxl.montage", "cxl.fpga"],
    &["classic", "revised"],
    &["fast24", "nvme-a", "nvme-b"],
];

/// A server of today, and the machines of published studies, one each.
const SERVERS: [&str; 4] = ["spr-server", "hinfs-server", "rcache-server", "fxmark-server"];

/// The neighbours of `plan`, each of which can run. Under the real clock there are only seeds and a length: no model is in it.
pub fn of(plan: &Plan) -> Vec<Neighbour> {
    let mut third = beside(plan, "a third as long", |_| ());
    shorten(&mut third.plan, plan, 3);
    let mut all = vec![third];
    for more in [101, 202] {
        let seed = plan.seed.wrapping_add(more);
        all.push(beside(plan, &format!("seed {seed}"), |plan| plan.seed = seed));
    }
    if plan.clock == Clock::Virtual {
        all.extend(machines(plan));
        all.extend(media(plan));
    }
    all.retain(|neighbour| neighbour.plan.cells().is_ok());
    all
}

/// `plan` in its quick form, with a change.
fn beside(plan: &Plan, what: &str, change: impl FnOnce(&mut Plan)) -> Neighbour {
    let mut neighbour = plan.clone();
    neighbour.repeats = 1;
    (neighbour.figure, neighbour.expect) = (Vec::new(), Vec::new());
    shorten(&mut neighbour, plan, 2);
    change(&mut neighbour);
    neighbour.name = format!("{} with {what}", plan.name);
    Neighbour { what: what.to_owned(), plan: neighbour }
}

/// Makes the runs of `neighbour` one of `parts` parts of those of `plan`; runs that end by themselves are left.
fn shorten(neighbour: &mut Plan, plan: &Plan, parts: u64) {
    neighbour.stop = plan.stop.shorter(parts);
    for (own, of_plan) in neighbour.workload.iter_mut().zip(&plan.workload) {
        own.stop = of_plan.stop.map(|stop| stop.shorter(parts));
    }
}

fn machines(plan: &Plan) -> Vec<Neighbour> {
    let base = plan.machine.split(',').next().unwrap_or_default().to_owned();
    let others = SERVERS.iter().filter(|name| **name != base);
    let mut all: Vec<Neighbour> = others
        .map(|name| beside(plan, &format!("machine {name}"), |plan| (*name).clone_into(&mut plan.machine)))
        .collect();
    if MACHINES.iter().any(|preset| preset.name == base) {
        let what = "no prices of the kernel's path";
        all.push(beside(plan, what, |plan| plan.machine += ",path=none"));
    }
    if MachinePreset::load(&plan.machine).is_ok_and(|preset| preset.machine.memory.is_some()) {
        let what = "memory that is the same under load";
        all.push(beside(plan, what, |plan| plan.machine += ",memory=none"));
    }
    all
}

/// The media of the class of the plan's one medium; none where an axis varies it.
fn media(plan: &Plan) -> Vec<Neighbour> {
    let axis = plan.axis.iter().position(|axis| axis.name == "medium");
    let medium = match axis.map(|at| &plan.axis[at].values[..]) {
        None => "hinfs",
        Some([only]) => only.value.split(',').next().unwrap_or_default(),
        Some(_) => return Vec::new(),
    };
    let class = CLASSES.iter().find(|class| class.contains(&medium)).copied().unwrap_or_default();
    let others = class.iter().filter(|name| **name != medium);
    let with = |name: &str| {
        beside(plan, &format!("medium {name}"), |plan| {
            let value = Axis::known("medium", [AxisValue::plain(name)]).expect("plans have an axis of media");
            match axis {
                Some(at) => plan.axis[at] = value,
                None => plan.axis.push(value),
            }
        })
    };
    others.map(|name| with(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(axes: &str) -> Plan {
        let text = format!(
            "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"60ms\"\nrepeats = 6\n[[axis]]\nfs = [\"pmfs\", \"hinfs\"]\n{axes}\
             [[workload]]\nname = \"filebench/varmail\"\nvars = {{ nfiles = 500 }}\n"
        );
        Plan::parse("p.toml", &text, false).unwrap()
    }

    #[test]
    fn neighbours_differ_in_one_thing_each_and_run_once_half_as_long() {
        let all = of(&plan(""));
        let whats: Vec<&str> = all.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(
            whats,
            [
                "a third as long",
                "seed 102",
                "seed 203",
                "machine hinfs-server",
                "machine rcache-server",
                "machine fxmark-server",
                "no prices of the kernel's path",
                "memory that is the same under load",
                "medium pmep",
                "medium nova.pcm",
                "medium nova.sttram",
            ]
        );
        assert!(all.iter().all(|one| one.plan.repeats == 1 && one.plan.cells().unwrap().len() == 2));
        let stops: Vec<String> = all.iter().map(|one| one.plan.stop.to_string()).collect();
        assert_eq!(stops[..2], ["20ms", "30ms"]);
    }

    #[test]
    fn what_a_plan_varies_is_left_and_the_medium_is_of_the_same_class() {
        let all = of(&plan("[[axis]]\nmedium = [\"cxl.asic,extra=300ns\"]\n"));
        let media: Vec<&str> = all.iter().filter_map(|one| one.what.strip_prefix("medium ")).collect();
        assert_eq!(media, ["cxl.fast", "cxl.montage", "cxl.fpga"]);
        let all = of(&plan("[[axis]]\nmedium = [\"dram\", \"cxl.fpga\"]\n"));
        assert!(!all.iter().any(|one| one.what.starts_with("medium ")));
    }
}
