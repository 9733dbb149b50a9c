//! Figures for a plan that lists none: throughput over each axis that varies, and where the time went. Of replayed programs: how
//! long they took, where the time went by class of call and by what was waited for, and what they did when.

use super::{By, FigureSpec, Kind, Metric, OneOrMany};
use crate::axis;
use crate::cell::{self, Cell};
use crate::replay;
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
        if replay::all_are(&cells) {
            figures.iter_mut().for_each(of_program);
            figures.extend(shape.whole_runs());
            figures.extend(shape.timelines());
            return figures;
        }
        if results.samples.iter().flat_map(|sample| &sample.operations).any(|op| !op.time_ns.is_empty()) {
            figures.push(shape.breakdown());
        }
        figures
    }
}

/// A figure of throughput as one of the time of a program.
fn of_program(spec: &mut FigureSpec) {
    spec.metric = Metric::Elapsed;
    spec.id = spec.id.replacen("throughput", "elapsed", 1);
    spec.title = spec.title.replacen("Throughput", "Time of the program", 1);
    let what =
        "From the begin of its first thread to the end of its last, in the time of the clock of the run.";
    spec.caption = joined(what, &spec.caption);
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

/// Programs with a timeline, of those of one plan.
const MOST_TIMELINES: usize = 4;

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

    /// The bars of whole runs of a program.
    fn whole_runs(&self) -> [FigureSpec; 2] {
        let of = |id: &str, title: &str, by, caption: &str| {
            let mut spec = self.breakdown();
            (spec.id, spec.title, spec.by) = (id.to_owned(), title.to_owned(), by);
            spec.caption = joined(caption, &spec.caption);
            spec
        };
        let class = "All threads of the program together. It computes between its calls; in its own order a thread waits for \
                     another one of the program, whatever the file system is.";
        let wait = "The same time by what the threads waited for. What the program computes and its own order are its own; all \
                    the rest is the file system's and the machine's.";
        [
            of("class", "Where the time went, by class of call", By::Class, class),
            of("wait", "What the program waited for", By::Wait, wait),
        ]
    }

    /// What each program did when.
    fn timelines(&self) -> Vec<FigureSpec> {
        let timeline = |(at, workload): (usize, Option<&&str>)| {
            let mut spec = self.breakdown();
            spec.kind = Kind::Timeline;
            spec.panel = None;
            let of = workload.map_or_else(String::new, |name| format!(": {}", axis::label(name, &[])));
            (spec.id, spec.title) = (format!("when-{}", at + 1), format!("What the program did when{of}"));
            let parts = "The first run, in at most 128 parts of equal length. A class of calls has a bar where it took a \
                         twentieth of the threads' time or more.";
            spec.caption = joined(parts, &spec.caption);
            if let Some(name) = workload {
                spec.only.insert("workload".to_owned(), OneOrMany::One((*name).to_owned()));
            }
            spec
        };
        match self.values.get("workload") {
            Some(several) => {
                several.iter().take(MOST_TIMELINES).map(Some).enumerate().map(timeline).collect()
            }
            None => vec![timeline((0, None))],
        }
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

/// Two sentences, of which the second may be empty.
fn joined(first: &str, second: &str) -> String {
    if second.is_empty() { first.to_owned() } else { format!("{first} {second}") }
}

/// At which values of the axes that are not drawn a figure is.
fn note<'v>(fixed: impl Iterator<Item = (&'v &'v str, &'v &'v str)>) -> String {
    let fixed: Vec<String> = fixed
        .map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[value])))
        .collect();
    if fixed.is_empty() { String::new() } else { format!("Shown at {}.", fixed.join(", ")) }
}
