//! A database that clients write to: the write queue, the log, the memtable, and when writers must wait.
//!
//! ```text
//! put ─▷ queue ─ first ─▷ leader: room? ─▷ its group ─▷ one record in the log ─▷ memtable ─▷ the next leads
//!              └ others ─▷ wait until a leader has written them, or until they lead
//! memtable full ─▷ a new log; the old memtable waits for a flush
//! ```
//!
//! Each member of a group puts its own entry into the memtable, beside the others and the next leader, as with RocksDB's
//! `enable_pipelined_write` and `allow_concurrent_memtable_write`.
//!
//! Lock order: `app.rocksdb.log`, then `app.rocksdb.db`; `app.rocksdb.manifest`, then `app.rocksdb.db`; `app.rocksdb.queue` and
//! `app.rocksdb.turn` over nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use sim::{Condvar, JoinHandle, LockClass, Mutex, Nanos, Rng, Seed};
use vfs::{Fd, Syscalls};

use super::Settled;
use super::format::{Arena, LogEnd, batch};
use super::levels::Levels;
use super::store::{Done, Files, PIECE, log_path};
use crate::app::control::Tally;

pub(super) static QUEUE: LockClass = LockClass::new("app.rocksdb.queue");
pub(super) static TURN: LockClass = LockClass::new("app.rocksdb.turn");
pub(super) static LOG: LockClass = LockClass::new("app.rocksdb.log");
pub(super) static MANIFEST: LockClass = LockClass::new("app.rocksdb.manifest");
pub(super) static DB: LockClass = LockClass::new("app.rocksdb.db");

/// Bytes of a group at most, and by how much one exceeds its leader's batch if that is small (`db/write_thread.cc`).
const GROUP: u64 = 1 << 20;
const SMALL: u64 = GROUP / 8;
/// How long a write is held up while level 0 has grown to its slowdown.
const SLOWDOWN: Nanos = Nanos::from_millis(1);

/// What is counted, by its name in results.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) puts: AtomicU64,
    pub(super) log_bytes: AtomicU64,
    pub(super) log_writes: AtomicU64,
    pub(super) flushes: AtomicU64,
    pub(super) flushed_bytes: AtomicU64,
    pub(super) merges: AtomicU64,
    pub(super) moves: AtomicU64,
    pub(super) merged_bytes: AtomicU64,
    pub(super) merge_read_bytes: AtomicU64,
    pub(super) tables_removed: AtomicU64,
    pub(super) stops: AtomicU64,
    pub(super) stopped_ns: AtomicU64,
    pub(super) slowdowns: AtomicU64,
}

impl Counts {
    pub(super) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Relaxed);
    }

    fn tell(&self, tally: &mut Tally) {
        for (name, count) in [
            ("rocksdb.puts", &self.puts),
            ("rocksdb.log_bytes", &self.log_bytes),
            ("rocksdb.log_writes", &self.log_writes),
            ("rocksdb.flushes", &self.flushes),
            ("rocksdb.flushed_bytes", &self.flushed_bytes),
            ("rocksdb.merges", &self.merges),
            ("rocksdb.moves", &self.moves),
            ("rocksdb.merged_bytes", &self.merged_bytes),
            ("rocksdb.merge_read_bytes", &self.merge_read_bytes),
            ("rocksdb.tables_removed", &self.tables_removed),
            ("rocksdb.stops", &self.stops),
            ("rocksdb.stopped_ns", &self.stopped_ns),
            ("rocksdb.slowdowns", &self.slowdowns),
        ] {
            tally.add(name, count.load(Relaxed));
        }
    }
}

/// A client in the write queue.
pub(super) struct Writer {
    key: AtomicU32,
    turn: Mutex<Turn>,
    told: Condvar,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { key: AtomicU32::new(0), turn: Mutex::new(&TURN, Turn::Waits), told: Condvar::of_class(&TURN) }
    }

    fn tell(&self, turn: Turn) {
        *self.turn.lock() = turn;
        self.told.notify_one();
    }

    fn wait(&self) -> Turn {
        let mut turn = self.turn.lock();
        while *turn == Turn::Waits {
            turn = self.told.wait(turn);
        }
        std::mem::replace(&mut *turn, Turn::Waits)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Waits,
    Leads,
    Written,
    /// The database takes no more writes.
    Over,
}

