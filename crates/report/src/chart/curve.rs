//! The specification curve: a row for each reading, its name above a bar whose length is the number of claims that hold.

use super::svg::{Anchor, Svg};
use super::{NARROW, SMALL, Size, WIDE};
use crate::readings::Point;

/// Height of a row by that of its text.
const ROW: f64 = 2.5;

/// The drawings, one for each size.
pub(crate) fn draw(points: &[Point]) -> Vec<String> {
    [WIDE, NARROW].iter().map(|size| draw_at(points, *size)).collect()
}

/// Signs and names for the legend.
pub(crate) fn legend() -> Vec<(String, String)> {
    let key = |class: &str| {
        let mut svg = Svg::new(Size { class: "key", width: 34.0, height: 16.0, ..SMALL });
        svg.rect(class, (1.0, 1.0), (32.0, 14.0), "");
        svg.finish("").replacen(" role=\"img\" aria-label=\"\"", " aria-hidden=\"true\"", 1)
    };
    vec![
        (key("k1 area"), "default".to_owned()),
        (key("k0 area"), "one answer, or two, other than the default".to_owned()),
    ]
}

fn draw_at(points: &[Point], size: Size) -> String {
    let row = size.font * ROW;
    let size = Size { height: row * points.len() as f64 + size.font, ..size };
    let mut svg = Svg::new(size);
    let most = points.iter().map(|point| point.measured).max().unwrap_or(1).max(1);
    for (at, point) in points.iter().enumerate() {
        let top = at as f64 * row;
        let class = if point.name == "default" { "k1 area" } else { "k0 area" };
        let held = format!("{} of {}", point.held, point.measured);
        let width = size.width * point.held as f64 / most as f64;
        svg.rect(
            class,
            (0.0, top + size.font * 1.5),
            (width, size.font * 0.6),
            &format!("{}: {held}", point.name),
        );
        let room = size.width - svg.text_width(&held) - size.font;
        svg.text("tick", (0.0, top + size.font * 1.1), Anchor::Start, &shortened(&svg, &point.name, room));
        svg.text("number", (size.width, top + size.font * 1.1), Anchor::End, &held);
    }
    svg.finish("Specification curve: claims that hold under each reading, sorted. The numbers are in the table below.")
}

/// As much of a name as fits; the tooltip and the table have it whole.
fn shortened(svg: &Svg, name: &str, room: f64) -> String {
    let fits = |text: &str| svg.text_width(text) <= room;
    if fits(name) {
        return name.to_owned();
    }
    let mut short: String = name.to_owned();
    while !short.is_empty() && !fits(&format!("{short}…")) {
        short.pop();
    }
    short + "…"
}
