//! Advisory locks, and calls on the attributes of open files and of links: the rules of flock(2), fcntl(2) and lchown(2).

use std::sync::Arc;

use crate::memfs::MemFs;
use sim::{Machine, Nanos, Seed, Setup, TaskSpec};
use vfs::{
    Credentials, Errno, Fd, LockAction, LockKind, LockOwner, Mount, MountOptions, OpenFlags, Process,
    SetAttr, Syscalls,
};

const MAKE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE).union(OpenFlags::CREATE);
const SHARED: LockAction = LockAction::Try(LockKind::Shared);
const EXCLUSIVE: LockAction = LockAction::Try(LockKind::Exclusive);
const HELD: Result<(), Errno> = Err(Errno::EAGAIN);

fn mount() -> Arc<Mount> {
    Mount::new(Arc::new(MemFs::new()), MountOptions::default()).expect("it has a root")
}

fn process(mount: &Arc<Mount>) -> Process {
    Process::new(Arc::clone(mount), Credentials::root())
}

fn open(process: &Process) -> Fd {
    process.open(b"f", MAKE, 0o600).expect("it can be made")
}

fn range(process: &Process, fd: Fd, action: LockAction, offset: u64, len: u64) -> Result<(), Errno> {
    process.lock(fd, action, LockOwner::Process, offset, len)
}

#[test]
fn a_lock_of_a_whole_file_belongs_to_the_open_file_and_ends_with_its_last_descriptor() {
    let mount = mount();
    let (one, two) = (process(&mount), process(&mount));
    let (a, b) = (open(&one), open(&two));
    assert_eq!((one.flock(a, SHARED), two.flock(b, SHARED)), (Ok(()), Ok(())));
    assert_eq!(one.flock(a, EXCLUSIVE), HELD);
    two.flock(b, LockAction::Release).unwrap();
    assert_eq!(one.flock(a, EXCLUSIVE), Ok(()));
    let copy = one.dup(a).unwrap();
    one.close(a).unwrap();
    assert_eq!(two.flock(b, SHARED), HELD, "a duplicate has the lock still");
    assert_eq!(range(&two, b, EXCLUSIVE, 0, 0), Ok(()), "locks of ranges are others");
    one.close(copy).unwrap();
    assert_eq!(two.flock(b, SHARED), Ok(()));
    assert_eq!(one.flock(a, SHARED), Err(Errno::EBADF));
}

#[test]
fn a_lock_of_a_range_belongs_to_the_process_and_is_cut_joined_and_replaced() {
    let mount = mount();
    let (one, two) = (process(&mount), process(&mount));
    let (a, b) = (open(&one), open(&two));
    assert_eq!(range(&one, a, EXCLUSIVE, 10, 20), Ok(()));
    assert_eq!(range(&one, open(&one), EXCLUSIVE, 0, 0), Ok(()), "a process is not in its own way");
    range(&one, a, LockAction::Release, 15, 5).unwrap();
    assert_eq!(range(&two, b, EXCLUSIVE, 15, 5), Ok(()), "the middle was given back");
    assert_eq!((range(&two, b, SHARED, 14, 1), range(&two, b, SHARED, 20, 1)), (HELD, HELD));
    assert_eq!(range(&one, a, SHARED, 0, 10), Ok(()), "an exclusive lock becomes a shared one");
    assert_eq!((range(&two, b, SHARED, 0, 10), range(&two, b, EXCLUSIVE, 0, 10)), (Ok(()), HELD));
    assert_eq!(range(&one, a, LockAction::Test(LockKind::Exclusive), 15, 1), HELD);
    assert_eq!(range(&two, b, EXCLUSIVE, u64::MAX, 1), Err(Errno::EINVAL));
}

#[test]
fn any_close_of_a_file_gives_back_what_the_process_has_locked_in_it_but_not_what_an_open_file_has() {
    let mount = mount();
    let (one, two) = (process(&mount), process(&mount));
    let (a, again, b) = (open(&one), open(&one), open(&two));
    range(&one, a, EXCLUSIVE, 0, 10).unwrap();
    one.lock(a, EXCLUSIVE, LockOwner::File, 20, 10).unwrap();
    assert_eq!(one.lock(again, SHARED, LockOwner::File, 25, 1), HELD, "of open files each has its own");
    one.close(again).unwrap();
    assert_eq!(range(&two, b, EXCLUSIVE, 0, 10), Ok(()));
    assert_eq!(range(&two, b, SHARED, 20, 1), HELD);
    drop(one);
    assert_eq!(range(&two, b, SHARED, 20, 1), Ok(()), "the end of a process closes its files");
}

#[test]
fn a_range_is_locked_by_the_right_with_which_the_file_was_opened() {
    let one = process(&mount());
    open(&one);
    let read = one.open(b"f", OpenFlags::READ, 0).unwrap();
    let write = one.open(b"f", OpenFlags::WRITE, 0).unwrap();
    assert_eq!(range(&one, read, EXCLUSIVE, 0, 1), Err(Errno::EBADF));
    assert_eq!(range(&one, write, SHARED, 0, 1), Err(Errno::EBADF));
    assert_eq!((range(&one, read, SHARED, 0, 1), range(&one, write, EXCLUSIVE, 5, 1)), (Ok(()), Ok(())));
}

#[test]
fn one_who_waits_goes_on_when_the_lock_is_given_back() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let waited = sim::run(&setup, || {
        let mount = mount();
        let (one, two) = (process(&mount), process(&mount));
        let (a, b) = (open(&one), open(&two));
        range(&one, a, EXCLUSIVE, 0, 0).unwrap();
        let waiter = sim::spawn(TaskSpec::named("waiter").on_core(1), move || {
            range(&two, b, LockAction::Wait(LockKind::Shared), 7, 1).unwrap();
            sim::now()
        });
        sim::sleep(Nanos::from_millis(3));
        one.close(a).unwrap();
        waiter.join()
    });
    assert!(waited.unwrap() >= Nanos::from_millis(3));
}

#[test]
fn attributes_of_an_open_file_need_no_name_and_those_of_a_link_are_its_own() {
    let one = process(&mount());
    let fd = open(&one);
    one.symlink(b"f", b"l").unwrap();
    let owner = SetAttr { uid: Some(7), ..SetAttr::default() };
    one.lsetattr(b"l", &owner).unwrap();
    assert_eq!((one.lstat(b"l").unwrap().owner.uid, one.stat(b"l").unwrap().owner.uid), (7, 0));
    let perm = SetAttr { perm: Some(0o640), ..SetAttr::default() };
    assert_eq!(one.lsetattr(b"l", &perm), Err(Errno::EOPNOTSUPP));
    assert_eq!(one.lsetattr(b"f", &perm), Ok(()), "of what is no link, those of the file");
    one.unlink(b"f").unwrap();
    let set = SetAttr { perm: Some(0o600), size: Some(9), ..owner };
    one.fsetattr(fd, &set).unwrap();
    let found = one.fstat(fd).unwrap();
    assert_eq!((found.perm, found.size, found.owner.uid), (0o600, 9, 7));
}
