//! How fast buffered writers are when they write more than the page cache may keep dirty.

use std::sync::Arc;

use check::NEW;
use design::Options;
use fs::by_name;
use media::nvmm::Region;
use media::{Medium, Storage};
use sim::{Bytes, JoinHandle, Machine, Nanos, Seed, Setup, TaskSpec};
use vfs::IoFlags;

const MIB: u64 = 1 << 20;
const CACHE: u64 = 32 * MIB;
const EACH: u64 = 32 * MIB;
/// Of a 4-KiB page on the medium: 64 lines.
const PAGE: Nanos = Nanos(64 * 200);

/// Virtual time in which so many tasks write a file each, on the device of HiNFS's comparison: three tasks can write to it at once.
fn time(design: &'static str, tasks: u16) -> Nanos {
    let run = move || {
        let model = Medium::named("hinfs").and_then(|medium| medium.build()).expect("a preset");
        let region = Arc::new(Region::anonymous(Bytes::mib(512), model).expect("memory"));
        let design = by_name(design).expect("a design");
        let given = [("cache".to_owned(), CACHE.to_string())].into();
        let options = Options::resolve(design.name(), design.options(), &given).expect("options");
        design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
        let fs = design.mount(&Storage::from(&region), &options).expect("mount");
        let began = sim::now();
        let start = |task: u16| {
            let file = fs.create(fs.root(), format!("{task}").as_bytes(), &NEW).expect("create").ino;
            let fs = Arc::clone(&fs);
            sim::spawn(TaskSpec::named(format!("writer {task}")).on_core(task), move || {
                for piece in 0..EACH / (64 << 10) {
                    let bytes = vec![piece as u8; 64 << 10];
                    fs.write(file, piece * (64 << 10), &bytes, IoFlags::empty()).expect("write");
                }
            })
        };
        let tasks: Vec<_> = (0..tasks).map(start).collect();
        tasks.into_iter().for_each(JoinHandle::join);
        let took = sim::now().since(began);
        fs.unmount().expect("unmount");
        took
    };
    let machine = Machine { copy_ps_per_byte: 50, dram_ps_per_byte: 0, ..Machine::unit() };
    sim::run(&Setup::virtual_clock(machine, Seed(1)), run).expect("the run ends")
}

#[test]
fn writers_that_exceed_the_dirty_limit_together_get_what_one_task_writes_back() {
    for design in ["ext2", "ext4"] {
        for tasks in [1, 4] {
            let pages = (u64::from(tasks) * EACH - CACHE / 5) / 4096;
            let least = Nanos(pages * PAGE.0);
            let took = time(design, tasks);
            println!("{design}, {tasks} writers: {took}, at least {least}");
            assert!(took >= least, "{design}, {tasks} writers: {took} is less than {least}");
            assert!(took.0 <= least.0 * 5 / 4, "{design}, {tasks} writers: {took} is far above {least}");
        }
    }
}
