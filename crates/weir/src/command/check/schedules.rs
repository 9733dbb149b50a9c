//! `weir check schedules`: several tasks at once, in many orders.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use check::Limits;
use check::canary::{Flaw, flawed};
use check::schedules::{self, Effort, Scenario, Tally};
use clap::Args;
use report::table::Table;
use report::units::number;
use serde_json::{Value, json};
use sim::Seed;

use super::chosen::{Share, range};
use super::ledger::{Entry, Ledger};
use super::{Shared, TOLD, keep_panics_of_runs_quiet, subject};
use crate::checked::Size;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// Scenarios of three and more tasks that are drawn when none is named.
const DRAWN: usize = 200;
/// Switches of a failure that a document lists: one that never ends has millions.
const SWITCHES_MAX: usize = 10_000;

/// Run several tasks at once in many interleavings: every call must be atomic.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 no failure, 1 failures (each printed with its schedule)")]
pub(super) struct SchedulesCheck {
    #[command(flatten)]
    shared: Shared,
    /// Schedules of each scenario [default: as many as the time allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    schedules: Option<u64>,
    /// Time for each design [default: 60; with --schedules or --range, no limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Schedules of each scenario by number, A to B-1, instead: the share of a host
    #[arg(long, value_name = "A..B", value_parser = range, hide_short_help = true, conflicts_with = "schedules")]
    range: Option<Share>,
    /// Run only this scenario: tasks separated by "|", actions of a task by ";"; repeatable [default: all pairs of
    /// actions, and random scenarios]
    #[arg(long, value_name = "NAME")]
    scenario: Vec<String>,
    /// Print a row for each scenario
    #[arg(long)]
    each: bool,
    /// Canary: an append asks for the size before it writes, which must be found
    #[arg(long, hide = true)]
    torn_append: bool,
}

/// What came of one design.
struct Explored {
    /// Its name and options.
    subject: String,
    /// Its name and options as arguments.
    arguments: String,
    tallies: Vec<Tally>,
    took: Duration,
}

impl Explored {
    fn sum(&self, of: fn(&Tally) -> u64) -> u64 {
        self.tallies.iter().map(of).sum()
    }

    fn failures(&self) -> u64 {
        self.sum(|tally| u64::from(tally.failure.is_some()))
    }
}

impl SchedulesCheck {
    pub(super) fn run(self, output: &Output, ledger: &Ledger<'_>) -> Result<(), Failure> {
        let scenarios = self.scenarios()?;
        if self.schedules != Some(1) {
            keep_panics_of_runs_quiet();
        }
        let designs = self.shared.stored_designs(Size::Tiny)?;
        let explored = designs.into_iter().map(|design| {
            let (began, name) = (Instant::now(), subject(&design));
            let arguments = format!("--fs {} {}", design.name(), design.arguments()).trim_end().to_owned();
            let design = if self.torn_append { flawed(&design, Flaw::TornAppend) } else { design };
            let counter = Counter::new(output, &name, self.turns(scenarios.len()));
            let effort = self.effort(began);
            let tallies = schedules::explore(&design, &scenarios, &effort, &|| counter.one_more());
            Explored { subject: name, arguments, tallies, took: began.elapsed() }
        });
        let explored = explored.collect::<Vec<_>>();
        if output.is_json() {
            output.document(&self.document(&explored));
        } else {
            output.data(&self.text(&explored));
        }
        if !self.torn_append {
            ledger.record(&explored.iter().map(|one| self.entry(one)).collect::<Vec<_>>());
        }
        match explored.iter().map(Explored::failures).sum() {
            0_u64 => Ok(()),
            count => Err(Failure::new(Exit::Check, format!("{count} scenarios failed"))),
        }
    }

    fn scenarios(&self) -> Result<Vec<Scenario>, Failure> {
        if !self.scenario.is_empty() {
            return self.scenario.iter().map(|name| Scenario::named(name).map_err(Failure::usage)).collect();
        }
        let mut rng = Seed(self.shared.seed).derive("check.schedules", 0).rng();
        let mut all = schedules::pairs();
        all.extend((0..DRAWN).map(|_| schedules::draw(&mut rng)));
        Ok(all)
    }

    /// The schedules that are asked for by number.
    fn wanted(&self) -> Option<Range<u64>> {
        self.range.map(|share| share.start..share.end).or_else(|| self.schedules.map(|count| 0..count))
    }

    fn effort(&self, began: Instant) -> Effort {
        let wanted = self.wanted();
        let seconds = self.seconds.or(if wanted.is_some() { None } else { Some(60) });
        let end = seconds.map(|seconds| began + Duration::from_secs(seconds));
        Effort {
            seed: self.shared.seed,
            schedules: wanted.unwrap_or(0..u64::MAX),
            limits: Limits { end, ..self.shared.limits() },
        }
    }

