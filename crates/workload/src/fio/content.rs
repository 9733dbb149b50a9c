//! What is written: buffers, and what fills them.

use rand::Rng as _;
use sim::Rng;

use super::job::Fill;
use super::value::Piece;

/// The alignment that O_DIRECT asks for at most.
const ALIGN: usize = 4096;
/// `scramble_buffers` changes something in each piece of so many bytes.
const SCRAMBLED: usize = 512;

/// An aligned buffer for one I/O at a time.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` zeros.
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![0; len + ALIGN];
        // The bytes of a vector that never grows stay where they are.
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self { bytes, start, len }
    }

    /// The first `len` bytes.
    pub(super) fn of(&mut self, len: usize) -> &mut [u8] {
        debug_assert!(len <= self.len);
        &mut self.bytes[self.start..self.start + len]
    }

    /// A buffer that writes begin with.
    pub(super) fn filled(len: usize, fill: &Fill, rng: &mut Rng) -> Self {
        let mut buffer = Self::new(len);
        match fill {
            Fill::Zero => {}
            Fill::Random { .. } => rng.fill_bytes(buffer.of(len)),
            Fill::Pattern(pattern) => repeat(pattern, 0, buffer.of(len)),
        }
        buffer
    }
}

/// Makes the content of write `number`, in a buffer that [`Buffer::filled`] has made.
pub(super) fn refresh(fill: &Fill, data: &mut [u8], number: u64, rng: &mut Rng) {
    match fill {
        Fill::Random { refill: true, .. } => {
            rng.fill_bytes(data);
            charge(data.len());
        }
        Fill::Random { scramble: true, .. } => {
            for (at, part) in data.chunks_exact_mut(SCRAMBLED).enumerate() {
                part[..8].copy_from_slice(&(number ^ (at as u64) << 48).to_le_bytes());
            }
        }
        _ => {}
    }
}

/// The work of making or looking through `len` bytes: that of copying them.
pub(super) fn charge(len: usize) {
    let mut left = len as u64;
    while left > 0 {
        // In pieces, so that tasks share the bandwidth of memory.
        let piece = left.min(ALIGN as u64);
        sim::copy(piece);
        left -= piece;
    }
}

/// Repeats a pattern over a block at `offset` of its file.
pub(super) fn repeat(pattern: &[Piece], offset: u64, block: &mut [u8]) {
    let mut unit = Vec::new();
    for piece in pattern {
        match piece {
            Piece::Bytes(bytes) => unit.extend_from_slice(bytes),
            Piece::Offset => unit.extend_from_slice(&offset.to_le_bytes()),
        }
    }
    for part in block.chunks_mut(unit.len().max(1)) {
        part.copy_from_slice(&unit[..part.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::value;

    fn filled(fill: &Fill) -> (Vec<u8>, Vec<u8>) {
        let mut rng = sim::Seed(1).rng();
        let mut buffer = Buffer::filled(4096, fill, &mut rng);
        let first = buffer.of(4096).to_vec();
        refresh(fill, buffer.of(4096), 1, &mut rng);
        (first, buffer.of(4096).to_vec())
    }

    #[test]
    fn buffers_hold_what_the_options_say() {
        let (first, second) = filled(&Fill::Zero);
        assert!(first.iter().chain(&second).all(|byte| *byte == 0));
        let pattern = Fill::Pattern(value::pattern("0xab\"c\"").unwrap());
        let (first, second) = filled(&pattern);
        assert!(first == second && first.chunks(2).all(|pair| pair == [0xab, b'c']));
        let differing = |scramble, refill| {
            let (first, second) = filled(&Fill::Random { refill, scramble });
            first.iter().zip(&second).filter(|(a, b)| a != b).count()
        };
        assert_eq!(differing(false, false), 0);
        assert!((8..=64).contains(&differing(true, false)), "eight bytes of every 512");
        assert!(differing(true, true) > 4000);
    }

    #[test]
    fn buffers_are_aligned_for_direct_io() {
        for len in [512, 4096, 1 << 20] {
            assert_eq!(Buffer::new(len).of(len).as_ptr() as usize % ALIGN, 0);
        }
    }
}
