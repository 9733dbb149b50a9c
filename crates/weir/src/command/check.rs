//! `weir check`: the reliability harnesses, on any designs.
//!
//! | subcommand | does |
//! |---|---|
//! | `model` | random operations beside a reference model and, if asked, beside the host's kernel |
//! | `crash` | crashes at every point of small programs |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use check::Design;
use check::crash::programs::{self, Program};
use check::crash::{Effort, Guarantee, Subject, Tally, Watch, explore_many, pairs};
use check::kernel::HostDir;
use check::lockstep::{Failed, Prepare, Round, Seen, run_many};
use clap::{Args, Subcommand};
use media::fault::{Fault, Target};
use media::recorder::Mode;
use report::table::Table;
use report::units::number;
use serde_json::{Value, json};
use sim::{Bytes, KIB, Nanos, Seed};

use super::mkfs::options;
use crate::checked::{SMALL, checked, guarantee};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// Compare designs with a model, or crash them everywhere.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir check model --fs pmfs,hinfs · weir check crash --fs pmfs --depth 2 --sample 500"
)]
pub(crate) struct Check {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Compare random operations, answer by answer, with a model
    Model(ModelCheck),
    /// Crash at every point of small programs, recover, judge
    Crash(CrashCheck),
}

/// What both have.
#[derive(Args, Debug)]
struct Shared {
    /// Designs (`weir list fs`)
    #[arg(long, value_delimiter = ',', required = true, value_name = "A,B")]
    fs: Vec<String>,
    /// Where randomness starts
    #[arg(long, default_value_t = 1, value_name = "S")]
    seed: u64,
    /// An option of the designs (`weir show DESIGN`); repeatable
    #[arg(short = 'O', long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Threads of this host [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
}

/// Compare random operations, answer by answer, with a model.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 no difference, 1 a difference (with the shortest program that shows it)"
)]
struct ModelCheck {
    #[command(flatten)]
    shared: Shared,
    /// Operations on each design
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// The host carries them out as well, below this directory (best on tmpfs: /dev/shm)
    #[arg(long, value_name = "DIR")]
    host: Option<PathBuf>,
    /// Size of the region [default: 8 MiB, and one in which space runs out, in turn]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Canary: the Nth store of each round fails, which must be found
    #[arg(long, value_name = "N", hide = true)]
    fail_store: Option<u64>,
}

/// Crash at every point of small programs, recover, judge.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 no violation, 1 violations (each with what had persisted)")]
struct CrashCheck {
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

/// A fresh file system after so many operations: what failed can be repeated from there.
const ROUND_OPS: u64 = 5000;
const ROUND_SIZE: Bytes = Bytes::mib(8);
/// What the small region has beside what the format needs.
const TIGHT: u64 = 256 * KIB;
/// Recoveries of each program that are crashed.
const NESTED: [usize; 2] = [20, 3];
/// Violations that are told one by one.
const TOLD: usize = 10;

impl Check {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        match self.what {
            What::Model(check) => check.run(output),
            What::Crash(check) => check.run(output),
        }
    }
}

impl Shared {
    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, |jobs| jobs as usize)
    }

    /// The designs, with the options of `usual` that they have.
    fn designs(&self, usual: &[(&str, &str)]) -> Result<Vec<Arc<dyn Design>>, Failure> {
        let given: BTreeMap<String, String> = options(&self.options)?;
        self.fs.iter().map(|name| checked(name, &given, usual)).collect()
    }
}

/// A size as one writes it on a command line.
fn written(size: Bytes) -> String {
    format!("{}KiB", size.0 / KIB)
}

fn check_size(design: &dyn Design, size: Bytes) -> Result<(), Failure> {
    let (name, needed) = (design.name(), design.min_size());
    if size >= needed {
        return Ok(());
    }
    let enough = lab::error::rounded_up(needed);
    Err(Failure::usage(format!("{name} needs at least {needed}: give it --size {enough} or more")))
}

// ---- model ----

/// What came of one design.
struct Compared {
    design: Arc<dyn Design>,
    seen: Seen,
    failed: Option<Failed>,
    took: Duration,
}

