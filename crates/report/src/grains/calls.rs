//! What the workload and its calls did: `operations`, `calls`, `times`, `histograms`.

use std::collections::BTreeMap;

use results::{Histogram, OperationRecord, Sample};

use super::{Grain, Keys, Value};

const LATENCIES: [&str; 10] = [
    "mean_ns",
    "stddev_ns",
    "min_ns",
    "p50_ns",
    "p90_ns",
    "p95_ns",
    "p99_ns",
    "p99_9_ns",
    "p99_99_ns",
    "max_ns",
];

pub(super) fn all(keys: &Keys<'_>) -> [Grain; 4] {
    [operations(keys), calls(keys), times(keys), histograms(keys)]
}

fn operations(keys: &Keys<'_>) -> Grain {
    let columns = [&["operation", "count", "bytes"][..], &LATENCIES].concat();
    keys.grain("operations", "an operation of the workload in a sample", &columns, |_, sample| {
        let row = |step: &results::StepRecord| {
            let mut row = vec![name(&step.name), Value::Count(step.count), Value::Count(step.bytes)];
            row.extend(latencies(&step.latency_ns));
            row
        };
        sample.steps.iter().map(row).collect()
    })
}

fn calls(keys: &Keys<'_>) -> Grain {
    let columns = [&["call", "count", "errors", "bytes", "time_ns"][..], &LATENCIES].concat();
    keys.grain("calls", "a kind of file-system call in a sample", &columns, |_, sample| {
        let row = |call: &OperationRecord| {
            let counts = [call.count, call.errors, call.bytes, call.total_ns];
            let mut row = vec![name(&call.kind)];
            row.extend(counts.map(Value::Count));
            row.extend(latencies(&call.latency_ns));
            row
        };
        sample.operations.iter().map(row).collect()
    })
}

/// Where the time of each kind of call went, in splits that overlap with each other and not within.
fn times(keys: &Keys<'_>) -> Grain {
    let columns = ["call", "split", "part", "time_ns", "units"];
    keys.grain("times", "a part of the time of a kind of call", &columns, |_, sample| {
        sample.operations.iter().flat_map(times_of).collect()
    })
}

fn times_of(call: &OperationRecord) -> Vec<Vec<Value>> {
    let row =
        |split: &str, part: &str, time, units| vec![name(&call.kind), name(split), name(part), time, units];
    let splits = [("activity", &call.time_ns), ("lock", &call.lock_wait_ns), ("line", &call.line_wait_ns)];
    let mut rows = Vec::new();
    for (split, parts) in splits {
        rows.extend(parts.iter().map(|(part, ns)| row(split, part, Value::Count(*ns), Value::Empty)));
    }
    let parts = call.parts.iter();
    rows.extend(parts.map(|(part, of)| row("part", part, Value::Count(of.ns), Value::Count(of.count))));
    let work = call.work.iter();
    rows.extend(work.map(|(kind, of)| row("work", kind, Value::Count(of.ns), Value::Count(of.units))));
    rows
}

fn histograms(keys: &Keys<'_>) -> Grain {
    let columns = ["grain", "name", "direction", "low_ns", "high_ns", "count"];
    let row = "latencies between two bounds, with their number";
    keys.grain("histograms", row, &columns, |_, sample| histograms_of(sample))
}

fn histograms_of(sample: &Sample) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    let mut put = |grain: &str, of: &str, direction: Value, histogram: &Histogram| {
        rows.extend(histogram.buckets().map(|(low, high, count)| {
            let bounds = [low, high, count].map(Value::Count);
            [&[name(grain), name(of), direction.clone()][..], &bounds].concat()
        }));
    };
    for call in &sample.operations {
        put("call", &call.kind, Value::Empty, &call.latency_ns);
    }
    for step in &sample.steps {
        put("operation", &step.name, Value::Empty, &step.latency_ns);
    }
    for job in &sample.jobs {
        for (grain, histogram) in [("lat", &job.lat_ns), ("clat", &job.clat_ns), ("slat", &job.slat_ns)] {
            put(grain, &job.name, name(&job.direction), histogram);
        }
    }
    rows
}

/// Mean and deviation, then the values at the quantiles; nothing where nothing was recorded.
fn latencies(histogram: &Histogram) -> Vec<Value> {
    if histogram.is_empty() {
        return vec![Value::Empty; LATENCIES.len()];
    }
    let s = histogram.summary();
    let whole = [s.min_ns, s.p50_ns, s.p90_ns, s.p95_ns, s.p99_ns, s.p99_9_ns, s.p99_99_ns, s.max_ns];
    let means = [s.mean_ns, s.stddev_ns].map(Value::Number);
    [&means[..], &whole.map(Value::Count)].concat()
}

fn name(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The counters by their finest parts. A counter `x` that has parts `x.y` is left out for them; what they leave of it is its
/// part `other`.
pub(crate) fn finest(counters: &BTreeMap<String, u64>) -> Vec<(&str, &str, u64)> {
    let mut rows = Vec::new();
    for (counter, value) in counters {
        if counter.split_once('.').is_some_and(|(whole, _)| counters.contains_key(whole)) {
            continue;
        }
        let prefix = format!("{counter}.");
        let parts = || counters.iter().filter(|(name, _)| name.starts_with(&prefix));
        let sum: u64 = parts().map(|(_, part)| part).sum();
        // Parts that overlap are no parts: the whole stands, and each of them for itself.
        if sum > *value {
            rows.push((counter.as_str(), "", *value));
            rows.extend(parts().map(|(name, part)| (name.as_str(), "", *part)));
            continue;
        }
        rows.extend(parts().map(|(name, part)| (counter.as_str(), &name[prefix.len()..], *part)));
        match (parts().count(), value - sum) {
            (0, _) => rows.push((counter.as_str(), "", *value)),
            (_, 0) => {}
            (_, rest) => rows.push((counter.as_str(), "other", rest)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_counter_stand_for_their_whole() {
        let of =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let exact: BTreeMap<String, u64> = of(&[("x", 5), ("x.a", 2), ("x.b", 3), ("y", 1)]);
        assert_eq!(finest(&exact), [("x", "a", 2), ("x", "b", 3), ("y", "", 1)]);
        let rest = of(&[("x", 5), ("x.a", 2)]);
        assert_eq!(finest(&rest), [("x", "a", 2), ("x", "other", 3)]);
        let overlapping = of(&[("x", 5), ("x.a", 4), ("x.b", 4)]);
        assert_eq!(finest(&overlapping), [("x", "", 5), ("x.a", "", 4), ("x.b", "", 4)]);
        let orphans = of(&[("z.a", 4)]);
        assert_eq!(finest(&orphans), [("z.a", "", 4)]);
    }
}
