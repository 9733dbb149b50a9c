//! Parity of log zones: damage to a full zone is computed, and what cannot be computed is refused, never an older tree.

use std::sync::{Arc, Mutex};

use check::crash::programs::{self, Program};
use check::crash::{Effort, Subject, explore};
use check::faults::{Kind, fail_many};
use check::{File, Limits, Op, Pattern, Runner, Tree, observe};
use design::{FsError, FsckReport, Mutant};
use fs::crest::format::layout::{Geometry, LINE, Superblock};
use fs::crest::format::mutant;
use fs::crest::format::zone::{Use, Word};
use media::Storage;
use media::fault::Fault;
use media::nvmm::Region;
use rand::RngExt;
use sim::{Bytes, Seed};
use vfs::FileSystem;

use super::mount::{cost, crest};
use super::saved::crashes;
use crate::shared::harness::{self, Given, subject, virtually};

const SEED: u64 = 20_261_129;
const PARITY: Given<'static> = &[("parity", "true"), ("shards", "1")];
/// 31 zones of 16 KiB: 240 lines for records, one for the head, 15 columns.
const SMALL: Bytes = Bytes::kib(512);
const COLUMNS: u32 = 15;

fn options(mutant: Option<Mutant>) -> design::Options {
    let options = harness::options(crest(), PARITY);
    match mutant {
        Some(mutant) => options.with_mutant(mutant),
        None => options,
    }
}

fn made(size: Bytes) -> Arc<Region> {
    let region = harness::region(size);
    crest().format().mkfs(&Storage::from(&region), &options(None)).expect("mkfs");
    region
}

fn mount(region: &Arc<Region>, mutant: Option<Mutant>) -> Result<Arc<dyn FileSystem>, FsError> {
    crest().mount(&Storage::from(region), &options(mutant))
}

fn fsck(region: &Arc<Region>) -> FsckReport {
    crest().format().fsck(&Storage::from(region))
}

fn run(runner: &mut Runner, ops: impl IntoIterator<Item = Op>) {
    for op in ops {
        runner.run(&op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
    }
}

/// What a mount tells.
fn told(fs: &dyn FileSystem) -> String {
    let told = Arc::new(Mutex::new(String::new()));
    let listener = Arc::clone(&told);
    fs.listen(Box::new(move |what| listener.lock().expect("one thread").push_str(what)));
    let told = told.lock().expect("one thread");
    told.clone()
}

/// Records of one line and of several, groups, and a few that are dead.
fn changes(round: usize) -> Vec<Op> {
    let file = format!("file {round}");
    let at = || File::At(file.clone());
    vec![
        Op::Create(file.clone()),
        Op::Write(at(), Some(0), Pattern { len: 9000, tag: round as u8 }),
        Op::Write(at(), Some(100), Pattern { len: 500, tag: 1 + round as u8 }),
        Op::SetXattr(file.clone(), "user.a".into(), Pattern { len: 900, tag: 2 }, vfs::XattrMode::Set),
        Op::Chmod(file.clone(), 0o600 + (round % 8) as u32),
        Op::Symlink(format!("link {round}"), 60),
        Op::Rename(file.clone(), format!("{round:0>100}"), vfs::RenameFlags::empty()),
        Op::Truncate(File::At(format!("{round:0>100}")), 5000),
    ]
}

/// A pool with a full zone and one that the unmount has ended, and its tree.
fn unmounted() -> (Arc<Region>, Tree) {
    let region = made(SMALL);
    let mut runner = Runner::new(mount(&region, None).expect("mount"));
    // A record of 127 lines, which has several lines in each column.
    let long = Pattern { len: 7900, tag: 9 };
    run(&mut runner, [Op::Create("long".into())]);
    run(&mut runner, [Op::SetXattr("long".into(), "user.l".into(), long, vfs::XattrMode::Set)]);
    run(&mut runner, (0..8).flat_map(changes));
    let tree = observe(&*runner.fs).expect("a sound tree");
    runner.fs.unmount().expect("unmount");
    (region, tree)
}

fn copy(region: &Arc<Region>) -> Arc<Region> {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).expect("a load");
    let copy = harness::region(Bytes(region.len()));
    copy.store(0, &bytes).expect("a store");
    copy
}

