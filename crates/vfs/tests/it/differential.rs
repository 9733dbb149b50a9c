//! A process on the reference file system against the real kernel: the same calls, the same answers.
//!
//! Random sequences of calls run through `Process` on `MemFs` and through `Host` on a scratch directory, call
//! by call; every result and every errno must agree, and the trees at the end. Run as root, three users take
//! turns: root, one user with a supplementary group, and another user; otherwise only the user who runs the
//! tests. A failure prints the shortest sequence that proptest found, as code that can be pasted into a test.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::memfs::MemFs;
use proptest::prelude::*;
use proptest::sample::select;
use vfs::{
    Attr, Credentials, Errno, FallocateMode, Fd, FileKind, Host, Mount, MountOptions, OpenFlags, Owner,
    Process, RenameFlags, SeekTo, SetAttr, SetTime, Syscalls, Timestamp, Whence, XattrMode,
};

/// A call of one of the users.
#[derive(Clone, Debug)]
struct Step {
    user: usize,
    call: Call,
}

type Path_ = String;

#[derive(Clone, Debug)]
enum Call {
    Open(Path_, OpenFlags, u32),
    Close(u32),
    Dup(u32),
    Read(u32, usize),
    Write(u32, usize),
    Pread(u32, usize, u64),
    Pwrite(u32, usize, u64),
    Seek(u32, i64, Whence),
    Fsync(u32),
    Fstat(u32),
    Ftruncate(u32, u64),
    Fallocate(u32, FallocateMode, u64, u64),
    List(u32),
    Stat(Path_),
    Lstat(Path_),
    Mkdir(Path_, u32),
    Rmdir(Path_),
    Mknod(Path_, FileKind, u32),
    Unlink(Path_),
    Rename(Path_, Path_, RenameFlags),
    Link(Path_, Path_),
    Symlink(Path_, Path_),
    Readlink(Path_),
    Truncate(Path_, u64),
    Setattr(Path_, SetAttr),
    Getxattr(Path_, String),
    Setxattr(Path_, String, usize, XattrMode),
    Listxattr(Path_),
    Removexattr(Path_, String),
    Chdir(Path_),
    Umask(u32),
}

// ---- what is generated ----

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        24 => select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned),
        2 => select(vec![".", ".."]).prop_map(str::to_owned),
        1 => select(vec![255, 256]).prop_map(|len| "n".repeat(len)),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let parts = prop::collection::vec(name(), 1..4);
    let slash = || prop_oneof![8 => Just(""), 1 => Just("/"), 1 => Just("//")];
    let built = (slash(), parts, prop_oneof![20 => Just("/"), 1 => Just("//")], slash());
    prop_oneof![
        40 => built.prop_map(|(front, parts, between, back)| format!("{front}{}{back}", parts.join(between))),
        1 => select(vec!["", "/", "//", ".", ".."]).prop_map(str::to_owned),
    ]
}

fn open_flags() -> impl Strategy<Value = OpenFlags> {
    let access = prop_oneof![
        4 => Just(OpenFlags::READ),
        2 => Just(OpenFlags::WRITE),
        6 => Just(OpenFlags::READ | OpenFlags::WRITE),
    ];
    let rare = |flag| prop_oneof![9 => Just(OpenFlags::empty()), 1 => Just(flag)];
    let often = |flag| prop_oneof![1 => Just(OpenFlags::empty()), 1 => Just(flag)];
    let parts = (
        access,
        often(OpenFlags::CREATE),
        rare(OpenFlags::EXCLUSIVE),
        rare(OpenFlags::TRUNCATE),
        rare(OpenFlags::APPEND),
        rare(OpenFlags::DIRECTORY),
        rare(OpenFlags::NOFOLLOW),
        rare(OpenFlags::PATH),
        rare(OpenFlags::NOATIME),
        rare(OpenFlags::TMPFILE),
    );
    parts.prop_map(|(a, b, c, d, e, f, g, h, i, j)| a | b | c | d | e | f | g | h | i | j)
}

