//! A storage engine: rows in B+-trees, a pool of pages, and a log that is written ahead.
//!
//! ```text
//! read ─▷ pool ─ miss ─▷ victim ─ dirty ─▷ log as far as the page's LSN ─▷ page to its file ─▷ page from its file
//! commit ─▷ leaves pinned ─▷ rows changed, one unit of log ─▷ log to its file, synced ─▷ committed
//! ```
//!
//! A transaction keeps its changes to itself until it commits, so that no page has changes of one that does not: recovery redoes
//! what the log has and undoes nothing. Its changes enter the pool and the log in one step, under the latch.
//!
//! | module | holds |
//! |---|---|
//! | `layer` | the two storage layers: sizes, names, places |
//! | `page`, `tree` | entries of a page; B+-trees of resident pages |
//! | `pool` | frames, victims, what is dirty |
//! | `log` | units and records |
//! | `wal` | the log in files |
//! | `files` | calls, counted |
//! | `build` | trees of a new database, written in order |
//! | `checkpoint` | what writes pages beside the clients: checkpoints, background writer, page cleaner |
//! | `recovery` | opening what a run or a crash has left |
//!
//! Lock order: `app.tpcc.row` (the caller's), `app.tpcc.read`, `app.tpcc.double`, `app.tpcc.log`; `app.tpcc.work` over nothing. The
//! latch over pages and log in memory is over none of these and over no call: it is held for as long as memory is looked at, costs
//! nothing, and is no model of a server's latches.

mod build;
mod checkpoint;
mod files;
mod layer;
mod log;
mod page;
mod pool;
mod recovery;
mod tree;
mod wal;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{MutexGuard, PoisonError};

use sim::{Condvar, JoinHandle, LockClass, Mutex};

pub(super) use self::build::{Builder, Building, create};
pub(super) use self::checkpoint::start;
pub(super) use self::files::{Calls, Done};
use self::files::{File, Files};
pub(super) use self::layer::Layer;
use self::pool::{PageId, State, Victim};
use self::tree::Tree;
use self::wal::Wal;
use super::super::control::{Failure, Tally};

pub(super) static READ: LockClass = LockClass::new("app.tpcc.read");
pub(super) static DOUBLE: LockClass = LockClass::new("app.tpcc.double");
pub(super) static LOG: LockClass = LockClass::new("app.tpcc.log");
pub(super) static WORK: LockClass = LockClass::new("app.tpcc.work");

/// Frames that a transaction may need for new pages.
const SPARE: usize = 24;
/// Locks of pages that are being read.
const READS: usize = 64;
/// Dirty frames that a client of InnoDB passes over before it writes a page itself.
const PATIENCE: usize = 64;

/// A change of a row.
#[derive(Clone, Copy, Debug)]
enum Write {
    /// A new row, its bytes in the transaction.
    Insert,
    /// Bytes of a row from an offset on.
    Update(usize),
    Remove,
}

/// The changes of a transaction.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Tree, key, what, and where its bytes are.
    writes: Vec<(usize, u64, Write, std::ops::Range<usize>)>,
    bytes: Vec<u8>,
}

impl Changes {
    fn add(&mut self, tree: usize, key: u64, write: Write, bytes: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.writes.push((tree, key, write, from..self.bytes.len()));
    }

    pub(super) fn insert(&mut self, tree: usize, key: u64, row: &[u8]) {
        self.add(tree, key, Write::Insert, row);
    }

    pub(super) fn update(&mut self, tree: usize, key: u64, offset: usize, bytes: &[u8]) {
        self.add(tree, key, Write::Update(offset), bytes);
    }

    pub(super) fn remove(&mut self, tree: usize, key: u64) {
        self.add(tree, key, Write::Remove, &[]);
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.writes.len() as u64
    }

    pub(super) fn clear(&mut self) {
        self.writes.clear();
        self.bytes.clear();
    }
}

/// A database that is open.
pub(super) struct Engine<'a> {
    layer: Layer,
    trees: Vec<Tree>,
    files: Files<'a>,
    /// The files of pages.
    data: Vec<File>,
    /// The latch.
    state: std::sync::Mutex<State>,
    wal: Mutex<Wal>,
    /// How far the log is durable.
    flushed: AtomicU64,
    /// From where on the log is needed after a crash, as its note says.
    checkpoint: AtomicU64,
    epoch: u64,
    reads: Vec<Mutex<()>>,
    double: Mutex<()>,
    /// Work for the tasks beside the clients, told by `work`; when some is done, by `progress`.
    due: Mutex<bool>,
    work: Condvar,
    progress: Condvar,
    /// There is work, and it was told.
    told: AtomicBool,
    /// Notes of checkpoints so far.
    notes: AtomicUsize,
    closing: AtomicBool,
    clients: AtomicU64,
    tasks: std::sync::Mutex<Vec<JoinHandle<()>>>,
    begun: std::sync::Mutex<Option<Vec<(&'static str, u64)>>>,
}

