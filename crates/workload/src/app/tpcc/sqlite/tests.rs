//! SQLite on files in memory that forget what was not synced.

use rand::RngExt as _;
use sim::{Machine, Rng, Setup};
use vfs::OpenFlags;

use super::*;
use crate::app::tpcc::Works;
use crate::app::tpcc::inputs::Inputs;
use crate::app::tpcc::random::Constants;
use crate::app::tpcc::tests::disk::Disk;

const SCALE: Scale = Scale { warehouses: 2, items: 2000, customers: 30, undelivered: 9 };
const JOURNALS: [Journal; 2] = [Journal::Delete, Journal::Wal];

fn in_a_run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), body).unwrap_or_else(|error| panic!("{error}"))
}

fn new_database(seed: Seed) -> Disk {
    let disk = Disk::default();
    populate(disk.process(), SCALE, seed).unwrap();
    disk.make_durable();
    disk
}

fn open(disk: &Disk, journal: Journal) -> Done<Arc<Database>> {
    // A small cache, which transactions overflow.
    let settings = Settings { cache: 64 << 10, journal, clients: 1 };
    Database::open(disk.process(), settings).map(Arc::new)
}

fn terminal(database: &Arc<Database>, seed: Seed) -> Terminal {
    Terminal {
        database: Arc::clone(database),
        inputs: Inputs {
            scale: SCALE,
            constants: Constants::new(seed),
            rng: seed.derive("terminal", 0).rng(),
            home: (1, 1),
        },
        row: Nanos(10),
    }
}

/// Makes transactions until one fails; how many orders and payments were told to be durable.
fn work(terminal: &mut Terminal, count: usize, rng: &mut Rng) -> (i64, i64) {
    let (mut orders, mut payments) = (0, 0);
    for _ in 0..count {
        terminal.inputs.home.0 = rng.random_range(1..=SCALE.warehouses);
        let done = match rng.random_range(0..10) {
            0..5 => terminal.new_order().map(|ordered| orders += i64::from(ordered)),
            5..8 => terminal.payment().map(|()| payments += 1),
            8 => terminal.delivery(),
            _ => terminal.stock_level().and_then(|()| terminal.order_status()),
        };
        if done.is_err() {
            break;
        }
    }
    (orders, payments)
}

fn count(database: &Database, statement: &str) -> i64 {
    let connection = database.connection.lock();
    connection.as_ref().unwrap().query_row(statement, [], |row| row.get(0)).unwrap()
}

fn bytes(disk: &Disk) -> Vec<u8> {
    let process = disk.process();
    let fd = process.open(DATABASE.as_bytes(), OpenFlags::READ, 0).unwrap();
    let mut bytes = vec![0; process.fstat(fd).unwrap().size as usize];
    assert_eq!(process.pread(fd, &mut bytes, 0), Ok(bytes.len()));
    bytes
}

#[test]
fn two_runs_with_one_seed_leave_the_same_database_at_the_same_time() {
    for journal in JOURNALS {
        let run = || {
            in_a_run(move || {
                let disk = new_database(Seed(4));
                let database = open(&disk, journal).unwrap();
                let done = work(&mut terminal(&database, Seed(4)), 80, &mut Seed(4).rng());
                database.close(true).unwrap();
                (done, sim::now(), values(database.files.counts()), bytes(&disk))
            })
        };
        let (one, other) = (run(), run());
        assert!(one.0.0 > 20 && one.0.1 > 10, "{:?}", one.0);
        assert_eq!((one.0, one.1, one.2), (other.0, other.1, other.2), "{journal:?}");
        assert!(one.3 == other.3, "{journal:?}: the databases differ");
    }
}

#[test]
fn no_committed_transaction_is_lost_and_the_conditions_hold_after_crashes() {
    for journal in JOURNALS {
        in_a_run(move || {
            let first = new_database(Seed(5));
            for number in 0..30 {
                let seed = Seed(0x5c).derive("crash", number);
                let (mut rng, mut disk, mut told) = (seed.rng(), first.copy(), (0, 0));
                for round in 0..3 {
                    let database =
                        open(&disk, journal).unwrap_or_else(|error| panic!("crash {number}: {error:?}"));
                    let orders = count(&database, "select count(*) from orders");
                    let payments = count(&database, "select count(*) from history");
                    let before = 20 * SCALE.customers.cast_signed();
                    assert!(
                        orders >= before + told.0,
                        "{journal:?}, crash {number}: {orders} orders, {told:?} told"
                    );
                    assert!(
                        payments >= before + told.1,
                        "{journal:?}, crash {number}: {payments} paid, {told:?} told"
                    );
                    check(database.connection.lock().as_ref().unwrap())
                        .unwrap_or_else(|failure| panic!("{journal:?}, crash {number}: {failure:?}"));
                    let mut terminal = terminal(&database, seed.derive("round", round));
                    disk.fail_after(rng.random_range(1..400));
                    let more = work(&mut terminal, 100, &mut rng);
                    told = (told.0 + more.0, told.1 + more.1);
                    disk = disk.after_crash(&mut rng);
                }
            }
        });
    }
}

#[test]
fn a_broken_condition_is_named() {
    in_a_run(|| {
        let breaks = [
            (1, "update warehouse set w_ytd = w_ytd + 1 where w_id = 1"),
            (2, "update district set d_next_o_id = 99 where d_w_id = 1 and d_id = 4"),
            (3, "delete from new_order where no_w_id = 1 and no_d_id = 1 and no_o_id = 28"),
            (4, "delete from order_line where ol_w_id = 2 and ol_d_id = 3 and ol_o_id = 7"),
        ];
        let disk = new_database(Seed(9));
        for (condition, statement) in breaks {
            let database = open(&disk.copy(), Journal::Delete).unwrap();
            database.connection.lock().as_ref().unwrap().execute_batch(statement).unwrap();
            let told = format!("{:?}", database.close(true).unwrap_err());
            assert!(told.contains(&format!("condition {condition} ")), "{statement}: {told}");
        }
    });
}

/// The syncs of a commit are SQLite's: journal, its header, database; of a log one.
#[test]
fn a_commit_syncs_the_journal_and_the_database_or_the_log_alone() {
    for (journal, of_log, of_pages) in [(Journal::Delete, 2, 1), (Journal::Wal, 1, 0)] {
        in_a_run(move || {
            let disk = new_database(Seed(8));
            let database = open(&disk, journal).unwrap();
            let mut terminal = terminal(&database, Seed(8));
            terminal.payment().unwrap();
            let before = values(database.files.counts());
            (0..50).for_each(|_| terminal.payment().unwrap());
            let after = values(database.files.counts());
            let made = |name: &str| {
                let at = COUNTS.iter().position(|known| *known == name).unwrap();
                (after[at] - before[at]) as f64 / 50.0
            };
            assert!((made("tpcc.log_syncs") - f64::from(of_log)).abs() < 0.2, "{}", made("tpcc.log_syncs"));
            assert!(
                (made("tpcc.page_syncs") - f64::from(of_pages)).abs() < 0.2,
                "{}",
                made("tpcc.page_syncs")
            );
        });
    }
}
