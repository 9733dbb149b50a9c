//! The results of reproduced papers that lie in the tree (`evidence/results`): each is whole and says which build made it, its
//! claims follow from its samples, each miss has its cause, and the tables of `docs/reproductions.md` say what it says.
//!
//! A file is what `weir reproduce PAPER -o FILE.json.gz` writes. The document shows it below a line `<!-- WHAT of FILE.json.gz
//! -->`,
//! where WHAT is `claims` (published beside measured), `classes` or `curve` (both of a run of readings), with a line that says
//! which build measured it, and whether that is old.
//! `WEIR_WRITE_TABLES=1` writes these tables into the document, where they are compared otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use lab::claims::{Measured, Paper, PaperClaim};
use lab::presets::PAPERS;
use report::claims::{Standing, band, measured, published};
use report::readings;
use report::table::Table;
use results::{ClaimOutcome, Class, ResultFile};

/// Results of builds that are not in the history, or that lack what was added since, and why they were not measured again.
const OLD: [(&str, &str); 1] =
    [("hw-logging-readings.json.gz", "this build is not in the history, and crash points were added since")];

/// A file of the tree is no larger: samples without their histograms; the largest plan has 1,344 cells.
const MOST_BYTES: u64 = 256 << 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The kept files with the results that each holds, in order.
fn kept() -> Vec<(String, Vec<ResultFile>)> {
    let entries = std::fs::read_dir(root().join("evidence/results")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

fn read(path: &Path) -> Vec<ResultFile> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).expect("it is there");
    assert!(file.metadata().expect("it is a file").len() <= MOST_BYTES, "{}: too large", path.display());
    GzDecoder::new(file).read_to_end(&mut text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    ResultFile::parse_all(path, &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The claims of a file, marked as `presets/papers` marks them today.
fn claims(results: &[ResultFile]) -> Vec<ClaimOutcome> {
    let listed = listed();
    let marked = |mut claim: ClaimOutcome| {
        if let Some(today) = listed.get(&claim.id) {
            claim.fitted |= today.claim.fitted;
            claim.origin = today.claim.origin;
            claim.input = today.claim.input;
        }
        claim
    };
    results.iter().flat_map(|result| result.claims.clone()).map(marked).collect()
}

/// Whether a commit is in the history of this tree; none, with a word, where the history is not here.
fn is_in_history(commit: &str) -> Option<bool> {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").arg("-C").arg(root()).args(arguments).output().ok()?;
        Some((output.status.success(), String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    };
    let (_, shallow) = git(&["rev-parse", "--is-shallow-repository"])?;
    if shallow != "false" {
        println!("skipped: there is no whole history to look into");
        return None;
    }
    Some(git(&["merge-base", "--is-ancestor", commit, "HEAD"])?.0)
}

/// The build of a file, as the document says it.
fn measured_by(name: &str, results: &[ResultFile]) -> String {
    let environment = &results[0].environment;
    let commit = environment.commit.as_deref().unwrap_or("of no commit");
    let day = environment.started_utc.as_deref().and_then(|time| time.split(' ').next()).unwrap_or_default();
    let old = OLD.iter().find(|(file, _)| *file == name);
    let old = old.map_or_else(String::new, |(_, why)| format!("; **old**: {why}"));
    format!("{MEASURED_BY}`{commit}`, {day}{old}.")
}

/// How the line begins.
const MEASURED_BY: &str = "Measured by the build ";

/// Every published claim by its name, with what `presets/papers` says of it today.
fn listed() -> BTreeMap<String, PaperClaim> {
    let papers = PAPERS.iter().map(|preset| Paper::load(preset.name).expect("it is right"));
    papers.flat_map(|paper| paper.claims).map(|claim| (claim.claim.id.clone(), claim)).collect()
}

#[test]
fn every_kept_result_is_whole_and_names_the_commit_that_made_it() {
    for (name, results) in kept() {
        assert!(!claims(&results).is_empty(), "{name}: no claims");
        let commits: BTreeSet<&String> =
            results.iter().filter_map(|result| result.environment.commit.as_ref()).collect();
        let one = commits.iter().all(|commit| commit.len() == 12) && commits.len() == 1;
        assert!(one, "{name}: made by the commits {commits:?}, not by one without changes");
        for result in results {
            assert!(!result.partial, "{name}, {}: interrupted", result.name);
            let failed = result.samples.iter().find(|sample| !sample.is_measured());
            assert!(failed.is_none(), "{name}, {}: {failed:?}", result.name);
        }
    }
}

#[test]
fn kept_results_and_entries_of_the_ledger_name_builds_of_the_history_or_are_marked_as_old() {
    for (name, results) in kept() {
        let commit = results[0].environment.commit.clone().unwrap_or_default();
        let Some(found) = is_in_history(&commit) else { return };
        let old = OLD.iter().any(|(file, _)| *file == name);
        assert_ne!(found, old, "{name}: {commit}, in the history: {found}");
    }
    let ledger = std::fs::read_to_string(root().join("evidence/ledger.jsonl")).expect("it is there");
    for line in ledger.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).expect("an entry");
        let commit = entry["build"].as_str().and_then(|build| build.split(' ').next()).unwrap_or_default();
        let found = is_in_history(commit.trim_end_matches('+'));
        assert_eq!(found, Some(true), "evidence/ledger.jsonl: {commit}");
    }
}

/// Its band and its arithmetic are those of the paper's file today.
#[test]
fn the_claims_of_a_kept_result_follow_from_its_samples() {
    let listed = listed();
    for (name, results) in kept() {
        let with_samples = results.iter().filter(|result| !result.samples.is_empty());
        let samples: Measured = with_samples.map(|result| (result.name.clone(), result.clone())).collect();
        let judged = PAPERS.iter().flat_map(|preset| Paper::load(preset.name).unwrap().judge(&samples));
        let judged: BTreeMap<String, ClaimOutcome> = judged.map(|claim| (claim.id.clone(), claim)).collect();
        for claim in claims(&results) {
            let today = listed.get(&claim.id).unwrap_or_else(|| panic!("{name}: {} is no claim", claim.id));
            let Some(value) = claim.value else {
                assert!(
                    claim.reason.is_some(),
                    "{name}: {} was not measured, and nothing says why",
                    claim.id
                );
                continue;
            };
            let outcome = today.claim.measured(value, claim.seed, claim.clock);
            // A kept result is without its histograms, and may have the samples of one seed of several.
            let is_kept = !today.measure.needs_latencies() && !today.measure.is_of_each_repeat();
            let again = judged.get(&claim.id).filter(|_| is_kept).unwrap_or(&outcome);
            let told = |claim: &ClaimOutcome| (claim.low, claim.high, claim.holds);
            assert_eq!(told(&claim), told(again), "{name}: {}", claim.id);
            // Sums of rates may differ in the last bit from those of the run, which had them before they were written.
            let (is, wanted) = (claim.value.unwrap_or(f64::NAN), again.value.unwrap_or(f64::NAN));
            assert!((is - wanted).abs() <= 1e-12 * wanted.abs(), "{name}: {}: {is}, not {wanted}", claim.id);
            assert_eq!(claim.class, class(&claim), "{name}: {}", claim.id);
        }
    }
}

/// By its readings; where it has none, the class is of another run, and not judged here.
fn class(claim: &ClaimOutcome) -> Option<Class> {
    if claim.readings.is_empty() { claim.class } else { Class::of(&claim.readings) }
}

#[test]
fn every_miss_of_a_kept_result_has_its_cause_in_the_papers_file() {
    let listed = listed();
    for (name, results) in kept() {
        let missed = claims(&results).into_iter().filter(|claim| claim.value.is_some() && !claim.holds);
        let bare: Vec<String> =
            missed.filter(|claim| listed[&claim.id].known.is_empty()).map(|claim| claim.id).collect();
        assert!(bare.is_empty(), "{name}: misses without `known`: {}", bare.join(", "));
    }
}

/// What the document shows of a result, by the word of its marker.
fn table(what: &str, claims: &[ClaimOutcome]) -> Option<Vec<String>> {
    let table = match what {
        "claims" => published_beside_measured(claims),
        "classes" => readings::classes(claims),
        "curve" => readings::curve_table(claims),
        _ => return None,
    };
    let text = table.to_markdown();
    Some(text.lines().filter(|line| line.starts_with('|')).map(str::to_owned).collect())
}

/// Without claims that were not measured: the document says which, and why.
fn published_beside_measured(claims: &[ClaimOutcome]) -> Table {
    let mut table = Table::default();
    table.words("claim");
    table.numbers("published");
    table.words("band");
    table.numbers("measured");
    table.words("");
    let verdict = |claim: &ClaimOutcome| Standing::of(claim).key().to_owned();
    let row = |claim: &ClaimOutcome| {
        vec![claim.id.clone(), published(claim), band(claim), measured(claim), verdict(claim)]
    };
    table.rows = claims.iter().filter(|claim| claim.value.is_some()).map(row).collect();
    table
}

/// What is shown of a file: the line of its build, and its claims.
type Shown = (String, Vec<ClaimOutcome>);

/// The document with the table below each marker as the kept results have it, and the names of the files that are shown.
fn with_tables(document: &str, kept: &BTreeMap<String, Shown>) -> (String, Vec<String>) {
    let (mut text, mut shown) = (String::new(), Vec::new());
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        text.extend([line, "\n"]);
        let words = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some((what, file)) = words.and_then(|words| words.split_once(" of ")) else { continue };
        let (by, claims) = kept.get(file).unwrap_or_else(|| panic!("evidence/results has no {file}"));
        let wanted = table(what, claims).unwrap_or_else(|| panic!("no table is called {what}"));
        text.extend(["\n", by, "\n\n", &wanted.join("\n"), "\n"]);
        let is_ours = |line: &&str| line.is_empty() || line.starts_with('|') || line.starts_with(MEASURED_BY);
        while lines.next_if(is_ours).is_some() {}
        if lines.peek().is_some() {
            text.push('\n');
        }
        shown.push(file.to_owned());
    }
    (text, shown)
}

#[test]
fn the_tables_of_the_document_are_those_of_the_kept_results() {
    let shown = |(name, results): (String, Vec<ResultFile>)| {
        let shown = (measured_by(&name, &results), claims(&results));
        (name, shown)
    };
    let kept: BTreeMap<String, Shown> = kept().into_iter().map(shown).collect();
    let path = root().join("docs/reproductions.md");
    let document = std::fs::read_to_string(&path).expect("it is there");
    let (wanted, shown) = with_tables(&document, &kept);
    if std::env::var_os("WEIR_WRITE_TABLES").is_some() {
        return std::fs::write(&path, wanted).expect("it can be written");
    }
    for (at, (is, wanted)) in document.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(is, wanted, "docs/reproductions.md:{}; WEIR_WRITE_TABLES=1 writes the tables", at + 1);
    }
    assert_eq!(document.len(), wanted.len(), "a table of docs/reproductions.md is too short or too long");
    let hidden: Vec<&String> = kept.keys().filter(|name| !shown.contains(name)).collect();
    assert!(hidden.is_empty(), "docs/reproductions.md shows nothing of {hidden:?}");
}

#[test]
fn a_number_that_was_changed_in_a_table_is_found() {
    let claim = listed()["hinfs.9.io4k"].claim.measured(2.0, 1, results::Clock::Virtual);
    let by = format!("{MEASURED_BY}`0123456789ab`, 2026-01-31.");
    let kept = BTreeMap::from([("x.json.gz".to_owned(), (by, vec![claim]))]);
    let document = "before\n\n<!-- claims of x.json.gz -->\n\nafter\n";
    let (written, shown) = with_tables(document, &kept);
    let row = "| hinfs.9.io4k | 1.58 | 1.34 to 1.82 | 2.00 | missed |";
    assert!(
        written.contains("\n\nMeasured by the build `0123456789ab`, 2026-01-31.\n\n| claim"),
        "{written}"
    );
    assert!(written.contains(&format!("\n{row}\n\nafter\n")), "{written}");
    assert_eq!(with_tables(&written, &kept), (written.clone(), shown), "once written, it stays");
    let changed = written.replace("2.00", "1.80");
    assert_ne!(with_tables(&changed, &kept).0, changed);
}
