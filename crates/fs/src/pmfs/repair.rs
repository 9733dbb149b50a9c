//! Repair of an image by what fsck found, in the manner of e2fsck: nothing that can still be read is given up.
//!
//! | violation | becomes right by |
//! |---|---|
//! | the copy of the superblock differs | copying the primary |
//! | mode of no known kind | a regular file, whose bytes are what was there |
//! | a pointer outside the image, or to a block that another inode has | a hole |
//! | counts of blocks and of links | what was counted |
//! | blocks beyond the size | the size that covers them |
//! | a time with an impossible fraction | the same second |
//! | attributes outside the image, shared or unsound | no attributes |
//! | a directory block whose records break off | the sound records before and behind the place |
//! | `.` or `..` missing at the beginning of a directory | written again; `..` leads to the directory that has its name |
//! | a name of a free inode | no name |
//! | a file without a name | `lost+found/#NUMBER` |
//! | the list of truncations | an empty one |
//! | what unmounting saved | nothing saved: the next mount scans |
//!
//! A superblock without a copy, an impossible journal, a root that is no directory, the inode table's own tree, and directories
//! without a name are not repaired. The image has been recovered before. Each step is a store of its own and may be done again:
//! a repair that is interrupted is repeated.

use std::ops::ControlFlow;
use std::sync::Arc;

use media::nvmm::Region;
use vfs::{Errno, FileKind, FileSystem, Ino, NewInode, Owner};
use zerocopy::{FromBytes, IntoBytes};

use super::dir::{Record, records};
use super::fsck::{examine, inode_offset};
use super::layout::{
    BLOCK, BLOCK_MAP_INO, BLOCK_SHIFT, FANOUT, INODE_SLOT, JOURNAL_DESCRIPTOR, JournalDescriptor,
    RECORD_HEADER, ROOT_INO, RawInode, RecordHeader, Superblock, TABLE_INODE, TRUNCATE_HEAD, record_len,
};
use super::map::Tree;
use super::namei::is_dir;
use super::recovery::damaged;
use super::superblock;
use super::vfs::Mounted;
use super::{Settings, Volume};
use base::error::{Error, Result};
use base::persist::attributes::blocks_of;
use base::persist::free_map::FreeMap;
use design::FsError;

/// What makes a violation right. Inodes by number, places by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    Copy,
    Regular(u64),
    Pointers(u64),
    Blocks(u64, u64),
    Links(u64, u32),
    Size(u64, u64),
    Times(u64),
    NoAttributes(u64),
    /// The block at this offset.
    Records(u64),
    Dots(u64),
    NoName {
        dir: u64,
        at: u64,
    },
    /// `..` of a directory, whose record lies at `at`.
    Parent {
        dir: u64,
        at: u64,
        parent: u64,
    },
    Lost(u64),
    TruncateList,
    SavedMap,
}

/// Most passes: a repair can show the next fault, which what it hid had hidden.
const PASSES: usize = 16;

/// Repairs an image that has been recovered; says what was done.
pub(crate) fn repair(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    let mut done = Vec::new();
    for _ in 0..PASSES {
        let (_, fixes) = examine(region);
        let lost: Vec<_> = fixes.iter().filter_map(lost_file).collect();
        let others = || fixes.iter().filter(|fix| lost_file(fix).is_none());
        if others().next().is_some() {
            // What unmounting saved speaks of what is being changed.
            forget_saved_map(region).map_err(damaged)?;
            for fix in others() {
                done.push(apply(region, *fix).map_err(damaged)?);
            }
        } else if lost.is_empty() {
            break;
        } else {
            done.extend(give_names(region, &lost)?);
        }
    }
    Ok(done)
}

fn lost_file(fix: &Fix) -> Option<u64> {
    if let Fix::Lost(number) = fix { Some(*number) } else { None }
}

