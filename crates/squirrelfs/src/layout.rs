//! The format. All numbers are little endian; a free inode, descriptor or dentry is all zero.
//!
//! ```text
//! page 0      superblock
//! page 1 …    inode table: 96 bytes each, number 0 is not used, 1 is the root
//! then        page descriptors: 32 bytes each, from a page boundary on
//! then        pages of 4096 bytes, of contents or of names
//! ```

use sim::{Bytes, MIB};
use vfs::{FileKind, Owner, Timestamp};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The magic number of the published code.
pub(crate) const MAGIC: u64 = 0x00fe_dcba;
pub(crate) const PAGE: u64 = 4096;
/// The root directory.
pub(crate) const ROOT: u64 = 1;
/// Longest name in bytes: a zero byte follows it.
pub(crate) const NAME_MAX: usize = 109;
/// Longest target of a symbolic link in bytes, which lies in one page.
pub(crate) const TARGET_MAX: usize = PAGE as usize - 1;
/// Links of an inode, at most.
pub(crate) const LINKS_MAX: u16 = u16::MAX;
/// Largest file in bytes: sizes and numbers of pages stay far from the end of 64 bits.
pub(crate) const FILE_MAX: u64 = 1 << 60;

pub(crate) const INODE_BYTES: u64 = size_of::<RawInode>() as u64;
pub(crate) const DESCRIPTOR_BYTES: u64 = size_of::<RawDescriptor>() as u64;
pub(crate) const DENTRY_BYTES: u64 = size_of::<RawDentry>() as u64;

const _: () = assert!(INODE_BYTES == 96 && DESCRIPTOR_BYTES == 32 && DENTRY_BYTES == 128);

/// At offset 0.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Superblock {
    pub(crate) magic: u64,
    pub(crate) page_bytes: u64,
    /// Bytes of the image.
    pub(crate) size: u64,
    /// 1 after an unmount, 0 while mounted. Changed by one store.
    pub(crate) clean: u64,
    /// Slots of the inode table.
    pub(crate) inodes: u64,
}

/// Offset of [`Superblock::clean`].
pub(crate) const CLEAN: u64 = 24;

/// Kinds of [`RawInode::kind`].
pub(crate) const FILE: u32 = 1;
pub(crate) const DIRECTORY: u32 = 2;
pub(crate) const SYMLINK: u32 = 3;

/// An inode on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawInode {
    /// Its kind: 0 free, 1 a file, 2 a directory, 3 a symbolic link.
    pub kind: u32,
    /// Links.
    pub links: u16,
    /// Permission bits.
    pub mode: u16,
    /// User in the lower half, group in the upper.
    pub owner: u64,
    /// Last change of attributes.
    pub ctime: u64,
    /// Not used.
    pub pad: [u64; 5],
    /// Last access.
    pub atime: u64,
    /// Last change of contents.
    pub mtime: u64,
    /// Bytes of the contents.
    pub size: u64,
    /// Its own number.
    pub ino: u64,
}

/// Offsets in [`RawInode`].
pub(crate) mod ino {
    pub(crate) const CTIME: u64 = 16;
    /// Access and modification: one store of two words. In the line of the size.
    pub(crate) const TIMES: u64 = 64;
    pub(crate) const SIZE: u64 = 80;
}

/// Uses of a page: values of [`RawDescriptor::kind`].
pub(crate) const NAMES: u64 = 1;
pub(crate) const CONTENTS: u64 = 2;

/// Whose a page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawDescriptor {
    pub(crate) kind: u64,
    /// The inode that has it; 0: none.
    pub(crate) owner: u64,
    /// The byte of the file with which it begins.
    pub(crate) offset: u64,
    pub(crate) pad: u64,
}

/// Offsets in [`RawDescriptor`].
pub(crate) mod descriptor {
    pub(crate) const OWNER: u64 = 8;
    pub(crate) const OFFSET: u64 = 16;
}

/// A name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawDentry {
    pub(crate) is_dir: u16,
    pub(crate) name: [u8; NAME_MAX + 1],
    /// The inode that it leads to; 0: none.
    pub(crate) ino: u64,
    /// During a rename, where the dentry lies whose place it takes.
    pub(crate) source: u64,
}

/// Offsets in [`RawDentry`].
pub(crate) mod dentry {
    pub(crate) const INO: u64 = 112;
    pub(crate) const SOURCE: u64 = 120;
}

impl RawDentry {
    /// All zero: no name.
    pub(crate) const FREE: Self = Self { is_dir: 0, name: [0; NAME_MAX + 1], ino: 0, source: 0 };

    /// Its name, which ends at the first zero byte.
    pub(crate) fn name(&self) -> &[u8] {
        let len = self.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_MAX);
        &self.name[..len]
    }

    /// Whether the name is one that a caller can have given.
    pub(crate) fn name_is_sound(&self) -> bool {
        let name = self.name();
        let ends = self.name[name.len()..].iter().all(|byte| *byte == 0);
        ends && !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b".."
    }
}

