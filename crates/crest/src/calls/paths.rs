//! Paths: a `stat`, and a call that changes a name, goes through the names of the design, and changes no line that another core
//! reads.
//!
//! A name is looked up without the lock of its directory, as `vfs`'s cache of names does it: what is published there is durable
//! (R2), and a task that splits the directory may hide a name, which then counts as one that the caller has to look for. What the
//! last name leads to shows its attributes without a lock where nothing has changed (`inode.rs`). Numbers are given once, so a step
//! never leads to another inode, and a directory that is found for a change (`Paths::parent`) needs no reference: if it is removed
//! meanwhile, the change finds its number gone, or itself without a name, and answers `ENOENT`.
//!
//! The locks of the host that keep the bytes whole are held for a few instructions. They stand for a sequence that readers check,
//! and the counts of inodes that are at hand for epochs; under the real clock they are lines that cores share.

use std::sync::Arc;

use sim::Work;
use vfs::charges::PATH_COMPONENT;
use vfs::credentials::Subject;
use vfs::{Attr, Ino, Names, Parent, Paths};

use super::Volume;
use crate::index::inode::Inode;

impl Volume {
    /// What the names lead to, if each is there in a directory that the caller may search.
    fn follow(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Arc<Inode>> {
        let mut at = self.inodes.at_hand(from.0)?;
        let (mut steps, mut apart) = (0, 0);
        for name in names {
            if !searches(&at.subject()?) {
                return None;
            }
            let (ino, is_apart) = at.names.as_ref()?.find_at_hand(name)?;
            at = self.inodes.at_hand(ino)?;
            steps += 1;
            apart += u64::from(is_apart);
        }
        sim::work(PATH_COMPONENT, steps);
        sim::work(Work::MISS, apart);
        Some(at)
    }
}

impl Paths for Volume {
    fn stat(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Attr> {
        let found = self.follow(from, names, searches)?;
        found.found();
        found.attr().ok()
    }

    fn parent(&self, from: Ino, names: Names<'_>, searches: &dyn Fn(&Subject) -> bool) -> Option<Parent> {
        let dir = self.follow(from, names, searches)?;
        let subject = dir.subject()?;
        (dir.is_dir && searches(&subject)).then_some(Parent { ino: Ino(dir.ino), subject })
    }
}
