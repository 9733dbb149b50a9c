//! `weir reproduce PAPER --readings`: the paper's claims under each answer to what it leaves open.
//!
//! Cells are kept in the data folder as they end, so that the same command goes on after Ctrl-C. The last whole run of a paper
//! is kept there too; an ordinary report takes the classes of its claims from it.

use std::path::PathBuf;

use lab::cells::Kept;
use lab::claims::Paper;
use lab::plan::Scale;
use lab::readings::{Choice, Pair, Reading, Readings, Variation, run};
use lab::{Plan, Runner, environment};
use results::{ClaimOutcome, Class, Clock, ResultFile};
use serde_json::{Value, json};

use crate::experiment::How;
use crate::failure::{Exit, Failure};
use crate::output::{Output, columns};
use crate::progress::Bar;
use crate::store;

/// Runs a paper under its readings: variations that are scaled down, the default first.
pub(super) fn measure(
    paper: &Paper,
    variations: &[Variation],
    scale: Scale,
    how: &How,
    output: &Output,
) -> Result<ResultFile, Failure> {
    let cells = store::data()?.join("cells").join(format!("{}.jsonl", paper.name));
    let kept = Kept::open(&cells, &environment::build().unwrap_or_default())?;
    let bar = Bar::new(output.shows_progress(), output.tells_progress());
    let mut runner = Runner::new(how.settings(), &bar);
    runner.keep_in(kept);
    let result = classed(paper, variations, scale, &mut runner, output)?;
    keep(paper, &result)?;
    Ok(result)
}

/// The result of a paper's readings, whose cells run where the runner does not know them.
pub(super) fn classed(
    paper: &Paper,
    variations: &[Variation],
    scale: Scale,
    runner: &mut Runner<'_>,
    output: &Output,
) -> Result<ResultFile, Failure> {
    let outcome = run::run(variations, runner)?;
    if let Some(error) = runner.kept().and_then(Kept::failure) {
        output.note(&format!("not every cell is kept: {error}"));
    }
    let outcome = outcome.ok_or_else(|| {
        let message = "interrupted; the cells that have run are kept: repeat the command to run the others";
        Failure::new(Exit::Interrupted, message)
    })?;
    let (asked, cells, known) = (outcome.size.asked, outcome.size.cells, outcome.size.known);
    let count = variations.len();
    output
        .note(&format!("{count} variations of {asked} cells, {cells} of them different, {known} were known"));
    let plan = document(paper, scale, variations, outcome.size);
    let seed = variations[0].plans.first().map_or(0, |plan| plan.seed);
    let mut result = ResultFile::new(format!("{}-readings", paper.name), plan, seed, Clock::Virtual);
    result.why = format!("Which claims of {} depend on what it leaves open?", paper.paper);
    result.command = crate::experiment::command();
    result.environment = environment::capture();
    result.notes = variations[0].plans.iter().filter_map(|plan| plan.note.clone()).collect();
    result.notes.dedup();
    result.claims = outcome.claims;
    Ok(result)
}

/// The variations of the whole paper, whose plans these are.
pub(super) fn variations(
    paper: &Paper,
    plans: &[Plan],
    pairs: bool,
    how: &How,
) -> Result<Vec<Variation>, Failure> {
    if paper.readings.list.is_empty() {
        let name = &paper.name;
        return Err(Failure::usage(format!("presets/papers/{name}.toml lists no readings of {name}")));
    }
    if how.check || how.save_image.is_some() {
        return Err(Failure::usage(
            "--check and --save-image do not go with --readings: a cell that is known does not run again",
        ));
    }
    let seeded = |plan: &Plan| Plan { seed: how.seed.unwrap_or(plan.seed), ..plan.clone() };
    Ok(paper.variations(&plans.iter().map(seeded).collect::<Vec<_>>(), pairs)?)
}

