//! `weir check crash`: crashes at every point of small programs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use check::Limits;
use check::crash::{Effort, Family, Subject, Tally, Watch, explore_many, programs};
use clap::{Args, ValueEnum};
use media::fault::{Fault, Target};
use media::recorder::Mode;
use report::table::Table;
use report::units::number;
use serde_json::{Value, json};

use super::chosen::Chosen;
use super::ledger::{Entry, Ledger};
use super::recall::{self, Recalled};
use super::{End, Shared, TOLD, refuse_without_maps, subject, tried};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Counter;

/// Recoveries of each program that are crashed.
const NESTED: [usize; 3] = [20, 3, 1];

/// Crash small programs at every point, recover, and judge the result.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 no violation, 1 violations (each printed with what had persisted).\n\
                  Of your own program: weir check crash trace:FILE (see weir check crash trace: --help)")]
pub(super) struct CrashCheck {
    #[command(flatten)]
    pub(super) shared: Shared,
    /// Operations in each program; 2: every pair; 3: every triple of operations that change names (see --sample, --time)
    #[arg(long, default_value_t = 1, value_name = "1|2|3", value_parser = clap::value_parser!(u32).range(1..=3))]
    depth: u32,
    /// Run pairs of operations in two tasks at once, under several schedules
    #[arg(long, conflicts_with_all = ["depth", "random"])]
    together: bool,
    /// Run programs that store through mapped files instead
    #[arg(long, conflicts_with_all = ["depth", "random", "together"])]
    mapped: bool,
    /// What survives a crash: stores that were flushed and fenced (adr), or what the caches have as well (eadr)
    ///
    /// What is explored with eadr is no evidence of `weir check --evidence`.
    #[arg(long, value_enum, default_value_t = Domain::Adr, hide_short_help = true)]
    domain: Domain,
    #[command(flatten)]
    pub(super) chosen: Chosen,
    /// Canary: the Nth fence of each program is left out, which must be found
    #[arg(long, value_name = "N", hide = true)]
    drop_fence: Option<u64>,
}

/// The persistence domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Domain {
    /// Stores are in it that were flushed and fenced.
    Adr,
    /// Caches are in it.
    Eadr,
}

/// What came of one design.
pub(super) struct Crashed {
    pub(super) subject: Subject,
    /// Programs that there were.
    pub(super) programs: usize,
    pub(super) tally: Tally,
    pub(super) took: Duration,
}

impl CrashCheck {
    pub(super) fn run(self, output: &Output, ledger: &Ledger<'_>) -> Result<(), Failure> {
        let (family, numbers, subjects) = self.prepare()?;
        let crashed = subjects.into_iter().map(|subject| self.crash(subject, (&family, &numbers), output));
        self.finish(&crashed.collect::<Vec<_>>(), &End::HERE, output, ledger)
    }

    /// The programs, those that are wanted, and the designs.
    pub(super) fn prepare(&self) -> Result<(Family, Vec<usize>, Vec<Subject>), Failure> {
        let family = match self.together {
            true => Family::together(),
            false if self.mapped => Family::mapped(),
            false => self.chosen.family(&self.shared, self.depth),
        };
        let numbers = self.chosen.numbers(&family, &self.shared)?;
        let mut subjects = self.shared.subjects(self.chosen.size, false)?;
        if self.domain == Domain::Eadr {
            for subject in &mut subjects {
                subject.mode = Mode::Eadr;
            }
        }
        if self.mapped {
            subjects.iter().try_for_each(|subject| refuse_without_maps(&subject.design, subject.size))?;
        }
        Ok((family, numbers, subjects))
    }

