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
use std::ops::RangeInclusive;

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
use super::repair::{Fix, place_of, torn_tail};
use super::salvage::{Rest, is_blank, is_sealed, sealed, with_kind};
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
    used: Vec<RangeInclusive<u64>>,
    /// Blocks with more than one use.
    twice: BTreeSet<u64>,
    /// Numbers of free inodes.
    free: BTreeSet<u64>,
    /// Inodes that cannot be read.
    unread: Vec<(u64, RawInode)>,
    /// Inodes that wait to be freed, or have no state.
    doubtful: BTreeMap<u64, RawInode>,
    /// Names that lead to no live inode: the directory, the name, the inode.
    dangling: Vec<(u64, Vec<u8>, u64)>,
    /// Every inode could be read.
    is_whole: bool,
    fixes: Vec<Fix>,
}

/// The uses of a block that are not data: inodes whose logs have it, and inodes whose attributes have it.
#[derive(Default)]
struct Others {
    logs: Vec<(u64, RawInode)>,
    attributes: Vec<u64>,
}

/// What an image is found to be.
#[derive(Default)]
pub(crate) struct Examined {
    pub(crate) report: FsckReport,
    /// What would repair it, as far as the violations show it.
    pub(crate) fixes: Vec<Fix>,
    /// Ranges of free blocks; none when not every inode could be read.
    pub(crate) free_blocks: Vec<RangeInclusive<u64>>,
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
        free: BTreeSet::new(),
        unread: Vec::new(),
        doubtful: BTreeMap::new(),
        dangling: Vec::new(),
        is_whole: true,
        fixes: Vec::new(),
    };
    if let Some(what) = unclean(region, &geometry) {
        checker.report.notes.push(what);
        return Examined { report: checker.report, ..Examined::default() };
    }
    checker.run(&superblock);
    let free_blocks = if checker.is_whole { checker.free_blocks() } else { Vec::new() };
    let Checker { report, fixes, free, .. } = checker;
    let free_inodes = free.into_iter().collect();
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
        self.fix_unread();
        if self.is_whole {
            self.fix_states();
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
            Some(range) if range.end() + 1 == key => *range = *range.start()..=key,
            _ => self.used.push(key..=key),
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
                self.free.insert(number);
                return false;
            }
            state::LIVE => {}
            state::ORPHAN => {
                self.violate("nothing_lost", format!("inode {number} waits to be freed"));
                self.doubtful.insert(number, raw);
                return true;
            }
            other => {
                self.violate("inode_table_sound", format!("inode {number}: state {other}"));
                self.doubtful.insert(number, raw);
                return true;
            }
        }
        match replay(self.region, &self.geometry, number, &raw) {
            Ok(loaded) => self.take((number, at), loaded, dirs),
            Err(error) => {
                self.is_whole = false;
                self.violate("log_sound", error.to_string());
                self.unread.push((number, raw));
            }
        }
        true
    }

    /// Finds changes by which inodes can be read again. The rest of a log has no page that something else has.
    fn fix_unread(&mut self) {
        for (number, raw) in std::mem::take(&mut self.unread) {
            if is_blank(number, &raw) && number != ROOT_INO {
                self.fixes.push(Fix::State(number, state::FREE));
                continue;
            }
            let mut whole = raw;
            if !is_sealed(number, &raw) {
                whole = sealed(self.region, &self.geometry, number, &raw);
                self.fixes.push(Fix::Seal(number, whole));
            }
            self.fix_log(number, &whole);
        }
    }

    fn fix_log(&mut self, number: u64, raw: &RawInode) {
        let reads = |raw: &RawInode| replay(self.region, &self.geometry, number, raw).is_ok();
        if reads(raw) {
            return;
        }
        if reads(&RawInode { xattr: 0, ..*raw }) {
            self.fixes.push(Fix::NoAttributes(number));
        } else if let Some(at) = torn_tail(self.region, &self.geometry, number, raw) {
            self.fixes.push(Fix::Tail(number, at));
        } else {
            self.fix_by_rest(number, raw, None);
        }
    }

    /// Makes the readable rest of a log the log, without a block that has another use.
    fn fix_by_rest(&mut self, number: u64, raw: &RawInode, without: Option<u64>) {
        let taken = |block| match without {
            Some(without) => block == without,
            None => self.marks.is_marked(block),
        };
        if let Ok(rest) = Rest::of((self.region, &self.geometry), (number, raw), &taken) {
            rest.pages.iter().for_each(|page| {
                self.marks.mark(*page);
            });
            self.fixes.push(Fix::Log(number, rest));
        }
    }

    /// Inodes that have no state, wait to be freed or are free, and have a name: whether one can be read says what becomes of it.
    fn fix_states(&mut self) {
        let mut live = BTreeSet::new();
        for (dir, name, number) in std::mem::take(&mut self.dangling) {
            if live.contains(&number) || self.comes_back(number) {
                live.insert(number);
            } else {
                self.fixes.push(Fix::NoName { dir, name });
            }
        }
        for (number, raw) in std::mem::take(&mut self.doubtful) {
            let is_kept = raw.state() != state::ORPHAN && self.comes_back(number);
            if number == ROOT_INO || is_kept {
                live.insert(number);
            } else if !live.contains(&number) {
                self.fixes.push(Fix::State(number, state::FREE));
            }
        }
        for number in live {
            self.free.remove(&number);
            self.fixes.push(Fix::State(number, state::LIVE));
        }
    }

    /// Whether an inode that is not live can be read, and has nothing that others have.
    fn comes_back(&mut self, number: u64) -> bool {
        let Ok(raw) =
            place_of(self.region, &self.geometry, number).and_then(|at| Ok(self.region.read(at)?))
        else {
            return false;
        };
        if is_blank(number, &raw) {
            return false;
        }
        let whole =
            if is_sealed(number, &raw) { raw } else { sealed(self.region, &self.geometry, number, &raw) };
        let Ok(loaded) = replay(self.region, &self.geometry, number, &whole) else { return false };
        let pages = loaded.log.pages.iter().map(|page| page.page);
        let mut is_alone = !pages
            .chain(loaded.attributes.iter().map(|at| at / BLOCK))
            .any(|block| self.marks.is_marked(block));
        loaded
            .blocks
            .for_each(0, FILE_BLOCKS_MAX, |_, place| is_alone &= !self.marks.is_marked(place.block()));
        if is_alone {
            self.marks.mark_inode(&loaded);
        }
        is_alone
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
            if let Ok(raw) = self.region.read::<RawInode>(at) {
                self.fixes.push(Fix::Seal(number, sealed(self.region, &self.geometry, number, &raw)));
            }
        }
        let is_link = loaded.facts.kind() == Some(FileKind::Symlink) && loaded.facts.links > 0;
        if is_link && (loaded.blocks.get(0).is_hole() || !(1..=BLOCK).contains(&loaded.facts.size)) {
            self.violate("log_sound", format!("inode {number}: a symbolic link without a target"));
            if let Ok(raw) = self.region.read::<RawInode>(at) {
                self.fixes.push(Fix::Seal(number, with_kind(number, &raw, FileKind::Regular)));
            }
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
                self.dangling.push((number, bytes[..len].to_vec(), known.ino));
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
        // What is no data: which logs have it, which attributes.
        let mut others: BTreeMap<u64, Others> = BTreeMap::new();
        for (number, at) in &self.places {
            let Ok(raw) = self.region.read::<RawInode>(*at) else { return };
            let Ok(loaded) = replay(self.region, &self.geometry, *number, &raw) else { return };
            for page in loaded.log.pages.iter().filter(|page| self.twice.contains(&page.page)) {
                others.entry(page.page).or_default().logs.push((*number, raw));
            }
            for block in
                loaded.attributes.iter().map(|at| at / BLOCK).filter(|block| self.twice.contains(block))
            {
                others.entry(block).or_default().attributes.push(*number);
            }
            loaded.blocks.for_each(0, FILE_BLOCKS_MAX, |page, place| {
                if self.twice.contains(&place.block()) {
                    let time = written(self.region, &self.geometry, (*number, &raw), place.block());
                    uses.entry(place.block()).or_default().push((time, *number, page));
                }
            });
        }
        for (block, mut users) in uses {
            users.sort_unstable();
            let keeps = usize::from(!others.contains_key(&block) && !self.is_table(block));
            users.truncate(users.len() - keeps);
            self.fixes.extend(users.into_iter().map(|(_, number, page)| Fix::Hole(number, page)));
        }
        for (block, Others { logs, attributes }) in others {
            let is_table = self.is_table(block);
            let (no_attributes, no_logs) =
                (usize::from(!is_table && logs.is_empty()), usize::from(!is_table));
            self.fixes.extend(attributes.into_iter().skip(no_attributes).map(Fix::NoAttributes));
            for (number, raw) in logs.into_iter().skip(no_logs) {
                self.fix_by_rest(number, &raw, Some(block));
            }
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
            self.fixes.push(Fix::Root);
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
    fn free_blocks(&self) -> Vec<RangeInclusive<u64>> {
        let mut free: Vec<RangeInclusive<u64>> = Vec::new();
        let blocks = self.geometry.first_block()..self.geometry.blocks;
        for block in blocks.filter(|block| !self.marks.is_marked(*block)) {
            match free.last_mut() {
                Some(range) if range.end() + 1 == block => *range = *range.start()..=block,
                _ => free.push(block..=block),
            }
        }
        free
    }

    fn compare_saved(&mut self, word: Result<u64, MediaError>, free: &[RangeInclusive<u64>]) {
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