/// The log zones with their lines of records.
fn zones(region: &Arc<Region>) -> Vec<(u32, u32)> {
    let geometry = geometry(region);
    let word = |zone: u32| Word::unpack(zone, region.load_u64(geometry.words_at(zone)[0]).expect("a load"));
    let logs = (0..geometry.zones).filter(|zone| word(*zone).is_some_and(|word| word.usage == Use::Log));
    let end = |zone: u32| {
        let head = geometry.zone_at(zone) + u64::from(geometry.record_lines()) * LINE as u64;
        region.load_u32(head + 24).expect("a load")
    };
    logs.map(|zone| (zone, end(zone))).collect()
}

fn geometry(region: &Arc<Region>) -> Geometry {
    Geometry::of(&region.read::<Superblock>(0).expect("a load"))
}

fn at(region: &Arc<Region>, (zone, line): (u32, u32)) -> u64 {
    geometry(region).zone_at(zone) + u64::from(line) * LINE as u64
}

/// Gives a line other bytes.
fn flip(region: &Arc<Region>, line: (u32, u32)) {
    let at = at(region, line) + 8 * u64::from(line.1 % 8);
    let word = region.load_u64(at).expect("a load");
    region.store_u64(at, word ^ 0x11_0000).expect("a store");
}

fn poison(region: &Arc<Region>, line: (u32, u32)) {
    region.inject(Fault::Poison { offset: at(region, line) });
}

type Damage = fn(&Arc<Region>, (u32, u32));
const KINDS: [(&str, Damage); 2] = [("changed", flip), ("poisoned", poison)];

