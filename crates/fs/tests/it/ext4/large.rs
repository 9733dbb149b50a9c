//! Runs as long as an extent can be, and removals that are larger than a transaction.

use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Errno, FallocateMode, FileSystem, Ino, IoFlags};

use crate::ext4::judged;
use crate::ext4::kernel_images::made_by_mkfs;
use crate::ext4::tools::{e2fsck, has_e2fsck};

const BLOCK: u64 = 1024;
/// One more than the most blocks of an unwritten extent.
const RUN: u64 = 32_768;

fn sound(region: &Arc<Region>) {
    assert_eq!(judged("ext4", &[]).fsck(region), Vec::<String>::new());
    if has_e2fsck() {
        e2fsck(region).unwrap_or_else(|said| panic!("{said}"));
    }
}

fn reserve(fs: &dyn FileSystem, file: Ino, first: u64, blocks: u64) -> Result<(), Errno> {
    fs.fallocate(file, FallocateMode::empty(), first * BLOCK, blocks * BLOCK)
}

/// Files of a sixteenth of a run until there is no space. Those that lie in one run go away again: what is free then is that run, or
/// little more.
fn leave_one_run(fs: &dyn FileSystem) {
    let part = RUN / 16;
    let name = |number: usize| format!("part{number}").into_bytes();
    let mut places = Vec::new();
    for number in 0.. {
        let file = fs.create(fs.root(), &name(number), &NEW).expect("an inode").ino;
        if reserve(fs, file, 0, part).is_err() {
            break;
        }
        if let [one] = &fs.extents(file).expect("extents")[..] {
            places.push((one.physical / BLOCK, number));
        }
    }
    places.sort_unstable();
    let is_run = |run: &&[(u64, usize)]| run[15].0 - run[0].0 == 15 * part;
    let run = places.windows(16).find(is_run).expect("a run without tables");
    for (_, number) in run {
        fs.unlink(fs.root(), &name(*number)).expect("unlink");
    }
    fs.sync().expect("sync");
    let rest = fs.create(fs.root(), b"rest", &NEW).expect("an inode").ino;
    let other = fs.statfs().expect("statfs").blocks_free - RUN;
    let _ = reserve(fs, rest, 0, other);
    fs.sync().expect("sync");
}

/// A run of which an unwritten extent can have all but a block was given to it in two steps. The second found no space, and all of
/// it was free again while the first still led to it.
#[test]
fn a_reservation_of_the_longest_run_gives_no_block_to_two_files() {
    if !has_e2fsck() {
        return;
    }
    // Tables lie in the first of 64 groups, so that later ones are free from end to end.
    let image = made_by_mkfs(&["-t", "ext4", "-b", "1024", "-m", "0", "-G", "64", "-J", "size=1"], 400);
    let region = Arc::clone(&image);
    virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        for block in [0, 10, 20] {
            fs.write(file, block * BLOCK, &[7; 1024], IoFlags::empty()).expect("write");
        }
        fs.sync().expect("sync");
        leave_one_run(&*fs);
        let _ = reserve(&*fs, file, 1000, RUN);
        for name in [b"h1", b"h2"] {
            let other = fs.create(fs.root(), name, &NEW).expect("an inode").ino;
            let _ = reserve(&*fs, other, 0, 1024);
        }
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
