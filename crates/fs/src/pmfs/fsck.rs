//! The invariants of an image, as named predicates.
//!
//! | predicate | holds when |
//! |---|---|
//! | `superblock_valid` | magic and checksum of the primary or the copy are right |
//! | `superblock_copied` | the copy repeats the static part of the primary |
//! | `journal_descriptor_possible` | base, size, head, tail and generation can be |
//! | `inode_mode_known` | a live inode is of a known kind |
//! | `root_is_directory` | the root is a directory that has its two links |
//! | `blocks_in_range` | every pointer of a tree leads to a block behind the journal |
//! | `block_used_once` | no two trees share a block, nor do attributes |
//! | `block_count_right` | an inode counts the data blocks that its tree has, and the blocks of its attributes |
//! | `size_covers_blocks` | no block lies beyond the end of the file, unless the inode says so |
//! | `times_possible` | the fraction of a time is less than a second |
//! | `attribute_block_in_range` | every pointer to attributes leads to a block behind the journal |
//! | `attributes_sound` | records fill what an attribute block says that it uses, names differ, checksums are right |
//! | `directory_sound` | records cover their blocks, `.` and `..` come first and lead where they should, names differ |
//! | | a directory has one name, and is below the root |
//! | `names_lead_to_inodes` | every name leads to a live inode |
//! | `link_count_right` | an inode has as many links as names (a directory: two and one for each subdirectory) |
//! | `nothing_lost` | every live inode has a name or is on the truncate list |
//! | `truncate_list_sound` | the list ends, and its inodes exist |
//! | `saved_map_right` | a saved block map has exactly the blocks in use |

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use media::nvmm::Region;
use vfs::FileKind;

use super::dir::records;
use super::layout::{
    BLOCK, BLOCK_MAP_INO, BLOCK_SHIFT, FIRST_INO, FLAG_BEYOND_EOF, INODE_SLOT, JOURNAL_DESCRIPTOR,
    JournalDescriptor, NOTHING_SAVED, ROOT_INO, RawInode, Superblock, TABLE_INODE,
};
use super::map::Tree;
use super::namei::is_dir;
use super::recovery;
use super::repair::Fix;
use super::superblock;
use super::truncate::read_list;
use super::xattr::attributes_of;
use base::error::Error;
use base::name_tree::{Fault, NameTree, Node};
use base::persist::attributes::{block_of, blocks_of};
use base::persist::free_map::FreeMap;
use design::FsckReport;

/// Where inode `number` lies, if the table reaches so far.
pub(crate) fn inode_offset(region: &Region, table: &RawInode, number: u64) -> Option<u64> {
    if number == 0 || !number.is_multiple_of(INODE_SLOT) || number >= table.size {
        return None;
    }
    let shift = table.block_shift();
    let block = Tree::of(table).lookup(region, number >> shift).ok()??;
    Some(block + (number & ((1 << shift) - 1)))
}

/// Checks an image.
pub(crate) fn check(region: &Region) -> FsckReport {
    examine(region).0
}

/// Checks an image; also what would repair it, as far as the violations show it.
pub(crate) fn examine(region: &Region) -> (FsckReport, Vec<Fix>) {
    let (mut report, mut fixes) = (FsckReport::default(), Vec::new());
    let superblock = match superblock::load(region) {
        Ok((superblock, from_copy)) => {
            if from_copy {
                report.notes.push("the primary superblock is bad; the redundant copy was used".to_owned());
            }
            if let Some(fault) = superblock::copy_fault(region, &superblock) {
                report.violate("superblock_copied", fault);
                fixes.push(Fix::Copy);
            }
            superblock.with_dynamic_of(region)
        }
        Err(error) => {
            report.violate("superblock_valid", error.to_string());
            return (report, fixes);
        }
    };
    let descriptor = match region.read::<JournalDescriptor>(JOURNAL_DESCRIPTOR) {
        Ok(descriptor) => descriptor,
        Err(error) => {
            report.violate("journal_descriptor_possible", error.to_string());
            return (report, fixes);
        }
    };
    if let Some(fault) = superblock::journal_fault(&descriptor, superblock.size) {
        report.violate("journal_descriptor_possible", fault);
        return (report, fixes);
    }
    if descriptor.head != descriptor.tail {
        report.notes.push("not recovered: the journal has transactions; nothing else was checked".to_owned());
        return (report, fixes);
    }
    Check::new(region, superblock, &descriptor, (report, fixes)).run()
}

struct Check<'a> {
    region: &'a Region,
    superblock: Superblock,
    table: RawInode,
    first_block: u64,
    /// Bit set: no tree uses the block so far.
    unused: FreeMap,
    inodes: BTreeMap<u64, RawInode>,
    /// A name lies where its record does.
    tree: NameTree<u64>,
    /// Where the record of `..` of each directory lies.
    dotdots: BTreeMap<u64, u64>,
    /// Every tree was walked to its end: what no tree has is free.
    trees_whole: bool,
    /// Every directory was: what no name leads to has none.
    names_whole: bool,
    report: FsckReport,
    fixes: Vec<Fix>,
}

