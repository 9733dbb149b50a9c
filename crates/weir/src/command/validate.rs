//! `weir validate`: the model beside published measurements.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, Parser as _};
use lab::trust::Trust;
use lab::validation::memory::Unloaded;
use lab::validation::{self, Rows, Task, controls};
use lab::{Plan, Prices};
use results::validation::{Compared, LeftOut, Row, ValidationFile};
use sim::Bytes;

use crate::cli::{Cli, Command};
use crate::command::sim::{Simulator, medium::MediumLoops};
use crate::experiment;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Bar;
use crate::{interrupt, store};

/// Hold the model against published measurements: errors by class, orders of designs, limits.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir validate · weir validate presets/validation/optane.toml --class media \
                  · weir validate rows.toml --json --null"
)]
pub(crate) struct Validate {
    /// Files of rows [default: all that come with Weir]
    #[arg(value_name = "FILE.toml")]
    files: Vec<PathBuf>,
    /// Only rows of this class (media, meta, data …); repeatable
    #[arg(long, value_name = "CLASS")]
    class: Vec<String>,
    /// Only the rows whose source has this text in its name; repeatable
    #[arg(long, value_name = "TEXT")]
    source: Vec<String>,
    /// Only the rows whose names begin so: opt.thr, wofs.write; repeatable
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Print the null model beside the model, row by row
    ///
    /// It is the results before, times a factor for each design and operation; of memory under load, a queue of constant service a
    /// channel.
    #[arg(long)]
    null: bool,
    /// Add a setting to every medium or machine: medium.KEY=VALUE, machine.KEY=VALUE; repeatable
    #[arg(long, value_name = "WHAT.KEY=VALUE")]
    with: Vec<String>,
    /// An earlier document of this command (--json) to compare with, class by class
    #[arg(long, value_name = "FILE.json")]
    against: Option<PathBuf>,
    /// Directory on ext4 in which calls of this host's kernel are measured [default: a temporary one]
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    ext4: Option<PathBuf>,
    /// The same on tmpfs
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    tmpfs: Option<PathBuf>,
    /// Write the page to a .html, the document to a .json, or the tables to a .md or .txt file; repeatable
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
    /// Measure by how much ratios of designs are wrong under each set of prices, and write presets/validation/trust.toml anew
    #[arg(long, value_name = "FILE.toml", conflicts_with_all = ["outputs", "against", "null"], hide_short_help = true)]
    trust: Option<PathBuf>,
    /// Rows that run in parallel [default: one for each core]
    #[arg(long, value_name = "N", hide_short_help = true)]
    jobs: Option<usize>,
    /// Memory that they may use together [default: nine tenths of the free memory]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    memory: Option<Bytes>,
}

/// Settings that are added to the media and machines of rows, as they stand after a name: `,KEY=VALUE`.
#[derive(Debug, Default)]
pub(crate) struct With {
    pub(crate) medium: String,
    pub(crate) machine: String,
}

impl With {
    fn parse(texts: &[String]) -> Result<Self, Failure> {
        let mut with = Self::default();
        for text in texts {
            match text.split_once('.').filter(|(_, setting)| setting.contains('=')) {
                Some(("medium", setting)) => with.medium = format!("{},{setting}", with.medium),
                Some(("machine", setting)) => with.machine = format!("{},{setting}", with.machine),
                _ => {
                    let advice = "write medium.KEY=VALUE or machine.KEY=VALUE";
                    return Err(Failure::usage(format!("--with {text}: {advice}")));
                }
            }
        }
        Ok(with)
    }
}

