//! The log and the checkpoints: what makes a change durable, and what a mount reads.
//!
//! # States of a half
//!
//! ```text
//! stale ──checkpoint──► complete ──active word──► active ──the other half becomes active──► stale
//! ```
//!
//! A record counts when the tail is beyond it. Nothing past the tail is ever read, so a record needs no mark of its own; its
//! checksum tells damage, not a crash.

use std::sync::Arc;

use crc::{CRC_64_XZ, Crc};
use media::event::Mark;
use media::nvmm::Region;

use super::layout::{
    ACTIVE, HALVES, HEADER, Header, MAGIC, RECORD_HEAD, Superblock, TAIL, VERSION, half_bytes, half_start,
};
use super::mutant;
use super::state::{BLOCK, Change, State, Time, now};
use crate::error::{Error, Result};
use design::Mutant;

const CHECKPOINT_SUM: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);

/// The state with its log: everything that the lock protects.
pub(super) struct Volume {
    region: Arc<Region>,
    pub(super) state: State,
    /// Bytes of a checkpoint of the state, at most.
    used: u64,
    active: u64,
    /// Where the next record goes, from the beginning of the active half.
    tail: u64,
    /// Whether this mount has appended a record to the active half.
    logged: bool,
    mutant: Option<Mutant>,
}

/// Bytes that checkpoints in a region of `size` may take: three quarters of a half, so that the log has the rest.
pub(super) fn capacity(size: u64) -> u64 {
    (half_bytes(size) / 4 * 3).saturating_sub(HALVES)
}

/// The region whose checkpoints may take so many bytes.
pub(super) fn size_for(capacity: u64) -> u64 {
    let half = capacity.saturating_add(HALVES).div_ceil(3).saturating_mul(4);
    HALVES.saturating_add(half.next_multiple_of(64).saturating_mul(2))
}

/// What a record holds.
type Record = (Time, Change);

/// Makes an empty file system.
pub(super) fn format(region: &Arc<Region>) -> Result<()> {
    let size = region.len();
    write_checkpoint(region, 0, &State::new())?;
    region.fence();
    region.write(0, &Superblock { magic: MAGIC, version: VERSION, size, active: 0 })?;
    region.flush(0, size_of::<Superblock>() as u64);
    region.fence();
    Ok(())
}

/// Writes a state to a half, with an empty log; returns the log's tail. Durable after a fence.
fn write_checkpoint(region: &Region, half: u64, state: &State) -> Result<u64> {
    let bytes = postcard::to_allocvec(state).map_err(|error| Error::Corrupt(error.to_string()))?;
    let tail = (HEADER + bytes.len() as u64).next_multiple_of(8);
    if tail > half_bytes(region.len()) {
        return Err(Error::NoSpace);
    }
    let start = half_start(region.len(), half);
    region.nt_store(start + HEADER, &bytes)?;
    let checksum = CHECKPOINT_SUM.checksum(&bytes);
    region.write(start, &Header { checkpoint: bytes.len() as u64, checksum, tail, zero: 0 })?;
    region.flush(start, HEADER);
    Ok(tail)
}

/// Reads the superblock of an image.
pub(super) fn superblock(region: &Region) -> Result<Superblock> {
    let superblock: Superblock = region.read(0)?;
    let corrupt = |what: String| Err(Error::Corrupt(format!("superblock: {what}")));
    match superblock {
        Superblock { magic, .. } if magic != MAGIC => {
            corrupt(format!("magic {magic:#x}, expected {MAGIC:#x}"))
        }
        Superblock { size, .. } if size != region.len() => {
            corrupt(format!("made for {size} bytes, the region has {}", region.len()))
        }
        Superblock { active, .. } if active > 1 => {
            corrupt(format!("half {active} is active, there are 0 and 1"))
        }
        _ => Ok(superblock),
    }
}

/// An image as a mount reads it.
pub(super) struct Loaded {
    pub(super) state: State,
    pub(super) active: u64,
    pub(super) header: Header,
    /// Records of the log.
    pub(super) records: u64,
}

impl Loaded {
    /// Where the active half of a region of `size` bytes begins.
    #[cfg(test)]
    pub(super) fn start(&self, size: u64) -> u64 {
        half_start(size, self.active)
    }
}

