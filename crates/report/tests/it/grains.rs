//! Tidy tables: sums do not double, histograms give percentiles, every column is in the reference.

use std::collections::BTreeMap;

use report::Report;
use report::grains::{self, Grain, Type, Value};
use results::{HostRecord, JobRecord, SeriesRecord, WorkerRecord};

use crate::sample;

fn of(results: results::ResultFile) -> Vec<Grain> {
    grains::of(&Report::new(vec![results]).unwrap())
}

fn table<'g>(grains: &'g [Grain], name: &str) -> &'g Grain {
    grains.iter().find(|grain| grain.name == name).unwrap_or_else(|| panic!("no table {name}"))
}

fn place(grain: &Grain, column: &str) -> usize {
    let found = grain.columns.iter().position(|one| one.name == column);
    found.unwrap_or_else(|| panic!("{} has no column {column}", grain.name))
}

fn count(value: &Value) -> u64 {
    if let Value::Count(count) = value { *count } else { panic!("{value:?} is no count") }
}

/// The sum of `column` by `keys`.
fn sums(grain: &Grain, keys: &[&str], column: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for row in &grain.rows {
        let key: Vec<String> = keys.iter().map(|key| format!("{:?}", row[place(grain, key)])).collect();
        *sums.entry(key.join(" ")).or_insert(0) += count(&row[place(grain, column)]);
    }
    sums
}

#[test]
fn a_row_has_a_cell_of_the_right_type_for_each_column() {
    for grain in of(sample::bars()) {
        for row in &grain.rows {
            assert_eq!(row.len(), grain.columns.len(), "{}", grain.name);
            for (value, column) in row.iter().zip(&grain.columns) {
                let right = match value {
                    Value::Empty => true,
                    Value::Text(_) => column.of == Type::Text,
                    Value::Count(_) => column.of == Type::Count,
                    Value::Number(_) => column.of == Type::Number,
                    Value::Flag(_) => column.of == Type::Flag,
                };
                assert!(right, "{}.{}: {value:?}", grain.name, column.name);
            }
        }
    }
}

#[test]
fn every_column_is_in_the_reference_with_a_meaning() {
    let grains = of(sample::bars());
    let reference = table(&grains, "columns");
    let (in_table, column, meaning) =
        (place(reference, "table"), place(reference, "column"), place(reference, "meaning"));
    for grain in &grains {
        for head in &grain.columns {
            let is = |row: &&Vec<Value>| {
                row[in_table] == Value::Text(grain.name.into())
                    && row[column] == Value::Text(head.name.clone())
            };
            let row =
                reference.rows.iter().find(is).unwrap_or_else(|| panic!("{}.{}", grain.name, head.name));
            assert!(matches!(&row[meaning], Value::Text(text) if text.len() > 5), "{}", head.name);
        }
    }
}

/// A sum over all rows of a table is the sum over what it counts: no row is the total of others.
#[test]
fn sums_do_not_double() {
    let file = sample::bars();
    let grains = of(file.clone());
    let samples = table(&grains, "samples");
    assert_eq!(samples.rows.len(), file.samples.len());
    let ops: u64 = samples.rows.iter().map(|row| count(&row[place(samples, "ops")])).sum();
    assert_eq!(ops, file.samples.iter().map(|sample| sample.ops).sum::<u64>());
    let calls = table(&grains, "calls");
    let times = table(&grains, "times");
    let activities = Grain {
        rows: times
            .rows
            .iter()
            .filter(|row| row[place(times, "split")] == Value::Text("activity".into()))
            .cloned()
            .collect(),
        ..times.clone()
    };
    let (whole, parts) =
        (sums(calls, &["sample", "call"], "time_ns"), sums(&activities, &["sample", "call"], "time_ns"));
    assert!(!parts.is_empty());
    for (call, time) in parts {
        assert_eq!(whole[&call], time, "{call}");
    }
    let counters = table(&grains, "counters");
    for (number, sample) in file.samples.iter().enumerate() {
        let rows = counters.rows.iter().filter(|row| count(&row[place(counters, "sample")]) == number as u64);
        let mut sum: BTreeMap<String, u64> = BTreeMap::new();
        for row in rows {
            let Value::Text(counter) = &row[place(counters, "counter")] else { panic!("{row:?}") };
            *sum.entry(counter.clone()).or_default() += count(&row[place(counters, "value")]);
        }
        for (counter, value) in sum {
            assert_eq!(sample.counters.get(&counter), Some(&value), "{counter}");
        }
    }
}

