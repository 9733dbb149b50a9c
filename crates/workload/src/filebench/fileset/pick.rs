//! Which file is next.
//!
//! Filebench does not pick at random. Each entry of a fileset is free (never used), existing or absent, and
//! two "rotors", one over the existing and one over the absent entries, go round and round. A pick takes
//! the lowest entry of its set whose index is the rotor's or more, wraps to the lowest of all, and moves
//! the rotor to the index after it. The rotors are shared by all threads, so the order in which files are
//! reused, and with it every cache's hit ratio, follows from the order of the picks.
//!
//! ```text
//!            create                    delete
//! free ──────────────▶ existing ◀──────────────▶ absent
//!   └──────────── not preallocated ───────────────┘
//! ```
//!
//! An entry that is being opened, created or removed is *busy*: the pick goes on to the next one that is
//! not (the rotor stays behind the first one found, as in Filebench). A file that is merely open is not
//! busy.
//!
//! This is plain data without a lock; the engine puts one around it.

use super::bitset::Bitset;

/// Where an entry is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not decided yet: the preparation has not come to it.
    Free,
    /// There is such a file.
    Existing,
    /// There is none, and one may be created.
    Absent,
}

/// The outcome of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This entry, which is busy from now on.
    Entry(u32),
    /// There are entries in this state, all of them busy: wait for a release.
    AllBusy,
    /// There is no entry in this state.
    Empty,
}

/// How an entry is left by the operation that picked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// As it was.
    Same,
    /// It exists now.
    Existing,
    /// It does not exist any more.
    Absent,
}

/// A position in the round of the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotor(u32);

/// The entries in one state: all, and those that are not busy.
#[derive(Clone, Debug)]
struct Members {
    all: Bitset,
    idle: Bitset,
}

impl Members {
    fn new(set: Bitset) -> Self {
        Self { idle: set.clone(), all: set }
    }

    /// The entry that `from` leads to, and the idle one at or after it.
    fn find(&self, from: u32) -> Result<(u32, u32), Pick> {
        let start = self.all.next_wrapping(from as usize).ok_or(Pick::Empty)?;
        let idle = self.idle.next_wrapping(start).ok_or(Pick::AllBusy)?;
        Ok((start as u32, idle as u32))
    }
}

/// The states of all entries of one kind (files, leaf directories or directories) of a fileset.
#[derive(Clone, Debug)]
pub struct Picker {
    free: Members,
    existing: Members,
    absent: Members,
    existing_rotor: Rotor,
    absent_rotor: Rotor,
    opens: Vec<u32>,
}

impl Picker {
    /// `entries` free entries.
    pub fn free(entries: u32) -> Self {
        let (full, empty) = (Bitset::full(entries as usize), Bitset::new(entries as usize));
        Self {
            free: Members::new(full),
            existing: Members::new(empty.clone()),
            absent: Members::new(empty),
            existing_rotor: Rotor::default(),
            absent_rotor: Rotor::default(),
            opens: vec![0; entries as usize],
        }
    }

    /// `entries` existing entries: directories, which are made up front.
    pub fn existing(entries: u32) -> Self {
        let mut picker = Self::free(entries);
        std::mem::swap(&mut picker.free, &mut picker.existing);
        picker
    }

    /// How many entries are in `state`, busy ones included.
    pub fn count(&self, state: State) -> usize {
        self.members(state).all.len()
    }

    /// The state of `entry`.
    pub fn state(&self, entry: u32) -> State {
        match entry as usize {
            index if self.existing.all.contains(index) => State::Existing,
            index if self.absent.all.contains(index) => State::Absent,
            _ => State::Free,
        }
    }

    /// Whether `entry` was picked and not released yet.
    pub fn is_busy(&self, entry: u32) -> bool {
        !self.members(self.state(entry)).idle.contains(entry as usize)
    }

    /// Picks the next existing entry by the rotor that all threads share.
    pub(crate) fn pick_existing(&mut self) -> Pick {
        let mut rotor = self.existing_rotor;
        let pick = self.pick_existing_from(&mut rotor);
        self.existing_rotor = rotor;
        pick
    }