#[derive(Default)]
struct Queue {
    is_led: bool,
    waiting: VecDeque<Arc<Writer>>,
}

/// The log and the memtable that it stands for; only the leader takes it.
struct Log {
    number: u64,
    fd: Fd,
    end: LogEnd,
    arena: Arena,
    keys: Vec<u32>,
    rng: Rng,
}

/// A memtable that is full.
pub(super) struct Full {
    pub(super) keys: Vec<u32>,
    pub(super) log: (u64, Fd, u64),
}

/// What background tasks and stalls depend on.
pub(super) struct Db {
    pub(super) levels: Levels,
    pub(super) full: Vec<Full>,
    /// Full memtables that are being flushed.
    pub(super) flushing: u64,
    /// A background task has failed.
    pub(super) failed: bool,
}

/// A database.
pub(super) struct Engine {
    pub(super) settled: Settled,
    pub(super) files: Files,
    pub(super) directory: Fd,
    pub(super) manifest: Mutex<Fd>,
    pub(super) db: Mutex<Db>,
    /// Notified when tables or memtables change, and at the end: tasks that wait for room or for work check again.
    pub(super) changed: Condvar,
    pub(super) counts: Counts,
    queue: Mutex<Queue>,
    log: Mutex<Log>,
    /// The number of the next file.
    next: AtomicU64,
    closing: AtomicBool,
    clients: AtomicU64,
    tasks: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

pub(super) const MANIFEST_PATH: &str = "db/MANIFEST-000005";

impl Engine {
    /// Opens the database: the calls are those of one process.
    pub(super) fn open(settled: Settled, calls: Arc<dyn Syscalls>, seed: Seed) -> Done<Self> {
        let record = LogEnd::default().append(batch(1, settled.value));
        let files = Files::new(calls, PIECE.max(2 * record));
        let (directory, manifest) = (files.open_directory()?, files.create(MANIFEST_PATH)?);
        files.reserve(manifest, MANIFEST_PATH, 4 << 20)?;
        files.write(manifest, MANIFEST_PATH, 35)?;
        files.fdatasync(manifest, MANIFEST_PATH)?;
        let number = 8;
        let log = Log {
            number,
            fd: files.create(&log_path(number))?,
            end: LogEnd::default(),
            arena: Arena::new(settled.buffer),
            keys: Vec::new(),
            rng: seed.derive("app.rocksdb.memtable", 0).rng(),
        };
        let db = Db { levels: Levels::new(settled.shape), full: Vec::new(), flushing: 0, failed: false };
        Ok(Self {
            files,
            directory,
            manifest: Mutex::new(&MANIFEST, manifest),
            db: Mutex::new(&DB, db),
            changed: Condvar::of_class(&DB),
            counts: Counts::default(),
            queue: Mutex::new(&QUEUE, Queue::default()),
            log: Mutex::new(&LOG, log),
            next: AtomicU64::new(number + 1),
            closing: AtomicBool::new(false),
            clients: AtomicU64::new(settled.clients),
            tasks: std::sync::Mutex::default(),
            settled,
        })
    }

    /// The number of a new file.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Background tasks, which [`Engine::leave`] waits for.
    pub(super) fn keep(&self, tasks: Vec<JoinHandle<()>>) {
        self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(tasks);
    }

    /// A client has ended; the last one closes the database and tells what was counted.
    pub(super) fn leave(&self, tally: &mut Tally) {
        if self.clients.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        let db = self.db.lock();
        self.closing.store(true, Relaxed);
        drop(db);
        self.changed.notify_all();
        let tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        tasks.into_iter().for_each(JoinHandle::join);
        self.counts.tell(tally);
        tally.add("rocksdb.tables", self.db.lock().levels.count() as u64);
    }

    /// Writes a key. False: the database takes no more.
    pub(super) fn put(&self, writer: &Arc<Writer>, key: u32) -> Done<bool> {
        writer.key.store(key, Relaxed);
        let leads = {
            let mut queue = self.queue.lock();
            if queue.is_led {
                queue.waiting.push_back(Arc::clone(writer));
            }
            !std::mem::replace(&mut queue.is_led, true)
        };
        let goes_on = match if leads { Turn::Leads } else { writer.wait() } {
            Turn::Leads => self.lead(writer)?,
            turn => turn == Turn::Written,
        };
        if goes_on {
            sim::copy(self.settled.value);
            sim::compute_for(self.settled.insert);
        }
        Ok(goes_on)
    }

