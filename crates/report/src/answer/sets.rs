//! What bounds a verdict beside chance: designs are ranked under every set of prices that a result has, and no difference is called
//! one that is smaller than the error of the model's ratios ([`results::ErrorRecord`]).

use results::prices::AXIS;
use results::{ErrorRecord, PricesRecord};

use super::{Contest, Outcome, Standing};
use crate::cell::Cell;
use crate::units::{percent, ratio};

/// A place under all sets of prices.
pub(super) struct Decided<'c> {
    /// The cells under the set whose ratio is the least.
    pub(super) place: Vec<&'c Cell<'c>>,
    pub(super) outcome: Outcome<'c>,
}

/// What one set of prices shows.
#[derive(Clone)]
pub(super) struct BySet<'c> {
    pub(super) set: &'c str,
    pub(super) best: &'c str,
    pub(super) rival: &'c str,
    pub(super) ratio: f64,
}

impl<'c> Contest<'c> {
    /// Every place with what it shows under all sets of prices.
    pub(super) fn decided(&self) -> Vec<Decided<'c>> {
        let mut groups: Vec<Vec<Decided<'c>>> = Vec::new();
        for place in self.places() {
            let Some(outcome) = self.outcome(&place) else { continue };
            let same =
                |group: &&mut Vec<Decided<'c>>| differ_in_prices(group[0].place[0], place[0], self.design);
            let at = groups.iter_mut().find(same);
            let one = Decided { place, outcome };
            match at {
                Some(group) => group.push(one),
                None => groups.push(vec![one]),
            }
        }
        groups.into_iter().map(together).collect()
    }

    /// A winner whose margin is no larger than what the model's ratios may be wrong by is none.
    pub(super) fn within_error(&self, place: &[&'c Cell<'c>], outcome: Outcome<'c>) -> Outcome<'c> {
        let Some(prices) = self.prices.filter(|_| matches!(outcome.standing, Standing::Wins)) else {
            return outcome;
        };
        let Some(error) = error_at(prices, place[0], (outcome.best, outcome.rival)) else { return outcome };
        let standing =
            if exceeds(outcome.against.ratio, error) { Standing::Wins } else { Standing::Within(error) };
        Outcome { standing, error: Some(error), ..outcome }
    }
}

/// Finds the error of the ratio of two designs at the place of a cell; none where no error applies.
pub(crate) fn error_at<'c>(
    prices: &'c PricesRecord,
    cell: &Cell<'_>,
    (one, other): (&str, &str),
) -> Option<&'c ErrorRecord> {
    let design = |label: &str| prices.designs.get(label).cloned().unwrap_or_else(|| label.to_owned());
    if cell.is_host() || design(one) == design(other) {
        return None;
    }
    let set = cell.axis(AXIS).or_else(|| prices.sets.first().map(String::as_str));
    let of_set = || prices.errors.iter().filter(|error| Some(&*error.prices) == set);
    let here = |error: &&ErrorRecord| {
        cell.axis("workload") == Some(&error.workload)
            && cell.axis("medium").is_none_or(|name| name == error.medium)
    };
    of_set().find(here).or_else(|| of_set().next())
}

/// Compares a ratio of 1 or more with its error: it is larger than one that is known for its place.
pub(crate) fn exceeds(ratio: f64, error: &ErrorRecord) -> bool {
    error.is_measured() && error.factor.is_some_and(|factor| ratio > factor)
}

/// Whether two cells differ in the design and the prices only.
fn differ_in_prices(a: &Cell<'_>, b: &Cell<'_>, design: &str) -> bool {
    let apart = |name: &str| name == design || name == AXIS;
    let covers = |a: &Cell<'_>, b: &Cell<'_>| {
        a.axes.iter().all(|(name, value)| apart(name) || b.axis(name) == Some(value))
    };
    a.axis(AXIS).is_some() && a.axis(AXIS) != b.axis(AXIS) && covers(a, b) && covers(b, a)
}

/// The places of one group as one: its winner is one under every set.
fn together(mut group: Vec<Decided<'_>>) -> Decided<'_> {
    if group.len() == 1 {
        return group.remove(0);
    }
    let sets: Vec<BySet<'_>> = group.iter().map(|one| by_set(&one.place, &one.outcome)).collect();
    let chance = group.iter().map(|one| one.outcome.chance).reduce(|a, b| Some(a?.max(b?))).flatten();
    let same = group.iter().all(|one| one.outcome.best == group[0].outcome.best);
    // What says least stands for all: no winner by chance or noise, then one within the model's error, then the smallest margin.
    let rank = |one: &Decided<'_>| match one.outcome.standing {
        Standing::Wins => 2,
        Standing::Within(_) => 1,
        _ => 0,
    };
    group.sort_by(|a, b| {
        rank(a).cmp(&rank(b)).then(a.outcome.against.ratio.total_cmp(&b.outcome.against.ratio))
    });
    let mut decided = group.remove(0);
    if !same && !matches!(decided.outcome.standing, Standing::CutShort) {
        decided.outcome.standing = Standing::ByPrices;
    }
    decided.outcome = Outcome { chance, sets, ..decided.outcome };
    decided
}

fn by_set<'c>(place: &[&'c Cell<'c>], outcome: &Outcome<'c>) -> BySet<'c> {
    let set = place[0].axis(AXIS).unwrap_or_default();
    BySet { set, best: outcome.best, rival: outcome.rival, ratio: outcome.against.ratio }
}

impl Outcome<'_> {
    /// `1.26x nova`; `1.05x nova under ran, 1.31x nova under port:least`.
    pub(super) fn ratios(&self) -> String {
        if self.sets.is_empty() {
            return format!("{} {}", ratio(self.against.ratio), self.rival);
        }
        let one = |set: &BySet<'_>| format!("{} {} under {}", ratio(set.ratio), set.rival, set.set);
        self.sets.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The least and the largest ratio of all sets.
    pub(super) fn extremes(&self) -> (f64, f64) {
        let all = || {
            self.sets
                .iter()
                .map(|set| set.ratio)
                .chain([self.against.ratio])
                .filter(|ratio| ratio.is_finite())
        };
        (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max))
    }

    /// Who is ahead under which set.
    pub(super) fn by_prices(&self) -> String {
        let one = |set: &BySet<'_>| {
            format!("{} is at {} {} under {}", set.best, ratio(set.ratio), set.rival, set.set)
        };
        self.sets.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// What a winner's margin is larger than; empty where no error applies.
    pub(super) fn beyond(&self) -> String {
        self.error.map_or_else(String::new, |error| format!("; {}", margin(error)))
    }
}

/// `the model's error is ±34 % (30 pairs of data; ±80 % for a model that calls all equal)`.
pub(crate) fn margin(error: &ErrorRecord) -> String {
    let Some(factor) = error.factor else {
        return "the model's error is not known".to_owned();
    };
    let off = |factor: f64| percent(factor - 1.0);
    let null = error
        .null
        .map_or_else(String::new, |null| format!("; calling designs equal is wrong by {}", off(null)));
    format!("the model's error is ±{} ({} pairs of {}{null})", off(factor), error.pairs, error.class)
}

/// Why a design that is ahead is not called fastest.
pub(crate) fn reason(error: &ErrorRecord) -> String {
    match (&error.why, error.factor) {
        (None, _) => format!("within it: {}", margin(error)),
        (Some(why), None) => format!("{}: {why}", margin(error)),
        (Some(why), Some(factor)) => {
            let (before, after) = why.split_once("; it is ").unwrap_or((why, "borrowed"));
            format!("{before}; ±{} is {after}", percent(factor - 1.0))
        }
    }
}
