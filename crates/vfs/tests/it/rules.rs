//! The rules of POSIX and Linux, one test each; the name is the rule. `differential.rs` compares at random
//! with the kernel.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::memfs::MemFs;
use sim::{Machine, Nanos, Seed, Setup, TaskSpec};
use vfs::{
    AccessTimes, Credentials, Errno, Fd, FileKind, Host, HostError, Limits, Mount, MountOptions, OpenFlags,
    Process, RenameFlags, SeekTo, SetAttr, SetTime, Syscalls, Timestamp, Whence,
};

const READ: OpenFlags = OpenFlags::READ;
const WRITE: OpenFlags = OpenFlags::WRITE;
const READ_WRITE: OpenFlags = READ.union(WRITE);
const MAKE: OpenFlags = READ_WRITE.union(OpenFlags::CREATE);

struct World {
    fs: Arc<MemFs>,
    mount: Arc<Mount>,
    root: Process,
}

impl World {
    fn new() -> Self {
        Self::with(MountOptions::default())
    }

    fn with(options: MountOptions) -> Self {
        let fs = Arc::new(MemFs::new());
        let mount = Mount::new(fs.clone(), options).expect("it has a root");
        let root = Process::new(Arc::clone(&mount), Credentials::root());
        Self { fs, mount, root }
    }

    /// A process of an ordinary user.
    fn user(&self, uid: u32) -> Process {
        Process::new(Arc::clone(&self.mount), Credentials::new(uid, uid, &[]))
    }

    fn limited(&self, limits: Limits) -> Process {
        Process::with_limits(Arc::clone(&self.mount), Credentials::root(), limits)
    }

    fn file(&self, path: &str, mode: u32, data: &[u8]) {
        let fd = self.root.open(path.as_bytes(), MAKE, 0o600).expect("a new file");
        self.root.pwrite(fd, data, 0).expect("space");
        self.root.close(fd).expect("it is open");
        self.chmod(path, mode);
    }

    fn chmod(&self, path: &str, mode: u32) {
        self.root.setattr(path.as_bytes(), &perm(mode)).expect("root may");
    }

    fn chown(&self, path: &str, uid: u32) {
        let set = SetAttr { uid: Some(uid), gid: Some(uid), ..SetAttr::default() };
        self.root.setattr(path.as_bytes(), &set).expect("root may");
    }

    fn mode(&self, path: &str) -> u32 {
        self.root.stat(path.as_bytes()).expect("it is there").perm
    }
}

fn perm(mode: u32) -> SetAttr {
    SetAttr { perm: Some(mode), ..SetAttr::default() }
}

fn names(process: &Process, fd: Fd) -> Vec<String> {
    let mut names = Vec::new();
    process
        .getdents(fd, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        })
        .expect("a directory");
    names
}

// ---- paths ----

#[test]
fn forty_symbolic_links_are_followed_and_one_more_is_a_loop() {
    let World { root, .. } = &World::new();
    root.mkdir(b"/l0", 0o755).expect("new");
    for n in 1..=41 {
        root.symlink(format!("l{}", n - 1).as_bytes(), format!("/l{n}").as_bytes()).expect("new");
    }
    assert_eq!(root.stat(b"/l40").map(|attr| attr.kind), Ok(FileKind::Directory));
    assert_eq!(root.stat(b"/l41"), Err(Errno::ELOOP));
    assert_eq!(root.lstat(b"/l41").map(|attr| attr.kind), Ok(FileKind::Symlink));
}

#[test]
fn names_end_at_255_bytes_and_paths_at_4095() {
    let World { root, .. } = &World::new();
    let name = |len| "n".repeat(len).into_bytes();
    assert_eq!(root.mkdir(&name(255), 0o755), Ok(()));
    assert_eq!(root.mkdir(&name(256), 0o755), Err(Errno::ENAMETOOLONG));
    assert_eq!(root.stat(&b"./".repeat(2047)).map(|attr| attr.kind), Ok(FileKind::Directory));
    assert_eq!(root.stat(&b"./".repeat(2048)), Err(Errno::ENAMETOOLONG));
    assert_eq!(root.symlink(&name(4096), b"/s"), Err(Errno::ENAMETOOLONG));
    assert_eq!(root.stat(b"a\0b"), Err(Errno::EINVAL));
}

