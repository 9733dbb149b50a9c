//! Calls that change names.
//!
//! | call | stores | fences |
//! |---|---|---|
//! | create, mkdir, mknod, link | a CREATE | 1 |
//! | symlink | the target and its DATA; then a CREATE, whose birth the DATA names | 2 |
//! | unlink, rmdir | an UNLINK | 1 |
//! | rename | UNLINKs of the target and of the old name; then a CREATE, without which these do not count | 2 |

use std::sync::Arc;

use ::vfs::{FileKind, Ino, Owner, RenameFlags, rename};
use media::event::Mark;
use sim::sync::Ordering::SeqCst;
use sim::{ByteRun, ran};

use crate::alloc::Slot;
use crate::dir::{Dir, Entry};
use crate::inode::{Body, Contents, Inode, State, now};
use crate::layout::{BLOCK, Kind, LINKS_MAX, UNIT};
use crate::map::Piece;
use crate::mutant;
use crate::package::{Attributes, Create, Data, Key, Package, Time, Unlink};
use crate::parts;
use crate::vfs::Wofs;
use base::error::{Error, Result};
use base::opens::LosingName;

/// A name in a directory.
type Name<'a> = (Ino, &'a [u8]);

/// A new inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New<'a> {
    pub(crate) kind: FileKind,
    pub(crate) perm: u32,
    pub(crate) owner: Owner,
    pub(crate) rdev: u64,
    /// Of a symbolic link.
    pub(crate) target: &'a [u8],
}

impl Wofs {
    /// Makes an inode with a name.
    pub(crate) fn make(&self, (parent, name): Name<'_>, new: New<'_>) -> Result<::vfs::Attr> {
        let dir = self.inodes.get(parent)?;
        let mut held = dir.write();
        if held.dir()?.find(name).is_some() {
            return Err(Error::Exists);
        }
        let is_dir = new.kind == FileKind::Directory;
        if is_dir && held.links >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let number = self.inodes.take_number()?;
        let made = self.store_new(&dir, number, name, new);
        let (inode, slot) = match made {
            Ok(made) => made,
            Err(error) => {
                self.inodes.give_number(number);
                return Err(error);
            }
        };
        let inode = ran::shared(inode);
        inode.opens.admit();
        let (attr, now) = {
            let state = inode.read();
            (inode.attr(&state), state.attributes.ctime)
        };
        let _part = sim::part(&parts::NAMES);
        self.inodes.add(Arc::clone(&inode));
        held.dir_mut()?.set(name, number, new.kind, slot.place);
        held.names_changed(now);
        held.links += u32::from(is_dir);
        Ok(attr)
    }

    /// Stores the packages of a new inode.
    fn store_new(&self, dir: &Inode, number: u32, name: &[u8], new: New<'_>) -> Result<(Inode, Slot)> {
        let mode = new.kind.mode_bits() | new.perm & 0o7777;
        let now = now();
        let attributes =
            Attributes { mode, uid: new.owner.uid, gid: new.owner.gid, atime: now, mtime: now, ctime: now };
        let early = self.rules.lacks(mutant::NUMBER_BEFORE_PLACE).then(|| self.numbers(1));
        let slot = self.take(Kind::Create)?;
        // Of an UNLINK that another task stores until then, the number is smaller: it hides nothing that comes to its place (U7).
        let vtail = early.unwrap_or_else(|| self.numbers(1));
        let key = (number, vtail as u32);
        let target = match new.kind {
            FileKind::Symlink => match self.store_target(key, new.target, now) {
                Ok(target) => Some(target),
                Err(error) => {
                    self.space.lock().give_back(slot);
                    return Err(error);
                }
            },
            _ => None,
        };
        let create = Create {
            vtail,
            key,
            parent: dir.key.0,
            name: ran::copied(name),
            attributes,
            rdev: new.rdev,
            changed: now,
            renamed: false,
        };
        let needs = ran::collected(target.iter().map(|(slot, _)| ByteRun::new(slot.place, UNIT)));
        let stored = self.store_create(slot, create, &needs);
        let _part = sim::part(&parts::NEW_INODE);
        let mut space = self.space.lock();
        if let Err(error) = stored {
            space.give_back(slot);
            if let Some((slot, data)) = target {
                space.give_back(slot);
                space.put(data.block, 1);
            }
            return Err(error);
        }
        space.named(Some(slot), &[]);
        let body = match (new.kind, target) {
            (FileKind::Directory, _) => Body::Dir(Dir::new(self.grows)),
            (FileKind::Symlink, Some((slot, data))) => {
                space.written(key, &[(slot, data, 1)], &[]);
                let mut contents = Contents { size: data.size, tail_is_zero: true, ..Contents::default() };
                contents.map.put(0, Piece { block: data.block, blocks: 1, from: data.vtail });
                Body::File(contents)
            }
            (FileKind::Regular, _) => Body::File(Contents { tail_is_zero: true, ..Contents::default() }),
            _ => Body::Node,
        };
        let links = 1 + u32::from(new.kind == FileKind::Directory);
        let state = State {
            attributes,
            rdev: new.rdev,
            links,
            named: true,
            is_free: false,
            times_at_risk: false,
            access_at_risk: false,
            body,
        };
        Ok((Inode::new(key, new.kind, dir.key.0, state), slot))
    }

