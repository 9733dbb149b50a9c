//! Runs as long as an extent can be, and removals that are larger than a transaction.

use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Errno, FallocateMode, FileSystem, Ino};

use crate::ext4::judged;
use crate::ext4::kernel_images::made_by_mkfs;
use crate::ext4::tools::{e2fsck, has_e2fsck};

const BLOCK: u64 = 1024;
/// The most blocks of an unwritten extent.
const MOST_UNWRITTEN: u64 = 32_767;

fn sound(region: &Arc<Region>) {
    assert_eq!(judged("ext4", &[]).fsck(region), Vec::<String>::new());
    if has_e2fsck() {
        e2fsck(region).unwrap_or_else(|said| panic!("{said}"));
    }
}

fn reserve(fs: &dyn FileSystem, file: Ino, first: u64, blocks: u64) -> Result<(), Errno> {
    fs.fallocate(file, FallocateMode::empty(), first * BLOCK, blocks * BLOCK)
}

/// A run of which an extent can have all but a block was given to it in two steps. The second found no space, and all of it was free
/// again while the first still led to it.
#[test]
fn a_reservation_takes_no_longer_run_than_an_unwritten_extent_can_have() {
    if !has_e2fsck() {
        return;
    }
    // Tables lie in the first of 64 groups, so that later ones are free from end to end.
    let image = made_by_mkfs(&["-t", "ext4", "-b", "1024", "-m", "0", "-G", "64", "-J", "size=1"], 400);
    let region = Arc::clone(&image);
    virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        reserve(&*fs, file, 0, 300 << 10).expect("room");
        let longest = fs.extents(file).expect("extents").iter().map(|extent| extent.len / BLOCK).max();
        assert_eq!(longest, Some(MOST_UNWRITTEN));
        fs.unmount().expect("unmount");
    });
    sound(&image);
}

#[test]
fn a_large_file_is_removed_where_each_of_its_blocks_is_revoked() {
    let image = check::configured::region(Bytes::mib(192));
    let region = Arc::clone(&image);
    virtually(1, move || {
        let design = judged("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("data", "journal")]);
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"large", &NEW).expect("create").ino;
        reserve(&*fs, file, 0, 150 << 10).expect("room");
        fs.sync().expect("sync");
        fs.unlink(fs.root(), b"large").expect("unlink");
        fs.sync().expect("the log has room for each transaction");
        fs.create(fs.root(), b"next", &NEW).expect("the volume still changes");
        fs.unmount().expect("unmount");
    });
    sound(&image);
}
