//! Groups of bars: a group for each x, a bar for each series, whiskers for intervals.

use super::frame::{self, Frame, published_tooltip, tooltip};
use super::palette::{self, Palette};
use super::svg::{Anchor, Svg};
use super::{Size, description};
use crate::figure::{Figure, Panel, Point};

/// The part of a group's slot that its bars take.
const FILLED: f64 = 0.82;
/// A bar narrower than this carries no number.
const NUMBER_WIDTH: f64 = 30.0;
const WIDEST_BAR: f64 = 64.0;
const LEAST_WHISKER: f64 = 4.0;

pub(super) fn draw(figure: &Figure, panel: &Panel, palette: &Palette, size: Size) -> String {
    let mut svg = Svg::new(size);
    let frame = Frame::new(figure, panel, &svg, true);
    let layout = Layout::new(figure, panel, &frame);
    frame.draw_y(&mut svg, figure);
    for (x, value) in panel.xs.iter().enumerate() {
        frame.draw_x(&mut svg, layout.middle(x), &value.label);
    }
    for point in &panel.points {
        bar(&mut svg, figure, panel, palette, &frame, &layout, point);
    }
    for mark in &panel.published {
        let at = layout.bar(mark.x, mark.series) + layout.bar / 2.0;
        let band = frame.band(mark.claim.low, mark.claim.high);
        let published = mark.claim.published.map(|value| frame.y(value));
        let half = layout.bar / 2.0 + 3.0;
        palette::target(&mut svg, at, half, band, published, &published_tooltip(figure, mark));
    }
    for point in &panel.points {
        label(&mut svg, figure, panel, &frame, &layout, point);
    }
    for (x, series) in &panel.failed {
        failure(&mut svg, &frame, &layout, (*x, *series));
    }
    frame.draw_x_title(&mut svg, &figure.x_label);
    svg.finish(&description(figure, panel))
}

/// Where the bars stand.
struct Layout {
    left: f64,
    slot: f64,
    bar: f64,
    /// Bars in a group; 1 if each group has a single bar, which then stands in the middle.
    bars: usize,
}

impl Layout {
    fn new(figure: &Figure, panel: &Panel, frame: &Frame) -> Self {
        let bars = if figure.is_single() { 1 } else { figure.series.len() };
        let slot = (frame.right - frame.left) / panel.xs.len().max(1) as f64;
        Self { left: frame.left, slot, bar: (slot * FILLED / bars as f64).min(WIDEST_BAR), bars }
    }

    fn middle(&self, x: usize) -> f64 {
        self.left + (x as f64 + 0.5) * self.slot
    }

    /// The left edge of a bar.
    fn bar(&self, x: usize, series: usize) -> f64 {
        let place = if self.bars == 1 { 0 } else { series };
        self.middle(x) + (place as f64 - self.bars as f64 / 2.0) * self.bar
    }
}

fn bar(
    svg: &mut Svg,
    figure: &Figure,
    panel: &Panel,
    palette: &Palette,
    frame: &Frame,
    layout: &Layout,
    point: &Point,
) {
    let look = palette.look(figure.kind, &figure.series[point.series]);
    let (x, y) = (layout.bar(point.x, point.series), frame.y(point.y.value));
    let gap = (layout.bar * 0.06).min(2.0);
    let extent = (layout.bar - 2.0 * gap, frame.bottom - y);
    palette::area(svg, look, (x + gap, y), extent, &tooltip(figure, panel, point));
    if let Some(interval) = point.y.interval {
        let (low, high) = (frame.y(interval.low), frame.y(interval.high));
        whisker(svg, &look.whisker(), x + layout.bar / 2.0, low, high);
    }
}

/// The sign of a cell that has failed, where its bar would stand.
fn failure(svg: &mut Svg, frame: &Frame, layout: &Layout, (x, series): (usize, usize)) {
    let middle = layout.bar(x, series) + layout.bar / 2.0;
    let word = if layout.bar >= svg.text_width("failed") { "failed" } else { "✕" };
    svg.text("tick", (middle, frame.bottom - 6.0), Anchor::Middle, word);
}

/// The number over a bar, drawn last: nothing may lie over it.
fn label(svg: &mut Svg, figure: &Figure, panel: &Panel, frame: &Frame, layout: &Layout, point: &Point) {
    if layout.bar >= NUMBER_WIDTH {
        let middle = layout.bar(point.x, point.series) + layout.bar / 2.0;
        let top = frame.y(point.y.top());
        svg.text("number", (middle, top - 5.0), Anchor::Middle, &number(figure, panel, point));
    }
}

/// The value in the unit of the axis.
fn number(figure: &Figure, panel: &Panel, point: &Point) -> String {
    let scale = figure.unit.scale(frame::largest(panel));
    figure.unit.digits(point.y.value, scale)
}

/// An interval as a vertical line with end strokes; one too small to be seen is left to the table.
pub(super) fn whisker(svg: &mut Svg, class: &str, x: f64, low: f64, high: f64) {
    if low - high < LEAST_WHISKER {
        return;
    }
    // A margin of the page's colour under it keeps it visible on a bar of its own colour.
    for class in ["margin", class] {
        svg.line(class, (x, low), (x, high));
        for y in [low, high] {
            svg.line(class, (x - 4.0, y), (x + 4.0, y));
        }
    }
}
