//! What is watched while a job runs: the least rate and the largest latency that it must keep (`rate_min`, `max_latency`), and the
//! search for the greatest depth within a latency (`latency_target`).
//!
//! ```text
//! depth 1 ─ a window within the target ─▷ 2, 4 … ─ one that is not ─▷ halfway back … ─▷ the same depth twice: done
//! ```
//!
//! The rules are those of fio 3.33: a window is within the target when at least `latency_percentile` of its I/Os are; at 100 % the
//! first I/O that is not ends the window. After a window at a depth that no more changes, what was measured is forgotten, and a
//! last window is run for the result, unless `latency_run` goes on to the end of the job. A job that misses its target at a depth
//! of 1 with all I/Os counted fails.

use sim::Nanos;

/// Rates are not judged before the job has run so long.
const SETTLING: Nanos = Nanos::from_secs(2);
/// Windows in a row that are within the target before a depth above the highest is tried.
const STABLE: u32 = 3;

/// What a job must keep, by direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// Bytes a second, and I/Os a second; 0: no limit.
    pub(super) bytes: [u64; 3],
    pub(super) ios: [u64; 3],
    /// The time over which a rate is judged.
    pub(super) cycle: Nanos,
    pub(super) latency: [Nanos; 3],
}

impl Limits {
    /// Whether there is none.
    pub(super) fn are_none(&self) -> bool {
        (self.bytes, self.ios, self.latency) == ([0; 3], [0; 3], [Nanos::ZERO; 3])
    }
}

/// What has been done, by direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    done: [(u64, u64); 3],
    /// At the last judgement: when, bytes, I/Os.
    judged: [Option<(Nanos, u64, u64)>; 3],
}

impl Watch {
    /// Notes an I/O of `direction` that took from `start` to `end`; says which limit the job has not kept. `ran` is since the job's
    /// start.
    pub(super) fn note(
        &mut self,
        limits: &Limits,
        (direction, bytes): (usize, u64),
        (start, end): (Nanos, Nanos),
        ran: Nanos,
    ) -> Option<String> {
        let (took, most) = (end.since(start), limits.latency[direction]);
        if most > Nanos::ZERO && took > most {
            return Some(format!("an I/O took {took}, longer than max_latency={most}"));
        }
        let (all, ios) = &mut self.done[direction];
        (*all, *ios) = (*all + bytes, *ios + 1);
        let (all, ios) = (*all, *ios);
        if ran < SETTLING {
            return None;
        }
        if let Some((at, before, ios_before)) = self.judged[direction] {
            let spent = end.since(at);
            if spent < limits.cycle || spent == Nanos::ZERO {
                return None;
            }
            let rate = |count: u64| (u128::from(count) * 1_000_000_000 / u128::from(spent.0)) as u64;
            let (bytes, ios) = (rate(all - before), rate(ios - ios_before));
            if bytes < limits.bytes[direction] {
                return Some(format!(
                    "rate_min={} bytes/s is not met: {bytes} bytes/s",
                    limits.bytes[direction]
                ));
            }
            if ios < limits.ios[direction] {
                return Some(format!(
                    "rate_iops_min={} is not met: {ios} I/Os a second",
                    limits.ios[direction]
                ));
            }
        }
        self.judged[direction] = Some((end, all, ios));
        None
    }
}

/// `latency_target` and its options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Target {
    pub(super) latency: Nanos,
    pub(super) window: Nanos,
    pub(super) percentile: f64,
    /// Whether the job goes on when the depth is found.
    pub(super) runs_on: bool,
}

/// What follows from an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// What was measured so far does not count.
    Forget,
    /// The search is over.
    Done,
    /// Not even one I/O at a time is within the target.
    Missed,
}

/// A search for the greatest depth.
#[derive(Clone, Debug)]
pub(super) struct Search {
    target: Target,
    most: u64,
    /// How many I/Os may be under way.
    pub(super) depth: u64,
    low: u64,
    high: u64,
    stable: u32,
    last_window: bool,
    begun: Option<Nanos>,
    ios: u64,
    late: u64,
}

impl Search {
    pub(super) fn new(target: Target, most: u64) -> Self {
        Self {
            target,
            most,
            depth: 1,
            low: 1,
            high: most,
            stable: 0,
            last_window: false,
            begun: None,
            ios: 0,
            late: 0,
        }
    }