impl<'a> Check<'a> {
    fn new(
        region: &'a Region,
        superblock: Superblock,
        descriptor: &JournalDescriptor,
        (report, fixes): (FsckReport, Vec<Fix>),
    ) -> Self {
        let first_block = (descriptor.base + u64::from(descriptor.size)) / BLOCK;
        let mut unused = FreeMap::new(superblock.size / BLOCK);
        (first_block..superblock.size / BLOCK).for_each(|block| {
            unused.put(block);
        });
        let table = region.read(TABLE_INODE).unwrap_or_default();
        Self {
            region,
            superblock,
            table,
            first_block,
            unused,
            inodes: BTreeMap::new(),
            tree: NameTree::new(ROOT_INO),
            dotdots: BTreeMap::new(),
            trees_whole: true,
            names_whole: true,
            report,
            fixes,
        }
    }

    fn run(mut self) -> (FsckReport, Vec<Fix>) {
        let table = self.table;
        self.check_tree((0, "inode table"), &table);
        self.check_attributes((0, "inode table"), &table);
        self.read_inodes();
        let inodes = std::mem::take(&mut self.inodes);
        if !inodes.get(&ROOT_INO).is_some_and(|root| is_dir(root) && root.links >= 2) {
            let what = format!("inode {ROOT_INO}, the root, is no directory; nothing else was checked");
            self.report.violate("root_is_directory", what);
            return (self.report, self.fixes);
        }
        for (number, raw) in &inodes {
            let kind = FileKind::from_mode(u32::from(raw.mode)).unwrap_or(FileKind::Regular);
            self.tree.insert(*number, kind, u32::from(raw.links), None);
            self.check_inode(*number, raw);
        }
        for (number, raw) in inodes.iter().filter(|(_, raw)| is_dir(raw)) {
            self.check_dir(*number, raw);
        }
        let doomed = self.check_truncate_list();
        if self.names_whole {
            self.check_links(&doomed);
        } else {
            self.report.notes.push("link counts were not checked: names may be missing".to_owned());
        }
        if self.trees_whole {
            self.check_saved_map();
        } else {
            self.report.notes.push("the block map was not checked: blocks may be missing".to_owned());
        }
        self.report.checked = vec![
            ("inodes", inodes.len() as u64),
            ("directories", inodes.values().filter(|raw| is_dir(raw)).count() as u64),
            ("blocks", self.superblock.size / BLOCK - self.first_block - self.unused.free()),
        ];
        (self.report, self.fixes)
    }

    fn read_inodes(&mut self) {
        if self.table.size > self.superblock.size {
            let what =
                format!("inode table: {} bytes, the image has {}", self.table.size, self.superblock.size);
            self.report.violate("size_covers_blocks", what);
        }
        let end = self.table.size.min(self.superblock.size);
        for number in (ROOT_INO..end).step_by(INODE_SLOT as usize) {
            let raw = inode_offset(self.region, &self.table, number)
                .and_then(|at| self.region.read::<RawInode>(at).ok());
            match raw {
                Some(raw) if number != BLOCK_MAP_INO && !raw.is_free() => {
                    self.inodes.insert(number, raw);
                }
                Some(_) => {}
                None => {
                    self.report.violate("blocks_in_range", format!("inode {number} cannot be read"));
                    break;
                }
            }
        }
    }

    fn check_inode(&mut self, number: u64, raw: &RawInode) {
        if FileKind::from_mode(u32::from(raw.mode)).is_none() {
            self.report.violate("inode_mode_known", format!("inode {number}: mode {:o}", raw.mode));
            self.fixes.push(Fix::Regular(number));
        }
        let owner = format!("inode {number}");
        if !raw.times_are_possible() {
            self.report.violate("times_possible", format!("{owner}: a time has a second of fraction"));
            self.fixes.push(Fix::Times(number));
        }
        self.check_tree((number, &owner), raw);
        self.check_attributes((number, &owner), raw);
    }

    fn check_attributes(&mut self, (number, owner): (u64, &str), raw: &RawInode) {
        if raw.xattr == 0 {
            return;
        }
        let before = self.report.violations.len();
        self.check_attribute_blocks(owner, raw);
        if self.report.violations.len() > before && number != 0 {
            self.fixes.push(Fix::NoAttributes(number));
        }
    }

    /// What cannot be read is reported with the attributes.
    fn attribute_blocks(&self, raw: &RawInode) -> Vec<u64> {
        blocks_of(self.region, raw.xattr).unwrap_or_else(|_| vec![block_of(raw.xattr)])
    }