    /// Stores the target of a symbolic link and its DATA, which counts once the CREATE of that birth is there.
    fn store_target(&self, key: Key, target: &[u8], time: Time) -> Result<(Slot, Data)> {
        let (slot, block) = {
            let block = self.take_blocks(1, 0)?.0[0].first;
            match self.take(Kind::Data) {
                Ok(slot) => (slot, block),
                Err(error) => {
                    self.space.lock().put(block, 1);
                    return Err(error);
                }
            }
        };
        let mut bytes = ran::zeroed(BLOCK as usize);
        bytes[..target.len()].copy_from_slice(target);
        let (vtail, size) = (self.numbers(1), target.len() as u64);
        let data = Data { vtail, key, first: 0, block, blocks: 1, size, time, index: 0, count: 1 };
        let package = Package::Data(data).encode(self.rules);
        let stored = self.region.nt_store(block * BLOCK, &bytes);
        let stored = stored.and_then(|()| self.region.store(slot.place, &package));
        self.region.flush(slot.place, UNIT);
        self.region.fence();
        if let Err(error) = stored {
            let mut space = self.space.lock();
            space.give_back(slot);
            space.put(block, 1);
            return Err(error.into());
        }
        Ok((slot, data))
    }

    fn store_create(&self, slot: Slot, create: Create, needs: &[ByteRun]) -> Result<()> {
        let _part = sim::part(&parts::PACKAGE);
        let bytes = Package::Create(create).encode(self.rules);
        self.region.mark(Mark::CommitBlock { at: slot.place, needs });
        self.region.nt_store(slot.place, &bytes)?;
        self.region.fence();
        Ok(())
    }

    fn store_unlink(&self, slot: Slot, unlink: Unlink) -> Result<()> {
        let bytes = Package::Unlink(unlink).encode(self.rules);
        self.region.store(slot.place, &bytes)?;
        self.region.flush(slot.place, UNIT);
        Ok(())
    }

    /// Gives an inode that is no directory another name.
    pub(crate) fn add_link(&self, ino: Ino, (parent, name): Name<'_>) -> Result<::vfs::Attr> {
        let (inode, dir) = (self.inodes.get(ino)?, self.inodes.get(parent)?);
        let mut held = dir.write();
        match held.dir()?.find(name) {
            Some(_) => return Err(Error::Exists),
            None if inode.is_dir() => return Err(Error::NotPermitted),
            None => {}
        }
        let mut state = inode.write();
        match state.links {
            _ if !state.named => return Err(Error::NoEntry),
            LINKS_MAX.. => return Err(Error::TooManyLinks),
            _ => {}
        }
        let now = now();
        let attributes = Attributes { ctime: now, ..state.attributes };
        let slot = self.take(Kind::Create)?;
        let create = Create {
            vtail: self.numbers(1),
            key: inode.key,
            parent: dir.key.0,
            name: ran::copied(name),
            attributes,
            rdev: state.rdev,
            changed: now,
            renamed: false,
        };
        if let Err(error) = self.store_create(slot, create, &[]) {
            self.space.lock().give_back(slot);
            return Err(error);
        }
        let _part = sim::part(&parts::NAMES);
        self.space.lock().named(Some(slot), &[]);
        held.dir_mut()?.set(name, inode.key.0, inode.kind, slot.place);
        held.names_changed(now);
        (state.attributes, state.links) = (attributes, state.links + 1);
        Ok(inode.attr(&state))
    }

