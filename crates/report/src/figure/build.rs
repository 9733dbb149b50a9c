//! From results to the points of a figure.

use super::{By, Metric, breakdown, classes, timeline, whole};
use super::{Figure, FigureError, FigureSpec, Kind, Panel, Point, Published, PublishedMark, XScale, XValue};
use crate::axis;
use crate::cell::{self, Cell, Estimate};
use crate::scaling;
use crate::units::Unit;
use results::ResultFile;

/// An x axis whose largest value is so many times its smallest is logarithmic.
const LOG_FROM: f64 = 64.0;

impl Figure {
    /// Fills `spec` from `results`.
    pub fn build(spec: &FigureSpec, results: &ResultFile) -> Result<Self, FigureError> {
        let mut cells = cell::cells(results);
        cells.retain(|cell| belongs(cell, spec));
        if cells.is_empty() {
            return Err(FigureError::Empty);
        }
        if spec.kind == Kind::Breakdown {
            return match spec.by {
                By::Activity => breakdown::build(spec, &cells),
                By::Class | By::Wait => whole::build(spec, &cells),
            };
        }
        if spec.kind == Kind::Timeline {
            return timeline::build(spec, &cells);
        }
        if spec.kind == Kind::Classes {
            return classes::build(spec, results, &cells);
        }
        let builder = Builder::new(spec, results, &cells)?;
        let panels = builder.panels.iter().map(|panel| builder.panel(*panel)).collect::<Result<_, _>>()?;
        Ok(builder.finish(panels))
    }
}

fn belongs(cell: &Cell<'_>, spec: &FigureSpec) -> bool {
    spec.only.iter().all(|(axis, wanted)| cell.axis(axis).is_some_and(|value| wanted.admits(value)))
}

/// The distinct values of `axis` among `cells`, in the order in which they are shown.
pub(super) fn values_of<'a>(cells: &[Cell<'a>], axis: &str) -> Result<Vec<&'a str>, FigureError> {
    let mut values = Vec::new();
    if !cells.iter().any(|cell| cell.axis(axis).is_some()) {
        return Err(unknown_axis(cells, axis));
    }
    // A directory of the host has no medium.
    for value in cells.iter().filter_map(|cell| cell.axis(axis)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    axis::sort(&mut values);
    Ok(values)
}

fn unknown_axis(cells: &[Cell<'_>], axis: &str) -> FigureError {
    let known = cell::all_axes(cells).into_keys().collect::<Vec<_>>().join(", ");
    FigureError::UnknownAxis { axis: axis.to_owned(), known }
}

/// The panels' axis values; one nameless panel if there is no such axis.
pub(super) fn panels_of<'a>(
    cells: &[Cell<'a>],
    spec: &FigureSpec,
) -> Result<Vec<Option<&'a str>>, FigureError> {
    match &spec.panel {
        Some(axis) => Ok(values_of(cells, axis)?.into_iter().map(Some).collect()),
        None => Ok(vec![None]),
    }
}

/// The one cell at a place, an error if there are several.
pub(super) fn only_one<'c, 'a>(found: &[&'c Cell<'a>]) -> Result<Option<&'c Cell<'a>>, FigureError> {
    let [first, second, ..] = found else {
        return Ok(found.first().copied());
    };
    let differing = first.axes.iter().find(|(axis, value)| second.axis(axis) != Some(value.as_str()));
    let axis = differing.map_or("", |(axis, _)| axis.as_str());
    let mut values: Vec<&str> = found.iter().filter_map(|cell| cell.axis(axis)).collect();
    values.dedup();
    Err(FigureError::Mixed { axis: axis.to_owned(), values: values.join(", ") })
}

/// What all panels of a figure share while they are built.
struct Builder<'a> {
    spec: &'a FigureSpec,
    results: &'a ResultFile,
    cells: &'a [Cell<'a>],
    panels: Vec<Option<&'a str>>,
    xs: Vec<&'a str>,
    series: Vec<&'a str>,
}

