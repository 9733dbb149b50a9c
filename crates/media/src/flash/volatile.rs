//! What a power loss would undo, on a device without a capacitor.
//!
//! A page is durable when its one-shot page has been programmed. Until then the copy before it is needed: collection moves it
//! like a valid page, and a power loss brings it back.
//!
//! ```text
//! wrote ──► open (its one-shot page is not complete) ──► in flight (programmed at a known time) ──► durable, forgotten
//! ```

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;

use super::map::{NONE, Short};

/// One page that is not durable.
#[derive(Clone, Debug)]
pub(super) struct Undo {
    pub(super) short: Short,
    /// Where the copy before lies.
    pub(super) old: u32,
    /// Where the page lies.
    pub(super) new: u32,
    pub(super) content: Before,
}

/// The bytes of a page before it was written.
#[derive(Clone, Debug)]
pub(super) enum Before {
    /// The device keeps no data.
    NotKept,
    /// It was zero.
    Zero,
    /// These.
    Bytes(Box<[u8]>),
}

/// Every page that is not durable, in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(super) struct Volatile {
    next: u64,
    undo: BTreeMap<u64, Undo>,
    by_old: FxHashMap<u32, u64>,
    by_new: FxHashMap<u32, u64>,
    /// Pages of each group's open one-shot page.
    open: BTreeMap<u32, Vec<u64>>,
    /// Pages that are being programmed, and until when; in order of time.
    flight: VecDeque<(u64, Vec<u64>)>,
}

impl Volatile {
    /// A page of `group` was written to `new`; before, it lay at `old`.
    pub(super) fn wrote(&mut self, group: u32, short: Short, old: u32, new: u32) {
        let number = self.next;
        self.next += 1;
        self.undo.insert(number, Undo { short, old, new, content: Before::NotKept });
        if old != NONE {
            self.by_old.insert(old, number);
        }
        self.by_new.insert(new, number);
        self.open.entry(group).or_default().push(number);
    }

    /// The bytes of the page at `new` before it was written; the first call counts.
    pub(super) fn remember(&mut self, new: u32, before: impl FnOnce() -> Option<Box<[u8]>>) {
        if let Some(undo) = self.by_new.get(&new).and_then(|number| self.undo.get_mut(number))
            && matches!(undo.content, Before::NotKept)
        {
            undo.content = before().map_or(Before::Zero, Before::Bytes);
        }
    }

    /// The open one-shot page of `group` will be durable at `at`.
    pub(super) fn programmed(&mut self, group: u32, at: u64) {
        let pages = self.open.remove(&group).unwrap_or_default();
        let after = self.flight.iter().rev().take_while(|(other, _)| *other > at).count();
        self.flight.insert(self.flight.len() - after, (at, pages));
    }

    /// Forgets what is durable at `now`; `free` is told where each copy lies that is not needed any more.
    pub(super) fn retire(&mut self, now: u64, mut free: impl FnMut(u32)) {
        while let Some((_, pages)) = self.flight.front().filter(|(at, _)| *at <= now) {
            for number in pages {
                let Some(undo) = self.undo.remove(number) else { continue };
                if self.by_new.get(&undo.new) == Some(number) {
                    self.by_new.remove(&undo.new);
                }
                if undo.old != NONE {
                    self.by_old.remove(&undo.old);
                    free(undo.old);
                }
            }
            self.flight.pop_front();
        }
    }

    /// Whether a power loss may bring back what lies here.
    pub(super) fn keeps(&self, place: u32) -> bool {
        self.by_old.contains_key(&place)
    }

    /// Where the copies lie that a power loss may bring back.
    pub(super) fn kept(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_old.keys().copied()
    }

    /// Collection moved a page.
    pub(super) fn moved(&mut self, from: u32, to: u32) {
        if let Some(number) = self.by_old.remove(&from) {
            self.by_old.insert(to, number);
            if let Some(undo) = self.undo.get_mut(&number) {
                undo.old = to;
            }
        }
        if let Some(number) = self.by_new.remove(&from) {
            self.by_new.insert(to, number);
            if let Some(undo) = self.undo.get_mut(&number) {
                undo.new = to;
            }
        }
    }

    /// Everything that is not durable, latest first; nothing is left.
    pub(super) fn power_cut(&mut self) -> Vec<Undo> {
        std::mem::take(self).undo.into_values().rev().collect()
    }
}
