//! What both clocks say of the same cells, side by side: throughput, and where the time of each kind of operation went.
//!
//! The ledger of the real clock knows what a medium's model let pass and what was waited for; the rest is the work itself. So the
//! parts that can be compared are three: processor (software and copies), medium (with the journal), and waits.

use std::collections::BTreeMap;

use report::Report;
use report::table::Table;
use report::units::{Unit, ratio};
use results::{OperationRecord, ResultFile, Sample};

/// Activities of the medium, in the ledger's names.
const MEDIUM: [&str; 6] = ["data", "metadata", "journal", "medium_wait", "memory_latency", "memory_turn"];
/// Activities that are waits for others.
const WAITS: [&str; 4] = ["lock_wait", "stall", "sleep", "core_wait"];

/// The tables, when both clocks ran; nothing otherwise.
pub(super) fn tables(report: &Report) -> String {
    let [modelled, real] = report.sections.as_slice() else { return String::new() };
    let (modelled, real) = (&modelled.results, &real.results);
    let mut text = format!("\n{}", throughput(modelled, real).to_text());
    for (cell, modelled) in by_cell(modelled) {
        if let Some(real) = by_cell(real).get(&cell) {
            text.push('\n');
            text += &ledgers(&cell, &modelled, real).to_text();
        }
    }
    text
}

/// Virtual by real throughput of each cell.
fn throughput(modelled: &ResultFile, real: &ResultFile) -> Table {
    let mut table = Table::new("virtual clock by real clock: at 1.00x the model agrees with this host");
    table.words("cell");
    for name in ["virtual", "real", "virtual/real"] {
        table.numbers(name);
    }
    let (modelled, real) = (rates(modelled), rates(real));
    for (cell, virtual_rate) in &modelled {
        let Some(real_rate) = real.get(cell) else { continue };
        let rate = |rate: f64| Unit::OpsPerSecond.human(rate);
        let by = if *real_rate > 0.0 { ratio(virtual_rate / real_rate) } else { "–".to_owned() };
        table.rows.push(vec![cell.clone(), rate(*virtual_rate), rate(*real_rate), by]);
    }
    table
}

/// Median throughput by cell.
fn rates(results: &ResultFile) -> BTreeMap<String, f64> {
    let rates =
        |samples: Vec<&Sample>| samples.iter().map(|sample| sample.throughput_ops_per_s).collect::<Vec<_>>();
    let median = |samples| results::statistics::median(&rates(samples)).unwrap_or(0.0);
    by_cell(results).into_iter().map(|(cell, samples)| (cell, median(samples))).collect()
}

/// The samples of each cell, by its name.
fn by_cell(results: &ResultFile) -> BTreeMap<String, Vec<&Sample>> {
    let mut cells: BTreeMap<String, Vec<&Sample>> = BTreeMap::new();
    for sample in &results.samples {
        let name =
            sample.axes.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join("  ");
        cells.entry(name).or_default().push(sample);
    }
    cells
}

/// Time of a kind of operation in nanoseconds, in all repeats together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spent {
    count: u64,
    processor: u64,
    medium: u64,
    waits: u64,
}

impl Spent {
    fn add(&mut self, operation: &OperationRecord) {
        let sum =
            |names: &[&str]| -> u64 { names.iter().filter_map(|name| operation.time_ns.get(*name)).sum() };
        let (medium, waits) = (sum(&MEDIUM), sum(&WAITS));
        self.count += operation.count;
        self.medium += medium;
        self.waits += waits;
        self.processor += operation.total_ns.saturating_sub(medium + waits);
    }

    fn all(self) -> u64 {
        self.processor + self.medium + self.waits
    }

    /// A time of one operation.
    fn each(self, time: u64) -> f64 {
        if self.count == 0 { 0.0 } else { time as f64 / self.count as f64 }
    }
}

fn spent(samples: &[&Sample]) -> BTreeMap<String, Spent> {
    let mut kinds: BTreeMap<String, Spent> = BTreeMap::new();
    for operation in samples.iter().flat_map(|sample| &sample.operations) {
        kinds.entry(operation.kind.clone()).or_default().add(operation);
    }
    kinds
}

/// The mean time of one operation of each kind under both clocks, and its three parts.
fn ledgers(cell: &str, modelled: &[&Sample], real: &[&Sample]) -> Table {
    let mut table = Table::new(format!("{cell}: time of one operation, virtual and real, and where it goes"));
    table.words("operation");
    table.numbers("share of real time");
    for part in ["all", "processor", "medium", "waits"] {
        table.numbers(part);
        table.numbers(format!("{part}, real"));
    }
    table.numbers("virtual/real");
    let (modelled, real) = (spent(modelled), spent(real));
    let total: u64 = real.values().map(|spent| spent.all()).sum();
    let mut kinds: Vec<(&String, Spent)> = real.iter().map(|(kind, spent)| (kind, *spent)).collect();
    kinds.sort_by_key(|(_, spent)| std::cmp::Reverse(spent.all()));
    for (kind, real) in kinds {
        let modelled = modelled.get(kind).copied().unwrap_or_default();
        table.rows.push(row(kind, modelled, real, total));
    }
    table
}

fn row(kind: &str, modelled: Spent, real: Spent, total: u64) -> Vec<String> {
    let time = |ns: f64| Unit::Nanos.human(ns);
    let share = real.all() as f64 / total.max(1) as f64;
    let mut row = vec![kind.to_owned(), format!("{:.0} %", share * 100.0)];
    let parts: [fn(Spent) -> u64; 4] = [Spent::all, |s| s.processor, |s| s.medium, |s| s.waits];
    for part in parts {
        row.push(time(modelled.each(part(modelled))));
        row.push(time(real.each(part(real))));
    }
    let (modelled, real) = (modelled.each(modelled.all()), real.each(real.all()));
    row.push(if real > 0.0 && modelled > 0.0 { ratio(modelled / real) } else { "–".to_owned() });
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Clock;

    fn result(clock: Clock, name: &str, software: u64) -> ResultFile {
        let mut file = ResultFile::new(name, serde_json::Value::Null, 1, clock);
        let axes = [("fs", "pmfs"), ("workload", "varmail")]
            .map(|(axis, value)| (axis.to_owned(), value.to_owned()));
        let mut sample = Sample::new(axes.into(), 0, 1);
        let mut write = OperationRecord::new("write");
        (write.count, write.total_ns) = (2, software + 500);
        write.time_ns = [("software", software), ("data", 400), ("lock_wait", 100)]
            .map(|(k, v)| (k.to_owned(), v))
            .into();
        sample.operations = vec![write];
        sample.throughput_ops_per_s = 10.0;
        file.samples = vec![sample];
        file
    }

    #[test]
    fn the_parts_of_an_operation_stand_side_by_side_and_make_up_the_whole() {
        let files = vec![result(Clock::Virtual, "v", 1_500), result(Clock::Real, "r", 3_500)];
        let text = tables(&Report::new(files).unwrap());
        let row: Vec<&str> =
            text.lines().find(|line| line.trim().starts_with("write")).unwrap().split("  ").collect();
        let row: Vec<&str> = row.into_iter().map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(
            row,
            [
                "write", "100 %", "1.00 µs", "2.00 µs", "750 ns", "1.75 µs", "200 ns", "200 ns", "50 ns",
                "50 ns", "0.50x"
            ]
        );
    }

    #[test]
    fn one_clock_alone_is_compared_with_nothing() {
        assert_eq!(tables(&Report::new(vec![result(Clock::Virtual, "v", 1)]).unwrap()), "");
    }
}
