//! The answer as JSON, `weir.crash-program/1`, and the findings of an earlier one.

use std::path::Path;

use check::program::cause::{Kept, state_of};
use check::program::judge::Explored;
use check::program::run::Finding;
use check::program::story::CallInfo;
use serde_json::{Value, json};

use super::ran::{Designed, Ran};
use crate::failure::Failure;

const SCHEMA: &str = "weir.crash-program/1";

/// The document.
pub(super) fn of(ran: &Ran<'_>) -> Value {
    let findings: Vec<_> =
        ran.outcome.findings.iter().enumerate().map(|(at, one)| finding(ran, at + 1, one)).collect();
    let explored = ran.outcome.explored.iter().map(|one| model(ran, one));
    let models: Vec<_> = explored.chain(ran.designs.iter().map(design)).collect();
    json!({
        "schema": SCHEMA,
        "trace": ran.path,
        "seed": ran.seed,
        "findings": findings,
        "models": models,
        "warnings": ran.outcome.warnings,
        "faults": ran.outcome.faults,
        "unseen": ran.story.unseen,
        "not_judged": ran.not_judged(),
        "mapped": ran.story.mapped,
    })
}

/// A finding.
pub(super) fn finding(ran: &Ran<'_>, number: usize, finding: &Finding) -> Value {
    let cause = &finding.cause;
    // Null: no stacks were recorded.
    let stack = |stack: &[u32]| {
        let frames = || stack.iter().map(|number| ran.story.frame(*number)).collect::<Vec<_>>();
        (!stack.is_empty()).then(frames)
    };
    let about = |about: &CallInfo| {
        let paths: Vec<_> = about.paths.iter().flatten().collect();
        json!({ "call": about.name, "line": about.line, "paths": paths, "range": about.range, "stack": stack(&about.stack) })
    };
    let call = |number: u32| about(&ran.story.calls[ran.operations.all[number as usize].call as usize]);
    // Where nothing is lost: the last call that had begun, and the next.
    let between = cause.lost.is_empty().then(|| {
        let (last, next) = ran.between(cause);
        [last, next].map(|call| call.map(|call| about(&ran.story.calls[call as usize])))
    });
    let missing: Vec<_> = cause.lost.iter().map(|number| call(*number)).collect();
    let whole = state_of(ran.operations, cause.at_ns, &cause.lost, cause.state.torn);
    let kept = match cause.kept {
        Kept::Operation(number) => call(number),
        Kept::Ack(at) => json!({ "acknowledgement": at + 1, "stack": stack(&ran.story.acks[at].stack) }),
        Kept::Nothing => Value::Null,
    };
    json!({
        "number": number,
        "promise": cause.promise.name(),
        "message": cause.message,
        "messages": finding.messages,
        "cause": cause.key,
        "models": finding.models,
        "missing": missing,
        "kept": kept,
        "between": between,
        "trees": finding.trees,
        "fix": finding.fix.as_ref().map(|fix| json!({ "what": fix.what, "trees": fix.trees })),
        "state": { "at_ns": cause.at_ns, "lost": cause.lost, "acknowledged": cause.acks,
                   "all_else_persisted": whole == cause.state },
    })
}

fn model(ran: &Ran<'_>, one: &Explored) -> Value {
    json!({
        "model": one.model, "broken": ran.outcome.broken(&one.model), "points": one.points,
        "points_left_out": one.points_left_out, "explored": one.sets, "torn": one.torn, "legal": one.legal,
        "legal_is_counted": one.is_counted, "legal_is_exact": one.is_exact, "trees": one.trees,
        "cut_by_time": one.cut, "says_nothing": one.nothing,
    })
}

fn design(one: &Designed) -> Value {
    let found: Vec<_> = one.found.iter().map(|found| {
        let promise = found.promise.name();
        json!({ "promise": promise, "message": found.message, "moment": found.moment, "trees": found.trees })
    }).collect();
    json!({
        "design": one.name, "broken": one.broken(), "points": one.gathered.points, "images": one.gathered.images,
        "trees": one.gathered.trees.len(), "cut_by_states": one.gathered.cut, "refused": one.refused,
        "findings": found, "bugs": one.gathered.bugs,
    })
}

/// The causes that an earlier run has found.
pub(super) fn known(path: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read(path);
    let text = text.map_err(|error| Failure::usage(format!("--baseline {}: {error}", path.display())))?;
    let unknown =
        || Failure::usage(format!("{}: give the JSON of an earlier run of this check", path.display()));
    let document: Value = serde_json::from_slice(&text).map_err(|_| unknown())?;
    if document["schema"] != SCHEMA {
        return Err(unknown());
    }
    let all = document["findings"].as_array().into_iter().flatten();
    Ok(all.filter_map(|finding| finding["cause"].as_str().map(str::to_owned)).collect())
}
