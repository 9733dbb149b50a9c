//! What determines a sample, as a document that is the same on every host: no name of a file, no path, no debug text.
//!
//! `docs/designs/campaign.md` lists the parts. Names that are in the document name code: a design, a model, a benchmark.

use design::Design;
use media::block::BlockModel;
use serde_json::{Value, json};
use workload::Workload;
use workload::suite::Settings;

use super::matrix::{CellSpec, DEVICE, SSD, Subject};
use crate::canonical;
use crate::error::Error;
use crate::named;
use archsim::crash::mutant::Mutant;

/// The variable that holds the number of threads, by suite. In others the number itself is in the document.
const THREADS: [(&str, &str); 3] =
    [("filebench", "nthreads"), ("fxmark", "workers"), ("fragmentation", "threads")];
/// How a suite shows a variable that is drawn at random, and of which it does not tell all.
const RANDOM: &str = "random,";

impl CellSpec {
    /// Everything that decides what happens in the cell, but for the machine, the clock and the seed. Cells of equal identity give
    /// equal samples, so they run once.
    pub fn identity(&self) -> Value {
        let medium = self.medium.parameters().iter();
        let medium = medium.map(|param| (param.name.to_owned(), Value::from(param.value.to_string())));
        let medium: serde_json::Map<String, Value> = medium.collect();
        let mut identity = json!({
            "subject": of_subject(&self.subject),
            "medium": { "model": self.medium.kind().name(), "parameters": medium },
            "block": self.block.as_ref().map(of_block),
            "workload": self.work,
            "free": self.free,
            "warm_up": self.warm_up.0,
            "stop": self.stop.to_string(),
            "region": self.region.map(|region| region.0),
        });
        // Cells without one keep the keys that they had before there were churns.
        if let Some(churn) = self.churn {
            identity["churn"] = json!(churn.0);
        }
        identity
    }
}

fn of_subject(subject: &Subject) -> Value {
    match subject {
        Subject::Design { design, options } => json!({ "design": Design::name(*design), "options": options }),
        // Under the real clock alone, which no two runs of a cell share.
        Subject::Host(path) => json!({ "host": path.display().to_string() }),
        Subject::Kernel(kernel) => json!({ "kernel": kernel.to_string() }),
        Subject::Device => json!(DEVICE),
        // The stream is in the workload.
        Subject::Ssd(_) => json!(SSD),
        Subject::Processor { config, timeline } => {
            json!({ "processor": config.essence().unwrap_or_default(), "timeline": timeline })
        }
        Subject::Crashes(config, mutant) => {
            json!({ "crashes": config.text(), "mutant": mutant.map(Mutant::name) })
        }
    }
}

/// A device as it was written; of one in a file the text instead of the name.
fn of_block(block: &BlockModel) -> Value {
    let (name, rest) = block.text().split_once(',').unwrap_or((block.text(), ""));
    match media::flash::SsdModel::is_file(name).then(|| std::fs::read(name).ok()).flatten() {
        Some(text) => json!({ "sha256": canonical::sha256(text), "parameters": rest }),
        None => json!({ "model": name, "parameters": rest }),
    }
}

/// What the workload called `name` is, which was loaded with `settings`.
pub(super) fn of_workload(name: &str, settings: &Settings, loaded: &dyn Workload) -> Result<Value, Error> {
    let suite = named::suite_of(name).map_or("", |suite| suite.name());
    let variables = loaded.variables();
    let is_told =
        |name: &String| variables.iter().any(|(known, value)| known == name && !value.starts_with(RANDOM));
    let given: serde_json::Map<String, Value> = (settings.vars.iter())
        .filter(|(name, _)| !is_told(name))
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    let threads_are_told =
        THREADS.iter().any(|(of, name)| *of == suite && variables.iter().any(|(known, _)| known == name));
    Ok(json!({
        "suite": suite,
        "source": named::source(name)?,
        "variables": variables,
        "given": given,
        "threads": settings.threads.as_ref().filter(|_| !threads_are_told),
        "switches": settings.switches,
    }))
}

/// The same of one that makes no calls of a file system, and whose variables are in the subject or are given.
pub(super) fn of_no_calls(name: &str, vars: &std::collections::BTreeMap<String, String>) -> Value {
    json!({ "source": { "built_in": name }, "given": vars })
}
