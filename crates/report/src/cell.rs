//! Repeats of one cell, aggregated.

use crate::units;
use results::statistics::{self, Comparison, Coverage, Interval};
use results::steady::{self, Steadiness};
use results::{Histogram, OperationRecord, ResultFile, Sample, paired};
use std::collections::BTreeMap;

/// The seed of every bootstrap here: a report is the same bytes for the same results.
pub const BOOTSTRAP_SEED: u64 = 1;

/// All repeats of one cell.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The cell: axis name to value.
    pub axes: &'a BTreeMap<String, String>,
    /// Its number in the order in which cells first ran, from 1.
    pub number: usize,
    /// Its repeats in the order in which they ran.
    pub samples: Vec<&'a Sample>,
}

/// A median and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median of the repeats.
    pub value: f64,
    /// Its 95 % interval, or the range of few repeats; `None` for a single one.
    pub interval: Option<Interval>,
    /// How many repeats.
    pub repeats: usize,
}

/// The cells of `results` in the order in which they first ran.
pub fn cells(results: &ResultFile) -> Vec<Cell<'_>> {
    let mut places: BTreeMap<&BTreeMap<String, String>, usize> = BTreeMap::new();
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for sample in &results.samples {
        let place = *places.entry(&sample.axes).or_insert(cells.len());
        if place == cells.len() {
            cells.push(Cell { axes: &sample.axes, number: place + 1, samples: Vec::new() });
        }
        cells[place].samples.push(sample);
    }
    cells
}

impl<'a> Cell<'a> {
    /// The value of `axis`.
    pub fn axis(&self, axis: &str) -> Option<&'a str> {
        self.axes.get(axis).map(String::as_str)
    }

    /// The throughput of each repeat that was measured.
    pub(crate) fn throughputs(&self) -> Vec<f64> {
        self.measured().map(|sample| sample.throughput_ops_per_s).collect()
    }

    /// The repeats that have numbers.
    pub fn measured(&self) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().copied().filter(|sample| sample.is_measured())
    }

    /// Why a repeat has no numbers.
    pub fn failure(&self) -> Option<&'a str> {
        self.samples.iter().find_map(|sample| sample.failure.as_ref()).map(|failure| failure.what.as_str())
    }

    /// Repeats that have no numbers, and all of them.
    pub fn failures(&self) -> (usize, usize) {
        (self.samples.len() - self.measured().count(), self.samples.len())
    }

    /// Whether it ran on a file system of the host's kernel, which has no medium of ours: in a directory, or on one that was made
    /// for it, which has the name of its model and the real clock.
    pub(crate) fn is_host(&self) -> bool {
        let real = || self.samples.iter().any(|sample| sample.host.is_some());
        self.axis("fs").is_some_and(|fs| fs.starts_with("host:") || (fs.starts_with("linux/") && real()))
    }

    /// Whether its samples know what tasks waited for in the host's kernel.
    pub(crate) fn knows_kernel(&self) -> bool {
        let told =
            |sample: &&Sample| sample.kernel_locks.as_ref().is_some_and(|known| !known.sources.is_empty());
        self.measured().next().is_some_and(|sample| told(&sample))
    }

    /// Whether the host was busy during a repeat.
    pub fn is_noisy(&self) -> bool {
        self.samples.iter().any(|sample| sample.host.as_ref().is_some_and(|host| !host.noise.is_empty()))
    }

    /// Whether an interrupt ended a repeat before its time.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.samples.iter().any(|sample| sample.partial)
    }

    /// Whether the rate was steady, by the series of all repeats together; `Unknown` where they have parts of different lengths.
    pub fn steadiness(&self) -> Steadiness {
        let series: Vec<_> = self.measured().filter_map(|sample| sample.series.as_ref()).collect();
        let Some(step) = series.first().map(|first| first.step_ns) else { return Steadiness::Unknown };
        let parts = series.iter().map(|series| series.ops.len()).min().unwrap_or(0);
        if series.len() != self.measured().count() || series.iter().any(|series| series.step_ns != step) {
            return Steadiness::Unknown;
        }
        let calls = |part: usize| series.iter().map(|series| series.ops[part]).sum();
        steady::of_series(&(0..parts).map(calls).collect::<Vec<u64>>())
    }

    /// Judges this cell against `base`, seed by seed where both ran the same seeds under the virtual clock. Differences below
    /// `threshold` are none.
    pub fn against(&self, base: &Self, threshold: f64) -> Option<Comparison> {
        let of = |cell: &Self| cell.measured().collect::<Vec<_>>();
        paired::against(&of(base), &of(self), threshold, BOOTSTRAP_SEED)
    }

    /// The throughputs of `base` and of this cell by seed, where they ran the same seeds.
    pub(crate) fn pairs_with(&self, base: &Self) -> Option<Vec<(f64, f64)>> {
        paired::by_seed(base.measured(), self.measured())
    }

    /// The latencies of all operations of all repeats.
    pub fn latency_ns(&self) -> Histogram {
        let mut all = Histogram::new();
        self.samples.iter().for_each(|sample| all.merge(&sample.latency_ns()));
        all
    }

    /// The records of each kind of operation, all repeats together, longest total first.
    pub fn operations(&self) -> Vec<OperationRecord> {
        by_kind(self.samples.iter().flat_map(|sample| &sample.operations))
    }

    /// The same of calls alone, without what was done in the background.
    pub fn calls(&self) -> Vec<OperationRecord> {
        by_kind(self.samples.iter().flat_map(|sample| &sample.operations).filter(|one| !one.is_background()))
    }

    /// The same of what the server of a mount did meanwhile; empty where the cell was on none.
    pub fn served(&self) -> Vec<OperationRecord> {
        by_kind(self.samples.iter().flat_map(|sample| &sample.served))
    }

    /// Operations that failed, all repeats together.
    pub fn errors(&self) -> u64 {
        self.samples.iter().map(|sample| sample.errors).sum()
    }
}

