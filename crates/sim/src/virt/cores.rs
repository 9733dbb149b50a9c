//! The cores of the modelled machine: which task has one, and which wait for it.
//!
//! There are run queues where the machine has a [`Scheduling`]; otherwise each task runs as if its core were its own, and
//! nothing here is reached. Explored runs have none: their order is the schedule's.
//!
//! # States of a task that can go on
//!
//! ```text
//!            its core is free, or it preempts              parks, sleeps, ends
//!   woken ──────────────────────────────────► has a core ──────────────────────► (waits, has none)
//!     │                                         │     ▲
//!     │ its core is taken          its slice is │     │ chosen: of those that wait
//!     │                            over, or it  ▼     │ for the core, it has run least
//!     └────────────────────────────────────►  waits for its core
//! ```
//!
//! The policy is that of the Completely Fair Scheduler of Linux 2.6.23 to 6.5 without groups, priorities and periodic
//! balancing: [`Scheduling`] has its three times.
//!
//! * A task counts the time for which it had a core. The one with the least goes next; among equals, the one that has waited
//!   longest. One that wakes is credited with no more than half a latency less than what the core has come to.
//! * With n tasks for a core, a slice is the latency over n, or the granularity if that is longer.
//! * A task that wakes preempts the one that runs when it has run less by more than the wake-up granularity.
//! * A task that waits for a lock gives up its core, as a spinning waiter of the kernel's mutex does when another task is to run
//!   there; alone on its core it goes on at once.
//! * A movable task ([`crate::TaskSpec::movable`]) that finds its core taken when it wakes goes to a free one: of its socket
//!   first, of the lowest number. A core that becomes free takes the movable task that has waited longest, in its socket first.
//!   One that must let another go on goes to a free core too. Linux moves it at the next tick of the timer (1 to 4 ms later:
//!   `nohz_balancer_kick`), here it goes at once. What a task has in the caches of the core that it leaves, it does not find on
//!   the other.
//! * Where cores have two hardware threads, each is a processor with a queue of its own ("core" below). A movable task looks for
//!   one whose sibling is free too before it takes one whose sibling is busy, as the kernel does. CPU work beside a busy
//!   sibling takes longer ([`Machine::two_threads_per_mille`]); time of the medium and the transfer of a line do not.
//! * Taking the core from a task that could go on costs the next one a [`Work::WAKEUP`]: a context switch. One that wakes on a
//!   free core has been charged it by the wake-up.
//!
//! # How a task that has run ahead is preempted
//!
//! A task suspended at an interaction has run ahead to its time: the work in between is its own, so it may as well be done later.
//! When it must give up its core at an earlier time, what it has done after that is *owed*: its key goes back to that time, and
//! when it has the core again it first lets the owed time pass. It cannot go back behind what others have seen of it: the last
//! release or line that it left behind (`Context::seen`). So a slice ends exactly on private work, and late by at most the work
//! up to the last release of a lock.

use std::cell::{Cell, RefCell};

use super::{Mode, NO_TASK, Scheduler};
use crate::context::{Context, TaskId};
use crate::ledger::Activity;
use crate::machine::{Machine, Scheduling, Work};

/// A processor of the machine.
struct Core {
    /// The task that has it.
    owner: Cell<TaskId>,
    /// Since when it has it, or since when there is none.
    since: Cell<u64>,
    /// When it must let another go on; the end of time while none waits.
    slice_end: Cell<u64>,
    /// What the tasks of the core have come to: the greatest of what the least of them had run.
    least: Cell<u64>,
    /// Those that wait for it, in the order in which they came.
    waiting: RefCell<Vec<TaskId>>,
}

/// The cores of a run.
pub(super) struct Cores {
    policy: Scheduling,
    /// What it costs to put another task in the place of one that could go on.
    switch_ns: u64,
    table: Box<[Core]>,
    /// By processor: the socket, and the other hardware thread of the core.
    places: Box<[(u16, Option<u16>)]>,
}

