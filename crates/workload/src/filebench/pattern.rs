//! What is written, so that it can be checked: a pattern that follows from the path of a file and the
//! offset in it.
//!
//! Filebench writes whatever lies in memory, which says nothing when it is read back and flatters file
//! systems that compress. Weir writes pieces of one long pseudo-random sequence that repeats every
//! [`PERIOD`] bytes. A file starts at a phase that is a hash of its path:
//!
//! ```text
//! byte at offset o of the file p  =  sequence[(phase(p) + o) mod PERIOD]
//! ```
//!
//! So a write needs no generation and no copy: its data is a slice of the sequence, of which one is kept
//! for all threads, extended past the period by the longest write. Appended, partly written and overwritten
//! files all follow the rule, whichever task wrote which part, and a verifier needs the seed and the path only.
//!
//! Strength: the period is a prime, so no two blocks of a file at different offsets below `PERIOD` blocks
//! are equal, whatever the block size. A block from another file, or from another place of this one, passes
//! by chance once in about a million. What cannot be told is old data of the same file at the same offset,
//! for it has the same contents; lost overwrites are the business of the `check` crate.

use rand::Rng;
use sim::Seed;

/// Length of the sequence in bytes: the largest prime below 2^20.
pub const PERIOD: u32 = 1_048_573;

/// The sequence of one seed, and all its slices.
#[derive(Clone, Debug)]
pub struct Pattern {
    seed: u64,
    sequence: Vec<u8>,
    longest: usize,
}

/// Where the contents of a file begin in the sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase(u32);

/// A byte that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Its offset in the file.
    pub offset: u64,
    /// What it should be.
    pub wanted: u8,
    /// What it is.
    pub found: u8,
}

/// Holes are judged in pieces of this many bytes: no file system allocates less.
const HOLE_BYTES: usize = 512;

impl Pattern {
    /// The sequence of `seed`, with slices of up to `longest` bytes.
    pub fn new(seed: Seed, longest: usize) -> Self {
        let seed = seed.derive("filebench.pattern", 0);
        let period = PERIOD as usize;
        let mut sequence = vec![0; period + longest];
        seed.rng().fill_bytes(&mut sequence[..period]);
        for start in (period..sequence.len()).step_by(period) {
            let len = period.min(sequence.len() - start);
            sequence.copy_within(..len, start);
        }
        Self { seed: seed.0, sequence, longest }
    }

    /// Where the file at `path` begins. The path must be written the same way each time.
    pub fn phase(&self, path: &[u8]) -> Phase {
        const PRIME: u64 = 0x0000_0100_0000_01b3;
        let start = self.seed ^ 0xcbf2_9ce4_8422_2325;
        let hash = path.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
        let mixed = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Phase(((mixed >> 32) % u64::from(PERIOD)) as u32)
    }

