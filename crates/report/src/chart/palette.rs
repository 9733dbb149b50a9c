//! Which colour, pattern, dash and marker a name has. A name keeps them on the whole page.
//!
//! Colour is never the only cue: bars differ by hatching, lines by dash and marker too.

use super::svg::{Svg, n};
use super::{SMALL, Size};
use crate::figure::{Kind, class, fixed};

/// Colours, hatchings, dashes and markers: eight of each. Names beyond the eighth pair colours and
/// hatchings anew.
pub(crate) const PATTERNS: usize = 8;

/// Names in the order in which they first appear on the page.
#[derive(Debug, Default)]
pub(crate) struct Palette {
    series: Vec<String>,
    activities: Vec<String>,
}

/// How one name looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    colour: usize,
    mark: usize,
}

impl Palette {
    /// Gives `name` a look if it has none.
    pub(crate) fn add(&mut self, kind: Kind, name: &str) {
        let names = if kind == Kind::Breakdown { &mut self.activities } else { &mut self.series };
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    pub(crate) fn look(&self, kind: Kind, name: &str) -> Look {
        // An activity looks the same on every page; those that are not known follow in the order in which they appear.
        let place = |names: &[String]| names.iter().position(|known| known == name).unwrap_or(0);
        let at = match kind {
            Kind::Breakdown => fixed(name, place(&self.activities)),
            Kind::Timeline => class(name).unwrap_or_else(|| place(&self.series)),
            _ => place(&self.series),
        };
        Look { colour: at % PATTERNS, mark: (at + at / PATTERNS) % PATTERNS }
    }
}

impl Look {
    /// Classes of an area: the colour under the hatching.
    pub(super) fn area(self) -> String {
        format!("k{} area", self.colour)
    }

    /// Classes of the hatching over an area; the first hatching is none.
    pub(super) fn hatch(self) -> Option<String> {
        (self.mark > 0).then(|| format!("h{}", self.mark))
    }

    /// Classes of a line.
    pub(super) fn line(self) -> String {
        format!("k{} line d{}", self.colour, self.mark)
    }

    /// Classes of an interval.
    pub(super) fn whisker(self) -> String {
        format!("k{} whisker", self.colour)
    }

    /// Classes of a marker.
    pub(super) fn marker(self) -> String {
        format!("k{} marker", self.colour)
    }

