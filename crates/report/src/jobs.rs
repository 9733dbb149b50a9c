//! What fio's users look for: rates and latencies by job and direction.
//!
//! Two tables for each cell whose workload has jobs: rates, and percentiles. Repeats are put together: rates are medians,
//! histograms are merged. The percentiles are those that the job file asks for, or a few usual ones.

use results::{Histogram, JobRecord, ResultFile, statistics};

use crate::cell::{self, Cell};
use crate::table::Table;
use crate::units::Unit;

/// The percentiles of a job file that names none.
const USUAL: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// The tables of all cells that have jobs, in the order of the cells.
pub fn tables(results: &ResultFile) -> Vec<Table> {
    let cells = cell::cells(results);
    let varying = cell::varying_axes(&cells);
    let mut tables = Vec::new();
    for cell in &cells {
        let rows = rows(cell);
        if rows.is_empty() {
            continue;
        }
        let mut title: Vec<&str> = ["workload", "fs"].iter().filter_map(|axis| cell.axis(axis)).collect();
        let others = varying.keys().filter(|axis| !["workload", "fs"].contains(axis));
        let others: Vec<String> =
            others.filter_map(|axis| Some(format!("{axis} {}", cell.axis(axis)?))).collect();
        title.extend(others.iter().map(String::as_str));
        tables.push(rates(&format!("{}: jobs", title.join(" ")), &rows));
        tables.push(latencies(&format!("{}: latencies", title.join(" ")), &rows));
    }
    tables
}

/// Which latencies of a record.
type Latencies = fn(&JobRecord) -> &Histogram;

/// A job and direction with the records of all repeats.
type Row<'a> = Vec<&'a JobRecord>;

fn rows<'a>(cell: &Cell<'a>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for record in cell.samples.iter().flat_map(|sample| &sample.jobs) {
        let same = |row: &&mut Row<'_>| row[0].name == record.name && row[0].direction == record.direction;
        match rows.iter_mut().find(same) {
            Some(row) => row.push(record),
            None => rows.push(vec![record]),
        }
    }
    rows
}

fn rates(title: &str, rows: &[Row<'_>]) -> Table {
    let mut table = Table::new(title);
    table.words("job");
    table.words("direction");
    for column in ["jobs", "IOPS", "bandwidth", "I/Os", "bytes", "time"] {
        table.numbers(column);
    }
    for row in rows {
        let median = |of: fn(&JobRecord) -> f64| {
            let values: Vec<f64> = row.iter().map(|record| of(record)).collect();
            statistics::median(&values).unwrap_or(0.0)
        };
        let rate = |unit: Unit, of: fn(&JobRecord) -> f64| {
            if row.iter().any(|record| record.elapsed_ns > 0) {
                unit.human(median(of))
            } else {
                "–".to_owned()
            }
        };
        let moves = row.iter().any(|record| record.bytes > 0);
        table.rows.push(vec![
            row[0].name.clone(),
            row[0].direction.clone(),
            row[0].jobs.to_string(),
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
    }
    table
}

fn by_second(count: u64, elapsed_ns: u64) -> f64 {
    if elapsed_ns == 0 { 0.0 } else { count as f64 * 1e9 / elapsed_ns as f64 }
}

fn latencies(title: &str, rows: &[Row<'_>]) -> Table {
    let asked = rows.iter().map(|row| &row[0].percentiles).find(|percentiles| !percentiles.is_empty());
    let percentiles = asked.map_or(&USUAL[..], Vec::as_slice);
    let mut table = Table::new(title);
    table.words("job");
    table.words("direction");
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
        let late = row.iter().any(|record| !record.slat_ns.is_empty());
        for (kind, of) in kinds {
            // Without a rate an I/O is called as soon as it is meant: there is one latency.
            if !late && kind != "clat" {
                continue;
            }
            table.rows.push(latency(row, if late { kind } else { "clat = lat" }, of, percentiles));
        }
    }
    table
}

fn latency(row: &Row<'_>, kind: &str, of: Latencies, percentiles: &[f64]) -> Vec<String> {
    let mut all = Histogram::new();
    for record in row {
        all.merge(of(record));
    }
    let human = |ns: f64| Unit::Nanos.human(ns);
    let mut cells =
        vec![row[0].name.clone(), row[0].direction.clone(), kind.to_owned(), human(all.mean_ns())];
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
    fn a_result_without_jobs_has_no_tables() {
        assert!(tables(&ResultFile::new("t", serde_json::Value::Null, 1, Clock::Virtual)).is_empty());
    }
}
