//! Values of options: numbers with units, times, ranges, lists, patterns (fio's HOWTO, "Parameter types").
//!
//! Every function answers with a value or with words that say what is wrong and what would be right; the caller adds file,
//! line and option.

use sim::Nanos;

/// What a unit prefix stands for (`kb_base`). As fio 3.33 reads them, k, kb and ki are one unit, and only kib is the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// k, kb and ki are 1024, and kib is 1000: fio's default, so that old job files keep their meaning.
    Old,
    /// k, kb and ki are 1000, and kib is 1024.
    Iec,
}

pub(super) type Parsed<T> = Result<T, String>;

const NUMBER: &str = "a whole number with a unit such as 4096, 4k, 1m, 2g, 0x1000 or (4*1024)";

/// A whole number, a number of bytes, or an expression in parentheses.
pub(super) fn int(text: &str, base: Base) -> Parsed<u64> {
    let text = text.trim();
    if text.starts_with('(') {
        return expression(text, &|number| suffixed(number, base));
    }
    suffixed(text, base)
}

fn suffixed(text: &str, base: Base) -> Parsed<u64> {
    let lower = text.to_ascii_lowercase();
    let wrong = || format!("\"{text}\" is not {NUMBER}");
    if let Some(digits) = lower.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).map_err(|_| wrong());
    }
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let number: u64 = lower[..end].parse().map_err(|_| wrong())?;
    let unit = lower[end..].trim_start();
    if unit == "z" {
        return Err(format!("{text} counts zones, which only zonemode=zbd has: write bytes"));
    }
    let (prefix, binary) = match unit.strip_suffix("ib") {
        Some(prefix) if !prefix.is_empty() => (prefix, base == Base::Iec),
        _ => (unit.strip_suffix('b').unwrap_or(unit), base == Base::Old),
    };
    let prefix = prefix.strip_suffix('i').filter(|prefix| !prefix.is_empty()).unwrap_or(prefix);
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|name| *name == prefix).ok_or_else(wrong)?;
    let factor = if binary { 1024_u64 } else { 1000 }.pow(power as u32);
    number.checked_mul(factor).ok_or_else(|| format!("{text} is too large"))
}

/// A time; `unit` is that of a bare number.
pub(super) fn time(text: &str, unit: Nanos) -> Parsed<Nanos> {
    let text = text.trim();
    if text.starts_with('(') {
        // In expressions the unit is the microsecond.
        let micros =
            expression(text, &|number| spelled_time(number, Nanos::from_micros(1)).map(|t| t.0 / 1000))?;
        return Ok(Nanos(micros.saturating_mul(1000)));
    }
    spelled_time(text, unit)
}

fn spelled_time(text: &str, unit: Nanos) -> Parsed<Nanos> {
    let lower = text.to_ascii_lowercase();
    let wrong = || format!("\"{text}\" is not a time such as 30s, 5m, 100ms or 20us");
    let end = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let number: u64 = lower[..end].parse().map_err(|_| wrong())?;
    let unit = match lower[end..].trim_start() {
        "" => unit,
        "us" | "usec" => Nanos::from_micros(1),
        "ms" | "msec" => Nanos::from_millis(1),
        "s" | "sec" => Nanos::from_secs(1),
        "m" => Nanos::from_secs(60),
        "h" => Nanos::from_secs(3_600),
        "d" => Nanos::from_secs(86_400),
        _ => return Err(wrong()),
    };
    number.checked_mul(unit.0).map(Nanos).ok_or_else(|| format!("{text} is too long"))
}

/// 0 or 1; an option without a value is on.
pub(super) fn flag(text: &str) -> Parsed<bool> {
    match text.trim() {
        "" | "1" => Ok(true),
        "0" => Ok(false),
        other => Err(format!("\"{other}\" is neither 0 nor 1")),
    }
}

/// A percentage from 0 to 100.
pub(super) fn percent(text: &str) -> Parsed<u32> {
    let text = text.trim().trim_end_matches('%');
    let number = text.parse().ok().filter(|number| *number <= 100);
    number.ok_or_else(|| format!("\"{text}\" is not a percentage from 0 to 100"))
}

