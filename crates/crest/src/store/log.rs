//! The logs of shards: where their records go, zones that they open, and numbers that the superblock reserves.
//!
//! A log has one writer at a time, from the choice of an id to the fence, so only the last operation of a zone can be torn, or its
//! last batch of copies. A record that the medium refuses was not stored: it lacks a line and never counts. The shard leaves its
//! zone then, so that no record follows a gap.
//!
//! Lock order: `crest.log`, of several shards by number; then `crest.superblock`, `crest.zones`.

use std::ops::Range;

use media::event::Mark;
use sim::sync::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use sim::{ByteRun, Mutex, ran};

use super::Store;
use super::origins::Origins;
use super::parity::Strip;
use super::superblock;
use crate::format::layout::{Geometry, LINE, RECORD_LINES_MAX, RESERVED, Superblock};
use crate::format::mutant;
use crate::format::record::{self, Body, Id, Open, Previous, Record, Seal};
use crate::format::zone::{Use, Want, Word};
use crate::{locks, parts};
use base::error::{Error, Result};
use base::persist::checksum::charge_for;

/// Inode numbers that a shard takes at a time.
pub(crate) const NEIGHBOURS: u64 = 64;

/// Bytes for records that a tail keeps.
const BYTES_KEPT: usize = 4 * RECORD_LINES_MAX * LINE;

/// Of [`Logs::quiet`]: how much is dead is not known.
pub(crate) const UNKNOWN: i64 = i64::MAX;

/// A place in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) zone: u32,
    pub(crate) opening: u64,
    /// Of the zone; 0 in a pool without.
    pub(crate) nonce: u64,
    pub(crate) line: u32,
}

/// The end of a shard's log.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Where the next record goes.
    pub(crate) open: Option<At>,
    /// Where the log ended in the zone before, if the next `Open` has to say it.
    pub(crate) previous: Option<Previous>,
    /// The last logical time.
    pub(crate) clock: u64,
    /// Lines of its records that may die although no name and no block goes, and unused ones of zones that it left, in this mount.
    pub(crate) soft: u64,
    /// The XOR of what it has written to that zone, in a pool with parity.
    pub(crate) strip: Strip,
    /// Inode numbers that it may give out.
    inos: Range<u64>,
    /// Where records get their bytes before they have a place.
    bytes: Vec<u8>,
}

/// The openings and inode numbers that the superblock reserves.
pub(crate) struct Reserved {
    superblock: Superblock,
    /// The next opening.
    openings: u64,
    /// The next inode number.
    inodes: u64,
}

/// All logs.
pub(crate) struct Logs {
    pub(crate) tails: Vec<Mutex<Tail>>,
    reserved: Mutex<Reserved>,
    /// The next opening, for readers without the lock.
    openings: AtomicU64,
    /// Whether a record was written since the cleaner found nothing to gain. It is cleared with all logs locked.
    pub(crate) changed: AtomicBool,
    /// Lines that are dead, or may die although no name and no block goes, in the zone that had most of them when the cleaner
    /// looked last, less all that may have died until then; `UNKNOWN`: it found something to do. Changed with all logs locked.
    pub(crate) quiet: AtomicI64,
    /// The count of cleanings with all logs locked. Changed under these locks.
    pub(crate) cleanings: AtomicU64,
    /// Where adds lie.
    pub(crate) origins: Origins,
    /// Zones that were emptied in steps, for a check of debug builds.
    pub(crate) emptied: AtomicU64,
    /// Calls that were refused for want of room, for a check of debug builds.
    pub(crate) refusals: AtomicU64,
}

/// A call that is to be made durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// What a new zone is wanted for.
    pub(crate) want: Want,
    /// Logical time that its id must follow.
    pub(crate) after: u64,
    /// Whether it makes an inode.
    pub(crate) makes: bool,
    /// Its data on the medium, already fenced.
    pub(crate) needs: &'a [ByteRun],
}

