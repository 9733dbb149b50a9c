//! The caches of the modelled machine, as far as the virtual clock needs them: what was used long ago is no longer there.
//!
//! A cache of *n* lines that replaces the least recently used one holds the lines of an object if no more than *n* other lines were
//! used since its last use. So each cache of a run keeps a list of what was used, the last at the end, by the number of lines: an
//! object remembers its place in the list, and a use takes its lines from there to the end. What is further from the end than the
//! cache has lines is gone. That is exact for such a cache up to the few lines that share a place, a 16,384th of the cache; ways
//! and prefetching are left out. The lines of an object are those of its last use.
//!
//! The cache of a socket of a machine that says how many ways it has ([`Caches::ways`]) has hashed sets instead, and keeps a part
//! of what does not fit (`sets.rs`): a list of uses keeps nothing of a set that is used in turn and is a line too large.
//!
//! Objects are what an operation begins with and cannot know to be cached: an inode, a name, an entry of a list, a page of data.
//! What it touches again on its way is [`crate::Work::STEP`].
//!
//! | level | holds an object | one line costs | a copy costs |
//! |---|---|---|---|
//! | private cache of a core ([`Caches`]) | that this core used last | only the step | [`Caches::private_copy_ps_per_byte`] |
//! | cache of a socket | that a core of it used | [`Caches::socket_hit_ps`] | [`Caches::socket_copy_ps_per_byte`] |
//! | memory | any | [`Work::MISS`] | the machine's copy, and a turn on memory; half if the buffer is cached |
//!
//! The machine's copy reads a line and fetches the line that it stores to. A task that says how large its buffer is
//! ([`crate::TaskSpec::with_buffer`]), and whose buffer fits into the private cache, fetches one of the two, so its copy takes half
//! the time; of the memory's bandwidth a read takes half, and a store, whose line goes back, all. Nothing has to make room for it.
//! With ways, a task that says where in a larger buffer it reads and writes ([`crate::buffer_at`]) has the pages of it as objects.
//!
//! A machine without [`Caches`] has no private ones, its socket caches cost nothing, and every copy comes from memory.
//!
//! # What comes in
//!
//! | access | private cache | cache of the socket |
//! |---|---|---|
//! | a line of an object | if it was not there | if it was not there |
//! | [`crate::copy`] | both sides | both sides |
//! | [`crate::copy_from`], [`crate::copy_to`] | the object if it was not there; a buffer that is not cached | likewise |
//! | [`crate::copy_past_to`] | nothing | nothing |
//!
//! Uses are taken for reads: that one core changes what another has cached is a [`crate::Line`]'s to charge. An object that
//! several cores use is in the private cache of the last of them only; it takes room in those of the others until it has become old
//! there. Places are numbers of 32 bits, so an object that is used again just when they begin anew is taken for cached.

use std::array;
use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64};

use parking_lot::Mutex;

use crate::clock;
use crate::context::{Context, RunShared};
use crate::ledger::{Activity, SOCKET_LINES};
use crate::machine::{Caches, Machine, Work};
use crate::memory;
use crate::ran;
use crate::rng::Seed;
use crate::units::{LINE_BYTES, Nanos, PAGE_BYTES};

mod sets;

use sets::Sets;

/// Places that a list has at most; what is older is gone.
const MOST_PLACES: usize = 1 << 16;
/// Places of a full cache: so many lines share one.
const PLACES: u64 = 1 << 14;

/// What one cache of a run holds.
struct Held {
    lines: u64,
    /// Lines that share a place in the list.
    together: u64,
    /// The last place, and the first whose lines are still there.
    newest: AtomicU32,
    oldest: AtomicU32,
    used: Mutex<Used>,
}

/// Lines by the place of their last use, and their sum.
struct Used {
    places: VecDeque<u64>,
    sum: u64,
}

impl Held {
    fn new(lines: u64) -> Self {
        let used = Used { places: VecDeque::from([0]), sum: 0 };
        let together = (lines / PLACES).max(1);
        Self { lines, together, newest: AtomicU32::new(1), oldest: AtomicU32::new(1), used: Mutex::new(used) }
    }

