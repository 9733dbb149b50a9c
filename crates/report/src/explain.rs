//! Where the time went, in text: what `weir explain` prints of a result. A result with several numbers of threads ends in a
//! table of what holds each of its curves back.
//!
//! ```text
//! filebench/varmail  fs hinfs  threads 8
//!   fsync   120 k calls, mean 8.31 µs, 41 % of the time
//!     journal      ██████████████▌                 48 %   3.99 µs
//!     lock wait    ██████▏                         21 %   1.75 µs   (inode 80 %, journal 20 %)
//!     parts                                       100 %   8.31 µs   (the total)
//!     cache lines                                  12 %   1.00 µs   (vfs.references 90 %, inode 10 %)
//!     units of work in a call, and the price of one:
//!     lock                                          2 %    168 ns   12 × 14 ns
//!     named parts, each with the parts inside of it:
//!     pmfs.new_trans                                5 %    415 ns   1 × 415 ns
//! ```
//!
//! What follows the parts is none: waits for cache lines and units of work are in the CPU work above, mostly in `software`, and
//! named
//! parts overlap with everything. A part's units cost what they cost on a core of their own.

use crate::axis;
use crate::cell::{self, Cell};
use crate::figure::rank;
use crate::kernel;
use crate::replay;
use crate::scaling;
use crate::summary;
use crate::table::{Table, wrapped};
use crate::units::{Unit, percent};
use results::{OperationRecord, PartRecord, ResultFile, WorkRecord};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const BAR_CELLS: usize = 30;
/// A name of 14 characters and its bar; what has no bar may have a longer name.
const HEAD_CELLS: usize = 15 + BAR_CELLS;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Where the time of each kind of operation went, in each cell that agrees with `only` on every axis there. Several results
/// have their headings; those without such a cell are left out.
pub fn explain(results: &[ResultFile], only: &BTreeMap<String, String>) -> String {
    let mut texts = Vec::new();
    for result in results {
        let cells = explain_cells(result, only);
        if results.len() > 1 && !cells.is_empty() {
            texts.push(summary::heading(result) + "\n");
        }
        texts.extend(cells);
        texts.extend(replay::best(result, only).iter().map(|told| wrapped(told)));
        texts.extend(scaling::tables(result, only).iter().map(Table::to_text));
        texts.extend(scaling::how_to_free(result, only));
    }
    if texts.is_empty() { "No sample matches.\n".to_owned() } else { texts.join("\n") }
}

fn explain_cells(results: &ResultFile, only: &BTreeMap<String, String>) -> Vec<String> {
    let cells = cell::cells(results);
    let matches = |cell: &&Cell<'_>| only.iter().all(|(axis, value)| cell.axis(axis) == Some(value));
    cells.iter().filter(matches).map(explain_cell).collect()
}

fn explain_cell(cell: &Cell<'_>) -> String {
    let mut text = heading(cell) + "\n" + &replay::shares(cell).unwrap_or_default();
    text += &explain_operations(&cell.operations());
    text += &kernel::waits(cell);
    let served = cell.served();
    if !served.is_empty() {
        text += "  Requests of the kernel to the server of this mount, and its work in the background:\n";
        text += &explain_operations(&served);
    }
    text
}

fn explain_operations(operations: &[OperationRecord]) -> String {
    let all_ns: u64 = operations.iter().map(|operation| operation.total_ns).sum();
    if all_ns == 0 {
        return "  No times of operations were recorded.\n".to_owned();
    }
    let counted = operations.iter().filter(|operation| operation.count > 0);
    counted.map(|operation| explain_operation(operation, all_ns)).collect()
}

fn heading(cell: &Cell<'_>) -> String {
    let workload = cell.axis("workload").map(str::to_owned);
    let others = cell.axes.iter().filter(|(name, _)| *name != "workload");
    let others = others.map(|(name, value)| format!("{} {}", axis::title(name), axis::label(value, &[])));
    workload.into_iter().chain(others).collect::<Vec<_>>().join("  ")
}