/// Keeps the result as the last run of the paper's readings. A run of some figures leaves the claims of the others there if the
/// same build measured them at the same scale.
pub(super) fn keep(paper: &Paper, result: &ResultFile) -> Result<(), Failure> {
    let path = file(paper)?;
    let mut kept = result.clone();
    kept.plan["build"] = environment::build().unwrap_or_default().into();
    let older = ResultFile::read(&path).ok();
    let alike = |older: &ResultFile| ["build", "scale"].iter().all(|key| older.plan[*key] == kept.plan[*key]);
    if let Some(older) = older.filter(alike) {
        let others =
            older.claims.into_iter().filter(|claim| !result.claims.iter().any(|new| new.id == claim.id));
        kept.claims.extend(others);
    }
    Ok(kept.write(path)?)
}

/// Where the last run of a paper's readings is kept.
fn file(paper: &Paper) -> Result<PathBuf, Failure> {
    let folder = store::data()?.join("readings");
    std::fs::create_dir_all(&folder).map_err(|error| Failure::io("make the folder", &folder, &error))?;
    Ok(folder.join(format!("{}.json", paper.name)))
}

/// Puts the classes of the last run of the readings into claims; says of which run they are. A run that was never made, or that
/// another version kept, leaves them without.
pub(super) fn classify(paper: &Paper, claims: &mut [ClaimOutcome]) -> Option<String> {
    let kept = ResultFile::read(file(paper).ok()?).ok()?;
    let class = |id: &str| -> Option<Class> { kept.claims.iter().find(|claim| claim.id == id)?.class };
    let mut found = false;
    for claim in claims {
        claim.class = class(&claim.id);
        found |= claim.class.is_some();
    }
    let build = kept.environment.commit.unwrap_or_else(|| "an unnamed commit".to_owned());
    let scale = kept.plan["scale"].as_str().unwrap_or("unknown").to_owned();
    found.then(|| format!("classes of {}: readings run of {build}, scale {scale}", paper.name))
}

/// Everything that was asked, as the plan of the result.
fn document(paper: &Paper, scale: Scale, variations: &[Variation], size: run::Size) -> Value {
    let pair = |pair: &Pair| json!({ "choices": pair.choices, "why": pair.why });
    json!({
        "paper": paper.name,
        "scale": scale.word(),
        "plans": variations[0].plans.iter().map(|plan| &plan.name).collect::<Vec<_>>(),
        "variations": variations.len(),
        "cells": size.cells,
        "readings": paper.readings.list.iter().map(reading_document).collect::<Vec<_>>(),
        "pairs": paper.readings.pairs.iter().map(pair).collect::<Vec<_>>(),
    })
}

fn reading_document(reading: &Reading) -> Value {
    let choice = |choice: &Choice| json!({ "name": choice.name, "why": choice.why });
    let alternatives: Vec<_> = reading.alternatives.iter().map(|one| choice(&one.choice)).collect();
    json!({
        "name": reading.name,
        "question": reading.question,
        "default": choice(&reading.default),
        "alternatives": alternatives,
        "fitted_on": reading.fitted_on,
    })
}

/// The readings of papers with their arguments.
pub(super) fn list<'p>(papers: impl Iterator<Item = &'p Paper>, output: &Output) {
    if !output.is_json() {
        return papers.for_each(|paper| list_of(paper, output));
    }
    let papers = papers.map(|paper| {
        let readings: Vec<_> = paper.readings.list.iter().map(reading_document).collect();
        json!({ "name": paper.name, "paper": paper.paper, "readings": readings })
    });
    output.document(&json!({ "schema": "weir.readings/1", "papers": papers.collect::<Vec<_>>() }));
}

fn list_of(paper: &Paper, output: &Output) {
    let Readings { list, ablations, .. } = &paper.readings;
    for Reading { name, question, default, alternatives, fitted_on } in list.iter().chain(ablations) {
        let row = |choice: &Choice, mark: &str| (format!("{}{mark}", choice.name), choice.why.clone());
        let others = alternatives.iter().map(|one| row(&one.choice, ""));
        let rows: Vec<_> = [row(default, " (default)")].into_iter().chain(others).collect();
        output.data(&format!("{}/{name}: {question}\n{}", paper.name, columns(&rows)));
        if !fitted_on.is_empty() {
            output.data(&format!("  the default was chosen for the result of {}\n", fitted_on.join(", ")));
        }
    }
}
