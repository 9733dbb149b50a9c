//! The parts of a record that must be kept, as the state in DRAM tells it to which the records have led.
//!
//! `clean.rs` decides the same from all records; here one is enough, with questions about the objects that it names. The state is
//! that of all calls that have returned, and may be asked for one part after the other.
//!
//! | part | is live if the state says |
//! |---|---|
//! | name | the directory has the name, by this add |
//! | birth, target | the inode is there |
//! | mode and owner; size | the value is that of the inode, and the record is no older than the last change, or cut |
//! | attribute | the value is that of the inode |
//! | a time | its stamp is that of the inode, or the state is ahead of what is durable |
//! | an extent's block | the file has this place, written or unwritten as here, by this record |
//! | an Inline | the block has bytes beside its place |
//! | a removal of a name | another zone may have a copy of the add |
//! | Cut, Hole, removal of an attribute | the inode is there, and another zone was opened before its `before` |
//!
//! A value may come back: mode A, then B, then A. Then the first record is taken for live, too. It says what was true at its id,
//! and what superseded it then is present as long as it must be: the record in force equals the state, and so is live itself; a
//! cut or a hole that hides both waits for the zones of both. So such a *false hit* only keeps. A part that is in force is never
//! missed, because the state was changed by the same record.

use std::slice::from_ref;

use super::inline::Inline;
use super::layout::{item, times};
use super::record::{AddId, Body, Create, Extent, Extents, Item, Names, Record, Write};

/// An inode, as it is asked for what it has.
pub trait Object {
    /// Permission bits, user, group; and the logical time of the last record that set them, or 0 where that is not known.
    fn owner(&self) -> ((u16, u32, u32), u64);
    /// Bytes of a file, as the records say; and the logical time of the last cut, or 0. From there on sizes only grow.
    fn size(&self) -> (u64, u64);
    /// Whether one of these times (bits of [`times`]) was set with this stamp, or may have been, where DRAM is ahead of the
    /// records.
    fn holds(&self, times: u8, stamp: u64) -> bool;
    /// Where a block of a file lies, and whether it reads as zeros; and the low bits of the logical time of the record that says
    /// so, or 0 where that is not known.
    fn place(&self, block: u64) -> Option<((u64, bool), u32)>;
    /// Whether records have bytes of a block of a file.
    fn has_bytes(&self, block: u64) -> bool;
    /// The value of an attribute, and the logical time of the record that set it, or 0 where that is not known.
    fn attribute(&self, name: &[u8]) -> Option<(&[u8], u64)>;
    /// The add of a name of a directory.
    fn add_of(&self, name: &[u8]) -> Option<AddId>;
}

/// The pool, but for the zone of the record.
pub trait Known {
    /// Asks an inode; none: it is not there.
    fn ask<R>(&self, ino: u64, question: impl FnOnce(&dyn Object) -> R) -> Option<R>;
    /// Whether a zone may have a copy of this add, live or dead.
    fn has_copy(&self, add: AddId) -> bool;
    /// Whether a zone is present that was opened before this opening.
    fn has_older(&self, before: u64) -> bool;
}

const DATA_TIMES: u8 = times::MTIME | times::CTIME;

/// The copy of a record: its live parts, under its id. None: it has none. Records of zones (Open, Void) have none.
pub fn live(record: &Record, known: &impl Known) -> Option<Record> {
    let body = match &record.body {
        Body::Open(_) | Body::Void(_) => None,
        Body::Create(create) => live_create(record, create, known).map(Body::Create),
        Body::Names(names) => live_names(record, names, known).map(Body::Names),
        Body::Write(write) => {
            known.ask(write.ino, |file| live_write(record, write, file)).flatten().map(Body::Write)
        }
        Body::Inline(inline) => known.ask(inline.ino, |file| live_inline(inline, file)).flatten(),
        whole => is_live(record, known).then(|| whole.clone()),
    };
    body.map(|body| Record { id: record.id, part: record.part, group: 0, batch: 0, body })
}

