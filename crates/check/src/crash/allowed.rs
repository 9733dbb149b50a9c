//! Which states a crash may leave at one point, by the clauses of the design's [`Promises`].
//!
//! | metadata | data | a crash leaves |
//! |---|---|---|
//! | on return | on return | the state before or after the call under way; of a write in place, a mix by its unit of atomicity |
//! | on return | on sync | names and attributes as above; of each file, contents that it had since its last sync |
//! | on sync | on sync | names and attributes of one moment since the last sync; of each file, contents since its last sync |
//! | repaired | | what was synced and not named since (`repaired`) |

use vfs::{Atomicity, Durability, Promises};

use super::record::States;
use super::repaired;
use crate::op::Op;
use crate::tree::{Tree, difference, difference_by};

/// A moment of a program.
#[derive(Clone, Copy)]
pub(crate) struct Allowed<'a> {
    pub(crate) promises: Promises,
    pub(crate) ops: &'a [Op],
    pub(crate) states: &'a States,
    /// Operations that have returned.
    pub(crate) done: usize,
    /// The next one is under way.
    pub(crate) inside: bool,
}

impl Allowed<'_> {
    /// Returns what is wrong with a recovered tree.
    pub(crate) fn judge(&self, seen: &Tree) -> Result<(), String> {
        if self.promises.repaired {
            let last = if self.inside { self.done + 1 } else { self.done };
            let seen = (seen, self.promises.names_may_tear);
            return repaired::judge(seen, self.ops, self.states, (self.done, last.min(self.ops.len())));
        }
        match (self.promises.metadata, self.promises.data) {
            (Durability::OnReturn, Durability::OnReturn) => self.judge_durable(seen),
            (Durability::OnReturn, Durability::OnSync) => self.judge_since(seen, self.done),
            (Durability::OnSync, _) => {
                self.judge_since(seen, self.states.history().metadata_floor(self.done))
            }
        }
    }

    /// Names and attributes must be those of one version from `first` on, contents those of the file since its last sync.
    fn judge_since(&self, seen: &Tree, first: usize) -> Result<(), String> {
        let (trees, history) = (&self.states.trees, self.states.history());
        let last = if self.inside { self.done + 1 } else { self.done };
        let as_of = |version: usize| history.judge((seen, &trees[version]), version, (self.done, last));
        let mut wrong = Vec::new();
        for version in (first..=last).rev() {
            match as_of(version) {
                Ok(()) => return Ok(()),
                Err(what) => wrong.push(format!("as after {version} operations: {what}")),
            }
        }
        Err(format!("in no state that a crash may leave ({})", wrong.join("; ")))
    }

    fn judge_durable(&self, seen: &Tree) -> Result<(), String> {
        let trees = &self.states.trees;
        let before = &trees[self.done];
        let Some(after) = trees.get(self.done + 1).filter(|_| self.inside) else {
            return difference(seen, before).map_or(Ok(()), Err);
        };
        let op = &self.ops[self.done];
        let (mut with_after, mut with_before) = (None, None);
        if op.changes_data() && self.promises.write != Atomicity::Whole {
            with_after = Some(after);
            // A write that changes the size: the new size shows only new bytes.
            let (old_size, new_size) = self.states.sizes[self.done];
            with_before = Some(before).filter(|_| old_size == new_size);
        }
        let unit = match self.promises.write {
            Atomicity::Words => 8,
            Atomicity::Blocks(bytes) => bytes as usize,
            Atomicity::Whole => usize::MAX,
        };
        let Some(old) = difference_by(seen, before, with_after, unit) else { return Ok(()) };
        if self.promises.times_may_tear
            && difference_by(&with_old_fractions(seen, before, op), before, with_after, unit).is_none()
        {
            return Ok(());
        }
        let Some(new) = difference_by(seen, after, with_before, unit) else { return Ok(()) };
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
