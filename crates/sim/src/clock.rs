//! The clock façade: reading time, and letting it pass.
//!
//! | call | virtual clock | real clock |
//! |---|---|---|
//! | [`work`], [`copy`], [`copy_from`], [`copy_to`], [`copy_past_to`] | advance the task | nothing: it takes its own time |
//! | [`medium`], [`medium_until`] | advance the task | spin on the time-stamp counter |
//! | [`sleep`], [`sleep_until`] | advance the task and interact | sleep; the last stretch spins |
//! | [`interact`] | let every task that is further behind run first | nothing |
//!
//! Private work interacts too when it has run far ahead ([`crate::Setup::run_ahead`]). So whatever must not
//! be seen half done by other tasks is kept under a lock of [`crate::sync`] across any of these calls, never
//! under a borrow or a foreign guard.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cache::{CachedPage, Level, Recency};
use crate::context::{self, Context};
use crate::ledger::{Activity, COPIED_BYTES};
use crate::machine::{Caches, Work};
use crate::memory::{self, Stream};
use crate::ran;
use crate::units::Nanos;

/// Which clock a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Threads, and modelled time spun away.
    Real,
    /// Coroutines in virtual-time order.
    Virtual,
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Real => "real",
            Self::Virtual => "virtual",
        })
    }
}

/// The clock of the current task; real outside a run.
#[inline]
pub fn clock() -> Clock {
    context::current().map_or(Clock::Real, Context::clock)
}

/// The time of the current task, since the start of its run. Zero outside a run.
#[inline]
pub fn now() -> Nanos {
    context::current().map_or(Nanos::ZERO, Context::now)
}

/// Processor time that the calling thread has used. None under the virtual clock, where a thread carries all tasks.
pub fn cpu_time() -> Option<Nanos> {
    (clock() == Clock::Real).then(|| {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    })
}

/// Private CPU work: `n` units of `work`, priced by the machine.
#[inline]
pub fn work(work: Work, n: u64) {
    if let Some(cx) = virtual_task() {
        if cfg!(debug_assertions) && work == Work::STEP {
            let _counted = ran::note_charged(work, n);
        }
        let named = work.activity();
        let activity = if named == Activity::SOFTWARE { cx.software(named) } else { named };
        cx.count_units(work, n);
        compute(cx, activity, cx.run.machine.cost(work, n));
    }
}

/// Private CPU work that takes `span` on a core of its own, as that of a recorded program, which no machine prices. Under the real
/// clock it spins, and sleeps through a long span.
pub fn compute_for(span: Nanos) {
    let Some(cx) = context::current() else { return };
    match cx.clock() {
        Clock::Virtual => compute(cx, cx.software(Activity::SOFTWARE), span),
        Clock::Real => spin(cx, Activity::SOFTWARE, cx.run.tsc().now() + span),
    }
}

/// As [`work`], of a kind that a machine may leave without a price: then nothing is charged or counted.
#[inline]
pub fn priced(kind: Work, n: u64) {
    if is_priced(kind) {
        work(kind, n);
    }
}

/// As [`priced`], of small work that is not charged where something else prices it ([`ran::covered`]).
#[inline]
pub(crate) fn priced_alone(kind: Work, n: u64) {
    let charged = |cx: &Context| cx.run.machine.work_ps[kind.index()] > 0 && cx.covered.get() == 0;
    if virtual_task().is_some_and(charged) {
        work(kind, n);
    }
}

/// Whether the machine of this run has a price for a kind of work. Not under the real clock and outside a run.
#[inline]
pub fn is_priced(kind: Work) -> bool {
    virtual_task().is_some_and(|cx| cx.run.machine.work_ps[kind.index()] > 0)
}

/// Whether this run stands for the originals of designs: their ways have prices. Not under the real clock and outside a run.
pub fn follows_originals() -> bool {
    virtual_task().is_some_and(|cx| cx.run.machine.originals)
}

/// The version of Linux that the machine of this run has. None under the real clock and outside a run.
pub fn linux() -> Option<(u16, u16)> {
    virtual_task().and_then(|cx| cx.run.machine.linux)
}

/// What `n` units of `work` cost on the machine of this run, without letting the time pass: for work that another core does.
/// Nothing under the real clock.
pub fn cost_of(work: Work, n: u64) -> Nanos {
    virtual_task().map_or(Nanos::ZERO, |cx| cx.run.machine.cost(work, n))
}

