//! Parts of an image, for people.

use std::io::Write;
use std::sync::Arc;

use design::FsError;
use media::nvmm::Region;

use super::loaded::{Loaded, load};
use super::saved::{Saved, look};
use crate::format::mutant::Rules;
use crate::format::tree::Slot;
use crate::format::zone::Use;
use crate::index::inode::unpack;
use crate::index::sharing::Sharing;

/// What can be shown, and what it says.
pub(crate) const PARTS: &[(&str, &str)] = &[
    ("superblock", "sizes, shards, and what is reserved"),
    ("zones", "the log zones with their openings and records"),
    ("inode N", "inode number N, its attributes and its blocks"),
    ("dir N", "the names in directory N"),
    ("log N", "the records of zone N"),
    ("image", "the saved index: whether it counts, and what it has of each inode"),
];

/// Writes a part of an image.
pub(crate) fn dump(region: &Arc<Region>, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
    let loaded = load(region, Rules::ALL)?;
    let mut words = part.split_whitespace();
    match (words.next(), words.next().map(str::parse::<u64>)) {
        (Some("superblock"), None) => writeln!(out, "{:#?}", loaded.superblock)?,
        (Some("zones"), None) => dump_zones(&loaded, out)?,
        (Some("inode"), Some(Ok(ino))) => dump_inode(&loaded, ino, out)?,
        (Some("dir"), Some(Ok(ino))) => dump_dir(&loaded, ino, out)?,
        (Some("image"), None) => dump_saved(region, &loaded, out)?,
        (Some("log"), Some(Ok(zone))) => dump_log(&loaded, zone, out)?,
        _ => {
            let known: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
            return Err(no_part(part, format!("there are: {}", known.join(", "))));
        }
    }
    Ok(())
}

fn no_part(part: &str, why: String) -> FsError {
    FsError::NoSuchPart { part: part.to_owned(), why }
}

fn dump_zones(loaded: &Loaded, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{} zones of {} bytes", loaded.geometry.zones, loaded.geometry.zone_bytes)?;
    for (word, zone) in loaded.words.iter().zip(0..) {
        let Some(word) = word.filter(|word| word.usage == Use::Log) else { continue };
        let end = loaded.log.ends.iter().find(|end| end.0 == zone).map_or(0, |end| end.2);
        let (shard, opening) = (word.shard, word.opening);
        let parity = if loaded.log.with_parity.contains(&zone) { ", with parity" } else { "" };
        writeln!(out, "zone {zone}: log of shard {shard}, opening {opening}, ends at line {end}{parity}")?;
    }
    Ok(())
}

fn dump_saved(region: &Arc<Region>, loaded: &Loaded, out: &mut dyn Write) -> std::io::Result<()> {
    let saved = match look(region, loaded, false) {
        Saved::None => return writeln!(out, "there is no saved index that counts"),
        Saved::Damaged(why) => return writeln!(out, "{why}"),
        Saved::Whole(saved) => saved,
    };
    writeln!(out, "{} zones, {:?}", loaded.saved_zones().len(), saved.head)?;
    let cold = saved.cold(Sharing::default());
    for ino in cold.numbers() {
        match cold.entry(ino) {
            Some(entry) => writeln!(out, "{entry:?}")?,
            None => writeln!(out, "inode {ino} cannot be read")?,
        }
    }
    Ok(())
}

fn dump_inode(loaded: &Loaded, ino: u64, out: &mut dyn Write) -> Result<(), FsError> {
    let missing = || no_part(&format!("inode {ino}"), "no name leads to it".to_owned());
    let inode = loaded.tree.inodes.get(ino).ok_or_else(missing)?;
    let (mode, uid, gid) = inode.owner.value;
    writeln!(out, "mode {mode:o}, owner {uid}:{gid}, {} names, {} bytes", inode.links, inode.bytes())?;
    for (what, time) in [("accessed", inode.atime), ("modified", inode.mtime), ("changed", inode.ctime)] {
        let time = unpack(time.value.value);
        writeln!(out, "{what} {}.{:09}", time.secs, time.nanos)?;
    }
    for name in inode.xattrs.iter().filter(|(_, held)| held.value.is_some()).map(|(name, _)| name) {
        writeln!(out, "attribute {}", name.escape_ascii())?;
    }
    for (file, held) in inode.blocks.in_order() {
        if let Slot::Block { place, unwritten, .. } = held.value {
            writeln!(out, "block {file}: {place}{}", if unwritten { ", unwritten" } else { "" })?;
        }
        for patch in inode.patches.get(&file).into_iter().flatten() {
            let range = patch.value.range();
            writeln!(out, "bytes {} to {} of block {file}: in a record", range.start, range.end)?;
        }
    }
    Ok(())
}

fn dump_dir(loaded: &Loaded, dir: u64, out: &mut dyn Write) -> std::io::Result<()> {
    let mut names: Vec<_> = loaded.tree.names.iter().filter(|name| name.dir == dir).collect();
    names.sort_unstable_by_key(|name| &name.name);
    for name in names {
        writeln!(out, "{} {}", name.ino, name.name.escape_ascii())?;
    }
    Ok(())
}

fn dump_log(loaded: &Loaded, zone: u64, out: &mut dyn Write) -> std::io::Result<()> {
    for found in loaded.log.records.iter().filter(|found| u64::from(found.zone) == zone) {
        writeln!(out, "line {}: {:?}", found.line, found.record)?;
    }
    Ok(())
}
