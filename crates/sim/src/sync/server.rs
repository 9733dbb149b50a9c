//! A resource that serves one request at a time in each of its slots: a bus, a bank, the writers that a medium admits.

use parking_lot::Mutex;

use crate::clock;
use crate::context;
use crate::ledger::{self, Activity};
use crate::units::Nanos;

/// A first-come-first-served queue with a fixed number of slots. A request brings its service time and takes the slot that is
/// free first; with one slot and constant service this is the D of M/D/1.
#[derive(Debug)]
pub struct Server {
    /// When each slot becomes free, in nanoseconds of the run.
    free_at: Mutex<Box<[u64]>>,
}

impl Server {
    /// A server with `slots` slots (at least one).
    pub fn new(slots: usize) -> Self {
        Self { free_at: Mutex::new(vec![0; slots.max(1)].into_boxed_slice()) }
    }

    /// Serves a request of the current task: waits for a slot (booked as [`Activity::MediumWait`]), then for the service
    /// (booked on the activity in scope). Does nothing outside a run.
    #[inline]
    pub fn serve(&self, service: Nanos) {
        if context::current().is_some() {
            let end = self.reserve(service);
            clock::medium_until(Activity::MediumWait, Nanos(end.0 - service.0));
            clock::medium_until(ledger::current_scope(), end);
        }
    }

    /// Takes the next turn for `service` and returns when it will be over, without waiting for it.
    #[inline]
    pub fn reserve(&self, service: Nanos) -> Nanos {
        clock::interact();
        let now = clock::now().0;
        let mut slots = self.free_at.lock();
        let slot = slots.iter_mut().min().expect("at least one slot");
        let end = now.max(*slot) + service.0;
        *slot = end;
        Nanos(end)
    }
}
