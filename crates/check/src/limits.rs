//! Limits of work: how many threads of the host, and until when.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Work that has begun always ends; no work begins after the end of the time or after a request to stop.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Threads of the host.
    pub jobs: usize,
    /// The end of the time.
    pub end: Option<Instant>,
    /// Set from another thread to stop.
    pub stop: Arc<AtomicBool>,
}

impl Default for Limits {
    /// As many threads as there are cores, without a time limit.
    fn default() -> Self {
        Self::of(std::thread::available_parallelism().map_or(1, usize::from))
    }
}

impl Limits {
    /// On `jobs` threads, without a time limit.
    pub fn of(jobs: usize) -> Self {
        Self { jobs, end: None, stop: Arc::default() }
    }

    /// Whether no more work may begin.
    pub fn are_reached(&self) -> bool {
        self.stop.load(Relaxed) || self.end.is_some_and(|end| end <= Instant::now())
    }

    /// Runs `work` on all threads, which share it out among themselves.
    pub(crate) fn on_threads(&self, work: impl Fn() + Sync) {
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(&work);
            }
        });
    }

    /// Does the work with the numbers `0..count` in parallel and returns the results in the order of the numbers, with any number
    /// of threads. When the limits are reached, the last numbers are missing.
    pub(crate) fn side_by_side<T: Send>(&self, count: usize, one: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
        let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        self.on_threads(|| {
            while !self.are_reached() {
                let number = next.fetch_add(1, Relaxed);
                if number >= count {
                    break;
                }
                let came = one(number);
                found.lock().expect("no thread panics with it").push((number, came));
            }
        });
        let mut found = found.into_inner().expect("no thread panicked");
        found.sort_by_key(|(number, _)| *number);
        found.into_iter().map(|(_, came)| came).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_is_ended_and_nothing_is_begun_after_a_stop() {
        let limits = Limits::of(3);
        let squares = limits.side_by_side(100, &|number| {
            if number == 40 {
                limits.stop.store(true, Relaxed);
            }
            number * number
        });
        assert!((41..=43).contains(&squares.len()), "{}", squares.len());
        assert!(squares.iter().enumerate().all(|(number, square)| *square == number * number));
        assert!(limits.side_by_side(100, &|number| number).is_empty());
        let late = Limits { end: Some(Instant::now()), ..Limits::of(2) };
        assert!(late.side_by_side(100, &|number| number).is_empty());
    }
}
