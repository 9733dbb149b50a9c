//! Public formats of block traces, line by line.
//!
//! | format | a line | time | address |
//! |---|---|---|---|
//! | [`fio`](Format::Fio) version 3 | `TIME FILE read\|write\|trim\|sync\|datasync OFFSET LENGTH` | us | bytes |
//! | fio version 2 | `FILE ACTION OFFSET LENGTH`, `FILE wait US` | only that of `wait` | bytes |
//! | [`blktrace`](Format::Blktrace) | `8,0 CPU SEQ SECONDS PID D WS SECTOR + SECTORS [NAME]`: blkparse's default | s | 512 B |
//! | `msr` | `TIMESTAMP,HOST,DISK,Read\|Write,OFFSET,SIZE,RESPONSE`: MSR Cambridge | 100 ns | bytes |
//! | `mqsim` | `TIME DEVICE SECTOR SECTORS 0\|1`, 1 being a read | ns | 512 B |
//! | `alibaba` | `DEVICE,R\|W,OFFSET,LENGTH,TIMESTAMP`: Alibaba's block traces of 2020 | us | bytes |
//! | `tencent` | `TIMESTAMP,OFFSET,SIZE,0\|1,VOLUME`, 0 being a read: Tencent's cloud block storage | s | 512 B |
//! | `spc` | `ASU,LBA,SIZE,R\|W,TIMESTAMP`: SPC, as the UMass repository has it | s | 512 B, size in bytes |
//! | `fiu` | `TIMESTAMP PID PROCESS LBA SECTORS R\|W MAJOR MINOR MD5`: FIU's traces | ns | 512 B |
//! | `systor17` | `TIMESTAMP,RESPONSE,R\|W,LUN,OFFSET,SIZE`: SYSTOR '17 | s | bytes |
//! | [`Format::Columns`] | as [`Columns`] describe it | | |
//!
//! Times become relative to the first request. A line that is none of its format is an error with its number; the reader
//! decides whether it ends there. Of blktrace only the requests that were issued to the device (`D`) count; in a trace without
//! such, as device mappers leave, those that were queued (`Q`), if the caller asks. A trace of several devices is restricted to
//! one of them, or they are put one behind the other, or on top of each other ([`Devices`]). [`packed`] unpacks files.
//!
//! References: fio's manual, "Trace file format v2/v3"; blkparse(1); Narayanan and others, "Write Off-Loading" (FAST 2008),
//! and the README of its traces; MQSim's README, "Trace-based workloads"; the READMEs of Alibaba's and Tencent's block traces
//! (Li and others, IISWC 2020; Zhang and others, ATC 2020); "SPC Trace File Format Specification", revision 1.0.1; Koller and
//! Rangaswami, "I/O Deduplication" (FAST 2010); Lee and others, "Understanding Storage Traffic Characteristics on Enterprise
//! Virtual Desktop Infrastructure" (SYSTOR 2017).

mod columns;
mod formats;
pub mod packed;

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use super::{Op, Request};
pub use columns::Columns;
use columns::shown;

/// A format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's iolog, version 2 or 3.
    Fio,
    /// What blkparse prints.
    Blktrace,
    /// Columns, by the word of the format.
    Columns(&'static str, Columns),
}

/// The formats of columns: word, separator, description.
const TABLES: [(&str, u8, &str); 7] = [
    ("msr", b',', "time:100ns,device,device,op,offset,size"),
    ("mqsim", b' ', "time:ns,device,offset:512,size:512,op:1/0"),
    ("alibaba", b',', "device,op,offset,size,time:us"),
    ("tencent", b',', "time:s,offset:512,size:512,op:0/1,device"),
    ("spc", b',', "device,offset:512,size,op,time:s"),
    ("fiu", b' ', "time:ns,-,-,offset:512,size:512,op,device,device,-"),
    ("systor17", b',', "time:s,-,op,device,offset,size"),
];

/// The word of a trace whose columns the user describes.
pub(crate) const DESCRIBED: &str = "columns";

/// Every format by its word.
pub const FORMATS: [&str; 9] =
    ["fio", "blktrace", "msr", "mqsim", "alibaba", "tencent", "spc", "fiu", "systor17"];

