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

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sim::{Activity, LockClass, Mutex, Work};

use super::Volume;
use super::inode::{Inode, InodeState};
use super::map::Mapped;
use crate::cache::{Page, PageState};
use crate::error::Result;

pub(super) static READAHEAD: LockClass = LockClass::new("ext4.readahead");

/// The largest window (Linux: `read_ahead_kb`, 128).
const WINDOW_BYTES: u64 = 128 * 1024;

/// A window takes at most this part of the page cache.
const CACHE_PART: u64 = 4;

/// What was read ahead of a file, in blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readahead {
    start: u64,
    size: u64,
    /// The last window is submitted when this much of the one before is left.
    asynchronous: u64,
}

/// Blocks to read, and how far from their end the marked page lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: u64,
    size: u64,
    asynchronous: u64,
}

impl Readahead {
    /// Nothing was read yet.
    pub(crate) fn none() -> Mutex<Self> {
        Mutex::new(&READAHEAD, Self::default())
    }

    /// The next window for a program that asks for `wanted` blocks from `index` on, has read block `previous` last, and has met a
    /// page that is missing, or (`marked`) the marked one. `cached` counts the pages in the cache before `index`, `missing` is the
    /// next one after it.
    fn next(
        &mut self,
        (index, wanted): (u64, u64),
        (most, previous): (u64, u64),
        marked: bool,
        cached: impl FnOnce(u64) -> u64,
        missing: impl FnOnce() -> Option<u64>,
    ) -> Option<Window> {
        let follows = index == self.start + self.size - self.asynchronous || index == self.start + self.size;
        if index > 0 && self.size > 0 && follows {
            self.start += self.size;
            self.size = next_size(self.size, most);
            self.asynchronous = self.size;
        } else if index > 0 && marked {
            let start = missing()?;
            self.start = start;
            self.size = next_size(start - index + wanted, most);
            self.asynchronous = self.size;
        } else if index == 0 || wanted > most || index.wrapping_sub(previous) <= 1 {
            self.start = index;
            self.size = first_size(wanted, most);
            self.asynchronous = if self.size > wanted { self.size - wanted } else { self.size };
        } else {
            let history = cached(most);
            if history <= wanted {
                return Some(Window { start: index, size: wanted, asynchronous: 0 });
            }
            let history = if history >= index { history * 2 } else { history };
            (self.start, self.size, self.asynchronous) = (index, (history + wanted).min(most), 1);
        }
        if index == self.start && self.size == self.asynchronous {
            let more = next_size(self.size, most);
            if self.size + more <= most {
                self.asynchronous = more;
                self.size += more;
            } else {
                (self.size, self.asynchronous) = (most, most / 2);
            }
        }
        Some(Window { start: self.start, size: self.size, asynchronous: self.asynchronous })
    }
}

fn first_size(wanted: u64, most: u64) -> u64 {
    let size = wanted.max(1).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

fn next_size(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        size * 4
    } else if size <= most / 2 {
        size * 2
    } else {
        most
    }
}

impl Volume {
    /// The page at `index` with its bytes, for a read that goes on to block `last`.
    pub(super) fn page_for_read(
        &self,
        inode: &Arc<Inode>,
        state: &InodeState,
        (index, last): (u64, u64),
    ) -> Result<Arc<Page>> {
        let mut page = self.cache.page(inode.mapping(), index);
        let (mut present, mut marked) = {
            let page = page.state.read();
            (page.uptodate, page.marks_window)
        };
        if !present {
            drop(page);
            self.read_ahead(inode, state, (index, last), false)?;
            page = self.cache.page(inode.mapping(), index);
            let page = page.state.read();
            (present, marked) = (page.uptodate, page.marks_window);
        }
        if !present {
            self.fill(inode, state, index, &page)?;
        }
        if marked {
            page.state.write().marks_window = false;
            self.read_ahead(inode, state, (index, last), true)?;
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
        (index, last): (u64, u64),
        marked: bool,
    ) -> Result<()> {
        let block_bytes = u64::from(self.geo.block_bytes);
        let wanted = last + 1 - index;
        let request = u64::from(self.device.geometry().max_transfer_bytes) / block_bytes;
        // A window that a small cache cannot hold would be evicted before it is used, and read again for each of its pages.
        let held = (self.cache.capacity_pages() / CACHE_PART).max(1);
        let most = (WINDOW_BYTES / block_bytes).max(wanted.min(request)).min(held);
        let has = |index: u64| inode.mapping().has(index);
        let window = inode.readahead.lock().next(
            (index, wanted),
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
            pages.extend(blocks.map(|(at, block)| (self.cache.page(inode.mapping(), at), block)));
            at += len.max(1);
        }
        self.submit_window(&pages, mark);
        Ok(())
    }

    /// Submits reads of the pages that are not cached; those of holes become zero. What fails stays as it was, and fails again
    /// when it is needed.
    fn submit_window(&self, pages: &[(Arc<Page>, Option<u64>)], mark: Option<u64>) {
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
            let mut pieces: Vec<(u64, &mut [u8])> = states
                .iter_mut()
                .map(|state| {
                    let state: &mut PageState = state;
                    (state.block * block_bytes, &mut *state.bytes)
                })
                .collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads block after block; the windows that are submitted.
    fn sequence(blocks: u64) -> Vec<Window> {
        let (mut state, mut windows, mut cached, mut mark) = (Readahead::default(), Vec::new(), 0, None);
        for index in 0..blocks {
            let marked = mark == Some(index);
            if index >= cached || marked {
                let previous = index.wrapping_sub(1);
                let window =
                    state.next((index, 1), (32, previous), marked, |_| index, || Some(cached)).unwrap();
                cached = window.start + window.size;
                mark = Some(cached - window.asynchronous);
                windows.push(window);
            }
        }
        windows
    }

    #[test]
    fn windows_of_a_sequence_grow_to_128_kib_and_follow_each_other() {
        let windows = sequence(256);
        let sizes: Vec<_> = windows.iter().map(|window| window.size).collect();
        assert_eq!(sizes[..5], [4, 8, 16, 32, 32]);
        assert!(windows.windows(2).all(|pair| pair[0].start + pair[0].size == pair[1].start));
        // The second window is submitted when the first has been used for one block.
        assert_eq!(windows[0].asynchronous, 3);
    }

    #[test]
    fn a_read_at_random_reads_what_it_asks_for() {
        let mut state = Readahead::default();
        let window = state.next((1_000, 1), (32, u64::MAX), false, |_| 0, || None);
        assert_eq!(window, Some(Window { start: 1_000, size: 1, asynchronous: 0 }));
    }
}
