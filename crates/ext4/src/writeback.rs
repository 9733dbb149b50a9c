//! Write-back: one task for each mount, as Linux has one flusher for each device.
//!
//! | what it writes | when |
//! |---|---|
//! | mappings that have been dirty for 30 s | it looks every second |
//! | the oldest mappings, until a tenth of the cache is dirty | a writer that leaves more than that dirty wakes it |
//! | transactions that are older than `commit`; committed metadata that is old, or a tenth of the cache | it looks every second |
//!
//! A writer that leaves more than a fifth of the cache dirty waits until it is less, or until the task has tried every mapping
//! once: what is dirty may be pinned by a transaction, and a device may fail. The writer itself writes nothing back, as in Linux
//! since 3.2 (`balance_dirty_pages`, mm/page-writeback.c). Where the driver copies on the core of the submitter (a RAM disk,
//! NVMMBD), all buffered writers together thus get what one task can copy.
//!
//! Lock order: a writer waits with no lock held, because the task takes inodes. `ext4.writeback` is held over nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sim::{Condvar, JoinHandle, LockClass, Mutex, Nanos};

use super::Volume;
use super::inode::Inode;
use base::cache::Mapping;
use base::error::Result;

pub(super) static WRITEBACK: LockClass = LockClass::new("ext4.writeback").under(&[]);

/// How often the task looks for work.
const WAKE: Nanos = Nanos::from_secs(1);
/// How old written data may become (Linux: `dirty_expire_centisecs`, 30 s).
const EXPIRE: Nanos = Nanos::from_secs(30);

/// The task of a mount, and what it and the writers tell each other.
pub(super) struct Writeback {
    state: Mutex<State>,
    /// There is work, or the task is to end.
    work: Condvar,
    /// Less is dirty, or a pass has ended.
    progress: Condvar,
    /// A writer has found too much dirty since the last pass began.
    asked: AtomicBool,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    running: bool,
    /// Passes that have ended.
    passes: u64,
}

impl Writeback {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(&WRITEBACK, State::default()),
            work: Condvar::new(),
            progress: Condvar::new(),
            asked: AtomicBool::new(false),
            task: Mutex::new(&WRITEBACK, None),
        }
    }

    /// Waits for work; false: the task is to end.
    fn next(&self) -> bool {
        let mut state = self.state.lock();
        if state.running && !self.asked.load(Relaxed) {
            (state, _) = self.work.wait_timeout(state, WAKE);
        }
        self.asked.store(false, Relaxed);
        state.running
    }

    /// Wakes the task unless another writer has.
    fn ask(&self) {
        if !self.asked.swap(true, Relaxed) {
            drop(self.state.lock());
            self.work.notify_one();
        }
    }

    /// Tells writers that less is dirty, or that a pass has ended.
    fn tell(&self, passes: u64) {
        self.state.lock().passes += passes;
        self.progress.notify_all();
    }
}

impl Volume {
    /// Starts the task of a mount that can be written.
    pub(super) fn start_writeback(self: &Arc<Self>) {
        if self.settings.read_only {
            return;
        }
        self.writeback.state.lock().running = true;
        let volume = Arc::clone(self);
        // As Linux's worker, which is bound to no core.
        let spec = sim::TaskSpec::named("ext4 writeback").background().movable();
        let task = sim::spawn(spec, move || {
            while volume.writeback.next() {
                let _op = sim::op(::vfs::ops::WRITEBACK);
                volume.write_back_old();
                volume.writeback.tell(1);
            }
        });
        *self.writeback.task.lock() = Some(task);
    }

    /// Ends the task, and waits for it.
    pub(super) fn stop_writeback(&self) {
        self.writeback.state.lock().running = false;
        self.writeback.work.notify_all();
        self.writeback.progress.notify_all();
        let task = self.writeback.task.lock().take();
        task.into_iter().for_each(JoinHandle::join);
    }

    /// Ends a write of an inode that the caller does not hold: wakes the task if much is dirty, and waits for it if too much is.
    #[inline]
    pub(super) fn balance_dirty(&self, inode: &Inode) -> Result<()> {
        match self.cache.is_over_background_limit() {
            true => self.throttle(inode),
            false => Ok(()),
        }
    }

    fn throttle(&self, inode: &Inode) -> Result<()> {
        if !self.settings.writes_back {
            // No other task does it.
            return match self.cache.is_over_limit() {
                true => {
                    self.allocate_mapping(inode.mapping()).and_then(|()| self.write_data(inode.mapping()))
                }
                false => Ok(()),
            };
        }
        self.writeback.ask();
        if !self.cache.is_over_limit() {
            return Ok(());
        }
        let mut state = self.writeback.state.lock();
        // The pass that is under way may have begun before these pages were dirty.
        let enough = state.passes + 2;
        while state.running && state.passes < enough && self.cache.is_over_limit() {
            // So that the task goes on at once after a pass.
            self.writeback.asked.store(true, Relaxed);
            self.writeback.work.notify_one();
            state = self.writeback.progress.wait(state);
        }
        Ok(())
    }

    /// Writes back what is old or too much, and commits what is old.
    fn write_back_old(&self) {
        if self.check_running().is_err() {
            return;
        }
        let now = sim::now();
        if self.settings.writes_back {
            let old = now.0.checked_sub(EXPIRE.0).map(|old| self.cache.dirty_since(Nanos(old)));
            old.unwrap_or_default().iter().for_each(|mapping| self.write_back(mapping));
            self.write_back_excess(now);
        }
        let Some(journal) = &self.journal else { return };
        if journal.running_since().is_some_and(|begun| now.since(begun) >= self.settings.commit) {
            let _ = self.commit(journal.last_tid());
        }
        // As write-back does in Linux with metadata that is old or too much; it bounds what a replay has to do, and the memory of
        // what waits.
        let is_old = journal.waiting_since().is_some_and(|since| now.since(since) >= EXPIRE);
        if is_old || self.cache.is_much(journal.waiting_blocks()) {
            let _ = self.checkpoint();
        }
    }

    /// Writes back the oldest mappings until no more is dirty than may be without a writer's being told.
    fn write_back_excess(&self, now: Nanos) {
        if !self.cache.is_over_background_limit() {
            return;
        }
        for mapping in self.cache.dirty_since(now) {
            if !self.cache.is_over_background_limit() {
                return;
            }
            self.write_back(&mapping);
            if !self.cache.is_over_limit() {
                self.writeback.tell(0);
            }
        }
    }

    /// Writes back a mapping. What fails here fails at the next sync of the file, which reports it; the pages stay dirty.
    fn write_back(&self, mapping: &Arc<Mapping>) {
        let (number, done) = match mapping.number() {
            0 => (0, self.write_metadata()),
            ino => (ino, self.allocate_mapping(mapping).and_then(|()| self.write_data(mapping))),
        };
        if let Err(error) = done {
            let of = if number == 0 { "metadata".to_owned() } else { format!("inode {number}: its data") };
            self.tell(&format!("{of} cannot be written back ({error}); it is tried again, and a sync fails"));
        }
    }
}
