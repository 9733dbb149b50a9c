//! The forms of `weir sim medium` that measure a memory under load.

use clap::{ArgGroup, Args};
use lab::MachinePreset;
use lab::medium::Pattern;
use lab::medium_load::{Cold, Form, Kernel, Pages, Probe, Probed, Stat};
use lab::memory_model;
use media::Medium;
use report::table::Table;
use serde_json::{Value, json};
use sim::{Bytes, Nanos, Rate};

use crate::experiment;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Counter;

/// What `dram` is where no machine is named.
const MACHINE: &str = "spr-server";

/// A memory under load.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("form").args(["loaded", "max", "chase", "stream", "cold"]))]
pub(in crate::command) struct LoadForms {
    /// Latency of a load that the next one waits for, while --threads tasks move --traffic
    #[arg(long, requires = "traffic", help_heading = "Memory under load")]
    loaded: bool,
    /// Greatest bandwidth of --threads tasks without a pause
    #[arg(long, help_heading = "Memory under load")]
    max: bool,
    /// Latency of a load of an array of this size, in the order of --pattern
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', help_heading = "Memory under load")]
    chase: Vec<Bytes>,
    /// Bandwidth of a loop of STREAM, as it counts: copy, scale, add, triad
    #[arg(long, value_name = "LOOP,…", value_delimiter = ',', help_heading = "Memory under load")]
    stream: Vec<Kernel>,
    /// Time of one access to a line that is in no cache, with the loop around it: load, store, nt
    #[arg(long, value_name = "OP,…", value_delimiter = ',', help_heading = "Memory under load")]
    cold: Vec<Cold>,
    /// Traffic beside a load, reads and writes together
    #[arg(
        long,
        value_name = "RATE,…",
        value_delimiter = ',',
        requires = "loaded",
        help_heading = "Memory under load"
    )]
    traffic: Vec<Rate>,
    /// Percent of the traffic that is read
    #[arg(
        long,
        value_name = "PERCENT,…",
        value_delimiter = ',',
        default_value = "100",
        help_heading = "Memory under load"
    )]
    reads: Vec<f64>,
    /// What writes: nt (stores past the caches), or store, which fetches the line that it writes back
    #[arg(long, value_name = "nt|store", default_value = "nt", value_parser = ["nt", "store"], help_heading = "Memory under load")]
    traffic_op: String,
    /// Size of pages of a chase: 4KiB, 2MiB, 1GiB
    #[arg(long, value_name = "SIZE", default_value = "4KiB", help_heading = "Memory under load")]
    pages: Pages,
    /// Which of many times of --cold: mean, p50, p95, p99
    #[arg(long, value_name = "WHICH", default_value = "mean", help_heading = "Memory under load")]
    stat: Stat,
    /// Print what it is beyond that of dram; of --stream, by it
    #[arg(long, requires = "form", help_heading = "Memory under load")]
    over_local: bool,
}

/// What the forms share with the loops.
pub(in crate::command) struct Shared<'c> {
    pub(in crate::command) medium: Medium,
    pub(in crate::command) machine: Option<&'c str>,
    pub(in crate::command) machine_with: &'c str,
    pub(in crate::command) pattern: Pattern,
    pub(in crate::command) threads: &'c [u64],
    pub(in crate::command) window: Nanos,
    pub(in crate::command) seed: u64,
}

impl LoadForms {
    /// Whether a memory under load is asked for.
    pub(in crate::command) fn is_asked(&self) -> bool {
        self.loaded || self.max || !self.chase.is_empty() || !self.stream.is_empty() || !self.cold.is_empty()
    }

    /// Every measurement that is asked for.
    pub(in crate::command) fn probes(&self, shared: &Shared<'_>) -> Result<Vec<Probe>, Failure> {
        let mut name = shared.machine.unwrap_or(MACHINE).to_owned();
        lab::presets::embedded(&mut name);
        let machine = MachinePreset::load(&(name + shared.machine_with))?;
        if let Some(reads) = self.reads.iter().find(|reads| self.traffic_op == "store" && **reads < 50.0) {
            let message = format!(
                "--traffic-op store reads each line that it writes: {reads} % reads need --traffic-op nt"
            );
            return Err(Failure::usage(message));
        }
        let mut probes = Vec::new();
        for form in self.forms(shared.pattern) {
            // A chase and a cold loop are one task's.
            let one = [1];
            let threads =
                if matches!(form, Form::Chase { .. } | Form::Cold(..)) { &one[..] } else { shared.threads };
            for threads in threads {
                let probe = Probe {
                    medium: shared.medium.clone(),
                    machine: machine.clone(),
                    form,
                    threads: *threads,
                    over_local: self.over_local,
                    window: shared.window,
                    seed: shared.seed,
                };
                probe.check()?;
                probes.push(probe);
            }
        }
        Ok(probes)
    }

