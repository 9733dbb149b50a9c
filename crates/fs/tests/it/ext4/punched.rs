//! Holes that are punched where there is no space left.

use check::NEW;
use check::configured::virtually;
use sim::Bytes;
use vfs::{Errno, FallocateMode, IoFlags};

use crate::ext4::judged;

const BLOCK: u64 = 1024;
/// Runs of blocks that the root of a tree has entries for.
const RUNS: u64 = 4;

/// The root of the tree is full, so a run that is cut in two takes a block for a node.
#[test]
fn a_hole_that_finds_no_space_for_its_map_leaves_the_file_as_it_was_written() {
    virtually(1, || {
        let design = judged("ext4", &[("block_size", "1k"), ("journal", "1MiB")]);
        let region = check::configured::region(Bytes::mib(4));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
        for run in 0..RUNS {
            fs.write(file, run * 16 * BLOCK, &[b'o'; 8 * BLOCK as usize], IoFlags::empty()).expect("write");
        }
        fs.fsync(file, false).expect("fsync");
        let filler = fs.create(fs.root(), b"filler", &NEW).expect("create").ino;
        for len in [64, 1, 1, 1] {
            while fs.write(filler, 0, &vec![b'f'; len * BLOCK as usize], IoFlags::APPEND).is_ok() {}
            fs.sync().expect("sync");
        }
        assert_eq!(fs.statfs().expect("space").blocks_free, 0);
        // It is in the cache alone.
        fs.write(file, 0, &[b'n'; 8 * BLOCK as usize], IoFlags::empty()).expect("write");
        let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        let punched = fs.fallocate(file, punch, 2 * BLOCK + 100, 4 * BLOCK);
        assert_eq!(punched, Err(Errno::ENOSPC));
        let mut found = [0; 8 * BLOCK as usize];
        fs.read(file, 0, &mut found, IoFlags::empty()).expect("read");
        assert!(found == [b'n'; 8 * BLOCK as usize], "what was written is lost");
        fs.unmount().expect("unmount");
        assert_eq!(design.fsck(&region), Vec::<String>::new());
    });
}
