//! The invariants of an image, as named predicates.
//!
//! | predicate | holds when |
//! |---|---|
//! | `superblock_sound` | magic, size of pages, size and number of inodes are possible |
//! | `root_is_directory` | inode 1 is a directory |
//! | `inode_free_or_sound` | an inode is all zero, or has a known kind, its own number, possible permissions, size and times |
//! | `page_free_or_owned` | a descriptor is all zero, or names an inode in use of the right kind, and a page of the file |
//! | `page_once` | no two pages are for the same part of a file |
//! | `no_hole` | a file has a page for each part up to its size |
//! | `no_page_lost` | every page that has an owner is within the size of its file, or has a name in it |
//! | `name_sound` | a name has 1 to 109 bytes without a slash, and is in its directory once |
//! | `name_leads_to_inode` | a dentry is all zero, or leads to an inode in use |
//! | `name_says_directory` | a dentry says of the inode whether it is a directory |
//! | `no_rename_pending` | no dentry points to another |
//! | `names_tree` | a directory has one name, and is below the root |
//! | `link_count_right` | an inode has as many links as names (a directory: two and one for each subdirectory) |
//! | `nothing_lost` | every inode in use has a name |
//!
//! Nothing tells changed bytes of a file: the format has no checksums.

use std::collections::{BTreeMap, BTreeSet};

use design::FsckReport;
use media::nvmm::Region;

use crate::layout::{CONTENTS, FILE_MAX, NAMES, PAGE, ROOT, RawDescriptor, RawInode, is_time};
use crate::recovery::{Scan, check_inode, scan};
use crate::superblock;
use base::name_tree::Fault;

/// A change that makes a violation right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Fields of an inode as they should be.
    Inode(u64, RawInode),
    /// A page is free.
    FreePage(u64),
    /// A file gets a zeroed page.
    Fill(u64, u64),
    /// A dentry gets a name made of its place.
    Rename(u64),
    /// A dentry is erased.
    EraseName(u64),
    /// A dentry says whether it leads to a directory.
    Flag(u64, bool),
    /// A dentry points to no other.
    Source(u64),
    /// An inode gets a name in lost+found.
    Adopt(u64),
    /// An inode has so many links.
    Links(u64, u16),
}

/// Checks an image without changing it.
pub(crate) fn check(region: &Region) -> FsckReport {
    let mut report = FsckReport::default();
    match superblock::load(region) {
        Ok((superblock, _)) if superblock.clean == 0 => {
            report.notes.push("not unmounted: recover it first; nothing else was checked".to_owned());
        }
        Ok(_) => report = examine(region).0,
        Err(error) => report.violate("superblock_sound", error.to_string()),
    }
    report
}

/// Checks an image that is unmounted or recovered; also what would repair it.
pub(crate) fn examine(region: &Region) -> (FsckReport, Vec<Fix>) {
    let mut report = FsckReport::default();
    let scan = match scan(region) {
        Ok(scan) => scan,
        Err(error) => {
            report.violate("superblock_sound", error.to_string());
            return (report, Vec::new());
        }
    };
    if !scan.used(ROOT).is_some_and(RawInode::is_dir) {
        report.violate("root_is_directory", "inode 1 is no directory");
        return (report, Vec::new());
    }
    let names = scan.dirs.keys().map(|dir| scan.dentries(*dir).count() as u64).sum();
    report.checked = vec![
        ("inodes", scan.inodes.len() as u64),
        ("pages", scan.descriptors.len() as u64),
        ("names", names),
    ];
    let mut check = Check { scan, report, fixes: Vec::new() };
    check.inodes();
    check.pages();
    check.names();
    check.tree();
    (check.report, check.fixes)
}

struct Check {
    scan: Scan,
    report: FsckReport,
    fixes: Vec<Fix>,
}

impl Check {
    fn fail(&mut self, predicate: &'static str, what: String, fix: Option<Fix>) {
        self.report.violate(predicate, what);
        self.fixes.extend(fix);
    }

    fn inodes(&mut self) {
        let all: Vec<_> = self.scan.inodes.iter().map(|(number, raw)| (*number, *raw)).collect();
        for (number, raw) in all {
            let sound = sound(number, &raw, &self.scan);
            if raw != sound {
                let what = match check_inode(number, &raw) {
                    Err(error) if !raw.is_free() => error.to_string(),
                    _ => format!("inode {number}: {raw:?}"),
                };
                self.fail("inode_free_or_sound", what, Some(Fix::Inode(number, sound)));
            }
        }
    }

    fn pages(&mut self) {
        let (mut parts, mut taken) = (BTreeMap::<u64, BTreeSet<u64>>::new(), Vec::new());
        for (page, raw) in &self.scan.descriptors {
            let what = format!("page {page}: {raw:?}");
            let fix = Some(Fix::FreePage(*page));
            match fault(&self.scan, *page, raw) {
                Some(predicate) => taken.push((predicate, what, fix)),
                None if raw.kind == CONTENTS
                    && !parts.entry(raw.owner).or_default().insert(raw.offset / PAGE) =>
                {
                    taken.push(("page_once", what, fix));
                }
                None => {}
            }
        }
        for (predicate, what, fix) in taken {
            self.fail(predicate, what, fix);
        }
        let files = self.scan.inodes.iter().filter(|(_, raw)| !raw.is_free() && !raw.is_dir());
        let mut holes = Vec::new();
        for (number, raw) in files {
            let have = parts.get(number);
            let most = self.scan.layout.pages;
            let missing = |part: &u64| have.is_none_or(|have| !have.contains(part));
            holes.extend((0..raw.pages().min(most + 1)).find(missing).map(|part| (*number, part)));
        }
        for (number, part) in holes {
            self.fail(
                "no_hole",
                format!("page {part} of inode {number} is missing"),
                Some(Fix::Fill(number, part)),
            );
        }
    }

