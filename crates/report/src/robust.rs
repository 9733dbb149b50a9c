//! Whether winners are winners in the settings beside those of a run: at each place whether the design that is highest in the
//! run is ahead of every other there, by the test of the run where a setting has the repeats for it.

use results::{NeighbourRecord, ResultFile};

use crate::answer::THRESHOLD;
use crate::axis;
use crate::cell::{self, Cell};
use crate::prices;
use crate::table::Table;
use crate::units::ratio;
use results::statistics::{Verdict, median};

/// What a setting shows: at which places the design that is highest in `results` is not ahead, and by how much it is at the
/// others.
pub fn judge(results: &ResultFile, what: &str, neighbour: &ResultFile) -> NeighbourRecord {
    let (ours, theirs) = (cell::cells(results), cell::cells(neighbour));
    let design = axis::design_axis(cell::all_axes(&ours).keys().copied());
    let once = theirs.iter().all(|cell| cell.throughputs().len() < 2);
    let mut record = NeighbourRecord { what: what.to_owned(), once, ..NeighbourRecord::default() };
    let mut seen: Vec<&Cell<'_>> = Vec::new();
    for one in &ours {
        if seen.iter().any(|other| cell::same_place(one, other, design)) {
            continue;
        }
        seen.push(one);
        let here: Vec<&Cell<'_>> = ours.iter().filter(|cell| cell::same_place(cell, one, design)).collect();
        // A neighbour on another medium has no cell on this one: its own then stand for it.
        let on_medium = theirs.iter().any(|cell| cell.axis("medium") == one.axis("medium"));
        let stands_for = |cell: &&Cell<'_>| match on_medium {
            true => cell::same_place(cell, one, design),
            false => differ_in_medium(cell, one, design),
        };
        let there: Vec<&Cell<'_>> = theirs.iter().filter(stands_for).collect();
        let (ours, theirs) = (ranked(&here, design), ranked(&there, design));
        if ours.len() < 2 || theirs.len() < 2 {
            continue;
        }
        note(&mut record, (&ours, &theirs), &place(one, design));
    }
    record
}

/// Notes what a place shows: the designs of the run and of the setting there, the fastest first.
fn note(record: &mut NeighbourRecord, (ours, theirs): (&[Ranked<'_>], &[Ranked<'_>]), place: &str) {
    let best = ours[0].name;
    let Some(own) = theirs.iter().find(|one| one.name == best) else { return };
    let Some(rival) = theirs.iter().find(|one| one.name != best) else { return };
    record.places += 1;
    let ahead = own.rate / rival.rate;
    let against = own.cell.against(rival.cell, THRESHOLD).map(|found| found.verdict);
    let is_ahead = match against {
        Some(Verdict::Faster) => true,
        Some(Verdict::RanOnce) | None => ahead > 1.0,
        Some(_) => false,
    };
    if is_ahead {
        record.least = Some(record.least.map_or(ahead, |known| known.min(ahead)));
        record.most = Some(record.most.map_or(ahead, |known| known.max(ahead)));
    } else if ahead > 1.0 / (1.0 + THRESHOLD) {
        record.differs.push(format!("{place}{} is level with {best}", rival.name));
    } else {
        record.differs.push(format!("{place}{} is at {} {best}", rival.name, ratio(1.0 / ahead)));
    }
    let behind = |all: &[Ranked<'_>]| -> Vec<String> {
        all.iter().filter(|one| one.name != best).map(|one| one.name.to_owned()).collect()
    };
    let (one, two) = (behind(ours), behind(theirs));
    if one != two && one.len() > 1 {
        record.reordered.push(format!("{place}{}", two.join(", ")));
    }
}

/// A design at a place.
struct Ranked<'c> {
    name: &'c str,
    rate: f64,
    cell: &'c Cell<'c>,
}

/// The designs by their medians, the fastest first.
fn ranked<'c>(cells: &[&'c Cell<'c>], design: &str) -> Vec<Ranked<'c>> {
    let one = |cell: &&'c Cell<'c>| Some(Ranked { name: cell.axis(design)?, rate: rate(cell)?, cell });
    let mut all: Vec<Ranked<'c>> = cells.iter().filter_map(one).filter(|one| one.rate > 0.0).collect();
    all.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    all
}

/// Whether the two differ in the design and the medium only.
fn differ_in_medium(cell: &Cell<'_>, one: &Cell<'_>, design: &str) -> bool {
    let apart = |name: &str| name == design || name == "medium";
    one.axes.iter().all(|(name, value)| apart(name) || cell.axis(name) == Some(value))
}

fn rate(cell: &Cell<'_>) -> Option<f64> {
    median(&cell.throughputs())
}

