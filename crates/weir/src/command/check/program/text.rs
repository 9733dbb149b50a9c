//! The answer for a terminal.

use std::fmt::Write as _;

use check::program::alike::bucket;
use check::program::cause::{Kept, shown};
use check::program::judge::Explored;
use check::program::operations::NEVER;
use check::program::run::{Finding, Outcome};

use super::ran::{Designed, Ran, decides};

/// The sentence where a trace has no stacks.
const NO_STACKS: &str =
    "Where in the program these calls are was not recorded: `weir record --contents --stack` keeps it.\n";

/// Faults that no run of this kind can show.
pub(super) const NOT_COVERED: &str = "errors of fsync, damaged bits, drives that lose what they have flushed";

/// All of it.
pub(super) fn of(ran: &Ran<'_>) -> String {
    let Outcome { explored, findings, faults, warnings, .. } = &ran.outcome;
    let mut text = ran.sentence() + "\n";
    for (number, one) in findings.iter().enumerate() {
        text.push('\n');
        text += &finding(ran, number + 1, one);
    }
    if !findings.is_empty() {
        text += "\nTo look at the tree of one: the same command with --show NUMBER --into FOLDER.\n";
        if ran.story.frames.is_empty() {
            text += NO_STACKS;
        }
    }
    let on_designs = ran.designs.iter().any(|one| !one.found.is_empty() || !one.gathered.bugs.is_empty());
    if findings.is_empty() && !on_designs && faults.is_empty() && ran.story.unseen.is_empty() {
        text += &nothing_found(&ran.story.mapped);
    }
    text.push('\n');
    for one in explored {
        let _ = writeln!(text, "{}", row(one, &ran.outcome.broken(&one.model)));
    }
    for one in &ran.designs {
        text += &design(one);
    }
    for what in warnings.iter().chain(faults) {
        let _ = writeln!(text, "warning: {what}");
    }
    let _ = writeln!(text, "not judged: {}", ran.not_judged().join("; "));
    let _ = writeln!(text, "Not covered: {NOT_COVERED}.");
    text
}

/// The verdict without findings. Files with stores that no call shows are no part of it.
fn nothing_found(mapped: &[String]) -> String {
    let but = match mapped {
        [] => String::new(),
        [one] => format!("; not judged: {one} is mapped"),
        all => format!("; not judged: {} are mapped", all.join(", ")),
    };
    format!("Nothing was found in what was explored{but}.\n")
}

/// One finding: what is broken, by which calls, and what helps.
pub(super) fn finding(ran: &Ran<'_>, number: usize, finding: &Finding) -> String {
    let cause = &finding.cause;
    let mut text =
        format!("{number}  {}   [{} · {}]\n", cause.message, cause.promise.name(), finding.models.join(" "));
    let said = bucket(&cause.message);
    for other in finding.messages.iter().filter(|other| **other != said).take(3) {
        let _ = writeln!(text, "   also: {other}");
    }
    for (call, how) in ran.calls(cause) {
        let line = ran.story.calls[call as usize].line;
        let _ = writeln!(text, "   {:<44} line {line:<6} {how}", shown(ran.story, call));
        text += &place(ran, &ran.story.calls[call as usize].stack);
    }
    if let Kept::Ack(at) = cause.kept {
        let told = ran.told(cause);
        let last = format!("\"{}\"", told.lines().last().unwrap_or_default());
        let _ = writeln!(text, "   {last:<44}             told");
        text += &place(ran, &ran.story.acks[at].stack);
    }
    for line in why(ran, finding) {
        let _ = writeln!(text, "   {line}");
    }
    text
}

/// Where in the program a call was made.
fn place(ran: &Ran<'_>, stack: &[u32]) -> String {
    let place = ran.story.place(stack);
    if place.is_empty() { String::new() } else { format!("      at {place}\n") }
}

