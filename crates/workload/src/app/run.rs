//! A run of an application: one task a client, a common start, a common window.
//!
//! Clients are tasks; each has processes of its own. They take the cores in turn. With `check` the names and sizes of all files at
//! the end must be the same after the next mount.

use std::sync::{Arc, Mutex, PoisonError};

use results::WorkerRecord;
use sim::{Bytes, JoinHandle, Nanos, TaskSpec};
use vfs::Syscalls;

use super::control::{Control, Failure, Kind, Tally};
use crate::suite::{How, Job, JobError, Measured, Phase, Processes, sleep_until_begin};
use crate::tree::{self, CallFailed, Left};

/// What an application is to its run.
pub(crate) trait Plan: Send + Sync {
    /// The suite that it is of.
    fn suite(&self) -> &'static str {
        "app"
    }
    /// Its name in the suite.
    fn name(&self) -> &'static str;
    /// The kinds of its operations.
    fn kinds(&self) -> &'static [Kind];
    /// How many clients it has.
    fn clients(&self) -> u64;
    /// On how many of the machine's cores they are.
    fn cores(&self) -> u64 {
        u64::MAX
    }
    /// Whether each client stays on its core.
    fn is_bound(&self) -> bool {
        false
    }
    /// The longest read or write of a client.
    fn buffer(&self) -> Bytes;
    /// Makes directories and files.
    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure>;
    /// Client number `client`, from 0 on.
    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn Client>;

    /// Adds what follows from all counts, and checks what the clients have left.
    fn conclude(&self, _measured: &mut Measured) -> Result<(), Failure> {
        Ok(())
    }

    /// Checks what the clients have left, after the next mount, beyond names and sizes.
    fn verify(&self, _calls: &dyn Syscalls) -> Result<(), Failure> {
        Ok(())
    }
}

/// Where a client works.
pub(crate) struct Place<'a> {
    /// How the run is made.
    pub(crate) how: &'a How,
    /// The core of the client.
    pub(crate) core: u16,
    /// What starts processes.
    pub(crate) processes: &'a Arc<dyn Processes>,
}

/// A client.
pub(crate) trait Client: Send {
    /// Makes the next operation, and notes it in `tally`. False: it has no further one.
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure>;

    /// Waits for what it has begun.
    fn finish(&mut self, _tally: &mut Tally) {}
}

/// The run of an application on one subject.
pub(crate) struct Run<P> {
    plan: Arc<P>,
    how: How,
    processes: Arc<dyn Processes>,
    main: Arc<dyn Syscalls>,
    /// What the work has left, where that is checked.
    left: Mutex<Option<Left>>,
}

impl<P: Plan + 'static> Run<P> {
    pub(crate) fn new(plan: Arc<P>, how: &How, processes: Arc<dyn Processes>) -> Self {
        let main = processes.start();
        Self { plan, how: how.clone(), processes, main, left: Mutex::default() }
    }

    fn failed(&self, what: &str, error: impl Into<Failure>) -> JobError {
        error.into().into_error(&format!("{}/{}", self.plan.suite(), self.plan.name()), what)
    }

    fn start(&self, control: &Arc<Control>) -> Vec<(u16, JoinHandle<Ended>)> {
        let cores = self.plan.cores().clamp(1, u64::from(self.how.cores.count()));
        let start = |client: u64| {
            let core = self.how.cores.round_robin(client % cores);
            let place = Place { how: &self.how, core, processes: &self.processes };
            let mut client_of = Arc::clone(&self.plan).client(client, place);
            let control = Arc::clone(control);
            let spec = TaskSpec::named(format!("{} {client}", self.plan.name()))
                .on_core(core)
                .with_buffer(self.plan.buffer());
            let spec = if self.plan.is_bound() { spec.pinned() } else { spec.movable() };
            (core, sim::spawn(spec, move || play(&mut *client_of, &control)))
        };
        (0..self.plan.clients()).map(start).collect()
    }
}

/// What a client has left behind.
struct Ended {
    tally: Tally,
    elapsed: Nanos,
    failed: bool,
}

/// Operation after operation until the end.
fn play(client: &mut dyn Client, control: &Arc<Control>) -> Ended {
    control.ready.sleep_until(control.start());
    let (mut tally, mut failed) = (Tally::default(), false);
    while !control.is_over() {
        match client.step(control, &mut tally) {
            Ok(true) => {}
            Ok(false) => break,
            Err(failure) => {
                failed = true;
                control.fail(failure);
            }
        }
    }
    client.finish(&mut tally);
    control.ended(&tally);
    Ended { tally, elapsed: sim::now().since(control.begin()), failed }
}

impl<P: Plan + 'static> Job for Run<P> {
    fn prepare(&self) -> Result<(), JobError> {
        self.plan.prepare(&self.how, &*self.main).map_err(|error| self.failed("prepare", error))?;
        self.main.sync().map_err(|errno| self.failed("prepare", CallFailed::of("sync", "/")(errno)))
    }

    fn work(&self, watch: &mut dyn FnMut(Phase)) -> Result<Measured, JobError> {
        let control = Arc::new(Control::new(self.plan.kinds(), &self.how, self.plan.clients()));
        let tasks = self.start(&control);
        if self.how.warm_up == Nanos::ZERO {
            // Each client waits until then, and what it books from then on is of calls that count.
            watch(Phase::Ready);
        }
        control.ready.set();
        sleep_until_begin(self.how.interrupt.as_deref(), control.begin());
        watch(Phase::Begins);
        let ended: Vec<(u16, Ended)> = tasks.into_iter().map(|(core, task)| (core, task.join())).collect();
        watch(Phase::Ends);
        let mut measured = control.measured()?;
        measured.workers = ended.iter().map(|(core, ended)| self.worker(*core, ended)).collect();
        self.plan.conclude(&mut measured).map_err(|failure| self.failed("after the run", failure))?;
        if self.how.check && !measured.cut_short {
            let left = tree::left(&*self.main).map_err(|error| self.failed("what is left", error))?;
            *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        }
        Ok(measured)
    }

    fn verify(&self, calls: &dyn Syscalls) -> Result<(), JobError> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = left.as_ref() else { return Ok(()) };
        let found = tree::left(calls).map_err(|error| self.failed("verify", error))?;
        let told = left.first_difference(&found);
        if let Some(told) = told {
            return Err(self.failed("verify", Failure::new(told, None)));
        }
        self.plan.verify(calls).map_err(|failure| self.failed("verify", failure))
    }
}

impl<P: Plan> Run<P> {
    fn worker(&self, core: u16, ended: &Ended) -> WorkerRecord {
        WorkerRecord {
            core: Some(core),
            ops: ended.tally.ops(self.plan.kinds()),
            errors: u64::from(ended.failed),
            elapsed_ns: ended.elapsed.0,
            ..WorkerRecord::default()
        }
    }
}
