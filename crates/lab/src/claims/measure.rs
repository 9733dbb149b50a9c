//! A claim's number: a ratio of cells, folded over axes.
//!
//! | key | means |
//! |---|---|
//! | `plan` | whose cells |
//! | `top`, `bottom` | a cell: axis to value (below) |
//! | `beyond` | a cell: of both times, what is more than its time counts: (1/top - 1/beyond) / (1/bottom - 1/beyond) |
//! | `over` | axes of both: values, `"*"` for all, `{ from = 4 }` for those from 4 on, or `{ peak = "CLAIM" }` (below) |
//! | `also` | more places, each axis to value, besides those of `over` |
//! | `fold` | what becomes of the values there: `min`, `max`, `mean`, `furthest` (from 1), `geometric`, `sum`, `ratio_of_sums` |
//! | `ends` | places, each axis to values: the number is made at each of them by itself, `over` its axes too |
//! | `across` | what becomes of the numbers of the ends: `mean` (the default), `middle` (the mean of the least and the largest) |
//! | `neighbours` | an axis: value at the next by value at the previous, for all neighbours |
//! | `metric` | `throughput` (the default), or another (below) |
//! | `per` | what each value is divided by: a number, or numbers by values of the axes in `over` |
//! | `less` | what the number is diminished by |
//! | `repeats` | `median` of a cell's repeats (the default), or `each`: the number is made of each repeat, and their mean counts |
//! | `ratios` | in the place of `top` and `bottom`: several of them, `[{ top = {…}, bottom = {…} }, …]` |
//! | `classes`, `distinct`, `peak`, `causes`, `correlations` | in its place: what curves or events come to (`curves.rs`) |
//! | `order` | in the place of a ratio: the share of the values of the axis `each` at which cells stand in an order (below) |
//!
//! `peak` is where that claim's number is largest. Without `bottom` the number is a ratio only by `neighbours`. Of a cell, one axis
//! may have a list; `pick` (`min`, `max`, `mean`) says which of them, by the metric or by that of `by`. A `metric` there wins.
//!
//! A metric is `throughput`, `time` (1 by throughput), `elapsed`, `data_rate` (bytes read and written a second), `latency` (mean
//! time of an operation, without the load generator), `ops`, `read_bytes`, `written_bytes` or `data_bytes` (both), a counter,
//! counters joined by `+`, these for each operation: `per_op.COUNTER`, or the time of all operations of some kinds together:
//! `time_of.read+write`.
//!
//! `order = { each = "workload", axis = "scheme", within = 0.02, pairs = [{ low = ["a"], high = ["b", "c"] }] }`: at a value of
//! `each`, all of `low` are at most the largest of `high`, within that part of it, by the geometric mean over the other axes in
//! `over`.

use std::collections::{BTreeMap, BTreeSet};

use results::statistics::{mean, median};
use results::{ResultFile, Sample};

use document::{Item, Problem, Problems, Table};

use super::curves::Curves;

/// How a number is made of cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measure {
    /// Whose cells.
    pub plan: String,
    metric: Option<String>,
    top: Cells,
    bottom: Option<Cells>,
    ratios: Vec<(Cells, Cells)>,
    beyond: Option<Cells>,
    over: BTreeMap<String, Values>,
    also: Vec<BTreeMap<String, String>>,
    ends: Vec<BTreeMap<String, Values>>,
    across: Across,
    neighbours: Option<String>,
    fold: Fold,
    per: Per,
    less: f64,
    repeats: Repeats,
    order: Option<Order>,
    curves: Option<Curves>,
}

/// Keys of a measure that win over those of another one; all of them if the plan is among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    measure: Measure,
    keys: BTreeSet<&'static str>,
}

/// What becomes of the numbers of the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Across {
    #[default]
    Mean,
    Middle,
}

/// What becomes of the repeats of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Repeats {
    #[default]
    Median,
    Each,
}

/// An order in which cells should stand.
#[derive(Clone, Debug, PartialEq)]
struct Order {
    each: String,
    axis: String,
    within: f64,
    pairs: Vec<(Vec<String>, Vec<String>)>,
}

