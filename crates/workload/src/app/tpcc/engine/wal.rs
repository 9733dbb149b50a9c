//! The log in files: whole blocks from the last one on, then a sync. Who waits meanwhile is covered by the next flush.

use std::sync::atomic::Ordering::Relaxed;

use super::files::{Done, File, Files};
use super::layer::{Layer, SEGMENTS};
use super::{Engine, page};
use crate::app::control::Failure;

/// Bytes of a write that fills a new file with zeros.
const ZEROS: usize = 256 << 10;
/// Bytes of a note's block that matter.
const NOTE: usize = 20;

/// From where on the log is needed, and the epoch of its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) lsn: u64,
    pub(super) epoch: u64,
}

impl Note {
    fn encode(self, into: &mut [u8]) {
        into[..8].copy_from_slice(&self.lsn.to_le_bytes());
        into[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        let sum = crc32c::crc32c(&into[..16]);
        into[16..NOTE].copy_from_slice(&sum.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let is_right = page::u32_at(bytes, 16) == crc32c::crc32c(&bytes[..16]);
        let note = Self { lsn: page::u64_at(bytes, 0), epoch: page::u64_at(bytes, 8) };
        (is_right && note.lsn > 0).then_some(note)
    }

    /// Where notes lie: the file, the offsets that are used in turn, and the bytes of a write.
    fn places(layer: Layer) -> (String, &'static [u64], usize) {
        match layer {
            Layer::Postgres => ("data/global/pg_control".to_owned(), &[0], 8192),
            Layer::InnoDb => (layer.log_path(0), &[512, 3 * 512], 512),
        }
    }

    /// Writes a note, and syncs it. Of two places it takes that of the note before the last.
    pub(super) fn write(self, layer: Layer, files: &Files<'_>, turn: usize) -> Done {
        let (path, places, len) = Self::places(layer);
        let file = files.open(&path, true)?;
        let mut block = vec![0; len];
        self.encode(&mut block);
        files.write(&file, &block, places[turn % places.len()])?;
        files.sync(&file)?;
        files.close(&file)
    }

    /// The newest note of a database.
    pub(super) fn read(layer: Layer, files: &Files<'_>) -> Done<Self> {
        let (path, places, _) = Self::places(layer);
        let file = files.open(&path, false)?;
        let mut newest: Option<Self> = None;
        for place in places {
            let mut bytes = [0; NOTE];
            files.read(&file, &mut bytes, *place)?;
            newest = newest.max_by_lsn(Self::decode(&bytes));
        }
        files.close(&file)?;
        let told = || format!("{path} has no note of a checkpoint whose checksum is right");
        newest.ok_or_else(|| Failure::new(told(), None))
    }
}

/// The later of two notes.
trait Newest {
    fn max_by_lsn(self, other: Self) -> Self;
}

impl Newest for Option<Note> {
    fn max_by_lsn(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(two)) => {
                Some(if (two.epoch, two.lsn) > (one.epoch, one.lsn) { two } else { one })
            }
            (one, two) => one.or(two),
        }
    }
}

/// What has been written of the log.
#[derive(Debug)]
pub(super) struct Wal {
    /// The bytes of the last block that is not full.
    pub(super) tail: Vec<u8>,
    /// Memory for writes.
    buffer: Vec<u8>,
    open: Option<(u64, File)>,
    /// A write or a sync has failed: what was to be durable then is not, and nothing behind it may be.
    is_broken: bool,
    /// The first and the last segment that exist, of PostgreSQL.
    pub(super) segments: (u64, u64),
}

impl Wal {
    pub(super) fn new(number: u64) -> Self {
        Self {
            tail: Vec::new(),
            buffer: Vec::new(),
            open: None,
            is_broken: false,
            segments: (number, number),
        }
    }

    /// The log file with a number, made if it is not there. What the one before has is durable then.
    fn file(&mut self, layer: Layer, files: &Files<'_>, number: u64) -> Done<&File> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
            if let Some((_, before)) = self.open.take() {
                files.sync_log(&before)?;
                files.close(&before)?;
            }
            let path = layer.log_path(number);
            let file = match files.open_if_there(&path)? {
                Some(file) => file,
                None => make_log_file(layer, files, &path)?,
            };
            self.segments.1 = self.segments.1.max(number);
            self.open = Some((number, file));
        }
        Ok(&self.open.as_ref().expect("it was opened above").1)
    }
}