    fn forms(&self, pattern: Pattern) -> Vec<Form> {
        let mut forms: Vec<Form> = Vec::new();
        for reads in &self.reads {
            forms
                .extend(self.traffic.iter().map(|traffic| Form::Loaded { traffic: *traffic, reads: *reads }));
            forms.extend(self.max.then_some(Form::Max { reads: *reads }));
        }
        forms.extend(self.chase.iter().map(|size| Form::Chase { size: *size, pattern, pages: self.pages }));
        forms.extend(self.stream.iter().map(|kernel| Form::Stream(*kernel)));
        forms.extend(self.cold.iter().map(|access| Form::Cold(*access, self.stat)));
        forms
    }

    pub(in crate::command) fn run(&self, shared: &Shared<'_>, output: &Output) -> Result<(), Failure> {
        let probes = self.probes(shared)?;
        let counter = Counter::new(output, "measurements", probes.len() as u64);
        let found =
            lab::medium::each(&probes, 0, &|| !interrupt::happened(), &|| counter.one_more(), &Probe::run);
        let found = found.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        drop(counter);
        if output.is_json() {
            output.document(&document(shared, &probes, &found));
        } else {
            output.data(&table(&probes, &found).to_text());
        }
        let mut remarks: Vec<&str> = found.iter().filter_map(|one| one.remark.as_deref()).collect();
        remarks.dedup();
        for remark in remarks {
            output.note(remark);
        }
        Ok(())
    }
}

fn table(probes: &[Probe], found: &[Probed]) -> Table {
    let mut table = Table::new(
        probes.first().map_or_else(String::new, |probe| format!("{}: {}", probe.medium, source(probe))),
    );
    for name in ["what", "reads", "traffic", "threads"] {
        table.words(name);
    }
    for name in ["found", "unit", "reached GB/s", "greatest GB/s"] {
        table.numbers(name);
    }
    for (probe, found) in probes.iter().zip(found) {
        let (what, reads, traffic) = head(&probe.form);
        let reached = match found.reached {
            Some(_) if found.saturated => "saturated".to_owned(),
            Some(rate) => format!("{:.1}", rate / 1e9),
            None => "–".to_owned(),
        };
        let value =
            if found.unit == "ratio" { format!("{:.3}", found.value) } else { format!("{:.1}", found.value) };
        let cap = format!("{:.1}", found.cap / 1e9);
        table.rows.push(vec![
            what,
            reads.map_or_else(|| "–".to_owned(), |reads| format!("{reads} %")),
            traffic.map_or_else(|| "–".to_owned(), |traffic| traffic.to_string()),
            probe.threads.to_string(),
            value,
            found.unit.to_owned(),
            reached,
            cap,
        ]);
    }
    table
}

fn head(form: &Form) -> (String, Option<f64>, Option<Rate>) {
    match form {
        Form::Loaded { traffic, reads } => ("loaded load".to_owned(), Some(*reads), Some(*traffic)),
        Form::Max { reads } => ("max".to_owned(), Some(*reads), None),
        Form::Chase { size, pattern, pages } => {
            (format!("chase {size} {pattern}, pages {pages}"), None, None)
        }
        Form::Stream(kernel) => (format!("stream {kernel}"), None, None),
        Form::Cold(access, stat) => (format!("cold {access} {stat}"), None, None),
    }
}

/// Who says what its idle latency is.
fn source(probe: &Probe) -> String {
    if probe.medium.kind().name() == "dram" {
        return format!(
            "{}: {}",
            probe.machine.machine.name,
            memory_model::source_of_machine(&probe.machine)
        );
    }
    memory_model::source_of_medium(&probe.medium)
}

fn document(shared: &Shared<'_>, probes: &[Probe], found: &[Probed]) -> Value {
    let one = |(probe, found): (&Probe, &Probed)| {
        let (what, reads, traffic) = head(&probe.form);
        let [p50, p95, p99] = found.percentiles.map_or([None; 3], |all| all.map(Some));
        json!({
            "what": what, "threads": probe.threads, "reads_percent": reads,
            "traffic_asked": traffic.map(|traffic| traffic.0), "traffic_reached": found.reached, "saturated": found.saturated,
            "value": found.value, "unit": found.unit, "p50": p50, "p95": p95, "p99": p99,
            "cap_bytes_per_s": found.cap, "source": source(probe), "error": found.remark,
        })
    };
    json!({
        "schema": "weir.medium/2",
        "command": experiment::command(),
        "medium": shared.medium.to_string(), "machine": probes.first().map(|probe| &probe.machine.machine.name),
        "time_ns": shared.window.0, "seed": shared.seed,
        "measured": probes.iter().zip(found).map(one).collect::<Vec<_>>(),
    })
}
