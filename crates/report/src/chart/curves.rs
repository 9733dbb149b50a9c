//! Curves without markers: how latencies are distributed, and how a rate went over time.

use super::frame::{tick_text, ticks};
use super::palette::Palette;
use super::svg::{Anchor, Svg, n};
use super::{NARROW, SMALL, Size, WIDE};
use crate::figure::Kind;
use crate::units::Unit;
use sim::math;

/// One chart of curves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curves {
    /// What distinguishes it from its neighbours; empty if it is alone.
    pub(crate) title: String,
    /// The x axis in words, and what it counts.
    pub(crate) x: (String, Unit),
    /// Whether the x axis is logarithmic.
    pub(crate) x_log: bool,
    /// The y axis in words, and what it counts.
    pub(crate) y: (String, Unit),
    /// Where the y axis ends; the largest value if it is not said.
    pub(crate) y_most: Option<f64>,
    /// Name and points of each curve.
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// The drawings, one for each size; `alone` says whether there are no others beside it.
pub(crate) fn draw(curves: &Curves, palette: &Palette, alone: bool) -> Vec<String> {
    let sizes: &[Size] = if alone { &[WIDE, NARROW] } else { &[SMALL] };
    sizes.iter().map(|size| draw_at(curves, palette, *size)).collect()
}

pub(super) fn draw_at(curves: &Curves, palette: &Palette, size: Size) -> String {
    let mut svg = Svg::new(size);
    let font = size.font;
    let points = || curves.lines.iter().flat_map(|(_, points)| points);
    let largest = curves.y_most.unwrap_or_else(|| points().map(|point| point.1).fold(0.0, f64::max));
    let scale = curves.y.1.scale(largest);
    let (top, bottom) = (font * 2.4, size.height - font * 3.6);
    let (most, step) = ticks(largest / scale.divisor, (bottom - top) / (font * 3.6));
    let most = if curves.y_most.is_some() { largest / scale.divisor } else { most };
    let widest = svg.text_width(&tick_text(most, step)).max(svg.text_width(&tick_text(step, step)));
    let (left, right) = (widest + 12.0, size.width - 14.0);
    let unit = if scale.name.is_empty() { String::new() } else { format!(" ({})", scale.name) };
    svg.text("title", (2.0, font), Anchor::Start, &format!("{}{unit}", curves.y.0));
    let y = |value: f64| bottom - (value / scale.divisor / most).clamp(0.0, 1.0) * (bottom - top);
    for at in 0..=(most / step + 0.001) as usize {
        let value = at as f64 * step;
        let line = y(value * scale.divisor);
        svg.line(if at == 0 { "axis" } else { "grid" }, (left, line), (right, line));
        svg.text("tick", (left - 6.0, line + font * 0.35), Anchor::End, &tick_text(value, step));
    }
    let axis = Across::new(curves, (left, right));
    axis.draw(&mut svg, curves.x.1, bottom);
    let log = if curves.x_log { ", log scale" } else { "" };
    let title = format!("{}{log}", curves.x.0);
    svg.text("title", (f64::midpoint(left, right), size.height - 5.0), Anchor::Middle, &title);
    for (name, points) in &curves.lines {
        let corners: Vec<String> =
            points.iter().map(|(px, py)| format!("{} {}", n(axis.x(*px)), n(y(*py)))).collect();
        if corners.len() > 1 {
            let look = palette.look(Kind::Lines, name);
            svg.path(&look.line(), &format!("M{}", corners.join("L")), name);
        }
    }
    let names: Vec<&str> = curves.lines.iter().map(|(name, _)| name.as_str()).collect();
    let of = if curves.title.is_empty() { String::new() } else { format!(" of {}", curves.title) };
    svg.finish(&format!(
        "Curves{of}: {} by {} for {}. The numbers are in the table below.",
        curves.y.0,
        curves.x.0,
        names.join(", ")
    ))
}

/// The x axis.
struct Across {
    left: f64,
    right: f64,
    least: f64,
    most: f64,
    log: bool,
}

impl Across {
    /// An axis on which all points lie. A logarithmic one begins and ends at a mark, so that it always has two labels.
    fn new(curves: &Curves, (left, right): (f64, f64)) -> Self {
        let values = curves.lines.iter().flat_map(|(_, points)| points).map(|point| point.0);
        let most = values.clone().fold(0.0, f64::max);
        let least = values.filter(|x| !curves.x_log || *x > 0.0).fold(f64::INFINITY, f64::min);
        if !curves.x_log || !least.is_finite() {
            return Self { left, right, least, most, log: false };
        }
        let marks = marks(least, most);
        let (least, most) = (marks[0], marks[marks.len() - 1]);
        Self { left, right, least, most, log: true }
    }

    fn x(&self, value: f64) -> f64 {
        let turn = |value: f64| if self.log { math::ln(value.max(self.least)) } else { value };
        let (least, most) = (if self.log { math::ln(self.least) } else { 0.0 }, turn(self.most));
        let part = if most > least { (turn(value) - least) / (most - least) } else { 0.5 };
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Marks on a logarithmic axis, round steps on another; labels that would touch are left out.
    fn draw(&self, svg: &mut Svg, unit: Unit, bottom: f64) {
        let font = svg.size.font;
        let values: Vec<f64> = if self.log {
            marks(self.least, self.most)
        } else {
            let scale = unit.scale(self.most);
            let (_, step) = ticks(self.most / scale.divisor, (self.right - self.left) / (font * 6.0));
            (0..=(self.most / scale.divisor / step + 0.001) as usize)
                .map(|at| at as f64 * step * scale.divisor)
                .collect()
        };
        let mut free = f64::NEG_INFINITY;
        for value in values {
            let x = self.x(value);
            svg.line("axis", (x, bottom), (x, bottom + 4.0));
            let text = unit.human(value);
            let half = svg.text_width(&text) / 2.0;
            // At the end of the axis the label moves inwards.
            let middle = x.min(svg.size.width - half).max(half);
            if middle - half > free {
                svg.text("tick", (middle, bottom + font * 1.4), Anchor::Middle, &text);
                free = middle + half + 8.0;
            }
        }
    }
}

/// The marks of a logarithmic axis, the first at or below `least` and the last at or above `most`: powers of ten over two decades
/// or more, else 1, 2 and 5 as well.
fn marks(least: f64, most: f64) -> Vec<f64> {
    let digits: &[f64] = if most / least < 100.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (math::log10(least).floor() as i32 - 1, math::log10(most).ceil() as i32 + 1);
    let all = (first..=last).flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
    let all: Vec<f64> = all.collect();
    let begin = all.iter().rposition(|mark| *mark <= least * 1.001).unwrap_or(0);
    let end = all.iter().position(|mark| *mark >= most * 0.999 && *mark > all[begin]);
    all[begin..=end.unwrap_or(all.len() - 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_begins_and_ends_at_a_mark_and_has_two_at_least() {
        assert_eq!(marks(213.0, 10_600.0), [200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4]);
        assert_eq!(marks(3_800.0, 7_850.0), [2e3, 5e3, 1e4]);
        assert_eq!(marks(1e3, 1e3), [1e3, 2e3]);
        assert_eq!(marks(120.0, 270_000.0), [1e2, 1e3, 1e4, 1e5, 1e6]);
        assert_eq!(marks(1.0, 1e9).len(), 10);
    }
}
