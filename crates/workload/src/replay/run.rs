//! A replay: copies are prepared, their threads started, what they have counted becomes a record.
//!
//! ```text
//! prepare   /0, /1, …: what existed before ─ sync
//! work      begin ─▷ the threads that nothing precedes ─▷ each starts the threads that wait for it ═══▷ the last has ended
//! verify    the tree of each copy beside that of the trace
//! ```
//!
//! A call that finds no space where the program's did ends the replay. Any other result that differs is counted, and the replay
//! goes on.
//!
//! Lock order: `replay.run` only; nothing is taken under it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use sim::{Bytes, Condvar, LockClass, Mutex, Nanos, TaskSpec};
use trace::compile::{Step, Summary, Wait};
use vfs::{Errno, Syscalls};

use super::call::Aligned;
use super::compare::Differences;
use super::copy::Copy;
use super::load::Loaded;
use super::task::{Tally, Task};
use super::variables::{Order, Root, Variables};
use super::{initial, last};
use crate::suite::{How, Job, JobError, Measured, Phase, Processes, Stop};
use crate::tree::CallFailed;

pub(super) static RUN: LockClass = LockClass::new("replay.run");

/// Bytes of the pattern at least: files are made with it, too.
const MIN_DATA: usize = 1 << 20;

/// What the tasks have found.
#[derive(Debug, Default)]
struct Seen {
    tally: Tally,
    differences: Differences,
    /// The first call that found no space.
    full: Option<String>,
}

/// What all tasks share.
pub(super) struct Shared {
    pub(super) loaded: Arc<Loaded>,
    pub(super) variables: Variables,
    pub(super) copies: Vec<Copy>,
    pub(super) data: Aligned,
    /// Whether `calls` is counted.
    pub(super) counts: bool,
    pub(super) calls: AtomicU64,
    /// Of each step, its thread and place there; for `order=total`.
    places: Vec<Wait>,
    how: How,
    /// When the first thread has begun.
    begin: AtomicU64,
    /// When the caller wants the replay to end.
    deadline: AtomicU64,
    /// When the last thread has ended.
    ended: AtomicU64,
    /// Tasks that were started.
    started: AtomicU64,
    seen: std::sync::Mutex<Seen>,
    /// Tasks that have begun and not ended.
    live: Mutex<u64>,
    last: Condvar,
}

impl Shared {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the program has begun.
    pub(super) fn begin(&self) -> Nanos {
        Nanos(self.begin.load(Relaxed))
    }

    /// What a step waits for in the recorded order of all.
    pub(super) fn previous(&self, number: u32) -> &[Wait] {
        match number.checked_sub(1) {
            Some(before) => &self.places[before as usize..=before as usize],
            None => &[],
        }
    }

    /// Whether another thread waits for the end of a step.
    pub(super) fn is_awaited(&self, number: u32) -> bool {
        match self.variables.order {
            Order::Resource => self.loaded.plan.awaited[number as usize],
            Order::Thread => false,
            Order::Total => true,
        }
    }

    /// Whether the replay ends before the program does.
    pub(super) fn is_over(&self, copy: usize) -> bool {
        if self.copies[copy].threads.is_stopped() {
            return true;
        }
        let interrupted = self.how.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed));
        let over = interrupted
            || match self.how.stop {
                Stop::After(Nanos::MAX) => false,
                Stop::After(_) => sim::now().0 >= self.deadline.load(Relaxed),
                Stop::Operations(count) => self.calls.load(Relaxed) >= count,
            };
        if over {
            self.stop();
        }
        over
    }

    fn stop(&self) {
        self.copies.iter().for_each(|copy| copy.threads.stop());
    }

    /// Counts a result that differs. One that found no space ends the replay.
    pub(super) fn differs(&self, step: &Step, got: i64, is_full: bool, tell: impl Fn() -> String) {
        let mut seen = self.seen();
        seen.differences.add(step, got, &tell);
        if is_full && seen.full.is_none() {
            seen.full = Some(tell());
            drop(seen);
            self.stop();
        }
    }

    /// Starts a thread of a copy.
    pub(super) fn start(shared: &Arc<Self>, copy: usize, thread: usize) {
        *shared.live.lock() += 1;
        let number = shared.started.fetch_add(1, Relaxed);
        let single = shared.loaded.program.threads.len() == 1;
        let core = if single { copy as u64 } else { number };
        let spec = TaskSpec::named(format!("copy {copy} thread {thread}"))
            .on_core(shared.how.cores.round_robin(core))
            .with_buffer(Bytes(shared.loaded.plan.sizes.longest))
            .movable();
        let rng = shared.how.seed.derive("replay.jitter", (copy as u64) << 32 | thread as u64).rng();
        let task = Task { shared: Arc::clone(shared), copy, thread, rng };
        let ending = Ending(Arc::clone(shared));
        // The main task waits for the count of those that are alive.
        drop(sim::spawn(spec, move || {
            let tally = task.run();
            ending.0.ended.fetch_max(sim::now().0, Relaxed);
            ending.0.seen().tally.merge(&tally);
        }));
    }

    /// Starts what nothing precedes, and waits until the last has ended.
    fn play(shared: &Arc<Self>) {
        let plan = &shared.loaded.plan;
        for copy in 0..shared.copies.len() {
            match shared.variables.order {
                Order::Resource => plan.roots.iter().for_each(|thread| Self::start(shared, copy, *thread)),
                Order::Thread | Order::Total => {
                    (0..plan.starts.len()).for_each(|thread| Self::start(shared, copy, thread));
                }
            }
        }
        let mut live = shared.live.lock();
        while *live > 0 {
            live = shared.last.wait(live);
        }
    }
}

