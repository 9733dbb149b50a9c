//! Runs a paper under its readings.
//!
//! All variations are one matrix: a cell that several of them share runs once, and one that was kept by an interrupted run of
//! the same build does not run again. Nothing is classed before everything has run, since a claim could still change sides.

use std::collections::BTreeMap;

use results::{ClaimOutcome, ReadingOutcome};

use super::Variation;
use crate::claims::Measured;
use crate::error::Error;
use crate::plan::Plan;
use crate::runner::Runner;

/// What a run of readings came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The claims under the defaults, each with its class and what it came to under every variation.
    pub claims: Vec<ClaimOutcome>,
    /// How many cells it took.
    pub size: Size,
}

/// How many cells there are to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Cells that the variations ask for, each counted as often as it is asked for.
    pub asked: usize,
    /// Different cells among them.
    pub cells: usize,
    /// Of the different ones, those that are known already.
    pub known: usize,
}

/// Runs every cell of the variations. None when it was interrupted: the cells so far are kept where `runner` keeps them.
pub fn run(variations: &[Variation], runner: &mut Runner<'_>) -> Result<Option<Outcome>, Error> {
    let all: Vec<Plan> = variations.iter().flat_map(|variation| variation.plans.clone()).collect();
    let size = runner.measure_all(&all)?;
    if runner.interrupted() {
        return Ok(None);
    }
    let mut judged = Vec::new();
    for variation in variations {
        let results = runner.run_all(&variation.plans)?;
        let measured: Measured = results.into_iter().map(|result| (result.name.clone(), result)).collect();
        judged.push(variation.paper.judge(&measured));
    }
    Ok(Some(Outcome { claims: class(variations, &judged), size }))
}

/// The claims of the first variation with what they came to in each.
fn class(variations: &[Variation], judged: &[Vec<ClaimOutcome>]) -> Vec<ClaimOutcome> {
    let mut under: BTreeMap<&str, Vec<ReadingOutcome>> = BTreeMap::new();
    for (variation, claims) in variations.iter().zip(judged) {
        for ClaimOutcome { id, value, holds, .. } in claims {
            let Variation { name, choice, .. } = variation;
            let (name, choice) = (name.clone(), choice.clone());
            let outcome = ReadingOutcome { name, choice, value: *value, holds: *holds };
            under.entry(id).or_default().push(outcome);
        }
    }
    let default = judged.first().into_iter().flatten();
    default.map(|claim| claim.clone().under(under.remove(claim.id.as_str()).unwrap_or_default())).collect()
}
