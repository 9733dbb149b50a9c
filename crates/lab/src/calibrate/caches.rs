//! The private cache of a core and the cache of the socket: how much they hold, and what a copy and a load take there.
//!
//! Sizes are powers of two, found by pointer chases: the kernel's lists name the caches of a processor that other guests of the
//! host may use, too. A host on which no more is cached than a private cache holds is taken to have none.

use std::hint::black_box;
use std::sync::atomic::{Ordering::SeqCst, fence};

use sim::{Bytes, Caches, KIB, Work};

use super::{Measured, PIECE, Times, chase_ps, gb_per_s, median_ps, nanoseconds, value};
use crate::machine::Value;

/// Sizes that the private cache of a core may have, in KiB.
const PRIVATE: [usize; 6] = [128, 256, 512, 1024, 2048, 4096];

/// The levels that were measured.
pub(super) struct Levels {
    private: Bytes,
    private_copy: Times,
    socket_copy: Times,
    socket_hit: Times,
}

/// Measures the levels of a host on which `cache` is cached.
pub(super) fn measure(measured: &[Measured], cache: Bytes) -> Option<Levels> {
    let step = measured.iter().find(|one| one.work == Work::STEP)?.times.median;
    // A step of the chase that gives the price of a step is in it, and one in the next level takes several times as long.
    let private =
        PRIVATE.map(|kib| kib * KIB as usize).into_iter().take_while(|bytes| chase_ps(*bytes) < 2 * step);
    let private = private.last()?;
    if cache.0 <= private as u64 {
        return None;
    }
    Some(Levels {
        private: Bytes(private as u64),
        private_copy: Times::measure(|| copy_ps_per_byte(private / 2)),
        socket_copy: Times::measure(|| copy_ps_per_byte(cache.0 as usize)),
        socket_hit: Times::measure(|| chase_ps((2 * private).min(cache.0 as usize))),
    })
}

impl Levels {
    /// The prices of a machine, and their lines in its file.
    pub(super) fn priced(&self) -> (Caches, Vec<Value>) {
        let Self { private, private_copy, socket_copy, socket_hit } = self;
        let caches = Caches {
            private: *private,
            private_copy_ps_per_byte: private_copy.median,
            socket_copy_ps_per_byte: socket_copy.median.max(private_copy.median),
            socket_hit_ps: socket_hit.median,
            flush_evicts: false,
            ways: None,
        };
        let copy = |times: &Times, of: &str| {
            format!(
                "a copy of 4 KiB between a buffer of as much and {of}, each waited for ({})",
                times.told(gb_per_s)
            )
        };
        let hit = format!("a pointer chase through twice that ({})", socket_hit.told(nanoseconds));
        let mib = private.0 as f64 / sim::MIB as f64;
        let values = vec![
            value(
                "private",
                format!("{mib} MiB"),
                "the most memory of which a step of a pointer chase takes less than twice one through 128 KiB",
            ),
            value(
                "private_copy",
                gb_per_s(caches.private_copy_ps_per_byte),
                &copy(private_copy, "half of that"),
            ),
            value(
                "socket_copy",
                gb_per_s(caches.socket_copy_ps_per_byte),
                &copy(socket_copy, "all that is cached"),
            ),
            value("socket_hit", format!("{} ns", socket_hit.median as f64 / 1_000.0), &hit),
        ];
        (caches, values)
    }
}

/// Time of one byte of copies to and fro between a buffer and so many bytes.
fn copy_ps_per_byte(bytes: usize) -> u64 {
    let (mut set, mut buffer) = (vec![1_u8; bytes], vec![1_u8; PIECE]);
    let pieces = bytes / PIECE;
    let mut at = 0;
    let pair = median_ps(4_000, || {
        at = (at + 40_503) % pieces;
        buffer.copy_from_slice(black_box(&set[at * PIECE..(at + 1) * PIECE]));
        fence(SeqCst);
        at = (at + 40_503) % pieces;
        set[at * PIECE..(at + 1) * PIECE].copy_from_slice(black_box(&buffer));
        fence(SeqCst);
    });
    (pair / (2 * PIECE as u64)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_written_and_read_as_it_was() {
        let levels = Levels {
            private: Bytes(KIB * 512),
            private_copy: Times::of(vec![13, 12, 14]),
            socket_copy: Times::of(vec![10]),
            socket_hit: Times::of(vec![10_740]),
        };
        let (caches, values) = levels.priced();
        assert_eq!(caches.socket_copy_ps_per_byte, 13, "a copy in the larger cache takes no less");
        let mut preset = crate::machine::MachinePreset::load("hinfs-server,caches=none").unwrap();
        assert_eq!(preset.machine.caches, None);
        preset.values.extend(values);
        let read = crate::machine::MachinePreset::parse("mine.toml", &preset.to_toml()).unwrap();
        assert_eq!(read.machine.caches, Some(caches));
    }
}
