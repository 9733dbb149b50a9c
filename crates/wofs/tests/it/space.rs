//! Space of dead packages returns, and a full device can be emptied.

use check::configured::{fsck, region, virtually};
use sim::Bytes;
use vfs::{Errno, FileSystem, IoFlags, NewInode, Owner};

use crate::harness::{SEED, small};

const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };

fn on_a_small_device(body: impl FnOnce(&dyn FileSystem) + Send + 'static) {
    virtually(SEED, move || {
        let (design, region) = (small(None), region(Bytes::kib(256)));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        body(&*fs);
        fs.unmount().expect("unmount");
        fsck(&design, &region).expect("nothing is wrong");
        let free = fs.statfs().expect("statfs").blocks_free;
        let again = design.mount(&region).expect("mount");
        assert_eq!(again.statfs().expect("statfs").blocks_free, free, "after a mount");
    });
}

#[test]
fn a_device_that_files_have_filled_can_be_emptied_and_filled_again() {
    on_a_small_device(|fs| {
        let root = fs.root();
        let empty = fs.statfs().expect("statfs").blocks_free;
        for round in 0..6 {
            let mut names = Vec::new();
            let full = (0..).find_map(|number: u32| {
                let name = format!("{round}.{number}").into_bytes();
                let made = fs
                    .create(root, &name, &NEW)
                    .and_then(|attr| fs.write(attr.ino, 0, &[1; 100], IoFlags::empty()));
                if fs.lookup(root, &name).is_ok() {
                    names.push(name);
                }
                made.err()
            });
            assert_eq!(full, Some(Errno::ENOSPC));
            assert!(names.len() > 20, "round {round}: {} files", names.len());
            for name in names {
                fs.unlink(root, &name).expect("a full device can be emptied");
            }
            assert_eq!(fs.statfs().expect("statfs").blocks_free, empty, "round {round}");
        }
    });
}

#[test]
fn names_without_data_can_fill_a_device_and_be_removed() {
    on_a_small_device(|fs| {
        let root = fs.root();
        let made = |number: &u32| fs.create(root, format!("{number}").as_bytes(), &NEW).is_ok();
        let count = (0..u32::MAX).take_while(made).count() as u32;
        assert!(count > 500, "{count}");
        for number in 0..count {
            fs.unlink(root, format!("{number}").as_bytes()).expect("a full device can be emptied");
        }
        let attr = fs.create(root, b"file", &NEW).expect("space for a file");
        let written = fs.write(attr.ino, 0, &vec![1; 100_000], IoFlags::empty()).expect("space for data");
        assert_eq!(written.bytes, 100_000);
        fs.unlink(root, b"file").expect("it goes");
    });
}

#[test]
fn one_change_again_and_again_takes_no_space() {
    on_a_small_device(|fs| {
        let root = fs.root();
        let ino = fs.create(root, b"a", &NEW).expect("it can be made").ino;
        fs.write(ino, 0, &[1; 9000], IoFlags::empty()).expect("space");
        let free = fs.statfs().expect("statfs").blocks_free;
        for round in 0..1000_u64 {
            fs.write(ino, 4096 * (round % 2), &[2; 4096], IoFlags::empty()).expect("space");
            let (from, to): (&[u8], &[u8]) = if round % 2 == 0 { (b"a", b"b") } else { (b"b", b"a") };
            fs.rename((root, from), (root, to), vfs::RenameFlags::empty().into()).expect("space");
            fs.create(root, b"c", &NEW).expect("space");
            fs.unlink(root, b"c").expect("space");
        }
        // Dead packages may have taken a container more than at the beginning.
        assert!(fs.statfs().expect("statfs").blocks_free >= free - 2);
    });
}
