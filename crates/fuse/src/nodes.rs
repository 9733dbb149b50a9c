//! Which inodes the kernel knows.
//!
//! The kernel refers to inodes by number, from the first reply that names one until it forgets it. Such an inode must stay usable
//! after its last name has gone, and its number must not be given to another file: before a name goes, the inode that it leads to
//! is opened in the design ([`vfs::FileSystem::open`]) if the kernel knows it, and stays open until the kernel forgets it. So what
//! keeps its name costs an entry of 16 bytes here and nothing in the design.
//!
//! ```text
//!   unknown ──first lookup──► known (n) ──lookup──► known (n + 1)      a name goes: known ──open──► pinned
//!      ▲                         │                                     n is 0: pinned ──release──► unknown
//!      └─────────n is 0◄─────────┴──forget k──► known (n − k)
//! ```
//!
//! The kernel holds the lock of a directory over every change of its names and over every lookup in it. So between the design's
//! answer to a lookup and the entry here, or between pinning and the removal of a name, the name leads to the same inode. For a
//! number that no name led to (a handle of name_to_handle_at(2)) nothing holds: it is pinned at once.
//!
//! Lock order: a shard comes before all locks of the design, and only one is held at a time.

use hashbrown::HashTable;
use parking_lot::Mutex;
use vfs::{FileSystem, Ino, OpenFlags, Result};

const SHARDS: usize = 64;

/// What is kept of an inode that the kernel knows.
#[derive(Clone, Copy, Debug)]
struct Node {
    ino: u64,
    /// How often the kernel has learned of it. A count that has reached the end stays there: such an inode is kept until the
    /// kernel has gone.
    lookups: u32,
    /// The flags below; above them the count of [`MAPPABLE`].
    state: u32,
}

/// Its access time is later than every change that went through this mount.
const ACCESSED: u32 = 1;
/// The kernel has asked for pages of it, or written some, and may have kept them.
const CACHED: u32 = 1 << 1;
/// It is open in the design.
const PINNED: u32 = 1 << 2;
/// One descriptor that lets a program store through a shared map: those for reading and writing. The kernel releases one when its
/// maps have gone as well, and have been written.
const MAPPABLE: u32 = 1 << 3;

impl Node {
    fn new(ino: Ino) -> Self {
        Self { ino: ino.0, lookups: 0, state: 0 }
    }

    fn is(&self, flag: u32) -> bool {
        self.state & flag != 0
    }

    fn learn(&mut self) {
        self.lookups = self.lookups.saturating_add(1);
    }

    /// Whether the kernel does not know it any more.
    fn forget(&mut self, count: u64) -> bool {
        if self.lookups < u32::MAX {
            self.lookups = self.lookups.saturating_sub(count.min(u64::from(u32::MAX)) as u32);
        }
        self.lookups == 0
    }
}

/// Numbers may be offsets of slots, whose low bits are all alike; the table uses the low bits of the hash and the upper seven.
fn hash(ino: u64) -> u64 {
    let product = ino.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ product >> 32
}

/// One part of the table.
#[derive(Debug, Default)]
struct Shard(HashTable<Node>);

impl Shard {
    fn get(&self, ino: Ino) -> Option<&Node> {
        self.0.find(hash(ino.0), |node| node.ino == ino.0)
    }

    fn get_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.0.find_mut(hash(ino.0), |node| node.ino == ino.0)
    }

    fn get_or_insert(&mut self, ino: Ino) -> &mut Node {
        let found = self.0.entry(hash(ino.0), |node| node.ino == ino.0, |node| hash(node.ino));
        found.or_insert_with(|| Node::new(ino)).into_mut()
    }

    /// Takes a node out; gives memory back when most of the table is empty.
    fn remove(&mut self, ino: Ino) -> Option<Node> {
        let Ok(found) = self.0.find_entry(hash(ino.0), |node| node.ino == ino.0) else { return None };
        let (node, _) = found.remove();
        if self.0.len() < self.0.capacity() / 8 {
            self.0.shrink_to(2 * self.0.len(), |node| hash(node.ino));
        }
        Some(node)
    }
}

/// The inodes that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    shards: [Mutex<Shard>; SHARDS],
}

impl Nodes {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn shard(&self, ino: Ino) -> &Mutex<Shard> {
        &self.shards[(hash(ino.0) >> 48) as usize % SHARDS]
    }

    /// The kernel is about to learn of `ino` once more, which a name leads to.
    pub(crate) fn learn(&self, ino: Ino) {
        self.shard(ino).lock().get_or_insert(ino).learn();
    }

