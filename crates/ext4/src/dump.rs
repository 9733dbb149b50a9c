//! Parts of an image for people.

use std::io;
use std::sync::Arc;

use media::block::BlockDevice;

use super::{Settings, Volume, damaged};
use design::FsError;

/// What [`dump`] knows.
pub(crate) const PARTS: &[(&str, &str)] = &[
    ("superblock", "sizes, features, state"),
    ("groups", "where each group has its tables, and what is free"),
    ("inode N", "the fields of an inode, and its extents"),
    ("dir N", "the names of a directory"),
];

/// Describes a part.
pub(crate) fn dump(
    device: &Arc<dyn BlockDevice>,
    part: &str,
    out: &mut dyn io::Write,
) -> Result<(), FsError> {
    let volume = Volume::open(device, Settings { read_only: true, ..Settings::default() })?;
    let mut words = part.split_whitespace();
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
    match (words.next(), number(words.next())) {
        (Some("superblock"), None) => superblock(&volume, out),
        (Some("groups"), None) => groups(&volume, out),
        (Some("inode"), Some(number)) => inode(&volume, number, out),
        (Some("dir"), Some(number)) => directory(&volume, number, out),
        _ => {
            let known: Vec<_> = PARTS.iter().map(|(part, _)| *part).collect();
            Err(FsError::NoSuchPart { part: part.to_owned(), why: format!("there is {}", known.join(", ")) })
        }
    }
}

fn superblock(volume: &Volume, out: &mut dyn io::Write) -> Result<(), FsError> {
    let sb = volume.superblock.lock().clone();
    let geo = &volume.geo;
    writeln!(out, "blocks        {} of {} bytes in {} groups", geo.blocks, geo.block_bytes, geo.groups)?;
    writeln!(out, "inodes        {} of {} bytes", geo.inodes(), geo.inode_bytes)?;
    let features = (sb.feature_compat.get(), sb.feature_incompat.get(), sb.feature_ro_compat.get());
    writeln!(
        out,
        "features      compat {:#x}, incompat {:#x}, ro_compat {:#x}",
        features.0, features.1, features.2
    )?;
    writeln!(out, "state         {:#x}", sb.state.get())?;
    writeln!(out, "journal       inode {}", sb.journal_inum.get())?;
    writeln!(out, "last orphan   {}", sb.last_orphan.get())?;
    let (blocks, inodes) = (sb.free_blocks_count_lo.get(), sb.free_inodes_count.get());
    Ok(writeln!(out, "free          {blocks} blocks, {inodes} inodes")?)
}

fn groups(volume: &Volume, out: &mut dyn io::Write) -> Result<(), FsError> {
    let descriptors = volume.groups.lock().descriptors.clone();
    for (number, group) in descriptors.iter().enumerate() {
        writeln!(
            out,
            "group {number}: bitmaps {} {}, table {}, free blocks {}, inodes {}, directories {}, flags {:#x}",
            group.block_bitmap(),
            group.inode_bitmap(),
            group.inode_table(),
            group.free_blocks(),
            group.free_inodes(),
            group.used_dirs(),
            group.flags.get()
        )?;
    }
    Ok(())
}

fn inode(volume: &Volume, number: u64, out: &mut dyn io::Write) -> Result<(), FsError> {
    let inode = volume.inode(number).map_err(damaged)?;
    let state = inode.state.read();
    let raw = &state.raw;
    writeln!(out, "mode {:o}, links {}, flags {:#x}", raw.mode.get(), raw.links.get(), raw.flags.get())?;
    writeln!(
        out,
        "size {}, sectors {}, generation {}",
        raw.size(),
        state.sectors(volume.geo.block_bytes),
        raw.generation.get()
    )?;
    writeln!(out, "owner {}:{}, attributes in block {}", raw.uid(), raw.gid(), raw.file_acl())?;
    if state.has_map(volume) {
        for (index, run, unwritten) in volume.extents(&inode, &state).map_err(damaged)? {
            let note = if unwritten { " unwritten" } else { "" };
            writeln!(out, "  {index}+{} at {}{note}", run.count, run.first)?;
        }
    }
    Ok(())
}

fn directory(volume: &Volume, number: u64, out: &mut dyn io::Write) -> Result<(), FsError> {
    let inode = volume.inode(number).map_err(damaged)?;
    let state = inode.state.read();
    let mut names = Vec::new();
    volume
        .read_dir(&inode, &state, 0, &mut |entry| {
            names.push((entry.ino, entry.kind, entry.name.to_vec()));
            true
        })
        .map_err(damaged)?;
    for (ino, kind, name) in names {
        writeln!(out, "{ino} {kind:?} {}", String::from_utf8_lossy(&name))?;
    }
    Ok(())
}
