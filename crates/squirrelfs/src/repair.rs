//! Repair of an image by what fsck finds, in the manner of e2fsck: nothing that can still be read is given up.
//!
//! | violation | becomes right by |
//! |---|---|
//! | an inode that no call can have made | its number, a kind by its pages, possible values for the others |
//! | a page without an owner or a use, a second one for a part | a free page |
//! | a part of a file without a page | a page of zeros; where none is free the violation stays |
//! | a name that leads nowhere, a second name of a directory | no name |
//! | a name that is none, or is there twice | `#PLACE` |
//! | a wrong flag, pointer or link count | what was found |
//! | an inode without a name, a directory that is not below the root | `lost+found/#NUMBER` |
//!
//! Not repaired: the superblock, and an image without a root directory.

use std::sync::Arc;

use media::nvmm::Region;
use vfs::{FileKind, NewInode, Owner};

use crate::fsck::{Fix, examine};
use crate::layout::{CONTENTS, Layout, NAME_MAX, PAGE, ROOT, RawDentry, RawDescriptor, dentry};
use crate::namei::Node;
use crate::object::{Complete, Dentry, Durable, Live, MoreLinks};
use crate::recovery::{free_page, recover, scan, set_links, store};
use crate::superblock::{self, store_clean};
use crate::{Settings, Volume};
use base::error::{Error, Result};

