//! `weir sim logging`: a program of transactions under logging schemes, on a simulated machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use archsim::crash::mutant::Mutant;
use archsim::crash::{Verdict, campaign};
use archsim::reproduce::crash_config;
use archsim::run::UNSAFE_BASE;
use archsim::trace::{Trace, lackey};
use archsim::{Config, Machine, Outcome, machine, scheme, workload};
use clap::Args;
use report::table::Table;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Output, columns};

/// Run transactions under logging schemes.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir sim logging --scheme undo-clwb,fwb --workload hash --threads 4")]
pub(super) struct Logging {
    /// Schemes, or "all"
    #[arg(long, value_delimiter = ',', default_value = "unsafe-base,undo-clwb,redo-clwb,hwl,fwb,non-pers")]
    scheme: Vec<String>,
    /// Workloads, or "micro"
    #[arg(long, value_delimiter = ',', default_value = "hash")]
    workload: Vec<String>,
    /// The simulated machine
    #[arg(long, default_value = "hpca18")]
    machine: String,
    /// Other values of the machine's keys
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Hardware threads
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Where all randomness starts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Transactions to measure, all threads together
    #[arg(long, default_value_t = 20_000)]
    ops: u64,
    /// Crash each scheme so many times instead, and every mutant of fwb until it is caught
    #[arg(long, value_name = "N")]
    crash: Option<u64>,
    /// Print the requests of one transaction to memory instead, with times
    #[arg(long, value_name = "TRANSACTION")]
    timeline: Option<u64>,
    /// Change one mechanism at a time and print what becomes of the published claims instead
    #[arg(long)]
    ablate: bool,
    /// Replay a trace instead of a workload: a file of --capture, or the text of valgrind --tool=lackey --trace-mem=yes
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Stores that make a transaction in a lackey trace, which marks none; 0: no transactions
    #[arg(long, value_name = "STORES", default_value_t = 16)]
    transaction: u64,
    /// Write what the workload asks of memory to a file instead, for --trace
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// List schemes, workloads, machines and keys instead
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
            return super::claims::ablations(self.seed, output);
        }
        if let Some(points) = self.crash {
            return self.crash(points, output);
        }
        let mut machine = self.machine()?;
        if let Some(path) = &self.capture {
            return self.capture(&machine, path, output);
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
        Ok(())
    }

    fn config(&self, machine: &Machine, scheme: String, workload: String) -> Config {
        let machine = machine.clone();
        Config {
            machine,
            scheme,
            workload,
            threads: self.threads,
            seed: self.seed,
            ops: self.ops,
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
        let trace = if Trace::is_one(&bytes) {
            Trace::read(&bytes)
        } else {
            let text = String::from_utf8(bytes);
            let text =
                text.map_err(|_| told("neither a trace of --capture nor a text of lackey".to_owned()))?;
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

    /// The matrix of schemes and mutants.
    fn crash(&self, points: u64, output: &Output) -> Result<(), Failure> {
        let mut rows = Vec::new();
        let promising = scheme::SCHEMES.iter().filter(|scheme| scheme.promises);
        for scheme in promising {
            let config = crash_config(scheme.name, self.seed)?;
            rows.push((scheme.name, "none", 0, campaign(&config, None, points)?));
        }
        for mutant in Mutant::ALL {
            let config = crash_config("fwb", self.seed)?;
            rows.push(("fwb", mutant.name(), 1, campaign(&config, Some(mutant), points)?));
        }
        if output.is_json() {
            let runs = rows.iter().map(|(scheme, mutant, _, verdict)| {
                let first = verdict.first.as_ref().map(|first| {
                    let hash = format!("{:016x}", first.config_hash);
                    json!({ "config_hash": hash, "seed": first.seed, "time_ps": first.time, "what": first.what })
                });
                json!({
                    "scheme": scheme,
                    "mutant": mutant,
                    "points": verdict.points,
                    "nested": verdict.nested,
                    "failures": verdict.failures,
                    "first": first,
                })
            });
            let runs: Vec<_> = runs.collect();
            output.document(&json!({ "schema": "weir.sim.crash/1", "seed": self.seed, "runs": runs }));
        } else {
            output.data(&crashes(&rows, self.seed).to_text());
        }
        let wrong =
            rows.iter().filter(|(_, _, least, verdict)| (verdict.failures > 0) != (*least > 0)).count();
        match wrong {
            0 => Ok(()),
            _ => Err(Failure::new(Exit::Check, format!("{wrong} rows are not as they must be"))),
        }
    }

    /// One transaction's requests to memory.
    fn timeline(&self, machine: &Machine, number: u64, output: &Output) -> Result<(), Failure> {
        let (schemes, workloads) = (self.schemes(), self.workloads());
        let mut lines =
            Table::new(format!("transaction {number} of {}, ns since the one before", workloads[0]));
        for name in ["scheme", "cause", "line"] {
            lines.words(name);
        }
        for name in ["arrives", "bank begins", "bank ends"] {
            lines.numbers(name);
        }
        for scheme in schemes {
            let config = self.config(machine, scheme.clone(), workloads[0].clone());
            let timeline = archsim::run::timeline(&config, number)?;
            let since = |ps: u64| format!("{:.1}", ps.saturating_sub(timeline.start) as f64 / 1e3);
            for command in &timeline.commands {
                let words =
                    [scheme.clone(), command.cause.name().to_owned(), format!("{:#x}", command.line * 64)];
                let times = [command.arrive, command.start, command.finish].map(since);
                lines.rows.push(words.into_iter().chain(times).collect());
            }
            let end =
                ["acknowledged".to_owned(), String::new(), since(timeline.end), String::new(), String::new()];
            lines.rows.push([scheme].into_iter().chain(end).collect());
        }
        if output.is_json() {
            output.document(
                &json!({ "schema": "weir.sim.timeline/1", "transaction": number, "rows": lines.rows }),
            );
        } else {
            output.data(&lines.to_text());
        }
        Ok(())
    }

    fn machine(&self) -> Result<Machine, Failure> {
        let mut machine = Machine::load(&self.machine)?;
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
        self.scheme.clone()
    }

    fn workloads(&self) -> Vec<String> {
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

fn crashes(rows: &[(&str, &str, u64, Verdict)], seed: u64) -> Table {
    let mut table = Table::new(format!("crashes on machine tiny, seed {seed}"));
    for name in ["scheme", "mutant"] {
        table.words(name);
    }
    for name in ["crashes", "recoveries crashed", "failures", "must be"] {
        table.numbers(name);
    }
    for (scheme, mutant, least, verdict) in rows {
        let counts = [verdict.points, verdict.nested, verdict.failures].map(|count| count.to_string());
        let must = if *least == 0 { "0" } else { "1 or more" };
        let words = [(*scheme).to_owned(), (*mutant).to_owned()];
        table.rows.push(words.into_iter().chain(counts).chain([must.to_owned()]).collect());
    }
    table
}

fn list(output: &Output) {
    let schemes = scheme::SCHEMES.iter().map(|scheme| (scheme.name, scheme.summary.to_owned()));
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
