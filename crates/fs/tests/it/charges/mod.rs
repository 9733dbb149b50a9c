//! Is every kind of work that a call does charged? Debug builds count allocations, bytes under checksums, visited nodes and
//! handles as they happen, and what was charged for each kind (`sim::ran`). A call that did what it charged nothing for fails, with
//! its name. Release builds count nothing: there these tests say that they are skipped.

use std::sync::Arc;

use media::nvmm::Region;
use sim::ran::{CountingAllocator, Tally};
use sim::{Bytes, Machine, Seed, Setup, Work};
use vfs::{FileSystem, Ino, IoFlags, NewInode, OpenFlags, RenameFlags, SetAttr, XattrMode};

use crate::shared::harness::{names, small};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const NEW: NewInode = NewInode { perm: 0o644, owner: vfs::Owner { uid: 0, gid: 0 } };
/// Often enough that tables grow, logs get pages, and blocks are freed and taken again.
const ROUNDS: u64 = 40;

/// What one call did and was charged.
type Seen = (&'static str, Tally);

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

    fn write(&mut self, name: &'static str, ino: Ino, (offset, len): (u64, usize), flags: IoFlags) {
        let data = vec![7; len];
        self.call(name, |fs| fs.write(ino, offset, &data, flags));
    }

    /// One of each call, in a directory that grows.
    fn round(&mut self, dir: Ino, round: u64) {
        let name = |kind: &str| format!("{kind} number {round} of them").into_bytes();
        let (file, other, link) = (name("file"), name("other"), name("link"));
        let ino = self.call("create", |fs| fs.create(dir, &file, &NEW)).ino;
        self.call("open", |fs| fs.open(ino, OpenFlags::READ | OpenFlags::WRITE));
        self.write("write", ino, (0, 5000), IoFlags::empty());
        self.write("append", ino, (5000, 9000), IoFlags::APPEND);
        self.write("overwrite", ino, (100, 4096), IoFlags::empty());
        self.write("write far", ino, (4 << 20, 100), IoFlags::empty());
        self.call("fsync", |fs| fs.fsync(ino, false));
        self.write("write synchronously", ino, (4096, 4096), IoFlags::SYNC);
        let mut buffer = vec![0; 8192];
        self.call("read", |fs| fs.read(ino, 0, &mut buffer, IoFlags::empty()));
        self.call("stat", |fs| fs.getattr(ino));
        self.call("lookup", |fs| fs.lookup(dir, &file));
        self.call("truncate", |fs| fs.setattr(ino, &SetAttr { size: Some(100), ..SetAttr::default() }));
        self.call("chmod", |fs| fs.setattr(ino, &SetAttr { perm: Some(0o600), ..SetAttr::default() }));
        let value = name("value");
        self.call("setxattr", |fs| fs.setxattr(ino, b"user.name", &value, XattrMode::Set));
        self.call("getxattr", |fs| fs.getxattr(ino, b"user.name"));
        self.call("listxattr", |fs| fs.listxattr(ino));
        self.call("link", |fs| fs.link(ino, dir, &link));
        self.call("release", |fs| {
            fs.release(ino);
            Ok(())
        });
        let symlink = name("symlink");
        self.call("symlink", |fs| fs.symlink(dir, &symlink, &file, &NEW));
        self.call("rename", |fs| fs.rename((dir, &file), (fs.root(), &other), RenameFlags::empty().into()));
        self.names(dir, &name("directory"));
        self.call("unlink", |fs| fs.unlink(dir, &link));
        if round % 2 == 0 {
            self.call("unlink of the last name", |fs| fs.unlink(fs.root(), &other));
        }
        self.call("statfs", |fs| fs.statfs());
    }

    fn names(&mut self, dir: Ino, name: &[u8]) {
        let sub = self.call("mkdir", |fs| fs.mkdir(dir, name, &NEW)).ino;
        self.call("readdir", |fs| fs.readdir(dir, 0, &mut |_| true));
        self.call("rmdir", |fs| fs.rmdir(dir, name));
        assert!(self.fs.getattr(sub).is_err(), "it is gone");
    }
}

/// All calls of the design called `name`, with the charges of one kind left out if one is given.
fn calls_of(name: &'static str, omitted: Option<Work>) -> Vec<Seen> {
    let seen = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), move || {
        let design = small(name);
        let region = Arc::new(Region::anonymous(Bytes::mib(64), Box::new(media::nvmm::null::Null)).expect("memory"));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let mut calls = Calls { fs: &*fs, seen: Vec::new() };
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        let mut all = || (0..ROUNDS).for_each(|round| calls.round(dir, round));
        match omitted {
            Some(kind) => sim::ran::omitting(kind, all),
            None => all(),
        }
        let seen = calls.seen;
        fs.unmount().expect("unmount");
        seen
    });
    seen.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// "nova: create: alloc", with the largest count, once for each call and kind.
fn forgotten(name: &str, seen: &[Seen]) -> Vec<String> {
    let mut worst = std::collections::BTreeMap::new();
    for (call, tally) in seen {
        for one in tally.forgotten() {
            let most: &mut u64 = worst.entry((*call, one.kind.key())).or_default();
            *most = one.done.max(*most);
        }
    }
    let line = |((call, kind), most): (&(&str, &str), &u64)| {
        format!("{name}: {call}: {kind}: up to {most} done, none charged")
    };
    worst.iter().map(line).collect()
}

#[test]
fn every_design_charges_each_kind_of_work_that_a_call_of_it_does() {
    let lines: Vec<_> = names().flat_map(|name| forgotten(name, &calls_of(name, None))).collect();
    assert!(lines.is_empty(), "not charged:\n  {}", lines.join("\n  "));
}
