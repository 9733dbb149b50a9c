//! Hypotheses of a plan: `hinfs/fileserver > 2 * pmfs/fileserver`, judged with their intervals, seed by seed where cells ran the
//! same seeds.
//!
//! A side is a number of times a cell, and a cell is named by values of its axes, joined by `/`; the leading folder of a
//! workload may be left out. Where an axis is not named, the hypothesis must hold at each of its values; it does not where one of
//! the cells failed or was not run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use results::statistics::Interval;
use results::{HypothesisOutcome, Sample, paired};
use serde::Serialize;

use super::{CellSpec, Place, Plan};
use crate::error::Error;
use document::nearest;

/// Seed of the bootstrap: the same results are judged the same.
const BOOTSTRAP_SEED: u64 = 1;

/// An expectation: one side larger or smaller than the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    says: String,
    left: Side,
    larger: bool,
    right: Side,
    at: Place,
}

#[derive(Clone, Debug, PartialEq)]
struct Side {
    factor: f64,
    values: Vec<String>,
}

impl FromStr for Hypothesis {
    type Err = String;

    fn from_str(says: &str) -> Result<Self, String> {
        let sign = says.find(['<', '>']).ok_or("a hypothesis compares two sides with > or <")?;
        let (left, right) = (side(&says[..sign])?, side(&says[sign + 1..])?);
        let larger = says[sign..].starts_with('>');
        Ok(Self { says: says.to_owned(), left, larger, right, at: Place::default() })
    }
}

fn side(text: &str) -> Result<Side, String> {
    let (factor, cell) = text.split_once('*').unwrap_or(("1", text));
    let factor: f64 = factor.trim().parse().map_err(|_| format!("\"{}\" is no number", factor.trim()))?;
    let values: Vec<String> = cell.trim().split('/').map(str::to_owned).collect();
    if !factor.is_finite() {
        return Err(format!("\"{}\" is no factor; give a number such as 1.5", text.trim()));
    }
    if factor <= 0.0 || values.iter().any(String::is_empty) {
        return Err(format!("\"{}\" names no cell; write it as design/workload", text.trim()));
    }
    Ok(Side { factor, values })
}

impl fmt::Display for Hypothesis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl Serialize for Hypothesis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A cell: axis to value.
type Axes = BTreeMap<String, String>;
/// Repeats of each cell, by the axes that a side does not name; none where it failed or was not run.
type Repeats<'a> = BTreeMap<BTreeMap<&'a str, &'a str>, Vec<&'a Sample>>;

/// Whether `name` is a value of an axis, or the last part of one.
fn is_called(value: &str, name: &str) -> bool {
    value == name || value.rsplit('/').next() == Some(name)
}

impl Side {
    /// The repeats of those of the cells that this side names.
    fn repeats<'a>(&self, cells: &[&'a Axes], samples: &'a [Sample]) -> Repeats<'a> {
        let named = cells.iter().filter_map(|axes| Some((self.rest(axes)?, Vec::new())));
        let mut repeats: Repeats<'_> = named.collect();
        for sample in samples.iter().filter(|sample| sample.is_measured()) {
            if let Some(rest) = self.rest(&sample.axes) {
                repeats.entry(rest).or_default().push(sample);
            }
        }
        repeats
    }

    /// The axes that are not named, if all names are values of the cell's axes.
    fn rest<'a>(&self, axes: &'a Axes) -> Option<BTreeMap<&'a str, &'a str>> {
        let mut rest: BTreeMap<_, _> =
            axes.iter().map(|(axis, value)| (axis.as_str(), value.as_str())).collect();
        for name in &self.values {
            let axis = rest.iter().find(|(_, value)| is_called(value, name)).map(|(axis, _)| *axis)?;
            rest.remove(axis);
        }
        Some(rest)
    }

    /// Why it names no cell; none if it does.
    fn stranger(&self, cells: &[CellSpec]) -> Option<String> {
        if cells.iter().any(|cell| self.rest(&cell.axes).is_some()) {
            return None;
        }
        let values = || cells.iter().flat_map(|cell| cell.axes.values()).map(String::as_str);
        let unknown = self.values.iter().find(|name| !values().any(|value| is_called(value, name)));
        Some(match unknown {
            Some(name) => no_value(name, values()),
            None => format!("no cell is {} at once", self.values.join(" and ")),
        })
    }
}

/// Says that `name` is none of the values.
fn no_value<'v>(name: &str, values: impl Iterator<Item = &'v str>) -> String {
    let known: BTreeSet<&str> = values.filter_map(|value| value.rsplit('/').next()).collect();
    format!("no axis has the value \"{name}\"; {}", nearest(name, known))
}