    /// Picks the next existing entry by a rotor of the caller's own (`opennext`).
    pub(crate) fn pick_existing_from(&mut self, rotor: &mut Rotor) -> Pick {
        Self::rotate(&mut self.existing, rotor)
    }

    /// Picks the next absent entry by the rotor that all threads share.
    pub(crate) fn pick_absent(&mut self) -> Pick {
        Self::rotate(&mut self.absent, &mut self.absent_rotor)
    }

    /// Picks the entry `index` of this state, or the next one that there is (`indexed`).
    pub(crate) fn pick_by_index(&mut self, state: State, index: u32) -> Pick {
        let members = self.members_mut(state);
        match members.find(index) {
            Ok((_, idle)) => Self::take(members, idle),
            Err(none) => none,
        }
    }

    fn rotate(members: &mut Members, rotor: &mut Rotor) -> Pick {
        match members.find(rotor.0) {
            Ok((start, idle)) => {
                rotor.0 = start + 1;
                Self::take(members, idle)
            }
            Err(none) => none,
        }
    }

    fn take(members: &mut Members, entry: u32) -> Pick {
        members.idle.remove(entry as usize);
        Pick::Entry(entry)
    }

    /// Ends a pick: `entry` is not busy any more, and is what the operation made of it.
    pub fn release(&mut self, entry: u32, becomes: Becomes) {
        let (from, index) = (self.state(entry), entry as usize);
        let to = match becomes {
            Becomes::Same => from,
            Becomes::Existing => State::Existing,
            Becomes::Absent => State::Absent,
        };
        if to != from {
            let left = self.members_mut(from);
            left.all.remove(index);
            left.idle.remove(index);
            self.members_mut(to).all.insert(index);
        }
        self.members_mut(to).idle.insert(index);
    }

    /// Takes this very entry out of the round, as a pick would; false when it is busy.
    pub fn claim(&mut self, entry: u32) -> bool {
        let state = self.state(entry);
        self.members_mut(state).idle.remove(entry as usize)
    }

    /// Notes that a slot holds `entry` open.
    pub fn opened(&mut self, entry: u32) {
        self.opens[entry as usize] += 1;
    }

    /// Notes that a slot has closed `entry`.
    pub fn closed(&mut self, entry: u32) {
        let opens = &mut self.opens[entry as usize];
        *opens = opens.saturating_sub(1);
    }

    /// How many slots hold `entry` open.
    pub(crate) fn open_count(&self, entry: u32) -> u32 {
        self.opens[entry as usize]
    }

    fn members(&self, state: State) -> &Members {
        match state {
            State::Free => &self.free,
            State::Existing => &self.existing,
            State::Absent => &self.absent,
        }
    }

