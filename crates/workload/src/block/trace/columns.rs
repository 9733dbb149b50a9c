//! Traces of one request a line in fixed columns: the published ones, and those that a user describes (`--columns`).
//!
//! ```text
//! time:us,device,op,offset,size:512,-      columns in their order; "-" is one that does not matter
//! ```
//!
//! | column | unit after the colon |
//! |---|---|
//! | `time` | `ns`, `100ns`, `us`, `ms`, `s` (default), of a whole number or a decimal fraction; may be missing |
//! | `op` | words of a read and a write, `R/W`; without them R, W, D, F or read, write, trim, discard, flush in any case |
//! | `offset`, `size` | bytes of one unit; default: 1 |
//! | `device` | may be there several times: their words with a dot between them are its name |

use crate::block::{Op, Request};

/// Columns of a line that are looked at.
const MOST: usize = 32;
/// The words that a description is made of.
const WORDS: &str = "time, op, offset, size, device, or - for a column that does not matter";

/// What each column of a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Between two columns: a comma, a tab, a semicolon, or any white space.
    separator: u8,
    /// Its place, and ns of a unit.
    time: Option<(usize, u64)>,
    devices: Vec<usize>,
    op: usize,
    /// The words of a read and a write; without them, those of [`word`].
    words: Option<(String, String)>,
    offset: (usize, u64),
    size: (usize, u64),
    /// The names of the columns, for messages.
    names: String,
    /// Fields that a line must have.
    least: usize,
}

/// A line in its columns.
pub(super) struct Fields<'a> {
    at: [&'a [u8]; MOST],
    count: usize,
}

impl Columns {
    /// Reads a description; `separator` is a comma, semicolon, tab, or a space for any white space.
    ///
    /// # Errors
    /// What is wrong with the description, and what would be right.
    pub fn parse(text: &str, separator: u8) -> Result<Self, String> {
        let (mut time, mut op, mut offset, mut size) = (None, None, None, None);
        let (mut words, mut devices, mut names) = (None, Vec::new(), Vec::new());
        for (at, column) in text.split(',').enumerate() {
            let (name, unit) = column.trim().split_once(':').unwrap_or((column.trim(), ""));
            let twice = match name {
                "time" => time.replace((at, time_unit(unit)?)).is_some(),
                "op" => {
                    words = op_words(unit)?;
                    op.replace(at).is_some()
                }
                "offset" => offset.replace((at, byte_unit(unit)?)).is_some(),
                "size" => size.replace((at, byte_unit(unit)?)).is_some(),
                "device" | "-" if !unit.is_empty() => {
                    return Err(format!("\"{column}\": {name} has no unit"));
                }
                "device" => {
                    devices.push(at);
                    false
                }
                "-" => false,
                _ => return Err(format!("there is no column \"{name}\": write {WORDS}")),
            };
            if twice {
                return Err(format!("\"{name}\" is there twice"));
            }
            names.push(name);
        }
        if names.len() > MOST {
            return Err(format!("{} columns are more than {MOST}", names.len()));
        }
        let missing = |name: &str| format!("no column is \"{name}\": op, offset and size must be there");
        let (op, offset, size) = (
            op.ok_or_else(|| missing("op"))?,
            offset.ok_or_else(|| missing("offset"))?,
            size.ok_or_else(|| missing("size"))?,
        );
        let last = [op, offset.0, size.0].into_iter().chain(time.map(|(at, _)| at));
        let least = last.chain(devices.iter().copied()).max().map_or(0, |last| last + 1);
        Ok(Self { separator, time, devices, op, words, offset, size, names: names.join(", "), least })
    }

    /// Whether its lines have times.
    pub(super) fn has_times(&self) -> bool {
        self.time.is_some()
    }

    /// What a clock of whole units is multiplied by, as for units that would not fit as ns.
    pub(super) fn factor(&self) -> u64 {
        if let Some((_, 100)) = self.time { 100 } else { 1 }
    }

