//! Writes past the page cache: what the file shows around them, and after one that fails.

use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::Storage;
use media::block::{BlockDevice, BlockModel, MemoryDevice};
use media::fault::Fault;
use sim::{Bytes, JoinHandle, Nanos, TaskSpec};
use vfs::{FileSystem, Ino, IoFlags, SetAttr};

use crate::shared::harness;

const BLOCK: usize = 4096;

fn mounted(size: Bytes) -> (Arc<MemoryDevice>, Arc<dyn FileSystem>) {
    let device = MemoryDevice::ram(size).expect("memory");
    let storage = Storage::of_block(Arc::clone(&device) as Arc<dyn BlockDevice>);
    let design = fs::by_name("ext4").expect("a design");
    let options = harness::options(design, &[("block_size", "4k")]);
    design.format().mkfs(&storage, &options).expect("mkfs");
    (device, design.mount(&storage, &options).expect("mount"))
}

fn read(fs: &dyn FileSystem, file: Ino, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    let len = fs.read(file, 0, &mut found, IoFlags::empty()).expect("read");
    found.truncate(len);
    found
}

#[test]
fn a_direct_write_behind_the_end_shows_zeros_where_the_file_was_cut() {
    virtually(1, || {
        let (_device, fs) = mounted(Bytes::mib(32));
        let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
        fs.write(file, 0, &[b'o'; BLOCK], IoFlags::empty()).expect("write");
        fs.sync().expect("sync");
        fs.setattr(file, &SetAttr { size: Some(100), ..SetAttr::default() }).expect("truncate");
        fs.write(file, BLOCK as u64, &[b'n'; BLOCK], IoFlags::DIRECT).expect("direct write");
        let right = [vec![b'o'; 100], vec![0; BLOCK - 100], vec![b'n'; BLOCK]].concat();
        assert!(read(&*fs, file, 2 * BLOCK) == right, "before the caches are dropped");
        fs.sync().expect("sync");
        fs.drop_caches().expect("drop");
        assert!(read(&*fs, file, 2 * BLOCK) == right, "on the device");
        fs.unmount().expect("unmount");
    });
}

#[test]
fn a_direct_overwrite_shows_to_those_who_read_through_the_cache() {
    virtually(1, || {
        let (_device, fs) = mounted(Bytes::mib(32));
        let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
        fs.write(file, 0, &[b'o'; 3 * BLOCK], IoFlags::empty()).expect("write");
        fs.sync().expect("sync");
        for round in [b'a', b'b'] {
            fs.write(file, BLOCK as u64, &[round; BLOCK], IoFlags::DIRECT).expect("direct write");
            let right = [[b'o'; BLOCK], [round; BLOCK], [b'o'; BLOCK]].concat();
            assert!(read(&*fs, file, 3 * BLOCK) == right);
        }
        fs.unmount().expect("unmount");
    });
}

#[test]
fn a_direct_write_that_fails_midway_leaves_no_page_that_differs_from_the_device() {
    virtually(1, || {
        let (device, fs) = mounted(Bytes::mib(32));
        let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
        fs.write(file, 0, &[b'o'; 4 * BLOCK], IoFlags::empty()).expect("write");
        fs.sync().expect("sync");
        assert!(read(&*fs, file, 4 * BLOCK) == [b'o'; 4 * BLOCK]);
        device.inject(Fault::TearNth { nth: 1, blocks: 8 });
        fs.write(file, 0, &[b'n'; 4 * BLOCK], IoFlags::DIRECT).expect_err("the write is torn");
        device.clear_faults();
        let cached = read(&*fs, file, 4 * BLOCK);
        fs.drop_caches().expect("drop");
        assert!(cached == read(&*fs, file, 4 * BLOCK), "a read shows what is not on the device");
        assert!(cached[..BLOCK] == [b'n'; BLOCK], "nothing was torn");
        fs.unmount().expect("unmount");
    });
}

/// Virtual time of 16 calls of each of so many tasks on one file of an SSD, each in a part of its own.
fn time_on_ssd(tasks: u64, call: fn(&dyn FileSystem, Ino, u64)) -> Nanos {
    virtually(4, move || {
        let device = BlockModel::parse("fast24").expect("a preset").build().expect("an SSD").device;
        let storage = Storage::of_block(device);
        let design = fs::by_name("ext4").expect("a design");
        let options = harness::options(design, &[("block_size", "4k")]);
        design.format().mkfs(&storage, &options).expect("mkfs");
        let fs = design.mount(&storage, &options).expect("mount");
        let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
        fs.write(file, 0, &vec![b'o'; 256 * BLOCK], IoFlags::empty()).expect("write");
        fs.sync().expect("sync");
        fs.drop_caches().expect("drop");
        let began = sim::now();
        let start = |task: u64| {
            let fs = Arc::clone(&fs);
            sim::spawn(TaskSpec::named(format!("task {task}")).on_core(task as u16), move || {
                (0..16).for_each(|number| call(&*fs, file, task * 16 + number));
            })
        };
        let tasks: Vec<_> = (0..tasks).map(start).collect();
        tasks.into_iter().for_each(JoinHandle::join);
        let took = sim::now().since(began);
        fs.unmount().expect("unmount");
        took
    })
}

/// Linux holds `i_rwsem` shared: `ext4_dio_read_iter`.
#[test]
fn readers_of_one_file_past_the_cache_do_not_wait_for_each_other() {
    let read = |fs: &dyn FileSystem, file, block: u64| {
        let mut page = [0; BLOCK];
        assert_eq!(fs.read(file, block * BLOCK as u64, &mut page, IoFlags::DIRECT), Ok(BLOCK));
        assert_eq!(page, [b'o'; BLOCK]);
    };
    let (one, four) = (time_on_ssd(1, read), time_on_ssd(4, read));
    assert!(four.0 * 2 < one.0 * 3, "one reader {one}, four {four}");
}

/// The same of overwrites: `ext4_dio_write_checks`.
#[test]
fn writers_over_blocks_of_one_file_past_the_cache_do_not_wait_for_each_other() {
    let write = |fs: &dyn FileSystem, file, block: u64| {
        let done = fs.write(file, block * BLOCK as u64, &[b'n'; BLOCK], IoFlags::DIRECT).expect("write");
        assert_eq!(done.bytes, BLOCK);
    };
    let (one, four) = (time_on_ssd(1, write), time_on_ssd(4, write));
    assert!(four.0 * 2 < one.0 * 3, "one writer {one}, four {four}");
}
