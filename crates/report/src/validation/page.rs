//! The page of `weir validate`: published and modelled lines side by side, and every table.

use std::collections::BTreeMap;

use askama::Template;
use results::statistics::{Coverage, Interval};
use results::validation::{Compared, Row, State, ValidationFile};

use super::{Predict, factor, percent, tables};
use crate::cell::Estimate;
use crate::chart::{self, Palette};
use crate::figure::{Figure, Kind, Panel, Point, XValue};
use crate::format::{PageFigure, RenderError, page_figure};
use crate::table::Table;
use crate::trust;
use crate::units::{Unit, digits};

/// The lines of a panel, in the order of the legend.
const SERIES: [&str; 2] = ["published", "Weir"];
/// A curve has so many points at least.
const FEWEST: usize = 3;

#[derive(Template)]
#[template(path = "validation.html")]
struct Page {
    title: String,
    patterns: String,
    answer: String,
    notes: Vec<String>,
    figures: Vec<PageFigure>,
    tables: Vec<Table>,
    command: String,
    facts: Vec<(String, String)>,
    trust: Table,
}

/// One page that opens offline, with a chart for each curve of at least three points by threads or by size.
pub fn page(found: &ValidationFile, null: Option<Predict<'_>>) -> Result<String, RenderError> {
    let mut palette = Palette::default();
    for name in SERIES {
        palette.add(Kind::Lines, name);
    }
    let figures = figures(&found.rows);
    let page = Page {
        title: "The model beside published measurements".to_owned(),
        patterns: chart::patterns(),
        answer: answer(found),
        notes: notes(found),
        figures: figures.iter().map(|figure| page_figure(figure.id.clone(), figure, &palette)).collect(),
        tables: tables(found, null),
        command: found.command.clone(),
        facts: vec![(
            "version".to_owned(),
            format!(
                "{} {}",
                found.environment.weir_version,
                found.environment.commit.as_deref().unwrap_or_default()
            ),
        )],
        trust: trust::table(),
    };
    Ok(page.render()?)
}

/// The error of all rows that count, and how many limits hold.
fn answer(found: &ValidationFile) -> String {
    let limits = || found.limits.iter().filter(|limit| limit.scope == "all");
    let computed = limits().filter(|limit| limit.state != State::NotComputed).count();
    let hold = limits().filter(|limit| limit.state == State::Pass).count();
    let limits = format!("{hold} of {computed} limits hold.");
    match found.summaries.iter().find(|one| one.by == "all") {
        Some(all) if all.compared > 0 => format!(
            "{} rows count: Weir is at {} of the published speed, the median error is {}, and nine of ten rows are within a \
             factor of {}. {limits}",
            all.compared,
            factor(all.bias),
            percent(all.median_error),
            all.p90_factor.map_or_else(String::new, digits),
        ),
        _ => format!("No row that counts was measured. {limits}"),
    }
}

/// What was turned on, and which limits are missed.
fn notes(found: &ValidationFile) -> Vec<String> {
    let with = (!found.with.is_empty()).then(|| format!("Added to every row: {}.", found.with.join(", ")));
    let missed = found.limits.iter().filter(|limit| limit.scope == "all" && limit.state == State::Miss);
    let missed: Vec<String> = missed.map(|limit| format!("{} ({})", limit.what, limit.found)).collect();
    let missed = (!missed.is_empty()).then(|| format!("Missed: {}.", missed.join("; ")));
    with.into_iter().chain(missed).collect()
}

/// What the points of a curve differ in.
#[derive(Clone, Copy)]
enum Axis {
    Threads,
    Size,
}

impl Axis {
    /// Where a row stands on it: as a number, and as its id has it.
    fn place(self, row: &Row) -> Option<(f64, String)> {
        match self {
            Self::Threads => Some((row.threads as f64, row.threads.to_string())),
            Self::Size => Some((row.size.parse::<sim::Bytes>().ok()?.0 as f64, row.size.clone())),
        }
    }

    /// The curve that a row is a point of: its id without the place.
    fn curve(self, row: &Row) -> Option<(String, f64, String)> {
        let (number, text) = self.place(row)?;
        let parts: Vec<&str> = row.id.split('.').collect();
        let at = parts.iter().rposition(|part| *part == text)?;
        let rest: Vec<&str> =
            parts.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, part)| *part).collect();
        Some((rest.join("."), number, text))
    }
}

/// Rows of a curve by their place on the axis, with its text.
type Points<'r> = BTreeMap<u64, (&'r Row, String)>;
/// Points of each curve, by its name.
type Curves<'r> = BTreeMap<String, Points<'r>>;

/// A figure for each class and axis that has curves.
fn figures(rows: &[Row]) -> Vec<Figure> {
    let mut classes: Vec<&str> = Vec::new();
    for row in rows {
        if !classes.contains(&row.class.as_str()) {
            classes.push(&row.class);
        }
    }
    let axes = [Axis::Threads, Axis::Size];
    classes.iter().flat_map(|class| axes.iter().flat_map(|axis| figures_of(rows, class, *axis))).collect()
}