impl Validate {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        self.outputs.iter().try_for_each(|path| check_output(path))?;
        let with = With::parse(&self.with)?;
        let before = self.against.as_deref().map(read).transpose()?;
        let all = if self.files.is_empty() { Rows::calibration() } else { Rows::load(&self.files) }?;
        all.notes.iter().for_each(|note| output.note(note));
        let calibration = Rows::calibration()?.rows;
        let work: Vec<_> = self.chosen(all.rows)?.into_iter().map(|row| task(row, &with)).collect();
        let settings = validation::Settings {
            runner: self.runner(),
            ext4: self.ext4.clone(),
            tmpfs: self.tmpfs.clone(),
        };
        let bar = Bar::new(output.shows_progress(), output.tells_progress());
        if let Some(path) = &self.trust {
            return trust(work, (&settings, &bar), path, output);
        }
        let rows = validation::measure(work, &settings, &bar)?;
        drop(bar);
        let mut found = validation::judge(rows, &calibration);
        found.controls.extend(before.map(|before| controls::alone(&before, &found)));
        found.command = experiment::command();
        found.environment = lab::environment::capture();
        found.with.clone_from(&self.with);
        self.write(&found, &calibration, output)?;
        end(&found)
    }

    /// The rows of the classes and sources that are asked for.
    fn chosen(&self, rows: Vec<Row>) -> Result<Vec<Row>, Failure> {
        let one_of = |wanted: &[String], is: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|one| is(one))
        };
        let chosen = |row: &Row| {
            one_of(&self.class, &|class| row.class == class)
                && one_of(&self.source, &|source| row.source.to_lowercase().contains(&source.to_lowercase()))
                && one_of(&self.only, &|id| row.id.starts_with(id))
        };
        let mut classes: Vec<String> = rows.iter().map(|row| row.class.clone()).collect();
        classes.sort_unstable();
        classes.dedup();
        let rows: Vec<Row> = rows.into_iter().filter(chosen).collect();
        if rows.is_empty() {
            let classes = classes.join(", ");
            return Err(Failure::usage(format!(
                "no row is chosen; the files have rows of the classes {classes}"
            )));
        }
        Ok(rows)
    }

    fn runner(&self) -> lab::Settings {
        lab::Settings {
            jobs: self.jobs.unwrap_or(0),
            memory: self.memory,
            interrupt: interrupt::flag(),
            ..lab::Settings::default()
        }
    }

    fn write(&self, found: &ValidationFile, calibration: &[Row], output: &Output) -> Result<(), Failure> {
        let null = self.null.then(|| controls::NullModel::fit(calibration));
        let unloaded = Unloaded::of(&found.rows);
        let queue = |row: &Row| unloaded.predict(row).map(|(_, queue)| queue);
        let null = |row: &Row| null.as_ref().and_then(|model| model.predict(row)).or_else(|| queue(row));
        let tables = report::validation::tables(found, self.null.then_some(&null));
        let text = |form: fn(&report::table::Table) -> String| {
            tables.iter().map(form).collect::<Vec<_>>().join("\n")
        };
        if output.is_json() {
            output.document(found);
        } else {
            output.data(&text(report::table::Table::to_text));
        }
        for path in &self.outputs {
            let bytes = match extension(path) {
                "json" => {
                    serde_json::to_string_pretty(found).expect("our documents have string keys only") + "\n"
                }
                "md" => text(report::table::Table::to_markdown),
                "html" => report::validation::page(found, self.null.then_some(&null))?,
                _ => text(report::table::Table::to_text),
            };
            results::file::write_atomic(path, bytes)?;
            output.note(&format!("validation  {}", path.display()));
        }
        Ok(())
    }
}

