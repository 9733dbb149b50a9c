//! The first paragraph: the question of the plan answered in words, and no more than the data shows.
//!
//! A *place* is a point of the plan at which the designs are compared: everything but the design is the same. At each place a
//! design is the fastest only if `results::statistics::compare`, the rule of `weir compare`, finds it faster than every other.
//! Otherwise the paragraph says that no difference was detected, with the interval, that the cells ran too few times to tell, that
//! the rate of one of them was not steady, that the host was busy meanwhile, or that an interrupt ended a run before its time. The
//! winners of one paragraph are judged together (Holm). Beside a directory of the host, which has no medium, it speaks of each
//! medium by itself.
//!
//! Where a result has several sets of prices, a winner is one under each of them; where its designs were not priced alike, or its
//! prices are not known, there is neither winner nor ratio ([`crate::prices`]). A difference between two designs under the virtual
//! clock that is smaller than the error of the model's ratios is said to be within it.

mod axes;
mod sets;
mod verdicts;

pub use verdicts::{PlaceVerdict, verdicts};

use crate::axis;
use crate::cell::{self, Cell};
use crate::claims;
use crate::prices;
use crate::readings;
use crate::replay;
use crate::robust;
use crate::standing;
use crate::units::{Unit, number, ratio};
use crate::why::Why;
use results::statistics::{self, CONFIDENCE, Comparison, Coverage, LEAST_REPEATS, Verdict};
use results::steady::{self, Steadiness};
use results::{ErrorRecord, PricesRecord, ResultFile};
use sets::BySet;
pub(crate) use sets::{error_at, exceeds, margin, reason};

/// Differences below this are not called differences.
pub(crate) const THRESHOLD: f64 = 0.02;
/// A paragraph with more sentences than this is no answer; the rest is in the tables.
const MOST_WORKLOADS: usize = 8;

/// The answer, a sentence each: what was compared, who won where, and what became of the claims.
pub fn sentences(results: &ResultFile) -> Vec<String> {
    let mut cells = cell::cells(results);
    cells.retain(|cell| !cell.throughputs().is_empty());
    if cells.is_empty() && !results.claims.is_empty() {
        let mut sentences = vec![claims::tally(&results.claims), readings::sentence(&results.claims)];
        sentences.retain(|sentence| !sentence.is_empty());
        return sentences;
    }
    if cells.is_empty() {
        return vec!["Nothing was measured, so there is no answer.".to_owned()];
    }
    let mut sentences = contest_of(results, &cells);
    if sentences.is_empty() {
        let design = axis::design_axis(cell::all_axes(&cells).keys().copied());
        sentences.push(alone(&cells, cells[0].axis(design).unwrap_or_default()));
    }
    sentences.splice(..0, standing::sentences(results));
    sentences.push(robust::sentence(results));
    sentences.extend(axes::sentences(results));
    sentences.extend(prices::sentences(results));
    sentences.push(claims::tally(&results.claims));
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// Who won where, a sentence for each workload; none where no designs are compared.
pub(crate) fn winners(results: &ResultFile) -> Vec<String> {
    let mut cells = cell::cells(results);
    cells.retain(|cell| !cell.throughputs().is_empty());
    let mut sentences = contest_of(results, &cells);
    sentences.splice(..0, standing::sentences(results));
    sentences.push(robust::sentence(results));
    sentences.extend(axes::sentences(results));
    sentences.extend(prices::sentences(results));
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// At each workload the winner and the runner-up, where the two are furthest apart of the places at which a difference was
/// measured.
pub(crate) fn whys(results: &ResultFile) -> Vec<Why> {
    let mut cells = cell::cells(results);
    // Of a replayed program, what it does between its calls is a part of the time: `replay` explains it.
    cells.retain(|cell| !cell.throughputs().is_empty() && !replay::is(cell));
    if prices::unranked(results).is_some() {
        return Vec::new();
    }
    contests(results, &cells, MOST_WORKLOADS)
        .iter()
        .filter_map(|(place, contest)| contest.why(place))
        .collect()
}

/// The best of cells that differ in one axis, by the rule of the paragraph.
pub(crate) struct Best<'c> {
    /// The value of the axis that has the highest rate, and the next one.
    pub(crate) name: &'c str,
    pub(crate) rival: &'c str,
    /// The value from which no difference was detected.
    pub(crate) ties: Option<&'c str>,
    /// The ratio with its error, or why there is no winner.
    pub(crate) sentence: String,
}

/// The best of `cells`, which differ in `design` only; none where there are no two.
pub(crate) fn best<'c>(
    cells: &'c [Cell<'c>],
    design: &'static str,
    prices: Option<&'c PricesRecord>,
) -> Option<Best<'c>> {
    let contest = Contest { cells: cells.iter().collect(), design, prices, told: false };
    let mut outcomes = vec![contest.outcomes()];
    judge_together(&mut outcomes);
    let outcome = outcomes.pop()?.pop()?;
    let ties = match outcome.standing {
        Standing::Ties(other, _) => Some(other),
        _ => None,
    };
    Some(Best { name: outcome.best, rival: outcome.rival, ties, sentence: outcome.sentence(false) })
}