/// What a call knows when it makes its records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Its id.
    pub(crate) id: Id,
    /// The number of the inode that it makes.
    pub(crate) ino: u64,
    /// What a cut, a hole or the removal of an attribute says of the openings that it may hide.
    pub(crate) before: u64,
}

impl Logs {
    /// Logs that go on behind `clock`; each shard's last zone ended there.
    ///
    /// `lines`: of all zones of the logs, with what no record has taken.
    pub(crate) fn new(superblock: Superblock, clock: u64, ends: Vec<Option<Previous>>, lines: u64) -> Self {
        let tail = |previous| Mutex::new(&locks::LOG, Tail { previous, clock, ..Tail::default() });
        let (openings, inodes) = (superblock.openings, superblock.inodes);
        let zone_lines = Geometry::of(&superblock).zone_lines();
        Self {
            cleanings: AtomicU64::new(0),
            origins: Origins::new(clock, ends.len(), zone_lines),
            emptied: AtomicU64::new(0),
            tails: ends.into_iter().map(tail).collect(),
            reserved: Mutex::new(&locks::SUPERBLOCK, Reserved { superblock, openings, inodes }),
            openings: AtomicU64::new(openings),
            changed: AtomicBool::new(true),
            quiet: AtomicI64::new(lines.cast_signed()),
            refusals: AtomicU64::new(0),
        }
    }
}

/// Gives records their bytes, without seals.
fn encode(records: &[Record], bytes: &mut Vec<u8>) -> Result<()> {
    let _part = sim::part(&parts::SEAL);
    const MOST: usize = RECORD_LINES_MAX * LINE;
    bytes.clear();
    for record in records {
        let first = bytes.len();
        if bytes.capacity() - first < MOST {
            ran::allocate(1);
            bytes.reserve(MOST);
        }
        record.write_to(bytes);
        if bytes.len() - first > MOST {
            return Err(Error::Invalid("a record of too many lines"));
        }
    }
    Ok(())
}

impl Store {
    /// The shard of the task that runs now: that of its core.
    pub(crate) fn shard(&self) -> usize {
        usize::from(sim::core()) % self.logs.tails.len()
    }

    pub(crate) fn seal(&self, opening: u64) -> Seal {
        Seal { secret: self.secret, opening, keyed: self.geometry.keyed, nonce: 0, rules: self.rules }
    }

    /// The seal of records of a zone that this mount has opened.
    pub(crate) fn seal_at(&self, at: At) -> Seal {
        Seal { nonce: at.nonce, ..self.seal(at.opening) }
    }

    /// Extents that the records of one call may have.
    pub(crate) fn extents_max(&self) -> usize {
        (self.geometry.record_lines() as usize - 8) * 3
    }

    /// Gives a call its id, and the number of the inode that it makes; the log is locked until its records are durable.
    pub(crate) fn ticket(&self, tail: &mut Tail, shard: usize, call: Call<'_>) -> Result<Ticket> {
        let after = if self.rules.lacks(mutant::CLOCK_OF_SHARD) { 0 } else { call.after };
        tail.clock = 1 + tail.clock.max(after);
        let ino = if call.makes { self.next_inode(tail)? } else { 0 };
        // A zone that this call opens is among those with smaller openings.
        let before = self.logs.openings.load(Relaxed) + 1;
        Ok(Ticket { id: Id::new(tail.clock, shard as u16), ino, before })
    }

    /// Stores records at the end of a shard's log and flushes them; the caller fences.
    pub(crate) fn append_records(
        &self,
        tail: &mut Tail,
        shard: usize,
        call: Call<'_>,
        records: &[Record],
    ) -> Result<()> {
        let _scope = sim::scope(media::charges::JOURNAL);
        let mut bytes = std::mem::take(&mut tail.bytes);
        let done = self.append_encoded(tail, shard, call, (records, &mut bytes));
        if bytes.capacity() <= BYTES_KEPT {
            tail.bytes = bytes;
        }
        done
    }