    /// The outline of the marker around `(x, y)`.
    pub(super) fn marker_path(self, x: f64, y: f64, r: f64) -> String {
        let corners: &[(f64, f64)] = match self.mark {
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            3 => &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
            4 => &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            5 => &[(-1.2, 0.0), (-0.4, -1.0), (1.2, -1.0), (0.4, 1.0), (-0.8, 1.0)],
            6 => &[(-0.5, -1.2), (0.5, -1.2), (0.5, 1.2), (-0.5, 1.2)],
            7 => &[(-1.2, -0.5), (1.2, -0.5), (1.2, 0.5), (-1.2, 0.5)],
            _ => return circle(x, y, r),
        };
        let points: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{} {}", n(x + dx * r), n(y + dy * r))).collect();
        format!("M{}Z", points.join("L"))
    }
}

fn circle(x: f64, y: f64, r: f64) -> String {
    let (left, y, r2, d) = (n(x - r), n(y), n(r), n(2.0 * r));
    format!("M{left} {y}a{r2} {r2} 0 1 0 {d} 0a{r2} {r2} 0 1 0 -{d} 0Z")
}

/// The hatchings, for one hidden element on the page. They draw in the page's background colour.
pub(crate) fn patterns() -> String {
    let strokes = [
        (1, 7, "M-2 2L2 -2M0 7L7 0M5 9L9 5"),
        (2, 7, "M-2 5L2 9M0 0L7 7M5 -2L9 2"),
        (3, 6, "M0 3H6"),
        (4, 7, "M2.7 3.5a.8 .8 0 1 0 1.6 0a.8 .8 0 1 0 -1.6 0Z"),
        (5, 9, "M0 0L9 9M0 9L9 0"),
        (6, 6, "M3 0V6"),
        (7, 8, "M4 0V8M0 4H8"),
    ];
    let each = strokes.map(|(at, side, d)| {
        format!(
            "<pattern id=\"p{at}\" width=\"{side}\" height=\"{side}\" patternUnits=\"userSpaceOnUse\">\
             <path class=\"hatch\" d=\"{d}\"/></pattern>"
        )
    });
    format!(
        "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>{}</defs></svg>",
        each.concat()
    )
}

/// The sign of a name in a legend.
pub(crate) fn legend_key(kind: Kind, look: Look) -> String {
    let size = Size { class: "key", width: 34.0, height: 16.0, ..SMALL };
    let mut svg = Svg::new(size);
    if kind == Kind::Lines {
        svg.line(&look.line(), (1.0, 8.0), (33.0, 8.0));
        svg.path(&look.marker(), &look.marker_path(17.0, 8.0, 4.5), "");
    } else {
        area(&mut svg, look, (1.0, 1.0), (32.0, 14.0), "");
    }
    svg.finish("").replacen(" role=\"img\" aria-label=\"\"", " aria-hidden=\"true\"", 1)
}

/// An area in a look: the colour, then the hatching over it, then the tooltip on top.
pub(super) fn area(svg: &mut Svg, look: Look, at: (f64, f64), extent: (f64, f64), title: &str) {
    match look.hatch() {
        Some(hatch) => {
            svg.rect(&look.area(), at, extent, "");
            svg.rect(&hatch, at, extent, title);
        }
        None => svg.rect(&look.area(), at, extent, title),
    }
}

/// The band of a published number in a chart: where it begins and ends, and whether its ends are open.
#[derive(Clone, Copy)]
pub(super) struct Band {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) open: (bool, bool),
}

/// A published number with its band around `x`, drawn so that it reads as a target: a dashed frame from the
/// band's low end to its high end, without the edge that is open, and a diamond at the number.
pub(super) fn target(svg: &mut Svg, x: f64, half: f64, band: Band, at: Option<f64>, title: &str) {
    let (low, high) = (band.low, band.high);
    svg.rect("band", (x - half, high), (2.0 * half, low - high), title);
    for side in [x - half, x + half] {
        svg.line("band-edge", (side, low), (side, high));
    }
    for (y, open) in [(low, band.open.0), (high, band.open.1)] {
        if !open {
            svg.line("band-edge", (x - half, y), (x + half, y));
        }
    }
    if let Some(y) = at {
        svg.line("published", (x - half, y), (x + half, y));
        let diamond = Look { colour: 0, mark: 3 };
        svg.path("published-mark", &diamond.marker_path(x, y, 4.0), title);
    }
}

/// The sign of a published number in a legend.
pub(crate) fn published_key() -> String {
    let size = Size { class: "key", width: 34.0, height: 16.0, ..SMALL };
    let mut svg = Svg::new(size);
    target(&mut svg, 17.0, 15.0, Band { low: 15.0, high: 1.0, open: (false, false) }, Some(8.0), "");
    svg.finish("").replacen(" role=\"img\" aria-label=\"\"", " aria-hidden=\"true\"", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_looks_the_same_whatever_else_is_on_the_page() {
        let of = |names: &[&str], name| {
            let mut palette = Palette::default();
            for name in names {
                palette.add(Kind::Breakdown, name);
            }
            palette.look(Kind::Breakdown, name)
        };
        let known = ["software", "lock wait", "medium wait", "core wait"];
        for name in known {
            assert_eq!(of(&known, name), of(&[name], name), "{name}");
        }
        let mut looks: Vec<Look> = known.iter().map(|name| of(&known, name)).collect();
        looks.dedup();
        assert_eq!(looks.len(), known.len(), "and no two look alike");
    }
}