/// The designs on each of `most` workloads, beside a directory of the host on each medium, with the place in words.
fn contests<'c>(results: &'c ResultFile, cells: &'c [Cell<'c>], most: usize) -> Vec<(String, Contest<'c>)> {
    let prices = results.prices.as_ref();
    let all = cell::all_axes(cells);
    let design = axis::design_axis(all.keys().copied());
    if all.get(design).is_none_or(|designs| designs.len() < 2) {
        return Vec::new();
    }
    let workloads = all.get("workload").cloned().unwrap_or_default();
    let names: Vec<Option<&str>> =
        if workloads.is_empty() { vec![None] } else { workloads.iter().copied().map(Some).collect() };
    let media = media_beside_host(cells, all.get("medium").map_or(&[], Vec::as_slice));
    let mut contests = Vec::new();
    for (workload, medium) in names.iter().take(most).flat_map(|name| media.iter().map(move |m| (name, m))) {
        let here = |cell: &&Cell<'_>| {
            let there = cell.is_host() || medium.is_none() || cell.axis("medium") == *medium;
            there && cell.axis("workload") == *workload
        };
        let cells: Vec<&Cell<'_>> = cells.iter().filter(here).collect();
        let place = [
            workload.map(|name| format!("on {}", axis::label(name, &workloads))),
            medium.map(|name| format!("on medium {}", axis::label(name, &[]))),
        ];
        let place = place.into_iter().flatten().collect::<Vec<_>>().join(" ");
        contests.push((place, Contest { cells, design, prices, told: false }));
    }
    contests
}

fn contest_of(results: &ResultFile, cells: &[Cell<'_>]) -> Vec<String> {
    if let Some(why) = prices::unranked(results) {
        return vec![why];
    }
    let mut sentences: Vec<String> = Vec::new();
    let mut contests = contests(results, cells, MOST_WORKLOADS);
    let compared: Vec<bool> =
        contests.iter().filter_map(|(_, contest)| contest.is_of_one_run_each()).collect();
    if compared.len() > 1 && compared.iter().all(|one_run| *one_run) {
        sentences.push(format!("With one run of each no winner is named: take --repeats {LEAST_REPEATS}."));
        for (_, contest) in &mut contests {
            contest.told = true;
        }
    }
    let mut outcomes: Vec<Vec<Outcome<'_>>> =
        contests.iter().map(|(_, contest)| contest.outcomes()).collect();
    let family = judge_together(&mut outcomes);
    let answers = contests.iter().zip(&outcomes);
    sentences.extend(answers.filter_map(|((place, contest), found)| contest.sentence(place, found)));
    sentences.extend(family);
    let workloads = cell::all_axes(cells).get("workload").map_or(0, Vec::len);
    if !contests.is_empty() && workloads > MOST_WORKLOADS {
        sentences.push(format!("{} more workloads are in the tables.", workloads - MOST_WORKLOADS));
    }
    sentences
}

/// The media to speak of one by one: those of the designs that stand beside a directory of the host, which has none.
fn media_beside_host<'c>(cells: &[Cell<'_>], media: &[&'c str]) -> Vec<Option<&'c str>> {
    if media.is_empty() || !cells.iter().any(Cell::is_host) {
        return vec![None];
    }
    media.iter().copied().map(Some).collect()
}

/// What a single design did: there is nothing to compare it with.
fn alone(cells: &[Cell<'_>], design: &str) -> String {
    let rate = |value: f64| Unit::OpsPerSecond.human(value);
    let [only] = cells else {
        return format!("Only {design} was measured, so nothing is compared.");
    };
    let rates = only.throughputs();
    let median = statistics::median(&rates).unwrap_or(0.0);
    let (least, most) =
        rates.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), r| (low.min(*r), high.max(*r)));
    let runs = match rates.len() {
        1 if only.is_cut_short() => "in one run that was cut short".to_owned(),
        1 => "in one run".to_owned(),
        runs => format!("in the median of {runs} runs, from {} to {}", rate(least), rate(most)),
    };
    let on = only.axis("workload").map_or_else(String::new, |name| format!(" on {}", axis::label(name, &[])));
    format!("Only {design} was measured: {}{on}, {runs}.", rate(median))
}

