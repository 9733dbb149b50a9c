//! Growth of a file system: it has the space afterwards, loses nothing, and a crash leaves one size or the other.

use crate::shared::harness;
use std::collections::HashSet;
use std::sync::Arc;

use crate::shared::harness::virtually;
use check::tree::without_times;
use check::{File, Op, Pattern, Runner, Tree, observe};
use design::{Design, FsError};
use media::Storage;
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Mode, Plan, Scratch, Trace};
use sim::{Bytes, Seed};
use vfs::{FileSystem, IoFlags, NewInode, Owner};

const SMALL: Bytes = Bytes::mib(4);
const LARGE: Bytes = Bytes::mib(12);
fn design(name: &str) -> &'static dyn Design {
    fs::by_name(name).expect("a design")
}

/// The designs on memory that can grow, or those that cannot.
fn names(that_grow: bool) -> impl Iterator<Item = &'static str> {
    let grows = |name: &&str| {
        let (design, region) = (design(name), harness::region(LARGE));
        let grown = virtually(1, move || {
            let options = harness::options(design, design.checking().small);
            design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
            design.format().grow(&Storage::from(&region))
        });
        !matches!(grown, Err(FsError::NoGrowth { .. }))
    };
    harness::names().filter(|name| harness::is_in_memory(name)).filter(move |name| grows(name) == that_grow)
}

fn mount(name: &str, options: &[(&str, &str)], region: &Arc<Region>) -> Arc<dyn FileSystem> {
    let design = design(name);
    design.mount(&Storage::from(region), &harness::options(design, options)).expect("it can be mounted")
}