/// Reads the checkpoint of the active half and applies its log.
pub(super) fn load(region: &Region) -> Result<Loaded> {
    let active = superblock(region)?.active;
    let (start, half) = (half_start(region.len(), active), half_bytes(region.len()));
    let header: Header = region.read(start)?;
    let corrupt = |what: String| Error::Corrupt(format!("half {active}: {what}"));
    let log = HEADER.saturating_add(header.checkpoint).checked_next_multiple_of(8).unwrap_or(u64::MAX);
    if log > header.tail || header.tail > half {
        return Err(corrupt(format!("log from {log} to {} in {half} bytes", header.tail)));
    }
    let mut bytes = vec![0; header.checkpoint as usize];
    region.load(start + HEADER, &mut bytes)?;
    if CHECKPOINT_SUM.checksum(&bytes) != header.checksum {
        return Err(corrupt("the checkpoint's checksum is wrong".to_owned()));
    }
    let mut state: State =
        postcard::from_bytes(&bytes).map_err(|error| corrupt(format!("checkpoint: {error}")))?;
    state.replaying = true;
    let (mut at, mut records) = (log, 0);
    while at < header.tail {
        let (record, next) = read_record(region, start, (at, header.tail)).map_err(|error| match error {
            Error::Corrupt(what) => corrupt(format!("record {records} at {at}: {what}")),
            other => other,
        })?;
        let (time, change) = record;
        state.apply(&change, time).map_err(|error| corrupt(format!("record {records} at {at}: {error}")))?;
        (at, records) = (next, records + 1);
    }
    state.replaying = false;
    state.close_all();
    Ok(Loaded { state, active, header, records })
}

fn read_record(region: &Region, start: u64, (at, tail): (u64, u64)) -> Result<(Record, u64)> {
    let corrupt = |what: &str| Error::Corrupt(what.to_owned());
    let head = region.load_u64(start + at)?;
    let (len, sum) = (head & 0xFFFF_FFFF, (head >> 32) as u32);
    let next = at + RECORD_HEAD + len.next_multiple_of(8);
    if next > tail {
        return Err(corrupt("it passes the tail"));
    }
    let mut payload = vec![0; len as usize];
    region.load(start + at + RECORD_HEAD, &mut payload)?;
    if crc32c::crc32c(&payload) != sum {
        return Err(corrupt("its checksum is wrong"));
    }
    let record = postcard::from_bytes(&payload).map_err(|error| corrupt(&error.to_string()))?;
    Ok((record, next))
}

/// Moves the tail of the log before its last record if that is torn; says so. A damaged record with others behind it stays: these
/// may depend on it.
pub(super) fn cut_torn_record(region: &Region) -> Result<Option<String>> {
    let active = superblock(region)?.active;
    let start = half_start(region.len(), active);
    let header: Header = region.read(start)?;
    let tail = header.tail.min(half_bytes(region.len()));
    let mut at = HEADER.saturating_add(header.checkpoint).checked_next_multiple_of(8).unwrap_or(u64::MAX);
    let is_sound = |at| read_record(region, start, (at, tail));
    while at < tail
        && let Ok((_, next)) = is_sound(at)
    {
        at = next;
    }
    if at >= tail || (at + 8..tail).step_by(8).any(|later| is_sound(later).is_ok()) {
        return Ok(None);
    }
    region.store_u64(start + TAIL, at)?;
    region.flush(start + TAIL, 8);
    region.fence();
    Ok(Some(format!("half {active}: the log ends at {at}, before a record that is torn")))
}

impl Volume {
    /// Mounts an image.
    pub(super) fn open(region: &Arc<Region>, mutant: Option<Mutant>) -> Result<Self> {
        let Loaded { state, active, header, .. } = load(region)?;
        let (used, tail) = (state.cost(), header.tail);
        Ok(Self { region: Arc::clone(region), state, used, active, tail, logged: false, mutant })
    }

    fn capacity(&self) -> u64 {
        capacity(self.region.len())
    }

    /// Blocks in all, and free ones.
    pub(super) fn blocks(&self) -> (u64, u64) {
        (self.capacity() / BLOCK, self.capacity().saturating_sub(self.used) / BLOCK)
    }