    fn check_attribute_blocks(&mut self, owner: &str, raw: &RawInode) {
        for at in self.attribute_blocks(raw) {
            let behind_journal = (self.first_block..self.superblock.size / BLOCK).contains(&(at / BLOCK));
            let predicate = match at.is_multiple_of(BLOCK) && behind_journal {
                false => "attribute_block_in_range",
                true if !self.unused.take(at / BLOCK) => "block_used_once",
                true => continue,
            };
            self.report.violate(predicate, format!("{owner}: attribute block at {at}"));
            self.trees_whole = false;
            return;
        }
        let attributes = match attributes_of(self.region, raw) {
            Ok(attributes) => attributes,
            Err(error) => {
                self.report.violate("attributes_sound", format!("{owner}: {error}"));
                return;
            }
        };
        if let Some(name) = attributes.name_twice() {
            let name = String::from_utf8_lossy(name);
            let what = format!("{owner}: attribute block at {}: {name} is there twice", block_of(raw.xattr));
            self.report.violate("attributes_sound", what);
        }
        for record in attributes.iter() {
            if let Err(error) = record.value.read(self.region) {
                let name = String::from_utf8_lossy(record.name);
                self.report.violate("attributes_sound", format!("{owner}: {name}: {error}"));
            }
        }
    }

    /// Walks a tree: every block exists and is used once; counts and size fit. The walk ends at the first block that is not: what
    /// is below may lead anywhere.
    fn check_tree(&mut self, (number, owner): (u64, &str), raw: &RawInode) {
        let tree = Tree::of(raw);
        let (mut data_blocks, mut last, mut twice) = (0, None, None);
        let (unused, first_block, end) = (&mut self.unused, self.first_block, self.superblock.size / BLOCK);
        let walked = tree.visit(self.region, &mut |visited| {
            let (first, blocks) = (visited.offset / BLOCK, 1 << (visited.shift - BLOCK_SHIFT));
            if visited.offset % BLOCK != 0 || first < first_block || first + blocks > end {
                return Err(Error::Corrupt(format!("a pointer to {}", visited.offset)));
            }
            twice = (first..first + blocks).find(|block| !unused.take(*block));
            if let Some(block) = twice {
                return Err(Error::Corrupt(format!("block {block} is used twice")));
            }
            if let Some(block) = visited.block {
                data_blocks += blocks;
                last = last.max(Some(block));
            }
            Ok(())
        });
        if let Err(error) = walked {
            let predicate = if twice.is_some() { "block_used_once" } else { "blocks_in_range" };
            self.report.violate(predicate, format!("{owner}: {error}"));
            self.trees_whole = false;
            self.fix(number, Fix::Pointers(number));
            return;
        }
        let blocks = data_blocks + self.attribute_blocks(raw).len() as u64;
        if blocks != u64::from(raw.blocks) {
            self.report
                .violate("block_count_right", format!("{owner}: counts {} blocks, has {blocks}", raw.blocks));
            self.fix(number, Fix::Blocks(number, blocks));
        }
        let beyond = last.is_some_and(|last| last << tree.shift >= raw.size);
        if beyond && raw.flags & FLAG_BEYOND_EOF == 0 {
            let what = format!("{owner}: size {} but block {} is mapped", raw.size, last.unwrap_or(0));
            self.report.violate("size_covers_blocks", what);
            self.fix(number, Fix::Size(number, last.map_or(0, |last| (last + 1) << tree.shift)));
        }
    }

    /// Inodes that are not of users, which have number 0 here, are not repaired.
    fn fix(&mut self, number: u64, fix: Fix) {
        if number != 0 {
            self.fixes.push(fix);
        }
    }

    fn check_dir(&mut self, number: u64, raw: &RawInode) {
        let mut names = BTreeSet::new();
        if raw.size == 0 || !raw.size.is_multiple_of(BLOCK) || raw.size > self.superblock.size {
            self.report.violate("directory_sound", format!("directory {number}: size {}", raw.size));
        }
        for block in 0..raw.size.min(self.superblock.size) / BLOCK {
            let Ok(Some(at)) = Tree::of(raw).lookup(self.region, block) else {
                self.report
                    .violate("directory_sound", format!("directory {number}: block {block} is missing"));
                self.names_whole = false;
                break;
            };
            let mut bytes = [0; BLOCK as usize];
            if let Err(error) = self.region.peek(at, &mut bytes) {
                self.report.violate("directory_sound", format!("directory {number}, block {block}: {error}"));
                self.names_whole = false;
                continue;
            }
            let walked = records(&bytes, |record| {
                // A directory without links waits to be freed: its parent does not count it any more, and may be gone.
                if record.header.ino != 0 && raw.links > 0 {
                    let record_at = at + u64::from(record.start);
                    let name = (record.name, record.header.ino, record_at);
                    self.check_name(number, name, &mut names);
                }
                ControlFlow::<()>::Continue(())
            });
            if let Err(error) = walked {
                self.report.violate("directory_sound", format!("directory {number}, block {block}: {error}"));
                self.names_whole = false;
                self.fixes.push(Fix::Records(at));
            }
        }
        if raw.links > 0 && (!names.contains(b".".as_slice()) || !names.contains(b"..".as_slice())) {
            self.report.violate("directory_sound", format!("directory {number} lacks . or .."));
            self.fixes.push(Fix::Dots(number));
        }
    }