/// Whether the host refuses more in sticky directories that all may write to than its kernel does by itself (sysctl
/// fs.protected_*).
fn host_protects_sticky_directories() -> bool {
    ["symlinks", "regular", "fifos"].iter().any(|what| {
        let level = std::fs::read_to_string(format!("/proc/sys/fs/protected_{what}"));
        level.is_ok_and(|level| level.trim() != "0")
    })
}

fn mode() -> impl Strategy<Value = u32> {
    let sticky = if host_protects_sticky_directories() { 0o1755 } else { 0o1777 };
    select(vec![
        0o777, 0o755, 0o700, 0o644, 0o666, sticky, 0o2775, 0o6755, 0o2644, 0o4711, 0o000, 0o070, 0o007,
    ])
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..20_000u64, 1 => select(vec![u64::MAX, 1 << 63])]
}

fn set_attr() -> impl Strategy<Value = SetAttr> {
    let time = || {
        let to = (0..2_000_000_000i64).prop_map(|secs| SetTime::To(Timestamp { secs, nanos: 7 }));
        prop_oneof![Just(None), Just(Some(SetTime::Now)), to.prop_map(Some)]
    };
    let id = || prop_oneof![Just(None), select(vec![0, USERS[1].0, USERS[2].0, GROUP]).prop_map(Some)];
    prop_oneof![
        3 => mode().prop_map(|perm| SetAttr { perm: Some(perm), ..SetAttr::default() }),
        2 => (id(), id()).prop_map(|(uid, gid)| SetAttr { uid, gid, ..SetAttr::default() }),
        1 => (time(), time()).prop_map(|(atime, mtime)| SetAttr { atime, mtime, ..SetAttr::default() }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let fd = || 0..5u32;
    let len = || 0..9000usize;
    prop_oneof![
        12 => (path(), open_flags(), mode()).prop_map(|(p, f, m)| Call::Open(p, f, m)),
        4 => fd().prop_map(Call::Close),
        1 => fd().prop_map(Call::Dup),
        3 => (fd(), len()).prop_map(|(f, n)| Call::Read(f, n)),
        3 => (fd(), len()).prop_map(|(f, n)| Call::Write(f, n)),
        2 => (fd(), len(), offset()).prop_map(|(f, n, o)| Call::Pread(f, n, o)),
        3 => (fd(), len(), offset()).prop_map(|(f, n, o)| Call::Pwrite(f, n, o)),
        2 => (fd(), -100..20_000i64, whence()).prop_map(|(f, o, w)| Call::Seek(f, o, w)),
        1 => fd().prop_map(Call::Fsync),
        2 => fd().prop_map(Call::Fstat),
        2 => (fd(), offset()).prop_map(|(f, s)| Call::Ftruncate(f, s)),
        2 => (fd(), 0..4u32, offset(), 0..9000u64)
            .prop_map(|(f, m, o, n)| Call::Fallocate(f, FallocateMode::from_bits_truncate(m), o, n)),
        2 => fd().prop_map(Call::List),
        4 => path().prop_map(Call::Stat),
        2 => path().prop_map(Call::Lstat),
        8 => (path(), mode()).prop_map(|(p, m)| Call::Mkdir(p, m)),
        4 => path().prop_map(Call::Rmdir),
        2 => (path(), select(vec![FileKind::Regular, FileKind::Fifo, FileKind::Socket, FileKind::CharDevice]), mode())
            .prop_map(|(p, k, m)| Call::Mknod(p, k, m)),
        6 => path().prop_map(Call::Unlink),
        8 => (path(), path(), prop_oneof![6 => Just(0), 1 => Just(1), 2 => Just(2)])
            .prop_map(|(a, b, f)| Call::Rename(a, b, RenameFlags::from_bits_truncate(f))),
        4 => (path(), path()).prop_map(|(a, b)| Call::Link(a, b)),
        4 => (path(), path()).prop_map(|(a, b)| Call::Symlink(a, b)),
        1 => path().prop_map(Call::Readlink),
        2 => (path(), offset()).prop_map(|(p, s)| Call::Truncate(p, s)),
        6 => (path(), set_attr()).prop_map(|(p, s)| Call::Setattr(p, s)),
        1 => (path(), xattr()).prop_map(|(p, x)| Call::Getxattr(p, x)),
        2 => (path(), xattr(), 0..50usize, select(vec![XattrMode::Set, XattrMode::Create, XattrMode::Replace]))
            .prop_map(|(p, x, n, m)| Call::Setxattr(p, x, n, m)),
        1 => path().prop_map(Call::Listxattr),
        1 => (path(), xattr()).prop_map(|(p, x)| Call::Removexattr(p, x)),
        2 => path().prop_map(Call::Chdir),
        1 => select(vec![0, 0o022, 0o077]).prop_map(Call::Umask),
    ]
}

fn whence() -> impl Strategy<Value = Whence> {
    let find = [Whence::Find(SeekTo::Data), Whence::Find(SeekTo::Hole)];
    select([[Whence::Set, Whence::Current].as_slice(), &[Whence::End], &find].concat())
}

fn xattr() -> impl Strategy<Value = String> {
    let names = ["user.one", "user.two", "user.", "user", "trusted.x", "nowhere.x", "", "x"];
    prop_oneof![20 => select(names.to_vec()).prop_map(str::to_owned), 1 => Just(format!("user.{}", "x".repeat(251)))]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let user = prop_oneof![4 => Just(0), 3 => Just(1), 2 => Just(2)];
    prop::collection::vec((user, call()).prop_map(|(user, call)| Step { user, call }), 1..80)
}

// ---- doing a call, and recording its result ----

fn describe(attr: &Attr) -> String {
    let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
    let Owner { uid, gid } = attr.owner;
    format!(
        "{:?} {:o} links {} of {uid}:{gid} size {size} dev {}",
        attr.kind, attr.perm, attr.nlink, attr.rdev
    )
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + len) as u8).collect()
}

