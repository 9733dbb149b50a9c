//! Random operations on the design and on the reference model: every answer and every tree is the same, also after a mount.

use check::configured::usual_size;
use check::lockstep::{self, Round};
use check::op::{File, Op, Pattern};
use check::shrink::shrink;
use sim::Bytes;

use crate::harness::{SEED, small};

/// Random operations; on a small device three files take most of it first.
fn round(seed: u64, size: Bytes, ops: usize) -> (usize, usize) {
    let design = small(None);
    let round = Round { design: design.clone(), size, seed, ops, maps: false };
    let hog = |number: usize| {
        let name = format!("hog{number}");
        let pattern = Pattern { len: 16_384 >> number, tag: 9 };
        [Op::Create(name.clone()), Op::Write(File::At(name), Some(0), pattern)]
    };
    let hogs = (0..3).flat_map(hog).filter(|_| size < Bytes::mib(1));
    let program: Vec<_> = hogs.chain(round.program()).collect();
    match lockstep::run(&design, size, seed, &program, None) {
        Ok((seen, _)) => (seen.remounts, seen.out_of_space),
        Err(found) => {
            let fails =
                |ops: &[_]| lockstep::run(&design, size, seed, ops, None).err().map(|found| found.what);
            let (short, what) =
                shrink(&program[..found.ops.min(program.len())], found.what.clone(), &fails, 20_000);
            panic!("seed {seed}, {size}: {}\nshorter: {short:?}\n -> {what}", found.what);
        }
    }
}

#[test]
fn random_operations_and_mounts_answer_as_the_model() {
    let size = usual_size(&small(None));
    let rounds = std::env::var("WEIR_MODEL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let seen: Vec<_> = (0..rounds).map(|number| round(SEED + number, size, 1_500)).collect();
    println!("(mounts, without space): {seen:?}");
    assert!(seen.iter().map(|(remounts, _)| remounts).sum::<usize>() > 20, "{seen:?}");
}

/// Hardly more than the format needs: containers are given up, dead packages stored over, appends lose what they reserved.
#[test]
fn random_operations_on_a_full_device_answer_as_the_model_or_find_no_space() {
    let seen: Vec<_> =
        (0..12).map(|number| round(SEED + 100 + number, Bytes::kib(128 + 4 * (number % 3)), 1_500)).collect();
    println!("(mounts, without space): {seen:?}");
    assert!(seen.iter().map(|(_, full)| full).sum::<usize>() > 20, "{seen:?}");
}
