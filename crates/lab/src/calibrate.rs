//! Measures what each kind of work costs on this host, as Weir does it in this process.
//!
//! The result is the machine `this-host`. It describes the in-process path: entering a call is a function and the ledger's two
//! clock readings, not a system call of the kernel, so that the virtual clock with this machine predicts what the real clock
//! measures. Every number is the median of batches, in picoseconds.
//!
//! Everything is measured three times, and up to nine times while the results differ much; the median counts. Each value says how
//! often it was measured and from where to where the results lay; one whose results still differ is marked as unsteady. Threads
//! that pass a line are pinned to two processors. A value that no machine has is refused, and nothing is written: it comes from a
//! host that did something else meanwhile, and every prediction would be wrong by it.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use media::block::{MemoryDevice, Queue};
use media::{Medium, Region};
use results::Histogram;
use sim::{Bytes, LockClass, Machine, Nanos, Seed, Setup, Work};

use crate::environment;
use crate::error::Error;
use crate::machine::{MachinePreset, THIS_HOST, Value, works};
use crate::watch::Watch;

mod caches;
mod calls;
pub mod from;
mod ran;

/// What the summary of a machine says that was measured while the host was busy.
pub const BUSY: &str = "while the host was busy";

/// What the summary of a machine says before the values whose repeats differ much.
pub const UNSTEADY: &str = "unsteady";

/// Batches whose median counts.
const BATCHES: usize = 21;

/// What calibration found.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The machine.
    pub preset: MachinePreset,
    /// How long the injected delays of a medium really are.
    pub injected: Vec<Injected>,
    /// A null system call of this kernel, for comparison: the in-process path does without.
    pub kernel_call_ps: u64,
    /// Why the numbers cannot be relied on: what kept the host busy meanwhile.
    pub noise: Vec<String>,
    /// Keys of values whose repeats differ much, up to the last.
    pub unsteady: Vec<&'static str>,
}

/// A delay that a medium asks for, and what it becomes under the real clock.
#[derive(Clone, Copy, Debug)]
pub struct Injected {
    /// Lines of one flush.
    pub lines: u64,
    /// What the model asks for, in all.
    pub target: Nanos,
    /// What passes: the median.
    pub median: Nanos,
}

impl Injected {
    /// Achieved by asked for, less one.
    pub fn error(&self) -> f64 {
        self.median.0 as f64 / self.target.0 as f64 - 1.0
    }
}

/// A measured kind of work.
struct Measured {
    work: Work,
    times: Times,
    how: &'static str,
}

impl Measured {
    fn new(work: Work, ps: u64, how: &'static str) -> Self {
        Self { work, times: Times::of(vec![ps]), how }
    }
}

/// What several measurements of one thing come to.
struct Times {
    median: u64,
    /// The least and the most.
    spread: (u64, u64),
    /// The least and the most of the middle half.
    middle: (u64, u64),
    repeats: usize,
}

impl Times {
    fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let repeats = times.len();
        Self {
            median: times[repeats / 2],
            spread: (times[0], times[repeats - 1]),
            middle: (times[repeats / 4], times[repeats * 3 / 4]),
            repeats,
        }
    }

    /// Measures until the results agree, [`MOST_REPEATS`] times at most.
    fn measure(mut one: impl FnMut() -> u64) -> Self {
        let mut all: Vec<u64> = (0..REPEATS).map(|_| one()).collect();
        while all.len() < MOST_REPEATS && !Self::of(all.clone()).are_steady() {
            all.push(one());
        }
        Self::of(all)
    }

    /// Whether results of the middle half differ by less than a factor of two: more repeats would not change the median much.
    fn are_steady(&self) -> bool {
        self.middle.1 < 2 * self.middle.0.max(1)
    }

    /// Compares the extremes, however few results there are: a factor of two or more is told.
    fn differ(&self) -> bool {
        self.spread.1 >= 2 * self.spread.0.max(1)
    }

    /// How often, and from where to where, for people.
    fn told(&self, people: impl Fn(u64) -> String) -> String {
        let (one, other) = (people(self.spread.0), people(self.spread.1));
        let mark = if self.differ() { "; unsteady" } else { "" };
        format!("{} repeats, {one} to {other}{mark}", self.repeats)
    }
}

/// How often everything is measured.
const REPEATS: usize = 3;
/// How often what differs is measured.
const MOST_REPEATS: usize = 9;

