//! A claim's number: a ratio of cells, folded over axes.
//!
//! | key | means |
//! |---|---|
//! | `plan` | whose cells |
//! | `top`, `bottom` | a cell: axis to value. One axis may have a list; `pick` (`min`, `max`, `mean`) says which of them |
//! | `beyond` | a cell: of both times, what is more than its time counts: (1/top - 1/beyond) / (1/bottom - 1/beyond) |
//! | `over` | axes that vary in both: values, `"*"` for all, or `{ peak = "CLAIM" }`: where that claim's number is largest |
//! | `fold` | what becomes of the values over those axes: `min`, `max`, `mean`, `furthest` (from 1) |
//! | `neighbours` | an axis: value at the next by value at the previous, for all neighbours |
//! | `metric` | `throughput` (the default), `latency` (mean time of an operation, without the load generator), or a counter |
//! | `per` | what each value is divided by: a number, or numbers by values of the axes in `over` |
//!
//! Without `bottom` the number is a ratio only by `neighbours`.

use std::collections::BTreeMap;

use results::statistics::{mean, median};
use results::{ResultFile, Sample};

use document::{Item, Problem, Table};

/// How a number is made of cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// Whose cells.
    pub plan: String,
    metric: Option<String>,
    top: Cells,
    bottom: Option<Cells>,
    beyond: Option<Cells>,
    over: BTreeMap<String, Values>,
    neighbours: Option<String>,
    fold: Fold,
    per: Per,
}

/// What each value is divided by.
#[derive(Clone, Debug, PartialEq)]
enum Per {
    All(f64),
    /// By the value of some axis.
    By(BTreeMap<String, f64>),
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
#[derive(Clone, Debug, PartialEq)]
struct Cells {
    axes: BTreeMap<String, Vec<String>>,
    pick: Fold,
}

#[derive(Clone, Debug, PartialEq)]
enum Values {
    All,
    These(Vec<String>),
    /// The value at which the number of the claim of this name is largest.
    Peak(String),
}

/// The measures of a paper's claims, by their names.
pub type Measures<'a> = BTreeMap<&'a str, &'a Measure>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fold {
    Only,
    Min,
    Max,
    Mean,
    Furthest,
}

const FOLDS: [(&str, Fold); 4] =
    [("min", Fold::Min), ("max", Fold::Max), ("mean", Fold::Mean), ("furthest", Fold::Furthest)];

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
        };
        folded.ok_or_else(|| "nothing was measured".to_owned())
    }
}

impl Measure {
    /// Whether it takes the times of operations, which a result without its histograms does not have.
    pub fn needs_latencies(&self) -> bool {
        self.metric.as_deref() == Some("latency")
    }

    pub(crate) fn read(table: &Table<'_>) -> Result<Self, Problem> {
        let over = table.get("over").map(|item| item.read(over)).transpose()?.unwrap_or_default();
        Ok(Self {
            plan: table.need("plan", "whose cells")?.text()?,
            metric: table
                .get("metric")
                .map(|item| item.text())
                .transpose()?
                .filter(|name| name != "throughput"),
            top: table.need("top", "the cell on top")?.read(cells)?,
            bottom: table.get("bottom").map(|item| item.read(cells)).transpose()?,
            beyond: table.get("beyond").map(|item| item.read(cells)).transpose()?,
            neighbours: table.get("neighbours").map(|item| item.text()).transpose()?,
            per: table.get("per").map_or(Ok(Per::All(1.0)), |item| Per::read(&item))?,
            fold: table.get("fold").map_or(Ok(Fold::Only), |item| item.one_of(&FOLDS))?,
            over,
        })
    }

    /// The number in these results, or why there is none. `others` are the claims where a peak may be.
    pub fn value(&self, results: &ResultFile, others: &Measures<'_>) -> Result<f64, String> {
        let mut values = Vec::new();
        for place in self.places(results, others)? {
            match &self.neighbours {
                None => values.push(self.at(results, &place)?),
                Some(axis) => values.extend(self.steps(results, &place, axis)?),
            }
        }
        self.fold.of(&values)
    }

