//! Metadata blocks: reading them through the cache, changing them inside a handle.
//!
//! With a journal a change joins the running transaction and the page is pinned until the transaction has been written home;
//! without one the page is dirty and write-back may take it at any time.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use media::block::Hint;

use super::Volume;
use super::journal::Handle;
use base::cache::{Page, PageState};
use base::error::{Error, Result};

impl Volume {
    /// The cached page of a block, read if it must be.
    pub(crate) fn block(&self, block: u64) -> Result<Arc<Page>> {
        if block >= self.geo.blocks {
            return Err(self.corrupt(format!("block {block} is beyond the end of the file system")));
        }
        let page = self.cache.page(&self.meta, block);
        if page.state.read().uptodate {
            return Ok(page);
        }
        let mut state = page.state.write();
        if !state.uptodate {
            let _scope = sim::scope(media::charges::METADATA);
            let off = block * u64::from(self.geo.block_bytes);
            if let Err(error) = self.cache.queue().read(&mut [(off, &mut state.bytes)]) {
                drop(state);
                if self.handles.load(Relaxed) > 0 {
                    self.stop(&format!("block {block}: {error}"));
                }
                return Err(error.into());
            }
            state.uptodate = true;
        }
        drop(state);
        Ok(page)
    }

    /// Looks at a block.
    pub(crate) fn look<R>(&self, block: u64, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        // A page that is there is locked once: many tasks look at the blocks of a shared directory.
        if let Some(page) = self.meta.get(block) {
            let state = page.state.read();
            if state.uptodate {
                self.cache.count_hit();
                return Ok(look(&state.bytes));
            }
        }
        let page = self.block(block)?;
        let state = page.state.read();
        Ok(look(&state.bytes))
    }

    /// Changes a block.
    pub(crate) fn change<R>(
        &self,
        handle: &Handle<'_>,
        block: u64,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        // As in `look`.
        if let Some(page) = self.meta.get(block) {
            let mut state = page.state.write();
            if state.uptodate {
                self.cache.count_hit();
                return Ok(self.change_page(handle, &page, &mut state, change));
            }
        }
        let page = self.block(block)?;
        let mut state = page.state.write();
        Ok(self.change_page(handle, &page, &mut state, change))
    }

    /// Gives a block new content, whatever it holds on the device: it is zero before `change`.
    pub(crate) fn change_new<R>(
        &self,
        handle: &Handle<'_>,
        block: u64,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R> {
        if block >= self.geo.blocks {
            return Err(self.corrupt(format!("block {block} is beyond the end of the file system")));
        }
        let page = self.cache.page(&self.meta, block);
        let mut state = page.state.write();
        state.bytes.fill(0);
        state.uptodate = true;
        Ok(self.change_page(handle, &page, &mut state, change))
    }

    fn change_page<R>(
        &self,
        handle: &Handle<'_>,
        page: &Arc<Page>,
        state: &mut PageState,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        let changed = change(&mut state.bytes);
        match handle.journal() {
            // A page that is in the transaction already stays there (Linux: `jbd2_write_access_granted`).
            Some(_) if state.transaction == handle.tid => {}
            Some(journal) => {
                state.transaction = handle.tid;
                journal.add_as(page.index(), page);
            }
            None => self.cache.mark_dirty(&self.meta, page),
        }
        changed
    }

    /// A block of metadata is freed: what an older transaction wrote there must not be replayed, and the cache forgets it.
    pub(crate) fn forget_block(&self, handle: &Handle<'_>, block: u64) {
        if let Some(journal) = handle.journal() {
            journal.revoke(block, self.meta.get(block).as_ref());
        }
        self.cache.forget(&self.meta, block, block + 1);
    }

    /// Writes back metadata that no journal holds.
    pub(crate) fn write_metadata(&self) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        Ok(self.cache.write_out(&self.meta, &|_| Hint::None)?)
    }

    /// Notes that the image contradicts itself: from now on nothing is changed any more (errors=remount-ro).
    #[cold]
    pub(crate) fn corrupt(&self, what: String) -> Error {
        self.stop(&what);
        Error::Corrupt(what)
    }
}
