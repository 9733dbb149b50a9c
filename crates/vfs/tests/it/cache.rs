//! The dentry cache: it saves the design work, keeps every dentry that is in use, and never gives an outdated
//! answer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::memfs::MemFs;
use sim::ledger::Snapshot;
use sim::{Activity, Machine, Nanos, Seed, Setup, TaskSpec};
use vfs::{
    Credentials, Errno, FileKind, Mount, MountOptions, OpenFlags, Process, RenameFlags, SetAttr, Syscalls,
    ops,
};

const MAKE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE).union(OpenFlags::CREATE);

fn mount(dentries: usize) -> (Arc<MemFs>, Arc<Mount>) {
    mount_of(MemFs::new(), dentries)
}

fn mount_of(fs: MemFs, dentries: usize) -> (Arc<MemFs>, Arc<Mount>) {
    let fs = Arc::new(fs);
    let mount =
        Mount::new(fs.clone(), MountOptions { dentries, ..MountOptions::default() }).expect("it has a root");
    (fs, mount)
}

fn root(mount: &Arc<Mount>) -> Process {
    Process::new(Arc::clone(mount), Credentials::root())
}

fn touch(process: &Process, path: &str) {
    process.mknod(path.as_bytes(), FileKind::Regular, 0o666, 0).expect("a free name");
}

#[test]
fn a_cached_path_asks_the_design_nothing() {
    let (fs, mount) = mount(1 << 10);
    let process = root(&mount);
    process.mkdir(b"/a", 0o755).expect("new");
    process.mkdir(b"/a/b", 0o755).expect("new");
    touch(&process, "/a/b/f");
    let before = fs.lookups.load(Relaxed);
    for _ in 0..10 {
        process.stat(b"/a/b/f").expect("there");
        assert_eq!(process.rename(b"/a/b/f", b"/a/g", RenameFlags::empty()), Ok(()));
        assert_eq!(process.rename(b"/a/g", b"/a/b/f", RenameFlags::empty()), Ok(()));
    }
    assert_eq!(fs.lookups.load(Relaxed) - before, 1, "once for the name that was never asked for: /a/g");
    mount.drop_cached_names();
    process.stat(b"/a/b/f").expect("there");
    assert_eq!(fs.lookups.load(Relaxed) - before, 1 + 3);
}

#[test]
fn a_name_that_does_not_exist_is_remembered_until_it_is_made() {
    let (fs, mount) = mount(1 << 10);
    let process = root(&mount);
    for _ in 0..5 {
        assert_eq!(process.stat(b"/f"), Err(Errno::ENOENT));
    }
    assert_eq!(fs.lookups.load(Relaxed), 1);
    touch(&process, "/f");
    assert!(process.stat(b"/f").is_ok());
    process.unlink(b"/f").expect("there");
    assert_eq!(process.stat(b"/f"), Err(Errno::ENOENT));
    assert_eq!(fs.lookups.load(Relaxed), 1);
}

#[test]
fn the_cache_stays_within_its_limit() {
    let (_, mount) = mount(2_048);
    let process = root(&mount);
    for n in 0..20_000 {
        assert_eq!(process.stat(format!("/missing{n}").as_bytes()), Err(Errno::ENOENT));
        if n % 4 == 0 {
            touch(&process, &format!("/f{n}"));
            process.link(format!("/f{n}").as_bytes(), format!("/link{n}").as_bytes()).expect("free");
        }
    }
    assert!(mount.cached_names() <= 2_048, "{}", mount.cached_names());
    assert!(process.stat(b"/f0").is_ok() && process.stat(b"/link0").is_ok());
}

/// A user has `path` open while root gives it set-user-id through `other`, with a full cache between the two.
/// With two vnodes for one inode, each would have its own copy of the bits, and the user's write would not
/// clear them.
fn assert_one_inode(link: Option<&str>, forget_first: bool) {
    let (_, mount) = mount(0);
    let (admin, user) = (root(&mount), Process::new(Arc::clone(&mount), Credentials::new(1000, 1000, &[])));
    touch(&admin, "/f");
    admin.setattr(b"/f", &SetAttr { perm: Some(0o777), ..SetAttr::default() }).expect("root may");
    if let Some(link) = link {
        admin.link(b"/f", link.as_bytes()).expect("free");
    }
    if forget_first {
        mount.drop_cached_names();
    }
    let fd = user.open(b"/f", OpenFlags::WRITE, 0).expect("all may");
    for n in 0..5_000 {
        assert_eq!(admin.stat(format!("/missing{n}").as_bytes()), Err(Errno::ENOENT));
    }
    let other = link.unwrap_or("/f").as_bytes();
    admin.setattr(other, &SetAttr { perm: Some(0o4777), ..SetAttr::default() }).expect("root may");
    user.pwrite(fd, b"x", 0).expect("space");
    assert_eq!(admin.stat(b"/f").map(|attr| attr.perm), Ok(0o777));
}

