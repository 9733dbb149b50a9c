//! Feature flags that an image gets when it first needs them, and space as the kernel counts it.

use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, IoFlags, XattrMode};

use crate::ext4::kernel_images::made_by_mkfs;
use crate::ext4::kernel_mounts::in_kernel;
use crate::ext4::tools::{e2fsck, has_e2fsck, save};
use crate::shared::harness;

/// Where the superblock has the words of features: compatible, and compatible for reading.
const COMPAT: u64 = 1024 + 0x5c;
const RO_COMPAT: u64 = 1024 + 0x64;
const EXT_ATTR: u32 = 0x8;
const LARGE_FILE: u32 = 0x2;

fn word(region: &Arc<Region>, at: u64) -> u32 {
    let mut bytes = [0; 4];
    region.peek(at, &mut bytes).expect("inside");
    u32::from_le_bytes(bytes)
}

fn clear(region: &Arc<Region>, at: u64, feature: u32) {
    region.store(at, &(word(region, at) & !feature).to_le_bytes()).expect("inside");
}

/// An image without both flags, and without checksums, so that they can be taken away byte by byte.
fn plain(name: &str) -> Arc<Region> {
    let design = fs::by_name(name).expect("a design");
    let given: &[(&str, &str)] = if name == "ext2" { &[] } else { &[("metadata_csum", "false")] };
    let options = harness::options(design, given);
    let region = check::configured::region(Bytes::mib(24));
    let storage = Storage::from(&region);
    virtually(1, move || design.format().mkfs(&storage, &options).expect("mkfs"));
    clear(&region, COMPAT, EXT_ATTR);
    clear(&region, RO_COMPAT, LARGE_FILE);
    region
}

fn with(region: &Arc<Region>, name: &'static str, work: impl FnOnce(&dyn FileSystem) + Send + 'static) {
    let storage = Storage::from(region);
    virtually(1, move || {
        let design = fs::by_name(name).expect("a design");
        let fs = design.mount(&storage, &harness::options(design, &[])).expect("mount");
        work(&*fs);
        fs.unmount().expect("unmount");
    });
    if has_e2fsck() {
        assert_eq!(e2fsck(region), Ok(()), "{name}");
    }
}

#[test]
fn the_first_attribute_sets_the_flag_of_attributes() {
    for name in ["ext2", "ext4"] {
        let region = plain(name);
        with(&region, name, |fs| {
            fs.create(fs.root(), b"plain", &NEW).expect("create");
        });
        assert_eq!(word(&region, COMPAT) & EXT_ATTR, 0, "{name}: nothing needs it");
        with(&region, name, |fs| {
            let file = fs.create(fs.root(), b"f", &NEW).expect("create").ino;
            fs.setxattr(file, b"user.large", &[9; 600], XattrMode::Set).expect("setxattr");
        });
        assert_ne!(word(&region, COMPAT) & EXT_ATTR, 0, "{name}");
    }
}

#[test]
fn the_first_file_of_two_gibibytes_sets_the_flag_of_large_files() {
    for name in ["ext2", "ext4"] {
        let region = plain(name);
        let end_at = |end: u64| {
            move |fs: &dyn FileSystem| {
                let file = fs.create(fs.root(), end.to_string().as_bytes(), &NEW).expect("create").ino;
                fs.write(file, end - 4, b"last", IoFlags::empty()).expect("write");
            }
        };
        with(&region, name, end_at((1 << 31) - 1));
        assert_eq!(word(&region, RO_COMPAT) & LARGE_FILE, 0, "{name}: nothing needs it");
        with(&region, name, end_at(3 << 30));
        assert_ne!(word(&region, RO_COMPAT) & LARGE_FILE, 0, "{name}");
    }
}

#[test]
fn an_image_of_the_first_revision_gets_the_second_with_its_first_large_file() {
    if !has_e2fsck() {
        return;
    }
    let region = made_by_mkfs(&["-t", "ext2", "-r", "0", "-b", "1024"], 8);
    with(&region, "ext2", |fs| {
        let file = fs.create(fs.root(), b"large", &NEW).expect("create").ino;
        fs.write(file, 3 << 30, b"end", IoFlags::empty()).expect("write");
    });
    assert_eq!(word(&region, 1024 + 0x4c), 1, "the revision");
    assert_ne!(word(&region, RO_COMPAT) & LARGE_FILE, 0);
}

#[test]
fn space_is_counted_as_the_kernel_counts_it() {
    if !has_e2fsck() {
        return;
    }
    let kinds: [&[&str]; 5] = [
        &["-t", "ext4"],
        &["-t", "ext4", "-b", "1024", "-m", "10"],
        &["-t", "ext2", "-b", "1024"],
        &["-t", "ext4", "-O", "^resize_inode,^has_journal", "-m", "0"],
        &["-t", "ext3", "-b", "2048"],
    ];
    for kind in kinds {
        let region = made_by_mkfs(kind, 40);
        let image = save(&region);
        let by_kernel = in_kernel(&image, "ro,noload", |root| {
            let space = rustix::fs::statvfs(root).expect("statvfs");
            [space.f_blocks, space.f_bfree, space.f_bavail, space.f_files, space.f_ffree]
        });
        let Some(by_kernel) = by_kernel else { return };
        let storage = Storage::from(&region);
        let name = if kind[1] == "ext2" { "ext2" } else { "ext4" };
        let ours = virtually(1, move || {
            let design = fs::by_name(name).expect("a design");
            let fs = design.mount(&storage, &harness::options(design, &[])).expect("mount");
            let space = fs.statfs().expect("statfs");
            let available = fs.blocks_available(&space);
            fs.unmount().expect("unmount");
            [space.blocks, space.blocks_free, available, space.files, space.files_free]
        });
        assert_eq!(ours, by_kernel, "{kind:?}");
    }
}
