//! A whole run: the judge itself is tried first, then each model is searched, and what is broken is reduced to its causes.

use std::collections::{BTreeMap, BTreeSet};

use super::alike::{Promise, bucket};
use super::cause::{Cause, Search, Sites};
use super::checker::Verdict;
use super::fix::{self, Fix};
use super::folder::FolderError;
use super::judge::{Explored, Judge, Kind, Limits, Oracle, Violation, nothing, whole};
use super::model::{Model, Null};
use super::operations::{Change, Operations};
use super::states::State;
use super::story::Story;
use super::tree::Trees;

/// Searches for causes in each model, at most.
const SEARCHES: usize = 24;

/// Something that is broken, on one or several file systems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The cause, as the first of the models shows it.
    pub cause: Cause,
    /// What the judge says of its trees, without numbers.
    pub messages: BTreeSet<String>,
    /// The models that allow it.
    pub models: Vec<String>,
    /// Broken trees of all these models with messages of this kind.
    pub trees: usize,
    /// What removes it, as far as that was tried.
    pub fix: Option<Fix>,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Each model.
    pub explored: Vec<Explored>,
    /// The broken promises, atomicity first.
    pub findings: Vec<Finding>,
    /// Faults of the checker; with any, nothing is sound.
    pub faults: Vec<String>,
    /// Doubts about the checker.
    pub warnings: Vec<String>,
    /// Judgements that were made.
    pub runs: usize,
}

impl Outcome {
    /// The promises that a model breaks: `AD`, `A`, `D` or nothing.
    pub fn broken(&self, model: &str) -> String {
        let has = |promise| {
            let own = self.findings.iter().filter(|finding| finding.cause.promise == promise);
            own.into_iter().any(|finding| finding.models.iter().any(|name| name == model))
        };
        let letters = [(Promise::Atomicity, 'A'), (Promise::Durability, 'D')];
        letters.iter().filter(|(promise, _)| has(*promise)).map(|(_, letter)| letter).collect()
    }
}

/// Judges a program on models. `fixes`: also tries what would help.
pub fn run<'a>(
    story: &'a Story,
    operations: &'a Operations,
    oracle: &'a dyn Oracle,
    models: &'a [Model],
    limits: &Limits,
    fixes: bool,
) -> Result<Outcome, FolderError> {
    let mut outcome = Outcome::default();
    let mut judge = Judge::new(oracle, limits);
    try_judge(story, operations, &mut judge, &mut outcome)?;
    if !outcome.faults.is_empty() {
        return Ok(outcome);
    }
    let mut found: BTreeMap<String, Finding> = BTreeMap::new();
    for model in models {
        let (explored, points) = judge.explore(story, operations, model, limits)?;
        let trees = Trees::new(story, operations, model.stale, model.tear);
        let mut search = Search { story, operations, model, points: &points, judge: &mut judge, trees };
        causes(&explored, &mut search, &mut found, &mut outcome)?;
        outcome.faults.extend(
            explored.faults.iter().map(|(what, count)| format!("{what} ({count} trees of {})", model.name)),
        );
        outcome.explored.push(explored);
    }
    // What one model has shown may be legal in another, whose search has not met it.
    for model in models {
        let trees = Trees::new(story, operations, model.stale, model.tear);
        let mut search = Search { story, operations, model, points: &[], judge: &mut judge, trees };
        for finding in found.values_mut() {
            is_of(finding, &mut search)?;
        }
    }
    outcome.findings = found.into_values().collect();
    let place = |name: &String| models.iter().position(|model| model.name == *name);
    outcome.findings.iter_mut().for_each(|finding| finding.models.sort_by_key(place));
    let decides = |name: &String| {
        models.iter().any(|model| model.name == *name && !model.volatile && model.null == Null::No)
    };
    outcome.findings.sort_by_key(|finding| {
        let decides = finding.models.iter().any(decides);
        (!decides, finding.cause.promise, std::cmp::Reverse(finding.models.len()))
    });
    if fixes {
        for at in 0..outcome.findings.len() {
            let finding = outcome.findings[at].clone();
            let own: Vec<&Model> =
                models.iter().filter(|model| finding.models.contains(&model.name)).collect();
            let tried = fix::Try { story, operations, models: &own, limits, known: &outcome.findings };
            outcome.findings[at].fix = tried.first_that_helps(&finding, &mut judge)?;
        }
    }
    outcome.runs = judge.runs;
    Ok(outcome)
}

/// Finds the causes of what a model breaks.
fn causes(
    explored: &Explored,
    search: &mut Search<'_, '_, '_>,
    found: &mut BTreeMap<String, Finding>,
    outcome: &mut Outcome,
) -> Result<(), FolderError> {
    let sites = Sites::of(search.story, search.operations);
    let (mut searches, mut left_out) = (SEARCHES, 0);
    for (kind, count, violation) in nearest_first(explored) {
        let explains = |one: &Finding, search: &Search<'_, '_, '_>| {
            one.messages.contains(&kind.said) && sites.explain(search, &one.cause, violation)
        };
        let mut is_known = false;
        for finding in found.values_mut().filter(|one| one.cause.promise == kind.promise) {
            if !is_known && explains(finding, search) && is_of(finding, search)? {
                (is_known, finding.trees) = (true, finding.trees + count);
            }
        }
        if is_known {
            continue;
        }
        if searches == 0 {
            left_out += 1;
            continue;
        }
        searches -= 1;
        let Some(cause) = search.cause(violation)? else {
            outcome.faults.push(format!(
                "it says of one tree \"{}\", and of the same tree something else later",
                violation.message
            ));
            continue;
        };
        add(found, cause, (&explored.model, count));
    }
    if left_out > 0 {
        let what =
            format!("{}: {left_out} kinds of broken trees were not reduced to their causes", explored.model);
        outcome.warnings.push(what);
    }
    Ok(())
}

