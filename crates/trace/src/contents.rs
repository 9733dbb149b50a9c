//! What was written: the bytes of calls, of files that existed before, and of acknowledgements, in a file beside the trace.
//!
//! A trace has no contents. `weir record --contents` writes them into `X.wtrace.data`, and the head of the trace names that file by
//! its identity (`#contents ID`); without the option neither exists. The file is lines, and after each `B` line the bytes that it
//! announces and a line feed:
//!
//! ```text
//! #weir-contents 1 ID
//! B RAW STORED SHA256          bytes 0, 1, 2 … in their order; deflated where STORED is less than RAW
//! I BYTES "path"               a file that existed before
//! V BYTES "path" "name"        an extended attribute of one
//! D "path"                     a folder in which another file system is mounted
//! C CALL BYTES FLAGS           call number CALL of the trace, from 1; FLAGS: `-`, or `dsync`, `sync`, `append` with commas
//! A CALLS THREAD BEGIN END KIND BYTES   sent after CALLS calls to `stdout`, `stderr` or a `socket`; times in nanoseconds
//! H CALLS THREAD BEGIN "call"  a call that has begun and never returned; where its effect is known, three words more:
//!                              ` BYTES FLAGS "line"`, the bytes (`-`: none) and the line that it would be in the trace
//! M CALLS "path"               a file that is mapped for writing, as it is after CALLS calls: lines that follow have what differs
//! N OFFSET BYTES               from the last `M` of it
//! F "module" "symbol" PLACE    a frame of a stack, 0, 1, 2 … in their order; PLACE: where it is in the module's file, in bytes
//! G FRAME "file:line"          the line of source that it is in
//! K CALL FRAMES                the stack of call number CALL, the innermost frame first
//! L SENT FRAMES                likewise of `A` line number SENT, from 0
//! U "what"                     something that could not be kept
//! E                            the end of a whole file
//! ```
//!
//! Bytes are addressed by their SHA-256: the same page written twice is stored once, and is compared when it is read. The index is
//! read when the file is opened; bytes are read when they are asked for.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, FlushCompress, Status};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::text::{Words, quoted};

/// The key of a trace's head that names its contents.
pub const KEY: &str = "contents";

/// The file with the contents of a trace.
pub fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".data");
    name.into()
}

/// Where bytes went that are no file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// What the first process had as its standard output, through whichever descriptor.
    Stdout,
    /// Likewise its standard error.
    Stderr,
    /// A socket.
    Socket,
}

impl Channel {
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Stdout, "stdout"), (Self::Stderr, "stderr"), (Self::Socket, "socket")];

    /// The word in the file.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(channel, _)| *channel == self).map_or("", |(_, name)| name)
    }

    fn named(word: &[u8]) -> Option<Self> {
        Self::NAMES.iter().find(|(_, name)| name.as_bytes() == word).map(|(channel, _)| *channel)
    }
}

/// `RWF_DSYNC` of a write.
pub const DSYNC: u8 = 1;
/// `RWF_SYNC` of a write.
pub const SYNC: u8 = 2;
/// `RWF_APPEND` of a write.
pub const APPEND: u8 = 4;
const FLAGS: [(u8, &str); 3] = [(DSYNC, "dsync"), (SYNC, "sync"), (APPEND, "append")];

/// The number of some bytes in the file.
pub type Bytes = u32;

/// Writes contents.
pub struct Writer {
    out: Box<dyn Write + Send>,
    packer: Compress,
    /// So many pieces are not deflated.
    untried: u8,
    known: FxHashMap<[u8; 32], Bytes>,
    frames: FxHashMap<Frame, u32>,
    sent: u64,
    stored: u64,
    limit: u64,
    beyond: Beyond,
}

/// The contents that the limit has left out.
#[derive(Default)]
struct Beyond {
    calls: u64,
    /// Files of before, attributes, messages, looks at mapped files.
    others: u64,
    bytes: u64,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "contents::Writer({} pieces)", self.known.len())
    }
}

