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

use sim::sync::Ordering::Relaxed;
use sim::{RwLockWriteGuard, ran};

use super::Volume;
use crate::format::inline::{BYTES_MAX, Inline, LINES_MAX, Patch};
use crate::format::layout::BLOCK;
use crate::format::record::{Body, Record};
use crate::format::zone::Want;
use crate::index::follow::Shown;
use crate::index::inode::{Changing, Inode, State, now};
use crate::index::map::Held;
use crate::index::span::Span;
use crate::parts;
use crate::store::commit::Committed;
use crate::store::log::Call;
use base::error::Result;

impl Volume {
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
            ran::allocate(1);
            let patch = Patch { from: from as u16, bytes: data.to_vec() };
            let inline = Inline { ino, block, patch, time: Some(time) };
            [Record::alone(ticket.id, Body::Inline(inline))]
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
        self.shown(file, &Shown::Written(offset, data));
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
}
