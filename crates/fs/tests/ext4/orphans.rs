//! Inodes without names: after a crash, and on images that have a file of orphans.

use std::sync::Arc;

use check::design::virtually;
use check::{Design, NEW};
use sim::Bytes;
use vfs::IoFlags;

use crate::judged;
use crate::kernel_images::{copy, shown};
use crate::tools::{e2fsck, has_e2fsck};

#[test]
fn a_nameless_file_leaves_the_list_of_orphans_in_the_transaction_that_names_it() {
    // The first is the head of the list on the device, the others follow another inode.
    for named in 0..3 {
        let region = check::design::region(Bytes::mib(16));
        let image = Arc::clone(&region);
        let crashes = virtually(1, move || {
            let design = judged("ext4", &[("block_size", "1k"), ("journal", "1MiB")]);
            design.mkfs(&image).expect("mkfs");
            let fs = design.mount(&image).expect("mount");
            let files = [(); 3].map(|()| fs.tmpfile(&NEW).expect("tmpfile").ino);
            for file in files {
                fs.write(file, 0, &[7; 9000], IoFlags::empty()).expect("write");
            }
            fs.sync().expect("sync");
            fs.link(files[named], fs.root(), b"named").expect("link");
            let before = copy(&image);
            fs.sync().expect("sync");
            (before, copy(&image))
        });
        for (region, has_name) in [(crashes.0, false), (crashes.1, true)] {
            let place = format!("file {named}, {has_name}");
            let tree = shown(&region);
            assert_eq!(
                tree.get("named").map(|entry| &entry.content[..]),
                has_name.then_some(&[7; 9000][..]),
                "{place}"
            );
            assert_eq!(judged("ext4", &[]).own_violations(&region), Vec::<String>::new(), "{place}");
            if has_e2fsck() {
                e2fsck(&region).unwrap_or_else(|said| panic!("{place}: {said}"));
            }
        }
    }
}
