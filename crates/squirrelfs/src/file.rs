//! Contents: read and written in place, page by page.
//!
//! A file has a page for each of its bytes up to its size: no holes. Bytes of its last page behind the size are anything; what lies
//! between an old size and the beginning of a write beyond it is zeroed before the size grows.

use std::ops::Range;

use sim::ran;
use vfs::{SetAttr, SetTime, Timestamp};

use crate::inode::{Inode, State};
use crate::layout::{FILE_MAX, PAGE, owner_word, time_word};
use crate::object::{Durable, Live, Owned, PagePlace, Pages, Part, Shrunk, Source, Unused, Written};
use crate::{Volume, mutant};
use base::error::{Error, Result};

/// Splits a range at the borders of pages: the page, the first byte within it, how many.
fn pieces(range: Range<u64>) -> impl Iterator<Item = (u64, u64, u64)> {
    let (mut at, end) = (range.start, range.end);
    std::iter::from_fn(move || {
        let (page, within) = (at / PAGE, at % PAGE);
        let len = end.saturating_sub(at).min(PAGE - within);
        at += len;
        (len > 0).then_some((page, within, len))
    })
}

/// Places on the medium of new pages of a file, and of those that it has.
struct Plan<'a> {
    inode: &'a Inode,
    /// Number of the first new page.
    first_new: u64,
    new: Vec<PagePlace>,
}

impl Plan<'_> {
    fn page(&self, number: u64) -> Result<u64> {
        match number.checked_sub(self.first_new) {
            Some(nth) => self.new.get(nth as usize).map(|place| place.page).ok_or(Error::NoSpace),
            None => self.inode.page(number),
        }
    }

    /// The stores: zeros in `gap`, then `data` from its end on.
    fn parts<'d>(&self, gap: Range<u64>, data: &'d [u8]) -> Result<Vec<Part<'d>>> {
        let (start, mut parts, mut done) = (gap.end, Vec::new(), 0);
        for (page, within, len) in pieces(gap) {
            ran::push(&mut parts, Part { at: self.page(page)? + within, bytes: Source::Zeros(len) });
        }
        for (page, within, len) in pieces(start..start + data.len() as u64) {
            let bytes = Source::Bytes(&data[done..done + len as usize]);
            ran::push(&mut parts, Part { at: self.page(page)? + within, bytes });
            done += len as usize;
        }
        Ok(parts)
    }
}

impl Volume {
    /// Reads from a file that is locked; returns how many bytes.
    pub(crate) fn read_file(
        &self,
        inode: &Inode,
        size: u64,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let len = size.saturating_sub(offset).min(buffer.len() as u64);
        let mut done = 0;
        for (page, within, len) in pieces(offset..offset.saturating_add(len)) {
            let at = inode.page(page)? + within;
            self.region.load(at, &mut buffer[done..done + len as usize])?;
            done += len as usize;
        }
        Ok(done)
    }

