//! Images whose bytes a test edits where e2fsprogs is not there to do it: places by the format, checksums as they should be.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::configured::virtually;
use check::{NEW, observe};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, Ino, IoFlags};

use crate::ext4::{Judged, judged};

/// Offset of `s_state`, and of the checksum of a descriptor.
const STATE: u64 = 0x3a;
const DESCRIPTOR_CHECKSUM: usize = 0x1e;
/// Offset of `bg_flags` and `bg_itable_unused` in a descriptor.
pub(crate) const GROUP_FLAGS: usize = 0x12;
pub(crate) const UNUSED_INODES: usize = 0x1c;

/// An image of one group.
pub(crate) struct Edited {
    pub region: Arc<Region>,
    pub design: Arc<Judged>,
}

impl Edited {
    /// A new image with what `fill` puts into it.
    pub(crate) fn made(
        name: &str,
        given: &[(&str, &str)],
        size: Bytes,
        fill: impl Fn(&dyn FileSystem) + Send + 'static,
    ) -> Self {
        let design = Arc::new(judged(name, given));
        let region = check::configured::region(size);
        design.mkfs(&region).expect("room");
        let edited = Self { region, design };
        edited.mounted(move |fs| fill(fs));
        edited
    }

    /// What `work` answers on the mounted image.
    pub(crate) fn mounted<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn FileSystem) -> R + Send + 'static,
    ) -> R {
        let (region, design) = (Arc::clone(&self.region), Arc::clone(&self.design));
        virtually(1, move || {
            let fs = design.mount(&region).expect("mount");
            let answer = work(&*fs);
            fs.unmount().expect("unmount");
            answer
        })
    }

    /// Every path with what `shown` makes of its contents.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        self.mounted(|fs| {
            let tree = check::tree::without_times(observe(fs).expect("a sound tree"));
            tree.iter()
                .map(|(path, entry)| (path.clone(), format!("{:?} {:?}", entry.xattrs, entry.content)))
                .collect()
        })
    }

    /// Repairs, as a person asks for it.
    pub(crate) fn repair(&self) -> Vec<String> {
        let (region, design) = (Arc::clone(&self.region), Arc::clone(&self.design));
        virtually(2, move || {
            design.recover(&region).expect("recovery");
            design.repair(&region).expect("a repair")
        })
    }

    /// The same, of an image that no recovery may take; why not, where it was refused.
    pub(crate) fn repair_damaged(&self) -> Result<Vec<String>, String> {
        let (region, design) = (Arc::clone(&self.region), Arc::clone(&self.design));
        virtually(2, move || {
            let _ = design.recover(&region);
            design.repair(&region)
        })
    }

    /// Changes the superblock; `sealed`: its checksum is made right.
    pub(crate) fn put_superblock(&self, at: u64, bytes: &[u8], sealed: bool) {
        self.put(1024 + at, bytes);
        if sealed && self.word(1024 + 0x64) & 0x400 != 0 {
            let checksum = !crc32c::crc32c_append(0, &self.bytes(1024, 1020));
            self.put(1024 + 1020, &checksum.to_le_bytes());
        }
    }

    /// What our fsck finds.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.design.own_violations(&self.region)
    }

    pub(crate) fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.region.peek(at, &mut bytes).expect("inside");
        bytes
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        self.region.store(at, bytes).expect("inside");
    }

    pub(crate) fn half(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.bytes(at, 2).try_into().expect("two bytes"))
    }

    pub(crate) fn word(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.bytes(at, 4).try_into().expect("four bytes"))
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        1024 << self.word(1024 + 0x18)
    }

    /// Where the descriptor of the first group lies.
    pub(crate) fn descriptor(&self) -> u64 {
        (u64::from(self.word(1024 + 0x14)) + 1) * self.block_bytes()
    }

    pub(crate) fn descriptor_bytes(&self) -> usize {
        if self.word(1024 + 0x60) & 0x80 != 0 { usize::from(self.half(1024 + 0xfe)) } else { 32 }
    }

    /// Changes the descriptor of the first group, and makes its checksum right.
    pub(crate) fn change_descriptor(&self, at: usize, value: u16) {
        let mut bytes = self.bytes(self.descriptor(), self.descriptor_bytes());
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        if self.word(1024 + 0x64) & 0x400 != 0 {
            bytes[DESCRIPTOR_CHECKSUM..DESCRIPTOR_CHECKSUM + 2].fill(0);
            let seed = crc32c::crc32c_append(0, &self.bytes(1024 + 0x68, 16));
            let checksum = !crc32c::crc32c_append(crc32c::crc32c_append(seed, &[0; 4]), &bytes);
            bytes[DESCRIPTOR_CHECKSUM..DESCRIPTOR_CHECKSUM + 2]
                .copy_from_slice(&(checksum as u16).to_le_bytes());
        }
        self.put(self.descriptor(), &bytes);
    }

    /// The image says that it was not unmounted.
    pub(crate) fn leave_unclean(&self) {
        self.put_superblock(STATE, &[0, 0], true);
    }

    /// Where an inode lies.
    pub(crate) fn inode(&self, ino: u64) -> u64 {
        let table = u64::from(self.word(self.descriptor() + 8)) * self.block_bytes();
        table + (ino - 1) * u64::from(self.half(1024 + 0x58))
    }
}

/// Makes a file with contents in the root.
pub(crate) fn file(fs: &dyn FileSystem, name: &str, contents: &[u8]) -> Ino {
    let ino = fs.create(fs.root(), name.as_bytes(), &NEW).expect("create").ino;
    fs.write(ino, 0, contents, IoFlags::empty()).expect("write");
    ino
}
