//! Renaming: one transaction over up to two directories, what is moved, and what is replaced.
//!
//! Lock order and words: see `namei.rs`. An entry of a name that is there replaces the older one, so that the name of what is
//! replaced needs no removal of its own.

use std::sync::atomic::Ordering::Relaxed;

use sim::ByteRun;
use vfs::{FileKind, NewInode, RenameFlags, Renaming, rename};

use super::Volume;
use super::alloc::Need;
use super::dir::Known;
use super::inode::{Changing, Claim, Facts, Loaded, apply_name};
use super::layout::{MAX_LINKS, ino};
use super::log::Append;
use super::mutant;
use super::namei::{Plan, Written, apply_links, drop_name};
use base::error::{Error, Result};

/// What a rename is about.
#[derive(Clone, Copy)]
struct Move<'n> {
    /// Places of the two directories among those that are locked.
    src: usize,
    dst: usize,
    old: &'n [u8],
    new: &'n [u8],
    source: (u32, Known),
    target: Option<(u32, Known)>,
    /// What the whiteout is to be that the old name leads to, if one is wanted.
    whiteout: Option<&'n NewInode>,
}

impl Move<'_> {
    fn crosses(&self) -> bool {
        self.src != self.dst
    }
}

/// An inode that becomes a whiteout.
struct Whiteout<'v> {
    claim: Claim<'v>,
    locked: Changing<'v>,
    facts: Facts,
}

/// What was written to the log of an inode that changes its name.
enum Noted {
    Links(u32, u64),
    Parent(Written),
}

impl Volume {
    /// Whether `above` is directory `dir` or above it. The caller keeps directories from moving.
    fn is_below(&self, dir: u64, above: u64) -> Result<bool> {
        let below = rename::is_below(dir, above, self.geometry.most_inodes(), |dir| {
            let inode = self.inodes.get(dir)?;
            match inode.parent.load(Relaxed) {
                // Not loaded, so the caller has not locked it.
                0 => Ok::<_, Error>(self.reading(inode)?.names.parent),
                parent => Ok(parent),
            }
        })?;
        below.ok_or_else(|| Error::Corrupt(format!("directory {dir} is below itself")))
    }

    /// Locks one or two directories in order; the places of `from` and `to` in the result.
    fn lock_dirs(&self, from: u64, to: u64) -> Result<(Vec<Changing<'_>>, usize, usize)> {
        sim::ran::allocate(1);
        if from == to {
            return Ok((vec![self.lock_dir(from)?], 0, 0));
        }
        for number in [from, to] {
            if !self.reading(self.inodes.get(number)?)?.facts.is_dir() {
                return Err(Error::NotDirectory);
            }
        }
        let from_first = rename::is_locked_first(from, to, |dir, above| self.is_below(dir, above))?;
        match from_first {
            true => Ok((vec![self.lock_dir(from)?, self.lock_dir(to)?], 0, 1)),
            false => Ok((vec![self.lock_dir(to)?, self.lock_dir(from)?], 1, 0)),
        }
    }