impl Writer {
    /// Begins a file of this identity, which takes at most `limit` bytes of contents.
    pub fn new(mut out: Box<dyn Write + Send>, id: &str, limit: u64) -> io::Result<Self> {
        writeln!(out, "#weir-contents 1 {id}")?;
        let (known, frames) = (FxHashMap::default(), FxHashMap::default());
        let packer = Compress::new(Compression::fast(), false);
        Ok(Self {
            out,
            packer,
            untried: 0,
            known,
            frames,
            sent: 0,
            stored: 0,
            limit,
            beyond: Beyond::default(),
        })
    }

    /// Adds bytes. None: the limit is reached, which the end of the file says.
    fn bytes(&mut self, bytes: &[u8]) -> io::Result<Option<Bytes>> {
        let sha: [u8; 32] = Sha256::digest(bytes).into();
        if let Some(number) = self.known.get(&sha) {
            return Ok(Some(*number));
        }
        if self.stored.saturating_add(bytes.len() as u64) > self.limit {
            self.beyond.others += 1;
            self.beyond.bytes += bytes.len() as u64;
            return Ok(None);
        }
        let packed = if bytes.len() < 128 || self.untried > 0 {
            self.untried = self.untried.saturating_sub(1);
            Vec::new()
        } else {
            let packed = deflated(&mut self.packer, bytes);
            let helps = !packed.is_empty() && packed.len() < bytes.len() / 2;
            self.untried = if helps { 0 } else { NOT_TRIED };
            packed
        };
        let stored = if packed.is_empty() || packed.len() >= bytes.len() { bytes } else { &packed };
        let hex = sha.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        writeln!(self.out, "B {} {} {hex}", bytes.len(), stored.len())?;
        self.out.write_all(stored)?;
        self.out.write_all(b"\n")?;
        self.stored += bytes.len() as u64;
        let number = self.known.len() as Bytes;
        self.known.insert(sha, number);
        Ok(Some(number))
    }

    /// A file that existed before.
    pub fn initial(&mut self, path: &[u8], bytes: &[u8]) -> io::Result<()> {
        let Some(number) = self.bytes(bytes)? else { return Ok(()) };
        let mut line = format!("I {number} ").into_bytes();
        quoted(path, &mut line);
        self.line(line)
    }

