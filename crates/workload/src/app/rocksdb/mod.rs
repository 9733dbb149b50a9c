//! RocksDB: a key-value store of sorted tables, written to as by `db_bench --benchmarks overwrite` (FxMark's third application).
//!
//! Calls and sizes were read from db_bench 7.8.3 (strace, its LOG) and from RocksDB's source of that version. Keys are kept, values
//! are not: of a table memory has the numbers of its keys, 4 bytes each, and its blocks, 8 bytes each.
//!
//! | module | holds |
//! |---|---|
//! | `format` | sizes of log records, memtables and tables |
//! | `levels` | the tables by level, and which are merged next |
//! | `store` | files: tables are written and read |
//! | `engine` | write queue, log, memtable, stalls |
//! | `background` | flushes and merges |
//!
//! What is not as in RocksDB: `sync_file_range` of no bytes after each open, which checks whether the call exists, and advice to
//! the page cache are left out; a slowdown is a pause of a millisecond for each record, where RocksDB computes a rate; tables of
//! level 0 are not merged with each other; nothing is read by clients.

mod background;
mod engine;
mod format;
mod levels;
mod store;

use std::sync::{Arc, OnceLock};

use rand::RngExt as _;
use sim::{Bytes, LockClass, Nanos, Rng};
use vfs::{OpenFlags, Syscalls};

use self::engine::{Engine, Writer};
use self::levels::Shape;
use self::store::Done;
use super::control::{Control, Does, Failure, Kind, Tally};
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::charges::GENERATOR;
use crate::suite::{Cores, Growth, How, Job, JobError, LoadError, Processes, Settings, Workload};
use crate::tree::CallFailed;

/// The classes of its locks.
pub(super) static CLASSES: [&LockClass; 5] =
    [&engine::QUEUE, &engine::TURN, &engine::LOG, &engine::MANIFEST, &engine::DB];

pub(super) const DETAIL: &str = "\
Clients write random keys to one database, as db_bench's overwrite does: a leader writes the log for all that wait, memtables become
tables of level 0, and tables are merged down seven levels. Nothing is compressed, the log is not synced.

  clients     threads that write (--threads)
  num         keys; each is 16 bytes
  value       bytes of a value
  buffer      of a memtable (write_buffer_size)
  memtables   full ones at which writers stop (max_write_buffer_number)
  table       bytes of a table that a merge writes (target_file_size_base)
  base        bytes of level 1 (max_bytes_for_level_base); each further level may have ten times as many
  trigger, slowdown, stop
              tables of level 0 that are merged, slow writers down, and stop them
  flushes, merges
              background tasks of each kind; 0: as many as clients
  insert_ns   what a client computes to put an entry into the memtable
  flush_ns, merge_ns
              what a flush computes for each KiB that it writes, a merge for each that it reads

An operation is a key that is written. Write amplification is (rocksdb.flushed_bytes + rocksdb.merged_bytes) by rocksdb.puts times
16 bytes and the value.
";

const KINDS: &[Kind] = &[Kind { name: "put", does: Does::Writes }];

/// What a database is opened with.
#[derive(Clone, Copy, Debug)]
struct Settled {
    clients: u64,
    value: u64,
    buffer: u64,
    memtables: u64,
    shape: Shape,
    slowdown: u64,
    stop: u64,
    flushes: u64,
    merges: u64,
    insert: Nanos,
    flush_ns: u64,
    merge_ns: u64,
}

/// All variables, checked.
#[derive(Debug)]
struct RocksDb {
    settled: Settled,
    num: u64,
    values: Values,
    /// The database of a run.
    engine: OnceLock<Opened>,
}

/// A database, or why there is none.
struct Opened(Done<Arc<Engine>>);

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opened")
    }
}