/// What `measure` finds, several times, folded by kind of work.
fn repeated(mut measure: impl FnMut() -> Result<Vec<Measured>, Error>) -> Result<Vec<Measured>, Error> {
    let mut passes = Vec::new();
    loop {
        passes.push(measure()?);
        let fold = |at: usize| {
            let one: &Measured = &passes[0][at];
            let times = Times::of(passes.iter().map(|pass: &Vec<Measured>| pass[at].times.median).collect());
            Measured { work: one.work, times, how: one.how }
        };
        let folded: Vec<Measured> = (0..passes[0].len()).map(fold).collect();
        let steady = folded.iter().all(|one| one.times.are_steady());
        if passes.len() >= MOST_REPEATS || passes.len() >= REPEATS && steady {
            return Ok(folded);
        }
    }
}

/// Between which costs in nanoseconds any machine lies on which Weir can run: outside, the measurement is wrong. A lock and
/// the generator have no less than one instruction, a wake-up no more than a time slice.
fn plausible_ns(work: Work) -> (f64, f64) {
    match work.key() {
        "line_same_socket" | "line_cross_socket" => (5.0, 1_000.0),
        "step" => (0.2, 50.0),
        "miss" => (20.0, 1_000.0),
        "futex" => (10.0, 20_000.0),
        "wakeup" => (100.0, 1_000_000.0),
        _ => (0.0, 100_000.0),
    }
}

/// Refuses what no machine has.
fn check(measured: &[Measured], (copy_ps, dram_ps): (u64, u64)) -> Result<(), Error> {
    let refuse = |what: String| {
        Err(Error::Host(format!(
            "{what}: the host was busy with something else; calibrate again when it is quiet"
        )))
    };
    for Measured { work, times, .. } in measured {
        let ((low, high), ns) = (plausible_ns(*work), times.median as f64 / 1_000.0);
        if !(low..=high).contains(&ns) {
            let (key, told) = (work.key(), times.told(nanoseconds));
            return refuse(format!(
                "{key} takes {ns:.1} ns ({told}), which is not plausible ({low} to {high} ns)"
            ));
        }
    }
    let cost =
        |wanted: Work| measured.iter().find(|one| one.work == wanted).map_or(0, |one| one.times.median);
    if cost(Work::MISS) < cost(Work::STEP) {
        return refuse("a load that misses every cache takes less time than one that hits".to_owned());
    }
    // 0.2 to 500 GB/s.
    match [copy_ps, dram_ps].into_iter().find(|ps| !(2..=5_000).contains(ps)) {
        Some(ps) => refuse(format!("copying takes {ps} ps a byte, which is not plausible (2 to 5000)")),
        None => Ok(()),
    }
}

/// Measures this host; `progress` is told each step.
pub fn calibrate(progress: &dyn Fn(&str)) -> Result<Calibration, Error> {
    let watch = Watch::begin();
    let step = |name: &str| progress(name);
    step("memory");
    let cores = environment::cores() as u16;
    let memory = Memory::new();
    let copy = |threads: usize| Times::measure(|| memory.copy_ps_per_byte(threads));
    let (one, all) = (copy(1), copy(usize::from(cores)));
    drop(memory);
    let mut cache = Bytes(0);
    let mut measured = repeated(|| {
        let (measured, found) = Memory::searches();
        cache = cache.max(found);
        Ok(measured)
    })?;
    step("caches");
    let levels = caches::measure(&measured, cache);
    step("cores");
    measured.extend(repeated(|| Ok(transfers()))?);
    step("locks and waiting");
    let futex = || Measured::new(Work::FUTEX, futex_ps(), "futex_wait on a word that has changed");
    measured.extend(repeated(|| Ok(vec![futex()]))?);
    measured.extend(repeated(|| in_run(tasks))?);
    step("medium");
    measured.extend(repeated(|| in_run(region_calls)?)?);
    step("calls");
    measured.extend(repeated(|| in_run(calls::measure)?)?);
    step("small work");
    measured.extend(repeated(|| Ok(ran::measure()))?);
    step("injected delays");
    let injected = in_run(injected)??;
    check(&measured, (one.median, all.median))?;
    let host = watch.end();
    let unsteady = unsteady(&measured, &one, &all);
    let mut preset = preset(cores, (&one, &all), cache, &measured, (&host.noise, &unsteady));
    if let Some((caches, values)) = levels.map(|levels| levels.priced()) {
        preset.machine.caches = Some(caches);
        preset.values.extend(values);
    }
    Ok(Calibration { preset, injected, kernel_call_ps: kernel_call_ps(), noise: host.noise, unsteady })
}