/// The part of a task's state that belongs to its core.
#[derive(Default)]
pub(crate) struct OnCore {
    /// For how long it has had a core, as the policy counts it.
    used: Cell<u64>,
    /// Time that it has booked and not yet had a core for.
    owed: Cell<u64>,
    /// It may be moved to another core.
    pub(super) movable: Cell<bool>,
}

impl OnCore {
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.owed.get() != 0
    }
}

impl Cores {
    pub(super) fn new(machine: &Machine) -> Option<Box<Self>> {
        let policy = machine.scheduling?;
        let free = |_| Core {
            owner: Cell::new(NO_TASK),
            since: Cell::new(0),
            slice_end: Cell::new(u64::MAX),
            least: Cell::new(0),
            waiting: RefCell::default(),
        };
        Some(Box::new(Self {
            policy,
            switch_ns: machine.cost(Work::WAKEUP, 1).0,
            table: (0..machine.processors().max(1)).map(free).collect(),
            places: (0..machine.processors().max(1))
                .map(|p| (machine.socket(p), machine.sibling(p)))
                .collect(),
        }))
    }

    fn of(&self, cx: &Context) -> &Core {
        &self.table[usize::from(cx.core.get())]
    }

    /// How long a task may run that shares its core with `others`.
    fn slice(&self, others: usize) -> u64 {
        (self.policy.latency.0 / (others as u64 + 1)).max(self.policy.granularity.0).max(1)
    }

    /// The numbers of the other cores in the order in which core `home` is compared with them: its socket's first.
    fn near(&self, home: usize) -> impl Iterator<Item = usize> {
        let socket = self.places[home].0;
        let is_of_socket = move |core: &usize| self.places[*core].0 == socket;
        let all = 0..self.table.len();
        all.clone().filter(is_of_socket).chain(all.filter(move |core| !is_of_socket(core)))
    }

    /// Where a task goes whose processor is taken: in its socket to one whose sibling is free too, or else to a free one; then
    /// likewise in the others.
    fn free_at(&self, home: usize, time: u64) -> Option<usize> {
        let of = |near: bool| {
            let socket = self.places[home].0;
            let here = move |core: &usize| (self.places[*core].0 == socket) == near;
            let free = (0..self.table.len()).filter(here).filter(|core| self.table[*core].is_free_at(time));
            let is_idle = |core: &usize| match self.places[*core].1 {
                Some(sibling) => self.table[usize::from(sibling)].is_free_at(time),
                None => true,
            };
            free.clone().find(is_idle).or_else(|| free.clone().next())
        };
        of(true).or_else(|| of(false))
    }
}

impl Core {
    fn is_free_at(&self, time: u64) -> bool {
        self.owner.get() == NO_TASK && self.since.get() <= time
    }

    /// Gives the core, which is free, to a task that no other waits behind.
    fn take(&self, id: TaskId, start: u64) {
        self.owner.set(id);
        self.since.set(start);
        self.slice_end.set(u64::MAX);
    }
}

impl Scheduler {
    /// The current task, which has been woken or has just begun, waits until it has a core.
    #[inline]
    pub(crate) fn enter_core(&self, cx: &Context) {
        if let Some(cores) = &self.cores
            && self.goes_on()
        {
            self.claim(cores, cx);
        }
    }

    /// Whether a task has the other hardware thread of the current task's core.
    #[inline]
    pub(crate) fn sibling_is_busy(&self, cx: &Context) -> bool {
        let Some(cores) = &self.cores else { return false };
        let sibling = cores.places[usize::from(cx.core.get())].1;
        sibling.is_some_and(|sibling| cores.table[usize::from(sibling)].owner.get() != NO_TASK)
    }

    /// The current task, or one that has ended, gives up its core at its time.
    #[inline]
    pub(super) fn leave_core(&self, cx: &Context) {
        if let Some(cores) = &self.cores
            && self.goes_on()
        {
            self.give_up(cores, cx);
        }
    }

    /// The run is not ending, nor about to: the destructors of a task that panics wait for nothing.
    fn goes_on(&self) -> bool {
        self.mode.get() == Mode::Ordinary && !std::thread::panicking()
    }