    /// The fields of a line.
    ///
    /// # Errors
    /// There are too few.
    pub(super) fn split<'a>(&self, line: &'a [u8]) -> Result<Fields<'a>, String> {
        let mut fields = Fields { at: [&[]; MOST], count: 0 };
        if self.separator == b' ' {
            let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            fields.take(words);
        } else {
            fields.take(line.split(|byte| *byte == self.separator));
        }
        if fields.count < self.least {
            let (have, least) = (fields.count, self.least);
            return Err(format!("{have} fields, and there must be {least}: {}", self.names));
        }
        Ok(fields)
    }

    /// Whether a line can be the names of the columns: no request is in it, and its time is a word.
    pub(super) fn is_header(&self, line: &[u8]) -> bool {
        let Ok(fields) = self.split(line) else { return false };
        let at = self.time.map_or(self.offset.0, |(at, _)| at);
        fields.at[at].first().is_some_and(u8::is_ascii_alphabetic) && !fields.at[self.offset.0].is_empty()
    }

    /// Appends the name of the device.
    pub(super) fn device(&self, fields: &Fields<'_>, name: &mut Vec<u8>) {
        for (number, at) in self.devices.iter().enumerate() {
            if number > 0 {
                name.push(b'.');
            }
            name.extend_from_slice(fields.at[*at]);
        }
    }

    /// The request of a line; its time is in units of [`Self::factor`].
    pub(super) fn request(&self, fields: &Fields<'_>) -> Result<Request, String> {
        let op = self.operation(fields.at[self.op])?;
        let at_ns = match self.time {
            None => 0,
            Some((at, 100)) => whole(fields.at[at], "a time in steps of 100 ns")?,
            Some((at, unit)) => decimal(fields.at[at], unit)?,
        };
        if op == Op::Flush {
            return Ok(Request { at_ns, ..Request::new(op, 0, 0) });
        }
        let scaled = |(at, unit): (usize, u64), what: &str| {
            let value = whole(fields.at[at], what)?;
            value.checked_mul(unit).ok_or_else(|| format!("{value} is too large"))
        };
        let (offset, bytes) = (scaled(self.offset, "an offset")?, scaled(self.size, "a size")?);
        Ok(Request { at_ns, ..Request::new(op, offset, bytes) })
    }

    fn operation(&self, word: &[u8]) -> Result<Op, String> {
        match &self.words {
            Some((read, _)) if word == read.as_bytes() => Ok(Op::Read),
            Some((_, write)) if word == write.as_bytes() => Ok(Op::Write),
            Some((read, write)) => {
                Err(format!("\"{}\" is neither {read}, a read, nor {write}, a write", shown(word)))
            }
            None => operation(word),
        }
    }
}

impl<'a> Fields<'a> {
    fn take(&mut self, words: impl Iterator<Item = &'a [u8]>) {
        for word in words.take(MOST) {
            self.at[self.count] = word.trim_ascii();
            self.count += 1;
        }
    }
}

fn time_unit(unit: &str) -> Result<u64, String> {
    match unit {
        "ns" => Ok(1),
        "100ns" => Ok(100),
        "us" => Ok(1_000),
        "ms" => Ok(1_000_000),
        "s" | "" => Ok(1_000_000_000),
        _ => Err(format!("time:{unit}: a time is in ns, 100ns, us, ms or s")),
    }
}

fn byte_unit(unit: &str) -> Result<u64, String> {
    if unit.is_empty() {
        return Ok(1);
    }
    let bytes = unit.parse().ok().filter(|bytes| (1..=1 << 20).contains(bytes));
    bytes.ok_or_else(|| format!("\"{unit}\" is no number of bytes of a unit, such as 512"))
}

fn op_words(unit: &str) -> Result<Option<(String, String)>, String> {
    match unit.split_once('/') {
        Some((read, write)) if !read.is_empty() && !write.is_empty() && read != write => {
            Ok(Some((read.to_owned(), write.to_owned())))
        }
        None if unit.is_empty() => Ok(None),
        _ => Err(format!("op:{unit}: write the words of a read and of a write, such as op:R/W")),
    }
}

/// The operation that a word names.
fn operation(word: &[u8]) -> Result<Op, String> {
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    match word {
        b"R" | b"r" => Ok(Op::Read),
        b"W" | b"w" => Ok(Op::Write),
        _ if is(&["read", "rs"]) => Ok(Op::Read),
        _ if is(&["write", "ws"]) => Ok(Op::Write),
        _ if is(&["d", "t", "discard", "trim", "unmap"]) => Ok(Op::Discard),
        _ if is(&["f", "flush", "sync"]) => Ok(Op::Flush),
        _ => Err(format!("\"{}\" is neither read nor write, trim, flush", shown(word))),
    }
}

