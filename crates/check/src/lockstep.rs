//! Random operations on a design and on the model, answer by answer, then tree by tree.
//!
//! Work is divided into *rounds*. A round is a virtual run with a fresh file system and operations that depend only on the
//! round's seed. Rounds therefore run in parallel, and each can be repeated from its seed. The round `n` of a seed `s` has the
//! seed `s + n`.
//!
//! A design may answer `ENOSPC`, or write less than it was asked to; the model then does the same. Every other answer must be the
//! model's.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use media::nvmm::Region;
use sim::{Bytes, Seed};
use vfs::Errno;

use crate::configured::{self, Configured, fsck, try_virtually, unmount};
use crate::generate::Generator;
use crate::kernel::{self, HostDir};
use crate::limits::Limits;
use crate::model::Model;
use crate::observe::observe;
use crate::op::{Op, Reply, Runner};
use crate::shrink::shrink;
use crate::tree::difference;

/// Trees are compared after this many operations.
const COMPARE_EVERY: usize = 50;
/// Operations that shortening a program may take: about a minute.
const SHRINK_OPS: usize = 150_000;

/// What a round does beside comparing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Operations carried out.
    pub ops: usize,
    /// Of these, how many found no space.
    pub out_of_space: usize,
    /// Unmounts, each with an fsck, and mounts.
    pub remounts: usize,
    /// Operations that the host carried out as well, with the same answer.
    pub on_host: usize,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.out_of_space += other.out_of_space;
        self.remounts += other.remounts;
        self.on_host += other.on_host;
    }
}

/// How much of an operation a design had space for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// All of it, or none was needed.
    Enough,
    /// This many bytes of a write.
    Bytes(usize),
    /// None: the operation did nothing.
    None,
}

/// Where a design, or the host, differs from the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Operations carried out until then.
    pub ops: usize,
    /// What differs.
    pub what: String,
}

/// A round: a design and where its randomness starts.
#[derive(Clone, Debug)]
pub struct Round {
    /// The design.
    pub design: Arc<Configured>,
    /// Size of the region.
    pub size: Bytes,
    /// Where randomness starts.
    pub seed: u64,
    /// How many operations.
    pub ops: usize,
    /// Mapped files, too; the other operations of a seed differ then.
    pub maps: bool,
}

/// A round that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Its seed.
    pub seed: u64,
    /// Its region.
    pub size: Bytes,
    /// Operations until the difference.
    pub ops: usize,
    /// What differed.
    pub what: String,
    /// The shortest program found that shows a difference.
    pub program: Vec<Op>,
    /// What differs then.
    pub program_what: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}, {} operations, a region of {}: {}", self.seed, self.ops, self.size, self.what)?;
        writeln!(f, "a short program that shows a difference:")?;
        self.program.iter().try_for_each(|op| writeln!(f, "  {op:?}"))?;
        write!(f, "  -> {}", self.program_what)
    }
}

/// Faults to inject in every round; canaries use it.
pub type Prepare = Arc<dyn Fn(&Region) + Send + Sync>;

/// A design that is mounted beside the model.
struct Lockstep {
    design: Arc<Configured>,
    region: Arc<Region>,
    runner: Runner,
    model: Model,
    seen: Seen,
    space: Vec<Space>,
}

impl Lockstep {
    fn new(design: &Arc<Configured>, size: Bytes) -> Result<Self, String> {
        let region = configured::region(size);
        design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
        let runner = Runner::new(design.mount(&region).map_err(|error| format!("mount: {error}"))?);
        let model = Model::of(&*runner.fs, design.promises())?;
        let design = Arc::clone(design);
        Ok(Self { design, region, runner, model, seen: Seen::default(), space: Vec::new() })
    }

    fn step(&mut self, op: &Op) -> Result<(), String> {
        self.seen.ops += 1;
        self.space.push(Space::Enough);
        if matches!(op, Op::Remount) {
            return self.remount();
        }
        let done = self.runner.run(op);
        let limit = match &done {
            Err(Errno::ENOSPC) => {
                self.seen.out_of_space += 1;
                self.space.pop();
                self.space.push(Space::None);
                self.model.found_no_space(op);
                return Ok(());
            }
            Ok(Reply::Written(bytes)) => {
                self.space.pop();
                self.space.push(Space::Bytes(*bytes));
                Some(*bytes)
            }
            _ => None,
        };
        same_answer(op, &done, &self.model.run(op, limit))
    }

    fn compare(&self) -> Result<(), String> {
        difference(&observe(&*self.runner.fs)?, &self.model.tree()).map_or(Ok(()), Err)
    }

    /// Unmounts, checks, mounts; what was open is closed in both worlds. A design without an image is only compared then.
    fn remount(&mut self) -> Result<(), String> {
        self.seen.remounts += usize::from(self.design.design().without_image().is_none());
        self.runner.close_all();
        self.model.close_all();
        if self.design.design().without_image().is_some() {
            return self.compare();
        }
        unmount(&*self.runner.fs)?;
        fsck(&self.design, &self.region)?;
        let fs = self.design.mount(&self.region);
        self.runner = Runner::new(fs.map_err(|error| format!("mount: {error}"))?);
        self.compare()
    }