    /// The kernel is about to learn of `ino` once more, which the design has opened for it: the first time it stays open, so that
    /// its number is not given away whatever becomes of its name.
    pub(crate) fn learn_opened(&self, fs: &dyn FileSystem, ino: Ino) {
        let mut shard = self.shard(ino).lock();
        let node = shard.get_or_insert(ino);
        let known = node.is(PINNED);
        node.state |= PINNED;
        node.learn();
        drop(shard);
        if known {
            fs.release(ino);
        }
    }

    /// The kernel is about to learn of `ino` once more, which no name need lead to. The shard is locked while the design opens it,
    /// so that none forgets it in between.
    pub(crate) fn learn_pinned(&self, fs: &dyn FileSystem, ino: Ino) -> Result<()> {
        let mut shard = self.shard(ino).lock();
        let known = shard.get(ino).is_some_and(|node| node.is(PINNED));
        if !known {
            fs.open(ino, OpenFlags::PATH)?;
        }
        let node = shard.get_or_insert(ino);
        node.state |= PINNED;
        node.learn();
        Ok(())
    }

    /// A name of `ino` is about to go: it stays usable as long as the kernel knows it.
    pub(crate) fn pin(&self, fs: &dyn FileSystem, ino: Ino) -> Result<()> {
        let mut shard = self.shard(ino).lock();
        if let Some(node) = shard.get_mut(ino).filter(|node| !node.is(PINNED)) {
            fs.open(ino, OpenFlags::PATH)?;
            node.state |= PINNED;
        }
        Ok(())
    }

    /// The kernel forgets `count` of the times that it has learned of `ino`.
    pub(crate) fn forget(&self, fs: &dyn FileSystem, ino: Ino, count: u64) {
        let mut shard = self.shard(ino).lock();
        if !shard.get_mut(ino).is_some_and(|node| node.forget(count)) {
            return;
        }
        let gone = shard.remove(ino);
        drop(shard);
        if gone.is_some_and(|node| node.is(PINNED)) {
            fs.release(ino);
        }
    }

    /// Forgets everything: the kernel has gone.
    pub(crate) fn forget_all(&self, fs: &dyn FileSystem) {
        for shard in &self.shards {
            let known = std::mem::take(&mut *shard.lock());
            for node in known.0.iter().filter(|node| node.is(PINNED)) {
                fs.release(Ino(node.ino));
            }
        }
    }

    /// A descriptor of it was opened with `flags`.
    pub(crate) fn opened(&self, ino: Ino, flags: OpenFlags) {
        if flags.contains(OpenFlags::READ | OpenFlags::WRITE) {
            self.change(ino, |state| state.checked_add(MAPPABLE).unwrap_or(state));
        }
    }

    /// A descriptor that was opened with `flags` has gone, with its maps.
    pub(crate) fn closed(&self, ino: Ino, flags: OpenFlags) {
        if flags.contains(OpenFlags::READ | OpenFlags::WRITE) {
            self.change(ino, |state| if state >= MAPPABLE { state - MAPPABLE } else { state });
        }
    }

    /// Whether a program may have stored to it through a map what the kernel has not written yet.
    pub(crate) fn may_be_mapped(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(ino).is_some_and(|node| node.state >= MAPPABLE)
    }

    /// The kernel is about to get pages of it, or to keep those that it writes. To be called before the design is asked.
    pub(crate) fn set_cached(&self, ino: Ino) {
        self.change(ino, |state| state | CACHED);
    }

    /// Whether the kernel may have pages of it. After the design has written: pages that are asked for later are new.
    pub(crate) fn may_be_cached(&self, ino: Ino) -> bool {
        self.is(ino, CACHED)
    }

    /// Contents or attributes have changed: the access time is old again.
    pub(crate) fn changed(&self, ino: Ino) {
        self.change(ino, |state| state & !ACCESSED);
    }

    pub(crate) fn is_accessed(&self, ino: Ino) -> bool {
        self.is(ino, ACCESSED)
    }

    /// Its access time is new from now on; whether it was before.
    pub(crate) fn set_accessed(&self, ino: Ino) -> bool {
        self.change(ino, |state| state | ACCESSED).is_some_and(|before| before & ACCESSED != 0)
    }

    fn is(&self, ino: Ino, flag: u32) -> bool {
        self.shard(ino).lock().get(ino).is_some_and(|node| node.is(flag))
    }

    /// Whether the kernel knows it.
    pub(crate) fn knows(&self, ino: Ino) -> bool {
        self.shard(ino).lock().get(ino).is_some()
    }

    /// Changes the flags and the count of an inode, if the kernel knows it; what they were.
    fn change(&self, ino: Ino, change: impl Fn(u32) -> u32) -> Option<u32> {
        let mut shard = self.shard(ino).lock();
        let node = shard.get_mut(ino)?;
        let before = node.state;
        node.state = change(before);
        Some(before)
    }
}

const _: () = assert!(size_of::<Node>() == 16);
