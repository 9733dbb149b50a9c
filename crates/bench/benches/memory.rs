//! What things take of the host's memory: how much the resident set of this process grows over many of them. The medium's own
//! memory is resident before. Nothing is given back before the end, so that nothing is used twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, Machine, Nanos, Seed, Setup, TaskSpec};
use vfs::{
    Credentials, FileSystem, IoFlags, Mount, MountOptions, NewInode, OpenFlags, Owner, Process, Syscalls,
};

const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
const FILES: u64 = 200_000;
const BLOCKS: u64 = 60_000;
const SMALL: u64 = 50_000;
const TASKS: u64 = 2_000;

fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * rustix::param::page_size() as u64
}

/// Prints what one of `count` things takes that `make` makes.
fn each<T>(what: &str, count: u64, make: impl FnOnce() -> T) -> T {
    let before = resident();
    let made = make();
    println!("{what:<60} {:>6} B", resident().saturating_sub(before) / count);
    made
}

/// An image of `name` on a medium that is resident, and how to mount it.
fn image(
    name: &str,
    settings: &[(&str, &str)],
) -> (Arc<Region>, impl Fn(&Arc<Region>) -> Arc<dyn FileSystem>) {
    let region = Region::anonymous(Bytes::gib(1), Box::new(media::nvmm::null::Null)).expect("memory");
    region.nt_zero(0, region.len()).expect("in range");
    let design = fs::by_name(name).expect("a design");
    let settings: BTreeMap<_, _> =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let options = design::Options::resolve(name, design.options(), &settings).expect("an option");
    let region = Arc::new(region);
    design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    (region, move |region| design.mount(&Storage::from(region), &options).expect("mount"))
}

fn name_of(n: u64) -> Vec<u8> {
    format!("file{n:06}").into_bytes()
}

fn inodes(design: &str) -> Arc<dyn FileSystem> {
    let (region, mount) = image(design, &[]);
    let fs = mount(&region);
    let files = each(&format!("{design}: inode, and its name in the directory's index"), FILES, || {
        let file = |n| fs.create(fs.root(), &name_of(n), &NEW).expect("create").ino;
        (0..FILES).map(file).collect::<Vec<_>>()
    });
    let write = |file, block: u64| {
        fs.write(file, block * 4096, &[1; 4096], IoFlags::empty()).expect("write");
    };
    each(&format!("{design}: the first block of a file"), SMALL, || {
        files.iter().take(SMALL as usize).for_each(|file| write(*file, 0));
    });
    each(&format!("{design}: each further block of a large file"), BLOCKS, || {
        (1..BLOCKS).for_each(|block| write(files[0], block));
    });
    fs
}

/// What `vfs` adds to the inodes of `fs`.
fn names(fs: Arc<dyn FileSystem>) -> Process {
    let mount = Mount::new(fs, MountOptions::default()).expect("a mount");
    let process = Process::new(mount, Credentials::root());
    each("vfs: cached name and vnode", FILES, || {
        for n in 0..FILES {
            process.stat(&name_of(n)).expect("stat");
        }
    });
    each("vfs: open file", FILES, || {
        for n in 0..FILES {
            process.open(&name_of(n), OpenFlags::READ, 0).expect("open");
        }
    });
    process
}

/// What the pool takes when it is mounted is counted. The medium is said to be slow: to a fast one nothing is buffered.
fn blocks() -> Arc<dyn FileSystem> {
    let (region, mount) = image("hinfs", &[("buffer", "256MiB"), ("medium_write", "200ns")]);
    let fs = each("hinfs: buffered block, its 4096 B included", BLOCKS, || {
        let fs = mount(&region);
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        for block in 0..BLOCKS {
            fs.write(file, block * 4096, &[1; 4096], IoFlags::empty()).expect("write");
        }
        fs
    });
    assert!(fs.counters().contains(&("pages_used", BLOCKS)), "{:?}", fs.counters());
    fs
}

fn tasks() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let done = sim::run(&setup, || {
        each("sim: task of the virtual clock that sleeps", TASKS, || {
            for n in 0..TASKS {
                sim::spawn(TaskSpec::named(format!("{n}")), || sim::sleep(Nanos::from_secs(2)));
            }
            sim::sleep(Nanos::from_secs(1));
        });
    });
    done.expect("the run ends");
}

fn main() {
    tasks();
    let process = names(inodes("pmfs"));
    let others = [inodes("hinfs"), inodes("nova"), inodes("crest"), blocks()];
    drop(process);
    for fs in others {
        fs.unmount().expect("unmount");
    }
}
