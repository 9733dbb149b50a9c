//! Where a call changes a name: in a directory that it holds by its vnode, or one that the design has found by its number.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use sim::{Work, ran};

use crate::attr::Ino;
use crate::charges;
use crate::credentials::Subject;
use crate::paths::Parent;
use crate::vnode::Vnode;

/// A directory in which a call changes a name.
#[derive(Clone, Copy)]
pub(crate) enum Directory<'a> {
    /// Its vnode, to which the call has a reference.
    Held(&'a Arc<Vnode>),
    /// Its number, which no other directory gets.
    Numbered(Parent),
}

impl<'a> Directory<'a> {
    #[inline]
    pub(crate) fn ino(self) -> Ino {
        match self {
            Self::Held(vnode) => vnode.ino,
            Self::Numbered(parent) => parent.ino,
        }
    }

    /// What permission depends on.
    #[inline]
    pub(crate) fn subject(self) -> Subject {
        match self {
            Self::Held(vnode) => vnode.subject(),
            Self::Numbered(parent) => parent.subject,
        }
    }

    #[inline]
    pub(crate) fn vnode(self) -> Option<&'a Arc<Vnode>> {
        match self {
            Self::Held(vnode) => Some(vnode),
            Self::Numbered(_) => None,
        }
    }
}

/// A name that a call makes or changes.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) dir: Directory<'a>,
    pub(crate) name: &'a [u8],
    /// Whether slashes follow it.
    pub(crate) has_slash: bool,
}

/// Directories that were read since their names last changed, for changes that know only the number. Empty while none is read, so
/// that such changes pass one load.
#[derive(Default)]
pub(crate) struct Listed {
    any: AtomicBool,
    vnodes: Mutex<FxHashMap<Ino, Weak<Vnode>>>,
}

impl Listed {
    /// Notes a directory whose vnode says that it was accessed.
    #[cold]
    pub(crate) fn note(&self, dir: &Arc<Vnode>) {
        let mut vnodes = self.vnodes.lock();
        if vnodes.len() == vnodes.capacity() {
            vnodes.retain(|_, vnode| vnode.strong_count() > 0);
        }
        ran::did(Work::NODE, 1);
        let own = ran::aside();
        vnodes.insert(dir.ino, Arc::downgrade(dir));
        self.any.store(true, SeqCst);
        drop((own, vnodes));
        charges::node(1);
    }

    /// Names of this directory have changed: its vnode says so, if it has one.
    #[inline]
    pub(crate) fn changed(&self, dir: Ino) {
        if self.any.load(SeqCst) {
            self.forget(dir);
        }
    }

    fn forget(&self, dir: Ino) {
        let mut vnodes = self.vnodes.lock();
        ran::did(Work::NODE, 1);
        let vnode = vnodes.remove(&dir).and_then(|vnode| vnode.upgrade());
        self.any.store(!vnodes.is_empty(), SeqCst);
        drop(vnodes);
        vnode.inspect(|vnode| vnode.changed());
        charges::node(1);
    }
}