/// The figures of a class: one for each unit.
fn figures_of(rows: &[Row], class: &str, axis: Axis) -> Vec<Figure> {
    let mut units: BTreeMap<String, Curves<'_>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.class == class && row.measured.is_some()) {
        if let Some((curve, number, text)) = axis.curve(row) {
            let curves = units.entry(row.unit.clone()).or_default();
            curves.entry(curve).or_default().insert(number as u64, (row, text));
        }
    }
    let figure = |(unit, mut curves): (String, Curves<'_>)| {
        curves.retain(|_, points| points.len() >= FEWEST);
        (!curves.is_empty()).then(|| figure(class, axis, &unit, &curves))
    };
    units.into_iter().filter_map(figure).collect()
}

fn figure(class: &str, axis: Axis, unit: &str, curves: &Curves<'_>) -> Figure {
    let (by, x_label, x_log) = match axis {
        Axis::Threads => ("threads", "threads", false),
        Axis::Size => ("size", "bytes of an access", true),
    };
    let id = format!("{class}-{by}-{}", unit.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let (scale, unit, y_label) = scale(unit);
    let predicted = curves.values().flatten().any(|(_, (row, _))| row.compared == Compared::Predicted);
    let caption = "Titles are the rows' names without their place on the axis. Bars are the spread of the published runs, where \
                   the source has it.";
    let alone =
        if predicted { " Charts with one line are predictions: no published value is at hand." } else { "" };
    Figure {
        id,
        title: format!("{class}, by {by}"),
        caption: format!("{caption}{alone}"),
        kind: Kind::Lines,
        x_label: x_label.to_owned(),
        x_log,
        y_label,
        unit,
        series: SERIES.map(str::to_owned).to_vec(),
        panels: longest_first(curves).map(|(name, points)| panel(name, points, scale)).collect(),
    }
}

/// The curves of most points are at the top.
fn longest_first<'c, 'r>(curves: &'c Curves<'r>) -> impl Iterator<Item = (&'c String, &'c Points<'r>)> {
    let mut sorted: Vec<_> = curves.iter().collect();
    sorted.sort_by_key(|(_, points)| std::cmp::Reverse(points.len()));
    sorted.into_iter()
}

/// Units of rows as units of figures: what one is, and what the axis counts.
fn scale(unit: &str) -> (f64, Unit, String) {
    let (scale, kind, what) = match unit {
        "GiB/s" => (f64::from(1 << 30), Unit::BytesPerSecond, "bandwidth"),
        "MiB/s" => (f64::from(1 << 20), Unit::BytesPerSecond, "bandwidth"),
        "ops/s" => (1.0, Unit::OpsPerSecond, "throughput"),
        "us" => (1e3, Unit::Nanos, "time of a call"),
        unit if unit.starts_with("ns") => (1.0, Unit::Nanos, "time"),
        other => (1.0, Unit::Count, other),
    };
    (scale, kind, what.to_owned())
}

fn panel(name: &str, points: &Points<'_>, scale: f64) -> Panel {
    let mut panel = Panel { title: name.to_owned(), ..Panel::default() };
    for (x, (number, (row, label))) in points.iter().enumerate() {
        panel.xs.push(XValue { label: label.clone(), number: Some(*number as f64) });
        let mut add = |series, value: f64, interval| {
            let y = Estimate { value: value * scale, interval, repeats: 1 };
            panel.points.push(Point { x, series, y, cell: 0, failed: (0, 1), cut_short: false });
        };
        if row.published > 0.0 {
            let (low, high) = row.published_range();
            let range = Interval { low: low * scale, high: high * scale, coverage: Coverage::Range };
            add(0, row.published, (high > low).then_some(range));
        }
        if let Some(measured) = row.measured {
            add(1, measured, None);
        }
    }
    panel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, threads: u64, published: f64) -> Row {
        let compared = if published > 0.0 { Compared::Yes } else { Compared::Predicted };
        let (class, unit) = ("media".to_owned(), "GiB/s".to_owned());
        let mut row = Row { id: id.to_owned(), class, unit, threads, published, compared, ..Row::default() };
        row.measure(2.0);
        row
    }

    #[test]
    fn points_of_a_curve_are_in_one_panel_and_predictions_have_one_line() {
        let published = [1, 4, 24].map(|threads| row(&format!("opt.nt.{threads}"), threads, 1.0));
        let predicted = [1, 2, 4, 8].map(|threads| row(&format!("six.nt.{threads}"), threads, 0.0));
        let figures = figures(&[&published[..], &predicted[..], &[row("opt.read.1", 1, 1.0)]].concat());
        let [figure] = &figures[..] else { panic!("{figures:?}") };
        let panels: Vec<_> = figure.panels.iter().map(|panel| (&*panel.title, panel.points.len())).collect();
        assert_eq!(panels, [("six.nt", 4), ("opt.nt", 6)], "a curve of one point is none");
        assert!(figure.caption.contains("predictions"));
    }

    #[test]
    fn the_page_says_how_many_limits_hold_and_which_do_not() {
        let limit = |number, state| results::validation::Limit {
            number,
            what: format!("limit {number}"),
            scope: "all".to_owned(),
            state,
            ..Default::default()
        };
        let found = ValidationFile {
            limits: vec![limit(1, State::Pass), limit(8, State::Miss), limit(12, State::NotComputed)],
            ..ValidationFile::default()
        };
        let text = page(&found, None).unwrap();
        assert!(text.contains("1 of 2 limits hold") && text.contains("Missed: limit 8"), "{text}");
    }
}