/// The same of a core that copies `bytes` from memory to memory.
pub fn copy_cost(bytes: u64) -> Nanos {
    virtual_task().map_or(Nanos::ZERO, |cx| match cx.run.memory_of(cx.core.get()) {
        Some(memory) => memory::copy_cost(memory, bytes),
        None => Nanos((bytes * cx.run.machine.copy_ps_per_byte).div_ceil(1_000)),
    })
}

/// Copies smaller than this do not queue for the memory bandwidth that all cores share: they are cache
/// traffic.
const QUEUED_COPY_BYTES: u64 = 1024;

/// Lines that a copy from memory moves for each line that it copies, on a machine without a model of its memory.
#[derive(Clone, Copy)]
struct Moved {
    /// The same on one that has a model.
    kind: memory::Moved,
    /// That the core fetches: the line that is read, and the line that is stored to, which comes in first.
    fetched: u64,
    /// That go over the memory's bus: what is read, and what is written back in the end.
    carried: u64,
}

/// Between memory and memory: what the machine's prices of a copied byte are for.
const BOTH_SIDES: Moved = Moved { kind: memory::Moved::Both, fetched: 2, carried: 2 };
/// From memory to a buffer in the core's private cache.
const READ: Moved = Moved { kind: memory::Moved::Load, fetched: 1, carried: 1 };
/// The other way: what is stored to is fetched, and goes back.
const STORED: Moved = Moved { kind: memory::Moved::Store, fetched: 1, carried: 2 };

/// The CPU's part of copying `bytes` between memory and memory: the core's own speed, and its turn on the
/// machine's memory bandwidth. Copy in pieces of at most a few KiB, so that tasks share the bandwidth fairly.
#[inline]
pub fn copy(bytes: u64) {
    let Some(cx) = virtual_task() else { return };
    cx.run.inflow.add(cx, 2 * bytes); // what is read and what is written
    copy_memory(cx, bytes, BOTH_SIDES, Stream::default());
}

/// As [`copy`], of a store past the caches: nothing comes into them. It goes to an object in `memory`, if it has one; true when
/// that memory has been charged, too.
#[inline]
pub fn copy_past_to(memory: Option<&memory::Memory>, bytes: u64) -> bool {
    let Some(cx) = virtual_task() else { return false };
    let caches = cx.run.machine.caches.as_ref();
    let has_buffer = caches.and_then(|caches| finds_buffer(cx, caches, bytes)) == Some(true);
    if memory::post_copied(cx, bytes, has_buffer, memory) {
        return memory.is_some();
    }
    copy_memory(cx, bytes, BOTH_SIDES, Stream::default());
    false
}

/// Copies `bytes` of `object` to the task's buffer ([`crate::TaskSpec::with_buffer`]), at the speed of the level that holds the
/// object. True when that is memory, whose medium may charge more. On a machine without private caches every copy is one between
/// memory and memory, as by [`copy`].
#[inline]
pub fn copy_from(object: &Recency, bytes: u64) -> bool {
    copy_cached(|cx| object.use_by(cx, bytes), bytes, READ, Stream::default())
}

/// As [`copy_from`], of the bytes of a page from `offset` on, as a part of `stream`. False also where its memory has been charged.
#[inline]
pub fn copy_from_page(page: &CachedPage, offset: u64, bytes: u64, stream: Stream<'_>) -> bool {
    copy_cached(|cx| page.use_by(cx, offset, bytes), bytes, READ, stream)
}

/// As [`copy_to`], to the bytes of a page from `offset` on, as a part of `stream`. False also where its memory has been charged.
#[inline]
pub fn copy_to_page(page: &CachedPage, offset: u64, bytes: u64, stream: Stream<'_>) -> bool {
    copy_cached(|cx| page.use_by(cx, offset, bytes), bytes, STORED, stream)
}

/// A copy of an object of which no cache is known, from it or to it. True when its medium may charge more.
#[inline]
pub fn copy_uncached(bytes: u64, stores: bool, stream: Stream<'_>) -> bool {
    let (Some(cx), Some(_)) = (virtual_task(), stream.memory) else {
        copy(bytes);
        return true;
    };
    cx.run.inflow.add(cx, 2 * bytes);
    copy_memory(cx, bytes, if stores { STORED } else { READ }, stream);
    false
}

/// Copies `bytes` from the task's buffer to `object`; the rest as [`copy_from`].
#[inline]
pub fn copy_to(object: &Recency, bytes: u64) -> bool {
    copy_cached(|cx| object.use_by(cx, bytes), bytes, STORED, Stream::default())
}

