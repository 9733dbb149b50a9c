//! Public formats of block traces, line by line.
//!
//! | format | a line | time | address |
//! |---|---|---|---|
//! | [`fio`](Format::Fio) version 3 | `TIME FILE read\|write\|trim\|sync\|datasync OFFSET LENGTH` | us | bytes |
//! | fio version 2 | `FILE ACTION OFFSET LENGTH`, `FILE wait US` | only that of `wait` | bytes |
//! | [`blktrace`](Format::Blktrace) | `8,0 CPU SEQ SECONDS PID D WS SECTOR + SECTORS [NAME]`: blkparse's default | s | 512 B |
//! | [`msr`](Format::Msr) | `TIMESTAMP,HOST,DISK,Read\|Write,OFFSET,SIZE,RESPONSE`: MSR Cambridge | 100 ns | bytes |
//! | [`mqsim`](Format::Mqsim) | `TIME DEVICE SECTOR SECTORS 0\|1`, 1 being a read | ns | 512 B |
//!
//! Times become relative to the first request. A line that is none of its format is an error with its number; the reader
//! decides whether it ends there. Of blktrace only the requests that were issued to the device (`D`) count. A trace of
//! several devices has to be restricted to one of them.
//!
//! References: fio's manual, "Trace file format v2/v3"; blkparse(1); Narayanan and others, "Write Off-Loading" (FAST 2008),
//! and the README of its traces; MQSim's README, "Trace-based workloads".

mod formats;

use std::io::{self, BufRead};

use super::{Op, Request};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's iolog, version 2 or 3.
    Fio,
    /// What blkparse prints.
    Blktrace,
    /// MSR Cambridge CSV.
    Msr,
    /// MQSim's ASCII.
    Mqsim,
}

/// Every format by its word.
pub const FORMATS: [(&str, Format); 4] =
    [("fio", Format::Fio), ("blktrace", Format::Blktrace), ("msr", Format::Msr), ("mqsim", Format::Mqsim)];

impl Format {
    /// The format of a trace by its first line that is not blank.
    pub fn detect(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).is_some_and(|word| word.parse::<u64>().is_ok());
        if line.starts_with("fio version") {
            Some(Self::Fio)
        } else if line.split(',').count() >= 7 && words.len() == 1 {
            Some(Self::Msr)
        } else if words.len() == 5 && (0..5).all(number) {
            Some(Self::Mqsim)
        } else if words.len() >= 6 && words[0].contains(',') {
            Some(Self::Blktrace)
        } else {
            None
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        FORMATS.iter().find(|(_, format)| *format == self).map_or("", |(word, _)| word)
    }
}

/// Why there is no next request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line that is none of its format.
    #[error("line {line}: {why}: {text}")]
    BadLine {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        why: String,
        /// The line, cut.
        text: String,
    },
    /// The file could not be read.
    #[error("cannot read the trace after line {line}: {source}")]
    Io {
        /// The last line read.
        line: u64,
        /// What the host said.
        source: io::Error,
    },
}

/// What a line is.
enum Line {
    /// A request, with its own clock in the format's unit: 100 ns for MSR, ns for the others.
    Request(Request),
    /// Something else that belongs to the format.
    Other,
    /// The trace ends here.
    End,
}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    format: Format,
    line: u64,
    text: String,
    /// The device that counts; without one, the first that is seen.
    only: Option<String>,
    given: bool,
    /// The clock of the first request, in the format's unit.
    start: Option<u64>,
    /// fio: the version, and of version 2 the waits so far in ns.
    version: u32,
    waited_ns: u64,
    /// The latest clock, in the format's unit.
    latest: u64,
    clamp: bool,
}

impl<R: BufRead> Reader<R> {
    /// A reader; `only` restricts it to one device (blktrace `8,0`, MSR `host.disk`, MQSim's number, fio's file).
    pub fn new(input: R, format: Format, only: Option<String>) -> Self {
        let given = only.is_some();
        Self {
            input,
            format,
            line: 0,
            text: String::new(),
            only,
            given,
            start: None,
            version: 0,
            waited_ns: 0,
            latest: 0,
            clamp: false,
        }
    }

    /// Takes requests whose clock runs backwards at the time of the one before, instead of refusing them.
    #[must_use]
    pub fn clamping(self, clamp: bool) -> Self {
        Self { clamp, ..self }
    }

    /// A span of the format's clock in ns.
    fn ns(&self, units: u64) -> u64 {
        units.saturating_mul(if self.format == Format::Msr { 100 } else { 1 })
    }

    /// The number of the line that was read last.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether requests have times: those of fio version 2 have not.
    pub fn has_times(&self) -> bool {
        self.format != Format::Fio || self.version != 2
    }

    /// Whether the request of another device is to be left out; an error if none was chosen.
    fn other_device(&mut self, device: &str) -> Result<bool, String> {
        match &self.only {
            None => {
                self.only = Some(device.to_owned());
                Ok(false)
            }
            Some(only) if only == device => Ok(false),
            Some(_) if self.given => Ok(true),
            Some(only) => Err(format!("a request of {device} in a trace of {only}: choose one with --only")),
        }
    }

    fn bad(&self, why: String) -> TraceError {
        let text: String = self.text.trim_end().chars().take(80).collect();
        TraceError::BadLine { line: self.line, why, text }
    }

    fn parse(&mut self) -> Result<Line, String> {
        let text = std::mem::take(&mut self.text);
        let line = match self.format {
            Format::Fio => self.fio(&text),
            Format::Blktrace => self.blktrace(&text),
            Format::Msr => self.msr(&text),
            Format::Mqsim => self.mqsim(&text),
        };
        self.text = text;
        line
    }

    /// Checks what every format promises, and makes the time relative.
    fn finish(&mut self, mut request: Request) -> Result<Request, String> {
        let whole = request.offset.is_multiple_of(512) && request.bytes.is_multiple_of(512);
        if !whole {
            return Err("not whole sectors of 512 bytes".to_owned());
        }
        if request.bytes == 0 && request.op != Op::Flush {
            return Err("a request of nothing".to_owned());
        }
        if request.offset.checked_add(request.bytes).is_none() {
            return Err("an address beyond any device".to_owned());
        }
        let start = *self.start.get_or_insert(request.at_ns);
        if request.at_ns < self.latest && !self.clamp {
            let behind = self.ns(self.latest - request.at_ns);
            return Err(format!(
                "the clock runs backwards by {behind} ns: --backwards=clamp takes the time before"
            ));
        }
        self.latest = self.latest.max(request.at_ns);
        request.at_ns = self.ns(self.latest - start);
        Ok(request)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.text.clear();
            match self.input.read_line(&mut self.text) {
                Ok(0) => return None,
                Ok(_) => self.line += 1,
                Err(source) => return Some(Err(TraceError::Io { line: self.line, source })),
            }
            if self.text.trim().is_empty() {
                continue;
            }
            let request = match self.parse() {
                Ok(Line::Request(request)) => self.finish(request),
                Ok(Line::Other) => continue,
                Ok(Line::End) => return None,
                Err(why) => Err(why),
            };
            return Some(request.map_err(|why| self.bad(why)));
        }
    }
}