/// Whether a record must be kept of which nothing can be left out.
fn is_live(record: &Record, known: &impl Known) -> bool {
    let asks = |ino: u64, question: &dyn Fn(&dyn Object) -> bool| known.ask(ino, question) == Some(true);
    match &record.body {
        Body::Cut(cut) => asks(cut.ino, &|file| {
            known.has_older(cut.before)
                || holds_size(record, cut.size, file)
                || file.holds(DATA_TIMES, cut.time)
        }),
        Body::Hole(hole) => {
            asks(hole.ino, &|file| known.has_older(hole.before) || file.holds(DATA_TIMES, hole.time))
        }
        Body::Owner(owner) => asks(owner.ino, &|inode| {
            let (value, since) = inode.owner();
            value == (owner.mode & 0o7777, owner.uid, owner.gid) && record.id.time() >= since
                || inode.holds(times::CTIME, owner.time)
        }),
        Body::Times(set) => asks(set.ino, &|inode| inode.holds(set.mask, set.stamp)),
        Body::Xattr(xattr) => asks(xattr.ino, &|inode| {
            let stays = match xattr.removed {
                true => known.has_older(xattr.before),
                false => inode
                    .attribute(&xattr.name)
                    .is_some_and(|(value, since)| value == &*xattr.value && record.id.time() >= since),
            };
            stays || inode.holds(times::CTIME, xattr.time)
        }),
        _ => false,
    }
}

fn live_create(record: &Record, create: &Create, known: &impl Known) -> Option<Create> {
    let is_born = known.ask(create.ino, |_| ()).is_some();
    // A name leads to an inode that is there.
    let named = is_born && !create.name.is_empty();
    let asked = known.ask(create.dir, |dir| {
        let named = named && dir.add_of(&create.name) == Some((record.id, 0));
        (named, dir.holds(DATA_TIMES, create.time))
    });
    let (named, sets_times) = asked.unwrap_or_default();
    (is_born || sets_times).then(|| {
        let mut copy = create.clone();
        if !named {
            copy.name.clear();
        }
        copy
    })
}

fn live_names(record: &Record, names: &Names, known: &impl Known) -> Option<Names> {
    let live = |item: &Item| live_item(record, item, names.time, known);
    let items: Vec<_> = names.items.iter().filter_map(live).collect();
    (!items.is_empty()).then_some(Names { time: names.time, items })
}

fn live_item(record: &Record, item: &Item, time: u64, known: &impl Known) -> Option<Item> {
    let asked = known.ask(item.dir, |dir| {
        let named = item.adds() && dir.add_of(&item.name) == Some((record.id, item.index));
        (named, item.what & item::DIR != 0 && dir.holds(DATA_TIMES, time))
    });
    let (named, dir_time) = asked.unwrap_or_default();
    let mut what = item.what;
    if !named {
        what &= !item::ADD;
    }
    if item.removes() && !known.has_copy((item.added, item.index)) {
        what &= !item::REMOVE;
    }
    let stays = what & (item::ADD | item::REMOVE) != 0
        || dir_time
        || item.what & item::INODE != 0
            && known.ask(item.ino, |inode| inode.holds(times::CTIME, time)) == Some(true);
    stays.then(|| Item {
        what,
        name: if named { item.name.clone() } else { Vec::new() },
        ..Item { name: Vec::new(), ..*item }
    })
}

fn holds_size(record: &Record, bytes: u64, file: &dyn Object) -> bool {
    let (size, since) = file.size();
    size == bytes && record.id.time() >= since
}

fn live_write(record: &Record, write: &Write, file: &dyn Object) -> Option<Write> {
    let size = write.size.filter(|size| holds_size(record, *size, file));
    let time = write.time.filter(|time| file.holds(DATA_TIMES, *time));
    let extents: Extents =
        write.extents.iter().flat_map(|extent| live_extents(record, extent, file)).collect();
    let is_live = size.is_some() || time.is_some() || !extents.is_empty();
    is_live.then_some(Write { ino: write.ino, extents, size, time })
}

/// A record with bytes of a block keeps all of them if it may hold some, or else its time.
fn live_inline(inline: &Inline, file: &dyn Object) -> Option<Body> {
    if file.has_bytes(inline.block) {
        return Some(Body::Inline(inline.clone()));
    }
    let time = inline.time.filter(|time| file.holds(DATA_TIMES, *time));
    time.is_some().then_some(Body::Write(Write {
        ino: inline.ino,
        extents: Extents::new(),
        size: None,
        time,
    }))
}

/// The parts of an extent whose blocks the file still has at their places.
fn live_extents(record: &Record, extent: &Extent, file: &dyn Object) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for at in 0..extent.count {
        let (block, place) = (extent.file + u64::from(at), extent.place + u64::from(at));
        let Some((known, by)) = file.place(block) else { continue };
        if known != (place, extent.unwritten) || by != 0 && by != record.id.time() as u32 {
            continue;
        }
        let sum = extent.checksums.get(usize::from(at)).map_or(&[][..], from_ref);
        match runs.last_mut() {
            Some(run) if run.file + u64::from(run.count) == block => {
                run.count += 1;
                run.checksums.extend_from_slice(sum);
            }
            _ => runs.push(Extent { file: block, place, count: 1, checksums: sum.to_vec(), ..*extent }),
        }
    }
    runs
}
