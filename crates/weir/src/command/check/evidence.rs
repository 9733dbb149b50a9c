//! `weir check --evidence`: what has been tried for each promise, out of the ledger.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use report::table::Table;
use serde_json::{Value, json};

use super::ledger::{self, Entry, Line, Old};
use crate::failure::Failure;
use crate::output::Output;
use crate::store::date;

/// What each check is there to hold; `SEMANTICS.md` and `docs/mount.md` cite checks by these names.
pub(super) const CLAIMS: [(&str, &str); 28] = [
    ("model", "answers and trees are those of a reference model"),
    ("model/host", "answers and trees are those of the host's kernel"),
    ("model/mapped", "so are they with mapped files"),
    ("crash/depth-1", "a crash within a call leaves what is promised"),
    ("crash/depth-2", "so does a crash within any second call"),
    ("crash/depth-3", "so does a crash within a third call, of those that change names"),
    ("crash/random", "so does a crash within any of some random calls"),
    ("crash/together", "so does a crash while two calls are under way at once"),
    ("crash/mapped", "a crash leaves words of what a mapping has stored, and all of it after a sync"),
    ("faults", "a call whose access to the medium fails is undone, or all further changes are refused"),
    ("recall", "seeded bugs are found"),
    ("fuzz", "on an image with any content nothing panics or hangs, and fsck and mount agree"),
    ("schedules", "calls of several tasks at once are atomic, and none waits for ever"),
    ("posix", "programs see what POSIX says"),
    ("mount/killed", "a killed server loses nothing that was promised"),
    ("mount/contents", "calls, shared maps and holes of a file agree in any order"),
    ("mount/direct", "the page cache keeps nothing that a direct write has replaced"),
    (
        "mount/calls",
        "handles of files, files without a name and access-control lists work, also after a restart",
    ),
    ("mount/stacked", "an unmount takes the upper mount of a directory only"),
    ("mount/second_user", "another user of the machine can read, change and command nothing"),
    ("mount/overlay", "overlayfs keeps its upper layer on a mount: whiteouts, opaque directories, redirects"),
    ("mount/memory", "what a server keeps in memory of each file is bounded"),
    ("mount/block", "the kernel's tools work on a block device that is served, and lose nothing"),
    ("mount/programs", "programs work, and leave a clean pool"),
    ("suite/format", "each design and its format do what their tests say"),
    ("suite/medium", "what may persist is what the crash model says"),
    ("suite/calls", "calls by path and descriptor do what their tests say"),
    ("suite/mount", "a mount does what its tests say"),
];

/// The checks that every design of the table has a row of.
const OF_EACH_DESIGN: [&str; 5] = ["model", "crash/depth-1", "faults", "schedules", "fuzz"];

/// What all runs of one check on one subject come to.
#[derive(Debug, Default)]
struct Row {
    count: u64,
    of: Option<u64>,
    failures: u64,
    first: u64,
    last: u64,
    seeds: Option<(u64, u64)>,
}

/// Prints the table.
pub(super) fn print(named: Option<&Path>, output: &Output) -> Result<(), Failure> {
    let rows = rows(ledger::read(named)?);
    if output.is_json() {
        output.document(&document(&rows));
    } else if rows.is_empty() {
        output.data("no check has been recorded yet: weir check model --fs pmfs\n");
    } else {
        output.data(&text(&rows));
    }
    Ok(())
}

/// By the place of the claim, check, subject and unit; what is old stands in a row of its own.
type Rows = BTreeMap<(usize, String, String, String, Option<Old>), Row>;

/// The runs that count. One that did the same again with at least the same seeds stands for those before it: so a failure is open
/// until its seeds have passed.
fn latest(lines: Vec<Line>) -> impl Iterator<Item = Line> {
    let mut latest: BTreeMap<_, Vec<Line>> = BTreeMap::new();
    for line in lines {
        let Entry { check, subject, unit, asked, .. } = line.entry.clone();
        let same = latest.entry((check, subject, unit, asked)).or_default();
        same.retain(|before| !includes(line.entry.seeds, before.entry.seeds));
        same.push(line);
    }
    latest.into_values().flatten()
}

fn includes(seeds: Option<(u64, u64)>, others: Option<(u64, u64)>) -> bool {
    match (seeds, others) {
        (Some((first, last)), Some(other)) => first <= other.0 && other.1 <= last,
        (seeds, others) => seeds == others,
    }
}

/// What the runs that count come to, in the order of [`CLAIMS`].
fn rows(lines: Vec<Line>) -> Rows {
    let mut rows = Rows::new();
    for line in latest(lines) {
        let old = line.old();
        let Line { entry, at, .. } = line;
        let place = CLAIMS.iter().position(|(check, _)| *check == entry.check).unwrap_or(CLAIMS.len());
        let row = rows.entry((place, entry.check, entry.subject, entry.unit, old)).or_default();
        row.count += entry.count;
        row.of = entry.of.map(|of| of + row.of.unwrap_or(0));
        row.failures += entry.failures;
        row.first = if row.first == 0 { at } else { row.first.min(at) };
        row.last = row.last.max(at);
        row.seeds = match (row.seeds, entry.seeds) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
    }
    rows
}

