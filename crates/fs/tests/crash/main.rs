//! Crashes at every point of every operation, on every design that is ready for it: one row of [`SUBJECTS`] each.
//!
//! A failure prints program, operation, event, choice and the lines that persisted; everything follows from the seed that is
//! printed. `WEIR_CRASH_PROGRAM=words` explores only the programs whose names contain the words, `WEIR_CRASH_PAIRS=n` that many
//! random programs of two operations, `WEIR_CRASH_SEED=n` others.

#![allow(unreachable_pub)] // what the test binaries share is not a library

mod explore;
mod programs;
#[path = "../shared/mod.rs"]
mod shared;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use explore::{Effort, Guarantee, Subject, Tally, explore};
use media::fault::{Fault, Target};
use media::recorder::{Mode, Plan};
use programs::Program;
use shared::generate::Generator;
use shared::harness::virtually;
use shared::op::{File, Op, Pattern};
use sim::{Bytes, Seed};

const SEED: u64 = 20_261_121;

/// The designs that are explored.
fn subjects() -> Vec<Subject> {
    let pmfs = fs::by_name("pmfs").expect("pmfs is a design");
    // Mounted `sync`, HiNFS promises what PMFS does; what it may do otherwise is tested in `tests/hinfs/crash.rs`.
    let hinfs = fs::by_name("hinfs").expect("hinfs is a design");
    let sync = &[("jsize", "64k"), ("buffer", "64k"), ("medium_write", "200ns"), ("sync", "true")];
    let (size, guarantee, mode) = (Bytes::mib(1), Guarantee::InPlace, Mode::Adr);
    vec![
        Subject { design: pmfs, options: &[("jsize", "64k")], size, guarantee, mode },
        Subject { design: hinfs, options: sync, size, guarantee, mode },
    ]
}

/// What else the options and media offer, and the programs for which it makes a difference: beginnings of their names.
fn variants() -> Vec<(Subject, &'static [&'static str])> {
    let [pmfs, hinfs] = [subjects()[0], subjects()[1]];
    let names = &[
        "creat",
        "mk",
        "symlink",
        "link",
        "unlink",
        "rmdir",
        "rename",
        "exchange",
        "noreplace",
        "two orphans",
    ];
    // Zeroing 2 MiB makes crash points large, so these are few.
    let data = &["write 100 ", "write over", "append", "truncate 12288", "fallocate: punch"];
    let large = &[("jsize", "64k"), ("block_size", "2M")];
    vec![
        (Subject { options: &[("jsize", "64k"), ("dir_index", "false")], ..pmfs }, names),
        (Subject { options: large, size: Bytes::mib(16), ..pmfs }, data),
        (Subject { mode: Mode::Eadr, ..pmfs }, &[""]),
        (Subject { mode: Mode::Eadr, ..hinfs }, &[""]),
    ]
}

/// All choices of up to 512; beyond, the singles, pairs and draws of section 3.
fn effort(nested: usize) -> Effort {
    Effort { plan: Plan { seed: Seed(SEED), ..Plan::default() }, nested, after_commits: false }
}

/// How much the environment asks for, or else `usual`.
fn wanted(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Explores programs on as many threads as there are cores.
fn explore_all(subject: Subject, programs: &[Program], effort: Effort) -> Tally {
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Relaxed)) {
                    let program = program.clone();
                    let tally = virtually(SEED, move || explore(&subject, &program, &effort, &[]));
                    total.lock().expect("no thread panics with it").add(tally);
                }
            });
        }
    });
    total.into_inner().expect("no thread panicked")
}

fn report(what: &str, subject: &Subject, tally: &Tally, began: std::time::Instant) {
    println!(
        "{what}, {}, seed {SEED}: {} programs, {} crash points ({} combinations), {} images, {} distinct images, \
         {} distinct states, {} nested images, {} violations, {:.1} s",
        explore::describe(subject),
        tally.programs,
        tally.points,
        tally.combinations,
        tally.images,
        tally.distinct_images,
        tally.distinct_states,
        tally.nested_images,
        tally.violations.len(),
        began.elapsed().as_secs_f64()
    );
    for violation in tally.violations.iter().take(20) {
        println!("  {violation}");
    }
}

