//! The cleaner that works in steps: what it has left of the log leads to the same tree, whatever calls and crashes came between.
//!
//! Debug builds check besides that nothing is live in a zone that is freed, by all records (`is_emptied`): so each test here is one of
//! the questions that the cleaner asks, and of the survey that it replaces.

use std::sync::Arc;

use check::crash::{Effort, Program, Subject, Tally, explore};
use check::{Configured, File, Generator, NEW, Op, Pattern, Runner, Tree, observe};
use crest::design::CrestDesign;
use crest::format::mutant;
use design::{Design, Mutant};
use media::Storage;
use media::fault::Fault;
use media::nvmm::Region;
use media::recorder::{Mode, Plan};
use sim::{Bytes, Rng, Seed, Setup, TaskSpec};
use vfs::{FileSystem, Ino, IoFlags, SetAttr, SetTime, Timestamp, XattrMode};

use crate::support::{
    Given, assert_sound, copy_of, counted, machine, made, mounted, options, region, zones_emptied,
};

const SEED: u64 = 20_261_129;
/// Zones of 16 KiB, some 120: calls of 32,768 lines wrap the log.
const SMALL: Bytes = Bytes(2 << 20);
const TWO: Given<'_> = &[("shards", "2")];

/// What a crash keeps: the times of accesses are in DRAM.
fn durable(fs: &dyn FileSystem) -> Tree {
    let mut tree = observe(fs).expect("a tree");
    for entry in tree.values_mut() {
        entry.atime = None;
    }
    tree
}

/// Runs a part of a history on a core.
fn on_core<T: Send + 'static>(core: u16, body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::spawn(TaskSpec::named(format!("core {core}")).on_core(core), body).join()
}

/// A pool with random calls on two cores and more that come and go, which it loses and mounts again now and then. What is wrong, and
/// the zones that were freed.
fn history(region: &Arc<Region>, seed: u64, given: Given<'_>) -> (Option<String>, u64) {
    let options = options(given, None);
    let (mut fs, mut at, mut emptied) = (made(region, &options), Arc::clone(region), 0);
    for life in 0..4_u64 {
        let mut runner = Runner::new(Arc::clone(&fs));
        for round in 0..160 {
            let mut rng = Seed(seed).derive("round", life * 1000 + round).rng();
            let more;
            (runner, more) = on_core((round % 2) as u16, move || {
                churn(&mut runner, &mut rng);
                (runner, zones_emptied())
            });
            emptied += more;
        }
        drop(runner);
        fs.sync().expect("sync");
        let expected = durable(&*fs);
        // What is mounted now may go on writing in the background.
        at = copy_of(&at);
        fs = mounted(&at, &options);
        let seen = match observe(&*fs) {
            Ok(_) => durable(&*fs),
            Err(what) => return (Some(format!("life {life}: {what}")), emptied),
        };
        if let Some(difference) = check::difference(&seen, &expected) {
            return (Some(format!("life {life}: {difference}")), emptied);
        }
    }
    fs.unmount().expect("unmount");
    assert_sound(&at);
    (None, emptied)
}

/// Some random calls, and files that come and go.
fn churn(runner: &mut Runner, rng: &mut Rng) {
    let generator =
        Generator { reads: false, handles: false, remounts: false, bulk: false, maps: false, clones: true };
    for number in 0..12 {
        // Calls may fail.
        let _ = runner.run(&generator.op(rng, number));
        for name in ["B/x", "y"] {
            for op in [Op::Create(name.to_owned()), Op::Unlink(name.to_owned())] {
                let _ = runner.run(&op);
            }
        }
    }
}

fn found(seed: u64, given: Given<'static>) -> (Option<String>, u64) {
    let run = sim::run(&Setup::virtual_clock(machine(2), Seed(seed)), move || {
        let region = region(SMALL);
        history(&region, seed, given)
    });
    run.unwrap_or_else(|error| (Some(error.to_string()), 0))
}

#[test]
fn crashes_between_calls_leave_the_tree_however_the_log_was_cleaned() {
    const WAYS: [Given<'_>; 4] = [
        TWO,
        &[("shards", "1")],
        &[("shards", "2"), ("shared-after", "0")],
        &[("shards", "2"), ("sync", "fsync"), ("buffer", "64k")],
    ];
    for given in WAYS {
        for seed in SEED..SEED + 3 {
            let (wrong, emptied) = found(seed, given);
            assert_eq!(wrong, None, "seed {seed}, {given:?}");
            println!("seed {seed}, {given:?}: {emptied} zones");
            assert!(emptied > 40, "seed {seed}, {given:?}: only {emptied} zones were emptied");
        }
    }
}