/// Records of the same kind together, longest total first.
fn by_kind<'a>(records: impl Iterator<Item = &'a OperationRecord>) -> Vec<OperationRecord> {
    let mut merged: BTreeMap<&str, OperationRecord> = BTreeMap::new();
    for record in records {
        merged.entry(&record.kind).or_insert_with(|| OperationRecord::new(&record.kind)).merge(record);
    }
    let mut together: Vec<_> = merged.into_values().collect();
    together.sort_by_key(|record| std::cmp::Reverse(record.total_ns));
    together
}

impl Estimate {
    /// The median of `values`; `None` when there are none or the median is no finite number.
    pub fn of(values: &[f64]) -> Option<Self> {
        let value = statistics::median(values).filter(|value| value.is_finite())?;
        let interval = statistics::median_interval(values, BOOTSTRAP_SEED);
        Some(Self { value, interval, repeats: values.len() })
    }

    /// The ratio of the medians of `values` and `base`; `None` when it is no finite number.
    pub fn ratio(values: &[f64], base: &[f64]) -> Option<Self> {
        let value = statistics::median(values)? / statistics::median(base)?;
        let interval = statistics::ratio_interval(base, values, BOOTSTRAP_SEED);
        value.is_finite().then_some(Self { value, interval, repeats: values.len().min(base.len()) })
    }

    /// Half the interval, or the range of few repeats, as a part of the median, `1.2 %`; `exact` where all repeats are equal, and
    /// `None` for one repeat.
    pub fn spread(&self) -> Option<String> {
        self.interval.map(|interval| match interval.coverage {
            Coverage::Exact => "exact".to_owned(),
            _ => units::percent(interval.relative_half_width(self.value)),
        })
    }

    /// The upper end of what a chart must show.
    pub fn top(&self) -> f64 {
        self.interval.map_or(self.value, |interval| interval.high.max(self.value))
    }
}

/// Whether two cells differ in the design only. The host's own storage is set against every medium.
pub(crate) fn same_place(a: &Cell<'_>, b: &Cell<'_>, design: &str) -> bool {
    let host = a.is_host() || b.is_host();
    let apart = |name: &str| name == design || (host && name == "medium");
    let covers = |a: &Cell<'_>, b: &Cell<'_>| {
        a.axes.iter().all(|(name, value)| apart(name) || b.axis(name) == Some(value))
    };
    covers(a, b) && covers(b, a)
}

/// The values of each axis in order of first appearance; only axes that vary, or all.
pub(crate) fn varying_axes<'a>(cells: &[Cell<'a>]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut axes = all_axes(cells);
    axes.retain(|_, values| values.len() > 1);
    axes
}

/// The values of each axis in order of first appearance.
pub(crate) fn all_axes<'a>(cells: &[Cell<'a>]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut axes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in cells.iter().flat_map(|cell| cell.axes) {
        let values = axes.entry(name).or_default();
        if !values.contains(&value.as_str()) {
            values.push(value);
        }
    }
    axes
}