/// `varmail, threads 8: `.
fn place(cell: &Cell<'_>, design: &str) -> String {
    let others = cell.axes.iter().filter(|(name, _)| *name != design && *name != "medium");
    let named = others.map(|(name, value)| match name.as_str() {
        "workload" => axis::label(value, &[]),
        _ => format!("{} {}", axis::title(name), axis::label(value, &[])),
    });
    let named = named.collect::<Vec<_>>().join(", ");
    if named.is_empty() { named } else { format!("{named}: ") }
}

/// In how many of the settings, without the run itself, the same design is ahead everywhere, and by how much; empty where none
/// was tried.
pub fn sentence(results: &ResultFile) -> String {
    let tried: Vec<&NeighbourRecord> = results.neighbours.iter().filter(|one| one.places > 0).collect();
    if results.neighbours.is_empty() || prices::unranked(results).is_some() {
        return String::new();
    }
    if tried.is_empty() {
        return "No setting beside this one gave numbers, so whether its order holds in others is not known."
            .to_owned();
    }
    let all = tried.len();
    let others = names(tried.iter().filter(|one| !one.differs.is_empty()));
    let reordered = names(tried.iter().filter(|one| one.differs.is_empty() && !one.reordered.is_empty()));
    let points: u32 = tried.iter().map(|one| one.places).sum();
    let apart: usize = tried.iter().map(|one| one.differs.len()).sum();
    let margin = |of: fn(&NeighbourRecord) -> Option<f64>, choose: fn(f64, f64) -> f64| {
        tried.iter().filter_map(|one| of(one)).reduce(choose)
    };
    let range = match (margin(|one| one.least, f64::min), margin(|one| one.most, f64::max)) {
        (Some(least), Some(most)) => format!(", by {} to {}", ratio(least), ratio(most)),
        _ => String::new(),
    };
    let runs = if tried.iter().all(|one| one.once) { " (one run of each)" } else { "" };
    let at = match points as usize {
        points if points > all && apart > 0 => format!(", at {} of {points} points", points - apart),
        _ => String::new(),
    };
    let ahead = all - others.len();
    let mut text =
        format!("The same design is ahead in {ahead} of {all} settings beside this{runs}{at}{range}");
    if !others.is_empty() {
        text += &format!("; not with {}", others.join(", "));
    }
    if !reordered.is_empty() {
        let first = tried.iter().find_map(|one| one.reordered.first()).map_or("", String::as_str);
        text += &format!("; the order behind it is another with {} ({first})", reordered.join(", "));
    }
    let left_out = names(results.neighbours.iter().filter(|one| one.left_out));
    if !left_out.is_empty() {
        text += &format!("; not tried, to stay within three times the run: {}", left_out.join(", "));
    }
    text + "."
}

fn names<'r>(records: impl Iterator<Item = impl std::borrow::Borrow<&'r NeighbourRecord>>) -> Vec<&'r str> {
    records.map(|one| one.borrow().what.as_str()).collect()
}

/// Each setting with what is different there; none where none was tried.
pub fn table(results: &ResultFile) -> Option<Table> {
    if results.neighbours.is_empty() || prices::unranked(results).is_some() {
        return None;
    }
    let mut table = Table::new("Settings beside this run, with runs half as long");
    table.words("setting");
    table.numbers("places");
    table.words("ahead by");
    table.words("where the first is not ahead");
    table.words("test");
    table.rows = results.neighbours.iter().map(row).collect();
    Some(table)
}

