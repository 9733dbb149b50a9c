//! Counts of events as rates that can be compared: for each access, for 1,000 instructions, for each operation.
//!
//! What vendors call accesses of a TLB often counts something else (accesses that missed its first level), so that misses of data
//! are by loads of the first cache, and misses of instructions have no rate by access on the host. Page faults and switches have no
//! accesses: their first rate is by second of the tasks' processor time, which holds the throughput itself when each operation
//! faults.

use crate::Sample;
use crate::events::{REAL, SIMULATED};

/// Who counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The host's processor and kernel.
    Real,
    /// A simulated processor.
    Simulated,
}

/// What a count is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Per {
    /// An access, or a second of the tasks' processor time where there are no accesses.
    Access,
    /// 1,000 instructions.
    Instructions,
    /// An operation.
    Operation,
}

/// A kind of event that is correlated with throughput.
#[derive(Clone, Copy, Debug)]
pub struct EventKind {
    /// Its name in tables.
    pub title: &'static str,
    /// The host's count and its accesses; `task_clock_ns` stands for a second of it.
    real: (&'static str, Option<&'static str>),
    /// Those of a simulated processor.
    simulated: Option<(&'static str, Option<&'static str>)>,
    /// Whether it is one of the five of the characterization of 2016.
    pub is_of_study: bool,
}

const TASK_CLOCK: &str = "task_clock_ns";
const PER_SECOND: f64 = 1e9;

/// The kinds of events, in the order of tables.
pub const KINDS: &[EventKind] = &[
    kind(
        "dTLB misses",
        ("dtlb_load_misses", Some("l1d_loads")),
        Some(("dtlb_misses", Some("data_accesses"))),
    ),
    kind("iTLB misses", ("itlb_load_misses", None), Some(("itlb_misses", Some("fetches")))),
    kind(
        "LLC load misses",
        ("llc_load_misses", Some("llc_loads")),
        Some(("llc_load_misses", Some("llc_loads"))),
    ),
    kind(
        "LLC store misses",
        ("llc_store_misses", Some("llc_stores")),
        Some(("llc_store_misses", Some("llc_stores"))),
    ),
    kind("page faults", ("page_faults", Some(TASK_CLOCK)), Some(("first_touches", None))),
    EventKind {
        is_of_study: false,
        ..kind("context switches", ("context_switches", Some(TASK_CLOCK)), None)
    },
];

const fn kind(
    title: &'static str,
    real: (&'static str, Option<&'static str>),
    simulated: Option<(&'static str, Option<&'static str>)>,
) -> EventKind {
    EventKind { title, real, simulated, is_of_study: true }
}

impl EventKind {
    /// The name of its counter; none where `source` does not count it.
    pub fn counter(&self, source: Source) -> Option<String> {
        let (count, _) = self.names(source)?;
        Some(format!("{}{count}", source.prefix()))
    }

    fn names(&self, source: Source) -> Option<(&'static str, Option<&'static str>)> {
        match source {
            Source::Real => Some(self.real),
            Source::Simulated => self.simulated,
        }
    }

    /// The unit of its rate.
    pub fn unit(&self, source: Source, per: Per) -> &'static str {
        match (per, self.names(source)) {
            (Per::Access, Some((_, Some(TASK_CLOCK)))) => "a second of processor time",
            (Per::Access, _) => "an access",
            (Per::Instructions, _) => "1,000 instructions",
            (Per::Operation, _) => "an operation",
        }
    }

    /// The rate from counts by name, of the source's own `ops` or else of these operations; none where a count is missing or the
    /// divisor is 0.
    pub fn rate(
        &self,
        source: Source,
        per: Per,
        ops: f64,
        count: impl Fn(&str) -> Option<f64>,
    ) -> Option<f64> {
        let (name, accesses) = self.names(source)?;
        let get = |name: &str| count(&format!("{}{name}", source.prefix()));
        let (events, divisor) = match per {
            Per::Access => match accesses? {
                TASK_CLOCK => (get(name)?, get(TASK_CLOCK)? / PER_SECOND),
                accesses => (get(name)?, get(accesses)?),
            },
            Per::Instructions => (get(name)?, get("instructions")? / 1000.0),
            Per::Operation => (get(name)?, get("ops").unwrap_or(ops)),
        };
        (divisor > 0.0).then(|| events / divisor)
    }

    /// The rate in a sample.
    pub fn of(&self, sample: &Sample, source: Source, per: Per) -> Option<f64> {
        let count = |name: &str| sample.counters.get(name).map(|count| *count as f64);
        self.rate(source, per, sample.ops as f64, count)
    }
}

impl Source {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Real, Self::Simulated];

    /// What the names of its counters begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Real => REAL,
            Self::Simulated => SIMULATED,
        }
    }
}

impl Per {
    /// All.
    pub const ALL: [Self; 3] = [Self::Access, Self::Instructions, Self::Operation];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(counters: &[(&str, u64)]) -> Sample {
        let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Sample { counters, ops: 50, ..Sample::default() }
    }

    #[test]
    fn a_rate_is_the_count_by_accesses_instructions_or_operations_and_none_where_one_is_missing() {
        let all = sample(&[
            ("event.dtlb_load_misses", 30),
            ("event.l1d_loads", 300),
            ("event.instructions", 6000),
            ("sim_dtlb_misses", 8),
            ("sim_ops", 4),
        ]);
        let rate = |sample, source, per| KINDS[0].of(sample, source, per);
        assert_eq!(rate(&all, Source::Real, Per::Access), Some(0.1));
        assert_eq!(rate(&all, Source::Real, Per::Instructions), Some(5.0));
        assert_eq!(rate(&all, Source::Real, Per::Operation), Some(0.6));
        // The simulated run made its own operations.
        assert_eq!(rate(&all, Source::Simulated, Per::Operation), Some(2.0));
        assert_eq!(rate(&all, Source::Simulated, Per::Access), None);
        assert_eq!(rate(&sample(&[]), Source::Real, Per::Operation), None);
    }

    #[test]
    fn page_faults_are_by_second_of_processor_time() {
        let faults = sample(&[("event.page_faults", 30), ("event.task_clock_ns", 500_000_000)]);
        let kind = KINDS.iter().find(|kind| kind.title == "page faults").unwrap();
        assert_eq!(kind.of(&faults, Source::Real, Per::Access), Some(60.0));
        assert_eq!(kind.unit(Source::Real, Per::Access), "a second of processor time");
    }
}
