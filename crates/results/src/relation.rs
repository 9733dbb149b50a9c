//! Rates of events beside throughput, sample by sample: the points of a coefficient, and the coefficient.
//!
//! A point is one sample. Points of all systems of a workload together are *pooled*; each system by itself is beside them, because
//! pooling can make or reverse a coefficient. Chances are corrected for all workloads and events that are read together: those of
//! one source and one divisor.

use std::collections::BTreeMap;

use crate::correlation::{Correlation, correlate};
use crate::event_rates::{EventKind, KINDS, Per, Source};
use crate::statistics::together;
use crate::{ResultFile, Sample};

/// The axis of what is measured, and that of what is done.
const SYSTEM: &str = "fs";
const WORKLOAD: &str = "workload";

/// Rate of an event and throughput.
pub type Point = (f64, f64);

/// The points of a workload and an event.
#[derive(Clone, Debug)]
pub struct Relation<'a> {
    /// The workload.
    pub workload: &'a str,
    /// The event.
    pub kind: &'static EventKind,
    /// Who counted.
    pub source: Source,
    /// What the rate is for.
    pub per: Per,
    /// The points of each system, in the order of the plan.
    pub systems: Vec<(&'a str, Vec<Point>)>,
    /// The coefficient of all points together.
    pub pooled: Option<Correlation>,
    /// That of each system.
    pub each: Vec<Option<Correlation>>,
    /// The chance of `pooled`, corrected for all that are read together.
    pub chance: f64,
}

/// All relations of a result, by source, divisor, workload and event; none where no sample has the rate.
pub fn relations(results: &ResultFile) -> Vec<Relation<'_>> {
    let mut all: Vec<Relation<'_>> = Vec::new();
    for source in Source::ALL {
        for per in Per::ALL {
            let from = all.len();
            for workload in results.axis_values(WORKLOAD) {
                all.extend(KINDS.iter().filter_map(|kind| relation(results, workload, kind, (source, per))));
            }
            correct(&mut all[from..]);
        }
    }
    all
}

/// Corrects the chances of these together.
fn correct(all: &mut [Relation<'_>]) {
    let defined = || all.iter().filter_map(|one| Some(one.pooled.as_ref()?.chance));
    let mut corrected = together(&defined().collect::<Vec<_>>()).into_iter();
    for one in all.iter_mut().filter(|one| one.pooled.is_some()) {
        one.chance = corrected.next().unwrap_or(1.0);
    }
}

fn relation<'a>(
    results: &'a ResultFile,
    workload: &'a str,
    kind: &'static EventKind,
    (source, per): (Source, Per),
) -> Option<Relation<'a>> {
    let values = results.axis_values(SYSTEM);
    let mut systems: BTreeMap<usize, Vec<Point>> = BTreeMap::new();
    let of_workload = |sample: &&Sample| sample.is_measured() && sample.axis(WORKLOAD) == Some(workload);
    for sample in results.samples.iter().filter(of_workload) {
        if let Some(rate) = kind.of(sample, source, per) {
            let system = values.iter().position(|value| sample.axis(SYSTEM) == Some(value)).unwrap_or(0);
            systems.entry(system).or_default().push((rate, sample.throughput_ops_per_s));
        }
    }
    let name = |at: usize| values.get(at).copied().unwrap_or_default();
    let systems: Vec<(&str, Vec<Point>)> =
        systems.into_iter().map(|(at, points)| (name(at), points)).collect();
    let points: Vec<Point> = systems.iter().flat_map(|(_, points)| points).copied().collect();
    let each = systems.iter().map(|(_, points)| correlate(points)).collect();
    let pooled = correlate(&points);
    (!points.is_empty()).then_some(Relation {
        workload,
        kind,
        source,
        per,
        systems,
        pooled,
        each,
        chance: 1.0,
    })
}

impl Relation<'_> {
    /// Each system with its coefficient.
    pub fn coefficients(&self) -> Vec<(String, Option<Correlation>)> {
        self.systems.iter().zip(&self.each).map(|((name, _), own)| ((*name).to_owned(), *own)).collect()
    }

    /// How many points there are.
    pub fn points(&self) -> usize {
        self.systems.iter().map(|(_, points)| points.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    /// `rates`: system, misses and throughput; 1,000 instructions each.
    fn result(workload: &str, rates: &[(&str, u64, f64)]) -> Vec<Sample> {
        let sample = |(repeat, (fs, misses, rate)): (usize, &(&str, u64, f64))| {
            let axes =
                [("workload", workload), ("fs", fs)].map(|(axis, value)| (axis.to_owned(), value.to_owned()));
            let mut sample = Sample::new(axes.into(), repeat as u32, 1);
            (sample.ops, sample.elapsed_ns, sample.throughput_ops_per_s) = (1, 1, *rate);
            sample.counters =
                [("event.dtlb_load_misses".to_owned(), *misses), ("event.instructions".to_owned(), 1000)]
                    .into();
            sample
        };
        rates.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn systems_are_kept_apart_and_chances_are_corrected_for_all_that_are_read_together() {
        let mut file = ResultFile::new("t", serde_json::Value::Null, 1, Clock::Real);
        let one: Vec<_> = (0..8).map(|at| ("a", 10 + at, 900.0 - at as f64 * 7.0)).collect();
        let other: Vec<_> =
            (0..8).map(|at| ("b", 10 + at, 900.0 + [0., 5., 1., 4., 2., 6., 3., 7.][at as usize])).collect();
        file.samples = result("w", &[one, other].concat());
        file.samples
            .extend(result("v", &(0..8).map(|at| ("a", 5 + at % 3, 50.0 + at as f64)).collect::<Vec<_>>()));
        let all = relations(&file);
        let by_instructions: Vec<_> = all.iter().filter(|one| one.per == Per::Instructions).collect();
        assert_eq!(by_instructions.len(), 2, "one event, two workloads");
        let first = by_instructions[0];
        assert_eq!((first.workload, first.points()), ("w", 16));
        let each = first.coefficients();
        assert_eq!(each.iter().map(|one| one.0.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(each[0].1.unwrap().r < -0.99 && each[1].1.unwrap().r > 0.5);
        // Two coefficients are read together: the smaller chance counts twice.
        let chances = by_instructions.iter().map(|one| one.pooled.unwrap().chance);
        let least = chances.fold(1.0, f64::min);
        let corrected = by_instructions.iter().map(|one| one.chance).fold(1.0, f64::min);
        assert!((corrected - 2.0 * least).abs() < 1e-12, "{corrected} {least}");
    }
}
