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
//! The key of a ready task is its time and, among equals, its number. A parked task has no key, or its
//! deadline as the key when it waits with a timeout. The running task goes on as long as no ready task is
//! further behind: `horizon` caches the time of the smallest key, so that an interaction that needs no switch
//! costs a load and a compare. A task that must give way chooses its successor on its own stack and hands the
//! number to the loop that resumes tasks ([`Scheduler::drive`]).
//!
//! # The end of a run
//!
//! A run is over when its first task has ended, a task has panicked, or no task is ready. Then every task
//! that is left is unwound from the point where it is suspended, in the order of time, and its destructors
//! run as tasks like any other: they may take locks and wait for each other. What still waits when nothing is
//! ready any more, in a destructor, for something that will never come, is left where it is; its stack is
//! never freed.
//!
//! | module | holds |
//! |---|---|
//! | `ready` | the set of ready tasks |
//! | `cores` | run queues: which task has a core of the machine |
//! | `explore` | other orders than that of time |
//! | `stack` | the stacks of coroutines |
//! | `ending` | panics, deadlocks, unwinding |
//!
//! # Why the raw pointers are sound
//!
//! Tasks are boxed and owned by the table of their scheduler, through raw pointers because they are reached
//! while their own coroutine runs. A task is freed in one place, [`Scheduler::release`], when its coroutine
//! has returned; all its fields but `coroutine` are cells, and `coroutine` is touched only by the loop that
//! resumes. Nothing leaves the host thread of the run.

mod cores;
mod ending;
mod explore;
mod ready;
mod stack;

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::clock;
use crate::context::{self, Context, RunShared, TaskId};
use crate::ledger::{Activity, LockClass};
use crate::schedule::{Interleaving, Schedule};
use crate::sync::Exploring;
use crate::task::{RunError, TaskSpec};
use crate::units::Nanos;
use cores::Cores;
pub(crate) use cores::OnCore;
use explore::Explorer;
use ready::Ready;
pub(crate) use ready::{MAX_TASKS, MAX_TIME};
use stack::{Pool, Stack};

/// No task.
pub(crate) const NO_TASK: TaskId = u32::MAX;

/// Number of the first task of a run: the run is over when it ends.
const MAIN: TaskId = 0;

type Body = Box<dyn FnOnce() + Send>;

struct Task {
    context: Context,
    coroutine: UnsafeCell<Coroutine<(), TaskId, (), Stack>>,
}

/// How a task of the virtual clock is suspended: the part of a [`Context`] that belongs to the scheduler and
/// to wait queues.
pub(crate) struct Parking {
    /// Where the running coroutine can be left; set when it first runs.
    yielder: Cell<*const Yielder<(), TaskId>>,
    /// What the parked task waits for. The task that wakes it clears this; one that is resumed while it waits has
    /// reached its deadline or is told to unwind.
    waits: Cell<Option<Waiting>>,
    /// Next task in the queue that this task waits in.
    next: Cell<TaskId>,
    /// The part of the time at which this task was woken that is its own: CPU work of taking the lock.
    pub(crate) own: Cell<u64>,
    /// It serves others: see [`TaskSpec::background`].
    background: Cell<bool>,
    /// It is being unwound at the end of the run.
    unwinding: Cell<bool>,
    /// Explored runs: it is ready, but waits for its own time to come.
    dozes: Cell<bool>,
}

impl Default for Parking {
    fn default() -> Self {
        Self {
            yielder: Cell::new(ptr::null()),
            waits: Cell::new(None),
            next: Cell::new(NO_TASK),
            own: Cell::new(0),
            background: Cell::new(false),
            unwinding: Cell::new(false),
            dozes: Cell::new(false),
        }
    }
}

/// What a parked task waits for.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) class: &'static LockClass,
    /// Where the number of the task that holds it stands; null when no one task does.
    pub(crate) holder: *const AtomicU32,
    /// How much of it is wanted: permits of a semaphore; 1 for writing and 0 for reading.
    pub(crate) wants: u64,
    /// When the wait ends by itself.
    pub(crate) deadline: Option<u64>,
}

impl Waiting {
    /// A wait for something that no task holds.
    pub(crate) fn of(class: &'static LockClass) -> Self {
        Self { class, holder: ptr::null(), wants: 1, deadline: None }
    }
}

/// In which order tasks go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Of time: the task that is furthest behind.
    Ordinary,
    /// As a schedule says.
    Explored,
    /// The run is over: the remaining tasks are being unwound.
    Ending,
}

