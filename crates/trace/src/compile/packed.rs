//! The file of a compiled trace.
//!
//! Eight bytes ([`MAGIC`]), then a gzip stream of items. An item is a byte that says what it is, and numbers of variable length
//! (seven bits a byte, the lowest first; signed ones as `n << 1 ^ n >> 63`); bytes stand behind their count. The file is for this
//! version of Weir on any host: to keep something, keep the trace.

use std::io::{self, BufReader, BufWriter, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::{Sink, Step, Summary, Wait};
use crate::call::{Call, Op};
use crate::error::{Error, Result};
use crate::losses::Losses;
use crate::record::{Entry, Kind, Loss, Missing, Thread, Times};

/// The first bytes of the file; the last is the version of its format.
const MAGIC: [u8; 8] = *b"WEIRPRG\x03";

/// The longest path or name.
const BYTES_MAX: u64 = 1 << 16;

const THREAD: u8 = 1;
const PATH: u8 = 2;
const STEP: u8 = 3;
const INITIAL: u8 = 4;
const END: u8 = 5;
const LAST: u8 = 6;

/// Writes a compiled trace to a file.
#[derive(Debug)]
pub struct Packed<W: Write> {
    out: BufWriter<GzEncoder<W>>,
    item: Vec<u8>,
    file: String,
}

impl<W: Write> Packed<W> {
    /// Begins a file; `file` is what messages call it.
    pub fn new(mut out: W, file: &str) -> Result<Self> {
        out.write_all(&MAGIC).map_err(|error| Error::io(file, error))?;
        let out = BufWriter::with_capacity(256 << 10, GzEncoder::new(out, Compression::fast()));
        Ok(Self { out, item: Vec::new(), file: file.to_owned() })
    }

    /// Ends the file.
    pub fn finish(self) -> Result<W> {
        let inner = self.out.into_inner().map_err(io::IntoInnerError::into_error);
        inner.and_then(GzEncoder::finish).map_err(|error| Error::io(&self.file, error))
    }

    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.item.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.item.push(value as u8);
    }

    fn put_all(&mut self, values: impl IntoIterator<Item = u64>) {
        for value in values {
            self.put(value);
        }
    }

    fn put_signed(&mut self, value: i64) {
        self.put((value << 1 ^ value >> 63).cast_unsigned());
    }

    /// None as 0, others one more than they are.
    fn put_option(&mut self, value: Option<u32>) {
        self.put(value.map_or(0, |value| u64::from(value) + 1));
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put(bytes.len() as u64);
        self.item.extend_from_slice(bytes);
    }

    fn entry(&mut self, kind: u8, entry: &Entry) -> Result<()> {
        self.item.extend([kind, entry.kind.letter()]);
        self.put_all([u64::from(entry.mode), entry.size, entry.group]);
        self.put_bytes(&entry.path);
        self.put_bytes(entry.target.as_deref().unwrap_or_default());
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.out.write_all(&self.item).map_err(|error| Error::io(&self.file, error));
        self.item.clear();
        sent
    }
}

impl<W: Write> Sink for Packed<W> {
    fn thread(&mut self, thread: &Thread) -> Result<()> {
        self.item.push(THREAD);
        self.put_all([thread.number, thread.pid, thread.tid].map(u64::from));
        self.put_bytes(&thread.name);
        self.send()
    }

    fn path(&mut self, path: &[u8]) -> Result<()> {
        self.item.push(PATH);
        self.put_bytes(path);
        self.send()
    }

    fn step(&mut self, step: &Step, waits: &[Wait]) -> Result<()> {
        self.item.push(STEP);
        self.put(u64::from(step.thread));
        let call = &step.call;
        self.item.push(call.op as u8);
        for one in [call.fd, call.fd2, call.path, call.path2, step.opens] {
            self.put_option(one);
        }
        self.put(call.len);
        self.put_signed(call.offset);
        self.put_signed(call.offset2);
        let bits = u32::from(step.implied) | u32::from(step.no_file) << 1;
        self.put_all([call.flags, call.mode, bits].map(u64::from));
        self.put_signed(step.result);
        let times = &step.times;
        let times = [times.gap_ns, times.other_ns, u64::from(times.skipped), times.duration_ns, step.line];
        self.put_all(times);
        self.put(waits.len() as u64);
        for wait in waits {
            self.put(u64::from(wait.thread));
            self.put(u64::from(wait.step));
        }
        self.send()
    }

