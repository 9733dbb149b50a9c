//! What a mount reads: the superblock, the table of zones, every record; and what it makes of them in DRAM.
//!
//! A mount writes no record. It makes the copies of the superblock equal, and those of the words of the table, before it answers
//! the first call: what was seen must not change with a later loss of one copy.
//!
//! It does not mark its reads as those of a recovery, of which a lint wants that the crash has guaranteed them (L8): records, words
//! and superblocks have checks of their own, which tell what is whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use design::{FsError, Violation};
use media::nvmm::Region;

use super::Settings;
use super::build::{build, build_from_saved};
use super::fsck;
use super::loaded::{load, load_sieved};
use super::saved::{Saved, look};
use crate::ablation::Without;
use crate::calls::Volume;
use crate::format::mutant::{self, Rules};
use crate::format::record::AddId;
use crate::store::damage::Losses;
use crate::store::zone_table::{self, is_named, make_equal, make_void};
use crate::{NAME, damaged};

/// Makes the copies of superblock and words equal in a sound image; says what was done. A saved index stays.
pub(crate) fn recover(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    let loaded = load(region, Rules::ALL)?;
    refuse(&fsck::violations(&loaded))?;
    make_equal(region, &loaded)
}

/// Mounts a sound image, from its saved index if that counts, which is void from then on.
pub(crate) fn mount(region: &Arc<Region>, settings: &Settings) -> Result<Arc<Volume>, FsError> {
    let (table, rules) = (zone_table::load(region)?, settings.rules);
    let mut losses = Losses::default();
    let trusts = rules.lacks(mutant::IMAGE_NOT_VOIDED);
    let saved = if settings.without == Without::Saved { Saved::None } else { look(region, &table, trusts) };
    let is_named = is_named(region) || matches!(saved, Saved::Damaged(_));
    let zones = table.saved_zones();
    let from_saved = match saved {
        Saved::Whole(saved) => build_from_saved(region, &table, settings, saved),
        Saved::Damaged(why) => {
            losses.note(format!("{why}; the mount has read the logs instead, and nothing is lost"));
            None
        }
        Saved::None => None,
    };
    let volume = if let Some(volume) = from_saved {
        volume
    } else {
        let loaded = load_sieved(region, table, rules)?;
        refuse(&fsck::violations(&loaded))?;
        make_equal(region, &loaded)?;
        losses.note_computed(&loaded.log.computed);
        build(region, &loaded, settings, losses)
    };
    if (is_named || !zones.is_empty()) && !trusts {
        make_void(region, &volume.geometry, &zones).map_err(damaged)?;
    }
    Ok(Arc::new(volume))
}

/// Mounts an image for reading alone, also one that is damaged, as far as there is something to show. Stores nothing.
pub(crate) fn mount_for_reading(region: &Arc<Region>, settings: &Settings) -> Result<Arc<Volume>, FsError> {
    let mut loaded = load(region, settings.rules)?;
    let mut losses = match &*fsck::violations(&loaded) {
        [] => Losses::default(),
        violations => Losses::of(&loaded.tree.unborn, violations)
            .map_err(|what| FsError::Damaged { design: NAME, what })?,
    };
    // A directory shows the later of two names.
    let twice: BTreeSet<AddId> = loaded.tree.names_twice().into_iter().map(|name| name.add).collect();
    loaded.tree.names.retain(|name| !twice.contains(&name.add));
    losses.note_computed(&loaded.log.computed);
    Ok(Arc::new(build(region, &loaded, settings, losses)))
}

fn refuse(violations: &[Violation]) -> Result<(), FsError> {
    let Some(first) = violations.first() else { return Ok(()) };
    let more = violations.len() - 1;
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let what = format!("{}{more}; `weir mount crest POOL DIR -o ro` shows what is whole", first.what);
    Err(FsError::Damaged { design: NAME, what })
}
