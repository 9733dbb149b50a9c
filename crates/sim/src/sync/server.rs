//! A resource that serves one request at a time in each of its slots: a bus, a bank, the writers that a
//! medium admits.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::clock;
use crate::context::{self, Context};
use crate::ledger::Activity;
use crate::units::Nanos;

/// A first-come-first-served queue with a fixed number of slots. A request brings its service time and takes
/// the slot that is free first; with one slot and constant service this is the D of M/D/1.
#[derive(Debug)]
pub struct Server {
    /// When each slot becomes free, in nanoseconds of the run `run`.
    free_at: Box<[AtomicU64]>,
    run: AtomicU32,
    /// Real clock: held while a slot is chosen. Tasks of a virtual run share one host thread and need it not.
    choosing: Mutex<()>,
}

impl Server {
    /// A server with `slots` slots (at least one).
    pub fn new(slots: usize) -> Self {
        let free_at = (0..slots.max(1)).map(|_| AtomicU64::new(0)).collect();
        Self { free_at, run: AtomicU32::new(0), choosing: Mutex::new(()) }
    }

    /// Serves a request of the current task: waits for a slot (booked as [`Activity::MEDIUM_WAIT`]), then for
    /// the service (booked on the activity in scope). Does nothing outside a run.
    #[inline]
    pub fn serve(&self, service: Nanos) {
        if let Some(cx) = context::current() {
            let end = self.reserve_for(cx, service);
            clock::medium_until(Activity::MEDIUM_WAIT, Nanos(end.0 - service.0));
            clock::medium_until(cx.activity.get(), end);
        }
    }

    /// Takes the next turn for `service` and returns when it will be over, without waiting for it. Outside a
    /// run there are no turns and no time: the end is `service`.
    #[inline]
    pub fn reserve(&self, service: Nanos) -> Nanos {
        context::current().map_or(service, |cx| self.reserve_for(cx, service))
    }

    #[inline]
    fn reserve_for(&self, cx: &Context, service: Nanos) -> Nanos {
        if let Some(scheduler) = cx.scheduler() {
            scheduler.interact(cx);
            return self.take_turn(cx, Nanos(cx.time.get()), service);
        }
        let _choosing = self.choosing.lock();
        self.take_turn(cx, cx.now(), service)
    }

    #[inline]
    fn take_turn(&self, cx: &Context, now: Nanos, service: Nanos) -> Nanos {
        if self.run.load(Relaxed) != cx.run.number {
            self.forget(cx.run.number);
        }
        let slot = match &*self.free_at {
            [only] => only,
            slots => slots.iter().min_by_key(|slot| slot.load(Relaxed)).expect("at least one slot"),
        };
        let end = now.max(Nanos(slot.load(Relaxed))) + service;
        slot.store(end.0, Relaxed);
        end
    }

    /// Forgets an earlier run.
    #[cold]
    fn forget(&self, run: u32) {
        self.free_at.iter().for_each(|slot| slot.store(0, Relaxed));
        self.run.store(run, Relaxed);
    }
}
