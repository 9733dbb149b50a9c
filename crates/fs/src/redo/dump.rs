//! Parts of an image, for people.

use std::io::Write;

use design::FsError;
use media::nvmm::Region;

use super::format::damaged;
use super::recovery::load;
use super::superblock;

/// What can be shown, and what it says.
pub(super) const PARTS: &[(&str, &str)] = &[
    ("superblock", "size, active half"),
    ("log", "checkpoint, tail and number of records of the active half"),
    ("inode N", "an inode with its names or blocks"),
];

/// Writes a part of an image.
pub(super) fn dump(region: &Region, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
    let mut words = part.split_whitespace();
    match (words.next(), words.next().map(str::parse::<u64>)) {
        (Some("superblock"), None) => writeln!(out, "{:#?}", superblock::load(region).map_err(damaged)?)?,
        (Some("log"), None) => {
            let loaded = load(region).map_err(damaged)?;
            writeln!(out, "half {}: {:?}, {} records", loaded.active, loaded.header, loaded.records)?;
        }
        (Some("inode"), Some(Ok(ino))) => {
            let loaded = load(region).map_err(damaged)?;
            let inode = loaded.state.inode(ino).map_err(|error| no_part(part, &error.to_string()))?;
            writeln!(out, "{inode:#?}")?;
        }
        _ => return Err(no_part(part, "there are superblock, log, inode N")),
    }
    Ok(())
}

fn no_part(part: &str, why: &str) -> FsError {
    FsError::NoSuchPart { part: part.to_owned(), why: why.to_owned() }
}
