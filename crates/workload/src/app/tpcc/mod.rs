//! TPC-C (standard, revision 5.11): the orders of a wholesale supplier, on a storage engine of Weir's own with two storage layers.
//!
//! | module | holds |
//! |---|---|
//! | `schema` | tables, keys and rows |
//! | `random` | non-uniform numbers, texts, the deck of cards |
//! | `populate` | the first contents |
//! | `transactions` | the five transactions and their locks |
//! | `conditions` | consistency conditions 1 to 4 |
//! | `engine` | pages, trees, log, checkpoints, recovery |
//!
//! Not as in the standard: terminals do not think or key in; a Delivery is done at once, not queued; there is no isolation of reads
//! from transactions that commit between two of them. Not as in the servers: PostgreSQL writes a new version of a row where here it
//! changes in its place, and both also log what a transaction did that is rolled back, which here leaves no trace.

mod conditions;
mod engine;
mod inputs;
mod populate;
mod random;
mod schema;
#[cfg(test)]
mod tests;
mod transactions;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use sim::{Bytes, LockClass, Nanos, Seed};
use vfs::Syscalls;

use self::engine::{Calls, Changes, Done, Engine, Layer, Server};
use self::inputs::Inputs;
use self::random::{Constants, Deck};
use self::schema::{DISTRICTS, Scale};
use self::transactions::{Locks, Terminal};
use super::control::{Control, Does, Failure, Kind, Tally};
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::charges::GENERATOR;
use crate::suite::{Cores, Growth, How, Job, JobError, LoadError, Measured, Processes, Settings, Workload};

/// The classes of its locks.
pub(super) static CLASSES: [&LockClass; 5] =
    [&transactions::ROW, &engine::READ, &engine::DOUBLE, &engine::LOG, &engine::WORK];

pub(super) const DETAIL: &str = "\
Terminals make the five transactions of TPC-C in the mix of the standard (45, 43, 4, 4, 4 of a deck of 100 cards) on a database with
B+-trees, a pool of pages and a log. Each commit is durable before the terminal goes on.

  terminals   how many there are (--threads); terminal K is at warehouse K modulo warehouses
  warehouses  each has about 80 MB of rows
  layer       innodb: 16-KiB pages in one file, a doublewrite buffer, two log files in a circle;
              postgres: 8-KiB pages in a file for each table, segments of log, whole pages logged after a checkpoint
  pool        bytes of pages in memory; 0: 128 MiB of innodb, 32 MiB of postgres
  new_orders  New-Orders after which the run ends; 0: until the time is over
  row_ns      what a terminal computes for each row that it reads or changes

An operation is a transaction that is durable or was rolled back as the standard wants. tpcc.tpmc is New-Orders a minute;
tpcc.write_share_permille is write calls in a thousand of reads and writes at the file system. After the run, consistency conditions
1 to 4 of the standard must hold; with --check also in what the next mount recovers.
";

/// What a row takes to be read or changed: the processor time of PostgreSQL 15 for a transaction of `tests/apps/tpcc.sql` in memory
/// without syncs, 0.98 ms, by the 51 rows that a transaction has here in the mean.
const ROW_NS: u64 = 19_000;
/// Bytes of a transaction that stay: an order with ten lines in trees that are three quarters full.
const GROWTH: u64 = 1200;

const NEW_ORDER: usize = 0;
const KINDS: &[Kind] = &[
    Kind { name: "new_order", does: Does::Writes },
    Kind { name: "payment", does: Does::Writes },
    Kind { name: "order_status", does: Does::Reads },
    Kind { name: "delivery", does: Does::Writes },
    Kind { name: "stock_level", does: Does::Reads },
];

/// What is counted at the file system.
const COUNTS: [&str; 8] = [
    "tpcc.read_calls",
    "tpcc.read_bytes",
    "tpcc.write_calls",
    "tpcc.write_bytes",
    "tpcc.log_writes",
    "tpcc.log_bytes",
    "tpcc.log_syncs",
    "tpcc.page_syncs",
];

/// What all terminals of a run share.
struct Database {
    engine: Arc<Engine<'static>>,
    locks: Arc<Locks>,
    history: Arc<AtomicU64>,
}

/// A database, or why there is none.
struct Opened {
    database: Done<Database>,
    /// New-Orders that are still to be made.
    left: Arc<AtomicU64>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opened")
    }
}

