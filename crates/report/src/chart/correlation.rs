//! Coefficients from -1 to 1 as bars with whiskers, and the points behind one of them.

use super::bars::whisker;
use super::frame::{tick_text, ticks};
use super::palette::{self, Palette};
use super::svg::{Anchor, Svg};
use super::{NARROW, SMALL, Size, WIDE};
use crate::figure::Kind;
use crate::units::Unit;

/// A chart of coefficients.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Coefficients {
    /// What distinguishes it from its neighbours.
    pub(crate) title: String,
    /// The groups of bars, in their order.
    pub(crate) groups: Vec<String>,
    /// The bars of each group, in their order.
    pub(crate) series: Vec<String>,
    /// Group and series, coefficient and standard error; what is not here is not defined.
    pub(crate) bars: Vec<((usize, usize), (f64, f64))>,
}

/// A chart of points.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scatter {
    /// What distinguishes it from its neighbours.
    pub(crate) title: String,
    /// The x axis in words.
    pub(crate) x: String,
    /// The y axis in words.
    pub(crate) y: String,
    /// Name and points of each system.
    pub(crate) systems: Vec<(String, Vec<(f64, f64)>)>,
}

const FILLED: f64 = 0.8;
const WIDEST_BAR: f64 = 48.0;
const MARKER: f64 = 3.6;

/// The bars, one drawing for each size.
pub(crate) fn bars(chart: &Coefficients, palette: &Palette) -> Vec<String> {
    [WIDE, NARROW].iter().map(|size| bars_at(chart, palette, *size)).collect()
}

fn bars_at(chart: &Coefficients, palette: &Palette, size: Size) -> String {
    let mut svg = Svg::new(size);
    let font = size.font;
    let longest = chart.groups.iter().map(|name| svg.text_width(name)).fold(0.0, f64::max);
    let (left, right, top) = (svg.text_width("-0.5") + 12.0, size.width - 8.0, font * 2.4);
    let slot = (right - left) / chart.groups.len().max(1) as f64;
    let slanted = longest > slot;
    let bottom = size.height - if slanted { longest * 0.574 + font * 1.4 } else { font * 2.2 };
    let y = |value: f64| bottom - f64::midpoint(value.clamp(-1.0, 1.0), 1.0) * (bottom - top);
    svg.text("title", (2.0, font), Anchor::Start, "coefficient, with its standard error");
    for tick in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        svg.line(if tick == 0.0 { "axis" } else { "grid" }, (left, y(tick)), (right, y(tick)));
        svg.text("tick", (left - 6.0, y(tick) + font * 0.35), Anchor::End, &tick_text(tick, 0.5));
    }
    let count = chart.series.len().max(1) as f64;
    let width = (slot * FILLED / count).min(WIDEST_BAR);
    let middle = |group: usize| left + (group as f64 + 0.5) * slot;
    for (group, name) in chart.groups.iter().enumerate() {
        match slanted {
            true => svg.slanted("tick", (middle(group) + font * 0.3, bottom + font * 1.2), name),
            false => svg.text("tick", (middle(group), bottom + font * 1.4), Anchor::Middle, name),
        }
    }
    for (group, group_name) in chart.groups.iter().enumerate() {
        for (series, name) in chart.series.iter().enumerate() {
            let x = middle(group) + (series as f64 - count / 2.0) * width;
            let Some((_, (r, error))) = chart.bars.iter().find(|bar| bar.0 == (group, series)) else {
                svg.text("tick", (x + width / 2.0, y(0.0) - 4.0), Anchor::Middle, "n/a");
                continue;
            };
            let look = palette.look(Kind::Bars, name);
            let told = format!("{group_name}, {name}: {r:.2} ± {error:.2}");
            let (high, low) = (y(r.max(0.0)), y(r.min(0.0)));
            palette::area(&mut svg, look, (x + 1.0, high), (width - 2.0, low - high), &told);
            whisker(&mut svg, &look.whisker(), x + width / 2.0, y(r - error), y(r + error));
        }
    }
    let of = if chart.title.is_empty() { String::new() } else { format!(", {}", chart.title) };
    svg.finish(&format!("Bar chart of coefficients{of}. The numbers are in the table below."))
}

/// The points, in the size of a chart among others.
pub(crate) fn scatter(chart: &Scatter, palette: &Palette) -> Vec<String> {
    vec![scatter_at(chart, palette, SMALL)]
}

/// An axis from 0 to a round number.
struct Axis {
    from: f64,
    to: f64,
    most: f64,
    step: f64,
    divisor: f64,
    unit: &'static str,
}

impl Axis {
    fn new(unit: Unit, largest: f64, (from, to): (f64, f64), room: f64) -> Self {
        let scale = unit.scale(largest);
        let (most, step) = ticks(largest / scale.divisor, (to - from).abs() / room);
        Self { from, to, most, step, divisor: scale.divisor, unit: scale.name }
    }

    fn place(&self, value: f64) -> f64 {
        self.from + (value / self.divisor / self.most).clamp(0.0, 1.0) * (self.to - self.from)
    }

    fn ticks(&self) -> impl Iterator<Item = (f64, String)> {
        let count = (self.most / self.step + 0.001) as usize;
        (0..=count)
            .map(|at| at as f64 * self.step)
            .map(|value| (self.place(value * self.divisor), tick_text(value, self.step)))
    }

    fn title(&self, words: &str) -> String {
        if self.unit.is_empty() { words.to_owned() } else { format!("{words} ({})", self.unit) }
    }
}

fn scatter_at(chart: &Scatter, palette: &Palette, size: Size) -> String {
    let mut svg = Svg::new(size);
    let font = size.font;
    let points = || chart.systems.iter().flat_map(|(_, points)| points);
    let largest = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
    let (top, bottom) = (font * 2.4, size.height - font * 3.6);
    let y = Axis::new(Unit::OpsPerSecond, largest(|point| point.1), (bottom, top), font * 3.6);
    let widest = y.ticks().map(|(_, text)| svg.text_width(&text)).fold(0.0, f64::max);
    let (left, right) = (widest + 12.0, size.width - 14.0);
    let x = Axis::new(Unit::Ratio, largest(|point| point.0), (left, right), font * 5.0);
    svg.text("title", (2.0, font), Anchor::Start, &y.title(&chart.y));
    for (at, (place, text)) in y.ticks().enumerate() {
        svg.line(if at == 0 { "axis" } else { "grid" }, (left, place), (right, place));
        svg.text("tick", (left - 6.0, place + font * 0.35), Anchor::End, &text);
    }
    for (place, text) in x.ticks() {
        svg.line("axis", (place, bottom), (place, bottom + 4.0));
        svg.text("tick", (place, bottom + font * 1.4), Anchor::Middle, &text);
    }
    svg.text("title", (f64::midpoint(left, right), size.height - 5.0), Anchor::Middle, &chart.x);
    for (name, points) in &chart.systems {
        let look = palette.look(Kind::Lines, name);
        for (px, py) in points {
            let told = format!("{name}: {} of {px:.4} {}", Unit::OpsPerSecond.human(*py), chart.x);
            svg.path(&look.marker(), &look.marker_path(x.place(*px), y.place(*py), MARKER), &told);
        }
    }
    let names: Vec<&str> = chart.systems.iter().map(|(name, _)| name.as_str()).collect();
    svg.finish(&format!(
        "Points, {}: {} by {} for {}. The coefficients are in the table below.",
        chart.title,
        chart.y,
        chart.x,
        names.join(", ")
    ))
}
