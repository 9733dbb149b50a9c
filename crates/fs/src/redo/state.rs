//! The state in DRAM, and the changes that lead from one state to the next.
//!
//! A change says what was decided, not what was asked: a caller checks a call against the state, then applies the change that it
//! comes to. Applying is deterministic, so recovery reaches the state that programs saw.

use ::vfs::{FileKind, Timestamp, rename};
use serde::{Deserialize, Serialize};
use sim::map::TreeMap;
use sim::{ByteRun, Recency, Work, ran};

use super::dir::Dir;
use super::inode::{Body, INODE_LINES, Inode};
use base::error::{Error, Result};

/// Bytes of a block.
pub(super) const BLOCK: u64 = 4096;
/// Number of the root.
pub(super) const ROOT: u64 = 1;
/// A time as it is logged: seconds and nanoseconds.
pub(super) type Time = (i64, u32);

/// The present.
pub(super) fn now() -> Time {
    let now = Timestamp::now();
    (now.secs, now.nanos)
}

/// The whole file system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) inodes: TreeMap<u64, Inode>,
    /// The number of the next inode; no number is given twice.
    pub(super) next: u64,
    /// A log is being applied.
    #[serde(skip)]
    pub(super) replaying: bool,
}

/// One change. Times are in it: recovery must not ask a clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Change {
    /// A new inode, with a name unless the name is empty.
    Make {
        ino: u64,
        parent: u64,
        name: Vec<u8>,
        mode: u32,
        owner: (u32, u32),
        rdev: u64,
        target: Vec<u8>,
    },
    Link {
        ino: u64,
        parent: u64,
        name: Vec<u8>,
    },
    /// A name goes away, of whatever kind its inode is.
    Remove {
        parent: u64,
        name: Vec<u8>,
    },
    /// Replaces what has the new name.
    Rename {
        from: (u64, Vec<u8>),
        to: (u64, Vec<u8>),
    },
    Exchange {
        a: (u64, Vec<u8>),
        b: (u64, Vec<u8>),
    },
    Attributes {
        ino: u64,
        mode: u32,
        owner: (u32, u32),
        atime: Time,
        mtime: Time,
    },
    Accessed {
        ino: u64,
    },
    Resize {
        ino: u64,
        size: u64,
    },
    Write {
        ino: u64,
        offset: u64,
        #[serde(with = "super::bytes")]
        data: Vec<u8>,
    },
    /// Blocks of zeros where there are holes, with `zero` in the whole range; the size grows to `size`.
    Allocate {
        ino: u64,
        offset: u64,
        len: u64,
        size: u64,
        zero: bool,
    },
    /// A range reads as zeros; whole blocks of it become holes.
    Punch {
        ino: u64,
        offset: u64,
        len: u64,
    },
    SetXattr {
        ino: u64,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    RemoveXattr {
        ino: u64,
        name: Vec<u8>,
    },
    /// A rename whose old name then leads to a new whiteout, `ino`.
    RenameWhiteout {
        from: (u64, Vec<u8>),
        to: (u64, Vec<u8>),
        ino: u64,
        perm: u32,
        owner: (u32, u32),
    },
}

impl State {
    /// A root directory and nothing else.
    pub(super) fn new() -> Self {
        let mut state = Self { inodes: TreeMap::new(), next: ROOT, replaying: false };
        state.make(ROOT, ROOT, FileKind::Directory.mode_bits() | 0o755, (0, 0), now());
        state
    }

    pub(super) fn inode(&self, ino: u64) -> Result<&Inode> {
        let inode = self.inodes.get(&ino).ok_or(Error::NoEntry)?;
        inode.recency.touch(INODE_LINES);
        Ok(inode)
    }

    pub(super) fn inode_mut(&mut self, ino: u64) -> Result<&mut Inode> {
        let inode = self.inodes.get_mut(&ino).ok_or(Error::NoEntry)?;
        inode.recency.touch(INODE_LINES);
        Ok(inode)
    }

    /// A directory that has a name, or is the root.
    pub(super) fn dir(&self, ino: u64) -> Result<&Dir> {
        let inode = self.inode(ino)?;
        match &inode.body {
            Body::Dir(_) if inode.links == 0 => Err(Error::NoEntry),
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    pub(super) fn dir_mut(&mut self, ino: u64) -> Result<&mut Dir> {
        match &mut self.inode_mut(ino)?.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Error::NotDirectory),
        }
    }

    /// The inode of a name, if a directory has it; one line of the index has to come from memory, as in every other design.
    pub(super) fn find(&self, parent: u64, name: &[u8]) -> Result<Option<u64>> {
        let dir = self.dir(parent)?;
        sim::work(Work::MISS, 1);
        Ok(dir.names.get(name).map(|(ino, _)| *ino))
    }

    /// The inode of a name.
    pub(super) fn child(&self, parent: u64, name: &[u8]) -> Result<u64> {
        self.find(parent, name)?.ok_or(Error::NoEntry)
    }

