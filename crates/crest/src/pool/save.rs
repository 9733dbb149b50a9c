//! Saving the index at an unmount: the state in DRAM goes to free zones, which stay free, and the saved word names them.
//!
//! ```text
//! pieces and the words of their zones ── FENCE ── saved word, flush ── FENCE
//! ```
//!
//! Where that fails, because the pool is too full or the medium refuses a store, the saved word stays void and the next mount reads
//! the logs; an unmount does not fail for it. Inodes without a name are left out, as recovery drops them: which blocks are free is
//! found out from the inodes that are saved.

use media::event::Mark;
use sim::sync::Ordering::Relaxed;
use sim::{ByteRun, ran};
use zerocopy::IntoBytes;

use super::saved::{NO_END, sum_logs};
use crate::ablation::Without;
use crate::format::clean::Present;
use crate::format::mutant::{self, Rules};
use crate::format::record::Previous;
use crate::format::saved::{HEADER, Head, SAVED_WORD, saved_word, seal};
use crate::format::zone::{Log, Use, Word};
use crate::index::Index;
use crate::index::map::Place;
use crate::index::saved_inode::Entry;
use crate::index::sums::Sums;
use crate::store::Store;
use crate::store::log::{At, Tail};
use crate::store::zone_table::{self, Table};
use base::persist::checksum::charge_for;

/// A saved index that is being written.
struct Writer<'v> {
    index: &'v Index,
    opening: u64,
    /// Free zones, the next one last.
    free: Vec<u32>,
    /// The piece that is filled: room for its header, then bytes.
    piece: Vec<u8>,
    /// Where the pieces that are stored lie.
    stored: Vec<ByteRun>,
    len: u64,
}

impl Writer<'_> {
    /// Adds bytes to the stream; none if the pool is too full, or the medium refuses them.
    fn put(&mut self, mut bytes: &[u8]) -> Option<()> {
        let most = self.index.geometry.zone_bytes as usize;
        self.len += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.piece.len() == most {
                self.store(false)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(most - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
        }
        Some(())
    }

    fn words(&mut self, words: impl IntoIterator<Item = u64>) -> Option<()> {
        words.into_iter().try_for_each(|word| self.put(&word.to_le_bytes()))
    }

    /// Stores the piece that is filled; the caller fences.
    fn store(&mut self, last: bool) -> Option<()> {
        let Store { region, geometry, secret, .. } = &**self.index;
        let zone = self.free.pop()?;
        seal(*secret, self.opening, (self.stored.len() as u32, last), &mut self.piece);
        charge_for(self.piece.len());
        let at = geometry.zone_at(zone);
        region.nt_store(at, &self.piece).ok()?;
        self.index.store_words(zone, Word { usage: Use::Saved, shard: 0, opening: self.opening }).ok()?;
        self.stored.push(ByteRun::new(at, self.piece.len() as u64));
        self.piece.truncate(HEADER);
        Some(())
    }
}

/// Saves the index; the pool must not be in use.
pub(crate) fn save(index: &Index) {
    // What was saved and is not void is what there is still.
    if index.without == Without::Saved || index.saved.load(Relaxed) {
        return;
    }
    // The next mount must not take the damaged bytes for the right ones.
    if index.losses.has_computed(&index.zones.log_zones()) && !index.rules.lacks(mutant::COMPUTED_THEN_SAVED)
    {
        return;
    }
    let _own = ran::aside();
    if write_index(index).is_none() {
        // Pieces that were stored are of no use.
        index.region.fence();
    }
}

