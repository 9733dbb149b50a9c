//! Every line of PMFS, HiNFS and NOVA that flushes or fences is missed by a check when it is left out, or `docs/models/fences.md`
//! says
//! why not.
//!
//! A line is called by its file, its function and its number among those of its kind there, which changes less often than the
//! number of the line: `pmfs/journal.rs append flush 1`. The rows of the document stand under the name of the design that was
//! run; HiNFS runs lines of PMFS, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use check::Limits;
use check::crash::programs::{self, Program};
use check::recall::{Counts, Forgotten, LeaveOut, Line, Unnoticed, forgotten, forgotten_in_recovery};
use media::fault::Target;

use super::SEED;
use crate::shared::harness::{mounts, subject};

const KINDS: [(Target, &str, &str); 2] =
    [(Target::Flush, "flush", "region.flush("), (Target::Fence, "fence", "region.fence()")];

/// Programs after whose crashes the recovery has something to do: a journal to undo, truncations and removals to finish.
const RECOVERED: [&str; 4] = ["creat foo", "write three blocks, new", "unlink", "truncate 12288 to 5000"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of a file up to the first of its unit tests.
fn source(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    text.lines().take_while(|line| *line != "#[cfg(test)]").map(str::to_owned).collect()
}

/// The name of the function that a line begins to define.
fn function(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let at =
        if rest.starts_with("fn ") { 0 } else { rest.starts_with("pub").then(|| rest.find(" fn "))?? + 1 };
    rest[at..].strip_prefix("fn ")?.split(['(', '<']).next()
}

/// What a line of source is called, as one that flushes or fences.
fn name(lines: &[String], (file, line): &Line, (kind, call): (&str, &str)) -> String {
    let before = &lines[..*line as usize - 1];
    let start = before.iter().rposition(|line| function(line).is_some()).unwrap_or(0);
    let nth = before[start..].iter().filter(|line| line.contains(call)).count() + 1;
    let function = before.get(start).and_then(|line| function(line)).unwrap_or("–");
    let parts = ["crates/fs/src/", "crates/base/src/"];
    let file = parts.iter().find_map(|part| file.strip_prefix(part)).unwrap_or(file);
    if lines[*line as usize - 1].contains(call) {
        format!("{file} {function} {kind} {nth}")
    } else {
        // The edge of a store past the cache.
        format!("{file} {function} {kind} of a store")
    }
}

/// Every line of a design that flushes or fences.
fn asking(design: &str, (kind, call): (&str, &str)) -> BTreeSet<String> {
    let folder = root().join("crates/fs/src").join(design);
    let files = std::fs::read_dir(folder).expect("the design's folder").flatten();
    let mut names = BTreeSet::new();
    for file in files.map(|file| file.file_name().to_string_lossy().into_owned()) {
        let file = format!("crates/fs/src/{design}/{file}");
        let lines = source(&file);
        let asks = (1..).zip(&lines).filter(|(_, line)| line.contains(call));
        names.extend(asks.map(|(at, _)| name(&lines, &(file.clone(), at), (kind, call))));
    }
    names
}

/// The numbers of the lines that are called `name`: `hinfs/file.rs grow fence 1`.
pub(super) fn lines_called(wanted: &str) -> Vec<u32> {
    let file = format!("crates/fs/src/{}", wanted.split(' ').next().unwrap_or_default());
    let lines = source(&file);
    let words = KINDS.iter().map(|(_, kind, call)| (*kind, *call));
    let numbers = |words: (&str, &str)| {
        let called = |line: &u32| name(&lines, &(file.clone(), *line), words) == wanted;
        let asks = (1..).zip(&lines).filter(|(_, line)| line.contains(words.1)).map(|(at, _)| at);
        asks.filter(called).collect::<Vec<u32>>()
    };
    words.flat_map(numbers).collect()
}

/// What became of each line of a design whose flushes or fences were left out, by name.
fn left_out(design: &str, target: Target, words: (&str, &str)) -> BTreeMap<String, Counts> {
    let mut programs = programs::all();
    programs
        .extend(programs::single().into_iter().filter(|program| ["fsync", "sync"].contains(&&*program.name)));
    let is_recovered = |program: &&Program| RECOVERED.contains(&program.name.as_str());
    let recovered: Vec<Program> = programs.iter().filter(is_recovered).cloned().collect();
    assert_eq!(recovered.len(), RECOVERED.len(), "programs were renamed");
    let mut all = Forgotten::default();
    // Whether a line goes unnoticed is asked, not how often: `weir check recall` counts.
    let what = LeaveOut { target, enough: Some(Unnoticed::default()) };
    for subject in mounts(design, None) {
        let work = (SEED, &Limits::of(2));
        all.add(forgotten(&subject, &programs, &what, work));
        all.add(forgotten_in_recovery(&subject, &recovered, &what, work));
    }
    println!("{design}, {target}: {}", summary(&all.all()));
    let mut named: BTreeMap<String, Counts> = BTreeMap::new();
    for (line, counts) in all.sites {
        named.entry(name(&source(&line.0), &line, words)).or_default().add(counts);
    }
    for (name, counts) in named.iter().filter(|(_, counts)| !counts.survived.is_empty()) {
        println!("  {name}: {}; {:?}", summary(counts), counts.survived.iter().take(4).collect::<Vec<_>>());
    }
    named
}

fn summary(counts: &Counts) -> String {
    let Counts { total, by_lints, by_crash, equivalent, survived } = counts;
    let survived = survived.len();
    format!(
        "{total} left out, {by_lints} found by lints, {by_crash} by crashes, {equivalent} equivalent, {survived} unnoticed"
    )
}

/// The rows of `docs/models/fences.md`, each of which explains a line of the design in whose section it is:
/// `| file | function | which | reason |`.
fn explained() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/models/fences.md")).expect("it is there");
    let mut design = String::new();
    let row = |line: &str| {
        if let Some(heading) = line.strip_prefix("## ") {
            design = heading.to_lowercase();
        }
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        let [file, function, which, reason] = cells[..] else { return None };
        assert!(reason.len() > 30, "{line}: no reason");
        Some(format!("{design}: {} {} {which}", file.trim_matches('`'), function.trim_matches('`')))
    };
    text.lines().filter_map(row).collect()
}