    /// Whether lines that were used at `place` last are here. No line was used at place 0.
    #[inline]
    fn has(&self, place: u32) -> bool {
        place != 0 && place.wrapping_sub(self.oldest.load(Relaxed)).cast_signed() >= 0
    }

    /// Uses `lines` that were used at `place` last; returns their place now.
    #[inline]
    fn move_to_end(&self, place: u32, lines: u64) -> u32 {
        if place == self.newest.load(Relaxed) {
            return place;
        }
        let mut used = self.used.lock();
        if self.has(place) {
            let index = place.wrapping_sub(self.oldest.load(Relaxed)) as usize;
            let there = used.places.get_mut(index).map_or(0, |there| {
                let taken = lines.min(*there);
                *there -= taken;
                taken
            });
            used.sum -= there;
        }
        self.append(&mut used, lines)
    }

    /// Lines come in at the end, and what has no room any more goes.
    fn append(&self, used: &mut Used, lines: u64) -> u32 {
        let _own = ran::aside();
        let last = used.places.back_mut().expect("there is a place");
        let newest = if *last > 0 && *last + lines > self.together {
            used.places.push_back(lines);
            self.newest.load(Relaxed).wrapping_add(1)
        } else {
            *last += lines;
            self.newest.load(Relaxed)
        };
        // 0 means no place.
        self.newest.store(newest.max(1), Relaxed);
        used.sum += lines;
        let mut oldest = self.oldest.load(Relaxed);
        while used.places.len() > 1
            && (used.sum - used.places[0] > self.lines || used.places.len() > MOST_PLACES)
        {
            used.sum -= used.places.pop_front().unwrap_or_default();
            oldest = oldest.wrapping_add(1);
        }
        self.oldest.store(oldest, Relaxed);
        newest.max(1)
    }
}

/// The cache of a socket.
enum Shared {
    List(Held),
    Sets(Sets),
}

impl Shared {
    #[inline]
    fn has(&self, place: u32) -> bool {
        match self {
            Self::List(held) => held.has(place),
            Self::Sets(sets) => sets.has(place),
        }
    }

    /// A use of `lines` that have this place, of which `came` come in if the rest is here; returns their place now.
    #[inline]
    fn note(&self, place: u32, lines: u64, came: u64) -> u32 {
        match self {
            Self::List(held) => held.move_to_end(place, lines),
            Self::Sets(sets) => sets.note(place, lines, came),
        }
    }

    /// Lines come in that belong to no object.
    fn pass(&self, lines: u64) {
        match self {
            Self::List(held) => _ = held.append(&mut held.used.lock(), lines),
            Self::Sets(sets) => sets.pass(lines),
        }
    }
}

/// The caches of a run.
pub(crate) struct Inflow {
    sockets: Box<[Shared]>,
    cores: Box<[Held]>,
}

impl Inflow {
    pub(crate) fn new(machine: &Machine, seed: Seed) -> Self {
        let private = machine.caches.as_ref().map_or(0, Caches::private_lines);
        let ways = machine.caches.as_ref().and_then(|caches| caches.ways);
        let shared = |socket: u16| match ways {
            Some(ways) => {
                let seed = seed.derive("cache of a socket", socket.into());
                Shared::Sets(Sets::new(machine.cache_lines(), ways, seed))
            }
            None => Shared::List(Held::new(machine.cache_lines())),
        };
        Self {
            sockets: (0..machine.sockets.max(1)).map(shared).collect(),
            cores: (0..machine.cores().max(1)).map(|_| Held::new(private)).collect(),
        }
    }

    fn of_socket(&self, socket: usize) -> &Shared {
        &self.sockets[socket % self.sockets.len()]
    }

    /// Notes `bytes` that came into the caches of the current task's core and socket.
    #[inline]
    pub(crate) fn add(&self, cx: &Context, bytes: u64) {
        let lines = bytes.div_ceil(LINE_BYTES as u64);
        let core = core_of(cx);
        if cx.run.machine.caches.is_some() {
            let held = &self.cores[usize::from(core)];
            held.append(&mut held.used.lock(), lines);
        }
        self.of_socket(usize::from(cx.run.machine.socket(core))).pass(lines);
    }
}

/// The core whose private cache the current task uses: hardware threads share it.
#[inline]
fn core_of(cx: &Context) -> u16 {
    cx.run.machine.core_of(cx.core.get())
}

