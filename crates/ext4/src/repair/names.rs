//! Directories, names and links.

use std::collections::BTreeMap;

use ::vfs::{FileKind, NewInode, Owner};

use super::Repair;
use super::records::{DOT_BYTES, cover, has_dots, legal, next_name, put_dots};
use crate::fields::Needed;
use crate::inode::{Inode, InodeState};
use crate::layout::{LINK_MAX, ROOT_INO, entry_kind, flag, le16, le32, put16, put32};
use crate::namei::Node;
use crate::records::{Place, Target, record_bytes, records};
use crate::{htree, mutant};
use base::error::{Error, Result};
use base::name_tree::Fault;

const LOST_FOUND: &[u8] = b"lost+found";

impl Repair<'_> {
    /// Judges all names; afterwards everything in use has one.
    pub(super) fn mend_names(&mut self) -> Result<()> {
        let dirs: Vec<u64> = self.tree.directories().collect();
        for dir in &dirs {
            self.mend_directory(*dir)?;
        }
        for (_, dir, place) in self.tree.take_second_names() {
            self.drop_name(dir, place)?;
        }
        for dir in &dirs {
            self.check_index(*dir)?;
        }
        self.connect()?;
        let nameless: Vec<u64> = self.tree.nameless().collect();
        for ino in nameless {
            // A file named lost+found may have gone there by now.
            if self.tree.nodes.get(&ino).is_some_and(|node| !node.has_name()) {
                self.adopt(ino)?;
            }
        }
        self.mend_parents()?;
        self.mend_links()
    }

    /// Mends the blocks of a directory, and counts what its names lead to.
    fn mend_directory(&mut self, ino: u64) -> Result<()> {
        let inode = self.inode(ino)?;
        let state = inode.state.read();
        let seed = state.seed(self.volume, ino);
        let mut seen = BTreeMap::new();
        for index in 0..self.volume.dir_blocks(&state) {
            let block = self.volume.dir_block(&inode, &state, index)?;
            let old = self.volume.look(block, <[u8]>::to_vec)?;
            let mut new = old.clone();
            if index == 0 && state.raw.has(flag::INDEX) {
                htree::mend_root_records(self.volume, &mut new);
            }
            let (of_index, end) =
                (state.raw.has(flag::INDEX) && htree::is_index_block(&old, index), self.volume.records_end());
            if !of_index || index == 0 && !has_dots(&new, end) {
                cover(&mut new, end, self.volume.geo.inodes());
            }
            if index == 0 {
                self.mend_dots(ino, &mut new);
            }
            self.mend_records((ino, block, index), &mut new, &mut seen);
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
        let dotdot = u64::from(le32(block, DOT_BYTES));
        self.tree.nodes.entry(ino).and_modify(|dir| dir.dotdot = Some(dotdot));
    }

    /// Frees the records of names that cannot be, and notes where the others lead.
    fn mend_records(
        &mut self,
        (dir, block, index): (u64, u64, u64),
        bytes: &mut [u8],
        seen: &mut BTreeMap<Vec<u8>, u64>,
    ) {
        let end = self.volume.records_end();
        let found: Vec<_> = records(bytes, end)
            .flatten()
            .filter(|record| record.ino != 0 && !(index == 0 && record.at <= DOT_BYTES))
            .map(|record| (record.at, u64::from(record.ino), record.kind, record.name.to_vec()))
            .collect();
        for (at, ino, kind, name) in found {
            let is_dot = matches!(&name[..], b"." | b"..");
            let known = self.tree.nodes.get(&ino).filter(|_| !is_dot && ino != ROOT_INO && ino != dir);
            let known = known.map(|node| node.kind);
            let Some(known) = known.filter(|_| self.name_once(bytes, (at, ino), &name, seen)) else {
                self.note("names dropped");
                put32(bytes, at, 0);
                continue;
            };
            let right = if self.volume.geo.filetype { entry_kind(known) } else { 0 };
            if kind != right {
                bytes[at + 7] = right;
            }
            self.tree.add_name(dir, ino, (block, at));
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

    fn drop_name(&mut self, dir: u64, (block, at): (u64, usize)) -> Result<()> {
        self.note("names dropped");
        self.drop_record(dir, block, at)
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
                if index == 0 && !htree::is_root(&bytes, 0) {
                    return Ok(false);
                }
                for record in records(&bytes, self.volume.records_end()) {
                    let Ok(record) = record else { return Ok(false) };
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
    fn connect(&mut self) -> Result<()> {
        let mut lost: Vec<u64> = self.tree.nameless().filter(|ino| self.tree.is_dir(*ino)).collect();
        lost.extend(self.tree.circles());
        for ino in lost {
            for (_, dir, place) in self.tree.take_names(ino, false) {
                self.drop_name(dir, place)?;
            }
            self.adopt(ino)?;
        }
        Ok(())
    }

    /// Gives an inode a name in `lost+found`.
    fn adopt(&mut self, ino: u64) -> Result<()> {
        let kind = self.tree.nodes[&ino].kind;
        if self.volume.has(mutant::REPAIR_DROPS_NAMELESS) && kind != FileKind::Directory {
            self.tree.nodes.remove(&ino);
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
        // Nothing takes this name again, wherever it lies.
        self.tree.add_name(folder, ino, (0, 0));
        Ok(())
    }

    /// The directory `lost+found`, made if there is none.
    fn lost_found(&mut self) -> Result<u64> {
        let place = {
            let root = self.volume.inode(ROOT_INO)?;
            let state = root.state.read();
            self.volume.find(&root, &state, LOST_FOUND)?
        };
        if let Some(place) = place.filter(|place| self.tree.is_dir(place.ino)) {
            return Ok(place.ino);
        }
        // A file of this name gives it up, as for e2fsck, and goes there itself.
        let other = place.map(|place| place.ino);
        if let Some(place) = place {
            self.note("files named lost+found moved");
            self.drop_record(ROOT_INO, place.block, place.at)?;
            self.tree.drop_name(place.ino);
        }
        let new = NewInode { perm: 0o700, owner: Owner::default() };
        let node = Node { kind: FileKind::Directory, rdev: 0, new: &new, target: &[] };
        let made = self.volume.make(ROOT_INO, LOST_FOUND, node);
        // Without an inode for it, names go to the root.
        let ino = match made {
            Err(Error::NoSpace) => return Ok(ROOT_INO),
            made => made?.ino.0,
        };
        self.tree.insert(ino, FileKind::Directory, 2, Some(ROOT_INO));
        self.tree.add_name(ROOT_INO, ino, (0, 0));
        self.tree.nodes.entry(ROOT_INO).and_modify(|root| root.links += 1);
        let nameless = |other: &u64| self.tree.nodes.get(other).is_some_and(|node| !node.has_name());
        if let Some(other) = other.filter(nameless) {
            self.adopt(other)?;
        }
        Ok(ino)
    }

    /// `..` leads to where a directory is named.
    fn mend_parents(&mut self) -> Result<()> {
        for (ino, fault) in self.tree.faults() {
            let Fault::Parent { named_in: parent, .. } = fault else { continue };
            self.note("parents of directories corrected");
            let inode = self.volume.inode(ino)?;
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
        let inodes: Vec<_> = self.tree.nodes.iter().map(|(ino, node)| (*ino, node.links)).collect();
        for (ino, has) in inodes {
            let links = match self.tree.links_of(ino) {
                many if self.tree.is_dir(ino) && many >= u32::from(LINK_MAX) => {
                    self.needed.add(Needed::many_links());
                    1
                }
                links => links,
            };
            if has != links {
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

fn place(block: u64, record: &crate::records::Record<'_>) -> Place {
    let kind = crate::layout::kind_of_entry(record.kind);
    Place { block, at: record.at, ino: u64::from(record.ino), kind }
}
