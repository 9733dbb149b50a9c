//! Changes of the attributes of a file: mode and owner, times, size, all of a call in one group.

use sim::ran;
use vfs::SetAttr;

use super::file::FILE_MAX;
use crate::Volume;
use crate::format::layout::{BLOCK, times};
use crate::format::record::{Body, Cut, Owner, Times, group};
use crate::format::tree::Stamped;
use crate::format::zone::Want;
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
                apply(file, body);
            }
            return Ok(());
        };
        self.settle_for(file, size)?;
        let mut draft = self.draft(file);
        (draft.size, draft.time) = (size, time);
        self.zero_tail(file, &mut draft, size)?;
        let want = if size < file.size { Want::Removals } else { Want::Records };
        if size < file.size {
            let cut = Cut { ino: file.ino, size, before: 0, time };
            ran::push(&mut bodies, Body::Cut(cut));
        }
        self.commit_draft(file, draft, want, &bodies)?;
        self.drop_frames(file, size.div_ceil(BLOCK));
        self.show_size(file, size);
        Ok(())
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

/// What a record of attributes means in DRAM.
pub(crate) fn apply(file: &mut State, body: &Body) {
    match body {
        Body::Owner(owner) => {
            file.mode = file.mode & 0o170_000 | u32::from(owner.mode) & 0o7777;
            (file.uid, file.gid) = (owner.uid, owner.gid);
            file.ctime = crate::index::inode::implicit(owner.time);
        }
        Body::Times(set) => {
            let stamped = |value| Stamped { stamp: set.stamp, explicit: true, value };
            if set.mask & times::ATIME != 0 {
                (file.atime, file.accessed) = (stamped(set.atime), false);
            }
            if set.mask & times::MTIME != 0 {
                file.mtime = stamped(set.mtime);
            }
            if set.mask & times::CTIME != 0 {
                file.ctime = stamped(set.stamp);
            }
        }
        _ => {}
    }
}