#[test]
fn a_directory_that_may_not_be_searched_hides_what_is_below_it() {
    let world = World::new();
    world.root.mkdir(b"/d", 0o755).expect("new");
    world.file("/d/f", 0o666, b"");
    let user = world.user(1000);
    assert!(user.stat(b"/d/f").is_ok());
    world.chmod("/d", 0o644);
    assert_eq!(user.stat(b"/d/f"), Err(Errno::EACCES), "also when the path is cached");
    assert!(world.root.stat(b"/d/f").is_ok());
}

#[test]
fn dot_dot_follows_a_directory_that_was_moved() {
    let World { root, .. } = &World::new();
    for dir in ["/a", "/b", "/a/in"] {
        root.mkdir(dir.as_bytes(), 0o755).expect("new");
    }
    root.mkdir(b"/b/mark", 0o755).expect("new");
    root.chdir(b"/a/in").expect("a directory");
    assert_eq!(root.stat(b"../mark"), Err(Errno::ENOENT));
    root.rename(b"/a/in", b"/b/in", RenameFlags::empty()).expect("free");
    assert!(root.stat(b"../mark").is_ok());
    assert_eq!(root.stat(b"/../..").map(|attr| attr.ino), root.stat(b"/").map(|attr| attr.ino));
}

#[test]
fn a_removed_working_directory_takes_no_names_and_keeps_its_way_up() {
    let World { root, fs, .. } = &World::new();
    root.mkdir(b"/d", 0o755).expect("new");
    root.chdir(b"/d").expect("a directory");
    root.rmdir(b"/d").expect("empty");
    root.mkdir(b"/other", 0o755).expect("new");
    assert_eq!(root.open(b"f", MAKE, 0o644), Err(Errno::ENOENT));
    assert_eq!(root.mkdir(b"f", 0o755), Err(Errno::ENOENT));
    assert_eq!(root.stat(b"f"), Err(Errno::ENOENT));
    assert_eq!(root.stat(b".").map(|attr| attr.nlink), Ok(0));
    assert!(root.stat(b"../other").is_ok());
    let before = fs.inodes();
    root.chdir(b"/").expect("a directory");
    assert_eq!(fs.inodes(), before - 1, "it is freed when it is no working directory");
}

#[test]
fn rename_refuses_to_exchange_and_not_to_replace_at_once() {
    let World { root, .. } = &World::new();
    let both = RenameFlags::NOREPLACE | RenameFlags::EXCHANGE;
    assert_eq!(root.rename(b"a/a", b"", both), Err(Errno::EINVAL));
}

#[test]
fn exchanged_directories_know_their_new_parents() {
    let World { root, .. } = &World::new();
    for dir in ["/a", "/b", "/a/x", "/b/y", "/a/here_a"] {
        root.mkdir(dir.as_bytes(), 0o755).expect("new");
    }
    root.rename(b"/a/x", b"/b/y", RenameFlags::EXCHANGE).expect("both are there");
    assert!(root.stat(b"/a/x/../here_a").is_ok());
    assert_eq!(root.stat(b"/b/y/../here_a"), Err(Errno::ENOENT));
}

// ---- descriptors ----

#[test]
fn a_duplicate_shares_the_offset_and_outlives_the_original() {
    let World { root, fs, .. } = &World::new();
    let fd = root.open(b"/f", MAKE, 0o644).expect("new");
    let copy = root.dup(fd).expect("a number is free");
    assert_eq!((fd, copy), (Fd(0), Fd(1)));
    root.write(fd, b"abc").expect("space");
    root.write(copy, b"def").expect("space");
    root.close(fd).expect("open");
    assert_eq!(root.fstat(fd), Err(Errno::EBADF));
    let mut buffer = [0; 8];
    assert_eq!(root.pread(copy, &mut buffer, 0), Ok(6));
    assert_eq!(&buffer[..6], b"abcdef");
    assert_eq!(fs.opens(), 1);
    root.close(copy).expect("open");
    assert_eq!(fs.opens(), 0);
}

