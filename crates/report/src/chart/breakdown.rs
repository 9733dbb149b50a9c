//! Stacked bars, lying: a bar for each design, a segment for each activity, the total at its end.

use super::frame::{tick_text, ticks};
use super::palette::{self, Palette};
use super::svg::{Anchor, Svg};
use super::{Size, description};
use crate::figure::{Figure, Panel};

const BAR: f64 = 26.0;
const ROW: f64 = 38.0;

pub(super) fn draw(figure: &Figure, panel: &Panel, palette: &Palette, size: Size) -> String {
    let font = size.font;
    let height = font * 3.2 + ROW * panel.xs.len() as f64 + 10.0;
    let mut svg = Svg::new(Size { height, ..size });
    let layout = Layout::new(figure, panel, &svg);
    layout.draw_axis(&mut svg, figure);
    for (x, value) in panel.xs.iter().enumerate() {
        let y = layout.row(x);
        svg.text("tick", (layout.left - 8.0, y + BAR / 2.0 + font * 0.35), Anchor::End, &value.label);
        segments(&mut svg, figure, panel, palette, &layout, x);
        let text = figure.unit.human(total(panel, x));
        let end = layout.x(total(panel, x));
        svg.text("number", (end + 6.0, y + BAR / 2.0 + font * 0.35), Anchor::Start, &text);
    }
    svg.finish(&description(figure, panel))
}

fn total(panel: &Panel, x: usize) -> f64 {
    panel.at(x).map(|point| point.y.value).sum()
}

fn segments(svg: &mut Svg, figure: &Figure, panel: &Panel, palette: &Palette, layout: &Layout, x: usize) {
    let whole = total(panel, x);
    let mut before = 0.0;
    for point in panel.at(x) {
        let name = &figure.series[point.series];
        let (start, end) = (layout.x(before), layout.x(before + point.y.value));
        before += point.y.value;
        let share = crate::units::percent(point.y.value / whole);
        let title = format!("{}, {name}: {}, {share}", panel.xs[x].label, figure.unit.human(point.y.value));
        let look = palette.look(figure.kind, name);
        palette::area(svg, look, (start, layout.row(x)), (end - start, BAR), &title);
        svg.line("gap", (end, layout.row(x)), (end, layout.row(x) + BAR));
    }
}

/// Where the bars lie.
struct Layout {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    most: f64,
    step: f64,
    scale: crate::units::Scale,
}

impl Layout {
    fn new(figure: &Figure, panel: &Panel, svg: &Svg) -> Self {
        let Size { width, height, font, .. } = svg.size;
        let longest = panel.xs.iter().map(|x| svg.text_width(&x.label)).fold(0.0, f64::max);
        let largest = (0..panel.xs.len()).map(|x| total(panel, x)).fold(0.0, f64::max);
        let scale = figure.unit.scale(largest);
        let left = longest + 12.0;
        let right = width - svg.text_width("888 µs") - 10.0;
        let (_, step) = ticks(largest / scale.divisor, (right - left) / 75.0);
        let most = if largest > 0.0 { largest / scale.divisor } else { step };
        Self { left, right, top: 4.0, bottom: height - font * 3.2, most, step, scale }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + value / self.scale.divisor / self.most * (self.right - self.left)
    }

    fn row(&self, x: usize) -> f64 {
        self.top + x as f64 * ROW + (ROW - BAR) / 2.0
    }

    fn draw_axis(&self, svg: &mut Svg, figure: &Figure) {
        let font = svg.size.font;
        for at in 0..=(self.most / self.step * 1.001).floor() as usize {
            let value = at as f64 * self.step;
            let x = self.x(value * self.scale.divisor);
            svg.line(if at == 0 { "axis" } else { "grid" }, (x, self.top), (x, self.bottom));
            svg.text("tick", (x, self.bottom + font * 1.2), Anchor::Middle, &tick_text(value, self.step));
        }
        let title = format!("{} ({})", figure.y_label, self.scale.name);
        let middle = f64::midpoint(self.left, self.right);
        svg.text("title", (middle, svg.size.height - 6.0), Anchor::Middle, &title);
    }
}
