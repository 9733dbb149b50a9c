//! Calls that change names where the file system resolves paths itself: the answers of the walk, without references of the shared
//! directory.

use std::sync::Arc;

use crate::memfs::MemFs;
use sim::ledger::Snapshot;
use sim::{Machine, Seed, Setup, TaskSpec, Work};
use vfs::{
    Credentials, Errno, FileKind, FileSystem, Mount, MountOptions, OpenFlags, Process, RenameFlags, SetAttr,
    SetTime, Syscalls, Timestamp, ops,
};

const MAKE: OpenFlags = OpenFlags::WRITE.union(OpenFlags::CREATE);

struct World {
    fs: Arc<MemFs>,
    mount: Arc<Mount>,
    root: Process,
}

impl World {
    fn new(resolves: bool) -> Self {
        let fs = Arc::new(MemFs::new().resolving(resolves));
        let mount = Mount::new(fs.clone(), MountOptions::default()).expect("it has a root");
        let root = Process::new(Arc::clone(&mount), Credentials::root());
        Self { fs, mount, root }
    }

    /// `/d` with the files `old0`, `old1` …
    fn with_files(resolves: bool, files: u16) -> Self {
        let world = Self::new(resolves);
        world.root.mkdir(b"/d", 0o777).expect("new");
        for n in 0..files {
            let path = format!("/d/old{n}");
            world.root.mknod(path.as_bytes(), FileKind::Regular, 0o644, 0).expect("new");
        }
        world
    }

    fn user(&self, uid: u32) -> Process {
        Process::new(Arc::clone(&self.mount), Credentials::new(uid, uid, &[]))
    }
}

fn make(process: &Process, path: &[u8], flags: OpenFlags) -> vfs::Result<()> {
    process.open(path, flags, 0o644).and_then(|fd| process.close(fd))
}

fn rename(process: &Process, from: &str, to: &str, flags: RenameFlags) -> vfs::Result<()> {
    process.rename(from.as_bytes(), to.as_bytes(), flags)
}

/// A change of the names of `/d` by a task that has a number.
type Change = (&'static str, fn(&Process, u16) -> vfs::Result<()>);

const CHANGES: &[Change] = &[
    ("create", |p, n| make(p, format!("/d/new{n}").as_bytes(), MAKE)),
    ("mknod", |p, n| p.mknod(format!("/d/new{n}").as_bytes(), FileKind::Fifo, 0o644, 0)),
    ("symlink", |p, n| p.symlink(b"old0", format!("/d/new{n}").as_bytes())),
    ("link", |p, n| p.link(format!("/d/old{n}").as_bytes(), format!("/d/new{n}").as_bytes())),
    ("unlink", |p, n| p.unlink(format!("/d/old{n}").as_bytes())),
    ("rename", |p, n| rename(p, &format!("/d/old{n}"), &format!("/d/new{n}"), RenameFlags::empty())),
    ("exchange", |p, n| rename(p, &format!("/d/old{n}"), "/d/old9", RenameFlags::EXCHANGE)),
];

/// Whether tasks of several cores that change names of one directory in turn wait for the count of a reference.
fn waits_for_references(resolves: bool, change: Change) -> bool {
    let mut machine = Machine::unit();
    machine.work_ps[Work::LINE_SAME_SOCKET.index()] = 100_000;
    let ledger = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
        let world = World::with_files(resolves, 10);
        for n in 0..8 {
            let process = Process::new(Arc::clone(&world.mount), Credentials::root());
            let task = TaskSpec::named(change.0).on_core(n + 1);
            sim::spawn(task, move || change.1(&process, n)).join().expect("it can be changed");
        }
        Snapshot::of_run()
    });
    let ledger = ledger.expect("the run ends");
    ops::ALL.iter().any(|op| ledger.line_waits(*op).iter().any(|(line, _)| *line == "vfs.references"))
}

#[test]
fn a_change_of_a_name_counts_no_reference_of_its_directory_where_the_design_finds_that() {
    for change in CHANGES {
        let waits = [false, true].map(|resolves| waits_for_references(resolves, *change));
        assert_eq!(waits, [true, false], "{}", change.0);
    }
}

/// Whether a listing of `/d` sets the time of access, which was long ago.
fn listing_sets_access(world: &World) -> bool {
    let age = SetAttr { atime: Some(SetTime::To(Timestamp::default())), ..SetAttr::default() };
    let ino = world.root.stat(b"/d").expect("there").ino;
    FileSystem::setattr(&*world.fs, ino, &age).expect("there"); // behind the mount's back
    let fd = world.root.open(b"/d", OpenFlags::READ, 0).expect("there");
    world.root.getdents(fd, &mut |_| true).expect("a directory");
    world.root.close(fd).expect("open");
    world.root.stat(b"/d").expect("there").atime > Timestamp::default()
}