/// Writes how far ratios of designs are wrong: the rows of designs, measured under each set of prices, those of ports as if each
/// design had no original.
fn trust(
    work: Vec<validation::Work>,
    (settings, bar): (&validation::Settings, &Bar),
    path: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let of_designs: Vec<(Row, Plan)> = work
        .into_iter()
        .filter_map(|(row, task)| match task {
            Ok(Task::Cell(plan)) if row.design.is_some() && row.compared == Compared::Yes => {
                Some((row, *plan))
            }
            _ => None,
        })
        .collect();
    let has_rival = |row: &Row| {
        of_designs.iter().any(|(other, _)| other.group == row.group && other.design != row.design)
    };
    let of_designs: Vec<(Row, Plan)> = of_designs.iter().filter(|(row, _)| has_rival(row)).cloned().collect();
    let mut rows = BTreeMap::new();
    for (_, prices) in Prices::ALL {
        let priced = |plan: &Plan| Plan {
            prices: vec![prices],
            as_new: matches!(prices, Prices::PortLeast | Prices::PortMost),
            ..plan.clone()
        };
        let work = of_designs.iter().map(|(row, plan)| (row.clone(), Ok(Task::Cell(Box::new(priced(plan))))));
        rows.insert(prices, validation::measure(work.collect(), settings, bar)?);
    }
    if interrupt::happened() {
        return Err(Failure::new(Exit::Interrupted, "interrupted: rows are missing, and nothing is written"));
    }
    let named = || std::env::var("WEIR_BUILD").ok();
    let commit = lab::environment::capture().commit.or_else(named);
    let commit = commit.unwrap_or_else(|| "a build without a commit".to_owned());
    let plans: Vec<Plan> = of_designs.into_iter().map(|(_, plan)| plan).collect();
    let found = Trust::measured(&rows, &plans, &commit);
    results::file::write_atomic(path, found.to_toml())?;
    output.note(&format!("trust  {}", path.display()));
    Ok(())
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn check_output(path: &Path) -> Result<(), Failure> {
    if !["html", "json", "md", "txt"].contains(&extension(path)) {
        return Err(Failure::usage(format!(
            "{}: the name of the file must end in .html, .json, .md or .txt",
            path.display()
        )));
    }
    store::check_file(path)
}

/// An earlier document.
fn read(path: &Path) -> Result<ValidationFile, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
    let wrong = |what: String| {
        Failure::usage(format!("{}: it is no document of `weir validate --json`: {what}", path.display()))
    };
    let found: ValidationFile = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let schema = results::validation::VALIDATION_SCHEMA;
    if found.schema != schema {
        return Err(wrong(format!("its schema is \"{}\", and this is \"{schema}\"", found.schema)));
    }
    Ok(found)
}

/// A limit that is missed fails the command, and so does a run that was interrupted.
fn end(found: &ValidationFile) -> Result<(), Failure> {
    if interrupt::happened() {
        return Err(Failure::new(Exit::Interrupted, "interrupted: rows are missing"));
    }
    if found.rows.iter().all(|row| row.measured.is_none() && !row.live) {
        let host = found.rows.iter().any(|row| row.left_out.as_ref().is_some_and(|why| why.kind == "host"));
        let exit = if host { Exit::Host } else { Exit::Usage };
        return Err(Failure::new(exit, "no row was measured; the table of rows that are left out says why"));
    }
    let missed: Vec<String> =
        found.misses().map(|limit| format!("{} ({})", limit.number, limit.scope)).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Check, format!("limits are missed: {}", missed.join(", "))))
}

// ---- commands of rows ----

/// The row with what its command does.
fn task(row: Row, with: &With) -> validation::Work {
    let task = of_command(&row, with);
    (row, task)
}

