//! The validation ladder: single latencies to the cycle, closed forms, an independent checker of the bank commands, the identity of
//! stack distances, and a naive second implementation of the caches.

use archsim::Machine;
use archsim::cache::level::Level;
use archsim::cache::{Access, Hierarchy};
use archsim::engine::{Engine, Feed, Flaws};
use archsim::machine::{LINE, Ps};
use archsim::memory::Cause;
use archsim::memory::bank::Place;
use archsim::memory::controller::{Command, Controller, Done, Write};
use archsim::op::{Kind, Op};
use archsim::scheme;
use archsim::scheme::software::Program;
use archsim::workload::PmCtx;

/// The generator of Marsaglia's xorshift: tests need no quality.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

fn machine(sets: &[(&str, &str)]) -> Machine {
    let mut machine = Machine::load("hpca18").unwrap();
    for (key, value) in sets {
        machine.set(key, value).unwrap();
    }
    machine
}

struct Fixed(Vec<Op>);

impl Feed for Fixed {
    fn next(&mut self, _: usize, ops: &mut Vec<Op>) -> bool {
        ops.append(&mut self.0);
        !ops.is_empty()
    }

    fn payload(&self, _: u64, _: usize) -> u64 {
        0
    }
}

/// Time at which the last of some operations retires.
fn time_of(ops: Vec<Op>) -> Ps {
    let machine = machine(&[]);
    let scheme = scheme::by_name("non-pers").unwrap();
    let mut engine = Engine::new(&machine, scheme, 1, Flaws::default(), Fixed(ops));
    engine.run(u64::MAX).unwrap();
    engine.threads[0].retired
}

const CYCLE: Ps = 400;
const BASE: u64 = 1 << 20;

#[test]
fn a_single_access_costs_the_sum_of_its_parts_to_the_cycle() {
    let load = |addr| Op::new(Kind::LoadAfterLoad, addr, 0);
    let slot = CYCLE / 4;
    let conflict = slot + 15 * CYCLE + 100_000;
    assert_eq!(time_of(vec![load(BASE)]), conflict, "L1 and L2 miss, another row");
    assert_eq!(time_of(vec![load(BASE), load(BASE + 8)]), conflict + 4 * CYCLE, "then an L1 hit");
    let open = conflict + 15 * CYCLE + 36_000;
    assert_eq!(time_of(vec![load(BASE), load(BASE + 64)]), open, "then a line of the open row");
    // Nine lines of one set of L1 (64 sets): the first has left it, and is in the last level.
    let mut ops: Vec<Op> = (0..9).map(|way| load(BASE + way * 64 * 64)).collect();
    let before = time_of(ops.clone());
    ops.push(load(BASE));
    assert_eq!(time_of(ops) - before, 15 * CYCLE, "an L2 hit");
}

#[test]
fn a_fence_waits_for_the_write_that_it_covers() {
    let store = Op::new(Kind::Store, BASE, 1);
    let ops = vec![store, Op::new(Kind::Clwb, BASE, 0), Op::new(Kind::Fence, 0, 0)];
    let fetched = 15 * CYCLE + 100_000;
    let alone = time_of(vec![store, Op::new(Kind::Load, BASE, 0)]);
    let fenced = time_of(ops);
    // The line is in the open row when it is written back.
    assert!(fenced >= fetched + 36_000, "{fenced}");
    assert!(fenced <= fetched + 36_000 + 8 * CYCLE, "{fenced}");
    assert!(alone < fenced);
}

/// Time at which a transaction is acknowledged that stores one word of a line that no cache holds, by one thread at time zero.
fn acknowledged_after(name: &str, log: &str) -> Ps {
    let machine = machine(&[("sw_log", log)]);
    let scheme = scheme::by_name(name).unwrap();
    let mut program = Program::new(scheme, &machine, 1, false);
    program.start();
    program.tx_begin();
    let heap = program.layout().heap;
    program.store(heap, 1);
    program.tx_commit();
    let ops = std::mem::take(&mut program.ops);
    let mut engine = Engine::new(&machine, scheme, 1, Flaws::default(), Fixed(ops));
    engine.run(u64::MAX).unwrap();
    engine.acknowledged.1
}