fn row(one: &NeighbourRecord) -> Vec<String> {
    let ahead = match (one.least, one.most) {
        (Some(least), Some(most)) if ratio(least) == ratio(most) => ratio(least),
        (Some(least), Some(most)) => format!("{} to {}", ratio(least), ratio(most)),
        _ => "–".to_owned(),
    };
    let differs = match (one.places, one.differs.is_empty()) {
        (0, _) => "–".to_owned(),
        (_, true) => "nowhere".to_owned(),
        (_, false) => one.differs.join("; "),
    };
    let test = match (one.left_out, one.places, one.once) {
        (true, ..) => "not tried: three times the run are spent",
        (_, 0, _) => "failed",
        (.., true) => "one run",
        _ => "as the run",
    };
    vec![one.what.clone(), one.places.to_string(), ahead, differs, test.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::{Clock, Sample};
    use std::collections::BTreeMap;

    fn result(rates: &[(&str, &str, f64)]) -> ResultFile {
        let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
        for (fs, threads, rate) in rates {
            let pairs = [("fs", *fs), ("threads", *threads), ("workload", "filebench/varmail")];
            let axes: BTreeMap<_, _> =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let mut sample = Sample::new(axes, 0, 1);
            sample.throughput_ops_per_s = *rate;
            file.samples.push(sample);
        }
        file
    }

    #[test]
    fn a_setting_in_which_another_design_is_ahead_is_named_with_its_place_and_the_others_with_their_margin() {
        let mut ours = result(&[("a", "1", 10.0), ("b", "1", 9.0), ("a", "8", 10.0), ("b", "8", 12.0)]);
        let same = result(&[("a", "1", 5.0), ("b", "1", 4.0), ("a", "8", 1.0), ("b", "8", 1.1)]);
        let other = result(&[("a", "1", 5.0), ("b", "1", 6.0), ("a", "8", 1.0), ("b", "8", 1.5)]);
        ours.neighbours = vec![judge(&ours, "seed 2", &same), judge(&ours, "medium m", &other)];
        assert_eq!(ours.neighbours[0].places, 2);
        assert_eq!(ours.neighbours[1].differs, ["threads 1, filebench/varmail: b is at 1.20x a"]);
        assert_eq!(
            sentence(&ours),
            "The same design is ahead in 1 of 2 settings beside this (one run of each), at 3 of 4 points, by 1.10x to 1.50x; \
             not with medium m."
        );
        assert_eq!(table(&ours).unwrap().rows.len(), 2);
        ours.neighbours.pop();
        assert_eq!(
            sentence(&ours),
            "The same design is ahead in 1 of 1 settings beside this (one run of each), by 1.10x to 1.25x."
        );
        let left_out =
            NeighbourRecord { what: "medium n".into(), left_out: true, ..NeighbourRecord::default() };
        ours.neighbours.push(left_out);
        assert!(sentence(&ours).ends_with("; not tried, to stay within three times the run: medium n."));
    }

    #[test]
    fn several_runs_of_a_setting_are_tested_and_no_difference_is_not_ahead() {
        let runs = |rates: &[f64]| {
            let mut file = result(&[]);
            for (at, rate) in rates.iter().enumerate() {
                let mut one = result(&[("a", "1", *rate), ("b", "1", 10.0)]).samples;
                for sample in &mut one {
                    (sample.repeat, sample.seed) = (at as u32, at as u64);
                }
                file.samples.append(&mut one);
            }
            file
        };
        let ours = runs(&[12.0, 12.1, 11.9, 12.0]);
        let noisy = judge(&ours, "noise", &runs(&[14.0, 8.0, 13.0, 7.5]));
        assert_eq!((noisy.once, noisy.differs.len(), noisy.least), (false, 1, None), "{noisy:?}");
        let clear = judge(&ours, "clear", &runs(&[14.0, 14.1, 13.9, 14.0]));
        assert!(clear.differs.is_empty() && clear.least > Some(1.35), "{clear:?}");
    }

    #[test]
    fn designs_behind_the_first_that_change_places_are_named() {
        let ours = result(&[("a", "1", 10.0), ("b", "1", 9.0), ("c", "1", 8.0)]);
        let mut found = ours.clone();
        found.neighbours =
            vec![judge(&ours, "seed 2", &result(&[("a", "1", 5.0), ("b", "1", 3.0), ("c", "1", 4.0)]))];
        let told = sentence(&found);
        assert!(
            told.contains("; the order behind it is another with seed 2 (") && told.ends_with(": c, b)."),
            "{told}"
        );
    }

    #[test]
    fn each_medium_of_a_plan_is_compared_with_itself() {
        let on = |rates: [f64; 4]| {
            let mut file = result(&[
                ("a", "1", rates[0]),
                ("b", "1", rates[1]),
                ("a", "1", rates[2]),
                ("b", "1", rates[3]),
            ]);
            for (at, sample) in file.samples.iter_mut().enumerate() {
                let medium = if at < 2 { "dram" } else { "cxl.fpga" };
                sample.axes.insert("medium".to_owned(), medium.to_owned());
            }
            file
        };
        // On dram `a` is ahead and on the slow medium `b`, in both settings, whatever the levels are.
        let record = judge(&on([90.0, 80.0, 5.0, 6.0]), "seed 2", &on([70.0, 60.0, 7.0, 8.0]));
        assert_eq!((record.places, record.differs.len()), (2, 0), "{record:?}");
    }

    #[test]
    fn a_setting_whose_cells_failed_says_nothing() {
        let mut ours = result(&[("a", "1", 10.0), ("b", "1", 9.0)]);
        let none = judge(&ours, "medium m", &result(&[("a", "1", 5.0)]));
        assert_eq!(none.places, 0);
        ours.neighbours = vec![none];
        assert!(sentence(&ours).starts_with("No setting beside this one gave numbers"));
    }
}
