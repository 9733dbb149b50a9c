//! The times of lines as those of one clock that never goes back.
//!
//! `-ttt` prints seconds since 1970, `-tt` and `-t` a time of day, `-r` the time since the line before. The first line of `-r` has
//! the time 0, which no line of `-ttt` has. A time of day that is more than half a day before the last one is of the next day. Any
//! other step back is a clock that was set: what follows is shifted such that it goes on, and the steps are counted.

use super::line::Stamp;

const DAY_NS: u64 = 24 * 60 * 60 * 1_000_000_000;

/// Reads times.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// The last time as it was printed.
    last: Option<Stamp>,
    is_relative: bool,
    /// What is added to printed times.
    shift_ns: u64,
    now_ns: u64,
    steps_back: u64,
}

impl Clock {
    /// The time of a line.
    pub(super) fn at(&mut self, stamp: Stamp) -> u64 {
        if self.last.is_none() {
            self.is_relative = stamp.ns == 0 && !stamp.of_day;
        }
        if self.is_relative {
            self.now_ns = self.now_ns.saturating_add(stamp.ns);
        } else {
            let back_ns = self.last.map_or(0, |last| last.ns.saturating_sub(stamp.ns));
            if stamp.of_day && back_ns > DAY_NS / 2 {
                self.shift_ns = self.shift_ns.saturating_add(DAY_NS);
            } else if back_ns > 0 {
                self.shift_ns = self.shift_ns.saturating_add(back_ns);
                self.steps_back += 1;
            }
            self.now_ns = stamp.ns.saturating_add(self.shift_ns);
        }
        self.last = Some(stamp);
        self.now_ns
    }

    /// How often the clock has gone back.
    pub(super) fn steps_back(&self) -> u64 {
        self.steps_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(times: &[(u64, bool)]) -> (u64, u64) {
        let mut clock = Clock::default();
        let all: Vec<u64> =
            times.iter().map(|(ns, of_day)| clock.at(Stamp { ns: *ns, of_day: *of_day })).collect();
        assert!(all.is_sorted(), "{all:?}");
        (all[all.len() - 1] - all[0], clock.steps_back())
    }

    #[test]
    fn midnight_is_no_step_back_and_relative_times_add_up() {
        let late = DAY_NS - 500_000_000;
        assert_eq!(span(&[(late, true), (late + 400_000_000, true), (300_000_000, true)]), (800_000_000, 0));
        assert_eq!(span(&[(0, false), (400, false), (200, false), (200, false)]), (800, 0));
    }

    #[test]
    fn a_clock_that_was_set_back_goes_on_and_is_counted() {
        assert_eq!(span(&[(5_000, false), (6_000, false), (1_000, false), (1_500, false)]), (1_500, 1));
        assert_eq!(span(&[(9_000, true), (8_000, true), (8_500, true)]), (500, 1));
    }
}
