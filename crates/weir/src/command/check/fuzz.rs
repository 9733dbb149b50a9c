//! `weir check fuzz`: images with edits.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use check::Limits;
use check::canary::{Flaw, flawed};
use check::fuzz::{Effort, Failure as Found, Fuzzer, Mutant, Tally};
use clap::Args;
use report::table::Table;
use report::units::number;
use serde_json::{Value, json};

use super::chosen::{Share, range};
use super::ledger::{Entry, Ledger};
use super::{Shared, TOLD, keep_panics_of_runs_quiet, subject};
use crate::checked::Size;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// Where the canary has its word: in the journal, which an unmounted image does not use.
const CANARY: u64 = 8192;

/// Edit images: nothing may panic or hang, and fsck and mount must agree.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 no failure, 1 failures (each printed with the fewest edits that show it)"
)]
pub(super) struct FuzzCheck {
    #[command(flatten)]
    shared: Shared,
    /// Edited images of each design [default: as many as the time allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    mutants: Option<u64>,
    /// Time for each design [default: 60; with --mutants or --range, no limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Edited images by number, A to B-1, instead: the share of a host, which begins from the same images
    #[arg(long, value_name = "A..B", value_parser = range, hide_short_help = true, conflicts_with = "mutants")]
    range: Option<Share>,
    /// Run only this edited image, as a failure prints it: "3 len=65536 4096:00ff"
    #[arg(long, value_name = "EDITS", conflicts_with_all = ["mutants", "seconds", "range"])]
    mutant: Option<Mutant>,
    /// Canary: a word of the image brings out a fault, "panic" or "loop", which must be found
    #[arg(long, value_name = "FAULT", hide = true, value_parser = ["panic", "loop"])]
    fault: Option<String>,
}

/// What came of one design.
struct Fuzzed {
    /// Its name and options.
    subject: String,
    /// Its name and options as arguments.
    arguments: String,
    tally: Tally,
    took: Duration,
}

impl FuzzCheck {
    pub(super) fn run(self, output: &Output, ledger: &Ledger<'_>) -> Result<(), Failure> {
        if self.mutant.is_none() {
            keep_panics_of_runs_quiet();
        }
        let fuzzed = self.fuzz_all(output)?;
        if output.is_json() {
            output.document(&self.document(&fuzzed));
        } else {
            output.data(&self.text(&fuzzed));
        }
        if self.fault.is_none() && self.mutant.is_none() {
            ledger.record(&fuzzed.iter().map(|one| self.entry(one)).collect::<Vec<_>>());
        }
        match fuzzed.iter().map(|one| one.tally.failures.len()).sum() {
            0_usize => Ok(()),
            count => Err(Failure::new(Exit::Check, format!("{count} failures"))),
        }
    }

    fn fuzz_all(&self, output: &Output) -> Result<Vec<Fuzzed>, Failure> {
        let fault = self.fault.as_deref().map(|fault| match fault {
            "loop" => Flaw::LoopAt(CANARY),
            _ => Flaw::PanicAt(CANARY),
        });
        let designs = self.shared.stored_designs(Size::Small)?.into_iter();
        let fuzzed = designs.map(|design| {
            let (began, name) = (Instant::now(), subject(&design));
            let arguments = format!("--fs {} {}", design.name(), design.arguments()).trim_end().to_owned();
            let design = match fault {
                Some(fault) => flawed(&design, fault),
                None => design,
            };
            let fuzzer = Fuzzer::new(&design, self.shared.seed);
            let fuzzer = fuzzer.map_err(|what| Failure::new(Exit::Check, format!("{name}: {what}")))?;
            let tally = match &self.mutant {
                Some(mutant) => again(&fuzzer, mutant),
                None => {
                    let count = self.wanted().map_or(0, |wanted| wanted.end - wanted.start);
                    let counter = Counter::new(output, &name, count);
                    fuzzer.run(&self.effort(began), &|| counter.one_more())
                }
            };
            Ok(Fuzzed { subject: name, arguments, tally, took: began.elapsed() })
        });
        fuzzed.collect()
    }

