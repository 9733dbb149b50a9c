//! Memory under load: its law is met, its greatest traffic is not passed, and everything that moves lines is in its traffic.
//!
//! Each seeded error ([`Mutant`]) is found by one of these tests, which it runs with the models of [`model`] wrong in that way.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sim::ledger::Snapshot;
use sim::memory::{Ddr, Law, Link, MemoryModel, Mutant, Tail};
use sim::{Activity, Caches, Machine, Memory, Nanos, Op, Recency, Seed, Setup, Stream, TaskSpec, Work};

/// Time that averages take to forget that they were zero.
const WARM: u64 = 200_000;

fn law() -> Ddr {
    Ddr::XEON_8480
}

thread_local! {
    /// In which way the models of this thread's test are wrong.
    static WRONG: Cell<Option<Mutant>> = const { Cell::new(None) };
}

fn model() -> MemoryModel {
    MemoryModel { mutant: WRONG.get(), ..MemoryModel::local(Law::Ddr(law())) }
}

/// A card with 138.6 ns beyond local memory.
fn card() -> MemoryModel {
    let link = Link { rate: 31.5, header: 21.0, request: 17.0, card: 33.0 };
    let law = Law::Ddr(Ddr { idle: 254.3, ..law() });
    MemoryModel { law, link: Some(link), extra_ps: 138_600, ..model() }
}

fn machine(cores: u16) -> Machine {
    let caches = Caches {
        private: sim::Bytes::mib(2),
        private_copy_ps_per_byte: 22,
        socket_copy_ps_per_byte: 37,
        socket_hit_ps: 47_000,
        flush_evicts: false,
        ways: None,
    };
    Machine {
        sockets: 1,
        cores_per_socket: cores,
        work_ps: [0; Work::MAX],
        memory: Some(model()),
        caches: Some(caches),
        ..Machine::unit()
    }
}

/// Runs `body` as so many tasks on cores of their own.
fn tasks(machine: Machine, count: u64, seed: u64, body: impl Fn(u64) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let run = move || {
        let all: Vec<_> = (0..count)
            .map(|task| {
                let body = Arc::clone(&body);
                let spec = TaskSpec::named(format!("task {task}"))
                    .on_core(task as u16)
                    .with_buffer(sim::Bytes::kib(4));
                sim::spawn(spec, move || body(task))
            })
            .collect();
        all.into_iter().for_each(sim::JoinHandle::join);
    };
    sim::run(&Setup::virtual_clock(machine, Seed(seed)), run).expect("the run ends");
}

