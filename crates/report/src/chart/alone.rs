//! A chart as a file of its own: legend and style inside, colours as numbers, because programs for papers know no variables.

use super::palette::{self, PATTERNS, Palette};
use super::{Curves, WIDE, chart, curves, legend_key};
use crate::figure::{Figure, Kind, Panel};

/// The light colours of the page (`templates/style.css`).
const COLOURS: [&str; PATTERNS] =
    ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#b5679a", "#56b4e9", "#6b6f76", "#b8a800"];
const DASHES: [&str; PATTERNS] = ["none", "8 4", "2 3", "10 3 2 3", "14 4", "5 2", "10 3 2 3 2 3", "4 6"];
const STYLE: &str = "text{fill:#1b1f24;font-family:sans-serif}.tick{fill:#59636e}.title{font-weight:600}\
    .number{font-size:.9em;paint-order:stroke;stroke:#fff;stroke-width:3px}.on-dark{fill:#fff;stroke:none}\
    .grid{stroke:#e6e9ed}.axis{stroke:#8a939d}.one{stroke:#8a939d;stroke-dasharray:2 3}.gap{stroke:#fff}\
    .margin{stroke:#fff;stroke-width:4}.whisker{stroke-width:1.8}.hatch{stroke:#fff;stroke-width:1.5;fill:none}\
    .line{fill:none;stroke-width:2.4;stroke-linejoin:round}.marker{stroke:#fff;stroke-width:1.2}\
    .band{fill:#1b1f24;fill-opacity:.09}.band-edge{stroke:#1b1f24;stroke-width:1.2;stroke-dasharray:4 3}\
    .published{stroke:#1b1f24;stroke-width:1.6}.published-mark{fill:#1b1f24;stroke:#fff}";

/// Width of a sign of the legend with its margin, and height of a line of it.
const SIGN: f64 = 42.0;
const LINE: f64 = 24.0;

/// A chart of a figure, with its legend under it.
pub(crate) fn alone(figure: &Figure, panel: &Panel) -> String {
    let looks = palette(figure.kind, &figure.series);
    let legend = legend(figure.kind, &figure.series, &looks);
    let (_, _, draw) = chart(figure);
    alone_drawing(&draw(figure, panel, &looks, WIDE), &legend)
}

/// A chart of curves; `names` are those of all charts beside it, so that a name looks the same in each.
pub(crate) fn alone_curves(curves: &Curves, names: &[String]) -> String {
    let looks = palette(Kind::Lines, names);
    let own: Vec<String> = curves.lines.iter().map(|(name, _)| name.clone()).collect();
    alone_drawing(&curves::draw_at(curves, &looks, WIDE), &legend(Kind::Lines, &own, &looks))
}

fn palette(kind: Kind, names: &[String]) -> Palette {
    let mut looks = Palette::default();
    for name in names {
        looks.add(kind, name);
    }
    looks
}

/// Signs and names.
fn legend(kind: Kind, names: &[String], looks: &Palette) -> Vec<(String, String)> {
    names.iter().map(|name| (legend_key(kind, looks.look(kind, name)), name.clone())).collect()
}

/// A drawing with its legend, signs and names, under it.
pub(crate) fn alone_drawing(drawing: &str, names: &[(String, String)]) -> String {
    let [font, width, height] = ["font-size", "width", "height"].map(|name| attribute(drawing, name));
    let taken = |name: &str| SIGN + name.chars().count() as f64 * font * 0.58 + 20.0;
    // A small drawing may be narrower than what its signs mean.
    let width = names.iter().map(|(_, name)| taken(name)).fold(width, f64::max);
    let (mut x, mut y, mut legend) = (8.0, height + 8.0, String::new());
    for (sign, name) in names {
        let wide = taken(name);
        if x + wide > width && x > 8.0 {
            (x, y) = (8.0, y + LINE);
        }
        legend += &sign.replacen("<svg ", &format!("<svg x=\"{x:.1}\" y=\"{y:.1}\" "), 1);
        let (at, base) = (x + SIGN, y + 13.0);
        legend += &format!("<text x=\"{at:.1}\" y=\"{base:.1}\">{}</text>", super::svg::escape(name));
        x += wide;
    }
    let all = y + LINE;
    let start = drawing.find('>').map_or(0, |at| at + 1);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {all:.1}\" width=\"{width}\" height=\"{all:.1}\" \
         font-size=\"{font}\"><style>{}</style>{}{}{legend}</svg>\n",
        style(),
        definitions(),
        drawing[start..].trim_end_matches("</svg>"),
    )
}

/// The number of an attribute of the outermost element.
fn attribute(svg: &str, name: &str) -> f64 {
    let rest = svg.split(&format!(" {name}=\"")).nth(1).unwrap_or_default();
    rest.split('"').next().and_then(|number| number.parse().ok()).unwrap_or(WIDE.height)
}

fn style() -> String {
    let mut style = STYLE.to_owned();
    for (at, (colour, dash)) in COLOURS.iter().zip(DASHES).enumerate() {
        style += &format!(
            ".k{at}.area,.k{at}.marker{{fill:{colour}}}.k{at}.line,.k{at}.whisker{{stroke:{colour}}}"
        );
        style += &format!(".d{at}{{stroke-dasharray:{dash}}}");
        if at > 0 {
            style += &format!(".h{at}{{fill:url(#p{at})}}");
        }
    }
    style
}

/// The hatchings, out of the page's hidden element.
fn definitions() -> String {
    let hidden = palette::patterns();
    let start = hidden.find("<defs>").unwrap_or(0);
    let end = hidden.find("</defs>").map_or(hidden.len(), |at| at + "</defs>".len());
    hidden[start..end].to_owned()
}
