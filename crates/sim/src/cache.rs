//! The caches of the modelled machine, as far as the virtual clock needs them: what was used long ago is no longer there.
//!
//! A cache of *n* lines that replaces the least recently used one holds whatever was touched since the last *n* other
//! lines came in. So a run counts the lines that came into each cache, by copies and by misses, and an object remembers the count
//! at which it was touched last: it is cached if fewer lines than the cache has came in since. That is exact for such a cache
//! up to lines that come in twice; ways and prefetching are left out.
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
//! | [`crate::copy_past`] | nothing | nothing |
//!
//! Uses are taken for reads: that one core changes what another has cached is a [`crate::Line`]'s to charge. An object that
//! several cores use is in the private cache of the last of them only. Counts wrap around after 2^32 lines (256 GiB), so an object
//! that is used again just then is taken for cached.

use std::array;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32};

use crate::clock;
use crate::context::{Context, RunShared};
use crate::ledger::{Activity, SOCKET_LINES};
use crate::machine::{Caches, Machine, Work};
use crate::units::{LINE_BYTES, Nanos};

/// Lines that came into each cache of a run, modulo 2^32.
pub(crate) struct Inflow {
    sockets: Box<[AtomicU32]>,
    cores: Box<[AtomicU32]>,
}

impl Inflow {
    pub(crate) fn new(machine: &Machine) -> Self {
        let counts = |n: u16| (0..n.max(1)).map(|_| AtomicU32::new(0)).collect();
        Self { sockets: counts(machine.sockets), cores: counts(machine.cores()) }
    }

    fn of_socket(&self, socket: usize) -> &AtomicU32 {
        &self.sockets[socket % self.sockets.len()]
    }

    /// Notes `bytes` that came into the caches of the current task's core and socket.
    #[inline]
    pub(crate) fn add(&self, cx: &Context, bytes: u64) {
        let lines = bytes.div_ceil(LINE_BYTES as u64) as u32;
        let core = core_of(cx);
        add(&self.cores[usize::from(core)], lines);
        add(self.of_socket(usize::from(cx.run.machine.socket(core))), lines);
    }
}

/// The core whose private cache the current task uses: hardware threads share it.
#[inline]
fn core_of(cx: &Context) -> u16 {
    cx.run.machine.core_of(cx.core.get())
}

