//! Checking an image without changing it.
//!
//! | predicate | holds when |
//! |---|---|
//! | `superblock_copied` | both superblocks can be used and are the same |
//! | `inode_table_sound` | chunks lie where they can, and each state is one |
//! | `log_sound` | every live inode can be read, and every entry of its log: checksums, kinds, ranges, pages; links have targets |
//! | `attributes_sound` | attribute blocks are what they should be, names differ |
//! | `block_used_once` | no block has two uses |
//! | `names_lead_to_inodes` | every name leads to a live inode |
//! | `directory_sound` | `..` is there and leads to the directory that has the name; no directory has two names |
//! | `link_count_right` | links are names, for a directory 2 and one for each below it |
//! | `nothing_lost` | every live inode but the root has a name, and none waits to be freed |
//! | `saved_blocks_right` `saved_inodes_right` | what unmounting saved is what logs and tables say |

use std::collections::{BTreeMap, BTreeSet};

use media::MediaError;
use media::nvmm::Region;
use vfs::FileKind;

use super::dir::read_name;
use super::inode::{Facts, Loaded, replay};
use super::journal;
use super::layout::{
    BLOCK, CLEAN, FILE_BLOCKS_MAX, Geometry, INODE_BYTES, NEVER_MOUNTED, NOTHING_SAVED, ROOT_INO, RawInode,
    Superblock, state,
};
use super::log::{Entry, Reader};
use super::recovery::{Marks, Saved, chunks, read_saved};
use super::repair::{Fix, torn_tail};
use super::superblock;
use super::xattr::attributes_of;
use base::error::{Error, Result};
use base::name_tree::{Fault, NameTree};
use design::{FsckReport, Violation};

struct Checker<'a> {
    region: &'a Region,
    geometry: Geometry,
    report: FsckReport,
    marks: Marks,
    /// Where each live inode lies.
    places: BTreeMap<u64, u64>,
    tree: NameTree<Vec<u8>>,
    /// Slots in use, as unmounting saves them.
    used: Vec<(u64, u64)>,
    /// Blocks with more than one use.
    twice: BTreeSet<u64>,
    /// Numbers of free inodes.
    free: Vec<u64>,
    /// Every inode could be read.
    is_whole: bool,
    fixes: Vec<Fix>,
}

/// What an image is found to be.
#[derive(Default)]
pub(crate) struct Examined {
    pub(crate) report: FsckReport,
    /// What would repair it, as far as the violations show it.
    pub(crate) fixes: Vec<Fix>,
    /// Ranges of free blocks; none when not every inode could be read.
    pub(crate) free_blocks: Vec<(u64, u64)>,
    pub(crate) free_inodes: Vec<u64>,
}

/// Checks an image.
pub(crate) fn check(region: &Region) -> FsckReport {
    examine(region).report
}

/// Checks an image; also what would repair it.
pub(crate) fn examine(region: &Region) -> Examined {
    let (superblock, _) = match superblock::load(region) {
        Ok(loaded) => loaded,
        Err(error) => {
            let violation = Violation { predicate: "superblock_copied", what: error.to_string() };
            let report = FsckReport { violations: vec![violation], ..FsckReport::default() };
            return Examined { report, ..Examined::default() };
        }
    };
    let geometry = Geometry::of(&superblock);
    let mut checker = Checker {
        region,
        geometry,
        report: FsckReport::default(),
        marks: Marks::new(&geometry),
        places: BTreeMap::new(),
        tree: NameTree::new(ROOT_INO),
        used: Vec::new(),
        twice: BTreeSet::new(),
        free: Vec::new(),
        is_whole: true,
        fixes: Vec::new(),
    };
    if let Some(what) = unclean(region, &geometry) {
        checker.report.notes.push(what);
        return Examined { report: checker.report, ..Examined::default() };
    }
    checker.run(&superblock);
    let free_blocks = if checker.is_whole { checker.free_blocks() } else { Vec::new() };
    let Checker { report, fixes, free: free_inodes, .. } = checker;
    Examined { report, fixes, free_blocks, free_inodes }
}

/// Reads all attributes of an inode.
fn check_attributes(region: &Region, facts: &Facts) -> Result<()> {
    let attributes = attributes_of(region, facts)?;
    if let Some(name) = attributes.name_twice() {
        return Err(Error::Corrupt(format!("attribute {} is there twice", String::from_utf8_lossy(name))));
    }
    attributes.iter().try_for_each(|record| record.value.read(region).map(drop))
}

