//! Loading a saved index: a mount reads and checks all of it, and takes inodes out of it when calls use them.
//!
//! | step | by |
//! |---|---|
//! | the pieces of the saved index and the log zones are read and summed | several tasks |
//! | the saved index counts if the superblock and the log zones have the checksums that it says | |
//! | free blocks, cloned blocks, ends of logs, checksums of data | at the mount |
//! | inodes, with their names and blocks | when one is looked for ([`Cold::inode`]) |
//!
//! So a mount takes time by the bytes that it reads, not by the objects that it would make of them.

use std::sync::Arc;

use media::MediaError;
use media::nvmm::Region;
use twox_hash::XxHash3_64;

use super::loaded::by_tasks;
use crate::format::clean::Present;
use crate::format::layout::{BITS_40, Geometry};
use crate::format::record::Previous;
use crate::format::saved::{HEADER, Head, Piece, SAVED_WORD, VERSION, saved_word};
use crate::index::cold::{Cold, INDEXED, Pieces};
use crate::index::sharing::Sharing;
use crate::index::sums::Sums;
use crate::store::alloc::{WORDS, Zones};
use crate::store::zone_table::Table;
use base::persist::checksum::charge_for;

/// Lines of a log that has no end.
pub(crate) const NO_END: u32 = u32::MAX;

/// A saved index, as far as there is one.
pub(crate) enum Saved {
    /// None, or one that does not count.
    None,
    /// All of it.
    Whole(SavedIndex),
    /// The saved word names one that is not whole, which no crash explains.
    Damaged(String),
}

/// A saved index that counts.
pub(crate) struct SavedIndex {
    pub(crate) head: Head,
    pub(crate) pieces: Pieces,
}

/// A zone that is read.
#[derive(Clone, Copy)]
struct Job {
    zone: u32,
    opening: u64,
    is_piece: bool,
}

/// The result of reading it.
enum Read {
    /// A piece of another version.
    Foreign,
    Piece(Piece, Box<[u8]>),
    /// The checksum of a log zone.
    Sum(u64),
}

fn read(
    region: &Region,
    geometry: &Geometry,
    secret: u64,
    job: Job,
    buffer: &mut Vec<u8>,
) -> Result<Read, String> {
    let (at, error) = (geometry.zone_at(job.zone), |error: MediaError| error.to_string());
    if !job.is_piece {
        buffer.resize(geometry.zone_bytes as usize, 0);
        region.load(at, buffer).map_err(error)?;
        charge_for(buffer.len());
        return Ok(Read::Sum(XxHash3_64::oneshot(buffer)));
    }
    let piece: Piece = region.read(at).map_err(error)?;
    let damaged = || format!("a piece of the saved index, in zone {}, is damaged", job.zone);
    if piece.len > geometry.zone_bytes - HEADER as u64 {
        return Err(damaged());
    }
    let mut bytes = vec![0; HEADER + piece.len as usize].into_boxed_slice();
    region.load(at, &mut bytes).map_err(error)?;
    charge_for(bytes.len());
    match piece.is_sealed(secret, job.opening, &bytes) {
        false => Err(damaged()),
        true if piece.version != VERSION => Ok(Read::Foreign),
        true => Ok(Read::Piece(piece, bytes)),
    }
}

/// Reads zones by several tasks; the answers are in the order of the jobs.
fn read_all(region: &Arc<Region>, table: &Table, jobs: &[Job]) -> Vec<Result<Read, String>> {
    let (geometry, secret) = (table.geometry, table.superblock.secret[0]);
    let work = move |region: &Region, jobs: &[Job]| -> Vec<_> {
        let mut buffer = Vec::new();
        jobs.iter().map(|job| read(region, &geometry, secret, *job, &mut buffer)).collect()
    };
    by_tasks(region, table, jobs, work).into_iter().flatten().collect()
}

fn sum_of(present: &[Present], sums: impl Iterator<Item = u64>) -> u64 {
    let words = present.iter().zip(sums).flat_map(|(zone, sum)| [u64::from(zone.zone), zone.opening, sum]);
    XxHash3_64::oneshot(&words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>())
}

fn log_jobs(present: &[Present]) -> Vec<Job> {
    present.iter().map(|zone| Job { zone: zone.zone, opening: zone.opening, is_piece: false }).collect()
}

/// The checksum of all log zones; none if one cannot be read.
pub(crate) fn sum_logs(region: &Arc<Region>, table: &Table, present: &[Present]) -> Option<u64> {
    let read = read_all(region, table, &log_jobs(present));
    let sums: Option<Vec<u64>> =
        read.into_iter().map(|read| if let Ok(Read::Sum(sum)) = read { Some(sum) } else { None }).collect();
    Some(sum_of(present, sums?.into_iter()))
}

