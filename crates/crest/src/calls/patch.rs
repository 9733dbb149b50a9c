//! Small overwrites: records that hold the bytes, and blocks of which records have some (`inline.rs`).
//!
//! | a write | is such a record if |
//! |---|---|
//! | of at most 1 KiB within a block, and within the file | the block is written, and the file not mapped |
//! | | the records of the block then have at most as many lines as `inline.rs` says, and those of the pool as `alloc.rs` does |
//! | on a mount that is strict and `atomic=whole` | others read such blocks, and give them new places when they write to them |
//!
//! Nothing on the medium changes below a reader: the block stays as it is until a write gives the file another one, with all its
//! bytes. That is also what ends the records of a block: a write for which they are too many, an append, a mapping, a clone.
//!
//! In DRAM the bytes are beside the places of blocks (`map.rs`), and change and are read under the locks of these.

use std::ops::Range;

use sim::sync::Ordering::Relaxed;
use sim::{RwLockWriteGuard, ran};

use super::file::Span;
use crate::Volume;
use crate::format::inline::{BYTES_MAX, Inline, LINES_MAX, Patch};
use crate::format::layout::BLOCK;
use crate::format::place;
use crate::format::record::{Body, Record};
use crate::format::zone::Want;
use crate::index::inode::{Changing, Inode, State, now};
use crate::index::map::{Held, Place, Run};
use crate::parts;
use crate::store::log::{Call, Committed};
use base::error::Result;

impl Volume {
    /// Whether bytes that no call reads may be stored to a block of a file in place.
    pub(crate) fn takes_stores(&self, file: &State, at: u64, Place { block, unwritten }: Place) -> bool {
        let references = self.zones.references(block);
        let checked = self.sums.get(block).is_some();
        let bytes_in_log = file.blocks().is_ok_and(|blocks| blocks.is_patched(at));
        place::Block { references, checked, unwritten, bytes_in_log }.takes_stores(self.rules)
    }

    /// Whether an overwrite is a record with its bytes.
    fn takes_inline(&self, inode: &Inode, file: &State, Span { start, end }: Span) -> Result<bool> {
        let (blocks, block, len) = (file.blocks()?, start / BLOCK, end.saturating_sub(start));
        if !self.inlines || len == 0 || len > BYTES_MAX as u64 || end > file.size || end > (block + 1) * BLOCK
        {
            return Ok(false);
        }
        let from = (start % BLOCK) as usize;
        let is_mapped = || inode.is_special.load(Relaxed) && self.maps.is_mapped(file.ino);
        let is_written = blocks.get(block).is_some_and(|place| !place.unwritten);
        let has_room = || blocks.lines_with(block, &(from..from + len as usize)) <= LINES_MAX;
        Ok(is_written && !is_mapped() && has_room() && self.zones.takes_inlines())
    }

