//! Blocks that only root may take (mke2fs: `-m`).

use std::sync::Arc;

use media::Storage;
use sim::Bytes;
use vfs::{Errno, FallocateMode, FileSystem, IoFlags, NewInode, Owner};

use crate::shared::harness::{self, virtually};

/// Writes to a new file until there is no space, as the user; the error, and the blocks that are free then.
fn fill(fs: &dyn FileSystem, name: &[u8], user: u32) -> (Option<Errno>, u64) {
    let new = NewInode { perm: 0o644, owner: Owner { uid: user, gid: user } };
    sim::work_for(user, user);
    let file = fs.create(fs.root(), name, &new).expect("an inode is free").ino;
    let full = (0..4096).find_map(|page| fs.write(file, page * 4096, &[7; 4096], IoFlags::empty()).err());
    sim::work_for(0, 0);
    fs.sync().expect("sync");
    (full, fs.statfs().expect("statfs").blocks_free)
}

#[test]
fn only_root_takes_the_last_part_of_the_blocks_and_others_see_less_as_available() {
    for (name, given) in [
        ("ext4", &[][..]),
        ("ext4", &[("delalloc", "false"), ("reserved", "20%")]),
        ("ext2", &[("reserved", "10%")]),
        ("ext4-dax", &[]),
        ("ext4", &[("reserved", "0")]),
    ] {
        virtually(1, move || {
            let design = fs::by_name(name).expect("a design");
            let options = harness::options(design, given);
            let storage = Storage::from(&harness::region(Bytes::mib(16)));
            design.format().mkfs(&storage, &options).expect("mkfs");
            let fs: Arc<dyn FileSystem> = design.mount(&storage, &options).expect("mount");
            // The part is one of all blocks, also of those that never hold files.
            let all = (16 << 20) / u64::from(fs.statfs().expect("statfs").frsize);
            let kept = (all as f64 * options.fraction("reserved")) as u64;
            let (full, free) = fill(&*fs, b"user's", 1000);
            assert_eq!(full, Some(Errno::ENOSPC), "{name} {given:?}");
            assert!((kept..kept + 40).contains(&free), "{name} {given:?}: {free} free, {kept} kept");
            assert!(fs.blocks_available(&fs.statfs().expect("statfs")) <= free - kept);
            let (full, free) = fill(&*fs, b"root's", 0);
            assert_eq!(full, Some(Errno::ENOSPC));
            assert!(free < 10, "{name} {given:?}: root leaves {free}");
            fs.unmount().expect("unmount");
            assert_eq!(design.format().fsck(&storage).violations, []);
        });
    }
}

/// Blocks beyond the end of a file have no meaning in a block map, and e2fsck complains of them.
#[test]
fn a_reservation_that_finds_no_space_leaves_no_block_beyond_the_end_of_a_file_with_a_block_map() {
    virtually(1, move || {
        let design = fs::by_name("ext2").expect("a design");
        let options = harness::options(design, &[("reserved", "0"), ("block_size", "1k")]);
        let storage = Storage::from(&harness::region(Bytes::mib(2)));
        design.format().mkfs(&storage, &options).expect("mkfs");
        let fs: Arc<dyn FileSystem> = design.mount(&storage, &options).expect("mount");
        let new = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
        let [few, file] = [b"few", b"big"].map(|name| fs.create(fs.root(), name, &new).expect("create").ino);
        fs.write(few, 0, &[1; 12 << 10], IoFlags::empty()).expect("write");
        fs.write(file, 0, &[2; 700], IoFlags::empty()).expect("write");
        fill(&*fs, b"all", 0);
        fs.unlink(fs.root(), b"few").expect("unlink");
        fs.sync().expect("sync");
        let free = fs.statfs().expect("statfs").blocks_free;
        assert!(free >= 12, "{free}");
        let mode = FallocateMode::ZERO_RANGE;
        assert_eq!(fs.fallocate(file, mode, 500, 40 << 10), Err(Errno::ENOSPC));
        assert_eq!(fs.getattr(file).expect("attributes").size, 700);
        assert_eq!(fs.statfs().expect("statfs").blocks_free, free);
        fs.unmount().expect("unmount");
        assert_eq!(design.format().fsck(&storage).violations, []);
    });
}
