//! The tables that open every report: each workload, each design, throughput, latency, ratio to the first.

use crate::axis;
use crate::cell::{self, Cell, Estimate};
use crate::table::Table;
use crate::units::{self, Unit};
use results::{ClaimOutcome, Environment, HypothesisOutcome, ResultFile};
use std::collections::BTreeMap;

/// Which run of which plan it is, in a line.
pub fn heading(results: &ResultFile) -> String {
    format!("{}   seed {}   {} clock", results.name, results.seed, results.clock)
}

/// One table for each workload, in the order in which they ran. Columns that say nothing (an axis that never
/// varies, spreads without repeats, errors without errors) are left out.
pub fn tables(results: &ResultFile) -> Vec<Table> {
    let cells = cell::cells(results);
    let summary = Summary::new(&cells);
    summary.workloads.iter().map(|workload| summary.table(*workload)).collect()
}

/// The axes that never vary, as one line: `medium nvmm, threads 8`. Empty if there is none.
pub fn fixed_axes(results: &ResultFile) -> String {
    let cells = cell::cells(results);
    let all = cell::all_axes(&cells);
    let fixed = all.iter().filter(|(name, values)| values.len() == 1 && **name != "workload");
    let texts: Vec<String> = fixed
        .map(|(name, values)| format!("{} {}", axis::title(name), axis::label(values[0], values)))
        .collect();
    texts.join(", ")
}

/// What every reader must know: interruption, samples cut short, and the samples' own notes.
pub fn notes(results: &ResultFile) -> Vec<String> {
    let mut notes = Vec::new();
    if results.samples.is_empty() && results.claims.is_empty() {
        notes.push("Nothing was measured: this result holds no samples.".to_owned());
    }
    if results.partial {
        notes.push(
            "The run was interrupted: these results are partial and some cells are missing.".to_owned(),
        );
    }
    let short = results.samples.iter().filter(|sample| sample.partial).count();
    if short > 0 {
        notes.push(format!("{short} of {} samples were cut short.", results.samples.len()));
    }
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for note in results.samples.iter().flat_map(|sample| &sample.notes) {
        *counted.entry(note).or_default() += 1;
    }
    notes.extend(counted.into_iter().map(|(note, times)| times_over(note, times)));
    notes
}

fn times_over(note: &str, times: usize) -> String {
    if times == 1 { note.to_owned() } else { format!("{note} ({times} samples)") }
}

struct Summary<'c> {
    cells: &'c [Cell<'c>],
    design: &'static str,
    /// The design that ratios refer to.
    first: Option<&'c str>,
    designs: usize,
    workloads: Vec<Option<&'c str>>,
    /// Axes that vary besides workload and design.
    others: Vec<&'c str>,
    spreads: bool,
    errors: bool,
}

impl<'c> Summary<'c> {
    fn new(cells: &'c [Cell<'c>]) -> Self {
        let all = cell::all_axes(cells);
        let design = axis::design_axis(all.keys().copied());
        let designs = all.get(design).map_or(&[][..], Vec::as_slice);
        let workloads = all.get("workload").map_or_else(
            || if cells.is_empty() { Vec::new() } else { vec![None] },
            |names| names.iter().copied().map(Some).collect(),
        );
        let varies = |name: &&str| *name != design && *name != "workload" && all[name].len() > 1;
        Self {
            cells,
            design,
            first: designs.first().copied(),
            designs: designs.len(),
            workloads,
            others: all.keys().copied().filter(varies).collect(),
            spreads: cells.iter().any(|cell| cell.samples.len() > 1),
            errors: cells.iter().any(|cell| cell.errors() > 0),
        }
    }

    fn table(&self, workload: Option<&str>) -> Table {
        let mut table = Table::new(workload.unwrap_or("all samples"));
        self.others.iter().for_each(|name| table.numbers(axis::title(name)));
        table.words(axis::title(self.design));
        table.numbers("throughput");
        if self.spreads {
            table.numbers("±");
        }
        table.numbers("p50");
        table.numbers("p99");
        if let (Some(first), true) = (self.first, self.designs > 1) {
            table.numbers(format!("vs {first}"));
        }
        if self.errors {
            table.numbers("errors");
        }
        table.rows = self.ordered(workload).iter().map(|cell| self.row(cell)).collect();
        table
    }

    /// The workload's cells, sorted by the other axes; designs stay in the order of the plan.
    fn ordered(&self, workload: Option<&str>) -> Vec<&Cell<'c>> {
        let mut cells: Vec<&Cell<'c>> =
            self.cells.iter().filter(|cell| cell.axis("workload") == workload).collect();
        let all = cell::all_axes(self.cells);
        for name in self.others.iter().rev() {
            let mut order = all[name].clone();
            axis::sort(&mut order);
            cells.sort_by_key(|cell| order.iter().position(|value| cell.axis(name) == Some(value)));
        }
        cells
    }

    fn row(&self, cell: &Cell<'_>) -> Vec<String> {
        let mut row: Vec<String> = self.others.iter().map(|name| label(cell, name)).collect();
        row.push(label(cell, self.design));
        let throughput = Estimate::of(&cell.throughputs());
        row.push(throughput.map_or_else(dash, |estimate| Unit::OpsPerSecond.human(estimate.value)));
        if self.spreads {
            row.push(throughput.and_then(|estimate| estimate.spread()).unwrap_or_else(dash));
        }
        let latency = cell.latency_ns();
        let quantile = |q| if latency.is_empty() { dash() } else { ns(latency.quantile_ns(q)) };
        row.extend([quantile(0.50), quantile(0.99)]);
        if self.designs > 1 {
            row.push(self.ratio(cell).map_or_else(dash, units::ratio));
        }
        if self.errors {
            row.push(cell.errors().to_string());
        }
        row
    }

    /// The throughput of `cell` by that of the first design in the same place.
    fn ratio(&self, cell: &Cell<'_>) -> Option<f64> {
        let base = self.cells.iter().find(|other| self.same_place(cell, other))?;
        Estimate::ratio(&cell.throughputs(), &base.throughputs()).map(|ratio| ratio.value)
    }

    fn same_place(&self, cell: &Cell<'_>, other: &Cell<'_>) -> bool {
        let same = |(name, value): (&String, &String)| {
            let wanted = if name == self.design { self.first } else { Some(value.as_str()) };
            other.axis(name) == wanted
        };
        cell.axes.len() == other.axes.len() && cell.axes.iter().all(same)
    }
}

