//! The first paragraph: the question of the plan answered in words.

use crate::axis;
use crate::cell::{self, BOOTSTRAP_SEED, Cell};
use crate::claims;
use crate::units::{number, ratio};
use results::ResultFile;
use results::statistics::{self, Verdict};

/// Differences below this are not called differences.
pub const THRESHOLD: f64 = 0.02;
/// A paragraph with more sentences than this is no answer; the rest is in the tables.
const MOST_WORKLOADS: usize = 8;

/// The answer, a sentence each: what was compared, who won where, and what became of the claims.
pub fn sentences(results: &ResultFile) -> Vec<String> {
    let cells = cell::cells(results);
    if cells.is_empty() && !results.claims.is_empty() {
        return vec![claims::tally(&results.claims)];
    }
    if cells.is_empty() {
        return vec!["Nothing was measured, so there is no answer.".to_owned()];
    }
    let mut sentences: Vec<String> = Vec::new();
    let all = cell::all_axes(&cells);
    let design = axis::design_axis(all.keys().copied());
    let designs = all.get(design).cloned().unwrap_or_default();
    let workloads = all.get("workload").cloned().unwrap_or_default();
    if let [first, _, ..] = designs[..] {
        let names: Vec<Option<&str>> =
            if workloads.is_empty() { vec![None] } else { workloads.iter().copied().map(Some).collect() };
        for workload in names.iter().take(MOST_WORKLOADS) {
            let here: Vec<&Cell<'_>> =
                cells.iter().filter(|cell| cell.axis("workload") == *workload).collect();
            let name = workload.map(|name| axis::label(name, &workloads));
            sentences.extend(Contest { cells: here, design, first }.sentence(name.as_deref()));
        }
        if names.len() > MOST_WORKLOADS {
            sentences.push(format!("{} more workloads are in the tables.", names.len() - MOST_WORKLOADS));
        }
    } else {
        sentences.push(format!("Only {} was measured, so nothing is compared.", designs.join("")));
    }
    sentences.push(claims::tally(&results.claims));
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// The designs on one workload.
struct Contest<'c> {
    cells: Vec<&'c Cell<'c>>,
    design: &'static str,
    first: &'c str,
}

impl Contest<'_> {
    fn sentence(&self, workload: Option<&str>) -> Option<String> {
        let places = self.places();
        let winners: Vec<&str> = places.iter().filter_map(|place| self.best(place)).collect();
        let winner = most_frequent(&winners)?;
        let wins = winners.iter().filter(|name| **name == winner).count();
        let where_ = workload.map_or_else(String::new, |name| format!("On {name}, "));
        let how_often = match winners.len() {
            1 => String::new(),
            all if wins == all => format!(" at all {all} points"),
            all => format!(" at {wins} of {all} points"),
        };
        if let ([only], 1) = (&places[..], winners.len()) {
            return self.duel(only, winner).map(|duel| format!("{where_}{duel}."));
        }
        let range = self.range(&places, winner);
        Some(format!("{where_}{winner} is fastest{how_often}{range}."))
    }

    /// The cells grouped by everything but the design.
    fn places(&self) -> Vec<Vec<&Cell<'_>>> {
        let mut places: Vec<Vec<&Cell<'_>>> = Vec::new();
        for cell in &self.cells {
            let same = |place: &&mut Vec<&Cell<'_>>| place.iter().all(|other| self.same_place(cell, other));
            match places.iter_mut().find(same) {
                Some(place) => place.push(cell),
                None => places.push(vec![cell]),
            }
        }
        places
    }

    fn same_place(&self, a: &Cell<'_>, b: &Cell<'_>) -> bool {
        a.axes.iter().all(|(name, value)| name == self.design || b.axis(name) == Some(value))
    }

    /// The design with the highest median, if there is a choice.
    fn best<'p>(&self, place: &[&'p Cell<'p>]) -> Option<&'p str> {
        let median = |cell: &&&Cell<'_>| statistics::median(&cell.throughputs()).unwrap_or(0.0);
        let best = place.iter().max_by(|a, b| median(a).total_cmp(&median(b)))?;
        if place.len() > 1 { best.axis(self.design) } else { None }
    }

    /// Two designs in one place: the winner against the first design, or the runner-up if it is the first.
    fn duel(&self, place: &[&Cell<'_>], winner: &str) -> Option<String> {
        let rivals: Vec<&Cell<'_>> =
            place.iter().filter(|cell| cell.axis(self.design) != Some(winner)).copied().collect();
        let rival =
            if winner == self.first { self.best(&rivals).or(only_name(&rivals, self.design)) } else { None };
        let rival = rival.unwrap_or(self.first);
        let values = |name: &str| {
            let cell = place.iter().find(|cell| cell.axis(self.design) == Some(name))?;
            Some(cell.throughputs())
        };
        let compared = statistics::compare(&values(rival)?, &values(winner)?, THRESHOLD, BOOTSTRAP_SEED)?;
        let change = ratio(compared.ratio);
        Some(match (compared.verdict, compared.interval) {
            (Verdict::NoDifference { at_percent }, _) => {
                format!("no difference between {winner} and {rival} is detectable at {at_percent:.0} %")
            }
            (_, Some(i)) => {
                format!("{winner} is fastest: {change} {rival} ({} to {})", number(i.low), number(i.high))
            }
            (_, None) => format!("{winner} is fastest: {change} {rival} (one run of each)"),
        })
    }

    /// `: 1.02x to 5.90x pmfs`: the winner's ratios to the first design.
    fn range(&self, places: &[Vec<&Cell<'_>>], winner: &str) -> String {
        if winner == self.first {
            return String::new();
        }
        let of = |place: &Vec<&Cell<'_>>, name: &str| {
            let cell = place.iter().find(|cell| cell.axis(self.design) == Some(name))?;
            statistics::median(&cell.throughputs())
        };
        let ratios = places.iter().filter_map(|place| Some(of(place, winner)? / of(place, self.first)?));
        let finite: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
        let (Some(least), Some(most)) =
            (finite.iter().copied().reduce(f64::min), finite.iter().copied().reduce(f64::max))
        else {
            return String::new();
        };
        format!(": {} to {} {}", ratio(least), ratio(most), self.first)
    }
}

fn only_name<'p>(cells: &[&'p Cell<'p>], design: &str) -> Option<&'p str> {
    cells.first().and_then(|cell| cell.axis(design))
}

/// The name that occurs most often; the first of those at a tie.
fn most_frequent<'a>(names: &[&'a str]) -> Option<&'a str> {
    let count = |name: &str| names.iter().filter(|other| **other == name).count();
    let most = names.iter().map(|name| count(name)).max()?;
    names.iter().find(|name| count(name) == most).copied()
}
