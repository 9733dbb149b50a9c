//! Reading a trace as a stream, with errors that say where.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};
use crate::losses::Losses;
use crate::record::{Head, Record, VERSION};
use crate::text;

/// The longest line: two paths of 4096 bytes, each as `\xHH`, and what stands beside them.
const LINE_BYTES: u64 = 64 << 10;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// How a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has not been read to its end yet.
    Unknown,
    /// By its `E` record.
    Whole,
    /// Without one: the recorder was killed, or the file was cut. The number is that of the last whole line.
    Cut(u64),
}

/// Reads records.
pub struct Reader {
    source: Box<dyn BufRead + Send>,
    file: String,
    head: Head,
    line: u64,
    text: Vec<u8>,
    /// The first line after the head, which has been read already.
    waits: bool,
    calls: u64,
    ending: Ending,
    lost: u64,
    losses: Losses,
    passed_over: u64,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reader({}:{})", self.file, self.line)
    }
}

impl Reader {
    /// Opens a trace, compressed or not.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::io(&name, error))?;
        Self::new(file, &name)
    }

    /// Reads a trace from a stream; `file` is what messages call it.
    pub fn new(source: impl Read + Send + 'static, file: &str) -> Result<Self> {
        let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
        let begin = source.fill_buf().map_err(|error| Error::io(file, error))?;
        let foreign = |what: &str| Error::Foreign { file: file.to_owned(), what: what.to_owned() };
        let source: Box<dyn BufRead + Send> = match begin {
            [0x1f, 0x8b, ..] => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(source))),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                return Err(foreign("it is compressed by zstd; unpack it (`zstd -d`)"));
            }
            [0xfd, b'7', b'z', b'X', ..] => {
                return Err(foreign("it is compressed by xz; unpack it (`unxz`)"));
            }
            [] => return Err(foreign("it is empty")),
            _ => Box::new(source),
        };
        let mut reader = Self {
            source,
            file: file.to_owned(),
            head: Head::default(),
            line: 0,
            text: Vec::new(),
            waits: false,
            calls: 0,
            ending: Ending::Unknown,
            lost: 0,
            losses: Losses::default(),
            passed_over: 0,
        };
        reader.read_head()?;
        Ok(reader)
    }

    fn read_head(&mut self) -> Result<()> {
        let foreign =
            |file: &str, what: &str| Error::Foreign { file: file.to_owned(), what: what.to_owned() };
        let advice =
            "it does not begin with `#weir-trace`; `weir trace import` reads traces of other programs";
        if !self.next_line()? {
            return Err(foreign(&self.file, advice));
        }
        let version = self.text.strip_prefix(b"#weir-trace ").ok_or_else(|| foreign(&self.file, advice))?;
        let version = std::str::from_utf8(version).ok().and_then(|digits| digits.trim().parse().ok());
        match version {
            None => return Err(foreign(&self.file, "its version is not a number")),
            Some(version) if version > VERSION => {
                return Err(Error::Newer { file: self.file.clone(), version });
            }
            Some(_) => {}
        }
        while self.next_line()? {
            let Some(key) = self.text.strip_prefix(b"#") else {
                self.waits = true;
                break;
            };
            let at = key.iter().position(|byte| *byte == b' ').unwrap_or(key.len());
            let value = key.get(at + 1..).unwrap_or_default();
            self.head.keys.push((key[..at].into(), value.into()));
        }
        Ok(())
    }

    /// Reads the next whole line into `text`, without its end. False when there is none.
    fn next_line(&mut self) -> Result<bool> {
        self.text.clear();
        let mut limited = (&mut self.source).take(LINE_BYTES);
        match limited.read_until(b'\n', &mut self.text) {
            Ok(_) if self.text.last() == Some(&b'\n') => {
                self.text.pop();
                self.line += 1;
                Ok(true)
            }
            Ok(bytes) if bytes as u64 == LINE_BYTES => {
                let what = "the line is longer than any record; this is not a trace, or it is damaged";
                Err(Error::line(&self.file, self.line + 1, what))
            }
            // What is left has no end of a line: it was being written.
            Ok(_) => Ok(self.cut()),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(self.cut()),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData) => {
                Err(Error::Damaged { file: self.file.clone(), line: self.line, error })
            }
            Err(error) => Err(Error::io(&self.file, error)),
        }
    }

    /// There is no further whole line.
    fn cut(&mut self) -> bool {
        if self.ending == Ending::Unknown {
            self.ending = Ending::Cut(self.line);
        }
        false
    }

    /// The lines at the beginning.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// What messages call the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The number of the line that was read last.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// How the trace ends, once it was read to its end.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Calls that the recorder has lost, and lines that are missing: known at the end; of a trace without end, as far as it goes.
    pub fn lost(&self) -> u64 {
        self.lost.max(self.losses.calls())
    }

    /// What is missing and why, as far as the trace was read. An older trace has only a number ([`Reader::lost`]).
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Records of optional sections that this Weir does not know.
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }

    /// An error in the line that was read last.
    pub fn wrong(&self, what: impl Into<String>) -> Error {
        Error::line(&self.file, self.line, what)
    }

    /// The next record; none at the end. A trace without an `E` record ends after its last whole line ([`Reader::ending`]).
    #[allow(
        clippy::should_implement_trait,
        reason = "it also is an iterator; this is the name that reads best"
    )]
    pub fn next(&mut self) -> Result<Option<Record>> {
        loop {
            if !std::mem::take(&mut self.waits) && !self.next_line()? {
                return Ok(None);
            }
            if text::is_optional(&self.text) {
                self.passed_over += 1;
            } else if !self.text.starts_with(b"#") {
                break;
            }
        }
        if self.ending == Ending::Whole {
            return Err(
                self.wrong("a record stands after the end of the trace (`E`): two traces were joined")
            );
        }
        let record = text::read(&self.text).map_err(|wrong| self.wrong_line(&wrong))?;
        match &record {
            Record::Call(_) => self.calls += 1,
            Record::Loss(loss) => self.losses.add(loss),
            Record::End(end) => {
                self.ending = Ending::Whole;
                self.lost = end.dropped + end.calls.abs_diff(self.calls);
            }
            _ => {}
        }
        Ok(Some(record))
    }

    fn wrong_line(&self, wrong: &str) -> Error {
        let call = text::call_of(&self.text).filter(|call| !wrong.starts_with(call.as_str()));
        let call = call.map_or_else(String::new, |call| format!("{call}: "));
        self.wrong(format!("{call}{wrong}"))
    }
}

impl Iterator for Reader {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        Reader::next(self).transpose()
    }
}
