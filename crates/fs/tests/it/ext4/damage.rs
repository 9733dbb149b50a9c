//! Damaged images: an error that says what, never a panic; a backup of the superblock where the primary is bad.

use std::sync::Arc;

use check::configured::{try_virtually, virtually};
use check::{NEW, observe};
use rand::RngExt;
use sim::{Bytes, Seed};
use vfs::IoFlags;

use crate::ext4::judged;
use crate::ext4::kernel_images::{copy, fill, made_by_mkfs, shown};
use crate::ext4::tools::{e2fsck, has_e2fsck};

/// Bytes of the image in which damage is done: superblock, descriptors, bitmaps, tables, the first directories.
const DAMAGED_BYTES: u64 = 3 << 20;

#[test]
fn a_damaged_image_gives_errors_and_never_a_panic() {
    for (name, given) in
        [("ext4", &[("metadata_csum", "false"), ("block_size", "1k")][..]), ("ext2", &[]), ("ext4", &[])]
    {
        let design = judged(name, given);
        let region = check::configured::region(Bytes::mib(16));
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
    let region = check::configured::region(Bytes::mib(16));
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
    // As the kernel, a mount for writing does not take it.
    let image = Arc::clone(&region);
    let said = virtually(1, move || judged("ext4", &[]).mount(&image)).err().unwrap_or_default();
    assert!(said.contains("backup at block 8193"), "{said}");
    let image = Arc::clone(&region);
    virtually(1, move || judged("ext4", &[]).repair(&image)).expect("a repair");
    assert_eq!(check::difference(&shown(&region), &before), None);
    if has_e2fsck() {
        assert_eq!(e2fsck(&region), Ok(()), "the repair has written the superblock to its place");
    }
}

#[test]
fn a_backup_is_found_in_groups_of_any_size() {
    if !has_e2fsck() {
        return;
    }
    for (block, group) in [("4096", "1024"), ("2048", "8000"), ("1024", "256")] {
        let region =
            made_by_mkfs(&["-t", "ext4", "-b", block, "-g", group, "-O", "^resize_inode,^meta_bg"], 24);
        let before = shown(&region);
        region.store(1024, &[0; 1024]).expect("in range");
        let design = judged("ext4", &[]);
        let notes = design.notes(&region);
        assert!(notes.iter().any(|note| note.contains("backup at block")), "{block}, {group}: {notes:?}");
        let image = Arc::clone(&region);
        virtually(1, move || design.repair(&image)).expect("a repair");
        assert_eq!(check::difference(&shown(&region), &before), None, "{block}, {group}");
        assert_eq!(e2fsck(&region), Ok(()), "{block}, {group}");
    }
}

#[test]
fn an_image_with_a_feature_that_is_not_supported_is_refused_by_its_name_and_not_called_damaged() {
    if !has_e2fsck() {
        return;
    }
    let cases = [
        ("bigalloc", &["-O", "bigalloc", "-C", "16384"][..], false),
        ("meta_bg", &["-O", "meta_bg,^resize_inode"], false),
        ("inline_data", &["-O", "inline_data"], false),
        ("encrypt", &["-O", "encrypt"], false),
        ("casefold", &["-O", "casefold"], false),
        ("ea_inode", &["-O", "ea_inode"], false),
        ("large_dir", &["-O", "large_dir"], false),
        ("mmp", &["-O", "mmp"], false),
        ("quota", &["-O", "quota"], true),
        ("project", &["-O", "project"], true),
        ("verity", &["-O", "verity"], true),
        ("blocks of 8 KiB", &["-b", "8192"], false),
    ];
    for (name, arguments, reads) in cases {
        let region = made_by_mkfs(&[&["-t", "ext4"][..], arguments].concat(), 32);
        let before = copy(&region);
        let design = judged("ext4", &[]);
        let image = Arc::clone(&region);
        let said = virtually(1, move || design.mount(&image)).err().unwrap_or_default();
        assert!(said.contains(name) && !said.contains("damaged"), "{name}: {said}");
        assert_eq!(said.contains("-o ro"), reads, "{name}: {said}");
        let (bytes, after) = (all_bytes(&before), all_bytes(&region));
        assert!(bytes == after, "{name}: the image was changed");
        let image = Arc::clone(&region);
        let for_reading = virtually(1, move || {
            let design = fs::by_name("ext4").expect("a design");
            let options = crate::shared::harness::options(design, &[]).discarding();
            design.mount(&media::Storage::from(&image), &options).map(|fs| observe(&*fs).map(drop))
        });
        assert_eq!(for_reading.is_ok(), reads, "{name}");
    }
}

fn all_bytes(region: &media::Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).expect("the whole region");
    bytes
}

