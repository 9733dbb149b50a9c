//! The class of each curve over the number of threads: what `weir explain` prints of a result that has three of them or more.

use std::collections::{BTreeMap, BTreeSet};

use report::table::Table;
use report::units::ratio;
use results::ResultFile;
use results::curve::{Curve, curves};

/// The axis of what takes no time, and its value where nothing is free.
const FREE: (&str, &str) = ("free", "nothing");

/// A table of the classes of all curves that agree with `only`; nothing where no curve has one.
pub(super) fn told(results: &[ResultFile], only: &BTreeMap<String, String>) -> String {
    let agrees = |curve: &Curve| {
        only.iter().all(|(axis, value)| axis == "threads" || curve.axes.get(axis) == Some(value))
    };
    let curves: Vec<Curve> = results.iter().flat_map(curves).filter(agrees).collect();
    let classified: Vec<_> =
        curves.iter().filter_map(|curve| Some((&curve.axes, curve.classified()?))).collect();
    if classified.is_empty() {
        return String::new();
    }
    let varying = varying(&classified.iter().map(|(axes, _)| *axes).collect::<Vec<_>>());
    let mut table = Table::new(
        "Classes of curves: L scales (60 % of linear), S saturates, C collapses (below 70 % of its best), F never doubles",
    );
    for axis in &varying {
        table.words(*axis);
    }
    table.words("class");
    for name in ["peak at", "best speed-up", "at the end"] {
        table.numbers(name);
    }
    for (axes, class) in classified {
        let place = varying.iter().map(|axis| axes.get(*axis).map_or("–", String::as_str).to_owned());
        let class_words = format!("{} {}", class.shape.letter(), class.shape.words());
        let numbers = [class.peak.to_string(), ratio(class.best), ratio(class.end)];
        table.rows.push(place.chain([class_words]).chain(numbers).collect());
    }
    format!("\n{}", table.to_text())
}

/// The axes in which curves differ; the workload and the file system in any case.
fn varying<'a>(all: &[&'a BTreeMap<String, String>]) -> Vec<&'a str> {
    let names: BTreeSet<&str> = all.iter().flat_map(|axes| axes.keys().map(String::as_str)).collect();
    let differs = |name: &&str| {
        let of = |axes: &BTreeMap<String, String>| {
            axes.get(*name)
                .cloned()
                .unwrap_or_else(|| if *name == FREE.0 { FREE.1.to_owned() } else { String::new() })
        };
        all.windows(2).any(|pair| of(pair[0]) != of(pair[1]))
    };
    let first = ["workload", "fs"];
    let others = names.iter().copied().filter(|name| !first.contains(name)).filter(differs);
    first.into_iter().filter(|name| names.contains(name)).chain(others).collect()
}
