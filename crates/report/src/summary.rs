//! The tables that open every report: each workload, each design, throughput, latency, ratio to the first.

use crate::axis;
use crate::cell::{self, Cell, Estimate};
use crate::prices;
use crate::replay;
use crate::table::Table;
use crate::units::{self, Unit};
use results::statistics::LEAST_REPEATS;
use results::{ClaimOutcome, Clock, Environment, HostRecord, HypothesisOutcome, ResultFile};
use std::collections::{BTreeMap, BTreeSet};

/// Which run of which plan it is, in a line.
pub fn heading(results: &ResultFile) -> String {
    format!("{}   seed {}   {} clock", results.name, results.seed, results.clock)
}

/// One table for each workload, in the order in which they ran. Columns that say nothing (an axis that never
/// varies, spreads without repeats, errors without errors) are left out.
pub fn tables(results: &ResultFile) -> Vec<Table> {
    let cells = cell::cells(results);
    let mut summary = Summary::new(&cells);
    summary.ranked = prices::unranked(results).is_none();
    summary.longest = churn(results).is_some();
    summary.workloads.iter().map(|workload| summary.table(*workload)).collect()
}

/// What never varies, a sentence each: `Everywhere: threads 8.`, `Designs run on medium hinfs.`, `host:/tmp is on the host's own
/// storage.` A directory of the host has no medium.
pub(crate) fn fixed_axes(results: &ResultFile) -> Vec<String> {
    let cells = cell::cells(results);
    let all = cell::all_axes(&cells);
    let design = axis::design_axis(all.keys().copied());
    let apart = ["workload", "medium", design];
    let fixed = all.iter().filter(|(name, values)| values.len() == 1 && !apart.contains(name));
    let texts: Vec<String> = fixed
        .map(|(name, values)| format!("{} {}", axis::title(name), axis::label(values[0], values)))
        .collect();
    let everywhere = (!texts.is_empty()).then(|| format!("Everywhere: {}.", texts.join(", ")));
    let mut parts: Vec<String> = everywhere.into_iter().collect();
    let designs = all.get(design).cloned().unwrap_or_default();
    let (hosts, ours): (Vec<&str>, Vec<&str>) = designs.iter().partition(|name| name.starts_with("host:"));
    let media = all.get("medium").map_or(&[][..], Vec::as_slice);
    match (&ours[..], media) {
        ([], _) | (_, []) => {}
        ([only], [medium]) => {
            parts.push(format!("Design {only} runs on medium {medium}{}.", chosen_by(results, medium)));
        }
        ([only], several) => parts.push(format!("Design {only} runs on {} media.", several.len())),
        (_, [medium]) => {
            parts.push(format!("Designs run on medium {medium}{}.", chosen_by(results, medium)));
        }
        _ => {}
    }
    parts.extend(hosts.iter().map(|host| format!("{host} is on the host's own storage.")));
    parts.extend(measured_time(results));
    parts.extend(churned(results));
    parts
}

/// Says of a medium that was not named whose default it is.
fn chosen_by(results: &ResultFile, medium: &str) -> String {
    let usual = &results.plan["medium"];
    if usual["name"] != medium {
        return String::new();
    }
    match usual["machine"].as_str() {
        Some(machine) => format!(", the default of machine {machine} (--medium chooses another)"),
        None => ", the default where no machine names one (--medium chooses another)".to_owned(),
    }
}

/// Answers the multiple of its region's size that each cell has stored before its workload; none where the plan asks for none.
fn churn(results: &ResultFile) -> Option<u64> {
    results.plan.get("churn")?.as_u64()
}

/// Says the amount that was stored before each workload, in bytes where that is the same for all.
fn churned(results: &ResultFile) -> Option<String> {
    let (times, plan) = (churn(results)?, &results.plan);
    let workloads = plan.get("workload").and_then(|all| all.as_array()).map_or(&[][..], Vec::as_slice);
    let own = workloads.iter().any(|one| one.get("region").is_some_and(|region| !region.is_null()));
    let region = plan.get("region").and_then(serde_json::Value::as_u64).filter(|_| !own);
    Some(match region {
        Some(region) => format!(
            "Each cell begins after a churn of {}: {times} times the size of its region.",
            Unit::Bytes.human(region.saturating_mul(times) as f64)
        ),
        None => format!("Each cell begins after a churn of {times} times the size of its region."),
    })
}

