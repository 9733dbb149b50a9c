//! Ratios with their intervals, a row for each cell, and a line at 1.

use super::frame::{tick_text, ticks};
use super::svg::{Anchor, Svg};
use super::{NARROW, Size, WIDE};
use crate::axis;
use crate::compare::{Compared, ComparedCell};
use crate::units::ratio;
use results::statistics::Verdict;
use std::collections::BTreeMap;

const ROW: f64 = 44.0;
/// From one line of a label to the next, in font sizes.
const LINE: f64 = 1.3;
/// Between the values of a cell's axes.
const SEPARATOR: &str = " · ";
/// Rows that are drawn; the table has all of them.
const MOST_ROWS: usize = 40;

/// The drawings, one for each size; none without cells.
pub(crate) fn draw(compared: &Compared) -> Vec<String> {
    if compared.cells.is_empty() {
        return Vec::new();
    }
    [WIDE, NARROW].iter().map(|size| draw_at(compared, *size)).collect()
}

fn draw_at(compared: &Compared, size: Size) -> String {
    let cells = &compared.cells[..compared.cells.len().min(MOST_ROWS)];
    let font = size.font;
    let labels: Vec<Vec<String>> =
        cells.iter().map(|cell| label(cell, &brief(&cell.axes, cells), size)).collect();
    let most_lines = labels.iter().map(Vec::len).max().unwrap_or(1);
    let row_height = ROW + (most_lines - 1) as f64 * font * LINE;
    let bottom = row_height * cells.len() as f64 + 6.0;
    let mut svg = Svg::new(Size { height: bottom + font * 3.4, ..size });
    let ends = cells.iter().flat_map(|cell| {
        let interval = cell.comparison.interval;
        [
            interval.map_or(cell.comparison.ratio, |i| i.low),
            interval.map_or(cell.comparison.ratio, |i| i.high),
        ]
    });
    let ends: Vec<f64> = ends.filter(|end| end.is_finite()).collect();
    let least = ends.iter().copied().fold(0.98, f64::min);
    let most = ends.iter().copied().fold(1.02, f64::max);
    let (left, right) = (font * 2.0, size.width - font * 2.0);
    let (_, step) = ticks(most - least, (right - left) / 110.0);
    let (first, last) = ((least / step).floor() as i64, (most / step).ceil() as i64);
    let (start, end) = (first as f64 * step, last as f64 * step);
    let x = |value: f64| left + ((value - start) / (end - start)).clamp(0.0, 1.0) * (right - left);
    for at in first..=last {
        let value = at as f64 * step;
        svg.line("grid", (x(value), 0.0), (x(value), bottom));
        svg.text("tick", (x(value), bottom + font * 1.2), Anchor::Middle, &tick_text(value, step));
    }
    svg.line("axis", (x(1.0), 0.0), (x(1.0), bottom));
    for (row, (cell, label)) in cells.iter().zip(&labels).enumerate() {
        draw_cell(&mut svg, cell, label, row as f64 * row_height, &x, left);
    }
    let title = format!("throughput of {} by that of {}", compared.new, compared.baseline);
    svg.text("title", (size.width / 2.0, bottom + font * 2.9), Anchor::Middle, &short(&title, size));
    svg.finish(&format!(
        "Ratios of {} cells: {} against {}. The numbers are in the table below.",
        cells.len(),
        compared.new,
        compared.baseline
    ))
}

/// Colour and sign of a verdict.
fn look(cell: &ComparedCell) -> (&'static str, &'static str) {
    match cell.comparison.verdict {
        Verdict::Faster => ("k2", "▲ "),
        Verdict::Slower => ("k3", "▼ "),
        _ => ("k6", ""),
    }
}

/// The lines above a cell's interval: its ratio, and its name in as many lines as it needs.
fn label(cell: &ComparedCell, name: &str, size: Size) -> Vec<String> {
    let mut lines = vec![format!("{}{}", look(cell).1, ratio(cell.comparison.ratio))];
    for word in name.split(SEPARATOR) {
        let last = lines.last_mut().expect("there is a line");
        if last.chars().count() + SEPARATOR.chars().count() + word.chars().count() <= fits(size) {
            *last = format!("{last}{SEPARATOR}{word}");
        } else {
            lines.push(short(word, size));
        }
    }
    lines
}

fn draw_cell(
    svg: &mut Svg,
    cell: &ComparedCell,
    label: &[String],
    top: f64,
    x: &dyn Fn(f64) -> f64,
    left: f64,
) {
    let (font, colour) = (svg.size.font, look(cell).0);
    for (at, line) in label.iter().enumerate() {
        svg.text("number", (left, top + font * (1.0 + at as f64 * LINE)), Anchor::Start, line);
    }
    let text = label.join(" ");
    let y = top + font * (1.9 + (label.len() - 1) as f64 * LINE);
    if let Some(interval) = cell.comparison.interval {
        svg.line(&format!("{colour} line"), (x(interval.low), y), (x(interval.high), y));
    }
    let at = x(cell.comparison.ratio);
    let square = format!("M{:.1} {:.1}h9v9h-9Z", at - 4.5, y - 4.5);
    svg.path(&format!("{colour} marker"), &square, &text);
}

/// The values of a cell on the axes that vary among `cells`, without the names of the axes: a row of a narrow chart has no room
/// for them.
fn brief(axes: &BTreeMap<String, String>, cells: &[ComparedCell]) -> String {
    let varies = |name: &String| cells.iter().any(|other| other.axes.get(name) != axes.get(name));
    let several = axes.keys().any(varies);
    let value = |(name, value): (&String, &String)| match name.as_str() {
        "workload" => value.rsplit('/').next().unwrap_or(value).to_owned(),
        "threads" => format!("threads {value}"),
        _ => axis::label(value, &[]),
    };
    axes.iter().filter(|(name, _)| !several || varies(name)).map(value).collect::<Vec<_>>().join(SEPARATOR)
}

/// Characters of a line.
fn fits(size: Size) -> usize {
    ((size.width - size.font * 3.0) / (size.font * 0.56)) as usize
}

/// As much of a text as fits.
fn short(text: &str, size: Size) -> String {
    let fits = fits(size);
    if text.chars().count() <= fits {
        return text.to_owned();
    }
    text.chars().take(fits.saturating_sub(1)).collect::<String>() + "…"
}
