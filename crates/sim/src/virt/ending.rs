//! How a virtual run ends: panics, deadlocks, endless loops, and the unwinding of what is left.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;

use super::{Body, Mode, NO_TASK, Scheduler, Waiting};
use crate::context::{self, Context, TaskId};
use crate::ran;
use crate::task::RunError;
use crate::units::Nanos;

/// This many interactions or operations in a row at one instant are an endless loop that charges nothing.
const INSTANT_LIMIT: u32 = 10_000_000;

/// Background tasks that go on for so long while every other task waits without a deadline will never wake
/// one.
const QUIET_LIMIT: Nanos = Nanos::from_secs(3_600);

/// The same in an explored run, in points: times do not compare there.
const QUIET_POINTS: u64 = 20_000;

/// Interactions of destructors at the end of a run; beyond these a task is left where it is.
const ENDING_LIMIT: u32 = 1_000_000;

/// The payload that unwinds a task at the end of its run.
struct Ended;

impl Scheduler {
    /// The whole life of a task's coroutine. No panic leaves it.
    pub(super) fn run_body(&self, cx: &Context, body: Body) {
        let told_to_unwind = self.is_ending() && !cx.parking.unwinding.replace(self.is_ending());
        let result = catch_unwind(AssertUnwindSafe(|| {
            if !told_to_unwind {
                self.enter_core(cx);
                body();
            }
        }));
        match result {
            Err(payload) if !payload.is::<Ended>() => {
                if self.dying.replace(NO_TASK) == cx.id {
                    self.failure.take();
                }
                self.fail(RunError::of_panic(cx, payload));
            }
            _ => {}
        }
    }

    /// The run fails with `error`, unless it has failed before.
    pub(super) fn fail(&self, error: RunError) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    /// Counts interactions and operations at one instant.
    #[cold]
    pub(crate) fn watch_instant(&self, cx: &Context) {
        // What is unwound, by this very limit too, has nothing to charge, and a second panic would end the process.
        if self.is_ending() || std::thread::panicking() {
            return;
        }
        let time = cx.time.get();
        let count = if self.instant.replace(time) == time { self.instant_count.get() + 1 } else { 1 };
        self.instant_count.set(count);
        assert!(
            count < INSTANT_LIMIT,
            "endless loop at {}: task \"{}\" goes on without charging any time",
            Nanos(time),
            cx.name
        );
    }

    /// Ends the run when time passes only for background tasks, and has done so for very long. Called by
    /// those that wait for a time to come.
    pub(crate) fn watch_quiet(&self, cx: &Context) {
        let limit = if self.explorer.is_some() { QUIET_POINTS } else { QUIET_LIMIT.0 };
        let quiet = self.quiet_clock(cx).saturating_sub(self.quiet_since.get());
        if self.awake.get() == 0 && quiet > limit && !self.is_ending() {
            resume_unwind(Box::new(self.stuck(cx.id)));
        }
    }

    /// By what it is measured how long only background tasks have gone on.
    pub(super) fn quiet_clock(&self, cx: &Context) -> u64 {
        self.explorer.as_ref().map_or(cx.time.get(), |explorer| explorer.points())
    }

    /// Every task that is resumed unwinds.
    #[inline]
    pub(super) fn is_ending(&self) -> bool {
        self.mode.get() == Mode::Ending
    }

    /// What must be seen to before the current task is parked.
    pub(super) fn before_park(&self, cx: &Context, waiting: &Waiting) {
        if std::thread::panicking() && !self.is_ending() {
            // A destructor of a panicking task waits. The others may only be unwound now: letting them run on
            // would make their panics part of this one.
            let message = format!("a panic, and then a destructor that waits for {}", waiting.class.name());
            self.fail(RunError::of_panic(cx, Box::new(message)));
            self.dying.set(cx.id);
            cx.parking.unwinding.set(true);
            self.begin_ending();
        }
        if self.is_ending() {
            return Self::unwind_once(cx);
        }
        self.refuse_cycle(cx, waiting);
        if waiting.deadline.is_some() {
            self.watch_quiet(cx);
        }
    }

    /// Unwinds with the chain of waits when parking `cx` would close a cycle.
    fn refuse_cycle(&self, cx: &Context, waiting: &Waiting) {
        let _own = ran::aside();
        let mut chain = String::new();
        let (mut waiter, mut waiting) = (cx, *waiting);
        while let Some(holder) = self.holder_of(&waiting) {
            describe(&mut chain, waiter, &waiting, Some(holder));
            if holder.id == cx.id {
                resume_unwind(Box::new(self.deadlock(cx.time.get(), chain)));
            }
            let Some(next) = holder.parking.waits.get() else { return };
            (waiter, waiting) = (holder, next);
        }
    }

