//! Numbers that are made of whole curves over the number of threads.
//!
//! | key | the number |
//! |---|---|
//! | `classes = [{ at = { fs = "a", workload = "W" }, are = "SF" }, …]` | of how many curves the class is among these letters |
//! | `distinct = [{ fs = "a" }, …]` | how many different classes these curves have |
//! | `peak = { fs = "a", workload = "W" }` | the smallest number of threads with 95 % of the curve's best; of a list the median |
//! | `correlations = { number = "error", … }` | what coefficients of events come to (`correlations.rs`) |
//! | `causes = [{ at = { fs = ["a", "b"] }, are = ["lock"], agree = 1 }, …]` | of how many rows the cause is among these |
//!
//! A cause is the lock or line with the most waiting at the most threads, in each cell of `at`, or in as many as `agree` says.
//!
//! Classes and their letters are those of [`results::curve`]. A curve that is not there, or has too few points for a class, is an
//! error that names it.

use std::collections::{BTreeMap, BTreeSet};

use document::{Item, Problem, Problems, Table};
use results::curve::{Classified, Curve, curves};
use results::scaling::waits;
use results::statistics::median;
use results::{ResultFile, Sample};

use super::correlations::Correlations;

/// Values of axes that say which curve.
type Place = BTreeMap<String, String>;

/// What the number is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Curves {
    /// How many have a class among the letters.
    Classes(Vec<(Place, String)>),
    /// How many different classes they have.
    Distinct(Vec<Place>),
    /// Where the curve has its best: the median over these.
    Peak(Vec<Place>),
    /// How many have one of these causes.
    Causes(Vec<Cause>),
    /// What coefficients of events and throughput come to.
    Correlations(Correlations),
}

/// Cells, and what holds them back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    /// Values of axes: every combination is a cell.
    at: BTreeMap<String, Vec<String>>,
    /// Names of locks and lines.
    are: Vec<String>,
    /// In how many of the cells it must be so; all if there is none.
    agree: Option<u64>,
}

