//! The names of one directory.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use base::error::{Error, Result};

/// Cookies of `.` and `..` come before that of the first name.
const FIRST_COOKIE: u64 = 2;

/// A directory. Cookies grow, so that a cursor stays valid while names come and go.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) parent: u64,
    next_cookie: u64,
    /// Name to inode and cookie.
    names: FxHashMap<Box<[u8]>, (u64, u64)>,
    /// Cookie to name and inode.
    order: BTreeMap<u64, (Box<[u8]>, u64)>,
}

/// An entry for a listing: its cookie, inode and name.
pub(super) type Listed = (u64, u64, Box<[u8]>);

impl Dir {
    pub(super) fn new(parent: u64) -> Self {
        Self { parent, next_cookie: FIRST_COOKIE, names: FxHashMap::default(), order: BTreeMap::new() }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<u64> {
        self.names.get(name).map(|(ino, _)| *ino)
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Gives a name to an inode, perhaps in the place of another.
    pub(super) fn set(&mut self, name: &[u8], ino: u64) {
        let next = self.next_cookie;
        let entry = self.names.entry(name.into()).or_insert((ino, next));
        entry.0 = ino;
        if entry.1 == next {
            self.next_cookie += 1;
        }
        self.order.insert(entry.1, (name.into(), ino));
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Result<u64> {
        let (ino, cookie) = self.names.remove(name).ok_or(Error::NoEntry)?;
        self.order.remove(&cookie);
        Ok(ino)
    }

    /// Up to `most` entries from `cursor` on, those of the directory itself (`own`) and its parent first.
    pub(super) fn list(&self, own: u64, cursor: u64, most: usize) -> Vec<Listed> {
        let dots = [(0, own, b".".as_slice().into()), (1, self.parent, b"..".as_slice().into())];
        let names = self.order.range(cursor..).map(|(cookie, (name, ino))| (*cookie, *ino, name.clone()));
        dots.into_iter().filter(|(cookie, ..)| *cookie >= cursor).chain(names).take(most).collect()
    }
}
