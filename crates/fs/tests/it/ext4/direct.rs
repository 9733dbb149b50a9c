//! Writes past the page cache: what the file shows around them, and after one that fails.

use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::Storage;
use media::block::{BlockDevice, MemoryDevice};
use media::fault::Fault;
use sim::Bytes;
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
