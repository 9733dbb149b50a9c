//! The invariants of an image, as named predicates.
//!
//! | predicate | holds when |
//! |---|---|
//! | `superblock_valid` | the superblock and the descriptors can be read, and no copy has to stand in |
//! | `journal_sound` | the journal has all its blocks, and a superblock that a mount takes |
//! | `inode_valid` | an inode in use has a kind, a right checksum, flags that are known, and no time of deletion; a link a target |
//! | `map_sound` | a map of blocks leads to blocks of the file system, in order, with right checksums |
//! | `block_used_once` | no block belongs to two |
//! | `attributes_sound` | extended attributes can be read, their hashes are right and values do not overlap |
//! | | a list of access control has the form that the kernel reads |
//! | | a block of them counts the inodes that have it |
//! | `block_count_right` | an inode counts the blocks that it has |
//! | `size_covers_blocks` | no written block lies beyond the end of a file |
//! | `directory_sound` | records cover their blocks, `.` and `..` lead where they should, checksums are right |
//! | | a directory has one name, and is below the root |
//! | `directory_indexed` | every name is found by the index |
//! | `names_lead_to_inodes` | every name leads to an inode in use, and says its kind |
//! | `link_count_right` | an inode has as many links as names (a directory: two and one for each subdirectory) |
//! | `nothing_lost` | every inode in use has a name, or is on the list of orphans |
//! | `orphans_sound` | the list of orphans ends and leads to inodes; without a journal there is none |
//! | | the kernel's file of orphans has sound blocks and leads to inodes |
//! | `bitmap_right` | the bitmaps have exactly the blocks and inodes in use |
//! | `counts_right` | descriptors and superblock count what is free |
//!
//! e2fsck is the second opinion; the tests of this design ask it about every image that they leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::vfs::FileKind;
use media::Region;
use media::block::BlockDevice;
use sim::Bytes;

use super::fields::{self, Needed};
use super::groups::{bit, set_bit};
use super::inode::{Inode, InodeState};
use super::layout::{
    BAD_INO, DESCRIPTOR_BYTES, GroupDescriptor, LINK_MAX, RESIZE_INO, ROOT_INO, RawInode, compat, crc32c,
    flag, group_flag, incompat, kind_of_entry, le32, ro_compat,
};
use super::records::records;
use super::runs::Visited;
use super::{JOURNAL_ELSEWHERE, Settings, Volume, htree, map, related, superblock};
use base::error::{Error, Result};
use base::name_tree::{Fault, NameTree};
use design::{FsckReport, Violation};

/// Page cache of a recovery and a check, which see only metadata.
pub(super) const CHECK_CACHE: Bytes = Bytes::mib(16);

pub(super) static INODE: sim::LockClass = sim::LockClass::new("ext4.fsck_inode");

/// Checks an image; one in memory may wait for a replay. `has_journal_device`: whether a device for its journal was given.
pub(crate) fn check(
    device: &Arc<dyn BlockDevice>,
    memory: Option<Arc<Region>>,
    has_journal_device: bool,
) -> FsckReport {
    let mut report = FsckReport::default();
    let settings = Settings { read_only: true, memory, cache: CHECK_CACHE, ..Settings::default() };
    let volume = match Volume::open(device, settings.clone()) {
        Ok(volume) => volume,
        Err(error) => {
            if Volume::open_to_replay(device, &settings).is_ok_and(|volume| volume.awaits_replay()) {
                report.notes.push(format!("not recovered: {error}; nothing else was checked"));
                return report;
            }
            report.violate("superblock_valid", error.to_string());
            return report;
        }
    };
    // What a feature adds that only a mount for reading may ignore, nothing here could check.
    if let Err(error) = superblock::check_mountable(&volume.superblock.lock(), false) {
        report.violate("superblock_valid", error.to_string());
        return report;
    }
    if !has_journal_device && volume.has_journal_elsewhere() {
        report.violate("journal_sound", JOURNAL_ELSEWHERE.to_owned());
        return report;
    }
    report.notes.extend(volume.notes.iter().cloned());
    for note in &volume.notes {
        report.violate("superblock_valid", note.clone());
    }
    let waits = volume.superblock.lock().has_incompat(incompat::RECOVER);
    // In memory a mount mends what words have torn of it.
    if waits
        && volume.settings.memory.is_none()
        && let Err(what) = volume
            .journal_fault()
            .map_err(|fault| fault.to_string())
            .and_then(|()| volume.check_log().map_err(|error| error.to_string()))
    {
        report.violate("journal_sound", format!("it has transactions, and cannot be read: {what}"));
        return report;
    }
    if waits {
        report.notes.push("not recovered: the journal has transactions; nothing else was checked".to_owned());
        return report;
    }
    let superblock = volume.superblock.lock().clone();
    if superblock.last_orphan.get() != 0 || superblock.has_orphan_file_to_read() {
        report.notes.push("not recovered: inodes without names wait to be freed or cut".to_owned());
    }
    let mut check = Check {
        used: vec![0; (volume.geo.blocks as usize).div_ceil(8)],
        volume: &volume,
        report,
        tree: NameTree::new(ROOT_INO),
        names: BTreeMap::new(),
        listed: Vec::new(),
        needed: Needed::default(),
        attributes: BTreeMap::new(),
        blocks: 0,
    };
    check.run();
    check.report
}

