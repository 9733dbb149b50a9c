//! `weir sim logging --crash`: the matrix of schemes and mutants.

use archsim::crash::mutant::Mutant;
use archsim::crash::{Verdict, campaign};
use archsim::reproduce::crash_config;
use archsim::scheme;
use report::table::Table;
use serde_json::json;

use super::Logging;
use crate::failure::{Exit, Failure};
use crate::output::Output;

impl Logging {
    /// The matrix of schemes and mutants.
    pub(super) fn crash(&self, points: u64, output: &Output) -> Result<(), Failure> {
        let mut rows = Vec::new();
        let promising = scheme::SCHEMES.iter().filter(|scheme| scheme.promises);
        for scheme in promising {
            let config = crash_config(scheme.name, self.seed)?;
            rows.push((scheme.name, "none", 0, campaign(&config, None, points)?));
        }
        for mutant in Mutant::ALL {
            let config = crash_config(mutant.scheme(), self.seed)?;
            rows.push((mutant.scheme(), mutant.name(), 1, campaign(&config, Some(mutant), points)?));
        }
        if output.is_json() {
            let runs = rows.iter().map(|(scheme, mutant, _, verdict)| {
                let first = verdict.first.as_ref().map(|first| {
                    let hash = format!("{:016x}", first.config_hash);
                    json!({ "config_hash": hash, "seed": first.seed, "time_ps": first.time, "what": first.what })
                });
                json!({
                    "scheme": scheme,
                    "mutant": mutant,
                    "points": verdict.points,
                    "nested": verdict.nested,
                    "failures": verdict.failures,
                    "first": first,
                })
            });
            let runs: Vec<_> = runs.collect();
            output.document(&json!({ "schema": "weir.sim.crash/1", "seed": self.seed, "runs": runs }));
        } else {
            output.data(&crashes(&rows, self.seed).to_text());
        }
        let wrong = faults(&rows);
        if wrong.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Check, wrong.join("; "))) }
    }
}

/// What must not be: a scheme that a crash breaks, and seeded bugs that no crash has shown.
fn faults(rows: &[(&str, &str, u64, Verdict)]) -> Vec<String> {
    let broken = rows.iter().filter(|(_, _, least, verdict)| *least == 0 && verdict.failures > 0);
    let mut wrong: Vec<String> = broken
        .map(|(scheme, _, _, verdict)| {
            format!("{scheme}: {} of {} crashes break its promise", verdict.failures, verdict.points)
        })
        .collect();
    let unseen = rows.iter().filter(|(_, _, least, verdict)| *least > 0 && verdict.failures == 0);
    let unseen: Vec<String> = unseen.map(|(scheme, mutant, ..)| format!("{mutant} of {scheme}")).collect();
    if !unseen.is_empty() {
        wrong.push(format!(
            "no crash has shown these seeded bugs: {}; give --crash a larger number",
            unseen.join(", ")
        ));
    }
    wrong
}

fn crashes(rows: &[(&str, &str, u64, Verdict)], seed: u64) -> Table {
    let mut table = Table::new(format!("crashes on machine tiny, seed {seed}"));
    for name in ["scheme", "mutant"] {
        table.words(name);
    }
    for name in ["crashes", "recoveries crashed", "failures", "must be"] {
        table.numbers(name);
    }
    for (scheme, mutant, least, verdict) in rows {
        let counts = [verdict.points, verdict.nested, verdict.failures].map(|count| count.to_string());
        let must = if *least == 0 { "0" } else { "1 or more" };
        let words = [(*scheme).to_owned(), (*mutant).to_owned()];
        table.rows.push(words.into_iter().chain(counts).chain([must.to_owned()]).collect());
    }
    table
}