    fn claim(&self, cores: &Cores, cx: &Context) {
        let arrival = cx.time.get();
        Self::place(cores, cx, arrival);
        let core = cores.of(cx);
        let credit = core.least.get().saturating_sub(cores.policy.latency.0 / 2);
        cx.on_core.used.set(cx.on_core.used.get().max(credit));
        if core.owner.get() == NO_TASK {
            let start = arrival.max(core.since.get());
            core.take(cx.id, start);
            self.slice_end.set(u64::MAX);
            cx.time.set(start);
        } else {
            self.wait_for_core(cores, core, cx, arrival);
        }
        cx.book(cx.waiting(Activity::CORE_WAIT), cx.time.get() - arrival);
        self.keep_to_slice(cx);
    }

    /// A movable task whose core is taken goes to a free one.
    fn place(cores: &Cores, cx: &Context, time: u64) {
        let home = usize::from(cx.core.get());
        if cx.on_core.movable.get() && !cores.table[home].is_free_at(time) {
            cx.core.set(cores.free_at(home, time).unwrap_or(home) as u16);
        }
    }

    /// Waits behind the owner of the core, which gets a slice, or is preempted now.
    fn wait_for_core(&self, cores: &Cores, core: &Core, cx: &Context, arrival: u64) {
        let owner = self.context_of(core.owner.get());
        let owner_used = owner.on_core.used.get() + arrival.saturating_sub(core.since.get());
        let ahead = owner_used.saturating_sub(cx.on_core.used.get());
        core.waiting.borrow_mut().push(cx.id);
        self.crowded.set(self.crowded.get() + 1);
        let slice_end = if ahead > cores.policy.wakeup_granularity.0 {
            0
        } else {
            core.since.get() + cores.slice(core.waiting.borrow().len())
        };
        core.slice_end.set(core.slice_end.get().min(slice_end).max(arrival).max(core.since.get()));
        self.cut(owner, core.slice_end.get());
        self.suspend_without_core(cx);
    }

    /// The owner of a core, suspended at an interaction, owes what it has done after `at`.
    fn cut(&self, owner: &Context, at: u64) {
        let (time, at) = (owner.time.get(), at.max(owner.seen.get()));
        if time > at && self.ready.contains(owner.id) {
            owner.on_core.owed.set(owner.on_core.owed.get() + time - at);
            owner.time.set(at);
            self.make_ready(owner.id, at);
        }
    }

    /// Lets other tasks run until the current one is given a core.
    fn suspend_without_core(&self, cx: &Context) {
        Self::suspend(cx, self.take_first());
        if self.is_ending() {
            Self::unwind_once(cx);
        }
    }

    /// The current task has its core. It lets pass what it owes, and others run when its slice is over; then it goes on.
    pub(super) fn keep_to_slice(&self, cx: &Context) {
        let Some(cores) = &self.cores else { return };
        while self.mode.get() == Mode::Ordinary {
            let core = cores.of(cx);
            if core.owner.get() != cx.id {
                return self.forget_slice(); // it sleeps
            }
            let end = cx.time.get() + cx.on_core.owed.take();
            let slice_end = core.slice_end.get();
            if end <= slice_end || core.waiting.borrow().is_empty() {
                cx.time.set(end);
                self.slice_end.set(if core.waiting.borrow().is_empty() { u64::MAX } else { slice_end });
                self.refresh_horizon();
                if end <= self.ready.horizon() {
                    return;
                }
                self.let_earlier_tasks_run(cx);
                continue;
            }
            let at = slice_end.max(cx.seen.get()).min(end);
            cx.time.set(at);
            cx.on_core.owed.set(end - at);
            self.slice_end.set(u64::MAX);
            if at > self.ready.horizon() {
                self.let_earlier_tasks_run(cx);
                continue;
            }
            self.pass_core_on(cores, core, cx);
        }
    }