    /// An extended attribute of something that existed before.
    pub fn attribute(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> io::Result<()> {
        let Some(number) = self.bytes(value)? else { return Ok(()) };
        let mut line = format!("V {number} ").into_bytes();
        quoted(path, &mut line);
        line.push(b' ');
        quoted(name, &mut line);
        self.line(line)
    }

    /// A folder in which another file system is mounted.
    pub fn mount(&mut self, path: &[u8]) -> io::Result<()> {
        let mut line = b"D ".to_vec();
        quoted(path, &mut line);
        self.line(line)
    }

    /// What a call of the trace has written, or the value that it has set.
    pub fn call(&mut self, call: u64, bytes: &[u8], flags: u8) -> io::Result<()> {
        let Some(number) = self.bytes(bytes)? else {
            self.beyond.others -= 1;
            self.beyond.calls += 1;
            return Ok(());
        };
        self.line(format!("C {call} {number} {}", words(flags)).into_bytes())
    }

    /// What was sent somewhere that is no file, after so many calls of the trace.
    pub fn sent(&mut self, sent: &Sent, bytes: &[u8]) -> io::Result<()> {
        let Some(number) = self.bytes(bytes)? else { return Ok(()) };
        let Sent { calls, thread, begin_ns, end_ns, channel, .. } = sent;
        self.sent += 1;
        self.line(format!("A {calls} {thread} {begin_ns} {end_ns} {} {number}", channel.name()).into_bytes())
    }

    /// Adds a look at a file that is mapped for writing, after so many calls of the trace: the parts that differ from the last
    /// time, at their offsets.
    pub fn sample(&mut self, calls: u64, path: &[u8], parts: &[(u64, &[u8])]) -> io::Result<()> {
        let mut lines = Vec::new();
        for (offset, bytes) in parts {
            let Some(number) = self.bytes(bytes)? else { return Ok(()) };
            lines.push(format!("N {offset} {number}"));
        }
        let mut line = format!("M {calls} ").into_bytes();
        quoted(path, &mut line);
        self.line(line)?;
        lines.into_iter().try_for_each(|line| self.line(line.into_bytes()))
    }

    /// The number of messages that were sent.
    pub(crate) fn messages(&self) -> u64 {
        self.sent
    }

    /// The stack of a call, or of something that was sent, the innermost frame first.
    pub fn stack(&mut self, of: Of, frames: &[Frame]) -> io::Result<()> {
        let mut numbers = String::new();
        for frame in frames {
            let next = self.frames.len() as u32;
            let number = *self.frames.entry(frame.clone()).or_insert(next);
            if number == next {
                let mut line = b"F ".to_vec();
                quoted(&frame.module, &mut line);
                line.push(b' ');
                quoted(&frame.symbol, &mut line);
                line.extend_from_slice(format!(" {}", frame.place).as_bytes());
                self.line(line)?;
            }
            let _ = write!(numbers, " {number}");
        }
        let (letter, number) = match of {
            Of::Call(number) => ('K', number),
            Of::Sent(number) => ('L', number),
        };
        self.line(format!("{letter} {number}{numbers}").into_bytes())
    }

    /// All frames so far, with their numbers.
    pub fn frames(&self) -> impl Iterator<Item = (&Frame, u32)> {
        self.frames.iter().map(|(frame, number)| (frame, *number))
    }

    /// The line of source that a frame is in.
    pub fn source(&mut self, frame: u32, place: &str) -> io::Result<()> {
        let mut line = format!("G {frame} ").into_bytes();
        quoted(place.as_bytes(), &mut line);
        self.line(line)
    }

    /// A call that has begun and never returned. `effect`: its line in the trace as if it had, and what it would have written.
    pub fn half(
        &mut self,
        (calls, thread, begin_ns): (u64, u32, u64),
        call: &[u8],
        effect: Option<Would<'_>>,
    ) -> io::Result<()> {
        let mut line = format!("H {calls} {thread} {begin_ns} ").into_bytes();
        quoted(call, &mut line);
        if let Some((record, bytes, flags)) = effect {
            let number = bytes.map_or(Ok(None), |bytes| self.bytes(bytes))?;
            if bytes.is_some() == number.is_some() {
                let number = number.map_or_else(|| "-".to_owned(), |number| number.to_string());
                line.extend_from_slice(format!(" {number} {} ", words(flags)).as_bytes());
                quoted(record, &mut line);
            }
        }
        self.line(line)
    }

    /// Something that could not be kept.
    pub fn unkept(&mut self, what: &str) -> io::Result<()> {
        let mut line = b"U ".to_vec();
        quoted(what.as_bytes(), &mut line);
        self.line(line)
    }

    fn line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        self.out.write_all(&line)
    }

    /// Hands what was written to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<()> {
        let Beyond { calls, others, bytes } = self.beyond;
        if calls + others > 0 {
            let limit = self.limit;
            self.unkept(&format!(
                "{bytes} bytes beyond the limit of {limit} bytes (--contents=LIMIT; calls that wrote them: {calls}, \
                 files and messages: {others})"
            ))?;
        }
        self.out.write_all(b"E\n")?;
        self.out.flush()
    }
}

/// Flags as a word.
fn words(flags: u8) -> String {
    let words: Vec<&str> = FLAGS.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, word)| *word).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(",") }
}

fn flags_of(words: &[u8]) -> u8 {
    let has = |word: &str| words.split(|byte| *byte == b',').any(|part| part == word.as_bytes());
    FLAGS.iter().filter(|(_, word)| has(word)).map(|(bit, _)| bit).sum()
}

/// After a piece that is not made half as long, so many are not tried: most of what recording contents takes is deflating.
const NOT_TRIED: u8 = 7;

/// The bytes in less room; nothing where they need as much. A packer has 0.3 MB of state, so that there is one for all pieces.
fn deflated(packer: &mut Compress, bytes: &[u8]) -> Vec<u8> {
    packer.reset();
    let mut out = Vec::with_capacity(bytes.len());
    let ended = packer.compress_vec(bytes, &mut out, FlushCompress::Finish);
    if matches!(ended, Ok(Status::StreamEnd)) { out } else { Vec::new() }
}

