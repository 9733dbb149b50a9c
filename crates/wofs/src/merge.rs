//! What the packages on a device mean, as a pure function: recovery, fsck and the histories of the tests ask it.
//!
//! * A CREATE counts by itself. It is hidden by an UNLINK that counts, names its place and has a larger number, by nothing else.
//! * An UNLINK counts; one of a rename only where the CREATE with just the number that it names lies at the place that it names.
//! * DATA and ATTR count; those of a write of several pieces only if all of them are there.
//! * What counts of a file is applied in the order of numbers. A DATA maps the blocks that begin below its own size.

use std::collections::{BTreeMap, BTreeSet};

use crate::layout::BLOCK;
use crate::map::{Map, Piece};
use crate::mutant::{self, Rules};
use crate::package::{Attributes, Create, Data, Key, Package, Place, Unlink};

/// A file, directory or other inode, as its packages have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// By the newest package that says them.
    pub attributes: Attributes,
    /// Size in bytes.
    pub size: u64,
    /// Where its blocks lie.
    pub map: Map,
    /// Its names: the CREATEs that are not hidden.
    pub names: Vec<Place>,
    /// The number of the DATA or ATTR that set the size.
    pub setter: Option<u64>,
    /// The number of the newest ATTR.
    pub attr: Option<u64>,
    /// DATA and ATTR that count, in the order of their numbers.
    pub log: Vec<Place>,
}

/// The meaning of all packages together.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// Larger than the number of any package, and than all that packages name.
    pub next: u64,
    /// The CREATEs that an UNLINK hides.
    pub hidden: BTreeSet<Place>,
    /// The UNLINKs that count.
    pub counting: BTreeSet<Place>,
    /// Everything that has a name.
    pub files: BTreeMap<Key, File>,
    /// When the names of a directory last changed, with the number of the package that says so, by its inode.
    pub changed: BTreeMap<u32, (u64, u64)>,
}

/// The file to which a package belongs.
pub(crate) fn key_of(key: Key, rules: Rules) -> Key {
    if rules.lacks(mutant::BIRTH_IGNORED) { (key.0, 0) } else { key }
}

/// The number of the first CREATE of an inode, of which this CREATE has the low 32 bits.
pub(crate) fn birth_of(create: &Create) -> u64 {
    let birth = create.vtail & !0xFFFF_FFFF | u64::from(create.key.1);
    if birth > create.vtail { birth.saturating_sub(1 << 32) } else { birth }
}

/// Merges the packages found on a device, by place.
pub fn merge(found: &BTreeMap<Place, Package>, rules: Rules) -> Merged {
    let mut merged = Merged::default();
    if !rules.lacks(mutant::VTAIL_FROM_ZERO) {
        merged.next = found.values().map(|package| package.largest(rules)).max().unwrap_or(0);
    }
    merged.next = merged.next.saturating_add(1);
    for (place, package) in found {
        if let Package::Unlink(unlink) = package
            && counts(found, unlink, rules)
        {
            merged.counting.insert(*place);
            if is_hider(found, unlink) {
                merged.hidden.insert(unlink.hides);
            }
            merged.note_change(unlink.parent, unlink.vtail, unlink.changed);
        }
    }
    for (place, package) in found {
        if let Package::Create(create) = package {
            merged.note_change(create.parent, create.vtail, create.changed);
            if !merged.hidden.contains(place) {
                merged.files.entry(key_of(create.key, rules)).or_default().names.push(*place);
            }
        }
    }
    add_logs(found, &mut merged, rules);
    for file in merged.files.values_mut() {
        file.read(found, rules);
    }
    merged
}

impl Merged {
    fn note_change(&mut self, parent: u32, vtail: u64, changed: u64) {
        let newest = self.changed.entry(parent).or_default();
        *newest = (*newest).max((vtail, changed));
    }
}

/// Whether an UNLINK counts.
fn counts(found: &BTreeMap<Place, Package>, unlink: &Unlink, rules: Rules) -> bool {
    let Some((place, vtail)) = unlink.mate else { return true };
    if rules.lacks(mutant::BIN_HALF_COUNTS) {
        return true;
    }
    let Some(Package::Create(mate)) = found.get(&place) else { return false };
    if rules.lacks(mutant::BIN_TARGET_BY_INO) {
        return mate.vtail > unlink.vtail && mate.key.0 == unlink.key.0;
    }
    if rules.lacks(mutant::BIN_BY_LARGER) {
        return mate.vtail > unlink.vtail;
    }
    mate.vtail == vtail
}

/// Whether the CREATE that an UNLINK names is there, and not a later one at its place.
pub(crate) fn is_hider(found: &BTreeMap<Place, Package>, unlink: &Unlink) -> bool {
    matches!(found.get(&unlink.hides), Some(Package::Create(create)) if create.vtail < unlink.vtail)
}

/// Gives each file the DATA and ATTR that count.
fn add_logs(found: &BTreeMap<Place, Package>, merged: &mut Merged, rules: Rules) {
    let member = |package: &Package| match package {
        Package::Data(data) => Some((data.vtail, data.index, data.count)),
        _ => None,
    };
    let members: BTreeSet<_> = found.values().filter_map(member).collect();
    let is_whole = |data: &Data| {
        let first = data.vtail.wrapping_sub(u64::from(data.index));
        data.count <= 1
            || (0..data.count).all(|at| members.contains(&(first + u64::from(at), at, data.count)))
    };
    for (place, package) in found {
        let counts = match package {
            Package::Data(data) => is_whole(data),
            Package::Attr(_) => true,
            _ => false,
        };
        if counts && let Some(file) = merged.files.get_mut(&key_of(package.key(), rules)) {
            file.log.push(*place);
        }
    }
    if !rules.lacks(mutant::SCAN_ORDER) {
        for file in merged.files.values_mut() {
            file.log.sort_unstable_by_key(|place| found[place].vtail());
        }
    }
}

impl File {
    /// Applies names and log.
    fn read(&mut self, found: &BTreeMap<Place, Package>, rules: Rules) {
        let mut newest = 0;
        for place in &self.names {
            if let Package::Create(create) = &found[place]
                && create.vtail >= newest
            {
                (newest, self.attributes) = (create.vtail, create.attributes);
            }
        }
        for place in &self.log {
            match &found[place] {
                Package::Data(data) => {
                    let blocks = mapped_blocks(data, rules);
                    self.map.put(data.first, Piece { block: data.block, blocks, from: data.vtail });
                    self.setter = Some(data.vtail);
                    if !rules.lacks(mutant::SIZE_NOT_RESTORED) {
                        self.size = data.size;
                    }
                    if data.vtail > newest {
                        newest = data.vtail;
                        (self.attributes.mtime, self.attributes.ctime) = (data.time, data.time);
                    }
                }
                Package::Attr(attr) => {
                    self.map.take(attr.size.div_ceil(BLOCK)..u64::MAX);
                    (self.size, self.setter, self.attr) = (attr.size, Some(attr.vtail), Some(attr.vtail));
                    if attr.vtail > newest {
                        newest = attr.vtail;
                        let mode = self.attributes.mode & !0o7777 | attr.attributes.mode & 0o7777;
                        self.attributes = Attributes { mode, ..attr.attributes };
                    }
                }
                _ => {}
            }
        }
    }
}

/// Counts the blocks of a DATA that count: those that begin below its own size.
pub(crate) fn mapped_blocks(data: &Data, rules: Rules) -> u64 {
    if rules.lacks(mutant::BEYOND_SIZE_COUNTS) {
        return data.blocks;
    }
    data.size.div_ceil(BLOCK).saturating_sub(data.first).min(data.blocks)
}
