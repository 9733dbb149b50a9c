//! The rings of a recording, as files in a folder: what the threads of the program have written, in the order of all records.
//!
//! The library maps the files (`crates/trace/preload/ring.c`); this side reads them. A record whose first word is not yet there
//! ends what can be read. It is read a second time when its end is known, so that it is whole whatever order memory has.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::text::{HEAD, Record};

/// The page that all processes share (`struct shared`).
const SHARED: &str = "shared";
const SHARED_BYTES: u64 = 4096;
const RINGS_AT: u64 = 8;
const LOST_AT: u64 = 24;
const HEARTBEAT_AT: u64 = 32;
/// Read at once.
const READ_BYTES: usize = 1 << 18;
/// A number that does not come within this time is taken for that of a thread which was killed before it has written its record. A
/// record that comes later all the same is taken then.
const PATIENCE: Duration = Duration::from_secs(5);

/// The rings of a folder.
#[derive(Debug)]
pub struct Rings {
    folder: PathBuf,
    shared: File,
    /// Rings that have been seen or may yet appear.
    open: BTreeMap<u64, Ring>,
    known: u64,
    heartbeat: u64,
    buffer: Vec<u8>,
    /// Records that wait for one before them.
    waiting: BTreeMap<u64, Record>,
    next: u64,
    stuck_since: Option<Instant>,
    missing: u64,
}

#[derive(Debug, Default)]
struct Ring {
    segment: u32,
    file: Option<File>,
    at: u64,
    /// The process whose thread it is of: that of its first record. Later ones may be of a child between vfork and exec.
    pid: u32,
    /// One more than the number of the last record that was read.
    last: u64,
    is_done: bool,
}

impl Rings {
    /// Makes the page that the processes share, in a folder of its own.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let shared = File::options().read(true).write(true).create_new(true).open(folder.join(SHARED))?;
        shared.set_len(SHARED_BYTES)?;
        Ok(Self {
            folder: folder.to_owned(),
            shared,
            open: BTreeMap::new(),
            known: 0,
            heartbeat: 0,
            buffer: vec![0; READ_BYTES],
            waiting: BTreeMap::new(),
            next: 0,
            stuck_since: None,
            missing: 0,
        })
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.shared.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Records that could not be written.
    pub(super) fn lost(&self) -> io::Result<u64> {
        self.word(LOST_AT)
    }

    /// Calls whose threads were killed before they had written their record.
    pub(super) fn unfinished(&self) -> u64 {
        self.missing
    }

    /// Reads what is there.
    pub(super) fn read(&mut self) -> io::Result<()> {
        self.heartbeat += 1;
        self.shared.write_all_at(&self.heartbeat.to_le_bytes(), HEARTBEAT_AT)?;
        for ring in self.known..self.word(RINGS_AT)? {
            self.open.insert(ring, Ring::default());
            self.known = ring + 1;
        }
        let numbers: Vec<u64> = self.open.keys().copied().collect();
        for number in numbers {
            let Some(mut ring) = self.open.remove(&number) else { continue };
            self.read_ring(number, &mut ring)?;
            if !ring.is_done {
                self.open.insert(number, ring);
            }
        }
        Ok(())
    }

    fn segment(&self, ring: u64, segment: u32) -> PathBuf {
        self.folder.join(format!("{ring}.{segment}"))
    }

    fn read_ring(&mut self, number: u64, ring: &mut Ring) -> io::Result<()> {
        loop {
            if ring.file.is_none() {
                match File::open(self.segment(number, ring.segment)) {
                    Ok(file) => (ring.file, ring.at) = (Some(file), 0),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            if !self.read_segment(number, ring)? {
                return Ok(());
            }
        }
    }

    /// Reads records of a segment. False: no more are there yet.
    fn read_segment(&mut self, number: u64, ring: &mut Ring) -> io::Result<bool> {
        let Some(file) = &ring.file else { return Ok(false) };
        let got = file.read_at(&mut self.buffer, ring.at)?;
        let end = whole(&self.buffer[..got]);
        if end == 0 {
            return Ok(false);
        }
        file.read_exact_at(&mut self.buffer[..end], ring.at)?;
        ring.at += end as u64;
        let mut at = 0;
        while at < end {
            let bytes = size(&self.buffer[at..]);
            let Some(record) = Record::parse(&self.buffer[at..at + bytes]) else { break };
            at += bytes;
            match record.name() {
                b"next" | b"done" => {
                    ring.is_done = record.name() == b"done";
                    fs::remove_file(self.segment(number, ring.segment))?;
                    (ring.file, ring.segment) = (None, ring.segment + 1);
                    return Ok(!ring.is_done);
                }
                _ => {
                    ring.pid = if ring.last == 0 { record.pid } else { ring.pid };
                    ring.last = record.number + 1;
                    self.waiting.insert(record.number, record);
                }
            }
        }
        Ok(true)
    }

    /// The next record. `all`: no more will come, so that none is waited for.
    pub(super) fn next(&mut self, all: bool) -> Option<Record> {
        let first = *self.waiting.first_key_value()?.0;
        if first > self.next {
            let since = *self.stuck_since.get_or_insert_with(Instant::now);
            if !all && since.elapsed() < PATIENCE {
                return None;
            }
            self.missing += first - self.next;
        }
        if first < self.next {
            self.missing = self.missing.saturating_sub(1);
        }
        self.stuck_since = None;
        self.next = self.next.max(first + 1);
        self.waiting.remove(&first)
    }

    /// The process has ended, or has another program, with the record of this number: what it wrote before has all been read.
    pub(super) fn retire(&mut self, pid: u32, number: u64) {
        let is_old = |ring: &Ring| ring.pid == pid && ring.last > 0 && ring.last <= number;
        let old: Vec<(u64, u32)> = self
            .open
            .iter()
            .filter(|(_, ring)| is_old(ring))
            .map(|(number, ring)| (*number, ring.segment))
            .collect();
        for (ring, segment) in old {
            self.open.remove(&ring);
            // It goes with the folder at the latest.
            let _ = fs::remove_file(self.segment(ring, segment));
        }
    }
}

/// The length of the record that begins here; 0: it is not whole. The upper half of its first word is the complement.
fn size(bytes: &[u8]) -> usize {
    let word = bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    let (size, check) = (word & 0xffff, word >> 16);
    if size == !check & 0xffff && size as usize >= HEAD && size % 8 == 0 { size as usize } else { 0 }
}

/// How many bytes are whole records.
fn whole(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let more @ 1.. = size(&bytes[at..]) {
        if at + more > bytes.len() {
            break;
        }
        at += more;
    }
    at
}