impl Format {
    /// The format of that word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "fio" => Some(Self::Fio),
            "blktrace" => Some(Self::Blktrace),
            _ => {
                let (word, separator, text) = TABLES.iter().find(|(known, ..)| *known == word)?;
                Some(Self::Columns(word, Columns::parse(text, *separator).ok()?))
            }
        }
    }

    /// The format that a user describes; the separator is the one that `line`, a line of the trace, has.
    ///
    /// # Errors
    /// What is wrong with the description.
    pub fn described(description: &str, line: &str) -> Result<Self, String> {
        let separator = [b',', b';', b'\t'].into_iter().find(|byte| line.as_bytes().contains(byte));
        Ok(Self::Columns(DESCRIBED, Columns::parse(description, separator.unwrap_or(b' '))?))
    }

    /// The format of a trace by its first line that is not blank.
    pub fn detect(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let fields: Vec<&str> = line.trim().split(',').map(str::trim).collect();
        let number = |word: &str| word.parse::<f64>().is_ok();
        let letter = |list: &[&str], at: usize| {
            list.get(at).is_some_and(|word| ["r", "w"].contains(&word.to_ascii_lowercase().as_str()))
        };
        let numbers = |list: &[&str]| list.iter().all(|word| number(word));
        let word = match (fields.len(), words.len()) {
            _ if line.starts_with("fio version") => "fio",
            (1, 5) if numbers(&words) => "mqsim",
            (1, 7..) if letter(&words, 5) && number(words[0]) => "fiu",
            (_, 6..) if words[0].contains(',') => "blktrace",
            (7.., 1) => "msr",
            (6, _) if letter(&fields, 2) || fields[2].eq_ignore_ascii_case("iotype") => "systor17",
            (5, _) if letter(&fields, 1) => "alibaba",
            (5.., _) if letter(&fields, 3) => "spc",
            (5, _) if numbers(&fields) => "tencent",
            _ => return None,
        };
        Self::of(word)
    }

    /// Its word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Blktrace => "blktrace",
            Self::Columns(word, _) => word,
        }
    }
}