/// What each value is divided by.
#[derive(Clone, Debug, PartialEq)]
enum Per {
    All(f64),
    /// By the value of some axis.
    By(BTreeMap<String, f64>),
}

impl Default for Per {
    fn default() -> Self {
        Self::All(1.0)
    }
}

impl Per {
    fn read(item: &Item<'_>) -> Result<Self, Problem> {
        let positive = |item: &Item<'_>| match item.float()? {
            number if number > 0.0 => Ok(number),
            _ => Err(item.problem("must be more than 0")),
        };
        if !item.is_table() {
            return positive(item).map(Self::All);
        }
        let read = |table: &Table<'_>| {
            table.take_rest().into_iter().map(|(value, item)| Ok((value, positive(&item)?))).collect()
        };
        item.read(read).map(Self::By)
    }

    /// The divisor at this place.
    fn at(&self, place: &BTreeMap<&str, &str>) -> Result<f64, String> {
        match self {
            Self::All(number) => Ok(*number),
            Self::By(numbers) => {
                let known = place.values().find_map(|value| numbers.get(*value));
                known.copied().ok_or_else(|| format!("no divisor for {}", named(place)))
            }
        }
    }
}

/// Cells that differ in at most one axis, and which of them counts.
#[derive(Clone, Debug, Default, PartialEq)]
struct Cells {
    axes: BTreeMap<String, Vec<String>>,
    pick: Fold,
    /// The metric that picks, where that is not the one that counts.
    by: Option<String>,
    metric: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    All,
    /// Numbers that are at least this.
    From(f64),
    These(Vec<String>),
    /// The value at which the number of the claim of this name is largest.
    Peak(String),
}

/// The measures of a paper's claims, by their names.
pub type Measures<'a> = BTreeMap<&'a str, &'a Measure>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fold {
    #[default]
    Only,
    Min,
    Max,
    Mean,
    Furthest,
    Geometric,
    Sum,
    RatioOfSums,
}

const FOLDS: [(&str, Fold); 7] = [
    ("min", Fold::Min),
    ("max", Fold::Max),
    ("mean", Fold::Mean),
    ("furthest", Fold::Furthest),
    ("geometric", Fold::Geometric),
    ("sum", Fold::Sum),
    ("ratio_of_sums", Fold::RatioOfSums),
];

/// Top and bottom of a ratio.
type Ratio = (f64, f64);

impl Fold {
    /// The one number that many become; an error names what is wrong with them.
    fn of(self, values: &[f64]) -> Result<f64, String> {
        let by = |key: fn(f64) -> f64| values.iter().copied().max_by(|a, b| key(*a).total_cmp(&key(*b)));
        let folded = match self {
            Self::Only if values.len() > 1 => return Err(format!("{} values and no fold", values.len())),
            Self::Only => values.first().copied(),
            Self::Min => by(|value| -value),
            Self::Max => by(|value| value),
            Self::Mean => mean(values),
            Self::Furthest => by(|value| sim::math::ln(value).abs()),
            Self::Geometric => geometric(values),
            Self::Sum | Self::RatioOfSums => (!values.is_empty()).then(|| values.iter().sum()),
        };
        folded.ok_or_else(|| "nothing was measured".to_owned())
    }

    /// The same of ratios.
    fn of_ratios(self, ratios: &[Ratio]) -> Result<f64, String> {
        if self == Self::RatioOfSums {
            let (tops, bottoms): (Vec<f64>, Vec<f64>) = ratios.iter().copied().unzip();
            return Ok(self.of(&tops)? / self.of(&bottoms)?);
        }
        self.of(&ratios.iter().map(|(top, bottom)| top / bottom).collect::<Vec<_>>())
    }
}

fn geometric(values: &[f64]) -> Option<f64> {
    let logs = values.iter().map(|value| sim::math::ln(*value)).sum::<f64>();
    (!values.is_empty()).then(|| sim::math::exp(logs / values.len() as f64))
}