    /// Makes such a record durable, and its bytes those of the block. Its id follows `after`.
    fn write_inline(
        &self,
        file: &State,
        start: u64,
        data: &[u8],
        (after, time): (u64, u64),
    ) -> Result<Committed<'_>> {
        let (ino, block, from) = (file.ino, start / BLOCK, (start % BLOCK) as usize);
        if let Some(place) = file.blocks()?.get(block) {
            // What stays of the block must be right, as where it is copied.
            self.compare(file, block, place.block, None)?;
        }
        let call = Call { want: Want::Records, after, makes: false, needs: &[] };
        let done = self.commit(call, |ticket| {
            ran::allocate(2);
            let patch = Patch { from: from as u16, bytes: data.to_vec() };
            let inline = Inline { ino, block, patch, time: Some(time) };
            vec![Record::alone(ticket.id, Body::Inline(inline))]
        })?;
        let _part = sim::part(&parts::PUBLISH);
        let blocks = file.blocks()?;
        sim::copy(data.len() as u64);
        // The run, its list, that of the records, and the node that has both.
        ran::allocate(4);
        blocks.patch(block, from, data);
        self.zones.change_inlines(blocks.take_change());
        Ok(done)
    }

    /// Overwrites bytes of a file that is locked alone by a record with them; false: it is to be written otherwise.
    pub(crate) fn write_inline_alone(
        &self,
        inode: &Inode,
        file: &mut Changing<'_>,
        offset: u64,
        data: &[u8],
    ) -> Result<bool> {
        let span = Span { start: offset, end: offset.saturating_add(data.len() as u64) };
        if !self.takes_inline(inode, file, span)? {
            return Ok(false);
        }
        let time = file.stamp(now());
        let done = self.write_inline(file, offset, data, (file.last, time))?;
        file.last = done.time();
        file.data_changed(time);
        self.show_written(file, offset, data);
        inode.count_change(file);
        Ok(true)
    }

    /// The same of a file that tasks share; the caller has the granules of the bytes alone.
    pub(crate) fn write_inline_beside(
        &self,
        inode: &Inode,
        file: &State,
        granules: &mut Held<RwLockWriteGuard<'_, u64>>,
        span: Span,
        data: &[u8],
    ) -> Result<bool> {
        if !self.takes_inline(inode, file, span)? {
            return Ok(false);
        }
        let time = inode.stamp_beside(file, self.shard(), now());
        let done = self.write_inline(file, span.start, data, (file.last.max(granules.last()), time))?;
        granules.note(done.time());
        inode.shares().note(self.shard(), done.time(), time);
        Ok(true)
    }

    // ---- blocks of which records have bytes

    /// Loads bytes of a block that has a place, from `from` on: those that lie in records from DRAM.
    pub(crate) fn load_bytes(
        &self,
        file: &State,
        at: u64,
        block: u64,
        from: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let blocks = file.blocks()?;
        if !blocks.is_patched(at) {
            return Ok(self.region.load(block * BLOCK + from as u64, out)?);
        }
        let gaps = blocks.read_patches(at, from, out);
        let medium: usize = gaps.iter().map(Range::len).sum();
        if medium < out.len() {
            sim::copy((out.len() - medium) as u64);
        }
        for gap in gaps {
            self.region.load(block * BLOCK + (from + gap.start) as u64, &mut out[gap])?;
        }
        Ok(())
    }

    /// Loads bytes of a run of blocks that has a place, from byte `start` of the file on, and compares checksums.
    pub(crate) fn read_patched(&self, file: &State, run: &Run, start: u64, out: &mut [u8]) -> Result<()> {
        let end = start + out.len() as u64;
        let patched = file.blocks()?.patched(start / BLOCK..end.div_ceil(BLOCK));
        let (mut at, place) = (start, |at: u64| (at - start) as usize);
        for block in patched {
            let (from, to) = (start.max(block * BLOCK), end.min((block + 1) * BLOCK));
            self.read_plain(file, run, at, &mut out[place(at)..place(from)])?;
            if let Some(Place { block: first, .. }) = run.place {
                let medium = first + block - run.file;
                self.compare(file, block, medium, None)?;
                let within = (from - block * BLOCK) as usize;
                self.load_bytes(file, block, medium, within, &mut out[place(from)..place(to)])
                    .inspect_err(|error| self.tell(&format!("inode {}: byte {from}: {error}", file.ino)))?;
            }
            at = to;
        }
        self.read_plain(file, run, at, &mut out[place(at)..])
    }

    /// The same of blocks of which no record has bytes.
    fn read_plain(&self, file: &State, run: &Run, start: u64, out: &mut [u8]) -> Result<()> {
        match run.place.filter(|_| !out.is_empty()) {
            Some(place) => self.read_run(file, run, place, start, out),
            None => Ok(()),
        }
    }

    /// Gives blocks of a range new places, with all their bytes, of which records have some.
    pub(crate) fn move_patched(&self, file: &mut Changing<'_>, range: Range<u64>) -> Result<()> {
        let patched = file.blocks().map_or_else(|_| Vec::new(), |blocks| blocks.patched(range));
        for some in patched.chunks(self.extents_max()) {
            let mut draft = self.draft(file);
            draft.moves = true;
            for block in some {
                self.copy_block(file, &mut draft, *block)?;
            }
            self.commit_draft(file, draft, Want::Records, &[])?;
        }
        Ok(())
    }
}
