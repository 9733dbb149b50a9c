//! Where rules are tried: a directory, and users who act in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use media::Storage;
use media::nvmm::Region;
use media::nvmm::null::Null;
use sim::{Bytes, Machine, Nanos, Seed, Setup};
use vfs::{
    Attr, Credentials, Errno, Fd, FileKind, Host, LeftOut, Mount, MountOptions, OpenFlags, Process, Promises,
    SetAttr, Syscalls,
};

use crate::posix::{Check, same};

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Another group to which the user belongs.
    pub(crate) also: Option<u32>,
}

pub(crate) const ROOT: Who = Who { uid: 0, gid: 0, also: None };
pub(crate) const ALICE: Who = Who { uid: 65_001, gid: 65_101, also: Some(65_103) };
pub(crate) const BOB: Who = Who { uid: 65_002, gid: 65_102, also: None };
/// Somebody of Alice's group.
pub(crate) const CAROL: Who = Who { uid: 65_003, gid: 65_101, also: None };

pub(crate) const READ: OpenFlags = OpenFlags::READ;
pub(crate) const WRITE: OpenFlags = OpenFlags::WRITE;
pub(crate) const READ_WRITE: OpenFlags = READ.union(WRITE);
pub(crate) const MAKE: OpenFlags = READ_WRITE.union(OpenFlags::CREATE).union(OpenFlags::EXCLUSIVE);

/// Longer than the coarse clocks from which kernels take times stand still.
const COARSE: Nanos = Nanos::from_millis(50);

/// What a user does.
pub(crate) type Deed<'a> = &'a mut (dyn FnMut(&dyn Syscalls) -> Check + Send);

/// A file system under test.
pub(crate) trait World: Sync {
    fn name(&self) -> String;
    /// Lets a user act in the directory `dir` of the root.
    fn act(&self, who: Who, dir: &str, deed: Deed<'_>) -> Check;
    /// Lets more time pass than the clocks of kernels are coarse.
    fn wait(&self);
    /// Whether users may act at the same time.
    fn is_parallel(&self) -> bool;
    /// The clauses of the design under test, of which the rules heed what a format has no room for.
    fn promises(&self) -> Promises {
        Promises::STRICT
    }
}

/// A directory for one rule, which everybody may use.
pub(crate) struct Ground<'w> {
    world: &'w dyn World,
    dir: String,
}

impl<'w> Ground<'w> {
    pub(crate) fn new(world: &'w dyn World, number: usize) -> Result<Self, String> {
        let dir = format!("rule{number}");
        world.act(ROOT, "/", &mut |calls| {
            done("the directory of the rule", calls.mkdir(dir.as_bytes(), 0o777))?;
            done("its mode", calls.setattr(dir.as_bytes(), &mode(0o777)))
        })?;
        Ok(Self { world, dir })
    }

    /// Lets a user act.
    pub(crate) fn by(&self, who: Who, mut deed: impl FnMut(&dyn Syscalls) -> Check + Send) -> Check {
        self.world.act(who, &self.dir, &mut deed).map_err(|why| format!("{why} (user {})", who.uid))
    }

    pub(crate) fn wait(&self) {
        self.world.wait();
    }

    /// Whether the format has no room for this.
    pub(crate) fn lacks(&self, what: LeftOut) -> bool {
        self.world.promises().left_out.contains(what)
    }

    /// The longest name, in bytes.
    pub(crate) fn name_max(&self) -> usize {
        self.world.promises().name_max as usize
    }
}

/// A call that must work.
pub(crate) fn done<T>(what: &str, result: Result<T, Errno>) -> Check {
    result.map(drop).map_err(|errno| format!("{what}: {}", errno.name()))
}

/// A call that must fail with this error.
pub(crate) fn fails<T>(what: &str, result: Result<T, Errno>, expected: Errno) -> Check {
    let name = |result: Result<(), Errno>| result.map_or_else(Errno::name, |()| "success");
    same(what, name(result.map(drop)), expected.name())
}

/// A call that must fail with one of these.
pub(crate) fn fails_with<T>(what: &str, result: Result<T, Errno>, allowed: &[Errno]) -> Check {
    match result {
        Err(errno) if allowed.contains(&errno) => Ok(()),
        Err(errno) => Err(format!("{what}: {}, expected one of {allowed:?}", errno.name())),
        Ok(_) => Err(format!("{what}: success, expected one of {allowed:?}")),
    }
}