#[test]
fn without_a_free_descriptor_nothing_is_made() {
    let world = World::new();
    let process = world.limited(Limits { descriptors: 1, ..Limits::default() });
    let fd = process.open(b"/a", MAKE, 0o644).expect("new");
    assert_eq!(process.open(b"/b", MAKE, 0o644), Err(Errno::EMFILE));
    assert_eq!(process.dup(fd), Err(Errno::EMFILE));
    assert_eq!(process.stat(b"/b"), Err(Errno::ENOENT));
    assert_eq!(process.open(b"/missing", READ, 0), Err(Errno::EMFILE));
    process.close(fd).expect("open");
    assert_eq!(process.open(b"/missing", READ, 0), Err(Errno::ENOENT));
    assert_eq!(process.open(b"/a", READ, 0), Ok(fd), "a failed open gives its number back");
}

#[test]
fn an_unlinked_open_file_stays_whole_and_its_number_is_not_given_away() {
    let World { root, fs, .. } = &World::new();
    let fd = root.open(b"/f", MAKE, 0o644).expect("new");
    root.write(fd, b"still here").expect("space");
    let ino = root.fstat(fd).expect("open").ino;
    root.unlink(b"/f").expect("there");
    let other = root.open(b"/f", MAKE, 0o644).expect("new");
    assert_ne!(root.fstat(other).expect("open").ino, ino);
    let mut buffer = [0; 10];
    assert_eq!(root.pread(fd, &mut buffer, 0), Ok(10));
    assert_eq!((&buffer, root.fstat(fd).expect("open").nlink), (b"still here", 0));
    let before = fs.inodes();
    root.close(fd).expect("open");
    assert_eq!((fs.inodes(), fs.opens()), (before - 1, 1));
}

#[test]
fn a_nameless_file_lives_as_long_as_it_is_open() {
    let World { root, fs, .. } = &World::new();
    let before = fs.inodes();
    let fd = root.open(b"/", READ_WRITE | OpenFlags::TMPFILE, 0o600).expect("a directory");
    assert_eq!(root.write(fd, b"x"), Ok(1));
    assert_eq!(root.fstat(fd).map(|attr| (attr.nlink, attr.perm)), Ok((0, 0o600)));
    root.close(fd).expect("open");
    assert_eq!(fs.inodes(), before);
}

#[test]
fn a_path_descriptor_is_good_for_stat_only() {
    let World { root, fs, .. } = &World::new();
    root.symlink(b"nowhere", b"/s").expect("new");
    let fd = root.open(b"/s", OpenFlags::PATH | OpenFlags::NOFOLLOW, 0).expect("the link itself");
    assert_eq!(root.fstat(fd).map(|attr| attr.kind), Ok(FileKind::Symlink));
    assert_eq!(root.read(fd, &mut [0]), Err(Errno::EBADF));
    assert_eq!(root.fsync(fd), Err(Errno::EBADF));
    assert_eq!(fs.opens(), 0);
    root.close(fd).expect("open");
}

#[test]
fn a_process_that_ends_closes_its_files() {
    let world = World::new();
    let process = world.user(0);
    process.open(b"/f", MAKE, 0o644).expect("new");
    process.open(b"/", READ, 0).expect("there");
    assert_eq!(world.fs.opens(), 2);
    drop(process);
    assert_eq!(world.fs.opens(), 0);
}

// ---- reading and writing ----

#[test]
fn two_writers_at_one_offset_never_overwrite_each_other() {
    const WRITERS: u16 = 4;
    const EACH: usize = 100;
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let all = sim::run(&setup, || {
        let root = Arc::new(World::new().root);
        let fd = root.open(b"/f", MAKE, 0o644).expect("new");
        let write = |n: u16| {
            let root = Arc::clone(&root);
            sim::spawn(TaskSpec::named(format!("w{n}")).on_core(n), move || {
                (0..EACH).for_each(|_| assert_eq!(root.write(fd, &[n as u8; 10]), Ok(10)));
            })
        };
        let writers: Vec<_> = (1..=WRITERS).map(write).collect();
        for writer in writers {
            writer.join();
        }
        let mut all = vec![0; usize::from(WRITERS) * EACH * 10];
        assert_eq!(root.pread(fd, &mut all, 0), Ok(all.len()));
        all
    });
    let all = all.expect("the run ends");
    for n in 1..=WRITERS {
        assert_eq!(all.chunks(10).filter(|record| *record == [n as u8; 10]).count(), EACH, "writer {n}");
    }
}

