//! Damages that e2fsck sees, planted by their bytes: our check sees each in the image as it lies on the medium, and after our repair
//! nothing is left of it and every file is there, by its name or in `lost+found`.

use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use sim::Bytes;

use crate::ext4::edited::{Edited, file};
use crate::ext4::judged;
use crate::ext4::kernel_images::copy;

const NAMES: [&str; 4] = ["first", "second", "third", "fourth"];

fn image() -> Edited {
    Edited::made("ext2", &[("block_size", "1k"), ("dir_index", "false")], Bytes::mib(4), |fs| {
        for (number, name) in NAMES.into_iter().enumerate() {
            file(fs, name, &vec![number as u8 + 1; 2000 + number]);
        }
        fs.symlink(fs.root(), b"link", b"first", &NEW).expect("symlink");
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        for number in 0..120 {
            fs.create(dir, format!("a file with a rather long name, {number}").as_bytes(), &NEW)
                .expect("create");
        }
    })
}

impl Edited {
    /// Where the pointer of a block of an inode lies.
    fn pointer(&self, ino: u64, index: u64) -> u64 {
        self.inode(ino) + 0x28 + index * 4
    }

    /// Where a record of the root directory lies.
    fn record(&self, name: &str) -> u64 {
        let block = u64::from(self.word(self.pointer(2, 0))) * 1024;
        let (bytes, mut at) = (self.bytes(block, 1024), 0);
        while at < 1024 {
            let len = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
            if &bytes[at + 8..at + 8 + usize::from(bytes[at + 6])] == name.as_bytes() {
                return block + at as u64;
            }
            at += len;
        }
        panic!("no record of {name}");
    }

    fn ino(&self, name: &str) -> u64 {
        u64::from(self.word(self.record(name)))
    }
}

/// A damage: its name, how it is planted, what the check says of it, and whether names may move to `lost+found`.
type Damage = (&'static str, fn(&Edited), &'static str, bool);

const DAMAGES: [Damage; 14] = [
    (
        "a group has no clusters",
        |image| image.put_superblock(0x24, &[0; 4], true),
        "clusters_per_group is 0",
        false,
    ),
    (
        "a file of orphans is to hold some, and is not there",
        |image| image.put_superblock(0x66, &[1], true),
        "a file of orphans is to hold some",
        false,
    ),
    (
        "a name is there twice",
        |image| {
            let (from, to) = (image.bytes(image.record("first") + 8, 5), image.record("third") + 8);
            image.put(to, &from);
        },
        "is there twice",
        true,
    ),
    (
        "a second `..`",
        |image| {
            let at = image.record("fourth");
            image.put(at + 6, &[2]);
            image.put(at + 8, b"..");
        },
        "a second \"..\"",
        true,
    ),
    (
        "a name leads to a reserved inode",
        |image| image.put(image.record("second"), &[8, 0, 0, 0]),
        "inode 8, which is reserved",
        true,
    ),
    ("a name with a slash", |image| image.put(image.record("first") + 9, b"/"), "the name", true),
    (
        "a link in its inode has the flag of extents",
        |image| image.put(image.inode(image.ino("link")) + 0x20, &0x8_0000_u32.to_le_bytes()),
        "flag of extents",
        false,
    ),
    (
        "an inode is free in the bitmap",
        |image| {
            let (ino, bitmap) =
                (image.ino("first") - 1, u64::from(image.word(image.descriptor() + 4)) * 1024);
            let byte = image.bytes(bitmap + ino / 8, 1)[0];
            image.put(bitmap + ino / 8, &[byte & !(1 << (ino % 8))]);
        },
        "free",
        false,
    ),
    (
        "a group counts its directories wrongly",
        |image| image.put(image.descriptor() + 0x10, &[9, 0]),
        "directories",
        false,
    ),
    (
        "the bitmap of inodes is not padded",
        |image| image.put(u64::from(image.word(image.descriptor() + 4)) * 1024 + 1023, &[0]),
        "beyond its end",
        false,
    ),
    (
        "a directory has a hole",
        |image| {
            let at = image.pointer(image.ino("dir"), 2);
            image.put(at, &[0; 4]);
        },
        "",
        true,
    ),
    (
        "a record of a directory makes no sense",
        |image| {
            let block = u64::from(image.word(image.pointer(image.ino("dir"), 3))) * 1024;
            image.put(block + 6, &[250]);
        },
        "",
        true,
    ),
    (
        "the block bitmap lies where it cannot",
        |image| image.put(image.descriptor(), &0xffff_u32.to_le_bytes()),
        "",
        false,
    ),
    ("there is no root directory", |image| image.put(image.inode(2), &[0; 128]), "", true),
];

