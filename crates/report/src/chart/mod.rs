//! Figures as SVG.
//!
//! Written by hand rather than with a plotting library: the charts need patterns and dashes beside colours,
//! style-sheet classes so that one drawing serves light and dark pages, a tooltip for each mark and text
//! that the browser lays out. A library draws pixels of one theme and measures text with a font of its own.
//!
//! | module | holds |
//! |---|---|
//! | `svg` | the element writer |
//! | `frame` | axes, ticks, grid, labels: what bars and lines share |
//! | `bars`, `lines`, `breakdown`, `heat`, `timeline`, `ratios`, `curves` | a kind of chart each |
//! | `dies` | which page of a file lies on which die |
//! | `correlation` | coefficients with their errors, and the points behind them |
//! | `curve` | claims that hold, by reading |
//! | `alone` | a chart as a file of its own |
//! | `palette` | which colour, pattern, dash and marker a name has, on the whole page |
//!
//! Colours and patterns are classes (`k0`, `h0`), defined by the page's style sheet from an Okabe–Ito
//! palette. Every chart is drawn in the sizes of [`SIZES`]; the style sheet shows the one that fits.

mod alone;
mod bars;
mod breakdown;
mod correlation;
pub(crate) mod curve;
mod curves;
pub(crate) mod dies;
mod frame;
mod heat;
mod lines;
mod palette;
mod ratios;
mod svg;
mod timeline;

pub(crate) use alone::{alone, alone_curves, alone_drawing};
pub(crate) use correlation::{Coefficients, Scatter, bars as coefficient_bars, scatter};
pub(crate) use curves::{Curves, draw as draw_curves};
pub(crate) use palette::{Palette, legend_key, patterns, published_key};
pub(crate) use ratios::draw as ratios;

use crate::figure::{Figure, Kind, Panel};

/// A size in which a chart is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    /// The class that the style sheet shows or hides.
    pub(crate) class: &'static str,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// Size of the text.
    pub(crate) font: f64,
}

const WIDE: Size = Size { class: "wide", width: 960.0, height: 400.0, font: 14.0 };
const NARROW: Size = Size { class: "narrow", width: 340.0, height: 320.0, font: 12.5 };
/// A chart among others, small enough for a phone and therefore alone in its size.
const SMALL: Size = Size { class: "small", width: 340.0, height: 270.0, font: 12.5 };

/// A heat map of more columns than this is as wide as the page.
const COLUMNS: usize = 6;

/// A kind of chart: its name in the text alternative, whether its panels are as wide as the page and stand below one another, and
/// the drawing.
type Chart = (&'static str, bool, fn(&Figure, &Panel, &Palette, Size) -> String);

/// The chart of a figure's kind: every kind has its line here.
fn chart(figure: &Figure) -> Chart {
    let has_many_columns = figure.series.len() > COLUMNS;
    match figure.kind {
        Kind::Bars => ("Bar chart", false, bars::draw),
        Kind::Lines => ("Line chart", false, lines::draw),
        Kind::Breakdown => ("Stacked bars", false, breakdown::draw),
        Kind::Heat => {
            ("Heat map", has_many_columns, |figure, panel, _, size| heat::draw(figure, panel, size))
        }
        Kind::Classes => {
            ("Map of classes", has_many_columns, |figure, panel, _, size| heat::draw(figure, panel, size))
        }
        Kind::Timeline => ("Timeline", true, timeline::draw),
    }
}

/// Whether the panels of a figure are as wide as the page, and stand below one another.
pub(crate) fn is_stacked(figure: &Figure) -> bool {
    chart(figure).1
}

/// The sizes for the panels of a figure.
fn sizes(figure: &Figure) -> &'static [Size] {
    let small = figure.panels.len() > 1 && !is_stacked(figure);
    if small { &[SMALL] } else { &[WIDE, NARROW] }
}

/// The drawings of a panel, one for each size, as SVG elements.
pub(crate) fn draw(figure: &Figure, panel: &Panel, palette: &Palette) -> Vec<String> {
    let (_, _, draw) = chart(figure);
    sizes(figure).iter().map(|size| draw(figure, panel, palette, *size)).collect()
}

/// The text alternative of a chart: what it is, and where its numbers are.
fn description(figure: &Figure, panel: &Panel) -> String {
    let (kind, ..) = chart(figure);
    let of = if panel.title.is_empty() { String::new() } else { format!(", {}", panel.title) };
    format!(
        "{kind}: {}{of}. {} by {} for {}. The numbers are in the table below.",
        figure.title,
        figure.y_label,
        figure.x_label,
        figure.series.join(", ")
    )
}
