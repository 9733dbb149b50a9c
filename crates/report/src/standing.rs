//! The place of a design among those that promise the same: in how many cells it is best, level and behind, and what holds it
//! back where it is behind.
//!
//! A plan that has a table `[standing]` names the design, or several mounts of it, and has the class of promise of each of its
//! designs (`lab::plan::Standing`). In each cell the design is set against the best of the others of its class, by the medians of
//! their throughput. Within `THRESHOLD` it is level. Under the virtual clock a cell's number has no noise, and of one run each no
//! winner is named (`answer`): this counts, and does not test. The sentence says in how many cells the difference is within the
//! error of the model's ratios.

use std::collections::{BTreeMap, BTreeSet};

use results::prices::AXIS;
use results::scaling;
use results::statistics::{geometric_mean, median};
use results::{ErrorRecord, PricesRecord, ResultFile};

use crate::answer::{THRESHOLD, error_at, exceeds, margin, reason};
use crate::axis;
use crate::cell::{self, Cell};
use crate::prices;
use crate::scaling::THREADS;
use crate::table::Table;
use crate::units::{Unit, number, percent, ratio};
use crate::why::Why;

/// From this share of a call's time on, what it waits for is named as what limits it.
const LIMITS: f64 = 0.1;

/// A design among those of its class.
struct InClass<'c> {
    of: &'c str,
    class: &'c str,
    /// The others of its class that the result has.
    others: Vec<&'c str>,
    places: Vec<Place<'c>>,
}

/// One place at which it is compared.
struct Place<'c> {
    own: &'c Cell<'c>,
    best: &'c Cell<'c>,
    /// Its rate divided by that of the best of the others.
    ratio: f64,
    /// The error of that.
    error: Option<&'c ErrorRecord>,
}

impl Place<'_> {
    fn is_best(&self) -> bool {
        self.ratio >= 1.0 + THRESHOLD
    }

    fn is_behind(&self) -> bool {
        self.ratio <= 1.0 / (1.0 + THRESHOLD)
    }

    fn is_one_run(&self) -> bool {
        [self.own, self.best].iter().all(|cell| cell.throughputs().len() == 1)
    }
}

