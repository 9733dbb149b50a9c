//! Lints: rules that a program must keep even without a crash.

use std::cell::RefCell;

use media::fault::Fault;
use media::recorder::{Recorder, Rule};

use super::Subject;
use super::programs::Program;
use super::record::record;

/// The lints that a program breaks: a call that should be durable leaves something unflushed or unfenced (L1, L2), a commit store
/// precedes what it makes valid, or may tear (L3, L6), blocks are freed too early (L7). The explorer checks L8.
pub fn lints(subject: &Subject, program: &Program, faults: &[Fault]) -> Vec<String> {
    let subject = &subject.with_stores_of(program);
    let recorder = RefCell::new(None);
    let recorded = record(subject, program, &|region| {
        *recorder.borrow_mut() = Some(Recorder::attach(region, subject.mode, None));
        for fault in faults {
            region.inject(*fault);
        }
    });
    if let Err(what) = recorded {
        return vec![format!("{}: {what}", program.name)];
    }
    let lints = match recorder.into_inner() {
        Some(Ok(recorder)) => recorder.lints(),
        Some(Err(error)) => return vec![format!("{}: the recorder: {error}", program.name)],
        // The region is too small for the program, which was not run.
        None => Vec::new(),
    };
    let broken = lints.iter().filter(|lint| {
        // A call that changes nothing need not flush or fence what an earlier write has left.
        let changes = !matches!(lint.op, "open" | "close");
        match lint.rule {
            Rule::UnflushedAtReturn | Rule::UnfencedAtReturn => changes,
            rule => !rule.is_performance(),
        }
    });
    broken.map(|lint| format!("{}: {lint}", program.name)).collect()
}
