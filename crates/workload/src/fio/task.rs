//! The tasks of a clone: they take I/Os from its source, carry them out, and keep the latencies.
//!
//! ```text
//! Closed ─ open ─▷ Working ─ the pass is over, nothing under way ─▷ (end_fsync) ─▷ ReadingBack ─▷ close ─▷ Closed … Ended
//! ```
//!
//! A step between two phases is made by the task that finds it due, while the others wait (`busy`).
//!
//! Lock order: `fio.clone`, then `fio.steady`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sim::{Condvar, LockClass, Mutex, MutexGuard, Nanos, Rng};
use vfs::mapping::PAGE;
use vfs::{Errno, FallocateMode, Fd, Mapping, OpenFlags, Protection, Syscalls, Whence};

use super::clones::JobClone;
use super::content::{self, Buffer};
use super::job::{Engine, Sync};
use super::layout;
use super::limits::{Found, Search, Watch};
use super::source::{Io, Kind, Next, Source};
use super::steady::Gauge;
use super::tally::{KINDS, Tallies, kind};
use super::value::Amount;

pub(super) static CLONE: LockClass = LockClass::new("fio.clone");
pub(super) static RUN: LockClass = LockClass::new("fio.run");

/// The mode of files that fio makes.
pub(super) const MODE: u32 = 0o644;

/// What all clones share.
#[derive(Debug)]
pub(super) struct RunState {
    /// Set by the first error.
    stopped: AtomicBool,
    /// By group: set when a job of it with `exitall` has ended.
    exits: Vec<AtomicBool>,
    pub(super) interrupt: Option<Arc<AtomicBool>>,
    /// I/Os that end the run.
    pub(super) wanted: u64,
    counted: AtomicU64,
    /// When the caller wants the run to end.
    pub(super) limit: AtomicU64,
    /// The first failure, and the jobs of which all clones have ended.
    told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Told {
    failure: Option<Failure>,
    /// The first block that was not what was written, where that does not end the run.
    mismatch: Option<Failure>,
    /// Clones that have ended, by job.
    ended: Vec<u64>,
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) what: String,
    pub(super) errno: Option<Errno>,
}

impl RunState {
    pub(super) fn new(
        (jobs, groups): (usize, usize),
        interrupt: Option<Arc<AtomicBool>>,
        wanted: u64,
    ) -> Self {
        Self {
            stopped: AtomicBool::new(false),
            exits: (0..groups).map(|_| AtomicBool::new(false)).collect(),
            interrupt,
            wanted,
            counted: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            told: Mutex::new(&RUN, Told { ended: vec![0; jobs], ..Told::default() }),
            changed: Condvar::of_class(&RUN),
        }
    }

    fn fail(&self, what: String, errno: Option<Errno>) {
        self.stopped.store(true, Relaxed);
        self.told.lock().failure.get_or_insert(Failure { what, errno });
        self.changed.notify_all();
    }

    /// The first failure.
    pub(super) fn failure(&self) -> Option<Failure> {
        let told = self.told.lock();
        told.failure.clone().or_else(|| told.mismatch.clone())
    }

    /// A clone of `job` has ended.
    fn has_ended(&self, job: usize) {
        self.told.lock().ended[job] += 1;
        self.changed.notify_all();
    }

    /// Waits until `clones` clones of `job` have ended, or the run has failed.
    fn wait_for(&self, job: usize, clones: u64) {
        let mut told = self.told.lock();
        while told.ended[job] < clones && told.failure.is_none() {
            told = self.changed.wait(told);
        }
    }

    pub(super) fn is_over(&self, now: Nanos) -> bool {
        self.stopped.load(Relaxed)
            || now.0 >= self.limit.load(Relaxed)
            || self.interrupt.as_ref().is_some_and(|interrupt| interrupt.load(Relaxed))
            || self.counted.load(Relaxed) >= self.wanted
    }

    /// Whether a group has nothing more to do.
    fn is_over_for(&self, group: u32, now: Nanos) -> bool {
        self.exits[group as usize].load(Relaxed) || self.is_over(now)
    }

