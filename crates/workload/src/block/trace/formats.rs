//! A line of the formats that are more than columns: fio's iolog and blkparse's text.

use std::io::BufRead;

use super::columns::{decimal, shown, whole};
use super::{Line, Reader};
use crate::block::{Op, Request};

const SECTOR: u64 = 512;

impl<R: BufRead> Reader<R> {
    pub(super) fn fio(&mut self, line: &[u8]) -> Result<Line, String> {
        if let Some(version) = line.trim_ascii().strip_prefix(b"fio version ") {
            let word = version.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            self.version = whole(word, "a version").unwrap_or(0) as u32;
            return match self.version {
                2 | 3 => Ok(Line::Other),
                _ => Err("only versions 2 and 3 of fio's iolog are known".to_owned()),
            };
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let at_ns = match self.version {
            0 => return Err("the first line must be \"fio version 3 iolog\"".to_owned()),
            2 => self.waited_ns,
            _ => scaled(whole(words.next().unwrap_or_default(), "a time in microseconds")?, 1_000)?,
        };
        let (Some(file), Some(action)) = (words.next(), words.next()) else {
            return Err("a line has a file and an action".to_owned());
        };
        let op = match action {
            b"add" | b"open" | b"close" | b"unlink" => return Ok(Line::Other),
            b"wait" => {
                let us = whole(words.next().unwrap_or_default(), "a number of microseconds to wait")?;
                self.waited_ns = self.waited_ns.saturating_add(scaled(us, 1_000)?);
                return Ok(Line::Other);
            }
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => Op::Flush,
            _ => return Err(format!("no action of fio is called \"{}\"", shown(action))),
        };
        self.name.extend_from_slice(file);
        if self.other_device()? {
            return Ok(Line::Other);
        }
        if op == Op::Flush {
            return Ok(Line::Request(Request { at_ns, ..Request::new(op, 0, 0) }));
        }
        let offset = whole(words.next().unwrap_or_default(), "an offset in bytes")?;
        let bytes = whole(words.next().unwrap_or_default(), "a length in bytes")?;
        Ok(Line::Request(Request { at_ns, ..Request::new(op, offset, bytes) }))
    }

    /// `8,0 3 11 0.009507758 697 D W 223490 + 8 [kjournald]`; totals follow at the end. A command that is passed through to the
    /// device has bytes and its descriptor in place of sectors: `D R 36 (12 01 00 00 24 00 ..) [smartd]`. `FN` and `FF` are
    /// flushes, `FWS` a flush and a write, `WFS` a write with FUA.
    pub(super) fn blktrace(&mut self, line: &[u8]) -> Result<Line, String> {
        if [&b"CPU"[..], b"Total", b"Throughput", b"Events", b"Skips"]
            .iter()
            .any(|word| line.starts_with(word))
        {
            return Ok(Line::End);
        }
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut word = || words.next().unwrap_or_default();
        let (device, _, _, time, _, action) = (word(), word(), word(), word(), word(), word());
        if action.is_empty() || !device.contains(&b',') {
            return Err("not a line of blkparse: device, processor, number, time, process, action".to_owned());
        }
        let queued = action == b"Q";
        self.queued += u64::from(queued);
        let wanted: &[u8] = if self.takes_queued { b"Q" } else { b"D" };
        let is_requeued = action == b"R" && !self.takes_queued;
        if action != wanted && !is_requeued {
            return Ok(Line::Other);
        }
        self.name.extend_from_slice(device);
        if self.other_device()? {
            return Ok(Line::Other);
        }
        let at_ns = decimal(time, 1_000_000_000)?;
        let (flags, place, plus, count) = (word(), word(), word(), word());
        if self.comes_back([device, flags, place, count], is_requeued) {
            return Ok(Line::Other);
        }
        if plus.starts_with(b"(") {
            self.passed_through += 1;
            return Ok(Line::Other);
        }
        self.issued(at_ns, flags, [place, plus, count])
    }

    /// Whether a line is of a request that the device has handed back (`R`), or that was and is issued again: it has counted.
    fn comes_back(&mut self, words: [&[u8]; 4], is_requeued: bool) -> bool {
        if is_requeued {
            *self.requeued.entry(words.join(&b' ')).or_default() += 1;
            return true;
        }
        if self.requeued.is_empty() {
            return false;
        }
        match self.requeued.get_mut(&words.join(&b' ')) {
            Some(times @ 1..) => *times -= 1,
            _ => return false,
        }
        true
    }

    /// A request that was issued. The letters count by their place (`blk_fill_rwbs` of the kernel): a flush before it, the
    /// operation,
    /// then FUA and hints.
    fn issued(&mut self, at_ns: u64, flags: &[u8], [place, plus, count]: [&[u8]; 3]) -> Result<Line, String> {
        let (flushes, rest) = flags.strip_prefix(b"F").map_or((false, flags), |rest| (true, rest));
        let flush = Request { at_ns, ..Request::new(Op::Flush, 0, 0) };
        let op = match rest.first() {
            Some(b'R') => Op::Read,
            Some(b'W') => Op::Write,
            Some(b'D') => Op::Discard,
            None | Some(b'F' | b'N') if flushes => return Ok(Line::Request(flush)),
            Some(b'N') | None => {
                self.passed_through += 1;
                return Ok(Line::Other);
            }
            Some(_) => {
                return Err(format!("flags \"{}\" name neither read nor write nor discard", shown(flags)));
            }
        };
        let sector = whole(place, "a sector")?;
        if plus != b"+" {
            return Err("\"+\" and a number of sectors must follow the sector".to_owned());
        }
        let sectors = whole(count, "a number of sectors")?;
        if sectors == 0 {
            // An empty barrier.
            return Ok(if flushes { Line::Request(flush) } else { Line::Other });
        }
        let (offset, bytes) = (scaled(sector, SECTOR)?, scaled(sectors, SECTOR)?);
        let fua = op == Op::Write && rest[1..].contains(&b'F');
        let request = Request { at_ns, fua, ..Request::new(op, offset, bytes) };
        if flushes {
            self.follows = Some(request);
            return Ok(Line::Request(flush));
        }
        Ok(Line::Request(request))
    }
}

fn scaled(value: u64, by: u64) -> Result<u64, String> {
    value.checked_mul(by).ok_or_else(|| format!("{value} is too large"))
}
