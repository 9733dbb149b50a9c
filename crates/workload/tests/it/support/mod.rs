//! A small file system in memory to run workloads on, and a few ways to look over their shoulder.

#![allow(dead_code, reason = "the bench of the engine uses a part")]

pub(crate) mod logged;
mod memory;
pub(crate) mod wrapped;

use std::sync::{Arc, Mutex};

use sim::{Machine, Nanos, Seed, Setup};
use vfs::Syscalls;
use workload::filebench::run::{EngineError, Phase, Prepared, Verified};
use workload::filebench::{Engine, Options, Outcome, Overrides, Personality, Program, load};

/// What a whole round has left.
#[derive(Debug)]
pub(crate) struct Round {
    pub engine: Arc<Engine>,
    pub prepared: Prepared,
    pub outcome: Outcome,
    pub verified: Verified,
    /// For questions afterwards: the system calls of a process on the same files.
    pub calls: Calls,
}

/// System calls that can be printed as nothing.
pub(crate) struct Calls(pub Arc<dyn Syscalls>);

impl std::fmt::Debug for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Calls")
    }
}

/// A machine whose system calls take a microsecond, and its load generator a tenth of that.
pub(crate) fn machine() -> Machine {
    let mut machine = Machine::unit();
    machine.work_ps[sim::Work::SYSCALL.index()] = 1_000_000;
    machine.work_ps[workload::charges::GENERATOR.index()] = 100_000;
    machine
}

pub(crate) fn setup(seed: u64) -> Setup {
    Setup::virtual_clock(machine(), Seed(seed))
}

/// A program from a script.
pub(crate) fn script(source: &str) -> Arc<Program> {
    Arc::new(load("test.f", source, &Overrides::new()).unwrap_or_else(|report| panic!("{report}")))
}

/// A personality with some variables set.
pub(crate) fn personality(name: &str, variables: &[(&str, &str)]) -> Arc<Program> {
    let overrides: Overrides =
        variables.iter().map(|(name, value)| ((*name).to_owned(), value.parse().unwrap())).collect();
    let personality = Personality::find(name).unwrap();
    Arc::new(personality.load(&overrides).unwrap_or_else(|report| panic!("{report}")))
}

/// Options that check everything.
pub(crate) fn checked(seed: u64, duration: Nanos) -> Options {
    Options { check: true, duration: Some(duration), ..Options::new(Seed(seed)) }
}

pub(crate) use memory::Memory;

/// Prepares, runs and verifies under the virtual clock.
pub(crate) fn round(program: Arc<Program>, options: Options) -> Result<Round, EngineError> {
    round_on(&setup(options.seed.0), program, options, Ok)
}

/// The same under `setup`, with something in between: `wrap` stands between the workload and the file system.
pub(crate) fn round_on(
    setup: &Setup,
    program: Arc<Program>,
    options: Options,
    wrap: impl Fn(Arc<dyn Syscalls>) -> Result<Arc<dyn Syscalls>, EngineError> + Send + 'static,
) -> Result<Round, EngineError> {
    sim::run(setup, move || {
        let engine = Engine::new(program, options)?;
        let memory = Memory::new();
        let calls = wrap(memory.process())?;
        let prepared = engine.prepare(&calls)?;
        let wrap = Mutex::new(wrap);
        let new_process = || (wrap.lock().unwrap())(memory.process()).unwrap();
        let mut phases = Vec::new();
        let outcome = engine.run_with(&new_process, &mut |phase| phases.push(phase))?;
        assert_eq!(phases, [Phase::Begins, Phase::Ends]);
        let verified = engine.verify(&*memory.process())?;
        Ok(Round { engine, prepared, outcome, verified, calls: Calls(memory.process()) })
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

/// Attributes of a file that has little but its kind and size.
pub(crate) fn attr(ino: vfs::Ino, kind: vfs::FileKind, size: u64) -> vfs::Attr {
    let zero = vfs::Timestamp { secs: 0, nanos: 0 };
    vfs::Attr {
        ino,
        kind,
        perm: 0o755,
        nlink: 1,
        owner: vfs::Owner { uid: 0, gid: 0 },
        rdev: 0,
        size,
        blocks: 0,
        blksize: 4096,
        atime: zero,
        mtime: zero,
        ctime: zero,
        generation: 0,
    }
}