fn apply(region: &Region, fix: Fix) -> Result<String> {
    let inode = |number, change: &dyn Fn(&mut RawInode), what: String| {
        change_inode(region, number, change)?;
        Ok(format!("inode {number}: {what}"))
    };
    match fix {
        Fix::Copy => {
            superblock::refresh_copy(region)?;
            Ok("superblock: the copy was made again".to_owned())
        }
        Fix::Regular(number) => {
            let regular =
                |raw: &mut RawInode| raw.mode = raw.mode & 0o7777 | FileKind::Regular.mode_bits() as u16;
            inode(number, &regular, "a regular file now".to_owned())
        }
        Fix::Blocks(number, blocks) => {
            inode(number, &|raw| raw.blocks = blocks as u32, format!("counts {blocks} blocks"))
        }
        Fix::Links(number, links) => {
            inode(number, &|raw| raw.links = links as u16, format!("has {links} links"))
        }
        Fix::Size(number, size) => inode(number, &|raw| raw.size = size, format!("has {size} bytes")),
        Fix::Times(number) => {
            let whole_seconds = |raw: &mut RawInode| {
                raw.ctime_extra &= 3;
                raw.mtime_extra &= 3;
                raw.atime_extra &= 3;
            };
            inode(number, &whole_seconds, "its times are whole seconds".to_owned())
        }
        Fix::NoAttributes(number) => {
            inode(number, &|raw| raw.xattr = 0, "its extended attributes are gone".to_owned())
        }
        Fix::Pointers(number) => prune(region, number),
        Fix::Records(at) => salvage(region, at),
        Fix::Dots(dir) => give_dots(region, dir),
        Fix::NoName { dir, at } => {
            put(region, at, &0_u64.to_le_bytes())?;
            Ok(format!("directory {dir}: a name of a free inode, or a second one of a directory, is gone"))
        }
        Fix::Parent { dir, at, parent } => {
            put(region, at, &parent.to_le_bytes())?;
            Ok(format!("directory {dir}: .. leads to {parent}"))
        }
        Fix::TruncateList => {
            put(region, TRUNCATE_HEAD + 8, &0_u64.to_le_bytes())?;
            Ok("the list of truncations is empty".to_owned())
        }
        Fix::SavedMap => Ok("what unmounting saved is forgotten: the next mount scans".to_owned()),
        Fix::Lost(number) => Ok(format!("inode {number}: still without a name")),
    }
}

fn put(region: &Region, at: u64, bytes: &[u8]) -> Result<()> {
    region.store(at, bytes)?;
    region.flush(at, bytes.len() as u64);
    region.fence();
    Ok(())
}

fn place_of(region: &Region, number: u64) -> Result<u64> {
    let table = region.read(TABLE_INODE)?;
    inode_offset(region, &table, number).ok_or_else(|| Error::Corrupt(format!("no inode {number}")))
}

fn change_inode(region: &Region, number: u64, change: &dyn Fn(&mut RawInode)) -> Result<()> {
    let at = place_of(region, number)?;
    let mut raw: RawInode = region.read(at)?;
    change(&mut raw);
    put(region, at, raw.as_bytes())
}

fn forget_saved_map(region: &Region) -> Result<()> {
    let mut superblock: Superblock = region.read(0)?;
    superblock.saved_extents = 0;
    superblock.store_fast_mount(region)?;
    region.flush(0, BLOCK);
    region.fence();
    change_inode(region, BLOCK_MAP_INO, &|raw| (raw.root, raw.height, raw.blocks) = (0, 0, 0))
}

/// The blocks that no inode but `number` has.
fn unused_by_others(region: &Region, number: u64) -> Result<FreeMap> {
    let superblock: Superblock = region.read(0)?;
    let descriptor: JournalDescriptor = region.read(JOURNAL_DESCRIPTOR)?;
    let mut unused = FreeMap::new(superblock.size / BLOCK);
    let first = (descriptor.base + u64::from(descriptor.size)) / BLOCK;
    (first..superblock.size / BLOCK).for_each(|block| {
        unused.put(block);
    });
    let table: RawInode = region.read(TABLE_INODE)?;
    let mut take = |raw: &RawInode| {
        let _ = Tree::of(raw).visit(region, &mut |visited| {
            let (first, blocks) = (visited.offset / BLOCK, 1 << (visited.shift - BLOCK_SHIFT));
            (first..first + blocks).for_each(|block| {
                unused.take(block);
            });
            Ok(())
        });
        take_attributes(region, raw, &mut unused);
    };
    take(&table);
    for other in (ROOT_INO..table.size.min(superblock.size)).step_by(INODE_SLOT as usize) {
        let raw = inode_offset(region, &table, other).and_then(|at| region.read::<RawInode>(at).ok());
        if let Some(raw) = raw.filter(|raw| other != number && other != BLOCK_MAP_INO && !raw.is_free()) {
            take(&raw);
        }
    }
    Ok(unused)
}

