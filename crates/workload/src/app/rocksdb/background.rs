//! What works beside the clients: flushes of full memtables, and merges of tables (RocksDB's compactions).
//!
//! | task | does |
//! |---|---|
//! | flush | all full memtables become a table of level 0: table, directory, manifest; their logs are removed |
//! | merge | tables are read and merged; of a key only the newest entry stays; results, directory, manifest; inputs are removed |
//!
//! A result ends at its size; where there are tables below, at twice the size, or at the end of one of them, as soon as it is half
//! full and 5 % more for each end of a table that it has passed (`db/compaction/compaction_outputs.cc` of 7.8). When the database
//! is closed a merge is given up, and its results are removed, as in RocksDB.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use sim::{JoinHandle, Nanos, TaskSpec};

use super::engine::{Counts, Db, Engine, Full, MANIFEST_PATH};
use super::levels::{Merge, Table};
use super::store::{Done, Run, TableWriter, table_path};
use crate::app::control::{Control, Tally};
use crate::suite::Cores;

/// Bytes of a record of the manifest, as db_bench 7.8.3 wrote them: of a flush, and of each table of a merge.
const FLUSHED: u64 = 121;
const CHANGED: u64 = 56;
/// The head with which each record begins, which is written by itself.
const HEADED: u64 = 16;

/// Starts the background tasks on these cores, each on the next one.
pub(super) fn start(engine: &Arc<Engine>, control: &Arc<Control>, cores: Cores) {
    let spawn = |name: &str, core: u64, work: fn(&Engine) -> Done| -> JoinHandle<()> {
        let (engine, control) = (Arc::clone(engine), Arc::clone(control));
        let spec = TaskSpec::named(name).on_core(cores.round_robin(core)).movable().background();
        sim::spawn(spec, move || {
            if let Err(failure) = work(&engine) {
                control.fail(failure);
                engine.db.lock().failed = true;
                engine.changed.notify_all();
            }
            control.ended(&Tally::default());
        })
    };
    let settled = &engine.settled;
    let flushes = (0..settled.flushes).map(|at| spawn("rocksdb flush", settled.clients + at, flushes));
    let merges =
        (0..settled.merges).map(|at| spawn("rocksdb merge", settled.clients + settled.flushes + at, merges));
    engine.keep(flushes.chain(merges).collect());
}

/// Waits until there is work; none when the database is closed.
fn next<T>(engine: &Engine, take: impl Fn(&mut Db) -> Option<T>) -> Option<T> {
    let mut db = engine.db.lock();
    while !engine.is_closing() && !db.failed {
        if let Some(work) = take(&mut db) {
            return Some(work);
        }
        db = engine.changed.wait(db);
    }
    None
}

fn flushes(engine: &Engine) -> Done {
    let take = |db: &mut Db| {
        db.flushing += db.full.len() as u64;
        Some(std::mem::take(&mut db.full)).filter(|full| !full.is_empty())
    };
    while let Some(full) = next(engine, take) {
        flush(engine, &full)?;
    }
    Ok(())
}

/// Work of so many nanoseconds for each KiB.
fn per_kib(ns: u64, bytes: u64) -> Nanos {
    Nanos(ns * bytes / 1024)
}

fn flush(engine: &Engine, full: &[Full]) -> Done {
    let mut keys: Vec<u32> = full.iter().flat_map(|full| &full.keys).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let (files, settled) = (&engine.files, &engine.settled);
    let mut writer = TableWriter::create(files, engine.number(), settled.value)?;
    let mut worked = 0;
    for key in keys {
        writer.add(key)?;
        if writer.bytes() - worked >= 64 << 10 {
            sim::compute_for(per_kib(settled.flush_ns, writer.bytes() - worked));
            worked = writer.bytes();
        }
    }
    let table = writer.finish()?;
    files.sync_directory(engine.directory)?;
    record(engine, FLUSHED)?;
    files.stat(&table_path(table.number))?;
    Counts::add(&engine.counts.flushes, 1);
    Counts::add(&engine.counts.flushed_bytes, table.bytes);
    let mut db = engine.db.lock();
    db.levels.add(table);
    db.flushing -= full.len() as u64;
    drop(db);
    engine.changed.notify_all();
    full.iter().try_for_each(|full| files.drop_log(full.log.0, full.log.1, full.log.2))
}

/// Notes a change of tables.
fn record(engine: &Engine, bytes: u64) -> Done {
    let manifest = engine.manifest.lock();
    engine.files.write(*manifest, MANIFEST_PATH, bytes)?;
    engine.files.write(*manifest, MANIFEST_PATH, HEADED)?;
    engine.files.fdatasync(*manifest, MANIFEST_PATH)
}

