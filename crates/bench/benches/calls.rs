//! What a process adds to a design's own cost, and how that compares with the kernel.
//!
//! Three ways to do the same thing: on the reference file system through `FileSystem` (the design alone), on
//! it through `Process`, and on tmpfs through the kernel (`Host`). Rounds alternate, and CPU time of the
//! thread is counted, so that a busy machine disturbs all alike. The first table is what counts; criterion's
//! figures after it are wall time.

#[allow(dead_code, unreachable_pub, reason = "the tests use the rest")]
#[path = "../../vfs/tests/it/memfs/mod.rs"]
mod memfs;

use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use memfs::MemFs;
use rustix::time::{ClockId, clock_gettime};
use vfs::{
    Credentials, FileSystem, Host, Ino, IoFlags, Mount, MountOptions, NewInode, OpenFlags, Owner, Process,
    Syscalls,
};

const PAGE: usize = 4096;
const FILE_PAGES: u64 = 1024;
const ROUNDS: usize = 41;
const OPS_PER_ROUND: u64 = 20_000;

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// One way to do an operation; the argument is its number.
type Way<'a> = Box<dyn FnMut(u64) + 'a>;

/// Median CPU time of an operation in each way, in nanoseconds, rounds alternating.
fn measure(ways: &mut [Way<'_>]) -> Vec<f64> {
    let mut samples = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for (way, samples) in ways.iter_mut().zip(&mut samples) {
            let start = cpu_ns();
            (0..OPS_PER_ROUND).for_each(&mut *way);
            samples.push((cpu_ns() - start) as f64 / OPS_PER_ROUND as f64);
        }
    }
    let median = |mut samples: Vec<f64>| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    };
    samples.into_iter().map(median).collect()
}

/// A file of 4 MiB and a private directory, on both sides.
fn prepare(calls: &dyn Syscalls) -> vfs::Fd {
    calls.mkdir(b"/bench", 0o755).expect("new");
    calls.mkdir(b"/bench/private", 0o755).expect("new");
    let fd = calls
        .open(b"/bench/file", OpenFlags::CREATE | OpenFlags::READ | OpenFlags::WRITE, 0o644)
        .expect("new");
    for page in 0..FILE_PAGES {
        calls.pwrite(fd, &[1; PAGE], page * PAGE as u64).expect("space");
    }
    fd
}

struct Bench {
    fs: Arc<MemFs>,
    process: Process,
    host: Host,
    ino: Ino,
    dir: Ino,
    fds: [vfs::Fd; 2],
    _scratch: tempfile::TempDir,
}

const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);
const MAKE: OpenFlags = OpenFlags::CREATE.union(OpenFlags::WRITE);
const FILE: &[u8] = b"/bench/file";
const FRESH: &[u8] = b"/bench/private/fresh";

impl Bench {
    fn new() -> Self {
        let scratch = if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
        let scratch = tempfile::tempdir_in(scratch).expect("scratch space");
        let fs = Arc::new(MemFs::new());
        let mount = Mount::new(fs.clone(), MountOptions::default()).expect("it has a root");
        let process = Process::new(mount, Credentials::root());
        let host = Host::new(scratch.path()).expect("the directory is there");
        let fds = [prepare(&process), prepare(&host)];
        let ino = process.stat(FILE).expect("made").ino;
        let dir = process.stat(b"/bench/private").expect("made").ino;
        Self { fs, process, host, ino, dir, fds, _scratch: scratch }
    }

    fn sides(&self) -> [(&dyn Syscalls, vfs::Fd); 2] {
        [(&self.process, self.fds[0]), (&self.host, self.fds[1])]
    }