/// Makes a log file full of zeros under another name, and gives it its own.
pub(super) fn make_log_file(layer: Layer, files: &Files<'_>, path: &str) -> Done<File> {
    let directory = path.rsplit_once('/').map_or(".", |(directory, _)| directory);
    let draft = format!("{directory}/log.tmp");
    let file = files.open(&draft, true)?;
    let len = match layer {
        Layer::Postgres => layer.log_file(),
        Layer::InnoDb => layer.log_file() + super::layer::LOG_HEAD,
    };
    let zeros = vec![0; ZEROS];
    for at in (0..len).step_by(ZEROS) {
        files.write(&file, &zeros[..ZEROS.min((len - at) as usize)], at)?;
    }
    files.sync(&file)?;
    files.rename(&draft, path)?;
    files.sync_directory(directory)?;
    Ok(File { path: path.to_owned(), ..file })
}

impl Engine<'_> {
    /// Makes the log durable as far as a position.
    pub(super) fn flush_log(&self, upto: u64) -> Done {
        if self.flushed.load(Relaxed) >= upto {
            return Ok(());
        }
        let mut wal = self.wal.lock();
        if self.flushed.load(Relaxed) >= upto {
            return Ok(());
        }
        if wal.is_broken {
            return Err(Failure::new("the log could not be written before", None));
        }
        let wal = &mut *wal;
        let mut bytes = std::mem::take(&mut wal.buffer);
        bytes.clear();
        bytes.extend_from_slice(&wal.tail);
        let start = self.latch().log.take(&mut bytes) - wal.tail.len() as u64;
        let end = start + bytes.len() as u64;
        let written = self.write_blocks(wal, start, &mut bytes);
        wal.tail.clear();
        wal.tail.extend_from_slice(
            &bytes[(end - end % self.layer.block() - start) as usize..(end - start) as usize],
        );
        wal.buffer = bytes;
        wal.is_broken = written.is_err();
        written?;
        self.flushed.store(end, Relaxed);
        Ok(())
    }

    /// Writes whole blocks from the position `start` of one on, and syncs them.
    fn write_blocks(&self, wal: &mut Wal, start: u64, bytes: &mut Vec<u8>) -> Done {
        let (layer, files) = (self.layer, &self.files);
        bytes.resize(bytes.len().next_multiple_of(layer.block() as usize), 0);
        let mut at = 0;
        while at < bytes.len() {
            let (number, offset) = layer.log_place(start + at as u64);
            let room = layer.log_file() - (start + at as u64) % layer.log_file();
            let len = (bytes.len() - at).min(room as usize);
            let file = wal.file(layer, files, number)?;
            files.write_log(file, &bytes[at..at + len], offset)?;
            at += len;
        }
        match &wal.open {
            Some((_, file)) => files.sync_log(file),
            None => Ok(()),
        }
    }

    /// Notes from where on the log is needed, and lets PostgreSQL use the segments before that again.
    pub(super) fn note_checkpoint(&self, lsn: u64) -> Done {
        let turn = self.notes.fetch_add(1, Relaxed);
        Note { lsn, epoch: self.epoch }.write(self.layer, &self.files, turn)?;
        self.checkpoint.store(lsn, Relaxed);
        if self.layer == Layer::Postgres {
            let mut wal = self.wal.lock();
            let first = wal.segments.0;
            let needed = self.layer.log_place(lsn).0;
            for number in first..needed {
                let path = self.layer.log_path(number);
                if wal.segments.1 < needed + 2 * SEGMENTS {
                    wal.segments.1 += 1;
                    self.files.rename(&path, &self.layer.log_path(wal.segments.1))?;
                } else {
                    self.files.unlink(&path)?;
                }
            }
            wal.segments.0 = needed.max(first);
        }
        Ok(())
    }
}
