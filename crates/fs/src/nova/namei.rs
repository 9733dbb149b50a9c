//! Names: what changes a directory.
//!
//! Each call locks, looks, writes its entries behind the tails of all logs that it is about, and makes them count in one
//! transaction of the journal: the tails, and the state of an inode that comes or goes.
//!
//! | call | entries | words |
//! |---|---|---|
//! | create, mknod, symlink, mkdir | name; `..` or the target in a log of its own | tail of the directory; state of the inode |
//! | link | name; link count | two tails |
//! | unlink, rmdir | removal; link count, while links are left | tail of the directory; tail or state of the inode |
//! | rename | name, removal; link count, or a new `..` | tails of directories and inode; tail or state of what is replaced |
//! | rename to a whiteout | name, the old name again | as rename; state of the whiteout |
//! | exchange | a name each | each directory's tail, each inode's |
//!
//! Lock order: `nova.rename`, then directories, an ancestor before its descendants and otherwise by number, then the inodes that
//! the names lead to, directories first and otherwise by number, then the leaves (`nova.inode_table`, `nova.journal`,
//! `nova.blocks`).

use std::sync::atomic::Ordering::Relaxed;

use media::event::Mark;
use sim::ByteRun;
use vfs::{Attr, FileKind, NewInode, Timestamp};

use super::Volume;
use super::alloc::{Extent, Need, Taken};
use super::dir::Known;
use super::file::Freed;
use super::inode::{Changing, Facts, Inode, InodeState, Loaded, apply_name, apply_write};
use super::journal::Words;
use super::layout::{
    BLOCK, FILE_BLOCKS_MAX, LinksEntry, MAX_LINKS, NameEntry, WriteEntry, ino, kind, pack, state, state_word,
};
use super::log::{Append, Log};
use super::mutant;
use super::parts;
use base::error::{Error, Result};
use base::opens::LosingName;

/// What a new inode is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'a> {
    pub(crate) kind: FileKind,
    pub(crate) rdev: u64,
    pub(crate) new: &'a NewInode,
    /// Of a symbolic link.
    pub(crate) target: &'a [u8],
}

/// What is written of a change of names and does not count yet.
pub(super) struct Plan {
    pub(super) words: Words,
    pub(super) needs: Vec<ByteRun>,
    pub(super) now: u64,
}

/// A name entry behind a tail: where it is, what it says.
pub(super) type Written = (u64, NameEntry);

/// The log and the block with which an inode begins.
struct Body<'v> {
    append: Append<'v>,
    data: Taken<'v>,
    dots: Option<Written>,
    target: Option<(WriteEntry, u64)>,
}

impl Body<'_> {
    /// Head and tail of the log.
    fn ends(&self) -> (u64, u64) {
        let mut ends = (0, 0);
        for (at, value) in self.append.words(0, &Log::default()) {
            match at {
                ino::HEAD => ends.0 = value,
                _ => ends.1 = value,
            }
        }
        if ends.0 == 0 { (0, 0) } else { ends }
    }

    /// What the inode is in DRAM when it counts.
    fn into_loaded(self, facts: Facts) -> Loaded {
        let mut loaded = Loaded { facts, ..Loaded::default() };
        if self.ends().0 != 0 {
            self.append.apply(&mut loaded.log);
        }
        self.data.keep();
        if let Some((at, header)) = self.dots {
            apply_name(&mut loaded, (at, &header), b"..");
        }
        if let Some((entry, at)) = self.target {
            apply_write(&mut loaded, &entry, at, |_, _| ());
        }
        loaded
    }
}

impl Volume {
    pub(super) fn plan() -> Plan {
        Plan { words: Words::default(), needs: Vec::new(), now: pack(Timestamp::now()) }
    }

    /// Adds what an append makes of its inode.
    pub(super) fn plan_append(plan: &mut Plan, inode: &Inode, log: &Log, append: &Append<'_>) {
        plan.words.extend(append.words(inode.offset, log));
        plan.needs.extend_from_slice(append.needs());
    }