/// Lines that need an explanation, with why: of those that were left out, some were not noticed, or none was ever asked for.
fn unexplained(design: &str, target: Target, words: (&str, &str)) -> BTreeSet<String> {
    let found = left_out(design, target, words);
    let unnoticed = found.iter().filter(|(_, counts)| !counts.survived.is_empty());
    let never = asking(design, words).into_iter().filter(|name| !found.contains_key(name));
    let never: Vec<String> = never.inspect(|name| println!("  {name}: in no program")).collect();
    unnoticed.map(|(name, _)| name.clone()).chain(never).map(|name| format!("{design}: {name}")).collect()
}

#[test]
fn every_flush_and_fence_whose_loss_goes_unnoticed_has_its_reason_and_no_other_has() {
    let mut need = BTreeSet::new();
    for design in ["pmfs", "hinfs", "nova"] {
        for (target, kind, call) in KINDS {
            need.extend(unexplained(design, target, (kind, call)));
        }
    }
    let explained = explained();
    let bare: Vec<_> = need.difference(&explained).collect();
    assert!(bare.is_empty(), "without a row in docs/models/fences.md:\n{bare:#?}");
    let idle: Vec<_> = explained.difference(&need).collect();
    assert!(
        idle.is_empty(),
        "a check notices these now; take their rows out of docs/models/fences.md:\n{idle:#?}"
    );
}

#[test]
fn most_flushes_and_fences_are_missed_when_they_are_left_out() {
    let subject = subject("pmfs", &[]);
    let programs: Vec<Program> =
        programs::all().into_iter().filter(|program| program.core.len() == 1).collect();
    for (target, survivors) in [(Target::Flush, 3), (Target::Fence, 20)] {
        let found = forgotten(&subject, &programs, &LeaveOut::each(target), (SEED, &Limits::of(2))).all();
        assert!(found.killed() > 100, "{target}");
        assert!(found.survived.len() * 100 <= found.total * survivors, "{target}: {:?}", found.survived);
    }
}
