//! A descriptor that says of inodes in use that they were never used (`bg_itable_unused`, `INODE_UNINIT`): a hint, not a fact.

use std::sync::Arc;

use check::configured::virtually;
use sim::Bytes;

use crate::ext4::edited::{Edited, GROUP_FLAGS, UNUSED_INODES, file};

const NO_JOURNAL: [(&str, &str); 2] = [("block_size", "1k"), ("journal", "0")];
const INODE_UNINIT: u16 = 1;
const BLOCK_UNINIT: u16 = 2;

/// Eight files in an image whose descriptor knows of none of them.
fn stale(given: &[(&str, &str)]) -> Edited {
    let image = Edited::made("ext4", given, Bytes::mib(8), |fs| {
        for number in 0..8_u8 {
            file(fs, &format!("file {number}"), &[number; 3000]);
        }
    });
    let inodes = image.word(1024 + 0x28);
    image.change_descriptor(UNUSED_INODES, (inodes - 11) as u16);
    image
}

#[test]
fn a_repair_keeps_files_beyond_a_stale_count_of_unused_inodes_and_corrects_it() {
    for given in [&NO_JOURNAL[..], &[("block_size", "1k"), ("journal", "1MiB")]] {
        let image = stale(given);
        let before = image.files();
        assert_eq!(before.len(), 9, "the root and the files: {:?}", before.keys());
        let image = stale(given);
        let found = image.violations();
        assert!(found.iter().any(|what| what.contains("were never used")), "{found:?}");
        let done = image.repair();
        assert!(done.iter().any(|what| what.contains("unused inodes")), "{done:?}");
        assert_eq!(image.violations(), Vec::<String>::new());
        assert_eq!(image.files(), before);
    }
}

#[test]
fn a_mount_of_an_unclean_image_keeps_files_beyond_a_stale_count_of_unused_inodes() {
    let before = stale(&NO_JOURNAL).files();
    let image = stale(&NO_JOURNAL);
    image.leave_unclean();
    assert_eq!(image.files(), before);
    assert_eq!(image.violations(), Vec::<String>::new());
}

#[test]
fn names_that_lead_into_a_table_that_was_never_used_make_it_count() {
    let before = stale(&NO_JOURNAL).files();
    let image = stale(&NO_JOURNAL);
    image.change_descriptor(GROUP_FLAGS, INODE_UNINIT);
    // The root directory itself lies there: it is read whatever its group says.
    image.repair();
    assert_eq!(image.violations(), Vec::<String>::new());
    assert_eq!(image.files(), before);
}

/// The table of inodes is made as it is used where `lazy_itable` left it: blocks with inodes in use stay.
#[test]
fn a_new_file_zeroes_no_inode_beyond_a_stale_count() {
    let given = [("block_size", "1k"), ("journal", "0"), ("lazy_itable", "true")];
    let before = stale(&given).files();
    let image = stale(&given);
    image.mounted(|fs| {
        file(fs, "new", b"new");
    });
    let mut after = image.files();
    assert!(after.remove("new").is_some());
    after.remove("");
    let mut before = before;
    before.remove("");
    assert_eq!(after, before);
    assert_eq!(image.violations(), Vec::<String>::new());
}

/// A group with blocks in use that says that none ever was: a bitmap that was made anew would give them out again.
#[test]
fn blocks_of_a_group_that_says_that_it_was_never_used_are_not_given_out() {
    for given in [&NO_JOURNAL[..], &[("block_size", "1k"), ("journal", "1MiB")]] {
        let before = stale(given).files();
        let image = stale(given);
        image.repair();
        image.change_descriptor(GROUP_FLAGS, BLOCK_UNINIT);
        let found = image.violations();
        // The image has one group, which is the last one, too: its bitmap is always there.
        for tells in ["was never used, and has blocks", "was never written"] {
            assert!(found.iter().any(|what| what.contains(tells)), "{tells}: {found:?}");
        }
        let (region, design) = (Arc::clone(&image.region), Arc::clone(&image.design));
        let grows = virtually(1, move || {
            let fs = design.mount(&region).expect("mount");
            let made = fs.create(fs.root(), b"new", &check::NEW)?;
            let grows = fs.write(made.ino, 0, &[9; 3000], vfs::IoFlags::empty()).and_then(|_| fs.sync());
            // It takes no more changes since.
            let _ = fs.unmount();
            grows
        });
        assert!(grows.is_err(), "{grows:?}");
        image.repair();
        assert_eq!(image.violations(), Vec::<String>::new());
        let mut after = image.files();
        after.retain(|path, _| before.contains_key(path));
        assert_eq!(after, before);
    }
}
