//! A fileset under way: its shape, its state behind one lock, and the waits for entries that are busy.
//!
//! The lock is Filebench's `fs_pick_lock`: taken for an instant at each pick and at each release, by all
//! threads, so picks happen in the order of (virtual) time. Filebench's is a mutex of the C library, for
//! which threads sleep, so this one is of the sleeping kind. Under it the entry is marked: a cache line that
//! comes from the core that had the lock before. The walk to the entry is in `crate::charges::GENERATOR`; the entry
//! itself, and its name, are mostly no longer cached after a round of all files.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::{Condvar, Line, LockClass, Mutex, MutexGuard, Recency};

use crate::filebench::fileset::pick::{Becomes, Pick, Picker, Rotor, State};
use crate::filebench::fileset::tree::{Entry, Tree};

use super::control::Control;

pub(super) static PICK: LockClass = LockClass::new("filebench.pick");
pub(super) static APPEND: LockClass = LockClass::new("filebench.append");
pub(super) static MARKS: LockClass =
    LockClass::of_lines("filebench.marks", "the marks of busy entries of a fileset, below filebench.pick");

/// Lines that a thread waits for of an entry which the cache has lost: the entry, and its name.
const ENTRY_LINES: u64 = 2;

/// A fileset under way.
pub(crate) struct Files {
    pub(crate) name: String,
    pub(crate) tree: Tree,
    state: Mutex<Pickers>,
    released: Condvar,
    /// Where entries are marked; touched under the lock.
    marks: Line,
    /// When each file's entry was used last.
    entries: Vec<Recency>,
    /// How far each file was written, in bytes; kept in check mode only.
    written: Vec<AtomicU64>,
    /// Makes seek and write one step, where that is wanted.
    pub(crate) append: Mutex<()>,
}

/// The states of the entries.
pub(crate) struct Pickers {
    pub(crate) files: Picker,
    pub(crate) leafdirs: Picker,
    pub(crate) directories: Picker,
    waiting: u32,
}

/// How an entry is chosen.
pub(crate) enum Choice<'a> {
    /// By the rotor that all threads share.
    Next(State),
    /// By a rotor of the thread's own, among the existing.
    Own(&'a mut Rotor),
    /// From an index on.
    Index(State, u32),
    /// By the shared rotor, among the existing, passing over those that are open.
    NotOpen,
}

/// The outcome of a pick that waits.
pub(crate) enum Taken {
    Entry(u32),
    Empty,
    Stopped,
}

impl Files {
    pub(crate) fn new(name: &str, tree: Tree, check: bool) -> Self {
        let state = Pickers {
            files: Picker::free(tree.files()),
            leafdirs: Picker::free(tree.leaf_directories()),
            directories: Picker::existing(tree.directories()),
            waiting: 0,
        };
        let tracked = if check { tree.files() as usize } else { 0 };
        Self {
            name: name.to_owned(),
            state: Mutex::sleeping(&PICK, state),
            released: Condvar::of_class(&PICK),
            marks: Line::new(&MARKS),
            entries: (0..tree.files()).map(|_| Recency::new()).collect(),
            written: (0..tracked).map(|_| AtomicU64::new(0)).collect(),
            append: Mutex::new(&APPEND, ()),
            tree,
        }
    }