impl Patch {
    pub(crate) fn read(table: &Table<'_>) -> Result<Self, Problem> {
        let (mut all, mut measure, mut keys) = (Problems::default(), Measure::default(), BTreeSet::new());
        let mut get = |key: &'static str| {
            let item = table.get(key)?;
            keys.insert(key);
            Some(item)
        };
        let text = |item: Item<'_>| item.text();
        all.put(&mut measure.plan, get("plan").map(text).transpose());
        let metric = all.take(get("metric").map(text).transpose()).flatten();
        measure.metric = metric.filter(|name| name != THROUGHPUT);
        all.put(&mut measure.top, get("top").map(|item| item.read(cells)).transpose());
        measure.bottom = all.take(get("bottom").map(|item| item.read(cells)).transpose()).flatten();
        all.put(&mut measure.ratios, get("ratios").map(|item| each(&item, ratio)).transpose());
        measure.beyond = all.take(get("beyond").map(|item| item.read(cells)).transpose()).flatten();
        all.put(&mut measure.over, get("over").map(|item| item.read(over)).transpose());
        all.put(&mut measure.also, get("also").map(|item| each(&item, words)).transpose());
        all.put(&mut measure.ends, get("ends").map(|item| each(&item, over)).transpose());
        let across = [("mean", Across::Mean), ("middle", Across::Middle)];
        all.put(&mut measure.across, get("across").map(|item| item.one_of(&across)).transpose());
        measure.neighbours = all.take(get("neighbours").map(text).transpose()).flatten();
        all.put(&mut measure.per, get("per").map(|item| Per::read(&item)).transpose());
        all.put(&mut measure.fold, get("fold").map(|item| item.one_of(&FOLDS)).transpose());
        all.put(&mut measure.less, get("less").map(|item| item.float()).transpose());
        let repeats = [("median", Repeats::Median), ("each", Repeats::Each)];
        all.put(&mut measure.repeats, get("repeats").map(|item| item.one_of(&repeats)).transpose());
        let of_curves = [get("classes"), get("distinct"), get("peak"), get("causes"), get("correlations")];
        measure.curves = all.take(Curves::read(of_curves)).flatten();
        measure.order = all.take(get("order").map(|item| item.read(order)).transpose()).flatten();
        all.take(table.finish());
        all.finish().map(|()| Self { measure, keys })
    }

    /// The plan, if it names one.
    pub(crate) fn plan(&self) -> Option<&str> {
        self.keys.contains("plan").then_some(self.measure.plan.as_str())
    }

    /// Sets its keys in a measure.
    pub(crate) fn apply(&self, to: &mut Measure) {
        let Self { measure: from, keys } = self;
        if keys.contains("plan") {
            return to.clone_from(from);
        }
        for key in keys {
            match *key {
                "metric" => to.metric.clone_from(&from.metric),
                "top" => to.top.clone_from(&from.top),
                "bottom" => to.bottom.clone_from(&from.bottom),
                "ratios" => to.ratios.clone_from(&from.ratios),
                "beyond" => to.beyond.clone_from(&from.beyond),
                "over" => to.over.clone_from(&from.over),
                "also" => to.also.clone_from(&from.also),
                "ends" => to.ends.clone_from(&from.ends),
                "across" => to.across = from.across,
                "neighbours" => to.neighbours.clone_from(&from.neighbours),
                "per" => to.per.clone_from(&from.per),
                "fold" => to.fold = from.fold,
                "less" => to.less = from.less,
                "repeats" => to.repeats = from.repeats,
                "classes" | "distinct" | "peak" | "causes" | "correlations" => {
                    to.curves.clone_from(&from.curves);
                }
                _ => to.order.clone_from(&from.order),
            }
        }
    }
}

impl Measure {
    /// Whether it takes the times of operations, which a result without its histograms does not have.
    pub fn needs_latencies(&self) -> bool {
        self.metric.as_deref() == Some("latency")
    }

    /// Whether the number is made of each repeat by itself.
    pub fn is_of_each_repeat(&self) -> bool {
        self.repeats == Repeats::Each
    }

    pub(crate) fn read(table: &Table<'_>) -> Result<Self, Problem> {
        if ["order", "ratios", "classes", "distinct", "peak", "causes", "correlations"]
            .into_iter()
            .all(|key| table.get(key).is_none())
        {
            table.need("top", "the cell on top")?;
        }
        Self::read_plan(table)
    }

