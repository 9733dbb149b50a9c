//! The locks that a kernel keeps beside a file system: which calls wait for them, and that none does in process.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::memfs::MemFs;
use sim::ledger::Snapshot;
use sim::{Machine, Nanos, Seed, Setup, TaskSpec};
use vfs::{
    Credentials, FileKind, KernelWays, Linux, Mount, MountOptions, OpenFlags, Process, RenameFlags, Syscalls,
    ops,
};

const OLD: Option<Linux> = Some(Linux { major: 4, minor: 6 });
const NEW: Option<Linux> = Some(Linux { major: 4, minor: 7 });

/// What each task does in each of its turns.
type Work = fn(&Process, u16, u16);
const TURNS: u16 = 200;

/// The names of the locks that eight tasks on as many cores, each in a directory of its own, have waited for.
fn waits(kernel: Option<Linux>, free: &[&str], work: Work) -> Vec<&'static str> {
    let free = free.iter().map(|name| (*name).to_owned()).collect();
    let setup = Setup { free, ..Setup::virtual_clock(Machine::unit(), Seed(1)) };
    let ledger = sim::run(&setup, move || {
        let options = MountOptions { kernel, ..MountOptions::default() };
        let mount = Mount::new(Arc::new(MemFs::new()), options).expect("it has a root");
        let process = Process::new(Arc::clone(&mount), Credentials::root());
        for n in 0..8 {
            process.mkdir(format!("/{n}").as_bytes(), 0o755).expect("new");
            process.mkdir(format!("/{n}/a").as_bytes(), 0o755).expect("new");
            for turn in 0..TURNS {
                let old = format!("/{n}/old{turn}");
                process.mknod(old.as_bytes(), FileKind::Regular, 0o644, 0).expect("new");
            }
        }
        let tasks: Vec<_> = (0..8)
            .map(|n: u16| {
                let process = Process::new(Arc::clone(&mount), Credentials::root());
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n + 1), move || {
                    (0..TURNS).for_each(|turn| work(&process, n, turn));
                })
            })
            .collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        Snapshot::of_run()
    });
    let ledger = ledger.expect("the run ends");
    let of_kernel = |op| ledger.lock_waits(op).into_iter().map(|(name, _)| name);
    let mut names: Vec<_> =
        ops::ALL.iter().flat_map(|op| of_kernel(*op)).filter(|name| name.starts_with("kernel.")).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn make_and_remove(process: &Process, n: u16, _: u16) {
    let path = format!("/{n}/f");
    process.mknod(path.as_bytes(), FileKind::Regular, 0o644, 0).expect("free");
    process.unlink(path.as_bytes()).expect("there");
}

/// A file that was there before the tasks began.
fn remove(process: &Process, n: u16, turn: u16) {
    process.unlink(format!("/{n}/old{turn}").as_bytes()).expect("there");
}

fn move_between(process: &Process, n: u16, _: u16) {
    let (here, there) = (format!("/{n}/a"), format!("/{n}b"));
    process.rename(here.as_bytes(), there.as_bytes(), RenameFlags::empty()).expect("free");
    process.rename(there.as_bytes(), here.as_bytes(), RenameFlags::empty()).expect("free");
}

fn move_within(process: &Process, n: u16, _: u16) {
    let (here, there) = (format!("/{n}/a"), format!("/{n}/b"));
    process.rename(here.as_bytes(), there.as_bytes(), RenameFlags::empty()).expect("free");
    process.rename(there.as_bytes(), here.as_bytes(), RenameFlags::empty()).expect("free");
}

#[test]
fn files_made_and_removed_in_different_directories_meet_at_the_lists_of_inodes() {
    assert!(waits(OLD, &[], make_and_remove).contains(&"kernel.inodes"));
    // The two are held equally long: a task that has waited for the first finds the second free.
    assert_eq!(waits(OLD, &["kernel.inodes"], make_and_remove), ["kernel.inode_hash"]);
}

#[test]
fn files_that_are_only_removed_meet_at_the_lists_of_inodes_too() {
    assert!(waits(OLD, &[], remove).contains(&"kernel.inodes"));
    assert_eq!(waits(OLD, &["kernel.inodes"], remove), ["kernel.inode_hash"]);
    assert_eq!(waits(None, &[], remove), [""; 0]);
}

#[test]
fn renames_meet_at_the_rename_lock_and_those_between_directories_at_their_mutex() {
    assert!(waits(OLD, &[], move_between).contains(&"kernel.rename_dirs"));
    assert!(!waits(OLD, &[], move_within).contains(&"kernel.rename_dirs"));
    assert!(waits(OLD, &[], move_within).contains(&"kernel.rename"));
}

