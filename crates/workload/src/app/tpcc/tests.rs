//! The engine on files in memory that forget what was not synced.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt as _;
use sim::{Machine, Nanos, Rng, Seed, Setup};

use super::engine::{Calls, Changes, Engine, Layer, Server, least_pool};
use super::inputs::Inputs;
use super::random::Constants;
use super::schema::{self, DISTRICTS, ROWS, Scale};
use super::transactions::{Locks, Terminal};
use super::{conditions, populate};
use disk::Disk;

pub(super) mod disk;

const SCALE: Scale = Scale { warehouses: 2, items: 8000, customers: 30, undelivered: 9 };
const LAYERS: [Layer; 2] = [Layer::Postgres, Layer::InnoDb];

fn server(layer: Layer) -> Server {
    Server { layer, pool: least_pool(layer, 1), rows: &ROWS, clients: 1 }
}

fn new_database(layer: Layer, seed: Seed) -> Disk {
    let disk = Disk::default();
    populate::populate(&server(layer), SCALE, seed, Calls::Own(disk.process())).unwrap();
    disk.make_durable();
    disk
}

fn terminal(engine: &Arc<Engine<'static>>, seed: Seed) -> Terminal {
    let last = engine.last_key(schema::HISTORY).unwrap().unwrap();
    Terminal {
        engine: Arc::clone(engine),
        locks: Arc::new(Locks::new(SCALE.warehouses)),
        inputs: Inputs {
            scale: SCALE,
            constants: Constants::new(seed),
            rng: seed.derive("terminal", 0).rng(),
            home: (1, 1),
        },
        row: Nanos(0),
        history: Arc::new(last.into()),
        changes: Changes::default(),
    }
}

/// What a terminal was told to be durable.
#[derive(Debug, Default)]
struct Promised {
    orders: Vec<(u64, u64, u64)>,
    payments: Vec<u64>,
    delivered: u64,
}

/// Makes transactions until a call fails.
fn work(terminal: &mut Terminal, count: usize, rng: &mut Rng) -> Promised {
    let mut promised = Promised::default();
    for _ in 0..count {
        terminal.inputs.home.0 = rng.random_range(1..=SCALE.warehouses);
        let done = match rng.random_range(0..10) {
            0..5 => terminal.new_order().map(|order| promised.orders.extend(order)),
            5..8 => terminal.payment().map(|number| promised.payments.push(number)),
            8 => terminal.delivery().map(|count| promised.delivered += count),
            _ => terminal.stock_level().and_then(|_| terminal.order_status()),
        };
        if done.is_err() {
            break;
        }
    }
    promised
}

fn check_promised(engine: &Engine<'_>, promised: &Promised) {
    conditions::check(engine, SCALE.warehouses).unwrap_or_else(|failure| panic!("{failure:?}"));
    for (w, d, o) in &promised.orders {
        let key = schema::order_key(*w, *d, *o);
        let lines = engine.read(schema::ORDER, key, |row| schema::order::LINES.get(row)).unwrap();
        let lines = lines.unwrap_or_else(|| panic!("order {o} of district {d} of warehouse {w} is lost"));
        let last = engine.read(schema::ORDER_LINE, schema::line_key(*w, *d, *o, lines), |_| ()).unwrap();
        assert!(last.is_some(), "order {o} of district {d} of warehouse {w} has no line {lines}");
    }
    for number in &promised.payments {
        let found = engine.read(schema::HISTORY, *number, |_| ()).unwrap();
        assert!(found.is_some(), "payment {number} is lost");
    }
    let mut delivered = 0;
    let all = 0..u64::MAX;
    engine
        .scan(schema::ORDER, all, |_, row| {
            delivered += u64::from(schema::order::CARRIER.get(row) > 0);
            true
        })
        .unwrap();
    let before = SCALE.warehouses * DISTRICTS * (SCALE.customers - SCALE.undelivered);
    assert!(
        delivered >= before + promised.delivered,
        "{delivered} delivered, {} promised",
        promised.delivered
    );
}

fn in_a_run(body: impl FnOnce() + Send + 'static) {
    sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), body).unwrap_or_else(|error| panic!("{error}"));
}

/// Cuts a run at a random call, keeps a random part of what was not synced, recovers, and goes on from there.
fn crash(layer: Layer, first: &Disk, number: u64) {
    let seed = Seed(0x7c).derive("crash", number);
    let told = format!("{layer:?}, crash {number}");
    let mut rng = seed.rng();
    let mut disk = first.copy();
    let mut promised = Promised::default();
    for round in 0..3 {
        let engine = Arc::new(server(layer).recover(Calls::Own(disk.process())).expect(&told));
        check_promised(&engine, &promised);
        let mut terminal = terminal(&engine, seed.derive("round", round));
        disk.fail_after(rng.random_range(1..600));
        let more = work(&mut terminal, 200, &mut rng);
        if rng.random() {
            // A checkpoint in the middle, which the crash may meet.
            drop(engine.write_all());
        }
        promised.orders.extend(more.orders);
        promised.payments.extend(more.payments);
        promised.delivered += more.delivered;
        disk = disk.after_crash(&mut rng);
    }
    let engine = server(layer).recover(Calls::Own(disk.process())).expect(&told);
    check_promised(&engine, &promised);
    assert!(
        !promised.orders.is_empty() || !promised.payments.is_empty() || number > 0,
        "{told}: nothing was done"
    );
}

