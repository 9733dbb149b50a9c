//! `weir sim logging`: a program of transactions under logging schemes, on a simulated machine.
//!
//! | module | holds |
//! |---|---|
//! | `crash` | the matrix of schemes and mutants |
//! | `timeline` | one transaction, span by span |
//! | `files` | what file systems ask of memory, with their own protocol and with hardware logging |

mod crash;
mod files;
mod timeline;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archsim::run::UNSAFE_BASE;
use archsim::trace::{Trace, champsim, lackey};
use archsim::{Config, Machine, Outcome, machine, scheme, workload};
use clap::Args;
use report::Report;
use report::table::Table;
use results::{Clock, ResultFile, Sample};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::output::{Output, columns};
use crate::{experiment, store};

/// The schemes that are simulated if none is named.
const SCHEMES: [&str; 6] = [UNSAFE_BASE, "undo-clwb", "redo-clwb", "hwl", "fwb", "non-pers"];

/// The last transaction that `--timeline` shows: those before it are simulated, too.
const LAST_OF_TIMELINE: u64 = 1_000_000;

/// Simulate transactions under logging schemes.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir sim logging --scheme undo-clwb,fwb --workload hash --threads 4")]
pub(crate) struct Logging {
    /// Logging schemes (--list names them), "unsafe-base": the faster of the two unsafe ones, or "all"
    /// [default: unsafe-base,undo-clwb,redo-clwb,hwl,fwb,non-pers; with --crash: all that promise recovery]
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<String>,
    /// Workloads (--list names them), or "micro": all micro-benchmarks [default: hash; with --crash: eight programs]
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// The simulated machine [default: hpca18; with --crash: tiny]
    #[arg(long)]
    machine: Option<String>,
    /// Set a parameter of the machine (--list names them); repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Hardware threads [default: 1; with --crash: those of each program]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    threads: Option<u64>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Transactions to measure, all threads together [default: 20000; with --crash: 200]
    #[arg(long)]
    ops: Option<u64>,
    /// Instead, crash each scheme that promises recovery at least N times, and each seeded bug until a crash shows it or N
    /// are tried
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with_all = ["trace", "capture", "timeline", "outputs"])]
    crash: Option<u64>,
    /// Instead, print what each part of the machine does during this transaction, counted from 0
    #[arg(long, value_name = "TRANSACTION", value_parser = clap::value_parser!(u64).range(..=LAST_OF_TIMELINE))]
    timeline: Option<u64>,
    /// Is an axis of a plan now.
    #[arg(long, hide = true)]
    sweep: Option<String>,
    /// Instead, record the memory accesses of a few calls on these designs, and simulate them as recorded and under each
    /// --scheme
    #[arg(long, value_name = "FS,FS...", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["trace", "capture", "crash", "timeline"])]
    fs: Vec<String>,
    /// Write a report in the format of the file's ending: .html .json[.gz] .csv .parquet .md .txt
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    outputs: Vec<PathBuf>,
    /// Are answers of `weir reproduce --choose` now.
    #[arg(long, hide = true)]
    ablate: bool,
    /// Replay a trace instead of a workload: a file written by --capture, the text of valgrind --tool=lackey
    /// --trace-mem=yes, or a trace of ChampSim (.xz, .gz, or named *.champsim)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Read at most this many instructions of a ChampSim trace
    #[arg(long, value_name = "COUNT", default_value_t = 10_000_000)]
    instructions: u64,
    /// Stores per transaction in a trace that has no transactions (lackey, ChampSim); 0: no transactions
    #[arg(long, value_name = "STORES", default_value_t = 16)]
    transaction: u64,
    /// Instead, write the memory accesses of the workload to a file for --trace
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// List schemes, workloads, machines and their parameters
    #[arg(long)]
    list: bool,
}

