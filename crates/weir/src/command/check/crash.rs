//! `weir check crash`: crashes at every point of small programs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use check::Limits;
use check::crash::programs::{self, Program};
use check::crash::{Effort, Guarantee, Subject, Tally, Watch, explore_many, pairs};
use clap::Args;
use media::fault::{Fault, Target};
use report::table::Table;
use report::units::number;
use serde_json::{Value, json};
use sim::{Bytes, Nanos, Seed};

use super::ledger::{Entry, Ledger};
use super::recall::{self, Recalled};
use super::{Shared, TOLD, no_program, subject, written};
use crate::failure::{Exit, Failure};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Counter;

/// Recoveries of each program that are crashed.
const NESTED: [usize; 2] = [20, 3];

/// Crash at every point of small programs, recover, judge.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 no violation, 1 violations (each with what had persisted)")]
pub(super) struct CrashCheck {
    #[command(flatten)]
    shared: Shared,
    /// 1: each program alone; 2: each after each
    #[arg(long, default_value_t = 1, value_name = "1|2", value_parser = clap::value_parser!(u8).range(1..=2))]
    depth: u8,
    /// Only the programs whose names contain these words
    #[arg(long, value_name = "WORDS")]
    programs: Option<String>,
    /// Only so many of them, drawn from the seed
    #[arg(long, value_name = "N")]
    sample: Option<usize>,
    /// Begin no program after this time: 60s
    #[arg(long, value_name = "TIME")]
    time: Option<Nanos>,
    /// Size of the region
    #[arg(long, default_value = "1MiB", value_name = "SIZE")]
    size: Bytes,
    /// Canary: the Nth fence of each program is left out, which must be found
    #[arg(long, value_name = "N", hide = true)]
    drop_fence: Option<u64>,
}

/// What came of one design.
struct Crashed {
    subject: Subject,
    /// Programs that there were.
    programs: usize,
    tally: Tally,
    took: Duration,
}

impl CrashCheck {
    pub(super) fn run(self, output: &Output, ledger: &Ledger<'_>) -> Result<(), Failure> {
        let alone = programs::all();
        let numbers = self.numbers(&alone)?;
        let subjects = self.shared.subjects(self.size, None)?;
        let crashed = subjects.into_iter().map(|subject| self.crash(subject, &alone, &numbers, output));
        let crashed = crashed.collect::<Vec<_>>();
        let recalled = if self.is_whole() { self.recall(&alone)? } else { Vec::new() };
        if output.is_json() {
            output.document(&self.document(&crashed, &recalled));
        } else {
            output.data(&(self.text(&crashed) + &recall::summary(&recalled)));
        }
        if self.drop_fence.is_none() {
            ledger.record(&crashed.iter().map(|one| self.entry(one)).collect::<Vec<_>>());
        }
        match crashed.iter().map(|one| one.tally.violations.len()).sum() {
            0_usize => Ok(()),
            count => Err(Failure::new(Exit::Check, format!("{count} violations"))),
        }
    }

    /// Whether everything is explored: then it is worth saying what the same programs find of seeded bugs.
    fn is_whole(&self) -> bool {
        let part = self.programs.is_some() || self.sample.is_some() || self.time.is_some();
        self.drop_fence.is_none() && !part && !interrupt::happened()
    }

    fn recall(&self, alone: &[Program]) -> Result<Vec<Recalled>, Failure> {
        recall::all(&self.shared, self.size, "", alone, &|| ())
    }

    /// The programs to explore, by number: of one, or of a pair.
    fn numbers(&self, alone: &[Program]) -> Result<Vec<usize>, Failure> {
        let words = self.programs.as_deref().unwrap_or_default();
        let count = if self.depth == 1 { alone.len() } else { alone.len() * alone.len() };
        let mut numbers: Vec<usize> =
            (0..count).filter(|number| self.name(alone, *number).contains(words)).collect();
        if numbers.is_empty() {
            return Err(no_program(words));
        }
        if let Some(sample) = self.sample {
            let mut rng = Seed(self.shared.seed).derive("check.sample", 0).rng();
            check::generate::draw(&mut numbers, sample, &mut rng);
        }
        Ok(numbers)
    }

