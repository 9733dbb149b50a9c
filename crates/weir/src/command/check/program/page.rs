//! The answer as a page.

use check::program::cause::{Cause, Kept, shown};
use check::program::run::Finding;
use report::power_loss::{Became, Call, Found, PowerLoss};
use report::table::Table;

use super::ran::Ran;
use super::text;
use crate::failure::Failure;

/// Calls that a timeline shows before the first lost one, and about so many in all.
const BEFORE: usize = 3;
const CALLS: usize = 40;

/// The page.
pub(super) fn of(ran: &Ran<'_>) -> Result<String, Failure> {
    let outcome = &ran.outcome;
    let mut unsaid = ran.not_judged();
    unsaid.push(format!("not covered: {}", text::NOT_COVERED));
    let strict = "These are strict promises: a finding may be harmless if the program repairs it.";
    let mut notes: Vec<String> =
        outcome.faults.iter().map(|what| format!("The checker is at fault: {what}")).collect();
    notes.extend(outcome.warnings.iter().cloned());
    notes.extend(ran.is_strict.then(|| strict.to_owned()));
    let found = outcome.findings.iter().enumerate();
    let page = PowerLoss {
        title: format!("{} and a power loss", ran.name()),
        answer: ran.sentence() + ".",
        notes,
        found: found.map(|(at, one)| finding(ran, at + 1, one)).collect(),
        systems: systems(ran),
        unsaid,
        facts: vec![
            ("trace".to_owned(), ran.path.display().to_string()),
            ("seed".to_owned(), ran.seed.to_string()),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ],
    };
    Ok(page.page()?)
}

fn finding(ran: &Ran<'_>, number: usize, finding: &Finding) -> Found {
    let (calls, left_out) = timeline(ran, &finding.cause);
    Found {
        number,
        message: finding.cause.message.clone(),
        promise: finding.cause.promise.name(),
        models: finding.models.join(", "),
        sentences: text::why(ran, finding),
        told: ran.told(&finding.cause).lines().last().map(str::to_owned),
        calls,
        left_out,
    }
}

/// The calls around a crash, and how many before them are not shown.
fn timeline(ran: &Ran<'_>, cause: &Cause) -> (Vec<Call>, usize) {
    let all = &ran.operations.all;
    let call_of = |number: &u32| all[*number as usize].call;
    let lost: Vec<u32> = cause.lost.iter().map(call_of).collect();
    let mut order: Vec<u32> = ran.story.deeds.iter().map(|done| done.call).collect();
    order.dedup();
    order.retain(|call| ran.story.calls[*call as usize].begin_ns < cause.at_ns);
    let kept = if let Kept::Operation(number) = cause.kept { Some(call_of(&number)) } else { None };
    let first = lost.first().or(kept.as_ref());
    let place = first.and_then(|first| order.iter().position(|call| call == first)).unwrap_or(order.len());
    let from = place.saturating_sub(BEFORE);
    let last = order.len();
    let is_near = |at: usize, call: &u32| {
        at < from + CALLS / 2 || at + CALLS / 2 >= last || lost.contains(call) || kept == Some(*call)
    };
    let near = order.iter().enumerate().skip(from).filter(|(at, call)| is_near(*at, call));
    let calls = near.map(|(_, call)| {
        let about = &ran.story.calls[*call as usize];
        let is_sync = all.iter().all(|micro| micro.call != *call);
        let became = if lost.contains(call) {
            Became::Lost
        } else if is_sync {
            Became::Sync
        } else {
            Became::Kept
        };
        let how = ran.calls(cause).into_iter().find(|(known, _)| known == call).map(|(_, how)| how);
        let mut how = how.unwrap_or_else(|| if is_sync { String::new() } else { "persisted".to_owned() });
        let place = ran.story.place(&about.stack);
        if !place.is_empty() && (lost.contains(call) || kept == Some(*call)) {
            how = format!("{how}, at {place}");
        }
        Call { at_ns: about.begin_ns, line: about.line, what: shown(ran.story, *call), became, how }
    });
    (calls.collect(), from)
}

/// A row for each file system.
fn systems(ran: &Ran<'_>) -> Table {
    let mut table = Table::new("File systems");
    for name in ["file system", "atomicity", "durability", "explored"] {
        table.words(name);
    }
    let word = |broken: &str, letter: char| {
        if broken.contains(letter) { "broken" } else { "nothing found" }.to_owned()
    };
    for one in &ran.outcome.explored {
        let broken = ran.outcome.broken(&one.model);
        table.rows.push(vec![one.model.clone(), word(&broken, 'A'), word(&broken, 'D'), text::explored(one)]);
    }
    for one in &ran.designs {
        let (broken, dash) = (one.broken(), || "–".to_owned());
        table.rows.push(match &one.refused {
            Some(what) => vec![one.name.clone(), dash(), dash(), format!("not tried: {what}")],
            None => vec![one.name.clone(), word(&broken, 'A'), word(&broken, 'D'), text::gathered(one)],
        });
    }
    table
}
