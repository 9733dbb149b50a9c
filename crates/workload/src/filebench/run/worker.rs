//! A thread: its slots, its generator, its loop.
//!
//! Each step first charges what a load generator does between two calls (`crate::charges::GENERATOR`), then chooses
//! its file under the fileset's lock, then makes its calls between two readings of the clock. What happens
//! at the end of an operation is in [`Worker::account`].

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::RngExt;
use sim::{Nanos, Rng};
use vfs::{Errno, Fd, OpenFlags, Syscalls, Whence};

use crate::filebench::fileset::pick::{Rotor, State};
use crate::filebench::flowop;
use crate::filebench::outcome::RandomVariable;
use crate::filebench::pattern::Phase;
use crate::filebench::program::{EndPolicy, Operation};
use crate::filebench::vocabulary::{Direction, limits};

use super::aio::Aio;
use super::control::EndReason;
use super::error::{Advice, EngineError};
use super::files::{Choice, Files, Taken};
use super::plan::{Step, StepKind, Task};
use super::{Run, buffer::Buffer};

/// Why a thread does not go on to its next step.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The run is over.
    Stop,
    /// The fileset has no entry in the wanted state.
    Exhausted { fileset: usize, state: State },
    /// A `finishon…` was reached.
    Finished,
    /// The run has no valid result.
    Error(Box<EngineError>),
}

impl From<EngineError> for Halt {
    fn from(error: EngineError) -> Self {
        Self::Error(Box::new(error))
    }
}

/// The outcome of a step, or of a part of it.
pub(crate) type Flow<T = ()> = Result<T, Halt>;

/// One of the 128 places that hold an open file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) fd: Option<Fd>,
    /// Fileset and file that is or was last open here.
    pub(crate) file: Option<(usize, u32)>,
    pub(crate) phase: Phase,
    /// Offset of the descriptor.
    pub(crate) position: u64,
}

/// Counts of one step of this thread, for limiters and `finishon…`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    pub(crate) ops: u64,
    pub(crate) bytes: u64,
}

/// What a limiter remembers between its calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limiter {
    pub(crate) last: u64,
    pub(crate) credit: i64,
}

/// What `testrandvar` remembers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Draws {
    count: u64,
    sum: f64,
    squares: f64,
}

/// A thread.
pub(crate) struct Worker {
    pub(crate) run: Arc<Run>,
    pub(crate) calls: Arc<dyn Syscalls>,
    pub(crate) rng: Rng,
    /// Number of the kind of thread.
    pub(crate) kind: usize,
    /// Number among the threads of its kind.
    pub(crate) instance: usize,
    /// Number among all threads.
    pub(crate) number: usize,
    pub(crate) slots: Vec<Slot>,
    pub(crate) path: String,
    pub(crate) buffer: Buffer,
    pub(crate) scratch: Vec<u8>,
    pub(crate) aio: Option<Aio>,
    counters: Vec<Counter>,
    limiters: BTreeMap<usize, Limiter>,
    draws: BTreeMap<usize, Draws>,
    /// Rotors of its own, by fileset.
    rotors: BTreeMap<usize, Rotor>,
    /// The last slot that `opennext` has given out.
    next_slot: usize,
    /// As in its plan.
    memory: u64,
    /// Where in it the operation reads or writes, drawn from a stream of its own: a number of which the place is made.
    spot: u64,
    spots: Rng,
}

/// Turns of a loop at one instant after which it counts as endless.
const STUCK_TURNS: u32 = 100_000;

impl Worker {
    pub(crate) fn new(
        run: Arc<Run>,
        calls: Arc<dyn Syscalls>,
        kind: usize,
        instance: usize,
        number: usize,
    ) -> Self {
        let plan = &run.engine.plan.threads[kind];
        let longest = run.engine.sets.iter().map(|files| files.tree.longest_path()).max().unwrap_or(0);
        Self {
            rng: run.engine.options.seed.derive("filebench.thread", number as u64).rng(),
            slots: vec![Slot::default(); limits::SLOTS as usize],
            path: String::with_capacity(longest),
            buffer: Buffer::default(),
            scratch: Vec::new(),
            aio: None,
            counters: vec![Counter::default(); plan.step_count],
            limiters: BTreeMap::new(),
            draws: BTreeMap::new(),
            rotors: BTreeMap::new(),
            next_slot: limits::SLOTS as usize,
            memory: plan.memory,
            spot: 0,
            spots: run.engine.options.seed.derive("filebench.memory", number as u64).rng(),
            calls,
            kind,
            instance,
            number,
            run,
        }
    }