    /// The images that are asked for by number.
    fn wanted(&self) -> Option<Range<u64>> {
        self.range.map(|share| share.start..share.end).or_else(|| self.mutants.map(|count| 0..count))
    }

    fn effort(&self, began: Instant) -> Effort {
        let wanted = self.wanted();
        let seconds = self.seconds.or(if wanted.is_some() { None } else { Some(60) });
        let end = seconds.map(|seconds| began + Duration::from_secs(seconds));
        Effort {
            seed: self.shared.seed,
            mutants: wanted.unwrap_or(0..u64::MAX),
            limits: Limits { end, ..self.shared.limits() },
        }
    }

    /// The command that shows a failure again.
    fn again(&self, one: &Fuzzed, found: &Found) -> String {
        let (arguments, seed) = (&one.arguments, self.shared.seed);
        let canary = self.fault.as_ref().map_or(String::new(), |fault| format!(" --fault {fault}"));
        format!("weir check fuzz {arguments}{canary} --seed {seed} --mutant '{}'", found.mutant)
    }

    fn text(&self, fuzzed: &[Fuzzed]) -> String {
        let mut table = Table::new(format!("images with edits, seed {}", self.shared.seed));
        table.words("fs");
        for name in [
            "mutants",
            "refused",
            "damaged",
            "sound",
            "kept",
            "features",
            "memory",
            "failures",
            "images/s/core",
        ] {
            table.numbers(name);
        }
        let mut told = String::new();
        for one in fuzzed {
            let tally = &one.tally;
            let counts =
                [tally.mutants, tally.refused, tally.damaged, tally.sound, tally.kept, tally.features];
            let row = [one.subject.clone()].into_iter().chain(counts.map(|count| count.to_string()));
            let last = [
                format!("+{}", tally.memory),
                tally.failures.len().to_string(),
                number(tally.mutants_per_core_second()),
            ];
            table.rows.push(row.chain(last).collect());
            for found in tally.failures.iter().take(TOLD) {
                let (name, again) = (&one.subject, self.again(one, found));
                let _ = writeln!(told, "\n{name}: {}\nagain: {again}", found.what);
            }
        }
        table.to_text() + &told
    }

    fn entry(&self, one: &Fuzzed) -> Entry {
        Entry {
            check: "fuzz".to_owned(),
            subject: one.subject.clone(),
            unit: "mutated images".to_owned(),
            count: one.tally.mutants,
            failures: one.tally.failures.len() as u64,
            seeds: Some((self.shared.seed, self.shared.seed)),
            asked: self.range.map_or_else(String::new, |share| format!("--range {share}")),
            ..Entry::default()
        }
    }

    fn document(&self, fuzzed: &[Fuzzed]) -> Value {
        let one = |one: &Fuzzed| {
            let tally = &one.tally;
            let failures = tally.failures.iter().map(|found| {
                let (mutant, again) = (found.mutant.to_string(), self.again(one, found));
                json!({ "what": found.what, "mutant": mutant, "again": again })
            });
            json!({
                "fs": one.subject,
                "mutants": tally.mutants,
                "refused": tally.refused,
                "damaged": tally.damaged,
                "sound": tally.sound,
                "kept": tally.kept,
                "features": tally.features,
                "lines_touched_max": tally.touched,
                "memory_growth_bytes": tally.memory.0,
                "elapsed_ns": one.took.as_nanos() as u64,
                "cpu_ns": tally.cpu.as_nanos() as u64,
                "images_per_core_second": tally.mutants_per_core_second(),
                "failures": failures.collect::<Vec<_>>(),
            })
        };
        json!({
            "schema": "weir.check.fuzz/1",
            "seed": self.shared.seed,
            "designs": fuzzed.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

/// One mutant once more.
fn again(fuzzer: &Fuzzer, mutant: &Mutant) -> Tally {
    let found = fuzzer.try_one(mutant).err().map(|what| Found { mutant: mutant.clone(), what });
    Tally { mutants: 1, failures: found.into_iter().collect(), ..Tally::default() }
}
