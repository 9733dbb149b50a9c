//! `weir sim logging --sweep`: one setting varied, everything else as it is.

use archsim::{Config, Machine};
use report::table::Table;
use serde_json::json;

use super::Logging;
use crate::failure::Failure;
use crate::output::Output;

impl Logging {
    pub(super) fn sweep(&self, machine: &Machine, sweep: &str, output: &Output) -> Result<(), Failure> {
        let wrong =
            || Failure::usage(format!("--sweep {sweep}: write KEY=VALUE,VALUE; --list names the keys"));
        let (key, values) = sweep.split_once('=').ok_or_else(wrong)?;
        let mut configs = Vec::new();
        for workload in self.workloads() {
            for scheme in self.schemes() {
                for value in values.split(',') {
                    let config = self.config(machine, scheme.clone(), workload.clone());
                    configs.push((value, self.with(config, key, value)?));
                }
            }
        }
        let plain: Vec<Config> = configs.iter().map(|(_, config)| config.clone()).collect();
        let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let outcomes = archsim::run::run_all(&plain, jobs, &|| ());
        let mut table =
            Table::new(format!("{key} varied on machine {}, seed {}", self.machine_name(), self.seed));
        for name in ["workload", "scheme", key] {
            table.words(name);
        }
        for name in ["transactions/s", "bytes/tx", "energy nJ/tx"] {
            table.numbers(name);
        }
        let mut samples = Vec::new();
        for ((value, config), outcome) in configs.iter().zip(outcomes) {
            let outcome = outcome?;
            let words = [config.workload.clone(), config.scheme.clone(), (*value).to_owned()];
            let numbers = [
                format!("{:.0}", outcome.throughput()),
                format!("{:.0}", outcome.traffic()),
                format!("{:.1}", outcome.energy_nj()),
            ];
            table.rows.push(words.into_iter().chain(numbers).collect());
            let mut sample = outcome.sample(config);
            sample.axes.insert(key.to_owned(), (*value).to_owned());
            samples.push(sample);
        }
        if output.is_json() {
            output.document(&json!({ "schema": "weir.sim.sweep/1", "key": key, "samples": samples }));
        } else {
            output.data(&table.to_text());
        }
        let figure = |id: &str, title: &str, metric: &str| {
            json!({
                "id": id, "title": title, "kind": "lines", "x": key, "series": "scheme", "panel": "workload",
                "metric": metric,
            })
        };
        let figures = json!([
            figure("1", "Throughput", "throughput"),
            figure("2", "Memory traffic", "per_op.nvram_bytes"),
            figure("3", "Dynamic memory energy", "per_op.energy_pj"),
        ]);
        self.write(&figures, samples, output)
    }

    /// A configuration with one setting changed.
    fn with(&self, mut config: Config, key: &str, value: &str) -> Result<Config, Failure> {
        match key {
            "threads" => {
                let count = value
                    .parse()
                    .map_err(|_| Failure::usage(format!("threads = {value}: write a number")))?;
                config.threads = count;
            }
            "machine" => config.machine = self.machine_called(value)?,
            _ => config.machine.set(key, value)?,
        }
        config.check()?;
        Ok(config)
    }
}
