//! Why the winner is faster than the runner-up: where the time of an operation of the workload goes on each of the two, by kind
//! of time and by kind of call.
//!
//! The time of an operation is that of all calls by the operations that the workload counts. What a workload does between its
//! calls is not in it, nor what tasks in the background do, which the tables have below all calls. Two designs whose calls take
//! the same, and whose rates differ, differ there, and the sentence says so.

use crate::axis;
use crate::cell::{self, Cell, Estimate};
use crate::figure::{Figure, Kind, Panel, Point, XValue, rank};
use crate::table::Table;
use crate::units::{Unit, percent};
use results::{OperationRecord, ResultFile, program};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Differences are named until they make up this part of the whole.
const ENOUGH: f64 = 0.8;
/// At most so many of them, the largest first.
const MOST: usize = 3;
/// Calls that differ by less than this part of their time take the same.
const SAME: f64 = 0.01;

/// A design at a place: where the time of an operation goes.
#[derive(Clone, Debug, Default, PartialEq)]
struct Side {
    name: String,
    number: usize,
    /// In ns, by kind of call and kind of time.
    parts: BTreeMap<(String, String), f64>,
    /// The same with waits by what is waited for: `wait NAME` of a lock or cache line.
    named: BTreeMap<(String, String), f64>,
    /// In the background, by kind: in none of the above.
    behind: BTreeMap<String, f64>,
}

/// How the kind of time begins that is a wait for a lock or cache line with a name.
const WAIT: &str = "wait ";

/// The times of calls, waits for locks and lines by their names, in the place of the kinds of time that they are a part of.
fn named(operation: &OperationRecord) -> BTreeMap<String, u64> {
    let mut times = operation.time_ns.clone();
    let known = || operation.lock_wait_ns.iter().chain(&operation.line_wait_ns);
    let in_kinds = match operation.named_ns.is_empty() {
        true => [("lock_wait".to_owned(), operation.lock_wait_ns.values().sum())].into(),
        false => operation.named_ns.clone(),
    };
    for (kind, ns) in &in_kinds {
        if let Some(time) = times.get_mut(kind) {
            *time = time.saturating_sub(*ns);
        }
    }
    for (name, ns) in known() {
        *times.entry(format!("{WAIT}{name}")).or_default() += ns;
    }
    times
}

impl Side {
    /// By operations; none where no times were recorded.
    fn of(cell: &Cell<'_>, design: &str) -> Option<Self> {
        Self::by_each(cell, design, cell.measured().map(|sample| sample.ops).sum())
    }

    /// All times by so many `ops`.
    fn by_each(cell: &Cell<'_>, design: &str, ops: u64) -> Option<Self> {
        let (mut parts, mut by_name) = (BTreeMap::new(), BTreeMap::new());
        for operation in cell.calls() {
            let add = |to: &mut BTreeMap<(String, String), f64>, times: &BTreeMap<String, u64>| {
                for (activity, ns) in times {
                    *to.entry((operation.kind.clone(), activity.clone())).or_default() +=
                        *ns as f64 / ops as f64;
                }
            };
            add(&mut parts, &operation.time_ns);
            add(&mut by_name, &named(&operation));
        }
        let behind = cell.operations().into_iter().filter(OperationRecord::is_background);
        let behind = behind.map(|one| (one.parts_ns() as f64 / ops as f64, one.kind));
        let behind = behind.map(|(ns, kind)| (kind, ns)).collect();
        let name = axis::label(cell.axis(design)?, &[]);
        let side = Self { name, number: cell.number, parts, named: by_name, behind };
        (ops > 0 && !side.parts.is_empty()).then_some(side)
    }

    fn total(&self) -> f64 {
        self.parts.values().sum()
    }

    /// By kind of time, or by kind of call.
    fn by(&self, of: impl Fn(&(String, String)) -> &String) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for (key, ns) in &self.parts {
            *sums.entry(of(key).clone()).or_default() += ns;
        }
        sums
    }
}

