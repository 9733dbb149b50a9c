//! Space of names returns.

use check::NEW;
use check::configured::{region, virtually};
use sim::Bytes;
use vfs::{FileSystem, Ino};

use crate::harness::small_with;

fn pages(fs: &dyn FileSystem, dir: Ino) -> u64 {
    fs.getattr(dir).expect("it is there").blocks / 8
}

#[test]
fn free_dentries_before_the_last_name_are_used_after_a_mount() {
    for way in ["scan", "hint"] {
        let (before, after) = virtually(1, move || {
            let (design, region) = (small_with(&[("free_dentry", way)]), region(Bytes::mib(4)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("space").ino;
            let name = |number: u32| format!("{number}").into_bytes();
            for number in 0..100 {
                fs.create(dir, &name(number), &NEW).expect("space");
            }
            for number in 0..99 {
                if number % 3 == 0 {
                    fs.unlink(dir, &name(number)).expect("it goes");
                }
            }
            let before = pages(&*fs, dir);
            fs.unmount().expect("unmount");
            let fs = design.mount(&region).expect("mount");
            for number in 0..33 {
                fs.create(dir, &name(1000 + number), &NEW).expect("space");
            }
            (before, pages(&*fs, dir))
        });
        assert_eq!(before, after, "{way}");
    }
}
