//! Traces of memory accesses: captured from a workload, imported from a real program, replayed under any scheme.
//!
//! ```text
//! file     magic 8 | version 4 | threads 4 | bytes of a thread's data 8 | config hash 8, little endian; then gzip of the threads
//! thread   operations | length | records            (numbers here and below are LEB128)
//! record   kind | instructions before it << 4       kind: load, chase, store, store past the caches, flush, fence, begin, commit,
//!                                                   done
//!          the first five: zigzag of the distance from the thread's address before, in words
//!          store: the value;  store past the caches: words, at most a line
//! ```
//!
//! A trace holds what the program asks for ([`PmCtx`]), not what a scheme makes of it. Addresses count from the start of a
//! thread's data. gzip's own length and checksum show a file that was cut off or damaged.
//!
//! | module | reads |
//! |---|---|
//! | [`lackey`] | the text of `valgrind --tool=lackey --trace-mem=yes` |
//! | [`champsim`] | traces of ChampSim |
//! | [`builder`] | what other programs tell call by call |
//!

pub mod builder;
pub mod champsim;
pub mod lackey;

use std::io::{Read, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sim::rng::Rng;

use crate::error::Error;
use crate::machine::LINE;
use crate::run::Config;
use crate::scheme;
use crate::scheme::software::{Program, VOLATILE};
use crate::workload::{self, PmCtx, Workload};

const MAGIC: &[u8; 8] = b"WEIRMEMT";
const VERSION: u32 = 2;
const HEADER: usize = 32;
/// Most bytes that a damaged length can make a reader ask for.
const MOST: u64 = 1 << 40;

const LOAD: u64 = 0;
const CHASE: u64 = 1;
const STORE: u64 = 2;
const PAST: u64 = 3;
const FLUSH: u64 = 4;
const FENCE: u64 = 5;
const BEGIN: u64 = 6;
const COMMIT: u64 = 7;
const DONE: u64 = 8;
/// Bits of a record's kind.
const KIND_BITS: u32 = 4;

/// One thread's accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTrace {
    /// Transactions, and operations without one.
    pub operations: u64,
    records: Vec<u8>,
}

/// A trace in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Of each thread.
    pub threads: Vec<ThreadTrace>,
    /// Bytes of data that a thread needs.
    pub share: u64,
    /// Hash of the configuration that it was captured from; 0 if it was imported.
    pub config_hash: u64,
}

/// Appends records to a thread's trace.
#[derive(Debug, Default)]
struct Writer {
    trace: ThreadTrace,
    gap: u64,
    last: u64,
    /// End of the highest word.
    end: u64,
}

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.trace.records.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.trace.records.push(number as u8);
    }

    fn mark(&mut self, kind: u64) {
        let gap = std::mem::take(&mut self.gap);
        self.number(gap << KIND_BITS | kind);
        self.trace.operations += u64::from(kind == COMMIT || kind == DONE);
    }

    fn access(&mut self, kind: u64, addr: u64) {
        self.mark(kind);
        let distance = (addr / 8).cast_signed() - (self.last / 8).cast_signed();
        self.number((distance << 1 ^ distance >> 63).cast_unsigned());
        self.last = addr;
        if addr < VOLATILE {
            self.end = self.end.max(addr + 8);
        }
    }

    fn store(&mut self, addr: u64, value: u64) {
        self.access(STORE, addr);
        self.number(value);
    }

    fn store_past(&mut self, addr: u64, words: u64) {
        self.access(PAST, addr);
        self.number(words);
    }
}

/// A record, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    kind: u64,
    gap: u32,
    addr: u64,
    value: u64,
}

/// Reads a thread's records one after the other.
#[derive(Clone, Debug, Default)]
struct Reader {
    at: usize,
    last: u64,
}