/// A task that has begun; it has ended when this is dropped, however it ends.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut live = self.0.live.lock();
        *live -= 1;
        let was_last = *live == 0;
        drop(live);
        if was_last {
            self.0.last.notify_all();
        }
    }
}

/// The replay of a trace on one subject.
pub(super) struct Run {
    shared: Arc<Shared>,
    main: Arc<dyn Syscalls>,
}

impl Run {
    pub(super) fn new(
        loaded: &Arc<Loaded>,
        variables: &Variables,
        how: &How,
        processes: &dyn Processes,
    ) -> Self {
        let copies = (0..variables.copies)
            .map(|number| Copy::new(loaded, number, variables.root, processes))
            .collect();
        let places = match variables.order {
            Order::Total => places(loaded),
            _ => Vec::new(),
        };
        let data = Aligned::pattern(MIN_DATA.max(loaded.plan.sizes.longest as usize));
        let shared = Shared {
            loaded: Arc::clone(loaded),
            variables: *variables,
            copies,
            data,
            counts: matches!(how.stop, Stop::Operations(_)),
            calls: AtomicU64::new(0),
            places,
            how: how.clone(),
            begin: AtomicU64::new(0),
            deadline: AtomicU64::new(u64::MAX),
            ended: AtomicU64::new(0),
            started: AtomicU64::new(0),
            seen: std::sync::Mutex::default(),
            live: Mutex::new(&RUN, 0),
            last: Condvar::of_class(&RUN),
        };
        Self { shared: Arc::new(shared), main: processes.start() }
    }

    fn measured(&self, begin: Nanos) -> Measured {
        let (shared, seen) = (&self.shared, self.shared.seen());
        let (tally, summary) = (&seen.tally, &shared.loaded.program.summary);
        let elapsed = Nanos(shared.ended.load(Relaxed)).since(begin);
        let mut measured = Measured {
            elapsed,
            spans: tally.slices.spans(elapsed.0),
            ops: tally.calls,
            read_ops: tally.reads.0,
            write_ops: tally.writes.0,
            read_bytes: tally.reads.1,
            written_bytes: tally.writes.1,
            errors: seen.differences.count,
            // Errors that are as recorded are no failures, and those that are not are differences.
            provided_for: u64::MAX,
            cut_short: shared.copies.iter().any(|copy| copy.threads.is_stopped()),
            notes: seen.differences.notes(tally.calls),
            ..Measured::default()
        };
        for (reason, count) in &tally.left {
            measured.notes.push(format!("{count} calls were not made: they {reason}"));
        }
        if let Some(line) = summary.cut_after {
            measured.notes.push(format!("the trace has no end: it was replayed up to line {line}"));
        }
        if summary.contradictions > 0 {
            let count = summary.contradictions;
            measured.notes.push(format!(
                "{count} results contradict what the trace has shown before: those will differ"
            ));
        }
        lacks(&mut measured, summary, tally.reads.0 + tally.writes.0);
        let left = tally.left.values().sum();
        let counts = [
            ("replay.differing", seen.differences.count),
            ("replay.failed_as_recorded", tally.failed.saturating_sub(seen.differences.count)),
            ("replay.not_made", left),
            ("replay.order_waits", tally.waits),
        ];
        measured.counters.extend(counts.map(|(name, count)| (name.to_owned(), count)));
        measured
    }
}

