//! Axes, ticks, grid and labels: what bars and lines share.

use super::Size;
use super::palette::Band;
use super::svg::{Anchor, Svg};
use crate::figure::{Figure, Panel};
use crate::units::{self, Scale, Unit};
use sim::math;

/// The plotting area and its y axis.
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    scale: Scale,
    /// The largest tick, in the unit of the scale.
    most: f64,
    step: f64,
    slanted: bool,
}

/// About so many lines of text lie between two ticks of the y axis.
const TICK_LINES: f64 = 3.6;

impl Frame {
    /// The frame for `panel`, whose x labels have `slot` pixels each if they are spread evenly.
    pub(super) fn new(figure: &Figure, panel: &Panel, svg: &Svg, even_labels: bool) -> Self {
        let Size { width, height, font, .. } = svg.size;
        let largest = largest(panel);
        let scale = figure.unit.scale(largest);
        let top = font * 2.4;
        let longest = panel.xs.iter().map(|x| svg.text_width(&x.label)).fold(0.0, f64::max);
        let slot = (width - 70.0) / panel.xs.len().max(1) as f64;
        let slanted = even_labels && longest > slot;
        let label_height = if slanted { (longest * 0.574 + font).min(height * 0.35) } else { font * 1.3 };
        let bottom = height - label_height - font * 2.0;
        let (most, step) = ticks(largest / scale.divisor, (bottom - top) / (TICK_LINES * font));
        let widest = svg.text_width(&tick_text(most, step)).max(svg.text_width(&tick_text(step, step)));
        Self { left: widest + 12.0, right: width - 8.0, top, bottom, scale, most, step, slanted }
    }

    /// The y coordinate of `value`, kept inside the frame.
    pub(super) fn y(&self, value: f64) -> f64 {
        let part = (value / self.scale.divisor / self.most).clamp(0.0, 1.0);
        self.bottom - part * (self.bottom - self.top)
    }

    /// Grid, y ticks and y title; before the data, which lies over it.
    pub(super) fn draw_y(&self, svg: &mut Svg, figure: &Figure) {
        let font = svg.size.font;
        let unit = if figure.unit == Unit::Ratio { "" } else { self.scale.name };
        let title =
            if unit.is_empty() { figure.y_label.clone() } else { format!("{} ({unit})", figure.y_label) };
        svg.text("title", (2.0, font), Anchor::Start, &title);
        let count = (self.most / self.step).round() as usize;
        for at in 0..=count {
            let value = at as f64 * self.step;
            let y = self.y(value * self.scale.divisor);
            let class = if at == 0 { "axis" } else { "grid" };
            svg.line(class, (self.left, y), (self.right, y));
            let text = tick_text(value, self.step);
            svg.text("tick", (self.left - 6.0, y + font * 0.35), Anchor::End, &text);
        }
        if figure.unit == Unit::Ratio {
            let y = self.y(1.0);
            svg.line("one", (self.left, y), (self.right, y));
        }
    }

    /// The label of one x position.
    pub(super) fn draw_x(&self, svg: &mut Svg, x: f64, label: &str) {
        let font = svg.size.font;
        if self.slanted {
            svg.slanted("tick", (x + font * 0.3, self.bottom + font * 1.2), label);
        } else {
            svg.text("tick", (x, self.bottom + font * 1.4), Anchor::Middle, label);
        }
    }

    /// The title of the x axis.
    pub(super) fn draw_x_title(&self, svg: &mut Svg, title: &str) {
        let middle = f64::midpoint(self.left, self.right);
        svg.text("title", (middle, svg.size.height - 5.0), Anchor::Middle, title);
    }

    /// The y coordinates of a band; an open end lies at the frame's.
    pub(super) fn band(&self, low: Option<f64>, high: Option<f64>) -> Band {
        Band {
            low: low.map_or(self.bottom, |low| self.y(low)),
            high: high.map_or(self.top, |high| self.y(high)),
            open: (low.is_none(), high.is_none()),
        }
    }
}

/// The largest value that must be visible: values, intervals, and the finite ends of published bands.
pub(super) fn largest(panel: &Panel) -> f64 {
    let values = panel.points.iter().map(|point| point.y.top());
    let claims = panel.published.iter().map(|mark| &mark.claim);
    let published = claims.flat_map(|claim| [claim.low, claim.high, claim.published]).flatten();
    values.chain(published).filter(|value| value.is_finite()).fold(0.0, f64::max)
}

/// The largest tick at or above `largest`, and the step: 1, 2 or 5 times a power of ten, about `count` steps.
pub(super) fn ticks(largest: f64, count: f64) -> (f64, f64) {
    if largest <= 0.0 || !largest.is_finite() {
        return (1.0, 1.0);
    }
    let rough = largest / count.max(1.0);
    let power = math::powf(10.0, math::log10(rough).floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|nice| nice * power).into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(power * 10.0);
    ((largest / step * 0.999).ceil().max(1.0) * step, step)
}

/// A tick's number with as many decimals as the step needs.
pub(super) fn tick_text(value: f64, step: f64) -> String {
    let decimals = (-math::log10(step).floor()).clamp(0.0, 6.0) as usize;
    if value == 0.0 { "0".to_owned() } else { format!("{value:.decimals$}") }
}

/// The tooltip of a point.
pub(super) fn tooltip(figure: &Figure, panel: &Panel, point: &crate::figure::Point) -> String {
    let x = &panel.xs[point.x];
    let repeats = match point.y.repeats {
        1 => String::new(),
        repeats => format!(", {repeats} repeats"),
    };
    format!(
        "{}, {} {}: {}{repeats}",
        figure.series[point.series],
        figure.x_label,
        x.label,
        figure.human(&point.y)
    )
}

/// The tooltip of a published number.
pub(super) fn published_tooltip(figure: &Figure, mark: &crate::figure::Published) -> String {
    let measured = mark.claim.value.map_or_else(|| "not measured".to_owned(), units::ratio);
    format!("published, {}; measured {measured}", figure.mark_text(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        for (largest, wanted_step) in [(2.84, 0.5), (97.0, 20.0), (1.0, 0.2), (0.0037, 0.001)] {
            let (most, step) = ticks(largest, 6.0);
            assert!((step / wanted_step - 1.0).abs() < 1e-9, "{largest}: {step}");
            assert!(most >= largest * 0.999 && most - largest < step, "{largest}: {most}");
        }
        assert_eq!(ticks(0.0, 6.0), (1.0, 1.0));
    }

    #[test]
    fn tick_texts_have_the_decimals_of_their_step() {
        assert_eq!(tick_text(1.5, 0.5), "1.5");
        assert_eq!(tick_text(40.0, 20.0), "40");
        assert_eq!(tick_text(0.002, 0.001), "0.002");
    }
}
