//! Replays fast commits (`journal/fast.rs`): changes of inodes, names and extents, not of blocks.
//!
//! | step | what |
//! |---|---|
//! | 1 | blocks that the changes give to files are in use, so that nothing else gets them |
//! | 2 | each change in order: names in their directories, which find room for them anew; inodes and extents in memory |
//! | 3 | files get trees of their extents; inodes without links are freed, but for those on the list of orphans |
//! | 4 | blocks that a changed inode had and none has now are free |
//!
//! All is one transaction of the log, with the number that the fast commits have: before its commit block a replay finds the fast
//! commits, after it the transaction, whose end they do not belong to any more. A log without room for it is left to e2fsck.
//!
//! As in the kernel, the last tag of an inode gives its count of links, and a directory its names only: its size and its blocks
//! are what the replay makes of them. What the kernel and e2fsck leave out is replayed: short symbolic links and device numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use ::vfs::{FileKind, Timestamp};
use sim::Run;
use zerocopy::{FromBytes, IntoBytes};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::journal::fast::{Change, FastCommits, Name};
use super::layout::{RAW_INODE_BYTES, RawInode, flag};
use super::records::Target;
use super::runs::{Extent, Visited};
use super::{extent, map};
use base::error::{Error, Result};

/// An inode that the changes name.
struct File {
    inode: Arc<Inode>,
    /// The extents of a file that has them.
    extents: Option<Vec<Extent>>,
    /// Blocks of the map that are not of its extents.
    other_blocks: u64,
}

struct Replay<'a> {
    volume: &'a Volume,
    handle: Handle<'a>,
    /// Those on the list of orphans, which leads through their times of deletion, and in the kernel's file of orphans.
    orphans: Vec<u64>,
    files: BTreeMap<u64, File>,
    /// What the first tag of an inode says: it may follow a name, of a file that was made without one.
    first: BTreeMap<u64, Vec<u8>>,
    /// Blocks that changed inodes had, or get.
    touched: BTreeSet<u64>,
}

impl Volume {
    /// Carries out fast commits in the running transaction, which the caller commits. The volume is not mounted.
    pub(crate) fn replay_fast_commits(&self, found: &FastCommits) -> Result<()> {
        let (handle, mut orphans) = (self.begin(u32::MAX)?, self.orphan_list()?);
        orphans.extend(self.present_orphan_slots()?.keys());
        let (files, first, touched) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut replay = Replay { volume: self, handle, orphans, files, first, touched };
        replay.reserve(&found.changes)?;
        found.changes.iter().try_for_each(|change| replay.change(change))?;
        replay.finish()
    }
}

