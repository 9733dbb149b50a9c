//! Is all work charged that a call does? Debug builds count allocations, bytes under checksums, hashes, visited nodes and handles
//! as they happen, apart from what is charged for them ([`sim::ran`]). A call that did more of a kind than it was charged for
//! fails, with its name. Release builds count nothing, and the tests say there that they are skipped.
//!
//! All designs of the table are covered, each call by itself, and of each call what the front end does beside the design.

mod front;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use check::configured::region;
use sim::ran::{CountingAllocator, Tally};
use sim::{Bytes, Machine, Seed, Setup, Work};
use vfs::{FileSystem, Ino, IoFlags, NewInode, OpenFlags, RenameFlags, SetAttr, XattrMode};

use crate::shared::harness::{names, small};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const NEW: NewInode = NewInode { perm: 0o644, owner: vfs::Owner { uid: 0, gid: 0 } };
/// Often enough that tables grow, logs get pages and are cleaned, and blocks are freed and taken again.
const ROUNDS: u64 = 40;

/// What one call did and was charged.
type Seen = (&'static str, Tally);

/// Charges that are left out: of this kind all, or the one before which so many come.
type LeftOut = Option<(Work, Option<u64>)>;

/// The calls of a design, each measured by itself.
struct Calls<'a> {
    fs: &'a dyn FileSystem,
    seen: Vec<Seen>,
}

impl Calls<'_> {
    fn call<T>(&mut self, name: &'static str, body: impl FnOnce(&dyn FileSystem) -> vfs::Result<T>) -> T {
        let before = Tally::of_task();
        let value = body(self.fs);
        self.seen.push((name, Tally::of_task().since(&before)));
        value.unwrap_or_else(|errno| panic!("{name}: {errno}"))
    }

    /// One of each call, in a directory that grows.
    fn round(&mut self, dir: Ino, round: u64) {
        let name = |kind: &str| format!("{kind} number {round} of them").into_bytes();
        let (file, other, link, symlink) = (name("file"), name("other"), name("link"), name("symlink"));
        let ino = self.call("create", |fs| fs.create(dir, &file, &NEW)).ino;
        self.call("open", |fs| fs.open(ino, OpenFlags::READ | OpenFlags::WRITE));
        self.contents(ino);
        self.call("stat", |fs| fs.getattr(ino));
        self.call("lookup", |fs| fs.lookup(dir, &file));
        self.call("truncate", |fs| fs.setattr(ino, &SetAttr { size: Some(100), ..SetAttr::default() }));
        self.call("chmod", |fs| fs.setattr(ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() }));
        self.attributes(ino, &name("value"));
        self.call("link", |fs| fs.link(ino, dir, &link));
        self.call("release", |fs| {
            fs.release(ino);
            Ok(())
        });
        let target = self.call("symlink", |fs| fs.symlink(dir, &symlink, &file, &NEW)).ino;
        self.call("readlink", |fs| fs.readlink(target));
        self.call("rename", |fs| fs.rename((dir, &file), (fs.root(), &other), RenameFlags::empty().into()));
        self.directory(dir, &name("directory"));
        self.call("unlink", |fs| fs.unlink(dir, &link));
        if round.is_multiple_of(2) {
            self.call("unlink of the last name", |fs| fs.unlink(fs.root(), &other));
        }
        self.call("statfs", |fs| fs.statfs());
        self.call("sync", |fs| fs.sync());
    }

    fn contents(&mut self, ino: Ino) {
        let data = vec![7; 9000];
        let mut buffer = vec![0; 8192];
        let none = IoFlags::empty();
        self.call("write", |fs| fs.write(ino, 0, &data[..5000], none));
        self.call("append", |fs| fs.write(ino, 0, &data, IoFlags::APPEND));
        self.call("overwrite", |fs| fs.write(ino, 100, &data[..4096], none));
        self.call("write far", |fs| fs.write(ino, 4 << 20, &data[..100], none));
        self.call("fsync", |fs| fs.fsync(ino, false));
        self.call("write synchronously", |fs| fs.write(ino, 4096, &data[..4096], IoFlags::SYNC));
        self.call("read", |fs| fs.read(ino, 0, &mut buffer, none));
        self.call("read a hole", |fs| fs.read(ino, 1 << 20, &mut buffer, none));
    }

    fn attributes(&mut self, ino: Ino, value: &[u8]) {
        if self.fs.listxattr(ino) == Err(vfs::Errno::EOPNOTSUPP) {
            return;
        }
        self.call("setxattr", |fs| fs.setxattr(ino, b"user.name", value, XattrMode::Set));
        self.call("setxattr", |fs| fs.setxattr(ino, b"user.other", value, XattrMode::Set));
        self.call("getxattr", |fs| fs.getxattr(ino, b"user.name"));
        self.call("listxattr", |fs| fs.listxattr(ino));
        self.call("removexattr", |fs| fs.removexattr(ino, b"user.other"));
    }

    fn directory(&mut self, dir: Ino, name: &[u8]) {
        self.call("mkdir", |fs| fs.mkdir(dir, name, &NEW));
        self.call("readdir", |fs| fs.readdir(dir, 0, &mut |_| true));
        self.call("rmdir", |fs| fs.rmdir(dir, name));
    }
}