    /// Every combination of the axes in `over`.
    fn places<'a>(
        &'a self,
        results: &'a ResultFile,
        others: &Measures<'a>,
    ) -> Result<Vec<BTreeMap<&'a str, &'a str>>, String> {
        let mut places = vec![BTreeMap::new()];
        for (axis, values) in &self.over {
            let values: Vec<&str> = match values {
                Values::All => results.axis_values(axis),
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
        results: &'a ResultFile,
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
        for place in other.places(results, &Measures::new())? {
            let Some(at) = place.get(axis).copied() else {
                return Err(format!("claim {claim} does not vary {axis}, so it has no peak there"));
            };
            let value = other.at(results, &place)?;
            if best.is_none_or(|(most, _)| value > most) {
                best = Some((value, at));
            }
        }
        best.map(|(_, at)| at).ok_or_else(|| "nothing was measured".to_owned())
    }

    /// Next by previous along `axis`.
    fn steps(
        &self,
        results: &ResultFile,
        place: &BTreeMap<&str, &str>,
        axis: &str,
    ) -> Result<Vec<f64>, String> {
        let values = results.axis_values(axis);
        let along = values.iter().map(|value| self.at(results, &with(place, axis, value)));
        let along = along.collect::<Result<Vec<_>, _>>()?;
        Ok(along.windows(2).map(|pair| pair[1] / pair[0]).collect())
    }

    /// Top by bottom at one place.
    fn at(&self, results: &ResultFile, place: &BTreeMap<&str, &str>) -> Result<f64, String> {
        let value = |cells: &Cells| cells.value(results, place, self.metric.as_deref());
        let top = value(&self.top)? / self.per.at(place)?;
        let Some(bottom) = &self.bottom else { return Ok(top) };
        let bottom = value(bottom)?;
        let Some(beyond) = &self.beyond else { return Ok(top / bottom) };
        let beyond = value(beyond)?;
        Ok((1.0 / top - 1.0 / beyond) / (1.0 / bottom - 1.0 / beyond))
    }
}

fn with<'a>(place: &BTreeMap<&'a str, &'a str>, axis: &'a str, value: &'a str) -> BTreeMap<&'a str, &'a str> {
    let mut place = place.clone();
    place.insert(axis, value);
    place
}

impl Cells {
    fn value(
        &self,
        results: &ResultFile,
        place: &BTreeMap<&str, &str>,
        metric: Option<&str>,
    ) -> Result<f64, String> {
        let mut cells: Vec<BTreeMap<&str, &str>> = vec![place.clone()];
        for (axis, values) in &self.axes {
            cells =
                cells.iter().flat_map(|cell| values.iter().map(|value| with(cell, axis, value))).collect();
        }
        let values = cells.iter().map(|cell| one(results, cell, metric)).collect::<Result<Vec<_>, _>>()?;
        self.pick.of(&values)
    }
}

/// The median over the repeats of one cell.
fn one(results: &ResultFile, cell: &BTreeMap<&str, &str>, metric: Option<&str>) -> Result<f64, String> {
    let chosen: Vec<&Sample> =
        results.samples.iter().filter(|sample| cell.iter().all(|(axis, v)| is(sample, axis, v))).collect();
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
    let number = |sample: &&Sample| match metric {
        None => Some(sample.throughput_ops_per_s),
        Some("latency") => Some(sample.latency_ns().mean_ns()).filter(|mean| *mean > 0.0),
        Some(counter) => sample.counters.get(counter).map(|count| *count as f64),
    };
    let numbers = chosen.iter().map(number).collect::<Option<Vec<_>>>();
    numbers.and_then(|numbers| median(&numbers)).ok_or_else(|| format!("no such counter with {}", describe()))
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
    let axes = table.take_rest().into_iter().map(|(axis, item)| Ok((axis, item.words()?)));
    Ok(Cells { axes: axes.collect::<Result<_, Problem>>()?, pick })
}

