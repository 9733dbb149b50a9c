//! The buffer benefit model decides whether writes to a block go to DRAM first, or directly to the medium.
//!
//! Between two syncs of a block, `cw` line writes hit it and the sync itself flushes `cf` lines. Buffering costs
//! `cw · L_dram + cf · L_nvmm`, writing directly costs `cw · L_nvmm`. The block is written in the cheaper way until its next
//! sync, on the assumption that the next interval resembles the last (HiNFS, section 3.3.2).
//!
//! ```text
//!              sync, buffering is cheaper                 sync, direct is cheaper
//!        ┌──────────────────────────────┐          ┌──────────────────────────────┐
//!        ▼                              │          ▼                              │
//!      Lazy ──── sync, direct is cheaper ────►   Eager ──── file not synced for 5 s ────► Lazy
//! ```

use sim::Nanos;

/// The latencies that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Benefit {
    /// Writing a line to DRAM.
    pub(crate) dram: Nanos,
    /// Writing a line to the medium.
    pub(crate) medium: Nanos,
}

impl Benefit {
    /// Whether buffering is cheaper for `cw` line writes, when a sync then flushes `cf` lines.
    pub(crate) fn buffering_wins(&self, cw: u64, cf: u64) -> bool {
        cw * self.dram.0 + cf * self.medium.0 < cw * self.medium.0
    }

    /// The state of a block that no sync has judged: where the medium is not slower than DRAM, buffering can never win.
    pub(crate) fn starts_eager(&self) -> bool {
        self.medium <= self.dram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Benefit = Benefit { dram: Nanos(50), medium: Nanos(200) };

    #[test]
    fn append_then_sync_goes_direct() {
        assert!(!SLOW.buffering_wins(128, 128));
    }

    #[test]
    fn four_writes_a_line_stay_buffered() {
        assert!(SLOW.buffering_wins(4, 1));
    }

    #[test]
    fn the_border_is_one_minus_the_ratio_of_latencies() {
        // N_cf / N_cw < 1 - 50/200 = 0.75
        assert!(SLOW.buffering_wins(100, 74));
        assert!(!SLOW.buffering_wins(100, 75));
    }

    #[test]
    fn a_medium_as_fast_as_dram_is_never_worth_a_buffer() {
        let fast = Benefit { dram: Nanos(50), medium: Nanos(50) };
        assert!(fast.starts_eager() && !fast.buffering_wins(1_000_000, 0));
        assert!(!SLOW.starts_eager());
    }
}
