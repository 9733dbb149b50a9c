//! Showing an image to people.

use std::io::Write;
use std::ops::ControlFlow;

use media::nvmm::Region;
use vfs::Timestamp;

use super::dir::records;
use super::fsck::inode_offset;
use super::layout::{
    BLOCK, ENTRY, INODE_BYTES, JOURNAL_DESCRIPTOR, JournalDescriptor, LogEntry, NOTHING_SAVED, RawInode,
    Superblock, TABLE_INODE, TruncateItem, entry,
};
use super::map::Tree;
use super::superblock;
use super::truncate::read_list;
use super::xattr::attributes_of;
use base::error::Error;
use design::FsError;

/// What can be shown.
pub(crate) const PARTS: &[(&str, &str)] = &[
    ("superblock", "the superblock that mounting would use"),
    ("journal", "the descriptor, and the entries between head and tail"),
    ("truncates", "the list of unfinished truncations and removals"),
    ("inode N", "inode number N, its attributes and its blocks"),
    ("dir N", "the records of directory N"),
];

/// Writes `part` of an image to `out`.
pub(crate) fn dump(region: &Region, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
    let (superblock, from_copy) = superblock::load(region)?;
    let mut words = part.split_whitespace();
    match (words.next(), words.next().map(str::parse::<u64>)) {
        (Some("superblock"), None) => dump_superblock(&superblock.with_dynamic_of(region), from_copy, out),
        (Some("journal"), None) => dump_journal(region, superblock.size, out),
        (Some("truncates"), None) => dump_truncates(region, out),
        (Some("inode"), Some(Ok(number))) => dump_inode(region, number, out),
        (Some("dir"), Some(Ok(number))) => dump_dir(region, number, out),
        _ => {
            let known: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
            Err(FsError::NoSuchPart {
                part: part.to_owned(),
                why: format!("there are: {}", known.join(", ")),
            })
        }
    }
}

fn dump_superblock(superblock: &Superblock, from_copy: bool, out: &mut dyn Write) -> Result<(), FsError> {
    if from_copy {
        writeln!(out, "(the primary is bad; this is the redundant copy)")?;
    }
    writeln!(out, "format version  {}", superblock.version)?;
    writeln!(out, "size            {} ({})", superblock.size, sim::Bytes(superblock.size))?;
    writeln!(out, "block size      {}", superblock.block_size)?;
    writeln!(out, "checksum        {:#06x}", superblock.checksum)?;
    writeln!(out, "mount time      {}", superblock.mount_time)?;
    writeln!(out, "write time      {}", superblock.write_time)?;
    match superblock.saved_extents {
        0 => writeln!(out, "block map       not saved: mounted, or not unmounted cleanly")?,
        NOTHING_SAVED => writeln!(out, "block map       not saved: there was no room for it")?,
        extents => writeln!(out, "block map       saved, {extents} extents")?,
    }
    writeln!(out, "free blocks     {} (at the last unmount)", superblock.free_blocks)?;
    writeln!(out, "inodes          {} used, {} free", superblock.inodes_used, superblock.inodes_free)?;
    Ok(())
}

fn dump_journal(region: &Region, image: u64, out: &mut dyn Write) -> Result<(), FsError> {
    let descriptor: JournalDescriptor = region.read(JOURNAL_DESCRIPTOR)?;
    if let Some(fault) = superblock::journal_fault(&descriptor, image) {
        writeln!(out, "{fault}")?;
        return Ok(());
    }
    let JournalDescriptor { base, size, head, tail, generation, .. } = descriptor;
    writeln!(out, "base {base}  size {size}  head {head}  tail {tail}  generation {generation}")?;
    let mut at = head;
    while at != tail {
        let logged: LogEntry = region.read(base + u64::from(at))?;
        if logged.generation == generation || logged.generation.wrapping_add(1) == generation {
            let kind = match logged.kind & !entry::START {
                entry::COMMIT => "commit",
                entry::ABORT => "abort",
                _ => "data",
            };
            let LogEntry { transaction, target, len, generation, .. } = logged;
            writeln!(
                out,
                "{at:>8}  tx {transaction:<6} gen {generation:<5} {kind:<6} {len} bytes of {target}"
            )?;
        }
        at = (at + ENTRY as u32) % size;
    }
    Ok(())
}

