//! The invariants of an image, by name.
//!
//! | predicate | says |
//! |---|---|
//! | `superblock_valid` | a superblock can be used |
//! | `words_valid` | the word of each zone has a right check in one copy of the table, and a reserved opening, of logs one each |
//! | `log_sound` | no record is missing that a crash does not explain or behind its log's end; each is of a known kind, in range |
//! | `names_lead_to_inodes` | each name leads to an inode with a birth, and is in a directory |
//! | `born_once` | all records of an inode's birth, of which copies may be several, say the same |
//! | `names_sound` | each name has 1 to 255 bytes, no slash and no zero |
//! | `name_used_once` | no two adds give a directory one name: a call removes the add that it replaces |
//! | `attributes_sound` | each extended attribute has a name of 1 to 255 bytes, and no zero among them |
//! | `root_is_directory` | the root is a directory |
//! | `tree_sound` | each directory has one name and lies below the root |
//! | `numbers_reserved` | no record is about an inode with a number that is not given out yet |
//! | `blocks_in_range` | each block of a file lies in a zone for data |
//! | `block_used_once` | no two files have a block that at most one of them says to share |
//! | `size_possible` | no file is larger than the largest, or has a block behind that |
//! | `lines_as_written` | no line of a log zone had to be computed from its parity; a mount takes such a pool |
//! | `image_agrees` | a saved index that counts leads to the state to which the logs lead |
//!
//! Copies of the superblock or of a word that differ are no violation: a crash leaves them so, and the next mount makes them equal.
//! Neither is a saved index that is damaged: the next mount reads the logs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use design::{FsError, FsckReport, Violation};
use media::nvmm::Region;
use rustc_hash::FxHashMap;
use vfs::FileKind;

use super::Settings;
use super::build::{build, build_from_saved};
use super::loaded::{Loaded, load};
use super::same::difference;
use super::saved::{Saved, look};
use crate::format::clean::Present;
use crate::format::layout::{BLOCK, FILE_MAX, ROOT_INO};
use crate::format::mutant::Rules;
use crate::format::record::{Body, Seal};
use crate::format::tree::{Name, Slot};
use crate::format::zone::Use;
use crate::store::damage::Losses;
use crate::store::{parity, superblock};
use base::name_tree::NameTree;

/// Checks an image without changing it.
pub(crate) fn check(region: &Arc<Region>) -> FsckReport {
    let mut report = FsckReport::default();
    let loaded = match load(region, Rules::ALL) {
        Ok(loaded) => loaded,
        Err(FsError::Media(error)) => return FsckReport::unchecked(error.to_string()),
        Err(error) => {
            report.violate("superblock_valid", error.to_string());
            return report;
        }
    };
    let records = loaded.log.records.len() as u64;
    let zones = loaded.present().len() as u64;
    let shared = loaded.tree.references(Rules::ALL).values().filter(|files| **files > 1).count() as u64;
    let inodes = loaded.tree.inodes.len() as u64;
    report.checked =
        vec![("inodes", inodes), ("log zones", zones), ("records", records), ("shared blocks", shared)];
    if superblock::differ(region) {
        report.notes.push("the copies of the superblock differ; a mount makes them equal".to_owned());
    }
    for zone in &loaded.differ {
        report.notes.push(format!("the copies of the word of zone {zone} differ; a mount makes them equal"));
    }
    if loaded.geometry.parity {
        report.checked.push(("zones with parity", loaded.log.with_parity.len() as u64));
        report.notes.extend(misfits(region, &loaded));
    }
    report.violations.extend(violations(&loaded));
    if report.violations.is_empty() {
        check_saved(region, &loaded, &mut report);
    }
    // A mount takes these, and nothing is lost.
    for computed in &loaded.log.computed {
        report.violate("lines_as_written", computed.describe());
    }
    report
}

/// Zones with parity of which lines do not fit though no record is damaged: a crash, or damage, has left these.
fn misfits(region: &Region, loaded: &Loaded) -> Vec<String> {
    let (geometry, secret) = (&loaded.geometry, loaded.superblock.secret[0]);
    let mut bytes = vec![0; geometry.zone_bytes as usize];
    let is_whole = |zone: u32| {
        loaded.log.with_parity.contains(&zone)
            && loaded.log.computed.iter().all(|one| one.zone != zone)
            && loaded.log.damage.iter().all(|damage| damage.zone() != zone)
    };
    let mut misfits = |Present { zone, opening, .. }| {
        let seal = Seal { secret, opening, keyed: geometry.keyed, nonce: 0, rules: Rules::ALL };
        let lines = parity::misfits(region, geometry, (zone, seal), &mut bytes)?;
        let what = format!("zone {zone}: {lines} lines of its parity are damaged or were never durable");
        (lines > 0).then_some(what + "; its records are whole")
    };
    let zones = loaded.present();
    zones.into_iter().filter(|zone| is_whole(zone.zone)).filter_map(&mut misfits).collect()
}

