//! Repair of an image by what fsck finds: nothing that can still be read is given up.
//!
//! | violation | becomes right by |
//! |---|---|
//! | `superblock`, one copy | the other one; a damaged word of the last unmount: none |
//! | `containers` | no second bit |
//! | `packages` that cannot be read | zeros |
//! | `numbers` above those of the last unmount | no such word |
//! | `unlinks` | zeros |
//! | `data` | of two files with a block the older DATA, of a file with one that cannot be its the DATA is dropped |
//! | `names` that cannot be, circles | `lost+found/#INODE.NUMBER` |
//!
//! Not repaired: two packages with one number, two births of one inode number, an image without a root. fsck names them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::vfs::FileKind;
use media::nvmm::Region;

use crate::fsck::{names_of, wrong_data};
use crate::inode::now;
use crate::layout::{BLOCK, Kind, ROOT};
use crate::mkfs::set_bit;
use crate::mutant::Rules;
use crate::package::{Attributes, Create, Package, Place};
use crate::recovery::{Loaded, load};
use crate::superblock;
use base::error::{Error, Result};

/// Most passes: a repair can show the next fault.
const PASSES: usize = 16;

/// Repairs an image; says what was done.
pub(crate) fn repair(region: &Arc<Region>) -> Result<Vec<String>> {
    let mut done = mend_superblock(region)?;
    for _ in 0..PASSES {
        let loaded = match load(region, Rules::default()) {
            Err(Error::Corrupt(_)) => break,
            loaded => loaded?,
        };
        let more = mend(region, &loaded)?;
        region.fence();
        if more.is_empty() {
            break;
        }
        done.extend(more);
    }
    Ok(done)
}

fn mend_superblock(region: &Region) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let sound = [0, BLOCK].map(|copy| superblock::read(region, copy).is_ok());
    if sound.contains(&true) && sound.contains(&false) {
        superblock::store(region)?;
        region.fence();
        done.push("superblock: restored from its copy".to_owned());
    }
    if sound.contains(&true) && superblock::saved(region).is_err() {
        superblock::save(region, None)?;
        done.push("superblock: the word of the last unmount is gone".to_owned());
    }
    Ok(done)
}

fn erase(region: &Region, kind: Kind, place: Place) -> Result<()> {
    region.nt_zero(place, kind.bytes())?;
    Ok(())
}

/// One pass.
fn mend(region: &Region, loaded: &Loaded) -> Result<Vec<String>> {
    let mut done = Vec::new();
    for (kind, block) in &loaded.wrong_bits {
        set_bit(region, &loaded.geometry, (*kind, *block), false)?;
        done.push(format!("block {block} is no container of kind {kind:?}"));
    }
    for (kind, place) in &loaded.unreadable {
        erase(region, *kind, *place)?;
        done.push(format!("the package at byte {place}, which could not be read, is gone"));
    }
    if loaded
        .saved
        .is_some_and(|saved| loaded.found.values().any(|package| package.largest(Rules::default()) >= saved))
    {
        superblock::save(region, None)?;
        done.push("superblock: the word of the last unmount is gone".to_owned());
    }
    for (place, package) in &loaded.found {
        if let Package::Unlink(unlink) = package
            && (!unlink.hides.is_multiple_of(Kind::Create.bytes())
                || !loaded.geometry.holds(unlink.hides / BLOCK))
        {
            erase(region, Kind::Unlink, *place)?;
            done.push(format!("the UNLINK at byte {place}, which hides nothing, is gone"));
        }
    }
    for (what, vtail) in wrong_data(loaded) {
        if let Some((place, _)) = loaded.found.iter().find(|(_, package)| package.vtail() == vtail) {
            erase(region, Kind::Data, *place)?;
            done.push(format!("{what}: its DATA at byte {place} is gone"));
        }
    }
    if done.is_empty() {
        mend_names(region, loaded, &mut done)?;
    }
    Ok(done)
}

/// Gives new names to what has one that cannot be, and to one directory of each circle.
fn mend_names(region: &Region, loaded: &Loaded, done: &mut Vec<String>) -> Result<()> {
    let (mut tree, wrong) = names_of(loaded);
    if !tree.is_dir(u64::from(ROOT)) {
        return Ok(());
    }
    let mut lost: Vec<Place> = wrong.into_iter().map(|(place, _)| place).collect();
    lost.extend(tree.take_second_names().into_iter().map(|(_, _, place)| place));
    for dir in tree.circles() {
        lost.extend(tree.take_names(dir, false).into_iter().map(|(_, _, place)| place));
    }
    if lost.is_empty() {
        return Ok(());
    }
    let dir = lost_and_found(region, loaded)?;
    let in_dir = creates(loaded).filter(|create| create.parent == dir);
    let taken: BTreeSet<&[u8]> = in_dir.map(|create| create.name.as_slice()).collect();
    let mut numbers = 0_u64..;
    for place in lost {
        let Some(create) = loaded.create(place) else { continue };
        let mut names = numbers.by_ref().map(|number| format!("#{}.{number}", create.key.0));
        let Some(name) = names.find(|name| !taken.contains(name.as_bytes())) else { continue };
        // In its place: a crash on the way leaves neither, and the next repair finds nothing of it. With its number: the UNLINKs
        // of its rename name that, and what is newer says other attributes.
        let moved = Create { parent: dir, name: name.clone().into_bytes(), ..create.clone() };
        region.nt_store(place, &Package::Create(moved).encode(Rules::default()))?;
        done.push(format!("inode {}: is lost+found/{name} now", create.key.0));
    }
    superblock::save(region, None)
}

/// The CREATEs that count.
fn creates(loaded: &Loaded) -> impl Iterator<Item = &Create> {
    loaded.merged.files.values().flat_map(|file| &file.names).filter_map(|place| loaded.create(*place))
}

/// The directory `lost+found`, which is made when there is none.
fn lost_and_found(region: &Region, loaded: &Loaded) -> Result<u32> {
    let is_lost_and_found = |create: &&Create| create.parent == ROOT && create.name == b"lost+found";
    if let Some(found) = creates(loaded).find(is_lost_and_found) {
        return Ok(found.key.0);
    }
    let places = loaded.containers.iter().filter(|(_, kind)| **kind == Kind::Create);
    let mut free = places
        .flat_map(|(block, kind)| kind.places(*block))
        .filter(|place| !loaded.found.contains_key(place));
    let place = free.next().ok_or(Error::NoSpace)?;
    let number = loaded.merged.files.keys().map(|key| key.0).max().unwrap_or(ROOT) + 1;
    let (vtail, now) = (loaded.merged.next, now());
    let mode = FileKind::Directory.mode_bits() | 0o700;
    let create = Create {
        vtail,
        key: (number, vtail as u32),
        parent: ROOT,
        name: b"lost+found".to_vec(),
        attributes: Attributes { mode, uid: 0, gid: 0, atime: now, mtime: now, ctime: now },
        rdev: 0,
        changed: now,
        renamed: false,
    };
    region.nt_store(place, &Package::Create(create).encode(Rules::default()))?;
    region.fence();
    Ok(number)
}