impl Reader {
    fn number(&mut self, bytes: &[u8]) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *bytes.get(self.at)?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// The next record; `None` at the end, or where the bytes are no record.
    fn next(&mut self, bytes: &[u8]) -> Option<Item> {
        let head = self.number(bytes)?;
        let mut item = Item { kind: head & 15, gap: (head >> KIND_BITS) as u32, addr: 0, value: 0 };
        if item.kind <= FLUSH {
            let coded = self.number(bytes)?;
            let distance = (coded >> 1).cast_signed() ^ -(coded & 1).cast_signed();
            self.last = (self.last / 8).cast_signed().wrapping_add(distance).cast_unsigned().wrapping_mul(8);
            item.addr = self.last;
        }
        if item.kind == STORE || item.kind == PAST {
            item.value = self.number(bytes)?;
        }
        (item.kind <= DONE).then_some(item)
    }
}

/// Memory that writes down what a program asks of it.
struct Recorder<'a> {
    memory: &'a mut Program,
    writer: &'a mut Writer,
    /// Where the thread's data begin.
    base: u64,
}

impl Recorder<'_> {
    fn offset(&self, addr: u64) -> u64 {
        if addr < VOLATILE { addr - self.base } else { addr }
    }
}

impl PmCtx for Recorder<'_> {
    fn load(&mut self, addr: u64) -> u64 {
        self.writer.access(LOAD, self.offset(addr));
        self.memory.load(addr)
    }

    fn chase(&mut self, addr: u64) -> u64 {
        self.writer.access(CHASE, self.offset(addr));
        self.memory.chase(addr)
    }

    fn store(&mut self, addr: u64, value: u64) {
        self.writer.store(self.offset(addr), value);
        self.memory.store(addr, value);
    }

    fn store_past(&mut self, addr: u64, words: u64) {
        self.writer.store_past(self.offset(addr), words);
        self.memory.store_past(addr, words);
    }

    fn flush(&mut self, addr: u64) {
        self.writer.access(FLUSH, self.offset(addr));
        self.memory.flush(addr);
    }

    fn fence(&mut self) {
        self.writer.mark(FENCE);
        self.memory.fence();
    }

    fn alu(&mut self, instructions: u32) {
        self.writer.gap += u64::from(instructions);
        self.memory.alu(instructions);
    }

    fn tx_begin(&mut self) {
        self.writer.mark(BEGIN);
        self.memory.tx_begin();
    }

    fn tx_commit(&mut self) {
        self.writer.mark(COMMIT);
        self.memory.tx_commit();
    }

    fn done(&mut self) {
        self.writer.mark(DONE);
        self.memory.done();
    }

    fn alloc(&mut self, bytes: u64) -> u64 {
        self.memory.alloc(bytes)
    }

    fn left(&self) -> u64 {
        self.memory.left()
    }
}

impl Trace {
    /// What a workload asks for: enough for `config.ops` operations after the warm-up, also where one thread is ahead of the
    /// others.
    ///
    /// # Errors
    /// [`Error`] for a configuration that does not fit.
    pub fn capture(config: &Config) -> Result<Self, Error> {
        config.check()?;
        let plain = scheme::by_name("non-pers")?;
        let known = workload::by_name(&config.workload)?;
        let count = config.threads as usize;
        let mut program = Program::new(plain, &config.machine, count, false);
        let share = program.layout().heap_bytes / config.threads;
        let mut threads = Vec::new();
        let each = (config.machine.warmup + config.ops).div_ceil(config.threads);
        let each = each + each / 2 + 64;
        for thread in 0..count {
            let mut program = program.clone();
            program.switch(thread);
            let mut rng = workload::stream(sim::rng::Seed(config.seed), thread);
            let mut workload = known.program(&config.machine, config.threads);
            workload.setup(&mut program, &mut rng);
            program.start();
            let base = program.layout().heap + thread as u64 * share;
            let mut writer = Writer::default();
            for _ in 0..each {
                workload.step(&mut Recorder { memory: &mut program, writer: &mut writer, base }, &mut rng);
                program.ops.clear();
            }
            threads.push(writer.trace);
        }
        program.start();
        Ok(Self { threads, share, config_hash: config.hash() })
    }

