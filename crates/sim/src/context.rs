//! The task that runs on this host thread.
//!
//! One pointer in thread-local storage leads from any function of the façade to the current task: its clock, its time, its
//! ledger. It is null outside a run. Under the virtual clock the scheduler changes it at every switch.

use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::clock::{Clock, Tsc};
use crate::ledger::{Activity, Ledger, Op};
use crate::machine::Machine;
use crate::rng::Seed;
use crate::sync::Server;
use crate::units::Nanos;
use crate::virt::Scheduler;

/// Number of a task within its run.
pub(crate) type TaskId = u32;

/// What all tasks of a run share.
pub(crate) struct RunShared {
    pub(crate) machine: Machine,
    pub(crate) seed: Seed,
    pub(crate) tsc: Tsc,
    /// The memory bandwidth of the machine, shared by all copies.
    pub(crate) dram: Server,
    /// Ledgers of all tasks that the run has had.
    pub(crate) ledgers: Mutex<Vec<Arc<Ledger>>>,
    /// Stack of a coroutine, in bytes.
    pub(crate) stack_bytes: usize,
    /// How far a task may run ahead of its last interaction, in nanoseconds.
    pub(crate) run_ahead_ns: u64,
}

/// A task as the façade sees it.
pub(crate) struct Context {
    pub(crate) run: Arc<RunShared>,
    pub(crate) ledger: Arc<Ledger>,
    /// The scheduler of a virtual run; null under the real clock.
    pub(crate) scheduler: *const Scheduler,
    pub(crate) id: TaskId,
    pub(crate) name: String,
    pub(crate) core: u16,
    /// Virtual time of the task.
    pub(crate) time: Cell<u64>,
    /// Virtual time at which private work must stop for an interaction.
    pub(crate) run_ahead_limit: Cell<u64>,
    pub(crate) activity: Cell<u8>,
    pub(crate) op: Cell<u8>,
    pub(crate) op_start: Cell<u64>,
    /// Real clock: time of the current operation that was charged to a named activity.
    pub(crate) op_charged: Cell<u64>,
}

impl Context {
    pub(crate) fn new(
        run: &Arc<RunShared>,
        scheduler: *const Scheduler,
        id: TaskId,
        name: String,
        core: u16,
    ) -> Self {
        let ledger = Arc::new(Ledger::new());
        run.ledgers.lock().push(Arc::clone(&ledger));
        Self {
            run: Arc::clone(run),
            ledger,
            scheduler,
            id,
            name,
            core,
            time: Cell::new(0),
            run_ahead_limit: Cell::new(run.run_ahead_ns),
            activity: Cell::new(Activity::Data as u8),
            op: Cell::new(Op::NONE.index() as u8),
            op_start: Cell::new(0),
            op_charged: Cell::new(0),
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> Clock {
        if self.scheduler.is_null() { Clock::Real } else { Clock::Virtual }
    }

    /// The scheduler, under the virtual clock.
    #[inline]
    pub(crate) fn scheduler(&self) -> Option<&Scheduler> {
        // SAFETY: a scheduler outlives the contexts of its tasks (it owns them), and only the host thread that owns both can
        // reach this context.
        unsafe { self.scheduler.as_ref() }
    }

    /// The time of this task: virtual, or since the start of the run.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        match self.clock() {
            Clock::Virtual => Nanos(self.time.get()),
            Clock::Real => self.run.tsc.now(),
        }
    }

    /// Books time that has passed on `activity`.
    #[inline]
    pub(crate) fn book(&self, activity: Activity, ns: u64) {
        self.ledger.add(self.op.get(), activity, ns);
        self.op_charged.set(self.op_charged.get() + ns);
    }
}

thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
}

/// The task that runs here, if any.
#[inline]
pub(crate) fn current() -> Option<&'static Context> {
    // SAFETY: `CURRENT` is null or points to the context of the task that runs on this thread now. That context lives until
    // the task has ended, and no reference outlives the façade call that asked for it, which the task itself makes.
    unsafe { CURRENT.get().as_ref() }
}

/// Makes `context` the current task of this host thread (null: none).
#[inline]
pub(crate) fn set_current(context: *const Context) {
    CURRENT.set(context);
}