    /// Waits for the start, goes round until the end, closes what is open.
    pub(crate) fn work(mut self) {
        self.run.control.wait_for_start();
        if let Err(error) = self.rounds() {
            self.run.control.fail(error);
            self.run.wake_all();
        }
        self.report_draws();
        if let Err(error) = self.close_all() {
            self.run.control.fail(error);
        }
        self.run.control.ended();
    }

    fn rounds(&mut self) -> Result<(), EngineError> {
        let run = Arc::clone(&self.run);
        let plan = &run.engine.plan.threads[self.kind];
        let mut turns_at_one_instant = 0;
        loop {
            let before = sim::now();
            if let Err(halt) = self.steps(&plan.body) {
                return self.end(halt);
            }
            if run.is_interrupted() {
                run.control.stop(sim::now(), EndReason::Interrupted);
                run.wake_all();
            }
            turns_at_one_instant = if sim::now() > before { 0 } else { turns_at_one_instant + 1 };
            if turns_at_one_instant > STUCK_TURNS {
                return Err(EngineError::Stuck { thread: plan.name.clone() });
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Flow {
        for step in steps {
            for _ in 0..step.iterations.draw(&mut self.rng) {
                if self.run.control.is_over(sim::now()) {
                    return Err(Halt::Stop);
                }
                match &step.kind {
                    StepKind::Composite(body) => self.steps(body)?,
                    StepKind::Operation(task) => {
                        sim::work(crate::charges::GENERATOR, 1);
                        let moves = self.run.engine.plan.steps[task.id].direction != Direction::None;
                        if moves && self.memory > 0 {
                            sim::work(crate::charges::RANDOM, 1);
                            self.spot = self.spots.random_range(0..=u64::MAX);
                        }
                        flowop::execute(self, task).map_err(|halt| self.explain(halt, &step.name))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Running out of files is an error when the run is to last its time.
    fn explain(&self, halt: Halt, flowop: &str) -> Halt {
        let Halt::Exhausted { fileset, state } = halt else { return halt };
        if self.run.engine.program.end != EndPolicy::Timeout {
            return halt;
        }
        let files = self.files(fileset);
        let (existing, absent) = files.counts();
        let lacks_existing = state != State::Absent;
        let defined = &self.run.engine.program.filesets[fileset];
        let advice = match defined.prealloc_percent {
            0 if lacks_existing && defined.trusttree => Advice::PreallocUntrusted,
            0 if lacks_existing => Advice::Prealloc,
            100 if !lacks_existing => Advice::LessPrealloc,
            _ => Advice::Entries((4 * u64::from(files.tree.files())).max(10_000)),
        };
        let error = EngineError::OutOfFiles {
            flowop: flowop.to_owned(),
            fileset: files.name.clone(),
            kind: if lacks_existing { "existing" } else { "absent" },
            existing,
            absent,
            advice,
        };
        error.into()
    }

    /// This thread goes round no more.
    fn end(&self, halt: Halt) -> Result<(), EngineError> {
        let reason = match (halt, self.run.engine.program.end) {
            (Halt::Error(error), _) => return Err(*error),
            (Halt::Stop, _) => return Ok(()),
            (_, EndPolicy::AllDone) => {
                self.run.control.idle(sim::now());
                return Ok(());
            }
            (Halt::Finished, _) => EndReason::Finished,
            (Halt::Exhausted { .. }, _) => EndReason::FirstDone,
        };
        self.run.control.stop(sim::now(), reason);
        self.run.wake_all();
        Ok(())
    }

    /// Closes every slot, outside the statistics.
    fn close_all(&mut self) -> Result<(), EngineError> {
        if let Some(aio) = self.aio.take() {
            aio.finish().map_err(|errno| self.failed("end of the run", "aio_write", errno))?;
        }
        for number in 0..self.slots.len() {
            let slot = self.slots[number];
            let (Some(fd), Some((fileset, file))) = (slot.fd, slot.file) else { continue };
            self.slots[number].fd = None;
            self.calls.close(fd).map_err(|errno| self.failed("end of the run", "close", errno))?;
            self.files(fileset).settle(|pickers| pickers.files.closed(file));
        }
        Ok(())
    }

    fn report_draws(&self) {
        for (step, draws) in &self.draws {
            let mean = draws.sum / draws.count as f64;
            let deviation = (draws.squares / draws.count as f64 - mean * mean).max(0.0).sqrt();
            let name = self.run.engine.plan.steps[*step].name.clone();
            self.run.note_variable(RandomVariable { name, draws: draws.count, mean, deviation });
        }
    }

    /// Runs `call` between two readings of the clock and accounts for it; it returns the bytes moved.
    pub(crate) fn timed(
        &mut self,
        task: &Task,
        call: impl FnOnce(&mut Self) -> Result<u64, EngineError>,
    ) -> Flow {
        let start = sim::now();
        let bytes = call(self)?;
        self.account(task, start, bytes)
    }

    /// Ends an operation that began at `start`: counts it, unless it ended after the run.
    pub(crate) fn account(&mut self, task: &Task, start: Nanos, bytes: u64) -> Flow {
        let end = sim::now();
        let run = &*self.run;
        let control = &run.control;
        control.update_statistics();
        if control.is_ordered() {
            sim::interact();
        }
        let counter = &mut self.counters[task.id - run.engine.plan.threads[self.kind].first_step];
        counter.ops += 1;
        counter.bytes += bytes;
        let counts = control.counts(end) && !control.is_enough();
        let mut last = false;
        if control.is_ordered() {
            let info = &run.engine.plan.steps[task.id];
            let is_io = info.direction != Direction::None;
            last = control.add(counts && info.op.is_counted(), is_io, bytes);
        }
        if counts {
            run.stats.record(self.number, task.id, end - start, bytes);
        }
        if last {
            control.stop(end, EndReason::Operations);
            run.wake_all();
        }
        if control.is_over(end) { Err(Halt::Stop) } else { Ok(()) }
    }

    /// The fileset of this number.
    pub(crate) fn files(&self, fileset: usize) -> &Files {
        &self.run.engine.sets[fileset]
    }

    /// The fileset that an operation names; the checks made sure that it does where it must.
    pub(crate) fn fileset_of(&self, task: &Task) -> Result<usize, EngineError> {
        task.operation.fileset.ok_or_else(|| EngineError::Slot {
            flowop: self.name(task).to_owned(),
            slot: usize::from(task.operation.fd),
            state: "empty",
            advice: "name a fileset: filename=…",
        })
    }

    /// The name of an operation.
    pub(crate) fn name(&self, task: &Task) -> &str {
        &self.run.engine.plan.steps[task.id].name
    }

    /// Picks a file of the operation's fileset; busy from now on.
    pub(crate) fn pick(&mut self, task: &Task, fileset: usize, state: State) -> Flow<u32> {
        let run = Arc::clone(&self.run);
        let files = &run.engine.sets[fileset];
        let taken = if task.operation.indexed.is_some() {
            let Some(index) = self.index(&task.operation, files.tree.files()) else {
                return Err(Halt::Exhausted { fileset, state });
            };
            files.pick(&run.control, Choice::Index(state, index))
        } else if task.operation.opennext && state == State::Existing {
            files.pick(&run.control, Choice::Own(self.rotors.entry(fileset).or_default()))
        } else {
            files.pick(&run.control, Choice::Next(state))
        };
        taken.entry(fileset, state)
    }

    /// The index that `indexed=` asks for; none in an empty set.
    pub(crate) fn index(&mut self, operation: &Operation, entries: u32) -> Option<u32> {
        let value = operation.indexed.as_ref()?.draw_f64(&mut self.rng);
        let wanted =
            if self.run.engine.options.quirks.indexed_gamma { value } else { value * f64::from(entries / 2) };
        (wanted as u64).checked_rem(u64::from(entries)).map(|index| index as u32)
    }

    /// The number of the slot that an operation works on.
    pub(crate) fn slot_number(&mut self, operation: &Operation) -> usize {
        if operation.fd > 0 || !operation.opennext {
            return usize::from(operation.fd);
        }
        let all = limits::SLOTS as usize;
        let files = operation.fileset.map_or(1, |fileset| self.files(fileset).tree.files() as usize);
        if self.next_slot == all - files.min(all) || self.next_slot == 0 {
            self.next_slot = all;
        }
        self.next_slot -= 1;
        self.next_slot
    }

    /// The flags to open a file of `fileset` with.
    pub(crate) fn open_flags(&self, operation: &Operation, fileset: usize) -> OpenFlags {
        let spec = &self.run.engine.program.filesets[fileset];
        let mut flags = match (spec.readonly, spec.writeonly) {
            (true, _) => OpenFlags::READ,
            (_, true) => OpenFlags::WRITE,
            _ => OpenFlags::READ | OpenFlags::WRITE,
        };
        flags.set(OpenFlags::SYNC, operation.dsync);
        flags.set(OpenFlags::DIRECT, operation.directio);
        flags
    }

    /// What limiter number `step` remembers.
    pub(crate) fn limiter(&mut self, step: usize) -> &mut Limiter {
        self.limiters.entry(step).or_default()
    }

    /// The counts of the step number `local` of this thread.
    pub(crate) fn counter(&self, local: usize) -> Counter {
        self.counters[local]
    }

    /// Adds a draw of a random variable that is under test.
    pub(crate) fn note_draw(&mut self, step: usize, value: f64) {
        let draws = self.draws.entry(step).or_default();
        draws.count += 1;
        draws.sum += value;
        draws.squares += value * value;
    }

    /// A failed call, on the path that was used last.
    pub(crate) fn failed(&self, what: &str, call: &'static str, errno: Errno) -> EngineError {
        EngineError::Call { what: what.to_owned(), call, path: self.path.clone(), errno }
    }

    /// A failed call of an operation, on the path that was used last.
    pub(crate) fn failed_at(&self, task: &Task, call: &'static str, errno: Errno) -> EngineError {
        self.failed(&format!("flowop \"{}\"", self.name(task)), call, errno)
    }

    /// A failed call of an operation on a slot.
    pub(crate) fn failed_on(
        &self,
        task: &Task,
        slot: usize,
        call: &'static str,
        errno: Errno,
    ) -> EngineError {
        let (what, path) = (format!("flowop \"{}\"", self.name(task)), self.slot_path(slot));
        EngineError::Call { what, call, path, errno }
    }

    /// The path of the file in a slot.
    pub(crate) fn slot_path(&self, slot: usize) -> String {
        let mut path = String::new();
        if let Some((fileset, file)) = self.slots[slot].file {
            self.files(fileset).file_path(file, &mut path);
        }
        path
    }

    /// Moves the descriptor of a slot.
    pub(crate) fn seek(
        &mut self,
        task: &Task,
        slot: usize,
        offset: i64,
        whence: Whence,
    ) -> Result<(), EngineError> {
        let fd = self.open_fd(task, slot)?;
        let position = self.calls.lseek(fd, offset, whence);
        self.slots[slot].position = position.map_err(|errno| self.failed_on(task, slot, "lseek", errno))?;
        Ok(())
    }

    /// The descriptor of a slot that must be open.
    pub(crate) fn open_fd(&self, task: &Task, slot: usize) -> Result<Fd, EngineError> {
        self.slots[slot].fd.ok_or_else(|| EngineError::Slot {
            flowop: self.name(task).to_owned(),
            slot,
            state: "not open",
            advice: "open it first, or use another fd=",
        })
    }

    /// The nominal size of the file in a slot; 0 for an empty slot.
    pub(crate) fn nominal_size(&self, slot: usize) -> Option<u64> {
        self.slots[slot].file.map(|(fileset, file)| self.files(fileset).tree.size_of(file))
    }
}

impl Taken {
    /// The entry, or what follows from having none.
    pub(crate) fn entry(self, fileset: usize, state: State) -> Flow<u32> {
        match self {
            Self::Entry(entry) => Ok(entry),
            Self::Empty => Err(Halt::Exhausted { fileset, state }),
            Self::Stopped => Err(Halt::Stop),
        }
    }
}

/// The next I/O of the operation, of `iosize` bytes at most, begins at the place in the thread's memory that the operation has
/// drawn. Filebench rounds it down to a multiple of the size, so that large sizes have few places.
pub(crate) fn use_memory(worker: &Worker, iosize: u64) {
    if worker.memory > 0 {
        let at = worker.spot % (worker.memory.saturating_sub(iosize) + 1);
        sim::buffer_at(at - at % iosize.max(1));
    }
}
