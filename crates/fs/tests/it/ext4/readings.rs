//! A repair loses no inode table, root directory or journal that is there: one number of the superblock or of a descriptor that is
//! wrong makes it look where the others say, and where there is something to lose it says so and stops.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use check::NEW;
use check::configured::virtually;
use media::Storage;
use sim::Bytes;
use vfs::{FileSystem, IoFlags};

use crate::ext4::edited::{Edited, file};

/// Offsets in the superblock.
const INODES_COUNT: u64 = 0;
const BLOCKS_COUNT: u64 = 4;
const INODES_PER_GROUP: u64 = 0x28;
const INODE_SIZE: u64 = 0x58;
const RO_COMPAT: u64 = 0x64;
const RESERVED_GDT_BLOCKS: u64 = 0xce;
const JOURNAL_INUM: u64 = 0xe0;
const JOURNAL_BACKUP_TYPE: u64 = 0xfd;
const JOURNAL_INO: u64 = 8;
/// Offsets of `bg_inode_table_lo` and `bg_free_blocks_count_lo` in a descriptor.
const TABLE: u64 = 8;
const FREE_BLOCKS: usize = 0xc;
/// The map in an inode.
const MAP: Range<usize> = 0x28..0x64;

type Options = &'static [(&'static str, &'static str)];