#[test]
fn an_open_file_and_its_path_lead_to_one_inode_even_after_the_cache_was_flooded() {
    assert_one_inode(None, false);
    assert_one_inode(None, true);
}

#[test]
fn all_names_of_a_file_lead_to_one_inode() {
    assert_one_inode(Some("/second"), false);
    assert_one_inode(Some("/second"), true);
}

#[test]
fn a_long_chain_of_directories_is_let_go_without_recursion() {
    let (_, mount) = mount(1 << 20);
    let process = root(&mount);
    for _ in 0..20_000 {
        process.mkdir(b"d", 0o755).expect("new");
        process.chdir(b"d").expect("there");
    }
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let last = small.spawn(move || {
        drop(process);
        mount.drop_cached_names();
        mount.cached_names()
    });
    assert_eq!(last.expect("a thread").join().expect("no overflow"), 0);
}

// ---- many at once ----

/// A small generator, so that threads need not share one.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const NAMES: u64 = 6;

/// Makes, opens, moves and removes files among few names. A file holds its name until it is moved within its
/// directory's group; a task that opens a name must find that name inside, or no content yet. A mistaken
/// inode shows as another file's name.
fn churn(process: &Process, dice: &mut Dice, rounds: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..rounds {
        let name = format!("/d{}/f{}", dice.roll(2), dice.roll(NAMES));
        let path = name.as_bytes();
        let outcome = match dice.roll(10) {
            0..4 => process.open(path, MAKE, 0o666).and_then(|fd| {
                let written = process.pwrite(fd, path, 0);
                process.close(fd).and(written).map(|_| ())
            }),
            4..7 => process.open(path, OpenFlags::READ, 0).and_then(|fd| {
                let mut buffer = [0; 16];
                let len = process.pread(fd, &mut buffer, 0)?;
                assert!(
                    len == 0 || &buffer[..len] == path,
                    "{name} leads to {:?}",
                    String::from_utf8_lossy(&buffer)
                );
                process.close(fd)
            }),
            7 => process.unlink(path),
            8 => process.stat(path).map(|attr| assert_eq!(attr.kind, FileKind::Regular)),
            _ => churn_directories(process, dice),
        };
        seen.push(format!("{name} {outcome:?}"));
    }
    seen
}

/// Creates, removes and renames directories, so that walks meet these changes.
fn churn_directories(process: &Process, dice: &mut Dice) -> vfs::Result<()> {
    let sub = format!("/s{}", dice.roll(2));
    let file = format!("{sub}/x");
    match dice.roll(5) {
        0 => process.mkdir(sub.as_bytes(), 0o755),
        1 => process.rmdir(sub.as_bytes()),
        2 => process.rename(b"/s0", b"/s1", RenameFlags::empty()),
        3 => process.open(file.as_bytes(), MAKE, 0o666).and_then(|fd| process.close(fd)),
        _ => process.unlink(file.as_bytes()),
    }
}

/// The cache and a mount without one see the same, and nothing was left open.
fn assert_consistent(fs: &Arc<MemFs>, mount: &Arc<Mount>) {
    let fresh = Mount::new(fs.clone(), MountOptions::default()).expect("it has a root");
    let (cached, fresh) = (root(mount), root(&fresh));
    let files = (0..2).flat_map(|dir| (0..NAMES).map(move |file| format!("/d{dir}/f{file}")));
    for path in files.chain(["/s0", "/s1", "/s0/x", "/s1/x"].map(str::to_owned)) {
        let (a, b) = (cached.stat(path.as_bytes()), fresh.stat(path.as_bytes()));
        assert_eq!(a.map(|attr| attr.ino), b.map(|attr| attr.ino), "{path}");
    }
    mount.drop_cached_names();
    assert_eq!(fs.opens(), 0);
}

