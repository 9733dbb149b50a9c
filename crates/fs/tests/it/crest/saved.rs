//! Saved indexes: what an unmount writes is what the logs lead to, and a crash, damage or a full pool loses nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use check::crash::programs::Program;
use check::crash::{Effort, Subject, explore};
use check::{File, Generator, NEW, Op, Pattern, Runner, Tree, observe};
use design::{FsckReport, Mutant};
use fs::crest::format::layout::{Geometry, LINE, SUPERBLOCKS, Superblock};
use fs::crest::format::mutant;
use fs::crest::format::zone::{Use, Word};
use media::Storage;
use media::fault::Fault;
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Mode, Plan, Scratch, Trace};
use rand::RngExt;
use sim::{Bytes, Seed};
use twox_hash::XxHash3_64;
use vfs::{Errno, FileSystem, SetAttr};

use super::mount::{assert_sound, crest, made, mounted};
use crate::shared::harness::{self, Given, subject, virtually, with_mutant};

const SEED: u64 = 20_261_128;
const SMALL: Bytes = Bytes::kib(512);
/// Where the clean word lies.
const CLEAN: u64 = SUPERBLOCKS[1] + 4 * LINE as u64;

fn fsck(region: &Arc<Region>) -> FsckReport {
    crest().format().fsck(&Storage::from(region))
}

/// How many inodes fsck has found in a saved index that counts, and compared with the logs.
fn saved(report: &FsckReport) -> Option<u64> {
    report.checked.iter().find(|(what, _)| *what == "saved inodes").map(|(_, count)| *count)
}

/// Whether fsck has found a saved index that is damaged.
fn says_damaged(report: &FsckReport) -> bool {
    report.notes.iter().any(|note| note.contains("nothing is lost"))
}

fn mounted_with(region: &Arc<Region>, given: Given<'_>, mutant: Option<Mutant>) -> Arc<dyn FileSystem> {
    let options = harness::options(crest(), given);
    let options = match mutant {
        Some(mutant) => options.with_mutant(mutant),
        None => options,
    };
    crest().mount(&Storage::from(region), &options).expect("mount")
}

