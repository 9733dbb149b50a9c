//! `weir fsck --repair`: faults of every kind, planted by debugfs or byte by byte, after which e2fsck finds the image clean and
//! everything that the fault itself has not taken is there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use check::configured::virtually;
use check::{NEW, observe};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, IoFlags};

use crate::ext4::judged;
use crate::ext4::kernel_images::{copy, made_by_mkfs};
use crate::ext4::tools::{Scratch, e2fsck, has_e2fsck, run, save, tool};

const FEATURES: [&[&str]; 5] = [
    &["-t", "ext2", "-b", "1024"],
    &["-t", "ext4", "-b", "1024"],
    &["-t", "ext4", "-b", "4096", "-O", "^metadata_csum"],
    &["-t", "ext4", "-b", "1024", "-O", "^has_journal"],
    &["-t", "ext4", "-b", "2048", "-I", "128"],
];
const MIB: u64 = 12;

/// A directory with an index, a file in many pieces, links, attributes in the inode and in a block.
fn fill(fs: &dyn FileSystem) {
    let dir = fs.mkdir(fs.root(), b"many", &NEW).expect("mkdir").ino;
    for number in 0..150 {
        let name = format!("a file with a name that is rather long, number {number}");
        let file = fs.create(dir, name.as_bytes(), &NEW).expect("create").ino;
        fs.write(file, 0, &vec![number as u8; number * 7], IoFlags::empty()).expect("write");
    }
    let sub = fs.mkdir(dir, b"sub", &NEW).expect("mkdir").ino;
    fs.create(sub, b"below", &NEW).expect("create");
    let file = fs.create(fs.root(), b"large", &NEW).expect("create").ino;
    for piece in 0..150_u64 {
        fs.write(file, piece * 9000, &[piece as u8 | 1; 5000], IoFlags::empty()).expect("write");
    }
    let plain = fs.create(fs.root(), b"plain", &NEW).expect("create").ino;
    fs.write(plain, 0, &[7; 16 << 10], IoFlags::empty()).expect("write");
    fs.symlink(fs.root(), b"short", b"many", &NEW).expect("symlink");
    fs.symlink(fs.root(), b"long", &[b'x'; 300], &NEW).expect("symlink");
    fs.setxattr(file, b"user.colour", &[7; 40], vfs::XattrMode::Set).expect("setxattr");
    fs.setxattr(plain, b"user.large", &[9; 600], vfs::XattrMode::Set).expect("setxattr");
}

/// An image with a fault in it.
struct Faulty {
    image: Scratch,
    block_bytes: u64,
}

