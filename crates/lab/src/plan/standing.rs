//! Whose place among the designs of a plan is counted, and the class of promise of each: designs are compared within a class only.

use std::collections::BTreeMap;

use document::{Problem, Table, nearest};
use serde::{Deserialize, Serialize};

use super::{AxisValue, Plan, Target};

/// Designs of the plan, and what all of its designs promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The labels of the designs whose place is counted: of one design, in one or several classes.
    pub of: Vec<String>,
    /// The class of promise (`vfs::Promises::class`) of each design by its label, under the options of the plan. A directory or
    /// file system of the host has none.
    pub classes: BTreeMap<String, String>,
}

impl Standing {
    /// Reads the table of a plan whose axes and options are known.
    pub(super) fn read(table: &Table<'_>, plan: &Plan) -> Result<Self, Problem> {
        let items = table.need("of", "the label of a design, or several")?.one_or_more()?;
        table.finish()?;
        let designs = || {
            let axes = plan.axis.iter().filter(|axis| axis.sets.contains(&Target::Design));
            axes.flat_map(|axis| &axis.values)
        };
        let mut of = Vec::new();
        for item in items {
            let label = item.text()?;
            if !designs().any(|value| value.label == label) {
                let advice = nearest(&label, designs().map(|value| value.label.as_str()));
                return Err(
                    item.problem(format!("no design of the plan has the label \"{label}\"; {advice}"))
                );
            }
            of.push(label);
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
        assert_eq!(all.of, ["hinfs"]);
        let several = plan("", "[standing]\nof = [\"hinfs\", \"synced\"]\n").unwrap().standing.unwrap();
        assert_eq!(several.of, ["hinfs", "synced"]);
    }

    #[test]
    fn a_standing_of_no_design_is_refused_with_its_place() {
        for of in ["\"novae\"", "[\"pmfs\", \"novae\"]"] {
            let wrong = plan("", &format!("[standing]\nof = {of}\n")).unwrap_err().to_string();
            assert!(wrong.contains("novae") && wrong.contains("did you mean \"nova\""), "{wrong}");
        }
    }
}