fn claim(place: usize) -> &'static str {
    CLAIMS.get(place).map_or("–", |(_, claim)| claim)
}

fn counted(row: &Row) -> String {
    row.of.map_or_else(|| row.count.to_string(), |of| format!("{} of {of}", row.count))
}

fn seeds(row: &Row) -> String {
    match row.seeds {
        None => "–".to_owned(),
        Some((first, last)) if first == last => first.to_string(),
        Some((first, last)) => format!("{first}–{last}"),
    }
}

fn text(rows: &Rows) -> String {
    let mut table = Table::new("evidence");
    for name in ["claim", "subject", "check", "unit"] {
        table.words(name);
    }
    table.numbers("count");
    table.words("since");
    table.numbers("seeds");
    table.numbers("open failures");
    table.words("");
    for ((place, check, subject, unit, old), row) in rows {
        let words = [claim(*place), subject, check, unit].map(str::to_owned);
        let numbers = [counted(row), date(row.first), seeds(row), row.failures.to_string()];
        let old = old.map_or_else(String::new, |old| old.words().to_owned());
        table.rows.push(words.into_iter().chain(numbers).chain([old]).collect());
    }
    let olds = rows.keys().map(|(.., old)| old.is_some());
    let mut text = String::new();
    // The title and the heads stand above the rows.
    for (line, old) in table.to_text().lines().zip([false; 2].into_iter().chain(olds)) {
        let style = if old { AnsiColor::BrightBlack.on_default() } else { Style::new() };
        let _ = writeln!(text, "{style}{line}{style:#}");
    }
    text + &tally(rows) + &lacks(rows)
}

/// The designs that have no row of this build's code of a check that each has, with the check.
fn missing(rows: &Rows) -> Vec<(&'static str, &'static str)> {
    let is_of = |subject: &str, design: &str| subject.split(' ').next() == Some(design);
    let has = |check: &str, design: &str| {
        rows.keys().any(|(_, name, subject, _, old)| old.is_none() && name == check && is_of(subject, design))
    };
    let designs = fs::FILE_SYSTEMS.iter().map(|design| design.name());
    let pairs = designs.flat_map(|design| OF_EACH_DESIGN.map(|check| (check, design)));
    pairs.filter(|&(check, design)| !has(check, design)).collect()
}

/// The same in words, by design.
fn lacks(rows: &Rows) -> String {
    let mut by_design: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (check, design) in missing(rows) {
        by_design.entry(design).or_default().push(check);
    }
    let line = |(design, checks): (&str, Vec<&str>)| {
        format!("no row of this code: {design}, {}\n", checks.join(", "))
    };
    by_design.into_iter().map(line).collect()
}

/// How many rows speak of this build's code.
fn tally(rows: &Rows) -> String {
    let old = rows.keys().filter(|(.., old)| old.is_some()).count();
    match old {
        0 => String::new(),
        old => format!(
            "{} of {} rows are of the code of this build; {old} are old, and say nothing of it: `make evidence` runs all checks\n",
            rows.len() - old,
            rows.len()
        ),
    }
}

