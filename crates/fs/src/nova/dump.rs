//! Showing an image to people.

use std::io::Write;

use media::nvmm::Region;

use super::dir::read_name;
use super::inode::replay;
use super::journal;
use super::layout::{
    BLOCK, CLEAN, Geometry, INODE_BYTES, NEVER_MOUNTED, NOTHING_SAVED, RawInode, Superblock, state, unpack,
};
use super::log::{Entry, Reader};
use super::recovery::{chunks, read_saved};
use super::superblock;
use super::xattr::attributes_of;
use base::error::Result;
use design::FsError;

/// What can be shown.
pub(crate) const PARTS: &[(&str, &str)] = &[
    ("superblock", "the superblock that mounting would use, and whether the image is clean"),
    ("journal", "the words that each journal would put back"),
    ("shards", "the inode table of each shard"),
    ("inode N", "inode number N, its attributes and its blocks"),
    ("log N", "the entries of the log of inode N"),
    ("dir N", "the names in directory N"),
];

/// Writes `part` of an image to `out`.
pub(crate) fn dump(region: &Region, part: &str, out: &mut dyn Write) -> Result<(), FsError> {
    let (superblock, from_copy) = superblock::load(region)?;
    let geometry = Geometry::of(&superblock);
    let mut words = part.split_whitespace();
    match (words.next(), words.next().map(str::parse::<u64>)) {
        (Some("superblock"), None) => dump_superblock(region, &superblock, from_copy, out),
        (Some("journal"), None) => dump_journals(region, &geometry, out),
        (Some("shards"), None) => dump_shards(region, &geometry, out),
        (Some("inode"), Some(Ok(number))) => dump_inode(region, &geometry, number, out),
        (Some("log"), Some(Ok(number))) => dump_log(region, &geometry, number, out),
        (Some("dir"), Some(Ok(number))) => dump_dir(region, &geometry, number, out),
        _ => {
            let known: Vec<_> = PARTS.iter().map(|(name, _)| *name).collect();
            Err(FsError::NoSuchPart {
                part: part.to_owned(),
                why: format!("there are: {}", known.join(", ")),
            })
        }
    }
}

fn dump_superblock(
    region: &Region,
    superblock: &Superblock,
    from_copy: bool,
    out: &mut dyn Write,
) -> Result<(), FsError> {
    if from_copy {
        writeln!(out, "(the primary is bad; this is the copy)")?;
    }
    writeln!(out, "format version  {}", superblock.version)?;
    writeln!(out, "size            {} ({})", superblock.size, sim::Bytes(superblock.size))?;
    writeln!(out, "shards          {}", superblock.shards)?;
    writeln!(out, "log page        {}", superblock.log_bytes)?;
    writeln!(out, "inode chunk     {}", superblock.chunk_bytes)?;
    match region.load_u64(CLEAN)? {
        0 => writeln!(out, "state           mounted, or not unmounted")?,
        NEVER_MOUNTED => writeln!(out, "state           clean; it was never mounted")?,
        NOTHING_SAVED => writeln!(out, "state           clean; there was no room to save what is free")?,
        at => match read_saved(region, &Geometry::of(superblock), at) {
            Ok(Some(saved)) => {
                let (blocks, inodes) = (saved.blocks.len(), saved.inodes.len());
                writeln!(
                    out,
                    "state           clean: {blocks} ranges of free blocks, {inodes} of inodes, at {at}"
                )?;
            }
            _ => writeln!(out, "state           clean, but what was saved at {at} is damaged")?,
        },
    }
    Ok(())
}

fn dump_journals(region: &Region, geometry: &Geometry, out: &mut dyn Write) -> Result<(), FsError> {
    for shard in 0..geometry.shards {
        match journal::unfinished(region, geometry, shard) {
            Ok(words) if words.is_empty() => writeln!(out, "shard {shard}: empty")?,
            Ok(words) => {
                writeln!(out, "shard {shard}: {} words", words.len())?;
                for (at, old) in words {
                    writeln!(out, "  {at:>12}  {old:#018x}")?;
                }
            }
            Err(error) => writeln!(out, "shard {shard}: {error}")?,
        }
    }
    Ok(())
}

fn dump_shards(region: &Region, geometry: &Geometry, out: &mut dyn Write) -> Result<(), FsError> {
    for shard in 0..geometry.shards {
        match chunks(region, geometry, shard) {
            Ok(chunks) => writeln!(out, "shard {shard}: inode chunks at {chunks:?}")?,
            Err(error) => writeln!(out, "shard {shard}: {error}")?,
        }
    }
    Ok(())
}

/// Inode `number` as it lies on the medium.
fn raw_inode(region: &Region, geometry: &Geometry, number: u64) -> Result<RawInode, FsError> {
    let part = || format!("inode {number}");
    let (shard, slot) = (number % geometry.shards, number / geometry.shards);
    let chunks = chunks(region, geometry, shard)
        .map_err(|error| FsError::NoSuchPart { part: part(), why: error.to_string() })?;
    let chunk =
        chunks.get((slot / geometry.slots_per_chunk()) as usize).ok_or_else(|| FsError::NoSuchPart {
            part: part(),
            why: format!("its shard has {} inodes", chunks.len() as u64 * geometry.slots_per_chunk()),
        })?;
    Ok(region.read(chunk + slot % geometry.slots_per_chunk() * INODE_BYTES)?)
}