impl Curves {
    /// What a measure says of curves; none if it says nothing.
    pub(super) fn read(
        [classes, distinct, peak, causes, correlations]: [Option<Item<'_>>; 5],
    ) -> Result<Option<Self>, Problem> {
        if let Some(second) =
            [&classes, &distinct, &peak, &causes, &correlations].into_iter().flatten().nth(1)
        {
            return Err(second.problem("a number is of classes, of a peak or of causes, not of two of them"));
        }
        if let Some(distinct) = distinct {
            return each(&distinct.items()?, place).map(Self::Distinct).map(Some);
        }
        if let Some(classes) = classes {
            return each(&classes.items()?, expected).map(Self::Classes).map(Some);
        }
        if let Some(causes) = causes {
            return each(&causes.items()?, cause).map(Self::Causes).map(Some);
        }
        if let Some(correlations) = correlations {
            return correlations.read(Correlations::read).map(Self::Correlations).map(Some);
        }
        let Some(peak) = peak else { return Ok(None) };
        let peaks = if peak.is_table() { vec![peak.read(place)?] } else { each(&peak.items()?, place)? };
        Ok(Some(Self::Peak(peaks)))
    }

    /// The letter that most of the cells may have, and how many: what a model gets that knows nothing and gives all cells one
    /// class.
    pub(super) fn constant(&self) -> Option<(char, usize)> {
        let Self::Classes(expected) = self else { return None };
        let cells = |letter: &char| expected.iter().filter(|(_, letters)| letters.contains(*letter)).count();
        "LSCF".chars().map(|letter| (letter, cells(&letter))).max_by_key(|(_, cells)| *cells)
    }

    /// The number in these results.
    pub(super) fn value(&self, results: &ResultFile) -> Result<f64, String> {
        let curves = curves(results);
        match self {
            Self::Correlations(correlations) => correlations.value(results),
            Self::Classes(expected) => {
                let mut among = 0;
                for (place, letters) in expected {
                    let class = classified(&curves, place)?;
                    among += u32::from(letters.contains(class.shape.letter()));
                }
                Ok(f64::from(among))
            }
            Self::Distinct(places) => {
                let letters = places.iter().map(|place| Ok(classified(&curves, place)?.shape.letter()));
                Ok(letters.collect::<Result<BTreeSet<char>, String>>()?.len() as f64)
            }
            Self::Peak(places) => {
                let peaks = places.iter().map(|place| Ok(classified(&curves, place)?.peak));
                let peaks = peaks.collect::<Result<Vec<_>, String>>()?;
                median(&peaks).ok_or_else(|| "a peak of no curve".to_owned())
            }
            Self::Causes(causes) => {
                let held = causes.iter().map(|cause| cause.holds(results)).collect::<Result<Vec<_>, _>>()?;
                Ok(held.iter().filter(|holds| **holds).count() as f64)
            }
        }
    }
}

impl Cause {
    /// Whether what the cells wait for most is among these.
    fn holds(&self, results: &ResultFile) -> Result<bool, String> {
        let mut places: Vec<Place> = vec![Place::new()];
        for (axis, values) in &self.at {
            let with = |place: &Place, value: &String| {
                let mut place = place.clone();
                place.insert(axis.clone(), value.clone());
                place
            };
            places = places.iter().flat_map(|place| values.iter().map(|value| with(place, value))).collect();
        }
        let mut agreeing = 0;
        for place in &places {
            agreeing += u64::from(self.are.contains(&first_object(results, place)?));
        }
        Ok(agreeing >= self.agree.unwrap_or(places.len() as u64))
    }
}

/// The lock or line with the most waiting at this place, with the most threads; empty where there is none.
fn first_object(results: &ResultFile, place: &Place) -> Result<String, String> {
    let threads = |sample: &Sample| sample.axis("threads").and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let here = |sample: &&Sample| {
        sample.is_measured()
            && place.iter().all(|(axis, value)| sample.axis(axis).is_some_and(|has| is(has, value)))
    };
    let samples: Vec<&Sample> = results.samples.iter().filter(here).collect();
    let Some(most) = samples.iter().map(|sample| threads(sample)).max() else {
        return Err(format!("no cell with {}", named(place)));
    };
    let waits = waits(samples.into_iter().filter(|sample| threads(sample) == most));
    Ok(waits.into_iter().next().map(|(name, _)| name).unwrap_or_default())
}

fn each<T>(items: &[Item<'_>], read: impl Fn(&Table<'_>) -> Result<T, Problem>) -> Result<Vec<T>, Problem> {
    Problems::each(items.iter().map(|item| item.read(&read)))
}

fn cause(table: &Table<'_>) -> Result<Cause, Problem> {
    let at = table.need("at", "which cells")?.read(|table| {
        table.take_rest().into_iter().map(|(axis, item)| Ok((axis, item.words()?))).collect()
    })?;
    let are = table.need("are", "names of locks and lines")?.words()?;
    let agree = table.get("agree").map(|item| item.number()).transpose()?;
    Ok(Cause { at, are, agree })
}

fn named(place: &Place) -> String {
    place.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}

fn place(table: &Table<'_>) -> Result<Place, Problem> {
    table.take_rest().into_iter().map(|(axis, item)| Ok((axis, item.word()?))).collect()
}

fn expected(table: &Table<'_>) -> Result<(Place, String), Problem> {
    let at = table.need("at", "which curve")?.read(place)?;
    let item = table.need("are", "letters of classes: L, S, C, F")?;
    let letters = item.text()?;
    if letters.is_empty() || !letters.chars().all(|letter| "LSCF".contains(letter)) {
        return Err(item
            .problem("\"are\" has letters of classes: L scales, S saturates, C collapses, F never scales"));
    }
    Ok((at, letters))
}

/// The class of the one curve at this place.
fn classified(curves: &[Curve], place: &Place) -> Result<Classified, String> {
    let is_there = |curve: &&Curve| {
        place.iter().all(|(axis, value)| curve.axes.get(axis).is_some_and(|has| is(has, value)))
    };
    let mut found = curves.iter().filter(is_there);
    match (found.next(), found.next()) {
        (None, _) => Err(format!("no curve with {}", named(place))),
        (Some(_), Some(_)) => Err(format!("more than one curve with {}", named(place))),
        (Some(curve), None) => curve
            .classified()
            .ok_or_else(|| format!("too few counts of threads for a class with {}", named(place))),
    }
}

/// Whether a value is meant; the leading folder of a workload may be left out.
fn is(has: &str, value: &str) -> bool {
    has == value || has.rsplit('/').next() == Some(value)
}

#[cfg(test)]
mod tests {
    use results::{Clock, Sample};

