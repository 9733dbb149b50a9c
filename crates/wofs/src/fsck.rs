//! The invariants of an image, by name.
//!
//! | predicate | says |
//! |---|---|
//! | `superblock` | the superblock and its copy are whole, and of this size; the word of the last unmount is one |
//! | `containers` | a block has at most one of the four bits, and lies behind the bitmaps |
//! | `packages` | every place of a container can be read (one without a whole package is free: torn and dead look alike) |
//! | `numbers` | no two packages have the same number, and none a larger one than the last unmount has saved |
//! | `unlinks` | what an UNLINK hides lies where a CREATE can lie |
//! | `births` | all names of an inode number are of one birth, and of one kind |
//! | `data` | blocks of DATA that counts lie behind the bitmaps, in no container, and no two files have one |
//! | `names` | each name is there once, has 1 to 91 bytes, and lies in a directory |
//! | `tree` | the directories form a tree below the root |

use std::collections::{BTreeMap, BTreeSet};

use ::vfs::FileKind;
use media::nvmm::Region;

use crate::layout::{BLOCK, Kind, NAME_MAX, ROOT};
use crate::merge::File;
use crate::mutant::Rules;
use crate::package::{Package, Place};
use crate::recovery::{Loaded, load};
use crate::superblock;
use base::name_tree::{Fault, NameTree};
use design::FsckReport;

/// Checks an image without changing it.
pub(crate) fn check(region: &Region) -> FsckReport {
    let mut report = FsckReport::default();
    for copy in [0, BLOCK] {
        if let Err(error) = superblock::read(region, copy) {
            report.violate("superblock", error.to_string());
        }
    }
    if let Err(error) = superblock::saved(region) {
        report.violate("superblock", error.to_string());
    }
    match load(region, Rules::default()) {
        Ok(loaded) => {
            check_loaded(&loaded, &mut report);
            let count = |kind| loaded.found.values().filter(|package| package.kind() == kind).count() as u64;
            let kinds = [
                ("attr", Kind::Attr),
                ("unlink", Kind::Unlink),
                ("create", Kind::Create),
                ("data", Kind::Data),
            ];
            report.checked = vec![("inodes", loaded.merged.files.len() as u64)];
            report.checked.extend(kinds.map(|(name, kind)| (name, count(kind))));
            if loaded.saved.is_none() {
                report.notes.push("it was not unmounted: all packages are read, as in any mount".to_owned());
            }
            if loaded.rests > 0 {
                report.notes.push(format!("{} places of containers hold what is no package", loaded.rests));
            }
        }
        Err(error) if report.violations.is_empty() => report.violate("superblock", error.to_string()),
        Err(_) => {}
    }
    report
}

/// Checks what was read.
pub(crate) fn check_loaded(loaded: &Loaded, report: &mut FsckReport) {
    for (kind, block) in &loaded.wrong_bits {
        report.violate("containers", format!("block {block} cannot be a container of kind {kind:?}"));
    }
    for (_, place) in &loaded.unreadable {
        report.violate("packages", format!("the package at byte {place} cannot be read"));
    }
    check_numbers(loaded, report);
    check_births(loaded, report);
    check_data(loaded, report);
    check_names(loaded, report);
}

fn check_numbers(loaded: &Loaded, report: &mut FsckReport) {
    let mut seen: BTreeMap<u64, Place> = BTreeMap::new();
    for (place, package) in &loaded.found {
        let vtail = package.vtail();
        if let Some(other) = seen.insert(vtail, *place) {
            report.violate(
                "numbers",
                format!("the packages at bytes {other} and {place} have the number {vtail}"),
            );
        }
        if loaded.saved.is_some_and(|saved| package.largest(Rules::default()) >= saved) {
            report.violate("numbers", format!("the package at byte {place} is newer than the last unmount"));
        }
        if vtail == 0 || package.largest(Rules::default()) >= 1 << 48 {
            report
                .violate("numbers", format!("the package at byte {place} has or names a number beyond all"));
        }
        if let Package::Unlink(unlink) = package
            && (!unlink.hides.is_multiple_of(Kind::Create.bytes())
                || !loaded.geometry.holds(unlink.hides / BLOCK))
        {
            report.violate("unlinks", format!("the UNLINK at byte {place} hides byte {}", unlink.hides));
        }
    }
}

/// The kind of the inode of a file; none: its names disagree, or say none.
pub(crate) fn kind_of(loaded: &Loaded, file: &File) -> Option<FileKind> {
    let mut kinds =
        file.names.iter().map(|place| FileKind::from_mode(loaded.create(*place)?.attributes.mode));
    let first = kinds.next()??;
    kinds.all(|kind| kind == Some(first)).then_some(first)
}