    /// Prints and records what came of the designs.
    pub(super) fn finish(
        &self,
        crashed: &[Crashed],
        end: &End<'_>,
        output: &Output,
        ledger: &Ledger<'_>,
    ) -> Result<(), Failure> {
        let recalled = if end.whole && self.is_whole() && !self.together && !self.mapped {
            recall::all(&self.shared, self.chosen.size, "", &programs::alone(), &|| ())?
        } else {
            Vec::new()
        };
        let document = self.document(crashed, &recalled);
        if output.is_json() {
            output.document(&document);
        } else {
            output.data(&(self.text(crashed) + &recall::summary(&recalled)));
        }
        end.write(document)?;
        if self.drop_fence.is_none() && self.domain == Domain::Adr && end.whole {
            ledger.record(&crashed.iter().map(|one| self.entry(one)).collect::<Vec<_>>());
        }
        match crashed.iter().map(|one| one.tally.violations.len()).sum() {
            0_usize => self.chosen.ran(crashed.iter().map(|one| (&one.subject, one.tally.programs))),
            count => Err(Failure::new(Exit::Check, format!("{count} violations"))),
        }
    }

    /// Whether everything is explored: then it is worth saying what the same programs find of seeded bugs.
    fn is_whole(&self) -> bool {
        let is_usual = self.drop_fence.is_none() && self.domain == Domain::Adr;
        is_usual && self.chosen.is_all() && !interrupt::happened()
    }

    fn crash(&self, subject: Subject, of: (&Family, &[usize]), output: &Output) -> Crashed {
        let (began, programs) = (Instant::now(), of.1.len());
        let counter = Counter::new(output, subject.design.name(), programs as u64);
        let limits = self.chosen.limits(&self.shared, began);
        let tally = self.tally(&subject, of, &limits, &|| counter.one_more());
        Crashed { subject, programs, tally, took: began.elapsed() }
    }

    /// Explores the programs of the family that have these numbers.
    pub(super) fn tally(
        &self,
        subject: &Subject,
        (family, numbers): (&Family, &[usize]),
        limits: &Limits,
        done: &(dyn Fn() + Sync),
    ) -> Tally {
        let program = |at: usize| family.program(numbers[at]);
        let alone = self.depth == 1 && self.chosen.random.is_none() && !self.together;
        let nested = if self.chosen.random.is_some() || self.together {
            NESTED[1]
        } else {
            NESTED[self.depth as usize - 1]
        };
        let effort = Effort { after_commits: alone, ..Effort::usual(self.shared.seed, nested) };
        let faults: Vec<_> =
            self.drop_fence.iter().map(|nth| Fault::DropNth { target: Target::Fence, nth: *nth }).collect();
        let watch = Watch { limits: limits.clone(), explored: &|_| done() };
        explore_many(subject, (numbers.len(), &program), (&effort, &faults), &watch)
    }

    /// What decides the tally of a program, beside design, size, seed and the program's number.
    pub(super) fn identity(&self) -> Value {
        let Self { depth, together, mapped, drop_fence, domain, .. } = self;
        let mut identity =
            json!({ "depth": depth, "together": together, "mapped": mapped, "drop_fence": drop_fence });
        if *domain == Domain::Eadr {
            identity["domain"] = json!("eadr");
        }
        identity
    }

    /// The command that shows a violation again.
    fn again(&self, crashed: &Crashed, program: &str) -> String {
        let (name, arguments) = (crashed.subject.design.name(), crashed.subject.design.arguments());
        let again = self.chosen.again(&self.shared, program);
        let depth = match (self.together, self.chosen.random) {
            (true, _) => " --together".to_owned(),
            (false, _) if self.mapped => " --mapped".to_owned(),
            (false, Some(_)) => String::new(),
            (false, None) => format!(" --depth {}", self.depth),
        };
        let canary = self.drop_fence.map_or(String::new(), |nth| format!(" --drop-fence {nth}"));
        let arguments = if arguments.is_empty() { String::new() } else { format!(" {arguments}") };
        let domain = if self.domain == Domain::Eadr { " --domain eadr" } else { "" };
        format!("weir check crash --fs {name}{arguments}{depth}{domain}{canary} {again}")
    }

    /// Which programs, in titles.
    fn which(&self) -> String {
        let programs = match self.chosen.random {
            Some(count) => format!("{count} random programs"),
            None if self.together => "pairs of operations at once".to_owned(),
            None if self.mapped => "mapped files".to_owned(),
            None => format!("depth {}", self.depth),
        };
        if self.domain == Domain::Eadr { programs + ", caches persist" } else { programs }
    }