/// How long each cell was measured and on which machine, where that is the same for all and no workload ran to its own end.
fn measured_time(results: &ResultFile) -> Option<String> {
    let plan = &results.plan;
    let of_plan = plan.get("stop")?.as_str()?;
    let workloads = plan.get("workload")?.as_array()?;
    let stops: BTreeSet<&str> = workloads
        .iter()
        .map(|one| one.get("stop").and_then(|stop| stop.as_str()).unwrap_or(of_plan))
        .collect();
    let stop = stops.first().filter(|stop| stops.len() == 1 && **stop != "end")?;
    let after = match plan.get("warm_up").and_then(|time| time.as_str()) {
        None => String::new(),
        Some("auto") if stop.ends_with("ops") => String::new(),
        Some("auto") => ", after a warm-up of a tenth of that".to_owned(),
        Some(time) => format!(", after a warm-up of {time}"),
    };
    let machine = match (results.clock, results.machine.as_str()) {
        (Clock::Real, _) | (_, "") => String::new(),
        (Clock::Virtual, machine) => format!("; the modelled machine is {machine}"),
    };
    Some(format!("Measured for {stop}{after}{machine}."))
}

/// What must be known of ratios between designs and a directory of the host; none where there are none.
fn host_note(cells: &[Cell<'_>]) -> Option<String> {
    let host = cells.iter().find(|cell| cell.is_host())?.axis("fs")?;
    let medium = cells.iter().find(|cell| !cell.is_host())?.axis("medium").unwrap_or("emulated");
    Some(format!(
        "{host} is on the host's own storage and goes through its kernel; designs are in this process, on the emulated medium \
         {medium}. A ratio between the two compares both at once."
    ))
}

/// The host that was busy, and the times that are therefore not to be relied on.
fn busy_note(results: &ResultFile) -> Option<String> {
    let hosts: Vec<&HostRecord> = results.samples.iter().filter_map(|sample| sample.host.as_ref()).collect();
    let noisy: Vec<&&HostRecord> = hosts.iter().filter(|host| !host.noise.is_empty()).collect();
    let worst = noisy.iter().max_by_key(|host| host.others_ns + host.steal_ns)?;
    let again = hosts.iter().filter(|host| host.attempts > 1).count();
    let again = if again > 0 {
        format!(" {again} of them ran again, and the calmest run is kept.")
    } else {
        String::new()
    };
    Some(format!(
        "The host was busy during {} of {} samples (at worst {}): their times cannot be relied on.{again}",
        noisy.len(),
        hosts.len(),
        worst.noise.join(", ")
    ))
}

/// What every reader must know: interruption, samples cut short, and the samples' own notes.
pub fn notes(results: &ResultFile) -> Vec<String> {
    let lacks = replay::lacks(results);
    let mut notes = lacks.clone();
    if results.samples.is_empty() && results.claims.is_empty() {
        notes.push("Nothing was measured: this result holds no samples.".to_owned());
    }
    if results.partial {
        notes.push(
            "The run was interrupted: these results are partial; cells are missing or were cut short."
                .to_owned(),
        );
    }
    let short = results.samples.iter().filter(|sample| sample.partial).count();
    if short > 0 {
        notes.push(format!("{short} of {} samples were cut short.", results.samples.len()));
    }
    let failed = results.samples.iter().filter(|sample| !sample.is_measured()).count();
    if failed > 0 && failed < results.samples.len() {
        notes.push(format!(
            "{failed} of {} samples failed and have no numbers; the tables say why.",
            results.samples.len()
        ));
    }
    notes.extend(none_ended(results));
    notes.extend(results.notes.iter().cloned());
    notes.extend(host_note(&cell::cells(results)));
    notes.extend(busy_note(results));
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    let others = results.samples.iter().flat_map(|sample| &sample.notes).filter(|note| !lacks.contains(note));
    for note in others {
        *counted.entry(note).or_default() += 1;
    }
    notes.extend(counted.into_iter().map(|(note, times)| times_over(note, times)));
    notes
}

/// Says of rates of 0 that they are none: the measured time was over before an operation was.
fn none_ended(results: &ResultFile) -> Option<String> {
    let is_zero = |sample: &&results::Sample| {
        let counts = sample.axis("fs").is_some() && sample.elapsed_ns > 0;
        counts && sample.ops == 0 && sample.errors == 0 && !sample.partial && sample.is_measured()
    };
    let zero = results.samples.iter().filter(is_zero).count();
    (zero > 0).then(|| {
        format!(
            "Nothing ended in the measured time of {zero} of {} samples, so 0 op/s is no rate there: give a longer --runtime.",
            results.samples.len()
        )
    })
}

fn times_over(note: &str, times: usize) -> String {
    if times == 1 { note.to_owned() } else { format!("{note} ({times} samples)") }
}

/// The quantiles of latency in tables.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Calls that must be slower than a quantile of a table.
const BEYOND: f64 = 10.0;

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
    /// Whether spreads are ranges of few repeats and no 95 % intervals.
    ranges: bool,
    /// Whether a cell has the calls for the last quantile.
    tail: bool,
    errors: bool,
    failures: bool,
    noise: bool,
    cut_short: bool,
    /// Whether its designs are priced alike: otherwise there are no ratios.
    ranked: bool,
    /// Whether the longest call has a column: after a churn a call may have to clean.
    longest: bool,
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
            ranges: cells.iter().any(|cell| (2..LEAST_REPEATS).contains(&cell.throughputs().len())),
            tail: cells
                .iter()
                .any(|cell| cell.latency_ns().count() as f64 * (1.0 - QUANTILES[2].1) >= BEYOND),
            errors: cells.iter().any(|cell| cell.errors() > 0),
            failures: cells.iter().any(|cell| cell.failure().is_some()),
            noise: cells.iter().any(Cell::is_noisy),
            cut_short: cells.iter().any(Cell::is_cut_short),
            ranked: true,
            longest: false,
        }
    }

    /// The quantiles of latency that have a column: the last one where a cell has the calls for it.
    fn quantiles(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let last = if self.tail { QUANTILES.len() } else { QUANTILES.len() - 1 };
        QUANTILES.into_iter().take(last)
    }

    fn table(&self, workload: Option<&str>) -> Table {
        let mut table = Table::new(workload.unwrap_or("all samples"));
        self.others.iter().for_each(|name| table.numbers(axis::title(name)));
        table.words(axis::title(self.design));
        table.numbers("throughput");
        if self.spreads {
            table.numbers(if self.ranges { "± (range)" } else { "± (95 %)" });
        }
        for (name, _) in self.quantiles() {
            table.numbers(name);
        }
        if self.longest {
            table.numbers("longest");
        }
        if let (Some(first), true) = (self.first, self.designs > 1 && self.ranked) {
            table.numbers(format!("vs {first}"));
        }
        if self.errors {
            table.numbers("errors");
        }
        if self.noise {
            table.words("host");
        }
        if self.cut_short {
            table.words("run");
        }
        if self.failures {
            table.words("failed");
        }
        self.ordered(workload).into_iter().for_each(|cell| table.row_of(cell.number, self.row(cell)));
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
        // A quantile of which fewer than ten calls are above is one call's luck.
        let beyond = |q: f64| latency.count() as f64 * (1.0 - q);
        let quantile = |q| if beyond(q) < BEYOND { dash() } else { ns(latency.quantile_ns(q)) };
        row.extend(self.quantiles().map(|(_, q)| quantile(q)));
        if self.longest {
            row.push(if latency.is_empty() { dash() } else { ns(latency.summary().max_ns) });
        }
        if self.designs > 1 && self.ranked {
            row.push(self.ratio(cell).map_or_else(dash, units::ratio));
        }
        if self.errors {
            row.push(cell.errors().to_string());
        }
        if self.noise {
            row.push(if cell.is_noisy() { "busy" } else { "" }.to_owned());
        }
        if self.cut_short {
            row.push(if cell.is_cut_short() { "cut short" } else { "" }.to_owned());
        }
        if self.failures {
            row.push(cell.failure().unwrap_or_default().to_owned());
        }
        row
    }

    /// The throughput of `cell` by that of the first design in the same place.
    fn ratio(&self, cell: &Cell<'_>) -> Option<f64> {
        let base = self.cells.iter().find(|other| self.same_place(cell, other))?;
        Estimate::ratio(&cell.throughputs(), &base.throughputs()).map(|ratio| ratio.value)
    }

    fn same_place(&self, cell: &Cell<'_>, other: &Cell<'_>) -> bool {
        other.axis(self.design) == self.first && cell::same_place(cell, other, self.design)
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
    let ranges = outcomes.iter().any(|outcome| outcome.range);
    table.words(if ranges { "range of the runs" } else { "95 % interval" });
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
    facts.extend(results.memory.iter().map(|sentence| ("memory under load", sentence.clone())));
    facts.push(("prices", prices::named(results)));
    facts.push(("Weir", host.weir_version.clone()));
    let modelled = results.clock == Clock::Virtual;
    facts.extend(host_facts(host).into_iter().filter(|(name, _)| !modelled || ABOUT_THE_RUN.contains(name)));
    facts.retain(|(_, value)| !value.is_empty());
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What a modelled time still has of the host.
const ABOUT_THE_RUN: [&str; 4] = ["commit", "compiler", "build profile", "began (UTC)"];

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
        ("began (UTC)", text(&host.started_utc)),
        ("load of the host then", host.load_percent.map_or_else(String::new, load)),
        ("cost of one measurement", host.timer_overhead_ns.map_or_else(String::new, ns)),
    ]
}

/// A load average in hundredths.
fn load(hundredths: u64) -> String {
    format!("{}.{:02} processes", hundredths / 100, hundredths % 100)
}

/// Whether a claim's reason belongs under the tables.
pub fn reasons(claims: &[ClaimOutcome]) -> impl Iterator<Item = (&str, &str)> {
    claims.iter().filter_map(|claim| Some((claim.id.as_str(), claim.reason.as_deref()?)))
}