fn list(calls: &dyn Syscalls, fd: Fd) -> Result<Vec<String>, Errno> {
    calls.lseek(fd, 0, Whence::Set)?;
    let mut names = Vec::new();
    loop {
        let before = names.len();
        calls.getdents(fd, &mut |entry| {
            names.push(format!("{:?} {}", entry.kind, String::from_utf8_lossy(entry.name)));
            true
        })?;
        if names.len() == before {
            names.sort();
            return Ok(names);
        }
    }
}

/// What a program sees of the call.
fn perform(calls: &dyn Syscalls, call: &Call) -> String {
    let done = match call {
        // The kernel waits for a process at the other end of a FIFO, and has drivers for devices.
        Call::Open(path, ..) if calls.stat(path.as_bytes()).is_ok_and(|attr| is_special(attr.kind)) => {
            Ok(String::new())
        }
        Call::Open(path, flags, mode) => {
            calls.open(path.as_bytes(), *flags, *mode).map(|fd| format!("{fd:?}"))
        }
        Call::Close(fd) => calls.close(Fd(*fd)).map(unit),
        Call::Dup(fd) => calls.dup(Fd(*fd)).map(|fd| format!("{fd:?}")),
        // The meaning of directory offsets is up to the file system.
        Call::Seek(fd, ..) | Call::Read(fd, _) if is_directory(calls, Fd(*fd)) => Ok(String::new()),
        Call::Read(fd, len) => read_with(*len, |buffer| calls.read(Fd(*fd), buffer)),
        Call::Write(fd, len) => calls.write(Fd(*fd), &bytes(*len)).map(|n| n.to_string()),
        Call::Pread(fd, len, offset) => read_with(*len, |buffer| calls.pread(Fd(*fd), buffer, *offset)),
        Call::Pwrite(fd, len, offset) => calls.pwrite(Fd(*fd), &bytes(*len), *offset).map(|n| n.to_string()),
        Call::Seek(fd, offset, whence) => calls.lseek(Fd(*fd), *offset, *whence).map(|at| at.to_string()),
        Call::Fsync(fd) => calls.fsync(Fd(*fd)).map(unit),
        Call::Fstat(fd) => calls.fstat(Fd(*fd)).map(|attr| describe(&attr)),
        Call::Ftruncate(fd, size) => calls.ftruncate(Fd(*fd), *size).map(unit),
        Call::Fallocate(fd, mode, offset, len) => calls.fallocate(Fd(*fd), *mode, *offset, *len).map(unit),
        Call::List(fd) => list(calls, Fd(*fd)).map(|names| names.join(", ")),
        Call::Umask(mask) => Ok(format!("{:o}", calls.umask(*mask))),
        other => perform_on_path(calls, other),
    };
    done.unwrap_or_else(|errno| errno.name().to_owned())
}

