//! The virtual clock: stackful coroutines of one host thread, resumed in the order of their virtual time.
//!
//! # States of a task
//!
//! ```text
//!            spawn                 chosen: its key is the smallest
//!   (new) ──────────► ready ─────────────────────────► running
//!                       ▲   ◄─────────────────────────  │   │ returns
//!                       │     interact: others behind   │   └──────► ended, its number is free again
//!                       │ wake, or its deadline         ▼
//!                       └───────────────────────────  parked
//! ```
//!
//! The key of a ready task is its time and, among equals, its number. A parked task has no key, or its deadline as the key
//! when it waits with a timeout. The running task goes on as long as no ready task is further behind: `horizon` caches the
//! time of the smallest key, so that an interaction that needs no switch costs a load and a compare.

mod ready;

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::context::{self, Context, RunShared, TaskId};
use crate::ledger::LockClass;
use crate::task::{RunError, TaskSpec, panic_message};
use crate::units::Nanos;
use ready::Ready;

/// No task.
pub(crate) const NOBODY: TaskId = u32::MAX;

/// This many interactions in a row at one instant are an endless loop of an operation that charges nothing.
const INSTANT_LIMIT: u32 = 10_000_000;

type Body = Box<dyn FnOnce() + Send>;

struct Task {
    context: Context,
    coroutine: RefCell<Option<Coroutine<(), (), ()>>>,
    /// Where the running coroutine can be left; set when it first runs.
    yielder: Cell<*const Yielder<(), ()>>,
    background: bool,
    /// What a parked task waits for, for the report of a deadlock.
    waits: Cell<Option<Waiting>>,
    /// Next task in the queue that this task waits in.
    next: Cell<TaskId>,
    /// The last park ended by its deadline.
    timed_out: Cell<bool>,
}

/// What a parked task waits for.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) class: &'static LockClass,
    /// The task that holds it, or [`NOBODY`].
    pub(crate) holder: TaskId,
    /// It wants the lock for itself alone.
    pub(crate) write: bool,
}

/// The scheduler of one virtual run. It stays on the host thread that called [`crate::run`].
pub(crate) struct Scheduler {
    tasks: RefCell<Vec<Option<Box<Task>>>>,
    free: RefCell<Vec<TaskId>>,
    ready: RefCell<Ready>,
    /// Time of the smallest ready key; the running task may go on up to it.
    horizon: Cell<u64>,
    /// The task to resume next, when the suspended one has chosen it already.
    chosen: Cell<TaskId>,
    /// The run is over: the remaining tasks are being unwound.
    ending: Cell<bool>,
    interactions: Cell<u64>,
    instant: Cell<u64>,
    instant_count: Cell<u32>,
}

impl Scheduler {
    fn new() -> Self {
        Self {
            tasks: RefCell::default(),
            free: RefCell::default(),
            ready: RefCell::new(Ready::new()),
            horizon: Cell::new(u64::MAX),
            chosen: Cell::new(NOBODY),
            ending: Cell::new(false),
            interactions: Cell::new(0),
            instant: Cell::new(0),
            instant_count: Cell::new(0),
        }
    }

    /// Runs `main` and everything that it spawns until it has ended.
    pub(crate) fn run<T: Send + 'static>(
        shared: &Arc<RunShared>,
        main: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, RunError> {
        assert!(context::current().is_none(), "a run inside a run: join the outer one first");
        let scheduler = Self::new();
        let result = Arc::new(parking_lot::Mutex::new(None));
        let slot = Arc::clone(&result);
        scheduler.spawn(shared, TaskSpec::named("main"), 0, Box::new(move || *slot.lock() = Some(main())));
        let outcome = scheduler.drive(shared, || result.lock().is_some());
        scheduler.unwind_all();
        outcome?;
        let value = result.lock().take();
        Ok(value.expect("drive returns when main has left its result"))
    }