impl Logging {
    pub(super) fn run(self, output: &Output) -> Result<(), Failure> {
        if self.list {
            list(output);
            return Ok(());
        }
        if self.ablate {
            return Err(Failure::usage(
                "--ablate is `weir reproduce hw-logging --choose MECHANISM=ANSWER` now; \
                 `weir reproduce hw-logging --readings --list` names the mechanisms",
            ));
        }
        if self.sweep.is_some() {
            return Err(Failure::usage(
                "--sweep is an axis of a plan now: [[axis]] log_buffer = [0, 8, 64] with sets = [\"processor.log_buffer\"], \
                 as `weir show hw-logging-11` has it",
            ));
        }
        self.outputs.iter().try_for_each(|path| store::check_report(path))?;
        if let Some(points) = self.crash {
            return self.crash(points, output);
        }
        let mut machine = self.machine()?;
        if let Some(path) = &self.capture {
            return self.capture(&machine, path, output);
        }
        if !self.fs.is_empty() {
            return self.files(&machine, output);
        }
        let trace = self.trace.as_deref().map(|path| self.read(path)).transpose()?;
        if let Some(trace) = &trace {
            self.fit(&mut machine, trace)?;
        }
        if let Some(number) = self.timeline {
            return self.timeline(&machine, number, output);
        }
        let mut ran = Vec::new();
        for workload in if trace.is_some() { vec!["trace".to_owned()] } else { self.workloads() } {
            for scheme in self.schemes() {
                let mut config = self.config(&machine, scheme, workload.clone());
                if let Some(trace) = &trace {
                    (config.threads, config.trace) = (trace.threads.len() as u64, Some(Arc::clone(trace)));
                }
                let outcome = archsim::run(&config)?;
                output.detail(&format!("{workload} {}: {} accesses", config.scheme, outcome.accesses));
                ran.push((config, outcome));
            }
        }
        if output.is_json() {
            let runs: Vec<_> = ran.iter().map(|(config, outcome)| outcome.document(config)).collect();
            output.document(&json!({ "schema": "weir.sim.logging/1", "runs": runs }));
        } else {
            output.data(&table(&ran).to_text());
        }
        let figure = json!([{ "id": "1", "title": "Throughput", "kind": "bars", "series": "scheme" }]);
        self.write(&figure, ran.iter().map(|(config, outcome)| outcome.sample(config)).collect(), output)
    }

    /// Writes the reports that were asked for.
    fn write(&self, figures: &Value, samples: Vec<Sample>, output: &Output) -> Result<(), Failure> {
        if self.outputs.is_empty() {
            return Ok(());
        }
        let plan =
            json!({ "name": "logging", "figure": figures, "machine": self.machine_name(), "set": self.set });
        let mut result = ResultFile::new("logging", plan, self.seed, Clock::Virtual);
        self.machine_name().clone_into(&mut result.machine);
        result.command = experiment::command();
        result.samples = samples;
        let report = Report::new(vec![result])?;
        for path in &self.outputs {
            store::write_report(&report, path, output)?;
            output.note(&format!("report   {}", path.display()));
        }
        Ok(())
    }

    fn config(&self, machine: &Machine, scheme: String, workload: String) -> Config {
        let machine = machine.clone();
        Config {
            machine,
            scheme,
            workload,
            threads: self.threads.unwrap_or(1),
            seed: self.seed,
            ops: self.ops.unwrap_or(20_000),
            trace: None,
        }
    }

    /// Writes a trace of the workload.
    fn capture(&self, machine: &Machine, path: &Path, output: &Output) -> Result<(), Failure> {
        let config = self.config(machine, "non-pers".to_owned(), self.workloads()[0].clone());
        let trace = Trace::capture(&config)?;
        let mut file = Vec::new();
        trace.write(&mut file).expect("memory takes every byte");
        let told = |error: std::io::Error| Failure::new(Exit::Run, format!("{}: {error}", path.display()));
        std::fs::write(path, &file).map_err(told)?;
        let (operations, bytes) = (trace.operations(), file.len());
        output.note(&format!(
            "{}: {operations} operations of {} in {bytes} bytes",
            path.display(),
            config.workload
        ));
        Ok(())
    }