/// Where an object is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The private cache of the core that uses it.
    Private,
    /// The cache of its socket.
    Socket,
    Memory,
}

/// Sockets whose counts an object has in itself; those of others lie in memory of their own, made at the first use there.
const NEAR: usize = 2;

/// Sockets that an object tells apart; the ninth shares the place of the first.
const SOCKETS: usize = 8;

/// Places of the sockets beyond [`NEAR`].
type Far = [AtomicU32; SOCKETS - NEAR];

/// When and where an object was used last, by its place in the caches of its run.
///
/// Every inode, name and page has one, so it is kept small: a test bounds it.
#[derive(Debug)]
pub struct Recency {
    /// For each of the first sockets: the place of the last use there.
    near: [AtomicU32; NEAR],
    /// Null, or the same for the others.
    far: AtomicPtr<Far>,
    /// The place in the private cache of `core`.
    private: AtomicU32,
    /// The low half of the number of the run in which this means something; 0 is none. An object that is not used for just 65,535
    /// runs takes its places for those of the last.
    run: AtomicU16,
    /// The core of the last use.
    core: AtomicU16,
}

impl Recency {
    /// Of an object that is in no cache.
    pub const fn new() -> Self {
        Self {
            near: [const { AtomicU32::new(0) }; NEAR],
            far: AtomicPtr::new(ptr::null_mut()),
            private: AtomicU32::new(0),
            run: AtomicU16::new(0),
            core: AtomicU16::new(0),
        }
    }

    /// Of an object of so many lines that the current task has just made: they come in, and no step waits for them.
    #[inline]
    pub fn now(lines: u64) -> Self {
        let made = Self::new();
        if let Some(cx) = clock::virtual_task() {
            made.forget(&cx.run);
            made.note(cx, lines, lines);
        }
        made
    }

    /// Uses the object, which is in memory: one [`Work::MISS`] for each of its `lines` that the next step waits for, or what
    /// the level costs that has it. Nothing under the real clock, where the misses take their own time.
    #[inline]
    pub fn touch(&self, lines: u64) {
        self.touch_of(lines, || {});
    }

    /// As [`Recency::touch`], of an object whose medium charges a first use besides: `medium` is called when the object is in no
    /// cache.
    #[inline]
    pub fn touch_of(&self, lines: u64, medium: impl FnOnce()) {
        self.touch_with(lines, true, medium);
    }

    /// As [`Recency::touch_of`]; without `miss` the medium's time is all that a use from memory takes.
    #[inline]
    pub fn touch_with(&self, lines: u64, miss: bool, medium: impl FnOnce()) {
        let Some(cx) = clock::virtual_task() else { return };
        charge(cx, self.use_by(cx, lines * LINE_BYTES as u64), lines, miss, medium);
    }

    /// The object is in no cache any more: it was stored past them.
    #[inline]
    pub fn evict(&self) {
        self.run.store(0, Relaxed);
    }

    /// The current task uses `bytes` of the object, which come into the caches that do not have it.
    #[inline]
    pub(crate) fn use_by(&self, cx: &Context, bytes: u64) -> Level {
        let level = self.level(cx);
        self.note(cx, bytes.div_ceil(LINE_BYTES as u64), 0);
        level
    }

    /// So many of its lines leave the caches of sockets, which know what to do with the room.
    fn leave(&self, lines: u64) {
        let Some(cx) = clock::virtual_task() else { return };
        if self.run.load(Relaxed) != mark(&cx.run) {
            return;
        }
        for (socket, shared) in cx.run.inflow.sockets.iter().enumerate() {
            if let (Shared::Sets(sets), Some(place)) = (shared, self.count_of(socket)) {
                sets.leave(place.load(Relaxed), lines);
            }
        }
    }

    fn level(&self, cx: &Context) -> Level {
        let (run, core) = (&cx.run, core_of(cx));
        if self.run.load(Relaxed) != mark(run) {
            self.forget(run);
            return Level::Memory;
        }
        let inflow = &run.inflow;
        let is_private = run.machine.caches.is_some()
            && self.core.load(Relaxed) == core
            && inflow.cores[usize::from(core)].has(self.private.load(Relaxed));
        if is_private {
            return Level::Private;
        }
        let socket = usize::from(run.machine.socket(core));
        match self.count_of(socket) {
            Some(place) if inflow.of_socket(socket).has(place.load(Relaxed)) => Level::Socket,
            _ => Level::Memory,
        }
    }