    /// Counts an I/O; false for one more than is wanted.
    #[inline]
    fn counts(&self) -> bool {
        self.wanted == u64::MAX || self.counted.fetch_add(1, Relaxed) < self.wanted
    }

    /// Whether the caller's limit, not the job file, has ended the run.
    pub(super) fn was_limited(&self) -> bool {
        self.counted.load(Relaxed) >= self.wanted || sim::now().0 >= self.limit.load(Relaxed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Working,
    ReadingBack,
    Ended,
}

/// The state of a clone, for its tasks.
pub(super) struct Worker {
    pub(super) clone: JobClone,
    calls: Arc<dyn Syscalls>,
    run: Arc<RunState>,
    /// Clones of the job that this one waits for.
    pub(super) waits: Option<(usize, u64)>,
    /// What ends the job when it is steady, shared with its group where that is reported as one.
    pub(super) gauge: Option<Arc<Gauge>>,
    state: Mutex<State>,
    /// Raised when what was measured before does not count.
    epoch: AtomicU64,
    changed: Condvar,
    /// Where tasks wait whose number is not below the depth that is searched for: others do not wake them at each I/O.
    parked: Condvar,
}

struct State {
    source: Source,
    phase: Phase,
    /// A task is on its way to the next phase, or thinks for all.
    busy: bool,
    waiting: usize,
    fds: Vec<Fd>,
    /// Of each file, for `ioengine=mmap`.
    maps: Vec<Map>,
    /// Where each descriptor stands, for `ioengine=sync`.
    positions: Vec<u64>,
    under_way: Vec<Io>,
    /// An I/O that waits for one on the same bytes.
    held: Option<Io>,
    reads: VecDeque<Io>,
    clock: Times,
    mismatches: u64,
    /// Passes that have ended.
    passes: u64,
    watch: Watch,
    search: Option<Search>,
    /// Whether the search for a depth has ended the job.
    found: bool,
    /// Which blocks the last pass has left, for the check after a mount.
    left: Vec<Io>,
    tasks_left: u64,
}

/// Times of a clone.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// When it was started, from which its schedule counts.
    start: Nanos,
    /// When it is measured.
    pub(super) begin: Nanos,
    deadline: Nanos,
    phase: Nanos,
    /// Measured time of its I/O, and of reading back.
    pub(super) work: Nanos,
    pub(super) verify: Nanos,
    /// When it had ended.
    pub(super) end: Nanos,
}

/// A mapping of a whole file.
#[derive(Clone)]
struct Map {
    mapping: Arc<dyn Mapping>,
    size: u64,
}

/// An I/O that a task carries out.
struct Taken {
    io: Io,
    fd: Fd,
    map: Option<Map>,
    /// Whether the descriptor stands elsewhere.
    moved: bool,
    /// When the clone's schedule began.
    start: Nanos,
}

/// What a task has for itself.
struct Frame {
    buffer: Buffer,
    rng: Rng,
    begin: Nanos,
    /// The epoch of the tallies.
    epoch: u64,
    tallies: Tallies,
}

impl Frame {
    /// Forgets what was measured before `epoch`.
    fn renew(&mut self, epoch: u64) {
        if self.epoch != epoch {
            (self.epoch, self.tallies) = (epoch, Tallies::default());
        }
    }
}

/// What a clone has left behind.
pub(super) struct Left {
    /// The depth that `latency_target` has found.
    pub(super) depth: Option<u64>,
    /// How `steadystate` ended.
    pub(super) steady: Option<String>,
    pub(super) times: Times,
    pub(super) mismatches: u64,
    pub(super) blocks: Vec<Io>,
}

impl Worker {
    pub(super) fn new(clone: JobClone, source: Source, calls: Arc<dyn Syscalls>, run: Arc<RunState>) -> Self {
        let (tasks, files) = (clone.spec.tasks(), clone.files.len());
        let state = State {
            source,
            phase: Phase::Closed,
            busy: false,
            waiting: 0,
            fds: Vec::new(),
            maps: Vec::new(),
            positions: vec![u64::MAX; files],
            under_way: Vec::with_capacity(tasks as usize),
            held: None,
            reads: VecDeque::new(),
            clock: Times::default(),
            mismatches: 0,
            passes: 0,
            watch: Watch::default(),
            search: clone.spec.target.map(|target| Search::new(target, clone.spec.tasks())),
            found: false,
            left: Vec::new(),
            tasks_left: tasks,
        };
        let (state, changed) = (Mutex::new(&CLONE, state), Condvar::of_class(&CLONE));
        let (parked, epoch) = (Condvar::of_class(&CLONE), AtomicU64::new(0));
        Self { clone, calls, run, waits: None, gauge: None, state, epoch, changed, parked }
    }