/// A small file system with some files, in a region that is larger.
fn small_in_large(name: &str, options: &[(&str, &str)]) -> (Arc<Region>, Tree) {
    let region = harness::region(SMALL);
    let (design, given) = (design(name), harness::options(design(name), options));
    design.format().mkfs(&Storage::from(&region), &given).expect("mkfs");
    let fs = mount(name, options, &region);
    let mut runner = Runner::new(Arc::clone(&fs));
    let write = |path: &str, len, tag| Op::Write(File::At(path.into()), Some(0), Pattern { len, tag });
    let ops = [
        Op::Mkdir("dir".into()),
        Op::Create("dir/file".into()),
        write("dir/file", 70_000, 1),
        Op::Create("small".into()),
        write("small", 10, 2),
    ];
    for op in ops {
        runner.run(&op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
    }
    let tree = without_times(observe(&*fs).expect("a sound tree"));
    fs.unmount().expect("unmount");
    let (large, mut bytes) = (harness::region(LARGE), vec![0; SMALL.0 as usize]);
    region.peek(0, &mut bytes).expect("a load");
    large.store(0, &bytes).expect("a store");
    (large, tree)
}

fn blocks(fs: &dyn FileSystem) -> u64 {
    fs.statfs().expect("space").blocks * 4096
}

/// It has its files. Answers whether it has grown.
fn look_at(name: &str, options: &[(&str, &str)], region: &Arc<Region>, tree: &Tree) -> bool {
    let fs = mount(name, options, region);
    assert_eq!(without_times(observe(&*fs).expect("a sound tree")), *tree, "{name}");
    let has_grown = blocks(&*fs) > SMALL.0;
    fs.unmount().expect("unmount");
    has_grown
}

/// The same; if it has grown, a file fits in that did not before.
fn use_it(name: &str, options: &[(&str, &str)], region: &Arc<Region>, tree: &Tree) -> bool {
    let has_grown = look_at(name, options, region, tree);
    let fs = mount(name, options, region);
    if has_grown {
        let new = NewInode { perm: 0o600, owner: Owner::default() };
        let ino = fs.create(fs.root(), b"large", &new).expect("a file").ino;
        for offset in (0..2 * SMALL.0 - (1 << 20)).step_by(1 << 20) {
            let written = fs.write(ino, offset, &vec![7; 1 << 20], IoFlags::empty());
            assert_eq!(written.map(|written| written.bytes), Ok(1 << 20), "{name}: at {offset}");
        }
    }
    fs.unmount().expect("unmount");
    has_grown
}

fn check(name: &str, region: &Arc<Region>) {
    assert_eq!(design(name).format().fsck(&Storage::from(region)).violations, [], "{name}");
}

#[test]
fn a_file_system_that_grew_has_the_space_and_all_files() {
    for (name, options) in names(true).map(|name| (name, harness::checking(name).small)) {
        virtually(1, move || {
            let (region, tree) = small_in_large(name, options);
            let grow = || design(name).format().grow(&Storage::from(&region)).expect("it can grow");
            assert_eq!((grow(), grow()), (SMALL, LARGE), "{name}");
            check(name, &region);
            assert!(use_it(name, options, &region, &tree), "{name}");
            check(name, &region);
        });
    }
}

#[test]
fn a_crash_of_the_growth_leaves_one_size_or_the_other() {
    for (name, options) in names(true).map(|name| (name, harness::checking(name).small)) {
        virtually(1, move || {
            let (region, tree) = small_in_large(name, options);
            let trace = Trace::attach(&region).expect("a recorder");
            design(name).format().grow(&Storage::from(&region)).expect("it can grow");
            region.detach(&trace);
            let mut replay = trace.replay(Mode::Adr);
            let few = Plan { exhaustive_max: 16, pair_units_max: 0, draws: 4, seed: Seed(3) };
            let (mut tried, mut sizes) = (HashSet::new(), HashSet::new());
            let mut scratch = Scratch::new(LARGE, Box::new(Null)).expect("memory");
            while replay.next_point(|_, _| ()).is_some() {
                let point = replay.state().crash_point();
                for image in point.choices(&few).iter().map(|choice| point.image(choice)) {
                    if !tried.insert(image.fingerprint()) {
                        continue;
                    }
                    let region = Arc::clone(scratch.load(&image).expect("an image"));
                    design(name).format().recover(&Storage::from(&region)).expect("it can be recovered");
                    sizes.insert(use_it(name, options, &region, &tree));
                    let region = Arc::clone(scratch.load(&image).expect("an image"));
                    // A crash may have torn the redundant superblock, which the repetition writes again.
                    design(name).format().grow(&Storage::from(&region)).expect("it can be tried again");
                    check(name, &region);
                    assert!(use_it(name, options, &region, &tree), "{name}");
                }
            }
            assert_eq!(sizes, HashSet::from([false, true]), "{name}: {} images", tried.len());
        });
    }
}

#[test]
fn a_design_that_cannot_grow_says_what_to_do() {
    for name in names(false) {
        let error =
            design(name).format().grow(&Storage::from(&harness::region(SMALL))).expect_err("it cannot");
        let FsError::NoGrowth { design, advice } = &error else { panic!("{name}: {error}") };
        assert!(*design == name && !advice.is_empty(), "{error}");
    }
}

/// All bytes of a region, in one of another size.
fn in_region_of(region: &Region, size: Bytes) -> Arc<Region> {
    let (other, mut bytes) = (harness::region(size), vec![0; region.len().min(size.0) as usize]);
    region.peek(0, &mut bytes).expect("a load");
    other.store(0, &bytes).expect("a store");
    other
}

/// A crest pool of 12 MiB that has grown from 4, with so many more files, and what it shows. `fills`: one reaches behind 4 MiB.
fn grown(fills: bool, files: u32) -> (Arc<Region>, Tree) {
    let options = harness::checking("crest").small;
    let (region, _) = small_in_large("crest", options);
    design("crest").format().grow(&Storage::from(&region)).expect("it can grow");
    let fs = mount("crest", options, &region);
    // Records go to the last free zones, so that some lie behind the end.
    for number in 0..files {
        let new = NewInode { perm: 0o600, owner: Owner::default() };
        fs.create(fs.root(), format!("file {number}").as_bytes(), &new).expect("a file");
    }
    let ino = fs.lookup(fs.root(), b"small").expect("it is there").ino;
    let len = if fills { 6 << 20 } else { 1 << 20 };
    fs.write(ino, 0, &vec![9; len], IoFlags::empty()).expect("a write");
    let tree = without_times(observe(&*fs).expect("a sound tree"));
    fs.unmount().expect("unmount");
    (region, tree)
}

fn shrink(region: &Arc<Region>, size: Bytes) -> Result<Bytes, FsError> {
    design("crest").format().shrink(&Storage::from(region), size)
}

#[test]
fn crest_shrinks_where_no_file_is_in_the_way_and_says_how_much_is() {
    virtually(1, || {
        let options = harness::checking("crest").small;
        let (region, tree) = grown(false, 200);
        assert_eq!(shrink(&region, SMALL).expect("nothing is in the way"), LARGE);
        check("crest", &region);
        // The rest is cut off.
        let small = in_region_of(&region, SMALL);
        check("crest", &small);
        assert!(!look_at("crest", options, &small, &tree));
        // It grows again, over what was there.
        let large = in_region_of(&small, LARGE);
        assert_eq!(design("crest").format().grow(&Storage::from(&large)).expect("it can grow"), SMALL);
        assert!(look_at("crest", options, &large, &tree));
        let (region, tree) = grown(true, 200);
        let refused = shrink(&region, SMALL).expect_err("a file is in the way");
        let FsError::NoShrink { why } = &refused else { panic!("{refused}") };
        assert!(why.contains("MiB of files") && why.contains("behind 4 MiB"), "{why}");
        check("crest", &region);
        assert!(look_at("crest", options, &region, &tree), "it has its size and its files");
        let refused = shrink(&region, Bytes::kib(64)).expect_err("too small").to_string();
        assert!(refused.contains("2 shards need 32 zones"), "{refused}");
    });
}

#[test]
fn crest_grows_to_eight_times_its_first_size_and_a_design_that_cannot_shrink_says_so() {
    let others: Vec<_> = names(true).filter(|name| *name != "crest").collect();
    virtually(1, move || {
        let format = design("crest").format();
        let region = harness::region(SMALL);
        format.mkfs(&Storage::from(&region), &harness::options(design("crest"), &[])).expect("mkfs");
        let most = format.grows_to(&Storage::from(&region)).expect("a pool").expect("a limit");
        assert!((8 * SMALL.0..9 * SMALL.0).contains(&most.0), "{most}");
        let larger = in_region_of(&region, Bytes(most.0 + 4096));
        let refused = format.grow(&Storage::from(&larger)).expect_err("the table has no room");
        assert!(matches!(refused, FsError::TooLarge { .. }), "{refused}");
        let larger = in_region_of(&region, most);
        assert_eq!(format.grow(&Storage::from(&larger)).expect("the table has room"), SMALL);
        check("crest", &larger);
        mount("crest", &[], &larger).unmount().expect("unmount");
        for name in others {
            let refused = design(name).format().shrink(&Storage::from(&region), Bytes::mib(1));
            let refused = refused.expect_err("it cannot").to_string();
            assert!(refused.contains("never made smaller") && refused.contains("weir mkfs"), "{refused}");
        }
    });
}

#[test]
fn a_crash_while_crest_shrinks_leaves_one_size_or_the_other() {
    virtually(1, || {
        let options = harness::checking("crest").small;
        let (region, tree) = grown(false, 12);
        let trace = Trace::attach(&region).expect("a recorder");
        shrink(&region, SMALL).expect("nothing is in the way");
        region.detach(&trace);
        let mut replay = trace.replay(Mode::Adr);
        let few = Plan { exhaustive_max: 8, pair_units_max: 0, draws: 3, seed: Seed(4) };
        let (mut tried, mut sizes) = (HashSet::new(), HashSet::new());
        let mut scratch = Scratch::new(LARGE, Box::new(Null)).expect("memory");
        let mut ended = false;
        while !ended {
            ended = replay.next_point(|_, _| ()).is_none();
            let point = replay.state().crash_point();
            for image in point.choices(&few).iter().map(|choice| point.image(choice)) {
                if !tried.insert(image.fingerprint()) {
                    continue;
                }
                let region = Arc::clone(scratch.load(&image).expect("an image"));
                check("crest", &region);
                sizes.insert(look_at("crest", options, &region, &tree));
                let region = Arc::clone(scratch.load(&image).expect("an image"));
                shrink(&region, SMALL).expect("it can be tried again");
                let small = in_region_of(&region, SMALL);
                check("crest", &small);
                assert!(!look_at("crest", options, &small, &tree));
            }
        }
        assert_eq!(sizes, HashSet::from([false, true]), "{} images", tried.len());
    });
}

/// A mount of a pool whose file has grown uses it, if it is told to.
#[test]
fn crest_grows_at_a_mount_that_is_told_to() {
    virtually(1, || {
        let options = harness::checking("crest").small;
        let (region, tree) = small_in_large("crest", options);
        assert!(!use_it("crest", options, &region, &tree));
        assert!(use_it("crest", &[options, &[("grow", "true")]].concat(), &region, &tree));
        check("crest", &region);
    });
}
