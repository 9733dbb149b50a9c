//! What tasks wait for in the kernel of the host, while a workload runs there: the causes of a curve.
//!
//! ```text
//! tracing   lock:contention_begin, _end, sched:sched_switch ┐
//! samples   cpu-clock                                       ┴▶ events ─ waits ─▶ names ─▶ the sample's operations
//! ```
//!
//! Three sources together, since none sees all: tracepoints of locks tell waits of contended locks (Linux 5.19 and later), switches
//! of tasks tell sleeps, and a sample every half millisecond tells of tasks that spin for a semaphore whose owner runs, which no
//! tracepoint does. Where a source is missing the others go on, and the record says which and why. `perf_event_open` of every
//! processor needs root, or CAP_PERFMON.
//!
//! Names of locks come from `names`, and are those of the models of the kernel's file systems.

mod events;
mod names;
mod symbols;
mod tracing;
mod waits;

use std::collections::BTreeMap;
use std::ops::Range;

use results::{KernelLock, KernelLocks, Sample};
use rustix::time::{ClockId, clock_gettime};

use events::Sampling;
pub use names::meaning_of;
use names::{Meaning, Names, kinds};
use symbols::Symbols;
use waits::{Wait, fold};

/// What this host can tell of waits in its kernel: the sources by name, and what is missing, each with its reason.
pub fn able() -> (Vec<&'static str>, Vec<String>) {
    let recorder = Recorder::open();
    if let Some(sampling) = recorder.sampling {
        sampling.stop();
    }
    (recorder.sources, recorder.skipped)
}

/// Functions of a call chain that a record keeps.
const KEPT: usize = 8;

/// Bits of `flags` in `lock:contention_begin` (include/trace/events/lock.h), each with the kind of lock.
const SPIN: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 4;
const PERCPU: u32 = 16;
const MUTEX: u32 = 32;

/// Events are gathered from [`Recorder::open`] on; those of the measured time count.
#[derive(Debug)]
pub(crate) struct Recorder {
    sampling: Option<Sampling>,
    symbols: Symbols,
    /// Names of the sources that tell.
    sources: Vec<&'static str>,
    skipped: Vec<String>,
    window: Range<u64>,
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

impl Recorder {
    /// Starts every source that this host has.
    pub(crate) fn open() -> Self {
        let nothing = |why: String| Self {
            sampling: None,
            symbols: Symbols::default(),
            sources: Vec::new(),
            skipped: vec![why],
            window: 0..0,
        };
        let symbols = match Symbols::of_this_kernel() {
            Ok(symbols) => symbols,
            Err(why) => return nothing(why),
        };
        let (sampling, sources, skipped) = events::start();
        Self { sampling, symbols, sources, skipped, window: 0..0 }
    }

    /// The measured time begins.
    pub(crate) fn begin(&mut self) {
        let now = now_ns();
        self.window = now..now;
    }

    /// The measured time ends.
    pub(crate) fn end(&mut self) {
        self.window.end = now_ns();
    }

    /// Stops, and puts the waits of the sample's workers into it: into its record, and into the operations in which they waited.
    /// There are `tasks` of them, where the sample does not tell them apart.
    pub(crate) fn put(self, sample: &mut Sample, tasks: u64) {
        let measured = sample.workers.iter().filter(|worker| !worker.background).count() as u64;
        let tasks = if measured > 0 { measured } else { tasks };
        let mut record = KernelLocks {
            sources: self.sources.iter().map(|name| (*name).to_owned()).collect(),
            skipped: self.skipped,
            task_ns: sample.elapsed_ns.saturating_mul(tasks),
            ..KernelLocks::default()
        };
        let Some(sampling) = self.sampling else {
            sample.kernel_locks = Some(record);
            return;
        };
        let gathered = sampling.stop();
        // A suite's workers are threads of this process, except where they are processes of their own.
        let processes: Vec<u32> = sample.workers.iter().filter_map(|worker| worker.process).collect();
        let is_ours = |process: u32| match processes.is_empty() {
            true => process == std::process::id(),
            false => processes.contains(&process),
        };
        let named: Vec<Vec<&str>> =
            gathered.stacks.iter().map(|stack| functions(&self.symbols, stack)).collect();
        let spins = |stack: u32| named.get(stack as usize).is_some_and(|chain| Names::spins(chain));
        let found = fold(&gathered.events, is_ours, spins, self.window.clone(), events::INTERVAL_NS);
        (record.events, record.lost, record.preempted_ns) = (found.events, gathered.lost, found.preempted_ns);
        put_waits(&mut record, sample, &found.each, &named);
        put_preempted(sample, found.preempted_ns);
        sample.kernel_locks = Some(record);
    }
}

/// The functions of a call chain, the innermost first. An address that is not the innermost one is that behind a call.
fn functions<'a>(symbols: &'a Symbols, stack: &[u64]) -> Vec<&'a str> {
    let name = |(at, address): (usize, &u64)| symbols.function(address.saturating_sub(u64::from(at > 0)));
    stack.iter().enumerate().map(|(at, address)| name((at, address)).unwrap_or("?")).collect()
}

