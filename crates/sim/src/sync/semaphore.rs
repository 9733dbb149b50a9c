//! Counted permits.

use super::{Condvar, Mutex};
use crate::ledger::LockClass;

/// A counting semaphore. Waits are booked on its class.
pub struct Semaphore {
    permits: Mutex<u64>,
    posted: Condvar,
}

impl Semaphore {
    /// A semaphore with `permits` to give.
    pub const fn new(class: &'static LockClass, permits: u64) -> Self {
        Self { permits: Mutex::new(class, permits), posted: Condvar::of_class(class) }
    }

    /// Waits for `n` permits and takes them.
    pub fn acquire(&self, n: u64) {
        let mut permits = self.permits.lock();
        while *permits < n {
            permits = self.posted.wait(permits);
        }
        *permits -= n;
    }

    /// Takes `n` permits if they are there.
    pub fn try_acquire(&self, n: u64) -> bool {
        let mut permits = self.permits.lock();
        let enough = *permits >= n;
        if enough {
            *permits -= n;
        }
        enough
    }

    /// Gives `n` permits.
    pub fn release(&self, n: u64) {
        *self.permits.lock() += n;
        self.posted.notify_all();
    }

    /// The permits that are there now.
    pub fn available(&self) -> u64 {
        *self.permits.lock()
    }
}