#[test]
fn what_e2fsck_sees_is_seen_and_repaired_and_no_file_is_lost() {
    let mut wrong = Vec::new();
    let before = image().files();
    for (name, plant, says, moves) in DAMAGES {
        let image = image();
        plant(&image);
        let found = image.violations();
        if !found.iter().any(|what| what.contains(says)) {
            wrong.push(format!("{name}: the check says {found:?}"));
            continue;
        }
        let done = image.repair();
        let left = image.violations();
        if !left.is_empty() {
            wrong.push(format!("{name}: {left:?} are left after {done:?}"));
            continue;
        }
        let after = image.files();
        let contents: Vec<_> = after.values().collect();
        for (path, shown) in before.iter().filter(|(path, _)| !path.is_empty() && *path != "lost+found") {
            let is_there = after.get(path) == Some(shown) || moves && contents.contains(&shown);
            // Files in `dir` are empty: that all are there is seen by their number.
            if !is_there {
                wrong.push(format!("{name}: \"{path}\" is lost after {done:?}"));
            }
        }
        // The block that the damage itself takes away holds some names of `dir`, whose files are kept.
        if after.len() < before.len() {
            wrong.push(format!("{name}: {} of {} files are there after {done:?}", after.len(), before.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_check_does_not_mend_what_it_looks_at() {
    let image = image();
    image.leave_unclean();
    image.put(image.inode(image.ino("first")) + 0x1c, &[77, 0]);
    let design = fs::by_name("ext2").expect("a design");
    let storage = media::Storage::from(&image.region);
    let notes = design.format().replay(&storage).expect("nothing to replay");
    assert_eq!(notes, ["it was not unmounted, and has no journal"]);
    assert!(image.violations().iter().any(|what| what.contains("sectors")), "{:?}", image.violations());
}

/// Damages of the journal's inode: a name, offset in the inode, bytes, and what the check says.
const OF_THE_JOURNAL: [(&str, u64, &[u8], &str); 5] = [
    ("the journal ends in a block", 0x4, &[0x10], "a part of a block"),
    ("the journal has the flag of casefold", 0x23, &[0x40], "casefold"),
    ("the extents of the journal say room for more than there is", 0x2c, &[20], "header of an extent node"),
    ("the journal has a block more than its size", 0x38, &[0x01, 0x04], "block"),
    ("the journal has the blocks of all files", 0x38, &[0x00, 0x14], "block"),
];

#[test]
fn a_damaged_inode_of_the_journal_costs_no_file_and_no_attribute() {
    let image = || {
        let given = [("block_size", "1k"), ("journal", "1MiB"), ("metadata_csum", "false")];
        Edited::made("ext4", &given, Bytes::mib(8), |fs| {
            for (number, name) in NAMES.into_iter().enumerate() {
                let ino = file(fs, name, &vec![number as u8 + 1; 2000 + number]);
                fs.setxattr(ino, b"user.long", &[b'x'; 600], vfs::XattrMode::Set).expect("an attribute");
            }
        })
    };
    let before = image().files();
    let mut wrong = Vec::new();
    for (name, at, bytes, says) in OF_THE_JOURNAL {
        let image = image();
        image.put(image.inode(8) + at, bytes);
        let found = image.violations();
        if !found.iter().any(|what| what.contains(says)) {
            wrong.push(format!("{name}: the check says {found:?}"));
        }
        let done = image.repair_damaged();
        let (left, after) = (image.violations(), image.files());
        if !left.is_empty() || after != before {
            wrong.push(format!("{name}: {left:?} and {} files are left after {done:?}", after.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_repair_replays_the_log_of_a_journal_whose_inode_is_damaged_and_has_no_copy() {
    const GIVEN: [(&str, &str); 3] = [("block_size", "1k"), ("journal", "1MiB"), ("metadata_csum", "false")];
    let region = check::configured::region(Bytes::mib(8));
    let image = Arc::clone(&region);
    let crashed = virtually(1, move || {
        let design = judged("ext4", &GIVEN);
        design.mkfs(&image).expect("mkfs");
        let fs = design.mount(&image).expect("mount");
        file(&*fs, "kept", &[7; 9000]);
        fs.sync().expect("sync");
        copy(&image)
    });
    let image = Edited { region: crashed, design: Arc::new(judged("ext4", &GIVEN)) };
    // The kind of the copy in the superblock, and the size in the journal's inode.
    image.put_superblock(0xfd, &[0], true);
    image.put(image.inode(8) + 4, &[0x10]);
    let done = image.repair_damaged().expect("a repair");
    assert_eq!(image.violations(), Vec::<String>::new(), "{done:?}");
    assert!(image.files().contains_key("kept"), "{done:?}");
}

/// The length of `..` in the first block of a directory with an index, which covers the root of that; the checksum is right.
#[test]
fn a_wrong_length_of_the_second_record_of_an_indexed_directory_costs_no_name() {
    for checksums in ["false", "true"] {
        let image = move || {
            let given = [("block_size", "1k"), ("journal", "0"), ("metadata_csum", checksums)];
            let image = Edited::made("ext4", &given, Bytes::mib(4), |fs| {
                let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
                for number in 0..120 {
                    let name = format!("a file with a rather long name, {number}");
                    fs.create(dir, name.as_bytes(), &NEW).expect("create");
                }
            });
            let dir = image.mounted(|fs| fs.lookup(fs.root(), b"dir").expect("it is there").ino.0);
            (image, dir)
        };
        let before = image().0.files();
        for len in [0_u16, 12, 24, 1000, 1008, 1024, 0x9b4a, 0xfff4] {
            let (image, dir) = image();
            let block = u64::from(image.word(image.inode(dir) + 0x3c)) * 1024;
            assert_eq!(image.half(block + 16), 1012, "a root of an index");
            image.put(block + 16, &len.to_le_bytes());
            if checksums == "true" {
                seal_root(&image, dir, block);
            }
            let what = format!("{len}, checksums {checksums}");
            let found = image.violations();
            assert!(found.iter().any(|what| what.contains("directory_sound")), "{what}: {found:?}");
            let done = image.repair();
            assert_eq!(judged("ext4", &[]).fsck(&image.region), Vec::<String>::new(), "{what}: {done:?}");
            assert_eq!(image.files(), before, "{what}: {done:?}");
            assert_ne!(image.word(image.inode(dir) + 0x20) & 0x1000, 0, "{what}: it keeps its index");
        }
    }
}

fn seal_root(image: &Edited, dir: u64, block: u64) {
    let (most, count) = (u64::from(image.half(block + 32)), u64::from(image.half(block + 34)));
    let generation = image.bytes(image.inode(dir) + 0x64, 4);
    let parts = [
        image.bytes(1024 + 0x68, 16),
        (dir as u32).to_le_bytes().to_vec(),
        generation,
        image.bytes(block, 32 + 8 * count as usize),
        image.bytes(block + 32 + 8 * most, 4),
        vec![0; 4],
    ];
    let sum = parts.iter().fold(0, |sum, part| crc32c::crc32c_append(sum, part));
    image.put(block + 32 + 8 * most + 4, &(!sum).to_le_bytes());
}