#[test]
fn the_access_time_of_a_directory_is_set_by_the_first_listing_after_a_change_of_its_names() {
    for resolves in [false, true] {
        for change in CHANGES {
            let world = World::with_files(resolves, 10);
            assert!(listing_sets_access(&world), "{}, {resolves}: names were made", change.0);
            assert!(!listing_sets_access(&world), "{}, {resolves}: nothing has changed", change.0);
            (change.1)(&world.root, 1).expect("it can be changed");
            assert!(listing_sets_access(&world), "{}, {resolves}: a name has changed", change.0);
        }
    }
}

/// What calls answer that the design must leave to the walk, or that are refused.
fn refused(resolves: bool) -> Vec<(&'static str, vfs::Result<()>)> {
    let world = World::with_files(resolves, 10);
    let (root, user, inside) = (&world.root, world.user(7), world.user(0));
    let chmod = |path: &[u8], perm| {
        root.setattr(path, &SetAttr { perm: Some(perm), ..SetAttr::default() }).expect("there");
    };
    for (dir, perm) in [(b"/closed".as_slice(), 0o766), (b"/locked", 0o755), (b"/sticky", 0o1777)] {
        root.mkdir(dir, 0o777).expect("new");
        let [file, below] = [b"/f".as_slice(), b"/sub"].map(|name| [dir, name].concat());
        make(root, &file, MAKE).expect("new");
        root.mkdir(&below, 0o777).expect("new");
        chmod(&file, 0o777);
        chmod(&below, 0o777);
        chmod(dir, perm);
    }
    root.mkdir(b"/d/sub", 0o755).expect("new");
    root.symlink(b"d", b"/link").expect("new");
    root.symlink(b"made", b"/d/to").expect("new");
    root.mkdir(b"/gone", 0o755).expect("new");
    inside.chdir(b"/gone").expect("there");
    root.rmdir(b"/gone").expect("empty");
    let plain = RenameFlags::empty();
    vec![
        ("a directory that must not be searched", make(&user, b"/closed/n", MAKE)),
        ("its file", user.unlink(b"/closed/f")),
        ("opened", make(&user, b"/closed/f", MAKE)),
        ("below it", make(&user, b"/closed/sub/n", MAKE)),
        ("below one that may be", make(&user, b"/locked/sub/n", MAKE)),
        ("a directory that must not be written", make(&user, b"/locked/n", MAKE)),
        ("to it", rename(&user, "/d/old1", "/locked/n", plain)),
        ("another's file in a sticky directory", user.unlink(b"/sticky/f")),
        ("over it", rename(&user, "/d/old1", "/sticky/f", plain)),
        ("out of it", rename(&user, "/sticky/f", "/d/n", plain)),
        ("a zero byte", make(root, b"/d/a\0b", MAKE)),
        ("a zero byte in a link", root.symlink(b"a\0b", b"/d/zero")),
        ("a name that is there", make(root, b"/d/old1", MAKE | OpenFlags::EXCLUSIVE)),
        ("for a link", root.link(b"/d/old1", b"/d/old2")),
        ("not to be replaced", rename(root, "/d/old1", "/d/old2", RenameFlags::NOREPLACE)),
        ("nothing to exchange", rename(root, "/d/old1", "/d/n", RenameFlags::EXCHANGE)),
        ("a missing name", root.unlink(b"/d/missing")),
        ("below a file", make(root, b"/d/old1/n", MAKE)),
        ("a directory as a file", root.unlink(b"/d/sub")),
        ("opened to be written", make(root, b"/d/sub", MAKE)),
        ("in the place of a file", rename(root, "/d/sub", "/d/old1", plain)),
        ("a file in its place", rename(root, "/d/old1", "/d/sub", plain)),
        ("a slash behind a new file", make(root, b"/d/n/", MAKE)),
        ("onto itself", rename(root, "/d/old1", "/d//old1", plain)),
        ("in a removed working directory", make(&inside, b"n", MAKE)),
        ("and up from it", make(&inside, b"../d/up", MAKE | OpenFlags::EXCLUSIVE)),
        ("through a link", make(root, b"/link/through", MAKE | OpenFlags::EXCLUSIVE)),
        ("what a link leads to", make(root, b"/d/to", MAKE)),
        ("which was made", root.unlink(b"/d/made")),
        ("a directory moves", rename(root, "/d/sub", "/sub", plain)),
        ("and a file in it", make(root, b"/sub/../sub/./f", MAKE)),
    ]
}

#[test]
fn what_the_design_leaves_open_and_what_is_refused_the_walk_answers() {
    let answers = refused(true);
    assert_eq!(answers, refused(false));
    let of = |what| answers.iter().find(|answer| answer.0 == what).map(|answer| answer.1);
    let expected = [
        ("a directory that must not be searched", Err(Errno::EACCES)),
        ("opened", Err(Errno::EACCES)),
        ("below it", Err(Errno::EACCES)),
        ("below one that may be", Ok(())),
        ("another's file in a sticky directory", Err(Errno::EPERM)),
        ("a zero byte", Err(Errno::EINVAL)),
        ("a zero byte in a link", Err(Errno::EINVAL)),
        ("in a removed working directory", Err(Errno::ENOENT)),
        ("through a link", Ok(())),
    ];
    for (what, answer) in expected {
        assert_eq!(of(what), Some(answer), "{what}");
    }
}
