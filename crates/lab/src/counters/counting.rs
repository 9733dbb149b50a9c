//! Counts of the host's events while a workload runs.
//!
//! The events are opened in the thread that then runs the cell, so that all its threads and processes have them, those that write
//! back as well; they count from the beginning of the measured time to its end. A thread that was there before reads them in
//! between, and so is not counted itself.
//!
//! A sample of the virtual clock has the counts of the same operations under the real one ([`join`]): its own run would count the
//! simulation of time.
//!
//! Lock: `Open`, held for a reading or a change of all events.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perf_event::Counter;
use results::events::REAL;
use results::{EventCounts, EventRecord, EventWindows, Sample, correlation};
use sim::Clock;

use super::events::{Event, Of};
use super::{probe, simulated};
use crate::cell::{self, Run};
use crate::machine;
use crate::plan::{CellSpec, Stop};

/// An event that was on the processor for a smaller part of the time says too little of the rest.
const LEAST_SHARE: f64 = 0.25;
/// The shortest part of the time that is read by itself: groups of events take turns every few milliseconds
/// (`perf_event_mux_interval_ms`).
const LEAST_STEP: Duration = Duration::from_millis(100);
/// The longest.
const MOST_STEP: Duration = Duration::from_secs(1);
/// Parts of the measured time that are aimed at.
const PARTS: u32 = 60;

/// Says how many system calls have ended.
type Calls = Arc<dyn Fn() -> u64 + Send + Sync>;

/// An event that is open.
struct Open {
    event: Event,
    counter: Counter,
}

type All = Arc<Mutex<Vec<Open>>>;

/// What the reading thread is told when the measured time begins.
struct Begin {
    all: All,
    step: Duration,
    calls: Calls,
}

/// One reading of all events: when, the calls until then, and the counts.
type Row = (Duration, u64, Vec<u64>);

/// Events that count, or will.
pub(crate) struct Counting {
    of: Of,
    all: All,
    records: Vec<EventRecord>,
    begin: Option<Sender<Begin>>,
    reader: Option<JoinHandle<Vec<Row>>>,
}

fn lock(all: &All) -> MutexGuard<'_, Vec<Open>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counting {
    /// Opens every event of this host that can be used, for this thread and all that begin under it.
    pub(crate) fn open(of: Of) -> Self {
        let states = probe::states();
        let (begin, told) = mpsc::channel();
        let reader = std::thread::Builder::new().name("counters".to_owned()).spawn(move || read(&told)).ok();
        let (mut all, mut records): (Vec<Open>, Vec<EventRecord>) = (Vec::new(), Vec::new());
        for (event, state) in states {
            let opened = match state.unusable() {
                Some(why) => Err(why.to_owned()),
                None => open(&mut all, event, of).map_err(|error| probe::told(event, &error)),
            };
            let missing = opened.map(|counter| all.push(Open { event: *event, counter })).err();
            records.push(EventRecord { name: event.counter(), counted_per_mille: None, missing });
        }
        Self { of, all: Arc::new(Mutex::new(all)), records, begin: Some(begin), reader }
    }

    /// The measured time begins. Where its length is known and long enough, `calls` says how far the workload is in each part.
    pub(crate) fn begin(&mut self, length: Option<Duration>, calls: Calls) {
        // A leader comes before the others of its group, and is the last to begin: until then none of them counts.
        for open in lock(&self.all).iter_mut().rev() {
            // An event that does not begin has counted nothing when it is read.
            let _ = open.counter.enable();
        }
        if let (Some(length), Some(begin)) = (length.filter(|length| *length >= LEAST_STEP * 10), &self.begin)
        {
            let step = (length / PARTS).clamp(LEAST_STEP, MOST_STEP);
            // Without the thread there are no parts.
            let _ = begin.send(Begin { all: Arc::clone(&self.all), step, calls });
        }
    }

    /// The measured time ends.
    pub(crate) fn end(&mut self) {
        for open in lock(&self.all).iter_mut() {
            let _ = open.counter.disable();
        }
        self.begin = None;
    }

    /// Puts the counts into the sample.
    pub(crate) fn put(mut self, sample: &mut Sample) {
        self.begin = None;
        let rows = self.reader.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let mut all = lock(&self.all);
        let names: Vec<String> = all.iter().map(|open| open.event.counter()).collect();
        for (open, name) in all.iter_mut().zip(&names) {
            let Some(record) = self.records.iter_mut().find(|record| record.name == *name) else { continue };
            match total(open) {
                Ok((count, share)) => {
                    sample.counters.insert(name.clone(), count);
                    record.counted_per_mille = Some((share * 1000.0).round() as u32);
                }
                Err(why) => record.missing = Some(why),
            }
        }
        let counted = |name: &String| sample.counters.contains_key(name);
        let windows = windows(&names, &rows, counted);
        sample.events = Some(EventCounts {
            of: match self.of {
                Of::User => "user".to_owned(),
                Of::UserAndKernel => "user and kernel".to_owned(),
            },
            events: self.records,
            windows,
            simulated: String::new(),
        });
    }
}

