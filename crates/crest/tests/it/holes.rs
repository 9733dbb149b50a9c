//! Holes over many runs, and frames of many places, in pools whose zones are as small as they can be.

use check::NEW;
use check::configured::virtually;
use sim::Bytes;
use vfs::{FallocateMode, FileSystem, Ino, IoFlags, SetAttr};

use crate::support::{Given, assert_sound, copy_of, made, mounted, options, region};

const BLOCK: u64 = 4096;

/// Makes a hole of all of a file, which `fill` has filled, in a pool of 8 MiB; a crash after it leaves a sound pool without the blocks.
fn punched(fill: fn(&dyn FileSystem, Ino) -> u64) {
    virtually(1, move || {
        let (region, options) = (region(Bytes::mib(8)), options(&[], None));
        let fs = made(&region, &options);
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let len = fill(&*fs, file);
        let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        fs.fallocate(file, punch, 0, len).expect("a hole");
        assert_eq!(fs.getattr(file).expect("attributes").blocks, 0);
        let crashed = copy_of(&region);
        assert_sound(&crashed);
        let again = mounted(&crashed, &options);
        let attr = again.getattr(file).expect("attributes");
        assert_eq!((attr.size, attr.blocks), (len, 0));
        again.unmount().expect("unmount");
        assert_sound(&crashed);
        fs.unmount().expect("unmount");
        assert_sound(&region);
    });
}

#[test]
fn a_hole_of_a_file_with_many_runs_far_apart_leaves_a_pool_that_is_mounted_again() {
    punched(|fs, file| {
        (0..300).for_each(|run| {
            fs.write(file, run * 1000 * BLOCK, &[7; 4096], IoFlags::empty()).expect("write");
        });
        fs.getattr(file).expect("attributes").size
    });
}

#[test]
fn a_hole_of_more_cloned_blocks_than_the_pool_has_leaves_a_pool_that_is_mounted_again() {
    punched(|fs, file| {
        let source = fs.create(fs.root(), b"source", &NEW).expect("create").ino;
        fs.write(source, 0, &vec![7; 1 << 20], IoFlags::empty()).expect("write");
        (0..10).for_each(|copy| {
            fs.clone_range((source, 0), (file, copy << 20), 1 << 20).expect("a clone");
        });
        10 << 20
    });
}

#[test]
fn an_fsync_settles_more_places_than_a_zone_has_room_for() {
    const GIVEN: Given<'_> = &[("sync", "fsync")];
    virtually(1, || {
        let (region, options) = (region(Bytes::mib(7)), options(GIVEN, None));
        let fs = made(&region, &options);
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.setattr(file, &SetAttr { size: Some(8 << 20), ..SetAttr::default() }).expect("a size");
        fs.fsync(file, false).expect("fsync");
        for block in 0..1024 {
            fs.write(file, 2 * block * BLOCK, &[7; 4096], IoFlags::empty()).expect("write");
        }
        fs.fsync(file, false).expect("fsync");
        fs.unmount().expect("unmount");
        let fs = mounted(&region, &options);
        let mut bytes = vec![0; 4096];
        for block in 0..1024 {
            fs.read(file, 2 * block * BLOCK, &mut bytes, IoFlags::empty()).expect("read");
            assert!(bytes.iter().all(|byte| *byte == 7), "block {block}");
        }
        fs.unmount().expect("unmount");
    });
}