    /// The slice of the current task is over, and it could go on: the task that has run least does.
    fn pass_core_on(&self, cores: &Cores, core: &Core, cx: &Context) {
        let now = cx.time.get();
        self.count_use(core, cx, now);
        let next = self
            .least_used(core)
            .filter(|next| self.context_of(*next).on_core.used.get() <= cx.on_core.used.get());
        let Some(next) = next else {
            core.slice_end.set(now + cores.slice(core.waiting.borrow().len()));
            return;
        };
        let start = now + cores.switch_ns;
        let free = cx.on_core.movable.get().then(|| cores.free_at(usize::from(cx.core.get()), now)).flatten();
        if let Some(free) = free {
            self.grant(cores, core, next, start);
            cx.core.set(free as u16);
            cores.table[free].take(cx.id, start);
            cx.time.set(start);
        } else {
            core.waiting.borrow_mut().push(cx.id);
            self.crowded.set(self.crowded.get() + 1);
            self.grant(cores, core, next, start);
            self.suspend_without_core(cx);
        }
        cx.book(cx.waiting(Activity::CORE_WAIT), cx.time.get() - now);
    }

    fn give_up(&self, cores: &Cores, cx: &Context) {
        let (core, now) = (cores.of(cx), cx.time.get());
        if core.owner.get() != cx.id {
            return; // unwound before it had one
        }
        self.forget_slice();
        self.count_use(core, cx, now);
        match self.least_used(core) {
            Some(next) => self.grant(cores, core, next, now),
            None => {
                core.owner.set(NO_TASK);
                core.slice_end.set(u64::MAX);
                if self.crowded.get() != 0 {
                    self.take_over(cores, usize::from(cx.core.get()), now);
                }
            }
        }
    }

    /// What runs now has no core that others wait for.
    fn forget_slice(&self) {
        self.slice_end.set(u64::MAX);
        self.refresh_horizon();
    }

    /// A core that has become free takes the movable task that has waited longest for another.
    fn take_over(&self, cores: &Cores, free: usize, now: u64) {
        let is_movable = |id: &TaskId| self.context_of(*id).on_core.movable.get();
        for other in cores.near(free).filter(|core| *core != free) {
            let other = &cores.table[other];
            let Some(id) = other.waiting.borrow().iter().copied().find(is_movable) else { continue };
            self.stop_waiting(other, id);
            self.context_of(id).core.set(free as u16);
            return self.start_on(cores, &cores.table[free], id, now);
        }
    }

    /// Books the time for which a task had the core until `now`.
    fn count_use(&self, core: &Core, cx: &Context, now: u64) {
        let used = cx.on_core.used.get() + now.saturating_sub(core.since.get());
        cx.on_core.used.set(used);
        core.since.set(core.since.get().max(now));
        let least = core.waiting.borrow().iter().map(|id| self.context_of(*id).on_core.used.get()).min();
        core.least.set(core.least.get().max(least.map_or(used, |least| least.min(used))));
    }

    /// Of the tasks that wait for the core, the one that has run least.
    fn least_used(&self, core: &Core) -> Option<TaskId> {
        let waiting = core.waiting.borrow();
        waiting.iter().copied().min_by_key(|id| self.context_of(*id).on_core.used.get())
    }

    /// Gives the core to `id`, which waits for it, from `at` on.
    fn grant(&self, cores: &Cores, core: &Core, id: TaskId, at: u64) {
        self.stop_waiting(core, id);
        self.start_on(cores, core, id, at);
    }

    fn stop_waiting(&self, core: &Core, id: TaskId) {
        core.waiting.borrow_mut().retain(|other| *other != id);
        self.crowded.set(self.crowded.get() - 1);
        if self.crowded.get() == 0 {
            self.slice_end.set(u64::MAX);
        }
        if core.waiting.borrow().is_empty() {
            core.slice_end.set(u64::MAX);
        }
    }

    fn start_on(&self, cores: &Cores, core: &Core, id: TaskId, at: u64) {
        let cx = self.context_of(id);
        let at = at.max(cx.time.get());
        cx.time.set(at);
        core.owner.set(id);
        core.since.set(at);
        let others = core.waiting.borrow().len();
        core.slice_end.set(if others == 0 { u64::MAX } else { at + cores.slice(others) });
        self.make_ready(id, at);
    }
}
