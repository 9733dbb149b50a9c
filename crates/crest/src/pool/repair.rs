//! Repair of an image by what fsck finds. What can still be read is kept, but for the records of a zone whose word is lost: whether
//! they still count, or were left there when the zone was freed, cannot be told.
//!
//! | violation | becomes right by |
//! |---|---|
//! | a damaged copy of the superblock or of a word | the other copy |
//! | a word of which both copies are damaged | a free zone |
//! | records that are missing in a zone | copies of what is left of it, and a free zone: the loss is accepted |
//! | lines that had to be computed from parity | copies of what is live in their zone, and a free zone, zeroed: nothing is lost |
//! | a name that leads to no inode, or is in no directory | its removal |
//! | a name of two inodes | another name for the one that had it first, with a number behind it, as e2fsck(8) does |
//! | a saved index that is damaged, or that differs from the logs | the logs: it is void |
//!
//! Not repaired: a superblock of which both copies are damaged, a root that is lost, and what only a bug writes: blocks that two
//! files have, circles of directories. fsck names them.

use std::collections::BTreeSet;
use std::sync::Arc;

use design::FsError;
use media::nvmm::Region;

use super::Settings;
use super::build::build;
use super::fsck::check;
use super::loaded::{Loaded, load};
use super::saved::{Saved, look};
use crate::calls::Volume;
use crate::calls::namei::{self, removal};
use crate::damaged;
use crate::format::layout::ROOT_INO;
use crate::format::mutant::Rules;
use crate::format::tree::Name;
use crate::format::zone::{Damage, Use, Want, Word};
use crate::index::inode::now;
use crate::store::damage::Losses;
use crate::store::zone_table::{self, is_named, make_equal, make_void};
use base::error::Result;

/// Repairs an image; says what was done.
pub(crate) fn repair(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    let mut done = match load(region, Rules::ALL) {
        Ok(loaded) => make_equal(region, &loaded)?,
        Err(FsError::Damaged { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    done.extend(void_saved(region)?);
    let loaded = load(region, Rules::ALL)?;
    done.extend(free_words(region, &loaded)?);
    let loaded = load(region, Rules::ALL)?;
    if loaded.tree.unborn.contains(&ROOT_INO) {
        return Ok(done);
    }
    let volume = build(region, &loaded, &Settings::default(), Losses::default());
    done.extend(mend(&volume, &loaded).map_err(damaged)?);
    Ok(done)
}

/// Makes a saved index void, unless all is well.
fn void_saved(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    let table = zone_table::load(region)?;
    let (zones, violations) = (table.saved_zones(), check(region).violations);
    let differs = violations.iter().find(|violation| violation.predicate == "image_agrees");
    let why = match look(region, &table, false) {
        Saved::Damaged(why) => Some(why),
        Saved::Whole(_) | Saved::None => differs.map(|violation| violation.what.clone()),
    };
    // What a repair changes may lie where the index does.
    let is_in_the_way = !violations.is_empty() && (is_named(region) || !zones.is_empty());
    if why.is_some() || is_in_the_way {
        make_void(region, &table.geometry, &zones).map_err(damaged)?;
    }
    Ok(why.into_iter().map(|why| format!("{why}: it is void now")).collect())
}

/// Makes zones free whose words are lost.
fn free_words(region: &Region, loaded: &Loaded) -> Result<Vec<String>, FsError> {
    let mut done = Vec::new();
    let lost = loaded.words.iter().zip(0..).filter(|(word, _)| word.is_none());
    for (_, zone) in lost {
        for at in loaded.geometry.words_at(zone) {
            region.store_u64(at, Word { usage: Use::Free, shard: 0, opening: 0 }.pack(zone))?;
            region.flush(at, 8);
        }
        region.fence();
        done.push(format!("zone {zone} is free: what it was used for is lost"));
    }
    Ok(done)
}

/// Names that may stand for one that is taken: with a number behind it.
fn others(name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0u32..).map(move |number| {
        let number = format!("~{number}").into_bytes();
        [&name[..name.len().min(255 - number.len())], &number].concat()
    })
}

fn mend(volume: &Volume, loaded: &Loaded) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let tree = &loaded.tree;
    let leads = |name: &&Name| [name.ino, name.dir].iter().all(|ino| tree.inodes.get(*ino).is_some());
    let time = now();
    for Name { dir, ino, add, name, .. } in tree.names.iter().filter(|name| !leads(name)) {
        drop(volume.commit_names(Want::Removals, time, &[removal(*dir, *ino, *add)])?);
        done.push(format!("directory {dir}: the name {} of inode {ino} is gone", name.escape_ascii()));
    }
    let mut given = BTreeSet::new();
    for Name { dir, ino, add, name, .. } in tree.names_twice().into_iter().filter(leads) {
        let is_free = |new: &Vec<u8>| tree.look_up(*dir, new).is_none() && given.insert((*dir, new.clone()));
        let Some(new) = others(name).find(is_free) else { continue };
        let items = [removal(*dir, *ino, *add), namei::add(1, *dir, *ino, &new)];
        drop(volume.commit_names(Want::Removals, time, &items)?);
        let (name, new) = (name.escape_ascii(), new.escape_ascii());
        done.push(format!(
            "directory {dir}: {name} of inode {ino}, a name that another has, too, is {new} now"
        ));
    }
    let mut zones: BTreeSet<u32> = loaded.log.damage.iter().map(Damage::zone).collect();
    zones.extend(loaded.log.computed.iter().map(|computed| computed.zone));
    if !zones.is_empty() {
        volume.evacuate(&zones)?;
        // A line that cannot be read is sound again when all of it is written, which a file in its zone may never do.
        let logs = volume.zones.log_zones();
        for zone in zones.iter().filter(|zone| logs.iter().all(|log| log.zone != **zone)) {
            volume.region.nt_zero(volume.geometry.zone_at(*zone), volume.geometry.zone_bytes)?;
        }
        volume.region.fence();
        done.extend(loaded.log.computed.iter().map(|one| format!("emptied: {}", one.describe())));
        let accepted = loaded.log.damage.iter().map(|damage| format!("accepted: {damage}"));
        done.extend(accepted);
    }
    Ok(done)
}