    /// Whether `above` is directory `dir`, or above it.
    pub(super) fn is_below(&self, dir: u64, above: u64) -> Result<bool> {
        let most = self.inodes.len() as u64;
        let below = rename::is_below(dir, above, most, |dir| Ok::<_, Error>(self.dir(dir)?.parent))?;
        below.ok_or_else(|| Error::Corrupt(format!("directory {dir} is below itself")))
    }

    /// Bytes of a checkpoint, at most.
    pub(super) fn cost(&self) -> u64 {
        self.inodes.values().map(Inode::cost).sum()
    }

    /// What the inodes of a change cost together.
    pub(super) fn cost_of(&self, inos: &[u64]) -> u64 {
        inos.iter().filter_map(|ino| self.inodes.get(ino)).map(Inode::cost).sum()
    }

    /// A new inode, whose number must be new.
    fn add(
        &mut self,
        ino: u64,
        (parent, mode, owner): (u64, u32, (u32, u32)),
        now: Time,
    ) -> Result<&mut Inode> {
        if self.inodes.contains_key(&ino) {
            return Err(Error::Corrupt(format!("inode {ino} is made twice")));
        }
        Ok(self.make(ino, parent, mode, owner, now))
    }

    fn make(&mut self, ino: u64, parent: u64, mode: u32, (uid, gid): (u32, u32), now: Time) -> &mut Inode {
        let (links, body) = match FileKind::from_mode(mode) {
            Some(FileKind::Directory) => (2, Body::Dir(Dir::new(parent))),
            Some(FileKind::Regular) => (1, Body::File { size: 0, blocks: TreeMap::new() }),
            _ => (1, Body::Node),
        };
        let (rdev, opens, nameless, xattrs) = (0, 0, false, TreeMap::new());
        let (atime, mtime, ctime) = (now, now, now);
        let recency = Recency::new();
        let inode = Inode {
            mode,
            uid,
            gid,
            rdev,
            links,
            atime,
            mtime,
            ctime,
            xattrs,
            body,
            opens,
            nameless,
            recency,
        };
        self.next = self.next.max(ino + 1);
        self.inodes.insert(ino, inode);
        self.inodes.get_mut(&ino).expect("it was inserted")
    }

    /// Notes that the names of a directory have changed, and its links by `links`.
    fn names_changed(&mut self, dir: u64, links: i32, now: Time) -> Result<()> {
        let inode = self.inode_mut(dir)?;
        inode.links = inode.links.saturating_add_signed(links);
        (inode.mtime, inode.ctime) = (now, now);
        Ok(())
    }

    /// Takes one name from an inode, a directory's last one with its own `.`; frees it when it is not open.
    fn unname(&mut self, ino: u64, now: Time) -> Result<()> {
        let inode = self.inode_mut(ino)?;
        inode.links = if inode.is_dir() { 0 } else { inode.links.saturating_sub(1) };
        inode.ctime = now;
        self.free_unused(ino);
        Ok(())
    }

    /// Frees an inode that has no name and is not open. While a log is applied, later records may be about it.
    pub(super) fn free_unused(&mut self, ino: u64) {
        if !self.replaying && self.inodes.get(&ino).is_some_and(|inode| inode.links == 0 && inode.opens == 0)
        {
            self.inodes.remove(&ino);
        }
    }

    /// Closes everything, as a crash does, and frees what has no name then.
    pub(super) fn close_all(&mut self) {
        self.inodes.retain(|_, inode| inode.links > 0);
        self.inodes.values_mut().for_each(|inode| inode.opens = 0);
    }

    /// Applies a change that was checked against this state; an error says that it was not.
    pub(super) fn apply(&mut self, change: &Change, now: Time) -> Result<()> {
        match change {
            Change::Make { ino, parent, name, mode, owner, rdev, target } => {
                let inode = self.add(*ino, (*parent, *mode, *owner), now)?;
                inode.rdev = *rdev;
                if FileKind::from_mode(*mode) == Some(FileKind::Symlink) {
                    inode.body = Body::Symlink(ran::copied(target));
                }
                let is_dir = inode.is_dir();
                if name.is_empty() {
                    (inode.links, inode.opens, inode.nameless) = (0, 1, true);
                    return Ok(());
                }
                self.dir_mut(*parent)?.set(name, *ino);
                self.names_changed(*parent, i32::from(is_dir), now)
            }
            Change::Link { ino, parent, name } => {
                let inode = self.inode_mut(*ino)?;
                inode.links = inode.links.saturating_add(1);
                (inode.ctime, inode.nameless) = (now, false);
                self.dir_mut(*parent)?.set(name, *ino);
                self.names_changed(*parent, 0, now)
            }
            Change::Remove { parent, name } => {
                let ino = self.dir_mut(*parent)?.remove(name)?;
                let is_dir = self.inode(ino)?.is_dir();
                self.names_changed(*parent, -i32::from(is_dir), now)?;
                self.unname(ino, now)
            }
            Change::Rename { from, to } => self.rename(from, to, now),
            Change::RenameWhiteout { from, to, ino, perm, owner } => {
                let mode = FileKind::CharDevice.mode_bits() | perm & 0o7777;
                self.rename(from, to, now)?;
                self.add(*ino, (from.0, mode, *owner), now)?;
                self.dir_mut(from.0)?.set(&from.1, *ino);
                Ok(())
            }
            Change::Exchange { a, b } => self.exchange(a, b, now),
            _ => self.apply_to_inode(change, now),
        }
    }

