//! Overwrites in place: the mount with `atomic=words`.
//!
//! A write within the file, all of whose blocks are there, written and neither cloned nor with checksums, stores its bytes past the
//! cache where the old ones are, and a record of the new times: both under one fence. A crash leaves each aligned word old or new.
//! Times that such a write changes have a granularity of [`TICK`]: where the last write was in the same tick no record is made.
//! Every other write is made as under `atomic=whole`. With `sync=fsync` this is about the writes that are durable when they return.

use smallvec::SmallVec;

use super::Volume;
use crate::format::layout::BLOCK;
use crate::format::record::{Body, Extents, Record, Write};
use crate::format::zone::Want;
use crate::index::follow::Shown;
use crate::index::inode::{Changing, now};
use crate::index::map::{Place, Run};
use crate::index::span::Span;
use crate::parts;
use crate::store::alloc::push;
use crate::store::log::Call;
use base::error::{Error, Result};

/// Nanoseconds of a tick: Linux gives files the time of its last tick (`ktime_get_coarse_real_ts64`), which Debian's kernels have
/// 250 times a second (`CONFIG_HZ`).
const TICK: u64 = 4_000_000;

impl Volume {
    /// Overwrites bytes of a file without frames where they are; false: it would do more, and has done nothing.
    pub(crate) fn write_in_place(&self, file: &mut Changing<'_>, offset: u64, data: &[u8]) -> Result<bool> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= file.size);
        let Some(end) = end.filter(|_| self.words && !data.is_empty()) else { return Ok(false) };
        let span = Span { start: offset, end };
        let mut runs = SmallVec::<[Run; 2]>::new();
        file.blocks()?.runs(span.blocks()).for_each(|run| push(&mut runs, run));
        let stays = |run: &Run| {
            let takes = |at, place: Place| {
                self.takes_stores(file, run.file + at, Place { block: place.block + at, ..place })
            };
            run.place.is_some_and(|place| !place.unwritten && (0..run.count).all(|at| takes(at, place)))
        };
        if !runs.iter().all(stays) {
            return Ok(false);
        }
        let store = || {
            let _part = sim::part(&parts::DATA);
            for run in &runs {
                let Some(place) = run.place else { continue };
                let start = span.start.max(run.file * BLOCK);
                let end = span.end.min((run.file + run.count) * BLOCK);
                let bytes = &data[(start - offset) as usize..(end - offset) as usize];
                let at = place.block * BLOCK + start - run.file * BLOCK;
                self.region.nt_store(at, bytes)?;
                self.stored(at, bytes);
            }
            Ok(())
        };
        // The time of a page that is not synced is in DRAM only.
        if file.was_written_in(TICK, now()) && !file.has_dirty_pages() {
            if self.losses.is_read_only() {
                return Err(Error::ReadOnly);
            }
            let stored = store();
            self.region.fence();
            self.shown(file, &Shown::Written(offset, data));
            return stored.map(|()| true);
        }
        let time = file.stamp(now());
        let call = Call { want: Want::Records, after: file.last, makes: false, needs: &[] };
        let ino = file.ino;
        let build = |ticket: &crate::store::log::Ticket| {
            let times = Write { ino, extents: Extents::new(), size: None, time: Some(time) };
            [Record::alone(ticket.id, Body::Write(times))]
        };
        let mut stored = Ok(());
        let done = self.commit_with(call, build, || stored = store())?;
        // Also where the medium has refused a store: the record counts.
        file.last = done.time();
        file.data_changed(time);
        drop(done);
        self.shown(file, &Shown::Written(offset, data));
        stored.map(|()| true)
    }
}
