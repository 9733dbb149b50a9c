//! Runs and tasks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::clock::Clock;
use crate::context::{self, Context, RunShared};
use crate::ledger::LockClass;
use crate::machine::Machine;
use crate::rng::Seed;
use crate::schedule::{Interleaving, Schedule};
use crate::sync::{Condvar, Mutex};
use crate::units::{Bytes, Nanos};
use crate::virt::{NO_TASK, Scheduler};

/// How to run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which clock.
    pub clock: Clock,
    /// What CPU work costs under the virtual clock.
    pub machine: Machine,
    /// Where all randomness of the run starts.
    pub seed: Seed,
    /// Stack of each task of the virtual clock, with a guard page below it. Default 256 KiB.
    pub stack: Bytes,
    /// Classes of locks and lines that are free in this run: see [`crate::sync`]. Default none.
    pub free: Vec<String>,
    /// By how many thousandths the private work of an operation may be longer or shorter than priced: each operation draws its own
    /// pace from the run's seed, evenly. Default 0. Without it the workers of a closed loop keep the order in which they began, and
    /// most lines move between neighbours.
    pub work_jitter_per_mille: u32,
    /// How far a task may run ahead of its last interaction before it must interact. Default 10 ms.
    pub run_ahead: Nanos,
}

impl Setup {
    /// A virtual run.
    pub fn virtual_clock(machine: Machine, seed: Seed) -> Self {
        Self {
            clock: Clock::Virtual,
            machine,
            seed,
            stack: Bytes::kib(256),
            free: Vec::new(),
            work_jitter_per_mille: 0,
            run_ahead: Nanos::from_millis(10),
        }
    }

    /// A real run. The machine is kept for its name and shape only.
    pub fn real_clock(machine: Machine, seed: Seed) -> Self {
        Self { clock: Clock::Real, ..Self::virtual_clock(machine, seed) }
    }
}

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A task panicked.
    #[error("task \"{task}\" panicked at {time} (seed {seed}): {message}")]
    Panicked {
        /// The task's name.
        task: String,
        /// Its time.
        time: Nanos,
        /// Seed of the run.
        seed: u64,
        /// The panic's message.
        message: String,
    },
    /// Every task waits for another.
    #[error("deadlock at {time} (seed {seed}): {waits}")]
    Deadlock {
        /// Time of the last step.
        time: Nanos,
        /// Seed of the run.
        seed: u64,
        /// Who waits for what, held by whom.
        waits: String,
    },
    /// The virtual clock has come to its end ([`LONGEST_RUN`]).
    #[error(
        "the virtual clock ends after 26 days, and the run goes on: give it less time, or leave out the pauses of what it replays"
    )]
    TooLong,
    /// More tasks are alive at once than a virtual run has numbers for ([`MOST_TASKS`]).
    #[error(
        "more than {} tasks at once, which is the most under the virtual clock: give the run fewer threads",
        MOST_TASKS
    )]
    TooManyTasks,
}

/// A run under the virtual clock ends before this time, 26 days: 2^51 ns.
pub const LONGEST_RUN: Nanos = Nanos(crate::virt::MAX_TIME);
/// Tasks that a run under the virtual clock can have at once.
pub const MOST_TASKS: usize = crate::virt::MAX_TASKS;

impl RunError {
    /// The error of a run in which the task of `cx` has panicked.
    pub(crate) fn of_panic(cx: &Context, payload: Box<dyn Any + Send>) -> Self {
        match payload.downcast::<Self>() {
            Ok(error) => *error,
            Err(payload) => Self::Panicked {
                task: cx.name.clone(),
                time: cx.now(),
                seed: cx.run.seed.0,
                message: panic_message(payload.as_ref()),
            },
        }
    }
}

/// Runs `main` as the first task and returns its result when it has ended. Tasks that still exist then are
/// unwound (virtual clock) or left to end by themselves (real clock): join what must be finished. A panic in
/// any task fails the run.
pub fn run<T: Send + 'static>(
    setup: &Setup,
    main: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    run_scheduled(setup, None, main).0
}