#[test]
fn a_transaction_costs_what_its_steps_cost() {
    let (fetch, first_log_line, next_log_line, write_back) = (15 * CYCLE + 100_000, 300_000, 36_000, 36_000);
    // A record of 80 bytes takes two lines, the commit record the rest of the second. Two fences; the line is in its open row.
    let undo = fetch + first_log_line + next_log_line + write_back + next_log_line;
    // The record holds the whole line, which must be fetched for it; the store and its write-back come after the acknowledgement.
    let redo = fetch + first_log_line + next_log_line + next_log_line;
    // A record of 144 bytes: two lines, and the rest of it in a third, with the commit record.
    let hardware = fetch + first_log_line + 2 * next_log_line;
    // In a log of the process a thread says in its line that it needs it, and adds to the tail: two lines from volatile memory.
    let shared = 2 * (15 * CYCLE + 50_000);
    for (scheme, log, steps) in [
        ("undo-clwb", "thread", undo),
        ("redo-clwb", "thread", redo),
        ("undo-clwb", "process", undo + shared),
        ("redo-clwb", "process", redo + shared),
        ("hwl", "process", hardware),
        ("fwb", "process", hardware),
    ] {
        let time = acknowledged_after(scheme, log);
        // Instructions and the way through the store buffer, an operation a cycle.
        assert!(time >= steps && time <= steps + 40 * CYCLE, "{scheme}, {log}: {time} for {steps}");
    }
}

/// Commits by all threads at once, each of one record of one line, under a log of the process.
#[test]
fn a_contended_tail_is_added_to_by_one_thread_after_the_other() {
    let time = |threads: usize| {
        let machine = machine(&[]);
        let scheme = scheme::by_name("unsafe-redo").unwrap();
        let mut engine = Engine::new(&machine, scheme, threads, Flaws::default(), Takers(vec![100; threads]));
        engine.run(u64::MAX).unwrap();
        engine.threads.iter().map(|thread| thread.retired).max().unwrap()
    };
    // Alone the line stays in L1; with four cores it comes from another L1 each time: 15 + 15 cycles.
    assert!(time(1) < 15 * CYCLE + 50_000 + 100 * 8 * CYCLE, "{}", time(1));
    assert!(time(4) >= 4 * 100 * 15 * CYCLE, "{}", time(4));
}

/// Threads that each take space in the log so many times, and do nothing else.
struct Takers(Vec<u64>);

impl Feed for Takers {
    fn next(&mut self, thread: usize, ops: &mut Vec<Op>) -> bool {
        let more = self.0[thread] > 0;
        if more {
            self.0[thread] -= 1;
            ops.push(Op { words: 2, ..Op::new(Kind::TakeSpace, 0, 0) });
        }
        more
    }

    fn payload(&self, _: u64, _: usize) -> u64 {
        0
    }
}

/// Feeds reads to a controller so that `outstanding` are under way; answers with the time of the last and the commands.
fn reads(machine: &Machine, lines: &[u64], outstanding: usize) -> (Ps, Vec<Command>) {
    let mut controller = Controller::new(machine);
    controller.commands = Some(Vec::new());
    let (mut next, mut now, mut under_way, mut done) = (0, 0, 0, Vec::new());
    while next < lines.len() || under_way > 0 {
        while under_way < outstanding && next < lines.len() {
            assert!(controller.read(lines[next], now).is_none());
            (next, under_way) = (next + 1, under_way + 1);
        }
        now = controller.next();
        controller.step(now, &mut done);
        under_way -= done.drain(..).filter(|event| matches!(event, Done::Read(..))).count();
    }
    (now, controller.commands.take().unwrap())
}

#[test]
fn one_requester_sees_the_mix_of_hits_and_conflicts() {
    let machine = machine(&[]);
    let mut random = Random(7);
    let lines: Vec<u64> = (0..20_000).map(|_| random.below(512)).collect();
    let (time, commands) = reads(&machine, &lines, 1);
    let hits = commands.iter().filter(|c| c.finish - c.start == 36_000).count() as u64;
    assert!(hits > 1000 && hits < 19_000, "{hits}");
    assert_eq!(time, hits * 36_000 + (20_000 - hits) * 100_000);
}