#[test]
fn threads_never_meet_a_file_under_another_name() {
    for (dentries, resolves) in [(0, false), (1 << 16, false), (0, true), (1 << 16, true)] {
        let (fs, mount) = mount_of(MemFs::new().resolving(resolves), dentries);
        let process = root(&mount);
        process.mkdir(b"/d0", 0o777).expect("new");
        process.mkdir(b"/d1", 0o777).expect("new");
        std::thread::scope(|scope| {
            for n in 0..4 {
                let process = &process;
                scope.spawn(move || churn(process, &mut Dice(n), 20_000));
            }
        });
        drop(process);
        assert_consistent(&fs, &mount);
    }
}

/// What every task saw, and the ledger of the run.
fn virtual_churn(seed: u64) -> (Vec<Vec<String>>, Snapshot) {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    let run = sim::run(&setup, move || {
        let (fs, mount) = mount(1 << 10);
        let process = Arc::new(root(&mount));
        process.mkdir(b"/d0", 0o777).expect("new");
        process.mkdir(b"/d1", 0o777).expect("new");
        let tasks: Vec<_> = (0..16)
            .map(|n| {
                let process = Arc::clone(&process);
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n), move || {
                    churn(&process, &mut Dice(seed * 100 + u64::from(n)), 200)
                })
            })
            .collect();
        let seen = tasks.into_iter().map(sim::JoinHandle::join).collect();
        let ledger = Snapshot::of_run();
        drop(process);
        assert_consistent(&fs, &mount);
        (seen, ledger)
    });
    run.expect("the run ends")
}

#[test]
fn tasks_of_the_virtual_clock_see_the_same_in_every_run() {
    for seed in 0..20 {
        let (first, again) = (virtual_churn(seed), virtual_churn(seed));
        assert_eq!(first.0, again.0, "seed {seed}");
        assert_eq!(first.1, again.1, "seed {seed}");
    }
    assert_ne!(virtual_churn(1).0, virtual_churn(2).0, "the seed matters");
}

#[test]
fn an_open_is_booked_by_what_it_did() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let ledger = sim::run(&setup, || {
        let process = root(&mount(1 << 10).1);
        let missing = process.open(b"/f", OpenFlags::READ, 0);
        assert_eq!(missing, Err(Errno::ENOENT)); // an open
        process.open(b"/f", MAKE, 0o644).expect("new"); // a create
        process.open(b"/f", MAKE, 0o644).expect("there"); // an open
        let taken = process.open(b"/f", MAKE | OpenFlags::EXCLUSIVE, 0o644);
        assert_eq!(taken, Err(Errno::EEXIST)); // an open
        Snapshot::of_task()
    });
    let ledger = ledger.expect("the run ends");
    assert_eq!([ops::CREATE, ops::OPEN].map(|op| ledger.calls(op)), [1, 3]);
    for op in [ops::CREATE, ops::OPEN] {
        let parts = ledger.booked(op);
        assert_eq!(parts, ledger.total(op), "{}", op.name());
    }
}

#[test]
fn every_call_is_an_operation_and_a_cached_walk_costs_its_components() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let (warm, ledger) = sim::run(&setup, || {
        let process = root(&mount(1 << 10).1);
        process.mkdir(b"/a", 0o755).expect("new");
        let fd = process.open(b"/a/f", MAKE, 0o644).expect("new");
        process.close(fd).expect("open");
        process.stat(b"/a/f").expect("there");
        let before = Snapshot::of_task();
        process.stat(b"/a/f").expect("there");
        let warm = Snapshot::of_task().since(&before);
        let fd = process.open(b"/a/f", OpenFlags::READ, 0).expect("there");
        process.pread(fd, &mut [0; 1], 0).expect("a file");
        (warm, Snapshot::of_task())
    })
    .expect("the run ends");
    let calls =
        [ops::MKDIR, ops::CREATE, ops::CLOSE, ops::STAT, ops::OPEN, ops::READ].map(|op| ledger.calls(op));
    assert_eq!(calls, [1, 1, 1, 2, 1, 1]);
    // In nanoseconds of a machine on which everything costs one: system call, call, two components, the
    // reference to the file taken and dropped; then what the file system itself does: a step and its lock.
    assert_eq!(warm.total(ops::STAT), Nanos(2 + 2 + 2 + 2));
    assert_eq!(warm.time(ops::STAT, Activity::SOFTWARE), warm.total(ops::STAT));
}
