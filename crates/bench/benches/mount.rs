//! What a mount costs beside the least that a mount can cost: a file system on the same crate that answers every read with the
//! same zeros and throws every write away.
//!
//! 4-KiB reads and writes at random places of a file of 64 MiB, uncached, with one and with two programs, in turn with the other
//! file systems so that all meet the same noise. Then what the page cache serves, by calls and by a shared map, beside a file of
//! the host; there the least mount tells what the kernel's part of FUSE costs.
//! Prints the median rate of the rounds, and the ratio to the first. Takes root and `/dev/fuse`.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fuse::{Backing, Cache, Server};
use fuser::{
    Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session,
    WriteFlags,
};
use media::Region;
use media::Storage;
use media::nvmm::null::Null;
use sim::{Bytes, Machine, Seed, Setup};
use vfs::AccessTimes;

const FILE_BYTES: u64 = 64 << 20;
const PIECE: usize = 4096;
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(250);
const FOR_LONG: Duration = Duration::from_secs(3600);

/// One file, which holds nothing.
struct Least(Cache);

fn attr(ino: INodeNo) -> FileAttr {
    let root = ino == INodeNo::ROOT;
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino,
        size: FILE_BYTES,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: if root { FileType::Directory } else { FileType::RegularFile },
        perm: 0o755,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: PIECE as u32,
        flags: 0,
    }
}

