//! PMFS against the host's tmpfs, both through the same calls of `vfs`: CPU-time ratios, interleaved, one thread; what an
//! overwrite costs more when a ledger is kept and a tap listens; and the pace of 4-KiB operations under the virtual clock with a
//! tap attached. Prints a line for each, median of the rounds.

#[path = "shared/cpu.rs"]
mod cpu;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cpu::each;
use media::Storage;
use media::event::{Counting, Tap};
use media::nvmm::Region;
use sim::{Bytes, Clock, Machine, Seed, Setup};
use vfs::{Credentials, FileSystem, Host, Mount, MountOptions, OpenFlags, Process, Syscalls};

const ROUNDS: usize = 9;
const SPAN: u64 = 64 << 20;

fn mounted() -> (Arc<Region>, Arc<dyn FileSystem>) {
    let region =
        Arc::new(Region::anonymous(Bytes::mib(256), Box::new(media::nvmm::null::Null)).expect("memory"));
    let design = fs::by_name("pmfs").expect("pmfs is a design");
    let options = design::Options::resolve("pmfs", design.options(), &BTreeMap::default()).expect("defaults");
    design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    let fs = design.mount(&Storage::from(&region), &options).expect("mount");
    (region, fs)
}

fn fill(calls: &dyn Syscalls) {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    let fd = calls.open(b"/file", flags, 0o644).expect("open");
    let data = vec![7; 1 << 20];
    (0..SPAN >> 20).for_each(|chunk| assert_eq!(calls.pwrite(fd, &data, chunk << 20), Ok(1 << 20)));
    calls.close(fd).expect("close");
    calls.mkdir(b"/private", 0o755).expect("mkdir");
}

const KINDS: [&str; 5] = [
    "read 4 KiB of 1 MiB",
    "overwrite 4 KiB of 1 MiB",
    "read 4 KiB of 64 MiB",
    "overwrite 4 KiB of 64 MiB",
    "create, close, unlink",
];

/// Time of a read and an overwrite of what caches hold, of what they do not, and of a create with its unlink.
fn measure(calls: &dyn Syscalls) -> [f64; 5] {
    let fd = calls.open(b"/file", OpenFlags::READ | OpenFlags::WRITE, 0).expect("open");
    let mut page = [7u8; 4096];
    let mut pair = |span: u64| {
        let place = |n: u64| n * 4096 * 7919 % span;
        let read = each(40_000, |n| assert_eq!(calls.pread(fd, &mut page, place(n)), Ok(4096)));
        (read, each(40_000, |n| assert_eq!(calls.pwrite(fd, &page, place(n)), Ok(4096))))
    };
    let ((hot_read, hot_write), (read, write)) = (pair(1 << 20), pair(SPAN));
    calls.close(fd).expect("close");
    let create = OpenFlags::WRITE | OpenFlags::CREATE;
    let make = each(20_000, |_| {
        let fd = calls.open(b"/private/file", create, 0o644).expect("create");
        calls.close(fd).expect("close");
        calls.unlink(b"/private/file").expect("unlink");
    });
    [hot_read, hot_write, read, write, make]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn versus_tmpfs() {
    let directory = Path::new("/dev/shm").join(format!("weir-bench-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a directory on tmpfs");
    let host = Host::new(&directory).expect("a host");
    let (_region, fs) = mounted();
    let mount = Mount::new(fs, MountOptions::default()).expect("a mount");
    let process = Process::new(Arc::clone(&mount), Credentials::root());
    fill(&host);
    fill(&process);
    let rounds: Vec<_> = (0..ROUNDS).map(|_| (measure(&process), measure(&host))).collect();
    for (index, what) in KINDS.iter().enumerate() {
        let ours = median(rounds.iter().map(|(ours, _)| ours[index]).collect());
        let theirs = median(rounds.iter().map(|(_, theirs)| theirs[index]).collect());
        let ratio = median(rounds.iter().map(|(ours, theirs)| theirs[index] / ours[index]).collect());
        println!("{what:<26} pmfs {ours:>6.0} ns  tmpfs {theirs:>6.0} ns  ratio {ratio:.2}");
    }
    drop(process);
    mount.unmount().expect("unmount");
    std::fs::remove_dir_all(&directory).expect("clean up");
}

/// An overwrite outside a run, where no ledger is kept, and in a run of the real clock, each without and with a counting tap.
fn watching() {
    let (region, fs) = mounted();
    let mount = Mount::new(fs, MountOptions::default()).expect("a mount");
    let process = Arc::new(Process::new(mount, Credentials::root()));
    fill(&*process);
    let fd = process.open(b"/file", OpenFlags::WRITE, 0).expect("open");
    let tap = Arc::new(Counting::new());
    let pair = move || {
        let page = [7u8; 4096];
        let overwrite = |n| assert_eq!(process.pwrite(fd, &page, n * 4096 * 7919 % (1 << 20)), Ok(4096));
        let unheard = each(20_000, overwrite);
        region.attach(Arc::clone(&tap) as Arc<dyn Tap>);
        let heard = each(20_000, overwrite);
        region.detach(&tap);
        [unheard, heard]
    };
    let setup = Setup { clock: Clock::Real, ..Setup::virtual_clock(Machine::unit(), Seed(1)) };
    let rounds: Vec<_> = (0..4 * ROUNDS)
        .map(|_| [pair(), sim::run(&setup, pair.clone()).expect("the run ends")].concat())
        .collect();
    for (index, what) in ["outside a run", "with a tap", "in a run", "in a run with a tap"].iter().enumerate()
    {
        let time = median(rounds.iter().map(|round| round[index]).collect());
        let more = median(rounds.iter().map(|round| round[index] - round[0]).collect());
        println!("overwrite 4 KiB of 1 MiB, {what:<20} {time:>4.0} ns  {more:>+5.1} ns");
    }
}

fn virtual_pace() {
    let count = 400_000u64;
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let seconds = sim::run(&setup, move || {
        let (region, fs) = mounted();
        let mount = Mount::new(fs, MountOptions::default()).expect("a mount");
        let process = Process::new(mount, Credentials::root());
        fill(&process);
        region.attach(Arc::new(Counting::new()));
        let fd = process.open(b"/file", OpenFlags::READ | OpenFlags::WRITE, 0).expect("open");
        let (mut page, began) = ([7u8; 4096], Instant::now());
        for n in 0..count {
            let at = n * 4096 * 7919 % SPAN;
            let done =
                if n % 2 == 0 { process.pread(fd, &mut page, at) } else { process.pwrite(fd, &page, at) };
            assert_eq!(done, Ok(4096));
        }
        began.elapsed().as_secs_f64()
    });
    let pace = count as f64 / seconds.expect("the run ends");
    println!("virtual clock, counting tap: {pace:.0} reads and writes of 4 KiB a second");
}

fn main() {
    versus_tmpfs();
    watching();
    virtual_pace();
}