    /// Removes a name: of a directory, or of anything else.
    pub(crate) fn remove(&self, (parent, name): Name<'_>, is_dir: bool) -> Result<()> {
        let dir = self.inodes.get(parent)?;
        let mut held = dir.write();
        let entry = held.dir()?.find(name).ok_or(Error::NoEntry)?;
        match (is_dir, entry.kind == FileKind::Directory) {
            (true, false) => return Err(Error::NotDirectory),
            (false, true) => return Err(Error::IsDirectory),
            _ => {}
        }
        let inode = self.inodes.get(Ino(u64::from(entry.ino)))?;
        let mut state = inode.write();
        if is_dir && state.dir()?.len() > 0 {
            return Err(Error::NotEmpty);
        }
        let slot = self.take(Kind::Unlink)?;
        let now = now();
        let unlink = Unlink {
            vtail: self.numbers(1),
            key: inode.key,
            parent: dir.key.0,
            hides: entry.place,
            changed: now,
            mate: None,
        };
        let is_last = is_dir || state.links == 1;
        let losing = is_last.then(|| inode.opens.losing_name());
        let stored = {
            let _part = sim::part(&parts::PACKAGE);
            self.region.mark(Mark::CommitBlock { at: slot.place, needs: &[] });
            self.store_unlink(slot, unlink)
        };
        if let Err(error) = stored {
            self.space.lock().give_back(slot);
            return Err(error);
        }
        self.region.fence();
        let names = sim::part(&parts::NAMES);
        self.space.lock().named(None, &[(slot, entry.place)]);
        held.dir_mut()?.remove(name);
        held.names_changed(now);
        held.links -= u32::from(is_dir);
        self.lose_name(&inode, &mut state, now);
        drop(names);
        if losing.is_some_and(LosingName::done) {
            self.evict(&inode, &mut state);
        }
        Ok(())
    }

    /// Takes one name from an inode, in DRAM.
    fn lose_name(&self, inode: &Inode, state: &mut State, now: Time) {
        state.links = if inode.is_dir() { 0 } else { state.links.saturating_sub(1) };
        // No package of the inode says the time: an unmount stores it.
        (state.attributes.ctime, state.times_at_risk) = (now, true);
        if state.links == 0 {
            state.named = false;
            self.space.lock().ended(inode.key);
        }
    }

    /// Frees what an inode without a name has, which is not open.
    pub(crate) fn evict(&self, inode: &Inode, state: &mut State) {
        let _part = sim::part(&parts::EVICT);
        if let Body::File(contents) = &mut state.body {
            let pieces = contents.map.take(0..u64::MAX);
            Self::free_blocks(pieces.iter().map(|piece| piece.blocks).sum());
            self.space.lock().lost(inode.key, &pieces);
        }
        state.is_free = true;
        self.inodes.remove(inode.key.0);
    }

    /// Whether `above` is directory `dir` or above it. The caller holds the lock of renames.
    fn is_below(&self, dir: u32, above: u32) -> Result<bool> {
        let parent_of = |dir: u64| Ok::<_, Error>(u64::from(self.inodes.get(Ino(dir))?.parent()));
        let below = rename::is_below(u64::from(dir), u64::from(above), self.inodes.len() + 1, parent_of)?;
        below.ok_or_else(|| Error::Corrupt(format!("directory {dir} is below itself")))
    }

