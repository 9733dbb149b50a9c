//! Records that say nothing any more because later ones say all of it anew.
//!
//! A mount asks a log for the tree alone, which `merge.rs` makes of records in the order of their ids. Where files are overwritten,
//! and attributes set again and again, most of the log is of inodes that live and yet dead, and a mount does not keep it in memory:
//!
//! | record | is superseded if records with larger ids are here that |
//! |---|---|
//! | `Write` | give each of its blocks a place |
//! | `Inline` | give its block a place, or have all of its bytes |
//! | `Xattr` | set or remove the same attribute |
//! | each of these | and one of them sets the times of the inode to no earlier ones, if it sets them |
//! | a `Write` with a size | and one of them makes the file at least as long |
//!
//! These others stay: of each block and attribute it is the record with the largest id that supersedes those before it, and none
//! that it sets anew is set by a later one. What lies between, a cut or a hole, is undone by the later one where it matters: the
//! block gets its place, and the size is raised, after it. Copies have one id, and supersede each other in nothing.
//!
//! That is not what a cleaner asks, which has to know in which zone something waits.
//!
//! Memory: a byte for each record, and a table of what is set more than once.

use std::hash::{BuildHasher, Hash};
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::inline::{Inline, covers};
use super::mutant::{self, Rules};
use super::record::{Body, Id, Record, Write, Xattr};
use super::zone::Found;

/// Blocks of a write, at most: others are kept, and supersede nothing, so that the table stays small.
const BLOCKS_MAX: u64 = 16;

/// Something of an inode that a record sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part<'a> {
    Block(u64, u64),
    Attribute(u64, &'a [u8]),
}

/// The last record that sets something: all of it, but for the bytes of an `Inline`.
#[derive(Clone, Debug, Default)]
struct Last {
    id: Id,
    /// Bytes of the block, of an `Inline`.
    bytes: Option<Range<usize>>,
    time: Option<u64>,
    size: Option<u64>,
}

/// The parts of an inode that a record sets and later ones may set again; none of one that is always kept.
fn parts(record: &Record) -> impl Iterator<Item = Part<'_>> {
    let (write, one): (Option<&Write>, _) = match &record.body {
        Body::Write(write) => (Some(write), None),
        Body::Inline(Inline { ino, block, .. }) => (None, Some(Part::Block(*ino, *block))),
        Body::Xattr(Xattr { ino, name, .. }) => (None, Some(Part::Attribute(*ino, name))),
        _ => (None, None),
    };
    let write = write.filter(|write| {
        write.extents.iter().map(|extent| u64::from(extent.count)).sum::<u64>() <= BLOCKS_MAX
    });
    let blocks = write.into_iter().flat_map(|write| {
        let blocks = write.extents.iter().flat_map(|it| it.file..it.file + u64::from(it.count));
        blocks.map(|block| Part::Block(write.ino, block))
    });
    blocks.chain(one)
}

/// A record as it supersedes those before it.
fn as_last(record: &Record) -> Last {
    let (bytes, time, size) = match &record.body {
        Body::Write(write) => (None, write.time, write.size),
        Body::Inline(inline) => (Some(inline.patch.range()), inline.time, None),
        Body::Xattr(xattr) => (None, Some(xattr.time), None),
        _ => (None, None, None),
    };
    Last { id: record.id, bytes, time, size }
}

/// Parts that more than one record sets, and a few others: two bits of a filter for each.
struct Often {
    seen: Vec<[u64; 2]>,
}

impl Often {
    fn of(found: &[Found]) -> Self {
        let words = found.len().div_ceil(16).next_power_of_two();
        let mut often = Self { seen: vec![[0; 2]; words] };
        for part in found.iter().flat_map(|found| parts(&found.record)) {
            let (word, bit) = often.place(&part);
            let [once, twice] = &mut often.seen[word];
            *twice |= *once & bit;
            *once |= bit;
        }
        often
    }

    fn place(&self, part: &Part<'_>) -> (usize, u64) {
        let hash = rustc_hash::FxBuildHasher.hash_one(part);
        ((hash >> 6) as usize & (self.seen.len() - 1), 1 << (hash & 63))
    }

    fn is_empty(&self) -> bool {
        self.seen.iter().all(|[_, twice]| *twice == 0)
    }

    fn has(&self, part: &Part<'_>) -> bool {
        let (word, bit) = self.place(part);
        self.seen[word][1] & bit != 0
    }
}

/// Drops the records that are superseded by others of these, in whatever order they are.
pub fn drop_superseded(found: &mut Vec<Found>, rules: Rules) {
    let is_dead: Vec<bool> = {
        let often = Often::of(found);
        if often.is_empty() {
            return;
        }
        let mut last: FxHashMap<Part<'_>, Last> = FxHashMap::default();
        for Found { record, .. } in &*found {
            for part in parts(record).filter(|part| often.has(part)) {
                let known = last.entry(part).or_default();
                let is_later = known.id < record.id || rules.lacks(mutant::SUPERSEDED_BY_EARLIER);
                if is_later && is_whole(record, known) {
                    *known = as_last(record);
                }
            }
        }
        found.iter().map(|found| is_superseded(&found.record, &last, &often, rules)).collect()
    };
    let mut at = 0;
    found.retain(|_| {
        at += 1;
        !is_dead[at - 1]
    });
}

/// Whether a record takes the place of the last one that is known: an `Inline` does not that of one with more bytes of the block.
fn is_whole(record: &Record, known: &Last) -> bool {
    match &record.body {
        Body::Inline(inline) => {
            known.id == Id::default()
                || known.bytes.as_ref().is_some_and(|known| covers(&inline.patch.range(), known))
        }
        _ => true,
    }
}

fn is_superseded(record: &Record, last: &FxHashMap<Part<'_>, Last>, often: &Often, rules: Rules) -> bool {
    let own = as_last(record);
    let later = |part: &Part<'_>| {
        let later = last.get(part).filter(|_| often.has(part))?;
        let is_later =
            later.id > record.id || later.id < record.id && rules.lacks(mutant::SUPERSEDED_BY_EARLIER);
        let has_bytes = match (&later.bytes, &own.bytes) {
            (Some(all), Some(bytes)) => covers(all, bytes),
            // Bytes of a block are not all of it.
            (Some(_), None) => rules.lacks(mutant::SUPERSEDED_BY_BYTES),
            (None, _) => true,
        };
        (is_later && has_bytes).then_some((later.time, later.size))
    };
    let (mut some, mut all) = (false, true);
    let mut sets_times = own.time.is_none() || rules.lacks(mutant::SUPERSEDED_TIMES);
    let mut sets_size = own.size.is_none() || rules.lacks(mutant::SUPERSEDED_SIZE);
    for part in parts(record) {
        let Some((time, size)) = later(&part) else {
            all = false;
            continue;
        };
        some = true;
        sets_times |= time >= own.time;
        sets_size |= size >= own.size;
    }
    some && (all || rules.lacks(mutant::SUPERSEDED_IN_PART)) && sets_times && sets_size
}