#[test]
fn no_committed_transaction_is_lost_and_the_conditions_hold_after_a_hundred_crashes() {
    for layer in LAYERS {
        in_a_run(move || {
            let first = new_database(layer, Seed(5));
            (0..50).for_each(|number| crash(layer, &first, number));
        });
    }
}

/// A log that ends anywhere is a database as of some commit.
#[test]
fn a_log_that_is_cut_anywhere_leaves_whole_transactions() {
    for layer in LAYERS {
        in_a_run(move || {
            let first = new_database(layer, Seed(6));
            let engine = Arc::new(server(layer).recover(Calls::Own(first.process())).unwrap());
            first.make_durable();
            let before = first.copy();
            let mut terminal = terminal(&engine, Seed(6));
            let promised = work(&mut terminal, 60, &mut Seed(6).rng());
            assert!(promised.orders.len() > 10, "{promised:?}");
            let mut orders = Vec::new();
            for cut in 0..100 {
                let mut rng = Seed(7).derive("cut", cut).rng();
                let disk = before.copy();
                disk.take_log_of(&first, |bytes| rng.random_range(0..bytes));
                let engine = server(layer).recover(Calls::Own(disk.process())).unwrap();
                conditions::check(&engine, SCALE.warehouses)
                    .unwrap_or_else(|failure| panic!("{layer:?}, cut {cut}: {failure:?}"));
                let mut count = 0;
                engine
                    .scan(schema::ORDER, 0..u64::MAX, |_, _| {
                        count += 1;
                        true
                    })
                    .unwrap();
                orders.push(count);
            }
            orders.sort_unstable();
            assert!(orders[0] < orders[99], "{layer:?}: every cut left {} orders", orders[0]);
        });
    }
}

#[test]
fn each_transaction_that_writes_is_one_write_and_one_sync_of_the_log() {
    for layer in LAYERS {
        in_a_run(move || {
            let disk = new_database(layer, Seed(8));
            let engine = Arc::new(server(layer).recover(Calls::Own(disk.process())).unwrap());
            let mut terminal = terminal(&engine, Seed(8));
            let before: BTreeMap<_, _> = engine.counts().into_iter().collect();
            for _ in 0..100 {
                terminal.payment().unwrap();
            }
            let after: BTreeMap<_, _> = engine.counts().into_iter().collect();
            for name in ["tpcc.log_writes", "tpcc.log_syncs"] {
                let made = after[name] - before[name];
                assert!((98..=102).contains(&made), "{layer:?}: {made} {name} of 100 commits");
            }
        });
    }
}

#[test]
fn a_broken_condition_is_named() {
    in_a_run(|| {
        let layer = Layer::InnoDb;
        let breaks: [(u32, usize, u64, usize, &[u8]); 3] = [
            (1, schema::WAREHOUSE, 1, schema::warehouse::YTD.at(), &[1]),
            (2, schema::DISTRICT, schema::district_key(1, 4), schema::district::NEXT_ORDER.at(), &[99]),
            (4, schema::ORDER, schema::order_key(2, 3, 7), schema::order::LINES.at(), &[77]),
        ];
        let breaking = |changes: &Changes| {
            let disk = new_database(layer, Seed(9));
            let engine = server(layer).recover(Calls::Own(disk.process())).unwrap();
            engine.commit(changes).unwrap();
            format!("{:?}", conditions::check(&engine, SCALE.warehouses).unwrap_err())
        };
        for (condition, tree, key, at, bytes) in breaks {
            let mut changes = Changes::default();
            changes.update(tree, key, at, bytes);
            let told = breaking(&changes);
            assert!(told.contains(&format!("condition {condition} ")), "{told}");
        }
        let mut changes = Changes::default();
        changes.remove(schema::NEW_ORDER, schema::order_key(1, 1, SCALE.customers - 2));
        assert!(breaking(&changes).contains("condition 3 "));
    });
}

#[test]
fn trees_hold_what_maps_hold_under_random_inserts_updates_and_removals() {
    for layer in LAYERS {
        in_a_run(move || {
            let disk = new_database(layer, Seed(10));
            let engine = server(layer).recover(Calls::Own(disk.process())).unwrap();
            let (mut rng, mut model) = (Seed(10).rng(), BTreeMap::new());
            engine
                .scan(schema::STOCK, 0..u64::MAX, |key, row| {
                    model.insert(key, row.to_vec());
                    true
                })
                .unwrap();
            for step in 0..6000_u32 {
                let mut changes = Changes::default();
                let key = rng.random_range(0..4000_u64);
                match model.get_mut(&key) {
                    Some(_) if step % 3 == 0 => {
                        changes.remove(schema::STOCK, key);
                        model.remove(&key);
                    }
                    Some(row) => {
                        changes.update(schema::STOCK, key, 8, &step.to_le_bytes());
                        row[8..12].copy_from_slice(&step.to_le_bytes());
                    }
                    None => {
                        let row = vec![step as u8; ROWS[schema::STOCK]];
                        changes.insert(schema::STOCK, key, &row);
                        model.insert(key, row);
                    }
                }
                engine.commit(&changes).unwrap();
            }
            let mut found = BTreeMap::new();
            engine
                .scan(schema::STOCK, 0..u64::MAX, |key, row| {
                    found.insert(key, row.to_vec());
                    true
                })
                .unwrap();
            assert!(found == model, "{layer:?}: {} rows, and {} in the map", found.len(), model.len());
        });
    }
}