impl<'a> Builder<'a> {
    fn new(
        spec: &'a FigureSpec,
        results: &'a ResultFile,
        cells: &'a [Cell<'a>],
    ) -> Result<Self, FigureError> {
        let panels = panels_of(cells, spec)?;
        let (xs, series) = (values_of(cells, &spec.x)?, values_of(cells, &spec.series)?);
        let builder = Self { spec, results, cells, panels, xs, series };
        builder.check()?;
        Ok(builder)
    }

    fn check(&self) -> Result<(), FigureError> {
        if let Some(reference) = &self.spec.relative_to {
            if !self.series.contains(&reference.as_str()) {
                return Err(FigureError::NoReference { reference: reference.clone() });
            }
        } else if let Some(mark) = self.spec.published.first() {
            return Err(FigureError::NotARatio { claim: mark.claim.clone() });
        }
        let measured = self.cells.iter().any(|cell| !values(cell, &self.spec.metric).is_empty());
        if measured { Ok(()) } else { Err(FigureError::NotMeasured(self.spec.metric.clone())) }
    }

    fn panel(&self, panel: Option<&str>) -> Result<Panel, FigureError> {
        let xs = self.xs_of(panel);
        let (mut points, mut failed) = (Vec::new(), Vec::new());
        for (x, x_value) in xs.iter().enumerate() {
            for (series, name) in self.series.iter().enumerate() {
                let Some(cell) = self.cell(panel, x_value, name)? else { continue };
                match self.estimate(panel, x_value, name)? {
                    Some(y) => {
                        points.push(Point {
                            x,
                            series,
                            y,
                            cell: cell.number,
                            failed: cell.failures(),
                            cut_short: cell.is_cut_short(),
                        });
                    }
                    None if cell.failure().is_some() => failed.push((x, series)),
                    None => {}
                }
            }
        }
        let published =
            self.spec.published.iter().filter_map(|mark| self.published(mark, panel, &xs)).collect();
        let title = panel.map_or_else(String::new, |value| self.panel_title(value));
        let limits = self.limits(panel);
        Ok(Panel { title, xs: self.x_values(&xs), points, published, failed, limits, spans: Vec::new() })
    }

    /// For lines over the number of threads, what holds each back at its end.
    fn limits(&self, panel: Option<&str>) -> Vec<(usize, String)> {
        let spec = self.spec;
        let curves =
            spec.kind == Kind::Lines && spec.x == scaling::THREADS && spec.metric == Metric::Throughput;
        if !curves {
            return Vec::new();
        }
        let limit = |(series, name): (usize, &&str)| {
            let here = |cell: &&Cell<'a>| {
                let in_panel = spec.panel.as_ref().is_none_or(|axis| cell.axis(axis) == panel);
                in_panel && cell.axis(&spec.series) == Some(*name)
            };
            let cells: Vec<Cell<'a>> = self.cells.iter().filter(here).cloned().collect();
            let limit = scaling::curves(&cells).first().and_then(scaling::Curve::limit)?;
            Some((series, scaling::words(&limit, &self.results.lines)))
        };
        self.series.iter().enumerate().filter_map(limit).collect()
    }

    /// The x values that occur in this panel.
    fn xs_of(&self, panel: Option<&str>) -> Vec<&'a str> {
        let here = |x: &&&str| self.cells.iter().any(|cell| self.at(cell, panel, x, None));
        self.xs.iter().filter(here).copied().collect()
    }

    fn at(&self, cell: &Cell<'_>, panel: Option<&str>, x: &str, series: Option<&str>) -> bool {
        let in_panel = self.spec.panel.as_ref().is_none_or(|axis| cell.axis(axis) == panel);
        let in_series = series.is_none() || cell.axis(&self.spec.series) == series;
        in_panel && in_series && cell.axis(&self.spec.x) == Some(x)
    }

    /// The cell at a place; an error if there are several.
    fn cell(&self, panel: Option<&str>, x: &str, series: &str) -> Result<Option<&Cell<'a>>, FigureError> {
        let found: Vec<_> = self.cells.iter().filter(|cell| self.at(cell, panel, x, Some(series))).collect();
        only_one(&found)
    }

    fn values(&self, panel: Option<&str>, x: &str, series: &str) -> Result<Vec<f64>, FigureError> {
        let cell = self.cell(panel, x, series)?;
        Ok(cell.map_or_else(Vec::new, |cell| values(cell, &self.spec.metric)))
    }

    fn estimate(&self, panel: Option<&str>, x: &str, series: &str) -> Result<Option<Estimate>, FigureError> {
        let own = self.values(panel, x, series)?;
        let Some(reference) = &self.spec.relative_to else {
            return Ok(Estimate::of(&own));
        };
        let base = self.values(panel, x, reference)?;
        if series == reference && !own.is_empty() {
            return Ok(Some(Estimate { value: 1.0, interval: None, repeats: own.len() }));
        }
        Ok(Estimate::ratio(&own, &base))
    }

    fn published(&self, mark: &PublishedMark, panel: Option<&str>, xs: &[&str]) -> Option<Published> {
        let in_panel = self.spec.panel.is_none() || mark.panel.as_deref() == panel;
        let claim = self.results.claims.iter().find(|claim| in_panel && claim.id == mark.claim)?;
        let x = xs.iter().position(|x| *x == mark.x)?;
        let series = self.series.iter().position(|series| *series == mark.series)?;
        Some(Published { x, series, claim: claim.clone() })
    }

    fn panel_title(&self, value: &str) -> String {
        let all: Vec<&str> = self.panels.iter().flatten().copied().collect();
        let label = axis::label(value, &all);
        let axis = self.spec.panel.as_deref().unwrap_or_default();
        let named = axis::quantity(value).is_some();
        if named { format!("{} {label}", axis::title(axis)) } else { label }
    }

    fn x_values(&self, xs: &[&str]) -> Vec<XValue> {
        let all_numbers = self.xs.iter().all(|x| axis::quantity(x).is_some());
        let number = |x: &str| if all_numbers { axis::quantity(x) } else { None };
        xs.iter().map(|x| XValue { label: axis::label(x, &self.xs), number: number(x) }).collect()
    }

    fn finish(&self, panels: Vec<Panel>) -> Figure {
        let spec = self.spec;
        let (mut y_label, mut unit) = (spec.metric.title(), spec.metric.unit());
        if let Some(reference) = &spec.relative_to {
            y_label = format!("{y_label}, {reference} = 1");
            unit = Unit::Ratio;
        }
        let x_label =
            if spec.x_label.is_empty() { axis::title(&spec.x).to_owned() } else { spec.x_label.clone() };
        Figure {
            id: spec.id.clone(),
            title: spec.title.clone(),
            caption: spec.caption.clone(),
            kind: self.kind(),
            x_label,
            x_log: self.is_log(),
            y_label,
            unit,
            series: self.series.iter().map(|&name| name.to_owned()).collect(),
            panels,
        }
    }

    /// Lines need numbers to stand on; over names they become bars.
    fn kind(&self) -> Kind {
        let all_numbers = self.xs.iter().all(|x| axis::quantity(x).is_some());
        if all_numbers || self.spec.kind == Kind::Heat { self.spec.kind } else { Kind::Bars }
    }

    fn is_log(&self) -> bool {
        let numbers: Vec<f64> = self.xs.iter().filter_map(|x| axis::quantity(x)).collect();
        let (Some(least), Some(most)) = (numbers.first(), numbers.last()) else {
            return false;
        };
        let possible = *least > 0.0 && numbers.len() == self.xs.len();
        match self.spec.x_scale {
            XScale::Linear => false,
            XScale::Log => possible,
            XScale::Auto => possible && most / least >= LOG_FROM,
        }
    }
}

fn values(cell: &Cell<'_>, metric: &Metric) -> Vec<f64> {
    cell.measured().filter_map(|sample| metric.of(sample)).filter(|value| value.is_finite()).collect()
}