/// What is broken, those first in which the least is lost; the number of trees stands with one of each kind.
fn nearest_first(explored: &Explored) -> Vec<(&Kind, usize, &Violation)> {
    let mut all: Vec<(&Kind, usize, &Violation)> = Vec::new();
    for (kind, (count, violations)) in &explored.violations {
        let counts = std::iter::once(*count).chain(std::iter::repeat(0));
        all.extend(violations.iter().zip(counts).map(|(violation, count)| (kind, count, violation)));
    }
    all.sort_by_key(|(kind, _, violation)| (kind.promise, violation.lost, violation.point));
    all
}

/// Whether a finding is one of the model that is searched: known as that, or its state is broken there, too.
fn is_of(finding: &mut Finding, search: &mut Search<'_, '_, '_>) -> Result<bool, FolderError> {
    let name = &search.model.name;
    if finding.models.contains(name) {
        return Ok(true);
    }
    let shows = search.shows(&finding.cause)?;
    if shows {
        finding.models.push(name.clone());
    }
    Ok(shows)
}

/// Adds a cause to what was found.
fn add(found: &mut BTreeMap<String, Finding>, cause: Cause, (model, count): (&String, usize)) {
    let said = bucket(&cause.message);
    // A pair of calls is one cause, whatever comes of it; where nothing is lost there is no pair.
    let key = if cause.lost.is_empty() { format!("{}/{said}", cause.key) } else { cause.key.clone() };
    let finding = found.entry(key).or_insert_with(|| Finding {
        cause: cause.clone(),
        messages: BTreeSet::new(),
        models: Vec::new(),
        trees: 0,
        fix: None,
    });
    if cause.lost.len() < finding.cause.lost.len() {
        finding.cause = cause;
    }
    finding.messages.insert(said);
    finding.trees += count;
    if !finding.models.contains(model) {
        finding.models.push(model.clone());
    }
}

/// The judge must accept the end without any crash, and should accept the beginning; it should refuse an empty folder, or one in
/// which every file is cut to nothing.
fn try_judge(
    story: &Story,
    operations: &Operations,
    judge: &mut Judge<'_>,
    outcome: &mut Outcome,
) -> Result<(), FolderError> {
    let mut trees = Trees::new(story, operations, false, 512);
    let end = whole(operations);
    let first = judge.anew(&mut trees, &end, operations.acks.len())?;
    match &first {
        Verdict::Sound | Verdict::Nothing => {}
        Verdict::Broken(what) => {
            let mapped = match &*story.mapped {
                [] => String::new(),
                [first, ..] => format!("; {first} is mapped, and what was stored in it may be missing here"),
            };
            let what = format!("it refuses the tree of the program's end, without any crash: {what}{mapped}");
            outcome.faults.push(what);
        }
        Verdict::Fault(what) => outcome.faults.push(format!("on the tree of the program's end: {what}")),
    }
    if first != judge.anew(&mut trees, &end, operations.acks.len())? {
        outcome.faults.push("it says something else of the same tree when it runs again".to_owned());
    }
    if let Verdict::Broken(what) | Verdict::Fault(what) = judge.ask(&mut trees, &nothing(operations), 0)? {
        outcome.warnings.push(format!("the checker refuses the tree before the program: {what}"));
    }
    let canaries = [emptied(story), cut(story)];
    for canary in &canaries {
        let operations = Operations::of(canary);
        let mut trees = Trees::new(canary, &operations, false, 512);
        let state: State = whole(&operations);
        if matches!(
            judge.anew(&mut trees, &state, operations.acks.len())?,
            Verdict::Broken(_) | Verdict::Fault(_)
        ) {
            return Ok(());
        }
    }
    let what = "the checker accepts an empty folder, and files cut to nothing, with everything acknowledged: it may test nothing";
    outcome.warnings.push(what.to_owned());
    Ok(())
}

/// The program with nothing in its tree.
fn emptied(story: &Story) -> Story {
    Story {
        inodes: story.inodes.clone(),
        acks: story.acks.clone(),
        told: story.told.clone(),
        ..Story::default()
    }
}

/// The program with the names of its end, all files empty.
fn cut(story: &Story) -> Story {
    let operations = Operations::of(story);
    let mut bound: BTreeMap<_, _> = story.before.iter().copied().collect();
    for micro in &operations.all {
        if let Change::Names { entry, leads, other, .. } = &micro.change {
            for (entry, leads) in other.iter().chain([&(*entry, *leads)]) {
                match leads {
                    Some(inode) => drop(bound.insert(*entry, *inode)),
                    None => drop(bound.remove(entry)),
                }
            }
        }
    }
    let mut inodes = story.inodes.clone();
    for node in &mut inodes {
        (node.size, node.bytes, node.attributes) = (0, None, BTreeMap::new());
    }
    let (names, before) = (story.names.clone(), bound.into_iter().collect());
    Story { inodes, names, before, acks: story.acks.clone(), told: story.told.clone(), ..Story::default() }
}
