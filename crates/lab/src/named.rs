//! The workload of a cell by its name: one that is built into a suite, or a file of a suite that has files.

use std::path::Path;
use std::sync::Arc;

use workload::suite::{self, LoadError, Settings};
use workload::{SUITES, Suite, Workload};

use crate::error::{Error, nearest_of, read_to_string};

/// The workload called `name` with `settings` in place of its own values.
pub fn load(name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, Error> {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let of_file = |suite: &&&dyn Suite| extension.is_some() && suite.extension() == extension;
    let loaded = if let Some(suite) = SUITES.iter().find(of_file) {
        let advice = "`weir list workloads` shows those that are built in";
        let text = read_to_string(Path::new(name), "workload file", advice)?;
        check_switches(*suite, settings)?;
        suite.read(name, &text, settings)
    } else {
        let (suite, entry) = suite::find(name).ok_or_else(|| unknown(name))?;
        check_switches(suite, settings)?;
        suite.load(entry.name, settings)
    };
    loaded.map_err(|error| match error {
        LoadError::Unknown(name) => unknown(&name),
        wrong => Error::Setting(wrong.to_string()),
    })
}

/// A switch must be one of the suite's.
fn check_switches(suite: &dyn Suite, settings: &Settings) -> Result<(), Error> {
    let known = || suite.switches().iter().map(|switch| switch.name);
    match settings.switches.keys().find(|name| !known().any(|known| known == name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::Unknown {
            what: "switch",
            name: name.clone(),
            advice: crate::error::nearest(name, known()),
        }),
    }
}

fn unknown(name: &str) -> Error {
    let short = name.rsplit('/').next().unwrap_or(name);
    let entries: Vec<_> = suite::all().collect();
    let near = nearest_of(short, entries.iter().map(|(_, entry)| entry.name));
    let near = near.and_then(|near| entries.iter().find(|(_, entry)| entry.name == near));
    let advice = match near {
        Some((suite, entry)) => format!("did you mean \"{}\"?", suite::full_name(*suite, *entry)),
        None => "`weir list workloads` shows what there is".to_owned(),
    };
    Error::Unknown { what: "workload", name: name.to_owned(), advice }
}

/// The full names of what is given on the command line: `varmail` is the workload of that name with its suite's before it, and
/// the name of a suite stands for all its workloads.
pub fn full_names(name: &str) -> Vec<String> {
    if let Some(suite) = suite::by_name(name) {
        return suite.entries().into_iter().map(|entry| suite::full_name(suite, entry)).collect();
    }
    vec![suite::find(name).map_or_else(|| name.to_owned(), |(suite, entry)| suite::full_name(suite, entry))]
}
