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

/// It has its files, and if it has grown, a file fits in that did not before. Answers its size.
fn use_it(name: &str, options: &[(&str, &str)], region: &Arc<Region>, tree: &Tree) -> u64 {
    let fs = mount(name, options, region);
    assert_eq!(without_times(observe(&*fs).expect("a sound tree")), *tree, "{name}");
    let size = blocks(&*fs);
    if size > SMALL.0 {
        let new = NewInode { perm: 0o600, owner: Owner::default() };
        let ino = fs.create(fs.root(), b"large", &new).expect("a file").ino;
        for offset in (0..2 * SMALL.0 - (1 << 20)).step_by(1 << 20) {
            let written = fs.write(ino, offset, &vec![7; 1 << 20], IoFlags::empty());
            assert_eq!(written.map(|written| written.bytes), Ok(1 << 20), "{name}: at {offset}");
        }
    }
    fs.unmount().expect("unmount");
    size
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
            assert_eq!(use_it(name, options, &region, &tree), LARGE.0);
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
                    assert_eq!(use_it(name, options, &region, &tree), LARGE.0, "{name}");
                }
            }
            assert_eq!(sizes, HashSet::from([SMALL.0, LARGE.0]), "{name}: {} images", tried.len());
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
