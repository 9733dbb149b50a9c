//! A heat map: a row for each x, a column for each series, a field for each value, the darker the larger.
//!
//! Ratios share one logarithmic scale, from 1 to the largest of the panel, so that a field tells the same everywhere; what falls
//! below 1 is hatched. A class is the darker the less its curve scales. Other numbers are compared within their row, whose largest
//! is the darkest: rows differ by orders of magnitude. Every field carries its number, so that nothing rests on its shade alone; on
//! a page too narrow for the longest, none does, and the table of the figure has them all.

use super::frame::tooltip;
use super::svg::{Anchor, Svg};
use super::{Size, description};
use crate::figure::{Figure, Panel, Point};
use crate::units::Unit;
use sim::math;

const ROW: f64 = 26.0;
/// A field of the least value is still told apart from one that was not measured.
const LIGHTEST: f64 = 0.06;
const DARKEST: f64 = 0.92;
/// A shade from here on carries a light number.
const DARK: f64 = 0.55;

pub(super) fn draw(figure: &Figure, panel: &Panel, size: Size) -> String {
    let font = size.font;
    let measure = Svg::new(size);
    let longest = |names: &mut dyn Iterator<Item = &String>| {
        names.map(|name| measure.text_width(name)).fold(0.0, f64::max)
    };
    let left = longest(&mut panel.xs.iter().map(|x| &x.label)) + 12.0;
    let width = (size.width - left - 4.0) / figure.series.len().max(1) as f64;
    let name = longest(&mut figure.series.iter());
    // Names of narrow columns stand upright.
    let upright = name + font * 0.5 > width;
    let top = if upright { name + font } else { font * 2.0 };
    let height = top + ROW * panel.xs.len() as f64 + 6.0;
    let mut svg = Svg::new(Size { height, ..size });
    for (series, name) in figure.series.iter().enumerate() {
        let middle = left + (series as f64 + 0.5) * width;
        if upright {
            svg.upright("tick", (middle + font * 0.35, top - font * 0.5), name);
        } else {
            svg.text("tick", (middle, font * 1.2), Anchor::Middle, name);
        }
    }
    for (x, value) in panel.xs.iter().enumerate() {
        let y = top + x as f64 * ROW;
        svg.text("tick", (left - 8.0, y + ROW / 2.0 + font * 0.35), Anchor::End, &value.label);
    }
    let number = |point: &Point| figure.unit.human(point.y.value);
    let fit = panel.points.iter().all(|point| measure.text_width(&number(point)) * 0.9 <= width);
    for point in &panel.points {
        let at = (left + point.series as f64 * width, top + point.x as f64 * ROW);
        let shade = field(&mut svg, (figure, panel, point), at, width);
        if fit {
            let class = if shade >= DARK { "number on-dark" } else { "number" };
            let middle = (at.0 + width / 2.0, at.1 + ROW / 2.0 + font * 0.32);
            svg.text(class, middle, Anchor::Middle, &number(point));
        }
    }
    svg.finish(&description(figure, panel))
}

/// Draws a field without its number; returns how dark it is.
fn field(
    svg: &mut Svg,
    (figure, panel, point): (&Figure, &Panel, &Point),
    at: (f64, f64),
    width: f64,
) -> f64 {
    let shade = shade(figure, panel, point);
    let (corner, extent) = ((at.0 + 1.0, at.1 + 1.0), (width - 2.0, ROW - 2.0));
    let title = tooltip(figure, panel, point);
    svg.shaded("k0 area", corner, extent, shade, &title);
    if figure.unit == Unit::Ratio && point.y.value < 1.0 {
        svg.rect("h1", corner, extent, &title);
    }
    shade
}

/// How dark a field is, from 0 to 1.
fn shade(figure: &Figure, panel: &Panel, point: &Point) -> f64 {
    let part = if figure.unit == Unit::Ratio {
        let most = panel.points.iter().map(|other| other.y.value).fold(1.0, f64::max);
        if most > 1.0 { math::ln(point.y.value.max(1.0)) / math::ln(most) } else { 0.0 }
    } else if figure.unit == Unit::Class {
        point.y.value / 3.0
    } else {
        let most = panel.at(point.x).map(|other| other.y.value).fold(0.0, f64::max);
        if most > 0.0 { point.y.value / most } else { 0.0 }
    };
    LIGHTEST + part.clamp(0.0, 1.0) * (DARKEST - LIGHTEST)
}
