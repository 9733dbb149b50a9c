//! What an alternative of a reading changes in a plan, with the keys of a plan.
//!
//! | key | means |
//! |---|---|
//! | `plan`, `workload` | which; all of the paper if it is left out. The leading folder of a workload may be left out |
//! | `machine` | another machine, which may have values of its own: `hinfs-server,generator=6us` |
//! | `medium` | parameters of every medium of the plan |
//! | `fs` | options for every design that has them, or for those in `design` |
//! | `processor` | keys of simulated processors |
//! | `axis` | axes as a plan has them, in the place of those of the same name |
//! | `vars`, `switches`, `stop`, `region` | of workloads |
//! | `name` | another workload in the place of `workload`, which results go on calling by its name |
//! | `quick` | `vars`, `stop` and `region` that win in a scaled-down plan |
//!
//! In a scaled-down plan, which has fewer values, a new axis keeps of its values those that the plan has left, if there are any.

use std::collections::BTreeMap;

use sim::Bytes;

use crate::claims::Paper;
use crate::error::Error;
use crate::plan::{Axis, AxisValue, Place, Plan, Stop, Target, Workload, read};
use document::nearest;
use document::{Item, Problem, Table};

/// A change of some plans.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    plans: Vec<String>,
    workloads: Vec<String>,
    designs: Vec<String>,
    machine: Option<String>,
    medium: BTreeMap<String, String>,
    fs: BTreeMap<String, String>,
    processor: BTreeMap<String, String>,
    axes: Vec<Axis>,
    switches: BTreeMap<String, bool>,
    name: Option<String>,
    run: Running,
    quick: Running,
    at: Place,
}

/// What a workload runs with.
#[derive(Clone, Debug, Default, PartialEq)]
struct Running {
    vars: BTreeMap<String, String>,
    stop: Option<Stop>,
    region: Option<Bytes>,
}

impl Running {
    fn read(table: &Table<'_>) -> Result<Self, Problem> {
        Ok(Self {
            vars: table.get("vars").map_or(Ok(BTreeMap::new()), |item| item.read(read::words))?,
            stop: table.get("stop").map(|item| item.parse()).transpose()?,
            region: table.get("region").map(|item| item.parse()).transpose()?,
        })
    }

    fn apply(&self, workload: &mut Workload) {
        workload.vars.extend(self.vars.clone());
        workload.stop = self.stop.or(workload.stop);
        workload.region = self.region.or(workload.region);
    }
}