impl Engine<'_> {
    fn latch(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn damaged(&self, id: PageId, what: &str) -> Failure {
        let path = &self.data[usize::from(id.file)].path;
        Failure::new(format!("page {} of {path} {what}", id.block), None)
    }

    /// A row, if there is one.
    pub(super) fn read<T>(&self, tree: usize, key: u64, take: impl FnOnce(&[u8]) -> T) -> Done<Option<T>> {
        let at = self.trees[tree];
        loop {
            let missing = {
                let mut state = self.latch();
                match state.descend(at, key) {
                    Ok(path) => {
                        let leaf = state.bytes(path.leaf());
                        return Ok(page::find(leaf, key).map(|at| take(page::row(leaf, at))));
                    }
                    Err(missing) => missing,
                }
            };
            self.load(missing)?;
        }
    }

    /// Rows from a key on, until `take` says false or `to` is reached.
    pub(super) fn scan(
        &self,
        tree: usize,
        range: std::ops::Range<u64>,
        mut take: impl FnMut(u64, &[u8]) -> bool,
    ) -> Done {
        let (at, mut from) = (self.trees[tree], range.start);
        loop {
            let missing = {
                let mut state = self.latch();
                match state.descend(at, from) {
                    Ok(path) => {
                        let leaf = state.bytes(path.leaf());
                        for at in page::search(leaf, from)..page::count(leaf) {
                            let key = page::key(leaf, at);
                            if key >= range.end || !take(key, page::row(leaf, at)) {
                                return Ok(());
                            }
                        }
                        match path.fence.filter(|fence| *fence < range.end) {
                            Some(fence) => from = fence,
                            None => return Ok(()),
                        }
                        continue;
                    }
                    Err(missing) => missing,
                }
            };
            self.load(missing)?;
        }
    }

    /// The largest key of a tree, if it has rows.
    pub(super) fn last_key(&self, tree: usize) -> Done<Option<u64>> {
        loop {
            let found = self.latch().last_key(self.trees[tree]);
            match found {
                Ok(key) => return Ok(key),
                Err(missing) => self.load(missing)?,
            }
        }
    }

    /// Makes changes durable, all or none.
    pub(super) fn commit(&self, changes: &Changes) -> Done {
        self.make_log_room()?;
        sim::interact();
        let (lsn, added) = self.apply(changes)?;
        // Each is tried: a page that keeps waiting for its place would hold up checkpoints.
        added.into_iter().map(|id| self.extend(id)).fold(Ok(()), Result::and)?;
        self.tell_work_if_due();
        self.flush_log(lsn)
    }

    /// Makes changes in memory, and one unit of log; its end, and the pages that are new.
    fn apply(&self, changes: &Changes) -> Done<(u64, Vec<PageId>)> {
        let mut pinned = Vec::new();
        let applied = loop {
            self.make_spare_frames()?;
            let missing = {
                let mut state = self.latch();
                let pins = changes
                    .writes
                    .iter()
                    .try_for_each(|(tree, key, ..)| state.pin_leaf(self.trees[*tree], *key, &mut pinned));
                match pins {
                    Ok(()) if state.free.len() >= SPARE => break self.change(&mut state, changes),
                    Ok(()) => None,
                    Err(missing) => Some(missing),
                }
            };
            if let Some(missing) = missing {
                self.load(missing)?;
            }
        };
        self.latch().unpin(&pinned);
        applied
    }

    fn change(&self, state: &mut State, changes: &Changes) -> Done<(u64, Vec<PageId>)> {
        state.log.begin();
        for (tree, key, write, bytes) in &changes.writes {
            let (at, bytes) = (self.trees[*tree], &changes.bytes[bytes.clone()]);
            let changed = match write {
                Write::Insert => state.insert(at, *key, bytes).map(|()| true),
                Write::Update(offset) => state.update(at, *key, *offset, bytes),
                Write::Remove => state.remove(at, *key),
            };
            let is_there = changed.map_err(|id| self.damaged(id, "left the pool while it was pinned"))?;
            if !is_there {
                let told = format!("tree {tree} lost the row {key:#x} during a transaction that had read it");
                return Err(Failure::new(told, None));
            }
        }
        let lsn = state.log.finish();
        Ok((lsn, std::mem::take(&mut state.added)))
    }

    /// Gets a page from its file.
    fn load(&self, id: PageId) -> Done {
        let lane = (usize::from(id.file) * 31 + id.block as usize) % READS;
        let _reading = self.reads[lane].lock();
        if self.latch().frame_of(id).is_some() {
            return Ok(());
        }
        let frame = self.free_frame()?;
        let mut bytes = vec![0; self.layer.page()];
        let read = self.files.read(&self.data[usize::from(id.file)], &mut bytes, self.offset(id.block));
        let is_right = page::is_whole(&bytes) && page::place(&bytes) == (id.file, id.block);
        let mut state = self.latch();
        if let (Ok(()), true) = (&read, is_right) {
            state.bytes_mut(frame).copy_from_slice(&bytes);
            state.install(frame, id);
            return Ok(());
        }
        state.free.push(frame);
        drop(state);
        read.and_then(|()| Err(self.damaged(id, "is damaged: its checksum or its place is wrong")))
    }

    fn offset(&self, block: u32) -> u64 {
        u64::from(block) * self.layer.page() as u64
    }

    /// Keeps frames for new pages.
    fn make_spare_frames(&self) -> Done {
        while self.latch().free.len() < SPARE {
            let frame = self.victim()?;
            self.latch().free.push(frame);
        }
        Ok(())
    }

    fn free_frame(&self) -> Done<u32> {
        // Frames in reserve are for new pages; what is read takes a victim unless there are more.
        let free = {
            let mut state = self.latch();
            if state.free.len() > SPARE { state.free.pop() } else { None }
        };
        free.map_or_else(|| self.victim(), Ok)
    }

    /// Gives up a page.
    fn victim(&self) -> Done<u32> {
        let patience = if self.layer == Layer::InnoDb { PATIENCE } else { 0 };
        loop {
            let found = self.latch().victim(patience);
            match found {
                Victim::Free(frame) => return Ok(frame),
                Victim::Dirty(frame) => {
                    self.tell_work();
                    self.write_page(frame)?;
                }
                Victim::None => sim::sleep(sim::Nanos::from_micros(10)),
            }
        }
    }

    /// Writes a page of the pool, by a task that needs its frame.
    fn write_page(&self, frame: u32) -> Done {
        match self.layer {
            Layer::Postgres => self.write_in_place(frame),
            Layer::InnoDb => {
                let _double = self.double.lock();
                self.write_twice(&[frame], layer::BATCH as u32)
            }
        }
    }

    /// A client has ended; the last one ends the tasks beside them and tells what was counted.
    pub(super) fn leave(&self, tally: &mut Tally) {
        if self.clients.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        self.closing.store(true, Relaxed);
        self.tell_work();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.into_iter().for_each(JoinHandle::join);
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
        for (at, (name, value)) in self.files.counts.values().into_iter().enumerate() {
            tally.add(name, value - begun.get(at).map_or(0, |(_, before)| *before));
        }
    }

    /// Calls count from now on, if this was not said before.
    pub(super) fn begin_counting(&self) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.is_none() {
            *begun = Some(self.files.counts.values());
        }
    }

    /// Calls and bytes so far, by name.
    #[cfg(test)]
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.files.counts.values()
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    fn tell_work(&self) {
        let mut due = self.due.lock();
        *due = true;
        drop(due);
        self.work.notify_all();
        self.progress.notify_all();
    }
}

