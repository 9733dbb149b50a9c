//! fio's own JSON (`--output-format=json+`), for fio-plot, `fio_jsonplus_clat2csv` and what storage teams have written for it.
//!
//! An entry of `jobs` is a job of one sample. A document of several samples names each entry after its cell too; the key `weir` of
//! an entry, which fio does not have, has the clock, the axes and the repeat. Keys that fio always writes and Weir does not measure
//! are 0: processor time, context switches, faults, queue depths, and rates over time, whose number of samples is 0, as fio has
//! them for short runs. The options are those of the job file, as they are written there.

use std::collections::BTreeMap;

use results::{Histogram, InputKind, JobRecord, ResultFile, Sample};
use serde_json::{Map, Value, json};

use super::{Format, RenderError, exchange};
use crate::Report;

pub(super) struct FioJson;

/// fio's percentiles where a job file names none.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Upper ends of the classes into which fio sorts latencies, of each unit.
const CLASSES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const NS_BY_S: f64 = 1e9;

impl Format for FioJson {
    fn name(&self) -> &'static str {
        "fio-json"
    }

    fn extension(&self) -> &'static str {
        "fio.json"
    }

    fn summary(&self) -> &'static str {
        "results of job files as fio writes them (json+), for fio-plot and other readers of fio"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        let whole: Vec<(&ResultFile, &Sample)> =
            exchange::whole_samples(report).filter(|(_, sample)| !sample.jobs.is_empty()).collect();
        let Some((first, _)) = whole.first() else {
            let told = "fio's JSON holds jobs of fio, and this result has none that ran to their end: run a job file \
                        (`weir bench FILE.fio`)";
            return Err(RenderError::Nothing(told.to_owned()));
        };
        let several = whole.len() > 1;
        let jobs: Vec<Value> =
            whole.iter().flat_map(|(result, sample)| jobs(result, sample, several)).collect();
        let began = first.environment.started_utc.as_deref().unwrap_or_default();
        let seconds = seconds_of(began).unwrap_or(0);
        let document = json!({
            "fio version": format!("weir-{} ({} clock)", first.environment.weir_version, first.clock),
            "timestamp": seconds,
            "timestamp_ms": seconds * 1000,
            "time": format!("{began} UTC"),
            "global options": global_options(first),
            "jobs": jobs,
        });
        Ok(exchange::text(&document))
    }

    fn skips(&self, report: &Report) -> Option<String> {
        exchange::skipped(report)
    }
}

/// The jobs of a sample; rows of whole groups would double those that they are made of.
fn jobs(result: &ResultFile, sample: &Sample, several: bool) -> Vec<Value> {
    let mut by_name: BTreeMap<(u32, &str), Vec<&JobRecord>> = BTreeMap::new();
    let mut order = Vec::new();
    for record in sample.jobs.iter().filter(|record| !record.name.starts_with("group ")) {
        let key = (record.group, record.name.as_str());
        by_name.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        by_name.entry(key).or_default().push(record);
    }
    order.iter().map(|key| job(result, sample, several, &by_name[key])).collect()
}

fn job(result: &ResultFile, sample: &Sample, several: bool, records: &[&JobRecord]) -> Value {
    let first = records[0];
    let elapsed_ns = records.iter().map(|record| record.elapsed_ns).max().unwrap_or(0);
    let name = if several {
        format!("{} {} {}", exchange::cell(&sample.axes), sample.repeat, first.name)
    } else {
        first.name.clone()
    };
    let mut entry = json!({
        "jobname": name,
        "groupid": first.group,
        "error": 0,
        "eta": 0,
        "elapsed": elapsed_ns.div_ceil(1_000_000_000),
        "job options": job_options(result, sample, first),
    });
    let fields = entry.as_object_mut().expect("it is an object");
    for name in ["read", "write", "trim"] {
        fields.insert(name.to_owned(), direction(of(records, name)));
    }
    if let Some(mixed) = of(records, "mixed") {
        fields.insert("mixed".to_owned(), direction(Some(mixed)));
    }
    fields.insert("sync".to_owned(), sync(of(records, "sync")));
    fields.insert("job_runtime".to_owned(), (elapsed_ns / 1_000_000).into());
    for name in ["usr_cpu", "sys_cpu"] {
        fields.insert(name.to_owned(), 0.0.into());
    }
    for name in ["ctx", "majf", "minf"] {
        fields.insert(name.to_owned(), 0.into());
    }
    fields.insert("iodepth_level".to_owned(), zeros(&["1", "2", "4", "8", "16", "32", ">=64"]));
    for name in ["iodepth_submit", "iodepth_complete"] {
        fields.insert(name.to_owned(), zeros(&["0", "4", "8", "16", "32", "64", ">=64"]));
    }
    fields.extend(classes(records));
    let rest =
        json!({"latency_depth": 1, "latency_target": 0, "latency_percentile": 100.0, "latency_window": 0});
    fields.extend(rest.as_object().cloned().expect("it is an object"));
    let weir =
        json!({"clock": result.clock, "axes": sample.axes, "repeat": sample.repeat, "seed": sample.seed});
    fields.insert("weir".to_owned(), weir);
    entry
}

