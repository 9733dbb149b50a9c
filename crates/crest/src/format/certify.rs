//! Edited images whose checksums are right: a fuzzer tries what lies behind the seals, too.
//!
//! A seal is seeded with a secret of the pool, so that nothing but a mount can make one, and an edit within a record makes bytes of
//! it that are no record. Here the edited bytes get the seal that a mount would have given them.

use std::ops::Range;

use zerocopy::{FromBytes, IntoBytes};

use super::layout::{Geometry, LINE, RECORD_LINES_MAX, SUPERBLOCKS, Superblock, kind};
use super::mutant::Rules;
use super::record::Seal;
use super::zone::{Log, Use, Word};

/// Bytes of the number of lines within the first line of a record (`layout::Head`).
const KIND_AT: usize = 8;
const LINES_AT: usize = KIND_AT + 1;

/// Gives superblocks, words of zones and records that were edited the checksums that their bytes should have. `image` is the pool
/// before the edits, which may have cut `edited` short.
pub(crate) fn certify(image: &[u8], edited: &mut [u8]) {
    let read = |at: u64| image.get(at as usize..).and_then(|rest| Superblock::read_from_prefix(rest).ok());
    let copies = SUPERBLOCKS.map(read).map(|copy| copy.map(|(copy, _)| copy));
    let Some(superblock) =
        copies.into_iter().flatten().filter(Superblock::is_sound).max_by_key(|it| it.generation)
    else {
        return;
    };
    for at in SUPERBLOCKS {
        sum_superblock(image, edited, at as usize);
    }
    let geometry = Geometry::of(&superblock);
    for zone in 0..geometry.zones {
        let words = geometry.words_at(zone).map(|at| word(image, at as usize).unwrap_or_default());
        for at in geometry.words_at(zone) {
            check_word(image, edited, (zone, at as usize));
        }
        let Some((Word { usage: Use::Log, opening, .. }, _)) = Word::decide(zone, words) else { continue };
        let (secret, keyed) = (superblock.secret[0], geometry.keyed);
        let seal = Seal { secret, opening, keyed, nonce: 0, rules: Rules::ALL };
        let start = geometry.zone_at(zone) as usize;
        let range = start..start + geometry.record_lines() as usize * LINE;
        if let (Some(old), Some(new)) = (image.get(range.clone()), edited.get_mut(range)) {
            seal_records(old, new, (zone, seal));
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn sum_superblock(image: &[u8], edited: &mut [u8], at: usize) {
    let range = at..at + size_of::<Superblock>();
    let (Some(old), Some(new)) = (image.get(range.clone()), edited.get_mut(range)) else { return };
    if old != new
        && let Ok(mut superblock) = Superblock::read_from_bytes(new)
    {
        superblock.checksum = superblock.sum();
        new.copy_from_slice(superblock.as_bytes());
    }
}

fn check_word(image: &[u8], edited: &mut [u8], (zone, at): (u32, usize)) {
    let (Some(old), Some(new)) = (word(image, at), word(edited, at)) else { return };
    if old != new
        && let Some(target) = edited.get_mut(at..at + 8)
    {
        target.copy_from_slice(&Word::checked(zone, new).to_le_bytes());
    }
}

/// Seals the records of a zone in which a byte was edited, and lines behind them that were edited into the first line of a record.
fn seal_records(old: &[u8], new: &mut [u8], (zone, seal): (u32, Seal)) {
    let Some(seal) = seal.of_zone(old) else { return };
    let mut log = Log::default();
    log.read_zone(zone, seal, old);
    let mut known: Vec<Range<usize>> =
        log.records.iter().map(|found| found.line as usize..(found.line + found.lines) as usize).collect();
    let end = known.last().map_or(0, |last| last.end);
    known.extend((end..old.len() / LINE).map(|line| line..line + 1));
    for lines in known {
        let bytes = lines.start * LINE..lines.end * LINE;
        if old.get(bytes.clone()) == new.get(bytes) {
            continue;
        }
        let first = lines.start * LINE;
        let is_record =
            new.get(first + KIND_AT).is_some_and(|kind| (kind::OPEN..=kind::INLINE).contains(kind));
        if lines.start >= end && !is_record {
            continue;
        }
        let told = new.get(first + LINES_AT).map_or(0, |lines| usize::from(*lines));
        let len = if (1..=RECORD_LINES_MAX).contains(&told) { told * LINE } else { lines.len() * LINE };
        if let Some(record) = new.get_mut(first..first + len) {
            let sum = seal.of(lines.start as u32, record);
            record[..size_of::<u64>()].copy_from_slice(&sum.to_le_bytes());
        }
    }
}