/// A removal whose add was copied to the zone of a shard that rests then, and a crash when the zone of the removal was emptied: whether
/// the name is there.
fn removed_name_is_back(bug: Option<Mutant>) -> bool {
    let run = sim::run(&Setup::virtual_clock(machine(2), Seed(SEED)), move || {
        let (region, options) = (region(SMALL), options(TWO, bug));
        let fs = made(&region, &options);
        let root = fs.root();
        let files: Vec<String> = (0..300).map(|number| format!("file {number}")).collect();
        for name in &files {
            fs.create(root, name.as_bytes(), &NEW).expect("an empty pool");
        }
        let churn = |core, zones: u64| {
            let fs = Arc::clone(&fs);
            on_core(core, move || {
                let before = zones_emptied();
                while zones_emptied() - before < zones {
                    fs.create(root, b"x", &NEW).expect("room");
                    fs.unlink(root, b"x").expect("a name");
                }
            });
        };
        // The zones with the files are the oldest, so that their names are copied to the log of core 0.
        churn(0, 3);
        let (removes, names) = (Arc::clone(&fs), files.clone());
        on_core(1, move || {
            for name in &names {
                removes.unlink(root, name.as_bytes()).expect("a name");
            }
        });
        churn(1, 140);
        drop(fs);
        let fs = mounted(&region, &options);
        files.iter().any(|name| fs.lookup(root, name.as_bytes()).is_ok())
    });
    run.expect("the run ends")
}

#[test]
fn a_removal_waits_for_a_copy_of_its_add_in_the_zone_of_a_shard_that_rests() {
    assert!(!removed_name_is_back(None));
    for bug in [mutant::COPIES_FORGOTTEN, mutant::REMOVAL_DIES_AT_ONCE] {
        assert!(removed_name_is_back(Some(bug)), "canary: {}", bug.name());
    }
}

/// Changes a file again and again by so many calls in each of two mounts of a pool; zones that were emptied, and lines that were copied,
/// for each mount. Each fills about 235 zones of 255 lines.
fn emptied_and_copied(
    change: fn(&dyn FileSystem, Ino),
    calls: u64,
    look: fn(&dyn FileSystem, Ino),
) -> Vec<(u64, u64)> {
    let run = sim::run(&Setup::virtual_clock(machine(1), Seed(SEED)), move || {
        let (region, options) = (region(SMALL), options(&[("shards", "1")], None));
        let mut fs = made(&region, &options);
        let mut all = Vec::new();
        for life in 0..2 {
            let file = fs.create(fs.root(), format!("file {life}").as_bytes(), &NEW).expect("room").ino;
            let (emptied, copied) = (zones_emptied(), counted("crest.copied"));
            (0..calls).for_each(|_| change(&*fs, file));
            all.push((zones_emptied() - emptied, counted("crest.copied") - copied));
            drop(fs);
            fs = mounted(&region, &options);
            look(&*fs, file);
        }
        all
    });
    run.expect("the run ends")
}

/// A file that gets the same size and mode again and again: of its records only the last ones are copied, so the log does not fill up.
#[test]
fn values_that_come_back_are_not_kept_for_ever() {
    let change = |fs: &dyn FileSystem, file| {
        let set = |size, perm| SetAttr { size, perm, ..SetAttr::default() };
        fs.setattr(file, &set(Some(0), None)).expect("a truncation");
        fs.write(file, 0, &[1; 64], IoFlags::empty()).expect("room");
        fs.setattr(file, &set(None, Some(0o600))).expect("a change of the mode");
    };
    let look = |fs: &dyn FileSystem, file| assert_eq!(fs.getattr(file).expect("the file").size, 64);
    // Each call writes a line: 60,000. Each cut is copied once, for the zone behind its own.
    for (emptied, _) in emptied_and_copied(change, 20_000, look) {
        assert!((120..480).contains(&emptied), "{emptied} zones were emptied");
    }
}

