//! Attributes of inodes that have fewer fields than today's (`i_extra_isize` below 32), as Linux before 4.5 made them.

use sim::Bytes;
use vfs::XattrMode::{Create, Set};
use vfs::{FileSystem, Ino};

use crate::ext4::edited::{Edited, file};

const GIVEN: [(&str, &str); 3] = [("block_size", "1k"), ("journal", "0"), ("metadata_csum", "false")];
const MAGIC: u32 = 0xea02_0000;

/// An image with a file that has an attribute in its inode, behind `fields` bytes of extra ones; its number.
fn with_old_inode(fields: u16) -> (Edited, Ino) {
    let image = Edited::made("ext4", &GIVEN, Bytes::mib(8), |fs| {
        let ino = file(fs, "f", b"hi");
        fs.setxattr(ino, b"user.a", b"one", Set).expect("setxattr");
    });
    let ino = image.mounted(|fs| fs.lookup(fs.root(), b"f").expect("the file").ino);
    let at = image.inode(ino.0);
    assert_eq!((image.half(at + 0x80), image.word(at + 160)), (32, MAGIC));
    let (attributes, end) = (image.bytes(at + 160, 96), 128 + usize::from(fields));
    image.put(at + 0x80, &fields.to_le_bytes());
    // Entries count the places of values from the first of them, so all moves together.
    image.put(at + end as u64, &attributes);
    image.put(at + end as u64 + 96, &vec![0; 256 - end - 96]);
    (image, ino)
}

fn names(fs: &dyn FileSystem, ino: Ino) -> Vec<String> {
    let list = fs.listxattr(ino).expect("listxattr");
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn attributes_of_an_inode_with_fewer_fields_are_seen_changed_and_not_doubled() {
    for fields in [4, 16, 24, 28] {
        let (image, ino) = with_old_inode(fields);
        assert_eq!(image.violations(), Vec::<String>::new(), "{fields}");
        image.mounted(move |fs| {
            assert_eq!(names(fs, ino), ["user.a"], "{fields}");
            assert_eq!(fs.getxattr(ino, b"user.a").as_deref(), Ok(&b"one"[..]), "{fields}");
            fs.setxattr(ino, b"user.a", b"two", Create).expect_err("it exists");
            fs.setxattr(ino, b"user.a", b"two", Set).expect("setxattr");
            fs.setxattr(ino, b"user.large", &[9; 200], Set).expect("setxattr");
        });
        image.mounted(move |fs| {
            assert_eq!(names(fs, ino), ["user.a", "user.large"], "{fields}");
            assert_eq!(fs.getxattr(ino, b"user.a").as_deref(), Ok(&b"two"[..]), "{fields}");
        });
        let at = image.inode(ino.0);
        assert_eq!(image.half(at + 0x80), fields, "the inode keeps the fields that it has");
        assert_eq!(image.word(at + 128 + u64::from(fields)), MAGIC, "{fields}");
        assert_eq!(image.violations(), Vec::<String>::new(), "{fields}");
    }
}

#[test]
fn a_repair_keeps_attributes_of_an_inode_with_fewer_fields() {
    let (image, ino) = with_old_inode(28);
    image.put(1024 + 0x0c, &7_u32.to_le_bytes());
    image.repair();
    image.mounted(move |fs| assert_eq!(fs.getxattr(ino, b"user.a").as_deref(), Ok(&b"one"[..])));
    assert_eq!(image.violations(), Vec::<String>::new());
}

#[test]
fn an_inode_that_has_not_used_its_space_gets_all_fields_with_its_first_attribute() {
    let (image, ino) = with_old_inode(28);
    let at = image.inode(ino.0);
    image.put(at + 0x80, &[0; 128]);
    image.mounted(move |fs| {
        assert_eq!(names(fs, ino), Vec::<String>::new());
        fs.setxattr(ino, b"user.b", b"new", Set).expect("setxattr");
    });
    assert_eq!((image.half(at + 0x80), image.word(at + 160)), (32, MAGIC));
    image.mounted(move |fs| assert_eq!(names(fs, ino), ["user.b"]));
    assert_eq!(image.violations(), Vec::<String>::new());
}