/// The mean latency of a chase after the warm-up beside tasks that do `beside` until the end, in nanoseconds.
fn chased(
    others: u64,
    end: u64,
    memory: Option<Arc<Memory>>,
    beside: impl Fn(u64) + Send + Sync + 'static,
) -> f64 {
    let (sum, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (total, loads) = (Arc::clone(&sum), Arc::clone(&count));
    tasks(machine(others as u16 + 1), others + 1, 1, move |task| {
        let memory = memory.clone().or_else(sim::memory::local).expect("the machine has a model");
        while task > 0 && sim::now() < Nanos(end) {
            beside(task);
        }
        while task == 0 && sim::now() < Nanos(end) {
            let before = sim::now();
            memory.chase(1);
            if before > Nanos(WARM) {
                total.fetch_add((sim::now() - before).0, Relaxed);
                loads.fetch_add(1, Relaxed);
            }
        }
    });
    sum.load(Relaxed) as f64 / count.load(Relaxed) as f64
}

/// Tasks that move `traffic` bytes a nanosecond together, of which so many of 16 lines are written, at even times.
fn open_loop(
    memory: Option<Arc<Memory>>,
    traffic: f64,
    count: u64,
    writes: u64,
) -> impl Fn(u64) + Send + Sync {
    let turns: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    move |task| {
        let memory = memory.clone().or_else(sim::memory::local).expect("the machine has a model");
        let turn = turns[(task % count) as usize].fetch_add(1, Relaxed);
        let place = turn as f64 + (task % count) as f64 / count as f64;
        sim::sleep_until(Nanos((place * 1_024.0 * count as f64 / traffic) as u64));
        memory.generate(16 - writes, writes);
    }
}

fn near(found: f64, expected: f64, percent: f64, what: &str) {
    assert!((found / expected - 1.0).abs() * 100.0 <= percent, "{what}: {found:.2}, expected {expected:.2}");
}

#[test]
fn a_chase_sees_the_law_at_the_traffic_of_the_others_and_their_share_of_writes() {
    near(chased(0, 600_000, None, |_| ()), 115.7, 0.6, "idle");
    for (traffic, writes) in [(50.0, 0), (150.0, 0), (200.0, 0), (150.0, 4), (150.0, 8)] {
        let found = chased(20, 600_000, None, open_loop(None, traffic, 20, writes));
        let own = 64.0 / found;
        let w = writes as f64 / 16.0 * traffic / (traffic + own);
        near(
            found,
            Law::Ddr(law()).latency(traffic + own, w),
            1.5,
            &format!("{traffic} GB/s, {writes} of 16 written"),
        );
    }
}

#[test]
fn saturated_tasks_reach_the_greatest_traffic_and_never_pass_it_and_latency_stands_still() {
    for (count, end) in [(56, 2_000_000), (56, 4_000_000), (1_000, 1_000_000)] {
        let bytes = Arc::new(AtomicU64::new(0));
        let (moved, slow) = (Arc::clone(&bytes), Arc::new([const { AtomicU64::new(0) }; 2]));
        let spread = Arc::clone(&slow);
        tasks(machine(1_000), count, 1, move |task| {
            let memory = sim::memory::local().expect("a model");
            while sim::now() < Nanos(end) {
                memory.generate(64, 0);
                if sim::now() > Nanos(WARM) && sim::now() < Nanos(end) {
                    moved.fetch_add(4_096, Relaxed);
                }
                if task == 0 && sim::now() > Nanos(WARM) && sim::now() < Nanos(end - 4_000) {
                    let latency = memory.load().latency_ps;
                    spread[0].fetch_max(latency, Relaxed);
                    spread[1].fetch_max(u64::MAX - latency, Relaxed);
                }
            }
        });
        let traffic = bytes.load(Relaxed) as f64 / (end - WARM) as f64;
        near(traffic, law().greatest(0.0), 2.0, &format!("{count} tasks"));
        assert!(traffic <= law().greatest(0.0) * 1.005, "{count} tasks: {traffic}");
        let (most, least) = (slow[0].load(Relaxed) as f64, (u64::MAX - slow[1].load(Relaxed)) as f64);
        assert!(most / least < 1.06, "latency of bins from {least} to {most} ps");
    }
}

#[test]
fn what_one_task_copies_slows_the_loads_of_another_as_a_streamer_does() {
    let stream = |task: u64| {
        let _ = task;
        sim::memory::local().expect("a model").stream(64, 0, true);
    };
    let copies = |task: u64| {
        let _ = task;
        sim::copy_from(&Recency::new(), 4_096);
    };
    let (idle, beside) = (chased(0, 500_000, None, |_| ()), chased(7, 500_000, None, stream));
    let copying = chased(7, 500_000, None, copies);
    assert!(beside > idle * 1.15, "{beside} beside {idle}");
    assert!(copying > idle * 1.08, "{copying} beside {idle}");
}

#[test]
fn two_halves_of_the_traffic_are_the_traffic_whoever_moves_them() {
    let all = chased(20, 500_000, None, open_loop(None, 180.0, 20, 4));
    let (one, other) = (open_loop(None, 90.0, 10, 4), open_loop(None, 90.0, 10, 4));
    let halves = chased(20, 500_000, None, move |task| if task <= 10 { one(task) } else { other(task) });
    near(halves, all, 1.0, "two regions of one socket");
}

#[test]
fn a_memory_forgets_what_was_moved_long_ago_and_the_first_bin_counts_at_once() {
    tasks(machine(1), 1, 1, |_| {
        let memory = sim::memory::local().expect("a model");
        while sim::now() < Nanos(2_100) {
            memory.generate(64, 0);
        }
        let early = memory.load();
        assert!(early.bytes_per_s > 15e9, "the first bin is the average: {early:?}");
        sim::sleep_until(Nanos(400_000));
        let late = memory.load();
        assert_eq!((late.latency_ps, late.bytes_per_s < 1e6), (memory.idle_ps(), true), "{late:?}");
    });
}

#[test]
fn a_bin_moves_the_average_by_a_tenth_and_reads_and_writes_are_told_apart() {
    tasks(machine(1), 1, 1, |_| {
        let memory = sim::memory::local().expect("a model");
        // The window begins with the first use.
        memory.load();
        sim::sleep_until(Nanos(10_000));
        memory.generate(48, 16);
        sim::sleep_until(Nanos(12_000));
        let found = memory.load();
        near(found.bytes_per_s / 1e9, 4_096.0 / 2_000.0 / 10.0, 0.1, "GB/s");
        near(found.reads, 0.75, 0.1, "share of reads");
    });
    let share = |copy: fn(&Recency, u64) -> bool| {
        let found = Arc::new(AtomicU64::new(0));
        let part = Arc::clone(&found);
        tasks(machine(1), 1, 1, move |_| {
            (0..20).for_each(|_| _ = copy(&Recency::new(), 4_096));
            sim::sleep_until(Nanos(50_000));
            part.store((sim::memory::local().expect("a model").load().reads * 100.0).round() as u64, Relaxed);
        });
        found.load(Relaxed)
    };
    assert_eq!(
        (share(sim::copy_from), share(sim::copy_to)),
        (100, 50),
        "a store fetches its line and writes it back"
    );
}

#[test]
fn posted_lines_wait_for_credits_and_a_fence_for_all_of_them() {
    tasks(machine(1), 1, 1, |_| {
        let memory = sim::memory::local().expect("a model");
        let (latency, start) = (memory.idle_ps() / 1_000, sim::now());
        memory.post(1);
        assert!((sim::now() - start).0 < 5, "one line is posted at once");
        sim::memory::fence();
        let accepted = (sim::now() - start).0;
        assert!((60..=75).contains(&(accepted * 100 / latency)), "accepted after {accepted} of {latency} ns");
        let start = sim::now();
        (0..256).for_each(|_| memory.post(64));
        sim::memory::fence();
        let (taken, least) = ((sim::now() - start).0 as f64, (1 << 20) as f64 / law().greatest(1.0));
        assert!(taken >= least, "1 MiB in {taken} ns, and the channel alone takes {least}");
        near(taken, 16_384.0 * 0.67 * latency as f64 / 16.0, 10.0, "1 MiB by 16 credits");
        let idle = sim::now();
        sim::memory::fence();
        assert_eq!(sim::now(), idle, "nothing is under way");
    });
}

#[test]
fn tasks_that_post_without_end_do_not_pass_the_greatest_traffic_of_writes() {
    let posted = Arc::new(AtomicU64::new(0));
    let lines = Arc::clone(&posted);
    tasks(machine(64), 64, 1, move |_| {
        let memory = sim::memory::local().expect("a model");
        while sim::now() < Nanos(1_000_000) {
            memory.post(16);
            lines.fetch_add(16, Relaxed);
        }
    });
    let traffic = posted.load(Relaxed) as f64 * 64.0 / 1e6;
    assert!(traffic <= law().greatest(1.0) * 1.02, "{traffic} of {}", law().greatest(1.0));
}

#[test]
fn a_copy_from_a_card_is_one_stream_and_not_the_sum_of_two() {
    let card = Arc::new(Memory::new(card()));
    let time = |memory: Option<Arc<Memory>>| {
        let found = Arc::new(AtomicU64::new(0));
        let taken = Arc::clone(&found);
        tasks(machine(1), 1, 1, move |_| {
            let page = sim::CachedPage::new();
            sim::copy_from_page(&page, 0, 4_096, Stream { memory: memory.as_deref(), goes_on: false });
            taken.store(sim::now().0, Relaxed);
        });
        found.load(Relaxed)
    };
    let (local, far) = (time(None), time(Some(card)));
    assert!((220..=235).contains(&local), "{local}");
    assert!(
        far < local + 150 && far > local + 130,
        "4 KiB take {far} ns from the card and {local} from DRAM"
    );
}

#[test]
fn a_long_stream_takes_a_core_its_issue_and_a_latency_for_each_depth() {
    tasks(machine(1), 1, 1, |_| {
        let memory = sim::memory::local().expect("a model");
        let start = sim::now();
        (0..1_000).for_each(|_| memory.stream(43, 21, true));
        near((sim::now() - start).0 as f64 / 64_000.0, 1.733 + 115.7 / 319.0, 3.0, "ns a line");
    });
}

/// When the last of four tasks has made so many loads from a memory with this tail.
fn loads_end(tail: Tail, seed: u64, loads: u64) -> u64 {
    let found = Arc::new(AtomicU64::new(0));
    let taken = Arc::clone(&found);
    let memory = Arc::new(Memory::new(MemoryModel { tail, ..model() }));
    tasks(machine(4), 4, seed, move |_| {
        (0..loads).for_each(|_| memory.chase(1));
        taken.fetch_max(sim::now().0, Relaxed);
    });
    found.load(Relaxed)
}

#[test]
fn a_tail_keeps_the_mean() {
    let (drawn, plain) = (loads_end(Tail::Card, 1, 50_000), loads_end(Tail::None, 1, 50_000));
    near(drawn as f64, plain as f64, 1.0, "50,000 loads with a tail");
}

#[test]
fn results_do_not_depend_on_other_runs() {
    let alone: Vec<u64> = (1..=3).map(|seed| loads_end(Tail::Card, seed, 10_000)).collect();
    let beside: Vec<u64> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..6).map(|at| scope.spawn(move || loads_end(Tail::Card, at % 3 + 1, 10_000))).collect();
        all.into_iter().map(|one| one.join().expect("a run")).collect()
    });
    assert_eq!(beside, [&alone[..], &alone[..]].concat(), "host threads cannot be seen");
    assert!(alone[0] != alone[1], "seeds can");
}

