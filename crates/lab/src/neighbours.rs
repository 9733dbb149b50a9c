//! The settings beside those of a plan: other sets of prices, the machine with and without the prices of its kernel's path, a
//! medium and machine that measurements stand behind, another length, other seeds, other machines, other media of the same
//! class. A winner that is one in all of them does not rest on one choice of the model.
//!
//! A setting is the plan with runs half as long: as many repeats as the test of a difference needs, or one where the plan has no
//! more than that. All settings together cost at most [`MOST_COST`] times the run; those behind are named and do not run. Axes
//! that the plan varies by itself are left as they are.

use results::statistics::LEAST_PAIRS;
use sim::Clock;

use crate::machine::MachinePreset;
use crate::plan::{Axis, AxisValue, Plan};
use crate::presets::MACHINES;
use crate::prices::{Prices, has_original};

/// A setting beside that of a plan.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// What is different: `seed 102`, `medium cxl.fpga`.
    pub what: String,
    /// The plan with it.
    pub plan: Plan,
}

/// The settings beside a plan.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// Those that run.
    pub run: Vec<Neighbour>,
    /// What those are called that would cost too much.
    pub left_out: Vec<String>,
}

/// What all settings may cost together, by the cost of the run.
pub const MOST_COST: u32 = 3;
/// A setting's runs are so many times shorter.
const SHORTER: u64 = 2;
/// A medium and a machine that rows of presets/validation were measured on.
const MEASURED: (&str, &str) = ("optane.100", "rcache-server");

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

/// The settings beside `plan`, each of which can run. Under the real clock there are only seeds and a length: no model is in it.
pub fn of(plan: &Plan) -> Neighbours {
    let mut all = Vec::new();
    if plan.clock == Clock::Virtual {
        all.extend(prices(plan));
        all.extend(path(plan));
        all.extend(memory(plan));
        all.extend(measured(plan));
    }
    let mut third = beside(plan, "a third as long", |_| ());
    shorten(&mut third.plan, plan, 3);
    all.push(third);
    for more in [101, 202] {
        let seed = plan.seed.wrapping_add(more);
        all.push(beside(plan, &format!("seed {seed}"), |plan| plan.seed = seed));
    }
    if plan.clock == Clock::Virtual {
        all.extend(machines(plan));
        all.extend(media(plan));
    }
    all.retain(|neighbour| neighbour.plan.cells().is_ok());
    let cost = repeats(plan);
    let most = (u64::from(MOST_COST * plan.repeats) * SHORTER / u64::from(cost)) as usize;
    let left_out = all.drain(most.min(all.len())..).map(|neighbour| neighbour.what).collect();
    Neighbours { run: all, left_out }
}

/// Repeats of a setting: those that the test of a difference needs, if the plan has more than them.
fn repeats(plan: &Plan) -> u32 {
    let tested = LEAST_PAIRS as u32;
    if plan.repeats >= tested { tested } else { 1 }
}

