//! The workload of a cell by its name: one that is built into a suite, or a file of a suite that has files.
//!
//! Lock order: one lock, of the hashes that are known; nothing is called while it is held.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::{Value, json};
use sim::{Clock, Nanos};
use workload::suite::{self, LoadError, Settings};
use workload::{SUITES, Suite, Workload};

use crate::canonical;
use crate::error::{Error, read_to_string};
use crate::presets;
use document::nearest_of;

/// The workload called `name` with `settings` in place of its own values.
pub fn load(name: &str, settings: &Settings) -> Result<Arc<dyn Workload>, Error> {
    let loaded = if let Some((suite, file)) = file_of(name) {
        check_switches(suite, settings)?;
        match suite.open(Path::new(file), settings) {
            Some(opened) => opened,
            None => suite.read(file, &text(file)?, settings),
        }
    } else {
        let (suite, short) = suite::find(name)
            .map(|(suite, entry)| (suite, entry.name))
            // A suite may know more of a name than that it has no such workload.
            .or_else(|| name.split_once('/').and_then(|(suite, short)| Some((suite::by_name(suite)?, short))))
            .ok_or_else(|| unknown(name))?;
        check_switches(suite, settings)?;
        suite.load(short, settings)
    };
    loaded.map_err(|error| match error {
        LoadError::Unknown(_) => unknown(name),
        LoadError::Host(missing) => Error::Host(missing),
        wrong => Error::Setting(wrong.to_string()),
    })
}

/// The text of a workload's file: one of those that rows of `presets/validation` name, or one of the user's.
pub fn text(name: &str) -> Result<String, Error> {
    let advice = "`weir list workloads` prints those that are built in";
    match presets::of_validation(name) {
        Some(file) => Ok(file.text.to_owned()),
        None => read_to_string(Path::new(name), "workload file", advice),
    }
}

/// What the workload called `name` is written in: the hash of its text, or its name where it is code.
pub(crate) fn source(name: &str) -> Result<Value, Error> {
    if let Some((_, file)) = file_of(name) {
        return Ok(json!({ "sha256": hash_of(file)? }));
    }
    let (suite, entry) = suite::find(name).ok_or_else(|| unknown(name))?;
    let text = suite.extension().and_then(|_| suite.describe(entry.name));
    Ok(match text {
        Some(text) => json!({ "sha256": canonical::sha256(text) }),
        None => json!({ "built_in": suite::full_name(suite, entry) }),
    })
}

/// The hash of a workload's file. A recorded trace may have gigabytes and many cells: it is read again only if it has changed.
fn hash_of(file: &str) -> Result<String, Error> {
    type Stamp = (PathBuf, u64, Option<SystemTime>);
    static KNOWN: Mutex<BTreeMap<Stamp, String>> = Mutex::new(BTreeMap::new());
    if let Some(file) = presets::of_validation(file) {
        return Ok(canonical::sha256(file.text));
    }
    let io = |source| Error::Io { action: "read", path: file.into(), source };
    let (path, data) = (std::fs::canonicalize(file).map_err(io)?, std::fs::metadata(file).map_err(io)?);
    let stamp = (path, data.len(), data.modified().ok());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = known().get(&stamp) {
        return Ok(hash.clone());
    }
    let hash = File::open(file).and_then(canonical::sha256_of).map_err(io)?;
    known().insert(stamp, hash.clone());
    Ok(hash)
}

/// The suite and the file of a name that is `SUITE:FILE`, or a file that ends as those of a suite do.
fn file_of(name: &str) -> Option<(&'static dyn Suite, &str)> {
    if let Some((suite, file)) = name.split_once(':')
        && let Some(suite) = suite::by_name(suite)
    {
        return Some((suite, file));
    }
    let extension = Path::new(name).extension()?.to_str()?;
    let suite = SUITES.iter().copied().find(|suite| suite.extension() == Some(extension))?;
    Some((suite, name))
}

/// The suite of the workload called `name`; none for a name that is not known.
pub(crate) fn suite_of(name: &str) -> Option<&'static dyn Suite> {
    file_of(name).map(|(suite, _)| suite).or_else(|| suite::find(name).map(|(suite, _)| suite))
}

/// How long the workload called `name` is measured when nothing is said; none for a name that is not known.
pub fn usual_time(name: &str, clock: Clock) -> Option<Nanos> {
    suite_of(name).map(|suite| suite.usual_time(clock == Clock::Virtual))
}

/// Whether the workload called `name` is of a suite that leaves a part of a run's start unmeasured.
pub fn warms_up(name: &str) -> bool {
    suite_of(name).is_some_and(Suite::warms_up)
}

/// The variables of the workload called `name` that hold how many files it has.
pub fn file_counts(name: &str) -> &'static [&'static str] {
    suite_of(name).map_or(&[], Suite::file_counts)
}

/// A switch must be one of the suite's.
fn check_switches(suite: &dyn Suite, settings: &Settings) -> Result<(), Error> {
    let known = || suite.switches().iter().map(|switch| switch.name);
    match settings.switches.keys().find(|name| !known().any(|known| known == name.as_str())) {
        None => Ok(()),
        Some(name) => Err(Error::Unknown {
            what: "switch",
            name: name.clone(),
            advice: document::nearest(name, known()),
        }),
    }
}

fn unknown(name: &str) -> Error {
    let short = name.rsplit('/').next().unwrap_or(name);
    let entries: Vec<_> = suite::all().collect();
    let near = nearest_of(short, entries.iter().map(|(_, entry)| entry.name));
    let near = near.and_then(|near| entries.iter().find(|(_, entry)| entry.name == near));
    let advice = match near {
        _ if name.contains(',') => {
            "several are separated by spaces; in a plan each is a [[workload]]".to_owned()
        }
        Some((suite, entry)) => format!("did you mean \"{}\"?", suite::full_name(*suite, *entry)),
        None => "`weir list workloads` prints all".to_owned(),
    };
    Error::Unknown { what: "workload", name: name.to_owned(), advice }
}

/// The full names of what is given on the command line: `varmail` is the workload of that name with its suite's before it,
/// and the name of a suite stands for the workloads that it calls usual.
pub fn full_names(name: &str) -> Vec<String> {
    if let Some(suite) = suite::by_name(name) {
        return suite.usual().into_iter().map(|entry| suite::full_name(suite, entry)).collect();
    }
    vec![suite::find(name).map_or_else(|| name.to_owned(), |(suite, entry)| suite::full_name(suite, entry))]
}
