//! What a rename comes to.

use ::vfs::{Ino, RenameFlags, rename};

use sim::ran;

use super::log::Volume;
use super::state::Change;
use base::error::{Error, Result};

/// Links of an inode, at most.
pub(super) const LINKS_MAX: u32 = 65_000;

/// Checks a rename; none when there is nothing to do.
pub(super) fn rename_change(
    volume: &Volume,
    from: (Ino, &[u8]),
    to: (Ino, &[u8]),
    flags: RenameFlags,
) -> Result<Option<Change>> {
    let (state, (from_dir, to_dir)) = (&volume.state, (from.0.0, to.0.0));
    let replaced = state.find(to_dir, to.1)?;
    let moved = state.child(from_dir, from.1)?;
    let differs = rename::check_target(flags, moved, replaced)?;
    rename::check_subtrees(flags, (from_dir, to_dir), (moved, replaced), |dir, above| {
        state.is_below(dir, above)
    })?;
    if !differs {
        return Ok(None);
    }
    let names = ((from_dir, ran::copied(from.1)), (to_dir, ran::copied(to.1)));
    if flags.contains(RenameFlags::EXCHANGE) {
        return Ok(Some(Change::Exchange { a: names.0, b: names.1 }));
    }
    let inode = state.inode(moved)?;
    match replaced.map(|replaced| state.inode(replaced)).transpose()? {
        Some(replaced) => {
            rename::check_kinds(flags, inode.is_dir(), replaced.is_dir())?;
            replaced.check_empty()?;
        }
        None if inode.is_dir() && from_dir != to_dir && state.inode(to_dir)?.links >= LINKS_MAX => {
            return Err(Error::TooManyLinks);
        }
        None => {}
    }
    Ok(Some(Change::Rename { from: names.0, to: names.1 }))
}
