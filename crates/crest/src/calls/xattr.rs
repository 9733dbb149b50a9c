//! Extended attributes: each is one record, with its value. In DRAM an inode has all of its values.

use sim::ran;
use vfs::XattrMode;

use super::Volume;
use crate::format::layout::{LINE, RECORD_LINES_MAX};
use crate::format::record::{Body, Record, Xattr};
use crate::format::zone::Want;
use crate::index::inode::{Attribute, Changing, State, implicit, now};
use crate::index::lines::xattr_lines;
use crate::store::log::Call;
use base::error::{Error, Result};

/// Most bytes of all names of an inode, each with a zero byte (Linux: `XATTR_LIST_MAX`).
const LIST_MAX: usize = 1 << 16;
/// Most bytes of a name with its value: a record has no more lines.
const RECORD_BYTES: usize = (RECORD_LINES_MAX - 1) * LINE;

/// All names, each ended by a zero byte.
pub(crate) fn names(state: &State) -> Vec<u8> {
    ran::collected(state.xattrs.keys().flat_map(|name| name.iter().copied().chain([0])))
}

impl Volume {
    /// Sets an attribute; durable on return.
    pub(crate) fn set_attribute(
        &self,
        inode: &mut Changing<'_>,
        (name, value): (&[u8], &[u8]),
        mode: XattrMode,
    ) -> Result<()> {
        let old = inode.xattrs.get(name).map(|old| xattr_lines(name, &old.value));
        match (mode, old) {
            (XattrMode::Create, Some(_)) => return Err(Error::Exists),
            (XattrMode::Replace, None) => return Err(Error::NoAttribute),
            _ => {}
        }
        let listed: usize = inode.xattrs.keys().map(|name| name.len() + 1).sum();
        let is_new = if old.is_none() { name.len() + 1 } else { 0 };
        if listed + is_new > LIST_MAX || name.len() + value.len() > RECORD_BYTES {
            return Err(Error::NoSpace);
        }
        self.commit_attribute(inode, (name, value), false)?;
        self.zones.add_lines(xattr_lines(name, value));
        self.zones.sub_lines(old.unwrap_or(0));
        let attribute = Attribute { value: ran::copied(value), since: inode.last };
        inode.xattrs.insert(ran::copied(name), attribute);
        Ok(())
    }

    /// Removes an attribute; durable on return.
    pub(crate) fn remove_attribute(&self, inode: &mut Changing<'_>, name: &[u8]) -> Result<()> {
        let old =
            inode.xattrs.get(name).map(|old| xattr_lines(name, &old.value)).ok_or(Error::NoAttribute)?;
        self.commit_attribute(inode, (name, &[]), true)?;
        inode.xattrs.remove(name);
        self.zones.sub_lines(old);
        Ok(())
    }

    fn commit_attribute(
        &self,
        inode: &mut Changing<'_>,
        (name, value): (&[u8], &[u8]),
        removed: bool,
    ) -> Result<()> {
        let _scope = sim::scope(media::charges::METADATA);
        let (ino, time) = (inode.ino, inode.stamp(now()));
        let want = if removed { Want::Removals } else { Want::Records };
        let call = Call { want, after: inode.last, makes: false, needs: &[] };
        let done = self.commit(call, |ticket| {
            let (name, value, before) = (ran::copied(name), ran::copied(value), ticket.before);
            let xattr = Xattr { ino, name, value, blocks: None, before, time, removed };
            [Record::alone(ticket.id, Body::Xattr(xattr))]
        })?;
        inode.last = done.time();
        inode.ctime = implicit(time);
        Ok(())
    }
}
