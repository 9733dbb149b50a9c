//! A clean unmount stores the times that no package has said.

use std::sync::Arc;

use check::configured::{region, virtually};
use media::nvmm::Region;
use sim::{Bytes, Nanos};
use vfs::{Attr, FileSystem, Ino, IoFlags, NewInode, Owner, RenameFlags};

use crate::harness::{SEED, small};

const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };

fn mounted(region: &Arc<Region>) -> Arc<dyn FileSystem> {
    small(None).mount(region).expect("mount")
}

/// A call on the root and on a file that has the names `a` and `b`, beside a file `c`.
type Call = fn(&dyn FileSystem, Ino, Ino);

/// The attributes of the file after the call, and after a clean unmount and a mount.
fn before_and_after(call: Call) -> (Attr, Attr) {
    let region = region(Bytes::kib(256));
    small(None).mkfs(&region).expect("mkfs");
    let fs = mounted(&region);
    let root = fs.root();
    let ino = fs.create(root, b"a", &NEW).expect("space").ino;
    fs.write(ino, 0, &[1; 5000], IoFlags::empty()).expect("space");
    fs.link(ino, root, b"b").expect("space");
    fs.create(root, b"c", &NEW).expect("space");
    let made = fs.getattr(ino).expect("it is there");
    sim::sleep(Nanos::from_secs(1));
    call(&*fs, root, ino);
    let before = fs.getattr(ino).expect("it is there");
    assert!(before.atime > made.atime || before.ctime > made.ctime, "the call sets a time");
    fs.unmount().expect("unmount");
    (before, mounted(&region).getattr(ino).expect("it is there"))
}

const CALLS: &[(&str, Call)] = &[
    ("a removal of one of two names", |fs, root, _| fs.unlink(root, b"b").expect("it goes")),
    ("a rename over one of two names", |fs, root, _| {
        fs.rename((root, b"c"), (root, b"b"), RenameFlags::empty().into()).expect("space");
    }),
    ("an append in place", |fs, _, ino| {
        fs.write(ino, 5000, &[2; 10], IoFlags::empty()).expect("space");
    }),
    ("an access", |fs, _, ino| fs.accessed(ino).expect("it is there")),
    ("an access, then a write", |fs, _, ino| {
        fs.accessed(ino).expect("it is there");
        fs.write(ino, 0, &[2; 10], IoFlags::empty()).expect("space");
    }),
];

#[test]
fn the_times_of_a_file_are_the_same_after_a_clean_unmount() {
    for (what, call) in CALLS {
        let (before, after) = virtually(SEED, || before_and_after(*call));
        assert_eq!(before, after, "{what}");
    }
}

/// Of what is open without a name an unmount stores nothing.
#[test]
fn an_access_stores_nothing_until_the_unmount_and_nothing_of_what_has_no_name() {
    virtually(SEED, || {
        let region = region(Bytes::kib(256));
        small(None).mkfs(&region).expect("mkfs");
        let fs = mounted(&region);
        let ino = fs.create(fs.root(), b"a", &NEW).expect("space").ino;
        let bytes = || {
            let mut bytes = vec![0; region.len() as usize];
            region.peek(0, &mut bytes).expect("in range");
            bytes
        };
        let before = bytes();
        fs.accessed(ino).expect("it is there");
        assert!(before == bytes(), "an access stores nothing");
        fs.open(ino, vfs::OpenFlags::READ).expect("open");
        fs.unlink(fs.root(), b"a").expect("it goes");
        fs.accessed(ino).expect("it is open");
        fs.unmount().expect("unmount");
        // ATTRs lie in block 6, each with its inode at 24; the one that is there is of the root.
        let inodes = (6 * 4096..7 * 4096).step_by(64).map(|place| bytes()[place + 24]);
        assert!(inodes.collect::<Vec<_>>()[..2] == [1, 0]);
    });
}