impl ModelCheck {
    fn run(self, output: &Output) -> Result<(), Failure> {
        let host = match &self.host {
            None => None,
            Some(path) => Some(HostDir::new(path).map_err(|what| Failure::new(Exit::Host, what))?),
        };
        let designs = self.shared.designs(&SMALL)?;
        for design in &designs {
            check_size(&**design, self.size.unwrap_or(ROUND_SIZE))?;
        }
        let compared = designs.into_iter().map(|design| self.compare(design, host.as_ref(), output));
        let compared = compared.collect::<Vec<_>>();
        if output.is_json() {
            output.document(&self.document(&compared));
        } else {
            output.data(&self.text(&compared));
        }
        let differ = compared.iter().filter(|compared| compared.failed.is_some());
        let names: Vec<_> = differ.map(|compared| compared.design.name()).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(Failure::new(Exit::Check, format!("{}: not as the model says", names.join(", "))))
    }

    fn compare(&self, design: Arc<dyn Design>, host: Option<&HostDir>, output: &Output) -> Compared {
        let (began, rounds) = (Instant::now(), self.ops.div_ceil(ROUND_OPS));
        let counter = Counter::new(output.shows_progress(), design.name(), rounds);
        let prepare = self.fail_store.map(|nth| -> Prepare {
            Arc::new(move |region| region.inject(Fault::FailNth { target: Target::Store, nth }))
        });
        let round = |number: usize| self.round(&design, number as u64);
        let (seen, failed) =
            run_many((rounds as usize, &round), (host, prepare.as_ref()), self.shared.jobs(), &|_| {
                counter.one_more();
            });
        Compared { design, seen, failed, took: began.elapsed() }
    }

    fn round(&self, design: &Arc<dyn Design>, number: u64) -> Round {
        let tight = Bytes((design.min_size().0 + TIGHT).next_multiple_of(4 * KIB));
        let size = self.size.unwrap_or(if number.is_multiple_of(2) { ROUND_SIZE } else { tight });
        let ops = ROUND_OPS.min(self.ops - number * ROUND_OPS) as usize;
        Round { design: Arc::clone(design), size, seed: self.shared.seed.wrapping_add(number), ops }
    }

    /// The command that shows a difference again.
    fn again(&self, compared: &Compared, failed: &Failed) -> String {
        let (name, arguments) = (compared.design.name(), compared.design.arguments());
        let mut command = format!(
            "weir check model --fs {name} --seed {} --ops {} --size {}",
            failed.seed,
            failed.ops.max(1),
            written(failed.size)
        );
        let host = self.host.as_ref().map(|path| format!("--host {}", path.display()));
        let canary = self.fail_store.map(|nth| format!("--fail-store {nth}"));
        for more in [Some(arguments), host, canary].into_iter().flatten().filter(|more| !more.is_empty()) {
            let _ = write!(command, " {more}");
        }
        command
    }

    fn text(&self, compared: &[Compared]) -> String {
        let mut table = Table::new(format!("operations beside the model, seed {}", self.shared.seed));
        table.words("fs");
        for name in ["operations", "remounts", "no space", "on host", "differences", "ops/s"] {
            table.numbers(name);
        }
        let mut failures = String::new();
        for one in compared {
            let Seen { ops, out_of_space, remounts, on_host } = one.seen;
            let on_host = if self.host.is_some() { on_host.to_string() } else { "–".to_owned() };
            let numbers = [ops.to_string(), remounts.to_string(), out_of_space.to_string(), on_host];
            let differences = u32::from(one.failed.is_some()).to_string();
            let rate = number(ops as f64 / one.took.as_secs_f64().max(1e-9));
            let row = [one.design.name().to_owned()].into_iter().chain(numbers).chain([differences, rate]);
            table.rows.push(row.collect());
            if let Some(failed) = &one.failed {
                let (name, again) = (one.design.name(), self.again(one, failed));
                let _ = writeln!(failures, "\n{name}: {failed}\nagain: {again}");
            }
        }
        table.to_text() + &failures
    }

