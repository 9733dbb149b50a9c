//! Processes that read chunks at random: as many tickets as there are seeks, each taken by one of them.
//!
//! Bonnie's parent puts tickets into a pipe. Here they are drawn beforehand, and a process takes the next one. Of each process
//! Bonnie changes every tenth chunk, the first among them, and writes it back; Bonnie++ draws for each chunk whether it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rand::RngExt as _;
use sim::{JoinHandle, Rng, TaskSpec};
use vfs::{OpenFlags, Syscalls};

use super::file::{self, Large};
use super::options::{Options, Program};
use super::passes::{increment, short};
use super::run::SEEKS;
use super::small::Noting;
use crate::app::control::{Failure, Tally};
use crate::charges::GENERATOR;
use crate::suite::{Cores, Processes};

/// One of so many chunks is written back.
const UPDATE: u64 = 10;

/// What seekers share.
struct Tickets {
    options: Options,
    chunks: Vec<u64>,
    next: AtomicUsize,
}

/// What a seeker has counted.
struct Counted {
    tally: Tally,
    failure: Option<Failure>,
}

/// The pass: all seekers, from the first start to the last end.
pub(super) fn pass(
    options: &Options,
    processes: &Arc<dyn Processes>,
    cores: Cores,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let mut rng = note.seed().derive("bonnie.tickets", 0).rng();
    let chunks = (0..options.seeks).map(|_| rng.random_range(0..options.chunks())).collect();
    let tickets = Arc::new(Tickets { options: options.clone(), chunks, next: AtomicUsize::new(0) });
    let start = |number: u64| -> JoinHandle<Counted> {
        let (calls, tickets) = (processes.start(), Arc::clone(&tickets));
        let mut own = note.of_a_task();
        let spec = TaskSpec::named(format!("bonnie seeker {number}"))
            .on_core(cores.round_robin(number))
            .with_buffer(sim::Bytes(options.chunk))
            .movable();
        sim::spawn(spec, move || {
            let rng = own.seed().derive("bonnie.seeker", number).rng();
            let failure = seeker(&tickets, &*calls, rng, &mut own.borrowed()).err();
            Counted { tally: own.into_tally(), failure }
        })
    };
    let seekers: Vec<_> = (0..options.seekers).map(start).collect();
    let mut failed = None;
    for seeker in seekers {
        let Counted { tally, failure } = seeker.join();
        note.merge(&tally);
        failed = failed.or(failure);
    }
    if options.program == Program::BonniePlus {
        // Each of its processes removes the file at its end, and one succeeds.
        let calls = processes.start();
        (0..options.seekers).try_for_each(|_| file::remove(&*calls, options.size))?;
    }
    failed.map_or(Ok(()), Err)
}

/// A process: takes tickets until none are left.
fn seeker(
    tickets: &Tickets,
    calls: &dyn Syscalls,
    mut rng: Rng,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    let options = &tickets.options;
    let is_plus = options.program == Program::BonniePlus;
    let mut file = Large::open(calls, options.size, OpenFlags::empty())?;
    let mut chunk = vec![0; options.chunk as usize];
    let mut taken = 0;
    while !note.is_over() {
        // Each must see what the others have taken before this time.
        sim::interact();
        let Some(number) = tickets.chunks.get(tickets.next.fetch_add(1, Relaxed)) else { break };
        sim::work(GENERATOR, 1);
        let (started, offset) = (sim::now(), number * options.chunk);
        file.seek(offset)?;
        let read = file.read(&mut chunk)? as u64;
        if read != options.chunk {
            return Err(short("seeks", read, options.chunk, offset));
        }
        let updates = if is_plus { rng.random_range(0..UPDATE) == 0 } else { taken % UPDATE == 0 };
        if updates {
            increment(&mut chunk, taken);
            file.seek(offset)?;
            file.write(&chunk)?;
            note.add("bonnie.seeks.updates", 1);
            note.add("bonnie.seeks.written", read);
        }
        taken += 1;
        note.add("bonnie.seeks.tickets", 1);
        note.note(SEEKS, read, started);
    }
    if is_plus {
        file.sync()?;
    }
    file.close()
}
