//! Which page of a file lies on which die: a picture for each cell that says so.

use crate::axis;
use crate::cell;
use crate::table::Table;
use results::{PlacementRecord, ResultFile};

/// Stripes of the file in a picture: as much as a direct read of 1 MiB takes from a device with stripes of 256 KiB.
pub(crate) const STRIPES: u32 = 4;
/// Cells whose files lie alike are named up to so many.
const MOST_TITLES: usize = 3;

/// A cell's picture.
pub(crate) struct Picture<'a> {
    pub(crate) title: String,
    pub(crate) placement: &'a PlacementRecord,
}

/// The pictures of a result, in the order of its cells, `most` of them; cells whose files lie alike share one.
pub(crate) fn pictures(results: &ResultFile, most: usize) -> Vec<Picture<'_>> {
    let cells = cell::cells(results);
    let varying = cell::varying_axes(&cells);
    let all = cells.iter().filter_map(|cell| {
        let placement = cell.samples.iter().find_map(|sample| sample.placement.as_ref())?;
        let words = varying.keys().filter_map(|axis| {
            let value = axis::label(cell.axis(axis)?, &varying[axis]);
            Some(if ["workload", "medium"].contains(axis) {
                value
            } else {
                format!("{} {value}", axis::title(axis))
            })
        });
        let mut words: Vec<String> = words.collect();
        // What was done comes before where.
        words.reverse();
        Some(Picture { title: words.join(", "), placement })
    });
    let mut pictures: Vec<(&PlacementRecord, Vec<String>)> = Vec::new();
    for Picture { title, placement } in all {
        match pictures.iter_mut().find(|(known, _)| *known == placement) {
            Some((_, titles)) => titles.push(title),
            None => pictures.push((placement, vec![title])),
        }
    }
    let told = pictures.into_iter().map(|(placement, titles)| match titles.len() {
        1..=MOST_TITLES => Picture { title: titles.join(" · "), placement },
        more => Picture { title: format!("{}, and {} alike", titles[0], more - 1), placement },
    });
    told.take(most).collect()
}

/// The numbers of the pictures, over the whole file.
pub(crate) fn table(pictures: &[Picture<'_>]) -> Table {
    let mut table = Table::new(
        "Pages on the fullest die of each stretch as long as a stripe, by those that a file which goes round the dies has",
    );
    table.words("cell");
    for name in ["pages", "runs on one die", "mean", "worst"] {
        table.numbers(name);
    }
    for Picture { title, placement } in pictures {
        let collisions = placement.collisions();
        let mean = collisions.iter().sum::<f64>() / collisions.len().max(1) as f64;
        let worst = collisions.iter().copied().fold(0.0, f64::max);
        let (pages, runs) = (placement.pages().len(), placement.runs.len());
        let numbers = [pages.to_string(), runs.to_string(), format!("{mean:.2}"), format!("{worst:.2}")];
        table.rows.push([vec![title.clone()], numbers.to_vec()].concat());
    }
    table
}