/// `1k-4k` or `1k:4k`; one number is a range of itself. A range written backwards is turned round, as fio does.
pub(super) fn range<T: Copy + Ord>(text: &str, of: &impl Fn(&str) -> Parsed<T>) -> Parsed<(T, T)> {
    let (low, high) = match text.split_once(['-', ':']) {
        Some((low, high)) => (of(low)?, of(high)?),
        None => (of(text)?, of(text)?),
    };
    Ok((low.min(high), low.max(high)))
}

/// A value for reads, writes and trims. The last value holds for those after it, unless a comma ends it; what is left out
/// keeps its default.
pub(super) fn three<T: Clone>(text: &str, usual: &T, of: impl Fn(&str) -> Parsed<T>) -> Parsed<[T; 3]> {
    three_in(text, [usual.clone(), usual.clone(), usual.clone()], of)
}

/// The same, where each has a default of its own.
pub(super) fn three_in<T: Clone>(
    text: &str,
    usual: [T; 3],
    of: impl Fn(&str) -> Parsed<T>,
) -> Parsed<[T; 3]> {
    let parts: Vec<&str> = text.split([',']).collect();
    if parts.len() > 4 || (parts.len() == 4 && !parts[3].trim().is_empty()) {
        return Err(format!("\"{text}\" has more than three values: one each for reads, writes, trims"));
    }
    let mut values = usual;
    for (at, part) in parts.iter().enumerate().take(3).filter(|(_, part)| !part.trim().is_empty()) {
        let value = of(part.trim())?;
        let onward = if at + 1 == parts.len() { 3 } else { at + 1 };
        values[at..onward].fill(value);
    }
    Ok(values)
}

/// Bytes, or a part of something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// So many.
    Bytes(u64),
    /// So many percent.
    Percent(u32),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl Amount {
    /// The bytes, where `whole` are all.
    pub(super) fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

pub(super) fn amount(text: &str, base: Base) -> Parsed<Amount> {
    if text.trim().ends_with('%') {
        percent(text).map(Amount::Percent)
    } else {
        int(text, base).map(Amount::Bytes)
    }
}

/// `4k/10:64k/50:32k/40`: values with percentages, which sum to 100; empty ones share what the others leave.
pub(super) fn split<T: Copy>(text: &str, of: &impl Fn(&str) -> Parsed<T>) -> Parsed<Vec<(T, f64)>> {
    let mut entries = Vec::new();
    for entry in text.split(':') {
        let (value, share) = entry.split_once('/').unwrap_or((entry, ""));
        let share = if share.trim().is_empty() { None } else { Some(f64::from(percent(share)?)) };
        entries.push((of(value.trim())?, share));
    }
    let given: f64 = entries.iter().filter_map(|(_, share)| *share).sum();
    let empty = entries.iter().filter(|(_, share)| share.is_none()).count();
    if given > 100.0 || (empty == 0 && given < 100.0) {
        return Err(format!("the percentages of \"{text}\" sum to {given}, not to 100"));
    }
    let rest = (100.0 - given) / empty.max(1) as f64;
    Ok(entries.into_iter().map(|(value, share)| (value, share.unwrap_or(rest))).collect())
}

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// The offset of the block in its file: eight bytes, the lowest first.
    Offset,
}

/// `0xdeadbeef"text"-12%o`: what fills a buffer, again and again.
pub(super) fn pattern(text: &str) -> Parsed<Vec<Piece>> {
    let (mut pieces, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let (piece, length) = piece(rest)?;
        pieces.push(piece);
        rest = &rest[length..];
    }
    if pieces.is_empty() { Err("an empty pattern fills nothing".to_owned()) } else { Ok(pieces) }
}

