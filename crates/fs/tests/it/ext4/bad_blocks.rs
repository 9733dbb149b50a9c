//! The bad-block inode: what it lists is in use, and nothing is ever put there.

use sim::Bytes;

use crate::ext4::edited::{Edited, file};

const BAD: [u32; 3] = [3000, 3001, 3002];
const PATTERN: [u8; 1024] = [0xb5; 1024];

/// An image whose inode 1 lists three blocks, which the bitmap has as free.
fn with_bad_blocks(name: &str, given: &[(&str, &str)]) -> Edited {
    let image = Edited::made(name, given, Bytes::mib(8), |fs| {
        file(fs, "file", &[1; 5000]);
    });
    let bytes: Vec<u8> = BAD.iter().flat_map(|block| block.to_le_bytes()).collect();
    image.put(image.inode(1) + 0x28, &bytes);
    for block in BAD {
        image.put(u64::from(block) * 1024, &PATTERN);
    }
    image
}

const IMAGES: [(&str, &[(&str, &str)]); 2] = [
    ("ext2", &[("block_size", "1k")]),
    ("ext4", &[("block_size", "1k"), ("journal", "0"), ("metadata_csum", "false")]),
];

fn untouched(image: &Edited) -> bool {
    BAD.iter().all(|block| image.bytes(u64::from(*block) * 1024, 1024) == PATTERN)
}

/// Fills the file system.
fn fill(image: &Edited) {
    image.mounted(|fs| {
        let ino = fs.create(fs.root(), b"filler", &check::NEW).expect("create").ino;
        let mut at = 0;
        while let Ok(written) = fs.write(ino, at, &vec![7; 64 << 10], vfs::IoFlags::empty()) {
            at += written.bytes as u64;
            if written.bytes < 64 << 10 {
                break;
            }
        }
        assert!(at > 4 << 20, "{at} bytes fit");
    });
}

#[test]
fn blocks_that_the_medium_cannot_use_are_in_use_after_a_repair_and_never_given_out() {
    for (name, given) in IMAGES {
        let image = with_bad_blocks(name, given);
        let found = image.violations();
        assert!(
            found.iter().any(|what| what.contains("block 3000 is free in the bitmap")),
            "{name}: {found:?}"
        );
        image.repair();
        assert_eq!(image.violations(), Vec::<String>::new(), "{name}");
        fill(&image);
        assert!(untouched(&image), "{name}: a file lies on a bad block");
        assert_eq!(image.violations(), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_mount_of_an_unclean_image_puts_nothing_on_a_bad_block() {
    for (name, given) in IMAGES {
        let image = with_bad_blocks(name, given);
        image.leave_unclean();
        fill(&image);
        assert!(untouched(&image), "{name}: a file lies on a bad block");
    }
}

#[test]
fn pointers_of_the_list_of_bad_blocks_that_lead_nowhere_are_dropped() {
    let (name, given) = IMAGES[0];
    let image = with_bad_blocks(name, given);
    image.put(image.inode(1) + 0x28 + 12, &900_000_u32.to_le_bytes());
    assert!(image.violations().iter().any(|what| what.contains("bad blocks")));
    image.repair();
    assert_eq!(image.violations(), Vec::<String>::new());
    assert_eq!(image.word(image.inode(1) + 0x28 + 8), BAD[2]);
    assert_eq!(image.word(image.inode(1) + 0x28 + 12), 0);
}
