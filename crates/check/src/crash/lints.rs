//! What is wrong with a program without any crash.

use std::cell::RefCell;

use media::fault::Fault;
use media::recorder::{Mode, Recorder, Rule};

use super::Subject;
use super::programs::Program;
use super::record::record;

/// What the lints hold against a program: what a call that should be durable leaves unflushed or unfenced (L1, L2), commits
/// before what they make count or by a torn store (L3, L6), blocks that are freed too early (L7). L8 is the explorer's.
pub fn lints(subject: &Subject, program: &Program, faults: &[Fault]) -> Vec<String> {
    let recorder = RefCell::new(None);
    let recorded = record(subject, program, &|region| {
        *recorder.borrow_mut() = Recorder::attach(region, Mode::Adr, None).ok();
        for fault in faults {
            region.inject(*fault);
        }
    });
    if let Err(what) = recorded {
        return vec![format!("{}: {what}", program.name)];
    }
    let lints = recorder.into_inner().map_or(Vec::new(), |recorder| recorder.lints());
    let broken = lints.iter().filter(|lint| {
        // A call that changes nothing need not finish what a write before it has left.
        let changes = !matches!(lint.op, "open" | "close");
        match lint.rule {
            Rule::UnflushedAtReturn | Rule::UnfencedAtReturn => changes,
            rule => !rule.is_performance(),
        }
    });
    broken.map(|lint| format!("{}: {lint}", program.name)).collect()
}
