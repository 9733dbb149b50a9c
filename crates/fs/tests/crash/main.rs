//! Crashes at every point of every operation, on every design that is ready for it: one row of [`subjects`] each.
//!
//! A failure prints program, operation, event, choice and the lines that persisted; everything follows from the seed that is
//! printed. `WEIR_CRASH_PROGRAM=words` explores only the programs whose names contain the words, `WEIR_CRASH_RANDOM=n` that many
//! random programs of two operations, `WEIR_CRASH_SEED=n` others, `WEIR_CRASH_EVERY=1` every program on block devices, too.

#![allow(unreachable_pub)] // what the test binaries share is not a library

#[path = "../shared/harness.rs"]
mod harness;

use std::sync::Arc;
use std::time::Duration;

use check::crash::programs::{self, Program};
use check::crash::{Effort, Family, Subject, Tally, Watch, explore, explore_many, lints};
use check::{Design, File, Op, Pattern};
use harness::{promises, virtually, with_options};
use media::fault::{Fault, Target};
use media::nvmm::Region;
use media::recorder::Mode;
use sim::Bytes;
use vfs::FileSystem;

const SEED: u64 = 20_261_121;

/// A design on 1 MiB that keeps its caches in a power loss no more than ADR does.
fn subject(name: &str, options: &[(&str, &str)]) -> Subject {
    let (design, promises) = (with_options(name, options), promises(name, options));
    Subject { design, size: Bytes::mib(1), promises, mode: Mode::Adr }
}

