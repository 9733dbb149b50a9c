//! In what two results differ besides the code that they measured: machine, host, settings of the plan, the texts that it
//! names; and whether the host was busy.

use crate::cell::Cell;
use results::{Clock, Environment, InputRecord, ResultFile};
use serde_json::Value;
use std::collections::BTreeSet;

/// Keys of a plan that say nothing about how a cell runs.
const WORDS: [&str; 9] = ["name", "why", "note", "seed", "repeats", "order", "figure", "expect", "axis"];
/// Keys that are told by other means: under the real clock a plan names a machine that prices nothing.
const TOLD: [&str; 2] = ["clock", "machine"];
/// A value in a note is no longer than this.
const LONGEST: usize = 40;

/// A sentence for each difference.
pub(super) fn differences(
    (baseline, old): (&str, &ResultFile),
    (other, new): (&str, &ResultFile),
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |what: &str, one: &str, two: &str| {
        if one.chars().count().max(two.chars().count()) > LONGEST && one != two {
            notes.push(format!("the {what} of {baseline} is not that of {other}"));
        } else if one != two {
            notes.push(format!("the {what} differs: {one} in {baseline}, {two} in {other}"));
        }
    };
    // A comparison of the two clocks is asked for, and the real one has the host for a machine.
    if old.clock == new.clock {
        note("machine", &old.machine, &new.machine);
    }
    if (old.clock, new.clock) == (Clock::Real, Clock::Real) {
        for (what, fact) in FACTS {
            note(what, fact(&old.environment), fact(&new.environment));
        }
    }
    let told = |key: &&String| !WORDS.contains(&key.as_str()) && !TOLD.contains(&key.as_str());
    let plans = [&old.plan, &new.plan].into_iter().filter_map(Value::as_object);
    let keys: BTreeSet<&String> = plans.flat_map(|plan| plan.keys()).filter(told).collect();
    for key in keys {
        note(&format!("plan's \"{key}\""), &value(&old.plan[key]), &value(&new.plan[key]));
    }
    let differ = axes(&old.plan, &new.plan).into_iter().chain(inputs(&old.inputs, &new.inputs));
    notes.extend(
        differ.map(|what| {
            format!("{what} has other settings or another content in {baseline} than in {other}")
        }),
    );
    for (side, result) in [(baseline, old), (other, new)] {
        if result.partial {
            notes
                .push(format!("the run of {side} was interrupted: runs of it are missing or were cut short"));
        }
    }
    notes
}

/// What a time of the real clock depends on.
type Fact = fn(&Environment) -> &str;
const FACTS: [(&str, Fact); 4] = [
    ("processor", |host| host.cpu_model.as_deref().unwrap_or("unknown")),
    ("kernel", |host| host.kernel.as_deref().unwrap_or("unknown")),
    ("frequency governor", |host| host.governor.as_deref().unwrap_or("unknown")),
    ("build profile", |host| host.profile.as_deref().unwrap_or("unknown")),
];

/// A value as a plan's file would have it.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Values of axes that have the same label and set something else.
fn axes(old: &Value, new: &Value) -> Vec<String> {
    let all = |plan: &Value| -> Vec<(String, Value)> {
        let axes = plan["axis"].as_array().into_iter().flatten();
        let values = axes.flat_map(|axis| {
            let values = axis["values"].as_array().into_iter().flatten();
            values.map(|one| {
                (format!("{} {}", self::value(&axis["name"]), self::value(&one["label"])), one.clone())
            })
        });
        values.collect()
    };
    let new = all(new);
    let differs = |(name, one): &(String, Value)| new.iter().any(|(other, two)| other == name && two != one);
    all(old).into_iter().filter(differs).map(|(name, _)| name).collect()
}

/// Texts of the same name that are not the same.
fn inputs(old: &[InputRecord], new: &[InputRecord]) -> Vec<String> {
    let differs = |one: &&InputRecord| {
        new.iter().any(|two| (two.kind, &two.name) == (one.kind, &one.name) && two.text != one.text)
    };
    old.iter().filter(differs).map(|one| format!("{} {}", one.kind, one.name)).collect()
}

/// Says during how many runs of a side the host was busy; none where it was quiet.
pub(super) fn busy(cells: &[&Cell<'_>], side: &str) -> Option<String> {
    let samples = || cells.iter().flat_map(|cell| &cell.samples);
    let busy = samples().filter(|sample| sample.host.as_ref().is_some_and(|host| !host.noise.is_empty()));
    let (busy, all) = (busy.count(), samples().count());
    (busy > 0).then(|| {
        format!("the host was busy during {busy} of {all} runs of {side}: their times cannot be relied on")
    })
}
