//! The order of passes: those that a measured one needs run before the measured time.

use std::sync::Arc;

use sim::{Bytes, Nanos};
use vfs::Syscalls;

use super::options::{Options, Program};
use super::small::{self, Noting};
use super::{passes, seeks};
use crate::app::control::{Control, Does, Failure, Kind, Tally};
use crate::app::run::{self, Place, Plan};
use crate::suite::{Cores, How, Measured, Processes};

pub(super) const PUTC: usize = 0;
pub(super) const BLOCK_WRITE: usize = 1;
pub(super) const REWRITE: usize = 2;
pub(super) const GETC: usize = 3;
pub(super) const BLOCK_READ: usize = 4;
pub(super) const SEEKS: usize = 5;
/// The first of the passes over small files.
pub(super) const SMALL: usize = 6;

/// The order of Bonnie: it rewrites what putc has written.
pub(super) const BONNIE: &[usize] = &[PUTC, REWRITE, BLOCK_WRITE, GETC, BLOCK_READ, SEEKS];
/// The order of Bonnie++.
pub(super) const BONNIE_PLUS: &[usize] = &[
    PUTC,
    BLOCK_WRITE,
    REWRITE,
    GETC,
    BLOCK_READ,
    SEEKS,
    SMALL,
    SMALL + 1,
    SMALL + 2,
    SMALL + 3,
    SMALL + 4,
    SMALL + 5,
];

/// The kind of operation of each pass. A rewrite is booked as a write of as much as it reads; what seekers write is a counter.
const KINDS: &[Kind] = &[
    Kind { name: "putc", does: Does::Writes },
    Kind { name: "block-write", does: Does::Writes },
    Kind { name: "rewrite", does: Does::Writes },
    Kind { name: "getc", does: Does::Reads },
    Kind { name: "block-read", does: Does::Reads },
    Kind { name: "seeks", does: Does::Reads },
    Kind { name: "create-sequential", does: Does::Writes },
    Kind { name: "stat-sequential", does: Does::Reads },
    Kind { name: "delete-sequential", does: Does::Other },
    Kind { name: "create-random", does: Does::Writes },
    Kind { name: "stat-random", does: Does::Reads },
    Kind { name: "delete-random", does: Does::Other },
];

/// The counter of each pass's time.
const TIMES: [&str; KINDS.len()] = [
    "bonnie.putc.ns",
    "bonnie.block-write.ns",
    "bonnie.rewrite.ns",
    "bonnie.getc.ns",
    "bonnie.block-read.ns",
    "bonnie.seeks.ns",
    "bonnie.create-sequential.ns",
    "bonnie.stat-sequential.ns",
    "bonnie.delete-sequential.ns",
    "bonnie.create-random.ns",
    "bonnie.stat-random.ns",
    "bonnie.delete-random.ns",
];

/// The passes on one subject.
#[derive(Debug)]
pub(super) struct Load {
    options: Options,
}

impl Load {
    pub(super) fn new(options: Options) -> Self {
        Self { options }
    }

    /// Passes whose files the first measured one begins with.
    fn before(&self) -> Vec<usize> {
        let first = self.options.passes[0];
        let order = if self.options.program == Program::BonniePlus { BONNIE_PLUS } else { BONNIE };
        match first {
            PUTC | BLOCK_WRITE => Vec::new(),
            SMALL.. => (SMALL + (first - SMALL) / 3 * 3..first).filter(|pass| pass % 3 == 0).collect(),
            // What only reads changes nothing.
            _ => {
                let writes = order.iter().copied().take_while(|pass| *pass != first);
                writes.filter(|pass| [PUTC, BLOCK_WRITE, REWRITE].contains(pass)).collect()
            }
        }
    }
}

impl Plan for Load {
    fn suite(&self) -> &'static str {
        "bonnie"
    }

    fn name(&self) -> &'static str {
        self.options.name
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        1
    }

    fn buffer(&self) -> Bytes {
        Bytes(self.options.chunk.max(self.options.stdio))
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        let mut tally = Tally::default();
        let mut note = Noting::new(None, &mut tally, how.seed);
        for number in self.before() {
            match number {
                SMALL.. => small::pass(number, &self.options, calls, &mut note)?,
                _ => passes::pass(number, &self.options, calls, &mut note)?,
            }
        }
        Ok(())
    }

    fn client(self: Arc<Self>, _client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        Box::new(Client {
            left: self.options.passes.iter(),
            calls: place.processes.start(),
            processes: Arc::clone(place.processes),
            how: place.how.clone(),
            cores: place.how.cores,
            plan: self,
        })
    }

    fn conclude(&self, measured: &mut Measured) -> Result<(), Failure> {
        for (kind, time) in KINDS.iter().zip(TIMES) {
            let Some(ns) = measured.counters.get(time).copied().filter(|ns| *ns > 0) else { continue };
            let step = measured.steps.iter().find(|step| step.name == kind.name);
            let (count, bytes) = step.map_or((0, 0), |step| (step.count, step.bytes));
            let a_second = |what: u64| (u128::from(what) * 1_000_000_000 / u128::from(ns)) as u64;
            if kind.does != Does::Other && kind.name != "seeks" && bytes > 0 {
                measured.counters.insert(format!("bonnie.{}.kib_per_s", kind.name), a_second(bytes) >> 10);
            }
            measured.counters.insert(format!("bonnie.{}.per_s", kind.name), a_second(count));
        }
        let bytes =
            |name: &str| measured.steps.iter().find(|step| step.name == name).map_or(0, |step| step.bytes);
        // Half of a rewrite is reading.
        measured.read_bytes += bytes("rewrite");
        measured.written_bytes += measured.counters.get("bonnie.seeks.written").copied().unwrap_or(0);
        Ok(())
    }
}

/// The program.
struct Client {
    plan: Arc<Load>,
    /// Passes that are left.
    left: std::slice::Iter<'static, usize>,
    calls: Arc<dyn Syscalls>,
    processes: Arc<dyn Processes>,
    how: How,
    cores: Cores,
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        let Some(number) = self.left.next().copied() else { return Ok(false) };
        let options = &self.plan.options;
        if number >= SMALL && options.files == 0 {
            return Ok(true);
        }
        let started: Nanos = sim::now();
        let mut note = Noting::new(Some(control), tally, self.how.seed);
        match number {
            SEEKS => seeks::pass(options, &self.processes, self.cores, &mut note)?,
            SMALL.. => small::pass(number, options, &*self.calls, &mut note)?,
            _ => passes::pass(number, options, &*self.calls, &mut note)?,
        }
        tally.add(TIMES[number], sim::now().since(started).0);
        Ok(true)
    }
}