    /// Writes into a file that is locked for it; returns how many bytes, fewer when space runs out.
    pub(crate) fn write_file(
        &self,
        inode: &Inode,
        state: &mut State,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let end =
            offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_MAX).ok_or(Error::TooLarge)?;
        let have = state.raw.pages();
        let new =
            if end.div_ceil(PAGE) > have { self.pages.take(end.div_ceil(PAGE) - have) } else { Vec::new() };
        let end = end.min((have + new.len() as u64) * PAGE);
        if end <= offset {
            self.pages.put(&new)?;
            return Err(Error::NoSpace);
        }
        let data = &data[..(end - offset) as usize];
        let gap = state.raw.size.min(offset)..offset;
        self.store(inode, state, Plan { inode, first_new: have, new }, (gap, data))?;
        Ok(data.len())
    }

    /// Stores zeros in a gap and data behind it, in pages that the file has and new ones; then the size, where it grows, and times.
    fn store(
        &self,
        inode: &Inode,
        state: &mut State,
        plan: Plan<'_>,
        (gap, data): (Range<u64>, &[u8]),
    ) -> Result<()> {
        let end = gap.end + data.len() as u64;
        let gap = if self.has(mutant::TAIL_NOT_ZEROED) { gap.end..gap.end } else { gap };
        let parts = plan.parts(gap, data).inspect_err(|_| drop(self.pages.put(&plan.new)))?;
        let first_new = plan.first_new;
        let new = ran::collected(plan.new.iter().map(|place| place.page));
        let owned = self.change(|| self.own_new(inode, plan))?;
        let places = ran::collected(owned.places().iter().copied());
        if end > state.raw.size && self.has(mutant::SIZE_BEFORE_DATA) {
            let early = Pages::<Durable, Written>::found(&self.region, Vec::new());
            let grown = inode.object::<Live>(self).grow(end, state.raw.mtime, &early)?;
            let _ = self.fence(grown.flush());
        }
        let written = match owned.write(parts.into_iter(), self.settings.fence_each_page) {
            Ok(written) => self.fence(written),
            Err(error) => {
                // What was to be written to new pages could not be: they are let go.
                self.change(|| self.let_new_go(places))?;
                return Err(error.into());
            }
        };
        self.change(|| {
            if end > state.raw.size {
                let now = time_word(Timestamp::now());
                let _ = self.fence(inode.object::<Live>(self).grow(end, now, &written)?.flush());
                state.raw.size = end;
                let mut pages = inode.pages.lock();
                for (nth, page) in new.iter().enumerate() {
                    pages.insert(first_new + nth as u64, *page);
                }
            }
            self.touch(inode, state, true)
        })
    }

    /// Gives new pages to a file, behind its size.
    fn own_new<'v>(&'v self, inode: &Inode, plan: Plan<'_>) -> Result<Pages<'v, Durable, Owned>> {
        if plan.new.is_empty() {
            return Ok(Pages::found(&self.region, plan.new));
        }
        let placed = Pages::<Durable, Unused>::found(&self.region, plan.new).place(plan.first_new)?;
        let placed = self.fence(placed.flush());
        Ok(self.fence(placed.own(&inode.object::<Live>(self))?.flush()))
    }

    fn let_new_go(&self, places: Vec<PagePlace>) -> Result<()> {
        if places.is_empty() {
            return Ok(());
        }
        let pages = Pages::<Durable, Owned>::found(&self.region, places);
        let disowned = self.fence(pages.disown_new()?.flush());
        self.free_pages(disowned)
    }

    /// Changes the size of a file that is locked for it.
    pub(crate) fn set_size(&self, inode: &Inode, state: &mut State, size: u64) -> Result<()> {
        if size > FILE_MAX {
            return Err(Error::TooLarge);
        }
        if size <= state.raw.size {
            return self.change(|| self.cut(inode, state, size));
        }
        let (have, need) = (state.raw.pages(), size.div_ceil(PAGE));
        let new = if need > have { self.pages.take(need - have) } else { Vec::new() };
        if have + (new.len() as u64) < need {
            self.pages.put(&new)?;
            return Err(Error::NoSpace);
        }
        let gap = state.raw.size..size;
        self.store(inode, state, Plan { inode, first_new: have, new }, (gap, &[]))
    }

    /// Makes a file shorter, then lets go of the pages wholly behind its end.
    fn cut(&self, inode: &Inode, state: &mut State, size: u64) -> Result<()> {
        let now = time_word(Timestamp::now());
        let mut list = inode.pages.lock();
        let beyond = ran::collected(list.range(size.div_ceil(PAGE)..).map(|(number, _)| *number));
        let places = ran::collected(
            beyond.iter().filter_map(|number| list.get(number)).map(|page| self.layout.place_of(*page)),
        );
        for number in &beyond {
            list.remove(number);
        }
        drop(list);
        if self.has(mutant::DEALLOC_BEFORE_UNMAP) && !places.is_empty() {
            let pages = Pages::<Durable, Owned>::found(&self.region, ran::collected(places.iter().copied()));
            let _ = self.fence(pages.disown(&inode.object::<Shrunk>(self))?.flush());
        }
        let shrunk = self.fence(inode.object::<Live>(self).shrink(size, now)?.flush());
        (state.raw.size, state.raw.mtime, state.raw.ctime) = (size, now, now);
        self.maps.cut(inode.ino, size.div_ceil(PAGE));
        if places.is_empty() {
            return Ok(());
        }
        let disowned = Pages::<Durable, Owned>::found(&self.region, places).disown(&shrunk)?;
        let disowned = self.fence(disowned.flush());
        self.free_pages(disowned)
    }

    /// Changes every attribute but the size; durable on return.
    pub(crate) fn set_fields(&self, inode: &Inode, state: &mut State, set: &SetAttr) -> Result<()> {
        let now = Timestamp::now();
        let mut raw = state.raw;
        let mut owner = raw.user();
        (owner.uid, owner.gid) = (set.uid.unwrap_or(owner.uid), set.gid.unwrap_or(owner.gid));
        raw.owner = owner_word(owner);
        raw.mode = set.perm.map_or(raw.mode, |perm| (perm & 0o7777) as u16);
        let changed = |old: u64, set: Option<SetTime>| match set {
            None => old,
            Some(SetTime::Now) => time_word(now),
            Some(SetTime::To(time)) => time_word(time),
        };
        (raw.atime, raw.mtime) = (changed(raw.atime, set.atime), changed(raw.mtime, set.mtime));
        raw.ctime = time_word(now);
        self.change(|| {
            let stored = inode.object::<Live>(self).set_attributes(&raw)?;
            let _ = self.fence(stored.flush());
            Ok(())
        })?;
        state.raw = raw;
        Ok(())
    }

    /// Stores the time of an access, durably.
    pub(crate) fn set_accessed(&self, inode: &Inode, state: &mut State) -> Result<()> {
        let atime = time_word(Timestamp::now());
        self.change(|| {
            let stored = inode.object::<Live>(self).set_times(state.raw.ctime, [atime, state.raw.mtime])?;
            let _ = self.fence(stored.flush());
            Ok(())
        })?;
        state.raw.atime = atime;
        Ok(())
    }
}