/// The record of a direction.
fn of<'r>(records: &[&'r JobRecord], direction: &str) -> Option<&'r JobRecord> {
    records.iter().copied().find(|record| record.direction == direction)
}

fn zeros(names: &[&str]) -> Value {
    names.iter().map(|name| ((*name).to_owned(), Value::from(0.0))).collect::<Map<_, _>>().into()
}

fn direction(record: Option<&JobRecord>) -> Value {
    let nothing = JobRecord::default();
    let record = record.unwrap_or(&nothing);
    let seconds = record.elapsed_ns as f64 / NS_BY_S;
    let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let bytes_by_s = rate(record.bytes) as u64;
    json!({
        "io_bytes": record.bytes,
        "io_kbytes": record.bytes >> 10,
        "bw_bytes": bytes_by_s,
        "bw": bytes_by_s >> 10,
        "iops": rate(record.count),
        "runtime": record.elapsed_ns / 1_000_000,
        "total_ios": record.count,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latencies(&record.slat_ns, None),
        "clat_ns": latencies(&record.clat_ns, Some(&record.percentiles)),
        "lat_ns": latencies(&record.lat_ns, None),
        "bw_min": 0, "bw_max": 0, "bw_agg": 0.0, "bw_mean": 0.0, "bw_dev": 0.0, "bw_samples": 0,
        "iops_min": 0, "iops_max": 0, "iops_mean": 0.0, "iops_stddev": 0.0, "iops_samples": 0,
    })
}

fn sync(record: Option<&JobRecord>) -> Value {
    let nothing = JobRecord::default();
    let record = record.unwrap_or(&nothing);
    json!({"total_ios": record.count, "lat_ns": latencies(&record.lat_ns, Some(&record.percentiles))})
}

/// A summary of latencies; with percentiles and, as json+ has them, the number in each class of the histogram by its middle.
fn latencies(histogram: &Histogram, percentiles: Option<&Vec<f64>>) -> Value {
    let summary = histogram.summary();
    let mut fields = json!({
        "min": if histogram.is_empty() { 0 } else { summary.min_ns },
        "max": summary.max_ns,
        "mean": summary.mean_ns,
        "stddev": summary.stddev_ns,
        "N": summary.count,
    });
    if let (Some(asked), false) = (percentiles, histogram.is_empty()) {
        let asked = if asked.is_empty() { &PERCENTILES[..] } else { asked };
        let values = asked.iter().map(|p| (format!("{p:.6}"), histogram.quantile_ns(p / 100.0).into()));
        fields["percentile"] = values.collect::<Map<_, _>>().into();
        let bins =
            histogram.buckets().map(|(low, high, count)| (low.midpoint(high).to_string(), count.into()));
        fields["bins"] = bins.collect::<Map<_, _>>().into();
    }
    fields
}

/// Which part of all I/Os of a job took up to so many nanoseconds, microseconds and milliseconds, in per cent.
fn classes(records: &[&JobRecord]) -> Map<String, Value> {
    let mut all = Histogram::new();
    let apart = ["read", "write", "trim"].into_iter().filter_map(|name| of(records, name));
    apart.for_each(|record| all.merge(&record.lat_ns));
    if let (true, Some(mixed)) = (all.is_empty(), of(records, "mixed")) {
        all.merge(&mixed.lat_ns);
    }
    let total = all.count().max(1) as f64;
    let within = |from: u64, to: u64| {
        let counted: u64 =
            all.buckets().filter(|(_, high, _)| *high > from && *high <= to).map(|found| found.2).sum();
        Value::from(counted as f64 * 100.0 / total)
    };
    let mut fields = Map::new();
    let mut from = 0;
    for (name, unit_ns) in [("latency_ns", 1), ("latency_us", 1_000), ("latency_ms", 1_000_000)] {
        let mut shares = Map::new();
        for end in CLASSES.into_iter().chain((unit_ns == 1_000_000).then_some(2000)) {
            shares.insert(end.to_string(), within(from, end * unit_ns));
            from = end * unit_ns;
        }
        if unit_ns == 1_000_000 {
            shares.insert(">=2000".to_owned(), within(from, u64::MAX));
        }
        fields.insert(name.to_owned(), shares.into());
    }
    fields
}