#[test]
fn a_card_takes_its_idle_latency_and_each_direction_of_its_link_its_own_lines() {
    let idle = chased(0, 600_000, Some(Arc::new(Memory::new(card()))), |_| ());
    near(idle, 254.3, 0.6, "idle");
    // Room enough behind the link: reads fill the direction to the host.
    let link = Link { rate: 31.5, header: 21.0, request: 17.0, card: 100.0 };
    let memory = Arc::new(Memory::new(MemoryModel { link: Some(link), ..card() }));
    let moved = Arc::new(AtomicU64::new(0));
    let lines = Arc::clone(&moved);
    tasks(machine(32), 32, 1, move |_| {
        while sim::now() < Nanos(500_000) {
            memory.generate(10, 6);
            if sim::now() > Nanos(WARM) && sim::now() < Nanos(500_000) {
                lines.fetch_add(16, Relaxed);
            }
        }
    });
    let traffic = moved.load(Relaxed) as f64 * 64.0 / 300_000.0;
    near(traffic, 31.5 * 64.0 / (0.625 * 85.0), 2.0, "GB/s with ten of sixteen lines read");
}

#[test]
fn waits_for_a_memory_under_load_are_told_from_its_idle_latency_and_from_turns() {
    const OP: Op = Op::new(1, "read");
    let at = |traffic: f64| {
        let found = Arc::new([const { AtomicU64::new(0) }; 3]);
        let (times, beside) = (Arc::clone(&found), open_loop(None, traffic, 20, 0));
        tasks(machine(21), 21, 1, move |task| {
            let memory = sim::memory::local().expect("a model");
            while task > 0 && sim::now() < Nanos(400_000) {
                beside(task);
            }
            if task == 0 {
                sim::sleep_until(Nanos(WARM));
                let _op = sim::op(OP);
                (0..1_000).for_each(|_| memory.chase(1));
            }
            let now = Snapshot::of_run();
            let parts = [Activity::DATA, Activity::MEMORY_LATENCY, Activity::MEMORY_TURN];
            for (time, part) in times.iter().zip(parts) {
                time.fetch_max(now.time(OP, part).0 / 1_000, Relaxed);
            }
        });
        [0, 1, 2].map(|part| found[part].load(Relaxed))
    };
    let [data, latency, turn] = at(1.0);
    assert!((114..=116).contains(&data) && latency <= 1 && turn == 0, "{data} {latency} {turn}");
    let [data, latency, turn] = at(200.0);
    let expected = Law::Ddr(law()).latency(200.0, 0.0) - 115.7;
    assert!((114..=116).contains(&data), "the idle latency stays: {data}");
    assert!((latency as f64 - expected).abs() < 3.0 && turn <= 2, "{latency} of {expected}, {turn}");
}