/// All tasks in one directory.
fn make_together(process: &Process, n: u16, _: u16) {
    let path = format!("/0/f{n}");
    process.mknod(path.as_bytes(), FileKind::Regular, 0o644, 0).expect("free");
    process.unlink(path.as_bytes()).expect("there");
}

fn list_together(process: &Process, _: u16, _: u16) {
    let fd = process.open(b"/0", OpenFlags::READ, 0).expect("there");
    process.getdents(fd, &mut |_| true).expect("a directory");
    process.close(fd).expect("open");
}

#[test]
fn changes_and_listings_of_one_directory_wait_for_its_lock() {
    for work in [make_together as Work, list_together] {
        assert!(waits(OLD, &[], work).contains(&"kernel.directory"));
    }
    assert!(
        !waits(OLD, &[], make_and_remove).contains(&"kernel.directory"),
        "each has a directory of its own"
    );
}

#[test]
fn listings_share_the_lock_of_a_directory_from_linux_4_7_on() {
    assert!(waits(NEW, &[], make_together).contains(&"kernel.directory"));
    assert!(!waits(NEW, &[], list_together).contains(&"kernel.directory"));
}

#[test]
fn in_process_there_are_no_such_locks() {
    for work in [make_and_remove as Work, move_between] {
        assert_eq!(waits(None, &[], work), [""; 0]);
    }
}

/// How long eight tasks take that each remove a file of one directory, where an unlink takes this and freeing an inode that.
fn removals(kernel: Option<Linux>, takes_ns: [u64; 2]) -> u64 {
    let setup = Setup { run_ahead: Nanos(0), ..Setup::virtual_clock(Machine::unit(), Seed(1)) };
    let took = sim::run(&setup, move || {
        let fs = Arc::new(MemFs::new());
        let options = MountOptions { kernel, ..MountOptions::default() };
        let mount = Mount::new(fs.clone(), options).expect("it has a root");
        let process = Process::new(Arc::clone(&mount), Credentials::root());
        for n in 0..8 {
            process.mknod(format!("/f{n}").as_bytes(), FileKind::Regular, 0o644, 0).expect("free");
        }
        fs.takes_ns.iter().zip(takes_ns).for_each(|(takes, ns)| takes.store(ns, Relaxed));
        let start = sim::now();
        let tasks: Vec<_> = (0..8)
            .map(|n: u16| {
                let process = Process::new(Arc::clone(&mount), Credentials::root());
                sim::spawn(TaskSpec::named(format!("t{n}")).on_core(n + 1), move || {
                    process.unlink(format!("/f{n}").as_bytes()).expect("there");
                })
            })
            .collect();
        tasks.into_iter().for_each(sim::JoinHandle::join);
        assert_eq!(fs.inodes(), 1, "all but the root are gone when the calls return");
        sim::now().since(start).0
    });
    took.expect("the run ends")
}

#[test]
fn a_removal_holds_the_lock_of_its_directory_until_the_name_is_gone_and_frees_the_inode_after_that() {
    const MS: u64 = 1_000_000;
    let turns = |kernel, takes| (removals(kernel, takes) + MS / 2) / MS;
    assert_eq!(turns(OLD, [MS, 0]), 8, "one name after the other");
    assert_eq!(turns(OLD, [0, MS]), 1, "inodes side by side");
    assert_eq!(turns(None, [MS, 0]), 1, "in process there is no such lock");
}

#[test]
fn a_stat_takes_a_reference_to_what_its_path_leads_to_and_drops_it() {
    let updates = |call: fn(&Process, &str)| {
        let mut machine = Machine::unit();
        machine.work_ps = [0; sim::Work::MAX];
        machine.work_ps[sim::Work::LOCK.index()] = 1_000;
        let took = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
            let mount = Mount::new(Arc::new(MemFs::new()), MountOptions::default()).expect("it has a root");
            let process = Process::new(Arc::clone(&mount), Credentials::root());
            process.mkdir(b"/d", 0o755).expect("free");
            process.mknod(b"/d/f", FileKind::Regular, 0o644, 0).expect("free");
            let time = |call: &dyn Fn()| {
                call();
                let start = sim::now();
                call();
                sim::now().since(start).0
            };
            let bare = time(&|| {
                mount.file_system().getattr(vfs::Ino(3)).expect("there");
            });
            time(&|| call(&process, "/d/f")) - bare
        });
        took.expect("the run ends")
    };
    assert_eq!(
        updates(|process, path| {
            process.stat(path.as_bytes()).expect("there");
        }),
        2
    );
}