#[test]
fn append_writes_at_the_end_wherever_the_offset_is() {
    let World { root, .. } = &World::new();
    let fd = root.open(b"/f", MAKE | OpenFlags::APPEND, 0o644).expect("new");
    root.write(fd, b"one").expect("space");
    root.lseek(fd, 0, Whence::Set).expect("a file");
    root.write(fd, b"two").expect("space");
    assert_eq!(root.lseek(fd, 0, Whence::Current), Ok(6));
    assert_eq!(root.pwrite(fd, b"!", 0), Ok(1), "as Linux does it");
    assert_eq!(root.fstat(fd).map(|attr| attr.size), Ok(7));
}

#[test]
fn a_write_stops_at_the_limit_of_sizes() {
    let world = World::new();
    let process = world.limited(Limits { file_size: 100, ..Limits::default() });
    let fd = process.open(b"/f", MAKE, 0o644).expect("new");
    assert_eq!(process.pwrite(fd, &[1; 50], 80), Ok(20));
    assert_eq!(process.pwrite(fd, &[1], 100), Err(Errno::EFBIG));
    assert_eq!(process.ftruncate(fd, 101), Err(Errno::EFBIG));
    assert_eq!(process.pwrite(fd, &[1; 2], i64::MAX as u64 - 1), Err(Errno::EINVAL));
    let appending = process.open(b"/f", WRITE | OpenFlags::APPEND, 0).expect("there");
    assert_eq!(process.write(appending, b"x"), Err(Errno::EFBIG));
}

#[test]
fn holes_are_found_and_read_as_zeros() {
    let World { root, .. } = &World::new();
    let fd = root.open(b"/f", MAKE, 0o644).expect("new");
    root.pwrite(fd, b"x", 3 * 4096).expect("space");
    assert_eq!(root.lseek(fd, 0, Whence::Find(SeekTo::Data)), Ok(3 * 4096));
    assert_eq!(root.lseek(fd, 0, Whence::Find(SeekTo::Hole)), Ok(0));
    assert_eq!(root.lseek(fd, 3 * 4096 + 1, Whence::Find(SeekTo::Hole)), Err(Errno::ENXIO));
    let mut buffer = [9; 4096];
    assert_eq!(root.pread(fd, &mut buffer, 0), Ok(4096));
    assert!(buffer.iter().all(|byte| *byte == 0));
}

#[test]
fn a_directory_is_read_on_from_where_the_reader_stopped_whatever_changed() {
    let World { root, .. } = &World::new();
    root.mkdir(b"/d", 0o755).expect("new");
    for n in 0..200 {
        root.mknod(format!("/d/{n}").as_bytes(), FileKind::Regular, 0o644, 0).expect("new");
    }
    let fd = root.open(b"/d", READ, 0).expect("there");
    let mut first = Vec::new();
    let mut some = |entry: vfs::DirEntry<'_>| {
        first.push(String::from_utf8_lossy(entry.name).into_owned());
        first.len() < 100
    };
    root.getdents(fd, &mut some).expect("a directory");
    for gone in ["/d/3", "/d/150"] {
        root.unlink(gone.as_bytes()).expect("there");
    }
    root.mknod(b"/d/new", FileKind::Regular, 0o644, 0).expect("new");
    let rest = names(root, fd);
    for n in (0..200).filter(|n| ![3, 150].contains(n)).map(|n| n.to_string()) {
        assert_eq!(first.iter().chain(&rest).filter(|name| **name == n).count(), 1, "{n}");
    }
    assert!(names(root, fd).is_empty());
    root.lseek(fd, 0, Whence::Set).expect("rewinds");
    assert_eq!(names(root, fd).len(), 2 + 199);
}

// ---- permission ----

