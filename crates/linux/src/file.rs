//! The contents of a file: pages by number; those that are missing are holes.

use std::collections::BTreeMap;
use std::sync::Arc;

use sim::{PAGE_BYTES, Recency};

use super::objects::PageShared;

/// Bytes of a page.
pub(super) const PAGE: u64 = PAGE_BYTES as u64;
/// Largest file: page numbers and sizes stay far from the end of 64 bits.
pub(super) const FILE_MAX: u64 = 1 << 60;

/// A page; bytes beyond what it has are zeros.
#[derive(Debug)]
pub(super) struct Page {
    bytes: Vec<u8>,
    pub(super) dirty: bool,
    pub(super) shared: Arc<PageShared>,
}

/// A regular file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) size: u64,
    pub(super) pages: BTreeMap<u64, Page>,
}

/// The pages of a range that need one, as their numbers go.
pub(super) fn pages_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / PAGE..offset.saturating_add(len).div_ceil(PAGE)
}

/// The pieces of a range: the page, where it begins there, and how long it is.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    pages_of(offset, len).map(move |page| {
        let (from, to) = (offset.max(page * PAGE), end.min((page + 1) * PAGE));
        (page, (from - page * PAGE) as usize, (to - from) as usize)
    })
}

impl File {
    /// Pages of a range that are holes.
    pub(super) fn missing(&self, offset: u64, len: u64) -> u64 {
        let range = pages_of(offset, len);
        (range.end - range.start) - self.pages.range(range).count() as u64
    }

    /// The page of that number, made with the number `next` of all pages if it is a hole.
    fn page_mut(&mut self, number: u64, next: &mut u64) -> &mut Page {
        self.pages.entry(number).or_insert_with(|| {
            *next += 1;
            // A page that was free is in no cache.
            let shared = Arc::new(PageShared { id: *next, recency: Recency::new() });
            Page { bytes: Vec::new(), dirty: false, shared }
        })
    }

    /// Reads; returns the bytes read, and the pages that they come from.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> (usize, Vec<(Arc<PageShared>, u64)>) {
        let len = self.size.saturating_sub(offset).min(buffer.len() as u64);
        let (mut done, mut used) = (0, Vec::new());
        for (number, within, len) in pieces(offset, len) {
            let out = &mut buffer[done..done + len];
            out.fill(0);
            if let Some(page) = self.pages.get(&number) {
                let held = page.bytes.get(within..).unwrap_or_default();
                let held = &held[..held.len().min(len)];
                out[..held.len()].copy_from_slice(held);
                used.push((Arc::clone(&page.shared), len as u64));
            }
            done += len;
        }
        (done, used)
    }

    /// Writes; returns the pages.
    pub(super) fn write(&mut self, offset: u64, data: &[u8], next: &mut u64) -> Vec<(Arc<PageShared>, u64)> {
        let (mut done, mut used) = (0, Vec::new());
        for (number, within, len) in pieces(offset, data.len() as u64) {
            let page = self.page_mut(number, next);
            if page.bytes.len() < within + len {
                page.bytes.resize(within + len, 0);
            }
            page.bytes[within..within + len].copy_from_slice(&data[done..done + len]);
            page.dirty = true;
            used.push((Arc::clone(&page.shared), len as u64));
            done += len;
        }
        self.size = self.size.max(offset + data.len() as u64);
        used
    }

    /// Gives the holes of a range pages.
    pub(super) fn allocate(&mut self, offset: u64, len: u64, next: &mut u64) {
        for number in pages_of(offset, len) {
            self.page_mut(number, next);
        }
    }

    /// Makes `start..end` read as zeros: whole pages become holes, the edges are cleared. Returns the pages that went.
    pub(super) fn punch(&mut self, start: u64, end: u64) -> Vec<u64> {
        let mut gone = Vec::new();
        if start >= end {
            return gone;
        }
        let touched: Vec<u64> =
            self.pages.range(start / PAGE..end.div_ceil(PAGE)).map(|(page, _)| *page).collect();
        for number in touched {
            let first = number * PAGE;
            let (from, to) = (start.max(first) - first, end.min(first + PAGE) - first);
            if to - from == PAGE {
                gone.extend(self.pages.remove(&number).map(|page| page.shared.id));
            } else if let Some(page) = self.pages.get_mut(&number) {
                let to = (to as usize).min(page.bytes.len());
                if let Some(cleared) = page.bytes.get_mut(from as usize..to) {
                    cleared.fill(0);
                }
            }
        }
        gone
    }

    /// Sets the size; returns the pages that went.
    pub(super) fn resize(&mut self, size: u64) -> Vec<u64> {
        let gone = self.punch(size, self.size.next_multiple_of(PAGE));
        self.size = size;
        gone
    }

    /// Takes the marks of pages that were written; returns how many there were.
    pub(super) fn clean(&mut self) -> u64 {
        let dirty = self.pages.values_mut().filter(|page| page.dirty);
        dirty.map(|page| page.dirty = false).count() as u64
    }

    /// The next data or hole at or after `offset`, which is below the size; none where there is no data any more.
    pub(super) fn seek(&self, offset: u64, data: bool) -> Option<u64> {
        let first = offset / PAGE;
        let found = if data {
            *self.pages.range(first..).next()?.0
        } else {
            let run = self.pages.range(first..).zip(first..).take_while(|((page, _), at)| *page == at);
            first + run.count() as u64
        };
        let found = found.saturating_mul(PAGE).max(offset);
        if data { Some(found).filter(|found| *found < self.size) } else { Some(found.min(self.size)) }
    }
}
