//! Adaptive polling: what a reader learns from its last requests.
//!
//! A poll that finds a request within `longest` is a hit, one that does not is a miss. [`Adaptive::MISSES`] misses among 32 hits
//! end the polling; it begins again after as many short sleeps in succession as `needed` says, a number that doubles each time.

use std::time::Duration;

/// One of several readers judges after so many requests whether there are too many: when for most of them another was asleep. If
/// that was wrong, requests will wait again soon.
const WINDOW: u32 = 512;

/// Whether a reader polls, and whether it is one too many.
#[derive(Debug, Default)]
pub(crate) struct Adaptive {
    longest: Duration,
    pub(crate) polls: bool,
    hits: u32,
    misses: u32,
    /// Sleeps in succession that a poll would have spared.
    short: u32,
    /// So many of those make it poll again.
    needed: u32,
    /// Requests that were waiting, in succession.
    pub(crate) backlog: u32,
    /// Requests of one of several readers, and those of them at which another was asleep.
    window: u32,
    spare: u32,
}

impl Adaptive {
    /// Misses among so many hits end the polling.
    const MISSES: u32 = 4;
    const FEW: u32 = 4;
    const MANY: u32 = 1 << 12;

    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, needed: Self::FEW, ..Self::default() }
    }

    pub(crate) fn hit(&mut self) {
        self.hits += 1;
        if self.hits >= 32 {
            (self.hits, self.misses, self.needed) = (0, 0, Self::FEW);
        }
    }

    pub(crate) fn missed(&mut self) {
        self.misses += 1;
        if self.misses >= Self::MISSES {
            (self.polls, self.hits, self.misses, self.short) = (false, 0, 0, 0);
            self.needed = (self.needed * 2).min(Self::MANY);
        }
    }

    /// One of several readers has read, while another was asleep or not. Says whether one of them is to go.
    pub(crate) fn is_spare(&mut self, other_asleep: bool) -> bool {
        self.window += 1;
        self.spare += u32::from(other_asleep);
        if self.window < WINDOW {
            return false;
        }
        let most = self.spare > WINDOW / 2;
        (self.window, self.spare) = (0, 0);
        most
    }

    pub(crate) fn slept(&mut self, span: Duration) {
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
        let mut adaptive = Adaptive::new(POLL);
        for _ in 0..Adaptive::FEW {
            assert!(!adaptive.polls);
            adaptive.slept(POLL / 2);
        }
        assert!(adaptive.polls);
        for _ in 0..Adaptive::MISSES {
            adaptive.missed();
        }
        assert!(!adaptive.polls);
        for _ in 0..Adaptive::FEW {
            adaptive.slept(POLL / 2);
        }
        assert!(!adaptive.polls, "it takes longer the second time");
        adaptive.slept(POLL * 2);
        assert_eq!(adaptive.short, 0, "a long sleep begins the count anew");
    }

    #[test]
    fn a_reader_goes_when_another_was_asleep_most_of_the_time() {
        let mut adaptive = Adaptive::new(POLL);
        let judged = |adaptive: &mut Adaptive, of: u32| (0..WINDOW).any(|at| adaptive.is_spare(at % 4 < of));
        assert!(!judged(&mut adaptive, 1) && judged(&mut adaptive, 3));
    }

    #[test]
    fn polling_is_off_with_no_time_for_it() {
        let mut adaptive = Adaptive::new(Duration::ZERO);
        (0..100).for_each(|_| adaptive.slept(Duration::ZERO));
        assert!(!adaptive.polls);
    }
}