#[test]
fn only_owners_take_names_out_of_a_sticky_directory() {
    let world = World::new();
    world.root.mkdir(b"/tmp", 0).expect("new");
    world.chmod("/tmp", 0o1777);
    let (owner, other) = (world.user(1), world.user(2));
    owner.open(b"/tmp/f", MAKE, 0o666).expect("new");
    assert_eq!(other.unlink(b"/tmp/f"), Err(Errno::EPERM));
    assert_eq!(other.rename(b"/tmp/f", b"/tmp/g", RenameFlags::empty()), Err(Errno::EPERM));
    assert_eq!(owner.unlink(b"/tmp/f"), Ok(()));
}

#[test]
fn a_write_by_another_user_clears_set_user_id() {
    let world = World::new();
    world.file("/f", 0o6777, b"");
    let user = world.user(1000);
    let fd = user.open(b"/f", WRITE, 0).expect("all may write");
    assert_eq!(user.pwrite(fd, b"", 0), Ok(0));
    assert_eq!(world.mode("/f"), 0o6777, "writing nothing changes nothing");
    user.pwrite(fd, b"x", 0).expect("space");
    assert_eq!(world.mode("/f"), 0o777);
    world.chmod("/f", 0o4777);
    user.pwrite(fd, b"x", 0).expect("space");
    assert_eq!(world.mode("/f"), 0o777, "the open file sees bits that were given later");
    world.chmod("/f", 0o4777);
    world.root.truncate(b"/f", 0).expect("root may");
    assert_eq!(world.mode("/f"), 0o4777, "root leaves them");
}

#[test]
fn chown_clears_set_user_id_even_for_root() {
    let world = World::new();
    world.file("/f", 0o4755, b"");
    world.chown("/f", 7);
    assert_eq!(world.mode("/f"), 0o755);
}

#[test]
fn names_in_a_set_group_id_directory_get_its_group() {
    let world = World::new();
    world.root.mkdir(b"/d", 0).expect("new");
    world.chown("/d", 50);
    world.chmod("/d", 0o2777);
    let user = world.user(1000);
    user.mkdir(b"/d/sub", 0o755).expect("new");
    user.open(b"/d/f", MAKE, 0o2755).expect("new");
    let (sub, file) = (world.root.stat(b"/d/sub").expect("there"), world.root.stat(b"/d/f").expect("there"));
    assert_eq!((sub.owner.gid, sub.perm), (50, 0o2755));
    assert_eq!((file.owner.gid, file.perm), (50, 0o755), "the bit of a file is lost outside the group");
}

#[test]
fn the_umask_takes_bits_from_what_is_made() {
    let World { root, .. } = &World::new();
    assert_eq!(Syscalls::umask(root, 0o027), 0o022);
    root.mkdir(b"/d", 0o777).expect("new");
    root.open(b"/f", MAKE, 0o666).expect("new");
    assert_eq!(root.stat(b"/d").map(|attr| attr.perm), Ok(0o750));
    assert_eq!(root.stat(b"/f").map(|attr| attr.perm), Ok(0o640));
    root.symlink(b"x", b"/s").expect("new");
    assert_eq!(root.lstat(b"/s").map(|attr| attr.perm), Ok(0o777));
}

#[test]
fn the_maker_of_a_file_may_write_it_whatever_its_bits() {
    let world = World::new();
    world.chmod("/", 0o777);
    let user = world.user(1000);
    let fd = user.open(b"/f", MAKE, 0o444).expect("new");
    assert_eq!(user.write(fd, b"x"), Ok(1));
    assert_eq!(user.open(b"/f", WRITE, 0), Err(Errno::EACCES));
}

#[test]
fn times_may_be_set_by_the_owner_and_to_now_by_every_writer() {
    let world = World::new();
    world.file("/f", 0o666, b"");
    let user = world.user(1000);
    let now = SetAttr { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..SetAttr::default() };
    let then = SetAttr { mtime: Some(SetTime::To(Timestamp { secs: 1, nanos: 0 })), ..SetAttr::default() };
    assert_eq!(user.setattr(b"/f", &now), Ok(()));
    assert_eq!(user.setattr(b"/f", &then), Err(Errno::EPERM));
    world.chmod("/f", 0o644);
    assert_eq!(user.setattr(b"/f", &now), Err(Errno::EACCES));
}

