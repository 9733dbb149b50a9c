//! The target file of 8 MiB in pieces, other files' writes between them, and how it is read.
//!
//! ```text
//! append     T0 d0 T1 d1 T2 d2 …      each piece new blocks, then a dummy file
//! overwrite  T0 T1 T2 …  T0' d0 T1' d1 …    written at once, then each piece again in place, then a dummy
//! ```

use sim::{KIB, MIB};

use super::{GRANULE, REQUEST, TARGET};
use crate::block::{Hint, Op, Request};

/// How the target comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Written alone and at once, in calls of 1 MiB.
    AtOnce,
    /// In this many appends, dummies between them.
    Appends(u64),
    /// At once, then this many pieces again in place, dummies between them.
    Overwrites(u64),
}

/// What is written between two pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dummy {
    /// Nothing.
    None,
    /// A file of this size.
    Bytes(u64),
    /// Files of 1 to 32 granules, as the artifact's generator gave them.
    Published,
    /// Files of 1 to 32 granules out of a generator with this seed.
    Random(u64),
}

/// A target file and its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How the target comes to be.
    pub writing: Writing,
    /// What is written between.
    pub dummy: Dummy,
    /// Pages of 4 KiB that are written before anything else: the phase of the device's open flash page.
    pub phase: u64,
}

/// The sizes of the artifact's random dummies in granules: `rand() mod 32 + 1` of the C library without a seed, after the
/// 209,715,200 draws that fill a buffer.
#[rustfmt::skip]
pub(crate) const PUBLISHED: [u8; 256] = [
    21, 2, 4, 7, 7, 31, 21, 7, 10, 22, 26, 2, 27, 5, 20, 19, 6, 30, 1, 30, 27, 7, 4, 7, 15, 4, 19, 3, 14, 22, 20, 3, 23, 23, 9,
    30, 21, 29, 4, 30, 18, 29, 31, 12, 1, 18, 30, 7, 15, 30, 4, 10, 5, 7, 16, 19, 10, 2, 22, 23, 23, 9, 25, 14, 31, 1, 11, 19,
    30, 14, 17, 15, 11, 15, 27, 11, 1, 24, 17, 15, 22, 20, 24, 26, 26, 7, 12, 3, 9, 1, 26, 31, 9, 18, 12, 7, 19, 22, 26, 16, 4,
    10, 30, 14, 24, 24, 24, 24, 16, 9, 7, 5, 28, 30, 30, 22, 5, 9, 24, 13, 10, 17, 11, 18, 3, 23, 25, 21, 12, 18, 4, 15, 27, 1,
    28, 18, 25, 20, 10, 8, 28, 16, 12, 23, 13, 9, 12, 17, 17, 4, 29, 26, 20, 8, 12, 22, 30, 4, 10, 9, 21, 13, 24, 15, 14, 19, 32,
    6, 6, 9, 13, 1, 24, 24, 24, 5, 32, 3, 21, 16, 6, 18, 10, 26, 25, 21, 15, 22, 24, 25, 30, 12, 5, 21, 26, 18, 8, 25, 23, 13, 2,
    3, 14, 25, 26, 5, 29, 25, 7, 18, 9, 13, 3, 18, 6, 27, 6, 20, 16, 29, 12, 13, 8, 17, 2, 1, 2, 9, 25, 25, 21, 26, 27, 2, 19, 21,
    6, 15, 13, 13, 32, 21, 25, 2, 6, 30, 28, 11, 17, 11, 7, 29, 24, 14, 13, 25,
];

/// What happens to the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Writes; the program waits for all requests of one before it goes on.
    pub writes: Vec<Vec<Request>>,
    /// Where each stretch of the target lies: byte on the device, length; in the order of the file.
    pub extents: Vec<(u64, u64)>,
}

impl Layout {
    /// The requests that write it, and where the target then lies.
    pub fn traffic(&self) -> Traffic {
        let mut log = Log::default();
        if self.phase > 0 {
            log.file(self.phase * 4 * KIB);
        }
        match self.writing {
            Writing::AtOnce => (0..TARGET / MIB).for_each(|_| log.append(MIB)),
            Writing::Appends(pieces) => {
                for piece in 0..pieces {
                    log.append(TARGET / pieces);
                    log.dummy(self.dummy, piece);
                }
            }
            Writing::Overwrites(pieces) => {
                (0..TARGET / MIB).for_each(|_| log.append(MIB));
                for piece in 0..pieces {
                    log.overwrite(piece * TARGET / pieces, TARGET / pieces);
                    log.dummy(self.dummy, piece);
                }
            }
        }
        log.traffic
    }
}

/// Blocks are handed out one after the other.
#[derive(Debug, Default)]
struct Log {
    next: u64,
    traffic: Traffic,
}

impl Log {
    /// Appends to the target.
    fn append(&mut self, bytes: u64) {
        let previous = self.traffic.extents.last().map(|(start, len)| start + len - 4 * KIB);
        let start = self.take(bytes);
        self.write(start, bytes, previous);
        match self.traffic.extents.last_mut() {
            Some((first, len)) if *first + *len == start => *len += bytes,
            _ => self.traffic.extents.push((start, bytes)),
        }
    }