#[test]
fn every_crash_of_one_operation_leaves_an_allowed_state() {
    for subject in subjects() {
        let began = std::time::Instant::now();
        let filter = std::env::var("WEIR_CRASH_PROGRAM").unwrap_or_default();
        let programs: Vec<_> =
            programs::all().into_iter().filter(|program| program.name.contains(&filter)).collect();
        let tally = explore_all(subject, &programs, Effort { after_commits: true, ..effort(20) });
        report("one operation", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

#[test]
fn crashes_with_other_options_and_on_other_machines_leave_allowed_states() {
    for (subject, names) in variants() {
        let began = std::time::Instant::now();
        let wanted = |program: &Program| names.iter().any(|name| program.name.starts_with(name));
        let programs: Vec<_> = programs::all().into_iter().filter(wanted).collect();
        let tally = explore_all(subject, &programs, effort(2));
        report("one operation", &subject, &tally, began);
        assert!(tally.programs >= names.len(), "every name is that of a program");
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

/// A tree in which most operations can succeed.
fn furnished() -> Vec<Op> {
    let (file, dir) = (|path: &str| Op::Create(path.to_owned()), |path: &str| Op::Mkdir(path.to_owned()));
    let write = |path: &str, len| Op::Write(File::At(path.to_owned()), Some(0), Pattern { len, tag: 1 });
    vec![
        dir("A"),
        dir("A/C"),
        dir("B"),
        file("foo"),
        write("foo", 5000),
        file("A/foo"),
        write("A/foo", 100),
        Op::Link("foo".to_owned(), "A/bar".to_owned()),
        file("B/bar"),
        Op::Open("A/foo".to_owned(), 0),
        Op::Open("foo".to_owned(), 1),
    ]
}

#[test]
fn crashes_of_two_random_operations_leave_allowed_states() {
    let seed = wanted("WEIR_CRASH_SEED", SEED as usize) as u64;
    let generator = Generator { reads: false, handles: true, remounts: true, bulk: false };
    let program = |number: u64| {
        let mut rng = Seed(seed).derive("crash.pairs", number).rng();
        let core: Vec<_> = (0..2).map(|tag| generator.op(&mut rng, 2 + tag)).collect();
        Program { name: format!("seed {seed}, pair {number}, {core:?}"), setup: furnished(), core }
    };
    for subject in subjects() {
        let began = std::time::Instant::now();
        let programs: Vec<_> = (0..wanted("WEIR_CRASH_PAIRS", 500) as u64).map(program).collect();
        let tally = explore_all(subject, &programs, effort(3));
        report("two operations", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {seed}");
    }
}

/// Leaves out the nth flush or fence of `program`, for each n until nothing is left to leave out; how many of these mutants
/// there were, and which were caught.
fn mutants(subject: Subject, program: &Program, target: Target, most: u64) -> Vec<u64> {
    let caught = (1..=most).filter(|nth| {
        let (program, fault) = (program.clone(), Fault::DropNth { target, nth: *nth });
        let tally = virtually(SEED, move || explore(&subject, &program, &effort(0), &[fault]));
        !tally.violations.is_empty()
    });
    caught.collect()
}

#[test]
fn a_forgotten_flush_or_fence_is_noticed() {
    let create = Program { name: "creat foo".into(), setup: vec![], core: vec![Op::Create("foo".into())] };
    let append = Program {
        name: "append".into(),
        setup: vec![Op::Create("foo".into())],
        core: vec![
            Op::Write(File::At("foo".into()), Some(0), Pattern { len: 5000, tag: 1 }),
            Op::Write(File::At("foo".into()), Some(5000), Pattern { len: 100, tag: 2 }),
        ],
    };
    // The counts below are PMFS's; HiNFS on top of it fences more often than it must.
    for subject in subjects().into_iter().take(1) {
        for program in [&create, &append] {
            for (target, most) in [(Target::Flush, 11), (Target::Fence, 3)] {
                let caught = mutants(subject, program, target, most);
                println!(
                    "{}, {}: of {most} {target} mutants caught {caught:?}",
                    subject.design.name(),
                    program.name
                );
                assert!(!caught.is_empty(), "{}: no forgotten {target} is noticed", program.name);
                // The journal's own: the first fence makes the log durable, the second the changes, the third the commit.
                assert!(target == Target::Flush || caught.len() == 3, "{}: {caught:?}", program.name);
            }
        }
    }
}

#[test]
fn what_has_returned_is_flushed_and_fenced_and_commits_keep_their_order() {
    for subject in subjects() {
        let lints: Vec<_> = programs::all()
            .into_iter()
            .flat_map(|program| virtually(SEED, move || explore::lints(&subject, &program, &[])))
            .collect();
        assert_eq!(lints, Vec::<String>::new(), "{}", subject.design.name());
    }
}

/// Leaves out the flush or fence of PMFS that a rule is about.
#[test]
fn a_forgotten_flush_or_fence_breaks_the_rule_that_is_about_it() {
    let subject = subjects()[0];
    let create = Program { name: "creat".into(), setup: vec![], core: vec![Op::Create("foo".into())] };
    let file = File::At("foo".into());
    let setup =
        vec![Op::Create("foo".into()), Op::Write(file.clone(), Some(0), Pattern { len: 5000, tag: 1 })];
    let cut = Program { name: "cut".into(), setup, core: vec![Op::Truncate(file, 0)] };
    let lints = |program: &Program, nth| {
        let (program, fault) = (program.clone(), Fault::DropNth { target: Target::Fence, nth });
        virtually(SEED, move || explore::lints(&subject, &program, &[fault])).join("; ")
    };
    // The fence between the changes and the commit entry; that between the list's item and its head.
    for (program, nth) in [(&create, 2), (&cut, 1)] {
        assert!(lints(program, nth).contains("L3 commit order"), "{}", lints(program, nth));
    }
    // The fence after the inode has lost its root; the list takes two before, and the cut one.
    assert!(lints(&cut, 4).contains("L7 free before commit"), "{}", lints(&cut, 4));
    // A flush of what the transaction has changed.
    let luck = (1..=11).filter(|nth| {
        let (program, fault) = (create.clone(), Fault::DropNth { target: Target::Flush, nth: *nth });
        let tally = virtually(SEED, move || explore(&subject, &program, &effort(0), &[fault]));
        tally.violations.iter().any(|violation| violation.contains("L8 read of unguaranteed bytes"))
    });
    assert!(luck.count() > 0, "recovery never reads what was not flushed");
}
