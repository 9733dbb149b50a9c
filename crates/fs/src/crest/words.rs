//! Overwrites in place: the mount with `atomic=words`.
//!
//! A write within the file, all of whose blocks are there and written, stores its bytes past the cache where the old ones are, and
//! a record of the new times: both under one fence. A crash leaves each aligned word old or new. Every other write is made as
//! under `atomic=whole`.

use sim::ran;
use vfs::Written;

use super::Volume;
use super::file::Span;
use super::inode::{Inode, now};
use super::layout::BLOCK;
use super::log::Call;
use super::parts;
use super::record::{Body, Record, Write};
use super::zone::Want;
use crate::error::Result;

impl Volume {
    /// Overwrites bytes of a file where they are; none if it would do more.
    pub(super) fn write_in_place(
        &self,
        inode: &Inode,
        offset: Option<u64>,
        data: &[u8],
    ) -> Result<Option<Written>> {
        // What is appended overwrites nothing.
        let Some(offset) = offset.filter(|_| !data.is_empty()) else { return Ok(None) };
        let mut file = inode.changing()?;
        let Some(end) = offset.checked_add(data.len() as u64).filter(|end| *end <= file.size) else {
            return Ok(None);
        };
        let span = Span { start: offset, end };
        let runs = file.blocks()?.runs(span.blocks());
        if runs.iter().any(|run| run.place.is_none_or(|place| place.unwritten)) {
            return Ok(None);
        }
        let time = file.stamp(now());
        let call = Call { want: Want::Records, after: file.last, makes: false, needs: &[] };
        let build = |ticket: &super::log::Ticket| {
            ran::allocate(1);
            let times = Write { ino: file.ino, extents: Vec::new(), size: None, time: Some(time) };
            vec![Record::alone(ticket.id, Body::Write(times))]
        };
        let store = || {
            let _part = sim::part(&parts::DATA);
            for run in &runs {
                let Some(place) = run.place else { continue };
                let start = span.start.max(run.file * BLOCK);
                let end = span.end.min((run.file + run.count) * BLOCK);
                let bytes = &data[(start - offset) as usize..(end - offset) as usize];
                self.region.nt_store(place.block * BLOCK + start - run.file * BLOCK, bytes)?;
            }
            Ok(())
        };
        let done = self.commit_with(call, build, store)?;
        file.last = done.time();
        file.data_changed(time);
        Ok(Some(Written { offset, bytes: data.len() }))
    }
}