impl Faulty {
    fn debugfs(&self, request: &str) -> String {
        let output = run("debugfs", &["-w", "-R", request, &self.image.0]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The block on the device of a block of a file or directory.
    fn block(&self, path: &str, index: u64) -> u64 {
        let said = self.debugfs(&format!("bmap {path} {index}"));
        said.trim().parse().unwrap_or_else(|_| panic!("bmap {path} {index}: {said}"))
    }

    /// Where the inode of a path lies.
    fn inode(&self, path: &str) -> u64 {
        let said = self.debugfs(&format!("imap {path}"));
        let (_, rest) = said.split_once("located at block ").expect("imap says where");
        let (block, offset) = rest.trim().split_once(", offset 0x").expect("and the offset");
        let offset = u64::from_str_radix(offset.trim(), 16).expect("a number");
        block.parse::<u64>().expect("a number") * self.block_bytes + offset
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.image.0).expect("the image")
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let mut all = self.bytes();
        all[at as usize..][..bytes.len()].copy_from_slice(bytes);
        std::fs::write(&self.image.0, all).expect("room");
    }

    fn put_true(&self, at: u64, bytes: &[u8]) -> bool {
        self.put(at, bytes);
        true
    }

    /// Where the journal begins, if the image has one.
    fn journal(&self) -> Option<u64> {
        let has = self.word(1024 + 0x5c) & 4 != 0;
        has.then(|| self.block("<8>", 0) * self.block_bytes)
    }

    fn word(&self, at: u64) -> u32 {
        let bytes = self.bytes();
        u32::from_le_bytes(bytes[at as usize..][..4].try_into().expect("four bytes"))
    }
}

/// A fault: its name, how it is planted (false: such an image cannot have it), and the paths that it may take or change.
type Fault = (&'static str, fn(&Faulty) -> bool, &'static [&'static str]);

const FAULTS: [Fault; 37] = [
    ("the superblock counts free blocks wrongly", |image| asked(image, &["ssv free_blocks_count 7"]), &[]),
    (
        "blocks in use are free in the bitmap",
        |image| asked(image, &[&format!("freeb {} 3", image.block("/plain", 0))]),
        &[],
    ),
    ("free blocks are in use in the bitmap", |image| asked(image, &["ffb 5 9000", "setb 9000 4"]), &[]),
    ("an inode in use is free in the bitmap", |image| asked(image, &["freei /plain"]), &[]),
    ("a file has too many links", |image| asked(image, &["sif /plain links_count 5"]), &["plain"]),
    ("a directory has too few links", |image| asked(image, &["sif /many links_count 2"]), &[]),
    ("a file counts its blocks wrongly", |image| asked(image, &["sif /large blocks 8"]), &[]),
    ("a file is shorter than its blocks", |image| asked(image, &["sif /plain size 100"]), &["plain"]),
    ("a file has lost its name", |image| asked(image, &["unlink /plain"]), &["plain"]),
    ("a directory has lost its name", |image| asked(image, &["unlink /many"]), &["many"]),
    (
        "the target of a short link has a hole",
        |image| image.put_true(image.inode("/short") + 0x28 + 2, &[0]),
        &["short"],
    ),
    (
        "the target of a long link is shorter than its inode says",
        |image| image.put_true(image.block("/long", 0) * image.block_bytes + 100, &[0]),
        &["long"],
    ),
    ("a name leads to a free inode", |image| asked(image, &["clri /plain"]), &["plain"]),
    ("an inode deleted long ago has a name", |image| asked(image, &["sif /plain dtime 1000"]), &[]),
    (
        "the inode of blocks for more descriptors counts blocks that it does not have",
        |image| image.put_true(image.inode("<7>") + 0x74, &[0x10]),
        &[],
    ),
    (
        "the feature of large files is gone, which inode 7 needs",
        |image| asked(image, &["feature -large_file"]),
        &[],
    ),
    ("the list of orphans leads out", |image| asked(image, &["ssv last_orphan 99999"]), &[]),
    (
        "the superblock is gone",
        |image| {
            image.put(1024, &[0; 1024]);
            image.block_bytes == 1024 // others have one group at this size, and so no copy
        },
        &[],
    ),
    (
        "the superblock of the journal is gone",
        |image| {
            let begins = image.journal();
            begins.is_some_and(|at| image.put_true(at, &[0; 1024]))
        },
        &[],
    ),
    (
        "the journal has transactions, and its superblock is gone",
        |image| {
            let incompat = image.word(1024 + 0x60);
            image.debugfs(&format!("ssv feature_incompat {}", incompat | 4));
            let begins = image.journal();
            begins.is_some_and(|at| image.put_true(at, &[0; 1024]))
        },
        &[],
    ),
    (
        "the inode of the journal is gone",
        |image| image.journal().is_some() && asked(image, &["clri <8>"]),
        &[],
    ),
    (
        "a descriptor is gone",
        |image| {
            let first = if image.block_bytes == 1024 { 2 } else { 1 };
            image.put(first * image.block_bytes, &[0; 32]);
            image.block_bytes == 1024
        },
        &[],
    ),
    (
        "the bitmap of inodes is to lie in the journal",
        |image| {
            let first = if image.block_bytes == 1024 { 2 } else { 1 };
            let begins = image.journal().map(|at| (at / image.block_bytes) as u32);
            begins.is_some_and(|block| image.put_true(first * image.block_bytes + 4, &block.to_le_bytes()))
        },
        &[],
    ),
    (
        "the checksum of an inode is wrong",
        |image| {
            let at = image.inode("/plain") + 0x7c;
            image.put(at, &(image.word(at) ^ 0x55).to_le_bytes()[..2]);
            true
        },
        &[],
    ),
    (
        "a directory block breaks off",
        |image| {
            image.put(image.block("/many", 2) * image.block_bytes + 4, &[3, 0]);
            true
        },
        &["many/", "many"],
    ),
    (
        "the index of a directory is damaged",
        |image| {
            image.put(image.block("/many", 0) * image.block_bytes + 0x28, &[0xff; 24]);
            true
        },
        &[],
    ),
    (
        "a node of a map is damaged",
        |image| {
            let inode = image.inode("/large");
            let extents = image.word(inode + 0x20) & 0x8_0000 != 0;
            let table = u64::from(image.word(inode + 0x28 + if extents { 16 } else { 48 }));
            image.put(table * image.block_bytes, &[0xff; 8]);
            true
        },
        &["large"],
    ),
    (
        "attributes are damaged",
        |image| {
            let block = u64::from(image.word(image.inode("/plain") + 0x68));
            image.put(block * image.block_bytes, &[0; 4]);
            block != 0
        },
        &["plain"],
    ),
    (
        "the value of an attribute is not the one of its hash",
        |image| {
            let block = u64::from(image.word(image.inode("/plain") + 0x68));
            image.put((block + 1) * image.block_bytes - 512, &[5; 512]);
            block != 0
        },
        &["plain"],
    ),
    ("a file has no mode", |image| asked(image, &["sif /plain mode 0"]), &["plain"]),
    ("a file lacks the flag of extents", |image| asked(image, &["sif /large flags 0"]), &[]),
    ("a directory lacks the flag of extents", |image| asked(image, &["sif /many flags 0"]), &[]),
    ("a link lacks the flag of extents", |image| asked(image, &["sif /long flags 0"]), &[]),
    (
        "the name of an attribute has no prefix",
        |image| {
            let block = u64::from(image.word(image.inode("/plain") + 0x68));
            image.put_true(block * image.block_bytes + 33, &[0])
        },
        &["plain"],
    ),
    (
        "a block of attributes counts references that it does not have",
        |image| {
            let block = u64::from(image.word(image.inode("/plain") + 0x68));
            image.put_true(block * image.block_bytes + 4, &[2])
        },
        &[],
    ),
    (
        "the value of an attribute ends behind its inode",
        |image| {
            let inode = image.inode("/large");
            let entry = inode + 128 + u64::from(image.word(inode + 0x80) & 0xffff) + 4;
            let offset = (image.word(entry) >> 16) as u16 + 1;
            image.put(entry + 2, &offset.to_le_bytes());
            // A value without a hash, one byte shorter.
            image.put(entry + 8, &[39, 0, 0, 0, 0, 0, 0, 0]);
            image.word(1024 + 0x58) & 0xffff == 256
        },
        &["large"],
    ),
    (
        "inode 7 has a block that is not kept for descriptors",
        |image| {
            let table = u64::from(image.word(image.inode("<7>") + 0x28 + 13 * 4));
            image.put_true((table + 1) * image.block_bytes - 4, &700_u32.to_le_bytes())
        },
        &[],
    ),
];

/// Gives requests to debugfs.
fn asked(image: &Faulty, requests: &[&str]) -> bool {
    for request in requests {
        image.debugfs(request);
    }
    true
}

type Shown = BTreeMap<String, String>;

/// What is to be kept of an image, by path: all but times.
fn shown(region: &Arc<Region>) -> Result<Shown, String> {
    let (design, region) = (judged("ext4", &[]), copy(region));
    virtually(1, move || {
        let fs = design.mount(&region)?;
        let tree = check::tree::without_times(observe(&*fs)?);
        fs.unmount().map_err(|errno| errno.name().to_owned())?;
        let inode = |entry: &check::tree::Entry| {
            format!(
                "{:?} {:o} {} {:?} {:?}",
                entry.kind, entry.perm, entry.nlink, entry.xattrs, entry.content
            )
        };
        Ok(tree.iter().map(|(path, entry)| (path.clone(), inode(entry))).collect())
    })
}

/// Repairs an image, as the command does; what was done.
fn repaired(region: &Arc<Region>) -> Result<Vec<String>, String> {
    let design = judged("ext4", &[]);
    let region = Arc::clone(region);
    virtually(2, move || {
        design.recover(&region)?;
        if design.own_violations(&region).is_empty() {
            return Err("our fsck finds nothing wrong".to_owned());
        }
        let done = design.repair(&region)?;
        design.recover(&region)?;
        match design.own_violations(&region) {
            left if left.is_empty() => Ok(done),
            left => Err(format!("{left:?} are left after {done:?}")),
        }
    })
}

/// What differs beyond what a fault may take. Below a directory of which it takes names, files must be in `lost+found` instead.
fn difference(before: &Shown, after: &Shown, taken: &[&str]) -> String {
    let may_differ = |path: &str| path.is_empty() || path.starts_with("lost+found") || taken.contains(&path);
    let found: Vec<_> = after.iter().filter(|(path, _)| path.starts_with("lost+found/")).collect();
    let is_found = |path: &str| {
        let wanted = before.get(path);
        taken.iter().any(|one| one.ends_with('/') && path.starts_with(one))
            && found.iter().any(|(other, shown)| {
                Some(*shown) == wanted || path.rsplit('/').next().is_some_and(|name| other.ends_with(name))
            })
    };
    let mut text = String::new();
    for path in before.keys().chain(after.keys()).filter(|path| !may_differ(path)) {
        if before.get(path) != after.get(path) && !is_found(path) {
            let _ = write!(text, "\"{path}\" differs; ");
        }
    }
    text
}

/// A sound image with the tree of [`fill`].
fn made_and_filled(features: &[&str]) -> Arc<Region> {
    let region = made_by_mkfs(features, MIB);
    let filled = Arc::clone(&region);
    virtually(7, move || {
        let fs = judged("ext4", &[]).mount(&filled).expect("mount");
        fill(&*fs);
        fs.unmount().expect("unmount");
    });
    region
}

#[test]
fn after_a_repair_e2fsck_finds_every_planted_fault_gone_and_nothing_else_lost() {
    if !has_e2fsck() || tool("debugfs").is_none() {
        eprintln!("SKIPPED: repairs are judged by e2fsck and debugfs (package e2fsprogs)");
        return;
    }
    let mut wrong = Vec::new();
    for features in FEATURES {
        let region = made_and_filled(features);
        let before = shown(&region).expect("a sound image");
        let mut bytes = [0; 4];
        region.peek(1024 + 24, &mut bytes).expect("the superblock");
        let block_bytes = 1024 << u32::from_le_bytes(bytes);
        for (fault, plant, taken) in FAULTS {
            let place = format!("{features:?}: {fault}");
            let faulty = Faulty { image: save(&region), block_bytes };
            let planted = plant(&faulty);
            let damaged = check::configured::region(Bytes::mib(MIB));
            damaged.store(0, &faulty.bytes()).expect("it fits");
            if !planted || e2fsck(&damaged).is_ok() {
                println!("{place}: not a fault here");
                continue;
            }
            match judge(&before, &damaged, taken) {
                Ok(done) => println!("{place}: {}", done.join(", ")),
                Err(what) => wrong.push(format!("{place}: {what}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Repairs an image and says what was done, or what is wrong afterwards.
fn judge(before: &Shown, damaged: &Arc<Region>, taken: &[&str]) -> Result<Vec<String>, String> {
    let done = repaired(damaged)?;
    e2fsck(damaged).map_err(|said| format!("after {done:?}: {said}"))?;
    let after = shown(damaged).map_err(|what| format!("after {done:?}: {what}"))?;
    let lost: Vec<_> = if taken == ["many"] {
        let moved = |path: &String| path.strip_prefix("many").map(str::to_owned);
        let found: Vec<_> = after.keys().filter(|path| path.starts_with("lost+found/#")).collect();
        let is_there = |rest: &String| found.iter().any(|path| path.ends_with(rest.as_str()));
        before.keys().filter_map(moved).filter(|rest| !is_there(rest)).collect()
    } else {
        vec![difference(before, &after, taken)]
    };
    match lost.into_iter().find(|what| !what.is_empty()) {
        None => Ok(done),
        Some(what) => Err(format!("after {done:?}: {what}")),
    }
}

#[test]
fn a_file_that_lost_its_name_or_a_piece_of_its_map_keeps_the_rest() {
    if !has_e2fsck() || tool("debugfs").is_none() {
        return;
    }
    for features in FEATURES {
        let region = made_and_filled(features);
        let before = shown(&region).expect("a sound image");
        let faulty = Faulty { image: save(&region), block_bytes: 0 };
        asked(&faulty, &["unlink /plain"]);
        let damaged = check::configured::region(Bytes::mib(MIB));
        damaged.store(0, &faulty.bytes()).expect("it fits");
        repaired(&damaged).expect("a repair");
        let after = shown(&damaged).expect("a sound image");
        let found = after.iter().find(|(path, _)| path.starts_with("lost+found/#"));
        assert_eq!(found.map(|(_, shown)| shown), before.get("plain"), "{features:?}");
    }
}

/// Tears the name of a record that lies in two sectors, as a power loss may: its inode and length, and what another record had
/// there. The path with the name as it was, and with the torn one.
fn tear_a_name(image: &Faulty, dir: &str) -> (String, String) {
    let (all, block_bytes) = (image.bytes(), image.block_bytes as usize);
    for index in 0..8 {
        let begin = image.block(dir, index) as usize * block_bytes;
        let (block, mut at) = (&all[begin..][..block_bytes], 0);
        while at + 8 < block_bytes {
            let (len, name_len) =
                (usize::from(u16::from_le_bytes([block[at + 4], block[at + 5]])), usize::from(block[at + 6]));
            let used = u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes")) != 0;
            let (first, end) = (at + 8, at + 8 + name_len);
            let sector = first.next_multiple_of(512);
            if used && name_len > 8 && first < sector && sector < end {
                let mut torn = block[first..end].to_vec();
                torn[sector - first..].fill(b'Q');
                image.put((begin + sector) as u64, &torn[sector - first..]);
                let text = |name: &[u8]| format!("{dir}/{}", String::from_utf8_lossy(name))[1..].to_owned();
                return (text(&block[first..end]), text(&torn));
            }
            at += len.max(8);
        }
    }
    panic!("no record of {dir} lies in two sectors");
}

#[test]
fn a_torn_name_is_kept_by_e2fsck_and_by_our_repair() {
    if !has_e2fsck() || tool("debugfs").is_none() {
        return;
    }
    // With this seed the torn name belongs into another leaf; in its own leaf nothing would be wrong.
    let seed = "hash_seed=01234567-89ab-cdef-0123-456789abcdef";
    for kind in [&["-t", "ext2"][..], &["-t", "ext4", "-O", "^has_journal"]] {
        let features = &[kind, &["-b", "1024", "-E", seed]].concat()[..];
        let region = made_and_filled(features);
        let before = shown(&region).expect("a sound image");
        let faulty = Faulty { image: save(&region), block_bytes: 1024 };
        let (old, torn) = tear_a_name(&faulty, "/many");
        let damaged = check::configured::region(Bytes::mib(MIB));
        damaged.store(0, &faulty.bytes()).expect("it fits");
        let output = run("e2fsck", &["-fy", &faulty.image.0]);
        assert!(output.status.code().is_some_and(|code| code <= 1), "{features:?}: {output:?}");
        let theirs = check::configured::region(Bytes::mib(MIB));
        theirs.store(0, &faulty.bytes()).expect("it fits");
        repaired(&damaged).expect("a repair");
        for (who, region) in [("e2fsck", &theirs), ("weir", &damaged)] {
            e2fsck(region).unwrap_or_else(|said| panic!("{features:?}, after {who}: {said}"));
            let after = shown(region).expect("a sound image");
            assert_eq!(after.get(&torn), before.get(&old), "{features:?}, {who}: {old:?} became {torn:?}");
            assert!(!after.contains_key(&old), "{features:?}, {who}");
        }
    }
}

/// The only table, of which there is no copy: found while it is there; else everything in it is lost, the root too.
#[test]
fn an_inode_table_that_is_lost_gets_a_place_and_the_file_system_a_root() {
    if !has_e2fsck() {
        eprintln!("SKIPPED: repairs are judged by e2fsck (package e2fsprogs)");
        return;
    }
    for is_there in [true, false] {
        let region = made_by_mkfs(&["-t", "ext2", "-b", "1024", "-N", "64", "-O", "^resize_inode"], 2);
        // The descriptor of the group, in the block behind the superblock.
        let mut table = [0; 4];
        region.peek(2048 + 8, &mut table).expect("inside");
        region.store(2048 + 8, &40_000_u32.to_le_bytes()).expect("inside");
        if !is_there {
            let at = u64::from(u32::from_le_bytes(table)) * 1024;
            region.store(at, &[0; 64 * 256]).expect("inside");
        }
        let damaged = Arc::clone(&region);
        let done = virtually(2, move || judged("ext4", &[]).repair(&damaged)).expect("a repair").join("; ");
        assert_eq!(done.contains("root directories made anew"), !is_there, "{done}");
        assert_eq!(done.contains("found elsewhere"), is_there, "{done}");
        assert_eq!(e2fsck(&region), Ok(()));
        shown(&region).expect("a mount");
    }
}
