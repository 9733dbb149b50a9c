//! The names of one directory: an index in DRAM beside the dentries on the medium.
//!
//! A free dentry is found on the medium, as published: a scan from the first page on, which makes a directory of n names quadratic.
//! With the option `free_dentry=hint` it begins where one was free last.
//!
//! A cursor of a listing is where the next dentry lies, so a name that stays is listed once whatever else changes.

use sim::Work;
use sim::map::TreeMap;

use media::nvmm::Region;
use sim::sync::Ordering::SeqCst;

use crate::inode::Inode;
use crate::layout::{DENTRY_BYTES, PAGE, RawDentry, dentry};
use crate::parts;
use base::error::Result;

/// Cursors of `.` and `..` come before those of names.
const DOTDOT: u64 = 1;
const FIRST: u64 = 2;

/// Where a name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ino: u64,
    /// Where its dentry lies.
    pub(crate) at: u64,
}

/// The names of a directory.
#[derive(Debug)]
pub(crate) struct DirIndex {
    names: TreeMap<Vec<u8>, Entry>,
    /// Its pages, by where they lie, each with the names in it.
    pages: TreeMap<u64, u64>,
    /// No dentry before it is free.
    hint: u64,
}

impl DirIndex {
    pub(crate) fn new() -> Self {
        Self { names: TreeMap::new(), pages: TreeMap::new(), hint: 0 }
    }

    /// Finds a name; as in other designs, one line of its node is in no cache.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Entry> {
        let _part = sim::part(&parts::LOOKUP_TREE);
        sim::work(Work::MISS, 1);
        self.names.get(name).copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(crate) fn page_list(&self) -> impl Iterator<Item = u64> {
        self.pages.keys().copied()
    }

    pub(crate) fn add_page(&mut self, page: u64) {
        self.pages.insert(page, 0);
        self.hint = self.hint.min(page);
    }

    pub(crate) fn remove_page(&mut self, page: u64) {
        self.pages.remove(&page);
    }

    /// Adds a name to the first free dentry, which was searched for; false: the name or its page is not as it should be.
    pub(crate) fn insert(&mut self, name: &[u8], entry: Entry) -> bool {
        self.hint = self.hint.max(entry.at);
        self.add(name, entry)
    }

    /// Adds a name that lies in any dentry, whose page is there; false: the name or its page is not as it should be.
    pub(crate) fn add(&mut self, name: &[u8], entry: Entry) -> bool {
        let page = entry.at - entry.at % PAGE;
        let Some(count) = self.pages.get_mut(&page) else { return false };
        *count += 1;
        self.names.insert(sim::ran::copied(name), entry).is_none()
    }

    /// Makes a name lead to another inode.
    pub(crate) fn redirect(&mut self, name: &[u8], ino: u64) {
        if let Some(entry) = self.names.get_mut(name) {
            entry.ino = ino;
        }
    }

    /// Removes a name; the page that has no name now.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let entry = self.names.remove(name)?;
        self.hint = self.hint.min(entry.at);
        let page = entry.at - entry.at % PAGE;
        let count = self.pages.get_mut(&page)?;
        *count -= 1;
        (*count == 0).then_some(page)
    }

    /// Where the first free dentry lies, of those on the medium.
    pub(crate) fn free_dentry(&self, region: &Region, from_hint: bool) -> Result<Option<u64>> {
        let _part = sim::part(&parts::FREE_DENTRY);
        let from = if from_hint { self.hint } else { 0 };
        for page in self.pages.range(from - from % PAGE..).map(|(page, _)| *page) {
            for at in (page.max(from - from % DENTRY_BYTES)..page + PAGE).step_by(DENTRY_BYTES as usize) {
                // As published: of one that leads to an inode only the line that says so is read.
                let mut line = [0; LINE as usize];
                region.load(at + DENTRY_BYTES - LINE, &mut line)?;
                if line[(dentry::INO - (DENTRY_BYTES - LINE)) as usize..].iter().all(|byte| *byte == 0)
                    && load(region, at)? == RawDentry::FREE
                {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }

    /// Gives the names from a cursor on to `sink` until it answers false: name, inode, the next cursor.
    pub(crate) fn list(
        &self,
        dir: &Inode,
        cursor: u64,
        region: &Region,
        sink: &mut dyn FnMut(&[u8], u64, u64) -> bool,
    ) -> Result<()> {
        let parent = dir.parent.load(SeqCst);
        if cursor < DOTDOT && !sink(b".", dir.ino, DOTDOT) || cursor < FIRST && !sink(b"..", parent, FIRST) {
            return Ok(());
        }
        for page in self.pages.range(cursor - cursor % PAGE..).map(|(page, _)| *page) {
            for at in (page..page + PAGE).step_by(DENTRY_BYTES as usize).filter(|at| *at >= cursor) {
                let raw = load(region, at)?;
                if raw.ino != 0 && !sink(raw.name(), raw.ino, at + DENTRY_BYTES) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Bytes of a cache line.
const LINE: u64 = 64;

/// A dentry, read from the medium.
fn load(region: &Region, at: u64) -> Result<RawDentry> {
    let mut raw = RawDentry::FREE;
    region.load(at, zerocopy::IntoBytes::as_mut_bytes(&mut raw))?;
    Ok(raw)
}