impl Filesystem for Least {
    fn lookup(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.entry(&FOR_LONG, &attr(INodeNo(2)), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_LONG, &attr(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = match self.0 {
            Cache::Direct | Cache::Shared => {
                FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            }
            Cache::Pages => FopenFlags::FOPEN_KEEP_CACHE,
        };
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
        reply.data(&ZEROS[..size as usize]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.written(data.len() as u32);
    }
}

/// The medium of the designs: memory.
struct Memory(Arc<Region>);

impl Backing for Memory {
    fn fence(&self) {
        self.0.fence();
    }

    fn sync(&self) -> vfs::Result<()> {
        Ok(())
    }
}

/// Something that is mounted until it is dropped.
struct Mounted {
    name: &'static str,
    dir: PathBuf,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
            let _ = thread.join();
        }
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn least(cache: Cache, dir: &Path) -> Mounted {
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("least".to_owned()), MountOption::DefaultPermissions];
    config.n_threads = Some(threads());
    config.clone_fd = true;
    let session = Session::new(Least(cache), dir, &config).expect("it mounts");
    let thread = std::thread::spawn(move || session.run().expect("it serves"));
    Mounted { name: "least", dir: dir.to_owned(), thread: Some(thread) }
}

/// The host's own file system, for what its page cache serves.
fn host(dir: &Path) -> Mounted {
    fill(dir);
    Mounted { name: "host", dir: dir.to_owned(), thread: None }
}

fn fill(dir: &Path) {
    let (file, piece) = (File::create(dir.join("file")).expect("a file"), vec![1; 1 << 20]);
    for at in (0..FILE_BYTES).step_by(1 << 20) {
        file.write_all_at(&piece, at).expect("space");
    }
}

fn design(name: &'static str, cache: Cache, dir: &Path) -> Mounted {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let mount_on = dir.to_owned();
    let thread = std::thread::spawn(move || {
        let setup = Setup::real_clock(Machine::unit(), Seed(0));
        let served = sim::run(&setup, move || {
            let design = fs::by_name(name).expect("a design");
            let options =
                design::Options::resolve(name, design.options(), &std::collections::BTreeMap::new());
            let options = options.expect("its defaults");
            let region = Arc::new(Region::anonymous(Bytes::mib(512), Box::new(Null)).expect("memory"));
            design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
            let mounted = design.mount(&Storage::from(&region), &options).expect("mount");
            let options = fuse::Options {
                source: "memory".to_owned(),
                design: name.to_owned(),
                flags: fuse::MountFlags::NOSUID | fuse::MountFlags::NODEV,
                allow_other: false,
                non_empty: false,
                access_times: AccessTimes::Relative,
                cache,
                threads: threads().max(4),
                readers: threads(),
                poll: Duration::from_micros(50),
                lists: false,
                result_so_far: Arc::new(|_| Vec::new()),
                backing: Arc::new(Memory(region)),
                recorder: None,
            };
            let server = Server::new(Arc::clone(&mounted), &mount_on, &options).expect("it mounts");
            ready.send(()).expect("somebody waits");
            server.serve().expect("it serves");
            mounted.unmount().expect("it unmounts");
        });
        served.expect("the run");
    });
    is_ready.recv().expect("the mount");
    fill(dir);
    Mounted { name, dir: dir.to_owned(), thread: Some(thread) }
}

/// What a program does to the file.
#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    Call,
    Map,
}

/// What one program gets done in a while, of all that is read and written through `map` if there is one.
fn program(dir: &Path, access: Access, map: Option<&Region>, seed: u64) -> u64 {
    let file = File::options().read(true).write(true).open(dir.join("file")).expect("the file");
    let (mut buffer, mut done, start) = ([7; PIECE], 0, Instant::now());
    while start.elapsed() < ROUND {
        let place = Seed(seed).derive("place", done).0 % (FILE_BYTES / PIECE as u64) * PIECE as u64;
        match (access, map) {
            (Access::Read, None) => file.read_exact_at(&mut buffer, place).expect("a read"),
            (Access::Read, Some(map)) => map.peek(place, &mut buffer).expect("a load"),
            (Access::Write, None) => file.write_all_at(&buffer, place).expect("a write"),
            (Access::Write, Some(map)) => map.store(place, &buffer).expect("a store"),
        }
        std::hint::black_box(&buffer);
        done += 1;
    }
    done
}

/// The file in a shared map. It has been read before: opening it after a change has emptied the page cache, for the sake of the
/// access time.
fn map(dir: &Path) -> Region {
    let path = dir.join("file");
    let file = File::open(&path).expect("the file");
    std::io::copy(&mut &file, &mut std::io::sink()).expect("it is read");
    Region::file(&path, None, media::nvmm::Access::ReadWrite, Box::new(Null)).expect("a map")
}

fn rate(mounted: &Mounted, (access, by): (Access, By), programs: u64, round: u64) -> f64 {
    let map = (by == By::Map).then(|| map(&mounted.dir));
    let done: u64 = std::thread::scope(|scope| {
        let start = |n| {
            let map = map.as_ref();
            scope.spawn(move || program(&mounted.dir, access, map, round * 10 + n))
        };
        let programs: Vec<_> = (0..programs).map(start).collect();
        programs.into_iter().map(|program| program.join().expect("it ends")).sum()
    });
    done as f64 / ROUND.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting takes root and /dev/fuse");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let dir = |name: &str| {
        let dir = folder.path().join(name);
        std::fs::create_dir(&dir).expect("a directory");
        dir
    };
    let uncached = Cache::Direct;
    let mounts = [
        least(uncached, &dir("least")),
        design("pmfs", uncached, &dir("pmfs")),
        design("hinfs", uncached, &dir("hinfs")),
    ];
    println!(
        "4 KiB at random; calls a second, median of {ROUNDS} rounds in turn, and the ratio to the first"
    );
    compare("uncached reads", &mounts, (Access::Read, By::Call));
    compare("uncached writes", &mounts, (Access::Write, By::Call));
    drop(mounts);
    let mounts = [
        host(&dir("host")),
        least(Cache::Pages, &dir("least, cached")),
        design("pmfs", Cache::Pages, &dir("pmfs, cached")),
        design("hinfs", Cache::Pages, &dir("hinfs, cached")),
    ];
    compare("cached reads", &mounts, (Access::Read, By::Call));
    compare("mapped reads", &mounts, (Access::Read, By::Map));
    compare("mapped writes", &mounts, (Access::Write, By::Map));
}

fn compare(what: &str, mounts: &[Mounted], access: (Access, By)) {
    for programs in [1, 2] {
        let mut rates = vec![Vec::new(); mounts.len()];
        for round in 0..ROUNDS {
            for (rates, mounted) in rates.iter_mut().zip(mounts) {
                rates.push(rate(mounted, access, programs, round as u64));
            }
        }
        let medians: Vec<_> = rates.into_iter().map(median).collect();
        let each = mounts.iter().zip(&medians);
        let each =
            each.map(|(mounted, rate)| format!("{} {rate:.0} ({:.2})", mounted.name, rate / medians[0]));
        println!("{what}, {programs} program(s): {}", each.collect::<Vec<_>>().join("   "));
    }
}