    fn read<const BYTES: usize>(&self) -> Vec<Way<'_>> {
        let mut buffer = [0; BYTES];
        let direct: Way<'_> = Box::new(move |n| {
            self.fs.read(self.ino, at(n), &mut buffer, IoFlags::empty()).expect("it is there");
        });
        let through = self.sides().map(|(calls, fd)| -> Way<'_> {
            Box::new(move |n| {
                calls.pread(fd, &mut buffer, at(n)).expect("it is there");
            })
        });
        [direct].into_iter().chain(through).collect()
    }

    fn write(&self) -> Vec<Way<'_>> {
        let data = [7; PAGE];
        let direct: Way<'_> = Box::new(move |n| {
            self.fs.write(self.ino, at(n), &data, IoFlags::empty()).expect("space");
        });
        let through = self.sides().map(|(calls, fd)| -> Way<'_> {
            Box::new(move |n| {
                calls.pwrite(fd, &data, at(n)).expect("space");
            })
        });
        [direct].into_iter().chain(through).collect()
    }

    fn open_close(&self) -> Vec<Way<'_>> {
        let direct: Way<'_> = Box::new(|_| {
            self.fs.open(self.ino, READ_WRITE).expect("it is there");
            self.fs.release(self.ino);
        });
        let through = self.sides().map(|(calls, _)| -> Way<'_> {
            Box::new(move |_| {
                let fd = calls.open(FILE, READ_WRITE, 0).expect("it is there");
                calls.close(fd).expect("it is open");
            })
        });
        [direct].into_iter().chain(through).collect()
    }

    /// The design alone is asked for the name once less: the cache remembers that it is free.
    fn create_unlink(&self) -> Vec<Way<'_>> {
        let direct: Way<'_> = Box::new(|_| {
            let ino = self.fs.create(self.dir, b"fresh", &NEW).expect("the name is free").ino;
            self.fs.open(ino, READ_WRITE).expect("it is there");
            self.fs.release(ino);
            self.fs.unlink(self.dir, b"fresh").expect("it is there");
        });
        let through = self.sides().map(|(calls, _)| -> Way<'_> {
            Box::new(move |_| {
                let fd = calls.open(FRESH, MAKE, 0o644).expect("the name is free");
                calls.close(fd).expect("it is open");
                calls.unlink(FRESH).expect("it is there");
            })
        });
        [direct].into_iter().chain(through).collect()
    }

    fn stat(&self) -> Vec<Way<'_>> {
        let direct: Way<'_> = Box::new(|_| {
            self.fs.getattr(self.ino).expect("it is there");
        });
        let through = self.sides().map(|(calls, _)| -> Way<'_> {
            Box::new(move |_| {
                calls.stat(FILE).expect("it is there");
            })
        });
        [direct].into_iter().chain(through).collect()
    }
}

/// Pages in an order that no prefetcher follows.
fn at(n: u64) -> u64 {
    (n * 389 % FILE_PAGES) * PAGE as u64
}

fn print_ratios() {
    let bench = Bench::new();
    println!("CPU time in ns per operation    design  process     adds    kernel  kernel/process");
    let rows: [(&str, Vec<Way<'_>>); 6] = [
        ("pread 64 B", bench.read::<64>()),
        ("pread 4 KiB", bench.read::<PAGE>()),
        ("pwrite 4 KiB", bench.write()),
        ("stat", bench.stat()),
        ("open + close", bench.open_close()),
        ("create + close + unlink", bench.create_unlink()),
    ];
    for (name, mut ways) in rows {
        let ns = measure(&mut ways);
        let (adds, ratio) = (ns[1] - ns[0], ns[2] / ns[1]);
        println!("{name:28} {:9.0} {:8.0} {adds:8.0} {:9.0} {ratio:12.2}x", ns[0], ns[1], ns[2]);
    }
}

fn calls(c: &mut Criterion) {
    if std::env::args().skip(1).all(|arg| arg.starts_with('-')) {
        print_ratios(); // unless one benchmark is asked for
    }
    let bench = Bench::new();
    let groups = [
        ("pread_4k", bench.read::<PAGE>()),
        ("pwrite_4k", bench.write()),
        ("create_unlink", bench.create_unlink()),
    ];
    for (group, ways) in groups {
        let mut group = c.benchmark_group(group);
        for (side, mut way) in ["design", "process", "kernel"].into_iter().zip(ways) {
            let mut n = 0;
            group.bench_function(side, |b| {
                b.iter(|| {
                    n += 1;
                    way(n);
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, calls);
criterion_main!(benches);