    /// The same of a claim that is not measured: it may name the plan that it belongs to, and no cells.
    pub(crate) fn read_plan(table: &Table<'_>) -> Result<Self, Problem> {
        table.need("plan", "whose cells")?;
        Patch::read(table).map(|patch| patch.measure)
    }

    /// Of a number of cells by their classes: what it is if all cells have the class that gives most, in words.
    pub(crate) fn beside(&self) -> Option<String> {
        let (letter, cells) = self.curves.as_ref()?.constant()?;
        Some(format!("{cells} with the class {letter} for every cell, which says nothing of any"))
    }

    /// The number in these results, or why there is none. `others` are the claims where a peak may be.
    pub fn value(&self, results: &ResultFile, others: &Measures<'_>) -> Result<f64, String> {
        let values = self.values(results, others)?;
        mean(&values).ok_or_else(|| "nothing was measured".to_owned())
    }

    /// The number of each repeat, where it is made of each by itself; else the one number.
    pub fn values(&self, results: &ResultFile, others: &Measures<'_>) -> Result<Vec<f64>, String> {
        if self.repeats == Repeats::Median {
            return Ok(vec![self.of(&Cut { results, repeat: None }, others)?]);
        }
        let repeats: BTreeSet<u32> = results.samples.iter().map(|sample| sample.repeat).collect();
        repeats.into_iter().map(|repeat| self.of(&Cut { results, repeat: Some(repeat) }, others)).collect()
    }

    /// The number of each repeat by itself, where there are several; nothing where one has none.
    pub(crate) fn by_repeat(&self, results: &ResultFile, others: &Measures<'_>) -> Vec<f64> {
        let repeats: BTreeSet<u32> = results.samples.iter().map(|sample| sample.repeat).collect();
        if repeats.len() < 2 {
            return Vec::new();
        }
        let of =
            |repeat| self.of(&Cut { results, repeat: Some(repeat) }, others).ok().filter(|of| of.is_finite());
        repeats.into_iter().map(of).collect::<Option<_>>().unwrap_or_default()
    }

    fn of(&self, results: &Cut<'_>, others: &Measures<'_>) -> Result<f64, String> {
        if let Some(curves) = &self.curves {
            return results.repeated(|results| curves.value(results));
        }
        if let Some(order) = &self.order {
            return order.share(&self.over, results);
        }
        let at = |end: &BTreeMap<String, Values>| {
            let mut over = self.over.clone();
            over.extend(end.clone());
            self.folded(&over, results, others)
        };
        if self.ends.is_empty() {
            return Ok(at(&BTreeMap::new())? - self.less);
        }
        let ends = self.ends.iter().map(at).collect::<Result<Vec<_>, _>>()?;
        let across = match self.across {
            Across::Mean => Fold::Mean.of(&ends),
            Across::Middle => Fold::Mean.of(&[Fold::Min.of(&ends)?, Fold::Max.of(&ends)?]),
        };
        Ok(across? - self.less)
    }

    /// The number over these axes.
    fn folded(
        &self,
        over: &BTreeMap<String, Values>,
        results: &Cut<'_>,
        others: &Measures<'_>,
    ) -> Result<f64, String> {
        let mut values = Vec::new();
        let mut places = self.places(over, results, others)?;
        let also =
            self.also.iter().map(|place| place.iter().map(|(axis, v)| (axis.as_str(), v.as_str())).collect());
        places.extend(also);
        for place in places {
            for (top, bottom) in &self.ratios {
                let value = |cells: &Cells| cells.value(results, &place, self.metric.as_deref());
                values.push((value(top)? / self.per.at(&place)?, value(bottom)?));
            }
            match &self.neighbours {
                None if !self.ratios.is_empty() => {}
                None => values.push(self.at(results, &place)?),
                Some(axis) => values.extend(self.steps(results, &place, axis)?),
            }
        }
        self.fold.of_ratios(&values)
    }

