//! Figures: described by a plan ([`FigureSpec`]), filled from results ([`Figure`]), drawn by `chart`.
//!
//! | module | holds |
//! |---|---|
//! | `spec` | what a plan writes |
//! | `metric` | what may stand on the y axis |
//! | `build` | from results to points, and every reason why that may fail |
//! | `classes` | the same for the map of classes of curves |
//! | `breakdown` | the same for the stacked bars of time |
//! | `whole` | the same for bars of a whole run, by class of call or by what was waited for |
//! | `timeline` | the same for what happened when |
//! | `defaults` | figures for a plan that lists none |

mod breakdown;
mod build;
mod classes;
mod defaults;
mod metric;
mod spec;
pub(crate) mod timeline;
mod whole;

pub(crate) use breakdown::{class, fixed, rank};
pub use metric::Metric;
pub use spec::{By, FigureSpec, Kind, OneOrMany, PublishedMark, XScale};

use crate::cell::Estimate;
use crate::table::Table;
use crate::units::{self, Unit};
use results::ClaimOutcome;

/// The data of a figure: everything that is drawn, and nothing that is not in its table.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Short name, unique in its plan.
    pub id: String,
    /// Heading.
    pub title: String,
    /// What to see in it, and what a reader must know.
    pub caption: String,
    /// How it is drawn.
    pub kind: Kind,
    /// The x axis in words.
    pub x_label: String,
    /// Whether the x axis is logarithmic.
    pub x_log: bool,
    /// The y axis in words, without unit.
    pub y_label: String,
    /// What the y axis counts.
    pub unit: Unit,
    /// The things compared, in the order of the legend.
    pub series: Vec<String>,
    /// One chart each.
    pub panels: Vec<Panel>,
}

/// One chart of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// What distinguishes it from the other panels; empty if it is alone.
    pub title: String,
    /// The positions on the x axis.
    pub xs: Vec<XValue>,
    /// The values, by x and then by series. A cell that was not measured has no point.
    pub points: Vec<Point>,
    /// Published numbers that belong here.
    pub published: Vec<Published>,
    /// Places, as position and series, whose cell has failed.
    pub failed: Vec<(usize, usize)>,
    /// What holds a line back at its end, by series; for throughput over threads.
    pub limits: Vec<(usize, String)>,
    /// What happened when; of a timeline.
    pub spans: Vec<Span>,
}

/// A bar of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Index into the panel's positions: the part of the machine.
    pub x: usize,
    /// Index into the figure's series: the kind of what it did.
    pub series: usize,
    /// When it began, in nanoseconds.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// What it was.
    pub what: String,
}

/// A position on the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct XValue {
    /// As people read it.
    pub label: String,
    /// As a number, when the axis is numeric.
    pub number: Option<f64>,
}

/// A measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Index into the panel's positions.
    pub x: usize,
    /// Index into the figure's series.
    pub series: usize,
    /// The value.
    pub y: Estimate,
    /// The number of the cell that it is of.
    pub cell: usize,
    /// Runs of the cell that failed, and all of them.
    pub failed: (usize, usize),
    /// Whether an interrupt ended a run of the cell before its time.
    pub cut_short: bool,
}

/// A published number and its band at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Index into the panel's positions.
    pub x: usize,
    /// Index into the figure's series.
    pub series: usize,
    /// The claim, judged.
    pub claim: ClaimOutcome,
}

/// Why a figure could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// The plan's list of figures is wrong.
    #[error("the plan's figures cannot be read: {0}")]
    Plan(String),
    /// Nothing that was measured belongs to it.
    #[error("no sample of this figure was measured")]
    Empty,
    /// An axis is named that the samples do not have.
    #[error("there is no axis \"{axis}\"; the samples have {known}")]
    UnknownAxis {
        /// The name.
        axis: String,
        /// The axes that there are.
        known: String,
    },
    /// Several cells fall on one point.
    #[error("several values of \"{axis}\" ({values}) fall on one point; fix one with only.{axis}")]
    Mixed {
        /// The axis that must be fixed.
        axis: String,
        /// Its values.
        values: String,
    },
    /// The series to normalise to was not measured.
    #[error("it is relative to \"{reference}\", which was not measured")]
    NoReference {
        /// The series.
        reference: String,
    },
    /// The samples do not carry the metric.
    #[error("no sample has the metric \"{0}\"")]
    NotMeasured(Metric),
    /// A published number has no meaning on this axis.
    #[error("claim {claim} is a ratio, and this figure is not relative to anything; set relative_to")]
    NotARatio {
        /// The claim.
        claim: String,
    },
}