/// Keys of values whose repeats differ much.
fn unsteady(measured: &[Measured], copy: &Times, dram: &Times) -> Vec<&'static str> {
    let speeds = [("copy", copy), ("dram", dram)];
    let works = measured.iter().map(|one| (one.work.key(), &one.times));
    speeds.into_iter().chain(works).filter(|(_, times)| times.differ()).map(|(key, _)| key).collect()
}

fn preset(
    cores: u16,
    (copy, dram): (&Times, &Times),
    cache: Bytes,
    measured: &[Measured],
    (noise, unsteady): (&[String], &[&str]),
) -> MachinePreset {
    let mut machine = Machine::unit();
    THIS_HOST.clone_into(&mut machine.name);
    (machine.sockets, machine.cores_per_socket) = (1, cores);
    (machine.copy_ps_per_byte, machine.dram_ps_per_byte) = (copy.median, dram.median);
    machine.cache = cache;
    let mut values = vec![
        value("sockets", "1".to_owned(), "the host is taken as one socket"),
        value("cores_per_socket", cores.to_string(), "cores that this process may use"),
        value(
            "copy",
            gb_per_s(copy.median),
            &format!(
                "one thread copying 4 KiB pieces between a buffer of 10 MiB and memory outside its caches, each \
                 waited for ({})",
                copy.told(gb_per_s)
            ),
        ),
        value(
            "dram",
            gb_per_s(dram.median),
            &format!("the same on all cores at once ({})", dram.told(gb_per_s)),
        ),
        value(
            "cache",
            format!("{} MiB", machine.cache.0 >> 20),
            "the most memory of which a step of a pointer chase takes less than half a miss",
        ),
    ];
    let of_ran = Work::RAN.iter().copied().filter(|work| measured.iter().any(|one| one.work == *work));
    for (work, key) in works().chain(of_ran).map(|work| (work, work.key())) {
        let found = measured.iter().find(|measured| measured.work == work);
        let found = found.expect("calibrate measures every kind of work that all machines price");
        machine.work_ps[work.index()] = found.times.median;
        let how = format!("{} ({})", found.how, found.times.told(nanoseconds));
        values.push(value(key, format!("{} ps", found.times.median), &how));
    }
    let on = environment::capture().cpu_model.unwrap_or_else(|| "a processor without a name".to_owned());
    let busy = if noise.is_empty() { String::new() } else { format!(", {BUSY}: {}", noise.join(", ")) };
    let unsteady =
        if unsteady.is_empty() { String::new() } else { format!(", {UNSTEADY}: {}", unsteady.join(", ")) };
    let summary = format!("this host, measured by `weir calibrate` on {on}{busy}{unsteady}");
    MachinePreset {
        machine,
        kernel: None,
        summary,
        fitted_on: Vec::new(),
        medium: None,
        values,
        has_own_ran: true,
    }
}

fn value(key: &'static str, value: String, how: &str) -> Value {
    Value { key, value, source: format!("[M] weir calibrate: {how}") }
}

fn nanoseconds(ps: u64) -> String {
    format!("{:.1} ns", ps as f64 / 1_000.0)
}

fn gb_per_s(ps_per_byte: u64) -> String {
    format!("{:.3} GB/s", 1_000.0 / ps_per_byte as f64)
}

/// Runs `body` under the real clock, as a task with a ledger.
fn in_run<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let setup = Setup::real_clock(Machine::unit(), Seed(1));
    sim::run(&setup, body).map_err(|error| Error::Host(format!("calibration failed: {error}")))
}

/// Median time of one `body`, in picoseconds and at least 1; each batch does it `n` times.
fn median_ps(n: u64, mut body: impl FnMut()) -> u64 {
    let mut batches: Vec<u64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..n).for_each(|_| body());
            start.elapsed().as_nanos() as u64 * 1_000 / n
        })
        .collect();
    batches.sort_unstable();
    batches[BATCHES / 2].max(1)
}

/// A futex call of this kernel on a word of this process that is not what the caller says.
fn futex_ps() -> u64 {
    let word = AtomicU32::new(1);
    median_ps(10_000, || {
        let flags = rustix::thread::futex::Flags::empty();
        let _ = black_box(rustix::thread::futex::wait(&word, flags, 2, None));
    })
}

