//! The pages of mapped files that are in frames: which files have dirty ones, and what calls do to them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::ran;

use super::follow::{Follower, Shown};
use super::inode::State;
use super::pages::Pages;
use super::span::Span;
use crate::format::layout::BLOCK;
use crate::store::Store;
use crate::store::alloc::Blocks;

/// The files with dirty pages. A lock of the host, held for one look, under those of inodes.
#[derive(Default)]
pub(crate) struct MappedPages {
    files: parking_lot::Mutex<BTreeSet<u64>>,
    /// How many: what is asked first.
    count: AtomicU64,
}

impl MappedPages {
    /// Whether a file has dirty pages.
    #[inline]
    pub(crate) fn has(&self, ino: u64) -> bool {
        self.count.load(Relaxed) > 0 && self.files.lock().contains(&ino)
    }

    /// Notes whether a file has dirty pages.
    pub(crate) fn set(&self, ino: u64, is_dirty: bool) {
        let mut files = self.files.lock();
        if is_dirty {
            files.insert(ino)
        } else {
            files.remove(&ino)
        };
        self.count.store(files.len() as u64, Relaxed);
    }

    /// All files with dirty pages.
    pub(crate) fn files(&self) -> Vec<u64> {
        if self.count.load(Relaxed) == 0 { Vec::new() } else { self.files.lock().iter().copied().collect() }
    }

    /// Forgets a file if it has no dirty pages any more.
    pub(crate) fn note_synced(&self, ino: u64, pages: &Pages) {
        if pages.dirty == 0 {
            self.set(ino, false);
        }
    }

    /// Pages of a range are on the medium only: what was stored to them and not synced is gone.
    fn drop_range(&self, store: &Store, file: &mut State, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Some(mut pages) = file.pages.take() else { return };
        let gone = ran::collected(pages.held.range(range).map(|(at, _)| *at));
        for page in gone.iter().filter_map(|at| pages.held.remove(at)).collect::<Vec<_>>() {
            if let Some(first) = page.target {
                store.zones.put(Blocks { first, count: 1 });
                pages.dirty -= 1;
            }
            pages.spare.push(page.frame);
        }
        self.note_synced(file.ino, &pages);
        keep(store, file, pages);
    }

    /// Makes zeros of these bytes.
    fn zero(&self, store: &Store, file: &mut State, span: Span) {
        self.drop_range(store, file, span.start.div_ceil(BLOCK)..span.end / BLOCK);
        let Some(pages) = file.pages.as_deref() else { return };
        for (at, page) in pages.held.range(span.blocks()) {
            let within = |byte: u64| byte.clamp(at * BLOCK, (at + 1) * BLOCK) - at * BLOCK;
            store.frames.zero(&page.frame, within(span.start) as usize..within(span.end) as usize);
        }
    }
}

/// The file has these pages. What no mapping needs goes: clean ones, and frames.
pub(crate) fn keep(store: &Store, file: &mut State, mut pages: Box<Pages>) {
    let is_wanted = |at: u64| pages.mapped.iter().any(|range| range.contains(&at));
    let clean = pages.held.range(..).filter(|(at, page)| page.target.is_none() && !is_wanted(**at));
    for at in clean.map(|(at, _)| *at).collect::<Vec<_>>() {
        pages.spare.extend(pages.held.remove(&at).map(|page| page.frame));
    }
    let has = pages.spare.len() as u64 + pages.held.range(..).count() as u64;
    let excess = has.saturating_sub(pages.wanted()).min(pages.spare.len() as u64);
    let kept = pages.spare.len() - excess as usize;
    store.frames.put(store.shard(), pages.spare.split_off(kept));
    if !pages.mapped.is_empty() || pages.dirty > 0 {
        file.pages = Some(pages);
    }
}

impl Follower for MappedPages {
    fn shown(&self, store: &Store, file: &mut State, change: &Shown<'_>) {
        match change {
            Shown::Written(offset, data) => {
                let Some(pages) = file.pages.as_deref() else { return };
                let span = Span { start: *offset, end: offset + data.len() as u64 };
                for (at, page) in pages.held.range(span.blocks()) {
                    let (start, end) = (span.start.max(at * BLOCK), span.end.min((at + 1) * BLOCK));
                    let bytes = &data[(start - offset) as usize..(end - offset) as usize];
                    store.frames.write(&page.frame, (start - at * BLOCK) as usize, bytes);
                }
            }
            Shown::Zeros(span) => self.zero(store, file, *span),
            Shown::Size(size) => {
                // It has no pages behind, and zeros in that with the end.
                if file.pages.is_some() {
                    self.drop_range(store, file, size.div_ceil(BLOCK)..u64::MAX);
                    self.zero(store, file, Span { start: *size, end: size.next_multiple_of(BLOCK) });
                }
            }
            Shown::Places(range) => self.drop_range(store, file, range.clone()),
            Shown::Nothing => {
                if let Some(pages) = &mut file.pages {
                    pages.mapped.clear();
                }
                self.drop_range(store, file, 0..u64::MAX);
            }
        }
    }
}
