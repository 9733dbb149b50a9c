//! Damage: what an operator hears of it, and a pool of which only a part can be shown.
//!
//! A damaged pool is mounted for reading alone, on a private copy (`design.rs`): no record is written, and no word is made equal.
//!
//! | damage | a program sees |
//! |---|---|
//! | records that are missing | what the other records say: of which file they were cannot be told, so zone and line are named |
//! | a name whose inode has lost its birth | `EIO` for the inode |
//! | a block that lies in no zone for data, or that two files have without sharing it | `EIO` for the block |
//! | a block with a wrong checksum, or on a line that the medium refuses | the same, on any mount |
//!
//! A root that is lost, circles of directories and names that are none are refused on every mount.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use design::Violation;
use vfs::{Errno, Listener};

use crate::format::clean::Present;
use crate::format::layout::BITS_40;
use crate::format::zone::Computed;
use base::error::Error;

/// The place of a block of which it is not known where it lies: no medium has one there, so that loads of it fail.
pub(crate) const LOST: u64 = BITS_40;

/// Predicates of fsck without which nothing can be shown.
const NEEDED: &[&str] = &["superblock_valid", "root_is_directory", "tree_sound", "names_sound"];

/// What is damaged, and who hears of it.
#[derive(Default)]
pub(crate) struct Losses {
    /// What the mount has found: the pool is for reading alone then.
    found: Vec<String>,
    /// Inodes that lack their birth.
    unborn: BTreeSet<u64>,
    listener: OnceLock<Listener>,
    /// What is told, but loses nothing.
    notes: Vec<String>,
    /// What it was told.
    told: parking_lot::Mutex<BTreeSet<String>>,
    /// Zones, with their openings, of which lines were computed.
    computed: parking_lot::Mutex<BTreeSet<(u32, u64)>>,
}

impl Losses {
    /// Of a damaged pool of which a part can be shown; else the violation without which that could be done. `unborn`: inodes that
    /// lack their birth.
    pub(crate) fn of(unborn: &BTreeSet<u64>, violations: &[Violation]) -> Result<Self, String> {
        match violations.iter().find(|violation| NEEDED.contains(&violation.predicate)) {
            Some(violation) => Err(violation.what.clone()),
            None => Ok(Self {
                found: violations.iter().map(|violation| violation.what.clone()).collect(),
                unborn: unborn.clone(),
                ..Self::default()
            }),
        }
    }

    /// Tells the listener, when there is one.
    pub(crate) fn note(&mut self, what: String) {
        self.notes.push(what);
    }

    /// Tells the listener of lines that were computed.
    pub(crate) fn note_computed(&mut self, computed: &[Computed]) {
        self.notes.extend(computed.iter().map(Computed::describe));
        self.computed.get_mut().extend(computed.iter().map(|one| (one.zone, one.opening)));
    }

    /// Tells the listener of lines that were computed, when there is one.
    pub(crate) fn tell_computed(&self, computed: &[Computed]) {
        for one in computed {
            if self.computed.lock().insert((one.zone, one.opening)) {
                self.tell(&one.describe());
            }
        }
    }

    /// Whether lines of one of these log zones were computed.
    pub(crate) fn has_computed(&self, zones: &[Present]) -> bool {
        let computed = self.computed.lock();
        zones.iter().any(|zone| computed.contains(&(zone.zone, zone.opening)))
    }

    /// Tells the listener of damage, of each once.
    pub(crate) fn tell(&self, what: &str) {
        let is_new = self.told.lock().insert(what.to_owned());
        if let Some(listener) = self.listener.get().filter(|_| is_new) {
            listener(what);
        }
    }

    /// Whether nothing may be changed.
    pub(crate) fn is_read_only(&self) -> bool {
        !self.found.is_empty()
    }

    /// Hears of what the mount has found, and of damage from now on.
    pub(crate) fn listen(&self, listener: Listener) {
        if self.is_read_only() {
            listener("the pool is damaged, and is shown as far as it is whole; it cannot be changed");
            self.found.iter().for_each(|what| listener(what));
        }
        self.notes.iter().for_each(|what| listener(what));
        // A mount has one listener.
        let _ = self.listener.set(listener);
    }

    /// The error of a call on an inode that was not found.
    pub(crate) fn errno(&self, ino: u64, error: Error) -> Errno {
        if error == Error::NoEntry && self.unborn.contains(&ino) { Errno::EIO } else { error.into() }
    }
}
