//! ext4 in this process against the kernel's: its tmpfs, for reads that the page cache serves, and its own ext4 on a loop device
//! in RAM. Both sides through the same calls of `vfs`, one thread, in turn; CPU time of this process, which the kernel's own
//! threads are not in; the median of the rounds. Then the pace under the virtual clock.
//!
//! As root, with e2fsprogs and loop devices; without them only tmpfs is compared. `ONLY=read` measures the operations whose names
//! contain the word, `ALONE=1` leaves the kernel out (to be profiled).

#[path = "shared/cpu.rs"]
mod cpu;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cpu::each;
use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, Machine, Seed, Setup};
use vfs::{Credentials, Host, Mount, MountOptions, OpenFlags, Process, Syscalls};

const ROUNDS: usize = 9;
const BLOCK: u64 = 4096;
const SMALL: u64 = 1 << 20;
const LARGE: u64 = 64 << 20;

fn mounted() -> Arc<Mount> {
    let medium = Box::new(media::nvmm::null::Null);
    let region = Arc::new(Region::anonymous(Bytes::mib(1024), medium).expect("memory"));
    let design = fs::by_name("ext4").expect("ext4 is a design");
    let given = BTreeMap::from([("cache".to_owned(), "512MiB".to_owned())]);
    let options = design::Options::resolve("ext4", design.options(), &given).expect("the option is known");
    design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    let fs = design.mount(&Storage::from(&region), &options).expect("mount");
    Mount::new(fs, MountOptions::default()).expect("a mount")
}

/// Random places, the same in each round.
fn place(n: u64, span: u64) -> u64 {
    n * BLOCK * 7919 % span
}

fn open(calls: &dyn Syscalls, path: &[u8]) -> vfs::Fd {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    calls.open(path, flags, 0o644).expect("open")
}

fn prepare(calls: &dyn Syscalls) {
    let fd = open(calls, b"/file");
    let data = vec![7; 1 << 20];
    (0..LARGE >> 20).for_each(|chunk| assert_eq!(calls.pwrite(fd, &data, chunk << 20), Ok(1 << 20)));
    calls.fsync(fd).expect("fsync");
    calls.close(fd).expect("close");
    calls.mkdir(b"/private", 0o755).expect("mkdir");
    // A directory of the size that a working one has.
    (0..200).for_each(|n| calls.close(open(calls, format!("/private/{n}").as_bytes())).expect("close"));
}

fn read(calls: &dyn Syscalls, span: u64) -> f64 {
    let (fd, mut page) = (open(calls, b"/file"), [0u8; BLOCK as usize]);
    let time = each(40_000, |n| assert_eq!(calls.pread(fd, &mut page, place(n, span)), Ok(BLOCK as usize)));
    calls.close(fd).expect("close");
    time
}

fn overwrite(calls: &dyn Syscalls, span: u64) -> f64 {
    let (fd, page) = (open(calls, b"/file"), [7u8; BLOCK as usize]);
    let time = each(40_000, |n| assert_eq!(calls.pwrite(fd, &page, place(n, span)), Ok(BLOCK as usize)));
    calls.close(fd).expect("close");
    time
}

/// Appends blocks to a file of its own and cuts it after 16 MiB.
fn append(calls: &dyn Syscalls) -> f64 {
    let (fd, page) = (open(calls, b"/private/log"), [7u8; BLOCK as usize]);
    let time = each(8_192, |n| {
        let at = n % 4_096 * BLOCK;
        if at == 0 {
            calls.ftruncate(fd, 0).expect("truncate");
        }
        assert_eq!(calls.pwrite(fd, &page, at), Ok(BLOCK as usize));
    });
    calls.close(fd).expect("close");
    calls.unlink(b"/private/log").expect("unlink");
    time
}

fn overwrite_synced(calls: &dyn Syscalls) -> f64 {
    let (fd, page) = (open(calls, b"/file"), [7u8; BLOCK as usize]);
    let time = each(2_000, |n| {
        assert_eq!(calls.pwrite(fd, &page, place(n, SMALL)), Ok(BLOCK as usize));
        calls.fsync(fd).expect("fsync");
    });
    calls.close(fd).expect("close");
    time
}

fn create(calls: &dyn Syscalls) -> f64 {
    each(10_000, |_| {
        calls.close(open(calls, b"/private/file")).expect("close");
        calls.unlink(b"/private/file").expect("unlink");
    })
}

/// Creates many files, then removes them.
fn create_many(calls: &dyn Syscalls) -> f64 {
    let name = |n: u64| format!("/private/file number {n}").into_bytes();
    let made = each(5_000, |n| calls.close(open(calls, &name(n))).expect("close"));
    made + each(5_000, |n| calls.unlink(&name(n)).expect("unlink"))
}

fn stat(calls: &dyn Syscalls) -> f64 {
    each(40_000, |_| assert!(calls.stat(b"/private/7").is_ok()))
}

fn open_close(calls: &dyn Syscalls) -> f64 {
    each(20_000, |_| {
        let fd = calls.open(b"/private/7", OpenFlags::READ, 0).expect("open");
        calls.close(fd).expect("close");
    })
}

