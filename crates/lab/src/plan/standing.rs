//! Whose place among the designs of a plan is counted, and the class of promise of each: designs are compared within a class only.

use std::collections::BTreeMap;

use document::{Problem, Table, nearest};
use serde::{Deserialize, Serialize};

use super::{AxisValue, Plan, Target};

/// A design of the plan, and what all of its designs promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The label of the design.
    pub of: String,
    /// The class of promise (`vfs::Promises::class`) of each design by its label, under the options of the plan. A directory or
    /// file system of the host has none.
    pub classes: BTreeMap<String, String>,
}

impl Standing {
    /// Reads the table of a plan whose axes and options are known.
    pub(super) fn read(table: &Table<'_>, plan: &Plan) -> Result<Self, Problem> {
        let item = table.need("of", "the label of a design")?;
        let of = item.text()?;
        table.finish()?;
        let designs = || {
            let axes = plan.axis.iter().filter(|axis| axis.sets.contains(&Target::Design));
            axes.flat_map(|axis| &axis.values)
        };
        if !designs().any(|value| value.label == of) {
            let known = designs().map(|value| value.label.as_str());
            let advice = nearest(&of, known);
            return Err(item.problem(format!("no design of the plan has the label \"{of}\"; {advice}")));
        }
        let class = |value: &AxisValue| Some((value.label.clone(), plan.class_of(value)?.to_owned()));
        Ok(Self { of, classes: designs().filter_map(class).collect() })
    }
}

impl Plan {
    /// The class of promise of a value of the axis of designs; none of what is no design, or has wrong options, which the check of
    /// the cells reports.
    fn class_of(&self, value: &AxisValue) -> Option<&'static str> {
        let design = fs::by_name(&value.value)?;
        let has = |name: &str| design.options().iter().any(|option| option.name == name);
        let shared = self.fs.iter().filter(|(name, _)| has(name));
        let mut given: BTreeMap<String, String> = shared.map(|(k, v)| (k.clone(), v.clone())).collect();
        given.extend(value.options.clone());
        let options = super::matrix::resolve(design, &given).ok()?;
        Some(design.promises(&options).class())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(head: &str, rest: &str) -> Result<Plan, crate::Error> {
        let text = format!(
            "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"1ms\"\n\
             [[axis]]\nfs = [\"nova\", \"pmfs\", \"hinfs\", {{ name = \"hinfs\", label = \"synced\"{head} }}]\n\
             [[workload]]\nname = \"filebench/varmail\"\n{rest}"
        );
        Plan::parse("t.toml", &text, false)
    }

    #[test]
    fn the_class_of_a_design_is_that_of_its_options() {
        let standing =
            plan(", sync = true", "[standing]\nof = \"nova\"\n").unwrap().standing.expect("it was given");
        let classes: Vec<_> =
            standing.classes.iter().map(|(of, class)| (of.as_str(), class.as_str())).collect();
        assert_eq!(classes, [("hinfs", "fsync"), ("nova", "whole"), ("pmfs", "words"), ("synced", "words")]);
        let all = plan("", "[fs]\nsync = true\n[standing]\nof = \"hinfs\"\n").unwrap().standing.unwrap();
        assert_eq!(all.classes["hinfs"], "words", "an option of all designs counts");
    }

    #[test]
    fn a_standing_of_no_design_is_refused_with_its_place() {
        let wrong = plan("", "[standing]\nof = \"novae\"\n").unwrap_err().to_string();
        assert!(wrong.contains("novae") && wrong.contains("did you mean \"nova\""), "{wrong}");
    }
}