    fn initial(&mut self, entry: &Entry) -> Result<()> {
        self.entry(INITIAL, entry)
    }

    fn last(&mut self, entry: &Entry) -> Result<()> {
        self.entry(LAST, entry)
    }

    fn end(&mut self, sums: &Summary) -> Result<()> {
        self.item.push(END);
        let cut = sums.cut_after.map_or(0, |line| line + 1);
        let words =
            [sums.steps, sums.calls, sums.waits, u64::from(sums.handles), sums.unopened, sums.contradictions];
        self.put_all(words);
        let bits = u64::from(sums.listed) | u64::from(sums.tells_computing) << 1;
        self.put_all([sums.lost, cut, sums.level_ns, sums.span_ns, bits, sums.outside]);
        let losses: Vec<Loss> = sums.losses.iter().collect();
        self.put(losses.len() as u64);
        for loss in losses {
            self.put_all([u64::from(loss.kind == Missing::Bytes), loss.count]);
            for text in [&loss.name, &loss.reason, &loss.program] {
                self.put_bytes(text);
            }
        }
        self.send()
    }
}

/// An item of the file.
#[derive(Debug)]
pub(super) enum Item {
    Thread(Thread),
    Path(Box<[u8]>),
    Step(Step, Vec<Wait>),
    Initial(Entry),
    Last(Entry),
    End(Summary),
}

/// Reads a compiled trace.
pub(super) struct Unpacker<R: Read> {
    source: BufReader<GzDecoder<R>>,
    file: String,
    items: u64,
}

impl<R: Read> Unpacker<R> {
    pub(super) fn new(mut source: R, file: &str) -> Result<Self> {
        let mut magic = [0; 8];
        let foreign = |what: &str| Error::Foreign { file: file.to_owned(), what: what.to_owned() };
        source.read_exact(&mut magic).map_err(|_| foreign("it is shorter than a compiled trace"))?;
        if magic[..7] != MAGIC[..7] {
            return Err(foreign("it is no compiled trace (`weir trace compile`)"));
        }
        if magic != MAGIC {
            return Err(foreign("another version of Weir has compiled it: compile the trace again"));
        }
        let source = BufReader::with_capacity(256 << 10, GzDecoder::new(source));
        Ok(Self { source, file: file.to_owned(), items: 0 })
    }

    fn damaged(&self, what: &str) -> Error {
        let what = format!("item {}: {what}; compile the trace again", self.items);
        Error::Foreign { file: self.file.clone(), what }
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.source.read_exact(&mut byte).map_err(|error| self.damaged(&error.to_string()))?;
        Ok(byte[0])
    }

    fn get(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number is too long"))
    }

    fn get_u32(&mut self) -> Result<u32> {
        let value = self.get()?;
        u32::try_from(value).map_err(|_| self.damaged("a number is too large"))
    }