#[test]
fn a_read_only_mount_refuses_every_change() {
    let world = World::with(MountOptions { read_only: true, ..MountOptions::default() });
    let root = &world.root;
    assert_eq!(root.open(b"/f", MAKE, 0o644), Err(Errno::EROFS));
    assert_eq!(root.mkdir(b"/d", 0o755), Err(Errno::EROFS));
    assert_eq!(root.setattr(b"/", &perm(0o700)), Err(Errno::EROFS));
    assert!(root.open(b"/", READ, 0).is_ok());
}

#[test]
fn a_read_only_mount_refuses_to_take_names_away_before_it_looks_for_them() {
    let world = World::with(MountOptions { read_only: true, ..MountOptions::default() });
    let (root, long) = (&world.root, "n".repeat(256).into_bytes());
    for path in [b"/missing".as_slice(), b"/missing/", &long] {
        assert_eq!(root.unlink(path), Err(Errno::EROFS));
        assert_eq!(root.rmdir(path), Err(Errno::EROFS));
        assert_eq!(root.rename(path, path, RenameFlags::empty()), Err(Errno::EROFS));
    }
    assert_eq!(root.rename(b"/.", b"/x", RenameFlags::empty()), Err(Errno::EBUSY));
    assert_eq!(root.rmdir(b"/."), Err(Errno::EINVAL));
    assert_eq!(root.unlink(b"/."), Err(Errno::EISDIR));
}

// ---- access times ----

/// The access time in years: long ago, or now.
fn access_after_read(options: MountOptions, flags: OpenFlags) -> (bool, bool) {
    let world = World::with(options);
    world.file("/f", 0o644, b"data");
    let age = || SetAttr { atime: Some(SetTime::To(Timestamp::default())), ..SetAttr::default() };
    let read = || {
        let fd = world.root.open(b"/f", flags, 0).expect("there");
        world.root.read(fd, &mut [0; 4]).expect("data");
        world.root.close(fd).expect("open");
        world.root.stat(b"/f").expect("there").atime > Timestamp::default()
    };
    world.root.setattr(b"/f", &age()).expect("root may");
    let once = read();
    // Behind the mount's back: what tells whether a second read sets it again.
    vfs::FileSystem::setattr(&*world.fs, world.root.stat(b"/f").expect("there").ino, &age())
        .expect("it is there");
    (once, read())
}

#[test]
fn relative_access_times_are_set_once_after_each_change() {
    assert_eq!(access_after_read(MountOptions::default(), READ), (true, false));
}

#[test]
fn strict_access_times_are_set_by_every_read() {
    let options = MountOptions { access_times: AccessTimes::Strict, ..MountOptions::default() };
    assert_eq!(access_after_read(options, READ), (true, true));
}

#[test]
fn access_times_stay_when_the_mount_or_the_open_says_so() {
    let never = MountOptions { access_times: AccessTimes::Never, ..MountOptions::default() };
    assert_eq!(access_after_read(never, READ), (false, false));
    assert_eq!(access_after_read(MountOptions::default(), READ | OpenFlags::NOATIME), (false, false));
}

#[test]
fn reading_no_bytes_is_no_access() {
    let world = World::new();
    world.file("/f", 0o644, b"data");
    let age = SetAttr { atime: Some(SetTime::To(Timestamp::default())), ..SetAttr::default() };
    world.root.setattr(b"/f", &age).expect("root may");
    let fd = world.root.open(b"/f", READ, 0).expect("there");
    assert_eq!(world.root.read(fd, &mut []), Ok(0));
    assert_eq!(world.root.fstat(fd).map(|attr| attr.atime), Ok(Timestamp::default()));
}