fn take_attributes(region: &Region, raw: &RawInode, unused: &mut FreeMap) {
    for block in blocks_of(region, raw.xattr).unwrap_or_default() {
        unused.take(block / BLOCK);
    }
}

/// Makes a hole of each pointer of an inode that leads nowhere, or to what another has.
fn prune(region: &Region, number: u64) -> Result<String> {
    let mut unused = unused_by_others(region, number)?;
    let at = place_of(region, number)?;
    let raw: RawInode = region.read(at)?;
    take_attributes(region, &raw, &mut unused);
    let tree = Tree::of(&raw);
    let mut holes = 0;
    if keeps(region, (tree, tree.height), raw.root, &mut unused) {
        prune_below(region, (tree, tree.height), raw.root, (&mut unused, &mut holes))?;
    } else {
        change_inode(region, number, &|raw| (raw.root, raw.height) = (0, 0))?;
        holes = 1;
    }
    Ok(format!("inode {number}: {holes} pointers became holes"))
}

/// Whether a pointer leads to a block that is its own; it is used then.
fn keeps(region: &Region, (tree, height): (Tree, u8), pointer: u64, unused: &mut FreeMap) -> bool {
    let shift = if height == 0 { tree.shift } else { BLOCK_SHIFT };
    let (first, blocks) = (pointer / BLOCK, 1_u64 << (shift - BLOCK_SHIFT));
    let inside =
        pointer.is_multiple_of(BLOCK) && pointer < region.len() && first + blocks <= region.len() / BLOCK;
    inside && (first..first + blocks).all(|block| unused.take(block))
}

fn prune_below(
    region: &Region,
    (tree, height): (Tree, u8),
    node: u64,
    (unused, holes): (&mut FreeMap, &mut u64),
) -> Result<()> {
    if height == 0 {
        return Ok(());
    }
    for slot in (0..FANOUT).map(|index| node + 8 * index) {
        let child = region.load_u64(slot)?;
        if child == 0 {
            continue;
        }
        if keeps(region, (tree, height - 1), child, unused) {
            prune_below(region, (tree, height - 1), child, (unused, holes))?;
        } else {
            put(region, slot, &0_u64.to_le_bytes())?;
            *holes += 1;
        }
    }
    Ok(())
}

/// Keeps the sound records of a directory block before and behind the place where they break off.
fn salvage(region: &Region, at: u64) -> Result<String> {
    let mut bytes = [0; BLOCK as usize];
    region.peek(at, &mut bytes)?;
    let (mut last, mut broken) = (0_u16, 0_u16);
    let _ = records(&bytes, |record| {
        (last, broken) = (record.start, record.start + record.header.rec_len);
        ControlFlow::<()>::Continue(())
    });
    let end = BLOCK as u16;
    if usize::from(broken) + RECORD_HEADER > usize::from(end) {
        // No record fits behind the last sound one: that one gets the rest.
        put(region, at + u64::from(last) + 8, &(end - last).to_le_bytes())?;
        return Ok(format!("directory block at {at}: its last record fills it"));
    }
    let from = broken + RECORD_HEADER as u16;
    let next = (from..end).step_by(4).find(|start| records_from(&bytes, *start)).unwrap_or(end);
    let gap = RecordHeader { ino: 0, rec_len: next - broken, name_len: 0, file_type: 0 };
    put(region, at + u64::from(broken), gap.as_bytes())?;
    Ok(format!("directory block at {at}: bytes {broken} to {next} were given up"))
}

/// Whether sound records fill the block from `start` to its end.
fn records_from(bytes: &[u8; BLOCK as usize], mut start: u16) -> bool {
    while u64::from(start) < BLOCK {
        match RecordHeader::read_from_prefix(&bytes[usize::from(start)..]) {
            Ok((header, _)) if header.is_sound(start) => start += header.rec_len,
            _ => return false,
        }
    }
    true
}