/// The least pool for so many clients: each may pin the pages of a transaction, and as many again are on the way to them.
pub(super) fn least_pool(layer: Layer, clients: u64) -> u64 {
    (128 + 64 * clients) * layer.page() as u64
}

/// A server: its trees, with the bytes of a row of each.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) layer: Layer,
    /// Bytes of the pool.
    pub(super) pool: u64,
    pub(super) rows: &'static [usize],
    pub(super) clients: u64,
}

impl Server {
    fn trees(&self) -> Vec<Tree> {
        let tree = |(at, row): (usize, &usize)| Tree {
            file: self.layer.file(at),
            root: self.layer.root(at),
            row: *row,
        };
        self.rows.iter().enumerate().map(tree).collect()
    }

    fn open<'a>(&self, calls: Calls<'a>, note: wal::Note) -> Done<Engine<'a>> {
        let (files, layer) = (Files::new(calls), self.layer);
        let count = layer.files(self.rows.len());
        let data = (0..count).map(|file| files.open(&layer.path(file), false)).collect::<Done<Vec<_>>>()?;
        let log = log::Buffer::new(note.lsn, note.epoch, layer.lengths());
        let frames = (self.pool as usize / layer.page()).max(1);
        let mut state = State::new(layer.page(), frames, count, log);
        state.extends = layer == Layer::Postgres;
        Ok(Engine {
            layer,
            trees: self.trees(),
            data,
            state: std::sync::Mutex::new(state),
            wal: Mutex::new(&LOG, Wal::new(layer.log_place(note.lsn).0)),
            flushed: AtomicU64::new(note.lsn),
            checkpoint: AtomicU64::new(note.lsn),
            epoch: note.epoch,
            reads: (0..READS).map(|_| Mutex::new(&READ, ())).collect(),
            double: Mutex::new(&DOUBLE, ()),
            due: Mutex::new(&WORK, false),
            work: Condvar::of_class(&WORK),
            progress: Condvar::of_class(&WORK),
            told: AtomicBool::new(false),
            notes: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            clients: AtomicU64::new(self.clients),
            tasks: std::sync::Mutex::default(),
            begun: std::sync::Mutex::default(),
            files,
        })
    }
}
