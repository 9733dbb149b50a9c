//! Maps in which one number is wrong: of a file no more is lost than what it says itself, and of a journal no file.

use std::sync::Arc;

use check::configured::virtually;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Ino, IoFlags};

use crate::ext4::edited::{Edited, file};
use crate::ext4::judged;
use crate::ext4::kernel_images::{copy, fill, made_by_mkfs, shown};
use crate::ext4::tools::{e2fsck, has_e2fsck};

const PIECES: u64 = 120;
/// A piece, and where the next one begins.
const PIECE_BYTES: usize = 2048;
const STEP_BYTES: u64 = 4096;

/// An image with a file of so many extents that its tree has two leaves.
fn in_pieces() -> (Edited, Ino) {
    let given = [("block_size", "1k"), ("journal", "1MiB"), ("metadata_csum", "false")];
    let image = Edited::made("ext4", &given, Bytes::mib(8), |fs| {
        let ino = file(fs, "pieces", &[]);
        for piece in 0..PIECES {
            fs.write(ino, piece * STEP_BYTES, &[piece as u8 + 1; PIECE_BYTES], IoFlags::empty())
                .expect("write");
        }
    });
    let ino = image.mounted(|fs| fs.lookup(fs.root(), b"pieces").expect("it is there").ino);
    (image, ino)
}

/// The pieces that the file has not any more.
fn lost_pieces(image: &Edited, ino: Ino) -> Vec<u64> {
    image.mounted(move |fs| {
        let is_there = |piece: &u64| {
            let mut bytes = vec![0; PIECE_BYTES];
            let read = fs.read(ino, piece * STEP_BYTES, &mut bytes, IoFlags::empty()).expect("read");
            read == PIECE_BYTES && bytes.iter().all(|byte| u64::from(*byte) == piece + 1)
        };
        (0..PIECES).filter(|piece| !is_there(piece)).collect()
    })
}

#[test]
fn a_wrong_number_in_a_tree_of_extents_costs_no_other_extent() {
    // Of an entry of a leaf: its leaf, its number (or that from the end), offset, and the bits that are wrong.
    let entries: [(&str, u64, i64, u64, u32, bool); 6] = [
        ("a key that is too large", 0, 5, 0, 0x10_0000, true),
        ("a first key that is too large", 1, 0, 0, 0x10_0000, true),
        ("a key that is too small", 0, 40, 0, 0x80, true),
        ("a length that is too large", 0, 5, 4, 0x200, false),
        ("a last length that is too large", 0, -1, 4, 0x400, false),
        ("a first length that is too large", 1, 0, 4, 0x400, false),
    ];
    for (what, leaf, number, offset, bits, takes) in entries {
        let (image, ino) = in_pieces();
        let root = image.inode(ino.0) + 0x28;
        assert_eq!(image.word(root + 4) >> 16, 1, "a tree of two levels");
        let node = u64::from(image.word(root + 12 + 12 * leaf + 4)) * 1024;
        let entries = i64::from(image.half(node + 2));
        let entry = node + 12 + 12 * number.rem_euclid(entries) as u64;
        let piece = u64::from(image.word(entry)) / (STEP_BYTES / 1024);
        image.put(entry + offset, &(image.word(entry + offset) ^ bits).to_le_bytes());
        let lost: Vec<u64> = takes.then_some(piece).into_iter().collect();
        judge(&image, ino, what, &lost);
    }
    // The depth of a node.
    for depth in [8, 1, 0xffff] {
        let (image, ino) = in_pieces();
        let node = u64::from(image.word(image.inode(ino.0) + 0x28 + 12 + 4)) * 1024;
        image.put(node + 6, &[depth as u8, (depth >> 8) as u8]);
        judge(&image, ino, &format!("a leaf of depth {depth}"), &[]);
    }
}

fn judge(image: &Edited, ino: Ino, what: &str, lost: &[u64]) {
    assert_ne!(image.violations(), Vec::<String>::new(), "{what}");
    let done = image.repair();
    assert_eq!(image.violations(), Vec::<String>::new(), "{what}: {done:?}");
    assert_eq!(lost_pieces(image, ino), lost, "{what}: {done:?}");
    if has_e2fsck() {
        assert_eq!(e2fsck(&image.region), Ok(()), "{what}: {done:?}");
    }
}

fn word(region: &Region, at: u64) -> u32 {
    let mut bytes = [0; 4];
    region.peek(at, &mut bytes).expect("inside");
    u32::from_le_bytes(bytes)
}