    /// The states, locked.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Pickers> {
        self.state.lock()
    }

    /// Picks a file; waits while all that come into question are busy.
    pub(crate) fn pick(&self, control: &Control, mut choice: Choice<'_>) -> Taken {
        let taken = self.take(control, |pickers| match &mut choice {
            Choice::Next(State::Absent) => pickers.files.pick_absent(),
            Choice::Next(_) => pickers.files.pick_existing(),
            Choice::Own(rotor) => pickers.files.pick_existing_from(rotor),
            Choice::Index(state, index) => pickers.files.pick_by_index(*state, *index),
            Choice::NotOpen => pick_not_open(&mut pickers.files),
        });
        if let Taken::Entry(file) = taken {
            self.entries[file as usize].touch(ENTRY_LINES);
        }
        taken
    }

    /// Picks by any rule; waits while it answers that all are busy.
    pub(crate) fn take(&self, control: &Control, mut rule: impl FnMut(&mut Pickers) -> Pick) -> Taken {
        let mut state = self.state.lock();
        loop {
            match rule(&mut state) {
                Pick::Entry(entry) => {
                    self.marks.touch();
                    return Taken::Entry(entry);
                }
                Pick::Empty => return Taken::Empty,
                Pick::AllBusy if control.is_over(sim::now()) => return Taken::Stopped,
                Pick::AllBusy => {
                    state.waiting += 1;
                    state = control.wait_on(&self.released, state);
                    state.waiting -= 1;
                }
            }
        }
    }

    /// Waits for this very file and makes it busy; false when the run is over before.
    pub(crate) fn claim(&self, control: &Control, file: u32) -> bool {
        let rule = |pickers: &mut Pickers| {
            if pickers.files.claim(file) { Pick::Entry(file) } else { Pick::AllBusy }
        };
        matches!(self.take(control, rule), Taken::Entry(_))
    }

    /// Ends a pick with a change of the states, and wakes those that wait for an entry.
    pub(crate) fn settle<R>(&self, change: impl FnOnce(&mut Pickers) -> R) -> R {
        let mut state = self.state.lock();
        let result = change(&mut state);
        self.marks.touch();
        let wake = state.waiting > 0;
        drop(state);
        if wake {
            self.released.notify_all();
        }
        result
    }

    /// Ends the pick of a file.
    pub(crate) fn release(&self, file: u32, becomes: Becomes) {
        self.settle(|pickers| pickers.files.release(file, becomes));
    }

    /// Makes all who wait look again: at something that is not under the lock. So who has looked before it
    /// changed, and has the lock still, must be asleep before the notification.
    pub(crate) fn wake(&self) {
        drop(self.state.lock());
        self.released.notify_all();
    }

    /// Files that exist, and files that do not.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.files.count(State::Existing) as u64, state.files.count(State::Absent) as u64)
    }

    /// Writes the path of a file into `path`.
    pub(crate) fn file_path(&self, file: u32, path: &mut String) {
        self.tree.path_of(Entry::File(file), path);
    }

    /// Notes that a file was written up to `end`.
    pub(crate) fn wrote(&self, file: u32, end: u64) {
        if let Some(written) = self.written.get(file as usize) {
            written.fetch_max(end, Relaxed);
        }
    }

    /// Notes that a file is empty.
    pub(crate) fn emptied(&self, file: u32) {
        if let Some(written) = self.written.get(file as usize) {
            written.store(0, Relaxed);
        }
    }

    /// How far a file was written; none outside check mode.
    pub(crate) fn written(&self, file: u32) -> Option<u64> {
        self.written.get(file as usize).map(|written| written.load(Relaxed))
    }
}

/// The next existing file that no slot holds open. One that is open and idle is passed over once each.
fn pick_not_open(files: &mut Picker) -> Pick {
    let mut passed = Vec::new();
    let outcome = loop {
        match files.pick_existing() {
            Pick::Entry(entry) if files.open_count(entry) > 0 => passed.push(entry),
            outcome => break outcome,
        }
    };
    for entry in passed {
        files.release(entry, Becomes::Same);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_open_are_passed_over_and_stay_in_the_round() {
        let mut files = Picker::existing(3);
        files.opened(0);
        files.opened(1);
        assert_eq!(pick_not_open(&mut files), Pick::Entry(2));
        files.release(2, Becomes::Absent);
        assert_eq!(pick_not_open(&mut files), Pick::AllBusy);
        assert!(!files.is_busy(0) && !files.is_busy(1));
    }
}
