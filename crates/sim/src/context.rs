//! The task that runs on this host thread.
//!
//! One pointer in thread-local storage leads from any function of the façade to the current task: its clock,
//! its time, its ledger. It is null outside a run. Under the virtual clock the scheduler changes it at every
//! switch.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::cache::{BufferPlaces, Inflow};
use crate::clock::{Clock, Tsc};
use crate::ledger::{Activity, Ledger, Ledgers, Op, Part};
use crate::machine::{Machine, Work};
use crate::memory::Memory;
use crate::ran::Counts;
use crate::rng::Seed;
use crate::sync::{Held, Server};
use crate::task::{RunError, Setup};
use crate::units::Nanos;
use crate::virt::{OnCore, Parking, Scheduler};

/// Number of a task within its run.
pub(crate) type TaskId = u32;

/// What all tasks of a run share.
pub(crate) struct RunShared {
    /// Number of the run in this process, from 1: a lock that outlives its run forgets what it knew of it.
    pub(crate) number: u32,
    pub(crate) machine: Machine,
    pub(crate) seed: Seed,
    /// The time-stamp counter of a real run.
    tsc: Option<Tsc>,
    /// The bandwidth of memory, shared by all copies: the machine's, or each socket's own.
    dram: Box<[Server]>,
    /// Instead of it, on a machine that has a model of its memory: as many; else none.
    memory: Box<[Arc<Memory>]>,
    /// Virtual clock: what came into the caches.
    pub(crate) inflow: Inflow,
    pub(crate) ledgers: Mutex<Ledgers>,
    /// Real clock: the first panic of any task.
    pub(crate) failure: Mutex<Option<RunError>>,
    /// Real clock: number of the next task.
    next_real_id: AtomicU32,
    /// Stack of a coroutine, in bytes.
    pub(crate) stack_bytes: usize,
    /// Classes of locks and lines that are free.
    pub(crate) free: Vec<String>,
    /// How far a task may run ahead of its last interaction, in nanoseconds.
    pub(crate) run_ahead_ns: u64,
    /// By how many thousandths the private work of operations varies.
    pub(crate) jitter_per_mille: u32,
    /// The price of each named part that has run, by its number, in picoseconds.
    part_prices: Box<[OnceLock<u64>]>,
}

impl RunShared {
    pub(crate) fn new(setup: &Setup) -> Arc<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let memories = if setup.machine.dram_per_socket { setup.machine.sockets } else { 1 };
        Arc::new(Self {
            number: NEXT.fetch_add(1, Relaxed),
            machine: setup.machine.clone(),
            seed: setup.seed,
            tsc: (setup.clock == Clock::Real).then(Tsc::new),
            dram: (0..memories.max(1)).map(|_| Server::new(1)).collect(),
            memory: (0..memories.max(1))
                .filter_map(|_| setup.machine.memory.clone().map(|model| Arc::new(Memory::new(model))))
                .collect(),
            inflow: Inflow::new(&setup.machine, setup.seed),
            ledgers: Mutex::default(),
            failure: Mutex::new(None),
            next_real_id: AtomicU32::new(0),
            stack_bytes: setup.stack.as_usize(),
            free: setup.free.clone(),
            run_ahead_ns: setup.run_ahead.0,
            jitter_per_mille: setup.work_jitter_per_mille.min(999),
            part_prices: if setup.machine.parts.is_empty() {
                Box::default()
            } else {
                (0..Part::MAX).map(|_| OnceLock::new()).collect()
            },
        })
    }

    /// What the machine charges for a part, in picoseconds: looked up by name once.
    #[inline]
    pub(crate) fn part_price(&self, part: &Part) -> u64 {
        if self.part_prices.is_empty() {
            return 0;
        }
        *self.part_prices[part.number()].get_or_init(|| {
            self.machine.parts.iter().find(|price| price.part == part.name()).map_or(0, |price| price.ps)
        })
    }

    pub(crate) fn next_real_id(&self) -> TaskId {
        self.next_real_id.fetch_add(1, Relaxed)
    }

    /// The memory that a task on `core` copies from and to.
    #[inline]
    pub(crate) fn dram_of(&self, core: u16) -> &Server {
        match &*self.dram {
            [only] => only,
            sockets => &sockets[usize::from(self.machine.socket(core)) % sockets.len()],
        }
    }

    /// The same, on a machine that has a model of its memory.
    #[inline]
    pub(crate) fn memory_of(&self, core: u16) -> Option<&Arc<Memory>> {
        match &*self.memory {
            [] => None,
            [only] => Some(only),
            sockets => Some(&sockets[usize::from(self.machine.socket(core)) % sockets.len()]),
        }
    }

    #[inline]
    pub(crate) fn tsc(&self) -> &Tsc {
        self.tsc.as_ref().expect("a real run has its counter")
    }
}

