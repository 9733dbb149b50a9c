//! Times of inodes: 34 bits of seconds and 30 of nanoseconds, in two fields of 32 bits.
//!
//! ```text
//! time    low 32 bits of the seconds
//! extra   nanoseconds << 2 | upper 2 bits of the seconds
//! ```
//!
//! The seconds are a number in two's complement: they reach from 1697 to 2242, in four *eras* of 136 years. What an image of
//! version 0 has, seconds without a sign until 2106, reads as the same time, for its `extra` is 0. A time outside this range is
//! set to the nearer end.
//!
//! The fields lie so that the journal's entry for an inode's first half holds all of ctime and mtime: a rollback, by a call that
//! fails or by recovery, restores the times to the nanosecond. Where times change in place, `extra` is stored before the seconds,
//! into the same line: a crash between the two leaves the old seconds with the new fraction. A change into another era would
//! leave neither time, so it takes a transaction.

use media::event::Mark;
use vfs::{SetTime, Timestamp};

use super::Volume;
use super::inode::Inode;
use super::layout::{RawInode, ino};
use base::error::Result;

/// The last second. The first is its complement.
const LAST_SECS: i64 = (1 << 33) - 1;
const LAST_NANOS: u32 = 999_999_999;

/// Seconds of the calendar, for fields of 32 bits without a fraction: until 2106.
pub(crate) fn seconds() -> u32 {
    Timestamp::now().secs as u32
}

/// What a time becomes; none: it stays.
pub(crate) fn changed(old: Timestamp, new: Option<SetTime>, now: Timestamp) -> Timestamp {
    match new {
        None => old,
        Some(SetTime::Now) => now,
        Some(SetTime::To(time)) => time,
    }
}

fn encode(time: Timestamp) -> (u32, u32) {
    let first = Timestamp { secs: !LAST_SECS, nanos: 0 };
    let last = Timestamp { secs: LAST_SECS, nanos: LAST_NANOS };
    let Timestamp { secs, nanos } = time.clamp(first, last);
    (secs as u32, nanos.min(LAST_NANOS) << 2 | (secs >> 32) as u32 & 3)
}

fn decode(time: u32, extra: u32) -> Timestamp {
    // The sign is that of the upper two bits.
    let upper = i64::from((extra << 30).cast_signed() >> 30);
    Timestamp { secs: upper << 32 | i64::from(time), nanos: (extra >> 2).min(LAST_NANOS) }
}

impl RawInode {
    pub(crate) fn ctime(&self) -> Timestamp {
        decode(self.ctime, self.ctime_extra)
    }

    pub(crate) fn mtime(&self) -> Timestamp {
        decode(self.mtime, self.mtime_extra)
    }

    pub(crate) fn atime(&self) -> Timestamp {
        decode(self.atime, self.atime_extra)
    }

    pub(crate) fn set_ctime(&mut self, time: Timestamp) {
        (self.ctime, self.ctime_extra) = encode(time);
    }

    pub(crate) fn set_mtime(&mut self, time: Timestamp) {
        (self.mtime, self.mtime_extra) = encode(time);
    }

    pub(crate) fn set_atime(&mut self, time: Timestamp) {
        (self.atime, self.atime_extra) = encode(time);
    }

    /// Contents and attributes change.
    pub(crate) fn touch(&mut self, now: Timestamp) {
        self.set_ctime(now);
        (self.mtime, self.mtime_extra) = (self.ctime, self.ctime_extra);
    }

    /// Whether ctime or mtime lies in another era than the present.
    pub(crate) fn leaves_era(&self, now: Timestamp) -> bool {
        let (_, extra) = encode(now);
        ((self.ctime_extra ^ extra) | (self.mtime_extra ^ extra)) & 3 != 0
    }

    /// Whether every fraction is less than a second.
    pub(crate) fn times_are_possible(&self) -> bool {
        [self.ctime_extra, self.mtime_extra, self.atime_extra].iter().all(|extra| extra >> 2 <= LAST_NANOS)
    }

    /// The word of ctime and mtime.
    pub(crate) fn times_word(&self) -> u64 {
        u64::from(self.ctime) | u64::from(self.mtime) << 32
    }

    /// The words at [`ino::EXTRAS`].
    fn extras_pair(&self) -> [u64; 2] {
        let mode = u64::from(self.mode) << 32 | u64::from(self.links) << 48;
        [u64::from(self.ctime_extra) | mode, u64::from(self.blocks) | u64::from(self.mtime_extra) << 32]
    }

    /// The words at [`ino::ACCESS`].
    fn access_pair(&self) -> [u64; 2] {
        let access = [(self.generation, self.atime), (self.rdev, self.atime_extra)];
        access.map(|(low, high)| u64::from(low) | u64::from(high) << 32)
    }
}

impl Volume {
    /// Stores what comes before ctime and mtime where they change in place: their fractions, and mode, links and blocks with them.
    pub(crate) fn store_extras(&self, inode: &Inode, raw: &RawInode) -> Result<()> {
        let at = inode.offset + ino::EXTRAS;
        self.region.mark(Mark::Commit { at, needs: &[] });
        Ok(self.region.store_pair(at, raw.extras_pair())?)
    }

    /// Stores atime, whole.
    pub(crate) fn store_atime(&self, inode: &Inode, raw: &RawInode) -> Result<()> {
        let at = inode.offset + ino::ACCESS;
        self.region.mark(Mark::Commit { at, needs: &[] });
        Ok(self.region.store_pair(at, raw.access_pair())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(secs: i64, nanos: u32) -> (i64, u32) {
        let (time, extra) = encode(Timestamp { secs, nanos });
        let back = decode(time, extra);
        (back.secs, back.nanos)
    }

    #[test]
    fn times_keep_their_nanoseconds_from_1697_to_2242() {
        for secs in [0, 1, -1, i64::from(i32::MAX) + 1, 1 << 32, -(1 << 32), (1 << 33) - 1, -(1 << 33)] {
            for nanos in [0, 1, 999_999_999] {
                assert_eq!(stored(secs, nanos), (secs, nanos));
            }
        }
    }

    #[test]
    fn a_time_beyond_an_end_becomes_that_end() {
        assert_eq!(stored(1 << 33, 0), ((1 << 33) - 1, 999_999_999));
        assert_eq!(stored(i64::MAX, 5), ((1 << 33) - 1, 999_999_999));
        assert_eq!(stored(-(1 << 33) - 1, 999_999_999), (-(1 << 33), 0));
        assert_eq!(stored(i64::MIN, 5), (-(1 << 33), 0));
    }

    #[test]
    fn seconds_of_version_0_read_as_they_were_until_2106() {
        for secs in [0, 1_700_000_000, 1 << 31, u32::MAX] {
            assert_eq!(decode(secs, 0), Timestamp { secs: i64::from(secs), nanos: 0 });
        }
    }

    #[test]
    fn no_bits_of_a_damaged_image_make_a_second_longer() {
        assert_eq!(decode(0, u32::MAX).nanos, 999_999_999);
    }
}
