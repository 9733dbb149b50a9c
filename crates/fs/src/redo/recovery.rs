//! What a mount reads: the checkpoint of the active half, and the log behind it.

use std::ops::Range;

use media::nvmm::Region;

use super::layout::{HEADER, Header, RECORD_HEAD, TAIL, half_bytes, half_start};
use super::log::checkpoint_sum;
use super::state::{Change, State, Time};
use super::superblock;
use base::error::{Error, Result};

/// What a record holds.
type Record = (Time, Change);

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
    let active = superblock::load(region)?.active;
    let (start, half) = (half_start(region.len(), active), half_bytes(region.len()));
    let header: Header = region.read(start)?;
    let corrupt = |what: String| Error::Corrupt(format!("half {active}: {what}"));
    let log = HEADER.saturating_add(header.checkpoint).checked_next_multiple_of(8).unwrap_or(u64::MAX);
    if log > header.tail || header.tail > half {
        return Err(corrupt(format!("log from {log} to {} in {half} bytes", header.tail)));
    }
    let mut bytes = vec![0; header.checkpoint as usize];
    region.load(start + HEADER, &mut bytes)?;
    if checkpoint_sum(&bytes) != header.checksum {
        return Err(corrupt("the checkpoint's checksum is wrong".to_owned()));
    }
    let mut state: State =
        postcard::from_bytes(&bytes).map_err(|error| corrupt(format!("checkpoint: {error}")))?;
    state.replaying = true;
    let (mut at, mut records) = (log, 0);
    while at < header.tail {
        let (record, next) = read_record(region, start, at..header.tail).map_err(|error| match error {
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

fn read_record(
    region: &Region,
    start: u64,
    Range { start: at, end: tail }: Range<u64>,
) -> Result<(Record, u64)> {
    let corrupt = |what: &str| Error::Corrupt(what.to_owned());
    let head = region.load_u64(start + at)?;
    let (len, sum) = (head & 0xFFFF_FFFF, (head >> 32) as u32);
    let next = at + RECORD_HEAD + len.next_multiple_of(8);
    if next > tail {
        return Err(corrupt("it passes the tail"));
    }
    let mut payload = vec![0; len as usize];
    region.load(start + at + RECORD_HEAD, &mut payload)?;
    if base::persist::checksum::crc32c(&payload) != sum {
        return Err(corrupt("its checksum is wrong"));
    }
    let record = postcard::from_bytes(&payload).map_err(|error| corrupt(&error.to_string()))?;
    Ok((record, next))
}

/// Moves the tail of the log before its last record if that is torn; says so. A damaged record with others behind it stays: these
/// may depend on it.
pub(super) fn cut_torn_record(region: &Region) -> Result<Option<String>> {
    let active = superblock::load(region)?.active;
    let start = half_start(region.len(), active);
    let header: Header = region.read(start)?;
    let tail = header.tail.min(half_bytes(region.len()));
    let mut at = HEADER.saturating_add(header.checkpoint).checked_next_multiple_of(8).unwrap_or(u64::MAX);
    let is_sound = |at| read_record(region, start, at..tail);
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
