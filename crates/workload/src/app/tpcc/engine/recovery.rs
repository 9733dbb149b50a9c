//! Opening a database: what a run or a crash has left becomes what was committed.
//!
//! 1. InnoDB: pages that are torn in their place are taken from the doublewrite buffer.
//! 2. From the note of the last checkpoint on, whole units of the log are redone, in order, as far as there are any of this epoch.
//! 3. All pages are written, and a note begins the next epoch at the end of the log.

use std::sync::atomic::Ordering::Relaxed;

use super::files::{Calls, Done, Files};
use super::layer::{DOUBLEWRITE, FIRST_FREE, Layer};
use super::log::{self, Buffer, Change, Record};
use super::pool::PageId;
use super::wal::Note;
use super::{Engine, Server, page};
use crate::app::control::Failure;

/// Bytes of log that are read at once.
const READ: usize = 1 << 20;
/// No unit is longer.
const LONGEST: usize = 2 << 20;

impl Server {
    /// Opens the database that is there.
    pub(in crate::app::tpcc) fn recover<'a>(&self, calls: Calls<'a>) -> Done<Engine<'a>> {
        let note = Note::read(self.layer, &Files::new(calls.clone()))?;
        let mut engine = self.open(calls, note)?;
        if self.layer == Layer::InnoDb {
            engine.restore_torn()?;
        }
        // The log is durable as far as it is read: pages may be written at any time.
        engine.flushed.store(u64::MAX, Relaxed);
        let (end, tail) = engine.redo(note)?;
        engine.epoch = note.epoch + 1;
        {
            let mut wal = engine.wal.lock();
            wal.tail = tail;
            wal.segments.1 = self.layer.log_place(end).0;
        }
        engine.latch().log = Buffer::new(end, engine.epoch, self.layer.lengths());
        engine.flushed.store(end, Relaxed);
        for file in 0..engine.data.len() {
            let id = PageId { file: file as u16, block: 0 };
            engine.load(id)?;
            let mut state = engine.latch();
            if let Some(frame) = state.frame_of(id) {
                state.frames[frame as usize].pins += 1;
            }
        }
        engine.write_all()?;
        Ok(engine)
    }
}

impl Engine<'_> {
    /// Writes pages of the doublewrite buffer to their places where these are torn.
    fn restore_torn(&self) -> Done {
        let (len, file) = (self.layer.page(), &self.data[0]);
        let mut copies = vec![0; (FIRST_FREE - DOUBLEWRITE) as usize * len];
        self.files.read(file, &mut copies, self.offset(DOUBLEWRITE))?;
        let mut there = vec![0; len];
        for copy in copies.chunks(len) {
            let (number, block) = page::place(copy);
            if !page::is_whole(copy) || number != 0 || copy.iter().all(|byte| *byte == 0) {
                continue;
            }
            self.files.read(file, &mut there, self.offset(block))?;
            if !page::is_whole(&there) {
                self.files.write(file, copy, self.offset(block))?;
            }
        }
        self.files.sync(file)
    }

    /// Redoes the log from a note on: its end, and the bytes of its last block.
    fn redo(&self, note: Note) -> Done<(u64, Vec<u8>)> {
        let mut reader = Reader { engine: self, bytes: Vec::new(), from: note.lsn, is_over: false };
        let (mut at, mut tail) = (note.lsn, Vec::new());
        let block = self.layer.block();
        self.tail_before(at, &mut tail)?;
        while let Some(unit) = reader.unit(at, note.epoch)? {
            let records = log::records(&unit, at);
            let told = || format!("the log unit at {at} has a right checksum and records that make no sense");
            let records = records.ok_or_else(|| Failure::new(told(), None))?;
            records.iter().try_for_each(|record| self.redo_record(record, note.lsn))?;
            at += unit.len() as u64;
            tail.extend_from_slice(&unit);
            let kept = (at % block) as usize;
            if tail.len() > kept {
                tail.drain(..tail.len() - kept);
            }
        }
        Ok((at, tail))
    }

    /// What the block of a position has before it.
    fn tail_before(&self, lsn: u64, into: &mut Vec<u8>) -> Done {
        let before = lsn % self.layer.block();
        let (number, offset) = self.layer.log_place(lsn - before);
        into.resize(before as usize, 0);
        match self.files.open_if_there(&self.layer.log_path(number))? {
            Some(file) => {
                self.files.read(&file, into, offset)?;
                self.files.close(&file)
            }
            None => Ok(()),
        }
    }

    fn redo_record(&self, record: &Record<'_>, since: u64) -> Done {
        let id = PageId { file: record.file, block: record.block };
        let is_image = matches!(record.change, Change::Image(_));
        if usize::from(id.file) >= self.data.len() {
            let told = format!("the log unit before {} changes file {}, which is none", record.lsn, id.file);
            return Err(Failure::new(told, None));
        }
        if self.latch().frame_of(id).is_none() {
            if is_image {
                let frame = self.free_frame()?;
                let mut state = self.latch();
                state.install(frame, id);
                state.bytes_mut(frame).fill(0);
            } else {
                self.load(id)?;
            }
        }
        let mut state = self.latch();
        let Some(frame) = state.frame_of(id) else { return Ok(()) };
        let bytes = state.bytes_mut(frame);
        if page::lsn(bytes) >= record.lsn && !is_image {
            return Ok(());
        }
        if !record.change.fits(bytes) {
            drop(state);
            return Err(self.damaged(id, &format!("does not fit the log record before {}", record.lsn)));
        }
        record.change.apply(bytes);
        page::set_lsn(bytes, record.lsn);
        state.soil(frame, since);
        Ok(())
    }
}

/// The log in files, read on.
struct Reader<'a> {
    engine: &'a Engine<'a>,
    bytes: Vec<u8>,
    /// The position of the first of them.
    from: u64,
    is_over: bool,
}

impl Reader<'_> {
    /// The unit at a position, if there is a whole one.
    fn unit(&mut self, at: u64, epoch: u64) -> Done<Option<Vec<u8>>> {
        loop {
            let have = &self.bytes[(at - self.from) as usize..];
            if let Some(len) = log::unit(have, at, epoch) {
                return Ok(Some(have[..len].to_vec()));
            }
            if self.is_over || have.len() >= LONGEST {
                return Ok(None);
            }
            self.bytes.drain(..(at - self.from) as usize);
            self.from = at;
            self.read_on()?;
        }
    }

    fn read_on(&mut self) -> Done {
        let layer = self.engine.layer;
        let pos = self.from + self.bytes.len() as u64;
        let (number, offset) = layer.log_place(pos);
        let len = READ.min((layer.log_file() - pos % layer.log_file()) as usize);
        let files = &self.engine.files;
        let Some(file) = files.open_if_there(&layer.log_path(number))? else {
            self.is_over = true;
            return Ok(());
        };
        let from = self.bytes.len();
        self.bytes.resize(from + len, 0);
        files.read(&file, &mut self.bytes[from..], offset)?;
        files.close(&file)
    }
}
