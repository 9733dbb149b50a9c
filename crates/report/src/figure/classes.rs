//! The map of classes: for each position and series how the curve over the number of threads goes.

use results::ResultFile;
use results::curve::{self, Curve};

use super::build::{panels_of, values_of};
use super::{Figure, FigureError, FigureSpec, Kind, Panel, Point, XValue};
use crate::axis;
use crate::cell::{Cell, Estimate};
use crate::units::Unit;

pub(super) fn build(
    spec: &FigureSpec,
    results: &ResultFile,
    cells: &[Cell<'_>],
) -> Result<Figure, FigureError> {
    let (xs, series) = (values_of(cells, &spec.x)?, values_of(cells, &spec.series)?);
    let curves: Vec<Curve> =
        curve::curves(results).into_iter().filter(|curve| belongs(curve, spec)).collect();
    let map = Map { spec, cells, curves: &curves, xs: &xs, series: &series };
    let panels =
        panels_of(cells, spec)?.into_iter().map(|panel| map.panel(panel)).collect::<Result<Vec<_>, _>>()?;
    if panels.iter().all(|panel| panel.points.is_empty()) {
        return Err(FigureError::NotMeasured(spec.metric.clone()));
    }
    let x_label =
        if spec.x_label.is_empty() { axis::title(&spec.x).to_owned() } else { spec.x_label.clone() };
    Ok(Figure {
        id: spec.id.clone(),
        title: spec.title.clone(),
        caption: spec.caption.clone(),
        kind: Kind::Classes,
        x_label,
        x_log: false,
        y_label: "class of the curve".to_owned(),
        unit: Unit::Class,
        series: series.iter().map(|name| axis::label(name, &series)).collect(),
        panels,
    })
}

fn belongs(curve: &Curve, spec: &FigureSpec) -> bool {
    // The number of threads is along the curve.
    let others = spec.only.iter().filter(|(axis, _)| *axis != crate::scaling::THREADS);
    others.into_iter().all(|(axis, wanted)| curve.axes.get(axis).is_some_and(|value| wanted.admits(value)))
}

struct Map<'a> {
    spec: &'a FigureSpec,
    cells: &'a [Cell<'a>],
    curves: &'a [Curve],
    xs: &'a [&'a str],
    series: &'a [&'a str],
}

impl Map<'_> {
    fn panel(&self, panel: Option<&str>) -> Result<Panel, FigureError> {
        let mut points = Vec::new();
        for (x, position) in self.xs.iter().enumerate() {
            for (series, name) in self.series.iter().enumerate() {
                points.extend(self.point((x, position), (series, name), panel)?);
            }
        }
        Ok(Panel {
            title: panel.map_or_else(String::new, |value| axis::label(value, &[])),
            xs: self.xs.iter().map(|x| XValue { label: axis::label(x, self.xs), number: None }).collect(),
            points,
            ..Panel::default()
        })
    }

    /// The class of the one curve there, if it has one.
    fn point(
        &self,
        (x, position): (usize, &str),
        (series, name): (usize, &str),
        panel: Option<&str>,
    ) -> Result<Option<Point>, FigureError> {
        let spec = self.spec;
        let has = |axes: &std::collections::BTreeMap<String, String>| {
            let is = |axis: &str, value: &str| axes.get(axis).is_some_and(|has| has == value);
            is(&spec.x, position)
                && is(&spec.series, name)
                && spec.panel.as_ref().zip(panel).is_none_or(|(axis, value)| is(axis, value))
        };
        let mut found = self.curves.iter().filter(|curve| has(&curve.axes));
        let Some(curve) = found.next() else { return Ok(None) };
        if let Some(other) = found.next() {
            let differing = curve.axes.iter().find(|(axis, value)| other.axes.get(*axis) != Some(value));
            let (axis, value) = differing.map_or(("", ""), |(axis, value)| (axis, value));
            let values = format!("{value}, {}", other.axes.get(axis).map_or("", String::as_str));
            return Err(FigureError::Mixed { axis: axis.to_owned(), values });
        }
        let Some(class) = curve.classified() else { return Ok(None) };
        let here: Vec<&Cell<'_>> = self.cells.iter().filter(|cell| has(cell.axes)).collect();
        let failures = here.iter().map(|cell| cell.failures());
        Ok(Some(Point {
            x,
            series,
            y: Estimate { value: f64::from(class.shape as u8), interval: None, repeats: 1 },
            cell: here.last().map_or(0, |cell| cell.number),
            failed: failures.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
            cut_short: here.iter().any(|cell| cell.is_cut_short()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use results::{Clock, Sample};

    use super::*;
    use crate::chart::{self, Palette};

    /// By benchmark and file system the rates of 1, 10 and 80 workers.
    fn results(cells: &[(&str, &str, [f64; 3])]) -> ResultFile {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        for (workload, fs, rates) in cells {
            for (threads, rate) in ["1", "10", "80"].into_iter().zip(rates) {
                let axes = [("fs", *fs), ("threads", threads), ("workload", *workload)];
                let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
                let mut sample = Sample::new(axes.into(), 0, 1);
                sample.ops = 1;
                sample.throughput_ops_per_s = *rate;
                file.samples.push(sample);
            }
        }
        file
    }

    #[test]
    fn the_map_has_the_letter_of_each_curve_in_chart_and_table_the_same_for_the_same_results() {
        let results = results(&[
            ("fxmark/A", "linux/x", [1.0, 10.0, 80.0]),
            ("fxmark/A", "linux/y", [1.0, 5.0, 4.0]),
            ("fxmark/B", "linux/x", [1.0, 5.0, 1.0]),
            ("fxmark/B", "linux/y", [1.0, 1.1, 1.0]),
        ]);
        let spec = FigureSpec::new("classes", "How the curves go", Kind::Classes);
        let draw = || {
            let figure = Figure::build(&spec, &results).unwrap();
            let drawn = chart::draw(&figure, &figure.panels[0], &Palette::default()).concat();
            (figure.table().rows, drawn)
        };
        let (rows, drawn) = draw();
        assert_eq!(rows, [["A", "L", "S"], ["B", "C", "F"]]);
        for letter in ["L", "S", "C", "F"] {
            assert!(drawn.contains(&format!(">{letter}<")), "{drawn}");
        }
        assert_eq!(draw(), (rows, drawn));
    }

    #[test]
    fn two_counts_of_threads_have_no_class_and_two_curves_at_one_place_are_told() {
        let mut few = results(&[("fxmark/A", "linux/x", [1.0, 10.0, 80.0])]);
        few.samples.remove(1);
        let spec = FigureSpec::new("classes", "t", Kind::Classes);
        assert!(matches!(Figure::build(&spec, &few), Err(FigureError::NotMeasured(_))));
        let mut two = results(&[("fxmark/A", "linux/x", [1.0; 3]), ("fxmark/A", "linux/x", [2.0; 3])]);
        for (place, sample) in two.samples.iter_mut().enumerate() {
            sample.axes.insert("medium".to_owned(), if place < 3 { "dram" } else { "ssd" }.to_owned());
        }
        let told = Figure::build(&spec, &two).unwrap_err().to_string();
        assert!(told.contains("several values of \"medium\" (dram, ssd)"), "{told}");
    }
}
