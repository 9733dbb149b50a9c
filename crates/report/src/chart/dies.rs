//! A picture of the dies: a row for each, a column for each page of the file, a mark where the page lies.
//!
//! A file whose pages go round the dies makes steps; one whose pages lie on one die makes a line. A mark is of another colour, and
//! hatched, where its die has more than its share of the stretch, so that its pages wait for each other.

use super::svg::{Anchor, Svg};
use super::{SMALL, Size};
use crate::dies::{Picture, STRIPES};

const ROW: f64 = 15.0;
const EVEN: &str = "k0 area";
const CROWDED: &str = "k3 area";
const HATCH: &str = "h2";

/// Signs and names for the legend.
pub(crate) fn legend() -> Vec<(String, String)> {
    let key = |classes: &[&str]| {
        let mut svg = Svg::new(Size { class: "key", width: 34.0, height: 16.0, ..SMALL });
        for class in classes {
            svg.rect(class, (1.0, 1.0), (32.0, 14.0), "");
        }
        svg.finish("").replacen(" role=\"img\" aria-label=\"\"", " aria-hidden=\"true\"", 1)
    };
    vec![
        (key(&[EVEN]), "pages on a die that has its even share of the stretch".to_owned()),
        (key(&[CROWDED, HATCH]), "pages on a die that has more: they wait for each other".to_owned()),
    ]
}

/// The picture of the file's first stripes.
pub(crate) fn draw(picture: &Picture<'_>) -> String {
    let placement = picture.placement;
    let (dies, stripe) = (placement.dies.max(1), placement.stripe_pages.max(1));
    let font = SMALL.font;
    let (left, top) = (font * 3.4, 4.0);
    let bottom = top + ROW * f64::from(dies);
    let mut svg = Svg::new(Size { height: bottom + font * 3.4, ..SMALL });
    let shown = stripe * STRIPES;
    let each = (SMALL.width - left - 8.0) / f64::from(shown);
    let every = dies.div_ceil(8);
    for die in (0..dies).filter(|die| die % every == 0) {
        let y = top + (f64::from(die) + 0.5) * ROW + font * 0.35;
        svg.text("tick", (left - 6.0, y), Anchor::End, &format!("die {die}"));
    }
    for stretch in 0..=STRIPES {
        let x = left + f64::from(stretch * stripe) * each;
        svg.line(if stretch == 0 { "axis" } else { "grid" }, (x, top), (x, bottom));
        let label = format!("{}", stretch * stripe * 4);
        svg.text(
            "tick",
            (x, bottom + font * 1.2),
            if stretch == STRIPES { Anchor::End } else { Anchor::Middle },
            &label,
        );
    }
    svg.line("axis", (left, bottom), (SMALL.width - 8.0, bottom));
    marks(&mut svg, picture, shown, (left, top, each));
    let middle = f64::midpoint(left, SMALL.width - 8.0);
    svg.text("title", (middle, bottom + font * 2.7), Anchor::Middle, "place in the file (KiB)");
    svg.finish(&format!(
        "Picture of the dies on which the pages of {} lie. The numbers are in the table below.",
        picture.title
    ))
}

/// A mark for each run of pages on one die, cut at the ends of stretches.
fn marks(svg: &mut Svg, picture: &Picture<'_>, shown: u32, (left, top, each): (f64, f64, f64)) {
    let pages = picture.placement.pages();
    let stripe = picture.placement.stripe_pages.max(1) as usize;
    let pages = &pages[..pages.len().min(shown as usize)];
    for (number, stretch) in pages.chunks(stripe).enumerate() {
        let even = picture.placement.share(stretch.len());
        let mut at = number * stripe;
        for run in stretch.chunk_by(|a, b| a == b) {
            let on_die = stretch.iter().filter(|die| **die == run[0]).count();
            let corner = (left + at as f64 * each, top + f64::from(run[0]) * ROW + 2.0);
            let extent = (run.len() as f64 * each, ROW - 4.0);
            let (from, to) = (at * 4, (at + run.len()) * 4);
            let title =
                format!("{from} to {to} KiB: die {}, which has {on_die} of {} pages", run[0], stretch.len());
            if on_die > even {
                svg.rect(CROWDED, corner, extent, "");
                svg.rect(HATCH, corner, extent, &title);
            } else {
                svg.rect(EVEN, corner, extent, &title);
            }
            at += run.len();
        }
    }
}
