//! A line of each format.

use std::io::BufRead;

use super::{Line, Reader};
use crate::block::{Op, Request};

const SECTOR: u64 = 512;

impl<R: BufRead> Reader<R> {
    pub(super) fn fio(&mut self, text: &str) -> Result<Line, String> {
        if let Some(version) = text.trim().strip_prefix("fio version ") {
            self.version = version.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
            return match self.version {
                2 | 3 => Ok(Line::Other),
                _ => Err("only versions 2 and 3 of fio's iolog are known".to_owned()),
            };
        }
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let at_ns = match self.version {
            0 => return Err("the first line must be \"fio version 3 iolog\"".to_owned()),
            2 => self.waited_ns,
            _ => scaled(number(words.first().copied(), "a time in microseconds")?, 1_000)?,
        };
        if self.version == 3 {
            words.remove(0);
        }
        let [file, action, rest @ ..] = &words[..] else {
            return Err("a line has a file and an action".to_owned());
        };
        let op = match *action {
            "add" | "open" | "close" | "unlink" => return Ok(Line::Other),
            "wait" => {
                let us = number(rest.first().copied(), "microseconds to wait")?;
                self.waited_ns = self.waited_ns.saturating_add(scaled(us, 1_000)?);
                return Ok(Line::Other);
            }
            "read" => Op::Read,
            "write" => Op::Write,
            "trim" => Op::Discard,
            "sync" | "datasync" => Op::Flush,
            _ => return Err(format!("no action of fio is called \"{action}\"")),
        };
        if self.other_device(file)? {
            return Ok(Line::Other);
        }
        if op == Op::Flush {
            return Ok(Line::Request(Request { at_ns, ..Request::new(op, 0, 0) }));
        }
        let offset = number(rest.first().copied(), "an offset in bytes")?;
        let bytes = number(rest.get(1).copied(), "a length in bytes")?;
        Ok(Line::Request(Request { at_ns, ..Request::new(op, offset, bytes) }))
    }

    /// `8,0 3 11 0.009507758 697 D W 223490 + 8 [kjournald]`; totals follow at the end.
    pub(super) fn blktrace(&mut self, text: &str) -> Result<Line, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if ["CPU", "Total", "Throughput", "Events", "Skips"].iter().any(|word| text.starts_with(word)) {
            return Ok(Line::End);
        }
        if words.len() < 6 || !words[0].contains(',') {
            return Err("not a line of blkparse: device, processor, number, time, process, action".to_owned());
        }
        if words[5] != "D" || self.other_device(words[0])? {
            return Ok(Line::Other);
        }
        let at_ns = seconds(words[3]).ok_or("the fourth word is no time in seconds")?;
        let flags = words.get(6).copied().unwrap_or_default();
        let op = match flags.trim_start_matches('F').chars().next() {
            Some('R') => Op::Read,
            Some('W') => Op::Write,
            Some('D') => Op::Discard,
            None if flags.starts_with('F') => Op::Flush,
            Some('N') | None => return Ok(Line::Other),
            Some(_) => return Err(format!("flags \"{flags}\" name neither read nor write nor discard")),
        };
        if op == Op::Flush {
            return Ok(Line::Request(Request { at_ns, ..Request::new(op, 0, 0) }));
        }
        let sector = number(words.get(7).copied(), "a sector")?;
        if words.get(8) != Some(&"+") {
            return Err("\"+\" and a number of sectors must follow the sector".to_owned());
        }
        let sectors = number(words.get(9).copied(), "a number of sectors")?;
        if sectors == 0 {
            return Ok(Line::Other); // an empty barrier
        }
        let (offset, bytes) = (scaled(sector, SECTOR)?, scaled(sectors, SECTOR)?);
        Ok(Line::Request(Request { at_ns, ..Request::new(op, offset, bytes) }))
    }

    /// `128166372003061629,usr,0,Read,7014609920,24576,41286`: time in steps of 100 ns since 1601.
    pub(super) fn msr(&mut self, text: &str) -> Result<Line, String> {
        let fields: Vec<&str> = text.trim_end().split(',').map(str::trim).collect();
        if fields.len() < 6 {
            return Err("not seven fields: time, host, disk, type, offset, size, response time".to_owned());
        }
        if fields[0].eq_ignore_ascii_case("timestamp") {
            return Ok(Line::Other);
        }
        let at_ns = number(fields.first().copied(), "a time in steps of 100 ns")?;
        let op = match fields[3].to_ascii_lowercase().as_str() {
            "read" => Op::Read,
            "write" => Op::Write,
            other => return Err(format!("type \"{other}\" is neither Read nor Write")),
        };
        if self.other_device(&format!("{}.{}", fields[1], fields[2]))? {
            return Ok(Line::Other);
        }
        let offset = number(fields.get(4).copied(), "an offset in bytes")?;
        let bytes = number(fields.get(5).copied(), "a size in bytes")?;
        Ok(Line::Request(Request { at_ns, ..Request::new(op, offset, bytes) }))
    }

    /// `0 0 1024 8 1`: time, device, sector, sectors, 1 for a read.
    pub(super) fn mqsim(&mut self, text: &str) -> Result<Line, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() != 5 {
            return Err("not five numbers: time, device, sector, sectors, type".to_owned());
        }
        let at_ns = number(Some(words[0]), "a time in nanoseconds")?;
        let sector = number(Some(words[2]), "a sector")?;
        let sectors = number(Some(words[3]), "a number of sectors")?;
        let op = match words[4] {
            "0" => Op::Write,
            "1" => Op::Read,
            other => return Err(format!("type \"{other}\" is neither 0, a write, nor 1, a read")),
        };
        if self.other_device(words[1])? {
            return Ok(Line::Other);
        }
        let (offset, bytes) = (scaled(sector, SECTOR)?, scaled(sectors, SECTOR)?);
        Ok(Line::Request(Request { at_ns, ..Request::new(op, offset, bytes) }))
    }
}

fn number(word: Option<&str>, what: &str) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("{what} is missing"))?;
    word.parse().map_err(|_| format!("\"{word}\" is not {what}"))
}

fn scaled(value: u64, by: u64) -> Result<u64, String> {
    value.checked_mul(by).ok_or_else(|| format!("{value} is too large"))
}

/// `0.009507758` in ns, exactly.
fn seconds(word: &str) -> Option<u64> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    let digits = fraction.get(..fraction.len().min(9))?;
    let fraction = if digits.is_empty() { 0 } else { digits.parse::<u64>().ok()? };
    let fraction = fraction * 10_u64.pow(9 - digits.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}
