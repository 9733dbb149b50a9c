//! What tasks share that have nothing to do with each other, on a machine of 80 cores under the virtual clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::NEW;
use design::Options;
use fs::by_name;
use media::Storage;
use sim::{Bytes, JoinHandle, Machine, Nanos, Seed, Setup, TaskSpec, Work};
use vfs::{FileSystem, Ino, IoFlags, OpenFlags};

const CORES: u16 = 80;
const CALLS: u64 = 2_000;

/// A call of one task: the file system, the task's directory and file, the number of the call.
type Call = fn(&dyn FileSystem, (Ino, Ino), u64);

fn mounted() -> Arc<dyn FileSystem> {
    let (design, region) = (by_name("ext4").expect("a design"), check::configured::region(Bytes::mib(64)));
    let options = Options::resolve("ext4", design.options(), &BTreeMap::default()).expect("defaults");
    design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    design.mount(&Storage::from(&region), &options).expect("mount")
}

/// A directory and a file of 16 KiB for each task, on the device and in the cache.
fn furnish(fs: &dyn FileSystem) -> Vec<(Ino, Ino)> {
    let one = |task: u16| {
        let dir = fs.mkdir(fs.root(), format!("d{task}").as_bytes(), &NEW).expect("mkdir").ino;
        let file = fs.create(dir, b"file", &NEW).expect("create").ino;
        fs.write(file, 0, &[7; 16 << 10], IoFlags::empty()).expect("write");
        (dir, file)
    };
    let all = (0..CORES).map(one).collect();
    fs.sync().expect("sync");
    all
}

/// One file for all, of four pages for each task; the number of the directory is that of the task.
fn furnish_shared(fs: &dyn FileSystem) -> Vec<(Ino, Ino)> {
    let file = fs.create(fs.root(), b"shared", &NEW).expect("create").ino;
    fs.write(file, 0, &vec![7; usize::from(CORES) * (16 << 10)], IoFlags::empty()).expect("write");
    fs.sync().expect("sync");
    (0..CORES).map(|task| (Ino(u64::from(task)), file)).collect()
}

/// Virtual time until each of so many tasks has made its calls.
fn time(tasks: u16, call: Call) -> Nanos {
    time_of(furnish, tasks, call)
}

fn time_of(furnish: fn(&dyn FileSystem) -> Vec<(Ino, Ino)>, tasks: u16, call: Call) -> Nanos {
    let machine = Machine { dram_ps_per_byte: 0, ..Machine::unit() };
    let run = move || {
        let fs = mounted();
        let places = furnish(&*fs);
        // The first call finds things for the first time.
        for place in &places {
            call(&*fs, *place, 0);
        }
        let began = sim::now();
        let start = |task: u16| {
            let (fs, place) = (Arc::clone(&fs), places[usize::from(task)]);
            sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task), move || {
                (1..=CALLS).for_each(|number| call(&*fs, place, number));
            })
        };
        let tasks: Vec<_> = (0..tasks).map(start).collect();
        tasks.into_iter().for_each(JoinHandle::join);
        let took = sim::now().since(began);
        fs.unmount().expect("unmount");
        took
    };
    sim::run(&Setup::virtual_clock(machine, Seed(1)), run).expect("the run ends")
}

fn read(fs: &dyn FileSystem, (_, file): (Ino, Ino), number: u64) {
    let mut page = [0; 4096];
    assert_eq!(fs.read(file, number % 4 * 4096, &mut page, IoFlags::empty()), Ok(4096));
}

/// Words in pages of its own of a file of all tasks (FxMark's DRBM, without its copies).
fn read_own_part(fs: &dyn FileSystem, (task, file): (Ino, Ino), number: u64) {
    let mut word = [0; 8];
    let at = (task.0 * 4 + number % 4) * 4096;
    assert_eq!(fs.read(file, at, &mut word, IoFlags::empty()), Ok(8));
}

/// A word of one page for all tasks (DRBH, without its copy).
fn read_one_page(fs: &dyn FileSystem, (_, file): (Ino, Ino), _: u64) {
    let mut word = [0; 8];
    assert_eq!(fs.read(file, 0, &mut word, IoFlags::empty()), Ok(8));
}

fn stat(fs: &dyn FileSystem, (_, file): (Ino, Ino), _: u64) {
    assert!(fs.getattr(file).is_ok());
}

fn open_and_close(fs: &dyn FileSystem, (_, file): (Ino, Ino), _: u64) {
    fs.open(file, OpenFlags::READ).expect("open");
    fs.release(file);
}

fn look_up(fs: &dyn FileSystem, (dir, file): (Ino, Ino), _: u64) {
    assert_eq!(fs.lookup(dir, b"file").map(|found| found.ino), Ok(file));
}

#[test]
fn tasks_on_80_cores_that_read_stat_open_and_look_up_files_of_their_own_wait_for_none_of_the_others() {
    let calls: [(&str, Call); 4] =
        [("read", read), ("stat", stat), ("open", open_and_close), ("lookup", look_up)];
    for (what, call) in calls {
        let (one, all) = (time(1, call), time(CORES, call));
        println!("{what}: {one} for one task, {all} for {CORES}");
        // The tasks begin one after the other.
        let begin = time(CORES, |_, _, _| ());
        assert!(all.0 <= one.0 + one.0 / 5 + begin.0, "{what}: {one} for one task, {all} for {CORES}");
    }
}

#[test]
fn tasks_on_80_cores_that_read_different_pages_of_one_file_wait_for_none_of_the_others() {
    let of = |tasks| time_of(furnish_shared, tasks, read_own_part);
    let (one, all) = (of(1), of(CORES));
    println!("{one} for one task, {all} for {CORES}");
    assert!(all.0 < one.0 + one.0 / 5, "{one} for one task, {all} for {CORES}");
}

/// Linux takes a reference of the page and drops it: two updates of one line, each of which comes from another core.
#[test]
fn tasks_that_read_one_page_follow_each_other_in_two_updates_of_its_line() {
    let all = time_of(furnish_shared, CORES, read_one_page);
    let update = Machine::unit().cost(Work::LOCK, 1) + Machine::unit().transfer(0, 1);
    let least = Nanos(2 * u64::from(CORES) * CALLS * update.0);
    println!("{all}, at least {least}");
    assert!(all.0 > least.0 * 9 / 10 && all.0 < least.0 * 5 / 4, "{all}, at least {least}");
}
