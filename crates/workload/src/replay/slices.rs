//! When the program was in calls of which class: the threads' time by class in equal parts of the run.
//!
//! A part is a power of two of nanoseconds long, the least with which the run has at most [`MOST`] of them. Where a run goes on
//! beyond the last part, pairs of parts become one.

use results::SpanRecord;
use results::program::{CLASSES, COUNT};

/// Parts of a run at most.
const MOST: usize = 128;
/// The first length of a part, as the exponent of two.
const FIRST: u32 = 10;
/// A class is shown in a part in which it takes at least one in so many of the threads' time.
const LEAST: u64 = 20;
const PS: u64 = 1000;

/// Time by class in parts of the run.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    exponent: u32,
    parts: Vec<[u64; COUNT]>,
}

impl Default for Slices {
    fn default() -> Self {
        Self { exponent: FIRST, parts: Vec::new() }
    }
}

impl Slices {
    /// Books the time of a class between two moments, in nanoseconds since the program began.
    pub(super) fn add(&mut self, class: usize, from: u64, to: u64) {
        if to <= from {
            return;
        }
        while (to - 1) >> self.exponent >= MOST as u64 {
            self.fold();
        }
        let last = ((to - 1) >> self.exponent) as usize;
        if self.parts.len() <= last {
            self.parts.resize(last + 1, [0; COUNT]);
        }
        let mut at = from;
        while at < to {
            let part = at >> self.exponent;
            let end = to.min((part + 1) << self.exponent);
            self.parts[part as usize][class] += end - at;
            at = end;
        }
    }

    /// Makes pairs of parts one.
    fn fold(&mut self) {
        self.exponent += 1;
        let sum = |pair: &[[u64; COUNT]]| {
            let mut sum = [0; COUNT];
            for part in pair {
                sum.iter_mut().zip(part).for_each(|(sum, ns)| *sum += ns);
            }
            sum
        };
        self.parts = self.parts.chunks(2).map(sum).collect();
    }

    /// Adds those of another thread.
    pub(super) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.exponent < other.exponent {
            self.fold();
        }
        while other.exponent < self.exponent {
            other.fold();
        }
        self.parts.resize(self.parts.len().max(other.parts.len()), [0; COUNT]);
        for (own, more) in self.parts.iter_mut().zip(&other.parts) {
            own.iter_mut().zip(more).for_each(|(own, ns)| *own += ns);
        }
    }

    /// Where each class took a good part of the threads' time: neighbouring parts together, by class.
    pub(super) fn spans(&self, elapsed_ns: u64) -> Vec<SpanRecord> {
        let totals: Vec<u64> = self.parts.iter().map(|part| part.iter().sum()).collect();
        let shown = |at: usize, class: usize| {
            self.parts[at][class] > 0 && self.parts[at][class] * LEAST >= totals[at]
        };
        let mut spans = Vec::new();
        for (class, name) in CLASSES.iter().enumerate() {
            let mut at = 0;
            while at < self.parts.len() {
                let first = at;
                while at < self.parts.len() && shown(at, class) {
                    at += 1;
                }
                if at == first {
                    at += 1;
                    continue;
                }
                let of = |part: &[u64; COUNT]| part[class];
                let own: u64 = self.parts[first..at].iter().map(of).sum();
                let all: u64 = totals[first..at].iter().sum();
                let end = ((at as u64) << self.exponent).min(elapsed_ns.max(1));
                spans.push(SpanRecord {
                    lane: (*name).to_owned(),
                    kind: (*name).to_owned(),
                    what: format!("{} % of the threads' time", (own * 100 + all / 2) / all.max(1)),
                    start_ps: ((first as u64) << self.exponent) * PS,
                    end_ps: end * PS,
                });
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::program::class_of;

    const READ: usize = 0;

    #[test]
    fn all_time_is_kept_in_few_parts_however_long_the_run_is() {
        let mut slices = Slices::default();
        let mut at = 7;
        for step in 0..5000_u64 {
            slices.add(step as usize % COUNT, at, at + step * 13);
            at += step * 13;
        }
        let all: u64 = slices.parts.iter().flatten().sum();
        assert_eq!(all, at - 7);
        assert!(slices.parts.len() <= MOST && slices.parts.len() > MOST / 2, "{}", slices.parts.len());
    }

    #[test]
    fn threads_together_are_as_one_that_did_both() {
        let (mut one, mut other, mut both) = (Slices::default(), Slices::default(), Slices::default());
        for (slices, from, to) in [(0, 0, 900), (1, 400_000, 1_000_000)] {
            [&mut one, &mut other][slices].add(class_of("write"), from, to);
            both.add(class_of("write"), from, to);
        }
        one.merge(&other);
        assert_eq!((one.exponent, one.parts), (both.exponent, both.parts));
    }

    #[test]
    fn a_class_is_shown_where_it_takes_a_good_part_of_the_time() {
        let mut slices = Slices::default();
        slices.add(READ, 0, 2048);
        slices.add(class_of("fsync"), 2048, 2058);
        slices.add(READ, 2058, 3000);
        slices.add(class_of("stat"), 3000, 4000);
        let told: Vec<_> = slices
            .spans(4000)
            .into_iter()
            .map(|span| (span.lane, span.what, span.start_ps / PS, span.end_ps / PS))
            .collect();
        let of = |lane: &str, share: &str, from, to| {
            (lane.to_owned(), format!("{share} of the threads' time"), from, to)
        };
        assert_eq!(told, [of("reads", "97 %", 0, 3072), of("look-ups", "51 %", 2048, 4000)]);
    }
}
