//! Names: the calls that change a directory.
//!
//! Each call is one transaction: it locks, looks up, plans, logs every range that it will change, changes them, and commits.
//!
//! Lock order: `pmfs.rename`, then directories, an ancestor before its descendants and otherwise by number, then the inodes
//! that the names lead to, directories first and otherwise by number, then `pmfs.truncate`, then the leaves
//! (`pmfs.inode_table`, `pmfs.journal`, `pmfs.blocks`).

use vfs::{FileKind, Ino, NewInode, RenameFlags, Renaming, Timestamp, rename};

use super::Volume;
use super::dir::{Found, Inserted, Place, Removal};
use super::inode::{Contents, Inode, InodeState, Locked};
use super::journal::Transaction;
use sim::{ByteRun, ran};

use super::layout::{BLOCK, BLOCK_SHIFT, MAX_LINKS, RawInode, ino};
use super::map::fill_entries;
use super::mutant;
use super::xattr::attribute_pointer;
use base::error::{Error, Result};
use base::opens::LosingName;

/// What a design that buffers on top of PMFS does with an inode's open transaction and buffered blocks when a change of its names
/// is about to log the inode.
pub(crate) trait OpenTransactions {
    /// Commits the inode's open transaction, so that a later one may log the inode.
    fn commit_open(&self, _inode: &Inode) -> Result<()> {
        Ok(())
    }

    /// Takes the open transaction of an inode that is about to lose its last name; the removal joins it. It has logged the
    /// inode's first half, and has room for `entries` more.
    fn take_open(&self, _inode: &Inode, _entries: u32) -> Result<Option<Transaction>> {
        Ok(None)
    }

    /// The transaction that was taken has been rolled back, with everything that it had done before: the file has its old size
    /// again, and the blocks that the transaction had allocated are free when this returns.
    fn rolled_back(&self, _inode: &Inode) -> Result<()> {
        Ok(())
    }

    /// Drops what is buffered of an inode whose blocks are about to be freed.
    fn discard(&self, _inode: &Inode) -> Result<()> {
        Ok(())
    }
}

/// PMFS itself has no open transactions and buffers nothing.
impl OpenTransactions for Volume {}

/// A directory that is locked for a change.
struct Dir<'a> {
    inode: &'a Inode,
    raw: RawInode,
    state: Locked<'a>,
}

impl Dir<'_> {
    fn half(&self) -> ByteRun {
        self.inode.half()
    }

    /// Lets the index follow an insertion that was committed.
    fn inserted(&mut self, name: &[u8], inserted: &Inserted) {
        if let Some(index) = &mut self.state.names {
            index.inserted(name, inserted);
        }
    }

    /// Lets the index follow a removal that was committed.
    fn removed(&mut self, name: &[u8], removal: &Removal) {
        if let Some(index) = &mut self.state.names {
            index.removed(name, removal);
        }
    }
}

/// What a new inode is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) kind: FileKind,
    pub(crate) rdev: u64,
    pub(crate) new: &'a NewInode,
    /// Of a symbolic link.
    pub(crate) target: &'a [u8],
}

pub(crate) fn is_dir(raw: &RawInode) -> bool {
    FileKind::from_mode(u32::from(raw.mode)) == Some(FileKind::Directory)
}