    /// Writes a part of the target again; it was written at once, so it is one extent.
    fn overwrite(&mut self, offset: u64, bytes: u64) {
        let start = self.traffic.extents[0].0 + offset;
        let requests = pieces(start, bytes).map(|(offset, bytes)| Request {
            hint: Hint::Overwrite,
            ..Request::new(Op::Write, offset, bytes)
        });
        self.traffic.writes.push(requests.collect());
    }

    fn dummy(&mut self, dummy: Dummy, piece: u64) {
        let bytes = match dummy {
            Dummy::None => return,
            Dummy::Bytes(bytes) => bytes,
            Dummy::Published => u64::from(PUBLISHED[piece as usize % PUBLISHED.len()]) * GRANULE,
            Dummy::Random(seed) => (mixed(seed, piece) % 32 + 1) * GRANULE,
        };
        if bytes > 0 {
            self.file(bytes);
        }
    }

    /// A new file, written and synchronised at once.
    fn file(&mut self, bytes: u64) {
        let start = self.take(bytes);
        self.write(start, bytes, None);
    }

    fn take(&mut self, bytes: u64) -> u64 {
        self.next += bytes;
        self.next - bytes
    }

    /// New blocks; `previous` is the block before them in their file. Each request is hinted by its own first page.
    fn write(&mut self, start: u64, bytes: u64, previous: Option<u64>) {
        let requests = pieces(start, bytes).map(|(offset, len)| {
            let previous = if offset == start { previous } else { Some(offset - 4 * KIB) };
            let hint = previous.map_or(Hint::None, |previous| Hint::Append { previous });
            Request { hint, ..Request::new(Op::Write, offset, len) }
        });
        self.traffic.writes.push(requests.collect());
    }
}

impl Traffic {
    /// Reads of the target in calls of `call` bytes: each call's requests, split at extents and at [`REQUEST`].
    pub fn reads(&self, call: u64) -> Vec<Vec<Request>> {
        let mut calls = Vec::new();
        let mut left = call;
        let mut requests = Vec::new();
        for (start, len) in &self.extents {
            let mut at = 0;
            while at < *len {
                let bytes = left.min(len - at);
                requests.extend(pieces(start + at, bytes).map(|(at, len)| Request::new(Op::Read, at, len)));
                (at, left) = (at + bytes, left - bytes);
                if left == 0 {
                    calls.push(std::mem::take(&mut requests));
                    left = call;
                }
            }
        }
        if !requests.is_empty() {
            calls.push(requests);
        }
        calls
    }
}

/// A range as the system hands it to the device.
fn pieces(start: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes).step_by(REQUEST as usize).map(move |at| (start + at, REQUEST.min(bytes - at)))
}

/// A number without a pattern.
pub(super) fn mixed(seed: u64, index: u64) -> u64 {
    let mut x =
        seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::super::STRIPE;
    use super::*;

    const WORST: Dummy = Dummy::Bytes(STRIPE - GRANULE);

    fn traffic(writing: Writing, dummy: Dummy) -> Traffic {
        Layout { writing, dummy, phase: 0 }.traffic()
    }

    #[test]
    fn the_worst_case_puts_every_piece_a_stripe_apart() {
        let traffic = traffic(Writing::Appends(256), WORST);
        assert_eq!(traffic.extents.len(), 256);
        assert!((0..).zip(&traffic.extents).all(|(i, extent)| *extent == (i * STRIPE, GRANULE)));
        let second = traffic.writes[2][0];
        assert_eq!(second.hint, Hint::Append { previous: GRANULE - 4 * KIB });
        assert_eq!(traffic.reads(MIB).len(), 8);
        assert_eq!(traffic.reads(MIB)[0].len(), 32);
    }

    #[test]
    fn a_contiguous_file_is_read_in_large_requests() {
        let traffic = traffic(Writing::AtOnce, Dummy::None);
        assert_eq!(traffic.extents, [(0, TARGET)]);
        let reads = traffic.reads(MIB);
        assert!(reads.len() == 8 && reads.iter().all(|call| call.len() == 4));
        assert_eq!(traffic.writes[0][1].hint, Hint::Append { previous: REQUEST - 4 * KIB });
    }

    #[test]
    fn an_overwrite_leaves_one_extent() {
        let traffic = traffic(Writing::Overwrites(256), WORST);
        assert_eq!((traffic.extents.len(), traffic.writes.len()), (1, 8 + 2 * 256));
        assert_eq!(traffic.writes[8][0].hint, Hint::Overwrite);
    }

    #[test]
    fn published_sizes_are_those_of_the_generator() {
        assert_eq!(PUBLISHED.iter().map(|n| u64::from(*n)).sum::<u64>(), 4_142);
        assert!(PUBLISHED.iter().all(|size| (1..=32).contains(size)));
    }

    #[test]
    fn a_period_of_any_degree_is_eight_mib() {
        for pieces in [1, 2, 32, 256] {
            let traffic = traffic(Writing::Appends(pieces), Dummy::Bytes(TARGET - TARGET / pieces));
            assert!((0..).zip(&traffic.extents).all(|(i, (start, _))| *start == i * TARGET));
        }
    }
}