fn copy_cached(use_by: impl FnOnce(&Context) -> Level, bytes: u64, moved: Moved, stream: Stream<'_>) -> bool {
    let Some(cx) = virtual_task() else { return true };
    let Some(caches) = &cx.run.machine.caches else {
        return copy_uncached(bytes, moved.kind == memory::Moved::Store, stream);
    };
    let found = finds_buffer(cx, caches, bytes);
    if found.is_none() {
        cx.run.inflow.add(cx, bytes);
    }
    let has_buffer = found == Some(true);
    let ps_per_byte = match use_by(cx) {
        Level::Private => caches.private_copy_ps_per_byte,
        Level::Socket => caches.socket_copy_ps_per_byte,
        Level::Memory => {
            if !memory::copy_lines(cx, bytes, moved.kind, has_buffer, stream) {
                copy_queued(cx, bytes, if has_buffer { moved } else { BOTH_SIDES });
            }
            return stream.memory.is_none();
        }
    };
    cx.ledger.add_units(cx.op.get(), COPIED_BYTES, bytes);
    compute(cx, cx.software(Activity::COPY), Nanos((bytes * ps_per_byte).div_ceil(1_000)));
    false
}

/// Whether a copy finds the next bytes of the task's buffer in a cache, in which they are then; none: it is not known where they
/// are.
#[inline]
fn finds_buffer(cx: &Context, caches: &Caches, bytes: u64) -> Option<bool> {
    if cx.buffer.get() <= caches.private.0 {
        return Some(true);
    }
    caches.ways.and_then(|_| cx.buffer_places.use_next(cx, bytes))
}

/// The current task reads and writes from here on with its buffer from this offset, if it has one whose size it told
/// ([`crate::TaskSpec::with_places`]).
#[inline]
pub fn buffer_at(offset: u64) {
    if let Some(cx) = virtual_task() {
        cx.buffer_places.move_to(offset);
    }
}

/// A copy whose buffer is in no cache.
fn copy_memory(cx: &Context, bytes: u64, moved: Moved, stream: Stream<'_>) {
    if !memory::copy_lines(cx, bytes, moved.kind, false, stream) {
        copy_queued(cx, bytes, moved);
    }
}

/// A copy on a machine without a model of its memory.
fn copy_queued(cx: &Context, bytes: u64, moved: Moved) {
    cx.ledger.add_units(cx.op.get(), COPIED_BYTES, bytes);
    let machine = &cx.run.machine;
    let part = |ps_per_byte: u64, lines: u64| bytes * ps_per_byte * lines / BOTH_SIDES.fetched;
    let alone = Nanos(part(machine.copy_ps_per_byte, moved.fetched).div_ceil(1_000));
    let activity = cx.software(Activity::COPY);
    if bytes < QUEUED_COPY_BYTES {
        return compute(cx, activity, alone);
    }
    let alone = beside_sibling(cx, alone);
    let shared = Nanos(part(machine.dram_ps_per_byte, moved.carried) / 1_000);
    let reserved = cx.run.dram_of(cx.core.get()).reserve(shared);
    let start = cx.now(); // after the interaction, which may have cost the core
    let done = reserved.max(start + alone);
    advance(cx, activity, done - start);
}

/// Medium time: `span`, booked on the activity in scope.
#[inline]
pub fn medium(span: Nanos) {
    if let Some(cx) = context::current() {
        let activity = cx.activity.get();
        match cx.clock() {
            Clock::Virtual => advance(cx, activity, span),
            Clock::Real => spin(cx, activity, cx.run.tsc().now() + span),
        }
    }
}

/// Lets time pass until `deadline`, booked on `activity`: the end of a service whose time was reserved on a
/// [`crate::Server`].
#[inline]
pub fn medium_until(activity: Activity, deadline: Nanos) {
    if let Some(cx) = context::current() {
        match cx.clock() {
            Clock::Virtual => advance(cx, activity, deadline.since(cx.now())),
            Clock::Real => spin(cx, activity, deadline),
        }
    }
}

/// Sleeps for `span`.
pub fn sleep(span: Nanos) {
    match context::current() {
        Some(_) => sleep_until(now() + span),
        None => std::thread::sleep(Duration::from_nanos(span.0)),
    }
}

/// Sleeps until `deadline`, a time of the current run; returns at once when it has passed. Does nothing
/// outside a run.
pub fn sleep_until(deadline: Nanos) {
    let Some(cx) = context::current() else { return };
    let activity = cx.waiting(Activity::SLEEP);
    match cx.scheduler() {
        None => spin(cx, activity, deadline),
        Some(scheduler) => {
            scheduler.watch_quiet(cx);
            let since = cx.now();
            pass(cx, activity, deadline.since(since));
            scheduler.sleep(cx, since.0);
        }
    }
}