    fn check_name(&mut self, dir: u64, (name, ino, at): (&[u8], u64, u64), names: &mut BTreeSet<Vec<u8>>) {
        let shown = String::from_utf8_lossy(name);
        if !names.insert(name.to_vec()) {
            self.report.violate("directory_sound", format!("directory {dir}: name {shown} is there twice"));
        }
        let Some(is_dir) = self.tree.nodes.get(&ino).map(Node::is_dir) else {
            self.report.violate(
                "names_lead_to_inodes",
                format!("directory {dir}: {shown} leads to inode {ino}, which is free"),
            );
            self.fixes.push(Fix::NoName { dir, at });
            return;
        };
        match name {
            b"." if ino != dir => {
                self.report.violate("directory_sound", format!("directory {dir}: . leads to {ino}"));
            }
            b"." => {}
            b".." if !is_dir => {
                self.report
                    .violate("directory_sound", format!("directory {dir}: .. leads to {ino}, no directory"));
            }
            b".." => {
                self.dotdots.insert(dir, at);
                self.tree.nodes.entry(dir).and_modify(|dir| dir.dotdot = Some(ino));
            }
            _ => {
                self.tree.add_name(dir, ino, at);
            }
        }
    }

    /// The inodes on the truncate list.
    fn check_truncate_list(&mut self) -> BTreeSet<u64> {
        let offset_of = |number| {
            inode_offset(self.region, &self.table, number)
                .ok_or_else(|| Error::Corrupt(format!("no inode {number}")))
        };
        match read_list(self.region, &offset_of) {
            Ok(list) => list.into_iter().collect(),
            Err(error) => {
                self.report.violate("truncate_list_sound", error.to_string());
                self.fixes.push(Fix::TruncateList);
                BTreeSet::new()
            }
        }
    }

    fn check_links(&mut self, doomed: &BTreeSet<u64>) {
        for (number, fault) in self.tree.faults() {
            let (predicate, fix) = match fault {
                Fault::Nameless { links } => {
                    if links > 0 {
                        let what = format!("inode {number}: {links} links, expected 0");
                        self.report.violate("link_count_right", what);
                        self.fixes.push(Fix::Links(number, 0));
                    }
                    if number < FIRST_INO || doomed.contains(&number) {
                        continue;
                    }
                    ("nothing_lost", Some(Fix::Lost(number)))
                }
                Fault::Links { expected, .. } => ("link_count_right", Some(Fix::Links(number, expected))),
                Fault::Parent { named_in: parent, .. } => {
                    let at = self.dotdots.get(&number);
                    ("directory_sound", at.map(|at| Fix::Parent { dir: number, at: *at, parent }))
                }
                Fault::Names(_) | Fault::Circle => ("directory_sound", None),
            };
            self.report.violate(predicate, format!("inode {number}: {fault}"));
            self.fixes.extend(fix);
        }
        let second = self.tree.take_second_names().into_iter();
        self.fixes.extend(second.map(|(_, dir, at)| Fix::NoName { dir, at }));
    }

    fn check_saved_map(&mut self) {
        if [0, NOTHING_SAVED].contains(&self.superblock.saved_extents) {
            return;
        }
        let map = inode_offset(self.region, &self.table, BLOCK_MAP_INO)
            .and_then(|at| self.region.read::<RawInode>(at).ok());
        let Some(map) = map else { return };
        // It never has attributes, and nothing reads what stands there.
        self.check_tree((0, "block map"), &RawInode { flags: FLAG_BEYOND_EOF, xattr: 0, ..map });
        let tree = Tree::of(&map);
        let extent = |number| recovery::saved_extent(self.region, &tree, number).ok().flatten();
        let used = self.unused.used_runs();
        let as_many = self.superblock.saved_extents == used.len() as u64;
        let saved: Option<Vec<_>> = if as_many { (0..used.len() as u64).map(extent).collect() } else { None };
        if saved.as_deref() != Some(&used[..]) {
            let what = format!(
                "{} extents saved, {} runs of blocks in use",
                self.superblock.saved_extents,
                used.len()
            );
            self.report.violate("saved_map_right", what);
            self.fixes.push(Fix::SavedMap);
        }
    }
}