/// An attribute that gets the same value again and again: its last record alone is copied.
#[test]
fn an_attribute_that_comes_back_is_not_kept_for_ever() {
    let change = |fs: &dyn FileSystem, file| {
        fs.setxattr(file, b"user.it", b"the same", XattrMode::Set).expect("room");
    };
    let look = |fs: &dyn FileSystem, file| {
        assert_eq!(fs.getxattr(file, b"user.it").expect("the attribute"), b"the same");
    };
    // Two lines each: 60,000.
    for (emptied, copied) in emptied_and_copied(change, 30_000, look) {
        assert!((120..480).contains(&emptied), "{emptied} zones were emptied");
        assert!(copied < 10 * emptied, "{copied} lines were copied of {emptied} zones");
    }
}

/// Harms a line of the first zone that a mount fills, and lets the log wrap: the zone is not freed, so nothing is lost when the line is
/// right again. `line`: of a record; `poisons`: it cannot be read, instead of having other bytes.
fn harmed_zone_is_kept(line: u64, poisons: bool) {
    let run = sim::run(&Setup::virtual_clock(machine(1), Seed(SEED)), move || {
        let (region, options) = (region(SMALL), options(&[("shards", "1")], None));
        let fs = made(&region, &options);
        let root = fs.root();
        let files: Vec<String> = (0..400).map(|number| format!("file {number}")).collect();
        for name in &files {
            fs.create(root, name.as_bytes(), &NEW).expect("an empty pool");
        }
        // Zones for records are taken from the end of the pool on; that of mkfs is the first.
        let (offset, mut bytes) = (region.len() - 2 * (16 << 10) + line * 64, [0; 64]);
        region.peek(offset, &mut bytes).expect("it can be read");
        match poisons {
            true => region.inject(Fault::Poison { offset }),
            false => region.nt_store(offset, &[7; 64]).expect("it can be stored"),
        }
        while zones_emptied() < 150 {
            fs.create(root, b"x", &NEW).expect("room");
            fs.unlink(root, b"x").expect("a name");
        }
        drop(fs);
        if line < LAST {
            let damaged = CrestDesign.mount(&Storage::from(&region), &options);
            assert!(damaged.is_err(), "line {line}: the zone is not in the log");
        }
        region.clear_faults();
        region.nt_store(offset, &bytes).expect("it can be stored");
        region.fence();
        let fs = mounted(&region, &options);
        for name in &files {
            fs.lookup(root, name.as_bytes()).expect("a file of the harmed zone");
        }
        assert_sound(&region);
    });
    run.unwrap_or_else(|error| panic!("line {line}, poisons: {poisons}: {error}"));
}

/// The last record of a zone of 256 lines: behind an Open of one, all have two. That it is missing can only be told while the shard
/// knows where it left the zone.
const LAST: u64 = 253;

#[test]
fn a_zone_that_cannot_be_read_is_kept() {
    for (line, poisons) in [(101, true), (101, false), (LAST, true), (LAST, false)] {
        harmed_zone_is_kept(line, poisons);
    }
}

/// A pool whose log has passed its end, with files that stay in all of its zones, and calls that take two zones more.
fn worn_program(size: Bytes) -> Program {
    let stays = || "A/stays".to_owned();
    // 48 lines.
    let long =
        |tag: u8| Op::SetXattr(stays(), "user.a".to_owned(), Pattern { len: 3000, tag }, XattrMode::Set);
    let write = |tag| Op::Write(File::At(stays()), Some(4096), Pattern { len: 4096, tag });
    let calls = |tag: u8| [long(tag), Op::Create("x".to_owned()), write(tag), Op::Unlink("x".to_owned())];
    let mut setup = vec![Op::Mkdir("A".to_owned()), Op::Create(stays()), write(1)];
    for number in 0..size.0 / 64 / 48 {
        setup.extend([long(number as u8), Op::Chmod(stays(), 0o600 + number as u32 % 8)]);
        if number.is_multiple_of(8) {
            // Neighbours, so that a step copies several records.
            setup.extend((0..3).map(|copy| Op::Create(format!("A/{number} {copy}"))));
        }
    }
    Program::new("worn", setup, (0..6).flat_map(calls).collect())
}