fn kernel_call_ps() -> u64 {
    median_ps(10_000, || {
        black_box(rustix::process::getppid());
    })
}

/// Memory far larger than the caches.
struct Memory {
    bytes: Vec<u8>,
}

const MEMORY_BYTES: usize = 256 << 20;
const PIECE: usize = 4096;

impl Memory {
    fn new() -> Self {
        Self { bytes: vec![1; MEMORY_BYTES] }
    }

    /// Time of one copied byte while `threads` copy: what all of them together need for it.
    fn copy_ps_per_byte(&self, threads: usize) -> u64 {
        let mut rounds: Vec<u64> = (0..5).map(|_| self.copy_round(threads)).collect();
        rounds.sort_unstable();
        rounds[2].max(1)
    }

    fn copy_round(&self, threads: usize) -> u64 {
        let start_line = Barrier::new(threads);
        let slowest = std::thread::scope(|scope| {
            let start_line = &start_line;
            let handles: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || copy_pieces(&self.bytes, (thread, threads), start_line)))
                .collect();
            handles.into_iter().map(|handle| handle.join().expect("copying does not panic")).max()
        });
        slowest.unwrap_or(0) * 1_000 / (threads * COPY_BYTES) as u64
    }

    /// Pointer chases: through a cache, and past all of them; and how much memory is cached. What the kernel lists as the
    /// largest cache may be shared with other guests of the host, which leave a part of it.
    fn searches() -> (Vec<Measured>, Bytes) {
        let cached = chase_ps(128 << 10);
        let missed = chase_ps(MEMORY_BYTES);
        let sizes = (0..8).map(|power| (1 << power) << 20);
        let fits = sizes.take_while(|bytes| chase_ps(*bytes) < missed / 2).last();
        let measured = vec![
            Measured::new(Work::STEP, cached, "a pointer chase through 128 KiB"),
            Measured::new(Work::MISS, missed, "a pointer chase through 256 MiB"),
        ];
        (measured, Bytes(fits.unwrap_or(1 << 20) as u64))
    }
}

/// Bytes that each thread copies in a round.
const COPY_BYTES: usize = 64 << 20;

/// Memory that all threads copy into: more than the caches of a large server hold.
const TARGET_BYTES: usize = 512 << 20;

/// The memory of a program: what each thread of a load generator may have, more than a core's own caches hold.
const BUFFER_BYTES: usize = 10 << 20;

/// Copies pieces that lie far apart into a buffer, and as many from it to other memory, far apart, too; the nanoseconds that
/// it took. After each copy its stores are waited for, as by the next lock that a file system takes: copies that overlap are
/// faster.
fn copy_pieces(source: &[u8], (thread, threads): (usize, usize), start_line: &Barrier) -> u64 {
    let mut target = vec![1_u8; (TARGET_BYTES / threads).max(PIECE)];
    let mut buffer = vec![1_u8; BUFFER_BYTES];
    let (sources, places, parts) = (source.len() / PIECE, target.len() / PIECE, BUFFER_BYTES / PIECE);
    let mut at = thread * 7_919;
    start_line.wait();
    let start = Instant::now();
    for round in 0..COPY_BYTES / 2 / PIECE {
        at = (at + 40_503) % sources;
        let (part, place) = (round % parts * PIECE, round * 7_919 % places * PIECE);
        buffer[part..part + PIECE].copy_from_slice(black_box(&source[at * PIECE..(at + 1) * PIECE]));
        fence(SeqCst);
        target[place..place + PIECE].copy_from_slice(black_box(&buffer[part..part + PIECE]));
        fence(SeqCst);
    }
    black_box(&target);
    start.elapsed().as_nanos() as u64
}

/// Time of one step of a random cycle through `bytes` of memory.
fn chase_ps(bytes: usize) -> u64 {
    let lines = bytes / 64;
    let mut next: Vec<[u32; 16]> = vec![[0; 16]; lines];
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = 1_u64;
    for at in (1..lines).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % (at + 1));
    }
    for (at, line) in order.iter().enumerate() {
        next[*line as usize][0] = order[(at + 1) % lines];
    }
    let mut line = 0_u32;
    median_ps(200_000, || line = black_box(next[line as usize][0]))
}