/// Makes the operations of a sample of the virtual clock once more under the real one, and puts what the host counts meanwhile into
/// the sample. `event.ops` is how many that run has made.
pub(crate) fn join(sample: &mut Sample, spec: &CellSpec, run: &Run) {
    match again(sample.ops, spec, run) {
        Ok(counted) => {
            let is_event = |name: &str| name.starts_with(REAL);
            let events = counted.counters.into_iter().filter(|(name, _)| is_event(name));
            sample.counters.extend(events);
            sample.counters.insert(format!("{REAL}ops"), counted.ops);
            sample.events = counted.events;
        }
        Err(why) => {
            let record =
                EventRecord { name: format!("{REAL}ops"), missing: Some(why), ..EventRecord::default() };
            sample.events.get_or_insert_default().events.push(record);
        }
    }
}

/// The sample of `ops` operations of the cell under the real clock.
fn again(ops: u64, spec: &CellSpec, run: &Run) -> Result<Sample, String> {
    if let Some(why) = simulated::impossible(spec) {
        return Err(why);
    }
    let mut same = spec.clone();
    if simulated::ends_by_time(spec) {
        same.stop = Stop::Operations(ops);
    }
    let run =
        Run { clock: Clock::Real, machine: machine::of_host(), kernel: None, counts: true, ..run.clone() };
    cell::run(&same, &run).map_err(|error| error.to_string())
}

/// Opens an event in the group of those that are open already; by itself where the processor cannot count it beside them.
fn open(all: &mut [Open], event: &Event, of: Of) -> std::io::Result<Counter> {
    let leader = all.iter_mut().find(|open| event.group.is_some() && open.event.group == event.group);
    match leader {
        Some(leader) => event.open(of, Some(&mut leader.counter)).or_else(|_| event.open(of, None)),
        None => event.open(of, None),
    }
}

/// The count, scaled up to the whole time, and the part of the time for which it was counted.
fn total(open: &mut Open) -> Result<(u64, f64), String> {
    let data = open.counter.read_full().map_err(|error| probe::told(&open.event, &error))?;
    let time = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
    scaled(data.count(), time(data.time_enabled()), time(data.time_running()))
}

fn scaled(count: u64, enabled: f64, running: f64) -> Result<(u64, f64), String> {
    let share = if enabled > 0.0 { (running / enabled).min(1.0) } else { 0.0 };
    if share < LEAST_SHARE {
        return Err(format!(
            "it was on the processor's counters for {:.0} % of the time, less than a quarter",
            share * 100.0
        ));
    }
    Ok(((count as f64 / share).round() as u64, share))
}

/// Reads all events every step, from the beginning of the measured time to its end.
fn read(told: &mpsc::Receiver<Begin>) -> Vec<Row> {
    let Ok(Begin { all, step, calls }) = told.recv() else { return Vec::new() };
    let (began, mut rows) = (Instant::now(), Vec::new());
    let mut row = || {
        let counts = lock(&all).iter_mut().map(|open| open.counter.read().unwrap_or(0)).collect();
        rows.push((began.elapsed(), calls(), counts));
    };
    row();
    while matches!(told.recv_timeout(step), Err(RecvTimeoutError::Timeout)) {
        row();
    }
    rows
}

/// What each part of the time has more than the one before; none where there are too few of them to compare.
fn windows(names: &[String], rows: &[Row], counted: impl Fn(&String) -> bool) -> Option<EventWindows> {
    if rows.len() <= correlation::LEAST {
        return None;
    }
    let pairs = || rows.iter().zip(&rows[1..]);
    let more = |of: &dyn Fn(&Row) -> u64| pairs().map(|(a, b)| of(b).saturating_sub(of(a))).collect();
    let counts: BTreeMap<String, Vec<u64>> = names
        .iter()
        .enumerate()
        .filter(|(_, name)| counted(name))
        .map(|(at, name)| (name.clone(), more(&|row: &Row| row.2.get(at).copied().unwrap_or(0))))
        .collect();
    let ends_ns = rows[1..].iter().map(|row| row.0.as_nanos() as u64).collect();
    Some(EventWindows { ends_ns, calls: more(&|row: &Row| row.1), counts })
}

impl std::fmt::Debug for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counting").field("records", &self.records).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_scaled_up_to_the_whole_time_and_dropped_below_a_quarter_of_it() {
        assert_eq!(scaled(300, 2.0, 1.5), Ok((400, 0.75)));
        assert_eq!(scaled(7, 2.0, 2.0), Ok((7, 1.0)));
        let why = scaled(300, 2.0, 0.4).unwrap_err();
        assert!(why.contains("20 %"), "{why}");
        assert!(scaled(0, 0.0, 0.0).is_err());
    }

    #[test]
    fn parts_of_the_time_hold_what_each_has_more_than_the_one_before() {
        let row = |ms, calls, count| (Duration::from_millis(ms), calls, vec![count, 7]);
        let rows = [row(0, 0, 5), row(100, 10, 6), row(201, 30, 9), row(300, 30, 9), row(400, 40, 10)];
        let names = ["event.a".to_owned(), "event.dropped".to_owned()];
        let windows = windows(&names, &rows, |name| name == "event.a").unwrap();
        assert_eq!(windows.calls, [10, 20, 0, 10]);
        assert_eq!(windows.counts, BTreeMap::from([("event.a".to_owned(), vec![1, 3, 0, 1])]));
        assert_eq!(windows.ends_ns[1], 201_000_000);
        assert_eq!(super::windows(&names, &rows[..4], |_| true), None);
    }
}