    /// The current task uses so many lines of the object now, `came` of which come in where the object is.
    fn note(&self, cx: &Context, lines: u64, came: u64) {
        let (inflow, core) = (&cx.run.inflow, core_of(cx));
        let socket = usize::from(cx.run.machine.socket(core));
        let place = self.count_of(socket).unwrap_or_else(|| self.make_far(socket));
        place.store(inflow.of_socket(socket).note(place.load(Relaxed), lines, came), Relaxed);
        if cx.run.machine.caches.is_some() {
            let before = if self.core.load(Relaxed) == core { self.private.load(Relaxed) } else { 0 };
            self.private.store(inflow.cores[usize::from(core)].move_to_end(before, lines), Relaxed);
        }
        self.core.store(core, Relaxed);
    }

    /// In `run` the object has been in no cache yet.
    fn forget(&self, run: &RunShared) {
        for socket in 0..SOCKETS {
            if let Some(count) = self.count_of(socket) {
                count.store(0, Relaxed);
            }
        }
        self.core.store(u16::MAX, Relaxed);
        self.run.store(mark(run), Relaxed);
    }

    /// The place in the cache of a socket, if the object has one.
    #[inline]
    fn count_of(&self, socket: usize) -> Option<&AtomicU32> {
        match (socket % SOCKETS).checked_sub(NEAR) {
            None => Some(&self.near[socket % SOCKETS]),
            // SAFETY: null, or a box that was published whole by `make_far` and lives as long as the object.
            Some(place) => unsafe { self.far.load(Acquire).as_ref() }.map(|far| &far[place]),
        }
    }

    /// Makes the places of the far sockets, in whose caches the object has not been, and returns that of `socket`.
    #[cold]
    fn make_far(&self, socket: usize) -> &AtomicU32 {
        let counts: Far = array::from_fn(|_| AtomicU32::new(0));
        let made = Box::into_raw(Box::new(counts));
        if self.far.compare_exchange(ptr::null_mut(), made, AcqRel, Acquire).is_err() {
            // SAFETY: it came from a box just now, and was not published: another thread's was.
            drop(unsafe { Box::from_raw(made) });
        }
        self.count_of(socket).expect("a far socket has a count now")
    }
}

/// Another object, which is in no cache.
impl Clone for Recency {
    fn clone(&self) -> Self {
        Self::new()
    }
}

impl Drop for Recency {
    fn drop(&mut self) {
        let far = *self.far.get_mut();
        if !far.is_null() {
            // SAFETY: it came from a box in `make_far`, and the object, which alone leads to it, is dropped.
            drop(unsafe { Box::from_raw(far) });
        }
    }
}

/// A use of so many lines of an object at this level.
fn charge(cx: &Context, level: Level, lines: u64, miss: bool, medium: impl FnOnce()) {
    match level {
        Level::Private => {}
        Level::Socket => {
            if let Some(caches) = &cx.run.machine.caches {
                cx.ledger.add_units(cx.op.get(), SOCKET_LINES, lines);
                let span = Nanos((caches.socket_hit_ps * lines + 500) / 1_000);
                clock::compute(cx, cx.software(Activity::SOFTWARE), span);
            }
        }
        Level::Memory => {
            if miss {
                clock::work(Work::MISS, lines);
                if let Some(excess) = memory::excess_of_misses(cx, lines) {
                    clock::advance(cx, Activity::MEMORY_LATENCY, excess);
                }
            }
            medium();
        }
    }
}

/// A page of 64 lines, which come into the caches and leave them one by one; the page is forgotten as a whole, when none of them
/// was used for long. A use that misses a line comes from memory with all of its lines.
#[derive(Default)]
pub struct CachedPage {
    recency: Recency,
    /// Lines that came in since the page was in no cache, a bit each; of all caches together.
    lines: AtomicU64,
}

impl CachedPage {
    /// Of a page that is in no cache.
    pub const fn new() -> Self {
        Self { recency: Recency::new(), lines: AtomicU64::new(0) }
    }

