//! What a mount reads, and repairs after a crash.
//!
//! Every mount scans the inode table and the descriptors, and walks all directories. After a crash it first ends what calls have
//! begun, each step durable before the next:
//!
//! 1. A dentry that points to another: if both lead to one inode, the other one goes; else the pointer does.
//! 2. A dentry that leads nowhere is erased, and a page without a name is freed.
//! 3. An inode that no name reaches is freed with its pages, and so is a page that no inode or no size covers.
//! 4. A link count that is larger than the number of names is lowered.
//!
//! Each step leads to the same tree when it is done twice, so a crash in a recovery needs nothing else. A scan reads bytes that a
//! crash may have torn; what counts in them is decided by words alone: the number in a dentry, the owner of a page, a size.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use design::Mutant;
use media::nvmm::Region;
use sim::Mutex;
use sim::sync::{AtomicBool, Ordering::SeqCst};
use vfs::FileKind;
use zerocopy::{FromBytes, IntoBytes};

use crate::alloc::{FreeNumbers, FreePages};
use crate::dir::{DirIndex, Entry};
use crate::inode::{InodeTable, State};
use crate::layout::{
    CONTENTS, DENTRY_BYTES, DESCRIPTOR_BYTES, FILE_MAX, INODE_BYTES, Layout, NAMES, PAGE, ROOT, RawDentry,
    RawDescriptor, RawInode, TARGET_MAX, dentry,
};
use crate::object::{
    Cleared, Complete, Dead, Dentry, Disowned, Durable, Inode, Live, OfNames, PagePlace, Pages, Renamed,
    Unused, fence,
};
use crate::superblock::{self, store_clean};
use crate::{RENAME, Settings, Volume, mutant};
use base::dax::DirectMaps;
use base::error::{Error, Result};
use base::name_tree::NameTree;

/// Everything that an image says of itself.
pub(crate) struct Scan {
    pub(crate) layout: Layout,
    /// Inodes that are not all zero.
    pub(crate) inodes: BTreeMap<u64, RawInode>,
    /// Descriptors that are not all zero, by page.
    pub(crate) descriptors: BTreeMap<u64, RawDescriptor>,
    /// Of each directory in use, its pages of names by where they lie, and the dentries in them that are not all zero.
    pub(crate) dirs: BTreeMap<u64, BTreeMap<u64, Vec<(u64, RawDentry)>>>,
}