fn label(cell: &Cell<'_>, axis: &str) -> String {
    cell.axis(axis).map_or_else(dash, |value| axis::label(value, &[]))
}

fn dash() -> String {
    "–".to_owned()
}

fn ns(value: u64) -> String {
    Unit::Nanos.human(value as f64)
}

/// The plan's expectations and what became of them.
pub fn hypotheses(outcomes: &[HypothesisOutcome]) -> Table {
    let mut table = Table::new("What the plan expected");
    table.words("expectation");
    table.words("verdict");
    table.numbers("ratio");
    table.words("95 % interval");
    table.words("why");
    for outcome in outcomes {
        table.rows.push(vec![
            outcome.says.clone(),
            if outcome.holds { "✓ holds" } else { "✗ does not hold" }.to_owned(),
            outcome.ratio.map_or_else(dash, units::ratio),
            outcome
                .low
                .zip(outcome.high)
                .map_or_else(dash, |(low, high)| format!("{} to {}", units::ratio(low), units::ratio(high))),
            outcome.reason.clone().unwrap_or_default(),
        ]);
    }
    table
}

/// Run and host, fact by fact.
pub fn environment(results: &ResultFile) -> Vec<(String, String)> {
    let host = &results.environment;
    let mut facts = vec![("seed", results.seed.to_string()), ("clock", results.clock.to_string())];
    facts.push(("machine preset", results.machine.clone()));
    facts.push(("Weir", host.weir_version.clone()));
    facts.extend(host_facts(host));
    facts.retain(|(_, value)| !value.is_empty());
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn host_facts(host: &Environment) -> Vec<(&'static str, String)> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let count = |value: Option<u64>| value.map_or_else(String::new, |count| count.to_string());
    let bytes = |value: u64| Unit::Bytes.human(value as f64);
    vec![
        ("commit", text(&host.commit)),
        ("compiler", text(&host.compiler)),
        ("build profile", text(&host.profile)),
        ("processor", text(&host.cpu_model)),
        ("architecture", text(&host.architecture)),
        ("cores", count(host.cores)),
        ("NUMA nodes", count(host.numa_nodes)),
        ("memory", host.memory_bytes.map_or_else(String::new, bytes)),
        ("kernel", text(&host.kernel)),
        ("frequency governor", text(&host.governor)),
        ("turbo", host.turbo.map_or_else(String::new, |on| if on { "on" } else { "off" }.to_owned())),
        ("transparent huge pages", text(&host.huge_pages)),
        ("mitigations", text(&host.mitigations)),
        ("container", text(&host.container)),
        ("cost of one measurement", host.timer_overhead_ns.map_or_else(String::new, ns)),
    ]
}

/// Whether a claim's reason belongs under the tables.
pub fn reasons(claims: &[ClaimOutcome]) -> impl Iterator<Item = (&str, &str)> {
    claims.iter().filter_map(|claim| Some((claim.id.as_str(), claim.reason.as_deref()?)))
}