/// A design, and what it is formatted with.
type Kind = (&'static str, Options);

const KINDS: [Kind; 4] = [
    ("ext2", &[("block_size", "1k")]),
    ("ext4", &[("block_size", "1k"), ("journal", "0")]),
    ("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("metadata_csum", "false")]),
    ("ext4", &[("block_size", "1k"), ("journal", "1MiB")]),
];

fn fill(fs: &dyn FileSystem) {
    // Directories spread over the groups.
    for dir in 0..6 {
        let made = fs.mkdir(fs.root(), format!("dir {dir}").as_bytes(), &NEW).expect("mkdir").ino;
        for number in 0..12_u8 {
            let ino = fs.create(made, format!("file {number}").as_bytes(), &NEW).expect("create").ino;
            fs.write(ino, 0, &[number; 3000], IoFlags::empty()).expect("write");
        }
    }
    file(fs, "in the root", b"contents");
}

fn image(kind: Kind, mib: u64) -> Edited {
    let (name, given) = kind;
    Edited::made(name, given, Bytes::mib(mib), fill)
}

/// Every path with its contents, as they were.
fn whole(kind: Kind, mib: u64) -> BTreeMap<String, String> {
    image(kind, mib).files()
}

fn kept(image: &Edited, before: &BTreeMap<String, String>, what: &str) {
    assert_ne!(image.violations(), Vec::<String>::new(), "{what}: nothing is wrong");
    let done = image.repair_damaged().unwrap_or_else(|why| panic!("{what}: {why}"));
    assert_eq!(image.violations(), Vec::<String>::new(), "{what}: after {done:?}");
    let after = image.files();
    let lost = before.iter().find(|(path, shown)| after.get(*path) != Some(*shown));
    assert_eq!(lost.map(|(path, _)| path), None, "{what}: after {done:?}");
}

#[test]
fn a_wrong_number_in_the_superblock_costs_no_file() {
    for kind in KINDS {
        let before = whole(kind, 20);
        for sealed in [false, true] {
            for (field, value) in [
                (RESERVED_GDT_BLOCKS, 4000_u16),
                (RESERVED_GDT_BLOCKS, 256),
                (RESERVED_GDT_BLOCKS, 1),
                (INODES_COUNT, 77),
                (BLOCKS_COUNT, 11),
                (INODES_PER_GROUP, 8),
                (INODE_SIZE, 128),
                (INODE_SIZE, 1024),
            ] {
                let image = image(kind, 20);
                image.put_superblock(field, &value.to_le_bytes(), sealed);
                let what = format!("{kind:?}, {field:#x} is {value}, sealed {sealed}");
                kept(&image, &before, &what);
            }
        }
    }
}

#[test]
fn a_wrong_number_in_the_superblock_of_one_group_which_has_no_backup_costs_no_file() {
    for kind in KINDS {
        let before = whole(kind, 7);
        for (field, value) in
            [(RESERVED_GDT_BLOCKS, 4000_u16), (RESERVED_GDT_BLOCKS, 200), (INODES_COUNT, 77)]
        {
            let image = image(kind, 7);
            image.put_superblock(field, &value.to_le_bytes(), true);
            kept(&image, &before, &format!("{kind:?}, {field:#x} is {value}"));
        }
    }
}

#[test]
fn a_superblock_that_has_lost_the_feature_of_few_backups_gets_it_again() {
    for kind in KINDS {
        let before = whole(kind, 20);
        let image = image(kind, 20);
        let features = image.half(1024 + RO_COMPAT);
        image.put_superblock(RO_COMPAT, &(features & !1).to_le_bytes(), true);
        kept(&image, &before, &format!("{kind:?}, without sparse_super"));
        assert_eq!(image.half(1024 + RO_COMPAT), features, "{kind:?}");
    }
}

#[test]
fn an_inode_table_is_found_where_the_layout_has_it() {
    for kind in KINDS {
        let before = whole(kind, 7);
        for place in [0_u32, 2_000_000, 6000, 1] {
            let image = image(kind, 7);
            image.put(image.descriptor() + TABLE, &place.to_le_bytes());
            kept(&image, &before, &format!("{kind:?}, the table is at {place}"));
        }
    }
}

#[test]
fn a_repair_that_would_lose_names_says_so_and_changes_nothing_until_it_is_told_to() {
    for kind in KINDS {
        let image = image(kind, 20);
        let bytes = usize::from(image.half(1024 + 0x58)) * image.word(1024 + INODES_PER_GROUP) as usize;
        // The second group: its table, and what says where it lies.
        let at = image.descriptor() + image.descriptor_bytes() as u64 + TABLE;
        let table = u64::from(image.word(at)) * image.block_bytes();
        image.put(table, &vec![0; bytes]);
        image.put(at, &4_000_000_u32.to_le_bytes());
        for copy in 1..3 {
            let group = u64::from(image.word(1024 + 0x20)) * copy * image.block_bytes();
            image.put(at + group, &4_000_000_u32.to_le_bytes());
        }
        let before = image.bytes(0, 20 << 20);
        let why = image.repair_damaged().expect_err("names lead into the table");
        assert!(why.contains("would lose") && why.contains("--force-loss"), "{kind:?}: {why}");
        assert!(before == image.bytes(0, 20 << 20), "{kind:?}: the image was changed");
        let (region, design) = (Arc::clone(&image.region), fs::by_name(kind.0).expect("a design"));
        let done = virtually(2, move || design.format().repair_at_any_loss(&Storage::from(&region)));
        let done = done.unwrap_or_else(|why| panic!("{kind:?}: {why}"));
        assert!(done.iter().any(|what| what.contains("names lost")), "{done:?}");
        assert_eq!(image.violations(), Vec::<String>::new(), "{done:?}");
    }
}

/// A bitmap that lies in the inode table of its group, as one wrong bit puts it: the table has been there before.
#[test]
fn a_bitmap_that_lies_in_a_table_moves_and_not_the_table() {
    for kind in KINDS {
        let before = whole(kind, 7);
        for part in [0, 4] {
            let image = image(kind, 7);
            let table = image.word(image.descriptor() + TABLE);
            image.put(image.descriptor() + part, &(table + 2).to_le_bytes());
            kept(&image, &before, &format!("{kind:?}, the bitmap at {part} lies in the table"));
        }
    }
}

/// Fields without which all can be read, and that e2fsck corrects: the first block of the journal's UUID, inodes of quota, blocks for
/// root, inodes of a group by their count.
#[test]
fn fields_that_follow_from_others_are_written_and_not_only_told() {
    for kind in KINDS {
        let before = whole(kind, 7);
        for (field, value) in [(0xd0, 0x80_u32), (0x240, 7), (8, 6000), (INODES_PER_GROUP, 64)] {
            let image = image(kind, 7);
            let is = image.word(1024 + field);
            image.put_superblock(field, &(is + value).to_le_bytes(), true);
            kept(&image, &before, &format!("{kind:?}, {field:#x} was {is}"));
            assert!(field != INODES_PER_GROUP || image.word(1024 + field) == is, "{kind:?}");
        }
    }
}

/// A journal in an inode with a name, as tune2fs makes it on a mounted file system. Its blocks are not those of two files.
#[test]
fn a_journal_in_a_named_file_stays_where_it_is() {
    let (name, options) = KINDS[2];
    let image = Edited::made(name, options, Bytes::mib(7), fill);
    let [ino, one, other] = image.mounted(|fs| {
        [file(fs, ".journal", b"").0, file(fs, "one", &[1; 3000]).0, file(fs, "other", &[2; 3000]).0]
    });
    let (old, new) = (image.inode(JOURNAL_INO), image.inode(ino));
    let len = usize::from(image.half(1024 + INODE_SIZE));
    let inode = image.bytes(old, len);
    image.put(new, &inode);
    image.put(old, &vec![0; len]);
    image.put_superblock(JOURNAL_INUM, &(ino as u32).to_le_bytes(), true);
    image.put_superblock(JOURNAL_BACKUP_TYPE, &[0], true);
    assert_eq!(image.violations(), Vec::<String>::new(), "a mount takes it");
    image.change_descriptor(FREE_BLOCKS, 5);
    // Two others share their blocks, of which one gets copies.
    image.put(image.inode(other), &image.bytes(image.inode(one), len));
    let before = image.files();
    kept(&image, &before, "a wrong count of free blocks");
    assert_eq!(image.bytes(new, len)[MAP], inode[MAP]);
    assert_eq!(u64::from(image.word(1024 + JOURNAL_INUM)), ino);
}
