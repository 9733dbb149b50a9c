//! The names of one directory, in DRAM.

use ::vfs::FileKind;
use sim::Work;
use sim::map::TreeMap;

use crate::inode::BUCKETS;
use crate::package::Place;

/// Cookies of `.` and `..` come before that of the first name.
pub(crate) const FIRST_COOKIE: u64 = 2;

/// A name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ino: u32,
    pub(crate) kind: FileKind,
    /// Where its CREATE lies.
    pub(crate) place: Place,
    cookie: u64,
}

/// The names of a directory.
#[derive(Debug)]
pub(crate) struct Dir {
    names: TreeMap<Vec<u8>, Entry>,
    /// The names by cookies, which grow, so that a cursor stays valid.
    cookies: TreeMap<u64, Vec<u8>>,
    next: u64,
    grows: bool,
}

impl Dir {
    /// Without names. `grows`: its table grows with them, unlike the published one of 128 buckets.
    pub(crate) fn new(grows: bool) -> Self {
        Self { names: TreeMap::new(), cookies: TreeMap::new(), next: FIRST_COOKIE, grows }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Finds a name. A bucket of the published table is a chain, of which half is searched; the name that is found is compared on
    /// the medium.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Entry> {
        let chain = if self.grows { 0 } else { self.names.len() as u64 / BUCKETS / 2 };
        sim::work(Work::MISS, 1 + chain);
        self.names.get(name).copied()
    }

    /// Adds a name, or gives one another CREATE.
    pub(crate) fn set(&mut self, name: &[u8], ino: u32, kind: FileKind, place: Place) {
        let cookie = self.names.get(name).map_or(self.next, |entry| entry.cookie);
        if cookie == self.next {
            self.next += 1;
            self.cookies.insert(cookie, sim::ran::copied(name));
        }
        self.names.insert(sim::ran::copied(name), Entry { ino, kind, place, cookie });
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let Some(entry) = self.names.remove(name) {
            self.cookies.remove(&entry.cookie);
        }
    }

    /// The names from a cookie on: cookie, entry, name.
    pub(crate) fn from(&self, cursor: u64) -> Vec<(u64, Entry, Vec<u8>)> {
        let ahead = self.cookies.range(cursor..);
        let entry = |(cookie, name): (&u64, &Vec<u8>)| {
            Some((*cookie, *self.names.get(name)?, sim::ran::copied(name)))
        };
        sim::ran::collected(ahead.filter_map(entry))
    }
}