    /// Says when it starts, and from when on it is measured.
    pub(super) fn schedule(&self, start: Nanos, ramp: Nanos) {
        let spec = &self.clone.spec;
        let begin = start + ramp;
        let deadline = spec.runtime.map_or(Nanos::MAX, |time| begin + time);
        self.state.lock().clock = Times { start, begin, deadline, phase: start, ..Times::default() };
    }

    /// What is left when all tasks have ended.
    pub(super) fn left(&self) -> Left {
        let mut state = self.state.lock();
        let blocks = std::mem::take(&mut state.left);
        let depth = state.search.as_ref().map(|search| search.depth);
        let steady = self.gauge.as_ref().map(|gauge| gauge.told());
        Left { depth, steady, times: state.clock, mismatches: state.mismatches, blocks }
    }

    fn wait<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        state = self.changed.wait(state);
        state.waiting -= 1;
        state
    }

    /// The whole of a task's part.
    pub(super) fn run(&self, slot: u64, mut rng: Rng) -> Tallies {
        let start = self.state.lock().clock.start;
        if let Some((job, clones)) = self.waits {
            self.run.wait_for(job, clones);
            self.restart_clock(start);
        }
        sim::sleep_until(start);
        let spec = &self.clone.spec;
        let largest = spec.max_size() as usize;
        let buffer = Buffer::filled(largest, &spec.fill, &mut rng);
        let begin = self.state.lock().clock.begin;
        let mut frame = Frame { buffer, rng, begin, epoch: 0, tallies: Tallies::default() };
        while let Some(taken) = self.take(slot) {
            let times = self.carry_out(&taken, &mut frame);
            self.complete(&taken.io, times);
        }
        frame.renew(self.epoch.load(Relaxed));
        let mut state = self.state.lock();
        state.tasks_left -= 1;
        let last = state.tasks_left == 0;
        drop(state);
        if last {
            if spec.exit_all {
                self.run.exits[self.clone.group as usize].store(true, Relaxed);
            }
            self.run.has_ended(self.clone.job);
        }
        frame.tallies
    }

    /// A job that has waited for another starts now.
    fn restart_clock(&self, planned: Nanos) {
        let mut state = self.state.lock();
        let late = sim::now().since(planned);
        let clock = &mut state.clock;
        if clock.start == planned && late > Nanos::ZERO {
            (clock.start, clock.begin, clock.phase) = (planned + late, clock.begin + late, planned + late);
            clock.deadline += late;
        }
    }

    /// The next I/O; none at the end.
    fn take(&self, slot: u64) -> Option<Taken> {
        let mut state = self.state.lock();
        loop {
            if state.phase == Phase::Ended {
                return None;
            }
            if state.search.as_ref().is_some_and(|search| slot >= search.depth) {
                state = self.parked.wait(state);
                continue;
            }
            if state.busy {
                state = self.wait(state);
                continue;
            }
            match self.next(&mut state) {
                Next::Io(io) if self.must_wait(&state, &io) => {
                    state.held = Some(io);
                    state = self.wait(state);
                }
                Next::Io(io) => {
                    state.under_way.push(io);
                    let moved = state.positions[io.file] != io.offset;
                    if moves_descriptor(io.kind) {
                        state.positions[io.file] = io.offset + io.len;
                    }
                    let (fd, map) = (state.fds[io.file], state.maps.get(io.file).cloned());
                    return Some(Taken { io, fd, map, moved, start: state.clock.start });
                }
                Next::Drain | Next::End | Next::Late if !state.under_way.is_empty() => {
                    state = self.wait(state);
                }
                Next::Drain => {}
                Next::Think(time) => state = self.alone(state, |_| sim::sleep(time)),
                Next::Late => {
                    let deadline = state.clock.deadline;
                    state = self.alone(state, |worker| {
                        sim::sleep_until(deadline);
                        worker.turn(Some(deadline));
                    });
                }
                Next::End => state = self.alone(state, |worker| worker.turn(None)),
            }
        }
    }