    fn name(&self, alone: &[Program], number: usize) -> String {
        match self.depth {
            1 => alone[number].name.clone(),
            _ => pairs::name(&alone[number / alone.len()], &alone[number % alone.len()]),
        }
    }

    fn crash(&self, subject: Subject, alone: &[Program], numbers: &[usize], output: &Output) -> Crashed {
        let began = Instant::now();
        let program = |at: usize| match self.depth {
            1 => alone[numbers[at]].clone(),
            _ => pairs::numbered(alone, numbers[at]),
        };
        let usual = Effort::usual(self.shared.seed, NESTED[usize::from(self.depth) - 1]);
        let effort = Effort { after_commits: self.depth == 1, ..usual };
        let faults: Vec<_> =
            self.drop_fence.iter().map(|nth| Fault::DropNth { target: Target::Fence, nth: *nth }).collect();
        let counter = Counter::new(output.shows_progress(), subject.design.name(), numbers.len() as u64);
        let end = self.time.map(|time| began + Duration::from_nanos(time.0));
        let watch =
            Watch { limits: Limits { end, ..self.shared.limits() }, explored: &|_| counter.one_more() };
        let tally = explore_many(&subject, (numbers.len(), &program), (&effort, &faults), &watch);
        Crashed { subject, programs: numbers.len(), tally, took: began.elapsed() }
    }

    /// The command that shows a violation again.
    fn again(&self, crashed: &Crashed, program: &str) -> String {
        let (name, arguments) = (crashed.subject.design.name(), crashed.subject.design.arguments());
        let (depth, seed, size) = (self.depth, self.shared.seed, written(self.size));
        let canary = self.drop_fence.map_or(String::new(), |nth| format!(" --drop-fence {nth}"));
        let arguments = if arguments.is_empty() { arguments } else { format!(" {arguments}") };
        format!(
            "weir check crash --fs {name} --depth {depth} --seed {seed} --size {size}{arguments}{canary} --programs '{program}'"
        )
    }

    fn text(&self, crashed: &[Crashed]) -> String {
        let title =
            format!("crashes, depth {}, regions of {}, seed {}", self.depth, self.size, self.shared.seed);
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
            let workloads = match one.programs {
                all if all == tally.programs => all.to_string(),
                all => format!("{} of {all}", tally.programs),
            };
            let counts = [tally.points, tally.images, tally.distinct_images, tally.distinct_states];
            let more = [tally.nested_images, tally.violations.len()];
            let counts = counts.into_iter().chain(more).map(|count| count.to_string());
            let row = [subject(&*one.subject.design), workloads].into_iter().chain(counts);
            table.rows.push(row.chain([number(tally.images_per_core_second())]).collect());
            if tally.without_space > 0 {
                let (name, count) = (one.subject.design.name(), tally.without_space);
                let _ =
                    writeln!(told, "\n{name}: {count} workloads need more space; give it more with --size");
            }
            for violation in tally.violations.iter().take(TOLD) {
                let again = self.again(one, &violation.program);
                let _ = writeln!(told, "\n{}: {violation}\nagain: {again}", one.subject.design.name());
            }
        }
        table.to_text() + &told
    }

    fn entry(&self, crashed: &Crashed) -> Entry {
        let tally = &crashed.tally;
        let mut asked = vec![format!("--size {}", written(self.size))];
        asked.extend(self.programs.as_ref().map(|words| format!("--programs '{words}'")));
        asked.extend(self.sample.map(|count| format!("--sample {count}")));
        Entry {
            check: format!("crash/depth-{}", self.depth),
            subject: subject(&*crashed.subject.design),
            unit: "distinct images".to_owned(),
            count: (tally.distinct_images + tally.nested_images) as u64,
            failures: tally.violations.len() as u64,
            seeds: Some((self.shared.seed, self.shared.seed)),
            asked: asked.join(" "),
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
                "buffered": one.subject.guarantee == Guarantee::Buffered,
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
            "depth": self.depth,
            "region_bytes": self.size.0,
            "designs": crashed.iter().map(one).collect::<Vec<_>>(),
            "recall": recalled.iter().map(Recalled::document).collect::<Vec<_>>(),
        })
    }
}
