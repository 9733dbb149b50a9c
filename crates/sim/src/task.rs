//! Runs and tasks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::clock::{Clock, Tsc};
use crate::context::{self, Context, RunShared, TaskId};
use crate::ledger::LockClass;
use crate::machine::Machine;
use crate::rng::Seed;
use crate::sync::{Condvar, Mutex, Server};
use crate::units::{Bytes, Nanos};
use crate::virt::Scheduler;

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
}

/// Runs `main` as the first task and returns its result when it has ended. Tasks that still exist then are unwound (virtual
/// clock) or left to end by themselves (real clock): join what must be finished.
pub fn run<T: Send + 'static>(
    setup: &Setup,
    main: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let shared = Arc::new(RunShared {
        machine: setup.machine.clone(),
        seed: setup.seed,
        tsc: Tsc::new(),
        dram: Server::new(1),
        ledgers: parking_lot::Mutex::new(Vec::new()),
        stack_bytes: setup.stack.as_usize(),
        run_ahead_ns: setup.run_ahead.0,
    });
    match setup.clock {
        Clock::Virtual => Scheduler::run(&shared, main),
        Clock::Real => run_real(&shared, main),
    }
}

fn run_real<T: Send + 'static>(
    shared: &Arc<RunShared>,
    main: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    let shared = Arc::clone(shared);
    let seed = shared.seed.0;
    let thread = std::thread::spawn(move || in_context(&shared, TaskSpec::named("main"), main));
    thread.join().unwrap_or_else(Err).map_err(|payload| RunError::Panicked {
        task: "main".to_owned(),
        time: Nanos::ZERO,
        seed,
        message: panic_message(payload.as_ref()),
    })
}

/// Real clock: runs `body` with a context of its own on this host thread.
fn in_context<T>(run: &Arc<RunShared>, spec: TaskSpec, body: impl FnOnce() -> T) -> std::thread::Result<T> {
    static NEXT_ID: AtomicU32 = AtomicU32::new(0);
    let id: TaskId = NEXT_ID.fetch_add(1, Relaxed);
    let context = Context::new(run, std::ptr::null(), id, spec.name, spec.core);
    context::set_current(&raw const context);
    let result = catch_unwind(AssertUnwindSafe(body));
    context::set_current(std::ptr::null());
    result
}

pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Name and place of a task.
#[derive(Clone, Debug)]
pub struct TaskSpec {
    name: String,
    core: u16,
    background: bool,
}

impl TaskSpec {
    /// A task called `name`, on core 0, that the deadlock detector counts as work.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), core: 0, background: false }
    }

    /// Places the task on `core` of the modelled machine (modulo its number of cores).
    #[must_use]
    pub fn on_core(mut self, core: u16) -> Self {
        self.core = core;
        self
    }

    /// A task that serves others: when only background tasks are left waiting, that is not a deadlock.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.background = true;
        self
    }

    pub(crate) fn into_parts(self) -> (String, u16, bool) {
        (self.name, self.core, self.background)
    }
}

/// The number of the current task, unique among the tasks of its run that are alive; none outside a run.
pub fn current_id() -> Option<u32> {
    context::current().map(|cx| cx.id)
}

static JOIN: LockClass = LockClass::new("sim.join");

/// Where a task leaves its result.
struct Outcome<T> {
    result: Mutex<Option<std::thread::Result<T>>>,
    ended: Condvar,
}

/// A task that can be waited for.
pub struct JoinHandle<T> {
    outcome: Arc<Outcome<T>>,
}

impl<T> JoinHandle<T> {
    /// Waits until the task has ended and returns its result. If it panicked, so does this.
    pub fn join(self) -> T {
        let mut slot = self.outcome.result.lock();
        loop {
            match slot.take() {
                Some(Ok(value)) => return value,
                Some(Err(payload)) => {
                    drop(slot);
                    std::panic::resume_unwind(payload)
                }
                None => slot = self.outcome.ended.wait(slot),
            }
        }
    }
}

impl<T> std::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JoinHandle")
    }
}

/// Starts a task: a coroutine beside the current one at its time, or a thread. Outside a run: a thread without a ledger.
pub fn spawn<T: Send + 'static>(spec: TaskSpec, body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let outcome = Arc::new(Outcome { result: Mutex::new(&JOIN, None), ended: Condvar::new() });
    let handle = JoinHandle { outcome: Arc::clone(&outcome) };
    let deliver = move |result| {
        *outcome.result.lock() = Some(result);
        outcome.ended.notify_all();
    };
    match context::current() {
        Some(cx) if cx.scheduler().is_some() => {
            let scheduler = cx.scheduler().expect("just seen");
            // A panic is not caught here: under the virtual clock it ends the run, with the task's name and time.
            scheduler.spawn(&cx.run, spec, cx.time.get(), Box::new(move || deliver(Ok(body()))));
        }
        Some(cx) => {
            let run = Arc::clone(&cx.run);
            // The result is delivered inside the context: the lock of the outcome books its waits there.
            std::thread::spawn(move || {
                in_context(&run, spec, || deliver(catch_unwind(AssertUnwindSafe(body))))
            });
        }
        None => {
            std::thread::spawn(move || deliver(catch_unwind(AssertUnwindSafe(body))));
        }
    }
    handle
}