/// The scheduler of one virtual run. It stays on the host thread of the run.
pub(crate) struct Scheduler {
    /// Time of the smallest ready key; the running task may go on up to it. Zero unless the order is that of time.
    horizon: Cell<u64>,
    /// When the running task must let another have its core; the end of time while no task waits for one.
    slice_end: Cell<u64>,
    /// Tasks that wait for a core.
    crowded: Cell<usize>,
    /// Of a machine whose cores are shared.
    cores: Option<Box<Cores>>,
    ready: Ready,
    run_ahead_ns: u64,
    mode: Cell<Mode>,
    /// Of an explored run.
    explorer: Option<Box<Explorer>>,
    /// By number: null, or a task that lives until [`Scheduler::release`].
    tasks: Box<[Cell<*const Task>]>,
    free: RefCell<Vec<TaskId>>,
    /// Numbers below this have been given out.
    numbers: Cell<TaskId>,
    stacks: Pool,
    main_ended: Cell<bool>,
    failure: RefCell<Option<RunError>>,
    /// The task that panics while the others are unwound: its failure has no message yet.
    dying: Cell<TaskId>,
    /// Tasks, other than background tasks, that run, are ready, or wait with a deadline.
    awake: Cell<u32>,
    /// When `awake` became zero: a time, or in an explored run a number of points.
    quiet_since: Cell<u64>,
    instant: Cell<u64>,
    instant_count: Cell<u32>,
    ending_steps: Cell<u32>,
    shared: Arc<RunShared>,
}

impl Scheduler {
    fn new(shared: &Arc<RunShared>, schedule: Option<&Schedule>) -> Self {
        let mode = if schedule.is_some() { Mode::Explored } else { Mode::Ordinary };
        Self {
            horizon: Cell::new(u64::MAX),
            slice_end: Cell::new(u64::MAX),
            crowded: Cell::new(0),
            cores: if schedule.is_some() { None } else { Cores::new(&shared.machine) },
            ready: Ready::new(),
            // Every passing of time is a point of an explored run.
            run_ahead_ns: if schedule.is_some() { 0 } else { shared.run_ahead_ns },
            mode: Cell::new(mode),
            explorer: schedule.map(|schedule| Box::new(Explorer::new(schedule, shared.seed))),
            tasks: vec![Cell::new(ptr::null()); MAX_TASKS].into_boxed_slice(),
            free: RefCell::default(),
            numbers: Cell::new(0),
            stacks: Pool::new(shared.stack_bytes),
            main_ended: Cell::new(false),
            failure: RefCell::default(),
            dying: Cell::new(NO_TASK),
            awake: Cell::new(0),
            quiet_since: Cell::new(0),
            instant: Cell::new(0),
            instant_count: Cell::new(0),
            ending_steps: Cell::new(0),
            shared: Arc::clone(shared),
        }
    }

    /// Runs `main` and everything that it spawns until it has ended. The host thread must be one that is made
    /// for this run: tasks that are left in destructors are left inside a panic.
    pub(crate) fn run(
        shared: &Arc<RunShared>,
        schedule: Option<&Schedule>,
        main: Body,
    ) -> (Result<(), RunError>, Interleaving) {
        let _exploring = schedule.map(|_| Exploring::begin());
        let scheduler = Self::new(shared, schedule);
        // In an explored run every task is beyond the horizon.
        let start = u64::from(schedule.is_some());
        scheduler.spawn(TaskSpec::named("main").movable(), start, main);
        let last = scheduler.drive();
        if !scheduler.is_over() {
            let error = scheduler.stuck(last);
            scheduler.fail(error);
        }
        scheduler.unwind_all();
        let interleaving =
            scheduler.explorer.map(|explorer| explorer.into_interleaving()).unwrap_or_default();
        (scheduler.failure.take().map_or(Ok(()), Err), interleaving)
    }

    /// Resumes tasks in order until the run is over, or, when it is ending, until none is ready. Returns the
    /// last task.
    fn drive(&self) -> TaskId {
        let mut last = NO_TASK;
        let mut next = self.take_first();
        while next != NO_TASK {
            last = next;
            next = match self.resume(next) {
                CoroutineResult::Yield(next) => next,
                CoroutineResult::Return(()) => {
                    self.release(last);
                    if self.is_over() && !self.is_ending() {
                        return last;
                    }
                    self.take_first()
                }
            };
        }
        last
    }