/// The cells of `first` and `second`, two values of `axis`, where they differ in nothing else and agree with `only`: sentences
/// and tables, the faster of the two first. Empty where there is no such place, or no times were recorded.
pub fn contrast(
    results: &[ResultFile],
    only: &BTreeMap<String, String>,
    axis: &str,
    (first, second): (&str, &str),
) -> String {
    let mut texts = Vec::new();
    for result in results {
        let cells = cell::cells(result);
        let here = |cell: &&Cell<'_>| only.iter().all(|(name, value)| cell.axis(name) == Some(value));
        for one in cells.iter().filter(here).filter(|cell| cell.axis(axis) == Some(first)) {
            let beside =
                |cell: &&Cell<'_>| cell.axis(axis) == Some(second) && cell::same_place(one, cell, axis);
            let Some(other) = cells.iter().find(beside) else { continue };
            let rate = |cell: &Cell<'_>| results::statistics::median(&cell.throughputs()).unwrap_or(0.0);
            let (best, rival) = if rate(one) >= rate(other) { (one, other) } else { (other, one) };
            let others = one.axes.iter().filter(|(name, _)| *name != axis);
            let place =
                others.map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[])));
            let place = place.collect::<Vec<_>>().join(", ");
            let place = if place.is_empty() { place } else { format!("with {place}") };
            texts.extend(Why::of(place, best, rival, axis).map(|why| why.to_text()));
        }
    }
    texts.join("\n")
}

/// Two designs at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// Of which place: `On varmail with threads 8`; may be empty.
    place: String,
    best: Side,
    rival: Side,
}

impl Why {
    /// `best` beside `rival`; none where the times of their calls were not recorded.
    pub(crate) fn of(place: String, best: &Cell<'_>, rival: &Cell<'_>, design: &str) -> Option<Self> {
        Some(Self { place, best: Side::of(best, design)?, rival: Side::of(rival, design)? })
    }

    /// The same of whole runs in the place of operations.
    pub(crate) fn of_runs(best: &Cell<'_>, rival: &Cell<'_>, design: &str) -> Option<Self> {
        let side = |cell: &Cell<'_>| Side::by_each(cell, design, cell.measured().count() as u64);
        Some(Self { place: String::new(), best: side(best)?, rival: side(rival)? })
    }

    /// One sentence: how long an operation takes on both, and what makes the difference, with the shares of it.
    pub fn sentence(&self) -> String {
        let (best, rival) = (&self.best, &self.rival);
        let (own, other) = (best.total(), rival.total());
        let start = if self.place.is_empty() { String::new() } else { format!("{}, ", self.place) };
        let takes = format!(
            "{start}the calls of an operation take {} on {} and {} on {}",
            Unit::Nanos.human(own),
            best.name,
            Unit::Nanos.human(other),
            rival.name
        );
        let apart = other - own;
        let text = if apart.abs() < SAME * other {
            format!("{takes}: the rates differ by what happens between calls")
        } else if apart < 0.0 {
            format!("{takes}: those of the faster design take longer, and what happens between calls decides")
        } else {
            let (cause, longer) = (self.causes(), Unit::Nanos.human(apart));
            match cause.is_all() {
                true => format!("{takes}; of the {longer} that {} takes longer, {}", rival.name, cause.parts),
                false => format!("{takes}; {} takes {longer} longer: {cause}", rival.name),
            }
        };
        let mut letters = text.chars();
        letters.next().map_or_else(String::new, |first| {
            first.to_uppercase().collect::<String>() + letters.as_str() + "."
        })
    }