/// Compares a saved index with the logs.
fn check_saved(region: &Arc<Region>, loaded: &Loaded, report: &mut FsckReport) {
    let saved = match look(region, loaded, false) {
        Saved::None => return,
        Saved::Damaged(why) => {
            return report.notes.push(format!("{why}; the next mount reads the logs, and nothing is lost"));
        }
        Saved::Whole(saved) => saved,
    };
    report.checked.push(("saved inodes", saved.head.inodes));
    let settings = Settings::default();
    let logs = build(region, loaded, &settings, Losses::default());
    let what = match build_from_saved(region, loaded, &settings, saved) {
        None => Some("it cannot be loaded".to_owned()),
        Some(saved) => difference(&saved, &logs),
    };
    if let Some(what) = what {
        report.violate("image_agrees", format!("the saved index differs from the logs: {what}"));
    }
}

/// What is wrong with an image.
pub(crate) fn violations(loaded: &Loaded) -> Vec<Violation> {
    let mut all = FsckReport::default();
    check_zones(loaded, &mut all);
    check_ends(loaded, &mut all);
    check_births(loaded, &mut all);
    check_names(loaded, &mut all);
    check_attributes(loaded, &mut all);
    check_tree(loaded, &mut all);
    check_blocks(loaded, &mut all);
    all.violations
}

fn check_zones(loaded: &Loaded, report: &mut FsckReport) {
    for (word, zone) in loaded.words.iter().zip(0..) {
        let next = loaded.superblock.openings;
        match word {
            None => {
                let what = format!("both copies of the word of zone {zone} are damaged");
                report.violate("words_valid", what);
            }
            Some(word) if matches!(word.usage, Use::Log | Use::Saved) && word.opening >= next => {
                let what = format!("zone {zone} has opening {}, the next is {next}", word.opening);
                report.violate("words_valid", what);
            }
            Some(word) if word.usage == Use::Log && u32::from(word.shard) >= loaded.superblock.shards => {
                report.violate("words_valid", format!("zone {zone} is of shard {}", word.shard));
            }
            Some(_) => {}
        }
    }
    let mut opened = BTreeMap::new();
    for (word, zone) in loaded.words.iter().zip(0u32..) {
        let log = word.as_ref().filter(|word| word.usage == Use::Log);
        if let Some(word) = log
            && let Some(other) = opened.insert(word.opening, zone)
        {
            let what = format!("zones {other} and {zone} have one opening, {}", word.opening);
            report.violate("words_valid", what);
        }
    }
    for damage in &loaded.log.damage {
        report.violate("log_sound", damage.to_string());
    }
}

/// A log goes on in another zone and says how far the one before it was written: what stands behind that may have the id of
/// another record.
fn check_ends(loaded: &Loaded, report: &mut FsckReport) {
    let records = &loaded.log.records;
    let ends: BTreeMap<_, _> = records
        .iter()
        .filter_map(|found| match &found.record.body {
            Body::Open(open) => open.previous.map(|one| ((one.zone, one.opening), u32::from(one.lines))),
            _ => None,
        })
        .collect();
    let is_torn = |place| loaded.log.torn.iter().any(|(zone, opening, _)| (zone, opening) == place);
    for (zone, opening, line) in &loaded.log.lasts {
        // The shard ended before the gap in a batch that a crash has torn, of which copies lie behind it.
        if !is_torn((zone, opening)) && ends.get(&(*zone, *opening)).is_some_and(|end| line >= end) {
            let what = format!("line {line} of zone {zone} is behind the end of its log");
            report.violate("log_sound", what);
        }
    }
}

/// Which of two different births counts would depend on which of them the cleaner has dropped.
fn check_births(loaded: &Loaded, report: &mut FsckReport) {
    let mut births = FxHashMap::default();
    for found in &loaded.log.records {
        let Body::Create(create) = &found.record.body else { continue };
        let birth = (create.mode, create.rdev, create.time, &create.target);
        if *births.entry(create.ino).or_insert(birth) != birth {
            report.violate("born_once", format!("records of the birth of inode {} differ", create.ino));
        }
    }
}