fn merges(engine: &Engine) -> Done {
    while let Some(merge) = next(engine, |db| db.levels.take()) {
        if merge.is_move() {
            record(engine, 2 * CHANGED)?;
            Counts::add(&engine.counts.moves, 1);
            settle(engine, &merge, merge.upper.clone());
            continue;
        }
        let Some(results) = merged(engine, &merge)? else { break };
        engine.files.sync_directory(engine.directory)?;
        record(engine, CHANGED * (results.len() + merge.inputs().count()) as u64)?;
        Counts::add(&engine.counts.merges, 1);
        Counts::add(&engine.counts.merged_bytes, results.iter().map(|table| table.bytes).sum());
        settle(engine, &merge, results.into_iter().map(Arc::new).collect());
        merge.inputs().try_for_each(|table| engine.files.drop_table(table))?;
        Counts::add(&engine.counts.tables_removed, merge.inputs().count() as u64);
    }
    Ok(())
}

fn settle(engine: &Engine, merge: &Merge, results: Vec<Arc<Table>>) {
    engine.db.lock().levels.finish(merge, results);
    engine.changed.notify_all();
}

/// The results of a merge; none if the database is closed meanwhile.
fn merged(engine: &Engine, merge: &Merge) -> Done<Option<Vec<Table>>> {
    let files = &engine.files;
    // Tables of level 0 overlap each other; those of others follow each other.
    let mut runs: Vec<Run<'_>> = match merge.from {
        0 => merge.upper.iter().map(|table| Run::new(files, vec![Arc::clone(table)])).collect(),
        _ => vec![Run::new(files, merge.upper.clone())],
    };
    runs.push(Run::new(files, merge.lower.clone()));
    let mut heap = BinaryHeap::new();
    for (at, run) in runs.iter_mut().enumerate() {
        heap.extend(advance(engine, run)?.map(|key| Reverse((key, at))));
    }
    let mut results = Results::new(engine, merge);
    let mut last = None;
    while let Some(Reverse((key, at))) = heap.pop() {
        if engine.is_closing() {
            return results.give_up().map(|()| None);
        }
        if last.replace(key) != Some(key) {
            results.add(key)?;
        }
        heap.extend(advance(engine, &mut runs[at])?.map(|key| Reverse((key, at))));
    }
    results.finish().map(Some)
}

/// The next key of a run, with the work of merging what was read for it.
fn advance(engine: &Engine, run: &mut Run<'_>) -> Done<Option<u32>> {
    let Some((key, read)) = run.next()? else { return Ok(None) };
    if read > 0 {
        Counts::add(&engine.counts.merge_read_bytes, read);
        sim::compute_for(per_kib(engine.settled.merge_ns, read));
    }
    Ok(Some(key))
}

/// Tables that a merge writes.
struct Results<'a> {
    engine: &'a Engine,
    boundaries: &'a [u32],
    done: Vec<Table>,
    open: Option<TableWriter<'a>>,
    /// Ends of tables below that the open one has passed.
    passed: u64,
}

impl<'a> Results<'a> {
    fn new(engine: &'a Engine, merge: &'a Merge) -> Self {
        Self { engine, boundaries: &merge.boundaries, done: Vec::new(), open: None, passed: 0 }
    }

    fn add(&mut self, key: u32) -> Done {
        let is_below = !self.boundaries.is_empty();
        let passed = self.boundaries.iter().take_while(|end| **end < key).count();
        self.boundaries = &self.boundaries[passed..];
        let size = self.engine.settled.shape.table;
        let is_over = |writer: &TableWriter<'_>, before: u64| {
            let most = if is_below { 2 * size } else { size };
            // Each table below ends one stretch and begins another.
            let share = 50 + (10 * before).min(40);
            writer.bytes() >= most || (passed > 0 && writer.bytes() >= size / 100 * share)
        };
        self.passed += passed as u64;
        if let Some(writer) = self.open.take_if(|writer| is_over(writer, self.passed)) {
            self.end(writer)?;
        }
        if self.open.is_none() {
            let writer =
                TableWriter::create(&self.engine.files, self.engine.number(), self.engine.settled.value)?;
            writer.reserve(size + size / 10)?;
            self.open = Some(writer);
        }
        self.open.as_mut().map_or(Ok(()), |writer| writer.add(key))
    }

    fn end(&mut self, writer: TableWriter<'a>) -> Done {
        self.done.push(writer.finish()?);
        self.passed = 0;
        Ok(())
    }

    fn finish(mut self) -> Done<Vec<Table>> {
        if let Some(writer) = self.open.take() {
            self.end(writer)?;
        }
        Ok(self.done)
    }

    fn give_up(self) -> Done {
        self.open.map_or(Ok(()), TableWriter::give_up)?;
        self.done.iter().try_for_each(|table| self.engine.files.drop_table(table))
    }
}
