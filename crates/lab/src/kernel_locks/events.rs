//! Events from the kernel's ring buffers (perf_event_open(2)), gathered by a thread of their own until they are wanted.

use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use perf_event::data::{Record, Sample};
use perf_event::events::{Software, Tracepoint as ById};
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustc_hash::FxHashMap;

use super::tracing::{self, Tracepoint};
use super::waits::{Event, What};
use crate::counters::refusal;

/// Processor time between two samples of a processor.
pub(super) const INTERVAL_NS: u64 = 500_000;
/// Bytes of one event's ring buffer on one processor: some 3,000 events, in the time between two looks.
const BUFFER: usize = 512 << 10;
/// Between two looks at the buffers.
const LOOK: Duration = Duration::from_millis(5);
/// Events that are kept: 160 MB. What comes later counts as lost.
const MOST: usize = 4 << 20;
/// Functions of a call chain that the kernel tells.
const DEPTH: u16 = 32;
/// Addresses from here on are no addresses: what follows is of a user's program, or of the kernel (include/uapi/linux/perf_event.h,
/// `PERF_CONTEXT_MAX`).
const CONTEXT: u64 = -4095_i64 as u64;
/// States of a task that has not given up its processor by itself: it can run (0), or is preempted (0x100 and above, the kernel's
/// `TASK_REPORT_MAX`).
const SLEEPING: u64 = 0xff;

const LOCKS: &[&str] = &["lock/contention_begin", "lock/contention_end"];
const SWITCHES: &[&str] = &["sched/sched_switch"];

/// Events that are being gathered.
#[derive(Debug)]
pub(super) struct Sampling {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Gathered>,
}

/// Events in the order of time, and the call chains that they have, without addresses of the user's program.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) events: Vec<Event>,
    pub(super) stacks: Vec<Vec<u64>>,
    pub(super) lost: u64,
    numbers: FxHashMap<Vec<u64>, u32>,
}

/// What an event of a buffer means.
#[derive(Clone, Debug)]
enum Kind {
    Begins(Tracepoint),
    Ends(Tracepoint),
    Switch(Tracepoint),
    Clock,
}

/// A source that tells something, by its name in records.
type Source = (&'static str, Result<Vec<(Kind, Sampler)>, String>);

/// Starts every source that this host has: what gathers, the names of the sources, and what is missing with its reason.
pub(super) fn start() -> (Option<Sampling>, Vec<&'static str>, Vec<String>) {
    let processors = processors();
    let (mut samplers, mut names, mut skipped) = (Vec::new(), Vec::new(), Vec::new());
    for (name, source) in sources(&processors) {
        match source {
            Ok(found) => {
                samplers.extend(found);
                names.push(name);
            }
            Err(why) => skipped.push(format!("{name}: {why}")),
        }
    }
    if samplers.is_empty() {
        return (None, names, skipped);
    }
    for (_, sampler) in &mut samplers {
        if let Err(error) = sampler.as_counter_mut().enable() {
            skipped.push(format!("an event could not be started: {error}"));
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let gather = move || gather(samplers, &stopped);
    match std::thread::Builder::new().name("kernel-locks".to_owned()).spawn(gather) {
        Ok(thread) => (Some(Sampling { stop, thread }), names, skipped),
        Err(error) => {
            skipped.push(format!("no thread can be started that reads events: {error}"));
            (None, Vec::new(), skipped)
        }
    }
}

fn sources(processors: &[usize]) -> Vec<Source> {
    let mut found = tracing::find(&[LOCKS, SWITCHES]).into_iter();
    let mut next = || found.next().unwrap_or_else(|| Err("it was not looked for".to_owned()));
    let locks = next().and_then(|points| {
        let [begin, end] =
            <[Tracepoint; 2]>::try_from(points).map_err(|_| "one of the two is missing".to_owned())?;
        let begins = on_each(processors, &Kind::Begins(begin))?;
        Ok(begins.into_iter().chain(on_each(processors, &Kind::Ends(end))?).collect())
    });
    let switches = next().and_then(|points| {
        let [point] = <[Tracepoint; 1]>::try_from(points).map_err(|_| "it is missing".to_owned())?;
        on_each(processors, &Kind::Switch(point))
    });
    let clock = on_each(processors, &Kind::Clock);
    vec![("lock tracepoints", locks), ("off-CPU stacks", switches), ("profile", clock)]
}

/// The processors that are online: `0-3,8`.
fn processors() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let numbers = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    });
    numbers.flatten().collect()
}

