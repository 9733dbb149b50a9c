//! Access-control lists: the kernel reads those that are set here, and we read the kernel's.

use std::path::Path;
use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::nvmm::Region;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use sim::Bytes;
use vfs::{Errno, FileSystem, Result, XattrMode};

use crate::ext4::kernel_images::made_by_mkfs;
use crate::ext4::kernel_mounts::in_kernel;
use crate::ext4::tools::{e2fsck, has_e2fsck, save};
use crate::ext4::{Judged, judged};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const NO_ID: u32 = u32::MAX;

/// A list with a named user, as a program gives it to the call.
fn call(user: u32) -> Vec<u8> {
    let entries = [(1_u16, 6_u16, NO_ID), (2, 6, user), (4, 4, NO_ID), (16, 6, NO_ID), (32, 4, NO_ID)];
    let entry = |(tag, perm, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    [2_u32.to_le_bytes().to_vec(), entries.into_iter().flat_map(entry).collect()].concat()
}

/// The same as ext4 has it on the device.
fn stored(user: u32) -> Vec<u8> {
    [&b"\x01\0\0\0\x01\0\x06\0\x02\0\x06\0"[..], &user.to_le_bytes(), b"\x04\0\x04\0\x10\0\x06\0\x20\0\x04\0"]
        .concat()
}

/// Does something with a mount of an image, and unmounts.
fn mounted<T: Send + 'static>(region: &Arc<Region>, work: fn(&dyn FileSystem) -> Result<T>) -> T {
    let region = Arc::clone(region);
    virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&region).expect("mount");
        let done = work(&*fs).expect("the calls");
        fs.unmount().expect("unmount");
        done
    })
}

/// How often bytes lie in an image.
fn count(region: &Region, bytes: &[u8]) -> usize {
    let mut all = vec![0; region.len() as usize];
    region.peek(0, &mut all).expect("the whole region");
    all.windows(bytes.len()).filter(|window| *window == bytes).count()
}

/// An image without checksums, in which bytes can be changed.
fn made() -> (Judged, Arc<Region>) {
    let design = judged("ext4", &[("metadata_csum", "false"), ("journal", "0"), ("block_size", "1k")]);
    let region = check::configured::region(Bytes::mib(4));
    design.mkfs(&region).expect("mkfs");
    (design, region)
}

fn set_lists(fs: &dyn FileSystem) -> Result<()> {
    let file = fs.create(fs.root(), b"f", &NEW)?.ino;
    let dir = fs.mkdir(fs.root(), b"d", &NEW)?.ino;
    fs.setxattr(file, ACCESS.as_bytes(), &call(1234), XattrMode::Set)?;
    fs.setxattr(dir, DEFAULT.as_bytes(), &call(4321), XattrMode::Set)?;
    // In a block of its own: the inode has no room.
    let large = fs.create(fs.root(), b"large", &NEW)?.ino;
    fs.setxattr(large, b"user.fills the inode", &[7; 40], XattrMode::Set)?;
    fs.setxattr(large, ACCESS.as_bytes(), &call(77), XattrMode::Set)
}

fn lists(fs: &dyn FileSystem) -> Result<[Vec<u8>; 3]> {
    let get =
        |name: &str, list: &str| fs.getxattr(fs.lookup(fs.root(), name.as_bytes())?.ino, list.as_bytes());
    Ok([get("f", ACCESS)?, get("d", DEFAULT)?, get("large", ACCESS)?])
}

#[test]
fn a_list_is_stored_as_the_kernel_stores_it_and_read_as_it_was_set() {
    let (design, region) = made();
    mounted(&region, set_lists);
    for user in [1234, 4321, 77] {
        assert_eq!(count(&region, &stored(user)), 1, "the list of user {user} in the kernel's form");
        assert_eq!(count(&region, &call(user)), 0, "and in no other");
    }
    assert_eq!(mounted(&region, lists), [call(1234), call(4321), call(77)]);
    assert_eq!(design.fsck(&region), Vec::<String>::new());
    let refused = mounted(&region, |fs| {
        let file = fs.lookup(fs.root(), b"f")?.ino;
        let set = |value: &[u8]| fs.setxattr(file, ACCESS.as_bytes(), value, XattrMode::Set);
        Ok([
            set(&stored(1)),
            set(b"none"),
            fs.setxattr(file, b"system.posix_acl_accessory", b"x", XattrMode::Set),
        ])
    });
    assert_eq!(refused, [Err(Errno::EINVAL), Err(Errno::EINVAL), Ok(())]);
}

