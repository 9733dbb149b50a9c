//! What fio's users look for: rates and latencies by job and direction.
//!
//! Two tables for each place whose workload has jobs: rates, and percentiles, the designs side by side. Repeats are put
//! together: rates are medians, histograms are merged. The percentiles are those that the job file asks for, or a few usual ones.

use results::{Histogram, JobRecord, ResultFile, statistics};

use crate::axis;
use crate::cell::{self, Cell};
use crate::table::Table;
use crate::units::Unit;

/// The percentiles of a job file that names none.
const USUAL: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// The tables of all places that have jobs, in their order: the designs of a place stand side by side, a job below itself.
pub fn tables(results: &ResultFile) -> Vec<Table> {
    let cells = cell::cells(results);
    let all = cell::all_axes(&cells);
    let design = axis::design_axis(all.keys().copied());
    let several = all.get(design).is_some_and(|designs| designs.len() > 1);
    let varying = cell::varying_axes(&cells);
    let mut tables = Vec::new();
    for cells in places(&cells, design) {
        let rows = rows(&cells, design);
        if rows.is_empty() {
            continue;
        }
        let always = if several { &["workload"][..] } else { &["workload", design] };
        let mut title: Vec<&str> = always.iter().filter_map(|axis| cells[0].axis(axis)).collect();
        let others = varying.keys().filter(|axis| !["workload", design].contains(axis));
        let others: Vec<String> =
            others.filter_map(|axis| Some(format!("{axis} {}", cells[0].axis(axis)?))).collect();
        title.extend(others.iter().map(String::as_str));
        let head = several.then(|| axis::title(design));
        tables.push(rates(&format!("{}: jobs", title.join(" ")), head, &rows));
        tables.push(latencies(&format!("{}: latencies", title.join(" ")), head, &rows));
    }
    tables
}

/// The cells grouped by everything but the design.
fn places<'c, 'a>(cells: &'c [Cell<'a>], design: &str) -> Vec<Vec<&'c Cell<'a>>> {
    let mut places: Vec<Vec<&Cell<'a>>> = Vec::new();
    for cell in cells {
        match places.iter_mut().find(|place| cell::same_place(place[0], cell, design)) {
            Some(place) => place.push(cell),
            None => places.push(vec![cell]),
        }
    }
    places
}

/// Which latencies of a record.
type Latencies = fn(&JobRecord) -> &Histogram;

/// A job and direction with the records of all repeats of one design.
struct Row<'a> {
    design: &'a str,
    records: Vec<&'a JobRecord>,
}

/// The rows of a place: by job and direction, and below that by design.
fn rows<'a>(place: &[&Cell<'a>], design: &str) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for cell in place {
        let design = cell.axis(design).unwrap_or_default();
        for record in cell.samples.iter().flat_map(|sample| &sample.jobs) {
            let job = |row: &Row<'_>| {
                row.records[0].name == record.name && row.records[0].direction == record.direction
            };
            if let Some(row) = rows.iter_mut().find(|row| job(row) && row.design == design) {
                row.records.push(record);
                continue;
            }
            let at = rows.iter().rposition(job).map_or(rows.len(), |last| last + 1);
            rows.insert(at, Row { design, records: vec![record] });
        }
    }
    rows
}

/// What each row begins with: job, direction, and the design where there are several.
fn keys(table: &mut Table, head: Option<&str>) {
    ["job", "direction"].into_iter().chain(head).for_each(|name| table.words(name));
}

impl Row<'_> {
    fn keys(&self, head: Option<&str>) -> Vec<String> {
        let first = self.records[0];
        let design = head.map(|_| self.design.to_owned());
        [first.name.clone(), first.direction.clone()].into_iter().chain(design).collect()
    }
}