/// What `body` finds of a mounted design, as a task of a virtual run without prices.
fn on_design<T: Send + 'static>(
    name: &'static str,
    body: impl FnOnce(Arc<dyn FileSystem>) -> T + Send + 'static,
) -> T {
    let found = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), move || {
        let (design, region) = (small(name), region(Bytes::mib(64)));
        design.mkfs(&region).expect("mkfs");
        body(design.mount(&region).expect("mount"))
    });
    found.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn leaving_out<T>(left_out: LeftOut, body: impl FnOnce() -> T) -> T {
    match left_out {
        Some((kind, after)) => sim::ran::omitting(kind, after, body),
        None => body(),
    }
}

/// All calls of a design in so many rounds.
fn calls_of(name: &'static str, rounds: u64, left_out: LeftOut) -> Vec<Seen> {
    on_design(name, move |fs| {
        let mut calls = Calls { fs: &*fs, seen: Vec::new() };
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        leaving_out(left_out, || (0..rounds).for_each(|round| calls.round(dir, round)));
        let seen = calls.seen;
        fs.unmount().expect("unmount");
        seen
    })
}

/// "nova: create: alloc", with the counts that are farthest apart; once for each call and kind.
fn forgotten(name: &str, seen: &[Seen]) -> Vec<String> {
    let mut worst: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for (call, tally) in seen {
        for one in tally.forgotten() {
            let most = worst.entry((*call, one.kind.key())).or_default();
            if one.done - one.charged > most.0 - most.1 {
                *most = (one.done, one.charged);
            }
        }
    }
    let line = |((call, kind), (done, charged)): (&(&str, &str), &(u64, u64))| {
        format!("{name}: {call}: {kind}: {done} done, {charged} charged")
    };
    worst.iter().map(line).collect()
}

/// Debug assertions are what counts; without them the tests of this module have nothing to look at.
fn is_skipped() -> bool {
    if !cfg!(debug_assertions) {
        println!("skipped: a build without debug assertions counts no work");
    }
    !cfg!(debug_assertions)
}

fn assert_all_charged(lines: &[String]) {
    assert!(lines.is_empty(), "work that is not charged:\n  {}", lines.join("\n  "));
}

#[test]
fn every_call_of_every_design_is_charged_for_the_work_that_it_does() {
    if !is_skipped() {
        let lines = names().flat_map(|name| forgotten(name, &calls_of(name, ROUNDS, None)));
        assert_all_charged(&lines.collect::<Vec<_>>());
    }
}

#[test]
fn the_front_end_is_charged_for_what_it_does_beside_a_design() {
    if !is_skipped() {
        let lines = ["pmfs", "redo"].map(|name| forgotten("vfs", &front::calls_above(name, ROUNDS, None)));
        assert_all_charged(&lines.concat());
    }
}

/// The counts are of something: each design gets memory, and each but the plain ext2 has what it is known for.
#[test]
fn what_designs_are_known_to_do_is_counted() {
    if is_skipped() {
        return;
    }
    for (name, kinds) in [
        ("pmfs", &[Work::ALLOC, Work::HASH, Work::NODE, Work::HANDLE][..]),
        ("nova", &[Work::ALLOC, Work::HASH, Work::NODE, Work::CHECKSUM, Work::HANDLE]),
        ("redo", &[Work::ALLOC, Work::NODE, Work::CHECKSUM]),
        ("ext4", &[Work::ALLOC, Work::HASH, Work::NODE, Work::CHECKSUM, Work::HANDLE]),
    ] {
        let seen = calls_of(name, 2, None);
        for kind in kinds {
            let done: u64 = seen.iter().map(|(_, tally)| tally.done(*kind)).sum();
            assert!(done > 0, "{name} does no {}", kind.key());
        }
    }
}

/// The canary: charges of one kind left out are found, as that kind and no other, in every design that does it.
#[test]
fn a_kind_that_is_not_charged_is_found_by_its_name() {
    if is_skipped() {
        return;
    }
    for name in names() {
        let sound = calls_of(name, 2, None);
        for kind in [Work::ALLOC, Work::HASH, Work::NODE, Work::CHECKSUM, Work::HANDLE] {
            let kinds_of = |seen: &[Seen]| -> BTreeSet<&str> {
                seen.iter().flat_map(|(_, tally)| tally.forgotten()).map(|one| one.kind.key()).collect()
            };
            let does = sound.iter().any(|(_, tally)| tally.done(kind) > 0);
            let found = kinds_of(&calls_of(name, 2, Some((kind, None))));
            let expected = does.then(|| kind.key());
            assert_eq!(found, expected.into_iter().collect(), "{name} without charges of {}", kind.key());
        }
    }
    let lines = forgotten("nova", &calls_of("nova", 2, Some((Work::ALLOC, None))));
    assert!(lines.iter().any(|line| line.starts_with("nova: create: alloc: ")), "{lines:?}");
    let lines = forgotten("vfs", &front::calls_above("pmfs", 2, Some((Work::ALLOC, None))));
    assert!(lines.iter().any(|line| line.starts_with("vfs: mkdir: alloc: ")), "{lines:?}");
}

