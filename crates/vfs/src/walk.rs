//! Path resolution: from bytes to vnodes, as the kernel's `namei.c` does it.
//!
//! A `Walk` goes through a path one component at a time. Before each component the directory must be one
//! (`ENOTDIR`) and be searchable (`EACCES`); `.` stays, `..` goes up (the root is above itself), any other
//! name is looked up in the dentry cache or the design. A symbolic link on the way is replaced by its target,
//! in front of what is left of the path; the fortieth is the last (`ELOOP`). A call that changes a name stops
//! before the last component (`Walk::parent`); the others go on (`Walk::resolve`).
//!
//! Errors come in the kernel's order: for `a/b`, a missing `a` is reported before an overlong `b`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::attr::FileKind;
use crate::credentials::{Access, Credentials};
use crate::directory::{Directory, Place};
use crate::errno::{Errno, Result};
use crate::mount::Mount;
pub use crate::paths::{NAME_MAX, PATH_MAX};
use crate::vnode::Vnode;

/// Symbolic links that one walk follows.
pub const LINKS_MAX: u32 = 40;

/// The last component of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last<'a> {
    /// A name.
    Name(&'a [u8]),
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// None: the path is the root.
    Root,
}

/// The current directory of a walk. The root needs no reference of its own, because the mount has one.
enum Dir<'a> {
    Root(&'a Arc<Vnode>),
    Held(Arc<Vnode>),
}

impl std::ops::Deref for Dir<'_> {
    type Target = Arc<Vnode>;
    #[inline]
    fn deref(&self) -> &Arc<Vnode> {
        match self {
            Self::Root(root) => root,
            Self::Held(dir) => dir,
        }
    }
}

/// A walk in progress: it is in `dir`, and `text` from `at` on is left to walk.
pub(crate) struct Walk<'a> {
    mount: &'a Mount,
    who: &'a Credentials,
    dir: Dir<'a>,
    text: Cow<'a, [u8]>,
    at: usize,
    /// Where the last component that was read lies.
    component: Range<usize>,
    links: u32,
    /// The call holds a reference to `dir` ([`Walk::parent`]).
    holds: bool,
}

/// What a walk has led to, with the reference that the call holds until it ends: the kernel's `path_put`.
pub(crate) struct Reached {
    vnode: Arc<Vnode>,
    kept: bool,
}

impl Reached {
    /// Takes the reference.
    fn new(vnode: Arc<Vnode>) -> Self {
        vnode.touch();
        Self { vnode, kept: false }
    }

    /// The vnode; the reference is the caller's from now on.
    pub(crate) fn keep(mut self) -> Arc<Vnode> {
        self.kept = true;
        Arc::clone(&self.vnode)
    }
}

impl std::ops::Deref for Reached {
    type Target = Arc<Vnode>;
    #[inline]
    fn deref(&self) -> &Arc<Vnode> {
        &self.vnode
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if !self.kept {
            drop_reference(&self.vnode);
        }
    }
}

/// A task that is unwound because its run has ended must not wait.
fn drop_reference(vnode: &Vnode) {
    if !crate::run_is_over() {
        vnode.touch();
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.leave_dir();
    }
}

impl<'a> Walk<'a> {
    /// Begins at the root or in `cwd`. `ENOENT` for an empty path, `ENAMETOOLONG` for one that is too long,
    /// `EINVAL` for one with a zero byte, which no system call can carry.
    pub(crate) fn new(
        mount: &'a Mount,
        who: &'a Credentials,
        cwd: impl FnOnce() -> Arc<Vnode>,
        path: &'a [u8],
    ) -> Result<Self> {
        match path.first() {
            None => return Err(Errno::ENOENT),
            Some(_) if path.len() > PATH_MAX => return Err(Errno::ENAMETOOLONG),
            Some(_) if path.contains(&0) => return Err(Errno::EINVAL),
            Some(_) => {}
        }
        sim::interact(); // the cache is shared state
        let dir = if path[0] == b'/' { Dir::Root(mount.root()) } else { Dir::Held(cwd()) };
        Ok(Self {
            mount,
            who,
            dir,
            text: Cow::Borrowed(path),
            at: 0,
            component: 0..0,
            links: 0,
            holds: false,
        })
    }

    /// The directory of the last component, to which the call holds a reference until the walk is dropped or goes on. Reading on
    /// from here: [`Walk::last`], [`Walk::has_slash`], [`Walk::follow`].
    pub(crate) fn parent(&mut self) -> Result<()> {
        self.walk_to_last()?;
        self.dir.touch();
        self.holds = true;
        Ok(())
    }

    fn walk_to_last(&mut self) -> Result<()> {
        self.rcu_walk();
        while self.next_component()? {
            let next = self.step()?;
            if next.kind == FileKind::Symlink {
                self.follow(&next)?;
            } else {
                self.dir = Dir::Held(next);
            }
        }
        Ok(())
    }