/// Why it is broken, and what removes it: a sentence each.
pub(super) fn why(ran: &Ran<'_>, finding: &Finding) -> Vec<String> {
    let cause = &finding.cause;
    if !decides(finding) {
        return vec![
            "This keeps nothing of what a program did, and does not decide the exit code.".to_owned(),
        ];
    }
    if cause.lost.is_empty() {
        return vec![match &*ran.story.mapped {
            [] => match ran.between(cause) {
                (Some(_), Some(_)) => {
                    "Nothing is lost here: the crash alone, between these two calls, is enough, and no sync helps."
                }
                (None, _) => "Nothing is lost here: a crash before the first call is enough, and no sync helps.",
                (_, None) => "Nothing is lost here: a crash after the last call is enough, and no sync helps.",
            }
            .to_owned(),
            all => format!(
                "No call is lost here: the crash alone is enough, or what was stored in {}; an msync covers that.",
                all.join(", ")
            ),
        }];
    }
    let many = cause.lost.len();
    let enough = if many == 1 {
        "One lost piece is enough.".to_owned()
    } else {
        format!("{many} lost pieces together.")
    };
    let all = &ran.operations.all;
    let halves = cause.lost.iter().filter(|number| all[**number as usize].end_ns == NEVER).count();
    if halves == many {
        return vec![
            "A call that never returned may have had its effect or not, and no sync after it helps."
                .to_owned(),
        ];
    }
    let torn = if cause.state.torn.is_some() { " One of them has persisted in part." } else { "" };
    let mut all = vec![format!("Nothing orders them. {enough}{torn}")];
    match &finding.fix {
        Some(fix) => all.push(format!("Fix: {} (tried: removes it in {} trees).", fix.what, fix.trees)),
        None if !ran.tries_fixes => {}
        None => all.push("Fix: no sync that was tried before the second of them removes it.".to_owned()),
    }
    all
}

fn row(one: &Explored, broken: &str) -> String {
    let broken = if broken.is_empty() { "–" } else { broken };
    format!("  {:<28} {broken:<3} {}", one.model, explored(one))
}

/// How far a model was explored.
pub(super) fn explored(one: &Explored) -> String {
    let legal = if one.is_exact {
        format!("all {}", one.legal)
    } else if one.is_counted {
        format!("{} of {}", one.sets, one.legal)
    } else {
        format!("{} of at least {}", one.sets, one.legal)
    };
    let torn = if one.torn > 0 { format!(" and {} torn ones", one.torn) } else { String::new() };
    let cut = if one.cut { ", cut by --time" } else { "" };
    let out = if one.points_left_out > 0 {
        format!(", {} points left out", one.points_left_out)
    } else {
        String::new()
    };
    let none = match one.nothing {
        0 => String::new(),
        count => format!(", of {count} of which the checker says nothing"),
    };
    format!("{} trees{none}; {legal} legal states{torn} at {} points{out}{cut}", one.trees, one.points)
}

/// How far a design was explored.
pub(super) fn gathered(one: &Designed) -> String {
    let gathered = &one.gathered;
    let cut = if gathered.cut { ", cut by --states" } else { "" };
    let (trees, images, points) = (gathered.trees.len(), gathered.images, gathered.points);
    format!("{trees} trees of {images} images at {points} points{cut}")
}

fn design(one: &Designed) -> String {
    let name = &one.name;
    if let Some(what) = &one.refused {
        return format!("  {name:<28} not tried: {what}\n");
    }
    let broken = Some(one.broken()).filter(|letters| !letters.is_empty()).unwrap_or_else(|| "–".to_owned());
    let mut text = format!("  {name:<28} {broken:<3} {}\n", gathered(one));
    for found in &one.found {
        let (message, promise) = (&found.message, found.promise.name());
        let _ = writeln!(text, "      {message} [{promise}], {} ({} trees)", found.moment, found.trees);
    }
    for bug in &one.gathered.bugs {
        let _ = writeln!(text, "      a bug of the design, not of the program: {bug}");
    }
    text
}