    /// Notes an I/O that took from `start` to `end`.
    pub(super) fn note(&mut self, start: Nanos, end: Nanos) -> Found {
        let begun = *self.begun.get_or_insert(start);
        self.ios += 1;
        if end.since(start) > self.target.latency {
            self.late += 1;
            if self.target.percentile >= 100.0 {
                return self.fails(end);
            }
        }
        if end.since(begun) < self.target.window {
            return Found::Nothing;
        }
        let within = (self.ios - self.late) as f64 * 100.0 / self.ios as f64;
        if within >= self.target.percentile { self.succeeds(end) } else { self.fails(end) }
    }

    fn next_window(&mut self, now: Nanos) {
        (self.begun, self.ios, self.late) = (Some(now), 0, 0);
    }

    fn fails(&mut self, now: Nanos) -> Found {
        if self.depth == 1 {
            self.next_window(now);
            return if self.target.percentile >= 100.0 { Found::Missed } else { Found::Nothing };
        }
        self.high = self.depth;
        if self.depth == self.low {
            self.low -= 1;
        }
        (self.depth, self.stable) = (self.depth.midpoint(self.low).max(1), 0);
        self.next_window(now);
        Found::Nothing
    }

    fn succeeds(&mut self, now: Nanos) -> Found {
        let before = self.depth;
        self.low = before;
        if before + 1 == self.high {
            self.stable += 1;
            if self.stable >= STABLE {
                (self.high, self.stable) = (self.high + 1, 0);
            }
        }
        let next = if self.high == self.most { before * 2 } else { before.midpoint(self.high) };
        self.depth = next.min(self.most);
        self.next_window(now);
        if self.target.runs_on || self.depth != before {
            return Found::Nothing;
        }
        if std::mem::replace(&mut self.last_window, true) { Found::Done } else { Found::Forget }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device whose latency is the depth, in ms, with a window of 100 ms.
    fn search(target_ms: u64, most: u64, percentile: f64) -> (Search, Found, bool) {
        let target = Target {
            latency: Nanos::from_millis(target_ms),
            window: Nanos::from_millis(100),
            percentile,
            runs_on: false,
        };
        let (mut search, mut now, mut forgot) = (Search::new(target, most), Nanos::ZERO, false);
        for _ in 0..100_000 {
            let end = now + Nanos::from_millis(search.depth);
            match search.note(now, end) {
                Found::Nothing => {}
                Found::Forget => forgot = true,
                found => return (search, found, forgot),
            }
            now = end;
        }
        (search, Found::Nothing, forgot)
    }

    #[test]
    fn the_greatest_depth_within_the_target_is_found() {
        for (target, most) in [(20, 64), (7, 64), (1, 64), (100, 32)] {
            let (search, found, forgot) = search(target, most, 99.0);
            assert_eq!(
                (search.depth, found, forgot),
                (target.min(most), Found::Done, true),
                "{target} of {most}"
            );
        }
        assert_eq!(search(0, 8, 100.0).1, Found::Missed);
    }

    #[test]
    fn a_rate_below_the_least_is_told_after_it_has_settled() {
        let limits = Limits { bytes: [0, 5_000, 0], cycle: Nanos::from_secs(1), ..Limits::default() };
        // An I/O of 1000 bytes each 100 ms, and from the fifth second on each 300 ms.
        let (mut watch, mut now) = (Watch::default(), Nanos::ZERO);
        let told = loop {
            let end = now + Nanos::from_millis(if now < Nanos::from_secs(5) { 100 } else { 300 });
            if let Some(told) = watch.note(&limits, (1, 1_000), (now, end), end) {
                break told;
            }
            now = end;
        };
        assert!(
            told.starts_with("rate_min=5000 bytes/s is not met: ") && now > Nanos::from_secs(5),
            "{told}"
        );
        let slow = Limits { latency: [Nanos::from_millis(2); 3], ..Limits::default() };
        let told = Watch::default().note(&slow, (0, 1), (Nanos(0), Nanos::from_millis(3)), Nanos(0)).unwrap();
        assert!(told.contains("longer than max_latency"), "{told}");
    }
}
