//! Request threads: which of them a request wakes.
//!
//! For a program that waits for each call, most of the time of a request is wake-ups: of a thread that serves it, and of the
//! program again. Where two cores pass work to and fro, each wakes the other from its sleep, which takes longer than the service.
//! So while one thread can serve all, one does: it serves what it reads by itself, and polls for the next request before it
//! sleeps.
//!
//! ```text
//!              reads a request               finds none                    none for `poll`
//!   reader ───────────────────► serves ───► polls ───────────────────────► sleeps
//!     ▲                           │ about to wait: hands the right to read on
//!     └── the last that came ◄────┴── parked (a stack)      monitor: the first of them checks now and then
//! ```
//!
//! * **Readers.** `readers` threads have the right to read, at most `wanted`. A thread that is about to wait, for a lock, the disk
//!   or anything else in `sim::sync`, hands it on ([`about_to_wait`]). Of the parked threads the one that came last gets it.
//! * **More readers.** A reader that finds request after request waiting asks for one more, up to `most`. Several readers do not
//!   poll but sleep in `read(2)`, where the kernel wakes one for each request: every core is busy then, and a program and the
//!   thread that serves it alternate on one core. A reader that has slept for long goes, and so does one
//!   that mostly reads while another sleeps, unless it is the only one.
//! * **The monitor.** A wait that does not pass through `sim::sync`, such as a page fault in the pool, is noticed by the first
//!   parked thread: when no request was read for one to four milliseconds and no reader sleeps, it becomes a reader. It sleeps
//!   while the mount is idle.
//! * **Adaptive polling.** A single reader that finds nothing polls for `poll`, since the next request of a program that was just
//!   answered often comes soon. It stops when that fails repeatedly, as it does when the programs are slow or have no core of
//!   their own, and begins again when its sleeps are shorter than that ([`Adaptive`]). `poll` 0 never polls.
//! * **The end.** A thread that finds the mount gone, or that cannot read, ends all others. Those that sleep in `read(2)` end when
//!   the connection is aborted ([`crate::attach`]), or at their next request, which is not served. Those that serve end what they
//!   do.
//!
//! Descriptors of their own for several readers (`FUSE_DEV_IOC_CLONE`) would share the one queue of requests, and divide only the
//! lists of those that are being served. Threads are not bound to cores: the kernel does not choose the reader by the core of the
//! program, and a program that is woken moves to an idle core, so a binding would not bring the two together.
//!
//! Lock order: `state` is taken last, and nothing is taken under it.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::polling::Adaptive;
use crate::wire::{Device, Read};

/// After so long the monitor checks; while requests are served, after twice as long each time, up to the second.
const TICK: Duration = Duration::from_millis(1);
const TICK_LONGEST: Duration = Duration::from_millis(4);

/// After so many checks of an idle mount the monitor sleeps until it is woken.
const IDLE_TICKS: u32 = 20;

/// A sleep after which the monitor is woken again, and one of several readers goes.
const LONG_SLEEP: Duration = Duration::from_millis(10);

/// A reader that finds a request waiting so often in succession asks for another reader.
const BACKLOG: u32 = 8;

/// A read that takes no longer has found a request that was waiting.
const AT_ONCE: Duration = Duration::from_micros(2);

/// How many threads may read, how long they poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// All threads.
    pub(crate) threads: usize,
    /// Those that may read at once while none of them waits.
    pub(crate) most: usize,
    /// How long a reader polls before it sleeps.
    pub(crate) poll: Duration,
}

/// The request threads of a mount.
#[derive(Debug)]
pub(crate) struct RequestThreads {
    device: Arc<Device>,
    limits: Limits,
    state: Mutex<State>,
    /// Requests that were read so far.
    begun: AtomicU64,
    /// Readers that sleep until a request comes.
    asleep: AtomicUsize,
    /// Several threads read: none of them polls.
    many: AtomicBool,
    /// More threads read than should: one of them is to park.
    surplus: AtomicBool,
    /// Threads that serve a request.
    serving: AtomicUsize,
    ended: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// Threads that have the right to read.
    readers: usize,
    /// How many should have it.
    wanted: usize,
    /// Threads that wait for it; the first is the monitor.
    parked: Vec<Thread>,
}

