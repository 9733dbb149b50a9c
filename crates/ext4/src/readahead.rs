//! Reading ahead of a program that reads in sequence.
//!
//! The first miss of a sequence reads a small window; each next window is up to four times as large, until 128 KiB. A page in each
//! window is marked: its use submits the next window without waiting. So about two windows are under way, and the
//! program waits for the request that its page is in, no longer.
//!
//! ```text
//! |<----- async ---------|
//! |------- size -------->|
//! ^ start      ^ the marked page
//! ```
//!
//! The kernel keeps this state in the open file; here the inode has it, so two programs that read one file at different places
//! disturb each other.
//!
//! Source: Linux 5.15, `mm/readahead.c`: `ondemand_readahead`, `get_init_ra_size`, `get_next_ra_size`.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sim::{Activity, Run, Work, ran};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::runs::Mapped;
use base::cache::{Page, PageState};
use base::error::Result;

/// The largest window (Linux: `read_ahead_kb`, 128).
const WINDOW_BYTES: u64 = 128 * 1024;

/// A window takes at most this part of the page cache.
const CACHE_PART: u64 = 4;

impl Volume {
    /// The page of the first of `blocks` with its bytes, for a read of all of them.
    pub(super) fn page_for_read(
        &self,
        inode: &Arc<Inode>,
        state: &InodeState,
        blocks: RangeInclusive<u64>,
    ) -> Result<Arc<Page>> {
        let index = *blocks.start();
        let mut page = self.cache.page(inode.mapping(), index);
        let (mut present, mut marked) = {
            let page = page.state.read();
            (page.uptodate, page.marks_window)
        };
        if !present {
            drop(page);
            self.read_ahead(inode, state, blocks.clone(), false)?;
            page = self.cache.page(inode.mapping(), index);
            let page = page.state.read();
            (present, marked) = (page.uptodate, page.marks_window);
        }
        if !present {
            self.fill(inode, state, index, &page)?;
        }
        if marked {
            page.state.write().marks_window = false;
            self.read_ahead(inode, state, blocks, true)?;
        }
        inode.last_read.store(index, Relaxed);
        if page.wait_until_ready() {
            sim::work(Work::WAKEUP, 1);
        }
        Ok(page)
    }

    /// Submits a window.
    fn read_ahead(
        &self,
        inode: &Arc<Inode>,
        state: &InodeState,
        blocks: RangeInclusive<u64>,
        marked: bool,
    ) -> Result<()> {
        let block_bytes = u64::from(self.geo.block_bytes);
        let (index, last) = blocks.into_inner();
        let wanted = last + 1 - index;
        let request = u64::from(self.device.geometry().max_transfer_bytes) / block_bytes;
        // A window that a small cache cannot hold would be evicted before it is used, and read again for each of its pages.
        let held = (self.cache.capacity_pages() / CACHE_PART).max(1);
        let most = (WINDOW_BYTES / block_bytes).max(wanted.min(request)).min(held);
        let has = |index: u64| inode.mapping().has(index);
        let window = inode.readahead.lock().next(
            Run::new(index, wanted),
            (most, inode.last_read.load(Relaxed)),
            marked,
            |most| (1..=most.min(index)).take_while(|step| has(index - step)).count() as u64,
            || (index + 1..=index + most).find(|index| !has(*index)),
        );
        let Some(window) = window else { return Ok(()) };
        let end = (window.start + window.size).min(state.raw.size().div_ceil(block_bytes));
        let mark = (window.asynchronous > 0).then(|| window.start + window.size - window.asynchronous);
        let mut at = window.start;
        let mut pages = Vec::new();
        while at < end {
            let mapped = self.map(inode, state, at, end - at)?;
            let (len, block) = match mapped {
                Mapped::Blocks { start, len, unwritten: false } => (len, Some(start)),
                Mapped::Blocks { len, .. } | Mapped::Hole(len) => (len, None),
            };
            let blocks = (0..len).map(|step| (at + step, block.map(|block| block + step)));
            for (at, block) in blocks {
                ran::push(&mut pages, (self.cache.page(inode.mapping(), at), block));
            }
            at += len.max(1);
        }
        self.submit_window(&pages, mark);
        Ok(())
    }

    /// Submits reads of the pages that are not cached; those of holes become zero. What fails stays as it was, and fails again
    /// when it is needed.
    fn submit_window(&self, pages: &[(Arc<Page>, Option<u64>)], mark: Option<u64>) {
        ran::allocate(u64::from(!pages.is_empty()));
        let mut states = Vec::with_capacity(pages.len());
        for (page, block) in pages {
            let mut state = page.state.write();
            if state.uptodate {
                continue;
            }
            state.marks_window = mark == Some(page.index());
            match block {
                Some(block) => {
                    state.block = *block;
                    states.push(state);
                }
                None => {
                    state.bytes.fill(0);
                    state.uptodate = true;
                }
            }
        }
        let block_bytes = u64::from(self.geo.block_bytes);
        let arrivals = {
            let mut pieces = ran::collected(states.iter_mut().map(|state| {
                let state: &mut PageState = state;
                (state.block * block_bytes, &mut *state.bytes)
            }));
            let _scope = sim::scope(Activity::DATA);
            self.cache.queue().read_ahead(&mut pieces)
        };
        for (state, arrival) in states.iter_mut().zip(arrivals) {
            if let Ok(at) = arrival {
                state.uptodate = true;
                state.ready_at.store(at.0, Relaxed);
            }
        }
    }
}
