//! Queues and lines of the virtual clock against the formulas of queueing theory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rand::RngExt;
use sim::{
    Activity, Line, LockClass, Machine, Mutex, Nanos, Op, Seed, Server, Setup, TaskSpec, Work,
    ledger::Snapshot,
};

static LOCK: LockClass = LockClass::new("test.lock");
static LINE: LockClass = LockClass::of_lines("test.line", "a counter");

fn run<T: Send + 'static>(machine: Machine, main: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(machine, Seed(11)), main).expect("the run ends")
}

fn within(value: f64, expected: f64, tolerance: f64, what: &str) {
    let off = (value / expected - 1.0).abs();
    assert!(off <= tolerance, "{what}: {value} is {:.2} % off {expected}", off * 100.0);
}

/// A machine on which only what a test asks for takes time.
fn free_machine() -> Machine {
    Machine { work_ps: [0; Work::MAX], ..Machine::unit() }
}

/// Runs `tasks` tasks on cores of their own and returns when the last of them has ended.
fn together(tasks: u64, body: impl Fn(u64) + Clone + Send + 'static) -> Nanos {
    let start = |n: u64| {
        let body = body.clone();
        sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n as u16), move || {
            body(n);
            sim::now()
        })
    };
    let handles: Vec<_> = (0..tasks).map(start).collect();
    handles.into_iter().map(sim::JoinHandle::join).max().expect("a task")
}

/// Mean time in the system of `requests` requests that arrive at random and are served for `service`.
fn open_queue(arrivals_per_ns: f64, service: u64, requests: u64) -> f64 {
    run(free_machine(), move || {
        let server = Arc::new(Server::new(1));
        let spent = Arc::new(AtomicU64::new(0));
        let mut rng = sim::seed().derive("arrivals", 0).rng();
        for _ in 0..requests {
            let uniform: f64 = rng.random();
            sim::sleep(Nanos((-sim::math::ln(1.0 - uniform) / arrivals_per_ns).round() as u64));
            let (server, spent) = (Arc::clone(&server), Arc::clone(&spent));
            sim::spawn(TaskSpec::named("job"), move || {
                let arrival = sim::now();
                server.serve(Nanos(service));
                spent.fetch_add((sim::now() - arrival).0, Relaxed);
            });
        }
        sim::sleep(Nanos(1_000_000_000)); // the last of them end
        spent.load(Relaxed) as f64 / requests as f64
    })
}

#[test]
fn the_wait_of_an_open_queue_with_constant_service_is_that_of_m_d_1() {
    for load in [0.3, 0.6, 0.8] {
        let service = 1_000.0;
        let measured = open_queue(load / service, service as u64, 400_000);
        within(measured, service + load * service / (2.0 * (1.0 - load)), 0.02, &format!("load {load}"));
    }
}

/// Each of `n` tasks thinks, then asks a server of capacity 1/`service`, then waits for the rest of the
/// latency.
fn closed_loop(n: u64, think: u64, latency: u64, service: u64) -> (f64, f64) {
    const ROUNDS: u64 = 2_000;
    run(free_machine(), move || {
        let server = Arc::new(Server::new(1));
        let spent = Arc::new(AtomicU64::new(0));
        let sum = Arc::clone(&spent);
        let end = together(n, move |_| {
            for _ in 0..ROUNDS {
                sim::medium(Nanos(think));
                let start = sim::now();
                server.serve(Nanos(service));
                sim::medium(Nanos(latency - service));
                sum.fetch_add((sim::now() - start).0, Relaxed);
            }
        });
        let done = (n * ROUNDS) as f64;
        (done / end.0 as f64, spent.load(Relaxed) as f64 / done)
    })
}

#[test]
fn a_closed_loop_has_the_lesser_of_demand_and_capacity() {
    let (think, latency, service) = (700, 300, 100);
    for n in [1, 2, 5, 9, 11, 20, 40] {
        let (throughput, _) = closed_loop(n, think, latency, service);
        let expected = (n as f64 / (latency + think) as f64).min(1.0 / service as f64);
        within(throughput, expected, 0.01, &format!("{n} tasks"));
    }
}

#[test]
fn the_mean_number_in_flight_is_throughput_times_latency() {
    let think = 700;
    for n in [1, 8, 32] {
        let (throughput, latency) = closed_loop(n, think, 300, 100);
        within(throughput * (latency + think as f64), n as f64, 0.01, &format!("{n} tasks"));
    }
}

