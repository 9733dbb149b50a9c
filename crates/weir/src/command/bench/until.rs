//! `--until steady`: the cells again, each time longer, until no rate of them rises, falls or is still starting.
//!
//! All cells run anew at the next length, those that were steady too: what is compared has run equally long.

use lab::Plan;
use lab::plan::Stop;
use report::cell;
use results::ResultFile;
use results::steady::LONGER;
use sim::Nanos;

use crate::experiment::How;
use crate::failure::Failure;
use crate::output::Output;

/// The longest run when nothing is said, by the first.
const MOST: u64 = 100;

/// Runs the plans until every cell of them is steady, or until a longer run would take more than `at_most`; says which.
pub(super) fn steady(
    how: &How,
    mut plans: Vec<Plan>,
    at_most: Option<Nanos>,
    output: &Output,
) -> Result<Vec<ResultFile>, Failure> {
    let most = |stop: Stop| match (stop, at_most) {
        (Stop::After(_), Some(time)) => Some(Stop::After(time)),
        _ => stop.longer(MOST),
    };
    let limits: Vec<Option<Stop>> = stops(&plans).map(most).collect();
    if limits.iter().any(Option::is_none) {
        return Err(Failure::usage(
            "--until steady needs workloads that end by a time or a count: give --runtime",
        ));
    }
    let is_beyond = |(stop, limit): &(Stop, &Option<Stop>)| limit.is_some_and(|limit| exceeds(*stop, limit));
    let beyond = stops(&plans).zip(&limits).find(is_beyond).map(|(first, _)| first);
    if let Some(first) = beyond {
        return Err(Failure::usage(format!(
            "--at-most is shorter than the first run, which takes {first}: give it more than that, or --runtime less"
        )));
    }
    loop {
        let results = how.run(&plans, output)?;
        let Some(cell) = results.iter().find_map(unsteady) else {
            return Ok(results);
        };
        if results.iter().any(|result| result.partial) {
            return Ok(results);
        }
        let longer: Vec<Plan> = plans.iter().map(longer).collect();
        let beyond =
            stops(&longer).zip(&limits).any(|(stop, limit)| limit.is_none_or(|limit| exceeds(stop, limit)));
        if beyond {
            output.note(&format!("{cell} is not steady; the next length is beyond --at-most"));
            return Ok(results);
        }
        output.note(&format!("{cell} is not steady: all cells run again, {LONGER} times as long"));
        plans = longer;
    }
}

/// When the workloads of the plans stop.
fn stops(plans: &[Plan]) -> impl Iterator<Item = Stop> {
    plans.iter().flat_map(|plan| plan.workload.iter().map(|workload| workload.stop.unwrap_or(plan.stop)))
}

fn longer(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.stop = plan.stop.longer(LONGER).unwrap_or(plan.stop);
    for stop in plan.workload.iter_mut().filter_map(|workload| workload.stop.as_mut()) {
        *stop = stop.longer(LONGER).unwrap_or(*stop);
    }
    plan
}

fn exceeds(stop: Stop, limit: Stop) -> bool {
    match (stop, limit) {
        (Stop::After(time), Stop::After(limit)) => time > limit,
        (Stop::Operations(count), Stop::Operations(limit)) => count > limit,
        _ => false,
    }
}

/// The first cell whose rate is not steady, by its name.
fn unsteady(result: &ResultFile) -> Option<String> {
    let cells = cell::cells(result);
    let cell = cells.iter().find(|cell| !cell.steadiness().is_settled())?;
    Some(lab::cell::title(cell.axes))
}