/// Cells, best, level, behind, geometric mean of the ratios.
fn counts(places: &[&Place<'_>]) -> [String; 5] {
    let best = places.iter().filter(|place| place.is_best()).count();
    let behind = places.iter().filter(|place| place.is_behind()).count();
    let ratios: Vec<f64> = places.iter().map(|place| place.ratio).collect();
    let mean = geometric_mean(&ratios).map_or_else(|| "–".to_owned(), ratio);
    let level = places.len() - best - behind;
    [places.len().to_string(), best.to_string(), level.to_string(), behind.to_string(), mean]
}

impl<'c> InClass<'c> {
    /// Those of a result whose plan asks for them, but where no other design of the class was measured.
    fn all(results: &'c ResultFile, cells: &'c [Cell<'c>]) -> Vec<Self> {
        let asked = || {
            let said = results.plan.get("standing")?;
            Some((said.get("of")?.as_array()?, said.get("classes")?.as_object()?))
        };
        let Some((of, classes)) = asked().filter(|_| prices::unranked(results).is_none()) else {
            return Vec::new();
        };
        of.iter().filter_map(|of| Self::new(of.as_str()?, classes, cells, results.prices.as_ref())).collect()
    }

    fn new(
        of: &'c str,
        classes: &'c serde_json::Map<String, serde_json::Value>,
        cells: &'c [Cell<'c>],
        prices: Option<&'c PricesRecord>,
    ) -> Option<Self> {
        let class = classes.get(of)?.as_str()?;
        let design = axis::design_axis(cell::all_axes(cells).keys().copied());
        let is_rival = |cell: &&&Cell<'_>| {
            let name = cell.axis(design).filter(|name| *name != of);
            name.and_then(|name| classes.get(name)?.as_str()) == Some(class)
        };
        let (rivals, own): (Vec<_>, Vec<_>) =
            cells.iter().filter(|cell| rate(cell).is_some()).partition(|cell| is_rival(&cell));
        let mut places = Vec::new();
        for own in own.into_iter().filter(|cell| cell.axis(design) == Some(of)) {
            let here = rivals.iter().filter(|cell| cell::same_place(cell, own, design));
            let best = here.max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)));
            if let Some(best) = best.copied()
                && let (Some(mine), Some(theirs)) = (rate(own), rate(best))
            {
                let error = prices.zip(best.axis(design));
                let error = error.and_then(|(prices, other)| error_at(prices, own, (of, other)));
                places.push(Place { own, best, ratio: mine / theirs, error });
            }
        }
        let names: BTreeSet<&str> = rivals.iter().filter_map(|cell| cell.axis(design)).collect();
        let others = names.into_iter().collect();
        (!places.is_empty()).then_some(Self { of, class, others, places })
    }

    fn sentence(&self) -> String {
        let all: Vec<&Place<'_>> = self.places.iter().collect();
        let [cells, best, level, behind, mean] = counts(&all);
        let of = self.of;
        let by_threads: Vec<String> = self
            .groups(&[THREADS])
            .iter()
            .filter(|(names, _)| !names[0].is_empty())
            .map(|(names, places)| format!("{} {}", counts(places)[4], tasks(names[0])))
            .collect();
        let by_threads = match by_threads.len() {
            0 | 1 => String::new(),
            _ => format!(" ({})", by_threads.join(", ")),
        };
        let runs = if all.iter().all(|place| place.is_one_run()) { " of one run each" } else { "" };
        format!(
            "Among the designs of its class of promise ({}: {}), {of} is best in {best} of {cells} cells{runs}, level within {} \
             in {level} and behind in {behind}; the geometric mean of its throughput is {mean} \
             the best of the others{by_threads}.{}",
            self.class,
            self.others.join(", "),
            percent(THRESHOLD),
            self.error(),
        )
    }

    /// A sentence: how many of its differences are within what the model's ratios may be wrong by; empty where no error applies.
    fn error(&self) -> String {
        let apart = self.places.iter().filter(|place| place.is_best() || place.is_behind());
        let apart: Vec<_> = apart.filter_map(|place| Some((place.ratio, place.error?))).collect();
        let within = apart.iter().filter(|(ratio, error)| !exceeds(ratio.max(1.0 / ratio), error));
        let within: Vec<&ErrorRecord> = within.map(|(_, error)| *error).collect();
        let distinct = |of: &[&ErrorRecord], words: fn(&ErrorRecord) -> String| {
            let all: BTreeSet<String> = of.iter().map(|error| words(error)).collect();
            all.into_iter().collect::<Vec<_>>().join("; ")
        };
        let errors: Vec<&ErrorRecord> = apart.iter().map(|(_, error)| *error).collect();
        match (within.len(), apart.len()) {
            (_, 0) => String::new(),
            (0, _) => format!(" Each difference is larger than the error: {}.", distinct(&errors, margin)),
            (some, all) => {
                format!(" {some} of its {all} differences name no winner: {}.", distinct(&within, reason))
            }
        }
    }

    /// The places by the values of these axes, in the order of the cells.
    fn groups(&self, axes: &[&str]) -> Vec<(Vec<&'c str>, Vec<&Place<'c>>)> {
        let mut groups: Vec<(Vec<&str>, Vec<&Place<'_>>)> = Vec::new();
        for place in &self.places {
            let names: Vec<&str> = axes.iter().map(|axis| place.own.axis(axis).unwrap_or("")).collect();
            match groups.iter_mut().find(|(known, _)| *known == names) {
                Some((_, places)) => places.push(place),
                None => groups.push((names, vec![place])),
            }
        }
        groups
    }

    /// The counts by what varies but the workload, and their sum.
    fn table(&self, varying: &[&'c str]) -> Table {
        let title = format!(
            "{} among designs that promise the same ({}): cells by medium and tasks",
            self.of, self.class
        );
        let mut table = Table::new(title);
        table.words("class");
        for name in varying {
            table.words(axis::title(name));
        }
        for name in ["cells", "best", "level", "behind", "geometric mean"] {
            table.numbers(name);
        }
        let mut row = |names: Vec<String>, places: &[&Place<'_>]| {
            let first = [self.class.to_owned()].into_iter().chain(names);
            table.rows.push(first.chain(counts(places)).collect());
        };
        let mut groups = self.groups(varying);
        let order = |names: &[&str]| {
            names
                .iter()
                .map(|name| (name.parse().unwrap_or(0.0), (*name).to_owned()))
                .collect::<Vec<(f64, String)>>()
        };
        groups.sort_by(|a, b| order(&a.0).partial_cmp(&order(&b.0)).unwrap_or(std::cmp::Ordering::Equal));
        if groups.len() > 1 {
            for (names, places) in &groups {
                row(names.iter().map(|name| (*name).to_owned()).collect(), places);
            }
        }
        row(vec!["all".to_owned(); varying.len()], &self.places.iter().collect::<Vec<_>>());
        table
    }

    /// The cells in which it is behind, with the cause of each; none where there are none.
    fn behind(&self, varying: &[&'c str]) -> Option<Table> {
        let mut behind: Vec<&Place<'_>> = self.places.iter().filter(|place| place.is_behind()).collect();
        behind.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let mut table = Table::new(format!("Cells in which {} is behind, and what limits it there", self.of));
        table.words("workload");
        for name in varying {
            table.words(axis::title(name));
        }
        table.numbers(self.of);
        table.words("best other");
        table.numbers("its throughput");
        table.numbers("ratio");
        table.words("limit, and what takes longer");
        for place in behind {
            let value = |name| place.own.axis(name).map_or_else(String::new, |value| axis::label(value, &[]));
            let human = |cell| rate(cell).map_or_else(String::new, |rate| Unit::OpsPerSecond.human(rate));
            let mut row = vec![value("workload")];
            row.extend(varying.iter().map(|name| value(name)));
            let design = place.best.axis(axis::design_axis(place.best.axes.keys().map(String::as_str)));
            row.extend([human(place.own), design.unwrap_or_default().to_owned(), human(place.best)]);
            row.extend([format!("{}x", number(place.ratio)), cause(place)]);
            table.row_of(place.own.number, row);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

fn tasks(threads: &str) -> String {
    format!("with {threads} {}", if threads == "1" { "task" } else { "tasks" })
}

fn rate(cell: &Cell<'_>) -> Option<f64> {
    median(&cell.throughputs()).filter(|rate| *rate > 0.0)
}

/// What calls of the design wait for, and what of the difference to the best other is which part of the time.
fn cause(place: &Place<'_>) -> String {
    let total: u64 = place.own.calls().iter().flat_map(|operation| operation.time_ns.values()).sum();
    let waits = scaling::waits(place.own.measured());
    let waited = waits.first().map(|(name, ns)| (name, *ns as f64 / total.max(1) as f64));
    let limit = waited.filter(|(_, share)| *share >= LIMITS);
    let limit = limit.map(|(name, share)| format!("waits for {name} {}", percent(share)));
    let design = axis::design_axis(place.own.axes.keys().map(String::as_str));
    let parts = Why::of(String::new(), place.best, place.own, design).and_then(|why| why.cause());
    let parts = parts.map(|cause| format!("{} more an operation: {cause}", Unit::Nanos.human(cause.net)));
    limit.into_iter().chain(parts).collect::<Vec<_>>().join("; ")
}

/// What varies but design and workload.
fn varying<'c>(cells: &'c [Cell<'c>]) -> Vec<&'c str> {
    let all: BTreeMap<&str, _> = cell::varying_axes(cells);
    let design = axis::design_axis(cell::all_axes(cells).keys().copied());
    all.into_keys().filter(|name| *name != design && *name != "workload").collect()
}

/// The place of each design that the plan asks for in a sentence, under each set of prices by itself.
pub fn sentences(results: &ResultFile) -> Vec<String> {
    let cells = cell::cells(results);
    let all = cell::all_axes(&cells);
    let Some(sets) = all.get(AXIS).filter(|sets| sets.len() > 1) else {
        return InClass::all(results, &cells).iter().map(InClass::sentence).collect();
    };
    let of_set = |set: &&str| {
        let own: Vec<Cell<'_>> = cells.iter().filter(|cell| cell.axis(AXIS) == Some(set)).cloned().collect();
        let told = |standing: &InClass<'_>| format!("Prices {set}: {}", standing.sentence());
        InClass::all(results, &own).iter().map(told).collect::<Vec<_>>()
    };
    sets.iter().flat_map(of_set).collect()
}

/// The counts of each design that the plan asks for, and the cells in which it is behind.
pub fn tables(results: &ResultFile) -> Vec<Table> {
    let cells = cell::cells(results);
    let varying = varying(&cells);
    let of = |standing: &InClass<'_>| [Some(standing.table(&varying)), standing.behind(&varying)];
    InClass::all(results, &cells).iter().flat_map(of).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Clock, Sample};

    fn result(rates: &[(&str, &str, f64)]) -> ResultFile {
        let classes =
            serde_json::json!({ "mine": "whole", "other": "whole", "third": "whole", "torn": "words" });
        let plan = serde_json::json!({ "standing": { "of": ["mine", "torn", "alone"], "classes": classes } });
        let mut result = ResultFile::new("t", plan, 1, Clock::Virtual);
        result.samples = rates
            .iter()
            .map(|(fs, threads, rate)| Sample {
                axes: [("fs", *fs), ("threads", *threads), ("workload", "w")]
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .into(),
                throughput_ops_per_s: *rate,
                ops: 1,
                ..Sample::default()
            })
            .collect();
        result
    }

    #[test]
    fn a_design_is_counted_among_those_of_its_class_only() {
        let result = result(&[
            ("mine", "1", 200.0),
            ("other", "1", 100.0),
            ("third", "1", 50.0),
            ("torn", "1", 1000.0),
            ("mine", "2", 100.0),
            ("other", "2", 101.0),
            ("mine", "4", 100.0),
            ("third", "4", 400.0),
            ("mine", "8", 1.0),
            ("torn", "8", 2.0),
        ]);
        let all = sentences(&result);
        let [said] = &all[..] else { panic!("{all:?}: what stands alone in its class is not counted") };
        assert!(
            said.contains(
                "(whole: other, third), mine is best in 1 of 3 cells of one run each, level within 2.0 % in 1"
            ),
            "{said}"
        );
        assert!(said.contains("behind in 1;"), "{said}");
        let tables = tables(&result);
        let totals = tables[0].rows.last().unwrap().join(" ");
        assert_eq!(totals, "whole all 3 1 1 1 0.79x");
        assert_eq!(tables[0].rows.len(), 4);
        let behind = tables[1].rows.iter().map(|row| row[1].as_str()).collect::<Vec<_>>();
        assert_eq!(behind, ["4"]);
    }

    #[test]
    fn a_sentence_says_which_differences_are_within_the_models_error() {
        let mut result = result(&[
            ("mine", "1", 200.0),
            ("other", "1", 100.0),
            ("mine", "2", 100.0),
            ("other", "2", 110.0),
            ("mine", "4", 100.0),
            ("other", "4", 101.0),
        ]);
        let mut error = ErrorRecord {
            prices: "originals".to_owned(),
            class: "data".to_owned(),
            factor: Some(1.34),
            pairs: 30,
            ..ErrorRecord::default()
        };
        let mut said = |error: &ErrorRecord| {
            let (sets, errors) = (vec!["originals".to_owned()], vec![error.clone()]);
            result.prices = Some(PricesRecord { sets, errors, ..PricesRecord::default() });
            sentences(&result).remove(0)
        };
        let of_one = said(&error);
        assert!(of_one.contains("mine is best in 1 of 3 cells of one run each"), "{of_one}");
        let within = "1 of its 2 differences name no winner: within it: the model's error is ±34 % (30 pairs of data).";
        assert!(of_one.ends_with(within), "{of_one}");
        error.factor = Some(1.05);
        let larger = said(&error);
        assert!(
            larger.contains("Each difference is larger than the error: the model's error is ±5.0 %"),
            "{larger}"
        );
        error.why = Some("nothing was published of dram; it is borrowed".to_owned());
        let borrowed = said(&error);
        assert!(
            borrowed.contains("2 of its 2 differences name no winner: nothing was published"),
            "{borrowed}"
        );
    }

    #[test]
    fn a_plan_that_asks_for_no_standing_has_none() {
        let mut result = result(&[("mine", "1", 1.0), ("other", "1", 2.0)]);
        result.plan = serde_json::Value::Null;
        assert!(sentences(&result).is_empty() && tables(&result).is_empty());
    }
}