#[test]
fn tasks_share_the_memory_bandwidth_fairly() {
    const PIECES: u64 = 1_000;
    let machine = free_machine(); // a core copies 1 B/ns, all together 4 B/ns
    for (tasks, alone) in [(1, true), (4, true), (8, false), (40, false)] {
        let ends = run(machine.clone(), move || {
            let start = |n: u64| {
                sim::spawn(TaskSpec::named("copy").on_core(n as u16), || {
                    (0..PIECES).for_each(|_| sim::copy(4096));
                    sim::now().0 as f64
                })
            };
            let handles: Vec<_> = (0..tasks).map(start).collect();
            handles.into_iter().map(sim::JoinHandle::join).collect::<Vec<_>>()
        });
        let bytes = (PIECES * 4096) as f64;
        let expected = if alone { bytes } else { bytes * tasks as f64 / 4.0 };
        for end in ends {
            within(end, expected, 0.01, &format!("{tasks} tasks"));
        }
    }
}

#[test]
fn a_convoy_hands_the_lock_on_in_the_order_of_arrival_at_the_rate_of_hold_and_transfer() {
    const TASKS: u64 = 10;
    const ROUNDS: u64 = 50;
    const HOLD: u64 = 1_000;
    let mut machine = free_machine();
    machine.work_ps[Work::LOCK.index()] = 20_000;
    machine.work_ps[Work::LINE_SAME_SOCKET.index()] = 100_000;
    let (order, end) = run(machine, || {
        let lock = Arc::new(Mutex::new(&LOCK, Vec::new()));
        let shared = Arc::clone(&lock);
        let end = together(TASKS, move |n| {
            sim::medium(Nanos(n)); // task n arrives at n
            for _ in 0..ROUNDS {
                let mut order = shared.lock();
                order.push(n);
                sim::medium(Nanos(HOLD));
            }
        });
        let order = lock.lock().clone();
        (order, end)
    });
    assert!(order.chunks(TASKS as usize).all(|round| round.iter().copied().eq(0..TASKS)), "{order:?}");
    // The first acquisition takes the line from no core.
    assert_eq!(end, Nanos(TASKS * ROUNDS * (HOLD + 20 + 100) - 100));
}

#[test]
fn a_line_that_cores_take_from_each_other_costs_one_transfer_after_the_other() {
    const TOUCHES: u64 = 100;
    let mut machine = free_machine();
    machine.work_ps[Work::LOCK.index()] = 5_000;
    machine.work_ps[Work::LINE_SAME_SOCKET.index()] = 60_000;
    machine.work_ps[Work::LINE_CROSS_SOCKET.index()] = 150_000;
    let end_of = |cores: Vec<u16>| {
        run(machine.clone(), move || {
            let line = Arc::new(Line::new(&LINE));
            let start = |core: u16| {
                let line = Arc::clone(&line);
                sim::spawn(TaskSpec::named("touch").on_core(core), move || {
                    (0..TOUCHES).for_each(|_| line.touch());
                    sim::now()
                })
            };
            let handles: Vec<_> = cores.into_iter().map(start).collect();
            handles.into_iter().map(sim::JoinHandle::join).max().expect("a task")
        })
    };
    // One core keeps the line. Several take turns, so each touch but the first is a transfer.
    assert_eq!(end_of(vec![3]), Nanos(TOUCHES * 5));
    for cores in [2, 5, 40] {
        assert_eq!(
            end_of((0..cores).collect()),
            Nanos(u64::from(cores) * TOUCHES * 65 - 60),
            "{cores} cores"
        );
    }
    assert_eq!(end_of(vec![0, 40]), Nanos(2 * TOUCHES * 155 - 150));
    // 0 and 1 on one socket, 40 on the other: a round is one transfer within and two across.
    assert_eq!(end_of(vec![0, 1, 40]), Nanos(TOUCHES * (65 + 155 + 155) - 150));
}

#[test]
fn waits_for_a_server_and_its_service_are_told_apart() {
    const OP: Op = Op::new(1, "write");
    let snapshot = run(free_machine(), || {
        let server = Arc::new(Server::new(2));
        together(4, move |_| {
            let _op = sim::op(OP);
            server.serve(Nanos(500));
        });
        Snapshot::of_run()
    });
    assert_eq!(snapshot.time(OP, Activity::DATA), Nanos(4 * 500));
    assert_eq!(snapshot.time(OP, Activity::MEDIUM_WAIT), Nanos(2 * 500));
    assert_eq!(snapshot.total(OP), Nanos(6 * 500));
}