impl RawInode {
    /// The file's kind; none for a kind that the format does not have.
    pub(crate) fn file_kind(&self) -> Option<FileKind> {
        match self.kind {
            FILE => Some(FileKind::Regular),
            DIRECTORY => Some(FileKind::Directory),
            SYMLINK => Some(FileKind::Symlink),
            _ => None,
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.kind == 0
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == DIRECTORY
    }

    /// Pages that the contents need.
    pub(crate) fn pages(&self) -> u64 {
        self.size.div_ceil(PAGE)
    }

    pub(crate) fn user(&self) -> Owner {
        Owner { uid: self.owner as u32, gid: (self.owner >> 32) as u32 }
    }
}

/// User and group in one word.
pub(crate) fn owner_word(owner: Owner) -> u64 {
    u64::from(owner.uid) | u64::from(owner.gid) << 32
}

const NANOS_BITS: u32 = 30;
/// Seconds that a time can have, before or after 1970: 34 bits with the sign.
const SECS_MAX: i64 = (1 << 33) - 1;

/// A time in one word: 34 bits of seconds and 30 of nanoseconds. Seconds beyond the years 1697 to 2242 become the nearest that fit.
pub(crate) fn time_word(time: Timestamp) -> u64 {
    let secs = time.secs.clamp(-SECS_MAX - 1, SECS_MAX);
    secs.cast_unsigned() << NANOS_BITS | u64::from(time.nanos)
}

/// The time in a word.
pub(crate) fn time_of(word: u64) -> Timestamp {
    let nanos = (word & ((1 << NANOS_BITS) - 1)) as u32;
    Timestamp { secs: word.cast_signed() >> NANOS_BITS, nanos }
}

/// Whether a word holds a time: its fraction is less than a second.
pub(crate) fn is_time(word: u64) -> bool {
    time_of(word).nanos < 1_000_000_000
}

/// Where the regions of an image lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Slots of the inode table.
    pub(crate) inodes: u64,
    /// Where the first descriptor lies.
    pub(crate) descriptors: u64,
    /// Where the first page lies.
    pub(crate) first_page: u64,
    /// Pages.
    pub(crate) pages: u64,
}

impl Layout {
    /// The layout of an image of `size` bytes with so many inodes; none where it has no room for a page.
    pub(crate) fn new(size: u64, inodes: u64) -> Option<Self> {
        let table = inodes.checked_mul(INODE_BYTES)?.checked_next_multiple_of(PAGE)?;
        let descriptors = PAGE.checked_add(table)?;
        let rest = size.checked_sub(descriptors)?;
        let mut pages = rest / (PAGE + DESCRIPTOR_BYTES);
        let places = |pages: u64| descriptors + (pages * DESCRIPTOR_BYTES).next_multiple_of(PAGE);
        while pages > 0 && places(pages) + pages * PAGE > size {
            pages -= 1;
        }
        (inodes > ROOT && pages > 0).then(|| Self { inodes, descriptors, first_page: places(pages), pages })
    }

    /// The slots that a device of `size` bytes gets with one for so many bytes. A small one gets more, so that it can be used: one
    /// for each four pages, up to 4096.
    pub(crate) fn inodes_for(size: u64, bytes_per_inode: u64) -> u64 {
        (size / bytes_per_inode.max(1)).max((size / (4 * PAGE)).min(FEWEST_INODES))
    }

    /// Where an inode lies.
    pub(crate) fn inode(number: u64) -> u64 {
        PAGE + number * INODE_BYTES
    }

    /// Where the descriptor of a page lies.
    pub(crate) fn descriptor(&self, page: u64) -> u64 {
        self.descriptors + page * DESCRIPTOR_BYTES
    }

    /// Where a page lies.
    pub(crate) fn page(&self, page: u64) -> u64 {
        self.first_page + page * PAGE
    }
}

/// Slots of the inode table, at least, where there are four pages for each.
const FEWEST_INODES: u64 = 4096;
/// The smallest image: sparse files take all of their space.
pub(crate) const MIN_SIZE: Bytes = Bytes(4 * MIB);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_and_no_page_lies_beyond_the_end() {
        for size in [1 << 20, (1 << 20) + 12_345, MIN_SIZE.0, MIN_SIZE.0 + 4096, 1 << 30] {
            for each in [2048, 32 << 10] {
                let layout = Layout::new(size, Layout::inodes_for(size, each)).expect("room for a page");
                assert!(Layout::inode(layout.inodes) <= layout.descriptors);
                assert!(layout.descriptor(layout.pages) <= layout.first_page);
                assert!(
                    layout.page(layout.pages) <= size && layout.page(layout.pages) + 2 * PAGE > size - PAGE
                );
            }
        }
        assert_eq!(Layout::new(1 << 20, u64::MAX), None);
    }

    #[test]
    fn a_time_comes_back_from_its_word() {
        for (secs, nanos) in
            [(0, 0), (-1, 999_999_999), (1 << 32, 123), (1 - (1 << 31), 7), (5_000_000_000, 1)]
        {
            let time = Timestamp { secs, nanos };
            assert_eq!(time_of(time_word(time)), time);
        }
        assert_eq!(time_of(time_word(Timestamp { secs: i64::MAX, nanos: 5 })).secs, SECS_MAX);
    }
}
