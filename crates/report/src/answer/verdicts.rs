//! The verdict at each place of a result, for tables: what the first paragraph says of all together.

use std::collections::BTreeMap;

use results::ResultFile;
use results::statistics::Comparison;

use super::{Contest, Outcome, Standing, contests, judge_together};
use crate::cell::{self, Cell};
use crate::prices;

/// What is known of the fastest design at a place.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaceVerdict {
    /// The place: every axis but that of the designs.
    pub axes: BTreeMap<String, String>,
    /// The design with the highest centre.
    pub best: String,
    /// The next best.
    pub rival: String,
    /// The best beside the next best.
    pub against: Comparison,
    /// `wins`, or why no winner is named: `tie`, `few repeats`, `unsteady`, `chance`, `host busy`, `cut short`, `within error`,
    /// `prices`.
    pub word: &'static str,
    /// The same in a sentence.
    pub sentence: String,
}

/// The verdict at each place, winners judged together over all places; none where no designs are compared, or these were not
/// priced alike.
pub fn verdicts(results: &ResultFile) -> Vec<PlaceVerdict> {
    let mut cells = cell::cells(results);
    cells.retain(|cell| !cell.throughputs().is_empty());
    if prices::unranked(results).is_some() {
        return Vec::new();
    }
    let contests = contests(results, &cells, usize::MAX);
    let mut kept = Vec::new();
    let mut outcomes = Vec::new();
    for (_, contest) in &contests {
        let decided = contest.decided().into_iter().map(|one| (one.place, one.outcome));
        let (at, found): (Vec<_>, Vec<Outcome<'_>>) = decided.unzip();
        kept.push((contest, at));
        outcomes.push(found);
    }
    judge_together(&mut outcomes);
    let each = kept.iter().zip(&outcomes);
    each.flat_map(|((contest, places), found)| {
        places.iter().zip(found).map(|(place, outcome)| of(contest, place, outcome))
    })
    .collect()
}

fn of(contest: &Contest<'_>, place: &[&Cell<'_>], outcome: &Outcome<'_>) -> PlaceVerdict {
    let axes = place.first().map(|cell| cell.axes.clone()).unwrap_or_default();
    let is_one =
        |name: &str| name != contest.design && (outcome.sets.is_empty() || name != results::prices::AXIS);
    let axes = axes.into_iter().filter(|(name, _)| is_one(name)).collect();
    PlaceVerdict {
        axes,
        best: outcome.best.to_owned(),
        rival: outcome.rival.to_owned(),
        against: outcome.against,
        word: match outcome.standing {
            Standing::Wins => "wins",
            Standing::Ties(..) => "tie",
            Standing::Unknown => "few repeats",
            Standing::Unsteady(..) => "unsteady",
            Standing::ByChance(_) => "chance",
            Standing::Noisy => "host busy",
            Standing::CutShort => "cut short",
            Standing::Within(_) => "within error",
            Standing::ByPrices => "prices",
        },
        sentence: outcome.sentence(false),
    }
}