    use super::super::measure::{Measure, Measures};
    use super::*;

    /// `fs` a doubles and stays, b falls after 10 threads.
    fn results() -> ResultFile {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        for (fs, rates) in [("linux/a", [10.0, 25.0, 24.0]), ("linux/b", [10.0, 30.0, 5.0])] {
            for (threads, rate) in ["1", "10", "80"].into_iter().zip(rates) {
                let axes = [("fs", fs), ("threads", threads), ("workload", "fxmark/DWOL")];
                let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
                let mut sample = Sample::new(axes.into(), 0, 1);
                sample.throughput_ops_per_s = rate;
                let mut write = results::OperationRecord::new("write");
                write
                    .lock_wait_ns
                    .insert(format!("{fs}.{}", if threads == "80" { "many" } else { "few" }), 1);
                sample.operations.push(write);
                file.samples.push(sample);
            }
        }
        file
    }

    fn value(measure: &str) -> Result<f64, String> {
        let text = format!("measure = {{ plan = \"p\", {measure} }}");
        let read = document::read("t", &text, |root| root.need("measure", "")?.read(Measure::read))
            .map_err(|e| e.to_string())?;
        read.value(&results(), &Measures::new())
    }

    #[test]
    fn curves_whose_class_is_among_the_letters_are_counted() {
        let both = |a: &str, b: &str| {
            value(&format!(
                "classes = [{{ at = {{ fs = \"linux/a\", workload = \"DWOL\" }}, are = \"{a}\" }}, {{ at = {{ fs = \"linux/b\" }}, \
                 are = \"{b}\" }}]"
            ))
        };
        assert_eq!(both("S", "C"), Ok(2.0));
        assert_eq!(both("SF", "FC"), Ok(2.0));
        assert_eq!(both("L", "C"), Ok(1.0));
        assert_eq!(value("distinct = [{ fs = \"linux/a\" }, { fs = \"linux/b\" }]"), Ok(2.0));
        assert_eq!(value("distinct = [{ fs = \"linux/a\" }, { fs = \"linux/a\" }]"), Ok(1.0));
        assert!(both("X", "C").unwrap_err().contains("letters of classes"));
    }

    #[test]
    fn a_peak_is_the_smallest_count_near_the_best_and_a_curve_that_is_not_there_is_named() {
        assert_eq!(value("peak = { fs = \"linux/b\" }"), Ok(10.0));
        assert_eq!(value("peak = { fs = \"linux/c\" }"), Err("no curve with fs linux/c".to_owned()));
        assert!(value("peak = { workload = \"DWOL\" }").unwrap_err().contains("more than one curve"));
        assert!(value("peak = { fs = \"a\" }, classes = []").unwrap_err().contains("not of two"));
        // Of 10 and 10.
        assert_eq!(value("peak = [{ fs = \"linux/b\" }, { fs = \"linux/a\" }]"), Ok(10.0));
    }

    #[test]
    fn a_cause_is_what_most_is_waited_for_with_the_most_threads_in_every_cell_or_in_enough() {
        let row = |are: &str, more: &str| {
            value(&format!(
                "causes = [{{ at = {{ fs = [\"linux/a\", \"linux/b\"], workload = \"DWOL\" }}, are = [{are}]{more} }}]"
            ))
        };
        assert_eq!(row("\"linux/a.many\", \"linux/b.many\"", ""), Ok(1.0));
        assert_eq!(row("\"linux/a.many\", \"linux/b.few\"", ""), Ok(0.0));
        assert_eq!(row("\"linux/a.many\"", ", agree = 1"), Ok(1.0));
        let absent = value("causes = [{ at = { fs = \"linux/c\" }, are = \"x\" }]");
        assert_eq!(absent, Err("no cell with fs linux/c".to_owned()));
    }
}