/// `plan` in its short form, with a change.
fn beside(plan: &Plan, what: &str, change: impl FnOnce(&mut Plan)) -> Neighbour {
    let mut neighbour = plan.clone();
    neighbour.repeats = repeats(plan);
    (neighbour.figure, neighbour.expect) = (Vec::new(), Vec::new());
    shorten(&mut neighbour, plan, SHORTER);
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

/// The sets of prices that rank the designs and that the plan does not have. Designs that all have an original pay the same under
/// `port` as under `originals`.
fn prices(plan: &Plan) -> Vec<Neighbour> {
    let known = plan.price_sets().unwrap_or_default();
    let ranking: &[Prices] = match plan.designs().values().all(|name| has_original(name)) {
        true => &[Prices::Originals, Prices::Ran],
        false => &Prices::TOGETHER,
    };
    let others = ranking.iter().filter(|prices| !known.is_empty() && !known.contains(prices));
    others
        .map(|prices| beside(plan, &format!("prices {prices}"), |plan| plan.prices = vec![*prices]))
        .collect()
}

fn base(machine: &str) -> &str {
    machine.split(',').next().unwrap_or_default()
}

/// The machine with the prices of its kernel's path if it leaves them out, and without them otherwise.
fn path(plan: &Plan) -> Option<Neighbour> {
    let base = base(&plan.machine).to_owned();
    let preset = MACHINES.iter().find(|preset| preset.name == base)?;
    if !preset.text.contains("[kernel.path]") {
        return None;
    }
    let off = plan.machine.split(',').any(|setting| ["path=none", "kernel=none"].contains(&setting));
    Some(match off {
        true => beside(plan, "the kernel's path and its prices", |plan| plan.machine = base),
        false => beside(plan, "no prices of the kernel's path", |plan| plan.machine += ",path=none"),
    })
}

/// The machine with memory whose latency and bandwidth are the same under load, if its own are not.
fn memory(plan: &Plan) -> Option<Neighbour> {
    let has = MachinePreset::load(&plan.machine).is_ok_and(|preset| preset.machine.memory.is_some());
    has.then(|| beside(plan, "memory that is the same under load", |plan| plan.machine += ",memory=none"))
}

/// The medium and the machine that measurements stand behind, unless they are the plan's.
fn measured(plan: &Plan) -> Option<Neighbour> {
    let (medium, machine) = MEASURED;
    let axis = plan.axis.iter().position(|axis| axis.name == "medium");
    let has = |at: usize| plan.axis[at].values.iter().any(|value| value.value == medium);
    if base(&plan.machine) == machine && axis.is_some_and(has) {
        return None;
    }
    let what = format!("medium {medium} and machine {machine}, which were measured");
    Some(beside(plan, &what, |plan| {
        machine.clone_into(&mut plan.machine);
        on_medium(plan, axis, medium);
    }))
}

fn on_medium(plan: &mut Plan, axis: Option<usize>, name: &str) {
    let value = Axis::known("medium", [AxisValue::plain(name)]).expect("plans have an axis of media");
    match axis {
        Some(at) => plan.axis[at] = value,
        None => plan.axis.push(value),
    }
}

fn machines(plan: &Plan) -> Vec<Neighbour> {
    let others = SERVERS.iter().filter(|name| **name != base(&plan.machine));
    let with =
        |name: &&str| beside(plan, &format!("machine {name}"), |plan| (*name).clone_into(&mut plan.machine));
    others.map(with).collect()
}

/// The media of the class of the plan's one medium; none where an axis varies it.
fn media(plan: &Plan) -> Vec<Neighbour> {
    let axis = plan.axis.iter().position(|axis| axis.name == "medium");
    let medium = match axis.map(|at| &plan.axis[at].values[..]) {
        None => plan.usual_medium(),
        Some([only]) => only.value.split(',').next().unwrap_or_default(),
        Some(_) => return Vec::new(),
    };
    let class = CLASSES.iter().find(|class| class.contains(&medium)).copied().unwrap_or_default();
    let others = class.iter().filter(|name| **name != medium);
    let with = |name: &str| beside(plan, &format!("medium {name}"), |plan| on_medium(plan, axis, name));
    others.map(|name| with(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(axes: &str) -> Plan {
        let text = format!(
            "[plan]\nname = \"p\"\nwhy = \"w\"\nstop = \"60ms\"\nrepeats = 12\n[[axis]]\nfs = [\"pmfs\", \"hinfs\"]\n{axes}\
             [[workload]]\nname = \"filebench/varmail\"\nvars = {{ nfiles = 500 }}\n"
        );
        Plan::parse("p.toml", &text, false).unwrap()
    }

    fn whats(all: &Neighbours) -> Vec<&str> {
        all.run.iter().map(|one| one.what.as_str()).collect()
    }

    #[test]
    fn settings_differ_in_one_thing_each_and_have_the_repeats_of_a_test_half_as_long() {
        let all = of(&plan(""));
        assert_eq!(
            whats(&all),
            [
                "prices ran",
                "no prices of the kernel's path",
                "memory that is the same under load",
                "medium optane.100 and machine rcache-server, which were measured",
                "a third as long",
                "seed 102",
                "seed 203",
                "machine hinfs-server",
                "machine rcache-server",
                "machine fxmark-server",
                "medium cxl.fast",
                "medium cxl.montage",
                "medium cxl.fpga",
            ]
        );
        assert!(all.run.iter().all(|one| one.plan.repeats == 4 && one.plan.cells().unwrap().len() == 2));
        let stops: Vec<String> = all.run.iter().map(|one| one.plan.stop.to_string()).collect();
        assert_eq!(stops[3..5], ["30ms", "20ms"]);
    }

    #[test]
    fn settings_cost_at_most_three_times_the_run_and_what_that_leaves_out_is_named() {
        for repeats in [1, 2, 4, 6, 12] {
            let plan = Plan { repeats, ..plan("") };
            let all = of(&plan);
            let cost: u32 = all.run.iter().map(|one| one.plan.repeats).sum();
            assert!(
                cost <= SHORTER as u32 * MOST_COST * repeats,
                "{cost} half runs beside {repeats} repeats"
            );
            assert_eq!(all.run.len() + all.left_out.len(), 13, "{:?}", all.left_out);
            assert_eq!(whats(&all)[0], "prices ran");
        }
    }

    #[test]
    fn what_a_plan_varies_is_left_and_the_medium_is_of_the_same_class() {
        let of_media = |all: &Neighbours| -> Vec<String> {
            all.run.iter().filter_map(|one| one.what.strip_prefix("medium ")).map(str::to_owned).collect()
        };
        let all = of(&plan("[[axis]]\nmedium = [\"cxl.asic,extra=300ns\"]\n"));
        assert_eq!(of_media(&all)[1..], ["cxl.fast", "cxl.montage", "cxl.fpga"]);
        let all = of(&plan("[[axis]]\nmedium = [\"dram\", \"cxl.fpga\"]\n"));
        assert_eq!(of_media(&all).len(), 1, "the measured one");
    }

    #[test]
    fn designs_without_an_original_are_tried_under_the_sets_that_a_plan_leaves_out_and_the_path_comes_back() {
        let mut of_crest = plan("");
        of_crest.keep_designs(&["pmfs".to_owned()]).unwrap();
        of_crest.axis[0].values.push(AxisValue::plain("crest"));
        of_crest.prices = vec![Prices::Ran];
        assert_eq!(whats(&of(&of_crest))[..2], ["prices port:least", "prices port:most"]);
        of_crest.prices = Vec::new();
        of_crest.machine = "spr-server,path=none".to_owned();
        assert_eq!(whats(&of(&of_crest))[0], "the kernel's path and its prices");
    }
}