    fn is_over(&self) -> bool {
        self.main_ended.get() || self.failure.borrow().is_some()
    }

    /// Lets a task run until it is suspended or has ended.
    #[inline]
    fn resume(&self, id: TaskId) -> CoroutineResult<TaskId, ()> {
        let task = self.task(id);
        context::set_current(&raw const task.context);
        // SAFETY: this is the only place that borrows the coroutine of a live task, and it is not reached
        // from inside one: a running task suspends itself, and this loop then resumes another.
        unsafe { &mut *task.coroutine.get() }.resume(())
    }

    /// Frees a task whose coroutine has returned, and its number.
    fn release(&self, id: TaskId) {
        context::set_current(ptr::null());
        let task = self.tasks[id as usize].replace(ptr::null());
        // SAFETY: the pointer came from a box in `spawn`, has just left the table, and the task's coroutine
        // has returned, so no reference to it is left.
        let Task { context, coroutine } = *unsafe { Box::from_raw(task.cast_mut()) };
        self.leave_core(&context);
        self.free.borrow_mut().push(id);
        self.main_ended.set(self.main_ended.get() || id == MAIN);
        self.fall_asleep(&context);
        self.stacks.give_back(coroutine.into_inner().into_stack());
    }

    /// Adds a task that becomes ready at `time`.
    pub(crate) fn spawn(&self, spec: TaskSpec, time: u64, body: Body) -> TaskId {
        let TaskSpec { name, core, background, movable, buffer, places, .. } = spec;
        let id = self.free.borrow_mut().pop().unwrap_or_else(|| self.numbers.replace(self.numbers.get() + 1));
        if id as usize >= MAX_TASKS {
            ready::fail(RunError::TooManyTasks);
        }
        let context = Context::new(&self.shared, ptr::from_ref(self), id, name, core);
        context.time.set(time);
        context.run_ahead_limit.set(time.saturating_add(self.run_ahead_ns));
        context.parking.background.set(background);
        context.on_core.movable.set(movable);
        context.buffer.set(buffer.0);
        context.buffer_places.bytes.set(places.0);
        // What a destructor starts while the run ends is part of the ending.
        context.parking.unwinding.set(self.is_ending());
        if !background {
            self.awake.set(self.awake.get() + 1);
        }
        let coroutine =
            Coroutine::with_stack(self.stacks.take(), move |yielder: &Yielder<(), TaskId>, ()| {
                let cx = context::current().expect("set before the task was resumed");
                cx.parking.yielder.set(ptr::from_ref(yielder));
                cx.scheduler().expect("a task of the virtual clock").run_body(cx, body);
            });
        let task = Box::new(Task { context, coroutine: UnsafeCell::new(coroutine) });
        self.tasks[id as usize].set(Box::into_raw(task));
        self.make_ready(id, time);
        id
    }

    #[inline]
    fn task(&self, id: TaskId) -> &Task {
        let task = self.tasks[id as usize].get();
        // SAFETY: null, or a box that lives until `release`. No caller keeps the reference past the next
        // suspension, except the loop that resumes the very task.
        unsafe { task.as_ref() }.expect("a queued task is alive")
    }

    fn make_ready(&self, id: TaskId, time: u64) {
        self.ready.insert(id, time);
        self.refresh_horizon();
    }

    fn take_first(&self) -> TaskId {
        if self.is_explored() {
            return self.take_chosen();
        }
        let first = self.ready.take_first();
        self.refresh_horizon();
        first
    }

    #[inline]
    fn refresh_horizon(&self) {
        let horizon = self.ready.horizon().min(self.slice_end.get());
        self.horizon.set(if self.mode.get() == Mode::Ordinary { horizon } else { 0 });
    }

    /// The rule of interaction: returns when no ready task is further behind than the current one.
    #[inline]
    pub(crate) fn interact(&self, cx: &Context) {
        let time = cx.time.get();
        let limit = time.saturating_add(self.run_ahead_ns);
        if cx.run_ahead_limit.replace(limit) == limit {
            self.watch_instant(cx);
        }
        if time > self.horizon.get() {
            self.give_way(cx, time);
        }
    }