fn explain_operation(operation: &OperationRecord, all_ns: u64) -> String {
    let mut text = format!(
        "  {}   {} calls, mean {}, {} of the time\n",
        operation.kind,
        Unit::Count.human(operation.count as f64),
        mean(operation.total_ns, operation),
        percent(operation.total_ns as f64 / all_ns.max(1) as f64),
    );
    let mut parts: Vec<(&str, u64)> =
        operation.time_ns.iter().map(|(name, ns)| (name.as_str(), *ns)).collect();
    parts.sort_by_key(|(name, ns)| (std::cmp::Reverse(*ns), rank(name)));
    for (name, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
        let note = if name == "lock_wait" { shares(&operation.lock_wait_ns) } else { String::new() };
        part(&mut text, &name.replace('_', " "), ns, operation, true, &note);
    }
    if !operation.time_ns.is_empty() {
        part(&mut text, "parts", operation.parts_ns(), operation, false, &balance(operation));
    }
    let lines = operation.line_wait_ns.values().sum();
    if lines > 0 {
        part(&mut text, "cache lines", lines, operation, false, &shares(&operation.line_wait_ns));
    }
    work(&mut text, operation);
    named_parts(&mut text, operation);
    text
}

/// Of what the CPU work is the price: units of each kind of work in a call, and the price of one, the most time first.
fn work(text: &mut String, operation: &OperationRecord) {
    if operation.work.is_empty() {
        return;
    }
    *text += "    units of work in a call, and the price of one:\n";
    let mut all: Vec<(&String, &WorkRecord)> = operation.work.iter().collect();
    all.sort_by_key(|(name, work)| (std::cmp::Reverse(work.ns), *name));
    for (name, work) in all {
        let units = Unit::Count.human(work.units as f64 / operation.count.max(1) as f64);
        let note = match work.ns {
            0 => units,
            ns => format!("{units} × {}", Unit::Nanos.human(ns as f64 / work.units.max(1) as f64)),
        };
        part(text, &name.replace('_', " "), work.ns, operation, false, &note);
    }
}

/// Named parts of the calls, the longest first.
fn named_parts(text: &mut String, operation: &OperationRecord) {
    if operation.parts.is_empty() {
        return;
    }
    *text += "    named parts, each with the parts inside of it:\n";
    let mut all: Vec<(&String, &PartRecord)> = operation.parts.iter().collect();
    all.sort_by_key(|(name, part)| (std::cmp::Reverse(part.ns), *name));
    for (name, one) in all {
        let times = Unit::Count.human(one.count as f64 / operation.count.max(1) as f64);
        let note = format!("{times} × {}", Unit::Nanos.human(one.ns as f64 / one.count.max(1) as f64));
        part(text, name, one.ns, operation, false, &note);
    }
}

fn part(text: &mut String, name: &str, ns: u64, operation: &OperationRecord, bar: bool, note: &str) {
    let share = ns as f64 / operation.total_ns.max(1) as f64;
    let head = if bar { format!("{name:<14} {}", bar_of(share)) } else { name.to_owned() };
    let (share, mean) = match ns {
        0 => (String::new(), String::new()), // it has no single price
        _ => (percent(share), mean(ns, operation)),
    };
    let line = format!("    {head:<HEAD_CELLS$} {share:>6}  {mean:>8}   {note}");
    writeln!(text, "{}", line.trim_end()).expect("a string takes every byte");
}

fn mean(ns: u64, operation: &OperationRecord) -> String {
    Unit::Nanos.human(ns as f64 / operation.count.max(1) as f64)
}

/// A bar of `share` of the full width, to an eighth of a character.
fn bar_of(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (BAR_CELLS * 8) as f64).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// Locks or lines by their part of the wait, longest first.
fn shares(waits: &BTreeMap<String, u64>) -> String {
    let total: u64 = waits.values().sum();
    if total == 0 {
        return String::new();
    }
    let mut waits: Vec<(&String, &u64)> = waits.iter().collect();
    waits.sort_by_key(|(name, ns)| (std::cmp::Reverse(**ns), *name));
    let texts: Vec<String> =
        waits.iter().map(|(name, ns)| format!("{name} {}", percent(**ns as f64 / total as f64))).collect();
    format!("({})", texts.join(", "))
}

/// Whether the ledger accounts for the total, which it must.
fn balance(operation: &OperationRecord) -> String {
    let (parts, total) = (operation.parts_ns(), operation.total_ns);
    if parts == total {
        "(the total)".to_owned()
    } else {
        format!("(the total is {}: the ledger does not balance)", mean(total, operation))
    }
}