fn over(table: &Table<'_>) -> Result<BTreeMap<String, Values>, Problem> {
    let axes = table.take_rest().into_iter().map(|(axis, item)| {
        if item.is_table() {
            let peak =
                item.read(|table| table.need("peak", "the claim whose largest number says where")?.text())?;
            return Ok((axis, Values::Peak(peak)));
        }
        let values = item.words()?;
        Ok((axis, if values == ["*"] { Values::All } else { Values::These(values) }))
    });
    axes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::Clock;

    /// hinfs 20, 24, 12 and pmfs 10, 20, 10 operations a second at 1, 2 and 8 threads.
    fn results() -> ResultFile {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        for (fs, rates) in [("hinfs", [20.0, 24.0, 12.0]), ("pmfs", [10.0, 20.0, 10.0])] {
            for (threads, rate) in ["1", "2", "8"].into_iter().zip(rates) {
                let axes = [("fs", fs), ("threads", threads), ("workload", "suite/varmail")];
                let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
                let mut sample = Sample::new(axes.into(), 0, 1);
                sample.throughput_ops_per_s = rate;
                sample.counters.insert("lines".to_owned(), rate as u64 * 2);
                file.samples.push(sample);
            }
        }
        file
    }

    fn value(measure: &str) -> Result<f64, String> {
        let text = format!("measure = {{ plan = \"p\", {measure} }}");
        let measure =
            document::read("t", &text, |root| root.need("measure", "")?.read(Measure::read)).unwrap();
        measure.value(&results(), &Measures::new())
    }

    const GAIN: &str = "top = { fs = \"hinfs\" }, bottom = { fs = \"pmfs\" }";

    fn close(measure: &str, want: f64) {
        let got = value(measure).unwrap();
        assert!((got - want).abs() < 1e-9, "{measure}: {got}");
    }

    #[test]
    fn a_ratio_of_two_cells() {
        close(&format!("{GAIN}, over = {{ threads = 8 }}"), 1.2);
        close("top = { fs = \"hinfs\", threads = 8 }, bottom = { fs = \"hinfs\", threads = 2 }", 0.5);
        close(&format!("{GAIN}, over = {{ threads = 8, workload = \"varmail\" }}"), 1.2);
    }

    #[test]
    fn a_divisor_is_one_number_or_one_for_each_place() {
        close(&format!("{GAIN}, over = {{ threads = 8 }}, per = 8"), 0.15);
        let by = "over = { threads = [1, 8] }, per = { 1 = 10, 8 = 4 }, fold = \"max\"";
        close(&format!("top = {{ fs = \"hinfs\" }}, {by}"), 3.0);
        assert!(
            value(&format!("{GAIN}, over = {{ threads = 8 }}, per = {{ 1 = 10 }}"))
                .unwrap_err()
                .contains("threads 8")
        );
    }

    #[test]
    fn folds_over_an_axis() {
        close(&format!("{GAIN}, over = {{ threads = \"*\" }}, fold = \"min\""), 1.2);
        close(&format!("{GAIN}, over = {{ threads = [1, 2] }}, fold = \"max\""), 2.0);
        close(&format!("{GAIN}, over = {{ threads = \"*\" }}, fold = \"furthest\""), 2.0);
        close(&format!("{GAIN}, over = {{ threads = [1, 8] }}, fold = \"mean\""), 1.6);
    }

    #[test]
    fn neighbours_compare_next_by_previous() {
        close("top = { fs = \"hinfs\" }, neighbours = \"threads\", fold = \"min\"", 0.5);
        close(&format!("{GAIN}, neighbours = \"threads\", fold = \"max\""), 1.0);
    }

    #[test]
    fn the_better_or_worse_of_several_cells() {
        let best = "bottom = { fs = [\"pmfs\", \"hinfs\"], pick = \"max\" }";
        close(&format!("top = {{ fs = \"pmfs\" }}, {best}, over = {{ threads = 1 }}"), 0.5);
    }

    #[test]
    fn times_beyond_that_of_a_cell_are_compared() {
        // 1/10 and 1/12 beyond 1/20.
        let measure = "top = { fs = \"hinfs\", threads = 8 }, bottom = { fs = \"pmfs\", threads = 8 }, \
                       beyond = { fs = \"hinfs\", threads = 1 }";
        close(measure, (1.0 / 12.0 - 1.0 / 20.0) / (1.0 / 10.0 - 1.0 / 20.0));
    }

    /// hinfs by pmfs is 1.0, 1.2, 1.2 by threads; the first of the largest counts.
    #[test]
    fn a_number_is_taken_where_that_of_another_claim_is_largest() {
        let read = |text: &str| {
            document::read("t", text, |root| root.need("measure", "")?.read(Measure::read)).unwrap()
        };
        let other = format!(
            "measure = {{ plan = \"p\", {}, over = {{ threads = \"*\" }}, fold = \"max\" }}",
            GAIN.replace("hinfs", "x").replace("pmfs", "hinfs").replace("\"x\"", "\"pmfs\"")
        );
        let other = read(&other);
        let mine = read(
            "measure = { plan = \"p\", top = { fs = \"pmfs\" }, over = { threads = { peak = \"a.gain\" } } }",
        );
        // pmfs by hinfs is 0.5, 0.83, 0.83: at two threads pmfs does 20.
        let others: Measures<'_> = [("a.gain", &other)].into();
        assert_eq!(mine.value(&results(), &others), Ok(20.0));
        assert!(mine.value(&results(), &Measures::new()).unwrap_err().contains("a.gain"));
    }

    #[test]
    fn latencies_count_as_means_of_operations() {
        let mut file = results();
        for sample in &mut file.samples {
            let mut write = results::OperationRecord::new("write");
            write.latency_ns.record(if sample.axis("fs") == Some("hinfs") { 100 } else { 300 });
            sample.operations.push(write);
        }
        let text =
            format!("measure = {{ plan = \"p\", {GAIN}, over = {{ threads = 8 }}, metric = \"latency\" }}");
        let measure =
            document::read("t", &text, |root| root.need("measure", "")?.read(Measure::read)).unwrap();
        let value = measure.value(&file, &Measures::new()).unwrap();
        assert!((value - 1.0 / 3.0).abs() < 0.01, "{value}");
    }

    #[test]
    fn counters_count_as_well() {
        close(&format!("{GAIN}, over = {{ threads = 1 }}, metric = \"lines\""), 2.0);
    }

    #[test]
    fn what_was_not_measured_is_named() {
        assert!(value(&format!("{GAIN}, over = {{ threads = 4 }}")).unwrap_err().contains("threads 4"));
        assert!(value(GAIN).unwrap_err().contains("more than one cell"));
        assert!(value(&format!("{GAIN}, over = {{ threads = [1, 2] }}")).unwrap_err().contains("no fold"));
    }
}