/// Lets every task that is further behind run first. Locks, queues and lines do this themselves; call it
/// before reading or writing shared state by other means (an atomic of your own).
#[inline]
pub fn interact() {
    if let Some(cx) = context::current()
        && let Some(scheduler) = cx.scheduler()
    {
        scheduler.interact(cx);
    }
}

#[inline]
pub(crate) fn virtual_task() -> Option<&'static Context> {
    context::current().filter(|cx| cx.clock() == Clock::Virtual)
}

/// Advances a task of the virtual clock by CPU work that takes `span` on a core of its own.
#[inline]
pub(crate) fn compute(cx: &Context, activity: Activity, span: Nanos) {
    let span = beside_sibling(cx, span);
    let paced = match cx.pace.get() {
        1000 => span,
        pace => Nanos(span.0 * u64::from(pace) / 1000),
    };
    advance(cx, activity, paced);
}

/// How long CPU work takes that takes `span` on a core of its own: longer beside a busy hardware thread. What the sibling does is
/// looked at once, when the work begins.
#[inline]
pub(crate) fn beside_sibling(cx: &Context, span: Nanos) -> Nanos {
    match cx.run.machine.two_threads_per_mille {
        Some(per_mille) if cx.scheduler().is_some_and(|scheduler| scheduler.sibling_is_busy(cx)) => {
            Nanos(span.0 * 2_000 / u64::from(per_mille.max(1)))
        }
        _ => span,
    }
}

/// Advances a task of the virtual clock. Past the limit of running ahead it interacts.
#[inline]
pub(crate) fn advance(cx: &Context, activity: Activity, span: Nanos) {
    pass(cx, activity, span);
    if cx.time.get() > cx.run_ahead_limit.get() {
        interact();
    }
}

/// Advances a task of the virtual clock without letting any other run.
#[inline]
pub(crate) fn pass(cx: &Context, activity: Activity, span: Nanos) {
    cx.time.set(cx.time.get().saturating_add(span.0));
    cx.book(activity, span.0);
}

/// Spins or sleeps until `deadline` on the real clock, and books what really passed.
fn spin(cx: &Context, activity: Activity, deadline: Nanos) {
    let tsc = cx.run.tsc();
    let start = tsc.now();
    let end = tsc.wait_until(start, deadline);
    cx.book_real(activity, end.since(start).0);
}

/// Waits at least this long sleep first: a sleep costs up to 0.1 ms more than asked on a busy host.
const SLEEP_THRESHOLD: Nanos = Nanos::from_micros(500);

/// The calibrated time-stamp counter.
pub(crate) struct Tsc {
    counter: quanta::Clock,
    origin: u64,
}

/// What one spin overshoots, in nanoseconds, found once for the process.
static SPIN_OVERSHOOT_NS: AtomicU64 = AtomicU64::new(u64::MAX);

impl Tsc {
    pub(crate) fn new() -> Self {
        let counter = quanta::Clock::new();
        let tsc = Self { origin: counter.raw(), counter };
        if SPIN_OVERSHOOT_NS.load(Relaxed) == u64::MAX {
            SPIN_OVERSHOOT_NS.store(tsc.measure_overshoot(), Relaxed);
        }
        tsc
    }

    #[inline]
    pub(crate) fn now(&self) -> Nanos {
        Nanos(self.counter.delta_as_nanos(self.origin, self.counter.raw()))
    }

    /// Waits until `deadline` less the calibrated overshoot; returns the time of return.
    fn wait_until(&self, start: Nanos, deadline: Nanos) -> Nanos {
        let left = deadline.since(start);
        if left > SLEEP_THRESHOLD {
            std::thread::sleep(Duration::from_nanos(left.0 - SLEEP_THRESHOLD.0 / 2));
        }
        let target = Nanos(deadline.0.saturating_sub(overshoot_ns()));
        let mut time = self.now();
        while time < target {
            std::hint::spin_loop();
            time = self.now();
        }
        time
    }

    /// Median overshoot of a spin of 200 ns, over a few hundred of them.
    fn measure_overshoot(&self) -> u64 {
        SPIN_OVERSHOOT_NS.store(0, Relaxed);
        let mut over: Vec<u64> = (0..301)
            .map(|_| {
                let start = self.now();
                self.wait_until(start, start + Nanos(200));
                self.now().since(start + Nanos(200)).0
            })
            .collect();
        over.sort_unstable();
        over[over.len() / 2]
    }
}

fn overshoot_ns() -> u64 {
    match SPIN_OVERSHOOT_NS.load(Relaxed) {
        u64::MAX => 0,
        ns => ns,
    }
}