#[test]
fn histograms_give_the_percentiles_of_their_calls() {
    let grains = of(sample::bars());
    let (calls, histograms) = (table(&grains, "calls"), table(&grains, "histograms"));
    let mut compared = 0;
    for call in &calls.rows {
        let same = |row: &&Vec<Value>| {
            row[place(histograms, "grain")] == Value::Text("call".into())
                && row[place(histograms, "sample")] == call[place(calls, "sample")]
                && row[place(histograms, "name")] == call[place(calls, "call")]
        };
        let rows: Vec<_> = histograms.rows.iter().filter(same).collect();
        let total: u64 = rows.iter().map(|row| count(&row[place(histograms, "count")])).sum();
        for (name, quantile) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("max_ns", 1.0)] {
            let mut sum = 0;
            let found = rows.iter().find(|row| {
                sum += count(&row[place(histograms, "count")]);
                sum as f64 >= (quantile * total as f64).ceil()
            });
            let Some(row) = found else { continue };
            assert_eq!(row[place(histograms, "high_ns")], call[place(calls, name)], "{name}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

/// An axis whose values are all quantities is a number in base units; another is text.
#[test]
fn axes_have_types() {
    let mut file = sample::bars();
    let sizes = ["4KiB", "1MiB"];
    for (sample, size) in file.samples.iter_mut().zip(sizes.iter().cycle()) {
        sample.axes.insert("iosize".into(), (*size).into());
    }
    let grains = of(file);
    let samples = table(&grains, "samples");
    assert_eq!(samples.rows[0][place(samples, "axis.iosize")], Value::Number(4096.0));
    assert_eq!(samples.columns[place(samples, "axis.fs")].of, Type::Text);
}

/// What the host did, fio's jobs without the rows that are sums of others, workers and rates over time.
#[test]
fn a_sample_keeps_what_its_number_depends_on() {
    let mut file = sample::bars();
    file.samples.truncate(1);
    let one = &mut file.samples[0];
    one.host = Some(HostRecord { noise: vec!["busy".to_owned()], ..Default::default() });
    one.series = Some(SeriesRecord { step_ns: 10, ops: vec![4, 5] });
    one.workers = vec![WorkerRecord { ops: 7, ..Default::default() }];
    let job = |name: &str, direction: &str, count| JobRecord {
        name: name.into(),
        direction: direction.into(),
        count,
        ..Default::default()
    };
    one.jobs = vec![job("log", "write", 9), job("log", "mixed", 9), job("group 0", "write", 9)];
    let grains = of(file);
    let samples = table(&grains, "samples");
    assert_eq!(samples.rows[0][place(samples, "host_noise")], Value::Text("busy".into()));
    let (series, jobs, workers) =
        (table(&grains, "series"), table(&grains, "jobs"), table(&grains, "workers"));
    assert_eq!(series.rows[1][place(series, "at_ns")], Value::Count(10));
    assert_eq!(series.rows[1][place(series, "calls")], Value::Count(5));
    assert_eq!((jobs.rows.len(), count(&jobs.rows[0][place(jobs, "count")])), (1, 9));
    assert_eq!(count(&workers.rows[0][place(workers, "ops")]), 7);
}

/// Parameters of presets come with unit and source.
#[test]
fn settings_have_their_source() {
    let mut file = sample::bars();
    let text = "name = \"m\"\n[work]\nsyscall = { ns = 67, source = \"[R] a page\" }\n".to_owned();
    file.inputs = vec![results::InputRecord { kind: results::InputKind::Machine, name: "m".into(), text }];
    let grains = of(file);
    let settings = table(&grains, "settings");
    let is = |row: &&Vec<Value>| row[place(settings, "parameter")] == Value::Text("work.syscall".into());
    let row = settings.rows.iter().find(is).expect("the parameter");
    assert_eq!(row[place(settings, "number")], Value::Number(67.0));
    assert_eq!(row[place(settings, "unit")], Value::Text("ns".into()));
    assert_eq!(row[place(settings, "source")], Value::Text("[R] a page".into()));
}

/// A place has the verdict that the page has for it.
#[test]
fn verdicts_are_those_of_the_page() {
    let file = sample::bars();
    let sentences = report::answer::sentences(&file).join(" ");
    let grains = of(file);
    let verdicts = table(&grains, "verdicts");
    assert!(!verdicts.rows.is_empty());
    let winners: std::collections::BTreeSet<_> = verdicts
        .rows
        .iter()
        .filter(|row| row[place(verdicts, "verdict")] == Value::Text("wins".into()))
        .map(
            |row| if let Value::Text(best) = &row[place(verdicts, "best")] { best.clone() } else { panic!() },
        )
        .collect();
    assert!(!winners.is_empty());
    for winner in winners {
        assert!(sentences.contains(&format!("{winner} is fastest")), "{winner}: {sentences}");
    }
}
