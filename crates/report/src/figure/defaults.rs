//! Figures for a plan that lists none: throughput over each axis that varies, and where the time went.

use super::{FigureSpec, Kind, OneOrMany};
use crate::axis;
use crate::cell::{self, Cell};
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
        let mut figures: Vec<Self> = shape.others.iter().map(|other| shape.over(other)).collect();
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
}

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
        Self { design, designs, workloads, has_workload: all.contains_key("workload"), others, first }
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
        spec.only = self.fixed("");
        spec.caption = self.fixed_note("");
        spec
    }

    fn fixed_note(&self, free: &str) -> String {
        let fixed: Vec<String> = self
            .first
            .iter()
            .filter(|(name, _)| **name != free)
            .map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[value])))
            .collect();
        if fixed.is_empty() { String::new() } else { format!("Shown at {}.", fixed.join(", ")) }
    }
}