fn transfers() -> Vec<Measured> {
    let ps = transfer_ps();
    vec![
        Measured::new(
            Work::LINE_SAME_SOCKET,
            ps,
            "two pinned threads passing a line to and fro, half a round",
        ),
        Measured::new(
            Work::LINE_CROSS_SOCKET,
            ps,
            "as within a socket: the host shows no second one to measure",
        ),
    ]
}

/// Runs `body` on the processor at place `place` among those on which this process may run, and lets the thread go anywhere
/// again. Where a container may not choose, the thread runs wherever the host puts it.
fn pinned<T>(place: usize, body: impl FnOnce() -> T) -> T {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return body() };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect();
    if let Some(number) = processors.get(place % processors.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(*number);
        let _ = sched_setaffinity(None, &one);
    }
    let done = body();
    let _ = sched_setaffinity(None, &allowed);
    done
}

/// Half a round of two threads that pass a cache line to and fro.
fn transfer_ps() -> u64 {
    const ROUNDS: u64 = 2_000;
    if environment::cores() < 2 {
        return 50_000;
    }
    let line = AtomicU64::new(0);
    let turn = |parity: u64| {
        for round in 0..ROUNDS {
            while line.load(Relaxed) != round * 2 + parity {
                std::hint::spin_loop();
            }
            line.store(round * 2 + parity + 1, Relaxed);
        }
    };
    let mut rounds: Vec<u64> = (0..BATCHES)
        .map(|_| {
            line.store(0, Relaxed);
            let start = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| pinned(1, || turn(1)));
                pinned(0, || turn(0));
            });
            start.elapsed().as_nanos() as u64 * 1_000 / (ROUNDS * 2)
        })
        .collect();
    rounds.sort_unstable();
    rounds[BATCHES / 2].max(1)
}

static LOCK: LockClass = LockClass::new("calibrate.lock");

/// What the façade's own parts cost.
fn tasks() -> Vec<Measured> {
    let lock = sim::Mutex::new(&LOCK, 0_u64);
    let lock_ps = median_ps(100_000, || *lock.lock() += 1);
    let mut histogram = Histogram::for_an_hour();
    let generator_ps = median_ps(20_000, || {
        let start = sim::now();
        black_box(Seed(start.0).derive("pick", 1));
        *lock.lock() += 1;
        histogram.record((sim::now() - start).0);
    });
    let mut drawn = 1;
    let random_ps = median_ps(200_000, || drawn = black_box(Seed(drawn).derive("draw", 1).0));
    vec![
        Measured::new(Work::LOCK, lock_ps, "a lock of the façade, alone"),
        Measured::new(
            workload::charges::GENERATOR,
            generator_ps,
            "two clock readings, a random number, a lock, a histogram record",
        ),
        Measured::new(workload::charges::RANDOM, random_ps, "a draw of the engine's own generator"),
        Measured::new(
            Work::WAKEUP,
            wakeup_ps(),
            "two threads waking each other by a condition variable, half a round",
        ),
    ]
}

fn wakeup_ps() -> u64 {
    const ROUNDS: u64 = 2_000;
    let pair = Arc::new((sim::Mutex::new(&LOCK, 0_u64), sim::Condvar::new()));
    let other = Arc::clone(&pair);
    let start = Instant::now();
    let task = sim::spawn(sim::TaskSpec::named("calibrate"), move || pass(&other, 1, ROUNDS));
    pass(&pair, 0, ROUNDS);
    task.join();
    start.elapsed().as_nanos() as u64 * 1_000 / (ROUNDS * 2)
}

fn pass(pair: &(sim::Mutex<u64>, sim::Condvar), parity: u64, rounds: u64) {
    for round in 0..rounds {
        let mut turn = pair.0.lock();
        while *turn != round * 2 + parity {
            turn = pair.1.wait(turn);
        }
        *turn += 1;
        pair.1.notify_all();
    }
}

/// An anonymous region on a medium, touched so that no page fault is measured.
fn region(medium: &str, size: Bytes) -> Result<Region, Error> {
    let medium = Medium::parse(medium).and_then(|medium| medium.build());
    let model = medium.map_err(|error| Error::Setting(error.to_string()))?;
    let region = Region::anonymous(size, model).map_err(|error| Error::Host(error.to_string()))?;
    region.nt_zero(0, size.0).map_err(|error| Error::Host(error.to_string()))?;
    Ok(region)
}

