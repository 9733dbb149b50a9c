//! The numbers of results as tidy tables, for data frames: one table for each grain, a variable in each column, an observation in
//! each row. Sums over a table do not double, since no row is the total of others.
//!
//! | table | a row is |
//! |---|---|
//! | `samples` | a cell that ran once |
//! | `operations` | an operation of the workload (a line of its script) in a sample |
//! | `calls` | a kind of file-system call in a sample |
//! | `times` | a part of the time of a kind of call |
//! | `counters` | a counter of a sample, by its finest parts |
//! | `events` | an event of processors that was asked for in a sample, with the reason where it has no counter |
//! | `workers`, `jobs` | a worker, a direction of one of fio's jobs, in a sample |
//! | `series` | a stretch of the measured time of a sample |
//! | `histograms` | latencies between two bounds, with their number |
//! | `verdicts` | a point of a plan at which designs are compared: which is fastest, or why no winner is named |
//! | `settings` | a parameter of the plan, the machine or a medium, with its source |
//! | `columns` | a column of these tables, with type, unit and meaning |
//!
//! Every table but the last three begins with the sample's number, its plan, its axes and its repeat. An axis whose values are all
//! quantities is a number: bytes, nanoseconds, or as it was written. What does not exist is an empty cell.

mod calls;
mod columns;
mod samples;
mod settings;
mod verdicts;

use std::collections::BTreeMap;

use results::{ResultFile, Sample};

use crate::Report;
use crate::axis;
pub(crate) use calls::finest;

/// The value of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// There is none.
    Empty,
    /// A name or a sentence.
    Text(String),
    /// A whole number that is not negative.
    Count(u64),
    /// Any other number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// [`Value::Text`].
    Text,
    /// [`Value::Count`].
    Count,
    /// [`Value::Number`].
    Number,
    /// [`Value::Flag`].
    Flag,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, the same in every table that has it.
    pub name: String,
    /// The type of its cells.
    pub of: Type,
    /// The unit of its numbers; empty for those that have none.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// A table of one grain.
#[derive(Clone, Debug, PartialEq)]
pub struct Grain {
    /// Its name: `samples`.
    pub name: &'static str,
    /// What a row is.
    pub row: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, as long as there are columns.
    pub rows: Vec<Vec<Value>>,
}

/// The tables of `report`, those without rows among them.
pub fn of(report: &Report) -> Vec<Grain> {
    let results: Vec<&ResultFile> = report.sections.iter().map(|section| &section.results).collect();
    let keys = Keys::new(&results);
    let mut grains = vec![samples::samples(&keys)];
    grains.extend(calls::all(&keys));
    grains.extend([samples::counters(&keys), samples::workers(&keys), samples::jobs(&keys)]);
    grains.push(samples::events(&keys));
    grains.extend([
        samples::series(&keys),
        verdicts::verdicts(&keys, &results),
        settings::settings(&results),
    ]);
    let reference = columns::reference(&grains);
    grains.push(reference);
    grains
}

/// The table of samples alone.
pub fn samples(report: &Report) -> Grain {
    let results: Vec<&ResultFile> = report.sections.iter().map(|section| &section.results).collect();
    samples::samples(&Keys::new(&results))
}

/// The rows of `settings` that come from presets of `results`.
pub(crate) fn of_presets(results: &ResultFile) -> Vec<Vec<Value>> {
    results.inputs.iter().flat_map(settings::preset).collect()
}

impl Grain {
    fn new(name: &'static str, row: &'static str, columns: Vec<Column>) -> Self {
        Self { name, row, columns, rows: Vec::new() }
    }

    /// The table as CSV, with names of columns in its first line.
    pub fn csv(&self) -> Vec<u8> {
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        writer
            .write_record(self.columns.iter().map(|column| &column.name))
            .expect("a vector takes every byte");
        for row in &self.rows {
            writer.write_record(row.iter().map(text)).expect("a vector takes every byte");
        }
        writer.into_inner().expect("a vector takes every byte")
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Empty => String::new(),
        Value::Text(text) => text.clone(),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}

/// What every row of a sample begins with.
struct Keys<'r> {
    samples: Vec<(&'r ResultFile, &'r Sample)>,
    /// Each axis, and whether all of its values are quantities.
    axes: BTreeMap<&'r str, bool>,
}

impl<'r> Keys<'r> {
    fn new(results: &[&'r ResultFile]) -> Self {
        let samples: Vec<_> = results
            .iter()
            .flat_map(|result| result.samples.iter().map(move |sample| (*result, sample)))
            .collect();
        let mut axes = BTreeMap::new();
        for (name, value) in samples.iter().flat_map(|(_, sample)| &sample.axes) {
            *axes.entry(name.as_str()).or_insert(true) &= axis::quantity(value).is_some();
        }
        Self { samples, axes }
    }

    /// The columns of the keys, then `more`.
    fn columns(&self, more: Vec<Column>) -> Vec<Column> {
        let mut columns = columns::named(&["sample", "plan"]);
        columns.extend(self.axis_columns());
        columns.extend(columns::named(&["repeat", "seed"]));
        columns.extend(more);
        columns
    }

    fn axis_columns(&self) -> impl Iterator<Item = Column> {
        self.axes.iter().map(|(name, quantity)| Column {
            name: format!("axis.{name}"),
            of: if *quantity { Type::Number } else { Type::Text },
            unit: if *quantity { "bytes, ns, or as written" } else { "" },
            meaning: "value of the axis in this cell",
        })
    }

    /// The cells of the axes.
    fn axis_values(&self, axes: &BTreeMap<String, String>) -> impl Iterator<Item = Value> {
        self.axes.iter().map(|(name, quantity)| match axes.get(*name) {
            None => Value::Empty,
            Some(value) if *quantity => axis::quantity(value).map_or(Value::Empty, Value::Number),
            Some(value) => Value::Text(value.clone()),
        })
    }

    /// The keys of each sample, with it.
    fn rows(&self) -> impl Iterator<Item = (Vec<Value>, &'r ResultFile, &'r Sample)> {
        self.samples.iter().enumerate().map(|(number, (result, sample))| {
            let mut row = vec![Value::Count(number as u64), Value::Text(result.name.clone())];
            row.extend(self.axis_values(&sample.axes));
            row.extend([Value::Count(sample.repeat.into()), Value::Count(sample.seed)]);
            (row, *result, *sample)
        })
    }

    /// A table with the rows that `of` makes of each sample; each row follows the sample's keys.
    fn grain(
        &self,
        name: &'static str,
        row: &'static str,
        columns: &[&str],
        of: impl Fn(&ResultFile, &Sample) -> Vec<Vec<Value>>,
    ) -> Grain {
        let mut grain = Grain::new(name, row, self.columns(columns::named(columns)));
        for (keys, result, sample) in self.rows() {
            let rows = of(result, sample);
            grain.rows.extend(rows.into_iter().map(|row| [keys.clone(), row].concat()));
        }
        grain
    }
}
