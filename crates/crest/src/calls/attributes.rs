//! Changes of the attributes of a file: mode and owner, times, size, all of a call in one group.

use sim::ran;
use vfs::SetAttr;

use super::Volume;
use super::draft::Draft;
use crate::format::layout::{BLOCK, FILE_MAX, times};
use crate::format::record::{Body, Cut, Owner, Times, group};
use crate::format::zone::Want;
use crate::index::follow::Shown;
use crate::index::inode::{Changing, State, now, set_time};
use crate::store::log::Call;
use base::error::{Error, Result};

impl Volume {
    /// Changes attributes, the size of a file among them; one operation, durable on return.
    pub(crate) fn set_attributes(&self, file: &mut Changing<'_>, set: &SetAttr) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        if set.size.is_some_and(|size| size > FILE_MAX) {
            return Err(Error::TooLarge);
        }
        let time = file.stamp(now());
        let mut bodies = attributes(file, set, time);
        let Some(size) = set.size else {
            let call = Call { want: Want::Records, after: file.last, makes: false, needs: &[] };
            let done = self.commit(call, |ticket| {
                ran::allocate(4);
                group(ticket.id, bodies.clone())
            })?;
            file.last = done.time();
            for body in &bodies {
                file.apply(body);
            }
            return Ok(());
        };
        self.settle_for(file, size)?;
        let mut draft = Draft::of(self, file);
        (draft.size, draft.time) = (size, time);
        draft.zero_tail(file, size)?;
        let want = if size < file.size { Want::Removals } else { Want::Records };
        if size < file.size {
            let cut = Cut { ino: file.ino, size, before: 0, time };
            ran::push(&mut bodies, Body::Cut(cut));
        }
        draft.commit(file, want, &bodies)?;
        self.drop_frames(file, size.div_ceil(BLOCK));
        self.shown(file, &Shown::Size(size));
        Ok(())
    }

    /// Settles what a truncation to this size leaves of a file, and what mappings have stored.
    fn settle_for(&self, file: &mut Changing<'_>, size: u64) -> Result<()> {
        if !self.frames.are_used() {
            return Ok(());
        }
        if self.has_unsynced(file.ino) {
            self.sync_mapped(file)?;
        }
        let end = size.div_ceil(BLOCK);
        // Frames of blocks with a durable end, and behind, are settled together.
        let is_before = end <= file.durable_size() / BLOCK;
        self.settle_before(file, if is_before { end } else { u64::MAX })
    }
}

/// The records of a change of attributes without the size.
fn attributes(file: &State, set: &SetAttr, time: u64) -> Vec<Body> {
    let mut bodies = Vec::new();
    if set.perm.is_some() || set.uid.is_some() || set.gid.is_some() {
        let mode = set.perm.map_or(file.mode, |perm| file.mode & 0o170_000 | perm & 0o7777);
        let (uid, gid) = (set.uid.unwrap_or(file.uid), set.gid.unwrap_or(file.gid));
        ran::push(&mut bodies, Body::Owner(Owner { ino: file.ino, mode: mode as u16, uid, gid, time }));
    }
    if set.atime.is_some() || set.mtime.is_some() || bodies.is_empty() && set.size.is_none() {
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let mask =
            times::CTIME | bit(set.atime.is_some(), times::ATIME) | bit(set.mtime.is_some(), times::MTIME);
        let value = |time_of, old| Option::map_or(time_of, old, |it| set_time(it, time));
        let (atime, mtime) = (value(set.atime, file.atime.value), value(set.mtime, file.mtime.value));
        let times = Times { ino: file.ino, mask, stamp: time, atime, mtime };
        ran::push(&mut bodies, Body::Times(times));
    }
    bodies
}
