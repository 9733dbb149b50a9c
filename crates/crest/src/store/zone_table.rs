//! The superblock with the table of zones, and the word that names a saved index (`format/saved.rs`).

use design::FsError;
use media::nvmm::Region;

use super::alloc::Zones;
use super::superblock;
use crate::format::clean::Present;
use crate::format::layout::{Geometry, Superblock};
use crate::format::mutant::Rules;
use crate::format::saved::SAVED_WORD;
use crate::format::zone::{Use, Word};
use base::error::Result;

/// The superblock and the table of zones.
pub(crate) struct Table {
    pub(crate) superblock: Superblock,
    pub(crate) geometry: Geometry,
    /// The word of each zone; none: both copies are damaged.
    pub(crate) words: Vec<Option<Word>>,
    /// Zones whose copies of the word differ.
    pub(crate) differ: Vec<u32>,
}

impl Table {
    /// The log zones.
    pub(crate) fn present(&self) -> Vec<Present> {
        let words = self.words.iter().zip(0..);
        let logs = words.filter_map(|(word, zone)| {
            word.filter(|word| word.usage == Use::Log).map(|word| (zone, word.opening))
        });
        logs.map(|(zone, opening)| Present { zone, opening, freed: false }).collect()
    }

    /// The zones of saved indexes, whether they count or not.
    pub(crate) fn saved_zones(&self) -> Vec<u32> {
        let words = self.words.iter().zip(0..);
        let saved = words.filter(|(word, _)| word.is_some_and(|word| word.usage == Use::Saved));
        saved.map(|(_, zone)| zone).collect()
    }

    /// The zones of the pool, without blocks. `frames`: those that may be dirty.
    pub(crate) fn zones(&self, frames: u64, rules: Rules) -> Zones {
        let zones = Zones::new(self.geometry, self.superblock.shards as usize, frames, rules);
        for (word, zone) in self.words.iter().zip(0..) {
            match word {
                Some(Word { usage: Use::Log, opening, .. }) => zones.set_log(zone, *opening),
                // What a saved index has taken is free when the pool is mounted.
                Some(Word { usage: Use::Free | Use::Saved, .. }) => {}
                _ => zones.set_bad(zone),
            }
        }
        zones
    }
}

/// Reads the superblock and the table of zones.
pub(crate) fn load(region: &Region) -> Result<Table, FsError> {
    let superblock = superblock::load(region)?;
    let geometry = Geometry::of(&superblock);
    let (mut words, mut differ) = (Vec::new(), Vec::new());
    for zone in 0..geometry.zones {
        // A word that cannot be read is one with a wrong check.
        let copies = geometry.words_at(zone).map(|at| region.load_u64(at).unwrap_or(0));
        let decided = Word::decide(zone, copies);
        words.push(decided.map(|(word, _)| word));
        if decided.is_some_and(|(_, differ)| differ) {
            differ.push(zone);
        }
    }
    Ok(Table { superblock, geometry, words, differ })
}

/// Makes the copies of the superblock and of the words equal; says what was done.
pub(crate) fn make_equal(region: &Region, loaded: &Table) -> Result<Vec<String>, FsError> {
    let mut done = Vec::new();
    if superblock::differ(region) {
        superblock::store(region, &loaded.superblock, false)?;
        done.push("the copies of the superblock are equal again".to_owned());
    }
    for zone in &loaded.differ {
        let Some(word) = loaded.words.get(*zone as usize).copied().flatten() else { continue };
        for at in loaded.geometry.words_at(*zone) {
            region.store_u64(at, word.pack(*zone))?;
            region.flush(at, 8);
        }
    }
    if !loaded.differ.is_empty() {
        region.fence();
        done.push(format!("the copies of the words of {} zones are equal again", loaded.differ.len()));
    }
    Ok(done)
}

/// Makes the saved word void, and the zones of saved indexes free; durable on return.
pub(crate) fn make_void(region: &Region, geometry: &Geometry, zones: &[u32]) -> Result<()> {
    region.store_u64(SAVED_WORD, 0)?;
    region.flush(SAVED_WORD, 8);
    region.fence();
    let free = Word::default();
    for zone in zones {
        for at in geometry.words_at(*zone) {
            region.store_u64(at, free.pack(*zone))?;
            region.flush(at, 8);
        }
    }
    if !zones.is_empty() {
        region.fence();
    }
    Ok(())
}

/// Whether the saved word says that there is a saved index, or may do so.
pub(crate) fn is_named(region: &Region) -> bool {
    region.load_u64(SAVED_WORD).is_ok_and(|word| word != 0)
}
