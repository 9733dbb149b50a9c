//! Images that mkfs.ext2 and mkfs.ext4 made: mounted here, filled here, and checked by e2fsck.

use std::sync::Arc;

use check::configured::virtually;
use check::{NEW, observe};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, IoFlags};

use crate::ext4::judged;
use crate::ext4::tools::{Scratch, e2fsck, has_e2fsck, run, save};

/// An image by the real tool.
pub(crate) fn made_by_mkfs(arguments: &[&str], mib: u64) -> Arc<Region> {
    let image = Scratch::new();
    std::fs::File::create(&image.0).and_then(|file| file.set_len(mib << 20)).expect("room");
    let all: Vec<_> = ["-q", "-F"].iter().chain(arguments).copied().chain([&*image.0]).collect();
    let output = run("mke2fs", &all);
    assert!(output.status.success(), "mke2fs {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let region = check::configured::region(Bytes::mib(mib));
    region.store(0, &std::fs::read(&image.0).expect("the image")).expect("it fits");
    region
}

/// Feature sets of the issue: block sizes, with and without journal, checksums, index.
pub(crate) const FEATURES: &[&[&str]] = &[
    &["-t", "ext2", "-b", "1024"],
    &["-t", "ext2", "-b", "4096"],
    &["-t", "ext2", "-b", "1024", "-O", "^dir_index"],
    &["-t", "ext4", "-b", "1024"],
    &["-t", "ext4", "-b", "4096"],
    &["-t", "ext4", "-b", "4096", "-O", "^metadata_csum"],
    &["-t", "ext4", "-b", "1024", "-O", "^metadata_csum,uninit_bg"],
    &["-t", "ext4", "-b", "4096", "-O", "^has_journal"],
    &["-t", "ext4", "-b", "4096", "-O", "^64bit,^flex_bg"],
    &["-t", "ext4", "-b", "2048", "-I", "128"],
    &["-t", "ext4", "-b", "4096", "-O", "^dir_index,^extent,^64bit"],
    &["-t", "ext3", "-b", "4096"],
];

/// Makes directories, many names, large and sparse files; removes some.
pub(crate) fn fill(fs: &dyn FileSystem) {
    let dir = fs.mkdir(fs.root(), b"many", &NEW).expect("mkdir").ino;
    for number in 0..700 {
        let name = format!("a file with a name that is rather long, number {number}");
        let file = fs.create(dir, name.as_bytes(), &NEW).expect("create").ino;
        fs.write(file, 0, &vec![number as u8; number * 7], IoFlags::empty()).expect("write");
    }
    for number in (0..700).step_by(3) {
        let name = format!("a file with a name that is rather long, number {number}");
        fs.unlink(dir, name.as_bytes()).expect("unlink");
    }
    let file = fs.create(fs.root(), b"large", &NEW).expect("create").ino;
    for piece in 0..200_u64 {
        fs.write(file, piece * 9000, &[piece as u8; 5000], IoFlags::empty()).expect("write");
    }
    fs.symlink(fs.root(), b"short", b"many", &NEW).expect("symlink");
    fs.symlink(fs.root(), b"long", &[b'x'; 300], &NEW).expect("symlink");
    fs.setxattr(file, b"user.colour", &[7; 40], vfs::XattrMode::Set).expect("setxattr");
    fs.setxattr(file, b"user.large", &[9; 600], vfs::XattrMode::Set).expect("setxattr");
}

#[test]
fn images_of_mkfs_mount_are_filled_and_stay_clean_to_e2fsck() {
    if !has_e2fsck() {
        return;
    }
    for features in FEATURES {
        let region = made_by_mkfs(features, 32);
        let design = judged("ext4", &[]);
        let (before, after) = {
            let region = Arc::clone(&region);
            virtually(7, move || {
                let fs = design.mount(&region)?;
                fill(&*fs);
                let before = observe(&*fs)?;
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                let violations = design.fsck(&region);
                if !violations.is_empty() {
                    return Err(format!("fsck: {violations:?}"));
                }
                let fs = design.mount(&region)?;
                let after = observe(&*fs)?;
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                Ok((before, after))
            })
        }
        .unwrap_or_else(|what: String| panic!("{features:?}: {what}"));
        assert_eq!(check::difference(&after, &before), None, "{features:?}");
        e2fsck(&region).unwrap_or_else(|said| panic!("{features:?}: {said}"));
    }
}

/// The content of a region in a new one.
pub(crate) fn copy(region: &Arc<Region>) -> Arc<Region> {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).expect("the whole region");
    let copy = check::configured::region(Bytes(region.len()));
    copy.store(0, &bytes).expect("it fits");
    copy
}

/// What a mount of the image shows, and whether it is clean afterwards.
pub(crate) fn shown(region: &Arc<Region>) -> check::Tree {
    let design = judged("ext4", &[]);
    let tree = {
        let region = Arc::clone(region);
        virtually(1, move || {
            let fs = design.mount(&region)?;
            let tree = observe(&*fs)?;
            fs.unmount().map_err(|errno| errno.name().to_owned())?;
            Ok(tree)
        })
    };
    tree.unwrap_or_else(|what: String| panic!("{what}"))
}

#[test]
fn after_a_crash_our_replay_and_that_of_e2fsck_leave_the_synced_tree() {
    if !has_e2fsck() {
        return;
    }
    for (data, features) in [
        ("ordered", FEATURES[3]),
        ("writeback", FEATURES[4]),
        ("journal", FEATURES[5]),
        ("ordered", FEATURES[8]),
        ("ordered", FEATURES[11]),
    ] {
        let region = made_by_mkfs(features, 32);
        let design = judged("ext4", &[("data", data)]);
        let (crashed, before) = {
            let region = Arc::clone(&region);
            virtually(3, move || {
                let fs = design.mount(&region)?;
                fill(&*fs);
                fs.sync().map_err(|errno| errno.name().to_owned())?;
                let tree = observe(&*fs)?;
                let crashed = copy(&region);
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                Ok((crashed, tree))
            })
        }
        .unwrap_or_else(|what: String| panic!("{features:?}: {what}"));
        let image = save(&crashed);
        let output = run("e2fsck", &["-fy", &image.0]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("recovering journal"), "{features:?}: {said}");
        assert!(output.status.code().is_some_and(|code| code <= 1), "{features:?}: {said}");
        assert!(!said.contains("invalid") && !said.contains("corrupt"), "{features:?}: {said}");
        let by_e2fsck = check::configured::region(Bytes(crashed.len()));
        by_e2fsck.store(0, &std::fs::read(&image.0).expect("the image")).expect("it fits");
        assert_eq!(check::difference(&shown(&by_e2fsck), &before), None, "{features:?}, e2fsck");
        assert_eq!(check::difference(&shown(&crashed), &before), None, "{features:?}, ours");
        e2fsck(&crashed).unwrap_or_else(|said| panic!("{features:?}: {said}"));
    }
}
