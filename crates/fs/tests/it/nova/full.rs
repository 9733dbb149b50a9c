//! Images that are full: what cannot grow is refused before anything is taken, and what is there is found again.

use check::NEW;
use check::configured::{fsck, region};
use sim::Bytes;
use vfs::Errno;

use crate::shared::harness::{virtually, with_options};

/// All inodes come from the core of one task, so that its shard has all that a shard may have long before the image is full.
#[test]
fn a_shard_that_has_all_its_inodes_takes_no_blocks_and_the_next_mount_finds_every_file() {
    let (design, region) = (with_options("nova", &[("shards", "16")]), region(Bytes::mib(16)));
    virtually(1, move || {
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let make = |number: u64| fs.create(fs.root(), &number.to_le_bytes().map(|byte| byte | 0x80), &NEW);
        // The names are numbers in bytes without 0 and `/`: 128 of each.
        let name = |number: u64| number % 128 | (number / 128 % 128) << 8 | (number / 16_384) << 16;
        let made = (0..).take_while(|number| match make(name(*number)) {
            Ok(_) => true,
            Err(errno) => {
                assert_eq!(errno, Errno::ENOSPC);
                false
            }
        });
        let made = made.count();
        let space = fs.statfs().expect("space");
        fs.unmount().expect("unmount");
        fsck(&design, &region).expect("fsck");
        let fs = design.mount(&region).expect("mount");
        assert_eq!(check::observe(&*fs).expect("a tree").len(), made + 1);
        assert_eq!(fs.statfs().expect("space").blocks_free, space.blocks_free);
        fs.unmount().expect("unmount");
    });
}
