//! What writes pages beside the clients.
//!
//! | task | does |
//! |---|---|
//! | checkpointer (`postgres`) | after 48 MiB of log or 300 s: all pages that changed before, a sync of each file, a note |
//! | background writer (`postgres`) | every 200 ms up to 100 pages that changed first (`bgwriter_delay`, `bgwriter_lru_maxpages`) |
//! | page cleaner (`innodb`) | while more than a tenth of the pool or of the log waits: batches of 120 pages, each with a note |
//!
//! The cleaner's limits are `innodb_max_dirty_pages_pct_lwm` and `innodb_adaptive_flushing_lwm` of MySQL 8.0.
//!
//! Neither is held back to spread its writes, as the servers are (`checkpoint_completion_target`, `innodb_io_capacity`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sim::{JoinHandle, Nanos, TaskSpec};

use super::Engine;
use super::files::Done;
use super::layer::{BATCH, DOUBLEWRITE, Layer, SEGMENTS};
use super::pool::PageId;
use crate::app::control::{Control, Failure, Tally};
use crate::suite::Cores;

/// `checkpoint_timeout`.
const TIMEOUT: Nanos = Nanos::from_secs(300);
/// `bgwriter_delay`, `bgwriter_lru_maxpages`.
const DELAY: Nanos = Nanos::from_millis(200);
const MOST_AT_ONCE: usize = 100;
/// How long a task sleeps when no one wakes it.
const IDLE: Nanos = Nanos::from_secs(1);

/// Starts the tasks on these cores, those behind the clients'.
pub(in crate::app::tpcc) fn start(
    engine: &Arc<Engine<'static>>,
    control: &Arc<Control>,
    cores: Cores,
    clients: u64,
) {
    let spawn = |name: &str, at: u64, work: fn(&Engine<'static>) -> Done| -> JoinHandle<()> {
        let (engine, control) = (Arc::clone(engine), Arc::clone(control));
        let spec = TaskSpec::named(name).on_core(cores.round_robin(clients + at)).movable().background();
        sim::spawn(spec, move || {
            if let Err(failure) = work(&engine) {
                control.fail(failure);
                engine.closing.store(true, Relaxed);
                engine.tell_work();
            }
            control.ended(&Tally::default());
        })
    };
    let tasks = match engine.layer {
        Layer::Postgres => vec![
            spawn("tpcc checkpointer", 0, checkpointer),
            spawn("tpcc background writer", 1, background_writer),
        ],
        Layer::InnoDb => vec![spawn("tpcc page cleaner", 0, page_cleaner)],
    };
    engine.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(tasks);
}

fn checkpointer(engine: &Engine<'static>) -> Done {
    let mut last = sim::now();
    while !engine.is_closing() {
        if engine.is_log_long() || sim::now().since(last) >= TIMEOUT {
            last = sim::now();
            engine.write_all()?;
        } else {
            engine.wait_for_work(IDLE);
        }
    }
    Ok(())
}

fn background_writer(engine: &Engine<'static>) -> Done {
    while !engine.is_closing() {
        engine.wait_for_work(DELAY);
        let frames = engine.latch().unused(MOST_AT_ONCE);
        frames.into_iter().try_for_each(|frame| engine.write_in_place(frame))?;
    }
    Ok(())
}

fn page_cleaner(engine: &Engine<'static>) -> Done {
    while !engine.is_closing() {
        let is_due = engine.is_log_long() || {
            let state = engine.latch();
            state.dirty * 10 > state.frames.len()
        };
        if is_due {
            engine.clean()?;
        } else {
            engine.wait_for_work(IDLE);
        }
    }
    Ok(())
}

