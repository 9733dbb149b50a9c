//! The event generator that limiters take from.
//!
//! Filebench posts events at a rate from a thread of its own, ten periods' worth at a time, into one queue
//! that holds five seconds' worth at most. Here no task posts: the task that takes computes what has been posted
//! by now, and sleeps until the next post when that is too little. Consumers that wake at the same post
//! compete; there is no fairness.

use sim::{LockClass, Mutex, Nanos};

use super::control::Control;

pub(super) static EVENTS: LockClass = LockClass::new("filebench.events");

const PERIODS_A_POST: u64 = 10;
const QUEUE_SECONDS: u64 = 5;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The queue of events.
pub(crate) struct Events {
    post_every: Nanos,
    most: i64,
    queue: Mutex<Queue>,
}

struct Queue {
    events: i64,
    /// Time of the last post that is in `events`.
    posted: Nanos,
}

impl Events {
    /// A generator of `rate` events a second, which begins at `start`.
    pub(crate) fn new(rate: u64, start: Nanos) -> Self {
        let post_every = Nanos((PERIODS_A_POST * NANOS_PER_SECOND / rate).max(1));
        let most = i64::try_from(rate.saturating_mul(QUEUE_SECONDS))
            .unwrap_or(i64::MAX)
            .max(PERIODS_A_POST.cast_signed());
        Self { post_every, most, queue: Mutex::new(&EVENTS, Queue { events: 0, posted: start }) }
    }

    /// Takes `wanted` events, waiting for them; false when the run is over before.
    ///
    /// More than the queue can hold are taken as soon as it is full, on credit.
    pub(crate) fn take(&self, control: &Control, wanted: u64) -> bool {
        let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
        loop {
            let next = {
                let mut queue = self.queue.lock();
                self.post(&mut queue, sim::now());
                if queue.events >= wanted.min(self.most) {
                    queue.events = queue.events.saturating_sub(wanted);
                    return true;
                }
                queue.posted + self.post_every
            };
            sim::sleep_until(next.min(control.stop_at()));
            if control.is_over(sim::now()) {
                return false;
            }
        }
    }

    fn post(&self, queue: &mut Queue, now: Nanos) {
        let posts = now.since(queue.posted).0 / self.post_every.0;
        let events = i64::try_from(posts.saturating_mul(PERIODS_A_POST)).unwrap_or(i64::MAX);
        queue.events = queue.events.saturating_add(events).min(self.most);
        queue.posted += Nanos(posts * self.post_every.0);
    }
}

#[cfg(test)]
mod tests {
    use sim::{Machine, Seed, Setup};

    use super::*;

    #[test]
    fn events_come_at_the_rate_and_no_faster() {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        let taken = sim::run(&setup, || {
            let control = Control::new(false, None, false);
            let events = Events::new(100, sim::now());
            for _ in 0..300 {
                assert!(events.take(&control, 1));
            }
            sim::now()
        })
        .unwrap();
        assert!((2_900_000_000..3_100_000_000).contains(&taken.0), "{taken}");
    }

    #[test]
    fn unused_events_are_kept_for_five_seconds_and_then_lost() {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        sim::run(&setup, || {
            let control = Control::new(false, None, false);
            let events = Events::new(10, sim::now());
            sim::sleep(Nanos::from_secs(60));
            let start = sim::now();
            assert!(events.take(&control, 50));
            assert_eq!(sim::now().since(start).0 / 1_000_000, 0, "the queue was full");
            assert!(events.take(&control, 1));
            assert!(sim::now().since(start).0 > 500_000_000, "and is empty now");
        })
        .unwrap();
    }
}