#[test]
fn saturated_throughput_is_that_of_the_banks_or_of_the_channel() {
    let machine = machine(&[]);
    let mut random = Random(9);
    let lines: Vec<u64> = (0..50_000).map(|_| random.below(1 << 24)).collect();
    let (time, _) = reads(&machine, &lines, 64);
    let ideal = 50_000 * 100_000 / 8;
    assert!(time > ideal && time < ideal * 115 / 100, "8 banks of 100 ns: {time} against {ideal}");
    // Lines of open rows, all banks in turn: the channel's 5 ns are less than 36 / 8.
    let lines: Vec<u64> = (0..50_000).map(|at| (at % 8) * 32 + at / 8 % 32).collect();
    let (time, _) = reads(&machine, &lines, 64);
    assert!(time.abs_diff(50_000 * 5_000) < 2_000_000, "channel bound: {time}");
}

/// What a list of bank commands breaks, computed from it and the machine's numbers alone.
fn offences(machine: &Machine, commands: &[Command]) -> Vec<String> {
    let mut rows = vec![None; machine.banks as usize];
    let mut free = vec![0; machine.banks as usize];
    let mut found = Vec::new();
    let mut last_start = 0;
    for command in commands {
        let place = Place::of(command.line, machine);
        let hit = rows[place.bank].replace(place.row) == Some(place.row);
        let write = command.cause != Cause::Fetch;
        let least = match (hit, write) {
            (true, _) => 36_000,
            (false, true) => 300_000,
            (false, false) => 100_000,
        };
        let took = command.finish - command.start;
        let right = if command.cause == Cause::Log { took >= least } else { took == least };
        let rules = [
            ("took another time than its row says", right),
            ("began before its bank was free", command.start >= free[place.bank]),
            ("began before it arrived", command.start >= command.arrive),
            ("shares the channel", last_start == 0 || command.start >= last_start + 5_000),
        ];
        found.extend(rules.iter().filter(|(_, holds)| !holds).map(|(what, _)| format!("{command:?} {what}")));
        free[place.bank] = command.finish;
        last_start = command.start;
    }
    let log: Vec<_> = commands.iter().filter(|command| command.cause == Cause::Log).collect();
    let reordered = log.windows(2).filter(|pair| pair[0].finish > pair[1].finish);
    found.extend(reordered.map(|pair| format!("{:?} overtook another log line (R2)", pair[1])));
    found
}

#[test]
fn the_bank_commands_obey_the_protocol() {
    let machine = machine(&[]);
    let mut controller = Controller::new(&machine);
    controller.commands = Some(Vec::new());
    let mut random = Random(3);
    let (mut now, mut done, mut log) = (0, Vec::new(), 1 << 20);
    for _ in 0..30_000 {
        now += random.below(200_000);
        while controller.next() <= now {
            let next = controller.next();
            controller.step(next, &mut done);
        }
        let line = random.below(4096);
        match random.below(4) {
            0 if controller.has_room() => controller.write(Write::new(line, Cause::Eviction, now), &mut done),
            1 if controller.has_room_for_log() => {
                log += 1;
                let write = Write { fifo: true, log_end: log, ..Write::new(log, Cause::Log, now) };
                controller.write(write, &mut done);
            }
            _ => drop(controller.read(line, now)),
        }
    }
    let mut commands = controller.commands.take().unwrap();
    assert!(commands.len() > 10_000);
    assert_eq!(offences(&machine, &commands), Vec::<String>::new());
    // Canary: a bank that answers early is noticed.
    let at = commands.iter().position(|command| command.finish - command.start == 300_000).unwrap();
    commands[at].finish -= 1;
    assert!(!offences(&machine, &commands).is_empty());
}

#[test]
fn hits_are_those_that_stack_distances_predict() {
    let (ways, sets) = (4, 16);
    let mut level = Level::new(ways * sets * LINE, ways, false);
    let mut stacks = vec![Vec::new(); sets as usize];
    let mut random = Random(5);
    for _ in 0..100_000 {
        let line = random.below(12) * random.below(24);
        let stack: &mut Vec<u64> = &mut stacks[(line % sets) as usize];
        let distance = stack.iter().rev().position(|other| *other == line);
        let here = level.find(line);
        assert_eq!(here.is_some(), distance.is_some_and(|distance| distance < ways as usize));
        match here {
            Some(at) => level.touch(at),
            None => drop(level.insert(line)),
        }
        stack.retain(|other| *other != line);
        stack.push(line);
    }
}