pub(super) fn load(settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new("rocksdb", "clients", settings);
    let (mib, most) = (1 << 20, 1 << 40);
    let clients = reader.count("clients", 2, 1..=MAX_CLIENTS)?;
    let num = reader.count("num", 1_000_000, 1..=1 << 30)?;
    let value = reader.bytes("value", 8192, 1..=16 * mib)?;
    let buffer = reader.bytes("buffer", 64 * mib, 64 << 10..=16 << 30)?;
    let memtables = reader.count("memtables", 2, 1..=64)?;
    let table = reader.bytes("table", 64 * mib, 64 << 10..=2 << 30)?;
    let base = reader.bytes("base", 256 * mib, 64 << 10..=most)?;
    let trigger = reader.count("trigger", 4, 1..=10_000)?;
    let slowdown = reader.count("slowdown", 20, trigger..=10_000)?;
    let stop = reader.count("stop", 36, slowdown..=10_000)?;
    let mut tasks = |name| {
        let count = reader.count(name, 1, 0..=MAX_CLIENTS)?;
        Ok::<u64, LoadError>(if count == 0 { clients } else { count })
    };
    let (flushes, merges) = (tasks("flushes")?, tasks("merges")?);
    let settled = Settled {
        clients,
        value,
        buffer,
        memtables,
        shape: Shape { trigger, base, table },
        slowdown,
        stop,
        flushes,
        merges,
        insert: Nanos(reader.count("insert_ns", 2500, 0..=1_000_000_000)?),
        flush_ns: reader.count("flush_ns", 1000, 0..=1_000_000)?,
        merge_ns: reader.count("merge_ns", 2000, 0..=1_000_000)?,
    };
    Ok(Arc::new(RocksDb { settled, num, values: reader.finish()?, engine: OnceLock::new() }))
}

impl Workload for RocksDb {
    fn settings(&self) -> String {
        format!("app/rocksdb {:?}", self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    /// Logs and the tables of level 0, as far as they may grow; what keys there are is added with time.
    fn data_bytes(&self) -> u64 {
        let settled = &self.settled;
        settled.buffer.saturating_mul(2 * settled.memtables + settled.slowdown).saturating_add(64 << 20)
    }

    fn small_files(&self) -> u64 {
        64
    }

    /// The log, and a table that is merged while it still stands.
    fn growth(&self) -> Growth {
        Growth::PerOperation(3 * (self.settled.value + 64))
    }

    fn tasks(&self) -> u64 {
        self.settled.clients
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["num", "value", "buffer"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        // The database is that of one run.
        let plan = Self { values: self.values.clone(), engine: OnceLock::new(), ..*self };
        Ok(Arc::new(Run::new(Arc::new(plan), how, processes)))
    }
}

/// Writes a file under another name, and gives it its own.
fn write_renamed(calls: &dyn Syscalls, name: &str, len: usize) -> Result<(), CallFailed> {
    let (draft, path) = ("db/000005.dbtmp", format!("db/{name}"));
    let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let fd = calls.open(draft.as_bytes(), flags, 0o644).map_err(CallFailed::of("open", draft))?;
    calls.write(fd, &vec![b'v'; len]).map_err(CallFailed::of("write", draft))?;
    calls.fdatasync(fd).map_err(CallFailed::of("fdatasync", draft))?;
    calls.close(fd).map_err(CallFailed::of("close", draft))?;
    let renamed = calls.rename(draft.as_bytes(), path.as_bytes(), vfs::RenameFlags::empty());
    renamed.map_err(CallFailed::of("rename", &path))
}

impl Plan for RocksDb {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.settled.clients
    }

    fn buffer(&self) -> Bytes {
        Bytes(format::batch(1, self.settled.value))
    }

    fn prepare(&self, _how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        calls.mkdir(b"db", 0o755).map_err(CallFailed::of("mkdir", "db"))?;
        let mut files = [("IDENTITY", 36), ("CURRENT", 16), ("OPTIONS-000007", 6930)].into_iter();
        Ok(files.try_for_each(|(name, len)| write_renamed(calls, name, len))?)
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        let open = || {
            let engine = Engine::open(self.settled, place.processes.start(), place.how.seed);
            Opened(engine.map(Arc::new))
        };
        Box::new(Client {
            engine: self.engine.get_or_init(open).0.clone(),
            starts: (client == 0).then_some(place.how.cores),
            writer: Arc::new(Writer::new()),
            rng: place.how.seed.derive("app.rocksdb", client).rng(),
            num: self.num,
        })
    }
}

/// A thread that writes.
struct Client {
    engine: Done<Arc<Engine>>,
    /// The first one starts the background tasks, on these cores.
    starts: Option<Cores>,
    writer: Arc<Writer>,
    rng: Rng,
    num: u64,
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        let engine = self.engine.clone()?;
        if let Some(cores) = self.starts.take() {
            background::start(&engine, control, cores);
        }
        sim::work(GENERATOR, 1);
        let (key, started) = (self.rng.random_range(0..self.num) as u32, sim::now());
        if !engine.put(&self.writer, key)? {
            return Ok(false);
        }
        control.note(tally, 0, 16 + engine.settled.value, started);
        Ok(true)
    }

    fn finish(&mut self, tally: &mut Tally) {
        if let Ok(engine) = &self.engine {
            engine.leave(tally);
        }
    }
}