/// A run in the order of `schedule`, or in the usual one.
pub(crate) fn run_scheduled<T: Send + 'static>(
    setup: &Setup,
    schedule: Option<&Schedule>,
    main: impl FnOnce() -> T + Send + 'static,
) -> (Result<T, RunError>, Interleaving) {
    assert!(schedule.is_none() || setup.clock == Clock::Virtual, "threads have no schedule to choose");
    assert!(context::current().is_none(), "a run inside a run: join the outer one first");
    let shared = RunShared::new(setup);
    let result = Arc::new(parking_lot::Mutex::new(None));
    let slot = Arc::clone(&result);
    let body = Box::new(move || *slot.lock() = Some(main()));
    // A host thread of its own keeps the caller's thread-local state, a panic in progress included, away from
    // the run.
    let thread = std::thread::Builder::new().name("run".to_owned());
    let thread = match setup.clock {
        Clock::Virtual => {
            let schedule = schedule.cloned();
            thread.spawn(move || Scheduler::run(&shared, schedule.as_ref(), body))
        }
        Clock::Real => thread.spawn(move || (run_real(&shared, body), Interleaving::default())),
    };
    let ended = thread.expect("a host thread for the run").join();
    let (ended, interleaving) = ended.expect("panics of tasks are caught");
    let value = || result.lock().take().expect("main has left its result");
    (ended.map(|()| value()), interleaving)
}

/// A run of the real clock whose main task is the calling thread itself: for a process that is to have no other.
///
/// # Panics
///
/// When the thread belongs to a run already, or `setup` wants the virtual clock.
pub fn run_here<T>(setup: &Setup, main: impl FnOnce() -> T) -> Result<T, RunError> {
    assert!(setup.clock == Clock::Real, "the virtual clock has a thread of its own");
    assert!(context::current().is_none(), "a run inside a run: join the outer one first");
    let mut result = None;
    run_real(&RunShared::new(setup), || result = Some(main()))?;
    Ok(result.expect("main has left its result"))
}

fn run_real(shared: &Arc<RunShared>, main: impl FnOnce()) -> Result<(), RunError> {
    // The panic, if there was one, is in `failure`.
    let _ = in_context(shared, TaskSpec::named("main"), main);
    shared.failure.lock().take().map_or(Ok(()), Err)
}

/// A way into a run for host threads that it has not started: those of a mount, which belong to the transport.
#[derive(Clone)]
pub struct Handle(Arc<RunShared>);

impl Handle {
    /// That of the current run, under the real clock; none outside a run, and none under the virtual clock, whose tasks all
    /// belong to one thread.
    pub fn current() -> Option<Self> {
        let cx = context::current()?;
        cx.scheduler().is_none().then(|| Self(Arc::clone(&cx.run)))
    }

    /// Makes the calling thread a task of the run until the guard is dropped.
    ///
    /// # Panics
    ///
    /// When the thread belongs to a run already.
    pub fn attach(&self, spec: TaskSpec) -> Attached {
        assert!(context::current().is_none(), "the thread is a task of a run already");
        let Self(run) = self;
        let context = Box::new(Context::new(run, ptr::null(), run.next_real_id(), spec.name, spec.core));
        context::set_current(&raw const *context);
        Attached { _context: context }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handle")
    }
}

/// The time for which a host thread is a task. It stays on its thread: what it refers to is the thread's own.
#[must_use = "the thread leaves the run when this is dropped"]
pub struct Attached {
    /// What the thread's pointer to its task leads to.
    _context: Box<Context>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        context::set_current(ptr::null());
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attached")
    }
}

/// Real clock: runs `body` with a context of its own on this host thread. A panic is recorded as the failure
/// of the run.
fn in_context<T>(run: &Arc<RunShared>, spec: TaskSpec, body: impl FnOnce() -> T) -> std::thread::Result<T> {
    let context = Context::new(run, ptr::null(), run.next_real_id(), spec.name, spec.core);
    context::set_current(&raw const context);
    let result = catch_unwind(AssertUnwindSafe(body));
    let result = result.inspect_err(|payload| {
        let message = panic_message(payload.as_ref());
        run.failure.lock().get_or_insert_with(|| RunError::of_panic(&context, Box::new(message)));
    });
    context::set_current(ptr::null());
    result
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Name and place of a task.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    pub(crate) name: String,
    pub(crate) core: u16,
    pub(crate) background: bool,
    pub(crate) movable: bool,
    pub(crate) pinned: bool,
    pub(crate) buffer: Bytes,
    pub(crate) places: Bytes,
}