/// Where the pointer to a block of pointers, by its slot, lies in the inode of the journal.
fn of_journal(region: &Region, slot: u64) -> u64 {
    // A block of 1 KiB for the superblock, then the descriptors.
    let table = u64::from(word(region, 2048 + 8)) * 1024;
    table + 7 * u64::from(word(region, 1024 + 0x58) & 0xffff) + 0x28 + slot * 4
}

/// An image whose journal has pointers: 12 in the inode, a block of them, and three below another one.
fn with_pointers() -> Arc<Region> {
    let region = made_by_mkfs(&["-t", "ext3", "-b", "1024", "-J", "size=1"], 8);
    let filled = Arc::clone(&region);
    virtually(1, move || {
        let fs = judged("ext4", &[]).mount(&filled).expect("mount");
        fill(&*fs);
        fs.unmount().expect("unmount");
    });
    region
}

fn kept_after_repair(region: &Arc<Region>, what: &str) {
    let before = shown(&with_pointers());
    let damaged = Arc::clone(region);
    let done = virtually(2, move || {
        let design = judged("ext4", &[]);
        let _ = design.recover(&damaged);
        design.repair(&damaged)
    });
    let done = done.unwrap_or_else(|why| panic!("{what}: {why}"));
    assert_eq!(judged("ext4", &[]).fsck(region), Vec::<String>::new(), "{what}: {done:?}");
    assert_eq!(check::difference(&shown(region), &before), None, "{what}: {done:?}");
}

#[test]
fn no_mount_writes_the_log_over_metadata() {
    if !has_e2fsck() {
        return;
    }
    // The inode table, the bitmap of inodes, the descriptors, and what is kept behind them.
    let places: [fn(&Region) -> u32; 4] =
        [|region| word(region, 2048 + 8) + 3, |region| word(region, 2048 + 4), |_| 2, |_| 4];
    for place in places {
        let region = with_pointers();
        let block = place(&region);
        let table = u64::from(word(&region, of_journal(&region, 12))) * 1024;
        region.store(table + 23 * 4, &block.to_le_bytes()).expect("inside");
        let refused = copy(&region);
        let said = virtually(1, move || judged("ext4", &[]).mount(&refused)).err().unwrap_or_default();
        assert!(said.contains(&format!("block {block} of the journal lies in metadata")), "{block}: {said}");
        kept_after_repair(&region, &format!("the log is to lie over block {block}"));
    }
}

/// The last extent of the journal leads to the inode table; the superblock has a copy of the map.
#[test]
fn a_journal_of_extents_over_metadata_is_refused_and_restored() {
    let given = [("block_size", "1k"), ("journal", "1MiB"), ("metadata_csum", "false")];
    let image = Edited::made("ext4", &given, Bytes::mib(8), |fs| {
        file(fs, "kept", &[7; 9000]);
    });
    let before = image.files();
    let map = image.inode(8) + 0x28;
    let last = map + 12 * u64::from(image.half(map + 2));
    let block = image.word(image.descriptor() + 8);
    image.put(last + 8, &block.to_le_bytes());
    let region = Arc::clone(&image.region);
    let said = virtually(1, move || judged("ext4", &[]).mount(&region)).err().unwrap_or_default();
    assert!(said.contains("of the journal lies in metadata"), "{said}");
    let done = image.repair_damaged().expect("a repair");
    assert_eq!(image.violations(), Vec::<String>::new(), "{done:?}");
    assert_eq!(image.files(), before, "{done:?}");
}

#[test]
fn a_journal_with_wrong_pointers_behind_its_end_is_repaired() {
    if !has_e2fsck() {
        return;
    }
    // By the slot in the block that leads to the others; none: in the last of those.
    for (slot, index, block) in
        [(None, 200, 0xa4f9_2b6b_u32), (None, 200, 1500), (Some(2), 250, 1500), (Some(2), 250, 0xa4f9_2b6b)]
    {
        let region = with_pointers();
        let mut table = u64::from(word(&region, of_journal(&region, 13))) * 1024;
        if let Some(slot) = slot {
            table = u64::from(word(&region, table + slot * 4)) * 1024;
        }
        assert_eq!(word(&region, table + index * 4), 0, "it is behind the end");
        region.store(table + index * 4, &block.to_le_bytes()).expect("inside");
        assert_ne!(judged("ext4", &[]).own_violations(&region), Vec::<String>::new(), "{block}");
        kept_after_repair(&region, &format!("block {block} in {slot:?}, {index}"));
    }
}