/// The options of the job's own section, and what it is called.
fn job_options(result: &ResultFile, sample: &Sample, record: &JobRecord) -> Value {
    let mut options = Map::from_iter([("name".to_owned(), Value::from(record.name.clone()))]);
    let text = sample.axis("workload").and_then(|workload| job_file(result, workload)).unwrap_or_default();
    for (section, own) in sections(text) {
        if section == record.name {
            options.extend(own);
        }
    }
    options.into()
}

fn global_options(result: &ResultFile) -> Value {
    let named = result.samples.iter().find_map(|sample| sample.axis("workload"));
    let text = named.and_then(|workload| job_file(result, workload)).unwrap_or_default();
    let global = sections(text).into_iter().filter(|(section, _)| section == "global");
    global.flat_map(|(_, options)| options).collect::<Map<_, _>>().into()
}

/// The text of the job file that a workload is, if the result has it.
fn job_file<'r>(result: &'r ResultFile, workload: &str) -> Option<&'r str> {
    let is = |name: &str| name == workload || workload.strip_prefix("fio/") == Some(name);
    let found = result.inputs.iter().find(|input| input.kind == InputKind::Workload && is(&input.name));
    found.map(|input| input.text.as_str())
}

/// The sections of a job file with their options, as text; an option without a value has an empty one, as in fio's document.
fn sections(text: &str) -> Vec<(String, Map<String, Value>)> {
    let mut sections: Vec<(String, Map<String, Value>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            sections.push((name.to_owned(), Map::new()));
        } else if let Some((_, options)) = sections.last_mut() {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            options.insert(key.trim().to_owned(), value.trim().into());
        }
    }
    sections
}

/// Seconds since 1970 of `2026-01-31 12:05`.
fn seconds_of(utc: &str) -> Option<i64> {
    let numbers: Vec<i64> = utc.split(['-', ' ', ':']).map_while(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, ..] = numbers[..] else { return None };
    // Years begin in March, so that the day that some have more is their last.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_the_seconds_since_1970() {
        assert_eq!(seconds_of("1970-01-01 00:00"), Some(0));
        assert_eq!(seconds_of("2000-02-29 23:59"), Some(951_868_740));
        assert_eq!(seconds_of("2026-11-26 22:51"), Some(1_795_733_460));
        assert_eq!(seconds_of(""), None);
    }

    #[test]
    fn sections_of_a_job_file_keep_their_options_as_they_are_written() {
        let text = "; c\n[global]\nbs = 4k\n\n[a]\nrw=randread:8\nstonewall\n# c\n[b]\nname=x=y\n";
        let found = sections(text);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["global", "a", "b"]);
        assert_eq!(Value::from(found[1].1.clone()), json!({"rw": "randread:8", "stonewall": ""}));
        assert_eq!(found[2].1["name"], "x=y");
    }

    #[test]
    fn classes_of_latencies_add_up_to_all() {
        let mut record = JobRecord { direction: "read".into(), ..JobRecord::default() };
        for ns in [2, 3, 999, 1500, 40_000, 3_000_000, 5_000_000_000] {
            record.lat_ns.record(ns);
        }
        let found = classes(&[&record]);
        let share = |unit: &str, class: &str| found[unit][class].as_f64().unwrap();
        let sum: f64 =
            found.values().flat_map(|one| one.as_object().unwrap().values()).filter_map(Value::as_f64).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{sum}");
        let one = 100.0 / 7.0;
        for (unit, class) in [
            ("latency_ns", "2"),
            ("latency_ns", "4"),
            ("latency_ns", "1000"),
            ("latency_us", "2"),
            ("latency_us", "50"),
            ("latency_ms", "4"),
            ("latency_ms", ">=2000"),
        ] {
            assert!((share(unit, class) - one).abs() < 1e-9, "{unit} {class}: {found:?}");
        }
    }
}