/// What is done with the requests of several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Devices {
    /// They are an error, unless one device is chosen.
    #[default]
    Refuse,
    /// Each device has a range of its own: [`Reader::placed`].
    Merge,
    /// They share their addresses: the name of the device does not matter.
    Overlay,
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
        /// The line, cut; bytes that are no text are escaped.
        text: String,
    },
    /// The file could not be read.
    #[error("cannot read the trace after line {line}: {source}")]
    Io {
        /// The last line read.
        line: u64,
        /// What the host said, or what is wrong with a packed file.
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

/// The longest line of a trace in bytes: what has none is no text.
const LONGEST: u64 = 1 << 16;

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    format: Format,
    line: u64,
    text: Vec<u8>,
    /// The device that counts; without one, the first that is seen.
    only: Option<Vec<u8>>,
    given: bool,
    devices: Devices,
    /// The device of the line, and its number among those that were seen.
    name: Vec<u8>,
    device: usize,
    seen: BTreeMap<Vec<u8>, usize>,
    /// The device of the line before.
    last: Vec<u8>,
    /// Where each device begins.
    bases: Vec<u64>,
    /// The clock of the first request, in the format's unit.
    start: Option<u64>,
    /// fio: the version, and of version 2 the waits so far in ns.
    version: u32,
    waited_ns: u64,
    /// blktrace: whether queued requests count instead of issued ones; what was seen of both.
    takes_queued: bool,
    queued: u64,
    passed_through: u64,
    /// blktrace: requests that came back and will be issued again; the request whose flush was read last.
    requeued: BTreeMap<Vec<u8>, u32>,
    follows: Option<Request>,
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
            text: Vec::new(),
            only: only.map(String::into_bytes),
            given,
            devices: Devices::Refuse,
            name: Vec::new(),
            device: 0,
            seen: BTreeMap::new(),
            last: Vec::new(),
            bases: Vec::new(),
            start: None,
            version: 0,
            waited_ns: 0,
            takes_queued: false,
            queued: 0,
            passed_through: 0,
            requeued: BTreeMap::new(),
            follows: None,
            latest: 0,
            clamp: false,
        }
    }

    /// Takes requests whose clock runs backwards at the time of the one before, instead of refusing them.
    #[must_use]
    pub fn clamping(self, clamp: bool) -> Self {
        Self { clamp, ..self }
    }

    /// What is done with requests of several devices.
    #[must_use]
    pub fn devices(self, devices: Devices) -> Self {
        Self { devices, ..self }
    }

    /// Where each device begins that [`Devices::Merge`] finds, in the order in which they are seen. Those without a place begin
    /// at 0.
    #[must_use]
    pub fn placed(self, bases: Vec<u64>) -> Self {
        Self { bases, ..self }
    }

    /// Takes the requests of blktrace where they were queued, and not where they were issued.
    #[must_use]
    pub fn queued(self, takes_queued: bool) -> Self {
        Self { takes_queued, ..self }
    }

    /// A span of the format's clock in ns.
    fn ns(&self, units: u64) -> u64 {
        match &self.format {
            Format::Columns(_, columns) => units.saturating_mul(columns.factor()),
            _ => units,
        }
    }

    /// The number of the line that was read last.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether requests have times: those of fio version 2 have not, nor those of columns without a time.
    pub fn has_times(&self) -> bool {
        match &self.format {
            Format::Fio => self.version != 2,
            Format::Blktrace => true,
            Format::Columns(_, columns) => columns.has_times(),
        }
    }

    /// The format, and where the devices begin.
    pub fn into_parts(self) -> (Format, Vec<u64>) {
        (self.format, self.bases)
    }

    /// Requests of blktrace that were queued, so far.
    pub fn seen_queued(&self) -> u64 {
        self.queued
    }

    /// Requests of blktrace that are left out, so far: commands that were passed through to the device, and what is neither read,
    /// write, discard nor flush.
    pub fn passed_through(&self) -> u64 {
        self.passed_through
    }

    /// The number of the device of the last request, in the order in which devices are seen.
    pub fn device(&self) -> usize {
        self.device
    }

    /// Whether the request of the device called `name` is to be left out; an error if none was chosen.
    fn other_device(&mut self) -> Result<bool, String> {
        if self.name == self.last && self.device < self.seen.len() {
            return Ok(false);
        }
        match (self.devices, &self.only) {
            (Devices::Overlay, _) => return Ok(false),
            (Devices::Merge, _) => {
                let next = self.seen.len();
                self.device = *self.seen.entry(self.name.clone()).or_insert(next);
            }
            (Devices::Refuse, None) => {
                self.only = Some(self.name.clone());
                self.seen.insert(self.name.clone(), 0);
            }
            (Devices::Refuse, Some(only)) if *only == self.name => {
                self.seen.insert(self.name.clone(), 0);
            }
            (Devices::Refuse, Some(_)) if self.given => return Ok(true),
            (Devices::Refuse, Some(only)) => {
                return Err(format!(
                    "a request of {} in a trace of {}: choose one with --only, or give --devices merge",
                    shown(&self.name),
                    shown(only)
                ));
            }
        }
        self.last.clone_from(&self.name);
        Ok(false)
    }

    fn bad(&self, why: String) -> TraceError {
        TraceError::BadLine { line: self.line, why, text: shown(self.text.trim_ascii_end()) }
    }

    fn parse(&mut self) -> Result<Line, String> {
        let text = std::mem::take(&mut self.text);
        self.name.clear();
        let line = match &self.format {
            Format::Fio => self.fio(&text),
            Format::Blktrace => self.blktrace(&text),
            Format::Columns(..) => self.columns(&text),
        };
        self.text = text;
        line
    }

    fn columns(&mut self, line: &[u8]) -> Result<Line, String> {
        let Format::Columns(_, columns) = &self.format else { return Ok(Line::Other) };
        if line.starts_with(b"#") || (self.start.is_none() && columns.is_header(line)) {
            return Ok(Line::Other);
        }
        let fields = columns.split(line)?;
        let request = columns.request(&fields)?;
        columns.device(&fields, &mut self.name);
        if self.other_device()? {
            return Ok(Line::Other);
        }
        Ok(Line::Request(request))
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
        let base = self.bases.get(self.device).copied().unwrap_or(0);
        let end = request.offset.checked_add(request.bytes).and_then(|end| end.checked_add(base));
        if end.is_none() {
            return Err("an address beyond any device".to_owned());
        }
        request.offset += base;
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

    /// The next line that is not blank; false at the end.
    fn read(&mut self) -> Result<bool, TraceError> {
        loop {
            self.text.clear();
            let read = io::Read::take(&mut self.input, LONGEST).read_until(b'\n', &mut self.text);
            match read {
                Ok(0) => return Ok(false),
                Ok(_) => self.line += 1,
                Err(source) => return Err(TraceError::Io { line: self.line, source }),
            }
            if self.text.len() as u64 == LONGEST {
                return Err(self.bad(format!("a line of more than {LONGEST} bytes: this is no text")));
            }
            if !self.text.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Request, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(request) = self.follows.take() {
            let finished = self.finish(request);
            return Some(finished.map_err(|why| self.bad(why)));
        }
        loop {
            match self.read() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
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
