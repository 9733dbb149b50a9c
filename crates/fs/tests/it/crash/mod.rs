//! Crashes at every point of every operation, on every design of the table in each way in which it is mounted.
//!
//! A failure prints program, operation, event, choice and the lines that persisted; everything follows from the seed that is
//! printed. A design says how many programs it passes over ([`design::Checking::crash_every`]). `WEIR_CRASH_FS=words` explores only
//! designs whose names contain the words, `WEIR_CRASH_PROGRAM=words` all programs whose names contain the words,
//! `WEIR_CRASH_RANDOM=n` that many random programs of two operations, `WEIR_CRASH_SEED=n` others, `WEIR_CRASH_EVERY=1` every
//! program.

mod again;

use crate::shared::harness;
use std::sync::Arc;
use std::time::Duration;

use crate::shared::harness::{checking, is_in_memory, subject, virtually};
use check::configured::maps_files;
use check::configured::{Altered, Sound};
use check::crash::programs::{self, Program};
use check::crash::{Effort, Family, Subject, Tally, Watch, explore, explore_many, lints};
use check::{File, Op, Pattern};
use media::fault::{Fault, Target};
use media::nvmm::Region;
use media::recorder::Mode;
use sim::Bytes;
use vfs::LeftOut;

const SEED: u64 = 20_261_121;

/// The subjects that are explored.
fn subjects() -> Vec<Subject> {
    let wanted = std::env::var("WEIR_CRASH_FS").unwrap_or_default();
    let mut all = harness::subjects();
    all.retain(|subject| subject.design.name().contains(&wanted));
    all
}

/// What else the options and media offer, and the programs for which it makes a difference: beginnings of their names.
fn variants() -> Vec<(Subject, &'static [&'static str])> {
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
    let linear = subject("pmfs", &[("dir_index", "false")]);
    let large = Subject { size: Bytes::mib(16), ..subject("pmfs", &[("block_size", "2M")]) };
    // The journal in memory beside the device: sectors of one and words of the other are lost at once.
    let apart = subject("ext4", &[("external_journal", "true")]);
    vec![(linear, names), (large, data), (apart, &[""])]
}

/// The programs that a design does not pass over, some fewer of them with `less`; or those that the environment names.
fn sampled(subject: &Subject, less: usize, programs: impl IntoIterator<Item = Program>) -> Vec<Program> {
    let (every, filter) = (every(subject) * less, std::env::var("WEIR_CRASH_PROGRAM").unwrap_or_default());
    // Without holes they write two megabytes of zeros, and each line is one more that a crash may lose.
    let is_long = |program: &Program| {
        filter.is_empty()
            && subject.promises.left_out.contains(LeftOut::HOLES)
            && program.name.contains("tree")
    };
    let named = programs.into_iter().filter(|program| program.name.contains(&filter) && !is_long(program));
    let all = named.enumerate();
    let taken = |number: usize, program: &Program| {
        number.is_multiple_of(every) || !filter.is_empty() || FINDERS.contains(&program.name.as_str())
    };
    all.filter(|(number, program)| taken(*number, program)).map(|(_, program)| program).collect()
}

/// Of how many programs a subject takes one.
fn every(subject: &Subject) -> usize {
    wanted("WEIR_CRASH_EVERY", checking(subject.design.name()).crash_every).max(1)
}

fn effort(nested: usize) -> Effort {
    Effort::usual(SEED, nested)
}