fn piece(rest: &str) -> Parsed<(Piece, usize)> {
    let wrong = || {
        format!(
            "\"{rest}\" is no pattern: write a number, a hexadecimal number such as 0xff, a \"text\", or %o"
        )
    };
    if rest.starts_with("%o") {
        return Ok((Piece::Offset, 2));
    }
    if let Some(text) = rest.strip_prefix('"') {
        let end = text.find('"').ok_or_else(|| format!("{rest} has no closing quote"))?;
        return Ok((Piece::Bytes(text.as_bytes()[..end].to_vec()), end + 2));
    }
    if rest.starts_with('\'') {
        return Err(format!("{rest} names a file: its content cannot be taken, write it as a \"text\""));
    }
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let digits = &digits[..end];
        // An odd number of digits begins with half a byte.
        let even = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
        let byte = |at: usize| u8::from_str_radix(&even[at..at + 2], 16);
        let bytes: Result<Vec<u8>, _> = (0..even.len()).step_by(2).map(byte).collect();
        let bytes = bytes.ok().filter(|bytes| !bytes.is_empty()).ok_or_else(wrong)?;
        return Ok((Piece::Bytes(bytes), end + 2));
    }
    let sign = usize::from(rest.starts_with('-'));
    let end = rest[sign..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| end + sign);
    let number: i64 = rest[..end].parse().map_err(|_| wrong())?;
    let bytes = number.to_le_bytes();
    // The least number of bytes that hold it: fio fills one to four of them at a time.
    let length =
        if sign == 1 { 4 } else { (8 - bytes.iter().rev().take_while(|byte| **byte == 0).count()).max(1) };
    Ok((Piece::Bytes(bytes[..length].to_vec()), end))
}

/// `(4*1024+2)`: + - * / % ^ with the usual precedence; `number` reads an operand.
fn expression(text: &str, number: &impl Fn(&str) -> Parsed<u64>) -> Parsed<u64> {
    let mut reader = Reader { text, at: 0, number };
    let value = reader.operand()?;
    if reader.rest().is_empty() {
        Ok(value)
    } else {
        Err(format!("what is \"{}\" after {text}?", reader.rest()))
    }
}

struct Reader<'a, F> {
    text: &'a str,
    at: usize,
    number: &'a F,
}