    /// Uses the lines of the `bytes` from `offset` on; the rest as [`Recency::touch_with`].
    #[inline]
    pub fn touch_with(&self, (offset, bytes): (u64, u64), miss: bool, medium: impl FnOnce()) {
        let Some(cx) = clock::virtual_task() else { return };
        let level = self.use_by(cx, offset, bytes);
        charge(cx, level, u64::from(bits(offset, bytes).count_ones()), miss, medium);
    }

    /// These bytes are in no cache any more.
    #[inline]
    pub fn evict(&self, offset: u64, bytes: u64) {
        let held = self.lines.load(Relaxed);
        let left = held & !bits(offset, bytes);
        self.lines.store(left, Relaxed);
        if left != held {
            self.recency.leave(u64::from((held ^ left).count_ones()));
        }
        if left == 0 {
            self.recency.evict();
        }
    }

    /// The current task uses these bytes.
    #[inline]
    pub(crate) fn use_by(&self, cx: &Context, offset: u64, bytes: u64) -> Level {
        let (used, held) = (bits(offset, bytes), self.lines.load(Relaxed));
        let (level, lines, came) = match self.recency.level(cx) {
            Level::Memory => (Level::Memory, used, used),
            level if held & used == used => (level, held, 0),
            _ => (Level::Memory, held | used, used & !held),
        };
        self.lines.store(lines, Relaxed);
        self.recency.note(cx, u64::from(lines.count_ones()), u64::from(came.count_ones()));
        level
    }
}

/// Where a task reads and writes in a buffer that is larger than the private cache of a core.
#[derive(Default)]
pub(crate) struct BufferPlaces {
    /// Bytes of the buffer; 0: the task does not say where.
    pub(crate) bytes: Cell<u64>,
    /// Where the next copy begins.
    at: Cell<u64>,
    pages: OnceCell<Box<[Recency]>>,
}

impl BufferPlaces {
    pub(crate) fn move_to(&self, at: u64) {
        self.at.set(at);
    }

    /// The current task copies with the next bytes of the buffer. Whether they are in a cache; none: it does not say where.
    pub(crate) fn use_next(&self, cx: &Context, bytes: u64) -> Option<bool> {
        if self.bytes.get() == 0 {
            return None;
        }
        let size = PAGE_BYTES as u64;
        let pages = self.pages.get_or_init(|| {
            let _own = ran::aside();
            (0..self.bytes.get().div_ceil(size)).map(|_| Recency::new()).collect()
        });
        let (first, end) = (self.at.get(), self.at.get() + bytes);
        self.at.set(end);
        let mut cached = true;
        for page in first / size..end.div_ceil(size) {
            let part = end.min((page + 1) * size) - first.max(page * size);
            cached &= pages[page as usize % pages.len()].use_by(cx, part) != Level::Memory;
        }
        Some(cached)
    }
}

/// The lines of a page that hold the `bytes` from `offset` on, which lie in it.
#[inline]
fn bits(offset: u64, bytes: u64) -> u64 {
    let line = LINE_BYTES as u64;
    let (first, end) = (offset / line, (offset + bytes).div_ceil(line));
    let below = |bit: u64| if bit >= 64 { u64::MAX } else { (1 << bit) - 1 };
    below(end) & !below(first)
}

/// What marks a run in an object; never 0.
fn mark(run: &RunShared) -> u16 {
    (run.number % u32::from(u16::MAX)) as u16 + 1
}

impl Default for Recency {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a line that is written back leaves the caches: on the current task's machine, under the virtual clock.
#[inline]
pub fn flush_evicts() -> bool {
    clock::virtual_task()
        .is_some_and(|cx| cx.run.machine.caches.as_ref().is_some_and(|caches| caches.flush_evicts))
}

/// Whether a copy costs what the level costs that has its source: on the current task's machine, under the virtual clock.
#[inline]
pub fn prices_copies() -> bool {
    clock::virtual_task().is_some_and(|cx| cx.run.machine.caches.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_pays_for_its_recency_so_it_is_small() {
        assert!(size_of::<Recency>() <= 24, "{} bytes", size_of::<Recency>());
    }
}