    /// Renames, perhaps in place of something.
    pub(crate) fn rename_name(&self, from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Result<()> {
        let _renames = self.renames.lock();
        let dirs = [self.inodes.get(from.0)?, self.inodes.get(to.0)?];
        if !dirs.iter().all(|dir| dir.is_dir()) {
            return Err(Error::NotDirectory);
        }
        let numbers = [dirs[0].key.0, dirs[1].key.0];
        let is_one = numbers[0] == numbers[1];
        // An ancestor first, else the lower number.
        let first = is_one
            || rename::is_locked_first(u64::from(numbers[0]), u64::from(numbers[1]), |dir, above| {
                self.is_below(dir as u32, above as u32)
            })?;
        let (mut old, mut new);
        if first {
            old = dirs[0].write();
            new = (!is_one).then(|| dirs[1].write());
        } else {
            new = Some(dirs[1].write());
            old = dirs[0].write();
        }
        self.rename_held(numbers, (from.1, to.1), flags, (&mut old, new.as_deref_mut()))
    }

    /// The same, once the directories are locked; `new` is none where both are one.
    fn rename_held(
        &self,
        numbers: [u32; 2],
        (from, to): (&[u8], &[u8]),
        flags: RenameFlags,
        (old, new): (&mut State, Option<&mut State>),
    ) -> Result<()> {
        let target = new.as_deref().unwrap_or(old).dir()?.find(to);
        let moved = old.dir()?.find(from).ok_or(Error::NoEntry)?;
        let target_ino = target.map(|entry| entry.ino);
        if !rename::check_target(flags, moved.ino, target_ino)? {
            return Ok(());
        }
        let is_below = |dir, above| self.is_below(dir, above);
        rename::check_subtrees(flags, (numbers[0], numbers[1]), (moved.ino, target_ino), is_below)?;
        let is_dir = moved.kind == FileKind::Directory;
        match (target, &new) {
            (Some(target), _) => rename::check_kinds(flags, is_dir, target.kind == FileKind::Directory)?,
            (None, Some(new)) if is_dir && new.links >= LINKS_MAX => return Err(Error::TooManyLinks),
            _ => {}
        }
        let inode = self.inodes.get(Ino(u64::from(moved.ino)))?;
        let replaced = target.map(|entry| self.inodes.get(Ino(u64::from(entry.ino)))).transpose()?;
        let (mut state, mut gone) = lock_both(&inode, replaced.as_deref());
        if gone.as_deref().is_some_and(|gone| gone.dir().is_ok_and(|dir| dir.len() > 0)) {
            return Err(Error::NotEmpty);
        }
        let losing = replaced.as_ref().zip(gone.as_ref()).filter(|(_, gone)| gone.links == 1 || is_dir);
        let losing = losing.map(|(replaced, _)| replaced.opens.losing_name());
        let now = now();
        let attributes = Attributes { ctime: now, ..state.attributes };
        let over = replaced.iter().zip(target).map(|(inode, entry)| (inode.key, numbers[1], entry));
        let hidden = ran::collected(over.chain([(inode.key, numbers[0], moved)]));
        let place = self.store_rename((&inode, attributes, state.rdev), (numbers[1], to), &hidden, now)?;
        state.attributes = attributes;
        let names = sim::part(&parts::NAMES);
        old.dir_mut()?.remove(from);
        old.names_changed(now);
        let holder = new.unwrap_or(old);
        holder.dir_mut()?.set(to, moved.ino, moved.kind, place);
        holder.names_changed(now);
        if is_dir {
            inode.parent.store(numbers[1], SeqCst);
            holder.links += u32::from(target.is_none());
            old.links -= 1;
        }
        drop(names);
        if let (Some(replaced), Some(gone)) = (&replaced, gone.as_deref_mut()) {
            self.lose_name(replaced, gone, now);
            if losing.is_some_and(LosingName::done) {
                self.evict(replaced, gone);
            }
        }
        Ok(())
    }

    /// Stores the packages of a rename: UNLINKs, a fence, the CREATE, a fence. Returns where the CREATE lies.
    fn store_rename(
        &self,
        (inode, attributes, rdev): (&Inode, Attributes, u64),
        (parent, name): (u32, &[u8]),
        hidden: &[(Key, u32, Entry)],
        now: Time,
    ) -> Result<u64> {
        let mut slots = Vec::new();
        if self.rules.lacks(mutant::OLD_CREATE_FREED) {
            hidden.last().iter().for_each(|(_, _, entry)| self.space.lock().hide(entry.place));
        }
        let kinds = hidden.iter().map(|_| Kind::Unlink).chain([Kind::Create]);
        let taken =
            kinds.into_iter().try_for_each(|kind| self.take(kind).map(|slot| ran::push(&mut slots, slot)));
        let first = self.numbers(hidden.len() as u64 + 1);
        let stored = taken.and_then(|()| {
            let create = slots[hidden.len()];
            let vtail = first + hidden.len() as u64;
            let _part = sim::part(&parts::PACKAGE);
            for (number, ((key, parent, entry), slot)) in (first..).zip(hidden.iter().zip(&slots)) {
                let mate = Some((create.place, vtail));
                let unlink = Unlink {
                    vtail: number,
                    key: *key,
                    parent: *parent,
                    hides: entry.place,
                    changed: now,
                    mate,
                };
                self.store_unlink(*slot, unlink)?;
            }
            self.region.fence();
            let needs =
                ran::collected(slots[..hidden.len()].iter().map(|slot| ByteRun::new(slot.place, UNIT)));
            let (key, name) = (inode.key, ran::copied(name));
            let body = Create { vtail, key, parent, name, attributes, rdev, changed: now, renamed: true };
            self.store_create(create, body, &needs)?;
            Ok(create)
        });
        let mut space = self.space.lock();
        match stored {
            Ok(create) => {
                let pairs = slots.iter().zip(hidden).map(|(slot, (_, _, entry))| (*slot, entry.place));
                space.named(Some(create), &ran::collected(pairs));
                Ok(create.place)
            }
            Err(error) => {
                for slot in slots {
                    space.give_back(slot);
                }
                Err(error)
            }
        }
    }
}

/// The lock of an inode, held to change it.
type Held<'a> = sim::RwLockWriteGuard<'a, State>;

/// Locks what a rename moves and what it replaces, a directory first, else the lower number.
fn lock_both<'a>(moved: &'a Inode, replaced: Option<&'a Inode>) -> (Held<'a>, Option<Held<'a>>) {
    let place = |inode: &Inode| rename::place_of_lock(inode.is_dir(), u64::from(inode.key.0));
    match replaced {
        Some(replaced) if place(replaced) < place(moved) => {
            let gone = replaced.write();
            (moved.write(), Some(gone))
        }
        replaced => {
            let state = moved.write();
            (state, replaced.map(Inode::write))
        }
    }
}