    /// Does something that no other task of the clone may see half done.
    fn alone<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        act: impl FnOnce(&Self),
    ) -> MutexGuard<'a, State> {
        state.busy = true;
        drop(state);
        act(self);
        let mut state = self.state.lock();
        state.busy = false;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
        if state.search.is_some() && state.phase == Phase::Ended {
            self.parked.notify_all();
        }
        state
    }

    fn next(&self, state: &mut State) -> Next {
        let now = sim::now();
        match state.phase {
            Phase::Closed | Phase::Ended => Next::End,
            Phase::ReadingBack => state.reads.pop_front().map_or(Next::End, Next::Io),
            Phase::Working => {
                let clock = state.clock;
                // What was promised is done: a trim's write, a sync, what waited for another.
                if let Some(io) = state.held.take().or_else(|| state.source.owed()) {
                    return Next::Io(io);
                }
                if now >= clock.deadline || self.is_done(state, now) {
                    return Next::End;
                }
                let limit = clock.deadline.since(clock.start);
                state.source.next(now.since(clock.start), limit, state.under_way.len())
            }
        }
    }

    /// Whether the job ends before its size and its time.
    fn is_done(&self, state: &State, now: Nanos) -> bool {
        let steady = self.gauge.as_ref().is_some_and(|gauge| gauge.is_attained());
        steady || state.found || self.run.is_over_for(self.clone.group, now)
    }

    /// Whether an I/O under way is on the same bytes, and matters.
    fn must_wait(&self, state: &State, io: &Io) -> bool {
        let spec = &self.clone.spec;
        if !(spec.serialize || spec.verify.is_some()) || io.len == 0 {
            return false;
        }
        let overlaps = |other: &Io| {
            other.file == io.file && other.offset < io.offset + io.len && io.offset < other.offset + other.len
        };
        state.under_way.iter().any(overlaps)
    }

    /// An I/O has ended; `times` are its start and end, where its call was made and did not fail.
    fn complete(&self, io: &Io, times: Option<(Nanos, Nanos)>) {
        let mut state = self.state.lock();
        if let Some(times) = times.filter(|_| kind(io.kind) < 3) {
            self.judge(&mut state, io, times);
        }
        let at = state.under_way.iter().position(|other| other == io).expect("it was taken");
        state.under_way.swap_remove(at);
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// What an I/O says of the limits of the job, and of the depth that it searches for.
    fn judge(&self, state: &mut State, io: &Io, (start, end): (Nanos, Nanos)) {
        let limits = &self.clone.spec.limits;
        if !limits.are_none() {
            let ran = end.since(state.clock.start);
            let told = state.watch.note(limits, (kind(io.kind), io.len), (start, end), ran);
            if let Some(told) = told {
                self.run.fail(format!("{}: {told}", self.clone.label), None);
            }
        }
        if let Some(gauge) = &self.gauge {
            gauge.note(io.len, (start, end), state.clock.start);
        }
        let Some(search) = &mut state.search else { return };
        let depth = search.depth;
        let found = search.note(start, end);
        if search.depth > depth {
            self.parked.notify_all();
        }
        match found {
            Found::Nothing => {}
            Found::Done => state.found = true,
            Found::Missed => {
                let what = "latency_target is not met by one I/O at a time";
                self.run.fail(format!("{}: {what}", self.clone.label), None);
            }
            Found::Forget => {
                (state.clock.begin, state.clock.work) = (state.clock.begin.max(end), Nanos::ZERO);
                self.epoch.fetch_add(1, Relaxed);
            }
        }
    }

    /// From one phase to the next. Nothing is under way; `at` is when the I/O of a job ended that its time has ended.
    fn turn(&self, at: Option<Nanos>) {
        let (phase, mut clock) = {
            let state = self.state.lock();
            (state.phase, state.clock)
        };
        let turned = match phase {
            Phase::Closed => self.open().map(|()| Phase::Working),
            Phase::Working => {
                let verify = self.end_of_pass();
                let now = at.filter(|_| !self.clone.spec.end_fsync).unwrap_or_else(sim::now);
                clock.work += now.since(clock.phase.max(clock.begin));
                clock.phase = now;
                verify.and_then(|verify| if verify { Ok(Phase::ReadingBack) } else { self.close_pass() })
            }
            Phase::ReadingBack => {
                let now = sim::now();
                clock.verify += now.since(clock.phase.max(clock.begin));
                clock.phase = now;
                self.close_pass()
            }
            Phase::Ended => Ok(Phase::Ended),
        };
        clock.end = sim::now();
        let mut state = self.state.lock();
        state.clock = clock;
        state.phase = turned.unwrap_or_else(|(what, errno)| {
            self.run.fail(format!("{}: {what}: {errno}", self.clone.label), Some(errno));
            Phase::Ended
        });
    }

    /// What ends the I/O of a pass; whether it is read back.
    fn end_of_pass(&self) -> Result<bool, Failed> {
        let spec = &self.clone.spec;
        let fds = self.state.lock().fds.clone();
        if spec.end_fsync && spec.mode.writes {
            for (fd, file) in fds.iter().zip(&self.clone.files) {
                self.calls.fsync(*fd).map_err(|errno| (format!("fsync of {}", file.path), errno))?;
            }
        }
        let Some(verify) = spec.verify.as_ref().filter(|_| spec.mode.writes) else { return Ok(false) };
        let mut state = self.state.lock();
        let written = state.source.take_written();
        state.left.clone_from(&written.iter().copied().collect());
        if verify.reads_back && !self.run.stopped.load(Relaxed) {
            state.reads = written;
        }
        Ok(!state.reads.is_empty())
    }

    fn open(&self) -> Result<(), Failed> {
        let spec = &self.clone.spec;
        let mapped = spec.engine == Engine::Mapped;
        let mut flags = OpenFlags::empty();
        if spec.mode.reads || spec.verify.is_some() || mapped {
            flags |= OpenFlags::READ;
        }
        if spec.mode.writes || spec.mode.trims {
            flags |= OpenFlags::WRITE | OpenFlags::CREATE;
        }
        match spec.sync {
            Sync::None => {}
            Sync::All => flags |= OpenFlags::SYNC,
            Sync::Data => flags |= OpenFlags::DSYNC,
        }
        if spec.direct {
            flags |= OpenFlags::DIRECT;
        }
        let mut fds = Vec::with_capacity(self.clone.files.len());
        for file in &self.clone.files {
            let fd = self.calls.open(file.path.as_bytes(), flags, MODE);
            fds.push(
                fd.map_err(|errno| (format!("open of {}{}", file.path, hint(errno, spec.direct)), errno))?,
            );
        }
        let maps = if mapped { self.map(&fds)? } else { Vec::new() };
        let mut state = self.state.lock();
        state.positions.fill(u64::MAX);
        (state.fds, state.maps) = (fds, maps);
        Ok(())
    }

    /// Maps the files, whole.
    fn map(&self, fds: &[Fd]) -> Result<Vec<Map>, Failed> {
        let mode = &self.clone.spec.mode;
        let mut protection = Protection::READ;
        protection.set(Protection::WRITE, mode.writes);
        let map = |fd: Fd| {
            let size = self.calls.fstat(fd)?.size;
            Ok(Map { mapping: self.calls.mmap(fd, 0, size, protection)?.into(), size })
        };
        let of = |(fd, file): (&Fd, &super::clones::FileSpec)| {
            map(*fd).map_err(|errno| (format!("mmap of {}{}", file.path, hint(errno, false)), errno))
        };
        fds.iter().zip(&self.clone.files).map(of).collect()
    }

    /// Closes the files, and begins another pass if there is one.
    fn close_pass(&self) -> Result<Phase, Failed> {
        let spec = &self.clone.spec;
        let (fds, maps) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.fds), std::mem::take(&mut state.maps))
        };
        drop(maps);
        for (fd, file) in fds.into_iter().zip(&self.clone.files) {
            if spec.fsync_on_close && spec.mode.writes {
                self.calls.fsync(fd).map_err(|errno| (format!("fsync of {}", file.path), errno))?;
            }
            self.calls.close(fd).map_err(|errno| (format!("close of {}", file.path), errno))?;
        }
        let mut state = self.state.lock();
        let now = sim::now();
        let over = now >= state.clock.deadline || self.is_done(&state, now) || state.source.is_exhausted();
        let left =
            if spec.time_based { u64::MAX } else { self.clone.total.saturating_sub(state.source.moved()) };
        state.passes += 1;
        // As at fio, only an `io_size` makes up for what a pass has left undone, because no file had room for its next I/O.
        let more =
            spec.time_based || state.passes < spec.loops || matches!(spec.io_size, Some(Amount::Bytes(1..)));
        let again = !over && more && left >= spec.min_size();
        if again {
            state.source.restart(left);
        }
        drop(state);
        if spec.unlink_each_loop || (!again && spec.unlink) {
            for file in &self.clone.files {
                match self.calls.unlink(file.path.as_bytes()) {
                    Ok(()) | Err(Errno::ENOENT) => {} // another clone has removed it
                    Err(errno) => return Err((format!("unlink of {}", file.path), errno)),
                }
            }
            if again && spec.mode.reads {
                // A pass that reads finds its files again.
                layout::again(&*self.calls, &self.clone).map_err(|error| (error.to_string(), error.errno))?;
            }
        }
        Ok(if again { Phase::Closed } else { Phase::Ended })
    }

    /// One I/O with its latencies; when its call began and ended.
    fn carry_out(&self, taken: &Taken, frame: &mut Frame) -> Option<(Nanos, Nanos)> {
        let io = &taken.io;
        sim::work(crate::charges::GENERATOR, 1);
        let due = io.due.map(|due| taken.start + due);
        if let Some(due) = due {
            sim::sleep_until(due);
        }
        let data = frame.buffer.of(io.len as usize);
        self.fill(io, data, &mut frame.rng);
        let start = sim::now();
        let outcome = self.call(taken, data);
        let end = sim::now();
        if let Err(errno) = outcome {
            let (call, file) = (KINDS[kind(io.kind)], &self.clone.files[io.file].path);
            let place = format!("{call} of {} bytes at {} of {file}", io.len, io.offset);
            let hint = hint(errno, self.clone.spec.direct);
            self.run.fail(format!("{}: {place}{hint}: {errno}", self.clone.label), Some(errno));
            return None;
        }
        self.compare(io, data);
        frame.renew(self.epoch.load(Relaxed));
        if end >= frame.begin && (kind(io.kind) > 2 || self.run.counts()) {
            frame.tallies[kind(io.kind)].note(io.len, due, start, end);
        }
        Some((start, end))
    }

    fn fill(&self, io: &Io, data: &mut [u8], rng: &mut Rng) {
        if io.kind != Kind::Write {
            return;
        }
        let spec = &self.clone.spec;
        match &spec.verify {
            None => content::refresh(&spec.fill, data, io.number, rng),
            Some(verify) => {
                let stamp = self.state.lock().source.stamp(io.number);
                verify.fill(data, io.offset, stamp);
                content::charge(data.len());
            }
        }
    }

    /// The system call of an I/O.
    fn call(&self, taken: &Taken, data: &mut [u8]) -> Result<(), Errno> {
        let (calls, io, fd) = (&*self.calls, &taken.io, taken.fd);
        if let Some(map) = &taken.map
            && io.kind != Kind::Trim
        {
            return self.access(map, io, data);
        }
        let seeks = self.clone.spec.engine == Engine::Sync;
        if seeks && taken.moved && moves_descriptor(io.kind) {
            calls.lseek(fd, io.offset.cast_signed(), Whence::Set)?;
        }
        match io.kind {
            Kind::Read | Kind::Verify(_) => whole(data.len(), Errno::EIO, |done| {
                let rest = &mut data[done..];
                if seeks { calls.read(fd, rest) } else { calls.pread(fd, rest, io.offset + done as u64) }
            }),
            Kind::Write => whole(data.len(), Errno::ENOSPC, |done| {
                let rest = &data[done..];
                if seeks { calls.write(fd, rest) } else { calls.pwrite(fd, rest, io.offset + done as u64) }
            }),
            Kind::Trim => {
                let mode = FallocateMode::KEEP_SIZE | FallocateMode::PUNCH_HOLE;
                calls.fallocate(fd, mode, io.offset, io.len)
            }
            Kind::Fsync => calls.fsync(fd),
            Kind::Fdatasync => calls.fdatasync(fd),
        }
    }

    /// An I/O on a mapped file. As at fio a sync is one of the whole file. A store is synced where a write would be: fio does that
    /// with `direct`, and opens the file with `O_SYNC`, to which stores are not subject, with `sync`.
    fn access(&self, map: &Map, io: &Io, data: &mut [u8]) -> Result<(), Errno> {
        match io.kind {
            Kind::Read | Kind::Verify(_) => map.mapping.read(io.offset, data),
            Kind::Write => {
                map.mapping.write(io.offset, data)?;
                let spec = &self.clone.spec;
                if spec.sync == Sync::None && !spec.direct {
                    return Ok(());
                }
                let start = io.offset - io.offset % PAGE;
                map.mapping.sync(start, io.offset + io.len - start)
            }
            Kind::Trim => Ok(()),
            Kind::Fsync | Kind::Fdatasync => map.mapping.sync(0, map.size),
        }
    }

    /// Checks what was read.
    fn compare(&self, io: &Io, data: &[u8]) {
        let spec = &self.clone.spec;
        let Some(verify) = &spec.verify else { return };
        let stamp = match io.kind {
            Kind::Verify(stamp) => Some(stamp),
            Kind::Read if !spec.mode.writes => None,
            _ => return,
        };
        content::charge(data.len());
        if let Err(what) = verify.check(data, io.offset, stamp) {
            self.state.lock().mismatches += 1;
            let what = format!("{}: verify of {}: {what}", self.clone.label, self.clone.files[io.file].path);
            if verify.fatal {
                self.run.fail(what, None);
            } else {
                self.run.told.lock().mismatch.get_or_insert(Failure { what, errno: None });
            }
        }
    }
}

/// Whether an I/O moves the descriptor of its file where it is not told its place (`ioengine=sync`).
fn moves_descriptor(kind: Kind) -> bool {
    matches!(kind, Kind::Read | Kind::Write | Kind::Verify(_))
}

/// What failed, and how.
type Failed = (String, Errno);

/// Moves `len` bytes by as many calls as it takes; `nothing` is the error when one moves nothing.
fn whole(len: usize, nothing: Errno, mut call: impl FnMut(usize) -> vfs::Result<usize>) -> Result<(), Errno> {
    let mut done = 0;
    while done < len {
        match call(done) {
            Ok(0) => return Err(nothing),
            Ok(moved) => done += moved,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// What an errno may mean here.
fn hint(errno: Errno, direct: bool) -> &'static str {
    match errno {
        Errno::EINVAL if direct => " (the file system may have no O_DIRECT: give direct=0)",
        Errno::EOPNOTSUPP => " (the file system does not do that)",
        Errno::ENODEV => " (files cannot be mapped here: use another ioengine)",
        _ => "",
    }
}