    fn append_encoded(
        &self,
        tail: &mut Tail,
        shard: usize,
        call: Call<'_>,
        (records, bytes): (&[Record], &mut Vec<u8>),
    ) -> Result<()> {
        encode(records, bytes)?;
        let lines = (bytes.len() / LINE) as u32;
        let record_lines = self.geometry.record_lines();
        if lines >= record_lines {
            return Err(Error::NoSpace);
        }
        let at = match tail.open.filter(|at| at.line + lines <= record_lines) {
            Some(at) => at,
            None => self.open_zone(tail, shard, call.want)?,
        };
        if call.want == Want::Copies {
            sim::count(&parts::COPIED, u64::from(lines));
            for record in records.iter().filter(|_| !self.rules.lacks(mutant::COPIES_FORGOTTEN)) {
                self.logs.origins.note_copy(at.zone, at.opening, record);
            }
        }
        self.close(at, bytes);
        let _part = sim::part(&parts::RECORD);
        let offset = self.geometry.zone_at(at.zone) + u64::from(at.line) * LINE as u64;
        self.region.mark(Mark::CommitBlock { at: offset, needs: call.needs });
        if let Err(error) = self.region.store(offset, bytes) {
            self.leave_zone(tail);
            return Err(error.into());
        }
        self.region.flush(offset, bytes.len() as u64);
        tail.strip.add(&self.geometry, at.line, bytes);
        tail.open = Some(At { line: at.line + lines, ..at });
        if !records.iter().all(|record| record.body.is_firm()) {
            tail.soft += u64::from(lines);
        }
        if at.line + lines == record_lines && self.rules.lacks(mutant::PARITY_BEFORE_RECORDS) {
            self.leave_zone(tail);
        }
        Ok(())
    }

    /// Seals records, whose lines these bytes are, at a place of the log.
    fn close(&self, mut at: At, mut bytes: &mut [u8]) {
        let _part = sim::part(&parts::SEAL);
        while let Some(lines) = record::lines_of(bytes) {
            let (record, rest) = bytes.split_at_mut(lines * LINE);
            self.seal_at(at).close(at.line, record);
            charge_for(record.len());
            ran::bytes(record.len() as u64);
            at.line += lines as u32;
            bytes = rest;
        }
    }

    /// The next record goes to another zone; the caller fences the parity of this one.
    pub(crate) fn leave_zone(&self, tail: &mut Tail) {
        let strip = std::mem::take(&mut tail.strip);
        if let Some(at) = tail.open.take() {
            self.end_zone(at, strip);
            let At { zone, opening, line, .. } = at;
            self.logs.origins.left((zone, opening), line);
            tail.soft += u64::from(self.geometry.record_lines() - line);
            tail.previous = Some(Previous { zone, opening, lines: line as u16 });
        }
    }

    /// Stores the parity of a zone that a shard has left, if its records are durable; the caller fences.
    pub(crate) fn end_zone(&self, at: At, strip: Strip) {
        // The first line alone may not be.
        if self.geometry.parity && at.line > 1 {
            // Where the medium refuses it, the zone has none.
            let _ = strip.store(&self.region, &self.geometry, (at.zone, self.seal_at(at)), at.line);
        }
    }

    /// Opens a zone for a shard: its first record is durable, and its word is flushed; the caller fences. In a pool without nonces
    /// the first record is only flushed, too.
    pub(crate) fn open_zone(&self, tail: &mut Tail, shard: usize, want: Want) -> Result<At> {
        let zone = self.zones.take_log(want)?;
        let opening = match self.next_opening() {
            Ok(opening) => opening,
            Err(error) => {
                self.zones.free_log(zone);
                return Err(error);
            }
        };
        let word = Word { usage: Use::Log, shard: shard as u16, opening };
        let at = At { zone, opening, nonce: self.nonce(opening), line: 0 };
        if self.geometry.keyed {
            // The nonce is durable before the word says that it counts.
            self.leave_zone(tail);
            if let Err(error) = self.store_open(tail, at, word.shard) {
                self.zones.free_log(zone);
                return Err(error);
            }
            if !self.rules.lacks(mutant::OPEN_WITH_WORD) {
                self.region.fence();
            }
        }
        // Also where a store fails: one of the words may say so, and the cleaner frees a zone without records.
        self.zones.set_log(zone, opening);
        // A copy has no id of the shard's, and the last one may be in the zone before.
        let first = tail.clock + u64::from(want == Want::Copies);
        self.logs.origins.opened(shard, first, (zone, opening));
        self.store_words(zone, word)?;
        if !self.geometry.keyed {
            self.leave_zone(tail);
            self.store_open(tail, at, word.shard)?;
        }
        tail.previous = None;
        let at = At { line: 1, ..at };
        tail.open = Some(at);
        Ok(at)
    }