impl Plan {
    /// What is expected must speak of values that axes have: all that can be said of a plan whose cells are wrong.
    pub fn check_expected_names(&self) -> Result<(), Error> {
        let labels = self.axis.iter().flat_map(|axis| &axis.values).map(|value| value.label.as_str());
        let works = self.workload.iter().map(|work| work.label.as_ref().unwrap_or(&work.name).as_str());
        let known: BTreeSet<&str> = labels.chain(works).chain([self.usual_medium()]).collect();
        let names = self.expect.iter().flat_map(|one| {
            let names = one.left.values.iter().chain(&one.right.values);
            names.map(move |name| (one, name))
        });
        let unknown = names.filter(|(_, name)| !known.iter().any(|value| is_called(value, name)));
        let wrong = unknown.map(|(one, name)| {
            let why = no_value(name, known.iter().copied());
            one.at.problem(format!("[expect] \"{one}\": {why}"))
        });
        Error::together(wrong).map_or(Ok(()), Err)
    }

    /// What is expected must speak of cells of the plan.
    pub fn check_expectations(&self, cells: &[CellSpec]) -> Result<(), Error> {
        let wrong = self.expect.iter().flat_map(|one| {
            let strangers = [&one.left, &one.right].into_iter().filter_map(|side| side.stranger(cells));
            strangers.map(move |why| one.at.problem(format!("[expect] \"{one}\": {why}")))
        });
        Error::together(wrong).map_or(Ok(()), Err)
    }
}

impl Hypothesis {
    /// The same, with the place where it is written.
    pub(super) fn placed(self, at: Place) -> Self {
        Self { at, ..self }
    }

    /// What became of it in a plan of these cells. The worst of its places decides.
    pub fn judge(&self, cells: &[&Axes], samples: &[Sample]) -> HypothesisOutcome {
        let (left, right) = (self.left.repeats(cells, samples), self.right.repeats(cells, samples));
        let shared = left.iter().filter_map(|(place, repeats)| Some((place, repeats, right.get(place)?)));
        let judged: Vec<_> = shared.map(|(place, left, right)| self.at(place, left, right)).collect();
        let worst = judged
            .into_iter()
            .min_by(|a, b| a.holds.cmp(&b.holds).then(self.margin(a).total_cmp(&self.margin(b))));
        worst.unwrap_or_else(|| self.outcome(None, Some("no cells of that name were measured".to_owned())))
    }

    fn at(&self, place: &BTreeMap<&str, &str>, left: &[&Sample], right: &[&Sample]) -> HypothesisOutcome {
        let places: Vec<_> = place.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        if left.is_empty() || right.is_empty() {
            let at = if places.is_empty() { String::new() } else { format!(" at {}", places.join(", ")) };
            return self.outcome(None, Some(format!("a cell of it{at} failed or was not run")));
        }
        // Of the sides with their factors: a factor of a side is one of the ratio and of the ends of its interval.
        let factor = self.left.factor / self.right.factor;
        let compared = paired::against(right, left, 0.0, BOOTSTRAP_SEED);
        let ratio = compared.map(|compared| compared.ratio * factor);
        let interval = compared.and_then(|compared| compared.interval).map(|interval| Interval {
            low: interval.low * factor,
            high: interval.high * factor,
            ..interval
        });
        let undecided = interval
            .filter(|interval| interval.contains(1.0))
            .map(|interval| format!("the {} has both answers in it", interval.coverage.as_str()));
        let decided = (!places.is_empty()).then(|| format!("decided at {}", places.join(", ")));
        let reason: Vec<String> = decided.into_iter().chain(undecided.clone()).collect();
        let reason = (!reason.is_empty()).then(|| reason.join("; "));
        let outcome = self.outcome(ratio.filter(|ratio| ratio.is_finite()), reason);
        HypothesisOutcome {
            holds: outcome.holds && undecided.is_none(),
            low: interval.map(|i| i.low),
            high: interval.map(|i| i.high),
            range: interval.is_some_and(|i| i.is_range()),
            ..outcome
        }
    }

    fn outcome(&self, ratio: Option<f64>, reason: Option<String>) -> HypothesisOutcome {
        let holds = ratio.is_some_and(|ratio| if self.larger { ratio > 1.0 } else { ratio < 1.0 });
        HypothesisOutcome {
            says: self.says.clone(),
            holds,
            ratio,
            low: None,
            high: None,
            range: false,
            reason,
        }
    }