/// The test that finds each of them.
const FOUND_BY: &[(Mutant, fn())] = &[
    (Mutant::SharesExchanged, a_chase_sees_the_law_at_the_traffic_of_the_others_and_their_share_of_writes),
    (Mutant::ShareIgnored, a_chase_sees_the_law_at_the_traffic_of_the_others_and_their_share_of_writes),
    (Mutant::ConstantLatency, a_chase_sees_the_law_at_the_traffic_of_the_others_and_their_share_of_writes),
    (Mutant::CountedTwice, a_bin_moves_the_average_by_a_tenth_and_reads_and_writes_are_told_apart),
    (Mutant::GainOfOne, a_bin_moves_the_average_by_a_tenth_and_reads_and_writes_are_told_apart),
    (Mutant::ReadsAsStores, a_bin_moves_the_average_by_a_tenth_and_reads_and_writes_are_told_apart),
    (Mutant::NeverForgets, a_memory_forgets_what_was_moved_long_ago_and_the_first_bin_counts_at_once),
    (
        Mutant::BinaryUnits,
        saturated_tasks_reach_the_greatest_traffic_and_never_pass_it_and_latency_stands_still,
    ),
    (
        Mutant::ChannelOfTask,
        saturated_tasks_reach_the_greatest_traffic_and_never_pass_it_and_latency_stands_still,
    ),
    (Mutant::CopiesUncounted, what_one_task_copies_slows_the_loads_of_another_as_a_streamer_does),
    (Mutant::FenceUnaccepted, posted_lines_wait_for_credits_and_a_fence_for_all_of_them),
    (Mutant::PostedUnbounded, tasks_that_post_without_end_do_not_pass_the_greatest_traffic_of_writes),
    (Mutant::Summed, a_copy_from_a_card_is_one_stream_and_not_the_sum_of_two),
    (Mutant::DirectionsExchanged, a_card_takes_its_idle_latency_and_each_direction_of_its_link_its_own_lines),
    (Mutant::ExtraTwice, a_card_takes_its_idle_latency_and_each_direction_of_its_link_its_own_lines),
    (Mutant::TailMovesMean, a_tail_keeps_the_mean),
];

#[test]
fn every_seeded_error_is_found() {
    for mutant in Mutant::ALL {
        let (_, test) = FOUND_BY.iter().find(|(known, _)| known == mutant).expect("each has its test");
        WRONG.set(Some(*mutant));
        let passed = std::panic::catch_unwind(test).is_ok();
        WRONG.set(None);
        assert!(!passed, "{} is not found", mutant.name());
    }
}

#[test]
fn a_machine_without_a_model_charges_what_it_always_did() {
    let plain = Machine { memory: None, ..machine(2) };
    tasks(plain, 2, 1, |_| {
        assert!(sim::memory::local().is_none());
        let start = sim::now();
        sim::copy_from(&Recency::new(), 64);
        assert_eq!((sim::now() - start).0, 32, "half of 64 B at 1 ns");
        assert_eq!(sim::copy_cost(4_096), Nanos(4_096));
    });
}