/// What a call takes on core 1 after core 0 has made it: an update takes 10 ns, a line from the other core 100, and nothing else
/// takes anything.
fn second(ways: KernelWays, kernel: Option<Linux>, call: fn(&Process, u16)) -> u64 {
    let mut machine = Machine::unit();
    machine.work_ps = [0; sim::Work::MAX];
    machine.work_ps[sim::Work::LOCK.index()] = 10_000;
    machine.work_ps[sim::Work::LINE_SAME_SOCKET.index()] = 100_000;
    let took = sim::run(&Setup::virtual_clock(machine, Seed(1)), move || {
        let mut fs = MemFs::new();
        fs.ways = ways;
        let options = MountOptions { kernel, ..MountOptions::default() };
        let mount = Mount::new(Arc::new(fs), options).expect("it has a root");
        let process = Process::new(Arc::clone(&mount), Credentials::root());
        process.mkdir(b"/d", 0o755).expect("free");
        for n in 0..4 {
            process.mknod(format!("/d/{n}").as_bytes(), FileKind::Regular, 0o644, 0).expect("free");
        }
        let timed = |core: u16| {
            let process = Process::new(Arc::clone(&mount), Credentials::root());
            let task = TaskSpec::named(format!("t{core}")).on_core(core);
            let body = move || {
                let start = sim::now();
                call(&process, core);
                sim::now().since(start).0
            };
            sim::spawn(task, body).join()
        };
        timed(0);
        timed(1)
    });
    took.expect("the run ends")
}

fn make_one(process: &Process, n: u16) {
    process.mknod(format!("/d/new{n}").as_bytes(), FileKind::Regular, 0o644, 0).expect("free");
}

fn stat_one(process: &Process, _: u16) {
    process.stat(b"/d/0").expect("there");
}

fn list_one(process: &Process, _: u16) {
    let fd = process.open(b"/d", OpenFlags::READ, 0).expect("there");
    process.getdents(fd, &mut |_| false).expect("a directory");
    process.close(fd).expect("open");
}

fn remove_one(process: &Process, n: u16) {
    process.unlink(format!("/d/{n}").as_bytes()).expect("there");
}

fn rename_one(process: &Process, n: u16) {
    let (old, new) = (format!("/d/{n}"), format!("/d/moved{n}"));
    process.rename(old.as_bytes(), new.as_bytes(), RenameFlags::empty()).expect("free");
}

/// What `ways` add to the second call.
fn adds(ways: KernelWays, call: fn(&Process, u16)) -> u64 {
    second(ways, OLD, call) - second(KernelWays::default(), OLD, call)
}

#[test]
fn lines_move_with_the_directory_that_is_changed_or_listed_and_with_the_lists_of_inodes() {
    let none = KernelWays::default();
    assert_eq!(adds(KernelWays { directory_change: 12, ..none }, make_one), 12 * 100);
    assert_eq!(adds(KernelWays { directory_change: 12, ..none }, remove_one), 12 * 100);
    assert_eq!(adds(KernelWays { directory_change: 12, ..none }, list_one), 0);
    assert_eq!(adds(KernelWays { directory_listing: 3, ..none }, list_one), 3 * 100);
    assert_eq!(adds(KernelWays { new_inode: 1, inode_hash: 1, ..none }, make_one), 2 * 100);
    assert_eq!(adds(KernelWays { old_inode: 2, ..none }, remove_one), 2 * 100);
    // No hash: neither its lock nor its line.
    let with = second(none, OLD, make_one);
    assert_eq!(with - second(KernelWays { unhashed: true, ..none }, OLD, make_one), 110);
}

#[test]
fn a_reference_by_exchange_takes_a_transfer_more_where_another_core_has_it() {
    let ways = KernelWays { exchanges_references: true, ..KernelWays::default() };
    assert_eq!(adds(ways, stat_one), 100, "taken with two transfers in place of one, and dropped at home");
}

#[test]
fn a_rename_writes_the_word_that_lookups_read() {
    let ways = KernelWays { lookups_see_renames: true, rename: 8, ..KernelWays::default() };
    // The mutex is there in both. The word is fetched for the first look, fetched again to be written, and then written once more.
    assert_eq!(adds(ways, rename_one), 8 * 100 + 2 * 100 + 2 * 10);
    assert_eq!(adds(ways, make_one), 0, "without a rename the word is not written");
}

#[test]
fn without_a_kernel_its_ways_change_nothing() {
    let ways = KernelWays {
        exchanges_references: true,
        lookups_see_renames: true,
        directory_change: 12,
        directory_listing: 3,
        new_inode: 1,
        old_inode: 2,
        inode_hash: 1,
        rename: 8,
        unhashed: true,
        shares_directories: Some(false),
    };
    for call in [make_one as fn(&Process, u16), remove_one, rename_one, list_one, stat_one] {
        assert_eq!(second(ways, None, call), second(KernelWays::default(), None, call));
    }
}
