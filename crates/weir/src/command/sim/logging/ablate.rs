//! `weir sim logging --ablate`: one mechanism or size changed at a time, and what becomes of the claims that are ratios.

use lab::claims::Paper;
use lab::plan::{Scale, Stop};
use lab::readings::{Readings, run};
use lab::{Plan, Runner, Settings};
use report::table::Table;
use results::{ClaimOutcome, ReadingOutcome};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Bar;

/// The plans whose claims are ratios.
const PLANS: [&str; 2] = ["hw-logging", "hw-logging-memcached"];
/// The schemes that these ratios are of.
const SCHEMES: [&str; 3] = ["undo-clwb", "redo-clwb", "fwb"];
/// Transactions of a run, and as many before: enough to see what a mechanism does.
const TRANSACTIONS: u64 = 2_000;

/// A plan so small that there is an answer in minutes.
fn plan(name: &str, seed: u64) -> Result<Plan, Failure> {
    let mut plan = Plan { seed, stop: Stop::Operations(TRANSACTIONS), ..Scale::Tenth.load(name)? };
    plan.processor.insert("warmup".to_owned(), TRANSACTIONS.to_string());
    let schemes = plan.axis.iter_mut().filter(|axis| axis.name == "scheme");
    schemes.for_each(|axis| axis.values.retain(|value| SCHEMES.contains(&value.label.as_str())));
    Ok(plan)
}

/// Runs every ablation of the paper.
pub(super) fn run(seed: u64, output: &Output) -> Result<(), Failure> {
    let mut paper = Paper::load("hw-logging")?;
    paper.readings = Readings { list: std::mem::take(&mut paper.readings.ablations), ..Readings::default() };
    let plans = PLANS.iter().map(|name| plan(name, seed)).collect::<Result<Vec<_>, _>>()?;
    let variations = paper.variations(&plans, false)?;
    let bar = Bar::new(output.shows_progress(), output.tells_progress());
    let outcome = run::run(&variations, &mut Runner::new(Settings::default(), &bar))?;
    let claims = outcome.ok_or_else(|| Failure::new(Exit::Interrupted, "interrupted"))?.claims;
    if output.is_json() {
        output.document(&json!({ "schema": "weir.claims/1", "claims": claims }));
    } else {
        output.data(&values(&claims).to_text());
    }
    Ok(())
}

/// A line for each variation and a column for each claim whose value some variation changes. A star: it holds.
fn values(claims: &[ClaimOutcome]) -> Table {
    let mut table = Table::new("Claims with one mechanism changed; * holds");
    table.words("variant");
    let moves = |claim: &&ClaimOutcome| claim.readings.iter().any(|one| one.value != claim.value);
    let moved: Vec<&ClaimOutcome> = claims.iter().filter(moves).collect();
    for claim in &moved {
        table.numbers(claim.id.trim_start_matches("hwlog."));
    }
    let cell = |one: &ReadingOutcome| {
        let value = one.value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
        value + if one.holds { "*" } else { "" }
    };
    for (at, first) in claims.first().iter().flat_map(|claim| claim.readings.iter().enumerate()) {
        let cells = moved.iter().filter_map(|claim| claim.readings.get(at)).map(cell);
        table.rows.push([first.title()].into_iter().chain(cells).collect());
    }
    table
}