/// Two inclusive levels of one core, as lists: each set is a vector, least recently used first.
struct Naive {
    upper: Vec<Vec<(u64, bool)>>,
    lower: Vec<Vec<(u64, bool)>>,
    ways: (usize, usize),
    written: Vec<u64>,
}

impl Naive {
    fn access(&mut self, line: u64, write: bool) -> u8 {
        let (up, low) = (line as usize % self.upper.len(), line as usize % self.lower.len());
        if let Some(at) = self.upper[up].iter().position(|entry| entry.0 == line) {
            let (_, dirty) = self.upper[up].remove(at);
            self.upper[up].push((line, dirty || write));
            return 1;
        }
        let found = self.lower[low].iter().position(|entry| entry.0 == line);
        if let Some(at) = found {
            let entry = self.lower[low].remove(at);
            self.lower[low].push(entry);
        } else {
            if self.lower[low].len() == self.ways.1 {
                let (victim, mut dirty) = self.lower[low].remove(0);
                let set = victim as usize % self.upper.len();
                if let Some(at) = self.upper[set].iter().position(|entry| entry.0 == victim) {
                    dirty |= self.upper[set].remove(at).1;
                }
                self.written.extend(dirty.then_some(victim));
            }
            self.lower[low].push((line, false));
        }
        if self.upper[up].len() == self.ways.0 {
            let (victim, dirty) = self.upper[up].remove(0);
            let set = victim as usize % self.lower.len();
            let entry = self.lower[set].iter_mut().find(|entry| entry.0 == victim).expect("inclusive");
            entry.1 |= dirty;
        }
        self.upper[up].push((line, write));
        if found.is_some() { 2 } else { 3 }
    }
}

#[test]
fn a_naive_second_implementation_agrees_on_random_traces() {
    let machine = machine(&[
        ("cores", "1"),
        ("l1_size", "1KiB"),
        ("l1_ways", "2"),
        ("l2_size", "4KiB"),
        ("l2_ways", "4"),
    ]);
    let mut caches = Hierarchy::new(&machine);
    let mut naive =
        Naive { upper: vec![Vec::new(); 8], lower: vec![Vec::new(); 16], ways: (2, 4), written: Vec::new() };
    let mut random = Random(11);
    let mut written = Vec::new();
    for step in 0..200_000 {
        let (line, write) = (random.below(20) * random.below(20), random.below(3) == 0);
        let far = step * 1_000_000;
        let hit = caches.load(0, line, far);
        let level = match hit {
            Access::Done(at) if at - far == 4 * CYCLE => 1,
            Access::Done(_) => 2,
            Access::Memory(_) => {
                written.extend(caches.fill(0, line).map(|victim| victim.line));
                3
            }
        };
        if write {
            assert!(matches!(caches.own(0, line, far), Access::Done(_)));
            caches.write(0, line, None);
        }
        assert_eq!(level, naive.access(line, write), "access {step} of line {line}");
        if step % 10_000 == 0 {
            caches.check();
        }
    }
    assert!(!written.is_empty());
    assert_eq!(written, naive.written);
}

#[test]
fn sharing_cores_keep_the_directory_right() {
    let machine = machine(&[("l1_size", "1KiB"), ("l1_ways", "2"), ("l2_size", "4KiB"), ("l2_ways", "4")]);
    let mut caches = Hierarchy::new(&machine);
    let mut random = Random(13);
    for step in 0..100_000 {
        let (core, line) = (random.below(4) as usize, random.below(96));
        let write = random.below(3) == 0;
        let access = if write { caches.own(core, line, step) } else { caches.load(core, line, step) };
        if matches!(access, Access::Memory(_)) {
            caches.fill(core, line);
        }
        if write && caches.writable(core, line) {
            caches.write(core, line, None);
        }
        if random.below(50) == 0 {
            caches.write_back(line);
            assert!(!caches.is_dirty(line));
        }
        caches.check();
    }
}