    fn document(&self, compared: &[Compared]) -> Value {
        let one = |one: &Compared| {
            let failure = one.failed.as_ref().map(|failed| {
                json!({
                    "seed": failed.seed,
                    "ops": failed.ops,
                    "what": failed.what,
                    "program": failed.program.iter().map(|op| format!("{op:?}")).collect::<Vec<_>>(),
                    "program_what": failed.program_what,
                    "again": self.again(one, failed),
                })
            });
            json!({
                "fs": one.design.name(),
                "options": one.design.arguments(),
                "ops": one.seen.ops,
                "remounts": one.seen.remounts,
                "out_of_space": one.seen.out_of_space,
                "on_host": one.seen.on_host,
                "differences": u32::from(one.failed.is_some()),
                "elapsed_ns": one.took.as_nanos() as u64,
                "failure": failure,
            })
        };
        json!({
            "schema": "weir.check.model/1",
            "seed": self.shared.seed,
            "designs": compared.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

// ---- crash ----

/// What came of one design.
struct Crashed {
    subject: Subject,
    /// Programs that there were.
    programs: usize,
    tally: Tally,
    took: Duration,
}

impl CrashCheck {
    fn run(self, output: &Output) -> Result<(), Failure> {
        let alone = programs::all();
        let numbers = self.numbers(&alone)?;
        let subjects = self.subjects()?;
        for subject in &subjects {
            check_size(&*subject.design, self.size)?;
        }
        let crashed = subjects.into_iter().map(|subject| self.crash(subject, &alone, &numbers, output));
        let crashed = crashed.collect::<Vec<_>>();
        if output.is_json() {
            output.document(&self.document(&crashed));
        } else {
            output.data(&self.text(&crashed));
        }
        match crashed.iter().map(|one| one.tally.violations.len()).sum() {
            0_usize => Ok(()),
            count => Err(Failure::new(Exit::Check, format!("{count} violations"))),
        }
    }

    /// The designs, each with what it promises. One that may be mounted `sync` is explored both ways, unless that is said.
    fn subjects(&self) -> Result<Vec<Subject>, Failure> {
        let given: BTreeMap<String, String> = options(&self.shared.options)?;
        let (size, mode) = (self.size, Mode::Adr);
        let mut subjects = Vec::new();
        for name in &self.shared.fs {
            let mut add = |given: &BTreeMap<String, String>| {
                let (design, guarantee) = (checked(name, given, &SMALL)?, guarantee(name, given)?);
                subjects.push(Subject { design, size, guarantee, mode });
                Ok::<_, Failure>(guarantee)
            };
            if add(&given)? == Guarantee::Buffered && !given.contains_key("sync") {
                let mut sync = given.clone();
                sync.insert("sync".to_owned(), "true".to_owned());
                add(&sync)?;
            }
        }
        Ok(subjects)
    }

    /// The programs to explore, by number: of one, or of a pair.
    fn numbers(&self, alone: &[Program]) -> Result<Vec<usize>, Failure> {
        let words = self.programs.as_deref().unwrap_or_default();
        let count = if self.depth == 1 { alone.len() } else { alone.len() * alone.len() };
        let mut numbers: Vec<usize> =
            (0..count).filter(|number| self.name(alone, *number).contains(words)).collect();
        if numbers.is_empty() {
            let some: Vec<_> = alone.iter().step_by(alone.len() / 8).map(|one| one.name.as_str()).collect();
            let some = some.join(", ");
            return Err(Failure::usage(format!(
                "no program's name contains \"{words}\"; names are: {some} …"
            )));
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
        let watch = Watch {
            jobs: self.shared.jobs(),
            end: self.time.map(|time| began + Duration::from_nanos(time.0)),
            explored: &|_| counter.one_more(),
        };
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
            let name = format!("{} {}", one.subject.design.name(), one.subject.design.arguments());
            let row = [name.trim_end().to_owned(), workloads].into_iter().chain(counts);
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

    fn document(&self, crashed: &[Crashed]) -> Value {
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
        })
    }
}