/// Whether a mount of a damaged pool shows the tree as it was, with what it tells; false: it is refused.
fn shows(region: &Arc<Region>, tree: &Tree, what: &str) -> Option<String> {
    match mount(region, None) {
        Ok(fs) => {
            assert!(observe(&*fs).expect("a tree") == *tree, "{what}: another tree");
            Some(told(&*fs))
        }
        Err(FsError::Damaged { .. }) => None,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn damage_to_any_line_of_a_full_zone_is_computed_and_told() {
    virtually(1, || {
        let (region, tree) = unmounted();
        let zones = zones(&region);
        assert!(zones.len() > 2 && zones.iter().all(|(_, end)| *end > 1), "{zones:?}");
        assert!(zones.iter().any(|(_, end)| *end > 200), "{zones:?}");
        assert!(shows(&region, &tree, "sound").is_some_and(|told| told.is_empty()));
        let (region, tree) = unmounted();
        for (zone, end) in zones {
            for (line, (kind, damage)) in (0..256).flat_map(|line| KINDS.map(|kind| (line, kind))) {
                let (region, what) = (copy(&region), format!("zone {zone}, line {line} {kind}"));
                damage(&region, (zone, line));
                let told = shows(&region, &tree, &what);
                let told = told.unwrap_or_else(|| panic!("{what}: refused"));
                assert_eq!(told.contains("nothing is lost"), line < end, "{what}: {told}");
                if line < end {
                    assert!(
                        told.contains(&format!("zone {zone}: 1 damaged lines, the first at {line}")),
                        "{told}"
                    );
                }
            }
        }
    });
}

#[test]
fn neighbouring_lines_as_many_as_there_are_columns_are_computed() {
    virtually(1, || {
        let (region, tree) = unmounted();
        for (zone, end) in zones(&region) {
            for (first, (kind, damage)) in (0..end).flat_map(|line| KINDS.map(|kind| (line, kind))) {
                let (region, what) = (copy(&region), format!("zone {zone}, from line {first} {kind}"));
                (first..(first + COLUMNS).min(end)).for_each(|line| damage(&region, (zone, line)));
                assert!(shows(&region, &tree, &what).is_some(), "{what}: refused");
            }
        }
    });
}

/// Lines at random, of which each column has one at most: those that cannot be read are always computed.
#[test]
fn scattered_lines_are_computed_or_refused() {
    virtually(1, || {
        let (region, tree) = unmounted();
        let mut rng = Seed(SEED).rng();
        let (mut computed, mut tried) = ([0; 2], 0);
        for (zone, end) in zones(&region) {
            for round in 0..60 {
                let mut line =
                    |column| (rng.random_range(0..=end / COLUMNS) * COLUMNS + column, rng.random_range(0..3));
                let lines: Vec<u32> = (0..COLUMNS)
                    .map(&mut line)
                    .filter_map(|(line, pick)| (line < end && pick == 0).then_some(line))
                    .collect();
                let whole = (0..COLUMNS).find(|column| lines.iter().all(|line| line % COLUMNS != *column));
                for (kind, (name, damage)) in KINDS.iter().enumerate() {
                    let (region, what) = (copy(&region), format!("seed {SEED}, {round}: {lines:?} {name}"));
                    // Also a line of the parity, of a column that loses nothing.
                    for line in lines.iter().copied().chain(whole.map(|column| 241 + column)) {
                        damage(&region, (zone, line));
                    }
                    let is_computed = shows(&region, &tree, &what).is_some();
                    assert!(is_computed || *name == "changed", "{what}: refused");
                    computed[kind] += usize::from(is_computed);
                }
                tried += 1;
            }
        }
        println!("{computed:?} of {tried} sets of lines, changed and poisoned, were computed");
        assert!(computed[0] * 2 > tried, "{computed:?} of {tried}");
    });
}

#[test]
fn two_lines_of_one_column_are_refused_and_never_an_older_tree() {
    virtually(1, || {
        let (region, tree) = unmounted();
        for (zone, end) in zones(&region).into_iter().filter(|(_, end)| *end > COLUMNS) {
            for (line, (kind, damage)) in (0..end - COLUMNS).flat_map(|line| KINDS.map(|kind| (line, kind))) {
                let (region, what) = (copy(&region), format!("zone {zone}, line {line} and another {kind}"));
                damage(&region, (zone, line));
                damage(&region, (zone, line + COLUMNS));
                assert!(shows(&region, &tree, &what).is_none(), "{what}: mounted");
            }
        }
    });
}

#[test]
fn parity_that_is_torn_or_of_another_use_computes_nothing() {
    virtually(1, || {
        let (region, tree) = unmounted();
        let full = zones(&region).into_iter().max_by_key(|(_, end)| *end).expect("a zone");
        let head = geometry(&region).record_lines();
        for line in 2..full.1 {
            let column = head + 1 + line % COLUMNS;
            for (what, other) in [("a column", column), ("the head", head)] {
                let torn = copy(&region);
                torn.store(at(&torn, (full.0, other)), &[0; LINE]).expect("a store");
                assert!(shows(&torn, &tree, what).is_some(), "{what} alone loses nothing");
                let said = fsck(&torn).notes.iter().any(|note| note.contains("lines of its parity"));
                assert_eq!(said, other == column, "{what}: fsck names a column");
                let torn = copy(&region);
                torn.store(at(&torn, (full.0, other)), &[0; LINE]).expect("a store");
                flip(&torn, (full.0, line));
                // Without the head the loss of the last operation looks like a crash.
                let is_end = other == head && line + 3 >= full.1;
                assert!(is_end || shows(&torn, &tree, what).is_none(), "{what} and line {line}: mounted");
            }
        }
    });
}

/// Whether a pool of which zones are used again is sound at each moment of a churn, as a crash would leave it.
fn is_sound_while_zones_are_used_again(mutant: Option<Mutant>) -> bool {
    virtually(1, move || {
        let region = made(SMALL);
        let mut runner = Runner::new(mount(&region, None).expect("mount"));
        run(&mut runner, [Op::Create("file".into())]);
        let mut sound = true;
        for round in 0..140 {
            run(&mut runner, (0..61).map(|nth| Op::Chmod("file".into(), 0o600 + (round + nth) % 8)));
            let tree = observe(&*runner.fs).expect("a sound tree");
            let seen = mount(&copy(&region), mutant).map(|fs| observe(&*fs).expect("a tree"));
            sound &= seen.is_ok_and(|seen| seen == tree);
        }
        sound
    })
}

#[test]
fn the_parity_of_an_earlier_use_of_a_zone_is_none() {
    assert!(is_sound_while_zones_are_used_again(None));
    assert!(!is_sound_while_zones_are_used_again(Some(mutant::PARITY_UNSEALED)), "the mutant is not found");
}

/// How many crashes while a zone becomes full, and is left for another, leave a pool that is refused.
fn refused_after_crashes_of_a_full_zone(mutant: Option<Mutant>) -> usize {
    virtually(1, move || {
        let region = made(SMALL);
        let mut runner = Runner::new(mount(&region, mutant).expect("mount"));
        run(&mut runner, [Op::Create("file".into())]);
        let chmod = |nth: u32| Op::Chmod("file".into(), 0o600 + nth % 8);
        // An Open, a create of two lines: three lines are left.
        run(&mut runner, (0..234).map(chmod));
        let (mut refused, mut with_parity) = (0, 0);
        let images = crashes(
            &region,
            || run(&mut runner, (0..6).map(chmod)),
            |region| {
                let report = fsck(region);
                refused += usize::from(!report.violations.is_empty() || mount(region, None).is_err());
                let zones = report.checked.iter().find(|(what, _)| *what == "zones with parity");
                with_parity = with_parity.max(zones.expect("a pool with parity").1);
            },
        );
        println!("{images} images, {refused} refused, {with_parity} zones with parity in one");
        assert_eq!(with_parity, 2, "the first zone, and the one that became full");
        refused
    })
}

#[test]
fn a_crash_while_a_zone_ends_leaves_a_sound_pool() {
    assert_eq!(refused_after_crashes_of_a_full_zone(None), 0);
    let found = refused_after_crashes_of_a_full_zone(Some(mutant::PARITY_BEFORE_RECORDS));
    assert!(found > 0, "the mutant is not found");
}

#[test]
fn crashes_of_programs_leave_sound_pools() {
    let subject =
        Subject { size: SMALL, design: harness::with_options("crest", PARITY), ..subject("crest", &[]) };
    let mut all: Vec<Program> = programs::single().into_iter().step_by(5).collect();
    let core = (20..22).flat_map(changes).chain([Op::Remount, Op::Create("last".into())]).collect();
    all.push(Program::new("zones that end", (0..3).flat_map(changes).collect(), core));
    for program in all {
        let tally = explore(&subject, &program, &Effort::usual(SEED, 2), &[]);
        println!("{}: {} points, {} images", program.name, tally.points, tally.distinct_images);
        assert_eq!(tally.violations.len(), 0, "{}: {:?}", program.name, tally.violations);
    }
}

/// What the second mount after damage tells, where the first has changed something and was unmounted.
fn told_again(mutant: Option<Mutant>, damage: Damage) -> String {
    virtually(1, move || {
        let (region, _) = unmounted();
        let full = zones(&region).into_iter().max_by_key(|(_, end)| *end).expect("a zone");
        damage(&region, (full.0, 7));
        let mut runner = Runner::new(mount(&region, mutant).expect("it is computed"));
        run(&mut runner, changes(30));
        let tree = observe(&*runner.fs).expect("a sound tree");
        runner.fs.unmount().expect("unmount");
        let fs = mount(&region, None).expect("it is computed");
        assert_eq!(observe(&*fs).expect("a sound tree"), tree);
        told(&*fs)
    })
}

#[test]
fn a_mount_for_reading_computes_and_a_larger_pool_does() {
    virtually(1, || {
        let (region, tree) = unmounted();
        for (zone, _) in zones(&region) {
            let region = copy(&region);
            poison(&region, (zone, 1));
            let fs = crest().mount(&Storage::from(&region), &options(None).discarding()).expect("mount");
            assert_eq!(observe(&*fs).expect("a sound tree"), tree);
            assert!(told(&*fs).contains("nothing is lost"));
        }
        // Zones of 256 KiB: 255 columns, so that all lines of a record are of different ones.
        let region = made(Bytes::mib(64));
        let mut runner = Runner::new(mount(&region, None).expect("mount"));
        run(&mut runner, (0..100).flat_map(changes));
        let tree = observe(&*runner.fs).expect("a sound tree");
        runner.fs.unmount().expect("unmount");
        let (zone, end) = zones(&region).into_iter().max_by_key(|(_, end)| *end).expect("a zone");
        let columns = geometry(&region).columns().expect("a pool with parity");
        assert!(end > 2 * columns, "{end} lines, {columns} columns");
        let mut rng = Seed(SEED).rng();
        for (kind, damage) in KINDS {
            let (region, first) = (copy(&region), rng.random_range(0..end - columns));
            (first..first + columns).for_each(|line| damage(&region, (zone, line)));
            assert!(shows(&region, &tree, kind).is_some(), "seed {SEED}, {kind} from {first}: refused");
        }
    });
}

#[test]
fn a_saved_index_does_not_hide_damage() {
    for (kind, damage) in KINDS {
        assert!(told_again(None, damage).contains("nothing is lost"), "{kind}");
    }
    let hidden = told_again(Some(mutant::COMPUTED_THEN_SAVED), flip);
    assert!(!hidden.contains("nothing is lost"), "the mutant is not found");
}

#[test]
fn a_repair_moves_what_was_computed_and_the_cleaner_may() {
    virtually(1, || {
        for (kind, damage) in KINDS {
            let (region, tree) = unmounted();
            let lines: Vec<_> = zones(&region).into_iter().map(|(zone, _)| (zone, 1)).collect();
            for line in &lines {
                damage(&region, *line);
            }
            let report = fsck(&region);
            let named = report.violations.iter().filter(|one| one.predicate == "lines_as_written").count();
            assert_eq!((named, report.violations.len()), (lines.len(), lines.len()), "{kind}");
            let done = crest().format().repair(&Storage::from(&region)).expect("repair");
            assert!(done.iter().any(|what| what.starts_with("emptied")), "{kind}: {done:?}");
            assert_eq!(fsck(&region).violations, [], "{kind}");
            assert!(shows(&region, &tree, kind).is_some_and(|told| told.is_empty()), "{kind}");
            let mut all = vec![0; region.len() as usize];
            assert_eq!(region.load(0, &mut all), Ok(()), "{kind}: no line is left that cannot be read");
            // A mount that goes on and cleans.
            let (region, _) = unmounted();
            damage(&region, (0, 1));
            let mut runner = Runner::new(mount(&region, None).expect("it is computed"));
            run(&mut runner, (0..8000).map(|nth| Op::Chmod("long".into(), 0o600 + nth % 8)));
            let tree = observe(&*runner.fs).expect("a sound tree");
            runner.fs.unmount().expect("unmount");
            assert!(shows(&region, &tree, kind).is_some(), "{kind}");
        }
    });
}

/// A zone that a crash has left without parity gets it at the unmount of the next mount.
#[test]
fn zones_that_a_crash_has_left_get_parity_later() {
    virtually(1, || {
        let region = made(SMALL);
        let mut runner = Runner::new(mount(&region, None).expect("mount"));
        run(&mut runner, changes(1));
        drop(runner);
        let fs = mount(&region, None).expect("mount");
        let tree = observe(&*fs).expect("a sound tree");
        fs.unmount().expect("unmount");
        let zones = zones(&region);
        assert_eq!(zones.len(), 2);
        for (zone, end) in zones {
            for line in 0..end {
                let region = copy(&region);
                flip(&region, (zone, line));
                assert!(shows(&region, &tree, "changed").is_some(), "zone {zone}, line {line} of {end}");
            }
        }
    });
}

/// No call has another fence for it, and none but those that open a zone has other lines.
#[test]
fn calls_have_the_fences_and_lines_that_they_have_without() {
    let costs = |given: Given<'static>| {
        virtually(1, move || {
            let region = harness::region(SMALL);
            let options = harness::options(crest(), given);
            crest().format().mkfs(&Storage::from(&region), &options).expect("mkfs");
            let fs = crest().mount(&Storage::from(&region), &options).expect("mount");
            let names: Vec<String> = (0..300).map(|nth| format!("{nth}")).collect();
            let costs = names.iter().map(|name| cost(|| fs.create(fs.root(), name.as_bytes(), &check::NEW)));
            costs.collect::<Vec<_>>()
        })
    };
    let (with, without) = (costs(PARITY), costs(&PARITY[1..]));
    // Zones are full earlier with parity: other calls open one.
    let fences = |costs: &[(u64, u64)]| -> std::collections::BTreeSet<(bool, u64)> {
        costs.iter().skip(1).map(|(fences, lines)| (*lines > 2, *fences)).collect()
    };
    assert_eq!(fences(&with), fences(&without));
    let opens = |costs: &[(u64, u64)]| -> Vec<u64> {
        costs.iter().skip(1).map(|cost| cost.1).filter(|lines| *lines > 2).collect()
    };
    // 15 columns and the head.
    let more = opens(&without).iter().map(|lines| lines + 16).collect::<Vec<_>>();
    assert_eq!((opens(&with), more.len()), (more.clone(), 2), "lines of calls that open a zone");
}

#[test]
fn the_medium_may_refuse_any_store_while_a_zone_ends() {
    let subject =
        Subject { size: SMALL, design: harness::with_options("crest", PARITY), ..subject("crest", &[]) };
    let chmod = |nth: u32| Op::Chmod("file".into(), 0o600 + nth % 8);
    let setup = |len| std::iter::once(Op::Create("file".into())).chain((0..len).map(chmod)).collect();
    let program = |len| Program::new(format!("chmod {len}"), setup(len), vec![chmod(len)]);
    // The last line of a zone, then a call that opens another one.
    let programs: Vec<Program> = (236..239).map(program).collect();
    let tally = fail_many(&subject, &programs, (SEED, &Limits::default()), &|_| ());
    println!("{} failures {:?}, {:?}", tally.failures(), tally.injected, tally.outcomes);
    assert_eq!(tally.violations, []);
    // Three records, an Open, a word twice, the columns and the head.
    assert!(tally.injected[&Kind::Store] >= 8, "{:?}", tally.injected);
}

#[test]
fn a_pool_without_parity_is_as_before_and_one_with_it_is_refused_by_older_code() {
    virtually(1, || {
        let region = harness::region(SMALL);
        let options = harness::options(crest(), &[("shards", "1")]);
        crest().format().mkfs(&Storage::from(&region), &options).expect("mkfs");
        let superblock = region.read::<Superblock>(0).expect("a load");
        assert_eq!(superblock.incompat & fs::crest::format::layout::incompat::PARITY, 0);
        assert_eq!((geometry(&region).record_lines(), geometry(&region).columns()), (256, None));
        let with = geometry(&made(SMALL));
        assert_eq!((with.record_lines(), with.columns()), (240, Some(COLUMNS)));
    });
}
