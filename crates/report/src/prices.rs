//! By which prices designs ran, in words: the sets of a result, what of a design they leave out, and why designs that were not
//! priced alike are not ranked.

use std::collections::BTreeMap;

use results::prices::{AXIS, MIXED};
use results::{Clock, PricesRecord, ResultFile};

use crate::axis;
use crate::cell::{self, Cell};
use crate::table::Table;
use crate::units::{percent, ratio};
use results::statistics::median;

/// Parts that take less of a design's time are not told.
const LEAST_SHARE: f64 = 0.005;

/// The labels of designs that a result compares.
fn compared<'c>(cells: &[Cell<'c>]) -> Vec<&'c str> {
    cell::all_axes(cells).get("fs").cloned().unwrap_or_default()
}

/// Why neither winners nor ratios of designs are named, as a sentence; none where they are.
pub fn unranked(results: &ResultFile) -> Option<String> {
    let designs = compared(&cell::cells(results));
    if results.clock == Clock::Real || designs.len() < 2 {
        return None;
    }
    let (sets, why) = match &results.prices {
        None => (
            String::new(),
            "an earlier version ran it, which priced designs with and without an original differently: run it again",
        ),
        Some(prices) => (format!(" ({})", prices.sets.join(", ")), prices.unranked.as_deref()?),
    };
    Some(format!("Prices: {MIXED}{sets}. No winner and no ratio is named: {why}."))
}

/// The sets of prices of a result, for a note: `originals`, `mixed`.
pub fn named(results: &ResultFile) -> String {
    match (&results.prices, results.clock) {
        (_, Clock::Real) => "none".to_owned(),
        (None, _) => MIXED.to_owned(),
        (Some(prices), _) => prices.sets.join(", "),
    }
}

/// Why results are not compared: they have other sets of prices. None where they are the same.
pub fn apart(
    (old_name, old): (&str, &[ResultFile]),
    (new_name, new): (&str, &[ResultFile]),
) -> Option<String> {
    let alone = old.len() == 1 && new.len() == 1;
    let pairs = old.iter().flat_map(|one| new.iter().map(move |two| (one, two)));
    let mut pairs =
        pairs.filter(|(one, two)| alone || one.name == two.name).filter(|(one, two)| one.clock == two.clock);
    let (one, two) = pairs.find(|(one, two)| named(one) != named(two))?;
    let [one, two] = [one, two].map(|result| match named(result) {
        none if none.is_empty() => "none".to_owned(),
        sets => sets,
    });
    Some(format!(
        "results of different prices are not compared: {old_name} has {one}, and {new_name} {two}; run one of them again with \
         --prices, or weir run its plan"
    ))
}

/// What designs were charged for what their code does, and what of them has no price.
pub(crate) fn sentences(results: &ResultFile) -> Vec<String> {
    let Some(prices) = results.prices.as_ref().filter(|prices| !prices.sets.is_empty()) else {
        return Vec::new();
    };
    let mut sentences = Vec::new();
    if unranked(results).is_none() {
        let words = prices.sets.iter().map(|set| described(set)).collect::<Vec<_>>().join("; ");
        sentences.push(format!("Prices: {words}."));
    }
    let own: Vec<String> = prices.own.iter().map(|(label, own)| format!("of {label} {own}")).collect();
    if !own.is_empty() {
        sentences.push(format!("In no price of an original: {}.", own.join(", ")));
    }
    sentences.extend(unported(results, prices));
    sentences
}

fn described(set: &str) -> String {
    let words = match set {
        "originals" => "what the modules of Linux take in each part",
        "ran" => "as Weir's code runs them",
        "port:least" => "designs without an original pay the least that one takes for the same part",
        "port:most" => "the most",
        _ => return set.to_owned(),
    };
    format!("{set}, {words}")
}

/// The parts of designs without an original that no original has, with their share of the time of calls.
fn unported(results: &ResultFile, prices: &PricesRecord) -> Option<String> {
    let ported = |sample: &&results::Sample| sample.axis(AXIS).is_none_or(|set| set.starts_with("port:"));
    let told = prices.ported.iter().filter_map(|(label, known)| {
        let (mut all, mut parts) = (0, BTreeMap::<&str, u64>::new());
        let own = results.samples.iter().filter(|sample| sample.axis("fs") == Some(label)).filter(ported);
        for operation in own.flat_map(|sample| &sample.operations).filter(|one| !one.is_background()) {
            all += operation.total_ns;
            for (part, record) in operation.parts.iter().filter(|(part, _)| !known.contains(part)) {
                *parts.entry(part).or_default() += record.ns;
            }
        }
        let share = |ns: u64| ns as f64 / all.max(1) as f64;
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, ns)| share(**ns) >= LEAST_SHARE)
            .map(|(part, ns)| format!("{part} {}", percent(share(*ns))))
            .collect();
        match (known.is_empty(), parts.is_empty()) {
            (true, _) => Some(format!("{label}, all of it")),
            (false, true) => None,
            (false, false) => Some(format!("{} (of the time of calls)", parts.join(", "))),
        }
    });
    let told = told.collect::<Vec<_>>().join("; ");
    (!told.is_empty()).then(|| format!("As under ran, because no original has the part: {told}."))
}

/// Each design at each place under each set of prices, by the first design there; none where there is one set, or no ranking.
pub fn table(results: &ResultFile) -> Option<Table> {
    let cells = cell::cells(results);
    let all = cell::all_axes(&cells);
    let sets = all.get(AXIS).filter(|sets| sets.len() > 1)?;
    let first = *compared(&cells).first().filter(|_| unranked(results).is_none())?;
    let design = axis::design_axis(all.keys().copied());
    let others: Vec<&str> = all
        .iter()
        .filter(|(name, values)| **name != design && **name != AXIS && values.len() > 1)
        .map(|(name, _)| *name)
        .collect();
    let mut table = Table::new(format!("Throughput by that of {first}, under each set of prices"));
    for name in &others {
        table.words(axis::title(name));
    }
    table.words(axis::title(design));
    for set in sets {
        table.numbers(*set);
    }
    let rate = |cell: &Cell<'_>| median(&cell.throughputs());
    let key = |cell: &Cell<'_>| -> Vec<String> {
        others
            .iter()
            .chain([&design])
            .map(|name| cell.axis(name).map_or_else(String::new, |value| axis::label(value, &[])))
            .collect()
    };
    let mut rows: Vec<(Vec<String>, Vec<&Cell<'_>>)> = Vec::new();
    for cell in &cells {
        match rows.iter_mut().find(|(known, _)| *known == key(cell)) {
            Some((_, row)) => row.push(cell),
            None => rows.push((key(cell), vec![cell])),
        }
    }
    for (names, row) in rows {
        let under = |set: &&str| {
            let own = row.iter().find(|cell| cell.axis(AXIS) == Some(set))?;
            let base = cells
                .iter()
                .find(|cell| cell.axis(design) == Some(first) && cell::same_place(cell, own, design))?;
            Some(ratio(rate(own)? / rate(base)?))
        };
        let values = sets.iter().map(|set| under(set).unwrap_or_else(|| "–".to_owned()));
        table.rows.push(names.into_iter().chain(values).collect());
    }
    Some(table)
}
