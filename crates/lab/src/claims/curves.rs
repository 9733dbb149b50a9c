//! Numbers that are made of whole curves over the number of threads.
//!
//! | key | the number |
//! |---|---|
//! | `classes = [{ at = { fs = "a", workload = "W" }, are = "SF" }, …]` | of how many curves the class is among these letters |
//! | `peak = { fs = "a", workload = "W" }` | the smallest number of threads with 95 % of the curve's best |
//!
//! Classes and their letters are those of [`results::curve`]. A curve that is not there, or has too few points for a class, is an
//! error that names it.

use std::collections::BTreeMap;

use document::{Item, Problem, Problems, Table};
use results::ResultFile;
use results::curve::{Classified, Curve, curves};

/// Values of axes that say which curve.
type Place = BTreeMap<String, String>;

/// What the number is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Curves {
    /// How many have a class among the letters.
    Classes(Vec<(Place, String)>),
    /// Where the curve has its best.
    Peak(Place),
}

impl Curves {
    /// What a measure says of curves; none if it says nothing.
    pub(super) fn read(classes: Option<Item<'_>>, peak: Option<Item<'_>>) -> Result<Option<Self>, Problem> {
        match (classes, peak) {
            (None, None) => Ok(None),
            (Some(classes), None) => {
                let all = classes.items()?;
                Problems::each(all.iter().map(|item| item.read(expected))).map(Self::Classes).map(Some)
            }
            (None, Some(peak)) => peak.read(place).map(Self::Peak).map(Some),
            (Some(_), Some(peak)) => Err(peak.problem("a number is of classes or of a peak, not of both")),
        }
    }

    /// The number in these results.
    pub(super) fn value(&self, results: &ResultFile) -> Result<f64, String> {
        let curves = curves(results);
        match self {
            Self::Classes(expected) => {
                let mut among = 0;
                for (place, letters) in expected {
                    let class = classified(&curves, place)?;
                    among += u32::from(letters.contains(class.shape.letter()));
                }
                Ok(f64::from(among))
            }
            Self::Peak(place) => Ok(classified(&curves, place)?.peak),
        }
    }
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
    let named = || place.iter().map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ");
    let mut found = curves.iter().filter(is_there);
    match (found.next(), found.next()) {
        (None, _) => Err(format!("no curve with {}", named())),
        (Some(_), Some(_)) => Err(format!("more than one curve with {}", named())),
        (Some(curve), None) => curve
            .classified()
            .ok_or_else(|| format!("too few counts of threads for a class with {}", named())),
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
        assert!(both("X", "C").unwrap_err().contains("letters of classes"));
    }

    #[test]
    fn a_peak_is_the_smallest_count_near_the_best_and_a_curve_that_is_not_there_is_named() {
        assert_eq!(value("peak = { fs = \"linux/b\" }"), Ok(10.0));
        assert_eq!(value("peak = { fs = \"linux/c\" }"), Err("no curve with fs linux/c".to_owned()));
        assert!(value("peak = { workload = \"DWOL\" }").unwrap_err().contains("more than one curve"));
        assert!(value("peak = { fs = \"a\" }, classes = []").unwrap_err().contains("not of both"));
    }
}