/// Writes `.` and `..` into the unused room at the beginning of a directory.
fn give_dots(region: &Region, dir: u64) -> Result<String> {
    let raw: RawInode = region.read(place_of(region, dir)?)?;
    let at = Tree::of(&raw).lookup(region, 0)?;
    let at = at.ok_or_else(|| Error::Corrupt(format!("directory {dir} has no first block")))?;
    let first: RecordHeader = region.read(at)?;
    let dot = record_len(1) as u16;
    let both = dot + record_len(2) as u16;
    let own = |rec_len| RecordHeader { ino: dir, rec_len, name_len: 1, file_type: 0 };
    if first.ino == 0 && first.rec_len >= both {
        let parent = RecordHeader {
            ino: parent_of(region, dir)?,
            rec_len: first.rec_len - dot,
            name_len: 2,
            file_type: 0,
        };
        put_record(region, at + u64::from(dot), parent, b"..")?;
        put_record(region, at, own(dot), b".")?;
    } else if first.ino == 0 && first.rec_len >= dot {
        put_record(region, at, own(first.rec_len), b".")?;
    } else {
        return Ok(format!("directory {dir}: no room for . and .."));
    }
    Ok(format!("directory {dir}: . and .. were written again"))
}

fn put_record(region: &Region, at: u64, header: RecordHeader, name: &[u8]) -> Result<()> {
    put(region, at + RECORD_HEADER as u64, name)?;
    put(region, at, header.as_bytes())
}

/// The directory that has a name of `dir`; the root, where none has.
fn parent_of(region: &Region, dir: u64) -> Result<u64> {
    let table: RawInode = region.read(TABLE_INODE)?;
    for number in (ROOT_INO..table.size.min(region.len())).step_by(INODE_SLOT as usize) {
        let Some(at) = inode_offset(region, &table, number) else { break };
        let raw: RawInode = region.read(at)?;
        if raw.is_free() || !is_dir(&raw) {
            continue;
        }
        for block in 0..raw.size.min(region.len()) / BLOCK {
            let Ok(Some(at)) = Tree::of(&raw).lookup(region, block) else { break };
            let mut bytes = [0; BLOCK as usize];
            region.peek(at, &mut bytes)?;
            let names = |record: Record<'_>| match record.header.ino == dir && !is_dot(record.name) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            if let Ok(Some(())) = records(&bytes, names) {
                return Ok(number);
            }
        }
    }
    Ok(ROOT_INO)
}

fn is_dot(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

/// Gives files without a name one in `lost+found`. Directories without one stay as they are.
fn give_names(region: &Arc<Region>, lost: &[u64]) -> Result<Vec<String>, FsError> {
    let mut files = Vec::new();
    for number in lost {
        let raw: RawInode = region.read(place_of(region, *number).map_err(damaged)?)?;
        if !is_dir(&raw) {
            change_inode(region, *number, &|raw| raw.links = raw.links.max(1)).map_err(damaged)?;
            files.push(*number);
        }
    }
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let volume = Volume::mount(region, Settings::for_recovery(true))?;
    let fs = Mounted(Arc::new(volume));
    let named = link_into_lost_found(&fs, &files)
        .map_err(|errno| damaged(Error::Corrupt(format!("lost+found cannot be filled: {}", errno.name()))));
    let unmounted = fs
        .unmount()
        .map_err(|errno| damaged(Error::Corrupt(format!("the image cannot be unmounted: {}", errno.name()))));
    unmounted.and(named)
}

fn link_into_lost_found(fs: &dyn FileSystem, files: &[u64]) -> vfs::Result<Vec<String>> {
    let name = b"lost+found";
    let dir = match fs.lookup(fs.root(), name) {
        Err(Errno::ENOENT) => {
            let new = NewInode { perm: 0o700, owner: Owner { uid: 0, gid: 0 } };
            fs.mkdir(fs.root(), name, &new)?.ino
        }
        found => found?.ino,
    };
    let mut named = Vec::new();
    for number in files {
        let name = format!("#{number}");
        match fs.link(Ino(*number), dir, name.as_bytes()) {
            Ok(_) | Err(Errno::EEXIST) => named.push(format!("inode {number}: is lost+found/{name} now")),
            Err(errno) => return Err(errno),
        }
    }
    Ok(named)
}
