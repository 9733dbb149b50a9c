//! Parts of an image, for people.

use std::io::Write;

use design::FsError;
use media::nvmm::Region;

use crate::damaged;
use crate::layout::{RawInode, time_of};
use crate::recovery::{Scan, scan};
use crate::superblock;

/// The parts that can be shown, each with what it says.
pub(crate) const PARTS: &[(&str, &str)] = &[
    ("superblock", "size, inodes, whether it was unmounted; where the regions lie"),
    ("inode N", "the fields of an inode, and its pages"),
    ("dir N", "the dentries of a directory, those of unfinished calls, too"),
    ("pages", "every page that is not free, with its owner"),
];

/// Writes a part of an image.
pub(crate) fn dump(region: &Region, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
    let mut words = part.split_whitespace();
    match (words.next(), words.next().map(str::parse::<u64>)) {
        (Some("superblock"), None) => {
            let (superblock, layout) = superblock::load(region).map_err(damaged)?;
            writeln!(out, "{superblock:#?}\n{layout:#?}")?;
        }
        (Some("pages"), None) => {
            for (page, raw) in &scan(region).map_err(damaged)?.descriptors {
                writeln!(out, "{page}: {raw:?}")?;
            }
        }
        (Some("inode"), Some(Ok(number))) => {
            let scan = scan(region).map_err(damaged)?;
            let raw = scan
                .inodes
                .get(&number)
                .ok_or_else(|| no_part(part, "the inode is free, or there is none"))?;
            inode(&scan, number, raw, out)?;
        }
        (Some("dir"), Some(Ok(number))) => {
            let scan = scan(region).map_err(damaged)?;
            if !scan.dirs.contains_key(&number) {
                return Err(no_part(part, "it is no directory"));
            }
            for (at, raw) in scan.dentries(number) {
                let name = String::from_utf8_lossy(raw.name());
                writeln!(
                    out,
                    "{at}: \"{name}\" inode {} directory {} source {}",
                    raw.ino, raw.is_dir, raw.source
                )?;
            }
        }
        _ => return Err(no_part(part, "there are superblock, inode N, dir N, pages")),
    }
    Ok(())
}

fn inode(scan: &Scan, number: u64, raw: &RawInode, out: &mut dyn Write) -> Result<(), FsError> {
    writeln!(out, "{raw:#?}")?;
    for (name, word) in [("atime", raw.atime), ("mtime", raw.mtime), ("ctime", raw.ctime)] {
        writeln!(out, "{name} {:?}", time_of(word))?;
    }
    for (page, raw) in scan.descriptors.iter().filter(|(_, page)| page.owner == number) {
        writeln!(out, "page {page} at {}: offset {}", scan.layout.page(*page), raw.offset)?;
    }
    Ok(())
}

fn no_part(part: &str, why: &str) -> FsError {
    FsError::NoSuchPart { part: part.to_owned(), why: why.to_owned() }
}
