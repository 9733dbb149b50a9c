//! `weir sim logging`: a program of transactions under logging schemes, on a simulated machine.

use archsim::run::UNSAFE_BASE;
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
        let machine = self.machine()?;
        let mut ran = Vec::new();
        for workload in self.workloads() {
            for scheme in self.schemes() {
                let config = Config {
                    machine: machine.clone(),
                    scheme,
                    workload: workload.clone(),
                    threads: self.threads,
                    seed: self.seed,
                    ops: self.ops,
                };
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