fn is_directory(calls: &dyn Syscalls, fd: Fd) -> bool {
    calls.fstat(fd).is_ok_and(|attr| attr.kind == FileKind::Directory)
}

fn is_special(kind: FileKind) -> bool {
    !matches!(kind, FileKind::Regular | FileKind::Directory | FileKind::Symlink)
}

fn perform_on_path(calls: &dyn Syscalls, call: &Call) -> Result<String, Errno> {
    match call {
        Call::Stat(path) => calls.stat(path.as_bytes()).map(|attr| describe(&attr)),
        Call::Lstat(path) => calls.lstat(path.as_bytes()).map(|attr| describe(&attr)),
        Call::Mkdir(path, mode) => calls.mkdir(path.as_bytes(), *mode).map(unit),
        Call::Rmdir(path) => calls.rmdir(path.as_bytes()).map(unit),
        Call::Mknod(path, kind, mode) => {
            calls.mknod(path.as_bytes(), *kind, *mode, u64::from(*mode & 0o777 == 0o777)).map(unit)
        }
        Call::Unlink(path) => calls.unlink(path.as_bytes()).map(unit),
        Call::Rename(from, to, flags) => calls.rename(from.as_bytes(), to.as_bytes(), *flags).map(unit),
        Call::Link(from, to) => calls.link(from.as_bytes(), to.as_bytes()).map(unit),
        Call::Symlink(target, path) => calls.symlink(target.as_bytes(), path.as_bytes()).map(unit),
        Call::Readlink(path) => calls.readlink(path.as_bytes()).map(text),
        Call::Truncate(path, size) => calls.truncate(path.as_bytes(), *size).map(unit),
        Call::Setattr(path, set) => calls.setattr(path.as_bytes(), set).map(unit),
        Call::Getxattr(path, name) => calls.getxattr(path.as_bytes(), name.as_bytes()).map(text),
        Call::Setxattr(path, name, len, mode) => {
            calls.setxattr(path.as_bytes(), name.as_bytes(), &bytes(*len), *mode).map(unit)
        }
        Call::Listxattr(path) => calls.listxattr(path.as_bytes()).map(sorted_names),
        Call::Removexattr(path, name) => calls.removexattr(path.as_bytes(), name.as_bytes()).map(unit),
        Call::Chdir(path) => calls.chdir(path.as_bytes()).map(unit),
        other => panic!("{other:?} names no path"),
    }
}

#[allow(clippy::needless_pass_by_value)]
fn unit((): ()) -> String {
    "ok".to_owned()
}

#[allow(clippy::needless_pass_by_value)]
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[allow(clippy::needless_pass_by_value)]
fn sorted_names(names: Vec<u8>) -> String {
    let mut names: Vec<_> = names.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    names.sort();
    names.join(",")
}

fn read_with(len: usize, read: impl FnOnce(&mut [u8]) -> vfs::Result<usize>) -> vfs::Result<String> {
    let mut buffer = vec![0xee; len];
    let n = read(&mut buffer)?;
    Ok(format!("{n} bytes, sum {}", buffer[..n].iter().map(|byte| u64::from(*byte)).sum::<u64>()))
}