#[test]
fn following_a_symbolic_link_marks_its_access_time() {
    let world = World::new();
    world.file("/f", 0o644, b"data");
    world.root.symlink(b"f", b"/s").expect("new");
    let ino = world.root.lstat(b"/s").expect("there").ino;
    let age = SetAttr { atime: Some(SetTime::To(Timestamp::default())), ..SetAttr::default() };
    vfs::FileSystem::setattr(&*world.fs, ino, &age).expect("it is there");
    world.root.lstat(b"/s").expect("there");
    assert_eq!(world.root.lstat(b"/s").map(|attr| attr.atime), Ok(Timestamp::default()));
    world.root.stat(b"/s").expect("there");
    assert!(world.root.lstat(b"/s").expect("there").atime > Timestamp::default());
}

// ---- threads that panic ----

#[test]
fn a_thread_that_panics_closes_its_files() {
    let world = World::new();
    let process = world.user(0);
    process.open(b"/f", MAKE, 0o644).expect("new");
    process.unlink(b"/f").expect("there");
    let (before, opens) = (world.fs.inodes(), world.fs.opens());
    let thread = std::thread::spawn(move || {
        let _process = process;
        panic!("as planned");
    });
    assert!(thread.join().is_err() && opens > 0);
    assert_eq!((world.fs.opens(), world.fs.inodes()), (0, before - 1));
}

/// Removes a file when it is dropped.
struct Temporary(Arc<Process>);

impl Drop for Temporary {
    fn drop(&mut self) {
        self.0.unlink(b"/f").expect("it is there");
    }
}

#[test]
fn a_thread_that_panics_wakes_those_that_wait_for_a_name_that_it_changes() {
    let setup = Setup::real_clock(Machine::unit(), Seed(1));
    let answer = sim::run(&setup, || {
        let World { fs, root, .. } = World::new();
        root.open(b"/f", MAKE, 0o644).expect("new");
        fs.takes_ns[0].store(Nanos::from_millis(300).0, Relaxed);
        let (run, root) = (sim::Handle::current().expect("a real run"), Arc::new(root));
        let temporary = Temporary(Arc::clone(&root));
        let removing = std::thread::spawn(move || {
            let _attached = run.attach(TaskSpec::named("removing"));
            let _temporary = temporary;
            panic!("as planned");
        });
        // The name is claimed from here on, for as long as the removal takes.
        while fs.unlinks.load(Relaxed) == 0 {
            sim::sleep(Nanos::from_millis(1));
        }
        let (answer, answered) = std::sync::mpsc::channel();
        std::thread::spawn(move || answer.send(root.stat(b"/f")));
        assert!(removing.join().is_err());
        answered.recv_timeout(std::time::Duration::from_secs(20))
    });
    assert_eq!(answer.expect("the run ends"), Ok(Err(Errno::ENOENT)));
}

// ---- the host ----

#[test]
fn a_host_directory_is_refused_under_the_virtual_clock() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let error = sim::run(&setup, || Host::new(&std::env::temp_dir()).err()).expect("the run ends");
    assert!(matches!(error, Some(HostError::VirtualClock(_))), "{error:?}");
    assert!(error.is_some_and(|error| error.to_string().contains("--clock real")));
}

#[test]
fn a_host_directory_that_is_missing_is_named() {
    let error = Host::new("/no/such/directory".as_ref()).expect_err("it does not exist");
    assert!(error.to_string().contains("/no/such/directory"), "{error}");
}

#[test]
fn a_confined_host_stays_below_its_directory() {
    let scratch = tempfile::tempdir().expect("scratch space");
    let inside = scratch.path().join("inside");
    std::fs::create_dir(&inside).expect("scratch space");
    std::fs::write(scratch.path().join("outside"), "secret").expect("scratch space");
    let host = Host::confined(&inside).expect("there");
    host.symlink(b"../outside", b"/up").expect("new");
    host.symlink(scratch.path().join("outside").as_os_str().as_encoded_bytes(), b"/absolute").expect("new");
    for path in ["../outside", "/../outside", "up", "absolute"] {
        assert_eq!(host.stat(path.as_bytes()), Err(Errno::ENOENT), "{path}");
        assert_eq!(host.open(path.as_bytes(), READ, 0), Err(Errno::ENOENT), "{path}");
    }
    assert_eq!(host.unlink(b"../outside"), Err(Errno::ENOENT));
    assert!(scratch.path().join("outside").exists());
}