    /// Operations of all threads.
    pub fn operations(&self) -> u64 {
        self.threads.iter().map(|thread| thread.operations).sum()
    }

    /// As a file.
    ///
    /// # Errors
    /// What the writer cannot take.
    pub fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        to.write_all(MAGIC)?;
        to.write_all(&VERSION.to_le_bytes())?;
        to.write_all(&(self.threads.len() as u32).to_le_bytes())?;
        to.write_all(&self.share.to_le_bytes())?;
        to.write_all(&self.config_hash.to_le_bytes())?;
        let mut packed = GzEncoder::new(to, Compression::default());
        for thread in &self.threads {
            let mut head = Writer::default();
            head.number(thread.operations);
            head.number(thread.records.len() as u64);
            packed.write_all(&head.trace.records)?;
            packed.write_all(&thread.records)?;
        }
        packed.finish()?;
        Ok(())
    }

    /// Whether a file begins as a trace of this format, of any version.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// From a file's bytes.
    ///
    /// # Errors
    /// [`Error::Trace`] says what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Trace(what.to_owned());
        if !Self::is_one(bytes) {
            return Err(wrong("this is not a trace: it does not begin with WEIRMEMT"));
        }
        let Some((header, packed)) = bytes.split_at_checked(HEADER) else {
            return Err(wrong("the file is cut off within its header"));
        };
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        if word(8) != VERSION {
            let told = format!("the file has version {}, this program reads version {VERSION}", word(8));
            return Err(Error::Trace(told));
        }
        let mut data = Vec::new();
        GzDecoder::new(packed)
            .read_to_end(&mut data)
            .map_err(|error| Error::Trace(format!("the file is cut off or damaged: {error}")))?;
        let mut reader = Reader::default();
        let mut threads = Vec::new();
        for _ in 0..word(12) {
            threads.push(read_thread(&mut reader, &data).ok_or_else(|| wrong("the file is damaged"))?);
        }
        let trace = Self { threads, share: long(16), config_hash: long(24) };
        trace.check()?;
        Ok(trace)
    }

    /// Every record is one, lies within the thread's data, and transactions are opened before they are closed.
    fn check(&self) -> Result<(), Error> {
        for (at, thread) in self.threads.iter().enumerate() {
            let (mut reader, mut open, mut operations) = (Reader::default(), false, 0);
            while reader.at < thread.records.len() {
                let place = reader.at;
                let item = reader.next(&thread.records).filter(|item| {
                    let words = if item.kind == PAST { item.value } else { 1 };
                    let past =
                        item.kind == PAST && (words == 0 || item.addr % LINE + 8 * words.min(9) > LINE);
                    let inside =
                        item.kind > FLUSH || item.addr >= VOLATILE || item.addr + 8 * words <= self.share;
                    let inside = inside && !past;
                    let nested = (item.kind == BEGIN && open)
                        || (item.kind >= COMMIT && (item.kind == COMMIT) != open);
                    inside && !nested
                });
                let Some(item) = item else {
                    return Err(Error::Trace(format!(
                        "thread {at}: byte {place} of its records is no record"
                    )));
                };
                open = (open || item.kind == BEGIN) && item.kind != COMMIT;
                operations += u64::from(item.kind == COMMIT || item.kind == DONE);
            }
            if operations != thread.operations || open {
                return Err(Error::Trace(format!("thread {at}: its records are incomplete")));
            }
        }
        Ok(())
    }

    /// FNV-1a of everything, for the hash of a configuration.
    pub fn hash(&self) -> u64 {
        let bytes = self.threads.iter().flat_map(|thread| &thread.records);
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

fn read_thread(reader: &mut Reader, data: &[u8]) -> Option<ThreadTrace> {
    let (operations, length) = (reader.number(data)?, reader.number(data)?);
    let end = reader.at.checked_add(usize::try_from(length.min(MOST)).ok()?)?;
    let records = data.get(reader.at..end)?.to_vec();
    reader.at = end;
    Some(ThreadTrace { operations, records })
}

/// A thread of a trace as a workload.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Arc<Trace>,
    thread: usize,
    reader: Reader,
    base: u64,
}

