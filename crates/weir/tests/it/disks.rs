//! Images of disks with partitions: which part a command takes, and what it says where none is chosen.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::shared::place::{Place, stderr, weir};

const MIB: usize = 1 << 20;
/// Where the partition begins: at no page.
const START: usize = 2049 * 512;

fn run(arguments: &[&str], path: &Path) -> Output {
    weir().args(arguments).arg(path).output().expect("weir runs")
}

fn said(arguments: &[&str], path: &Path) -> String {
    let output = run(arguments, path);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// The image of a disk whose second partition is an ext4 file system, and that file system alone.
fn disk(place: &Place) -> (Vec<u8>, Vec<u8>) {
    let made =
        weir().args(["mkfs", "ext4", "--size", "32MiB"]).arg(place.pool()).output().expect("weir runs");
    assert!(made.status.success(), "{}", stderr(&made));
    let part = fs::read(place.pool()).expect("the image");
    let mut disk = vec![0; START + part.len() + MIB];
    let entries = [(0x0C_u8, 1_u32, 2048_u32), (0x83, (START / 512) as u32, (part.len() / 512) as u32)];
    for (slot, (kind, start, len)) in entries.into_iter().enumerate() {
        let at = 446 + slot * 16;
        disk[at + 4] = kind;
        disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&len.to_le_bytes());
    }
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk[START..START + part.len()].copy_from_slice(&part);
    (disk, part)
}

#[test]
fn a_partition_of_a_disk_is_checked_measured_and_shown_as_the_file_system_alone() {
    let place = Place::new("ext4");
    let (disk, part) = disk(&place);
    let alone = place.pool();
    let image = place.folder.path().join("disk.img");
    fs::write(&image, &disk).unwrap();
    for choice in [["--partition", "2"], ["--offset", "1049088"]] {
        let same = |arguments: &[&str], with: &[&str]| {
            let chosen = said(&[arguments, &choice, with].concat(), &image);
            assert_eq!(
                chosen.replace("disk.img", "pool"),
                said(&[arguments, with].concat(), &alone).replace("pool.weir", "pool")
            );
        };
        same(&["fsck"], &[]);
        same(&["fsck", "--repair"], &[]);
        same(&["df", "--json"], &[]);
        let dumped = |path: &Path, choice: &[&str]| {
            let output =
                weir().arg("dump").args(choice).arg(path).arg("superblock").output().expect("weir runs");
            assert!(output.status.success(), "{}", stderr(&output));
            output.stdout
        };
        assert_eq!(dumped(&image, &choice), dumped(&alone, &[]));
    }
    // A repair stays in the partition.
    let mut damaged = disk.clone();
    // Free blocks at the end are marked as used in the bitmap that the first descriptor names.
    let number = <[u8; 4]>::try_from(&part[4096..4100]).expect("four bytes");
    damaged[START + u32::from_le_bytes(number) as usize * 4096 + 1000] = 0xFF;
    fs::write(&image, &damaged).unwrap();
    assert_eq!(run(&["fsck", "--partition", "2"], &image).status.code(), Some(5));
    assert_eq!(run(&["fsck", "--partition", "2", "--repair"], &image).status.code(), Some(1));
    let after = fs::read(&image).unwrap();
    assert!(after[..START] == disk[..START] && after[START + part.len()..] == disk[START + part.len()..]);
    said(&["fsck", "--partition", "2"], &image);
}

#[test]
fn the_image_of_a_disk_is_told_from_a_pool_and_its_partitions_are_listed() {
    let place = Place::new("ext4");
    let (mut disk, _) = disk(&place);
    let image = place.folder.path().join("disk.img");
    fs::write(&image, &disk).unwrap();
    let refused = |arguments: &[&str], code, words: &[&str]| {
        let output = run(arguments, &image);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
        }
        assert!(!stderr(&output).contains("--force"), "{arguments:?}: {}", stderr(&output));
    };
    let list = "1 (1 MiB, type 0x0c), 2 (32 MiB, type 0x83)";
    for command in ["fsck", "df"] {
        refused(&[command], 2, &["the image of a disk", "--partition N", list]);
        refused(&[command, "--partition", "3"], 2, &["no partition 3", list]);
        refused(&[command, "--offset", "1TiB"], 2, &["begins at byte"]);
        refused(&[command, "--offset", "100", "--fs", "ext4"], 2, &["a multiple of 512"]);
        refused(&[command, "--offset", "1536", "--fs", "pmfs"], 2, &["a multiple of 4096"]);
    }
    refused(&["fsck", "--fs", "ext4"], 2, &["the image of a disk", list]);
    disk[446 + 16 + 15] = 1;
    fs::write(&image, &disk).unwrap();
    refused(&["fsck", "--partition", "2"], 5, &["the partition table is damaged", "cut short"]);
    refused(&["df", "--partition", "1"], 5, &["the partition table is damaged"]);
    fs::write(&image, vec![0; MIB]).unwrap();
    refused(&["fsck", "--partition", "1"], 2, &["has no partition table"]);
}

#[test]
fn advice_about_a_damaged_image_loses_nothing() {
    let place = Place::new("ext4");
    let (_, mut part) = disk(&place);
    // The descriptor of the first group.
    part[4096..4128].fill(0xA5);
    fs::write(place.pool(), &part).unwrap();
    for command in ["df", "fsck"] {
        let told = stderr(&run(&[command], &place.pool()));
        assert!(!told.contains("mkfs"), "{command}: {told}");
    }
    let told = stderr(&run(&["df"], &place.pool()));
    for word in ["copy the file first", "weir fsck --repair", "e2fsck"] {
        assert!(told.contains(word), "{told}");
    }
}