/// Every file below `path`, with what it holds.
fn tree(calls: &dyn Syscalls, path: &str, lines: &mut Vec<String>) {
    let attr = calls.lstat(path.as_bytes()).expect("a listed name exists");
    let mut line = format!("{path}: {}", describe(&attr));
    match attr.kind {
        FileKind::Directory => {
            let fd = calls.open(path.as_bytes(), OpenFlags::READ, 0).expect("root may open every directory");
            let names = list(calls, fd).expect("a directory can be listed");
            calls.close(fd).expect("it is open");
            for name in names.iter().filter_map(|name| name.split_once(") ")).map(|(_, name)| name) {
                if name != "." && name != ".." {
                    tree(calls, &format!("{path}/{name}"), lines);
                }
            }
        }
        FileKind::Regular => {
            let fd = calls.open(path.as_bytes(), OpenFlags::READ, 0).expect("root may open every file");
            line += &read_with(attr.size.min(1 << 20) as usize, |b| calls.pread(fd, b, 0))
                .expect("it can be read");
            calls.close(fd).expect("it is open");
        }
        _ => {}
    }
    lines.push(line);
}

// ---- the two sides ----

/// User, group, supplementary groups.
const USERS: [(u32, u32, &[u32]); 3] = [(0, 0, &[]), (4001, 4001, &[GROUP]), (4002, 4002, &[])];
const GROUP: u32 = 4100;

type Job = Box<dyn FnOnce(&Host) + Send>;

/// A thread of the kernel with credentials of its own.
struct HostUser {
    jobs: Sender<Job>,
}

impl HostUser {
    fn new(dir: &Path, user: Option<usize>) -> Self {
        let (jobs, inbox) = channel::<Job>();
        let dir = dir.to_owned();
        std::thread::spawn(move || {
            if let Some(user) = user.filter(|user| *user > 0) {
                become_user(user);
            }
            let host = Host::confined(&dir).expect("the scratch directory can be opened");
            for job in inbox {
                job(&host);
            }
        });
        let user = Self { jobs };
        user.run(|_| ()); // it has opened its directory
        user
    }

    fn run<T: Send + 'static>(&self, job: impl FnOnce(&Host) -> T + Send + 'static) -> T {
        let (answer, result) = channel();
        let job: Job = Box::new(move |host| drop(answer.send(job(host))));
        self.jobs.send(job).expect("the thread lives");
        result.recv().expect("the thread answers")
    }
}

/// Of this thread only: the kernel keeps credentials by thread.
fn become_user(user: usize) {
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let (uid, gid, groups) = USERS[user];
    let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    let groups: Vec<_> = groups.iter().map(|gid| rustix::fs::Gid::from_raw(*gid)).collect();
    set_thread_groups(&groups).expect("root may");
    set_thread_res_gid(gid, gid, gid).expect("root may");
    set_thread_res_uid(uid, uid, uid).expect("root may");
}

/// One at a time: the umask belongs to the whole test program.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Sides {
    processes: Vec<Process>,
    hosts: Vec<HostUser>,
    fs: Arc<MemFs>,
    mount: Arc<Mount>,
    _dir: tempfile::TempDir,
}

impl Sides {
    fn new(scratch: &Path, dentries: usize) -> Self {
        let dir = tempfile::tempdir_in(scratch).expect("scratch space");
        let as_root = rustix::process::geteuid().is_root();
        let me = Credentials::of_this_process();
        // With the smallest cache, the file system resolves paths itself.
        let fs = Arc::new(MemFs::owned_by(me.owner()).resolving(dentries == 0));
        let mount = Mount::new(fs.clone(), MountOptions { dentries, ..MountOptions::default() })
            .expect("it has a root");
        let all = || USERS.iter().map(|(uid, gid, groups)| Credentials::new(*uid, *gid, groups)).collect();
        let credentials: Vec<_> = if as_root { all() } else { vec![me] };
        let users = 0..credentials.len();
        let hosts = users.map(|user| HostUser::new(dir.path(), as_root.then_some(user))).collect();
        let processes = credentials.into_iter().map(|who| Process::new(Arc::clone(&mount), who)).collect();
        let sides = Self { processes, hosts, fs, mount, _dir: dir };
        sides.begin();
        sides
    }

