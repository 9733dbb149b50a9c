//! `weir trace stat`: the sums of a trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use report::table::Table;
use report::units::Unit;
use serde_json::json;
use trace::Reader;
use trace::contents::{Contents, ContentsError, KEY};
use trace::losses::Losses;
use trace::record::{Loss, Missing};
use trace::stat::{Stat, stat};
use trace::words::error_name;

use crate::failure::Failure;
use crate::output::Output;

/// Add up a trace: calls, errors, bytes, times, and what was not stored
#[derive(Args, Debug)]
pub(crate) struct StatOf {
    /// The trace
    #[arg(value_name = "TRACE")]
    file: PathBuf,
}

/// What is said of a trace without end.
pub(super) fn cut_note(file: &Path, line: u64) -> String {
    format!(
        "note: {} has no end: its recorder was killed, or the file was cut; it was read up to line {line}, the last whole one",
        file.display()
    )
}

/// A line for each thing that was seen and not stored.
pub(crate) fn notes_of_counts(counts: &BTreeMap<String, u64>) -> Vec<String> {
    let mut all: Vec<_> = counts.iter().collect();
    all.sort_by_key(|(what, count)| (std::cmp::Reverse(**count), (*what).clone()));
    all.into_iter().map(|(what, count)| format!("{count} {what}")).collect()
}

/// Reads of the contents that a trace's head names by `id` which could not be kept; none of a trace without contents beside it.
pub(crate) fn unkept(file: &Path, id: Option<&[u8]>) -> Vec<String> {
    match Contents::open(file, id) {
        Ok(contents) => contents.unkept,
        Err(ContentsError::Without { .. } | ContentsError::Missing { .. }) => Vec::new(),
        Err(error) => vec![error.to_string()],
    }
}

/// Tells the first of them, and the remedy.
pub(crate) fn unkept_note(unkept: &[String]) -> Option<String> {
    let (first, rest) = unkept.split_first()?;
    let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
    Some(format!(
        "note: contents not kept: {first}{more}: `weir check crash` refuses the trace without --allow-unseen; record again, with \
         a larger --contents=LIMIT if that is the cause"
    ))
}

/// The account of what a trace lacks, for documents.
pub(crate) fn losses_document(losses: &Losses) -> Vec<serde_json::Value> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let one = |loss: Loss| {
        let kind = if loss.kind == Missing::Calls { "calls" } else { "bytes" };
        json!({
            "kind": kind, "count": loss.count, "name": text(&loss.name), "reason": text(&loss.reason),
            "program": text(&loss.program),
        })
    };
    losses.iter().map(one).collect()
}

impl StatOf {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let stat = stat(Reader::open(&self.file)?)?;
        if let Some(line) = stat.cut_after {
            output.note(&cut_note(&self.file, line));
        }
        let id = stat.head.iter().find(|(key, _)| key == KEY).map(|(_, id)| id.as_bytes());
        let unkept = unkept(&self.file, id);
        if let Some(line) = &unkept_note(&unkept) {
            output.note(line);
        }
        if output.is_json() {
            output.document(&document(&self.file, &stat, &unkept));
        } else {
            output.data(&text(&stat));
        }
        Ok(())
    }
}

fn document(file: &Path, stat: &Stat, unkept: &[String]) -> serde_json::Value {
    let calls = stat.calls.iter().map(|(op, of)| {
        let value = json!({
            "calls": of.calls, "failed": of.failed, "bytes": of.bytes, "duration_ns": of.duration_ns,
        });
        (op.name().to_owned(), value)
    });
    let errors = stat.errors.iter().map(|(errno, count)| (error_name(*errno), json!(count)));
    json!({
        "schema": "weir.trace-stat/1",
        "file": file,
        "head": stat.head.iter().cloned().collect::<BTreeMap<_, _>>(),
        "calls": calls.collect::<serde_json::Map<_, _>>(),
        "errors": errors.collect::<serde_json::Map<_, _>>(),
        "threads": stat.threads,
        "processes": stat.processes,
        "paths": stat.paths,
        "initial": { "entries": stat.initial.0, "bytes": stat.initial.1 },
        "span_ns": stat.span_ns,
        "cpu_ns": stat.cpu_ns,
        "not_stored": stat.counts,
        "lost": stat.lost,
        "losses": losses_document(&stat.losses),
        "unkept": unkept,
        "tells_computing": stat.tells_computing,
        "passed_over": stat.passed_over,
        "cut_after": stat.cut_after,
    })
}

fn text(stat: &Stat) -> String {
    let mut text = String::new();
    for (key, value) in &stat.head {
        let _ = writeln!(text, "{key:<10} {value}");
    }
    let ns = |nanos: u64| Unit::Nanos.human(nanos as f64);
    let bytes = |bytes: u64| Unit::Bytes.human(bytes as f64);
    let total = stat.total();
    let is_traced = stat.head.iter().any(|(key, value)| key == "clock" && value == "traced");
    let cpu = match stat.cpu_ns.map(ns) {
        Some(cpu) if is_traced && !stat.tells_computing => {
            format!("{cpu}, but when it did cannot be told from what recording cost")
        }
        cpu => cpu.unwrap_or_else(|| "not known".to_owned()),
    };
    let _ = writeln!(
        text,
        "{} calls of {} threads in {} processes over {}; the program's own computing: {cpu}\n\
         {} paths; before it began: {} entries, {}\n",
        total.calls,
        stat.threads,
        stat.processes,
        ns(stat.span_ns),
        stat.paths,
        stat.initial.0,
        bytes(stat.initial.1),
    );
    let mut table = Table::new("");
    table.words("call");
    for name in ["calls", "failed", "bytes", "time in calls"] {
        table.numbers(name);
    }
    let mut rows: Vec<_> = stat.calls.iter().collect();
    rows.sort_by_key(|(op, of)| (std::cmp::Reverse(of.calls), **op));
    for (op, of) in rows {
        let moved = if of.bytes == 0 { String::new() } else { bytes(of.bytes) };
        let numbers = [of.calls.to_string(), of.failed.to_string(), moved, ns(of.duration_ns)];
        table.rows.push([vec![op.name().to_owned()], numbers.to_vec()].concat());
    }
    text += table.to_text().trim_start();
    if !stat.errors.is_empty() {
        let errors: Vec<_> =
            stat.errors.iter().map(|(errno, count)| format!("{count} {}", error_name(*errno))).collect();
        let _ = writeln!(text, "\nerrors: {}", errors.join(", "));
    }
    let counts = notes_of_counts(&stat.counts);
    if !counts.is_empty() {
        let _ = writeln!(text, "\nseen and not stored:\n  {}", counts.join("\n  "));
    }
    text += &missing(stat);
    if stat.passed_over > 0 {
        let _ =
            writeln!(text, "\n{} records are of a section that this Weir does not know", stat.passed_over);
    }
    text
}

/// What the trace lacks, by name and reason.
fn missing(stat: &Stat) -> String {
    let mut text = String::new();
    if stat.lost > 0 {
        let _ = writeln!(text, "\n{}", trace::compile::lacks(stat.lost, &stat.losses));
    } else if !stat.losses.is_empty() {
        let _ = writeln!(
            text,
            "\nbytes have moved without a recorded call: a replay moves less than the program"
        );
    }
    for line in stat.losses.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text
}
