//! Making an empty file system: the tables are zeroed past the cache, then the root is there, then the superblock.

use media::nvmm::Region;
use vfs::{FileKind, NewInode, Owner};

use crate::inode::new_fields;
use crate::layout::{Layout, MAGIC, PAGE, ROOT, Superblock};
use crate::object::{Durable, Free, Inode, fence};
use base::error::{Error, Result};

/// Makes an empty file system with so many inodes.
pub(crate) fn mkfs(region: &Region, inodes: u64) -> Result<()> {
    let size = region.len();
    let layout = Layout::new(size, inodes).ok_or(Error::NoSpace)?;
    region.nt_zero(0, layout.first_page)?;
    region.fence();
    let new = NewInode { perm: 0o755, owner: Owner::default() };
    let root = Inode::<Durable, Free>::found(region, Layout::inode(ROOT));
    let _ = fence(region, root.initialise(&new_fields(ROOT, FileKind::Directory, &new))?.flush());
    region.write(0, &Superblock { magic: MAGIC, page_bytes: PAGE, size, clean: 1, inodes })?;
    region.flush(0, size_of::<Superblock>() as u64);
    region.fence();
    Ok(())
}