/// Crashes of the worn program.
fn crashes(mode: Mode, bug: Option<Mutant>) -> Tally {
    let size = Bytes::mib(1);
    let options = options(&[("shards", "1")], bug);
    let promises = CrestDesign.promises(&options);
    let design = Arc::new(Configured::new(&CrestDesign, options, "-O shards=1".to_owned()));
    let plan = Plan { exhaustive_max: 8, pair_units_max: 0, draws: 1, seed: Seed(SEED) };
    let effort = Effort { plan, ..Effort::usual(SEED, 0) };
    let subject = Subject { design, size, promises, mode };
    check::configured::virtually(SEED, move || explore(&subject, &worn_program(size), &effort, &[]))
}

#[test]
fn a_crash_in_each_moment_of_a_step_leaves_the_tree() {
    // Where caches are durable there is less to choose.
    let is_long = std::env::var_os("WEIR_CREST_DEPTH").is_some();
    let modes = if is_long { vec![Mode::Adr, Mode::Eadr] } else { vec![Mode::Adr] };
    for mode in modes {
        let tally = crashes(mode, None);
        println!("{mode:?}: {} points, {} images", tally.points, tally.distinct_images);
        assert!(tally.violations.is_empty(), "{mode:?}: {:?}", tally.violations);
        assert!(tally.points > 60, "{mode:?}: {} points", tally.points);
    }
}

/// Canary: a zone that is freed before the copies of its records are durable.
#[test]
fn a_step_that_frees_a_zone_before_its_copies_are_durable_is_found() {
    assert!(!crashes(Mode::Adr, Some(mutant::CLEANED_BEFORE_FENCE)).violations.is_empty());
}

/// Canary: copies that are stored under one fence without a word of that: those that a crash leaves behind a gap look like damage.
#[test]
fn copies_of_a_batch_that_do_not_say_so_are_found() {
    assert!(!crashes(Mode::Adr, Some(mutant::BATCH_UNMARKED)).violations.is_empty());
}

/// What a crash leaves of the time of an access that `utimes` has set, when one in DRAM followed and the log has wrapped.
fn access_time_left(bug: Option<Mutant>) -> Timestamp {
    let set = Timestamp { secs: 1_000_000, nanos: 7 };
    let run = sim::run(&Setup::virtual_clock(machine(1), Seed(SEED)), move || {
        let (region, options) = (region(SMALL), options(&[("shards", "1")], bug));
        let fs = made(&region, &options);
        let (root, atime) = (fs.root(), Some(SetTime::To(set)));
        let file = fs.create(root, b"file", &NEW).expect("an empty pool").ino;
        fs.setattr(file, &SetAttr { atime, ..SetAttr::default() }).expect("utimes");
        fs.setattr(file, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("chmod");
        fs.accessed(file).expect("an access");
        for _ in 0..SMALL.0 / 64 / 2 {
            fs.create(root, b"x", &NEW).expect("room");
            fs.unlink(root, b"x").expect("a name");
        }
        drop(fs);
        let fs = mounted(&region, &options);
        fs.getattr(file).expect("the file").atime
    });
    run.expect("the run ends")
}

#[test]
fn an_access_in_dram_does_not_lose_the_time_that_was_set() {
    let set = Timestamp { secs: 1_000_000, nanos: 7 };
    assert_eq!(access_time_left(None), set);
    assert_ne!(access_time_left(Some(mutant::TIMES_OF_DRAM)), set, "canary");
}

/// Writers that wait for each other's room on a pool of which little is free, and others that churn: none is refused.
#[test]
fn a_pool_that_is_half_full_refuses_nothing_while_its_log_wraps() {
    let run = sim::run(&Setup::virtual_clock(machine(4), Seed(SEED)), || {
        let region = region(Bytes::mib(8));
        let fs = made(&region, &options(&[("shards", "4")], None));
        let root = fs.root();
        let data = vec![1; 1 << 20];
        for number in 0..4 {
            let file = fs.create(root, format!("file {number}").as_bytes(), &NEW).expect("room").ino;
            fs.write(file, 0, &data, IoFlags::empty()).expect("room");
        }
        let task = |task: u16| {
            let fs = Arc::clone(&fs);
            sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task), move || {
                let name = format!("churn {task}");
                for _ in 0..16_000 {
                    fs.create(root, name.as_bytes(), &NEW).expect("room for a file");
                    fs.unlink(root, name.as_bytes()).expect("room for a removal");
                }
            })
        };
        let tasks: Vec<_> = (0..4).map(task).collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
    run.expect("the run ends");
}