/// The designs that are explored.
fn subjects() -> Vec<Subject> {
    // Mounted `sync`, HiNFS promises what PMFS does; what it may do otherwise is tested in `tests/hinfs/crash.rs`.
    let sync = &[("jsize", "64k"), ("buffer", "64k"), ("medium_write", "200ns"), ("sync", "true")];
    vec![subject("pmfs", &[("jsize", "64k")]), subject("hinfs", sync), subject("redo", &[])]
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
    let linear = subject("pmfs", &[("jsize", "64k"), ("dir_index", "false")]);
    let large =
        Subject { size: Bytes::mib(16), ..subject("pmfs", &[("jsize", "64k"), ("block_size", "2M")]) };
    let [pmfs, hinfs, ..] = &subjects()[..] else { panic!("two subjects") };
    vec![
        (linear, names),
        (large, data),
        (Subject { mode: Mode::Eadr, ..pmfs.clone() }, &[""]),
        (Subject { mode: Mode::Eadr, ..hinfs.clone() }, &[""]),
    ]
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
    for subject in subjects() {
        let began = std::time::Instant::now();
        let filter = std::env::var("WEIR_CRASH_PROGRAM").unwrap_or_default();
        let large = programs::large_writes().into_iter().chain(programs::large_attributes());
        let programs = programs::all().into_iter().chain(large);
        let programs: Vec<_> = programs.filter(|program| program.name.contains(&filter)).collect();
        let tally = explore_all(&subject, &programs, Effort { after_commits: true, ..effort(20) });
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
        let tally = explore_all(&subject, &programs, effort(2));
        report("one operation", &subject, &tally, began);
        assert!(tally.programs >= names.len(), "every name is that of a program");
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

#[test]
fn crashes_of_random_programs_leave_allowed_states() {
    let seed = wanted("WEIR_CRASH_SEED", SEED as usize) as u64;
    for subject in subjects() {
        let began = std::time::Instant::now();
        let programs: Vec<_> =
            (0..wanted("WEIR_CRASH_RANDOM", 300)).map(|number| programs::random(seed, number)).collect();
        let tally = explore_all(&subject, &programs, effort(3));
        report("random programs", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {seed}");
    }
}

/// Those of a strict design whose file is mapped: the blocks themselves, or HiNFS's, which buffers none of such a file.
#[test]
fn a_crash_leaves_words_of_what_a_mapping_has_stored_and_all_of_it_after_a_sync() {
    for subject in subjects().into_iter().chain([buffered("hinfs"), in_memory()]) {
        let began = std::time::Instant::now();
        let filter = std::env::var("WEIR_CRASH_PROGRAM").unwrap_or_default();
        let programs: Vec<_> =
            programs::mapped().into_iter().filter(|program| program.name.contains(&filter)).collect();
        if subject.design.name() == "redo" {
            continue; // it maps no files
        }
        let tally = explore_all(&subject, &programs, effort(3));
        report("mapped files", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

/// Canary: a flush or fence of an msync that is left out.
#[test]
fn a_sync_of_a_mapping_that_forgets_its_flush_or_fence_is_noticed() {
    for subject in subjects().into_iter().filter(|subject| ["pmfs", "nova"].contains(&subject.design.name()))
    {
        let mut programs = programs::mapped();
        programs.retain(|program| program.name == "store, msync, store");
        for (target, most) in [(Target::Flush, 4), (Target::Fence, 4)] {
            let caught = mutants(&subject, &programs[0], target, most);
            println!("{}: of {most} {target} mutants caught {caught:?}", subject.design.name());
            assert!(!caught.is_empty(), "{}: no forgotten {target} is noticed", subject.design.name());
        }
    }
}

/// Designs that buffer data, with few pages, so that write-back is at work while programs run.
fn buffered(name: &str) -> Subject {
    let options = &[("jsize", "64k"), ("buffer", "16k"), ("medium_write", "200ns"), ("writeback_tasks", "2")];
    subject(name, options)
}

#[test]
fn a_crash_of_a_design_that_buffers_loses_nothing_that_was_synced_and_shows_no_garbage() {
    for name in ["hinfs", "hinfs-nclfw", "hinfs-wb"] {
        let (subject, began) = (buffered(name), std::time::Instant::now());
        let random = (0..wanted("WEIR_CRASH_RANDOM", 300) / 5).map(|number| programs::random(SEED, number));
        let programs: Vec<_> = programs::all().into_iter().chain(random).collect();
        let tally = explore_all(&subject, &programs, effort(3));
        report("buffered", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
    }
}

/// A crash frees it, or it has its name and all that was written.
#[test]
fn a_crash_leaves_a_file_that_was_made_without_a_name_whole_under_its_name_or_frees_it() {
    let nova = [("shards", "2"), ("log_page", "512")];
    let more = [buffered("hinfs"), subject("nova", &nova), subject("rcache", &nova), in_memory()];
    for subject in subjects().into_iter().chain(more).chain(on_blocks()) {
        let began = std::time::Instant::now();
        let tally = explore_all(&subject, &programs::nameless(), effort(1));
        report("made without a name", &subject, &tally, began);
        assert_eq!(tally.violations.len(), 0, "seed {SEED}");
        assert!(tally.without_space == 0, "{}: no space for a program", subject.design.name());
    }
}

/// Designs on a block device, mounted in each way that promises something else.
fn on_blocks() -> Vec<Subject> {
    let ext4 = [("cache", "256k"), ("block_size", "1k"), ("journal", "1MiB"), ("lost_found", "false")];
    let with = |data| [&ext4[..], &[("data", data)]].concat();
    let size = Bytes::mib(2);
    let ext2 = [("cache", "256k"), ("block_size", "1k"), ("lost_found", "false")];
    let journaled = ["ordered", "writeback", "journal"].map(|data| subject("ext4", &with(data)));
    let undelayed = subject("ext4", &[&ext4[..], &[("delalloc", "false")]].concat());
    let all = journaled.into_iter().chain([undelayed, subject("ext2", &ext2)]);
    all.map(|subject| Subject { size, ..subject }).collect()
}

#[test]
fn a_crash_of_ext2_leaves_what_a_repair_can_mend() {
    explore_on_blocks(&on_blocks()[4..]);
}

#[test]
fn a_crash_of_a_design_on_a_block_device_leaves_what_its_journal_promises() {
    explore_on_blocks(&on_blocks()[..4]);
}

/// Data in memory, metadata in blocks of the same memory: every line of both may be torn.
fn in_memory() -> Subject {
    let options = [("cache", "256k"), ("journal", "4MiB"), ("lost_found", "false")];
    Subject { size: Bytes::kib(5500), ..subject("ext4-dax", &options) }
}

#[test]
fn a_crash_of_blocks_in_memory_leaves_what_the_journal_promises() {
    explore_on_blocks(&[in_memory()]);
}

/// Programs that have found bugs of a design on a block device.
const FINDERS: [&str; 2] =
    ["truncate, then punch beyond the end", "a file in place of another that was appended to"];

fn explore_on_blocks(subjects: &[Subject]) {
    let filter = std::env::var("WEIR_CRASH_PROGRAM").unwrap_or_default();
    let mut violations = 0;
    for subject in subjects {
        let began = std::time::Instant::now();
        let random = (0..wanted("WEIR_CRASH_RANDOM", 300) / 10).map(|number| programs::random(SEED, number));
        // A sample: sectors give many more images than lines, and `weir check crash` takes all programs.
        let every = if filter.is_empty() { wanted("WEIR_CRASH_EVERY", 9) } else { 1 };
        let programs: Vec<_> = programs::all()
            .into_iter()
            .chain(random)
            .filter(|program| program.name.contains(&filter))
            .enumerate()
            .filter(|(number, program)| number % every == 0 || FINDERS.contains(&program.name.as_str()))
            .map(|(_, program)| program)
            .collect();
        let tally = explore_all(subject, &programs, effort(1));
        report("on blocks", subject, &tally, began);
        violations += tally.violations.len();
    }
    assert_eq!(violations, 0, "seed {SEED}");
}

#[test]
fn a_fence_that_write_back_or_a_sync_forgets_is_noticed() {
    let subject = buffered("hinfs");
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
    for subject in subjects().into_iter().take(1) {
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
}

#[test]
fn what_has_returned_is_flushed_and_fenced_and_commits_keep_their_order() {
    for subject in subjects() {
        let found: Vec<_> = programs::all()
            .into_iter()
            .flat_map(|program| {
                let subject = subject.clone();
                virtually(SEED, move || lints(&subject, &program, &[]))
            })
            .collect();
        assert_eq!(found, Vec::<String>::new(), "{}", subject.design.name());
    }
}

/// Leaves out the flush or fence of PMFS that a rule is about.
#[test]
fn a_forgotten_flush_or_fence_breaks_the_rule_that_is_about_it() {
    let subject = subjects().remove(0);
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

/// A design whose recovery writes something else each time.
struct Restless(Arc<dyn Design>);

impl Design for Restless {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn min_size(&self) -> Bytes {
        self.0.min_size()
    }

    fn mkfs(&self, region: &Arc<Region>) -> Result<(), String> {
        self.0.mkfs(region)
    }

    fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.0.mount(region)
    }

    fn recover(&self, region: &Arc<Region>) -> Result<(), String> {
        self.0.recover(region)?;
        let last = region.len() - 8;
        let count = region.load_u64(last).map_err(|error| error.to_string())?;
        region.store_u64(last, count + 1).map_err(|error| error.to_string())
    }

    fn fsck(&self, region: &Arc<Region>) -> Vec<String> {
        self.0.fsck(region)
    }
}

#[test]
fn a_recovery_that_changes_something_each_time_is_noticed() {
    let pmfs = subjects().remove(0);
    let subject = Subject { design: Arc::new(Restless(Arc::clone(&pmfs.design))), ..pmfs };
    let create = Program::new("creat", vec![], vec![Op::Create("foo".into())]);
    let tally = explore_all(&subject, &[create], effort(1));
    let found = tally.violations.iter().any(|violation| violation.what.contains("recovering twice changes"));
    assert!(found, "{:?}", tally.violations);
}

/// Pairs of operations at once: a sample of all, and each with an fsync of the same file.
#[test]
fn a_crash_of_two_operations_at_once_leaves_what_some_order_of_them_leaves() {
    let family = Family::together();
    let step = family.count() / wanted("WEIR_CRASH_TOGETHER", 60).max(1);
    let syncs =
        |number: &usize| family.name(*number).contains("fsync") && family.name(*number).contains("write");
    let numbers: Vec<usize> =
        (0..family.count()).step_by(step).chain((0..family.count()).filter(syncs).step_by(4)).collect();
    for subject in subjects() {
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

/// The journal in memory beside the device: sectors of one and words of the other are lost at once.
#[test]
fn a_crash_of_a_block_device_with_its_journal_in_memory_leaves_what_the_journal_promises() {
    let options = [
        ("cache", "256k"),
        ("block_size", "1k"),
        ("journal", "1MiB"),
        ("lost_found", "false"),
        ("external_journal", "true"),
    ];
    explore_on_blocks(&[Subject { size: Bytes::mib(5), ..subject("ext4", &options) }]);
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
    let subject = subject("pmfs", &[("jsize", "64k")]);
    let found = (1..=2).any(|nth| {
        let faults = [Fault::DropNth { target: Target::Fence, nth }];
        let program = |_: usize| family.program(number);
        !explore_many(&subject, (1, &program), (&effort(0), &faults), &Watch::default()).violations.is_empty()
    });
    assert!(found, "{}", family.name(number));
}