    fn get_signed(&mut self) -> Result<i64> {
        let value = self.get()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    fn get_option(&mut self) -> Result<Option<u32>> {
        let value = self.get()?;
        let number = value.checked_sub(1).map(u32::try_from).transpose();
        number.map_err(|_| self.damaged("a number is too large"))
    }

    fn get_bytes(&mut self) -> Result<Box<[u8]>> {
        let len = self.get()?;
        if len > BYTES_MAX {
            return Err(self.damaged("a name is too long"));
        }
        let mut bytes = vec![0; len as usize];
        self.source.read_exact(&mut bytes).map_err(|error| self.damaged(&error.to_string()))?;
        Ok(bytes.into())
    }

    pub(super) fn next(&mut self) -> Result<Item> {
        self.items += 1;
        match self.byte()? {
            THREAD => {
                let (number, pid, tid) = (self.get_u32()?, self.get_u32()?, self.get_u32()?);
                Ok(Item::Thread(Thread { number, pid, tid, name: self.get_bytes()? }))
            }
            PATH => Ok(Item::Path(self.get_bytes()?)),
            STEP => self.step(),
            INITIAL => self.entry().map(Item::Initial),
            LAST => self.entry().map(Item::Last),
            END => self.end(),
            _ => Err(self.damaged("it is of an unknown kind")),
        }
    }

    fn step(&mut self) -> Result<Item> {
        let thread = self.get_u32()?;
        let op = self.byte()?;
        let op = Op::ALL.get(usize::from(op)).copied().ok_or_else(|| self.damaged("an unknown call"))?;
        let mut call = Call::new(op);
        (call.fd, call.fd2) = (self.get_option()?, self.get_option()?);
        (call.path, call.path2) = (self.get_option()?, self.get_option()?);
        let opens = self.get_option()?;
        call.len = self.get()?;
        (call.offset, call.offset2) = (self.get_signed()?, self.get_signed()?);
        (call.flags, call.mode) = (self.get_u32()?, self.get_u32()?);
        let bits = self.get()?;
        let (implied, no_file) = (bits & 1 != 0, bits & 2 != 0);
        let result = self.get_signed()?;
        let (gap_ns, other_ns, skipped) = (self.get()?, self.get()?, self.get_u32()?);
        let times = Times { gap_ns, other_ns, skipped, duration_ns: self.get()? };
        let line = self.get()?;
        let count = self.get()?;
        let mut waits = Vec::new();
        for _ in 0..count {
            waits.push(Wait { thread: self.get_u32()?, step: self.get_u32()? });
        }
        Ok(Item::Step(Step { thread, call, opens, implied, no_file, result, times, line }, waits))
    }

    fn entry(&mut self) -> Result<Entry> {
        let letter = self.byte()?;
        let kind = Kind::of_letter(letter).ok_or_else(|| self.damaged("an unknown kind of file"))?;
        let (mode, size, group) = (self.get_u32()?, self.get()?, self.get()?);
        let (path, target) = (self.get_bytes()?, self.get_bytes()?);
        let target = Some(target).filter(|_| kind == Kind::Symlink);
        Ok(Entry { kind, mode, size, group, path, target })
    }

    fn losses(&mut self) -> Result<Losses> {
        let mut losses = Losses::default();
        for _ in 0..self.get()? {
            let kind = if self.get()? == 0 { Missing::Calls } else { Missing::Bytes };
            let count = self.get()?;
            let (name, reason, program) = (self.get_bytes()?, self.get_bytes()?, self.get_bytes()?);
            losses.add(&Loss { kind, name, reason, program, count });
        }
        Ok(losses)
    }

    fn end(&mut self) -> Result<Item> {
        let (steps, calls, waits) = (self.get()?, self.get()?, self.get()?);
        let (handles, unopened, contradictions) = (self.get_u32()?, self.get()?, self.get()?);
        let (lost, cut) = (self.get()?, self.get()?);
        let (level_ns, span_ns, bits) = (self.get()?, self.get()?, self.get()?);
        let (listed, tells_computing, outside) = (bits & 1 != 0, bits & 2 != 0, self.get()?);
        let losses = self.losses()?;
        let cut_after = cut.checked_sub(1);
        // The end of the stream has its checksum.
        match self.source.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err(self.damaged("something stands behind the end")),
            Err(error) => return Err(self.damaged(&error.to_string())),
        }
        Ok(Item::End(Summary {
            steps,
            calls,
            waits,
            handles,
            unopened,
            contradictions,
            lost,
            losses,
            outside,
            tells_computing,
            cut_after,
            level_ns,
            span_ns,
            listed,
        }))
    }
}

impl Unpacker<&std::fs::File> {
    /// Whether a file is a compiled trace; where it is read from does not move.
    pub(super) fn is_packed(file: &std::fs::File) -> bool {
        use std::os::unix::fs::FileExt;
        let mut magic = [0; 7];
        file.read_exact_at(&mut magic, 0).is_ok_and(|()| magic[..] == MAGIC[..7])
    }
}