    /// The task that holds what is waited for, if it is known and alive.
    fn holder_of(&self, waiting: &Waiting) -> Option<&Context> {
        // SAFETY: null, or a cell of the lock that the parked task waits for. The task's stack borrows the
        // lock until it has left `park`, which clears `waits`.
        let holder = unsafe { waiting.holder.as_ref() }?.load(Relaxed);
        (holder != NO_TASK && !self.tasks[holder as usize].get().is_null()).then(|| self.context_of(holder))
    }

    /// The error of a run in which nothing can go on: every wait, except idle background tasks.
    pub(super) fn stuck(&self, last: TaskId) -> RunError {
        let mut waits = String::new();
        for cx in self.live() {
            let Some(waiting) = cx.parking.waits.get() else { continue };
            let holder = self.holder_of(&waiting);
            if holder.is_some() || !cx.parking.background.get() {
                describe(&mut waits, cx, &waiting, holder);
            }
        }
        let last = self.live().find(|cx| cx.id == last);
        self.deadlock(last.map_or(0, |cx| cx.time.get()), waits)
    }

    /// Ends the run: the current task waits in a loop for a store, and no other task will ever go on.
    #[cold]
    pub(super) fn spins_for_ever(&self, cx: &Context) -> ! {
        let mut error = self.stuck(cx.id);
        if let RunError::Deadlock { waits, .. } = &mut error {
            let separator = if waits.is_empty() { "" } else { "; " };
            *waits = format!("\"{}\" spins{separator}{waits}", cx.name);
        }
        resume_unwind(Box::new(error))
    }

    fn deadlock(&self, time: u64, waits: String) -> RunError {
        RunError::Deadlock { time: Nanos(time), seed: self.shared.seed.0, waits }
    }

    fn live(&self) -> impl Iterator<Item = &Context> {
        (0..self.numbers.get())
            .filter(|id| !self.tasks[*id as usize].get().is_null())
            .map(|id| self.context_of(id))
    }

    /// Unwinds what is left: destructors run, and may wait. What waits for ever is forgotten.
    pub(super) fn unwind_all(&self) {
        if !self.is_ending() {
            self.begin_ending();
        }
        self.drive();
        // Tasks that are still in the table are leaked with their stacks: others may refer to what lies
        // there.
        context::set_current(std::ptr::null());
    }

    /// From now on every task unwinds when it is resumed, and all are ready to be.
    fn begin_ending(&self) {
        self.mode.set(Mode::Ending);
        for cx in self.live().filter(|cx| !cx.parking.unwinding.get()) {
            self.ready.insert(cx.id, cx.time.get());
        }
        self.refresh_horizon();
    }

    /// Unwinds the current task, unless it is being unwound already.
    pub(super) fn unwind_once(cx: &Context) {
        if !cx.parking.unwinding.replace(true) {
            resume_unwind(Box::new(Ended));
        }
    }

    /// An interaction while the run ends, or inside a panic that will end it: the order does not matter any
    /// more.
    #[cold]
    pub(super) fn interact_at_the_end(&self, cx: &Context) {
        if !self.is_ending() {
            return;
        }
        if !std::thread::panicking() {
            // Not in a destructor: either not told yet, or a `catch_unwind` has swallowed it.
            cx.parking.unwinding.set(true);
            resume_unwind(Box::new(Ended));
        }
        Self::unwind_once(cx);
        self.ending_steps.set(self.ending_steps.get() + 1);
        if self.ending_steps.get() > ENDING_LIMIT {
            self.abandon(cx);
        }
    }

    /// The current task waited for the result of a task that was unwound: it cannot go on.
    pub(crate) fn never(&self, cx: &Context) -> ! {
        if std::thread::panicking() {
            self.abandon(cx);
        }
        cx.parking.unwinding.set(true);
        resume_unwind(Box::new(Ended))
    }

    /// Leaves the current task where it is, for ever.
    fn abandon(&self, cx: &Context) -> ! {
        loop {
            Self::suspend(cx, self.take_first());
        }
    }
}

fn describe(text: &mut String, waiter: &Context, waiting: &Waiting, holder: Option<&Context>) {
    let separator = if text.is_empty() { "" } else { "; " };
    let _ = write!(text, "{separator}\"{}\" waits for {}", waiter.name, waiting.class.name());
    if let Some(holder) = holder {
        let _ = write!(text, " held by \"{}\"", holder.name);
    }
}