    /// A trace from a file of either format.
    fn read(&self, path: &Path) -> Result<Arc<Trace>, Failure> {
        let told = |error: String| Failure::new(Exit::Run, format!("{}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| told(error.to_string()))?;
        let champ =
            path.extension().is_some_and(|ending| ending == "champsim") || champsim::is_packed(&bytes);
        let trace = if Trace::is_one(&bytes) {
            Trace::read(&bytes)
        } else if champ {
            champsim::import(&bytes, self.transaction, self.instructions)
        } else {
            let text = String::from_utf8(bytes);
            let text =
                text.map_err(|_| told("neither a trace of --capture, of lackey nor of ChampSim".to_owned()))?;
            lackey::import(&text, self.transaction)
        };
        Ok(Arc::new(trace.map_err(|error| told(error.to_string()))?))
    }

    /// Memory that holds the trace's data, unless the user set it; a trace has no warm-up of its own.
    fn fit(&self, machine: &mut Machine, trace: &Trace) -> Result<(), Failure> {
        let is_set = |key: &str| self.set.iter().any(|set| set.starts_with(&format!("{key}=")));
        if !is_set("footprint") {
            machine.footprint = trace.share * trace.threads.len() as u64;
        }
        if !is_set("warmup") && trace.config_hash == 0 {
            machine.warmup = 0;
        }
        Ok(machine.check()?)
    }

    fn machine(&self) -> Result<Machine, Failure> {
        self.machine_called(self.machine_name())
    }

    fn machine_name(&self) -> &str {
        self.machine.as_deref().unwrap_or("hpca18")
    }

    /// A preset with the keys that were set.
    fn machine_called(&self, name: &str) -> Result<Machine, Failure> {
        let mut machine = Machine::load(name)?;
        for set in &self.set {
            let (key, value) = set.split_once('=').ok_or_else(|| {
                Failure::usage(format!("--set {set}: write KEY=VALUE; --list names the keys"))
            })?;
            machine.set(key, value)?;
        }
        machine.check()?;
        Ok(machine)
    }

    fn schemes(&self) -> Vec<String> {
        if self.scheme == ["all"] {
            return scheme::SCHEMES.iter().map(|scheme| scheme.name.to_owned()).collect();
        }
        if self.scheme.is_empty() {
            return SCHEMES.map(str::to_owned).to_vec();
        }
        self.scheme.clone()
    }

    fn workloads(&self) -> Vec<String> {
        if self.workload.is_empty() {
            return vec!["hash".to_owned()];
        }
        if self.workload == ["micro"] {
            let micro = workload::WORKLOADS.iter().filter(|known| known.micro);
            return micro.map(|known| known.name.to_owned()).collect();
        }
        self.workload.clone()
    }
}

fn table(ran: &[(Config, Outcome)]) -> Table {
    let (config, _) = &ran[0];
    let mut table = Table::new(format!(
        "machine {}, {} threads, {} transactions, seed {}",
        config.machine.name, config.threads, config.ops, config.seed
    ));
    for name in ["workload", "scheme"] {
        table.words(name);
    }
    for name in ["transactions/s", "instructions/tx", "IPC", "bytes/tx", "written/tx", "energy nJ/tx"] {
        table.numbers(name);
    }
    for (config, outcome) in ran {
        let instructions: u64 = outcome.instructions.iter().sum();
        let ran = if config.scheme == UNSAFE_BASE {
            format!("{} ({})", config.scheme, outcome.scheme)
        } else {
            config.scheme.clone()
        };
        table.rows.push(vec![
            config.workload.clone(),
            ran,
            format!("{:.0}", outcome.throughput()),
            format!("{:.0}", instructions as f64 / outcome.transactions.max(1) as f64),
            format!("{:.2}", outcome.ipc(&config.machine)),
            format!("{:.0}", outcome.traffic()),
            format!("{:.0}", outcome.written()),
            format!("{:.1}", outcome.energy_nj()),
        ]);
    }
    table
}

fn list(output: &Output) {
    let schemes = scheme::SCHEMES.iter().map(|scheme| (scheme.name, scheme.summary.to_owned()));
    let schemes = schemes.chain([(UNSAFE_BASE, "the faster of unsafe-undo and unsafe-redo".to_owned())]);
    let workloads = workload::WORKLOADS.iter().map(|known| (known.name, known.summary.to_owned()));
    let keys = machine::KEYS.iter().map(|key| (key.name, format!("{}; {}", key.summary, key.range())));
    let tables: [(&str, Vec<(&str, String)>); 4] = [
        ("schemes", schemes.collect()),
        ("workloads", workloads.collect()),
        ("machines", machine::list()),
        ("keys", keys.collect()),
    ];
    if output.is_json() {
        let rows = tables.map(|(name, rows)| {
            let rows: Vec<_> =
                rows.iter().map(|(name, summary)| json!({ "name": name, "summary": summary })).collect();
            (name.to_owned(), rows.into())
        });
        let lists: serde_json::Map<String, serde_json::Value> = rows.into_iter().collect();
        return output.document(&json!({ "schema": "weir.sim.logging.list/1", "lists": lists }));
    }
    for (name, rows) in tables {
        let rows: Vec<_> = rows.into_iter().map(|(name, summary)| (name.to_owned(), summary)).collect();
        output.data(&format!("{name}\n{}", columns(&rows)));
    }
}

impl From<archsim::Error> for Failure {
    fn from(error: archsim::Error) -> Self {
        let exit = if matches!(error, archsim::Error::Trace(_)) { Exit::Run } else { Exit::Usage };
        Self::new(exit, error.to_string())
    }
}
