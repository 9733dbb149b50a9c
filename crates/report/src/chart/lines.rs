//! Lines over a numeric x axis, linear or logarithmic, with markers, dashes and intervals.

use super::bars::whisker;
use super::frame::{Frame, published_tooltip, tooltip};
use super::palette::{self, Palette};
use super::svg::{Anchor, Svg, n};
use super::{Size, description};
use crate::figure::{Figure, Panel, Point};
use sim::math;

/// Room between the frame's edge and the first and last x.
const PADDING: f64 = 22.0;
/// Labels of the x axis stay so far apart.
const LABEL_GAP: f64 = 8.0;
const BAND_HALF: f64 = 9.0;

pub(super) fn draw(figure: &Figure, panel: &Panel, palette: &Palette, size: Size) -> String {
    let mut svg = Svg::new(size);
    let frame = Frame::new(figure, panel, &svg, false);
    let places = places(figure, panel, &frame);
    frame.draw_y(&mut svg, figure);
    labels(&mut svg, panel, &frame, &places);
    for mark in &panel.published {
        let band = frame.band(mark.claim.low, mark.claim.high);
        let published = mark.claim.published.map(|value| frame.y(value));
        let text = published_tooltip(figure, mark);
        palette::target(&mut svg, places[mark.x], BAND_HALF, band, published, &text);
    }
    for series in 0..figure.series.len() {
        line(&mut svg, figure, panel, palette, &frame, &places, series);
    }
    failures(&mut svg, panel, &frame, &places);
    let log = if figure.x_log { " (log scale)" } else { "" };
    frame.draw_x_title(&mut svg, &format!("{}{log}", figure.x_label));
    svg.finish(&description(figure, panel))
}

/// The x coordinate of each position.
fn places(figure: &Figure, panel: &Panel, frame: &Frame) -> Vec<f64> {
    let turn = |value: f64| if figure.x_log { math::ln(value) } else { value };
    let values: Vec<f64> = panel.xs.iter().map(|x| turn(x.number.unwrap_or(0.0))).collect();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let span = values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    let (left, right) = (frame.left + PADDING, frame.right - PADDING);
    let middle = f64::midpoint(left, right);
    values
        .iter()
        .map(|value| if span > 0.0 { left + (value - least) / span * (right - left) } else { middle })
        .collect()
}

/// Labels from the right end, the largest value first, leaving out those that would touch another.
fn labels(svg: &mut Svg, panel: &Panel, frame: &Frame, places: &[f64]) {
    let mut free = f64::INFINITY;
    for (x, value) in panel.xs.iter().enumerate().rev() {
        svg.line("axis", (places[x], frame.bottom), (places[x], frame.bottom + 4.0));
        let half = svg.text_width(&value.label) / 2.0;
        if places[x] + half <= free {
            frame.draw_x(svg, places[x], &value.label);
            free = places[x] - half - LABEL_GAP;
        }
    }
}

/// A sign at each place at which a cell has failed: the table says which series.
fn failures(svg: &mut Svg, panel: &Panel, frame: &Frame, places: &[f64]) {
    let width = svg.text_width("failed") + LABEL_GAP;
    let apart = places.windows(2).all(|pair| pair[1] - pair[0] > width);
    let word = if apart { "failed" } else { "✕" };
    for (x, place) in places.iter().enumerate() {
        if panel.failed.iter().any(|(failed, _)| *failed == x) {
            svg.text("tick", (*place, frame.bottom - 6.0), Anchor::Middle, word);
        }
    }
}

fn line(
    svg: &mut Svg,
    figure: &Figure,
    panel: &Panel,
    palette: &Palette,
    frame: &Frame,
    places: &[f64],
    series: usize,
) {
    let look = palette.look(figure.kind, &figure.series[series]);
    let points: Vec<&Point> = panel.points.iter().filter(|point| point.series == series).collect();
    let at = |point: &Point| (places[point.x], frame.y(point.y.value));
    let corners: Vec<String> = points
        .iter()
        .map(|point| {
            let (x, y) = at(point);
            format!("{} {}", n(x), n(y))
        })
        .collect();
    if corners.len() > 1 {
        svg.path(&look.line(), &format!("M{}", corners.join("L")), "");
    }
    for point in points {
        let (x, y) = at(point);
        if let Some(interval) = point.y.interval {
            whisker(svg, &look.whisker(), x, frame.y(interval.low), frame.y(interval.high));
        }
        svg.path(&look.marker(), &look.marker_path(x, y, 4.5), &tooltip(figure, panel, point));
    }
}