impl Engine<'_> {
    fn wait_for_work(&self, most: Nanos) {
        let mut due = self.due.lock();
        if !*due && !self.is_closing() {
            due = self.work.wait_timeout(due, most).0;
        }
        *due = false;
    }

    /// Whether so much log has come since the last checkpoint that pages must be written.
    fn is_log_long(&self) -> bool {
        let since = self.latch().log.end() - self.checkpoint.load(Relaxed);
        match self.layer {
            Layer::Postgres => since >= SEGMENTS * self.layer.log_file(),
            Layer::InnoDb => since >= 2 * self.layer.log_file() / 10,
        }
    }

    /// Wakes the tasks beside the clients when there is work for them.
    pub(super) fn tell_work_if_due(&self) {
        let is_dirty = self.layer == Layer::InnoDb && {
            let state = self.latch();
            state.dirty * 10 > state.frames.len()
        };
        if (is_dirty || self.is_log_long()) && !self.told.swap(true, Relaxed) {
            self.tell_work();
        }
    }

    /// Waits until the circle of log files has room.
    pub(super) fn make_log_room(&self) -> Done {
        let most = 2 * self.layer.log_file() / 8 * 7;
        let is_short = || self.latch().log.end() - self.checkpoint.load(Relaxed) > most;
        if self.layer == Layer::Postgres || !is_short() {
            return Ok(());
        }
        let mut due = self.due.lock();
        while is_short() {
            if self.is_closing() {
                return Err(Failure::new("the page cleaner has ended and the log has no room", None));
            }
            *due = true;
            self.work.notify_all();
            due = self.progress.wait(due);
        }
        Ok(())
    }

    /// Writes a page to its place, if it has changes.
    pub(super) fn write_in_place(&self, frame: u32) -> Done {
        let mut bytes = vec![0; self.layer.page()];
        let Some((id, lsn)) = self.latch().copy_out(frame, &mut bytes) else { return Ok(()) };
        let written = self.flush_log(lsn).and_then(|()| self.write_at(id, &bytes));
        self.latch().written(frame);
        written
    }

    fn write_at(&self, id: PageId, bytes: &[u8]) -> Done {
        self.files.write(&self.data[usize::from(id.file)], bytes, self.offset(id.block))
    }

    /// Gives a new page its place in its file: a page of zeros. Until then no one writes the page itself.
    pub(super) fn extend(&self, id: PageId) -> Done {
        let extended = self.write_at(id, &vec![0; self.layer.page()]);
        let mut state = self.latch();
        if let Some(frame) = state.frame_of(id) {
            state.written(frame);
        }
        extended
    }

    /// Writes pages to the doublewrite buffer from slot `slot` on, then to their places, each time with a sync.
    pub(super) fn write_twice(&self, frames: &[u32], slot: u32) -> Done {
        let len = self.layer.page();
        let (mut bytes, mut pages) = (vec![0; frames.len() * len], Vec::with_capacity(frames.len()));
        let mut upto = 0;
        {
            let mut state = self.latch();
            for frame in frames {
                let into = &mut bytes[pages.len() * len..][..len];
                if let Some((id, lsn)) = state.copy_out(*frame, into) {
                    pages.push((*frame, id));
                    upto = upto.max(lsn);
                }
            }
        }
        let bytes = &bytes[..pages.len() * len];
        let written = if pages.is_empty() { Ok(()) } else { self.write_copies(bytes, &pages, slot, upto) };
        let mut state = self.latch();
        for (frame, _) in &pages {
            state.written(*frame);
        }
        written
    }

    fn write_copies(&self, bytes: &[u8], pages: &[(u32, PageId)], slot: u32, upto: u64) -> Done {
        let tablespace = &self.data[0];
        self.flush_log(upto)?;
        self.files.write(tablespace, bytes, self.offset(DOUBLEWRITE + slot))?;
        self.files.sync(tablespace)?;
        let mut copies = bytes.chunks(self.layer.page()).zip(pages);
        copies.try_for_each(|(page, (_, id))| self.write_at(*id, page))?;
        self.files.sync(tablespace)
    }

    /// Writes the pages that changed first, and moves the checkpoint on.
    pub(super) fn clean(&self) -> Done {
        self.told.store(false, Relaxed);
        let frames = self.latch().oldest(u64::MAX, BATCH);
        self.write_twice(&frames, 0)?;
        let lsn = self.latch().needed_from();
        self.flush_log(lsn)?;
        self.note_checkpoint(lsn)?;
        self.progress.notify_all();
        Ok(())
    }

    /// A checkpoint: all pages that have changed up to now are in their files, and durable.
    pub(in crate::app::tpcc) fn write_all(&self) -> Done {
        if self.layer == Layer::InnoDb {
            while self.latch().dirty > 0 {
                self.clean()?;
            }
            return self.clean();
        }
        self.told.store(false, Relaxed);
        let redo = {
            let mut state = self.latch();
            state.images_to = state.log.end() + 1;
            state.log.end()
        };
        while self.latch().has_older(redo) {
            let frames = self.latch().oldest(redo, BATCH);
            if frames.is_empty() {
                // Others are writing them.
                sim::sleep(Nanos::from_micros(10));
            }
            frames.into_iter().try_for_each(|frame| self.write_in_place(frame))?;
        }
        self.data.iter().try_for_each(|file| self.files.sync(file))?;
        self.flush_log(redo)?;
        self.note_checkpoint(redo)
    }
}
