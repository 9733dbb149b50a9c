//! The locks and cache lines that a plan makes free: known before anything runs, and only those that a cell can have.

use sim::{Clock, LockClass};

use super::{Plan, Target, Workload};
use crate::contention;
use crate::error::Error;
use crate::machine::MachinePreset;
use crate::named;
use document::nearest_of;

/// What is free when nothing is.
pub const NOTHING: &str = "nothing";

/// What is free when all that a cell can have is.
pub const EVERYTHING: &str = "everything";

/// The classes of a value: `pmfs.inode`, or several, `pmfs.inode+vfs.references`.
pub fn names(value: &str) -> impl Iterator<Item = &str> {
    value.split('+').filter(|name| ![NOTHING, EVERYTHING].contains(name))
}

impl Plan {
    /// Each class that an axis makes free must be one that a cell can have.
    pub(super) fn check_free(&self) -> Result<(), Error> {
        let freeing = self.axis.iter().filter(|axis| axis.sets.contains(&Target::Free));
        let wanted: Vec<_> = freeing
            .flat_map(|axis| {
                axis.values.iter().flat_map(|value| names(&value.value)).map(move |name| (axis, name))
            })
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let known = self.all_classes()?;
        let unknown = wanted.iter().filter(|(_, name)| !known.contains(name));
        let told = unknown.map(|(axis, name)| axis.at.problem(no_class(name, &known)));
        Error::together(told).map_or(Ok(()), Err)
    }

    /// The names of the classes that any cell can have.
    fn all_classes(&self) -> Result<Vec<&'static str>, Error> {
        let mut known = Vec::new();
        let designs = self.axis.iter().filter(|axis| axis.sets.contains(&Target::Design));
        for design in designs.flat_map(|axis| &axis.values).filter_map(|value| fs::by_name(&value.value)) {
            for workload in &self.workload {
                known.extend(self.classes(design, workload)?.into_iter().map(LockClass::name));
            }
        }
        known.sort_unstable();
        known.dedup();
        Ok(known)
    }

    /// The classes that a cell of this design and workload can have.
    fn classes(
        &self,
        design: &dyn design::Design,
        workload: &Workload,
    ) -> Result<Vec<&'static LockClass>, Error> {
        let Some(suite) = named::suite_of(&workload.name) else { return Ok(Vec::new()) };
        let kernel = self.clock == Clock::Virtual && MachinePreset::load(&self.machine)?.kernel.is_some();
        Ok(contention::of_cell(design, suite, kernel))
    }

    /// What is free in a cell of this design and workload of what `value` names; none where the cell can have none of it.
    pub(super) fn free_of(
        &self,
        design: &dyn design::Design,
        workload: &Workload,
        value: &str,
    ) -> Result<Option<String>, Error> {
        let classes = self.classes(design, workload)?;
        let has = |name: &&str| classes.iter().any(|class| class.name() == *name);
        let own: Vec<&str> = match value {
            EVERYTHING => classes.iter().map(|class| class.name()).collect(),
            _ => names(value).filter(has).collect(),
        };
        Ok((!own.is_empty()).then(|| own.join("+")))
    }
}

fn no_class(name: &str, known: &[&str]) -> String {
    let near = match nearest_of(name, known.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"? There are"),
        None => "there are".to_owned(),
    };
    let known = known.join(", ");
    format!("no cell can have a lock or cache line called \"{name}\", to be free; {near}: {known}")
}