fn run(runner: &mut Runner, ops: impl IntoIterator<Item = Op>) {
    for op in ops {
        runner.run(&op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
    }
}

/// Files, names, links, attributes, a clone, a symbolic link, reserved and shared blocks.
fn files() -> Vec<Op> {
    let write = |path: &str, len| Op::Write(File::At(path.into()), Some(0), Pattern { len, tag: 1 });
    vec![
        Op::Mkdir("dir".into()),
        Op::Create("dir/file".into()),
        write("dir/file", 20_000),
        Op::Create("clone".into()),
        Op::Clone((File::At("dir/file".into()), 0), (File::At("clone".into()), 0), 8192),
        Op::Link("dir/file".into(), "link".into()),
        Op::Symlink("sym".into(), 60),
        Op::SetXattr("clone".into(), "user.a".into(), Pattern { len: 100, tag: 2 }, vfs::XattrMode::Set),
        Op::Create("gone".into()),
        write("gone", 5000),
        Op::Unlink("gone".into()),
    ]
}

/// Inodes of these files, the root among them.
const INODES: u64 = 5;

/// A pool with files that was unmounted, and what it shows.
fn unmounted() -> (Arc<Region>, Tree) {
    let region = made(Bytes::mib(1));
    let mut runner = Runner::new(mounted(&region));
    run(&mut runner, files());
    let tree = observe(&*runner.fs).expect("a sound tree");
    runner.fs.unmount().expect("unmount");
    (region, tree)
}

fn assert_shows(region: &Arc<Region>, tree: &Tree) {
    let fs = mounted(region);
    assert_eq!(observe(&*fs).expect("a sound tree"), *tree);
    fs.unmount().expect("unmount");
    assert_sound(region);
}

/// Random histories, some of which fill the pool or clean, with files that are open without a name at the unmount: fsck compares
/// the state from the index with that from the logs in every field. Answers unmounts with and without a saved index.
fn random_histories(given: Given<'static>, size: Bytes, seed: u64, rounds: usize) -> (usize, usize) {
    virtually(seed, move || {
        let region = harness::region(size);
        let options = harness::options(crest(), given);
        crest().format().mkfs(&Storage::from(&region), &options).expect("mkfs");
        let mut rng = Seed(seed).rng();
        let generator = Generator { clones: true, remounts: false, ..Generator::ALL };
        let (mut with, mut without) = (0, 0);
        for round in 0..rounds {
            let mut runner = Runner::new(mounted_with(&region, given, None));
            for number in 0..rng.random_range(1..150) {
                // An answer may be any error: the pool may be full.
                let _ = runner.run(&generator.op(&mut rng, number as u8));
            }
            let _ = runner.run(&Op::Nameless(1000));
            runner.fs.sync().expect("sync");
            let tree = observe(&*runner.fs).expect("a sound tree");
            runner.fs.unmount().expect("unmount");
            let report = fsck(&region);
            assert_eq!(
                (&*report.violations, says_damaged(&report)),
                (&[][..], false),
                "seed {seed}, {round}"
            );
            match saved(&report) {
                Some(_) => with += 1,
                None => without += 1,
            }
            let fs = mounted_with(&region, given, None);
            assert_eq!(observe(&*fs).expect("a sound tree"), tree, "seed {seed}, {round}");
            // A crash, or an unmount of what has only been looked at.
            if round % 2 == 0 {
                fs.unmount().expect("unmount");
                assert!(fsck(&region).violations.is_empty(), "seed {seed}, {round}");
            }
        }
        (with, without)
    })
}

#[test]
fn a_saved_index_is_the_state_to_which_the_logs_lead() {
    const SMALL_AND: &[(&str, &str)] = &[("shards", "2"), ("shared-after", "0")];
    const SUMMED: &[(&str, &str)] = &[("shards", "1"), ("checksum", "data")];
    const BUFFERED: &[(&str, &str)] = &[("shards", "2"), ("sync", "fsync"), ("buffer", "64k")];
    let (mut with, mut without) = (0, 0);
    for (given, size) in
        [(SMALL_AND, Bytes::mib(2)), (&[][..], SMALL), (SUMMED, Bytes::mib(1)), (BUFFERED, Bytes::mib(1))]
    {
        for seed in 0..3 {
            let counts = random_histories(given, size, SEED + seed, 14);
            (with, without) = (with + counts.0, without + counts.1);
        }
    }
    println!("{with} unmounts with an index, {without} without");
    assert!(with > 100 && with > 4 * without, "{with} with, {without} without");
}

/// Each crash of what `body` stores is given to `check`; answers how many images there were.
pub(super) fn crashes(
    region: &Arc<Region>,
    body: impl FnOnce(),
    mut check: impl FnMut(&Arc<Region>),
) -> usize {
    let trace = Trace::attach(region).expect("a recorder");
    body();
    region.detach(&trace);
    let mut replay = trace.replay(Mode::Adr);
    let few = Plan { exhaustive_max: 64, pair_units_max: 8, draws: 8, seed: Seed(5) };
    let mut scratch = Scratch::new(Bytes(region.len()), Box::new(Null)).expect("memory");
    let (mut tried, mut ended) = (BTreeSet::new(), false);
    while !ended {
        ended = replay.next_point(|_, _| ()).is_none();
        let point = replay.state().crash_point();
        for image in point.choices(&few).iter().map(|choice| point.image(choice)) {
            if tried.insert(image.fingerprint()) {
                check(&Arc::clone(scratch.load(&image).expect("an image")));
            }
        }
    }
    tried.len()
}

/// Whether a crash while the index is saved leaves an image that says it is damaged, and how many leave one that counts or none.
fn crashes_of_an_unmount(mutant: Option<Mutant>) -> (usize, [usize; 2]) {
    virtually(1, move || {
        let region = made(Bytes::mib(1));
        let mut runner = Runner::new(mounted_with(&region, &[], mutant));
        run(&mut runner, files());
        let tree = observe(&*runner.fs).expect("a sound tree");
        let (mut damaged, mut counts) = (0, [0; 2]);
        let images = crashes(
            &region,
            || runner.fs.unmount().expect("unmount"),
            |region| {
                let report = fsck(region);
                assert_eq!(report.violations, []);
                damaged += usize::from(says_damaged(&report));
                counts[usize::from(saved(&report).is_some())] += 1;
                assert_shows(region, &tree);
            },
        );
        println!("{images} images of an unmount: {counts:?} without and with an index, {damaged} damaged");
        (damaged, counts)
    })
}

#[test]
fn a_crash_while_the_index_is_saved_leaves_the_files_and_no_damage() {
    let (damaged, counts) = crashes_of_an_unmount(None);
    assert_eq!(damaged, 0);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

#[test]
fn an_index_that_is_named_before_it_is_durable_is_found() {
    assert!(crashes_of_an_unmount(Some(mutant::IMAGE_BEFORE_FENCE)).0 > 0);
}

/// Trees that crashes of a mount, and of the change that follows, do not allow.
fn wrong_trees_after_a_mount(mutant: Option<Mutant>) -> usize {
    virtually(1, move || {
        let (region, before) = unmounted();
        let saw = Arc::new(Mutex::new(Tree::default()));
        let seen = Arc::clone(&saw);
        let of_body = Arc::clone(&region);
        let mut wrong = 0;
        let images = crashes(
            &region,
            || {
                let mut runner = Runner::new(mounted_with(&of_body, &[], mutant));
                run(&mut runner, [Op::Unlink("link".into()), Op::Create("new".into())]);
                *seen.lock().expect("one thread") = observe(&*runner.fs).expect("a sound tree");
            },
            |region| {
                let report = fsck(region);
                assert_eq!(report.violations, []);
                assert!(mutant.is_some() || !says_damaged(&report));
                let tree = observe(&*mounted_with(region, &[], mutant)).expect("a sound tree");
                let after = saw.lock().expect("one thread");
                let lacks = |name: &str| !tree.contains_key(name);
                let is_between = lacks("link") && lacks("new");
                wrong += usize::from(!(tree == before || tree == *after || is_between));
            },
        );
        // Where the run ended, the changes had returned.
        let last = observe(&*mounted_with(&region, &[], mutant)).expect("a sound tree");
        let has_both = last == *saw.lock().expect("one thread");
        println!("{images} images of a mount and two changes: {wrong} wrong, the last has both: {has_both}");
        wrong + usize::from(!has_both)
    })
}

#[test]
fn a_crash_after_a_mount_from_an_index_shows_what_was_changed() {
    assert_eq!(wrong_trees_after_a_mount(None), 0);
}

#[test]
fn an_index_that_outlives_a_change_is_found() {
    assert!(wrong_trees_after_a_mount(Some(mutant::IMAGE_NOT_VOIDED)) > 0);
}

/// Whether a name is gone that was removed before an unmount, after the next mount has cleaned the zone of the removal.
fn removal_outlives_the_cleaner(mutant: Option<Mutant>) -> bool {
    virtually(1, move || {
        let region = made(SMALL);
        let mut runner = Runner::new(mounted(&region));
        // The adds: in a zone with names that stay.
        run(&mut runner, (0..100).map(|number| Op::Create(format!("file {number}"))));
        let mode = |round: usize| Op::Chmod("file 1".into(), 0o600 + (round % 8) as u32);
        run(&mut runner, (0..250).map(mode));
        run(&mut runner, [Op::Unlink("file 50".into())]);
        runner.fs.unmount().expect("unmount");
        assert_eq!(saved(&fsck(&region)), Some(100), "99 files and the root");
        // In steps the zone of the adds, which is older, would be freed first.
        let mut runner = Runner::new(mounted_with(&region, &[("without", "steps")], mutant));
        // The record with the removal holds the times of the directory until then.
        run(&mut runner, [Op::Create("later".into())]);
        run(&mut runner, (0..20_000).map(mode));
        drop(runner);
        let fs = mounted(&region);
        fs.lookup(fs.root(), b"file 50").err() == Some(Errno::ENOENT)
    })
}

#[test]
fn what_waits_outlives_a_mount_from_an_index_and_its_loss_is_found() {
    assert!(removal_outlives_the_cleaner(None));
    assert!(!removal_outlives_the_cleaner(Some(mutant::IMAGE_WITHOUT_WAITS)));
}

/// The first zone of an image, and where it lies.
fn image_zone(region: &Region) -> (u64, u64) {
    let superblock: Superblock = region.read(0).expect("a load");
    let geometry = Geometry::new(superblock.size, superblock.made);
    let word = |zone: u32| Word::unpack(zone, region.load_u64(geometry.words_at(zone)[0]).expect("a load"));
    let found = (0..geometry.zones).find_map(|zone| {
        let word = word(zone).filter(|word| word.usage == Use::Saved)?;
        Some((word.opening, geometry.zone_at(zone)))
    });
    found.expect("an image was saved")
}

/// A fault: what it is called, how it is planted.
type Planted = (&'static str, fn(&Region));

#[test]
fn a_damaged_index_is_not_used_and_said_and_repaired() {
    let faults: [Planted; 4] = [
        ("a byte of a piece", |region| {
            let at = image_zone(region).1 + 200;
            let word = region.load_u64(at).expect("a load");
            region.store_u64(at, word ^ 1 << 20).expect("a store");
        }),
        ("a header", |region| region.store(image_zone(region).1, &[7; 64]).expect("a store")),
        ("the clean word", |region| region.store_u64(CLEAN, 12_345).expect("a store")),
        ("a poisoned line", |region| region.inject(Fault::Poison { offset: image_zone(region).1 + 100 })),
    ];
    virtually(1, move || {
        for (what, plant) in faults {
            let (region, tree) = unmounted();
            assert_eq!(saved(&fsck(&region)), Some(INODES), "{what}");
            plant(&region);
            let report = fsck(&region);
            assert_eq!((saved(&report), says_damaged(&report)), (None, true), "{what}: {:?}", report.notes);
            assert_eq!(report.violations, [], "{what}: the logs are whole");
            let fs = mounted(&region);
            let told = Arc::new(Mutex::new(String::new()));
            let listener = Arc::clone(&told);
            fs.listen(Box::new(move |what| listener.lock().expect("one thread").push_str(what)));
            assert!(told.lock().expect("one thread").contains("nothing is lost"), "{what}");
            assert_eq!(observe(&*fs).expect("a sound tree"), tree, "{what}");
            fs.unmount().expect("unmount");
            // A repair makes it void instead.
            let (region, tree) = unmounted();
            plant(&region);
            let storage = Storage::from(&region);
            assert!(!crest().format().repair(&storage).expect("repair").is_empty(), "{what}");
            assert!(!says_damaged(&fsck(&region)), "{what}");
            assert_eq!(crest().format().repair(&storage).expect("again"), Vec::<String>::new(), "{what}");
            assert_shows(&region, &tree);
        }
    });
}

/// Other code has a version of its own, or has changed the pool and left the index behind: neither is damage.
#[test]
fn an_index_of_other_code_or_of_an_earlier_state_is_left_alone() {
    virtually(1, || {
        let (region, tree) = unmounted();
        let (opening, at) = image_zone(&region);
        let superblock: Superblock = region.read(0).expect("a load");
        let len = region.load_u64(at + 32).expect("a load") as usize;
        let mut piece = vec![0; LINE + len];
        region.peek(at, &mut piece).expect("a load");
        piece[16] = 9;
        let seal = XxHash3_64::oneshot_with_seed(superblock.secret[0] ^ opening, &piece[8..]);
        piece[..8].copy_from_slice(&seal.to_le_bytes());
        region.store(at, &piece).expect("a store");
        let report = fsck(&region);
        assert_eq!((saved(&report), says_damaged(&report)), (None, false));
        assert_shows(&region, &tree);
        // As code does that knows of no index.
        let (region, _) = unmounted();
        let word = region.load_u64(CLEAN).expect("a load");
        let fs = mounted_with(&region, &[("without", "image")], None);
        fs.create(fs.root(), b"new", &NEW).expect("a new name");
        let tree = observe(&*fs).expect("a sound tree");
        fs.unmount().expect("unmount");
        region.store_u64(CLEAN, word).expect("a store");
        let report = fsck(&region);
        assert_eq!((&*report.violations, saved(&report)), (&[][..], None));
        assert_shows(&region, &tree);
    });
}

#[test]
fn without_the_part_nothing_is_saved_and_a_pool_that_is_too_full_has_no_index() {
    virtually(1, || {
        let (region, tree) = unmounted();
        let fs = mounted_with(&region, &[("without", "image")], None);
        fs.unmount().expect("unmount");
        assert_eq!(saved(&fsck(&region)), None);
        assert_shows(&region, &tree);
        assert!(saved(&fsck(&region)).is_some());
        let region = made(SMALL);
        let mut runner = Runner::new(mounted(&region));
        let names = (0..).map(|number| format!("{number:0>200}"));
        let full = names.map(Op::Create).find_map(|op| runner.run(&op).err());
        assert_eq!(full, Some(Errno::ENOSPC));
        let tree = observe(&*runner.fs).expect("a sound tree");
        runner.fs.unmount().expect("unmount");
        let report = fsck(&region);
        assert_eq!((saved(&report), says_damaged(&report)), (None, false));
        assert_shows(&region, &tree);
    });
}

#[test]
fn a_change_after_the_unmount_makes_the_index_void() {
    virtually(1, || {
        let (region, _) = unmounted();
        let fs = mounted(&region);
        fs.unmount().expect("unmount");
        fs.create(fs.root(), b"late", &NEW).expect("a new name");
        let tree = observe(&*fs).expect("a sound tree");
        drop(fs);
        assert_eq!(saved(&fsck(&region)), None);
        assert_shows(&region, &tree);
    });
}

#[test]
fn an_inode_that_was_taken_out_of_the_index_and_removed_does_not_come_back() {
    virtually(1, || {
        let (region, _) = unmounted();
        let fs = mounted(&region);
        let files = fs.statfs().expect("statfs");
        assert_eq!(files.files - files.files_free, INODES);
        let clone = fs.lookup(fs.root(), b"clone").expect("it is there").ino;
        fs.unlink(fs.root(), b"clone").expect("it is there");
        assert_eq!(fs.getattr(clone).err(), Some(Errno::ENOENT));
        assert_eq!(
            fs.setattr(clone, &SetAttr { size: Some(0), ..SetAttr::default() }).err(),
            Some(Errno::ENOENT)
        );
        let files = fs.statfs().expect("statfs");
        assert_eq!(files.files - files.files_free, INODES - 1);
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

/// The crash explorer finds an index that outlives a change, in a program of a few calls.
#[test]
fn the_crash_explorer_finds_an_index_that_is_not_made_void() {
    let core = vec![Op::Remount, Op::Create("bar".into()), Op::Unlink("link".into())];
    let program = Program::new("remount, change", files(), core);
    let sound = subject("crest", &[]);
    let tally = explore(&sound, &program, &Effort::usual(SEED, 4), &[]);
    println!("{} points, {} images, {} nested", tally.points, tally.distinct_images, tally.nested_images);
    assert_eq!(tally.violations.len(), 0, "{:?}", tally.violations);
    let small = harness::checking("crest").small;
    let flawed = Subject { design: with_mutant("crest", small, mutant::IMAGE_NOT_VOIDED), ..sound };
    assert!(!explore(&flawed, &program, &Effort::usual(SEED, 0), &[]).violations.is_empty());
}