    /// The longest slice that needs no copy, in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// `len` bytes of a file from `offset` on. More than [`Self::longest`] bytes are put together in
    /// `scratch`.
    #[inline]
    pub fn bytes<'a>(&'a self, phase: Phase, offset: u64, len: usize, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        let start = Self::start(phase, offset);
        if len <= self.longest {
            return &self.sequence[start..start + len];
        }
        scratch.clear();
        let mut start = start;
        while scratch.len() < len {
            let piece = (self.sequence.len() - start).min(len - scratch.len());
            scratch.extend_from_slice(&self.sequence[start..start + piece]);
            start = (start + piece) % PERIOD as usize;
        }
        scratch
    }

    #[inline]
    fn start(phase: Phase, offset: u64) -> usize {
        ((u64::from(phase.0) + offset % u64::from(PERIOD)) % u64::from(PERIOD)) as usize
    }

    /// Compares `data`, read at `offset`, with what the file should hold.
    ///
    /// With `holes`, aligned pieces of 512 bytes that are zero throughout pass: nothing was written there.
    pub fn check(&self, phase: Phase, offset: u64, data: &[u8], holes: bool) -> Result<(), Mismatch> {
        let mut at = 0;
        while at < data.len() {
            let start = Self::start(phase, offset + at as u64);
            let len = (self.sequence.len() - start).min(data.len() - at);
            let (wanted, found) = (&self.sequence[start..start + len], &data[at..at + len]);
            if wanted != found {
                Self::check_pieces(offset + at as u64, wanted, found, holes)?;
            }
            at += len;
        }
        Ok(())
    }

    fn check_pieces(offset: u64, wanted: &[u8], found: &[u8], holes: bool) -> Result<(), Mismatch> {
        let mut at = 0;
        while at < found.len() {
            let here = offset + at as u64;
            let len = (HOLE_BYTES - (here as usize) % HOLE_BYTES).min(found.len() - at);
            let (wanted, found) = (&wanted[at..at + len], &found[at..at + len]);
            let hole = holes && found.iter().all(|byte| *byte == 0);
            if wanted != found && !hole {
                let index = wanted.iter().zip(found).position(|(wanted, found)| wanted != found).unwrap_or(0);
                let offset = here + index as u64;
                return Err(Mismatch { offset, wanted: wanted[index], found: found[index] });
            }
            at += len;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn pattern() -> Pattern {
        Pattern::new(Seed(7), 1 << 20)
    }

    #[test]
    fn slices_of_any_length_continue_each_other() {
        let pattern = pattern();
        let phase = pattern.phase(b"/tmp/a");
        let (mut one, mut two, mut all) = (Vec::new(), Vec::new(), Vec::new());
        let whole = pattern.bytes(phase, 100, 5 << 20, &mut all);
        let front = pattern.bytes(phase, 100, 3_000_000, &mut one);
        assert_eq!(front, &whole[..3_000_000]);
        let back = pattern.bytes(phase, 100 + 3_000_000, (5 << 20) - 3_000_000, &mut two);
        assert_eq!(back, &whole[3_000_000..]);
    }

    #[test]
    fn files_and_seeds_have_phases_of_their_own() {
        let pattern = pattern();
        let phases: BTreeSet<u32> =
            (0..1000).map(|file| pattern.phase(format!("/tmp/set/{file:08}").as_bytes()).0).collect();
        assert!(phases.len() >= 999, "{}", phases.len());
        assert_ne!(Pattern::new(Seed(8), 0).phase(b"/tmp/a"), pattern.phase(b"/tmp/a"));
    }

    #[test]
    fn blocks_of_another_file_or_place_do_not_pass() {
        let pattern = pattern();
        let (phase, mut scratch) = (pattern.phase(b"/a"), Vec::new());
        let block = pattern.bytes(phase, 8192, 4096, &mut scratch).to_vec();
        assert_eq!(pattern.check(phase, 8192, &block, true), Ok(()));
        for offset in (0..4096u64 * 1000).step_by(4096).filter(|offset| *offset != 8192) {
            assert!(pattern.check(phase, offset, &block, true).is_err(), "{offset}");
        }
        assert!(pattern.check(pattern.phase(b"/b"), 8192, &block, true).is_err());
    }

    #[test]
    fn only_holes_may_be_zero_and_only_when_asked_for() {
        let pattern = pattern();
        let (phase, mut scratch) = (pattern.phase(b"/a"), Vec::new());
        let mut data = pattern.bytes(phase, 0, 4096, &mut scratch).to_vec();
        data[1024..1536].fill(0);
        assert_eq!(pattern.check(phase, 0, &data, true), Ok(()));
        let mismatch = pattern.check(phase, 0, &data, false).unwrap_err();
        assert!((1024..1030).contains(&mismatch.offset) && mismatch.found == 0, "{mismatch:?}");
        data[1535] = 1;
        assert!(pattern.check(phase, 0, &data, true).is_err(), "a piece that is partly zero is damage");
    }

    proptest! {
        #[test]
        fn whatever_is_cut_out_passes_and_one_changed_bit_does_not(
            offset in 0u64..1 << 40,
            len in 1usize..9000,
            bit in any::<prop::sample::Index>(),
        ) {
            let pattern = Pattern::new(Seed(3), 4096);
            let (phase, mut scratch) = (pattern.phase(b"/x/y"), Vec::new());
            let mut data = pattern.bytes(phase, offset, len, &mut scratch).to_vec();
            prop_assert_eq!(pattern.check(phase, offset, &data, false), Ok(()));
            let at = bit.index(len);
            data[at] ^= 1;
            let mismatch = pattern.check(phase, offset, &data, false).unwrap_err();
            prop_assert_eq!(mismatch.offset, offset + at as u64);
        }
    }
}
