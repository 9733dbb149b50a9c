//! `weir check faults`: every access of small programs is made to fail.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use check::crash::{Family, Program, Subject};
use check::faults::{Kind, Outcome, Tally, fail_many};
use clap::Args;
use report::table::Table;
use serde_json::{Map, Value, json};

use super::chosen::Chosen;
use super::ledger::{Entry, Ledger};
use super::{End, Shared, TOLD, subject, tried};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// Fail each access of small programs to the medium in turn.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 no violation, 1 violations (each printed with the access that failed)")]
pub(super) struct FaultsCheck {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    pub(super) chosen: Chosen,
    /// Canary: nothing is rolled back, which must be found
    #[arg(long, hide = true)]
    canary: bool,
}

/// What came of one design.
pub(super) struct Failed {
    pub(super) subject: Subject,
    /// Programs that there were; a tree that is only read is one of them.
    pub(super) programs: usize,
    pub(super) tally: Tally,
    pub(super) took: Duration,
}

impl FaultsCheck {
    pub(super) fn run(self, output: &Output, ledger: &Ledger<'_>) -> Result<(), Failure> {
        let (family, numbers, subjects) = self.prepare()?;
        let programs: Vec<_> = numbers.into_iter().map(|number| family.program(number)).collect();
        let failed = subjects.into_iter().map(|subject| self.fail(subject, &programs, output));
        self.finish(&failed.collect::<Vec<_>>(), &End::HERE, output, ledger)
    }

    /// The programs, those that are wanted, and the designs.
    pub(super) fn prepare(&self) -> Result<(Family, Vec<usize>, Vec<Subject>), Failure> {
        let family = self.chosen.family(&self.shared, 1);
        let numbers = self.chosen.numbers(&family, &self.shared)?;
        Ok((family, numbers, self.shared.subjects(self.chosen.size, self.canary)?))
    }

    /// Prints and records what came of the designs.
    pub(super) fn finish(
        &self,
        failed: &[Failed],
        end: &End<'_>,
        output: &Output,
        ledger: &Ledger<'_>,
    ) -> Result<(), Failure> {
        let document = self.document(failed);
        if output.is_json() {
            output.document(&document);
        } else {
            output.data(&self.text(failed));
        }
        end.write(document)?;
        if !self.canary && end.whole {
            ledger.record(&failed.iter().map(|one| self.entry(one)).collect::<Vec<_>>());
        }
        match failed.iter().map(|one| one.tally.violations.len()).sum() {
            0_usize => self.chosen.ran(failed.iter().map(|one| (&one.subject, one.tally.programs))),
            count => Err(Failure::new(Exit::Check, format!("{count} violations"))),
        }
    }

    /// What decides the tally of a program, beside design, size, seed and the program's number.
    pub(super) fn identity(&self) -> Value {
        json!({ "canary": self.canary })
    }

    fn fail(&self, subject: Subject, programs: &[Program], output: &Output) -> Failed {
        let began = Instant::now();
        let parts = programs.len() + 1;
        let counter = Counter::new(output, subject.design.name(), parts as u64);
        let limits = self.chosen.limits(&self.shared, began);
        let tally = fail_many(&subject, programs, (self.shared.seed, &limits), &|_| counter.one_more());
        Failed { subject, programs: parts, tally, took: began.elapsed() }
    }

    /// The command that shows a violation again.
    fn again(&self, failed: &Failed, program: &str) -> String {
        let (of, again) = (subject(&failed.subject.design), self.chosen.again(&self.shared, program));
        let canary = if self.canary { " --canary" } else { "" };
        format!("weir check faults --fs {of}{canary} {again}")
    }

    fn text(&self, failed: &[Failed]) -> String {
        let title = format!("failures, regions from {}, seed {}", self.chosen.size, self.shared.seed);
        let mut injected = Table::new(title);
        let mut outcomes = Table::new("what came of them");
        injected.words("fs");
        outcomes.words("fs");
        for name in ["programs", "failures"].into_iter().chain(Kind::ALL.map(Kind::name)) {
            injected.numbers(name);
        }
        for name in Outcome::ALL.map(Outcome::name).into_iter().chain(["violations"]) {
            outcomes.numbers(name);
        }
        let mut told = String::new();
        for one in failed {
            let (tally, name) = (&one.tally, subject(&one.subject.design));
            let count = |count: Option<&usize>| count.copied().unwrap_or(0);
            let kinds = Kind::ALL.iter().map(|kind| count(tally.injected.get(kind)));
            let counts = [tally.failures()].into_iter().chain(kinds).map(|count| count.to_string());
            let row = [name.clone(), tried(tally.programs, one.programs)].into_iter().chain(counts);
            injected.rows.push(row.collect());
            let came = Outcome::ALL.iter().map(|outcome| count(tally.outcomes.get(outcome)));
            let counts = came.chain([tally.violations.len()]);
            outcomes.rows.push([name].into_iter().chain(counts.map(|count| count.to_string())).collect());
            if tally.without_space > 0 {
                let (name, count) = (one.subject.design.name(), tally.without_space);
                let _ =
                    writeln!(told, "\n{name}: {count} programs need more space; give it more with --size");
            }
            for violation in tally.violations.iter().take(TOLD) {
                let again = self.again(one, &violation.program);
                let _ = writeln!(told, "\n{}: {violation}\nagain: {again}", one.subject.design.name());
            }
        }
        format!("{}\n{}{told}", injected.to_text(), outcomes.to_text())
    }

    fn entry(&self, failed: &Failed) -> Entry {
        let tally = &failed.tally;
        Entry {
            check: "faults".to_owned(),
            subject: subject(&failed.subject.design),
            unit: "failures".to_owned(),
            count: tally.failures() as u64,
            failures: tally.violations.len() as u64,
            seeds: Some((self.shared.seed, self.shared.seed)),
            asked: self.chosen.asked(),
            ..Entry::default()
        }
    }

    fn document(&self, failed: &[Failed]) -> Value {
        let one = |one: &Failed| {
            let tally = &one.tally;
            let violations = tally.violations.iter().map(|violation| {
                let again = self.again(one, &violation.program);
                json!({ "program": violation.program, "what": violation.what, "again": again })
            });
            let counts = |counts: Vec<(&'static str, usize)>| {
                let counts = counts.into_iter().map(|(name, count)| (name.replace(' ', "_"), count.into()));
                Value::Object(counts.collect::<Map<String, Value>>())
            };
            json!({
                "fs": one.subject.design.name(),
                "options": one.subject.design.arguments(),
                "buffered": one.subject.promises.buffers_data(),
                "programs": tally.programs,
                "programs_all": one.programs,
                "without_space": tally.without_space,
                "failures": tally.failures(),
                "injected": counts(tally.injected.iter().map(|(kind, count)| (kind.name(), *count)).collect()),
                "outcomes": counts(tally.outcomes.iter().map(|(came, count)| (came.name(), *count)).collect()),
                "elapsed_ns": one.took.as_nanos() as u64,
                "violations": violations.collect::<Vec<_>>(),
            })
        };
        json!({
            "schema": "weir.check.faults/1",
            "seed": self.shared.seed,
            "region_bytes": self.chosen.size.0,
            "designs": failed.iter().map(one).collect::<Vec<_>>(),
        })
    }
}