    /// How far it holds: larger is better, and least where nothing was measured.
    fn margin(&self, outcome: &HypothesisOutcome) -> f64 {
        let sign = if self.larger { 1.0 } else { -1.0 };
        outcome.ratio.map_or(f64::NEG_INFINITY, |ratio| sign * ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(fs: &str, threads: &str, rate: f64) -> Sample {
        seeded(1, fs, threads, rate)
    }

    fn seeded(seed: u64, fs: &str, threads: &str, rate: f64) -> Sample {
        let pairs = [("fs", fs), ("threads", threads), ("workload", "suite/varmail")];
        let axes = pairs.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
        let mut sample = Sample::new(axes.into(), 0, seed);
        sample.throughput_ops_per_s = rate;
        sample
    }

    fn judge(says: &str) -> HypothesisOutcome {
        let rates = [("pmfs", "1", 10.0), ("hinfs", "1", 30.0), ("pmfs", "8", 50.0), ("hinfs", "8", 60.0)];
        says.parse::<Hypothesis>()
            .unwrap()
            .judge(&[], &rates.map(|(fs, threads, rate)| sample(fs, threads, rate)))
    }

    #[test]
    fn the_worst_place_decides() {
        let outcome = judge("hinfs/varmail > pmfs/varmail");
        assert!(outcome.holds && outcome.ratio == Some(1.2), "{outcome:?}");
        assert!(outcome.reason.unwrap().contains("threads 8"));
        assert!(!judge("hinfs > 1.5 * pmfs").holds);
        assert!(judge("hinfs/1 > 1.5 * pmfs/1").holds);
    }

    #[test]
    fn repeats_that_do_not_decide_are_no_success() {
        let rates = [("pmfs", 10.0), ("pmfs", 14.0), ("hinfs", 12.0), ("hinfs", 15.0)];
        let samples = rates.map(|(fs, rate)| sample(fs, "1", rate));
        let judge = |says: &str| says.parse::<Hypothesis>().unwrap().judge(&[], &samples);
        let outcome = judge("hinfs > pmfs");
        assert!(!outcome.holds && outcome.range && outcome.ratio > Some(1.0), "{outcome:?}");
        assert!(outcome.reason.unwrap().contains("both answers"));
        assert!(judge("2 * hinfs > pmfs").holds);
    }

    /// Rates that differ from seed to seed by a third, and by a twentieth from design to design at each of them.
    #[test]
    fn cells_of_the_same_seeds_are_compared_seed_by_seed() {
        let rates = [10.0, 13.0, 11.0, 12.0, 14.0, 9.0];
        let of = |fs: &str, times: f64, first: u64| {
            let each = rates.iter().zip(first..);
            each.map(|(rate, seed)| seeded(seed, fs, "1", rate * times)).collect::<Vec<_>>()
        };
        let judge = |first| {
            let samples = [of("pmfs", 1.0, 1), of("hinfs", 1.05, first)].concat();
            "hinfs > pmfs".parse::<Hypothesis>().unwrap().judge(&[], &samples)
        };
        let paired = judge(1);
        assert!(paired.holds && (paired.ratio.unwrap() - 1.05).abs() < 1e-9, "{paired:?}");
        assert!(!judge(101).holds, "without pairs the spread of the seeds hides the difference");
    }

    #[test]
    fn a_cell_that_was_not_measured_is_no_success() {
        let outcome = judge("hinfs > nova");
        assert!(!outcome.holds && outcome.reason.unwrap().contains("no cells"));
    }

    #[test]
    fn a_place_whose_cell_failed_or_was_not_run_is_no_success() {
        let mut samples: Vec<Sample> =
            [("pmfs", "1", 10.0), ("hinfs", "1", 30.0), ("pmfs", "8", 50.0), ("hinfs", "8", 60.0)]
                .map(|(fs, threads, rate)| sample(fs, threads, rate))
                .into();
        let cells: Vec<_> = samples.iter().map(|sample| sample.axes.clone()).collect();
        let cells: Vec<_> = cells.iter().collect();
        let judge = |samples: &[Sample]| "hinfs > pmfs".parse::<Hypothesis>().unwrap().judge(&cells, samples);
        assert!(judge(&samples).holds);
        let not_run = judge(&samples[..3]);
        let failure = results::SampleFailure { kind: results::FailureKind::Run, what: "full".into() };
        samples[3] = Sample::failed(samples[3].axes.clone(), 0, 1, failure);
        for outcome in [judge(&samples), not_run] {
            assert!(!outcome.holds && outcome.ratio.is_none(), "{outcome:?}");
            assert!(
                outcome.reason.unwrap().contains("threads 8, workload suite/varmail failed or was not run")
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for says in ["hinfs", "x * hinfs > pmfs", "hinfs > ", "nan * hinfs > pmfs", "hinfs > 1e999 * pmfs"] {
            assert!(says.parse::<Hypothesis>().is_err(), "{says}");
        }
    }
}