fn of_command(row: &Row, with: &With) -> Result<Task, LeftOut> {
    let unknown = |why: String| LeftOut::new("command", format!("\"{}\": {why}", row.command));
    let command = row.command.trim();
    if command.starts_with("none") || command.contains("weir explain") {
        let why =
            "a source of constants: a part of a call, which `weir explain` prints where the design names it";
        return Err(LeftOut::new("constants", why));
    }
    if command == "k.c" {
        return Ok(Task::Kernel);
    }
    let (words, plus_ns) = words(command, row.unit.starts_with("ns")).map_err(unknown)?;
    let parsed = Cli::try_parse_from(&words).map_err(|error| {
        let told = error.to_string();
        unknown(told.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned())
    })?;
    let preset = |failure: Failure| LeftOut::new("preset", failure.message);
    match parsed.command {
        Command::Bench(bench) => Ok(Task::Cell(Box::new(bench.plan_of_row(with).map_err(preset)?))),
        Command::Sim(sim) => match sim.simulator {
            Simulator::Medium(medium) => one_loop(&medium, with, plus_ns).map_err(preset),
            _ => Err(unknown("of `weir sim`, only `weir sim medium` gives the number of a row".to_owned())),
        },
        Command::Reproduce(reproduce) => {
            let paper = reproduce.paper().ok_or_else(|| unknown("it names no one paper".to_owned()))?;
            let claim =
                row.claim.clone().ok_or_else(|| unknown("the row names no claim of it".to_owned()))?;
            Ok(Task::Claim { paper, claim })
        }
        _ => Err(unknown("only bench, sim medium and reproduce give the number of a row".to_owned())),
    }
}

fn one_loop(medium: &MediumLoops, with: &With, plus_ns: f64) -> Result<Task, Failure> {
    let mut probes = medium.probes((&with.medium, &with.machine))?;
    match (probes.pop(), probes.is_empty()) {
        (Some(probe), true) => return Ok(Task::Probe(Box::new(probe))),
        (Some(_), false) => return Err(Failure::usage("a row has one value of each list")),
        _ => {}
    }
    let mut loops = medium.loops((&with.medium, &with.machine))?;
    match (loops.pop(), loops.is_empty()) {
        (Some(work), true) => Ok(Task::Loop { work: Box::new(work), plus_ns }),
        _ => Err(Failure::usage("a row has one access, one size and one number of threads")),
    }
}

/// The words of a command, with short names written out, and nanoseconds to add to what it gives: `(+100 ns DRAM)`.
fn words(command: &str, is_latency: bool) -> Result<(Vec<String>, f64), String> {
    let (command, plus) = command.split_once(" (+").unwrap_or((command, ""));
    let plus_ns = match plus.split_once(" ns") {
        None if plus.is_empty() => 0.0,
        None => return Err(format!("\"(+{plus}\" is no time to add, as in (+100 ns DRAM)")),
        Some((number, _)) => {
            number.parse().map_err(|_| format!("\"{number}\" is no number of nanoseconds"))?
        }
    };
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    match words.first().map(String::as_str) {
        Some("lattester") => Ok((lattester(&words[1..], is_latency)?, plus_ns)),
        Some("weir") => Ok((words, plus_ns)),
        _ => Err("it is no command of weir, and no short name that presets/validation/README.md explains"
            .to_owned()),
    }
}

/// `lattester MEDIUM PATTERN OP SIZE THREADS FULL [FENCE]`, as `weir sim medium` has it. LATTester measures latencies with a fence
/// after each access, and bandwidth without: so does a row that does not say.
fn lattester(words: &[String], is_latency: bool) -> Result<Vec<String>, String> {
    let (medium, pattern, access, size, threads, full, fence) = match words {
        [medium, pattern, access, size, threads, full] => {
            (medium, pattern, access, size, threads, full, if is_latency { "1" } else { "0" })
        }
        [medium, pattern, access, size, threads, full, fence] => {
            (medium, pattern, access, size, threads, full, fence.as_str())
        }
        _ => return Err("lattester takes MEDIUM PATTERN OP SIZE THREADS FULL [FENCE]".to_owned()),
    };
    let flag = |text: &str, name: &str| match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("{name} of lattester is 0 or 1, and not \"{text}\"")),
    };
    let (full, fence) = (flag(full, "FULL")?, flag(fence, "FENCE")?);
    let options = ["--pattern", pattern, "--op", access, "--size", size, "--threads", threads];
    let flags = full.then_some("--full").into_iter().chain((!fence).then_some("--no-fence"));
    let all = ["weir", "sim", "medium", medium].into_iter().chain(options).chain(flags);
    Ok(all.map(str::to_owned).collect())
}