fn rates(title: &str, head: Option<&str>, rows: &[Row<'_>]) -> Table {
    let mut table = Table::new(title);
    keys(&mut table, head);
    for column in ["jobs", "IOPS", "bandwidth", "I/Os", "bytes", "time"] {
        table.numbers(column);
    }
    for row in rows {
        let (first, records) = (row.records[0], &row.records);
        let median = |of: fn(&JobRecord) -> f64| {
            let values: Vec<f64> = records.iter().map(|record| of(record)).collect();
            statistics::median(&values).unwrap_or(0.0)
        };
        let rate = |unit: Unit, of: fn(&JobRecord) -> f64| {
            if records.iter().any(|record| record.elapsed_ns > 0) {
                unit.human(median(of))
            } else {
                "–".to_owned()
            }
        };
        let moves = records.iter().any(|record| record.bytes > 0);
        let mut cells = row.keys(head);
        cells.extend([
            first.jobs.to_string(),
            rate(Unit::OpsPerSecond, |record| by_second(record.count, record.elapsed_ns)).replace("op/s", ""),
            if moves {
                rate(Unit::BytesPerSecond, |record| by_second(record.bytes, record.elapsed_ns))
            } else {
                "–".to_owned()
            },
            Unit::Count.human(median(|record| record.count as f64)),
            Unit::Bytes.human(median(|record| record.bytes as f64)),
            Unit::Nanos.human(median(|record| record.elapsed_ns as f64)),
        ]);
        table.rows.push(cells);
    }
    table
}

fn by_second(count: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { count as f64 * 1e9 / elapsed_ns as f64 }
}

fn latencies(title: &str, head: Option<&str>, rows: &[Row<'_>]) -> Table {
    let asked =
        rows.iter().map(|row| &row.records[0].percentiles).find(|percentiles| !percentiles.is_empty());
    let percentiles = asked.map_or(&USUAL[..], Vec::as_slice);
    let mut table = Table::new(title);
    keys(&mut table, head);
    table.words("latency");
    table.numbers("mean");
    for percentile in percentiles {
        table.numbers(format!("p{percentile}"));
    }
    table.numbers("max");
    for row in rows {
        let kinds: [(&str, Latencies); 3] = [
            ("slat", |record| &record.slat_ns),
            ("clat", |record| &record.clat_ns),
            ("lat", |record| &record.lat_ns),
        ];
        let late = row.records.iter().any(|record| !record.slat_ns.is_empty());
        for (kind, of) in kinds {
            // Without a rate an I/O is called as soon as it is meant: there is one latency.
            if !late && kind != "clat" {
                continue;
            }
            let kind = if late { kind } else { "clat = lat" };
            table.rows.push(latency((row, row.keys(head)), kind, of, percentiles));
        }
    }
    table
}

fn latency(
    (row, mut cells): (&Row<'_>, Vec<String>),
    kind: &str,
    of: Latencies,
    percentiles: &[f64],
) -> Vec<String> {
    let mut all = Histogram::new();
    for record in &row.records {
        all.merge(of(record));
    }
    let human = |ns: f64| Unit::Nanos.human(ns);
    cells.extend([kind.to_owned(), human(all.mean_ns())]);
    cells.extend(percentiles.iter().map(|percentile| human(all.quantile_ns(percentile / 100.0) as f64)));
    cells.push(human(all.quantile_ns(1.0) as f64));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Clock, Sample};
    use std::collections::BTreeMap;

    fn record(name: &str, direction: &str, late: bool) -> JobRecord {
        let mut record =
            JobRecord { name: name.to_owned(), direction: direction.to_owned(), ..JobRecord::default() };
        (record.jobs, record.count, record.bytes, record.elapsed_ns) = (1, 1000, 4_096_000, 500_000_000);
        record.percentiles = vec![50.0, 99.9];
        (1..=1000).for_each(|latency| {
            record.clat_ns.record(latency);
            record.lat_ns.record(latency);
            if late {
                record.slat_ns.record(1);
            }
        });
        record
    }

    #[test]
    fn a_job_has_its_rate_by_its_own_time_and_the_percentiles_that_it_asks_for() {
        let mut file = ResultFile::new("t", serde_json::Value::Null, 1, Clock::Virtual);
        let axes =
            [("workload", "a.fio"), ("fs", "pmfs")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut sample = Sample::new(BTreeMap::from(axes), 0, 1);
        sample.finish(1000, 2_000_000_000);
        sample.jobs = vec![record("a", "read", false), record("b", "write", true)];
        file.samples.push(sample);
        let [rates, latencies] = tables(&file).try_into().unwrap();
        assert_eq!(rates.title, "a.fio pmfs: jobs");
        assert_eq!(rates.rows[0][..5], ["a", "read", "1", "2.00 k", "7.81 MiB/s"]);
        let names: Vec<_> = latencies.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["job", "direction", "latency", "mean", "p50", "p99.9", "max"]);
        let kinds: Vec<_> = latencies.rows.iter().map(|row| row[2].as_str()).collect();
        assert_eq!(kinds, ["clat = lat", "slat", "clat", "lat"]);
        assert_eq!(latencies.rows[0][4..], ["500 ns", "1.00 µs", "1.00 µs"]);
    }

    #[test]
    fn a_job_stands_below_itself_on_each_design() {
        let mut file = ResultFile::new("t", serde_json::Value::Null, 1, Clock::Virtual);
        for fs in ["pmfs", "nova"] {
            let axes =
                [("workload", "a.fio"), ("fs", fs)].map(|(name, value)| (name.to_owned(), value.to_owned()));
            let mut sample = Sample::new(BTreeMap::from(axes), 0, 1);
            sample.jobs = vec![record("a", "read", false), record("b", "write", false)];
            file.samples.push(sample);
        }
        let [rates, latencies] = tables(&file).try_into().unwrap();
        assert_eq!(rates.title, "a.fio: jobs");
        let keys = |table: &Table| table.rows.iter().map(|row| row[..3].join(" ")).collect::<Vec<_>>();
        let wanted = ["a read pmfs", "a read nova", "b write pmfs", "b write nova"];
        assert_eq!(
            (keys(&rates), keys(&latencies)),
            (wanted.map(String::from).into(), wanted.map(String::from).into())
        );
    }

    #[test]
    fn a_result_without_jobs_has_no_tables() {
        assert!(tables(&ResultFile::new("t", serde_json::Value::Null, 1, Clock::Virtual)).is_empty());
    }
}
