//! `weir baseline`: results under a name, to compare later ones with.
//!
//! A baseline is a folder of the user's data folder that holds a copy of the results of one run.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use results::ResultFile;

use crate::failure::{Exit, Failure};
use crate::output::{Output, columns};
use crate::store;

/// Keep a result under a name, as a baseline for later comparisons.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir baseline save main && weir compare main latest --fail-over 5%")]
pub(crate) struct Baseline {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Keep a result under a name
    Save {
        /// The name: letters and digits, with . _ - between them
        name: String,
        /// The result: a file, a folder, or the name of a run [default: the last run]
        result: Option<String>,
        /// Replace the baseline of that name
        #[arg(long)]
        force: bool,
    },
    /// List the baselines
    List,
    /// Remove a baseline
    Remove {
        /// The name of the baseline
        name: String,
    },
}

impl Baseline {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.action {
            Action::Save { name, result, force } => save(&name, result, force, output),
            Action::List => list(output),
            Action::Remove { name } => {
                let folder = existing(&name)?;
                std::fs::remove_dir_all(&folder).map_err(|error| Failure::io("remove", &folder, &error))?;
                output.note(&format!("removed  {name}"));
                document(&name, &folder, output);
                Ok(())
            }
        }
    }
}

/// The folder of a baseline, whose name must not lead elsewhere.
fn folder(name: &str) -> Result<PathBuf, Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        let message = format!(
            "\"{name}\" cannot be the name of a baseline: use letters and digits, with . _ - between them"
        );
        return Err(Failure::usage(message));
    }
    Ok(store::baselines()?.join(name))
}

fn existing(name: &str) -> Result<PathBuf, Failure> {
    let folder = folder(name)?;
    if folder.is_dir() {
        return Ok(folder);
    }
    let names = names()?.join(", ");
    let there = if names.is_empty() { "there is none yet".to_owned() } else { format!("there are: {names}") };
    Err(Failure::usage(format!("there is no baseline {name}; {there}")))
}

fn save(name: &str, result: Option<String>, force: bool, output: &Output) -> Result<(), Failure> {
    if name == store::LATEST {
        let message = format!("\"{name}\" is the name of the last run: call the baseline something else");
        return Err(Failure::usage(message));
    }
    let folder = folder(name)?;
    let source = result.map_or_else(|| store::latest().map(|path| path.display().to_string()), Ok)?;
    let results = store::read(&source)?;
    if folder.exists() && !force {
        return Err(Failure::usage(format!("the baseline {name} exists: give --force to replace it")));
    }
    if results
        .iter()
        .any(|result| result.partial || result.samples.iter().any(|sample| !sample.is_measured()))
    {
        output.note(&format!("{source} is partial, or cells of it failed: these cannot be compared"));
    }
    // Written beside, then put in its place: a baseline is never half of one.
    let new = folder.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    write(&new, &results)?;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| Failure::io("replace", &folder, &error))?;
    }
    std::fs::rename(&new, &folder).map_err(|error| Failure::io("make", &folder, &error))?;
    output.note(&format!("baseline {name}  {}", folder.display()));
    document(name, &folder, output);
    Ok(())
}

/// What was saved or removed, for `--json`.
fn document(name: &str, folder: &Path, output: &Output) {
    if output.is_json() {
        let folder = folder.display().to_string();
        output.document(&serde_json::json!({ "schema": "weir.baseline/1", "name": name, "folder": folder }));
    }
}

fn write(folder: &Path, results: &[ResultFile]) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| Failure::io("make the folder", folder, &error))?;
    for result in results {
        let file =
            if results.len() == 1 { "result.json".to_owned() } else { format!("{}.json", result.name) };
        result.write(folder.join(file))?;
    }
    Ok(())
}

/// Names of all baselines, in their order.
fn names() -> Result<Vec<String>, Failure> {
    let entries = std::fs::read_dir(store::baselines()?).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.path().is_dir());
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    Ok(names)
}

fn list(output: &Output) -> Result<(), Failure> {
    let names = names()?;
    let about = |name: &String| {
        let results = store::read(name).map_err(|failure| Failure::new(Exit::Run, failure.message))?;
        let each = results.iter().map(|result| {
            let began = result.environment.started_utc.clone().unwrap_or_default();
            format!("{} {began}, {} samples", result.name, result.samples.len())
        });
        Ok((name.clone(), each.collect::<Vec<_>>().join("; ")))
    };
    let rows = names.iter().map(about).collect::<Result<Vec<_>, Failure>>()?;
    if output.is_json() {
        let rows = rows.iter().map(|(name, about)| serde_json::json!({ "name": name, "summary": about }));
        let rows: Vec<_> = rows.collect();
        output.document(&serde_json::json!({ "schema": "weir.baselines/1", "baselines": rows }));
        return Ok(());
    }
    output.data(&columns(&rows));
    Ok(())
}
