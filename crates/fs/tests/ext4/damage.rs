//! Damaged images: an error that says what, never a panic; a backup of the superblock where the primary is bad.

use std::sync::Arc;

use check::design::{try_virtually, virtually};
use check::{Design, NEW, observe};
use rand::RngExt;
use sim::{Bytes, Seed};
use vfs::IoFlags;

use crate::judged;
use crate::kernel_images::{copy, fill, shown};
use crate::tools::{e2fsck, has_e2fsck};

/// Bytes of the image in which damage is done: superblock, descriptors, bitmaps, tables, the first directories.
const DAMAGED_BYTES: u64 = 3 << 20;

#[test]
fn a_damaged_image_gives_errors_and_never_a_panic() {
    for (name, given) in
        [("ext4", &[("metadata_csum", "false"), ("block_size", "1k")][..]), ("ext2", &[]), ("ext4", &[])]
    {
        let design = judged(name, given);
        let region = check::design::region(Bytes::mib(16));
        let image = Arc::clone(&region);
        try_virtually(1, move || {
            design.mkfs(&image).expect("mkfs");
            let fs = design.mount(&image).expect("mount");
            fill(&*fs);
            fs.unmount().expect("unmount");
        })
        .expect("no panic");
        let rounds = std::env::var("WEIR_DAMAGE").ok().and_then(|n| n.parse().ok()).unwrap_or(60_u64);
        for seed in 0..rounds {
            let damaged = copy(&region);
            let mut rng = Seed(seed).derive("damage", 0).rng();
            for _ in 0..rng.random_range(1..40) {
                let bytes: [u8; 2] = [rng.random_range(0..=255), rng.random_range(0..=255)];
                let at = rng.random_range(1024..DAMAGED_BYTES);
                damaged.store(at, &bytes[..rng.random_range(1..=2)]).expect("in range");
            }
            let (design, of) = (judged(name, given), copy(&damaged));
            let repaired = try_virtually(seed, move || {
                // A repair may refuse; what it leaves clean must be usable.
                if design.recover(&of).is_ok()
                    && design.repair(&of).is_ok()
                    && design.own_violations(&of).is_empty()
                {
                    let fs = design.mount(&of).expect("a clean image");
                    observe(&*fs).expect("a sound tree");
                    fs.unmount().expect("unmount");
                }
            });
            repaired.unwrap_or_else(|error| panic!("{name} {given:?}, repair of damage {seed}: {error}"));
            let design = judged(name, given);
            let ended = try_virtually(seed, move || {
                design.look_at(&damaged);
                let Ok(fs) = design.mount(&damaged) else { return };
                let _ = observe(&*fs);
                let made = fs.create(fs.root(), b"new", &NEW);
                if let Ok(made) = made {
                    let _ = fs.write(made.ino, 0, &[1; 9000], IoFlags::empty());
                    let _ = fs.unlink(fs.root(), b"large");
                }
                let _ = fs.unmount();
            });
            ended.unwrap_or_else(|error| panic!("{name} {given:?}, damage {seed}: {error}"));
        }
    }
}

#[test]
fn where_the_primary_superblock_is_bad_a_backup_is_used_and_said_so() {
    let design = judged("ext4", &[("block_size", "1k")]);
    let region = check::design::region(Bytes::mib(16));
    let image = Arc::clone(&region);
    let before = virtually(1, move || {
        let design = judged("ext4", &[("block_size", "1k")]);
        design.mkfs(&image).expect("mkfs");
        let fs = design.mount(&image).expect("mount");
        fill(&*fs);
        let tree = observe(&*fs).expect("a sound tree");
        fs.unmount().expect("unmount");
        tree
    });
    region.store(1024, &[0; 1024]).expect("in range");
    let notes = design.notes(&region);
    assert!(notes.iter().any(|note| note.contains("backup at block 8193 was used")), "{notes:?}");
    assert_eq!(check::difference(&shown(&region), &before), None);
    if has_e2fsck() {
        assert_eq!(e2fsck(&region), Ok(()), "the mount has written the superblock to its place");
    }
}
