//! Which thread a request wakes.
//!
//! For a program that waits for each call, most of the time of a request is wake-ups: of a thread that serves it, and of the
//! program again. Where two cores pass work to and fro, each wakes the other from its sleep, which takes longer than the service.
//! So while one thread can serve all, one does: it serves what it reads by itself, and looks for the next request before it
//! sleeps.
//!
//! ```text
//!              reads a request               finds none                    none for `poll`
//!   reader ───────────────────► serves ───► looks again and again ───────► sleeps
//!     ▲                           │ about to wait: hands the right to read on
//!     └── the last who came ◄─────┴── parked (a stack)      watch: the first of them looks every millisecond
//! ```
//!
//! * **The right to read.** `reading` threads have it, at most `wanted`. A thread that is about to wait, for a lock, the disk or
//!   anything else in `sim::sync`, hands it on ([`about_to_wait`]). Of the parked threads the one that came last gets it.
//! * **More readers.** A reader that finds request after request waiting asks for one more, up to `most`. Several readers do not
//!   look but sleep in `read(2)`, where the kernel wakes one for each request: every core is busy then, and a program and the
//!   thread that serves it alternate on one core. A reader that has slept for long goes, and so does one
//!   that mostly reads while another sleeps, unless it is the only one.
//! * **The watch.** What cannot be seen to wait, such as a page fault in the pool, is noticed by the first parked thread: when
//!   nobody has read for a millisecond and the same requests are served as before, it becomes a reader. It sleeps while the mount
//!   is idle.
//! * **Polling.** A single reader that finds nothing looks again for `poll`, since the next request of a program that was just
//!   answered often comes soon. It stops when that fails repeatedly, as it does when the programs are slow or have no core of
//!   their own, and begins again when its sleeps are shorter than that. `poll` 0 never polls.
//!
//! Descriptors of their own for several readers (`FUSE_DEV_IOC_CLONE`) would share the one queue of requests, and divide only the
//! lists of those that are being served. Threads are not bound to cores: the kernel does not choose the reader by the core of the
//! program, and a program that is woken moves to an idle core, so a binding would not bring the two together.
//!
//! Lock order: `state` is taken last, and nothing is taken under it.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::wire::{Device, Read};

/// How often the watch looks.
const TICK: Duration = Duration::from_millis(1);

/// After so many looks at an idle mount the watch sleeps until it is called.
const IDLE_TICKS: u32 = 20;

/// A sleep after which the watch is called again, and one of several readers goes.
const LONG_SLEEP: Duration = Duration::from_millis(10);

/// A reader that finds a request waiting so often in succession asks for help.
const BACKLOG: u32 = 8;

/// One of several readers judges after so many requests whether there are too many: when for most of them another was asleep. If
/// that was wrong, requests will wait again soon.
const WINDOW: u32 = 512;

/// A read that takes no longer has found a request that was waiting.
const AT_ONCE: Duration = Duration::from_micros(2);

/// How many threads may read, how long they look for requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// All threads.
    pub(crate) threads: usize,
    /// Those that may read at once while none of them waits.
    pub(crate) most: usize,
    /// How long a reader looks before it sleeps.
    pub(crate) poll: Duration,
}

/// The threads of a mount.
#[derive(Debug)]
pub(crate) struct Crew {
    device: Arc<Device>,
    limits: Limits,
    state: Mutex<State>,
    /// Requests that were read so far.
    begun: AtomicU64,
    /// Readers that sleep until a request comes.
    asleep: AtomicUsize,
    /// Several threads read: none of them polls.
    many: AtomicBool,
    ended: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// Threads that have the right to read.
    reading: usize,
    /// How many should have it.
    wanted: usize,
    /// Threads that wait for it; the first is the watch.
    parked: Vec<Thread>,
}

/// A thread's place in a crew.
struct Seat {
    crew: Arc<Crew>,
    /// It has the right to read.
    reads: Cell<bool>,
}

thread_local! {
    static SEAT: RefCell<Option<Seat>> = const { RefCell::new(None) };
}

/// The calling thread may wait for something: it hands the right to read on, if it has it.
pub(crate) fn about_to_wait() {
    SEAT.with_borrow(|seat| {
        if let Some(seat) = seat
            && seat.reads.replace(false)
        {
            seat.crew.hand_on();
        }
    });
}