    fn begin(&self) {
        let open = Call::Setattr("/".to_owned(), SetAttr { perm: Some(0o777), ..SetAttr::default() });
        for call in [Call::Umask(0o022), open] {
            self.step(&Step { user: 0, call });
        }
    }

    fn step(&self, step: &Step) -> (String, String) {
        if let Call::Umask(mask) = &step.call {
            for process in &self.processes {
                process.umask(*mask);
            }
            self.hosts[0].run({
                let mask = *mask;
                move |host| host.umask(mask)
            });
            return (String::new(), String::new());
        }
        let user = step.user % self.processes.len();
        // A confined host does not know what is above a removed directory.
        if self.processes[user].stat(b".").is_ok_and(|attr| attr.nlink == 0) {
            self.processes[user].chdir(b"/").expect("root is searchable");
            self.hosts[user].run(|host| host.chdir(b"/")).expect("root is searchable");
        }
        let ours = perform(&self.processes[user], &step.call);
        let call = step.call.clone();
        (ours, self.hosts[user].run(move |host| perform(host, &call)))
    }

    fn trees(&self) -> (Vec<String>, Vec<String>) {
        let mut ours = Vec::new();
        tree(&self.processes[0], "/", &mut ours);
        let theirs = self.hosts[0].run(|host| {
            let mut lines = Vec::new();
            tree(host, "/", &mut lines);
            lines
        });
        (ours, theirs)
    }
}

fn compare(scratch: &Path, dentries: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let _turn = turn();
    let sides = Sides::new(scratch, dentries);
    // Whether reserved space counts as data is each file system's own choice.
    let reserves = steps.iter().any(|step| matches!(step.call, Call::Fallocate(..)));
    let compared = |step: &Step| !(reserves && matches!(step.call, Call::Seek(_, _, Whence::Find(_))));
    for (n, step) in steps.iter().enumerate().filter(|(_, step)| compared(step)) {
        let (ours, theirs) = sides.step(step);
        prop_assert_eq!(ours, theirs, "call {}: ours left, the kernel's right: {:?}", n, step);
    }
    let (ours, theirs) = sides.trees();
    prop_assert_eq!(&ours, &theirs);
    let Sides { processes, fs, mount, .. } = sides;
    drop(processes);
    mount.drop_cached_names();
    prop_assert_eq!(fs.opens(), 0, "an open or pinned inode was left behind");
    prop_assert_eq!(mount.cached_names(), 0);
    Ok(())
}

/// `PROPTEST_CASES` asks for more.
fn run_on(scratch: &Path, dentries: usize, cases: u32) {
    let cases = ProptestConfig::default().cases.max(cases);
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps())| compare(scratch, dentries, &steps)?);
}

#[test]
fn a_process_answers_as_the_kernel_does_on_tmpfs() {
    let tmpfs = Path::new("/dev/shm");
    if tmpfs.is_dir() {
        run_on(tmpfs, 1 << 16, 600);
    }
}

#[test]
fn a_process_answers_as_the_kernel_does_on_the_disk_and_with_a_tiny_dentry_cache() {
    run_on(&std::env::temp_dir(), 0, 300);
}

/// Found by random programs.
#[test]
fn an_open_that_may_create_does_not_find_the_link_of_another_user_in_a_directory_for_all() {
    let step = |user, call| Step { user, call };
    let shared = SetAttr { perm: Some(0o1777), ..SetAttr::default() };
    let create = OpenFlags::READ | OpenFlags::CREATE | OpenFlags::NOFOLLOW;
    let steps = [
        step(0, Call::Setattr("/".into(), shared)),
        step(2, Call::Symlink("a".into(), "c".into())),
        step(0, Call::Open("c".into(), create, 0o600)),
        step(2, Call::Open("c".into(), create, 0o600)),
        step(0, Call::Open("c".into(), OpenFlags::READ | OpenFlags::NOFOLLOW, 0)),
    ];
    compare(&std::env::temp_dir(), 0, &steps).unwrap();
}