fn check_names(loaded: &Loaded, report: &mut FsckReport) {
    for ino in &loaded.tree.unborn {
        let what = format!("inode {ino} is named, but the record that made it is missing");
        report.violate(if *ino == ROOT_INO { "root_is_directory" } else { "names_lead_to_inodes" }, what);
    }
    let mut known = None;
    for Name { dir, ino, name, .. } in &loaded.tree.names {
        let shown = name.escape_ascii();
        if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
            report.violate("names_sound", format!("\"{shown}\" in directory {dir} is no name"));
        }
        if known != Some(*dir) && !is_dir(loaded, *dir) {
            let what = format!("\"{shown}\" of inode {ino} is in {dir}, which is no directory");
            report.violate("names_lead_to_inodes", what);
        } else {
            known = Some(*dir);
        }
    }
    for Name { dir, ino, name, .. } in loaded.tree.names_twice() {
        let shown = name.escape_ascii();
        let what = format!("\"{shown}\" in directory {dir} is a name of inode {ino} and of another");
        report.violate("name_used_once", what);
    }
    let last = loaded.log.last_ino;
    if last >= loaded.superblock.inodes {
        let what = format!("a record is about inode {last}, the next is {}", loaded.superblock.inodes);
        report.violate("numbers_reserved", what);
    }
}

fn check_attributes(loaded: &Loaded, report: &mut FsckReport) {
    for (ino, inode) in loaded.tree.inodes.in_order() {
        for name in inode.xattrs.iter().filter(|(_, held)| held.value.is_some()).map(|(name, _)| name) {
            if !(1..=255).contains(&name.len()) || name.contains(&0) {
                let what = format!("\"{}\" of inode {ino} names no attribute", name.escape_ascii());
                report.violate("attributes_sound", what);
            }
        }
    }
}

fn is_dir(loaded: &Loaded, ino: u64) -> bool {
    kind_of(loaded, ino) == Some(FileKind::Directory)
}

fn kind_of(loaded: &Loaded, ino: u64) -> Option<FileKind> {
    FileKind::from_mode(u32::from(loaded.tree.inodes.get(ino)?.birth.value.mode))
}

fn check_tree(loaded: &Loaded, report: &mut FsckReport) {
    if !is_dir(loaded, ROOT_INO) {
        report.violate("root_is_directory", "the root is no directory");
        return;
    }
    let mut tree = NameTree::new(ROOT_INO);
    for (ino, inode) in loaded.tree.inodes.in_order() {
        let Some(kind) = kind_of(loaded, ino) else {
            report.violate("names_lead_to_inodes", format!("inode {ino} is of no known kind"));
            continue;
        };
        // A file is in no circle, and may have many names.
        if kind == FileKind::Directory {
            tree.insert(ino, kind, inode.links, None);
        }
    }
    for Name { dir, ino, name, .. } in loaded.tree.names.iter().filter(|name| is_dir(loaded, name.ino)) {
        tree.add_name(*dir, *ino, name.clone());
    }
    // Links and parents follow from the names, so only circles and second names are left.
    let twice = tree.take_second_names().into_iter().map(|(ino, ..)| (ino, "a directory with two names"));
    let twice: Vec<_> = twice.collect();
    let circles = tree.circles().into_iter().map(|ino| (ino, "a directory that is below itself"));
    for (ino, what) in twice.into_iter().chain(circles) {
        report.violate("tree_sound", format!("inode {ino}: {what}"));
    }
}

fn check_blocks(loaded: &Loaded, report: &mut FsckReport) {
    let mut logs: BTreeSet<u32> = loaded.present().iter().map(|zone| zone.zone).collect();
    logs.extend(loaded.saved_zones());
    for (ino, inode) in loaded.tree.inodes.in_order() {
        if inode.bytes() > FILE_MAX {
            report.violate("size_possible", format!("inode {ino} has {} bytes", inode.bytes()));
        }
        if let Some((block, _)) =
            inode.blocks.in_order().last().filter(|(block, _)| *block >= FILE_MAX / BLOCK)
        {
            report.violate("size_possible", format!("inode {ino} has a block {block}"));
        }
        let outside = inode.blocks.in_order().find_map(|(file, held)| {
            let Slot::Block { place, .. } = held.value else { return None };
            let zone = loaded.geometry.zone_of(place).map(|(zone, _)| zone);
            zone.is_none_or(|zone| logs.contains(&zone)).then_some((file, place))
        });
        if let Some((file, place)) = outside {
            let what = format!("block {file} of inode {ino} is block {place}, which is in no zone for data");
            report.violate("blocks_in_range", what);
        }
    }
    if let Some(block) = loaded.tree.blocks_twice().first() {
        report.violate("block_used_once", format!("two files have block {block}"));
    }
}
