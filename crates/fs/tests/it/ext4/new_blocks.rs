//! New blocks of files in memory: unwritten until their data is stored, or zeroed and written at once, as the kernel does it.

use std::collections::BTreeMap;

use check::NEW;
use design::Options;
use fs::by_name;
use media::Storage;
use media::charges::LINES_WRITTEN;
use sim::ledger::Snapshot;
use sim::{Activity, Bytes, Machine, Seed, Setup};
use vfs::IoFlags;

const PAGE_LINES: u64 = 64;

/// Lines of data that appends of 4 KiB write, each, and a write over one of them.
fn lines(linux: Option<(u16, u16)>, given: &[(&str, &str)]) -> (u64, u64) {
    const APPENDS: u64 = 16;
    let design = by_name("ext4-dax").expect("a design");
    let given: BTreeMap<_, _> =
        given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let options = Options::resolve("ext4-dax", design.options(), &given).expect("options");
    let region = check::configured::region(Bytes::mib(64));
    let setup = Setup::virtual_clock(Machine { linux, ..Machine::unit() }, Seed(1));
    let run = move || {
        design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
        let fs = design.mount(&Storage::from(&region), &options).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let data = || Snapshot::of_run().count(&LINES_WRITTEN, Activity::DATA);
        let before = data();
        for page in 0..APPENDS {
            fs.write(file, page * 4096, &[7; 4096], IoFlags::empty()).expect("write");
        }
        let appended = data();
        fs.write(file, 0, &[8; 4096], IoFlags::empty()).expect("write");
        let over = data() - appended;
        let mut back = vec![0; 4096];
        fs.read(file, 4096, &mut back, IoFlags::empty()).expect("read");
        assert!(back.iter().all(|byte| *byte == 7));
        fs.unmount().expect("unmount");
        let found = design.format().fsck(&Storage::from(&region));
        assert!(found.violations.is_empty(), "{:?}", found.violations);
        ((appended - before) / APPENDS, over)
    };
    sim::run(&setup, run).expect("the run ends")
}

#[test]
fn an_append_stores_each_new_block_twice_below_a_kernel_that_zeroes_it_first() {
    let once = (PAGE_LINES, PAGE_LINES);
    let twice = (2 * PAGE_LINES, PAGE_LINES);
    assert_eq!(lines(None, &[]), once, "below no kernel");
    assert_eq!(lines(Some((4, 6)), &[]), once);
    assert_eq!(lines(Some((4, 7)), &[]), twice);
    assert_eq!(lines(Some((5, 1)), &[]), twice);
    assert_eq!(lines(Some((5, 1)), &[("new_extents", "unwritten")]), once);
    assert_eq!(lines(None, &[("new_extents", "zeroed")]), twice);
}

/// What a write over a page and a read of it take.
fn over_and_back(staged: &str) -> u64 {
    let design = by_name("ext4-dax").expect("a design");
    let given = BTreeMap::from([("staged".to_owned(), staged.to_owned())]);
    let options = Options::resolve("ext4-dax", design.options(), &given).expect("options");
    let region = check::configured::region(Bytes::mib(64));
    let machine = Machine { copy_ps_per_byte: 1000, ..Machine::unit() };
    let run = move || {
        design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
        let fs = design.mount(&Storage::from(&region), &options).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.write(file, 0, &[7; 4096], IoFlags::empty()).expect("write");
        let before = sim::now();
        fs.write(file, 0, &[8; 4096], IoFlags::empty()).expect("write");
        let mut back = vec![0; 4096];
        fs.read(file, 0, &mut back, IoFlags::empty()).expect("read");
        assert!(back.iter().all(|byte| *byte == 8));
        sim::now().since(before).0
    };
    sim::run(&Setup::virtual_clock(machine, Seed(1)), run).expect("the run ends")
}

#[test]
fn staged_data_is_copied_once_more_in_each_direction() {
    // A nanosecond a byte.
    assert_eq!(over_and_back("true") - over_and_back("false"), 2 * 4096);
}