impl Figure {
    /// The numbers of the figure, all of them.
    pub fn table(&self) -> Table {
        if self.kind == Kind::Timeline {
            return timeline::table(self);
        }
        let mut table = Table::new(self.table_title());
        if self.has_panels() {
            table.words("");
        }
        table.words(&self.x_label);
        if self.is_single() {
            table.numbers(&self.y_label);
        } else {
            self.series.iter().for_each(|name| table.numbers(name));
        }
        if self.kind == Kind::Breakdown {
            table.numbers("sum");
        }
        if self.has_published() {
            table.words("published");
        }
        table.rows = self.panels.iter().flat_map(|panel| self.rows(panel)).collect();
        let heads = 1 + usize::from(self.has_panels());
        table.origins = self.panels.iter().flat_map(|panel| self.origins(panel, heads)).collect();
        table
    }

    /// Whether x and series are the same, so that each x has one value.
    pub(crate) fn is_single(&self) -> bool {
        let single = |panel: &Panel| (0..panel.xs.len()).all(|x| panel.at(x).count() <= 1);
        self.kind != Kind::Breakdown && self.panels.iter().all(single)
    }

    fn table_title(&self) -> String {
        if self.kind == Kind::Classes {
            return format!("{}: L scales, S saturates, C collapses, F never scales", self.y_label);
        }
        let few = self.points().filter_map(|point| point.y.interval).any(|interval| interval.is_range());
        let intervals = self.points().any(|point| point.y.interval.is_some());
        let how = match (intervals, few) {
            (true, true) => "; median of the repeats (their range, from the least to the largest)",
            (true, false) => "; median of the repeats (95 % interval)",
            (false, _) => "; one run of each",
        };
        format!("{}{}", self.y_label, if self.kind == Kind::Breakdown { "" } else { how })
    }

    fn rows<'a>(&'a self, panel: &'a Panel) -> impl Iterator<Item = Vec<String>> + 'a {
        panel.xs.iter().enumerate().map(move |(x, value)| {
            let mut row = Vec::new();
            if self.has_panels() {
                row.push(panel.title.clone());
            }
            row.push(value.label.clone());
            if self.is_single() {
                row.push(panel.at(x).map(|point| self.text(point)).collect());
            } else {
                row.extend((0..self.series.len()).map(|series| self.cell(panel, x, series)));
            }
            if self.kind == Kind::Breakdown {
                row.push(self.unit.human(panel.at(x).map(|point| point.y.value).sum()));
            }
            if self.has_published() {
                row.push(self.published_text(panel, x));
            }
            row
        })
    }

    fn cell(&self, panel: &Panel, x: usize, series: usize) -> String {
        let nothing = if panel.failed.contains(&(x, series)) { "failed" } else { "–" };
        panel.point(x, series).map_or_else(|| nothing.to_owned(), |point| self.text(point))
    }

    fn text(&self, point: &Point) -> String {
        let failed = match point.failed {
            (0, _) => String::new(),
            (failed, all) => format!("; {failed} of {all} runs failed"),
        };
        let cut_short = if point.cut_short { "; cut short" } else { "" };
        format!("{}{failed}{cut_short}", self.human(&point.y))
    }

    /// The cells behind the entries of the table's rows, of which the first `heads` entries are words.
    fn origins<'a>(&'a self, panel: &'a Panel, heads: usize) -> impl Iterator<Item = Vec<usize>> + 'a {
        (0..panel.xs.len()).map(move |x| {
            let first = || panel.at(x).next().map_or(0, |point| point.cell);
            let mut row = vec![0; heads];
            if self.is_single() {
                row.push(first());
            } else {
                let of = |series| panel.point(x, series).map_or(0, |point| point.cell);
                row.extend((0..self.series.len()).map(of));
            }
            if self.kind == Kind::Breakdown {
                row.push(first());
            }
            row
        })
    }

    /// A value with its unit and interval.
    pub fn human(&self, y: &Estimate) -> String {
        match y.interval {
            Some(interval) => self.unit.human_interval(y.value, interval.low, interval.high),
            None => self.unit.human(y.value),
        }
    }

    fn published_text(&self, panel: &Panel, x: usize) -> String {
        let marks = panel.published.iter().filter(|mark| mark.x == x);
        let texts: Vec<String> = marks.map(|mark| self.mark_text(mark)).collect();
        texts.join("; ")
    }

    /// A published number in words.
    pub(crate) fn mark_text(&self, mark: &Published) -> String {
        let published = mark.claim.published.map_or_else(String::new, |value| units::ratio(value) + ", ");
        format!("{}: {published}band {}", self.series[mark.series], crate::claims::band(&mark.claim))
    }

    /// All points of all panels.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.panels.iter().flat_map(|panel| &panel.points)
    }

    fn has_panels(&self) -> bool {
        self.panels.iter().any(|panel| !panel.title.is_empty())
    }

    /// Whether any published number is drawn.
    pub(crate) fn has_published(&self) -> bool {
        self.panels.iter().any(|panel| !panel.published.is_empty())
    }
}

impl Panel {
    /// The points at `x`.
    pub fn at(&self, x: usize) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.x == x)
    }

    /// The point of `series` at `x`.
    pub fn point(&self, x: usize, series: usize) -> Option<&Point> {
        self.points.iter().find(|point| point.x == x && point.series == series)
    }
}