/// Withdraws the winners that are none when all comparisons of the paragraph are judged together; a sentence where there are
/// several and one is left.
fn judge_together(outcomes: &mut [Vec<Outcome<'_>>]) -> Option<String> {
    let chances: Vec<f64> = outcomes.iter().flatten().filter_map(|outcome| outcome.chance).collect();
    let mut corrected = statistics::together(&chances).into_iter();
    let mut winners = 0;
    for outcome in outcomes.iter_mut().flatten().filter(|outcome| outcome.chance.is_some()) {
        let chance = corrected.next().unwrap_or(1.0);
        let wins = matches!(outcome.standing, Standing::Wins);
        if wins && chance > 1.0 - CONFIDENCE {
            outcome.standing = Standing::ByChance(chance);
        } else if wins {
            winners += 1;
        }
    }
    (winners > 0 && chances.len() > 1)
        .then(|| format!("Winners hold with 95 % for all {} comparisons together (Holm).", chances.len()))
}

/// The designs on one workload.
struct Contest<'c> {
    cells: Vec<&'c Cell<'c>>,
    design: &'static str,
    /// By which prices they ran.
    prices: Option<&'c PricesRecord>,
    /// Whether a sentence before has said that one run of each names no winner.
    told: bool,
}

/// What a place shows.
struct Outcome<'c> {
    /// The design with the highest centre.
    best: &'c str,
    /// The next best, which it is set against.
    rival: &'c str,
    against: Comparison,
    /// How often equal designs would be as far apart, of those that it must be faster than.
    chance: Option<f64>,
    standing: Standing<'c>,
    /// The next best, if it has the same centre.
    level: Option<&'c str>,
    /// Runs of the cell that ran least, and of the one that ran most: a run that failed does not count.
    repeats: (usize, usize),
    /// How far the ratio of two designs may be wrong, where that bounds the verdict.
    error: Option<&'c ErrorRecord>,
    /// The same under each set of prices, where there are several; then `against` is that of the least ratio.
    sets: Vec<BySet<'c>>,
}