    fn run(&mut self, ops: &[Op]) -> Result<(), String> {
        for (number, op) in ops.iter().enumerate() {
            self.step(op)?;
            if number % COMPARE_EVERY == 0 {
                self.compare()?;
            }
        }
        self.compare()?;
        self.remount()
    }
}

/// Returns an error when two answers to an operation differ.
pub(crate) fn same_answer(
    op: &Op,
    done: &Result<Reply, Errno>,
    expected: &Result<Reply, Errno>,
) -> Result<(), String> {
    if done == expected {
        return Ok(());
    }
    Err(format!("{op:?} gave {}, expected {}", in_short(done), in_short(expected)))
}

/// An answer in words; of data, where it begins.
pub(crate) fn in_short(answer: &Result<Reply, Errno>) -> String {
    match answer {
        Ok(Reply::Data(bytes)) => {
            format!("{} bytes {:?}…", bytes.len(), &bytes[..bytes.len().min(16)])
        }
        Ok(other) => format!("{other:?}"),
        Err(errno) => errno.name().to_owned(),
    }
}

/// Carries out a program on a fresh file system and on the model, in a virtual run; says what space there was for each operation.
pub fn run(
    design: &Arc<Configured>,
    size: Bytes,
    seed: u64,
    ops: &[Op],
    prepare: Option<&Prepare>,
) -> Result<(Seen, Vec<Space>), Difference> {
    let (design, ops, prepare) = (Arc::clone(design), ops.to_vec(), prepare.cloned());
    let ran = try_virtually(seed, move || {
        let mut lockstep = Lockstep::new(&design, size).map_err(|what| Difference { ops: 0, what })?;
        if let Some(prepare) = prepare {
            prepare(&lockstep.region);
        }
        let done = lockstep.run(&ops);
        done.map_err(|what| Difference { ops: lockstep.seen.ops, what })?;
        unmount(&*lockstep.runner.fs).map_err(|what| Difference { ops: lockstep.seen.ops, what })?;
        Ok((lockstep.seen, lockstep.space))
    });
    ran.unwrap_or_else(|what| Err(Difference { ops: usize::MAX, what }))
}

impl Round {
    /// Its operations.
    pub fn program(&self) -> Vec<Op> {
        let mut rng = Seed(self.seed).derive("model", 0).rng();
        let clones = self.design.design().checking().clones;
        let generator = Generator { maps: self.maps, clones, ..Generator::ALL };
        (0..self.ops).map(|number| generator.op(&mut rng, number as u8)).collect()
    }

    /// Runs it on the design and the model, then, if a directory is given, on the host and the model. Shortens a failure.
    pub fn run(&self, host: Option<&HostDir>, prepare: Option<&Prepare>) -> Result<Seen, Failed> {
        let program = self.program();
        let on_design = |ops: &[Op]| run(&self.design, self.size, self.seed, ops, prepare);
        let (mut seen, space) =
            on_design(&program).map_err(|found| self.failed(&program, found, &|ops| on_design(ops).err()))?;
        if let Some(host) = host {
            let on_host = |ops: &[Op], space: &[Space]| kernel::run(host, ops, space);
            seen.on_host = on_host(&program, &space).map_err(|mut found| {
                found.what = format!("the host: {}", found.what);
                self.failed(&program, found, &|ops| on_host(ops, &[]).err())
            })?;
        }
        Ok(seen)
    }

    fn failed(
        &self,
        program: &[Op],
        found: Difference,
        again: &dyn Fn(&[Op]) -> Option<Difference>,
    ) -> Failed {
        let ops = found.ops.min(program.len());
        let fails = |ops: &[Op]| again(ops).map(|found| found.what);
        let (program, what) = shrink(&program[..ops], found.what.clone(), &fails, SHRINK_OPS);
        let Self { seed, size, .. } = *self;
        Failed { seed, size, ops, what: found.what, program, program_what: what }
    }
}

/// Runs rounds in parallel, within limits, until one fails. `done` is called for each that ended.
pub fn run_many(
    (count, round): (usize, &(dyn Fn(usize) -> Round + Sync)),
    (host, prepare): (Option<&HostDir>, Option<&Prepare>),
    limits: &Limits,
    done: &(dyn Fn(&Seen) + Sync),
) -> (Seen, Option<Failed>) {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let found: Mutex<(Seen, Option<Failed>)> = Mutex::default();
    limits.on_threads(|| {
        while !stop.load(Relaxed) && !limits.are_reached() {
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                break;
            }
            let ran = round(number).run(host, prepare);
            let mut found = found.lock().expect("no thread panics with it");
            match ran {
                Ok(seen) => {
                    done(&seen);
                    found.0.add(&seen);
                }
                Err(failed) => {
                    stop.store(true, Relaxed);
                    // The same with any number of threads, except for timing.
                    if found.1.as_ref().is_none_or(|other| failed.seed < other.seed) {
                        found.1 = Some(failed);
                    }
                }
            }
        }
    });
    found.into_inner().expect("no thread panicked")
}
