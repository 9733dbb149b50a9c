//! Time, tasks and locks under two clocks.
//!
//! Everything above this crate is ordinary synchronous code. Which clock it runs under is decided by [`run`]:
//!
//! * **Real**: tasks are threads, locks are `parking_lot`, and modelled time is spun away on the time-stamp
//!   counter.
//! * **Virtual**: tasks are stackful coroutines of one host thread, each with its own virtual time. The
//!   scheduler always resumes the task that is furthest behind, so shared state is touched in the order of
//!   virtual time; the same seed gives the same schedule, on any host.
//!
//! A thread outside any run has the real clock and no ledger; that is how a mounted file system or a unit
//! test uses it.
//!
//! | module | holds |
//! |---|---|
//! | [`units`] | [`Nanos`], [`Bytes`], [`Rate`], [`ByteRun`], [`Run`], the cache line and page sizes |
//! | [`machine`] | what a unit of CPU work costs: [`Machine`], [`Work`] |
//! | [`ledger`] | where time went: [`Activity`], [`Op`], [`Count`], [`LockClass`] |
//! | [`cache`] | what is still in the caches: [`Recency`], [`CachedPage`] |
//! | [`memory`] | latency under load and the greatest traffic of a memory: [`Memory`] |
//! | [`mod@clock`] | [`now`], [`work`], [`copy`], [`medium`], [`sleep`], [`interact`] |
//! | [`task`] | [`run`], [`run_here`], [`spawn`], [`Setup`], [`core()`] |
//! | [`schedule`] | [`explore`]: virtual runs in other orders than that of time |
//! | [`sync`] | [`Mutex`], [`RwLock`], [`Condvar`], [`Semaphore`], [`Line`], [`Server`], atomics |
//! | [`ran`] | small work that a machine may price; whether all of it is charged |
//! | [`map`] | maps that charge for it |
//! | [`rng`] | [`Seed`] and the generator |
//! | [`topology`] | the order in which tasks take the processors of the host |
//! | [`host_memory`] | a file of the host in memory, words that processes share |
//!
//! # The rule of interaction
//!
//! Under the virtual clock a task runs ahead freely on private work and must be the furthest behind before it
//! *interacts*: takes a lock, uses a [`Server`], touches a [`Line`], waits. A release needs no interaction:
//! the lock remembers the time at which it became free, and a task that arrives earlier in virtual time, though
//! later on the host, waits until then.
//!
//! # What may not be done inside a task
//!
//! * Block the host thread (file I/O, channels, a `parking_lot` guard held over an interaction).
//! * Rely on `thread_local!`: all tasks of a virtual run share one host thread.
//! * Wait in a destructor for what only the rest of the run can bring. When a run ends, its suspended tasks
//!   are unwound: destructors may take locks and join tasks that end, but a task that waits for ever there is
//!   left where it is, with the locks that it holds.
//!
//! # Ties
//!
//! Tasks with the same time run in the order of their numbers, except that the running task goes on. That
//! makes a result repeat; it does not make it mean anything, so no result should rest on it.

#![allow(unsafe_code)] // coroutines, lock cells, a mapping; every block says why it is sound

pub mod cache;
pub mod clock;
mod context;
pub mod host_memory;
pub mod ledger;
pub mod machine;
pub mod map;
pub mod math;
pub mod memory;
pub mod ran;
pub mod rng;
pub mod schedule;
pub mod sync;
pub mod task;
pub mod topology;
pub mod units;
mod virt;

pub use cache::{CachedPage, Recency};
pub use clock::{
    Clock, buffer_at, clock, compute_for, copy, copy_cost, copy_from, copy_from_page, copy_past_to, copy_to,
    copy_to_page, copy_uncached, cost_of, cpu_time, follows_originals, interact, is_priced, linux, medium,
    medium_until, now, priced, sleep, sleep_until, work,
};
pub use ledger::{Activity, Count, LockClass, Op, Part, count, op, part, scope};
pub use machine::{Caches, Machine, PartPrice, Scheduling, Work};
pub use memory::{Memory, MemoryModel, Stream};
pub use rng::{Rng, Seed, seed};
pub use schedule::{Interleaving, Schedule, Switch, explore};
pub use sync::{
    Condvar, Line, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, Sequence,
    SequenceGuard, Server, SpreadReadGuard, SpreadRwLock, SpreadWriteGuard, takes_no_time,
};
pub use task::{
    Attached, Handle, JoinHandle, LONGEST_RUN, MOST_TASKS, RunError, Setup, TaskSpec, core, pin, run,
    run_here, socket, spawn, work_for, works_for,
};
pub use units::{ByteRun, Bytes, GIB, KIB, LINE_BYTES, MIB, Nanos, PAGE_BYTES, ParseUnitError, Rate, Run};
