//! Numbers for people: three significant digits and a picked unit.
//!
//! Sizes step by 1024 and say so (`KiB`); counts step by 1000 (`k`, `M`); times pick `ns µs ms s`.

use results::curve::Shape;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Operations a second.
    OpsPerSecond,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanos,
    /// One thing by another.
    Ratio,
    /// The class of a curve, by its number in [`results::curve::Shape`].
    Class,
}

/// A unit picked to fit: numbers are divided by `divisor` and followed by `name`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What to divide by.
    pub divisor: f64,
    /// The unit's name.
    pub name: &'static str,
}

const KIB: f64 = 1024.0;
const MIB: f64 = KIB * KIB;
const GIB: f64 = MIB * KIB;

impl Unit {
    /// The unit that a counter's name ends in.
    pub(crate) fn of_counter(name: &str) -> Self {
        let base = name.split('.').next().unwrap_or(name);
        if base.ends_with("_bytes") {
            Self::Bytes
        } else if base.ends_with("_ns") {
            Self::Nanos
        } else {
            Self::Count
        }
    }

    fn steps(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Class => &[(1.0, "")],
            Self::Count => &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G")],
            Self::OpsPerSecond => &[(1.0, "op/s"), (1e3, "kop/s"), (1e6, "Mop/s"), (1e9, "Gop/s")],
            Self::Bytes => &[(1.0, "B"), (KIB, "KiB"), (MIB, "MiB"), (GIB, "GiB")],
            Self::BytesPerSecond => &[(1.0, "B/s"), (KIB, "KiB/s"), (MIB, "MiB/s"), (GIB, "GiB/s")],
            Self::Nanos => &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")],
            Self::Ratio => &[(1.0, "x")],
        }
    }

    /// The step in which `largest` is at least 1 and reads best.
    pub fn scale(self, largest: f64) -> Scale {
        let steps = self.steps();
        let fitting = steps.iter().rev().find(|(divisor, _)| largest.abs() >= *divisor * 0.9995);
        let (divisor, name) = *fitting.unwrap_or(&steps[0]);
        Scale { divisor, name }
    }

    /// The number with its unit: `2.31 Mop/s`, `390 ns`, `4 KiB`, `2.84x`.
    ///
    /// A mean of less than a tenth of a nanosecond is `<0.1 ns`.
    pub fn human(self, value: f64) -> String {
        if self == Self::Class {
            let shape = Shape::ALL.iter().find(|shape| f64::from(**shape as u8).total_cmp(&value).is_eq());
            return shape.map_or_else(String::new, |shape| shape.letter().to_string());
        }
        if self == Self::Nanos && value > 0.0 && value < 0.1 {
            return "<0.1 ns".to_owned();
        }
        let scale = self.scale(value);
        self.suffixed(&self.digits(value, scale), scale)
    }

    /// A number with its interval in the same unit: `2.31 Mop/s (2.28 to 2.35)`.
    pub(crate) fn human_interval(self, value: f64, low: f64, high: f64) -> String {
        let scale = self.scale(value);
        let [low, high] = [low, high].map(|end| self.digits(end, scale));
        format!("{} ({low} to {high})", self.human(value))
    }

    /// The digits of `value` in the unit `scale`.
    pub fn digits(self, value: f64, scale: Scale) -> String {
        let scaled = value / scale.divisor;
        match self {
            Self::Ratio => number(scaled),
            Self::Bytes | Self::BytesPerSecond => digits(scaled),
            _ if scale.divisor <= 1.0 => digits(scaled),
            _ => significant(scaled),
        }
    }

    fn suffixed(self, number: &str, scale: Scale) -> String {
        match self {
            Self::Ratio => format!("{number}x"),
            Self::Count if scale.name.is_empty() => number.to_owned(),
            _ => format!("{number} {}", scale.name),
        }
    }
}

/// Three significant digits without exponent; whole numbers below 1000 stay whole.
pub fn digits(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e3 { format!("{}", value as i64) } else { significant(value) }
}

/// Three significant digits without exponent.
fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "not a number".to_owned();
    }
    // What rounds up to the next power of ten needs a decimal less.
    let decimals = (2.0 - sim::math::log10(value.abs() * 1.0005).floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.decimals$}")
}

/// A ratio or a claim's number with at least two decimals: `1.00`, `0.95`, `17`.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() >= 10.0 {
        return digits(value);
    }
    if (0.095..100.0).contains(&value.abs()) { format!("{value:.2}") } else { digits(value) }
}

/// `1.40x`.
pub fn ratio(value: f64) -> String {
    format!("{}x", number(value))
}

/// A fraction as `41 %`; below ten per cent with one decimal.
pub fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    if value != 0.0 && value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_step_by_1024_and_say_so() {
        assert_eq!(Unit::Bytes.human(4096.0), "4 KiB");
        assert_eq!(Unit::Bytes.human(1000.0), "1000 B");
        assert_eq!(Unit::BytesPerSecond.human(1.5 * GIB), "1.50 GiB/s");
    }

    #[test]
    fn counts_and_times_step_by_1000() {
        assert_eq!(Unit::OpsPerSecond.human(2_310_000.0), "2.31 Mop/s");
        assert_eq!(Unit::Count.human(12_345.0), "12.3 k");
        assert_eq!(Unit::Nanos.human(390.0), "390 ns");
        assert_eq!(Unit::Nanos.human(1_100.0), "1.10 µs");
        assert_eq!(Unit::Nanos.human(0.0), "0 ns");
        assert_eq!(Unit::Nanos.human(21_000.0), "21.0 µs");
        assert_eq!(Unit::Nanos.human_interval(21_000.0, 20_700.0, 21_300.0), "21.0 µs (20.7 to 21.3)");
    }

    #[test]
    fn rounding_never_shows_a_thousand_of_a_smaller_unit() {
        assert_eq!(Unit::Nanos.human(999_700.0), "1.00 ms");
    }

    #[test]
    fn what_is_no_number_is_said_in_words() {
        assert_eq!(digits(f64::NAN), "not a number");
        assert_eq!(digits(f64::INFINITY), "not a number");
    }

    #[test]
    fn ratios_keep_two_decimals() {
        assert_eq!(ratio(1.0), "1.00x");
        assert_eq!(number(17.0), "17");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.0123), "0.0123");
        assert_eq!((percent(0.41), percent(0.012)), ("41 %".to_owned(), "1.2 %".to_owned()));
    }

    #[test]
    fn counters_tell_their_unit_by_name() {
        assert_eq!(Unit::of_counter("nvmm_written_bytes.journal"), Unit::Bytes);
        assert_eq!(Unit::of_counter("lock_wait_ns"), Unit::Nanos);
        assert_eq!(Unit::of_counter("fences"), Unit::Count);
    }
}
