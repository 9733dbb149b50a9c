//! Figures for a plan that lists none: throughput over each axis that varies, and where the time went.

use super::{FigureSpec, Kind, OneOrMany};
use crate::axis;
use crate::cell::{self, Cell};
use crate::scaling::THREADS;
use results::ResultFile;
use std::collections::BTreeMap;

impl FigureSpec {
    /// The default figures of `results`; none if there are no samples.
    pub fn defaults(results: &ResultFile) -> Vec<Self> {
        let cells = cell::cells(results);
        if cells.is_empty() {
            return Vec::new();
        }
        let shape = Shape::of(&cells);
        let mut figures = shape.multiples();
        if figures.is_empty() {
            figures.push(shape.bars());
        }
        if results.samples.iter().flat_map(|sample| &sample.operations).any(|op| !op.time_ns.is_empty()) {
            figures.push(shape.breakdown());
        }
        figures
    }
}

/// Which axes there are and which of them vary.
struct Shape<'a> {
    design: &'static str,
    designs: Vec<&'a str>,
    workloads: usize,
    has_workload: bool,
    /// Axes that vary, designs and workloads excepted, each with its first value.
    others: Vec<&'a str>,
    first: BTreeMap<&'a str, &'a str>,
    values: BTreeMap<&'a str, Vec<&'a str>>,
}

/// Figures of one plan; what they leave out is in the tables.
const MOST_FIGURES: usize = 16;

impl<'a> Shape<'a> {
    fn of(cells: &[Cell<'a>]) -> Self {
        let all = cell::all_axes(cells);
        let design = axis::design_axis(all.keys().copied());
        let varying = cell::varying_axes(cells);
        let workloads = varying.get("workload").map_or(1, Vec::len);
        let free = |name: &&str| *name != design && *name != "workload";
        let others: Vec<&str> = varying.keys().copied().filter(free).collect();
        let first = others.iter().map(|name| (*name, varying[name][0])).collect();
        let designs = all.get(design).cloned().unwrap_or_default();
        let has_workload = all.contains_key("workload");
        Self { design, designs, workloads, has_workload, others, first, values: varying }
    }

    /// Throughput over the axis with the most values, a figure for each combination of the others, so that every cell is drawn.
    fn multiples(&self) -> Vec<FigureSpec> {
        let Some(main) = self.others.iter().max_by_key(|name| self.values[*name].len()) else {
            return Vec::new();
        };
        let mut places: Vec<BTreeMap<String, OneOrMany>> = vec![BTreeMap::new()];
        for name in self.others.iter().filter(|name| *name != main) {
            let with = |place: &BTreeMap<String, OneOrMany>, value: &str| {
                let mut place = place.clone();
                place.insert((*name).to_owned(), OneOrMany::One(value.to_owned()));
                place
            };
            places =
                places.iter().flat_map(|place| self.values[name].iter().map(|v| with(place, v))).collect();
        }
        let left_out = places.len().saturating_sub(MOST_FIGURES);
        places.truncate(MOST_FIGURES);
        let figure = |(at, place): (usize, BTreeMap<String, OneOrMany>)| {
            let mut spec = self.over(main);
            let words: Vec<String> = place
                .iter()
                .map(|(name, value)| match value {
                    OneOrMany::One(value) => {
                        format!("{} {}", axis::title(name), axis::label(value, &[value]))
                    }
                    OneOrMany::Many(_) => String::new(),
                })
                .collect();
            if !words.is_empty() {
                spec.id = format!("{}-{}", spec.id, at + 1);
                spec.title = format!("{} at {}", spec.title, words.join(", "));
            }
            (spec.only, spec.caption) = (place, String::new());
            spec
        };
        let mut figures: Vec<FigureSpec> = places.into_iter().enumerate().map(figure).collect();
        if let Some(last) = figures.last_mut().filter(|_| left_out > 0) {
            last.caption = format!(
                "{left_out} more figures like this are left out; the table of all cells has their numbers."
            );
        }
        figures
    }

    /// The other axes at their first values, except `free`.
    fn fixed(&self, free: &str) -> BTreeMap<String, OneOrMany> {
        let fixed = self.first.iter().filter(|(name, _)| **name != free);
        fixed.map(|(name, value)| ((*name).to_owned(), OneOrMany::One((*value).to_owned()))).collect()
    }

    /// Workloads differ by orders of magnitude, so several of them are shown relative to the first design.
    fn bars(&self) -> FigureSpec {
        let mut spec = FigureSpec::new("throughput", "Throughput", Kind::Bars);
        self.design.clone_into(&mut spec.series);
        if self.workloads > 1 && self.designs.len() > 1 {
            spec.relative_to = Some(self.designs[0].to_owned());
        }
        if !self.has_workload {
            self.design.clone_into(&mut spec.x);
        }
        spec
    }

    fn over(&self, other: &str) -> FigureSpec {
        let title = format!("Throughput over {}", axis::title(other));
        let mut spec = FigureSpec::new(format!("throughput-{other}"), title, Kind::Lines);
        other.clone_into(&mut spec.x);
        self.design.clone_into(&mut spec.series);
        spec.only = self.fixed(other);
        spec.panel = self.has_workload.then(|| "workload".to_owned());
        spec.caption = self.fixed_note(other);
        spec
    }

    fn breakdown(&self) -> FigureSpec {
        let mut spec = FigureSpec::new("time", "Where the time of an operation went", Kind::Breakdown);
        self.design.clone_into(&mut spec.series);
        spec.panel = (self.workloads > 1).then(|| "workload".to_owned());
        let fixed = self.crowded();
        spec.only = fixed
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OneOrMany::One((*value).to_owned())))
            .collect();
        spec.caption = note(fixed.iter());
        spec
    }

    /// The other axes at their first values, except that of the threads: what limits them shows with the most.
    fn crowded(&self) -> BTreeMap<&'a str, &'a str> {
        let most =
            |name: &str| self.values[name].iter().copied().max_by_key(|threads| threads.parse::<u64>().ok());
        let value = |(name, first): (&&'a str, &&'a str)| match *name {
            THREADS => (*name, most(name).unwrap_or(first)),
            _ => (*name, *first),
        };
        self.first.iter().map(value).collect()
    }

    fn fixed_note(&self, free: &str) -> String {
        note(self.first.iter().filter(|(name, _)| **name != free))
    }
}

/// At which values of the axes that are not drawn a figure is.
fn note<'v>(fixed: impl Iterator<Item = (&'v &'v str, &'v &'v str)>) -> String {
    let fixed: Vec<String> = fixed
        .map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[value])))
        .collect();
    if fixed.is_empty() { String::new() } else { format!("Shown at {}.", fixed.join(", ")) }
}