fn dump_truncates(region: &Region, out: &mut dyn Write) -> Result<(), FsError> {
    let table: RawInode = region.read(TABLE_INODE)?;
    let offset_of = |number| {
        inode_offset(region, &table, number).ok_or_else(|| Error::Corrupt(format!("no inode {number}")))
    };
    match read_list(region, &offset_of) {
        Ok(list) => {
            for number in list {
                let item: TruncateItem = region.read(offset_or(region, number)? + INODE_BYTES)?;
                writeln!(out, "inode {number}: to have size {}", item.size)?;
            }
        }
        Err(error) => writeln!(out, "the list cannot be followed: {error}")?,
    }
    Ok(())
}

fn offset_or(region: &Region, number: u64) -> Result<u64, FsError> {
    let table: RawInode = region.read(TABLE_INODE)?;
    inode_offset(region, &table, number).ok_or_else(|| FsError::NoSuchPart {
        part: format!("inode {number}"),
        why: format!("inode numbers are multiples of 128 below {}", table.size),
    })
}

fn dump_inode(region: &Region, number: u64, out: &mut dyn Write) -> Result<(), FsError> {
    let raw: RawInode = region.read(offset_or(region, number)?)?;
    writeln!(out, "inode {number}{}", if raw.is_free() { " (free)" } else { "" })?;
    writeln!(
        out,
        "mode {:o}  links {}  uid {}  gid {}  generation {}",
        raw.mode, raw.links, raw.uid, raw.gid, raw.generation
    )?;
    writeln!(out, "size {}  blocks {}  flags {:#x}", raw.size, raw.blocks, raw.flags)?;
    if raw.is_free() {
        writeln!(out, "freed in second {}", raw.ctime_extra)?;
    } else {
        let shown = |time: Timestamp| format!("{}.{:09}", time.secs, time.nanos);
        let times = [raw.ctime(), raw.mtime(), raw.atime()].map(shown);
        writeln!(out, "ctime {}  mtime {}  atime {}", times[0], times[1], times[2])?;
        dump_attributes(region, &raw, out)?;
    }
    writeln!(
        out,
        "tree: root {}  height {}  data blocks of {}",
        raw.root,
        raw.height,
        sim::Bytes(1 << raw.block_shift())
    )?;
    let mut lines = Vec::new();
    let walked = Tree::of(&raw).visit(region, &mut |visited| {
        match visited.block {
            Some(block) => lines.push(format!("  block {block} at {}", visited.offset)),
            None => lines.push(format!("  node at {}", visited.offset)),
        }
        Ok(())
    });
    for line in lines {
        writeln!(out, "{line}")?;
    }
    if let Err(error) = walked {
        writeln!(out, "  the tree cannot be walked further: {error}")?;
    }
    Ok(())
}

fn dump_attributes(region: &Region, raw: &RawInode, out: &mut dyn Write) -> Result<(), FsError> {
    match attributes_of(region, raw) {
        Ok(attributes) if raw.xattr != 0 => {
            writeln!(out, "attributes in blocks at {:?}", attributes.blocks())?;
            for record in attributes.iter() {
                let name = String::from_utf8_lossy(record.name);
                writeln!(out, "  {name}: {} bytes", record.value.len())?;
            }
        }
        Ok(_) => {}
        Err(error) => writeln!(out, "  {error}")?,
    }
    Ok(())
}

fn dump_dir(region: &Region, number: u64, out: &mut dyn Write) -> Result<(), FsError> {
    let raw: RawInode = region.read(offset_or(region, number)?)?;
    if !super::namei::is_dir(&raw) {
        return Err(FsError::NoSuchPart {
            part: format!("dir {number}"),
            why: "that inode is not a directory".to_owned(),
        });
    }
    for block in 0..raw.size.min(region.len()) / BLOCK {
        let at = Tree::of(&raw).lookup(region, block).ok().flatten();
        let Some(at) = at else {
            writeln!(out, "block {block}: missing")?;
            break;
        };
        let mut bytes = [0; BLOCK as usize];
        region.peek(at, &mut bytes)?;
        writeln!(out, "block {block} at {at}")?;
        let mut lines = Vec::new();
        let walked = records(&bytes, |record| {
            let name = String::from_utf8_lossy(record.name).into_owned();
            let (ino, rec_len) = (record.header.ino, record.header.rec_len);
            lines.push(format!("  {:>4} +{rec_len:<4} inode {ino:<8} {name}", record.start));
            ControlFlow::<()>::Continue(())
        });
        for line in lines {
            writeln!(out, "{line}")?;
        }
        if let Err(error) = walked {
            writeln!(out, "  {error}")?;
        }
    }
    Ok(())
}