/// Reads a table of structures, and gives those that are not `zero`.
fn table<T: FromBytes + PartialEq>(
    region: &Region,
    start: u64,
    count: u64,
    zero: &T,
) -> Result<BTreeMap<u64, T>> {
    let bytes = size_of::<T>() as u64;
    let per_load = (PAGE / bytes).max(1);
    let (mut found, mut buffer) = (BTreeMap::new(), vec![0; (per_load * bytes) as usize]);
    for first in (0..count).step_by(per_load as usize) {
        let len = (count - first).min(per_load) * bytes;
        let loaded = &mut buffer[..len as usize];
        region.load(start + first * bytes, loaded)?;
        for (number, raw) in (first..).zip(loaded.chunks_exact(bytes as usize)) {
            match T::read_from_bytes(raw) {
                Ok(value) if value != *zero => {
                    found.insert(number, value);
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Reads an image. Its superblock must be sound; anything else may be wrong.
pub(crate) fn scan(region: &Region) -> Result<Scan> {
    let (_, layout) = superblock::load(region)?;
    let inodes = table(region, Layout::inode(0), layout.inodes, &RawInode::default())?;
    let descriptors = table(region, layout.descriptors, layout.pages, &RawDescriptor::default())?;
    let is_dir = |number: &u64| inodes.get(number).is_some_and(RawInode::is_dir);
    let mut dirs: BTreeMap<u64, BTreeMap<u64, Vec<_>>> =
        inodes.keys().filter(|number| is_dir(number)).map(|number| (*number, BTreeMap::new())).collect();
    for (page, raw) in &descriptors {
        let Some(pages) = dirs.get_mut(&raw.owner).filter(|_| raw.kind == NAMES) else { continue };
        let at = layout.page(*page);
        let names = table(region, at, PAGE / DENTRY_BYTES, &RawDentry::FREE)?;
        pages.insert(at, names.into_iter().map(|(nth, raw)| (at + nth * DENTRY_BYTES, raw)).collect());
    }
    Ok(Scan { layout, inodes, descriptors, dirs })
}

impl Scan {
    /// The dentries of a directory.
    pub(crate) fn dentries(&self, dir: u64) -> impl Iterator<Item = &(u64, RawDentry)> {
        self.dirs.get(&dir).into_iter().flat_map(BTreeMap::values).flatten()
    }

    /// An inode that is in use.
    pub(crate) fn used(&self, number: u64) -> Option<&RawInode> {
        self.inodes.get(&number).filter(|raw| !raw.is_free())
    }

    fn place(&self, page: u64) -> PagePlace {
        PagePlace { descriptor: self.layout.descriptor(page), page: self.layout.page(page) }
    }

    /// All inodes in use with the names that lead to them, by where their dentries lie; and the dentries that lead to none.
    pub(crate) fn name_tree(&self) -> (NameTree<u64>, Vec<(u64, u64)>) {
        let (mut tree, mut dangling) = (NameTree::new(ROOT), Vec::new());
        for (number, raw) in self.inodes.iter().filter(|(_, raw)| !raw.is_free()) {
            let kind = raw.file_kind().unwrap_or(FileKind::Regular);
            tree.insert(*number, kind, u32::from(raw.links), None);
        }
        for dir in self.dirs.keys() {
            for (at, raw) in self.dentries(*dir).filter(|(_, raw)| raw.ino != 0) {
                if !tree.add_name(*dir, raw.ino, *at) {
                    dangling.push((*dir, *at));
                }
            }
        }
        (tree, dangling)
    }

    /// The inodes that can be reached from the root by names.
    pub(crate) fn reached(&self) -> BTreeSet<u64> {
        let (mut reached, mut open) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(dir) = open.pop() {
            for (_, raw) in self.dentries(dir).filter(|(_, raw)| raw.ino != 0) {
                if reached.insert(raw.ino) {
                    open.push(raw.ino);
                }
            }
        }
        reached
    }

    /// Whether an inode's contents or names need a page, by what its descriptor says.
    pub(crate) fn is_needed(&self, page: u64, raw: &RawDescriptor) -> bool {
        let Some(owner) = self.used(raw.owner) else { return false };
        match raw.kind {
            NAMES => self
                .dirs
                .get(&raw.owner)
                .and_then(|pages| pages.get(&self.layout.page(page)))
                .is_some_and(|names| !names.is_empty()),
            CONTENTS => !owner.is_dir() && raw.offset < owner.size,
            _ => false,
        }
    }
}

/// Ends what a crash has interrupted, if the image was not unmounted; says what was done.
pub(crate) fn recover(region: &Region, mutant: Option<Mutant>) -> Result<Vec<String>> {
    let (superblock, _) = superblock::load(region)?;
    if superblock.clean == 1 {
        return Ok(Vec::new());
    }
    let mut recovery = Recovery { region, scan: scan(region)?, mutant, done: Vec::new() };
    check_root(&recovery.scan)?;
    recovery.end_renames()?;
    if mutant != Some(mutant::ORPHANS_KEPT) {
        recovery.erase_nameless()?;
        recovery.free_unreached()?;
        recovery.free_pages()?;
    }
    recovery.lower_links()?;
    Ok(recovery.done)
}

struct Recovery<'a> {
    region: &'a Region,
    scan: Scan,
    mutant: Option<Mutant>,
    done: Vec<String>,
}

impl<'a> Recovery<'a> {
    fn again(&mut self) -> Result<()> {
        self.scan = scan(self.region)?;
        Ok(())
    }

    fn end_renames(&mut self) -> Result<()> {
        if self.mutant == Some(mutant::RENAME_NOT_RECOVERED) {
            return Ok(());
        }
        let all = self.scan.dirs.values().flat_map(BTreeMap::values).flatten();
        let by_place: BTreeMap<u64, RawDentry> = all.copied().collect();
        let pointing: Vec<_> = by_place.iter().filter(|(_, raw)| raw.source != 0).collect();
        for (at, raw) in &pointing {
            let old = by_place
                .get(&raw.source)
                .filter(|old| raw.ino != 0 && old.ino == raw.ino && raw.source != **at);
            match old {
                Some(_) if self.mutant == Some(mutant::RECOVERED_BACKWARDS) => {
                    self.region.store_u64(**at + dentry::INO, 0)?;
                    self.forget_source(**at)?;
                }
                Some(_) => self.finish_rename(**at, raw.source)?,
                None => self.forget_source(**at)?,
            }
        }
        if !pointing.is_empty() {
            self.done.push(format!("{} unfinished renames", pointing.len()));
        }
        self.again()
    }

    fn finish_rename(&self, at: u64, source: u64) -> Result<()> {
        let (new, old) = (self.dentry::<Renamed>(at), self.dentry::<Complete>(source));
        let away = fence(self.region, old.give_way(&new)?.flush());
        let whole = fence(self.region, new.clear_source(&away)?.flush());
        let _ = fence(self.region, away.erase(&whole)?.flush());
        Ok(())
    }

    fn forget_source(&self, at: u64) -> Result<()> {
        self.region.store_u64(at + dentry::SOURCE, 0)?;
        self.region.flush(at, DENTRY_BYTES);
        self.region.fence();
        Ok(())
    }

    fn dentry<S>(&self, at: u64) -> Dentry<'a, Durable, S> {
        Dentry::found(self.region, at)
    }

    /// Erases dentries that lead nowhere.
    fn erase_nameless(&mut self) -> Result<()> {
        let all = self.scan.dirs.values().flat_map(BTreeMap::values).flatten();
        let nameless: Vec<u64> = all.filter(|(_, raw)| raw.ino == 0).map(|(at, _)| *at).collect();
        for at in &nameless {
            let _ = fence(self.region, self.dentry::<Cleared>(*at).erase()?.flush());
        }
        if !nameless.is_empty() {
            self.done.push(format!("{} names that led nowhere", nameless.len()));
            self.again()?;
        }
        Ok(())
    }

    /// Frees inodes that no name reaches, and erases what is left of a free one.
    fn free_unreached(&mut self) -> Result<()> {
        let reached = self.scan.reached();
        let unreached: Vec<u64> = self
            .scan
            .inodes
            .keys()
            .copied()
            .filter(|number| !reached.contains(number) && *number != 0)
            .collect();
        for number in &unreached {
            let dead = Inode::<Durable, Dead>::found(self.region, Layout::inode(*number));
            let own = self.scan.descriptors.iter().filter(|(_, raw)| raw.owner == *number);
            let places: Vec<_> = own.map(|(page, _)| self.scan.place(*page)).collect();
            let unused = if places.is_empty() {
                Pages::<Durable, Unused>::found(self.region, places)
            } else {
                let pages = Pages::<Durable, OfNames>::found(self.region, places);
                let disowned = fence(self.region, pages.disown(&dead)?.flush());
                fence(self.region, disowned.forget()?.flush())
            };
            let _ = fence(self.region, dead.erase(&unused)?.flush());
        }
        if !unreached.is_empty() {
            self.done.push(format!("{} inodes without a name", unreached.len()));
            self.again()?;
        }
        Ok(())
    }

    /// Frees pages that nothing needs.
    fn free_pages(&mut self) -> Result<()> {
        let all = self.scan.descriptors.iter();
        let idle: Vec<u64> =
            all.filter(|(page, raw)| !self.scan.is_needed(**page, raw)).map(|(page, _)| *page).collect();
        for page in &idle {
            free_page(self.region, self.scan.place(*page))?;
        }
        if !idle.is_empty() {
            self.done.push(format!("{} pages that nothing needs", idle.len()));
            self.again()?;
        }
        Ok(())
    }

    /// Lowers link counts that are larger than the number of names.
    fn lower_links(&mut self) -> Result<()> {
        let (tree, _) = self.scan.name_tree();
        let mut lowered = 0;
        for (number, node) in &tree.nodes {
            let expected = tree.links_of(*number);
            if node.links > expected {
                set_links(self.region, *number, expected as u16)?;
                lowered += 1;
            }
        }
        if lowered > 0 {
            self.done.push(format!("{lowered} link counts that were too large"));
        }
        Ok(())
    }
}

/// Takes the owner of a page away, then its descriptor.
pub(crate) fn free_page(region: &Region, place: PagePlace) -> Result<()> {
    let at = place.descriptor + crate::layout::descriptor::OWNER;
    region.store_u64(at, 0)?;
    region.flush(place.descriptor, DESCRIPTOR_BYTES);
    region.fence();
    let pages = Pages::<Durable, Disowned>::found(region, vec![place]);
    let _ = fence(region, pages.forget()?.flush());
    Ok(())
}

/// Stores a link count that names give.
pub(crate) fn set_links(region: &Region, number: u64, links: u16) -> Result<()> {
    let inode = Inode::<Durable, Live>::found(region, Layout::inode(number));
    let _ = fence(region, inode.add_link(links)?.flush());
    Ok(())
}

fn check_root(scan: &Scan) -> Result<()> {
    match scan.used(ROOT) {
        Some(root) if root.is_dir() => Ok(()),
        _ => Err(Error::Corrupt("the root is no directory".to_owned())),
    }
}

impl Volume {
    /// Mounts: ends what a crash has interrupted, builds the indexes, and says that the image is in use.
    pub(crate) fn mount(region: &Arc<Region>, settings: Settings) -> Result<Self> {
        recover(region, settings.mutant)?;
        let scan = scan(region)?;
        check_root(&scan)?;
        let layout = scan.layout;
        let cores = match settings.cores {
            0 => (region.len() / (32 * sim::MIB)).clamp(2, 128),
            cores => cores,
        };
        let volume = Self {
            region: Arc::clone(region),
            layout,
            inodes: InodeTable::new(region, layout),
            numbers: FreeNumbers::new(region, layout, |number| scan.used(number).is_none()),
            pages: FreePages::new(region, layout, cores, |page| !scan.descriptors.contains_key(&page)),
            maps: DirectMaps::default(),
            renames: Mutex::new(&RENAME, ()),
            settings,
            failed: AtomicBool::new(false),
        };
        volume.fill(&scan)?;
        if !volume.has(mutant::CLEAN_BYTE_STAYS) {
            store_clean(region, false)?;
        }
        Ok(volume)
    }

    /// Fills the inodes in DRAM.
    fn fill(&self, scan: &Scan) -> Result<()> {
        check_names(scan)?;
        for (number, raw) in scan.inodes.iter().filter(|(_, raw)| !raw.is_free()) {
            check_inode(*number, raw)?;
            let inode = self.inodes.made(*number)?;
            let names = match scan.dirs.get(number) {
                Some(pages) => Some(Box::new(index(*number, pages)?)),
                None => None,
            };
            *inode.state.write() = State { raw: *raw, generation: 0, names };
            inode.opens.admit();
        }
        for (dir, raw) in
            scan.dirs.keys().flat_map(|dir| scan.dentries(*dir).map(move |(_, raw)| (*dir, raw)))
        {
            if scan.used(raw.ino).is_some_and(RawInode::is_dir) {
                self.inodes.made(raw.ino)?.parent.store(dir, SeqCst);
            }
        }
        self.inodes.get(ROOT)?.parent.store(ROOT, SeqCst);
        self.fill_pages(scan)
    }

    /// Fills the lists of pages; a file has one for each part up to its size.
    fn fill_pages(&self, scan: &Scan) -> Result<()> {
        for (page, raw) in
            scan.descriptors.iter().filter(|(page, raw)| raw.kind == CONTENTS && scan.is_needed(**page, raw))
        {
            let corrupt =
                |what: &str| Err(Error::Corrupt(format!("page {page} of inode {}: {what}", raw.owner)));
            if !raw.offset.is_multiple_of(PAGE) {
                return corrupt("it begins within a page of the file");
            }
            let list = &self.inodes.get(raw.owner)?.pages;
            if list.lock().insert(raw.offset / PAGE, self.layout.page(*page)).is_some() {
                return corrupt("the file has another for the same part");
            }
        }
        for (number, raw) in scan.inodes.iter().filter(|(_, raw)| !raw.is_free() && !raw.is_dir()) {
            let have = self.inodes.get(*number)?.pages.lock().len() as u64;
            if have != raw.pages() {
                let needs = raw.pages();
                return Err(Error::Corrupt(format!(
                    "inode {number} has {have} pages, its size needs {needs}"
                )));
            }
        }
        Ok(())
    }

    /// Frees what is open without a name, and says that the image is not in use.
    pub(crate) fn end(&self) -> Result<()> {
        self.check_sound()?;
        for number in ROOT..self.layout.inodes {
            let Ok(inode) = self.inodes.get(number) else { continue };
            let mut state = inode.state.write();
            if !state.raw.is_free() && state.raw.links == 0 {
                self.change(|| self.free_dead(inode, &mut state))?;
            }
        }
        store_clean(&self.region, true)
    }
}

/// Refuses an inode that no call can have made.
pub(crate) fn check_inode(number: u64, raw: &RawInode) -> Result<()> {
    let corrupt = |what: String| Err(Error::Corrupt(format!("inode {number}: {what}")));
    match raw.file_kind() {
        None => corrupt(format!("kind {}", raw.kind)),
        _ if raw.ino != number => corrupt(format!("it says that its number is {}", raw.ino)),
        Some(FileKind::Symlink) if raw.size == 0 || raw.size > TARGET_MAX as u64 => {
            corrupt(format!("a symbolic link of {} bytes", raw.size))
        }
        _ if raw.size > FILE_MAX => corrupt(format!("{} bytes", raw.size)),
        _ => Ok(()),
    }
}

/// Refuses names that lead nowhere, second names of directories, and inodes with more names than links.
fn check_names(scan: &Scan) -> Result<()> {
    let (tree, dangling) = scan.name_tree();
    if let Some((dir, at)) = dangling.first() {
        return Err(Error::Corrupt(format!("the name at {at} in directory {dir} leads to no inode")));
    }
    let mut tree_names = tree.clone();
    if let Some((number, dir, _)) = tree_names.take_second_names().first() {
        return Err(Error::Corrupt(format!("directory {number} has a second name in directory {dir}")));
    }
    let short =
        tree.nodes.iter().find(|(number, node)| node.has_name() && node.links < tree.links_of(**number));
    match short {
        Some((number, node)) => {
            Err(Error::Corrupt(format!("inode {number} has more names than its {} links", node.links)))
        }
        None => Ok(()),
    }
}

/// The index of a directory.
fn index(number: u64, pages: &BTreeMap<u64, Vec<(u64, RawDentry)>>) -> Result<DirIndex> {
    let mut names = DirIndex::new();
    for (page, dentries) in pages {
        names.add_page(*page);
        for (at, raw) in dentries.iter().filter(|(_, raw)| raw.ino != 0) {
            if !raw.name_is_sound() || !names.add(raw.name(), Entry { ino: raw.ino, at: *at }) {
                let name = String::from_utf8_lossy(raw.name()).into_owned();
                return Err(Error::Corrupt(format!(
                    "directory {number}: \"{name}\" is no name, or is there twice"
                )));
            }
        }
    }
    Ok(names)
}

const _: () = assert!(INODE_BYTES == size_of::<RawInode>() as u64);

/// The bytes of a structure, for repairs.
pub(crate) fn store<T: IntoBytes + zerocopy::Immutable>(region: &Region, at: u64, value: &T) -> Result<()> {
    region.write(at, value)?;
    region.flush(at, size_of::<T>() as u64);
    region.fence();
    Ok(())
}
