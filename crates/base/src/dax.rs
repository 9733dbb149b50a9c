//! Files that are mapped directly: which, and what stores have changed of them that no flush has written back.
//!
//! A store to a mapped page goes through the processor's cache to the block itself. Its lines are noted here, by file and page, and
//! an msync or fsync flushes just these, then fences. A processor knows of pages only, since a page fault is all that it reports;
//! so Linux flushes whole pages. The note stays when the mapping ends, until the file is synced or freed.
//!
//! A note names a place in a file, not a block: a page may get another block, or none, while it is mapped. Each access and each
//! flush looks the block up, under the lock of the inode.
//!
//! Locks: one of the host, held for one look. Callers hold the lock of the inode: for writing when they map, unmap or store, at
//! least for reading when they flush, so that no line is stored between its flush and the end of its note.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use media::nvmm::Region;
use sim::{LINE_BYTES, Run};
use vfs::mapping::PAGE;

use crate::error::{Error, Result};

const LINE: u64 = LINE_BYTES as u64;

const _: () = assert!(PAGE / LINE == u64::BITS as u64, "a word has a bit for each line of a page");

/// Every byte of a file.
pub const WHOLE_FILE: Range<u64> = 0..u64::MAX;

/// The files of a mounted design that are mapped, or were and are not synced.
#[derive(Default)]
pub struct DirectMaps {
    files: parking_lot::Mutex<BTreeMap<u64, MappedFile>>,
    /// Files in the map: what is asked first.
    count: AtomicU64,
}

#[derive(Default)]
struct MappedFile {
    mappings: u32,
    /// Pages of the mappings that may be stored to.
    writable: Vec<Range<u64>>,
    /// Lines that were stored to, by page.
    dirty: BTreeMap<u64, u64>,
}

impl DirectMaps {
    /// A mapping of these pages begins.
    pub fn map(&self, ino: u64, pages: &Range<u64>, writable: bool) {
        self.change(ino, |file| {
            file.mappings += 1;
            file.writable.extend(writable.then(|| pages.clone()));
        });
    }

    /// A mapping ends that began with the same arguments.
    pub fn unmap(&self, ino: u64, pages: &Range<u64>, writable: bool) {
        self.change(ino, |file| {
            file.mappings = file.mappings.saturating_sub(1);
            let found = file.writable.iter().position(|other| writable && other == pages);
            if let Some(index) = found {
                file.writable.swap_remove(index);
            }
        });
    }

    /// Whether a file is mapped.
    #[inline]
    pub fn is_mapped(&self, ino: u64) -> bool {
        self.look(ino, |file| file.mappings > 0)
    }

    /// Whether a mapping may store to a file.
    pub fn is_stored_to(&self, ino: u64) -> bool {
        self.look(ino, |file| !file.writable.is_empty())
    }

    /// Whether a mapping may store to a page.
    #[inline]
    pub fn is_writable(&self, ino: u64, page: u64) -> bool {
        self.look(ino, |file| file.writable.iter().any(|pages| pages.contains(&page)))
    }

    /// Whether a page has lines that are not flushed.
    pub fn is_dirty(&self, ino: u64, page: u64) -> bool {
        self.look(ino, |file| file.dirty.contains_key(&page))
    }

    /// Whether a file has lines that are not flushed.
    #[inline]
    pub fn has_dirty(&self, ino: u64) -> bool {
        self.look(ino, |file| !file.dirty.is_empty())
    }

    /// Notes a store to bytes within one page.
    pub fn note(&self, ino: u64, offset: u64, len: usize) {
        let lines = lines_of(offset % PAGE, len as u64);
        if lines != 0 {
            self.change(ino, |file| *file.dirty.entry(offset / PAGE).or_default() |= lines);
        }
    }

    /// Makes what was stored to the pages of these bytes durable; nothing to do, and no fence, where nothing was. `place` says
    /// where a page lies, unless it is a hole by now.
    pub fn flush(
        &self,
        region: &Region,
        (ino, bytes): (u64, Range<u64>),
        mut place: impl FnMut(u64) -> Result<Option<u64>>,
    ) -> Result<()> {
        let pages = bytes.start / PAGE..bytes.end.div_ceil(PAGE);
        let dirty: Vec<(u64, u64)> =
            self.of(ino, |file| file.dirty.range(pages).map(|(page, lines)| (*page, *lines)).collect());
        if dirty.is_empty() {
            return Ok(());
        }
        for (page, lines) in &dirty {
            let Some(at) = place(*page)? else { continue };
            for Run { first, count } in runs(*lines) {
                region.flush(at + first * LINE, count * LINE);
            }
        }
        region.fence();
        self.change(ino, |file| {
            file.dirty.retain(|page, _| dirty.binary_search_by_key(page, |(page, _)| *page).is_err());
        });
        Ok(())
    }