fn region_calls() -> Result<Vec<Measured>, Error> {
    let region = region("dram", Bytes::mib(1))?;
    let flush_ps = median_ps(20_000, || region.flush(0, 4096)) / 64;
    let fence_ps = median_ps(100_000, || region.fence());
    Ok(vec![
        Measured::new(
            media::charges::FLUSH_ISSUE,
            flush_ps.max(1),
            "a line of a flush of 4 KiB on a medium without cost",
        ),
        Measured::new(media::charges::STORE_FENCE, fence_ps, "a fence on a medium without cost"),
        block_request()?,
    ])
}

/// A request of a sector through the queue of a RAM disk.
fn block_request() -> Result<Measured, Error> {
    let disk = MemoryDevice::ram(Bytes::mib(1)).map_err(|error| Error::Host(error.to_string()))?;
    let (queue, mut sector) = (Queue::new(disk), [0; 512]);
    let ps = median_ps(20_000, || {
        let _ = queue.read(&mut [(0, &mut sector)]);
    });
    Ok(Measured::new(media::charges::BLOCK_REQUEST, ps.max(1), "a read of 512 bytes from a RAM disk"))
}

/// How long a flush on the emulated medium of 200 ns takes, against what the model asks for.
fn injected() -> Result<Vec<Injected>, Error> {
    const LINE: Nanos = Nanos(200);
    let region = region("hinfs,latency=200ns", Bytes::mib(1))?;
    let counts = [1, 64];
    Ok(counts.map(|lines| injected_by(&region, lines, LINE * lines)).into())
}

fn injected_by(region: &Region, lines: u64, target: Nanos) -> Injected {
    let pair = median_span(|| {});
    let median = median_span(|| region.flush(0, lines * 64));
    Injected { lines, target, median: median.since(pair) }
}

/// The median time between two readings of the clock with `body` in between.
fn median_span(mut body: impl FnMut()) -> Nanos {
    let mut spans: Vec<Nanos> = (0..2_001)
        .map(|_| {
            let start = sim::now();
            body();
            sim::now() - start
        })
        .collect();
    spans.sort_unstable();
    spans[spans.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_refused_with_its_spread() {
        let measured = |transfer: u64| {
            let times = Times::of(vec![19_000, transfer, 9_000_000]);
            vec![
                Measured { work: Work::LINE_SAME_SOCKET, times, how: "a line" },
                Measured::new(Work::STEP, 1_000, "a step"),
                Measured::new(Work::MISS, 90_000, "a miss"),
            ]
        };
        assert!(check(&measured(36_000), (150, 80)).is_ok());
        let told = check(&measured(3_999_500), (150, 80)).unwrap_err().to_string();
        let wanted = "line_same_socket takes 3999.5 ns (3 repeats, 19.0 ns to 9000.0 ns; unsteady)";
        assert!(told.contains(wanted), "{told}");
        assert!(check(&measured(36_000), (150, 1)).unwrap_err().to_string().contains("copying"));
    }

    /// A result that is far from the others, as one from a busy host, is measured again until the middle half agrees.
    #[test]
    fn what_differs_is_measured_again_and_marked_if_it_goes_on_differing() {
        let measured = |results: &[u64]| {
            let mut next = results.iter().copied().cycle();
            Times::measure(|| next.next().expect("a cycle has no end"))
        };
        let steady = measured(&[100, 110, 120]);
        assert_eq!((steady.repeats, steady.median, steady.are_steady()), (3, 110, true));
        let once = measured(&[4_000, 100, 110, 120, 105]);
        assert!(once.repeats > 3 && once.are_steady() && once.median < 200, "{}", once.told(nanoseconds));
        assert!(once.differ() && !steady.differ(), "one repeat that took forty times as long is told");
        let never = measured(&[100, 1_000, 10_000]);
        assert_eq!((never.repeats, never.are_steady()), (MOST_REPEATS, false));
        assert!(never.told(nanoseconds).ends_with("; unsteady"));
    }

    #[test]
    fn a_longer_chase_costs_more_than_one_in_a_cache() {
        assert!(chase_ps(64 << 20) > chase_ps(16 << 10));
    }

    #[test]
    fn a_median_of_something_that_takes_time_is_above_nothing() {
        assert!(median_ps(10, || std::thread::sleep(std::time::Duration::from_micros(50))) > 40_000_000);
    }
}