    /// The current task looks again and again for what another will do: it passes `step`, and what is left until another
    /// task's turn.
    pub(crate) fn spin(&self, cx: &Context, step: Nanos) {
        let next = self.ready.horizon().min(self.slice_end.get());
        if next > MAX_TIME && self.mode.get() == Mode::Ordinary && !std::thread::panicking() {
            self.spins_for_ever(cx);
        }
        let ahead = if next > MAX_TIME { 0 } else { next };
        let until = ahead.max(cx.time.get()) + step.0.max(1);
        clock::pass(cx, cx.software(Activity::SOFTWARE), Nanos(until - cx.time.get()));
        self.doze(cx);
    }

    /// Switches to the task that is furthest behind.
    #[inline(never)]
    fn give_way(&self, cx: &Context, time: u64) {
        if self.mode.get() != Mode::Ordinary || std::thread::panicking() {
            return self.give_way_unusually(cx);
        }
        if time > self.slice_end.get() {
            return self.keep_to_slice(cx);
        }
        self.let_earlier_tasks_run(cx);
        if self.crowded.get() != 0 || cx.on_core.owes() {
            self.keep_to_slice(cx);
        }
    }

    /// Switches to a task that is further behind; returns when none is.
    #[inline]
    fn let_earlier_tasks_run(&self, cx: &Context) {
        let next = self.ready.exchange(cx.id, cx.time.get());
        self.horizon.set(self.ready.horizon());
        Self::suspend(cx, next);
        if self.is_ending() {
            Self::unwind_once(cx);
        }
    }

    #[cold]
    fn give_way_unusually(&self, cx: &Context) {
        if self.is_explored() && !std::thread::panicking() {
            self.point(cx);
        } else {
            self.interact_at_the_end(cx);
        }
    }

    /// Leaves the current task's coroutine; `next` is the task to resume.
    #[inline]
    fn suspend(cx: &Context, next: TaskId) {
        // SAFETY: the yielder was set by the coroutine that runs now, and lives on its stack.
        let yielder = unsafe { &*cx.parking.yielder.get() };
        yielder.suspend(next);
    }

    /// Parks the current task until [`Scheduler::wake`], or until the deadline. True when woken, false when
    /// the deadline came. It has no core then: the caller takes it out of its queue, and it enters one.
    pub(crate) fn park(&self, cx: &Context, waiting: Waiting) -> bool {
        self.before_park(cx, &waiting);
        // A deadline beyond the end of time never comes.
        let deadline =
            waiting.deadline.map(|deadline| deadline.max(cx.time.get())).filter(|time| *time < MAX_TIME);
        cx.parking.waits.set(Some(Waiting { deadline, ..waiting }));
        self.leave_core(cx);
        match deadline {
            Some(time) => self.ready.insert(cx.id, time),
            None => self.fall_asleep(cx),
        }
        Self::suspend(cx, self.take_first());
        let woken = cx.parking.waits.take().is_none();
        if !woken {
            if self.is_ending() {
                Self::unwind_once(cx);
            }
            cx.time.set(deadline.unwrap_or(0).max(cx.time.get()));
        }
        cx.run_ahead_limit.set(cx.time.get().saturating_add(self.run_ahead_ns));
        woken
    }

    /// Makes a parked task ready, at `time` or at its own if that is later.
    pub(crate) fn wake(&self, id: TaskId, time: u64) {
        let cx = self.context_of(id);
        let waiting = cx.parking.waits.take().expect("a queued task waits");
        if waiting.deadline.is_none() && !cx.parking.background.get() {
            self.awake.set(self.awake.get() + 1);
        }
        let time = cx.time.get().max(time);
        cx.time.set(time);
        self.make_ready(id, time);
    }

    /// The current task will not go on by itself.
    fn fall_asleep(&self, cx: &Context) {
        if !cx.parking.background.get() {
            self.awake.set(self.awake.get().saturating_sub(1));
            self.quiet_since.set(self.quiet_clock(cx));
        }
    }

    /// Next task in the queue that task `id` waits in.
    pub(crate) fn next_of(&self, id: TaskId) -> TaskId {
        self.context_of(id).parking.next.get()
    }

    pub(crate) fn set_next_of(&self, id: TaskId, next: TaskId) {
        self.context_of(id).parking.next.set(next);
    }

    /// How much the parked task `id` wants.
    pub(crate) fn wants_of(&self, id: TaskId) -> u64 {
        self.context_of(id).parking.waits.get().map_or(0, |waiting| waiting.wants)
    }

    pub(crate) fn context_of(&self, id: TaskId) -> &Context {
        &self.task(id).context
    }
}