/// When a file last got a block, by its log.
fn written(region: &Region, geometry: &Geometry, (number, raw): (u64, &RawInode), block: u64) -> u64 {
    let mut time = 0;
    let Ok(mut reader) = Reader::new(region, geometry, number, (raw.head, raw.tail)) else { return time };
    while let Ok(Some((_, entry))) = reader.next() {
        if let Entry::Write(write) = entry
            && (0..write.pages).contains(&block.wrapping_sub(write.block / BLOCK))
        {
            time = time.max(write.time);
        }
    }
    time
}

/// Why an image has to be recovered first.
fn unclean(region: &Region, geometry: &Geometry) -> Option<String> {
    let armed = (0..geometry.shards).find_map(|shard| match journal::unfinished(region, geometry, shard) {
        Ok(words) if words.is_empty() => None,
        Ok(words) => Some(format!("unclean: the journal of shard {shard} has {} words to undo", words.len())),
        Err(error) => Some(format!("unclean: {error}")),
    });
    let mounted = match region.load_u64(CLEAN) {
        Ok(0) => Some("unclean: mounted, or not unmounted".to_owned()),
        Ok(_) => None,
        Err(error) => Some(format!("unclean: {error}")),
    };
    armed.or(mounted)
}

impl Checker<'_> {
    fn violate(&mut self, predicate: &'static str, what: String) {
        self.report.violations.push(Violation { predicate, what });
    }

    fn run(&mut self, superblock: &Superblock) {
        if let Some(what) = superblock::copy_fault(self.region, superblock) {
            self.violate("superblock_copied", what);
            self.fixes.push(Fix::Superblocks);
        }
        let mut dirs = Vec::new();
        for shard in 0..self.geometry.shards {
            match chunks(self.region, &self.geometry, shard) {
                Ok(chunks) => self.check_table(shard, &chunks, &mut dirs),
                Err(error) => {
                    self.is_whole = false;
                    self.violate("inode_table_sound", error.to_string());
                }
            }
        }
        for (number, dir) in &dirs {
            if let Err(error) = self.check_names(*number, dir) {
                self.violate("log_sound", error.to_string());
            }
        }
        if self.is_whole {
            self.fix_doubles();
            self.check_links();
            self.check_saved();
        }
        let directories = dirs.len() as u64;
        self.report.checked = vec![
            ("inodes", self.places.len() as u64),
            ("directories", directories),
            ("shards", self.geometry.shards),
        ];
    }

    /// Names can be trusted only when every inode could be read.
    fn note_fix(&mut self, fix: Fix) {
        if self.is_whole {
            self.fixes.push(fix);
        }
    }

    fn mark(&mut self, block: u64, owner: &dyn Fn() -> String) {
        if !self.marks.mark(block) {
            self.violate("block_used_once", format!("{}: block {block} has another use, too", owner()));
            self.twice.insert(block);
        }
    }

    fn check_table(&mut self, shard: u64, chunks: &[u64], dirs: &mut Vec<(u64, Loaded)>) {
        let (geometry, shards) = (self.geometry, self.geometry.shards);
        for (number, chunk) in (0u64..).zip(chunks) {
            for block in 0..geometry.chunk_blocks() {
                self.mark(chunk / BLOCK + block, &|| format!("inode table of shard {shard}, chunk {number}"));
            }
            for slot in 0..geometry.slots_per_chunk() {
                let index = number * geometry.slots_per_chunk() + slot;
                let inode = index * shards + shard;
                let is_used = self.check_inode(inode, chunk + slot * INODE_BYTES, dirs);
                if is_used || inode == 0 {
                    self.note_used(shard << 48 | index);
                }
            }
        }
    }

    fn note_used(&mut self, key: u64) {
        match self.used.last_mut() {
            Some((_, last)) if *last + 1 == key => *last = key,
            _ => self.used.push((key, key)),
        }
    }

    /// Checks a slot of an inode table; whether it is in use.
    fn check_inode(&mut self, number: u64, at: u64, dirs: &mut Vec<(u64, Loaded)>) -> bool {
        let raw = match self.region.read::<RawInode>(at) {
            Ok(raw) => raw,
            Err(error) => {
                self.is_whole = false;
                self.violate("log_sound", format!("inode {number}: {error}"));
                return true;
            }
        };
        match raw.state() {
            state::FREE => {
                self.free.push(number);
                return false;
            }
            state::LIVE => {}
            state::ORPHAN => {
                self.violate("nothing_lost", format!("inode {number} waits to be freed"));
                self.fixes.push(Fix::State(number));
                return true;
            }
            other => {
                self.is_whole = false;
                self.violate("inode_table_sound", format!("inode {number}: state {other}"));
                self.fixes.push(Fix::State(number));
                return true;
            }
        }
        match replay(self.region, &self.geometry, number, &raw) {
            Ok(loaded) => self.take((number, at), loaded, dirs),
            Err(error) => {
                self.is_whole = false;
                self.violate("log_sound", error.to_string());
                self.fixes.extend(self.fix_of_log(number, &raw));
            }
        }
        true
    }

    /// What would let an inode be read again.
    fn fix_of_log(&self, number: u64, raw: &RawInode) -> Option<Fix> {
        let without = RawInode { xattr: 0, ..*raw };
        match replay(self.region, &self.geometry, number, &without) {
            Ok(_) => Some(Fix::NoAttributes(number)),
            Err(_) => torn_tail(self.region, &self.geometry, number, raw).map(|at| Fix::Tail(number, at)),
        }
    }

    fn take(&mut self, (number, at): (u64, u64), loaded: Loaded, dirs: &mut Vec<(u64, Loaded)>) {
        let again = self.marks.mark_inode(&loaded);
        if let Some(block) = again.first() {
            self.violate("block_used_once", format!("inode {number}: block {block} has another use, too"));
        }
        self.twice.extend(again);
        if let Err(error) = check_attributes(self.region, &loaded.facts) {
            self.violate("attributes_sound", format!("inode {number}: {error}"));
            self.fixes.push(Fix::NoAttributes(number));
        }
        if loaded.facts.kind().is_none() {
            self.violate("log_sound", format!("inode {number}: mode {:o} is of no kind", loaded.facts.mode));
        }
        let is_link = loaded.facts.kind() == Some(FileKind::Symlink) && loaded.facts.links > 0;
        if is_link && (loaded.blocks.get(0).is_hole() || !(1..=BLOCK).contains(&loaded.facts.size)) {
            self.violate("log_sound", format!("inode {number}: a symbolic link without a target"));
        }
        self.places.insert(number, at);
        let kind = loaded.facts.kind().unwrap_or(FileKind::Regular);
        self.tree.insert(number, kind, loaded.facts.links, Some(loaded.names.parent));
        if loaded.facts.is_dir() {
            dirs.push((number, loaded));
        }
    }

    fn check_names(&mut self, number: u64, dir: &Loaded) -> Result<()> {
        let (mut slot, mut bytes) = (0, [0; 256]);
        while let Some((found, known)) = dir.names.next_from(slot) {
            slot = found + 1;
            let len = read_name(self.region, known.at, &mut bytes)?;
            if !self.tree.add_name(number, known.ino, bytes[..len].to_vec()) {
                let shown = String::from_utf8_lossy(&bytes[..len]);
                let what = format!("directory {number}: {shown} leads to inode {}, which is free", known.ino);
                self.violate("names_lead_to_inodes", what);
                self.note_fix(Fix::NoName { dir: number, name: bytes[..len].to_vec() });
            }
        }
        Ok(())
    }

    /// Of files that have the same block of data, the one whose entry is the youngest keeps it: with the end of its log, a file
    /// loses what has replaced the block. Where a block has another use, too, no file keeps it.
    fn fix_doubles(&mut self) {
        if self.twice.is_empty() {
            return;
        }
        let mut uses: BTreeMap<u64, Vec<(u64, u64, u64)>> = BTreeMap::new();
        let mut others = BTreeSet::new();
        for (number, at) in &self.places {
            let Ok(raw) = self.region.read::<RawInode>(*at) else { return };
            let Ok(loaded) = replay(self.region, &self.geometry, *number, &raw) else { return };
            let pages = loaded.log.pages.iter().map(|page| page.page);
            let attributes = loaded.attributes.iter().map(|at| at / BLOCK);
            others.extend(pages.chain(attributes).filter(|block| self.twice.contains(block)));
            loaded.blocks.for_each(0, FILE_BLOCKS_MAX, |page, place| {
                if self.twice.contains(&place.block()) {
                    let time = written(self.region, &self.geometry, (*number, &raw), place.block());
                    uses.entry(place.block()).or_default().push((time, *number, page));
                }
            });
        }
        for (block, mut users) in uses {
            users.sort_unstable();
            let keeps = usize::from(!others.contains(&block) && !self.is_table(block));
            users.truncate(users.len() - keeps);
            self.fixes.extend(users.into_iter().map(|(_, number, page)| Fix::Hole(number, page)));
        }
    }

    /// Whether a block is one of an inode table.
    fn is_table(&self, block: u64) -> bool {
        let holds =
            |chunk: &u64| (0..self.geometry.chunk_blocks()).contains(&block.wrapping_sub(chunk / BLOCK));
        let mut shards = 0..self.geometry.shards;
        shards.any(|shard| chunks(self.region, &self.geometry, shard).is_ok_and(|all| all.iter().any(holds)))
    }

    fn check_links(&mut self) {
        if !self.tree.is_dir(ROOT_INO) {
            self.violate("directory_sound", "the root is no directory".to_owned());
        }
        for (number, fault) in self.tree.faults() {
            let predicate = match fault {
                Fault::Nameless { .. } => {
                    self.fixes.push(Fix::Lost(number));
                    "nothing_lost"
                }
                Fault::Links { .. } => {
                    self.fix_counts(number);
                    "link_count_right"
                }
                Fault::Parent { .. } => {
                    self.fix_counts(number);
                    "directory_sound"
                }
                Fault::Names(_) => "directory_sound",
                Fault::Circle => {
                    let names = self.tree.take_names(number, false).into_iter();
                    self.fixes.extend(names.map(|(_, dir, name)| Fix::NoName { dir, name }));
                    "directory_sound"
                }
            };
            self.violate(predicate, format!("inode {number}: {fault}"));
        }
        let second = self.tree.take_second_names().into_iter();
        self.fixes.extend(second.map(|(_, dir, name)| Fix::NoName { dir, name }));
    }

    /// One entry sets links and `..` of a directory.
    fn fix_counts(&mut self, number: u64) {
        let links = self.tree.links_of(number);
        let fix = match self.tree.is_dir(number) {
            true => {
                let parent = self.tree.parent_of(number).unwrap_or(ROOT_INO);
                Fix::Directory { dir: number, parent, links }
            }
            false => Fix::Links(number, links),
        };
        if self.fixes.last() != Some(&fix) {
            self.fixes.push(fix);
        }
    }

    fn check_saved(&mut self) {
        let word = self.region.load_u64(CLEAN);
        if matches!(word, Ok(NOTHING_SAVED | NEVER_MOUNTED)) {
            return;
        }
        let free = self.free_blocks();
        let before = self.report.violations.len();
        self.compare_saved(word, &free);
        if self.report.violations.len() > before {
            self.fixes.push(Fix::Saved);
        }
    }

    /// Ranges of blocks that nothing has.
    fn free_blocks(&self) -> Vec<(u64, u64)> {
        let mut free: Vec<(u64, u64)> = Vec::new();
        let blocks = self.geometry.first_block()..self.geometry.blocks;
        for block in blocks.filter(|block| !self.marks.is_marked(*block)) {
            match free.last_mut() {
                Some((_, last)) if *last + 1 == block => *last = block,
                _ => free.push((block, block)),
            }
        }
        free
    }

    fn compare_saved(&mut self, word: Result<u64, MediaError>, free: &[(u64, u64)]) {
        let saved = word.ok().and_then(|at| read_saved(self.region, &self.geometry, at).ok());
        let Some(Saved { blocks, inodes }) = saved.flatten() else {
            self.violate("saved_blocks_right", "what unmounting saved is damaged".to_owned());
            return;
        };
        if blocks != free {
            let what = format!("{} ranges of free blocks were saved, there are {}", blocks.len(), free.len());
            self.violate("saved_blocks_right", what);
        }
        if inodes != self.used {
            let what = format!("{} ranges of inodes were saved, there are {}", inodes.len(), self.used.len());
            self.violate("saved_inodes_right", what);
        }
    }
}