/// The effect of a call that never returned: its line in the trace, the bytes that it would have written, and their flags.
pub type Would<'a> = (&'a [u8], Option<&'a [u8]>, u8);

/// What a call has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The bytes.
    pub bytes: Bytes,
    /// [`DSYNC`], [`SYNC`], [`APPEND`].
    pub flags: u8,
}

/// Bytes that were sent somewhere that is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// How many calls of the trace had ended.
    pub calls: u64,
    /// The thread, as in the trace.
    pub thread: u32,
    /// When the call began, in nanoseconds since the beginning of the trace.
    pub begin_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Where to.
    pub channel: Channel,
    /// What.
    pub bytes: Bytes,
}

/// A frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The file whose code it is in.
    pub module: Box<[u8]>,
    /// The nearest symbol, and how far behind it: `main+0x39`; empty where there is none.
    pub symbol: Box<[u8]>,
    /// Where the return address is in the file, in bytes.
    pub place: u64,
}

/// Whose stack it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// That of a call of the trace, by its number from 1.
    Call(u64),
    /// That of a message, by its number from 0.
    Sent(u64),
}

/// A call that has begun and never returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Half {
    /// How many calls of the trace had ended.
    pub calls: u64,
    /// The thread, as in the trace.
    pub thread: u32,
    /// When it began, in nanoseconds since the beginning of the trace.
    pub begin_ns: u64,
    /// Its name.
    pub call: Box<[u8]>,
    /// Its effect, where that is known.
    pub effect: Option<Effect>,
}

/// A file that is mapped for writing, as it was at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The number of calls of the trace that had ended.
    pub calls: u64,
    /// The file.
    pub path: Box<[u8]>,
    /// Where it differs from the sample before: offsets and bytes.
    pub parts: Vec<(u64, Bytes)>,
}

/// The effect that a call may have had which never returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The line of the trace that it would have as a call that has returned.
    pub line: Box<[u8]>,
    /// The bytes that it would have written.
    pub written: Option<Written>,
}

/// Why contents cannot be had. Each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentsError {
    /// The trace was recorded without.
    #[error("{trace} has no contents: record the program again with `weir record --contents`")]
    Without {
        /// The trace.
        trace: String,
    },
    /// The file is not there.
    #[error(
        "{file}: {error}; the contents of a trace stand beside it under this name: put the file there, or record again"
    )]
    Missing {
        /// The file.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// It belongs to another trace.
    #[error(
        "{file} has the contents of another trace: put the file that was recorded with the trace there, or record again"
    )]
    Foreign {
        /// The file.
        file: String,
    },
    /// It ends too early.
    #[error(
        "{file} ends after {bytes} bytes, before its end: it was cut or the recorder was killed; copy it again, or record again"
    )]
    Short {
        /// The file.
        file: String,
        /// Bytes that could be used.
        bytes: u64,
    },
    /// It is damaged.
    #[error("{file}: {what} (byte {at}): the file is damaged; copy it again, or record again")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
        /// Where.
        at: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    at: u64,
    raw: u64,
    stored: u64,
    sha: [u8; 32],
}

/// An extended attribute that a file had before: path, name, value.
pub type Attribute = (Box<[u8]>, Box<[u8]>, Bytes);

/// The contents of a trace.
#[derive(Debug)]
pub struct Contents {
    name: String,
    file: File,
    pieces: Vec<Piece>,
    /// What files had before, by path.
    pub initial: FxHashMap<Box<[u8]>, Bytes>,
    /// Extended attributes that files had before: path, name, value.
    pub attributes: Vec<Attribute>,
    /// Folders in which other file systems are mounted.
    pub mounts: Vec<Box<[u8]>>,
    /// What calls have written, by their number from 1.
    pub calls: FxHashMap<u64, Written>,
    /// What was sent elsewhere, in its order.
    pub sent: Vec<Sent>,
    /// Calls that never returned.
    pub halves: Vec<Half>,
    /// Files that are mapped for writing, in the order of time.
    pub samples: Vec<Sample>,
    /// Frames of stacks, each with its line of source, where that is known.
    pub frames: Vec<(Frame, Option<String>)>,
    /// Stacks of calls, by their number from 1.
    pub stacks: FxHashMap<u64, Vec<u32>>,
    /// Stacks of what was sent, by its number from 0.
    pub sent_stacks: FxHashMap<u64, Vec<u32>>,
    /// What could not be kept.
    pub unkept: Vec<String>,
}