/// Most passes: a repair can show the next fault, which what it hid had hidden.
const PASSES: usize = 16;
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Repairs an image; says what was done.
pub(crate) fn repair(region: &Arc<Region>) -> Result<Vec<String>> {
    if superblock::load(region).is_err() {
        return Ok(Vec::new());
    }
    let mut done = match recover(region, None) {
        Ok(done) => done,
        Err(Error::Corrupt(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    store_clean(region, true)?;
    for _ in 0..PASSES {
        let (_, fixes) = examine(region);
        // Inodes first, then pages, names, what has no name, counts: a later kind follows from the earlier ones.
        let Some(first) = fixes.iter().map(rank).min() else { break };
        let (mut changed, before) = (false, done.len());
        for fix in fixes.iter().filter(|fix| rank(fix) == first) {
            changed |= apply(region, fix, &mut done)?;
        }
        if !changed {
            done.truncate(before);
            break;
        }
    }
    Ok(done)
}

fn rank(fix: &Fix) -> u8 {
    match fix {
        Fix::Inode(..) => 0,
        Fix::FreePage(_) => 1,
        Fix::Fill(..) => 2,
        Fix::Rename(_) | Fix::EraseName(_) | Fix::Flag(..) | Fix::Source(_) => 3,
        Fix::Links(..) => 4,
        Fix::Adopt(_) => 5,
    }
}

/// Makes one violation right; whether anything changed.
fn apply(region: &Arc<Region>, fix: &Fix, done: &mut Vec<String>) -> Result<bool> {
    let found = scan(region)?;
    let layout = found.layout;
    let said = match fix {
        Fix::Inode(number, raw) => {
            store(region, Layout::inode(*number), raw)?;
            format!("inode {number}: its fields are possible")
        }
        Fix::FreePage(page) => {
            let at = layout.page(*page);
            free_page(region, layout.place_of(at))?;
            format!("page {page}: it is free")
        }
        Fix::Fill(number, part) => {
            let free = (0..layout.pages).find(|page| !found.descriptors.contains_key(page));
            let Some(page) = free else { return Ok(false) };
            region.nt_zero(layout.page(page), PAGE)?;
            region.fence();
            let raw = RawDescriptor { kind: CONTENTS, owner: *number, offset: part * PAGE, pad: 0 };
            store(region, layout.descriptor(page), &raw)?;
            format!("inode {number}: page {part} is of zeros")
        }
        Fix::Rename(at) => {
            let mut raw: RawDentry = region.read(*at)?;
            let name = format!("#{at}");
            raw.name = [0; NAME_MAX + 1];
            raw.name[..name.len()].copy_from_slice(name.as_bytes());
            store(region, *at, &raw)?;
            format!("the name at {at} is {name}")
        }
        Fix::EraseName(at) => {
            store(region, *at, &RawDentry::FREE)?;
            format!("the name at {at} is gone")
        }
        Fix::Flag(at, is_dir) => {
            region.store_u16(*at, u16::from(*is_dir))?;
            region.flush(*at, 2);
            region.fence();
            format!("the name at {at}: its flag is right")
        }
        Fix::Source(at) => {
            store(region, *at + dentry::SOURCE, &0_u64)?;
            format!("the name at {at} points to no other")
        }
        Fix::Links(number, links) => {
            set_links(region, *number, *links)?;
            format!("inode {number}: has {links} links")
        }
        Fix::Adopt(number) => {
            adopt(region, *number)?;
            format!("inode {number}: is lost+found/#{number}")
        }
    };
    done.push(said);
    Ok(true)
}

/// Gives an inode a name in `lost+found`, which is made when there is none.
fn adopt(region: &Arc<Region>, number: u64) -> Result<()> {
    let volume =
        Volume::mount(region, Settings { fence_each_page: true, hint: false, cores: 1, mutant: None })?;
    let new = NewInode { perm: 0o700, owner: Owner::default() };
    let lost = match volume.lookup_name(ROOT, LOST_AND_FOUND) {
        Ok(lost) => lost,
        Err(_) => {
            let node = Node { kind: FileKind::Directory, new: &new, target: &[] };
            volume.make(ROOT, LOST_AND_FOUND, node)?.ino.0
        }
    };
    let mut dir = volume.lock_dir(lost)?;
    let inode = volume.inodes.get(number)?;
    let is_dir = volume.is_dir(inode)?;
    let links = if is_dir { dir.state.raw.links + 1 } else { 1 };
    let counted = if is_dir { dir.inode } else { inode };
    let _ = volume.fence(counted.object::<Live>(&volume).add_link(links)?.flush());
    let (place, _) = volume.find_place(&dir, 0)?;
    let name = format!("#{number}");
    let named = volume.dentry_at(&mut dir, &place)?.name(name.as_bytes(), is_dir)?;
    let named = volume.fence(named.flush());
    let whole: Dentry<'_, Durable, Complete> =
        volume.fence(named.lead_to(&inode.object::<MoreLinks>(&volume))?.flush());
    let _ = whole;
    store_clean(region, true)
}

#[cfg(test)]
mod tests {
    use media::nvmm::null::Null;
    use sim::{Bytes, Machine, Seed, Setup};

    use super::*;
    use crate::layout::{DIRECTORY, NAMES, RawInode};
    use crate::mkfs::mkfs;

    const SETTINGS: Settings = Settings { fence_each_page: true, hint: false, cores: 2, mutant: None };
    const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
    const DIR: u64 = 2;
    const FILE: u64 = 3;

    /// `dir`, `dir/file` with 5000 bytes, `dir/sub`.
    fn filled() -> Arc<Region> {
        let region = Arc::new(Region::anonymous(Bytes::mib(4), Box::new(Null)).expect("memory"));
        mkfs(&region, 64).expect("a new image");
        let volume = Volume::mount(&region, SETTINGS).expect("a mount");
        let make = |parent, name: &str, kind| {
            let node = Node { kind, new: &NEW, target: &[] };
            volume.make(parent, name.as_bytes(), node).expect("it can be made").ino.0
        };
        assert_eq!(make(ROOT, "dir", FileKind::Directory), DIR);
        assert_eq!(make(DIR, "file", FileKind::Regular), FILE);
        make(DIR, "sub", FileKind::Directory);
        let inode = volume.inodes.get(FILE).expect("it is there");
        volume.write_file(inode, &mut inode.state.write(), 0, &[7; 5000]).expect("space");
        volume.end().expect("an unmount");
        region
    }

    fn predicates(region: &Region) -> Vec<&'static str> {
        let mut found: Vec<_> =
            examine(region).0.violations.iter().map(|violation| violation.predicate).collect();
        found.dedup();
        found
    }

    struct Image<'a> {
        region: &'a Region,
        layout: Layout,
    }

    impl Image<'_> {
        fn inode(&self, number: u64, change: impl FnOnce(&mut RawInode)) {
            let at = Layout::inode(number);
            let mut raw = self.region.read(at).expect("a load");
            change(&mut raw);
            store(self.region, at, &raw).expect("a store");
        }

        /// The nth dentry of a directory.
        fn name(&self, dir: u64, nth: usize, change: impl FnOnce(&mut RawDentry)) {
            let found = scan(self.region).expect("it can be scanned");
            let (at, mut raw) = *found.dentries(dir).nth(nth).expect("a name");
            change(&mut raw);
            store(self.region, at, &raw).expect("a store");
        }

        /// A dentry behind those of a directory.
        fn add_name(&self, dir: u64, name: &[u8], ino: u64) {
            let found = scan(self.region).expect("it can be scanned");
            let at = found.dentries(dir).last().expect("a name").0 + crate::layout::DENTRY_BYTES;
            let mut raw = RawDentry { ino, ..RawDentry::FREE };
            raw.name[..name.len()].copy_from_slice(name);
            raw.is_dir = u16::from(found.used(ino).is_some_and(RawInode::is_dir));
            store(self.region, at, &raw).expect("a store");
        }

        fn page(&self, page: u64, raw: RawDescriptor) {
            store(self.region, self.layout.descriptor(page), &raw).expect("a store");
        }

        fn page_of(&self, owner: u64) -> u64 {
            let found = scan(self.region).expect("it can be scanned");
            *found.descriptors.iter().find(|(_, raw)| raw.owner == owner).expect("a page").0
        }
    }

    /// A fault: what it violates, how it is planted.
    type Canary = (&'static str, fn(&Image<'_>));

    const CANARIES: &[Canary] = &[
        ("inode_free_or_sound", |image| image.inode(FILE, |raw| raw.kind = 9)),
        ("inode_free_or_sound", |image| image.inode(FILE, |raw| raw.ino = 77)),
        ("inode_free_or_sound", |image| image.inode(FILE, |raw| raw.mode = 0xffff)),
        ("inode_free_or_sound", |image| image.inode(DIR, |raw| raw.mtime = u64::MAX)),
        ("inode_free_or_sound", |image| image.inode(40, |raw| raw.size = 5)),
        ("page_free_or_owned", |image| {
            image.page(100, RawDescriptor { kind: 7, owner: FILE, ..RawDescriptor::default() });
        }),
        ("page_free_or_owned", |image| {
            image.page(100, RawDescriptor { kind: CONTENTS, ..RawDescriptor::default() });
        }),
        ("page_free_or_owned", |image| {
            image.page(100, RawDescriptor { kind: NAMES, owner: FILE, ..RawDescriptor::default() });
        }),
        ("page_once", |image| {
            image.page(100, RawDescriptor { kind: CONTENTS, owner: FILE, ..RawDescriptor::default() });
        }),
        ("no_page_lost", |image| {
            image.page(100, RawDescriptor { kind: CONTENTS, owner: FILE, offset: 1 << 20, pad: 0 });
        }),
        ("no_page_lost", |image| {
            image.page(100, RawDescriptor { kind: NAMES, owner: DIR, ..RawDescriptor::default() });
        }),
        ("no_hole", |image| image.page(image.page_of(FILE), RawDescriptor::default())),
        ("no_hole", |image| image.inode(FILE, |raw| raw.size = 12_289)),
        ("name_sound", |image| image.name(DIR, 0, |raw| raw.name[1] = b'/')),
        ("name_sound", |image| image.name(DIR, 1, |raw| raw.name[..5].copy_from_slice(b"file\0"))),
        ("name_leads_to_inode", |image| image.add_name(DIR, b"none", 50)),
        ("name_leads_to_inode", |image| image.add_name(DIR, b"half", 0)),
        ("name_says_directory", |image| image.name(DIR, 0, |raw| raw.is_dir = 1)),
        ("no_rename_pending", |image| image.name(DIR, 0, |raw| raw.source = 4096)),
        ("names_tree", |image| image.add_name(DIR, b"again", 4)),
        ("names_tree", |image| {
            // A directory within itself, and no other name.
            image.name(ROOT, 0, |raw| *raw = RawDentry::FREE);
            image.add_name(DIR, b"self", DIR);
        }),
        ("link_count_right", |image| image.inode(FILE, |raw| raw.links = 3)),
        ("link_count_right", |image| image.inode(ROOT, |raw| raw.links = 2)),
        ("nothing_lost", |image| image.name(DIR, 0, |raw| *raw = RawDentry::FREE)),
        ("nothing_lost", |image| image.name(ROOT, 0, |raw| *raw = RawDentry::FREE)),
    ];

    fn run(body: impl FnOnce() + Send + 'static) {
        sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), body).expect("it runs");
    }

    #[test]
    fn repair_makes_each_planted_fault_right_and_finds_nothing_in_what_it_has_repaired() {
        run(|| {
            assert_eq!(predicates(&filled()), [""; 0]);
            for (number, (predicate, plant)) in CANARIES.iter().enumerate() {
                let region = filled();
                let layout = superblock::load(&region).expect("it is sound").1;
                plant(&Image { region: &region, layout });
                assert!(
                    predicates(&region).contains(predicate),
                    "{number}: {:?}",
                    examine(&region).0.violations
                );
                let done = repair(&region).expect("repair");
                assert!(!done.is_empty(), "{number}");
                assert_eq!(examine(&region).0.violations, [], "{number}: {done:?}");
                assert_eq!(repair(&region).expect("again"), Vec::<String>::new(), "{number}");
                let found = scan(&region).expect("it can be scanned");
                assert!(
                    [ROOT, DIR, FILE, 4].iter().all(|ino| found.used(*ino).is_some()),
                    "{number}: {done:?}"
                );
                assert_eq!(found.used(DIR).map(|raw| raw.kind), Some(DIRECTORY));
                let volume = Volume::mount(&region, SETTINGS).expect("a mount");
                volume.end().expect("an unmount");
            }
        });
    }

    /// The states that a rename goes through, each as a crash leaves it: before the commit the old name counts, then the new one.
    #[test]
    fn a_rename_is_finished_after_its_commit_and_forgotten_before_it() {
        type Leaves = fn(&mut RawDentry, &mut RawDentry, u64);
        const STATES: [(Leaves, &str); 5] = [
            (|new, _, _| new.ino = 0, "file"),
            (|new, _, old_at| (new.ino, new.source) = (0, old_at), "file"),
            (|new, _, old_at| new.source = old_at, "new"),
            (|new, old, old_at| (new.source, old.ino) = (old_at, 0), "new"),
            (|_, old, _| old.ino = 0, "new"),
        ];
        run(|| {
            for (number, (leave, expected)) in STATES.iter().enumerate() {
                let region = filled();
                let image =
                    Image { region: &region, layout: superblock::load(&region).expect("it is sound").1 };
                image.add_name(DIR, b"new", FILE);
                let found = scan(&region).expect("it can be scanned");
                let all: Vec<_> = found.dentries(DIR).copied().collect();
                let ((old_at, mut old), (new_at, mut new)) = (all[0], all[2]);
                leave(&mut new, &mut old, old_at);
                store(&region, old_at, &old).expect("a store");
                store(&region, new_at, &new).expect("a store");
                store_clean(&region, false).expect("a store");
                recover(&region, None).expect("recovery");
                store_clean(&region, true).expect("a store");
                assert_eq!(examine(&region).0.violations, [], "state {number}");
                let found = scan(&region).expect("it can be scanned");
                let names: Vec<_> = found
                    .dentries(DIR)
                    .map(|(_, raw)| String::from_utf8_lossy(raw.name()).into_owned())
                    .collect();
                assert!(
                    names.len() == 2 && names.contains(&(*expected).to_owned()),
                    "state {number}: {names:?}"
                );
            }
        });
    }
}
