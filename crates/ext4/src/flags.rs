//! The flags of an inode that chattr(1) sets.
//!
//! | letter | flag | effect |
//! |---|---|---|
//! | `i` | immutable | neither contents, attributes nor names change |
//! | `a` | append only | contents only grow, names stay |
//! | `A` | no atime | reading leaves the access time |
//! | `d` | no dump | kept for dump(8) |
//!
//! The other flags are shown as they are on the device (extents, index of a directory, …), and a change of one is refused: Weir
//! would not do what it asks for.

use super::Volume;
use super::inode::change_time;
use super::layout::flag;
use base::error::{Error, Result};

/// What lsattr(1) may see (Linux: `EXT4_FL_USER_VISIBLE`).
const SHOWN: u32 = 0x725B_DFFF;

/// What a user may change.
const CHANGED: u32 = flag::IMMUTABLE | flag::APPEND | flag::NODUMP | flag::NOATIME;

impl Volume {
    pub(crate) fn inode_flags(&self, ino: u64) -> Result<u32> {
        let inode = self.inode(ino)?;
        let state = inode.state.read();
        state.check_live()?;
        Ok(state.raw.flags.get() & SHOWN)
    }

    pub(crate) fn set_inode_flags(&self, ino: u64, flags: u32) -> Result<()> {
        let inode = self.inode(ino)?;
        let mut state = inode.change();
        state.check_live()?;
        let changed = state.raw.flags.get() & SHOWN ^ flags;
        let may_have = state.raw.is_regular() || state.raw.is_dir();
        match changed {
            0 => return Ok(()),
            _ if changed & !CHANGED != 0 || !may_have => {
                return Err(Error::NotSupported(
                    "of the flags of an inode, only a, i, A and d can be changed",
                ));
            }
            _ => {}
        }
        let handle = self.begin(8)?;
        state.raw.flags = (state.raw.flags.get() ^ changed).into();
        state.raw.set_ctime(change_time());
        self.store_inode(&handle, &inode, &mut state)
    }
}