impl Replay {
    /// Of one thread of a trace.
    pub fn new(trace: Arc<Trace>, thread: usize) -> Self {
        Self { trace, thread, reader: Reader::default(), base: 0 }
    }
}

impl Workload for Replay {
    fn setup(&mut self, memory: &mut dyn PmCtx, _: &mut Rng) {
        self.base = memory.alloc(self.trace.share);
    }

    fn step(&mut self, memory: &mut dyn PmCtx, _: &mut Rng) {
        let records = &self.trace.threads[self.thread].records;
        while let Some(item) = self.reader.next(records) {
            if item.gap > 0 {
                memory.alu(item.gap);
            }
            let addr = if item.addr < VOLATILE { self.base + item.addr } else { item.addr };
            match item.kind {
                LOAD => drop(memory.load(addr)),
                CHASE => drop(memory.chase(addr)),
                STORE => memory.store(addr, item.value),
                PAST => memory.store_past(addr, item.value),
                FLUSH => memory.flush(addr),
                FENCE => memory.fence(),
                BEGIN => memory.tx_begin(),
                COMMIT => return memory.tx_commit(),
                _ => return memory.done(),
            }
        }
    }

    fn check(&self, _: &dyn Fn(u64) -> u64) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn config() -> Config {
        let mut machine = Machine::load("tiny").unwrap();
        machine.warmup = 5;
        Config { machine, workload: "rbtree".into(), threads: 2, ops: 50, ..Config::default() }
    }

    fn bytes(trace: &Trace) -> Vec<u8> {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_replayed_trace_costs_what_the_workload_costs() {
        for scheme in ["undo-clwb", "fwb"] {
            let config = Config { scheme: scheme.into(), ..config() };
            let trace = Arc::new(Trace::read(&bytes(&Trace::capture(&config).unwrap())).unwrap());
            let replayed = Config { trace: Some(trace), workload: "trace".into(), ..config.clone() };
            let (one, mut other) = (crate::run(&config).unwrap(), crate::run(&replayed).unwrap());
            other.config_hash = one.config_hash;
            assert_eq!(one, other, "{scheme}");
        }
    }

    #[test]
    fn a_trace_that_is_cut_off_damaged_or_of_another_version_is_refused() {
        let whole = bytes(&Trace::capture(&config()).unwrap());
        let told = |bytes: &[u8]| Trace::read(bytes).unwrap_err().to_string();
        for length in 0..whole.len() {
            told(&whole[..length]);
        }
        assert!(told(&whole[..HEADER - 1]).contains("cut off within its header"));
        assert!(told(&whole[..whole.len() - 1]).contains("cut off or damaged"));
        let mut other = whole.clone();
        other[8] = 9;
        assert!(told(&other).contains("version 9, this program reads version"));
        assert!(told(b"something else").contains("not a trace"));
        for at in HEADER + 10..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            // Some bits only fill up the last byte of the packed data.
            assert!(Trace::read(&damaged).is_err() || Trace::read(&damaged) == Trace::read(&whole));
        }
    }

    #[test]
    fn a_trace_longer_than_the_memory_and_one_with_other_threads_are_refused() {
        let trace = Arc::new(Trace::capture(&config()).unwrap());
        let mut small =
            Config { trace: Some(trace), scheme: "fwb".into(), workload: "trace".into(), ..config() };
        small.threads = 1;
        assert!(crate::run(&small).unwrap_err().to_string().contains("2 threads"));
        small.threads = 2;
        small.machine.set("footprint", "8KiB").unwrap();
        assert!(crate::run(&small).unwrap_err().to_string().contains("set footprint"));
        small.machine.set("footprint", "16KiB").unwrap();
        small.machine.warmup = 1000;
        assert!(crate::run(&small).unwrap_err().to_string().contains("warmup"));
    }
}
