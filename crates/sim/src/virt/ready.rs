//! The set of ready tasks: a tournament tree over packed keys.
//!
//! A key is a task's time and number in one word, so that the smallest key names the next task. Leaves are
//! indexed by task number; a task that is not ready has the largest key. An inner node holds the smaller of
//! its two children, so replacing a leaf walks one fixed path to the root: seven steps for 80 tasks, no
//! search, no position table and no branch to mispredict.
//!
//! ```text
//!                  [1] min of all
//!          [2]                     [3]
//!      [4]     [5]             [6]     [7]        leaves: capacity + task number
//! ```

use std::cell::Cell;
use std::panic::resume_unwind;

use crate::context::TaskId;
use crate::task::RunError;
use crate::virt::NO_TASK;

const ID_BITS: u32 = 12;
/// Most tasks that can be alive at once.
pub(crate) const MAX_TASKS: usize = 1 << ID_BITS;
/// A virtual run ends before this time: 26 days.
pub(crate) const MAX_TIME: u64 = 1 << (64 - ID_BITS - 1);
const NOT_READY: u64 = u64::MAX;
const NODES: usize = 2 * MAX_TASKS;

pub(super) struct Ready {
    /// `tree[1]` is the root; leaves start at `capacity`. What lies beyond twice the capacity is not in use
    /// yet.
    tree: Box<[Cell<u64>; NODES]>,
    capacity: Cell<usize>,
}

impl Ready {
    pub(super) fn new() -> Self {
        let nodes = vec![Cell::new(NOT_READY); NODES].into_boxed_slice();
        Self { tree: nodes.try_into().expect("a vector of that length"), capacity: Cell::new(1) }
    }

    /// The time of the furthest-behind task; beyond [`MAX_TIME`] when there is none.
    #[inline]
    pub(super) fn horizon(&self) -> u64 {
        self.tree[1].get() >> ID_BITS
    }

    pub(super) fn insert(&self, id: TaskId, time: u64) {
        while id as usize >= self.capacity.get() {
            self.grow();
        }
        self.set(id, pack(id, time));
    }

    /// Takes the furthest-behind task out; [`NO_TASK`] when none is ready.
    pub(super) fn take_first(&self) -> TaskId {
        let first = self.tree[1].get();
        if first == NOT_READY {
            return NO_TASK;
        }
        self.set(id_of(first), NOT_READY);
        id_of(first)
    }

    /// Whether a task is ready.
    pub(super) fn contains(&self, id: TaskId) -> bool {
        (id as usize) < self.capacity.get() && self.node(self.leaf_of(id)).get() != NOT_READY
    }

    /// Takes a ready task out, wherever it stands.
    pub(super) fn remove(&self, id: TaskId) {
        self.set(id, NOT_READY);
    }

    /// Takes the furthest-behind task out and puts `id` in, which has a leaf, is not ready, and is not that
    /// far behind. Both ways to the root are walked side by side: they do not wait for each other, and where
    /// they have met, both write the same.
    #[inline]
    pub(super) fn exchange(&self, id: TaskId, time: u64) -> TaskId {
        let (first, mut key) = (self.node(1).get(), pack(id, time));
        debug_assert!(first < key, "task {id} at {time} is furthest behind");
        let (mut gone, mut other) = (self.leaf_of(id_of(first)), NOT_READY);
        let mut node = self.leaf_of(id);
        loop {
            self.node(node).set(key);
            self.node(gone).set(other);
            if node <= 1 {
                return id_of(first);
            }
            key = key.min(self.node(node ^ 1).get());
            other = other.min(self.node(gone ^ 1).get());
            (node, gone) = (node / 2, gone / 2);
        }
    }

    #[inline]
    fn leaf_of(&self, id: TaskId) -> usize {
        self.capacity.get() + id as usize
    }

    /// The mask tells the compiler what is known: a node's number is within the tree.
    #[inline]
    fn node(&self, node: usize) -> &Cell<u64> {
        &self.tree[node & (NODES - 1)]
    }

    #[inline]
    fn set(&self, id: TaskId, mut key: u64) {
        let mut node = self.leaf_of(id);
        self.node(node).set(key);
        while node > 1 {
            key = key.min(self.node(node ^ 1).get());
            node /= 2;
            self.node(node).set(key);
        }
    }

    /// Doubles the number of leaves.
    fn grow(&self) {
        let capacity = self.capacity.get();
        if capacity >= MAX_TASKS {
            fail(RunError::TooManyTasks);
        }
        for leaf in capacity..2 * capacity {
            self.tree[leaf + capacity].set(self.tree[leaf].get());
        }
        for node in (1..2 * capacity).rev() {
            self.tree[node].set(self.tree[2 * node].get().min(self.tree[2 * node + 1].get()));
        }
        self.capacity.set(2 * capacity);
    }
}

#[inline]
fn pack(id: TaskId, time: u64) -> u64 {
    if time >= MAX_TIME {
        fail(RunError::TooLong);
    }
    time << ID_BITS | u64::from(id)
}

/// Ends the run with an error, which is no fault of the program: nothing is printed of a panic.
#[cold]
pub(super) fn fail(error: RunError) -> ! {
    resume_unwind(Box::new(error))
}

#[inline]
fn id_of(key: u64) -> TaskId {
    (key & (MAX_TASKS as u64 - 1)) as TaskId
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::RngExt;

    use super::*;
    use crate::Seed;

    #[test]
    fn the_tree_agrees_with_an_ordered_set() {
        let mut rng = Seed(1).rng();
        let (ready, mut model) = (Ready::new(), BTreeSet::new());
        let (mut time_of, mut seen) = ([None; 300], [false; 300]);
        for step in 0..50_000 {
            let id = rng.random_range(0..1 + step.min(299));
            let time = rng.random_range(0..50_u64);
            match rng.random_range(0..3) {
                0 if time_of[id as usize].is_some() => {
                    let (first_time, first) = model.pop_first().expect("one is ready");
                    assert_eq!((ready.horizon(), ready.take_first()), (first_time, first));
                    time_of[first as usize] = None;
                }
                1 if seen[id as usize] && time_of[id as usize].is_none() => {
                    let Some(&(first_time, first)) = model.first() else { continue };
                    let time = first_time + 1 + time;
                    assert_eq!(ready.exchange(id, time), first);
                    model.pop_first();
                    model.insert((time, id));
                    time_of[first as usize] = None;
                    time_of[id as usize] = Some(time);
                }
                _ => {
                    if let Some(before) = time_of[id as usize].replace(time) {
                        model.remove(&(before, id));
                    }
                    model.insert((time, id));
                    ready.insert(id, time);
                    seen[id as usize] = true;
                }
            }
        }
        while let Some((_, id)) = model.pop_first() {
            assert_eq!(ready.take_first(), id);
        }
        assert_eq!(ready.take_first(), NO_TASK);
    }

    #[test]
    fn without_ready_tasks_the_horizon_is_beyond_all_time() {
        assert!(Ready::new().horizon() > MAX_TIME);
    }
}
