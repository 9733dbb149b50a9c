//! `weir check recall`: known bugs are seeded, to see which of them the checks find.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use check::crash::programs::{self, Program};
use check::recall::{Counts, Forgotten, Found, LeaveOut, Seeded, find_all, forgotten};
use clap::Args;
use design::Mutant;
use media::fault::Target;
use report::table::Table;
use serde_json::{Value, json};
use sim::Bytes;

use super::ledger::{Entry, Ledger};
use super::{Shared, subjects_of, written};
use crate::command::mkfs::options;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// Seed known bugs, and report which ones the checks find.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 every seeded bug was found, 1 some were not")]
pub(super) struct RecallCheck {
    #[command(flatten)]
    shared: Shared,
    /// Seed only the bugs whose names contain these words
    #[arg(long, default_value = "", hide_default_value = true, value_name = "WORDS")]
    only: String,
    /// Size of the region
    #[arg(long, default_value = "1MiB", value_name = "SIZE")]
    size: Bytes,
}

/// What was found of the bugs seeded in one design.
pub(super) struct Recalled {
    fs: String,
    seeded: Vec<(Mutant, Option<Found>)>,
    /// Flushes and fences that were left out, summed up over the ways in which the design is mounted.
    forgotten: Vec<(Target, Forgotten)>,
}

/// The class of bugs that a flush or fence left out stands for.
fn class(target: Target) -> &'static str {
    if target == Target::Flush { "missing flush" } else { "missing fence" }
}

/// Seeds the bugs whose names contain `only` into each design. `done` is told of each that was looked for.
pub(super) fn all(
    shared: &Shared,
    size: Bytes,
    only: &str,
    programs: &[Program],
    done: &(dyn Fn() + Sync),
) -> Result<Vec<Recalled>, Failure> {
    let given: BTreeMap<String, String> = options(&shared.options)?;
    let one = |name: &String| {
        let mutants = lab::plan::matrix::stored(name)?.mutants();
        let mutants: Vec<Mutant> =
            mutants.iter().copied().filter(|mutant| mutant.name().contains(only)).collect();
        let seed = |mutant: &Mutant| {
            Ok(Seeded {
                name: mutant.name().to_owned(),
                class: mutant.class().to_owned(),
                subjects: subjects_of(name, &given, size, Some(*mutant))?,
                needs_failure: mutant.needs_failure(),
                programs: mutant.programs(),
                scenarios: mutant.scenarios(),
            })
        };
        let seeded = mutants.iter().map(seed).collect::<Result<Vec<_>, Failure>>()?;
        let limits = shared.limits();
        let work = (shared.seed, &limits);
        let found = find_all(&seeded, programs, work, done);
        // Longer programs are made of the same operations.
        let short: Vec<Program> =
            programs.iter().filter(|program| program.core.len() == 1).cloned().collect();
        let mut left_out = Vec::new();
        for target in
            [Target::Flush, Target::Fence].into_iter().filter(|target| class(*target).contains(only))
        {
            let mut sum = Forgotten::default();
            for subject in subjects_of(name, &given, size, None)? {
                sum.add(forgotten(&subject, &short, &LeaveOut::each(target), work));
            }
            done();
            left_out.push((target, sum));
        }
        Ok(Recalled {
            fs: name.clone(),
            seeded: mutants.into_iter().zip(found).collect(),
            forgotten: left_out,
        })
    };
    shared.fs.iter().map(one).collect()
}

/// A line for each design: how many classes of bugs are found.
pub(super) fn summary(recalled: &[Recalled]) -> String {
    let mut text = String::new();
    for one in recalled {
        let (found, seeded) = one.score();
        let _ = writeln!(text, "{}: recall {found}/{seeded}", one.fs);
    }
    text
}

/// As the columns of a table.
fn numbers(counts: &Counts) -> impl Iterator<Item = String> {
    let Counts { total, by_lints, by_crash, equivalent, survived } = counts;
    [*total, *by_lints, *by_crash, *equivalent, survived.len()].map(|count| count.to_string()).into_iter()
}

fn counts_document(counts: &Counts) -> Value {
    let survived = counts.survived.iter().map(|(program, nth)| json!([program, nth]));
    json!({
        "total": counts.total,
        "by_lints": counts.by_lints,
        "by_crash": counts.by_crash,
        "equivalent": counts.equivalent,
        "survived": survived.collect::<Vec<_>>(),
    })
}

impl Recalled {
    /// Classes of bugs that were found, of those that were seeded. A design on blocks has no fence that can be left out.
    fn score(&self) -> (usize, usize) {
        let found = self.seeded.iter().filter(|(_, found)| found.is_some()).count();
        let left_out: Vec<Counts> = self.forgotten.iter().map(|(_, forgotten)| forgotten.all()).collect();
        let killed = left_out.iter().filter(|counts| counts.killed() > 0).count();
        let wrong = left_out.iter().filter(|counts| counts.total > counts.equivalent).count();
        (found + killed, self.seeded.len() + wrong)
    }

    fn add_rows(&self, table: &mut Table) {
        for (mutant, found) in &self.seeded {
            let row = match found {
                None => [mutant.class(), mutant.name(), "not found", "–", "–", "–", "–"].map(str::to_owned),
                Some(found) => [
                    mutant.class().to_owned(),
                    mutant.name().to_owned(),
                    found.checks.join(", "),
                    found.program.clone(),
                    format!("{} after {}", found.ops.0, found.ops.1),
                    match found.images {
                        (_, 0) => "–".to_owned(),
                        (bad, all) => format!("{bad} of {all}"),
                    },
                    format!("{:.2} s", found.took.as_secs_f64()),
                ],
            };
            table.rows.push([self.fs.clone()].into_iter().chain(row).collect());
        }
    }