impl Replay<'_> {
    /// Step 1.
    fn reserve(&mut self, changes: &[Change]) -> Result<()> {
        for change in changes {
            if let Change::Inode(ino, bytes) = change {
                self.first.entry(*ino).or_insert_with(|| bytes.clone());
            }
            let Change::Add(ino, extent) = change else { continue };
            let (start, end) = (extent.start, extent.start + u64::from(extent.len));
            let inside = start > self.volume.geo.first_data_block && end <= self.volume.geo.blocks;
            if !inside || extent.len == 0 || u32::try_from(extent.end()).is_err() {
                let what =
                    format!("a fast commit gives inode {ino} blocks {start} to {end}, which cannot be");
                return Err(Error::Corrupt(what));
            }
            // What is in use already is that of an inode that changes, which is met later.
            self.touched.extend(self.volume.mark_blocks(&self.handle, start..end, true)?);
        }
        Ok(())
    }

    /// Step 2.
    fn change(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Inode(ino, bytes) => self.set_inode(*ino, bytes),
            Change::Add(ino, extent) => {
                let range = u64::from(extent.index)..extent.end();
                self.set_extents(*ino, range, Some(*extent))
            }
            Change::Remove(ino, from, len) => self.set_extents(*ino, *from..from + len, None),
            Change::Create(name) => {
                self.make_directory(name)?;
                self.add(name)?;
                self.has_one_name(name.ino)
            }
            Change::Link(name) => self.add(name),
            Change::Unlink(name) => self.remove(name),
        }
    }

    /// Whether an inode may be changed: no fast commit has one of the file system itself but the root.
    fn check(&self, ino: u64) -> Result<()> {
        let geo = &self.volume.geo;
        let is_special =
            ino < geo.first_ino && ino != super::layout::ROOT_INO || geo.orphan_file == Some(ino);
        if ino > geo.inodes() || is_special {
            return Err(Error::Corrupt(format!("a fast commit changes inode {ino}")));
        }
        Ok(())
    }

    /// The inode of a number; none if it is free. What it has is noted when it is first met.
    fn file(&mut self, ino: u64) -> Result<Option<&mut File>> {
        self.check(ino)?;
        if !self.files.contains_key(&ino) {
            if !self.volume.inode_in_use(ino)? {
                return Ok(None);
            }
            let inode = match self.volume.inode(ino) {
                Err(Error::NoEntry) => return Ok(None),
                inode => inode?,
            };
            let blocks = self.blocks_of(&inode)?;
            self.touched.extend(blocks);
            let extents = self.extents_of(&inode)?;
            self.keep(inode, extents);
        }
        Ok(self.files.get_mut(&ino))
    }

    fn keep(&mut self, inode: Arc<Inode>, extents: Option<Vec<Extent>>) {
        let attributes = u64::from(inode.state.read().raw.file_acl() != 0);
        self.files.insert(inode.ino, File { inode, extents, other_blocks: attributes });
    }

    /// All blocks that an inode leads to, but for its attributes.
    fn blocks_of(&self, inode: &Inode) -> Result<Vec<u64>> {
        let (mut blocks, state) = (Vec::new(), inode.state.read());
        let mut seen = |visited: Visited| {
            match visited {
                Visited::Map(block) => blocks.push(block),
                Visited::Data(_, run, _) => {
                    self.volume.check_data_blocks(inode, run.first, run.count)?;
                    blocks.extend(run.range());
                }
            }
            Ok(())
        };
        if state.has_map(self.volume) {
            map::visit(self.volume, inode, &state, &mut seen)?;
        }
        Ok(blocks)
    }

    /// The extents of an inode that is no directory.
    fn extents_of(&self, inode: &Inode) -> Result<Option<Vec<Extent>>> {
        let state = inode.state.read();
        if state.raw.is_dir() || !state.raw.has(flag::EXTENTS) {
            return Ok(None);
        }
        let mut extents = Vec::new();
        extent::visit(self.volume, inode, &state, &mut |visited| {
            if let Visited::Data(index, Run { first: start, count }, unwritten) = visited {
                extents.push(Extent { index: index as u32, len: count as u32, start, unwritten });
            }
            Ok(())
        })?;
        Ok(Some(extents))
    }

    /// An inode is in the table from now on, or changes: all but its map, and where it says so of a directory.
    fn set_inode(&mut self, ino: u64, bytes: &[u8]) -> Result<()> {
        let is_new = match self.file(ino)? {
            None => true,
            Some(file) => file.inode.state.read().raw.links.get() == 0 && !self.orphans.contains(&ino),
        };
        let (mut raw, mut extra) = self.of_table(ino, is_new)?;
        let fits = bytes.len() <= raw.len() + extra.len();
        if !fits {
            return Err(Error::Corrupt(format!("a fast commit has a longer inode {ino} than the table")));
        }
        let before = RawInode::read_from_bytes(&raw).expect("the size is right");
        for (at, byte) in bytes.iter().enumerate() {
            if at < RAW_INODE_BYTES { raw[at] = *byte } else { extra[at - RAW_INODE_BYTES] = *byte }
        }
        let mut after = RawInode::read_from_bytes(&raw).expect("the size is right");
        let has_data = after.has(flag::EXTENTS) || after.is_regular() || after.is_dir();
        if !is_new || has_data {
            after.block = before.block;
        }
        (after.blocks_lo, after.blocks_hi) = (before.blocks_lo, before.blocks_hi);
        after.dtime = before.dtime;
        if after.is_dir() {
            let kept = before.flags.get() & flag::INDEX;
            after.flags = (after.flags.get() & !flag::INDEX | kept).into();
            after.set_size(if is_new { 0 } else { before.size() });
        }
        if is_new {
            return self.make(ino, after, extra);
        }
        let file = self.files.get(&ino).expect("it was just looked at");
        let mut state = file.inode.change();
        (state.raw, state.extra) = (after, extra);
        Ok(())
    }

    /// The bytes of an inode as they are before a change; zero for a new one.
    fn of_table(&self, ino: u64, is_new: bool) -> Result<([u8; RAW_INODE_BYTES], Box<[u8]>)> {
        let mut raw = [0; RAW_INODE_BYTES];
        let rest = self.volume.geo.inode_bytes.saturating_sub(RAW_INODE_BYTES);
        if is_new {
            return Ok((raw, vec![0; rest].into_boxed_slice()));
        }
        let missing = || Error::Corrupt(format!("a fast commit has no inode {ino}"));
        let state = self.files.get(&ino).ok_or_else(missing)?.inode.state.read();
        raw.copy_from_slice(state.raw.as_bytes());
        Ok((raw, state.extra.clone()))
    }

    /// A new inode.
    fn make(&mut self, ino: u64, mut raw: RawInode, extra: Box<[u8]>) -> Result<()> {
        let kind = raw
            .kind()
            .ok_or_else(|| Error::Corrupt(format!("a fast commit makes inode {ino} of no kind")))?;
        (raw.blocks_lo, raw.blocks_hi, raw.dtime) = (0.into(), 0.into(), 0.into());
        let mapped = raw.has(flag::EXTENTS);
        if mapped {
            extent::init(&mut raw.block);
        }
        if let Some(old) = self.files.remove(&ino) {
            // It was removed and made again.
            let was_dir = old.inode.state.read().raw.is_dir();
            self.volume.drop_attribute_block(&self.handle, &mut old.inode.change())?;
            self.volume.forget_inode(&old.inode);
            self.volume.free_inode(&self.handle, ino, was_dir)?;
        }
        self.volume.claim_inode(&self.handle, ino, kind == FileKind::Directory)?;
        let inode = self.volume.new_inode(ino, raw.mode.get());
        {
            let mut state = inode.change();
            *state = InodeState::of(raw, extra);
        }
        let has_extents = mapped && kind != FileKind::Directory;
        self.keep(inode, has_extents.then(Vec::new));
        Ok(())
    }

    /// A range of an inode has these blocks, or none.
    fn set_extents(&mut self, ino: u64, range: Range<u64>, to: Option<Extent>) -> Result<()> {
        let Some(file) = self.file(ino)? else { return Ok(()) };
        let Some(extents) = &mut file.extents else {
            return Err(Error::NotSupported("fast commits of a file without extents: e2fsck replays them"));
        };
        cut(extents, &range);
        if let Some(new) = to {
            let place = extents.partition_point(|extent| extent.index < new.index);
            extents.insert(place, new);
        }
        Ok(())
    }

    /// A new directory has a block with `.` and `..`.
    fn make_directory(&mut self, Name { parent, ino, .. }: &Name) -> Result<()> {
        let Some(inode) = self.file(*ino)?.map(|file| Arc::clone(&file.inode)) else { return Ok(()) };
        let mut state = inode.change();
        if state.raw.is_dir() && state.raw.size() == 0 {
            state.raw.links = 2.into();
            self.volume.init_dir(&self.handle, &inode, &mut state, *parent)?;
        }
        Ok(())
    }

    /// A file that was just made has one name, whatever its tag says.
    fn has_one_name(&mut self, ino: u64) -> Result<()> {
        if let Some(file) = self.file(ino)? {
            let mut state = file.inode.change();
            if !state.raw.is_dir() {
                state.raw.links = 1.into();
            }
        }
        Ok(())
    }

    /// The directory of a name, if there is one.
    fn parent(&mut self, name: &Name) -> Result<Option<Arc<Inode>>> {
        let parent = self.file(name.parent)?.map(|file| Arc::clone(&file.inode));
        Ok(parent.filter(|inode| inode.state.read().raw.is_dir()))
    }

    fn add(&mut self, name: &Name) -> Result<()> {
        let Some(dir) = self.parent(name)? else { return Ok(()) };
        if name.ino == name.parent {
            return Err(Error::Corrupt(format!("a fast commit puts inode {} into itself", name.ino)));
        }
        if self.file(name.ino)?.is_none()
            && let Some(bytes) = self.first.get(&name.ino).cloned()
        {
            self.set_inode(name.ino, &bytes)?;
        }
        let Some(inode) = self.file(name.ino)?.map(|file| Arc::clone(&file.inode)) else { return Ok(()) };
        let mut dir_state = dir.change();
        let found = self.volume.find(&dir, &dir_state, &name.bytes)?;
        if found.is_some_and(|place| place.ino == name.ino) {
            return Ok(());
        }
        if let Some(place) = found {
            self.volume.remove_name(&self.handle, &dir, &dir_state, place)?;
        }
        let kind = {
            let mut state = inode.change();
            let kind = state.raw.kind();
            let kind = kind.ok_or_else(|| Error::Corrupt(format!("inode {} is of no kind", name.ino)))?;
            // A tag of the inode, if one follows, says the count; that of a directory that gets another need not.
            let counted =
                if kind == FileKind::Directory { &mut dir_state.raw.links } else { &mut state.raw.links };
            *counted = match counted.get() {
                1 if kind == FileKind::Directory => 1, // more than the count can say
                links => links.saturating_add(1),
            }
            .into();
            kind
        };
        let target = Target { ino: name.ino, kind };
        self.volume.add_name(&self.handle, &dir, &mut dir_state, &name.bytes, target)
    }

    fn remove(&mut self, name: &Name) -> Result<()> {
        let Some(dir) = self.parent(name)? else { return Ok(()) };
        if name.ino == name.parent {
            return Err(Error::Corrupt(format!("a fast commit removes inode {} from itself", name.ino)));
        }
        let mut dir_state = dir.change();
        let found = self.volume.find(&dir, &dir_state, &name.bytes)?;
        let Some(place) = found.filter(|place| place.ino == name.ino) else { return Ok(()) };
        self.volume.remove_name(&self.handle, &dir, &dir_state, place)?;
        let Some(file) = self.file(name.ino)? else { return Ok(()) };
        let mut state = file.inode.change();
        let links = state.raw.links.get();
        if state.raw.is_dir() {
            let of_dir = dir_state.raw.links.get();
            dir_state.raw.links = if of_dir > 2 { of_dir - 1 } else { of_dir }.into();
            state.raw.links = 0.into();
        } else {
            state.raw.links = links.saturating_sub(1).into();
        }
        Ok(())
    }

    /// Steps 3 and 4.
    fn finish(mut self) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        let (gone, kept): (Vec<_>, Vec<_>) = files.into_values().partition(|file| {
            file.inode.state.read().raw.links.get() == 0 && !self.orphans.contains(&file.inode.ino)
        });
        let mut used = BTreeSet::new();
        for file in &kept {
            self.store(file)?;
            used.extend(self.blocks_of(&file.inode)?);
        }
        for file in &gone {
            self.free(file)?;
        }
        for run in runs(&used) {
            self.volume.mark_blocks(&self.handle, run, true)?;
        }
        let free = self.touched.difference(&used).copied().collect();
        for run in runs(&free) {
            self.volume.mark_blocks(&self.handle, run, false)?;
        }
        Ok(())
    }

    /// Writes an inode with a new tree of its extents.
    fn store(&self, file: &File) -> Result<()> {
        let (volume, handle) = (self.volume, &self.handle);
        let mut state = file.inode.change();
        if let Some(extents) = &file.extents {
            let mut take = || {
                let goal = volume
                    .geo
                    .group_start(((file.inode.ino - 1) / u64::from(volume.geo.inodes_per_group)) as u32);
                volume.allocate_blocks(handle, goal, 1).map(|(block, _)| block)
            };
            let joined = joined(extents);
            let nodes = extent::rebuild(volume, handle, &file.inode, &mut state, &joined, &mut take)?;
            let data: u64 = joined.iter().map(|extent| u64::from(extent.len)).sum();
            (state.raw.blocks_lo, state.raw.blocks_hi) = (0.into(), 0.into());
            state.raw.flags = (state.raw.flags.get() & !flag::HUGE_FILE).into();
            state.add_blocks(volume, (data + nodes + file.other_blocks).cast_signed());
        }
        volume.store_inode(handle, &file.inode, &mut state)
    }

    /// An inode without links is free, and so are its attributes.
    fn free(&self, file: &File) -> Result<()> {
        let mut state = file.inode.change();
        let is_dir = state.raw.is_dir();
        self.volume.drop_attribute_block(&self.handle, &mut state)?;
        state.raw.set_size(0);
        if state.raw.has(flag::EXTENTS) {
            extent::init(&mut state.raw.block);
        }
        (state.raw.blocks_lo, state.raw.blocks_hi) = (0.into(), 0.into());
        state.raw.dtime = (Timestamp::now().secs as u32).into();
        self.volume.store_inode(&self.handle, &file.inode, &mut state)?;
        self.volume.free_inode(&self.handle, file.inode.ino, is_dir)
    }
}