pub(crate) fn mode(perm: u32) -> SetAttr {
    SetAttr { perm: Some(perm), ..SetAttr::default() }
}

pub(crate) fn owner(who: Who) -> SetAttr {
    SetAttr { uid: Some(who.uid), gid: Some(who.gid), ..SetAttr::default() }
}

/// A new file with exactly this mode.
pub(crate) fn make(calls: &dyn Syscalls, path: &str, perm: u32) -> Check {
    let made = calls.open(path.as_bytes(), MAKE, perm).and_then(|fd| calls.close(fd));
    done(&format!("make {path}"), made.and_then(|()| calls.setattr(path.as_bytes(), &mode(perm))))
}

/// A new file with these bytes.
pub(crate) fn write(calls: &dyn Syscalls, path: &str, data: &[u8]) -> Check {
    let fd = calls.open(path.as_bytes(), MAKE, 0o644).map_err(|errno| format!("make {path}: {errno}"))?;
    same("bytes written", calls.write(fd, data), Ok(data.len()))?;
    done("close", calls.close(fd))
}

pub(crate) fn contents(calls: &dyn Syscalls, path: &str) -> Result<Vec<u8>, Errno> {
    with(calls, path, READ, |fd| {
        let mut bytes = vec![0; calls.fstat(fd)?.size as usize + 10];
        let read = calls.pread(fd, &mut bytes, 0)?;
        bytes.truncate(read);
        Ok(bytes)
    })
}

/// Does something with an open file.
pub(crate) fn with<T>(
    calls: &dyn Syscalls,
    path: &str,
    flags: OpenFlags,
    work: impl FnOnce(Fd) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let fd = calls.open(path.as_bytes(), flags, 0o644)?;
    let result = work(fd);
    calls.close(fd)?;
    result
}

pub(crate) fn attr(calls: &dyn Syscalls, path: &str) -> Result<Attr, String> {
    calls.lstat(path.as_bytes()).map_err(|errno| format!("lstat {path}: {}", errno.name()))
}

/// One of each kind that there is room for, by the kind's name.
pub(crate) fn one_of_each(
    ground: &Ground<'_>,
    calls: &dyn Syscalls,
) -> Result<Vec<(&'static str, FileKind)>, String> {
    make(calls, "file", 0o644)?;
    done("mkdir", calls.mkdir(b"directory", 0o755))?;
    done("symlink", calls.symlink(b"nowhere", b"symlink"))?;
    let mut made =
        vec![("file", FileKind::Regular), ("directory", FileKind::Directory), ("symlink", FileKind::Symlink)];
    if !ground.lacks(LeftOut::NODES) {
        done("mkfifo", calls.mknod(b"fifo", FileKind::Fifo, 0o644, 0))?;
        done("socket", calls.mknod(b"socket", FileKind::Socket, 0o644, 0))?;
        made.extend([("fifo", FileKind::Fifo), ("socket", FileKind::Socket)]);
    }
    Ok(made)
}

/// A design in this process, under the virtual clock.
pub(crate) struct InProcess {
    design: &'static str,
    mount: Arc<Mount>,
}

impl InProcess {
    pub(crate) fn run(design: &'static str, body: impl FnOnce(&Self) + Send + 'static) {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        let outcome = sim::run(&setup, move || {
            let design_type = fs::by_name(design).expect("a design");
            let given = [("buffer", "4MiB")].into_iter().filter(|_| design.starts_with("hinfs"));
            let given = given.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            let options = design::Options::resolve(design, design_type.options(), &given).expect("options");
            let region = Arc::new(Region::anonymous(Bytes::mib(64), Box::new(Null)).expect("memory"));
            design_type.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
            let mounted = design_type.mount(&Storage::from(&region), &options).expect("mount");
            let mount = Mount::new(mounted, MountOptions::default()).expect("a root");
            body(&Self { design, mount: Arc::clone(&mount) });
            mount.unmount().expect("unmount");
            let report = design_type.format().fsck(&Storage::from(&region));
            assert_eq!(report.violations, [], "{design}");
        });
        outcome.unwrap_or_else(|error| panic!("{error}"));
    }
}