/// All variables, checked.
struct TpcC {
    server: Server,
    clients: u64,
    scale: Scale,
    new_orders: u64,
    row: Nanos,
    values: Values,
    /// The database of a run.
    database: OnceLock<Opened>,
}

impl std::fmt::Debug for TpcC {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TpcC")
            .field("server", &self.server)
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}

const LAYERS: [(&str, Layer); 2] = [("innodb", Layer::InnoDb), ("postgres", Layer::Postgres)];

/// The answer to a layer that was removed.
const SQLITE: &str = "app/tpcc: layer=sqlite is no longer there: fragmentation/sqlite runs SQLite itself on a design, and \
                      layer=innodb or layer=postgres TPC-C (the commit 677650c had both)";

pub(super) fn load(settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new("tpcc", "terminals", settings);
    let clients = reader.count("terminals", 8, 1..=MAX_CLIENTS)?;
    let warehouses = reader.count("warehouses", 1, 1..=schema::MOST_WAREHOUSES)?;
    if settings.vars.get("layer").is_some_and(|layer| layer.trim() == "sqlite") {
        return Err(LoadError::Wrong(SQLITE.to_owned()));
    }
    let layer = reader.word("layer", &LAYERS)?;
    let pool = match reader.bytes("pool", 0, 0..=1 << 40)? {
        0 => layer.usual_pool(),
        pool => pool,
    };
    let server = Server { layer, pool, rows: &schema::ROWS, clients };
    let new_orders = reader.count("new_orders", 0, 0..=1_000_000_000)?;
    let row = Nanos(reader.count("row_ns", ROW_NS, 0..=1_000_000_000)?);
    let values = reader.finish()?;
    let least = engine::least_pool(layer, clients);
    if pool < least {
        let told =
            format!("app/tpcc: pool={}: {clients} terminals need at least {}", Bytes(pool), Bytes(least));
        return Err(LoadError::Wrong(told));
    }
    let scale = Scale::standard(warehouses);
    let database = OnceLock::new();
    Ok(Arc::new(TpcC { server, clients, scale, new_orders, row, values, database }))
}

