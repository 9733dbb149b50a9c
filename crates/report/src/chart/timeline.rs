//! A timeline: a row for each part of a machine, a bar for each thing that it did. Bars that overlap lie below one another.

use super::frame::{tick_text, ticks};
use super::palette::{self, Palette};
use super::svg::{Anchor, Svg};
use super::{Size, description};
use crate::figure::{Figure, Panel, Span, timeline};

const BAR: f64 = 13.0;
const GAP: f64 = 9.0;
/// Bars that overlap beyond this many lie over one another.
const DEEPEST: usize = 6;
/// What took no time is still seen.
const THINNEST: f64 = 1.6;

pub(super) fn draw(figure: &Figure, panel: &Panel, palette: &Palette, size: Size) -> String {
    let font = size.font;
    let depths: Vec<Vec<usize>> = (0..panel.xs.len()).map(|x| depths(panel, x)).collect();
    let heights = depths.iter().map(|depths| 1 + depths.iter().max().copied().unwrap_or(0));
    let mut tops = vec![4.0];
    heights.for_each(|rows| tops.push(tops[tops.len() - 1] + rows as f64 * BAR + GAP));
    let bottom = tops[tops.len() - 1];
    let mut svg = Svg::new(Size { height: bottom + font * 3.2, ..size });
    let left = panel.xs.iter().map(|x| svg.text_width(&x.label)).fold(0.0, f64::max) + 12.0;
    let most = panel.spans.iter().map(|span| span.end).fold(1.0, f64::max);
    let to_x = |time: f64| left + time / most * (size.width - left - 14.0);
    axis(&mut svg, figure, (most, bottom), &to_x);
    for (x, lane) in panel.xs.iter().enumerate() {
        svg.text("tick", (left - 8.0, tops[x] + BAR * 0.5 + font * 0.35), Anchor::End, &lane.label);
        for (span, depth) in of(panel, x).zip(&depths[x]) {
            let (from, to) = (to_x(span.start), to_x(span.end));
            let (start, end) = (timeline::time(span.start, most), timeline::time(span.end, most));
            let title = format!("{}: {start} to {end}", span.what);
            let look = palette.look(figure.kind, &figure.series[span.series]);
            let at = (from, tops[x] + *depth as f64 * BAR);
            palette::area(&mut svg, look, at, ((to - from).max(THINNEST), BAR - 1.5), &title);
        }
        svg.line("grid", (left, tops[x + 1] - GAP / 2.0), (size.width, tops[x + 1] - GAP / 2.0));
    }
    svg.finish(&description(figure, panel))
}

fn of(panel: &Panel, x: usize) -> impl Iterator<Item = &Span> {
    panel.spans.iter().filter(move |span| span.x == x)
}

/// How far below the first bar of its row each bar lies: the least where it covers none.
fn depths(panel: &Panel, x: usize) -> Vec<usize> {
    let mut ends: Vec<f64> = Vec::new();
    let place = |span: &Span| {
        let free = ends.iter().position(|end| *end <= span.start);
        let depth = free.unwrap_or(ends.len()).min(DEEPEST - 1);
        ends.resize(ends.len().max(depth + 1), 0.0);
        ends[depth] = ends[depth].max(span.end);
        depth
    };
    of(panel, x).map(place).collect()
}

fn axis(svg: &mut Svg, figure: &Figure, (most, bottom): (f64, f64), to_x: &dyn Fn(f64) -> f64) {
    let font = svg.size.font;
    let scale = figure.unit.scale(most);
    let (_, step) = ticks(most / scale.divisor, (to_x(most) - to_x(0.0)) / 75.0);
    for at in 0..=(most / scale.divisor / step * 1.001).floor() as usize {
        let x = to_x(at as f64 * step * scale.divisor);
        svg.line(if at == 0 { "axis" } else { "grid" }, (x, 0.0), (x, bottom));
        svg.text("tick", (x, bottom + font * 1.2), Anchor::Middle, &tick_text(at as f64 * step, step));
    }
    let middle = f64::midpoint(to_x(0.0), to_x(most));
    let height = svg.size.height;
    svg.text(
        "title",
        (middle, height - 6.0),
        Anchor::Middle,
        &format!("{} ({})", figure.y_label, scale.name),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_overlap_lie_below_one_another() {
        let span = |start, end| Span { x: 0, series: 0, start, end, what: String::new() };
        let spans = vec![span(0.0, 4.0), span(1.0, 2.0), span(2.0, 5.0), span(4.0, 6.0)];
        assert_eq!(depths(&Panel { spans, ..Panel::default() }, 0), [0, 1, 1, 0]);
    }
}