/// What a request thread knows of itself.
struct Current {
    threads: Arc<RequestThreads>,
    /// It has the right to read.
    reads: Cell<bool>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The calling thread may wait for something: it hands the right to read on, if it has it.
pub(crate) fn about_to_wait() {
    CURRENT.with_borrow(|current| {
        if let Some(current) = current
            && current.reads.replace(false)
        {
            current.threads.hand_on();
        }
    });
}

impl RequestThreads {
    pub(crate) fn new(device: Arc<Device>, limits: Limits) -> Arc<Self> {
        let state = State { readers: 0, wanted: 1, parked: Vec::new() };
        Arc::new(Self {
            device,
            limits: Limits { most: limits.most.clamp(1, limits.threads), ..limits },
            state: Mutex::new(state),
            begun: AtomicU64::new(0),
            asleep: AtomicUsize::new(0),
            many: AtomicBool::new(false),
            surplus: AtomicBool::new(false),
            serving: AtomicUsize::new(0),
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
        CURRENT.set(Some(Current { threads: Arc::clone(self), reads: Cell::new(false) }));
        sim::sync::before_wait(Some(about_to_wait));
        let mut adaptive = Adaptive::new(self.limits.poll);
        let mut done = Ok(());
        while self.take_turn() {
            match self.next(buffer, &mut adaptive) {
                Ok(Read::Bytes(bytes)) if self.serve_unless_ended(|| serve(&buffer[..bytes])) => {}
                Ok(Read::Nothing) => {}
                Ok(_) => self.end(),
                Err(error) => {
                    done = Err(error);
                    self.end();
                }
            }
        }
        sim::sync::before_wait(None);
        CURRENT.set(None);
        done
    }

    /// Serves a request with `serve`, unless the end has come; says whether there may be more.
    fn serve_unless_ended(&self, serve: impl FnOnce() -> bool) -> bool {
        // Counted before the end is looked at: who sees the end and then none that serves, sees none begin.
        self.serving.fetch_add(1, SeqCst);
        let has_more = !self.ended.load(SeqCst) && serve();
        self.serving.fetch_sub(1, SeqCst);
        has_more
    }

    /// Whether a thread serves a request. After the end none begins to.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(SeqCst) > 0
    }

    /// Keeps the right to read, or waits for it. False when the mount has gone.
    fn take_turn(&self) -> bool {
        if reads() && !self.surplus.load(Relaxed) {
            return !self.ended.load(Relaxed);
        }
        loop {
            let mut state = self.state.lock();
            // Under the lock: after the end no thread may park any more.
            if self.ended.load(Relaxed) {
                return false;
            }
            if reads() && state.readers <= state.wanted {
                return true;
            }
            if reads() {
                self.add_readers(&mut state, -1);
                set_reads(false);
            }
            if state.readers < state.wanted {
                self.add_readers(&mut state, 1);
                set_reads(true);
                return true;
            }
            state.parked.push(thread::current());
            drop(state);
            if self.wait_for_turn() {
                set_reads(true);
                return true;
            }
        }
    }

    /// Gives the right to read to the thread that was parked last. The caller has given it up.
    fn hand_on(&self) {
        let mut state = self.state.lock();
        self.add_readers(&mut state, -1);
        if state.readers == 0 {
            self.wake_one(&mut state);
        }
    }

    fn wake_one(&self, state: &mut State) {
        if let Some(thread) = state.parked.pop() {
            self.add_readers(state, 1);
            thread.unpark();
        }
    }

    fn add_readers(&self, state: &mut State, count: isize) {
        state.readers = state.readers.saturating_add_signed(count);
        self.surplus.store(state.readers > state.wanted, Relaxed);
    }

    /// A parked thread waits until it is given the right to read, or takes it as the monitor, which the first of them is: when all
    /// readers are blocked in what they serve. False when the mount has gone.
    fn wait_for_turn(&self) -> bool {
        let me = thread::current().id();
        let (mut before, mut idle, mut is_first) = (self.begun.load(Relaxed), 0, true);
        let (mut seen, mut tick) = (before, TICK);
        loop {
            match is_first && idle < IDLE_TICKS {
                true => thread::park_timeout(tick),
                false => thread::park(),
            }
            if self.ended.load(Relaxed) {
                return false;
            }
            let mut state = self.state.lock();
            let Some(place) = state.parked.iter().position(|parked| parked.id() == me) else {
                return true; // the thread that took it off the stack has counted it
            };
            is_first = place == 0;
            let (asleep, begun) = (self.asleep.load(Relaxed) > 0, self.begun.load(Relaxed));
            // A reader that sleeps now may have served meanwhile: only a mount without requests is idle.
            (idle, tick) = match asleep && begun == seen {
                true => (idle + 1, tick),
                false => (0, (2 * tick).min(TICK_LONGEST)),
            };
            seen = begun;
            if asleep {
                continue;
            }
            if is_first && begun == before {
                self.take_as_monitor(&mut state);
                return true;
            }
            before = begun;
        }
    }

    /// The first parked thread becomes a reader beside those that are blocked, and the next one the monitor.
    fn take_as_monitor(&self, state: &mut State) {
        state.parked.remove(0);
        self.add_readers(state, 1);
        self.want(state, state.wanted.max(state.readers));
        if let Some(next) = state.parked.first() {
            next.unpark();
        }
    }

    /// Changes the number of readers; several of them sleep in `read(2)`.
    fn want(&self, state: &mut State, wanted: usize) {
        state.wanted = wanted.max(1);
        self.surplus.store(state.readers > state.wanted, Relaxed);
        let many = state.wanted > 1;
        if self.many.swap(many, Relaxed) != many {
            // It cannot fail on a descriptor that is open; if it did, readers would poll in vain, or wait.
            let _ = self.device.set_waiting(many);
        }
    }

    /// Reads the next request, for which it may sleep. `Nothing` when the thread is to ask again whether it may read.
    fn next(&self, buffer: &mut [u8], adaptive: &mut Adaptive) -> io::Result<Read> {
        if self.many.load(Relaxed) {
            return self.next_of_many(buffer, adaptive);
        }
        match self.device.read(buffer)? {
            Read::Nothing => adaptive.backlog = 0,
            found => {
                self.found(adaptive);
                return Ok(found);
            }
        }
        if let Some(found) = self.poll(buffer, adaptive)? {
            return Ok(found);
        }
        let since = Instant::now();
        self.asleep.fetch_add(1, Relaxed);
        self.device.wait();
        self.asleep.fetch_sub(1, Relaxed);
        self.slept(since.elapsed(), adaptive);
        let found = self.device.read(buffer)?;
        self.begun.fetch_add(u64::from(found != Read::Nothing), Relaxed);
        Ok(found)
    }

    fn next_of_many(&self, buffer: &mut [u8], adaptive: &mut Adaptive) -> io::Result<Read> {
        let since = Instant::now();
        self.asleep.fetch_add(1, Relaxed);
        let found = self.device.read(buffer);
        self.asleep.fetch_sub(1, Relaxed);
        let (slept, spare) = (since.elapsed(), self.asleep.load(Relaxed) > 0);
        if found.as_ref().is_ok_and(|found| *found == Read::Nothing) {
            return found; // there are not many any more
        }
        if adaptive.is_spare(spare) {
            self.fewer();
        }
        if slept < AT_ONCE {
            self.found(adaptive);
            return found;
        }
        adaptive.backlog = 0;
        self.begun.fetch_add(1, Relaxed);
        self.slept(slept, adaptive);
        found
    }

    fn fewer(&self) {
        let mut state = self.state.lock();
        let wanted = state.wanted;
        self.want(&mut state, wanted - 1);
    }

    /// A reader was asleep.
    fn slept(&self, span: Duration, adaptive: &mut Adaptive) {
        adaptive.slept(span);
        if span > LONG_SLEEP {
            if let Some(monitor) = self.state.lock().parked.first() {
                monitor.unpark();
            }
            self.fewer();
        }
    }

    /// A request was waiting.
    fn found(&self, adaptive: &mut Adaptive) {
        self.begun.fetch_add(1, Relaxed);
        adaptive.backlog += 1;
        if adaptive.backlog >= BACKLOG {
            adaptive.backlog = 0;
            let mut state = self.state.lock();
            let more = state.wanted + 1;
            if more <= self.limits.most {
                self.want(&mut state, more);
                self.wake_one(&mut state);
            }
        }
    }

    /// Polls, while that has paid off.
    fn poll(&self, buffer: &mut [u8], adaptive: &mut Adaptive) -> io::Result<Option<Read>> {
        if !adaptive.polls {
            return Ok(None);
        }
        let since = Instant::now();
        while since.elapsed() < self.limits.poll {
            match self.device.read(buffer)? {
                Read::Nothing => std::hint::spin_loop(),
                found => {
                    self.begun.fetch_add(1, Relaxed);
                    adaptive.hit();
                    return Ok(Some(found));
                }
            }
        }
        adaptive.missed();
        Ok(None)
    }

    /// Ends all threads that do not sleep in `read(2)`, and those as soon as they wake.
    pub(crate) fn end(&self) {
        self.ended.store(true, SeqCst);
        for thread in &self.state.lock().parked {
            thread.unpark();
        }
    }
}

#[cfg(test)]
impl RequestThreads {
    /// As many threads as may are to read.
    pub(crate) fn read_with_all(&self) {
        self.want(&mut self.state.lock(), self.limits.most);
    }

    pub(crate) fn asleep(&self) -> usize {
        self.asleep.load(Relaxed)
    }
}

fn reads() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_some_and(|current| current.reads.get()))
}

fn set_reads(reads: bool) {
    CURRENT.with_borrow(|current| {
        if let Some(current) = current {
            current.reads.set(reads);
        }
    });
}
