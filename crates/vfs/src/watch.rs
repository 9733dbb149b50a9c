//! Who is told what a program's own calls do, where another front end shows the same files ([`crate::Shared`]).
//!
//! | call of [`crate::Process`] | before it | after it, whether it failed or not |
//! |---|---|---|
//! | read, seek to data, load from a mapping, source of a copy | `about_to_use` | – |
//! | write, truncate, fallocate, store to a mapping, target of a copy | `about_to_use` | `changed` |
//! | unlink, rmdir, rename over a name | – | `removed` |
//! | others (create, link, chmod, chown, times, xattrs) | – | – |
//!
//! A mount without a watcher pays one load and a branch for each.
//!
//! Lock rule: a watcher may wait for requests of the other front end. So no claim of a name, no `vfs.attributes` and no lock of the
//! design is held when it is called; `vfs.position` of an open file may be, which no request of another front end takes.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

use parking_lot::RwLock;

use crate::attr::Ino;

/// Is told of calls of the program; see the table of the module.
pub trait Watcher: Send + Sync {
    /// A call is about to read or change these bytes: what the other front end keeps back of them belongs before it.
    fn about_to_use(&self, ino: Ino, bytes: Range<u64>);

    /// These bytes of a file may have changed: the other front end must not show them as they were.
    fn changed(&self, ino: Ino, bytes: Range<u64>);

    /// A name that led to `ino` has gone, or leads to another inode now.
    fn removed(&self, parent: Ino, name: &[u8], ino: Ino);
}

/// The watcher of a mount.
#[derive(Default)]
pub(crate) struct Watch {
    /// Set after `who`, which is taken away after it was cleared.
    on: AtomicBool,
    /// Held for one copy.
    who: RwLock<Option<Arc<dyn Watcher>>>,
}

impl Watch {
    pub(crate) fn set(&self, who: Option<Arc<dyn Watcher>>) {
        let on = who.is_some();
        if !on {
            self.on.store(false, SeqCst);
        }
        let before = std::mem::replace(&mut *self.who.write(), who);
        drop(before); // outside the lock: it may end what it watches for
        if on {
            self.on.store(true, SeqCst);
        }
    }

    #[inline]
    pub(crate) fn tell(&self, tell: impl FnOnce(&dyn Watcher)) {
        if self.on.load(Relaxed) {
            self.tell_now(tell);
        }
    }

    #[cold]
    fn tell_now(&self, tell: impl FnOnce(&dyn Watcher)) {
        let who = self.who.read().clone();
        who.inspect(|who| tell(&**who));
    }
}

/// The bytes of a read or write.
#[inline]
pub(crate) fn span(offset: u64, len: usize) -> Range<u64> {
    offset..offset.saturating_add(len as u64)
}

/// All bytes of a file.
pub(crate) const ALL: Range<u64> = 0..u64::MAX;