    fn names(&mut self) {
        let mut found = Vec::new();
        for dir in self.scan.dirs.keys() {
            let mut seen = BTreeSet::new();
            for (at, raw) in self.scan.dentries(*dir) {
                let name = String::from_utf8_lossy(raw.name());
                let what = |says: &str| format!("directory {dir}, \"{name}\" at {at}: {says}");
                let Some(inode) = self.scan.used(raw.ino).filter(|_| raw.ino != 0) else {
                    found.push(("name_leads_to_inode", what("it leads to no inode"), Fix::EraseName(*at)));
                    continue;
                };
                if !raw.name_is_sound() || !seen.insert(raw.name()) {
                    found.push(("name_sound", what("it is no name, or there twice"), Fix::Rename(*at)));
                }
                if raw.is_dir != u16::from(inode.is_dir()) {
                    let says =
                        format!("its flag is {}, inode {} is of kind {}", raw.is_dir, raw.ino, inode.kind);
                    found.push(("name_says_directory", what(&says), Fix::Flag(*at, inode.is_dir())));
                }
                if raw.source != 0 {
                    found.push(("no_rename_pending", what("it points to another"), Fix::Source(*at)));
                }
            }
        }
        for (predicate, what, fix) in found {
            self.fail(predicate, what, Some(fix));
        }
    }

    fn tree(&mut self) {
        let (tree, _) = self.scan.name_tree();
        let mut again = tree.clone();
        for (number, dir, at) in again.take_second_names() {
            let what = format!("directory {number} has a second name in directory {dir}");
            self.fail("names_tree", what, Some(Fix::EraseName(at)));
        }
        for (number, fault) in tree.faults() {
            let links = Fix::Links(number, u16::try_from(tree.links_of(number)).unwrap_or(u16::MAX));
            let (predicate, fix) = match fault {
                Fault::Nameless { .. } => ("nothing_lost", Some(Fix::Adopt(number))),
                Fault::Links { .. } => ("link_count_right", Some(links)),
                Fault::Names(_) | Fault::Parent { .. } => continue,
                Fault::Circle => {
                    let mut tree = tree.clone();
                    let name = tree.take_names(number, false).into_iter().next();
                    ("names_tree", name.map(|(_, _, at)| Fix::EraseName(at)))
                }
            };
            self.fail(predicate, format!("inode {number}: {fault}"), fix);
        }
    }
}

/// The predicate that a descriptor violates.
fn fault(scan: &Scan, page: u64, raw: &RawDescriptor) -> Option<&'static str> {
    let owner = scan.used(raw.owner).filter(|_| raw.owner != 0);
    match (raw.kind, owner) {
        (NAMES, Some(owner)) if !owner.is_dir() => Some("page_free_or_owned"),
        (CONTENTS, Some(owner)) if owner.is_dir() || !raw.offset.is_multiple_of(PAGE) => {
            Some("page_free_or_owned")
        }
        (NAMES | CONTENTS, Some(_)) => (!scan.is_needed(page, raw)).then_some("no_page_lost"),
        _ => Some("page_free_or_owned"),
    }
}

/// An inode as it should be, by what it says and what its pages are.
fn sound(number: u64, raw: &RawInode, scan: &Scan) -> RawInode {
    if number == 0 || raw.is_free() {
        return RawInode::default();
    }
    let mut sound = RawInode { ino: number, mode: raw.mode & 0o7777, pad: [0; 5], ..*raw };
    for time in [&mut sound.ctime, &mut sound.atime, &mut sound.mtime] {
        if !is_time(*time) {
            *time = 0;
        }
    }
    let own = || scan.descriptors.values().filter(|page| page.owner == number);
    if sound.file_kind().is_none() {
        sound.kind =
            if own().any(|page| page.kind == NAMES) { crate::layout::DIRECTORY } else { crate::layout::FILE };
    }
    let ends = own().filter(|page| page.kind == CONTENTS).map(|page| page.offset.saturating_add(PAGE));
    let most = ends.filter(|end| *end <= FILE_MAX && end.is_multiple_of(PAGE)).max().unwrap_or(0);
    match sound.kind {
        crate::layout::DIRECTORY => sound.size = 0,
        // More than the device has.
        _ if sound.pages() > scan.layout.pages => sound.size = most.min(scan.layout.pages * PAGE),
        _ => {}
    }
    if check_inode(number, &sound).is_err() {
        // A symbolic link without a target that could be one.
        (sound.kind, sound.size) = (crate::layout::FILE, most.min(sound.size));
    }
    sound
}
