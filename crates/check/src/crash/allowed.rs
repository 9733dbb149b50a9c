//! Which states a crash may leave at one point.

use super::Guarantee;
use super::record::States;
use crate::op::Op;
use crate::tree::{Tree, difference};

/// A moment of a program.
#[derive(Clone, Copy)]
pub(crate) struct Allowed<'a> {
    pub(crate) guarantee: Guarantee,
    pub(crate) ops: &'a [Op],
    pub(crate) states: &'a States,
    /// Operations that have returned.
    pub(crate) done: usize,
    /// The next one is under way.
    pub(crate) inside: bool,
    /// States before writes that have returned but are not durable.
    pub(crate) soft: &'a [usize],
}

impl Allowed<'_> {
    /// What is wrong with a tree that was recovered.
    pub(crate) fn judge(&self, seen: &Tree) -> Result<(), String> {
        match self.guarantee {
            Guarantee::InPlace { .. } => self.judge_in_place(seen),
            Guarantee::Buffered => self.judge_buffered(seen),
        }
    }

    fn judge_buffered(&self, seen: &Tree) -> Result<(), String> {
        let (trees, history) = (&self.states.trees, self.states.history());
        let last = if self.inside { self.done + 1 } else { self.done };
        let as_of = |version: usize| history.judge((seen, &trees[version]), version, (self.done, last));
        let Err(old) = as_of(self.done) else { return Ok(()) };
        if last == self.done {
            return Err(old);
        }
        as_of(last).map_err(|new| format!("neither as before ({old}) nor as after ({new})"))
    }

    fn judge_in_place(&self, seen: &Tree) -> Result<(), String> {
        let trees = &self.states.trees;
        let soft: Vec<&Tree> = self.soft.iter().map(|index| &trees[*index]).collect();
        let before = &trees[self.done];
        let Some(after) = trees.get(self.done + 1).filter(|_| self.inside) else {
            return difference(seen, before, &soft).map_or(Ok(()), Err);
        };
        let op = &self.ops[self.done];
        let (mut with_after, mut with_before) = (soft.clone(), soft);
        if op.changes_data() {
            with_after.push(after);
            // A write that changes the size: the new size shows only new bytes.
            let (old_size, new_size) = self.states.sizes[self.done];
            if old_size == new_size {
                with_before.push(before);
            }
        }
        let Some(old) = difference(seen, before, &with_after) else { return Ok(()) };
        if difference(&with_old_fractions(seen, before, op), before, &with_after).is_none() {
            return Ok(());
        }
        let Some(new) = difference(seen, after, &with_before) else { return Ok(()) };
        Err(format!("neither as before ({old}) nor as after ({new})"))
    }
}

/// A tree as it would be if no time were torn: an operation that changes the times of a file in place may leave the old seconds
/// with the new fraction.
fn with_old_fractions(seen: &Tree, before: &Tree, op: &Op) -> Tree {
    let mut seen = seen.clone();
    if matches!(op, Op::Write(..) | Op::Truncate(..)) {
        for (path, entry) in &mut seen {
            let old = before.get(path).and_then(|entry| entry.mtime);
            if let (Some(mtime), Some(old)) = (&mut entry.mtime, old)
                && mtime.secs == old.secs
            {
                mtime.nanos = old.nanos;
            }
        }
    }
    seen
}

/// Whether an operation may return before what it did is durable: a write in place that goes into one existing block and leaves
/// the size, or any where data is buffered.
pub(super) fn is_soft(guarantee: Guarantee, op: &Op, size: u64) -> bool {
    let Guarantee::InPlace { block } = guarantee else { return true };
    let Op::Write(_, Some(offset), pattern) = op else { return false };
    let end = offset + pattern.len as u64;
    pattern.len > 0 && end <= size && offset / block == (end - 1) / block
}