    /// Every combination of these axes.
    fn places<'a>(
        &'a self,
        over: &'a BTreeMap<String, Values>,
        results: &Cut<'a>,
        others: &Measures<'a>,
    ) -> Result<Vec<Place<'a>>, String> {
        let mut places = vec![BTreeMap::new()];
        for (axis, values) in over {
            let values: Vec<&str> = match values {
                Values::All => results.results.axis_values(axis),
                Values::From(least) => {
                    let mut values = results.results.axis_values(axis);
                    values.retain(|value| value.parse().is_ok_and(|value: f64| value >= *least));
                    values
                }
                Values::These(values) => values.iter().map(String::as_str).collect(),
                Values::Peak(claim) => vec![self.peak(results, axis, claim, others)?],
            };
            places = places.iter().flat_map(|place| values.iter().map(|v| with(place, axis, v))).collect();
        }
        Ok(places)
    }

    /// The value of `axis` at which the number of another claim is largest.
    fn peak<'a>(
        &self,
        results: &Cut<'a>,
        axis: &str,
        claim: &str,
        others: &Measures<'a>,
    ) -> Result<&'a str, String> {
        let Some(other) = others.get(claim).filter(|other| other.plan == self.plan) else {
            return Err(format!("no claim {claim} of plan {} says where it peaks", self.plan));
        };
        if other.over.values().any(|values| matches!(values, Values::Peak(_))) {
            return Err(format!("claim {claim} takes its own place from a peak"));
        }
        let mut best: Option<(f64, &str)> = None;
        for place in other.places(&other.over, results, &Measures::new())? {
            let Some(at) = place.get(axis).copied() else {
                return Err(format!("claim {claim} does not vary {axis}, so it has no peak there"));
            };
            let (top, bottom) = other.at(results, &place)?;
            let value = top / bottom;
            if best.is_none_or(|(most, _)| value > most) {
                best = Some((value, at));
            }
        }
        best.map(|(_, at)| at).ok_or_else(|| "nothing was measured".to_owned())
    }

    /// Next by previous along `axis`.
    fn steps(&self, results: &Cut<'_>, place: &Place<'_>, axis: &str) -> Result<Vec<Ratio>, String> {
        let values = results.results.axis_values(axis);
        let value = |(top, bottom): Ratio| top / bottom;
        let along = values.iter().map(|v| self.at(results, &with(place, axis, v)).map(value));
        let along = along.collect::<Result<Vec<_>, _>>()?;
        Ok(along.windows(2).map(|pair| (pair[1], pair[0])).collect())
    }

    /// Top and bottom at one place.
    fn at(&self, results: &Cut<'_>, place: &Place<'_>) -> Result<Ratio, String> {
        let value = |cells: &Cells| cells.value(results, place, self.metric.as_deref());
        let top = value(&self.top)? / self.per.at(place)?;
        let Some(bottom) = &self.bottom else { return Ok((top, 1.0)) };
        let bottom = value(bottom)?;
        let Some(beyond) = &self.beyond else { return Ok((top, bottom)) };
        let beyond = value(beyond)?;
        Ok((1.0 / top - 1.0 / beyond, 1.0 / bottom - 1.0 / beyond))
    }
}

impl Order {
    /// The share of the values of `each` at which the order holds.
    fn share(&self, over: &BTreeMap<String, Values>, results: &Cut<'_>) -> Result<f64, String> {
        let measure = Measure { over: over.clone(), ..Measure::default() };
        let mut groups: BTreeMap<&str, Vec<Place<'_>>> = BTreeMap::new();
        for place in measure.places(&measure.over, results, &Measures::new())? {
            let Some(value) = place.get(self.each.as_str()).copied() else {
                return Err(format!(
                    "the order is asked for each {}, which \"over\" does not have",
                    self.each
                ));
            };
            groups.entry(value).or_default().push(place);
        }
        let held =
            groups.values().map(|places| self.holds(places, results)).collect::<Result<Vec<_>, _>>()?;
        Ok(held.iter().filter(|holds| **holds).count() as f64 / held.len().max(1) as f64)
    }

