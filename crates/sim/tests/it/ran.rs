//! Small work that a machine may price, and the tally of it.

use sim::ledger::Snapshot;
use sim::map::{HashMap, TreeMap, TreeSet, height};
use sim::ran::{self, Tally};
use sim::{Machine, Nanos, Op, Part, PartPrice, Seed, Setup, TaskSpec, Work};

const CALL: Op = Op::new(1, "call");

fn virtually<T: Send + 'static>(machine: Machine, body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(machine, Seed(1)), body).expect("the run ends")
}

/// All six kinds, in a call.
fn work_of_each_kind() -> (Nanos, u64) {
    let _op = sim::op(CALL);
    let start = sim::now();
    ran::allocate(1);
    ran::hash(16);
    ran::node(1);
    ran::bytes(64);
    ran::checksum(64);
    ran::handle(1);
    let units = Work::RAN.iter().map(|work| Snapshot::of_task().units(CALL, *work)).sum();
    (sim::now() - start, units)
}

#[test]
fn work_without_a_price_takes_no_time_and_is_no_unit_and_with_one_both() {
    assert_eq!(virtually(Machine::unit(), work_of_each_kind), (Nanos(0), 0));
    let mut machine = Machine::unit();
    for work in Work::RAN {
        machine.work_ps[work.index()] = 10_000;
    }
    assert_eq!(virtually(machine, work_of_each_kind), (Nanos(60), 6));
}

#[test]
fn units_in_a_part_that_has_a_price_or_that_are_covered_cost_nothing_and_count_as_charged() {
    static PRICED: Part = Part::new("test.covered");
    static FREE: Part = Part::new("test.uncovered");
    let mut machine = Machine::unit();
    for work in Work::RAN {
        machine.work_ps[work.index()] = 10_000;
    }
    machine.parts = vec![PartPrice { part: "test.covered".to_owned(), ps: 7_000 }];
    let took = |part: &'static Part| {
        virtually(machine.clone(), move || {
            let (start, before) = (sim::now(), Tally::of_task());
            let guard = sim::part(part);
            work_of_each_kind();
            drop(guard);
            let inside = sim::now() - start;
            drop(ran::covered());
            work_of_each_kind();
            let charged = Tally::of_task().since(&before).charged(Work::NODE);
            (inside, sim::now() - start, charged)
        })
    };
    let counted = if cfg!(debug_assertions) { 2 } else { 0 };
    assert_eq!(took(&PRICED), (Nanos(7), Nanos(67), counted));
    assert_eq!(took(&FREE), (Nanos(60), Nanos(120), counted));
}

#[test]
fn a_tally_is_of_one_task_whoever_runs_meanwhile() {
    let tallies = virtually(Machine::unit(), || {
        let task = |units: u64| {
            sim::spawn(TaskSpec::named("task"), move || {
                for _ in 0..3 {
                    ran::did(Work::NODE, units);
                    sim::sleep(Nanos(10));
                    ran::node(units);
                }
                Tally::of_task()
            })
        };
        let tasks = [task(1), task(100)];
        tasks.map(sim::JoinHandle::join)
    });
    let counts = tallies.map(|tally| (tally.done(Work::NODE), tally.charged(Work::NODE)));
    assert_eq!(counts, if cfg!(debug_assertions) { [(3, 3), (300, 300)] } else { [(0, 0); 2] });
}

#[test]
fn what_is_left_out_or_aside_is_not_counted_and_one_charge_can_be_left_out() {
    virtually(Machine::unit(), || {
        let kinds = |body: &dyn Fn()| {
            let before = Tally::of_task();
            body();
            let tally = Tally::of_task().since(&before);
            tally.forgotten().map(|one| (one.kind, one.done, one.charged)).collect::<Vec<_>>()
        };
        let twice = || {
            for _ in 0..2 {
                ran::did(Work::CHECKSUM, 1);
                ran::checksum(64);
            }
        };
        let counts =
            |found: &[(Work, u64, u64)]| if cfg!(debug_assertions) { found.to_vec() } else { Vec::new() };
        assert_eq!(kinds(&twice), []);
        let all = kinds(&|| ran::omitting(Work::CHECKSUM, None, twice));
        assert_eq!(all, counts(&[(Work::CHECKSUM, 2, 0)]));
        let second = kinds(&|| ran::omitting(Work::CHECKSUM, Some(1), twice));
        assert_eq!(second, counts(&[(Work::CHECKSUM, 2, 1)]));
        assert_eq!(kinds(&|| ran::omitting(Work::HASH, None, twice)), []);
        let aside = || {
            let _aside = ran::aside();
            ran::did(Work::CHECKSUM, 1);
        };
        assert_eq!(kinds(&aside), []);
    });
}

#[test]
fn maps_hold_what_those_of_the_library_hold_and_are_charged_for_the_nodes_of_a_search() {
    assert_eq!([0, 1, 7, 8, 63, 64, 1023].map(height), [1, 1, 2, 2, 3, 3, 4]);
    virtually(Machine::unit(), || {
        let (mut tree, mut set, mut table) = (TreeMap::new(), TreeSet::new(), HashMap::default());
        for key in 0..100_u64 {
            assert_eq!((tree.insert(key, key), set.insert(key), table.insert(key, key)), (None, true, None));
        }
        *tree.get_or_default(200) += 5;
        *table.get_or_default(200) += 5;
        assert_eq!((tree.get(&200), table.get(&200)), (Some(&5), Some(&5)));
        assert_eq!((tree.remove(&7), table.remove(&7)), (Some(7), Some(7)));
        assert_eq!((tree.contains_key(&7), set.remove(&7), set.remove(&7)), (false, true, false));
        assert_eq!(tree.range(95..).map(|(key, _)| *key).collect::<Vec<_>>(), [95, 96, 97, 98, 99, 200]);
        assert_eq!((tree.len(), set.len(), table.len()), (100, 99, 100));
        let before = Tally::of_task();
        tree.get(&1);
        let nodes = Tally::of_task().since(&before).charged(Work::NODE);
        assert_eq!(nodes, if cfg!(debug_assertions) { height(100) } else { 0 });
    });
}