impl Contents {
    /// Opens the contents of a trace whose head names them by `id`.
    pub fn open(trace: &Path, id: Option<&[u8]>) -> Result<Self, ContentsError> {
        let id = id.ok_or_else(|| ContentsError::Without { trace: trace.display().to_string() })?;
        let path = beside(trace);
        let name = path.display().to_string();
        let file = File::open(&path).map_err(|error| ContentsError::Missing { file: name.clone(), error })?;
        let reading =
            file.try_clone().map_err(|error| ContentsError::Missing { file: name.clone(), error })?;
        let mut contents = Self {
            name,
            file,
            pieces: Vec::new(),
            initial: FxHashMap::default(),
            attributes: Vec::new(),
            mounts: Vec::new(),
            calls: FxHashMap::default(),
            sent: Vec::new(),
            halves: Vec::new(),
            samples: Vec::new(),
            frames: Vec::new(),
            stacks: FxHashMap::default(),
            sent_stacks: FxHashMap::default(),
            unkept: Vec::new(),
        };
        contents.index(BufReader::with_capacity(1 << 16, reading), id)?;
        Ok(contents)
    }

    fn index(&mut self, mut source: BufReader<File>, id: &[u8]) -> Result<(), ContentsError> {
        let (mut at, mut line) = (0_u64, Vec::new());
        loop {
            line.clear();
            let read = source.by_ref().take(64 << 10).read_until(b'\n', &mut line);
            let read = read.map_err(|error| self.damaged(error.to_string(), at))?;
            let Some(text) = line.strip_suffix(b"\n") else {
                return Err(ContentsError::Short { file: self.name.clone(), bytes: at });
            };
            if at == 0 {
                self.first(text, id)?;
            } else if text == b"E" {
                return Ok(());
            }
            at += read as u64;
            if at > read as u64 {
                let skip = self.take(text, at).map_err(|what| self.damaged(what, at))?;
                let far = i64::try_from(skip).map_err(|_| self.damaged("a length is too large", at))?;
                source.seek_relative(far).map_err(|error| self.damaged(error.to_string(), at))?;
                at += skip;
            }
        }
    }

    fn first(&self, text: &[u8], id: &[u8]) -> Result<(), ContentsError> {
        match text.strip_prefix(b"#weir-contents 1 ") {
            None => Err(self.damaged("it is no file of contents that this Weir reads", 0)),
            Some(own) if own != id => Err(ContentsError::Foreign { file: self.name.clone() }),
            Some(_) => Ok(()),
        }
    }

    fn damaged(&self, what: impl Into<String>, at: u64) -> ContentsError {
        ContentsError::Damaged { file: self.name.clone(), what: what.into(), at }
    }

