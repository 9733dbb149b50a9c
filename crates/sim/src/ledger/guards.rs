//! What a task says of its work while it does it: operations, scopes, parts, counts.

use std::sync::atomic::Ordering::Relaxed;

use super::{Activity, Count, Op, Part, bump};
use crate::clock::Clock;
use crate::units::Nanos;
use crate::{clock, context, ran};

/// Adds `n` to a count in the scope of the current activity.
#[inline]
pub fn count(count: &Count, n: u64) {
    if let Some(cx) = context::current() {
        bump(&cx.ledger.counts[cx.activity.get().index()][count.number()], n);
    }
}

/// Begins a named part of an operation, which ends when the guard is dropped. Does nothing under the real clock, where reading the
/// time would cost as much as many parts take. What a machine charges for a part covers the small work in it ([`crate::ran`]).
#[inline]
pub fn part(part: &'static Part) -> PartGuard {
    let mut covered = None;
    let start = clock::virtual_task().map(|cx| {
        let start = cx.time.get();
        let ps = cx.run.part_price(part);
        if ps > 0 {
            clock::compute(cx, cx.software(Activity::SOFTWARE), Nanos((ps + 500) / 1_000));
            covered = Some(ran::covered());
        }
        start
    });
    PartGuard { part, start, _covered: covered }
}

/// Ends the part begun by [`part`].
#[derive(Debug)]
#[must_use = "the part ends when the guard is dropped"]
pub struct PartGuard {
    part: &'static Part,
    start: Option<u64>,
    _covered: Option<ran::Covered>,
}

impl Drop for PartGuard {
    #[inline]
    fn drop(&mut self) {
        if let (Some(start), Some(cx)) = (self.start, context::current()) {
            cx.ledger.add_part(cx.op.get(), self.part, cx.time.get().saturating_sub(start));
        }
    }
}

/// Sets the activity of medium time until the guard is dropped: data (the default), metadata, journal, or any
/// other. What else is booked on it in its scope, the activity says: [`Activity::with_work`], [`Activity::with_waits`].
#[inline]
pub fn scope(activity: Activity) -> Scope {
    let before = context::current().map_or(Activity::DATA, |cx| cx.activity.replace(activity));
    Scope { before }
}

/// Restores the activity that was current before [`scope`].
#[derive(Debug)]
#[must_use = "the scope ends when the guard is dropped"]
pub struct Scope {
    before: Activity,
}

impl Drop for Scope {
    #[inline]
    fn drop(&mut self) {
        if let Some(cx) = context::current() {
            cx.activity.set(self.before);
        }
    }
}

/// The activity whose scope the current task is in.
pub fn current_scope() -> Activity {
    context::current().map_or(Activity::DATA, |cx| cx.activity.get())
}

/// Begins an operation of kind `op`, which ends when the guard is dropped. An operation inside another
/// belongs to the outer.
///
/// Operations without end at one instant of virtual time are an endless loop that charges nothing: the task
/// panics.
#[inline]
pub fn op(op: Op) -> OpGuard {
    let Some(cx) = context::current() else { return OpGuard { outer: true } };
    if cx.op.get() != Op::NONE.index {
        return OpGuard { outer: false };
    }
    cx.set_op(op);
    cx.draw_pace();
    cx.op_charged.set(0);
    let now = cx.now().0;
    if cx.op_start.replace(now) == now
        && let Some(scheduler) = cx.scheduler()
    {
        scheduler.watch_instant(cx);
    }
    OpGuard { outer: true }
}

/// How many operations of kind `op` the current task has ended.
pub fn calls(op: Op) -> u64 {
    context::current().map_or(0, |cx| cx.ledger.calls[op.index()].load(Relaxed))
}

/// Ends the operation begun by [`op`].
#[derive(Debug)]
#[must_use = "the operation ends when the guard is dropped"]
pub struct OpGuard {
    outer: bool,
}

impl OpGuard {
    /// Decides the kind of an operation begun as [`Op::UNDECIDED`]: all of it, so far and from now on, is booked as `op`.
    /// Inside another operation nothing is booked, so nothing changes.
    pub fn set_op(&self, op: Op) {
        let undecided = |cx: &&context::Context| self.outer && cx.op.get() == Op::UNDECIDED.index;
        if let Some(cx) = context::current().filter(undecided) {
            cx.ledger.decide(op);
            cx.set_op(op);
        }
    }
}

impl Drop for OpGuard {
    #[inline]
    fn drop(&mut self) {
        let Some(cx) = context::current().filter(|_| self.outer) else { return };
        let op = cx.op.get();
        if op == Op::UNDECIDED.index {
            cx.set_op(Op::NONE);
            return cx.ledger.decide(Op::NONE); // the end of the run has cut it off
        }
        let total = cx.now().0.saturating_sub(cx.op_start.get());
        bump(&cx.ledger.total[op as usize], total);
        bump(&cx.ledger.calls[op as usize], 1);
        if cx.clock() == Clock::Real {
            cx.ledger.add(op, Activity::SOFTWARE, total.saturating_sub(cx.op_charged.get()));
        }
        cx.set_op(Op::NONE);
    }
}