impl Workload for TpcC {
    fn settings(&self) -> String {
        format!("app/tpcc {:?}", self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    /// Rows in pages that are as full as they are made, pages of extents that no one has, and the log.
    fn data_bytes(&self) -> u64 {
        let layer = self.server.layer;
        self.scale.bytes() / 100 * 118 + layer.besides_pages() + 11 * 64 * layer.page() as u64
    }

    fn small_files(&self) -> u64 {
        32
    }

    fn growth(&self) -> Growth {
        match self.new_orders {
            0 => Growth::PerOperation(GROWTH),
            // Beside each New-Order somewhat more than one of the others.
            count => Growth::ToBytes(self.data_bytes().saturating_add(count.saturating_mul(5 * GROWTH / 2))),
        }
    }

    fn tasks(&self) -> u64 {
        self.clients
    }

    fn ends(&self) -> bool {
        self.new_orders > 0
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["warehouses", "new_orders"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        // The database is that of one run.
        let plan = Self {
            server: self.server.clone(),
            values: self.values.clone(),
            database: OnceLock::new(),
            ..*self
        };
        Ok(Arc::new(Run::new(Arc::new(plan), how, processes)))
    }
}

impl TpcC {
    fn open(&self, calls: Arc<dyn Syscalls>) -> Done<Database> {
        let engine = self.server.recover(Calls::Own(calls))?;
        let last = engine.last_key(schema::HISTORY)?.unwrap_or(0);
        Ok(Database {
            engine: Arc::new(engine),
            locks: Arc::new(Locks::new(self.scale.warehouses)),
            history: Arc::new(AtomicU64::new(last)),
        })
    }

    /// What terminal `client` works with.
    fn terminal(&self, client: u64, database: &Database, seed: Seed) -> Terminal {
        let warehouses = self.scale.warehouses;
        let inputs = Inputs {
            scale: self.scale,
            constants: Constants::new(seed),
            rng: seed.derive("app.tpcc", client).rng(),
            home: (client % warehouses + 1, client / warehouses % DISTRICTS + 1),
        };
        Terminal {
            engine: Arc::clone(&database.engine),
            locks: Arc::clone(&database.locks),
            inputs,
            row: self.row,
            history: Arc::clone(&database.history),
            changes: Changes::default(),
        }
    }
}

impl Plan for TpcC {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.clients
    }

    fn buffer(&self) -> Bytes {
        Bytes(self.server.layer.page() as u64)
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        populate::populate(&self.server, self.scale, how.seed, Calls::Lent(calls))
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        let left = if self.new_orders > 0 { self.new_orders } else { u64::MAX };
        let opened = self.database.get_or_init(|| {
            let database = self.open(place.processes.start());
            Opened { database, left: Arc::new(AtomicU64::new(left)) }
        });
        let database = opened.database.as_ref();
        let terminal = database.map(|database| self.terminal(client, database, place.how.seed));
        let starts = match database {
            Ok(Database { engine, .. }) if client == 0 => {
                Some((Arc::clone(engine), place.how.cores, self.clients))
            }
            _ => None,
        };
        let terminal = terminal.map_err(Clone::clone);
        Box::new(Client { terminal, left: Arc::clone(&opened.left), starts, deck: Deck::default() })
    }

    fn conclude(&self, measured: &mut Measured) -> Result<(), Failure> {
        let Some(Opened { database: Ok(database), .. }) = self.database.get() else { return Ok(()) };
        let count = |name: &str| measured.counters.get(name).copied().unwrap_or(0);
        let (reads, writes) = (count("tpcc.read_calls"), count("tpcc.write_calls"));
        let share = (1000 * writes).checked_div(reads + writes).unwrap_or(0);
        let minute = u128::from(Nanos::from_secs(60).0) * u128::from(count("tpcc.new_orders"));
        let rate = minute.checked_div(u128::from(measured.elapsed.0)).unwrap_or(0) as u64;
        let transactions = measured.ops;
        measured.notes.push(format!(
            "app/tpcc: {transactions} transactions, {rate} New-Orders a minute, {}.{} % writes of {} calls at the file system",
            share / 10,
            share % 10,
            reads + writes
        ));
        measured.counters.insert("tpcc.write_share_permille".to_owned(), share);
        measured.counters.insert("tpcc.tpmc".to_owned(), rate);
        if measured.cut_short { Ok(()) } else { conditions::check(&database.engine, self.scale.warehouses) }
    }

    fn verify(&self, calls: &dyn Syscalls) -> Result<(), Failure> {
        let engine = self.server.recover(Calls::Lent(calls))?;
        conditions::check(&engine, self.scale.warehouses)
    }
}

/// A terminal that works.
struct Client {
    terminal: Done<Terminal>,
    left: Arc<AtomicU64>,
    /// The first one starts the tasks beside the terminals, on these cores behind theirs.
    starts: Option<(Arc<Engine<'static>>, Cores, u64)>,
    deck: Deck,
}

/// What one of a counter's units is taken for; false if none are left.
fn take(left: &AtomicU64) -> bool {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        let terminal = match &mut self.terminal {
            Ok(terminal) => terminal,
            Err(failure) => return Err(failure.clone()),
        };
        if let Some((engine, cores, clients)) = self.starts.take() {
            engine::start(&engine, control, cores, clients);
        }
        let is_counted = sim::now() >= control.begin();
        if is_counted {
            terminal.engine.begin_counting();
        }
        sim::work(GENERATOR, 1);
        let kind = self.deck.draw(&mut terminal.inputs.rng);
        if self.left.load(Relaxed) == 0 || (kind == NEW_ORDER && !take(&self.left)) {
            return Ok(false);
        }
        let started = sim::now();
        let mut add = |name| tally.add(name, u64::from(is_counted));
        match kind {
            NEW_ORDER => {
                add(if terminal.new_order()?.is_some() { "tpcc.new_orders" } else { "tpcc.rolled_back" });
            }
            1 => _ = terminal.payment()?,
            2 => terminal.order_status()?,
            3 => _ = terminal.delivery()?,
            _ => _ = terminal.stock_level()?,
        }
        control.note(tally, kind, 0, started);
        Ok(true)
    }

    fn finish(&mut self, tally: &mut Tally) {
        // They are told where there were none, too.
        for name in ["tpcc.new_orders", "tpcc.rolled_back"] {
            tally.add(name, 0);
        }
        if let Ok(terminal) = &self.terminal {
            terminal.engine.leave(tally);
        }
    }
}
