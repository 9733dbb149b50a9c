//! Reads of a device that was written once, in order, without a file system: figures 7 and 8.

use sim::{KIB, MIB};

use super::layout::mixed;
use crate::block::{Op, Request};

/// The device is written this far before, in requests of 256 KiB one after the other (the programs write 512 KiB at once,
/// which the system splits).
pub const WRITTEN: u64 = 2 << 30;
/// Reads go to the first part of it.
pub const SPAN: u64 = 1 << 30;
/// Figure 7 reads this much.
pub const TOTAL: u64 = 8 * MIB;
/// Figure 8: eight jobs, four requests each.
pub const OUTSTANDING: u32 = 32;

/// The writes before.
pub fn fill() -> impl Iterator<Item = Request> {
    (0..WRITTEN).step_by(256 * KIB as usize).map(|at| Request::new(Op::Write, at, 256 * KIB))
}

/// Random reads of 8 MiB in blocks of `block` bytes (figure 7). A block that is larger than the device takes at once is a run
/// of requests of 256 KiB.
pub fn interface(block: u64, seed: u64) -> Vec<Vec<Request>> {
    let blocks = SPAN / block;
    let reads = (0..TOTAL / block).map(|number| {
        let start = mixed(seed ^ block, number) % blocks * block;
        let pieces = (0..block).step_by(256 * KIB as usize);
        pieces.map(|at| Request::new(Op::Read, start + at, block.min(256 * KIB))).collect()
    });
    reads.collect()
}

/// `count` random reads of 4 KiB at multiples of `align` bytes (figure 8).
pub fn alignment(align: u64, count: u64, seed: u64) -> impl Iterator<Item = Request> {
    let places = SPAN / align;
    (0..count)
        .map(move |number| Request::new(Op::Read, mixed(seed ^ align, number) % places * align, 4 * KIB))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_mib_are_read_whatever_the_block() {
        for block in [8 * MIB, MIB, 256 * KIB, 4 * KIB] {
            let reads = interface(block, 1);
            let bytes: u64 = reads.iter().flatten().map(|read| read.bytes).sum();
            assert_eq!((bytes, reads.len() as u64), (TOTAL, TOTAL / block));
            assert!(reads.iter().flatten().all(|read| read.offset + read.bytes <= SPAN));
        }
    }

    #[test]
    fn aligned_reads_are_aligned() {
        assert!(alignment(192 * KIB, 100, 3).all(|read| read.offset % (192 * KIB) == 0));
    }
}
