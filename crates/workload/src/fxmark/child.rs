//! A worker in a process of its own, which has one thread: on the kernel's side it shares neither descriptors nor memory with the
//! other workers, as in the original.
//!
//! The standard input is the socket to the run, the standard output is the memory that all workers share.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use results::OperationRecord;
use rustix::process::{Signal, set_parent_process_death_signal};
use sim::host_memory::HostWords;
use sim::ledger::Snapshot;
use sim::{Machine, Nanos, Seed, Setup};
use vfs::host::Host;

use super::control::{Control, WORDS};
use super::link::{Link, Order, Report, Said, Told, unexpected};
use super::prepare;
use super::run::{Plan, failed};
use super::table::Benchmark;
use super::worker::Worker;
use crate::suite::JobError;

/// The whole life of a worker's process, in its working directory, which is the one under test. `operations` makes records of what
/// a ledger has booked.
pub fn work(operations: fn(&Snapshot) -> Vec<OperationRecord>) -> Result<(), String> {
    let told = |error: io::Error| {
        format!(
            "the worker of a benchmark, which `weir bench fxmark` starts itself, has lost the run: {error}"
        )
    };
    // A worker without its run has nothing to work for.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| told(errno.into()))?;
    let socket = io::stdin().as_fd().try_clone_to_owned().map_err(told)?;
    let mut link = Link::new(UnixStream::from(socket));
    let words = HostWords::map(io::stdout(), WORDS).map_err(told)?;
    let order = match link.hear().map_err(told)? {
        Told::Order(order) => *order,
        other => return Err(told(unexpected(&other))),
    };
    if let Some(core) = order.core {
        sim::pin(core);
    }
    let setup = Setup::real_clock(Machine::unit(), Seed(order.seed));
    let worked = sim::run_here(&setup, || follow(&order, &mut link, words, operations));
    worked.map_err(|error| error.to_string())?.map_err(told)
}

fn follow(
    order: &Order,
    link: &mut Link,
    words: HostWords,
    operations: fn(&Snapshot) -> Vec<OperationRecord>,
) -> io::Result<()> {
    let benchmark = Benchmark::find(&order.benchmark).ok_or_else(|| unexpected(&order))?;
    let plan = Plan {
        benchmark,
        parameters: order.parameters.clone(),
        seed: Seed(order.seed),
        stop: order.stop,
        check: order.check,
    };
    let host = Host::new(Path::new(".")).map_err(io::Error::other)?;
    let shared = if order.w == 0 { prepare::shared(&plan, &host) } else { Ok(()) };
    let prepared = shared.and_then(|()| prepare::own(&plan, order.w, &host)).map_err(|error| failed(&error));
    let made = prepared.clone();
    link.tell(&Said::Prepared(prepared))?;
    let Ok(prepared): Result<_, JobError> = made else { return Ok(()) };
    match link.hear()? {
        Told::Open => {}
        other => return Err(unexpected(&other)),
    }
    let control = Control::shared(&plan, None, words);
    let (mut before, mut lost) = (Snapshot::default(), Ok(()));
    let mut ended =
        control.work(Worker::new(&plan, order.w, &host, prepared), || match wait_for_start(link) {
            Ok(start) => {
                before = Snapshot::of_run();
                sim::sleep_until(control.own(start));
            }
            Err(error) => {
                control.end(Nanos::ZERO);
                lost = Err(error);
            }
        });
    lost?;
    let window = Snapshot::of_run().since(&before);
    ended.process = Some(std::process::id());
    ended.core = order.core.map(|_| sim::core());
    let (last, failed) = control.outcome();
    let operations = if plan.parameters.warmup == Nanos::ZERO { operations(&window) } else { Vec::new() };
    link.tell(&Said::Ended(Box::new(Report { ended, last: control.common(last), failed, operations })))
}

/// Says that all is open, and returns when to start.
fn wait_for_start(link: &mut Link) -> io::Result<u64> {
    link.tell(&Said::Ready)?;
    match link.hear()? {
        Told::Start(at) => Ok(at),
        other => Err(unexpected(&other)),
    }
}