    /// Explains why the rival takes longer; none where it takes no longer in all, or too little.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let apart = self.rival.total() - self.best.total();
        (apart >= SAME * self.rival.total()).then(|| self.causes())
    }

    /// The sentence and both tables.
    pub fn to_text(&self) -> String {
        let [by_time, by_call] = self.tables().map(|table| table.to_text());
        format!("{}\n{by_time}\n{by_call}", crate::table::wrapped(&self.sentence()))
    }

    /// How much less time each kind takes on the winner, the largest difference first.
    fn differences(&self) -> Vec<(String, f64)> {
        Self::less(&self.best.by(|key| &key.1), &self.rival.by(|key| &key.1))
    }

    /// The same with locks and lines by their names.
    fn named_differences(&self) -> Vec<(String, f64)> {
        let by = |side: &Side| Side { parts: side.named.clone(), ..side.clone() }.by(|key| &key.1);
        Self::less(&by(&self.best), &by(&self.rival))
    }

    fn less(best: &BTreeMap<String, f64>, rival: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
        let names: BTreeSet<&String> = best.keys().chain(rival.keys()).collect();
        let of = |times: &BTreeMap<String, f64>, name| times.get(name).copied().unwrap_or(0.0);
        let mut all: Vec<(String, f64)> =
            names.into_iter().map(|name| (name.clone(), of(rival, name) - of(best, name))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| rank(&a.0).cmp(&rank(&b.0))));
        all
    }

    /// What takes longer on the rival and its shares, which add up to all of it: `72 % is software (in write), 20 % is waiting for
    /// nova.inode and 8 % is other`; apart from them what takes less.
    fn causes(&self) -> Cause {
        let all = self.named_differences();
        let longer: f64 = all.iter().map(|(_, less)| less.max(0.0)).sum();
        let (mut texts, mut named, mut told): (Vec<String>, f64, i64) = (Vec::new(), 0.0, 0);
        for (activity, less) in all.iter().filter(|(_, less)| *less > 0.0) {
            if texts.len() == MOST || named >= ENOUGH * longer {
                break;
            }
            named += less;
            let share = (less / longer * 100.0).round() as i64;
            told += share;
            texts.push(format!("{share} % is {}{}", words(activity), self.calls_of(activity, *less)));
        }
        if told < 100 {
            texts.push(format!("{} % is other", 100 - told));
        }
        let less: Vec<(&str, f64)> =
            all.iter().filter(|(_, less)| *less < 0.0).map(|(name, less)| (&**name, -less)).collect();
        let saved: f64 = less.iter().map(|(_, ns)| ns).sum();
        Cause { net: longer - saved, longer, parts: list(&texts), saver: Self::saver(&less) }
    }

    /// The kind of call that most of a difference is in: ` (in fsync)`.
    fn calls_of(&self, activity: &str, less: f64) -> String {
        let of = |side: &Side, call: &String| {
            side.named.get(&(call.clone(), activity.to_owned())).copied().unwrap_or(0.0)
        };
        let calls: BTreeSet<&String> =
            self.best.named.keys().chain(self.rival.named.keys()).map(|key| &key.0).collect();
        let most =
            calls.into_iter().map(|call| (call.as_str(), of(&self.rival, call) - of(&self.best, call)));
        match most.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((program::OPERATION, part)) if part >= 0.5 * less => " (between calls)".to_owned(),
            Some((call, part)) if part >= 0.5 * less => format!(" (in {call})"),
            _ => String::new(),
        }
    }

    /// Names the parts that take less on the rival, the most last: `copying saves 200 ns`.
    fn saver(less: &[(&str, f64)]) -> String {
        let human = |ns| Unit::Nanos.human(ns);
        let all: f64 = less.iter().map(|(_, ns)| ns).sum();
        match less {
            [] => String::new(),
            [(only, ns)] => format!("{} saves {}", words(only), human(*ns)),
            [.., (most, ns)] => {
                format!("others save {}, {} {} of it", human(all), words(most), human(*ns))
            }
        }
    }

    /// The time of an operation by kind, and by kind of call, on both, the longest first.
    pub fn tables(&self) -> [Table; 2] {
        [self.table("kind of time", |key| &key.1, |name| name.replace('_', " ")), self.by_call()]
    }

    /// With what is done in the background below all calls.
    fn by_call(&self) -> Table {
        let mut table = self.table("kind of call", |key| &key.0, str::to_owned);
        let behind: BTreeSet<&String> = self.best.behind.keys().chain(self.rival.behind.keys()).collect();
        for kind in behind {
            let of = |side: &Side| side.behind.get(kind).copied().unwrap_or(0.0);
            let (own, other) = (of(&self.best), of(&self.rival));
            let none = String::new;
            let [own_ns, other_ns] = [own, other].map(|ns| Unit::Nanos.human(ns));
            let name = format!("{kind}, in the background");
            table.rows.push(vec![name, own_ns, none(), other_ns, none(), signed(other - own)]);
        }
        table
    }

    fn table(
        &self,
        head: &str,
        of: impl Fn(&(String, String)) -> &String + Copy,
        label: impl Fn(&str) -> String,
    ) -> Table {
        let (best, rival) = (self.best.by(of), self.rival.by(of));
        let place = if self.place.is_empty() { String::new() } else { format!(" {}", lower(&self.place)) };
        let mut table = Table::new(format!("Time of an operation by {head}{place}"));
        table.words(head);
        for side in [&self.best, &self.rival] {
            table.numbers(&side.name);
            table.numbers("share");
        }
        table.numbers("difference");
        let names: BTreeSet<&String> = best.keys().chain(rival.keys()).collect();
        let mut rows: Vec<(&String, f64, f64)> = names
            .into_iter()
            .map(|name| {
                let of = |times: &BTreeMap<String, f64>| times.get(name).copied().unwrap_or(0.0);
                (name, of(&best), of(&rival))
            })
            .filter(|(_, own, other)| own + other > 0.0)
            .collect();
        rows.sort_by(|a, b| b.1.max(b.2).total_cmp(&a.1.max(a.2)));
        let row = |name: String, own: f64, other: f64| {
            vec![
                name,
                Unit::Nanos.human(own),
                percent(own / self.best.total()),
                Unit::Nanos.human(other),
                percent(other / self.rival.total()),
                signed(other - own),
            ]
        };
        table.rows.extend(rows.into_iter().map(|(name, own, other)| row(label(name), own, other)));
        table.rows.push(row("all calls".to_owned(), self.best.total(), self.rival.total()));
        table
    }

    /// Both as bars of a stack.
    pub fn figure(&self) -> Figure {
        let sides = [&self.best, &self.rival];
        let mut activities: Vec<String> = self.differences().into_iter().map(|(name, _)| name).collect();
        activities.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
        let times = sides.map(|side| side.by(|key| &key.1));
        let mut points = Vec::new();
        for (x, (side, times)) in sides.iter().zip(&times).enumerate() {
            for (series, activity) in activities.iter().enumerate() {
                let Some(value) = times.get(activity) else { continue };
                let y = Estimate { value: *value, interval: None, repeats: 1 };
                points.push(Point { x, series, y, cell: side.number, failed: (0, 0), cut_short: false });
            }
        }
        let xs = sides.map(|side| XValue { label: side.name.clone(), number: None }).to_vec();
        Figure {
            id: "why".to_owned(),
            title: "Why: where the time of an operation goes".to_owned(),
            caption:
                "All calls of a run by the operations that it counts, on the fastest design and the next."
                    .to_owned(),
            kind: Kind::Breakdown,
            x_label: "design".to_owned(),
            x_log: false,
            y_label: "time of the calls of one operation".to_owned(),
            unit: Unit::Nanos,
            series: activities.iter().map(|name| name.replace('_', " ")).collect(),
            panels: vec![Panel { title: String::new(), xs, points, ..Panel::default() }],
        }
    }
}