    /// A number that no copy of the pool has for an opening.
    fn nonce(&self, opening: u64) -> u64 {
        if self.geometry.keyed { sim::Seed(self.salt).derive("crest.nonce", opening).0 | 1 } else { 0 }
    }

    /// Stores the first record of a zone, and flushes it.
    fn store_open(&self, tail: &mut Tail, at: At, shard: u16) -> Result<()> {
        let open = Open { shard, epoch: 0, previous: tail.previous, nonce: at.nonce };
        ran::allocate(1);
        let mut bytes = Vec::with_capacity(LINE);
        Record::alone(Id::default(), Body::Open(open)).write_to(&mut bytes);
        self.close(at, &mut bytes);
        let offset = self.geometry.zone_at(at.zone);
        self.region.store(offset, &bytes)?;
        self.region.flush(offset, bytes.len() as u64);
        tail.strip.add(&self.geometry, 0, &bytes);
        Ok(())
    }

    /// Stores the word of a zone in both copies of the table, and flushes it; the caller fences.
    pub(crate) fn store_words(&self, zone: u32, word: Word) -> Result<()> {
        charge_for(size_of::<u64>());
        for at in self.geometry.words_at(zone) {
            self.region.store_u64(at, word.pack(zone))?;
            if word.usage == Use::Free || !self.rules.lacks(mutant::WORD_UNFLUSHED) {
                self.region.flush(at, 8);
            }
        }
        Ok(())
    }

    /// The checksum of the superblock.
    pub(crate) fn superblock_sum(&self) -> u64 {
        self.logs.reserved.lock().superblock.checksum
    }

    /// The number of the next opening, which no other has.
    pub(crate) fn next_opening(&self) -> Result<u64> {
        let mut reserved = self.logs.reserved.lock();
        if reserved.openings >= reserved.superblock.openings {
            self.reserve(&mut reserved)?;
        }
        reserved.openings += 1;
        self.logs.openings.store(reserved.openings, Relaxed);
        Ok(reserved.openings - 1)
    }

    fn next_inode(&self, tail: &mut Tail) -> Result<u64> {
        if tail.inos.is_empty() {
            let mut reserved = self.logs.reserved.lock();
            if reserved.inodes + NEIGHBOURS > reserved.superblock.inodes {
                self.reserve(&mut reserved)?;
            }
            let first = reserved.inodes.next_multiple_of(NEIGHBOURS);
            tail.inos = reserved.inodes..first.max(reserved.inodes + 1);
            reserved.inodes = tail.inos.end;
        }
        let ino = tail.inos.start;
        tail.inos.start += 1;
        Ok(ino)
    }

    /// Reserves more openings and inode numbers; durable on return.
    fn reserve(&self, reserved: &mut Reserved) -> Result<()> {
        let superblock = Superblock {
            openings: reserved.openings + RESERVED,
            inodes: reserved.inodes + RESERVED,
            ..reserved.superblock
        };
        let superblock = superblock.next();
        charge_for(size_of::<Superblock>());
        superblock::store(&self.region, &superblock, self.rules.lacks(mutant::SUPERBLOCKS_TOGETHER))?;
        reserved.superblock = superblock;
        Ok(())
    }
}
