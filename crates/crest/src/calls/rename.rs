//! Renaming: one record that removes the old name, and the target's if there is one, and adds the new name.
//!
//! The lock order is in `locks.rs`. With a whiteout the record is one of a group: the other one makes the whiteout, under the old
//! name.

use std::sync::Arc;

use vfs::{FileKind, RenameFlags, Renaming, rename};

use super::Volume;
use super::namei::{Node, add, removal};
use crate::format::layout::LINE;
use crate::format::record::{Body, Item, Names, group};
use crate::format::zone::Want;
use crate::index::beside::Naming;
use crate::index::dir::Known;
use crate::index::inode::{Changing, Inode, LINKS_MAX, State, implicit, now};
use crate::store::commit::Committed;
use crate::store::log::Call;
use base::error::{Error, Result};
use sim::ran;

/// The index of the name that a rename adds: a whiteout's record has the first.
const ADDED: u8 = 1;

/// What a rename is about.
struct Move<'n, 'a> {
    /// The two directories; one if both names are in it.
    dirs: Vec<Naming<'a>>,
    /// Their places among these.
    src: usize,
    dst: usize,
    old: &'n [u8],
    new: &'n [u8],
    source: Known,
    target: Option<Known>,
}

impl Move<'_, '_> {
    fn crosses(&self) -> bool {
        self.src != self.dst
    }

    /// The time of the change: later than those of all that it is about.
    fn time(&self, shard: usize, moved: &State, replaced: Option<&State>) -> u64 {
        let now = now();
        let dirs = self.dirs.iter().map(|dir| dir.stamp(shard, now)).max().unwrap_or(now);
        dirs.max(moved.stamp(now)).max(replaced.map_or(0, |replaced| replaced.stamp(now)))
    }

    /// The names have changed: so many directories more are under the new one's, and have gone from under the old one's.
    fn changed(&mut self, shard: usize, time: u64, (source, target): (i32, i32)) {
        if self.crosses() {
            self.dirs[self.src].changed(shard, time, source);
            self.dirs[self.dst].changed(shard, time, target);
        } else {
            self.dirs[self.src].changed(shard, time, source + target);
        }
    }
}

impl Volume {
    fn is_below(&self, dir: u64, above: u64) -> Result<bool> {
        // Each has a line of the log, at least.
        let inodes_max = self.region.len() / LINE as u64;
        let below = rename::is_below(dir, above, inodes_max, |dir| self.parent_of(dir))?;
        below.ok_or_else(|| Error::Corrupt(format!("directory {dir} is below itself")))
    }