/// Of the reads and writes of a program whose files are nearly all elsewhere, the part that is outside the roots.
const NEARLY_ALL: u64 = 9;

/// What the trace lacks, before all other notes: which calls, what moves without one, or nearly all that the program read and
/// wrote, because its files are elsewhere. `moves`: reads and writes that were replayed.
fn lacks(measured: &mut Measured, summary: &Summary, moves: u64) {
    let mut told = Vec::new();
    let mut missing = Vec::new();
    if summary.lost > 0 {
        let names = summary.losses.names().map_or_else(String::new, |names| format!(" ({names})"));
        missing.push(format!("{} calls of the program{names}", summary.lost));
    }
    if summary.unopened > 0 {
        missing.push(format!("{} calls on descriptors that no call has opened", summary.unopened));
    }
    if !missing.is_empty() {
        told.push(format!(
            "This trace lacks {}: the program did more than is replayed here (--switch allow_drops).",
            missing.join(" and ")
        ));
    }
    if let Some(names) = summary.losses.silent_names() {
        told.push(format!(
            "This trace lacks what has moved without a recorded call ({names}): the program moved more than is replayed here."
        ));
    }
    if summary.outside > moves.saturating_mul(NEARLY_ALL) {
        told.push(format!(
            "Nearly all that the program read and wrote is not in this trace: {} calls moved bytes of files outside its roots, \
             {moves} are replayed here.",
            summary.outside
        ));
    }
    if !told.is_empty() {
        measured.notes.insert(0, told.join(" "));
        measured.counters.insert("replay.lacks".to_owned(), summary.lost + summary.unopened);
    }
    if !summary.tells_computing {
        measured.counters.insert("replay.computing_untold".to_owned(), 1);
        measured.notes.push(
            "What the program computed between its calls cannot be told from what recording cost: of that nothing is said."
                .to_owned(),
        );
    }
}

/// Of each step, its thread and place there.
fn places(loaded: &Loaded) -> Vec<Wait> {
    let program = &loaded.program;
    let mut places = vec![Wait { thread: 0, step: 0 }; program.steps().len()];
    for thread in &program.threads {
        for (own, number) in thread.steps.iter().enumerate() {
            places[*number as usize] = Wait { thread: thread.thread.number, step: own as u32 };
        }
    }
    places
}

fn failed(error: &CallFailed) -> JobError {
    match error.errno {
        Errno::ENOSPC => JobError::Full(format!("trace: prepare: {error}")),
        _ => JobError::Failed(format!("trace: prepare: {error}")),
    }
}

impl Job for Run {
    fn prepare(&self) -> Result<(), JobError> {
        for copy in &self.shared.copies {
            initial::make(&self.shared.loaded, copy, &*self.main, &self.shared.data)
                .map_err(|error| failed(&error))?;
        }
        for copy in &self.shared.copies {
            copy.enter().map_err(|errno| failed(&CallFailed::of("chdir", &copy.root)(errno)))?;
        }
        self.main.sync().map_err(|errno| failed(&CallFailed::of("sync", "/")(errno)))
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let shared = &self.shared;
        watch(Phase::Begins);
        let begin = sim::now();
        shared.begin.store(begin.0, Relaxed);
        if let Stop::After(time) = shared.how.stop {
            shared.deadline.store(begin.0.saturating_add(time.0), Relaxed);
        }
        Shared::play(shared);
        watch(Phase::Ends);
        shared.copies.iter().for_each(Copy::close_all);
        if let Some(told) = &shared.seen().full {
            return Err(JobError::Full(told.clone()));
        }
        Ok(self.measured(begin))
    }

    /// The laboratory removes the directory in which a replay on the host has worked; a check must come before.
    fn conclude(&self) -> Result<(), JobError> {
        if self.shared.how.check { self.verify(&*self.main) } else { Ok(()) }
    }

    /// Of copies in one tree, none has the tree of the trace.
    fn verify(&self, calls: &dyn Syscalls) -> Result<(), JobError> {
        let shared = &self.shared;
        let is_whole = !shared.copies.iter().any(|copy| copy.threads.is_stopped());
        let alone = shared.variables.root == Root::Private || shared.copies.len() == 1;
        if !is_whole || !alone {
            return Ok(());
        }
        for copy in &shared.copies {
            last::compare(&shared.loaded, copy, calls)
                .map_err(|told| JobError::Failed(format!("trace: verify: copy {}: {told}", copy.number)))?;
        }
        Ok(())
    }
}
