//! Whether winners are winners in the settings beside those of a run: the designs that are ahead there at each place.

use results::{NeighbourRecord, ResultFile};

use crate::axis;
use crate::cell::{self, Cell};
use crate::table::Table;
use crate::units::ratio;
use results::statistics::median;

/// What a neighbour shows: at which places another design is ahead of the one that is highest in `results`.
pub fn judge(results: &ResultFile, what: &str, neighbour: &ResultFile) -> NeighbourRecord {
    let (ours, theirs) = (cell::cells(results), cell::cells(neighbour));
    let design = axis::design_axis(cell::all_axes(&ours).keys().copied());
    let mut record = NeighbourRecord { what: what.to_owned(), places: 0, differs: Vec::new() };
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
        let (Some((best, _)), Some((ahead, most))) = (highest(&here, design), highest(&there, design)) else {
            continue;
        };
        let own = there.iter().find(|cell| cell.axis(design) == Some(best)).and_then(|cell| rate(cell));
        if here.len() < 2 || there.len() < 2 {
            continue;
        }
        let Some(own) = own else { continue };
        record.places += 1;
        if ahead != best && most > own {
            record.differs.push(format!("{}{ahead} is at {} {best}", place(one, design), ratio(most / own)));
        }
    }
    record
}

/// Whether the two differ in the design and the medium only.
fn differ_in_medium(cell: &Cell<'_>, one: &Cell<'_>, design: &str) -> bool {
    let apart = |name: &str| name == design || name == "medium";
    one.axes.iter().all(|(name, value)| apart(name) || cell.axis(name) == Some(value))
}

fn rate(cell: &Cell<'_>) -> Option<f64> {
    median(&cell.throughputs())
}

/// The design with the highest median.
fn highest<'c>(cells: &[&Cell<'c>], design: &str) -> Option<(&'c str, f64)> {
    let rates = cells.iter().filter_map(|cell| Some((cell.axis(design)?, rate(cell)?)));
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
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

/// In how many of the settings, that of the run included, the design that is ahead is the same at every place; empty where none was
/// tried.
pub fn sentence(results: &ResultFile) -> String {
    let tried: Vec<&NeighbourRecord> = results.neighbours.iter().filter(|one| one.places > 0).collect();
    if tried.is_empty() {
        return String::new();
    }
    let all = tried.len() + 1;
    let others: Vec<&str> =
        tried.iter().filter(|one| !one.differs.is_empty()).map(|one| one.what.as_str()).collect();
    let points: u32 = tried.iter().map(|one| one.places).sum();
    let several = tried.iter().any(|one| one.places > 1);
    let apart: usize = tried.iter().map(|one| one.differs.len()).sum();
    match &others[..] {
        _ if several && apart > 0 => format!(
            "In {} settings beside these the same design is ahead at {} of {points} points; another is ahead somewhere with {}.",
            tried.len(),
            points as usize - apart,
            others.join(", ")
        ),
        [] => format!(
            "The order is the same in all {all} settings that were tried: seeds, lengths, machines, media."
        ),
        _ => format!(
            "The same design is ahead in {} of {all} settings that were tried; not with {}.",
            all - others.len(),
            others.join(", ")
        ),
    }
}

/// Each setting with what is different there; none where none was tried.
pub fn table(results: &ResultFile) -> Option<Table> {
    if results.neighbours.is_empty() {
        return None;
    }
    let mut table = Table::new("Settings beside these: one run each, half as long");
    table.words("setting");
    table.numbers("places");
    table.words("where another design is ahead");
    table.rows = results
        .neighbours
        .iter()
        .map(|one| {
            let differs = if one.differs.is_empty() { "nowhere".to_owned() } else { one.differs.join("; ") };
            vec![one.what.clone(), one.places.to_string(), differs]
        })
        .collect();
    Some(table)
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
    fn a_setting_in_which_another_design_is_ahead_is_named_with_its_place() {
        let mut ours = result(&[("a", "1", 10.0), ("b", "1", 9.0), ("a", "8", 10.0), ("b", "8", 12.0)]);
        let same = result(&[("a", "1", 5.0), ("b", "1", 4.0), ("a", "8", 1.0), ("b", "8", 1.2)]);
        let other = result(&[("a", "1", 5.0), ("b", "1", 6.0), ("a", "8", 1.0), ("b", "8", 1.2)]);
        ours.neighbours = vec![judge(&ours, "seed 2", &same), judge(&ours, "medium m", &other)];
        assert_eq!(ours.neighbours[0].places, 2);
        assert_eq!(ours.neighbours[1].differs, ["threads 1, filebench/varmail: b is at 1.20x a"]);
        assert_eq!(
            sentence(&ours),
            "In 2 settings beside these the same design is ahead at 3 of 4 points; another is ahead somewhere with medium m."
        );
        assert_eq!(table(&ours).unwrap().rows.len(), 2);
        ours.neighbours.pop();
        assert!(sentence(&ours).starts_with("The order is the same in all 2 settings"));
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
        assert_eq!(sentence(&ours), "");
    }
}