    fn holds(&self, places: &[Place<'_>], results: &Cut<'_>) -> Result<bool, String> {
        let mean = |value: &String| {
            let rates = places.iter().map(|place| one(results, &with(place, &self.axis, value), None));
            Fold::Geometric.of(&rates.collect::<Result<Vec<_>, _>>()?)
        };
        let means = |values: &[String]| values.iter().map(mean).collect::<Result<Vec<f64>, String>>();
        for (low, high) in &self.pairs {
            let most = Fold::Max.of(&means(high)?)? * (1.0 + self.within);
            if means(low)?.iter().any(|low| *low > most) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Values of axes.
type Place<'a> = BTreeMap<&'a str, &'a str>;

/// Results, or one repeat of them.
struct Cut<'a> {
    results: &'a ResultFile,
    repeat: Option<u32>,
}

impl Cut<'_> {
    /// A number of whole results, of one repeat where this is one.
    fn repeated(&self, value: impl FnOnce(&ResultFile) -> Result<f64, String>) -> Result<f64, String> {
        let Some(repeat) = self.repeat else { return value(self.results) };
        let mut results = self.results.clone();
        results.samples.retain(|sample| sample.repeat == repeat);
        value(&results)
    }
}

fn with<'a>(place: &BTreeMap<&'a str, &'a str>, axis: &'a str, value: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut place = place.clone();
    place.insert(axis, value);
    place
}

impl Cells {
    fn value(&self, results: &Cut<'_>, place: &Place<'_>, metric: Option<&str>) -> Result<f64, String> {
        let metric = self.metric.as_deref().or(metric).filter(|name| *name != THROUGHPUT);
        let mut cells: Vec<Place<'_>> = vec![place.clone()];
        for (axis, values) in &self.axes {
            cells =
                cells.iter().flat_map(|cell| values.iter().map(|value| with(cell, axis, value))).collect();
        }
        let values = |metric: Option<&str>| {
            cells.iter().map(|cell| one(results, cell, metric)).collect::<Result<Vec<_>, _>>()
        };
        let Some(by) = self.by.as_deref() else { return self.pick.of(&values(metric)?) };
        let by = values(Some(by).filter(|name| *name != THROUGHPUT))?;
        let picked = self.pick.of(&by)?;
        let at = by.iter().position(|value| value.total_cmp(&picked).is_eq());
        let cell =
            at.map(|at| &cells[at]).ok_or("a mean is no cell: pick the least or the largest by a metric")?;
        one(results, cell, metric)
    }
}

/// Before the kinds of operations whose time is a metric.
const TIME_OF: &str = "time_of.";
/// The usual metric.
const THROUGHPUT: &str = "throughput";

/// One cell's number: of one repeat, or the median over all.
fn one(cut: &Cut<'_>, cell: &Place<'_>, metric: Option<&str>) -> Result<f64, String> {
    let wanted = |sample: &&Sample| {
        cut.repeat.is_none_or(|repeat| sample.repeat == repeat)
            && cell.iter().all(|(axis, v)| is(sample, axis, v))
    };
    let chosen: Vec<&Sample> = cut.results.samples.iter().filter(wanted).collect();
    let describe = || named(cell);
    let Some(first) = chosen.first() else { return Err(format!("no cell with {}", describe())) };
    if chosen.iter().any(|sample| sample.axes != first.axes) {
        return Err(format!("more than one cell with {}", describe()));
    }
    if let Some(failure) = chosen.iter().find_map(|sample| sample.failure.as_ref()) {
        return Err(format!("the run with {} failed: {}", describe(), failure.what));
    }
    if chosen.iter().any(|sample| sample.partial) {
        return Err(format!("the run with {} was cut short", describe()));
    }
    let numbers = chosen.iter().map(|sample| number(sample, metric)).collect::<Option<Vec<_>>>();
    numbers.and_then(|numbers| median(&numbers)).ok_or_else(|| format!("no such counter with {}", describe()))
}

fn number(sample: &Sample, metric: Option<&str>) -> Option<f64> {
    let counters = |names: &str| {
        let counts = names.split('+').map(|name| sample.counters.get(name).copied());
        Some(counts.sum::<Option<u64>>()? as f64)
    };
    match metric {
        None => Some(sample.throughput_ops_per_s),
        Some("time") => Some(1.0 / sample.throughput_ops_per_s),
        Some("elapsed") => Some(sample.elapsed_ns as f64),
        Some("data_rate") => {
            Some(results::record::throughput(sample.read_bytes + sample.written_bytes, sample.elapsed_ns))
        }
        Some("ops") => Some(sample.ops as f64),
        Some("read_bytes") => Some(sample.read_bytes as f64),
        Some("written_bytes") => Some(sample.written_bytes as f64),
        Some("data_bytes") => Some((sample.read_bytes + sample.written_bytes) as f64),
        Some("latency") => Some(sample.latency_ns().mean_ns()).filter(|mean| *mean > 0.0),
        Some(name) if name.starts_with(TIME_OF) => {
            let kinds: Vec<&str> = name[TIME_OF.len()..].split('+').collect();
            let of = sample.operations.iter().filter(|one| kinds.contains(&one.kind.as_str()));
            Some(of.map(|one| one.total_ns).sum::<u64>() as f64).filter(|ns| *ns > 0.0)
        }
        Some(name) => match name.strip_prefix("per_op.") {
            Some(names) => Some(counters(names)? / sample.ops.max(1) as f64),
            None => counters(name),
        },
    }
}

/// A cell in words.
fn named(cell: &BTreeMap<&str, &str>) -> String {
    cell.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

/// Whether the sample has this value; the leading folder of a workload may be left out.
fn is(sample: &Sample, axis: &str, value: &str) -> bool {
    sample.axis(axis).is_some_and(|has| has == value || has.rsplit('/').next() == Some(value))
}

fn cells(table: &Table<'_>) -> Result<Cells, Problem> {
    let pick = table.get("pick").map_or(Ok(Fold::Only), |item| item.one_of(&FOLDS[..3]))?;
    let by = table.get("by").map(|item| item.text()).transpose()?;
    let metric = table.get("metric").map(|item| item.text()).transpose()?;
    let axes = table.take_rest().into_iter().map(|(axis, item)| Ok((axis, item.words()?)));
    Ok(Cells { axes: axes.collect::<Result<_, Problem>>()?, pick, by, metric })
}

/// Each table of a list.
fn each<T>(item: &Item<'_>, read: impl Fn(&Table<'_>) -> Result<T, Problem>) -> Result<Vec<T>, Problem> {
    Problems::each(item.items()?.iter().map(|item| item.read(&read)))
}

fn words(table: &Table<'_>) -> Result<BTreeMap<String, String>, Problem> {
    table.take_rest().into_iter().map(|(axis, item)| Ok((axis, item.word()?))).collect()
}

fn order(table: &Table<'_>) -> Result<Order, Problem> {
    let pair = |table: &Table<'_>| {
        Ok((
            table.need("low", "what is at most the others")?.words()?,
            table.need("high", "the others")?.words()?,
        ))
    };
    Ok(Order {
        each: table.need("each", "the axis of which a share is asked")?.text()?,
        axis: table.need("axis", "the axis of the cells that are compared")?.text()?,
        within: table.get("within").map_or(Ok(0.0), |item| item.float())?,
        pairs: each(&table.need("pairs", "what is at most what")?, pair)?,
    })
}

fn ratio(table: &Table<'_>) -> Result<(Cells, Cells), Problem> {
    let top = table.need("top", "the cell on top")?.read(cells)?;
    Ok((top, table.need("bottom", "the cell below")?.read(cells)?))
}

/// Values that a table says.
fn some(table: &Table<'_>) -> Result<Values, Problem> {
    match table.get("from") {
        Some(from) => from.float().map(Values::From),
        None => table.need("peak", "the claim whose largest number says where")?.text().map(Values::Peak),
    }
}

fn over(table: &Table<'_>) -> Result<BTreeMap<String, Values>, Problem> {
    let axes = table.take_rest().into_iter().map(|(axis, item)| {
        if item.is_table() {
            return Ok((axis, item.read(some)?));
        }
        let values = item.words()?;
        Ok((axis, if values == ["*"] { Values::All } else { Values::These(values) }))
    });
    axes.collect()
}

#[cfg(test)]
mod tests;