/// How much the environment asks for, or else `usual`.
fn wanted(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// Explores programs on as many threads as there are cores.
fn explore_all(subject: &Subject, programs: &[Program], effort: Effort) -> Tally {
    let program = |number: usize| programs[number].clone();
    explore_many(subject, (programs.len(), &program), (&effort, &[]), &Watch::default())
}

fn report(what: &str, subject: &Subject, tally: &Tally, began: std::time::Instant) {
    println!(
        "{what}, {subject}, seed {SEED}: {} programs, {} crash points ({} combinations), {} images, {} distinct images, \
         {} distinct states, {} nested images, {} violations, {:.1} s, {:.0} images a second of a core",
        tally.programs,
        tally.points,
        tally.combinations,
        tally.images,
        tally.distinct_images,
        tally.distinct_states,
        tally.nested_images,
        tally.violations.len(),
        began.elapsed().as_secs_f64(),
        tally.images_per_core_second()
    );
    let shown = wanted("WEIR_CRASH_SHOWN", 20);
    for violation in tally.violations.iter().take(shown) {
        println!("  {violation}");
    }
}

#[test]
fn every_crash_of_one_operation_leaves_an_allowed_state() {
    let explored = |subject: &Subject| {
        let began = std::time::Instant::now();
        let programs = sampled(
            subject,
            1,
            programs::all().into_iter().chain(programs::large_writes()).chain(programs::large_attributes()),
        );
        let effort = Effort { after_commits: true, ..effort((8 / every(subject)).max(1)) };
        let tally = explore_all(subject, &programs, effort);
        report("one operation", subject, &tally, began);
        tally.violations.len()
    };
    assert_eq!(subjects().iter().map(explored).sum::<usize>(), 0, "seed {SEED}");
}

#[test]
fn after_a_crash_a_renamed_file_has_its_old_name_or_a_whiteout_has_it() {
    for subject in subjects() {
        let began = std::time::Instant::now();
        let tally = explore_all(&subject, &programs::whiteouts(), effort(2));
        report("whiteouts", &subject, &tally, began);
        assert_eq!(tally.programs, programs::whiteouts().len());
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

#[test]
fn crashes_with_other_options_leave_allowed_states() {
    for (subject, names) in variants() {
        let began = std::time::Instant::now();
        let wanted = |program: &Program| names.iter().any(|name| program.name.starts_with(name));
        let programs = sampled(&subject, 1, programs::all().into_iter().filter(wanted));
        let tally = explore_all(&subject, &programs, effort(2));
        report("one operation", &subject, &tally, began);
        assert!(tally.programs >= names.len(), "every name is that of a program");
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

/// A machine that writes its caches back when it loses power; the cache of a block device is another.
#[test]
fn crashes_of_a_machine_with_eadr_leave_allowed_states() {
    for subject in subjects().into_iter().filter(|subject| is_in_memory(subject.design.name())) {
        let began = std::time::Instant::now();
        let subject = Subject { mode: Mode::Eadr, ..subject };
        let tally = explore_all(&subject, &sampled(&subject, 4, programs::all()), effort(2));
        report("eADR", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

#[test]
fn crashes_of_random_programs_leave_allowed_states() {
    let seed = wanted("WEIR_CRASH_SEED", SEED as usize) as u64;
    for subject in subjects() {
        let began = std::time::Instant::now();
        let count = wanted("WEIR_CRASH_RANDOM", 120).div_ceil(every(&subject));
        let programs: Vec<_> = (0..count).map(|number| programs::random(seed, number)).collect();
        let tally = explore_all(&subject, &programs, effort((3 / every(&subject)).max(1)));
        report("random programs", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {seed}");
    }
}

/// Of designs that map files.
#[test]
fn a_crash_leaves_words_of_what_a_mapping_has_stored_and_all_of_it_after_a_sync() {
    let maps = |subject: &Subject| maps_files(&subject.design, subject.size).expect("it can be mounted");
    for subject in subjects().into_iter().filter(maps) {
        let began = std::time::Instant::now();
        let effort = effort((3 / every(&subject)).max(1));
        let tally = explore_all(&subject, &sampled(&subject, 1, programs::mapped()), effort);
        report("mapped files", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

/// Canary: a flush or fence of an msync that is left out.
#[test]
fn a_sync_of_a_mapping_that_forgets_its_flush_or_fence_is_noticed() {
    for name in ["pmfs", "nova"] {
        let subject = subject(name, &[]);
        let mut programs = programs::mapped();
        programs.retain(|program| program.name == "store, msync, store");
        for (target, most) in [(Target::Flush, 6), (Target::Fence, 6)] {
            let caught = mutants(&subject, &programs[0], target, most);
            println!("{name}: of {most} {target} mutants caught {caught:?}");
            assert!(!caught.is_empty(), "{name}: no forgotten {target} is noticed");
        }
    }
}

/// A crash frees it, or it has its name and all that was written.
#[test]
fn a_crash_leaves_a_file_that_was_made_without_a_name_whole_under_its_name_or_frees_it() {
    for subject in subjects() {
        let began = std::time::Instant::now();
        let tally = explore_all(&subject, &programs::nameless(), effort(1));
        report("made without a name", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
        assert!(tally.without_space == 0, "{}: no space for a program", subject.design.name());
    }
}

/// Programs that have found bugs.
const FINDERS: [&str; 3] = [
    "truncate, then punch beyond the end",
    "a file in place of another that was appended to",
    "truncate, then fill another",
];

#[test]
fn a_fence_that_write_back_or_a_sync_forgets_is_noticed() {
    let subject = subject("hinfs", &[]);
    for (name, words) in [("write 4097 new", "which it never was"), ("append, fsync, append", "")] {
        let program = programs::all().into_iter().find(|program| program.name == name).expect("a program");
        let found = |nth: u64| {
            let fault = Fault::DropNth { target: Target::Fence, nth };
            let program = |_: usize| program.clone();
            let tally = explore_many(&subject, (1, &program), (&effort(0), &[fault]), &Watch::default());
            tally.violations.iter().any(|violation| violation.what.contains(words))
        };
        let caught: Vec<_> = (1..=6).filter(|nth| found(*nth)).collect();
        println!("{name}: of 6 fences that were left out, these were noticed: {caught:?}");
        assert!(!caught.is_empty(), "{name}");
    }
}

/// Leaves out the nth flush or fence of `program`, for each n until nothing is left to leave out; how many of these mutants
/// there were, and which were caught.
fn mutants(subject: &Subject, program: &Program, target: Target, most: u64) -> Vec<u64> {
    let caught = (1..=most).filter(|nth| {
        let (subject, program) = (subject.clone(), program.clone());
        let fault = Fault::DropNth { target, nth: *nth };
        let tally = virtually(SEED, move || explore(&subject, &program, &effort(0), &[fault]));
        !tally.violations.is_empty()
    });
    caught.collect()
}

#[test]
fn a_forgotten_flush_or_fence_is_noticed() {
    let create = Program::new("creat foo", vec![], vec![Op::Create("foo".into())]);
    let append = Program::new(
        "append",
        vec![Op::Create("foo".into())],
        vec![
            Op::Write(File::At("foo".into()), Some(0), Pattern { len: 5000, tag: 1 }),
            Op::Write(File::At("foo".into()), Some(5000), Pattern { len: 100, tag: 2 }),
        ],
    );
    // The counts below are PMFS's; HiNFS on top of it fences more often than it must.
    let subject = subject("pmfs", &[]);
    for program in [&create, &append] {
        for (target, most) in [(Target::Flush, 11), (Target::Fence, 3)] {
            let caught = mutants(&subject, program, target, most);
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

#[test]
fn what_has_returned_is_flushed_and_fenced_and_commits_keep_their_order() {
    for subject in subjects() {
        let found: Vec<_> = sampled(&subject, 1, programs::all())
            .into_iter()
            .filter(|program| !program.together)
            .flat_map(|program| {
                let subject = subject.clone();
                virtually(SEED, move || lints(&subject, &program, &[]))
            })
            .collect();
        assert_eq!(found, Vec::<String>::new(), "{subject}");
    }
}

/// Leaves out the flush or fence of PMFS that a rule is about.
#[test]
fn a_forgotten_flush_or_fence_breaks_the_rule_that_is_about_it() {
    let subject = subject("pmfs", &[]);
    let create = Program::new("creat", vec![], vec![Op::Create("foo".into())]);
    let file = File::At("foo".into());
    let setup =
        vec![Op::Create("foo".into()), Op::Write(file.clone(), Some(0), Pattern { len: 5000, tag: 1 })];
    let cut = Program::new("cut", setup, vec![Op::Truncate(file, 0)]);
    let broken = |program: &Program, nth| {
        let (subject, program) = (subject.clone(), program.clone());
        let fault = Fault::DropNth { target: Target::Fence, nth };
        virtually(SEED, move || lints(&subject, &program, &[fault])).join("; ")
    };
    // The fence between the changes and the commit entry; that between the list's item and its head.
    for (program, nth) in [(&create, 2), (&cut, 1)] {
        assert!(broken(program, nth).contains("L3 commit order"), "{}", broken(program, nth));
    }
    // The fence after the inode has lost its root; the list takes two before, and the cut one.
    assert!(broken(&cut, 4).contains("L7 free before commit"), "{}", broken(&cut, 4));
    // A flush of what the transaction has changed.
    let luck = (1..=11).filter(|nth| {
        let (subject, program) = (subject.clone(), create.clone());
        let fault = Fault::DropNth { target: Target::Flush, nth: *nth };
        let tally = virtually(SEED, move || explore(&subject, &program, &effort(0), &[fault]));
        tally.violations.iter().any(|violation| violation.what.contains("L8 read of unguaranteed bytes"))
    });
    assert!(luck.count() > 0, "recovery never reads what was not flushed");
}

/// A design whose recovery is another.
struct Recovering(fn(&Sound, &Arc<Region>) -> Result<(), String>);

/// A recovery that writes something else each time.
fn restless(design: &Sound, region: &Arc<Region>) -> Result<(), String> {
    design.recover(region)?;
    let last = region.len() - 8;
    let count = region.load_u64(last).map_err(|error| error.to_string())?;
    region.store_u64(last, count + 1).map_err(|error| error.to_string())
}

/// A recovery that flushes nothing.
fn unflushed(design: &Sound, region: &Arc<Region>) -> Result<(), String> {
    for nth in 1..=1000 {
        region.inject(Fault::DropNth { target: Target::Flush, nth });
    }
    let recovered = design.recover(region);
    region.clear_faults();
    recovered
}

impl Altered for Recovering {
    fn recover(&self, sound: &Sound, region: &Arc<Region>) -> Result<(), String> {
        self.0(sound, region)
    }
}

#[test]
fn a_recovery_that_changes_something_each_time_is_noticed() {
    let pmfs = subject("pmfs", &[]);
    let subject = Subject { design: Arc::new(pmfs.design.altered(Recovering(restless))), ..pmfs };
    let create = Program::new("creat", vec![], vec![Op::Create("foo".into())]);
    let tally = explore_all(&subject, &[create], effort(1));
    let found = tally.violations.iter().any(|violation| violation.what.contains("recovering twice changes"));
    assert!(found, "{:?}", tally.violations);
}

/// Where caches persist, a recovery need not flush: its crashes must be those of the same machine.
#[test]
fn a_recovery_that_flushes_nothing_is_wrong_only_where_caches_are_lost() {
    let pmfs = subject("pmfs", &[]);
    let design = Arc::new(pmfs.design.altered(Recovering(unflushed)));
    let programs: Vec<_> = programs::all().into_iter().filter(|program| program.setup.len() < 6).collect();
    let wrong = |mode| {
        let subject = Subject { design: Arc::clone(&design), mode, ..pmfs.clone() };
        let tally = explore_all(&subject, &programs, effort(20));
        assert!(tally.nested_images > 100, "{}", tally.nested_images);
        tally.violations
    };
    let adr = wrong(Mode::Adr);
    assert!(adr.iter().any(|violation| violation.what.contains("nested")), "{adr:?}");
    assert_eq!(wrong(Mode::Eadr), []);
}

/// Pairs that have found bugs: a directory and a file whose locks were taken by number.
const PAIR_FINDERS: [&str; 1] = ["link foo A/bar | exchange in one directory"];

/// Pairs of operations at once: a sample of all, and each with an fsync of the same file, and those that have found bugs.
#[test]
fn a_crash_of_two_operations_at_once_leaves_what_some_order_of_them_leaves() {
    let family = Family::together();
    let step = family.count() / wanted("WEIR_CRASH_TOGETHER", 60).max(1);
    let syncs =
        |number: &usize| family.name(*number).contains("fsync") && family.name(*number).contains("write");
    for subject in subjects() {
        let every = every(&subject).pow(2);
        let some = (0..family.count()).step_by(step * every);
        let found =
            (0..family.count()).filter(|number| PAIR_FINDERS.contains(&family.name(*number).as_str()));
        let syncs = (0..family.count()).filter(syncs).step_by(4 * every);
        let numbers: Vec<usize> = some.chain(syncs).chain(found).collect();
        let (program, began) = (|at: usize| family.program(numbers[at]), std::time::Instant::now());
        let tally = explore_many(&subject, (numbers.len(), &program), (&effort(0), &[]), &Watch::default());
        report("two at once", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
        // Each image is a region of its own, which takes longer than this to fill.
        let least = Duration::from_micros(10) * tally.distinct_images as u32;
        assert!(
            tally.cpu > least,
            "{:?} for {} images is not the time of the runs",
            tally.cpu,
            tally.distinct_images
        );
    }
}

/// Redo's log has no room for such a record: a checkpoint makes it durable.
#[test]
fn a_write_that_is_longer_than_a_log_is_atomic() {
    let write = |tag| Op::Write(File::At("foo".into()), Some(0), Pattern { len: 75 * 4096, tag });
    let program = Program::new("write 307200 over", vec![Op::Create("foo".into()), write(1)], vec![write(2)]);
    let tally = explore_all(&subject("redo", &[]), &[program], effort(3));
    assert_eq!((tally.without_space, tally.violations.len()), (0, 0), "{:?}", tally.violations);
    assert_eq!(tally.distinct_states, 2, "the old content and the new");
}

/// Canary: without its own fence, a write that has returned is lost although another task has synced the file.
#[test]
fn a_write_that_leaves_its_fence_to_the_sync_of_another_task_is_found() {
    let family = Family::together();
    let is_pair = |number: &usize| {
        let name = family.name(*number);
        name == "write 100 over | fsync"
    };
    let number = (0..family.count()).find(is_pair).expect("a pair of a write and a sync");
    let subject = subject("pmfs", &[]);
    let found = (1..=2).any(|nth| {
        let faults = [Fault::DropNth { target: Target::Fence, nth }];
        let program = |_: usize| family.program(number);
        !explore_many(&subject, (1, &program), (&effort(0), &faults), &Watch::default()).violations.is_empty()
    });
    assert!(found, "{}", family.name(number));
}