    /// Walks over cached directories up to the last component, and takes a reference only to the last of
    /// them, as the kernel does in its RCU walk. It stops, and the reference walk continues, at any component
    /// that is not a cached, searchable directory, and when a directory is renamed or removed meanwhile.
    fn rcu_walk(&mut self) {
        let moves = self.mount.moves();
        let (mut ahead, mut from, mut steps) = (Ahead::at(&self.text, self.at), self.dir.ino, 0);
        if ahead.is_last || !self.may_search(&self.dir) {
            return;
        }
        let dir = loop {
            let next = Ahead::at(&self.text, ahead.component.end);
            let seen = self.mount.with_cached(from, &self.text[ahead.component.clone()], |vnode| {
                self.may_search(vnode).then(|| (vnode.ino, next.is_last.then(|| Arc::clone(vnode))))
            });
            let Some((ino, last)) = seen else { return };
            steps += 1;
            match last {
                Some(dir) => break dir,
                None => (from, ahead) = (ino, next),
            }
        };
        if self.mount.moves() == moves {
            sim::work(crate::charges::PATH_COMPONENT, steps);
            self.dir = Dir::Held(dir);
            self.at = ahead.component.end;
        }
    }

    fn may_search(&self, vnode: &Vnode) -> bool {
        vnode.is_dir() && (self.who.is_root() || self.who.check(&vnode.subject(), Access::EXECUTE).is_ok())
    }

    /// The vnode at the end of the path. A symbolic link there is followed when the call says so, or a slash
    /// follows it.
    pub(crate) fn resolve(mut self, follow: bool) -> Result<Reached> {
        loop {
            self.walk_to_last()?;
            let vnode = self.step()?;
            if vnode.kind == FileKind::Symlink && (follow || self.has_slash()) {
                self.follow(&vnode)?;
                continue;
            }
            if self.has_slash() && !vnode.is_dir() {
                return Err(Errno::ENOTDIR);
            }
            return Ok(Reached::new(vnode));
        }
    }

    /// The directory in which the walk stands.
    pub(crate) fn dir(&self) -> &Arc<Vnode> {
        &self.dir
    }

    fn leave_dir(&mut self) {
        if std::mem::take(&mut self.holds) {
            drop_reference(&self.dir);
        }
    }

    /// The last component.
    pub(crate) fn last(&self) -> Last<'_> {
        match &self.text[self.component.clone()] {
            b"" => Last::Root,
            b"." => Last::Dot,
            b".." => Last::DotDot,
            name => Last::Name(name),
        }
    }

    /// The name that is the last component, if it is one.
    pub(crate) fn place(&self) -> Option<Place<'_>> {
        let Last::Name(name) = self.last() else { return None };
        Some(Place { dir: Directory::Held(self.dir()), name, has_slash: self.has_slash() })
    }

    /// Whether slashes follow the last component.
    pub(crate) fn has_slash(&self) -> bool {
        self.text.len() > self.component.end
    }

    /// Puts the target of the symbolic link `link`, which the component that was read names, in its place.
    pub(crate) fn follow(&mut self, link: &Arc<Vnode>) -> Result<()> {
        self.leave_dir();
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::ELOOP);
        }
        let mut text = self.mount.file_system().readlink(link.ino)?;
        self.mount.accessed(link);
        if text.is_empty() {
            return Err(Errno::ENOENT);
        }
        if text[0] == b'/' {
            self.dir = Dir::Root(self.mount.root());
        }
        let rest = &self.text[self.component.end..];
        crate::charges::allocate(u64::from(text.capacity() - text.len() < rest.len()));
        text.extend_from_slice(rest);
        self.text = Cow::Owned(text);
        self.at = 0;
        self.component = 0..0;
        Ok(())
    }

    /// Reads the next component. False when it is the last, before which the walk stops.
    fn next_component(&mut self) -> Result<bool> {
        let ahead = Ahead::at(&self.text, self.at);
        self.at = ahead.component.end;
        self.component = ahead.component;
        if !self.component.is_empty() {
            self.check_searchable()?;
            sim::work(crate::charges::PATH_COMPONENT, 1);
        }
        Ok(!ahead.is_last)
    }

    fn check_searchable(&self) -> Result<()> {
        if !self.dir.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if self.who.is_root() { Ok(()) } else { self.who.check(&self.dir.subject(), Access::EXECUTE) }
    }

    /// The vnode of the component that was read.
    fn step(&self) -> Result<Arc<Vnode>> {
        match self.last() {
            Last::Root | Last::Dot => Ok(Arc::clone(self.dir())),
            Last::DotDot => Ok(self.dir.parent()),
            Last::Name(name) => {
                check_name(&self.dir, name)?;
                self.mount.lookup(&self.dir, name)
            }
        }
    }
}

/// The component that follows in a path.
struct Ahead {
    /// Empty when there is none.
    component: Range<usize>,
    /// Only slashes follow it.
    is_last: bool,
}

impl Ahead {
    #[inline]
    fn at(text: &[u8], at: usize) -> Self {
        let start = at + text[at..].iter().take_while(|byte| **byte == b'/').count();
        let end = text[start..].iter().position(|byte| *byte == b'/').map_or(text.len(), |len| start + len);
        let is_last = text[end..].iter().all(|byte| *byte == b'/');
        Self { component: start..end, is_last }
    }
}

/// Checks a name before the directory is searched: `ENOENT` in a removed directory, `ENAMETOOLONG`.
pub(crate) fn check_name(dir: &Vnode, name: &[u8]) -> Result<()> {
    if dir.is_removed() {
        Err(Errno::ENOENT)
    } else if name.len() > NAME_MAX {
        Err(Errno::ENAMETOOLONG)
    } else {
        Ok(())
    }
}
