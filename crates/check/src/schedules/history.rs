//! Linearizability: whether a sequential execution of the calls explains their answers and the final tree.
//!
//! A call takes effect at one moment between its begin and its end. The search looks for an order of all calls in which no call
//! precedes one that had ended before it began, in which the model gives the design's answers, and which leads to the tree that
//! was seen. It extends the order one call at a time and remembers the states that it has visited: the number of calls of each
//! task, and an equal model (Wing and Gong 1993, Lowe 2017).

use std::collections::BTreeMap;

use vfs::Errno;

use crate::lockstep::in_short;
use crate::model::Model;
use crate::op::{Op, Reply};
use crate::tree::{Tree, difference};

/// A call of a task, and when it was.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) op: Op,
    /// Before and after it, by a counter that all tasks share.
    pub(super) began: u64,
    pub(super) ended: u64,
    pub(super) answer: Result<Reply, Errno>,
}

/// The calls of each task, in its order.
pub(super) type History = Vec<Vec<Call>>;

struct Search<'a> {
    history: &'a History,
    seen: &'a Tree,
    /// Space may run out: a call may answer `ENOSPC` and do nothing, and a write may be partial.
    full: bool,
    /// By how many calls of each task have been carried out: the models that this has led to.
    visited: BTreeMap<Vec<usize>, Vec<Model>>,
    /// The difference at which the longest order stopped.
    closest: (usize, String),
}

/// Returns an error when no order of the calls explains their answers and the final tree, with everything closed.
pub(super) fn explain(start: &Model, history: &History, seen: &Tree, full: bool) -> Result<(), String> {
    let mut search = Search { history, seen, full, visited: BTreeMap::new(), closest: (0, String::new()) };
    if search.goes_on(start.clone(), vec![0; history.len()]) {
        return Ok(());
    }
    Err(format!("no order of the calls explains it: {}\n{}", search.closest.1, in_words(history)))
}

impl Search<'_> {
    fn goes_on(&mut self, model: Model, done: Vec<usize>) -> bool {
        let next = |task: usize| self.history[task].get(done[task]);
        let Some(first_end) = (0..done.len()).filter_map(next).map(|call| call.ended).min() else {
            return self.is_as_seen(model);
        };
        let mut can: Vec<_> =
            (0..done.len()).filter(|task| next(*task).is_some_and(|call| call.began < first_end)).collect();
        // The order of their ends is usually a valid one.
        can.sort_by_key(|task| next(*task).map(|call| call.ended));
        if self.visited.get(&done).is_some_and(|models| models.contains(&model)) {
            return false;
        }
        for task in can {
            let call = &self.history[task][done[task]];
            let mut after = model.clone();
            if let Err(what) = answers(&mut after, call, self.full) {
                self.note(done.iter().sum(), || format!("task {task}: {what}"));
                continue;
            }
            let mut more = done.clone();
            more[task] += 1;
            if self.goes_on(after, more) {
                return true;
            }
        }
        self.visited.entry(done).or_default().push(model);
        false
    }

    fn is_as_seen(&mut self, mut model: Model) -> bool {
        model.close_all();
        let difference = difference(self.seen, &model.tree());
        if let Some(what) = &difference {
            self.note(usize::MAX, || format!("in the end {what}"));
        }
        difference.is_none()
    }

    fn note(&mut self, depth: usize, what: impl FnOnce() -> String) {
        if depth >= self.closest.0 {
            self.closest = (depth, what());
        }
    }
}

/// Carries a call out on the model, which must answer the same.
fn answers(model: &mut Model, call: &Call, full: bool) -> Result<(), String> {
    let limit = match &call.answer {
        Err(Errno::ENOSPC) if full => return Ok(()),
        Ok(Reply::Written(bytes)) if full => Some(*bytes),
        _ => None,
    };
    let expected = model.run(&call.op, limit);
    if expected == call.answer {
        return Ok(());
    }
    Err(format!("{:?} gave {}, expected {}", call.op, in_short(&call.answer), in_short(&expected)))
}

/// A report shows only the end of a long history.
const TOLD: usize = 12;

fn in_words(history: &History) -> String {
    let mut calls: Vec<_> = history
        .iter()
        .zip(0..)
        .flat_map(|(calls, task)| calls.iter().map(move |call| (task, call)))
        .collect();
    calls.sort_by_key(|(_, call): &(usize, _)| call.began);
    let lines = calls.iter().skip(calls.len().saturating_sub(TOLD)).map(|(task, call)| {
        format!(
            "  {:>4}–{:<4} task {task}: {:?} -> {}",
            call.began,
            call.ended,
            call.op,
            in_short(&call.answer)
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{File, Pattern};

    fn call(op: Op, (began, ended): (u64, u64), answer: Result<Reply, Errno>) -> Call {
        Call { op, began, ended, answer }
    }

    fn append(tag: u8) -> Op {
        Op::Write(File::At("foo".into()), None, Pattern { len: 1, tag })
    }

    /// A model with an empty file, and one after these operations.
    fn models(ops: &[Op]) -> (Model, Tree) {
        let mut start = Model::new(0o755, (0, 0));
        start.run(&Op::Create("foo".into()), None).unwrap();
        let mut end = start.clone();
        for op in ops {
            let _ = end.run(op, None);
        }
        (start, end.tree())
    }

    #[test]
    fn calls_that_overlap_may_come_in_any_order_and_others_only_in_their_own() {
        let written = || Ok(Reply::Written(1));
        let (start, seen) = models(&[append(2), append(1)]);
        let overlapping =
            vec![vec![call(append(1), (0, 2), written())], vec![call(append(2), (1, 3), written())]];
        assert_eq!(explain(&start, &overlapping, &seen, false), Ok(()));
        let apart = vec![vec![call(append(1), (0, 1), written())], vec![call(append(2), (2, 3), written())]];
        let what = explain(&start, &apart, &seen, false).unwrap_err();
        assert!(what.contains("in the end \"foo\""), "{what}");
    }

    #[test]
    fn an_answer_that_no_order_gives_is_told() {
        let (start, seen) = models(&[]);
        let made = |times| call(Op::Create("foo".into()), times, Ok(Reply::Done));
        let what = explain(&start, &vec![vec![made((0, 1))]], &seen, false).unwrap_err();
        assert!(what.contains("gave Done, expected EEXIST"), "{what}");
    }

    #[test]
    fn a_call_that_found_no_space_did_nothing_where_space_may_run_out() {
        let (start, seen) = models(&[]);
        let history = vec![vec![call(append(1), (0, 1), Err(Errno::ENOSPC))]];
        assert_eq!(explain(&start, &history, &seen, true), Ok(()));
        assert!(explain(&start, &history, &seen, false).is_err());
    }

    /// Many calls of two tasks that commute: without memory the search would take 2^40 steps to find nothing.
    #[test]
    fn states_are_known_again() {
        let (start, seen) = models(&[append(1)]);
        let chmod = |time| call(Op::Chmod("foo".into(), 0o600), time, Ok(Reply::Done));
        let task = || (0..20).map(|number| chmod((number, 1000 + number))).collect::<Vec<_>>();
        assert!(explain(&start, &vec![task(), task()], &seen, false).is_err());
    }
}
