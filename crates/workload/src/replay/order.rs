//! Waits of steps for steps of other threads of a copy.
//!
//! A thread that ends a step which others wait for says so ([`Threads::ended`]), and wakes those that are asleep for it and no
//! other. Under the virtual clock it lets all that are further behind go on before it says so: none sees a step as ended before the
//! time at which it was.
//!
//! Lock order: a gate, then nothing; a park, then nothing.

use sim::sync::{AtomicBool, AtomicU32, Ordering::SeqCst};
use sim::{Condvar, LockClass, Mutex};

pub(super) static ORDER: LockClass = LockClass::new("replay.order");

/// A thread: how far it is, who waits for it, and where it sleeps.
struct Progress {
    /// Steps that have ended, as far as others wait for them.
    ended: AtomicU32,
    /// Entries of `gate`.
    waiting: AtomicU32,
    /// The steps that are waited for, each with the thread that waits.
    gate: Mutex<Vec<(u32, usize)>>,
    /// Whether what it waits for has come.
    park: Mutex<bool>,
    called: Condvar,
}

/// The threads of a copy.
pub(super) struct Threads {
    all: Vec<Progress>,
    stopped: AtomicBool,
}

impl Threads {
    pub(super) fn new(count: usize) -> Self {
        let progress = |_| Progress {
            ended: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            gate: Mutex::new(&ORDER, Vec::new()),
            park: Mutex::new(&ORDER, false),
            called: Condvar::of_class(&ORDER),
        };
        Self { all: (0..count).map(progress).collect(), stopped: AtomicBool::new(false) }
    }

    /// Waits until `thread` has ended its step number `step`, or the replay is stopped. Says whether it had to.
    pub(super) fn wait(&self, me: usize, thread: usize, step: u32) -> bool {
        let of = &self.all[thread];
        if of.ended.load(SeqCst) > step || self.is_stopped() {
            return false;
        }
        {
            let mut gate = of.gate.lock();
            // Before the second look, so that either this sees the end of the step or its thread sees who waits.
            of.waiting.fetch_add(1, SeqCst);
            if of.ended.load(SeqCst) > step || self.is_stopped() {
                of.waiting.fetch_sub(1, SeqCst);
                return false;
            }
            gate.push((step, me));
        }
        let own = &self.all[me];
        let mut called = own.park.lock();
        while !*called {
            called = own.called.wait(called);
        }
        *called = self.is_stopped();
        true
    }

    /// A step that others wait for has ended.
    pub(super) fn ended(&self, me: usize, step: u32) {
        sim::interact();
        let own = &self.all[me];
        own.ended.store(step + 1, SeqCst);
        if own.waiting.load(SeqCst) == 0 {
            return;
        }
        let mut due = Vec::new();
        {
            let mut gate = own.gate.lock();
            gate.retain(|(wanted, who)| {
                let comes = *wanted <= step;
                due.extend(comes.then_some(*who));
                !comes
            });
            own.waiting.fetch_sub(due.len() as u32, SeqCst);
        }
        for who in due {
            self.call(who);
        }
    }

    fn call(&self, who: usize) {
        *self.all[who].park.lock() = true;
        self.all[who].called.notify_one();
    }

    /// Ends all waits, now and later.
    pub(super) fn stop(&self) {
        if !self.stopped.swap(true, SeqCst) {
            (0..self.all.len()).for_each(|who| self.call(who));
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Threads({})", self.all.len())
    }
}