impl World for InProcess {
    fn name(&self) -> String {
        format!("{} in process", self.design)
    }

    fn act(&self, who: Who, dir: &str, deed: Deed<'_>) -> Check {
        let groups: Vec<u32> = who.also.into_iter().collect();
        let process = Process::new(Arc::clone(&self.mount), Credentials::new(who.uid, who.gid, &groups));
        process.umask(0);
        done("chdir", process.chdir(dir.as_bytes()))?;
        deed(&process)
    }

    fn wait(&self) {
        sim::sleep(COARSE);
    }

    fn is_parallel(&self) -> bool {
        false
    }

    fn promises(&self) -> Promises {
        let design = fs::by_name(self.design).expect("a design");
        design.promises(&design::Options::defaults(design.options()))
    }
}

/// A directory of this host's kernel. Users are threads with other ids, so it takes root.
pub(crate) struct Kernel {
    name: String,
    dir: PathBuf,
    mounted: bool,
    _folder: tempfile::TempDir,
}

impl Kernel {
    /// A directory of the kernel's own file system.
    pub(crate) fn of_host() -> Option<Self> {
        Self::new("tmpfs", tempfile::tempdir_in("/dev/shm").ok()?)
    }

    fn new(name: &str, folder: tempfile::TempDir) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("{name}: skipped, other users can be acted for by root only");
            return None;
        }
        rustix::process::umask(rustix::fs::Mode::empty());
        let all = rustix::fs::Mode::from_raw_mode(0o777);
        rustix::fs::chmod(folder.path(), all).expect("it is ours");
        Some(Self { name: name.to_owned(), dir: folder.path().to_owned(), mounted: false, _folder: folder })
    }

    /// A mount of a design, where this host can mount.
    pub(crate) fn mounted(design: &str, words: &str) -> Option<Self> {
        let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
        if device.is_err() {
            println!("{design}: skipped, there is no /dev/fuse");
            return None;
        }
        let mut world = Self::new(&format!("{design} mounted, {words}"), tempfile::tempdir().ok()?)?;
        world.dir = world.dir.join("mnt");
        std::fs::create_dir(&world.dir).expect("the directory");
        let output = Command::new(assert_cmd::cargo::cargo_bin!("weir"))
            .args(["mount", design, "memory"])
            .arg(&world.dir)
            .args(["--size", "64MiB", "-o", "allow_other,dev,suid", "-o", words])
            .args(if design == "hinfs" { &["-o", "buffer=4MiB"][..] } else { &[] })
            .output()
            .expect("weir runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        world.mounted = true;
        Some(world)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        if self.mounted {
            let mut umount = Command::new(assert_cmd::cargo::cargo_bin!("weir"));
            let _ = umount.args(["umount", "--lazy"]).arg(&self.dir).output();
        }
    }
}

/// Makes the calling thread another user.
fn become_user(who: Who) -> rustix::io::Result<()> {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let groups: Vec<Gid> = who.also.into_iter().map(Gid::from_raw).collect();
    let (uid, gid) = (Uid::from_raw(who.uid), Gid::from_raw(who.gid));
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

impl World for Kernel {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn act(&self, who: Who, dir: &str, deed: Deed<'_>) -> Check {
        let root: &Path = &self.dir;
        let acted = std::thread::scope(|scope| {
            let actor = scope.spawn(move || {
                done("become a user", become_user(who).map_err(|_| Errno::EPERM))?;
                let host = Host::confined(root).map_err(|error| error.to_string())?;
                done("chdir", host.chdir(dir.as_bytes()))?;
                deed(&host)
            });
            actor.join()
        });
        acted.unwrap_or_else(|_| Err("the rule panicked".to_owned()))
    }

    fn wait(&self) {
        // The clock of the kernel's stamps itself: a host that was not scheduled may have missed its ticks.
        let now = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
            (time.tv_sec, time.tv_nsec)
        };
        let before = now();
        while {
            std::thread::sleep(Duration::from_nanos(COARSE.0));
            now() == before
        } {}
    }

    fn is_parallel(&self) -> bool {
        true
    }
}