/// Whether the best is a winner.
#[derive(Clone, Copy)]
enum Standing<'c> {
    /// Faster than each of the others by the rule of `compare`.
    Wins,
    /// From this one no difference was detected.
    Ties(&'c str, Comparison),
    /// The cells ran too few times to tell.
    Unknown,
    /// The rate of this design was not steady: a longer run may show another order.
    Unsteady(&'c str, Steadiness),
    /// It is faster, and among so many comparisons chance does this in so many cases.
    ByChance(f64),
    /// The host was busy during a run of them: their times cannot be relied on.
    Noisy,
    /// An interrupt ended a run of them before its time.
    CutShort,
    /// It is ahead by no more than what the model's ratios may be wrong by, or that is not known.
    Within(&'c ErrorRecord),
    /// Another is ahead under other prices.
    ByPrices,
}

impl<'c> Contest<'c> {
    fn outcomes(&self) -> Vec<Outcome<'c>> {
        self.decided().into_iter().map(|decided| decided.outcome).collect()
    }

    fn sentence(&self, place: &str, outcomes: &[Outcome<'_>]) -> Option<String> {
        let text = match outcomes {
            [] => return None,
            [only] => only.sentence(self.told),
            several => self.over(several),
        };
        let start = if place.is_empty() { String::new() } else { format!("O{}, ", &place[1..]) };
        Some(format!("{start}{text}."))
    }

    /// The winner beside the runner-up, at the place where they are furthest apart; none where no difference was measured.
    fn why(&self, place: &str) -> Option<Why> {
        let apart = |outcome: &Outcome<'_>| match outcome.standing {
            Standing::Wins | Standing::Within(_) | Standing::Unknown => {
                outcome.against.ratio >= 1.0 + THRESHOLD
            }
            _ => false,
        };
        let measured = self.decided().into_iter().map(|decided| (decided.place, decided.outcome));
        let (cells, outcome) = measured
            .filter(|(_, outcome)| apart(outcome) && outcome.against.ratio.is_finite())
            .max_by(|a, b| a.1.against.ratio.total_cmp(&b.1.against.ratio))?;
        let named = |name| cells.iter().find(|cell| cell.axis(self.design) == Some(name)).copied();
        let (best, rival) = (named(outcome.best)?, named(outcome.rival)?);
        Why::of(self.described(place, best), best, rival, self.design)
    }

    /// A place with the values of what varies between the places: `on varmail with threads 8`.
    fn described(&self, place: &str, at: &Cell<'_>) -> String {
        let varies = |name: &str, value: &str| {
            name != self.design
                && name != "workload"
                && self.cells.iter().any(|cell| cell.axis(name) != Some(value))
        };
        let others = at.axes.iter().filter(|(name, value)| varies(name, value));
        let others: Vec<String> = others
            .map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[])))
            .collect();
        match others.is_empty() {
            true => place.to_owned(),
            false => format!("{place} with {}", others.join(", ")).trim_start().to_owned(),
        }
    }

    /// Whether all of its outcomes are of single runs that nothing else disturbed; none where nothing is compared.
    fn is_of_one_run_each(&self) -> Option<bool> {
        let outcomes = self.outcomes();
        let one_run = |outcome: &Outcome<'_>| {
            outcome.repeats == (1, 1) && matches!(outcome.standing, Standing::Unknown)
        };
        (!outcomes.is_empty()).then(|| outcomes.iter().all(one_run))
    }

    /// The cells grouped by everything but the design.
    fn places(&self) -> Vec<Vec<&'c Cell<'c>>> {
        let mut places: Vec<Vec<&Cell<'_>>> = Vec::new();
        for cell in &self.cells {
            let same = |place: &&mut Vec<&Cell<'_>>| {
                place.iter().all(|other| cell::same_place(cell, other, self.design))
            };
            match places.iter_mut().find(same) {
                Some(place) => place.push(cell),
                None => places.push(vec![cell]),
            }
        }
        places
    }

    /// What the place shows; none where there is no choice.
    fn outcome(&self, place: &[&'c Cell<'c>]) -> Option<Outcome<'c>> {
        let centre = centre_of(place);
        let mut ranked: Vec<(&'c str, f64, &'c Cell<'c>)> = place
            .iter()
            .filter_map(|cell| Some((cell.axis(self.design)?, centre(&cell.throughputs())?, *cell)))
            .collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        let (best, others) = ranked.split_first()?;
        let rival = others.first()?;
        let compared = others
            .iter()
            .map(|other| Some((other.0, best.2.against(other.2, THRESHOLD)?)))
            .collect::<Option<Vec<_>>>()?;
        let chances = compared.iter().map(|(_, against)| against.chance);
        let chance = chances.reduce(|a, b| Some(a?.max(b?))).flatten();
        let runs = || ranked.iter().map(|(_, _, cell)| cell.throughputs().len());
        let repeats = (runs().min()?, runs().max()?);
        let level = (rival.1.total_cmp(&best.1).is_eq()).then_some(rival.0);
        let standing = standing(place, &compared, &ranked);
        let outcome = Outcome {
            best: best.0,
            rival: rival.0,
            against: compared[0].1,
            chance,
            standing,
            level,
            repeats,
            error: None,
            sets: Vec::new(),
        };
        Some(self.within_error(place, outcome))
    }

    /// Several places: how many each design wins, and what of the others.
    fn over(&self, outcomes: &[Outcome<'_>]) -> String {
        let all = outcomes.len();
        let points = |count: usize| match count {
            2 if all == 2 => "both points".to_owned(),
            _ if count == all => format!("all {all} points"),
            _ => format!("{count} of {all} points"),
        };
        let mut parts = Vec::new();
        let wins: Vec<&Outcome<'_>> =
            outcomes.iter().filter(|outcome| matches!(outcome.standing, Standing::Wins)).collect();
        for name in by_frequency(wins.iter().map(|outcome| outcome.best)) {
            let own: Vec<&Outcome<'_>> =
                wins.iter().copied().filter(|outcome| outcome.best == name).collect();
            parts.push(format!("{name} is fastest at {}{}", points(own.len()), Self::range(&own)));
        }
        let ties: Vec<Comparison> = outcomes.iter().filter_map(Outcome::tie).collect();
        if !ties.is_empty() {
            let intervals = || ties.iter().filter_map(|tie| tie.interval);
            let low = intervals().map(|i| i.low).fold(f64::INFINITY, f64::min);
            let high = intervals().map(|i| i.high).fold(0.0, f64::max);
            let what = if intervals().any(|i| i.is_range()) { "ranges" } else { "95 % intervals" };
            let none = ties.iter().map(|tie| none_of(tie.verdict)).max_by(f64::total_cmp).unwrap_or_default();
            parts.push(format!(
                "no difference of {} or more between the two highest is detectable at {} ({what} of the ratio within {} to {})",
                percent(none),
                points(ties.len()),
                number(low),
                number(high)
            ));
        }
        let unknown: Vec<&Outcome<'_>> =
            outcomes.iter().filter(|outcome| matches!(outcome.standing, Standing::Unknown)).collect();
        if let Some(repeats) = unknown.iter().map(|outcome| outcome.repeats).reduce(both) {
            let are = if repeats == (1, 1) { "is" } else { "are" };
            let runs = runs_of_each(repeats);
            if !self.told {
                parts.push(format!("at {} {runs} {are} too few to name a winner", points(unknown.len())));
            }
            let (level, ahead): (Vec<&Outcome<'_>>, Vec<_>) =
                unknown.iter().copied().partition(|o| o.level.is_some());
            if let Some(name) = by_frequency(ahead.iter().map(|outcome| outcome.best)).first() {
                let own: Vec<&Outcome<'_>> = ahead.iter().copied().filter(|o| o.best == *name).collect();
                let range = Self::range(&own);
                parts.push(format!("{name} measured highest at {}{range}", points(own.len())));
            }
            if !level.is_empty() {
                parts.push(format!("the two highest are equal at {}", points(level.len())));
            }
        }
        parts.extend(Self::within(outcomes, points));
        parts.extend(withheld(outcomes, points));
        parts.join("; ")
    }

    /// Where a design is ahead by no more than the model's error, or the prices decide.
    fn within(outcomes: &[Outcome<'_>], points: impl Fn(usize) -> String) -> Vec<String> {
        let all: Vec<&Outcome<'_>> =
            outcomes.iter().filter(|one| matches!(one.standing, Standing::Within(_))).collect();
        let mut parts = Vec::new();
        for name in by_frequency(all.iter().map(|outcome| outcome.best)) {
            let own: Vec<&Outcome<'_>> = all.iter().copied().filter(|outcome| outcome.best == name).collect();
            let why = own.iter().find_map(|outcome| outcome.error).map_or_else(String::new, sets::reason);
            parts.push(format!("{name} is ahead at {}{}, {why}", points(own.len()), Self::range(&own)));
        }
        let prices = outcomes.iter().filter(|one| matches!(one.standing, Standing::ByPrices)).count();
        if prices > 0 {
            parts.push(format!(
                "at {} the prices decide who is ahead, so no winner is named there",
                points(prices)
            ));
        }
        parts
    }

    /// `: 1.02x to 5.90x pmfs`: the best's ratios to the next best, by name where it is the same everywhere.
    fn range(outcomes: &[&Outcome<'_>]) -> String {
        let ends = || outcomes.iter().map(|outcome| outcome.extremes());
        let (least, most) = ends().fold((f64::INFINITY, 0.0_f64), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        if !least.is_finite() {
            return String::new();
        }
        let rivals =
            || outcomes.iter().flat_map(|one| one.sets.iter().map(|set| set.rival).chain([one.rival]));
        let same = rivals().all(|rival| rival == outcomes[0].rival);
        let rival = if same { outcomes[0].rival } else { "the next best" };
        if ratio(least) == ratio(most) {
            return format!(": {} {rival}", ratio(least));
        }
        format!(": {} to {} {rival}", ratio(least), ratio(most))
    }
}

/// By what designs are ranked, as they are compared: the geometric mean where all ran the same seeds, or else the median.
fn centre_of(place: &[&Cell<'_>]) -> fn(&[f64]) -> Option<f64> {
    let is_paired = |cell: &&Cell<'_>| {
        cell.pairs_with(place[0]).is_some() && cell.throughputs().iter().all(|rate| *rate > 0.0)
    };
    if place.iter().all(is_paired) { statistics::geometric_mean } else { statistics::median }
}

/// Why no winner is named at some of several places, of which `points` says how many.
fn withheld(outcomes: &[Outcome<'_>], points: impl Fn(usize) -> String) -> Vec<String> {
    let mut parts = Vec::new();
    let noisy = outcomes.iter().filter(|outcome| matches!(outcome.standing, Standing::Noisy)).count();
    if noisy > 0 {
        parts.push(format!("at {} the host was busy, so no winner is named there", points(noisy)));
    }
    let unsteady: Vec<_> = outcomes.iter().filter_map(Outcome::unsteady).collect();
    if let Some((name, found)) = unsteady.first() {
        parts.push(format!(
            "at {} a rate was not steady, so no winner is named there ({}): take a run {} times as long",
            points(unsteady.len()),
            of_unsteady(name, *found),
            steady::LONGER
        ));
    }
    let chance = outcomes.iter().filter(|outcome| matches!(outcome.standing, Standing::ByChance(_))).count();
    if chance > 0 {
        parts.push(format!(
            "at {} a difference is no larger than chance makes it among so many comparisons",
            points(chance)
        ));
    }
    let short = outcomes.iter().filter(|outcome| matches!(outcome.standing, Standing::CutShort)).count();
    if short > 0 {
        parts.push(format!("at {} a run was cut short, so no winner is named there", points(short)));
    }
    parts
}

/// Whether the best of a place is a winner, and why not: against all others, the nearest first.
fn standing<'c>(
    place: &[&'c Cell<'c>],
    compared: &[(&'c str, Comparison)],
    ranked: &[(&'c str, f64, &'c Cell<'c>)],
) -> Standing<'c> {
    if place.iter().any(|cell| cell.is_cut_short()) {
        return Standing::CutShort;
    }
    if place.iter().any(|cell| cell.is_noisy()) {
        return Standing::Noisy;
    }
    let tie = |(other, against): &(&'c str, Comparison)| match against.verdict {
        Verdict::NoDifference { .. } => Some(Standing::Ties(other, *against)),
        _ => None,
    };
    if let Some(tied) = compared.iter().find_map(tie) {
        return tied;
    }
    if compared.iter().any(|(_, against)| against.verdict != Verdict::Faster) {
        return Standing::Unknown;
    }
    let unsteady = ranked.iter().map(|(name, _, cell)| (*name, cell.steadiness()));
    match unsteady.into_iter().find(|(_, found)| !found.is_settled()) {
        Some((name, found)) => Standing::Unsteady(name, found),
        None => Standing::Wins,
    }
}

/// `nova is still starting: its later rate is 9 % higher`.
fn of_unsteady(name: &str, found: Steadiness) -> String {
    let (is, change) = match found {
        Steadiness::Starting { change } => ("is still starting, its later rate", change),
        Steadiness::Drifting { change } => ("has not settled, its rate at the end", change),
        Steadiness::Steady { .. } | Steadiness::Unknown => ("is steady, its later rate", 0.0),
    };
    let (size, side) = (change.abs() * 100.0, if change < 0.0 { "lower" } else { "higher" });
    format!("{name} {is} {} {side}", percent(size))
}

impl Outcome<'_> {
    fn tie(&self) -> Option<Comparison> {
        match self.standing {
            Standing::Ties(_, compared) => Some(compared),
            _ => None,
        }
    }

    fn unsteady(&self) -> Option<(&str, Steadiness)> {
        match self.standing {
            Standing::Unsteady(name, found) => Some((name, found)),
            _ => None,
        }
    }

    /// The only place of a workload.
    fn sentence(&self, told: bool) -> String {
        let Self { best, rival, against, .. } = self;
        let runs = runs_of_each(self.repeats);
        match self.standing {
            Standing::Unknown if told => match self.level {
                Some(level) => format!("{best} and {level} had the same throughput"),
                None => format!("{best} had {} the throughput of {rival}", ratio(against.ratio)),
            },
            Standing::Unknown
                if self.repeats.0 == 1
                    && let Some(level) = self.level =>
            {
                format!(
                    "{best} and {level} had the same throughput in {runs}, which names no winner: take --repeats {LEAST_REPEATS}"
                )
            }
            Standing::Wins => {
                format!("{best} is fastest: {} ({}{})", self.ratios(), interval(against), self.beyond())
            }
            Standing::Within(error) => {
                format!("{best} is ahead: {} ({}), {}", self.ratios(), interval(against), sets::reason(error))
            }
            Standing::ByPrices => {
                format!("no winner is named, because the prices decide: {}", self.by_prices())
            }
            Standing::Ties(other, compared) => format!(
                "no difference of {} or more between {best} and {other} is detectable: {} ({})",
                percent(none_of(compared.verdict)),
                ratio(compared.ratio),
                interval(&compared)
            ),
            Standing::Unknown if self.repeats.0 == 1 => format!(
                "{best} had {} the throughput of {rival} in {runs}, which names no winner: take --repeats {LEAST_REPEATS}",
                ratio(against.ratio)
            ),
            Standing::Unknown => format!(
                "{best} had {} the throughput of {rival} ({}); with {runs}, chance alone puts equal designs \
                 as far apart too often: take --repeats {LEAST_REPEATS}",
                ratio(against.ratio),
                interval(against)
            ),
            Standing::CutShort => "a run was cut short, so no winner is named".to_owned(),
            Standing::Unsteady(name, found) => format!(
                "no winner is named, because {}: take a run {} times as long ({best} had {} the throughput of {rival})",
                of_unsteady(name, found),
                steady::LONGER,
                ratio(against.ratio)
            ),
            Standing::ByChance(chance) => format!(
                "{best} had {} the throughput of {rival} ({}), which chance does in {:.0} % of cases among so many comparisons: \
                 take more --repeats",
                ratio(against.ratio),
                interval(against),
                chance * 100.0
            ),
            Standing::Noisy => format!(
                "{best} had {} the throughput of {rival} ({}) while the host was busy, which names no winner: measure again on a \
                 quiet host",
                ratio(against.ratio),
                interval(against)
            ),
        }
    }
}

/// `one run of each`, `4 runs of each`, `1 to 2 runs of each`.
fn runs_of_each(repeats: (usize, usize)) -> String {
    match repeats {
        (1, 1) => "one run of each".to_owned(),
        (least, most) if least == most => format!("{least} runs of each"),
        (least, most) => format!("{least} to {most} runs of each"),
    }
}

/// The least and the most of two pairs of them.
fn both(a: (usize, usize), b: (usize, usize)) -> (usize, usize) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// `95 % interval 0.98 to 1.03`, or the range of few runs.
pub(crate) fn interval(compared: &Comparison) -> String {
    let Some(interval) = compared.interval else {
        return match compared.verdict {
            Verdict::Unbounded => "a run of the other counted nothing",
            _ => "one run of each",
        }
        .to_owned();
    };
    let what = interval.coverage.as_str();
    let ends = format!("{what} {} to {}", number(interval.low), number(interval.high));
    match interval.coverage {
        Coverage::Confidence | Coverage::Range => ends,
        Coverage::Pairs => format!("{ends}, seed by seed"),
        Coverage::Exact => what.to_owned(),
    }
}

/// The smallest difference, in percent, that a comparison without one would have found.
fn none_of(verdict: Verdict) -> f64 {
    match verdict {
        Verdict::NoDifference { at_percent } => at_percent,
        _ => 0.0,
    }
}

/// `2 %`, `2.4 %`: rounded up, so that what is said of differences of this size stays true.
pub(crate) fn percent(value: f64) -> String {
    format!("{} %", (value * 10.0 - 1e-6).ceil() / 10.0)
}

/// Each name once, the most frequent first.
fn by_frequency<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match counted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counted.push((name, 1)),
        }
    }
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted.into_iter().map(|(name, _)| name).collect()
}