/// Reads the saved index. `trusts`: a seeded bug takes one that the pool has changed after.
pub(crate) fn look(region: &Arc<Region>, table: &Table, trusts: bool) -> Saved {
    let word = match region.load_u64(SAVED_WORD) {
        Ok(0) => return Saved::None,
        Ok(word) => word,
        Err(error) => return Saved::Damaged(format!("the clean word cannot be read: {error}")),
    };
    let opening = word & BITS_40;
    if word != saved_word(table.superblock.secret[0], opening) {
        return Saved::Damaged("the clean word is damaged".to_owned());
    }
    // The copies of a word may differ after a crash or a fault, which the logs are read for.
    if !table.differ.is_empty() || table.words.iter().any(Option::is_none) {
        return Saved::None;
    }
    let present = table.present();
    let mut jobs = log_jobs(&present);
    let is_piece = |zone: &u32| table.words[*zone as usize].is_some_and(|word| word.opening == opening);
    let pieces = table.saved_zones().into_iter().filter(is_piece);
    jobs.extend(pieces.map(|zone| Job { zone, opening, is_piece: true }));
    let (mut sums, mut pieces, mut logs_fail) = (Vec::new(), Vec::new(), false);
    for (job, read) in jobs.iter().zip(read_all(region, table, &jobs)) {
        match read {
            Ok(Read::Sum(sum)) => sums.push(sum),
            Ok(Read::Piece(piece, bytes)) => pieces.push((piece, bytes)),
            Ok(Read::Foreign) => return Saved::None,
            Err(_) if !job.is_piece => logs_fail = true,
            Err(why) => return Saved::Damaged(why),
        }
    }
    let lacking = || Saved::Damaged("pieces of the saved index are missing".to_owned());
    let Some(pieces) = Pieces::of(pieces, table.geometry.zone_bytes - HEADER as u64) else {
        return lacking();
    };
    let Some(head) = pieces.head() else { return lacking() };
    let same =
        head.superblock == table.superblock.checksum && head.logs == sum_of(&present, sums.into_iter());
    if logs_fail || !(same || trusts) {
        return Saved::None;
    }
    Saved::Whole(SavedIndex { head, pieces })
}

impl SavedIndex {
    /// Where each part of the stream behind the index begins: free bits, cloned blocks, ends of logs, checksums.
    fn parts(&self, table: &Table) -> [u64; 4] {
        let bits = self.head.index + INDEXED * self.head.inodes;
        let cloned = bits + 8 * WORDS as u64 * u64::from(table.geometry.zones);
        let ends = cloned + 16 * self.head.cloned;
        [bits, cloned, ends, ends + 16 * u64::from(table.superblock.shards)]
    }

    /// Tells which blocks are free, and which are cloned; none if that cannot be.
    pub(crate) fn restore_zones(&self, table: &Table, zones: &Zones) -> Option<()> {
        let [bits, cloned, ..] = self.parts(table);
        let mut bytes = [0; 8 * WORDS];
        for zone in 0..table.geometry.zones {
            self.pieces.copy(bits + u64::from(zone) * bytes.len() as u64, &mut bytes)?;
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().ok()?);
            }
            zones.restore(zone, words).then_some(())?;
        }
        for at in (0..self.head.cloned).map(|place| cloned + 16 * place) {
            zones.restore_cloned(self.pieces.word(at)?, self.pieces.word(at + 8)? as u32);
        }
        zones.add_lines(self.head.lines);
        zones.change_inlines(self.head.inlines.cast_signed());
        Some(())
    }

    /// Where the log of each shard ended.
    pub(crate) fn ends(&self, table: &Table) -> Option<Vec<Option<Previous>>> {
        let [_, _, ends, _] = self.parts(table);
        let end = |shard: u32| {
            let at = ends + 16 * u64::from(shard);
            let (place, opening) = (self.pieces.word(at)?, self.pieces.word(at + 8)?);
            let (zone, lines) = (place as u32, (place >> 32) as u32);
            Some((lines != NO_END).then_some(Previous { zone, opening, lines: lines as u16 }))
        };
        (0..table.superblock.shards).map(end).collect()
    }

    /// The checksums of all blocks.
    pub(crate) fn restore_sums(&self, table: &Table, sums: &Sums) {
        let [.., at] = self.parts(table);
        sums.restore((0..).map_while(|place: u64| self.pieces.word(at + 8 * place)));
    }

    /// The inodes.
    pub(crate) fn cold(self, sharing: Sharing) -> Cold {
        Cold::new(self.pieces, (self.head.index, self.head.inodes), sharing)
    }
}