    /// Locks one or two directories in order, for changes of a name in each; the places of the two in the result.
    fn lock_dirs<'a>(
        &self,
        (from, old): (&'a Inode, &[u8]),
        (to, new): (&'a Inode, &[u8]),
        alone: bool,
    ) -> Result<(Vec<Naming<'a>>, usize, usize)> {
        let lock = |inode: &'a Inode, name: &[u8], other: Option<&[u8]>| {
            if alone { inode.naming_alone() } else { self.naming(inode, name, other) }
        };
        ran::allocate(1);
        if from.ino == to.ino {
            return Ok((vec![lock(from, old, Some(new))?], 0, 0));
        }
        if !from.is_dir || !to.is_dir {
            return Err(Error::NotDirectory);
        }
        match rename::is_locked_first(from.ino, to.ino, |dir, above| self.is_below(dir, above))? {
            true => Ok((vec![lock(from, old, None)?, lock(to, new, None)?], 0, 1)),
            false => Ok((vec![lock(to, new, None)?, lock(from, old, None)?], 1, 0)),
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
        self.tend();
        // The tree must not change while directories are locked in its order. Whether a directory moves is known when the names
        // are.
        let shared = (from != to).then(|| self.renames.read());
        let how = Renaming { flags, whiteout };
        if self.rename_under((from, old), (to, new), how, false)? {
            return Ok(());
        }
        drop(shared);
        let _alone = (from != to).then(|| self.renames.write());
        self.rename_under((from, old), (to, new), how, true).map(drop)
    }

    /// Renames with the lock of renames, where the name goes to another directory, and those of the directories held exclusively or
    /// not; false if a directory moves, for which they must be.
    fn rename_under(
        &self,
        (from, old): (u64, &[u8]),
        (to, new): (u64, &[u8]),
        Renaming { flags, whiteout }: Renaming<'_>,
        alone: bool,
    ) -> Result<bool> {
        let parents = (self.inodes.get(from)?, self.inodes.get(to)?);
        let (dirs, src, dst) = self.lock_dirs((&parents.0, old), (&parents.1, new), alone)?;
        let source = dirs[src].dir()?.find(old).ok_or(Error::NoEntry)?;
        let target = dirs[dst].dir()?.find(new);
        let numbers = (source.ino, target.map(|target| target.ino));
        if !rename::check_target(flags, numbers.0, numbers.1)? {
            return Ok(true);
        }
        let inodes = (self.inodes.get(numbers.0)?, numbers.1.map(|ino| self.inodes.get(ino)).transpose()?);
        let moves_dir = inodes.0.is_dir || inodes.1.as_ref().is_some_and(|other| other.is_dir);
        if moves_dir && !alone && (from != to || dirs.iter().any(Naming::is_beside)) {
            return Ok(false);
        }
        rename::check_subtrees(flags, (from, to), numbers, |dir, above| {
            // Only who holds the lock of renames may climb.
            Ok::<_, Error>(from != to && self.is_below(dir, above)?)
        })?;
        let (mut moved, mut replaced) = lock_both(&inodes.0, inodes.1.as_deref())?;
        self.settle_named(&mut moved)?;
        let change = Move { dirs, src, dst, old, new, source, target };
        let done = match (&mut replaced, &inodes.1) {
            (Some(replaced), Some(other)) if flags.contains(RenameFlags::EXCHANGE) => {
                self.settle_named(replaced)?;
                self.exchange(change, (&inodes.0, &mut moved), (other, replaced))
            }
            (replaced, _) => {
                check_kinds(&change, &moved, replaced.as_deref())?;
                let node = whiteout.map(|new| Node { kind: FileKind::CharDevice, rdev: 0, new, target: &[] });
                self.move_name(change, (&inodes.0, &mut moved), replaced.as_mut(), node)
            }
        };
        done.map(|()| true)
    }

    /// Makes the records of a rename durable.
    fn commit_rename(
        &self,
        time: u64,
        items: &[Item],
        whiteout: Option<(Node<'_>, u64, &[u8])>,
    ) -> Result<Committed<'_>> {
        let Some((node, dir, name)) = whiteout else {
            return self.commit_names(Want::Records, time, items);
        };
        if !self.region.grants_space() {
            return Err(Error::NoSpace);
        }
        let call = Call { want: Want::Records, after: 0, makes: true, needs: &[] };
        self.commit(call, |ticket| {
            ran::allocate(8);
            let names = Body::Names(Names { time, items: items.to_vec() });
            group(ticket.id, vec![node.create(ticket.ino, (dir, name), time), names])
        })
    }

    fn move_name(
        &self,
        mut change: Move<'_, '_>,
        (inode, moved): (&Arc<Inode>, &mut Changing<'_>),
        replaced: Option<&mut Changing<'_>>,
        whiteout: Option<Node<'_>>,
    ) -> Result<()> {
        let (from, to) = (change.dirs[change.src].ino, change.dirs[change.dst].ino);
        let shard = self.shard();
        let time = change.time(shard, moved, replaced.as_ref().map(|replaced| &***replaced));
        let mut items = Vec::with_capacity(3);
        ran::allocate(1);
        items.push(removal(from, moved.ino, change.source.add));
        items.extend(change.target.map(|target| removal(to, target.ino, target.add)));
        items.push(add(ADDED, to, moved.ino, change.new));
        let made = whiteout.map(|node| (node, from, change.old));
        let done = self.commit_rename(time, &items, made)?;
        let (src, dst) = (change.src, change.dst);
        self.unpublish_name(&change.dirs[src], change.old);
        if change.target.is_some() {
            self.unpublish_name(&change.dirs[dst], change.new);
        }
        self.publish_name(&change.dirs[dst], change.new, moved.ino, (done.ticket.id, ADDED));
        if change.crosses() {
            Self::set_parent(inode, to);
        }
        if let Some(node) = whiteout {
            self.publish_inode(node.state(&done.ticket, time), from);
            let add = (done.ticket.id, 0);
            self.publish_name(&change.dirs[src], change.old, done.ticket.ino, add);
        }
        moved.ctime = implicit(time);
        let (is_dir, mut gone) = (i32::from(moved.is_dir()), 0);
        if let Some(replaced) = replaced {
            gone = i32::from(replaced.is_dir());
            self.lose_name(replaced, time, &done);
        }
        change.changed(shard, time, (-is_dir, is_dir - gone));
        Ok(())
    }

    /// Lets two names change places.
    fn exchange(
        &self,
        mut change: Move<'_, '_>,
        (first_inode, first): (&Arc<Inode>, &mut Changing<'_>),
        (second_inode, second): (&Arc<Inode>, &mut Changing<'_>),
    ) -> Result<()> {
        let Some(target) = change.target else { return Err(Error::NoEntry) };
        let (from, to) = (change.dirs[change.src].ino, change.dirs[change.dst].ino);
        let shard = self.shard();
        let time = change.time(shard, first, Some(second));
        ran::allocate(1);
        let items = vec![
            removal(from, first.ino, change.source.add),
            removal(to, second.ino, target.add),
            add(ADDED, to, first.ino, change.new),
            add(ADDED + 1, from, second.ino, change.old),
        ];
        let done = self.commit_rename(time, &items, None)?;
        let (src, dst) = (change.src, change.dst);
        self.unpublish_name(&change.dirs[src], change.old);
        self.unpublish_name(&change.dirs[dst], change.new);
        let id = done.ticket.id;
        self.publish_name(&change.dirs[dst], change.new, first.ino, (id, ADDED));
        self.publish_name(&change.dirs[src], change.old, second.ino, (id, ADDED + 1));
        let (goes, comes) = (i32::from(first.is_dir()), i32::from(second.is_dir()));
        if change.crosses() {
            Self::set_parent(first_inode, to);
            Self::set_parent(second_inode, from);
        }
        (first.ctime, second.ctime) = (implicit(time), implicit(time));
        change.changed(shard, time, (comes - goes, goes - comes));
        Ok(())
    }
}

/// Locks what the names lead to, in order.
fn lock_both<'a>(
    moved: &'a Inode,
    replaced: Option<&'a Inode>,
) -> Result<(Changing<'a>, Option<Changing<'a>>)> {
    let Some(replaced) = replaced else { return Ok((moved.changing()?, None)) };
    let place = |inode: &Inode| rename::place_of_lock(inode.is_dir, inode.ino);
    if place(replaced) < place(moved) {
        let replaced = replaced.changing()?;
        return Ok((moved.changing()?, Some(replaced)));
    }
    Ok((moved.changing()?, Some(replaced.changing()?)))
}

fn check_kinds(change: &Move<'_, '_>, moved: &State, replaced: Option<&State>) -> Result<()> {
    let to = &change.dirs[change.dst];
    match replaced {
        Some(old) => {
            rename::check_kinds(RenameFlags::empty(), moved.is_dir(), old.is_dir())?;
            if old.is_dir() && old.dir()?.len() > 0 { Err(Error::NotEmpty) } else { Ok(()) }
        }
        None if moved.is_dir() && change.crosses() && to.links >= LINKS_MAX => Err(Error::TooManyLinks),
        None => Ok(()),
    }
}