    /// Takes a line; says how many bytes to pass over.
    fn take(&mut self, text: &[u8], at: u64) -> Result<u64, String> {
        let (kind, rest) = text.split_at_checked(2).ok_or("a line is too short")?;
        let mut words = Words { rest };
        match kind {
            b"B " => {
                let (raw, stored) = (words.number("the length")?, words.number("the stored length")?);
                let sha = words.word("the hash").ok().and_then(hash).ok_or("the hash is not 64 digits")?;
                self.pieces.push(Piece { at, raw, stored, sha });
                return Ok(stored + 1);
            }
            b"I " => {
                let bytes = words.number("the bytes")?;
                self.initial.insert(words.quoted("the path")?, bytes);
            }
            b"V " => {
                let bytes = words.number("the bytes")?;
                self.attributes.push((words.quoted("the path")?, words.quoted("the name")?, bytes));
            }
            b"D " => self.mounts.push(words.quoted("the path")?),
            b"C " => {
                let (call, bytes) = (words.number("the call")?, words.number("the bytes")?);
                let flags = flags_of(words.word("the flags")?);
                self.calls.insert(call, Written { bytes, flags });
            }
            b"A " => {
                let (calls, thread) = (words.number("the calls")?, words.number("the thread")?);
                let (begin_ns, end_ns) = (words.number("the begin")?, words.number("the end")?);
                let channel = Channel::named(words.word("the channel")?).ok_or("the channel is unknown")?;
                let bytes = words.number("the bytes")?;
                self.sent.push(Sent { calls, thread, begin_ns, end_ns, channel, bytes });
            }
            b"H " => {
                let (calls, thread) = (words.number("the calls")?, words.number("the thread")?);
                let (begin_ns, call) = (words.number("the begin")?, words.quoted("the call")?);
                let effect = if words.rest.is_empty() { None } else { Some(effect(&mut words)?) };
                self.halves.push(Half { calls, thread, begin_ns, call, effect });
            }
            b"M " => {
                let (calls, path) = (words.number("the calls")?, words.quoted("the path")?);
                self.samples.push(Sample { calls, path, parts: Vec::new() });
            }
            b"N " => {
                let part = (words.number("the offset")?, words.number("the bytes")?);
                self.samples.last_mut().ok_or("there is no sample for it")?.parts.push(part);
            }
            b"F " => {
                let (module, symbol) = (words.quoted("the module")?, words.quoted("the symbol")?);
                self.frames.push((Frame { module, symbol, place: words.number("the place")? }, None));
            }
            b"G " => {
                let number: u32 = words.number("the frame")?;
                let frame = self.frames.get_mut(number as usize).ok_or("there is no such frame")?;
                frame.1 = Some(String::from_utf8_lossy(&words.quoted("the line")?).into_owned());
            }
            b"K " | b"L " => {
                let number = words.number("whose it is")?;
                let mut stack = Vec::new();
                while !words.rest.is_empty() {
                    stack.push(words.number("a frame")?);
                }
                let stacks = if kind == b"K " { &mut self.stacks } else { &mut self.sent_stacks };
                stacks.insert(number, stack);
            }
            b"U " => self.unkept.push(String::from_utf8_lossy(&words.quoted("what")?).into_owned()),
            _ => return Err("a line begins with a letter that this Weir does not know".to_owned()),
        }
        Ok(0)
    }

    /// How many bytes a piece has; 0 of none that there is.
    pub fn len_of(&self, bytes: Bytes) -> u64 {
        self.pieces.get(bytes as usize).map_or(0, |piece| piece.raw)
    }

    /// The bytes, compared with their hash.
    pub fn read(&self, bytes: Bytes) -> Result<Vec<u8>, ContentsError> {
        let piece = self.pieces.get(bytes as usize);
        let piece = piece.ok_or_else(|| self.damaged(format!("there are no bytes number {bytes}"), 0))?;
        let mut stored = vec![0; piece.stored as usize];
        let read = self.file.read_exact_at(&mut stored, piece.at);
        read.map_err(|_| ContentsError::Short { file: self.name.clone(), bytes: piece.at })?;
        if piece.stored < piece.raw {
            let mut raw = Vec::with_capacity(piece.raw as usize);
            let unpacked = DeflateDecoder::new(&*stored).take(piece.raw + 1).read_to_end(&mut raw);
            unpacked.map_err(|error| self.damaged(error.to_string(), piece.at))?;
            stored = raw;
        }
        let sha: [u8; 32] = Sha256::digest(&stored).into();
        if sha != piece.sha {
            return Err(self.damaged("bytes do not have the hash that they were recorded with", piece.at));
        }
        Ok(stored)
    }
}

fn effect(words: &mut Words<'_>) -> Result<Effect, String> {
    let bytes = words.word("the bytes")?;
    let flags = flags_of(words.word("the flags")?);
    let number = || std::str::from_utf8(bytes).ok()?.parse().ok();
    let written = if bytes == b"-" { None } else { Some(number().ok_or("the bytes are no number")?) };
    let written = written.map(|bytes| Written { bytes, flags });
    Ok(Effect { line: words.quoted("the line")?, written })
}