fn document(rows: &Rows) -> Value {
    let row =
        |((place, check, subject, unit, old), row): (&(_, String, String, String, Option<Old>), &Row)| {
            json!({
                "claim": claim(*place),
                "old": old.map(Old::words),
                "subject": subject,
                "check": check,
                "unit": unit,
                "count": row.count,
                "of": row.of,
                "since": date(row.first),
                "last": date(row.last),
                "seeds": row.seeds,
                "open_failures": row.failures,
            })
        };
    let lacks = |(check, subject): (&str, &str)| json!({ "check": check, "subject": subject });
    json!({
        "schema": "weir.evidence/1",
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "missing": missing(rows).into_iter().map(lacks).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The checks that stand in the second column of the tables of promises.
    fn cited() -> BTreeSet<&'static str> {
        let tables = include_str!("../../../shipped/SEMANTICS.md").split("\n\n");
        let promises = tables.filter_map(|table| table.strip_prefix("| promise | checks |\n|---|---|\n"));
        let checks =
            promises.flat_map(str::lines).filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next());
        checks.flat_map(|checks| checks.split('`').skip(1).step_by(2)).collect()
    }

    #[test]
    fn what_the_semantics_cite_has_been_tried_and_has_no_open_failure() {
        let rows = rows(ledger::shipped());
        assert!(cited().len() > 10);
        for check in cited() {
            assert!(CLAIMS.iter().any(|(known, _)| *known == check), "{check} is no check");
            let found: Vec<_> = rows.iter().filter(|((_, name, ..), _)| name == check).collect();
            assert!(!found.is_empty(), "the ledger has no run of {check}: make evidence");
            for ((_, _, subject, ..), row) in found {
                assert_eq!(row.failures, 0, "{check} of {subject}");
            }
        }
    }

    #[test]
    fn every_check_that_a_script_records_has_its_claim() {
        let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/mount");
        let scripts =
            std::fs::read_dir(scripts).expect("the scripts").map(|entry| entry.expect("an entry").path());
        let mut found = 0;
        for path in scripts.filter(|path| path.extension().is_some_and(|end| end == "sh")) {
            let text = std::fs::read_to_string(&path).expect("a script");
            let recorded = text.lines().filter_map(|line| line.trim().strip_prefix("record "));
            for check in recorded.filter_map(|words| words.split(' ').next()) {
                assert!(CLAIMS.iter().any(|(known, _)| *known == check), "{}: {check}", path.display());
                found += 1;
            }
        }
        assert!(found > 8, "{found}");
    }

    #[test]
    fn a_failure_is_open_until_its_seeds_have_passed() {
        let run = |count, failures, seeds| {
            let entry = Entry { check: "schedules".to_owned(), count, failures, seeds, ..Entry::default() };
            Line { entry, at: 1, seconds: 1, build: String::new(), code: String::new() }
        };
        let summed = |runs: &[Line]| {
            let rows = rows(runs.to_vec());
            rows.values().map(|row| (row.count, row.failures)).collect::<Vec<_>>()
        };
        let failed = run(10, 1, Some((1, 40)));
        assert_eq!(summed(&[failed.clone(), run(8, 0, Some((1, 39)))]), [(18, 1)]);
        assert_eq!(summed(&[failed.clone(), run(12, 0, Some((1, 50)))]), [(12, 0)]);
        assert_eq!(summed(&[run(12, 0, Some((1, 50))), failed]), [(22, 1)]);
        assert_eq!(summed(&[run(5, 1, None), run(6, 0, None)]), [(6, 0)]);
    }

    /// An entry of this code, of other code, of a tree with changes, and of a build that recorded no code.
    #[test]
    fn an_entry_of_other_code_or_of_a_changed_tree_is_old_at_once() {
        let entry = Entry { check: "posix".to_owned(), count: 5, ..Entry::default() };
        let line = |build: &str, code: &str| {
            let (build, code) = (build.to_owned(), code.to_owned());
            Line { entry: entry.clone(), at: crate::store::now(), seconds: 1, build, code }
        };
        let this = super::super::code::tested("posix", "");
        let grey = format!("{}", AnsiColor::BrightBlack.on_default());
        let of = |line: Line| text(&rows(vec![line]));
        let current = of(line("0123456789ab release", &this));
        assert!(!current.contains("old") && !current.contains(&grey), "{current}");
        for (build, code, why) in [
            ("0123456789ab release", "0123456789abcdef", "the code has changed since"),
            ("0123456789ab release", "", "the code has changed since"),
            ("0123456789ab+ release", &*this, "uncommitted changes"),
        ] {
            let old = of(line(build, code));
            assert!(old.contains(why) && old.contains(&grey), "{build} {code}: {old}");
            assert!(old.contains("0 of 1 rows are of the code of this build"), "{old}");
            let document = document(&rows(vec![line(build, code)]));
            assert!(document["rows"][0]["old"].as_str().is_some_and(|old| old.contains(why)), "{document}");
        }
    }

    #[test]
    fn a_design_without_a_row_of_this_code_is_named_for_each_check_that_it_lacks() {
        let row = |check: &str, subject: &str, code: String| {
            let entry =
                Entry { check: check.to_owned(), subject: subject.to_owned(), count: 5, ..Entry::default() };
            Line { entry, at: 1, seconds: 1, build: "0123456789ab release".to_owned(), code }
        };
        let of = |check: &str, subject: &str| row(check, subject, super::super::code::tested(check, subject));
        let lines = vec![
            of("model", "pmfs -O sync=true"),
            row("faults", "pmfs", String::new()),
            of("fuzz", "hinfs-wb"),
        ];
        let lacks = missing(&rows(lines));
        let has = |check, design| !lacks.contains(&(check, design));
        assert!(has("model", "pmfs") && has("fuzz", "hinfs-wb"));
        assert!(!has("faults", "pmfs"), "its row is old");
        assert!(!has("fuzz", "hinfs") && !has("model", "crest"), "it has none");
    }

    #[test]
    fn what_is_old_is_not_counted_with_what_is_not() {
        let line = |seed, code: &str| {
            let (check, seeds) = ("posix".to_owned(), Some((seed, seed)));
            let entry = Entry { check, count: 5, seeds, ..Entry::default() };
            Line { entry, at: 1, seconds: 1, build: "0123456789ab release".to_owned(), code: code.to_owned() }
        };
        let this = super::super::code::tested("posix", "");
        let rows = rows(vec![line(1, ""), line(2, &this)]);
        assert_eq!(rows.values().map(|row| row.count).collect::<Vec<_>>(), [5, 5]);
    }
}