/// Makes lists as an early Weir stored them: attributes of users become lists.
fn old_image() -> (Judged, Arc<Region>) {
    let (design, region) = made();
    mounted(&region, |fs| {
        for (name, room) in [("f", 0), ("large", 40)] {
            let file = fs.create(fs.root(), name.as_bytes(), &NEW)?.ino;
            fs.setxattr(file, b"user.other", &vec![5; room], XattrMode::Set)?;
            fs.setxattr(file, b"user.", &call(99), XattrMode::Set)?;
        }
        Ok(())
    });
    let mut all = vec![0; region.len() as usize];
    region.peek(0, &mut all).expect("the whole region");
    // The entry: no rest of a name, the prefix of users, and the length of the list.
    let is_entry = |entry: &[u8]| entry[..2] == [0, 1] && entry[4..12] == [0, 0, 0, 0, 44, 0, 0, 0];
    let entries: Vec<_> = (0..all.len() - 16).step_by(4).filter(|at| is_entry(&all[*at..])).collect();
    assert_eq!(entries.len(), 2);
    for at in entries {
        region.store(at as u64 + 1, &[2]).expect("in range");
    }
    (design, region)
}

fn old_lists(fs: &dyn FileSystem) -> Result<[Vec<u8>; 2]> {
    let get = |name: &[u8]| fs.getxattr(fs.lookup(fs.root(), name)?.ino, ACCESS.as_bytes());
    Ok([get(b"f")?, get(b"large")?])
}

#[test]
fn a_list_that_an_early_weir_stored_is_read_and_the_next_change_converts_it() {
    let (design, region) = old_image();
    assert_eq!(mounted(&region, old_lists), [call(99), call(99)]);
    let found = design.fsck(&region);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|what| what.contains("form of an early Weir")), "{found:?}");
    mounted(&region, |fs| {
        for name in [&b"f"[..], b"large"] {
            fs.setxattr(fs.lookup(fs.root(), name)?.ino, b"user.more", b"x", XattrMode::Set)?;
        }
        Ok(())
    });
    assert_eq!((count(&region, &call(99)), count(&region, &stored(99))), (0, 2));
    assert_eq!(mounted(&region, old_lists), [call(99), call(99)]);
    assert_eq!(design.fsck(&region), Vec::<String>::new());
}

#[test]
fn a_repair_converts_lists_of_an_early_weir_and_drops_what_is_no_list() {
    let (design, region) = old_image();
    let image = Arc::clone(&region);
    let done = virtually(1, move || design.repair(&image)).expect("a repair");
    assert!(done.iter().any(|what| what.starts_with("2 access-control lists converted")), "{done:?}");
    assert_eq!(mounted(&region, old_lists), [call(99), call(99)]);
    let (design, region) = old_image();
    let mut all = vec![0; region.len() as usize];
    region.peek(0, &mut all).expect("the whole region");
    let list = all.windows(44).position(|window| window == call(99)).expect("the list");
    region.store(list as u64, &[9]).expect("in range");
    let image = Arc::clone(&region);
    virtually(1, move || design.repair(&image)).expect("a repair");
    assert_eq!(judged("ext4", &[]).fsck(&region), Vec::<String>::new());
}

fn kernel_list(root: &Path, name: &str, list: &str) -> Vec<u8> {
    let mut value = [0; 100];
    let len = getxattr(root.join(name), list, &mut value[..]).expect("the kernel reads the list");
    value[..len].to_vec()
}

#[test]
fn the_kernel_reads_our_lists_and_we_read_and_change_those_of_the_kernel() {
    if !has_e2fsck() {
        return;
    }
    for inode in ["128", "256"] {
        let region = made_by_mkfs(&["-t", "ext4", "-b", "1024", "-I", inode], 8);
        mounted(&region, set_lists);
        e2fsck(&region).unwrap_or_else(|said| panic!("inodes of {inode}: {said}"));
        let image = save(&region);
        let seen = in_kernel(&image, "rw", |root| {
            let seen = [("f", ACCESS), ("d", DEFAULT), ("large", ACCESS)]
                .map(|(name, list)| kernel_list(root, name, list));
            std::fs::write(root.join("theirs"), b"x").expect("write");
            setxattr(root.join("theirs"), ACCESS, &call(555), XattrFlags::empty()).expect("the kernel sets");
            std::fs::write(root.join("d/below"), b"x").expect("write");
            seen
        });
        let Some(seen) = seen else { return };
        assert_eq!(seen, [call(1234), call(4321), call(77)]);
        region.store(0, &std::fs::read(&image.0).expect("the image")).expect("it fits");
        let ours = mounted(&region, |fs| {
            let theirs = fs.lookup(fs.root(), b"theirs")?.ino;
            let below = fs.lookup(fs.lookup(fs.root(), b"d")?.ino, b"below")?.ino;
            let list = fs.getxattr(theirs, ACCESS.as_bytes())?;
            fs.setxattr(theirs, ACCESS.as_bytes(), &call(556), XattrMode::Replace)?;
            Ok((list, fs.getxattr(below, ACCESS.as_bytes())?))
        });
        assert_eq!(ours.0, call(555), "inodes of {inode}");
        assert_eq!(ours.1.len(), call(0).len(), "inherited from the default list");
        e2fsck(&region).unwrap_or_else(|said| panic!("inodes of {inode}: {said}"));
        let image = save(&region);
        assert_eq!(in_kernel(&image, "ro", |root| kernel_list(root, "theirs", ACCESS)), Some(call(556)));
    }
}