fn dump_inode(region: &Region, geometry: &Geometry, number: u64, out: &mut dyn Write) -> Result<(), FsError> {
    let raw = raw_inode(region, geometry, number)?;
    let shown = match raw.state() {
        state::FREE => "free",
        state::LIVE => "live",
        state::ORPHAN => "without a name",
        _ => "in an impossible state",
    };
    writeln!(out, "inode {number}, {shown}, generation {}", raw.generation())?;
    writeln!(out, "log: head {}  tail {}", raw.head, raw.tail)?;
    if raw.state() == state::FREE {
        return Ok(());
    }
    let loaded = match replay(region, geometry, number, &raw) {
        Ok(loaded) => loaded,
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(());
        }
    };
    let facts = &loaded.facts;
    writeln!(out, "mode {:o}  links {}  uid {}  gid {}", facts.mode, facts.links, facts.uid, facts.gid)?;
    writeln!(out, "size {}  blocks {}", facts.size, loaded.blocks.mapped())?;
    let time = |word: u64| format!("{}.{:09}", unpack(word).secs, unpack(word).nanos);
    writeln!(out, "ctime {}  mtime {}  atime {}", time(facts.ctime), time(facts.mtime), time(facts.atime))?;
    for page in &loaded.log.pages {
        writeln!(out, "  log page at {}: {} live, {} pinned", page.page * BLOCK, page.live, page.pinned)?;
    }
    let mut lines = Vec::new();
    let mut page = 0;
    while let Some((found, place)) = loaded.blocks.next_mapped(page) {
        lines.push(format!("  page {found} at {}", place.block() * BLOCK));
        page = found + 1;
    }
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    match attributes_of(region, facts) {
        Ok(attributes) => {
            for record in attributes.iter() {
                let name = String::from_utf8_lossy(record.name);
                writeln!(out, "  {name}: {} bytes", record.value.len())?;
            }
        }
        Err(error) => writeln!(out, "  {error}")?,
    }
    Ok(())
}

fn dump_log(region: &Region, geometry: &Geometry, number: u64, out: &mut dyn Write) -> Result<(), FsError> {
    let raw = raw_inode(region, geometry, number)?;
    let told = Reader::new(region, geometry, number, (raw.head, raw.tail)).map(|mut reader| {
        loop {
            match reader.next() {
                Ok(Some((at, entry))) => writeln!(out, "{at:>12}  {}", describe(&entry))?,
                Ok(None) => return Ok(()),
                Err(error) => return writeln!(out, "{error}"),
            }
        }
    });
    match told {
        Ok(told) => Ok(told?),
        Err(error) => Ok(writeln!(out, "{error}")?),
    }
}

fn describe(entry: &Entry) -> String {
    match entry {
        Entry::Write(write) if write.block == 0 => {
            format!("hole   pages {}+{}  size {}", write.first, write.pages, write.size)
        }
        Entry::Write(write) => {
            format!("write  pages {}+{} at {}  size {}", write.first, write.pages, write.block, write.size)
        }
        Entry::Set(set) => format!(
            "set    mask {:#x}  mode {:o}  uid {}  gid {}  size {}",
            set.mask, set.mode, set.uid, set.gid, set.size
        ),
        Entry::Links(links) => format!("links  {}", links.links),
        Entry::Name(header, name) => {
            let shown = String::from_utf8_lossy(name.as_bytes()).into_owned();
            match header.ino {
                0 => format!("name   {shown} goes, {} links", header.links),
                ino => format!("name   {shown} leads to {ino}, {} links", header.links),
            }
        }
    }
}

fn dump_dir(region: &Region, geometry: &Geometry, number: u64, out: &mut dyn Write) -> Result<(), FsError> {
    let raw = raw_inode(region, geometry, number)?;
    let no_dir = || FsError::NoSuchPart {
        part: format!("dir {number}"),
        why: "that inode is not a directory".to_owned(),
    };
    if raw.state() != state::LIVE {
        return Err(no_dir());
    }
    let loaded = match replay(region, geometry, number, &raw) {
        Ok(loaded) if loaded.facts.is_dir() => loaded,
        Ok(_) => return Err(no_dir()),
        Err(error) => return Ok(writeln!(out, "{error}")?),
    };
    writeln!(out, "  inode {:<8} ..", loaded.names.parent)?;
    let (mut slot, mut bytes) = (0, [0; 256]);
    while let Some((found, known)) = loaded.names.next_from(slot) {
        slot = found + 1;
        let shown = match read_name(region, known.at, &mut bytes) {
            Ok(len) => String::from_utf8_lossy(&bytes[..len]).into_owned(),
            Err(error) => error.to_string(),
        };
        writeln!(out, "  inode {:<8} {shown}", known.ino)?;
    }
    Ok(())
}