/// What is measured: the name, how, and whether it belongs to the comparison with the kernel's ext4 (4 KiB loops, create/unlink).
type Kind = (&'static str, fn(&dyn Syscalls) -> f64, bool);

const KINDS: [Kind; 10] = [
    ("read 4 KiB of 1 MiB", |calls| read(calls, SMALL), true),
    ("read 4 KiB of 64 MiB", |calls| read(calls, LARGE), true),
    ("overwrite 4 KiB of 1 MiB", |calls| overwrite(calls, SMALL), true),
    ("overwrite 4 KiB of 64 MiB", |calls| overwrite(calls, LARGE), true),
    ("append 4 KiB", append, true),
    ("overwrite 4 KiB, fsync", overwrite_synced, true),
    ("create, close, unlink", create, true),
    ("create 5000, unlink them", create_many, true),
    ("stat", stat, false),
    ("open, close", open_close, false),
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The kernel's ext4 on a loop device in RAM, which goes with the value.
struct Kernel {
    folder: PathBuf,
}

impl Kernel {
    fn new(folder: &Path) -> Option<Self> {
        let (image, mounted) = (folder.join("image"), folder.join("ext4"));
        std::fs::create_dir(&mounted).expect("a directory on tmpfs");
        std::fs::File::create(&image).expect("an image").set_len(1 << 30).expect("room");
        let kernel = Self { folder: folder.to_owned() };
        let made = Self::run("mkfs.ext4", &["-q", "-F", &image.display().to_string()]);
        let place = mounted.display().to_string();
        let ready = made && Self::run("mount", &["-o", "loop", &image.display().to_string(), &place]);
        ready.then_some(kernel)
    }

    fn run(tool: &str, arguments: &[&str]) -> bool {
        Command::new(tool).args(arguments).status().is_ok_and(|status| status.success())
    }

    fn root(&self) -> PathBuf {
        self.folder.join("ext4")
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        Self::run("umount", &[&self.root().display().to_string()]);
    }
}

/// Time of each operation on each file system, in turn.
fn rounds(all: &[(&str, &dyn Syscalls)], kinds: &[Kind]) -> Vec<Vec<Vec<f64>>> {
    let once = |kind: &Kind| all.iter().map(|(_, calls)| kind.1(*calls)).collect();
    (0..ROUNDS).map(|_| kinds.iter().map(once).collect()).collect()
}

fn compare(all: &[(&str, &dyn Syscalls)], kinds: &[Kind]) {
    let rounds = rounds(all, kinds);
    let mut logs = Vec::new();
    for (index, (what, _, counts)) in kinds.iter().enumerate() {
        let mut line = format!("{what:<26}");
        for (side, (name, _)) in all.iter().enumerate() {
            let time = median(rounds.iter().map(|round| round[index][side]).collect());
            let _ = write!(line, "  {name} {time:>6.0} ns");
            if side > 0 {
                let ratios = rounds.iter().map(|round| round[index][side] / round[index][0]);
                let ratio = median(ratios.collect());
                let _ = write!(line, " ({ratio:.2})");
                if side + 1 == all.len() && all.len() > 2 && *counts {
                    logs.push(sim::math::ln(ratio));
                }
            }
        }
        println!("{line}");
    }
    if !logs.is_empty() {
        let mean = sim::math::exp(logs.iter().sum::<f64>() / logs.len() as f64);
        println!("geometric mean beside the kernel's ext4, without stat and open: {mean:.2}");
    }
}

fn virtual_pace(kinds: &[Kind]) {
    for kind in kinds.iter().copied() {
        let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
        let time = sim::run(&setup, move || {
            let mount = mounted();
            let process = Process::new(Arc::clone(&mount), Credentials::root());
            prepare(&process);
            let time = kind.1(&process);
            drop(process);
            mount.unmount().expect("unmount");
            time
        });
        let pace = 1e9 / time.expect("the run ends");
        println!("virtual clock, {:<26} {pace:>9.0} a second of the host", kind.0);
    }
}

fn main() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let kinds: Vec<Kind> = KINDS.into_iter().filter(|kind| kind.0.contains(&only)).collect();
    let folder = Path::new("/dev/shm").join(format!("weir-bench-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("tmpfs")).expect("a directory on tmpfs");
    let mount = mounted();
    let process = Process::new(Arc::clone(&mount), Credentials::root());
    prepare(&process);
    if std::env::var("ALONE").is_ok() {
        compare(&[("weir", &process)], &kinds);
    } else {
        let tmpfs = Host::new(&folder.join("tmpfs")).expect("a host");
        prepare(&tmpfs);
        let kernel = Kernel::new(&folder);
        match &kernel {
            Some(kernel) => {
                let host = Host::new(&kernel.root()).expect("a host");
                prepare(&host);
                compare(&[("weir", &process), ("tmpfs", &tmpfs), ("kernel's ext4", &host)], &kinds);
            }
            None => compare(&[("weir", &process), ("tmpfs", &tmpfs)], &kinds),
        }
        drop(kernel);
        virtual_pace(&kinds);
    }
    drop(process);
    mount.unmount().expect("unmount");
    std::fs::remove_dir_all(&folder).expect("clean up");
}
