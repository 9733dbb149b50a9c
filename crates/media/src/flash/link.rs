//! Links: the channels between dies and controller, and the PCIe link to the host.
//!
//! A link hands out *credits* of 128 bytes in buckets of 4 us, as NVMeVirt does (FAST 2023, section 3.3). A transfer that is
//! ready at `at` takes what is free in the bucket of that time, then in the following ones:
//!
//! ```text
//! units    = ceil(bytes / 128)                credits = floor(floor(rate * 4 us) / 128)
//! time     = at + units * floor(128 / rate) + 4 us * (buckets moved - floor(units / credits), at least 0)
//! ```
//!
//! So a transfer may use a gap that an earlier request left, which a queue would not allow, and pays in steps of 4 us when
//! others used its bucket. Buckets of the past are forgotten. NVMeVirt keeps 98,304 buckets and lets a transfer beyond them
//! pass for nothing; here the ring grows.

/// Bytes of one credit.
const UNIT_BYTES: u64 = 128;
/// Length of a bucket, in nanoseconds.
const BUCKET_NS: u64 = 4_000;
/// Buckets at first: 4 ms.
const FIRST_BUCKETS: usize = 1_024;

/// One link.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Nanoseconds of one unit.
    unit_ns: u64,
    /// Units that fit a bucket.
    credits: u16,
    /// Units used in each bucket of the ring; its length is a power of two.
    used: Vec<u16>,
    /// The oldest bucket that can still be used.
    base: u64,
    /// Beyond the last bucket that was used.
    end: u64,
}

impl Link {
    /// A link of this many bytes a second; `extra_ns` of firmware time is added to every 4 KiB.
    pub(crate) fn new(bytes_per_s: u64, extra_ns: u64) -> Self {
        let bucket_bytes = u128::from(bytes_per_s) * u128::from(BUCKET_NS) / 1_000_000_000;
        let credits = (bucket_bytes as u64 / UNIT_BYTES).min(u64::from(u16::MAX));
        let unit_ns = UNIT_BYTES * 1_000_000_000 / bytes_per_s + extra_ns * UNIT_BYTES / 4_096;
        Self { unit_ns, credits: credits as u16, used: vec![0; FIRST_BUCKETS], base: 0, end: 0 }
    }

    /// The slowest rate that has a credit in each bucket, in bytes a second.
    pub(crate) const SLOWEST: u64 = UNIT_BYTES * 1_000_000_000 / BUCKET_NS;

    /// When a transfer of `bytes` that is ready at `at` ends. Nothing will ask for a time before `now` again.
    #[inline]
    pub(crate) fn request(&mut self, now: u64, at: u64, bytes: u64) -> u64 {
        self.forget(now / BUCKET_NS);
        let units = bytes.div_ceil(UNIT_BYTES);
        let first = at / BUCKET_NS;
        let mut bucket = first;
        let mut left = units;
        loop {
            if bucket - self.base >= self.used.len() as u64 {
                self.grow(bucket);
            }
            let mask = self.used.len() - 1;
            let used = &mut self.used[bucket as usize & mask];
            let taken = left.min(u64::from(self.credits - *used));
            *used += taken as u16;
            left -= taken;
            if left == 0 {
                break;
            }
            bucket += 1;
        }
        self.end = self.end.max(bucket + 1);
        let late = (bucket - first).saturating_sub(units / u64::from(self.credits));
        at + units * self.unit_ns + late * BUCKET_NS
    }

    /// Empties the buckets before `base`.
    #[inline]
    fn forget(&mut self, base: u64) {
        if base <= self.base {
            return;
        }
        let mask = self.used.len() - 1;
        for bucket in self.base..base.min(self.end) {
            self.used[bucket as usize & mask] = 0;
        }
        self.base = base;
    }

    /// Makes room for `bucket`.
    #[cold]
    fn grow(&mut self, bucket: u64) {
        let length = (bucket - self.base + 1).next_power_of_two() as usize;
        let mut used = vec![0; length];
        for old in self.base..self.end {
            used[old as usize & (length - 1)] = self.used[old as usize & (self.used.len() - 1)];
        }
        self.used = used;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_published_rates_give_the_published_units() {
        for (mib, credits, unit_ns) in
            [(800, 26, 152), (3360, 110, 36), (450, 14, 271), (3200, 104, 38), (3050, 99, 40)]
        {
            let link = Link::new(mib * MIB, 0);
            assert_eq!((link.credits, link.unit_ns), (credits, unit_ns), "{mib} MiB/s");
        }
        assert_eq!(Link::new(800 * MIB, 413).unit_ns, 152 + 12, "firmware time of the ZNS prototype");
    }

    #[test]
    fn a_transfer_uses_what_is_left_of_a_bucket_and_pays_for_whole_buckets() {
        let mut link = Link::new(800 * MIB, 0);
        // 32 units: 26 in the first bucket, 6 in the second; the first step is what the transfer takes anyway.
        assert_eq!(link.request(0, 0, 4096), 32 * 152);
        // 20 are left in the second bucket, 12 go to the third.
        assert_eq!(link.request(0, 0, 4096), 32 * 152 + 4_000);
        assert_eq!(link.request(0, 100_000, 128), 100_152);
    }

    #[test]
    fn a_gap_far_ahead_and_one_long_ago_are_the_same() {
        let mut link = Link::new(800 * MIB, 0);
        let mut far = link.clone();
        let times: Vec<u64> = (0..100).map(|i| link.request(0, i * 1_000, 4096)).collect();
        let shift = 3_000_000 * BUCKET_NS;
        let shifted: Vec<u64> =
            (0..100).map(|i| far.request(shift, shift + i * 1_000, 4096) - shift).collect();
        assert_eq!(times, shifted);
        assert_eq!(far.request(shift, 2 * shift, 4096), 2 * shift + 32 * 152, "beyond the ring");
    }
}
