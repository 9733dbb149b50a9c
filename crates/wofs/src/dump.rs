//! Parts of an image, for people.

use std::io::Write;

use design::FsError;
use media::nvmm::Region;

use crate::format::damaged;
use crate::layout::{BLOCK, Geometry};
use crate::mutant::Rules;
use crate::recovery::load;
use crate::superblock;

/// The parts that can be shown, and what they say.
pub(crate) const PARTS: &[(&str, &str)] = &[
    ("superblock", "size, regions, number saved by the last unmount"),
    ("containers", "containers with their kinds and packages"),
    ("packages", "every package, by place"),
    ("inode N", "what the packages of an inode come to"),
];

/// Writes a part of an image.
pub(crate) fn dump(region: &Region, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
    let mut words = part.split_whitespace();
    match (words.next(), words.next().map(str::parse::<u32>)) {
        (Some("superblock"), None) => {
            let found =
                superblock::read(region, 0).or_else(|_| superblock::read(region, BLOCK)).map_err(damaged)?;
            writeln!(out, "{found:?}\n{:?}", Geometry::of(region.len()))?;
            writeln!(out, "saved: {:?}", superblock::saved(region).map_err(damaged)?)?;
        }
        (Some("containers"), None) => {
            let loaded = load(region, Rules::default()).map_err(damaged)?;
            for (block, kind) in &loaded.containers {
                let whole = kind.places(*block).filter(|place| loaded.found.contains_key(place)).count();
                writeln!(out, "block {block}: {kind:?}, {whole} of {} places", BLOCK / kind.bytes())?;
            }
        }
        (Some("packages"), None) => {
            let loaded = load(region, Rules::default()).map_err(damaged)?;
            for (place, package) in &loaded.found {
                let hidden = if loaded.merged.hidden.contains(place) { " (hidden)" } else { "" };
                writeln!(out, "{place}: {package:?}{hidden}")?;
            }
        }
        (Some("inode"), Some(Ok(ino))) => {
            let loaded = load(region, Rules::default()).map_err(damaged)?;
            let mut files = loaded.merged.files.iter().filter(|(key, _)| key.0 == ino).peekable();
            if files.peek().is_none() {
                return Err(no_part(part, "no package counts for that number"));
            }
            for (key, file) in files {
                writeln!(out, "birth {}: {file:#?}", key.1)?;
            }
        }
        _ => return Err(no_part(part, "there are superblock, containers, packages, inode N")),
    }
    Ok(())
}

fn no_part(part: &str, why: &str) -> FsError {
    FsError::NoSuchPart { part: part.to_owned(), why: why.to_owned() }
}
