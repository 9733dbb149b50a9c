//! What belongs to a sample as a whole: `samples`, `counters`, `events`, `workers`, `jobs`, `series`.

use results::{HostRecord, ResultFile, Sample};

use super::{Grain, Keys, Value, calls};

pub(super) fn samples(keys: &Keys<'_>) -> Grain {
    let columns = [
        &[
            "clock",
            "machine",
            "elapsed_ns",
            "ops",
            "throughput_ops_per_s",
            "read_ops",
            "write_ops",
            "read_bytes",
        ][..],
        &["written_bytes", "errors", "partial", "failed", "notes"],
        &["host_wall_ns", "host_cpu_ns", "host_others_ns", "host_steal_ns", "host_noise"],
    ]
    .concat();
    keys.grain("samples", "a cell that ran once", &columns, |result, sample| vec![sample_row(result, sample)])
}

/// A sample that failed has no numbers.
fn sample_row(result: &ResultFile, sample: &Sample) -> Vec<Value> {
    let mut row = vec![text(&result.clock.to_string()), some_text(&result.machine)];
    let counts = [sample.read_ops, sample.write_ops, sample.read_bytes, sample.written_bytes, sample.errors];
    if sample.is_measured() {
        row.extend([Value::Count(sample.elapsed_ns), Value::Count(sample.ops)]);
        row.push(Value::Number(sample.throughput_ops_per_s));
        row.extend(counts.map(Value::Count));
    } else {
        row.extend(vec![Value::Empty; 3 + counts.len()]);
    }
    row.push(Value::Flag(sample.partial));
    row.push(sample.failure.as_ref().map_or(Value::Empty, |failure| text(&failure.what)));
    row.push(some_text(&sample.notes.join("; ")));
    row.extend(sample.host.as_ref().map_or(vec![Value::Empty; 5], host));
    row
}

fn host(host: &HostRecord) -> Vec<Value> {
    let times = [host.wall_ns, host.cpu_ns, host.others_ns, host.steal_ns].map(Value::Count);
    [&times[..], &[some_text(&host.noise.join("; "))]].concat()
}

pub(super) fn counters(keys: &Keys<'_>) -> Grain {
    let row = "a counter of a sample, by its finest parts";
    keys.grain("counters", row, &["counter", "part", "value"], |_, sample| {
        let parts = calls::finest(&sample.counters).into_iter();
        parts
            .map(|(counter, part, value)| vec![text(counter), some_text(part), Value::Count(value)])
            .collect()
    })
}

pub(super) fn events(keys: &Keys<'_>) -> Grain {
    let row = "an event of processors that was asked for in a sample";
    keys.grain("events", row, &["counter", "counted_per_mille", "missing"], |_, sample| {
        let events = sample.events.iter().flat_map(|events| &events.events);
        let row = |event: &results::EventRecord| {
            let share = event.counted_per_mille.map_or(Value::Empty, |share| Value::Count(share.into()));
            vec![text(&event.name), share, some_text(event.missing.as_deref().unwrap_or_default())]
        };
        events.map(row).collect()
    })
}

pub(super) fn workers(keys: &Keys<'_>) -> Grain {
    let columns = ["worker", "core", "background", "ops", "errors", "elapsed_ns"];
    keys.grain("workers", "a worker in a sample", &columns, |_, sample| {
        let row = |(number, worker): (usize, &results::WorkerRecord)| {
            let core = worker.core.map_or(Value::Empty, |core| Value::Count(core.into()));
            let placed = [Value::Count(number as u64), core, Value::Flag(worker.background)];
            [&placed[..], &[worker.ops, worker.errors, worker.elapsed_ns].map(Value::Count)].concat()
        };
        sample.workers.iter().enumerate().map(row).collect()
    })
}

pub(super) fn jobs(keys: &Keys<'_>) -> Grain {
    let columns = ["job", "direction", "count", "bytes", "elapsed_ns"];
    keys.grain("jobs", "a direction of one of fio's jobs in a sample", &columns, |_, sample| {
        let row = |job: &results::JobRecord| {
            let names = [text(&job.name), text(&job.direction)];
            [&names[..], &[job.count, job.bytes, job.elapsed_ns].map(Value::Count)].concat()
        };
        // Rows of all jobs of a group, and of all directions of a job, would double those that they are made of.
        let single = |job: &&results::JobRecord| job.direction != "mixed" && !job.name.starts_with("group ");
        sample.jobs.iter().filter(single).map(row).collect()
    })
}

pub(super) fn series(keys: &Keys<'_>) -> Grain {
    let row = "a stretch of the measured time of a sample";
    keys.grain("series", row, &["at_ns", "length_ns", "calls"], |_, sample| {
        let Some(series) = &sample.series else { return Vec::new() };
        let starts = (0..).map(|number: u64| number * series.step_ns);
        let stretch = |(at, calls): (u64, &u64)| [at, series.step_ns, *calls].map(Value::Count).to_vec();
        starts.zip(&series.ops).map(stretch).collect()
    })
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A text that may be empty, which is no text then.
fn some_text(of: &str) -> Value {
    if of.is_empty() { Value::Empty } else { text(of) }
}