fn on_each(processors: &[usize], kind: &Kind) -> Result<Vec<(Kind, Sampler)>, String> {
    if processors.is_empty() {
        return Err("the kernel does not say which processors are online".to_owned());
    }
    let one =
        |processor: &usize| Ok((kind.clone(), sampler(*processor, kind).map_err(|error| told(&error))?));
    processors.iter().map(one).collect()
}

fn told(error: &io::Error) -> String {
    /// Tracepoints with what they carry are for any user at this level only.
    const ENOUGH: i32 = -1;
    refusal::told(error, ENOUGH).unwrap_or_else(|| format!("perf_event_open: {error}"))
}

fn sampler(processor: usize, kind: &Kind) -> io::Result<Sampler> {
    let mut builder = match kind {
        Kind::Begins(point) | Kind::Ends(point) | Kind::Switch(point) => {
            Builder::new(ById::with_id(point.id))
        }
        Kind::Clock => Builder::new(Software::CPU_CLOCK),
    };
    let flags = SampleFlag::TID | SampleFlag::TIME;
    let flags = match kind {
        Kind::Ends(_) => flags | SampleFlag::RAW,
        Kind::Begins(_) | Kind::Switch(_) => flags | SampleFlag::RAW | SampleFlag::CALLCHAIN,
        Kind::Clock => flags | SampleFlag::CALLCHAIN,
    };
    let period = if matches!(kind, Kind::Clock) { INTERVAL_NS } else { 1 };
    builder.any_pid().one_cpu(processor).include_kernel().include_hv().sample(flags).sample_period(period);
    builder.clockid(Clock::MONOTONIC).exclude_callchain_user(true).sample_max_stack(DEPTH);
    builder.build()?.sampled(BUFFER)
}

impl Sampling {
    /// Ends, and returns what was gathered.
    pub(super) fn stop(self) -> Gathered {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

/// Empties the buffers again and again until it is to stop.
fn gather(mut samplers: Vec<(Kind, Sampler)>, stop: &AtomicBool) -> Gathered {
    let mut gathered = Gathered::default();
    loop {
        let last = stop.load(Relaxed);
        for (kind, sampler) in &mut samplers {
            if last {
                // What cannot be stopped goes on until it is closed, some lines below.
                let _ = sampler.as_counter_mut().disable();
            }
            while let Some(record) = sampler.next_record() {
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => gathered.add(kind, &sample),
                    Ok(Record::Lost(lost)) => gathered.lost += lost.lost,
                    Ok(_) | Err(_) => {}
                }
            }
        }
        if last {
            break;
        }
        std::thread::sleep(LOOK);
    }
    gathered.events.sort_by_key(|event| event.at);
    gathered
}

impl Gathered {
    fn add(&mut self, kind: &Kind, sample: &Sample<'_>) {
        if self.events.len() >= MOST {
            self.lost += 1;
            return;
        }
        let (Some(at), Some(process), Some(thread)) = (sample.time(), sample.pid(), sample.tid()) else {
            return;
        };
        let what = self.what(kind, sample.raw().unwrap_or_default(), sample.callchain().unwrap_or_default());
        self.events.extend(what.map(|what| Event { at, process, thread, what }));
    }

    fn what(&mut self, kind: &Kind, raw: &[u8], chain: &[u64]) -> Option<What> {
        let narrow = |value: u64| u32::try_from(value).ok();
        Some(match kind {
            Kind::Begins(point) => What::Begins {
                lock: point.value("lock_addr", raw)?,
                flags: narrow(point.value("flags", raw)?)?,
                stack: self.number(chain),
            },
            Kind::Ends(point) => What::Ends { lock: point.value("lock_addr", raw)? },
            Kind::Switch(point) => What::Leaves {
                preempted: point.value("prev_state", raw)? & SLEEPING == 0,
                next: narrow(point.value("next_pid", raw)?)?,
                stack: self.number(chain),
            },
            Kind::Clock => What::Seen { stack: self.number(chain) },
        })
    }

    /// The number of a call chain, whose first entries tell whose addresses follow.
    fn number(&mut self, chain: &[u64]) -> u32 {
        let kernel: Vec<u64> = chain.iter().copied().filter(|address| *address < CONTEXT).collect();
        let next = self.stacks.len() as u32;
        match self.numbers.entry(kernel) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.stacks.push(new.key().clone());
                *new.insert(next)
            }
        }
    }
}
