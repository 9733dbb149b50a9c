//! Paths: a `stat` goes through the names of the design, and changes no line that another core reads.
//!
//! A directory is locked while its names are searched, by a reader whose line is its core's own (`sim::SpreadRwLock`), one after the
//! other; what the last name leads to shows its attributes without a lock where nothing has changed (`inode.rs`). That the tree
//! has not changed in between is for the caller (`vfs::paths`).

use std::sync::Arc;

use sim::Work;
use vfs::charges::PATH_COMPONENT;
use vfs::credentials::Subject;
use vfs::{Attr, Ino, Names, Owner, Paths};

use super::Volume;
use super::inode::{Inode, State};

/// What permission depends on.
fn subject(state: &State) -> Option<Subject> {
    let owner = Owner { uid: state.uid, gid: state.gid };
    Some(Subject { kind: state.kind()?, perm: state.mode & 0o7777, owner })
}

impl Volume {
    /// What a name in a directory leads to.
    fn step(&self, dir: &Inode, name: &[u8], searches: &dyn Fn(&Subject) -> bool) -> Option<Arc<Inode>> {
        let state = dir.reading().ok()?;
        if !subject(&state).is_some_and(|subject| searches(&subject)) {
            return None;
        }
        let found = state.dir().ok()?.find_at_hand(name)?;
        sim::work(Work::MISS, u64::from(found.text.is_apart()));
        let ino = found.ino;
        drop(state);
        self.inodes.at_hand(ino)
    }
}

impl Paths for Volume {
    fn stat(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Attr> {
        let mut at = self.inodes.at_hand(from.0)?;
        let mut steps = 0;
        for name in names {
            if !at.is_dir {
                return None;
            }
            at = self.step(&at, name, searches)?;
            steps += 1;
        }
        sim::work(PATH_COMPONENT, steps);
        at.found();
        at.attr().ok()
    }
}
