//! Fences and lines of each call, in the steady state: table S4 of the page of the design.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use check::NEW;
use check::configured::{region, virtually};
use media::event::{Event, Tap, TaskId};
use sim::Bytes;
use vfs::{FileSystem, Ino, IoFlags, RenameFlags, SetAttr, SetTime, Timestamp};

use crate::harness::small_with;

/// Fences, and lines that were flushed.
#[derive(Default)]
struct Counts {
    fences: AtomicU64,
    lines: AtomicU64,
}

impl Tap for Counts {
    fn event(&self, _: TaskId, event: Event<'_>) {
        match event {
            Event::Fence => self.fences.fetch_add(1, Relaxed),
            Event::Flush { off, len } => self.lines.fetch_add((off + len).div_ceil(64) - off / 64, Relaxed),
            _ => 0,
        };
    }
}

/// What is counted of the calls: their name, and a call on directory `dir` in which `a` has 5000 bytes, `b` two names, `c` no byte.
type Call = (&'static str, (u64, u64), fn(&dyn FileSystem, Ino));

fn file(fs: &dyn FileSystem, dir: Ino, name: &[u8]) -> Ino {
    fs.lookup(dir, name).expect("it is there").ino
}

fn made(attr: vfs::Result<vfs::Attr>) {
    assert!(attr.is_ok(), "{attr:?}");
}

fn write(fs: &dyn FileSystem, dir: Ino, name: &[u8], at: u64, len: usize) {
    fs.write(file(fs, dir, name), at, &vec![1; len], IoFlags::empty()).expect("space");
}

fn rename(fs: &dyn FileSystem, from: (Ino, &[u8]), to: (Ino, &[u8])) {
    fs.rename(from, to, RenameFlags::empty().into()).expect("rename");
}

fn set(fs: &dyn FileSystem, dir: Ino, set: &SetAttr) {
    fs.setattr(file(fs, dir, b"a"), set).expect("setattr");
}

const NONE: SetAttr = SetAttr { perm: None, uid: None, gid: None, size: None, atime: None, mtime: None };

const CALLS: &[Call] = &[
    ("create", (4, 8), |fs, dir| made(fs.create(dir, b"new", &NEW))),
    // The page of names: its descriptor, zeros past the cache, its owner.
    ("create, first of its directory", (7, 10), |fs, dir| {
        made(fs.create(file(fs, dir, b"empty"), b"new", &NEW));
    }),
    ("mkdir", (5, 10), |fs, dir| made(fs.mkdir(dir, b"new", &NEW))),
    ("link", (4, 10), |fs, dir| made(fs.link(file(fs, dir, b"a"), dir, b"new"))),
    ("symlink", (9, 12), |fs, dir| made(fs.symlink(dir, b"new", b"target01", &NEW))),
    ("unlink, not the last name", (4, 10), |fs, dir| fs.unlink(dir, b"b").expect("unlink")),
    ("unlink, the last name of a file of two pages", (7, 16), |fs, dir| {
        fs.unlink(dir, b"a").expect("unlink");
    }),
    ("unlink, the last name of an empty file", (5, 12), |fs, dir| fs.unlink(dir, b"c").expect("unlink")),
    ("rmdir", (5, 12), |fs, dir| fs.rmdir(dir, b"empty").expect("rmdir")),
    ("rename", (9, 18), |fs, dir| rename(fs, (dir, b"a"), (dir, b"new"))),
    ("rename of a directory across", (11, 22), |fs, dir| {
        rename(fs, (dir, b"empty"), (file(fs, dir, b"full"), b"new"));
    }),
    ("rename over one of two names", (8, 18), |fs, dir| rename(fs, (dir, b"a"), (dir, b"b"))),
    ("rename over a file of two pages", (11, 24), |fs, dir| rename(fs, (dir, b"b"), (dir, b"a"))),
    ("overwrite of a page", (3, 2), |fs, dir| write(fs, dir, b"a", 0, 4096)),
    ("overwrite of 16 words", (3, 2), |fs, dir| write(fs, dir, b"a", 64, 128)),
    ("append within a page", (4, 4), |fs, dir| write(fs, dir, b"a", 5000, 1024)),
    ("append of a new page", (6, 6), |fs, dir| write(fs, dir, b"c", 0, 1024)),
    ("truncate by a page", (3, 4), |fs, dir| set(fs, dir, &SetAttr { size: Some(4096), ..NONE })),
    ("truncate within a page", (1, 2), |fs, dir| set(fs, dir, &SetAttr { size: Some(4500), ..NONE })),
    ("chmod", (1, 2), |fs, dir| set(fs, dir, &SetAttr { perm: Some(0o600), ..NONE })),
    ("chown", (1, 2), |fs, dir| set(fs, dir, &SetAttr { uid: Some(7), gid: Some(8), ..NONE })),
    ("utimes", (1, 2), |fs, dir| {
        let time = Some(SetTime::To(Timestamp { secs: 5, nanos: 6 }));
        set(fs, dir, &SetAttr { atime: time, mtime: time, ..NONE });
    }),
    ("read, of which the time is noted", (1, 2), |fs, dir| {
        fs.accessed(file(fs, dir, b"a")).expect("accessed");
    }),
    ("fsync", (0, 0), |fs, dir| fs.fsync(file(fs, dir, b"a"), false).expect("fsync")),
];

fn counted(call: fn(&dyn FileSystem, Ino)) -> (u64, u64) {
    virtually(1, move || {
        let (design, region) = (small_with(&[("copy_fence", "page")]), region(Bytes::mib(4)));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        for name in [b"a", b"b", b"c"] {
            fs.create(dir, name, &NEW).expect("create");
        }
        write(&*fs, dir, b"a", 0, 5000);
        fs.link(file(&*fs, dir, b"b"), fs.root(), b"other").expect("link");
        fs.mkdir(dir, b"empty", &NEW).expect("mkdir");
        let full = fs.mkdir(dir, b"full", &NEW).expect("mkdir").ino;
        fs.create(full, b"one", &NEW).expect("create");
        let counts = Arc::new(Counts::default());
        region.attach(Arc::<Counts>::clone(&counts));
        call(&*fs, dir);
        region.detach(&counts);
        fs.unmount().expect("unmount");
        (counts.fences.load(Relaxed), counts.lines.load(Relaxed))
    })
}

#[test]
fn each_call_has_the_fences_and_lines_of_its_steps() {
    let found: Vec<_> =
        CALLS.iter().map(|(name, expected, call)| (*name, *expected, counted(*call))).collect();
    let wrong: Vec<_> = found.iter().filter(|(_, expected, found)| expected != found).collect();
    assert!(wrong.is_empty(), "name, expected, found: {wrong:#?}");
}
