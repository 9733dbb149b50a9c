//! Directories in DRAM.

use serde::{Deserialize, Serialize};
use sim::map::TreeMap;

use base::error::{Error, Result};

/// Cookies of `.` and `..` come before that of the first name.
const FIRST_COOKIE: u64 = 2;

/// What a name takes in a checkpoint, at most, beside its own bytes.
pub(super) const NAME_COST: u64 = 40;

/// A directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Dir {
    pub(super) parent: u64,
    next_cookie: u64,
    /// Name to inode and cookie. Cookies grow, so that a cursor stays valid.
    pub(super) names: TreeMap<Vec<u8>, (u64, u64)>,
    /// What the names cost.
    pub(super) cost: u64,
}

impl Dir {
    pub(super) fn new(parent: u64) -> Self {
        Self { parent, next_cookie: FIRST_COOKIE, names: TreeMap::new(), cost: 0 }
    }

    /// Gives a name to an inode, perhaps in the place of another.
    pub(super) fn set(&mut self, name: &[u8], ino: u64) {
        match self.names.get_mut(name) {
            Some(entry) => entry.0 = ino,
            None => {
                self.names.insert(sim::ran::copied(name), (ino, self.next_cookie));
                self.next_cookie += 1;
                self.cost += NAME_COST + name.len() as u64;
            }
        }
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Result<u64> {
        let (ino, _) = self.names.remove(name).ok_or(Error::NoEntry)?;
        self.cost -= NAME_COST + name.len() as u64;
        Ok(ino)
    }
}