/// A word for a message: cut, and without bytes that are no text.
pub(super) fn shown(bytes: &[u8]) -> String {
    let cut = bytes[..bytes.len().min(80)].escape_ascii().to_string();
    cut.replace("\\\"", "\"").replace("\\'", "'").replace("\\t", " ")
}

/// A whole number.
pub(super) fn whole(word: &[u8], what: &str) -> Result<u64, String> {
    let wrong = || match word {
        [] => format!("{what} is missing"),
        _ => format!("\"{}\" is not {what}", shown(word)),
    };
    if word.is_empty() {
        return Err(wrong());
    }
    let mut value: u64 = 0;
    for byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(wrong());
        }
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit)));
        value = next.ok_or_else(wrong)?;
    }
    Ok(value)
}

/// A number that may have a fraction, in ns; `unit` is ns of 1. What is behind its ns is cut.
pub(super) fn decimal(word: &[u8], unit: u64) -> Result<u64, String> {
    const WHAT: &str = "a time";
    let point = word.iter().position(|byte| *byte == b'.').unwrap_or(word.len());
    let large = || format!("\"{}\" is too large", shown(word));
    let ns = whole(&word[..point], WHAT)?.checked_mul(unit).ok_or_else(large)?;
    let Some(fraction) = word.get(point + 1..).filter(|fraction| !fraction.is_empty()) else { return Ok(ns) };
    let (mut rest, mut scale) = (0, unit);
    for byte in fraction {
        if !byte.is_ascii_digit() {
            return Err(format!("\"{}\" is not {WHAT}", shown(word)));
        }
        scale /= 10;
        rest += u64::from(byte - b'0') * scale;
    }
    ns.checked_add(rest).ok_or_else(large)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_what_each_column_is() {
        let columns = Columns::parse("device,op:1/0,-,offset:512,size:4096,time:ms", b';').unwrap();
        let line = b"vol 1; 0 ;x;8;2;1.5;more";
        let fields = columns.split(line).unwrap();
        let request = columns.request(&fields).unwrap();
        assert_eq!(
            (request.at_ns, request.op, request.offset, request.bytes),
            (1_500_000, Op::Write, 4096, 8192)
        );
        let mut device = Vec::new();
        columns.device(&fields, &mut device);
        assert_eq!(device, b"vol 1");
        let told = columns.split(b"a;b").err().unwrap();
        assert_eq!(told, "2 fields, and there must be 6: device, op, -, offset, size, time");
        assert!(
            columns
                .request(&columns.split(b"a;2;;1;1;1").unwrap())
                .unwrap_err()
                .contains("neither 1, a read")
        );
    }

    #[test]
    fn a_description_that_is_wrong_is_told_with_what_would_be_right() {
        for (text, told) in [
            ("op,offset", "no column is \"size\""),
            ("op,offset,length", "there is no column \"length\": write time, op"),
            ("op,offset,size,op", "\"op\" is there twice"),
            ("op:R,offset,size", "op:R: write the words"),
            ("op,offset:0,size", "\"0\" is no number of bytes"),
            ("op,offset,size,time:min", "a time is in ns, 100ns"),
            ("op,offset,size,device:1", "device has no unit"),
        ] {
            let wrong = Columns::parse(text, b',').unwrap_err();
            assert!(wrong.contains(told), "{text}: {wrong}");
        }
    }

    #[test]
    fn times_are_read_to_the_ns_and_numbers_that_do_not_fit_are_refused() {
        assert_eq!(decimal(b"0.009507758", 1_000_000_000), Ok(9_507_758));
        assert_eq!(decimal(b"7", 1_000), Ok(7_000));
        assert_eq!(decimal(b"1455592426.061237000", 1_000_000_000), Ok(1_455_592_426_061_237_000));
        assert_eq!(decimal(b"1.", 1_000_000), Ok(1_000_000));
        for wrong in [&b""[..], b"x", b"1.x", b"-1", b"99999999999999999999"] {
            assert!(decimal(wrong, 1_000).is_err(), "{wrong:?}");
        }
        assert_eq!(whole(b"18446744073709551615", "a number"), Ok(u64::MAX));
        assert!(whole(b"18446744073709551616", "a number").is_err());
    }
}