impl TaskSpec {
    /// A task called `name`, on core 0, that the deadlock detector counts as work.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            core: 0,
            background: false,
            movable: false,
            pinned: false,
            buffer: Bytes(u64::MAX),
            places: Bytes(0),
        }
    }

    /// Places the task on `core` of the modelled machine (modulo its number of cores). It stays there, as with
    /// sched_setaffinity(2) of one processor, unless it is [`TaskSpec::movable`].
    #[must_use]
    pub fn on_core(mut self, core: u16) -> Self {
        self.core = core;
        self
    }

    /// A task that serves others: a flusher, a cleaner. It may wait for ever without that being part of a
    /// deadlock, and the run fails as a deadlock when only background tasks have gone on for an hour of
    /// virtual time.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    /// Lets the task go to a free core when it wakes and finds its own taken, as a task without an affinity does. Matters
    /// under the virtual clock on a machine whose cores are shared ([`Machine::scheduling`]).
    #[must_use]
    pub fn movable(mut self) -> Self {
        self.movable = true;
        self
    }

    /// What the task reads and writes with is a buffer of so many bytes, used again and again. On a machine with private caches
    /// ([`Machine::caches`]) one that fits into that of a core stays there, and a copy moves its other side only; without this,
    /// the buffer of each copy comes from memory, too.
    #[must_use]
    pub fn with_buffer(mut self, bytes: Bytes) -> Self {
        self.buffer = bytes;
        self
    }

    /// The task reads and writes anywhere in a buffer of so many bytes, and says where ([`crate::buffer_at`]). Matters on a machine
    /// whose caches have ways ([`crate::Caches::ways`]); on others the buffer of each copy comes from memory.
    #[must_use]
    pub fn with_places(mut self, bytes: Bytes) -> Self {
        self.places = bytes;
        self
    }

    /// Keeps the thread of a task of the real clock on one of the host's processors: the one at the place of its core among
    /// those on which this process may run. Where the host refuses, the thread runs wherever its scheduler puts it. A task of
    /// the virtual clock is always on its core.
    #[must_use]
    pub fn pinned(mut self) -> Self {
        self.pinned = true;
        self
    }
}

/// The core that the current task runs on: under the virtual clock that of the modelled machine, below [`Machine::cores`]; else,
/// also behind a mount, the CPU of the host on which the thread runs now, and may run no longer when this returns. For structures
/// of which each core has its own: take it modulo their number, and let any core use any of them.
#[inline]
pub fn core() -> u16 {
    context::current().filter(|cx| cx.scheduler().is_some()).map_or_else(host_cpu, |cx| cx.core.get())
}

/// The socket of the modelled machine on which the current task runs. 0 under the real clock.
#[inline]
pub fn socket() -> u16 {
    let task = context::current().filter(|cx| cx.scheduler().is_some());
    task.map_or(0, |cx| cx.run.machine.socket(cx.core.get()))
}

/// Says for which user and group the current task works from now on. A task begins as root.
#[inline]
pub fn work_for(user: u32, group: u32) {
    if let Some(cx) = context::current() {
        cx.user.set((user, group));
    }
}

/// The user and the group for whom the current task works; root outside a run.
#[inline]
pub fn works_for() -> (u32, u32) {
    context::current().map_or((0, 0), |cx| cx.user.get())
}

/// The number of the host's CPU that runs the calling thread, read without entering the kernel where that is possible.
fn host_cpu() -> u16 {
    rustix::thread::sched_getcpu() as u16
}

/// The number of the current task, unique among the tasks of its run that are alive; none outside a run.
#[inline]
pub fn current_id() -> Option<u32> {
    context::current().map(|cx| cx.id)
}

/// The number of the current run among those of this process, from 1; none outside a run. What outlives a run forgets by it the
/// times that another has left behind.
#[inline]
pub fn run_number() -> Option<u32> {
    context::current().map(|cx| cx.run.number)
}

pub(crate) static JOIN: LockClass = LockClass::new("sim.join");

/// Where a task leaves its result.
struct Outcome<T> {
    result: Mutex<Option<Result<T, Failed>>>,
    ended: Condvar,
    /// Virtual clock: the number of the task, for the detection of deadlocks.
    task: AtomicU32,
}