    fn add_forgotten(&self, table: &mut Table) {
        for (target, forgotten) in &self.forgotten {
            let words = [self.fs.clone(), class(*target).to_owned()];
            table.rows.push(words.into_iter().chain(numbers(&forgotten.all())).collect());
        }
    }

    /// The lines of which a flush or fence was left out and not noticed.
    fn add_lines(&self, table: &mut Table) {
        for (target, forgotten) in &self.forgotten {
            for ((file, line), counts) in forgotten.sites.iter().filter(|(_, c)| !c.survived.is_empty()) {
                let words = [self.fs.clone(), class(*target).to_owned(), format!("{file}:{line}")];
                table.rows.push(words.into_iter().chain(numbers(counts)).collect());
            }
        }
    }

    pub(super) fn document(&self) -> Value {
        let seeded = self.seeded.iter().map(|(mutant, found)| {
            let found = found.as_ref().map(|found| {
                json!({
                    "subject": found.subject.trim_end(),
                    "checks": found.checks,
                    "program": found.program,
                    "ops": found.ops.0,
                    "setup_ops": found.ops.1,
                    "images_bad": found.images.0,
                    "images": found.images.1,
                    "what": found.what,
                    "elapsed_ns": found.took.as_nanos() as u64,
                })
            });
            json!({ "class": mutant.class(), "name": mutant.name(), "found": found })
        });
        let left_out = self.forgotten.iter().map(|(target, forgotten)| {
            let mut all = counts_document(&forgotten.all());
            all["class"] = class(*target).into();
            let lines = forgotten.sites.iter().map(|((file, line), counts)| {
                let mut counts = counts_document(counts);
                counts["line"] = format!("{file}:{line}").into();
                counts
            });
            all["lines"] = lines.collect();
            all
        });
        let (found, all) = self.score();
        json!({
            "fs": self.fs,
            "found": found,
            "seeded": all,
            "bugs": seeded.collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
        })
    }
}

impl RecallCheck {
    pub(super) fn run(self, output: &Output, ledger: &Ledger<'_>) -> Result<(), Failure> {
        let count = self.count()?;
        if count == 0 {
            let names = self.names()?.join(", ");
            return Err(Failure::usage(format!(
                "no bug's name contains \"{}\"; there are: {names}",
                self.only
            )));
        }
        let counter = Counter::new(output, "seeded bugs", count);
        let programs = programs::alone();
        let recalled = all(&self.shared, self.size, &self.only, &programs, &|| counter.one_more())?;
        drop(counter);
        if output.is_json() {
            let designs: Vec<_> = recalled.iter().map(Recalled::document).collect();
            output.document(&json!({
                "schema": "weir.check.recall/1",
                "seed": self.shared.seed,
                "region_bytes": self.size.0,
                "designs": designs,
            }));
        } else {
            output.data(&self.text(&recalled));
        }
        ledger.record(&recalled.iter().map(|one| self.entry(one)).collect::<Vec<_>>());
        match recalled.iter().map(Recalled::score).map(|(found, seeded)| seeded - found).sum() {
            0_usize => Ok(()),
            missed => Err(Failure::new(Exit::Check, format!("{missed} seeded bugs are not found"))),
        }
    }

    /// Names of the bugs of all designs: the seeded ones, and the classes of what is left out.
    fn names(&self) -> Result<Vec<&'static str>, Failure> {
        let mut names = Vec::new();
        for name in &self.shared.fs {
            names.extend(lab::plan::matrix::design(name)?.mutants().iter().map(design::Mutant::name));
            names.extend([Target::Flush, Target::Fence].map(class));
        }
        Ok(names)
    }

    /// How many of them to look for.
    fn count(&self) -> Result<u64, Failure> {
        Ok(self.names()?.iter().filter(|name| name.contains(&self.only)).count() as u64)
    }

    fn text(&self, recalled: &[Recalled]) -> String {
        let mut bugs =
            Table::new(format!("seeded bugs, regions of {}, seed {}", self.size, self.shared.seed));
        for name in ["fs", "class", "bug", "found by", "shortest program"] {
            bugs.words(name);
        }
        for name in ["operations", "images", "time"] {
            bugs.numbers(name);
        }
        let counted = |title: &str, words: &[&str]| {
            let mut table = Table::new(title);
            for name in words {
                table.words(*name);
            }
            for name in ["total", "lints", "crash", "equivalent", "survived"] {
                table.numbers(name);
            }
            table
        };
        let mut left_out = counted("flushes and fences left out", &["fs", "class"]);
        let title = "lines of which some were left out unnoticed (docs/models/fences.md has the reasons)";
        let mut lines = counted(title, &["fs", "class", "line"]);
        for one in recalled {
            one.add_rows(&mut bugs);
            one.add_forgotten(&mut left_out);
            one.add_lines(&mut lines);
        }
        let tables = [bugs, left_out, lines].map(|table| table.to_text());
        format!("{}\n{}", tables.join("\n"), summary(recalled))
    }

    fn entry(&self, recalled: &Recalled) -> Entry {
        let (found, seeded) = recalled.score();
        let only = if self.only.is_empty() { String::new() } else { format!(" --only '{}'", self.only) };
        Entry {
            check: "recall".to_owned(),
            subject: format!("{} {}", recalled.fs, self.shared.options.join(" ")).trim_end().to_owned(),
            unit: "seeded bugs".to_owned(),
            count: found as u64,
            of: Some(seeded as u64),
            failures: (seeded - found) as u64,
            seeds: Some((self.shared.seed, self.shared.seed)),
            asked: format!("--size {}{only}", written(self.size)),
        }
    }
}