/// The cause that one of two takes longer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cause {
    /// In ns, how much longer it takes in all.
    pub(crate) net: f64,
    /// In ns, what takes longer, together.
    longer: f64,
    /// The shares of it.
    pub(crate) parts: String,
    /// The parts that take less, in words.
    saver: String,
}

impl Cause {
    /// Says that nothing takes less: then the shares are those of the whole difference.
    pub(crate) fn is_all(&self) -> bool {
        Unit::Nanos.human(self.longer) == Unit::Nanos.human(self.net)
    }
}

/// Without `net`: the shares, or what takes longer with its shares, and what takes less.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str(&self.parts);
        }
        let longer = Unit::Nanos.human(self.longer);
        write!(f, "what takes longer adds up to {longer}, of which {}; {}", self.parts, self.saver)
    }
}

fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_lowercase().collect::<String>() + letters.as_str())
}

fn signed(ns: f64) -> String {
    match ns {
        ns if ns < 0.0 => format!("−{}", Unit::Nanos.human(-ns)),
        ns => Unit::Nanos.human(ns),
    }
}

/// `a, b and c`.
fn list(texts: &[String]) -> String {
    match texts {
        [] => "no kind of time has a part".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A kind of time in a sentence.
fn words(activity: &str) -> String {
    if let Some(name) = activity.strip_prefix(WAIT) {
        return format!("waiting for {name}");
    }
    match activity {
        "software" => "software".to_owned(),
        "copy" => "copying".to_owned(),
        "data" => "the medium serving data".to_owned(),
        "metadata" => "the medium serving metadata".to_owned(),
        "journal" => "the journal or log".to_owned(),
        "lock_wait" => "waiting for locks".to_owned(),
        "medium_wait" => "waiting for the medium's bandwidth".to_owned(),
        "memory_latency" => "memory that others use".to_owned(),
        "memory_turn" => "waiting at the greatest traffic of memory".to_owned(),
        "core_wait" => "waiting for a core".to_owned(),
        "generator" => "the workload's own work".to_owned(),
        "trace_order" => "waiting for the program's other threads".to_owned(),
        other => other.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, parts: &[(&str, &str, f64)]) -> Side {
        let parts =
            parts.iter().map(|(call, activity, ns)| (((*call).to_owned(), (*activity).to_owned()), *ns));
        let parts: BTreeMap<_, _> = parts.collect();
        Side { name: name.to_owned(), number: 1, named: parts.clone(), parts, ..Side::default() }
    }

    #[test]
    fn the_sentence_names_the_largest_differences_with_their_shares_and_what_goes_the_other_way() {
        let best = side("hinfs", &[("write", "copy", 500.0), ("fsync", "medium_wait", 100.0)]);
        let rival = side(
            "pmfs",
            &[("write", "copy", 300.0), ("write", "medium_wait", 200.0), ("fsync", "medium_wait", 1_100.0)],
        );
        let why = Why { place: "On varmail".to_owned(), best, rival };
        assert_eq!(
            why.sentence(),
            "On varmail, the calls of an operation take 600 ns on hinfs and 1.60 µs on pmfs; pmfs takes 1.00 µs longer: what \
             takes longer adds up to 1.20 µs, of which 100 % is waiting for the medium's bandwidth (in fsync); \
             copying saves 200 ns."
        );
        let [by_time, by_call] = why.tables();
        assert_eq!(by_time.rows[0], ["medium wait", "100 ns", "17 %", "1.30 µs", "81 %", "1.20 µs"]);
        assert_eq!(by_call.rows.last().unwrap()[5], "1.00 µs");
        let figure = why.figure();
        assert_eq!(
            (figure.series, figure.panels[0].points.len()),
            (vec!["copy".to_owned(), "medium wait".to_owned()], 4)
        );
    }

    #[test]
    fn what_tasks_in_the_background_do_is_below_all_calls_and_in_no_sentence() {
        let sample = |fs: &str, write: u64, behind: u64| {
            let operations =
                [("write", write), ("writeback", behind), ("clean", behind)].map(|(kind, ns)| {
                    OperationRecord {
                        time_ns: [("copy".to_owned(), ns)].into(),
                        total_ns: ns,
                        ..OperationRecord::new(kind)
                    }
                });
            results::Sample {
                axes: [("fs".to_owned(), fs.to_owned())].into(),
                ops: 10,
                operations: operations.into(),
                ..results::Sample::default()
            }
        };
        let mut result = ResultFile::new("t", serde_json::Value::Null, 1, results::Clock::Virtual);
        result.samples = vec![sample("ext4", 1_000, 9_000), sample("nova", 4_000, 0)];
        let cells = cell::cells(&result);
        let why = Why::of(String::new(), &cells[0], &cells[1], "fs").unwrap();
        assert_eq!(
            why.sentence(),
            "The calls of an operation take 100 ns on ext4 and 400 ns on nova; of the 300 ns that nova takes longer, 100 % is \
             copying (in write)."
        );
        let by_call = &why.tables()[1].rows;
        assert_eq!(by_call[1], ["all calls", "100 ns", "100 %", "400 ns", "100 %", "300 ns"]);
        assert_eq!(by_call[3], ["writeback, in the background", "900 ns", "", "0 ns", "", "−900 ns"]);
        let runs = Why::of_runs(&cells[0], &cells[1], "fs").unwrap().cause().unwrap();
        assert!((runs.net - 3_000.0).abs() < 1e-6, "{runs:?}");
    }

    #[test]
    fn several_parts_that_take_less_are_summed_and_the_net_is_the_difference_of_the_two_times() {
        let best =
            side("a", &[("read", "copy", 500.0), ("read", "data", 400.0), ("read", "software", 100.0)]);
        let rival =
            side("b", &[("read", "copy", 300.0), ("read", "data", 350.0), ("read", "software", 1_000.0)]);
        let cause = Why { place: String::new(), best, rival }.cause().unwrap();
        assert!(!cause.is_all() && (cause.net - 650.0).abs() < 1e-9);
        assert_eq!(
            cause.to_string(),
            "what takes longer adds up to 900 ns, of which 100 % is software (in read); others save 250 ns, copying 200 ns of it"
        );
    }

    #[test]
    fn rates_that_differ_between_calls_are_not_explained_by_them() {
        let why = |own: f64| {
            let [best, rival] =
                [("a", own), ("b", 1_000.0)].map(|(name, ns)| side(name, &[("read", "copy", ns)]));
            Why { place: String::new(), best, rival }.sentence()
        };
        assert!(why(999.0).ends_with("the rates differ by what happens between calls."), "{}", why(999.0));
        assert!(why(1_200.0).contains("those of the faster design take longer"));
        assert!(why(500.0).starts_with(
            "The calls of an operation take 500 ns on a and 1.00 µs on b; of the 500 ns that b takes longer, 100 % is copying"
        ));
    }

    #[test]
    fn a_lock_is_named_and_the_shares_add_up_to_all_that_takes_longer() {
        let operation = |locked: u64, software: u64, data: u64| OperationRecord {
            time_ns: [("lock_wait", locked), ("software", software), ("data", data), ("copy", 90 * data)]
                .map(|(name, ns)| (name.to_owned(), ns))
                .into(),
            lock_wait_ns: [("pmfs.inode".to_owned(), locked)].into(),
            line_wait_ns: [("vfs.references".to_owned(), 30)].into(),
            named_ns: [("lock_wait".to_owned(), locked), ("software".to_owned(), 30)].into(),
            ..OperationRecord::new("write")
        };
        let side = |name: &str, operation: &OperationRecord| {
            let key = |(kind, ns): (&String, &u64)| (("write".to_owned(), kind.clone()), *ns as f64);
            let (parts, by_name) = (operation.time_ns.iter().map(key).collect(), super::named(operation));
            let named = by_name.iter().map(key).collect();
            Side { name: name.to_owned(), number: 1, parts, named, ..Side::default() }
        };
        let (one, two) = (operation(0, 100, 1), operation(600, 400, 2));
        let total = |operation: &OperationRecord| super::named(operation).values().sum::<u64>();
        assert_eq!(
            [&one, &two].map(total),
            [&one, &two].map(|one| one.time_ns.values().sum::<u64>()),
            "no time is lost"
        );
        let why = Why { place: String::new(), best: side("a", &one), rival: side("b", &two) };
        let cause = why.cause().unwrap();
        assert!(cause.is_all() && (cause.net - 991.0).abs() < 1e-9);
        assert_eq!(
            cause.to_string(),
            "61 % is waiting for pmfs.inode (in write), 30 % is software (in write) and 9 % is other"
        );
    }
}