fn write_index(index: &Index) -> Option<()> {
    let opening = index.next_opening().ok()?;
    let table = zone_table::load(&index.region).ok()?;
    let present = table.present();
    let is_whole = table.differ.is_empty() && table.words.iter().all(Option::is_some);
    // A zone of which a store has failed may say something else than is known of it.
    if !is_whole || present != index.zones.log_zones() {
        return None;
    }
    // Records go to the last free zones, so that a zone of the saved index is not the first one that they take.
    let mut free = index.zones.free_zones();
    free.reverse();
    let mut writer = Writer { index, opening, free, piece: vec![0; HEADER], stored: Vec::new(), len: 0 };
    write_stream(&mut writer, &table, &present)?;
    writer.store(true)?;
    if !index.rules.lacks(mutant::IMAGE_BEFORE_FENCE) {
        index.region.fence();
    }
    index.region.mark(Mark::Commit { at: SAVED_WORD, needs: &writer.stored });
    index.region.store_u64(SAVED_WORD, saved_word(index.secret, opening)).ok()?;
    index.region.flush(SAVED_WORD, 8);
    index.region.fence();
    index.saved.store(true, Relaxed);
    Some(())
}

fn write_stream(writer: &mut Writer<'_>, table: &Table, present: &[Present]) -> Option<()> {
    let index = writer.index;
    let zones = table.zones(0, Rules::ALL);
    let sums = Sums::new(&table.geometry, index.sums.are_on());
    let (mut places, mut lines, mut inlines) = (Vec::new(), 0, 0);
    for ino in index.inodes.all_numbers() {
        let Some(entry) = index.inodes.entry(ino).filter(Entry::is_named) else { continue };
        lines += entry.lines();
        inlines += entry.inlines();
        for Place { block, unwritten } in entry.blocks() {
            zones.mark(block).then_some(())?;
            if let Some(sum) = index.sums.get(block).filter(|_| !unwritten) {
                sums.found(block, sum);
            }
        }
        places.extend([ino, writer.len]);
        writer.put(&entry.encode())?;
    }
    let (at, inodes, cloned) = (writer.len, places.len() as u64 / 2, zones.cloned_blocks());
    writer.words(places)?;
    writer.words(zones.free_bits().into_iter().flatten())?;
    writer.words(cloned.iter().flat_map(|(block, more)| [*block, u64::from(*more)]))?;
    writer.words(log_ends(index, table)?.into_iter().flat_map(|end| match end {
        Some(Previous { zone, opening, lines }) => [u64::from(zone) | u64::from(lines) << 32, opening],
        None => [u64::from(NO_END) << 32, 0],
    }))?;
    writer.words(sums.words())?;
    let clock = index.logs.tails.iter().map(|tail| tail.lock().clock).max().unwrap_or(0);
    let head = Head {
        superblock: index.superblock_sum(),
        logs: sum_logs(&index.region, table, present)?,
        clock,
        lines,
        inlines,
        inodes,
        cloned: cloned.len() as u64,
        index: at,
    };
    writer.put(head.as_bytes())
}

/// Where the log of each shard ended, as a mount finds out from the logs: of a shard that has not written since its last zone
/// was freed, in the one before.
fn log_ends(store: &Store, table: &Table) -> Option<Vec<Option<Previous>>> {
    let mut ends = Vec::new();
    for (tail, shard) in store.logs.tails.iter().zip(0u16..) {
        let words = table.words.iter().zip(0u32..).filter_map(|(word, zone)| Some((word.as_ref()?, zone)));
        let of_shard = words.filter(|(word, _)| word.usage == Use::Log && word.shard == shard);
        let last = of_shard.max_by_key(|(word, _)| word.opening);
        let known = end_of(&tail.lock());
        ends.push(match last {
            None => None,
            Some((word, zone)) => match known.filter(|end| (end.zone, end.opening) == (zone, word.opening)) {
                Some(end) => Some(end),
                None => Some(read_end(store, zone, word.opening)?),
            },
        });
    }
    Some(ends)
}

/// Where the log in a zone ends, by its records.
fn read_end(store: &Store, zone: u32, opening: u64) -> Option<Previous> {
    let log: Log = store.read_logs(&[Present { zone, opening, freed: false }]).ok()?;
    let lines = log.ends.first()?.2 as u16;
    Some(Previous { zone, opening, lines })
}

fn end_of(tail: &Tail) -> Option<Previous> {
    let open = tail.open.map(|At { zone, opening, line, .. }| Previous { zone, opening, lines: line as u16 });
    open.or(tail.previous)
}
