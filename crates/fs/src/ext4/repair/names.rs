//! Directories, names and links.

use std::collections::{BTreeMap, BTreeSet};

use ::vfs::{FileKind, NewInode, Owner};

use super::Repair;
use super::records::{DOT_BYTES, cover, has_dots, legal, next_name, put_dots};
use crate::error::Result;
use crate::ext4::dir::{Place, Target, record_bytes, records};
use crate::ext4::fields::Needed;
use crate::ext4::inode::{Inode, InodeState};
use crate::ext4::layout::{LINK_MAX, ROOT_INO, entry_kind, flag, le16, le32, put16, put32};
use crate::ext4::namei::Node;
use crate::ext4::{htree, mutant};

const LOST_FOUND: &[u8] = b"lost+found";

/// A name that leads to a directory: in which directory, and where.
#[derive(Clone, Copy, Debug)]
struct Entrance {
    dir: u64,
    block: u64,
    at: usize,
}

impl Repair<'_> {
    /// Judges all names; afterwards everything in use has one.
    pub(super) fn mend_names(&mut self) -> Result<()> {
        let dirs: Vec<u64> = self
            .inodes
            .iter()
            .filter(|(_, known)| known.kind == FileKind::Directory)
            .map(|(ino, _)| *ino)
            .collect();
        let mut entrances: BTreeMap<u64, Vec<Entrance>> = BTreeMap::new();
        for dir in &dirs {
            self.mend_directory(*dir, &mut entrances)?;
        }
        for (child, entrances) in &entrances {
            self.choose_parent(*child, entrances)?;
        }
        for dir in &dirs {
            self.check_index(*dir)?;
        }
        self.connect(&dirs, &entrances)?;
        let nameless: Vec<u64> = self
            .inodes
            .iter()
            .filter(|(ino, known)| known.names == 0 && **ino != ROOT_INO)
            .map(|(ino, _)| *ino)
            .collect();
        for ino in nameless {
            // A file named lost+found may have gone there by now.
            if self.inodes.get(&ino).is_some_and(|known| known.names == 0) {
                self.adopt(ino)?;
            }
        }
        self.mend_parents(&dirs)?;
        self.mend_links()
    }

    /// Mends the blocks of a directory, and counts what its names lead to.
    fn mend_directory(&mut self, ino: u64, entrances: &mut BTreeMap<u64, Vec<Entrance>>) -> Result<()> {
        let inode = self.inode(ino)?;
        let state = inode.state.read();
        let seed = state.seed(self.volume, ino);
        let mut seen = BTreeMap::new();
        for index in 0..self.volume.dir_blocks(&state) {
            let block = self.volume.dir_block(&inode, &state, index)?;
            let old = self.volume.look(block, <[u8]>::to_vec)?;
            let mut new = old.clone();
            let (of_index, end) =
                (state.raw.has(flag::INDEX) && htree::is_index_block(&old, index), self.volume.records_end());
            if !of_index || index == 0 && !has_dots(&old, end) {
                cover(&mut new, end, self.volume.geo.inodes());
            }
            if index == 0 {
                self.mend_dots(ino, &mut new);
            }
            self.mend_records((ino, block, index), &mut new, &mut seen, entrances);
            let of_index = state.raw.has(flag::INDEX) && htree::is_index_block(&new, index);
            if new != old || !of_index && !self.volume.dir_is_sealed(seed, &old) {
                self.note("directory blocks corrected");
                self.volume.change(&self.handle, block, |bytes| {
                    bytes.copy_from_slice(&new);
                    if of_index {
                        htree::seal(self.volume, seed, bytes, index == 0);
                    } else {
                        self.volume.seal_dir(seed, bytes);
                    }
                })?;
            }
        }
        Ok(())
    }

    /// The first block begins with `.` and `..`, or gets them before what it holds. Where `..` leads is known later.
    fn mend_dots(&mut self, ino: u64, block: &mut [u8]) {
        let end = self.volume.records_end();
        let kind = self.volume.kind_byte(FileKind::Directory);
        if !has_dots(block, end) {
            let (_, lost) = put_dots(block, end, (ino as u32, kind));
            (0..lost).for_each(|_| self.note("names dropped"));
        }
        put32(block, 0, ino as u32);
        // Behind a name there are zeros.
        block[9..DOT_BYTES].fill(0);
        block[DOT_BYTES + 10..2 * DOT_BYTES].fill(0);
        let dotdot = le32(block, DOT_BYTES);
        if dotdot == 0 || u64::from(dotdot) > self.volume.geo.inodes() {
            // A record that leads nowhere is free.
            put32(block, DOT_BYTES, ROOT_INO as u32);
        }
        (block[7], block[DOT_BYTES + 7]) = (kind, kind);
        if let Some(known) = self.inodes.get_mut(&ino) {
            known.dotdot = u64::from(le32(block, DOT_BYTES));
        }
    }

    /// Frees the records of names that cannot be, and notes where the others lead.
    fn mend_records(
        &mut self,
        (dir, block, index): (u64, u64, u64),
        bytes: &mut [u8],
        seen: &mut BTreeMap<Vec<u8>, u64>,
        entrances: &mut BTreeMap<u64, Vec<Entrance>>,
    ) {
        let end = self.volume.records_end();
        let found: Vec<_> = records(bytes, end)
            .flatten()
            .filter(|record| record.ino != 0 && !(index == 0 && record.at <= DOT_BYTES))
            .map(|record| (record.at, u64::from(record.ino), record.kind, record.name.to_vec()))
            .collect();
        for (at, ino, kind, name) in found {
            let is_dot = matches!(&name[..], b"." | b"..");
            let known = self.inodes.contains_key(&ino) && !is_dot && ino != ROOT_INO && ino != dir;
            let kept = known && self.name_once(bytes, (at, ino), &name, seen);
            let known = self.inodes.get_mut(&ino).filter(|_| kept);
            let Some(known) = known else {
                self.note("names dropped");
                put32(bytes, at, 0);
                continue;
            };
            if self.volume.geo.filetype && kind != entry_kind(known.kind) {
                bytes[at + 7] = entry_kind(known.kind);
            }
            if known.kind == FileKind::Directory {
                entrances.entry(ino).or_default().push(Entrance { dir, block, at });
            } else {
                known.names += 1;
            }
        }
    }

    /// Makes the name of a record legal, and other than those before it in the directory; false for a second name of the same.
    fn name_once(
        &mut self,
        bytes: &mut [u8],
        (at, ino): (usize, u64),
        name: &[u8],
        seen: &mut BTreeMap<Vec<u8>, u64>,
    ) -> bool {
        let mut new = legal(name);
        let len = usize::from(le16(bytes, at + 4));
        loop {
            match seen.get(&new) {
                None => break,
                Some(other) if *other == ino => return false,
                Some(_) => new = next_name(&new),
            }
            if record_bytes(&new) > len {
                return false;
            }
        }
        if new != name {
            self.note("names changed that were illegal or there twice");
            bytes[at + 6] = new.len() as u8;
            bytes[at + 8..at + 8 + new.len()].copy_from_slice(&new);
        }
        seen.insert(new, ino);
        true
    }

    /// A directory keeps one name: in the directory that its `..` leads to, or the first.
    fn choose_parent(&mut self, child: u64, entrances: &[Entrance]) -> Result<()> {
        let dotdot = self.inodes.get(&child).map_or(0, |known| known.dotdot);
        let kept = entrances.iter().position(|entrance| entrance.dir == dotdot).unwrap_or(0);
        for (place, entrance) in entrances.iter().enumerate() {
            if place == kept {
                self.name_directory(child, entrance.dir);
            } else {
                self.drop_entrance(*entrance)?;
            }
        }
        Ok(())
    }

    fn name_directory(&mut self, child: u64, parent: u64) {
        if let Some(known) = self.inodes.get_mut(&child) {
            (known.names, known.parent) = (1, Some(parent));
        }
        if let Some(known) = self.inodes.get_mut(&parent) {
            known.children += 1;
        }
    }

    fn drop_entrance(&mut self, entrance: Entrance) -> Result<()> {
        self.note("names dropped");
        self.drop_record(entrance.dir, entrance.block, entrance.at)
    }

    fn drop_record(&self, dir: u64, block: u64, at: usize) -> Result<()> {
        let inode = self.inode(dir)?;
        let seed = inode.state.read().seed(self.volume, dir);
        self.volume.change(&self.handle, block, |bytes| {
            put32(bytes, at, 0);
            self.volume.seal_dir(seed, bytes);
        })
    }

    /// A directory whose index does not find every name goes without one: its blocks are searched one after the other.
    fn check_index(&mut self, ino: u64) -> Result<()> {
        let inode = self.inode(ino)?;
        let mut state = inode.state.write();
        if !state.raw.has(flag::INDEX) || self.index_is_right(&inode, &state) {
            return Ok(());
        }
        self.note("indexes of directories dropped");
        state.raw.flags = (state.raw.flags.get() & !flag::INDEX).into();
        let (seed, end) = (state.seed(self.volume, ino), self.volume.records_end());
        for index in 0..self.volume.dir_blocks(&state) {
            let block = self.volume.dir_block(&inode, &state, index)?;
            self.volume.change(&self.handle, block, |bytes| {
                let at = if index == 0 { DOT_BYTES } else { 0 };
                if at + usize::from(le16(bytes, at + 4)) > end {
                    put16(bytes, at + 4, (end - at) as u16);
                }
                self.volume.seal_dir(seed, bytes);
            })?;
        }
        self.volume.store_inode(&self.handle, &inode, &mut state)
    }

    fn index_is_right(&self, inode: &Inode, state: &InodeState) -> bool {
        let finds_all = || -> Result<bool> {
            htree::check(self.volume, inode, state)?;
            for index in 0..self.volume.dir_blocks(state) {
                let block = self.volume.dir_block(inode, state, index)?;
                let bytes = self.volume.look(block, <[u8]>::to_vec)?;
                for record in records(&bytes, self.volume.records_end()).flatten() {
                    let own = record.ino == 0 || index == 0 && record.at <= DOT_BYTES;
                    let found = || self.volume.find(inode, state, record.name);
                    if !own && found()? != Some(place(block, &record)) {
                        return Ok(false);
                    }
                }
            }
            Ok(true)
        };
        finds_all().unwrap_or(false)
    }

    /// Directories that no way from the root leads to go to `lost+found`, the topmost of them; a circle is opened at its lowest.
    fn connect(&mut self, dirs: &[u64], entrances: &BTreeMap<u64, Vec<Entrance>>) -> Result<()> {
        loop {
            let reached = self.reached();
            let mut lost = dirs.iter().filter(|ino| !reached.contains(*ino)).copied().peekable();
            let Some(lowest) = lost.peek().copied() else { return Ok(()) };
            let top = lost.find(|ino| self.inodes[ino].parent.is_none());
            let ino = top.unwrap_or(lowest);
            if let Some(parent) = self.inodes[&ino].parent {
                for entrance in entrances.get(&ino).into_iter().flatten().filter(|one| one.dir == parent) {
                    self.drop_entrance(*entrance)?;
                }
                if let Some(known) = self.inodes.get_mut(&parent) {
                    known.children -= 1;
                }
            }
            self.adopt(ino)?;
        }
    }

    /// The directories that a way from the root leads to.
    fn reached(&self) -> BTreeSet<u64> {
        let mut children: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (ino, known) in &self.inodes {
            if let Some(parent) = known.parent {
                children.entry(parent).or_default().push(*ino);
            }
        }
        let (mut reached, mut open) = (BTreeSet::from([ROOT_INO]), vec![ROOT_INO]);
        while let Some(dir) = open.pop() {
            for child in children.get(&dir).into_iter().flatten() {
                if reached.insert(*child) {
                    open.push(*child);
                }
            }
        }
        reached
    }

    /// Gives an inode a name in `lost+found`.
    fn adopt(&mut self, ino: u64) -> Result<()> {
        let kind = self.inodes[&ino].kind;
        if self.volume.has(mutant::REPAIR_DROPS_NAMELESS) && kind != FileKind::Directory {
            self.inodes.remove(&ino);
            let inode = self.volume.inode(ino)?;
            inode.state.write().raw.links = 0.into();
            return self.volume.reap(&inode);
        }
        let folder = self.lost_found()?;
        self.note("moved to lost+found");
        let inode = self.volume.inode(folder)?;
        let mut state = inode.state.write();
        let mut name = format!("#{ino}").into_bytes();
        while self.volume.find(&inode, &state, &name)?.is_some() {
            name.push(b'_');
        }
        self.volume.add_name(&self.handle, &inode, &mut state, &name, Target { ino, kind })?;
        self.volume.store_inode(&self.handle, &inode, &mut state)?;
        if kind == FileKind::Directory {
            self.name_directory(ino, folder);
        } else if let Some(known) = self.inodes.get_mut(&ino) {
            known.names = 1;
        }
        Ok(())
    }

    /// The directory `lost+found`, made if there is none.
    fn lost_found(&mut self) -> Result<u64> {
        let place = {
            let root = self.volume.inode(ROOT_INO)?;
            let state = root.state.read();
            self.volume.find(&root, &state, LOST_FOUND)?
        };
        if let Some(place) = place.filter(|place| self.is_directory(place.ino)) {
            return Ok(place.ino);
        }
        // A file of this name gives it up, as for e2fsck, and goes there itself.
        let other = place.map(|place| place.ino);
        if let Some(place) = place {
            self.note("files named lost+found moved");
            self.drop_record(ROOT_INO, place.block, place.at)?;
            if let Some(known) = self.inodes.get_mut(&place.ino) {
                known.names = known.names.saturating_sub(1);
            }
        }
        let new = NewInode { perm: 0o700, owner: Owner::default() };
        let node = Node { kind: FileKind::Directory, rdev: 0, new: &new, target: &[] };
        let ino = self.volume.make(ROOT_INO, LOST_FOUND, node)?.ino.0;
        let known = super::Known {
            kind: FileKind::Directory,
            links: 2,
            names: 1,
            parent: Some(ROOT_INO),
            dotdot: ROOT_INO,
            children: 0,
        };
        self.inodes.insert(ino, known);
        if let Some(root) = self.inodes.get_mut(&ROOT_INO) {
            (root.children, root.links) = (root.children + 1, root.links + 1);
        }
        if let Some(other) =
            other.filter(|other| self.inodes.get(other).is_some_and(|known| known.names == 0))
        {
            self.adopt(other)?;
        }
        Ok(ino)
    }

    fn is_directory(&self, ino: u64) -> bool {
        self.inodes.get(&ino).is_some_and(|known| known.kind == FileKind::Directory)
    }

    /// `..` leads to where a directory is named.
    fn mend_parents(&mut self, dirs: &[u64]) -> Result<()> {
        for ino in dirs {
            let known = &self.inodes[ino];
            let parent = if *ino == ROOT_INO { ROOT_INO } else { known.parent.unwrap_or(ROOT_INO) };
            if known.dotdot == parent {
                continue;
            }
            self.note("parents of directories corrected");
            let inode = self.volume.inode(*ino)?;
            let state = inode.state.read();
            if let Some(place) = self.volume.find(&inode, &state, b"..")? {
                let target = Target { ino: parent, kind: FileKind::Directory };
                self.volume.redirect_name(&self.handle, &inode, &state, place, target)?;
            }
        }
        Ok(())
    }

    fn mend_links(&mut self) -> Result<()> {
        if self.volume.has(mutant::REPAIR_KEEPS_COUNTS) {
            return Ok(());
        }
        let inodes: Vec<_> = self.inodes.iter().map(|(ino, known)| (*ino, known.clone())).collect();
        for (ino, known) in inodes {
            let links = match known.kind {
                FileKind::Directory if known.children + 2 >= u32::from(LINK_MAX) => 1,
                FileKind::Directory => known.children + 2,
                _ => known.names,
            };
            if known.kind == FileKind::Directory && links == 1 {
                self.needed.add(Needed::many_links());
            }
            if u32::from(known.links) != links {
                self.note("counts of links corrected");
                let inode = self.volume.inode(ino)?;
                let mut state = inode.state.write();
                state.raw.links = (links as u16).into();
                self.volume.store_inode(&self.handle, &inode, &mut state)?;
            }
        }
        Ok(())
    }
}

fn place(block: u64, record: &crate::ext4::dir::Record<'_>) -> Place {
    let kind = crate::ext4::layout::kind_of_entry(record.kind);
    Place { block, at: record.at, ino: u64::from(record.ino), kind }
}
