//! Units as people write them: `4KiB`, `1.5g`, `200ns`, `1GB/s`.
//!
//! Sizes are binary unless the suffix is one of the decimal `kB`, `MB`, `GB`, `TB`. `KB` is refused: half of
//! its readers would be wrong. Numbers are decimal fractions, computed without floating point and rounded to
//! the nearest whole unit, so a text means the same everywhere.

use std::str::FromStr;

use super::{Bytes, Nanos, Rate};

/// A text that is not a size, a time or a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not {expected}")]
pub struct ParseUnitError {
    text: String,
    expected: &'static str,
}

const SIZE: &str = "a size: write bytes (4096), binary units (4k, 4KiB, 1M, 1.5GiB) or decimal units \
                    (4kB, 1MB, 1GB), below 2^64 bytes";
const TIME: &str = "a time: write a number and a unit (100ns, 2us, 5ms, 30s, 2m, 1h), below 584 years";
const RATE: &str = "a rate: write a size a second (1GB/s = 10^9 bytes/s, 1GiB/s = 2^30 bytes/s)";

impl FromStr for Bytes {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse(text, size_unit).map(Self).ok_or_else(|| error(text, SIZE))
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse(text, time_unit).map(Self).ok_or_else(|| error(text, TIME))
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let size = text.trim().strip_suffix("/s").unwrap_or("");
        parse(size, size_unit).map(Self).ok_or_else(|| error(text, RATE))
    }
}

fn error(text: &str, expected: &'static str) -> ParseUnitError {
    ParseUnitError { text: text.to_owned(), expected }
}

fn size_unit(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "" | "B" => 1,
        "k" | "K" | "Ki" | "KiB" => 1 << 10,
        "m" | "M" | "Mi" | "MiB" => 1 << 20,
        "g" | "G" | "Gi" | "GiB" => 1 << 30,
        "t" | "T" | "Ti" | "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    })
}

fn time_unit(suffix: &str) -> Option<u64> {
    Some(match suffix {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// More digits behind the point cannot change a result that fits.
const FRACTION_DIGITS: usize = 18;

/// `number [space] suffix`, rounded to the nearest whole unit.
fn parse(text: &str, unit: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let unit = u128::from(unit(suffix.trim_start())?);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > FRACTION_DIGITS {
        return None;
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    let rounded = (u128::from(fraction) * unit + scale / 2) / scale;
    u64::try_from(u128::from(whole) * unit + rounded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Option<u64> {
        text.parse().ok().map(|Bytes(n)| n)
    }

    fn nanos(text: &str) -> Option<u64> {
        text.parse().ok().map(|Nanos(n)| n)
    }

    #[test]
    fn sizes_are_binary_unless_they_say_kb_mb_gb() {
        for text in ["4096", "4k", "4K", "4Ki", "4KiB", "4 KiB", " 4k ", "4096B", "4.0k"] {
            assert_eq!(bytes(text), Some(4096), "{text}");
        }
        assert_eq!(bytes("1M"), bytes("1MiB"));
        assert_eq!(bytes("2g"), Some(2 << 30));
        assert_eq!(bytes("1.5GiB"), Some(3 << 29));
        assert_eq!(
            (bytes("4kB"), bytes("1MB"), bytes("2GB")),
            (Some(4_000), Some(1_000_000), Some(2_000_000_000))
        );
        assert_eq!(bytes("16EiB"), None);
        assert_eq!(bytes("18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn times_need_a_unit() {
        let expected = [("100ns", 100), ("2us", 2_000), ("5ms", 5_000_000), ("30s", 30_000_000_000)];
        for (text, ns) in expected {
            assert_eq!(nanos(text), Some(ns), "{text}");
        }
        assert_eq!(nanos("2m"), Some(120_000_000_000));
        assert_eq!(nanos("1.5h"), Some(5_400_000_000_000));
        assert_eq!(nanos("12.8 us"), Some(12_800));
        assert_eq!(nanos("100"), None);
    }

    #[test]
    fn rates_are_sizes_a_second() {
        assert_eq!("1GB/s".parse(), Ok(Rate(1_000_000_000)));
        assert_eq!("1GiB/s".parse(), Ok(Rate(1 << 30)));
        assert_eq!("2.5 MB/s".parse(), Ok(Rate(2_500_000)));
        assert!("1GB".parse::<Rate>().is_err());
    }

    #[test]
    fn a_wrong_text_is_told_what_is_expected() {
        for text in [
            "",
            "k",
            ".",
            "1.",
            ".5k",
            "-1",
            "1KB",
            "1 k k",
            "1..2k",
            "1e3",
            "99999999999999999999",
            "20000000TiB",
        ] {
            let error = text.parse::<Bytes>().expect_err(text).to_string();
            assert!(error.starts_with(&format!("\"{text}\" is not a size: write bytes (4096)")), "{error}");
        }
        let error = "5".parse::<Nanos>().expect_err("no unit").to_string();
        assert!(error.contains("100ns, 2us"), "{error}");
    }

    proptest! {
        #[test]
        fn printed_sizes_and_times_read_back_within_their_last_digit(n in 0..1_u64 << 52) {
            let size = bytes(&Bytes(n).to_string()).expect("a printed size");
            prop_assert!(size.abs_diff(n) as f64 <= n as f64 * 0.051, "{} read as {size}", Bytes(n));
            let time = nanos(&Nanos(n).to_string()).expect("a printed time");
            prop_assert!(time.abs_diff(n) as f64 <= n as f64 * 0.011, "{} read as {time}", Nanos(n));
        }

        #[test]
        fn any_text_is_a_value_or_an_error(text in "\\PC*") {
            let _ = (text.parse::<Bytes>(), text.parse::<Nanos>(), text.parse::<Rate>());
        }
    }
}
