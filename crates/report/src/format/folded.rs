//! Where the time of calls went as folded stacks, a line each: for speedscope, inferno, flamegraph.pl.
//!
//! `cell (clock);call;activity 1234`, the time in nanoseconds; what was waited for locks is one frame deeper, by the name of the
//! lock. The lines of a call sum to its time. Repeats of a cell are together. Calls of the host have no ledger: they are one frame.

use results::OperationRecord;

use super::{Format, RenderError, exchange};
use crate::Report;
use crate::cell::Cell;

pub(super) struct Folded;

/// The activity that is split by lock.
const LOCK_WAIT: &str = "lock_wait";

impl Format for Folded {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn extension(&self) -> &'static str {
        "folded"
    }

    fn summary(&self) -> &'static str {
        "where the time of calls went as folded stacks, for speedscope and flame graphs"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        let mut text = String::new();
        for (name, cell) in exchange::whole_cells(report) {
            for (frames, ns) in stacks(&cell) {
                let frames: Vec<String> =
                    [name.as_str()].into_iter().chain(frames.iter().map(String::as_str)).map(frame).collect();
                text += &format!("{} {ns}\n", frames.join(";"));
            }
        }
        Ok(text.into_bytes())
    }

    fn skips(&self, report: &Report) -> Option<String> {
        exchange::skipped(report)
    }
}

/// A name without the characters that separate frames and lines.
fn frame(name: &str) -> String {
    name.replace(';', ",").replace(|c: char| c.is_control(), " ")
}

/// The stacks of a cell below its own frame, with their time.
fn stacks(cell: &Cell<'_>) -> Vec<(Vec<String>, u64)> {
    let mut stacks = Vec::new();
    for call in cell.operations() {
        stacks.extend(of_call(&call).into_iter().filter(|(_, ns)| *ns > 0));
    }
    stacks
}

fn of_call(call: &OperationRecord) -> Vec<(Vec<String>, u64)> {
    let stack = |below: &[&str]| {
        [call.kind.as_str()].iter().chain(below).map(|name| (*name).to_owned()).collect::<Vec<String>>()
    };
    if call.time_ns.is_empty() {
        return vec![(stack(&[]), call.total_ns)];
    }
    let mut stacks = Vec::new();
    for (activity, ns) in &call.time_ns {
        let named: u64 = call.lock_wait_ns.values().sum();
        if activity != LOCK_WAIT || named > *ns {
            stacks.push((stack(&[activity]), *ns));
            continue;
        }
        stacks.extend(call.lock_wait_ns.iter().map(|(lock, ns)| (stack(&[LOCK_WAIT, lock]), *ns)));
        stacks.push((stack(&[LOCK_WAIT]), ns - named));
    }
    stacks
}