    /// Writes the leader's group, and lets the next one lead.
    fn lead(&self, leader: &Arc<Writer>) -> Done<bool> {
        let mut group = Vec::new();
        let written = self.make_room().and_then(|is_room| {
            if is_room {
                group = self.group();
                self.write(leader, &group)?;
            }
            Ok(is_room)
        });
        let goes_on = matches!(written, Ok(true));
        let mut queue = self.queue.lock();
        let (next, over) = if goes_on {
            (queue.waiting.pop_front(), VecDeque::new())
        } else {
            (None, std::mem::take(&mut queue.waiting))
        };
        queue.is_led = next.is_some();
        drop(queue);
        if let Some(next) = next {
            next.tell(Turn::Leads);
        }
        for member in &group {
            member.tell(if goes_on { Turn::Written } else { Turn::Over });
        }
        for member in &over {
            member.tell(Turn::Over);
        }
        written
    }

    /// Who waits, as far as the sizes of their batches let them into one record with the leader's.
    fn group(&self) -> Vec<Arc<Writer>> {
        let each = batch(1, self.settled.value);
        let most = if each <= SMALL { each + SMALL } else { GROUP };
        let others = (most / each).saturating_sub(1) as usize;
        let mut queue = self.queue.lock();
        let others = others.min(queue.waiting.len());
        queue.waiting.drain(..others).collect()
    }

    fn write(&self, leader: &Arc<Writer>, others: &[Arc<Writer>]) -> Done {
        let mut log = self.log.lock();
        let (count, path) = (1 + others.len() as u64, log_path(log.number));
        if log.end.bytes() == 0 {
            let buffer = self.settled.buffer;
            self.files.reserve(log.fd, &path, buffer + buffer / 10)?;
        }
        let record = batch(count, self.settled.value);
        let bytes = log.end.append(record);
        // The batch is put together from those of the group.
        sim::copy(record);
        self.files.write(log.fd, &path, bytes)?;
        for writer in std::iter::once(leader).chain(others) {
            let Log { keys, arena, rng, .. } = &mut *log;
            keys.push(writer.key.load(Relaxed));
            arena.add(self.settled.value, rng);
        }
        Counts::add(&self.counts.puts, count);
        Counts::add(&self.counts.log_bytes, bytes);
        Counts::add(&self.counts.log_writes, 1);
        Ok(())
    }

    /// Changes to an empty memtable if this one is full, and waits while flushes and merges are behind. False: one has failed.
    fn make_room(&self) -> Done<bool> {
        let mut log = self.log.lock();
        if log.arena.is_full() {
            self.switch(&mut log)?;
        }
        let is_stopped = |db: &Db| {
            let waiting = db.full.len() as u64 + db.flushing;
            waiting >= self.settled.memtables || db.levels.unsorted() >= self.settled.stop
        };
        let mut db = self.db.lock();
        if is_stopped(&db) {
            let since = sim::now();
            while is_stopped(&db) && !db.failed {
                db = self.changed.wait(db);
            }
            Counts::add(&self.counts.stops, 1);
            Counts::add(&self.counts.stopped_ns, sim::now().since(since).0);
        }
        let (failed, is_slow) = (db.failed, db.levels.unsorted() >= self.settled.slowdown);
        drop(db);
        if is_slow && !failed {
            Counts::add(&self.counts.slowdowns, 1);
            sim::sleep(SLOWDOWN);
        }
        Ok(!failed)
    }

    /// A new log, and a memtable for a flush.
    fn switch(&self, log: &mut Log) -> Done {
        let number = self.number();
        let fd = self.files.create(&log_path(number))?;
        let before = (log.number, log.fd, log.end.bytes());
        (log.number, log.fd, log.end) = (number, fd, LogEnd::default());
        log.arena = Arena::new(self.settled.buffer);
        let keys = std::mem::take(&mut log.keys);
        log.keys.reserve(keys.len());
        self.db.lock().full.push(Full { keys, log: before });
        self.changed.notify_all();
        Ok(())
    }
}
