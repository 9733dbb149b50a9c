//! `weir sim logging --crash`: the matrix of schemes and mutants.

use archsim::crash::mutant::Mutant;
use archsim::crash::{PROGRAMS, Verdict, campaign_of, crash_config};
use archsim::{Config, scheme};
use report::table::Table;
use serde_json::json;

use super::Logging;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// A row of the matrix.
struct Row {
    scheme: &'static str,
    mutant: Option<Mutant>,
    /// Whether a crash must show the mutant.
    must: bool,
    verdict: Verdict,
}

impl Row {
    fn mutant(&self) -> &'static str {
        self.mutant.map_or("none", Mutant::name)
    }
}

impl Logging {
    /// The matrix of schemes and mutants.
    pub(super) fn crash(&self, points: u64, output: &Output) -> Result<(), Failure> {
        let chosen = self.promising()?;
        let programs = self.programs();
        // Some bugs only show under the program, the machine or the number of threads that they were written for.
        let own = self.workload.is_empty()
            && self.threads.is_none()
            && self.machine.is_none()
            && self.set.is_empty()
            && self.ops.is_none();
        let mut rows = Vec::new();
        for scheme in &chosen {
            let verdict = campaign_of(&self.crash_config(scheme)?, &programs, None, points)?;
            rows.push(Row { scheme, mutant: None, must: false, verdict });
        }
        for mutant in Mutant::ALL.into_iter().filter(|mutant| chosen.contains(&mutant.scheme())) {
            let config = self.crash_config(mutant.scheme())?;
            let verdict = campaign_of(&config, &programs, Some(mutant), points)?;
            rows.push(Row { scheme: mutant.scheme(), mutant: Some(mutant), must: own, verdict });
        }
        let machine = self.machine.as_deref().unwrap_or("tiny");
        self.tell(&rows, machine, output);
        let wrong = faults(&rows);
        if wrong.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Check, wrong.join("; "))) }
    }

    /// The schemes that are crashed: those that promise something.
    fn promising(&self) -> Result<Vec<&'static str>, Failure> {
        let all = scheme::SCHEMES.iter().filter(|scheme| scheme.promises).map(|scheme| scheme.name);
        let all: Vec<&'static str> = all.collect();
        if self.scheme.is_empty() || self.scheme == ["all"] {
            return Ok(all);
        }
        let find = |name: &String| {
            let found = all.iter().find(|known| *known == name).copied();
            found.ok_or_else(|| {
                let known = all.join(", ");
                Failure::usage(format!(
                    "--crash --scheme {name}: only a scheme that promises recovery can break its promise: {known}"
                ))
            })
        };
        self.scheme.iter().map(find).collect()
    }

    /// The programs: those of every campaign, or the ones that were asked for, each with its threads.
    fn programs(&self) -> Vec<(&str, u64)> {
        let threads = |usual: u64| self.threads.unwrap_or(usual);
        if self.workload.is_empty() {
            return PROGRAMS.iter().map(|(name, usual)| (*name, threads(*usual))).collect();
        }
        let usual = |name: &str| PROGRAMS.iter().find(|(known, _)| *known == name).map_or(1, |(_, n)| *n);
        if self.workload == ["micro"] {
            let micro = archsim::workload::WORKLOADS.iter().filter(|known| known.micro);
            return micro.map(|known| (known.name, threads(usual(known.name)))).collect();
        }
        self.workload.iter().map(|name| (name.as_str(), threads(usual(name)))).collect()
    }

    fn crash_config(&self, scheme: &str) -> Result<Config, Failure> {
        let mut config = crash_config(scheme, self.seed)?;
        if self.machine.is_some() || !self.set.is_empty() {
            config.machine = self.machine_called(self.machine.as_deref().unwrap_or("tiny"))?;
        }
        config.ops = self.ops.unwrap_or(config.ops);
        Ok(config)
    }

    fn tell(&self, rows: &[Row], machine: &str, output: &Output) {
        if !output.is_json() {
            return output.data(&crashes(rows, machine, self.seed).to_text());
        }
        let runs = rows.iter().map(|row| {
            let verdict = &row.verdict;
            let first = verdict.first.as_ref().map(|first| {
                let hash = format!("{:016x}", first.config_hash);
                json!({ "config_hash": hash, "seed": first.seed, "time_ps": first.time, "what": first.what })
            });
            json!({
                "scheme": row.scheme,
                "mutant": row.mutant(),
                "points": verdict.points,
                "nested": verdict.nested,
                "failures": verdict.failures,
                "first": first,
            })
        });
        let runs: Vec<_> = runs.collect();
        output.document(&json!({ "schema": "weir.sim.crash/1", "seed": self.seed, "runs": runs }));
    }
}

/// What must not be: a scheme that a crash breaks, and seeded bugs that no crash has shown.
fn faults(rows: &[Row]) -> Vec<String> {
    let broken = rows.iter().filter(|row| row.mutant.is_none() && row.verdict.failures > 0);
    let mut wrong: Vec<String> = broken
        .map(|Row { scheme, verdict, .. }| {
            format!("{scheme}: {} of {} crashes break its promise", verdict.failures, verdict.points)
        })
        .collect();
    let unseen = rows.iter().filter(|row| row.must && row.verdict.failures == 0);
    let unseen: Vec<String> = unseen.map(|row| format!("{} of {}", row.mutant(), row.scheme)).collect();
    if !unseen.is_empty() {
        wrong.push(format!(
            "no crash has shown these seeded bugs: {}; give --crash a larger number",
            unseen.join(", ")
        ));
    }
    wrong
}

fn crashes(rows: &[Row], machine: &str, seed: u64) -> Table {
    let mut table = Table::new(format!("crashes on machine {machine}, seed {seed}"));
    for name in ["scheme", "mutant"] {
        table.words(name);
    }
    for name in ["crashes", "recoveries crashed", "failures", "must be"] {
        table.numbers(name);
    }
    for row in rows {
        let verdict = &row.verdict;
        let counts = [verdict.points, verdict.nested, verdict.failures].map(|count| count.to_string());
        let must = match (row.mutant, row.must) {
            (None, _) => "0",
            (_, true) => "1 or more",
            (_, false) => "any",
        };
        let words = [row.scheme.to_owned(), row.mutant().to_owned()];
        table.rows.push(words.into_iter().chain(counts).chain([must.to_owned()]).collect());
    }
    table
}