/// Takes a range of a file out of its extents.
fn cut(extents: &mut Vec<Extent>, range: &Range<u64>) {
    let mut left = Vec::with_capacity(extents.len() + 1);
    for extent in extents.iter() {
        let (from, to) = (u64::from(extent.index), extent.end());
        if to <= range.start || from >= range.end {
            left.push(*extent);
            continue;
        }
        if from < range.start {
            left.push(Extent { len: (range.start - from) as u32, ..*extent });
        }
        if to > range.end {
            let gone = range.end - from;
            let (index, start) = (range.end as u32, extent.start + gone);
            left.push(Extent { index, start, len: (to - range.end) as u32, ..*extent });
        }
    }
    *extents = left;
}

/// The same extents, joined where they are one run.
fn joined(extents: &[Extent]) -> Vec<Extent> {
    let mut all = Vec::<Extent>::with_capacity(extents.len());
    for extent in extents {
        match all.last_mut().and_then(|last| Some((last.joined(extent)?, last))) {
            Some((joined, last)) => *last = joined,
            None => all.push(*extent),
        }
    }
    all
}

/// Runs of numbers.
fn runs(of: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut runs = Vec::<Range<u64>>::new();
    for number in of {
        match runs.last_mut() {
            Some(run) if run.end == *number => run.end += 1,
            _ => runs.push(*number..number + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(index: u32, len: u32, start: u64) -> Extent {
        Extent { index, len, start, unwritten: false }
    }

    #[test]
    fn a_range_is_cut_out_of_extents_and_leaves_both_sides() {
        let mut extents = vec![extent(0, 10, 100), extent(20, 5, 200)];
        cut(&mut extents, &(3..22));
        assert_eq!(extents, [extent(0, 3, 100), extent(22, 3, 202)]);
        cut(&mut extents, &(1..2));
        assert_eq!(extents, [extent(0, 1, 100), extent(2, 1, 102), extent(22, 3, 202)]);
    }

    #[test]
    fn extents_join_only_where_they_are_one_run() {
        let parts = [extent(0, 1, 100), extent(1, 2, 101), extent(3, 1, 300)];
        assert_eq!(joined(&parts), [extent(0, 3, 100), extent(3, 1, 300)]);
    }

    #[test]
    fn runs_of_blocks_are_found() {
        assert_eq!(runs(&[1, 2, 3, 7].into()), [1..4, 7..8]);
    }
}
