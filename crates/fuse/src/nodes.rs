//! Which inodes the kernel knows.
//!
//! The kernel refers to inodes by number, from the first reply that names one until it forgets it. An inode that it knows is
//! open in the design ([`vfs::FileSystem::open`]): its number is not given to another file, and after its last name has gone
//! it stays usable until it is forgotten.
//!
//! ```text
//!   unknown ──first lookup: open──► known (n) ──lookup──► known (n + 1)
//!      ▲                               │
//!      └──────release, when n is 0◄────┴──forget k──► known (n − k)
//! ```
//!
//! The kernel holds the lock of a directory over every change of its names, so between a design's answer to a lookup and the open
//! here no call can remove the last name of the inode.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use vfs::{FileSystem, Ino, OpenFlags, Result};

const SHARDS: usize = 64;

/// What is kept of an inode that the kernel knows.
#[derive(Debug, Default)]
struct Node {
    lookups: u64,
    /// Its access time is later than every change that went through this mount.
    accessed: bool,
    /// Descriptors that let a program store through a shared map: those for reading and writing. The kernel releases one when its
    /// maps have gone as well, and have been written.
    mappable: u32,
    /// The kernel has asked for pages of it, or written some, and may have kept them.
    cached: bool,
}

/// The inodes that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    shards: [Mutex<FxHashMap<Ino, Node>>; SHARDS],
}

impl Nodes {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn shard(&self, ino: Ino) -> &Mutex<FxHashMap<Ino, Node>> {
        // Numbers are offsets of slots: their low bits are all alike.
        &self.shards[(ino.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize]
    }

    /// The kernel is about to learn of `ino` once more. The shard is locked while the design opens it, so that none forgets it
    /// in between.
    pub(crate) fn learn(&self, fs: &dyn FileSystem, ino: Ino) -> Result<()> {
        let mut shard = self.shard(ino).lock();
        let node = shard.entry(ino).or_default();
        if node.lookups == 0
            && let Err(errno) = fs.open(ino, OpenFlags::PATH)
        {
            shard.remove(&ino);
            return Err(errno);
        }
        node.lookups += 1;
        Ok(())
    }

    /// The kernel forgets `count` of the times that it has learned of `ino`.
    pub(crate) fn forget(&self, fs: &dyn FileSystem, ino: Ino, count: u64) {
        let mut shard = self.shard(ino).lock();
        let Some(node) = shard.get_mut(&ino) else { return };
        node.lookups = node.lookups.saturating_sub(count);
        if node.lookups == 0 {
            shard.remove(&ino);
            drop(shard);
            fs.release(ino);
        }
    }

    /// Forgets everything: the kernel has gone.
    pub(crate) fn forget_all(&self, fs: &dyn FileSystem) {
        for shard in &self.shards {
            let known = std::mem::take(&mut *shard.lock());
            for ino in known.into_keys() {
                fs.release(ino);
            }
        }
    }

    /// A descriptor of it was opened with `flags`.
    pub(crate) fn opened(&self, ino: Ino, flags: OpenFlags) {
        self.count_mappable(ino, flags, |mappable| mappable + 1);
    }

    /// A descriptor that was opened with `flags` has gone, with its maps.
    pub(crate) fn closed(&self, ino: Ino, flags: OpenFlags) {
        self.count_mappable(ino, flags, |mappable| mappable.saturating_sub(1));
    }

    fn count_mappable(&self, ino: Ino, flags: OpenFlags, change: impl Fn(u32) -> u32) {
        if flags.contains(OpenFlags::READ | OpenFlags::WRITE)
            && let Some(node) = self.shard(ino).lock().get_mut(&ino)
        {
            node.mappable = change(node.mappable);
        }
    }

    /// Whether a program may have stored to it through a map what the kernel has not written yet.
    pub(crate) fn may_be_mapped(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|node| node.mappable > 0)
    }

    /// The kernel is about to get pages of it, or to keep those that it writes. To be called before the design is asked.
    pub(crate) fn set_cached(&self, ino: Ino) {
        if let Some(node) = self.shard(ino).lock().get_mut(&ino) {
            node.cached = true;
        }
    }

    /// Whether the kernel may have pages of it. After the design has written: pages that are asked for later are new.
    pub(crate) fn may_be_cached(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|node| node.cached)
    }

    /// Contents or attributes have changed: the access time is old again.
    pub(crate) fn changed(&self, ino: Ino) {
        if let Some(node) = self.shard(ino).lock().get_mut(&ino) {
            node.accessed = false;
        }
    }

    pub(crate) fn is_accessed(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(&ino).is_some_and(|node| node.accessed)
    }

    /// Its access time is new from now on; whether it was before.
    pub(crate) fn set_accessed(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get_mut(&ino).is_some_and(|node| std::mem::replace(&mut node.accessed, true))
    }
}