struct Check<'a> {
    volume: &'a Volume,
    report: FsckReport,
    used: Vec<u8>,
    blocks: u64,
    tree: NameTree<()>,
    /// The directories that have names which lead to an inode.
    names: BTreeMap<u64, Vec<u64>>,
    /// What is on the list of orphans, or in the file of them.
    listed: Vec<u64>,
    /// Features that inodes in use need.
    needed: Needed,
    /// By block of attributes: the number of inodes that have it.
    attributes: BTreeMap<u64, u32>,
}

impl Check<'_> {
    fn run(&mut self) {
        self.claim_metadata();
        self.claim_bad_blocks();
        self.check_reserved();
        for what in related::correct(&mut self.volume.superblock.lock().clone()) {
            self.report.violate("superblock_valid", what);
        }
        match self.volume.resize_fault() {
            Ok(None) => {}
            Ok(Some(what)) => self.report.violate("inode_valid", format!("inode {RESIZE_INO}: {what}")),
            Err(error) => self.report.violate("inode_valid", format!("inode {RESIZE_INO}: {error}")),
        }
        if let Err(fault) = self.volume.journal_fault() {
            self.report.violate("journal_sound", fault.to_string());
        }
        if self.volume.journal_has_stale_words() {
            let what = "its superblock has words of another version, or of many file systems";
            self.report.violate("journal_sound", what.to_owned());
        }
        self.listed = self.orphans();
        for ino in 1..=self.volume.geo.inodes() {
            match self.volume.inode_in_use(ino) {
                Ok(true) => self.check_inode(ino),
                Ok(false) if self.was_used(ino) => self.check_free_inode(ino),
                Ok(false) => {}
                Err(error) => self.report.violate("bitmap_right", error.to_string()),
            }
        }
        self.check_references();
        self.check_names();
        for feature in self.needed.missing(self.volume) {
            let what = format!("files use the feature {feature}, which it does not have");
            self.report.violate("superblock_valid", what);
        }
        self.check_bitmaps();
        self.report.checked = vec![("inodes", self.tree.nodes.len() as u64), ("blocks", self.blocks)];
    }

    fn claim(&mut self, start: u64, len: u64, owner: impl std::fmt::Display) {
        let geo = &self.volume.geo;
        if start < geo.first_data_block || start.saturating_add(len) > geo.blocks {
            self.report.violate("map_sound", format!("{owner} has blocks {start}+{len}, beyond the end"));
            return;
        }
        for block in start..start + len {
            if bit(&self.used, block as u32) {
                self.report.violate("block_used_once", format!("{owner} has block {block}, which is in use"));
            }
            set_bit(&mut self.used, block as u32);
            self.blocks += 1;
        }
    }

    fn claim_metadata(&mut self) {
        let geo = self.volume.geo.clone();
        let descriptors = self.volume.groups.lock().descriptors.clone();
        for (group, descriptor) in descriptors.iter().enumerate() {
            let start = geo.group_start(group as u32);
            self.claim(start, u64::from(geo.base_blocks(group as u32)), "a superblock");
            self.claim(descriptor.block_bitmap(), 1, "a bitmap");
            self.claim(descriptor.inode_bitmap(), 1, "a bitmap");
            self.claim(descriptor.inode_table(), u64::from(geo.table_blocks()), "an inode table");
        }
    }

    /// A bad block may lie in a copy of the superblock or of the descriptors, which is then of no use.
    fn claim_bad_blocks(&mut self) {
        match self.volume.bad_blocks() {
            Ok(runs) => {
                for block in runs.into_iter().flat_map(sim::Run::range) {
                    if bit(&self.used, block as u32) && !self.volume.is_copy_of_metadata(block) {
                        let what = format!("bad block {block} lies in metadata, or is there twice");
                        self.report.violate("block_used_once", what);
                    }
                    self.blocks += u64::from(!bit(&self.used, block as u32));
                    set_bit(&mut self.used, block as u32);
                }
            }
            Err(error) => self.report.violate("map_sound", format!("the list of bad blocks: {error}")),
        }
    }

    fn check_inode(&mut self, ino: u64) {
        if ino == BAD_INO {
            return;
        }
        let special = ino < self.volume.geo.first_ino && ino != ROOT_INO;
        let (raw, extra) = match self.volume.read_inode(ino) {
            Ok(read) => read,
            // Reserved inodes need not exist.
            Err(Error::NoEntry) if special => return,
            Err(error) => return self.report.violate("inode_valid", format!("inode {ino}: {error}")),
        };
        let state = InodeState::of(raw, extra);
        self.needed.add(Needed::by(&state.raw));
        if ino == RESIZE_INO {
            let table = u64::from(le32(&state.raw.block, 13 * 4));
            if table != 0 {
                self.claim(table, 1, "the resize inode");
            }
            return;
        }
        let Some(kind) = state.raw.kind() else {
            if !special {
                self.report.violate("inode_valid", format!("inode {ino} is of no kind"));
            }
            return;
        };
        let mut right = state.raw.clone();
        // Of those of the file system itself e2fsck looks at the flags.
        let wrong = match special {
            true => fields::drop_casefold(&mut right).into_iter().collect(),
            false => fields::correct(self.volume, &mut right),
        };
        for what in wrong {
            self.report.violate("inode_valid", format!("inode {ino}: {what}"));
        }
        if !special && fields::is_too_large(self.volume, &state.raw) {
            self.report.violate("inode_valid", format!("inode {ino} has an impossible size"));
        }
        let dtime = state.raw.dtime.get();
        if special && dtime != 0 && self.volume.is_orphan_number(dtime) {
            let what = format!("inode {ino} leads to inode {dtime} as if it were on the list of orphans");
            self.report.violate("orphans_sound", what);
        }
        if special && state.raw.file_acl() != 0 {
            self.report.violate("inode_valid", format!("inode {ino} is reserved, and has attributes"));
        }
        let inode = Inode::alone(ino, &INODE, state);
        let state = inode.state.read();
        if let Err(error) = self.check_map(&inode, &state) {
            self.report.violate("map_sound", format!("inode {ino}: {error}"));
        }
        if let Err(error) = self.volume.check_attributes(&inode, &state) {
            self.report.violate("attributes_sound", format!("inode {ino}: {error}"));
        }
        if kind == FileKind::Symlink && !self.volume.target_is_sound(&inode, &state) {
            let what = format!("inode {ino}: the target of a symbolic link has not the length of its inode");
            self.report.violate("inode_valid", what);
        }
        if state.raw.dtime.get() != 0 && !self.is_special(ino) && !self.listed.contains(&ino) {
            self.report
                .violate("inode_valid", format!("inode {ino} is in use, and says that it was deleted"));
        }
        self.tree.insert(ino, kind, u32::from(state.raw.links.get()), None);
        if kind == FileKind::Directory
            && let Err(error) = self.check_directory(&inode, &state)
        {
            self.report.violate("directory_sound", format!("inode {ino}: {error}"));
        }
    }

    /// Whether the descriptor says that this part of the table was used.
    fn was_used(&self, ino: u64) -> bool {
        let geo = &self.volume.geo;
        let (group, index) = (
            (ino - 1) / u64::from(geo.inodes_per_group),
            ((ino - 1) % u64::from(geo.inodes_per_group)) as u32,
        );
        let groups = self.volume.groups.lock();
        let descriptor = &groups.descriptors[group as usize];
        let unused = if geo.gdt_csum { descriptor.itable_unused() } else { 0 };
        !(geo.gdt_csum && descriptor.has(group_flag::INODE_UNINIT))
            && index < geo.inodes_per_group.saturating_sub(unused)
    }

    /// An inode that the bitmap has as free has no links, and says when it went.
    fn check_free_inode(&mut self, ino: u64) {
        let special = ino < self.volume.geo.first_ino;
        let (raw, _) = match self.volume.read_inode(ino) {
            Ok(read) => read,
            Err(Error::Corrupt(what)) if !special => return self.report.violate("inode_valid", what),
            Err(_) => return,
        };
        if raw.links.get() > 0 && !special {
            self.report.violate("bitmap_right", format!("inode {ino} has links, and is free in the bitmap"));
        }
        self.check_dtime(ino, &raw);
    }

    /// An inode without links has a time of deletion, which is no place in the list of orphans unless it is on it.
    fn check_dtime(&mut self, ino: u64, raw: &RawInode) {
        let dtime = raw.dtime.get();
        if raw.links.get() > 0 || raw.mode.get() == 0 || self.listed.contains(&ino) {
            return;
        }
        if dtime == 0 {
            self.report.violate("inode_valid", format!("inode {ino} has no links and no time of deletion"));
        } else if self.volume.is_orphan_number(dtime) {
            let what = format!("inode {ino} leads to inode {dtime} as if it were on the list of orphans");
            self.report.violate("orphans_sound", what);
        }
    }

    /// The fields of the inode of bad blocks, which has pointers and nothing else, and of other reserved inodes that are not used.
    fn check_reserved(&mut self) {
        let reserved = (BAD_INO..self.volume.geo.first_ino).filter(|ino| *ino != ROOT_INO);
        for ino in reserved {
            if self.volume.is_foreign(ino).unwrap_or(false) {
                self.report
                    .violate("inode_valid", format!("inode {ino} is reserved, and holds what it cannot"));
            }
        }
    }

    fn check_map(&mut self, inode: &Inode, state: &InodeState) -> Result<()> {
        let volume = self.volume;
        let mut found = Vec::new();
        if state.has_map(volume) {
            let mut seen = |visited: Visited| {
                if let Visited::Map(block) = visited {
                    volume.check_data_blocks(inode, block, 1)?;
                }
                if found.len() as u64 > volume.geo.blocks {
                    return Err(Error::Corrupt("its map has more blocks than the file system".to_owned()));
                }
                found.push(visited);
                Ok(())
            };
            map::visit(volume, inode, state, &mut seen)?;
        }
        if state.raw.file_acl() != 0 {
            found.push(Visited::Map(state.raw.file_acl()));
        }
        let block_bytes = u64::from(volume.geo.block_bytes);
        let end = state.raw.size().div_ceil(block_bytes);
        let slack = u64::from(state.raw.is_regular() && state.raw.size().is_multiple_of(block_bytes));
        let (mut count, owner) = (0, format!("inode {}", inode.ino));
        for visited in found {
            match visited {
                Visited::Map(block) if block == state.raw.file_acl() => {
                    count += 1;
                    let references = self.attributes.entry(block).or_default();
                    *references += 1;
                    if *references == 1 {
                        self.claim(block, 1, &owner);
                    }
                }
                Visited::Map(block) => {
                    count += 1;
                    self.claim(block, 1, &owner);
                }
                Visited::Data(index, sim::Run { first: start, count: len }, unwritten) => {
                    count += len;
                    self.claim(start, len, &owner);
                    // A file may have one block behind its end, as for e2fsck.
                    if index + len > end + slack && !unwritten {
                        let what =
                            format!("{owner}: block {} lies beyond the size {}", index, state.raw.size());
                        self.report.violate("size_covers_blocks", what);
                    }
                }
            }
        }
        let has = state.sectors(volume.geo.block_bytes);
        let should = count * u64::from(volume.geo.block_bytes / 512);
        if has != should {
            self.report.violate("block_count_right", format!("{owner} counts {has} sectors, has {should}"));
        }
        Ok(())
    }

    /// A block of attributes counts the inodes that have it.
    fn check_references(&mut self) {
        for (block, has) in &self.attributes {
            let says = self.volume.look(*block, |bytes| le32(bytes, 4)).unwrap_or(*has);
            if says != *has {
                let what = format!("block {block} of attributes counts {says} references, has {has}");
                self.report.violate("attributes_sound", what);
            }
        }
    }

    fn check_directory(&mut self, inode: &Inode, state: &InodeState) -> Result<()> {
        let volume = self.volume;
        let seed = state.seed(volume, inode.ino);
        let (mut dots, mut position, mut names) = ((0, 0), 0, BTreeSet::new());
        if !state.raw.size().is_multiple_of(u64::from(volume.geo.block_bytes)) {
            self.report
                .violate("directory_sound", format!("inode {}: its size is no whole block", inode.ino));
        }
        for index in 0..volume.dir_blocks(state) {
            let block = volume.dir_block(inode, state, index)?;
            let bytes = volume.look(block, <[u8]>::to_vec)?;
            let indexed = state.raw.has(flag::INDEX) && htree::is_index_block(&bytes, index);
            if !indexed && !volume.dir_is_sealed(seed, &bytes) {
                self.report.violate(
                    "directory_sound",
                    format!("inode {}: block {index}: wrong checksum", inode.ino),
                );
            }
            if indexed && index == 0 && !htree::is_root(&bytes, 0) {
                let what = format!("inode {}: `..` does not cover the root of the index", inode.ino);
                self.report.violate("directory_sound", what);
            }
            for record in records(&bytes, volume.records_end()) {
                let record = record.map_err(|what| Error::Corrupt(format!("block {index}: {what}")))?;
                position += 1;
                let at_end = record.at + record.len > volume.records_end();
                if at_end && !indexed {
                    let what = format!("inode {}: block {index}: a record lies over the checksum", inode.ino);
                    self.report.violate("directory_sound", what);
                }
                if position <= 2 && record.ino != 0 && record.kind != volume.kind_byte(FileKind::Directory) {
                    let what = format!("inode {}: `.` or `..` is of kind {}", inode.ino, record.kind);
                    self.report.violate("directory_sound", what);
                }
                match (position, record.name) {
                    (1, b".") if bytes[9] == 0 => dots.0 = u64::from(record.ino),
                    (2, b"..") if bytes[record.at + 10] == 0 => {
                        dots.1 = u64::from(record.ino);
                    }
                    _ if record.ino == 0 => {}
                    (_, name) if !self.is_new_name(inode.ino, name, &mut names) => {}
                    _ => self.check_name(inode, state, record.name, (u64::from(record.ino), record.kind))?,
                }
            }
        }
        if dots.0 != inode.ino || dots.1 == 0 {
            self.report.violate("directory_sound", format!("inode {}: `.` and `..` are {dots:?}", inode.ino));
        }
        self.tree.nodes.entry(inode.ino).and_modify(|dir| dir.dotdot = Some(dots.1).filter(|ino| *ino != 0));
        Ok(())
    }

    /// Whether a name may be, and is the first of its kind in a directory.
    fn is_new_name(&mut self, dir: u64, name: &[u8], names: &mut BTreeSet<Vec<u8>>) -> bool {
        let shown = String::from_utf8_lossy(name);
        let what = match name {
            b"." | b".." => format!("inode {dir}: a second \"{shown}\""),
            _ if name.iter().any(|byte| matches!(byte, 0 | b'/')) => {
                format!("inode {dir}: the name \"{shown}\"")
            }
            _ if !names.insert(name.to_vec()) => format!("inode {dir}: \"{shown}\" is there twice"),
            _ => return true,
        };
        self.report.violate("directory_sound", what);
        false
    }

    fn check_name(
        &mut self,
        inode: &Inode,
        state: &InodeState,
        name: &[u8],
        (ino, kind): (u64, u8),
    ) -> Result<()> {
        self.names.entry(ino).or_default().push(inode.ino);
        let shown = String::from_utf8_lossy(name);
        if state.raw.has(flag::INDEX)
            && self.volume.find(inode, state, name)?.is_none_or(|place| place.ino != ino)
        {
            self.report
                .violate("directory_indexed", format!("inode {}: \"{shown}\" is not found", inode.ino));
        }
        if ino > self.volume.geo.inodes() || !self.volume.inode_in_use(ino)? {
            let what = format!("inode {}: \"{shown}\" leads to inode {ino}, which is free", inode.ino);
            self.report.violate("names_lead_to_inodes", what);
            return Ok(());
        }
        if self.is_special(ino) && ino != inode.ino {
            let what = format!("inode {}: \"{shown}\" leads to inode {ino}, which is reserved", inode.ino);
            self.report.violate("names_lead_to_inodes", what);
            return Ok(());
        }
        let says = kind_of_entry(kind);
        let is = self.volume.read_inode(ino).ok().and_then(|(raw, _)| raw.kind());
        // A record may say nothing.
        if self.volume.geo.filetype && kind != 0 && says != is {
            let what = format!("inode {}: \"{shown}\" says {says:?}, inode {ino} is {is:?}", inode.ino);
            self.report.violate("names_lead_to_inodes", what);
        }
        if !self.volume.geo.filetype && kind != 0 {
            let what = format!("inode {}: \"{shown}\" says a kind, which filetype alone allows", inode.ino);
            self.report.violate("directory_sound", what);
        }
        Ok(())
    }

    /// Whether an inode belongs to the file system itself.
    fn is_special(&self, ino: u64) -> bool {
        let geo = &self.volume.geo;
        ino < geo.first_ino && ino != ROOT_INO || geo.orphan_file == Some(ino)
    }

    fn check_names(&mut self) {
        for (child, dirs) in &self.names {
            for dir in dirs {
                self.tree.add_name(*dir, *child, ());
            }
        }
        if self.tree.directories().any(|dir| self.tree.links_of(dir) >= u32::from(LINK_MAX)) {
            self.needed.add(Needed::many_links());
        }
        for (ino, fault) in self.tree.faults() {
            let predicate = match fault {
                _ if self.is_special(ino) => continue,
                Fault::Nameless { .. } if self.listed.contains(&ino) => continue,
                Fault::Nameless { .. } => "nothing_lost",
                // One that ever had more subdirectories than links can count keeps that.
                Fault::Links { has: 1, .. } if self.tree.is_dir(ino) && self.volume.geo.dir_nlink => continue,
                Fault::Links { .. } => "link_count_right",
                Fault::Names(_) | Fault::Parent { .. } | Fault::Circle => "directory_sound",
            };
            self.report.violate(predicate, format!("inode {ino}: {fault}"));
        }
    }

    /// The inodes on the list of orphans, as a mount reads it.
    fn orphans(&mut self) -> Vec<u64> {
        let mut list = Vec::new();
        let superblock = self.volume.superblock.lock().clone();
        let mut next = u64::from(superblock.last_orphan.get());
        let mut fault = None;
        while next != 0 && fault.is_none() {
            if list.contains(&next) || !self.volume.geo.may_be_orphan(next) {
                fault = Some(format!("the list of orphans does not end: inode {next}"));
                break;
            }
            list.push(next);
            match self.volume.read_inode(next) {
                Ok((raw, _)) => next = u64::from(raw.dtime.get()),
                Err(error) => fault = Some(format!("the list of orphans: inode {next}: {error}")),
            }
        }
        if !list.is_empty() && !superblock.has_compat(compat::HAS_JOURNAL) {
            fault.get_or_insert_with(|| "there are orphans, but no journal".to_owned());
        }
        match self.volume.orphan_slots() {
            Ok(slots) if !slots.is_empty() && !superblock.has_ro_compat(ro_compat::ORPHAN_PRESENT) => {
                fault = Some(
                    "the file of orphans holds some, and the superblock says that it is empty".to_owned(),
                );
            }
            Ok(slots) => list.extend(slots.keys()),
            Err(error) => fault = Some(error.to_string()),
        }
        if let Some(number) = self.volume.geo.orphan_file
            && !self.volume.inode_in_use(number).unwrap_or(false)
        {
            fault = Some(format!("inode {number} of the file of orphans is free"));
        }
        if let Some(fault) = fault {
            self.report.violate("orphans_sound", fault);
        }
        list
    }

    fn check_bitmaps(&mut self) {
        let descriptors = self.volume.groups.lock().descriptors.clone();
        let (mut free_blocks, mut free_inodes) = (0, 0);
        for (group, descriptor) in descriptors.iter().enumerate() {
            free_blocks += u64::from(descriptor.free_blocks());
            free_inodes += u64::from(descriptor.free_inodes());
            let group = group as u32;
            self.check_hint(group, descriptor);
            self.check_inode_bitmap(group, descriptor);
            self.check_block_bitmap(group, descriptor);
        }
        let superblock = self.volume.superblock.lock().clone();
        let counted = u64::from(superblock.free_blocks_count_lo.get())
            | if superblock.has_incompat(incompat::IS_64BIT) {
                u64::from(superblock.free_blocks_count_hi.get()) << 32
            } else {
                0
            };
        // After a crash with a journal they are those of the last unmount, and a mount counts anew.
        let clean = superblock.state.get() & 1 != 0 || !superblock.has_compat(compat::HAS_JOURNAL);
        let inodes = u64::from(superblock.free_inodes_count.get());
        for (kind, says, has) in [("blocks", counted, free_blocks), ("inodes", inodes, free_inodes)] {
            if clean && says != has {
                let what = format!("the superblock counts {says} free {kind}, the groups {has}");
                self.report.violate("counts_right", what);
            }
        }
    }

    /// The bitmap of blocks has those in use, and the descriptor counts the others.
    fn check_block_bitmap(&mut self, group: u32, descriptor: &GroupDescriptor) {
        let geo = &self.volume.geo;
        let (start, blocks) = (geo.group_start(group), geo.group_blocks(group));
        let used = |at: u32| bit(&self.used, (start + u64::from(at)) as u32);
        let is_free = (0..blocks).filter(|at| !used(*at)).count() as u32;
        let counted = descriptor.free_blocks();
        let mut found = Vec::new();
        // Only with checksums may a descriptor say what was never written.
        let unwritten = group_flag::BLOCK_UNINIT | group_flag::INODE_UNINIT;
        if !geo.gdt_csum && (descriptor.has(unwritten) || descriptor.itable_unused() != 0) {
            found.push((
                "counts_right",
                format!("group {group} has flags or unused inodes without uninit_bg"),
            ));
        }
        if is_free != counted {
            found
                .push(("counts_right", format!("group {group} counts {counted} free blocks, has {is_free}")));
        }
        let has_bitmap = !(geo.gdt_csum && descriptor.has(group_flag::BLOCK_UNINIT));
        if has_bitmap {
            let differs = self.volume.look(descriptor.block_bitmap(), |bitmap| {
                (0..blocks).find(|at| bit(bitmap, *at) != used(*at))
            });
            match differs {
                Ok(None) => {}
                Ok(Some(at)) => {
                    let is = if used(at) { "free" } else { "in use" };
                    let what = format!("block {} is {is} in the bitmap", start + u64::from(at));
                    found.push(("bitmap_right", what));
                }
                Err(error) => found.push(("bitmap_right", error.to_string())),
            }
        }
        if !has_bitmap {
            found.extend(self.unwritten_bitmap(group, descriptor, is_free));
        }
        // Each group tells its own.
        let found = found.into_iter().map(|(predicate, what)| Violation { predicate, what });
        self.report.violations.extend(found);
        if has_bitmap {
            self.check_bitmap_ends(group, descriptor, true);
        }
    }

    /// A group whose bitmap of blocks was never written has its own metadata and nothing else, and is not the last one: what of
    /// this does not hold.
    fn unwritten_bitmap(
        &self,
        group: u32,
        descriptor: &GroupDescriptor,
        is_free: u32,
    ) -> Vec<(&'static str, String)> {
        let geo = &self.volume.geo;
        let own = geo.base_blocks(group) + geo.own_metadata(group, descriptor).count() as u32;
        let (has_more, is_last) = (is_free + own != geo.group_blocks(group), group + 1 == geo.groups);
        let more = format!("group {group} says that it was never used, and has blocks in use");
        let last = format!("the bitmap of blocks of group {group}, the last one, was never written");
        let both = [(has_more, more), (is_last, last)].into_iter().filter(|(is_so, _)| *is_so);
        both.map(|(_, what)| ("bitmap_right", what)).collect()
    }

    /// The bitmap of inodes has as many free ones as the descriptor says, which also counts the directories.
    fn check_inode_bitmap(&mut self, group: u32, descriptor: &GroupDescriptor) {
        let geo = &self.volume.geo;
        let per_group = u64::from(geo.inodes_per_group);
        let first = u64::from(group) * per_group + 1;
        let inodes = self.tree.nodes.range(first..first + per_group);
        let directories = inodes.filter(|(_, node)| node.is_dir()).count() as u32;
        let uninit = geo.gdt_csum && descriptor.has(group_flag::INODE_UNINIT);
        let free = self.volume.look(descriptor.inode_bitmap(), |bitmap| {
            (0..geo.inodes_per_group).filter(|at| !bit(bitmap, *at)).count() as u32
        });
        let free = match free {
            _ if uninit => geo.inodes_per_group,
            Ok(free) => free,
            Err(error) => return self.report.violate("bitmap_right", error.to_string()),
        };
        let counts = [
            ("free inodes", descriptor.free_inodes(), free),
            ("directories", descriptor.used_dirs(), directories),
        ];
        for (kind, says, has) in counts.into_iter().filter(|(_, says, has)| says != has) {
            self.report.violate("counts_right", format!("group {group} counts {says} {kind}, has {has}"));
        }
        if geo.gdt_csum && descriptor.itable_unused() > descriptor.free_inodes() {
            let what = format!("group {group} says that more inodes were never used than are free");
            self.report.violate("counts_right", what);
        }
        if !uninit {
            self.check_bitmap_ends(group, descriptor, false);
        }
    }

    /// What a bitmap has beyond its group is in use, and its checksum is right.
    fn check_bitmap_ends(&mut self, group: u32, descriptor: &GroupDescriptor, of_blocks: bool) {
        let geo = &self.volume.geo;
        let (name, at, bits, whole, checksum) = match of_blocks {
            true => {
                let whole = geo.blocks_per_group as usize / 8;
                (
                    "blocks",
                    descriptor.block_bitmap(),
                    geo.group_blocks(group),
                    whole,
                    descriptor.block_bitmap_csum(),
                )
            }
            false => {
                let whole = geo.inodes_per_group as usize / 8;
                (
                    "inodes",
                    descriptor.inode_bitmap(),
                    geo.inodes_per_group,
                    whole,
                    descriptor.inode_bitmap_csum(),
                )
            }
        };
        let wide = geo.descriptor_bytes >= DESCRIPTOR_BYTES;
        let looked = self.volume.look(at, |bitmap| {
            let padded = (bits..bitmap.len() as u32 * 8).all(|at| bit(bitmap, at));
            let sum = crc32c(geo.checksum_seed, &bitmap[..whole]);
            let right = if wide { sum } else { sum & 0xffff };
            (padded, !geo.metadata_csum || right == checksum)
        });
        match looked {
            Ok((padded, sealed)) => {
                for (holds, what) in
                    [(padded, "has free ones beyond its end"), (sealed, "has a wrong checksum")]
                {
                    if !holds {
                        self.report
                            .violate("bitmap_right", format!("group {group}: the bitmap of {name} {what}"));
                    }
                }
            }
            Err(error) => self.report.violate("bitmap_right", error.to_string()),
        }
    }

    /// No inode in use lies in the part of the table that was never used, as the descriptor has it.
    fn check_hint(&mut self, group: u32, descriptor: &GroupDescriptor) {
        let geo = &self.volume.geo;
        let first = u64::from(group) * u64::from(geo.inodes_per_group) + 1;
        let end = first + u64::from(geo.inodes_per_group);
        let unused = if geo.gdt_csum { u64::from(descriptor.itable_unused()) } else { 0 };
        let named = self.names.range(end - unused..end).next().map(|(ino, _)| *ino);
        let known = self.tree.nodes.range(end - unused..end).next().map(|(ino, _)| *ino);
        if let Some(ino) = named.or(known) {
            let what = format!(
                "group {group} says that its last {unused} inodes were never used; inode {ino} is in use"
            );
            self.report.violate("counts_right", what);
        }
    }
}