/// The kind that a tracepoint's flags say: nothing is said of a semaphore.
fn kind_of(flags: u32) -> &'static str {
    let has = |bit| flags & bit != 0;
    match () {
        () if has(MUTEX) => "mutex",
        () if has(PERCPU) => "percpu-rwsem",
        () if has(SPIN) && (has(READ) || has(WRITE)) => "rwlock",
        () if has(SPIN) => "spinlock",
        () if has(READ) || has(WRITE) => "rwsem",
        () => "semaphore",
    }
}

/// Waits by the lock that they are for.
fn put_waits(record: &mut KernelLocks, sample: &mut Sample, waits: &[Wait], named: &[Vec<&str>]) {
    let mut by_stack: BTreeMap<(u32, Option<u32>), (u64, u64)> = BTreeMap::new();
    for wait in waits {
        let sum = by_stack.entry((wait.stack, wait.flags)).or_default();
        (sum.0, sum.1) = (sum.0 + wait.ns, sum.1 + 1);
    }
    let mut locks: BTreeMap<String, (KernelLock, u64)> = BTreeMap::new();
    for ((stack, flags), (ns, count)) in by_stack {
        let Some(chain) = named.get(stack as usize) else { continue };
        let Some(meaning) = Names::get().meaning(chain, flags.map(kind_of)) else {
            record.elsewhere_ns += ns;
            continue;
        };
        record.wait_ns += ns;
        put_operation(sample, &meaning, ns);
        let (lock, most) = locks.entry(meaning.name.clone()).or_default();
        (lock.wait_ns, lock.count) = (lock.wait_ns + ns, lock.count + count);
        if ns > *most {
            *most = ns;
            lock.stack =
                chain.iter().skip(meaning.beyond).take(KEPT).map(|name| (*name).to_owned()).collect();
        }
        meaning.what.clone_into(&mut lock.what);
        meaning.kind.clone_into(&mut lock.kind);
        lock.name = meaning.name;
    }
    record.locks = locks.into_values().map(|(lock, _)| lock).collect();
    record.locks.sort_by(|a, b| b.wait_ns.cmp(&a.wait_ns).then_with(|| a.name.cmp(&b.name)));
}

/// Where a kind of operation has its time in the kernel, and where its waits for locks.
const SOFTWARE: &str = "software";
const LOCK_WAIT: &str = "lock_wait";
const CORE_WAIT: &str = "core_wait";

/// Moves a wait from the rest of its operation's time to what it is. No more is moved than there is: a call that goes on beyond the
/// measured time has its time elsewhere.
fn put_operation(sample: &mut Sample, meaning: &Meaning, ns: u64) {
    let kinds = meaning.call.as_deref().and_then(kinds).unwrap_or_default();
    let found = kinds.iter().find_map(|kind| sample.operations.iter().position(|op| op.kind == *kind));
    let Some(operation) = found.and_then(|at| sample.operations.get_mut(at)) else { return };
    let moved = take(&mut operation.time_ns, ns);
    if moved > 0 {
        *operation.time_ns.entry(LOCK_WAIT.to_owned()).or_default() += moved;
        *operation.lock_wait_ns.entry(meaning.name.clone()).or_default() += moved;
    }
}

fn take(time_ns: &mut BTreeMap<String, u64>, ns: u64) -> u64 {
    let Some(software) = time_ns.get_mut(SOFTWARE) else { return 0 };
    let moved = ns.min(*software);
    *software -= moved;
    moved
}

/// Time without a processor is shared among operations by the time that is left of them.
fn put_preempted(sample: &mut Sample, ns: u64) {
    let left =
        |sample: &Sample| -> u64 { sample.operations.iter().filter_map(|op| op.time_ns.get(SOFTWARE)).sum() };
    let all = left(sample);
    for operation in &mut sample.operations {
        let own = operation.time_ns.get(SOFTWARE).copied().unwrap_or(0);
        let part = (u128::from(ns.min(all)) * u128::from(own)).checked_div(u128::from(all)).unwrap_or(0);
        let moved = take(&mut operation.time_ns, u64::try_from(part).unwrap_or(own));
        if moved > 0 {
            *operation.time_ns.entry(CORE_WAIT.to_owned()).or_default() += moved;
        }
    }
}