impl Volume {
    fn lock_dir(&self, ino: u64) -> Result<Dir<'_>> {
        let inode = self.inodes.get(ino)?;
        let mut state = self.lock(inode);
        let raw = self.live(inode)?;
        if !is_dir(&raw) {
            return Err(Error::NotDirectory);
        }
        if raw.links == 0 {
            return Err(Error::NoEntry);
        }
        self.index_names(&raw, &mut state)?;
        Ok(Dir { inode, raw, state })
    }

    fn find_in(&self, dir: &Dir<'_>, name: &[u8]) -> Result<Option<Found>> {
        self.find_name(&dir.raw, &dir.state, name)
    }

    /// The inode that `name` leads to.
    pub(crate) fn lookup_name(&self, parent: u64, name: &[u8]) -> Result<u64> {
        let inode = self.inodes.get(parent)?;
        let state = inode.state.read();
        if state.names.is_some() || !self.settings.dir_index {
            let raw = self.live(inode)?;
            if !is_dir(&raw) {
                return Err(Error::NotDirectory);
            }
            return self.find_name(&raw, &state, name)?.map(|found| found.ino).ok_or(Error::NoEntry);
        }
        drop(state);
        let dir = self.lock_dir(parent)?;
        self.find_in(&dir, name)?.map(|found| found.ino).ok_or(Error::NoEntry)
    }

    /// Makes a new inode called `name`.
    pub(crate) fn make(&self, parent: u64, name: &[u8], node: Node<'_>) -> Result<(&Inode, RawInode)> {
        let mut dir = self.lock_dir(parent)?;
        if self.find_in(&dir, name)?.is_some() {
            return Err(Error::Exists);
        }
        if node.kind == FileKind::Directory && dir.raw.links >= MAX_LINKS {
            return Err(Error::TooManyLinks);
        }
        let place = self.find_place(&dir.raw, &mut dir.state, name.len())?;
        let inode = self.claim_inode()?;
        let made = self.make_in(&mut dir, inode, place, (name, node));
        if made.is_err() {
            self.inodes.put(inode.ino);
        }
        made.map(|raw| (inode, raw))
    }

    fn make_in(
        &self,
        dir: &mut Dir<'_>,
        inode: &Inode,
        place: Place,
        (name, node): (&[u8], Node<'_>),
    ) -> Result<RawInode> {
        let parent = if self.has(mutant::PARENT_LINKS_NOT_LOGGED) {
            ByteRun::new(dir.inode.offset, ino::LINKS)
        } else {
            dir.half()
        };
        let mut tx = self.begin_names(&[inode.half(), parent], Some(place))?;
        let work = (|| {
            let body = self.make_body(&mut tx, inode, dir.inode.ino, node)?;
            let raw = self.init_inode(inode, node.new, (node.kind, node.rdev), body)?;
            dir.raw.links += u16::from(node.kind == FileKind::Directory);
            let record = (name, inode.ino);
            let into = (dir.inode, &mut dir.raw, &*dir.state);
            Ok((raw, self.insert_name(&mut tx, into, place, record)?))
        })();
        let (raw, inserted) = self.end(tx, work)?;
        dir.inserted(name, &inserted);
        Ok(raw)
    }

    /// Makes a regular file without a name, which is open once. It is on the truncate list until it gets a name or is freed.
    pub(crate) fn make_nameless(&self, new: &NewInode) -> Result<(&Inode, RawInode)> {
        let inode = self.claim_inode()?;
        let mut state = self.lock(inode);
        let made = self.begin_names(&[inode.half()], None).and_then(|tx| {
            let raw = self.init_inode(inode, new, (FileKind::Regular, 0), (0, 0));
            let work = raw.and_then(|mut raw| self.drop_link(inode, &mut raw, 1).map(|()| raw));
            self.end(tx, work)
        });
        match made {
            Ok(raw) => {
                state.nameless = true;
                inode.opens.begin_nameless();
                Ok((inode, raw))
            }
            Err(error) => {
                // A free slot on the list is allowed, but would be in the way of the next who gets it.
                self.truncate_remove(inode).inspect_err(|_| self.journal.fail())?;
                self.inodes.put(inode.ino);
                Err(error)
            }
        }
    }

    /// The first block of a directory or symbolic link, and the size that it makes; zeros for what has none.
    fn make_body(
        &self,
        tx: &mut Transaction,
        inode: &Inode,
        parent: u64,
        node: Node<'_>,
    ) -> Result<(u64, u64)> {
        let _scope = sim::scope(media::charges::METADATA);
        if node.kind != FileKind::Directory && node.kind != FileKind::Symlink {
            return Ok((0, 0));
        }
        let body = self.blocks.take()?;
        ran::push(&mut tx.taken, (body, BLOCK_SHIFT));
        if node.kind == FileKind::Directory {
            self.write_dot_records(body, inode.ino, parent)?;
            return Ok((body, BLOCK));
        }
        self.region.nt_store(body, node.target)?;
        self.region.nt_zero(body + node.target.len() as u64, 1)?;
        Ok((body, node.target.len() as u64))
    }

    /// Begins a transaction and logs `ranges` and that of a new record, with one fence.
    fn begin_names(&self, ranges: &[ByteRun], place: Option<Place>) -> Result<Transaction> {
        let mut all = [ByteRun::default(); 8];
        all[..ranges.len()].copy_from_slice(ranges);
        let mut count = ranges.len();
        if let Some(range) = place.and_then(|place| place.logged()) {
            all[count] = range;
            count += 1;
        }
        let growth = if matches!(place, Some(Place::NewBlock)) { fill_entries(1) } else { 0 };
        let mut tx = self.journal.begin(count as u32 + growth + 4)?;
        match self.journal.log(&mut tx, &all[..count]) {
            Ok(()) => Ok(tx),
            Err(error) => {
                self.journal.abort(tx)?;
                Err(error)
            }
        }
    }

    /// Adds a name to an inode that is not a directory.
    pub(crate) fn link(
        &self,
        ino: u64,
        parent: u64,
        name: &[u8],
        open: &dyn OpenTransactions,
    ) -> Result<RawInode> {
        let mut dir = self.lock_dir(parent)?;
        if self.find_in(&dir, name)?.is_some() {
            return Err(Error::Exists);
        }
        let inode = self.inodes.get(ino)?;
        // A directory must not be locked here: it may be above `parent`.
        if is_dir(&self.raw(inode)?) {
            return Err(Error::NotPermitted);
        }
        let mut state = self.lock(inode);
        let mut raw = self.live(inode)?;
        let was_nameless = raw.links == 0;
        match &raw {
            raw if is_dir(raw) => return Err(Error::NotPermitted),
            raw if raw.links == 0 && !(state.nameless && inode.opens.is_open()) => {
                return Err(Error::NoEntry);
            }
            raw if raw.links >= MAX_LINKS => return Err(Error::TooManyLinks),
            _ => open.commit_open(inode)?,
        }
        if was_nameless {
            // After a crash between the commit and its removal from the list it has a name, and is cut to the size on the list.
            self.truncate_resize(inode, raw.size)?;
        }
        let place = self.find_place(&dir.raw, &mut dir.state, name.len())?;
        let mut tx = self.begin_names(&[inode.half(), dir.half()], Some(place))?;
        let work = (|| {
            raw.links += 1;
            raw.set_ctime(Timestamp::now());
            self.store_half(inode, &raw)?;
            self.insert_name(&mut tx, (dir.inode, &mut dir.raw, &dir.state), place, (name, ino))
        })();
        let inserted = self.end(tx, work)?;
        dir.inserted(name, &inserted);
        if was_nameless {
            state.nameless = false;
            inode.opens.keep_name();
            // The name is there: a list that cannot be changed ends all changes, not this call.
            let _ = self.truncate_remove(inode).inspect_err(|_| self.journal.fail());
        }
        Ok(raw)
    }

    /// Removes a name that is not a directory's. When that was its last name, it frees the inode too; an inode that is open is
    /// returned, to be freed later.
    pub(crate) fn unlink(
        &self,
        parent: u64,
        name: &[u8],
        open: &dyn OpenTransactions,
    ) -> Result<Option<&Inode>> {
        let mut dir = self.lock_dir(parent)?;
        let found = self.find_in(&dir, name)?.ok_or(Error::NoEntry)?;
        let inode = self.inodes.get(found.ino)?;
        if inode.ino == parent {
            return Err(Error::IsDirectory);
        }
        let _locked = self.lock(inode);
        let mut raw = self.live(inode)?;
        if is_dir(&raw) {
            return Err(Error::IsDirectory);
        }
        let removal = self.plan_removal(&dir.raw, found)?;
        let last = (raw.links == 1).then(|| inode.opens.losing_name());
        let frees = last.as_ref().is_some_and(|last| last.frees);
        // Before anything is changed: what cannot be read now could not be freed.
        let contents = if frees { self.contents(inode, &raw)? } else { Contents::default() };
        let attributes = attribute_pointer(inode, &raw).filter(|_| frees);
        let mut ranges = ran::collected([dir.half(), removal.logged()].into_iter().chain(attributes));
        let given = if raw.links == 1 { open.take_open(inode, ranges.len() as u32)? } else { None };
        let joins = given.is_some();
        let mut tx = match given {
            Some(tx) => tx,
            None => {
                open.commit_open(inode)?;
                ran::push(&mut ranges, inode.half());
                self.begin_names(&ranges, None)?
            }
        };
        let work = (|| {
            if joins {
                self.journal.log(&mut tx, &ranges)?;
            }
            self.remove_name((dir.inode, &mut dir.raw), &removal)?;
            if frees { self.erase(inode, &raw) } else { self.drop_link(inode, &mut raw, 1) }
        })();
        match work {
            Err(error) if joins => {
                self.roll_back_with(tx, || open.rolled_back(inode))?;
                return Err(error);
            }
            work => self.end(tx, work)?,
        }
        dir.removed(name, &removal);
        last.map(LosingName::done);
        drop(dir);
        if frees {
            self.free_removed(inode, contents, open);
            return Ok(None);
        }
        Ok((raw.links == 0).then_some(inode))
    }

    /// Frees the blocks of an inode that a committed removal has erased; no other task can reach it. Its name is gone already:
    /// after a failure, the next mount frees the blocks.
    fn free_removed(&self, inode: &Inode, contents: Contents, open: &dyn OpenTransactions) {
        let freed = open.discard(inode).and_then(|()| self.free_contents(inode, contents));
        match freed {
            Ok(()) => self.inodes.put(inode.ino),
            Err(_) => self.blocks.doubt(),
        }
    }

    /// Takes `count` links from a logged inode; without any left it goes on the truncate list. That is not rolled back with the
    /// transaction, so nothing that can fail may come between this and the commit.
    fn drop_link(&self, inode: &Inode, raw: &mut RawInode, count: u16) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        raw.links = raw.links.saturating_sub(count);
        raw.set_ctime(Timestamp::now());
        self.store_half(inode, raw)?;
        if raw.links == 0 {
            self.truncate_add(inode, raw.size)?;
        }
        Ok(())
    }

    /// Removes an empty directory. Returns its inode.
    pub(crate) fn rmdir(&self, parent: u64, name: &[u8]) -> Result<&Inode> {
        let mut dir = self.lock_dir(parent)?;
        let found = self.find_in(&dir, name)?.ok_or(Error::NoEntry)?;
        let inode = self.inodes.get(found.ino)?;
        if inode.ino == parent {
            return Err(Error::Corrupt(format!("directory {parent} contains itself")));
        }
        let mut state = self.lock(inode);
        let mut raw = self.live(inode)?;
        if !is_dir(&raw) {
            return Err(Error::NotDirectory);
        }
        if !self.is_empty_dir(&raw)? {
            return Err(Error::NotEmpty);
        }
        let removal = self.plan_removal(&dir.raw, found)?;
        let tx = self.begin_names(&[inode.half(), dir.half(), removal.logged()], None)?;
        let work = (|| {
            dir.raw.links = dir.raw.links.saturating_sub(1);
            self.remove_name((dir.inode, &mut dir.raw), &removal)?;
            self.drop_link(inode, &mut raw, 2)
        })();
        self.end(tx, work)?;
        dir.removed(name, &removal);
        state.names = None;
        drop(state);
        Ok(inode)
    }

    /// Frees an inode without names, unless it is open.
    pub(crate) fn reap(&self, inode: &Inode, open: &dyn OpenTransactions) -> Result<bool> {
        let mut state = self.lock(inode);
        let raw = self.raw(inode)?;
        let dead = raw.links == 0 && raw.mode != 0 && inode.opens.lose_name();
        if dead {
            (state.names, state.nameless) = (None, false);
            open.discard(inode)?;
            self.free_inode(inode)?;
        }
        Ok(dead)
    }

    /// Frees what could not be freed when its last name or its last opener went.
    pub(crate) fn reap_unfreed(&self, open: &dyn OpenTransactions) {
        for ino in self.take_unfreed() {
            let freed = self.inodes.get(ino).and_then(|inode| {
                let mut state = self.lock(inode);
                if self.raw(inode)?.links > 0 || !inode.opens.lose_name() {
                    return Ok(());
                }
                (state.names, state.nameless) = (None, false);
                open.discard(inode)?;
                self.free_inode(inode)
            });
            if freed.is_err() {
                self.note_unfreed();
            }
        }
    }

    /// The parent that the `..` of a directory names; an error for what is not a directory, or not any more.
    fn parent_of(&self, inode: &Inode) -> Result<u64> {
        let raw = self.live(inode)?;
        match &raw {
            raw if !is_dir(raw) => return Err(Error::NotDirectory),
            raw if raw.links == 0 => return Err(Error::NoEntry),
            _ => {}
        }
        let found = self.find_name(&raw, &InodeState::default(), b"..")?;
        found.map(|found| found.ino).ok_or_else(|| Error::Corrupt("a directory without ..".to_owned()))
    }

    /// Whether `above` is directory `dir` or above it. The caller prevents renames of directories; `locked` says whether it has
    /// also locked those on the way, so that they cannot be removed.
    fn is_below(&self, dir: u64, above: u64, locked: bool) -> Result<bool> {
        let below = rename::is_below(dir, above, self.inodes.counts().0, |dir| {
            let inode = self.inodes.get(dir)?;
            let _state = (!locked).then(|| inode.state.read());
            self.parent_of(inode)
        })?;
        below.ok_or_else(|| Error::Corrupt(format!("directory {dir} is below itself")))
    }

    /// Locks one or two directories in order; the places of `from` and `to` in the result.
    fn lock_dirs(&self, from: u64, to: u64) -> Result<(Vec<Dir<'_>>, usize, usize)> {
        ran::allocate(1);
        if from == to {
            return Ok((vec![self.lock_dir(from)?], 0, 0));
        }
        let from_first = rename::is_locked_first(from, to, |dir, above| self.is_below(dir, above, false))?;
        match from_first {
            true => Ok((vec![self.lock_dir(from)?, self.lock_dir(to)?], 0, 1)),
            false => Ok((vec![self.lock_dir(to)?, self.lock_dir(from)?], 1, 0)),
        }
    }

    /// Renames, and gives the old name to a whiteout if one is wanted. Returns the inode that lost its last name, if any.
    pub(crate) fn rename(
        &self,
        (from, old): (u64, &[u8]),
        (to, new): (u64, &[u8]),
        Renaming { flags, whiteout }: Renaming<'_>,
        open: &dyn OpenTransactions,
    ) -> Result<Option<&Inode>> {
        let _rename = (from != to).then(|| self.renames.lock());
        let (mut dirs, src, dst) = self.lock_dirs(from, to)?;
        let source = self.find_in(&dirs[src], old)?.ok_or(Error::NoEntry)?;
        let target = self.find_in(&dirs[dst], new)?;
        if !rename::check_target(flags, source.ino, target.map(|target| target.ino))? {
            return Ok(None);
        }
        let moved = self.inodes.get(source.ino)?;
        let replaced = target.map(|target| self.inodes.get(target.ino)).transpose()?;
        let inos = (source.ino, target.map(|target| target.ino));
        rename::check_subtrees(flags, (from, to), inos, |dir, above| {
            // Only who holds the lock of renames may climb.
            Ok::<_, Error>(from != to && self.is_below(dir, above, true)?)
        })?;
        if [Some(moved), replaced].iter().flatten().any(|inode| inode.ino == from || inode.ino == to) {
            return Err(Error::Corrupt(format!("directory {from} or {to} contains itself")));
        }
        let _states = lock_in_order(self, moved, replaced)?;
        let raws = (self.live(moved)?, replaced.map(|inode| self.live(inode)).transpose()?);
        self.check_kinds(&dirs[dst].raw, &raws, from != to, flags)?;
        open.commit_open(moved)?;
        replaced.map_or(Ok(()), |inode| open.commit_open(inode))?;
        if let (Some(target), true) = (target, flags.contains(RenameFlags::EXCHANGE)) {
            let pair = (moved, replaced.unwrap_or(moved));
            return self.exchange(&mut dirs, (src, dst), (source, target), pair).map(|()| None);
        }
        let whiteout = whiteout.map(|_| self.claim_inode()).transpose()?.zip(whiteout);
        let mut change = Move { source, target, moved, replaced, old, new, whiteout, removed: None };
        let orphan = self.move_name(&mut dirs, (src, dst), &mut change);
        if let (Err(_), Some((inode, _))) = (&orphan, whiteout) {
            self.inodes.put(inode.ino);
        }
        orphan
    }

    fn check_kinds(
        &self,
        to: &RawInode,
        (moved, replaced): &(RawInode, Option<RawInode>),
        crosses: bool,
        flags: RenameFlags,
    ) -> Result<()> {
        match replaced {
            _ if flags.contains(RenameFlags::EXCHANGE) => Ok(()),
            Some(old) => {
                rename::check_kinds(flags, is_dir(moved), is_dir(old))?;
                if is_dir(old) && !self.is_empty_dir(old)? { Err(Error::NotEmpty) } else { Ok(()) }
            }
            None if is_dir(moved) && crosses && to.links >= MAX_LINKS => Err(Error::TooManyLinks),
            _ => Ok(()),
        }
    }

    fn move_name<'a>(
        &self,
        dirs: &mut [Dir<'_>],
        (src, dst): (usize, usize),
        change: &mut Move<'a, '_>,
    ) -> Result<Option<&'a Inode>> {
        let name_len = change.new.len();
        if self.has(mutant::RENAME_REMOVES_FIRST) && change.whiteout.is_none() {
            change.removed = Some(self.remove_unlogged(&mut dirs[src], change.source, change.old)?);
        }
        let place = match change.target {
            Some(_) => None,
            None => {
                let dir = &mut dirs[dst];
                Some(self.find_place(&dir.raw, &mut dir.state, name_len)?)
            }
        };
        let dotdot = self.dotdot_of(change.moved, src != dst)?;
        let mut ranges = ran::collected([dirs[src].half(), change.moved.half()]);
        if src != dst {
            ran::push(&mut ranges, dirs[dst].half());
        }
        if let (Some(target), Some(replaced)) = (change.target, change.replaced) {
            ran::push(&mut ranges, ByteRun::new(self.record_at(&dirs[dst].raw, target)?, 8));
            ran::push(&mut ranges, replaced.half());
        }
        ran::extend(&mut ranges, dotdot.map(|at| ByteRun::new(at, 8)));
        if let Some((whiteout, _)) = change.whiteout {
            ran::push(&mut ranges, whiteout.half());
            ran::push(&mut ranges, ByteRun::new(self.record_at(&dirs[src].raw, change.source)?, 8));
        }
        let mut tx = self.begin_names(&ranges, place)?;
        let work = self.apply_move(dirs, (src, dst), change, place, dotdot, &mut tx);
        let moved = self.end(tx, work)?;
        if let Some(inserted) = &moved.inserted {
            dirs[dst].inserted(change.new, inserted);
        }
        if let Some(removal) = moved.removal.filter(|_| change.removed.is_none()) {
            dirs[src].removed(change.old, &removal);
        }
        Ok(change.replaced.filter(|_| moved.orphan))
    }

    /// Removes a name for good before the transaction that should ([`mutant::RENAME_REMOVES_FIRST`]).
    fn remove_unlogged(&self, dir: &mut Dir<'_>, found: Found, name: &[u8]) -> Result<Removal> {
        let removal = self.plan_removal(&dir.raw, found)?;
        self.remove_name((dir.inode, &mut dir.raw), &removal)?;
        let logged = removal.logged();
        self.region.flush(logged.at, logged.len);
        self.region.flush(dir.inode.offset, ino::HALF);
        self.region.fence();
        dir.removed(name, &removal);
        Ok(removal)
    }

    /// Where the inode number in `..` of a directory lies that changes its parent.
    fn dotdot_of(&self, inode: &Inode, crosses: bool) -> Result<Option<u64>> {
        let raw = self.raw(inode)?;
        if !crosses || !is_dir(&raw) {
            return Ok(None);
        }
        match self.find_name(&raw, &InodeState::default(), b"..")? {
            Some(found) => self.record_at(&raw, found).map(Some),
            None => Err(Error::Corrupt(format!("directory {} has no ..", inode.ino))),
        }
    }

    /// Changes what `move_name` has logged.
    fn apply_move(
        &self,
        dirs: &mut [Dir<'_>],
        (src, dst): (usize, usize),
        change: &Move<'_, '_>,
        place: Option<Place>,
        dotdot: Option<u64>,
        tx: &mut Transaction,
    ) -> Result<Moved> {
        let mut moved = self.raw(change.moved)?;
        let mut old = change.replaced.map(|replaced| self.raw(replaced)).transpose()?;
        let crosses = u16::from(is_dir(&moved) && src != dst);
        let lost = u16::from(old.as_ref().is_some_and(is_dir));
        let links = dirs[dst].raw.links.saturating_add(crosses);
        dirs[dst].raw.links = links.saturating_sub(lost);
        dirs[src].raw.links = dirs[src].raw.links.saturating_sub(crosses);
        let to = &mut dirs[dst];
        let inserted = match (change.target, place) {
            (Some(target), _) => {
                self.redirect_name(&to.raw, target, change.moved.ino)?;
                self.touch_dir(to.inode, &mut to.raw)?;
                None
            }
            (None, Some(place)) => {
                let record = (change.new, change.moved.ino);
                Some(self.insert_name(tx, (to.inode, &mut to.raw, &to.state), place, record)?)
            }
            (None, None) => return Err(Error::Corrupt("a rename to nowhere".to_owned())),
        };
        if let Some(at) = dotdot {
            self.region.store(at, &dirs[dst].inode.ino.to_le_bytes())?;
        }
        moved.set_ctime(Timestamp::now());
        self.store_half(change.moved, &moved)?;
        // Only now the record before the old name is known.
        let from = &mut dirs[src];
        let removal = match (change.removed, change.whiteout) {
            (Some(removal), _) => Some(removal),
            (None, Some((whiteout, new))) => {
                self.init_inode(whiteout, new, (FileKind::CharDevice, 0), (0, 0))?;
                self.redirect_name(&from.raw, change.source, whiteout.ino)?;
                self.touch_dir(from.inode, &mut from.raw)?;
                None
            }
            (None, None) => {
                let removal = self.plan_removal(&from.raw, change.source)?;
                self.journal.log(tx, &[removal.logged()])?;
                self.remove_name((from.inode, &mut from.raw), &removal)?;
                Some(removal)
            }
        };
        let mut orphan = false;
        if let (Some(replaced), Some(old)) = (change.replaced, &mut old) {
            self.drop_link(replaced, old, 1 + lost)?;
            orphan = old.links == 0;
        }
        Ok(Moved { inserted, removal, orphan })
    }

    /// Exchanges two names.
    fn exchange(
        &self,
        dirs: &mut [Dir<'_>],
        (src, dst): (usize, usize),
        (source, target): (Found, Found),
        (first, second): (&Inode, &Inode),
    ) -> Result<()> {
        let crosses = src != dst;
        let records = (self.record_at(&dirs[src].raw, source)?, self.record_at(&dirs[dst].raw, target)?);
        let dotdots = (self.dotdot_of(first, crosses)?, self.dotdot_of(second, crosses)?);
        let mut ranges =
            ran::collected([dirs[src].half(), ByteRun::new(records.0, 8), ByteRun::new(records.1, 8)]);
        ranges.extend(crosses.then(|| dirs[dst].half()));
        ranges.extend([dotdots.0, dotdots.1].into_iter().flatten().map(|at| ByteRun::new(at, 8)));
        ranges.extend([first.half(), second.half()]);
        let tx = self.begin_names(&ranges, None)?;
        let work = (|| {
            self.redirect_name(&dirs[src].raw, source, target.ino)?;
            self.redirect_name(&dirs[dst].raw, target, source.ino)?;
            let (from, to) = (dirs[src].inode.ino, dirs[dst].inode.ino);
            for (at, parent) in [(dotdots.0, to), (dotdots.1, from)] {
                at.map_or(Ok(()), |at| self.region.store(at, &parent.to_le_bytes()))?;
            }
            let (gained, lost) = (u16::from(dotdots.0.is_some()), u16::from(dotdots.1.is_some()));
            dirs[dst].raw.links = dirs[dst].raw.links.saturating_add(gained).saturating_sub(lost);
            dirs[src].raw.links = dirs[src].raw.links.saturating_add(lost).saturating_sub(gained);
            for dir in dirs.iter_mut() {
                self.touch_dir(dir.inode, &mut dir.raw)?;
            }
            for inode in [first, second] {
                let mut raw = self.raw(inode)?;
                raw.set_ctime(Timestamp::now());
                self.store_half(inode, &raw)?;
            }
            Ok(())
        })();
        self.end(tx, work)
    }

    /// The names of a directory, as the interface wants them.
    pub(crate) fn read_dir(
        &self,
        ino: u64,
        cursor: u64,
        sink: &mut dyn FnMut(&[u8], Ino, u64) -> bool,
    ) -> Result<()> {
        let inode = self.inodes.get(ino)?;
        let state = inode.state.read();
        let raw = self.live_or_open(inode, &state)?;
        if !is_dir(&raw) {
            return Err(Error::NotDirectory);
        }
        if raw.links == 0 {
            return Ok(());
        }
        self.list_names(&raw, cursor, sink)
    }
}

/// A rename that moves one name.
struct Move<'v, 'n> {
    source: Found,
    target: Option<Found>,
    moved: &'v Inode,
    replaced: Option<&'v Inode>,
    old: &'n [u8],
    new: &'n [u8],
    /// The free inode that becomes the whiteout of the old name, and what it is to be.
    whiteout: Option<(&'v Inode, &'n NewInode)>,
    /// The old name is gone before the transaction ([`mutant::RENAME_REMOVES_FIRST`]).
    removed: Option<Removal>,
}

/// What a rename did, for the indexes and the caller.
struct Moved {
    /// Where the new name went, when nothing had it.
    inserted: Option<Inserted>,
    /// None where the old name leads to a whiteout.
    removal: Option<Removal>,
    /// The replaced inode lost its last name.
    orphan: bool,
}

/// Locks one or two inodes in order.
fn lock_in_order<'a>(
    volume: &'a Volume,
    one: &'a Inode,
    other: Option<&'a Inode>,
) -> Result<(Locked<'a>, Option<Locked<'a>>)> {
    let Some(other) = other else { return Ok((volume.lock(one), None)) };
    // What an inode is stays so while it has a name, and the directories of both names are locked.
    let place = |inode: &Inode| -> Result<(bool, u64)> {
        let mode = volume.region.load_u16(inode.offset + ino::MODE)?;
        let is_dir = FileKind::from_mode(u32::from(mode)) == Some(FileKind::Directory);
        Ok(rename::place_of_lock(is_dir, inode.ino))
    };
    if place(one)? < place(other)? {
        let first = volume.lock(one);
        return Ok((first, Some(volume.lock(other))));
    }
    let first = volume.lock(other);
    Ok((volume.lock(one), Some(first)))
}
