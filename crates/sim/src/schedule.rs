//! Schedules that are not the clock's: exploring what else could have happened.
//!
//! An ordinary virtual run has one order: of the tasks that could go on, the one that is furthest behind does. That is what makes
//! its times exact, and it is one interleaving of very many. [`explore`] runs the same code, with the same locks and background
//! tasks, in an order that a [`Schedule`] chooses from the run's seed; the same seed and schedule give the same run.
//!
//! # What an explored run is
//!
//! Each task still has a time of its own that only grows, but shared state is not touched in the order of these times: a task may
//! take a lock that another has released at a later time of its own, and then goes on from that time. So times of different tasks
//! do not compare, and a ledger of such a run means nothing. What stays true is everything that holds without a clock: locks
//! exclude, waiters are served in their order, what is notified wakes, and a deadlock is found and told as in any run.
//!
//! # Where tasks may take turns
//!
//! At *points*: before a lock is taken and after it is released, before a condition is notified, at a wait, at the start of a
//! task, before each access of an atomic of [`crate::sync`], at every [`crate::interact`], and whenever any time passes (work,
//! copies, media, fences). Between two points a task is alone: words of memory that it reads or writes without one of these, the
//! atomics of the standard library too, are not divided further. At a *decision* two or more tasks can go on that do not wait for
//! a time.
//!
//! A task that sleeps, waits with a timeout, or is in [`crate::sync::spin_loop`], could go on at any point, because others
//! may be as slow as they like. It is chosen
//! when no other task can go on; [`Schedule::Random`] lets a timeout come earlier, too, at one point in [`EARLY_TIMEOUT`].
//!
//! The release that is part of waiting for a condition is no point: the two are one step, as with any condition variable.

use crate::context::TaskId;
use crate::task::{RunError, Setup, run_scheduled};

/// Under [`Schedule::Random`] a timeout may come early at one point in so many.
pub const EARLY_TIMEOUT: u64 = 32;

/// Which task goes on where several could.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Any of them, each as likely, at every point.
    Random,
    /// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): each task has a random priority, the highest goes on,
    /// and at `depth - 1` decisions, drawn from the first `length`, the task that would go on falls below all others.
    ///
    /// A fault that shows whenever `depth` things happen in one order shows in at least one of `n · length^(depth - 1)` runs,
    /// where `n` is the number of tasks and no run makes more than `length` decisions: 1 of `2 · 400` for two tasks, a fault of
    /// depth 2 (one preemption) and 400 decisions. The bound is for each run by itself, whatever the program. A task that waits
    /// for a time goes on when no other can, so the bound leaves out faults that need an early timeout.
    Pct {
        /// One more than the number of preemptions.
        depth: u32,
        /// Decisions of a run, at least about.
        length: u64,
    },
    /// The running task goes on while it can, then the task with the lowest number; but for these switches, in their order. One
    /// to a task that cannot go on there is passed over.
    Directed(Vec<Switch>),
}

/// At a point, a turn that [`Schedule::Directed`] would not have given by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Number of the point in its run, from 1.
    pub point: u64,
    /// Number of the task that goes on. Tasks are numbered as they start, from 0; the number of one that has ended is used again.
    pub to: u32,
}

/// What a schedule has chosen in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interleaving {
    /// Points that the run has passed.
    pub points: u64,
    /// Those at which two or more tasks could go on that did not wait for a time.
    pub decisions: u64,
    /// A number that differs, but for accidents of one in 2^64, when another task went on at some decision.
    pub fingerprint: u64,
    /// What leads to the same run again, by [`Schedule::Directed`].
    pub switches: Vec<Switch>,
}

/// Like [`crate::run`] under the virtual clock, in the order of `schedule`; says what was chosen, also of a run that failed.
///
/// A run that passes ten million points is taken for an endless loop, and panics.
pub fn explore<T: Send + 'static>(
    setup: &Setup,
    schedule: &Schedule,
    main: impl FnOnce() -> T + Send + 'static,
) -> (Result<T, RunError>, Interleaving) {
    run_scheduled(setup, Some(schedule), main)
}

impl Switch {
    pub(crate) fn new(point: u64, to: TaskId) -> Self {
        Self { point, to }
    }
}
