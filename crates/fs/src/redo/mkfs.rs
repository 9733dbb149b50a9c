//! Making an empty file system.

use std::sync::Arc;

use media::nvmm::Region;

use super::layout::{MAGIC, Superblock, VERSION};
use super::log::write_checkpoint;
use super::state::State;
use base::error::Result;

/// Makes an empty file system.
pub(super) fn mkfs(region: &Arc<Region>) -> Result<()> {
    let size = region.len();
    write_checkpoint(region, 0, &State::new())?;
    region.fence();
    region.write(0, &Superblock { magic: MAGIC, version: VERSION, size, active: 0 })?;
    region.flush(0, size_of::<Superblock>() as u64);
    region.fence();
    Ok(())
}
