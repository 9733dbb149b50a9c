//! Files that share blocks: a clone is one Write, or a group, whose extents say *cloned*.
//!
//! The record names the blocks, so that it needs no other record: the files that have a block are counted at a mount, and the
//! source may go before. What the source has reserved only reads as zeros, and becomes a hole of the target.
//!
//! Both files are settled first (`buffered.rs`), and blocks of the source of which records have bytes get new places. The source is
//! locked until the new counts are published: its places stay, and no call stores to a block of it in place meanwhile. Lock order:
//! the two inodes by number, as everywhere.

use std::ops::Range;

use vfs::copy::check_clone;
use vfs::{Errno, Result};

use super::Volume;
use super::draft::Draft;
use crate::format::layout::{BLOCK, FILE_MAX};
use crate::format::mutant;
use crate::format::zone::Want;
use crate::index::follow::Shown;
use crate::index::inode::{Changing, State};
use crate::index::map::Run;
use base::dax::WHOLE_FILE;
use base::error::{Error, Result as DesignResult};

/// A range of a file that becomes that of another one.
#[derive(Clone, Copy, Debug)]
struct Cloning {
    from: u64,
    to: u64,
    len: u64,
}

impl Volume {
    /// Lets `len` bytes of a file be those of another: inode number and offset of each.
    pub(crate) fn clone_range(&self, from: (u64, u64), to: (u64, u64), len: u64) -> Result<()> {
        let ((from, from_offset), (to, to_offset)) = (from, to);
        let (source, target) = (self.inodes.get(from)?, self.inodes.get(to)?);
        if source.is_dir || target.is_dir {
            return Err(Errno::EISDIR);
        }
        if self.maps.has_dirty(from) {
            self.flush_mapped(from, from_offset..from_offset.saturating_add(len))?;
        }
        let range = Cloning { from: from_offset, to: to_offset, len };
        if from == to {
            let mut file = target.changing()?;
            self.settle(&mut file)?;
            self.sync_pages(&mut file, WHOLE_FILE)?;
            self.move_source(&mut file, range)?;
            let plan = plan(&file, &file, range, true)?;
            return Ok(self.clone_runs(&mut file, range, &plan)?);
        }
        let mut early = (to < from).then(|| target.changing()).transpose()?;
        let mut source = source.changing()?;
        let mut late = early.is_none().then(|| target.changing()).transpose()?;
        let Some(file) = early.as_mut().or(late.as_mut()) else { return Err(Errno::EIO) };
        self.settle(&mut source)?;
        self.sync_pages(&mut source, WHOLE_FILE)?;
        self.settle(file)?;
        self.move_source(&mut source, range)?;
        let plan = plan(&source, file, range, false)?;
        Ok(self.clone_runs(file, range, &plan)?)
    }

    /// A clone names blocks, so these must have all bytes of the source.
    fn move_source(&self, source: &mut Changing<'_>, range: Cloning) -> DesignResult<()> {
        if self.rules.lacks(mutant::CLONED_WITHOUT_INLINE) {
            return Ok(());
        }
        self.move_patched(source, range.from / BLOCK..range.from.saturating_add(range.len).div_ceil(BLOCK))
    }

    /// Makes a clone of these runs of the source count.
    fn clone_runs(&self, file: &mut Changing<'_>, range: Cloning, runs: &[Run]) -> DesignResult<()> {
        let _scope = sim::scope(media::charges::METADATA);
        if runs.is_empty() {
            return Ok(());
        }
        let mut draft = Draft::of(self, file);
        draft.size = file.size.max(range.to + range.len);
        draft.zero_tail(file, range.to)?;
        let mut holes = Vec::new();
        for run in runs {
            let first = run.file + range.to / BLOCK - range.from / BLOCK;
            match run.place.filter(|place| !place.unwritten) {
                Some(place) => draft.map_cloned(first, place.block, run.count),
                None => {
                    for hole in self.holes(file, first..first + run.count, draft.time)? {
                        sim::ran::push(&mut holes, hole);
                    }
                }
            }
        }
        if draft.extents.len() > self.extents_max() {
            return Err(Error::NoSpace);
        }
        draft.commit(file, Want::Records, &holes)?;
        let blocks = range.to / BLOCK..(range.to + range.len).div_ceil(BLOCK);
        self.shown(file, &Shown::Places(blocks));
        Ok(())
    }
}

/// The runs of the source that the target gets; none if there is nothing to do.
fn plan(source: &State, target: &State, range: Cloning, same: bool) -> Result<Vec<Run>> {
    let Cloning { from, to, len } = range;
    let (blocks, _) = (source.blocks()?, target.blocks()?);
    check_clone(BLOCK, (from, to), len, (source.size, target.size), same)?;
    if to.saturating_add(len) > FILE_MAX {
        return Err(Errno::EFBIG);
    }
    let range: Range<u64> = from / BLOCK..(from + len).div_ceil(BLOCK);
    Ok(if len == 0 { Vec::new() } else { sim::ran::collected(blocks.runs(range)) })
}