impl Change {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, Problem> {
        let words = |key| table.get(key).map_or(Ok(Vec::new()), |item: Item<'_>| item.words());
        let pairs = |key| table.get(key).map_or(Ok(BTreeMap::new()), |item: Item<'_>| item.read(read::words));
        let axes = table.get("axis").map_or(Ok(Vec::new()), |item| item.items())?;
        Ok(Self {
            plans: words("plan")?,
            workloads: words("workload")?,
            designs: words("design")?,
            machine: table.get("machine").map(|item| item.text()).transpose()?,
            medium: pairs("medium")?,
            fs: pairs("fs")?,
            processor: pairs("processor")?,
            axes: axes.iter().map(|item| item.read(read::axis)).collect::<Result<_, _>>()?,
            switches: table.get("switches").map_or(Ok(BTreeMap::new()), |item| item.read(read::switches))?,
            name: table.get("name").map(|item| item.text()).transpose()?,
            run: Running::read(table)?,
            quick: table.get("quick").map_or(Ok(Running::default()), |item| item.read(Running::read))?,
            at: Place::of(table),
        })
    }

    /// Whether it is about this plan.
    pub(super) fn concerns(&self, plan: &Plan) -> bool {
        self.plans.is_empty() || self.plans.contains(&plan.name)
    }

    /// The plans that it names must be the paper's, and one of those that it concerns must have the workloads that it names.
    pub(super) fn check(&self, paper: &Paper, plans: &[Plan]) -> Result<(), Error> {
        let known: Vec<&str> = paper.figures.iter().filter_map(|(_, plan)| plan.as_deref()).collect();
        if let Some(name) = self.plans.iter().find(|name| !known.contains(&name.as_str())) {
            let advice = nearest(name, known);
            return Err(self.at.problem(format!("the paper has no plan \"{name}\"; {advice}")));
        }
        let concerned: Vec<&Plan> = plans.iter().filter(|plan| self.concerns(plan)).collect();
        let is_whole = known.iter().all(|name| plans.iter().any(|plan| plan.name == *name));
        let called: Vec<String> = concerned.iter().flat_map(|plan| &plan.workload).map(called).collect();
        match self.workloads.iter().find(|name| !called.iter().any(|called| is(name, called))) {
            Some(name) if is_whole => {
                let known = called.iter().filter_map(|called| called.rsplit('/').next());
                let advice = nearest(name, known);
                Err(self.at.problem(format!("no plan has the workload \"{name}\"; {advice}")))
            }
            _ => Ok(()),
        }
    }

    /// Makes the change.
    pub(super) fn apply(&self, plan: &mut Plan) -> Result<(), Error> {
        if let Some(machine) = &self.machine {
            plan.machine.clone_from(machine);
        }
        if plan.is_of_processors() {
            plan.processor.extend(self.processor.clone());
        }
        // An SSD or a processor by itself has no such options.
        if self.designs.is_empty() && has_designs(plan) {
            plan.fs.extend(self.fs.clone());
        } else if !self.designs.is_empty() {
            self.set_options(plan)?;
        }
        self.axes.iter().try_for_each(|axis| put_axis(plan, axis))?;
        if !self.medium.is_empty() {
            self.set_medium(plan);
        }
        self.change_workloads(plan);
        Ok(())
    }

    /// Options of the named designs alone.
    fn set_options(&self, plan: &mut Plan) -> Result<(), Error> {
        let values = plan.axis.iter_mut().filter(|axis| axis.sets.contains(&Target::Design));
        let mut values: Vec<&mut AxisValue> = values.flat_map(|axis| &mut axis.values).collect();
        let mut found = false;
        for value in values.iter_mut().filter(|value| self.designs.contains(&value.label)) {
            value.options.extend(self.fs.clone());
            found = true;
        }
        let known = values.iter().map(|value| value.label.as_str());
        match found {
            true => Ok(()),
            false => {
                let (wanted, advice) = (self.designs.join(", "), nearest(&self.designs[0], known));
                Err(self.at.problem(format!("plan {} has no design {wanted}; {advice}", plan.name)))
            }
        }
    }

    /// The parameters as they follow the name of a medium.
    fn medium_keys(&self) -> String {
        self.medium.iter().flat_map(|(key, value)| [",", key, "=", value]).collect()
    }

    fn set_medium(&self, plan: &mut Plan) {
        let keys = self.medium_keys();
        if !plan.axis.iter().any(|axis| axis.sets.contains(&Target::Medium)) {
            plan.axis.extend(Axis::known("medium", [AxisValue::plain(plan.usual_medium())]));
        }
        let media = plan.axis.iter_mut().filter(|axis| axis.sets.contains(&Target::Medium));
        media.flat_map(|axis| &mut axis.values).for_each(|value| value.value += &keys);
    }

    fn change_workloads(&self, plan: &mut Plan) {
        let wanted = |workload: &Workload| {
            self.workloads.is_empty() || self.workloads.iter().any(|name| is(name, &called(workload)))
        };
        let quick = plan.quick;
        for workload in plan.workload.iter_mut().filter(|workload| wanted(workload)) {
            if let Some(name) = &self.name {
                workload.label = Some(called(workload));
                workload.name.clone_from(name);
            }
            self.run.apply(workload);
            workload.switches.extend(self.switches.clone());
            if quick {
                self.quick.apply(workload);
            }
        }
    }
}

/// Whether a plan compares designs.
fn has_designs(plan: &Plan) -> bool {
    let axes = plan.axis.iter().filter(|axis| axis.sets.contains(&Target::Design));
    axes.flat_map(|axis| &axis.values).any(|value| fs::by_name(&value.value).is_some())
}

/// What results call a workload.
fn called(workload: &Workload) -> String {
    workload.label.clone().unwrap_or_else(|| workload.name.clone())
}

/// Whether `name` means the workload called so; its leading folder may be left out.
fn is(name: &str, called: &str) -> bool {
    name == called || called.rsplit('/').next() == Some(name)
}

/// An axis in the place of the one of its name; one whose name says what it sets may be new.
fn put_axis(plan: &mut Plan, axis: &Axis) -> Result<(), Error> {
    let known: Vec<String> = plan.axis.iter().map(|axis| axis.name.clone()).collect();
    let Some(old) = plan.axis.iter_mut().find(|old| old.name == axis.name) else {
        if Axis::known(&axis.name, []).is_some() {
            plan.axis.push(axis.clone());
            return Ok(());
        }
        let advice = nearest(&axis.name, known.iter().map(String::as_str));
        return Err(axis.at.problem(format!("plan {} has no axis \"{}\"; {advice}", plan.name, axis.name)));
    };
    let mut new = axis.clone();
    if plan.quick {
        let left = |value: &AxisValue| old.values.iter().any(|other| other.label == value.label);
        if new.values.iter().any(left) {
            new.values.retain(left);
        }
    }
    *old = new;
    Ok(())
}