    /// Resumes tasks in order until `done`.
    fn drive(&self, shared: &RunShared, done: impl Fn() -> bool) -> Result<(), RunError> {
        let mut last = NOBODY;
        let caught = catch_unwind(AssertUnwindSafe(|| {
            while let Some(id) = self.choose() {
                last = id;
                if self.resume(id) && done() {
                    return true;
                }
            }
            false
        }));
        context::set_current(ptr::null());
        match caught {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.deadlock(shared, last)),
            Err(payload) => match payload.downcast::<RunError>() {
                Ok(error) => Err(*error),
                Err(payload) => Err(RunError::Panicked {
                    task: self.with_task(last, |task| task.context.name.clone()),
                    time: self.with_task(last, |task| Nanos(task.context.time.get())),
                    seed: shared.seed.0,
                    message: panic_message(payload.as_ref()),
                }),
            },
        }
    }

    /// The task to resume: the one that the last switch chose, or the one with the smallest key.
    fn choose(&self) -> Option<TaskId> {
        let chosen = self.chosen.replace(NOBODY);
        if chosen != NOBODY {
            return Some(chosen);
        }
        let mut ready = self.ready.borrow_mut();
        let (_, id) = ready.first()?;
        ready.remove(id);
        self.horizon.set(ready.horizon());
        Some(id)
    }

    /// Resumes a task; true when it has ended.
    fn resume(&self, id: TaskId) -> bool {
        let task: *const Task = self.with_task(id, ptr::from_ref);
        // SAFETY: tasks are boxed and leave the table only here, below, after they have ended; nobody else resumes them.
        let task = unsafe { &*task };
        // Whoever wakes a task clears what it waits for; one that is resumed while it waits has reached its deadline.
        if task.waits.take().is_some() {
            task.timed_out.set(true);
        }
        context::set_current(&raw const task.context);
        let mut coroutine = task.coroutine.borrow_mut();
        let state = coroutine.as_mut().expect("a live task has its coroutine").resume(());
        if let CoroutineResult::Yield(()) = state {
            return false;
        }
        *coroutine = None;
        drop(coroutine);
        let ended = self.tasks.borrow_mut()[id as usize].take();
        self.free.borrow_mut().push(id);
        drop(ended);
        true
    }

    /// Adds a task that becomes ready at `time`.
    pub(crate) fn spawn(&self, shared: &Arc<RunShared>, spec: TaskSpec, time: u64, body: Body) {
        let (name, core, background) = spec.into_parts();
        let id = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut tasks = self.tasks.borrow_mut();
            tasks.push(None);
            tasks.len() as TaskId - 1
        });
        let core = core % shared.machine.cores().max(1);
        let context = Context::new(shared, ptr::from_ref(self), id, name, core);
        context.time.set(time);
        context.run_ahead_limit.set(time + shared.run_ahead_ns);
        let stack = DefaultStack::new(shared.stack_bytes).expect("memory for a task's stack");
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            with_current_task(|task| task.yielder.set(ptr::from_ref(yielder)));
            body();
        });
        let task = Box::new(Task {
            context,
            coroutine: RefCell::new(Some(coroutine)),
            yielder: Cell::new(ptr::null()),
            background,
            waits: Cell::new(None),
            next: Cell::new(NOBODY),
            timed_out: Cell::new(false),
        });
        self.tasks.borrow_mut()[id as usize] = Some(task);
        self.make_ready(id, time);
    }

    fn make_ready(&self, id: TaskId, time: u64) {
        let mut ready = self.ready.borrow_mut();
        ready.insert(id, time);
        self.horizon.set(ready.horizon());
    }

    /// The rule of interaction: returns when no ready task is further behind than the current one.
    #[inline]
    pub(crate) fn interact(&self, cx: &Context) {
        let time = cx.time.get();
        self.interactions.set(self.interactions.get() + 1);
        cx.run_ahead_limit.set(time + cx.run.run_ahead_ns);
        if time <= self.horizon.get() {
            self.watch_instant(cx, time);
        } else {
            self.give_way(cx, time);
        }
    }

    /// Counts interactions at one instant.
    #[inline]
    fn watch_instant(&self, cx: &Context, time: u64) {
        if self.instant.replace(time) != time {
            self.instant_count.set(0);
            return;
        }
        self.instant_count.set(self.instant_count.get() + 1);
        assert!(
            self.instant_count.get() < INSTANT_LIMIT,
            "endless loop at {}: task \"{}\" goes on without charging any time",
            Nanos(time),
            cx.name
        );
    }

    /// Switches to the task that is furthest behind.
    fn give_way(&self, cx: &Context, time: u64) {
        if self.ending.get() {
            return;
        }
        let mut ready = self.ready.borrow_mut();
        let next = ready.exchange(cx.id, time);
        self.horizon.set(ready.horizon());
        drop(ready);
        self.chosen.set(next);
        self.suspend();
    }

    fn suspend(&self) {
        with_current_task(|task| {
            // SAFETY: the yielder was set by the coroutine that runs now, and lives on its stack.
            let yielder = unsafe { &*task.yielder.get() };
            yielder.suspend(());
        });
    }

    /// Parks the current task until [`Scheduler::wake`], or until `deadline`. True when woken, false when the deadline came.
    pub(crate) fn park(&self, cx: &Context, waiting: Waiting, deadline: Option<u64>) -> bool {
        assert!(!self.ending.get(), "a destructor waits for {} while its run ends", waiting.class.name());
        self.refuse_cycle(cx, waiting);
        with_current_task(|task| {
            task.waits.set(Some(waiting));
            task.timed_out.set(false);
        });
        if let Some(deadline) = deadline {
            self.make_ready(cx.id, deadline.max(cx.time.get()));
        }
        self.suspend();
        let woken = with_current_task(|task| !task.timed_out.get());
        if let Some(deadline) = deadline.filter(|_| !woken) {
            cx.time.set(deadline.max(cx.time.get()));
        }
        cx.run_ahead_limit.set(cx.time.get() + cx.run.run_ahead_ns);
        woken
    }

    /// Makes a parked task ready, at `time` or at its own if that is later.
    pub(crate) fn wake(&self, id: TaskId, time: u64) {
        if self.ending.get() {
            return;
        }
        let time = self.with_task(id, |task| {
            task.waits.set(None);
            let time = task.context.time.get().max(time);
            task.context.time.set(time);
            time
        });
        self.make_ready(id, time);
    }

    /// Panics with the chain of waits when parking `cx` would close a cycle.
    fn refuse_cycle(&self, cx: &Context, waiting: Waiting) {
        let mut holder = waiting.holder;
        while holder != NOBODY {
            if holder == cx.id {
                with_current_task(|task| task.waits.set(Some(waiting)));
                let error = self.deadlock(&cx.run, cx.id);
                std::panic::resume_unwind(Box::new(error));
            }
            let tasks = self.tasks.borrow();
            let next = tasks.get(holder as usize).and_then(Option::as_ref).and_then(|task| task.waits.get());
            holder = next.map_or(NOBODY, |waiting| waiting.holder);
        }
    }

    fn deadlock(&self, shared: &RunShared, last: TaskId) -> RunError {
        let tasks = self.tasks.borrow();
        let name_of = |id: TaskId| {
            tasks.get(id as usize).and_then(Option::as_ref).map(|task| task.context.name.as_str())
        };
        let mut waits = String::new();
        for task in tasks.iter().flatten().filter(|task| !task.background) {
            let Some(waiting) = task.waits.get() else { continue };
            let separator = if waits.is_empty() { "" } else { "; " };
            let holder = name_of(waiting.holder).map_or(String::new(), |name| format!(" held by \"{name}\""));
            let _ = write!(
                waits,
                "{separator}\"{}\" waits for {}{holder}",
                task.context.name,
                waiting.class.name()
            );
        }
        let time =
            tasks.get(last as usize).and_then(Option::as_ref).map_or(0, |task| task.context.time.get());
        RunError::Deadlock { time: Nanos(time), seed: shared.seed.0, waits }
    }

    /// Next task in the queue that task `id` waits in.
    pub(crate) fn next_of(&self, id: TaskId) -> TaskId {
        self.with_task(id, |task| task.next.get())
    }

    pub(crate) fn set_next_of(&self, id: TaskId, next: TaskId) {
        self.with_task(id, |task| task.next.set(next));
    }

    /// A parked task wants its lock for itself alone.
    pub(crate) fn wants_to_write(&self, id: TaskId) -> bool {
        self.with_task(id, |task| task.waits.get().is_some_and(|waiting| waiting.write))
    }

    pub(crate) fn core_of(&self, id: TaskId) -> u16 {
        self.with_task(id, |task| task.context.core)
    }

    fn with_task<R>(&self, id: TaskId, f: impl FnOnce(&Task) -> R) -> R {
        f(self.tasks.borrow()[id as usize].as_ref().expect("a queued task is alive"))
    }

    /// Unwinds what is left: destructors run, and may not wait.
    fn unwind_all(&self) {
        self.ending.set(true);
        self.horizon.set(u64::MAX);
        let count = self.tasks.borrow().len();
        for id in 0..count {
            let Some(task) = self.tasks.borrow_mut()[id].take() else { continue };
            context::set_current(&raw const task.context);
            let coroutine = task.coroutine.borrow_mut().take();
            drop(coroutine);
            context::set_current(ptr::null());
        }
    }
}

/// The task around the current context.
fn with_current_task<R>(f: impl FnOnce(&Task) -> R) -> R {
    let cx = context::current().expect("called from a task");
    let scheduler = cx.scheduler().expect("called under the virtual clock");
    let task: *const Task = scheduler.with_task(cx.id, ptr::from_ref);
    // SAFETY: the current task is alive; the borrow of the table is released first, because `f` may switch to other tasks.
    f(unsafe { &*task })
}
