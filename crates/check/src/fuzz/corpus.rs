//! The first images: what random programs leave, unmounted or crashed.

use std::sync::Arc;

use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Mode, Plan, Trace};
use rand::RngExt;
use sim::{Bytes, Rng, Seed};

use crate::configured::{self, Configured, try_virtually, unmount};
use crate::generate::Generator;
use crate::op::{Op, Runner};

/// Random programs; no content beyond what structures need to be of every shape.
const GENERATOR: Generator =
    Generator { reads: false, handles: true, remounts: true, bulk: false, maps: false, clones: false };
/// The last operations of a program are those in which it is crashed.
const CRASHED_OPS: usize = 3;

/// Makes image number `number` of a corpus: even ones are unmounted, odd ones crashed.
pub(super) fn image(
    design: &Arc<Configured>,
    size: Bytes,
    (seed, number): (u64, usize),
) -> Result<Vec<u8>, String> {
    let design = Arc::clone(design);
    // Each is a pool of its own, also in what a design draws for it: bytes that a mutant takes from another image are foreign.
    let made = try_virtually(seed ^ (number as u64) << 32, move || {
        let mut rng = Seed(seed).derive("fuzz.image", number as u64).rng();
        let region = configured::region(size);
        design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
        let mut runner = Runner::new(mount(&design, &region)?);
        let count = rng.random_range(20..200);
        let ops: Vec<Op> = (0..count).map(|tag| GENERATOR.op(&mut rng, tag as u8)).collect();
        let (before, last) = ops.split_at(ops.len() - CRASHED_OPS);
        run(&design, &region, &mut runner, before)?;
        let crashed = number % 2 == 1;
        let trace = crashed.then(|| Trace::attach(&region)).transpose().map_err(|error| error.to_string())?;
        run(&design, &region, &mut runner, last)?;
        match trace {
            Some(trace) => crash(&trace, &mut rng).and_then(|region| bytes_of(&region)),
            None => {
                runner.close_all();
                unmount(&*runner.fs)?;
                bytes_of(&region)
            }
        }
    });
    made.and_then(|image| image).map_err(|error| format!("image {number}: {error}"))
}

fn mount(design: &Configured, region: &Arc<Region>) -> Result<Arc<dyn vfs::FileSystem>, String> {
    design.mount(region).map_err(|error| format!("mount: {error}"))
}

/// What an operation answers does not matter here.
fn run(design: &Configured, region: &Arc<Region>, runner: &mut Runner, ops: &[Op]) -> Result<(), String> {
    for op in ops {
        if matches!(op, Op::Remount) {
            runner.close_all();
            unmount(&*runner.fs)?;
            *runner = Runner::new(mount(design, region)?);
        } else {
            let _ = runner.run(op);
        }
    }
    Ok(())
}

/// A region with what a crash somewhere in the trace may leave.
fn crash(trace: &Trace, rng: &mut Rng) -> Result<Arc<Region>, String> {
    let points = |trace: &Trace| {
        let mut replay = trace.replay(Mode::Adr);
        std::iter::from_fn(|| replay.next_point(|_, _| ())).count()
    };
    let mut replay = trace.replay(Mode::Adr);
    for _ in 0..rng.random_range(0..=points(trace)) {
        replay.next_point(|_, _| ());
    }
    let point = replay.state().crash_point();
    let plan =
        Plan { exhaustive_max: 16, pair_units_max: 0, draws: 16, seed: Seed(rng.random_range(0..1000)) };
    let choices = point.choices(&plan);
    let image = point.image(&choices[rng.random_range(0..choices.len())]);
    image.region(Box::new(Null)).map_err(|error| error.to_string())
}

fn bytes_of(region: &Region) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}