    fn members_mut(&mut self, state: State) -> &mut Members {
        match state {
            State::Free => &mut self.free,
            State::Existing => &mut self.existing,
            State::Absent => &mut self.absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn prepared(existing: u32, absent: u32) -> Picker {
        let mut picker = Picker::free(existing + absent);
        for entry in 0..existing + absent {
            assert_eq!(picker.pick_by_index(State::Free, entry), Pick::Entry(entry));
            picker.release(entry, if entry < existing { Becomes::Existing } else { Becomes::Absent });
        }
        picker
    }

    #[test]
    fn existing_files_are_picked_in_turn_and_wrap_to_the_lowest() {
        let mut picker = prepared(3, 0);
        let mut picks = Vec::new();
        for _ in 0..5 {
            let Pick::Entry(entry) = picker.pick_existing() else { panic!() };
            picker.release(entry, Becomes::Same);
            picks.push(entry);
        }
        assert_eq!(picks, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_deleted_file_is_the_next_to_be_created_when_the_rotor_comes_round() {
        let mut picker = prepared(4, 0);
        assert_eq!(picker.pick_existing(), Pick::Entry(0));
        picker.release(0, Becomes::Absent);
        assert_eq!(picker.pick_absent(), Pick::Entry(0));
        picker.release(0, Becomes::Existing);
        assert_eq!(picker.pick_existing(), Pick::Entry(1));
        assert_eq!(picker.pick_absent(), Pick::Empty);
    }

    #[test]
    fn busy_files_are_skipped_and_the_rotor_stays_behind_the_first_found() {
        let mut picker = prepared(4, 0);
        assert_eq!(picker.pick_existing(), Pick::Entry(0));
        let mut own = Rotor::default();
        assert_eq!(picker.pick_existing_from(&mut own), Pick::Entry(1));
        assert_eq!(own, Rotor(1), "entry 0 was found first");
    }

    #[test]
    fn all_busy_is_not_the_same_as_empty() {
        let mut picker = prepared(1, 0);
        assert_eq!(picker.pick_existing(), Pick::Entry(0));
        assert_eq!(picker.pick_existing(), Pick::AllBusy);
        picker.release(0, Becomes::Absent);
        assert_eq!(picker.pick_existing(), Pick::Empty);
    }

    #[test]
    fn indexed_picks_take_the_next_higher_present_entry() {
        let mut picker = prepared(2, 3);
        assert_eq!(picker.pick_by_index(State::Absent, 1), Pick::Entry(2));
        assert_eq!(picker.pick_by_index(State::Absent, 4), Pick::Entry(4));
        assert_eq!(picker.pick_by_index(State::Absent, 4), Pick::Entry(3));
    }

    /// The same rules over a sorted map, one entry at a time.
    #[derive(Default)]
    struct Model {
        entries: BTreeMap<u32, (State, bool)>,
        rotors: BTreeMap<u8, u32>,
    }

    impl Model {
        fn pick(&mut self, state: State, from: u32) -> (Pick, Option<u32>) {
            let members: Vec<u32> =
                self.entries.iter().filter(|(_, (s, _))| *s == state).map(|(entry, _)| *entry).collect();
            let Some(start) =
                members.iter().position(|entry| *entry >= from).or((!members.is_empty()).then_some(0))
            else {
                return (Pick::Empty, None);
            };
            for step in 0..members.len() {
                let entry = members[(start + step) % members.len()];
                if !self.entries[&entry].1 {
                    self.entries.get_mut(&entry).unwrap().1 = true;
                    return (Pick::Entry(entry), Some(members[start]));
                }
            }
            (Pick::AllBusy, None)
        }

        fn rotate(&mut self, state: State) -> Pick {
            let rotor = self.rotors.get(&(state as u8)).copied().unwrap_or_default();
            let (pick, start) = self.pick(state, rotor);
            if let Some(start) = start {
                self.rotors.insert(state as u8, start + 1);
            }
            pick
        }
    }

    proptest! {
        #[test]
        fn behaves_like_the_rules_applied_naively(
            entries in 1u32..200,
            steps in prop::collection::vec((0u8..6, any::<u32>()), 0..600),
        ) {
            let mut picker = Picker::free(entries);
            let mut model = Model::default();
            model.entries.extend((0..entries).map(|entry| (entry, (State::Free, false))));
            for (step, number) in steps {
                let index = number % entries;
                match step {
                    0 => prop_assert_eq!(picker.pick_existing(), model.rotate(State::Existing)),
                    1 => prop_assert_eq!(picker.pick_absent(), model.rotate(State::Absent)),
                    2 => prop_assert_eq!(
                        picker.pick_by_index(State::Free, index),
                        model.pick(State::Free, index).0
                    ),
                    _ => {
                        let busy: Vec<u32> =
                            model.entries.iter().filter(|(_, (_, busy))| *busy).map(|(e, _)| *e).collect();
                        let Some(&entry) = busy.get(number as usize % busy.len().max(1)) else { continue };
                        let (becomes, state) = match step {
                            3 => (Becomes::Existing, State::Existing),
                            4 => (Becomes::Absent, State::Absent),
                            _ => (Becomes::Same, model.entries[&entry].0),
                        };
                        picker.release(entry, becomes);
                        model.entries.insert(entry, (state, false));
                    }
                }
                for state in [State::Free, State::Existing, State::Absent] {
                    let count = model.entries.values().filter(|(s, _)| *s == state).count();
                    prop_assert_eq!(picker.count(state), count);
                }
            }
        }
    }
}