    /// Renames, and gives the old name to a whiteout if one is wanted.
    pub(crate) fn rename(
        &self,
        (from, old): (u64, &[u8]),
        (to, new): (u64, &[u8]),
        Renaming { flags, whiteout }: Renaming<'_>,
    ) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let _rename = (from != to).then(|| self.renames.lock());
        let (mut dirs, src, dst) = self.lock_dirs(from, to)?;
        let source = self.find_in(&dirs[src], old)?.ok_or(Error::NoEntry)?;
        let target = self.find_in(&dirs[dst], new)?;
        let exchanges = flags.contains(RenameFlags::EXCHANGE);
        let numbers = (source.1.ino, target.map(|(_, known)| known.ino));
        if !rename::check_target(flags, numbers.0, numbers.1)? {
            return Ok(());
        }
        rename::check_subtrees(flags, (from, to), numbers, |dir, above| {
            // Only who holds the lock of renames may climb.
            Ok::<_, Error>(from != to && self.is_below(dir, above)?)
        })?;
        if [Some(numbers.0), numbers.1].iter().flatten().any(|number| *number == from || *number == to) {
            return Err(Error::Corrupt(format!("directory {from} or {to} contains itself")));
        }
        let (mut moved, mut replaced) = self.lock_both(numbers)?;
        if !exchanges {
            check_kinds(&dirs[dst], &moved, replaced.as_ref(), src != dst)?;
        }
        let change = Move { src, dst, old, new, source, target, whiteout };
        match replaced.as_mut() {
            Some(replaced) if exchanges => self.exchange(&mut dirs, change, &mut moved, replaced),
            replaced => self.move_name(&mut dirs, change, &mut moved, replaced),
        }
    }

    /// Locks what the names lead to, in order. What an inode is stays so while it has a name.
    fn lock_both(
        &self,
        (moved, replaced): (u64, Option<u64>),
    ) -> Result<(Changing<'_>, Option<Changing<'_>>)> {
        let lock = |number| self.changing(self.inodes.get(number)?);
        let Some(replaced) = replaced else { return Ok((lock(moved)?, None)) };
        let place = |number| {
            let is_dir = self.reading(self.inodes.get(number)?)?.facts.is_dir();
            Ok(rename::place_of_lock(is_dir, number))
        };
        let (of_moved, of_replaced): (Result<_>, Result<_>) = (place(moved), place(replaced));
        if of_replaced? < of_moved? {
            let replaced = lock(replaced)?;
            return Ok((lock(moved)?, Some(replaced)));
        }
        Ok((lock(moved)?, Some(lock(replaced)?)))
    }

    /// Writes the entry of an inode whose name changes: its parent, for a directory that gets another one; else its ctime.
    fn note_move<'v>(
        &'v self,
        plan: &mut Plan,
        inode: &mut Changing<'_>,
        parent: Option<u64>,
    ) -> Result<(Append<'v>, Noted)> {
        self.make_log_room(inode);
        let mut own = self.begin_append(&inode.log, Need::Growth);
        let links = inode.facts.links;
        let noted = match parent.filter(|_| inode.facts.is_dir()) {
            Some(parent) => Noted::Parent(self.write_name(&mut own, (links, plan.now), (b"..", parent))?),
            None => Noted::Links(links, self.write_links(&mut own, (links, plan.now))?),
        };
        Self::plan_append(plan, inode.inode, &inode.log, &own);
        Ok((own, noted))
    }

    fn move_name(
        &self,
        dirs: &mut [Changing<'_>],
        change: Move<'_>,
        moved: &mut Changing<'_>,
        mut replaced: Option<&mut Changing<'_>>,
    ) -> Result<()> {
        let Move { src, dst, .. } = change;
        for dir in dirs.iter_mut() {
            self.make_log_room(dir);
        }
        let claim = change.whiteout.map(|_| self.claim_inode()).transpose()?.zip(change.whiteout);
        let mut plan = Self::plan();
        let now = plan.now;
        let whiteout = claim.map(|(claim, new)| self.plan_whiteout(&mut plan, claim, new)).transpose()?;
        let left = whiteout.as_ref().map_or(0, |whiteout| whiteout.claim.inode.ino);
        let crosses = u32::from(moved.facts.is_dir() && change.crosses());
        let lost = u32::from(replaced.as_ref().is_some_and(|replaced| replaced.facts.is_dir()));
        let to_links = (dirs[dst].facts.links + crosses).saturating_sub(lost);
        let from_links =
            if change.crosses() { dirs[src].facts.links.saturating_sub(crosses) } else { to_links };
        let number = moved.inode.ino;
        let mut to = self.begin_append(&dirs[dst].log, Need::Growth);
        let added = self.write_name(&mut to, (to_links, now), (change.new, number))?;
        let mut from = change.crosses().then(|| self.begin_append(&dirs[src].log, Need::Growth));
        let removed =
            self.write_name(from.as_mut().unwrap_or(&mut to), (from_links, now), (change.old, left))?;
        Self::plan_append(&mut plan, dirs[dst].inode, &dirs[dst].log, &to);
        if let Some(from) = &from {
            Self::plan_append(&mut plan, dirs[src].inode, &dirs[src].log, from);
        }
        let parent = change.crosses().then(|| dirs[dst].inode.ino);
        let (own, noted) = self.note_move(&mut plan, moved, parent)?;
        let loses = replaced.as_mut().map(|replaced| self.lose_link(&mut plan, replaced)).transpose()?;
        if self.has(mutant::RENAME_IN_TWO_STEPS) {
            let first = plan.words.split_first();
            self.transact(&first, &plan.needs)?;
        }
        self.transact(&plan.words, &plan.needs)?;
        to.apply(&mut dirs[dst].log);
        if let Some(from) = from {
            from.apply(&mut dirs[src].log);
        }
        if let Some((slot, _)) = change.target {
            drop_name(&mut dirs[dst], slot);
        }
        apply_name(&mut dirs[dst], (added.0, &added.1), change.new);
        drop_name(&mut dirs[src], change.source.0);
        apply_name(&mut dirs[src], (removed.0, &removed.1), change.old);
        own.apply(&mut moved.log);
        apply_noted(moved, &noted, now);
        whiteout.map_or(Ok(()), |whiteout| self.whiteout_counts(whiteout))?;
        if let (Some(replaced), Some(loses)) = (replaced, loses) {
            self.lost_link(replaced, loses, now);
        }
        Ok(())
    }

    /// Writes a free inode as a whiteout, which lives when the plan counts.
    fn plan_whiteout<'v>(
        &'v self,
        plan: &mut Plan,
        claim: Claim<'v>,
        new: &NewInode,
    ) -> Result<Whiteout<'v>> {
        let inode = claim.inode;
        let locked = Self::lock_new(inode);
        let (facts, live) = self.write_inode(inode, new, (FileKind::CharDevice, 0), (0, 0), plan.now)?;
        plan.words.add(inode.offset + ino::STATE, live);
        plan.needs.push(ByteRun::new(inode.offset + 8, ino::NEXT_CHUNK - 8));
        Ok(Whiteout { claim, locked, facts })
    }

    /// The plan of a whiteout counts.
    fn whiteout_counts(&self, whiteout: Whiteout<'_>) -> Result<()> {
        let Whiteout { claim, mut locked, facts } = whiteout;
        claim.keep();
        self.inodes.note_loaded(locked.inode.ino);
        locked.become_live(Loaded { facts, ..Loaded::default() }).map(drop)
    }

    /// Lets two names change places.
    fn exchange(
        &self,
        dirs: &mut [Changing<'_>],
        change: Move<'_>,
        first: &mut Changing<'_>,
        second: &mut Changing<'_>,
    ) -> Result<()> {
        let Move { src, dst, .. } = change;
        let Some(target) = change.target else { return Err(Error::NoEntry) };
        for dir in dirs.iter_mut() {
            self.make_log_room(dir);
        }
        let mut plan = Self::plan();
        let now = plan.now;
        let crosses = |inode: &Changing<'_>| u32::from(inode.facts.is_dir() && change.crosses());
        let (comes, goes) = (crosses(first), crosses(second));
        let to_links = (dirs[dst].facts.links + comes).saturating_sub(goes);
        let from_links = match change.crosses() {
            true => (dirs[src].facts.links + goes).saturating_sub(comes),
            false => to_links,
        };
        let mut to = self.begin_append(&dirs[dst].log, Need::Growth);
        let there = self.write_name(&mut to, (to_links, now), (change.new, first.inode.ino))?;
        let mut from = change.crosses().then(|| self.begin_append(&dirs[src].log, Need::Growth));
        let second_name = (change.old, second.inode.ino);
        let here = self.write_name(from.as_mut().unwrap_or(&mut to), (from_links, now), second_name)?;
        Self::plan_append(&mut plan, dirs[dst].inode, &dirs[dst].log, &to);
        if let Some(from) = &from {
            Self::plan_append(&mut plan, dirs[src].inode, &dirs[src].log, from);
        }
        let parents = change.crosses().then(|| (dirs[dst].inode.ino, dirs[src].inode.ino));
        let (own, noted) = self.note_move(&mut plan, first, parents.map(|(to, _)| to))?;
        let (other, also) = self.note_move(&mut plan, second, parents.map(|(_, from)| from))?;
        self.transact(&plan.words, &plan.needs)?;
        to.apply(&mut dirs[dst].log);
        if let Some(from) = from {
            from.apply(&mut dirs[src].log);
        }
        drop_name(&mut dirs[dst], target.0);
        drop_name(&mut dirs[src], change.source.0);
        apply_name(&mut dirs[dst], (there.0, &there.1), change.new);
        apply_name(&mut dirs[src], (here.0, &here.1), change.old);
        own.apply(&mut first.log);
        apply_noted(first, &noted, now);
        other.apply(&mut second.log);
        apply_noted(second, &also, now);
        Ok(())
    }
}

fn apply_noted(inode: &mut Changing<'_>, noted: &Noted, now: u64) {
    match noted {
        Noted::Links(links, at) => apply_links(inode, (*links, now), *at),
        Noted::Parent((at, header)) => {
            apply_name(inode, (*at, header), b"..");
            inode.inode.parent.store(header.ino, Relaxed);
        }
    }
}

fn check_kinds(
    to: &Changing<'_>,
    moved: &Changing<'_>,
    replaced: Option<&Changing<'_>>,
    crosses: bool,
) -> Result<()> {
    let is_dir = moved.facts.is_dir();
    match replaced {
        Some(old) => {
            rename::check_kinds(RenameFlags::empty(), is_dir, old.facts.is_dir())?;
            if old.names.len() > 0 { Err(Error::NotEmpty) } else { Ok(()) }
        }
        None if is_dir && crosses && to.facts.links >= MAX_LINKS => Err(Error::TooManyLinks),
        _ => Ok(()),
    }
}
