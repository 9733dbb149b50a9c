//! Numbers that are made of coefficients of events and throughput.
//!
//! `correlations = { number = "defined", source = "simulated", per = "instructions" }`: of the five events of the study in each
//! workload, over all systems together,
//!
//! | number | is |
//! |---|---|
//! | `defined` | how many have a coefficient |
//! | `error` | the largest standard error |
//! | `high` | the share with a coefficient of at least 0.8, whichever its sign |
//!
//! `source` is `real` or `simulated`, `per` is `access`, `instructions` or `operation` ([`results::event_rates`]).

use document::{Problem, Table};
use results::ResultFile;
use results::event_rates::{Per, Source};
use results::relation::relations;

/// A coefficient is high from here on.
const HIGH: f64 = 0.8;

/// What the number is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Correlations {
    number: Number,
    source: Source,
    per: Per,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Defined,
    Error,
    High,
}

const NUMBERS: [(&str, Number); 3] =
    [("defined", Number::Defined), ("error", Number::Error), ("high", Number::High)];
const SOURCES: [(&str, Source); 2] = [("real", Source::Real), ("simulated", Source::Simulated)];
const DIVISORS: [(&str, Per); 3] =
    [("access", Per::Access), ("instructions", Per::Instructions), ("operation", Per::Operation)];

impl Correlations {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, Problem> {
        Ok(Self {
            number: table.need("number", "defined, error or high")?.one_of(&NUMBERS)?,
            source: table.need("source", "real or simulated")?.one_of(&SOURCES)?,
            per: table.need("per", "access, instructions or operation")?.one_of(&DIVISORS)?,
        })
    }

    /// The number in these results.
    pub(super) fn value(self, results: &ResultFile) -> Result<f64, String> {
        let all = relations(results);
        let own =
            all.iter().filter(|one| one.kind.is_of_study && (one.source, one.per) == (self.source, self.per));
        let known: Vec<_> = own.filter_map(|one| one.pooled).collect();
        if known.is_empty() {
            let why = results.samples.iter().filter_map(|sample| sample.events.as_ref());
            let why = why.flat_map(|events| &events.events).find_map(|event| event.missing.as_deref());
            return Err(format!("no event has a coefficient: {}", why.unwrap_or("none was counted")));
        }
        Ok(match self.number {
            Number::Defined => known.len() as f64,
            Number::Error => known.iter().map(|one| one.error).fold(0.0, f64::max),
            Number::High => {
                known.iter().filter(|one| one.r.abs() >= HIGH).count() as f64 / known.len() as f64
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use results::{Clock, EventCounts, EventRecord, Sample};

    use super::*;

    fn with(number: Number) -> Correlations {
        Correlations { number, source: Source::Simulated, per: Per::Instructions }
    }

    #[test]
    fn coefficients_are_counted_where_they_are_defined_and_told_why_where_none_is() {
        let mut file = ResultFile::new("t", serde_json::Value::Null, 1, Clock::Real);
        for at in 0..10_u64 {
            let axes =
                [("workload", "w"), ("fs", "a")].map(|(axis, value)| (axis.to_owned(), value.to_owned()));
            let mut sample = Sample::new(axes.into(), at as u32, 1);
            (sample.ops, sample.elapsed_ns, sample.throughput_ops_per_s) = (1, 1, 100.0 - at as f64);
            let counts = [
                ("instructions", 1000),
                ("dtlb_misses", 5 + at),
                ("itlb_misses", 7),
                ("llc_load_misses", at * at % 7),
            ];
            sample.counters = counts.map(|(name, count)| (format!("sim_{name}"), count)).into();
            file.samples.push(sample);
        }
        // Misses of the iTLB never change.
        assert_eq!(with(Number::Defined).value(&file), Ok(2.0));
        assert_eq!(with(Number::High).value(&file), Ok(0.5));
        assert!(with(Number::Error).value(&file).unwrap() > 0.2);
        for sample in &mut file.samples {
            sample.counters.clear();
            let event = EventRecord { missing: Some("no qemu".to_owned()), ..EventRecord::default() };
            sample.events = Some(EventCounts { events: vec![event], ..EventCounts::default() });
        }
        assert!(with(Number::High).value(&file).unwrap_err().contains("no qemu"));
    }
}