/// Why a task has no result.
enum Failed {
    Panicked(Box<dyn Any + Send>),
    /// The run ended before the task did.
    Unwound,
}

impl<T> Outcome<T> {
    fn deliver(&self, result: Result<T, Failed>) {
        *self.result.lock() = Some(result);
        self.ended.notify_all();
    }
}

/// Delivers that the task was unwound, unless it is given something better.
struct Delivery<T>(Option<Arc<Outcome<T>>>);

impl<T> Delivery<T> {
    fn deliver(mut self, result: Result<T, Failed>) {
        if let Some(outcome) = self.0.take() {
            outcome.deliver(result);
        }
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            outcome.deliver(Err(Failed::Unwound));
        }
    }
}

/// A task that can be waited for.
pub struct JoinHandle<T> {
    outcome: Arc<Outcome<T>>,
}

impl<T> JoinHandle<T> {
    /// Waits until the task has ended and returns its result. If it panicked, so does this; so it does when
    /// the task was unwound because its run ended.
    pub fn join(self) -> T {
        let mut slot = self.outcome.result.lock();
        loop {
            match slot.take() {
                Some(Ok(value)) => return value,
                Some(Err(failed)) => {
                    drop(slot);
                    failed.propagate()
                }
                None => slot = self.outcome.ended.wait_for_end(slot, &self.outcome.task),
            }
        }
    }

    /// Whether the task has ended, so that [`JoinHandle::join`] would not wait.
    pub fn is_finished(&self) -> bool {
        self.outcome.result.lock().is_some()
    }
}

impl Failed {
    fn propagate(self) -> ! {
        match (self, context::current().and_then(|cx| Some((cx, cx.scheduler()?)))) {
            (Self::Panicked(payload), _) => resume_unwind(payload),
            (Self::Unwound, Some((cx, scheduler))) => scheduler.never(cx),
            (Self::Unwound, None) => {
                panic!("the task was unwound because its run ended: join it inside the run")
            }
        }
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinHandle")
    }
}

/// Starts a task: a coroutine beside the current one at its time, or a thread. Outside a run: a thread
/// without a ledger.
///
/// Under the virtual clock a panic in the task ends the run at once. Under the real clock it fails the run
/// when `main` has ended, unless the task that joins it panics first.
pub fn spawn<T: Send + 'static>(spec: TaskSpec, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let result = Mutex::new(&JOIN, None);
    let outcome = Arc::new(Outcome { result, ended: Condvar::new(), task: AtomicU32::new(NO_TASK) });
    let delivery = Delivery(Some(Arc::clone(&outcome)));
    match context::current() {
        Some(cx) => match cx.scheduler() {
            Some(scheduler) => {
                let body = Box::new(move || delivery.deliver(Ok(body())));
                cx.show();
                outcome.task.store(scheduler.spawn(spec, cx.time.get(), body), Relaxed);
                scheduler.turn(cx);
            }
            None => spawn_thread(spec, Some(Arc::clone(&cx.run)), delivery, body),
        },
        None => spawn_thread(spec, None, delivery, body),
    }
    JoinHandle { outcome }
}

fn spawn_thread<T: Send + 'static>(
    spec: TaskSpec,
    run: Option<Arc<RunShared>>,
    delivery: Delivery<T>,
    body: impl FnOnce() -> T + Send + 'static,
) {
    let thread = std::thread::Builder::new().name(spec.name.clone());
    let started = thread.spawn(move || {
        if spec.pinned {
            pin(spec.core);
        }
        let result = match run {
            Some(run) => in_context(&run, spec, body),
            None => catch_unwind(AssertUnwindSafe(body)),
        };
        delivery.deliver(result.map_err(Failed::Panicked));
    });
    started.expect("a host thread for the task");
}

/// Keeps the calling thread on the processor at the place `core` among those on which it may run, in the order of
/// [`crate::topology`]. Where the host refuses, the thread runs wherever its scheduler puts it.
pub fn pin(core: u16) {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let processors = crate::topology::processors();
    if let Some(number) = processors.get(usize::from(core) % processors.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(*number);
        // Refused where a container may not choose.
        let _ = sched_setaffinity(None, &one);
    }
}
