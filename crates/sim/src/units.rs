//! Units: a bare integer never means time or size across a crate's border.
//!
//! | type | unit | is written |
//! |---|---|---|
//! | [`Nanos`] | nanoseconds: a span, or a time since the start of the run | `200ns`, `1.5ms`, `30s` |
//! | [`Bytes`] | bytes | `4096`, `4k`, `1.5GiB`, `1GB` |
//! | [`Rate`] | bytes a second | `1GB/s`, `1GiB/s` |
//! | [`ByteRun`] | bytes: where they begin and how many | – |
//! | [`Run`] | numbered units, as blocks: the first and how many | – |

mod parse;
mod range;

pub use parse::ParseUnitError;
pub use range::{ByteRun, Run};

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// 2^10 bytes.
pub const KIB: u64 = 1 << 10;
/// 2^20 bytes.
pub const MIB: u64 = 1 << 20;
/// 2^30 bytes.
pub const GIB: u64 = 1 << 30;
/// A cache line: the unit of flushing.
pub const LINE_BYTES: usize = 64;
/// A page: the base block of every design.
pub const PAGE_BYTES: usize = 4096;

/// A span of time, or a point in time since the start of the run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// Later than any run lasts.
    pub const MAX: Self = Self(u64::MAX);

    /// Microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// Milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// Seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// The number of seconds, as a fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self - earlier`, or zero.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, n: u64) -> Self {
        Self(self.0 * n)
    }
}

impl Div<u64> for Nanos {
    type Output = Self;
    fn div(self, n: u64) -> Self {
        Self(self.0 / n)
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 10_000 => write!(f, "{ns} ns"),
            ns if ns < 10_000_000 => write!(f, "{:.1} us", ns as f64 / 1e3),
            ns if ns < 10_000_000_000 => write!(f, "{:.1} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.1} s", ns as f64 / 1e9),
        }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n * KIB)
    }

    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n * MIB)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n * GIB)
    }

    /// The size as a `usize` (every host of Weir has 64-bit addresses).
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 3] = [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
        for (unit, name) in STEPS {
            if self.0 >= unit {
                return match self.0 % unit {
                    0 => write!(f, "{} {name}", self.0 / unit),
                    _ => write!(f, "{:.1} {name}", self.0 as f64 / unit as f64),
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A bandwidth, in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(pub u64);

impl Rate {
    /// The time that `size` takes at this rate, rounded to the nearest nanosecond; [`Nanos::MAX`] at rate
    /// zero.
    pub const fn time(self, size: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos::MAX;
        }
        Nanos(((size.0 as u128 * 1_000_000_000 + self.0 as u128 / 2) / self.0 as u128) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 3] = [(1_000_000_000, "GB/s"), (1_000_000, "MB/s"), (1_000, "kB/s")];
        for (unit, name) in STEPS {
            if self.0 >= unit {
                return match self.0 % unit {
                    0 => write!(f, "{} {name}", self.0 / unit),
                    _ => write!(f, "{:.2} {name}", self.0 as f64 / unit as f64),
                };
            }
        }
        write!(f, "{} B/s", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_with_binary_units() {
        assert_eq!(Bytes::gib(5).to_string(), "5 GiB");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(17).to_string(), "17 B");
    }

    #[test]
    fn a_rate_tells_how_long_a_size_takes() {
        assert_eq!(Rate(1_000_000_000).time(Bytes(4096)), Nanos(4096));
        assert_eq!(Rate(2_000_000_000).time(Bytes(65)), Nanos(33));
        assert_eq!(Rate(0).time(Bytes(1)), Nanos::MAX);
        assert_eq!(Rate(64_000_000_000).time(Bytes::gib(64)), Nanos(1 << 30));
        assert_eq!(Rate(2_500_000_000).to_string(), "2.50 GB/s");
    }

    #[test]
    fn times_pick_a_readable_unit() {
        assert_eq!(Nanos(200).to_string(), "200 ns");
        assert_eq!(Nanos(12_800).to_string(), "12.8 us");
        assert_eq!(Nanos::from_secs(60).to_string(), "60.0 s");
    }
}