#[test]
fn a_listener_hears_what_a_mount_has_recovered_and_each_error_once() {
    let region = check::configured::region(Bytes::mib(8));
    let heard = virtually(1, move || {
        let design = judged("ext4", &[("block_size", "1k"), ("metadata_csum", "false"), ("journal", "1MiB")]);
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        fs.sync().expect("sync");
        let crashed = copy(&region);
        fs.unmount().expect("unmount");
        let begins = |block: &[u8]| {
            block[..4] == (dir.0 as u32).to_le_bytes() && block[4..10] == *b"\x0c\0\x01\x02.\0"
        };
        let fs = design.mount(&crashed).expect("mount");
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let into = Arc::clone(&heard);
        fs.listen(Box::new(move |what| into.lock().expect("no panic").push(what.to_owned())));
        // The block of the directory, and its copy in the log.
        for (number, _) in all_bytes(&region).chunks(1024).enumerate().filter(|(_, block)| begins(block)) {
            crashed.store(number as u64 * 1024 + 4, &[3]).expect("in range");
        }
        fs.drop_caches().expect("nothing is dirty");
        for _ in 0..3 {
            assert_eq!(fs.lookup(dir, b"name"), Err(vfs::Errno::EUCLEAN));
        }
        let heard = heard.lock().expect("no panic").clone();
        (heard, dir)
    });
    let (heard, dir) = heard;
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0].contains("transactions were replayed"), "{heard:?}");
    let (inode, advice) = (format!("inode {}", dir.0), "weir fsck --repair");
    assert!(heard[1].contains(&inode) && heard[1].contains(advice), "{heard:?}");
}

#[test]
fn a_file_that_chattr_protects_is_not_changed() {
    if !has_e2fsck() || crate::ext4::tools::tool("debugfs").is_none() {
        return;
    }
    let region = made_by_mkfs(&["-t", "ext4"], 8);
    let image = Arc::clone(&region);
    virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&image).expect("mount");
        for name in [&b"fixed"[..], b"grows"] {
            fs.create(fs.root(), name, &NEW).expect("create");
        }
        fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir");
        fs.unmount().expect("unmount");
    });
    let image = crate::ext4::tools::save(&region);
    for request in ["sif /fixed flags 0x80010", "sif /grows flags 0x80020", "sif /dir flags 0x80010"] {
        crate::ext4::tools::run("debugfs", &["-w", "-R", request, &image.0]);
    }
    region.store(0, &std::fs::read(&image.0).expect("the image")).expect("it fits");
    virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&region).expect("mount");
        let root = fs.root();
        let [fixed, grows, dir] =
            [&b"fixed"[..], b"grows", b"dir"].map(|name| fs.lookup(root, name).expect("it is there").ino);
        let refused = Err(vfs::Errno::EPERM);
        let (write, append) = (vfs::OpenFlags::WRITE, vfs::OpenFlags::WRITE | vfs::OpenFlags::APPEND);
        assert_eq!(fs.open(fixed, write), refused);
        assert_eq!(fs.open(fixed, append), refused);
        assert_eq!(fs.open(fixed, vfs::OpenFlags::READ), Ok(()));
        assert_eq!(fs.open(grows, write), refused);
        assert_eq!(fs.open(grows, append), Ok(()));
        assert_eq!(fs.write(grows, 0, b"more", IoFlags::APPEND).map(|written| written.bytes), Ok(4));
        for (name, ino) in [(&b"fixed"[..], fixed), (b"grows", grows)] {
            let cut = vfs::SetAttr { size: Some(0), ..vfs::SetAttr::default() };
            assert_eq!(fs.setattr(ino, &cut).map(drop), refused);
            let mode = vfs::SetAttr { perm: Some(0o600), ..vfs::SetAttr::default() };
            assert_eq!(fs.setattr(ino, &mode).map(drop), refused);
            assert_eq!(fs.setxattr(ino, b"user.a", b"x", vfs::XattrMode::Set), refused);
            assert_eq!(fs.link(ino, root, b"link").map(drop), refused);
            assert_eq!(fs.rename((root, name), (root, b"other"), vfs::RenameFlags::empty().into()), refused);
            assert_eq!(fs.unlink(root, name), refused);
        }
        assert_eq!(fs.create(dir, b"new", &NEW).map(drop), refused);
        assert_eq!(fs.rmdir(root, b"dir"), refused);
        fs.unmount().expect("unmount");
    });
}

#[test]
fn a_journal_that_is_too_small_is_refused_and_one_of_1gib_is_no_other_size() {
    let design = fs::by_name("ext4").expect("a design");
    let said = |given| {
        let region = check::configured::region(Bytes::mib(8));
        let made = design
            .format()
            .mkfs(&media::Storage::from(&region), &crate::shared::harness::options(design, given));
        made.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(said(&[("journal", "100k")]).contains("at least 4 MiB (1024 blocks)"));
    assert!(said(&[("journal", "1GiB")]).contains("at least 1."), "{}", said(&[("journal", "1GiB")]));
    assert!(said(&[("external_journal", "true")]).contains("memory beside a block device"));
    assert_eq!(said(&[("journal", "auto")]), "");
    assert_eq!(said(&[("journal", "0")]), "");
}