    fn text(&self, crashed: &[Crashed]) -> String {
        let title = format!(
            "crashes, {}, regions from {}, seed {}",
            self.which(),
            self.chosen.size,
            self.shared.seed
        );
        let mut table = Table::new(title);
        table.words("fs");
        for name in
            ["workloads", "points", "images", "distinct", "states", "nested", "violations", "images/s/core"]
        {
            table.numbers(name);
        }
        let mut told = String::new();
        for one in crashed {
            let tally = &one.tally;
            let counts = [tally.points, tally.images, tally.distinct_images, tally.distinct_states];
            let more = [tally.nested_images, tally.violations.len()];
            let counts = counts.into_iter().chain(more).map(|count| count.to_string());
            let row =
                [subject(&one.subject.design), tried(tally.programs, one.programs)].into_iter().chain(counts);
            table.rows.push(row.chain([number(tally.images_per_core_second())]).collect());
            if tally.without_space > 0 {
                let (name, count) = (one.subject.design.name(), tally.without_space);
                let _ = writeln!(
                    told,
                    "\n{name}: {count} workloads find no space: in the region (give it more with --size), or where a \
                     file keeps its attributes, which has a size of its own"
                );
            }
            for violation in tally.violations.iter().take(TOLD) {
                let again = self.again(one, &violation.program);
                let _ = writeln!(told, "\n{}: {violation}\nagain: {again}", one.subject.design.name());
            }
        }
        table.to_text() + &told
    }

    /// The name of the check.
    pub(super) fn check(&self) -> String {
        match self.chosen.random {
            Some(_) => "crash/random".to_owned(),
            None if self.together => "crash/together".to_owned(),
            None if self.mapped => "crash/mapped".to_owned(),
            None => format!("crash/depth-{}", self.depth),
        }
    }

    fn entry(&self, crashed: &Crashed) -> Entry {
        let tally = &crashed.tally;
        Entry {
            check: self.check(),
            subject: subject(&crashed.subject.design),
            unit: "distinct images".to_owned(),
            count: (tally.distinct_images + tally.nested_images) as u64,
            failures: tally.violations.len() as u64,
            seeds: Some((self.shared.seed, self.shared.seed)),
            asked: self.chosen.asked(),
            ..Entry::default()
        }
    }

    fn document(&self, crashed: &[Crashed], recalled: &[Recalled]) -> Value {
        let one = |one: &Crashed| {
            let violations = one.tally.violations.iter().map(|violation| {
                let again = self.again(one, &violation.program);
                json!({ "program": violation.program, "what": violation.what, "again": again })
            });
            json!({
                "fs": one.subject.design.name(),
                "options": one.subject.design.arguments(),
                "buffered": one.subject.promises.buffers_data(),
                "workloads": one.tally.programs,
                "workloads_all": one.programs,
                "without_space": one.tally.without_space,
                "points": one.tally.points,
                "images": one.tally.images,
                "distinct_images": one.tally.distinct_images,
                "distinct_states": one.tally.distinct_states,
                "nested_images": one.tally.nested_images,
                "elapsed_ns": one.took.as_nanos() as u64,
                "cpu_ns": one.tally.cpu.as_nanos() as u64,
                "images_per_core_second": one.tally.images_per_core_second(),
                "violations": violations.collect::<Vec<_>>(),
            })
        };
        json!({
            "schema": "weir.check.crash/1",
            "seed": self.shared.seed,
            "depth": (self.chosen.random.is_none() && !self.together && !self.mapped).then_some(self.depth),
            "together": self.together,
            "mapped": self.mapped,
            "random": self.chosen.random,
            "domain": if self.domain == Domain::Eadr { "eadr" } else { "adr" },
            "region_bytes": self.chosen.size.0,
            "designs": crashed.iter().map(one).collect::<Vec<_>>(),
            "recall": recalled.iter().map(Recalled::document).collect::<Vec<_>>(),
        })
    }
}