    /// Makes a change that grows the state by at most `growth` bytes durable, then applies it.
    pub(super) fn change(&mut self, change: &Change, growth: u64) -> Result<()> {
        if growth > 0 && (self.used + growth > self.capacity() || !self.region.grants_space()) {
            return Err(Error::NoSpace);
        }
        let now = now();
        let record =
            postcard::to_allocvec(&(now, change)).map_err(|error| Error::Corrupt(error.to_string()))?;
        let inos = change.inodes(&self.state);
        let before = self.state.cost_of(&inos);
        match self.append(&record) {
            Ok(false) => self.skip_log(change, now)?,
            Err(error) if self.mutant != Some(mutant::APPLIED_WITHOUT_RECORD) => return Err(error),
            _ => self.state.apply(change, now)?,
        }
        self.used = self.used + self.state.cost_of(&inos) - before;
        Ok(())
    }

    /// Makes a change durable that is too long for a log, by a checkpoint of the state that it leads to.
    fn skip_log(&mut self, change: &Change, now: Time) -> Result<()> {
        let mut next = self.state.clone();
        next.apply(change, now)?;
        self.checkpoint(Some(next))
    }

    /// Makes another state the present one, durably.
    pub(super) fn replace(&mut self, state: State) -> Result<()> {
        self.used = state.cost();
        self.checkpoint(Some(state))
    }

    /// Notes that an inode is open once less, and frees it when it has no name. That needs no record: a crash closes it.
    pub(super) fn release(&mut self, ino: u64) {
        let before = self.state.cost_of(&[ino]);
        if let Some(inode) = self.state.inodes.get_mut(&ino) {
            inode.opens = inode.opens.saturating_sub(1);
        }
        self.state.free_unused(ino);
        self.used = self.used + self.state.cost_of(&[ino]) - before;
    }

    /// Appends a record to the log, a new one if this one is full. False: no log has room for it.
    fn append(&mut self, payload: &[u8]) -> Result<bool> {
        let _scope = sim::scope(media::charges::JOURNAL);
        let len = RECORD_HEAD + (payload.len() as u64).next_multiple_of(8);
        let half = half_bytes(self.region.len());
        if self.tail + len > half {
            if HEADER + self.used + len > half {
                return Ok(false);
            }
            self.checkpoint(None)?;
        }
        let at = half_start(self.region.len(), self.active) + self.tail;
        let head = payload.len() as u64 | u64::from(crc32c::crc32c(payload)) << 32;
        let mut record = head.to_le_bytes().to_vec();
        record.extend_from_slice(payload);
        record.resize(len as usize, 0);
        self.region.nt_store(at, &record)?;
        if self.mutant != Some(mutant::TAIL_AHEAD_OF_RECORD) {
            self.region.fence();
        }
        let word = half_start(self.region.len(), self.active) + TAIL;
        self.commit(word, self.tail + len, (at, len))?;
        self.tail += len;
        self.logged = true;
        Ok(true)
    }

    /// Leaves a checkpoint with an empty log, so that the next mount has nothing to apply.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.logged { self.checkpoint(None) } else { Ok(()) }
    }

    /// Stores a word that makes what it `needs` (offset, length) count.
    fn commit(&mut self, word: u64, value: u64, needs: (u64, u64)) -> Result<()> {
        self.region.mark(Mark::Commit { at: word, needs: &[needs] });
        let stored = self.region.store_u64(word, value);
        self.region.flush(word, 8);
        self.region.fence();
        stored.map_err(Error::from)
    }

    /// Writes the state, or the `next` one, to the other half and makes that the active one.
    fn checkpoint(&mut self, next: Option<State>) -> Result<()> {
        let other = 1 - self.active;
        // What is open without a name is in it: the next records may be about it.
        let tail = write_checkpoint(&self.region, other, next.as_ref().unwrap_or(&self.state))?;
        if self.mutant != Some(mutant::ACTIVE_AHEAD_OF_CHECKPOINT) {
            self.region.fence();
        }
        self.commit(ACTIVE, other, (half_start(self.region.len(), other), tail))?;
        (self.active, self.tail, self.logged) = (other, tail, false);
        if let Some(next) = next {
            self.state = next;
        }
        Ok(())
    }
}