    /// How often a scenario has its turn, as far as that is known.
    fn turns(&self, scenarios: usize) -> u64 {
        self.wanted().map_or(1, |wanted| wanted.end - wanted.start).div_ceil(schedules::BATCH)
            * scenarios as u64
    }

    /// The command that shows a failure again.
    fn again(&self, one: &Explored, tally: &Tally) -> String {
        let seed = tally.failure.as_ref().map_or(self.shared.seed, |failure| failure.seed);
        let (arguments, canary) = (&one.arguments, if self.torn_append { " --torn-append" } else { "" });
        format!(
            "weir check schedules {arguments}{canary} --seed {seed} --schedules 1 --scenario '{}'",
            tally.scenario
        )
    }

    fn text(&self, explored: &[Explored]) -> String {
        let mut table = Table::new(format!("tasks in many orders, seed {}", self.shared.seed));
        table.words("fs");
        if self.each {
            table.words("scenario");
        }
        for name in ["scenarios", "schedules", "interleavings", "outcomes", "failures", "schedules/s"] {
            table.numbers(name);
        }
        let mut told = String::new();
        for one in explored {
            let rate = number(one.sum(|tally| tally.schedules) as f64 / one.took.as_secs_f64().max(1e-9));
            let row = |name: Option<&str>, tallies: &[Tally], rate: String| {
                let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>().to_string();
                let names = [Some(one.subject.as_str()), name.filter(|_| self.each)];
                let counts = [
                    tallies.len().to_string(),
                    sum(|tally| tally.schedules),
                    sum(|tally| tally.interleavings),
                    sum(|tally| tally.outcomes),
                    sum(|tally| u64::from(tally.failure.is_some())),
                    rate,
                ];
                names.into_iter().flatten().map(str::to_owned).chain(counts).collect()
            };
            for tally in one.tallies.iter().filter(|_| self.each) {
                table.rows.push(row(Some(&tally.scenario), std::slice::from_ref(tally), "–".to_owned()));
            }
            table.rows.push(row(Some("all"), &one.tallies, rate));
            for tally in one.tallies.iter().filter(|tally| tally.failure.is_some()).take(TOLD) {
                if let Some(failure) = &tally.failure {
                    let (name, again) = (&one.subject, self.again(one, tally));
                    let _ = writeln!(told, "\n{name}, {}: {failure}\nagain: {again}", tally.scenario);
                }
            }
        }
        table.to_text() + &told
    }

    fn entry(&self, one: &Explored) -> Entry {
        let tried = one.tallies.iter().map(|tally| tally.schedules).max().unwrap_or(0);
        let first = self.shared.seed.saturating_add(self.range.map_or(0, |share| share.start));
        let last = first.saturating_add(tried.saturating_sub(1));
        Entry {
            check: "schedules".to_owned(),
            subject: one.subject.clone(),
            unit: "interleavings".to_owned(),
            count: one.sum(|tally| tally.interleavings),
            failures: one.failures(),
            seeds: Some((first, last)),
            asked: self
                .scenario
                .iter()
                .map(|name| format!("--scenario '{name}'"))
                .collect::<Vec<_>>()
                .join(" "),
            ..Entry::default()
        }
    }

    fn document(&self, explored: &[Explored]) -> Value {
        let scenario = |one: &Explored, tally: &Tally| {
            let failure = tally.failure.as_ref().map(|failure| {
                let switches = failure.switches.iter().take(SWITCHES_MAX);
                let switches = switches.map(|one| [one.point, one.to.into()]);
                let program = failure.program.iter().map(|ops| ops.iter().map(|op| format!("{op:?}")));
                json!({
                    "seed": failure.seed,
                    "what": failure.what,
                    "program": program.map(Iterator::collect).collect::<Vec<Vec<_>>>(),
                    "switches": switches.collect::<Vec<_>>(),
                    "program_what": failure.program_what,
                    "again": self.again(one, tally),
                })
            });
            json!({
                "scenario": tally.scenario,
                "schedules": tally.schedules,
                "interleavings": tally.interleavings,
                "outcomes": tally.outcomes,
                "pct_length": tally.length,
                "failure": failure,
            })
        };
        let one = |one: &Explored| {
            json!({
                "fs": one.subject,
                "scenarios": one.tallies.iter().map(|tally| scenario(one, tally)).collect::<Vec<_>>(),
                "schedules": one.sum(|tally| tally.schedules),
                "interleavings": one.sum(|tally| tally.interleavings),
                "outcomes": one.sum(|tally| tally.outcomes),
                "failures": one.failures(),
                "elapsed_ns": one.took.as_nanos() as u64,
            })
        };
        json!({
            "schema": "weir.check.schedules/1",
            "seed": self.shared.seed,
            "designs": explored.iter().map(one).collect::<Vec<_>>(),
        })
    }
}