fn hash(hex: &[u8]) -> Option<[u8; 32]> {
    let mut sha = [0; 32];
    let text = std::str::from_utf8(hex).ok().filter(|text| text.len() == 64)?;
    for (at, byte) in sha.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()?;
    }
    Some(sha)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path) -> PathBuf {
        let trace = folder.join("x.wtrace");
        let out = File::create(beside(&trace)).unwrap();
        let mut writer = Writer::new(Box::new(out), "id", 1 << 20).unwrap();
        writer.initial(b"a\xff", b"before\n").unwrap();
        writer.call(3, &[7; 9000], DSYNC).unwrap();
        writer.call(4, b"before\n", 0).unwrap();
        let sent = Sent { calls: 4, thread: 1, begin_ns: 5, end_ns: 9, channel: Channel::Stdout, bytes: 0 };
        writer.sent(&sent, b"told\n").unwrap();
        writer.sample(4, b"m", &[(0, b"page"), (4096, b"before\n")]).unwrap();
        writer.finish().unwrap();
        trace
    }

    #[test]
    fn contents_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let contents = Contents::open(&written(folder.path()), Some(b"id")).unwrap();
        assert_eq!(contents.read(contents.initial[&b"a\xff"[..]]).unwrap(), b"before\n");
        let written = contents.calls[&3];
        assert_eq!((contents.read(written.bytes).unwrap(), written.flags), (vec![7; 9000], DSYNC));
        assert_eq!(
            contents.calls[&4].bytes,
            contents.initial[&b"a\xff"[..]],
            "the same bytes are stored once"
        );
        assert_eq!(contents.read(contents.sent[0].bytes).unwrap(), b"told\n");
        let [sample] = &*contents.samples else { panic!("one sample") };
        assert_eq!((sample.calls, &*sample.path, sample.parts[1]), (4, &b"m"[..], (4096, 0)));
        assert_eq!(contents.read(sample.parts[0].1).unwrap(), b"page");
        assert_eq!((contents.sent[0].begin_ns, contents.sent[0].end_ns), (5, 9));
    }

    #[test]
    fn what_the_limit_leaves_out_is_counted_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("x.wtrace");
        let out = File::create(beside(&trace)).unwrap();
        let mut writer = Writer::new(Box::new(out), "id", 1000).unwrap();
        writer.initial(b"a", &[1; 900]).unwrap();
        writer.call(1, &[2; 500], 0).unwrap();
        writer.call(2, &[1; 900], 0).unwrap();
        writer.call(3, &[3; 600], 0).unwrap();
        writer.initial(b"b", &[4; 700]).unwrap();
        writer.finish().unwrap();
        let contents = Contents::open(&trace, Some(b"id")).unwrap();
        let [told] = &*contents.unkept else { panic!("one line: {:?}", contents.unkept) };
        let wanted = "1800 bytes beyond the limit of 1000 bytes (--contents=LIMIT; calls that wrote them: 2, files and \
                      messages: 1)";
        assert_eq!(told, wanted);
        assert_eq!(contents.calls.keys().collect::<Vec<_>>(), [&2], "known bytes take no room");
    }

    #[test]
    fn a_file_that_is_missing_foreign_short_or_damaged_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let trace = written(folder.path());
        let told = |id: Option<&[u8]>| Contents::open(&trace, id).unwrap_err().to_string();
        assert!(told(None).contains("--contents"), "{}", told(None));
        assert!(told(Some(b"other")).contains("another trace"));
        let (path, whole) = (beside(&trace), std::fs::read(beside(&trace)).unwrap());
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(told(Some(b"id")).contains("before its end"));
        let mut wrong = whole;
        let at = wrong.windows(7).position(|part| part == b"before\n").unwrap();
        wrong[at] = b'B';
        std::fs::write(&path, &wrong).unwrap();
        let contents = Contents::open(&trace, Some(b"id")).unwrap();
        assert!(contents.read(0).unwrap_err().to_string().contains("hash"));
        std::fs::remove_file(&path).unwrap();
        assert!(told(Some(b"id")).contains("put the file there"));
    }
}