impl<F: Fn(&str) -> Parsed<u64>> Reader<'_, F> {
    fn rest(&self) -> &str {
        self.text[self.at..].trim_start()
    }

    fn eat(&mut self, wanted: &[char]) -> Option<char> {
        let found = self.rest().chars().next().filter(|c| wanted.contains(c))?;
        self.at = self.text.len() - self.rest().len() + 1;
        Some(found)
    }

    fn operand(&mut self) -> Parsed<u64> {
        if self.eat(&['(']).is_some() {
            let value = self.level(0)?;
            return match self.eat(&[')']) {
                Some(_) => Ok(value),
                None => Err(format!("{} has no closing parenthesis", self.text)),
            };
        }
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let value = (self.number)(&rest[..end])?;
        self.at = self.text.len() - rest.len() + end;
        Ok(value)
    }

    /// Sums, then products, then powers.
    fn level(&mut self, level: usize) -> Parsed<u64> {
        const OPERATORS: [&[char]; 3] = [&['+', '-'], &['*', '/', '%'], &['^']];
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut value = self.level(level + 1)?;
        while let Some(operator) = self.eat(operators) {
            let other = self.level(level + 1)?;
            let result = match operator {
                '+' => value.checked_add(other),
                '-' => value.checked_sub(other),
                '*' => value.checked_mul(other),
                '/' => value.checked_div(other),
                '%' => value.checked_rem(other),
                _ => u32::try_from(other).ok().and_then(|other| value.checked_pow(other)),
            };
            value =
                result.ok_or_else(|| format!("{} has no value: {value} {operator} {other}", self.text))?;
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_units_of_the_manual() {
        for text in
            ["4096", "4096b", "4096B", "4k", "4kb", "4kB", "4K", "4KB", "0x1000", "(4*1024)", "(2^12)"]
        {
            assert_eq!(int(text, Base::Old), Ok(4096), "{text}");
        }
        for text in ["1048576", "1m", "1024k"] {
            assert_eq!(int(text, Base::Old), Ok(1 << 20), "{text}");
        }
        // What fio 3.33 does an I/O of, by `bs`: ki is k, and kib is the other base.
        for (power, unit) in [(1, "k"), (2, "m"), (3, "g"), (4, "t"), (5, "p")] {
            let (binary, decimal) = (2 * 1024_u64.pow(power), 2 * 1000_u64.pow(power));
            for ending in ["", "b", "B", "i"] {
                for text in [format!("2{unit}{ending}"), format!("2{}{ending}", unit.to_uppercase())] {
                    assert_eq!(int(&text, Base::Old), Ok(binary), "{text}");
                    assert_eq!(int(&text, Base::Iec), Ok(decimal), "{text}");
                }
            }
            for text in [format!("2{unit}ib"), format!("2{}iB", unit.to_uppercase())] {
                assert_eq!(int(&text, Base::Old), Ok(decimal), "{text}");
                assert_eq!(int(&text, Base::Iec), Ok(binary), "{text}");
            }
        }
        assert!(int("3z", Base::Old).unwrap_err().contains("counts zones"));
        assert_eq!(int("(10+2*3-1)", Base::Old), Ok(15));
        assert_eq!(int("((1+2)*4k%7)", Base::Old), Ok(12288 % 7));
        for wrong in [
            "",
            "k",
            "4q",
            "4i",
            "4ib",
            "4kbb",
            "4kii",
            "4bk",
            "1.5g",
            "-1",
            "4 k k",
            "(1",
            "(1/0)",
            "(1-2)",
            "99999999999t",
        ] {
            assert!(int(wrong, Base::Old).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_the_units_of_the_manual() {
        let second = Nanos::from_secs(1);
        for (text, value) in
            [("30", 30_000), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("10ms", 10)]
        {
            assert_eq!(time(text, second), Ok(Nanos::from_millis(value)), "{text}");
        }
        assert_eq!(time("1d", second), Ok(Nanos::from_secs(86_400)));
        assert_eq!(time("7", Nanos::from_micros(1)), Ok(Nanos(7_000)));
        assert_eq!(time("7usec", second), Ok(Nanos(7_000)));
        assert_eq!(time("(500*1000)", second), Ok(Nanos::from_millis(500)), "in expressions microseconds");
        assert!(time("5x", second).is_err());
    }

    #[test]
    fn a_value_without_a_comma_after_it_holds_for_the_rest() {
        let read = |text: &str| three(text, &4096, |part| int(part, Base::Old)).unwrap();
        assert_eq!(read("256k"), [256 << 10; 3]);
        assert_eq!(read("8k,32k"), [8 << 10, 32 << 10, 32 << 10]);
        assert_eq!(read("8k,32k,"), [8 << 10, 32 << 10, 4096]);
        assert_eq!(read(",8k"), [4096, 8 << 10, 8 << 10]);
        assert_eq!(read(",8k,"), [4096, 8 << 10, 4096]);
    }

    #[test]
    fn ranges_splits_and_percentages_follow_the_manual() {
        let of = |text: &str| int(text, Base::Old);
        assert_eq!(range("1k-4k", &of), Ok((1024, 4096)));
        assert_eq!(range("4k:1k", &of), Ok((1024, 4096)));
        assert_eq!(range("512", &of), Ok((512, 512)));
        assert_eq!(split("4k/10:64k/50:32k/40", &of).unwrap(), [(4096, 10.0), (65536, 50.0), (32768, 40.0)]);
        assert_eq!(split("4k/50:1k/:32k/", &of).unwrap(), [(4096, 50.0), (1024, 25.0), (32768, 25.0)]);
        assert!(split("4k/60:8k/50", &of).unwrap_err().contains("sum to 110"));
        assert_eq!(amount("20%", Base::Old).unwrap().of(1000), 200);
    }

    #[test]
    fn patterns_are_numbers_texts_and_offsets() {
        let bytes = |bytes: &[u8]| Piece::Bytes(bytes.to_vec());
        assert_eq!(pattern("0xdeadface"), Ok(vec![bytes(&[0xde, 0xad, 0xfa, 0xce])]));
        assert_eq!(pattern("\"abcd\""), Ok(vec![bytes(b"abcd")]));
        assert_eq!(pattern("-12"), Ok(vec![bytes(&[0xf4, 0xff, 0xff, 0xff])]));
        let all = vec![bytes(&[0xff]), Piece::Offset, bytes(b"abcd"), bytes(&[12])];
        assert_eq!(pattern("0xff%o\"abcd\"12"), Ok(all));
        assert!(pattern("'file'").unwrap_err().contains("names a file"));
        assert!(pattern("").is_err() && pattern("abc").is_err());
    }
}