impl Crew {
    pub(crate) fn new(device: Arc<Device>, limits: Limits) -> Arc<Self> {
        let state = State { reading: 0, wanted: 1, parked: Vec::new() };
        Arc::new(Self {
            device,
            limits: Limits { most: limits.most.clamp(1, limits.threads), ..limits },
            state: Mutex::new(state),
            begun: AtomicU64::new(0),
            asleep: AtomicUsize::new(0),
            many: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    /// Serves until the mount has gone: one of `limits.threads` threads that call this. `serve` gets each request and says whether
    /// there may be more.
    pub(crate) fn work(
        self: &Arc<Self>,
        buffer: &mut [u8],
        mut serve: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        SEAT.set(Some(Seat { crew: Arc::clone(self), reads: Cell::new(false) }));
        sim::sync::before_wait(Some(about_to_wait));
        let mut patience = Patience::new(self.limits.poll);
        let mut done = Ok(());
        while self.take_turn() {
            match self.next(buffer, &mut patience) {
                Ok(Read::Bytes(bytes)) if serve(&buffer[..bytes]) => {}
                Ok(Read::Nothing) => {}
                Ok(_) => self.end(),
                Err(error) => {
                    done = Err(error);
                    self.end();
                }
            }
        }
        sim::sync::before_wait(None);
        SEAT.set(None);
        done
    }

    /// Keeps the right to read, or waits for it. False when the mount has gone.
    fn take_turn(&self) -> bool {
        loop {
            let mut state = self.state.lock();
            // Under the lock: after the end no thread may park any more.
            if self.ended.load(Relaxed) {
                return false;
            }
            let surplus = state.reading > state.wanted;
            if reads() && !surplus {
                return true;
            }
            if reads() {
                state.reading -= 1;
                set_reads(false);
            }
            if state.reading < state.wanted {
                state.reading += 1;
                set_reads(true);
                return true;
            }
            state.parked.push(thread::current());
            drop(state);
            if self.is_called() {
                set_reads(true);
                return true;
            }
        }
    }

    /// Gives the right to read to the thread that was parked last. The caller has given it up.
    fn hand_on(&self) {
        let mut state = self.state.lock();
        state.reading -= 1;
        if state.reading == 0 {
            Self::call_one(&mut state);
        }
    }

    fn call_one(state: &mut State) {
        if let Some(thread) = state.parked.pop() {
            state.reading += 1;
            thread.unpark();
        }
    }

    /// A parked thread waits until it is given the right to read, or takes it as the watch, which the first of them is: when the
    /// readers are stuck in what they serve. False when the mount has gone.
    fn is_called(&self) -> bool {
        let me = thread::current().id();
        let (mut before, mut idle, mut is_first) = (self.begun.load(Relaxed), 0, true);
        loop {
            match is_first && idle < IDLE_TICKS {
                true => thread::park_timeout(TICK),
                false => thread::park(),
            }
            if self.ended.load(Relaxed) {
                return false;
            }
            let mut state = self.state.lock();
            let Some(place) = state.parked.iter().position(|parked| parked.id() == me) else {
                return true; // who took it off the stack has counted it
            };
            (is_first, idle) = (place == 0, idle + 1);
            if self.asleep.load(Relaxed) > 0 {
                continue;
            }
            let begun = self.begun.load(Relaxed);
            if is_first && begun == before {
                self.take_as_watch(&mut state);
                return true;
            }
            (before, idle) = (begun, 0);
        }
    }

    /// The first parked thread becomes a reader beside those that are stuck, and the next one watches.
    fn take_as_watch(&self, state: &mut State) {
        state.parked.remove(0);
        state.reading += 1;
        self.want(state, state.wanted.max(state.reading));
        if let Some(next) = state.parked.first() {
            next.unpark();
        }
    }

    /// Changes the number of readers; several of them sleep in `read(2)`.
    fn want(&self, state: &mut State, wanted: usize) {
        state.wanted = wanted.max(1);
        let many = state.wanted > 1;
        if self.many.swap(many, Relaxed) != many {
            // It cannot fail on a descriptor that is open; if it did, readers would look in vain, or wait.
            let _ = self.device.set_waiting(many);
        }
    }

    /// Reads the next request, for which it may sleep. `Nothing` when the thread is to ask again whether it may read.
    fn next(&self, buffer: &mut [u8], patience: &mut Patience) -> io::Result<Read> {
        if self.many.load(Relaxed) {
            return self.next_of_many(buffer, patience);
        }
        match self.device.read(buffer)? {
            Read::Nothing => patience.backlog = 0,
            found => {
                self.found(patience);
                return Ok(found);
            }
        }
        if let Some(found) = self.look(buffer, patience)? {
            return Ok(found);
        }
        let since = Instant::now();
        self.asleep.fetch_add(1, Relaxed);
        self.device.wait();
        self.asleep.fetch_sub(1, Relaxed);
        self.slept(since.elapsed(), patience);
        let found = self.device.read(buffer)?;
        self.begun.fetch_add(u64::from(found != Read::Nothing), Relaxed);
        Ok(found)
    }

    fn next_of_many(&self, buffer: &mut [u8], patience: &mut Patience) -> io::Result<Read> {
        let since = Instant::now();
        self.asleep.fetch_add(1, Relaxed);
        let found = self.device.read(buffer);
        self.asleep.fetch_sub(1, Relaxed);
        let (slept, spare) = (since.elapsed(), self.asleep.load(Relaxed) > 0);
        if found.as_ref().is_ok_and(|found| *found == Read::Nothing) {
            return found; // there are not many any more
        }
        if patience.is_spare(spare) {
            self.fewer();
        }
        if slept < AT_ONCE {
            self.found(patience);
            return found;
        }
        patience.backlog = 0;
        self.begun.fetch_add(1, Relaxed);
        self.slept(slept, patience);
        found
    }

    fn fewer(&self) {
        let mut state = self.state.lock();
        let wanted = state.wanted;
        self.want(&mut state, wanted - 1);
    }

    /// A reader was asleep.
    fn slept(&self, span: Duration, patience: &mut Patience) {
        patience.slept(span);
        if span > LONG_SLEEP {
            if let Some(watch) = self.state.lock().parked.first() {
                watch.unpark();
            }
            self.fewer();
        }
    }

    /// A request was waiting.
    fn found(&self, patience: &mut Patience) {
        self.begun.fetch_add(1, Relaxed);
        patience.backlog += 1;
        if patience.backlog >= BACKLOG {
            patience.backlog = 0;
            let mut state = self.state.lock();
            let more = state.wanted + 1;
            if more <= self.limits.most {
                self.want(&mut state, more);
                Self::call_one(&mut state);
            }
        }
    }

    /// Looks again for as long as that seems worth it.
    fn look(&self, buffer: &mut [u8], patience: &mut Patience) -> io::Result<Option<Read>> {
        if !patience.polls {
            return Ok(None);
        }
        let since = Instant::now();
        while since.elapsed() < self.limits.poll {
            match self.device.read(buffer)? {
                Read::Nothing => std::hint::spin_loop(),
                found => {
                    self.begun.fetch_add(1, Relaxed);
                    patience.hit();
                    return Ok(Some(found));
                }
            }
        }
        patience.missed();
        Ok(None)
    }

    fn end(&self) {
        self.ended.store(true, Relaxed);
        for thread in &self.state.lock().parked {
            thread.unpark();
        }
    }
}

fn reads() -> bool {
    SEAT.with_borrow(|seat| seat.as_ref().is_some_and(|seat| seat.reads.get()))
}

fn set_reads(reads: bool) {
    SEAT.with_borrow(|seat| {
        if let Some(seat) = seat {
            seat.reads.set(reads);
        }
    });
}

/// Whether a reader polls, and how many are needed: what it has learned from its last requests.
#[derive(Debug, Default)]
struct Patience {
    longest: Duration,
    polls: bool,
    hits: u32,
    misses: u32,
    /// Sleeps in succession that a poll would have spared.
    short: u32,
    /// So many of those make it poll again.
    needed: u32,
    /// Requests that were waiting, in succession.
    backlog: u32,
    /// Requests of one of several readers, and those of them at which another was asleep.
    window: u32,
    spare: u32,
}

impl Patience {
    /// Misses among so many hits end the polling.
    const MISSES: u32 = 4;
    const FEW: u32 = 4;
    const MANY: u32 = 1 << 12;

    fn new(longest: Duration) -> Self {
        Self { longest, needed: Self::FEW, ..Self::default() }
    }

    fn hit(&mut self) {
        self.hits += 1;
        if self.hits >= 32 {
            (self.hits, self.misses, self.needed) = (0, 0, Self::FEW);
        }
    }

    fn missed(&mut self) {
        self.misses += 1;
        if self.misses >= Self::MISSES {
            (self.polls, self.hits, self.misses, self.short) = (false, 0, 0, 0);
            self.needed = (self.needed * 2).min(Self::MANY);
        }
    }

    /// One of several readers has read, while another was asleep or not. Says whether one of them is to go.
    fn is_spare(&mut self, other_asleep: bool) -> bool {
        self.window += 1;
        self.spare += u32::from(other_asleep);
        if self.window < WINDOW {
            return false;
        }
        let most = self.spare > WINDOW / 2;
        (self.window, self.spare) = (0, 0);
        most
    }

    fn slept(&mut self, span: Duration) {
        if self.polls {
            return;
        }
        self.short = if span < self.longest { self.short + 1 } else { 0 };
        self.polls = self.short >= self.needed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_micros(20);

    #[test]
    fn polling_begins_when_sleeps_are_short_and_ends_when_it_fails() {
        let mut patience = Patience::new(POLL);
        for _ in 0..Patience::FEW {
            assert!(!patience.polls);
            patience.slept(POLL / 2);
        }
        assert!(patience.polls);
        for _ in 0..Patience::MISSES {
            patience.missed();
        }
        assert!(!patience.polls);
        for _ in 0..Patience::FEW {
            patience.slept(POLL / 2);
        }
        assert!(!patience.polls, "it takes longer the second time");
        patience.slept(POLL * 2);
        assert_eq!(patience.short, 0, "a long sleep begins the count anew");
    }

    #[test]
    fn a_reader_goes_when_another_was_asleep_most_of_the_time() {
        let mut patience = Patience::new(POLL);
        let judged = |patience: &mut Patience, of: u32| (0..WINDOW).any(|at| patience.is_spare(at % 4 < of));
        assert!(!judged(&mut patience, 1) && judged(&mut patience, 3));
    }

    #[test]
    fn polling_is_off_with_no_time_for_it() {
        let mut patience = Patience::new(Duration::ZERO);
        (0..100).for_each(|_| patience.slept(Duration::ZERO));
        assert!(!patience.polls);
    }
}
