//! The set of ready tasks: a tournament tree over packed keys.
//!
//! A key is a task's time and number in one word, so that the smallest key names the next task. Leaves are indexed by task
//! number; a task that is not ready has the largest key. An inner node holds the smaller of its two children, so replacing a
//! leaf walks one fixed path to the root: seven steps for 80 tasks, no search and no position table.
//!
//! ```text
//!                  [1] min of all
//!          [2]                     [3]
//!      [4]     [5]             [6]     [7]        leaves: capacity + task number
//! ```

use crate::context::TaskId;

const ID_BITS: u32 = 12;
/// Most tasks that can be alive at once.
const MAX_TASKS: usize = 1 << ID_BITS;
/// A virtual run ends before this time: 52 days.
const MAX_TIME: u64 = 1 << (64 - ID_BITS - 1);
const NOT_READY: u64 = u64::MAX;

pub(super) struct Ready {
    /// `tree[1]` is the root; the leaves are the second half.
    tree: Vec<u64>,
}

impl Ready {
    pub(super) fn new() -> Self {
        Self { tree: vec![NOT_READY; 2] }
    }

    fn capacity(&self) -> usize {
        self.tree.len() / 2
    }

    /// The furthest-behind task and its time.
    pub(super) fn first(&self) -> Option<(u64, TaskId)> {
        unpack(self.tree[1])
    }

    /// The time of the furthest-behind task, or the end of time.
    pub(super) fn horizon(&self) -> u64 {
        self.first().map_or(u64::MAX, |(time, _)| time)
    }

    pub(super) fn insert(&mut self, id: TaskId, time: u64) {
        while id as usize >= self.capacity() {
            self.grow();
        }
        self.set(id, pack(id, time));
    }

    pub(super) fn remove(&mut self, id: TaskId) {
        self.set(id, NOT_READY);
    }

    /// Puts `id` in and takes the furthest-behind task out.
    pub(super) fn exchange(&mut self, id: TaskId, time: u64) -> TaskId {
        self.insert(id, time);
        let (_, first) = self.first().expect("just inserted one");
        self.remove(first);
        first
    }

    #[inline]
    fn set(&mut self, id: TaskId, key: u64) {
        let mut node = self.capacity() + id as usize;
        self.tree[node] = key;
        while node > 1 {
            let smaller = self.tree[node].min(self.tree[node ^ 1]);
            node /= 2;
            if self.tree[node] == smaller {
                return;
            }
            self.tree[node] = smaller;
        }
    }

    fn grow(&mut self) {
        let capacity = self.capacity() * 2;
        assert!(capacity <= MAX_TASKS, "more than {MAX_TASKS} tasks at once");
        let leaves: Vec<u64> = self.tree[self.capacity()..].to_vec();
        self.tree = vec![NOT_READY; 2 * capacity];
        for (id, key) in leaves.into_iter().enumerate() {
            self.set(id as TaskId, key);
        }
    }
}

fn pack(id: TaskId, time: u64) -> u64 {
    assert!(time < MAX_TIME, "a virtual run of more than 26 days");
    time << ID_BITS | u64::from(id)
}

fn unpack(key: u64) -> Option<(u64, TaskId)> {
    (key != NOT_READY).then_some((key >> ID_BITS, (key & (MAX_TASKS as u64 - 1)) as TaskId))
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
        let (mut ready, mut model) = (Ready::new(), BTreeSet::new());
        let mut time_of = [None; 100];
        for _ in 0..20_000 {
            let id = rng.random_range(0..100u32);
            if let Some(time) = time_of[id as usize].take() {
                model.remove(&(time, id));
                ready.remove(id);
            } else {
                let time = rng.random_range(0..50u64);
                time_of[id as usize] = Some(time);
                model.insert((time, id));
                ready.insert(id, time);
            }
            assert_eq!(ready.first(), model.first().copied());
        }
    }
}