/// All tasks of a virtual run share a host thread, so load and store are one step.
#[inline]
fn add(count: &AtomicU32, lines: u32) {
    count.store(count.load(Relaxed).wrapping_add(lines), Relaxed);
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

/// Counts of the sockets beyond [`NEAR`].
type Far = [AtomicU32; SOCKETS - NEAR];

/// When and where an object was used last, by the inflow of the caches of its run.
///
/// Every inode, name and page has one, so it is kept small: a test bounds it.
#[derive(Debug)]
pub struct Recency {
    /// For each of the first sockets: the inflow of its cache at the last use there.
    near: [AtomicU32; NEAR],
    /// Null, or the same for the others.
    far: AtomicPtr<Far>,
    /// The inflow of the private cache of `core` at the last use.
    private: AtomicU32,
    /// The low half of the number of the run in which this means something; 0 is none. An object that is not used for just 65,535
    /// runs takes its counts for those of the last.
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

    /// Of an object that the current task has just made.
    #[inline]
    pub fn now() -> Self {
        let made = Self::new();
        if let Some(cx) = clock::virtual_task() {
            made.forget(&cx.run);
            made.note(cx);
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
        let Some(cx) = clock::virtual_task() else { return };
        match self.use_by(cx, lines * LINE_BYTES as u64) {
            Level::Private => {}
            Level::Socket => {
                if let Some(caches) = &cx.run.machine.caches {
                    cx.ledger.add_units(cx.op.get(), SOCKET_LINES, lines);
                    let span = Nanos((caches.socket_hit_ps * lines + 500) / 1_000);
                    clock::compute(cx, cx.software(Activity::SOFTWARE), span);
                }
            }
            Level::Memory => {
                clock::work(Work::MISS, lines);
                medium();
            }
        }
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
        self.note(cx);
        let inflow = &cx.run.inflow;
        match level {
            Level::Private => {}
            Level::Socket => {
                add(&inflow.cores[usize::from(core_of(cx))], bytes.div_ceil(LINE_BYTES as u64) as u32);
            }
            Level::Memory => inflow.add(cx, bytes),
        }
        level
    }

    fn level(&self, cx: &Context) -> Level {
        let (run, core) = (&cx.run, core_of(cx));
        if self.run.load(Relaxed) != mark(run) {
            self.forget(run);
            return Level::Memory;
        }
        let since =
            |count: &AtomicU32, then: &AtomicU32| count.load(Relaxed).wrapping_sub(then.load(Relaxed));
        let private = run.machine.caches.as_ref().map(Caches::private_lines);
        let is_private = |lines| {
            self.core.load(Relaxed) == core
                && u64::from(since(&run.inflow.cores[usize::from(core)], &self.private)) <= lines
        };
        if private.is_some_and(is_private) {
            return Level::Private;
        }
        let socket = usize::from(run.machine.socket(core));
        let Some(then) = self.count_of(socket) else { return Level::Memory };
        let age = since(run.inflow.of_socket(socket), then);
        if u64::from(age) <= run.machine.cache_lines() { Level::Socket } else { Level::Memory }
    }

    /// The current task has used the object now.
    fn note(&self, cx: &Context) {
        let (inflow, core) = (&cx.run.inflow, core_of(cx));
        let socket = usize::from(cx.run.machine.socket(core));
        let count = self.count_of(socket).unwrap_or_else(|| self.make_far(&cx.run, socket));
        count.store(inflow.of_socket(socket).load(Relaxed), Relaxed);
        self.private.store(inflow.cores[usize::from(core)].load(Relaxed), Relaxed);
        self.core.store(core, Relaxed);
    }

    /// In `run` the object has been in no cache yet: as if more than each holds had come in since.
    fn forget(&self, run: &RunShared) {
        for socket in 0..SOCKETS {
            if let Some(count) = self.count_of(socket) {
                count.store(gone(run, socket), Relaxed);
            }
        }
        self.core.store(u16::MAX, Relaxed);
        self.run.store(mark(run), Relaxed);
    }

    /// The count of a socket, if the object has one.
    #[inline]
    fn count_of(&self, socket: usize) -> Option<&AtomicU32> {
        match (socket % SOCKETS).checked_sub(NEAR) {
            None => Some(&self.near[socket % SOCKETS]),
            // SAFETY: null, or a box that was published whole by `make_far` and lives as long as the object.
            Some(place) => unsafe { self.far.load(Acquire).as_ref() }.map(|far| &far[place]),
        }
    }

    /// Makes the counts of the far sockets, in whose caches the object has not been, and returns that of `socket`.
    #[cold]
    fn make_far(&self, run: &RunShared, socket: usize) -> &AtomicU32 {
        let counts: Far = array::from_fn(|place| AtomicU32::new(gone(run, NEAR + place)));
        let made = Box::into_raw(Box::new(counts));
        if self.far.compare_exchange(ptr::null_mut(), made, AcqRel, Acquire).is_err() {
            // SAFETY: it came from a box just now, and was not published: another thread's was.
            drop(unsafe { Box::from_raw(made) });
        }
        self.count_of(socket).expect("a far socket has a count now")
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

/// What marks a run in an object; never 0.
fn mark(run: &RunShared) -> u16 {
    (run.number % u32::from(u16::MAX)) as u16 + 1
}

/// A count of `socket` after which its cache has lost whatever was used then.
fn gone(run: &RunShared, socket: usize) -> u32 {
    run.inflow.of_socket(socket).load(Relaxed).wrapping_sub(run.machine.cache_lines() as u32 + 1)
}

impl Default for Recency {
    fn default() -> Self {
        Self::new()
    }
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