/// A task as the façade sees it.
pub(crate) struct Context {
    /// Virtual time of the task.
    pub(crate) time: Cell<u64>,
    /// Virtual time at which private work must stop for an interaction.
    pub(crate) run_ahead_limit: Cell<u64>,
    /// The scheduler of a virtual run; null under the real clock.
    scheduler: *const Scheduler,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) run: Arc<RunShared>,
    pub(crate) id: TaskId,
    /// The processor that it runs on, or waits for.
    pub(crate) core: Cell<u16>,
    /// Virtual clock: the last time of its own that it has left where other tasks see it.
    pub(crate) seen: Cell<u64>,
    /// Virtual clock: its place on the core.
    pub(crate) on_core: OnCore,
    /// Bytes of the buffer that it reads and writes with.
    pub(crate) buffer: Cell<u64>,
    /// Where it does so, if it says that.
    pub(crate) buffer_places: BufferPlaces,
    /// Picoseconds that a memory's answer had beyond a nanosecond.
    pub(crate) below_ns: Cell<u64>,
    /// When its posted lines are accepted, and when the core's pipe of them is empty, in picoseconds.
    pub(crate) posted_ps: Cell<u64>,
    pub(crate) piped_ps: Cell<u64>,
    /// Single loads that it has drawn a latency for.
    pub(crate) loads: Cell<u64>,
    /// The user and the group for whom it works.
    pub(crate) user: Cell<(u32, u32)>,
    pub(crate) activity: Cell<Activity>,
    pub(crate) op: Cell<u8>,
    pub(crate) op_start: Cell<u64>,
    /// Thousandths of its price that private work takes now, and the stream from which each operation draws them.
    pub(crate) pace: Cell<u32>,
    paces: Cell<u64>,
    /// Real clock: time of the current operation that was charged to a named activity.
    pub(crate) op_charged: Cell<u64>,
    /// Virtual clock: how the task is suspended.
    pub(crate) parking: Parking,
    /// What it did and was charged, in debug builds.
    pub(crate) ran: Counts,
    /// The locks that it holds, in debug builds.
    pub(crate) held: Held,
    /// How many guards say that its small work has its price elsewhere.
    pub(crate) covered: Cell<u32>,
    pub(crate) name: String,
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
        run.ledgers.lock().open(&ledger);
        Self {
            time: Cell::new(0),
            run_ahead_limit: Cell::new(run.run_ahead_ns),
            scheduler,
            ledger,
            run: Arc::clone(run),
            id,
            core: Cell::new(core % run.machine.processors().max(1)),
            seen: Cell::new(0),
            on_core: OnCore::default(),
            buffer: Cell::new(u64::MAX),
            buffer_places: BufferPlaces::default(),
            below_ns: Cell::new(0),
            posted_ps: Cell::new(0),
            piped_ps: Cell::new(0),
            loads: Cell::new(0),
            user: Cell::new((0, 0)),
            activity: Cell::new(Activity::DATA),
            op: Cell::new(Op::NONE.index() as u8),
            op_start: Cell::new(0),
            pace: Cell::new(1000),
            paces: Cell::new(run.seed.derive("pace", u64::from(id)).0),
            op_charged: Cell::new(0),
            parking: Parking::default(),
            ran: Counts::default(),
            held: Held::default(),
            covered: Cell::new(0),
            name,
        }
    }

    #[inline]
    pub(crate) fn clock(&self) -> Clock {
        if self.scheduler.is_null() { Clock::Real } else { Clock::Virtual }
    }

    /// The scheduler, under the virtual clock.
    #[inline]
    pub(crate) fn scheduler(&self) -> Option<&Scheduler> {
        // SAFETY: a scheduler outlives the contexts of its tasks that can run (it owns them), and only the
        // host thread that owns both can reach this context.
        unsafe { self.scheduler.as_ref() }
    }

    /// The time of this task: virtual, or since the start of the run.
    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        match self.clock() {
            Clock::Virtual => Nanos(self.time.get()),
            Clock::Real => self.run.tsc().now(),
        }
    }

    /// Virtual clock: what the task has done until now can be seen by others, so it cannot be put off.
    #[inline]
    pub(crate) fn show(&self) {
        self.seen.set(self.time.get());
    }

    /// Draws the pace of an operation that begins.
    #[inline]
    pub(crate) fn draw_pace(&self) {
        let jitter = self.run.jitter_per_mille;
        if jitter > 0 {
            let drawn = Seed(self.paces.get()).derive("next", 0).0;
            self.paces.set(drawn);
            self.pace.set(1000 - jitter + (drawn % u64::from(2 * jitter + 1)) as u32);
        }
    }

    /// The task is in an operation of this kind from now on.
    #[inline]
    pub(crate) fn set_op(&self, op: Op) {
        self.op.set(op.index() as u8);
        self.ledger.set_under_way(op);
    }

    /// Books time of the virtual clock on `activity`.
    #[inline]
    pub(crate) fn book(&self, activity: Activity, ns: u64) {
        self.ledger.add(self.op.get(), activity, ns);
    }

    /// Counts `n` units of `work`, whose price is booked as time.
    #[inline]
    pub(crate) fn count_units(&self, work: Work, n: u64) {
        self.ledger.add_units(self.op.get(), work.index(), n);
    }

    /// Books time that has passed on the real clock on `activity`.
    pub(crate) fn book_real(&self, activity: Activity, ns: u64) {
        self.book(activity, ns);
        self.op_charged.set(self.op_charged.get() + ns);
    }

    /// The activity that CPU work belongs to: the one in scope, if that collects work.
    #[inline]
    pub(crate) fn software(&self, activity: Activity) -> Activity {
        self.activity.get().of_work(activity)
    }

    /// The activity that a wait belongs to: the one in scope, if that collects waits.
    #[inline]
    pub(crate) fn waiting(&self, activity: Activity) -> Activity {
        self.activity.get().of_wait(activity)
    }
}

impl Drop for Context {
    /// The ledger of an ended task is kept as a part of the run's sum.
    fn drop(&mut self) {
        self.run.ledgers.lock().close(&self.ledger);
    }
}

thread_local! {
    static CURRENT: Cell<*const Context> = const { Cell::new(ptr::null()) };
}

/// The task that runs here, if any.
#[inline]
pub(crate) fn current() -> Option<&'static Context> {
    // SAFETY: `CURRENT` is null or points to the context of the task that runs on this thread now: what
    // frees a context sets it to null first. The references made here stay inside one call of the façade,
    // which that task itself makes, so they end before the task does; across a suspension they stay valid
    // because a suspended task is alive.
    unsafe { CURRENT.get().as_ref() }
}

/// Makes `context` the current task of this host thread (null: none).
#[inline]
pub(crate) fn set_current(context: *const Context) {
    CURRENT.set(context);
}