fn check_births(loaded: &Loaded, report: &mut FsckReport) {
    let mut births: BTreeMap<u32, u32> = BTreeMap::new();
    for (key, file) in &loaded.merged.files {
        let (ino, birth) = *key;
        if let Some(other) = births.insert(ino, birth) {
            report.violate("births", format!("inode {ino} has the births {other} and {birth}"));
        }
        if ino == 0 || ino >= crate::layout::INODES_MAX {
            report.violate("births", format!("inode {ino} is beyond all numbers"));
        }
        match kind_of(loaded, file) {
            None => report.violate("births", format!("inode {ino} has no kind, or several")),
            Some(FileKind::Directory) if file.names.len() > 1 => {
                report.violate("tree", format!("directory {ino} has {} names", file.names.len()));
            }
            Some(FileKind::Symlink) if file.size == 0 || file.size > BLOCK => {
                report.violate("data", format!("inode {ino} is a symbolic link of {} bytes", file.size));
            }
            Some(kind) if !matches!(kind, FileKind::Regular | FileKind::Symlink) && file.map.blocks() > 0 => {
                report.violate("data", format!("inode {ino} has blocks, and is no file"));
            }
            Some(_) if file.size > crate::layout::FILE_MAX => {
                report.violate("data", format!("inode {ino} has {} bytes", file.size));
            }
            Some(_) => {}
        }
    }
}

/// The files that have a block which cannot be theirs: what is wrong, and the DATA by number. Of two files with a block it is the
/// older DATA, for the newer one was given a block that was free.
pub(crate) fn wrong_data(loaded: &Loaded) -> Vec<(String, u64)> {
    let mut wrong = Vec::new();
    let mut taken: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    for (key, file) in &loaded.merged.files {
        for (first, piece) in file.map.pieces() {
            let is_outside =
                piece.block < loaded.geometry.first() || piece.block + piece.blocks > loaded.geometry.blocks;
            if is_outside {
                wrong.push((
                    format!("block {first} of inode {} lies outside of all blocks", key.0),
                    piece.from,
                ));
                continue;
            }
            for block in piece.block..piece.block + piece.blocks {
                if loaded.containers.contains_key(&block) {
                    wrong.push((format!("block {block} of inode {} is a container", key.0), piece.from));
                    continue;
                }
                let holder = (piece.from, key.0);
                let other = taken.get(&block).copied();
                taken.insert(block, other.map_or(holder, |other| other.max(holder)));
                if let Some(other) = other {
                    let ((from, old), (_, new)) = (holder.min(other), holder.max(other));
                    wrong.push((
                        format!("block {block} of inode {old} is in newer data of inode {new}"),
                        from,
                    ));
                }
            }
        }
    }
    wrong
}

fn check_data(loaded: &Loaded, report: &mut FsckReport) {
    for (what, _) in wrong_data(loaded) {
        report.violate("data", what);
    }
}

/// The tree of names, with the names that lie in no directory or are there twice.
pub(crate) fn names_of(loaded: &Loaded) -> (NameTree<Place>, Vec<(Place, String)>) {
    let mut tree = NameTree::new(u64::from(ROOT));
    let mut wrong = Vec::new();
    for (key, file) in &loaded.merged.files {
        let kind = kind_of(loaded, file).unwrap_or(FileKind::Regular);
        tree.insert(u64::from(key.0), kind, 0, None);
    }
    let mut seen: BTreeSet<(u32, &[u8])> = BTreeSet::new();
    for (key, file) in &loaded.merged.files {
        for place in &file.names {
            let Some(create) = loaded.create(*place) else { continue };
            let shown = String::from_utf8_lossy(&create.name);
            if key.0 == ROOT && create.parent == 0 {
                continue;
            }
            let is_name = (1..=NAME_MAX).contains(&create.name.len())
                && !create.name.iter().any(|byte| matches!(byte, 0 | b'/'))
                && create.name != b"."
                && create.name != b"..";
            if !is_name {
                wrong.push((*place, format!("inode {} has the name \"{shown}\"", key.0)));
            } else if !tree.is_dir(u64::from(create.parent)) {
                wrong.push((
                    *place,
                    format!("\"{shown}\" is in inode {}, which is no directory", create.parent),
                ));
            } else if !seen.insert((create.parent, &create.name)) {
                wrong.push((*place, format!("\"{shown}\" is in directory {} twice", create.parent)));
            } else {
                tree.add_name(u64::from(create.parent), u64::from(key.0), *place);
            }
        }
    }
    // Link counts are not stored.
    let numbers: Vec<u64> = tree.nodes.keys().copied().collect();
    for number in numbers {
        let links = tree.links_of(number);
        tree.nodes.entry(number).and_modify(|node| node.links = links);
    }
    (tree, wrong)
}

fn check_names(loaded: &Loaded, report: &mut FsckReport) {
    let (tree, wrong) = names_of(loaded);
    for (_, what) in wrong {
        report.violate("names", what);
    }
    if !tree.is_dir(u64::from(ROOT)) {
        report.violate("tree", "there is no root directory");
    }
    for (ino, fault) in tree.faults() {
        // Without a name it is told above.
        if !matches!(fault, Fault::Nameless { .. }) {
            report.violate("tree", format!("inode {ino}: {fault}"));
        }
    }
}
