//! Inodes without names: after a crash, and on images that have a file of orphans.

use std::io::Write;
use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Ino, IoFlags};

use crate::ext4::edited::{Edited, file};
use crate::ext4::judged;
use crate::ext4::kernel_images::{copy, fill, made_by_mkfs, shown};
use crate::ext4::kernel_mounts::in_kernel;
use crate::ext4::tools::{Scratch, e2fsck, has_e2fsck, run, save, tool};

#[test]
fn a_nameless_file_leaves_the_list_of_orphans_in_the_transaction_that_names_it() {
    // The first is the head of the list on the device, the others follow another inode.
    for named in 0..3 {
        let region = check::configured::region(Bytes::mib(16));
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

/// Features by which the kernel has a file of orphans.
const ORPHAN_FILE: [&[&str]; 2] = [
    &["-t", "ext4", "-b", "1024", "-O", "orphan_file"],
    &["-t", "ext4", "-b", "4096", "-O", "orphan_file,^metadata_csum"],
];
/// Where the superblock has the features `ro_compat`, and the number of the file's inode.
const RO_COMPAT: u64 = 1024 + 0x64;
const INODE: u64 = 1024 + 0x280;
const ORPHAN_PRESENT: u32 = 0x1_0000;

fn word(region: &Region, at: u64) -> u32 {
    let mut bytes = [0; 4];
    region.peek(at, &mut bytes).expect("in range");
    u32::from_le_bytes(bytes)
}

/// An image with the feature; none, which is said, where mke2fs does not know it.
fn with_orphan_file(features: &[&str]) -> Option<Arc<Region>> {
    let knows = has_e2fsck() && tool("debugfs").is_some() && {
        let image = Scratch::new();
        std::fs::File::create(&image.0).and_then(|file| file.set_len(4 << 20)).expect("room");
        run("mke2fs", &["-q", "-F", "-O", "orphan_file", &image.0]).status.success()
    };
    if !knows {
        eprintln!("SKIPPED: no mke2fs that knows orphan_file");
        return None;
    }
    Some(made_by_mkfs(features, 16))
}

fn region_of(image: &Scratch) -> Arc<Region> {
    let bytes = std::fs::read(&image.0).expect("the image");
    let region = check::configured::region(Bytes(bytes.len() as u64));
    region.store(0, &bytes).expect("it fits");
    region
}

#[test]
fn an_image_with_an_empty_file_of_orphans_is_clean_and_stays_so_when_it_is_used_and_repaired() {
    for features in ORPHAN_FILE {
        let Some(region) = with_orphan_file(features) else { return };
        assert_eq!(judged("ext4", &[]).fsck(&region), Vec::<String>::new(), "{features:?}, fresh");
        let image = Arc::clone(&region);
        virtually(1, move || {
            let fs = judged("ext4", &[]).mount(&image).expect("mount");
            fill(&*fs);
            fs.unmount().expect("unmount");
            judged("ext4", &[]).repair(&image).expect("a repair");
        });
        assert_eq!(
            judged("ext4", &[]).fsck(&region),
            Vec::<String>::new(),
            "{features:?}, used and repaired"
        );
    }
}

#[test]
fn orphans_that_the_kernel_left_in_its_file_are_freed_by_the_next_mount() {
    for features in ORPHAN_FILE {
        let Some(region) = with_orphan_file(features) else { return };
        let image = save(&region);
        let crashed = in_kernel(&image, "rw", |root| {
            let path = root.join("gone");
            let mut open = std::fs::File::create(&path).expect("create");
            open.write_all(&vec![7; 500_000]).expect("write");
            open.sync_all().expect("fsync");
            std::fs::write(root.join("kept"), "kept").expect("write");
            std::fs::remove_file(&path).expect("unlink");
            std::fs::File::open(root.join("kept")).and_then(|file| file.sync_all()).expect("fsync");
            // As after a power loss: the image of a mount that is in use.
            region_of(&image)
        });
        let Some(crashed) = crashed else { return };
        assert_ne!(
            word(&crashed, RO_COMPAT) & ORPHAN_PRESENT,
            0,
            "{features:?}: the kernel has used its file"
        );
        let tree = shown(&crashed);
        assert_eq!(&*tree["kept"].content, b"kept");
        assert_eq!(word(&crashed, RO_COMPAT) & ORPHAN_PRESENT, 0, "{features:?}");
        assert_eq!(judged("ext4", &[]).fsck(&crashed), Vec::<String>::new(), "{features:?}");
    }
}

/// An image whose file of orphans leads to an inode without links, as debugfs makes it; and the block of that file.
fn with_an_orphan() -> Option<(Arc<Region>, u64)> {
    let region = with_orphan_file(ORPHAN_FILE[1])?;
    let image = Arc::clone(&region);
    let ino = virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&image).expect("mount");
        let file = fs.create(fs.root(), b"gone", &NEW).expect("create").ino;
        fs.write(file, 0, &vec![7; 100_000], IoFlags::empty()).expect("write");
        fs.unmount().expect("unmount");
        file.0
    });
    let image = save(&region);
    let debugfs = |request: &str| {
        let output = run("debugfs", &["-w", "-R", request, &image.0]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    debugfs(&format!("sif <{ino}> links_count 0"));
    debugfs("unlink /gone");
    let number = word(&region, INODE);
    let block: u64 = debugfs(&format!("bmap <{number}> 0")).parse().expect("a block");
    let region = region_of(&image);
    region.store(block * 4096, &(ino as u32).to_le_bytes()).expect("in range");
    region.store(RO_COMPAT, &(word(&region, RO_COMPAT) | ORPHAN_PRESENT).to_le_bytes()).expect("in range");
    Some((region, block))
}

#[test]
fn an_orphan_in_the_file_is_freed_by_a_mount_and_by_fsck_and_a_damaged_file_is_refused_and_repaired() {
    let Some((region, block)) = with_an_orphan() else { return };
    // What is told is not taken for an image that nothing is to be done about.
    let notes = judged("ext4", &[]).notes(&region);
    assert!(notes.iter().any(|note| note.contains("wait to be freed")), "{notes:?}");
    let mounted = copy(&region);
    assert!(!shown(&mounted).contains_key("gone"));
    assert_eq!(judged("ext4", &[]).fsck(&mounted), Vec::<String>::new());
    let (recovered, image) = (copy(&region), copy(&region));
    let target = Arc::clone(&recovered);
    virtually(1, move || judged("ext4", &[]).recover(&target)).expect("fsck recovers");
    assert_eq!(judged("ext4", &[]).fsck(&recovered), Vec::<String>::new());
    // The magic of the block.
    image.store(block * 4096 + 4096 - 8, &[0; 4]).expect("in range");
    let damaged = Arc::clone(&image);
    let said = virtually(1, move || {
        let design = judged("ext4", &[]);
        let said = design.mount(&damaged).err().expect("a refusal");
        let found = design.own_violations(&damaged);
        assert!(found.iter().any(|what| what.contains("(predicate orphans_sound)")), "{found:?}");
        design.repair(&damaged).expect("a repair");
        said
    });
    assert!(said.contains("file of orphans"), "{said}");
    assert_eq!(judged("ext4", &[]).fsck(&image), Vec::<String>::new());
    // Nor is an inode that is no such file.
    let number = word(&region, INODE);
    region.store(INODE, &0xfff_u32.to_le_bytes()).expect("in range");
    let damaged = Arc::clone(&region);
    virtually(1, move || judged("ext4", &[]).repair(&damaged)).expect("a repair");
    assert_ne!(word(&region, INODE), number, "it was given up");
    assert_eq!(judged("ext4", &[]).fsck(&region), Vec::<String>::new());
}

/// The list that leads to the journal, or to another reserved inode: a recovery that worked it off would stop in the middle.
#[test]
fn a_list_of_orphans_that_leads_to_a_reserved_inode_is_damage_and_is_emptied() {
    let image = || {
        Edited::made("ext4", &[("block_size", "1k"), ("journal", "1MiB")], Bytes::mib(8), |fs| {
            file(fs, "file", &[7; 3000]);
        })
    };
    let before = image().files();
    for reserved in [2, 7, 8] {
        let image = image();
        image.put_superblock(0xe8, &[reserved], true);
        let done = image.repair();
        assert!(done.iter().any(|what| what.contains("lists of orphans")), "{reserved}: {done:?}");
        assert_eq!(image.violations(), Vec::<String>::new(), "{reserved}");
        assert_eq!(image.files(), before, "{reserved}");
    }
}

#[test]
fn another_inode_that_the_superblock_takes_for_the_file_of_orphans_keeps_its_name_and_its_contents() {
    // With checksums of metadata that of the superblock would be wrong as well.
    let Some(region) = with_orphan_file(ORPHAN_FILE[1]) else { return };
    let filled = Arc::clone(&region);
    let taken = virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&filled).expect("mount");
        fill(&*fs);
        let taken = file(&*fs, "taken", &[7; 9000]);
        fs.unmount().expect("unmount");
        taken
    });
    let before = shown(&region);
    // The other one is the journal.
    for number in [taken, Ino(8)] {
        let damaged = copy(&region);
        damaged.store(INODE, &(number.0 as u32).to_le_bytes()).expect("in range");
        let design = judged("ext4", &[]);
        assert_ne!(design.own_violations(&damaged), Vec::<String>::new(), "{number:?}");
        let image = Arc::clone(&damaged);
        let done = virtually(1, move || judged("ext4", &[]).repair(&image)).expect("a repair");
        assert_eq!(design.fsck(&damaged), Vec::<String>::new(), "{number:?}: after {done:?}");
        let after = shown(&damaged);
        let kept = |path: &&String| after.get(*path) == before.get(*path) || path.starts_with("lost+found");
        assert_eq!(before.keys().find(|path| !path.is_empty() && !kept(path)), None, "{number:?}: {done:?}");
    }
}
