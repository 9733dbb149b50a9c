//! The bugs that can be seeded in a design that buffers data, beside those of the format (`pmfs/mutant.rs`).

use crate::pmfs;
use design::Mutant;

/// The size is committed before the data is written back.
pub(crate) const SIZE_AHEAD_OF_DATA: Mutant = Mutant::new("size-ahead-of-data", "buffer: size ahead of data");
/// Write-back leaves out the last dirty line of a block.
pub(crate) const LAST_LINE_LEFT_OUT: Mutant = Mutant::new("last-line-left-out", "buffer: sync misses a line");
/// A truncation drops data that the open transaction waits for.
pub(crate) const TRUNCATE_DROPS_WAITED: Mutant =
    Mutant::new("truncate-drops-waited", "buffer: write-back against truncation");
/// A block that is evicted from the buffer is dropped, not written.
pub(crate) const EVICTION_DROPS: Mutant =
    Mutant::new("eviction-drops", "buffer: dirty block lost at eviction");

const OWN: [Mutant; 4] = [SIZE_AHEAD_OF_DATA, LAST_LINE_LEFT_OUT, TRUNCATE_DROPS_WAITED, EVICTION_DROPS];

/// Those of the format and those of the buffer.
pub(crate) const ALL: &[Mutant] = &all();

const fn all() -> [Mutant; pmfs::mutant::ALL.len() + OWN.len()] {
    let mut all = [OWN[0]; pmfs::mutant::ALL.len() + OWN.len()];
    let (format, own) = all.split_at_mut(pmfs::mutant::ALL.len());
    format.copy_from_slice(&pmfs::mutant::ALL);
    own.copy_from_slice(&OWN);
    all
}