    fn apply_to_inode(&mut self, change: &Change, now: Time) -> Result<()> {
        let inode = self.inode_mut(change.inode())?;
        match change {
            Change::Attributes { mode, owner, atime, mtime, .. } => {
                inode.mode = inode.mode & 0o170_000 | mode & 0o7777;
                (inode.uid, inode.gid) = *owner;
                (inode.atime, inode.mtime) = (*atime, *mtime);
            }
            Change::Accessed { .. } => {
                inode.atime = now;
                return Ok(());
            }
            Change::Resize { size, .. } => inode.resize(*size, now)?,
            Change::Write { offset, data, .. } => inode.write(*offset, data, now)?,
            Change::Allocate { offset, len, size, zero, .. } => {
                if *zero {
                    inode.punch(*offset, offset.saturating_add(*len), now)?;
                }
                inode.allocate(ByteRun::new(*offset, *len), *size, now)?;
            }
            Change::Punch { offset, len, .. } => inode.punch(*offset, offset.saturating_add(*len), now)?,
            Change::SetXattr { name, value, .. } => {
                inode.xattrs.insert(ran::copied(name), ran::copied(value));
            }
            Change::RemoveXattr { name, .. } => {
                inode.xattrs.remove(name);
            }
            _ => return Err(Error::Corrupt("a change of names for an inode".to_owned())),
        }
        inode.ctime = now;
        Ok(())
    }

    fn rename(&mut self, from: &(u64, Vec<u8>), to: &(u64, Vec<u8>), now: Time) -> Result<()> {
        let moved = self.dir_mut(from.0)?.remove(&from.1)?;
        let replaced = self.dir_mut(to.0)?.names.get(&to.1).map(|(ino, _)| *ino);
        self.dir_mut(to.0)?.set(&to.1, moved);
        let mut links = (0, 0);
        if self.inode(moved)?.is_dir() {
            self.dir_mut(moved)?.parent = to.0;
            links = (-1, i32::from(replaced.is_none()));
        }
        self.names_changed(from.0, links.0, now)?;
        self.names_changed(to.0, links.1, now)?;
        self.inode_mut(moved)?.ctime = now;
        replaced.map_or(Ok(()), |ino| self.unname(ino, now))
    }

    fn exchange(&mut self, a: &(u64, Vec<u8>), b: &(u64, Vec<u8>), now: Time) -> Result<()> {
        let (first, second) = (self.child(a.0, &a.1)?, self.child(b.0, &b.1)?);
        self.dir_mut(a.0)?.set(&a.1, second);
        self.dir_mut(b.0)?.set(&b.1, first);
        for (ino, from, to) in [(first, a.0, b.0), (second, b.0, a.0)] {
            let is_dir = self.inode(ino)?.is_dir();
            if is_dir {
                self.dir_mut(ino)?.parent = to;
            }
            self.names_changed(from, -i32::from(is_dir), now)?;
            self.names_changed(to, i32::from(is_dir), now)?;
            self.inode_mut(ino)?.ctime = now;
        }
        Ok(())
    }
}

impl Change {
    /// The inode that a change of one inode is about.
    fn inode(&self) -> u64 {
        match self {
            Self::Attributes { ino, .. }
            | Self::Accessed { ino }
            | Self::Resize { ino, .. }
            | Self::Write { ino, .. }
            | Self::Allocate { ino, .. }
            | Self::Punch { ino, .. }
            | Self::SetXattr { ino, .. }
            | Self::RemoveXattr { ino, .. }
            | Self::Make { ino, .. }
            | Self::Link { ino, .. } => *ino,
            Self::Remove { parent, .. } => *parent,
            Self::Rename { from, .. } | Self::RenameWhiteout { from, .. } => from.0,
            Self::Exchange { a, .. } => a.0,
        }
    }

    /// The inodes whose cost it may change.
    pub(super) fn inodes(&self, state: &State) -> Vec<u64> {
        let mut inos = ran::collected([self.inode()]);
        let target = |dir: u64, name: &[u8]| state.child(dir, name).ok();
        match self {
            Self::Make { parent, .. } | Self::Link { parent, .. } => ran::push(&mut inos, *parent),
            Self::Remove { parent, name } => {
                ran::extend(&mut inos, target(*parent, name));
            }
            Self::Rename { to, .. } => {
                ran::push(&mut inos, to.0);
                ran::extend(&mut inos, target(to.0, &to.1));
            }
            Self::RenameWhiteout { to, ino, .. } => {
                let all = [Some(to.0), Some(*ino), target(to.0, &to.1)];
                ran::extend(&mut inos, all.into_iter().flatten());
            }
            _ => {}
        }
        inos.sort_unstable();
        inos.dedup();
        inos
    }
}