/// The canary of single charges: PMFS and NOVA get memory and are charged for just that, so each charge that is left out is found.
#[test]
fn one_charge_for_memory_that_is_left_out_is_found() {
    if is_skipped() {
        return;
    }
    for name in ["pmfs", "nova"] {
        let sound = calls_of(name, 1, None);
        let charged: u64 = sound.iter().map(|(_, tally)| tally.charged(Work::ALLOC)).sum();
        let done: u64 = sound.iter().map(|(_, tally)| tally.done(Work::ALLOC)).sum();
        assert_eq!(done, charged, "{name}: no charge hides behind another");
        for after in 0..charged {
            let lines = forgotten(name, &calls_of(name, 1, Some((Work::ALLOC, Some(after)))));
            assert_eq!(lines.len(), 1, "{name} without its charge {after} of {charged}: {lines:?}");
        }
    }
}

/// The count and the charge of a CRC are in one function, so a design that calls the library has neither.
#[test]
fn only_one_file_calls_the_library_of_crc_32c() {
    fn calls(folder: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                calls(&path, found);
            } else if std::fs::read_to_string(&path).expect("text").contains(" crc32c::crc32c") {
                found.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    for part in ["fs", "base", "ext4", "crest", "squirrelfs", "wofs", "linux"] {
        calls(
            &std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(part).join("src"),
            &mut found,
        );
    }
    assert_eq!(found, ["checksum.rs"]);
}

/// Prices are off in a machine that names none; with them a call takes longer by what it is charged.
#[test]
fn prices_of_this_work_add_to_the_time_of_a_call_and_without_them_none_passes() {
    let time_of = |ps: u64| {
        let mut machine = Machine { work_ps: [0; Work::MAX], ..Machine::unit() };
        machine.work_ps[Work::ALLOC.index()] = ps;
        let run = sim::run(&Setup::virtual_clock(machine, Seed(1)), || {
            let (design, region) = (small("nova"), region(Bytes::mib(16)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let (start, before) = (sim::now(), Tally::of_task());
            fs.create(fs.root(), b"file", &NEW).expect("create");
            let tally = Tally::of_task().since(&before);
            (sim::now() - start, tally.charged(Work::ALLOC))
        });
        run.expect("runs")
    };
    let ((off, _), (on, blocks)) = (time_of(0), time_of(1_000_000));
    assert!(off < sim::Nanos(1_000), "{off}");
    if !is_skipped() {
        assert_eq!(on, off + sim::Nanos(1_000 * blocks));
    }
}

/// Designs that keep the names of a directory in DRAM.
const WITH_INDEX: [&str; 8] = ["pmfs", "hinfs", "nova", "rcache", "redo", "squirrelfs", "wofs", "crest"];

/// The designs in which `call` waits for fewer than `least` lines of memory, behind 40 files that are made in the root.
fn waits_for_fewer(least: u64, call: fn(&dyn FileSystem, Ino)) -> Vec<&'static str> {
    const MISS_PS: u64 = 1_000_000;
    let time_of = |name: &'static str, ps: u64| {
        let mut machine = Machine { work_ps: [0; Work::MAX], ..Machine::unit() };
        machine.work_ps[Work::MISS.index()] = ps;
        let run = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
            let (design, region) = (small(name), region(Bytes::mib(64)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            for number in 0..40 {
                fs.create(fs.root(), format!("file {number}").as_bytes(), &NEW).expect("create");
            }
            let last = fs.lookup(fs.root(), b"file 39").expect("lookup");
            // What was used is in no cache any more.
            sim::copy(2 * Machine::unit().cache.0);
            let start = sim::now();
            call(&*fs, last.ino);
            sim::now() - start
        });
        run.expect("runs")
    };
    let waits = |name| (time_of(name, MISS_PS) - time_of(name, 0)).0 * 1000 / MISS_PS;
    WITH_INDEX.into_iter().filter(|name| waits(name) < least).collect()
}

#[test]
fn an_inode_that_was_not_used_for_long_is_waited_for_in_each_design() {
    assert_eq!(waits_for_fewer(2, |fs, ino| _ = fs.getattr(ino).expect("getattr")), [""; 0]);
}

#[test]
fn a_look_up_of_a_name_waits_for_memory_in_each_design_that_has_an_index() {
    assert_eq!(waits_for_fewer(1, |fs, _| _ = fs.lookup(fs.root(), b"file 7").expect("lookup")), [""; 0]);
}
