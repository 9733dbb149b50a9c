//! The log and the checkpoints: what makes a change durable.
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

use super::layout::{ACTIVE, HALVES, HEADER, Header, RECORD_HEAD, TAIL, half_bytes, half_start};
use super::mutant;
use super::recovery::{Loaded, load};
use super::state::{BLOCK, Change, State, Time, now};
use base::error::{Error, Result};
use base::persist::checksum::{charge_for, crc32c};
use design::Mutant;
use sim::{ByteRun, ran};

/// Of a checkpoint.
pub(super) fn checkpoint_sum(bytes: &[u8]) -> u64 {
    const SUM: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);
    charge_for(bytes.len());
    SUM.checksum(bytes)
}

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

/// Writes a state to a half, with an empty log; returns the log's tail. Durable after a fence.
pub(super) fn write_checkpoint(region: &Region, half: u64, state: &State) -> Result<u64> {
    let bytes = postcard::to_allocvec(state).map_err(|error| Error::Corrupt(error.to_string()))?;
    let tail = (HEADER + bytes.len() as u64).next_multiple_of(8);
    if tail > half_bytes(region.len()) {
        return Err(Error::NoSpace);
    }
    let start = half_start(region.len(), half);
    region.nt_store(start + HEADER, &bytes)?;
    let checksum = checkpoint_sum(&bytes);
    region.write(start, &Header { checkpoint: bytes.len() as u64, checksum, tail, zero: 0 })?;
    region.flush(start, HEADER);
    Ok(tail)
}

/// How often a list of bytes that grows one by one got memory: it doubles, from 8 on.
fn growths(bytes: usize) -> u64 {
    u64::from((bytes.next_power_of_two() / 8).max(1).ilog2()) + 1
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
        ran::allocate(growths(record.len()));
        ran::bytes(record.len() as u64);
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
        let head = payload.len() as u64 | u64::from(crc32c(payload)) << 32;
        let mut record = ran::zeroed(len as usize);
        record[..RECORD_HEAD as usize].copy_from_slice(&head.to_le_bytes());
        record[RECORD_HEAD as usize..][..payload.len()].copy_from_slice(payload);
        self.region.nt_store(at, &record)?;
        if self.mutant != Some(mutant::TAIL_AHEAD_OF_RECORD) {
            self.region.fence();
        }
        let word = half_start(self.region.len(), self.active) + TAIL;
        self.commit(word, self.tail + len, ByteRun::new(at, len))?;
        self.tail += len;
        self.logged = true;
        Ok(true)
    }

    /// Leaves a checkpoint with an empty log, so that the next mount has nothing to apply.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.logged { self.checkpoint(None) } else { Ok(()) }
    }

    /// Stores a word that makes what it `needs` count.
    fn commit(&mut self, word: u64, value: u64, needs: ByteRun) -> Result<()> {
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
        self.commit(ACTIVE, other, ByteRun::new(half_start(self.region.len(), other), tail))?;
        (self.active, self.tail, self.logged) = (other, tail, false);
        if let Some(next) = next {
            self.state = next;
        }
        Ok(())
    }
}