    /// The pages of a file from this one on are gone, and what was stored to them.
    pub fn cut(&self, ino: u64, from: u64) {
        if self.has_dirty(ino) {
            self.change(ino, |file| drop(file.dirty.split_off(&from)));
        }
    }

    /// Flushes each file with `flush`; one that is removed meanwhile has nothing left to flush.
    pub fn flush_all(&self, flush: impl Fn(u64) -> Result<()>) -> Result<()> {
        self.dirty_files().into_iter().try_for_each(|ino| match flush(ino) {
            Err(Error::NoEntry) => Ok(()),
            done => done,
        })
    }

    /// Files with lines that are not flushed.
    fn dirty_files(&self) -> Vec<u64> {
        if self.count.load(Relaxed) == 0 {
            return Vec::new();
        }
        let files = self.files.lock();
        files.iter().filter(|(_, file)| !file.dirty.is_empty()).map(|(ino, _)| *ino).collect()
    }

    /// A file is gone.
    pub fn forget(&self, ino: u64) {
        if self.count.load(Relaxed) > 0 {
            let mut files = self.files.lock();
            files.remove(&ino);
            self.count.store(files.len() as u64, Relaxed);
        }
    }

    #[inline]
    fn look(&self, ino: u64, what: impl FnOnce(&MappedFile) -> bool) -> bool {
        self.count.load(Relaxed) > 0 && self.files.lock().get(&ino).is_some_and(what)
    }

    fn of<T: Default>(&self, ino: u64, what: impl FnOnce(&MappedFile) -> T) -> T {
        if self.count.load(Relaxed) == 0 {
            return T::default();
        }
        self.files.lock().get(&ino).map_or_else(T::default, what)
    }

    fn change(&self, ino: u64, what: impl FnOnce(&mut MappedFile)) {
        let mut files = self.files.lock();
        let file = files.entry(ino).or_default();
        what(file);
        if file.mappings == 0 && file.dirty.is_empty() {
            files.remove(&ino);
        }
        self.count.store(files.len() as u64, Relaxed);
    }
}

/// The lines of a page that hold some of its bytes, a bit for each.
fn lines_of(within: u64, len: u64) -> u64 {
    if len == 0 {
        return 0;
    }
    let (first, last) = (within / LINE, (within + len - 1) / LINE);
    u64::MAX >> (63 - (last - first)) << first
}

/// Neighbouring lines.
fn runs(mut lines: u64) -> impl Iterator<Item = Run> {
    std::iter::from_fn(move || {
        if lines == 0 {
            return None;
        }
        let first = lines.trailing_zeros();
        let count = (lines >> first).trailing_ones();
        lines &= !(u64::MAX >> (64 - count) << first);
        Some(Run::new(u64::from(first), u64::from(count)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_store_are_those_that_hold_its_bytes() {
        assert_eq!(lines_of(0, 0), 0);
        assert_eq!(lines_of(63, 1), 1);
        assert_eq!(lines_of(63, 2), 3);
        assert_eq!(lines_of(4095, 1), 1 << 63);
        assert_eq!(lines_of(0, 4096), u64::MAX);
    }

    #[test]
    fn neighbouring_lines_are_flushed_together() {
        let all = |lines| runs(lines).map(|run| (run.first, run.count)).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(0b1011_0001), [(0, 1), (4, 2), (7, 1)]);
        assert_eq!(all(u64::MAX), [(0, 64)]);
        assert_eq!(all(1 << 63), [(63, 1)]);
    }

    #[test]
    fn a_file_is_forgotten_when_it_is_neither_mapped_nor_dirty() {
        let maps = DirectMaps::default();
        maps.map(7, &(0..4), true);
        maps.map(7, &(2..3), false);
        assert!(maps.is_mapped(7) && maps.is_writable(7, 3) && !maps.is_writable(7, 4));
        maps.note(7, 4096, 1);
        maps.unmap(7, &(0..4), true);
        assert!(maps.is_mapped(7) && !maps.is_writable(7, 3));
        maps.unmap(7, &(2..3), false);
        assert!(!maps.is_mapped(7) && maps.is_dirty(7, 1));
        assert_eq!(maps.dirty_files(), [7]);
        maps.forget(7);
        assert_eq!((maps.dirty_files(), maps.count.load(Relaxed)), (vec![], 0));
    }

    #[test]
    fn what_was_stored_to_a_page_that_is_gone_is_forgotten() {
        let maps = DirectMaps::default();
        for page in 0..3 {
            maps.note(7, page * PAGE, 1);
        }
        maps.cut(7, 2);
        assert_eq!([0, 1, 2].map(|page| maps.is_dirty(7, page)), [true, true, false]);
        maps.cut(7, 0);
        assert_eq!((maps.dirty_files(), maps.count.load(Relaxed)), (vec![], 0));
        maps.cut(7, 0);
        assert_eq!(maps.count.load(Relaxed), 0);
    }
}