    pub(super) fn plan_state(plan: &mut Plan, inode: &Changing<'_>, state: u32) {
        plan.words.add(inode.inode.offset + ino::STATE, state_word(inode.facts.generation, state));
    }

    /// Locks a directory that has a name.
    pub(super) fn lock_dir(&self, number: u64) -> Result<Changing<'_>> {
        let dir = self.changing(self.inodes.get(number)?)?;
        match () {
            () if !dir.facts.is_dir() => Err(Error::NotDirectory),
            () if dir.facts.links == 0 => Err(Error::NoEntry),
            () => Ok(dir),
        }
    }

    pub(super) fn find_in(&self, dir: &Loaded, name: &[u8]) -> Result<Option<(u32, Known)>> {
        dir.names.find(&self.region, name)
    }

    /// The inode that `name` leads to.
    pub(crate) fn lookup_name(&self, parent: u64, name: &[u8]) -> Result<u64> {
        let _part = sim::part(&parts::LOOKUP);
        let dir = self.reading(self.inodes.get(parent)?)?;
        match () {
            () if !dir.facts.is_dir() => Err(Error::NotDirectory),
            () if dir.facts.links == 0 => Err(Error::NoEntry),
            () => self.find_in(&dir, name)?.map(|(_, known)| known.ino).ok_or(Error::NoEntry),
        }
    }

    pub(super) fn write_name(
        &self,
        append: &mut Append<'_>,
        (links, now): (u32, u64),
        (name, number): (&[u8], u64),
    ) -> Result<Written> {
        let _part = sim::part(&parts::ADD_DENTRY);
        let header = NameEntry {
            kind: kind::NAME,
            name_len: name.len() as u8,
            links: u16::try_from(links).unwrap_or(u16::MAX),
            ino: number,
            time: now,
            ..NameEntry::default()
        };
        Ok((self.append_name(append, header, name)?, header))
    }

    pub(super) fn write_links(&self, append: &mut Append<'_>, (links, now): (u32, u64)) -> Result<u64> {
        self.append(append, &LinksEntry { kind: kind::LINKS, links, ctime: now, ..LinksEntry::default() })
    }

    /// Makes a new inode called `name`.
    pub(crate) fn make(&self, parent: u64, name: &[u8], node: Node<'_>) -> Result<Attr> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut dir = self.lock_dir(parent)?;
        if self.find_in(&dir, name)?.is_some() {
            return Err(Error::Exists);
        }
        let is_dir = node.kind == FileKind::Directory;
        if is_dir && dir.facts.links >= MAX_LINKS {
            return Err(Error::TooManyLinks);
        }
        self.make_log_room(&mut dir);
        let claim = self.claim_inode()?;
        if claim.inode.ino == parent {
            return Err(Error::Corrupt(format!("directory {parent} is in use and free")));
        }
        let mut child = Self::lock_new(claim.inode);
        let mut plan = Self::plan();
        let body = self.make_body(claim.inode.ino, parent, plan.now, node)?;
        let (facts, state) =
            self.write_inode(claim.inode, node.new, (node.kind, node.rdev), body.ends(), plan.now)?;
        let mut append = self.begin_append(&dir.log, Need::Growth);
        let links = dir.facts.links + u32::from(is_dir);
        let written = self.write_name(&mut append, (links, plan.now), (name, claim.inode.ino))?;
        Self::plan_append(&mut plan, dir.inode, &dir.log, &append);
        plan.words.add(claim.inode.offset + ino::STATE, state);
        plan.needs.extend_from_slice(body.append.needs());
        sim::ran::push(&mut plan.needs, ByteRun::new(claim.inode.offset + 8, ino::NEXT_CHUNK - 8));
        self.transact(&plan.words, &plan.needs)?;
        append.apply(&mut dir.log);
        apply_name(&mut dir, (written.0, &written.1), name);
        claim.keep();
        self.inodes.note_loaded(child.inode.ino);
        child.become_live(body.into_loaded(facts))
    }

    /// The log of a new directory with its `..`, or that of a symbolic link with its target.
    fn make_body(&self, number: u64, parent: u64, now: u64, node: Node<'_>) -> Result<Body<'_>> {
        let append = self.begin_append(&Log::default(), Need::Growth);
        let mut body = Body { append, data: Taken::new(&self.blocks), dots: None, target: None };
        if node.kind == FileKind::Directory {
            body.dots = Some(self.write_name(&mut body.append, (2, now), (b"..", parent))?);
        }
        if node.kind == FileKind::Symlink {
            let extent = body.data.take(1, Need::Growth)?;
            self.region.nt_store(extent.offset, node.target)?;
            let rest = BLOCK - node.target.len() as u64;
            self.region.nt_zero(extent.offset + node.target.len() as u64, rest)?;
            body.append.needs_data(&self.region, extent.offset, BLOCK);
            let entry = WriteEntry {
                kind: kind::WRITE,
                block: extent.offset,
                pages: 1,
                size: node.target.len() as u64,
                time: now,
                ..WriteEntry::default()
            };
            let at = self.append(&mut body.append, &entry)?;
            body.target = Some((entry, at));
        }
        debug_assert!(number != parent, "a new inode is not its own parent");
        Ok(body)
    }

    /// Makes a regular file without a name that is open once.
    pub(crate) fn make_nameless(&self, new: &NewInode) -> Result<Attr> {
        let _scope = sim::scope(media::charges::METADATA);
        let claim = self.claim_inode()?;
        let inode = claim.inode;
        let mut file = Self::lock_new(inode);
        let now = pack(Timestamp::now());
        let (facts, live) = self.write_inode(inode, new, (FileKind::Regular, 0), (0, 0), now)?;
        self.region.fence();
        let word = state_word((live >> 32) as u32, state::ORPHAN);
        self.store_state(inode, word, &[ByteRun::new(inode.offset + 8, ino::NEXT_CHUNK - 8)])?;
        claim.keep();
        self.orphans.fetch_add(1, Relaxed);
        self.inodes.note_loaded(inode.ino);
        let attr = file.become_live(Loaded { facts: Facts { links: 0, ..facts }, ..Loaded::default() });
        *file.state() = InodeState { nameless: true, loaded: file.state().loaded.take() };
        inode.opens.begin_nameless();
        attr
    }

    /// Stores the state of an inode by itself; durable on return.
    fn store_state(&self, inode: &Inode, word: u64, needs: &[ByteRun]) -> Result<()> {
        let at = inode.offset + ino::STATE;
        self.region.mark(Mark::Commit { at, needs });
        self.region.store_u64(at, word)?;
        self.region.flush(at, 8);
        self.region.fence();
        Ok(())
    }

    /// Adds a name to an inode that is not a directory.
    pub(crate) fn link(&self, number: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut dir = self.lock_dir(parent)?;
        if self.find_in(&dir, name)?.is_some() {
            return Err(Error::Exists);
        }
        let inode = self.inodes.get(number)?;
        // A directory must not be locked here: it may be above `parent`.
        let mode: u32 = self.region.read(inode.offset + ino::MODE)?;
        // A damaged mode does not hide that an inode is the directory that is locked.
        if number == parent || FileKind::from_mode(mode) == Some(FileKind::Directory) {
            return Err(Error::NotPermitted);
        }
        let mut file = self.changing(inode)?;
        let links = file.facts.links + 1;
        let nameless = file.state().nameless;
        match file.facts.links {
            0 if !nameless => return Err(Error::NoEntry),
            MAX_LINKS.. => return Err(Error::TooManyLinks),
            _ => {}
        }
        self.make_log_room(&mut dir);
        self.make_log_room(&mut file);
        let mut plan = Self::plan();
        let mut to = self.begin_append(&dir.log, Need::Growth);
        let written = self.write_name(&mut to, (dir.facts.links, plan.now), (name, number))?;
        let mut own = self.begin_append(&file.log, Need::Growth);
        let counted = self.write_links(&mut own, (links, plan.now))?;
        Self::plan_append(&mut plan, dir.inode, &dir.log, &to);
        Self::plan_append(&mut plan, inode, &file.log, &own);
        if links == 1 {
            Self::plan_state(&mut plan, &file, state::LIVE);
        }
        self.transact(&plan.words, &plan.needs)?;
        to.apply(&mut dir.log);
        apply_name(&mut dir, (written.0, &written.1), name);
        own.apply(&mut file.log);
        apply_links(&mut file, (links, plan.now), counted);
        if links == 1 {
            self.orphans.fetch_sub(1, Relaxed);
            file.state().nameless = false;
            inode.opens.keep_name();
        }
        inode.attr(&file)
    }

    /// Removes a name that is not a directory's, and with its last name the inode, unless that is open.
    pub(crate) fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut dir = self.lock_dir(parent)?;
        let (slot, known) = self.find_in(&dir, name)?.ok_or(Error::NoEntry)?;
        if known.ino == parent {
            return Err(Error::IsDirectory);
        }
        let mut file = self.changing(self.inodes.get(known.ino)?)?;
        if file.facts.is_dir() {
            return Err(Error::IsDirectory);
        }
        let links = dir.facts.links;
        self.remove_name(&mut dir, (slot, name), &mut file, links)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let mut dir = self.lock_dir(parent)?;
        let (slot, known) = self.find_in(&dir, name)?.ok_or(Error::NoEntry)?;
        if known.ino == parent {
            return Err(Error::Corrupt(format!("directory {parent} contains itself")));
        }
        let mut victim = self.changing(self.inodes.get(known.ino)?)?;
        if !victim.facts.is_dir() {
            return Err(Error::NotDirectory);
        }
        if victim.names.len() > 0 {
            return Err(Error::NotEmpty);
        }
        let links = dir.facts.links.saturating_sub(1);
        self.remove_name(&mut dir, (slot, name), &mut victim, links)
    }

    /// Removes a name, one link of what it leads to, and that if it was the last. The directory has `links` then.
    fn remove_name(
        &self,
        dir: &mut Changing<'_>,
        (slot, name): (u32, &[u8]),
        victim: &mut Changing<'_>,
        links: u32,
    ) -> Result<()> {
        let _part = sim::part(&parts::REMOVE_DENTRY);
        self.make_log_room(dir);
        let mut plan = Self::plan();
        let mut from = self.begin_append(&dir.log, Need::Removal);
        let written = self.write_name(&mut from, (links, plan.now), (name, 0))?;
        Self::plan_append(&mut plan, dir.inode, &dir.log, &from);
        let lost = self.lose_link(&mut plan, victim)?;
        self.transact(&plan.words, &plan.needs)?;
        from.apply(&mut dir.log);
        drop_name(dir, slot);
        apply_name(dir, (written.0, &written.1), name);
        self.lost_link(victim, lost, plan.now);
        Ok(())
    }

    /// Plans that an inode has one link less, or a directory none.
    pub(super) fn lose_link<'v, 'i>(
        &'v self,
        plan: &mut Plan,
        victim: &mut Changing<'i>,
    ) -> Result<Lost<'v, 'i>> {
        let links = if victim.facts.is_dir() { 0 } else { victim.facts.links.saturating_sub(1) };
        if links > 0 {
            self.make_log_room(victim);
            let mut own = self.begin_append(&victim.log, Need::Removal);
            let at = self.write_links(&mut own, (links, plan.now))?;
            Self::plan_append(plan, victim.inode, &victim.log, &own);
            return Ok(Lost { links, counted: Some((own, at)), name: None });
        }
        let name = victim.inode.opens.losing_name();
        let state = if name.frees { state::FREE } else { state::ORPHAN };
        if self.has(mutant::STATE_NOT_LOGGED) {
            self.store_state(victim.inode, state_word(victim.facts.generation, state), &[])?;
        } else {
            Self::plan_state(plan, victim, state);
        }
        Ok(Lost { links, counted: None, name: Some(name) })
    }

    /// Lets an inode follow the loss of a link that counts.
    pub(super) fn lost_link(&self, victim: &mut Changing<'_>, lost: Lost<'_, '_>, now: u64) {
        if let Some((own, at)) = lost.counted {
            own.apply(&mut victim.log);
            apply_links(victim, (lost.links, now), at);
            return;
        }
        (victim.facts.links, victim.facts.ctime) = (0, now);
        match lost.name.is_some_and(LosingName::done) {
            true => self.free_contents(victim),
            false => _ = self.orphans.fetch_add(1, Relaxed),
        }
    }

    /// Gives back everything of an inode that is free on the medium.
    fn free_contents(&self, gone: &mut Changing<'_>) {
        let _part = sim::part(&parts::FREE_CONTENTS);
        let inode = gone.inode;
        let loaded = gone.unload();
        self.maps.forget(inode.ino);
        let mut freed = Freed::default();
        loaded.blocks.for_each(0, FILE_BLOCKS_MAX, |page, place| freed.add(page, place.block()));
        let mut done = self.retire(inode, ino::STATE, &freed);
        if let Some(cache) = &self.cache {
            cache.remove(inode.ino);
        }
        let pages = loaded.log.pages.iter().map(|page| page.page);
        let attributes = loaded.attributes.iter().map(|at| at / BLOCK);
        for block in pages.chain(attributes) {
            self.region.mark(Mark::Free { off: block * BLOCK, len: BLOCK, pointer: inode.offset });
            done = done.and(self.blocks.put(Extent { offset: block * BLOCK, blocks: 1 }));
        }
        match done {
            Ok(()) => self.inodes.put(inode.ino),
            Err(_) => self.blocks.doubt(),
        }
    }

    /// Frees an inode without names that is not open any more. One that cannot be freed now is freed by the next sync or mount.
    pub(crate) fn reap(&self, inode: &Inode) {
        let freed = self.check_sound().and_then(|()| self.changing(inode)).and_then(|mut file| {
            if file.facts.links > 0 || !inode.opens.lose_name() {
                return Ok(());
            }
            self.store_state(inode, state_word(file.facts.generation, state::FREE), &[])?;
            self.orphans.fetch_sub(1, Relaxed);
            self.free_contents(&mut file);
            Ok(())
        });
        if freed.is_err_and(|error| error != Error::NoEntry) {
            self.left_over.lock().push(inode.ino);
        }
    }

    /// Frees what could not be freed when it was closed.
    pub(crate) fn reap_left_over(&self) {
        let left = std::mem::take(&mut *self.left_over.lock());
        left.into_iter().filter_map(|number| self.inodes.get(number).ok()).for_each(|inode| self.reap(inode));
    }
}

/// A link that is lost when the transaction counts.
pub(super) struct Lost<'v, 'i> {
    links: u32,
    counted: Option<(Append<'v>, u64)>,
    /// It was the last.
    name: Option<LosingName<'i>>,
}

/// Takes a name out of a directory's index, of which a removal or another name is written.
pub(super) fn drop_name(dir: &mut Loaded, slot: u32) {
    if let Some(at) = dir.names.remove(slot) {
        dir.log.drop_live(at / BLOCK);
    }
}

/// Lets an inode follow an entry of its link count.
pub(super) fn apply_links(loaded: &mut Loaded, (links, now): (u32, u64), at: u64) {
    (loaded.facts.links, loaded.facts.ctime) = (links, now);
    loaded.log.pin(at / BLOCK);
}
